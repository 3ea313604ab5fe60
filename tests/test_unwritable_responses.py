"""Ids that become too long for Kafka's formats. As in Kafka, each byte that is not valid UTF-8 becomes U+FFFD, which takes
three bytes.

If an id is too long for a record, the response has UNKNOWN_SERVER_ERROR, and no state changes. If an id is too long for a
response, the API's error response is sent. Kafka 4.3.1 returned the expected error codes for the same requests.
"""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.frames import decode_response, encode_request
from requesting import Plain, find_coordinator, init_producer_id, join_group, offset_commit, offset_fetch_of, plain
from responses import only, sole
from wirebroker.mock import MockKafka
from wirekit import client

SENT = "Q" * 20_000
"""A placeholder. A placeholder: `ask` replaces each Q by the byte 0xFF, which our codec would not write."""
FAILED = ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.fixture(autouse=True)
def no_tracebacks(caplog: pytest.LogCaptureFixture) -> Any:
    yield
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.fixture(params=["memory", "disk"])
def kafka(request: Any, mock_kafka_factory: Any, tmp_path: Path) -> MockKafka:
    made: MockKafka = mock_kafka_factory(topics={"orders": 2}, data=tmp_path / "data" if request.param == "disk" else None)
    for kind in (0, 1):
        client(made).request(find_coordinator("any", kind=kind), 4)
    return made


def ask(kafka: MockKafka, request: Message, version: int) -> Any:
    """Sends a request with 0xFF in place of each Q. Returns the response, or None if the broker closes the connection."""
    host, port = kafka.bootstrap_servers.split(":")
    frame = encode_request(7, "test", request, version).replace(SENT.encode(), b"\xff" * len(SENT))
    with socket.create_connection((host, int(port)), 10) as line, line.makefile("rb") as responses:
        line.sendall(frame)
        size = responses.read(4)
        return decode_response(responses.read(int.from_bytes(size)), request.__schema__.key, version)[1] if size else None


def commit(group: str = SENT, retention: int = -1) -> Message:
    return offset_commit(group, 5, retention_time_ms=retention)


def join(group: str, protocol_type: str = "consumer", names: tuple[str, ...] = ("range",)) -> Message:
    return join_group(group, protocols=[(name, b"%d" % i) for i, name in enumerate(names)], protocol_type=protocol_type)


def heartbeat(**told: Any) -> Message:
    begin = {
        "group_id": "team", "member_id": "one", "member_epoch": 0, "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ["orders"], "topic_partitions": [],
    }  # fmt: skip
    return plain("ConsumerGroupHeartbeat", **begin | told)


def test_a_group_id_that_no_record_can_hold_is_refused_and_poisons_no_list(kafka: MockKafka) -> None:
    for version in (2, 8):
        assert only(ask(kafka, commit(), version)).error_code == FAILED
    assert ask(kafka, join(SENT), 2).error_code == FAILED
    for told in ({"group_id": SENT}, {"member_id": SENT}, {"instance_id": SENT}, {"rack_id": SENT},
                 {"subscribed_topic_names": [SENT]}):  # fmt: skip
        assert ask(kafka, heartbeat(**told), 1).error_code == FAILED
    for version in (0, 3, 5):
        listed = ask(kafka, plain("ListGroups"), version)
        assert (listed.error_code, listed.groups) == (0, [])
    assert ask(kafka, heartbeat(), 1).error_code == 0, "a member with a short id can still use the group"


def test_a_transactional_id_that_no_record_can_hold_is_refused_and_poisons_no_list(kafka: MockKafka) -> None:
    for name, code in ((SENT, FAILED), (SENT, FAILED), ("good", 0)):
        assert ask(kafka, init_producer_id(name, 1000), 1).error_code == code
    listed = ask(kafka, plain("ListTransactions", state_filters=[], producer_id_filters=[]), 0)
    assert [each.transactional_id for each in listed.transaction_states] == ["good"]


def test_a_member_whom_no_response_can_describe_does_not_join(kafka: MockKafka) -> None:
    """Kafka 4.3.1 accepts the first such member. After that, Kafka can neither list nor describe groups."""
    for refused in (join("g", protocol_type=SENT), join("g", names=(SENT,))):
        assert ask(kafka, refused, 2).error_code == FAILED
    for version in (0, 5):
        listed = ask(kafka, plain("ListGroups"), version)
        assert (listed.error_code, listed.groups) == (0, [])


def test_a_response_that_cannot_be_written_is_an_unknown_server_error(kafka: MockKafka) -> None:
    for refused in (join("g", protocol_type=SENT), join("g", names=(SENT,))):
        assert ask(kafka, refused, 2).error_code == FAILED
    unknown = ask(kafka, plain("ListTransactions", state_filters=[SENT], producer_id_filters=[]), 0)
    assert (unknown.error_code, unknown.unknown_state_filters) == (FAILED, [])


def test_an_error_response_names_nothing_that_is_too_long(kafka: MockKafka) -> None:
    request = offset_fetch_of("g", topic=SENT)
    told = sole(ask(kafka, request, 8).groups)
    assert (told.group_id, told.error_code, told.topics) == ("g", FAILED, [])


def test_what_not_even_an_error_can_say_closes_the_connection_with_a_sentence(
    kafka: MockKafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    topics = [{"topic_id": bytes(16), "name": SENT}]
    for request, version in (
        (plain("Metadata", topics=topics), 1), (plain("DescribeGroups", groups=[SENT]), 0),
        (plain("DescribeTransactions", transactional_ids=[SENT]), 0),
    ):  # fmt: skip
        assert ask(kafka, request, version) is None
    kafka.wait_until(lambda: caplog.text.count("its request cannot be answered: ") == 3)


def test_a_retention_beyond_the_end_of_time_wraps_as_in_java(kafka: MockKafka) -> None:
    for version in (2, 3, 4):
        for retention in (2**63 - 1, -(2**63), 2**62):
            response = ask(kafka, commit("g", retention), version)
            assert only(response).error_code == 0
    ask(kafka, commit("g", 2**63 - 1), 2)
    kafka.clock.advance(minutes=11)  # longer than offsets.retention.check.interval.ms, so the offset has expired
    assert only(ask(kafka, offset_fetch_of("g"), 8)).committed_offset == -1


def test_a_protocol_that_a_member_names_twice_counts_once(kafka: MockKafka) -> None:
    joined = ask(kafka, join("g", names=("range", "other", "range")), 2)
    assert (joined.error_code, joined.protocol_name, joined.generation_id) == (0, "range", 1)
    assert [each.metadata for each in joined.members] == [b"0"]


def test_list_offsets_returns_a_partition_once_however_often_it_is_named(kafka: MockKafka) -> None:
    def topic(*indexes: int, name: str = "orders") -> Plain:
        return {"name": name, "partitions": [{"partition_index": index, "timestamp": -1} for index in indexes]}

    def topic_at(timestamp: int) -> Plain:
        return {"name": "orders", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}

    def told(*topics: Plain) -> list[tuple[str, list[tuple[int, int]]]]:
        response = ask(kafka, plain("ListOffsets", replica_id=-1, topics=list(topics)), 7)
        return [(each.name, [(p.partition_index, p.error_code) for p in each.partitions]) for each in response.topics]

    twice = ErrorCode.INVALID_REQUEST
    assert told(topic(0, 0, 0)) == [("orders", [(0, twice)])]
    assert told(topic(0), topic(0, 1)) == [("orders", [(0, twice), (1, 0)])]
    assert [told(topic_at(timestamp))[0][1] for timestamp in (-7, -(2**63))] == [[(0, 35)]] * 2, "UNSUPPORTED_VERSION"
    assert told(topic(7, 7, name="nope"), topic(1)) == [("nope", [(7, twice)]), ("orders", [(1, 0)])]
