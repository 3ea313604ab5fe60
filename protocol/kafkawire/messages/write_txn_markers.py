"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@struct
class WritableTxnMarkerTopic(Struct):
    name: str = wire("string", entity="topicName")
    partition_indexes: list[int] = wire(["int32"], entity="partition")


@struct
class WritableTxnMarker(Struct):
    producer_id: int = wire("int64", entity="producerId")
    producer_epoch: int = wire("int16", entity="producerEpoch")
    transaction_result: bool = wire("bool")
    topics: list[WritableTxnMarkerTopic] = wire([WritableTxnMarkerTopic])
    coordinator_epoch: int = wire("int32")
    transaction_version: int = wire("int8", since=2, default=0)


@message(key=27, versions=(0, 2), flexible=1)
class WriteTxnMarkersRequest(Message):
    """Kafka's WriteTxnMarkersRequest, versions 0 to 2."""

    markers: list[WritableTxnMarker] = wire([WritableTxnMarker])


@struct
class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = wire("int32", entity="partition")
    error_code: int = wire("int16", entity="errorCode")


@struct
class WritableTxnMarkerTopicResult(Struct):
    name: str = wire("string", entity="topicName")
    partitions: list[WritableTxnMarkerPartitionResult] = wire([WritableTxnMarkerPartitionResult])


@struct
class WritableTxnMarkerResult(Struct):
    producer_id: int = wire("int64", entity="producerId")
    topics: list[WritableTxnMarkerTopicResult] = wire([WritableTxnMarkerTopicResult])


@message(key=27, versions=(0, 2), flexible=1)
class WriteTxnMarkersResponse(Message):
    """Kafka's WriteTxnMarkersResponse, versions 0 to 2."""

    markers: list[WritableTxnMarkerResult] = wire([WritableTxnMarkerResult])
