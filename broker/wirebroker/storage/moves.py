"""Moves of partitions' folders between the log directories of a broker (Kafka's ReplicaAlterLogDirsThread).

During a move, the new directory has a folder whose name ends in `-future`. A start that finds such a folder finishes the move
or begins it again. A move within a volume renames the partition's folder. A move to another volume copies the files while
clients read and write the partition. `partition.metadata` is copied last, so a folder with this file is a complete copy. If the
broker is killed at any moment of a move, no acknowledged record is lost.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kafkawire.disk.names import CLEANED, DELETED, deleted_folder_name, folder_name, future_folder_name
from kafkawire.disk.properties import PARTITION_METADATA
from wirebroker.storage import files
from wirebroker.storage.directory import LogDirectories, LogDirectory
from wirebroker.storage.log import FolderLog
from wirebroker.storage.notes import note
from wirebroker.storage.upkeep import Job, Upkeep

if TYPE_CHECKING:
    from wirebroker.core.cluster import Cluster
    from wirebroker.core.partition import Partition

FEW_BYTES, ROUNDS = 1 << 20, 10
"""The files are copied in rounds. The last round is round ROUNDS, or an earlier round that copies at most FEW_BYTES. Then the
partition accepts no writes while the rest is copied.
"""


class Copy:
    """Copies a partition's folder to another volume, in rounds. Each further round copies the files that have changed since the
    last round.
    """

    def __init__(self, source: Path, target: Path) -> None:
        self._source = source
        self._target = target
        self._copied: dict[str, tuple[int, int]] = {}

    def catch_up(self) -> None:
        """Copy the files, and copy changed files again until a round copies only few bytes. Any thread may call this method.
        Raises OSError.
        """
        for _ in range(ROUNDS):
            if self.refresh() <= FEW_BYTES:
                return

    def refresh(self) -> int:
        """Copy and sync the files that have changed since the last round, except `partition.metadata`. Returns the number of
        bytes copied.
        """
        there = {each.name: each.stat() for each in os.scandir(self._source) if not each.name.endswith((DELETED, CLEANED))}
        there.pop(PARTITION_METADATA, None)
        for name in self._copied.keys() - there.keys():
            (self._target / name).unlink(missing_ok=True)
            del self._copied[name]
        size = 0
        for name, now in there.items():
            if self._copied.get(name) != (now.st_size, now.st_mtime_ns):
                with suppress(FileNotFoundError):  # the file was deleted in the meantime
                    files.copy(self._source / name, self._target / name)
                    files.sync(self._target / name)
                    self._copied[name] = now.st_size, now.st_mtime_ns
                    size += now.st_size
        return size

    def complete(self) -> None:
        """Copy the remaining changes while no client writes to the partition. Raises OSError."""
        self.refresh()
        files.copy(self._source / PARTITION_METADATA, self._target / PARTITION_METADATA)
        files.sync(self._target / PARTITION_METADATA)
        files.sync(self._target)
        files.sync(self._target.parent)


class Moves:
    """Moves the partitions of a store between its log directories, one at a time."""

    def __init__(self, store: Upkeep, cluster: Cluster, directories: LogDirectories) -> None:
        self._store = store
        self._cluster = cluster
        self._dirs = cluster.log_dirs
        self._dirs.mover, self._dirs.holder = self.move, _place_of
        self._directories = directories
        self._wanted: dict[FolderLog, tuple[LogDirectory, Path]] = {}
        """The logs that are to be moved, each with its new directory and its `-future` folder there."""
        self._unfinished: list[tuple[tuple[str, int], LogDirectory]] = []

    def has(self, log: FolderLog) -> bool:
        """Tells whether this log is to be moved."""
        return log in self._wanted

    def move(self, partition: Partition, node_id: int, path: str) -> None:
        """Begin to move this broker's replica to the directory `path`. If the replica is in that directory already, cancel any
        move of the replica. Raises OSError.
        """
        log, dirs = _log_of(partition), self._dirs
        if log.directory.node_id != node_id:  # another broker's replica owns the log's files
            if dirs.of(partition, node_id) != path:
                dirs.moved(partition, node_id, path)
                self._changed()
            return
        target = self._directories.at(node_id, path)
        if log in self._wanted and self._wanted[log][0] is target:
            return
        self._give_up(partition)
        if log.directory is not target:
            self._begin(partition, target)

    def _begin(self, partition: Partition, target: LogDirectory) -> None:
        log = _log_of(partition)
        future = target.root / future_folder_name(*log.where, self._store.unique())
        future.mkdir()
        self._wanted[log] = target, future
        self._dirs.moves[partition, target.node_id] = target.path
        self._queue(partition, future, None)

    def _queue(self, partition: Partition, future: Path, copy: Copy | None) -> None:
        """Queue the move as a job whose `apart` is true. Only one such job runs at a time, so the move waits for a running
        compaction."""

        def work() -> None:
            if copy is not None:
                with suppress(FileNotFoundError):  # the partition was deleted in the meantime
                    copy.catch_up()

        def failed() -> None:
            self._give_up(partition, future)

        self._store.jobs.append(Job(work, lambda: self._arrive(partition, future, copy), apart=True, failed=failed))

    def _arrive(self, partition: Partition, future: Path, copy: Copy | None) -> None:
        """Put the partition's folder into the new directory, unless the move was cancelled. If this raises OSError, the
        partition stays in its old folder.
        """
        log = _log_of(partition)
        target, wanted = self._wanted.get(log, (None, None))
        if target is not None and (partition.deleted or target.node_id not in partition.replicas):
            self._give_up(partition)
            return
        if target is None or wanted != future:
            return
        if self._store.compacting is log:
            self._queue(partition, future, copy)
            return
        try:
            self._swap(log, target, future, copy)
        except OSError as failure:
            if failure.errno == errno.EXDEV and copy is None:
                self._queue(partition, future, Copy(log.folder, future))
                return
            if log.directory is not target:
                self._give_up(partition)
                raise
            self._store.failed(failure)  # the folder is in the new directory; only a write after this has failed
        self._end(partition, future)
        self._dirs.moved(partition, target.node_id, target.path)
        self._changed()

    def _swap(self, log: FolderLog, target: LogDirectory, future: Path, copy: Copy | None) -> None:
        source, before = log.directory, log.folder
        target.adopt(log.where, source, log.recovery_point, log.log_start_offset)

        def put(folder: Path) -> None:
            if copy is None:
                before.rename(folder)
                return
            copy.complete()
            gone = before.rename(before.with_name(deleted_folder_name(*log.where, self._store.unique())))
            try:
                future.rename(folder)
            except OSError:
                gone.rename(before)
                raise
            self._store.remove_later(gone)

        log.move(target, put)
        source.forget(log.where)
        files.sync(target.root)
        files.sync(source.root)

    def _give_up(self, partition: Partition, future: Path | None = None) -> None:
        """Cancel the partition's move. If `future` is given, cancel the move only if `future` is the move's folder."""
        wanted = self._wanted.get(_log_of(partition))
        if wanted is not None and future in (None, wanted[1]):
            self._end(partition, wanted[1])

    def _end(self, partition: Partition, future: Path) -> None:
        log = _log_of(partition)
        target, _ = self._wanted.pop(log)
        self._dirs.moves.pop((partition, target.node_id), None)
        shutil.rmtree(future, ignore_errors=True)

    # A start

    def finish(self) -> None:
        """An interrupted move may have a complete copy, and no original folder any more. Finish each such move: rename the
        copy. Remember the other interrupted moves for `resume`.
        """
        for directory in self._directories:
            for where, future in directory.futures():
                name = folder_name(*where)
                mine = [each.root / name for each in self._directories.of[directory.node_id]]
                if not any(folder.is_dir() for folder in mine) and (future / PARTITION_METADATA).exists():
                    future.rename(directory.root / name)
                    note(f"{directory.root / name}: the interrupted move to this log directory is complete now")
                    continue
                shutil.rmtree(future, ignore_errors=True)
                if not (directory.root / name).is_dir():
                    self._unfinished.append((where, directory))

    def resume(self) -> None:
        """Restart the interrupted moves that `finish` has remembered. Raises OSError."""
        for (topic, index), directory in self._unfinished:
            partition = self._cluster.partition(topic, index)
            if partition is not None:
                note(f"{topic}-{index}: the interrupted move to {directory.root} begins again")
                self.move(partition, directory.node_id, directory.path)
        self._unfinished.clear()

    def _changed(self) -> None:
        """Remember that the cluster's metadata has changed. The host writes the change to the metadata log after the current
        job or request.
        """
        self._cluster.version += 1


def _log_of(partition: Partition) -> FolderLog:
    assert isinstance(partition.log, FolderLog)
    return partition.log


def _place_of(partition: Partition) -> tuple[int, str]:
    directory = _log_of(partition).directory
    return directory.node_id, directory.path
