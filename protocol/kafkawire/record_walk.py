"""Walks over a batch's records without making objects. The walk checks whether the records are well formed, and finds the
latest timestamp.

In a walk that is compiled to machine code, a record takes some ten nanoseconds. In Python a record takes nearly a microsecond.
So `record_columns` first looks for runs of records of one shape, and checks a whole run at once.

A large body is copied in pieces, for two reasons: a piece stays in the processor's cache, and all other threads have to wait
during a copy.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from kafkawire.errors import ProtocolError
from kafkawire.record_columns import Lengths, Shape, Walked, latest_runs, remember, shape_of
from kafkawire.varints import read_varint

if TYPE_CHECKING:
    from mypy_extensions import i64  # an int that compiled code keeps in a register; Python code does not import it

_ONE_BY_ONE = 32
"""In Python the walk reads this many records one by one before it looks for a run."""
_SHORT_RUN = 8
"""After a run of fewer records than this, the walk reads the next records one by one."""
_WINDOW = 1 << 16
"""The number of bytes of the body that are copied at once. This many bytes fit into the processor's cache."""
_new: Final[Any] = tuple.__new__


def walk_records(body: memoryview, count: int) -> Walked:
    """Walk `count` records that must fill `body` exactly. Raises ProtocolError (Kafka's DefaultRecord.readFrom)."""
    if _COMPILED:
        walked, _ = walk_in_order(body, count)
        return walked
    if len(body) <= _WINDOW and (found := latest_runs(body, count)) is not None:
        return found
    return _walk(body, count).result()


def walk_in_order(body: memoryview, count: int) -> tuple[Walked, bool]:
    """Does the same as `walk_records`, and also returns whether the records are numbered 0, 1, 2 …"""
    if _COMPILED and len(body) <= _WINDOW:
        raw = bytes(body)
        walked, stop, low, high, keyless, ordered = _walk_each(raw, 0, 0, count)
        if walked == count and stop == len(raw):
            return _new(Walked, (high, low, keyless)), ordered
    if not _COMPILED and len(body) <= _WINDOW and (found := latest_runs(body, count)) is not None:
        return found, True
    walk = _walk(body, count)
    return walk.result(), walk.ordered


class _Walk:
    """The state of a walk over a body."""

    __slots__ = ("_base", "_body", "_end", "_high", "_keyless", "_low", "_raw", "_walked", "ordered", "pos")

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._end = len(body)
        self._raw, self._base = b"", 0
        """A copy of the body from `_base` on."""
        self._low, self._high, self._keyless = 2**63 - 1, -(2**63), False
        self._walked = 0
        self.pos = 0
        self.ordered = True
        """Tells whether the records so far are numbered 0, 1, 2 …"""

    def go_on(self, count: int) -> None:
        """Walk the next `count` records one by one. Raises ProtocolError, or IndexError if the body ends too early."""
        until = self._walked + count
        while self._walked < until:
            base = self._base
            walked, stop, low, high, keyless, ordered = _walk_each(self._raw, self.pos - base, self._walked, until)
            if walked > self._walked:
                self.pos, self._walked = base + stop, walked
                self._see(low, high, keyless)
                self.ordered = self.ordered and ordered
            elif base + len(self._raw) < self._end and (self.pos > base or not self._raw):
                self._copy()
            else:
                _, stop, delta, keyless, number = _parse(self._body, self.pos, self._end)
                self.passed(stop, 1, delta, delta, keyless, number == self._walked)

    def run(self, shape: Shape, most: int) -> int:
        """Walk up to `most` of the next records at once, as long as they have this shape. Returns the number of walked
        records."""
        passed, size = 0, shape.size
        while passed < most:
            if (self._base + len(self._raw) - self.pos) // size < min(most - passed, 2):
                self._copy()
            start = self.pos - self._base
            whole = min(most - passed, (len(self._raw) - start) // size)
            found = shape.run(self._raw, start, whole, self._walked) if whole else None
            if found is None:
                break
            records, low, high, ordered = found
            self.passed(self.pos + records * size, records, low, high, shape.null_key, ordered)
            passed += records
            if records < whole:
                break
        return passed

    def _copy(self) -> None:
        self._base = self.pos
        self._raw = bytes(self._body[self.pos : self.pos + _WINDOW])

    def passed(self, stop: int, records: int, low: int, high: int, keyless: bool, ordered: bool) -> None:
        """Remember that the caller has walked `records` records, that they end at `stop`, and what the caller has found in
        them."""
        self.pos = stop
        self._walked += records
        self.ordered = self.ordered and ordered
        self._see(low, high, keyless)

    def _see(self, low: int, high: int, keyless: bool) -> None:
        if low < self._low:
            self._low = low
        if high > self._high:
            self._high = high
        if keyless:
            self._keyless = True

    def result(self) -> Walked:
        """Returns the values found. Raises ProtocolError if the records do not fill the body."""
        if self.pos != self._end:
            raise ProtocolError(f"{self._end - self.pos} bytes are left after the last record")
        walked: Walked = _new(Walked, (self._high, self._low, self._keyless))
        return walked


def _walk(body: memoryview, count: int) -> _Walk:
    walk = _Walk(body)
    try:
        if _COMPILED:
            walk.go_on(count)
        else:
            _walk_runs(walk, body, count)
    except IndexError as damage:
        raise ProtocolError("a record runs past the end of its batch") from damage
    return walk


def _walk_runs(walk: _Walk, body: memoryview, count: int) -> None:
    """Walk the records to the end: runs of records of one shape at once, other records one by one."""
    end = len(body)
    runs: list[tuple[Shape, int]] = []
    left = count
    while left:
        start = walk.pos
        lengths, stop, delta, keyless, number = _parse(body, start, end)
        likely = lengths is not None and (stop == end or body[stop] == body[start])  # the next record begins like this record
        shape = shape_of(lengths) if likely and lengths is not None else None
        records = walk.run(shape, left) if shape is not None else 0
        if not records:
            walk.passed(stop, 1, delta, delta, keyless, number == count - left)
        left -= records or 1
        if shape is not None and (records >= _SHORT_RUN or not left):
            runs.append((shape, records))
        else:
            mixed = min(left, _ONE_BY_ONE)
            walk.go_on(mixed)
            left -= mixed
    if runs and sum(records for _, records in runs) == count:
        remember(runs)


def _walk_each(  # noqa: C901, PLR0912, PLR0915 - one loop without calls: it runs for every record
    raw: bytes, start: i64, first: i64, until: i64
) -> tuple[i64, i64, i64, i64, bool, bool]:
    """Walk the records from the number `first` to the number `until` − 1, as far as they are sound and whole in `raw`.

    Returns the number and the place of the first record that is not walked. For the walked records, returns the smallest and
    largest delta, whether a record has no key, and whether they are numbered in order. The walk stops before a varint
    of more than nine bytes.
    """
    pos: i64 = start
    end: i64 = len(raw)
    index: i64 = first
    low: i64 = 9223372036854775807
    high: i64 = -9223372036854775807 - 1
    keyless, ordered = False, True
    try:
        while index < until:
            size: i64 = raw[pos]
            pos += 1
            if size > 127:
                size, pos = _longer(raw, pos, size)
            stop: i64 = pos + (size >> 1)
            if size & 1 or stop > end:
                break
            delta: i64 = raw[pos + 1]  # skips the record's attributes, which have no defined bits
            pos += 2
            if delta > 127:
                delta, pos = _longer(raw, pos, delta)
            number: i64 = raw[pos]
            pos += 1
            if number > 127:
                number, pos = _longer(raw, pos, number)
            key: i64 = raw[pos]
            pos += 1
            if key > 127:
                key, pos = _longer(raw, pos, key)
            if not key & 1:
                pos += key >> 1
            value: i64 = raw[pos]
            pos += 1
            if value > 127:
                value, pos = _longer(raw, pos, value)
            if not value & 1:
                pos += value >> 1
            headers: i64 = raw[pos]
            pos += 1
            if headers:
                pos = _skip_plain_headers(raw, pos, headers, stop)
            if pos != stop:
                break
            start = stop
            delta = (delta >> 1) ^ -(delta & 1)
            if delta > high:
                high = delta
            if delta < low:
                low = delta
            if key & 1:
                keyless = True
            if number != index << 1:
                ordered = False
            index += 1
    except IndexError:  # the record at `start` is not whole, or has a long varint
        pass
    return index, start, low, high, keyless, ordered


def _longer(raw: bytes, pos: i64, first: i64) -> tuple[i64, i64]:
    """Reads a varint of several bytes, whose second byte is at `pos`. Returns the varint without zigzag decoding, and the
    position after it. Raises IndexError if it has more than 63 bits.
    """
    byte: i64 = raw[pos]
    number: i64 = first & 127 | (byte & 127) << 7
    shift: i64 = 14
    while byte > 127:
        pos += 1
        byte = raw[pos]
        if shift > 56:
            raise IndexError
        number |= (byte & 127) << shift
        shift += 7
    return number, pos + 1


def _skip_plain_headers(raw: bytes, pos: i64, headers: i64, stop: i64) -> i64:
    """Returns the position after the headers. `headers` is their number, still in zigzag form. Raises IndexError for headers
    that only `_parse` can read.
    """
    if headers > 127 or headers & 1:
        raise IndexError
    left: i64 = headers >> 1
    while left:
        name: i64 = raw[pos]
        pos += 1
        if name > 127:
            name, pos = _longer(raw, pos, name)
        if name & 1:
            raise IndexError
        pos += name >> 1
        value: i64 = raw[pos]
        pos += 1
        if value > 127:
            value, pos = _longer(raw, pos, value)
        if not value & 1:
            pos += value >> 1
        if pos > stop:
            raise IndexError
        left -= 1
    return pos


def _parse(body: memoryview, start: int, end: int) -> tuple[Lengths | None, int, int, bool, int]:
    """Reads one record. Returns five values: the record's lengths (None if it has headers), its end, its timestamp delta,
    whether it has no key, and its number.
    """
    size, at = read_varint(body, start)
    stop = at + size
    if size < 0 or stop > end:
        raise ProtocolError(f"a record announces {size} bytes, but only {end - at} are left")
    delta, offset_at = read_varint(body, at + 1)
    number, key_at = read_varint(body, offset_at)
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
        raise ProtocolError(f"a record announces {size} bytes, but its fields take {pos - at}")
    lengths = None if headers else (stop - start, offset_at - at - 1, key_at - offset_at, key, value)
    return lengths, stop, delta, key < 0, number


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


_COMPILED: Final = not isinstance(_walk_each, FunctionType)
"""Tells whether this module runs as machine code."""
