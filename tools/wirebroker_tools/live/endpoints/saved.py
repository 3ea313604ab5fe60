"""A saved file for the live page: windows of the file's rows, the progress of indexing, and exports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from wirebroker.control.endpoints.events import ALWAYS, MOST, SIGN_OF_LIFE_S, closing, encoded, event, pause
from wirebroker.control.forms import Form, Natural, about
from wirebroker.control.problems import Problem
from wirebroker.trace.brief import brief
from wirebroker.trace.kept_frames import KeptExchange
from wirebroker.trace.rows import FaultRow, ProduceRow, ReplyRow, Row
from wirebroker_tools.capture.exchanges import captured
from wirebroker_tools.live.saved_file import SavedFile
from wirebroker_tools.traces.saved import Numbered, Search
from wirebroker_tools.traces.scenario import scenario_of

LARGEST_WINDOW = 100_000
MOST_EXPORTED = 20_000
"""An exported capture has at most this many exchanges, and an exported scenario comes from at most this many rows."""
PAUSE_S = 0.1
"""While a file is being indexed, this endpoint looks for new rows at intervals of this many seconds."""
TOLD_EVERY_S = 0.5
"""The progress of indexing is reported at intervals of this many seconds."""


class Window(Form):
    """The rows to send."""

    run: Annotated[str, about("ignored")] = ""
    after: Annotated[Natural, about("rows after this number")] = 0
    before: Annotated[Natural, about("begin this many rows earlier")] = 0
    time: Annotated[
        int, about("rows from this time on, in ms since the epoch, instead of `after`; −1: rows from `after` on")
    ] = -1
    most: Annotated[Natural, about("the largest number of rows")] = LARGEST_WINDOW
    where: Annotated[str, about("only rows that meet this filter")] = ""


class Exchange(Form):
    """The fields of a row that identify its exchange."""

    node: Annotated[int, about("the row's `node`")]
    connection: Annotated[int, about("the row's `connection`")]
    correlation_id: Annotated[int, about("the row's `correlation_id`")]


class Filtered(Form):
    """The rows to export."""

    where: Annotated[str, about("only rows that meet this filter")] = ""


class Health(Form):
    """The state of a page that shows a file."""

    status: Literal["ok"]
    problem: str
    file: str


def health(controlled: SavedFile) -> Health:
    """Returns the name of the file that is shown."""
    return Health("ok", "", controlled.name)


def events(controlled: SavedFile, query: Window) -> AsyncIterator[bytes]:
    """Returns a window of the rows as server-sent events, and the progress of indexing.

    The first event is `run`, as for a running broker. In this event, `of` is "file", and `after` is the number of the row
    before the window. An event `numbered` has rows and their numbers: `{"numbers": […], "rows": […]}`. An event `index` has the
    progress.
    """
    search = controlled.search(query.where)  # a wrong filter is refused before the first event
    return _events(controlled, query, _start(controlled, search, query))


async def _events(controlled: SavedFile, query: Window, reached: int) -> AsyncIterator[bytes]:
    yield event("run", {"run": controlled.run, "of": "file", "after": reached} | ALWAYS)
    sent, told, idle, loop = 0, "", 0.0, asyncio.get_running_loop()
    next_report = 0.0
    with closing(controlled) as ended:
        while not ended.is_set():
            if loop.time() >= next_report:
                next_report = loop.time() + TOLD_EVERY_S
                progress = await asyncio.to_thread(controlled.progress, query.where)
                if (now := str(progress)) != told:
                    told, idle = now, 0.0
                    yield event("index", progress)
            before, found = reached, list[Numbered]()
            if sent < query.most:
                found, reached = await asyncio.to_thread(controlled.window, query.where, reached, min(MOST, query.most - sent))
            if found:
                sent += len(found)
                rows = b'{"numbers":%s,"rows":%s}' % (
                    encoded([each for each, _ in found]),
                    encoded([brief(row) for _, row in found]),
                )
                yield b"event: numbered\ndata: %s\n\n" % rows
            if reached == before:
                await pause(ended, PAUSE_S if not controlled.rows.done else TOLD_EVERY_S)
                idle += PAUSE_S
                if idle >= SIGN_OF_LIFE_S:
                    idle = 0.0
                    yield b":\n\n"


def _start(controlled: SavedFile, search: Any, query: Window) -> int:
    """Returns the number of the row before the window."""
    after = query.after if query.time < 0 else controlled.rows.number_at(query.time)
    if not query.before:
        return after
    return search.before(after, query.before) if isinstance(search, Search) else max(after - query.before, 0)


def related(controlled: SavedFile, number: int, query: Exchange) -> dict[str, Any]:
    """Returns those other rows of a row's exchange that are near this row in the file."""
    found = controlled.related(number, query.node, query.connection, query.correlation_id)
    return {"numbers": [each for each, _ in found], "rows": [brief(row) for _, row in found]}


def lines(controlled: SavedFile, query: Filtered) -> AsyncIterator[bytes]:
    """Returns JSON lines for `wirebroker trace show`: the rows that meet a filter."""
    controlled.search(query.where)  # a wrong filter is refused before the first line
    return _lines(controlled, query.where)


async def _lines(controlled: SavedFile, where: str) -> AsyncIterator[bytes]:
    async for rows in _chosen(controlled, where):
        yield "".join(row.as_json() + "\n" for _, row in rows).encode(errors="surrogatepass")


async def capture(controlled: SavedFile, query: Filtered) -> bytes:
    """Returns a pcapng file with the exchanges of the rows that meet a filter. The verdicts are comments in the file."""
    found: dict[int, tuple[KeptExchange, list[str]]] = {}
    async for rows in _chosen(controlled, query.where):
        for number, row in rows:
            await asyncio.to_thread(_add_exchange, controlled, number, row, found)
            if len(found) > MOST_EXPORTED:
                raise Problem(422, f"there are more than {MOST_EXPORTED:,} exchanges; choose fewer with a filter", "where")
    if not found:
        raise Problem(404, "the file has no bytes of these exchanges", "where")
    return await asyncio.to_thread(captured, [found[number] for number in sorted(found)])


def _add_exchange(controlled: SavedFile, number: int, row: Row, found: dict[int, tuple[KeptExchange, list[str]]]) -> None:
    """Add the exchange of a row to `found`. If the row is about a verdict or a fault, also add a remark about it."""
    if getattr(row, "correlation_id", -1) < 0:
        return
    if not isinstance(row, ReplyRow):
        same = controlled.related(number, row.node, row.connection, row.correlation_id)  # type: ignore[attr-defined]
        number = next((at for at, each in same if isinstance(each, ReplyRow)), 0)
    if number not in found and (kept := controlled.exchange(number)) is not None:
        found[number] = kept, []
    if number in found and isinstance(row, ProduceRow | FaultRow):
        place, _, outcome, rest = row.parts()
        found[number][1].append(f"{place} {outcome}: {rest}".strip())


async def scenario(controlled: SavedFile, query: Filtered) -> str:
    """Returns a scenario made from the rows that meet a filter. `scenario run FILE.toml` plays the scenario."""
    found: list[Row] = []
    async for rows in _chosen(controlled, query.where):
        found += (row for _, row in rows)
        if len(found) > MOST_EXPORTED:
            raise Problem(422, f"there are more than {MOST_EXPORTED:,} rows; choose fewer with a filter", "where")
    return scenario_of(found, {})


async def _chosen(controlled: SavedFile, where: str) -> AsyncIterator[list[Numbered]]:
    """Yields the rows that meet a filter, from the part of the file that has been indexed."""
    reached = -1
    after = 0
    while reached != after:
        reached = after
        rows, after = await asyncio.to_thread(controlled.window, where, reached, MOST)
        if rows:
            yield rows
