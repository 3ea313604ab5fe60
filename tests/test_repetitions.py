"""If a request names the same thing twice, wirebroker responds like Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from requesting import add_partitions, find_coordinator, init_producer_id, plain
from responses import only
from wirebroker.client.wire import WireClient
from wirebroker.mock import MockKafka
from wirekit import batch, client

ASKED = [("a", [0, 1, 0]), ("b", [0]), ("a", [1]), ("nope", [0])]
ANSWERED = [("a", [(0, 5), (1, 4), (0, 5)]), ("b", [(0, 3)]), ("a", [(1, 4)]), ("nope", [(0, -1)])]


@pytest.fixture
def wire() -> Iterator[WireClient]:
    with MockKafka(topics={"a": 2, "b": 2}) as kafka:
        wire = client(kafka)
        for key_type, key in enumerate(("g", "tx")):  # creates the coordinators' topics
            assert only(wire.request(find_coordinator(key, kind=key_type), 4)).error_code == 0
        yield wire


def damaged(count: int) -> bytes:
    made = bytearray(batch(count=count))
    made[-1] ^= 1
    return bytes(made)


@pytest.mark.parametrize(
    ("asked", "answered", "ends"),
    [
        ([("a", [(0, batch(count=1)), (0, batch(count=2))])], {("a", 0): (0, 0)}, {("a", 0): 2}),
        (
            [("a", [(0, batch(count=3)), (1, batch())]), ("b", [(0, batch())]), ("a", [(0, batch(count=4))])],
            {("a", 0): (0, 0), ("a", 1): (0, 0), ("b", 0): (0, 0)},
            {("a", 0): 4, ("a", 1): 1, ("b", 0): 1},
        ),
        ([("a", [(0, b""), (0, batch())])], {("a", 0): (87, -1)}, {("a", 0): 1}),
        ([("a", [(0, batch()), (0, b"")])], {("a", 0): (87, -1)}, {("a", 0): 1}),
        ([("a", [(0, damaged(1)), (0, batch(count=2))])], {("a", 0): (0, 0)}, {("a", 0): 2}),
        ([("nope", [(0, batch()), (0, b"")])], {("nope", 0): (3, -1)}, {}),
    ],
    ids=["the last counts", "topics apart", "unreadable first", "unreadable last", "damaged first", "unknown"],
)
def test_the_last_batch_of_a_partition_named_twice_is_appended(
    wire: WireClient,
    asked: list[tuple[str, list[tuple[int, bytes]]]],
    answered: dict[tuple[str, int], tuple[int, int]],
    ends: dict[tuple[str, int], int],
) -> None:
    topics = [{"name": name, "partition_data": [{"index": i, "records": r} for i, r in parts]} for name, parts in asked]
    response = wire.request(plain("Produce", acks=1, timeout_ms=1000, topic_data=topics), 9)
    told = [((t.name, p.index), (p.error_code, p.base_offset)) for t in response.responses for p in t.partition_responses]
    assert len(told) == len(answered)
    assert dict(told) == answered
    wanted = [{"name": n, "partitions": [{"partition_index": i, "timestamp": -1}]} for n, i in ends]
    found = wire.request(plain("ListOffsets", topics=wanted), 5)
    assert {(t.name, p.partition_index): p.offset for t in found.topics for p in t.partitions} == ends


def commit(wire: WireClient) -> None:
    topics = [
        {"name": name, "partitions": [{"partition_index": i, "committed_offset": at} for i, at in offsets]}
        for name, offsets in (("a", [(0, 1), (0, 2)]), ("b", [(0, 3)]), ("a", [(1, 4), (0, 5)]))
    ]
    wire.request(plain("OffsetCommit", group_id="g", topics=topics), 8)


def test_offsets_are_answered_by_topic_in_the_order_of_the_request(wire: WireClient) -> None:
    commit(wire)
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in ASKED]
    found = wire.request(plain("OffsetFetch", group_id="g", topics=topics), 5)
    told = [(t.name, [(p.partition_index, p.committed_offset) for p in t.partitions]) for t in found.topics]
    assert told == ANSWERED


def test_offsets_of_several_groups_are_answered_in_the_order_of_the_request(wire: WireClient) -> None:
    commit(wire)
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in ASKED]
    group = {"group_id": "g", "topics": topics}
    for found in wire.request(plain("OffsetFetch", groups=[group, group]), 8).groups:
        told = [(t.name, [(p.partition_index, p.committed_offset) for p in t.partitions]) for t in found.topics]
        assert told == ANSWERED


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ([("a", [0, 0, 1])], [("a", [(0, 0), (0, 0), (1, 0)])]),
        ([("a", [0]), ("b", [1]), ("a", [1, 0])], [("a", [(0, 0)]), ("b", [(1, 0)]), ("a", [(1, 0), (0, 0)])]),
        ([("a", [0]), ("nope", [0, 0]), ("a", [0])], [("a", [(0, 55)]), ("nope", [(0, 3)])]),
    ],
    ids=["partitions", "topics", "an unknown one"],
)
def test_partitions_are_added_and_answered_in_the_order_of_the_request(
    wire: WireClient, asked: list[tuple[str, list[int]]], answered: list[tuple[str, list[tuple[int, int]]]]
) -> None:
    me = wire.request(init_producer_id("tx"), 3)
    topics = [{"name": name, "partitions": indexes} for name, indexes in asked]
    request = add_partitions("tx", (me.producer_id, me.producer_epoch), topics=topics)
    results = wire.request(request, 3).results_by_topic_v3_and_below
    told = [(t.name, [(p.partition_index, p.partition_error_code) for p in t.results_by_partition]) for t in results]
    assert told == answered
