"""Finds runs of records of one shape, for a walk in Python.

Producers mostly send records of one shape, with the same lengths. In a run of such records, take the byte at one place of each
record: these bytes are a column. A column is a slice whose step is the size of a record. Python compares a whole column as fast
as it reads three varints. So the walk checks a run by its columns, and reads the other records one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafkawire.varints import read_varint, write_varint

_ODD = bytes(range(1, 256, 2))
_LAST, _NOT_LAST = bytes(range(128)), bytes(range(128, 256))
"""The byte values that can end a varint, and the byte values after which a varint continues."""
_ONE_BYTE = bytes(number << 1 for number in range(1 << 6))
"""All varints of one byte: the byte at the index n encodes the number n."""
_LOW_OF_TWO = bytes(number << 1 & 127 | 128 for number in range(1 << 13))
"""The first bytes of the two-byte varints: the varint with the byte at the index n encodes the number n."""
_HIGH_OF_TWO = bytes(number >> 6 for number in range(1 << 13))
_NUMBERS = {1: (_ONE_BYTE,), 2: (_LOW_OF_TWO, _HIGH_OF_TWO)}
"""For each size of a varint: the columns that the varints of the offset deltas 0, 1, 2 … form in a run."""
_LARGEST = {size: len(columns[0]) - 1 for size, columns in _NUMBERS.items()}
_MOST_SHAPES = 256
_MOST_RUNS = 4
_new: Any = tuple.__new__

Lengths = tuple[int, int, int, int, int]
"""Five numbers: the sizes of a record, of its timestamp delta and of its offset delta, and the lengths of its key and of its
value."""
Found = tuple[int, int, int, bool]
"""A run: its number of records, their smallest and largest timestamp delta, and whether they are numbered in order."""
Columns = Sequence[tuple[slice, bytes]]
"""Columns of a run, each with its expected bytes."""


class Walked(NamedTuple):
    """The result of a walk: the largest and smallest timestamp delta, in ms, and whether a record has no key."""

    max_delta: int
    min_delta: int
    null_key: bool


class Shape:
    """The common form of records with the same lengths."""

    __slots__ = (
        "_delta_at", "_delta_size", "_expected", "_fixed", "_number_at", "_number_size", "null_key", "size",
    )  # fmt: skip

    def __init__(self, lengths: Lengths) -> None:
        """Raises ValueError if a length takes more bytes than it needs."""
        self.size, self._delta_size, self._number_size, key, value = lengths
        self.null_key = key < 0
        keys, values = _varint(key), _varint(value)
        inside = 1 + self._delta_size + self._number_size + len(keys) + max(key, 0) + len(values) + max(value, 0) + 1
        sizes = _varint(inside)
        if len(sizes) + inside != self.size:
            raise ValueError("a length takes more bytes than it needs")
        self._delta_at = len(sizes) + 1  # skips the attributes, which have no defined bits
        self._number_at = self._delta_at + self._delta_size
        key_at = self._number_at + self._number_size
        value_at = key_at + len(keys) + max(key, 0)
        fixed = ((0, sizes), (key_at, keys), (value_at, values), (self.size - 1, b"\0"))  # the last byte is the header count 0
        self._fixed = tuple((at + i, varint[i : i + 1]) for at, varint in fixed for i in range(len(varint)))
        self._expected: tuple[tuple[int, int, int], Columns, slice, bytes, tuple[int, int]] = (
            (0, 0, 0), (), slice(0), b"", (0, 0)
        )  # fmt: skip
        """The place, the columns and the timestamp deltas of the last run. The next run probably has the same values."""

    def run(self, raw: bytes, start: int, most: int, first: int) -> Found | None:
        """Returns the run that begins at `start` and has at most `most` records. If the run is numbered in order, its first
        record has the number `first`.

        Returns None if no record of this shape begins there. The caller checks that `most` records of this shape would fit into
        `raw` after `start`.
        """
        numbered = min(most, max(_LARGEST.get(self._number_size, 0) + 1 - first, 1))  # a larger number would take another byte
        deltas = self.whole_run(raw, start, numbered, first)
        if deltas is not None:
            return numbered, *deltas, True
        records = self._matching(raw, start, most)
        stop = start + records * self.size
        deltas = self._deltas(raw, start, stop) if records else None
        return None if deltas is None else (records, *deltas, self._numbered(raw, start, stop, first))

    def whole_run(self, raw: bytes, start: int, records: int, first: int) -> tuple[int, int] | None:
        """Returns the smallest and largest timestamp delta if all these records have this shape and are numbered `first`,
        `first` + 1 …, else None. Numbers that take more than two bytes are not recognised."""
        place, columns, deltas_at, deltas_before, deltas = self._expected
        if place != (start, records, first):
            columns, deltas_at = self._columns(start, records, first)
            deltas_before = b""
        for cut, column in columns:
            if raw[cut] != column:
                return None
        column = raw[deltas_at]
        if column == deltas_before and self._delta_size == 1:
            return deltas
        found = self._deltas(raw, start, start + records * self.size)
        if found is not None:  # a single assignment, because several threads may walk at once
            self._expected = (start, records, first), columns, deltas_at, column, found
        return found

    def _columns(self, start: int, records: int, first: int) -> tuple[Columns, slice]:
        """Returns the columns of a run, and the slice of its timestamp deltas."""
        numbers = enumerate(_NUMBERS.get(self._number_size, (b"",)), self._number_at)
        columns = [(at, byte * records) for at, byte in self._fixed]
        columns += [(at, column[first : first + records]) for at, column in numbers]
        stop = start + records * self.size
        return [(slice(start + at, stop, self.size), column) for at, column in columns], slice(
            start + self._delta_at, stop, self.size
        )

    def _matching(self, raw: bytes, start: int, records: int) -> int:
        """Returns the number of consecutive records of this shape, at most `records`."""
        size = self.size
        varints = *_varint_places(self._delta_at, self._delta_size), *_varint_places(self._number_at, self._number_size)
        for at, allowed in (*self._fixed, *varints):
            column = raw[start + at : start + records * size : size]
            records -= len(column.lstrip(allowed))
            if not records:
                break
        return records

    def _deltas(self, raw: bytes, start: int, stop: int) -> tuple[int, int] | None:
        """Returns the smallest and largest timestamp delta, or None if a delta's varint has another size than in this shape."""
        at, size = start + self._delta_at, self.size
        if self._delta_size == 1:
            column = raw[at:stop:size]
            if not column.isascii():
                return None
            if len(column.translate(None, _ODD)) == len(column):  # no timestamp delta is negative
                return min(column) >> 1, max(column) >> 1
            columns = [column]
        else:
            columns = [raw[at + i : stop : size] for i in range(self._delta_size)]
            if not columns[-1].isascii() or any(column.translate(None, _NOT_LAST) for column in columns[:-1]):
                return None
        digits = list(zip(*reversed(columns), strict=True))
        if len(columns[0].translate(None, _ODD)) == len(columns[0]):
            digits = [min(digits), max(digits)]
        deltas = [read_varint(bytes(reversed(each)), 0)[0] for each in digits]
        return min(deltas), max(deltas)

    def _numbered(self, raw: bytes, start: int, stop: int, first: int) -> bool:
        """Tells whether the records that have matched are numbered `first`, `first` + 1 …"""
        positions = range(start + self._number_at, stop, self.size)
        return all(read_varint(raw, position)[0] == number for number, position in enumerate(positions, first))


class _Latest(NamedTuple):
    """The runs of the body that was walked last. `head` has all runs but the last, each with its number of records. The last
    run begins at `start` with record `first`. `still` is the result of a walk if all timestamps equal the base timestamp.
    """

    head: tuple[tuple[Shape, int], ...]
    start: int
    first: int
    last: Shape
    still: Walked


_shapes: dict[Lengths, Shape | None] = {}
_latest: list[_Latest | None] = [None]


def shape_of(lengths: Lengths) -> Shape | None:
    """Returns the shape of records with these lengths; None if a length takes more bytes than it needs."""
    try:
        return _shapes[lengths]
    except KeyError:
        pass
    try:
        shape = Shape(lengths)
    except ValueError:
        shape = None
    if len(_shapes) >= _MOST_SHAPES:
        _shapes.clear()
    _shapes[lengths] = shape
    return shape


def remember(runs: Sequence[tuple[Shape, int]]) -> None:
    """Remember these runs of a body, because the next body is likely to have the same runs."""
    if len(runs) <= _MOST_RUNS:
        *head, (last, _) = runs
        start, first = sum(shape.size * records for shape, records in head), sum(records for _, records in head)
        _latest[0] = _Latest(tuple(head), start, first, last, Walked(0, 0, any(shape.null_key for shape, _ in runs)))


def latest_runs(body: memoryview, count: int) -> Walked | None:
    """Walks all records if the body has the same runs as the body that was walked last, apart from the length of the last run.
    Else returns None.

    More than 64 records of one length need two shapes, because from the 65th record on the offset delta takes a second byte.
    """
    latest = _latest[0]
    if latest is None:
        return None
    head, start, first, last, still = latest
    if first >= count or len(body) - start != (count - first) * last.size:
        return None
    raw = body.tobytes()
    deltas = last.whole_run(raw, start, count - first, first)
    if deltas is None:
        return None
    low, high = deltas
    if head:
        start = first = 0
        for shape, records in head:
            deltas = shape.whole_run(raw, start, records, first)
            if deltas is None:
                return None
            low, high = min(low, deltas[0]), max(high, deltas[1])
            start += shape.size * records
            first += records
    return _new(Walked, (high, low, still.null_key)) if low or high else still


def _varint(number: int) -> bytes:
    out = bytearray()
    write_varint(out, number)
    return bytes(out)


def _varint_places(at: int, size: int) -> list[tuple[int, bytes]]:
    """A varint begins at `at` in a record. Returns the place of each byte of this varint, and the values that the byte may
    have."""
    return [*((at + i, _NOT_LAST) for i in range(size - 1)), (at + size - 1, _LAST)]
