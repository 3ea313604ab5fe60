"""The responses that an `error` fault makes, in all APIs and versions. Tests the place of the error code, and which effects the
request still has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from fuzzing.known import Known
from fuzzing.requests import Author
from kafkawire.codec import decode, encode
from kafkawire.declare import Message, Struct
from kafkawire.entities import parts, values
from kafkawire.errors import ErrorCode
from kafkawire.frames import decode_response, encode_request
from kafkawire.registry import KEYS, request_class, versions
from requesting import add_partitions, create_topics, find_coordinator, init_producer_id, named, new_topic, plain
from responses import sole
from wirebroker import faults
from wirebroker.apis import SERVED
from wirebroker.core.groups.offsets import Committed
from wirebroker.deeds.broker import EngineBroker
from wirebroker.engine.engine import Engine
from wirebroker.requests.connection import Connection
from wirebroker.requests.effects import Close, Respond
from wirebroker.requests.errors import refuse
from wirekit import NOW, batch

REFUSED = 41


def engine_with(*rules: faults.Rule) -> Engine:
    """Returns an engine with a topic and the fault rules `rules`."""
    engine = Engine(NOW, os.urandom, cold_start=False)
    EngineBroker(engine).create_topic("orders", 3)
    for rule in rules:
        engine.plan.add(rule)
    return engine


def ask(engine: Engine, request: Any, version: int, connection: Connection | None = None) -> Any:
    """Sends a request, and returns the response. If the request waits, moves the engine's clock by ten seconds."""
    key = type(request).__schema__.key
    connection = connection or engine.connect(1)
    engine.receive(connection, memoryview(bytearray(encode_request(7, "raw", request, version)[4:])), NOW)
    if connection.parked is not None:
        engine.tick(NOW + 10_000)
    (parts,) = [effect.parts for effect in engine.take_effects() if isinstance(effect, Respond)]
    return decode_response(b"".join(map(bytes, parts))[4:], key, version)[1]


def filled(cls: type[Struct], version: int, topic_id: bytes) -> Any:
    """Returns a request with one element in each list. Every name in the request is "orders"."""
    values = {field.name: _value(field.spec, version, topic_id) for field in cls.__wire__ if field.present(version)}
    return cls(**{name: value for name, value in values.items() if value is not None})


def _value(spec: Any, version: int, topic_id: bytes) -> Any:
    if isinstance(spec, list):
        return [_value(spec[0], version, topic_id)]
    if isinstance(spec, type):
        return filled(spec, version, topic_id)
    plain = {"string": "orders", "uuid": topic_id, "records": batch(), "bytes": b"", "bool": False}
    return plain.get(spec, 0)


EVERY_VERSION = [
    (name, version)
    for name in SERVED
    for version in range(versions(KEYS[name])[0], versions(KEYS[name])[1] + 1)
    if name != "Produce" or version >= 3
]


@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
def test_every_refusal_has_the_code(name: str, version: int) -> None:
    rule = faults.error(REFUSED, api=name)
    engine = engine_with(rule)
    request = filled(request_class(KEYS[name]), version, engine.cluster.topics["orders"].topic_id)
    if name == "Produce":
        request.acks = -1
    if name == "DescribeAcls":  # the number 0 stands for an unknown value, for which Kafka closes the connection
        request.resource_type_filter = request.operation = request.permission_type = 1
        request.pattern_type_filter = int(version > 0)
    response = ask(engine, request, version)
    assert REFUSED in values(response, "errorCode")
    assert rule.fired == 1


def test_a_fetch_has_a_top_level_error_only_for_its_session() -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fetch = plain("Fetch", max_wait_ms=0, max_bytes=1 << 20, topics=[{"topic": "orders", "partitions": [part]}])
    for code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        response = ask(engine_with(faults.error(code, api="Fetch")), fetch, 12)
        said = [each.error_code for topic in response.responses for each in topic.partitions]
        assert (response.error_code, said) == ((0, [1]) if code == ErrorCode.OFFSET_OUT_OF_RANGE else (70, []))


@pytest.mark.parametrize("version", [1, 2, 7, 8])
def test_an_offset_fetch_has_a_group_error_for_what_concerns_the_group(version: int) -> None:
    def said(code: int, **words: Any) -> tuple[int, list[int]]:
        team = {"group_id": "team", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]}
        asked = plain("OffsetFetch", **(team if version < 8 else {"groups": [team]}))
        engine = engine_with(faults.error(code, api="OffsetFetch", **words))
        ask(engine, find_coordinator("team"), 4)
        response = ask(engine, asked, version)
        group = sole(response.groups) if version >= 8 else response
        return group.error_code, [part.error_code for topic in group.topics for part in topic.partitions]

    assert said(ErrorCode.UNSTABLE_OFFSET_COMMIT) == (0, [88, 88])
    assert said(ErrorCode.NOT_COORDINATOR) == ((0, [16, 16]) if version == 1 else (16, []))
    assert said(ErrorCode.NOT_COORDINATOR, topic="orders", partition=1) == (0, [0, 16])


# Requests about topics and partitions that they do not name


def fetch_of(session: int, epoch: int, *partitions: int, version: int, topic_id: bytes, **more: Any) -> Message:
    parts = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in partitions]
    topics = [{"topic": "orders", "topic_id": topic_id, "partitions": parts}] if parts else []
    return plain("Fetch", max_wait_ms=0, max_bytes=1 << 20, topics=topics, session_id=session, session_epoch=epoch, **more)


@pytest.mark.parametrize("version", [12, 13])
def test_a_fetch_concerns_every_partition_of_its_session(version: int) -> None:
    engine = engine_with()
    rule = engine.plan.add(faults.error(REFUSED, api="Fetch", topic="orders", partition=0, nth=[2, 4]))
    form = {"version": version, "topic_id": engine.cluster.topics["orders"].topic_id}
    session = ask(engine, fetch_of(0, 0, 0, 1, **form), version).session_id

    def go_on(epoch: int, **more: Any) -> list[tuple[int, int]]:
        response = ask(engine, fetch_of(session, epoch, **form, **more), version)
        return [(part.partition_index, part.error_code) for topic in response.responses for part in topic.partitions]

    assert go_on(1) == [(0, REFUSED)], "the response has the partition, although the partition has no new records"
    assert go_on(2) == []
    forgotten = [{"topic": "orders", "topic_id": form["topic_id"], "partitions": [0]}]
    assert go_on(3, forgotten_topics_data=forgotten) == []
    assert go_on(4) == []
    assert (rule.seen, rule.fired) == (3, 1), "the last two requests are only about partition 1"
    engine.plan.clear()
    engine.plan.add(faults.error(REFUSED, api="Fetch"))
    assert go_on(5) == [(1, REFUSED)]


def test_a_request_for_all_topics_concerns_each() -> None:
    rule = faults.error(REFUSED, topic="orders")
    engine = engine_with(rule)
    EngineBroker(engine).create_topic("other")
    for request, version in (
        (plain("Metadata", topics=None), 8),
        (plain("Metadata", topics=[]), 0),
        (plain("DescribeTopicPartitions", topics=[]), 0),
    ):
        said = {topic.name: topic.error_code for topic in ask(engine, request, version).topics}
        assert said == {"orders": REFUSED, "other": 0}
    assert rule.fired == 3


@pytest.mark.parametrize("version", [7, 8])
def test_a_request_for_all_offsets_concerns_each_partition(version: int) -> None:
    rule = faults.error(REFUSED, api="OffsetFetch", topic="orders", partition=1)
    engine = engine_with(rule)
    ask(engine, find_coordinator("team"), 4)
    everything = plain(
        "OffsetFetch", group_id="team", topics=None, groups=[{"group_id": "team", "topics": None}], require_stable=False
    )
    ask(engine, everything, version)
    assert rule.seen == 0
    for index in range(3):
        engine.groups.offsets.commit("team", ("orders", index), Committed(7, -1, "", NOW))
    response = ask(engine, everything, version)
    (topic,) = (sole(response.groups) if version >= 8 else response).topics
    assert [(part.error_code, part.committed_offset) for part in topic.partitions] == [(0, 7), (REFUSED, -1), (0, 7)]


# Requests of which only a part is refused


def test_a_refused_offset_is_not_committed_and_the_others_are() -> None:
    rule = faults.error("GROUP_AUTHORIZATION_FAILED", api="OffsetCommit", partition=1)
    engine = engine_with(rule)
    ask(engine, find_coordinator("team"), 4)

    def commit(*indexes: int) -> dict[int, int]:
        parts = [{"partition_index": index, "committed_offset": 7, "committed_metadata": ""} for index in indexes]
        response = ask(engine, plain("OffsetCommit", group_id="team", topics=named(["orders"], partitions=parts)), 5)
        assert len(response.topics) == 1, "the response has a single element for the topic"
        return {part.partition_index: part.error_code for part in sole(response.topics).partitions}

    assert commit(0, 1, 2) == {0: 0, 1: 30, 2: 0}
    assert sorted(engine.groups.offsets.of("team")) == [("orders", 0), ("orders", 2)]
    assert commit(1) == {1: 30}
    assert rule.fired == 2


def test_a_refused_topic_is_neither_created_nor_deleted() -> None:
    engine = engine_with(*(faults.error(REFUSED, api=api, topic="orders") for api in ("CreateTopics", "DeleteTopics")))

    def said(request: Any, version: int) -> dict[str, int]:
        response = ask(engine, request, version)
        return {each.name: each.error_code for each in (response.topics if hasattr(response, "topics") else response.responses)}

    made = create_topics(new_topic("orders"), new_topic("new"))
    states = [{"name": name} for name in ("orders", "new")]
    for version, asked in ((5, {"topic_names": ["orders", "new"]}), (6, {"topics": states})):
        assert said(made, 4) == {"orders": REFUSED, "new": 0}
        assert list(engine.cluster.topics) == ["orders", "new"]
        assert said(plain("DeleteTopics", timeout_ms=100, **asked), version) == {"orders": REFUSED, "new": 0}
        assert list(engine.cluster.topics) == ["orders"]
    for version, asked in ((5, {"topic_names": ["orders"]}), (6, {"topics": states[:1]})):
        assert said(plain("DeleteTopics", timeout_ms=100, **asked), version) == {"orders": REFUSED}


def test_records_whose_deletion_is_refused_are_still_there() -> None:
    engine = engine_with(faults.error(REFUSED, api="DeleteRecords", topic="orders", partition=0))
    for partition in engine.cluster.topics["orders"].partitions:
        partition.append(memoryview(batch()), NOW, 9)
    parts = [{"partition_index": index, "offset": 1} for index in range(2)]
    asked = plain("DeleteRecords", topics=[{"name": "orders", "partitions": parts}], timeout_ms=100)
    (topic,) = ask(engine, asked, 1).topics
    said = {part.partition_index: (part.error_code, part.low_watermark) for part in topic.partitions}
    assert said == {0: (REFUSED, -1), 1: (0, 1)}
    assert [each.log_start_offset for each in engine.cluster.topics["orders"].partitions] == [0, 1, 0]


@pytest.mark.parametrize("version", [3, 4])
def test_refused_partitions_do_not_join_the_transaction(version: int) -> None:
    engine = engine_with(faults.error(REFUSED, api="AddPartitionsToTxn", partition=1))
    init = init_producer_id("till", 1000)
    ask(engine, find_coordinator("till", kind=1), 4)
    pid = ask(engine, init, 2).producer_id
    if version < 4:
        response = ask(engine, add_partitions("till", (pid, 0), partitions=[0, 1]), version)
        (topic,) = response.results_by_topic_v3_and_below
    else:
        many = [{"transactional_id": "till", "producer_id": pid, "topics": named(["orders"], partitions=[0, 1])}]
        (transaction,) = ask(engine, plain("AddPartitionsToTxn", transactions=many), version).results_by_transaction
        (topic,) = transaction.topic_results
    assert {part.partition_index: part.partition_error_code for part in topic.results_by_partition} == {0: 0, 1: REFUSED}
    assert set(engine.transactions.transactions["till"].partitions) == {("orders", 0)}


def test_the_whole_request_is_refused_if_its_response_has_no_topics() -> None:
    engine = engine_with(rule := faults.error(REFUSED, api="ConsumerGroupHeartbeat", topic="orders"))
    owned = {"topic_id": engine.cluster.topics["orders"].topic_id, "partitions": [0]}
    who = {"group_id": "team", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000}
    asked = plain("ConsumerGroupHeartbeat", **who, subscribed_topic_names=["orders"], topic_partitions=[owned])
    assert ask(engine, asked, 0).error_code == REFUSED
    assert rule.fired == 1
    assert not engine.groups.groups


def produce(*partitions: int, acks: int = -1) -> Message:
    parts = [{"index": index, "records": batch()} for index in partitions]
    return plain("Produce", acks=acks, timeout_ms=5000, topic_data=[{"name": "orders", "partition_data": parts}])


def test_a_second_rule_does_not_match_a_refused_request() -> None:
    first, second, third = rules = (
        faults.error(6, api="Produce", partition=0), faults.fail_write(partition=0), faults.error(7, api="Produce"),
    )  # fmt: skip
    engine = engine_with(*rules)
    (topic,) = ask(engine, produce(0, 1), 9).responses
    assert {part.index: part.error_code for part in topic.partition_responses} == {0: 6, 1: 7}
    assert [rule.fired for rule in (first, second, third)] == [1, 0, 1]
    assert [row.kind for row in engine.trace.faults()] == ["error", "error"]


@pytest.mark.parametrize("refused", [[0], [0, 1]], ids=str)
def test_acks_0_has_no_response_and_an_error_closes_the_connection(refused: list[int]) -> None:
    engine = engine_with(*(faults.error(6, api="Produce", partition=index) for index in refused))
    connection = engine.connect(1)
    frame = encode_request(7, "raw", produce(0, 1, acks=0), 9)[4:]
    engine.receive(connection, memoryview(bytearray(frame)), NOW)
    assert [type(effect) for effect in engine.take_effects()] == [Close]
    ends = [partition.log_end_offset for partition in engine.cluster.topics["orders"].partitions]
    assert ends == [0, 0 if 1 in refused else 1, 0], "batches for other partitions are stored"


def test_a_matched_request_is_not_remembered_for_the_fast_path() -> None:
    """The request has two partitions, but the broker has handled only one of them."""
    engine = engine_with(faults.error(6, api="Produce", partition=0))
    connection = engine.connect(1)
    ask(engine, produce(0, 1), 9, connection)
    assert connection.produce_shape is None


def test_a_refused_part_does_not_wait_for_a_slow_write() -> None:
    engine = engine_with(faults.error(6, api="Produce", partition=0, nth=2), faults.slow_write(60_000, partition=0, nth=1))
    frame = encode_request(7, "raw", produce(0), 9)[4:]
    engine.receive(engine.connect(1), memoryview(bytearray(frame)), NOW)
    connection = engine.connect(1)
    (topic,) = ask(engine, produce(0, 1), 9, connection).responses
    assert {part.index: part.error_code for part in topic.partition_responses} == {0: 6, 1: 0}


@pytest.mark.parametrize("api", ["AlterClientQuotas", "LeaveGroup"])
def test_an_error_response_repeats_a_name_that_is_null(api: str) -> None:
    """A null name means the default entity of a quota, or a member that is not static."""
    key = KEYS[api]
    version = versions(key)[1]
    request = filled(request_class(key), version, bytes(16))
    part, field = (
        (request.entries[0].entity[0], "entity_name")
        if api == "AlterClientQuotas"
        else (request.members[0], "group_instance_id")
    )
    setattr(part, field, None)
    exchange: Any = SimpleNamespace(api_key=key, version=version)
    refused: Any = refuse(request, REFUSED, exchange)
    told = refused.entries[0].entity[0] if api == "AlterClientQuotas" else refused.members[0]
    assert getattr(told, field) is None


@pytest.mark.parametrize("api", SERVED)
def test_every_request_has_an_error_response(api: str) -> None:
    key = KEYS[api]
    oldest, newest = versions(key)
    for version in range(oldest, newest + 1):
        random = Random(f"{api} {version}")
        author = Author(random, Known(random, ("orders",)), lambda: NOW)
        for _ in range(15):
            request, _ = decode(request_class(key), author.request(key, version, mutations=0).body, version)
            exchange: Any = SimpleNamespace(api_key=key, version=version)
            assert encode(refuse(request, REFUSED, exchange), version)


def with_a_null(request: Any, version: int) -> Iterator[Any]:
    """For each field of a request and of its parts that can be null: sets the field to null, and yields the request."""
    for part in (request, *parts_of(request)):
        for field in part.__wire__:
            if field.present(version) and field.nullable(version):
                value = getattr(part, field.name)
                setattr(part, field.name, None)
                yield request
                setattr(part, field.name, value)


def parts_of(part: Any) -> Iterator[Any]:
    """Yields the parts of a request at all depths."""
    for inner in parts(part):
        yield inner
        yield from parts_of(inner)


@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
def test_a_request_with_a_null_has_an_error_response(name: str, version: int) -> None:
    """A request may have a null where its response has no null: Metadata 10 and 11 name a topic by its id."""
    request = filled(request_class(KEYS[name]), version, bytes(15) + b"\1")
    exchange: Any = SimpleNamespace(api_key=KEYS[name], version=version)
    for each in with_a_null(request, version):
        assert encode(refuse(each, REFUSED, exchange), version)
