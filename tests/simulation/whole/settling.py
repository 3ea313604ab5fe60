"""Groups settle: if all members of a group send heartbeats, the group becomes stable. Then each partition of the topics to
which its members subscribe has exactly one owner (or, in a share group, at least one)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding
from kafkawire.declare import Message
from requesting import plain
from simulation.whole.shown import DESCRIBE

if TYPE_CHECKING:
    from simulation.whole.world import World

ROUNDS = 10
"""The number of heartbeats that each member sends."""
PAUSE_MS = 4000
"""The pause in ms between two heartbeats. All pauses together are longer than 30 s: only after this time does a share group
repeat the initialization of its partitions, if a restart has interrupted the initialization."""
MEDDLING = ("InitializeShareGroupState", "WriteShareGroupState")
"""Requests that only brokers should send. As in Kafka, a group cannot initialize states that already have a later epoch."""
SETTLING = {"consumer": "ConsumerGroupHeartbeat", "share": "ShareGroupHeartbeat"}


def groups_settle(world: World) -> None:
    """Checks that all groups settle. Raises Finding."""
    meddled = {sent.request.group_id for sent in world.history if sent.api in MEDDLING}
    meddled |= {group for group, _ in world.following.outliving}  # the group cannot assign the partitions of a deleted topic
    meddled |= {  # states of an earlier group with the same id; its log was deleted
        key[0]
        for key, state in world.engine.groups.share_state.states.items()
        if (group := world.engine.groups.groups.get(key[0])) is not None and state.state_epoch > group.generation_or_epoch
    }
    groups = {
        name: group.kind
        for name, group in world.engine.groups.groups.items()
        if getattr(group, "kind", "") in SETTLING and name not in meddled
    }
    for _ in range(ROUNDS if groups else 0):
        for name, kind in groups.items():
            for member in _described(world, name, kind).members:
                _beat(world, name, kind, member)
        world.advance(PAUSE_MS)
    for name, kind in groups.items():
        _settled(world, _described(world, name, kind), kind)


def _ask(world: World, group: str, request: Message) -> Any:
    return world.ask(request, 1, world.engine.cluster.coordinator("group", group))


def _described(world: World, group: str, kind: str) -> Any:
    return _ask(world, group, plain(DESCRIBE[kind], group_ids=[group])).groups[0]


def _beat(world: World, group: str, kind: str, member: Any) -> None:
    fields: dict[str, Any] = {"group_id": group, "member_id": member.member_id, "member_epoch": member.member_epoch}
    if kind == "consumer":
        if member.member_type == 0 or member.member_epoch < 0:  # the member uses JoinGroup, or is a static member that is away
            return
        target = {each.topic_id: each.partitions for each in member.target_assignment.topic_partitions}
        held = [  # the member gives up partitions that it should not own
            {"topic_id": each.topic_id, "partitions": [index for index in each.partitions if index in target[each.topic_id]]}
            for each in member.assignment.topic_partitions
            if each.topic_id in target
        ]
        fields |= {"instance_id": member.instance_id, "topic_partitions": held}
    _ask(world, group, plain(SETTLING[kind], **fields))


def _settled(world: World, group: Any, kind: str) -> None:
    members = group.members
    if not members or any(getattr(each, "member_type", 1) == 0 or each.member_epoch < 0 for each in members):
        return
    if {group.group_epoch, group.assignment_epoch, *(each.member_epoch for each in members)} != {group.group_epoch}:
        raise Finding(f"a {kind} group does not settle", str(group))
    cluster = world.engine.cluster
    wanted = {name for each in members for name in each.subscribed_topic_names}
    all_of = {(name, part.index) for name in wanted if name in cluster.topics for part in cluster.topics[name].partitions}
    owned = Counter(
        (topic.topic_name, index)
        for each in members
        for topic in each.assignment.topic_partitions
        for index in topic.partitions
    )
    if any(getattr(each, "subscribed_topic_regex", None) for each in members):
        all_of &= owned.keys()
    if not all_of <= owned.keys() or (kind == "consumer" and max(owned.values(), default=0) > 1):
        raise Finding(f"the members of a {kind} group do not own all partitions once", f"{all_of - owned.keys()}: {group}")
    if unknown := [where for where in owned if where[0] not in cluster.topics]:
        raise Finding(f"the members of a {kind} group own what is not there", f"{unknown}: {group}")
    for each in members if kind == "consumer" else ():
        if _owned(each.assignment) != _owned(each.target_assignment):
            raise Finding("a member does not own what it should", str(each))


def _owned(assignment: Any) -> set[tuple[str, int]]:
    return {(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions}
