"""AlterShareGroupOffsets, version 0: sets the offsets from which a share group without members reads. The group may be new."""

from __future__ import annotations

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import pauses
from wirebroker.core.groups.share_states import CREATES_ALTERED_GROUPS
from wirebroker.core.refusals import DONE, MESSAGES, UNKNOWN_PARTITION, Refusal

NO_TOPIC_ID = bytes(16)


def handle(request: AlterShareGroupOffsetsRequest, exchange: Exchange) -> Steps:
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
            code, message = UNKNOWN_PARTITION if name not in topics else refused.get((name, each.partition_index), DONE)
            response.partitions.append(
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index, error_code=code, error_message=message
                )
            )
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=list(made.values()))


def _refused(refused: Refusal, request: AlterShareGroupOffsetsRequest, exchange: Exchange) -> Message:
    """Refuses the whole request. The response of Kafka 4.1 does not have the error, but names the unknown topics."""
    if CREATES_ALTERED_GROUPS.of(exchange.cluster.configs.release):
        return exchange.refused(*refused)
    code, message = UNKNOWN_PARTITION
    unknown = [
        AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=NO_TOPIC_ID,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index, error_code=code, error_message=message
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.topic_name not in exchange.cluster.topics and topic.partitions
    ]  # fmt: skip
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=unknown)
