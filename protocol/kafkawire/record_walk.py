"""Walking over a batch's records without making objects of them: are they well formed, and how late is the latest.

Producers mostly send records of one shape: the same lengths, again and again. A shape is compiled into a pattern of
bytes that a whole run of such records must match, which the regular expression engine decides in half a microsecond
where a walk in Python takes one for each record. Records that match no pattern are walked; a shape that repeats gets a
pattern.

A large body is matched and copied in pieces, because a match and a copy keep all other threads waiting.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from kafkawire.errors import ProtocolError
from kafkawire.varints import read_varint, write_varint

_ODD = bytes(range(1, 256, 2))
_SEEN_BEFORE_COMPILED = 3
"""How often a shape is walked before it is worth a pattern; compiling one costs as much as walking 200 records."""
_ONE_BY_ONE = 32
"""How many records are walked one by one before the shape of the next one is looked up."""
_UNUSUAL = 0x4001
"""Bits of an undecoded varint's first two bytes: bit 14 says that a third byte follows, bit 0 that the number is negative."""
_NULL = 1
"""The varint of −1, which as a length stands for null."""
_MOST_AT_ONCE = 1 << 16
"""Records that one match may run over."""
_WINDOW = 1 << 20
"""Bytes of the body that are copied at once, to be walked one by one."""
_MARGIN = 1 << 12
"""The next copy is made when less than this remains of the last one."""
_LONGEST_LENGTHS = 16
"""Bytes that `_walk_mixed` may look at before it compares a record's end with that of the copy."""
_MOST_PATTERNS = 256
_MOST_SHAPES = 4096


class Walked(NamedTuple):
    """The result of a walk: the largest and smallest timestamp delta, in ms, and whether some record has no key."""

    max_delta: int
    min_delta: int
    null_key: bool


class _Pattern(NamedTuple):
    """A shape's pattern. `delta_at` is where a record's timestamp delta is, relative to its start, `size` its length."""

    match: re.Pattern[bytes]
    size: int
    delta_at: int
    delta_size: int
    null_key: bool
    still: Walked
    """The result if all timestamps are the base timestamp."""


_Shape = tuple[int, int, int, int, int]
"""size, size of the timestamp delta, size of the offset delta, key length, value length"""
_Latest = tuple[Callable[[memoryview], "re.Match[bytes] | None"], int, _Pattern]

_patterns: dict[_Shape, _Pattern] = {}
_seen: dict[_Shape, int] = {}
_latest: list[_Latest | None] = [None]
"""The pattern that matched last; its `fullmatch` and `size` are at hand."""
_noting = Lock()
"""Several threads may walk at the same time."""


def walk_records(body: memoryview, count: int) -> Walked:
    """Walk `count` records that must fill `body` exactly. Raises ProtocolError (Kafka's DefaultRecord.readFrom)."""
    end = len(body)
    latest = _latest[0]
    if latest is not None:
        fullmatch, size, pattern = latest
        if end == count * size and count <= _MOST_AT_ONCE and fullmatch(body):
            if pattern.delta_size == 1 and body[pattern.delta_at :: size].tobytes().count(0) == count:
                return pattern.still
            low, high = _deltas(body, 0, end, pattern)
            return Walked(high, low, pattern.null_key)
    try:
        return _walk(body, count, end)
    except IndexError as damage:
        raise ProtocolError("a record runs past the end of its batch") from damage


def _walk(body: memoryview, count: int, end: int) -> Walked:
    """In turns: as many records of one shape as there are, by its pattern, and some of different shapes one by one."""
    largest, smallest, null_key = -(2**63), 2**63 - 1, False
    raw, base = b"", 0
    pos, left = 0, count
    while left > 0:
        shape, stop, low, keyless = _parse(body, pos, end)
        high, walked = low, 1
        pattern = _patterns.get(shape) if shape is not None else None
        matched = pattern.match.match(body, pos, pos + pattern.size * _MOST_AT_ONCE) if pattern is not None else None
        if pattern is not None and matched is not None and matched.end() > stop:
            stop = min(matched.end(), pos + left * pattern.size)
            low, high = _deltas(body, pos, stop, pattern)
            walked = (stop - pos) // pattern.size
            _latest[0] = (pattern.match.fullmatch, pattern.size, pattern)
        elif left > 1:
            if not raw or (base + len(raw) < end and stop + _MARGIN > base + len(raw)):
                raw, base = bytes(body[stop : stop + _WINDOW]), stop
            size = stop - pos
            walked = min(left, _ONE_BY_ONE)
            others = _walk_mixed(raw, base, stop, body, walked - 1, (low, high, keyless))
            if shape is not None and others[0] - stop == size * (walked - 1):
                _note(shape)
            stop, low, high, keyless = others
        left -= walked
        if high > largest:
            largest = high
        if low < smallest:
            smallest = low
        null_key = null_key or keyless
        pos = stop
    if pos != end:
        raise ProtocolError(f"{end - pos} bytes are left after the last record")
    return Walked(largest, smallest, null_key)


def _walk_mixed(  # noqa: C901, PLR0915 - one loop without calls: it runs for every record
    raw: bytes, base: int, start: int, body: memoryview, count: int, so_far: tuple[int, int, bool]
) -> tuple[int, int, int, bool]:
    """Walk `count` records of any shape: where they stop, the smallest and largest delta, if some record has no key.

    `raw` is a copy of the body from `base` on. A record whose lengths take at most two bytes each, which has no headers
    and lies in the copy is dealt with here; any other, and any that is damaged, by `_parse`.
    """
    low, high, null_key = so_far
    pos, end = start - base, len(raw)
    inside = end if base + end == len(body) else end - _LONGEST_LENGTHS
    for _ in range(count):
        start = pos
        if pos > inside:
            _, pos, delta, keyless = _parse(body, base + start, len(body))
            pos -= base
            low, high, null_key = min(low, delta), max(high, delta), null_key or keyless
            continue
        size = raw[pos]
        if size > 127:
            size = size & 127 | raw[pos + 1] << 7
            pos += 1
        if not size & _UNUSUAL:
            stop = pos + 1 + (size >> 1)
            delta = raw[pos + 2]
            pos += 3
            if delta > 127:
                delta = delta & 127 | raw[pos] << 7
                pos += 1
            pos += 2 if raw[pos] > 127 else 1  # the offset delta
            key = raw[pos]
            pos += 1
            if key > 127:
                key = key & 127 | raw[pos] << 7
                pos += 1
            if key != _NULL:
                pos += key >> 1
            if pos < stop <= end and (key == _NULL or not key & _UNUSUAL):
                value = raw[pos]
                pos += 1
                if value > 127:
                    value = value & 127 | raw[pos] << 7
                    pos += 1
                if value != _NULL:
                    pos += value >> 1
                usual = (value == _NULL or not value & _UNUSUAL) and not delta & _UNUSUAL
                if usual and pos + 1 == stop and not raw[pos]:
                    delta >>= 1
                    if delta > high:
                        high = delta
                    if delta < low:
                        low = delta
                    if key == _NULL:
                        null_key = True
                    pos = stop
                    continue
        _, pos, delta, keyless = _parse(body, base + start, len(body))
        pos -= base
        low, high, null_key = min(low, delta), max(high, delta), null_key or keyless
    return base + pos, low, high, null_key


def _parse(body: memoryview, start: int, end: int) -> tuple[_Shape | None, int, int, bool]:
    """One record in full: its shape (None if it has headers), where it stops, its timestamp delta, if it has no key."""
    size, at = read_varint(body, start)
    stop = at + size
    if size < 0 or stop > end:
        raise ProtocolError(f"a record of {size} bytes where {end - at} are left")
    delta, offset_at = read_varint(body, at + 1)
    _, key_at = read_varint(body, offset_at)
    key, pos = read_varint(body, key_at)
    if key > 0:
        pos += key
    value, pos = read_varint(body, pos)
    if value > 0:
        pos += value
    headers, pos = read_varint(body, pos)
    if headers:
        pos = _skip_headers(body, pos, stop, headers)
    if pos != stop:
        raise ProtocolError(f"a record of {size} bytes holds {pos - at}")
    shape = None if headers else (stop - start, offset_at - at - 1, key_at - offset_at, key, value)
    return shape, stop, delta, key < 0


def _skip_headers(body: memoryview, pos: int, stop: int, headers: int) -> int:
    if headers < 0:
        raise ProtocolError(f"a record announces {headers} headers")
    for _ in range(headers):
        name, pos = read_varint(body, pos)
        if name < 0:
            raise ProtocolError("a record header without a name")
        value, pos = read_varint(body, pos + name)
        pos += max(value, 0)
        if pos > stop:
            raise ProtocolError("a record header runs past the end of its record")
    return pos


def _note(shape: _Shape) -> None:
    """Count a shape that was walked, and compile it when it has come often enough. Both tables are bounded."""
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


def _compile(shape: _Shape) -> _Pattern:
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
    return _Pattern(match, size, size - inside + 1, delta_size, key < 0, Walked(0, 0, key < 0))


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


def offset_deltas_in_order(body: memoryview, count: int) -> bool:
    """Whether the records are numbered 0, 1, 2 …; the body has been walked before."""
    pos = 0
    for expected in range(count):
        size, at = read_varint(body, pos)
        _, at_offset = read_varint(body, at + 1)
        if read_varint(body, at_offset)[0] != expected:
            return False
        pos = at + size
    return True
