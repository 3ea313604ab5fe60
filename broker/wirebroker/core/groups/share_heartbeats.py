"""The requests of share groups (KIP-932): ShareGroupHeartbeat, and the removal of members.

The coordinator assigns a partition only after it has initialized the partition's state (`share_states`). The coordinator
initializes states after the first heartbeat, so a member gets its partitions with a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from kafkawire.errors import ErrorCode
from wirebroker.common.slices import after
from wirebroker.core.groups.modern import LEAVES, TopicFacts
from wirebroker.core.groups.modern_heartbeats import HeartbeatResult, ModernGroups, Step, blank_name
from wirebroker.core.groups.registry import Registry
from wirebroker.core.groups.share_group import NOTHING, ShareGroup, ShareMember
from wirebroker.core.groups.share_states import ShareStates
from wirebroker.core.groups.simple_assignor import Partitions, ShareSubscriber, simple
from wirebroker.core.java_order import buckets_for, hash_order, java_hash, topic_ids
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases.changes import since
from wirebroker.core.share.coordinator import ShareCoordinator

ASSIGNS_ONCE = since("4.3", "a share group's epoch increases at most once before an assignment")

ASSIGNOR = "simple"
ShareStep = Step[ShareGroup, ShareMember]


class ShareHeartbeat(NamedTuple):
    """A ShareGroupHeartbeat. A field is None if its value has not changed since the member's last heartbeat."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None
    topics: Sequence[str] | None
    client_id: str
    client_host: str


class ShareGroups(ModernGroups[ShareGroup, ShareMember]):
    replaces_classic = False

    def __init__(self, registry: Registry, coordinator: ShareCoordinator) -> None:
        super().__init__(registry, ShareGroup)
        self.states = ShareStates(self, coordinator)

    # Heartbeats

    @staticmethod
    def request_error(requested: ShareHeartbeat) -> Refusal | None:
        """Returns the refusal of a request that is invalid for every group, or None."""
        invalid = ErrorCode.INVALID_REQUEST
        named = {"MemberId": requested.member_id, "GroupId": requested.group_id, "RackId": requested.rack_id}
        if blank := blank_name(named):
            return Refusal(invalid, blank)
        if requested.epoch == 0 and not requested.topics:
            return Refusal(invalid, "SubscribedTopicNames must be set in first request.")
        if requested.epoch < LEAVES:
            return Refusal(invalid, "MemberEpoch is invalid.")
        return None

    def heartbeat(self, requested: ShareHeartbeat, now: int) -> Generator[None, Any, HeartbeatResult | Refusal]:
        """Handle the heartbeat of a member that joins, stays or leaves."""
        if requested.epoch == LEAVES:
            refused = yield from self.leave(requested.group_id, requested.member_id, None, LEAVES, now)
            return refused or HeartbeatResult(requested.member_id, LEAVES)
        result = yield from self.changes.alone(requested.group_id, self._stay(requested, now))
        held = self.registry.groups.get(requested.group_id)
        if isinstance(result, HeartbeatResult) and isinstance(held, ShareGroup):
            yield from self.states.prepare(held, now)
        return result

    def _stay(self, requested: ShareHeartbeat, now: int) -> Generator[None, Any, HeartbeatResult | Refusal]:
        group = self.find(requested.group_id, create=requested.epoch == 0)
        if isinstance(group, Refusal):
            return group
        if full := self.is_full(group, requested.member_id, None):
            return full
        found = self.sender(group, requested.member_id, None, requested.epoch, lambda _: True)
        if isinstance(found, Refusal):
            return found
        old, _ = found
        new = _updated(old, requested)
        yield from after(new.topics)
        epoch, facts = yield from self._next_epoch(group, old, new)
        step = ShareStep(group=group, old=old, new=new, epoch=epoch, facts=facts)
        target_epoch, target = yield from self.compute_target(step, now)
        step.new = self._reconciled(new, target_epoch, target, step.rose)
        yield from after(step.new.assigned)
        if error := (yield from self.write_down(step, now)):
            return Refusal(error)
        self.await_heartbeat(group, new.member_id, now)
        shown = requested.epoch == 0 or requested.topics is not None or step.new.assigned != old.assigned
        interval = self.setting(group.group_id, "heartbeat.interval.ms")
        return HeartbeatResult(new.member_id, step.new.epoch, interval, step.new.assigned if shown else None)

    def _next_epoch(
        self, group: ShareGroup, old: ShareMember, new: ShareMember
    ) -> Generator[None, Any, tuple[int, TopicFacts]]:
        """Returns the group's epoch and its subscribed topics after `new` replaces `old`."""
        facts = self.facts(group.subscriptions(new))
        bumps = old.topics != new.topics or facts != group.facts
        yield from after(facts)
        if group.assignment_epoch >= group.epoch or not ASSIGNS_ONCE.of(self.release):
            bumps = bumps or self._can_assign_more(group)
        yield from after(facts)
        return group.epoch + bumps, facts

    @staticmethod
    def _can_assign_more(group: ShareGroup) -> bool:
        """Tells whether share partitions of subscribed topics have been initialized since the last assignment."""
        if group.preparation is None or not group.members:
            return False
        subscribed = group.subscriptions()
        assigned: dict[bytes, set[int]] = {}
        for given in group.targets.values():
            for topic_id, indexes in given.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        return any(
            each.name in subscribed and assigned.get(topic_id, set()) != set(each.partitions)
            for topic_id, each in group.preparation.initialized.items()
        )

    def _assign(self, step: ShareStep) -> Generator[None, Any, Mapping[str, Partitions]]:
        group, new = step.group, step.new
        members = {**group.members, new.member_id: new}
        in_order = hash_order(members, java_hash, buckets_for(len(members)))
        topics = self._cluster.topics
        subscribers = {}
        ids: dict[frozenset[str], list[bytes]] = {}
        for member_id in in_order:
            wanted = members[member_id].topics
            if wanted not in ids:
                ids[wanted] = yield from topic_ids(wanted, topics)
                yield from after(wanted)
            subscribers[member_id] = ShareSubscriber(ids[wanted], group.targets.get(member_id, NOTHING))
        prepared = group.preparation.initialized if group.preparation is not None else {}
        assignable = {topic_id: each.partitions for topic_id, each in prepared.items()}
        same = all(count == len(members) for count in group.subscriptions(new).values())
        yield from after(assignable)
        made = yield from simple(subscribers, assignable, same=same)
        return {member_id: made.get(member_id, NOTHING) for member_id in in_order}

    def _reconciled(self, member: ShareMember, epoch: int, target: Partitions, changed: bool) -> ShareMember:
        if member.epoch == epoch and not changed:
            return member
        topics = self._cluster.topics_by_id
        assigned = {
            topic_id: indexes
            for topic_id, indexes in target.items()
            if topic_id in topics and topics[topic_id].name in member.topics
        }
        if member.epoch == epoch:
            return replace(member, assigned=assigned)
        return replace(member, epoch=epoch, previous_epoch=member.epoch, assigned=assigned)

    def fence(self, group: ShareGroup, leaving: Sequence[ShareMember], now: int) -> ErrorCode:
        left = group.subscriptions(without=[member.member_id for member in leaving])
        return self.remove(group, leaving, self.facts(left), [], now)


def _updated(member: ShareMember, requested: ShareHeartbeat) -> ShareMember:
    return replace(
        member,
        rack_id=member.rack_id if requested.rack_id is None else requested.rack_id,
        topics=member.topics if requested.topics is None else frozenset(requested.topics),
        client_id=requested.client_id,
        client_host=requested.client_host,
    )
