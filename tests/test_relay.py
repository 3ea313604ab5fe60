"""The proxy's relay without sockets: which bytes it forwards unchanged, and which addresses it replaces."""

from __future__ import annotations

import struct
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialogue import tagged
from kafkawire.declare import Message
from kafkawire.frames import SIZE, decode_response, encode_request, encode_response
from kafkawire.messages import APIS
from kafkawire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.messages.produce import (
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkawire.registry import KEYS, PRODUCE, api_name, request_class, response_class, versions
from requesting import produce_request
from responses import only
from wire.random_messages import Maker, random_response, request_bytes, response_bytes, versions_of
from wirebroker import faults
from wirebroker.core.producers import Reject, explain
from wirebroker.proxy.addresses import CARRIERS, NamelessResponses, carries_addresses, names_no_node
from wirebroker.proxy.exchange import Forward
from wirebroker.proxy.proxy import Proxy
from wirebroker.proxy.relay import Relay
from wirebroker.proxy.shadow import Shadow
from wirebroker.requests.effects import Close, Respond
from wirekit import NOW, batch, header

ANSWERED = [(key, version) for key in APIS for version in versions_of(response_class(key))]

NAME_CONTROLLERS = {KEYS[name] for name in ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot")}
"""Only controllers send these requests, and there is no proxy between controllers."""


def through_proxy(host: str, port: int, node_id: int) -> tuple[str, int]:
    return "proxy", port % 1000


class Line:
    """A relay between a client and a broker. It remembers the bytes that the client and the broker have received."""

    def __init__(self, level: str = "off") -> None:
        self.proxy = Proxy(NOW, through_proxy)
        self.proxy.trace_at(level)
        self.relay: Relay = self.proxy.connect(1, "127.0.0.1", "PLAINTEXT", NOW)
        self.to_broker, self.to_client = bytearray(), bytearray()
        self.closed: str | None = None

    def client_sends(self, data: bytes) -> Line:
        if (passed := self.relay.pass_requests(memoryview(data))) == len(data):
            self.to_broker += data
        else:
            self.relay.from_client(memoryview(data), NOW, passed)
        return self._perform()

    def broker_sends(self, data: bytes) -> Line:
        if (passed := self.relay.pass_responses(memoryview(data))) == len(data):
            self.to_client += data
        else:
            self.relay.from_broker(memoryview(data), NOW, passed)
        return self._perform()

    def _perform(self) -> Line:
        for effect in self.proxy.take_effects():
            if isinstance(effect, Forward):
                self.to_broker += effect.data
            elif isinstance(effect, Respond):
                self.to_client += b"".join(effect.parts)
            elif isinstance(effect, Close):
                self.closed = effect.reason
        return self


def hosts(response: Any) -> list[tuple[str, int]]:
    nodes = [response] if hasattr(response, "host") else []
    for name in ("brokers", "coordinators", "node_endpoints"):
        nodes += getattr(response, name, ())
    return [(node.host, node.port) for node in nodes]


@pytest.mark.parametrize("level", ["off", "all"])
@pytest.mark.parametrize(("key", "version"), ANSWERED, ids=lambda each: str(each))
def test_every_response_passes_and_names_no_broker(key: int, version: int, level: str) -> None:
    if version not in versions_of(request_class(key)):
        pytest.skip("this API does not have this version")
    line, response = Line(level), random_response(key, version)
    request, frame = request_bytes(key, version), response_bytes(response, version)
    line.client_sends(request).broker_sends(frame)
    assert line.closed is None
    assert line.to_broker == request
    if not hosts(response) or key in NAME_CONTROLLERS:
        assert line.to_client == frame or key == KEYS["ApiVersions"]
        return
    _, passed = decode_response(memoryview(line.to_client)[4:], key, version)
    assert hosts(passed) == [("proxy", port % 1000) if host else ("", port) for host, port in hosts(response)]


def test_every_response_with_a_host_belongs_to_a_carrier() -> None:
    with_hosts = {key for key in APIS if hosts(_full(response_class(key)))}
    assert with_hosts == CARRIERS.keys() | NAME_CONTROLLERS


def _full(cls: type[Message]) -> Any:
    """Returns a message. Every list of structs in it, such as a list of brokers, has one element."""
    made: Any = cls.__new__(cls)
    for field in cls.__wire__:
        if isinstance(field.spec, list) and isinstance(field.spec[0], type):
            names = [inner.name for inner in field.spec[0].__wire__]
            setattr(made, field.name, [Maker(1).message(field.spec[0], 32000)] if {"host", "port"} <= set(names) else [])
        elif field.name == "host":
            made.host, made.port = "h", 1
    return made


@given(st.randoms(use_true_random=False), st.sampled_from(["off", "verdicts", "all"]))
def test_bytes_may_arrive_in_any_pieces(random: Random, level: str) -> None:
    keys = [(key, version) for key, version in ANSWERED if version in versions_of(request_class(key))]
    chosen = [random.choice(keys) for _ in range(5)]
    requests = [request_bytes(key, version, number) for number, (key, version) in enumerate(chosen)]
    responses = [response_bytes(random_response(key, version), version, number) for number, (key, version) in enumerate(chosen)]
    whole, pieces = Line(level), Line(level)
    whole.client_sends(b"".join(requests)).broker_sends(b"".join(responses))
    for part in _cut(random, b"".join(requests)):
        pieces.client_sends(part)
    for part in _cut(random, b"".join(responses)):
        pieces.broker_sends(part)
    assert whole.closed is pieces.closed is None
    assert pieces.to_broker == whole.to_broker == b"".join(requests)
    assert pieces.to_client == whole.to_client


def _cut(random: Random, data: bytes) -> list[bytes]:
    ends = sorted({0, len(data), *(random.randrange(len(data) + 1) for _ in range(random.randrange(12)))})
    return [data[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize("level", ["off", "verdicts"])
@pytest.mark.parametrize("version", range(3, 14))
def test_a_produce_with_acks_0_has_no_response(version: int, level: str) -> None:
    line = Line(level)
    silent = encode_request(1, "client", produce_request("orders", batch(), acks=0), version)
    for part in (silent[:9], silent[9:15], silent[15:]):
        line.client_sends(part)
    loud = encode_request(2, None, produce_request("orders", batch()), version)
    response = response_bytes(response_class(PRODUCE)(responses=[]), version, 2)
    line.client_sends(loud).broker_sends(response)
    assert line.closed is None
    assert line.to_broker == silent + loud
    assert line.to_client == response


def test_an_api_that_is_not_known_passes_byte_for_byte() -> None:
    line = Line("all")
    request = SIZE.pack(12) + bytes.fromhex("03e7 0005 00000009 ffff abcd".replace(" ", ""))
    line.client_sends(request).broker_sends(b"\0\0\0\x06\0\0\0\x09xy")
    assert (bytes(line.to_broker), bytes(line.to_client)) == (request, b"\0\0\0\x06\0\0\0\x09xy")


def test_a_newer_version_than_we_know_passes_unless_it_may_carry_an_address() -> None:
    heartbeat, metadata = KEYS["Heartbeat"], KEYS["Metadata"]
    for key, passes in ((heartbeat, True), (metadata, False)):
        line = Line()
        request = SIZE.pack(10) + key.to_bytes(2, "big") + b"\0\x63" + b"\0\0\0\x09" + b"\xff\xff"
        line.client_sends(request).broker_sends(b"\0\0\0\x06\0\0\0\x09xy")
        assert (line.closed is None) is passes, api_name(key)


@pytest.mark.parametrize(
    ("key", "version", "outcome"),
    [(PRODUCE, 2, "outdated"), (PRODUCE, 3, ""), (PRODUCE, 13, ""), (PRODUCE, 14, "unknown"), (999, 0, "unknown")],
)
def test_requests_that_kafka_does_not_read_pass_and_have_a_row(key: int, version: int, outcome: str) -> None:
    line, body = Line("verdicts"), b"\0\6client" + bytes(20)
    frame = SIZE.pack(8 + len(body)) + key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + body
    line.client_sends(frame)
    assert line.to_broker == frame
    rows = line.proxy.trace.events("unsupported")
    assert [row.parts()[2] for row in rows] == [outcome] * bool(outcome)
    assert [row.client_id for row in rows] == [None if key == 999 else "client"] * bool(outcome)


def test_api_versions_offers_no_version_of_the_carriers_that_is_not_known() -> None:
    offered = [ApiVersion(api_key=key, min_version=0, max_version=30000) for key in (*APIS, 999)]
    line = Line()
    line.client_sends(encode_request(7, "c", ApiVersionsRequest(), 4))
    line.broker_sends(response_bytes(ApiVersionsResponse(error_code=0, api_keys=offered), 4))
    _, passed = decode_response(memoryview(line.to_client)[4:], KEYS["ApiVersions"], 4)
    limited = {each.api_key: each.max_version for each in passed.api_keys if each.max_version != 30000}  # type: ignore[attr-defined]
    assert limited == {key: versions(key)[1] for key in CARRIERS}


def test_api_versions_of_an_older_broker_is_refused_in_version_0() -> None:
    line, refusal = (
        Line("all"),
        ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)]),
    )
    line.client_sends(encode_request(7, "c", ApiVersionsRequest(), 4)).broker_sends(response_bytes(refusal, 0))
    assert line.to_client == response_bytes(refusal, 0)


@pytest.mark.parametrize("level", ["off", "all"])
@pytest.mark.parametrize(
    "token", [b"\0alice\0secret", b"\0A\0pw", b"n,,n=user,r=fyko", b"", b"x"], ids=["plain", "short", "scram", "empty", "one"]
)
def test_sasl_tokens_without_a_header_pass(token: bytes, level: str) -> None:
    line = Line(level)
    handshake = encode_request(7, "c", SaslHandshakeRequest(mechanism="PLAIN"), 0)
    accepted = response_bytes(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]), 0)
    line.client_sends(handshake).broker_sends(accepted)
    line.client_sends(SIZE.pack(len(token)) + token).broker_sends(SIZE.pack(0))
    after = request_bytes(KEYS["Heartbeat"], 4, 8)
    response = response_bytes(random_response(KEYS["Heartbeat"], 4), 4, 8)
    line.client_sends(after).broker_sends(response)
    assert line.closed is None
    assert line.to_broker == handshake + SIZE.pack(len(token)) + token + after
    assert line.to_client == accepted + SIZE.pack(0) + response


def test_secrets_are_in_no_row() -> None:
    line, secret = Line("all"), b"\0alice\0hunter2"
    line.client_sends(encode_request(8, "c", SaslAuthenticateRequest(auth_bytes=secret), 2))
    rows = "".join(row.as_json() for row in line.proxy.trace.events())
    assert "SaslAuthenticate" in rows
    assert "hunter2" not in rows
    assert secret.hex() not in rows


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x28\x00", "the broker speaks TLS; give --upstream-tls-ca"),
        (b"HTTP/1.1", "the broker's response does not belong to request 7 (Metadata); it begins with 48 54 54 50 2f 31 2e 31"),
        (b"\xff\xff\xff\xff\0\0\0\x07", "the broker's response does not belong to request 7 (Metadata)"),
    ],
)
def test_a_response_that_makes_no_sense_closes_the_connection(said: bytes, reason: str) -> None:
    line = Line().client_sends(request_bytes(KEYS["Metadata"], 12)).broker_sends(said)
    assert str(line.closed).startswith(reason)


def test_a_response_to_no_request_closes_the_connection() -> None:
    line = Line().broker_sends(response_bytes(random_response(12, 4), 4))
    assert line.closed == "the broker sent a response, but no request waited"


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
def test_a_size_that_no_request_has_closes_the_connection(size: bytes) -> None:
    assert Line().client_sends(size + bytes(8)).closed is not None


@pytest.mark.parametrize("level", ["off", "all"])
@pytest.mark.parametrize("bad", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", SIZE.pack(5) + b"short"])
def test_responses_to_requests_before_a_bad_frame_pass(bad: bytes, level: str) -> None:
    line = Line(level)
    good = [request_bytes(KEYS["Heartbeat"], 4, number) for number in (1, 2)]
    responses = [response_bytes(random_response(KEYS["Heartbeat"], 4), 4, number) for number in (1, 2)]
    line.client_sends(b"".join(good) + bad)
    assert line.to_broker == b"".join(good)
    line.broker_sends(responses[0]).broker_sends(responses[1][:9])
    assert line.closed is None
    line.broker_sends(responses[1][9:])
    assert line.to_client == b"".join(responses)
    assert line.closed is not None


def large_request(size: int = 600_000) -> bytes:
    return encode_request(7, "c", produce_request("orders", batch(tag="x" * size)), 12)


KNOCK = encode_request(-1, "wirebroker-proxy", MetadataRequest(topics=[]), 1)


def test_a_large_request_is_kept_only_of_a_client_that_the_broker_serves() -> None:
    line = Line("all")
    line.proxy.asks = True
    request = large_request()
    line.client_sends(request[:1000])
    assert (line.to_broker, line.relay.holds_client, line.relay.whole_request) == (KNOCK, True, 0)
    line.broker_sends(response_bytes(MetadataResponse(brokers=[], topics=[]), 1, -1))
    assert (line.to_client, line.relay.holds_client, line.relay.whole_request) == (b"", False, len(request))
    line.client_sends(request[1000:]).client_sends(request[:1000])
    assert line.to_broker == KNOCK + request


@pytest.mark.parametrize("api", ["ApiVersions", "SaslHandshake", "SaslAuthenticate"])
def test_a_response_of_a_login_does_not_show_that_the_broker_serves_a_client(api: str) -> None:
    line = Line("all")
    line.proxy.asks = True
    key, version = KEYS[api], response_class(KEYS[api]).__schema__.versions[1]
    line.client_sends(request_bytes(key, version)).broker_sends(response_bytes(random_response(key, version), version))
    line.to_broker.clear()
    line.client_sends(large_request()[:1000])
    assert line.to_broker == KNOCK
    assert "the client is not authenticated" in line.relay.broker_closed()


def test_a_client_that_the_broker_serves_is_not_asked_for() -> None:
    line = Line("all")
    line.proxy.asks = True
    key = KEYS["Heartbeat"]
    line.client_sends(request_bytes(key, 4)).broker_sends(response_bytes(random_response(key, 4), 4))
    line.to_broker.clear()
    line.client_sends(large_request()[:1000])
    assert line.to_broker == b""
    assert line.relay.whole_request > 600_000


def test_a_response_that_is_too_large_to_look_at_closes_the_connection() -> None:
    line = Line().client_sends(request_bytes(KEYS["Metadata"], 12)).broker_sends(struct.pack(">ii", 300 << 20, 7))
    assert line.closed == "the broker announced a response of 314572804 bytes; the proxy reads up to 268435456"


def test_nothing_is_kept_of_frames_whose_connection_has_ended() -> None:
    line = Line("all")
    line.client_sends(request_bytes(KEYS["Metadata"], 12) + large_request()[:1000])
    line.broker_sends(response_bytes(random_response(KEYS["Metadata"], 12), 12)[:-1])
    assert line.relay.whole_request > 0
    assert line.relay.whole_response > 0
    line.proxy.disconnected(line.relay.connection, "the client closed it", NOW)
    assert (line.relay.whole_request, line.relay.whole_response, line.relay._client.tail) == (0, 0, b"")


def test_a_large_request_passes_before_it_is_complete() -> None:
    line = Line()
    request = encode_request(7, "c", tagged("x", 1), 12)
    large = SIZE.pack(200_000_000) + request[4:100]
    line.client_sends(large)
    assert line.to_broker == large


@pytest.mark.parametrize(("api", "since"), [("Produce", 10), ("Fetch", 16)])
def test_responses_name_other_leaders_since_kip_951(api: str, since: int) -> None:
    assert [carries_addresses(KEYS[api], version) for version in (since - 1, since)] == [False, True]


# Faults, and delayed requests


@given(st.integers(10, 13), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.text(max_size=200))
def test_a_response_to_produce_that_names_no_node_passes_undecoded(
    version: int, topics: int, partitions: int, plain_ones: bool, name: str
) -> None:
    part = PartitionProduceResponse(index=1, error_code=45, base_offset=-1, error_message=None if plain_ones else name)
    topic = TopicProduceResponse(name=name, topic_id=b"\1" * 16, partition_responses=[part] * partitions)
    response = ProduceResponse(responses=[topic] * topics, throttle_time_ms=7)
    frame = response_bytes(response, version)
    passes = plain_ones or not topics * partitions
    assert names_no_node(memoryview(frame), version) is (passes and (version == 13 or not topics or len(name.encode()) < 127))
    response.node_endpoints = [NodeEndpoint(node_id=0, host="h", port=0, rack=None)]
    assert not names_no_node(memoryview(response_bytes(response, version)), version)
    for end in range(len(frame)):
        assert not names_no_node(memoryview(frame)[:end], version)


@pytest.mark.parametrize("version", range(10, 14))
def test_a_random_response_to_produce_that_passes_undecoded_names_no_node(version: int) -> None:
    for seed in range(300):
        response = bytearray(response_bytes(random_response(PRODUCE, version, seed), version))
        if names_no_node(memoryview(response), version):
            assert hosts(decode_response(memoryview(response)[4:], PRODUCE, version)[1]) == []


@pytest.mark.parametrize("version", [10, 13])
def test_what_is_remembered_of_the_last_response_to_produce_changes_no_decision(version: int) -> None:
    remembered, decisions = NamelessResponses(), set()
    part = PartitionProduceResponse(index=1, error_code=0, base_offset=7)
    for topics, partitions, host, throttled in product((1, 2), (1, 2), (False, True), (0, 7)):
        topic = TopicProduceResponse(name="orders", topic_id=b"\1" * 16, partition_responses=[part] * partitions)
        response = ProduceResponse(responses=[topic] * topics, throttle_time_ms=throttled)
        response.node_endpoints = [NodeEndpoint(node_id=0, host="h", port=0, rack=None)] * host
        frame = bytearray(response_bytes(response, version))
        for at in (None, *range(8, len(frame))):
            if at is not None:
                frame[at] ^= 1
            view = memoryview(frame)
            decisions.add(remembered.includes(view, version))
            assert remembered.includes(view, version) is names_no_node(view, version), (topics, partitions, host, at)
            if at is not None:
                frame[at] ^= 1
            assert remembered.includes(memoryview(frame), version) is (not host)
    assert decisions == {False, True}


def test_a_response_of_the_proxy_waits_for_the_end_of_one_that_is_passing() -> None:
    line = Line()
    line.proxy.plan.add(faults.error(6, api="Produce"))
    response = response_bytes(random_response(KEYS["Heartbeat"], 4), 4, 1)
    line.client_sends(request_bytes(KEYS["Heartbeat"], 4, 1)).broker_sends(response[:9])
    line.client_sends(encode_request(2, "c", tagged("x"), 12))
    assert line.to_client == response[:9]
    line.broker_sends(response[9:])
    assert line.to_client[: len(response)] == response
    _, refused = decode_response(memoryview(line.to_client)[len(response) + 4 :], PRODUCE, 12)
    assert only(refused).error_code == 6


def test_a_silent_connection_gets_no_further_response() -> None:
    line = Line()
    line.proxy.plan.add(faults.lose_ack(api="Produce", then="silence"))
    line.client_sends(encode_request(1, "c", tagged("x"), 12) + request_bytes(KEYS["Metadata"], 12, 2))
    line.broker_sends(response_bytes(response_class(PRODUCE)(responses=[]), 12, 1))
    line.broker_sends(response_bytes(random_response(KEYS["Metadata"], 12), 12, 2))
    assert line.to_client == b""
    assert not line.relay.holds_client


def test_a_request_without_a_header_closes_the_connection_after_those_before_it() -> None:
    line = Line("all")
    silent = encode_request(1, "client", produce_request("orders", batch(), acks=0), 12)
    line.client_sends(silent + SIZE.pack(5) + b"short")
    assert line.to_broker == silent
    assert line.closed == "the client's request of 5 bytes has no header"


def test_a_cut_acts_when_its_bytes_have_arrived() -> None:
    line = Line()
    line.proxy.plan.add(faults.cut(2000, request=True, api="Produce"))
    request = encode_request(1, "c", produce_request("orders", batch(tag="v" * 50_000)), 12)
    line.client_sends(request[:1000])
    assert line.closed is None
    line.client_sends(request[1000:2100])
    assert line.closed is not None


# The proxy's own question


def asking(line: Line) -> Line:
    """The broker offers DescribeProducers, and the client sends a batch of a producer that the proxy does not know."""
    line.proxy.asks = True
    offered = ApiVersionsResponse(api_keys=[ApiVersion(api_key=KEYS["DescribeProducers"], min_version=0, max_version=0)])
    line.client_sends(encode_request(1, "c", ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3))
    line.broker_sends(b"".join(encode_response(1, offered, 3)))
    line.to_broker.clear()
    line.to_client.clear()
    return line.client_sends(PRODUCED)


PRODUCED = encode_request(2, "c", produce_request("orders", batch(5, pid=7, epoch=0)), 9)
ASKED = encode_request(-1, "wirebroker-proxy", DescribeProducersRequest(
    topics=[TopicRequest(name="orders", partition_indexes=[0])]), 0)  # fmt: skip
STORED = b"".join(encode_response(2, ProduceResponse(responses=[TopicProduceResponse(
    name="orders", partition_responses=[PartitionProduceResponse(index=0, error_code=0, base_offset=50)])]), 9))  # fmt: skip


def description(last_sequence: int) -> bytes:
    state = ProducerState(producer_id=7, producer_epoch=0, last_sequence=last_sequence, coordinator_epoch=0)
    part = PartitionResponse(partition_index=0, error_code=0, active_producers=[state])
    return b"".join(encode_response(-1, DescribeProducersResponse(topics=[TopicResponse(name="orders", partitions=[part])]), 0))


@pytest.mark.parametrize("level", ["verdicts", "all"])
@pytest.mark.parametrize(("last_sequence", "predicted"), [(4, "accepted"), (5, "unknown"), (9, "unknown"), (-1, "unknown")])
def test_the_broker_is_asked_before_the_batch_and_the_client_sees_nothing_of_it(
    level: str, last_sequence: int, predicted: str
) -> None:
    line = asking(Line(level))
    assert line.to_broker == ASKED + PRODUCED
    line.broker_sends(description(last_sequence) + STORED)
    assert line.to_client == STORED
    assert [row.predicted for row in line.proxy.trace.events("shadow")] == [predicted]
    line.to_broker.clear()
    line.client_sends(PRODUCED)
    assert line.to_broker == PRODUCED


def test_a_batch_without_a_producer_id_has_no_sequences_in_the_trace() -> None:
    """Some clients send the base sequence 0 without a producer id."""
    line = Line("verdicts")
    line.client_sends(encode_request(2, "c", produce_request("orders", batch(0, pid=-1, epoch=-1)), 9)).broker_sends(STORED)
    (row,) = line.proxy.trace.produce()
    assert (row.producer_id, row.first_sequence, row.last_sequence) == (-1, -1, -1)


@pytest.mark.parametrize("response", [b"", b"\0", b"\0" * 5 + b"\xff" * 9])
def test_a_response_to_the_proxy_that_cannot_be_read_does_not_reach_the_client(response: bytes) -> None:
    line = asking(Line("verdicts"))
    line.broker_sends(SIZE.pack(4 + len(response)) + SIZE.pack(-1) + response + STORED)
    assert line.to_client == STORED
    assert line.closed is None


def test_nothing_is_asked_without_verdicts() -> None:
    line = Line("off")
    assert asking(line).to_broker == PRODUCED


# Shadow verdicts

FIRST, SECOND = header(0), header(1)


def test_a_batch_at_sequence_0_may_be_a_retry_if_its_producer_did_not_pass() -> None:
    shadow = Shadow()
    shadow.judged("orders", 0, FIRST, 0, 100)
    assert shadow.judged("orders", 0, header(7), 0, 107).predicted == "unknown"


def test_a_new_producer_is_judged_from_its_first_batch_on() -> None:
    shadow = Shadow()
    shadow.issued(7, 0)
    verdicts = [
        shadow.judged("orders", 0, each, code, at) for each, code, at in ((FIRST, 0, 0), (SECOND, 0, 1), (header(5), 45, -1))
    ]
    assert [(each.predicted, each.agrees) for each in verdicts] == [("accepted", True), ("accepted", True), ("rejected", True)]


def test_a_duplicate_that_is_stored_elsewhere_disagrees() -> None:
    shadow = Shadow()
    shadow.issued(7, 0)
    shadow.judged("orders", 0, FIRST, 0, 0)
    again = shadow.judged("orders", 0, FIRST, 0, 9)
    assert (again.predicted, again.outcome, again.agrees) == ("duplicate", "accepted", False)


def test_a_producer_that_may_be_fenced_is_not_predicted() -> None:
    shadow = Shadow()
    shadow.issued(7, 0)
    shadow.judged("orders", 0, FIRST, 0, 0)
    shadow.issued(7, 1)
    assert shadow.judged("orders", 0, SECOND, 47, -1).agrees is None


def test_an_id_that_is_given_out_again_belongs_to_a_new_producer() -> None:
    shadow = Shadow()
    shadow.issued(7, 0)
    shadow.judged("orders", 0, FIRST, 0, 0)
    shadow.issued(7, 0)
    assert shadow.judged("orders", 0, FIRST, 0, 0).predicted == "accepted"


def test_sequences_wrap() -> None:
    shadow, last = Shadow(), 2**31 - 1
    shadow.issued(7, 0)
    shadow.judged("orders", 0, header(0, last), 0, 0)
    assert shadow.judged("orders", 0, header(last), 0, last).agrees
    assert shadow.judged("orders", 0, FIRST, 0, last + 1).agrees


@pytest.mark.parametrize("code", [7, 20])
def test_a_batch_that_is_stored_in_spite_of_an_error_is_known(code: int) -> None:
    shadow = Shadow()
    shadow.issued(7, 0)
    assert shadow.judged("orders", 0, FIRST, code, -1).agrees is None
    assert shadow.judged("orders", 0, FIRST, 0, 0).outcome == "duplicate"
    assert shadow.judged("orders", 0, SECOND, 0, 1).agrees


def test_the_sentences_have_no_number_that_stands_for_none() -> None:
    shadow = Shadow()
    shadow.issued(7, 0)
    nobody = header(-1, pid=-1, epoch=-1)
    cases = [(nobody, 0, 5), (nobody, 0, -1), (nobody, 3, -1), (FIRST, 3, -1), (FIRST, 0, 0), (SECOND, 0, 1), (SECOND, 46, -1)]
    sentences = [shadow.judged("orders", 0, each, code, at).explain("orders", 0, each, code, at) for each, code, at in cases]
    first = "sequence 0 is the first of producer 7 epoch 0 on orders-0, which has no state here"
    again = "sequence 1 of producer 7 epoch 0 on orders-0 is batch 1 of 2 in the window, counted from the newest"
    assert sentences == [
        "stored at offset 5: a batch without a producer id is not checked",
        "accepted: a batch without a producer id is not checked",
        "answered 3 UNKNOWN_TOPIC_OR_PARTITION",
        f"answered 3 UNKNOWN_TOPIC_OR_PARTITION; the sequences say: accepted: {first}",
        f"stored at offset 0: {first}",
        "stored at offset 1: sequence 1 is the next of producer 7 epoch 0 on orders-0",
        f"duplicate of offset 1: {again}; not stored again",
    ]


def test_a_batch_without_a_producer_that_cannot_be_stored_is_explained_in_words() -> None:
    nobody = header(-1, pid=-1, epoch=-1)
    sentence = explain(Reject(56, "write_failed", -1, -1), nobody, None, "orders", 0)
    assert sentence == (
        "rejected 56 KAFKA_STORAGE_ERROR: the log could not be written; "
        "the batch of a producer without an id on orders-0 is not stored"
    )


@pytest.mark.parametrize("offset", [2**63 - 1, -(2**63), -2])
def test_a_response_with_an_offset_that_no_log_has_makes_its_producer_unknown(offset: int) -> None:
    shadow = Shadow()
    shadow.issued(7, 0)
    shadow.judged("orders", 0, FIRST, 0, 0)
    assert shadow.judged("orders", 0, SECOND._replace(last_offset_delta=1), 0, offset).predicted == "unknown"
    assert not list(shadow.states())
