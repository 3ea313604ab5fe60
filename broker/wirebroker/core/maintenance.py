"""What a broker does of its own accord: retention, the expiration of producers, idle connections."""

from __future__ import annotations

from collections.abc import Callable

from wirebroker.core.cluster import Cluster

LOOK_FOR_IDLE_MS = 30_000
"""How often idle connections are looked for, at the longest."""


class Maintenance:
    """Sets the periodic timers of a cluster that started at `now`."""

    def __init__(self, cluster: Cluster, now: int, close_idle: Callable[[int], None]) -> None:
        self._cluster = cluster
        configs = cluster.configs
        cluster.timers.every(lambda: configs.integer("log.retention.check.interval.ms"), now, self._retain)
        cluster.timers.every(
            lambda: configs.integer("producer.id.expiration.check.interval.ms"), now, self._expire_producers
        )

        cluster.timers.every(
            lambda: min(max(configs.integer("connections.max.idle.ms") // 4, 1000), LOOK_FOR_IDLE_MS), now, close_idle
        )

    def _retain(self, now: int) -> None:
        for partition in self._cluster.partitions():
            partition.retain(now)

    def _expire_producers(self, now: int) -> None:
        after_ms = self._cluster.configs.integer("producer.id.expiration.ms")
        for partition in self._cluster.partitions():
            partition.expire_producers(now, after_ms)
