"""Offsets by timestamp, for ListOffsets."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.batches import iter_records, read_header
from wirebroker.core.logs.interface import Log

ISOLATION_LEVELS = (0, 1)
"""The isolation levels read_uncommitted and read_committed."""
EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5


class TimestampedOffset(NamedTuple):
    """The result of ListOffsets for one partition."""

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


def offsets_before(log: Log, log_start_offset: int, end_offset: int, timestamp: int, now: int) -> list[int]:
    """Returns the start offsets of all segments whose last write was not after `timestamp`, in descending order
    (UnifiedLog.legacyFetchOffsetsBefore). A segment's last write is the time at which the next segment was created. The end of
    the log is handled like the start of a segment whose last write was at `now`."""
    segments = log.segments
    written = [following.created for following in segments[1:]] + [segments[-1].created]
    times = [(max(each.base_offset, log_start_offset), time) for each, time in zip(segments, written, strict=True)]
    if segments[-1].size:
        times.append((end_offset, now))
    if timestamp == LATEST:
        found = times
    elif timestamp == EARLIEST:
        found = times[:1]
    else:
        found = times[: max((at + 1 for at, (_, time) in enumerate(times) if time <= timestamp), default=0)]
    return sorted((offset for offset, _ in found), reverse=True)


def newest(log: Log) -> TimestampedOffset:
    """Returns the record with the largest timestamp. If several records have this timestamp, returns the first of them. As in
    Kafka, the record may be before the log start offset if the segment with the record still exists."""
    segments = log.segments
    return first_since(log, max((each.max_timestamp for each in segments), default=-1), segments[0].base_offset)
