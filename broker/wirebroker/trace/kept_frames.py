"""The bytes of the latest exchanges, for those who look at them while they happen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.primitives import Buffer

MOST_BYTES = 64 * 1024 * 1024
"""Bytes that are kept; the oldest exchanges are forgotten first."""


class KeptExchange(NamedTuple):
    """An exchange as it passed over the wire."""

    api_key: int
    version: int
    request: Buffer
    """without the four bytes of its size"""
    answer: Sequence[Buffer]
    """with them"""


class KeptFrames:
    """Exchanges by the numbers of their `reply` rows."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[int, KeptExchange] = OrderedDict()

    def keep(self, number: int, exchange: KeptExchange) -> None:
        """Keep an exchange, and forget the oldest ones if there are too many bytes."""
        self._kept[number] = exchange
        self._bytes += _size(exchange)
        while self._bytes > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)

    def get(self, number: int) -> KeptExchange | None:
        """The exchange of this row; None if it was not kept or is forgotten."""
        return self._kept.get(number)


def _size(exchange: KeptExchange) -> int:
    return len(exchange.request) + sum(map(len, exchange.answer))
