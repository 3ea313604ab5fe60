"""Writes a capture: the bytes of each connection as packets of one frame each, with the verdicts as comments.

The caller passes in the bytes and the time, so this module uses no socket and no clock. Times are in µs since the epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from kafkawire.frames import KEY_VERSION_CORRELATION, SIZE, SIZE_BYTES, FrameReader, frame_end
from kafkawire.printable import printable
from kafkawire.registry import KEYS, is_known
from wirebroker.common.lasting import LastingFile, Rotation
from wirebroker.trace.rows import FaultRow, ProduceRow, Row
from wirebroker_tools.capture.files import packet_block, start_of_file
from wirebroker_tools.capture.packets import LONGEST_PAYLOAD, Endpoint, Line
from wirebroker_tools.capture.secrets import SECRET_APIS, hidden, redacted_request, redacted_response

START = SIZE_BYTES + KEY_VERSION_CORRELATION.size
LARGEST_FRAME = 1 << 28
"""A frame has at most this many bytes."""
LARGEST_SECRET = 1 << 20
"""Frames of at most this many bytes are searched for secrets. If a larger frame may have secrets, only its header is kept.
"""
MOST_AWAITED = 10_000
SASL_HANDSHAKE = KEYS["SaslHandshake"]
SHOWN_OF_OTHERS = 8
"""If a connection does not speak Kafka's protocol, its first bytes are kept unhidden. This many bytes are enough to recognise
the protocol."""


class Capture:
    """A pcapng file that is being written. This object is also a sink of the trace: verdicts and faults become comments."""

    def __init__(self, write: Callable[[bytes, int], object], close: Callable[[], None]) -> None:
        self._write = write
        """Writes a block; the second argument is the time in ms since the epoch."""
        self.close = close
        self.by_number: dict[int, Conversation] = {}
        """The open connections by the numbers that the trace gives them."""

    def opened(self, client: Endpoint, server: Endpoint, now: int) -> Conversation:
        """Begin the capture of a new connection."""
        return Conversation(self, Line(client, server), now)

    def __call__(self, row: Row) -> None:
        """Keep a row about a verdict or a fault. It becomes a comment on the next packet to the row's client."""
        if isinstance(row, ProduceRow | FaultRow):
            conversation = self.by_number.get(row.connection)
            if conversation is not None:
                place, _, outcome, rest = row.parts()
                conversation.comments.append(f"{place} {outcome}: {rest}".strip())

    def packet(self, now: int, data: bytes, comments: list[str]) -> None:
        """Write one packet."""
        self._write(packet_block(now, data, map(printable, comments)), now // 1000)


def capture_in(file: BinaryIO) -> Capture:
    """Returns a capture in this open file."""
    file.write(start_of_file())
    return Capture(lambda block, _: file.write(block), file.close)


def open_capture(path: str, rotation: Rotation | None = None) -> Capture:
    """Returns a capture in this file; writing continues after a full disk (see `LastingFile`).

    Without a rotation an existing file is replaced.

    Each packet is written at once, so that it is in the file even if the process is killed. Raises OSError.
    """
    file = LastingFile(Path(path), "the capture", rotation, start_of_file(), replaces=True)
    return Capture(file.write, file.close)


class Conversation:
    """One connection of a capture."""

    def __init__(self, capture: Capture, line: Line, now: int) -> None:
        self.comments: list[str] = []
        """The comments on the next packet to the client."""
        self._capture, self._line = capture, line
        self._number = 0
        self._awaited: deque[_Awaited] = deque(maxlen=MOST_AWAITED)
        self._requests = _Cut(START, self._request)
        self._responses = _Cut(SIZE_BYTES * 2, self._response)
        self._tokens = False
        self._secret = False
        """True once the client has begun to authenticate. From then on, bytes that cannot be read may be secret."""
        for packet in line.handshake():
            capture.packet(now, packet, [])

    def numbered(self, number: int) -> None:
        """Note the number that the trace gives to this connection."""
        self._number = number
        self._capture.by_number[number] = self

    def from_client(self, data: bytes, now: int) -> None:
        """Write bytes that have arrived from the client."""
        for piece in self._requests.take(data):
            self._send(False, piece, now)

    def to_client(self, data: bytes, now: int) -> None:
        """Write bytes that were sent to the client."""
        for piece in self._responses.take(data):
            self._send(True, piece, now)

    def closed(self, now: int, *, by_server: bool) -> None:
        """End the connection in the capture."""
        self._send(False, self._requests.rest(), now)
        self._send(True, self._responses.rest(), now)
        for packet in (self._line.end(by_server), self._line.end(not by_server)):
            self._capture.packet(now, packet, self._take_comments())
        # After a reset of the broker, another connection may have got this number.
        if self._capture.by_number.get(self._number) is self:
            del self._capture.by_number[self._number]

    def _send(self, by_server: bool, data: bytes, now: int) -> None:
        for at in range(0, len(data), LONGEST_PAYLOAD):
            packet = self._line.sent(by_server, data[at : at + LONGEST_PAYLOAD])
            self._capture.packet(now, packet, self._take_comments() if by_server else [])

    def _take_comments(self) -> list[str]:
        comments, self.comments = self.comments, []
        return comments

    def _request(self, start: bytes, size: int) -> _Redact | None:
        """Returns a function that hides the secrets of a request that begins with these bytes, or None if the request has no
        secrets."""
        key, version, correlation_id = KEY_VERSION_CORRELATION.unpack_from(start, SIZE_BYTES)
        if not (is_known(key, version) if self._tokens else _may_be_request(key, version)):
            self._awaited.append((None, -1, -1))
            return lambda frame: hidden(frame, SIZE_BYTES)
        self._tokens = key == SASL_HANDSHAKE and version == 0
        self._secret |= key == SASL_HANDSHAKE
        self._awaited.append((correlation_id, key, version))
        return redacted_request if key in SECRET_APIS else None

    def _response(self, start: bytes, size: int) -> _Redact | None:
        """Returns a function that hides the secrets of a response that begins with these bytes, or None if the response has no
        secrets. Responses arrive in the order of the requests; some requests get no response.
        """
        (correlation_id,) = SIZE.unpack_from(start, SIZE_BYTES)
        while self._awaited:
            awaited, key, version = self._awaited.popleft()
            if awaited is None:
                return lambda frame: hidden(frame, SIZE_BYTES)
            if awaited == correlation_id:
                return partial(redacted_response, key=key, version=version) if key in SECRET_APIS else None
        return (lambda frame: hidden(frame, SIZE_BYTES * 2)) if self._secret else None


_Redact = Callable[[bytes], bytes]
_Awaited = tuple[int | None, int, int]
"""Correlation id, API key and version of a request. A SASL token without a header has no correlation id."""


def _may_be_request(key: int, version: int) -> bool:
    """Tells whether a request may begin with this API key and version. The API may be newer than the APIs that this program can
    read. A SASL token without a handshake never begins like this: a token of PLAIN begins with a zero byte and a name, and a
    name has no control characters.
    """
    return 0 <= key < 256 and 0 <= version < ord(" ")


class _Cut:
    """Cuts one direction of a connection into pieces for packets: small frames whole, large frames as they arrive."""

    def __init__(self, start: int, begins: Callable[[bytes, int], _Redact | None]) -> None:
        self._start, self._begins = start, begins
        self._frames = FrameReader()
        self._hidden = False
        """True while a large frame is written in pieces, and the rest of the frame must be hidden because it may be secret."""
        self._redact: _Redact | None = None
        self._known = False
        """True if `begins` was already called for the frame at the beginning of the buffer."""
        self._lost = -1
        """−1 while this direction has recognisable frames, later the number of bytes that may still be shown."""

    def rest(self) -> bytes:
        """Returns the bytes of a frame whose end never came. The bytes are hidden if they may be secret."""
        rest, self._frames = bytes(self._frames.tail), FrameReader()
        return rest if self._known and self._redact is None else hidden(rest, SIZE_BYTES)

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yields the pieces that these bytes complete."""
        frames = self._frames
        data = bytes(frames.taken(memoryview(data)) or b"")  # keep the whole frame, because `keep` may need any byte
        while data:
            if self._lost >= 0:
                yield hidden(data, self._lost)
                self._lost = max(self._lost - len(data), 0)
                return
            if passed := frames.passed(len(data)):
                piece, data = data[:passed], data[passed:]
                yield hidden(piece, 0) if self._hidden else piece
                continue
            size = self._size(data)
            if size is None:
                frames.keep(data)
                return
            if size < 0:
                self._lost = SHOWN_OF_OTHERS
            elif self._redact is not None and size > LARGEST_SECRET:
                yield self._redact(data[: self._start])
                frames.passing, self._hidden, self._known = size - self._start, True, False
                data = data[self._start :]
            elif self._redact is None and size > LONGEST_PAYLOAD:
                frames.passing, self._hidden, self._known = size, False, False
            elif len(data) >= size:
                yield self._redact(data[:size]) if self._redact is not None else data[:size]
                data, self._known = data[size:], False
            else:
                frames.keep(data)
                return

    def _size(self, data: bytes) -> int | None:
        """Returns the size of the frame at the beginning of the buffer. Returns None if too few bytes are there, and −1 if the
        bytes are not a frame.
        """
        if len(data) < SIZE_BYTES:
            return None
        size = frame_end(data)
        if not SIZE_BYTES <= size <= LARGEST_FRAME:
            return -1
        if len(data) < min(self._start, size):
            return None
        if not self._known:
            self._known = True
            self._redact = self._begins(data[: self._start], size) if size >= self._start else _hide_token
        return size


def _hide_token(frame: bytes) -> bytes:
    """Hides a frame that is too short for a header, because it may be a SASL token."""
    return hidden(frame, SIZE_BYTES)
