"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class UpdateMetadataPartitionState(Struct):
    topic_name: str = wire("string", until=4, entity="topicName", default="")
    partition_index: int = wire("int32", entity="partition")
    controller_epoch: int = wire("int32")
    leader: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")
    isr: list[int] = wire(["int32"], entity="brokerId")
    zk_version: int = wire("int32")
    replicas: list[int] = wire(["int32"], entity="brokerId")
    offline_replicas: list[int] = wire(["int32"], since=4, entity="brokerId", default=[])


@struct
class UpdateMetadataTopicState(Struct):
    topic_name: str = wire("string", since=5, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=7, entity="topicId", default=bytes(16))
    partition_states: list[UpdateMetadataPartitionState] = wire([UpdateMetadataPartitionState], since=5, default=[])


@struct
class UpdateMetadataEndpoint(Struct):
    port: int = wire("int32", since=1, default=0)
    host: str = wire("string", since=1, default="")
    listener: str = wire("string", since=3, default="")
    security_protocol: int = wire("int16", since=1, default=0)


@struct
class UpdateMetadataBroker(Struct):
    id: int = wire("int32", entity="brokerId")
    v0_host: str = wire("string", until=0, default="")
    v0_port: int = wire("int32", until=0, default=0)
    endpoints: list[UpdateMetadataEndpoint] = wire([UpdateMetadataEndpoint], since=1, default=[])
    rack: str | None = wire("string", since=2, nullable=0, default="")


@message(key=6, versions=(0, 8), flexible=6)
class UpdateMetadataRequest(Message):
    """Kafka's UpdateMetadataRequest, versions 0 to 8."""

    controller_id: int = wire("int32", entity="brokerId")
    is_k_raft_controller: bool = wire("bool", since=8, default=False)
    type: int = wire("int8", since=8, tag=0, default=0)
    controller_epoch: int = wire("int32")
    broker_epoch: int = wire("int64", since=5, default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = wire([UpdateMetadataPartitionState], until=4, default=[])
    topic_states: list[UpdateMetadataTopicState] = wire([UpdateMetadataTopicState], since=5, default=[])
    live_brokers: list[UpdateMetadataBroker] = wire([UpdateMetadataBroker])


@message(key=6, versions=(0, 8), flexible=6)
class UpdateMetadataResponse(Message):
    """Kafka's UpdateMetadataResponse, versions 0 to 8."""

    error_code: int = wire("int16", entity="errorCode")
