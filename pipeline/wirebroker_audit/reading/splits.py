"""Splitting the segments of a log directory, so that tasks of about the same size can read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kafkawire.disk.damage import reason
from kafkawire.disk.indexes import OFFSET_ENTRY
from kafkawire.disk.names import LOG, OFFSET_INDEX, offset_of
from kafkawire.disk.opening import open_to_read, read_whole
from wirebroker_audit.logs.directory import find_partitions
from wirebroker_audit.logs.replicas import PartitionFolder
from wirebroker_audit.reading.scan import find_batch
from wirebroker_audit.reading.segments import CHUNK, Split

SPLIT_BYTES = 256 * 1024 * 1024
SMALL_BYTES = 8 * 1024 * 1024
"""The most that the segments of a small log have together."""


def is_small(folders: Iterable[PartitionFolder]) -> bool:
    """Whether the driver reads the logs in these folders as fast as executors would. It looks no farther than it must."""
    total = 0
    for folder in folders:
        with suppress(OSError):  # the reader of the splits reports it
            total += sum(each.stat().st_size for each in folder.path.iterdir() if each.name.endswith(LOG))
        if total > SMALL_BYTES:
            return False
    return True


def find_splits(root: Path, topics: tuple[str, ...] = (), split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """The splits of all partitions under `root`, in log order. Raises NotALogDirectory."""
    splits: list[Split] = []
    for folder in find_partitions(root, topics):
        try:
            names = sorted(each.name for each in folder.path.iterdir() if each.name.endswith(LOG))
        except OSError as refused:
            splits.append(_unreadable(len(splits), folder, folder.path, f"{folder.path}: {reason(refused)}"))
            continue
        firsts = {name: offset_of(name, LOG) for name in names}
        starts = [first for first in firsts.values() if first is not None]
        for name, first in firsts.items():
            if first is None:
                why = "a segment's name has 20 digits before .log"
                splits.append(_unreadable(len(splits), folder, folder.path / name, f"{folder.path / name}: {why}"))
            elif not any(first < later <= folder.log_start for later in starts):
                is_active = first == max(starts)
                splits += _splits_of(folder, folder.path / name, first, split_bytes, len(splits), is_active)
    return splits


def _splits_of(
    folder: PartitionFolder, path: Path, first_offset: int, split_bytes: int, number: int, is_active: bool
) -> Iterator[Split]:
    try:
        found = path.stat()
        if not found.st_size:
            open_to_read(path).close()  # a pipe or a device looks empty, and is refused
        bounds = [0, *_boundaries(path, found.st_size, split_bytes), found.st_size]
    except OSError as refused:
        yield _unreadable(number, folder, path, f"{path}: {reason(refused)}")
        return
    for start, stop in pairwise(bounds):
        if stop > start:
            yield Split(
                number, folder.topic, folder.partition, str(path), f"{folder.path.name}/{path.name}", start, stop,
                -1 if start else first_offset, folder.log_start, folder.cleaned_until, is_active=is_active,
                size=found.st_size, inode=found.st_ino,
            )  # fmt: skip
            number += 1


def _unreadable(number: int, folder: PartitionFolder, path: Path, error: str) -> Split:
    where = f"{folder.path.name}/{path.name}" if path != folder.path else folder.path.name
    return Split(number, folder.topic, folder.partition, str(path), where, 0, 0, -1, 0, -1, error)


def _boundaries(path: Path, size: int, split_bytes: int) -> list[int]:
    """Positions inside the segment, about `split_bytes` apart, where a batch provably begins."""
    if size <= split_bytes * 5 // 4:
        return []
    indexed = _index_positions(path.with_suffix(OFFSET_INDEX))
    found: list[int] = []
    with open_to_read(path) as file:
        for target in range(split_bytes, size - split_bytes // 4, split_bytes):
            near = int(indexed[np.searchsorted(indexed, target, "right") - 1]) if len(indexed) else 0
            begin = near if target - split_bytes // 8 < near else target
            at = _prove(file, begin, size)
            if at is not None and at > (found[-1] if found else 0):
                found.append(at)
    return found


def _index_positions(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The positions in the offset index; it is preallocated, so zeros at its end do not count."""
    try:
        raw = read_whole(path)
    except OSError:
        return np.empty(0, np.int64)
    entries = np.frombuffer(raw[: len(raw) // OFFSET_ENTRY.size * OFFSET_ENTRY.size], ">i4").reshape(-1, 2)
    positions = entries[:, 1].astype(np.int64)
    used = np.flatnonzero(positions)
    positions = positions[: used[-1] + 1] if len(used) else positions[:0]
    return positions if (np.diff(positions) >= 0).all() else np.empty(0, np.int64)


def _prove(file: BinaryIO, begin: int, size: int) -> int | None:
    """The first proven batch at or after `begin`, within a chunk or two."""
    for length in (CHUNK // 4, CHUNK * 2):
        file.seek(begin)
        view = memoryview(file.read(min(length, size - begin)))
        at = find_batch(view, 0, len(view))
        if at is not None:
            return begin + at
    return None
