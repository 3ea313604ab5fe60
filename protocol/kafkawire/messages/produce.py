"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire
from kafkawire.primitives import Buffer


@struct
class PartitionProduceData(Struct):
    index: int = wire("int32", entity="partition")
    records: Buffer | None = wire("records", nullable=0)


@struct
class TopicProduceData(Struct):
    name: str = wire("string", until=12, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=13, entity="topicId", default=bytes(16))
    partition_data: list[PartitionProduceData] = wire([PartitionProduceData])


@message(key=0, versions=(0, 13), flexible=9)
class ProduceRequest(Message):
    """Kafka's ProduceRequest, versions 0 to 13."""

    transactional_id: str | None = wire("string", since=3, nullable=3, entity="transactionalId", default=None)
    acks: int = wire("int16")
    timeout_ms: int = wire("int32")
    topic_data: list[TopicProduceData] = wire([TopicProduceData])


@struct
class BatchIndexAndErrorMessage(Struct):
    batch_index: int = wire("int32", since=8, default=0)
    batch_index_error_message: str | None = wire("string", since=8, nullable=8, default=None)


@struct
class LeaderIdAndEpoch(Struct):
    leader_id: int = wire("int32", since=10, entity="brokerId", default=-1)
    leader_epoch: int = wire("int32", since=10, default=-1)


@struct
class PartitionProduceResponse(Struct):
    index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")
    base_offset: int = wire("int64")
    log_append_time_ms: int = wire("int64", since=2, default=-1)
    log_start_offset: int = wire("int64", since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = wire([BatchIndexAndErrorMessage], since=8, default=[])
    error_message: str | None = wire("string", since=8, nullable=8, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, since=10, tag=0, default=LeaderIdAndEpoch)


@struct
class TopicProduceResponse(Struct):
    name: str = wire("string", until=12, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=13, entity="topicId", default=bytes(16))
    partition_responses: list[PartitionProduceResponse] = wire([PartitionProduceResponse])


@struct
class NodeEndpoint(Struct):
    node_id: int = wire("int32", since=10, entity="brokerId", default=0)
    host: str = wire("string", since=10, default="")
    port: int = wire("int32", since=10, default=0)
    rack: str | None = wire("string", since=10, nullable=10, default=None)


@message(key=0, versions=(0, 13), flexible=9)
class ProduceResponse(Message):
    """Kafka's ProduceResponse, versions 0 to 13."""

    responses: list[TopicProduceResponse] = wire([TopicProduceResponse])
    throttle_time_ms: int = wire("int32", since=1, default=0)
    node_endpoints: list[NodeEndpoint] = wire([NodeEndpoint], since=10, tag=0, default=[])
