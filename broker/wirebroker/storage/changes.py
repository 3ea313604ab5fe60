"""Writes the changes of the cluster to the metadata log, before the broker confirms the changes in a response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from msgspec.structs import replace

from kafkawire.declare import Message
from kafkawire.disk.metadata import BROKER, NO_LEADER, TOPIC, Image, PartitionImage, TopicImage, bootstrap, difference
from wirebroker.core.cluster import Cluster, Topic
from wirebroker.core.features import ELIGIBLE_REPLICAS, METADATA
from wirebroker.core.image import image_of
from wirebroker.core.java_order import buckets_for, hash_order, java_hash
from wirebroker.core.partition import Partition
from wirebroker.storage.directory import LogDirectories
from wirebroker.storage.registrations import Registrations


class Changes:
    """Finds the changes of the cluster since the last write, and appends their records to the metadata log."""

    def __init__(
        self, cluster: Cluster, directories: LogDirectories, unused: Mapping[tuple[int, str], Mapping[str, str]]
    ) -> None:
        """`unused` has, for each resource, the settings in the metadata that the cluster cannot use. These settings stay in the
        metadata.
        """
        self._cluster = cluster
        self._directories = directories
        self._metadata = directories.metadata
        self._unused = unused
        self.registrations = Registrations(cluster, directories)
        self._versions: tuple[int, int, int] | None = None
        """The cluster's version counters at the last write. None means that the next write must compare the whole cluster with
        the metadata.
        """

    def write_all(self) -> None:
        """Make the next write compare the whole cluster with the metadata."""
        self._versions = None

    def write(self, now: int, only: Sequence[Partition] = ()) -> None:
        """Write the changes since the last write. If `only` names partitions, the caller knows that no other partition has
        changed. Raises OSError."""
        known, self._versions = self._versions, None
        added = None if known is None else self._only_added(known)
        if known is None or (added is None and not only):
            image = self._image()
            self._append(self._metadata.image, image, now)
            self._metadata.image = image
        else:
            self._write_some(only, added or (), now)
        self._versions = _versions(self._cluster)

    def _write_some(self, changed: Sequence[Partition], added: Iterable[Topic], now: int) -> None:
        """Write the changed partitions or the added topics, without reading all other topics."""
        written = self._metadata.image
        before = Image(next_producer_id=written.next_producer_id)
        after = Image(next_producer_id=self._cluster.producer_ids.next_block)
        for partition in changed:
            topic_id, index = self._cluster.topics[partition.topic].topic_id, partition.index
            known = written.topics[topic_id].partitions.get(index)
            if known is not None:  # a topic that is being created has no image; a later write includes it
                before.topics.setdefault(topic_id, TopicImage(partition.topic)).partitions[index] = known
                image = self._partition_image(partition)
                after.topics.setdefault(topic_id, TopicImage(partition.topic)).partitions[index] = image
        for topic in added if not changed else ():
            self._enter(topic, after)
        self._append(before, after, now)
        for topic_id, held in after.topics.items():
            written.topics.setdefault(topic_id, held).partitions.update(held.partitions)
        written.settings |= after.settings
        written.next_producer_id = after.next_producer_id

    def write_end(self, now: int) -> None:
        """Write the whole state of the cluster as it will be after the brokers have stopped."""
        self.write_all()
        self.write(now)
        image = self._image()
        elects_eligible = self._cluster.configs.features.get(ELIGIBLE_REPLICAS, 0) > 0
        image.topics = {topic_id: _handed_over(topic, elects_eligible) for topic_id, topic in image.topics.items()}
        self._metadata.append(chain(self.registrations.leaving(), self._difference(self._metadata.image, image)), now)
        self._metadata.image = image
        self._metadata.append(self.registrations.left(), now)

    def _only_added(self, before: tuple[int, int, int]) -> list[Topic] | None:
        """Returns the topics created since the last write, or None if anything else has changed."""
        created, *other = (now - then for now, then in zip(_versions(self._cluster), before, strict=True))
        return None if any(other) else list(islice(reversed(self._cluster.topics.values()), created))[::-1]

    def _append(self, before: Image, after: Image, now: int) -> None:
        if after.features and not self._metadata.image.features:
            first = Image(settings={each: held for each, held in after.settings.items() if each == (BROKER, "")})
            first.features = after.features
            self._metadata.append(bootstrap(before, first, self._level), now)
            before = replace(before, features=first.features, settings={**before.settings, **first.settings})
        self.registrations.write(now)
        self._metadata.append(self._difference(before, after), now)

    def _difference(self, before: Image, after: Image) -> Iterator[tuple[Message, int]]:
        node_id = self._directories.first_node
        return difference(before, after, (node_id, self.registrations.epoch(node_id)), self._level, _in_hash_order)

    @property
    def _level(self) -> int:
        return self._cluster.configs.features.get(METADATA, 0)

    def _image(self) -> Image:
        """Returns an image of the cluster's current state. The image shares unchanged parts with the last image."""
        image = image_of(self._cluster)
        settings = image.settings
        for topic in self._cluster.topics.values():
            self._enter(topic, image)
        for resource, unused in self._unused.items():
            if resource[0] != TOPIC:
                settings[resource] = {**unused, **settings.get(resource, {})}
        return image

    def _enter(self, topic: Topic, image: Image) -> None:
        """Add the current state of a topic, and the topic's settings, to an image."""
        written, resource = self._metadata.image, (TOPIC, topic.name)
        known = written.topics.get(topic.topic_id)
        now = TopicImage(topic.name, {each.index: self._partition_image(each) for each in topic.partitions})
        image.topics[topic.topic_id] = known if known is not None and known == now else now
        if held := {**self._unused.get(resource, {}), **topic.configs.overrides}:
            before = written.settings.get(resource)
            image.settings[resource] = before if before == held else held

    def _partition_image(self, partition: Partition) -> PartitionImage:
        of, replicas = self._cluster.log_dirs.of, partition.replicas
        ids = tuple(self._directories.at(node_id, of(partition, node_id)).id for node_id in replicas)
        return PartitionImage(
            tuple(replicas), tuple(partition.in_sync), partition.leader, partition.leader_epoch, partition.adding,
            partition.removing, ids,
        )  # fmt: skip


def _versions(cluster: Cluster) -> tuple[int, int, int]:
    """Returns the cluster's counters of created topics, of other topic changes, and of settings changes."""
    return cluster.topics_created, cluster.version - cluster.topics_created, cluster.configs.version


def _in_hash_order(names: Iterable[str]) -> list[str]:
    """Returns the names of the settings that one request changes, in the order in which Kafka writes the settings."""
    found = sorted(names)
    return hash_order(found, java_hash, buckets_for(len(found)))


def _handed_over(topic: TopicImage, elects_eligible: bool) -> TopicImage:
    """Returns the state of a topic after its brokers have stopped. As in Kafka, each partition loses its leader and gets a new
    leader epoch. With `elects_eligible` the last replica in sync becomes an eligible leader replica (KIP-966).
    """
    partitions = {}
    for index, each in topic.partitions.items():
        partitions[index] = each._replace(leader=NO_LEADER, leader_epoch=each.leader_epoch + 1)
        if elects_eligible and len(each.in_sync) == 1:
            partitions[index] = partitions[index]._replace(in_sync=(), eligible=each.in_sync, last_known=each.in_sync)
    return TopicImage(topic.name, partitions)
