"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=23, versions=(0, 0))
class StreamsGroupTopologyKey(Message):
    """Kafka's StreamsGroupTopologyKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")


@struct
class TopicConfig(Struct):
    key: str = wire("string")
    value: str = wire("string")


@struct
class TopicInfo(Struct):
    name: str = wire("string")
    partitions: int = wire("int32")
    replication_factor: int = wire("int16")
    topic_configs: list[TopicConfig] = wire([TopicConfig])


@struct
class CopartitionGroup(Struct):
    source_topics: list[int] = wire(["int16"])
    source_topic_regex: list[int] = wire(["int16"])
    repartition_source_topics: list[int] = wire(["int16"])


@struct
class Subtopology(Struct):
    subtopology_id: str = wire("string")
    source_topics: list[str] = wire(["string"])
    source_topic_regex: list[str] = wire(["string"])
    state_changelog_topics: list[TopicInfo] = wire([TopicInfo])
    repartition_sink_topics: list[str] = wire(["string"])
    repartition_source_topics: list[TopicInfo] = wire([TopicInfo])
    copartition_groups: list[CopartitionGroup] = wire([CopartitionGroup])


@message(key=23, versions=(0, 0), flexible=0)
class StreamsGroupTopologyValue(Message):
    """Kafka's StreamsGroupTopologyValue, versions 0 to 0."""

    epoch: int = wire("int32")
    subtopologies: list[Subtopology] = wire([Subtopology])
