"""Compares the replicas of a partition batch by batch, like `kafka-replica-verification`. The logs must not change during the
comparison.

A follower stores its leader's batches unchanged, so below the high watermark two replicas have the same batches with the same
checksums. A segment's copy in a remote store has the same batches, too. A task compares one segment of another replica, or of
the store, with the batches that the audited replica has at the same offsets. Memory does not grow with the logs, and a segment
has at most one finding of each kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kafkawire.disk.names import LOG, file_name, offsets_in
from kafkawire.disk.opening import open_to_read
from wirebroker.audit.findings import Finding, Severity, plural
from wirebroker_audit.logs.tails import tail_of
from wirebroker_audit.reading.folders import EVERYTHING, PartitionFolder, RemoteFile
from wirebroker_audit.reading.linker import Array
from wirebroker_audit.reading.manifests import why_unreadable
from wirebroker_audit.reading.scan import headers_at
from wirebroker_audit.reading.segments import whole_batches

BASE, LAST, CRC, COMPUTED, POSITION = range(5)
"""The columns of a batch: its offsets, the checksum in its header, the checksum computed from its bytes, and its position."""
_SAME = np.dtype([("base", "i8"), ("last", "i8"), ("crc", "i8")])


def at_the_ends(folder: PartitionFolder) -> Iterator[Finding]:
    """Reports each replica whose log ends below the high watermark in the checkpoint of the replica's broker."""
    read = folder if folder.others else folder.with_tail(tail_of(folder.path))
    for each in (read, *read.others):
        if 0 <= each.tail.end < each.high_watermark:
            yield _truncated(each)
    wanted = min(read.high_watermark, read.tail.end)
    for each in read.others:
        if 0 <= each.tail.end < wanted:
            words = (
                f"{each.name}: the replica of {each.owner} ends at offset {each.tail.end}, {_records(wanted - each.tail.end)} "
                f"below the high watermark {wanted} of {read.owner}"
            )
            yield _finding("replica_behind", "info", each, (each.tail.end, wanted - 1), words, high_watermark=wanted)


def _truncated(folder: PartitionFolder) -> Finding:
    """Returns the finding about a log that ends below the high watermark in its broker's checkpoint.

    When a broker shuts down, it writes the checkpoint last. In a copy of a running broker's directory, the checkpoint may be
    newer than the log.
    """
    end, mark = folder.tail.end, folder.high_watermark
    words = (
        f"{folder.name}: the log of {folder.owner} ends at offset {end}, but its broker wrote down the high watermark {mark}: "
        f"{_records(mark - end)} that consumers could read {'is' if mark - end == 1 else 'are'} gone"
    )
    if not folder.was_stopped:
        words += ", unless the directory was copied while the broker ran"
    severity: Severity = "certain" if folder.was_stopped else "likely"
    return _finding("truncated", severity, folder, (end, mark - 1), words, end=end, high_watermark=mark)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two things to compare: the audited replica, and either a segment of another replica, or a segment's copy in a remote
    store."""

    read: PartitionFolder
    other: PartitionFolder
    first: int
    """the segment's base offset"""
    stop: int
    """the base offset of the next segment, or the end of the log"""
    copy: RemoteFile | None = None
    """the copy in a remote store, if the pair has one: `other` is then the folder of the copies"""

    @property
    def file(self) -> str:
        """The path of the segment."""
        return str(self.copy.path if self.copy is not None else self.other.path / file_name(self.first, LOG))


def pairs(folders: Iterable[PartitionFolder]) -> Iterator[Pair]:
    """Yields the pairs of segments that the comparison has to read."""
    for read in folders:
        for other in read.others:
            try:
                starts = offsets_in(other.path, LOG)
            except OSError:
                continue
            stops = [*starts[1:], max(other.tail.end, *starts[-1:])] if starts else []
            yield from (Pair(read, other, first, stop) for first, stop in zip(starts, stops, strict=True))
        if read.copied:
            yield from _copies(read)


def _copies(folder: PartitionFolder) -> Iterator[Pair]:
    """Yields a pair for each remote copy of a local segment. Compares only the batches that the local log still has."""
    read = folder if folder.others else folder.with_tail(tail_of(folder.path))
    try:
        local = min(offsets_in(folder.path, LOG), default=EVERYTHING)
    except OSError:
        return
    for each in folder.copied:
        tail = read.tail._replace(end=each.until)
        other = replace(folder, path=each.folder, node=None, others=(), remote=(), first_segment=local, tail=tail)
        yield Pair(read, other, each.first, each.until, each)


def compare(pair: Pair) -> list[Finding]:
    """Returns findings about this segment of the other replica: damaged batches, and batches that differ."""
    damage, differing = _Stretch(), _Stretch()
    try:
        if pair.copy is not None and pair.copy.manifest and why_unreadable(pair.copy.path, pair.copy.manifest):
            return []
        ours, at = _Cursor(_batches(_files(pair.read), pair.first, pair.stop)), pair.first
        others = _files(pair.other) if pair.copy is None else [(pair.copy.first, pair.copy.path)]
        for theirs, lost in _batches(others, pair.first, pair.stop):
            end = int(theirs[-1, LAST]) + 1
            bad = theirs[:, CRC] != theirs[:, COMPUTED]
            damage.add(theirs[bad])
            if lost is not None:
                damage.add(np.array([[at, max(int(theirs[0, BASE]) - 1, at), 0, 0, lost]]))
            mine = ours.until(end)
            mine = mine[
                (mine[:, BASE] >= (at if lost is None else theirs[0, BASE])) & ~np.isin(mine[:, BASE], theirs[bad, BASE])
            ]
            _differ(differing, pair, theirs[~bad], mine)
            at = end
        rest = ours.until(pair.stop)
        _differ(differing, pair, rest[:0], rest[rest[:, BASE] >= at])
    except OSError:
        pass  # the segment was deleted or truncated after it was listed; the audit itself reports unreadable data
    return [*_damaged(pair, damage), *_diverging(pair, differing)]


@dataclass(slots=True)
class _Stretch:
    """Some batches of a segment: their first and last offset, their number, and the position of the first batch."""

    first: int = -1
    last: int = -1
    position: int = -1
    count: int = 0

    def add(self, rows: Array) -> None:
        """Adds these batches."""
        if len(rows):
            at = int(rows[:, BASE].argmin())
            if self.first < 0:
                self.first, self.position = int(rows[at, BASE]), int(rows[at, POSITION])
            self.last = max(self.last, int(rows[:, LAST].max()))
            self.count += len(rows)


def _differ(found: _Stretch, pair: Pair, theirs: Array, ours: Array) -> None:
    """Add to `found` each batch in the compared range that differs or that only one replica has."""
    low = max(each for one in (pair.read, pair.other) for each in (one.begins_at, one.cleaned_until))
    limit = _limit(pair)
    mine, others = (np.ascontiguousarray(rows[:, : CRC + 1]).view(_SAME)[:, 0] for rows in (ours, theirs))
    rows = np.concatenate([ours[~np.isin(mine, others)], theirs[~np.isin(others, mine)]])
    found.add(rows[(rows[:, BASE] >= low) & (rows[:, LAST] < limit)])


def _limit(pair: Pair) -> int:
    """Returns an offset: below it, both replicas must have the same batches.

    In one leader epoch only the leader appends, so followers have only the leader's batches. If the other replica is in an
    older leader epoch, only its records below its high watermark are compared: later records were never committed.
    """
    read, other = pair.read.tail, pair.other.tail
    if other.leader_epoch >= read.leader_epoch:
        return min(other.end, read.end)
    return min(pair.other.high_watermark, other.end)


def _files(folder: PartitionFolder) -> list[tuple[int, Path]]:
    """Returns the base offset and the path of each segment of a replica."""
    local = [(first, folder.path / file_name(first, LOG)) for first in offsets_in(folder.path, LOG)]
    return [*((each.first, each.path) for each in folder.remote), *local]


def _batches(files: Sequence[tuple[int, Path]], first: int, stop: int) -> Iterator[tuple[Array, int | None]]:
    """Yields groups of batches from the segments that may hold these offsets. Each group comes with a position: if the bytes
    before the group are not a batch, the position of these bytes, else None."""
    for (start, path), (following, _) in zip(files, [*files[1:], (stop, Path())], strict=True):
        if following <= first or start >= stop:
            continue
        expected = 0
        with open_to_read(path, 0) as file:
            for begin, view, walked in whole_batches(file, 0, path.stat().st_size):
                positions = np.array(walked.positions, np.int64)
                rows = headers_at(view, positions)
                base = rows["base_offset"].astype(np.int64)
                columns = base, base + rows["last_offset_delta"], rows["crc"], np.array(walked.crcs), positions + begin
                yield np.stack([each.astype(np.int64) for each in columns], 1), expected if begin > expected else None
                expected = begin + walked.end


class _Cursor:
    """Reads a replica's batches in order, up to the offset that the other replica has reached."""

    def __init__(self, batches: Iterator[tuple[Array, int | None]]) -> None:
        self._batches = batches
        self._held: Array = np.empty((0, POSITION + 1), np.int64)

    def until(self, end: int) -> Array:
        """Returns the next batches that begin before this offset."""
        taken = []
        while True:
            count = int(np.searchsorted(self._held[:, BASE], end))
            taken.append(self._held[:count])
            self._held = self._held[count:]
            if len(self._held) or (following := next(self._batches, None)) is None:
                return np.concatenate(taken)
            self._held = following[0]


def _damaged(pair: Pair, found: _Stretch) -> Iterator[Finding]:
    if found.count:
        read, other, file = pair.read, pair.other, pair.file
        where = f"the replica of {other.owner}" if pair.copy is None else "the copy in the remote store"
        words = (
            f"{other.name}: {where} is damaged, in {found.count:,} of its batches: the first at offset {found.first}, position "
            f"{found.position} of {file}. The replica of {read.owner} was read"
        )
        evidence = {"file": file, "position": found.position, "batches": found.count}
        yield _finding("replica_damage", "certain", other, (found.first, found.last), words, **evidence)


def _diverging(pair: Pair, found: _Stretch) -> Iterator[Finding]:
    if found.count:
        read, other = pair.read, pair.other
        where = f"at offset {found.first}" if found.first == found.last else f"between offsets {found.first} and {found.last}"
        if pair.copy is None:
            both = f"the replica of {read.owner}, which was read, and the replica of {other.owner} differ {where}, "
            both += "below the high watermark"
        else:
            both = f"the replica of {read.owner}, which was read, and its copy {pair.file} differ {where}"
        words = f"{other.name}: {both}"
        if 0 <= read.tail.end <= found.first < read.high_watermark:
            words += (
                f". {read.owner} has lost these records, and {other.owner} still has them. Copy {other.path} before the "
                "brokers start: otherwise followers delete the records that their leader lacks"
            )
        elif other.tail.leader_epoch < read.tail.leader_epoch:
            words += (
                f". {other.owner} was left behind in leader epoch {other.tail.leader_epoch}: the cluster no longer has records "
                f"that this replica had committed, as after an unclean election"
            )
        evidence = {"batches": found.count, "read": str(read.path), "replica": str(other.path)}
        yield _finding("replica_divergence", "certain", other, (found.first, found.last), words, **evidence)


def _records(count: int) -> str:
    return plural(count, "record")


def _finding(
    kind: str, severity: Severity, folder: PartitionFolder, offsets: tuple[int, int], words: str, **evidence: Any
) -> Finding:
    told = json.dumps({"replica": str(folder.path), **evidence})
    return Finding(kind, severity, folder.topic, folder.partition, -1, -1, -1, -1, *offsets, told, words)
