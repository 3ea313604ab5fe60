"""The bytes of the latest exchanges, for those who look at them while they happen."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.primitives import Buffer

MOST_BYTES = 64 * 1024 * 1024
"""Bytes that are kept; the oldest exchanges are forgotten first."""
_HEAD = struct.Struct(">hhI")
"""API key, version, bytes of the request."""


class KeptExchange(NamedTuple):
    """An exchange as it passed over the wire."""

    api_key: int
    version: int
    request: bytes
    """without the four bytes of its size"""
    answer: bytes
    """with them"""


class KeptFrames:
    """Exchanges by the numbers of their `reply` rows.

    Each is one `bytes`: it holds no buffer of a socket, and the garbage collector never walks over it.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def keep(self, number: int, api_key: int, version: int, request: Buffer, answer: Sequence[Buffer]) -> None:
        """Keep an exchange, and forget the oldest ones if there are too many bytes."""
        self._kept[number] = exchange = b"".join((_HEAD.pack(api_key, version, len(request)), request, *answer))
        self._bytes += len(exchange)
        while self._bytes > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)

    def get(self, number: int) -> KeptExchange | None:
        """The exchange of this row; None if it was not kept or is forgotten."""
        kept = self._kept.get(number)
        if kept is None:
            return None
        api_key, version, size = _HEAD.unpack_from(kept)
        end = _HEAD.size + size
        return KeptExchange(api_key, version, kept[_HEAD.size : end], kept[end:])
