"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class CreatableReplicaAssignment(Struct):
    partition_index: int = wire("int32", entity="partition")
    broker_ids: list[int] = wire(["int32"], entity="brokerId")


@struct
class CreatableTopicConfig(Struct):
    name: str = wire("string")
    value: str | None = wire("string", nullable=0)


@struct
class CreatableTopic(Struct):
    name: str = wire("string", entity="topicName")
    num_partitions: int = wire("int32")
    replication_factor: int = wire("int16")
    assignments: list[CreatableReplicaAssignment] = wire([CreatableReplicaAssignment])
    configs: list[CreatableTopicConfig] = wire([CreatableTopicConfig])


@message(key=19, versions=(0, 7), flexible=5)
class CreateTopicsRequest(Message):
    """Kafka's CreateTopicsRequest, versions 0 to 7."""

    topics: list[CreatableTopic] = wire([CreatableTopic])
    timeout_ms: int = wire("int32", default=60000)
    validate_only: bool = wire("bool", since=1, default=False)


@struct
class CreatableTopicConfigs(Struct):
    name: str = wire("string", since=5, default="")
    value: str | None = wire("string", since=5, nullable=5, default="")
    read_only: bool = wire("bool", since=5, default=False)
    config_source: int = wire("int8", since=5, default=-1)
    is_sensitive: bool = wire("bool", since=5, default=False)


@struct
class CreatableTopicResult(Struct):
    name: str = wire("string", entity="topicName")
    topic_id: bytes = wire("uuid", since=7, entity="topicId", default=bytes(16))
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", since=1, nullable=0, default="")
    topic_config_error_code: int = wire("int16", since=5, tag=0, default=0)
    num_partitions: int = wire("int32", since=5, default=-1)
    replication_factor: int = wire("int16", since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = wire([CreatableTopicConfigs], since=5, nullable=5, default=[])


@message(key=19, versions=(0, 7), flexible=5)
class CreateTopicsResponse(Message):
    """Kafka's CreateTopicsResponse, versions 0 to 7."""

    throttle_time_ms: int = wire("int32", since=2, default=0)
    topics: list[CreatableTopicResult] = wire([CreatableTopicResult])
