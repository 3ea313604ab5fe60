"""A commit of offsets in preparation: the offsets to remember, and the batch of their records."""

from __future__ import annotations

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.errors import EncodeError
from wirebroker.core.cluster import Cluster
from wirebroker.core.groups.log import offset_record, records_batch
from wirebroker.core.groups.offsets import Committed, TopicPartition

LEAST_OVERHEAD = 40
"""The minimum size of a record besides its names and metadata, in bytes."""


class Commit:
    """The offsets of one request for one group. With `producer` (id, epoch), the offsets are valid once the producer
    commits."""

    def __init__(self, group_id: str, cluster: Cluster, now: int, limit: int, producer: tuple[int, int] | None = None) -> None:
        """The batch may have `limit` bytes, which is the max.message.bytes of __consumer_offsets."""
        self.group_id = group_id
        self._limit = limit
        self.producer = producer
        self.offsets: dict[TopicPartition, Committed] = {}
        self._cluster = cluster
        self._now = now
        self._records: dict[TopicPartition, CoordinatorRecord] = {}
        self._size = 0

    def add(self, where: TopicPartition, committed: Committed) -> None:
        """Add an offset. The new offset replaces an offset that was added earlier for the partition."""
        self._records[where] = offset_record(self.group_id, where, committed, self._cluster)
        self.offsets[where] = committed
        self._size += len(self.group_id) + len(where[0]) + len(committed.metadata) + LEAST_OVERHEAD

    def batch(self) -> bytes | None:
        """Returns the batch to write down. Returns None if the batch is larger than the log allows, or an id is longer than a
        record can hold.

        The method is a pure function. Encoding many offsets takes long.
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
