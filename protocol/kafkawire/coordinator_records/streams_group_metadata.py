"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=17, versions=(0, 0))
class StreamsGroupMetadataKey(Message):
    """Kafka's StreamsGroupMetadataKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")


@struct
class LastAssignmentConfig(Struct):
    key: str = wire("string")
    value: str = wire("string")


@message(key=17, versions=(0, 0), flexible=0)
class StreamsGroupMetadataValue(Message):
    """Kafka's StreamsGroupMetadataValue, versions 0 to 0."""

    epoch: int = wire("int32")
    metadata_hash: int = wire("int64")
    validated_topology_epoch: int = wire("int32", tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = wire([LastAssignmentConfig], nullable=0, tag=1, default=[])
