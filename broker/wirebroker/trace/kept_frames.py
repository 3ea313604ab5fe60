"""Keeps the bytes of the latest exchanges, which users can read on the live page."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.primitives import Buffer

MOST_BYTES = 64 * 1024 * 1024
"""At most this many bytes are kept. The oldest exchanges are forgotten first."""
_HEAD = struct.Struct(">hhiIqqHI")
"""The layout of these numbers: the first six fields of `About`, the size of the field `place`, and the size of the request."""


class About(NamedTuple):
    """The description of an exchange. Times are in ms since the epoch."""

    api_key: int
    version: int
    node: int
    connection: int
    arrived: int
    answered: int
    place: str
    """the client's host and the listener, with a space between them"""


class KeptExchange(NamedTuple):
    """The bytes of an exchange on the wire."""

    about: About
    request: bytes
    """the request, without the four bytes of the size field"""
    response: bytes
    """the response, with the four bytes of the size field"""


class KeptFrames:
    """The kept exchanges. The key is the number of the exchange's `reply` row.

    Each exchange is stored as one `bytes` object, which does not keep a socket buffer alive, and costs the garbage collector
    nothing.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def keep(self, number: int, about: About, request: Buffer, response: Sequence[Buffer]) -> None:
        """Keep an exchange. If too many bytes are kept now, forget the oldest exchanges."""
        place = about.place.encode(errors="replace")
        head = _HEAD.pack(*about[:6], len(place), len(request))
        self._kept[number] = exchange = b"".join((head, place, request, *response))
        self._bytes += len(exchange)
        while self._bytes > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)

    def get(self, number: int) -> KeptExchange | None:
        """Returns the exchange whose `reply` row has this number, or None if the exchange was never kept or has been
        forgotten.
        """
        kept = self._kept.get(number)
        if kept is None:
            return None
        api_key, version, node, connection, arrived, answered, size, request = _HEAD.unpack_from(kept)
        at = _HEAD.size + size
        place = kept[_HEAD.size : at].decode()
        about = About(api_key, version, node, connection, arrived, answered, place)
        return KeptExchange(about, kept[at : at + request], kept[at + request :])
