"""A client's connection to a broker, and the connection's interceptor, which decides about each request before the engine
decodes the request.

The states of a connection (`ConnectionState`):

    OPEN ──▶ SILENT ──▶ CLOSED
      └───────────────────▲

In any state except CLOSED, one request may be `parked`: the broker handles no further request of the connection until the
parked request is done. The states for incoming bytes are described in `wirebroker.net.driver` and `wirebroker.proxy.relay`.

Authentication is implemented as an interceptor. A connection has an interceptor only if its listener requires SASL, or if
`Engine.new_interceptor` makes one. The interceptor may be replaced or removed at any time (`Connection.interceptor`), for
example after a successful authentication. The interceptor sees each request first, before the ordinary path and before the fast
path of Produce.
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
    """Tells whether a connection's requests get responses."""

    OPEN = "requests get responses"
    SILENT = "a fault lost a response: later responses are withheld too, because clients match responses by order"
    CLOSED = "the connection has ended, or the driver will end it"


OPEN, SILENT, CLOSED = ConnectionState  # Python finds a module's global faster than an enum's member


class Parked(Protocol):
    """A request that is not answered yet. The connection's next requests wait for the answer."""

    def left(self) -> None:
        """Clean up, because the client has disconnected."""


class Alarm(Protocol):
    """A timer that can be cancelled before it runs."""

    def cancel(self) -> None:
        """Prevent the timer from running."""


class Muted(NamedTuple):
    """Takes the place of a parked request while the client is throttled because it exceeded a quota. The broker does not handle
    the connection's requests until the timer runs.
    """

    timer: Alarm

    def left(self) -> None:
        """Clean up, because the client has disconnected."""
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
        """The size in bytes of the largest request that the broker accepts. The limit is lower before the client is
        authenticated.
        """
        self.software = ("", "")
        self.versions: Mapping[int, tuple[int, int]] = {}
        """The versions that the broker supports, by API key."""
        self.interceptor: Interceptor | None = None
        """Decides about each request before the request is decoded. Without an interceptor (None) all requests are handled."""
        self.parked: Parked | None = None
        """The parked request. No other request of this connection is handled before the parked request is answered."""
        self.halted = False
        """Tells the driver to check whether the next request has to wait; the driver clears this flag. A request waits while
        another request is parked, and while records of earlier responses are still unsent. After the connection has closed, it
        waits for ever.
        """
        self.produce_shape: ProduceShape | None = None
        """The beginning of the last Produce, up to its records, for the fast path; see `wirebroker.apis.produce_shape`."""

    @property
    def listener(self) -> str:
        """The name of the listener that the client connected to."""
        return self.session.listener

    def silence(self) -> None:
        """Withhold all further responses of this connection."""
        if self.state is OPEN:
            self.state = SILENT
        self.produce_shape = None

    def close(self) -> None:
        """Mark the connection as closed, so that no further request is handled."""
        self.state = CLOSED
        self.halted = True


class ProduceShape:
    """The last successful Produce of a connection, and the layout of the response. Only a Produce with one topic and one
    partition is kept."""

    __slots__ = (
        "acks", "after", "at", "between", "client_id", "cluster_version", "head", "partition", "response", "size", "version",
    )  # fmt: skip

    def __init__(
        self, head: bytes, at: int, partition: Partition, acks: int, version: int, client_id: str | None, cluster_version: int
    ) -> None:
        self.head = head
        self.at = at
        """In the request, the position of the field that holds the size of the records."""
        self.partition = partition
        self.acks = acks
        self.version = version
        self.client_id = client_id
        self.cluster_version = cluster_version
        self.size = 0
        self.between = self.after = b""
        """Those bytes of the response that are always the same: everything but the size, the correlation id and the offsets."""
        self.response: Callable[..., bytes]
        """Builds a response from these bytes, the correlation id and the offsets."""


class Refuse(NamedTuple):
    """Do not handle the request, but refuse each of its parts with this error code."""

    error_code: int
    ends_by: str = ""
    """If this is not empty, the connection is closed after the response; the log shows this text as the reason."""


class Delay(NamedTuple):
    """Handle the request, and send its response after a delay of `ms`. The response names `ms` as its throttle time.

    The connection's later requests wait until the response is sent.
    """

    ms: int


class Disconnect(NamedTuple):
    """Close the connection without a response. `reason` is for the log."""

    reason: str


class Ignore(NamedTuple):
    """Do not respond, and leave the connection open."""


class Send(NamedTuple):
    """Answer a token that the client sent without a request header. The broker's token is sent with its size, and without a
    header."""

    token: bytes


class Unauthenticated(NamedTuple):
    """The authentication failed: close the connection, as always in this case. `cause` is for the log."""

    cause: str


Decision = Refuse | Delay | Disconnect | Ignore | Send | Unauthenticated


class Interceptor(Protocol):
    """Decides about the requests of one connection."""

    def decide(self, connection: Connection, frame: memoryview, now: int) -> Decision | None:
        """Decide about a request. None means that the request is handled as usual. `frame` is the whole request; the
        interceptor must not keep it. `now` is in ms.

        Raises struct.error if the frame is too short for a header.
        """
