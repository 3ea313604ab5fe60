"""What a broker does of its own accord: retention, compaction in memory, and the expiration of producers."""

from __future__ import annotations

from wirebroker.core.changes import LogStartChange, ProducerChange
from wirebroker.core.cluster import Cluster
from wirebroker.core.compaction import Compaction


class Maintenance:
    """Sets the periodic timers of a cluster that started at `now`."""

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._cluster = cluster
        self.compaction = Compaction(cluster, now)
        configs = cluster.configs
        cluster.timers.every(lambda: configs.integer("log.retention.check.interval.ms"), now, self._retain)
        cluster.timers.every(
            lambda: configs.integer("producer.id.expiration.check.interval.ms"), now, self._expire_producers
        )

    def _retain(self, now: int) -> None:
        for partition in self._cluster.partitions():
            self.compaction.consider(partition, now)  # its cleanup.policy may have changed
            before = partition.log_start_offset
            partition.retain(now)
            if partition.log_start_offset != before:
                self._cluster.tell(LogStartChange(partition.topic, partition.index, before, partition.log_start_offset))

    def _expire_producers(self, now: int) -> None:
        after_ms = self._cluster.configs.integer("producer.id.expiration.ms")
        for partition in self._cluster.partitions():
            for producer_id, epoch in partition.expire_producers(now, after_ms):
                self._cluster.tell(ProducerChange("expired", partition.topic, partition.index, producer_id, epoch))
