"""A Kafka log directory: its partitions, where each log starts, and how far compaction got.

The directory may be a broker's log directory (`log.dirs`), a folder with the log directories of several brokers, or the folder
of a single partition. If several brokers hold a partition, `replicas` chooses the replica that is read. The audit leaves out
what Kafka does not count as part of a log: `.deleted`, `.cleaned` and `.swap` files, folders of deleted, stray and future
partitions, and `__cluster_metadata`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kafkawire.disk.checkpoints import CLEAN_SHUTDOWN, CLEANED, HIGH_WATERMARKS, LOG_STARTS, Offsets, read_offsets
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.metadata import WrittenImage, written_image
from kafkawire.disk.names import LOG, METADATA_TOPIC, is_deleted_folder, offsets_in, partition_of
from kafkawire.disk.properties import (
    CLUSTER_ID,
    META_PROPERTIES,
    PARTITION_METADATA,
    read_partition_metadata,
    read_properties,
    two_clusters,
)
from kafkawire.disk.remote_segments import remote_offset_of
from wirebroker_audit.logs.replicas import Cluster, choose
from wirebroker_audit.reading.folders import EVERYTHING, PartitionFolder
from wirebroker_audit.reading.remote import RemotePath, is_remote

NOT_PARTITIONS = {
    "delete": "waits for its deletion",
    "stray": "was set aside by its broker, because the partition does not belong there",
    "future": "is a copy that its broker has not finished",
}
"""Maps the last word of a folder's name to the reason why the folder is not read. An example of such a name is
`orders-0.0123…cdef-stray` (LogManager)."""
_ASIDE = re.compile(rf"(.+)-[0-9]+\.[0-9a-f]{{32}}-({'|'.join(NOT_PARTITIONS)})")
LOST_AND_FOUND = "lost+found"
"""A folder at the root of many file systems, which only the user root may read."""


class NotALogDirectory(Exception):
    """Raised if the directory holds nothing to audit. The message gives the reason."""


class LogDirectory(NamedTuple):
    """The partitions under a directory, in the order of topic and partition."""

    partitions: list[PartitionFolder]
    problems: list[str]
    """a sentence about each file or directory that cannot be read"""
    notices: list[str]


class _LogDir(NamedTuple):
    """Facts about a log directory's partitions, from its checkpoints and other files."""

    starts: Offsets
    cleaned: Offsets | None
    """None if the file is damaged"""
    high_watermarks: Offsets
    node: int | None
    cluster_id: str | None
    """None without meta.properties"""
    was_stopped: bool
    written: WrittenImage | None
    problems: list[str]
    cleaner_known: bool
    """whether the log directory has the cleaner's checkpoint, which every broker writes"""


def read_directory(root: Path, topics: tuple[str, ...] = ()) -> LogDirectory:
    """Returns the partitions of these topics under `root`, or of all topics. Raises NotALogDirectory."""
    try:
        if not root.is_dir():
            raise NotALogDirectory(f"{root} is not a directory" if root.exists() else f"{root} does not exist")
    except OSError as refused:  # for example, a remote place does not answer
        raise NotALogDirectory(f"{root}: {refused.strerror or refused}") from refused
    resolved = root.resolve()
    if isinstance(resolved, RemotePath):
        resolved.list_whole()
    problems: list[str] = []
    try:
        if alone := _is_partition(resolved.name) and bool(offsets_in(resolved, LOG)):
            by_log_dir = {resolved.parent: [resolved]}
        elif folders := _folders_in(resolved):
            by_log_dir = {resolved: folders}
        else:
            by_log_dir, problems = _log_dirs_in(resolved)
        log_dirs = {path: _read_log_dir(path) for path in by_log_dir}
        clusters = [(path, each.cluster_id) for path, each in log_dirs.items() if each.cluster_id is not None]
        if mixed := two_clusters(clusters):
            raise NotALogDirectory(f"{mixed}; audit each cluster by itself: --path {clusters[0][0]}")
        found = _partitions_in(by_log_dir, log_dirs)
        notices = [] if alone else [each for path in by_log_dir for each in _set_aside(path, topics)]
        problems += [] if alone else [each for path in {resolved, *by_log_dir} for each in _dangling(path, topics)]
    except OSError as refused:
        raise NotALogDirectory(f"{refused.filename or root}: {refused.strerror or refused}") from refused
    if not found and (tiered := _tiered_segment(resolved)) is not None:
        raise NotALogDirectory(
            f"{root} holds segments of tiered storage, such as {tiered}, and no log directory. Name a broker's log directory "
            "with --path and this place with --remote-store, or let a broker read the segments: --bootstrap"
        )
    if not found and problems:
        raise NotALogDirectory(f"{root} holds no partition that can be read: {problems[0]}")
    if not found:
        below = _log_dir_below(resolved)
        hint = "" if below is None else f"; {below} contains such folders: use --path {below}"
        raise NotALogDirectory(f"{root} holds no partition: it contains no folder like `orders-0`{hint}")
    if topics and (missing := set(topics) - {each.topic for each in found}):
        raise NotALogDirectory(f"{root} holds no topic {', '.join(sorted(missing))}")
    cluster = Cluster([] if alone else [each.written for each in log_dirs.values() if each.written is not None])
    chosen, more = _chosen([each for each in found if not topics or each.topic in topics], cluster)
    if not chosen:
        raise NotALogDirectory(f"{root} holds no partition of a topic that exists: {more[0]}")
    used = {each.path.parent for each in chosen}
    problems = [problem for log_dir in sorted(used) for problem in log_dirs[log_dir].problems] + problems
    return LogDirectory(chosen, problems, notices + more)


def find_partitions(root: Path, topics: tuple[str, ...] = ()) -> list[PartitionFolder]:
    """Returns the partitions that `read_directory` finds, without problems and notices. Raises NotALogDirectory."""
    return read_directory(root, topics).partitions


def _is_partition(name: str) -> bool:
    found = partition_of(name)
    return found is not None and found[0] != METADATA_TOPIC and not is_deleted_folder(name)


def _tiered_segment(folder: Path, depth: int = 3) -> Path | None:
    """Returns the first segment of tiered storage in the folder and its subfolders."""
    with suppress(OSError):
        for each in sorted(folder.iterdir()):
            if remote_offset_of(each.name) is not None:
                return each
            if depth and each.is_dir() and (found := _tiered_segment(each, depth - 1)) is not None:
                return found
    return None


def _log_dir_below(folder: Path, depth: int = 3) -> Path | None:
    """Returns the first folder that has partitions and lies at most `depth` levels below this folder."""
    with suppress(OSError):
        for each in sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()):
            if _folders_in(each):
                return each
            if depth and (found := _log_dir_below(each, depth - 1)) is not None:
                return found
    return None


def _dangling(log_dir: Path, topics: tuple[str, ...]) -> list[str]:
    """Returns a sentence for each broken link to a partition's folder or a log directory. The disk of a broken link is probably
    not mounted."""
    if is_remote(log_dir):
        return []
    lost = sorted(each for each in log_dir.iterdir() if each.is_symlink() and not each.exists())
    return [
        f"{each} is a link to {each.readlink()}, which is not there; is its disk mounted? Nothing in it was audited"
        for each in lost
        if not topics or (found := partition_of(each.name)) is None or found[0] in topics
    ]


def _folders_in(log_dir: Path) -> list[Path]:
    """Returns the folders that hold partitions. A name is not enough: a broker's own directory may be called `node-1`."""
    folders = [each for each in sorted(log_dir.iterdir()) if _is_partition(each.name) and each.is_dir()]
    return [each for each in folders if not _is_log_dir(each)]


def _is_log_dir(folder: Path) -> bool:
    """Tells whether a folder with the name of a partition is nevertheless a broker's log directory, or contains one. A copied
    directory may lack the broker's own files."""
    with suppress(OSError):
        return (folder / META_PROPERTIES).exists() or any(
            each.is_dir() and (_is_partition(each.name) or (each / META_PROPERTIES).exists())
            for each in folder.iterdir()
            if not each.suffix or _is_partition(each.name)
        )
    return False


def _log_dirs_in(root: Path) -> tuple[dict[Path, list[Path]], list[str]]:
    """Returns the partitions' folders by log directory, and a sentence for each directory that cannot be read."""
    found: dict[Path, list[Path]] = {}
    problems = []
    for each in sorted(path for path in root.iterdir() if path.is_dir()):
        if is_remote(each) or os.access(each, os.R_OK | os.X_OK):
            found[each] = _folders_in(each)
        elif each.name != LOST_AND_FOUND:
            problems.append(f"{each}: permission denied, so nothing in it was audited")
    return found, problems


def _set_aside(log_dir: Path, topics: tuple[str, ...]) -> list[str]:
    """Returns a sentence for each kind of folder that Kafka keeps beside the partitions and does not count as a partition."""
    found: dict[str, list[str]] = {}
    for name in sorted(each.name for each in log_dir.iterdir()):
        if (match := _ASIDE.fullmatch(name)) and (not topics or match[1] in topics):
            found.setdefault(match[2], []).append(name)
    return [
        f"{log_dir / names[0]} {NOT_PARTITIONS[kind]}; it was not read"
        + (f", and neither were {len(names) - 1:,} more of this kind" if names[1:] else "")
        for kind, names in found.items()
    ]


def _read_log_dir(log_dir: Path) -> _LogDir:
    read: list[Offsets | None] = []
    problems = []
    for name in (LOG_STARTS, CLEANED, HIGH_WATERMARKS):
        try:
            read.append(read_offsets(log_dir / name).offsets)
        except DamagedFile as damaged:
            read.append(None)
            problems.append(str(damaged))
        except OSError as refused:
            read.append(None)
            problems.append(f"{log_dir / name}: {refused.strerror}")
    starts, cleaned, high_watermarks = read
    node, cluster_id = None, None
    with suppress(OSError, ValueError):
        properties = read_properties(log_dir / META_PROPERTIES)
        cluster_id = properties.get(CLUSTER_ID)
        node = int(properties.get("node.id", properties.get("broker.id", "")))  # the older name is from Kafka with ZooKeeper
    stopped = (log_dir / CLEAN_SHUTDOWN).exists()
    return _LogDir(
        starts or {},
        cleaned,
        high_watermarks or {},
        node,
        cluster_id,
        stopped,
        written_image(log_dir),
        problems,
        (log_dir / CLEANED).exists(),
    )


def _partitions_in(by_log_dir: Mapping[Path, list[Path]], log_dirs: Mapping[Path, _LogDir]) -> list[PartitionFolder]:
    images = [each.written for each in log_dirs.values() if each.written is not None]
    compacted = frozenset[str]().union(*(each.compacted_topics() for each in images))
    tiered = frozenset[str]().union(*(each.tiered_topics() for each in images))
    result = []
    for log_dir, folders in by_log_dir.items():
        starts, cleaned, high_watermarks, node, _, was_stopped, *_ = log_dirs[log_dir]
        for folder in folders:
            key = partition_of(folder.name)
            assert key is not None
            # if the checkpoint does not record how far compaction got, compaction may explain every hole
            unknown = cleaned is None or (key not in cleaned and key[0] in compacted)
            cleaned_until = EVERYTHING if unknown else (cleaned or {}).get(key, -1)
            made = PartitionFolder(
                folder, *key, starts.get(key, 0), cleaned_until, node=node, topic_id=_topic_id(folder),
                high_watermark=high_watermarks.get(key, -1), was_stopped=was_stopped,
                policy_known=bool(images) or log_dirs[log_dir].cleaner_known, is_tiered=key[0] in tiered,
            )  # fmt: skip
            result.append(_with_segments(made, key[0] in compacted))
    return result


def _topic_id(folder: Path) -> bytes | None:
    with suppress(OSError):  # DamagedFile is an OSError
        return read_partition_metadata(folder / PARTITION_METADATA)
    return None


def _with_segments(folder: PartitionFolder, compacts: bool) -> PartitionFolder:
    """Adds the facts that only the segments' names show, and not the checkpoints.

    The cleaner rewrites whole segments: it drops aborted batches up to the end of the segment in which its checkpoint lies
    (Kafka's Cleaner.doClean). The cleaner writes the checkpoint after a pass. During a pass the cleaner may work anywhere
    except in the last segment.
    """
    try:
        starts = offsets_in(folder.path, LOG)
    except OSError:
        return folder  # whoever reads the pieces reports the error
    cleaned_until = folder.cleaned_until
    if cleaned_until > 0:
        cleaned_until = next((first for first in starts if first >= cleaned_until), cleaned_until)
    if compacts:
        cleaned_until = max([cleaned_until, *starts[-1:]])
    return replace(folder, first_segment=starts[0] if starts else 0, cleaned_until=cleaned_until)


def _chosen(found: Sequence[PartitionFolder], cluster: Cluster) -> tuple[list[PartitionFolder], list[str]]:
    """Chooses the replica to read for each partition. Returns the chosen replicas, sorted by topic and partition, and sentences
    about the other replicas."""
    replicas: dict[tuple[str, int], list[PartitionFolder]] = {}
    for each in found:
        replicas.setdefault((each.topic, each.partition), []).append(each)
    choices = [choose(alike, cluster) for _, alike in sorted(replicas.items())]
    return [each.read for each in choices if each.read is not None], [each for choice in choices for each in choice.notices]
