"""OffsetFetch, versions 1–10, and version 0 of releases before 4.0. Version 0 is in `apis.zookeeper_offsets`.

If `topics` is null, the response has all offsets of the group. From version 8 a request can name several groups; from version
10 it names topics by id. For an offset that was never committed the response has −1 without an error, even for an unknown
group. With require_stable (from version 7) a partition with an uncommitted offset in an open transaction gets
UNSTABLE_OFFSET_COMMIT. From version 9 a member of a consumer group (KIP-848) may send its id and epoch; an old epoch is
refused.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.offset_commits import REPEATS_COMMITTED_TOPICS
from wirebroker.common.slices import IDS, Pause, mapped, pauses
from wirebroker.core.groups.offsets import NOTHING, Committed, TopicPartition
from wirebroker.core.releases.changes import since

NAMES_GROUPS_ONCE = since("3.0", "OffsetFetch has one result for a group that is named twice", "KIP-709").then(
    "3.5", False, "OffsetFetch has a result for each repetition of a group"
)

Requested = Iterable[tuple[str, list[int]]] | None
Topics = Generator[None, Any, list[OffsetFetchResponseTopics]]


def handle(request: OffsetFetchRequest, exchange: Exchange) -> Steps:
    if exchange.version >= 8:
        return (yield from _groups(request, exchange))
    if exchange.version == 0:
        from wirebroker.apis import zookeeper_offsets  # only releases before 4.0 need this module

        return zookeeper_offsets.fetch(request, exchange)
    error = exchange.engine.groups.coordinator_error(request.group_id, exchange.node_id)
    requested = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    if error and exchange.version >= 2:
        return OffsetFetchResponse(error_code=error, topics=[])
    pause = pauses()
    topics: dict[tuple[int, str], OffsetFetchResponseTopic] = {}
    if requested is not None and REPEATS_COMMITTED_TOPICS.of(exchange.cluster.configs.release):
        topics = {(n, name): OffsetFetchResponseTopic(name=name, partitions=[]) for n, (name, _) in enumerate(requested)}
    for number, (name, index), found, code in _offsets(request.group_id, requested, exchange, request.require_stable):
        yield from pause()
        topic = topics.get((number, name))
        if topic is None:
            topic = topics[number, name] = OffsetFetchResponseTopic(name=name, partitions=[])
        topic.partitions.append(
            OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=-1 if error else found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=error or code,
            )
        )
    return OffsetFetchResponse(topics=list(topics.values()), error_code=ErrorCode.NONE)


def _groups(request: OffsetFetchRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    pause_for_id, pause = pauses(IDS), pauses()
    responses = []
    whole: dict[tuple[str, str | None, int], OffsetFetchResponseGroup] = {}
    wanted = request.groups
    if NAMES_GROUPS_ONCE.of(exchange.cluster.configs.release):
        wanted = list({each.group_id: each for each in wanted}.values())
    for requested in wanted:
        yield from pause_for_id()
        who = requested.group_id, requested.member_id, requested.member_epoch
        if requested.topics is None and who in whole:  # this group was named before, also without topics
            responses.append(whole[who])
            continue
        error = groups.coordinator_error(requested.group_id, exchange.node_id)
        error = error or groups.commits.fetch_error(requested.group_id, requested.member_id, requested.member_epoch)
        response = OffsetFetchResponseGroup(group_id=requested.group_id, topics=[], error_code=error)
        responses.append(response)
        if not error:
            response.topics = yield from _topics(requested, request.require_stable, pause, exchange)
        if requested.topics is None:
            whole[who] = response
    return OffsetFetchResponse(groups=responses)


def _topics(requested: OffsetFetchRequestGroup, stable: bool, pause: Pause, exchange: Exchange) -> Topics:
    topics: dict[tuple[int, str], OffsetFetchResponseTopics] = {}
    wanted, unknown = yield from _wanted(requested.topics, pause, exchange)
    if wanted is not None and REPEATS_COMMITTED_TOPICS.of(exchange.cluster.configs.release):
        topics = {(number, name): _topic(name, exchange) for number, (name, _) in enumerate(wanted)}
    for number, (name, index), found, code in _offsets(requested.group_id, wanted, exchange, stable):
        yield from pause()
        topic = topics.get((number, name))
        if topic is None:
            topic = topics[number, name] = _topic(name, exchange)
        topic.partitions.append(_partition(index, found, code))
    return [*topics.values(), *unknown]


def _topic(name: str, exchange: Exchange) -> OffsetFetchResponseTopics:
    made = OffsetFetchResponseTopics(name=name, partitions=[])
    if (known := exchange.cluster.topics.get(name)) is not None:
        made.topic_id = known.topic_id
    return made


def _wanted(
    topics: Iterable[OffsetFetchRequestTopics] | None, pause: Pause, exchange: Exchange
) -> Generator[None, Any, tuple[Requested, list[OffsetFetchResponseTopics]]]:
    """Returns the topics by name, and the responses for unknown ids."""
    if topics is None:
        return None, []
    wanted, unknown = [], []
    for topic in topics:
        yield from pause()
        name: str | None = topic.name
        if exchange.version >= 10:
            known = exchange.cluster.topics_by_id.get(topic.topic_id)
            name = known.name if known else None
        if name is not None:
            wanted.append((name, topic.partition_indexes))
        else:
            refused = yield from mapped(
                lambda index: _partition(index, NOTHING, ErrorCode.UNKNOWN_TOPIC_ID), topic.partition_indexes, pause
            )
            unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=refused))
    return wanted, unknown


def _offsets(
    group_id: str, requested: Requested, exchange: Exchange, stable: bool
) -> Iterator[tuple[int, TopicPartition, Committed, ErrorCode]]:
    """Yields the requested offsets, each with the index of its topic in the request. If the request names no topics, yields all
    offsets, each with the index 0.

    With `stable` an offset of an open transaction is an error.
    """
    offsets = exchange.engine.groups.offsets
    held = offsets.of(group_id)
    waiting = {where for where, _ in offsets.pending_of(group_id)} if stable else set()
    if requested is None:
        wanted: Iterable[tuple[int, TopicPartition]] = [(0, where) for where in held]
    else:
        wanted = ((number, (name, i)) for number, (name, indexes) in enumerate(requested) for i in indexes)
    for number, where in wanted:
        if where in waiting:
            yield number, where, NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
        else:
            yield number, where, held.get(where, NOTHING), ErrorCode.NONE


def _partition(index: int, found: Committed, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=found.offset, committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata, error_code=code,
    )  # fmt: skip
