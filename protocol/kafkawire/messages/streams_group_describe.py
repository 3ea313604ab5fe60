"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=89, versions=(0, 1), flexible=0)
class StreamsGroupDescribeRequest(Message):
    """Kafka's StreamsGroupDescribeRequest, versions 0 to 1."""

    group_ids: list[str] = wire(["string"], entity="groupId")
    include_authorized_operations: bool = wire("bool")
    include_topology_description: bool = wire("bool", since=1, default=False)


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
class Subtopology(Struct):
    subtopology_id: str = wire("string")
    source_topics: list[str] = wire(["string"], entity="topicName")
    repartition_sink_topics: list[str] = wire(["string"], entity="topicName")
    state_changelog_topics: list[TopicInfo] = wire([TopicInfo])
    repartition_source_topics: list[TopicInfo] = wire([TopicInfo])


@struct
class Topology(Struct):
    epoch: int = wire("int32")
    subtopologies: list[Subtopology] | None = wire([Subtopology], nullable=0, default=None)


@struct
class Endpoint(Struct):
    host: str = wire("string")
    port: int = wire("uint16")


@struct
class TaskOffset(Struct):
    subtopology_id: str = wire("string")
    partition: int = wire("int32", entity="partition")
    offset: int = wire("int64")


@struct
class TaskIds(Struct):
    subtopology_id: str = wire("string")
    partitions: list[int] = wire(["int32"], entity="partition")


@struct
class Assignment(Struct):
    active_tasks: list[TaskIds] = wire([TaskIds])
    standby_tasks: list[TaskIds] = wire([TaskIds])
    warmup_tasks: list[TaskIds] = wire([TaskIds])


@struct
class Member(Struct):
    member_id: str = wire("string")
    member_epoch: int = wire("int32")
    instance_id: str | None = wire("string", nullable=0, default=None)
    rack_id: str | None = wire("string", nullable=0, default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    topology_epoch: int = wire("int32")
    process_id: str = wire("string")
    user_endpoint: Endpoint | None = wire(Endpoint, nullable=0, default=None)
    client_tags: list[KeyValue] = wire([KeyValue])
    task_offsets: list[TaskOffset] = wire([TaskOffset])
    task_end_offsets: list[TaskOffset] = wire([TaskOffset])
    assignment: Assignment = wire(Assignment)
    target_assignment: Assignment = wire(Assignment)
    is_classic: bool = wire("bool")


@struct
class TopologyDescriptionNode(Struct):
    name: str = wire("string", since=1, default="")
    node_type: int = wire("int8", since=1, default=0)
    source_topics: list[str] = wire(["string"], since=1, entity="topicName", default=[])
    sink_topic: str | None = wire("string", since=1, nullable=1, entity="topicName", default=None)
    stores: list[str] = wire(["string"], since=1, default=[])
    successors: list[str] = wire(["string"], since=1, default=[])


@struct
class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = wire("string", since=1, default="")
    nodes: list[TopologyDescriptionNode] = wire([TopologyDescriptionNode], since=1, default=[])


@struct
class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = wire(TopologyDescriptionNode, since=1, default=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = wire(TopologyDescriptionNode, since=1, default=TopologyDescriptionNode)


@struct
class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = wire([TopologyDescriptionSubtopology], since=1, default=[])
    global_stores: list[TopologyDescriptionGlobalStore] = wire([TopologyDescriptionGlobalStore], since=1, default=[])


@struct
class DescribedGroup(Struct):
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    group_id: str = wire("string", entity="groupId")
    group_state: str = wire("string")
    group_epoch: int = wire("int32")
    assignment_epoch: int = wire("int32")
    topology: Topology | None = wire(Topology, nullable=0, default=None)
    members: list[Member] = wire([Member])
    authorized_operations: int = wire("int32", default=-2147483648)
    topology_description: TopologyDescription | None = wire(TopologyDescription, since=1, nullable=1, default=None)
    topology_description_status: int = wire("int8", since=1, default=0)
    assignor_name: str | None = wire("string", since=1, nullable=1, default=None)


@message(key=89, versions=(0, 1), flexible=0)
class StreamsGroupDescribeResponse(Message):
    """Kafka's StreamsGroupDescribeResponse, versions 0 to 1."""

    throttle_time_ms: int = wire("int32", default=0)
    groups: list[DescribedGroup] = wire([DescribedGroup])
