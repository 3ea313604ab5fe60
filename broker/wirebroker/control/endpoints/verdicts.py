"""The validator's verdict on each batch, with the reason, and the rows of the trace. A response may continue with future
rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Literal

from wirebroker.control.controlled import Controlled
from wirebroker.control.endpoints.records import LONGEST_WAIT_S
from wirebroker.control.forms import Form, about
from wirebroker.control.problems import Problem
from wirebroker.trace.filters import parsed
from wirebroker.trace.recorder import RING
from wirebroker.trace.rows import ProduceRow, Row, RunRow

BEHIND = 10_000
"""The largest number of rows that wait for a slow reader of a stream.

If more rows wait, the stream ends with the number of missed rows.
"""


class Which(Form):
    """The chosen verdicts."""

    topic: Annotated[str | None, about("only verdicts on this topic")] = None
    partition: Annotated[int | None, about("only verdicts on this partition")] = None
    producer_id: Annotated[int | None, about("only verdicts on this producer's batches")] = None
    verdict: Annotated[Literal["accepted", "duplicate", "rejected"] | None, about("only verdicts with this result")] = None

    def fits(self, row: Row) -> bool:
        """Tells whether the row is a verdict that meets these conditions."""
        if not isinstance(row, ProduceRow):
            return False
        asked = (self.topic, self.partition, self.producer_id, self.verdict)
        found = (row.topic, row.partition, row.producer_id, row.verdict)
        return all(wanted in (None, value) for wanted, value in zip(asked, found, strict=True))


class Latest(Which):
    """The verdicts to list, and the largest number of verdicts."""

    limit: Annotated[int, about("return at most this many of the latest rows", ge=1, le=RING)] = 1000


class Awaited(Which):
    """The verdicts to wait for."""

    count: Annotated[int, about("the number of verdicts to wait for", ge=1, le=RING)] = 1
    timeout: Annotated[float, about("wait at most this many seconds", ge=0, le=LONGEST_WAIT_S)] = 5.0


class Followed(Latest):
    """The verdicts to list, and whether to continue with later verdicts."""

    follow: Annotated[bool, about("continue with later rows")] = False


class Rows(Form):
    """The rows to list, their number, and whether to continue with later rows."""

    where: Annotated[str, about("a filter", examples=["api=Produce error!=NONE"])] = ""
    limit: Annotated[int, about("return at most this many of the latest rows", ge=1, le=RING)] = 1000
    follow: Annotated[bool, about("continue with later rows")] = False


class Verdicts(Form):
    """Verdicts, oldest first."""

    verdicts: list[ProduceRow]


class Tail:
    """Collects new rows of the trace while this context manager is open."""

    name = "a reader of the control"

    def __init__(self, controlled: Controlled, wanted: Callable[[Row], bool]) -> None:
        self._controlled = controlled
        self._wanted = wanted
        self._rows: asyncio.Queue[Row | None] = asyncio.Queue()
        self.missed = 0

    def __enter__(self) -> Tail:
        self._controlled.machine.trace.sinks.append(self)
        self._controlled.at_close.append(self._end)
        return self

    def __exit__(self, *_: object) -> None:
        self._controlled.machine.trace.detach(self)
        self._controlled.at_close.remove(self._end)

    def __call__(self, row: Row) -> None:
        if not self._wanted(row):
            return
        if self.missed or self._rows.qsize() >= BEHIND:
            self.missed += 1
            if self.missed == 1:
                self._end()
        else:
            self._rows.put_nowait(row)

    def _end(self) -> None:
        self._rows.put_nowait(None)

    async def next(self) -> Row | None:
        """Returns the next row. Returns None if the broker stops or rows were missed: then there will be no next row."""
        return await self._rows.get()


def listed(controlled: Controlled, query: Latest) -> Verdicts:
    """Returns the verdicts on the latest batches, oldest first."""
    return Verdicts(_past(controlled, query)[-query.limit :])


async def wait(controlled: Controlled, query: Awaited) -> Verdicts:
    """Wait until `count` verdicts meet the conditions, and return these verdicts. Verdicts before this request count, too, but
    not verdicts before a reset.

    After the timeout, 409 gives the number of verdicts that meet the conditions.
    """
    with Tail(controlled, lambda row: isinstance(row, RunRow) or query.fits(row)) as tail:
        found = _past(controlled, query)
        try:
            async with asyncio.timeout(query.timeout):
                while len(found) < query.count:
                    row = await tail.next()
                    if isinstance(row, RunRow):  # the broker was reset
                        found = []
                        continue
                    if not isinstance(row, ProduceRow):
                        raise Problem(503, "the broker is stopping")
                    found.append(row)
        except TimeoutError:
            came = f"there were {len(found)} of {query.count} such verdicts within {query.timeout:g} s"
            raise Problem(409, came) from None
    return Verdicts(found)


def lines(controlled: Controlled, query: Followed) -> AsyncIterator[str]:
    """Returns the verdicts as JSON lines, as `--trace FILE.jsonl` writes them. With `follow`, the stream continues with later
    verdicts."""
    return _lines(controlled, query.fits, lambda: _past(controlled, query)[-query.limit :], query.follow)


def trace(controlled: Controlled, query: Rows) -> AsyncIterator[str]:
    """Returns the rows of the trace as JSON lines. With `follow`, the stream continues with later rows.

    `where` is a filter, such as `api=Produce error!=NONE`; docs/reference/trace.md has its grammar.
    """
    wanted = parsed(query.where).has
    return _lines(
        controlled, wanted, lambda: [row for row in controlled.machine.trace.events() if wanted(row)][-query.limit :],
        query.follow,
    )  # fmt: skip


def _past(controlled: Controlled, which: Which) -> list[ProduceRow]:
    rows = controlled.machine.trace.produce(which.topic, which.partition)
    return [row for row in rows if which.fits(row)]


async def _lines(
    controlled: Controlled, wanted: Callable[[Row], bool], past: Callable[[], Sequence[Row]], follow: bool
) -> AsyncIterator[str]:
    with Tail(controlled, wanted) as tail:
        for row in past():
            yield row.as_json() + "\n"
        while follow and (row_to_come := await tail.next()) is not None:
            yield row_to_come.as_json() + "\n"
        if tail.missed:
            yield f'{{"event": "missed", "rows": {tail.missed}}}\n'
