"""Shows repeated rows as one line: "1,272 × Fetch, 0 errors". `live/folds.js` has the same rules.

A row repeats an earlier row if three things are the same: the connection; the topics, groups or producers; and the kind of row.
There are three kinds: a request or response of one API without an error, a fetched partition, and an accepted batch. Any other
row, such as an error or a change, ends the repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wirebroker.trace.filters import API_OF
from wirebroker.trace.layout import DIM, PLAIN, time_of_day
from wirebroker.trace.rows import FetchRow, ProduceRow, ReplyRow, RequestRow, Row, ShadowRow

FEWEST = 6
"""If there are at least this many repeated rows, they are shown as one line."""
MOST_KINDS = 64
"""To recognise repeats, at most this many kinds of rows are remembered."""
Kind = tuple[object, ...]


class Fold:
    """Rows that repeat earlier rows, shown as one line. A fold keeps only counts, not the rows."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._longest = 0
        self.first = self.last = 0
        """The times of the first and the last row, in ms since the epoch."""
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Count one more row."""
        api = getattr(row, "api", None) or API_OF[row.event]
        events = self._counts.setdefault(api, {})
        events[row.event] = events.get(row.event, 0) + 1
        self._longest = max(self._longest, getattr(row, "latency", 0))
        self.first, self.last = self.first or row.time, row.time

    def words(self) -> tuple[str, str]:
        """Returns the two parts of the line: the number of exchanges of each API, and a remark that there were no errors. The
        remark also has the largest latency.
        """
        named = (f"{_exchanges(events):,} × {api}" for api, events in self._counts.items())
        return ", ".join(named), "0 errors" + (f", at most {self._longest:,} ms" if self._longest else "")

    def line(self, colour: bool = False) -> str:
        requests, rest = self.words()
        text = f"{time_of_day(self.first)}       … {requests}, {rest}, until {time_of_day(self.last)}"
        return f"{DIM}{text}{PLAIN}" if colour else text


def _exchanges(events: dict[str, int]) -> int:
    return events.get(ReplyRow.event) or events.get(RequestRow.event) or max(events.values())


def folded(rows: Iterable[Row]) -> Iterator[Row | Fold]:
    """Yields the rows, with a `Fold` in place of rows that repeat earlier rows."""
    kinds: dict[Kind, None] = {}
    repeats: list[Row] = []
    fold: Fold | None = None
    for row in rows:
        kind = _kind(row)
        if kind is not None and kind in kinds:
            if fold is not None:
                fold.add(row)
            elif len(repeats) == FEWEST - 1:
                fold = Fold((*repeats, row))
                repeats.clear()
            else:
                repeats.append(row)
            continue
        yield from repeats if fold is None else (fold,)
        repeats.clear()
        fold = None
        if kind is None:
            kinds.clear()
        else:
            kinds[kind] = None
            if len(kinds) > MOST_KINDS:
                del kinds[next(iter(kinds))]
        yield row
    yield from repeats if fold is None else (fold,)


def _kind(row: Row) -> Kind | None:
    """Returns a key for a row. A row repeats earlier rows with an equal key. Returns None if the row must always be shown."""
    if isinstance(row, RequestRow) or (isinstance(row, ReplyRow) and not row.errors):
        return row.event, row.node, row.connection, row.api, row.about
    if isinstance(row, FetchRow) and not row.code:
        return row.event, row.node, row.connection, row.topic, row.partition
    if isinstance(row, ProduceRow) and row.verdict == "accepted" and not row.note:
        if isinstance(row, ShadowRow) and row.agrees is False:
            return None
        return row.event, row.node, row.connection, row.topic, row.partition, row.producer_id, row.producer_epoch
    return None
