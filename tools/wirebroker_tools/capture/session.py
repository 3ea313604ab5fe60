"""Sessions: the requests and responses in a capture, with the verdicts that a proxy would have given.

This module passes the frames of the capture to a proxy's relay, and ignores the bytes that the relay wants to send. If frames
are missing from the capture, the session continues with the next whole frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from kafkawire.codec import decode
from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import SIZE, SIZE_BYTES, FrameReader, read_request_header
from kafkawire.messages import APIS
from kafkawire.primitives import Buffer
from kafkawire.registry import request_class
from wirebroker.common.bounded import Bounded
from wirebroker.proxy.exchange import ForwardedExchange
from wirebroker.proxy.proxy import Proxy
from wirebroker.proxy.relay import Relay
from wirebroker.requests.connection import CLOSED, Connection
from wirebroker.requests.received import Directory
from wirebroker.trace.rows import Row
from wirebroker_tools.capture.files import DamagedCapture, read_packets
from wirebroker_tools.capture.packets import LINKS, Endpoint, segment_of
from wirebroker_tools.capture.streams import Ended, Piece, Stream, Streams

Places = tuple[tuple[int, int], ...]
"""Parts of a file, in order; each is a position and a length."""
MOST_ASKED = 10_000
HEADER = 14
"""A request has this many bytes before its client id."""
LARGEST_FRAME = 1 << 28
LONGEST_CLIENT_ID = 1000
UNKNOWN_NODE = -1
TLS = (b"\x16\x03", b"\x17\x03")
INSTEAD = (
    ": a proxy between client and broker can write a capture in plaintext (wirebroker proxy --upstream-tls-ca … --capture FILE)"
)
LOOPBACK = {"localhost": "127.0.0.1"}


class RecordedRequest(NamedTuple):
    """A request of a session."""

    connection: Connection
    frame: memoryview
    """the frame with its size in front"""


class RecordedExchange(NamedTuple):
    """A request of a session, and its response if the capture has it."""

    exchange: ForwardedExchange
    response: Message | None


Recorded = RecordedRequest | RecordedExchange


def _ignored(each: Recorded) -> None:
    """The default value of `event`, which does nothing."""


class Session:
    """A capture that is being read. `row` is called with each row of the trace, `event` with each request and each response."""

    def __init__(self, row: Callable[[Row], None], event: Callable[[Recorded], None] = _ignored) -> None:
        self.complaints: list[str] = []
        """Sentences about unreadable bytes."""
        self._proxy = Observer(self._node, row, event)
        self._nodes: dict[Endpoint, int] = {}
        self._conversations: dict[Stream, _Conversation] = {}
        self._packets, self._encrypted, self._seen, self._cut = 0, 0, 0, 0
        self._unread: set[int] = set()
        """The link types of packets that cannot be read."""
        self.places: tuple[Places, Places] = (), ()
        """While a `reply` row is being made: where the file has the bytes of the request, and of the response."""
        self.place = ""
        """The client's host and the listener of its connection."""

    @property
    def is_empty(self) -> bool:
        """Tells whether the session has no readable request. In this case a complaint gives the reason."""
        return not self._seen

    @property
    def directory(self) -> Directory:
        """The topics and other names that the session has shown so far."""
        return self._proxy.directory

    def read(self, file: BinaryIO) -> None:
        """Read a whole capture. Raises OSError, and raises DamagedCapture if the capture has no packet at all."""
        for _ in self.reading(file):
            pass

    def reading(self, file: BinaryIO) -> Iterator[None]:
        """Reads a whole capture like `read`, but one packet in each step."""
        streams, now = Streams(), 0
        try:
            for packet in read_packets(file):
                self._packets, now = self._packets + 1, packet.time
                self._cut += packet.is_cut
                if packet.link not in LINKS:
                    self._unread.add(packet.link)
                segment = segment_of(packet)
                for event in streams.take(segment) if segment is not None else ():
                    self._take(event)
                yield
        except DamagedCapture as damage:
            if not self._packets:
                raise
            self.complaints.append(f"{damage}; the {self._packets} packets before it are read")
        for event in streams.rest():
            self._take(event)
        for conversation in self._conversations.values():
            self._proxy.disconnected(conversation.relay.connection, "the capture ends", now // 1000)
        cut = f"{self._cut} of the {self._packets} packets are cut by a snap length (tcpdump -s 0 captures whole packets)"
        if self._seen and self._cut:
            self.complaints.append(f"{cut}, so requests and responses are missing")
        if not self._seen:
            hint = f"; {self._encrypted} of its pieces are encrypted (TLS){INSTEAD}" if self._encrypted else ""
            if self._unread:
                hint += f"; packets of link type {', '.join(map(str, sorted(self._unread)))} cannot be read"
            if self._cut:
                hint += f"; {cut}"
            self.complaints.append(f"no request of Kafka's protocol is in the {self._packets} packets{hint}")

    def _take(self, event: Piece | Ended) -> None:
        conversation = self._conversations.get(event.stream)
        if isinstance(event, Ended):
            if self._conversations.pop(event.stream, None) is not None and conversation is not None:
                self._proxy.disconnected(conversation.relay.connection, event.reason, event.time // 1000)
        elif conversation is not None:
            conversation.take(event)
        elif event.stream.client in (None, event.sender) and is_request(event.data, event.after_gap):
            self._begin(event).take(event)
        else:
            self._encrypted += event.data[:2] in TLS
        self._proxy.take_effects()

    def _begin(self, first: Piece) -> _Conversation:
        stream = first.stream
        stream.client = first.sender
        node_id = self._nodes.get(stream.server, UNKNOWN_NODE)
        listener = "{}:{}".format(*stream.server)
        relay = self._proxy.connect(node_id, first.sender[0], listener, first.time // 1000)
        self._seen += 1
        made = self._conversations[stream] = _Conversation(relay, self)
        return made

    def _node(self, host: str, port: int, node_id: int) -> Endpoint:
        """After a response has named the node id of a broker, set this id in the connections to the broker. Returns the
        broker's address unchanged."""
        where = LOOPBACK.get(host, host), port
        self._nodes[where] = node_id
        for stream, conversation in self._conversations.items():
            if stream.server == where:
                conversation.relay.connection.node_id = node_id
        return host, port


class Observer(Proxy):
    """A proxy that forwards nothing, and reports each request and its response."""

    def __init__(
        self,
        locate: Callable[[str, int, int], Endpoint],
        row: Callable[[Row], None],
        event: Callable[[Recorded], None],
    ) -> None:
        super().__init__(0, locate)
        self._event = event
        self.trace_at("all")
        self.trace.sinks.append(row)

    def forward(self, connection: Connection, data: Buffer) -> None:
        self._event(RecordedRequest(connection, memoryview(data)))

    def observe(self, exchange: ForwardedExchange, response: Message) -> None:
        super().observe(exchange, response)
        self._event(RecordedExchange(exchange, response))

    def unanswered(self, exchange: ForwardedExchange) -> None:
        super().unanswered(exchange)
        self._event(RecordedExchange(exchange, None))


class _Conversation:
    """One connection: its frames, and the relay that gets them."""

    def __init__(self, relay: Relay, session: Session) -> None:
        self.relay, self._session = relay, session
        self._requests = _Frames(is_request)
        self._responses = _Frames(self._is_response)
        self._asked: Bounded[int, Places] = Bounded(MOST_ASKED)
        """For each request that still awaits a response, by correlation id: the places of the request's bytes in the file."""

    def take(self, piece: Piece) -> None:
        """Take bytes, and pass each frame that they complete to the relay."""
        relay, now = self.relay, piece.time // 1000
        if piece.sender == piece.stream.client:
            for frame, places in self._requests.take(piece):
                if len(frame) >= HEADER:
                    self._asked.put(SIZE.unpack_from(frame, 8)[0], places)
                relay.from_client(memoryview(frame), now)
        else:
            for frame, places in self._responses.take(piece):
                if self._is_response(frame, False):
                    self._session.places = self._asked.pop(SIZE.unpack_from(frame, SIZE_BYTES)[0], ()), places
                    self._session.place = f"{relay.connection.client_host} {relay.connection.listener}"
                    relay.proxy.set_time(now)
                    relay.from_broker(memoryview(frame), now)

    def _is_response(self, data: bytes, after_gap: bool) -> bool:
        """Tells whether these bytes begin with a response that the client awaits."""
        if self.relay.connection.state is CLOSED or len(data) < SIZE_BYTES * 2 or not _is_size(data):
            return False
        return self.relay.expects(SIZE.unpack_from(data, SIZE_BYTES)[0])


class _Frames:
    """The frames of one direction of a connection. After a gap, all bytes are skipped up to a piece that begins with a
    frame."""

    def __init__(self, begins: Callable[[bytes, bool], bool]) -> None:
        self._begins = begins
        self._frames = FrameReader(LARGEST_FRAME, least=1)
        self._lost = False
        self._places: deque[tuple[int, int]] = deque()
        """The places at which the file has the bytes of an incomplete frame."""

    def take(self, piece: Piece) -> Iterator[tuple[bytes, Places]]:
        """Yields each whole frame, which begins with its size, and the frame's places in the file."""
        if piece.after_gap:
            self._lose()
        if self._lost and not self._begins(piece.data, True):
            return
        self._lost = False
        self._frames.feed(piece.data)
        self._places.append((piece.at, len(piece.data)))
        try:
            while (frame := self._frames.next()) is not None:
                yield frame, self._places_of(len(frame))
        except ProtocolError:
            self._lose()

    def _lose(self) -> None:
        self._frames.keep(b"")
        self._places.clear()
        self._lost = True

    def _places_of(self, size: int) -> Places:
        """Returns the positions of the next `size` bytes in the file."""
        found: list[tuple[int, int]] = []
        while size > 0 and self._places:
            at, length = self._places.popleft()
            found.append((at, min(length, size)))
            if length > size:
                self._places.appendleft((at + size, length - size))
            size -= length
        return tuple(found)


def _is_size(data: bytes | bytearray) -> bool:
    return 0 < int(SIZE.unpack_from(data)[0]) <= LARGEST_FRAME


def is_request(data: bytes, after_gap: bool) -> bool:
    """Tells whether these bytes begin with a request: the header is possible, and the request can be decoded if all its bytes
    are here."""
    if len(data) < HEADER:
        return not after_gap and data[0] == 0  # the size of a frame below 16 MiB begins with a 0 byte
    if not _is_size(data):
        return False
    size, key, version = SIZE.unpack_from(data)[0], *(int.from_bytes(data[at : at + 2], "big") for at in (4, 6))
    client_id = int.from_bytes(data[12:14], "big", signed=True)
    if key not in APIS or not -1 <= client_id <= min(size - 10, LONGEST_CLIENT_ID):
        return False
    cls = request_class(key)
    oldest, newest = cls.__schema__.versions
    if version > newest or len(data) < SIZE_BYTES + size or version < oldest:
        return version <= newest
    try:
        frame = memoryview(data)[SIZE_BYTES : SIZE_BYTES + size]
        decode(cls, frame, version, read_request_header(frame).end)
    except ProtocolError:
        return False
    return True
