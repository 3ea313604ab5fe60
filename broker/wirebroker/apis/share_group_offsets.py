"""DescribeShareGroupOffsets, versions 0–1: the offsets from which share groups read. Version 1 also returns the lag of the
groups.

Topics without share state, and unknown topics, have the start offset −1. A request without topics gets all topics that the
group has used. As in Kafka, a request that names an existing topic creates the topic __share_group_state.

AlterShareGroupOffsets, version 0: sets the offsets from which a share group without members reads. The group may be new.

DeleteShareGroupOffsets, version 0: deletes the state of topics in a share group without members.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kafkawire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kafkawire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import Pause, mapped, pauses
from wirebroker.core.groups.share_group import ShareGroup
from wirebroker.core.groups.share_states import CREATES_ALTERED_GROUPS
from wirebroker.core.offset_lookup import LATEST
from wirebroker.core.refusals import DONE, MESSAGES, UNKNOWN_PARTITION, Refusal
from wirebroker.core.share.coordinator import UNKNOWN

UNEXPECTED = "The server experienced an unexpected error when processing the request."
"""Kafka's message for some wrong requests that name a known topic: the group id is empty, or a known topic has no partitions or
a negative index."""

NO_TOPIC_ID = bytes(16)


def describe_share_group_offsets(request: DescribeShareGroupOffsetsRequest, exchange: Exchange) -> Steps:
    pause, groups = pauses(), []
    for each in request.groups:
        yield from pause()
        groups.append((yield from _describe(each, exchange, pause)))
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _describe(
    asked: DescribeShareGroupOffsetsRequestGroup, exchange: Exchange, pause: Pause
) -> Generator[None, Any, DescribeShareGroupOffsetsResponseGroup]:
    response = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=[], error_code=ErrorCode.NONE)
    if asked.topics is None:
        if error := exchange.engine.groups.coordinator_error(asked.group_id, exchange.node_id):
            response.error_code, response.error_message = error, MESSAGES.get(error)
            return response
        wanted = list(_prepared(asked.group_id, exchange))
    else:
        wanted = [(topic.topic_name, topic.partitions) for topic in asked.topics]
    known_names = [(name, indexes) for name, indexes in wanted if name in exchange.cluster.topics]
    named = [indexes for _, indexes in known_names]
    if known_names and (not asked.group_id or not all(named) or any(index < 0 for indexes in named for index in indexes)):
        response.error_code, response.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED
        return response
    if asked.topics is not None and known_names:
        exchange.engine.groups.shares.states.make_state_topic(exchange.now)
    known: dict[tuple[str, bytes], dict[int, DescribeShareGroupOffsetsResponsePartition]] = {}
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    for name, indexes in wanted:
        topic = exchange.cluster.topics.get(name)
        topic_id = NO_TOPIC_ID if topic is None else topic.topic_id
        places = [(asked.group_id, topic_id, index) for index in indexes]
        partitions = yield from mapped(partial(_partition, exchange), places, pause)
        if topic is None:
            unknown.append(DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=partitions))
        else:
            known.setdefault((name, topic_id), {}).update({each.partition_index: each for each in partitions})
    response.topics = [
        DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=list(each.values()))
        for (name, topic_id), each in known.items()
    ]
    response.topics += unknown
    return response


def _prepared(group_id: str, exchange: Exchange) -> Iterable[tuple[str, list[int]]]:
    group = exchange.engine.groups.groups.get(group_id)
    if not isinstance(group, ShareGroup) or group.preparation is None:
        return
    for topic_id, each in group.preparation.initialized.items():
        topic = exchange.cluster.topics_by_id.get(topic_id)
        if topic is not None:
            yield topic.name, sorted(each.partitions)


def _partition(exchange: Exchange, key: tuple[str, bytes, int]) -> DescribeShareGroupOffsetsResponsePartition:
    _, topic_id, index = key
    made = DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=UNKNOWN, leader_epoch=0, error_code=ErrorCode.NONE
    )
    state = exchange.engine.groups.share_state.summary(key)
    if isinstance(state, Refusal):
        return made
    made.start_offset, made.leader_epoch = state.start_offset, state.leader_epoch
    if UNKNOWN in (state.start_offset, state.completed):
        return made
    partition = exchange.cluster.topics_by_id[topic_id].partition(index)
    if partition is not None:
        made.lag = partition.offset_for(LATEST).offset - state.start_offset - state.completed
    return made


def alter_share_group_offsets(request: AlterShareGroupOffsetsRequest, exchange: Exchange) -> Steps:
    """Respond with a result for each partition."""
    groups, topics = exchange.engine.groups, exchange.cluster.topics
    if error := groups.membership_error(request.group_id, exchange.node_id):
        return _refused(Refusal(error, MESSAGES.get(error)), request, exchange)
    wanted = {
        topic.topic_name: {each.partition_index: each.start_offset for each in topic.partitions}
        for topic in request.topics
        if topic.topic_name in topics
    }
    refused = yield from groups.shares.states.alter_offsets(request.group_id, wanted, exchange.now)
    if isinstance(refused, Refusal):
        return _refused(refused, request, exchange)
    pause = pauses()
    made: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    for topic in request.topics:
        name = topic.topic_name
        if name not in topics and not topic.partitions:
            continue
        topic_id = topics[name].topic_id if name in topics else NO_TOPIC_ID
        response = made.setdefault(name, AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=[]))
        for each in topic.partitions:
            yield from pause()
            refusal = UNKNOWN_PARTITION if name not in topics else refused.get((name, each.partition_index), DONE)
            response.partitions.append(_altered(each.partition_index, refusal))
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=list(made.values()))


def _refused(refused: Refusal, request: AlterShareGroupOffsetsRequest, exchange: Exchange) -> Message:
    """Refuses the whole request. The response of Kafka 4.1 does not have the error, but names the unknown topics."""
    if CREATES_ALTERED_GROUPS.of(exchange.cluster.configs.release):
        return exchange.refused(*refused)
    unknown = [
        AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=NO_TOPIC_ID,
            partitions=[_altered(each.partition_index, UNKNOWN_PARTITION) for each in topic.partitions],
        )
        for topic in request.topics
        if topic.topic_name not in exchange.cluster.topics and topic.partitions
    ]  # fmt: skip
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=unknown)


def _altered(index: int, refusal: Refusal) -> AlterShareGroupOffsetsResponsePartition:
    code, message = refusal
    return AlterShareGroupOffsetsResponsePartition(partition_index=index, error_code=code, error_message=message)


def delete_share_group_offsets(request: DeleteShareGroupOffsetsRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    if error := groups.membership_error(request.group_id, exchange.node_id):
        return exchange.refused(error, MESSAGES.get(error))
    names = [topic.topic_name for topic in request.topics]
    found = yield from groups.shares.states.delete_offsets(request.group_id, names, exchange.now)
    if isinstance(found, Refusal):
        return exchange.refused(*found)
    responses = []
    for name, topic_id, refused in found:
        code, message = refused or DONE
        responses.append(
            DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, error_code=code, error_message=message)
        )
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses)
