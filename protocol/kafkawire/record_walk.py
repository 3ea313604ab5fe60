"""Walking over a batch's records without making objects of them: are they well formed, and how late is the latest.

Producers mostly send records of one shape. So the first record is parsed in full, and the bytes that hold its lengths
are compared, column by column, with the same bytes of the records after it; as far as they agree, those have the same
structure and need no walk of their own. What differs is walked record by record.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.errors import ProtocolError
from kafkawire.primitives import Buffer
from kafkawire.varints import read_varint

_EVEN = bytes(range(0, 256, 2))
_WORTHWHILE = 8
"""Records from which on comparing columns is cheaper than walking."""


class Walked(NamedTuple):
    """What a walk found: the largest and smallest timestamp delta, in ms, and whether some record has no key."""

    max_delta: int
    min_delta: int
    null_key: bool


class _Shape(NamedTuple):
    """One record's structure: where its lengths are, relative to its start. `stop` is where the next record begins."""

    stop: int
    delta: int
    delta_at: int
    delta_size: int
    offset_at: int
    offset_size: int
    fixed: tuple[int, ...]
    null_key: bool
    plain: bool


def walk_records(body: memoryview, count: int) -> Walked:
    """Walk `count` records that must fill `body` exactly. Raises ProtocolError (Kafka's DefaultRecord.readFrom)."""
    end = len(body)
    pos, left = 0, count
    largest, smallest, null_key = -(2**63), 2**63 - 1, False
    alike = True
    try:
        while left:
            shape = _parse(body, pos, end)
            run = 1
            if alike and left >= _WORTHWHILE and shape.plain:
                run, low, high = _run(body, pos, min(left, (end - pos) // (shape.stop - pos)), shape)
                alike = run >= _WORTHWHILE
            else:
                low = high = shape.delta
            largest, smallest = max(largest, high), min(smallest, low)
            null_key = null_key or shape.null_key
            pos += run * (shape.stop - pos)
            left -= run
    except IndexError as damage:
        raise ProtocolError("a record runs past the end of its batch") from damage
    if pos != end:
        raise ProtocolError(f"{end - pos} bytes are left after the last record")
    return Walked(largest, smallest, null_key)


def _parse(body: memoryview, start: int, end: int) -> _Shape:
    """Parse one record's structure in full. Raises ProtocolError, or IndexError at the end of `body`."""
    size, at = read_varint(body, start)
    stop = at + size
    if size < 0 or stop > end:
        raise ProtocolError(f"a record of {size} bytes where {end - at} are left")
    fixed = list(range(at - start))
    delta_at = at + 1
    delta, offset_at = read_varint(body, delta_at)
    _, key_at = read_varint(body, offset_at)
    key_size, pos = read_varint(body, key_at)
    fixed += range(key_at - start, pos - start)
    pos += max(key_size, 0)
    value_at = pos
    value_size, pos = read_varint(body, value_at)
    fixed += range(value_at - start, pos - start)
    pos += max(value_size, 0)
    headers_at = pos
    headers, pos = read_varint(body, headers_at)
    fixed += range(headers_at - start, pos - start)
    if headers < 0:
        raise ProtocolError(f"a record announces {headers} headers")
    for _ in range(headers):
        pos = _skip_header(body, pos, stop)
    if pos != stop:
        raise ProtocolError(f"a record of {size} bytes holds {pos - at}")
    return _Shape(
        stop, delta, delta_at - start, offset_at - delta_at, offset_at - start, key_at - offset_at, tuple(fixed),
        key_size < 0, headers == 0,
    )  # fmt: skip


def _skip_header(body: memoryview, pos: int, stop: int) -> int:
    name_size, pos = read_varint(body, pos)
    if name_size < 0:
        raise ProtocolError("a record header without a name")
    value_size, pos = read_varint(body, pos + name_size)
    pos += max(value_size, 0)
    if pos > stop:
        raise ProtocolError("a record header runs past the end of its record")
    return pos


def _run(body: memoryview, start: int, most: int, shape: _Shape) -> tuple[int, int, int]:
    """How many records from `start` on have this shape, and their smallest and largest timestamp delta."""
    size = shape.stop - start
    run = most
    for column in shape.fixed:
        found = bytes(body[start + column : start + run * size : size])
        first = found[:1]
        if found.count(first) != run:
            run = len(found) - len(found.lstrip(first))
    for at, width in ((shape.offset_at, shape.offset_size), (shape.delta_at, shape.delta_size)):
        for k in range(width):
            column_bytes = bytes(body[start + at + k : start + run * size : size])
            wanted = k < width - 1  # all bytes of a varint but its last say that more follow
            if (min(column_bytes) >= 0x80) != wanted or (max(column_bytes) >= 0x80) != wanted:
                run = _agreeing(column_bytes, wanted)
    low, high = _deltas(body, start, run, size, shape)
    return run, low, high


def _agreeing(column: bytes, continued: bool) -> int:
    """How many bytes from the first on are as continued as wanted; the first always is."""
    for i, byte in enumerate(column):
        if (byte >= 0x80) != continued:
            return i
    return len(column)


def _deltas(body: memoryview, start: int, run: int, size: int, shape: _Shape) -> tuple[int, int]:
    if shape.delta_size == 1:
        column = bytes(body[start + shape.delta_at : start + run * size : size])
        if not column.translate(None, _EVEN):  # no negative one
            return min(column) >> 1, max(column) >> 1
    deltas = [read_varint(body, start + shape.delta_at + i * size)[0] for i in range(run)]
    return min(deltas), max(deltas)


def offset_deltas_in_order(body: Buffer, count: int) -> bool:
    """Whether the records are numbered 0, 1, 2 …; the body has been walked before."""
    pos = 0
    for expected in range(count):
        size, at = read_varint(body, pos)
        _, at_offset = read_varint(body, at + 1)
        if read_varint(body, at_offset)[0] != expected:
            return False
        pos = at + size
    return True
