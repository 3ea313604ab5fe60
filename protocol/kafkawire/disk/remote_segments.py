"""Segments in a remote store (KIP-405): their names, and the records about them in `__remote_log_metadata`.

A broker writes COPY_SEGMENT_STARTED before it copies a segment, and COPY_SEGMENT_FINISHED after the copy. All records about a
partition are in the same partition of `__remote_log_metadata`, so their order is known.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkawire.batches import iter_records
from kafkawire.declare import Message
from kafkawire.disk.names import LAST_OFFSET, LOG, file_name, offsets_in
from kafkawire.disk.walking import Walk
from kafkawire.errors import ProtocolError
from kafkawire.metadata_log import read_remote
from kafkawire.primitives import format_uuid
from kafkawire.remote_records.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from kafkawire.remote_records.remote_log_segment_metadata_update_record import RemoteLogSegmentMetadataUpdateRecord
from kafkawire.remote_records.remote_partition_delete_metadata_record import RemotePartitionDeleteMetadataRecord

REMOTE_METADATA = "__remote_log_metadata"
COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = range(4)
"""The states of a remote segment (RemoteLogSegmentState). Consumers can read only segments whose copy is finished."""
_NAME = re.compile(r"([0-9]{20})-([A-Za-z0-9_-]{22})")


def remote_name(start: int, segment_id: bytes, suffix: str = LOG) -> str:
    """Returns a name such as `00000000000000000042-xtzWWN4bTjitpL3kfd9s5g.log`."""
    return f"{start:020d}-{format_uuid(segment_id)}{suffix}"


def remote_offset_of(name: str, suffix: str = LOG) -> int | None:
    """Returns the base offset in a remote segment's name, or None for any other name."""
    match = _NAME.fullmatch(name.removesuffix(suffix))
    return int(match[1]) if match and name.endswith(suffix) and match[1] <= LAST_OFFSET else None


class RemoteSegment(NamedTuple):
    """A remote segment, as the metadata describes it."""

    id: bytes
    start: int
    end: int
    """the last offset"""
    size: int
    """bytes"""
    epochs: tuple[tuple[int, int], ...]
    """the leader epochs in the segment, each with its first offset there; in order"""
    state: int

    @property
    def name(self) -> str:
        """The name of its file or object in the store."""
        return remote_name(self.start, self.id)

    def is_in(self, lineage: Sequence[tuple[int, int]]) -> bool:
        """Tells whether the segment has the same batches as the log whose leader epochs are `lineage`. If `lineage` is empty,
        the log's epochs are unknown, and the result is True.

        After an unclean election, the store may still have segments that only the old leader had. No consumer can read them
        (RemoteLogManager.isRemoteSegmentWithinLeaderEpochs). Offsets below the lineage are not compared.
        """
        if not lineage:
            return True
        for (epoch, first), following in zip(self.epochs, [*self.epochs[1:], (0, self.end + 1)], strict=True):
            first, last = max(first, self.start, lineage[0][1]), following[1] - 1
            if first <= last and not _epoch_at(lineage, first) == epoch == _epoch_at(lineage, last):
                return False
        return True


def _epoch_at(lineage: Sequence[tuple[int, int]], offset: int) -> int:
    return lineage[bisect_right(lineage, offset, key=lambda each: each[1]) - 1][0]


class RemoteSegments:
    """The remote segments of each partition, by topic id and partition, and then by segment id. Deleted segments, and
    partitions that are not `wanted`, are left out."""

    def __init__(self, wanted: Iterable[tuple[bytes, int]]) -> None:
        self.partitions: dict[tuple[bytes, int], dict[bytes, RemoteSegment]] = {}
        self._wanted = frozenset(wanted)

    def apply(self, record: Message) -> None:
        """Apply the record. Updates of an unknown segment have no effect, as in Kafka. Raises ValueError for impossible
        offsets."""
        if isinstance(record, RemotePartitionDeleteMetadataRecord):
            self.partitions.pop((record.topic_id_partition.id, record.topic_id_partition.partition), None)
        elif isinstance(record, RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataUpdateRecord):
            where = record.remote_log_segment_id
            key = (where.topic_id_partition.id, where.topic_id_partition.partition)
            if key not in self._wanted:
                return
            mine = self.partitions.setdefault(key, {})
            if isinstance(record, RemoteLogSegmentMetadataRecord):
                mine[where.id] = _segment(record)
            elif (known := mine.get(where.id)) is not None:
                mine[where.id] = known._replace(state=record.remote_log_segment_state)
            if where.id in mine and mine[where.id].state == DELETE_FINISHED:
                del mine[where.id]


def _segment(record: RemoteLogSegmentMetadataRecord) -> RemoteSegment:
    start, end = record.start_offset, record.end_offset
    if not 0 <= start <= end < int(LAST_OFFSET) or record.segment_size_in_bytes < 0:
        raise ValueError(f"a segment has the offsets {start} to {end} and {record.segment_size_in_bytes} bytes")
    epochs = tuple(sorted((each.leader_epoch, each.offset) for each in record.segment_leader_epochs))
    return RemoteSegment(
        record.remote_log_segment_id.id, start, end, record.segment_size_in_bytes, epochs, record.remote_log_segment_state
    )


def read_remote_segments(folder: Path, into: RemoteSegments) -> Iterator[str]:
    """Reads this partition of `__remote_log_metadata`, and applies its records to `into`. Yields a sentence about each part
    that cannot be read. Raises OSError."""
    for base in offsets_in(folder, LOG):
        walk = Walk(folder / file_name(base, LOG), base)
        for position, header, batch in walk:
            try:
                for each in () if header.is_control else iter_records(batch):
                    if (record := read_remote(each.value or b"")[1]) is not None:
                        into.apply(record)
            except (ProtocolError, ValueError) as wrong:
                yield f"{walk.path}, position {position}: the metadata of remote segments cannot be read: {wrong}"
        if walk.damage is not None:
            yield f"{walk.path}, position {walk.damage.position}: {walk.damage.why}; later metadata there was not read"
