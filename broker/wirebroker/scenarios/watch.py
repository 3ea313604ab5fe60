"""What went over the wire in a run, in the order in which the broker dealt with it, with the records named.

The trace has the verdicts and the faults, and no records; so a rule that lets everything pass looks at each request as it
comes, and the two are joined by connection and correlation id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkawire.batches import HEADER_SIZE, iter_records
from kafkawire.declare import Message
from kafkawire.messages.produce import ProduceRequest
from wirebroker import faults
from wirebroker.faults.facts import Facts
from wirebroker.mock import MockKafka
from wirebroker.trace.rows import FaultRow, ProduceRow

SHOWN = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
"""Requests beside Produce that belong into the picture."""
RING = 10_000
"""Rows that are looked at; the trace keeps no more."""


@dataclass(slots=True)
class Event:
    """A batch that was judged (`row`), a fault that struck (`fault`), another request, or what befell the broker (`mark`)."""

    what: str
    """the records of the batch, or of the request that was struck; else what the request is"""
    row: ProduceRow | None = None
    fault: FaultRow | None = None
    unanswered: bool = False
    """the client does not hear of it"""
    mark: bool = False


@dataclass(slots=True)
class _Seen:
    what: str
    records: dict[int, str] = field(default_factory=dict)
    """by partition"""


class Watch:
    """Looks on from the moment it is made."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka
        self._seen: list[_Seen] = []
        self._marks: list[tuple[int, str]] = []
        self.requests: Counter[str] = Counter()
        self._rule = kafka.faults.add(faults.answer(self._look, name="watch"))

    def _look(self, facts: Facts, request: Message) -> None:
        self.requests[facts.api] += 1
        records = dict(_records(request)) if isinstance(request, ProduceRequest) else {}
        committed = getattr(request, "committed", None)
        said = {None: "", True: ", commit", False: ", abort"}[committed] if facts.api == "EndTxn" else ""
        self._seen.append(_Seen(facts.api + said, records))

    def mark(self, what: str) -> None:
        """Note that something befalls the broker now."""
        self._marks.append((len(self._rows()), what))

    def events(self) -> list[Event]:
        """Everything so far."""
        rows, looks = self._rows(), _Join(str(self._rule), self._seen)
        found: list[Event] = []
        done = 0
        for until, what in [*self._marks, (len(rows), "")]:
            found += looks.events(rows[done:until])
            done = until
            found += [Event(what, mark=True)] if what else []
        return found

    def _rows(self) -> list[ProduceRow | FaultRow]:
        return [row for row in self._kafka.trace.last(RING) if isinstance(row, ProduceRow | FaultRow)]


def _records(request: ProduceRequest) -> Iterable[tuple[int, str]]:
    for topic in request.topic_data:
        for part in topic.partition_data:
            if part.records is not None and len(part.records) > HEADER_SIZE:
                yield part.index, named([(record.value or b"").decode() for record in iter_records(part.records)])


def named(values: list[str]) -> str:
    """The records of a batch in short: its letter. What only makes a record longer is left out."""
    first = values[0].rstrip(".")
    return first if len(values) == 1 else first.rstrip("0123456789")


class _Join:
    """Joins rows with what was seen of their requests, by connection and correlation id."""

    def __init__(self, watching: str, seen: list[_Seen]) -> None:
        self._watching = watching
        self._looks = iter(seen)
        self._known: dict[tuple[int, int], _Seen] = {}
        self._silent: set[int] = set()
        """Connections on which nothing is answered any more."""
        self._lost: set[tuple[int, int]] = set()
        """Requests whose answer is lost."""

    def events(self, rows: Iterable[ProduceRow | FaultRow]) -> Iterable[Event]:
        """The next rows as events."""
        for row in rows:
            request = (row.connection, row.correlation_id)
            if isinstance(row, ProduceRow):
                records = self._known.get(request, _Seen("")).records
                unanswered = row.connection in self._silent or request in self._lost
                yield Event(records.get(row.partition, ""), row=row, unanswered=unanswered)
            elif row.rule == self._watching:
                self._known[request] = look = next(self._looks)
                if row.api in SHOWN:
                    yield Event(look.what)
            else:
                look = self._known.get(request, _Seen(row.api))
                yield Event(" ".join(look.records.values()) or look.what, fault=row)
                self._struck(row)

    def _struck(self, row: FaultRow) -> None:
        if row.kind == "lose_ack" or (row.kind == "disconnect" and "after=True" in row.rule):
            self._lost.add((row.connection, row.correlation_id))
        if "then=silence" in row.rule:
            self._silent.add(row.connection)
