"""The records of __consumer_offsets, in Kafka's format (GroupCoordinatorRecordHelpers)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkawire.batches import Record, build_batch
from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from wirebroker.core.cluster import Topic
from wirebroker.core.groups.offsets import Committed, TopicPartition

OFFSET_VERSION, EXPIRING_OFFSET_VERSION = 4, 1
NO_TOPIC_ID = bytes(16)


def records_batch(records: Sequence[CoordinatorRecord], now: int, producer: tuple[int, int] | None) -> bytes:
    """Returns one batch that has these records. `producer` is the id and epoch of the producer whose transaction contains the
    records. Raises EncodeError.

    As in Kafka's CoordinatorRuntime, the batch has the base sequence 0, even if it is not the producer's first batch.
    """
    return encoded_batch([record.encode() for record in records], now, producer)


def encoded_batch(records: Iterable[tuple[bytes, bytes | None]], now: int, producer: tuple[int, int] | None = None) -> bytes:
    """Returns one batch of records, given as their encoded keys and values."""
    producer_id, producer_epoch = producer or (-1, -1)
    return build_batch(
        [Record(i, 0, key, value) for i, (key, value) in enumerate(records)], base_timestamp=now,
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, transactional=producer is not None,
    )  # fmt: skip


def offset_record(
    group_id: str, where: TopicPartition, committed: Committed, topics: Mapping[str, Topic]
) -> CoordinatorRecord:  # fmt: skip
    """Returns the record of a committed offset, with the id of the topic if it is in `topics`. If the offset has its own
    expiration time, the record is written in an old version, the only one that has a field for that time."""
    topic = topics.get(where[0])
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.time,
        expire_timestamp=-1 if committed.expires is None else committed.expires,
        topic_id=topic.topic_id if topic else NO_TOPIC_ID,
    )
    version = OFFSET_VERSION if committed.expires is None else EXPIRING_OFFSET_VERSION
    return CoordinatorRecord(_offset_key(group_id, where), value, version)


def offset_tombstone(group_id: str, where: TopicPartition) -> CoordinatorRecord:
    """Returns the tombstone of a committed offset."""
    return CoordinatorRecord(_offset_key(group_id, where), None)


def _offset_key(group_id: str, where: TopicPartition) -> OffsetCommitKey:
    topic, partition = where
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition)
