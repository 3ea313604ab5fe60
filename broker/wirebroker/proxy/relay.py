"""The relay of one client's connection to a broker. The relay takes bytes from both sides, and returns effects.

The relay forwards most requests and responses in the pieces in which they arrive, and reads only their headers. A response does
not name its API. The broker responds in the order of the requests, so the relay keeps a queue of expected responses.

A request that a fault rule may match waits until all earlier responses were forwarded. So a response that the proxy makes never
overtakes a response of the broker.

The states of the client's requests (`Flow`):

    DRAINING ◀─▶ PASSING ◀─▶ SENDING

Requests also wait while the connection has a parked request, and when the connection is closed.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import cache
from itertools import islice
from typing import NamedTuple

from kafkawire.codec import decode
from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import (
    KEY_VERSION_CORRELATION,
    SIZE,
    SIZE_BYTES,
    FrameReader,
    decode_response,
    encode_request,
    encode_response,
    frame_end,
    read_request_header,
    written_version,
)
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.describe_producers import DescribeProducersResponse
from kafkawire.messages.fetch import FetchResponse
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.produce import ProduceRequest
from kafkawire.primitives import Buffer, read_uvarint
from kafkawire.registry import (
    API_VERSIONS,
    KEYS,
    PRODUCE,
    api_name,
    is_dropped,
    is_known,
    request_class,
    request_header_version,
    spoken,
)
from wirebroker.proxy.addresses import CARRIERS, NamelessResponses, carries_addresses, limit_versions, redirect
from wirebroker.proxy.directory import TEACHING
from wirebroker.proxy.exchange import ForwardedExchange, Mutes, ProxyParts
from wirebroker.requests.connection import CLOSED, OPEN, SILENT, Connection
from wirebroker.requests.effects import Respond
from wirebroker.trace.recorder import UNMEASURED

REQUEST_START = SIZE_BYTES + KEY_VERSION_CORRELATION.size
"""The number of bytes of a request up to and including its correlation id."""
RESPONSE_START = 8
MOST_NAMED = 8
"""When a connection closes, the log names at most this many unanswered requests."""
BEGINNING = struct.Struct(">ihhi")
"""Size, API key, version and correlation id of a request."""
SIZE_CORRELATION = struct.Struct(">ii")
LONGEST_START = 1 << 17
"""The acks of a Produce are within this many bytes. Before them are two names of up to 32 KiB, and the header's tagged fields.
"""
DESCRIBE_PRODUCERS = KEYS["DescribeProducers"]
METADATA = KEYS["Metadata"]
BEFORE_LOGIN = frozenset((API_VERSIONS, KEYS["SaslHandshake"], KEYS["SaslAuthenticate"], -1))
"""The APIs to which a broker responds before the client authenticates. −1 stands for a SASL token without a request header.
"""
OWN_CLIENT_ID, OWN_CORRELATION_ID = "wirebroker-proxy", -1
"""The client id and the correlation id of the proxy's own requests."""
KNOCK_VERSION = 1
"""The version of the small Metadata request. From this version on, an empty list of topics asks for no topic; in earlier
versions it asks for all topics."""
RESPONSE_LIMIT = 1 << 28
"""The size in bytes of the largest response that the relay decodes."""
SASL_HANDSHAKE = KEYS["SaslHandshake"]
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""The first bytes of a TLS alert and of a TLS handshake. An alert has seven bytes, fewer than any response."""
SPEAKS_TLS = "the broker speaks TLS; give --upstream-tls-ca"
WANTS_TLS = "does it want TLS (--upstream-tls-ca)?"


class Awaited(NamedTuple):
    """A response that the broker has not sent yet. The response to a bare SASL token has no header (`key` −1)."""

    correlation_id: int
    key: int
    version: int
    exchange: ForwardedExchange | None = None
    own: bool = False
    """Tells whether the proxy itself sent the request. If so, the response is not forwarded to the client."""

    @property
    def looked_at(self) -> bool:
        """Tells whether the response has to be decoded."""
        return self.exchange is not None or self.own or is_read(self.key, self.version)

    @property
    def is_outdated(self) -> bool:
        """Tells whether Kafka 4.0 has dropped this version of the API (KIP-896)."""
        return 0 <= self.version < spoken(self.key)[0]


@cache
def is_read(key: int, version: int) -> bool:
    """Tells whether every response to this API in this version has to be decoded."""
    return key in TEACHING or carries_addresses(key, version)


class Flow(Enum):
    """The state of the relay. It determines what happens to the client's requests."""

    PASSING = "passes them on"
    DRAINING = "keeps requests until the responses to earlier requests were forwarded"
    SENDING = "keeps requests until a response that a fault changed is sent"


PASSING, DRAINING, SENDING = Flow  # access to a module's variable is faster than to an enum's member


class Way(NamedTuple):
    """One of the two directions of a connection."""

    reader: FrameReader
    pass_known: Callable[[memoryview, int], int]
    """The fast path: finds frames that need no decoding, and returns the position after these frames."""
    look: Callable[[memoryview], tuple[int, str]]
    """Gets the first bytes of a frame at which `pass_known` stopped, and decides how to handle the frame."""
    take: Callable[[memoryview, int], bool]
    """Handles a complete frame that has to be decoded."""
    send: Callable[[Buffer], None]
    """Passes bytes on."""


class Relay:
    """Forwards requests from a client to a broker, and responses from the broker to the client."""

    def __init__(self, proxy: ProxyParts, connection: Connection) -> None:
        self.proxy = proxy
        self.connection = connection
        self._client = FrameReader()
        self._broker = FrameReader()
        self._requests = Way(self._client, self.pass_requests, self._look_at_request, self._receive, self._forward)
        self._responses = Way(self._broker, self.pass_responses, self._look_at_response, self._take_response, self._send_bytes)
        self._awaited: deque[Awaited] = deque()
        self._tokens = False
        """Tells whether the client may send SASL tokens without a header. A client may do this after version 0 of
        SaslHandshake."""
        self.flow = PASSING
        self.broker_has_sent = False
        """Tells whether the broker has sent anything."""
        self._is_served = False
        """Tells whether the broker has responded to a request that only an authenticated client may send."""
        self._may_ask = False
        """Tells whether the relay may send DescribeProducers. It may do so if the proxy sends requests of its own, and the
        broker supports this API."""
        self._acknowledged: tuple[int, bytes] = -1, b""
        """The version of the last Produce with acks ≠ 0, and the bytes of this request from its client id to its acks."""
        self._nameless = NamelessResponses()
        self.mutes = Mutes()

    @property
    def holds_client(self) -> bool:
        """Tells whether the client's next request has to wait. During the wait, there is no reason to read more from the
        client."""
        return self.flow is not PASSING or self.connection.parked is not None or self.connection.state is CLOSED

    @property
    def whole_request(self) -> int:
        """The size of an arriving request that has to be complete before it is forwarded, or 0 if there is no such request."""
        return self._client.lacking

    @property
    def whole_response(self) -> int:
        """The size of an arriving response that has to be complete before it is forwarded, or 0 if there is no such
        response."""
        return self._broker.lacking

    @property
    def is_idle(self) -> bool:
        """Tells whether the connection is open, and nothing waits: no request, and no bytes from the client or the broker."""
        return (
            not (self._client.tail or self._broker.tail or self.flow is not PASSING or self.connection.parked is not None)
            and self.connection.state is not CLOSED
        )

    def awaits(self, exchange: ForwardedExchange) -> bool:
        """Tells whether the broker still has to send the response to this request."""
        return bool(self._awaited) and self._awaited[-1].exchange is exchange

    def expects(self, correlation_id: int) -> bool:
        """Tells whether a response with this correlation id, or a response without a header, is expected.

        A capture may lack parts of a connection. So if this response is expected, the relay stops expecting the earlier
        responses.
        """
        awaited = self._awaited
        if not awaited or awaited[0].key < 0:
            return bool(awaited)
        if all(each.correlation_id != correlation_id for each in awaited):
            return False
        while awaited[0].correlation_id != correlation_id:
            missing = awaited.popleft().exchange
            if missing is not None:
                self.proxy.unanswered(missing)
        return True

    @property
    def awaits_token(self) -> bool:
        """Tells whether the next response from the broker is the response to a SASL token without a header."""
        return bool(self._awaited) and self._awaited[0].key < 0

    def unanswered(self) -> tuple[str, ...]:
        """Returns the APIs of the client's requests that have no response yet, oldest first."""
        return tuple(api_name(each.key) if each.key >= 0 else "" for each in islice(self._awaited, MOST_NAMED) if not each.own)

    # Bytes of both directions

    def _pass(self, way: Way, data: memoryview, now: int, pos: int) -> None:
        """Forward the frames in `data`, and keep the bytes that have to wait.

        `pass_known` has already checked the bytes before `pos`, so they can be forwarded. In the code, `begin` is the position
        of the first byte that is not forwarded yet.
        """
        reader, begin, end, needed, refused = way.reader, 0, len(data), 0, ""
        while pos < end:
            if reader.passing:
                pos = way.pass_known(data, pos + reader.passed(end - pos))
                continue
            needed, refused = way.look(data[pos:])
            if needed or refused:
                break
            if reader.passing:
                continue
            if pos > begin:
                way.send(bytes(data[begin:pos]))
            begin = frame_end(data, pos)
            whole, pos = memoryview(bytes(data[pos:begin])), begin
            if not way.take(whole, now):
                break
            if pos < end:
                pos = way.pass_known(data, pos)
        if pos > begin:
            way.send(bytes(data[begin:pos]))
        if refused:
            self.proxy.close(self.connection, refused)
        elif pos < end and self.connection.state is not CLOSED:
            reader.keep(data[pos:], needed)

    # From the client

    def pass_requests(self, data: memoryview, pos: int = 0) -> int:
        """The fast path for requests: find the requests after `pos` that need no decoding. The last request may still be
        arriving.

        Returns the position after these requests. If this is the end of `data`, the caller sends all of `data` to the broker.
        Otherwise the caller passes `data` and the position to `from_client`.
        """
        client, end = self._client, len(data)
        if client.tail or client.passing or self._tokens or self.holds_client:
            return pos
        faults, awaited, limit, looks_at = self.proxy.faults, self._awaited, self.proxy.frame_limit, self.proxy.looks_at
        while end - pos >= REQUEST_START:
            size, key, version, correlation_id = BEGINNING.unpack_from(data, pos)
            after = pos + size + SIZE_BYTES
            if after < pos + REQUEST_START or size > limit or key == SASL_HANDSHAKE or looks_at(key, version):
                break
            if key == PRODUCE and not self._is_acknowledged(version, data[pos:after]):
                break
            awaited.append(Awaited(correlation_id, key, version))
            if faults is not None:
                faults.arrived(key)
            if after > end:
                client.passing = after - end
                return end
            pos = after
        return pos

    def from_client(self, data: memoryview, now: int, passed: int = 0) -> None:
        """Handle bytes that have arrived from the client. The relay keeps no reference to the buffer `data`. `now` is in ms
        since the epoch.

        `pass_requests` has already checked the first `passed` bytes of `data`, so the relay forwards these bytes unread.
        """
        client = self._client
        if self.holds_client:
            client.tail += data
        elif (taken := client.taken(data)) is not None:
            self._pass(self._requests, taken, now, passed)
        elif self.proxy.faults is not None:
            with memoryview(client.tail) as tail, tail[SIZE_BYTES:] as part:
                self.proxy.faults.arriving(self.connection, part, now)

    def go_on(self, now: int) -> None:
        """Handle the requests that had to wait, if they do not have to wait any longer."""
        if self.flow is DRAINING and not self._owes_responses:
            self.flow = PASSING
        if self._client.tail and not self.holds_client and self._client.needed <= len(self._client.tail):
            self.from_client(memoryview(b""), now)

    def _is_acknowledged(self, version: int, data: memoryview) -> bool:
        """Tells whether a Produce has acks ≠ 0. Perhaps only the beginning of the request has arrived. The result is remembered
        with the request's first bytes, because all requests of one producer begin with the same bytes.
        """
        known_version, start = self._acknowledged
        if version == known_version and data[REQUEST_START : REQUEST_START + len(start)] == start:
            return True
        found = _acks(data[SIZE_BYTES:])
        if found is None or not found.acknowledged:
            return False
        self._acknowledged = version, bytes(data[REQUEST_START : SIZE_BYTES + found.end])
        return True

    def _look_at_request(self, data: memoryview) -> tuple[int, str]:
        """Decide how to handle the request at the beginning of `data`.

        Returns two values: the number of bytes that must arrive before the request can be forwarded or handled, and the reason
        to close the connection ("" if there is none). If the number is 0, no more bytes are needed. If `passing` is set, the
        request is then forwarded as it arrives. Otherwise the request is complete and can be handled.
        """
        if len(data) < SIZE_BYTES:
            return REQUEST_START, ""
        size = frame_end(data)
        if not REQUEST_START <= size <= self.proxy.frame_limit:
            if refused := self._refused(data, size):
                return (self._drain(SIZE_BYTES), "") if self._owes_responses else (0, refused)  # earlier responses come first
            return self._pass_token(data, size), ""
        return (self._begun(data, size) if len(data) >= REQUEST_START else REQUEST_START), ""

    def _refused(self, data: memoryview, size: int) -> str:
        """Returns the reason to close the connection after a request of this size, or "" if the size is allowed."""
        if not SIZE_BYTES <= size <= self.proxy.frame_limit:
            return self.proxy.oversized(bytes(data[:SIZE_BYTES]), size - SIZE_BYTES)
        return f"the client's request of {size - 4} bytes has no header" if size < REQUEST_START and not self._tokens else ""

    def _begun(self, data: memoryview, size: int) -> int:
        """Decide how to handle a request when the beginning of its header has arrived. `size` includes the four bytes of the
        size field.
        """
        key, version, correlation_id = KEY_VERSION_CORRELATION.unpack_from(data, SIZE_BYTES)
        if self._tokens and not is_known(key, version):
            return self._pass_token(data, size)
        self._tokens = key == SASL_HANDSHAKE and version == 0
        faults = self.proxy.faults
        if faults is not None and self._owes_responses and faults.concerns(key):
            return self._drain(REQUEST_START)
        if self.proxy.looks_at(key, version):
            if len(data) >= size:
                return 0
            if size > self.proxy.strangers_limit and self.proxy.asks and not self._is_served:
                return self._knock()
            if faults is not None:
                faults.arriving(self.connection, data[SIZE_BYTES:], self.proxy.now)
            return size
        acks = _acks(data[SIZE_BYTES:size]) if key == PRODUCE else None
        if key == PRODUCE and acks is None and len(data) < min(size, LONGEST_START):
            return min(2 * len(data), size, LONGEST_START)
        if acks is None or acks.acknowledged:
            self._awaited.append(Awaited(correlation_id, key, version))
        if faults is not None:
            faults.arrived(key)
        self._client.passing = size
        return 0

    def _knock(self) -> int:
        """Send the broker a small Metadata request before the proxy buffers a client's large request. If the client is not
        authenticated, the broker closes the connection, and the proxy never buffers the large request.
        """
        self._ask_broker(MetadataRequest(topics=[]), METADATA, KNOCK_VERSION)
        return self._drain(REQUEST_START)

    def _pass_token(self, data: memoryview, size: int) -> int:
        """Forward a SASL token without a header, or the part of the token that has arrived. The response to the token has no
        header, either."""
        self.proxy.logins.bare_token(self.connection, bytes(data[SIZE_BYTES:size]))
        self._awaited.append(Awaited(-1, -1, -1))
        self._client.passing = size
        return 0

    def _drain(self, needed: int) -> int:
        """Hold back the request until the responses to all earlier requests have been forwarded."""
        self.flow = DRAINING
        return needed

    @property
    def _owes_responses(self) -> bool:
        """Tells whether the broker still has to send responses."""
        return bool(self._awaited) or self._broker.passing > 0

    def _forward(self, data: Buffer) -> None:
        self.proxy.forward(self.connection, data)

    def _receive(self, whole: memoryview, now: int) -> bool:
        """Decode a request, let faults act on it, and forward it. A request that cannot be decoded is forwarded unchanged.

        Returns whether the connection's next request may be handled now.
        """
        proxy = self.proxy
        moments = [proxy.moment()] if proxy.measures else None
        key, version, correlation_id = KEY_VERSION_CORRELATION.unpack_from(whole, SIZE_BYTES)
        if proxy.trace.verdicts and key != API_VERSIONS and is_dropped(key, version):
            proxy.trace.unsupported(self.connection, whole[SIZE_BYTES:], *spoken(key))
        try:
            header = read_request_header(whole[SIZE_BYTES:])
            request, _ = decode(request_class(key), whole[SIZE_BYTES:], version, header.end)
        except (ProtocolError, KeyError):
            self._awaited.append(Awaited(correlation_id, key, version))
            proxy.forward(self.connection, whole)
            return True
        if isinstance(request, ApiVersionsRequest):
            self.connection.software = (request.client_software_name, request.client_software_version)
        exchange = ForwardedExchange(self, key, version, correlation_id, header.client_id, now, request, whole)
        exchange.moments = moments
        if proxy.trace.exchanges:
            proxy.trace.requested(request, exchange)
        if proxy.faults is not None and proxy.faults.arrived(key):
            proxy.faults.receive(request, exchange)
        else:
            exchange.handle(request)
        return not self.holds_client

    def forward(self, whole: memoryview, exchange: ForwardedExchange) -> None:
        """Send the broker a request; `whole` includes the size field."""
        request = exchange.request
        if exchange.moments is not None:
            exchange.note_moment(1)
        if not (isinstance(request, ProduceRequest) and request.acks == 0):
            if self._may_ask and isinstance(request, ProduceRequest) and self.proxy.trace.verdicts:
                self._ask(exchange)
            self._awaited.append(Awaited(exchange.correlation_id, exchange.api_key, exchange.version, exchange))
        elif self.proxy.metrics is not None:
            self.proxy.metrics.passed(*exchange.sender, (), UNMEASURED)
        self.proxy.forward(self.connection, whole)

    def _ask(self, exchange: ForwardedExchange) -> None:
        """Ask the broker about the producers of a Produce, before forwarding the Produce."""
        question = self.proxy.question(exchange)
        if question is not None:
            self._ask_broker(question, DESCRIBE_PRODUCERS, 0)

    def _ask_broker(self, question: Message, key: int, version: int) -> None:
        """Send the broker a request that does not come from the client."""
        self._awaited.append(Awaited(OWN_CORRELATION_ID, key, version, own=True))
        self.proxy.forward(self.connection, encode_request(OWN_CORRELATION_ID, OWN_CLIENT_ID, question, version))

    # From the broker

    def pass_responses(self, data: memoryview, pos: int = 0) -> int:
        """The fast path for responses, which works like `pass_requests`."""
        broker, owed, end = self._broker, self._awaited, len(data)
        if broker.tail or broker.passing or self._client.tail or self.connection.state is not OPEN:
            return pos
        self.broker_has_sent = True
        while end - pos >= RESPONSE_START and owed:
            size, correlation_id = SIZE_CORRELATION.unpack_from(data, pos)
            after = pos + size + SIZE_BYTES
            expected, key, version, exchange, own = owed[0]
            if size < SIZE_BYTES or correlation_id != expected or key < 0 or exchange is not None or own:
                break
            if is_read(key, version) and not (
                key == PRODUCE and after <= end and self._nameless.includes(data[pos:after], version)
            ):
                break
            owed.popleft()
            self._is_served = self._is_served or key not in BEFORE_LOGIN
            if after > end:
                broker.passing = after - end
                return end
            pos = after
        return pos

    def from_broker(self, data: memoryview, now: int, passed: int = 0) -> None:
        """Handle bytes that have arrived from the broker. The relay keeps no reference to the buffer `data`."""
        self.broker_has_sent = True
        taken = self._broker.taken(data)
        if taken is not None and self.connection.state is not CLOSED:
            self._pass(self._responses, taken, now, passed)
        if self._client.tail:
            self.go_on(now)

    def _look_at_response(self, data: memoryview) -> tuple[int, str]:
        """Decide how to handle the response at the beginning of `data`. Returns the same as `_look_at_request`: the number of
        bytes that must arrive, and the reason to close the connection.
        """
        awaited = self._awaited[0] if self._awaited else None
        is_token = awaited is not None and awaited.key < 0
        start = SIZE_BYTES if is_token else RESPONSE_START
        if len(data) < start:
            return start, ""
        size = frame_end(data)
        if awaited is None or size < start or not (is_token or SIZE.unpack_from(data, SIZE_BYTES)[0] == awaited.correlation_id):
            return 0, _misunderstood(bytes(data[:RESPONSE_START]), awaited)
        self._is_served = self._is_served or awaited.key not in BEFORE_LOGIN
        if is_token:
            self.proxy.logins.bare_response(self.connection, bytes(data[SIZE_BYTES:size]))
        if not awaited.looked_at:
            self._awaited.popleft()
            self._broker.passing = size
            return 0, ""
        if size > RESPONSE_LIMIT:
            return 0, f"the broker announced a response of {size} bytes; the proxy reads up to {RESPONSE_LIMIT}"
        if awaited.exchange is not None and awaited.exchange.moments is not None:
            awaited.exchange.note_moment(2)
        return (size if len(data) < size else 0), ""

    def _take_response(self, frame: memoryview, now: int) -> bool:
        """Handle a whole response. Returns whether the connection's next response may be handled now."""
        self._response(self._awaited.popleft(), frame)
        return self.connection.state is not CLOSED

    def _send_bytes(self, data: Buffer) -> None:
        self._send([data])

    def _response(self, awaited: Awaited, frame: memoryview) -> None:
        """Decode a response, replace the addresses in it, and forward it."""
        key, version, exchange = awaited.key, awaited.version, awaited.exchange
        if exchange is not None and exchange.moments is not None:
            exchange.note_moment(3)
        try:
            version = written_version(frame[SIZE_BYTES:], key, version)
            _, response = decode_response(frame[SIZE_BYTES:], key, version)
        except (ProtocolError, KeyError) as damage:
            self._unreadable(awaited, frame, damage)
            return
        proxy = self.proxy
        if awaited.own:
            if isinstance(response, DescribeProducersResponse):
                proxy.described(response)
            return
        changed = carries_addresses(key, version) and redirect(response, proxy.locate)
        if isinstance(response, ApiVersionsResponse):
            self._may_ask = proxy.asks and any(each.api_key == DESCRIBE_PRODUCERS for each in response.api_keys)
            changed = limit_versions(response)
        if key in TEACHING:
            proxy.learned(response)
        parts: list[Buffer] = encode_response(awaited.correlation_id, response, version) if changed else [frame]
        if exchange is None:
            if isinstance(response, FetchResponse) and proxy.trace.verdicts:
                proxy.passing.groups.read(response)
            self._send(parts)
            return
        exchange.version = version
        proxy.observe(exchange, response)
        exchange.answered(response, parts)

    def _unreadable(self, awaited: Awaited, frame: memoryview, damage: Exception) -> None:
        """Forward a response that cannot be decoded. If the response may contain a broker's address, close the connection
        instead, so that the client cannot bypass the proxy.
        """
        if awaited.own:
            return
        if awaited.key in CARRIERS:
            self.proxy.close(self.connection, f"the broker's response cannot be read: {damage}")
        else:
            if awaited.exchange is not None:
                awaited.exchange.unpark()
            self._send([frame])

    def _send(self, parts: list[Buffer]) -> None:
        if self.connection.state is not SILENT:
            self.proxy.effects.append(Respond(self.connection, parts))

    # The end

    def broker_closed(self) -> str:
        """Returns the log message that says when or why the broker closed the connection."""
        if bytes(self._broker.tail[:2]) in TLS_RECORDS:
            return SPEAKS_TLS
        if self._broker.tail or self._broker.passing:
            return "the broker closed it in the middle of a response"
        if self._awaited and self._awaited[0].own and self._awaited[0].key == METADATA:
            return "the broker closed it because the client is not authenticated; the proxy did not buffer the client's request"
        if self._awaited and self._awaited[0].is_outdated:
            owed = self._awaited[0]
            return (
                f"the broker closed it instead of answering {api_name(owed.key)} v{owed.version}, which Kafka 4 does not read"
            )
        if self._awaited and not self.broker_has_sent:
            return f"the broker closed it before its first response; {WANTS_TLS}"
        return "the broker closed it"

    def ended(self) -> None:
        """Clear up after the connection has closed. The remaining requests will not get a response."""
        for awaited in self._awaited:
            if awaited.exchange is not None:
                self.proxy.unanswered(awaited.exchange)
        self._awaited.clear()
        for reader in (self._client, self._broker):
            reader.keep(b"")
            reader.passing = 0
        parked, self.connection.parked = self.connection.parked, None
        if parked is not None:
            parked.left()


def _misunderstood(first: bytes, awaited: Awaited | None) -> str:
    """Returns the message about an unexpected response that begins with the bytes `first`."""
    if first[:2] in TLS_RECORDS:
        return SPEAKS_TLS
    if awaited is None:
        return "the broker sent a response, but no request waited"
    return (
        f"the broker's response does not belong to request {awaited.correlation_id} ({api_name(awaited.key)}); "
        f"it begins with {first.hex(' ')}"
    )


class _Acks(NamedTuple):
    """The acks field of a Produce: the position after the field in the frame, and whether acks ≠ 0."""

    end: int
    acknowledged: bool


def _acks(frame: memoryview) -> _Acks | None:
    """Finds the acks field of a Produce. Returns None if the field has not arrived yet, or if the request cannot be read."""
    try:
        header = read_request_header(frame)
        pos = header.end
        if request_header_version(PRODUCE, header.api_version) == 2:
            length, pos = read_uvarint(frame, pos)
            pos += max(length - 1, 0)
        elif header.api_version >= 3:
            pos += 2 + max(int.from_bytes(frame[pos : pos + 2], "big", signed=True), 0)
        if pos + 2 > len(frame):
            return None
        return _Acks(pos + 2, bytes(frame[pos : pos + 2]) != b"\0\0")
    except (ProtocolError, struct.error, IndexError):
        return None
