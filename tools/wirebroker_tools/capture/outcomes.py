"""The outcomes of a session: the errors, offsets and verdicts of each client, for each topic or group that the client's
requests name.

Timing decides how a client divides records into batches and fetches. For this reason, consecutive stored batches become one
line, and so do consecutive fetched records. Responses without an error and without an offset are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkawire.batches import CorruptBatch, first_header, iter_batches
from kafkawire.entities import first, holders, struct_lists
from kafkawire.errors import error_name
from kafkawire.registry import FETCH, PRODUCE, api_name
from wirebroker.requests.received import Directory
from wirebroker.trace.rows import Row, ShadowRow
from wirebroker_tools.capture.session import Recorded, RecordedExchange

OFFSETS = ("committed_offset", "offset", "end_offset", "low_watermark")
"""The offsets in these fields of responses do not depend on the time of the request."""
STORED, FETCHED = "stored at", "fetched"


class Lane(NamedTuple):
    """The outcomes of one client's requests to one API about one subject."""

    client: str
    api: str
    subject: str

    def __str__(self) -> str:
        return " ".join(filter(None, (f"client {self.client!r}", self.api, self.subject)))


class _Line:
    """An outcome. Offsets that follow one another become one line."""

    def __init__(self, text: str, start: int = -1, end: int = -1) -> None:
        self.text, self.start, self.end = text, start, max(start, end)

    def shown(self, moved: int) -> str:
        """Returns the text of the line; `moved` is subtracted from its offsets."""
        if self.start < 0:
            return self.text
        moved = moved if self.start >= moved else 0  # records that are older than the session keep their offsets
        start, end = self.start - moved, self.end - moved
        return f"{self.text} {start}" if start == end else f"{self.text} {start}–{end}"


class Outcomes:
    """The outcomes of a session that is being read."""

    def __init__(self) -> None:
        self._lanes: defaultdict[Lane, list[_Line]] = defaultdict(list)

    def lanes(self, moved: Mapping[str, int] = MappingProxyType({})) -> dict[Lane, list[str]]:
        """Returns the outcomes, in order. For each partition, `moved` has the number that is subtracted from the offsets."""
        return {lane: [line.shown(moved.get(lane.subject, 0)) for line in lines] for lane, lines in self._lanes.items()}

    def row(self, row: Row) -> None:
        """Take a row of the trace. A row with a verdict is the outcome of a produced batch. The outcomes of
        all other requests come from their responses."""
        if isinstance(row, ShadowRow):
            lane = Lane(row.client_id or "", "Produce", f"{row.topic}-{row.partition}")
            if row.verdict == "accepted" and row.base_offset >= 0:
                self._add(lane, _Line(STORED, row.base_offset, row.base_offset + row.records - 1))
            elif row.verdict == "duplicate":
                self._add(lane, _Line("duplicate of", row.base_offset))
            else:
                self._add(lane, _Line(f"{row.verdict}{_error(row.code)}"))

    def event(self, event: Recorded) -> None:
        """Take a request or a response."""
        if not isinstance(event, RecordedExchange):
            return
        exchange, response = event
        if response is None and exchange.api_key == FETCH:
            return  # a consumer may leave while its Fetch waits for records
        if response is None:
            self._add(Lane(exchange.client_id or "", api_name(exchange.api_key), ""), _Line("no response"))
        elif exchange.api_key != PRODUCE:
            for subject, line in _outcomes(response, exchange.directory, "", exchange.api_key == FETCH):
                self._add(Lane(exchange.client_id or "", api_name(exchange.api_key), subject), line)

    def _add(self, lane: Lane, line: _Line) -> None:
        lines = self._lanes[lane]
        last = lines[-1] if lines else None
        if last is not None and last.text == line.text:
            if line.start < 0 or (last.start <= line.start <= last.end and line.end <= last.end):
                return  # the last line already has this outcome
            if line.start == last.end + 1:
                last.end = line.end
                return
        lines.append(line)


def _outcomes(part: Any, directory: Directory, subject: str, fetch: bool) -> Iterator[tuple[str, _Line]]:
    """Yields the outcomes in a response or in a part of it, each with its subject."""
    cls = type(part)
    subject = _subject(part, directory, subject)
    for name in holders(cls, "errorCode"):
        code = getattr(part, name)
        if isinstance(code, int) and code:
            yield subject, _Line(f"error{_error(code)}")
    for name in OFFSETS:
        if isinstance(offset := getattr(part, name, None), int) and offset >= 0:
            yield subject, _Line(name.replace("_", " "), offset)
    if fetch and getattr(part, "records", None):
        yield from ((subject, line) for line in _fetched(part.records))
    for name, _ in struct_lists(cls):
        for each in getattr(part, name) or ():
            yield from _outcomes(each, directory, subject, fetch)


def _fetched(records: Any) -> Iterator[_Line]:
    try:
        for batch in iter_batches(records):
            if (header := first_header(batch)) is None:
                last = int.from_bytes(batch[:8], "big")
                yield _Line(FETCHED, last, last)
            else:
                yield _Line(FETCHED, header.base_offset, header.last_offset)
    except CorruptBatch as damage:
        yield _Line(f"damaged records: {damage}")


def _subject(part: Any, directory: Directory, subject: str) -> str:
    """Returns the subject of a part of a response: a group, a transaction, a topic or a partition."""
    topic_id = first(part, "topicId")
    topic = first(part, "topicName") or (directory.topic_name(topic_id) if isinstance(topic_id, bytes) else None)
    for named in (topic, first(part, "groupId"), first(part, "transactionalId")):
        if isinstance(named, str):
            subject = named
    for name in holders(type(part), "partition"):
        index = getattr(part, name)
        if isinstance(index, int):
            subject = f"{subject}-{index}"
    return subject


def _error(code: int) -> str:
    return f" {code} {error_name(code)}" if code else ""


# Comparing


def differences(one: dict[Lane, list[str]], other: dict[Lane, list[str]]) -> Iterator[tuple[Lane, list[tuple[str, str]]]]:
    """Yields the lanes whose outcomes differ. For each lane, the lines of both sessions are paired; "" stands for a missing
    line."""
    for lane in dict.fromkeys((*one, *other)):
        left, right = one.get(lane, []), other.get(lane, [])
        if left != right:
            yield lane, list(_side_by_side(left, right))


def _side_by_side(left: list[str], right: list[str]) -> Iterator[tuple[str, str]]:
    for _, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        for at in range(max(b - a, d - c)):
            yield left[a + at] if a + at < b else "", right[c + at] if c + at < d else ""


def table(lane: Lane, pairs: list[tuple[str, str]]) -> Iterator[str]:
    """Yields a lane as printed lines: both sessions side by side, and a mark where they differ."""
    width = max(len(left) for left, _ in pairs)
    yield str(lane)
    for left, right in pairs:
        mark = " " if left == right else "<" if not right else ">" if not left else "|"
        yield f"  {left:<{width}}  {mark}  {right}".rstrip()
