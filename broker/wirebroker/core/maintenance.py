"""The periodic work of a broker: retention, compaction in memory, and the expiration of producers and delegation tokens."""

from __future__ import annotations

from collections.abc import Iterator

from wirebroker.common.slices import pauses
from wirebroker.core.changes import LogStartChange, ProducerChange
from wirebroker.core.cluster import Cluster
from wirebroker.core.compaction import Compaction
from wirebroker.core.delegation_tokens import has_expired
from wirebroker.core.partition import Partition

PARTITIONS = 64
"""The number of partitions in one slice."""


class Maintenance:
    """Sets the periodic timers of a cluster that started at `now`."""

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._cluster = cluster
        self.compaction = Compaction(cluster, now)
        configs = cluster.configs
        cluster.timers.every(lambda: configs.integer("log.retention.check.interval.ms"), now, self._retain)
        cluster.timers.every(lambda: configs.producer_expiration_check_ms, now, self._expire_producers)
        if configs.text("delegation.token.secret.key"):
            cluster.timers.every(lambda: configs.integer("delegation.token.expiry.check.interval.ms"), now, self._expire_tokens)

    def _retain(self, now: int) -> None:
        self._cluster.timers.work(self._retaining(now))

    def _retaining(self, now: int) -> Iterator[None]:
        pause = pauses(PARTITIONS)
        for partition in self._partitions():
            if pause():
                yield
            if partition.deleted:
                continue
            self.compaction.consider(partition, now)  # the topic's cleanup.policy may have changed
            before = partition.log_start_offset
            partition.retain(now)
            if partition.log_start_offset != before:
                self._cluster.report(LogStartChange(partition.topic, partition.index, before, partition.log_start_offset))

    def _expire_producers(self, now: int) -> None:
        self._cluster.timers.work(self._expiring_producers(now))

    def _expiring_producers(self, now: int) -> Iterator[None]:
        after_ms = self._cluster.configs.producer_expiration_ms
        pause = pauses(PARTITIONS)
        for partition in self._partitions():
            if pause():
                yield
            for forgotten in partition.expire_producers(now, after_ms):
                if forgotten is None:
                    yield
                else:
                    self._cluster.report(ProducerChange("expired", partition.topic, partition.index, *forgotten))

    def _expire_tokens(self, now: int) -> None:
        for token in [each for each in self._cluster.tokens if has_expired(each, now)]:
            self._cluster.alter_token(token.token_id, None)
        self._cluster.decisions.write_down(now)

    def _partitions(self) -> Iterator[Partition]:
        """Yields every partition; topics may be created and deleted during the iteration."""
        for topic in list(self._cluster.topics.values()):
            yield from list(topic.partitions)
