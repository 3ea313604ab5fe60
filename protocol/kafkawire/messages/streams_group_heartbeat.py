"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class KeyValue(Struct):
    key: str = wire("string")
    value: str = wire("string")


@struct
class TopicInfo(Struct):
    name: str = wire("string", entity="topicName")
    partitions: int = wire("int32")
    replication_factor: int = wire("int16")
    topic_configs: list[KeyValue] = wire([KeyValue])


@struct
class CopartitionGroup(Struct):
    source_topics: list[int] = wire(["int16"])
    source_topic_regex: list[int] = wire(["int16"])
    repartition_source_topics: list[int] = wire(["int16"])


@struct
class Subtopology(Struct):
    subtopology_id: str = wire("string")
    source_topics: list[str] = wire(["string"], entity="topicName")
    source_topic_regex: list[str] = wire(["string"])
    state_changelog_topics: list[TopicInfo] = wire([TopicInfo])
    repartition_sink_topics: list[str] = wire(["string"], entity="topicName")
    repartition_source_topics: list[TopicInfo] = wire([TopicInfo])
    copartition_groups: list[CopartitionGroup] = wire([CopartitionGroup])


@struct
class Topology(Struct):
    epoch: int = wire("int32")
    subtopologies: list[Subtopology] = wire([Subtopology])


@struct
class TaskIds(Struct):
    subtopology_id: str = wire("string")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class Endpoint(Struct):
    host: str = wire("string")
    port: int = wire("uint16")


@struct
class TaskOffset(Struct):
    subtopology_id: str = wire("string")
    partition: int = wire("int32", entity="partition")
    offset: int = wire("int64")


@message(key=88, versions=(0, 1), flexible=0)
class StreamsGroupHeartbeatRequest(Message):
    """Kafka's StreamsGroupHeartbeatRequest, versions 0 to 1."""

    group_id: str = wire("string", entity="groupId")
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    endpoint_information_epoch: int = wire("int32")
    instance_id: str | None = wire("string", nullable=0, default=None)
    rack_id: str | None = wire("string", nullable=0, default=None)
    rebalance_timeout_ms: int = wire("int32", default=-1)
    topology: Topology | None = wire(Topology, nullable=0, default=None)
    active_tasks: list[TaskIds] | None = wire([TaskIds], nullable=0, default=None)
    standby_tasks: list[TaskIds] | None = wire([TaskIds], nullable=0, default=None)
    warmup_tasks: list[TaskIds] | None = wire([TaskIds], nullable=0, default=None)
    process_id: str | None = wire("string", nullable=0, default=None)
    user_endpoint: Endpoint | None = wire(Endpoint, nullable=0, default=None)
    client_tags: list[KeyValue] | None = wire([KeyValue], nullable=0, default=None)
    task_offsets: list[TaskOffset] | None = wire([TaskOffset], nullable=0, default=None)
    task_end_offsets: list[TaskOffset] | None = wire([TaskOffset], nullable=0, default=None)
    shutdown_application: bool = wire("bool", default=False)


@struct
class Status(Struct):
    status_code: int = wire("int8")
    status_detail: str = wire("string")


@struct
class ResponseTaskIds(Struct):
    subtopology_id: str = wire("string")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class ResponseEndpoint(Struct):
    host: str = wire("string")
    port: int = wire("uint16")


@struct
class TopicPartition(Struct):
    topic: str = wire("string", entity="topicName")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class EndpointToPartitions(Struct):
    user_endpoint: ResponseEndpoint = wire(ResponseEndpoint)
    active_partitions: list[TopicPartition] = wire([TopicPartition])
    standby_partitions: list[TopicPartition] = wire([TopicPartition])


@message(key=88, versions=(0, 1), flexible=0)
class StreamsGroupHeartbeatResponse(Message):
    """Kafka's StreamsGroupHeartbeatResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    heartbeat_interval_ms: int = wire("int32")
    acceptable_recovery_lag_legacy: int = wire("int32", until=0, default=0)
    task_offset_interval_ms: int = wire("int32")
    acceptable_recovery_lag: int = wire("int64", since=1, default=-1)
    status: list[Status] | None = wire([Status], nullable=0)
    active_tasks: list[ResponseTaskIds] | None = wire([ResponseTaskIds], nullable=0, default=None)
    standby_tasks: list[ResponseTaskIds] | None = wire([ResponseTaskIds], nullable=0, default=None)
    warmup_tasks: list[ResponseTaskIds] | None = wire([ResponseTaskIds], nullable=0, default=None)
    topology_description_required: bool = wire("bool", since=1, default=False)
    endpoint_information_epoch: int = wire("int32")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = wire([EndpointToPartitions], nullable=0, default=None)
