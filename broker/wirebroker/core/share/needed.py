"""Finds those records of a partition of __share_group_state that are still needed (Kafka's ShareCoordinatorOffsetsManager)."""

from __future__ import annotations

from collections.abc import Iterator

from wirebroker.core.share.in_flight import Key


class NeededRecords:
    """The offset of the latest snapshot of each share partition. Records before the earliest of these snapshots are not
    needed."""

    def __init__(self) -> None:
        self._snapshots: dict[Key, int] = {}
        self._deleted: int | None = None
        """If the latest record deletes a state, the offset of this record, else None. As in Kafka, such a record is needed
        until a snapshot is written after it."""

    def written(self, key: Key, offset: int) -> None:
        """Register that a snapshot of a share partition was written at `offset`."""
        self._snapshots[key] = offset
        self._deleted = None

    def deleted(self, key: Key, offset: int) -> None:
        """Register that the record at `offset` deletes the state of a share partition."""
        self._snapshots.pop(key, None)
        self._deleted = offset

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._snapshots))

    @property
    def first(self) -> int:
        """The offset of the first record that is needed, or 0 if this offset is unknown."""
        offsets = list(self._snapshots.values())
        if self._deleted is not None:
            offsets.append(self._deleted)
        return min(offsets, default=0)
