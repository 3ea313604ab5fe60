"""A raw wire client: blocking, one request after another or pipelined, on connections that have names.

It says exactly what it is told to, right or wrong, which no ordinary client does.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import SIZE, decode_response, encode_request

CLIENT_ID = "wirebroker-conformance"
TIMEOUT = 10.0
"""Seconds to wait for an answer."""
SHOWN = 64
"""How many bytes of an unreadable answer are told."""


class ConnectionClosed(Exception):
    """The broker closed the connection instead of answering."""


class NoAnswer(Exception):
    """Nothing came within the time."""


class WireClient:
    """Connections to one broker, made when they are first used and again after they were closed."""

    def __init__(self, host: str, port: int, timeout: float = TIMEOUT) -> None:
        self.address = (host, port)
        self.timeout = timeout
        self._sockets: dict[str, socket.socket] = {}
        self._awaited: dict[str, deque[int]] = {}
        self._correlation = 0

    def close(self) -> None:
        """Close all connections."""
        for name in list(self._sockets):
            self.drop(name)

    def drop(self, connection: str) -> None:
        """Close one connection."""
        self._awaited.pop(connection, None)
        held = self._sockets.pop(connection, None)
        if held is not None:
            held.close()

    def request(self, message: Message, version: int, connection: str = "main", timeout: float | None = None) -> Any:
        """Send and wait for the answer. Raises ConnectionClosed, NoAnswer, ProtocolError."""
        self.send(message, version, connection)
        return self.answer(message.__schema__.key, version, connection, timeout)

    def send(self, message: Message, version: int, connection: str = "main", *, answered: bool = True) -> None:
        """Send, and do not wait. `answered` says whether an answer belongs to it, which one to acks=0 has not."""
        self._correlation += 1
        self.send_bytes(encode_request(self._correlation, CLIENT_ID, message, version), connection)
        if answered:
            self._awaited.setdefault(connection, deque()).append(self._correlation)

    def answer(self, key: int, version: int, connection: str = "main", timeout: float | None = None) -> Any:
        """The next answer on this connection. Raises ProtocolError also when it answers another request."""
        frame = self.frame(connection, timeout)
        awaited = self._awaited.get(connection)
        try:
            correlation_id, message = decode_response(frame, key, version)
            if awaited and correlation_id != (first := awaited.popleft()):
                raise ProtocolError(f"the answer has correlation id {correlation_id} where {first} was asked first")
        except ProtocolError as wrong:
            self.drop(connection)
            raise ProtocolError(f"{wrong}; the frame begins {frame[:SHOWN].hex()}") from wrong
        return message

    def send_bytes(self, raw: bytes, connection: str = "main") -> None:
        """Send bytes as they are."""
        try:
            self._socket(connection).sendall(raw)
        except OSError as broken:
            self.drop(connection)
            raise ConnectionClosed(str(broken)) from broken

    def send_raw(self, key: int, version: int, body: bytes, header_version: int, connection: str = "main") -> None:
        """Send a request of any key and version with this body."""
        self._correlation += 1
        name = CLIENT_ID.encode()
        header = struct.pack(">hhih", key, version, self._correlation, len(name)) + name
        frame = header + (b"\0" if header_version == 2 else b"") + body
        self.send_bytes(SIZE.pack(len(frame)) + frame, connection)

    def frame(self, connection: str = "main", timeout: float | None = None) -> bytes:
        """The next frame without its size. Raises ConnectionClosed, NoAnswer."""
        held = self._socket(connection)
        held.settimeout(self.timeout if timeout is None else timeout)
        try:
            (size,) = SIZE.unpack(self._exactly(held, 4))
            return self._exactly(held, size)
        except TimeoutError:
            self.drop(connection)
            raise NoAnswer from None
        except OSError as broken:
            self.drop(connection)
            raise ConnectionClosed(str(broken)) from broken

    @staticmethod
    def _exactly(held: socket.socket, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = held.recv(size - len(data))
            if not part:
                raise ConnectionResetError("closed by the broker")
            data += part
        return bytes(data)

    def _socket(self, connection: str) -> socket.socket:
        held = self._sockets.get(connection)
        if held is None:
            held = self._sockets[connection] = socket.create_connection(self.address, self.timeout)
            held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return held
