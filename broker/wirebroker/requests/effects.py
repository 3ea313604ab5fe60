"""Effects, which the engine hands to its host, and outcomes, which a handler returns if it has no response yet."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

from kafkawire.primitives import Buffer
from wirebroker.requests.connection import Connection


class Respond(NamedTuple):
    """Send these buffers in order. Together they are one response frame."""

    connection: Connection
    parts: list[Buffer]


class Close(NamedTuple):
    """Close the connection after the earlier responses have been sent. With `reset`, close the connection immediately, and with
    a TCP RST if the operating system supports that.

    `reason` is for the log.
    """

    connection: Connection
    reason: str
    reset: bool = False


class Shape(NamedTuple):
    """How the network changes a response. Byte positions count from the first byte of the response's size field."""

    cut: int | None = None
    """The number of the response's bytes that arrive at the client. None means all bytes."""
    piece: int | None = None
    """The size of the pieces in which the response is sent."""
    pause: float = 0.0
    """The seconds between two pieces, in real time."""
    flipped: tuple[int, ...] = ()
    """The positions of bytes that arrive with all bits inverted."""
    slowed_by: Hashable | None = None
    """The rule that slows the response down. When the rule is unloaded, the rest of the response is sent at once."""


class Shaped(NamedTuple):
    """Send one whole response frame, changed by faults."""

    connection: Connection
    parts: list[Buffer]
    shape: Shape


class AdvanceClock(NamedTuple):
    """Move the broker's clock forward after all other effects have been performed."""

    connection: Connection
    """The connection whose request moves the clock."""
    ms: int


Effect = Respond | Close | Shaped | AdvanceClock


class Outcome(Enum):
    """A handler returns this instead of a response: the response comes later, or the request gets no response."""

    PARKED = "the response will come later, through Exchange.respond"
    SILENT = "the request is done and gets no response, like a Produce with acks=0"
    CLOSED = "the handler has closed the connection with Exchange.close"
