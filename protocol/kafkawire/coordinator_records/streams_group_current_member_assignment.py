"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=22, versions=(0, 0))
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Kafka's StreamsGroupCurrentMemberAssignmentKey, versions 0 to 0."""

    group_id: str = wire("string", until=0, entity="groupId", default="")
    member_id: str = wire("string", until=0, default="")


@struct
class TaskIds(Struct):
    subtopology_id: str = wire("string")
    partitions: list[int] = wire(["int32"], entity="partition")
    assignment_epochs: list[int] | None = wire(["int32"], nullable=0, tag=0, default=[])


@message(key=22, versions=(0, 0), flexible=0)
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """Kafka's StreamsGroupCurrentMemberAssignmentValue, versions 0 to 0."""

    member_epoch: int = wire("int32")
    previous_member_epoch: int = wire("int32")
    state: int = wire("int8")
    active_tasks: list[TaskIds] = wire([TaskIds])
    standby_tasks: list[TaskIds] = wire([TaskIds])
    warmup_tasks: list[TaskIds] = wire([TaskIds])
    active_tasks_pending_revocation: list[TaskIds] = wire([TaskIds])
    standby_tasks_pending_revocation: list[TaskIds] = wire([TaskIds])
    warmup_tasks_pending_revocation: list[TaskIds] = wire([TaskIds])
