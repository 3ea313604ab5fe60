"""DeleteTopics, versions 1–6.

Deletes topics by name, from version 6 also by id. A topic named twice in the request, by name or id, gets INVALID_REQUEST with
KRaft. With delete.topic.enable=false every topic gets TOPIC_DELETION_DISABLED (before version 3 INVALID_REQUEST).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkawire.primitives import ZERO_UUID
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata_changes import NAMES_TOPICS_ONCE, MetadataChanges
from wirebroker.apis.overdue import is_overdue, timed_out
from wirebroker.core.cluster import Topic
from wirebroker.core.refusals import UNKNOWN_PARTITION
from wirebroker.core.releases.changes import since
from wirebroker.requests.throttling import Mutations

REFUSES_DELETION = since("1.0", "with delete.topic.enable=false DeleteTopics is refused at once")

NEITHER = "Neither topic name nor id were specified."
BOTH = "You may not specify both topic name and topic id."
STRICT_SINCE = 5
"""From this version of DeleteTopics on, a topic is refused if too many partitions were deleted recently (KIP-599)."""
NO_SUCH_ID = "This server does not host this topic ID."


def handle(request: DeleteTopicsRequest, exchange: Exchange) -> Steps:
    zookeeper = exchange.cluster.configs.release.has_zookeeper
    requested = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    if not zookeeper and is_overdue(request.timeout_ms, map(_key, requested)):
        return (yield from timed_out(request, exchange))
    if not exchange.cluster.configs.value("delete.topic.enable"):
        return _disabled(requested, exchange)
    try:
        responses = yield from (_in_zookeeper if zookeeper else _responses)(requested, exchange)
        if request.timeout_ms <= 0 and zookeeper:
            for each in responses:
                each.error_code = each.error_code or ErrorCode.REQUEST_TIMED_OUT
        return DeleteTopicsResponse(responses=responses)
    finally:
        exchange.engine.groups.forget_topics(exchange.now)


def refuses_whole(request: DeleteTopicsRequest, exchange: Exchange) -> bool:
    """Tells whether `handle` refuses the whole request, before it looks at any topic or at the client's rights."""
    release = exchange.cluster.configs.release
    if REFUSES_DELETION.of(release) and not exchange.cluster.configs.value("delete.topic.enable"):
        return True
    if release.has_zookeeper:
        return any(topic.name is not None and topic.topic_id != ZERO_UUID for topic in request.topics)
    return is_overdue(request.timeout_ms, map(_key, request.topics or request.topic_names))


def unclear(requested: list[DeleteTopicState] | list[str], exchange: Exchange) -> Callable[[DeleteTopicState | str], bool]:
    """Returns a function that tells whether `handle` refuses a topic before it looks for the topic. `handle` refuses a topic
    with both a name and an id, a topic with neither, and a topic that the request names more than once.
    """
    times = Counter(map(_key, requested))
    zookeeper = exchange.cluster.configs.release.has_zookeeper
    return lambda topic: not zookeeper and (_key(topic) is None or times[_key(topic)] > 1)


def _key(topic: DeleteTopicState | str) -> str | bytes | None:
    """Returns the name or the id of a topic in a request, or None if the request has both or neither."""
    if isinstance(topic, str):
        return topic
    if topic.topic_id == ZERO_UUID:
        return topic.name
    return topic.topic_id if topic.name is None else None


def _disabled(requested: list[DeleteTopicState], exchange: Exchange) -> DeleteTopicsResponse:
    """Returns the response to any request while delete.topic.enable is false.

    Kafka 0.11 does not check delete.topic.enable first, so the request times out.
    """
    late = not REFUSES_DELETION.of(exchange.cluster.configs.release)
    if late:  # Kafka collects the results in a map, so each topic has one result
        requested = list({each.name: each for each in requested}.values())
    code = ErrorCode.TOPIC_DELETION_DISABLED if exchange.version >= 3 else ErrorCode.INVALID_REQUEST

    def code_of(topic: DeleteTopicState) -> ErrorCode:
        if not late:
            return code
        there = topic.name in exchange.cluster.topics
        return ErrorCode.REQUEST_TIMED_OUT if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code_of(each)) for each in requested]
    )


def _responses(requested: list[DeleteTopicState], exchange: Exchange) -> Generator[None, Any, list[DeletableTopicResult]]:
    times = Counter(map(_key, requested))
    ids = {key: None for key in times if isinstance(key, bytes)}
    responses: list[DeletableTopicResult] = []
    changes = MetadataChanges(exchange, responses)
    quota = exchange.engine.throttle.mutations(exchange, STRICT_SINCE)
    for each in requested:
        yield from changes.pause()
        if _key(each) is None:
            responses.append(_invalid(each.name, each.topic_id, NEITHER if each.name is None else BOTH))
    twice = [key for key, count in times.items() if count > 1]
    responses += [_invalid(key, ZERO_UUID, "Duplicate topic name.") for key in twice if isinstance(key, str)]
    responses += [_invalid(None, key, "Duplicate topic id.") for key in twice if isinstance(key, bytes)]
    once = {topic_id: None for topic_id in ids if times[topic_id] == 1}
    for name in [key for key, count in times.items() if isinstance(key, str) and count == 1]:
        yield from changes.pause()
        responses.append(_by_name(name, once, ids, exchange, quota))
    for topic_id in once:
        yield from changes.pause()
        responses.append(_by_id(topic_id, exchange, quota))
    changes.write_down()
    exchange.throttled_by(quota)
    return responses


def _in_zookeeper(requested: list[DeleteTopicState], exchange: Exchange) -> Generator[None, Any, list[DeletableTopicResult]]:
    """Delete topics as a broker with ZooKeeper does. With ZooKeeper, a request may name a topic more than once. Returns the
    results in the order of the request.
    """
    if any(each.name is not None and each.topic_id != ZERO_UUID for each in requested):
        return [_failed(each.name, each.topic_id, ErrorCode.INVALID_REQUEST) for each in requested]
    if NAMES_TOPICS_ONCE.of(exchange.cluster.configs.release):
        requested = list({each.name: each for each in requested}.values())
    results: dict[str, DeletableTopicResult] = {}
    responses: list[DeletableTopicResult] = []
    changes = MetadataChanges(exchange, responses)
    quota = exchange.engine.throttle.mutations(exchange, STRICT_SINCE)
    for each in requested:
        yield from changes.pause()
        named = exchange.cluster.topics_by_id.get(each.topic_id)
        name = named.name if named else each.name
        if name is None:
            nameless = each.topic_id == ZERO_UUID
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if nameless else ErrorCode.UNKNOWN_TOPIC_ID
            responses.append(_failed(None, each.topic_id, code))
            continue
        if name in results:  # as in Kafka, only the topic's first result has the error of the quota
            throttled = results[name].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            code = ErrorCode.NONE if throttled else ErrorCode(results[name].error_code)
            responses.append(_failed(name, each.topic_id, code))
            continue
        topic = exchange.cluster.topics.get(name)
        deleted = _delete(topic, exchange, quota) if topic else _failed(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        deleted.topic_id = each.topic_id
        results[name] = deleted
        responses.append(deleted)
    changes.write_down()
    exchange.throttled_by(quota)
    return responses


def _failed(name: str | None, topic_id: bytes, code: ErrorCode) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code)


def _by_name(
    name: str, once: dict[bytes, None], ids: dict[bytes, None], exchange: Exchange, quota: Mutations
) -> DeletableTopicResult:
    """Delete by name. A topic named both by name and by id is not deleted."""
    topic = exchange.cluster.topics.get(name)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DeletableTopicResult(name=name, error_code=code, error_message=UNKNOWN_PARTITION.message)
    if topic.topic_id in ids:
        once.pop(topic.topic_id, None)
        return _invalid(name, topic.topic_id, "The provided topic name maps to an ID that was already supplied.")
    return _delete(topic, exchange, quota)


def _by_id(topic_id: bytes, exchange: Exchange, quota: Mutations) -> DeletableTopicResult:
    topic = exchange.cluster.topics_by_id.get(topic_id)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
        return DeletableTopicResult(name=None, topic_id=topic_id, error_code=code, error_message=NO_SUCH_ID)
    return _delete(topic, exchange, quota)


def _delete(topic: Topic, exchange: Exchange, quota: Mutations) -> DeletableTopicResult:
    engine = exchange.engine
    if not quota.take(len(topic.partitions), engine.now):
        code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code)
    exchange.cluster.delete_topic(topic, exchange.now, lambda: engine.topic_deleted(topic.name, topic.topic_id))
    exchange.cluster.keep_name(topic, exchange.now)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.NONE)


def _invalid(name: str | None, topic_id: bytes, message: str) -> DeletableTopicResult:
    code = ErrorCode.INVALID_REQUEST
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)
