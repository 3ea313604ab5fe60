"""A Kafka log directory: its partitions, its segments, how they are split, and how a split is read.

The directory may be a broker's (`log.dirs`), or hold several of them, or be a single partition's folder. Of a partition
that several brokers hold, the replica that reaches farthest is read. What Kafka itself does not count as part of a log is
left out: `.deleted`, `.cleaned` and `.swap` files, folders of deleted, stray and future partitions, and
`__cluster_metadata`.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kafkawire.batches import HEADER_SIZE, LOG_OVERHEAD, read_header
from kafkawire.primitives import Buffer
from wirebroker_audit.policies import compacted_topics
from wirebroker_audit.scan import (
    EVERYTHING,
    LARGEST_BATCH,
    Chunk,
    Linker,
    Place,
    Walk,
    batch_rows,
    damage_row,
    find_batch,
    is_zero,
    looks_like_batch,
    stored_crc,
    walk,
)  # fmt: skip

SPLIT_BYTES = 256 * 1024 * 1024
CHUNK = 8 * 1024 * 1024
"""Bytes read at a time."""
METADATA_TOPIC = "__cluster_metadata"
LOST_AND_FOUND = "lost+found"
"""What a file system keeps for itself at its root, and nobody may read."""
CHECKPOINTS = ("log-start-offset-checkpoint", "cleaner-offset-checkpoint")
_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d+)")
_SEGMENT = re.compile(r"(\d{20})\.log")
_INDEX_ENTRY = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")


class NotALogDirectory(Exception):
    """There is nothing to audit there; the text says what was looked for."""


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """One partition's folder, and what the checkpoints beside it say of it."""

    path: Path
    topic: str
    partition: int
    log_start: int
    """offsets below it are no longer part of the log"""
    cleaned_until: int
    """offsets below it may have been compacted away; −1 if the cleaner never ran"""
    passed_over: tuple[Path, ...] = ()
    """other replicas of it"""
    first_segment: int = 0
    """the offset by which the first segment is named. Kafka writes no checkpoint where retention took whole segments"""

    @property
    def begins_at(self) -> int:
        """Where the log begins, as far as anything says."""
        return max(self.log_start, self.first_segment)


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of one segment: the batches that begin in it."""

    number: int
    topic: str
    partition: int
    path: str
    segment: str
    """the path from the folder that was named"""
    start: int
    stop: int
    first_offset: int
    """the segment's, −1 where the split does not begin at the segment's beginning"""
    log_start: int
    cleaned_until: int
    error: str = ""
    """why nothing can be read"""
    problem: str = "unreadable"
    """what that is: unreadable, or deleted meanwhile"""
    size: int = 0
    """bytes of the file when it was split, and its inode: if both have changed it is another one by now; 0: not known"""
    inode: int = 0


def find_partitions(root: Path, topics: tuple[str, ...] = ()) -> list[PartitionFolder]:
    """The partitions under `root`, in the order of topic and partition. Raises NotALogDirectory."""
    if not root.is_dir():
        raise NotALogDirectory(f"{root} is not a directory" if root.exists() else f"{root} does not exist")
    resolved = root.resolve()
    try:
        if _named(resolved.name) and any(_SEGMENT.fullmatch(each) for each in os.listdir(resolved)):
            found = _partitions_in({resolved.parent: [resolved]})
        elif folders := _folders_in(resolved):
            found = _partitions_in({resolved: folders})
        else:
            found = _partitions_in({log_dir: _folders_in(log_dir) for log_dir in _log_dirs_in(resolved)})
    except OSError as refused:
        raise NotALogDirectory(f"{refused.filename}: {refused.strerror}") from refused
    if not found:
        raise NotALogDirectory(f"{root} holds no partition: no folder like `orders-0` is in it")
    if topics and (missing := set(topics) - {each.topic for each in found}):
        raise NotALogDirectory(f"{root} holds no topic {', '.join(sorted(missing))}")
    chosen = _one_of_each([each for each in found if not topics or each.topic in topics])
    return sorted(chosen, key=lambda each: (each.topic, each.partition))


def _folders_in(log_dir: Path) -> list[Path]:
    """The folders that are partitions by their names; a broker's own directory may be called `node-1`."""
    folders = [each for each in sorted(log_dir.iterdir()) if _named(each.name) and each.is_dir()]
    return [each for each in folders if not (each / "meta.properties").exists()]


def _one_of_each(found: list[PartitionFolder]) -> list[PartitionFolder]:
    """Of the replicas of a partition the one that reaches farthest."""
    replicas: dict[tuple[str, int], list[PartitionFolder]] = {}
    for each in found:
        replicas.setdefault((each.topic, each.partition), []).append(each)
    chosen = []
    for alike in replicas.values():
        farthest = max(alike, key=_reach) if len(alike) > 1 else alike[0]
        chosen.append(replace(farthest, passed_over=tuple(each.path for each in alike if each is not farthest)))
    return chosen


def _reach(folder: PartitionFolder) -> int:
    """The offset behind the last whole batch. The names of the segments do not tell: each replica rolls its own."""
    try:
        segments = segments_of(folder)
        if not segments:
            return -1
        end, path = segments[-1]
        with path.open("rb") as file:
            for _, view, walked in whole_batches(file, 0, os.fstat(file.fileno()).st_size):
                end = read_header(view, walked.positions[-1]).last_offset + 1
        return end
    except OSError:
        return -1


def _named(name: str) -> re.Match[str] | None:
    match = _FOLDER.fullmatch(name)
    return None if match is None or match["topic"] == METADATA_TOPIC or name.endswith("-delete") else match


def _log_dirs_in(root: Path) -> list[Path]:
    """The folders that may be log directories, as far as they can be read."""
    return [each for each in sorted(root.iterdir()) if each.is_dir() and os.access(each, os.R_OK | os.X_OK)]


def _partitions_in(log_dirs: dict[Path, list[Path]]) -> list[PartitionFolder]:
    """The partitions of log directories, with the folders in each that are some."""
    compacted = frozenset[str]().union(*map(compacted_topics, log_dirs))
    result = []
    for log_dir, folders in log_dirs.items():
        starts, cleaned = (read_checkpoint(log_dir / name) for name in CHECKPOINTS)
        for folder in folders:
            match = _FOLDER.fullmatch(folder.name)
            assert match is not None
            key = (match["topic"], int(match["partition"]))
            # where it cannot be known what was compacted, any hole may come of that
            unknown = cleaned is None or (key not in cleaned and key[0] in compacted)
            cleaned_until = EVERYTHING if unknown else (cleaned or {}).get(key, -1)
            made = PartitionFolder(folder, *key, (starts or {}).get(key, 0), cleaned_until)
            result.append(_with_segments(made, key[0] in compacted))
    return result


def _with_segments(folder: PartitionFolder, compacts: bool) -> PartitionFolder:
    """What the names of the segments add to the checkpoints.

    The cleaner rewrites whole segments, and leaves aborted batches out up to the end of the one in which its checkpoint
    lies (Kafka's Cleaner.doClean). It writes that when it is through; until then it may have been anywhere but in the
    last segment.
    """
    try:
        starts = [first for first, _ in segments_of(folder)]
    except OSError:
        return folder  # which is said where it is to be read
    cleaned_until = folder.cleaned_until
    if cleaned_until > 0:
        cleaned_until = next((first for first in starts if first >= cleaned_until), cleaned_until)
    if compacts:
        cleaned_until = max([cleaned_until, *starts[-1:]])
    return replace(folder, first_segment=starts[0] if starts else 0, cleaned_until=cleaned_until)


def read_checkpoint(path: Path) -> dict[tuple[str, int], int] | None:
    """Offsets by topic and partition, none if there is no such file or nothing in it; None if it cannot be read."""
    try:
        if not (text := path.read_text(encoding="utf-8")):
            return {}  # as Kafka makes it, until there is something to say
        _version, count, *lines = text.splitlines()
        found = {}
        for line in lines[: int(count)]:
            topic, partition, offset = line.split(" ")
            found[topic, int(partition)] = int(offset)
        return found if len(found) == int(count) else None
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        return None


def unreadable_in(root: Path) -> list[str]:
    """Sentences about folders that may be log directories, and that nobody lets us read."""
    if _named(root.resolve().name) or _folders_in(root):
        return []
    known = _log_dirs_in(root)
    folders = [each for each in sorted(root.iterdir()) if each.is_dir() and each.name != LOST_AND_FOUND]
    return [f"{each}: it cannot be read, so that nothing in it was audited" for each in folders if each not in known]


def said_of(folders: list[PartitionFolder]) -> tuple[list[str], list[str]]:
    """What could not be read beside the logs, and what was passed over."""
    log_dirs = sorted({each.path.parent for each in folders})
    damaged = [log_dir / name for log_dir in log_dirs for name in CHECKPOINTS if read_checkpoint(log_dir / name) is None]
    copies = [(each, path) for each in folders for path in each.passed_over]
    return (
        [f"{path}: this is no checkpoint of offsets" for path in damaged],
        [f"{each.topic}-{each.partition}: {path} is another replica, and was not read" for each, path in copies],
    )


def find_splits(root: Path, topics: tuple[str, ...] = (), split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """The splits of all partitions under `root`, in the order of the log. Raises NotALogDirectory."""
    splits: list[Split] = []
    for folder in find_partitions(root, topics):
        try:
            names = sorted(each for each in os.listdir(folder.path) if each.endswith(".log"))
        except OSError as refused:
            splits.append(_unreadable(len(splits), folder, folder.path, f"{folder.path}: {refused.strerror}"))
            continue
        starts = [int(match[1]) for each in names if (match := _SEGMENT.fullmatch(each))]
        for name in names:
            match = _SEGMENT.fullmatch(name)
            if match is None:
                why = "its name is not that of a segment: 20 digits and .log"
                splits.append(_unreadable(len(splits), folder, folder.path / name, f"{folder.path / name}: {why}"))
            elif not any(int(match[1]) < later <= folder.log_start for later in starts):
                splits += _splits_of(folder, folder.path / name, int(match[1]), split_bytes, len(splits))
    return splits


def segments_of(folder: PartitionFolder) -> list[tuple[int, Path]]:
    """The first offset and the path of each segment, in order."""
    names = sorted(os.listdir(folder.path))
    return [(int(match[1]), folder.path / name) for name in names if (match := _SEGMENT.fullmatch(name))]


def next_batch(file: BinaryIO, begin: int, size: int) -> int | None:
    """The next proven batch from `begin` up to the end of the file."""
    while begin < size:
        view = _read_at(file, begin, min(2 * CHUNK, size - begin))
        at = find_batch(view, 0, min(len(view), CHUNK))
        if at is not None:
            return begin + at
        begin += CHUNK
    return None


def _splits_of(folder: PartitionFolder, path: Path, first_offset: int, split_bytes: int, number: int) -> Iterator[Split]:
    try:
        found = path.stat()
        bounds = [0, *_boundaries(path, found.st_size, split_bytes), found.st_size]
    except OSError as refused:
        yield _unreadable(number, folder, path, f"{path}: {refused.strerror}")
        return
    for start, stop in pairwise(bounds):
        if stop > start:
            yield Split(
                number, folder.topic, folder.partition, str(path), f"{folder.path.name}/{path.name}", start, stop,
                -1 if start else first_offset, folder.log_start, folder.cleaned_until, size=found.st_size, inode=found.st_ino,
            )  # fmt: skip
            number += 1


def _unreadable(number: int, folder: PartitionFolder, path: Path, error: str) -> Split:
    where = f"{folder.path.name}/{path.name}" if path != folder.path else folder.path.name
    return Split(number, folder.topic, folder.partition, str(path), where, 0, 0, -1, 0, -1, error)


def _boundaries(path: Path, size: int, split_bytes: int) -> list[int]:
    """Positions inside the segment, about `split_bytes` apart, at each of which a batch is proven to begin."""
    if size <= split_bytes * 5 // 4:
        return []
    indexed = _index_positions(path.with_suffix(".index"))
    found: list[int] = []
    with path.open("rb") as file:
        for target in range(split_bytes, size - split_bytes // 4, split_bytes):
            near = int(indexed[np.searchsorted(indexed, target, "right") - 1]) if len(indexed) else 0
            begin = near if target - split_bytes // 8 < near else target
            at = _prove(file, begin, size)
            if at is not None and at > (found[-1] if found else 0):
                found.append(at)
    return found


def _index_positions(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The positions that the offset index knows; it is preallocated, so zeros at its end count for nothing."""
    try:
        raw = path.read_bytes()
    except OSError:
        return np.empty(0, np.int64)
    entries = np.frombuffer(raw[: len(raw) // _INDEX_ENTRY.size * _INDEX_ENTRY.size], ">i4").reshape(-1, 2)
    positions = entries[:, 1].astype(np.int64)
    used = np.flatnonzero(positions)
    positions = positions[: used[-1] + 1] if len(used) else positions[:0]
    return positions if (np.diff(positions) >= 0).all() else np.empty(0, np.int64)


def _prove(file: BinaryIO, begin: int, size: int) -> int | None:
    """The first proven batch at `begin` or behind it, as far as a chunk or two tell."""
    for length in (CHUNK // 4, CHUNK * 2):
        file.seek(begin)
        view = memoryview(file.read(min(length, size - begin)))
        at = find_batch(view, 0, len(view))
        if at is not None:
            return begin + at
    return None


def read_split(split: Split) -> Iterator[Chunk]:
    """The batches that begin in the split, and a row for each damage. A file that cannot be read is a row as well."""
    reader = _reader_of(split)
    if split.error:
        yield reader.damage(split.problem, split.error, 0, 0)
        return
    try:
        with open(split.path, "rb", buffering=0) as file:
            yield from reader.read(file)
    except FileNotFoundError:
        yield reader.gone()
    except OSError as refused:
        where = f"{split.path} at {reader.position}"
        yield reader.damage("unreadable", f"{where}: {refused.strerror or refused}", reader.position, 0)


def read_opened(split: Split, file: BinaryIO) -> Iterator[Chunk]:
    """As `read_split`, from a file that is open already, and may have another name by now."""
    return _reader_of(split).read(file)


def _reader_of(split: Split) -> _SplitReader:
    place = Place(split.topic, split.partition, split.segment, split.number, split.log_start, split.cleaned_until)
    linker = Linker(split.number)
    linker.start_at(max(split.first_offset, 0))
    return _SplitReader(split, place, linker)


class _SplitReader:
    """Walks through a split chunk by chunk, and over what is damaged."""

    def __init__(self, split: Split, place: Place, linker: Linker) -> None:
        self.split, self.place, self.linker = split, place, linker
        self.position = split.start
        self._size = 0

    def damage(self, problem: str, detail: str, position: int, size: int, head: Buffer = b"") -> Chunk:
        expected = self.linker.next_offset
        return damage_row(self.place, problem, detail, position=position, size=size, expected_offset=expected, head=head)

    def gone(self) -> Chunk:
        """The file is not there any more: retention or the cleaner took it, or somebody deleted the topic."""
        folder = Path(self.split.path).parent
        if folder.exists():
            return self.damage("deleted", f"{self.split.path} was deleted before it was read", self.position, 0)
        return self.damage("unreadable", f"{folder} is not there any more: the topic was deleted", self.position, 0)

    def read(self, file: BinaryIO) -> Iterator[Chunk]:
        status = os.fstat(file.fileno())
        self._size = status.st_size
        if self._size < self.split.size and status.st_ino != self.split.inode:
            yield self.damage("deleted", f"{self.split.path} was compacted before it was read", self.position, 0)
            return
        buffer = bytearray(CHUNK)
        wanted = CHUNK
        while self.position < self.split.stop:
            view = _read_at(file, self.position, min(wanted, self._size - self.position), buffer)
            if not view:  # as Kafka cuts off space that it had set aside, or a follower what its leader has not
                yield self.damage("deleted", f"{self.split.path} was cut to {self.position} bytes while it was read",
                                  self.position, 0)  # fmt: skip
                return
            found = walk(view, 0, self.split.stop - self.position)
            if found.positions and (end := self._trusted_end(file, view, found)):
                rows = batch_rows(view, found.until(end), self.place, self.linker, self.position)
                yield Chunk(view, rows, self.position)
                self.position += end
                wanted = CHUNK
                continue
            needed = _needed(view)
            if needed > len(view) and self.position + needed <= self._size:
                wanted = needed
                continue
            row, self.position = self._skip(file, view)
            if row is not None:
                yield row

    def _trusted_end(self, file: BinaryIO, view: memoryview, found: Walk) -> int:
        """Where the walk is to end: before its last batch if its CRC is bad and no batch begins behind it.

        Then it is its length that is wrong, or its end was never written.
        """
        begin, end = found.positions[-1], found.end
        if found.crcs[-1] == stored_crc(view, begin) or self.position + end >= self._size:
            return end
        position = self.position + end
        head = _read_at(file, position, min(HEADER_SIZE, self._size - position))
        if looks_like_batch(head, 0) or (not any(head) and any(view[end - 16 : end])):
            return end
        return begin

    def _skip(self, file: BinaryIO, view: memoryview) -> tuple[Chunk | None, int]:
        """What is to be said of bytes that are no batch, and where to go on."""
        begin, size = self.position, self._size
        head = bytes(view[:HEADER_SIZE])
        if is_zero(_pieces(file, begin, size)):
            return None, self.split.stop
        if _read_at(file, begin, len(head)) != head:  # it was being written; it is there now
            return None, begin
        at = next_batch(file, begin + 1, size)
        words = _what_is_wrong(view, size - begin)
        if at is not None:
            detail = f"{words}; {at - begin} bytes up to the next batch were skipped"
            return self.damage("bad_batch", detail, begin, at - begin, head), at
        torn = len(view) < HEADER_SIZE or looks_like_batch(view, 0)
        detail = f"{words}; {size - begin} bytes up to the end of the file hold no whole batch"
        return self.damage("torn_tail" if torn else "bad_batch", detail, begin, size - begin, head), self.split.stop


def _needed(view: memoryview) -> int:
    """How many bytes the batch at the beginning of the view needs, 0 if that cannot be believed."""
    if not looks_like_batch(view, 0):
        return HEADER_SIZE if len(view) < HEADER_SIZE else 0
    return int(_LENGTH.unpack_from(view, 8)[0]) + LOG_OVERHEAD


def _what_is_wrong(view: memoryview, left: int) -> str:
    if len(view) < HEADER_SIZE:
        return f"{left} bytes are left where a header has {HEADER_SIZE}"
    magic = int(np.int8(np.uint8(view[16])))
    (length,) = _LENGTH.unpack_from(view, 8)
    if magic != 2:
        return f"the magic byte is {magic}, not 2"
    if not HEADER_SIZE - LOG_OVERHEAD <= length <= LARGEST_BATCH:
        return f"the length is {length}"
    if length + LOG_OVERHEAD > left:
        return f"the batch says that it has {length + LOG_OVERHEAD} bytes, and {left} are left"
    return f"the batch says that it has {length + LOG_OVERHEAD} bytes, but its checksum does not fit and no batch follows"


def _read_at(file: BinaryIO, position: int, size: int, buffer: bytearray | None = None) -> memoryview:
    """Up to `size` bytes from `position` on; in `buffer`, if one is given and large enough."""
    file.seek(position)
    if buffer is None or len(buffer) < size:
        buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        count = file.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    return view[:filled]


def _pieces(file: BinaryIO, begin: int, end: int) -> Iterator[memoryview]:
    while begin < end:
        piece = _read_at(file, begin, min(CHUNK, end - begin))
        if not piece:
            return
        yield piece
        begin += len(piece)


def whole_batches(file: BinaryIO, position: int, size: int) -> Iterator[tuple[int, memoryview, Walk]]:
    """Where a stretch of whole batches begins, its bytes, and the walk over them; over damage as far as a batch is proven.

    It ends before what is still being written.
    """
    wanted = 2 * CHUNK
    while position < size:
        view = _read_at(file, position, min(wanted, size - position))
        walked = walk(view, 0, len(view))
        if walked.positions:
            yield position, view, walked
            position, wanted = position + walked.end, 2 * CHUNK
            continue
        needed = _needed(view)
        if len(view) < needed <= size - position:
            wanted = needed
            continue
        behind = None if needed > len(view) else next_batch(file, position + 1, size)
        if behind is None:
            return
        position = behind
