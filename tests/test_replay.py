"""`wirebroker diff` compares two sessions, and `wirebroker replay` sends a session again."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kafkawire.frames import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkawire.registry import BETWEEN_NODES, response_class
from requesting import init_producer_id, plain
from wire.random_messages import random_response, request_bytes, response_bytes, versions_of
from wirebroker import MockKafka, ProxyKafka, faults
from wirebroker.client import brokers, login
from wirebroker.commands.cli import main
from wirebroker.trace.rows import AuthenticationRow, ReplyRow
from wirebroker_tools.capture.files import packet_block, start_of_file
from wirebroker_tools.capture.packets import Line
from wirebroker_tools.commands import replay
from wirekit import RawProducer, batch, client

Play = Callable[[MockKafka], None]
Out = pytest.CaptureFixture[str]


def recorded(path: Path, play: Play, **settings: object) -> str:
    """Captures a session in which `play` sends requests to a broker. Returns the path of the capture."""
    with MockKafka(**{"topics": {"orders": 2}, "capture": path, **settings}) as kafka:  # type: ignore[arg-type]
        play(kafka)
    return str(path)


def sequences(*batches: tuple[int, int]) -> Play:
    """Returns a function. In it, an idempotent producer sends batches with the sequences in `batches`."""

    def play(kafka: MockKafka) -> None:
        producer = RawProducer(kafka)
        for first, last in batches:
            producer.send(first, last)

    return play


def produce_and_consume(kafka: MockKafka) -> None:
    """Plays a producer, a group member that commits, and a transaction."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True, client_id="billing")
    for number in range(6):
        producer.send("orders", b"order %d" % number, partition=number % 2).get(timeout=20)
    producer.close()
    writer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="payments", client_id="payments")
    writer.init_transactions()
    writer.begin_transaction()
    writer.send("orders", b"in a transaction", partition=0).get(timeout=20)
    writer.commit_transaction()
    writer.close()
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="g", auto_offset_reset="earliest", client_id="reader",
        consumer_timeout_ms=20_000, enable_auto_commit=False,
    )  # fmt: skip
    consumer.partitions_for_topic("orders")  # otherwise kafka-python may wait for ever
    assert len([next(consumer) for _ in range(7)]) == 7
    consumer.commit()
    consumer.close()


# Comparing


def test_the_same_outcomes_in_other_batches_are_no_difference(tmp_path: Path, capsys: Out) -> None:
    one = recorded(tmp_path / "a.pcapng", sequences((0, 1), (2, 3), (4, 5)))
    other = recorded(tmp_path / "b.pcapng", sequences((0, 5)))
    assert main(["diff", one, other]) == 0
    assert capsys.readouterr().out == "no difference in errors, offsets and verdicts (1 compared)\n"


def test_other_verdicts_are_shown_side_by_side(tmp_path: Path, capsys: Out) -> None:
    one = recorded(tmp_path / "a.pcapng", sequences((0, 2), (3, 5), (6, 6)))
    other = recorded(tmp_path / "b.pcapng", sequences((0, 2), (3, 5), (3, 5), (9, 9)))
    assert main(["diff", one, other]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "client 'wirebroker-conformance' Produce orders-0",
        "  stored at 0–6  |  stored at 0–5",
        "                 >  duplicate of 3",
        "                 >  rejected 45 OUT_OF_ORDER_SEQUENCE_NUMBER",
        "1 of 1 differ in errors, offsets or verdicts",
    ]


def test_another_error_of_another_api_is_a_difference(tmp_path: Path, capsys: Out) -> None:
    def refused(kafka: MockKafka) -> None:
        kafka.faults.add(faults.error("COORDINATOR_NOT_AVAILABLE", api="InitProducerId", nth=1))
        client(kafka).request(init_producer_id(None, 9), 4)

    one = recorded(tmp_path / "a.pcapng", refused)
    other = recorded(tmp_path / "b.pcapng", sequences())
    assert main(["diff", one, other]) == 1
    assert "  error 15 COORDINATOR_NOT_AVAILABLE  <\n" in capsys.readouterr().out


def test_a_file_that_is_not_a_capture_is_named(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "a").write_text("nothing")
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert capsys.readouterr().err == f"wirebroker diff: {tmp_path / 'a'}: this is neither a pcapng nor a pcap file\n"
    assert main(["replay", str(tmp_path / "b"), "--bootstrap", "127.0.0.1:1"]) == 2
    assert capsys.readouterr().err == f"wirebroker replay: {tmp_path / 'b'}: No such file or directory\n"


# Sending again


@pytest.mark.parametrize(("before", "now"), [(1, 1), (2, 1), (2, 3)])
def test_a_session_of_clients_brings_about_the_same_on_another_cluster(
    before: int, now: int, tmp_path: Path, capsys: Out
) -> None:
    session = recorded(tmp_path / "a.pcapng", produce_and_consume, brokers=before)
    with MockKafka(brokers=now, random_seed=99, trace="all") as kafka:
        producer = RawProducer(kafka)  # after this, all ids and offsets differ from the recording
        kafka.create_topic("other", 1)
        kafka.create_topic("orders", 2)
        for index in (0, 1):
            kafka.produce("orders", value=b"before", partition=index)
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers.split(",")[0]]) == 0, capsys.readouterr().out
        stored = {record.value for record in kafka.records("orders") if not record.control}
        assert stored == {b"before", b"in a transaction", *(b"order %d" % number for number in range(6))}
        pids = {record.producer_id for record in kafka.records("orders") if record.value != b"before"}
        assert producer.pid not in pids
        assert -1 not in pids
        assert {row.code for row in kafka.trace.produce()} == {0}
        consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="g")
        committed = [consumer.committed(TopicPartition("orders", index)) for index in (0, 1)]
        assert committed in ([5, 4], [6, 4]), "each is one higher than recorded (but 6 if the marker came before the commit)"
        consumer.close()


def continue_a_session(kafka: MockKafka) -> None:
    """Runs a fetch session on broker 2. The second request has no partitions, because nothing has changed."""
    index = next(index for index in (0, 1) if kafka.partition("orders", index).leader == 2)
    wire = client(kafka, 1)
    topics = [{"topic": "orders", "partitions": [{"partition": index, "partition_max_bytes": 1000}]}]
    session_id = wire.request(plain("Fetch", max_bytes=1000, topics=topics, session_epoch=0), 12).session_id
    assert session_id
    wire.request(plain("Fetch", max_bytes=1000, topics=[], session_id=session_id, session_epoch=1), 12)


def test_a_fetch_session_is_continued_where_it_began(tmp_path: Path, capsys: Out) -> None:
    session = recorded(tmp_path / "a.pcapng", continue_a_session, brokers=2)
    with MockKafka(topics={"orders": 2}, brokers=2, random_seed=99) as kafka:
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers.split(",")[0]]) == 0, capsys.readouterr().out


def test_retries_and_gaps_are_sent_again_as_they_were(tmp_path: Path, capsys: Out) -> None:
    session = recorded(tmp_path / "a.pcapng", sequences((0, 2), (3, 5), (3, 5), (9, 9)))
    with MockKafka(topics={"orders": 1}) as kafka:
        RawProducer(kafka)
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers]) == 0
        assert [row.verdict for row in kafka.trace.produce()] == ["accepted", "accepted", "duplicate", "rejected"]
        assert {row.producer_id for row in kafka.trace.produce()} == {1}
    assert capsys.readouterr().out == "no difference in errors, offsets and verdicts (1 compared)\n"


def test_a_request_whose_coordinator_is_not_ready_is_sent_again(tmp_path: Path, capsys: Out) -> None:
    session = recorded(tmp_path / "a.pcapng", sequences((0, 2)))
    with MockKafka(topics={"orders": 1}) as kafka:
        slow = kafka.faults.add(faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="InitProducerId", times=2))
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers]) == 0
        slow.assert_fired(2)
    assert capsys.readouterr().out == "no difference in errors, offsets and verdicts (1 compared)\n"


def test_a_broker_with_other_rules_makes_a_difference(tmp_path: Path, capsys: Out) -> None:
    session = recorded(tmp_path / "a.pcapng", sequences((0, 2), (9, 9), (0, 2)))
    with MockKafka(topics={"orders": 1}, profile="pulsar") as kafka:
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers]) == 1
    assert "rejected 45 OUT_OF_ORDER_SEQUENCE_NUMBER" in capsys.readouterr().out


def test_topics_that_are_not_there_are_created_only_if_asked(tmp_path: Path, capsys: Out) -> None:
    session = recorded(tmp_path / "a.pcapng", sequences((0, 2)))
    with MockKafka() as kafka:
        arguments = ["replay", session, "--bootstrap", kafka.bootstrap_servers]
        assert main(arguments) == 2
        assert capsys.readouterr().err == (
            "wirebroker replay: topics of the session do not exist: orders:1 (--create-topics creates them)\n"
        )
        assert main([*arguments, "--create-topics"]) == 0
        assert [record.offset for record in kafka.records("orders")] == [0, 1, 2]


def test_a_broker_that_does_not_respond_is_a_difference(tmp_path: Path, capsys: Out) -> None:
    session = recorded(tmp_path / "a.pcapng", sequences((0, 2)))
    with MockKafka(topics={"orders": 1}) as kafka:
        kafka.faults.add(faults.lose_ack(api="Produce", nth=1))
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers, "--timeout", "0.3"]) == 1
    assert ">  no response" in capsys.readouterr().out
    assert main(["replay", session, "--bootstrap", "127.0.0.1:1"]) == 2
    assert "the broker at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert main(["replay", session, "--bootstrap", "nowhere"]) == 2
    assert capsys.readouterr().err == "wirebroker replay: 'nowhere' is not host:port\n"


def test_groups_are_asked_for_at_their_own_coordinators(tmp_path: Path, capsys: Out) -> None:
    groups = [f"g{number}" for number in range(8)]

    def play(kafka: MockKafka) -> None:
        line = client(kafka)
        kafka.wait_until(lambda: not line.request(plain("FindCoordinator", key="g", key_type=0), 3).error_code)
        for group in groups:
            line.request(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 8)

    session = recorded(tmp_path / "a.pcapng", play)
    with MockKafka(brokers=3, topics={"orders": 2}, trace="exchanges") as kafka:
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers.split(",")[0], "--timeout", "3"]) == 0
        rows = [row for row in kafka.trace.events("reply") if isinstance(row, ReplyRow) and row.api == "OffsetFetch"]
    assert [row.errors for row in rows] == [()] * len(groups)
    assert len({row.node for row in rows}) > 1


def test_requests_are_split_by_the_leaders_of_their_partitions(tmp_path: Path, capsys: Out) -> None:
    """In the recording one broker leads all partitions. In the replay each broker leads one partition, and gets the part of
    each request that is for this partition, in order."""

    def wanted(offset: int) -> list[dict[str, int]]:
        return [{"partition": at, "fetch_offset": offset, "partition_max_bytes": 1 << 20} for at in range(3)]

    def play(kafka: MockKafka) -> None:
        line = client(kafka)
        line.request(MetadataRequest(topics=None), 12)
        parts = [{"index": at, "records": batch(0, 2)} for at in range(3)]
        data = [{"name": "orders", "partition_data": parts}]
        line.request(plain("Produce", acks=-1, timeout_ms=1000, topic_data=data), 9)
        for offset in (0, 1, 2):
            topics = [{"topic": "orders", "partitions": wanted(offset)}]
            line.request(plain("Fetch", max_wait_ms=50, min_bytes=1, max_bytes=1 << 20, topics=topics), 12)

    session = recorded(tmp_path / "a.pcapng", play, topics={"orders": 3})
    with MockKafka(brokers=3, topics={"orders": 3}, trace="all") as kafka:
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers.split(",")[0]]) == 0
        asked = [
            (row.api, row.node) for row in kafka.trace.events("reply") if isinstance(row, ReplyRow) and row.api != "Metadata"
        ]
        assert [kafka.records("orders", partition=at)[-1].offset for at in range(3)] == [1, 1, 1]
    assert sorted(asked) == sorted([("Produce", at) for at in (1, 2, 3)] + 3 * [("Fetch", at) for at in (1, 2, 3)])
    assert "no difference" in capsys.readouterr().out


def test_a_coordinator_is_found_again_and_the_wait_is_told(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "TOLD_EVERY_S", 0)

    def play(kafka: MockKafka) -> None:
        line = client(kafka)
        kafka.wait_until(lambda: not line.request(plain("FindCoordinator", key="g", key_type=0), 3).error_code)
        line.request(plain("Heartbeat", group_id="g"), 0)

    session = recorded(tmp_path / "a.pcapng", play)
    with MockKafka(topics={"orders": 2}, trace="exchanges") as kafka:
        kafka.faults.add(faults.error("NOT_COORDINATOR", api="Heartbeat", nth=1))
        assert main(["replay", session, "--bootstrap", kafka.bootstrap_servers]) == 0
        asked = [row.api for row in kafka.trace.events("reply") if isinstance(row, ReplyRow)]
    assert asked[-4:] == ["FindCoordinator", "Heartbeat", "FindCoordinator", "Heartbeat"]
    told = capsys.readouterr().err.splitlines()
    assert told[-1].endswith("requests and responses; Heartbeat gets NOT_COORDINATOR and is sent again")


@pytest.mark.parametrize("command", [["diff", "SESSION", "SESSION"], ["replay", "SESSION", "--bootstrap", "127.0.0.1:1"]])
def test_a_capture_without_a_readable_request_compares_nothing(command: list[str], tmp_path: Path, capsys: Out) -> None:
    line, path = Line(("127.0.0.1", 50_000), ("127.0.0.1", 9093)), tmp_path / "tls.pcapng"
    packets = [*line.handshake(), line.sent(False, b"\x16\x03\x01\0\x05hello"), line.sent(True, b"\x16\x03\x03\0\x05hello")]
    path.write_bytes(start_of_file() + b"".join(packet_block(0, data) for data in packets))
    assert main([str(path) if word == "SESSION" else word for word in command]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "no request of Kafka's protocol is in the 5 packets; 2 of its pieces are encrypted (TLS)" in said.err


# Secured clusters (tests/audit_spark/test_secured_kafka.py uses a real Kafka with SASL)


def test_only_requests_of_clients_are_sent(tmp_path: Path, capsys: Out) -> None:
    def exchange(port: int, request: bytes, response: bytes) -> list[bytes]:
        line = Line(("127.0.0.1", port), ("127.0.0.1", 9092))
        return [*line.handshake(), line.sent(False, request), line.sent(True, response)]

    packets = exchange(20_000, encode_request(7, "c", ApiVersionsRequest(), 0), response_bytes(ApiVersionsResponse(), 0))
    for key in BETWEEN_NODES:
        version = versions_of(response_class(key))[-1]
        packets += exchange(20_001 + key, request_bytes(key, version), response_bytes(random_response(key, version), version))
    of_a_replica = FetchRequest(replica_state=ReplicaState(replica_id=2))
    packets += exchange(30_000, encode_request(7, "broker-2-fetcher-0", of_a_replica, 17), response_bytes(FetchResponse(), 17))
    path = tmp_path / "kraft.pcapng"
    path.write_bytes(start_of_file() + b"".join(packet_block(at * 1000, each) for at, each in enumerate(packets)))
    with MockKafka() as kafka:
        assert main(["replay", str(path), "--bootstrap", kafka.bootstrap_servers]) == 0
    assert f"{len(BETWEEN_NODES) + 1} requests of brokers and controllers are not sent" in capsys.readouterr().err


def test_a_session_is_sent_over_tls(tmp_path: Path, capsys: Out) -> None:
    session, settings = recorded(tmp_path / "a.pcapng", sequences((0, 2), (3, 5), (3, 5))), tmp_path / "client.properties"
    authority, served = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    settings.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'ca.pem'}\n")
    with MockKafka(topics={"orders": 2}) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers, client_tls=served) as secured:
        arguments = ["replay", session, "--bootstrap", secured.bootstrap_servers]
        assert main([*arguments, "--command-config", str(settings)]) == 0
        assert [row.verdict for row in kafka.trace.produce()] == ["accepted", "accepted", "duplicate"]
        capsys.readouterr()
        assert main([*arguments, "--timeout", "3"]) == 2
        assert "security.protocol=SSL or SASL_SSL" in capsys.readouterr().err
    settings.write_text("security.protocol=TLS\n")
    assert main(["replay", session, "--bootstrap", "127.0.0.1:1", "--command-config", str(settings)]) == 2
    assert "client.properties: security.protocol is TLS, expected one of PLAINTEXT" in capsys.readouterr().err


def test_a_login_is_renewed_before_its_session_ends(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "RENEWED_AT", 0)  # every request needs a new login before it
    session, settings = recorded(tmp_path / "a.pcapng", produce_and_consume), tmp_path / "client.properties"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
    settings.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
    limit = {"connections.max.reauth.ms": "60000"}
    with MockKafka(
        topics={"orders": 2}, security="sasl_plaintext", users={"alice": "secret"}, configs=limit, trace="exchanges"
    ) as kafka:

        def log_in_later(*arguments: Any) -> None:
            kafka.clock.advance(seconds=2)  # Kafka refuses a second login within a second
            login.log_in(*arguments)

        monkeypatch.setattr(brokers, "log_in", log_in_later)
        command = ["replay", session, "--bootstrap", kafka.bootstrap_servers, "--command-config", str(settings)]
        assert main(command) == 0, capsys.readouterr().out
        outcomes = [
            (row.outcome, row.again) for row in kafka.trace.events("authentication") if isinstance(row, AuthenticationRow)
        ]
    assert {outcome for outcome, _ in outcomes} == {"succeeded"}
    assert sum(again for _, again in outcomes) > 10
