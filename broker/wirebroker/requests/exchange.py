"""A request with its response. This is the common base of a broker's exchange and a proxy's exchange."""

from __future__ import annotations

from wirebroker.requests.connection import CLOSED, OPEN, Connection


class AnyExchange:
    """A received request. The subclasses set the fields themselves; this saves the call of a base constructor on the hot
    path.
    """

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "frame", "now", "version")

    connection: Connection
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    now: int
    """The time at which the request arrived, in ms since the epoch."""
    frame: memoryview | None
    """The bytes of the request without its size field, as long as their buffer is valid."""

    @property
    def node_id(self) -> int:
        """The id of the broker that receives the request; −1 in a proxy that does not know the id yet."""
        return self.connection.node_id

    @property
    def alive(self) -> bool:
        """Tells whether the client's connection is still open. If it is open, the client may be waiting for the response."""
        return self.connection.state is not CLOSED

    @property
    def responds(self) -> bool:
        """Tells whether the client will get a response."""
        return self.connection.state is OPEN

    def park(self) -> None:
        """Park this request: the connection's next requests are not handled before this request is answered."""
        self.connection.parked = self
        self.connection.halted = True

    def unpark(self) -> None:
        """Let the next requests of the connection continue."""
        if self.connection.parked is self:
            self.connection.parked = None

    def left(self) -> None:
        """Clean up, because the client has disconnected."""
        raise NotImplementedError
