"""The dialogue that follows a fault.

Runs that have the same dialogue after their fault form a class. Second faults are tried in one run of each class.

A dialogue is the sequence of each client's requests and responses. Requests that change something are compared in their order.
Other requests are compared only as a set, because timers decide how often a client reads and fetches metadata. Equal neighbours
count once. A dialogue leaves out times, offsets, partitions and the request that the fault matched.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import msgspec

from wirebroker.requests.errors import READING
from wirebroker.trace.rows import FaultRow, ProduceRow, ReplyRow, RequestRow, Row
from wirebroker.trace.selection import ExchangeKey, exchange_of
from wirebroker_tools.campaign.cases import Case, Result
from wirebroker_tools.campaign.misfortunes import (
    TRANSACTION,
    Asked,
    Choice,
    Place,
    case_at,
    faults_at,
    is_slow,
    matched,
    places,
)

TIMED = READING | {"Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "ShareFetch"}
"""APIs whose number of requests depends on a client's timers."""
TAKES_EFFECT = ("lose_ack", "cut", "crash_after_write")
"""Faults after which the request has taken effect, although the client has no response."""


class Next(msgspec.Struct, frozen=True):
    """A class of requests that came after a fault.

    The first of these requests is the nth request of this class in the whole run.
    """

    api: str
    client_id: str | None
    topic: str | None
    nth: int
    asked: Asked

    @property
    def place(self) -> Place:
        """The class."""
        return Place(self.api, self.client_id, self.topic)


@dataclass(frozen=True, slots=True)
class Later:
    """The dialogue after a request, and the classes of the requests in this dialogue."""

    digest: str
    """equal dialogues have equal digests"""
    next: list[Next] = field(default_factory=list)


def after_fault(rows: Sequence[Row], *, by_client: bool = True) -> Later | None:
    """Returns the dialogue after the first fault of a run, or None if no fault matched a request."""
    at, fault = next(((at, row) for at, row in enumerate(rows) if isinstance(row, FaultRow)), (0, None))
    if fault is None:
        return None
    later, matched = rows[at + 1 :], exchange_of(fault)
    counts = Counter(place for row in rows[:at] for place in _places_of(row, by_client))
    asked = places(later, by_client=by_client)
    found: dict[Place, Next] = {}
    for row in later:
        for place in _places_of(row, by_client):
            if place not in found:
                facts = asked.get(place) or [Asked(row.version)]  # type: ignore[attr-defined]
                facts[0].fetched.clear()
                found[place] = Next(place.api, place.client_id, place.topic, counts[place] + 1, facts[0])
    return Later(_digest(later, matched, by_client), list(found.values()))


def after_request(rows: Sequence[Row], place: Place, nth: int, *, by_client: bool = True) -> str:
    """For a run without faults, returns the digest of the dialogue after the nth request of a class, or "" if there is no such
    request.
    """
    count = 0
    for at, row in enumerate(rows):
        count += sum(each == place for each in _places_of(row, by_client))
        if count >= nth and isinstance(row, RequestRow):
            return _digest(rows[at + 1 :], exchange_of(row), by_client)
    return ""


def _places_of(row: Row, by_client: bool) -> Iterator[Place]:
    """Returns the classes to which a request belongs, as fault rules count them.

    A Produce belongs to one class for each of its batches.
    """
    if not isinstance(row, RequestRow):
        return
    client_id = row.client_id if by_client else None
    if row.api != "Produce":
        yield Place(row.api, client_id, None)
        return
    for name in row.about:
        if not name.startswith(TRANSACTION):
            yield Place("Produce", client_id, name.rpartition("-")[0])


def _digest(rows: Sequence[Row], matched: ExchangeKey, by_client: bool) -> str:
    answered = {exchange_of(row) for row in rows if isinstance(row, ReplyRow)}
    orders: dict[str, list[Any]] = {}
    reads: set[Any] = set()
    for row in rows:
        if not isinstance(row, RequestRow | ReplyRow | ProduceRow) or exchange_of(row) == matched:
            continue
        client = row.client_id or "" if by_client else ""
        if isinstance(row, ProduceRow):
            said: Any = ("Produce", row.topic, row.verdict, row.rule, row.error)
        elif isinstance(row, ReplyRow):
            said = row.api, *row.errors
        elif exchange_of(row) in answered:
            continue
        else:
            said = row.api, "?"
        if said[0] in TIMED:
            reads.add((client, said))
        elif (order := orders.setdefault(client, []))[-1:] != [said] and said != ("Produce",):
            order.append(said)
    whole = sorted(orders.items()), sorted(reads)
    return hashlib.blake2b(repr(whole).encode(), digest_size=6).hexdigest()


# Second faults


def pairs(
    found: Mapping[Place, Sequence[Asked]], results: Sequence[Result], choice: Choice, plain: Callable[[Place, int], str]
) -> list[Case]:  # fmt: skip
    """Returns the cases with two faults, the most promising cases first.

    Runs that have the same dialogue after their fault are one class. In each class, second faults are added to the first run
    that the application survived. `plain` returns the dialogue after a request in the run without faults. If this dialogue is
    the same as the dialogue after the fault, the run gets no second fault. After the first fault come requests of several
    classes. For each class there is a case whose second fault matches the first of these requests. Classes of retries come
    before other classes, and requests that change something before requests that read. If several faults led to the same
    dialogue, only one of these faults is tried as a second fault. A fault that broke the application by itself is never tried
    as a second fault.
    """
    results = [each for each in results if not each.get("second")]
    broke = {_alike(each["fault"]) for each in results if each["outcomes"] not in (["as_before"], ["failed"])}
    known = _classes(results)
    queues = [list(_seconds(first, found, choice, broke, known)) for first in sorted(_firsts(results, plain), key=is_slow)]
    return [case for turn in zip_longest(*queues) for case in turn if case is not None]


def _firsts(results: Iterable[Result], plain: Callable[[Place, int], str]) -> Iterator[Result]:
    seen: set[str] = set()
    for each in results:
        if each["outcomes"] != ["as_before"] or not each["fired"] or not each.get("dialogue") or each["dialogue"] in seen:
            continue
        if each["dialogue"] != plain(matched(each), each["nth"]):
            seen.add(each["dialogue"])
            yield each


def _classes(results: Iterable[Result]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Returns a tuple for each single fault. Two faults have equal tuples if they affected the same request, and if the same
    dialogue and the same outcome followed.

    The keys of the result are the faults without the numbers of their requests.
    """
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for each in results:
        if each["fired"] and each.get("dialogue"):
            fault = each["fault"]
            effect = fault["kind"] in TAKES_EFFECT or bool(fault.get("after"))
            found.setdefault(_alike(fault), (matched(each), each["dialogue"], effect, *each["outcomes"]))
    return found


def _seconds(
    first: Result, found: Mapping[Place, Sequence[Asked]], choice: Choice, broke: set[tuple[Any, ...]],
    known: Mapping[tuple[Any, ...], tuple[Any, ...]],
) -> Iterator[Case]:  # fmt: skip
    """Returns the cases that add a second fault to this run."""
    again = matched(first)
    coming = [msgspec.convert(each, Next) for each in first["later"]]
    tried: set[tuple[Any, ...]] = set()
    for each in sorted(coming, key=lambda each: (each.place != again, each.api in TIMED)):
        if choice.apis is not None and each.api not in choice.apis:
            continue
        plain = found.get(each.place)
        asked = plain[min(each.nth, len(plain)) - 1] if plain else each.asked
        for fault in faults_at(each.place, asked):
            case = case_at(each.place, each.nth, fault)
            alike = _alike(case["fault"])
            if not choice.has(fault, each.api, asked.version) or is_slow(case) or "second" in case:
                continue
            if alike in broke or known.get(alike, alike) in tried:
                continue
            tried.add(known.get(alike, alike))
            words = {word: first[word] for word in ("api", "nth", "fault")}
            yield words | {"id": f"{first['id']}+{case['id']}", "second": case["fault"]}


def _alike(fault: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Returns a fault without the number of its request."""
    return tuple(sorted((word, value) for word, value in fault.items() if word != "nth"))
