"""Transactions over the wire: ids and fencing, commits and aborts, the records that consumers read, and expiration."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from actors import NEW, OLD, Reader, TransactionalProducer
from inprocess import InProcess
from kafkawire.batches import iter_batches, iter_records, read_header
from kafkawire.coordinator_log import read_record
from kafkawire.coordinator_records import GROUP_RECORDS, TRANSACTION_RECORDS
from kafkawire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkawire.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.messages.list_transactions import ListTransactionsRequest
from requesting import (
    delete_records,
    end_txn,
    fetch,
    offset_delete,
    plain,
    produce_request,
)
from responses import only
from wirebroker.client.wire import ConnectionClosed
from wirebroker.core.open_transactions import OpenTransactions
from wirebroker.core.producers import open_since
from wirebroker.core.transactions.states import PREVIOUS, TransactionState
from wirebroker.mock import MockKafka
from wirekit import batch, client

OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE, UNKNOWN_ID, CONCURRENT, UNSTABLE, FENCED = 45, 47, 48, 49, 51, 88, 90


@pytest.fixture
def kafka() -> InProcess:
    return InProcess(topics={"orders": 2, "results": 1})


def started(kafka: InProcess, **options: Any) -> TransactionalProducer:
    producer = TransactionalProducer(kafka, **options)
    assert producer.init() == 0
    return producer


def test_the_table_of_states_is_closed() -> None:
    assert set(PREVIOUS) == set(TransactionState)
    assert TransactionState.ONGOING not in PREVIOUS[TransactionState.COMPLETE_COMMIT]


# Ids and fencing


def test_c1_a_second_init_raises_the_epoch_and_fences_the_zombie(kafka: InProcess) -> None:
    zombie = started(kafka)
    heir = started(kafka)
    assert (heir.pid, heir.epoch) == (zombie.pid, zombie.epoch + 1)
    assert heir.send("mine").error_code == 0
    assert zombie.send("stale").error_code == INVALID_EPOCH
    assert [zombie.add(version=1), zombie.add(version=3)] == [INVALID_EPOCH, FENCED]
    assert [zombie.end(version=1), zombie.end(version=4), zombie.end(version=5)] == [INVALID_EPOCH, FENCED, FENCED]
    assert heir.end() == 0
    assert Reader(kafka).values() == ["mine0"]


def test_c1_a_zombie_may_not_init_with_its_old_epoch(kafka: InProcess) -> None:
    zombie = started(kafka)
    for _ in range(2):
        started(kafka)
    assert zombie.init(version=3, current=(zombie.pid, zombie.epoch)) == INVALID_EPOCH
    assert zombie.init(version=4, current=(zombie.pid, zombie.epoch)) == FENCED


def test_c1_a_transaction_that_could_not_begin_orders_later_batches_outside_it(kafka: InProcess) -> None:
    """Asked of Kafka 4.3.1: the partition remembers the first sequence of the refused transaction (VerificationStateEntry)."""
    producer = started(kafka)
    producer.epoch += 5
    assert producer.send("unknown epoch").error_code == INVALID_EPOCH
    batches = [produce_request("orders", batch(sequence, 3, pid=producer.pid, epoch=0)) for sequence in (0, 3)]
    assert [only(producer.ask(each, 9)).error_code for each in batches] == [0, OUT_OF_ORDER]


def test_c1_ids_and_epochs_survive_a_restart(kafka: InProcess) -> None:
    first = started(kafka)
    first.send("a")
    assert first.end() == 0
    kafka.restart("kill")
    second = TransactionalProducer(kafka)
    assert second.init() == 0
    assert (second.pid, second.epoch) == (first.pid, first.epoch + 1)


@pytest.mark.parametrize("offset", [0, 1])
def test_a_truncated_marker_leaves_the_state_that_a_restart_reads_from_the_log(kafka: InProcess, offset: int) -> None:
    producer = started(kafka)
    producer.send("a")
    assert producer.end() == 0
    kafka.truncate("orders", 0, offset)
    partition = kafka._engine.cluster.topics["orders"].partitions[0]
    left = dict(partition.producers)
    assert [open_since(each) for each in left.values()] == [0] * offset
    assert Reader(kafka).values() == []
    kafka.restart("kill")
    assert partition.producers == left


# Commits and aborts


@pytest.mark.parametrize("version", [OLD, NEW])
def test_c2_c3_a_transaction_is_seen_whole_or_not_at_all(kafka: InProcess, version: int) -> None:
    producer, reader = started(kafka, version=version), Reader(kafka)
    for commit in (True, False, True):
        for partition in (0, 1):
            if version == OLD:
                assert producer.add(partition=partition) == 0
            assert producer.send(f"{commit}", partition=partition).error_code == 0
            before = [reader.values(partition=each) for each in (0, 1)]
            assert before[0] == before[1], "records of an open transaction are visible on no partition"
        assert producer.end(commit) == 0
    sequences = (0, 2) if version == OLD else (0, 0)
    assert [reader.values(partition=each) for each in (0, 1)] == [[f"True{each}" for each in sequences]] * 2
    assert len(Reader(kafka, committed=False).values()) == 3


def test_c2_old_clients_continue_their_sequence_and_new_ones_start_at_zero(kafka: InProcess) -> None:
    old, new = started(kafka, txid="old", version=OLD), started(kafka, txid="new", version=NEW)
    for _ in range(2):
        old.add()
        assert old.send("a").error_code == 0
        assert old.end() == 0
    assert (old.epoch, old.sequences) == (0, {("orders", 0): 2})
    epochs = []
    for _ in range(2):
        assert new.send("b", partition=1).error_code == 0
        assert new.end() == 0
        epochs.append(new.epoch)
    assert epochs == [1, 2]
    assert new.send("b", partition=1, sequence=1).error_code == OUT_OF_ORDER


def test_c2_a_repeated_end_is_answered_again_and_the_opposite_refused(kafka: InProcess) -> None:
    producer = started(kafka)
    producer.send("a")
    pid, epoch = producer.pid, producer.epoch
    assert producer.end() == 0
    after = (producer.pid, producer.epoch)
    producer.pid, producer.epoch = pid, epoch
    assert producer.end(commit=False) == INVALID_STATE
    assert producer.end() == 0
    assert (producer.pid, producer.epoch) == after


def internal_records(kafka: InProcess, topic: str, kinds: dict[int, tuple[str, str]]) -> list[Any]:
    """Returns the decoded records of all partitions of an internal topic."""
    found = []
    for index in range(4):
        response = Reader(kafka, committed=False).fetch(topic, index)
        for raw in iter_batches(response.records):
            if not read_header(raw).is_control:
                found += [read_record(kinds, r.key or b"", r.value) for r in iter_records(raw)]
    return found


def test_c2_the_transaction_log_is_written_in_kafkas_format(kafka: InProcess) -> None:
    producer = started(kafka)
    producer.send("a")
    assert producer.end() == 0
    rows = internal_records(kafka, "__transaction_state", TRANSACTION_RECORDS)
    assert {row.key.transactional_id for row in rows} == {"till"}
    assert [row.value.transaction_status for row in rows] == [0, 1, 2, 4], "Empty, Ongoing, PrepareCommit, CompleteCommit"
    assert [row.value.producer_epoch for row in rows] == [0, 0, 1, 1]
    assert rows[1].value.transaction_partitions[0].topic == "orders"


# Readers


def test_c3_an_open_transaction_hides_later_records(kafka: InProcess) -> None:
    slow, quick = started(kafka, txid="slow"), started(kafka, txid="quick")
    slow.send("slow")
    quick.send("quick")
    assert quick.end() == 0
    committed, all_of_it = Reader(kafka), Reader(kafka, committed=False)
    assert (committed.end(), all_of_it.end()) == (0, 3)
    assert (committed.values(), all_of_it.values()) == ([], ["slow0", "quick0"])
    assert slow.end(commit=False) == 0
    assert (committed.end(), committed.values()) == (4, ["quick0"])


def test_c3_a_fetch_lists_the_aborted_transactions_of_its_records(kafka: InProcess) -> None:
    producer = started(kafka)
    for number in range(3):
        producer.send(f"{number}")
        assert producer.end(commit=number == 1) == 0
    aborted = Reader(kafka).fetch().aborted_transactions
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(producer.pid, 0), (producer.pid, 4)]
    later = Reader(kafka).fetch(offset=2).aborted_transactions
    assert [each.first_offset for each in later] == [4]
    assert Reader(kafka, committed=False).fetch().aborted_transactions is None


def test_c3_a_waiting_reader_is_answered_when_the_transaction_ends(kafka: InProcess) -> None:
    producer, reader = started(kafka), client(kafka)
    producer.send("a")
    request = fetch(wait_ms=30000, isolation_level=1)
    reader.send(request, 12)
    assert producer.end() == 0
    response = only(reader.response(timeout=10))
    assert (response.last_stable_offset, len(list(iter_batches(response.records)))) == (2, 2)


def test_c3_an_open_transaction_survives_a_restart_and_can_be_committed(kafka: InProcess) -> None:
    producer = started(kafka, version=OLD)
    producer.add()
    producer.send("a")
    kafka.restart("kill")
    assert Reader(kafka).end() == 0
    producer.wire = client(kafka)
    assert producer.end() == 0
    assert Reader(kafka).values() == ["a0"]


def test_c3_records_that_a_kill_brings_back_are_still_known_as_aborted() -> None:
    """After a kill, the log begins where the last checkpoint says. Kafka's index of aborted transactions has the transactions
    before the log's start, too, until their segment is deleted."""
    kafka = InProcess(topics=["orders"])
    partition = kafka.engine.cluster.topics["orders"].partitions[0]
    producer = started(kafka)
    for value in "ab":
        producer.send(value)
        assert producer.end(commit=value == "b") == 0
    assert only(client(kafka).request(delete_records(3), 2)).error_code == 0
    kafka.restart("kill")
    assert (partition.log_start_offset, Reader(kafka).values()) == (0, ["b0"])


def test_c3_aborted_transactions_are_forgotten_with_their_segment(kafka: InProcess) -> None:
    partition = kafka.engine.cluster.topics["orders"].partitions[0]
    producer = started(kafka)
    for value in "ab":
        producer.send(value)
        assert producer.end(commit=False) == 0
    partition.log.roll(kafka.clock.now())
    for offset, left in ((2, 2), (3, 2), (4, 0)):
        assert only(client(kafka).request(delete_records(offset), 2)).error_code == 0
        assert len(partition.transactions.ended_between(0, 10)) == left


def test_c3_aborted_transactions_are_forgotten_with_a_segment_that_expires_while_the_broker_is_down(kafka: InProcess) -> None:
    partition = kafka.engine.cluster.topics["orders"].partitions[0]
    producer = started(kafka)
    producer.send("a")
    assert producer.end(commit=False) == 0
    kafka.kill_broker(1)
    kafka.clock.advance(days=8)
    kafka.start_broker(1)
    assert (partition.log_start_offset, partition.transactions.ended_between(0, 10)) == (2, [])


# Time


def test_c4_a_transaction_that_is_open_too_long_is_aborted_and_its_producer_fenced(kafka: InProcess) -> None:
    producer = started(kafka, timeout_ms=30_000)
    producer.send("a")
    kafka.clock.advance(seconds=29)
    assert Reader(kafka).end() == 0
    kafka.clock.advance(seconds=12)
    assert Reader(kafka).end() == 2
    assert producer.send("b").error_code == INVALID_EPOCH
    assert (producer.end(version=4), producer.end(version=5)) == (FENCED, INVALID_STATE)
    assert Reader(kafka).values() == []


def test_c4_the_timeout_counts_from_the_first_partition(kafka: InProcess) -> None:
    producer = started(kafka, timeout_ms=60_000)
    producer.send("first")
    kafka.clock.advance(seconds=50)
    producer.send("second", partition=1)
    kafka.clock.advance(seconds=20)
    assert producer.send("third", partition=1).error_code == INVALID_EPOCH


def test_c4_a_producer_does_not_expire_while_its_transaction_is_open() -> None:
    kafka = InProcess(
        topics={"orders": 1}, configs={"producer.id.expiration.ms": 2000, "producer.id.expiration.check.interval.ms": 500}
    )
    producer = started(kafka)
    producer.send("first")
    kafka.clock.advance(seconds=10)
    assert list(kafka.engine.cluster.topics["orders"].partitions[0].producers) == [producer.pid]


def test_c4_a_transactional_id_does_not_expire_while_its_transaction_is_open(
    mock_kafka_factory: Callable[..., MockKafka], caplog: pytest.LogCaptureFixture
) -> None:
    expiry = {"transactional.id.expiration.ms": 1000, "transaction.remove.expired.transaction.cleanup.interval.ms": 1000}
    kafka = mock_kafka_factory(topics={"orders": 1}, configs=expiry, clock="frozen")
    producer = started(kafka)
    producer.send("a")
    kafka.clock.advance(seconds=5)
    assert [each.exc_text for each in caplog.records if each.exc_info] == [], "no timer tried to expire the open transaction"
    assert producer.end() == 0
    kafka.clock.advance(seconds=5)
    assert kafka.transactions() == {}


def test_c3_readers_learn_of_an_aborted_transaction_around_another_one() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 0)
    transactions.begin(2, 1)
    transactions.end(2, 2, aborted=True)
    transactions.end(1, 3, aborted=True)
    assert [each.producer_id for each in transactions.aborted_between(0, 2)] == [2, 1]


def test_c3_readers_wait_for_an_earlier_transaction_until_its_marker_is_replicated() -> None:
    transactions = OpenTransactions()
    transactions.begin(1, 0)
    transactions.begin(2, 1)
    transactions.end(1, 2, aborted=False, replicated=False)
    assert transactions.first_unstable() == 0
    transactions.replicated_up_to(3)
    assert transactions.first_unstable() == 1


def test_c4_timed_out_transactions_are_looked_for_at_the_multiples_of_an_interval(
    mock_kafka_factory: Callable[..., MockKafka],
) -> None:
    kafka = mock_kafka_factory(topics={"orders": 2}, clock="frozen")  # the broker looks for expired transactions every 10 s
    kafka.clock.advance(milliseconds=33_333)
    for stable in (2, 4):
        started(kafka, timeout_ms=5_000).send("a")
        kafka.clock.advance(milliseconds=6_666)
        assert Reader(kafka).end() == stable - 2
        kafka.clock.advance(milliseconds=1)
        assert Reader(kafka).end() == stable
        kafka.clock.advance(milliseconds=63_333)


def test_c5_a_transactional_id_expires_after_seven_days(kafka: InProcess) -> None:
    first = started(kafka)
    started(kafka)
    kafka.clock.advance(days=6, hours=23)
    again = started(kafka)
    assert (again.pid, again.epoch) == (first.pid, 2)
    kafka.clock.advance(days=7, hours=1)
    anew = started(kafka)
    assert anew.pid != first.pid
    assert anew.epoch == 0


def test_c5_a_transactional_id_expires_also_after_a_downgrade_of_transactions(kafka: InProcess) -> None:
    """The tombstone of the transactional id has no client version, because records of transaction.version 0 cannot have one."""
    producer = started(kafka)
    producer.send("v")
    assert producer.end() == 0
    update = {"feature": "transaction.version", "max_version_level": 0, "upgrade_type": 3}
    assert client(kafka).request(plain("UpdateFeatures", timeout_ms=1000, feature_updates=[update]), 1).error_code == 0
    kafka.clock.advance(days=8)
    assert kafka.engine.transactions.transactions == {}


def test_c6_an_expired_producer_is_forgotten_and_a_late_duplicate_stored_again(kafka: InProcess) -> None:
    wire = client(kafka)
    data = batch(5, 1, pid=7, epoch=0)

    def send() -> int:
        response = only(wire.request(produce_request("orders", data), 9))
        offset: int = response.base_offset
        return offset

    assert [send(), send()] == [0, 0]
    kafka.clock.advance(days=1, minutes=11)
    assert send() == 1


def test_c6_a_producer_with_an_open_transaction_does_not_expire(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    kafka = mock_kafka_factory(topics={"orders": 1}, configs={"transaction.max.timeout.ms": 900_000_000})
    producer = started(kafka, timeout_ms=800_000_000)
    producer.send("a")
    kafka.clock.advance(days=2)
    assert list(kafka.producers("orders", 0)) == [producer.pid]
    assert producer.send("b").error_code == 0


# Offsets


@pytest.mark.parametrize("version", [4, 5])
def test_c2_offsets_are_valid_once_the_transaction_commits(kafka: InProcess, version: int) -> None:
    producer, reader = started(kafka, version=OLD if version == 4 else NEW), Reader(kafka)
    assert reader.committed_offset("team") == (0, -1)
    assert producer.send_offsets("team", 7, version=version) == 0
    assert reader.committed_offset("team") == (UNSTABLE, -1)
    assert reader.committed_offset("team", stable=False) == (0, -1)
    assert producer.end(commit=False) == 0
    assert reader.committed_offset("team") == (0, -1)
    assert producer.send_offsets("team", 8, version=version) == 0
    assert producer.end() == 0
    assert reader.committed_offset("team") == (0, 8)


TAKES_OFFSETS: dict[str, Callable[[InProcess], object]] = {
    "DeleteTopics": lambda kafka: client(kafka).request(plain("DeleteTopics", topic_names=["orders"], timeout_ms=1000), 5),
    "delete_topic": lambda kafka: kafka.delete_topic("orders"),
    "OffsetDelete": lambda kafka: client(kafka).request(offset_delete("team"), 0),
    "DeleteGroups": lambda kafka: client(kafka).request(plain("DeleteGroups", groups_names=["team"]), 2),
}
"""The deeds that delete the offsets of the group `team` for the topic `orders`."""


@pytest.mark.parametrize("deed", TAKES_OFFSETS)
def test_c2_what_deletes_offsets_also_deletes_those_of_open_transactions(kafka: InProcess, deed: str) -> None:
    """As on Kafka 4.3.1, a commit of the transaction does not bring the offsets back."""
    producer, reader = started(kafka), Reader(kafka)
    assert reader.committed_offset("team") == (0, -1)
    assert producer.send_offsets("team", 7) == 0
    TAKES_OFFSETS[deed](kafka)
    if "orders" not in kafka.engine.cluster.topics:
        kafka.create_topic("orders")
    assert producer.end() == 0
    assert reader.committed_offset("team") == (0, -1)


def test_c2_committed_offsets_are_written_in_kafkas_format(kafka: InProcess) -> None:
    reader, producer = Reader(kafka), started(kafka)
    reader.committed_offset("team")
    assert producer.send_offsets("team", 8) == 0
    assert producer.end() == 0
    rows = internal_records(kafka, "__consumer_offsets", GROUP_RECORDS)
    (row,) = [row for row in rows if hasattr(row.key, "topic")]
    assert (row.key.group, row.key.topic, row.key.partition, row.value.offset) == ("team", "orders", 0, 8)


def test_c7_b12_consume_transform_produce_is_exactly_once_over_lost_connections(kafka: InProcess) -> None:
    """Runs a thousand transactions. In one of five cases, the connection is lost at a random moment."""
    count, chance = 1_000, random.Random(7)
    feeder = client(kafka)
    for start in range(0, count, 100):
        feeder.request(produce_request("orders", batch(count=100, tag=f"{start // 100}-")), 9)
    reader = Reader(kafka)
    cuts = 0
    worker = restarted(kafka)
    position = max(reader.committed_offset("team")[1], 0)
    while position < count:
        cut_at = chance.randrange(3) if chance.random() < 0.2 else -1
        try:
            actions = (
                partial(worker.send, f"from {position} ", "results"),
                partial(worker.send_offsets, "team", position + 1),
                worker.end,
            )
            for step, action in enumerate(actions):
                if step == cut_at:
                    cut_off(worker, chance.random() < 0.5, step, position)
                done = action()
                assert (done if step else done.error_code) == 0
            position += 1
        except ConnectionClosed:
            cuts += 1
            worker = restarted(kafka)
            code, offset = reader.committed_offset("team")
            assert code == 0
            position = max(offset, 0)
    values = Reader(kafka).values("results")
    assert values == [f"from {number} 0" for number in range(count)]
    assert cuts > 100
    assert len(Reader(kafka, committed=False).values("results")) > count, "aborted records are in the log, but not visible"


def restarted(kafka: InProcess) -> TransactionalProducer:
    """Starts a new worker, which fences the previous worker and aborts that worker's open transaction."""
    worker = TransactionalProducer(kafka, "worker")
    while worker.init():
        pass
    return worker


def cut_off(worker: TransactionalProducer, request_arrives: bool, step: int, position: int) -> None:
    """Closes the connection before the broker gets the request, or before the client gets the response."""
    if request_arrives and step == 2:
        request = end_txn(worker.txid, (worker.pid, worker.epoch), True)
        worker.wire.request(request, 5)
    if request_arrives and step == 1:
        worker.send_offsets("team", position + 1)
    worker.wire.close()
    raise ConnectionClosed


# Admin


def test_d4_admin_clients_see_transactions_and_their_producers(kafka: InProcess) -> None:
    producer = started(kafka)
    producer.send("a")
    wire = client(kafka)
    (state,) = wire.request(DescribeTransactionsRequest(transactional_ids=["till"]), 0).transaction_states
    assert (state.transaction_state, state.producer_id, state.producer_epoch) == ("Ongoing", producer.pid, 0)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("orders", [0])]
    assert abs(state.transaction_start_time_ms - kafka.clock.now()) < 60_000
    listed = wire.request(ListTransactionsRequest(state_filters=["Ongoing", "Odd"], producer_id_filters=[]), 1)
    assert [row.transactional_id for row in listed.transaction_states] == ["till"]
    assert listed.unknown_state_filters == ["Odd"]
    request = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0])])
    (shown,) = only(wire.request(request, 0)).active_producers
    assert (shown.producer_id, shown.current_txn_start_offset, shown.coordinator_epoch) == (producer.pid, 0, -1)
    assert producer.end() == 0
    (shown,) = only(wire.request(request, 0)).active_producers
    assert (shown.producer_epoch, shown.current_txn_start_offset, shown.last_sequence) == (1, -1, -1)
    unknown = wire.request(DescribeTransactionsRequest(transactional_ids=["", "nobody"]), 0).transaction_states
    assert [state.error_code for state in unknown] == [42, 105]


# While a transaction ends


def ending(kafka: InProcess, version: int, epoch: int = 0) -> TransactionalProducer:
    """Returns a producer whose transaction is being committed. The marker cannot be written."""
    producer = started(kafka, version=version)
    producer.epoch = kafka.engine.transactions.transactions["till"].producer_epoch = epoch
    assert version == NEW or producer.add() == 0
    assert producer.send("v").error_code == 0
    kafka.engine.cluster.topics["orders"].partitions[0].go_offline(1)
    assert producer.end() == 0
    return producer


@pytest.mark.parametrize("commit", [True, False], ids=["the same", "the other"])
@pytest.mark.parametrize("version", [OLD, NEW], ids=["v1", "v2"])
def test_the_end_of_an_ending_transaction_is_awaited(kafka: InProcess, version: int, commit: bool) -> None:
    """In version 2 the producer's next end comes with its new epoch, perhaps before the markers are written."""
    assert ending(kafka, version).end(commit=commit) == CONCURRENT


@pytest.mark.parametrize("version", [OLD, NEW], ids=["v1", "v2"])
def test_the_init_of_any_producer_awaits_an_ending_transaction(kafka: InProcess, version: int) -> None:
    producer = ending(kafka, version)
    assert producer.init(current=(producer.pid + 5, 3)) == CONCURRENT


@pytest.mark.parametrize(("release", "code"), [("4.0", CONCURRENT), ("3.9", UNKNOWN_ID)])
def test_a_producer_with_its_next_id_awaits_the_end_of_its_transaction(release: str, code: int) -> None:
    """The epochs of the former id are exhausted. From 4.0 on, the producer gets its next id before the markers are written."""
    kafka = InProcess(topics={"orders": 2}, profile=f"kafka-{release}")
    bumps = code == CONCURRENT
    producer = ending(kafka, NEW if bumps else OLD, epoch=32766)
    if not bumps:
        producer.pid, producer.epoch = producer.pid + 1, 0
    assert (producer.pid, producer.epoch) == (1, 0)
    assert producer.add(partition=1) == code
    if bumps:
        assert producer.send("w", partition=1).error_code == code
        assert producer.end(commit=False) == code


def test_a_producer_with_the_last_epoch_is_fenced_in_the_same_epoch() -> None:
    """No epoch is left, so the abort keeps the last epoch. Then the producer gets a new id."""
    kafka = InProcess(topics={"orders": 1}, features={"transaction.version": 1})
    producer = started(kafka, version=OLD)
    producer.epoch = kafka.engine.transactions.transactions["till"].producer_epoch = 32767
    former = producer.pid
    assert producer.add() == 0
    assert producer.init() == CONCURRENT
    assert producer.init() == 0
    assert (producer.pid, producer.epoch) == (former + 1, 0)


def test_c1_a_producer_whose_epochs_are_exhausted_may_repeat_its_init(kafka: InProcess) -> None:
    """A producer repeats the request if the response with the new producer id is lost."""
    producer = started(kafka)
    last = kafka.engine.transactions.transactions["till"].producer_epoch = 32766
    former = producer.pid, last
    assert producer.init(current=former) == 0
    given = producer.pid, producer.epoch
    assert given == (former[0] + 1, 0)
    assert producer.init(current=former) == 0
    assert producer.pid == given[0]
