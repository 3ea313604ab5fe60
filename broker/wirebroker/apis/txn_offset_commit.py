"""TxnOffsetCommit, versions 0–6: commits offsets that become valid when the producer's transaction commits.

The group's partition of __consumer_offsets must be part of the transaction. AddOffsetsToTxn adds the partition; from version 5
(transaction version 2) TxnOffsetCommit itself adds it. Each partition has its own result, as in OffsetCommit. Version 6 names
topics by their ids. For an unknown group, and for an old epoch of a member, version 6 has other errors than earlier versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kafkawire.errors import ErrorCode
from kafkawire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.offset_commit import prepare, responses_to
from wirebroker.core.cluster import GROUP_TOPIC, Cluster
from wirebroker.core.coordinator_errors import translate_error
from wirebroker.core.groups.commit import Commit
from wirebroker.core.groups.group import Committer
from wirebroker.core.groups.offsets import Committed, TopicPartition
from wirebroker.core.releases.changes import since
from wirebroker.core.transactions.verification import Speaks, TransactionalProducer, Verified, verify

VERIFIES_OFFSET_COMMITS = since("3.7", "TxnOffsetCommit is verified with the transaction coordinator", "KIP-890")

NEW_ERRORS_FROM, IMPLICIT_ADDS_FROM, TOPIC_IDS_FROM = 4, 5, 6
NO_PRODUCER, NO_EPOCH = -1, -1
NO_SEQUENCE = -1


def handle(request: TxnOffsetCommitRequest, exchange: Exchange) -> Steps:
    """Keep the offsets until the transaction ends. As in Kafka, unknown partitions come first in the response."""
    producer: tuple[int, int] | None = (request.producer_id, request.producer_epoch)
    if request.producer_id == NO_PRODUCER and not VERIFIES_OFFSET_COMMITS.of(exchange.cluster.configs.release):
        producer = None  # Kafka treats this request as a commit outside of a transaction
    begin = partial(exchange.engine.groups.commits.new, request.group_id, exchange.now, producer)
    committed = partial(_committed, exchange=exchange)
    by_id = exchange.version >= TOPIC_IDS_FROM
    commit, batch, unknown, known = yield from prepare(
        request, begin, committed, TxnOffsetCommitResponsePartition, by_id, exchange
    )
    code = _commit(request, commit, batch, exchange) if known else ErrorCode.NONE
    responses = yield from responses_to(unknown, known, code, TxnOffsetCommitResponsePartition, exchange)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in responses
        ]
    )


def _committed(requested: TxnOffsetCommitRequestPartition, *, exchange: Exchange) -> Committed:
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
        where = _with_ids(commit.offsets, exchange.cluster)
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


def _with_ids(partitions: Iterable[TopicPartition], cluster: Cluster) -> list[tuple[bytes, int]]:
    """Returns the partitions by topic id, without topics that have been deleted."""
    topics = cluster.topics
    return [(topics[topic].topic_id, index) for topic, index in partitions if topic in topics]


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
