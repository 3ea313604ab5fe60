"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class LeaderAndIsrPartitionState(Struct):
    topic_name: str = wire("string", until=1, entity="topicName", default="")
    partition_index: int = wire("int32", entity="partition")
    controller_epoch: int = wire("int32")
    leader: int = wire("int32", entity="brokerId")
    leader_epoch: int = wire("int32")
    isr: list[int] = wire(["int32"], entity="brokerId")
    partition_epoch: int = wire("int32")
    replicas: list[int] = wire(["int32"], entity="brokerId")
    adding_replicas: list[int] = wire(["int32"], since=3, entity="brokerId", default=[])
    removing_replicas: list[int] = wire(["int32"], since=3, entity="brokerId", default=[])
    is_new: bool = wire("bool", since=1, default=False)
    leader_recovery_state: int = wire("int8", since=6, default=0)


@struct
class LeaderAndIsrTopicState(Struct):
    topic_name: str = wire("string", since=2, entity="topicName", default="")
    topic_id: bytes = wire("uuid", since=5, entity="topicId", default=bytes(16))
    partition_states: list[LeaderAndIsrPartitionState] = wire([LeaderAndIsrPartitionState], since=2, default=[])


@struct
class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = wire("int32", entity="brokerId")
    host_name: str = wire("string")
    port: int = wire("int32")


@message(key=4, versions=(0, 7), flexible=4)
class LeaderAndIsrRequest(Message):
    """Kafka's LeaderAndIsrRequest, versions 0 to 7."""

    controller_id: int = wire("int32", entity="brokerId")
    is_k_raft_controller: bool = wire("bool", since=7, default=False)
    controller_epoch: int = wire("int32")
    broker_epoch: int = wire("int64", since=2, default=-1)
    type: int = wire("int8", since=5, default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = wire([LeaderAndIsrPartitionState], until=1, default=[])
    topic_states: list[LeaderAndIsrTopicState] = wire([LeaderAndIsrTopicState], since=2, default=[])
    live_leaders: list[LeaderAndIsrLiveLeader] = wire([LeaderAndIsrLiveLeader])


@struct
class LeaderAndIsrPartitionError(Struct):
    topic_name: str = wire("string", until=4, entity="topicName", default="")
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")


@struct
class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = wire("uuid", since=5, entity="topicId", default=bytes(16))
    partition_errors: list[LeaderAndIsrPartitionError] = wire([LeaderAndIsrPartitionError], since=5, default=[])


@message(key=4, versions=(0, 7), flexible=4)
class LeaderAndIsrResponse(Message):
    """Kafka's LeaderAndIsrResponse, versions 0 to 7."""

    error_code: int = wire("int16", entity="errorCode")
    partition_errors: list[LeaderAndIsrPartitionError] = wire([LeaderAndIsrPartitionError], until=4, default=[])
    topics: list[LeaderAndIsrTopicError] = wire([LeaderAndIsrTopicError], since=5, default=[])
