"""The periodic work of a broker: retention, compaction in memory, and the expiration of producers and delegation tokens."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from wirebroker.common.changes import ProducerRow, RetentionRow
from wirebroker.common.slices import pauses
from wirebroker.core.cluster import Cluster
from wirebroker.core.compaction import Compaction
from wirebroker.core.delegation_tokens import expires_at, has_expired
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import NEVER, Idle

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

    def _retain(self, now: int) -> Generator[None, Any, Idle]:
        pause, until, changed = pauses(PARTITIONS), NEVER, False
        for partition in self._partitions():
            yield from pause()
            if partition.deleted:
                continue
            changed = self.compaction.consider(partition) or changed  # the topic's cleanup.policy may have changed
            before = partition.log_start_offset
            until = min(until, partition.retain(now))
            if partition.log_start_offset != before:
                changed = True
                self._cluster.report(RetentionRow(partition.topic, partition.index, before, partition.log_start_offset))
        return None if changed else until

    def _expire_producers(self, now: int) -> Generator[None, Any, Idle]:
        after_ms = self._cluster.configs.producer_expiration_ms
        pause, until, changed = pauses(PARTITIONS), NEVER, False
        for partition in self._partitions():
            yield from pause()
            gone, expires = yield from partition.expire_producers(now, after_ms)
            until, changed = min(until, expires), changed or bool(gone)
            for producer in gone:
                self._cluster.report(ProducerRow("expired", partition.topic, partition.index, *producer))
        return None if changed else until

    def _expire_tokens(self, now: int) -> Idle:
        expired = [each for each in self._cluster.tokens if has_expired(each, now)]
        if not expired:
            return min(map(expires_at, self._cluster.tokens), default=NEVER)
        for token in expired:
            self._cluster.alter_token(token.token_id, None)
        self._cluster.decisions.write_down(now)
        return None

    def _partitions(self) -> Iterator[Partition]:
        """Yields every partition; topics may be created and deleted during the iteration."""
        for topic in list(self._cluster.topics.values()):
            yield from list(topic.partitions)
