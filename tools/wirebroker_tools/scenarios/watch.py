"""The requests of a run, with the names of their records, in the order in which the broker handled the requests.

The trace has verdicts and faults but no records. So a fault rule, which changes no request, notes the records of each request.
This module joins the trace with these records by connection and correlation id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkawire.batches import first_header, iter_records
from kafkawire.declare import Message
from kafkawire.messages.produce import ProduceRequest
from wirebroker import faults
from wirebroker.mock import MockKafka
from wirebroker.requests.facts import Facts
from wirebroker.trace.rows import FaultRow, ProduceRow, ReplyRow, Row

SHOWN = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
"""The APIs, besides Produce, whose requests are shown."""
RING = 10_000
"""At most this many trace rows are read; the trace keeps no more rows."""


@dataclass(slots=True)
class Event:
    """One event of a run: a batch with its verdict (in `row`), a fault that fired (in `fault`), a request, or a change of the
    broker (in `mark`).
    """

    what: str
    """for a batch, the names of its records; for a fault, the names of the records in the request; else the request's API, or
    the change of the broker
    """
    row: ProduceRow | None = None
    fault: FaultRow | None = None
    unanswered: bool = False
    """true if the client gets no response"""
    errors: str = ""
    """the error of a request without a verdict"""
    mark: bool = False


@dataclass(slots=True)
class _Seen:
    what: str
    records: dict[int, str] = field(default_factory=dict)
    """by partition"""


class Watch:
    """Records all requests from the moment at which this object is created."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka
        self._seen: list[_Seen] = []
        self._marks: list[tuple[int, str]] = []
        self.requests: Counter[str] = Counter()
        kafka.trace.level = "exchanges"
        self._rule = kafka.faults.add(faults.answer(self._look, name="watch"))

    def _look(self, facts: Facts, request: Message) -> None:
        self.requests[facts.api] += 1
        records = dict(_records(request)) if isinstance(request, ProduceRequest) else {}
        committed = getattr(request, "committed", None)
        said = {None: "", True: ", commit", False: ", abort"}[committed] if facts.api == "EndTxn" else ""
        self._seen.append(_Seen(facts.api + said, records))

    def mark(self, what: str) -> None:
        """Note a change of the broker at this point of the run."""
        self._marks.append((len(self._rows()), what))

    def events(self) -> list[Event]:
        """Returns the events so far, in order."""
        rows = self._rows()
        join = _Join(str(self._rule), self._seen, rows)
        found: list[Event] = []
        done = 0
        for until, what in [*self._marks, (len(rows), "")]:
            found += join.events(rows[done:until])
            done = until
            found += [Event(what, mark=True)] if what else []
        return found

    def _rows(self) -> list[Row]:
        return self._kafka.trace.last(RING)


def _records(request: ProduceRequest) -> Iterable[tuple[int, str]]:
    for topic in request.topic_data:
        for part in topic.partition_data:
            if part.records is not None and first_header(part.records) is not None:
                yield part.index, named([(record.value or b"").decode() for record in iter_records(part.records)])


def named(values: list[str]) -> str:
    """Returns the short name of a batch: the letter with which the values of its records begin."""
    first = values[0].rstrip(".")
    return first if len(values) == 1 else first.rstrip("0123456789")


class _Join:
    """For each trace row, finds two things: the records of the row's request, and the response to this request. Rows and
    requests are joined by connection and correlation id.
    """

    def __init__(self, watching: str, seen: list[_Seen], rows: Iterable[Row]) -> None:
        self._watching = watching
        self._looks = iter(seen)
        self._known: dict[tuple[int, int], _Seen] = {}
        self._responses = {(row.connection, row.correlation_id): row for row in rows if isinstance(row, ReplyRow)}
        self._judged: set[tuple[int, int]] = set()
        """The requests that got a verdict, or a fault instead of a verdict."""

    def events(self, rows: Iterable[Row]) -> Iterable[Event]:
        for row in rows:
            if isinstance(row, ProduceRow):
                yield self._batch(row)
            elif isinstance(row, FaultRow) and row.rule == self._watching:
                yield from self._request(row)
            elif isinstance(row, FaultRow):
                yield self._fault(row)
            elif isinstance(row, ReplyRow) and row.api == "Produce" and row.errors:
                yield from self._refusal(row)

    def _batch(self, row: ProduceRow) -> Event:
        request = (row.connection, row.correlation_id)
        self._judged.add(request)
        records = self._known[request].records if request in self._known else {}
        return Event(records.get(row.partition, ""), row=row, unanswered=row.acks != 0 and request not in self._responses)

    def _request(self, row: FaultRow) -> Iterable[Event]:
        request = (row.connection, row.correlation_id)
        if request in self._known:
            return  # the rule has a row for each batch of a Produce
        self._known[request] = look = next(self._looks)
        if row.api in SHOWN:
            response = self._responses.get(request)
            yield Event(look.what, unanswered=response is None, errors=", ".join(response.errors) if response else "")

    def _fault(self, row: FaultRow) -> Event:
        request = (row.connection, row.correlation_id)
        look = self._known.get(request, _Seen(row.api))
        if row.kind == "error":
            self._judged.add(request)
        return Event(" ".join(look.records.values()) or look.what, fault=row)

    def _refusal(self, row: ReplyRow) -> Iterable[Event]:
        """Yields an event for a refused Produce without a verdict, for example because this broker does not lead the
        partition.
        """
        request = (row.connection, row.correlation_id)
        if request in self._known and request not in self._judged:
            yield Event(" ".join(self._known[request].records.values()), errors=", ".join(row.errors))
