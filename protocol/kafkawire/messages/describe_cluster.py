"""Generated from the definitions of Kafka 4.3.1 by scripts/generate-messages; do not edit."""

from kafkawire.declare import Message, Struct, message, struct, wire


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest(Message):
    """Kafka's DescribeClusterRequest, versions 0 to 2."""

    include_cluster_authorized_operations: bool = wire("bool")
    endpoint_type: int = wire("int8", since=1, default=1)
    include_fenced_brokers: bool = wire("bool", since=2, default=False)


@struct
class DescribeClusterBroker(Struct):
    broker_id: int = wire("int32", entity="brokerId")
    host: str = wire("string")
    port: int = wire("int32")
    rack: str | None = wire("string", nullable=0, default=None)
    is_fenced: bool = wire("bool", since=2, default=False)


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterResponse(Message):
    """Kafka's DescribeClusterResponse, versions 0 to 2."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", entity="errorCode")
    error_message: str | None = wire("string", nullable=0, default=None)
    endpoint_type: int = wire("int8", since=1, default=1)
    cluster_id: str = wire("string")
    controller_id: int = wire("int32", entity="brokerId", default=-1)
    brokers: list[DescribeClusterBroker] = wire([DescribeClusterBroker])
    cluster_authorized_operations: int = wire("int32", default=-2147483648)
