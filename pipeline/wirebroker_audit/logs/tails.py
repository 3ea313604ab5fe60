"""Finds the end of a partition's log with a few reads, through the offset index of the last segment. No Spark here."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from kafkawire.batches import HEADER_SIZE, LOG_OVERHEAD, read_header
from kafkawire.disk.checkpoints import LEADER_EPOCHS, read_epochs
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.indexes import OFFSET_ENTRY
from kafkawire.disk.names import LOG, OFFSET_INDEX, file_name, offsets_in
from kafkawire.disk.opening import open_to_read
from wirebroker_audit.reading.folders import Tail
from wirebroker_audit.reading.remote import size_of
from wirebroker_audit.reading.scan import looks_like_batch
from wirebroker_audit.reading.segments import next_batch

SEARCHED = 64 * 1024 * 1024
"""After damage, this many bytes are searched for the next batch."""


def tail_of(folder: Path) -> Tail:
    """Returns the end of this partition's log. The checkpoint may have a newer epoch than the last batch: a leader writes its
    epoch to the checkpoint before it stores the first batch."""
    try:
        epoch = max((epoch for epoch, _ in read_epochs(folder / LEADER_EPOCHS)), default=-1)
    except (OSError, DamagedFile):
        epoch = -1
    try:
        starts = offsets_in(folder, LOG)
        if not starts:
            return Tail(0, epoch)
        with open_to_read(folder / file_name(starts[-1], LOG), 0) as file:
            header = _last_header(file, _indexed(folder / file_name(starts[-1], OFFSET_INDEX), size_of(file)))
    except OSError:
        return Tail(leader_epoch=epoch)
    if header is None:
        return Tail(starts[-1], epoch)
    last = read_header(header, 0)
    return Tail(last.last_offset + 1, max(epoch, last.partition_leader_epoch), last.max_timestamp)


def _indexed(path: Path, size: int) -> int:
    """Returns the last position in an offset index that lies inside a segment of this size; 0 if there is no such position.

    Kafka creates an index file at its largest size, so zeros may follow the last entry. After a power cut the index may reach
    beyond the segment.
    """
    try:
        with open_to_read(path, 0) as file:
            low, high = 0, size_of(file) // OFFSET_ENTRY.size
            found = 0
            while low < high:
                middle = (low + high) // 2
                file.seek(middle * OFFSET_ENTRY.size)
                _, position = OFFSET_ENTRY.unpack(file.read(OFFSET_ENTRY.size))
                if 0 < position <= size - HEADER_SIZE:
                    low, found = middle + 1, position
                else:
                    high = middle
            return found
    except OSError:
        return 0


def _last_header(file: BinaryIO, begin: int) -> memoryview | None:
    """Returns the header of the last whole batch. Reads from the file's beginning if no batch is at `begin`. Only headers are
    read."""
    size = size_of(file)
    position, last = begin, None
    while position + HEADER_SIZE <= size:
        file.seek(position)
        header = memoryview(file.read(HEADER_SIZE))
        if looks_like_batch(header):
            end = position + int.from_bytes(header[8:12], "big") + LOG_OVERHEAD
            if end <= size:
                position, last = end, header
                continue
        elif position == begin > 0:
            return _last_header(file, 0)
        if (after := next_batch(file, position + 1, min(size, position + SEARCHED))) is None:
            break
        position = after
    return last
