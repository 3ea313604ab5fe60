"""The group coordinator: which group a request is for, whether it may be answered here, and what it comes to.

All brokers of the process share it; a request at a broker that does not coordinate the group is NOT_COORDINATOR.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from wirebroker.core.cluster import Cluster
from wirebroker.core.groups.classic import Group, Joined, Joiner, Member, Protocols, Synced, Syncer
from wirebroker.core.groups.offsets import Committed, OffsetStore, TopicPartition
from wirebroker.core.groups.states import State


class JoinAsked(NamedTuple):
    """A JoinGroup. Timeouts are in ms."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    rebalance_timeout: int
    session_timeout: int
    needs_known_id: bool
    """Whether a new member is first told its id and must join again with it (KIP-394)."""
    may_skip_assignment: bool


class GroupCoordinator:
    """All groups of the cluster."""

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._cluster = cluster
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self._set_timers(now)

    def restart(self, now: int) -> None:
        """Go on from what is written down: committed offsets, and the members of stable groups."""
        for group in self.groups.values():
            group.restart(now)
        self._set_timers(now)

    def _set_timers(self, now: int) -> None:
        configs = self._cluster.configs
        self._cluster.timers.every(
            lambda: configs.integer("offsets.retention.check.interval.ms"), now, self._expire_offsets
        )

    def here(self, group_id: str, node_id: int) -> ErrorCode:
        """Whether this broker coordinates the group."""
        known = self._cluster.coordinator("group", group_id)
        return ErrorCode.NONE if known == node_id else ErrorCode.NOT_COORDINATOR

    # Membership

    def join(self, asked: JoinAsked, joiner: Joiner, now: int) -> None:
        """A client wants to be a member; `joiner` is answered now or when the join phase is over."""
        configs = self._cluster.configs
        if not asked.group_id:
            joiner(Joined(ErrorCode.INVALID_GROUP_ID, asked.member_id))
            return
        shortest, longest = (configs.integer(f"group.{end}.session.timeout.ms") for end in ("min", "max"))
        if not shortest <= asked.session_timeout <= longest:
            joiner(Joined(ErrorCode.INVALID_SESSION_TIMEOUT, asked.member_id))
            return
        group = self.groups.get(asked.group_id)
        if group is None:
            if asked.member_id:
                joiner(Joined(ErrorCode.UNKNOWN_MEMBER_ID, asked.member_id))
                return
            group = self._create(asked.group_id, now)
        if self._full(group, asked.member_id):
            joiner(Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, asked.member_id))
        elif not group.supports(asked.protocol_type, asked.protocols):
            joiner(Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, asked.member_id))
        elif not asked.member_id:
            self._join_new(group, asked, joiner, now)
        else:
            self._join_known(group, asked, joiner, now)

    def _create(self, group_id: str, now: int) -> Group:
        configs = self._cluster.configs
        group = self.groups[group_id] = Group(
            group_id, self._cluster.timers, lambda: configs.integer("group.initial.rebalance.delay.ms"), now
        )
        return group

    def _full(self, group: Group, member_id: str) -> bool:
        largest = self._cluster.configs.integer("group.max.size")
        known = member_id in group.members or member_id in group.pending
        return not known and len(group.members) + len(group.pending) >= largest

    def _new_member_id(self, asked: JoinAsked) -> str:
        random = uuid.UUID(bytes=self._cluster.random_bytes(16), version=4)
        return f"{asked.client_id if asked.instance_id is None else asked.instance_id}-{random}"

    def _join_new(self, group: Group, asked: JoinAsked, joiner: Joiner, now: int) -> None:
        member_id = self._new_member_id(asked)
        if asked.instance_id is not None and asked.instance_id in group.static_members:
            self._rejoin_static(group, member_id, asked, joiner, now)
        elif asked.instance_id is None and asked.needs_known_id:
            group.add_pending(member_id, asked.session_timeout, now)
            joiner(Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            group.add(_member(member_id, asked), asked.protocol_type, joiner, now)

    def _rejoin_static(self, group: Group, member_id: str, asked: JoinAsked, joiner: Joiner, now: int) -> None:
        """A static member came back: while the group is stable and it says the same, nobody needs to rebalance."""
        assert asked.instance_id is not None
        old = group.members[group.static_members[asked.instance_id]]
        same = list(old.protocols) == list(asked.protocols)
        was_leader = group.leader == old.member_id
        member = group.replace_static(old, member_id, None)
        member.protocols = asked.protocols
        member.rebalance_timeout, member.session_timeout = asked.rebalance_timeout, asked.session_timeout
        group.alive(member, now)
        if group.state is State.STABLE and same:
            told = group.joined(member, skip_assignment=was_leader and asked.may_skip_assignment)
            joiner(
                told if not was_leader or asked.may_skip_assignment else told._replace(members=(), leader=old.member_id)
            )
        elif group.state is State.COMPLETING_REBALANCE and same:
            joiner(group.joined(member))
        else:
            timeouts = (asked.rebalance_timeout, asked.session_timeout)
            group.update(member, asked.protocols, timeouts, joiner, now)

    def _join_known(self, group: Group, asked: JoinAsked, joiner: Joiner, now: int) -> None:
        if asked.member_id in group.pending and asked.instance_id is None:
            group.add(_member(asked.member_id, asked), asked.protocol_type, joiner, now)
            return
        if fault := group.member_fault(asked.member_id, asked.instance_id):
            joiner(Joined(fault, asked.member_id))
            return
        member = group.members[asked.member_id]
        same = list(member.protocols) == list(asked.protocols)
        if group.state is State.EMPTY:
            joiner(Joined(ErrorCode.UNKNOWN_MEMBER_ID, asked.member_id))
        elif same and (
            group.state is State.COMPLETING_REBALANCE
            or (group.state is State.STABLE and group.leader != member.member_id)
        ):
            joiner(group.joined(member))
        else:
            timeouts = (asked.rebalance_timeout, asked.session_timeout)
            group.update(member, asked.protocols, timeouts, joiner, now)

    def sync(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, protocol_type: str | None,
        protocol: str | None, assignments: Sequence[tuple[str, bytes]], syncer: Syncer, now: int,
    ) -> None:  # fmt: skip
        """A member asks for its assignment, or the leader brings everybody's."""
        group, fault = self._member_of(group_id, member_id, instance_id, generation)
        if group is None or fault:
            syncer(Synced(fault))
            return
        if _differs(protocol_type, group.protocol_type) or _differs(protocol, group.protocol):
            syncer(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        member = group.members[member_id]
        if group.state is State.EMPTY:
            syncer(Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        elif group.state is State.PREPARING_REBALANCE:
            syncer(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
        elif group.state is State.STABLE:
            group.alive(member, now)
            syncer(group.synced(member))
        else:
            group.sync(member, assignments, syncer, now)
            group.alive(member, now)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: int) -> ErrorCode:
        """A member says that it is there."""
        group, fault = self._member_of(group_id, member_id, instance_id, generation)
        if group is None or fault:
            return fault
        if group.state is State.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        group.alive(group.members[member_id], now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE

    def _member_of(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[Group | None, ErrorCode]:
        if not group_id:
            return None, ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(group_id)
        if group is None:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        fault = group.member_fault(member_id, instance_id)
        if not fault and generation != group.generation:
            fault = ErrorCode.ILLEGAL_GENERATION
        return group, fault

    def leave(self, group_id: str, member_id: str, instance_id: str | None, now: int) -> ErrorCode:
        """A member leaves; a static one may be named by its instance id alone."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if instance_id is not None and not member_id:
            member_id = group.static_members.get(instance_id, "")
        if instance_id is None and member_id in group.pending:
            group.drop_pending(member_id)
            group.complete_join_if_all_are_here(now)
            return ErrorCode.NONE
        if fault := group.member_fault(member_id, instance_id):
            return fault
        group.remove(group.members[member_id], now)
        return ErrorCode.NONE

    # Offsets

    def may_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: int
    ) -> ErrorCode:
        """Whether these credentials may commit offsets; a group that only stores offsets begins here."""
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            self._create(group_id, now)
            return ErrorCode.NONE
        if generation < 0 and group.state is State.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if fault := group.member_fault(member_id, instance_id):
            return fault
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is State.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        group.alive(group.members[member_id], now)
        return ErrorCode.NONE

    def commit(self, group_id: str, where: TopicPartition, committed: Committed) -> None:
        """Remember an offset that may be committed."""
        self.offsets.commit(group_id, where, committed)

    def subscribed_topics(self, group: Group) -> set[str] | None:
        """The topics that the members subscribe to; None if they do not speak the consumer protocol."""
        if group.protocol_type != "consumer" or group.protocol is None:
            return None
        topics: set[str] = set()
        for member in group.members.values():
            topics |= _subscription(member.metadata(group.protocol))
        return topics

    def delete_group(self, group_id: str, now: int) -> ErrorCode:
        """Delete a group that has no members."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not State.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        group.kill(now)
        del self.groups[group_id]
        self.offsets.delete_group(group_id)
        return ErrorCode.NONE

    def _expire_offsets(self, now: int) -> None:
        """Forget what offsets.retention.minutes no longer keeps; an empty group without offsets goes with them."""
        keep = self._cluster.configs.integer("offsets.retention.minutes") * 60_000
        for group_id, group in list(self.groups.items()):
            subscribed = self.subscribed_topics(group) or set()
            for where, committed in list(self.offsets.of(group_id).items()):
                since = committed.time
                if group.protocol_type is not None and group.state is State.EMPTY:
                    since = max(since, group.state_since)
                unused = group.state is State.EMPTY or where[0] not in subscribed
                if unused and now - since >= keep:
                    self.offsets.delete(group_id, where)
            if group.state is State.EMPTY and not self.offsets.of(group_id) and not group.pending:
                group.kill(now)
                del self.groups[group_id]


def _member(member_id: str, asked: JoinAsked) -> Member:
    return Member(
        member_id, asked.instance_id, asked.client_id, asked.client_host, asked.rebalance_timeout,
        asked.session_timeout, asked.protocols,
    )  # fmt: skip


def _differs(said: str | None, known: str | None) -> bool:
    return said is not None and said != known


def _subscription(metadata: bytes) -> set[str]:
    from kafkawire.codec import decode

    try:
        version = int.from_bytes(metadata[:2], "big")
        cls: type[Message] = ConsumerProtocolSubscription
        oldest, newest = cls.__schema__.versions
        found, _ = decode(ConsumerProtocolSubscription, metadata, min(max(version, oldest), newest), 2)
    except ProtocolError:
        return set()
    return set(found.topics)
