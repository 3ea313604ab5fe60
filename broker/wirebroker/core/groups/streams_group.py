"""One streams group: its members, its topology, its epochs and its target assignment (Kafka's StreamsGroup, KIP-1071).

It holds the state; `streams_groups` computes the result of each request and stores it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.java_order import TimelineOrder
from wirebroker.core.groups.streams_member import NOTHING, Holders, StreamsMember, TaskId, Tasks
from wirebroker.core.groups.streams_topology import Configured, Topology
from wirebroker.core.groups.timed import TimedGroup

STREAMS = "streams"
EMPTY, NOT_READY, ASSIGNING, RECONCILING, STABLE = "Empty", "NotReady", "Assigning", "Reconciling", "Stable"
"""The states of a streams group, as clients see them. They follow from its topology, epochs and members."""
FIRST_EPOCH = 1


class StreamsGroup(TimedGroup):
    """A streams group."""

    def __init__(self, group_id: str, changes: Changes) -> None:
        super().__init__(group_id, changes)
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        """The group epoch for which `targets` were computed."""
        self.assigned_at = 0
        """The time of that, in ms since the epoch; 0 if it never happened."""
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}
        self.topology: Topology | None = None
        self.configured: Configured | None = None
        """The topology with what the cluster's topics make of it; None after a restart, until a member sends a heartbeat."""
        self.configured_at = 0
        """The end of the group's partition of __consumer_offsets at that moment."""
        self.valid_topology_epoch = 0
        """The epoch of the topology that was ready when the group's epoch last rose; −1 if none was."""
        self.facts: Mapping[str, tuple[bytes, int]] = {}
        """The ids and numbers of partitions of the required topics when the epoch last rose (Kafka keeps a hash)."""
        self.configs: Mapping[str, str] = {}
        """The settings of the assignor when the epoch last rose."""
        self.endpoints_epoch = 0
        """Rises when a member with an endpoint gets other tasks."""
        self.shutdown_by: str | None = None
        """The member that asked for the end of the whole application."""
        self.prelude: list[CoordinatorRecord] = []
        """For a group that replaces another one: records that precede its own in the same batch."""
        self._active: dict[TaskId, str] = {}
        self._others: tuple[dict[TaskId, set[str]], ...] = ({}, {})
        self._member_order = TimelineOrder()

    # Queries

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        if not self.members:
            return EMPTY
        if self.topology is None or self.topology.epoch != self.valid_topology_epoch:
            return NOT_READY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        reconciled = all(member.reconciled_to(self.assignment_epoch) for member in self.members.values())
        return STABLE if reconciled else RECONCILING

    def in_order(self) -> list[str]:
        """The ids of the members in the order of Kafka's hash table."""
        return self._member_order.of(self.members)

    @property
    def holders(self) -> Holders:
        """Which processes have which tasks."""
        return Holders(self._active.get, self._others_of)

    def _others_of(self, task: TaskId) -> set[str]:
        return {process for held in self._others for process in held.get(task, ())}

    def reads(self, topic: str) -> bool:
        """Whether members read the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.reader_of

    def commit_error(
        self, member_id: str, epoch: int, version: int | None, where: Iterable[tuple[str, int]]
    ) -> ErrorCode:  # fmt: skip
        """The error if a member must not commit offsets of these partitions (topic, index) at this epoch, or NONE.

        `version` is that of OffsetCommit, None for a transactional commit. An old epoch is accepted for the partitions of
        tasks that the member has had since then, because the answer with the new epoch may be in flight.
        """
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if version is not None and version < 9:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch:
            return ErrorCode.NONE
        if epoch > member.epoch or self.topology is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        for topic, index in where:
            task = (self.topology.reader_of.get(topic, ""), index)
            since = member.assigned.active.get(task, member.revoking.active.get(task))
            if since is None or epoch < since:
                return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def fetch_error(self, member_id: str | None, epoch: int) -> ErrorCode:
        """The error if a client must not see the group's offsets, or NONE. A client without a member id may."""
        if member_id is None:
            return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka looks up null and fails
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    # Changes

    def update(self, member: StreamsMember) -> None:
        """Add a member, or replace one that has changed."""
        self._member_order.put(len(self.members))
        self._disown(self.members.get(member.member_id))
        self.members[member.member_id] = member
        self._member_order.put(len(self.members))  # Kafka writes the member's own data first, then its assignment
        for held in (member.assigned, member.revoking):
            self._active |= dict.fromkeys(held.active, member.process_id)
            for tasks, processes in zip((held.standby, held.warmup), self._others, strict=True):
                for task in tasks:
                    processes.setdefault(task, set()).add(member.process_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, its assignment and its target."""
        self._disown(self.members.pop(member_id))
        self.targets.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None

    def _disown(self, member: StreamsMember | None) -> None:
        if member is None:
            return
        for held in (member.assigned, member.revoking):
            for task in held.active:
                if self._active.get(task) == member.process_id:
                    del self._active[task]
            for tasks, processes in zip((held.standby, held.warmup), self._others, strict=True):
                for task in tasks:
                    processes.get(task, set()).discard(member.process_id)

    def take_targets(self, made: Mapping[str, Tasks], epoch: int, now: int) -> None:
        """Set a new target for every member."""
        self.targets = {member_id: made.get(member_id, NOTHING) for member_id in self.members}
        self.assignment_epoch, self.assigned_at = epoch, now
