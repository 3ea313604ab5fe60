"""StreamsGroupDescribe, versions 0–1: the members of streams groups with their tasks, and the topology. Groups of other types
are not found. Version 1 also returns the assignor and, on request, the topology description that a member has sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.coordinator_records import streams_group_topology as held
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
)
from wirebroker.apis.described import Slices, described
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import MEMBER, weighted_pauses
from wirebroker.core.groups.streams_group import StreamsGroup, TaskOffsets
from wirebroker.core.groups.streams_log import partitions_by_subtopology
from wirebroker.core.groups.streams_member import NOTHING, Some, StreamsMember, Tasks
from wirebroker.core.groups.streams_topology import Configured, InternalTopic

NOT_STORED, AVAILABLE = 1, 3


def handle(request: StreamsGroupDescribeRequest, exchange: Exchange) -> Steps:
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
    active, standby, warmup = (
        [TaskIds(subtopology_id=key, partitions=each) for key, each in partitions_by_subtopology(kind).items()]
        for kind in tasks
    )
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
