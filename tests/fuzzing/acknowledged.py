"""Remembers the batches that Produce responses acknowledged, and checks that the logs have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fuzzing.script import Finding
from kafkawire.batches import HEADER_SIZE, BatchHeader, iter_batches, read_header
from kafkawire.errors import ProtocolError
from kafkawire.primitives import Buffer


class Batch(NamedTuple):
    """One batch: its header, and the bytes of its records."""

    header: BatchHeader
    records: bytes


class Log(NamedTuple):
    """A partition's log as it was read. Before the offset `cleaned_to`, compaction may have removed records."""

    name: str
    start: int
    end: int
    cleaned_to: int
    batches: dict[int, Batch]


TopicId = Callable[[Any], bytes | None]
"""Returns a topic's id for the name or id in a request, or None for an unknown topic."""
AS_SENT = ("producer_id", "producer_epoch", "base_sequence", "last_offset_delta")
"""Header fields that a broker stores unchanged. If the response to a retry has the offset of the first copy, both copies have
the same values in these fields.
"""


class Acknowledged:
    """Acknowledged batches by topic id, partition and offset. The batches of deleted topics are not checked."""

    def __init__(self) -> None:
        self._batches: dict[tuple[bytes, int], dict[int, Batch]] = {}

    def note(self, request: Any, response: Any, topic_id: TopicId) -> None:
        """Remember the batches that this response acknowledges."""
        sent: dict[tuple[Any, int], list[Any]] = {}
        for topic in request.topic_data:
            for partition in topic.partition_data:
                sent.setdefault((topic.name or topic.topic_id, partition.index), []).append(partition.records)
        for answered in response.responses:
            name = answered.name or answered.topic_id
            found = topic_id(name)
            for partition in answered.partition_responses:
                records = sent.get((name, partition.index), [])
                if partition.error_code == 0 and found is not None and len(records) == 1:
                    self._note(found, partition.index, partition.base_offset, records[0])

    def _note(self, topic_id: bytes, index: int, offset: int, records: Any) -> None:
        try:
            batches = list(iter_batches(records or b""))
        except ProtocolError:
            return
        for each in batches:
            if len(each) >= HEADER_SIZE:
                header = read_header(each)
                self._batches.setdefault((topic_id, index), {})[offset] = Batch(header, bytes(each[HEADER_SIZE:]))
                offset += header.last_offset_delta + 1

    def check(self, topic_id: bytes, index: int, log: Log) -> None:
        """Check that the log has every acknowledged batch of this partition at its offset. Raises Finding."""
        for offset, batch in self._batches.get((topic_id, index), {}).items():
            if offset >= max(log.start, log.cleaned_to):  # earlier batches may be deleted or compacted
                self._compare(f"{log.name} at {offset}", batch, log.batches.get(offset))

    @staticmethod
    def _compare(where: str, sent: Batch, found: Batch | None) -> None:
        if found is None:
            raise Finding("an acknowledged batch is not stored", where)
        if any(getattr(found.header, name) != getattr(sent.header, name) for name in AS_SENT):
            raise Finding("the stored batch is not the acknowledged batch", f"{where}: {sent.header}, {found.header}")
        unchanged = found.header.compression == sent.header.compression and sent.header.base_sequence < 0
        if unchanged and found.records != sent.records:
            raise Finding("the stored records are not the acknowledged records", where)


def read_log(name: str, start: int, end: int, raw: Iterable[Buffer], *, compacted: bool, cleaned_to: int = 0) -> Log:
    """Returns a `Log` with these batches. Raises Finding if offsets are missing in a topic that is not compacted."""
    batches, expected = dict[int, Batch](), -1
    for each in raw:
        header = read_header(each)
        if expected >= 0 and header.base_offset != expected and not compacted:
            raise Finding("offsets are not dense", f"{name}: {header.base_offset} after {expected}")
        expected = header.last_offset + 1
        batches[header.base_offset] = Batch(header, bytes(memoryview(each)[HEADER_SIZE:]))
    if expected not in (-1, end) and end > cleaned_to:  # a truncation may end in a gap that compaction has left
        raise Finding("the last batch does not end at the log's end", f"{name}: at {expected}, not {end}")
    return Log(name, start, end, end if compacted else cleaned_to, batches)
