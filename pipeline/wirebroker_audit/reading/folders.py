"""A partition's folder, and the facts that its files show before any batch is read. No Spark here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

EVERYTHING = 2**62
"""An offset above all others. As `cleaned_until` it means that compaction may have left holes anywhere."""


class Tail(NamedTuple):
    """The end of a log."""

    end: int = -1
    """the offset after the last whole batch; 0 if there is no segment; −1 if the log cannot be read"""
    leader_epoch: int = -1
    """the leader epoch of the last entry in leader-epoch-checkpoint or of the last batch, whichever is higher; −1 if both are
    missing"""
    timestamp: int = -1
    """the last batch's largest timestamp, in ms since the epoch"""


UNKNOWN = Tail()


class RemoteFile(NamedTuple):
    """A remote segment (KIP-405), which is read before the local segments."""

    folder: Path
    name: str
    first: int
    """the base offset"""
    until: int
    """this offset and later offsets are read from another segment"""
    size: int
    """bytes"""
    manifest: str = ""
    """the name of the file that tells how the segment is stored; "" if the segment is stored unchanged"""

    @property
    def path(self) -> Path:
        """The file or object."""
        return self.folder / self.name


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """One partition's folder, and the facts in the files beside the folder."""

    path: Path
    topic: str
    partition: int
    log_start: int
    """the log start offset in the checkpoint: lower offsets are no longer part of the log"""
    cleaned_until: int
    """compaction may have removed offsets below this offset; −1 if the cleaner never ran"""
    first_segment: int = 0
    """the base offset of the first segment, which may be local or remote. It may be above `log_start`, because Kafka writes no
    checkpoint when retention deletes whole segments"""
    node: int | None = None
    """the broker's node.id; None without meta.properties"""
    topic_id: bytes | None = None
    """None without partition.metadata"""
    high_watermark: int = -1
    """the high watermark in the broker's checkpoint; −1 without a checkpoint"""
    was_stopped: bool = False
    """whether the broker was shut down cleanly"""
    policy_known: bool = True
    """whether a file says how far compaction got, or which topics are compacted; a folder that was copied alone has no such
    file"""
    is_tiered: bool = False
    """whether the broker moves the segments of this topic to a remote store"""
    remote: tuple[RemoteFile, ...] = ()
    """the remote segments to read, in order"""
    copied: tuple[RemoteFile, ...] = ()
    """the remote segments that are not read, because the same offsets are local, too"""
    tail: Tail = UNKNOWN
    """the end of the log; known only if there are several replicas"""
    others: tuple[PartitionFolder, ...] = ()
    """the other replicas of the same topic"""
    why: str = ""
    """why this replica is read"""

    @property
    def begins_at(self) -> int:
        """The log start offset, from the checkpoint and the segments' names."""
        return max(self.log_start, self.first_segment)

    def with_tail(self, tail: Tail) -> PartitionFolder:
        """Returns a copy of this object that has `tail` as the end of its log."""
        return replace(self, tail=tail)

    @property
    def name(self) -> str:
        """The name of the partition, such as `orders-0`."""
        return f"{self.topic}-{self.partition}"

    @property
    def owner(self) -> str:
        """`node 2`, or the folder's path if the broker's number is unknown."""
        return str(self.path) if self.node is None else f"node {self.node}"
