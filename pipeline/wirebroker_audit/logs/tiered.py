"""Tiered storage (KIP-405): finds the segments of each partition in a remote store, and chooses the segments that are read.

Brokers copy closed segments to the store, and keep only the newest segments in their logs. The records of
`__remote_log_metadata` say which segments the store has. If the directory lacks these records, only the names in the store show
the segments. Two layouts are known: the layout of Kafka's LocalTieredStorage, `orders-0-<topic id>/<offset>-<id>.log`, and the
layout of Aiven's plugin, `orders-<topic id>/0/<offset>-<id>.log`, with a manifest beside each segment.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from kafkawire.disk.checkpoints import LEADER_EPOCHS, read_epochs
from kafkawire.disk.damage import DamagedFile, reason
from kafkawire.disk.names import LOG
from kafkawire.disk.remote_segments import (
    COPY_FINISHED,
    COPY_STARTED,
    REMOTE_METADATA,
    RemoteSegment,
    RemoteSegments,
    read_remote_segments,
    remote_offset_of,
)
from kafkawire.primitives import format_uuid
from wirebroker_audit.logs.directory import NotALogDirectory, find_partitions
from wirebroker_audit.reading.folders import EVERYTHING, PartitionFolder, RemoteFile
from wirebroker_audit.reading.pieces import Key
from wirebroker_audit.reading.remote import files_in

OF_KAFKA = "kafka-tiered-storage"
"""LocalTieredStorage makes this folder in its `dir`."""
MANIFEST = ".rsm-manifest"
SHOWN = 20
"""A sentence or the summary lists at most this many partitions or stretches of offsets."""
_ID = re.compile(r"[A-Za-z0-9_-]{22}")
Span = tuple[int, int]
"""The first and the last offset of a stretch."""


class NotARemoteStore(NotALogDirectory):
    """Raised if the place holds no segment of the audited topics, although it should."""


@dataclass(slots=True)
class Tiering:
    """The partitions with their remote segments, and sentences for the report."""

    folders: list[PartitionFolder]
    problems: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    facts: dict[Key, dict[str, Any]] = field(default_factory=dict)
    """for each tiered partition: the number of remote `segments` that are read, the number of `missing` offsets, and the first
    stretches of missing offsets (`missing_offsets`). An offset is missing if the store has it or should have it, but the audit
    does not read it."""


class _Found(NamedTuple):
    """The remote segments of a partition."""

    files: Sequence[RemoteFile]
    missing: Sequence[Span] = ()
    """offsets that the store should have, but does not have"""
    first: int = EVERYTHING
    """the first offset that the store has or should have"""
    notices: Sequence[str] = ()
    copied: Sequence[RemoteFile] = ()
    """the remote segments whose offsets the local log has, too"""


def left_unread(folders: Sequence[PartitionFolder]) -> Tiering:
    """Says which older records are in a remote store that the user did not name."""
    spans = {each: (each.log_start, each.first_segment - 1) for each in folders if each.is_tiered}
    unread = {folder: span for folder, span in spans.items() if span[0] <= span[1]}
    made = Tiering(list(folders))
    for folder, span in unread.items():
        made.facts[folder.topic, folder.partition] = _facts((), [span])
    if unread:
        made.notices.append(
            f"{_names(unread)}: the older records are in remote storage (tiered storage), and were not read. Name the place of "
            "the remote segments with --remote-store, or let a broker read them: --bootstrap"
        )
    return made


def _names(unread: Mapping[PartitionFolder, Span]) -> str:
    named = [f"{each.name} (offsets {first} to {last})" for each, (first, last) in unread.items()]
    return f"{', '.join(named[:SHOWN])}{f' and {len(named) - SHOWN:,} more' if named[SHOWN:] else ''}"


def with_remote(folders: Sequence[PartitionFolder], root: Path, store: Path) -> Tiering:
    """Adds to each partition the remote segments that are read before its local segments. Raises NotARemoteStore."""
    made = Tiering([])
    known = _read_metadata(folders, root, made)
    places = _Places(store)
    is_expected = False
    for each in folders:
        try:
            place, manifests = places.of(each)
            mine = None if each.topic_id is None else known.partitions.get((each.topic_id, each.partition))
            found = _of(each, mine, place, _files_in(place), manifests=manifests)
        except OSError as refused:
            made.problems.append(f"{each.name}: its remote segments could not be listed: {refused.filename}: {reason(refused)}")
            found = _Found((), _local_gap(each))
        is_expected |= bool(found.missing)
        made.notices += found.notices
        if found.files or found.missing:
            made.facts[each.topic, each.partition] = _facts(found.files, found.missing)
        first = min(found.first, each.first_segment)
        made.folders.append(replace(each, remote=tuple(found.files), copied=tuple(found.copied), first_segment=first))
    if is_expected and not places.known:
        raise NotARemoteStore(
            f"--remote-store {store} holds no segments of these topics: it has no folder like `orders-0-<topic id>` (Kafka's "
            "LocalTieredStorage) or `orders-<topic id>/0` (Aiven's plugin)"
        )
    return made


def _files_in(place: Path | None) -> dict[str, int]:
    """Returns the names and sizes of a partition's files in the store; nothing if the store has no folder for the partition,
    for example because no segment was copied yet. Raises OSError."""
    try:
        return {} if place is None else files_in(place)
    except FileNotFoundError:
        return {}


def check_store(store: Path) -> None:
    """Raises NotARemoteStore if the place cannot be listed."""
    _Places(store)


def _read_metadata(folders: Sequence[PartitionFolder], root: Path, made: Tiering) -> RemoteSegments:
    """Returns what the directory's `__remote_log_metadata` records."""
    known = RemoteSegments((each.topic_id, each.partition) for each in folders if each.topic_id is not None)
    alone = [each.path for each in folders] == [root.resolve()]
    try:
        for each in find_partitions(root.resolve().parent if alone else root, (REMOTE_METADATA,)):
            made.problems += read_remote_segments(each.path, known)
    except NotALogDirectory:
        made.notices.append(f"{root} holds no {REMOTE_METADATA}, so the audit finds the remote segments only by their names")
    except OSError as refused:
        made.problems.append(f"{refused.filename}: {reason(refused)}")
    return known


class _Places:
    """The folders in a remote store, by topic id. Raises NotARemoteStore."""

    def __init__(self, store: Path) -> None:
        self.known = False
        """whether a folder of an audited partition was found"""
        try:
            whole = store / OF_KAFKA
            self._base = whole if whole.is_dir() else store
            names = sorted(each.name for each in self._base.iterdir())
        except OSError as refused:
            raise NotARemoteStore(f"--remote-store {store}: {refused.strerror or refused}") from refused
        self._by_id: dict[str, list[str]] = {}
        for name in names:
            if _ID.fullmatch(name[-22:]):
                self._by_id.setdefault(name[-22:], []).append(name)

    def of(self, folder: PartitionFolder) -> tuple[Path | None, bool]:
        """Returns two values: the folder with the partition's segments (None if there is none), and whether the segments have
        manifests there. In Aiven's layout, a prefix that the user chose may stand directly before the topic's name, without a
        slash."""
        names = self._by_id.get(format_uuid(folder.topic_id), ()) if folder.topic_id else self._by_name(folder)
        for name in names:
            if name == f"{folder.name}-{name[-22:]}":
                self.known = True
                return self._base / name, False
        for name in names:
            if name.endswith(f"{folder.topic}-{name[-22:]}"):
                self.known = True
                return self._base / name / str(folder.partition), True
        return None, False

    def _by_name(self, folder: PartitionFolder) -> Sequence[str]:
        """Returns the folder in the store for a partition that has no partition.metadata; nothing if several topics had this
        name."""
        wanted = (f"{folder.name}-", f"{folder.topic}-")
        found = [name for names in self._by_id.values() for name in names if name[:-22] in wanted]
        return found if len(found) == 1 else ()


def _of(
    folder: PartitionFolder, known: Mapping[bytes, RemoteSegment] | None, place: Path | None, sizes: Mapping[str, int], *,
    manifests: bool,
) -> _Found:  # fmt: skip
    """Chooses the remote segments of a partition. `known` has the segments in the metadata, or is None without metadata;
    `sizes` has the size of each file in the store."""
    if known is not None:
        return _by_metadata(folder, known.values(), place, sizes, manifests=manifests)
    firsts: dict[int, str] = {}
    for name in sorted(sizes, key=lambda each: sizes[each]):  # if a segment has several copies, the largest copy is read
        if (first := remote_offset_of(name)) is not None and first < folder.first_segment:
            firsts[first] = name
    starts = [*sorted(firsts), folder.first_segment]
    files = [
        _file(place or Path(), firsts[first], first, following, sizes, manifests=manifests)
        for first, following in pairwise(starts)
        if following > folder.log_start
    ]
    begins = starts[0] if files else folder.first_segment
    if begins <= folder.log_start or not (folder.is_tiered or files):
        return _Found(files, (), begins)
    told = (
        f"{folder.name}: the log begins at offset {folder.log_start}, but the remote store has records only from offset "
        f"{begins} on; without {REMOTE_METADATA} the audit cannot tell whether retention has deleted the earlier records"
    )
    return _Found(files, [(folder.log_start, begins - 1)] if place is None else (), begins, [told])


def _by_metadata(
    folder: PartitionFolder, known: Iterable[RemoteSegment], place: Path | None, sizes: Mapping[str, int], *, manifests: bool
) -> _Found:
    local, lineage, notices = folder.first_segment, _lineage(folder), []
    finished = [each for each in known if each.end >= folder.log_start and each.state == COPY_FINISHED]
    wanted = [each for each in finished if each.is_in(lineage)]
    if foreign := len(finished) - len(wanted):
        notices.append(
            f"{folder.name}: {foreign:,} remote segments are of an earlier leader's log, which consumers cannot read; the "
            "audit did not read them"
        )
    present = [each for each in wanted if each.name in sizes]
    chosen = list(_cover(each for each in present if each.start < local))
    spans = [*((each.start, each.end) for each in chosen), (local, EVERYTHING)]
    missing = [gap for span in _joined(wanted) for gap in _gaps(spans, (max(span[0], folder.log_start), span[1]))]
    if missing:
        notices.append(f"{folder.name}: the remote store lacks {_offsets(missing)}, although {REMOTE_METADATA} lists them")
    if alone := _joined(each for each in wanted if each.name not in sizes and each.end >= local):
        notices.append(
            f"{folder.name}: the remote store lacks the copy of {_offsets(alone)}, so only the local log has these records. "
            "They will be lost when local retention deletes them"
        )
    copying = [each for each in known if each.state == COPY_STARTED]
    if unfinished := [gap for span in _joined(copying) for gap in _gaps(spans, (max(span[0], folder.log_start), span[1]))]:
        notices.append(f"{folder.name}: the copy of {_offsets(unfinished)} to the remote store was never finished")
    files = [
        _file(place or Path(), each.name, each.start, following if following <= each.end else EVERYTHING, sizes,
              manifests=manifests)
        for each, (following, _) in zip(chosen, spans[1:], strict=True)
    ]  # fmt: skip
    copied = [_file(place or Path(), each.name, each.start, each.end + 1, sizes, manifests=manifests)
              for each in present if each.end >= local]  # fmt: skip
    return _Found(files, missing, min((each.start for each in wanted), default=EVERYTHING), notices, copied)


def _file(place: Path, name: str, first: int, until: int, sizes: Mapping[str, int], *, manifests: bool) -> RemoteFile:
    manifest = name.removesuffix(LOG) + MANIFEST if manifests else ""
    return RemoteFile(place, name, first, until, sizes[name], manifest)


def _lineage(folder: PartitionFolder) -> list[tuple[int, int]]:
    try:
        return read_epochs(folder.path / LEADER_EPOCHS)
    except (OSError, DamagedFile):
        return []


def _cover(segments: Iterable[RemoteSegment]) -> Iterator[RemoteSegment]:
    """Yields the smallest selection of segments that covers the same offsets: after an election, a leader may copy offsets that
    are already in the store."""
    left, reach, at = sorted(segments, key=lambda each: (each.start, each.end)), 0, 0
    while at < len(left):
        begin, best = max(reach, left[at].start), left[at]
        while at < len(left) and left[at].start <= begin:
            best = max(best, left[at], key=lambda each: each.end)
            at += 1
        if best.end >= reach:
            yield best
            reach = best.end + 1


def _joined(segments: Iterable[RemoteSegment]) -> list[Span]:
    """Returns the stretches of offsets that the segments cover together."""
    joined: list[Span] = []
    for first, last in sorted((each.start, each.end) for each in segments):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def _gaps(spans: Sequence[Span], within: Span) -> Iterator[Span]:
    """Yields the parts of `within` that no span covers; `spans` are in order."""
    at, last = within
    for index in range(max(bisect_right(spans, (at, EVERYTHING)) - 1, 0), len(spans)):
        first, end = spans[index]
        if first > last:
            break
        if first > at:
            yield at, first - 1
        at = max(at, end + 1)
    if at <= last:
        yield at, last


def _local_gap(folder: PartitionFolder) -> list[Span]:
    """Returns the offsets between the log start and the local log."""
    return [(folder.log_start, folder.first_segment - 1)] if folder.log_start < folder.first_segment else []


def _offsets(spans: Sequence[Span]) -> str:
    named = [f"{first} to {last}" for first, last in spans]
    return f"offsets {', '.join(named[:SHOWN])}{' …' if named[SHOWN:] else ''}"


def _facts(files: Sequence[RemoteFile], missing: Sequence[Span]) -> dict[str, Any]:
    count = sum(last + 1 - first for first, last in missing)
    return {"segments": len(files), "missing": count, "missing_offsets": [list(each) for each in missing[:SHOWN]]}
