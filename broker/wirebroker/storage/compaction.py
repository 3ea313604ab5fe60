"""Compacts a log on disk: writes the remaining records to new files, which then replace the old files.

`core.logs.cleaning` decides which records remain.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.batches import read_header
from kafkawire.disk.indexes import AbortedTransaction
from kafkawire.disk.names import CLEANED, LOG
from wirebroker.core.logs.cleaning import Cleaning, Task, finish
from wirebroker.storage import files
from wirebroker.storage.segment import Index, Segment, SegmentSettings

_WRITE = 1024 * 1024


class Made(NamedTuple):
    """A compacted segment with the segments that it replaces, and the aborted transactions in these segments. The names of the
    compacted segment's files end in `.cleaned`.
    """

    segment: Segment
    replaces: Sequence[Segment]
    aborted: Sequence[AbortedTransaction]


class Cleaned(NamedTuple):
    """The result of a round of compaction: the new segments, and the offset up to which the log is now compacted."""

    made: Sequence[Made]
    end: int


def compact(task: Task[Segment], settings: SegmentSettings) -> Cleaned:
    """Write the compacted segments beside the old segments. Raises OSError (DamagedFile if a batch cannot be read)."""
    cleaning = Cleaning(task)
    finish(cleaning.learn())
    made = [_clean(group, cleaning, settings) for group in cleaning.groups(task.segment_bytes)]
    return Cleaned(made, cleaning.end)


def _clean(group: Sequence[Segment], cleaning: Cleaning[Segment], settings: SegmentSettings) -> Made:
    """Compact these segments into one."""
    first, known = group[0], cleaning.known
    made = Segment(first.folder, first.base_offset, first.created, settings, Index())
    aborted_before = len(known.kept)
    path = made.path(LOG, CLEANED)
    path.unlink(missing_ok=True)
    with os.fdopen(files.create(path), "wb", _WRITE) as file:
        for segment in group:
            for _, batch in segment.batches(0):
                left = finish(cleaning.left(batch))
                if left:
                    header = read_header(left)
                    file.write(left)
                    made.note(header.last_offset, header.size, header.max_timestamp)
    aborted = known.kept[aborted_before:]
    made.close(aborted, CLEANED)
    for written in made.paths(CLEANED):
        files.sync(written)
    return Made(made, group, aborted)
