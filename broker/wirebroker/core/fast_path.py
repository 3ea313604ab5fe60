"""The fast path for batches that need no decision. Nearly all batches take the fast path.

A batch can take the fast path if it is undamaged, is neither compressed nor transactional, and begins with the producer's next
sequence, and if no transaction of the producer is about to begin here. `FastPath.append` recognises and stores such a batch in
one pass, with the same result as `Partition.append`. The fast path leaves every other batch to `Partition.append`.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol
from weakref import proxy

from kafkawire.batches import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD
from kafkawire.checksums import crc32c
from kafkawire.errors import ProtocolError
from kafkawire.record_walk import walk_records
from wirebroker.core.configs import TopicConfigs
from wirebroker.core.logs.interface import Log
from wirebroker.core.open_transactions import OpenTransactions
from wirebroker.core.producers import Key, advance_in_order
from wirebroker.core.profile import Rules
from wirebroker.core.record_checks import MANY_RECORDS, RecordPolicy

_unpack = HEADER.unpack_from
_NEVER = -1
"""A version number that the settings never have."""
_UNREAD = RecordPolicy()


class FastPartition(Protocol):
    """The part of a partition that the fast path uses."""

    topic: str
    index: int
    configs: TopicConfigs
    rules: Rules
    full_checks: bool
    log: Log
    leader_epoch: int
    producers: dict[Key, bytes]
    transactions: OpenTransactions
    write_fails: int
    offline_at: frozenset[int]

    @property
    def waiting(self) -> Sized:
        """The requests that wait for more records."""

    def notify(self, now: int) -> None:
        """Wake the waiting requests."""


class FastPath:
    """The fast path of one partition, with a copy of the settings for records. `Partition.append` reads this copy, too.

    The copy is outdated after a change of a setting. After any other change that matters to the fast path, `invalidate` makes
    the copy outdated. An outdated fast path stores nothing until `renew` is called.
    """

    __slots__ = (
        "_after_max_ms", "_before_max_ms", "_full_checks", "_largest", "_partition", "_segment_ms", "_settings", "_window",
        "policy", "segment_bytes", "version",
    )  # fmt: skip

    def __init__(self, partition: FastPartition) -> None:
        self._partition = partition
        self._settings = partition.configs.broker
        self._full_checks = partition.full_checks
        self._window = 0
        self.version = _NEVER
        """The version of the copied settings. If the broker's settings have a newer version, call `renew`."""
        self.policy = _UNREAD
        """The topic's settings for records at this version of the settings."""
        self._largest = self._after_max_ms = self._before_max_ms = self.segment_bytes = self._segment_ms = 0

    def weaken(self) -> None:
        """The partition is deleted: keep only a weak reference to it, so that its memory can be freed."""
        self._partition = proxy(self._partition)

    def invalidate(self) -> None:
        """Close the fast path: it stores nothing until `renew` is called."""
        self.version = _NEVER

    def renew(self) -> None:
        """Read the settings again. If no batch of this partition can take the fast path, the fast path stays closed."""
        partition = self._partition
        policy = self.policy = self.read_policy()
        plain = policy.compression == "producer" and not policy.append_time and not policy.compacted
        by_id, self._window = partition.rules.key == "producer_id", partition.rules.window
        writable = not partition.write_fails and not partition.offline_at
        self._largest = min(policy.max_message_bytes, policy.segment_bytes) if plain and by_id and writable else 0
        self._after_max_ms, self._before_max_ms = policy.after_max_ms, policy.before_max_ms
        self.segment_bytes = min(policy.segment_bytes, partition.log.largest_segment)
        self._segment_ms = policy.segment_ms
        self.version = self._settings.version

    def read_policy(self) -> RecordPolicy:
        """Returns the topic's settings for records as they are now."""
        partition = self._partition
        return RecordPolicy.from_configs(f"{partition.topic}-{partition.index}", partition.configs)

    def append(self, records: memoryview, now: int, owned: bool) -> int:
        """Store the batch and return its base offset. If `Partition.append` must handle the batch, change nothing and return
        −1."""
        size = len(records)
        if not HEADER_SIZE <= size <= self._largest or self.version != self._settings.version:
            return -1
        base_offset, length, _, magic, crc, attributes, delta, base_time, latest, pid, epoch, sequence, count = _unpack(records)
        partition = self._partition
        state = partition.producers.get(pid)
        if state is None or length != size - LOG_OVERHEAD or magic != 2 or attributes or base_offset:
            return -1
        if not 0 < count <= MANY_RECORDS or count != delta + 1 or latest - now > self._after_max_ms:
            return -1
        if crc32c(records[CRC_START:]) != crc or pid in partition.transactions.verifications:
            return -1
        if self._full_checks:
            try:
                high, low, _ = walk_records(records[HEADER_SIZE:], count)
            except ProtocolError:
                return -1
            if base_time + high != latest or now - base_time - low > self._before_max_ms:
                return -1
        log = partition.log
        if log.last_epoch != partition.leader_epoch:  # `Log.append` makes sure that the metadata have a new epoch
            return -1
        base = log.end_offset
        advanced = advance_in_order(state, epoch, sequence, delta, base, latest, self._window)
        if advanced is None:
            return -1
        active = log.active
        segment_ms = self._segment_ms
        try:
            if (
                active.size + size > self.segment_bytes
                or now - active.created > segment_ms
                or latest - active.first_timestamp > segment_ms
            ):
                log.roll(now)
                active = log.active
            active.append(records, base, partition.leader_epoch, latest, owned)
        except OSError:
            return -1
        log.end_offset = base + count
        partition.producers[pid] = advanced
        if partition.waiting:
            partition.notify(now)
        return base
