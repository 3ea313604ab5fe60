"""What the controller knows, as values: topics, settings and producer ids, and the records that lead from one to another.

An image is read from the records of __cluster_metadata, or taken of the running cluster. What has changed since the
last one was written is the difference of the two, so that nobody has to announce a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.declare import Message
from kafkawire.metadata_records.config_record import ConfigRecord
from kafkawire.metadata_records.partition_change_record import PartitionChangeRecord
from kafkawire.metadata_records.partition_record import PartitionRecord
from kafkawire.metadata_records.producer_ids_record import ProducerIdsRecord
from kafkawire.metadata_records.remove_topic_record import RemoveTopicRecord
from kafkawire.metadata_records.topic_record import TopicRecord

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
"""What settings are of (ConfigResource.Type)."""
NO_LEADER = -1
UNCHANGED_LEADER = -2
UNASSIGNED = bytes(16)
"""The id of a log directory that nobody has chosen."""


class PartitionImage(NamedTuple):
    """Replicas and leader of a partition."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int


@dataclass(slots=True)
class TopicImage:
    """A topic and its partitions by index."""

    name: str
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


@dataclass(slots=True)
class Image:
    """All that is written down. Settings are by resource: its type, and its name ("" for all brokers)."""

    topics: dict[bytes, TopicImage] = field(default_factory=dict)
    settings: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0

    def apply(self, record: Message) -> None:
        """What the record says holds now. KeyError if it speaks of a topic or partition that is not there."""
        if isinstance(record, TopicRecord):
            self.topics[record.topic_id] = TopicImage(record.name)
        elif isinstance(record, RemoveTopicRecord):
            topic = self.topics.pop(record.topic_id)
            self.settings.pop((TOPIC, topic.name), None)
        elif isinstance(record, PartitionRecord):
            self.topics[record.topic_id].partitions[record.partition_id] = PartitionImage(
                tuple(record.replicas), tuple(record.isr), record.leader, record.leader_epoch
            )
        elif isinstance(record, PartitionChangeRecord):
            partitions = self.topics[record.topic_id].partitions
            partitions[record.partition_id] = _changed(partitions[record.partition_id], record)
        elif isinstance(record, ConfigRecord):
            resource = self.settings.setdefault((record.resource_type, record.resource_name), {})
            if record.value is None:
                resource.pop(record.name, None)
            else:
                resource[record.name] = record.value
        elif isinstance(record, ProducerIdsRecord):
            self.next_producer_id = record.next_producer_id


def _changed(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """As PartitionRegistration.merge: an elected leader begins a new leader epoch, as does losing the last one."""
    leader, epoch = partition.leader, partition.leader_epoch
    if record.leader != UNCHANGED_LEADER:
        leader, epoch = record.leader, epoch + 1
    return PartitionImage(
        partition.replicas if record.replicas is None else tuple(record.replicas),
        partition.in_sync if record.isr is None else tuple(record.isr),
        leader, epoch,
    )  # fmt: skip


def difference(old: Image, new: Image, node_id: int) -> Iterator[tuple[Message, int]]:
    """The records, each with its version, that make the new image of the old one; `node_id` asked for producer ids."""
    for topic_id in old.topics.keys() - new.topics.keys():
        yield RemoveTopicRecord(topic_id=topic_id), 0
    for topic_id, topic in new.topics.items():
        known = old.topics.get(topic_id)
        if known is topic:
            continue
        if known is None:
            yield TopicRecord(name=topic.name, topic_id=topic_id), 0
        for index, partition in topic.partitions.items():
            yield from _partition_records(topic_id, index, known.partitions.get(index) if known else None, partition)
    gone = {(TOPIC, topic.name) for topic_id, topic in old.topics.items() if topic_id not in new.topics}
    changed = {each for each, held in new.settings.items() if old.settings.get(each) is not held}
    changed |= old.settings.keys() - new.settings.keys()
    changed |= gone & new.settings.keys()
    for resource in sorted(changed):
        before: Mapping[str, str] = {} if resource in gone else old.settings.get(resource, {})
        after = new.settings.get(resource, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                kind, owner = resource
                yield ConfigRecord(resource_type=kind, resource_name=owner, name=name, value=after.get(name)), 0
    if old.next_producer_id != new.next_producer_id:
        yield ProducerIdsRecord(broker_id=node_id, broker_epoch=-1, next_producer_id=new.next_producer_id), 0


def _partition_records(
    topic_id: bytes, index: int, old: PartitionImage | None, new: PartitionImage
) -> Iterator[tuple[Message, int]]:
    if old is None:
        yield PartitionRecord(
            partition_id=index, topic_id=topic_id, replicas=list(new.replicas), isr=list(new.in_sync),
            removing_replicas=[], adding_replicas=[], leader=new.leader, leader_epoch=new.leader_epoch,
            partition_epoch=0, directories=[UNASSIGNED] * len(new.replicas),
        ), 1  # fmt: skip
        return
    moved = old.replicas != new.replicas
    base = PartitionChangeRecord(
        partition_id=index, topic_id=topic_id,
        isr=list(new.in_sync) if old.in_sync != new.in_sync else None,
        replicas=list(new.replicas) if moved else None,
        directories=[UNASSIGNED] * len(new.replicas) if moved else None,
    )  # fmt: skip
    if old.leader_epoch == new.leader_epoch and old.leader == new.leader:
        if moved or base.isr is not None:
            yield base, 1
        return
    # Each record with a leader begins an epoch, so that it takes as many as there were epochs.
    for left in range(max(new.leader_epoch - old.leader_epoch, 1), 0, -1):
        base.leader = new.leader if left == 1 else NO_LEADER
        yield base, 1
        base = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
