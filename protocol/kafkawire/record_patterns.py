"""Runs of records of one shape, for a walk in Python.

Producers mostly send records of one shape, with the same lengths. A shape is compiled into a pattern of bytes that
a whole run of such records must match, which the regular expression engine decides in half a microsecond. Records that match no
pattern are walked; a shape that repeats gets a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from kafkawire.varints import read_varint, write_varint

Shape = tuple[int, int, int, int, int]
"""size, size of the timestamp delta, size of the offset delta, key length, value length"""

_ODD = bytes(range(1, 256, 2))
_SEEN_BEFORE_COMPILED = 3
"""The number of walked records of a shape after which a pattern is compiled; compiling costs as much as walking 200
records."""
_MOST_AT_ONCE = 1 << 16
"""The most records of one match."""
_MOST_PATTERNS = 256
_MOST_SHAPES = 4096


class _Pattern(NamedTuple):
    """A shape's pattern. `delta_at` is where a record's timestamp delta is, relative to its start, `size` its length."""

    match: re.Pattern[bytes]
    size: int
    delta_at: int
    delta_size: int
    null_key: bool
    still: tuple[int, int, bool]
    """The result of `latest_run` if all timestamps are the base timestamp."""


_Latest = tuple[Callable[[memoryview], "re.Match[bytes] | None"], int, _Pattern]

_patterns: dict[Shape, _Pattern] = {}
_seen: dict[Shape, int] = {}
_latest: list[_Latest | None] = [None]
"""The pattern that matched last; its `fullmatch` and `size` are at hand."""
_noting = Lock()
"""Several threads may walk at the same time."""


def latest_run(body: memoryview, count: int) -> tuple[int, int, bool] | None:
    """Returns the smallest and largest timestamp delta, and whether keys are missing, if all records have the shape that
    matched last."""
    latest = _latest[0]
    if latest is None:
        return None
    fullmatch, size, pattern = latest
    end = len(body)
    if end != count * size or count > _MOST_AT_ONCE or not fullmatch(body):
        return None
    if pattern.delta_size == 1 and body[pattern.delta_at :: size].tobytes().count(0) == count:
        return pattern.still
    low, high = _deltas(body, 0, end, pattern)
    return low, high, pattern.null_key


def find_run(shape: Shape, body: memoryview, pos: int, most: int) -> tuple[int, int, int] | None:
    """Returns the end of a run of this shape from `pos` on, its smallest and its largest delta, or None without at least two
    records."""
    pattern = _patterns.get(shape)
    if pattern is None:
        return None
    size = pattern.size
    matched = pattern.match.match(body, pos, pos + size * _MOST_AT_ONCE)
    if matched is None or matched.end() <= pos + size:
        return None
    stop = min(matched.end(), pos + most * size)
    _latest[0] = (pattern.match.fullmatch, size, pattern)
    low, high = _deltas(body, pos, stop, pattern)
    return stop, low, high


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
    return _Pattern(match, size, size - inside + 1, delta_size, key < 0, (0, 0, key < 0))


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
