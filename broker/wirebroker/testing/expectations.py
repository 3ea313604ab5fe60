"""Compares stored records with expected records.

    kafka.assert_records("orders", [
        {"id": 1, "item": "tea"},                      # the value as JSON
        "plain text", b"bytes", None,                  # the value; None is a tombstone
        subset({"id": 2}),                             # JSON with at least these fields, at any depth
        json_value(5),                                 # JSON that is neither an object nor a list
        record(key="k", value=..., headers={"h": "x"}),  # several parts of the record; `...` stands for anything
        lambda record: record.offset > 7,              # any condition
    ])

In place of a key, a value, a header or any part of JSON you can also write `...`, which accepts everything; a compiled regular
expression, which must be found in the text; or a function, which gets the part and returns whether it is right. Objects with
their own `__eq__` work, too, such as `unittest.mock.ANY`, `pytest.approx` and dirty-equals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import Any, NamedTuple

from wirebroker.testing.operations import Fate, StoredRecord, shown

__tracebackhide__ = True  # pytest shows the caller's line

MOST_CELLS = 250_000
"""To align the expected records with the stored records, at most this many pairs of an expected and a stored record are
compared."""
MOST_REORDERED = 500
"""With more records than this, the message does not say whether only the order of the records is wrong."""
MOST_LINES = 40
"""A message about differences has at most this many lines."""
LONGEST = 200
"""A message shows at most this many characters of a value."""


class Difference(AssertionError):
    """Raised if the stored records are not the expected records."""


class json_value:
    """An expected JSON value. Use `json_value` for strings, numbers, booleans and null. A dict or a list counts as JSON without
    `json_value`."""

    more = False
    """Tells whether the found JSON objects may have fields that the expected objects do not have."""

    def __init__(self, json: Any) -> None:
        self.json = json

    def __eq__(self, other: object) -> bool:
        return next(differences(self, other), None) is None

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_short(self.json)})"


class subset(json_value):
    """An expected JSON object. The found object may have further fields, and so may the objects inside it. But lists must have
    the expected length.
    """

    more = True


@dataclass(frozen=True)
class record:
    """An expected record. Parts that you do not give may have any value. `headers` must name all headers of the record, unless
    it is a `subset(…)`.
    """

    key: Any = ...
    value: Any = ...
    headers: Mapping[str, Any] | subset | EllipsisType = ...
    partition: int | EllipsisType = ...
    timestamp: Any = ...

    def __repr__(self) -> str:
        given = {name: part for name, part in vars(self).items() if part is not ...}
        return f"record({', '.join(f'{name}={_short(part)}' for name, part in given.items())})"


class Part(NamedTuple):
    """One difference between two records: its place in the record, the expected value, and the value found."""

    place: str
    wanted: str
    found: str


NOTHING = "nothing"


# One record


class Found:
    """A stored record. This object parses the record's value as JSON at most once."""

    def __init__(self, stored: StoredRecord) -> None:
        self.stored = stored

    @cached_property
    def values(self) -> list[Any]:
        """The value as bytes and, if possible, as text and as JSON."""
        return _readings(self.stored.value)

    def differences(self, wanted: Any) -> Iterator[Part]:
        """Yields the differences from an expected record, or from an expected value."""
        if isinstance(wanted, record):
            yield from self._of_record(wanted)
        elif _is_condition(wanted):
            if not wanted(self.stored):
                yield Part("", _short(wanted), repr(self.stored))
        else:
            yield from _of_data(wanted, self.stored.value, "", self.values)

    def _of_record(self, wanted: record) -> Iterator[Part]:
        stored = self.stored
        for name in ("partition", "timestamp"):
            yield from differences(getattr(wanted, name), getattr(stored, name), name)
        yield from _of_data(wanted.key, stored.key, "key")
        yield from _of_data(wanted.value, stored.value, "value", self.values)
        headers = dict(stored.headers)
        others: Iterable[str] = ()
        if isinstance(wanted.headers, subset):
            names: Mapping[str, Any] = wanted.headers.json
        elif wanted.headers is ... or not isinstance(wanted.headers, Mapping):
            yield from differences(wanted.headers, headers, "headers")
            return
        else:
            names, others = wanted.headers, headers.keys() - wanted.headers.keys()
        for name, value in names.items():
            if name in headers:
                yield from _of_data(value, headers[name], f"header {name}")
            else:
                yield Part(f"header {name}", _short(value), NOTHING)
        for name in others:
            yield Part(f"header {name}", NOTHING, shown(headers[name]))


def _readings(data: bytes | None) -> list[Any]:
    if data is None:
        return [None]
    raw = bytes(data)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return [raw]
    try:
        return [json.loads(text), text, raw]
    except (ValueError, RecursionError):
        return [text, raw]


def _of_data(wanted: Any, data: bytes | None, place: str, readings: Sequence[Any] | None = None) -> Iterator[Part]:
    """Yields the differences between a key, value or header and its expectation `wanted`."""
    if wanted is ...:
        return
    readings = _readings(data) if readings is None else readings
    if wanted is None or isinstance(wanted, bytes | str):
        if not any(type(each) is type(wanted) and each == wanted for each in readings[-2:]):
            yield Part(place, _short(wanted), shown(data))
    elif isinstance(wanted, dict | list | tuple | json_value):
        if len(readings) < 3:
            yield Part(place, _short(wanted), f"{shown(data)}, which is not JSON")
        else:
            yield from differences(wanted, readings[0], place)
    elif _is_pattern(wanted):
        text = readings[-2] if len(readings) > 1 else None
        yield from differences(wanted, text, place)
    elif _is_condition(wanted):
        if not wanted(data):
            yield Part(place, _short(wanted), shown(data))
    elif isinstance(wanted, bool | int | float):
        kinds = f"bytes, a text, a dict, a list, None, or json_value({wanted!r})"
        raise TypeError(f"an expected key, value or header must be {kinds}, not {wanted!r}")
    elif not any(wanted == each for each in readings):
        yield Part(place, _short(wanted), shown(data))


# JSON


def differences(wanted: Any, found: Any, place: str = "", *, more: bool = False) -> Iterator[Part]:
    """Yields the differences between an expected value and a parsed JSON value. With `more`, the found objects may have
    additional fields.
    """
    if isinstance(wanted, json_value):
        wanted, more = wanted.json, more or wanted.more
    if wanted is ...:
        return
    if _is_pattern(wanted):
        if not isinstance(found, str) or not wanted.search(found):
            yield Part(place, _short(wanted), _short(found))
    elif _is_condition(wanted):
        if not wanted(found):
            yield Part(place, _short(wanted), _short(found))
    elif isinstance(wanted, dict) and isinstance(found, dict):
        yield from _of_objects(wanted, found, place, more=more)
    elif isinstance(wanted, list | tuple) and isinstance(found, list) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{place}[{index}]", more=more)
    elif not _equal(wanted, found):
        yield Part(place, _short(wanted), _short(found))


def _of_objects(wanted: Mapping[str, Any], found: Mapping[str, Any], place: str, *, more: bool) -> Iterator[Part]:
    for name, value in wanted.items():
        within = f"{place}.{name}" if place else str(name)
        if name in found:
            yield from differences(value, found[name], within, more=more)
        else:
            yield Part(within, _short(value), NOTHING)
    for name in found.keys() - wanted.keys() if not more else ():
        yield Part(f"{place}.{name}" if place else name, NOTHING, _short(found[name]))


def _equal(wanted: Any, found: Any) -> bool:
    """Tells whether two JSON values are equal. In JSON, true differs from 1."""
    if isinstance(wanted, int | float) and isinstance(wanted, bool) != isinstance(found, bool):
        return False
    return bool(wanted == found)


def _is_pattern(wanted: Any) -> bool:
    return hasattr(wanted, "search") and hasattr(wanted, "pattern")


def _is_condition(wanted: Any) -> bool:
    return callable(wanted) and not isinstance(wanted, type)


def _short(value: Any) -> str:
    """Returns a value as text on one line."""
    if value is ...:
        text = "anything"
    elif _is_pattern(value):
        text = f"a text with /{value.pattern}/"
    elif _is_condition(value):
        text = f"what {getattr(value, '__name__', repr(value))} accepts".replace("<lambda>", "the lambda")
    else:
        try:
            text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else repr(value)
        except (TypeError, ValueError):
            text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


# All records


FATES: Mapping[Fate, str] = {
    "open": "is in an open transaction",
    "aborted": "was aborted with its transaction",
    "held back": "is committed, but waits for an earlier transaction to end",
}
"""The reasons why a read_committed consumer does not get a record."""
Hidden = Sequence[tuple[StoredRecord, Fate]]


def check(
    expected: Sequence[Any], stored: Sequence[StoredRecord], *, in_order: bool = True, what: str, hidden: Hidden = ()
) -> None:
    """Raises Difference, with a message that begins with `what`, unless exactly the expected records are stored. `hidden` has
    the stored records that a read_committed consumer does not get.
    """
    found = [Found(each) for each in stored]
    fits = _Fits(expected, found)
    pairs = _pairs_in_order(fits) if in_order else _pairs_in_any_order(fits)
    if len(pairs) == len(expected) == len(found):
        return
    lines = list(_lines(expected, found, pairs, list(hidden), in_order=in_order))
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"… and {len(lines) - MOST_LINES} more lines"]
    if in_order and len(expected) == len(found) <= MOST_REORDERED and len(_pairs_in_any_order(fits)) == len(found):
        lines.append("the same records are there in another order; in_order=False accepts any order")
        if len({each.stored.partition for each in found}) > 1:
            lines[-1] += "; records of different partitions have no fixed order"
    summary = f"{what}: {len(expected)} expected, {len(found)} found, {len(pairs)} of them as expected"
    raise Difference("\n".join([summary, *(f"  {line}" for line in lines)]))


class _Fits:
    """Remembers for each pair whether the found record fits the expected record, so that each pair is compared only once."""

    def __init__(self, expected: Sequence[Any], found: Sequence[Found]) -> None:
        self.expected, self.found = expected, found
        self._known: dict[tuple[int, int], bool] = {}

    def __call__(self, i: int, j: int) -> bool:
        if (i, j) not in self._known:
            self._known[i, j] = next(self.found[j].differences(self.expected[i]), None) is None
        return self._known[i, j]


Pairs = dict[int, int]
"""Maps the index of an expected record to the index of the found record that fits this expectation."""


def _pairs_in_order(fits: _Fits) -> Pairs:
    """Returns the largest set of fitting pairs in which both lists keep their order."""
    rows, columns = len(fits.expected), len(fits.found)
    first = 0
    while first < min(rows, columns) and fits(first, first):
        first += 1
    last = 0
    while last < min(rows, columns) - first and fits(rows - 1 - last, columns - 1 - last):
        last += 1
    pairs = {i: i for i in range(first)} | {rows - 1 - i: columns - 1 - i for i in range(last)}
    left, right = range(first, rows - last), range(first, columns - last)
    same = {i: i for i in left if i in right and fits(i, i)}
    longest = _longest(fits, left, right) if len(left) * len(right) <= MOST_CELLS else same
    return pairs | (longest if len(longest) > len(same) else same)


def _longest(fits: _Fits, left: range, right: range) -> Pairs:
    """Returns the longest common subsequence of a part of each list."""
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for a in range(len(left) - 1, -1, -1):
        for b in range(len(right) - 1, -1, -1):
            follows = lengths[a + 1][b + 1] + 1 if fits(left[a], right[b]) else 0
            lengths[a][b] = max(follows, lengths[a + 1][b], lengths[a][b + 1])
    pairs: Pairs = {}
    a = b = 0
    while a < len(left) and b < len(right):
        if fits(left[a], right[b]) and lengths[a][b] == lengths[a + 1][b + 1] + 1:
            pairs[left[a]] = right[b]
            a, b = a + 1, b + 1
        elif lengths[a + 1][b] >= lengths[a][b + 1]:
            a += 1
        else:
            b += 1
    return pairs


def _pairs_in_any_order(fits: _Fits) -> Pairs:
    """Returns as many fitting pairs as possible, in any order. An expected record may give up its found record to another
    expected record, and get a different found record instead.
    """
    taken: dict[int, int] = {}
    for i in range(len(fits.expected)):
        _take(fits, i, taken)
    return {i: j for j, i in taken.items()}


def _take(fits: _Fits, first: int, taken: dict[int, int]) -> None:
    """Find a stored record for the expected record `first`. If all fitting stored records are taken, other expected records may
    get different stored records (Kuhn's algorithm).
    """
    came_from: dict[int, tuple[int, int | None]] = {}
    waiting: list[tuple[int, int | None]] = [(first, None)]
    while waiting:
        i, before = waiting.pop()
        for j in _candidates(i, len(fits.found)):
            if j in came_from or not fits(i, j):
                continue
            came_from[j] = i, before
            if j in taken:
                waiting.append((taken[j], j))
                continue
            end: int | None = j
            while end is not None:
                taken[end], end = came_from[end]
            return


def _candidates(i: int, count: int) -> Iterable[int]:
    """Yields the indexes of all found records. Index `i` comes first, because most lists are nearly in order."""
    if i < count:
        yield i
    yield from (j for j in range(count) if j != i)


def _lines(
    expected: Sequence[Any], found: Sequence[Found], pairs: Pairs, hidden: list[tuple[StoredRecord, Fate]], *, in_order: bool
) -> Iterator[str]:
    """Yields a line for each record that is missing, not committed, unexpected, or different from the expected record at the
    same place.
    """
    alone = [j for j in range(len(found)) if j not in set(pairs.values())]
    for i, wanted in enumerate(expected):
        if i in pairs:
            if in_order:
                while alone and alone[0] < pairs[i]:
                    yield _unexpected(found[alone.pop(0)])
            continue
        if (stored := _of_hidden(wanted, hidden)) is not None:
            yield f"{i}: not committed: {_short(wanted)} {FATES[stored[1]]}: {stored[0]!r}"
            continue
        j = _counterpart(i, alone, pairs, len(found)) if in_order else None
        if j is None:
            yield f"{i}: missing: {_short(wanted)}"
            continue
        alone.remove(j)
        yield f"{i}: expected {_short(wanted)}"
        yield f"{' ' * len(str(i))}  is not  {found[j].stored!r}"
        parts = [each for each in found[j].differences(wanted) if each.place]
        yield from (f"{' ' * len(str(i))}  {place}: expected {one}, found {other}" for place, one, other in parts)
    yield from (_unexpected(found[j]) for j in alone)


def _of_hidden(wanted: Any, hidden: list[tuple[StoredRecord, Fate]]) -> tuple[StoredRecord, Fate] | None:
    """Removes from the list the first record that fits `wanted`, and returns it. Returns None if no record fits."""
    for index, (stored, _) in enumerate(hidden):
        if next(Found(stored).differences(wanted), None) is None:
            return hidden.pop(index)
    return None


def _counterpart(i: int, alone: Sequence[int], pairs: Pairs, count: int) -> int | None:
    """The expected record `i` is between two neighbouring pairs. Returns the index of an unexpected record between the same
    pairs. Returns None if there is no such record."""
    after = max((pairs[each] for each in pairs if each < i), default=-1)
    before = min((pairs[each] for each in pairs if each > i), default=count)
    return next((j for j in alone if after < j < before), None)


def _unexpected(found: Found) -> str:
    return f"unexpected: {found.stored!r}"
