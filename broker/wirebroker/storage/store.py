"""The data directory as a whole: a start restores the cluster from it, and changes of the cluster are written to it.

Batches are written when they arrive, and changes of the metadata before any answer leaves. So everything acknowledged
is in the page cache if the process dies, and with `--sync always` on the disk if the machine does. Long work is a `Job`:
the driver of the engine calls its `work` in a thread, and its `done` in the engine's thread.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from glob import escape as glob_escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.disk.damage import DamagedFile, DataError
from kafkawire.disk.metadata import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    NO_LEADER,
    TOPIC,
    Image,
    PartitionImage,
    TopicImage,
    difference,
    is_reserved,
)
from kafkawire.disk.names import DELETED, LOG, METADATA_FOLDER, deleted_folder_name, folder_name
from kafkawire.disk.properties import (
    META_PROPERTIES,
    PARTITION_METADATA,
    partition_metadata_text,
    read_partition_metadata,
)
from kafkawire.disk.walking import ANYWHERE
from kafkawire.errors import ProtocolError
from kafkawire.primitives import format_uuid
from wirebroker.core.cluster import (
    CLUSTER_ID,
    INTERNAL_TOPICS,
    Cluster,
    StoredPartition,
    Topic,
)
from wirebroker.core.config_resources import check_stored
from wirebroker.core.configs import ConfigError, TopicConfigs, check_topic_configs
from wirebroker.core.image import enter_image, image_of, load_coordinators
from wirebroker.core.partition import Partition
from wirebroker.storage import files
from wirebroker.storage.compaction import Cleaned
from wirebroker.storage.directory import METADATA, LogDirectory, make_root
from wirebroker.storage.inspection import Inspection
from wirebroker.storage.log import FolderLog, RecentIndexes
from wirebroker.storage.metadata import FOLDERS_MADE, MetadataLog, check_image
from wirebroker.storage.moves import Moves
from wirebroker.storage.notes import note
from wirebroker.storage.recovery import LogSettings
from wirebroker.storage.segment import OpenFiles, SegmentSettings

if TYPE_CHECKING:
    from wirebroker.core.groups import GroupCoordinator
    from wirebroker.core.transactions import TransactionCoordinator

ALWAYS, INTERVAL, NEVER = "always", "interval", "never"
SYNCS = (ALWAYS, INTERVAL, NEVER)
"""When written data is synced: before an answer, every log.flush.interval.ms, or when the system decides."""
DEFAULT_INTERVAL_MS = 1000
"""The interval if log.flush.interval.ms is not set."""
OFFSET_ENTRY, TIME_ENTRY = 8, 12


class Job(NamedTuple):
    """A long task: any thread may call `work`; the engine's thread then calls `done`."""

    work: Callable[[], None]
    done: Callable[[], None]
    apart: bool = False
    """Whether the job has a thread of its own, because it takes very long. There is at most one such job."""
    failed: Callable[[], None] = lambda: None
    """Called instead of `done` if `work` raises OSError."""


class FolderStore:
    """The data directory of a cluster of `brokers` brokers."""

    def __init__(
        self, root: Path, random_bytes: Callable[[int], bytes], *, more: Sequence[Path] = (), brokers: int = 1,
        sync: str = NEVER, first_node: int = 1,
    ) -> None:  # fmt: skip
        """Open and lock the directories, and read the metadata, which is in `root`. The brokers' ids begin at `first_node`.

        With `more` each broker has several log directories, one in each of these places. Raises DataError, OSError.
        """
        self.root = root
        self._roots = (root, *more)
        self.sync = sync
        self.jobs: deque[Job] = deque()
        self.recent = RecentIndexes()
        self._files = OpenFiles()
        self._random_bytes = random_bytes
        self._dirty: dict[FolderLog, None] = {}
        """The logs that were written to since they were last synced."""
        self._metadata_dirty = False
        self._made: list[Path] = []
        """Other files and folders that were made or changed since then."""
        self._compacting: FolderLog | None = None
        self._inspection = Inspection()
        self.latest_epochs: dict[tuple[str, int], int] = {}
        """The leader epochs in the metadata, while the directory is loaded."""
        self._uncleanable: set[FolderLog] = set()
        """Logs whose compaction has failed. As in Kafka, only the next start tries them again."""
        self._trouble = False
        """Whether a write has failed since the last time that all succeeded."""
        self._cluster: Cluster | None = None
        self._written_versions: tuple[int, int, int] | None = None
        """The cluster's versions when its metadata were last written; None if all of it has to be looked at."""
        self._is_loading = True
        self._ids: dict[Path, bytes] = {}
        """The topic ids in the partitions' folders, while the directory is loaded."""
        self._passed_over: dict[tuple[int, str], dict[str, str]] = {}
        """Settings in the metadata that this broker cannot use. They stay in the metadata."""
        self.cluster_id = CLUSTER_ID
        self.metadata: MetadataLog
        self.directories: dict[int, list[LogDirectory]] = {}
        """The log directories of each broker."""
        self.moves = Moves(self)
        self.has_features = False
        """Whether the directory says at which levels the features are."""
        self.topics_found: frozenset[str] = frozenset()
        """The topics that the directory had when it was opened."""
        try:
            self._open(range(first_node, first_node + brokers))
        except BaseException as wrong:
            self._release()
            if isinstance(wrong, OSError) and not isinstance(wrong, DataError):
                raise self._unusable(wrong) from wrong
            raise

    def _open(self, nodes: range) -> None:
        root, brokers = self.root, len(nodes)
        found = len([path for path in root.glob("node-*") if (path / META_PROPERTIES).exists()])
        for each in self._roots:
            if brokers > 1 and (each / META_PROPERTIES).exists():
                raise DataError(f"{each} is the data of one broker; start it with --brokers 1")
        for number, node_id in enumerate(nodes, 1):
            # With fewer directories and no topic yet, the first start was killed.
            if found > brokers or (0 < found < number and self.metadata.image.topics):
                raise DataError(f"{root} is the data of {found} brokers; start it with --brokers {found}")
            held = self.directories[node_id] = []
            for each in self._roots:
                place = each
                if brokers > 1:
                    place = each / f"node-{number}"
                    make_root(each)
                    files.make_folder(place)
                held.append(LogDirectory(place, node_id, self.cluster_id, self._random_bytes))
                if place is held[0].root and number == 1:
                    self.cluster_id = held[0].cluster_id
                    self.metadata = MetadataLog(place, held[0].metadata_end, clean=held[0].clean)
                else:
                    self._check_directory(held[-1], held[0])

    def _check_directory(self, directory: LogDirectory, first: LogDirectory) -> None:
        """Raises DataError if this log directory cannot be one of the broker that has the `first` one."""
        if directory.cluster_id != self.cluster_id:
            raise DataError(f"{directory.root} is of the cluster {directory.cluster_id}, and {self.root} of {self.cluster_id}")
        if directory.stored_node_id != first.stored_node_id:
            nodes = directory.stored_node_id, first.stored_node_id
            raise DataError(f"{directory.root} is the data of broker {nodes[0]}, and {first.root} that of broker {nodes[1]}")
        if len(self._roots) > 1 and directory is not first and (directory.root / METADATA_FOLDER).exists():
            raise DataError(f"{directory.root} holds the metadata; name it before {first.root}")

    def _each(self) -> Iterable[LogDirectory]:
        """All log directories of all brokers."""
        for held in self.directories.values():
            yield from held

    # What was there

    def load(self, cluster: Cluster, groups: GroupCoordinator, transactions: TransactionCoordinator, now: int) -> None:
        """Restore the cluster from the directory. Raises DataError; then only torn tails have been changed."""
        try:
            self._load(cluster, groups, transactions, now)
        except DataError:
            raise
        except OSError as failure:
            raise self._unusable(failure) from failure

    def _unusable(self, failure: OSError) -> DataError:
        return DataError(f"{self.root} cannot be used: {_said(failure)}. Nothing is lost; start again once that is over")

    def _load(self, cluster: Cluster, groups: GroupCoordinator, transactions: TransactionCoordinator, now: int) -> None:
        self._cluster = cluster
        cluster.log_dirs.mover = self.moves.move
        self._check_metadata()
        self.moves.finish(self._each())
        image = self.metadata.image if self.metadata.exists else self._found_image()
        check_image(image, self.metadata.path if self.metadata.exists else self.root)
        self._check_count(image)
        self.topics_found = frozenset(topic.name for topic in image.topics.values())
        self._load_settings(cluster, image)
        for topic_id, topic in image.topics.items():
            self._load_topic(cluster, topic_id, topic, image.settings.get((TOPIC, topic.name), {}), now)
        self._note_unknown(cluster)
        self.latest_epochs.clear()
        self._ids.clear()
        self._is_loading = False
        enter_image(cluster, image)
        if image.features:
            self.has_features = True
            cluster.configs.without_eligible_replicas(image.settings.get((BROKER, ""), {}))
        self.metadata.create()
        for directory in self._each():
            directory.opened()
            directory.remove_deleted()
        load_coordinators(cluster, groups, transactions, now)
        self._decide(now)
        if self.metadata.begun(now):
            self._checkpoint()
        self._metadata_dirty = True
        self._set_timers(now)
        self.moves.resume(cluster)

    def _check_metadata(self) -> None:
        """Raises DamagedFile if the metadata is lost: its topics must not vanish silently."""
        metadata = self.metadata
        if not metadata.is_lost:
            return
        folders = (path for directory in self._each() for _, path in directory.partitions())
        folder = next(folders, None)
        if folder is not None or metadata.end_offset:
            what = f"the metadata ends at offset {metadata.end_offset}, and had reached {metadata.synced_offset}"
            what = what if metadata.end_offset else "no metadata is in it"
            raise DamagedFile(
                metadata.path,
                f"{what}, but there are folders of partitions, as {folder.name if folder else 'none'}. Restore it from a copy; "
                f"to have them served by what they are called, without their settings, leave {metadata.folder} empty",
            )

    def _check_count(self, image: Image) -> None:
        """Raises DamagedFile if the metadata names very many partitions that have no folder."""
        count = sum(len(topic.partitions) for topic in image.topics.values())
        folders = sum(1 for directory in self._each() for _ in directory.partitions()) if count > FOLDERS_MADE else 0
        if count - folders > FOLDERS_MADE:
            raise DamagedFile(
                self.metadata.path,
                f"it names {count} partitions, and {folders} have a folder; a start makes at most {FOLDERS_MADE} folders",
            )

    def _note_unknown(self, cluster: Cluster) -> None:
        """Report the folders of partitions that the metadata does not have."""
        unknown = []
        for directory in self._each():
            for (name, index), path in directory.partitions():
                topic = cluster.topics.get(name)
                if topic is None or topic.partition(index) is None or self._id_in(path) not in (None, topic.topic_id):
                    unknown.append(path)
        if unknown:
            more = f" and {len(unknown) - 1} more folders" if len(unknown) > 1 else ""
            note(f"{unknown[0]}{more}: the metadata knows of no such partition, and nothing of it is served")

    def _found_image(self) -> Image:
        """The image without metadata: every partition that has a folder."""
        image = Image()
        ids: dict[str, bytes] = {}
        for directory in self._each():
            node_id = directory.node_id
            for (topic, index), path in directory.partitions():
                topic_id = self._id_in(path) or ids.get(topic) or self._random_bytes(16)
                ids.setdefault(topic, topic_id)
                held = image.topics.setdefault(ids[topic], TopicImage(topic))
                held.partitions[index] = PartitionImage((node_id,), (node_id,), node_id, 0)
        if image.topics:
            note(f"{self.root} has no metadata: the topics are what the folders are called, and their settings the defaults")
        return image

    def _id_in(self, folder: Path) -> bytes | None:
        """The topic id in a partition's folder; None without partition.metadata, or if a power cut left it empty."""
        if (known := self._ids.get(folder)) is not None:
            return known
        path = folder / PARTITION_METADATA
        found = read_partition_metadata(path) if path.exists() and path.stat().st_size else None
        if self._is_loading and found is not None:
            self._ids[folder] = found
        return found

    def _load_topic(self, cluster: Cluster, topic_id: bytes, topic: TopicImage, settings: Mapping[str, str], now: int) -> None:
        known, unknown = {}, {}
        for name, value in settings.items():
            try:
                check_topic_configs({name: value}, cluster.configs)
                known[name] = value
            except ConfigError as wrong:
                unknown[name] = value
                note(f"topic {topic.name} is served without its {name}={value}: {wrong}")
        stored = []
        for index in range(len(topic.partitions)):
            partition = topic.partitions[index]
            dirs = self._dirs(partition)
            directory = self._directory_of(topic.name, index, topic_id, dirs)
            self._check_folder(directory, topic.name, index, topic_id, partition)
            if directory.node_id in dirs:
                dirs[directory.node_id] = directory.path
            stored.append(StoredPartition(dirs, partition.leader_epoch))
            self.latest_epochs[topic.name, index] = partition.leader_epoch
        self._passed_over[TOPIC, topic.name] = unknown
        cluster.restore_topic(topic.name, topic_id, known, stored, now)

    def _check_folder(
        self, directory: LogDirectory, name: str, index: int, topic_id: bytes, partition: PartitionImage
    ) -> None:  # fmt: skip
        """Raises DamagedFile if a partition's folder is missing, or has records of another topic id."""
        folder = directory.root / folder_name(name, index)
        if not folder.is_dir():
            if directory.is_whole and not any(directory.root.glob(f"{glob_escape(folder.name)}.*-delete")):
                ours = {each.id for each in self._each()}
                if any(each not in ours and not is_reserved(each) for each in partition.directories):
                    raise DamagedFile(
                        folder,
                        "it is not there, and the metadata says that the partition is in another log directory. Name that "
                        "directory, too",
                    )
                raise DamagedFile(
                    folder,
                    "it is not there, and the metadata knows of the partition. Restore it from a copy; to have the partition "
                    "served empty, make an empty folder of that name",
                )
            note(f"{folder} is not there: the partition is served empty")
        elif (found := self._id_in(folder)) not in (None, topic_id) and any(
            path.stat().st_size for path in folder.glob(f"*{LOG}")
        ):
            raise DamagedFile(
                folder / PARTITION_METADATA,
                f"the topic id is {format_uuid(found or b'')}, and the metadata says {format_uuid(topic_id)}. If the folder is "
                "of an older topic of that name, move it elsewhere; else correct the id",
            )

    def _node(self, stored: int) -> int:
        """The broker that now serves the directory of the broker `stored`."""
        for directory in self._each():
            if directory.stored_node_id == stored:
                return directory.node_id
        return stored

    def _dirs(self, partition: PartitionImage) -> dict[int, str]:
        """The log directories of a partition's replicas, as the metadata has them; the first one of a broker if it does not."""
        ids = dict(zip(map(self._node, partition.replicas), partition.directories or partition.replicas, strict=False))
        leaving = set(map(self._node, partition.removing))
        here = [node_id for node_id in ids if node_id in self.directories.keys() - leaving] or [min(self.directories)]
        found = {}
        for node_id in here:
            held = self.directories[node_id]
            found[node_id] = next((each.path for each in held if each.id == ids.get(node_id)), held[0].path)
        return found

    def _load_settings(self, cluster: Cluster, image: Image) -> None:
        configs = cluster.configs
        for (kind, name), settings in sorted(image.settings.items(), key=lambda each: each[0][0] != BROKER):
            try:
                if kind == BROKER:
                    node = self._node(_node_id(name)) if name else None
                    configs.replace({**configs.dynamic.get(node, {}), **settings}, node)
                elif kind == GROUP:
                    check_stored(kind, name, settings, configs)
                    configs.groups[name] = dict(settings)
                elif kind == CLIENT_METRICS:
                    check_stored(kind, name, settings, configs)
                    configs.client_metrics[name] = dict(settings)
                elif kind != TOPIC:
                    self._passed_over[kind, name] = settings
            except ConfigError as wrong:
                self._passed_over[kind, name] = settings
                what = {BROKER: "broker", GROUP: "group"}.get(kind, "subscription")
                note(f"the settings {settings} of {what} {name!r} are not used: {wrong}")

    # What changes

    def settle(self, now: int, only: Sequence[Partition] = ()) -> None:
        """Write down the changes of the metadata, which are those of these partitions if any are named. Raises OSError."""
        assert self._cluster is not None
        try:
            added = self._only_added(self._cluster)
            if only and self._written_versions is not None:
                self._write_partitions(only, self._cluster, now)
            elif added is None:
                self._write_metadata(self._image(self._cluster), now)
            else:
                self._write_topics(added, self._cluster, now)
        except OSError as failure:
            self._written_versions = None
            self.failed(failure)
            raise
        self._written_versions = _versions(self._cluster)

    def _only_added(self, cluster: Cluster) -> list[Topic] | None:
        """The topics created since the last write; None if anything else has changed."""
        if self._written_versions is None:
            return None
        created, *other = (now - then for now, then in zip(_versions(cluster), self._written_versions, strict=True))
        return None if any(other) else list(islice(reversed(cluster.topics.values()), created))[::-1]

    def _write_topics(self, added: list[Topic], cluster: Cluster, now: int) -> None:
        """Write down new topics, without looking at all the others."""
        written = self.metadata.image
        image = Image(next_producer_id=cluster.producer_ids.next_block)
        for topic in added:
            self._enter(topic, image)
        if self.metadata.append(
            difference(Image(next_producer_id=written.next_producer_id), image, min(self.directories)), now
        ):
            self._metadata_dirty = True
        written.topics |= image.topics
        written.settings |= image.settings
        written.next_producer_id = image.next_producer_id

    def _write_partitions(self, changed: Sequence[Partition], cluster: Cluster, now: int) -> None:
        """Write down leaders and in-sync replicas of these partitions, without looking at all the others."""
        written = self.metadata.image
        before, after = (
            Image(next_producer_id=written.next_producer_id),
            Image(next_producer_id=cluster.producer_ids.next_block),
        )
        for partition in changed:
            topic_id, index = cluster.topics[partition.topic].topic_id, partition.index
            known = written.topics[topic_id].partitions.get(index)
            if known is not None:  # else it is being made, and is written down when it is
                before.topics.setdefault(topic_id, TopicImage(partition.topic)).partitions[index] = known
                image = self._partition_image(partition)
                after.topics.setdefault(topic_id, TopicImage(partition.topic)).partitions[index] = image
        if self.metadata.append(difference(before, after, min(self.directories)), now):
            self._metadata_dirty = True
        for topic_id, topic in after.topics.items():
            written.topics[topic_id].partitions.update(topic.partitions)
        written.next_producer_id = after.next_producer_id

    def _decide(self, now: int) -> None:
        """Write down the cluster's decisions, from now on at once. Raises OSError."""
        assert self._cluster is not None
        decisions = self._cluster.decisions
        self._written_versions = None
        decisions.write_with(self.settle)
        if (failure := decisions.write_down(now)) is not None:
            raise failure

    def _write_metadata(self, image: Image, now: int) -> None:
        changes = difference(self.metadata.image, image, min(self.directories))
        if self.metadata.append(changes, now):
            self._metadata_dirty = True
        self.metadata.image = image

    def _image(self, cluster: Cluster) -> Image:
        """The image of the cluster now. Unchanged parts are the objects of the last image."""
        image = image_of(cluster)
        settings = image.settings
        for topic in cluster.topics.values():
            self._enter(topic, image)
        for resource, unknown in self._passed_over.items():
            if resource[0] != TOPIC:
                settings[resource] = {**unknown, **settings.get(resource, {})}
        return image

    def _enter(self, topic: Topic, image: Image) -> None:
        """Add the topic as it is now to an image."""
        written, resource = self.metadata.image, (TOPIC, topic.name)
        image.topics[topic.topic_id] = self._topic_image(topic, written.topics.get(topic.topic_id))
        held = {**self._passed_over.get(resource, {}), **topic.configs.overrides}
        before = written.settings.get(resource)
        image.settings[resource] = before if before == held else held

    def _topic_image(self, topic: Topic, known: TopicImage | None) -> TopicImage:
        """The topic as it is now: the image `known` if that still holds."""
        now = TopicImage(topic.name, {each.index: self._partition_image(each) for each in topic.partitions})
        return known if known is not None and known == now else now

    def _partition_image(self, partition: Partition) -> PartitionImage:
        assert self._cluster is not None
        of, replicas = self._cluster.log_dirs.of, partition.replicas
        ids = tuple(self.directory_at(node_id, of(partition, node_id)).id for node_id in replicas)
        return PartitionImage(
            tuple(replicas), tuple(partition.in_sync), partition.leader, partition.leader_epoch, partition.adding,
            partition.removing, ids,
        )  # fmt: skip

    # Logs

    @property
    def log_dirs(self) -> dict[int, list[str]]:
        """The paths of the log directories by broker."""
        return {node_id: [directory.path for directory in held] for node_id, held in self.directories.items()}

    def open_log(self, topic: Topic, index: int, dirs: Mapping[int, str], now: int) -> FolderLog:
        """The log of a partition, from its folder if there is one. Raises DamagedFile, OSError."""
        directory = self._directory_of(topic.name, index, topic.topic_id, dirs)
        folder = directory.root / folder_name(topic.name, index)
        is_there = files.is_folder(folder)
        if is_there and self._id_in(folder) not in (None, topic.topic_id):
            stray = folder.with_name(deleted_folder_name(topic.name, index, topic.topic_id).replace("-delete", "-stray"))
            folder.rename(stray)
            self._ids.pop(folder, None)
            is_there = False
            note(f"{folder} belongs to another topic of that name, and is set aside as {stray.name}")
        is_new = self._id_in(folder) is None and not (is_there and any(os.scandir(folder)))
        try:
            if is_new:
                directory.forget((topic.name, index))
                files.make_folder(folder)
                self._made.append(directory.root)
            if self._id_in(folder) is None:
                files.replace(folder / PARTITION_METADATA, partition_metadata_text(topic.topic_id).encode(), durable=False)
                self._made.append(folder / PARTITION_METADATA)
            settings = self._settings(topic.configs)
            return FolderLog(self, directory, (topic.name, index), folder, settings, topic.configs, now)
        except OSError as failure:
            if is_new:
                self.failed(failure)
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def failed(self, failure: OSError) -> None:
        """Report a failed write, once until all writes succeed again."""
        if not self._trouble:
            self._trouble = True
            note(
                f"{self.root} cannot be written to: {_said(failure)}. Requests that need it are refused until then; this "
                "message is not repeated"
            )

    def directory_at(self, node_id: int, path: str) -> LogDirectory:
        """The log directory of this broker at the path that clients see."""
        return next(each for each in self.directories[node_id] if each.path == path)

    def _directory_of(self, topic: str, index: int, topic_id: bytes, dirs: Mapping[int, str]) -> LogDirectory:
        """The log directory of a partition's folder: at a start where the folder is, or else the one of the first replica.

        A folder stays where it was made when the replicas change to other brokers. Raises DataError if there are two.
        """
        wanted = [self.directory_at(node_id, path) for node_id, path in dirs.items()]
        if not self._is_loading:
            return wanted[0]
        others = [each for node_id in dirs for each in self.directories[node_id]]
        unnamed: list[LogDirectory] = []
        found: list[LogDirectory] = []
        for directory in dict.fromkeys((*wanted, *others, *self._each())):
            folder = directory.root / folder_name(topic, index)
            if folder.is_dir() and (known := self._id_in(folder)) in (None, topic_id):
                (unnamed if known is None else found).append(directory)
        twice = [each for each in found[1:] if each.node_id == found[0].node_id]
        if twice:
            folders = [each.root / folder_name(topic, index) for each in (found[0], twice[0])]
            raise DataError(f"{folders[0]} and {folders[1]} are the same partition; move one of them elsewhere")
        return (*found, *unnamed, *wanted)[0]

    def _settings(self, configs: TopicConfigs) -> LogSettings:
        room = configs.integer("segment.index.bytes")
        cluster = self._cluster
        assert cluster is not None
        return LogSettings(
            SegmentSettings(
                configs.integer("index.interval.bytes"), room // OFFSET_ENTRY, room // TIME_ENTRY, _nobody, self._files
            ),
            cluster.rules,
            cluster.configs.integer("producer.id.expiration.ms"),
        )

    @property
    def cluster(self) -> Cluster:
        """The cluster that is served from here."""
        assert self._cluster is not None
        return self._cluster

    def unique(self) -> bytes:
        """16 bytes that no other folder has in its name."""
        return self._random_bytes(16)

    def add_job(self, work: Callable[[], None], done: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call `work` in a thread after the present compaction, and then `done`, or `failed` if it raises OSError."""
        self.jobs.append(Job(work, done, apart=True, failed=failed))

    def remove_later(self, folder: Path) -> None:
        """Remove this folder in a job."""
        self.jobs.append(Job(lambda: shutil.rmtree(folder, ignore_errors=True), _nobody))

    def is_compacting(self, log: FolderLog) -> bool:
        """Whether this log is being compacted in a thread."""
        return self._compacting is log

    def _logs(self) -> Iterable[FolderLog]:
        assert self._cluster is not None
        for partition in self._cluster.partitions():
            assert isinstance(partition.log, FolderLog)
            yield partition.log

    def written(self, log: FolderLog) -> None:
        """Note that this log has been written to and is not synced."""
        self._dirty[log] = None

    def forget(self, log: FolderLog) -> None:
        """Forget this log, which needs no more syncs."""
        self._dirty.pop(log, None)

    def discard(self, paths: Iterable[Path]) -> None:
        """Delete these files: rename them at once, and remove them in a job. Raises OSError."""
        renamed: list[Path] = []

        def remove() -> None:
            for path in renamed:
                with suppress(OSError):  # the next start removes it
                    path.unlink(missing_ok=True)

        self.jobs.append(Job(remove, _nobody))
        for path in paths:
            renamed.append(path.rename(path.with_name(path.name + DELETED)))

    def delete_folder(self, log: FolderLog) -> None:
        """Delete the folder of a deleted partition in the same way."""
        self.forget(log)
        log.directory.forget(log.where)
        try:
            gone = log.folder.rename(log.folder.with_name(deleted_folder_name(*log.where, self._random_bytes(16))))
        except OSError as failure:
            note(f"{log.folder} is of a partition that was deleted, and cannot be removed: {failure.strerror}")
            return
        self.remove_later(gone)

    # The disk

    def rolled(self, log: FolderLog) -> None:
        """Sync a closed segment. Kafka does so with any setting, so that recovery begins after it.

        With `--sync always` the sync that the next answers wait for includes it.
        """
        if not self.holds_responses:
            self.jobs.append(self._sync_job({log: log.active.base_offset}, [], _nobody))

    def sync_now(self) -> Job | None:
        """A job that syncs all writes up to now; None if there are none."""
        if not self._dirty and not self._metadata_dirty:
            return None
        ends = {log: log.end_offset for log in self._dirty}
        made, metadata = list(dict.fromkeys(self._made)), self._metadata_dirty
        metadata_end = self.metadata.end_offset
        self._dirty.clear()
        self._made.clear()
        self._metadata_dirty = False

        def failed() -> None:
            self._made += made
            self._metadata_dirty = self._metadata_dirty or metadata

        job = self._sync_job(ends, [*made, *([self.metadata.path] if metadata else [])], failed)

        def done() -> None:
            job.done()
            if metadata:
                self.metadata.synced_offset = max(self.metadata.synced_offset, metadata_end)

        return job._replace(done=done)

    def _sync_job(self, ends: Mapping[FolderLog, int], others: Iterable[Path], others_failed: Callable[[], None]) -> Job:
        """Sync each of these logs up to an offset, and other files and folders. If that fails, the next sync has them again."""
        segments = {log: log.unsynced(end) for log, end in ends.items()}
        for segment in (segment for written in segments.values() for segment in written):
            segment.dirty = False
        paths = list(others)

        def failed() -> None:
            others_failed()
            for segment in (segment for written in segments.values() for segment in written):
                segment.touched()

        def work() -> None:
            for path in paths:
                files.sync(path)
            for log, written in segments.items():
                log.sync(written)

        def done() -> None:
            for log, end in ends.items():
                log.synced_up_to(end)

        return Job(work, done, failed=failed)

    @property
    def holds_responses(self) -> bool:
        """Whether an answer waits until all earlier writes are synced."""
        return self.sync == ALWAYS

    def run_jobs(self) -> None:
        """Do all jobs in this thread. Raises OSError; the later jobs are then still in the queue."""
        while self.jobs:
            job = self.jobs.popleft()
            try:
                job.work()
            except OSError:
                job.failed()
                raise
            job.done()

    def inspection_of(self, topic: str) -> Inspection:
        """The inspection for a log of this topic. The coordinators read all of their logs anyway."""
        return Inspection(ANYWHERE) if topic in INTERNAL_TOPICS else self._inspection

    def _set_timers(self, now: int) -> None:
        assert self._cluster is not None
        configs, timers = self._cluster.configs, self._cluster.timers
        timers.every(lambda: configs.integer("log.flush.offset.checkpoint.interval.ms"), now, self.checkpoint)
        timers.every(lambda: configs.integer("log.cleaner.backoff.ms"), now, self.compact)
        if self.sync == INTERVAL:
            timers.every(self._interval, now, self._sync_by_timer)

    def _interval(self) -> int:
        assert self._cluster is not None
        value = self._cluster.configs.value("log.flush.interval.ms")
        return value if isinstance(value, int) else DEFAULT_INTERVAL_MS

    def _sync_by_timer(self, _: int) -> None:
        if (job := self.sync_now()) is not None:
            self.jobs.append(job)

    def compact(self, now: int) -> None:
        """Compact the dirtiest log, unless none is dirty enough or a compaction is running."""
        assert self._cluster is not None
        if self._compacting is not None or not self._cluster.configs.value("log.cleaner.enable"):
            return
        logs = [log for log in self._logs() if log not in self._uncleanable and not self.moves.has(log)]
        found = [(log, *wanted) for log in logs if (wanted := log.to_compact(now)) is not None]
        if not found:
            return
        log, _, task = max(found, key=lambda each: each[1])
        results: list[Cleaned | Exception] = []

        def work() -> None:
            try:
                results.append(log.compact(task))
            except (OSError, ProtocolError) as failed:
                results.append(failed)

        def done() -> None:
            self._compacting = None
            (result,) = results
            if isinstance(result, Cleaned):
                log.take_compacted(result)
            elif log.holds(task.segments):  # else the segments were deleted meanwhile, and the next round takes the others
                if isinstance(result, OSError) and not isinstance(result, DataError):
                    raise result  # a full disk, perhaps: it is tried again in log.cleaner.backoff.ms
                self._uncleanable.add(log)
                raise DataError(f"{log.folder} is not compacted any more: {result}") from result
            self.compact(now)  # there may be another

        self._compacting = log
        self.jobs.append(Job(work, done, apart=True))

    def checkpoint(self, _: int = 0) -> None:
        """Write the checkpoints of recovery points and log starts, and retry writes that failed."""
        try:
            self._checkpoint()
        except OSError as failure:
            self.failed(failure)
            return
        if self._trouble:
            self._trouble = False
            note(f"{self.root} can be written to again")

    def _checkpoint(self, *, durable: bool = False) -> None:
        held: dict[LogDirectory, list[FolderLog]] = {directory: [] for directory in self._each()}
        for log in self._logs():
            log.write_epochs()
            held[log.directory].append(log)
        for number, (directory, logs) in enumerate(held.items()):
            recovery_points = {log.where: log.recovery_point for log in logs}
            if not number:
                recovery_points[METADATA] = self.metadata.synced_offset
            directory.checkpoint(
                recovery_points,
                {log.where: log.log_start_offset for log in logs},
                {log.where: log.end_offset for log in logs},
                durable=durable,
            )

    # The end

    def close(self, now: int) -> None:
        """Stop cleanly: everything is written, so that the next start has nothing to recover.

        Raises DataError if something cannot be written. Nothing that was acknowledged is lost then; the next start recovers.
        """
        try:
            if self._cluster is not None and self.metadata.exists:
                self._close(self._cluster, now)
        except FileNotFoundError as gone:
            raise DataError(
                f"{self.root} has lost files while it was served: {_said(gone)}. Put back a copy, or begin with a new folder"
            ) from gone
        except OSError as failure:
            raise DataError(
                f"{self.root} was not closed cleanly: {_said(failure)}. Nothing that was acknowledged is lost; the next start "
                "checks the logs as after a crash"
            ) from failure
        finally:
            self._release()

    def _close(self, cluster: Cluster, now: int) -> None:
        self._close_logs()
        image = self._image(cluster)
        image.topics = {topic_id: _handed_over(topic) for topic_id, topic in image.topics.items()}
        self._write_metadata(image, now)
        self.metadata.close()
        self._checkpoint(durable=True)
        self.run_jobs()
        for directory in self._each():
            directory.closed()

    def _close_logs(self) -> None:
        files.sync_all([path for log in self._logs() for path in log.close()])

    def abandon(self) -> None:
        """Close all descriptors and write nothing, as if the process were killed."""
        if self._cluster is not None:
            for log in self._logs():
                log.release()
        self.metadata.release()
        self._release()

    def restart(self, mode: str, now: int) -> None:
        """Stop the brokers and read the checkpoints from the disk, before the partitions open their logs again."""
        self.run_jobs()
        if mode == "clean":
            self._close_logs()
            self._checkpoint()
        self._inspection = Inspection()
        for directory in self._each():
            directory.read_checkpoints()
            directory.clean = mode == "clean"

    def restarted(self, now: int) -> None:
        """The brokers have started again."""
        for directory in self._each():
            directory.opened()
        self._decide(now)
        self._set_timers(now)

    def _release(self) -> None:
        for directory in self._each():
            directory.release()


def _said(failure: OSError) -> str:
    return f"{failure.strerror or failure}{f' ({failure.filename})' if failure.filename else ''}"


def _node_id(name: str) -> int:
    """The id of a broker that has settings. Raises ConfigError."""
    if not re.fullmatch("[0-9]{1,10}", name):
        raise ConfigError("this is not the id of a broker")
    return int(name)


def _nobody() -> None:
    """Do nothing."""


def _versions(cluster: Cluster) -> tuple[int, int, int]:
    """How many topics were created, and how many other changes were made, of topics and of settings."""
    return cluster.topics_created, cluster.version - cluster.topics_created, cluster.configs.version


def _handed_over(topic: TopicImage) -> TopicImage:
    """The topic after its broker has stopped: each partition is without a leader, in a new leader epoch, as in Kafka."""
    partitions = {
        index: each._replace(leader=NO_LEADER, leader_epoch=each.leader_epoch + 1) for index, each in topic.partitions.items()
    }
    return TopicImage(topic.name, partitions)
