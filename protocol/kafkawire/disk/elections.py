"""Unclean elections, from the records of `__cluster_metadata` that a log directory still has.

An election is unclean if the new leader was neither in sync nor an eligible leader replica (KIP-966). The records that the new
leader lacks are lost. Kafka marks such a change with the leader recovery state RECOVERING (KIP-704). Metadata records of older
releases lack this mark. So a change of leader also counts as an unclean election if the new leader was neither in sync nor
eligible before the election.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kafkawire.declare import Message
from kafkawire.disk.metadata import Image, MetadataFiles, metadata_files, replay
from kafkawire.disk.names import METADATA_FOLDER
from kafkawire.metadata_log import Transactions
from kafkawire.metadata_records.partition_change_record import PartitionChangeRecord
from kafkawire.metadata_records.partition_record import PartitionRecord

RECOVERING = 1
"""The recovery state of a partition whose leader was chosen by an unclean election (LeaderRecoveryState)."""
UNKNOWN = -1


class UncleanElection(NamedTuple):
    """One unclean election; −1 stands for "not known"."""

    topic: str
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    """the epoch that began with the election"""
    former_leader: int
    in_sync: tuple[int, ...]
    """The replicas that were in sync or eligible before the election; empty if the election is known only from a snapshot."""
    at_ms: int
    """The time at which the controller wrote the record of the election, in ms since the epoch."""
    offset: int
    """The offset of the record's batch in `__cluster_metadata`."""


class History(NamedTuple):
    """The unclean elections in one node's `__cluster_metadata`."""

    elections: list[UncleanElection]
    begins_at: int
    """at lower offsets of `__cluster_metadata`, only each partition's last election is known"""
    begins_ms: int
    """The time of the first record at or after `begins_at`; −1 if there is no such record."""
    leader_epoch: int
    """The controller's leader epoch in the last batch; −1 without batches."""
    end: int
    """the offset after the last batch"""
    image: Image
    """The state of the cluster at the offset `end`."""


class _Watched(Image):
    """An image of the cluster that collects the unclean elections from the records that it applies."""

    found: list[UncleanElection] = []
    leaders: dict[tuple[bytes, int], int] = {}
    """The last leader of each partition."""
    could_lead: dict[tuple[bytes, int], tuple[int, ...]] = {}
    """The replicas that were in sync or eligible while the last leader led. While a partition has no leader, no replica gets in
    sync."""
    eligible: dict[tuple[bytes, int], tuple[int, ...]] = {}

    def apply(self, record: Message) -> None:
        Image.apply(self, record)  # in a dataclass with slots, `super()` without arguments fails
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            self._watch(record, (record.topic_id, record.partition_id))

    def _watch(self, record: PartitionRecord | PartitionChangeRecord, key: tuple[bytes, int]) -> None:
        topic = self.topics[record.topic_id]
        now = topic.partitions[record.partition_id]
        could_lead = () if isinstance(record, PartitionRecord) else self.could_lead.get(key, ())
        outside = record.leader >= 0 and bool(could_lead) and record.leader not in could_lead
        if outside or (record.leader_recovery_state == RECOVERING and now.leader >= 0):
            former = UNKNOWN if isinstance(record, PartitionRecord) else self.leaders.get(key, UNKNOWN)
            self.found.append(
                UncleanElection(topic.name, *key, now.leader, now.leader_epoch, former, could_lead, UNKNOWN, UNKNOWN)
            )
        if record.eligible_leader_replicas is not None:
            self.eligible[key] = tuple(record.eligible_leader_replicas)
        if now.leader >= 0:
            self.leaders[key] = now.leader
            self.could_lead[key] = (*now.in_sync, *self.eligible.get(key, ()))


def unclean_elections(histories: Iterable[History]) -> list[UncleanElection]:
    """Returns the elections in the metadata of several nodes. Each election is returned once. They are ordered by topic,
    partition and leader epoch.

    The most recent metadata is trusted. The metadata of other nodes adds only elections that are earlier than the most recent
    metadata, because a controller that died may have written records that the cluster never accepted.
    """
    ordered = sorted(histories, key=lambda each: (each.leader_epoch, each.end), reverse=True)
    found: dict[tuple[bytes, int, int], UncleanElection] = {}
    for history in ordered:
        for each in history.elections:
            if history is ordered[0] or each.offset < ordered[0].begins_at:
                known = found.get((each.topic_id, each.partition, each.leader_epoch))
                if known is None or known.former_leader == UNKNOWN:
                    found[each.topic_id, each.partition, each.leader_epoch] = each
    return sorted(found.values(), key=lambda each: (each.topic, each.partition, each.leader_epoch))


def read_history(log_dir: Path) -> History | None:
    """Returns the elections in this log directory's metadata; None without metadata. If old files are damaged, only
    the newest files are read.
    """
    folder = log_dir / METADATA_FOLDER
    for oldest in (True, False):
        try:
            found = _replayed(metadata_files(folder, oldest=oldest))
            return found if found.end else None
        except OSError:  # DamagedFile is an OSError
            continue
    return None


def _replayed(files: MetadataFiles) -> History:
    image, transactions = _Watched(), Transactions()
    epoch, end, begins_ms = UNKNOWN, files.since, UNKNOWN
    for walk in (files.snapshot, *files.segments):
        if walk is None:
            continue
        is_snapshot = walk is files.snapshot
        for header in replay(walk, image, transactions, 0 if is_snapshot else files.since):
            when = (UNKNOWN, files.since - 1) if is_snapshot else (header.base_timestamp, header.base_offset)
            _complete(image.found, *when)
            if not is_snapshot:
                epoch, end = header.partition_leader_epoch, header.last_offset + 1
                begins_ms = header.base_timestamp if begins_ms < 0 else begins_ms
        if walk.damage is not None and walk is not files.segments[-1]:
            raise OSError(f"{walk.path}: {walk.damage.why}")
    return History(image.found, files.since, begins_ms, epoch, end, image)


def _complete(found: list[UncleanElection], at_ms: int, offset: int) -> None:
    """The elections were found in a batch's records. Set their time and offset to the time and the offset of the batch."""
    for index in range(len(found) - 1, -1, -1):
        if found[index].offset != UNKNOWN:
            return
        found[index] = found[index]._replace(at_ms=at_ms, offset=offset)
