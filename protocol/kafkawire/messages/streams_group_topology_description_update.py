"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class TopologyDescriptionNode(Struct):
    name: str = wire("string")
    node_type: int = wire("int8")
    source_topics: list[str] = wire(["string"], entity="topicName")
    sink_topic: str | None = wire("string", nullable=0, entity="topicName", default=None)
    stores: list[str] = wire(["string"])
    successors: list[str] = wire(["string"])


@struct
class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = wire("string")
    nodes: list[TopologyDescriptionNode] = wire([TopologyDescriptionNode])


@struct
class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = wire(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = wire(TopologyDescriptionNode)


@struct
class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = wire([TopologyDescriptionSubtopology])
    global_stores: list[TopologyDescriptionGlobalStore] = wire([TopologyDescriptionGlobalStore])


@message(key=93, versions=(0, 0), flexible=0)
class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    """Kafka's StreamsGroupTopologyDescriptionUpdateRequest, versions 0 to 0."""

    group_id: str = wire("string", entity="groupId")
    member_id: str = wire("string")
    topology_epoch: int = wire("int32")
    topology_description: TopologyDescription = wire(TopologyDescription)


@message(key=93, versions=(0, 0), flexible=0)
class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    """Kafka's StreamsGroupTopologyDescriptionUpdateResponse, versions 0 to 0."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
