"""One streams group: its members, its topology, its epochs and its target assignment (Kafka's StreamsGroup, KIP-1071).

The class holds the state; `streams_groups` computes the result of each request and stores it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkawire.declare import Message
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.group import Where
from wirebroker.core.groups.modern import ModernGroup
from wirebroker.core.groups.streams_log import StreamsRecords
from wirebroker.core.groups.streams_member import NOTHING, Holders, StreamsMember, TaskId, Tasks
from wirebroker.core.groups.streams_topology import Configured, Topology

STREAMS = "streams"
NOT_READY = "NotReady"
"""The state of a group whose topology lacks topics."""


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    """A streams group."""

    kind = STREAMS
    log = StreamsRecords()
    member_class = StreamsMember
    nothing = NOTHING

    def __init__(self, group_id: str, changes: Changes) -> None:
        super().__init__(group_id, changes)
        self.topology: Topology | None = None
        self.configured: Configured | None = None
        """The topology, configured with the cluster's topics; None after a restart, until a member sends a heartbeat."""
        self.configured_at = 0
        """The end offset of the group's partition of __consumer_offsets when the topology was configured."""
        self.valid_topology_epoch = 0
        """The epoch of the topology that was ready when the group's epoch last rose; −1 if no topology was ready."""
        self.configs: Mapping[str, str] = {}
        """The settings of the assignor when the epoch last rose."""
        self.endpoints_epoch = 0
        """A counter that rises when a member with an endpoint gets other tasks."""
        self.shutdown_by: str | None = None
        """The id of the member that asked for the end of the whole application."""
        self._active: dict[TaskId, str] = {}
        self._others: tuple[dict[TaskId, set[str]], ...] = ({}, {})

    # Queries

    @property
    def state(self) -> str:
        """Kafka's name of the state."""
        if self.members and (self.topology is None or self.topology.epoch != self.valid_topology_epoch):
            return NOT_READY
        return super().state

    @staticmethod
    def same_target(one: Tasks, other: Tasks) -> bool:
        """Tells whether two targets have the same tasks."""
        return one.same(other)

    @property
    def holders(self) -> Holders:
        """The tasks of each process."""
        return Holders(self._active.get, self._others_of)

    def _others_of(self, task: TaskId) -> set[str]:
        return {process for held in self._others for process in held.get(task, ())}

    def subscribes(self, topic: str) -> bool:
        """Tells whether members read the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.reader_of

    def has_since(self, member: StreamsMember, where: Where) -> int | None:
        """Returns the epoch at which the member got the task that reads the partition, or None if the member does not have
        the task."""
        if where.topic is None:
            return 0  # no task reads a deleted topic
        reader = self.topology.reader_of.get(where.topic, "") if self.topology is not None else ""
        task = (reader, where.partition)
        return member.assigned.active.get(task, member.revoking.active.get(task))

    # Changes

    def update(self, member: StreamsMember) -> None:
        """Add a member, or replace a member that has changed."""
        self._disown(self.members.get(member.member_id))
        super().update(member)
        for held in (member.assigned, member.revoking):
            self._active |= dict.fromkeys(held.active, member.process_id)
            for tasks, processes in zip((held.standby, held.warmup), self._others, strict=True):
                for task in tasks:
                    processes.setdefault(task, set()).add(member.process_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, its assignment and its target."""
        self._disown(self.members[member_id])
        super().remove(member_id)
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

    def replay_other(self, key: Message, value: Any) -> None:
        """Apply the record of the topology, or the fields of the epoch's record that only streams groups have."""
        if isinstance(key, self.log.topology_key) and value is not None:
            self.topology = Topology(value)
        elif isinstance(key, self.log.epoch_key) and value is not None:
            self.valid_topology_epoch = value.validated_topology_epoch
            self.configs = {each.key: each.value for each in value.last_assignment_configs or ()}
