"""A Kafka log directory: which partitions it holds, where each log starts, and how far compaction got.

The directory may be a broker's (`log.dirs`), or contain several of those, or be a single partition's folder. If several
brokers hold a partition, the replica with the highest end offset is read. The audit leaves out what Kafka does not count as
part of a log: `.deleted`, `.cleaned` and `.swap` files, folders of deleted, stray and future partitions, and
`__cluster_metadata`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kafkawire.batches import read_header
from kafkawire.disk.checkpoints import CLEANED, LOG_STARTS, Offsets, read_offsets
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.metadata import METADATA_TOPIC, compacted_topics
from kafkawire.disk.names import LOG, file_name, is_deleted_folder, offsets_in, partition_of
from kafkawire.disk.properties import META_PROPERTIES
from wirebroker_audit.scan import EVERYTHING
from wirebroker_audit.segments import whole_batches

LOST_AND_FOUND = "lost+found"
"""A file system keeps this folder at its root, and only root may read it."""


class NotALogDirectory(Exception):
    """The directory holds nothing to audit; the text names the missing thing."""


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """One partition's folder, and what the checkpoints beside it record."""

    path: Path
    topic: str
    partition: int
    log_start: int
    """offsets below it are no longer part of the log"""
    cleaned_until: int
    """compaction may have removed offsets below it; −1 if the cleaner never ran"""
    passed_over: tuple[Path, ...] = ()
    """its other replicas"""
    first_segment: int = 0
    """the first segment's base offset. Kafka writes no checkpoint when retention deletes whole segments"""

    @property
    def begins_at(self) -> int:
        """The log start offset, from the checkpoint and the segments' names."""
        return max(self.log_start, self.first_segment)


class LogDirectory(NamedTuple):
    """The partitions under a directory, in the order of topic and partition."""

    partitions: list[PartitionFolder]
    problems: list[str]
    """a sentence about each file or directory that cannot be read"""
    notices: list[str]


class _Checkpoints(NamedTuple):
    """The two checkpoints of a log directory that the audit uses."""

    starts: Offsets
    cleaned: Offsets | None
    """None if the file is damaged"""
    problems: list[str]


def read_directory(root: Path, topics: tuple[str, ...] = ()) -> LogDirectory:
    """The partitions of these topics under `root`, or of all. Raises NotALogDirectory."""
    if not root.is_dir():
        raise NotALogDirectory(f"{root} is not a directory" if root.exists() else f"{root} does not exist")
    resolved = root.resolve()
    problems: list[str] = []
    try:
        if _is_partition(resolved.name) and offsets_in(resolved, LOG):
            by_log_dir = {resolved.parent: [resolved]}
        elif folders := _folders_in(resolved):
            by_log_dir = {resolved: folders}
        else:
            by_log_dir, problems = _log_dirs_in(resolved)
        checkpoints = {log_dir: _read_checkpoints(log_dir) for log_dir in by_log_dir}
        found = _partitions_in(by_log_dir, checkpoints)
    except OSError as refused:
        raise NotALogDirectory(f"{refused.filename}: {refused.strerror}") from refused
    if not found:
        raise NotALogDirectory(f"{root} holds no partition: it contains no folder like `orders-0`")
    if topics and (missing := set(topics) - {each.topic for each in found}):
        raise NotALogDirectory(f"{root} holds no topic {', '.join(sorted(missing))}")
    chosen = _farthest_replicas([each for each in found if not topics or each.topic in topics])
    used = {each.path.parent for each in chosen}
    problems = [problem for log_dir in sorted(used) for problem in checkpoints[log_dir].problems] + problems
    notices = [
        f"{each.topic}-{each.partition}: {path} is another replica and was not read"
        for each in chosen
        for path in each.passed_over
    ]
    return LogDirectory(chosen, problems, notices)


def find_partitions(root: Path, topics: tuple[str, ...] = ()) -> list[PartitionFolder]:
    """The partitions alone, as `read_directory` finds them. Raises NotALogDirectory."""
    return read_directory(root, topics).partitions


def _is_partition(name: str) -> bool:
    found = partition_of(name)
    return found is not None and found[0] != METADATA_TOPIC and not is_deleted_folder(name)


def _folders_in(log_dir: Path) -> list[Path]:
    """The folders that are partitions by their names; a broker's own directory may be called `node-1`."""
    folders = [each for each in sorted(log_dir.iterdir()) if _is_partition(each.name) and each.is_dir()]
    return [each for each in folders if not (each / META_PROPERTIES).exists()]


def _log_dirs_in(root: Path) -> tuple[dict[Path, list[Path]], list[str]]:
    """The partitions' folders by log directory, and a sentence for each directory that cannot be read."""
    found: dict[Path, list[Path]] = {}
    problems = []
    for each in sorted(path for path in root.iterdir() if path.is_dir()):
        if os.access(each, os.R_OK | os.X_OK):
            found[each] = _folders_in(each)
        elif each.name != LOST_AND_FOUND:
            problems.append(f"{each}: permission denied, so nothing in it was audited")
    return found, problems


def _read_checkpoints(log_dir: Path) -> _Checkpoints:
    read: list[Offsets | None] = []
    problems = []
    for name in (LOG_STARTS, CLEANED):
        try:
            read.append(read_offsets(log_dir / name).offsets)
        except DamagedFile as damaged:
            read.append(None)
            problems.append(str(damaged))
        except OSError as refused:
            read.append(None)
            problems.append(f"{log_dir / name}: {refused.strerror}")
    starts, cleaned = read
    return _Checkpoints(starts or {}, cleaned, problems)


def _partitions_in(by_log_dir: Mapping[Path, list[Path]], checkpoints: Mapping[Path, _Checkpoints]) -> list[PartitionFolder]:
    compacted = frozenset[str]().union(*map(compacted_topics, by_log_dir))
    result = []
    for log_dir, folders in by_log_dir.items():
        starts, cleaned, _ = checkpoints[log_dir]
        for folder in folders:
            key = partition_of(folder.name)
            assert key is not None
            # if the checkpoint does not tell how far compaction got, compaction may explain every hole
            unknown = cleaned is None or (key not in cleaned and key[0] in compacted)
            cleaned_until = EVERYTHING if unknown else (cleaned or {}).get(key, -1)
            made = PartitionFolder(folder, *key, starts.get(key, 0), cleaned_until)
            result.append(_with_segments(made, key[0] in compacted))
    return result


def _with_segments(folder: PartitionFolder, compacts: bool) -> PartitionFolder:
    """Add what the segments' names show and the checkpoints do not.

    The cleaner rewrites whole segments: it drops aborted batches up to the end of the segment in which its checkpoint lies
    (Kafka's Cleaner.doClean). It writes the checkpoint after a pass; during a pass it may be anywhere but in the last
    segment.
    """
    try:
        starts = offsets_in(folder.path, LOG)
    except OSError:
        return folder  # the reader of the splits reports it
    cleaned_until = folder.cleaned_until
    if cleaned_until > 0:
        cleaned_until = next((first for first in starts if first >= cleaned_until), cleaned_until)
    if compacts:
        cleaned_until = max([cleaned_until, *starts[-1:]])
    return replace(folder, first_segment=starts[0] if starts else 0, cleaned_until=cleaned_until)


def _farthest_replicas(found: list[PartitionFolder]) -> list[PartitionFolder]:
    """One replica of each partition, the one with the highest end offset, in the order of topic and partition."""
    replicas: dict[tuple[str, int], list[PartitionFolder]] = {}
    for each in found:
        replicas.setdefault((each.topic, each.partition), []).append(each)
    chosen = []
    for _, alike in sorted(replicas.items()):
        farthest = max(alike, key=_end_offset) if len(alike) > 1 else alike[0]
        chosen.append(replace(farthest, passed_over=tuple(each.path for each in alike if each is not farthest)))
    return chosen


def _end_offset(folder: PartitionFolder) -> int:
    """The offset after the last whole batch. The segments' names cannot tell: each replica rolls its own segments."""
    end = -1
    try:
        segments = offsets_in(folder.path, LOG)
        if segments:
            end = segments[-1]
            with (folder.path / file_name(end, LOG)).open("rb") as file:
                for _, view, walked in whole_batches(file, 0, os.fstat(file.fileno()).st_size):
                    end = read_header(view, walked.positions[-1]).last_offset + 1
    except OSError:
        return -1
    return end
