"""The requests of classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The rules come from Kafka's GroupMetadataManager. Members of consumer groups may send these requests, too
(`classic_in_consumer`).
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from typing import Any

from kafkawire.errors import ErrorCode
from wirebroker.core.groups.classic import Group
from wirebroker.core.groups.classic_in_consumer import ClassicMembers
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.registry import Registry
from wirebroker.core.groups.roster import Joined, Joiner, JoinRequest, Member, Synced, Syncer
from wirebroker.core.groups.states import ClassicGroupState
from wirebroker.core.metadata_writes import check_texts
from wirebroker.core.releases.changes import since

CHECKS_SYNCING_GENERATION = since(
    "2.3", "a heartbeat with a wrong generation gets error 22 also while its group waits for the leader's SyncGroup"
)
SYNCING_IS_ALIVE = since("2.6", "Heartbeat succeeds while a group waits for the leader's SyncGroup")
REBALANCES_FOR_PENDING = since(
    "4.0",
    "a classic group also rebalances when a client leaves that has a member id from JoinGroup but has not joined with it yet",
    "KIP-848",
)


class ClassicGroups:
    """The classic groups of the cluster, and the members that use the classic protocol in consumer groups."""

    def __init__(self, registry: Registry, members: ClassicMembers) -> None:
        self._registry = registry
        self._cluster = registry.cluster
        self._members = members

    # Joining

    def join(self, requested: JoinRequest, joiner: Joiner, now: int) -> Generator[None, Any, None]:
        """Handle a JoinGroup. `joiner` is called with the response, now or at the end of the join phase. Raises UnwritableText,
        and changes no group, if a text is too long for later responses."""
        group = self._registry.groups.get(requested.group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            steps = self._members.join(group, requested, now)
            joiner((yield from self._registry.changes.alone(group.group_id, steps)))
            return
        if not isinstance(group, Group):
            if group is not None and not group.makes_way:
                joiner(Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
                return
            if requested.member_id:  # a refused client changes no group
                joiner(Joined(ErrorCode.UNKNOWN_MEMBER_ID, requested.member_id))
                return
            _check_texts(requested)
            made = self._registry.new_classic(requested.group_id, now)
            before = group.tombstones() if group is not None else []
            if error := self._registry.log(requested.group_id, [*before, made.record()], now):
                joiner(Joined(error))
                return
            self._registry.enter(made, now)
            group = made
        if not group.accepts(requested.member_id, self._cluster.configs.integer("group.max.size")):
            if requested.member_id in group.members:
                group.remove(group.members[requested.member_id])
            joiner(Joined(ErrorCode.GROUP_MAX_SIZE_REACHED))
            return
        if not group.supports(requested.protocol_type, requested.protocols):
            joiner(Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, requested.member_id))
            return
        _check_texts(requested)
        if requested.member_id:
            self._join_known(group, requested, joiner, now)
        else:
            self._join_new(group, requested, joiner, now)

    def session_error(self, requested: JoinRequest) -> ErrorCode:
        """Returns INVALID_SESSION_TIMEOUT if the broker's limits do not allow the member's session timeout, else NONE."""
        configs = self._cluster.configs
        shortest, longest = (configs.integer(f"group.{end}.session.timeout.ms") for end in ("min", "max"))
        fits = shortest <= requested.session_timeout <= longest
        return ErrorCode.NONE if fits else ErrorCode.INVALID_SESSION_TIMEOUT

    def _join_new(self, group: Group, requested: JoinRequest, joiner: Joiner, now: int) -> None:
        member_id = _new_member_id(requested, self._cluster.random_bytes(16))
        if requested.instance_id is not None and requested.instance_id in group.members.static:
            group.replace_static(_member(member_id, requested), joiner, requested.may_skip_assignment, now)
        elif requested.instance_id is None and requested.needs_known_id:
            group.add_pending(member_id, requested.session_timeout, now)
            joiner(Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            group.add(_member(member_id, requested), requested.protocol_type, joiner, now)

    def _join_known(self, group: Group, requested: JoinRequest, joiner: Joiner, now: int) -> None:
        if requested.member_id in group.pending:
            if requested.instance_id is None:
                group.add(_member(requested.member_id, requested), requested.protocol_type, joiner, now)
            else:  # a pending member cannot be static, so Kafka's code fails here with an internal error
                joiner(Joined(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        error = group.member_error(requested.member_id, requested.instance_id)
        if requested.instance_id is not None and requested.instance_id not in group.members.static:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error:
            joiner(Joined(error, requested.member_id))
            return
        member = group.members[requested.member_id]
        same = list(member.protocols) == list(requested.protocols)
        if group.state is ClassicGroupState.EMPTY:
            joiner(Joined(ErrorCode.UNKNOWN_MEMBER_ID, requested.member_id))
        elif same and (
            group.state is ClassicGroupState.COMPLETING_REBALANCE
            or (group.state is ClassicGroupState.STABLE and group.members.leader != member.member_id)
        ):
            joiner(group.joined(member))
        else:
            timeouts = (requested.rebalance_timeout, requested.session_timeout)
            group.update(member, requested.protocols, timeouts, joiner, now)

    # Staying and leaving

    def sync(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, protocol_type: str | None,
        protocol: str | None, assignments: Sequence[tuple[str, bytes]], syncer: Syncer, now: int,
    ) -> None:  # fmt: skip
        """Handle a SyncGroup: a member requests its assignment, or the leader sends the assignments of all members."""
        modern = self._registry.groups.get(group_id)
        if isinstance(modern, ConsumerGroup):
            self._members.sync(modern, member_id, instance_id, generation, protocol_type, protocol, syncer, now)
            return
        group, error = self._member_of(group_id, member_id, instance_id, generation)
        if group is None or group.state is ClassicGroupState.EMPTY:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if group is None or error:
            syncer(Synced(error))
            return
        if _differs(protocol_type, group.protocol_type) or _differs(protocol, group.protocol):
            syncer(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        member = group.members[member_id]
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            syncer(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
        elif group.state is ClassicGroupState.STABLE:
            group.has_synced(member)
            syncer(group.synced(member))
        else:
            group.sync(member, assignments, syncer, now)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: int) -> ErrorCode:
        """Handle a member's heartbeat."""
        modern = self._registry.groups.get(group_id)
        if isinstance(modern, ConsumerGroup):
            return self._members.heartbeat(modern, member_id, instance_id, generation, now)
        release = self._cluster.configs.release
        group, error = self._member_of(group_id, member_id, instance_id, generation)
        syncs = group is not None and group.state is ClassicGroupState.COMPLETING_REBALANCE
        if syncs and error is ErrorCode.ILLEGAL_GENERATION and not CHECKS_SYNCING_GENERATION.of(release):
            return ErrorCode.REBALANCE_IN_PROGRESS
        if group is None or error:
            return error
        if group.state is ClassicGroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if syncs and not SYNCING_IS_ALIVE.of(release):
            return ErrorCode.REBALANCE_IN_PROGRESS
        group.alive(group.members[member_id], now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicGroupState.PREPARING_REBALANCE else ErrorCode.NONE

    def _member_of(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[Group | None, ErrorCode]:
        group = self._registry.groups.get(group_id)
        if not isinstance(group, Group):
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        error = group.member_error(member_id, instance_id)
        if not error and generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return group, error

    def leave(self, group_id: str, leaving: Sequence[tuple[str, str | None]], now: int) -> list[ErrorCode] | ErrorCode:
        """Remove members. Each member is given as (member id, instance id). Returns an error for each member, or one error for
        all if the removal cannot be written to the log. For a static member the instance id alone suffices.

        The rebalance begins after all these members have been removed.
        """
        group = self._registry.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        if isinstance(group, ConsumerGroup):
            return self._members.leave(group, leaving, now)
        if not isinstance(group, Group):
            return ErrorCode.UNKNOWN_MEMBER_ID
        joined = len(group.members)
        codes = [self._leave(group, member_id, instance_id) for member_id, instance_id in leaving]
        if ErrorCode.NONE in codes and group.state is not ClassicGroupState.EMPTY:
            if len(group.members) < joined or REBALANCES_FOR_PENDING.of(self._cluster.configs.release):
                group.rebalance_or_complete(now)
            else:
                group.complete_join_if_all_joined(now)
        return codes

    @staticmethod
    def _leave(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        if not member_id:
            member_id = group.members.static.get(instance_id or "", "")
        elif member_id in group.pending:
            group.drop_pending(member_id)
            return ErrorCode.NONE
        if error := group.member_error(member_id, instance_id):
            return error
        group.remove(group.members[member_id])
        return ErrorCode.NONE


def _check_texts(requested: JoinRequest) -> None:
    """Raise UnwritableText if a text of the request, or the id of a new member, is too long for a response."""
    names = [name for name, _ in requested.protocols]
    check_texts((requested._replace(protocols=[]), names, _new_member_id(requested, bytes(16))))


def _new_member_id(requested: JoinRequest, random: bytes) -> str:
    name = requested.client_id if requested.instance_id is None else requested.instance_id
    return f"{name}-{uuid.UUID(bytes=random, version=4)}"


def _member(member_id: str, requested: JoinRequest) -> Member:
    return Member(
        member_id, requested.instance_id, requested.client_id, requested.client_host, requested.rebalance_timeout,
        requested.session_timeout, requested.protocols,
    )  # fmt: skip


def _differs(sent: str | None, known: str | None) -> bool:
    return sent is not None and sent != known
