"""OffsetCommit, versions 2–10, and 0–1 of releases before 4.0. Version 0 is in `apis.zookeeper_offsets`.

A member commits with its member id and its generation. In a consumer group, the member's epoch takes the place of the
generation (KIP-848, from version 9). Any client may commit to a group without members (generation −1). Each partition has its
own error code: UNKNOWN_TOPIC_OR_PARTITION (from version 10 UNKNOWN_TOPIC_ID) or OFFSET_METADATA_TOO_LARGE.

TxnOffsetCommit, versions 0–6: commits offsets that become valid when the producer's transaction commits.

The group's partition of __consumer_offsets must be part of the transaction. AddOffsetsToTxn adds the partition; from version 5
(transaction version 2) TxnOffsetCommit itself adds it. Each partition has its own result, as in OffsetCommit. Version 6 names
topics by their ids. For an unknown group, and for an old epoch of a member, version 6 has other errors than earlier versions.

OffsetDelete, version 0: forget committed offsets of topics that the group's members do not subscribe to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkawire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkawire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkawire.primitives import ZERO_UUID
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.common.slices import SLICE, pauses
from wirebroker.core.cluster import GROUP_TOPIC, Topic
from wirebroker.core.coordinator_errors import translate_error
from wirebroker.core.groups.commit import Commit
from wirebroker.core.groups.group import Committer
from wirebroker.core.groups.offsets import Committed, TopicPartition, expires_at
from wirebroker.core.releases.changes import since, until
from wirebroker.core.transactions.verification import Speaks, TransactionalProducer, Verified, verify

REPEATS_COMMITTED_TOPICS = since(
    "4.0", "OffsetCommit and OffsetFetch have a result for each repetition of a topic's name", "KIP-848"
)
FINDS_COMMITTED_PARTITIONS = since("2.0", "commits of offsets refuse unknown partitions of a known topic")

VERIFIES_OFFSET_COMMITS = since("3.7", "TxnOffsetCommit is verified with the transaction coordinator", "KIP-890")
REPEATS_DELETED_OFFSETS = until("2.6", "the response to OffsetDelete has each topic once, and not once for each partition")

NEW_ERRORS_FROM, IMPLICIT_ADDS_FROM, TOPIC_IDS_FROM = 4, 5, 6
NO_PRODUCER, NO_EPOCH = -1, -1
NO_SEQUENCE = -1
RETENTION_OF_BROKER = -1
"""A retention time of this value means the broker's default."""
NOW = -1
"""A commit timestamp of this value, in version 1, means the broker's time.

In all other versions, this value is the default of the field.
"""

P = TypeVar("P")
TopicName = tuple[str, bytes]
"""A topic's name and id. In each version of a request, either the name or the id is empty."""


class Known(NamedTuple):
    """An existing partition that the request names, and the error of its offset."""

    topic: Topic
    named: Any
    """The request's entry for the topic."""
    partition: Any
    error: ErrorCode


def offset_commit(request: OffsetCommitRequest, exchange: Exchange) -> Steps:
    """Remember the valid offsets. As in Kafka, unknown partitions come first in the response."""
    if exchange.version == 0:
        from wirebroker.apis import zookeeper_offsets  # only releases before 4.0 need this module

        return zookeeper_offsets.commit(request, exchange)
    begin = partial(exchange.engine.groups.commits.new, request.group_id, exchange.now)
    committed = partial(_committed, request=request, exchange=exchange)
    commit, batch, unknown, known = yield from _prepare(
        request, begin, committed, OffsetCommitResponsePartition, exchange.version >= 10, exchange
    )
    code = ErrorCode.NONE
    if known:
        where = [(each.topic.topic_id, each.partition.partition_index) for each in known if not each.error]
        code = _error(request, exchange, where) or exchange.engine.groups.commits.commit(commit, batch, exchange.now)
    responses = yield from _responses(unknown, known, code, OffsetCommitResponsePartition, exchange)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in responses
        ]
    )


def _prepare(
    request: Any, begin: Callable[[], Commit], committed: Callable[[Any], Committed], response: Callable[..., Any],
    by_id: bool, exchange: Exchange,
) -> Generator[Offload | None, Any, tuple[Commit, bytes | None, dict[TopicName, list[Any]], list[Known]]]:  # fmt: skip
    """Read the offsets of a request, and build their batch. `begin` returns an empty commit. Returns the commit, its batch, the
    responses to unknown partitions, and the known partitions.

    If a topic is deleted between two slices, the request is read again. Otherwise the group would keep an offset of the deleted
    topic, because the groups may have forgotten the topic already.
    """
    while True:
        commit, version = begin(), exchange.cluster.version
        unknown, known = yield from _read(request, commit, committed, response, by_id, exchange)
        # A thread builds a large batch.
        batch = commit.batch() if len(commit.offsets) <= SLICE else (yield Offload(commit.batch))
        topics = exchange.cluster.topics
        if exchange.cluster.version == version or all(topics.get(each.topic.name) is each.topic for each in known):
            return commit, batch, unknown, known


def _read(
    request: Any, commit: Commit, committed: Callable[[Any], Committed], response: Callable[..., Any], by_id: bool,
    exchange: Exchange,
) -> Generator[None, Any, tuple[dict[TopicName, list[Any]], list[Known]]]:  # fmt: skip
    """Add the offsets of a request to its commit. Returns the responses to unknown partitions, and the known partitions.
    `by_id` tells whether the version of the request names topics by their ids."""
    unknown: dict[TopicName, list[Any]] = {}
    known: list[Known] = []
    pause, release = pauses(), exchange.cluster.configs.release
    metadata_error = exchange.engine.groups.commits.metadata_error
    for named in request.topics:
        yield from pause()
        topic = exchange.cluster.find_topic(named.name, named.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None and REPEATS_COMMITTED_TOPICS.of(release):
            unknown.setdefault((named.name, named.topic_id), [])
        for partition in named.partitions:
            yield from pause()
            index = partition.partition_index
            if topic is None or (FINDS_COMMITTED_PARTITIONS.of(release) and topic.partition(index) is None):
                refused = response(partition_index=index, error_code=code)
                unknown.setdefault((named.name, named.topic_id), []).append(refused)
                continue
            error = metadata_error(partition.committed_metadata)
            known.append(Known(topic, named, partition, error))
            if not error:
                commit.add((topic.name, index), committed(partition))
    return unknown, known


def _responses(
    unknown: dict[TopicName, list[Any]], known: list[Known], code: ErrorCode, response: Callable[..., Any], exchange: Exchange
) -> Generator[None, Any, list[tuple[TopicName, list[Any]]]]:
    """Returns the responses to all partitions, by topic. `code` is the error of the commit."""
    committed: list[tuple[Any, list[Any]]] = []
    pause = pauses()
    for each in known:
        yield from pause()
        if not committed or committed[-1][0] is not each.named:
            committed.append((each.named, []))
        committed[-1][1].append(response(partition_index=each.partition.partition_index, error_code=code or each.error))
    named = [((topic.name, topic.topic_id), parts) for topic, parts in committed]
    return _merged(unknown, named, REPEATS_COMMITTED_TOPICS.of(exchange.cluster.configs.release))


def _merged(
    refused: dict[TopicName, list[P]], others: list[tuple[TopicName, list[P]]], repeats: bool
) -> list[tuple[TopicName, list[P]]]:
    """Returns the topics of a response. Usually all partitions of a topic are put together, as in Kafka
    (OffsetCommitResponse.Builder.merge). But if `repeats` is true and no partition is unknown (`refused` is empty), each topic
    appears as often as the request names the topic."""
    if repeats and not refused:
        return others
    for name, parts in others:
        refused.setdefault(name, []).extend(parts)
    return list(refused.items())


def _error(request: OffsetCommitRequest, exchange: Exchange, where: list[tuple[bytes, int]]) -> ErrorCode:
    groups = exchange.engine.groups
    by = Committer(request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
    error = groups.coordinator_error(request.group_id, exchange.node_id) or groups.commits.error(
        request.group_id, by, exchange.version, exchange.now, where
    )
    return error or groups.commits.log_error(request.group_id)


def _committed(requested: OffsetCommitRequestPartition, *, request: OffsetCommitRequest, exchange: Exchange) -> Committed:
    keep_ms = request.retention_time_ms
    expires = expires_at(exchange.now, keep_ms) if keep_ms != RETENTION_OF_BROKER else None
    metadata = requested.committed_metadata or ""
    committed_at = exchange.now if requested.commit_timestamp == NOW else requested.commit_timestamp
    return Committed(requested.committed_offset, requested.committed_leader_epoch, metadata, committed_at, expires)


def txn_offset_commit(request: TxnOffsetCommitRequest, exchange: Exchange) -> Steps:
    """Keep the offsets until the transaction ends. As in Kafka, unknown partitions come first in the response."""
    producer: tuple[int, int] | None = (request.producer_id, request.producer_epoch)
    if request.producer_id == NO_PRODUCER and not VERIFIES_OFFSET_COMMITS.of(exchange.cluster.configs.release):
        producer = None  # Kafka treats this request as a commit outside of a transaction
    begin = partial(exchange.engine.groups.commits.new, request.group_id, exchange.now, producer)
    committed = partial(_committed_in_transaction, exchange=exchange)
    by_id = exchange.version >= TOPIC_IDS_FROM
    commit, batch, unknown, known = yield from _prepare(
        request, begin, committed, TxnOffsetCommitResponsePartition, by_id, exchange
    )
    code = _commit(request, commit, batch, exchange) if known else ErrorCode.NONE
    responses = yield from _responses(unknown, known, code, TxnOffsetCommitResponsePartition, exchange)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in responses
        ]
    )


def _committed_in_transaction(requested: TxnOffsetCommitRequestPartition, *, exchange: Exchange) -> Committed:
    metadata = requested.committed_metadata or ""
    return Committed(requested.committed_offset, requested.committed_leader_epoch, metadata, exchange.now)


def _commit(request: TxnOffsetCommitRequest, commit: Commit, batch: bytes | None, exchange: Exchange) -> ErrorCode:
    groups = exchange.engine.groups
    if error := groups.membership_error(request.group_id, exchange.node_id):
        return error
    groups.commits.begin_early(request.group_id, exchange.now)
    home = (GROUP_TOPIC, groups.home(request.group_id))
    checked = _verify(request, home, exchange)
    by = Committer(request.member_id, request.group_instance_id, request.generation_id)
    error = checked.errors.get(home, ErrorCode.NONE)
    if not error:
        topics = exchange.cluster.topics
        where = [(topics[topic].topic_id, index) for topic, index in commit.offsets if topic in topics]
        error = groups.commits.error(request.group_id, by, None, exchange.now, where)
        if exchange.version < TOPIC_IDS_FROM and error in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH):
            error = ErrorCode.ILLEGAL_GENERATION
    verifies = VERIFIES_OFFSET_COMMITS.of(exchange.cluster.configs.release)
    if not error and not verifies and request.producer_epoch == NO_EPOCH != request.producer_id:
        error = ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka cannot make a batch with a producer id but without an epoch
    if error:
        return translate_error(error)
    if commit.producer is None:
        return translate_error(groups.commits.commit(commit, batch, exchange.now))
    return translate_error(groups.commits.commit_in_transaction(commit, batch, home in checked.first_writes, exchange.now))


def _verify(request: TxnOffsetCommitRequest, home: TopicPartition, exchange: Exchange) -> Verified:
    if exchange.version >= IMPLICIT_ADDS_FROM:
        speaks = Speaks.IMPLICIT_ADDS
    else:
        speaks = Speaks.NEW_ERRORS if exchange.version >= NEW_ERRORS_FROM else Speaks.OLD_ERRORS
    partition = exchange.cluster.partition(*home)
    if partition is None:
        return Verified(frozenset(), {home: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    if not VERIFIES_OFFSET_COMMITS.of(exchange.cluster.configs.release):
        return Verified(frozenset((home,)), {})
    producer = TransactionalProducer(request.transactional_id, request.producer_id, request.producer_epoch, speaks)
    return verify(producer, [(partition, NO_SEQUENCE)], exchange.engine.transactions, exchange.cluster, exchange.now)


def offset_delete(request: OffsetDeleteRequest, exchange: Exchange) -> Steps:
    """Delete the offsets that may be deleted; each partition has its own error."""
    if error := _deletion_error(request, exchange):
        return exchange.refused(error)
    groups = exchange.engine.groups
    topics, gone = yield from _checked(request, exchange)
    for i in range(0, len(gone), SLICE):
        if i:
            yield None
        error = _deletion_error(request, exchange) or groups.commits.delete(request.group_id, gone[i : i + SLICE], exchange.now)
        if error:
            return exchange.refused(error)
    groups.offsets_deleted(request.group_id, exchange.now)
    if REPEATS_DELETED_OFFSETS.of(exchange.cluster.configs.release):
        topics = [topic for topic in topics for _ in topic.partitions]
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)


def _checked(
    request: OffsetDeleteRequest, exchange: Exchange
) -> Generator[None, Any, tuple[list[OffsetDeleteResponseTopic], list[TopicPartition]]]:
    """Returns the topics of the response, and the partitions whose offsets are to be deleted."""
    groups, topics = exchange.engine.groups, exchange.cluster.topics
    group = groups.groups[request.group_id]
    refused: dict[TopicName, list[OffsetDeleteResponsePartition]] = {}
    others: list[tuple[TopicName, list[OffsetDeleteResponsePartition]]] = []
    gone: list[TopicPartition] = []
    pause, apart = pauses(), REPEATS_COMMITTED_TOPICS.of(exchange.cluster.configs.release)
    for topic in request.topics:
        yield from pause()
        name, responses = (topic.name, ZERO_UUID), list[OffsetDeleteResponsePartition]()
        if topic.name not in topics and apart:
            refused.setdefault(name, [])
        found = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes(topic.name) else ErrorCode.NONE
        for partition in topic.partitions:
            yield from pause()
            where = (topic.name, partition.partition_index)
            exists = exchange.cluster.partition(*where) is not None
            code = found if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response = OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
            (responses if exists and apart else refused.setdefault(name, [])).append(response)
            if not code and groups.offsets.has(request.group_id, where):
                gone.append(where)
        if responses:
            others.append((name, responses))
    named = _merged(refused, others, repeats=True)
    return [OffsetDeleteResponseTopic(name=name, partitions=parts) for (name, _), parts in named], gone


def _deletion_error(request: OffsetDeleteRequest, exchange: Exchange) -> ErrorCode:
    groups = exchange.engine.groups
    return groups.membership_error(request.group_id, exchange.node_id) or groups.commits.deletion_error(request.group_id)
