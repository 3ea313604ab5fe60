"""Tests kafka.audit(): it has findings after real failures, and no finding without a failure. Test names carry the ids of the
behaviours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import kafka.errors
import pytest

from kafkawire.batches import Record, build_batch, read_header, seal
from requesting import add_partitions, delete_records, end_txn, find_coordinator, init_producer_id, produce_request
from responses import only
from test_client_transactions import transform
from wirebroker import faults
from wirebroker.audit import Intended, Journal, what_if
from wirebroker.audit.checks import check_partition
from wirebroker.audit.content import digest
from wirebroker.audit.findings import BatchRow, Damage, Finding
from wirebroker.audit.journal import intended_rows
from wirebroker.audit.report import COUNTED, AuditReport
from wirebroker.audit.stored import scan
from wirebroker.core.releases import DEFAULT
from wirebroker.mock import MockKafka
from wirekit import RawProducer, client

Rows = list[tuple[int, bytes]]
"""The partition and the value of each record that a client must send."""
BATCHES = {"A": (114, 120), "B": (121, 124), "C": (125, 132), "D": (133, 142), "E": (143, 150), "F": (151, 155)}


@pytest.fixture
def broker(mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    return mock_kafka_factory(topics={"orders": 2})


# Clients. Each function starts a producer, sends these records one after another, and closes the producer.


def kafka_python(address: str, rows: Rows, idempotent: bool = True, acks: Any = "all") -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address, enable_idempotence=idempotent, acks=acks, retry_backoff_ms=20, linger_ms=0,
        retries=5 if acks else 0,
    )  # fmt: skip
    for partition, value in rows:
        producer.send("orders", value, partition=partition)
        producer.flush(timeout=10)
    producer.close(timeout=5)


def aio(address: str, rows: Rows, idempotent: bool = True, acks: Any = "all") -> None:
    async def work() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, enable_idempotence=idempotent, acks=acks, retry_backoff_ms=20
        )
        async with producer:
            for partition, value in rows:
                await producer.send_and_wait("orders", value, partition=partition)

    asyncio.run(work())


def confluent(address: str, rows: Rows, idempotent: bool = True, acks: Any = "all") -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "enable.idempotence": idempotent, "acks": acks, "retry.backoff.ms": 20,
         "reconnect.backoff.ms": 20, "linger.ms": 0, "log_level": 0} | ({} if acks else {"retries": 0})
    )  # fmt: skip
    for partition, value in rows:
        producer.produce("orders", value, partition=partition)
        producer.flush(10)


CLIENTS: dict[str, Callable[..., None]] = {"kafka-python": kafka_python, "aiokafka": aio, "confluent-kafka": confluent}
each_client = pytest.mark.parametrize("send", CLIENTS.values(), ids=CLIENTS)


def wanted(values: Rows) -> list[Intended]:
    return [Intended("orders", None, value, partition, True) for partition, value in values]


def kinds(report: AuditReport) -> list[tuple[str, str]]:
    return [(each.kind, each.severity) for each in report.findings]


def values(count: int, partition: int = 0) -> Rows:
    return [(partition, b"order %d" % number) for number in range(count)]


# Batches by hand


def batch(name: str, pid: int, epoch: int = 0, first: int | None = None, now: int | None = None) -> bytes:
    """Returns a batch of the flow. Batches with the same name have the same records. `now` is in ms since the epoch."""
    now = time.time_ns() // 1_000_000 if now is None else now
    start, end = BATCHES[name]
    records = [Record(i, 0, None, b"%s%d" % (name.encode(), n)) for i, n in enumerate(range(start, end + 1))]
    sequence = -1 if pid < 0 else start if first is None else first
    return build_batch(
        records, base_timestamp=now, producer_id=pid, producer_epoch=epoch if pid >= 0 else -1, base_sequence=sequence
    )


def content(names: str) -> list[tuple[str, None, bytes]]:
    """Returns rows of an application's journal: the records of the batches `names`."""
    return [
        ("orders", None, b"%s%d" % (name.encode(), n)) for name in names for n in range(BATCHES[name][0], BATCHES[name][1] + 1)
    ]


@pytest.fixture
def six(broker: MockKafka) -> RawProducer:
    """A producer has sent six batches at the same time, and has lost its connection before it got an ack."""
    producer = RawProducer(broker)
    for name in "ABCDEF":
        producer.wire.send(produce_request("orders", batch(name, producer.pid)), 9)
    broker.wait_until(lambda: len(broker.trace.produce()) == 6)
    producer.wire.drop("main")
    return producer


def test_b4_the_seventh_batch_of_six_in_flight_is_found(broker: MockKafka, six: RawProducer) -> None:
    assert six.raw(batch("A", six.pid)).error_code == 45, "batch A is no longer in the window"
    assert six.raw(batch("A", six.pid, epoch=1, first=0)).error_code == 0, "stored again"
    report = broker.audit()
    assert kinds(report) == [("epoch_duplicate", "likely")]
    (found,) = report.of("epoch_duplicate")
    assert found[4:10] == (six.pid, 1, 0, 6, 42, 48)
    assert found.explanation == (
        f"orders-0: records 114–120 of producer {six.pid} are stored twice: at offsets 0–6 under epoch 0 and at 42–48 "
        "under epoch 1 with sequences 0–6"
    )
    with pytest.raises(AssertionError, match="114–120"):
        report.assert_exactly_once(intended=content("ABCDEF"))
    assert kinds(report) == [("epoch_duplicate", "certain")]
    assert report.summary()["doubled"] == 7
    broker.audit().assert_exactly_once(
        intended=content("ABCDEFA")
    )  # a record that the application sends twice on purpose is not a duplicate


def test_b4_without_the_new_epoch_there_is_nothing_to_find(broker: MockKafka, six: RawProducer) -> None:
    assert six.raw(batch("B", six.pid)).base_offset == 7, "within the window"
    report = broker.audit()
    report.assert_exactly_once(intended=content("ABCDEF"))
    assert report.summary()["retries"] == {"recognised": 1, "rejected": 0}


@each_client
def test_b5_whatever_of_a_send_fails_it_is_stored_once(broker: MockKafka, send: Callable[..., None]) -> None:
    broker.faults.add(faults.lose_request(api="Produce", nth=1))
    broker.faults.add(faults.lose_ack(api="Produce", nth=3))
    send(broker.bootstrap_servers, values(4))
    broker.faults.assert_fired()
    broker.audit("orders").assert_exactly_once(intended=wanted(values(4)))
    with pytest.raises(AssertionError, match=r"lost: orders-0: the record with value 'never' was acknowledged and is not"):
        broker.audit().assert_exactly_once(intended=wanted([*values(4), (0, b"never")]))


@each_client
def test_b5_the_leader_dies_between_append_and_acknowledgement(broker: MockKafka, send: Callable[..., None]) -> None:
    lost = broker.faults.add(faults.lose_ack(api="Produce", nth=2, then="silence"))
    rows = values(3)

    def restart() -> None:
        broker.wait_until(lambda: lost.fired == 1, 20)
        broker.restart("kill")

    killer = Thread(target=restart)
    killer.start()
    send(broker.bootstrap_servers, rows)
    killer.join()
    report = broker.audit()
    report.assert_exactly_once(intended=wanted(rows))
    assert report.summary()["retries"]["recognised"] == 1


@each_client
@pytest.mark.parametrize("acks", [1, "all"])
def test_b6_acknowledged_records_that_are_not_replicated_are_lost_with_their_leader(
    mock_kafka_factory: Callable[..., MockKafka], send: Callable[..., None], acks: Any
) -> None:
    broker = mock_kafka_factory(brokers=2, topics=["orders"], configs={"default.replication.factor": 2})
    send(broker.bootstrap_servers, values(2))
    leader = broker.partition("orders").leader
    if acks == 1:
        broker.freeze_replica("orders", 0, 3 - leader)
    send(broker.bootstrap_servers, [(0, b"acknowledged")], idempotent=False, acks=acks)
    broker.kill_broker(leader)
    report = broker.audit(intended=wanted([*values(2), (0, b"acknowledged")]))
    said = ["orders-0: the record with value 'acknowledged' was acknowledged and is not stored"] if acks == 1 else []
    assert [each.explanation for each in report.findings] == said


@each_client
def test_b7_without_idempotence_the_same_failure_doubles(broker: MockKafka, send: Callable[..., None]) -> None:
    broker.faults.add(faults.lose_ack(api="Produce", nth=2))
    send(broker.bootstrap_servers, values(3), idempotent=False)
    report = broker.audit()
    assert kinds(report) == [("application_duplicate", "likely")]
    assert "at offset 1 and at 2, without a producer id" in report.findings[0].explanation
    with pytest.raises(AssertionError):
        report.assert_exactly_once(wanted(values(3)))
    assert kinds(report) == [("application_duplicate", "certain")]


SEMANTICS = {
    "at most once": {"idempotent": False, "acks": 0},
    "at least once": {"idempotent": False, "acks": "all"},
    "exactly once": {"idempotent": True, "acks": "all"},
}


@each_client
def test_b8_three_semantics_are_counted(mock_kafka_factory: Callable[..., MockKafka], send: Callable[..., None]) -> None:
    """Each client sends ten batches. The ack of the fifth batch is lost, and the first attempt to send the tenth is lost."""
    counted = {}
    for name, settings in SEMANTICS.items():
        broker = mock_kafka_factory(topics=["orders"])
        broker.faults.add(faults.lose_ack(api="Produce", nth=5))
        late = broker.faults.add(faults.lose_request(api="Produce", nth=10 if settings["acks"] == 0 else 11))
        send(broker.bootstrap_servers, values(10), **settings)
        broker.wait_until(lambda late=late: late.fired == 1)  # with acks=0 the client does not wait until the batch has arrived
        summary = broker.audit(intended=[("orders", None, value) for _, value in values(10)]).summary()
        counted[name] = tuple(summary[what] for what in ("intended", "records", "lost", "doubled"))
    assert counted == {
        "at most once": (10, 9, 1, 0),
        "at least once": (10, 11, 0, 1),
        "exactly once": (10, 10, 0, 0),
    }


@each_client
def test_b9_the_four_that_idempotence_does_not_cover(broker: MockKafka, send: Callable[..., None]) -> None:
    address = broker.bootstrap_servers
    send(address, [(0, b"restarted"), (0, b"elsewhere"), (1, b"elsewhere"), (0, b"twice"), (0, b"twice")])
    send(address, [(0, b"restarted")])
    six = RawProducer(broker)
    six.raw(batch("A", six.pid))
    six.raw(batch("A", six.pid, epoch=1, first=0))
    report = broker.audit()
    found = {each.kind: each[4:10] for each in report.findings}
    first = six.pid - 2
    assert found == {
        "session_duplicate": (first + 1, 0, 0, 0, 4, 4),
        "partition_duplicate": (first, 0, 0, 0, 0, 0),
        "application_duplicate": (first, 0, 3, 3, 3, 3),
        "epoch_duplicate": (six.pid, 1, 0, 6, 12, 18),
    }
    assert [each.explanation for each in report.findings] == [
        f"orders-0: record 2 of producer {first} is stored twice: at offset 2 and at 3, in the same epoch 0 with sequence 3; "
        "value 'twice'",
        f"orders-0: record 0 is stored twice: at offset 0 by producer {first} and at 4 by producer {first + 1}; "
        "value 'restarted'",
        f"orders-0: records 114–120 of producer {six.pid} are stored twice: at offsets 5–11 under epoch 0 and at 12–18 "
        "under epoch 1 with sequences 0–6",
        f"orders-1: record 1 of producer {first} is stored twice: at offset 1 of partition 0 and at offset 0 of partition 1; "
        "value 'elsewhere'",
    ]


# Time, and transactions


def transactional(broker: MockKafka, value: bytes, commit: bool = True) -> None:
    """Sends one record in a transaction."""
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="till")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", value, partition=0)
    producer.flush()
    producer.commit_transaction() if commit else producer.abort_transaction()
    producer.close()


@pytest.mark.parametrize(("days", "kind"), [(0, "epoch_duplicate"), (8, "session_duplicate")])
def test_c5_a_transactional_id_that_expired_comes_back_with_another_producer_id(
    mock_kafka_factory: Callable[..., MockKafka], days: int, kind: str
) -> None:
    broker = mock_kafka_factory(topics=["orders"], configs={"log.retention.ms": -1})
    transactional(broker, b"settled")
    broker.clock.advance(days=days)
    transactional(broker, b"settled")
    report = broker.audit("orders")
    assert kinds(report) == [(kind, "likely")]
    assert report.summary()["transactions"] == {"committed": 2, "aborted": 0, "open": 0}


def test_c6_a_late_duplicate_after_the_producer_expired_is_stored_again(broker: MockKafka) -> None:
    producer = RawProducer(broker)
    data = batch("A", producer.pid, now=broker.clock.now())
    assert producer.raw(data).base_offset == 0
    assert producer.raw(data).base_offset == 0, "a retry is recognised while the broker has the producer's state"
    broker.clock.advance(days=2)
    assert producer.raw(data).base_offset == 7
    report = broker.audit()
    assert kinds(report) == [("duplicate", "certain")]
    assert report.findings[0].explanation == (
        f"orders-0: sequences 114–120 of producer {producer.pid} epoch 0 are stored twice: at offsets 0–6 and at 7–13"
    )
    with pytest.raises(AssertionError, match="1 finding\n"):
        report.assert_exactly_once(intended=content("A"))


def test_c6_sequences_may_begin_again_after_the_producer_expired(broker: MockKafka) -> None:
    producer = RawProducer(broker)
    for days, name in enumerate("ABA"):
        broker.clock.advance(days=2 * days)
        producer.raw(batch(name, producer.pid, first=0, now=broker.clock.now()))
    report = broker.audit()
    assert report.summary()["records"] == 18
    (found,) = report.findings  # new sequences from zero are not duplicates; a record stored twice is a duplicate
    assert (found.kind, found.severity, found.first_offset, found.last_offset) == ("duplicate", "certain", 11, 17)
    assert "records 0–6" in found.explanation
    assert broker.audit(intended=content("ABA")).findings == []


def test_c7_consume_transform_produce_is_exactly_once_over_a_crash(broker: MockKafka) -> None:
    address = broker.bootstrap_servers
    broker.create_topic("results")
    confluent(address, values(10))
    results = [("results", None, b"from order %d" % number) for number in range(10)]
    transform(address, 10, crash_at=10)
    crashed = broker.audit("results", intended=results)
    assert set(kinds(crashed)) == {("open_transaction", "certain"), ("lost", "certain")}
    assert any("the transaction that holds it at offset" in each.explanation for each in crashed.of("lost"))
    transform(address, 10)
    report = broker.audit()
    report.assert_exactly_once(intended=[*results, *wanted(values(10))])
    states = report.summary()["topics"]["results"]
    assert (states["records"], states["aborted"], states["open"]) == (10, 1, 0)
    assert report.of("epoch_duplicate") == [], "a copy in an aborted transaction is not a duplicate"


def test_b8_with_transactions_aborted_records_that_are_sent_again_are_stored_once(broker: MockKafka) -> None:
    for commit in (False, True):
        transactional(broker, b"settled", commit)
    report = broker.audit("orders", intended=[("orders", None, b"settled", 0, True)])
    report.assert_exactly_once()
    assert [report.summary()[what] for what in ("intended", "records", "lost", "doubled")] == [1, 1, 0, 0]
    transactional(broker, b"dropped", commit=False)
    with pytest.raises(AssertionError, match=r"is not stored: the transaction that holds it at offset 4 .* was aborted"):
        broker.audit("orders").assert_exactly_once([("orders", None, b"settled"), ("orders", None, b"dropped")])


# Without a finding


def test_deleted_records_are_neither_a_gap_nor_lost(broker: MockKafka) -> None:
    producer = RawProducer(broker)
    for name in "ABCD":
        producer.raw(batch(name, producer.pid))
    producer.raw(batch("B", producer.pid, epoch=1, first=0))
    assert kinds(broker.audit()) == [("epoch_duplicate", "likely")]
    producer.wire.request(delete_records(13), 2)
    report = broker.audit()
    assert report.findings == [], "one of two copies was deleted, and the batch at the log start is still complete"
    assert report.summary()["records"] == 20
    report.assert_exactly_once(intended=content("ABCD"))
    assert {(each.kind, each.severity) for each in report.findings} == {("lost", "info")}
    assert "it may be among the 13 offsets that were deleted" in report.findings[0].explanation
    with pytest.raises(AssertionError, match="22 are missing, but at most 13 were deleted"):
        report.assert_exactly_once(intended=content("ABCDEF"))


def test_compacted_records_are_neither_a_gap_nor_lost(tmp_path: Path) -> None:
    """Each of forty keys is written several times. After compaction, offsets are missing in every possible way."""
    chance = random.Random(1)
    keys = [b"%d" % chance.randrange(40) for _ in range(300)]
    contents = [(key, b"%d " % number + bytes(12_000)) for number, key in enumerate(keys)]
    with MockKafka(data=tmp_path / "data", configs={"log.cleaner.backoff.ms": 1000}) as broker:
        settings = {"cleanup.policy": "compact", "segment.bytes": 1048576, "min.cleanable.dirty.ratio": 0.1}
        broker.create_topic("orders", configs=settings)
        producer = RawProducer(broker)
        for first in range(0, len(contents), 5):
            records = [Record(i, 0, *content) for i, content in enumerate(contents[first : first + 5])]
            data = build_batch(
                records, base_timestamp=broker.clock.now(), producer_id=producer.pid, producer_epoch=0, base_sequence=first
            )
            assert producer.raw(data).error_code == 0
        broker.clock.advance(seconds=2)
        broker.wait_until(lambda: len(broker.records("orders")) < 200)
        report = broker.audit("orders", intended=[("orders", *content) for content in contents])
        assert {(each.kind, each.severity) for each in report.findings} == {("lost", "info")}
        assert len(report.of("lost")) == len(contents) - len(broker.records("orders"))
        assert broker.audit().findings == []
        with pytest.raises(AssertionError):
            broker.audit().assert_exactly_once([("orders", b"x", b"%d" % number) for number in range(300)])


def test_retention_leaves_nothing_to_find(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker = mock_kafka_factory(topics=["orders"], configs={"log.retention.ms": 1000, "log.segment.bytes": 1048576})
    producer = RawProducer(broker)
    for name in "ABC":
        producer.raw(batch(name, producer.pid))
    broker.clock.advance(hours=1)
    producer.raw(batch("D", producer.pid, now=broker.clock.now()))
    report = broker.audit()
    assert (report.findings, report.summary()["records"]) == ([], 10)


def test_the_coordinators_own_topics_are_looked_at_without_their_contents(
    mock_kafka_factory: Callable[..., MockKafka],
) -> None:
    """While the clock is frozen, all commits of the same offset write equal records."""
    broker = mock_kafka_factory(topics=["orders"], clock="frozen")
    transactional(broker, b"settled")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    where = confluent_kafka.TopicPartition("orders", 0, 1)
    for _ in range(3):
        consumer.commit(offsets=[where], asynchronous=False)
    consumer.close()
    contents = [(each.key, each.value) for each in broker.records("__consumer_offsets")]
    assert len(contents) > len(set(contents))
    report = broker.audit()
    assert report.findings == []
    assert report.summary()["topics"]["__consumer_offsets"]["batches"] == 3
    assert "__consumer_offsets" not in str(report)


# The journal


def test_a_journal_is_kept_while_sending_and_read_afterwards(broker: MockKafka, tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    broker.faults.add(faults.lose_ack(api="Produce", nth=2))
    broker.faults.add(faults.error("MESSAGE_TOO_LARGE", after=True, api="Produce", nth=4))
    with Journal(path, producer="till 3") as journal:
        producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=20)
        for number in range(3):
            entry = journal.sent("orders", key=b"\xff%d" % number, value=f"order {number}", partition=0)
            told = producer.send("orders", f"order {number}".encode(), key=b"\xff%d" % number, partition=0)
            told.add_callback(lambda _, entry=entry: journal.acknowledged(entry))
            told.add_errback(lambda _, entry=entry: journal.failed(entry))
            with contextlib.suppress(kafka.errors.KafkaError):
                told.get(timeout=10)
        producer.close()
        journal.sent("orders", value="written down, and never sent")
    report = broker.audit()
    with pytest.raises(AssertionError) as wrong:
        report.assert_exactly_once(intended=path)
    assert kinds(report) == [("lost", "certain"), ("unacknowledged_stored", "certain")]
    assert "value 'written down, and never sent' is not stored" in str(wrong.value)
    assert "is stored at offset 2, although its sending was reported as failed" in str(wrong.value)
    assert json.loads(report.of("lost")[0].evidence)["producer"] == "till 3"


def test_lines_of_a_journal_may_come_in_any_order() -> None:
    lines: list[dict[str, Any]] = [
        {"id": 1, "acknowledged": False}, {"id": 1, "topic": "t", "value": "a"}, {"id": 1, "acknowledged": True},
        {"id": 2, "topic": "t", "value_base64": "/w=="}, {"id": 2, "acknowledged": False}, {"topic": "t", "key": "k"},
    ]  # fmt: skip
    expected = {
        Intended("t", None, b"a", acknowledged=True), Intended("t", None, b"\xff", acknowledged=False), Intended("t", b"k"),
    }  # fmt: skip
    for seed in range(20):
        random.Random(seed).shuffle(lines)
        assert set(intended_rows(lines)) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "sent.jsonl, line 2: the line is not JSON"),
        ("9" * 5000, "sent.jsonl, line 2: the line is not JSON: Exceeds the limit"),
        ("[" * 100_000, "sent.jsonl, line 2: the line is not JSON"),
        ("[1]", "line 2: expected a JSON object with a topic"),
        ('{"topic": "orders", "valeu": "x"}', "line 2: there is no field 'valeu'; did you mean 'value'?"),
        ('{"value": "x"}', "line 2: the row has no topic"),
        ('{"id": 4, "acknowledged": true}', "line 2: the row has no topic, and no other row with this id has a topic"),
        ('{"topic": "orders", "key": 4}', "line 2: key must be bytes or str, not 4"),
        ('{"topic": "orders", "partition": true}', "line 2: partition must be int, not True"),
        ('{"topic": "orders", "value_base64": "?"}', "line 2: value_base64 is not base64"),
        ('{"topic": "orders", "value": "v", "value_base64": "eA=="}', "line 2: value and value_base64 give the value twice"),
        ('{"topic": "orders", "value_sha256": "nonsense"}', "line 2: value_sha256 must be 64 hexadecimal digits"),
        ('{"topic": "orders", "id": [1]}', "line 2: id must be text or a number, not [1]"),
        ('{"topic": "\udcff"}', "line 2: the line is not UTF-8"),
    ],
)
def test_an_unreadable_journal_is_refused_with_its_line(broker: MockKafka, tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "sent.jsonl"
    path.write_text('{"topic": "orders"}\n' + line + "\n", encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=re.escape(message)):
        broker.audit(intended=path)


def test_rows_may_be_mappings_or_tuples_and_nothing_else(broker: MockKafka) -> None:
    broker.produce("orders", key=b"k", value=b"v")
    broker.produce("orders", value=None, partition=1)
    rows: list[Any] = [{"topic": "orders", "key": "k", "value_sha256": digest(b"v")}, ("orders", None, None, 1)]
    assert broker.audit(intended=rows).findings == []
    rows[0]["value_sha256"] = digest(b"v").upper()
    assert broker.audit(intended=rows).findings == []
    with pytest.raises(ValueError, match="intended row 1: expected a mapping or a tuple"):
        broker.audit(intended=["orders"])  # type: ignore[list-item]


def test_a_record_meant_for_another_partition_is_lost_there(broker: MockKafka) -> None:
    broker.produce("orders", value=b"strayed", partition=1)
    report = broker.audit(intended=[("orders", None, b"strayed", 0)])
    assert [each.explanation for each in report.findings] == [
        "orders-0: the record with value 'strayed' is not stored; partition 1 has it at offset 0"
    ]
    assert broker.audit(intended=[("orders", None, b"strayed")]).findings == []
    assert broker.audit("orders", intended=[("others", None, b"x"), ("orders", None, b"strayed")]).findings == []
    assert kinds(broker.audit(intended=[("others", None, b"x"), ("orders", None, b"strayed")])) == [("lost", "certain")]


# The report


def test_the_report_is_a_table_that_can_be_read(broker: MockKafka) -> None:
    producer = RawProducer(broker, partition=1)
    for epoch in range(12):
        producer.raw(batch("B", producer.pid, epoch=epoch, first=0))
    producer.send(9, epoch=11)
    lines = str(broker.audit()).splitlines()
    assert lines[0] == "11 findings"
    assert lines[1].startswith("  likely   epoch_duplicate: orders-1: records 0–3 of producer 0 are stored twice: ")
    assert lines[-4] == "           … and 1 more of epoch_duplicate"
    assert lines[-2].split() == ["topic", *COUNTED]
    assert lines[-1].split() == ["orders", "2", "12", "48", "1", "0", "0", "0", "0", "1"]
    assert str(broker.audit(intended=[])).splitlines()[0] == "11 findings against 0 intended records"


def test_an_unknown_topic_or_kind_of_finding_is_an_error(broker: MockKafka) -> None:
    with pytest.raises(KeyError, match="there is no topic 'order'"):
        broker.audit(["order"])
    with pytest.raises(ValueError, match="there is no kind of finding 'gaps'; did you mean 'gap'"):
        broker.audit().of("gaps")


def test_nothing_stored_is_nothing_wrong(broker: MockKafka) -> None:
    report = broker.audit()
    report.assert_exactly_once(intended=[])
    assert str(report).startswith("no finding against 0 intended records\n")
    assert report.summary()["topics"]["orders"] == dict.fromkeys(COUNTED, 0) | {"partitions": 2}


def test_the_gravest_findings_come_first(broker: MockKafka) -> None:
    report = broker.audit(intended=[])
    found = [("application_duplicate", "likely"), ("marker_without_data", "info"), ("lost", "certain")]
    report.findings = [
        Finding(kind, severity, "orders", 0, -1, -1, -1, -1, 5, 5, "{}", "orders-0: …") for kind, severity in found
    ]
    assert [line.split()[0] for line in str(report).splitlines()[:4]] == ["3", "certain", "likely", "info"]
    with pytest.raises(AssertionError, match="exactly once: 2 findings\n  lost: .*\n  application_duplicate: "):
        report.assert_exactly_once()


def test_information_never_fails(broker: MockKafka) -> None:
    """If a partition was added to a transaction, Kafka writes a marker to it, even if no batch was written to it."""
    wire = client(broker)
    wire.request(find_coordinator("till", kind=1), 4)
    given = wire.request(init_producer_id("till"), 4)
    who = (given.producer_id, given.producer_epoch)
    joined = add_partitions("till", who)
    assert only(wire.request(joined, 3)).partition_error_code == 0
    ended = end_txn("till", who, commit=False)
    assert wire.request(ended, 3).error_code == 0
    report = broker.audit()
    assert kinds(report) == [("marker_without_data", "info")]
    assert "info     marker_without_data: orders-0: the marker at offset 0 ends a transaction of producer" in str(report)
    report.assert_exactly_once(intended=[])


def test_every_text_and_codec_can_be_read(broker: MockKafka) -> None:
    for codec in range(5):
        records = [Record(i, 0, None, b"\x00 \xff %d" % codec, [("h", None)]) for i in range(2)]
        response = RawProducer(broker).raw(build_batch(records, base_timestamp=broker.clock.now(), compression=codec), 9)
        assert response.error_code == 0
    found = broker.audit().findings
    assert [each.kind for each in found] == ["application_duplicate"] * 5
    assert all("\N{MIDDLE DOT}" in each.explanation for each in found)


def test_records_that_cannot_be_read_are_a_bad_batch(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    broker = mock_kafka_factory(topics=["orders"], record_checks="header")
    producer = RawProducer(broker)
    sound = batch("A", producer.pid)
    producer.raw(seal(read_header(sound), b"nothing that could be records"))
    producer.raw(batch("B", producer.pid))
    (found,) = broker.audit().findings
    assert found.kind == "bad_batch"
    words = "position 0 of memory, near offset 0, is damaged: its checksum matches, but its records cannot be read"
    assert words in found.explanation


# Scans of a segment's bytes


def test_a_segment_is_scanned_to_its_end() -> None:
    one, two, three = (batch(name, 7, first=first) for name, first in (("A", 0), ("B", 7), ("C", 11)))
    numbered = [bytes([0] * 7 + [offset]) + data[8:] for offset, data in ((0, one), (7, two), (11, three))]
    whole = b"".join(numbered)
    unused = bytes(2**20 - len(whole))
    assert check_partition(scan(whole + unused, "t", 0, "0.log")) == [], "unused preallocated space is not damage"
    (told,) = check_partition(scan(whole + bytes(3), "t", 0, "0.log"))
    assert (told.kind, "its last 3 bytes are zeros" in told.explanation) == ("torn_tail", True)
    for cut in (1, 60, 61, 100):
        entries = list(scan(whole[:-cut], "t", 0, "0.log"))
        assert [type(each) for each in entries] == [BatchRow, BatchRow, Damage]
        (torn,) = check_partition(entries)
        assert (torn.kind, torn.first_offset) == ("torn_tail", 11)
        assert f"position {len(one) + len(two)} of 0.log" in torn.explanation
    damaged = bytearray(whole)
    damaged[len(one) + 16] = 9
    (bad,) = check_partition(scan(damaged, "t", 0, "0.log"))
    assert bad.kind == "bad_batch"
    assert "its magic byte is 9" in bad.explanation, "the scan continues after the bad batch"
    damaged = bytearray(whole)
    damaged[len(one) - 1] ^= 1
    assert [each.kind for each in check_partition(scan(damaged, "t", 0, "0.log"))] == ["crc"]
    damaged[8:12] = bytes(4)
    assert [each.kind for each in check_partition(scan(damaged, "t", 0, "0.log"))] == ["bad_batch"]


# What if


def test_a16_retries_that_another_window_recognises_or_misses(broker: MockKafka) -> None:
    producer = RawProducer(broker)
    for first in (*range(10), *range(10)):
        producer.send(first)
    one, two, five, ten = what_if(broker.trace.produce("orders"), windows=(1, 2, 5, 10))
    assert [each.recognised for each in (one, two, five, ten)] == [1, 2, 5, 10]
    assert [each.rejected for each in (one, two, five, ten)] == [9, 8, 5, 0]
    assert [each.records for each in (one, two, five, ten)] == [10] * 4, "a retry that is not recognised is rejected"
    assert [len(each.saved) for each in (one, two, five, ten)] == [0, 0, 0, 5]
    assert [len(each.lost) for each in (one, two, five, ten)] == [4, 3, 0, 0]
    assert [row.first_sequence for row in ten.saved] == [0, 1, 2, 3, 4]
    assert five.beyond == 0, "a window of five gives the same verdicts as the real run"
    costs = [each.state_bytes for each in (one, two, five, ten)]
    assert costs == sorted(costs)
    assert costs[3] - costs[0] == 9 * (costs[1] - costs[0])
    told = "10 accepted, 10 recognised as retries, 0 rejected; 10 records"
    assert str(ten).startswith(f"kafka-{DEFAULT} with a window of 10: {told}")


def test_a16_other_profiles_would_have_stored_other_things(broker: MockKafka) -> None:
    producer = RawProducer(broker)
    for first in (0, 1, 2, 5, 3, 4, 5, 0):
        producer.send(first)
    rows = broker.trace.produce()
    outcome = {
        name: (each.accepted, each.recognised, each.rejected)
        for name in ("kafka-4.3", "single", "highest", "pulsar")
        for each in what_if(rows, windows=[5 if name in ("kafka-4.3", "highest") else 1], profiles=[name])
    }
    assert outcome == {"kafka-4.3": (6, 0, 2), "single": (3, 0, 5), "highest": (6, 1, 1), "pulsar": (4, 4, 0)}


@pytest.mark.parametrize("seed", range(5))
def test_a16_under_the_same_rules_the_same_is_decided(mock_kafka_factory: Callable[..., MockKafka], seed: int) -> None:
    chance = random.Random(seed)
    window = chance.choice([1, 2, 5])
    broker = mock_kafka_factory(topics={"orders": 1}, rules={"window": window})
    producers = [RawProducer(broker) for _ in range(2)]
    following = {producer.pid: 0 for producer in producers}
    for step in range(80):
        producer = chance.choice(producers)
        first = max(following[producer.pid] + chance.choice([0, 0, 0, 0, -1, -2, -4, 3]), 0)
        response = producer.send(first, epoch=int(step > 60))
        if response.error_code == 0:
            following[producer.pid] = max(first + 1, following[producer.pid])
        elif step == 61:
            following = dict.fromkeys(following, 0)
        if chance.random() < 0.05:
            producer.raw(b"nothing")
    rows = broker.trace.produce()
    assert len({row.verdict for row in rows}) == 3
    (same,) = what_if(rows, windows=[window])
    assert (same.saved, same.lost, same.doubled, same.beyond) == ([], [], [], 0)
    assert same.records == len(broker.records("orders"))


def test_a16_an_expired_producer_is_new_to_the_replay_as_well(broker: MockKafka) -> None:
    producer = RawProducer(broker)
    data = batch("A", producer.pid, now=broker.clock.now())
    producer.raw(data)
    broker.clock.advance(days=2)
    producer.raw(data)
    (same,) = what_if(broker.trace.produce(), windows=[5])
    assert (same.accepted, same.beyond) == (2, 0)
    (never,) = what_if(broker.trace.produce(), windows=[5], expiration_ms=10**12)
    assert (never.accepted, never.recognised, len(never.saved)) == (1, 1, 1)


@pytest.mark.parametrize("newest", [11, 12], ids=["transaction version 1", "transaction version 2"])
def test_a16_transactions_are_replayed_as_they_were_judged(mock_kafka_factory: Callable[..., MockKafka], newest: int) -> None:
    broker = mock_kafka_factory(topics=["orders"], max_versions={"Produce": newest})
    for number in range(6):
        transactional(broker, b"%d" % number, commit=number % 3 != 0)
    (same,) = what_if(broker.trace.produce("orders"), windows=[5])
    assert (same.accepted, same.rejected, same.beyond, same.records) == (6, 0, 0, 6)
