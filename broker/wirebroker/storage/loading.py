"""Restores the cluster from its data directory when the broker starts. Refuses a directory whose files contradict each
other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from glob import escape as glob_escape
from pathlib import Path

from kafkawire.disk.damage import DamagedFile, DataError
from kafkawire.disk.metadata import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    Image,
    PartitionImage,
    TopicImage,
    is_reserved,
)
from kafkawire.disk.names import LOG, folder_name
from kafkawire.disk.properties import PARTITION_METADATA, read_partition_metadata
from kafkawire.primitives import format_uuid, new_uuid
from wirebroker.core.cluster import Cluster, StoredPartition
from wirebroker.core.config_resources import check_stored
from wirebroker.core.configs import ConfigError, check_topic_configs
from wirebroker.storage.directory import LogDirectories, LogDirectory
from wirebroker.storage.metadata import FOLDERS_MADE, check_image
from wirebroker.storage.notes import note

Settings = dict[tuple[int, str], dict[str, str]]
"""Settings by resource (type and name)."""


class Loading:
    """Reads the data directory when the broker starts. If a method raises DataError, no file has changed, except that torn
    tails may have been cut off.
    """

    def __init__(self, directories: LogDirectories, random_bytes: Callable[[int], bytes]) -> None:
        self.unused: Settings = {}
        """Settings in the metadata that this broker cannot use. These settings stay in the metadata."""
        self._directories = directories
        self._metadata = directories.metadata
        self._random_bytes = random_bytes
        self._ids: dict[Path, bytes] = {}
        """The topic ids that were read from the partitions' folders, by folder."""

    def image(self) -> Image:
        """Returns the image in the metadata. If the directory has no metadata, returns an image made from the partitions'
        folders.
        """
        metadata = self._metadata
        image = metadata.image if metadata.exists else self._found_image()
        check_image(image, metadata.path if metadata.exists else self._directories.roots[0])
        self._check_count(image)
        return image

    def restore(self, cluster: Cluster, image: Image, now: int) -> None:
        """Restore settings and topics, and open the logs of all partitions."""
        self._load_settings(cluster, image)
        for topic_id, topic in image.topics.items():
            self._load_topic(cluster, topic_id, topic, image.settings.get((TOPIC, topic.name), {}), now)
        self._note_unknown(cluster)
        for directory in self._directories:
            directory.latest_epochs.clear()

    def check_metadata(self) -> None:
        """Raises DamagedFile if the metadata is lost. Without this check the start would lose the topics silently."""
        metadata = self._metadata
        if not metadata.is_lost:
            return
        folder = next((path for _, _, path in self._directories.partitions()), None)
        if folder is not None or metadata.end_offset:
            what = f"the metadata ends at offset {metadata.end_offset}, but had reached offset {metadata.synced_offset}"
            what = what if metadata.end_offset else "the file has no metadata"
            raise DamagedFile(
                metadata.path,
                f"{what}, but there are folders of partitions, such as {folder.name if folder else 'none'}. "
                f"Restore the file from a copy; to serve the partitions under the names of their folders, without "
                f"settings, leave {metadata.folder} empty",
            )

    def _check_count(self, image: Image) -> None:
        """Raises DamagedFile if this start would have to create more than `FOLDERS_MADE` folders for the partitions in the
        metadata."""
        count = sum(len(topic.partitions) for topic in image.topics.values())
        folders = sum(1 for _ in self._directories.partitions()) if count > FOLDERS_MADE else 0
        if count - folders > FOLDERS_MADE:
            raise DamagedFile(
                self._metadata.path,
                f"it names {count} partitions, but there are folders for only {folders}; "
                f"a start makes at most {FOLDERS_MADE} folders",
            )

    def _note_unknown(self, cluster: Cluster) -> None:
        """Log the folders of partitions that the metadata does not name."""
        unknown = []
        for _, (name, index), path in self._directories.partitions():
            topic = cluster.topics.get(name)
            if topic is None or topic.partition(index) is None or self.id_in(path) not in (None, topic.topic_id):
                unknown.append(path)
        if unknown:
            more = f" and {len(unknown) - 1} more folders" if len(unknown) > 1 else ""
            what = "these partitions" if more else "this partition"
            note(f"{unknown[0]}{more}: not served, because the metadata does not name {what}")

    def _found_image(self) -> Image:
        """Returns an image made from the folders of the partitions."""
        image = Image()
        ids: dict[str, bytes] = {}
        for directory, (topic, index), path in self._directories.partitions():
            node_id = directory.node_id
            topic_id = self.id_in(path) or ids.get(topic) or new_uuid(self._random_bytes)
            ids.setdefault(topic, topic_id)
            held = image.topics.setdefault(ids[topic], TopicImage(topic))
            held.partitions[index] = PartitionImage((node_id,), (node_id,), node_id, 0)
        if image.topics:
            root = self._directories.roots[0]
            note(f"{root} has no metadata: the topics get the names of the folders, and default settings")
        return image

    def id_in(self, folder: Path) -> bytes | None:
        """Returns the topic id in a partition's folder, like `topic_id_in`, but reads each file only once."""
        if (known := self._ids.get(folder)) is None and (known := topic_id_in(folder)) is not None:
            self._ids[folder] = known
        return known

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
            directory = self.directory_of(topic.name, index, topic_id, dirs)
            self._check_folder(directory, topic.name, index, topic_id, partition)
            if directory.node_id in dirs:
                dirs[directory.node_id] = directory.path
            stored.append(StoredPartition(dirs, partition.leader_epoch))
            directory.latest_epochs[topic.name, index] = partition.leader_epoch
        self.unused[TOPIC, topic.name] = unknown
        cluster.restore_topic(topic.name, topic_id, known, stored, now)

    def directory_of(self, topic: str, index: int, topic_id: bytes, dirs: Mapping[int, str]) -> LogDirectory:
        """Returns the log directory that has a partition's folder. If no directory has the folder, returns the directory of the
        first replica.

        A partition's folder stays in the directory where it was made, even if the partition's replicas move to other brokers.
        Raises DataError if two directories have the folder.
        """
        wanted = [self._directories.at(node_id, path) for node_id, path in dirs.items()]
        others = [each for node_id in dirs for each in self._directories.of[node_id]]
        unnamed: list[LogDirectory] = []
        found: list[LogDirectory] = []
        for directory in dict.fromkeys((*wanted, *others, *self._directories)):
            folder = directory.root / folder_name(topic, index)
            if folder.is_dir() and (known := self.id_in(folder)) in (None, topic_id):
                (unnamed if known is None else found).append(directory)
        twice = [each for each in found[1:] if each.node_id == found[0].node_id]
        if twice:
            folders = [each.root / folder_name(topic, index) for each in (found[0], twice[0])]
            raise DataError(f"{folders[0]} and {folders[1]} are the same partition; move one of them elsewhere")
        return (*found, *unnamed, *wanted)[0]

    def _check_folder(self, directory: LogDirectory, name: str, index: int, topic_id: bytes, partition: PartitionImage) -> None:
        """Raises DamagedFile if a partition's folder is missing, or belongs to a topic with another id."""
        folder = directory.root / folder_name(name, index)
        if not folder.is_dir():
            if directory.is_whole and not any(directory.root.glob(f"{glob_escape(folder.name)}.*-delete")):
                ours = {each.id for each in self._directories}
                if any(each not in ours and not is_reserved(each) for each in partition.directories):
                    raise DamagedFile(
                        folder,
                        "it is missing; the metadata has the partition in another log directory. Name that directory, too",
                    )
                raise DamagedFile(
                    folder,
                    "it is missing, but the metadata has the partition. Restore the folder from a copy; to serve an empty "
                    "partition, make an empty folder of this name",
                )
            note(f"{folder} is missing; the broker serves an empty partition")
        elif (found := self.id_in(folder)) not in (None, topic_id) and any(
            path.stat().st_size for path in folder.glob(f"*{LOG}")
        ):
            raise DamagedFile(
                folder / PARTITION_METADATA,
                f"the topic id is {format_uuid(found or b'')}, but in the metadata it is {format_uuid(topic_id)}. If the "
                "folder belongs to an older topic of this name, move the folder elsewhere; otherwise correct this id",
            )

    def _node(self, stored: int) -> int:
        """A directory has the broker id `stored`. Returns the id of the broker that serves this directory now."""
        return next((each.node_id for each in self._directories if each.stored_node_id == stored), stored)

    def _dirs(self, partition: PartitionImage) -> dict[int, str]:
        """Returns the log directories of a partition's replicas from the metadata. If the metadata names no directory for a
        replica, the replica is in its broker's first directory.
        """
        by_node = self._directories.of
        ids = dict(zip(map(self._node, partition.replicas), partition.directories or partition.replicas, strict=False))
        leaving = set(map(self._node, partition.removing))
        here = [node_id for node_id in ids if node_id in by_node.keys() - leaving] or [self._directories.first_node]
        found = {}
        for node_id in here:
            held = by_node[node_id]
            found[node_id] = next((each.path for each in held if each.id == ids.get(node_id)), held[0].path)
        return found

    def _load_settings(self, cluster: Cluster, image: Image) -> None:
        configs = cluster.configs
        for (kind, name), settings in sorted(image.settings.items(), key=lambda each: each[0][0] != BROKER):
            try:
                if kind == BROKER:
                    node = self._node(_node_id(name)) if name else None
                    configs.load({**configs.dynamic.get(node, {}), **settings}, node)
                elif kind in (GROUP, CLIENT_METRICS):
                    check_stored(kind, name, settings, configs)
                    (configs.groups if kind == GROUP else configs.client_metrics)[name] = dict(settings)
                elif kind != TOPIC:
                    self.unused[kind, name] = settings
            except ConfigError as wrong:
                self.unused[kind, name] = settings
                what = {BROKER: "broker", GROUP: "group"}.get(kind, "subscription")
                note(f"the settings {settings} of {what} {name!r} are not used: {wrong}")


def topic_id_in(folder: Path) -> bytes | None:
    """Returns the topic id in a partition's folder, or None if `partition.metadata` is missing or a power cut has left it
    empty.
    """
    path = folder / PARTITION_METADATA
    return read_partition_metadata(path) if path.exists() and path.stat().st_size else None


def _node_id(name: str) -> int:
    """Returns the broker id in the resource name of a broker's settings. Raises ConfigError."""
    if not re.fullmatch("[0-9]{1,10}", name):
        raise ConfigError("this is not the id of a broker")
    return int(name)
