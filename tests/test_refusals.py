"""The answer that an `error` makes, over all APIs and versions: where the code is, and what has become of the request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.declare import Struct
from kafkawire.errors import ErrorCode
from kafkawire.frames import decode_response, encode_request
from kafkawire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkawire.registry import KEYS, request_class, versions
from wirebroker import faults, operations
from wirebroker.apis import SERVED
from wirebroker.core.groups.offsets import Committed
from wirebroker.engine import Engine
from wirebroker.exchange import Connection, Reply
from wirebroker.faults.refusals import CODES
from wirekit import NOW, batch

REFUSED = 41


def engine_with(*rules: faults.Rule) -> Engine:
    """An engine with a topic and these rules."""
    engine = Engine(NOW, os.urandom, cold_start=False)
    operations.create_topic(engine, "orders", NOW, 3)
    for rule in rules:
        engine.plan.add(rule)
    return engine


def ask(engine: Engine, request: Any, version: int, connection: Connection | None = None) -> Any:
    """What the engine answers, after whatever it has to wait for."""
    key = type(request).__schema__.key
    connection = connection or engine.connect(1)
    engine.receive(connection, memoryview(bytearray(encode_request(7, "raw", request, version)[4:])), NOW)
    if connection.parked is not None:
        engine.tick(NOW + 10_000)
    (parts,) = [effect.parts for effect in engine.take_effects() if isinstance(effect, Reply)]
    return decode_response(b"".join(map(bytes, parts))[4:], key, version)[1]


def filled(cls: type[Struct], version: int, topic_id: bytes) -> Any:
    """A request with something in each of its lists; every name is "orders"."""
    values = {field.name: _value(field.spec, version, topic_id) for field in cls.__wire__ if field.present(version)}
    return cls(**{name: value for name, value in values.items() if value is not None})


def _value(spec: Any, version: int, topic_id: bytes) -> Any:
    if isinstance(spec, list):
        return [_value(spec[0], version, topic_id)]
    if isinstance(spec, type):
        return filled(spec, version, topic_id)
    plain = {"string": "orders", "uuid": topic_id, "records": batch(), "bytes": b"", "bool": False}
    return plain.get(spec, 0)


def codes(part: Any) -> Iterator[int]:
    """Every error code in an answer."""
    for attribute in type(part).__slots__:
        value = getattr(part, attribute)
        if attribute in CODES:
            yield value
        for each in value if isinstance(value, list) else ():
            if isinstance(each, Struct):
                yield from codes(each)


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
    answer = ask(engine, request, version)
    assert REFUSED in codes(answer)
    assert rule.fired == 1


def test_a_fetch_says_of_itself_only_what_is_wrong_with_its_session() -> None:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic(topic="orders", partitions=[part])])
    for code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        answer = ask(engine_with(faults.error(code, api="Fetch")), fetch, 12)
        said = [each.error_code for topic in answer.responses for each in topic.partitions]
        assert (answer.error_code, said) == ((0, [1]) if code == ErrorCode.OFFSET_OUT_OF_RANGE else (70, []))


@pytest.mark.parametrize("version", [1, 2, 7, 8])
def test_an_offset_fetch_says_of_its_group_what_is_not_about_partitions(version: int) -> None:
    def said(code: int, **words: Any) -> tuple[int, list[int]]:
        topics: dict[str, Any]
        if version < 8:
            one = OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])
            topics = {"group_id": "team", "topics": [one]}
        else:
            many = OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])
            topics = {"groups": [OffsetFetchRequestGroup(group_id="team", topics=[many])]}
        engine = engine_with(faults.error(code, api="OffsetFetch", **words))
        ask(engine, FindCoordinatorRequest(key_type=0, key="team"), 3)
        answer = ask(engine, OffsetFetchRequest(require_stable=False, **topics), version)
        group = answer.groups[0] if version >= 8 else answer
        return group.error_code, [part.error_code for topic in group.topics for part in topic.partitions]

    assert said(ErrorCode.UNSTABLE_OFFSET_COMMIT) == (0, [88, 88])
    assert said(ErrorCode.NOT_COORDINATOR) == ((0, [16, 16]) if version == 1 else (16, []))
    assert said(ErrorCode.NOT_COORDINATOR, topic="orders", partition=1) == (0, [0, 16])


# What a request is about without naming it


def fetch_of(session: int, epoch: int, *partitions: int, version: int, topic_id: bytes, **more: Any) -> FetchRequest:
    parts = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in partitions]
    topics = [FetchTopic(topic="orders", topic_id=topic_id, partitions=parts)] if parts else []
    return FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=topics, session_id=session, session_epoch=epoch, **more)


@pytest.mark.parametrize("version", [12, 13])
def test_a_fetch_is_about_all_that_its_session_holds(version: int) -> None:
    engine = engine_with()
    rule = engine.plan.add(faults.error(REFUSED, api="Fetch", topic="orders", partition=0, nth=[2, 4]))
    form = {"version": version, "topic_id": engine.cluster.topics["orders"].topic_id}
    session = ask(engine, fetch_of(0, 0, 0, 1, **form), version).session_id

    def go_on(epoch: int, **more: Any) -> list[tuple[int, int]]:
        answer = ask(engine, fetch_of(session, epoch, **form, **more), version)
        return [(part.partition_index, part.error_code) for topic in answer.responses for part in topic.partitions]

    assert go_on(1) == [(0, REFUSED)], "though nothing has changed in it"
    assert go_on(2) == []
    forgotten = [ForgottenTopic(topic="orders", topic_id=form["topic_id"], partitions=[0])]
    assert go_on(3, forgotten_topics_data=forgotten) == []
    assert go_on(4) == []
    assert (rule.seen, rule.fired) == (3, 1), "the last two are about partition 1 alone"
    engine.plan.clear()
    engine.plan.add(faults.error(REFUSED, api="Fetch"))
    assert go_on(5) == [(1, REFUSED)]


def test_who_asks_for_all_topics_asks_for_each() -> None:
    rule = faults.error(REFUSED, topic="orders")
    engine = engine_with(rule)
    operations.create_topic(engine, "other", NOW)
    for request, version in (
        (MetadataRequest(topics=None), 8),
        (MetadataRequest(topics=[]), 0),
        (DescribeTopicPartitionsRequest(topics=[]), 0),
    ):
        said = {topic.name: topic.error_code for topic in ask(engine, request, version).topics}
        assert said == {"orders": REFUSED, "other": 0}
    assert rule.fired == 3


@pytest.mark.parametrize("version", [7, 8])
def test_who_asks_for_all_offsets_asks_for_those_of_each_partition(version: int) -> None:
    rule = faults.error(REFUSED, api="OffsetFetch", topic="orders", partition=1)
    engine = engine_with(rule)
    ask(engine, FindCoordinatorRequest(key_type=0, key="team"), 3)
    everything = OffsetFetchRequest(
        group_id="team", topics=None, groups=[OffsetFetchRequestGroup(group_id="team", topics=None)], require_stable=False
    )
    ask(engine, everything, version)
    assert rule.seen == 0
    for index in range(3):
        engine.groups.offsets.commit("team", ("orders", index), Committed(7, -1, "", NOW))
    answer = ask(engine, everything, version)
    (topic,) = (answer.groups[0] if version >= 8 else answer).topics
    assert [(part.error_code, part.committed_offset) for part in topic.partitions] == [(0, 7), (REFUSED, -1), (0, 7)]
