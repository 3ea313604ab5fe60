"""The requests of streams groups (KIP-1071): StreamsGroupHeartbeat, and the removal of members."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import ErrorCode
from kafkawire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds
from wirebroker.common.slices import after
from wirebroker.core.groups.modern import LEAVES, LEAVES_FOR_A_WHILE
from wirebroker.core.groups.modern_heartbeats import ModernGroups, Step, blank_name
from wirebroker.core.groups.registry import Registry
from wirebroker.core.groups.sticky_assignor import Assignable, Work, sticky
from wirebroker.core.groups.streams_group import StreamsGroup, TaskOffsets
from wirebroker.core.groups.streams_log import epoch_fields, partitions_by_subtopology, topology_record
from wirebroker.core.groups.streams_member import NOTHING, StreamsMember, Tasks, reconcile
from wirebroker.core.groups.streams_topology import Configured, InternalTopic, Misfit, Status, Told, Topology, configure
from wirebroker.core.java_order import buckets_for, hash_order, java_hash
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases.changes import since

FULL_STREAMS_GROUPS = since("4.4", "streams groups have static members and task offsets", "KIP-1071")
"""From this release on, a member can also keep a task while the task becomes a task of another kind."""

DELAY = "delay"
MOST_ERRORS = 1000
"""The largest number of topics for which a failed creation is remembered."""
STANDBYS, TAGS = "num.standby.replicas", "rack.aware.assignment.tags"
SET_TAGS = "Configure them via 'client.tag.<tagKey>' in your Streams config."
Claims = Sequence[TaskIds] | None


class StreamsHeartbeat(NamedTuple):
    """A StreamsGroupHeartbeat that `request_error` has accepted, and the topology in this request."""

    request: StreamsGroupHeartbeatRequest
    topology: Topology | Misfit | None
    client_id: str
    client_host: str
    newer: bool = False
    """Tells whether the version of the request is at least 1."""


class Endpoint(NamedTuple):
    """The address at which a member serves interactive queries, and the partitions (topic, indexes) of its active and standby
    tasks."""

    address: tuple[str, int]
    active: Sequence[tuple[str, Sequence[int]]]
    standby: Sequence[tuple[str, Sequence[int]]]


class StreamsHeartbeatResult(NamedTuple):
    """The response to a heartbeat. A field is None if the member already knows its value. The interval is in ms."""

    member_id: str
    epoch: int
    interval: int = 0
    tasks: Tasks | None = None
    told: Sequence[Told] = ()
    endpoints_epoch: int = 0
    endpoints: Sequence[Endpoint] | None = None
    missing: Mapping[str, InternalTopic] = {}
    """The internal topics that the broker is to create."""
    offset_interval: int = 0
    """The interval in ms at which members send the offsets of their tasks."""
    lag: int = -1
    """A task counts as caught up if it lags by at most this many records."""
    wants_description: bool = False
    """Tells whether the broker asks the member for a description of the topology."""


class CreationErrors:
    """The reasons why internal topics could not be created. Each reason is kept for two heartbeat intervals of the group
    (Kafka's ExpiringErrorCache)."""

    def __init__(self, interval: Callable[[str], int]) -> None:
        self._interval = interval
        self._held: dict[str, tuple[str, int]] = {}

    def clear(self) -> None:
        """Forget all reasons."""
        self._held.clear()

    def note(self, group_id: str, topic: str, why: str, now: int) -> None:
        """Remember why a topic that the group needs could not be created."""
        self._held = {name: held for name, held in self._held.items() if held[1] > now}
        if len(self._held) < MOST_ERRORS:
            self._held[topic] = (why, now + 2 * self._interval(group_id))

    def of(self, topics: Iterable[str], now: int) -> dict[str, str]:
        """For each of these topics whose creation failed recently, returns the reason by the topic's name."""
        return {name: self._held[name][0] for name in topics if name in self._held and self._held[name][1] > now}


class StreamsStep(Step[StreamsGroup, StreamsMember], kw_only=True):
    """The change that a member's heartbeat makes to a streams group. The change is computed first, and then written to the
    log."""

    topology: Topology
    configured: Configured
    valid_topology_epoch: int
    configs: Mapping[str, str]
    told: list[Told] = []

    def other_records(self) -> Iterable[CoordinatorRecord]:
        """Returns the record of the topology that the group's first member sends."""
        return () if self.group.topology is not None else [topology_record(self.group.group_id, self.topology)]

    def epoch_record(self, hashed: int) -> CoordinatorRecord:
        """Returns the record of the group's next epoch. `hashed` is the hash of the group's topics."""
        return self.group.log.epoch(self.epoch, hashed, **epoch_fields(self.valid_topology_epoch, self.configs))

    def apply(self, targets: Mapping[str, Tasks], now: int) -> None:
        """Change the group."""
        super().apply(targets, now)
        self.group.topology = self.topology
        self.group.valid_topology_epoch, self.group.configs = self.valid_topology_epoch, self.configs


class StreamsGroups(ModernGroups[StreamsGroup, StreamsMember]):
    def __init__(self, registry: Registry) -> None:
        super().__init__(registry, StreamsGroup)
        self.failures = CreationErrors(lambda group_id: self.setting(group_id, "heartbeat.interval.ms"))

    # Heartbeats

    def heartbeat(self, requested: StreamsHeartbeat, now: int) -> Generator[None, Any, StreamsHeartbeatResult | Refusal]:
        """Handle the heartbeat of a member that joins, stays or leaves."""
        request = requested.request
        leaves = request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE)
        steps = self._leave(request, now) if leaves else self._stay(requested, now)
        return (yield from self.changes.alone(request.group_id, steps))

    def _stay(self, requested: StreamsHeartbeat, now: int) -> Generator[None, Any, StreamsHeartbeatResult | Refusal]:
        request = requested.request
        group = self.find(request.group_id, create=request.member_epoch == 0)
        if isinstance(group, Refusal):
            return group
        step = yield from self._step(group, requested)
        if isinstance(step, Refusal):
            return step
        delay = 0 if group.members else self.setting(group.group_id, "initial.rebalance.delay.ms")
        yield from after(step.topology.required)
        epoch, target = yield from self._target(step, delay > 0 or group.has_timer(DELAY, ""), now)
        updated = step.new
        full = FULL_STREAMS_GROUPS.of(self.release)
        claimed = _claimed(request)
        if claimed is not None and _claims_twice(request) and not updated.reconciled_to(epoch):
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        step.new = reconcile(updated, epoch, target, group.holders, claimed, full)
        step.moved = step.new != updated
        yield from after(target.active)
        changed = step.old.assigned != step.new.assigned
        shown = request.member_epoch == 0 or changed
        # Kafka keeps `endpoints_epoch` and `shutdown_by` outside of its records, so they change even if the request is refused.
        if full:
            group.endpoints_epoch += step.old.endpoint != step.new.endpoint or (changed and step.new.endpoint is not None)
        else:
            group.endpoints_epoch += shown and step.new.endpoint is not None
        if request.shutdown_application:
            group.shutdown_by = group.shutdown_by or request.member_id
        endpoints = None
        if group.endpoints_epoch != request.endpoint_information_epoch:
            endpoints = self._endpoints(step)
            if endpoints is None:
                return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        told = [*step.told, *_troubles(step.configured, group.shutdown_by)]
        if error := (yield from self.write_down(step, now)):
            return Refusal(error)
        if delay and not group.has_timer(DELAY, ""):
            steps = partial(self._assign_delayed, group)
            alone, work = self.changes.alone, self._cluster.timers.work
            group.set_timer(DELAY, "", now + delay, lambda when: work(alone(group.group_id, steps(when))))
        self.await_heartbeat(group, step.new.member_id, now)
        result = StreamsHeartbeatResult(
            step.new.member_id, step.new.epoch, self.setting(group.group_id, "heartbeat.interval.ms"),
            step.new.assigned if shown else None, told, group.endpoints_epoch, endpoints, step.configured.missing,
        )  # fmt: skip
        return self._with_offsets(result, requested, step, now) if FULL_STREAMS_GROUPS.of(self.release) else result

    def _with_offsets(
        self, result: StreamsHeartbeatResult, requested: StreamsHeartbeat, step: StreamsStep, now: int
    ) -> StreamsHeartbeatResult:
        """Returns a copy of the result with the additional fields of Kafka 4.4."""
        group, told = step.group, list(result.told)
        tags = [each for each in step.configs.get(TAGS, "").split(",") if each]
        missing = [each for each in tags if each not in step.new.tags]
        if requested.newer and missing:
            needed = f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]."
            told.append(Told(Status.MISSING_CLIENT_TAGS, f"{needed} {SET_TAGS}"))
        stale = any(each.status is Status.STALE_TOPOLOGY for each in told)
        wants = requested.newer and not stale and self.keeps_descriptions and group.wants_description(now)
        interval, lag = (self.setting(group.group_id, name) for name in ("task.offset.interval.ms", "acceptable.recovery.lag"))
        return result._replace(told=told, offset_interval=interval, lag=lag, wants_description=wants)

    @property
    def keeps_descriptions(self) -> bool:
        """Tells whether the broker keeps descriptions of topologies. Kafka keeps the descriptions if a plugin is configured."""
        name = "group.streams.topology.description.plugin.class"
        return FULL_STREAMS_GROUPS.of(self.release) and bool(self._cluster.configs.text(name))

    def assignor(self, group: StreamsGroup) -> str | None:
        """Returns the name of the group's assignor. Returns None before Kafka 4.4, where there is only one assignor."""
        if not FULL_STREAMS_GROUPS.of(self.release):
            return None
        known = self._cluster.configs.value("group.streams.assignors")
        first = str(known[0]) if isinstance(known, list) and known else "sticky"
        return self._cluster.configs.groups.get(group.group_id, {}).get("streams.assignor.name", first)

    def _configs(self, group: StreamsGroup) -> dict[str, str]:
        """Returns the settings of the assignor. When one of these settings changes, the group's epoch rises."""
        configs = {STANDBYS: str(self.setting(group.group_id, "num.standby.replicas"))}
        if FULL_STREAMS_GROUPS.of(self.release):
            own = self._cluster.configs.groups.get(group.group_id, {}).get("streams.rack.aware.assignment.tags")
            tags = self._cluster.configs.text("group.streams.rack.aware.assignment.tags") if own is None else own
            if tags:
                configs[TAGS] = ",".join(each.strip() for each in tags.split(","))
        return configs

    def _step(self, group: StreamsGroup, requested: StreamsHeartbeat) -> Generator[None, Any, StreamsStep | Refusal]:
        """Computes how this heartbeat changes the group and the member. Does not assign tasks yet."""
        request = requested.request
        found = self._member(group, request)
        if isinstance(found, Refusal):
            return found
        old, replaces = found
        full = FULL_STREAMS_GROUPS.of(self.release)
        new = _updated(old, requested, full)
        topology = _topology(group, requested.topology)
        if new is None:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(topology, Refusal):
            return topology
        facts = self.facts(topology.required)
        configured = group.configured
        if configured is None or group.topology is None or facts != group.facts:
            yield from after(facts)
            made = yield from configure(topology, lambda name: facts[name][1] if name in facts else None)
            if isinstance(made, Misfit):
                return Refusal(*made)
            group.shown_before, configured = self.shown(group), made
            group.configured, group.configured_at = made, self._log_end(group)
        if error := _unknown_tasks(request, configured):
            return error
        if refused := _take_offsets(group, request):
            return refused
        valid = topology.epoch if configured.told is None else -1
        configs = self._configs(group)
        known = (group.facts, group.valid_topology_epoch, group.configs)
        bumps = _matters(old, new, request.instance_id) or (facts, valid, configs) != known
        epoch = max(1, group.epoch) + bumps  # while the epoch is 1, the members wait for the first assignment
        step = StreamsStep(
            group=group, old=old, new=new, replaces=replaces, epoch=epoch, facts=facts,
            topology=topology, configured=configured, valid_topology_epoch=valid, configs=configs,
        )  # fmt: skip
        if group.topology is not None and new.topology_epoch < group.topology.epoch:
            behind = f"topology epoch {new.topology_epoch} is behind the group's topology epoch {group.topology.epoch}."
            step.told.append(Told(Status.STALE_TOPOLOGY, f"The member's {behind}"))
        return step

    def _member(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsMember, str | None] | Refusal:
        """Returns two values: the member that sent a heartbeat, and the id of the static member that it replaces (None if it
        replaces no member)."""
        joins = request.member_epoch == 0
        known = request.member_id if FULL_STREAMS_GROUPS.of(self.release) else ""
        if joins and (full := self.is_full(group, known, request.instance_id)):
            return full
        claimed = [_pairs(each) for each in (request.active_tasks, request.standby_tasks, request.warmup_tasks)]
        return self.sender(
            group, request.member_id, request.instance_id, request.member_epoch, lambda member: member.owns_all(claimed)
        )

    def _log_end(self, group: StreamsGroup) -> int:
        log = self._cluster.coordinator_log("group", group.group_id)
        return 0 if log is None else log.log_end_offset

    def shown(self, group: StreamsGroup) -> Configured | None:
        """Returns the configured topology that StreamsGroupDescribe shows.

        Kafka shows the group as of the last record in the partition of __consumer_offsets. No record contains the configured
        topology. So Kafka shows the earlier topology until some group writes a further record to the same partition.
        """
        return group.configured if self._log_end(group) > group.configured_at else group.shown_before

    # Targets

    def _target(self, step: StreamsStep, delayed: bool, now: int) -> Generator[None, Any, tuple[int, Tasks]]:
        """Returns two values: the epoch of the target assignment, and the member's target assignment. If it is too early to
        assign tasks, the status ASSIGNMENT_DELAYED is added to the step."""
        group, why = step.group, "initial rebalance delay"
        epoch, target = max(1, group.assignment_epoch), NOTHING
        if not delayed:
            epoch, target = yield from self.compute_target(step, now)
            why = "assignment interval"
        if delayed or epoch < step.epoch:
            step.told.append(Told(Status.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {why}."))
        return epoch, target

    def _assign(self, step: StreamsStep) -> Generator[None, Any, Mapping[str, Tasks]]:
        return (yield from self._assigned(step.group, step.configured, step.configs, step.new, step.replaces))

    def _assigned(
        self, group: StreamsGroup, configured: Configured, configs: Mapping[str, str], changed: StreamsMember | None,
        replaces: str | None = None,
    ) -> Generator[None, Any, Mapping[str, Tasks]]:  # fmt: skip
        """Returns the target assignments of all members. `changed` takes the place of the known member with the same id."""
        members = {member_id: group.members[member_id] for member_id in group.in_order() if member_id != replaces}
        if changed is not None:
            members[changed.member_id] = changed
        in_order = hash_order(members, java_hash, buckets_for(len(members)))
        if configured.told is not None or configured.subtopologies is None:
            return dict.fromkeys(in_order, NOTHING)
        full = FULL_STREAMS_GROUPS.of(self.release)
        assignable = [
            Assignable(
                each, members[each].process_id, members[each].assigned if full else group.targets.get(each, NOTHING),
                group.offsets.get(each, NO_OFFSETS)[0],
            )
            for each in in_order
        ]  # fmt: skip
        work = [Work(key, each.tasks, bool(each.changelogs)) for key, each in configured.subtopologies.items()]
        return (yield from sticky(assignable, work, int(configs.get(STANDBYS, "0")), is_newest=full))

    def _assign_delayed(self, group: StreamsGroup, now: int) -> Generator[None, Any, None]:
        """Compute the first target assignments after the initial delay. Each member learns its target assignment with its next
        heartbeat."""
        if not group.members or group.epoch <= group.assignment_epoch or group.configured is None:
            return
        if self.too_soon(group, now):
            return
        made = yield from self._assigned(group, group.configured, group.configs, None)
        changed = group.changed(made, group.targets)
        records = [group.log.target(each, given) for each, given in changed.items()]
        records.append(group.log.assignment(group.epoch, now))
        if not (yield from self.registry.log_in_slices(group.group_id, records, now)):
            group.targets.update(changed)
            group.assignment_epoch, group.assigned_at = group.epoch, now
            self.registry.report(group)

    def _entered(self, group: StreamsGroup, now: int) -> None:
        """Drop the part of a new group's state that is not in the group's records. Kafka has no such state, because Kafka
        builds a new group from its records."""
        group.offsets.clear()
        group.forget_unrecorded()

    # Endpoints

    def _endpoints(self, step: StreamsStep) -> list[Endpoint] | None:
        """Returns the endpoints of all members with their partitions. Returns None if a topic is missing, because Kafka's code
        fails in this case."""
        group = step.group
        others = [group.members[each] for each in group.in_order() if each not in (step.new.member_id, step.replaces)]
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

    def _partitions(self, tasks: Iterable[tuple[str, int]], configured: Configured) -> list[tuple[str, Sequence[int]]] | None:
        if configured.subtopologies is None:
            return None
        found: list[tuple[str, Sequence[int]]] = []
        for key, indexes in partitions_by_subtopology(tasks).items():
            for name in configured.subtopologies[key].inputs:
                topic = self._cluster.topics.get(name)
                if topic is None:
                    return None
                found.append((name, indexes[: len(topic.partitions)]))
        return found

    # Leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest, now: int) -> Generator[None, Any, StreamsHeartbeatResult | Refusal]:
        group, member_id, epoch = self.find(request.group_id), request.member_id, request.member_epoch
        if isinstance(group, StreamsGroup) and request.shutdown_application:
            group.shutdown_by = group.shutdown_by or member_id
        refused = yield from self.leave(request.group_id, member_id, request.instance_id, epoch, now)
        return refused or StreamsHeartbeatResult(member_id, epoch)


def request_error(request: StreamsGroupHeartbeatRequest, full: bool) -> Refusal | None:
    """Returns a refusal if a request is invalid for every group, else None. `full` tells whether static members and task
    offsets are allowed."""
    message = _not_offered(request, full) or _invalid(request)
    if message is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    for each in request.topology.subtopologies if request.topology is not None and request.member_epoch == 0 else ():
        for topic in each.state_changelog_topics:
            if topic.partitions != 0:
                counted = f"must have an undefined partition count, but it is set to {topic.partitions}."
                return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Changelog topic {topic.name} {counted}")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in tasks and any(each is not None for each in tasks):
        return Refusal(ErrorCode.INVALID_REQUEST, "If one task-type is non-null, all must be non-null.")
    if request.member_epoch != 0 and request.topology is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, "Topology can only be provided when (re-)joining.")
    return None


def _not_offered(request: StreamsGroupHeartbeatRequest, full: bool) -> str | None:
    """Returns Kafka's message if the request uses a feature that Kafka does not offer yet."""
    if request.instance_id is not None and not full:
        return "Static membership is not yet supported."
    if request.task_offsets is not None and not full:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None and not full:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks and not full:
        return "WarmupTasks are not supported yet."
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _invalid(request: StreamsGroupHeartbeatRequest) -> str | None:
    named = {"MemberId": request.member_id, "GroupId": request.group_id}
    if blank := blank_name({**named, "InstanceId": request.instance_id, "RackId": request.rack_id}):
        return blank
    if request.member_epoch == 0:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        tasks = {"Active": request.active_tasks, "Standby": request.standby_tasks, "Warmup": request.warmup_tasks}
        for kind, claimed in tasks.items():
            if claimed is None or claimed:
                return f"{kind}Tasks must be empty when (re-)joining."
        return "Topology must be non-null when (re-)joining." if request.topology is None else None
    if request.member_epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        return "InstanceId can't be null."
    if request.member_epoch < LEAVES_FOR_A_WHILE:
        return f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
    return None


def _matters(old: StreamsMember, new: StreamsMember, instance_id: str | None) -> bool:
    """Tells whether the change of a member raises the group's epoch. If a static member comes back with another address, the
    epoch does not rise."""
    if instance_id is None:
        return new != old
    decisive = ("topology_epoch", "rack_id", "tags", "process_id")
    return any(getattr(old, each) != getattr(new, each) for each in decisive)


NO_OFFSETS: TaskOffsets = ({}, {})


def _take_offsets(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> Refusal | None:
    """Keep the offsets that a member sends for its tasks. Returns a refusal if the request names a task twice."""
    if request.task_offsets is None and request.task_end_offsets is None:
        return None
    made = []
    for sent, kept in zip(
        (request.task_offsets, request.task_end_offsets), group.offsets.get(request.member_id, NO_OFFSETS), strict=True
    ):
        told = kept if sent is None else {(each.subtopology_id, each.partition): each.offset for each in sent}
        if sent is not None and len(told) < len(sent):
            named = [(each.subtopology_id, each.partition) for each in sent]
            key, index = next(each for place, each in enumerate(named) if each in named[:place])
            twice = f"Task offsets contain a duplicate entry for subtopology {key} and partition {index}."
            return Refusal(ErrorCode.INVALID_REQUEST, twice)
        made.append(told)
    group.offsets[request.member_id] = (made[0], made[1])
    return None


def _updated(member: StreamsMember, requested: StreamsHeartbeat, full: bool) -> StreamsMember | None:
    """Returns a copy of the member with the new values from this request. Returns None if the request has a tag twice, because
    Kafka's code fails in this case. With `full`, a member that joins without an endpoint loses its earlier endpoint."""
    request = requested.request
    tags = member.tags
    if request.client_tags is not None:
        tags = {each.key: each.value for each in request.client_tags}
        if len(tags) < len(request.client_tags):
            return None
    sent = request.user_endpoint
    endpoint = member.endpoint if sent is None else (sent.host, sent.port)
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout=member.rebalance_timeout if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=None if full and sent is None and request.member_epoch == 0 else endpoint,
        tags=tags,
        client_id=requested.client_id,
        client_host=requested.client_host,
    )


def _topology(group: StreamsGroup, sent: Topology | Misfit | None) -> Topology | Refusal:
    """Returns the group's topology. The first member sends the topology. A later member may send only the same topology, or a
    topology with an older epoch."""
    if sent is None:
        return group.topology or Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    if isinstance(sent, Misfit):
        return Refusal(*sent)
    if group.topology is None or sent == group.topology:
        return sent
    if group.topology.epoch > sent.epoch:
        return group.topology
    return Refusal(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def _unknown_tasks(request: StreamsGroupHeartbeatRequest, configured: Configured) -> Refusal | None:
    """Returns a refusal if the member claims tasks that do not exist, else None. Also returns None while the topology is not
    ready."""
    if configured.told is not None or configured.subtopologies is None:
        return None
    for claimed in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for each in claimed or ():
            subtopology = configured.subtopologies.get(each.subtopology_id)
            if subtopology is None:
                missing = f"Subtopology {each.subtopology_id} does not exist in the topology."
                return Refusal(ErrorCode.INVALID_REQUEST, missing)
            for index in each.partitions:
                if not 0 <= index < subtopology.tasks:
                    return Refusal(
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


def _claims_twice(request: StreamsGroupHeartbeatRequest) -> bool:
    """Tells whether a list of the member's tasks names a subtopology twice. Kafka cannot make a map of such a list."""
    kinds = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    return any(len({each.subtopology_id for each in tasks or ()}) < len(tasks or ()) for tasks in kinds)


def _claimed(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Returns the tasks that the request lists as the member's own. Returns None if the request lacks the list of one kind of
    tasks."""
    kinds = [_pairs(each) for each in (request.active_tasks, request.standby_tasks, request.warmup_tasks)]
    found = [{(key, index): 0 for key, indexes in pairs for index in indexes} for pairs in kinds if pairs is not None]
    return Tasks(*found) if len(found) == len(kinds) else None
