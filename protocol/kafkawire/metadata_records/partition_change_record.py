"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, message, wire


@message(key=5, versions=(0, 2), flexible=0)
class PartitionChangeRecord(Message):
    """Kafka's PartitionChangeRecord, versions 0 to 2."""

    partition_id: int = wire("int32", entity="partition", default=-1)
    topic_id: bytes = wire("uuid", entity="topicId")
    isr: list[int] | None = wire(["int32"], nullable=0, tag=0, entity="brokerId", default=None)
    leader: int = wire("int32", tag=1, entity="brokerId", default=-2)
    replicas: list[int] | None = wire(["int32"], nullable=0, tag=2, entity="brokerId", default=None)
    removing_replicas: list[int] | None = wire(["int32"], nullable=0, tag=3, entity="brokerId", default=None)
    adding_replicas: list[int] | None = wire(["int32"], nullable=0, tag=4, entity="brokerId", default=None)
    leader_recovery_state: int = wire("int8", tag=5, default=-1)
    directories: list[bytes] | None = wire(["uuid"], since=1, nullable=1, tag=8, default=None)
    eligible_leader_replicas: list[int] | None = wire(["int32"], since=2, nullable=2, tag=6, entity="brokerId", default=None)
    last_known_elr: list[int] | None = wire(["int32"], since=2, nullable=2, tag=7, entity="brokerId", default=None)
