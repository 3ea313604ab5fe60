"""Compares the files of a partition: checks that its indexes and the checkpoints match its log.

A broker that stopped cleanly has checked every batch. So the next start reads only the ends of the files in a large directory.
All other batches are checked later, when clients read them. A start reads a small directory completely.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from struct import Struct

from kafkawire.batches import HEADER_SIZE
from kafkawire.disk.checkpoints import LEADER_EPOCHS
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.indexes import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    AbortedTransaction,
    read_transaction_index,
)
from kafkawire.disk.names import (
    LOG,
    OFFSET_INDEX,
    SEGMENT_FILES,
    TIME_INDEX,
    TRANSACTION_INDEX,
    Listing,
    file_name,
)
from kafkawire.disk.opening import read_whole
from wirebroker.storage.notes import note
from wirebroker.storage.segment import Segment

BYTES_AT_START = 16 * 1024 * 1024
"""From the cleanly closed segments of all partitions together, a start reads at most this many bytes."""
LEAST = 16 * 1024
"""A smaller segment counts as this many bytes towards the limit."""


class Inspection:
    """Decides which cleanly closed segments a start reads completely."""

    def __init__(self, allowed: int = BYTES_AT_START) -> None:
        self._left = allowed

    def takes(self, path: Path) -> bool:
        """Tells whether the start should read this file completely. If so, subtracts the file's size from the number of bytes
        that the start may still read.
        """
        if self._left < LEAST:
            return False
        cost = max(path.stat().st_size, LEAST)
        if cost > self._left:
            return False
        self._left -= cost
        return True


def check_names(folder: Path, present: Listing, reached: int) -> None:
    """Raises DamagedFile if a segment's log file is missing, but its index, the leader epochs or a checkpoint shows that the
    segment existed.
    """
    logs = present.offsets[LOG]
    for suffix in SEGMENT_FILES[1:]:
        orphans = sorted(set(present.offsets[suffix]) - set(logs))
        # If the disk was full when a segment was created, only its empty indexes exist, because the log file is made last.
        orphans = [offset for offset in orphans if (folder / file_name(offset, suffix)).stat().st_size]
        if orphans:
            name = file_name(orphans[0], suffix)
            raise DamagedFile(
                folder / file_name(orphans[0], LOG),
                f"it is missing, but its index {name} is there. Restore the segment from a copy; to continue without its "
                f"records, remove the files whose names begin with {orphans[0]:020d}",
            )
    if not logs and (LEADER_EPOCHS in present.names or reached > 0):
        raise DamagedFile(
            folder,
            f"it has no segments, but the log {f'had reached offset {reached}' if reached else 'had begun'}. Restore the "
            "segments from a copy; to continue with an empty log, empty the folder",
        )


def unfit_indexes(segment: Segment, aborted: Sequence[AbortedTransaction], complete: bool) -> list[Path]:
    """Returns those indexes of a closed segment that contradict the segment's batches. The caller must rebuild these indexes.

    `segment` was read before, and `aborted` are the transactions that its markers abort. With `complete`, the log has lost no
    batches, so `aborted` has all aborted transactions. Raises DamagedFile if perhaps not the index but the log file is wrong,
    because the log file may belong to another partition.
    """
    fits = {
        OFFSET_INDEX: _offsets_fit(segment),
        TIME_INDEX: _times_fit(segment),
        TRANSACTION_INDEX: _transactions_fit(segment, aborted, complete=complete),
    }
    unfit = [segment.path(suffix) for suffix, fit in fits.items() if not fit]
    for path in unfit:
        note(f"{path}: this index does not match the log; the broker rebuilds it")
    return unfit


def _entries(path: Path, entry: Struct, segment: Segment) -> list[tuple[int, ...]] | None:
    """Returns the entries of an index file. Returns None if the file is missing, has a wrong size, or has more entries than the
    segment has batches.
    """
    try:
        raw = read_whole(path)
    except FileNotFoundError:
        return None
    if len(raw) % entry.size or len(raw) // entry.size > segment.size // HEADER_SIZE:
        return None
    return list(entry.iter_unpack(raw))


def _offsets_fit(segment: Segment) -> bool:
    entries = _entries(segment.path(OFFSET_INDEX), OFFSET_ENTRY, segment)
    index, base = segment.index, segment.base_offset
    if entries is None or entries == [(o - base, p) for o, p in zip(index.offsets, index.positions, strict=True)]:
        return entries is not None
    if any(one[1] >= other[1] for one, other in pairwise(entries)):
        return False
    # A run of Kafka writes more than index.interval.bytes before it adds its first entry, so an index may stay empty.
    if all(0 < position < segment.size and segment.holds(base + relative, position) for relative, position in entries):
        return True
    _check_owner(segment, entries)
    return False


def _check_owner(segment: Segment, entries: Sequence[tuple[int, ...]]) -> None:
    """Raises DamagedFile if two entries of the offset index are wrong, because then the index belongs to another log.

    In an entry of a Kafka before version 4, the position belongs to the first batch of an append, and the offset belongs to the
    last batch.
    """
    base, path = segment.base_offset, segment.path(OFFSET_INDEX)
    wrong = []
    for number, (relative, position) in enumerate(entries):
        header = segment.header_at(position)
        if header is None or header.magic != 2 or header.base_offset > base + relative:
            wrong.append((number, base + relative, position))
    if len(wrong) > 1:
        number, offset, position = wrong[0]
        why = f"this index says that the batch with offset {offset} begins at position {position}"
        raise _contradicts(path, why, number * OFFSET_ENTRY.size)


def _times_fit(segment: Segment) -> bool:
    segment.note_end()
    path = segment.path(TIME_INDEX)
    entries = _entries(path, TIME_ENTRY, segment)
    index, base = segment.index, segment.base_offset
    if entries is None or entries == [(t, o - base) for t, o in zip(index.stamps, index.newest, strict=True)]:
        return entries is not None
    last = -1
    for number, (timestamp, relative) in enumerate(entries):
        header = segment.header_of(base + relative)
        if header is None or header.max_timestamp != timestamp or timestamp <= last:
            why = f"this index says that the batch with offset {base + relative} has the timestamp {timestamp}"
            raise _contradicts(path, why, number * TIME_ENTRY.size)
        last = timestamp
    return last == segment.max_timestamp


def _transactions_fit(segment: Segment, aborted: Sequence[AbortedTransaction], *, complete: bool) -> bool:
    path = segment.path(TRANSACTION_INDEX)
    try:
        written = read_transaction_index(path)
    except DamagedFile:
        return False
    if written == list(aborted):
        return True
    if complete or not written:
        return False
    by_end = {each.last_offset: each for each in written}
    for each in aborted:
        found = by_end.get(each.last_offset)
        if found is None or found.producer_id != each.producer_id or found.first_offset > each.first_offset:
            raise _contradicts(path, f"this index lacks the transaction that was aborted at offset {each.last_offset}", 0)
    for number, each in enumerate(written):
        header = segment.header_of(each.last_offset)
        if header is None or not header.is_control or header.producer_id != each.producer_id:
            why = f"this index says that producer {each.producer_id} has aborted a transaction at offset {each.last_offset}"
            raise _contradicts(path, why, number * TRANSACTION_ENTRY.size)
    return True


def _contradicts(path: Path, why: str, position: int) -> DamagedFile:
    log = path.with_suffix(LOG).name
    return DamagedFile(
        path, f"{why}, but {log} contradicts this. If the log is right, remove the index; the next start rebuilds it", position
    )
