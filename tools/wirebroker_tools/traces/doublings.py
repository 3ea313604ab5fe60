"""Adds remarks to the batches of a trace. A remark says one of three things: a fault affected the response, the records were
probably stored twice, or a real broker's verdict differs from the prediction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from wirebroker.trace.rows import FaultRow, ProduceRow, Row, ShadowRow
from wirebroker.trace.selection import ExchangeKey, exchange_of

Alike = tuple[str, int, str | None, int, int]
"""Five values of a batch: its topic, its partition, its client id, its number of records, and its number of bytes. These values
are the same for a batch and its retry, even if the producer id or the epoch differs.
"""


def remarks_on(rows: Iterable[Row]) -> dict[int, str]:
    """Returns the remarks on each batch. The keys are the `id()` of the batches' rows.

    If a client sends a stored batch again without a producer id, or under another id or epoch, the validator cannot recognise
    the retry. Then the records are stored twice. A client may send a stored batch again after a fault affected its response, or
    after its retry was rejected. A trace does not contain the records. So the next batch of the same client with the same size
    is probably, but not certainly, the same batch.
    """
    rows = list(rows)
    return _Doublings([row for row in rows if isinstance(row, FaultRow)]).read(
        row for row in rows if isinstance(row, ProduceRow)
    )


class _Doublings:
    def __init__(self, faults: Iterable[FaultRow]) -> None:
        self._faults: dict[ExchangeKey, list[FaultRow]] = defaultdict(list)
        for fault in faults:
            self._faults[exchange_of(fault)].append(fault)
        self._stored: dict[tuple[str, int, int, int, int], ProduceRow] = {}
        self._in_doubt: dict[Alike, list[tuple[ProduceRow, str]]] = defaultdict(list)
        self._remarks: dict[int, list[str]] = defaultdict(list)

    def read(self, rows: Iterable[ProduceRow]) -> dict[int, str]:
        for row in rows:
            rules = ", ".join(fault.rule for fault in self._faults_of(row))
            if rules:
                self._remarks[id(row)].append(rules)
            if isinstance(row, ShadowRow) and row.agrees is False:
                self._remarks[id(row)].append(f"the sequences predict {row.predicted}")
            if row.verdict == "accepted":
                self._accepted(row, f"its response met {rules}" if rules else "")
            elif (original := self._stored.get(_sequence(row))) is not None:
                self._sent_again(row, original)
        return {key: "; ".join(texts) for key, texts in self._remarks.items()}

    def _faults_of(self, row: ProduceRow) -> list[FaultRow]:
        place = f"{row.topic}-{row.partition}"
        faults = self._faults.get(exchange_of(row), ())
        return [fault for fault in faults if not fault.partitions or place in fault.partitions]

    def _accepted(self, row: ProduceRow, doubt: str) -> None:
        waiting = self._in_doubt.get(_alike(row), [])
        if (found := next((each for each in waiting if _another(each[0], row)), None)) is not None:
            waiting.remove(found)
            earlier, why = found
            self._remarks[id(earlier)].append(f"probably stored again at offset {row.base_offset}")
            self._remarks[id(row)].append(f"probably the batch at offset {earlier.base_offset} again: {why}")
        if row.producer_id >= 0:
            self._stored[_sequence(row)] = row
        if doubt:
            self._in_doubt[_alike(row)].append((row, doubt))

    def _sent_again(self, row: ProduceRow, original: ProduceRow) -> None:
        waiting = self._in_doubt[_alike(original)]
        waiting[:] = [each for each in waiting if each[0] is not original]
        if row.verdict == "rejected" and row.last_sequence == original.last_sequence:
            waiting.append((original, f"its retry was rejected, {row.code} {row.error}"))


def _sequence(row: ProduceRow) -> tuple[str, int, int, int, int]:
    return row.topic, row.partition, row.producer_id, row.producer_epoch, row.first_sequence


def _alike(row: ProduceRow) -> Alike:
    return row.topic, row.partition, row.client_id, row.records, row.bytes


def _another(earlier: ProduceRow, row: ProduceRow) -> bool:
    """Tells whether the validator cannot recognise the later batch as a retry of the earlier batch."""
    ids = (earlier.producer_id, earlier.producer_epoch), (row.producer_id, row.producer_epoch)
    return row.producer_id < 0 or ids[0] != ids[1]
