"""The proxy with sockets. Clients connect to the proxy. The proxy's upstream is a wirebroker, or cannot be reached."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal

import pytest
import trustme
from kafka import KafkaProducer

from controlkit import ControlClient
from dialogue import ANY_RESPONSE, CLOSED, INIT_PRODUCER_ID, Dialogue, accepted, each, overall, refused, seq, tagged
from kafkawire.frames import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from requesting import fetch, find_coordinator, offset_commit, plain
from responses import sole
from wirebroker import faults
from wirebroker.client.wire import Connection, address_of
from wirebroker.commands.cli import build_parser, main
from wirebroker.commands.proxy import client_tls, upstream_tls
from wirebroker.commands.usage import UsageError
from wirebroker.faults import FaultError, kinds
from wirebroker.mock import MockKafka
from wirebroker.net.limits import WRITE_HIGH_WATER
from wirebroker.proxy.directory import LearnedDirectory
from wirebroker.proxy.relay import Relay
from wirebroker.proxy_kafka import ProxyKafka
from wirebroker.requests.connection import OPEN
from wirebroker.trace.rows import ConnectionRow, ShadowRow
from wirekit import ask_in_vain, batch, client


@pytest.fixture
def upstream() -> Iterator[MockKafka]:
    with MockKafka(topics={"orders": 1}, trace="exchanges") as kafka:
        yield kafka


@pytest.fixture
def proxy(upstream: MockKafka) -> Iterator[ProxyKafka]:
    with ProxyKafka(upstream=upstream.bootstrap_servers) as kafka:
        yield kafka


def verdicts(proxy: ProxyKafka) -> list[tuple[str, str, bool | None]]:
    """For each batch, returns the predicted verdict, the broker's verdict, and whether these two agree."""
    return [(row.predicted, row.verdict, row.agrees) for row in proxy.trace.produce() if isinstance(row, ShadowRow)]


# Addresses


def test_each_broker_is_reached_through_the_proxy() -> None:
    with (
        MockKafka(brokers=3, topics={"orders": 3}) as kafka,
        ProxyKafka(upstream=kafka.bootstrap_servers.split(",")[0]) as proxy,
    ):
        brokers = client(proxy).request(MetadataRequest(topics=None), 12).brokers
        shown = {f"{broker.host}:{broker.port}" for broker in brokers}
        assert [broker.node_id for broker in brokers] == [1, 2, 3]
        assert len(shown) == 3
        assert not shown & set(kafka.bootstrap_servers.split(","))
        for address in shown:
            host, port = address.split(":")
            with closing(socket.create_connection((host, int(port)), 5)):
                pass


def test_the_first_broker_is_known_by_its_id_once_a_response_names_it(proxy: ProxyKafka) -> None:
    (
        Dialogue(proxy)
        >> tagged("x")
        << accepted(at=0)
        >> MetadataRequest(topics=None)
        << ANY_RESPONSE
        >> tagged("x")
        << accepted(at=1)
    )
    assert [row.node for row in proxy.trace.produce()] == [1, 1]


def test_a_broker_keeps_its_address_behind_the_proxy(proxy: ProxyKafka) -> None:
    first, second = (client(proxy).request(MetadataRequest(topics=None), 12).brokers for _ in range(2))
    assert first == second


def test_the_fixture_starts_a_proxy(upstream: MockKafka, kafka_proxy: Callable[..., ProxyKafka]) -> None:
    proxy = kafka_proxy(upstream=upstream.bootstrap_servers, trace="all")
    Dialogue(proxy) >> tagged("x") << accepted(at=0)
    assert {row.event for row in proxy.trace.events()} == {"connection", "request", "shadow", "reply"}


# Shadow verdicts


def test_a_retry_is_seen_although_kafka_responds_it_without_an_error(proxy: ProxyKafka) -> None:
    Dialogue(proxy) >> seq(0, 2) << accepted(at=0) >> seq(3) << accepted(at=3) >> seq(0, 2) << accepted(at=0)
    assert verdicts(proxy) == [("accepted", "accepted", True), ("accepted", "accepted", True), ("duplicate", "duplicate", True)]
    assert proxy.trace.produce()[-1].explain.startswith("duplicate of offset 0")


def test_a_gap_is_predicted_with_its_reason(proxy: ProxyKafka) -> None:
    Dialogue(proxy) >> seq(0) << accepted(at=0) >> seq(2) << refused(45)
    assert verdicts(proxy)[-1] == ("rejected", "rejected", True)
    assert "expected sequence 1" in proxy.trace.produce()[-1].explain


def test_pipelined_batches_are_judged_in_the_order_of_their_responses(proxy: ProxyKafka) -> None:
    line = Dialogue(proxy)
    for number in range(5):
        line >> seq(number)
    for number in range(5):
        line << accepted(at=number)
    assert verdicts(proxy) == [("accepted", "accepted", True)] * 5


def test_nothing_is_predicted_of_a_producer_whose_batches_did_not_pass(upstream: MockKafka, proxy: ProxyKafka) -> None:
    direct = Dialogue(upstream)
    direct >> seq(0) << accepted(at=0) >> seq(1) << accepted(at=1)
    late = Dialogue(proxy, producer_id=direct.producer_id)
    late >> seq(2) << accepted(at=2) >> seq(0) << accepted(at=0) >> seq(3) << accepted(at=3) >> seq(5) << refused(45)
    assert verdicts(proxy) == [
        ("unknown", "accepted", None), ("unknown", "duplicate", None), ("accepted", "accepted", True),
        ("unknown", "rejected", None),
    ]  # fmt: skip


ASKS_FOR_VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1"), 3


def test_a_broker_is_asked_about_producers_that_wrote_before_the_proxy(upstream: MockKafka, proxy: ProxyKafka) -> None:
    early, later = Dialogue(upstream), Dialogue(upstream)
    early >> seq(0) << accepted(at=0) >> seq(1) << accepted(at=1)
    later >> seq(0, 3) << accepted(at=2)
    late = Dialogue(proxy, producer_id=early.producer_id) >> ASKS_FOR_VERSIONS << ANY_RESPONSE
    late >> seq(2) >> seq(3) << accepted(at=6) << accepted(at=7) >> seq(5) << refused(45)
    also = Dialogue(proxy, producer_id=later.producer_id) >> ASKS_FOR_VERSIONS << ANY_RESPONSE
    also >> seq(3) << refused(45) >> seq(4) << accepted(at=8)
    assert verdicts(proxy) == [
        ("accepted", "accepted", True), ("accepted", "accepted", True), ("unknown", "rejected", None),
        ("unknown", "rejected", None), ("accepted", "accepted", True),
    ]  # fmt: skip
    assert [row.api for row in upstream.trace.events("reply")].count("DescribeProducers") == 1


def test_the_broker_is_right_where_another_client_wrote_past_the_proxy(upstream: MockKafka, proxy: ProxyKafka) -> None:
    line = Dialogue(proxy) >> seq(0) << accepted(at=0)
    Dialogue(upstream, producer_id=line.producer_id) >> seq(1) << accepted(at=1)
    line >> seq(2) << accepted(at=2) >> seq(3) << accepted(at=3)
    assert verdicts(proxy) == [("accepted", "accepted", True), ("rejected", "accepted", False), ("accepted", "accepted", True)]


def test_a_producer_that_the_broker_forgot_disagrees_once(upstream: MockKafka, proxy: ProxyKafka) -> None:
    line = Dialogue(proxy) >> seq(0) << accepted(at=0) >> seq(1) << accepted(at=1)
    upstream.expire_producer(line.producer_id)
    line >> seq(0) << accepted(at=2) >> seq(1) << accepted(at=3)
    assert [agrees for *_, agrees in verdicts(proxy)] == [True, True, False, True]


def test_a_version_that_kafka_dropped_has_a_row_and_a_sentence(
    upstream: MockKafka, proxy: ProxyKafka, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for version in (2, 3):
            ask_in_vain(proxy, "Fetch", version)
    for kafka in (upstream, proxy):
        rows = kafka.trace.events("unsupported")
        assert [(row.api, row.version, row.oldest, row.newest) for row in rows] == [("Fetch", 2, 4, 18), ("Fetch", 3, 4, 18)]
        assert {row.client_id for row in rows} == {"wirebroker-conformance"}
    assert "the broker closed it instead of answering Fetch v3, which Kafka 4 does not read" in caplog.text


# Faults


def test_an_error_is_answered_and_the_batch_does_not_reach_the_broker(upstream: MockKafka, proxy: ProxyKafka) -> None:
    rule = proxy.faults.add(faults.error("NOT_LEADER_OR_FOLLOWER", topic="orders", nth=2))
    Dialogue(proxy) >> seq(0) << accepted(at=0) >> seq(1) << refused(6) >> seq(1) << accepted(at=1)
    rule.assert_fired()
    assert len(upstream.records("orders")) == 2
    assert [row.kind for row in proxy.trace.faults()] == ["error"]


def test_a_lost_response_belongs_to_a_batch_that_is_stored(upstream: MockKafka, proxy: ProxyKafka) -> None:
    proxy.faults.add(faults.lose_ack(topic="orders", nth=2))
    Dialogue(proxy) >> seq(0) << accepted(at=0) >> seq(1) << CLOSED >> seq(1) << accepted(at=1)
    assert len(upstream.records("orders")) == 2


def test_responses_of_the_proxy_do_not_overtake_those_of_the_broker(proxy: ProxyKafka) -> None:
    proxy.faults.add(faults.error(51, api="InitProducerId"))
    line = Dialogue(proxy) >> fetch(wait_ms=300) >> INIT_PRODUCER_ID >> tagged("x")
    line << overall(session_id=0) << overall(error_code=51) << accepted(at=0)


def test_a_delay_holds_back_the_requests_after_it(proxy: ProxyKafka) -> None:
    proxy.faults.add(faults.delay(50, after=True, api="Produce", nth=1))
    Dialogue(proxy) >> seq(0) >> seq(1) << accepted(at=0) << accepted(at=1)
    assert [row.kind for row in proxy.trace.faults()] == ["delay"]


def test_a_rule_finds_the_topic_behind_an_id(proxy: ProxyKafka) -> None:
    line = Dialogue(proxy) >> MetadataRequest(topics=[MetadataRequestTopic(name="orders")]) << ANY_RESPONSE
    data = [
        TopicProduceData(topic_id=line.last.topics[0].topic_id, partition_data=[PartitionProduceData(index=0, records=batch())])
    ]
    rule = proxy.faults.add(faults.error(19, topic="orders"))
    line >> (ProduceRequest(acks=-1, timeout_ms=100, topic_data=data), 13) << refused(19)
    rule.assert_fired()


# A topic that is deleted and created again


def again(upstream: MockKafka, proxy: ProxyKafka) -> tuple[bytes, bytes]:
    """Deletes the topic `orders` and creates it again. A client asks for it before and after that, through the proxy. Returns
    the former and the new id of the topic."""

    def topic_id() -> bytes:
        with closing(Connection(address_of(proxy.bootstrap_servers))) as connection:
            response: Any = connection.request(plain("Metadata", topics=[{"name": "orders"}]), 12)
        return bytes(sole(response.topics).topic_id)

    former = topic_id()
    upstream.delete_topic("orders")
    upstream.create_topic("orders", 1)
    return former, topic_id()


def test_the_number_of_remembered_topics_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirebroker.proxy.directory.MOST_TOPICS", 10)
    directory, ids = LearnedDirectory(), [number.to_bytes(16) for number in range(1, 100)]

    def learn(topic_id: bytes, name: str) -> set[str]:
        return directory.learn(MetadataResponse(topics=[MetadataResponseTopic(name=name, topic_id=topic_id)]))

    assert [learn(each, "orders") for each in ids] == [set(), *[{"orders"}] * 98], "the topic is created again 98 times"
    assert learn(ids[-2], "orders") == set(), "a broker still has the former topic"
    assert (directory.topic_id("orders"), directory.topic_name(ids[-2])) == (ids[-1], "orders")
    assert len(directory._names) == 10
    for topic_id in ids:
        learn(topic_id[::-1], str(topic_id))
    assert len(directory._ids) == 10


def test_leaders_of_a_topic_that_is_created_again_are_told() -> None:
    """The epochs of the new topic's leaders begin with 0 again. A Metadata of a broker that still has the former topic changes
    nothing."""
    with MockKafka(brokers=2, topics="orders:1:rf=2") as kafka:
        upstream = kafka.bootstrap_servers
        with ProxyKafka(upstream=upstream, trace="changes") as proxy, closing(client(proxy)) as wire:

            def lead(node: int) -> None:
                kafka.move_leader("orders", to=node)
                wire.request(plain("Metadata", topics=[{"name": "orders"}]), 12)

            for node in (1, 2, 1, 2, 1):
                lead(node)
            told = len(proxy.trace.events("leader"))
            stale: Any = wire.request(plain("Metadata", topics=[{"name": "orders"}]), 12)
            kafka.delete_topic("orders")
            kafka.create_topic("orders", 1, replication_factor=2)
            wire.request(plain("Metadata", topics=[{"name": "orders"}]), 12)
            first = kafka.partition("orders").leader
            proxy._in_loop(lambda host: host.proxy.learned(stale))
            lead(3 - first)
            assert [(row.leader, row.leader_epoch) for row in proxy.trace.events("leader")[told:]] == [(3 - first, 1)]


def test_a_fetch_session_goes_on_with_a_topic_that_is_created_again(upstream: MockKafka, proxy: ProxyKafka) -> None:
    former, new = again(upstream, proxy)

    def asked(epoch: int, *, session: int, topics: list[bytes], forgotten: list[bytes]) -> Any:
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        fields = {
            "topics": [{"topic_id": each, "partitions": [part]} for each in topics],
            "forgotten_topics_data": [{"topic_id": each, "partitions": [0]} for each in forgotten],
        }  # fmt: skip
        return plain("Fetch", max_wait_ms=0, session_id=session, session_epoch=epoch, **fields)

    rule = proxy.faults.add(faults.error(6, api="Fetch", topic="orders", nth=3))
    with closing(client(proxy)) as wire:
        session = wire.request(asked(0, session=0, topics=[former], forgotten=[]), 13).session_id
        assert session
        wire.request(asked(1, session=session, topics=[new], forgotten=[former]), 13)
        wire.request(asked(2, session=session, topics=[], forgotten=[]), 13)
        rule.assert_fired(1)


def test_a_producer_begins_again_with_a_topic_that_is_created_again(upstream: MockKafka, proxy: ProxyKafka) -> None:
    line = Dialogue(proxy) >> seq(0, 2) << accepted(at=0)
    again(upstream, proxy)
    line >> seq(0, 2) << accepted(at=0)
    assert verdicts(proxy) == [("accepted", "accepted", True)] * 2


def test_a_group_loses_its_offsets_with_the_topic(upstream: MockKafka, proxy: ProxyKafka) -> None:
    with closing(client(proxy)) as wire:
        wire.request(find_coordinator("team"), 4)
        proxy.groups()  # from now on the proxy follows groups
        Dialogue(proxy) >> seq(0, 4) << accepted(at=0)
        wire.request(offset_commit("team", 3), 8)
        assert [(each.offset, each.lag) for each in proxy.groups()["team"].offsets] == [(3, 2)]
        again(upstream, proxy)
        assert proxy.groups()["team"].offsets == upstream.groups()["team"].offsets == []


def test_a_request_that_is_cut_off_does_not_reach_the_broker(upstream: MockKafka, proxy: ProxyKafka) -> None:
    proxy.faults.add(faults.cut(20, request=True, api="Produce"))
    Dialogue(proxy) >> tagged("x") << CLOSED
    assert upstream.records("orders") == []


def test_a_damaged_response_is_damaged_on_its_way(upstream: MockKafka, proxy: ProxyKafka) -> None:
    proxy.faults.add(faults.corrupt(1, at=-1, api="Produce", times=1))
    raw = client(proxy)
    raw.send(tagged("x"), 3)
    assert raw.frame()[-1] == 0xFF
    assert len(upstream.records("orders")) == 1


def test_a_connection_is_refused(proxy: ProxyKafka) -> None:
    proxy.faults.add(faults.refuse(times=1))
    with pytest.raises(ConnectionError):
        client(proxy).request(tagged("x"), 9)
    Dialogue(proxy) >> tagged("x") << accepted(at=0)


@pytest.mark.parametrize("rule", [faults.restart(), faults.expire_producer(), faults.disk_full(), faults.fail_write()], ids=str)
def test_a_rule_that_acts_inside_a_broker_is_refused(proxy: ProxyKafka, rule: faults.Rule) -> None:
    with pytest.raises(FaultError, match="acts inside a broker, and this is a proxy"):
        proxy.faults.add(rule)


def test_the_page_on_the_proxy_names_every_kind_that_is_refused() -> None:
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "proxy.md").read_text(encoding="utf-8")
    listed = " ".join(page.split()).partition("the kinds of faults that act inside a broker: ")[2].partition(". ")[0]
    modules = (import_module(f"{kinds.__name__}.{module.name}") for module in iter_modules(kinds.__path__))
    refused = {made.kind for module in modules for name in module.__all__ if (made := getattr(module, name)).needs_broker}
    assert set(re.findall(r"`(\w+)`", listed)) == refused


def test_faults_before_a_cluster_elsewhere_need_consent() -> None:
    with ProxyKafka(upstream="192.0.2.1:9092") as proxy, pytest.raises(FaultError, match="allow_faults=True"):
        proxy.faults.add(faults.delay(5))


# Bad input


def test_a_broker_that_cannot_be_reached_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    caplog.set_level(logging.INFO)
    with ProxyKafka(upstream=f"127.0.0.1:{port}") as proxy:
        for _ in range(3):
            Dialogue(proxy) >> tagged("x") << CLOSED
        failed = f"the broker at 127.0.0.1:{port} cannot be reached: Connection refused"
        assert caplog.messages == [f"{failed}; the proxy closes clients' connections until it reaches the broker"]
        with MockKafka(port=port, topics={"orders": 1}):
            Dialogue(proxy) >> tagged("x") << accepted(at=0)
        assert f"the broker at 127.0.0.1:{port} can be reached now" in caplog.messages


def test_a_misspelt_broker_is_named_at_the_start() -> None:
    command = [sys.executable, "-m", "wirebroker.commands.cli", "proxy", "--upstream", "no-such-host.invalid:9092"]
    command += ["--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process, ExitStack() as after:
        after.callback(process.kill)
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline().split()[0] for _ in range(2)] == ["listening", "ready"]
        said = process.stderr.readline()
        assert "the broker at no-such-host.invalid:9092 cannot be reached: " in said
        assert "Errno" not in said
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.parametrize("upstream", ["http://localhost:9092", "localhost", "localhost:90920"])
def test_a_broker_that_is_no_address_is_refused(upstream: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proxy", "--upstream", upstream]) == 2
    assert capsys.readouterr().err.startswith(f"wirebroker proxy: --upstream: '{upstream}' is not host:port")


def test_a_fault_file_is_refused_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "faults.toml"
    plan.write_text('[[fault]]\nkind = "delay"\nms = 1\n\n[[fault]]\nkind = "disk_full"\n')
    assert main(["proxy", "--upstream", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--faults", str(plan)]) == 2
    assert f"--faults: {plan}:6: disk_full acts inside a broker" in capsys.readouterr().err


def test_a_broker_that_goes_away_takes_its_connections_with_it(upstream: MockKafka, proxy: ProxyKafka) -> None:
    line = Dialogue(proxy) >> tagged("x") << accepted(at=0)
    upstream.stop()
    line >> tagged("x") << CLOSED


def test_a_closed_row_has_the_time_at_which_the_broker_left(upstream: MockKafka) -> None:
    with ProxyKafka(upstream=upstream.bootstrap_servers, trace="exchanges") as proxy:
        line = Dialogue(proxy) >> tagged("x") << accepted(at=0)
        last = proxy.trace.events()[-1].time
        proxy.wait_until(lambda: time.time_ns() // 1_000_000 > last + 20)
        upstream.stop()
        line >> tagged("x") << CLOSED
        closed = [row for row in proxy.trace.events("connection") if isinstance(row, ConnectionRow) and row.change == "closed"]
    assert closed[0].time > last + 20


@pytest.mark.parametrize("hello", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_a_client_that_speaks_something_else_is_closed_with_a_sentence(
    proxy: ProxyKafka, hello: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    raw = client(proxy)
    raw.send_bytes(hello)
    with pytest.raises(ConnectionError):
        raw.frame()
    assert "the client speaks" in caplog.text


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (b"", "the broker closed it before its first response; does it want TLS (--upstream-tls-ca)?"),
        (b"\0\0\0\x20\0\0\0\1\0\0", "the broker closed it in the middle of a response"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "the broker's response does not belong to request 1 (Metadata); it begins with 48 54",
        ),
        (b"\x15\x03\x03\0\2\2\x46", "the broker speaks TLS; give --upstream-tls-ca"),
    ],
)
@pytest.mark.parametrize("level", ["off", "all"])
def test_a_broker_that_sends_rubbish_or_half_is_named(
    level: str, said: bytes, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        ProxyKafka(upstream="{}:{}".format(*server.getsockname()), trace=level) as proxy,
    ):
        line = Dialogue(proxy) >> (MetadataRequest(topics=None), 9)
        broker = server.accept()[0]
        broker.recv(1000)
        broker.sendall(said)
        broker.close()
        line << CLOSED
    assert sentence in caplog.text


def test_a_client_that_does_not_read_holds_up_nobody_and_takes_no_memory(upstream: MockKafka, proxy: ProxyKafka) -> None:
    upstream.produce("orders", value=bytes(900_000))
    rude = Dialogue(proxy)
    for _ in range(100):
        rude >> fetch()
    Dialogue(proxy) >> tagged("x") << accepted(at=1)
    most = proxy._call(lambda _: max(side.transport.get_write_buffer_size() for side in proxy._running.clients.values()))
    assert most < 3 * WRITE_HIGH_WATER
    for _ in range(100):
        rude << ANY_RESPONSE


def test_a_client_that_goes_on_while_its_request_is_held_takes_no_memory(proxy: ProxyKafka) -> None:
    proxy.faults.add(faults.delay(60_000, api="Metadata"))
    with closing(socket.create_connection(address_of(proxy.bootstrap_servers), 5)) as rude:
        rude.settimeout(2)
        rude.sendall(encode_request(1, "c", MetadataRequest(topics=None), 12))
        proxy.wait_until(lambda: bool(proxy.trace.faults()))
        with suppress(TimeoutError):
            rude.sendall(bytes(200_000_000))
        (kept,) = proxy._call(lambda held: [len(relay._client.tail) for relay in held.relays.values()])
    assert kept < 2_000_000


@pytest.mark.parametrize("then", ["silence", "disconnect"])
def test_nothing_is_left_of_clients_that_have_gone(proxy: ProxyKafka, then: Literal["silence", "disconnect"]) -> None:
    proxy.faults.add(faults.lose_ack(api="Produce", then=then))
    for _ in range(5):
        line = Dialogue(proxy) >> tagged("x")
        if then == "disconnect":
            line << CLOSED
        proxy.wait_until(lambda: all(relay.connection.state is not OPEN for relay in relays(proxy)))
        line.close()
    proxy.wait_until(lambda: not relays(proxy))


def test_a_stranger_cannot_make_the_proxy_keep_a_large_request(caplog: pytest.LogCaptureFixture) -> None:
    users = {"alice": "secret"}
    with (
        MockKafka(topics={"orders": 1}, security="sasl_plaintext", users=users) as kafka,
        ProxyKafka(upstream=kafka.bootstrap_servers, trace="all") as proxy,
    ):
        with (
            caplog.at_level(logging.INFO, "wirebroker"),
            socket.create_connection(address_of(proxy.bootstrap_servers), 5) as rude,
        ):
            request = encode_request(7, "c", ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[]), 9)
            with suppress(ConnectionError):
                rude.sendall((90 << 20).to_bytes(4) + request[4:] + bytes(700_000))
                assert rude.recv(1) == b""
            proxy.wait_until(lambda: "the client is not authenticated; the proxy did not buffer" in caplog.text)
        settings = kafka.client_settings("kafka-python") | {"bootstrap_servers": proxy.bootstrap_servers}
        producer = KafkaProducer(**settings, max_request_size=1 << 20)
        producer.send("orders", bytes(800_000)).get(timeout=20)
        producer.close()
        assert len(kafka.records("orders")) == 1


def relays(proxy: ProxyKafka) -> list[Relay]:
    return proxy._call(lambda held: list(held.relays.values()))


# TLS


def test_tls_towards_clients_and_towards_brokers(upstream: MockKafka) -> None:
    authority = trustme.CA()
    served, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.configure_trust(trusting)
    with (
        ProxyKafka(upstream=upstream.bootstrap_servers, client_tls=served) as secured,
        ProxyKafka(upstream=secured.bootstrap_servers, upstream_tls=trusting) as plaintext,
    ):
        Dialogue(plaintext) >> seq(0) << accepted(at=0) >> fetch(0) << each(offsets=[[0]])


def test_a_file_of_client_properties_says_how_to_reach_the_brokers(upstream: MockKafka, tmp_path: Path) -> None:
    authority, served = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'ca.pem'}\n")
    with (
        ProxyKafka(upstream=upstream.bootstrap_servers, client_tls=served) as secured,
        ProxyKafka(upstream=secured.bootstrap_servers, command_config=file) as plaintext,
    ):
        Dialogue(plaintext) >> seq(0) << accepted(at=0)
    with pytest.raises(ValueError, match="both say how to reach the brokers"):
        ProxyKafka(upstream="a:1", command_config=file, upstream_tls=ssl.create_default_context())
    with pytest.raises(ValueError, match="No such file"):
        ProxyKafka(upstream="a:1", command_config=tmp_path / "missing")


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """Makes a certificate authority, and a server certificate that it has signed."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    return authority


def towards_clients(folder: Path, *flags: str) -> ssl.SSLContext:
    """Returns the TLS context that these flags describe, for connections of clients."""
    flags = ("--tls-cert", str(folder / "server.pem"), *flags)
    context = client_tls(build_parser().parse_args(["proxy", "--upstream", "127.0.0.1:1", *flags]))
    assert context is not None
    return context


@pytest.mark.parametrize(
    ("flags", "anybody", "strangers"),
    [([], True, True), (["--tls-client-ca"], False, False), (["--tls-client", "requested", "--tls-client-ca"], True, False)],
)
def test_only_clients_with_a_certificate_are_served(
    upstream: MockKafka, tmp_path: Path, authority: trustme.CA, flags: list[str], anybody: bool, strangers: bool
) -> None:
    context = towards_clients(tmp_path, *flags, *([str(tmp_path / "ca.pem")] if flags else []))
    with ProxyKafka(upstream=upstream.bootstrap_servers, client_tls=context) as proxy:
        for issuer, served in ((None, anybody), (trustme.CA(), strangers), (authority, True)):
            own = ssl.create_default_context()
            authority.configure_trust(own)
            if issuer is not None:
                issuer.issue_cert("client@example.org").configure_cert(own)
            try:
                with closing(Connection(address_of(proxy.bootstrap_servers), tls=own)) as connection:
                    assert connection.request(ApiVersionsRequest(), 0).error_code == 0
                assert served
            except OSError:
                assert not served


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--advertise", "0.0.0.0"], "--advertise: Kafka does not advertise 0.0.0.0"),
        (["--tls-cert", "server.pem", "--tls-client", "required"], "need the authority that signed them (--tls-client-ca)"),
        (["--tls-cert", "server.pem", "--tls-client-ca", "none.pem"], "No such file"),
        (["--tls-cert", "server.pem", "--tls-client-ca", "text.pem"], "text.pem: this is not a certificate in PEM form"),
        (["--config", "num.partitions=3"], "a proxy has no setting 'num.partitions'; there are max.connections"),
        (["--config", "max.connections=many"], "Invalid value many for configuration max.connections"),
    ],
)
def test_flags_of_a_proxy_that_cannot_be_carried_out(
    tmp_path: Path, authority: trustme.CA, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.pem").write_text("a text")
    flags = [str(tmp_path / each) if each.endswith(".pem") else each for each in flags]
    assert main(["proxy", "--upstream", "127.0.0.1:1", "--listen", "127.0.0.1:0", *flags]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("listen", "flags", "warned"),
    [("0.0.0.0:0", [], True), ("0.0.0.0:0", ["--tls-client-ca"], False), ("127.0.0.1:0", [], False)],
)
def test_a_proxy_that_lends_its_certificate_to_everybody_says_so(
    tmp_path: Path, authority: trustme.CA, listen: str, flags: list[str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    context = towards_clients(tmp_path, *flags, *([str(tmp_path / "ca.pem")] if flags else []))
    with ProxyKafka(upstream="127.0.0.1:1", listen=listen, client_tls=context, upstream_tls=ssl.create_default_context()):
        assert ("the owner of the proxy's certificate" in caplog.text) == warned


@pytest.mark.parametrize(
    ("trusting", "named"),
    [
        (ssl.create_default_context(), "its certificate is not trusted (unable to get local issuer certificate)"),
        (None, "does it want TLS (--upstream-tls-ca)?"),
    ],
    ids=["another certificate", "plaintext"],
)
def test_a_broker_that_speaks_tls_otherwise_is_named(
    upstream: MockKafka, caplog: pytest.LogCaptureFixture, trusting: ssl.SSLContext | None, named: str
) -> None:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(served)
    caplog.set_level(logging.INFO)
    with (
        ProxyKafka(upstream=upstream.bootstrap_servers, client_tls=served) as secured,
        ProxyKafka(upstream=secured.bootstrap_servers, upstream_tls=trusting) as mistaken,
    ):
        Dialogue(mistaken) >> tagged("x") << CLOSED
    assert named in caplog.text


def test_a_broker_without_tls_is_named(upstream: MockKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ProxyKafka(upstream=upstream.bootstrap_servers, upstream_tls=ssl.create_default_context()) as mistaken:
        Dialogue(mistaken) >> tagged("x") << CLOSED
    named = f"the broker at {upstream.bootstrap_servers} cannot be reached: it closed the connection during the TLS handshake"
    assert named in caplog.text


@pytest.mark.parametrize(
    ("trusts", "has_certificate", "sentence"),
    [
        (False, False, "it closed the connection before its first response; does it want TLS (--upstream-tls-ca)?"),
        (True, False, "the broker wants a certificate from its clients; give --upstream-tls-cert"),
        (True, True, ""),
    ],
)
def test_a_broker_that_does_not_serve_the_proxy_is_named_before_a_client_comes(
    trusts: bool, has_certificate: bool, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with MockKafka(security="ssl", configs={"ssl.client.auth": "required"}) as kafka:
        trusting = ssl.create_default_context(cafile=str(kafka.tls_folder / "ca.pem")) if trusts else None
        if has_certificate and trusting is not None:
            trusting.load_cert_chain(kafka.tls_folder / "client.pem")
        with ProxyKafka(upstream=kafka.bootstrap_servers, upstream_tls=trusting, control=True) as proxy:
            host = proxy._running
            host.upstream.lends_certificate = has_certificate
            proxy._call(lambda _: host.check())
            node = next(iter(host._nodes.values()))
            proxy.wait_until(lambda: bool(node.problem) or (node.checking is not None and node.checking.done()), 20)
            assert sentence in node.problem
            assert bool(node.problem) == bool(sentence)
            health = ControlClient(proxy.control_url).ask("GET", "/health")
            assert (health["status"], health["problem"]) == ("unreachable" if sentence else "ok", node.problem)


def test_a_client_of_the_control_waits_for_a_request_that_passes() -> None:
    with (
        MockKafka() as kafka,
        ProxyKafka(upstream=kafka.bootstrap_servers, control=True) as proxy,
        ThreadPoolExecutor() as pool,
    ):
        control, seen = ControlClient(proxy.control_url), proxy.faults.add(faults.observe(api="Metadata"))
        waiting = [pool.submit(control.ask, "GET", "/faults/1/wait?timeout=10"), pool.submit(seen.wait_fired, 1, 10)]
        proxy.wait_until(lambda: bool(proxy._running.watchers))
        client(proxy).request(MetadataRequest(topics=None), 9)
        assert waiting[0].result(10)["fired"] == 1
        waiting[1].result(10)
        assert control.refused("GET", "/faults/1/wait?times=2&timeout=0.01")["status"] == 409


@pytest.mark.parametrize("flag", ["ca", "cert", "key"])
def test_a_file_for_tls_that_is_not_there_is_named_with_its_flag(flag: str, authority: trustme.CA, tmp_path: Path) -> None:
    files: dict[str, str | None] = {"ca": str(tmp_path / "ca.pem"), "cert": str(tmp_path / "server.pem"), "key": None}
    missing = tmp_path / "missing.pem"
    files[flag] = str(missing)
    with pytest.raises(UsageError, match=rf"^--upstream-tls-{flag} {missing}: No such file or directory$"):
        upstream_tls(files["ca"], files["cert"], files["key"])
