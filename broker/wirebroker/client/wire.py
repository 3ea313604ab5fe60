"""A blocking wire client. Unlike client libraries, this client sends exactly the given requests, even wrong requests."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, NamedTuple

from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import SIZE, SIZE_BYTES, FrameReader, decode_response, encode_request

CLIENT_ID = "wirebroker-conformance"
TIMEOUT = 10.0
"""After this time in seconds without a byte, a client stops waiting for a response."""
LARGEST_RESPONSE = 512 * 1024 * 1024
AT_ONCE = 1 << 18
"""One read requests at most this many bytes."""
TLS_ALERT = b"\x15\x03"
SECURE = "security.protocol=SSL or SASL_SSL in the client's properties (--command-config)"
SHOWN = 64
"""The error message shows this many bytes of an unreadable response."""


class ConnectionClosed(ConnectionError):
    """The broker closed the connection instead of responding."""


class NoResponse(TimeoutError):
    """No response arrived in time."""


def address_of(text: str) -> tuple[str, int]:
    """Returns the host and port in `host:port`, or in the first address of a comma-separated list. Raises ValueError."""
    host, _, port = text.split(",")[0].strip().rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


def _words(failure: OSError) -> str:
    """Returns the system's message for a failure, without the error number."""
    return (not isinstance(failure, ssl.SSLError) and failure.strerror) or str(failure)


class Limits(NamedTuple):
    """The largest size of a response in bytes, and the longest time in seconds that a whole response may take."""

    bytes: int = LARGEST_RESPONSE
    seconds: float = inf


UNLIMITED = Limits()


class Connection:
    """One connection to a broker, over TLS if a context is given. Raises ConnectionClosed if the connection cannot be made."""

    def __init__(
        self,
        address: tuple[str, int],
        timeout: float = TIMEOUT,
        client_id: str = CLIENT_ID,
        tls: ssl.SSLContext | None = None,
        limits: Limits = UNLIMITED,
    ) -> None:
        self.timeout, self.client_id = timeout, client_id
        self._limits = limits
        self.awaited: deque[tuple[int, int, int]] = deque()
        """The correlation id, API key and version of each request that awaits a response."""
        self._correlation = 0
        self._frames = FrameReader(limits.bytes)
        self._has_answered = False
        self.session_ends = inf
        """The deadline for the next login, as a time of `time.monotonic` (KIP-368)."""
        self.login_version = -1
        """The version of SaslAuthenticate that the broker accepts, or −1 until it is known."""
        try:
            self._socket = socket.create_connection(address, timeout)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])
        except OSError as refused:
            raise ConnectionClosed(_words(refused)) from refused
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def request(self, message: Message, version: int, timeout: float | None = None) -> Any:
        """Send a request and wait for its response. Raises ConnectionClosed, NoResponse, ProtocolError."""
        self.send(message, version)
        return self.response(timeout)

    def send(self, message: Message, version: int, *, awaits_response: bool = True) -> None:
        """Send a request without waiting. `awaits_response` is False for a Produce with acks=0, which gets no response."""
        self._correlation += 1
        self.send_bytes(encode_request(self._correlation, self.client_id, message, version))
        if awaits_response:
            self.awaited.append((self._correlation, message.__schema__.key, version))

    def send_raw(self, key: int, version: int, body: bytes, header_version: int) -> None:
        """Send a request of any key and version with this body."""
        self._correlation += 1
        name = self.client_id.encode()
        header = struct.pack(">hhih", key, version, self._correlation, len(name)) + name
        frame = header + (b"\0" if header_version == 2 else b"") + body
        self.send_bytes(SIZE.pack(len(frame)) + frame)

    def send_bytes(self, raw: bytes) -> None:
        """Send bytes as they are. Raises ConnectionClosed."""
        try:
            self._socket.settimeout(self.timeout)
            self._socket.sendall(raw)
        except OSError as broken:
            raise ConnectionClosed(_words(broken)) from broken

    def response(self, timeout: float | None = None) -> Any:
        """Returns the response to the oldest unanswered request. After NoResponse, the method can be called again.

        Raises ConnectionClosed, NoResponse, and ProtocolError for a response that is unreadable or belongs to another request.
        """
        frame = self.frame(timeout)
        try:
            if not self.awaited:
                raise ProtocolError("the broker sent a response, but no request was waiting for a response")
            correlation_id, key, version = self.awaited.popleft()
            received_id, message = decode_response(frame, key, version)
            if received_id != correlation_id:
                raise ProtocolError(f"the response has correlation id {received_id}, expected {correlation_id}")
        except ProtocolError as wrong:
            raise ProtocolError(f"{wrong}; the frame begins {frame[:SHOWN].hex()}") from wrong
        return message

    def frame(self, timeout: float | None = None) -> bytes:
        """Returns the next frame, without its size. Raises ConnectionClosed, NoResponse, ProtocolError."""
        self._socket.settimeout(self.timeout if timeout is None else timeout)
        until = time.monotonic() + self._limits.seconds
        try:
            while (frame := self._frames.next()) is None:
                if time.monotonic() > until:
                    raise TimeoutError
                if not (arrived := self._socket.recv(AT_ONCE)):
                    raise ConnectionResetError(f"the broker closed the connection{self._hint()}")
                self._frames.feed(arrived)
        except ProtocolError as wrong:
            if bytes(self._frames.tail[:2]) == TLS_ALERT:
                raise ConnectionClosed(f"the broker refuses plaintext{self._hint()}") from wrong
            raise ProtocolError(f"{wrong}, so this is not a Kafka broker") from wrong
        except (TimeoutError, BlockingIOError) as late:
            raise NoResponse("no response in time") from late
        except OSError as broken:
            raise ConnectionClosed(_words(broken)) from broken
        self._has_answered = True
        return frame[SIZE_BYTES:]

    def _hint(self) -> str:
        """Returns advice if the broker seems to speak TLS and the client does not, else ""."""
        if self._has_answered or isinstance(self._socket, ssl.SSLSocket):
            return ""
        if bytes(self._frames.tail[:2]) == TLS_ALERT:
            return f"; it speaks TLS: set {SECURE}"
        return f" before its first response; if it wants TLS, set {SECURE}"


class Connections:
    """Named connections.

    A connection opens at its first use. An error closes the connection, and its next use opens it again.
    """

    def __init__(self) -> None:
        self._connections: dict[str, Connection] = {}

    def connect(self, name: str) -> Connection:
        """Returns a new connection for this name. Raises ConnectionClosed."""
        raise NotImplementedError

    def close(self) -> None:
        for name in list(self._connections):
            self.drop(name)

    def drop(self, connection: str) -> None:
        if held := self._connections.pop(connection, None):
            held.close()

    def request(self, message: Message, version: int, connection: str = "main", timeout: float | None = None) -> Any:
        """Send a request and wait for its response. Raises ConnectionClosed, NoResponse, ProtocolError."""
        self.send(message, version, connection)
        return self.response(connection, timeout)

    def send(
        self, message: Message, version: int, connection: str = "main", *, awaits_response: bool = True, reads_on: bool = False
    ) -> None:
        """Send a request without waiting; see Connection.send.

        With `reads_on`, a connection that fails in this call is kept while it awaits responses. Then `response` still returns
        the responses that arrived before the broker closed the connection.
        """
        with self._open(connection, reads_on) as held:
            held.send(message, version, awaits_response=awaits_response)

    def send_raw(self, key: int, version: int, body: bytes, header_version: int, connection: str = "main") -> None:
        """Send a request of any key and version with this body."""
        with self._open(connection) as held:
            held.send_raw(key, version, body, header_version)

    def send_bytes(self, raw: bytes, connection: str = "main") -> None:
        """Send bytes as they are."""
        with self._open(connection) as held:
            held.send_bytes(raw)

    def response(self, connection: str = "main", timeout: float | None = None) -> Any:
        """Returns the response to the oldest unanswered request. Raises ConnectionClosed, NoResponse, ProtocolError."""
        with self._open(connection) as held:
            return held.response(timeout)

    def frame(self, connection: str = "main", timeout: float | None = None) -> bytes:
        """Returns the next frame, without its size. Raises ConnectionClosed, NoResponse, ProtocolError."""
        with self._open(connection) as held:
            return held.frame(timeout)

    @contextmanager
    def _open(self, name: str, reads_on: bool = False) -> Iterator[Connection]:
        """Yields the connection with this name, opened if necessary.

        After an error, the connection is closed and forgotten, unless `reads_on` is set and the connection still awaits
        responses.
        """
        if name not in self._connections:
            self._connections[name] = self.connect(name)
        try:
            yield self._connections[name]
        except (OSError, ProtocolError):
            if not (reads_on and self._connections[name].awaited):
                self.drop(name)
            raise


class WireClient(Connections):
    """Connections to one broker, in plaintext."""

    def __init__(self, host: str, port: int, timeout: float = TIMEOUT) -> None:
        super().__init__()
        self.address, self.timeout = (host, port), timeout

    @classmethod
    def at(cls, address: str, timeout: float = TIMEOUT) -> WireClient:
        """Returns a client for the broker at `host:port`, or at the first address of a comma-separated list. Raises
        ValueError.
        """
        return cls(*address_of(address), timeout)

    def connect(self, name: str) -> Connection:
        """Returns a new connection to the broker. Raises ConnectionClosed."""
        return Connection(self.address, self.timeout)
