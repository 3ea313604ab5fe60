"""StreamsGroupHeartbeat, versions 0–1: join, stay in, and leave a streams group (KIP-1071).

A member chooses its own id. A member joins with epoch 0 and the topology, and leaves with epoch −1. The response has the
member's epoch, the member's tasks if they have changed, and the reasons why the application cannot run. If the client may
create topics, the broker creates missing internal topics before it responds. Kafka creates them right after the response. The
response to a later heartbeat tells whether the creation failed. The response of version 1 may ask the member for a description
of the topology.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkawire.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    ResponseEndpoint,
    ResponseTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TopicPartition,
)
from kafkawire.messages.streams_group_heartbeat import Status as ToldStatus
from wirebroker.apis import create_topics
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.common.slices import TOPICS
from wirebroker.core.acls import CLUSTER_NAME, Operation, ResourceType
from wirebroker.core.cluster import INTERNAL_TOPICS
from wirebroker.core.groups.streams_heartbeats import (
    FULL_STREAMS_GROUPS,
    Endpoint,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    request_error,
)
from wirebroker.core.groups.streams_log import partitions_by_subtopology
from wirebroker.core.groups.streams_topology import InternalTopic, Status, Told, from_request, topics_of
from wirebroker.core.names import topic_name_error
from wirebroker.core.refusals import Refusal

CREATED_WITHIN_MS = 30_000
SHOWN = 3
"""The number of errors that an error message lists."""


def handle(request: StreamsGroupHeartbeatRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    if not groups.streams.enabled:
        return exchange.refused(ErrorCode.UNSUPPORTED_VERSION)
    names = topics_of(request.topology) if request.topology is not None else []
    full = FULL_STREAMS_GROUPS.of(groups.streams.release)
    if error := _topic_error(names) or request_error(request, full):
        return exchange.refused(*error)
    if code := groups.coordinator_error(request.group_id, exchange.node_id):
        return exchange.refused(code)
    sent = None
    if request.topology is not None:
        read = partial(from_request, request.topology)
        long = max(len(names), len(request.topology.subtopologies)) >= TOPICS
        sent = (yield Offload(read)) if long else read()
    requested = StreamsHeartbeat(
        request, sent, exchange.client_id or "", f"/{exchange.connection.client_host}", exchange.version >= 1
    )
    result = yield from groups.streams.heartbeat(requested, exchange.now)
    if isinstance(result, Refusal):
        return exchange.refused(*result)
    told = list(result.told)
    if result.missing:
        told = yield from _create(result.missing, told, request.group_id, exchange)
    return _response(result, told)


def _topic_error(names: Sequence[str]) -> Refusal | None:
    if internal := [name for name in names if name in INTERNAL_TOPICS]:
        message = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
    if invalid := [name for name in names if topic_name_error(name) is not None]:
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(invalid)} are not valid topic names.")
    return None


def _create(
    missing: Mapping[str, InternalTopic], told: Sequence[Told], group_id: str, exchange: Exchange
) -> Generator[Any, Any, list[Told]]:
    """Create internal topics. Returns the statuses of the response. They include the errors of topics that cannot be
    created."""
    may = exchange.engine.authorizer.may
    forbidden: list[str] = []
    if not may(exchange.connection, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, asked=False):
        forbidden = [name for name in missing if not may(exchange.connection, Operation.CREATE, ResourceType.TOPIC, name)]
    if forbidden:
        return _with(told, f"; Unauthorized to CREATE on topics {', '.join(forbidden)}.")
    failures = exchange.engine.groups.streams.failures
    failed = failures.of(missing, exchange.now)
    wanted = [_creatable(topic) for name, topic in missing.items() if name not in failed]
    if wanted:
        creating = CreateTopicsRequest(topics=wanted, timeout_ms=CREATED_WITHIN_MS, validate_only=False)
        made: Any = yield from create_topics.handle(creating, exchange)
        for topic in made.topics:
            if topic.error_code:
                failures.note(group_id, topic.name, topic.error_message or "", exchange.now)
    if not failed:
        return list(told)
    more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
    shown = ", ".join(f"{name} ({why})" for name, why in list(failed.items())[:SHOWN])
    return _with(told, f"; Creation failed: {shown}{more}.")


def _with(told: Iterable[Told], more: str) -> list[Told]:
    return [
        each._replace(detail=each.detail + more) if each.status is Status.MISSING_INTERNAL_TOPICS else each for each in told
    ]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()]
    return CreatableTopic(
        name=topic.name, num_partitions=topic.partitions, replication_factor=topic.factor or -1, assignments=[],
        configs=configs,
    )  # fmt: skip


def _response(result: StreamsHeartbeatResult, told: Sequence[Told]) -> StreamsGroupHeartbeatResponse:
    tasks = [None] * 3 if result.tasks is None else [_tasks(kind) for kind in result.tasks]
    endpoints = None if result.endpoints is None else [_endpoint(each) for each in result.endpoints]
    return StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=result.member_id, member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval, acceptable_recovery_lag_legacy=0, acceptable_recovery_lag=result.lag,
        task_offset_interval_ms=result.offset_interval, topology_description_required=result.wants_description,
        status=[ToldStatus(status_code=each.status, status_detail=each.detail) for each in told],
        active_tasks=tasks[0], standby_tasks=tasks[1], warmup_tasks=tasks[2],
        endpoint_information_epoch=result.endpoints_epoch, partitions_by_user_endpoint=endpoints,
    )  # fmt: skip


def _tasks(tasks: Iterable[tuple[str, int]]) -> list[ResponseTaskIds] | None:
    return [ResponseTaskIds(subtopology_id=key, partitions=each) for key, each in partitions_by_subtopology(tasks).items()]


def _endpoint(endpoint: Endpoint) -> EndpointToPartitions:
    host, port = endpoint.address
    active, standby = (
        [TopicPartition(topic=topic, partitions=list(indexes)) for topic, indexes in held]
        for held in (endpoint.active, endpoint.standby)
    )
    return EndpointToPartitions(
        user_endpoint=ResponseEndpoint(host=host, port=port), active_partitions=active, standby_partitions=standby
    )
