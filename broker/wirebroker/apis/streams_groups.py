"""StreamsGroupHeartbeat, versions 0–1: join, stay in, and leave a streams group (KIP-1071).

A member chooses its own id. A member joins with epoch 0 and the topology, and leaves with epoch −1. The response has the
member's epoch, the member's tasks if they have changed, and the reasons why the application cannot run. If the client may
create topics, the broker creates missing internal topics before it responds. Kafka creates them right after the response. The
response to a later heartbeat tells whether the creation failed. The response of version 1 may ask the member for a description
of the topology.

StreamsGroupDescribe, versions 0–1: the members of streams groups with their tasks, and the topology. Groups of other types
are not found. Version 1 also returns the assignor and, on request, the topology description that a member has sent.

StreamsGroupTopologyDescriptionUpdate, version 0: a member of a streams group describes the application's topology.

Kafka gives the description to a plugin. If group.streams.topology.description.plugin.class names a class, whatever its name,
this broker keeps the description with the group, as Kafka's InMemoryTopologyDescriptionPlugin does. If the setting is empty,
the response is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kafkawire.coordinator_records import streams_group_topology as held
from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages import streams_group_heartbeat as beats
from kafkawire.messages import streams_group_topology_description_update as sent_topology
from kafkawire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkawire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from wirebroker.apis.described import Slices, described
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.apis.topic_creation import create_topics
from wirebroker.common.slices import MEMBER, TOPICS, weighted_pauses
from wirebroker.core.acls import CLUSTER_NAME, Operation, ResourceType
from wirebroker.core.cluster import INTERNAL_TOPICS
from wirebroker.core.groups.modern_heartbeats import blank_name, unknown_member
from wirebroker.core.groups.streams_group import StreamsGroup, TaskOffsets
from wirebroker.core.groups.streams_heartbeats import (
    FULL_STREAMS_GROUPS,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    request_error,
)
from wirebroker.core.groups.streams_heartbeats import Endpoint as HeldEndpoint
from wirebroker.core.groups.streams_log import task_ids
from wirebroker.core.groups.streams_member import NOTHING, Some, StreamsMember, Tasks
from wirebroker.core.groups.streams_topology import Configured, InternalTopic, Status, Told, from_request, topics_of
from wirebroker.core.metadata_writes import check_texts
from wirebroker.core.names import topic_name_error
from wirebroker.core.refusals import Refusal

CREATED_WITHIN_MS = 30_000
SHOWN = 3
"""The number of errors that an error message lists."""

NOT_STORED, AVAILABLE = 1, 3
SOURCE, PROCESSOR, SINK = 1, 2, 3
NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def streams_group_heartbeat(request: beats.StreamsGroupHeartbeatRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    if not groups.streams.enabled:
        return exchange.refused(ErrorCode.UNSUPPORTED_VERSION)
    names = topics_of(request.topology) if request.topology is not None else []
    full = FULL_STREAMS_GROUPS.of(groups.streams.release)
    if error := _topic_error(names) or request_error(request, full):
        return exchange.refused(*error)
    if code := groups.coordinator_error(request.group_id, exchange.node_id):
        return exchange.refused(code)
    sent = None
    if request.topology is not None:
        read = partial(from_request, request.topology)
        long = max(len(names), len(request.topology.subtopologies)) >= TOPICS
        sent = (yield Offload(read)) if long else read()
    requested = StreamsHeartbeat(
        request, sent, exchange.client_id or "", f"/{exchange.connection.client_host}", exchange.version >= 1
    )
    result = yield from groups.streams.heartbeat(requested, exchange.now)
    if isinstance(result, Refusal):
        return exchange.refused(*result)
    told = list(result.told)
    if result.missing:
        told = yield from _create(result.missing, told, request.group_id, exchange)
    return _response(result, told)


def _topic_error(names: Sequence[str]) -> Refusal | None:
    if internal := [name for name in names if name in INTERNAL_TOPICS]:
        message = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    if invalid := [name for name in names if topic_name_error(name) is not None]:
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(invalid)} are not valid topic names.")
    return None


def _create(
    missing: Mapping[str, InternalTopic], told: Sequence[Told], group_id: str, exchange: Exchange
) -> Generator[Any, Any, list[Told]]:
    """Create internal topics. Returns the statuses of the response. They include the errors of topics that cannot be
    created."""
    may = exchange.engine.authorizer.may
    forbidden: list[str] = []
    if not may(exchange.connection, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, asked=False):
        forbidden = [name for name in missing if not may(exchange.connection, Operation.CREATE, ResourceType.TOPIC, name)]
    if forbidden:
        return _with(told, f"; Unauthorized to CREATE on topics {', '.join(forbidden)}.")
    failures = exchange.engine.groups.streams.failures
    failed = failures.of(missing, exchange.now)
    wanted = [_creatable(topic) for name, topic in missing.items() if name not in failed]
    if wanted:
        creating = CreateTopicsRequest(topics=wanted, timeout_ms=CREATED_WITHIN_MS, validate_only=False)
        made: Any = yield from create_topics(creating, exchange)
        for topic in made.topics:
            if topic.error_code:
                failures.note(group_id, topic.name, topic.error_message or "", exchange.now)
    if not failed:
        return list(told)
    more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    shown = ", ".join(f"{name} ({why})" for name, why in list(failed.items())[:SHOWN])
    return _with(told, f"; Creation failed: {shown}{more}.")


def _with(told: Iterable[Told], more: str) -> list[Told]:
    return [
        each._replace(detail=each.detail + more) if each.status is Status.MISSING_INTERNAL_TOPICS else each for each in told
    ]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()]
    return CreatableTopic(
        name=topic.name, num_partitions=topic.partitions, replication_factor=topic.factor or -1, assignments=[],
        configs=configs,
    )  # fmt: skip


def _response(result: StreamsHeartbeatResult, told: Sequence[Told]) -> beats.StreamsGroupHeartbeatResponse:
    tasks = [None] * 3 if result.tasks is None else [task_ids(beats.ResponseTaskIds, kind) for kind in result.tasks]
    endpoints = None if result.endpoints is None else [_endpoint(each) for each in result.endpoints]
    return beats.StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=result.member_id, member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval, acceptable_recovery_lag_legacy=0, acceptable_recovery_lag=result.lag,
        task_offset_interval_ms=result.offset_interval, topology_description_required=result.wants_description,
        status=[beats.Status(status_code=each.status, status_detail=each.detail) for each in told],
        active_tasks=tasks[0], standby_tasks=tasks[1], warmup_tasks=tasks[2],
        endpoint_information_epoch=result.endpoints_epoch, partitions_by_user_endpoint=endpoints,
    )  # fmt: skip


def _endpoint(endpoint: HeldEndpoint) -> beats.EndpointToPartitions:
    host, port = endpoint.address
    active, standby = (
        [beats.TopicPartition(topic=topic, partitions=list(indexes)) for topic, indexes in held]
        for held in (endpoint.active, endpoint.standby)
    )
    return beats.EndpointToPartitions(
        user_endpoint=beats.ResponseEndpoint(host=host, port=port), active_partitions=active, standby_partitions=standby
    )


def streams_group_describe(request: StreamsGroupDescribeRequest, exchange: Exchange) -> Steps:
    streams, pause = exchange.engine.groups.streams, weighted_pauses()

    def fill(group: StreamsGroup, entry: DescribedGroup) -> Slices:
        entry.topology, entry.assignor_name = _topology(group, streams.shown(group)), streams.assignor(group)
        if request.include_topology_description:
            entry.topology_description_status, entry.topology_description = _description(group)
        for member_id in group.in_order():
            if (member := group.members.get(member_id)) is None:
                continue
            target = group.targets.get(member_id, NOTHING)
            entry.members.append(_member(member, target, group.offsets.get(member_id)))
            yield from pause(MEMBER + len(member.assigned.active) + len(target.active) + len(target.standby))

    entries = yield from described(DescribedGroup, StreamsGroup, fill, request, exchange, enabled=streams.enabled)
    return StreamsGroupDescribeResponse(groups=entries)


def _description(group: StreamsGroup) -> tuple[int, TopologyDescription | None]:
    """Returns the status of the topology description, and the description if it belongs to the group's present topology."""
    if group.topology is None or group.description is None or group.description[0] != group.topology.epoch:
        return NOT_STORED, None
    return AVAILABLE, group.description[1]


def _topology(group: StreamsGroup, known: Configured | None) -> Topology | None:
    """Returns the topology as the application sent it. If all its topics exist, the topology shows the properties of the
    existing topics instead of the properties that the application sent."""
    if group.topology is None:
        return None
    configured = known.subtopologies if known is not None and known.told is None else None
    made = []
    for key, each in sorted(group.topology.subtopologies.items()):
        changelogs = [_sent(topic) for topic in each.state_changelog_topics]
        sources = [_sent(topic) for topic in each.repartition_source_topics]
        if configured is not None:
            changelogs = [_made(topic) for topic in configured[key].changelogs]
            sources = [_made(topic) for topic in configured[key].sources]
        made.append(
            Subtopology(
                subtopology_id=key, source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                state_changelog_topics=_sorted(changelogs), repartition_source_topics=_sorted(sources),
            )
        )  # fmt: skip
    return Topology(epoch=group.topology.epoch, subtopologies=made)


def _sorted(topics: Iterable[TopicInfo]) -> list[TopicInfo]:
    return sorted(topics, key=lambda topic: topic.name)


def _sent(topic: held.TopicInfo) -> TopicInfo:
    configs = [KeyValue(key=each.key, value=each.value) for each in topic.topic_configs]
    return TopicInfo(
        name=topic.name, partitions=topic.partitions, replication_factor=topic.replication_factor, topic_configs=configs
    )


def _made(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name, partitions=topic.partitions, replication_factor=topic.factor, topic_configs=_pairs(topic.configs)
    )


def _pairs(held: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in held.items()]


def _member(member: StreamsMember, target: Tasks, offsets: TaskOffsets | None) -> Member:
    told, ends = offsets or ({}, {})
    endpoint = None if member.endpoint is None else Endpoint(host=member.endpoint[0], port=member.endpoint[1])
    return Member(
        member_id=member.member_id, member_epoch=member.epoch, rack_id=member.rack_id, client_id=member.client_id,
        client_host=member.client_host, topology_epoch=member.topology_epoch, process_id=member.process_id,
        user_endpoint=endpoint, client_tags=_pairs(member.tags), task_offsets=_offsets(told), task_end_offsets=_offsets(ends),
        instance_id=member.instance_id,
        assignment=_assignment(member.assigned), target_assignment=_assignment(target), is_classic=False,
    )  # fmt: skip


def _offsets(told: Some) -> list[TaskOffset]:
    return [TaskOffset(subtopology_id=key, partition=index, offset=offset) for (key, index), offset in sorted(told.items())]


def _assignment(tasks: Tasks) -> Assignment:
    active, standby, warmup = (task_ids(TaskIds, kind) for kind in tasks)
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def streams_group_topology_description_update(
    request: sent_topology.StreamsGroupTopologyDescriptionUpdateRequest, exchange: Exchange
) -> Message:
    refusal = _invalid(request, exchange) or _keep(request, exchange)
    if refusal is not None:
        return exchange.refused(*refusal)
    return sent_topology.StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.NONE)


def _invalid(request: sent_topology.StreamsGroupTopologyDescriptionUpdateRequest, exchange: Exchange) -> Refusal | None:
    if not exchange.engine.groups.streams.keeps_descriptions:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, NO_PLUGIN)
    if blank := blank_name({"MemberId": request.member_id, "GroupId": request.group_id}):
        return Refusal(ErrorCode.INVALID_REQUEST, blank)
    code = exchange.engine.groups.coordinator_error(request.group_id, exchange.node_id)
    return Refusal(code) if code else None


def _keep(request: sent_topology.StreamsGroupTopologyDescriptionUpdateRequest, exchange: Exchange) -> Refusal | None:
    """Keep the description, or return the reason why it is refused."""
    group = exchange.engine.groups.streams.find(request.group_id)
    if isinstance(group, Refusal):
        return group
    if request.member_id not in group.members:
        return unknown_member(group, request.member_id)
    epoch = group.topology.epoch if group.topology is not None else -1
    if request.topology_epoch != epoch:
        message = f"Topology epoch {request.topology_epoch} does not match the group's current topology epoch {epoch}."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    if wrong := _wrong(request.topology_description):
        return Refusal(ErrorCode.INVALID_REQUEST, wrong)
    kept = _kept(request.topology_description)
    check_texts(kept)
    group.describe(kept)
    return None


def _wrong(sent: sent_topology.TopologyDescription) -> str | None:
    nodes = [node for each in sent.subtopologies for node in each.nodes]
    nodes += [node for each in sent.global_stores for node in (each.source, each.processor)]
    unknown = [node.node_type for node in nodes if node.node_type not in (SOURCE, PROCESSOR, SINK)]
    if unknown:
        return f"Unknown topology node type: {unknown[0]}"
    if any((each.source.node_type, each.processor.node_type) != (SOURCE, PROCESSOR) for each in sent.global_stores):
        return "Global store must be composed of a source and a processor node."
    return None


def _kept(sent: sent_topology.TopologyDescription) -> TopologyDescription:
    """Returns the description in the form in which StreamsGroupDescribe returns it."""
    return TopologyDescription(
        subtopologies=[
            TopologyDescriptionSubtopology(subtopology_id=each.subtopology_id, nodes=_nodes(each.nodes))
            for each in sent.subtopologies
        ],
        global_stores=[
            TopologyDescriptionGlobalStore(source=source, processor=processor)
            for source, processor in (_nodes((each.source, each.processor)) for each in sent.global_stores)
        ],
    )


def _nodes(sent: Iterable[sent_topology.TopologyDescriptionNode]) -> list[TopologyDescriptionNode]:
    """Returns the nodes; fields that do not belong to a node's type are left empty, and repeated names are left out."""
    return [
        TopologyDescriptionNode(
            name=node.name, node_type=node.node_type, successors=[*dict.fromkeys(node.successors)],
            source_topics=[*dict.fromkeys(node.source_topics)] if node.node_type == SOURCE else [],
            stores=[*dict.fromkeys(node.stores)] if node.node_type == PROCESSOR else [],
            sink_topic=node.sink_topic if node.node_type == SINK else None,
        )
        for node in sent
    ]  # fmt: skip
