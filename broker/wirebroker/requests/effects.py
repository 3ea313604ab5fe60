"""The engine hands effects to its host; a handler returns an outcome if it has no response yet."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from kafkawire.primitives import Buffer
from wirebroker.requests.connection import Connection


class Respond(NamedTuple):
    """Send these buffers, in order: one whole response frame."""

    connection: Connection
    parts: list[Buffer]


class Close(NamedTuple):
    """Close the connection after the responses before it are sent; with `reset` at once, by a RST where the system has it.

    `reason` is a sentence for the log.
    """

    connection: Connection
    reason: str
    reset: bool = False


class Shape(NamedTuple):
    """The changes that the network makes to a response. Bytes are counted from the first byte of the response's size."""

    cut: int | None = None
    """The number of bytes that arrive; None: all."""
    piece: int | None = None
    """The size of the pieces in which it is sent, each by itself."""
    pause: float = 0.0
    """Seconds between two pieces, by the machine's time."""
    flipped: tuple[int, ...] = ()
    """The positions of bytes that arrive with all bits inverted."""


class Shaped(NamedTuple):
    """Send one whole response frame, changed by faults."""

    connection: Connection
    parts: list[Buffer]
    shape: Shape


class AdvanceClock(NamedTuple):
    """Move the broker's clock forward, once the effects are performed."""

    connection: Connection
    """The connection whose request asks for it."""
    ms: int


Effect = Respond | Close | Shaped | AdvanceClock


class Outcome(Enum):
    """A handler returns it instead of a response."""

    PARKED = "its response comes later, by Exchange.respond"
    SILENT = "it is done and has no response, like a Produce with acks=0"
    CLOSED = "the connection is closed, by Exchange.close"
