"""The trace for the live page: a stream of numbered rows, filters, and the level of the trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec

from kafkawire.registry import KEYS, spoken
from wirebroker.control.controlled import Controlled, Readable, Sent
from wirebroker.control.forms import Form, Natural, about
from wirebroker.control.problems import Problem
from wirebroker.core.producers import ACCEPTED
from wirebroker.trace import filters
from wirebroker.trace.brief import COLUMNS
from wirebroker.trace.broker import STORED
from wirebroker.trace.levels import Level

LOWEST_IN_KAFKA_4 = {name: spoken(key)[0] for name, key in KEYS.items()}
"""The lowest version of each API. Kafka 4.0 dropped lower versions (KIP-896)."""
ALWAYS = {"lowest": LOWEST_IN_KAFKA_4, "columns": COLUMNS | {"stored": STORED}, "accepted": ACCEPTED}
"""The fields of the event `run` whose values are the same in all runs."""
MOST_READERS = 64
"""The largest number of clients that read /events at the same time. A further client gets 503."""
PAUSE_S = 0.2
"""The time in seconds between two reads of the trace."""
MOST = 1000
"""The largest number of rows in one message."""
BETWEEN_S = 0.05
"""The pause in seconds after a full message. During the pause the broker serves its clients."""
SIGN_OF_LIFE_S = 15
"""After this time in seconds without an event, a comment line shows that the stream is still open."""


class From(Form):
    """The place at which a stream begins."""

    run: Annotated[str, about("the run whose rows the reader has; `after` counts only for this run")] = ""
    after: Annotated[Natural, about("the number of the last row that the reader has")] = 0


class Traced(Form):
    """The level of the trace."""

    level: Level


class Text(Form):
    """A filter as text."""

    where: Annotated[str, about("a filter", examples=["api=Produce error!=NONE"])]


class Read(Form):
    """A filter as a tree."""

    tree: Annotated[list[Any], about('["all", …], ["any", …], ["not", …], ["is", field, operator, value] or ["word", text]')]


def level(controlled: Controlled) -> Traced:
    """Returns the level of the trace."""
    return Traced(controlled.machine.trace.level)  # type: ignore[arg-type]


def set_level(controlled: Controlled, body: Traced) -> Traced:
    """Set the level of the trace."""
    controlled.machine.trace_at(body.level)
    return level(controlled)


def read_filter(controlled: Readable, query: Text) -> Read:
    """Check a filter, and return it as a tree. If the filter is wrong, 422 names the error."""
    return Read(filters.parsed(query.where).tree())


def events(controlled: Controlled, query: From) -> AsyncIterator[bytes]:
    """Returns the rows of the trace as server-sent events: the rows after the number `after`, then each new row.

    The first event is `run`: `{"run": …, "of": "broker", "lowest": {…}, "columns": {…}, "accepted": {…}}`. `lowest` has the
    lowest version of each API in Kafka 4. Events without a name contain rows. Each row is an array: the first value is the kind
    of row, and `columns` names the other values. The id of an event is the number of its last row. A row `stored` is the short
    form of a `produce` row whose batch was accepted. It names only the rule of the verdict; `accepted` has the reason for each
    such rule. The event `problem` says which broker a proxy cannot reach, or "" if the proxy reaches all brokers. The event
    `missed` has the number of rows that were dropped before they could be sent. After a reset another `run` begins, and rows
    are numbered from 1 again. `/trace.jsonl` has the rows as objects.
    """
    if controlled.readers >= MOST_READERS:
        raise Problem(503, f"{MOST_READERS} clients already read /events; end one of them, or read /trace.jsonl")
    return _events(controlled, query)


async def _events(controlled: Controlled, query: From) -> AsyncIterator[bytes]:
    run, number, idle, problem = "", 0, 0.0, ""
    with closing(controlled) as ended, controlled.reading():
        while not ended.is_set():
            trace = controlled.machine.trace
            if run != controlled.run:
                controlled.keep_frames()
                run = controlled.run
                number = query.after if query.run == run and query.after <= trace.added else 0
                yield event("run", {"run": run, "of": controlled.kind} | ALWAYS)
            if problem != controlled.problem:
                problem = controlled.problem
                yield event("problem", {"problem": problem})
            sent = _sent(controlled, run, number)
            if sent.missed:
                yield event("missed", {"rows": sent.missed})
            if sent.rows:
                number += sent.missed + sent.rows
                idle = 0.0
                yield sent.data
            if sent.rows == MOST:
                await pause(ended, BETWEEN_S)
                continue
            idle += PAUSE_S
            if idle >= SIGN_OF_LIFE_S:
                idle = 0.0
                yield b":\n\n"
            await pause(ended, PAUSE_S)


def _sent(controlled: Controlled, run: str, number: int) -> Sent:
    """Returns the rows after the row `number`. If several readers ask for the rows after the same row, they share one encoded
    message."""
    if controlled.sent is None or not controlled.sent.rows or controlled.sent[:2] != (run, number):
        missed, rows = controlled.machine.trace.after(number, MOST)
        data = b"id: %d\ndata: %s\n\n" % (number + missed + len(rows), encoded(rows))
        controlled.sent = Sent(run, number, missed, len(rows), data)
    return controlled.sent


@contextmanager
def closing(controlled: Readable) -> Iterator[asyncio.Event]:
    """Yields an event that is set when the broker or the proxy stops."""
    ended = asyncio.Event()
    controlled.at_close.append(ended.set)
    try:
        yield ended
    finally:
        controlled.at_close.remove(ended.set)


async def pause(ended: asyncio.Event, seconds: float) -> None:
    """Wait for `seconds` seconds, or until the broker or the proxy stops."""
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        pass


def event(name: str, data: Any) -> bytes:
    """Returns a server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def encoded(rows: Sequence[Any]) -> bytes:
    """Returns rows as JSON."""
    try:
        return msgspec.json.encode(rows)
    except UnicodeEncodeError:  # a name may contain half of a surrogate pair
        return json.dumps(rows).encode()
