"""Versions of APIs that Kafka 4.0 removed. The expected responses are those of brokers of 2.8.2 (ZooKeeper) and 3.9.2
(KRaft).
"""

from __future__ import annotations

from typing import Any

import pytest

from inprocess import InProcess
from requesting import list_offsets, named, offset_commit, offset_fetch, plain, produce_request
from responses import only, parts
from wirekit import batch, client

KRAFT, ZOOKEEPER = "kafka-3.9", "kafka-2.8"


def broker_of(profile: str) -> InProcess:
    return InProcess(topics={"orders": 1}, profile=profile, warm=True)


def ask(broker: InProcess, request: Any, version: int) -> Any:
    return client(broker).request(request, version)


# ListOffsets v0 returns the base offsets of segments, and the end offset


def offsets(broker: InProcess, timestamp: int, most: int = 10) -> list[int]:
    part = {"partition_index": 0, "timestamp": timestamp, "max_num_offsets": most}
    answered = only(ask(broker, plain("ListOffsets", replica_id=-1, topics=named(["orders"], partitions=[part])), 0))
    assert answered.error_code == 0
    return list(answered.old_style_offsets)


def test_list_offsets_0_has_the_starts_of_segments_and_the_end() -> None:
    broker = broker_of(KRAFT)
    assert (offsets(broker, -1), offsets(broker, -2)) == ([0], [0])
    started = broker.clock.now()
    for _ in range(3):
        broker.clock.advance(seconds=1)
        only(ask(broker, produce_request("orders", batch(count=5)), 7))
    partition = broker.engine.cluster.topics["orders"].partitions[0]
    partition.log.roll(broker.clock.now())
    only(ask(broker, produce_request("orders", batch(count=1)), 7))
    assert offsets(broker, -1) == [16, 15, 0]
    assert [offsets(broker, -1, most) for most in (0, 1, 2)] == [[], [16], [16, 15]]
    assert (offsets(broker, -2), offsets(broker, started - 1)) == ([0], [])
    assert offsets(broker, broker.clock.now() + 1) == [16, 15, 0]


def test_list_offsets_0_answers_a_partition_as_often_as_it_is_named() -> None:
    twice = [{"partition_index": 0, "timestamp": -1, "max_num_offsets": 1}] * 2
    request = plain("ListOffsets", replica_id=-1, topics=named(["orders"], partitions=twice))
    assert [part.old_style_offsets for part in parts(ask(broker_of(KRAFT), request, 0))] == [[0], [0]]
    assert only(ask(broker_of(KRAFT), list_offsets(-3), 0)).error_code == 35
    assert only(ask(broker_of(KRAFT), list_offsets(-1, topic="nix"), 0)).error_code == 3


# OffsetCommit v0 and OffsetFetch v0 use offsets in ZooKeeper


def test_offsets_of_version_0_are_in_zookeeper_and_not_in_the_group() -> None:
    broker = broker_of(ZOOKEEPER)
    assert only(ask(broker, offset_commit("g", 7, "any", 99, metadata="m"), 0)).error_code == 0
    assert [(p.committed_offset, p.metadata) for p in parts(ask(broker, offset_fetch("g"), 0))] == [(7, "")]
    assert only(ask(broker, offset_fetch("g"), 1)).committed_offset == -1
    assert only(ask(broker, offset_commit("g", 9), 1)).error_code == 0
    assert [only(ask(broker, offset_fetch("g"), version)).committed_offset for version in (0, 1)] == [7, 9]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (offset_commit("g", 1, topic="nix"), 3),
        (offset_commit("g", 1, metadata="x" * 5000), 12),
        (offset_commit("", 1), -1),
        (offset_fetch("never"), 3),
        (offset_fetch("g", topic="nix"), 3),
    ],
)
def test_errors_of_offsets_in_zookeeper(request_: Any, code: int) -> None:
    assert only(ask(broker_of(ZOOKEEPER), request_, 0)).error_code == code


def test_a_kraft_broker_has_no_offsets_of_version_0() -> None:
    broker = broker_of(KRAFT)
    assert only(ask(broker, offset_commit("g", 1), 0)).error_code == 35
    assert only(ask(broker, offset_commit("g", 1, topic="nix"), 0)).error_code == 3
    assert only(ask(broker, offset_fetch("g", topic="nix"), 0)).error_code == 35


def test_version_1_of_offset_commit_has_a_time_of_its_own() -> None:
    broker = broker_of(KRAFT)
    request = offset_commit("g", 5)
    only(request).commit_timestamp = 1_000
    assert only(ask(broker, request, 1)).error_code == 0
    held = broker.engine.groups.offsets.of("g")["orders", 0]
    assert (held.offset, held.time) == (5, 1_000)
