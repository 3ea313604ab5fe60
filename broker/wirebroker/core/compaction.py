"""The schedule by which logs in memory are compacted (Kafka's LogCleaner). For logs on disk see `FolderStore.compact`.

The compactor compacts one log at a time, in slices, so that requests do not wait for it. As in Kafka, the compactor considers
the logs once per log.cleaner.backoff.ms. The compactor considers a coordinator's log as soon as a segment is closed, so that
the log stays small even if the clock is frozen.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from typing import Any

from kafkawire.errors import WireError
from wirebroker.core.cluster import INTERNAL_TOPICS, Cluster
from wirebroker.core.logs.cleaning import Cleaning, Steps, next_plan, plan
from wirebroker.core.logs.memory import MemoryLog, Segment
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import NEVER, Idle

logger = logging.getLogger("wirebroker")

SLICE = 256
"""The number of records read in a slice, which takes about a millisecond."""


class Compaction:
    """Compacts those logs of a cluster that are in memory; `now` is in ms since the epoch."""

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._cluster = cluster
        self._dirty: dict[Partition, None] = {}
        """Partitions with a closed segment that is not compacted yet."""
        self._uncleanable: set[Partition] = set()
        """Partitions whose compaction has failed. As in Kafka, the compaction of such a partition is not tried again before
        the next start."""
        self._running = False
        cluster.rolled = self.rolled
        cluster.timers.every(lambda: cluster.configs.integer("log.cleaner.backoff.ms"), now, self._rounds)
        for partition in cluster.partitions():
            partition.rolled = self.rolled
            self.consider(partition)

    def consider(self, partition: Partition) -> bool:
        """If the partition has segments to compact, compact it in the next round. Returns whether this call has scheduled the
        partition."""
        if partition in self._dirty or not self._is_dirty(partition):
            return False
        self._dirty[partition] = None
        return True

    def rolled(self, partition: Partition, now: int) -> None:
        """Consider a partition whose segment was closed."""
        self.consider(partition)
        if partition.topic in INTERNAL_TOPICS:
            self.begin(now)

    def begin(self, now: int) -> None:
        """Compact the logs that are dirty enough, the dirtiest first. The other logs are considered again later."""
        self._cluster.timers.work(self._rounds(now))

    def _is_dirty(self, partition: Partition) -> bool:
        log = partition.log
        return (
            isinstance(log, MemoryLog)
            and len(log.segments) > 1
            and log.segments[-2].base_offset >= log.cleaned_to
            and not partition.deleted
            and partition not in self._uncleanable
            and "compact" in partition.configs.text("cleanup.policy")
        )

    def _rounds(self, now: int) -> Generator[None, Any, Idle]:
        if self._running or not self._dirty:
            return NEVER
        changed, self._running = False, True
        try:
            yield  # the caller may have closed a segment, and must first write to the new segment
            while (found := self._dirtiest(now)) is not None:
                yield from self._round(*found)
                changed = True
        finally:
            self._running = False
        return None if changed else min((self._next_plan(each, now) for each in self._dirty), default=NEVER)

    def _next_plan(self, partition: Partition, now: int) -> int:
        log = partition.log
        assert isinstance(log, MemoryLog)
        return next_plan(log.segments, log.end_offset, log.cleaned_to, partition, partition.configs, now)

    def _dirtiest(self, now: int) -> tuple[Partition, Steps[None]] | None:
        """Returns the partition to compact next, and the steps of its compaction."""
        self._dirty = {partition: None for partition in self._dirty if self._is_dirty(partition)}
        if not self._cluster.configs.value("log.cleaner.enable"):
            return None
        found = []
        for partition in self._dirty:
            log = partition.log
            assert isinstance(log, MemoryLog)
            wanted = plan(log.segments, log.end_offset, log.cleaned_to, partition, partition.configs, now)
            if wanted is not None:
                found.append((wanted[0], partition, log, wanted[1]))
        if not found:
            return None
        _, partition, log, task = max(found, key=lambda each: each[0])
        return partition, log.compact(Cleaning[Segment](task), partition)

    def _round(self, partition: Partition, steps: Steps[None]) -> Iterator[None]:
        left, before = SLICE, _remaining(partition)
        try:
            for read in steps:
                left -= read
                if left <= 0:
                    yield
                    left = SLICE
        except WireError as damage:  # with --record-checks header, the records are read here for the first time
            self._uncleanable.add(partition)
            logger.warning("%s-%d is no longer compacted: %s", partition.topic, partition.index, damage)
        if _remaining(partition) == before and partition not in self._uncleanable:
            # The log would still be dirty, and a further round would change nothing, either: the rounds would never end.
            self._uncleanable.add(partition)
            logger.error("%s-%d is no longer compacted: a round changed nothing", partition.topic, partition.index)


def _remaining(partition: Partition) -> tuple[int, int, int]:
    """Returns three values. At least one of them changes if a round of compaction has changed the log."""
    log = partition.log
    return log.cleaned_to, len(log.segments), log.size
