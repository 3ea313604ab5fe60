"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=21, versions=(0, 0))
class StreamsGroupTargetAssignmentMemberKey(Message):
    """Kafka's StreamsGroupTargetAssignmentMemberKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    member_id: str = wire("string", until=0, default="")


@struct
class TaskIds(Struct):
    subtopology_id: str = wire("string")
    partitions: list[int] = wire(["int32"], entity="partition")


@message(key=21, versions=(0, 0), flexible=0)
class StreamsGroupTargetAssignmentMemberValue(Message):
    """Kafka's StreamsGroupTargetAssignmentMemberValue, versions 0 to 0."""

    active_tasks: list[TaskIds] = wire([TaskIds])
    standby_tasks: list[TaskIds] = wire([TaskIds])
    warmup_tasks: list[TaskIds] = wire([TaskIds])
