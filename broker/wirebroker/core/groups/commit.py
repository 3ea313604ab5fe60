"""A commit of offsets on its way: what is to be remembered, and what is written down of it as one batch."""

from __future__ import annotations

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import EncodeError
from wirebroker.core.cluster import Cluster
from wirebroker.core.groups.log import offset_record, records_batch
from wirebroker.core.groups.offsets import Committed, TopicPartition

LEAST_OVERHEAD = 40
"""Bytes that a record takes at least beside its names and metadata."""


class Commit:
    """The offsets of one request for one group; with `producer`, an id and epoch, they hold once it commits."""

    def __init__(self, group_id: str, cluster: Cluster, now: int, limit: int, producer: tuple[int, int] | None = None) -> None:
        """The batch may have `limit` bytes, the max.message.bytes of __consumer_offsets."""
        self.group_id = group_id
        self._limit = limit
        self.producer = producer
        self.offsets: dict[TopicPartition, Committed] = {}
        self._cluster = cluster
        self._now = now
        self._records: dict[TopicPartition, CoordinatorRecord] = {}
        self._size = 0

    def add(self, where: TopicPartition, committed: Committed) -> None:
        """Commit this offset too; one that was added before for the partition does not count."""
        self._records[where] = offset_record(self.group_id, where, committed, self._cluster)
        self.offsets[where] = committed
        self._size += len(self.group_id) + len(where[0]) + len(committed.metadata) + LEAST_OVERHEAD

    def batch(self) -> bytes | None:
        """What is written down, None if it cannot be; pure, and long where the offsets are many.

        It cannot be if it is larger than the log takes, or an id is longer than a record can hold.
        """
        if self._size > self._limit:
            return None
        if not self.offsets:
            return b""
        try:
            batch = records_batch(list(self._records.values()), self._now, self.producer)
        except EncodeError:
            return None
        return batch if len(batch) <= self._limit else None
