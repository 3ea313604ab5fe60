"""Share groups with many partitions. A request that is handled in slices has the same response as a request that is handled at
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.declare import Message
from kafkawire.frames import decode_response
from kafkawire.messages import share_fetch as fetch
from kafkawire.registry import KEYS
from requesting import Plain, named, plain
from test_slices import ALL, World, deletion, produce
from wirebroker.core.groups.share_group import ShareGroup
from wirebroker.core.share.in_flight import RecordState
from wirebroker.requests.effects import Respond
from wirekit import NOW

MEMBER = "m" * 22
BROUGHT = [f"topic-{i}" for i in range(0, 300, 3)]
"""The topics that have a record."""


def topic_id(world: World, name: str) -> bytes:
    return world.engine.cluster.topics[name].topic_id


def starts(topics: list[str]) -> Message:
    both = [{"partition_index": i, "start_offset": 0} for i in (0, 1)]
    return plain("AlterShareGroupOffsets", group_id="g", topics=named(topics, "topic_name", partitions=both))


def by_id(world: World, topics: list[str], *partitions: Plain) -> list[Plain]:
    """Returns the field `topics` for a request that names topics by their ids. Each topic has the partitions `partitions`."""
    return [{"topic_id": topic_id(world, name), "partitions": list(partitions)} for name in topics]


def acknowledged(index: int, kind: int | None) -> Plain:
    """Returns a partition for a request. Unless `kind` is None or 0, it acknowledges offset 0 with the type `kind`."""
    batches = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [kind]}] if kind else []
    return {"partition_index": index, "acknowledgement_batches": batches}


def share_fetch(world: World, epoch: int, topics: list[str], wait_ms: int = 0, kind: int | None = None) -> Message:
    """Returns a ShareFetch that reads both partitions of `topics`. Unless `kind` is None or 0, it acknowledges offset 0 with
    the type `kind`."""
    asked = by_id(world, topics, *(acknowledged(index, kind) for index in (0, 1)))
    limits = {"min_bytes": 1, "max_bytes": 1 << 20, "max_records": 10_000, "batch_size": 500}
    return plain("ShareFetch", **member(epoch), **limits, max_wait_ms=wait_ms, topics=asked, forgotten_topics_data=[])


def member(epoch: int) -> Plain:
    return {"group_id": "g", "member_id": MEMBER, "share_session_epoch": epoch}


def life(world: World) -> Iterator[tuple[str, bytes, int]]:
    """Sends all kinds of requests of a share group. For each request, yields its name, its response and the number of its
    slices.
    """

    def step(name: str, request: Message, version: int) -> tuple[str, bytes, int]:
        response = world.ask(request, version)
        return name, response, world.slices

    yield step("AlterShareGroupOffsets", starts(ALL), 0)
    for name in BROUGHT:
        produce(world, name, "v")
    world.engine.take_effects()
    yield step("ShareFetch that loads", share_fetch(world, 0, ALL), 1)
    yield step("ShareFetch that acquires", share_fetch(world, 1, []), 1)
    released = plain("ShareAcknowledge", **member(2), topics=by_id(world, BROUGHT, acknowledged(0, 2)))
    yield step("ShareAcknowledge that releases", released, 1)
    yield step("ShareFetch that acquires again", share_fetch(world, 3, []), 1)
    yield step("ShareFetch that accepts", share_fetch(world, 4, BROUGHT, kind=1), 1)
    yield step("ShareFetch that ends the session", share_fetch(world, -1, []), 1)
    every = by_id(world, ALL, {"partition": 0, "leader_epoch": -1})
    yield step("ReadShareGroupState", plain("ReadShareGroupState", group_id="g", topics=every), 0)
    gone = plain("DeleteShareGroupOffsets", group_id="g", topics=named(BROUGHT, "topic_name"))
    yield step("DeleteShareGroupOffsets", gone, 0)
    again = by_id(world, ALL, {"partition": 0, "state_epoch": 1, "start_offset": 7})
    yield step("InitializeShareGroupState", plain("InitializeShareGroupState", group_id="g", topics=again), 0)
    yield step("DeleteGroups", plain("DeleteGroups", groups_names=["g"]), 2)


def test_requests_of_a_share_group_are_answered_the_same_in_slices_as_at_once() -> None:
    for (name, quick, once), (_, slow, slices) in zip(life(World()), life(World().driven()), strict=True):
        assert slow == quick, name
        assert once == 1
        assert slices > 1, name


def states(world: World) -> int:
    return len(world.engine.groups.share_state.states)


def test_a_group_of_many_partitions_is_initialized_in_slices_after_the_response() -> None:
    world = World().driven()
    world.send(plain("ShareGroupHeartbeat", group_id="g", member_id=MEMBER, member_epoch=0, subscribed_topic_names=ALL), 1)
    (joined,) = world.engine.take_effects()
    assert isinstance(joined, Respond)
    assert states(world) < 600
    group = world.engine.groups.groups["g"]
    assert isinstance(group, ShareGroup)
    assert group.preparation is not None
    assert not group.preparation.initialized
    world.go_on()
    assert states(world) == 600
    assert len(group.preparation.initialized) == 300
    assert not group.preparation.initializing


def test_a_group_that_is_deleted_while_its_state_is_initialized_is_gone() -> None:
    world = World().driven()
    world.send(starts(ALL), 0)
    admin = world.engine.connect(1, now=NOW)
    world.send(plain("DeleteGroups", groups_names=["g"]), 2, admin)
    world.go_on()
    assert "g" not in world.engine.groups.groups


def test_a_topic_that_is_deleted_while_its_state_is_initialized_leaves_nothing_in_the_group() -> None:
    world = World().driven()
    gone = topic_id(world, ALL[0])
    world.send(starts(ALL), 0)
    while states(world) < 100:
        assert world.step()
    world.send(deletion(ALL[0]), 6, world.engine.connect(1, now=NOW))
    world.go_on()
    group = world.engine.groups.groups["g"]
    assert isinstance(group, ShareGroup)
    assert group.preparation is not None
    assert len(group.preparation.initialized) == 299
    assert gone not in group.preparation.initialized


def test_a_topic_that_is_deleted_while_its_state_is_deleted_leaves_nothing_in_the_group() -> None:
    world = World().driven()
    world.ask(starts(ALL), 0)
    world.send(plain("DeleteShareGroupOffsets", group_id="g", topics=named(ALL, "topic_name")), 0)
    while states(world) > 500:
        assert world.step()
    world.send(deletion(ALL[-1]), 6, world.engine.connect(1, now=NOW))
    world.go_on()
    group = world.engine.groups.groups["g"]
    assert isinstance(group, ShareGroup)
    assert group.preparation is not None
    assert (states(world), *group.preparation.by_state) == (0, {}, {}, {})


def test_a_topic_that_is_deleted_while_its_offsets_are_described_is_in_the_response() -> None:
    world = World().driven()
    gone = topic_id(world, ALL[0])
    world.ask(starts(ALL), 0)
    world.send(plain("DescribeShareGroupOffsets", groups=[{"group_id": "g", "topics": None}]), 1)
    assert world.step()
    world.send(deletion(ALL[0]), 6, world.engine.connect(1, now=NOW))
    assert ALL[0] not in world.engine.cluster.topics
    world.go_on()
    (frame,) = [b"".join(each.parts) for each in world.engine.take_effects() if each.connection is world.connection]
    (group,) = decode_response(frame[4:], KEYS["DescribeShareGroupOffsets"], 1)[1].groups
    assert (len(group.topics), group.topics[0].topic_id) == (300, gone)


def test_a_topic_that_is_deleted_before_its_state_is_deleted_leaves_nothing_in_the_group() -> None:
    """The request has read the topic, and the group has forgotten the topic, before the deletion of the states begins."""
    world = World().driven()
    world.ask(starts(ALL), 0)
    gone = topic_id(world, ALL[0])
    world.send(plain("DeleteShareGroupOffsets", group_id="g", topics=named(ALL, "topic_name")), 0)
    world.send(deletion(ALL[0]), 6, world.engine.connect(1, now=NOW))
    while ALL[0] in world.engine.cluster.topics:
        assert world.step()
    world.engine.tick(NOW)
    group = world.engine.groups.groups["g"]
    assert isinstance(group, ShareGroup)
    assert group.preparation is not None
    assert gone not in group.preparation.initialized, "the group has forgotten the topic"
    world.go_on()
    assert (states(world), *group.preparation.by_state) == (0, {}, {}, {})


def test_the_state_of_a_deleted_topic_is_forgotten_in_slices() -> None:
    world = World().driven()
    world.engine.cluster.create_topic("wide", NOW, partitions=500)
    wide = {"topic_name": "wide", "partitions": [{"partition_index": i, "start_offset": 0} for i in range(500)]}
    world.ask(plain("AlterShareGroupOffsets", group_id="g", topics=[wide]), 0)
    assert states(world) == 500
    slices = 0
    forget = world.engine.groups.share_state._forget_all

    def counted(*arguments: Any) -> None:
        nonlocal slices
        slices += 1
        forget(*arguments)

    world.engine.groups.share_state._forget_all = counted  # type: ignore[method-assign]
    world.ask(deletion("wide"), 6)
    assert (states(world), slices) == (0, 8)


def acquired(frame: bytes) -> list[tuple[bytes, int]]:
    _, response = decode_response(frame[4:], fetch.ShareFetchRequest.__schema__.key, 1)
    return [
        (topic.topic_id, part.partition_index)
        for topic in response.responses
        for part in topic.partitions
        if part.acquired_records
    ]


def fetching(slices: int) -> World:
    """Returns a world with a ShareFetch of many partitions. `slices` slices of this request have run."""
    world = World().driven()
    world.ask(starts(ALL), 0)
    world.ask(share_fetch(world, 0, ALL), 1)
    world.send(share_fetch(world, 1, [], wait_ms=500), 1)
    for _ in range(slices):
        if world.engine.turns.waiting:
            world.engine.turns.proceed()
    return world


@pytest.mark.parametrize("slices", range(0, 40, 4))
def test_records_that_come_during_a_share_fetch_of_many_partitions_are_not_missed(slices: int) -> None:
    world = fetching(slices)
    produce(world, "topic-0", "v")
    world.go_on()
    (response,) = [each for each in world.engine.take_effects() if each.connection is world.connection]
    assert isinstance(response, Respond)
    assert acquired(b"".join(response.parts)) == [(topic_id(world, "topic-0"), 0)]
    partition = world.engine.cluster.partition("topic-1", 0)
    assert partition is not None
    assert not partition.waiting


@pytest.mark.parametrize("slices", [0, 2, 20, 100])
def test_a_share_fetch_of_many_partitions_ends_in_time(slices: int) -> None:
    """If the fetch is still looking for records at its deadline, it nevertheless ends in time."""
    world = fetching(slices)
    for _ in range(2):  # the first turn may only start the timer
        world.engine.tick(NOW + 500)
        world.go_on()
    (response,) = world.engine.take_effects()
    assert isinstance(response, Respond)
    assert acquired(b"".join(response.parts)) == []


@pytest.mark.parametrize("slices", [2, 20, 50, 100])
def test_a_client_that_leaves_during_a_share_fetch_leaves_nothing_behind(slices: int) -> None:
    world = fetching(slices)
    world.engine.disconnected(world.connection)
    world.go_on()
    world.engine.tick(NOW + 500)
    world.go_on()
    assert not any(partition.waiting for partition in world.engine.cluster.partitions())
    assert not world.engine.shares._waiting


def test_a_broker_that_is_killed_at_the_end_of_a_share_fetch_leaves_nothing_behind() -> None:
    """The fetch has got records, and some of its partitions do not have its callback any more."""
    world = fetching(100)
    produce(world, "topic-0", "v")
    partitions = list(world.engine.cluster.partitions())
    watched = sum(bool(each.waiting) for each in partitions)
    while sum(bool(each.waiting) for each in partitions) == watched:
        assert world.step()
    assert any(each.waiting for each in partitions)
    world.engine.kill_broker(1, NOW)
    world.go_on()
    assert not any(each.waiting for each in partitions)
    assert not world.engine.shares._waiting


@pytest.mark.parametrize("slices", [1, 2])
def test_a_lock_that_ends_before_a_write_fails_leaves_no_record_acquired(slices: int) -> None:
    """A member's acknowledgements are checked in several slices, and written in later slices."""
    world = World().driven()
    world.ask(starts(ALL), 0)
    for name in BROUGHT:
        produce(world, name, "v")
    world.engine.take_effects()
    world.ask(share_fetch(world, 0, ALL), 1)
    world.ask(share_fetch(world, 1, []), 1)
    world.send(plain("ShareAcknowledge", **member(2), topics=by_id(world, BROUGHT, acknowledged(0, 1))), 1)
    for _ in range(slices):
        world.step()
    for log in world.engine.cluster.topics["__share_group_state"].partitions:
        log.fail_next_write(1000)
    world.engine.tick(NOW + 31_000, lambda: False)
    world.response()
    records = [
        (held.share, record) for held in world.engine.shares for batch in held.share.batches for *_, record in batch.states()
    ]
    assert len(records) > len(BROUGHT) // 2
    assert {record.state for _, record in records} == {RecordState.AVAILABLE}
    assert {share.next_fetch_offset() for share, _ in records} == {0}
    assert {share.completed for share, _ in records} == {0}
