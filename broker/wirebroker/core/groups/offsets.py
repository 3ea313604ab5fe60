"""The offsets that groups have committed, and the offsets of open transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wirebroker.core.java_order import signed

TopicPartition = tuple[str, int]
ProducerAt = tuple[int, int]
"""The index of a partition of __consumer_offsets, and the id of a producer that commits offsets there."""


class Committed(NamedTuple):
    """A committed offset; `leader_epoch` is −1 if the client sent no leader epoch.

    `time` is the time of the commit. `expires` is the expiration time, if the client has sent a retention time. Both times are
    in ms since the epoch. `recorded_at` is the offset of the commit's record in __consumer_offsets: the commit with the latest
    record is valid.
    """

    offset: int
    leader_epoch: int
    metadata: str
    time: int
    expires: int | None = None
    recorded_at: int = -1


NOTHING = Committed(-1, -1, "", -1)


def expires_at(now: int, keep_ms: int) -> int:
    """Returns the expiration time of an offset that the client wants to keep for this many ms. The sum may overflow, as a
    `long` in Java does."""
    return signed(now + keep_ms, 64)


class OffsetStore:
    """The committed offsets by group and partition, and the pending offsets of open transactions by producer."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, Committed]] = {}
        self._pending: dict[str, dict[ProducerAt, dict[TopicPartition, Committed]]] = {}
        """The offsets of open transactions, by group, producer and partition."""
        self._waiting: dict[ProducerAt, dict[str, None]] = {}
        """The groups with offsets in open transactions, by producer."""

    def commit(self, group_id: str, where: TopicPartition, committed: Committed) -> None:
        self._groups.setdefault(group_id, {})[where] = committed

    def commit_all(self, group_id: str, offsets: Mapping[TopicPartition, Committed], base: int) -> None:
        """Remember the offsets of a commit. The records of these offsets are in one batch, which has the base offset `base`."""
        if offsets:
            self._groups.setdefault(group_id, {}).update(_recorded(offsets, base))

    def of(self, group_id: str) -> dict[TopicPartition, Committed]:
        """Returns a group's offsets; empty if the group has no offsets."""
        return self._groups.get(group_id, {})

    def all_of(self, group_id: str) -> list[TopicPartition]:
        """Returns the partitions for which the group has an offset. Offsets in open transactions count, too."""
        return list(dict.fromkeys([*self.of(group_id), *(where for where, _ in self.pending_of(group_id))]))

    def recorded_at(self, group_id: str, where: TopicPartition) -> int:
        """Returns the offset at which __consumer_offsets has the latest commit for this partition. Commits in open transactions
        count, too."""
        pending = (committed.recorded_at for found, committed in self.pending_of(group_id) if found == where)
        return max(self.of(group_id).get(where, NOTHING).recorded_at, *pending, -1)

    def has(self, group_id: str, where: TopicPartition) -> bool:
        """Tells whether the group has an offset for this partition, even if only in an open transaction."""
        return where in self.of(group_id) or self.waits(group_id, where)

    def delete(self, group_id: str, where: TopicPartition) -> bool:
        """Forget the group's offsets for this partition, including offsets in open transactions. Returns whether the group had
        an offset for this partition."""
        held = self._groups.get(group_id, {})
        found = held.pop(where, None) is not None
        if not held:
            self._groups.pop(group_id, None)
        for offsets in self._pending.get(group_id, {}).values():
            found = offsets.pop(where, None) is not None or found
        return found

    def groups(self, *, pending: bool = False) -> list[str]:
        """Returns the groups with committed offsets and, if `pending` is true, also the groups with offsets in open
        transactions."""
        return list(dict.fromkeys([*self._groups, *(self._pending if pending else ())]))

    def drop_pending(self) -> None:
        """Forget the offsets of open transactions."""
        self._pending.clear()
        self._waiting.clear()

    def clear(self) -> None:
        self._groups.clear()
        self._pending.clear()
        self._waiting.clear()

    def delete_group(self, group_id: str) -> None:
        for where in self.all_of(group_id):
            self.delete(group_id, where)
        self._groups.pop(group_id, None)

    # Transactions

    def commit_in_transaction(
        self, home: int, producer_id: int, group_id: str, offsets: Mapping[TopicPartition, Committed], base: int
    ) -> None:
        """Keep offsets as pending until the producer's transaction ends.

        The records of these offsets are in one batch, which has the base offset `base`. `home` is the index of the group's
        partition of __consumer_offsets.
        """
        producer = (home, producer_id)
        self._pending.setdefault(group_id, {}).setdefault(producer, {}).update(_recorded(offsets, base))
        self._waiting.setdefault(producer, {})[group_id] = None

    def end_transaction(self, home: int, producer_id: int, commit: bool) -> None:
        """The end marker of a producer's transaction was written: commit or drop the pending offsets of the transaction."""
        producer = (home, producer_id)
        for group_id in self._waiting.pop(producer, {}):
            pending = self._pending[group_id].pop(producer)
            if not self._pending[group_id]:
                del self._pending[group_id]
            for where, committed in pending.items() if commit else ():
                known = self.of(group_id).get(where)
                if known is None or committed.recorded_at > known.recorded_at:
                    self.commit(group_id, where, committed)

    def waits(self, group_id: str, where: TopicPartition | None = None) -> bool:
        """Tells whether the group has a pending offset (in an open transaction) for the partition `where` or, if `where` is
        None, for any partition."""
        pending = self._pending.get(group_id, {}).values()
        return any(pending) if where is None else any(where in offsets for offsets in pending)

    def pending_of(self, group_id: str) -> Iterator[tuple[TopicPartition, Committed]]:
        """Yields the group's pending offsets, which belong to open transactions."""
        for offsets in self._pending.get(group_id, {}).values():
            yield from offsets.items()


def _recorded(offsets: Mapping[TopicPartition, Committed], base: int) -> Iterator[tuple[TopicPartition, Committed]]:
    for i, (where, committed) in enumerate(offsets.items(), base):
        yield where, Committed(*committed[:5], i)
