"""A commit of offsets that is being prepared: the offsets, their records, and the batch to write."""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkawire.errors import EncodeError
from wirebroker.core.cluster import Cluster, Topic
from wirebroker.core.groups.offsets import Committed, TopicPartition
from wirebroker.core.groups.registry import encoded_batch
from wirebroker.core.releases.changes import since

IDENTIFIES_TRANSACTIONAL_OFFSETS = since("4.4", "offsets of transactions are recorded with topic ids")

OFFSET_VERSION, EXPIRING_OFFSET_VERSION = 4, 1
NO_TOPIC_ID = bytes(16)
LEAST_OVERHEAD = 40
"""The smallest size in bytes of an offset record without its names and its metadata."""


class Commit:
    """The offsets that one request commits for one group. With `producer` (id, epoch), the offsets take effect when the
    producer commits its transaction."""

    def __init__(self, group_id: str, cluster: Cluster, now: int, limit: int, producer: tuple[int, int] | None = None) -> None:
        """The batch may have at most `limit` bytes: the max.message.bytes of __consumer_offsets."""
        self.group_id = group_id
        self._limit = limit
        self.producer = producer
        self.offsets: dict[TopicPartition, Committed] = {}
        self._cluster = cluster
        self._now = now
        self._records: dict[TopicPartition, CoordinatorRecord] = {}
        self._size = 0

    def add(self, where: TopicPartition, committed: Committed) -> None:
        """Add an offset. The new offset replaces an offset that was added earlier for the same partition."""
        identifies = self.producer is None or IDENTIFIES_TRANSACTIONAL_OFFSETS.of(self._cluster.configs.release)
        named = self._cluster.topics if identifies else {}
        self._records[where] = offset_record(self.group_id, where, committed, named)
        self.offsets[where] = committed
        self._size += len(self.group_id) + len(where[0]) + len(committed.metadata) + LEAST_OVERHEAD

    def batch(self) -> bytes | None:
        """Returns the batch to write. Returns None if the batch is larger than `limit`, or an id is longer than a record can
        hold.

        The method changes nothing. If there are many offsets, this method takes long.
        """
        if self._size > self._limit:
            return None
        if not self.offsets:
            return b""
        try:
            batch = encoded_batch([record.encode() for record in self._records.values()], self._now, self.producer)
        except EncodeError:
            return None
        return batch if len(batch) <= self._limit else None


def offset_record(group_id: str, where: TopicPartition, committed: Committed, topics: Mapping[str, Topic]) -> CoordinatorRecord:
    """Returns the record of a committed offset, with the id of the topic if `topics` has the topic. If the offset has its own
    expiration time, the record is written in an old version, because only this version has a field for that time."""
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
