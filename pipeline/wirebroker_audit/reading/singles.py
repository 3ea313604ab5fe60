"""Reads batches that have a single, uncompressed record: all such batches of a chunk at once. A log may have very many of these
small batches, so reading them one by one in Python would be slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkawire.batches import COMPRESSION_MASK, HEADER_SIZE, LOG_APPEND_TIME, LOG_OVERHEAD
from kafkawire.primitives import Buffer
from wirebroker_audit.reading.linker import Array
from wirebroker_audit.reading.scan import headers_at

LONGEST = 5
"""This module reads varints of at most this many bytes. If a record has a longer varint, the general reader reads the
record."""


class Singles(NamedTuple):
    """Tells which of the batches have one plain record without headers, and where these records are in the view."""

    which: Array
    headers: Array
    offset_delta: Array
    timestamp_delta: Array
    key: tuple[Array, Array]
    """begin and length, −1 for null"""
    value: tuple[Array, Array]

    def timestamps(self) -> Array:
        """Returns the time of each record."""
        appended = self.headers["attributes"] & LOG_APPEND_TIME != 0
        created = self.headers["base_timestamp"] + self.timestamp_delta
        result: Array = np.where(appended, self.headers["max_timestamp"], created)
        return result

    def between(self, begin: int, end: int) -> Singles:
        """Returns the records with the indexes from `begin` up to `end`."""
        one = slice(begin, end)
        (key, key_size), (value, value_size) = self.key, self.value
        return Singles(self.which[one], self.headers[one], self.offset_delta[one], self.timestamp_delta[one],
                       (key[one], key_size[one]), (value[one], value_size[one]))  # fmt: skip

    def slices(self, view: memoryview, field: tuple[Array, Array]) -> Iterator[memoryview | None]:
        """Yields a field of each record."""
        for begin, length in zip(*(each.tolist() for each in field), strict=True):
            yield view[begin : begin + length] if length >= 0 else None


def find_singles(view: Buffer, places: Array) -> Singles:
    """Returns the batches at these places that have one plain record. A batch that does not have exactly this form is left
    out."""
    headers = headers_at(view, places)
    which = np.flatnonzero((headers["records"] == 1) & (headers["attributes"] & COMPRESSION_MASK == 0))
    headers, places = headers[which], places[which]
    raw, stop = np.frombuffer(view, np.uint8), places + LOG_OVERHEAD + headers["length"]
    good = np.ones(len(which), bool)

    def number(at: Array) -> tuple[Array, Array]:
        found, at, ended = _varints(raw, at)
        np.logical_and(good, ended & (at <= stop), out=good)
        return found, at

    size, at = number(places + HEADER_SIZE)
    good &= at + size == stop
    timestamp_delta, at = number(at + 1)  # this skips the attributes, whose bits are not defined
    offset_delta, at = number(at)
    key_size, at = number(at)
    key, at = at, at + np.maximum(key_size, 0)
    value_size, at = number(at)
    value, at = at, at + np.maximum(value_size, 0)
    count, at = number(at)
    good &= (at == stop) & (count == 0) & (key_size >= -1) & (value_size >= -1)
    return Singles(
        which[good], headers[good], offset_delta[good], timestamp_delta[good], (key[good], key_size[good]),
        (value[good], value_size[good]),
    )  # fmt: skip


def _varints(raw: Array, at: Array) -> tuple[Array, Array, Array]:
    """Returns three values for each place: the zigzag number there, the place after the number, and whether the number ended
    within `LONGEST` bytes."""
    found, going = np.zeros(len(at), np.int64), np.ones(len(at), bool)
    for step in range(LONGEST):
        byte = raw[np.minimum(at, len(raw) - 1)].astype(np.int64)
        found |= np.where(going, (byte & 0x7F) << 7 * step, 0)
        at = at + going
        going = going & (byte >= 0x80)
        if not going.any():
            break
    return (found >> 1) ^ -(found & 1), at, ~going
