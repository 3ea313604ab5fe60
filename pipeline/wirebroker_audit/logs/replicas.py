"""Chooses which replica of a partition is read: the replica must belong to the current topic, and the newest leader epoch wins.

The end offset decides only between replicas of the same topic with the same leader epoch. After an unclean election the old
leader's log reaches farther than the log that the cluster has now. If a broker was down while a topic was deleted and created
again, its old folder may reach farther than the new topic's folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkawire.disk.metadata import PartitionImage, WrittenImage
from kafkawire.primitives import format_uuid
from wirebroker_audit.logs.tails import tail_of
from wirebroker_audit.reading.folders import PartitionFolder


class Choice(NamedTuple):
    """The replica to read, and notices about the other folders. `read` is None if no folder belongs to the current topic."""

    read: PartitionFolder | None
    notices: list[str]


class Cluster:
    """Topics and leaders, from the log directory that has the newest metadata."""

    def __init__(self, written: Sequence[WrittenImage]) -> None:
        whole = [each for each in written if each.is_whole]
        newest = max(whole, key=lambda each: (each.leader_epoch, each.end), default=None)
        self._image = None if newest is None else newest.image
        self._ids = {} if newest is None else {topic.name: topic_id for topic_id, topic in newest.image.topics.items()}

    def why_not(self, folder: PartitionFolder) -> str:
        """Returns a clause that says why the folder is not part of its topic. Returns "" if the folder is part of the topic, or
        if there is no metadata."""
        current = self._ids.get(folder.topic)
        if self._image is None or folder.topic_id in (None, current):
            return ""
        if current is None:
            return "belongs to a deleted topic: the cluster's metadata has no topic of this name"
        ids = format_uuid(folder.topic_id or b""), format_uuid(current)
        return "belongs to a deleted topic of this name, with the id {}; the topic now has the id {}".format(*ids)

    def partition(self, folder: PartitionFolder) -> PartitionImage | None:
        """Returns the metadata of the folder's partition, or None if it is unknown."""
        topic_id = self._ids.get(folder.topic)
        if self._image is None or topic_id is None:
            return None
        return self._image.topics[topic_id].partitions.get(folder.partition)


def choose(alike: Sequence[PartitionFolder], cluster: Cluster) -> Choice:
    """Chooses which replica of a partition is read. In the result, `why` is the reason, and `others` are the other replicas."""
    notices, current = [], []
    for each in alike:
        if wrong := cluster.why_not(each):
            notices.append(f"{each.name}: {each.path} {wrong}; it was not read")
        else:
            current.append(each)
    if not current:
        return Choice(None, notices)
    if len(alike) == 1:
        return Choice(current[0], [])
    current, older = _newest_topic([each.with_tail(tail_of(each.path)) for each in current])
    notices += [
        f"{each.name}: {each.path} belongs to another topic of this name, whose last record is older; it was not read"
        for each in older
    ]
    image = cluster.partition(current[0])
    best = max(current, key=lambda each: _standing(each, image))
    others = tuple(each for each in current if each is not best)
    notices += [_reaches_farther(each, best) for each in others if _is_ahead(each, best)]
    return Choice(replace(best, others=others, why=_why(best, others, image)), notices)


def _newest_topic(found: list[PartitionFolder]) -> tuple[list[PartitionFolder], list[PartitionFolder]]:
    """Returns the replicas of the current topic, and the replicas of other topics with the same name. Without metadata, the
    topic with the newest last record counts as the current topic."""
    ids = {each.topic_id for each in found if each.topic_id is not None}
    if len(ids) < 2:
        return found, []
    newest = max(found, key=lambda each: (each.topic_id is not None, each.tail.timestamp)).topic_id
    return [each for each in found if each.topic_id in (None, newest)], [
        each for each in found if each.topic_id not in (None, newest)
    ]


def _standing(folder: PartitionFolder, image: PartitionImage | None) -> tuple[int, bool, bool, int]:
    """Returns the properties by which the replica to read is chosen, the most important property first."""
    leads = image is not None and folder.node == image.leader
    in_sync = image is not None and folder.node in image.in_sync
    epoch = max(folder.tail.leader_epoch, image.leader_epoch) if image is not None and leads else folder.tail.leader_epoch
    return epoch, leads, in_sync, folder.tail.end


def _why(best: PartitionFolder, others: Sequence[PartitionFolder], image: PartitionImage | None) -> str:
    if not others:
        return "the other folders belong to deleted topics"
    epoch, leads, in_sync, end = _standing(best, image)
    next_epoch, _, other_in_sync, other_end = max(_standing(each, image) for each in others)
    if leads:
        return f"it is the leader, in leader epoch {epoch}"
    if epoch > next_epoch:
        return f"its leader epoch is {epoch}, the others' at most {next_epoch}"
    if in_sync and not other_in_sync:
        return "it is the last replica that was in sync"
    return f"its end offset is {end}, the others' at most {other_end}" if end > other_end else "the replicas end alike"


def _is_ahead(other: PartitionFolder, best: PartitionFolder) -> bool:
    has_lost = best.tail.end < best.high_watermark  # lost records have their own finding, and the cluster may still have them
    return other.tail.end > best.tail.end and other.tail.leader_epoch < best.tail.leader_epoch and not has_lost


def _reaches_farther(other: PartitionFolder, best: PartitionFolder) -> str:
    return (
        f"{other.name}: the replica of {other.owner} reaches offset {other.tail.end}, in leader epoch "
        f"{other.tail.leader_epoch}; the replica of {best.owner}, which was read, reaches {best.tail.end}, in leader epoch "
        f"{best.tail.leader_epoch}. The cluster no longer has the records that only {other.owner} holds"
    )
