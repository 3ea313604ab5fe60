"""Runs of records of one shape, for a walk in Python.

Producers mostly send records of one shape, with the same lengths. A shape is compiled into a pattern of bytes that
a whole run of such records must match, which the regular expression engine decides in half a microsecond. Records that match no
pattern are walked; a shape that repeats gets a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

from kafkawire.varints import read_varint, write_varint

Shape = tuple[int, int, int, int, int]
"""size, size of the timestamp delta, size of the offset delta, key length, value length"""

_ODD = bytes(range(1, 256, 2))
_SEEN_BEFORE_COMPILED = 3
"""The number of walked records of a shape after which a pattern is compiled; compiling costs as much as walking 200
records."""
_MOST_AT_ONCE = 1 << 16
"""The most records of one match."""
_ONE_BYTE = bytes(number << 1 for number in range(1 << 6))
"""The varints of the numbers that take one byte, by number."""
_LOW_OF_TWO = bytes(number << 1 & 127 | 128 for number in range(1 << 13))
"""The first bytes of the numbers' varints in two bytes, by number."""
_HIGH_OF_TWO = bytes(number >> 6 for number in range(1 << 13))
_MOST_PATTERNS = 256
_MOST_SHAPES = 4096


class Walked(NamedTuple):
    """The result of a walk: the largest and smallest timestamp delta, in ms, and whether some record has no key."""

    max_delta: int
    min_delta: int
    null_key: bool


class _Pattern(NamedTuple):
    """A shape's pattern. `size` is a record's length. `delta_at` and `number_at` say where its timestamp delta and its offset
    delta are, relative to its start."""

    match: re.Pattern[bytes]
    size: int
    delta_at: int
    delta_size: int
    number_at: int
    number_size: int
    null_key: bool
    still: Walked
    """The result of `latest_run` for records of this shape alone if all timestamps are the base timestamp."""


class _Latest(NamedTuple):
    """The walk of the latest body: `head_records` records of the shape `head`, if any, and all others by `pattern`.

    Records of one length need two shapes if there are more than 64 of them: a larger offset delta takes a second byte.
    """

    fullmatch: Callable[..., re.Match[bytes] | None]
    size: int
    pattern: _Pattern
    head: _Pattern | None
    head_records: int


_patterns: dict[Shape, _Pattern] = {}
_seen: dict[Shape, int] = {}
_latest: list[_Latest | None] = [None]
"""The pattern that matched last; its `fullmatch` and `size` are at hand."""
_new: Any = tuple.__new__
_noting = Lock()
"""Several threads may walk at the same time."""


def latest_run(body: memoryview, count: int) -> Walked | None:
    """Walks all records if they have the shapes of the body that was walked last; otherwise returns None."""
    latest = _latest[0]
    if latest is None:
        return None
    fullmatch, size, pattern, head, head_records = latest
    end = len(body)
    if head is not None:
        start = head_records * head.size
        if end - start != (count - head_records) * size or start >= end or count > _MOST_AT_ONCE:
            return None
        if not fullmatch(body, start) or not head.match.fullmatch(body, 0, start):
            return None
        low, high = _deltas(body, start, end, pattern)
        first_low, first_high = _deltas(body, 0, start, head)
        low, high = min(first_low, low), max(first_high, high)
        return _new(Walked, (high, low, pattern.null_key or head.null_key))  # type: ignore[no-any-return]
    if end != count * size or count > _MOST_AT_ONCE or not fullmatch(body):
        return None
    if pattern.delta_size == 1 and body[pattern.delta_at :: size].tobytes().count(0) == count:
        return pattern.still
    low, high = _deltas(body, 0, end, pattern)
    return Walked(high, low, pattern.null_key)


def find_run(
    shape: Shape, body: memoryview, pos: int, first: int, until: int, numbers: bool
) -> tuple[int, int, int, int, bool] | None:
    """Walks a run of at least two records of this shape, from `pos` on, where record `first` begins; otherwise returns None.

    The run ends before record `until`. Returns the position where the run ends, its number of records, their smallest and
    largest timestamp delta, and, if `numbers` asks for it, whether their offset deltas are `first`, `first` + 1 …
    """
    pattern = _patterns.get(shape)
    if pattern is None:
        return None
    size = pattern.size
    matched = pattern.match.match(body, pos, pos + size * _MOST_AT_ONCE)
    if matched is None or matched.end() <= pos + size:
        return None
    records = min((matched.end() - pos) // size, until - first)
    stop = pos + records * size
    before = _latest[0].pattern if first and _latest[0] is not None else None
    head = before if before is not None and first * before.size == pos else None
    _latest[0] = _Latest(pattern.match.fullmatch, size, pattern, head, first)
    low, high = _deltas(body, pos, stop, pattern)
    return stop, records, low, high, not numbers or _numbered(body, pos, stop, pattern, first)


def note(shape: Shape) -> None:
    """Count a walked shape, and compile it when it has occurred often enough. Both tables are bounded."""
    with _noting:
        seen = _seen.get(shape, 0) + 1
        if seen < _SEEN_BEFORE_COMPILED:
            if len(_seen) >= _MOST_SHAPES:
                _seen.clear()
            _seen[shape] = seen
            return
        _seen.pop(shape, None)
        if len(_patterns) >= _MOST_PATTERNS:
            del _patterns[next(iter(_patterns))]
        _patterns[shape] = _compile(shape)


def _compile(shape: Shape) -> _Pattern:
    size, delta_size, offset_size, key, value = shape
    inside = 1 + delta_size + offset_size + len(_varint(key)) + max(key, 0) + len(_varint(value)) + max(value, 0) + 1
    one = b"".join(
        (
            _literal(inside),
            b".",  # attributes; no bit of them is defined
            _any_varint(delta_size),
            _any_varint(offset_size),
            _literal(key),
            b".{%d}" % key if key > 0 else b"",
            _literal(value),
            b".{%d}" % value if value > 0 else b"",
            rb"\x00",  # no headers
        )
    )
    # Greedy and not possessive: possessive repeats end in the middle of a record in CPython before 3.11.5.
    match = re.compile(b"(?:" + one + b")+", re.DOTALL)
    at = size - inside + 1
    return _Pattern(match, size, at, delta_size, at + delta_size, offset_size, key < 0, Walked(0, 0, key < 0))


def _varint(number: int) -> bytes:
    out = bytearray()
    write_varint(out, number)
    return bytes(out)


def _literal(number: int) -> bytes:
    return re.escape(_varint(number))


def _any_varint(size: int) -> bytes:
    return rb"[\x80-\xff]" * (size - 1) + rb"[\x00-\x7f]"


def _deltas(body: memoryview, start: int, stop: int, pattern: _Pattern) -> tuple[int, int]:
    """The smallest and largest timestamp delta of a run that has matched."""
    at = start + pattern.delta_at
    if pattern.delta_size == 1:
        column = body[at : stop : pattern.size].tobytes()
        if column.count(column[0]) == len(column):
            delta = (column[0] >> 1) ^ -(column[0] & 1)
            return delta, delta
        if len(column.translate(None, _ODD)) == len(column):  # none of them negative
            return min(column) >> 1, max(column) >> 1
    deltas = [read_varint(body, position)[0] for position in range(at, stop, pattern.size)]
    return min(deltas), max(deltas)


def _numbered(body: memoryview, start: int, stop: int, pattern: _Pattern, first: int) -> bool:
    """Tells whether the offset deltas of a run that has matched are `first`, `first` + 1 …"""
    at = start + pattern.number_at
    until = first + (stop - start) // pattern.size
    if pattern.number_size == 1:
        return body[at : stop : pattern.size].tobytes() == _ONE_BYTE[first:until]
    if pattern.number_size == 2:
        low, high = body[at : stop : pattern.size].tobytes(), body[at + 1 : stop : pattern.size].tobytes()
        return low == _LOW_OF_TWO[first:until] and high == _HIGH_OF_TWO[first:until]
    positions = range(at, stop, pattern.size)
    return all(read_varint(body, position)[0] == number for number, position in enumerate(positions, first))
