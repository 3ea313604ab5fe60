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
from wirebroker.trace.rows import FaultRow, ProduceRow, Row

SHOWN = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
"""Requests beside Produce that belong into the picture."""


@dataclass(slots=True)
class Event:
    """A batch that was judged (`row`), a fault that struck (`fault`), or another request (neither of them)."""

    what: str
    """the records of the batch, or of the request that was struck; else what the request is"""
    row: ProduceRow | None = None
    fault: FaultRow | None = None
    unanswered: bool = False
    """the client does not hear of it"""


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
        self.requests: Counter[str] = Counter()
        self._rule = kafka.faults.add(faults.answer(self._look, name="watch"))

    def _look(self, facts: Facts, request: Message) -> None:
        self.requests[facts.api] += 1
        records = dict(_records(request)) if isinstance(request, ProduceRequest) else {}
        committed = getattr(request, "committed", None)
        said = {None: "", True: ", commit", False: ", abort"}[committed] if facts.api == "EndTxn" else ""
        self._seen.append(_Seen(facts.api + said, records))

    def events(self) -> list[Event]:
        """Everything so far."""
        return list(_join(self._kafka.trace.last(100_000), str(self._rule), self._seen))


def _records(request: ProduceRequest) -> Iterable[tuple[int, str]]:
    for topic in request.topic_data:
        for part in topic.partition_data:
            if part.records is not None and len(part.records) > HEADER_SIZE:
                yield part.index, named([(record.value or b"").decode() for record in iter_records(part.records)])


def named(values: list[str]) -> str:
    """The records of a batch in short: its letter. What only makes a record longer is left out."""
    first = values[0].rstrip(".")
    return first if len(values) == 1 else first.rstrip("0123456789")


def _join(rows: list[Row], watching: str, seen: list[_Seen]) -> Iterable[Event]:
    """Rows in order; what was seen of each request belongs to the rows of its connection and correlation id."""
    looks = iter(seen)
    known: dict[tuple[int, int], _Seen] = {}
    silent: set[int] = set()
    lost: set[tuple[int, int]] = set()
    for row in rows:
        request = (row.connection, row.correlation_id)
        if isinstance(row, ProduceRow):
            seen_then = known.get(request, _Seen(""))
            unanswered = row.connection in silent or request in lost
            yield Event(seen_then.records.get(row.partition, ""), row=row, unanswered=unanswered)
        elif isinstance(row, FaultRow) and row.rule == watching:
            known[request] = look = next(looks)
            if row.api in SHOWN:
                yield Event(look.what)
        elif isinstance(row, FaultRow):
            look = known.get(request, _Seen(row.api))
            yield Event(" ".join(look.records.values()) or look.what, fault=row)
            if row.kind == "lose_ack" or (row.kind == "disconnect" and "after=True" in row.rule):
                lost.add(request)
            if "then=silence" in row.rule:
                silent.add(row.connection)
