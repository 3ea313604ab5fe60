"""When logs in memory are compacted, and how much of it at a time (Kafka's LogCleaner). Logs on disk: `FolderStore.compact`.

One log is compacted at a time, a few hundred records in a turn, so that nobody waits for it. As in Kafka a log that a
segment was closed of is looked at after log.cleaner.backoff.ms. That of a coordinator is looked at when its segment is
closed, and what is left of the round before is done first: so it stays small also while the clock stands still.
"""

from __future__ import annotations

import logging

from kafkawire.errors import WireError
from wirebroker.core.cluster import INTERNAL_TOPICS, Cluster
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import Timer
from wirebroker.storage.compaction import Cleaning, Steps, plan
from wirebroker.storage.memory import MemoryLog, Segment

logger = logging.getLogger("wirebroker")

TURN = 256
"""Records that are read in a turn, which takes about a millisecond."""


class Compaction:
    """Compacts what is in the memory of a cluster; `now` is in ms since the epoch."""

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._cluster = cluster
        self._dirty: dict[Partition, None] = {}
        """Partitions with a closed segment that was not compacted."""
        self._uncleanable: set[Partition] = set()
        """Partitions whose compaction failed once; as in Kafka it is not tried again before the next start."""
        self._round: tuple[Partition, Steps[None]] | None = None
        self._timer: Timer | None = None
        cluster.rolled = self.rolled
        for partition in cluster.partitions():
            partition.rolled = self.rolled
            self.consider(partition, now)

    def consider(self, partition: Partition, now: int) -> None:
        """Compact this partition in time, if there is something to compact."""
        if partition not in self._dirty and self._is_dirty(partition):
            self._dirty[partition] = None
            self._wake(now)

    def rolled(self, partition: Partition, now: int) -> None:
        """A segment of this partition was closed."""
        if partition.topic not in INTERNAL_TOPICS:
            self.consider(partition, now)
        elif self._is_dirty(partition):
            self._dirty[partition] = None
            self._work_off()
            self._begin(now)

    def finish(self, now: int) -> None:
        """Compact everything that is due, here and now."""
        while self._round is not None:
            self._work_off()
            self._begin(now)

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

    def _wake(self, now: int, turn: bool = False) -> None:
        """Go on in the next turn, or look for something to do after log.cleaner.backoff.ms, unless that is set already."""
        if turn and self._timer is not None:
            self._timer.cancel()
        elif self._timer is not None:
            return
        timers = self._cluster.timers
        # A turn is never made up for: however late the loop is, others have theirs in between.
        backoff = max(self._cluster.configs.integer("log.cleaner.backoff.ms"), 1)
        when = max(now, timers.late) + 1 if turn else now + backoff
        self._timer = timers.at(when, self._woken)

    def _woken(self, now: int) -> None:
        self._timer = None
        if self._round is not None and not self._work_off(TURN):
            self._wake(now, turn=True)
        else:
            self._begin(now)

    def _begin(self, now: int) -> None:
        """Begin with the dirtiest log, or wait until there is one that is dirty enough."""
        self._dirty = {partition: None for partition in self._dirty if self._is_dirty(partition)}
        found = []
        if self._cluster.configs.value("log.cleaner.enable"):
            for partition in self._dirty:
                log = partition.log
                assert isinstance(log, MemoryLog)
                wanted = plan(log.segments, log.end_offset, log.cleaned_to, partition, partition.configs, now)
                if wanted is not None:
                    found.append((wanted[0], partition, log, Cleaning[Segment](wanted[1])))
        if found:
            _, partition, log, cleaning = max(found, key=lambda each: each[0])
            self._round = partition, log.compact(cleaning, partition)
        if self._dirty:
            self._wake(now, turn=bool(found))

    def _work_off(self, records: int | None = None) -> bool:
        """Go on with the round for so many records, or to its end; whether there is nothing left of it."""
        if self._round is None:
            return True
        partition, steps = self._round
        left = records
        try:
            for read in steps:
                if left is not None and (left := left - read) <= 0:
                    return False
        except WireError as damage:  # with --record-checks header nobody has read the records before
            self._uncleanable.add(partition)
            logger.warning("%s-%d is not compacted any more: %s", partition.topic, partition.index, damage)
        self._round = None
        return True
