"""Reads a partition's folder while a broker writes to it: finds how far the folder was read, and reads the batches after that.
No Spark here.

Segments change. Retention deletes segments, the cleaner rewrites and joins segments, and a topic can be deleted and created
again. So a mark has the offset up to which a log was read, and also the segment and the position. Reading continues at the
position if the last batch that was read still ends there. Otherwise reading continues at the offset, in the segment that now
holds it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from kafkawire.batches import HEADER_SIZE, LOG_OVERHEAD, read_header
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.names import LOG, SWAP, offset_of
from kafkawire.disk.opening import open_to_read
from kafkawire.disk.properties import PARTITION_METADATA, read_partition_metadata
from kafkawire.primitives import format_uuid
from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker_audit.reading.folders import PartitionFolder
from wirebroker_audit.reading.linker import Array
from wirebroker_audit.reading.pieces import SPLIT_BYTES, UNREAD, Mark, Piece, deleted_before_read
from wirebroker_audit.reading.remote import size_of
from wirebroker_audit.reading.scan import Chunk, damage_row, headers_at, looks_like_batch
from wirebroker_audit.reading.segments import read_opened, whole_batches

LOOKS = 20
"""A folder that changes is listed again this many times."""
_NUMBER = 0x7FFF_FFFF


def topic_id_of(folder: Path) -> str:
    """Returns the id of the topic to which the folder belongs, "" if partition.metadata is missing or damaged."""
    try:
        return format_uuid(read_partition_metadata(folder / PARTITION_METADATA))
    except (FileNotFoundError, DamagedFile):
        return ""


def segments_now(folder: Path) -> list[tuple[int, Path]]:
    """Returns the base offset and the path of each segment.

    A file that is renamed during `listdir` may be missing from its result, so two listings must agree. For a moment after a
    pass of the cleaner, a new segment still has `.swap` at the end of its name.
    """
    names = _names(folder)
    for _ in range(LOOKS):
        before, names = names, _names(folder)
        if set(before) == set(names):
            break
    found: dict[int, Path] = {}
    for name in sorted(names, reverse=True):  # if both exist, X.log comes after X.log.swap and replaces it
        if (first := offset_of(name.removesuffix(SWAP), LOG)) is not None:
            found[first] = folder / name
    return sorted(found.items())


def _names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


# Positions in a log


class _Sound(NamedTuple):
    """Batches whose checksums match."""

    begins: Array
    ends: Array
    base: Array
    next_offset: Array


def _sound_batches(file: BinaryIO, position: int) -> Iterator[_Sound]:
    for begin, view, walked in whole_batches(file, position, size_of(file)):
        rows = headers_at(view, walked.positions)
        chosen = np.flatnonzero(rows["crc"] == walked.crcs)
        if len(chosen):
            rows, begins = rows[chosen], walked.positions[chosen] + begin
            base = rows["base_offset"].astype(np.int64)
            ends = begins + rows["length"] + LOG_OVERHEAD
            yield _Sound(begins, ends, base, base + rows["last_offset_delta"] + 1)


def holds(file: BinaryIO, mark: Mark) -> bool:
    """Tells whether the last batch that was read still ends at the mark in this file. If so, everything after the mark is
    unread."""
    if mark.position == 0 or mark.last < 0:
        return mark.position == 0
    file.seek(mark.last)
    header = memoryview(file.read(HEADER_SIZE))
    if not looks_like_batch(header):
        return False
    size = int.from_bytes(header[8:12], "big") + LOG_OVERHEAD
    whole = mark.position <= size_of(file)
    return whole and mark.last + size == mark.position and read_header(header, 0).last_offset + 1 == mark.offset


class Found(NamedTuple):
    """The last batch below a given offset."""

    last: int = -1
    position: int = 0
    """the position after the last batch"""
    offset: int = -1
    """the offset after the last batch"""
    is_end: bool = False
    """whether this is the last batch of the whole file"""


def place_of(file: BinaryIO, offset: int) -> Found:
    """Returns the last batch below this offset. Damaged bytes after that batch are read again with the next batches."""
    found = Found()
    for each in _sound_batches(file, 0):
        beyond = np.flatnonzero(each.base >= offset)
        at = (int(beyond[0]) if len(beyond) else len(each.base)) - 1
        if at >= 0:
            found = Found(int(each.begins[at]), int(each.ends[at]), int(each.next_offset[at]))
        if len(beyond):
            return found
    return found._replace(is_end=True)


class Ahead:
    """The bytes after a mark, and the marks at which reading may stop, one or more for each segment.

    Raises FileNotFoundError if a broker changes the folder at the same time; the caller tries again later.
    """

    def __init__(self, folder: PartitionFolder, mark: Mark) -> None:
        self.segments = [*((each.first, each.path) for each in folder.remote), *segments_now(folder.path)]
        self.mark = self._begin(folder, mark)
        self.segments = [each for each in self.segments if each[0] >= self.mark.segment]
        self.left = max(sum(path.stat().st_size for _, path in self.segments) - self.mark.position, 0)

    def _begin(self, folder: PartitionFolder, mark: Mark) -> Mark:
        """Returns the mark at which reading continues in the current segments. If the log restarted, this is the beginning of
        the log."""
        if not self.segments:
            return mark
        topic_id = topic_id_of(folder.path)
        was_read = mark.segment >= 0
        if was_read and not mark.is_of_another(topic_id) and (found := self._again(mark)) is not None:
            return found._replace(topic_id=topic_id or mark.topic_id)
        fresh = Mark(start=folder.log_start, life=mark.life + was_read, topic_id=topic_id)
        return fresh.at_segment(_covering(self.segments, folder.log_start))

    def _again(self, mark: Mark) -> Mark | None:
        """Returns the same mark with its place in the current segments, or None if the log ends before the mark."""
        paths = dict(self.segments)
        if mark.segment in paths:
            with open_to_read(paths[mark.segment]) as file:
                if holds(file, mark):
                    return mark
        first = _covering(self.segments, mark.offset)
        if first >= mark.offset:
            return mark.at_segment(first)
        if first != self.segments[-1][0]:  # this segment is closed; the reader finds the position in it
            return mark._replace(segment=first, position=0, last=-1, crc=-1)
        with open_to_read(paths[first]) as file:
            last, position, offset, _ = place_of(file, mark.offset)
        if offset < mark.offset:
            return None
        return mark._replace(segment=first, position=position, offset=offset, last=last, crc=-1, label=mark.offset)

    def marks(self) -> Iterator[tuple[Mark, int]]:
        """Yields the next marks one after the other, each with the number of bytes since the mark before it."""
        if not self.segments:
            return
        position = self.mark.position
        for (_, path), (following, _) in zip(self.segments[:-1], self.segments[1:], strict=True):
            yield self.mark.at_segment(following), path.stat().st_size - position
            position = 0
        first, path = self.segments[-1]
        mark = self.mark if first == self.mark.segment else self.mark.at_segment(first)
        with open_to_read(path) as file:
            yield from _marks_in(file, mark)


def _marks_in(file: BinaryIO, mark: Mark) -> Iterator[tuple[Mark, int]]:
    """Yields marks in the segment that is being written."""
    begin = mark.position
    for each in _sound_batches(file, begin):
        last = int(each.begins[-1])
        mark = mark._replace(position=int(each.ends[-1]), offset=int(each.next_offset[-1]), last=last)
        if mark.position - begin >= SPLIT_BYTES:
            yield mark, mark.position - begin
            begin = mark.position
    yield mark, mark.position - begin


def _covering(segments: list[tuple[int, Path]], offset: int) -> int:
    """Returns the base offset of the segment that holds this offset, or of the first segment if the first segment begins after
    this offset."""
    return max((first for first, _ in segments if first <= offset), default=segments[0][0])


# Reading


def pieces_between(folder: PartitionFolder, begin: Mark, end: Mark) -> Iterator[Piece]:
    """Yields the pieces between two marks; pieces end where the current segments end. No batch is lost if the segments change
    before the pieces are read."""
    whole = Piece(folder.topic, folder.partition, begin, end, str(folder.path), cleaned_until=folder.cleaned_until)
    if begin.life != end.life and begin.segment >= 0:
        why = begin.why_restarted(end.topic_id)
        yield replace(whole, begin=begin.at_segment(0), problem="deleted", detail=why)
        begin = UNREAD
    segments = segments_now(folder.path) if folder.path.is_dir() else []
    if begin.segment < 0:
        first = _covering(segments, end.start) if segments else end.start
        begin = end.at_segment(min(first, end.segment))
    bounds = [end.at_segment(first) for first, _ in segments if begin.offset < first < end.offset and first <= end.segment]
    paths = dict(segments)
    for low, high in zip([begin, *bounds], [*bounds, end], strict=True):
        if (low.segment, low.position, low.offset) != (high.segment, high.position, high.offset):
            yield replace(whole, begin=low, end=high, size=_size_of(paths.get(low.segment), low, high))


def _size_of(path: Path | None, low: Mark, high: Mark) -> int:
    if low.segment == high.segment:
        return max(high.position - low.position, 0)
    try:
        return path.stat().st_size - low.position if path is not None else 0
    except FileNotFoundError:
        return 0


def read_folder(piece: Piece, expiration_ms: int = EXPIRATION_MS) -> Iterator[Chunk]:
    """Yields the batches between the marks, from the current segments, and a row for each damaged place.

    Raises OSError if a segment exists but cannot be read.
    """
    return _FolderReader(piece, expiration_ms).read()


class _FolderReader:
    """Reads segment by segment. If the folder changes, reading continues with the new segments."""

    def __init__(self, piece: Piece, expiration_ms: int) -> None:
        self.piece, self.mark, self.end, self.expiration_ms = piece, piece.begin, piece.end, expiration_ms
        self.folder = Path(piece.folder)

    def read(self) -> Iterator[Chunk]:
        for _ in range(LOOKS):
            if (yield from self._go_on()):
                return
        raise OSError(f"{self.folder}: its segments change faster than they can be read")

    def _go_on(self) -> Generator[Chunk, None, bool]:
        """Reads until the segments change. Returns whether the end was reached."""
        segments = self._segments()
        if (first := segments[0][0] if segments else self.end.offset) > self.mark.offset:
            yield self._gone(min(first, self.end.offset))
        if not segments:
            return True
        reach = max(self.end.offset, self.end.segment + (self.end.position > 0))
        firsts = [first for first, _ in segments]
        begin = self.mark.segment if self.mark.segment in firsts else _covering(segments, self.mark.offset)
        for (first, path), following in zip(segments, [*firsts[1:], None], strict=True):
            if not begin <= first < reach:
                continue
            try:
                file = open_to_read(path)
            except FileNotFoundError:
                return False
            with file:
                if following is not None and following not in dict(self._segments()):
                    return False  # the cleaner may have joined two segments into the open file
                yield from self._read(file, first, following, path)
            if following is not None:
                self.mark = self.mark.at_segment(following)
        return True

    def _segments(self) -> list[tuple[int, Path]]:
        """Returns the segments; none if the folder is gone or belongs to another topic."""
        try:
            segments = segments_now(self.folder)
        except FileNotFoundError:
            if not self.folder.parent.is_dir():
                raise
            return []
        if self.end.topic_id and topic_id_of(self.folder) not in ("", self.end.topic_id):
            return []
        return segments

    def _read(self, file: BinaryIO, first: int, following: int | None, path: Path) -> Iterator[Chunk]:
        """Yields the part of the piece that lies in one segment."""
        label, offset = self.mark.label, self.mark.offset
        if first == self.mark.segment and holds(file, self.mark):
            start = self.mark.position
        else:
            start, label = place_of(file, offset).position if first < offset else 0, max(offset, first)
        stop, cut = self._stop(file, first, following, path)
        if start < stop:
            begin = Mark(offset, first, start, label=label, start=self.end.start)
            here = replace(self.piece, begin=begin, end=begin._replace(position=stop), file=path.name, number=start & _NUMBER)
            yield from read_opened(here, file, self.expiration_ms)
        if cut is not None:
            self.mark = self.mark._replace(offset=max(cut, offset))
            yield self._gone(self.end.offset)

    def _stop(self, file: BinaryIO, first: int, following: int | None, path: Path) -> tuple[int, int | None]:
        """Returns two values: the position at which to stop, and the end of the log if it is below the offset to reach (else
        None)."""
        if first == self.end.segment and holds(file, self.end):
            return self.end.position, None
        if following is not None and following <= self.end.offset and path.suffix == LOG:
            return size_of(file), None
        stop = self.end.offset if following is None else min(following, self.end.offset)
        found = place_of(file, stop)
        is_cut = following is None and found.is_end and found.offset < stop
        return found.position, max(found.offset, first) if is_cut else None

    def _gone(self, stop: int) -> Chunk:
        """Returns a row in place of offsets that were deleted before they were read."""
        begin = self.mark.offset
        detail = deleted_before_read(begin, stop)
        here = replace(self.piece, begin=self.mark.at_segment(begin), number=0)
        self.mark = self.mark.at_segment(stop)
        return damage_row(here, "deleted", detail, position=0, size=0, expected_offset=begin)
