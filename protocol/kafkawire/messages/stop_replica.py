"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class StopReplicaPartitionV0(Struct):
    topic_name: str = wire("string", until=0, entity="topicName", default="")
    partition_index: int = wire("int32", until=0, entity="partition", default=0)


@struct
class StopReplicaTopicV1(Struct):
    name: str = wire("string", since=1, until=2, entity="topicName", default="")
    partition_indexes: list[int] = wire(["int32"], since=1, until=2, entity="partition", default=[])


@struct
class StopReplicaPartitionState(Struct):
    partition_index: int = wire("int32", since=3, entity="partition", default=0)
    leader_epoch: int = wire("int32", since=3, default=-1)
    delete_partition: bool = wire("bool", since=3, default=False)


@struct
class StopReplicaTopicState(Struct):
    topic_name: str = wire("string", since=3, entity="topicName", default="")
    partition_states: list[StopReplicaPartitionState] = wire([StopReplicaPartitionState], since=3, default=[])


@message(key=5, versions=(0, 4), flexible=2)
class StopReplicaRequest(Message):
    """Kafka's StopReplicaRequest, versions 0 to 4."""

    controller_id: int = wire("int32", entity="brokerId")
    is_k_raft_controller: bool = wire("bool", since=4, default=False)
    controller_epoch: int = wire("int32")
    broker_epoch: int = wire("int64", since=1, default=-1)
    delete_partitions: bool = wire("bool", until=2, default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = wire([StopReplicaPartitionV0], until=0, default=[])
    topics: list[StopReplicaTopicV1] = wire([StopReplicaTopicV1], since=1, until=2, default=[])
    topic_states: list[StopReplicaTopicState] = wire([StopReplicaTopicState], since=3, default=[])


@struct
class StopReplicaPartitionError(Struct):
    topic_name: str = wire("string", entity="topicName")
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")


@message(key=5, versions=(0, 4), flexible=2)
class StopReplicaResponse(Message):
    """Kafka's StopReplicaResponse, versions 0 to 4."""

    error_code: int = wire("int16", entity="errorCode")
    partition_errors: list[StopReplicaPartitionError] = wire([StopReplicaPartitionError])
