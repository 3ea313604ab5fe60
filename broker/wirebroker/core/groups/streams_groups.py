"""The requests of streams groups (KIP-1071): StreamsGroupHeartbeat, and the removal of members.

The rules are those of GroupMetadataManager in Kafka 4.3.1. A heartbeat's result is computed first and written down only at
the end, so a refused request changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from kafkawire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds
from wirebroker.common.slices import after, at_once
from wirebroker.core.changes import GroupChange
from wirebroker.core.cluster import Cluster
from wirebroker.core.config_resources import group_number
from wirebroker.core.coordinator_errors import RETRY_MS
from wirebroker.core.groups.changing import Changes
from wirebroker.core.groups.consumer_groups import ABANDON, REBALANCE, SESSION, Refused
from wirebroker.core.groups.java_order import buckets_for, hash_order
from wirebroker.core.groups.members import LEAVES, LEAVES_FOR_A_WHILE
from wirebroker.core.groups.sticky_assignor import Assignable, Work, sticky
from wirebroker.core.groups.streams_group import StreamsGroup
from wirebroker.core.groups.streams_log import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    partitions_by_subtopology,
    target_records,
    topology_record,
)
from wirebroker.core.groups.streams_member import NOTHING, StreamsMember, StreamsState, Tasks, reconcile
from wirebroker.core.groups.streams_topology import Configured, InternalTopic, Misfit, Status, Told, Topology, configure
from wirebroker.core.names import java_hash

DELAY = "delay"
MOST_ERRORS = 1000
"""The number of topics whose creation failed that are remembered."""
STANDBYS = "num.standby.replicas"
Log = Callable[[str, Iterable[CoordinatorRecord | None], int], Generator[None, Any, ErrorCode]]
Claims = Sequence[TaskIds] | None


class Client(NamedTuple):
    """Who sends a heartbeat."""

    client_id: str
    host: str


class Endpoint(NamedTuple):
    """Where a member answers interactive queries, and the partitions (topic, indexes) of its active and standby tasks."""

    address: tuple[str, int]
    active: Sequence[tuple[str, Sequence[int]]]
    standby: Sequence[tuple[str, Sequence[int]]]


class StreamsHeartbeatResult(NamedTuple):
    """The answer to a heartbeat. What is None is known to the member already. The interval is in ms."""

    member_id: str
    epoch: int
    interval: int = 0
    tasks: Tasks | None = None
    told: Sequence[Told] = ()
    endpoints_epoch: int = 0
    endpoints: Sequence[Endpoint] | None = None
    missing: Mapping[str, InternalTopic] = {}
    """The internal topics that the broker is to create."""


class CreationErrors:
    """Why internal topics could not be created, for the time of two heartbeats of the group (ExpiringErrorCache)."""

    def __init__(self, interval: Callable[[str], int]) -> None:
        self._interval = interval
        self._held: dict[str, tuple[str, int]] = {}

    def clear(self) -> None:
        """Forget them."""
        self._held.clear()

    def note(self, group_id: str, topic: str, why: str, now: int) -> None:
        """A topic that this group needs could not be created."""
        self._held = {name: held for name, held in self._held.items() if held[1] > now}
        if len(self._held) < MOST_ERRORS:
            self._held[topic] = (why, now + 2 * self._interval(group_id))

    def of(self, topics: Iterable[str], now: int) -> dict[str, str]:
        """Those of these topics that could not be created of late, and why."""
        return {name: self._held[name][0] for name in topics if name in self._held and self._held[name][1] > now}


@dataclass(slots=True)
class _Step:
    """The next state of a group and of the member that sent a heartbeat, before it is written down."""

    group: StreamsGroup
    old: StreamsMember
    new: StreamsMember
    topology: Topology
    configured: Configured
    epoch: int
    valid_topology_epoch: int
    facts: Mapping[str, tuple[bytes, int]]
    configs: Mapping[str, str]
    targets: Mapping[str, Tasks] | None = None
    """The new targets of all members, if they were computed again."""
    told: list[Told] = field(default_factory=list)

    @property
    def rose(self) -> bool:
        """Whether the group's epoch rises."""
        return self.epoch != self.group.epoch


class StreamsGroups:
    """The streams groups of the cluster. `find` returns the group of a heartbeat, perhaps a new one that is not registered,
    or the refusal; `enter` registers a group and returns whether it was new; `log` writes records down in slices, all or
    none (see `GroupCoordinator`), and returns the client's error.
    """

    def __init__(
        self, cluster: Cluster, changes: Changes, find: Callable[[str, bool], StreamsGroup | Refused],
        enter: Callable[[StreamsGroup, int], bool], log: Log,
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._changes = changes
        self._find = find
        self._enter = enter
        self._log = log
        self.failures = CreationErrors(lambda group_id: self._setting(group_id, "streams.heartbeat.interval.ms"))

    def _setting(self, group_id: str, name: str) -> int:
        configs = self._cluster.configs
        return group_number(configs.groups.get(group_id, {}), name, configs)

    @property
    def enabled(self) -> bool:
        """Whether group.coordinator.rebalance.protocols includes streams groups."""
        protocols = self._cluster.configs.value("group.coordinator.rebalance.protocols")
        return isinstance(protocols, list) and "streams" in protocols

    # Heartbeats

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, sent: Topology | Misfit | None, client: Client, now: int
    ) -> Generator[None, Any, StreamsHeartbeatResult | Refused]:
        """A member joins, stays or leaves. The request is valid for every group (see `request_error`), and `sent` is its
        topology.
        """
        if request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE):
            return self._leave(request, now)
        return (yield from self._changes.alone(request.group_id, self._heartbeat(request, sent, client, now)))

    def _heartbeat(
        self, request: StreamsGroupHeartbeatRequest, sent: Topology | Misfit | None, client: Client, now: int
    ) -> Generator[None, Any, StreamsHeartbeatResult | Refused]:
        group = self._find(request.group_id, request.member_epoch == 0)
        if isinstance(group, Refused):
            return group
        step = yield from self._step(group, request, sent, client)
        if isinstance(step, Refused):
            return step
        delay = 0 if group.members else self._setting(group.group_id, "streams.initial.rebalance.delay.ms")
        yield from after(step.topology.required)
        epoch, target = yield from self._target(step, delay > 0 or group.has_timer(DELAY, ""), now)
        updated = step.new
        step.new = reconcile(updated, epoch, target, group.holders, _claimed(request))
        yield from after(target.active)
        shown = request.member_epoch == 0 or step.old.assigned != step.new.assigned
        # Kafka keeps these two apart from its records, so they hold even if this request is refused.
        group.endpoints_epoch += shown and step.new.endpoint is not None
        if request.shutdown_application:
            group.shutdown_by = group.shutdown_by or request.member_id
        endpoints = None
        if group.endpoints_epoch != request.endpoint_information_epoch:
            endpoints = self._endpoints(step)
            if endpoints is None:
                return Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        if error := (yield from self._log(group.group_id, self._records(step, updated, now), now)):
            return Refused(error)
        told = [*step.told, *_troubles(step.configured, group.shutdown_by)]
        if self._enter(group, now):  # Kafka makes another object of a new group, which knows only what was written down
            group.configured, group.endpoints_epoch, group.shutdown_by = None, 0, None
        self._apply(step, now)
        if delay and not group.has_timer(DELAY, ""):
            steps = partial(self._assign_delayed, group)
            alone, work = self._changes.alone, self._cluster.timers.work
            group.set_timer(DELAY, "", now + delay, lambda when: work(alone(group.group_id, steps(when))))
        self._set_timers(group, updated, step.new, now)
        return StreamsHeartbeatResult(
            step.new.member_id, step.new.epoch, self._setting(group.group_id, "streams.heartbeat.interval.ms"),
            step.new.assigned if shown else None, told, group.endpoints_epoch, endpoints, step.configured.missing,
        )  # fmt: skip

    def _step(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, sent: Topology | Misfit | None, client: Client
    ) -> Generator[None, Any, _Step | Refused]:
        """The group and the member after this heartbeat, except for their tasks."""
        old = self._member(group, request)
        if isinstance(old, Refused):
            return old
        new = _updated(old, request, client)
        topology = _topology(group, sent)
        if new is None:
            return Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(topology, Refused):
            return topology
        facts = self._facts(topology)
        configured = group.configured
        if configured is None or group.topology is None or facts != group.facts:
            yield from after(facts)
            made = yield from configure(topology, lambda name: facts[name][1] if name in facts else None)
            if isinstance(made, Misfit):
                return Refused(*made)
            configured = group.configured = made
            group.configured_at = self._log_end(group)
        if error := _unknown_tasks(request, configured):
            return error
        valid = topology.epoch if configured.told is None else -1
        configs = {STANDBYS: str(self._setting(group.group_id, "streams.num.standby.replicas"))}
        known = (group.facts, group.valid_topology_epoch, group.configs)
        bumps = new != old or (facts, valid, configs) != known
        step = _Step(group, old, new, topology, configured, group.epoch + bumps, valid, facts, configs)
        if group.topology is not None and new.topology_epoch < group.topology.epoch:
            behind = f"topology epoch {new.topology_epoch} is behind the group's topology epoch {group.topology.epoch}."
            step.told.append(Told(Status.STALE_TOPOLOGY, f"The member's {behind}"))
        return step

    def _member(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsMember | Refused:
        joins = request.member_epoch == 0
        largest = self._cluster.configs.integer("group.streams.max.size")
        if joins and len(group.members) >= largest:
            full = f"The streams group has reached its maximum capacity of {largest} members."
            return Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, full)
        member = group.members.get(request.member_id)
        if member is None:
            return StreamsMember(request.member_id) if joins else _unknown_member(request)
        if request.member_epoch in (0, member.epoch):
            return member
        claimed = [_pairs(each) for each in (request.active_tasks, request.standby_tasks, request.warmup_tasks)]
        if request.member_epoch == member.previous_epoch < member.epoch and member.owns_all(claimed):
            return member
        size = "greater" if request.member_epoch > member.epoch else "smaller"
        return Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {size} member epoch ({request.member_epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). {ABANDON}",
        )

    def _facts(self, topology: Topology) -> dict[str, tuple[bytes, int]]:
        topics = self._cluster.topics
        return {name: (topics[name].topic_id, len(topics[name].partitions)) for name in topology.required if name in topics}

    def _count(self, name: str) -> int | None:
        topic = self._cluster.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def _log_end(self, group: StreamsGroup) -> int:
        log = self._cluster.coordinator_log("group", group.group_id)
        return 0 if log is None else log.log_end_offset

    def shown(self, group: StreamsGroup) -> Configured | None:
        """What the topics make of the topology, as far as descriptions show it.

        Kafka describes the state of the last written record, and what it finds out itself is not part of any record. So a
        description shows that only after a further record of this or another group in the same partition.
        """
        return group.configured if self._log_end(group) > group.configured_at else None

    # Targets

    def _target(self, step: _Step, delayed: bool, now: int) -> Generator[None, Any, tuple[int, Tasks]]:
        """The target epoch and the member's target, computed again if the group's epoch has risen and it is not too early."""
        group = step.group
        if delayed:
            why = "Assignment delayed due to the configured initial rebalance delay."
            step.told.append(Told(Status.ASSIGNMENT_DELAYED, why))
            return group.assignment_epoch, NOTHING
        if group.assignment_epoch < step.epoch:
            if not self._too_soon(group, now):
                step.targets = yield from self._assign(group, step.configured, step.configs, step.new)
                return step.epoch, step.targets[step.new.member_id]
            why = "Assignment delayed due to the configured assignment interval."
            step.told.append(Told(Status.ASSIGNMENT_DELAYED, why))
        return group.assignment_epoch, group.targets.get(step.new.member_id, NOTHING)

    def _too_soon(self, group: StreamsGroup, now: int) -> bool:
        interval = self._setting(group.group_id, "streams.assignment.interval.ms")
        return bool(group.assigned_at and interval and now < group.assigned_at + interval)

    @staticmethod
    def _assign(
        group: StreamsGroup, configured: Configured, configs: Mapping[str, str], changed: StreamsMember | None
    ) -> Generator[None, Any, Mapping[str, Tasks]]:
        """The targets of all members, with another version of one."""
        members = {member_id: group.members[member_id] for member_id in group.in_order()}
        if changed is not None:
            members[changed.member_id] = changed
        in_order = hash_order(members, java_hash, buckets_for(len(members)))
        if configured.told is not None or configured.subtopologies is None:
            return dict.fromkeys(in_order, NOTHING)
        assignable = [Assignable(each, members[each].process_id, group.targets.get(each, NOTHING)) for each in in_order]
        work = [Work(key, each.tasks, bool(each.changelogs)) for key, each in configured.subtopologies.items()]
        return (yield from sticky(assignable, work, int(configs.get(STANDBYS, "0"))))

    def _assign_delayed(self, group: StreamsGroup, now: int) -> Generator[None, Any, None]:
        """The initial delay is over: compute the first targets, which the members get with their next heartbeats."""
        if not group.members or group.epoch <= group.assignment_epoch or group.configured is None:
            return
        if self._too_soon(group, now):
            return
        made = yield from self._assign(group, group.configured, group.configs, None)
        if not (yield from self._log(group.group_id, target_records(group, made, group.epoch, now), now)):
            group.take_targets(made, group.epoch, now)
            self._report(group)

    # Writing down

    @staticmethod
    def _records(step: _Step, updated: StreamsMember, now: int) -> Iterator[CoordinatorRecord | None]:
        """The records of all that changes, in Kafka's order, with None where a slice ends. `updated` is the member with its
        tasks before this step.
        """
        group, group_id = step.group, step.group.group_id
        yield from group.prelude
        if step.new != step.old:
            yield member_record(group_id, step.new)
        if group.topology is None:
            yield topology_record(group_id, step.topology)
        if step.rose:
            yield epoch_record(group_id, step.epoch, step.valid_topology_epoch, step.configs)
        if step.targets is not None:
            yield from target_records(group, step.targets, step.epoch, now)
        if step.new != updated:
            yield current_record(group_id, step.new)

    def _apply(self, step: _Step, now: int) -> None:
        group = step.group
        group.update(step.new)
        group.topology = step.topology
        if step.targets is not None:
            group.take_targets(step.targets, step.epoch, now)
        if step.rose:
            group.epoch, group.valid_topology_epoch = step.epoch, step.valid_topology_epoch
            group.facts, group.configs = step.facts, step.configs
            self._report(group)

    def _report(self, group: StreamsGroup) -> None:
        self._cluster.report(GroupChange(group.group_id, group.state, group.epoch, len(group.members)))

    # Endpoints

    def _endpoints(self, step: _Step) -> list[Endpoint] | None:
        """The endpoints of all members with their partitions; None if a topic is missing, for which Kafka is not prepared."""
        group = step.group
        others = [group.members[each] for each in group.in_order() if each != step.new.member_id]
        found = []
        for member in (*others, step.new):
            if member.endpoint is None:
                continue
            active = self._partitions(member.assigned.active, step.configured)
            standby = self._partitions(member.assigned.standby, step.configured)
            if active is None or standby is None:
                return None
            found.append(Endpoint(member.endpoint, active, standby))
        return found

    def _partitions(
        self, tasks: Iterable[tuple[str, int]], configured: Configured
    ) -> list[tuple[str, Sequence[int]]] | None:  # fmt: skip
        if configured.subtopologies is None:
            return None
        found: list[tuple[str, Sequence[int]]] = []
        for key, indexes in partitions_by_subtopology(tasks).items():
            for name in configured.subtopologies[key].inputs:
                count = self._count(name)
                if count is None:
                    return None
                found.append((name, indexes[:count]))
        return found

    # Leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest, now: int) -> StreamsHeartbeatResult | Refused:
        group = self._find(request.group_id, False)
        if isinstance(group, Refused):
            # Kafka has another message here for a group that does not exist.
            return group._replace(message=(group.message or "").replace("Streams group", "Group"))
        if request.shutdown_application:
            group.shutdown_by = group.shutdown_by or request.member_id
        if request.member_id not in group.members:
            return _unknown_member(request)
        error = self._fence(group, request.member_id, now)
        return Refused(error) if error else StreamsHeartbeatResult(request.member_id, request.member_epoch)

    def _set_timers(self, group: StreamsGroup, before: StreamsMember, after: StreamsMember, now: int) -> None:
        """Remove the member if it is silent for too long, or does not give up its tasks in time."""
        member_id = after.member_id
        self._fence_at(group, SESSION, after, now + self._setting(group.group_id, "streams.session.timeout.ms"))
        if after.state is StreamsState.UNREVOKED_TASKS and after != before:
            self._fence_at(group, REBALANCE, after, now + after.rebalance_timeout)
        elif after != before:
            group.cancel_timer(REBALANCE, member_id)

    def _fence_at(self, group: StreamsGroup, kind: str, member: StreamsMember, when: int) -> None:
        def expire(now: int) -> None:
            known = group.members.get(member.member_id)
            due = known is not None and (kind == SESSION or known.epoch == member.epoch)
            if due and self._fence(group, member.member_id, now):
                self._fence_at(group, kind, member, now + RETRY_MS)

        group.set_timer(kind, member.member_id, when, expire)

    def _fence(self, group: StreamsGroup, member_id: str, now: int) -> ErrorCode:
        """Remove a member. The group's epoch rises, and the next heartbeat computes a new target."""
        epoch = epoch_record(group.group_id, group.epoch + 1, group.valid_topology_epoch, group.configs)
        if error := at_once(self._log(group.group_id, [*member_tombstones(group.group_id, [member_id]), epoch], now)):
            return error
        for kind in (SESSION, REBALANCE):
            group.cancel_timer(kind, member_id)
        group.remove(member_id)
        group.epoch += 1
        self._report(group)
        return ErrorCode.NONE

    def restart(self, group: StreamsGroup, now: int) -> None:
        """Continue from the records, which hold all of the group except its timers and facts."""
        group.cancel_timers()
        group.configured, group.endpoints_epoch, group.shutdown_by = None, 0, None
        if group.topology is not None:
            group.facts = self._facts(group.topology)
        for member in group.members.values():
            self._fence_at(group, SESSION, member, now + self._setting(group.group_id, "streams.session.timeout.ms"))
            if member.state is StreamsState.UNREVOKED_TASKS:
                self._fence_at(group, REBALANCE, member, now + member.rebalance_timeout)


def request_error(request: StreamsGroupHeartbeatRequest) -> Refused | None:
    """The refusal of a request that is invalid for every group, or None."""
    message = _not_offered(request) or _invalid(request)
    if message is not None:
        return Refused(ErrorCode.INVALID_REQUEST, message)
    for each in request.topology.subtopologies if request.topology is not None and request.member_epoch == 0 else ():
        for topic in each.state_changelog_topics:
            if topic.partitions != 0:
                counted = f"must have an undefined partition count, but it is set to {topic.partitions}."
                return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Changelog topic {topic.name} {counted}")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in tasks and any(each is not None for each in tasks):
        return Refused(ErrorCode.INVALID_REQUEST, "If one task-type is non-null, all must be non-null.")
    if request.member_epoch != 0 and request.topology is not None:
        return Refused(ErrorCode.INVALID_REQUEST, "Topology can only be provided when (re-)joining.")
    return None


def _not_offered(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Kafka's message for what Kafka 4.3.1 does not offer yet."""
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _invalid(request: StreamsGroupHeartbeatRequest) -> str | None:
    named = {"MemberId": request.member_id, "GroupId": request.group_id, "RackId": request.rack_id}
    for name, value in named.items():
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if request.member_epoch == 0:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        tasks = {"Active": request.active_tasks, "Standby": request.standby_tasks, "Warmup": request.warmup_tasks}
        for kind, claimed in tasks.items():
            if claimed is None or claimed:
                return f"{kind}Tasks must be empty when (re-)joining."
        return "Topology must be non-null when (re-)joining." if request.topology is None else None
    if request.member_epoch == LEAVES_FOR_A_WHILE:
        return "InstanceId can't be null."
    if request.member_epoch < LEAVES_FOR_A_WHILE:
        return f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
    return None


def _unknown_member(request: StreamsGroupHeartbeatRequest) -> Refused:
    missing = f"Member {request.member_id} is not a member of group {request.group_id}."
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, missing)


def _updated(member: StreamsMember, request: StreamsGroupHeartbeatRequest, client: Client) -> StreamsMember | None:
    """The member with the data of this request; None if a tag comes twice, for which Kafka is not prepared."""
    tags = member.tags
    if request.client_tags is not None:
        tags = {each.key: each.value for each in request.client_tags}
        if len(tags) < len(request.client_tags):
            return None
    endpoint = request.user_endpoint
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout=member.rebalance_timeout if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        tags=tags,
        client_id=client.client_id,
        client_host=client.host,
    )


def _topology(group: StreamsGroup, sent: Topology | Misfit | None) -> Topology | Refused:
    """The group's topology; the first member brings it, and later ones must have the same one or an older one."""
    if sent is None:
        return group.topology or Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    if isinstance(sent, Misfit):
        return Refused(*sent)
    if group.topology is None or sent == group.topology:
        return sent
    if group.topology.epoch > sent.epoch:
        return group.topology
    return Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def _unknown_tasks(request: StreamsGroupHeartbeatRequest, configured: Configured) -> Refused | None:
    """The refusal of a member that claims tasks that do not exist; as long as the topology is not ready, nobody knows."""
    if configured.told is not None or configured.subtopologies is None:
        return None
    for claimed in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for each in claimed or ():
            subtopology = configured.subtopologies.get(each.subtopology_id)
            if subtopology is None:
                missing = f"Subtopology {each.subtopology_id} does not exist in the topology."
                return Refused(ErrorCode.INVALID_REQUEST, missing)
            for index in each.partitions:
                if not 0 <= index < subtopology.tasks:
                    return Refused(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {index} for subtopology {each.subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {subtopology.tasks}",
                    )
    return None


def _troubles(configured: Configured, shutdown_by: str | None) -> Iterable[Told]:
    if configured.told is not None:
        yield configured.told
    if shutdown_by is not None:
        yield Told(
            Status.SHUTDOWN_APPLICATION,
            f"Streams group member {shutdown_by} encountered a fatal error and requested a shutdown for the entire "
            "application.",
        )


def _pairs(tasks: Claims) -> list[tuple[str, Sequence[int]]] | None:
    return None if tasks is None else [(each.subtopology_id, each.partitions) for each in tasks]


def _claimed(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """The tasks that the member claims to have; None if it does not say so for each kind."""
    kinds = [_pairs(each) for each in (request.active_tasks, request.standby_tasks, request.warmup_tasks)]
    found = [
        {(key, index): 0 for key, indexes in pairs for index in indexes} for pairs in kinds if pairs is not None
    ]  # fmt: skip
    return Tasks(*found) if len(found) == len(kinds) else None
