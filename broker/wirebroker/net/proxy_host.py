"""A proxy's sockets: a listener for each node of the cluster, and a connection to a broker for each connection of a client."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from kafkawire.primitives import Buffer
from wirebroker.net.clock import Clock
from wirebroker.net.driver import Driver
from wirebroker.net.limits import Limits, configs_of_proxy
from wirebroker.net.listener import Address, is_loopback, reachable
from wirebroker.net.protocol import LARGE_FRAME, SHARED_BUFFER, WRITE_HIGH_WATER, oversized
from wirebroker.net.shaping import ShapedLine, reset_connection
from wirebroker.net.sockets import AT_ONCE, BACKLOG, ListenError, queue_connections, reason_of
from wirebroker.net.tls_transport import HandshakeTurns, TlsTransport
from wirebroker.proxy.exchange import Forward
from wirebroker.proxy.proxy import Proxy
from wirebroker.proxy.recorder import ProxyRecorder
from wirebroker.proxy.relay import Relay
from wirebroker.requests.connection import Connection
from wirebroker.requests.effects import Close, Respond, Shaped

logger = logging.getLogger("wirebroker")

DIAL_TIMEOUT_S = 10.0
UNKNOWN_NODE = -1
ELSEWHERE = (
    "a fault would strike clients of the cluster at {}; if you mean that, allow faults (--allow-faults, allow_faults=True)"
)

LENT = (
    "anyone who can connect to %s:%d acts towards the brokers with the proxy's certificate; want certificates from clients "
    "(--tls-client-ca, client_tls), or listen on 127.0.0.1"
)


class Node:
    """A node of the cluster: its own address, the proxy's address for it, and its id once a response has named it."""

    def __init__(self, upstream: Address, local: Address) -> None:
        self.upstream = upstream
        self.local = local
        self.node_id = UNKNOWN_NODE
        self.problem = ""
        """Why the last attempt to connect failed."""


class ProxyHost(Driver):
    """Drives a proxy. The listener at `listen` leads to `upstream`; each further node gets the next port (0: any free one).

    `configs` are the limits for clients (`limits.OF_PROXY`). With `lends_certificate` brokers take its clients for the owner of
    a certificate in `upstream_tls`. Raises ValueError for other settings.
    """

    def __init__(
        self, clock: Clock, upstream: Address, listen: Address, *, seed: int = 0, allow_faults: bool = False,
        advertised_host: str | None = None, configs: Mapping[str, object] = MappingProxyType({}),
        client_tls: ssl.SSLContext | None = None, upstream_tls: ssl.SSLContext | None = None,
        lends_certificate: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(clock)
        elsewhere = not (allow_faults or is_loopback(upstream[0]))
        refusal = ELSEWHERE.format(upstream[0]) if elsewhere else ""
        settings = configs_of_proxy(configs)
        self.limits: Limits[ClientSide] = Limits(settings)
        self.proxy = Proxy(
            clock.now(), self._locate, seed=seed, refuses_faults=refusal, oversized=oversized,
            frame_limit=settings.integer("socket.request.max.bytes"),
            strangers_limit=settings.integer("sasl.server.max.receive.size"),
        )  # fmt: skip
        self.proxy.asks = True
        self.proxy.moment = lambda: time.perf_counter_ns() // 1000
        self._upstream = upstream
        self._listen = listen
        self._advertised_host = advertised_host
        self._client_tls, self._upstream_tls = client_tls, upstream_tls
        self._lends_certificate = lends_certificate
        self._handshake_turns = HandshakeTurns(self.loop)
        self._nodes: dict[Address, Node] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._sides: dict[Connection, ClientSide] = {}
        self.buffer = bytearray(SHARED_BUFFER)
        """All connections receive into it: each read is passed on before the next begins."""

    @property
    def trace(self) -> ProxyRecorder:
        """The proxy's trace."""
        return self.proxy.trace

    async def start(self) -> Address:
        """Open the first listener. Returns its address. Raises ListenError."""
        node = self._open(self._upstream)
        await asyncio.gather(*self._starting)
        knows_clients = self._client_tls is not None and self._client_tls.verify_mode is ssl.CERT_REQUIRED
        if self._lends_certificate and not knows_clients and not is_loopback(self._listen[0]):
            logger.warning(LENT, *node.local)
        return node.local

    @property
    def address(self) -> Address:
        """The address of the first listener."""
        return self._nodes[self._upstream].local

    def _locate(self, host: str, port: int, node_id: int) -> Address:
        """The proxy's address for a node. An unknown node gets a listener before a client learns the address."""
        node = self._nodes.get((host, port))
        if node is None:
            try:
                node = self._open((host, port))
            except ListenError as refused:
                logger.error("clients cannot reach node %d through this proxy: %s", node_id, refused)
                return "", 0  # a client does not connect to an empty host, and must not go past the proxy
            logger.info("node %d at %s:%d is reached by %s:%d", node_id, host, port, *node.local)
        if node.node_id != node_id:
            self._learned(node, node_id)
        return node.local

    def _learned(self, node: Node, node_id: int) -> None:
        """A response has named a node; connections through its listener are known by its id from now on."""
        node.node_id = node_id
        for connection, side in self._sides.items():
            if side.node is node:
                connection.node_id = node_id

    def _open(self, upstream: Address) -> Node:
        """Bind a listener at once, so that its address is known, and start it."""
        host, port = self._listen
        bound = self._bound(host, port + len(self._nodes) if port else 0)
        node = Node(upstream, (self._advertised_host or reachable(host), bound.getsockname()[1]))
        self._nodes[upstream] = node
        task = self.loop.create_task(self._serve(node, bound))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return node

    def _bound(self, host: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        except (OSError, OverflowError) as refused:
            if port and self._nodes:
                return self._bound(host, 0)  # the next port is taken
            raise ListenError(f"cannot listen on {host}:{port}: {reason_of(refused)}") from refused

    async def _serve(self, node: Node, bound: socket.socket) -> None:
        server = await self.loop.create_server(lambda: self._protocol(node), sock=bound, backlog=AT_ONCE)
        queue_connections(server)
        self._servers.append(server)

    # Connections

    def _protocol(self, node: Node) -> asyncio.BaseProtocol:
        """The protocol of a client that connects."""
        side = self._captured(ClientSide(self, node))
        if self._client_tls is None:
            return side
        return TlsTransport(side, self._client_tls, "{}:{}".format(*node.local), self._handshake_turns)

    def connected(self, side: ClientSide, client_host: str, node: Node) -> Relay:
        """A client has connected: tell the proxy, and dial its broker."""
        relay = self.proxy.connect(node.node_id, client_host, "PLAINTEXT", self.clock.now())
        self._sides[relay.connection] = side
        return relay

    async def probe(self) -> None:
        """Connect to the first broker once, so that a wrong address is in the log before a client comes."""
        if (transport := await self._dial(asyncio.Protocol, self._nodes[self._upstream])) is not None:
            transport.close()

    async def dial(self, side: ClientSide) -> None:
        """Connect to the broker. The client's connection closes if that fails."""
        if await self._dial(lambda: BrokerSide(self, side), side.node) is None:
            side.unreached = True
            self.proxy.close(side.relay.connection, side.node.problem)
            self.flush()

    async def _dial(self, protocol: Callable[[], asyncio.BaseProtocol], node: Node) -> asyncio.BaseTransport | None:
        """Connect to a broker. Returns None if that fails. It is logged once for each reason, as clients try again and
        again."""
        host, port = node.upstream
        name = host if self._upstream_tls is not None else None
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                transport, _ = await self.loop.create_connection(
                    protocol, host, port, ssl=self._upstream_tls, server_hostname=name
                )
        except (OSError, TimeoutError, UnicodeError) as failure:
            problem = f"the broker at {host}:{port} cannot be reached: {_reason(failure)}"
            if problem != node.problem:
                node.problem = problem
                logger.warning("%s; the proxy closes clients' connections until it is reached", problem)
            return None
        if node.problem:
            node.problem = ""
            logger.info("the broker at %s:%d can be reached now", host, port)
        return transport

    def lost(self, relay: Relay, reason: str) -> None:
        """One side of a connection has closed."""
        self.proxy.disconnected(relay.connection, reason, self.clock.now())
        side = self._sides.pop(relay.connection, None)
        if side is not None:
            side.close(reset=False)
        self.flush()

    def left_unread(self, side: ClientSide) -> None:
        """A peer does not read: close the worst connection if all peers together leave too much unread."""
        worst = self.limits.congested(side)
        if worst is not None:
            reason = "what passes is not read at its other end, and takes too much memory"
            self.proxy.close(worst.relay.connection, reason, reset=True)
            worst.close(reset=True)  # also if it is closed already, and its last bytes are not read

    # Effects

    def flush(self) -> None:
        """Perform the proxy's effects, and continue with connections that had to wait."""
        proxy, sides = self.proxy, self._sides
        while proxy.effects:
            waiting: dict[Connection, ClientSide] = {}
            for effect in proxy.take_effects():
                connection = effect[0]
                side = sides.get(connection)
                if side is None:
                    continue
                if isinstance(effect, Forward):
                    side.to_broker(effect.data)
                elif isinstance(effect, Respond):
                    side.to_client(effect.parts)
                elif isinstance(effect, Shaped):
                    side.send_shaped(effect)
                else:
                    self._close(side, effect)
                if side.waits:
                    waiting[connection] = side
            for connection, side in waiting.items():
                self.go_on(side)
                if connection in sides:
                    side.balance()
        if proxy.timers.deadline() != self.alarm_at:
            self._set_alarm(proxy.timers.deadline())

    def go_on(self, side: ClientSide) -> None:
        """Continue with requests of a connection that had to wait."""
        try:
            side.relay.go_on(self.clock.now())
        except Exception:
            self.failed(side.relay)

    def _close(self, side: ClientSide, effect: Close) -> None:
        connection = effect.connection
        level = logging.DEBUG if side.unreached else logging.INFO
        logger.log(level, "connection %d from %s closed: %s", connection.number, connection.client_host, effect.reason)
        self._sides.pop(connection, None)
        side.close(effect.reset)

    def _wake(self) -> None:
        self._alarm = self.alarm_at = None
        try:
            self.proxy.tick(self.clock.now())
        except Exception:
            logger.exception("a timer failed because of an error in wirebroker")
        self.flush()

    def failed(self, relay: Relay) -> None:
        """Log the current exception, which bytes of this connection raised, and close the connection."""
        logger.exception("a connection failed because of an error in wirebroker; it is closed")
        self.proxy.close(relay.connection, "it failed because of an error in wirebroker; see the log")

    async def close(self) -> None:
        """Close the listeners and all connections."""
        await asyncio.gather(*self._starting, return_exceptions=True)
        self._stop_listening()
        self._handshake_turns.close()
        self.limits.close()
        for relay in list(self.proxy.relays.values()):
            self.lost(relay, "the proxy stops")
        self.proxy.take_effects()
        await self._stopped()


class Side(asyncio.BufferedProtocol):
    """One side of a connection: the code that the client's side and the broker's side share."""

    transport: asyncio.Transport

    def __init__(self, host: ProxyHost) -> None:
        self._host = host
        self._view = memoryview(host.buffer)
        self._reading = True
        self.unread = False
        """Whether the other end leaves more than WRITE_HIGH_WATER unread."""
        self.reserved = 0
        """Bytes of the large frame that is arriving and is forwarded only when it is complete."""

    @property
    def client(self) -> ClientSide:
        """The client's side, which the limits count."""
        raise NotImplementedError

    def has_room(self, whole: int) -> bool:
        """Reserve memory for a frame of `whole` bytes (0: no frame). Returns False if the frame has to wait for others."""
        wanted = whole if whole > LARGE_FRAME else 0
        if wanted != self.reserved:
            self.give_back()
            if wanted and not self._host.limits.takes(self.client, wanted):
                return False
            self.reserved = wanted
        return True

    def give_back(self) -> None:
        """Release the reserved memory."""
        if self.reserved:
            size, self.reserved = self.reserved, 0
            self._host.limits.freed(self.client, size)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(WRITE_HIGH_WATER)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def eof_received(self) -> bool:
        return False

    def read(self, wanted: bool) -> None:
        """Read, or leave what arrives in the system's buffers."""
        if wanted != self._reading and not self.transport.is_closing():
            self._reading = wanted
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()


class ClientSide(Side):
    """The connection of a client."""

    node_id = 0
    """For the limits, which count all nodes of a proxy together."""

    def __init__(self, host: ProxyHost, node: Node) -> None:
        super().__init__(host)
        self.node = node
        self._broker: BrokerSide | None = None
        self._early: list[Buffer] = []
        """Bytes for the broker until the connection to it is open."""
        self._dialing: asyncio.Task[None] | None = None
        self._line: ShapedLine | None = None
        self.unreached = False
        """Whether its broker could not be reached."""
        self.client_host = ""
        self._begun = False
        """Whether the proxy knows the connection; False while it waits in line."""
        self._in_line = b""
        """Bytes that arrive while the connection waits in line."""

    @property
    def client(self) -> ClientSide:
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._write = self.transport.write
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        if self._host.limits.opened(self):
            self.begin()

    def begin(self) -> None:
        """Serve the connection."""
        self._begun = True
        self.relay = self._host.connected(self, self.client_host, self.node)
        self._host.flush()
        if not self.relay.connection.closed:
            self._host.loop.call_soon(self.balance)  # not at once: uvloop forgets a pause that is made here
            self._dialing = self._host.loop.create_task(self._host.dial(self))
            if self._in_line:
                self._take(memoryview(self._in_line))
                self._in_line = b""

    @property
    def number(self) -> int:
        """The connection's number in the trace, or 0 while it has no number."""
        return self.relay.connection.number if self._begun else 0

    def joined(self, broker: BrokerSide) -> None:
        """The connection to the broker is open."""
        self._broker = broker
        for data in self._early:
            broker.transport.write(data)
        self._early.clear()
        self.balance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.limits.lost(self, self._begun)
        if not self._begun:
            return
        self.give_back()
        if self._dialing is not None:
            self._dialing.cancel()
        if self._line is not None:
            self._line.stop()
        self._host.lost(self.relay, "the client closed it" if exc is None else f"it broke: {exc}")
        if self._broker is not None:
            self._broker.transport.close()

    def buffer_updated(self, nbytes: int) -> None:
        data = self._view[:nbytes]
        if self._broker is not None:
            passed = self.relay.pass_requests(data)
            if passed == nbytes:
                self._broker.transport.write(bytes(data))
            else:
                self._take(data, passed)
        elif self._begun:
            self._take(data)
        else:
            self._in_line += data
            self.transport.pause_reading()

    def _take(self, data: memoryview, passed: int = 0) -> None:
        host = self._host
        now = host.clock.now()
        host.proxy.set_time(now)
        try:
            self.relay.from_client(data, now, passed)
        except Exception:
            host.failed(self.relay)
        host.flush()
        self.balance()

    def pause_writing(self) -> None:
        self.unread = True
        self.balance_broker()
        self._host.left_unread(self)

    def resume_writing(self) -> None:
        self.unread = False
        self.balance_broker()
        self.now_reads()

    def now_reads(self) -> None:
        """One end reads again."""
        if not self.unread and (self._broker is None or not self._broker.unread):
            self._host.limits.read(self)

    @property
    def unsent(self) -> int:
        """Bytes that client and broker leave unread."""
        sides = (self,) if self._broker is None else (self, self._broker)
        return sum(each.transport.get_write_buffer_size() for each in sides)

    def released(self) -> None:
        """Continue with connections that waited for a place in line or for memory."""
        self.balance()
        self.balance_broker()

    @property
    def waits(self) -> bool:
        """Whether the client's bytes are not read now, or received requests still wait."""
        return not self._reading or self.relay.holds_client or self.relay.has_kept

    def balance(self) -> None:
        """Read from the client unless its next request has to wait, or the broker does not read."""
        broker, has_room = self._broker, self.has_room(self.relay.whole_request)
        self.read(broker is not None and not broker.unread and not self.relay.holds_client and has_room)

    def balance_broker(self) -> None:
        """Read from the broker unless the client does not read. A large response that has begun is read to its end."""
        if self._broker is not None:
            has_room = self._broker.has_room(self.relay.whole_response)
            self._broker.read(self._line is None and has_room and (self._broker.reserved > 0 or not self.unread))

    def to_broker(self, data: Buffer) -> None:
        """Send bytes to the broker."""
        if self._broker is not None:
            self._broker.transport.write(data)
        else:
            self._early.append(data)

    def to_client(self, parts: list[Buffer]) -> None:
        """Send a response."""
        for part in parts:
            self._write(part)

    def send_shaped(self, effect: Shaped) -> None:
        """Send a response as a fault shapes it. Later responses are sent after it."""
        if self._line is None:
            self._line = ShapedLine(self.transport, self._host.loop, self._line_is_free)
            self._write = self._line.write
            self.relay.sending = True
            self.balance_broker()
        self._line.send(effect.parts, effect.shape)

    def _line_is_free(self) -> None:
        self._line = None
        self._write = self.transport.write
        self.relay.sending = False
        self.balance_broker()
        self._host.go_on(self)
        self._host.flush()
        self.balance()

    def close(self, reset: bool) -> None:
        """Close both sides when everything is sent, or reset the client's at once."""
        self.give_back()
        if self._broker is not None:
            self._broker.give_back()
        if reset:
            reset_connection(self.transport)
        elif self._line is not None:
            self._line.close()
        else:
            self.transport.close()
        if self._broker is not None:
            self._broker.transport.close()


class BrokerSide(Side):
    """The connection to a broker."""

    def __init__(self, host: ProxyHost, client: ClientSide) -> None:
        super().__init__(host)
        self._client = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._client.relay.connection.closed:
            self.transport.close()
        else:
            self._client.joined(self)

    @property
    def client(self) -> ClientSide:
        return self._client

    def connection_lost(self, exc: Exception | None) -> None:
        self.give_back()
        relay = self._client.relay
        if not relay.connection.closed:
            reason = relay.broker_closed() if exc is None else f"the connection to the broker broke: {exc}"
            self._host.proxy.close(relay.connection, reason)
            self._host.flush()

    def buffer_updated(self, nbytes: int) -> None:
        host, client, data = self._host, self._client, self._view[:nbytes]
        passed = client.relay.pass_responses(data)
        if passed == nbytes:
            client.to_client([bytes(data)])
            return
        now = host.clock.now()
        host.proxy.set_time(now)
        try:
            client.relay.from_broker(data, now, passed)
        except Exception:
            host.failed(client.relay)
        host.flush()
        client.balance_broker()
        if client.waits:
            client.balance()

    def pause_writing(self) -> None:
        self.unread = True
        self._client.balance()
        self._host.left_unread(self._client)

    def resume_writing(self) -> None:
        self.unread = False
        self._client.balance()
        self._client.now_reads()


def _reason(failure: OSError | UnicodeError) -> str:
    """Why a broker cannot be reached."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({failure.verify_message})"
    if isinstance(failure, ssl.SSLError):
        return f"the TLS handshake failed ({failure.reason or failure}); does it speak TLS?"
    if isinstance(failure, UnicodeError):
        return f"this is not a host's name ({failure})"
    return reason_of(failure) or f"no answer within {DIAL_TIMEOUT_S:.0f} s"
