"""The gate of a connection: it decides about each request before the engine decodes it.

Authentication, authorisation of whole requests and quotas belong here. A connection has no gate unless
`Engine.new_gate` makes one for it, and a gate may be replaced or removed at any time (`Connection.gate`), as after a
successful authentication. The gate comes before the ordinary way and before the fast path of Produce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from wirebroker.exchange import Connection


class Refuse(NamedTuple):
    """Answer every part of the request with this error code, and do not handle it."""

    error_code: int


class Delay(NamedTuple):
    """Handle the request, and send its answer after `ms`, with that throttle time in it.

    Requests that follow on the connection wait.
    """

    ms: int


class Disconnect(NamedTuple):
    """Close the connection without an answer. `reason` is a sentence for the log."""

    reason: str


Decision = Refuse | Delay | Disconnect


class Gate(Protocol):
    """Decides about the requests of one connection."""

    def decide(self, connection: Connection, key: int, version: int, frame: memoryview, now: int) -> Decision | None:
        """None if the request is handled as usual. `frame` is the whole request, and is not kept; `now` is in ms."""
