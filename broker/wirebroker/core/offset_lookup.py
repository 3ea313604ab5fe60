"""Offsets by timestamp, for ListOffsets."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.batches import iter_records, read_header
from wirebroker.core.logs.interface import Log

EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5


class TimestampedOffset(NamedTuple):
    """A response to ListOffsets."""

    offset: int
    timestamp: int
    leader_epoch: int


NOTHING_FOUND = TimestampedOffset(-1, -1, -1)


def first_since(log: Log, timestamp: int, start: int) -> TimestampedOffset:
    """Returns the first record at or after offset `start` whose timestamp is at least `timestamp`."""
    if timestamp < 0:
        return NOTHING_FOUND
    for batch in log.batches_since(timestamp, start):
        header = read_header(batch)
        for record in iter_records(batch):
            when = header.max_timestamp if header.is_log_append_time else header.base_timestamp + record.timestamp_delta
            offset = header.base_offset + record.offset_delta
            if when >= timestamp and offset >= start:
                return TimestampedOffset(offset, when, header.partition_leader_epoch)
    return NOTHING_FOUND


def newest(log: Log) -> TimestampedOffset:
    """Returns the first record with the largest timestamp. As in Kafka, the record may be before the log start, if its
    segment still exists."""
    segments = log.segments
    return first_since(log, max((each.max_timestamp for each in segments), default=-1), segments[0].base_offset)
