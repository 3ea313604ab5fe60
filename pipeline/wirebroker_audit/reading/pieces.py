"""A `Mark` records how far a partition was read; a `Piece` is a part that is read next. No Spark here.

Every audit reads pieces. A whole audit reads the pieces from the log's start to its end. An audit that continues a report
(`--since`) reads the pieces after the report's marks. Each micro-batch of a stream (`--follow`) reads the pieces after the
marks of the previous micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kafkawire.disk.names import LOG
from wirebroker.client.settings import Access
from wirebroker_audit.reading.folders import EVERYTHING
from wirebroker_audit.reading.remote import place
from wirebroker_audit.wire import PLAINTEXT

Key = tuple[str, int]
"""topic and partition"""
SPLIT_BYTES = 256 * 1024 * 1024
"""A piece has at most this many bytes; a larger segment is divided."""
RESTARTED = -1
"""A `deleted` row with this position says that the log restarted, so its earlier rows no longer count."""


class Mark(NamedTuple):
    """The place up to which a partition was read; it is the end of a batch. A mark in a live cluster's partition has no
    segment."""

    offset: int = 0
    """the offset after the last batch that was read"""
    segment: int = -1
    """the base offset of the segment that holds the batch"""
    position: int = 0
    """the position in the segment at which the batch ends"""
    last: int = -1
    """the position where the batch begins; −1 if no batch of the segment was read"""
    crc: int = -1
    """the checksum of the last batch that was read, −1 if it is not known"""
    label: int = -1
    """the base offset by which rows name the segment; it makes rows from a rewritten segment sort after earlier rows"""
    start: int = 0
    """the log start offset at the first read; the log has nothing below this offset"""
    life: int = 0
    """how often the log restarted"""
    compacted: int = 0
    """1 if compaction may have left holes; only set for a cluster"""
    topic_id: str = ""

    def text(self) -> str:
        """Returns the mark as text, for a stream's position."""
        return ":".join(map(str, self))

    def at_segment(self, first: int) -> Mark:
        return self._replace(segment=first, position=0, offset=first, last=-1, crc=-1, label=first)

    def is_of_another(self, topic_id: str) -> bool:
        """Tells whether the mark belongs to another topic of the same name."""
        return bool(self.topic_id and topic_id and self.topic_id != topic_id)

    def why_restarted(self, topic_id: str) -> str:
        """Says why a log is read from its beginning although it was already read up to the mark. `topic_id` is the id
        of the current topic."""
        if self.is_of_another(topic_id):
            return "the topic was deleted and created again; it is read from its beginning"
        return f"the log was read up to offset {self.offset} but now ends before that; it is read from its beginning"


UNREAD = Mark()


def mark_from(text: str) -> Mark:
    """Returns the mark from the text that `Mark.text` has made."""
    *numbers, topic_id = text.split(":")
    return Mark(*map(int, numbers))._replace(topic_id=topic_id)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Piece:
    """The batches of a partition from one mark up to another.

    The batches are in a `file`, or in the segments that `folder` has when the piece is read, or on the brokers of a cluster.
    """

    topic: str
    partition: int
    begin: Mark
    end: Mark
    folder: str = ""
    file: str = ""
    bootstrap: str = ""
    access: Access = PLAINTEXT
    number: int = 0
    """the piece's number; it forms the high bits of the numbers of the piece's runs"""
    cleaned_until: int = -1
    """compaction may have removed records below this offset"""
    size: int = 0
    """the approximate number of bytes, or of offsets in a cluster"""
    problem: str = ""
    """`unreadable`, or `deleted` if the log restarted; a piece with a problem has nothing to read"""
    detail: str = ""
    """the reason of the problem, as a clause"""
    is_active: bool = False
    """whether the file is the last segment: a broker appends to it"""
    file_size: int = 0
    """the size of the file when the piece was planned, 0 if unknown; if the size and the `inode` have both changed, the file
    was replaced"""
    inode: int = 0
    until: int = EVERYTHING
    """batches from this offset on are in another piece, although they are in this file, too"""
    manifest: str = ""
    """as in `RemoteFile`"""

    @property
    def path(self) -> Path:
        return place(self.folder) / self.file

    @property
    def segment(self) -> str:
        """The name of the segment in rows."""
        return self.named(self.begin.label)

    def named(self, label: int) -> str:
        """Returns the name that rows have for the segment with this label."""
        folder = f"{self.topic}-{self.partition}"
        return folder if label < 0 else f"{folder}/{label:020d}{LOG}"


def packed(pieces: Iterable[Piece], room: int) -> list[list[Piece]]:
    """Returns groups of successive pieces. The sizes in a group add up to `room` at most, unless a single piece is larger."""
    groups: list[list[Piece]] = []
    filled = 0
    for each in pieces:
        if not groups or filled + each.size > room:
            groups.append([])
            filled = 0
        groups[-1].append(each)
        filled += each.size
    return groups


def deleted_before_read(begin: int, end: int) -> str:
    """Returns a clause about these offsets; `end` is excluded."""
    return f"offsets {begin} to {end - 1} were deleted before they were read"
