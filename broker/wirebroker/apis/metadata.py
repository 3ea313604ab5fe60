"""Metadata, versions 0–13.

Metadata returns the brokers, the topics, and the leaders. A request for an unknown topic creates the topic if both
auto.create.topics.enable and the request allow it. As in Kafka, the request that creates the topic still gets
UNKNOWN_TOPIC_OR_PARTITION. The next request finds the topic. On a cold start, requests find the topic only after
`Cluster.auto_creation_ms`. In version 0 an empty list means all topics; in later versions null means all topics. From version
12 topics may be requested by id. Without an authorizer every operation is allowed. Brokers that are down are omitted, and their
replicas are offline. Version 0 has no field for offline replicas: it omits offline replicas from the list of replicas, and
returns REPLICA_NOT_AVAILABLE for the partition. A partition without a leader gets LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.primitives import ZERO_UUID
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import Pause, mapped, pauses
from wirebroker.core.acls import NO_OPERATIONS, OPERATIONS, ResourceType, bits
from wirebroker.core.cluster import Cluster, Topic
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.names import topic_name_error
from wirebroker.core.partition import Partition
from wirebroker.core.releases.changes import since

CHECKS_UNKNOWN_TOPICS = since(
    "2.8", "Metadata returns error 17 instead of 3 for an invalid topic name even if it does not create topics"
)

TOPIC_IDS_FROM = 12
NOT_REQUESTED = -(2**31)
CREATED = 4
"""The number of topics created in a slice."""
ALL_TOPIC_OPERATIONS = bits(OPERATIONS[ResourceType.TOPIC])
ALL_CLUSTER_OPERATIONS = bits(OPERATIONS[ResourceType.CLUSTER])


def handle(request: MetadataRequest, exchange: Exchange) -> Steps:
    if code := refused_whole(request, exchange.version):
        return _refused_whole(request, code)
    cluster = exchange.cluster
    brokers = []
    for broker in cluster.live_brokers.values():
        host, port = broker.address(exchange.connection.listener)
        brokers.append(MetadataResponseBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack))
    response = MetadataResponse(
        brokers=brokers,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=(yield from _topics(request, exchange)),
        cluster_authorized_operations=NO_OPERATIONS.of(exchange.cluster.configs.release),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def refused_whole(request: MetadataRequest, version: int) -> ErrorCode:
    """Returns the error of the whole request if the request names a topic in a form that Kafka refuses, else NONE."""
    if version < TOPIC_IDS_FROM and any(t.name is None or t.topic_id != ZERO_UUID for t in request.topics or ()):
        return ErrorCode.INVALID_REQUEST
    if any(t.name is None for t in request.topics or ()) and not by_id(request):  # Kafka's NullPointerException
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def by_id(request: MetadataRequest) -> bool:
    """Tells whether the request names topics by id. In such a request names have no meaning, and the response leaves out topics
    without an id."""
    return any(requested.topic_id != ZERO_UUID for requested in request.topics or ())


def distinct(request: MetadataRequest) -> Iterable[MetadataRequestTopic]:
    """Returns the topics that the request names, each once."""
    if by_id(request):
        return {topic.topic_id: topic for topic in request.topics or () if topic.topic_id != ZERO_UUID}.values()
    return {topic.name: topic for topic in request.topics or ()}.values()


def _refused_whole(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
    """Returns the response to a request that `refused_whole` refuses. Versions 10 and 11 have the field for topic ids, but
    Kafka refuses ids in these versions (KAFKA-13265).

    The response lists no brokers.
    """
    topics = [
        MetadataResponseTopic(error_code=code, name=t.name or "", topic_id=t.topic_id, partitions=[])
        for t in request.topics or ()
    ]
    return MetadataResponse(brokers=[], topics=topics, error_code=code)


def _topics(request: MetadataRequest, exchange: Exchange) -> Generator[None, Any, list[MetadataResponseTopic]]:
    pause, pause_for_creation = pauses(), pauses(CREATED)
    unasked = NO_OPERATIONS.of(exchange.cluster.configs.release)
    responses = []
    for requested in _requested(request, exchange):
        yield from pause()
        found = requested if isinstance(requested, Topic) else _find(requested, request, exchange)
        response = (yield from _described(found, pause, exchange)) if isinstance(found, Topic) else found
        if response is found and pause_for_creation():
            yield None
        told = request.include_topic_authorized_operations and response.error_code != ErrorCode.UNKNOWN_TOPIC_ID
        response.topic_authorized_operations = ALL_TOPIC_OPERATIONS if told else unasked
        responses.append(response)
    return responses


def _requested(request: MetadataRequest, exchange: Exchange) -> Iterable[Topic | MetadataRequestTopic]:
    """Returns the requested topics, each once, or all topics."""
    if request.topics is None or (exchange.version == 0 and not request.topics):
        return list(exchange.cluster.topics.values())
    return distinct(request)


def _find(requested: MetadataRequestTopic, request: MetadataRequest, exchange: Exchange) -> Topic | MetadataResponseTopic:
    """Returns the topic, or the error for an unknown topic. The unknown topic may be created at once."""
    cluster, name = exchange.cluster, requested.name
    if name is None or requested.topic_id != ZERO_UUID:
        return cluster.topics_by_id.get(requested.topic_id) or _refused(ErrorCode.UNKNOWN_TOPIC_ID, None, requested.topic_id)
    if name in cluster.topics:
        return cluster.topics[name]
    checks = CHECKS_UNKNOWN_TOPICS.of(cluster.configs.release) or (
        request.allow_auto_topic_creation and cluster.configs.value("auto.create.topics.enable")
    )
    if checks and topic_name_error(name) is not None:
        return _refused(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    if exchange.version >= 4 and not request.allow_auto_topic_creation:
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    return _refused(auto_create(cluster, name, exchange), name)


def auto_create(cluster: Cluster, name: str, exchange: Exchange) -> ErrorCode:
    """Create a topic with a valid name if auto.create.topics.enable allows it. Returns the topic's error code for this Metadata
    request.

    The error code does not depend on the number of brokers: only the controller checks whether there are enough brokers for the
    topic's replicas.
    """
    if not cluster.configs.value("auto.create.topics.enable"):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if exchange.engine.throttle.mutations(exchange, 0).take(cluster.configs.integer("num.partitions"), exchange.engine.now):
        cluster.auto_create_topic(name, exchange.now)
    zookeeper = cluster.configs.release.has_zookeeper  # ZooKeeper's controller elects the leader later
    return ErrorCode.LEADER_NOT_AVAILABLE if zookeeper else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(code: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, partitions=[], topic_authorized_operations=NOT_REQUESTED
    )


def _described(topic: Topic, pause: Pause, exchange: Exchange) -> Generator[None, Any, MetadataResponseTopic]:
    described = yield from mapped(lambda partition: _partition(partition, exchange), list(topic.partitions), pause)
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE, name=topic.name, topic_id=topic.topic_id, is_internal=topic.internal,
        partitions=described, topic_authorized_operations=NOT_REQUESTED,
    )  # fmt: skip


def _partition(partition: Partition, exchange: Exchange) -> MetadataResponsePartition:
    offline = exchange.cluster.offline(partition)
    replicas, in_sync, code = partition.replicas, partition.in_sync, ErrorCode.NONE
    if exchange.version == 0 and offline:
        replicas = [node_id for node_id in replicas if node_id not in offline]
        in_sync = [node_id for node_id in in_sync if node_id not in offline]
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    if partition.leader == NO_LEADER:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(in_sync),
        offline_replicas=offline,
    )
