"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class AcknowledgementBatch(Struct):
    first_offset: int = wire("int64")
    last_offset: int = wire("int64")
    acknowledge_types: list[int] = wire(["int8"])


@struct
class AcknowledgePartition(Struct):
    partition_index: int = wire("int32", entity="partition")
    acknowledgement_batches: list[AcknowledgementBatch] = wire([AcknowledgementBatch])


@struct
class AcknowledgeTopic(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[AcknowledgePartition] = wire([AcknowledgePartition])


@message(key=79, versions=(1, 2), flexible=0)
class ShareAcknowledgeRequest(Message):
    """Kafka's ShareAcknowledgeRequest, versions 1 to 2."""

    group_id: str | None = wire("string", nullable=0, entity="groupId", default=None)
    member_id: str | None = wire("string", nullable=0)
    share_session_epoch: int = wire("int32")
    is_renew_ack: bool = wire("bool", since=2, default=False)
    topics: list[AcknowledgeTopic] = wire([AcknowledgeTopic])


@struct
class LeaderIdAndEpoch(Struct):
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")


@struct
class PartitionData(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = wire("uuid", entity="topicId")
    partitions: list[PartitionData] = wire([PartitionData])


@struct
class NodeEndpoint(Struct):
    node_id: int = wire("int32", entity="brokerId")
    host: str = wire("string")
    port: int = wire("int32")
    rack: str | None = wire("string", nullable=0, default=None)


@message(key=79, versions=(1, 2), flexible=0)
class ShareAcknowledgeResponse(Message):
    """Kafka's ShareAcknowledgeResponse, versions 1 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    acquisition_lock_timeout_ms: int = wire("int32", since=2, default=0)
    responses: list[ShareAcknowledgeTopicResponse] = wire([ShareAcknowledgeTopicResponse])
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint])
