"""Divides a whole log into pieces, so that tasks of about the same size read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kafkawire.disk.damage import reason
from kafkawire.disk.indexes import OFFSET_ENTRY
from kafkawire.disk.names import LOG, OFFSET_INDEX, offset_of
from kafkawire.disk.opening import open_to_read, read_whole
from wirebroker.client.settings import Access
from wirebroker_audit.logs.directory import find_partitions
from wirebroker_audit.reading.folders import EVERYTHING, PartitionFolder
from wirebroker_audit.reading.pieces import SPLIT_BYTES, Mark, Piece
from wirebroker_audit.reading.scan import find_batch
from wirebroker_audit.reading.segments import CHUNK
from wirebroker_audit.wire import PLAINTEXT, LivePartition

LEAST_SHARE = 16 * 1024 * 1024
"""To give work to all cores, pieces and tasks are made smaller, down to about this many bytes."""
SMALL_BYTES = 8 * 1024 * 1024
"""The segments of a small log have at most this many bytes in all."""


def is_small(folders: Iterable[PartitionFolder]) -> bool:
    """Tells whether the driver reads the logs in these folders as fast as executors would. The function stops as soon as the
    folders that it has seen are too large.
    """
    total = 0
    for folder in folders:
        with suppress(OSError):  # whoever reads the pieces reports the error
            total += sum(each.stat().st_size for each in folder.path.iterdir() if each.name.endswith(LOG))
        total += sum(each.size for each in folder.remote)
        if total > SMALL_BYTES:
            return False
    return True


def directory_pieces(folders: Iterable[PartitionFolder], split_bytes: int = SPLIT_BYTES, cores: int = 1) -> list[Piece]:
    """Returns the pieces of these partitions in log order. The pieces of a small log are smaller, so that all cores have
    work."""
    folders = list(folders)
    pieces = numbered(piece for folder in folders for piece in _pieces_of(folder, split_bytes))
    share = -(-sum(each.size for each in pieces) // cores)
    if LEAST_SHARE <= share < split_bytes:
        pieces = numbered(piece for folder in folders for piece in _pieces_of(folder, share))
    return pieces


def cluster_pieces(live: Iterable[LivePartition], bootstrap: str, count: int = 1, access: Access = PLAINTEXT) -> list[Piece]:
    """Divides the partitions into about `count` pieces with about the same number of offsets. An empty partition has no
    piece."""
    live = list(live)
    size = max(-(-sum(each.end - each.start for each in live) // max(count, 1)), 1)
    return numbered(
        cluster_piece(each.topic, each.partition, Mark(start, start=each.start, compacted=int(each.compacted is not False)),
                      min(start + size, each.end), bootstrap, access)
        for each in live
        for start in range(each.start, each.end, size)
    )  # fmt: skip


def cluster_piece(topic: str, partition: int, begin: Mark, end: int, bootstrap: str, access: Access = PLAINTEXT) -> Piece:
    """Returns a piece of a live partition, from the mark up to an offset."""
    return Piece(
        topic, partition, begin, begin._replace(offset=end), bootstrap=bootstrap, access=access,
        cleaned_until=EVERYTHING if begin.compacted else -1, size=end - begin.offset,
    )  # fmt: skip


def find_pieces(root: Path, topics: tuple[str, ...] = (), split_bytes: int = SPLIT_BYTES) -> list[Piece]:
    """Returns the pieces of all partitions under `root`. Raises NotALogDirectory."""
    return directory_pieces(find_partitions(root, topics), split_bytes)


def numbered(pieces: Iterable[Piece], first: int = 0) -> list[Piece]:
    """Gives the pieces successive numbers that begin with `first`."""
    return [replace(each, number=number) for number, each in enumerate(pieces, first)]


def _pieces_of(folder: PartitionFolder, split_bytes: int) -> Iterator[Piece]:
    yield from _remote_pieces(folder)
    try:
        names = sorted(each.name for each in folder.path.iterdir() if each.name.endswith(LOG))
    except OSError as refused:
        yield _unreadable(folder, f"{folder.path}: {reason(refused)}")
        return
    firsts = {name: offset_of(name, LOG) for name in names}
    starts = [first for first in firsts.values() if first is not None]
    for name, first in firsts.items():
        if first is None:
            yield _unreadable(folder, f"{folder.path / name}: a segment's name has 20 digits before .log")
        elif not any(first < later <= folder.log_start for later in starts):
            yield from _pieces_in(folder, folder.path / name, first, split_bytes, first == max(starts))


def _remote_pieces(folder: PartitionFolder) -> Iterator[Piece]:
    """Yields a piece for each remote segment. A remote segment is not divided: to find a batch in its middle, the driver would
    have to read from the store."""
    for each in folder.remote:
        mark = Mark(start=folder.log_start).at_segment(each.first)
        if each.size:
            yield Piece(
                folder.topic, folder.partition, mark, mark._replace(position=each.size), str(each.folder), each.name,
                cleaned_until=folder.cleaned_until, size=each.size, file_size=each.size, until=each.until,
                manifest=each.manifest,
            )  # fmt: skip


def _pieces_in(folder: PartitionFolder, path: Path, first: int, split_bytes: int, is_active: bool) -> Iterator[Piece]:
    try:
        found = path.stat()
        if not found.st_size:
            open_to_read(path).close()  # a pipe or a device looks empty, and is refused
        bounds = [0, *_boundaries(path, found.st_size, split_bytes), found.st_size]
    except OSError as refused:
        yield _unreadable(folder, f"{path}: {reason(refused)}")
        return
    mark = Mark(start=folder.log_start).at_segment(first)
    for start, stop in pairwise(bounds):
        if stop > start:
            yield Piece(
                folder.topic, folder.partition, mark._replace(position=start), mark._replace(position=stop), str(folder.path),
                path.name, cleaned_until=folder.cleaned_until, size=stop - start, is_active=is_active,
                file_size=found.st_size, inode=found.st_ino,
            )  # fmt: skip


def _unreadable(folder: PartitionFolder, detail: str) -> Piece:
    return Piece(folder.topic, folder.partition, Mark(), Mark(), problem="unreadable", detail=detail)


def _boundaries(path: Path, size: int, split_bytes: int) -> list[int]:
    """Returns positions in the segment, about `split_bytes` apart, at which a batch provably begins."""
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
    """Returns the positions in the offset index. The file is preallocated, so zeros at its end do not count."""
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
    """Returns the position of the first whole batch with a matching CRC at or after `begin`; None if the two chunks after
    `begin` hold no such batch."""
    for length in (CHUNK // 4, CHUNK * 2):
        file.seek(begin)
        view = memoryview(file.read(min(length, size - begin)))
        at = find_batch(view, len(view))
        if at is not None:
            return begin + at
    return None
