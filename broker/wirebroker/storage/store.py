"""The data directory as a whole. A start restores the cluster from the directory, and the broker writes changes of the cluster
to the directory.

The broker writes a batch when the batch arrives, and a change of metadata before the response is sent. So acknowledged data is
in the page cache, and survives the death of the process. With `--sync always`, acknowledged data is on the disk, and survives a
failure of the machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kafkawire.disk.damage import DataError
from kafkawire.disk.indexes import OFFSET_ENTRY, TIME_ENTRY
from kafkawire.disk.metadata import BROKER
from kafkawire.disk.names import deleted_folder_name, folder_name
from kafkawire.disk.properties import PARTITION_METADATA, partition_metadata_text
from kafkawire.errors import ProtocolError
from wirebroker.core import purgatory
from wirebroker.core.cluster import Cluster, Topic
from wirebroker.core.configs import TopicConfigs
from wirebroker.core.features import unsupported
from wirebroker.core.image import Coordinators, enter_image, load_coordinators
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import Idle
from wirebroker.storage import files
from wirebroker.storage.changes import Changes
from wirebroker.storage.compaction import Cleaned
from wirebroker.storage.directory import METADATA, LogDirectories, LogDirectory
from wirebroker.storage.inspection import Inspection
from wirebroker.storage.loading import Loading, topic_id_in
from wirebroker.storage.log import FolderLog
from wirebroker.storage.moves import Moves
from wirebroker.storage.notes import note
from wirebroker.storage.recovery import LogSettings
from wirebroker.storage.segment import SegmentSettings
from wirebroker.storage.upkeep import INTERVAL, NEVER, Job, Upkeep, nothing, words

DEFAULT_INTERVAL_MS = 1000
"""The interval in ms between syncs if log.flush.interval.ms is not set."""


class FolderStore(Upkeep):
    """The data directory of a cluster of `brokers` brokers."""

    def __init__(
        self, root: Path, random_bytes: Callable[[int], bytes], *, more: Sequence[Path] = (), brokers: int = 1,
        sync: str = NEVER, nodes: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Open and lock the directories, and read the metadata in `root`. `nodes` are the brokers' ids. Without `nodes` the ids
        are 1 to `brokers`.

        Each broker has a further log directory in each of the directories `more`. Raises DataError, OSError.
        """
        with _usable(root):
            self._directories = LogDirectories((root, *more), nodes or range(1, 1 + brokers), random_bytes)
        super().__init__(root, sync, self._directories.metadata, random_bytes)
        self._uncleanable: set[FolderLog] = set()
        """Logs whose compaction has failed. As in Kafka, only the next start tries these logs again."""
        self._syncing = False
        """Tells whether the timer has started a sync that is still in progress."""
        self._cluster: Cluster | None = None
        self._changes: Changes
        self._moves: Moves
        self._loading: Loading | None = None
        """The object that reads the directory during the start; None after all logs are open."""
        self.cluster_id = self._directories.cluster_id
        self.has_features = False
        """Tells whether the metadata in the directory has feature levels."""

    @property
    def log_dirs(self) -> dict[int, list[str]]:
        """The paths of the log directories by broker."""
        return self._directories.paths

    @property
    def directory_ids(self) -> dict[int, bytes]:
        """The id of each broker's first log directory."""
        return {node_id: held[0].id for node_id, held in self._directories.of.items()}

    @property
    def _served(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    def load(self, cluster: Cluster, coordinators: Coordinators, now: int) -> None:
        """Restore the cluster from the directory. If this raises DataError, no file has changed, except that torn tails may
        have been cut off.
        """
        with _usable(self.root):
            self._load(cluster, coordinators, now)

    def _load(self, cluster: Cluster, coordinators: Coordinators, now: int) -> None:
        self._cluster = cluster
        cluster.metadata_log = self.metadata
        self._moves = Moves(self, cluster, self._directories)
        loading = self._loading = Loading(self._directories, self._random_bytes)
        loading.check_metadata()
        self._moves.finish()
        image = loading.image()
        if why := unsupported(cluster.configs.release.features, image.features):
            raise DataError(f"{cluster.rules.name} cannot serve this directory: {why}; start it with a newer release's profile")
        loading.restore(cluster, image, now)
        self._loading = None
        enter_image(cluster, image)
        if image.features:
            self.has_features = True
            cluster.configs.without_eligible_replicas(image.settings.get((BROKER, ""), {}))
        self.metadata.create()
        for directory in self._directories:
            directory.opened()
            directory.remove_deleted()
        load_coordinators(cluster, coordinators, now)
        self._changes = Changes(cluster, self._directories, loading.unused)
        self._decide(now)
        if self.metadata.begun():
            self._checkpoint()
        self._set_timers(now)
        self._moves.resume()

    def _decide(self, now: int) -> None:
        """Begin a leader epoch of the metadata log, and write the cluster's decisions to the log. From now on, each decision is
        written as soon as it is made. If this raises OSError, the decisions are written later."""
        decisions = self._served.decisions
        self._changes.write_all()
        decisions.write_with(self.settle)
        self._changes.registrations.begin(now)
        if (failure := decisions.write_down(now)) is not None:
            raise failure

    def settle(self, now: int, only: Sequence[Partition] = ()) -> None:
        """Write the changes of the cluster to the metadata log. If `only` names partitions, the caller knows that no other
        partition has changed. Raises OSError, and other exceptions for changes that cannot be encoded.
        """
        try:
            self._changes.write(now, only)
        except Exception as failure:
            self.failed(failure)
            raise

    def insist(self) -> None:
        if isinstance(failure := self._served.decisions.insist(), OSError):
            raise failure

    # Logs

    def open_log(self, topic: Topic, index: int, dirs: Mapping[int, str], now: int) -> FolderLog:
        """Open the log of a partition, in the existing folder or in a new folder. Raises DamagedFile, OSError."""
        directory = self._directory_of(topic, index, dirs)
        folder = directory.root / folder_name(topic.name, index)
        is_there = files.is_folder(folder)
        topic_id = topic_id_in(folder)
        if is_there and topic_id not in (None, topic.topic_id):
            stray = folder.with_name(deleted_folder_name(topic.name, index, topic.topic_id).replace("-delete", "-stray"))
            folder.rename(stray)
            is_there, topic_id = False, None
            note(f"{folder} belongs to another topic of that name; it is renamed to {stray.name}")
        is_new = topic_id is None and not (is_there and any(os.scandir(folder)))
        try:
            if is_new:
                directory.forget((topic.name, index))
                files.make_folder(folder)
                self._made.append(directory.root)
            if topic_id is None:
                files.replace(folder / PARTITION_METADATA, partition_metadata_text(topic.topic_id).encode(), durable=False)
                self._made.append(folder / PARTITION_METADATA)
            return FolderLog(self, directory, (topic.name, index), folder, self._settings(topic.configs), topic.configs, now)
        except OSError as failure:
            if is_new:
                self.failed(failure)
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def _directory_of(self, topic: Topic, index: int, dirs: Mapping[int, str]) -> LogDirectory:
        """Returns the log directory for a partition. During a start, this is the directory that has the partition's folder.
        Later it is the directory of the first replica.
        """
        if self._loading is not None:
            return self._loading.directory_of(topic.name, index, topic.topic_id, dirs)
        return self._directories.at(*next(iter(dirs.items())))

    def _settings(self, configs: TopicConfigs) -> LogSettings:
        room, cluster = configs.integer("segment.index.bytes"), self._served
        entries = room // OFFSET_ENTRY.size, room // TIME_ENTRY.size
        return LogSettings(
            SegmentSettings(configs.integer("index.interval.bytes"), *entries, nothing, self._files),
            cluster.rules,
            cluster.configs.producer_expiration_ms,
        )

    def _logs(self) -> Iterable[FolderLog]:
        for partition in self._served.partitions():
            assert isinstance(partition.log, FolderLog)
            yield partition.log

    # Timers

    def _set_timers(self, now: int) -> None:
        configs, timers = self._served.configs, self._served.timers
        timers.every(lambda: configs.integer("log.flush.offset.checkpoint.interval.ms"), now, self.checkpoint)
        timers.every(lambda: configs.integer("log.cleaner.backoff.ms"), now, self.compact)
        if self.sync == INTERVAL:
            timers.every(self._interval, now, self._sync_by_timer)

    def _interval(self) -> int:
        value = self._served.configs.value("log.flush.interval.ms")
        return value if isinstance(value, int) else DEFAULT_INTERVAL_MS

    def _sync_by_timer(self, _: int) -> Idle:
        if self._syncing or (job := self.sync_now()) is None:  # no job runs while the clock is moved, for example by a month
            return purgatory.NEVER
        self._syncing = True

        def ended(then: Callable[[], None]) -> None:
            self._syncing = False
            then()

        self.jobs.append(job._replace(done=partial(ended, job.done), failed=partial(ended, job.failed)))
        return None

    def compact(self, now: int) -> Idle:
        """If a log is dirty enough and no compaction is running, compact the dirtiest log."""
        if self.compacting is not None or not self._served.configs.value("log.cleaner.enable"):
            return purgatory.NEVER
        logs = [log for log in self._logs() if log not in self._uncleanable and not self._moves.has(log)]
        found = [(log, *wanted) for log in logs if (wanted := log.to_compact(now)) is not None]
        if not found:
            return min((log.next_compaction(now) for log in logs), default=purgatory.NEVER)
        log, _, task = max(found, key=lambda each: each[1])
        results: list[Cleaned | Exception] = []

        def work() -> None:
            try:
                results.append(log.compact(task))
            except (OSError, ProtocolError) as failed:
                results.append(failed)

        def done() -> None:
            self.compacting = None
            (result,) = results
            if isinstance(result, Cleaned):
                log.take_compacted(result)
                if log.holds(task.segments):  # a further round would not change anything, either
                    self._uncleanable.add(log)
                    raise DataError(f"{log.folder} is not compacted any more: a round changed nothing")
            elif log.holds(task.segments):  # otherwise, segments were deleted in the meantime
                if isinstance(result, OSError) and not isinstance(result, DataError):
                    raise result  # the disk may be full; the next attempt follows in log.cleaner.backoff.ms
                self._uncleanable.add(log)
                raise DataError(f"{log.folder} is not compacted any more: {result}") from result
            self.compact(now)  # another log may be dirty enough

        self.compacting = log
        self.jobs.append(Job(work, done, apart=True))
        return None

    def checkpoint(self, _: int = 0) -> Idle:
        """Write the checkpoints that have changed. If an earlier write has failed, write all checkpoints; if this succeeds, the
        directory counts as writable again."""
        try:
            changed = self._checkpoint(whole=self.is_failing)
        except OSError as failure:
            self.failed(failure)
            return purgatory.NEVER
        self.succeeded()
        return None if changed else purgatory.NEVER

    def _checkpoint(self, *, durable: bool = False, whole: bool = False) -> bool:
        changed = False
        held: dict[LogDirectory, list[FolderLog]] = {directory: [] for directory in self._directories}
        for log in self._logs():
            log.catch_up()
            log.write_epochs()
            held[log.directory].append(log)
        for number, (directory, logs) in enumerate(held.items()):
            recovery_points = {log.where: log.recovery_point for log in logs}
            if not number:
                recovery_points[METADATA] = self.metadata.synced_offset
            written = directory.checkpoint(
                recovery_points,
                {log.where: log.log_start_offset for log in logs},
                {log.where: log.end_offset for log in logs},
                durable=durable,
                whole=whole,
            )
            changed = changed or written
        return changed

    # The end

    def close(self, now: int) -> None:
        """Stop cleanly: write all state, so that the next start has nothing to recover.

        Raises DataError if a write fails. Acknowledged data is not lost in that case; the next start recovers it.
        """
        try:
            if self._cluster is not None and self.metadata.exists:
                self._close(now)
        except FileNotFoundError as gone:
            raise DataError(
                f"{self.root} has lost files while it was served: {words(gone)}. Put back a copy, or begin with a new folder"
            ) from gone
        except OSError as failure:
            raise DataError(
                f"{self.root} was not closed cleanly: {words(failure)}. Nothing that was acknowledged is lost; the next start "
                "checks the logs as after a crash"
            ) from failure
        finally:
            self._directories.release()

    def _close(self, now: int) -> None:
        self._close_logs()
        self._changes.write_end(now)
        self.metadata.close()
        self._checkpoint(durable=True)
        self.run_jobs()
        for directory in self._directories:
            directory.closed()

    def _close_logs(self) -> None:
        files.sync_all([path for log in self._logs() for path in log.close()])

    def abandon(self) -> None:
        """Close all descriptors and write nothing, as if the process were killed."""
        if self._cluster is not None:
            for log in self._logs():
                log.release()
        self.metadata.release()
        self._directories.release()

    def restart(self, mode: str, now: int) -> None:
        """Stop the brokers and read the checkpoints again. After this call the partitions open their logs again. If the disk
        rejects the writes of a clean stop, the brokers start as after a crash."""
        clean = mode == "clean"
        try:
            self.run_jobs()
            if clean:
                self._close_logs()
                self._checkpoint()
        except OSError as failure:
            self.failed(failure)
            clean = False
        self.inspection = Inspection()
        for directory in self._directories:
            directory.read_checkpoints()
            directory.clean = clean

    def restarted(self, now: int) -> None:
        """Remember that the brokers have started again. If a write fails, the write is repeated later."""
        self._set_timers(now)
        try:
            for directory in self._directories:
                directory.opened()
            self._decide(now)
        except OSError as failure:
            self.failed(failure)


@contextmanager
def _usable(root: Path) -> Iterator[None]:
    """Turns errors of the operating system into a DataError whose message names the directory."""
    try:
        yield
    except DataError:
        raise
    except OSError as failure:
        sentence = f"{root} cannot be used: {words(failure)}. Nothing is lost; solve this problem and start again"
        raise DataError(sentence) from failure
