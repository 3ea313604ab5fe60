"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=3, versions=(0, 2), flexible=0)
class PartitionRecord(Message):
    """Kafka's PartitionRecord, versions 0 to 2."""

    partition_id: int = wire("int32", entity="partition", default=-1)
    topic_id: bytes = wire("uuid", entity="topicId")
    replicas: list[int] = wire(["int32"], entity="brokerId")
    isr: list[int] = wire(["int32"])
    removing_replicas: list[int] = wire(["int32"], entity="brokerId")
    adding_replicas: list[int] = wire(["int32"], entity="brokerId")
    leader: int = wire("int32", entity="brokerId", default=-1)
    leader_recovery_state: int = wire("int8", tag=0, default=0)
    leader_epoch: int = wire("int32", default=-1)
    partition_epoch: int = wire("int32", default=-1)
    directories: list[bytes] = wire(["uuid"], since=1, default=[])
    eligible_leader_replicas: list[int] | None = wire(["int32"], since=2, nullable=2, tag=1, entity="brokerId", default=None)
    last_known_elr: list[int] | None = wire(["int32"], since=2, nullable=2, tag=2, entity="brokerId", default=None)
