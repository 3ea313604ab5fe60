"""One client's connection and its connection to a broker: bytes in, effects out.

Most requests and responses pass in the pieces in which they arrive, and the relay reads only their headers. A response has no
API key. The broker answers in the order of the requests, so the relay keeps a queue of the responses that it awaits.

A request that a fault rule may match waits until the responses before it have passed, as a broker handles a connection's
requests one at a time. So a response of the proxy's own never overtakes a response of the broker.

The states of the client's requests (`Flow`):

    DRAINING ◀─▶ PASSING ◀─▶ SENDING

Requests also wait while the connection has a parked request, and after the connection is closed.
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
    is_spoken,
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
"""Bytes of a request up to its correlation id."""
RESPONSE_START = 8
MOST_NAMED = 8
"""The most unanswered requests that are named when a connection closes."""
BEGINNING = struct.Struct(">ihhi")
"""Size, API key, version and correlation id of a request."""
SIZE_CORRELATION = struct.Struct(">ii")
LONGEST_START = 1 << 17
"""Bytes of a Produce up to its acks: two names of up to 32 KiB and the tags of the header."""
DESCRIBE_PRODUCERS = KEYS["DescribeProducers"]
METADATA = KEYS["Metadata"]
BEFORE_LOGIN = frozenset((API_VERSIONS, KEYS["SaslHandshake"], KEYS["SaslAuthenticate"], -1))
"""The APIs to which a broker responds before authentication; −1 is a token without a header."""
OWN_CLIENT_ID, OWN_CORRELATION_ID = "wirebroker-proxy", -1
"""The header of the proxy's own requests."""
KNOCK_VERSION = 1
"""The first version of Metadata that can request no topic."""
RESPONSE_LIMIT = 1 << 28
"""Bytes of the largest response that the relay decodes."""
SASL_HANDSHAKE = KEYS["SaslHandshake"]
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""The first bytes of an alert and of a handshake of TLS. An alert of seven bytes is shorter than any response."""
SPEAKS_TLS = "the broker speaks TLS; give --upstream-tls-ca"
WANTS_TLS = "does it want TLS (--upstream-tls-ca)?"


class Awaited(NamedTuple):
    """A response that the broker owes. A raw SASL token and its response have no header (`key` −1)."""

    correlation_id: int
    key: int
    version: int
    exchange: ForwardedExchange | None = None
    own: bool = False
    """Whether this responds to the proxy's own request; the client does not receive it."""

    @property
    def looked_at(self) -> bool:
        """Whether the response has to be decoded."""
        return self.exchange is not None or self.own or is_read(self.key, self.version)

    @property
    def is_outdated(self) -> bool:
        """Whether Kafka 4.0 dropped this version (KIP-896)."""
        return 0 <= self.version < spoken(self.key)[0]


@cache
def is_read(key: int, version: int) -> bool:
    """Whether every response to this API in this version has to be decoded."""
    return key in TEACHING or carries_addresses(key, version)


class Flow(Enum):
    """How the relay treats the client's requests."""

    PASSING = "passes them on"
    DRAINING = "keeps them until the responses to the requests before them have passed"
    SENDING = "keeps them until a response in the shape of a fault is sent"


PASSING, DRAINING, SENDING = Flow  # a name of a module is found faster than a member of an enum


class Way(NamedTuple):
    """One of the two directions of a connection."""

    reader: FrameReader
    pass_known: Callable[[memoryview, int], int]
    """The shortcut. Returns the position after the frames that need no decoding."""
    look: Callable[[memoryview], tuple[int, str]]
    """Decides by its first bytes what happens to any other frame."""
    take: Callable[[memoryview, int], bool]
    """Handles a complete frame that has to be decoded."""
    send: Callable[[Buffer], None]
    """Passes bytes on."""


class Relay:
    """Forwards requests from a client to a broker, and responses back."""

    def __init__(self, proxy: ProxyParts, connection: Connection) -> None:
        self.proxy = proxy
        self.connection = connection
        self._client = FrameReader()
        self._broker = FrameReader()
        self._requests = Way(self._client, self.pass_requests, self._look_at_request, self._receive, self._forward)
        self._responses = Way(self._broker, self.pass_responses, self._look_at_response, self._take_response, self._send_bytes)
        self._awaited: deque[Awaited] = deque()
        self._tokens = False
        """Whether the client may send SASL tokens without a header, after a SaslHandshake of version 0."""
        self.flow = PASSING
        self.broker_has_sent = False
        """Whether the broker has sent anything."""
        self._is_served = False
        """Whether the broker has responded to a request that needs an authenticated client."""
        self._may_ask = False
        """Whether the proxy wants to send DescribeProducers, and the broker responds to it."""
        self._acknowledged: tuple[int, bytes] = -1, b""
        """The version of the last Produce with acks ≠ 0, and its bytes from the client id to the acks."""
        self._nameless = NamelessResponses()
        self.mutes = Mutes()

    @property
    def holds_client(self) -> bool:
        """Whether the client's next request has to wait, so that reading more of it is useless."""
        return self.flow is not PASSING or self.connection.parked is not None or self.connection.state is CLOSED

    @property
    def whole_request(self) -> int:
        """The size of an arriving request that has to be whole before it passes, or 0 if there is none."""
        return self._client.lacking

    @property
    def whole_response(self) -> int:
        """The size of the response that is arriving and has to be complete before it is forwarded, or 0 if there is none."""
        return self._broker.lacking

    @property
    def has_kept(self) -> bool:
        """Whether the client has sent bytes that are not forwarded yet."""
        return bool(self._client.tail)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits: neither bytes of either side nor the client's next request."""
        return (
            not (self._client.tail or self._broker.tail or self.flow is not PASSING or self.connection.parked is not None)
            and self.connection.state is not CLOSED
        )

    def awaits(self, exchange: ForwardedExchange) -> bool:
        """Whether the broker owes the response to this request."""
        return bool(self._awaited) and self._awaited[-1].exchange is exchange

    def expects(self, correlation_id: int) -> bool:
        """Whether a response with this correlation id, or a response without a header, is awaited.

        Earlier responses never come. Use it for a connection with missing parts, as in a capture.
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
        """Whether the broker owes the response to a SASL token without a header."""
        return bool(self._awaited) and self._awaited[0].key < 0

    def unanswered(self) -> tuple[str, ...]:
        """The APIs of the client's requests that await a response, oldest first."""
        return tuple(api_name(each.key) if each.key >= 0 else "" for each in islice(self._awaited, MOST_NAMED) if not each.own)

    # Bytes of both directions

    def _pass(self, way: Way, data: memoryview, now: int, pos: int) -> None:
        """Pass the frames in `data` on, and keep the bytes that have to wait.

        The shortcut has handled the bytes before `pos`. `begin` is the position of the first byte that is not forwarded.
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
        """The shortcut: pass the requests at `pos` that need no decoding. The last request may still be arriving.

        Returns the position of the first byte that does not pass. If it is the end, the caller sends all of `data` to the
        broker, else it gives `data` to `from_client` with this position.
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
        """Bytes of the client have arrived; their buffer is not kept. `now` is in ms since the epoch.

        The shortcut has decided about the first `passed` bytes.
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
        """Continue with requests that had to wait, if nothing holds them any more."""
        if self.flow is DRAINING and not self._owes_responses:
            self.flow = PASSING
        if self._client.tail and not self.holds_client and self._client.needed <= len(self._client.tail):
            self.from_client(memoryview(b""), now)

    def _is_acknowledged(self, version: int, data: memoryview) -> bool:
        """Tells from the arrived bytes of a Produce whether acks ≠ 0. The requests of a producer begin with the same bytes."""
        known_version, start = self._acknowledged
        if version == known_version and data[REQUEST_START : REQUEST_START + len(start)] == start:
            return True
        found = _acks(data[SIZE_BYTES:])
        if found is None or not found.acknowledged:
            return False
        self._acknowledged = version, bytes(data[REQUEST_START : SIZE_BYTES + found.end])
        return True

    def _look_at_request(self, data: memoryview) -> tuple[int, str]:
        """Decide about the request at the beginning of `data`.

        Returns the number of bytes that must be there before it can pass, and a reason to close the connection or "".
        The number 0 means: it passes as it arrives if `passing` is set, else it is there as a whole and is looked at.
        """
        if len(data) < SIZE_BYTES:
            return REQUEST_START, ""
        size = frame_end(data)
        if not REQUEST_START <= size <= self.proxy.frame_limit:
            if refused := self._refused(data, size):
                return (self._drain(SIZE_BYTES), "") if self._owes_responses else (0, refused)  # a broker responds first
            return self._pass_token(data, size), ""
        return (self._begun(data, size) if len(data) >= REQUEST_START else REQUEST_START), ""

    def _refused(self, data: memoryview, size: int) -> str:
        """Returns why a request of this size closes the connection, or "" if the size is allowed."""
        if not SIZE_BYTES <= size <= self.proxy.frame_limit:
            return self.proxy.oversized(bytes(data[:SIZE_BYTES]), size - SIZE_BYTES)
        return f"the client's request of {size - 4} bytes has no header" if size < REQUEST_START and not self._tokens else ""

    def _begun(self, data: memoryview, size: int) -> int:
        """Decide about a request whose header's beginning has arrived; `size` includes the four bytes of the size."""
        key, version, correlation_id = KEY_VERSION_CORRELATION.unpack_from(data, SIZE_BYTES)
        if self._tokens and not _is_known(key, version):
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
        """Send the broker a small request before a large request is kept. The broker closes the connection if it has not
        authenticated the client.
        """
        self._ask_broker(MetadataRequest(topics=[]), METADATA, KNOCK_VERSION)
        return self._drain(REQUEST_START)

    def _pass_token(self, data: memoryview, size: int) -> int:
        """Forward a SASL token without a header, or its bytes so far. Its response has no header either."""
        self.proxy.logins.bare_token(self.connection, bytes(data[SIZE_BYTES:size]))
        self._awaited.append(Awaited(-1, -1, -1))
        self._client.passing = size
        return 0

    def _drain(self, needed: int) -> int:
        """Keep the request until the responses before it have passed; `needed` of its bytes have arrived."""
        self.flow = DRAINING
        return needed

    @property
    def _owes_responses(self) -> bool:
        """Whether a response of the broker is awaited, or is arriving."""
        return bool(self._awaited) or self._broker.passing > 0

    def _forward(self, data: Buffer) -> None:
        self.proxy.forward(self.connection, data)

    def _receive(self, whole: memoryview, now: int) -> bool:
        """Look at a request, let faults act on it, and forward it. A request that cannot be read is forwarded as it is.

        Returns whether the next request may follow.
        """
        proxy = self.proxy
        moments = [proxy.moment()] if proxy.measures else None
        key, version, correlation_id = KEY_VERSION_CORRELATION.unpack_from(whole, SIZE_BYTES)
        if proxy.trace.verdicts and key != API_VERSIONS and not is_spoken(key, version):
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
        """Send a request, with its size, to the broker."""
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
        """Send a request of the proxy's own."""
        self._awaited.append(Awaited(OWN_CORRELATION_ID, key, version, own=True))
        self.proxy.forward(self.connection, encode_request(OWN_CORRELATION_ID, OWN_CLIENT_ID, question, version))

    # From the broker

    def pass_responses(self, data: memoryview, pos: int = 0) -> int:
        """The shortcut for responses, as `pass_requests`."""
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
        """Bytes of the broker have arrived; their buffer is not kept."""
        self.broker_has_sent = True
        taken = self._broker.taken(data)
        if taken is not None and self.connection.state is not CLOSED:
            self._pass(self._responses, taken, now, passed)
        if self._client.tail:
            self.go_on(now)

    def _look_at_response(self, data: memoryview) -> tuple[int, str]:
        """Decide about the response at the beginning of `data`, as `_look_at_request` decides about a request."""
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
        """Handle a whole response. Returns whether the next response may follow."""
        self._response(self._awaited.popleft(), frame)
        return self.connection.state is not CLOSED

    def _send_bytes(self, data: Buffer) -> None:
        self._send([data])

    def _response(self, awaited: Awaited, frame: memoryview) -> None:
        """Look at a response, replace the addresses in it, and pass it on."""
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
        """A response cannot be decoded. It passes unchanged, unless it may carry an address that leads past the proxy."""
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
        """Returns a sentence for the log about a broker that has closed its connection."""
        if bytes(self._broker.tail[:2]) in TLS_RECORDS:
            return SPEAKS_TLS
        if self._broker.tail or self._broker.passing:
            return "the broker closed it in the middle of a response"
        if self._awaited and self._awaited[0].own and self._awaited[0].key == METADATA:
            return "the broker closed it; it does not know the client, whose large request the proxy does not keep"
        if self._awaited and self._awaited[0].is_outdated:
            owed = self._awaited[0]
            return (
                f"the broker closed it instead of answering {api_name(owed.key)} v{owed.version}, which Kafka 4 does not read"
            )
        if self._awaited and not self.broker_has_sent:
            return f"the broker closed it before its first response; {WANTS_TLS}"
        return "the broker closed it"

    def ended(self) -> None:
        """The connection has closed: responses that are still awaited never arrive."""
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


def _is_known(key: int, version: int) -> bool:
    """Whether Kafka has this API in this version. The bytes of a SASL token hardly ever look like such a header."""
    return key in KEYS.values() and 0 <= version <= request_class(key).__schema__.versions[1]


def _misunderstood(first: bytes, awaited: Awaited | None) -> str:
    """Returns a sentence about a response that makes no sense, with its first bytes."""
    if first[:2] in TLS_RECORDS:
        return SPEAKS_TLS
    if awaited is None:
        return "the broker sent a response to no request"
    return (
        f"the broker's response is not the one to request {awaited.correlation_id} ({api_name(awaited.key)}); "
        f"it begins with {first.hex(' ')}"
    )


class _Acks(NamedTuple):
    """The position after the acks in the frame of a Produce, and whether the acks are not 0."""

    end: int
    acknowledged: bool


def _acks(frame: memoryview) -> _Acks | None:
    """Returns the acks of a Produce, or None if too little of it has arrived, or it cannot be read."""
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
