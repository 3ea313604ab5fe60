"""One streams group: its members, its topology, its epochs and its target assignment (Kafka's StreamsGroup, KIP-1071).

The class holds the state; `streams_heartbeats` computes the result of each request and stores it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.declare import Message
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.group import Where
from wirebroker.core.groups.modern import ModernGroup
from wirebroker.core.groups.streams_log import FORMAT, TOPOLOGY_KEY, epoch_fields
from wirebroker.core.groups.streams_member import NOTHING, Holders, Some, StreamsMember, TaskId, Tasks
from wirebroker.core.groups.streams_topology import Configured, Topology

STREAMS = "streams"
NOT_READY = "NotReady"
"""The state of a group whose topology needs topics that do not exist."""


ASK_AGAIN_MS, ASK_AT_LEAST_MS = 30_000, 3_600_000
"""The first and the longest pause in ms between two requests of the broker for a description of the topology."""
TaskOffsets = tuple[Some, Some]
"""The offsets of a member's tasks, and the end offsets of the tasks' changelogs."""


class Asked(NamedTuple):
    """How many times the broker has asked for a description of the topology of this epoch, and the time at which it may ask
    again."""

    epoch: int
    times: int
    again_at: int


NEVER = Asked(-1, 0, 0)


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    kind = STREAMS
    form = FORMAT
    member_class = StreamsMember
    nothing = NOTHING

    def __init__(self, group_id: str, changes: Changes) -> None:
        super().__init__(group_id, changes)
        self.topology: Topology | None = None
        self.configured: Configured | None = None
        """The topology with the numbers of partitions of the cluster's topics. After a restart, this is None until a member
        sends a heartbeat."""
        self.configured_at = 0
        """The end offset of the group's partition of __consumer_offsets when the topology was configured."""
        self.shown_before: Configured | None = None
        """The configured topology that StreamsGroupDescribe showed before `configured` got its present value."""
        self.valid_topology_epoch = 0
        """The epoch of the topology when the group's epoch last rose; −1 if the topology was not ready then."""
        self.configs: Mapping[str, str] = {}
        """The settings of the assignor when the group's epoch last rose."""
        self.endpoints_epoch = 0
        """A counter that rises when the tasks of a member with an endpoint change."""
        self.shutdown_by: str | None = None
        """The id of the member that requested a shutdown of the whole application."""
        self.offsets: dict[str, TaskOffsets] = {}
        """The task offsets that each member has sent, by member id."""
        self.description: tuple[int, Any] | None = None
        """The epoch of the topology that a member has described, and the description."""
        self._asked = NEVER
        self._active: dict[TaskId, str] = {}
        self._others: tuple[dict[TaskId, set[str]], ...] = ({}, {})

    def forget_unrecorded(self) -> None:
        self.configured = self.shown_before = self.shutdown_by = None
        self.endpoints_epoch = 0

    # Queries

    @property
    def state_name(self) -> str:
        if self.members and (self.topology is None or self.topology.epoch != self.valid_topology_epoch):
            return NOT_READY
        return super().state_name

    @staticmethod
    def same_target(one: Tasks, other: Tasks) -> bool:
        return one.same(other)

    @property
    def holders(self) -> Holders:
        """The functions that find the processes with a given task."""
        standby, warmup = self._others
        return Holders(self._active.get, lambda task: standby.get(task, ()), lambda task: warmup.get(task, ()))

    def topics(self) -> Iterable[str]:
        """Returns the topics to which the group subscribes: the topics that its topology needs."""
        return () if self.topology is None else self.topology.required

    def subscribes(self, topic: str) -> bool:
        """Tells whether the group has members and its topology reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.reader_of

    def has_since(self, member: StreamsMember, where: Where) -> int | None:
        """Returns the epoch at which the member got the task that reads the partition, or None if the member does not have this
        task."""
        if where.topic is None:
            return 0  # the topic is deleted, so no task reads it
        reader = self.topology.reader_of.get(where.topic, "") if self.topology is not None else ""
        task = (reader, where.partition)
        return member.assigned.active.get(task, member.revoking.active.get(task))

    # Descriptions of the topology

    def wants_description(self, now: int) -> bool:
        """Tells whether the broker asks the next member for a description of the topology. If the result is True, the request
        is counted.

        The broker waits for half a minute after its first question, then for a minute and so on, up to an hour. Kafka varies
        these waiting times randomly by up to a fifth.
        """
        epoch = self.topology.epoch if self.topology is not None else -1
        if epoch < 0 or (self.description is not None and self.description[0] == epoch):
            return False
        asked = self._asked
        if asked.epoch == epoch and now < asked.again_at:
            return False
        times = asked.times + 1 if asked.epoch == epoch else 0
        self._asked = Asked(epoch, times, now + min(ASK_AGAIN_MS << times, ASK_AT_LEAST_MS))
        return True

    def describe(self, description: Any) -> None:
        """Keep the description of the present topology, which a member has sent."""
        if self.topology is not None:
            self.description, self._asked = (self.topology.epoch, description), NEVER

    # Changes

    def update(self, member: StreamsMember) -> None:
        self._disown(self.members.get(member.member_id))
        super().update(member)
        for held in (member.assigned, member.revoking):
            self._active |= dict.fromkeys(held.active, member.process_id)
            for tasks, processes in zip((held.standby, held.warmup), self._others, strict=True):
                for task in tasks:
                    processes.setdefault(task, set()).add(member.process_id)

    def remove(self, member_id: str) -> None:
        self._disown(self.members[member_id])
        self.offsets.pop(member_id, None)
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

    def epoch_record(self, epoch: int, hashed: int) -> CoordinatorRecord:
        return self.log.epoch(epoch, hashed, **epoch_fields(self.valid_topology_epoch, self.configs))

    def replay_other(self, key: Message, value: Any) -> None:
        """Apply the record of the topology, or those fields of the epoch's record that only streams groups have."""
        if isinstance(key, TOPOLOGY_KEY) and value is not None:
            self.topology = Topology(value)
        elif isinstance(key, self.form.epoch.key) and value is not None:
            self.valid_topology_epoch = value.validated_topology_epoch
            self.configs = {each.key: each.value for each in value.last_assignment_configs or ()}
