"""The group coordinator finds a request's group, checks that this broker coordinates it, and handles the request.

All brokers of the process share it. A broker that does not coordinate the group answers NOT_COORDINATOR.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import EncodeError, ErrorCode, ProtocolError
from wirebroker.common.slices import SLICE, pauses, weighted_pauses
from wirebroker.core.changes import GroupChange
from wirebroker.core.cluster import GROUP_TOPIC, Cluster
from wirebroker.core.coordinator_errors import translate_error
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.classic import CONSUMER, Group, Joined, Joiner, JoinRequest, Member, Synced, Syncer
from wirebroker.core.groups.commit import Commit
from wirebroker.core.groups.consumer import ConsumerGroup, Resolved
from wirebroker.core.groups.consumer_groups import ConsumerGroups, Refused
from wirebroker.core.groups.consumer_loading import WrittenGroup
from wirebroker.core.groups.consumer_log import changes, mark_written, tombstones
from wirebroker.core.groups.loading import GroupLog
from wirebroker.core.groups.log import encoded_batch, group_record, group_tombstone, offset_tombstone, records_batch
from wirebroker.core.groups.members import ConsumerMember
from wirebroker.core.groups.migration import ClassicMembers, downgraded, policy, upgrade_error, upgraded
from wirebroker.core.groups.offsets import Committed, OffsetStore, TopicPartition
from wirebroker.core.groups.share_group import ShareGroup
from wirebroker.core.groups.share_groups import ShareGroups
from wirebroker.core.groups.share_log import replay as replay_share
from wirebroker.core.groups.share_log import tombstones as share_tombstones
from wirebroker.core.groups.states import State
from wirebroker.core.groups.streams_group import StreamsGroup
from wirebroker.core.groups.streams_groups import StreamsGroups
from wirebroker.core.groups.streams_log import replay as replay_streams
from wirebroker.core.groups.streams_log import tombstones as streams_tombstones
from wirebroker.core.share.coordinator import ShareCoordinator

AnyGroup = Group | ConsumerGroup | ShareGroup | StreamsGroup
GROUPS = 16
"""The number of groups in one slice."""
BYTES = 64 * 1024
"""The bytes of encoded records in one slice."""


class GroupCoordinator:
    """All groups of the cluster."""

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._cluster = cluster
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = OffsetStore()
        self._gone_topics: dict[str, bytes] = {}
        """Deleted topics that are not forgotten yet, and their ids."""
        self._forgets = False
        """Whether `_forget_topics` is running."""
        self.changes = Changes(cluster.timers)
        self.consumers = ConsumerGroups(
            cluster, self.changes, self._consumer_group, self._adopt, self._downgrade, self._write_changes
        )
        self._classic_members = ClassicMembers(cluster, self.consumers, self._convert)
        self.share_state = ShareCoordinator(cluster)
        self.shares = ShareGroups(
            cluster, self.changes, self.share_state, self.groups.get, self._enter_share, self._log_in_slices
        )
        self.streams = StreamsGroups(cluster, self.changes, self._streams_group, self._enter_streams, self._log_in_slices)
        self._set_timers(now)

    def _enter_share(self, group: ShareGroup) -> None:
        self.groups[group.group_id] = group

    def _enter_streams(self, group: StreamsGroup, now: int) -> bool:
        before = self.groups.get(group.group_id)
        if isinstance(before, Group):
            before.die(now)
        group.prelude = []
        self.groups[group.group_id] = group
        return before is not group

    def restart(self, now: int) -> None:
        """Continue from the records: committed offsets, and the members of stable groups."""
        for group in self.groups.values():
            self._load(group, now)
        self._set_timers(now)

    def moved(self, index: int, now: int) -> None:
        """Another broker, or none, leads a partition of __consumer_offsets: it continues from the records there."""
        self.changes.finish()
        led = self._cluster.partition(GROUP_TOPIC, index)
        for group in self.groups.values():
            if self.home(group.group_id) != index:
                continue
            _unload(group)
            if led is not None and led.leader != NO_LEADER:
                self._load(group, now)

    def log_deleted(self) -> None:
        """__consumer_offsets is deleted, and all groups with it (GroupCoordinatorService.onResignation)."""
        self.changes.finish()
        for group in self.groups.values():
            _unload(group)
        self.groups.clear()
        self.offsets.clear()

    def _load(self, group: AnyGroup, now: int) -> None:
        if isinstance(group, ConsumerGroup):
            self.consumers.restart(group, now)
        elif isinstance(group, ShareGroup):
            self.shares.restart(group, now)
        elif isinstance(group, StreamsGroup):
            self.streams.restart(group, now)
        else:
            group.restart(now)

    def move_time(self, ms: int) -> None:
        """The clock was moved by `ms`, perhaps back: what waits for an interval has as long to wait as before."""
        self.changes.finish()
        for group in self.groups.values():
            if not isinstance(group, Group) and group.assigned_at:
                group.assigned_at += ms
            if isinstance(group, ConsumerGroup):
                for regex, resolved in list(group.resolved.items()):
                    group.resolve(regex, resolved._replace(time=resolved.time + ms))
            elif isinstance(group, ShareGroup):
                group.move_time(ms)
        self.streams.failures.clear()

    def log_error(self, group_id: str) -> ErrorCode:
        """COORDINATOR_NOT_AVAILABLE if too few replicas are in sync to write down the group's records, else NONE."""
        return self._cluster.coordinator_log_error("group", group_id)

    def load(self, home: int, batches: Iterable[memoryview], now: int) -> None:
        """Load this partition of __consumer_offsets. Raises ProtocolError."""
        loaded = GroupLog(home, self.offsets)
        for batch in batches:
            loaded.read(batch)
        for group_id, snapshot in loaded.groups.items():
            group = self._create(group_id, now)
            group.snapshot = snapshot
            group.restart(now)
        for group_id, written in loaded.consumer_groups.items():
            if written.epoch is not None:
                self._load_consumer_group(group_id, written, now)
        for group_id, shared in loaded.share_groups.items():
            made = self.groups[group_id] = ShareGroup(group_id, self.changes)
            for key, value in shared:
                replay_share(made, key, value)
            self.shares.restart(made, now)
        for group_id, streamed in loaded.streams_groups.items():
            loading = self.groups[group_id] = StreamsGroup(group_id, self.changes)
            for key, value in streamed:
                replay_streams(loading, key, value)
            self.streams.restart(loading, now)
        for group_id in loaded.with_offsets - self.groups.keys():
            if self.offsets.of(group_id) or any(True for _ in self.offsets.pending_of(group_id)):
                self._create(group_id, now)

    def _load_consumer_group(self, group_id: str, written: WrittenGroup, now: int) -> None:
        group = self.groups[group_id] = ConsumerGroup(group_id, self.changes)
        group.epoch = written.epoch or 0
        group.assignment_epoch, group.assigned_at = written.assignment_epoch, written.assigned_at
        for member in written.as_members():
            group.update(member)
        group.targets = {name: given for name, given in written.targets.items() if name in group.members}
        for regex, (topics, time) in written.regexes.items():
            group.resolve(regex, Resolved(topics, self._cluster.topics_created, time))
        group.facts = self.consumers.facts(group.subscriptions)
        mark_written(group)
        self.consumers.restart(group, now)

    def _set_timers(self, now: int) -> None:
        configs = self._cluster.configs
        self._cluster.timers.every(lambda: configs.integer("offsets.retention.check.interval.ms"), now, self._expire_offsets)
        self.share_state.set_timers(now)

    def coordinator_error(self, group_id: str, node_id: int) -> ErrorCode:
        """NONE if this broker coordinates the group, else NOT_COORDINATOR."""
        return self._cluster.coordinator_error("group", group_id, node_id)

    def membership_error(self, group_id: str, node_id: int) -> ErrorCode:
        """NONE if the group may have members and this broker coordinates it, else the error."""
        return self.coordinator_error(group_id, node_id) if group_id else ErrorCode.INVALID_GROUP_ID

    # Finding the group

    def _consumer_group(self, group_id: str, create: bool, now: int) -> Generator[None, Any, ConsumerGroup | Refused]:
        """The consumer group with this id, or the refusal; with `create` a new one, which may also replace a classic group."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not create or isinstance(group, ShareGroup | StreamsGroup):
            absent = f"Group {group_id} is not a consumer group."
            if group is None:
                absent = f"Consumer group {group_id} not found."
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, absent)
        if group is None or group.state is State.EMPTY:
            return ConsumerGroup(group_id, self.changes)
        return upgrade_error(group, self._cluster) or (yield from upgraded(group, self._cluster, self.consumers))

    def _streams_group(self, group_id: str, create: bool) -> StreamsGroup | Refused:
        """The streams group with this id, or the refusal; with `create` a new one, which may also replace a classic group."""
        group = self.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        replaces = isinstance(group, Group) and group.state is State.EMPTY
        if create and (group is None or replaces):
            made = StreamsGroup(group_id, self.changes)
            made.prelude = [group_tombstone(group_id)] if replaces else []
            return made
        absent = f"Streams group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
        return Refused(ErrorCode.GROUP_ID_NOT_FOUND, absent)

    def _adopt(self, group: ConsumerGroup) -> Generator[None, Any, None]:
        """Register the group under its id once it is written down; the tombstone of a classic one precedes its records."""
        if isinstance(self.groups.get(group.group_id), Group):
            group.prelude = [group_tombstone(group.group_id)]
            if group.members:
                for record in changes(group):
                    if record is None:
                        yield
                    else:
                        group.prelude.append(record)
                mark_written(group)

    def _downgrade(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now: int) -> ErrorCode | None:
        """Make it a classic group if, without these, only members of the classic protocol remain."""
        left = len(group.members) - len(leaving)
        if group.classic_members - sum(member.classic is not None for member in leaving) != left or left <= 0:
            return None
        fits = left <= self._cluster.configs.integer("group.max.size")
        if not fits or policy(self._cluster) not in ("DOWNGRADE", "BIDIRECTIONAL"):
            return None
        return self._make_classic(group, leaving, None, True, now)

    def _convert(self, group: ConsumerGroup, joining: ConsumerMember, rebalance: bool, now: int) -> ErrorCode:
        return self._make_classic(group, (), joining, rebalance, now)

    def _make_classic(
        self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], joining: ConsumerMember | None, rebalance: bool,
        now: int,
    ) -> ErrorCode:  # fmt: skip
        made = self._new_group(group.group_id, now)
        try:
            downgraded(group, leaving, joining, made, self._cluster)
        except ProtocolError:  # of a classic member's subscription in the protocol that all have
            return ErrorCode.GROUP_ID_NOT_FOUND
        _, error = self._log(group.group_id, [*tombstones(group), group_record(made)], now)
        if error:
            return error
        group.cancel_timers()
        self.groups[group.group_id] = made
        made.is_written()
        for member in made.members.values():
            made.alive(member, now)
        if rebalance:
            made.prepare_rebalance(now)
        return ErrorCode.NONE

    # Membership

    def join(self, requested: JoinRequest, joiner: Joiner, now: int) -> Generator[None, Any, None]:
        """A client wants to be a member; `joiner` gets the answer now or when the join phase is over."""
        if error := self._session_error(requested):
            joiner(Joined(error, requested.member_id))
            return
        if error := self.coordinator_error(requested.group_id, requested.node_id):
            joiner(Joined(error))
            return
        group = self.groups.get(requested.group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            joiner((yield from self.changes.alone(group.group_id, self._classic_members.join(group, requested, now))))
            return
        if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and group.members):
            joiner(Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        if not isinstance(group, Group) and requested.member_id:  # a refused client changes no group
            joiner(Joined(ErrorCode.UNKNOWN_MEMBER_ID, requested.member_id))
            return
        if not isinstance(group, Group):
            made = self._new_group(requested.group_id, now)
            before = _tombstones(group) if group is not None else []
            _, error = self._log(requested.group_id, [*before, group_record(made)], now)
            if error:
                joiner(Joined(error))
                return
            if group is not None:
                group.cancel_timers()
            group = self.groups[requested.group_id] = made
        if not group.accepts(requested.member_id, self._cluster.configs.integer("group.max.size")):
            if requested.member_id in group.members:
                group.remove(group.members[requested.member_id])
            joiner(Joined(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(requested.protocol_type, requested.protocols):
            joiner(Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, requested.member_id))
        elif not requested.member_id:
            self._join_new(group, requested, joiner, now)
        else:
            self._join_known(group, requested, joiner, now)

    def _session_error(self, requested: JoinRequest) -> ErrorCode:
        if not requested.group_id:
            return ErrorCode.INVALID_GROUP_ID
        configs = self._cluster.configs
        shortest, longest = (configs.integer(f"group.{end}.session.timeout.ms") for end in ("min", "max"))
        if not shortest <= requested.session_timeout <= longest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def _create(self, group_id: str, now: int) -> Group:
        group = self.groups[group_id] = self._new_group(group_id, now)
        return group

    def _new_group(self, group_id: str, now: int) -> Group:
        configs = self._cluster.configs
        return Group(
            group_id, self._cluster.timers, lambda: configs.integer("group.initial.rebalance.delay.ms"), now,
            self._write_down, self._entered,
        )  # fmt: skip

    def _entered(self, group: Group) -> None:
        change = GroupChange(group.group_id, group.state.value, group.generation, len(group.members))
        self._cluster.report(change)

    def _new_member_id(self, requested: JoinRequest) -> str:
        random = uuid.UUID(bytes=self._cluster.random_bytes(16), version=4)
        return f"{requested.client_id if requested.instance_id is None else requested.instance_id}-{random}"

    def _join_new(self, group: Group, requested: JoinRequest, joiner: Joiner, now: int) -> None:
        member_id = self._new_member_id(requested)
        if requested.instance_id is not None and requested.instance_id in group.static_members:
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
            else:  # Kafka treats this as an internal error, because pending members cannot be static
                joiner(Joined(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        if error := group.member_error(requested.member_id, requested.instance_id):
            joiner(Joined(error, requested.member_id))
            return
        member = group.members[requested.member_id]
        same = list(member.protocols) == list(requested.protocols)
        if group.state is State.EMPTY:
            joiner(Joined(ErrorCode.UNKNOWN_MEMBER_ID, requested.member_id))
        elif same and (
            group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and group.leader != member.member_id)
        ):
            joiner(group.joined(member))
        else:
            timeouts = (requested.rebalance_timeout, requested.session_timeout)
            group.update(member, requested.protocols, timeouts, joiner, now)

    def sync(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, protocol_type: str | None,
        protocol: str | None, assignments: Sequence[tuple[str, bytes]], syncer: Syncer, now: int,
    ) -> None:  # fmt: skip
        """A member asks for its assignment, or the leader sends the assignment of all."""
        modern = self.groups.get(group_id)
        if isinstance(modern, ConsumerGroup):
            self._classic_members.sync(modern, member_id, instance_id, generation, protocol_type, protocol, syncer, now)
            return
        group, error = self._member_of(group_id, member_id, instance_id, generation)
        if group is None or group.state is State.EMPTY:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if group is None or error:
            syncer(Synced(error))
            return
        if _differs(protocol_type, group.protocol_type) or _differs(protocol, group.protocol):
            syncer(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        member = group.members[member_id]
        if group.state is State.PREPARING_REBALANCE:
            syncer(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
        elif group.state is State.STABLE:
            group.has_synced(member)
            syncer(group.synced(member))
        else:
            group.sync(member, assignments, syncer, now)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: int) -> ErrorCode:
        """A member sends a heartbeat."""
        modern = self.groups.get(group_id)
        if isinstance(modern, ConsumerGroup):
            return self._classic_members.heartbeat(modern, member_id, instance_id, generation, now)
        group, error = self._member_of(group_id, member_id, instance_id, generation)
        if group is None or error:
            return error
        if group.state is State.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        group.alive(group.members[member_id], now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE

    def _member_of(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[Group | None, ErrorCode]:
        group = self.groups.get(group_id)
        if not isinstance(group, Group):
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        error = group.member_error(member_id, instance_id)
        if not error and generation != group.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return group, error

    def leave(self, group_id: str, leaving: Sequence[tuple[str, str | None]], now: int) -> list[ErrorCode] | ErrorCode:
        """Members (id, instance id) leave, each with its own answer; a static one may be named by its instance alone.

        There is one error for all if that cannot be written down. A rebalance begins once all of them have left.
        """
        group = self.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        if isinstance(group, ShareGroup | StreamsGroup):
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, leaving, now)
        codes = [self._leave(group, member_id, instance_id) for member_id, instance_id in leaving]
        if ErrorCode.NONE in codes and group.state is not State.EMPTY:
            group.rebalance_or_complete(now)
        return codes

    @staticmethod
    def _leave(group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        if not member_id:
            member_id = group.static_members.get(instance_id or "", "")
        elif member_id in group.pending:
            group.drop_pending(member_id)
            return ErrorCode.NONE
        if error := group.member_error(member_id, instance_id):
            return error
        group.remove(group.members[member_id])
        return ErrorCode.NONE

    # Offsets

    def commit_error(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, version: int, now: int,
        where: Iterable[tuple[bytes, int]] = (),
    ) -> ErrorCode:  # fmt: skip
        """The error if these credentials must not commit offsets, or NONE. Without credentials, an unknown group may begin.

        `version` is OffsetCommit's, on which the answer for an unknown group depends. `where` are the partitions (topic id,
        index): a member of a consumer group may commit with an old epoch for some of them.
        """
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group.commit_error(member_id, generation, version, where)
        if isinstance(group, StreamsGroup):
            return group.commit_error(member_id, generation, version, self._named(where))
        if isinstance(group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group is None:
            if generation >= 0:
                return ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
            return ErrorCode.NONE
        if generation < 0 and group.state is State.EMPTY:
            return ErrorCode.NONE
        if error := group.member_error(member_id, instance_id):
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is State.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        group.alive(group.members[member_id], now)
        return ErrorCode.NONE

    def transactional_commit_error(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: int,
        where: Iterable[tuple[bytes, int]] = (),
    ) -> ErrorCode:  # fmt: skip
        """The error if these credentials must not commit offsets in a transaction, or NONE. Old clients have none, and may."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            if generation == -1 and not member_id and instance_id is None:
                return ErrorCode.NONE
            if isinstance(group, StreamsGroup):
                error = group.commit_error(member_id, generation, None, self._named(where))
            else:
                error = group.commit_error(member_id, generation, None, where)
            return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error
        if isinstance(group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group is None:
            return ErrorCode.ILLEGAL_GENERATION if generation >= 0 else ErrorCode.NONE
        if generation < 0 and group.state is State.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE
        if error := group.member_error(member_id, instance_id):
            return error
        return ErrorCode.NONE if generation == group.generation else ErrorCode.ILLEGAL_GENERATION

    def _named(self, where: Iterable[tuple[bytes, int]]) -> Iterator[tuple[str, int]]:
        """Partitions by the names of their topics."""
        topics = self._cluster.topics_by_id
        return ((topics[topic_id].name, index) for topic_id, index in where if topic_id in topics)

    def home(self, group_id: str) -> int:
        """The partition of __consumer_offsets with the group's records."""
        return self._cluster.coordinator_partition("group", group_id) or 0

    def new_commit(self, group_id: str, now: int, producer: tuple[int, int] | None = None) -> Commit:
        """An empty commit. With `producer`, an id and epoch, its offsets are valid once that producer commits."""
        log = self._cluster.partition(GROUP_TOPIC, self.home(group_id))
        limit = log.policy.max_message_bytes if log is not None else 0
        return Commit(group_id, self._cluster, now, limit, producer)

    def commit(self, commit: Commit, batch: bytes | None, now: int) -> ErrorCode:
        """Write down and remember offsets that may be committed; the client's error if that fails.

        `batch` is the commit's. If there is none, the error is UNKNOWN_SERVER_ERROR, as in Kafka.
        """
        base, error = self._log_commit(commit, batch, now)
        if error:
            return error
        self._begin(commit.group_id, now)
        self.offsets.commit_all(commit.group_id, commit.offsets, base)
        return ErrorCode.NONE

    def commit_in_transaction(self, commit: Commit, batch: bytes | None, verified: bool, now: int) -> ErrorCode:
        """Write down offsets that are valid once the producer commits; INVALID_PRODUCER_EPOCH if it is fenced."""
        assert commit.producer is not None
        if not commit.offsets:
            return ErrorCode.NONE
        group_id = commit.group_id
        if error := self.log_error(group_id):
            return error
        base, error = self._log_commit(commit, batch, now, verified)
        if error:
            return error
        self._begin(group_id, now)
        self.offsets.commit_in_transaction(self.home(group_id), commit.producer[0], group_id, commit.offsets, base)
        return ErrorCode.NONE

    def _begin(self, group_id: str, now: int) -> None:
        """Create a group without members for its first written offset."""
        if group_id not in self.groups:
            self._create(group_id, now)

    def _log_commit(self, commit: Commit, batch: bytes | None, now: int, verified: bool = False) -> tuple[int, ErrorCode]:
        log = self._cluster.partition(GROUP_TOPIC, self.home(commit.group_id))
        if log is None or not commit.offsets:
            return -1, ErrorCode.NONE
        if batch is None:
            return -1, ErrorCode.UNKNOWN_SERVER_ERROR
        base = log.log_end_offset
        return base, translate_error(log.append_own(batch, now, verified=verified))

    def follow_logs(self, now: int) -> None:
        """Move each committed offset to the end of its log, for a soft reset; those of open transactions are forgotten.

        Raises OSError if that cannot be written down.
        """
        self.offsets.drop_pending()
        for group_id in self.offsets.groups():
            commit = self.new_commit(group_id, now)
            for where, committed in self.offsets.of(group_id).items():
                partition = self._cluster.partition(*where)
                if partition is not None and committed.offset != partition.log_end_offset:
                    commit.add(where, committed._replace(offset=partition.log_end_offset, leader_epoch=-1, time=now))
            if error := self.commit(commit, commit.batch(), now):
                raise OSError(f"the offsets of the group {group_id!r} cannot be written down ({error.name})")

    def delete_offsets(self, group_id: str, where: Iterable[TopicPartition], now: int) -> ErrorCode:
        """Forget committed offsets; if that cannot be written down, forget none and return the client's error."""
        gone = [each for each in dict.fromkeys(where) if self.offsets.has(group_id, each)]
        _, error = self._log(group_id, [offset_tombstone(group_id, each) for each in gone], now)
        for each in gone if not error else ():
            self.offsets.delete(group_id, each)
        return error

    def topic_deleted(self, topic: str, topic_id: bytes = b"") -> None:
        """A topic is deleted; `forget_topics` follows once for all topics that are deleted together, as in Kafka."""
        self._gone_topics[topic] = topic_id

    def forget_topics(self, now: int) -> None:
        """Forget, at once or in slices, the committed offsets of deleted topics and what share groups know of them."""
        if self._gone_topics and not self._forgets:
            self._cluster.timers.work(self._forgetting_topics(now))

    def _forgetting_topics(self, now: int) -> Iterator[None]:
        """Go through all groups, and again for topics that have been deleted meanwhile."""
        self._forgets = True
        pause = pauses()
        try:
            while self._gone_topics:
                gone, self._gone_topics = self._gone_topics, {}
                gone_ids = frozenset(gone.values())
                for group in list(self.groups.values()):
                    if pause():
                        yield
                    if isinstance(group, ShareGroup):
                        yield from self.shares.topics_deleted(group, gone_ids, now)
                yield from self.share_state.topics_deleted(gone_ids, now)
                for group_id in list(self.groups):
                    if pause():
                        yield
                    found = []
                    for where in list(self.offsets.of(group_id)):
                        if pause():
                            yield
                        if where[0] in gone:
                            found.append(where)
                    self.delete_offsets(group_id, found, now)
        finally:
            self._forgets = False

    def _write_down(self, group: Group, now: int) -> ErrorCode:
        return self._log(group.group_id, [group_record(group)], now)[1]

    def _write_changes(self, group: ConsumerGroup, now: int) -> Generator[None, Any, ErrorCode]:
        """Write down the changes, or undo them; a new group becomes known only once it is written down."""
        before = self.groups.get(group.group_id)
        error = yield from self._log_in_slices(group.group_id, chain(group.prelude, changes(group)), now)
        if error and before is group:
            group.revert()
        elif error:
            group.cancel_timers()
        else:
            group.prelude = []
            mark_written(group)
            if isinstance(before, Group):
                before.die(now)
                self.consumers.await_classic_members(group, now)
            self.groups[group.group_id] = group
        return error

    def _log_in_slices(
        self, group_id: str, records: Iterable[CoordinatorRecord | None], now: int
    ) -> Generator[None, Any, ErrorCode]:
        """The same in slices; None among the records ends one. Nothing is written before all records are encoded."""
        pause = weighted_pauses(BYTES)
        encoded = []
        try:
            for record in records:
                if record is None:
                    yield
                    continue
                key, value = record.encode()
                encoded.append((key, value))
                if pause(len(value or b"")):
                    yield
            batch = encoded_batch(encoded, now) if encoded else b""
        except EncodeError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return self._append(group_id, batch, now)[1]

    def _log(
        self, group_id: str, records: Sequence[CoordinatorRecord], now: int,
        producer: tuple[int, int] | None = None, verified: bool = False,
    ) -> tuple[int, ErrorCode]:  # fmt: skip
        """Append records to __consumer_offsets, all or none; their base offset, and the client's error.

        Ids that are longer than a record can hold are UNKNOWN_SERVER_ERROR, as in Kafka.
        """
        try:
            batch = records_batch(records, now, producer) if records else b""
        except EncodeError:
            return -1, ErrorCode.UNKNOWN_SERVER_ERROR
        return self._append(group_id, batch, now, verified)

    def _append(self, group_id: str, batch: bytes, now: int, verified: bool = False) -> tuple[int, ErrorCode]:
        log = self._cluster.partition(GROUP_TOPIC, self.home(group_id))
        if log is None or not batch:
            return -1, ErrorCode.NONE
        base = log.log_end_offset
        return base, translate_error(log.append_own(batch, now, verified=verified))

    def fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """The error if a client must not see the offsets of a group, or NONE. Classic groups show theirs to all clients."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            return group.fetch_error(member_id, epoch)
        return ErrorCode.NONE

    def deletion_error(self, group_id: str) -> ErrorCode:
        """The error if no offset of this group may be deleted, or NONE. The subscriptions of its members must be known."""
        group = self.groups.get(group_id)
        if group is None or isinstance(group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(group, Group) and group.state is not State.EMPTY and group.protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def subscribes(self, group: AnyGroup, topic: str) -> bool:
        """Whether members subscribe to the topic. Consumers whose subscriptions cannot be read are assumed to."""
        if isinstance(group, ConsumerGroup):
            return topic in group.subscriptions.names or topic in group.subscriptions.by_regex
        if isinstance(group, StreamsGroup):
            return group.reads(topic)
        if isinstance(group, ShareGroup) or group.protocol_type != CONSUMER:
            return False
        return group.subscribed is None or topic in group.subscribed

    def delete_group(self, group_id: str, now: int) -> Generator[None, Any, ErrorCode]:
        """Delete a group that has no members; in slices, if share partitions have a state."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not _is_empty(group):
            return ErrorCode.NON_EMPTY_GROUP
        if isinstance(group, ShareGroup):
            if refused := (yield from self.shares.delete_state(group, now)):
                return refused
            if self.groups.get(group_id) is not group:  # another request has deleted it meanwhile
                return ErrorCode.GROUP_ID_NOT_FOUND
            if group.members:
                return ErrorCode.NON_EMPTY_GROUP
        waiting = [where for where, _ in self.offsets.pending_of(group_id)]
        gone = dict.fromkeys([*self.offsets.of(group_id), *waiting])
        error = self._forget(group, now, [offset_tombstone(group_id, each) for each in gone])
        if not error:
            self.offsets.delete_group(group_id)
        return error

    def _expire_offsets(self, now: int) -> None:
        """Forget offsets by offsets.retention.minutes; an empty group that loses all its offsets is deleted."""
        self._cluster.timers.work(self._expiring_offsets(now))

    def _expiring_offsets(self, now: int) -> Iterator[None]:
        pause = pauses(GROUPS)
        for group_id, group in list(self.groups.items()):
            if pause():
                yield
            if self.groups.get(group_id) is not group or self.log_error(group_id):
                continue
            yield from self._expiring_offsets_of(group, now)
            gone = self.groups.get(group_id) is not group or isinstance(group, ShareGroup)
            if not gone and _is_empty(group) and not self.offsets.of(group_id) and not self.offsets.waits(group_id):
                self._forget(group, now)

    def _expiring_offsets_of(self, group: AnyGroup, now: int) -> Iterator[None]:
        """Forget the expired offsets of one group, unless their tombstones cannot be written down."""
        keep = self._cluster.configs.integer("offsets.retention.minutes") * 60_000
        held = list(self.offsets.of(group.group_id).items())
        for i in range(0, len(held), SLICE):
            if i:
                yield
            expired = [
                where
                for where, committed in held[i : i + SLICE]
                if self.offsets.of(group.group_id).get(where) is committed
                and not self.offsets.waits(group.group_id, where)
                and self._has_expired(group, where[0], committed, now, keep)
            ]
            if expired and self.delete_offsets(group.group_id, expired, now):
                return

    def _has_expired(self, group: AnyGroup, topic: str, committed: Committed, now: int, keep: int) -> bool:
        since = _kept_since(group, committed)
        if since is None or self.subscribes(group, topic):
            return False
        return now >= (committed.expires if committed.expires is not None else since + keep)

    def _forget(self, group: AnyGroup, now: int, before: Sequence[CoordinatorRecord] = ()) -> ErrorCode:
        """Delete the group and write its tombstones after the records `before`; if that fails, the group stays."""
        _, error = self._log(group.group_id, [*before, *_tombstones(group)], now)
        if not error:
            del self.groups[group.group_id]
            if isinstance(group, Group):
                group.die(now)
            else:
                group.cancel_timers()
        return error


def _tombstones(group: AnyGroup) -> list[CoordinatorRecord]:
    """The tombstones for all records of a group that has no members."""
    if isinstance(group, Group):
        return [group_tombstone(group.group_id)]
    if isinstance(group, ShareGroup):
        return share_tombstones(group)
    return streams_tombstones(group) if isinstance(group, StreamsGroup) else tombstones(group)


def _is_empty(group: AnyGroup) -> bool:
    return group.state is State.EMPTY if isinstance(group, Group) else not group.members


def _kept_since(group: AnyGroup, committed: Committed) -> int | None:
    """The start of an offset's retention, in ms since the epoch; None while it does not expire."""
    if not isinstance(group, Group) or group.protocol_type is None:
        return committed.time
    if group.state is State.EMPTY:
        return group.state_since
    return committed.time if group.protocol_type == CONSUMER and group.state is State.STABLE else None


def _member(member_id: str, requested: JoinRequest) -> Member:
    return Member(
        member_id, requested.instance_id, requested.client_id, requested.client_host, requested.rebalance_timeout,
        requested.session_timeout, requested.protocols,
    )  # fmt: skip


def _differs(sent: str | None, known: str | None) -> bool:
    return sent is not None and sent != known


def _unload(group: AnyGroup) -> None:
    """Stop what the group does by itself; its broker no longer coordinates it."""
    if isinstance(group, Group):
        group.unload()
    else:
        group.cancel_timers()
