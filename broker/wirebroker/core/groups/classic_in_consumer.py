"""Handles JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that use the classic protocol in a consumer group."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from msgspec.structs import replace

from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from wirebroker.core.groups.classic import CONSUMER
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.consumer_heartbeats import ConsumerGroups, ConsumerStep
from wirebroker.core.groups.consumer_member import Claimed, ClassicSide, ConsumerMember
from wirebroker.core.groups.embedded import read_subscription, version_of, write_assignment
from wirebroker.core.groups.migration import make_classic, may_downgrade, policy
from wirebroker.core.groups.modern import JOIN, SYNC, MemberState
from wirebroker.core.groups.modern_heartbeats import instance_gone, known_member, unknown_member
from wirebroker.core.groups.roster import Joined, JoinRequest, Synced, Syncer
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases.changes import since

TELLS_BAD_SUBSCRIPTIONS = since("4.4", "a classic member with an unreadable subscription gets error 23")


class ClassicMembers:
    """The members that use the classic protocol in consumer groups."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups
        self._cluster = groups.registry.cluster

    # Joining

    def join(self, group: ConsumerGroup, requested: JoinRequest, now: int) -> Generator[None, Any, Joined]:
        """Handle the JoinGroup of a new member, or of a member that joins again for its new assignment. Returns the response
        without waiting for other members."""
        if policy(self._cluster) == "DISABLED":
            return Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = requested.member_id or self._groups.new_member_id()
        if full := self._groups.is_full(group, member_id, requested.instance_id):
            return Joined(full.code)
        votes, everybody = group.classic_protocols, group.classic_members
        if requested.protocol_type != CONSUMER or not any(votes[name] == everybody for name, _ in requested.protocols):
            return Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if requested.needs_known_id and not requested.member_id and requested.instance_id is None:
            return Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        found = self._member(group, member_id, requested)
        if isinstance(found, Refusal):
            return Joined(found.code)
        old, replaces = found
        try:
            subscription = read_subscription(requested.protocols[0][1])
        except ProtocolError:
            tells = TELLS_BAD_SUBSCRIPTIONS.of(self._groups.release)
            return Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL if tells else ErrorCode.UNKNOWN_SERVER_ERROR)
        new = replace(
            old,
            instance_id=requested.instance_id or old.instance_id,
            rack_id=subscription.rack_id or old.rack_id,
            rebalance_timeout=old.rebalance_timeout if requested.rebalance_timeout == -1 else requested.rebalance_timeout,
            topics=frozenset(subscription.topics), regex="", client_id=requested.client_id, client_host=requested.client_host,
            classic=ClassicSide(requested.session_timeout, tuple(requested.protocols)),
        )  # fmt: skip
        return (yield from self._admit(group, old, new, replaces, subscription, requested.sees, now))

    def _admit(
        self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, replaces: str | None,
        subscription: ConsumerProtocolSubscription, sees: Callable[[str], bool] | None, now: int,
    ) -> Generator[None, Any, Joined]:  # fmt: skip
        static = group.static_member(new.instance_id)
        downgrades = static is not None and static.classic is None and may_downgrade(group, [static], self._cluster, joining=1)
        step = yield from self._groups.step(group, old, new, replaces)
        if isinstance(step, Refusal):
            return Joined(step.code)
        claimed = self._claimed(subscription)
        if downgrades:
            stale = group.assignment_epoch < step.epoch
            if not stale:
                target = group.target_of(new)
                yield from self._groups.reconcile(step, group.assignment_epoch, target, claimed)
            refused = make_classic(group, (), step.new, stale, self._groups.registry, now)
            return Joined(refused) if refused else _joined(step)
        epoch, target = yield from self._groups.compute_target(step, now)
        yield from self._groups.reconcile(step, epoch, target, claimed)
        due = self._groups.regexes.due(group, old, step.new, now)
        if refused := (yield from self._groups.write_down(step, now)):
            return Joined(refused)
        if due:
            yield from self._groups.regexes.match(group, sees, now)
        assert new.classic is not None
        group.cancel_timer(JOIN, new.member_id)
        self._groups.await_heartbeat(group, new.member_id, now, new.classic.session_timeout)
        self._groups.fence_at(group, SYNC, new.member_id, now + new.rebalance_timeout)
        return _joined(step)

    def _member(
        self, group: ConsumerGroup, member_id: str, requested: JoinRequest
    ) -> tuple[ConsumerMember, str | None] | Refusal:
        """Returns two values: the member that joins, and the id of the static member that it replaces (None if it replaces no
        member)."""
        if requested.instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id), None
        if gone := instance_gone(group, requested.instance_id):
            return gone
        if requested.member_id:
            known = known_member(group, member_id, requested.instance_id)
            return known if isinstance(known, Refusal) else (known, None)
        static = group.static_member(requested.instance_id)
        if static is None:
            return ConsumerMember(member_id), None
        return replace(static, member_id=member_id, epoch=0, previous_epoch=0), static.member_id

    def _claimed(self, subscription: ConsumerProtocolSubscription) -> Claimed:
        topics = self._cluster.topics
        owned = subscription.owned_partitions
        return [(topics[each.topic].topic_id, each.partitions) for each in owned if each.topic in topics]

    # Staying

    def sync(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, protocol_type: str | None,
        protocol: str | None, syncer: Syncer, now: int,
    ) -> None:  # fmt: skip
        """Handle a SyncGroup: respond with the member's assignment, without waiting for other members."""
        member = self._classic_member(group, member_id, instance_id, generation)
        if isinstance(member, Refusal):
            syncer(Synced(member.code))
            return
        assert member.classic is not None
        first, metadata = member.classic.protocols[0]
        if protocol_type not in (None, CONSUMER) or protocol not in (None, first):
            syncer(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            self._await_join(group, member, now)
            syncer(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
            return
        group.cancel_timer(SYNC, member_id)
        self._groups.await_heartbeat(group, member_id, now, member.classic.session_timeout)
        known = self._cluster.topics_by_id
        held = {known[topic].name: owned for topic, owned in member.assigned.items() if topic in known}
        syncer(Synced(0, write_assignment(held, version_of(metadata)), protocol_type, protocol))

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: int) -> ErrorCode:
        """Handle a member's heartbeat. Returns REBALANCE_IN_PROGRESS if the member must join again, to get or give up
        partitions."""
        member = self._classic_member(group, member_id, instance_id, generation)
        if isinstance(member, Refusal):
            return member.code
        assert member.classic is not None
        self._groups.await_heartbeat(group, member_id, now, member.classic.session_timeout)
        waits = member.state is MemberState.UNRELEASED
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED
            or (waits and not group.waits_for_others(member))
        ):
            self._await_join(group, member, now)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _await_join(self, group: ConsumerGroup, member: ConsumerMember, now: int) -> None:
        if not group.has_timer(JOIN, member.member_id):
            self._groups.fence_at(group, JOIN, member.member_id, now + member.rebalance_timeout)

    @staticmethod
    def _classic_member(
        group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember | Refusal:
        """Returns the classic member with this id, or the error if no such member exists or the generation is wrong."""
        member = known_member(group, member_id, instance_id)
        if isinstance(member, Refusal):
            return member
        if member.classic is None:
            return unknown_member(group, member_id)
        if member.epoch != generation:
            return Refusal(ErrorCode.ILLEGAL_GENERATION)
        return member

    # Leaving

    def leave(self, group: ConsumerGroup, leaving: Sequence[tuple[str, str | None]], now: int) -> list[ErrorCode] | ErrorCode:
        """Remove members of either protocol. Each member is given as (member id, instance id). Returns an error for each
        member, or one error for all if the removal cannot be written to the log.
        """
        codes = []
        gone: dict[str, ConsumerMember] = {}
        for member_id, instance_id in leaving:
            static = group.static_member(instance_id)
            found = static if static is not None and not member_id else known_member(group, member_id, instance_id)
            if isinstance(found, ConsumerMember):
                gone[found.member_id] = found
            codes.append(found.code if isinstance(found, Refusal) else ErrorCode.NONE)
        return self._groups.fence(group, list(gone.values()), now) or codes


def _joined(step: ConsumerStep) -> Joined:
    member = step.new
    assert member.classic is not None
    return Joined(0, member.member_id, member.epoch, CONSUMER, member.classic.protocols[0][0])
