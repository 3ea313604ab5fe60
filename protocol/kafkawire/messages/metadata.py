"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class MetadataRequestTopic(Struct):
    topic_id: bytes = wire("uuid", since=10, entity="topicId", default=bytes(16))
    name: str | None = wire("string", nullable=10, entity="topicName")


@message(key=3, versions=(0, 13), flexible=9)
class MetadataRequest(Message):
    """Kafka's MetadataRequest, versions 0 to 13."""

    topics: list[MetadataRequestTopic] | None = wire([MetadataRequestTopic], nullable=1)
    allow_auto_topic_creation: bool = wire("bool", since=4, default=True)
    include_cluster_authorized_operations: bool = wire("bool", since=8, until=10, default=False)
    include_topic_authorized_operations: bool = wire("bool", since=8, default=False)


@struct
class MetadataResponseBroker(Struct):
    node_id: int = wire("int32", entity="brokerId")
    host: str = wire("string")
    port: int = wire("int32")
    rack: str | None = wire("string", since=1, nullable=1, default=None)


@struct
class MetadataResponsePartition(Struct):
    error_code: int = wire("int16", entity="errorCode")
    partition_index: int = wire("int32", entity="partition")
    leader_id: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32", since=7, default=-1)
    replica_nodes: list[int] = wire(["int32"], entity="brokerId")
    isr_nodes: list[int] = wire(["int32"], entity="brokerId")
    offline_replicas: list[int] = wire(["int32"], since=5, entity="brokerId", default=[])


@struct
class MetadataResponseTopic(Struct):
    error_code: int = wire("int16", entity="errorCode")
    name: str | None = wire("string", nullable=12, entity="topicName")
    topic_id: bytes = wire("uuid", since=10, entity="topicId", default=bytes(16))
    is_internal: bool = wire("bool", since=1, default=False)
    partitions: list[MetadataResponsePartition] = wire([MetadataResponsePartition])
    topic_authorized_operations: int = wire("int32", since=8, default=-2147483648)


@message(key=3, versions=(0, 13), flexible=9)
class MetadataResponse(Message):
    """Kafka's MetadataResponse, versions 0 to 13."""

    throttle_time_ms: int = wire("int32", since=3, default=0)
    brokers: list[MetadataResponseBroker] = wire([MetadataResponseBroker])
    cluster_id: str | None = wire("string", since=2, nullable=2, default=None)
    controller_id: int = wire("int32", since=1, entity="brokerId", default=-1)
    topics: list[MetadataResponseTopic] = wire([MetadataResponseTopic])
    cluster_authorized_operations: int = wire("int32", since=8, until=10, default=-2147483648)
    error_code: int = wire("int16", since=13, entity="errorCode", default=0)
