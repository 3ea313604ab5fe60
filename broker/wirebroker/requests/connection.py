"""A client's connection to a broker, and its interceptor, which decides about each request before the engine decodes it.

The states of a connection (`ConnectionState`):

    OPEN ──▶ SILENT ──▶ CLOSED
      └───────────────────▲

In any state except CLOSED, a request may be `parked`: the next request is not handled before the parked request is done. The
states for incoming bytes are described in `wirebroker.net.driver` and `wirebroker.proxy.relay`.

Authentication is an interceptor. A connection has an interceptor only if its listener requires SASL, or if
`Engine.new_interceptor` makes one. The interceptor may be replaced or removed at any time (`Connection.interceptor`), for
example after a successful authentication. It is called before the ordinary path and before the fast path of Produce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from wirebroker.core.partition import Partition
    from wirebroker.security.session import Session

NO_LIMIT = 2**31 - 1


class ConnectionState(Enum):
    """Whether a connection's requests get responses."""

    OPEN = "requests get responses"
    SILENT = "a fault lost a response: later responses are withheld too, because clients match responses by order"
    CLOSED = "the connection has ended, or the driver will end it"


OPEN, SILENT, CLOSED = ConnectionState  # Python finds a module's global faster than an enum's member


class Parked(Protocol):
    """A request whose response will come later."""

    def left(self) -> None:
        """The client has gone."""


class Alarm(Protocol):
    """A timer that can be cancelled before it runs."""

    def cancel(self) -> None:
        """Prevent the timer from running."""


class Muted(NamedTuple):
    """Parks a connection whose client has exceeded its quota: no request is handled until the timer runs."""

    timer: Alarm

    def left(self) -> None:
        """The client has gone."""
        self.timer.cancel()


class Connection:
    """One client's connection to one broker, as far as the engine knows it."""

    __slots__ = (
        "client_host", "frame_limit", "halted", "interceptor", "node_id", "number", "parked", "produce_shape", "session",
        "software", "state", "versions",
    )  # fmt: skip

    def __init__(self, number: int, node_id: int, client_host: str, session: Session) -> None:
        self.number = number
        self.node_id = node_id
        self.client_host = client_host
        self.session = session
        self.state = OPEN
        self.frame_limit = NO_LIMIT
        """The largest request, in bytes, that is accepted. The limit is lower before the client is authenticated."""
        self.software = ("", "")
        self.versions: Mapping[int, tuple[int, int]] = {}
        """The versions that the broker supports, by API key."""
        self.interceptor: Interceptor | None = None
        """Decides about each request before the request is decoded; None if all requests are handled."""
        self.parked: Parked | None = None
        """The parked request. No other request of this connection is handled before it is answered."""
        self.halted = False
        """Tells the driver to check whether the next request has to wait; the driver clears this flag. A request waits while
        another is parked, until records of earlier responses are sent, or for ever if the connection is closed.
        """
        self.produce_shape: ProduceShape | None = None
        """The bytes of the last Produce before its records, for the fast path; see `wirebroker.apis.produce_shape`."""

    @property
    def listener(self) -> str:
        """The name of the listener that the client connected to."""
        return self.session.listener

    def silence(self) -> None:
        """Send no further response."""
        if self.state is OPEN:
            self.state = SILENT
        self.produce_shape = None

    def close(self) -> None:
        """Handle no further request."""
        self.state = CLOSED
        self.halted = True


class ProduceShape:
    """The last successful Produce of a connection, with one topic and one partition, and the layout of its response."""

    __slots__ = (
        "acks", "after", "at", "between", "client_id", "cluster_version", "head", "partition", "response", "size", "version",
    )  # fmt: skip

    def __init__(
        self, head: bytes, at: int, partition: Partition, acks: int, version: int, client_id: str | None, cluster_version: int
    ) -> None:
        self.head = head
        self.at = at
        """The position of the records' size."""
        self.partition = partition
        self.acks = acks
        self.version = version
        self.client_id = client_id
        self.cluster_version = cluster_version
        self.size = 0
        self.between = self.after = b""
        """The constant parts of the response; its size, correlation id and offsets are left out."""
        self.response: Callable[..., bytes]
        """Builds a response from the constant parts, the correlation id and the offsets."""


class Refuse(NamedTuple):
    """Refuse every part of the request with this error code, and do not handle it."""

    error_code: int
    ends_by: str = ""
    """If not empty: close the connection after the response; this is the reason for the log."""


class Delay(NamedTuple):
    """Handle the request, and send its response after `ms`, with `ms` as the throttle time.

    Later requests of the connection wait.
    """

    ms: int


class Disconnect(NamedTuple):
    """Close the connection without a response. `reason` is for the log."""

    reason: str


class Send(NamedTuple):
    """Send a token, preceded by its size, in response to a token that came without a request header."""

    token: bytes


class Unauthenticated(NamedTuple):
    """Close the connection in the way that follows every failed authentication. `cause` is for the log."""

    cause: str


Decision = Refuse | Delay | Disconnect | Send | Unauthenticated


class Interceptor(Protocol):
    """Decides about the requests of one connection."""

    def decide(self, connection: Connection, frame: memoryview, now: int) -> Decision | None:
        """Decide about a request; None means that it is handled as usual. `frame` is the whole request, and is not kept. `now`
        is in ms.

        Raises struct.error if the frame is too short for a header.
        """
