"""A proxy's sockets: a listener for each node of the cluster, and a connection to a broker for each connection of a client."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kafkawire.primitives import Buffer
from wirebroker.net.clock import Clock
from wirebroker.net.driver import IN_LINE, READY, ClientConnection, Driver, Side
from wirebroker.net.handshakes import NUMBER
from wirebroker.net.limits import LARGE_FRAME, configs_of_proxy
from wirebroker.net.listener import Address, is_loopback, reachable
from wirebroker.net.protocol import oversized
from wirebroker.net.sockets import AT_ONCE, BACKLOG, ListenError, queue_connections, reason_of
from wirebroker.net.tls import subject_of
from wirebroker.net.tls_transport import TlsTransport
from wirebroker.net.upstream import Node, Upstream
from wirebroker.proxy.exchange import Forward
from wirebroker.proxy.proxy import Proxy
from wirebroker.proxy.relay import PASSING, SENDING
from wirebroker.requests.connection import CLOSED, Connection
from wirebroker.requests.effects import Shaped
from wirebroker.security.principals import ANONYMOUS, USER, Principal
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.security.session import Session

logger = logging.getLogger("wirebroker")

SSL = SecurityProtocol.SSL
MOST_NODES = 256
"""The largest number of nodes for which a proxy opens listeners."""
TOO_MANY_NODES = f"a proxy has listeners for at most {MOST_NODES} brokers, but responses have named more brokers"
ELSEWHERE = (
    "a fault would affect clients of the cluster at {}; if you want this, allow faults (--allow-faults, allow_faults=True)"
)

LENT = (
    "brokers treat anyone who can connect to %s:%d as the owner of the proxy's certificate; require certificates from clients "
    "(--tls-client-ca, client_tls), or listen on 127.0.0.1"
)


class ProxyHost(Driver["ClientSide"]):
    """Drives a proxy. The listener at `listen` forwards to `upstream`. The listener of each further node gets the next port or,
    if the port in `listen` is 0, any free port.

    If `upstream` has several addresses, the listener at `listen` forwards to the first address that can be reached, and each
    node gets a further listener.

    `configs` are the limits for clients (`limits.OF_PROXY`). With `lends_certificate`, `upstream_tls` has a client certificate,
    and brokers treat every client of the proxy as the owner of this certificate. Raises ValueError if `configs` has a setting
    that is not in `limits.OF_PROXY`.
    """

    def __init__(
        self, clock: Clock, upstream: Sequence[Address], listen: Address, *, seed: int = 0, allow_faults: bool = False,
        advertised_host: str | None = None, configs: Mapping[str, object] = MappingProxyType({}),
        client_tls: ssl.SSLContext | None = None, upstream_tls: ssl.SSLContext | None = None,
        lends_certificate: bool = False,
    ) -> None:  # fmt: skip
        settings = configs_of_proxy(configs)
        super().__init__(clock, settings)
        elsewhere = [host for host, _ in upstream if not is_loopback(host)]
        refusal = ELSEWHERE.format(elsewhere[0]) if elsewhere and not allow_faults else ""
        self.proxy = self.machine = Proxy(
            clock.now(), self._locate, seed=seed, refuses_faults=refusal, oversized=oversized,
            frame_limit=settings.integer("socket.request.max.bytes"),
            strangers_limit=settings.integer("sasl.server.max.receive.size"),
        )  # fmt: skip
        self.proxy.asks = self.proxy.timers.in_slices = True
        self.proxy.moment = lambda: time.perf_counter_ns() // 1000
        self.upstream = Upstream(tuple(dict.fromkeys(upstream)), upstream_tls, lends_certificate)
        self._listen = listen
        self._advertised_host = advertised_host
        self._client_tls = client_tls
        self._first: Node | None = None
        """The node of the listener at `listen`."""
        self._nodes: dict[Address, Node] = {}
        self._listeners = 0
        self._starting: set[asyncio.Task[None]] = set()

    async def start(self) -> Address:
        """Open the first listener. Returns its address. Raises ListenError."""
        node = self._first = self._open(self.upstream.given)
        await asyncio.gather(*self._starting)
        knows_clients = self._client_tls is not None and self._client_tls.verify_mode is ssl.CERT_REQUIRED
        if self.upstream.lends_certificate and not knows_clients and not is_loopback(self._listen[0]):
            logger.warning(LENT, *node.local)
        return node.local

    @property
    def protocol(self) -> SecurityProtocol:
        """The security protocol of the proxy's listeners, PLAINTEXT or SSL. The proxy learns that a client uses SASL only when
        the client logs in."""
        return SecurityProtocol.PLAINTEXT if self._client_tls is None else SSL

    @property
    def address(self) -> Address:
        """The address of the first listener."""
        assert self._first is not None, "`start` opens it"
        return self._first.local

    def _locate(self, host: str, port: int, node_id: int) -> Address:
        """Returns the proxy's address for a node. If the node has no listener yet, opens one."""
        node = self._nodes.get((host, port))
        if node is None:
            try:
                if len(self._nodes) >= MOST_NODES:
                    raise ListenError(TOO_MANY_NODES)
                node = self._open(((host, port),))
            except ListenError as refused:
                logger.error("clients cannot reach node %d through this proxy: %s", node_id, refused)
                return "", 0  # a client does not connect to an empty host, so it cannot bypass the proxy
            logger.info("clients reach node %d at %s:%d through %s:%d", node_id, host, port, *node.local)
        if node.node_id != node_id:
            self._learned(node, node_id)
        return node.local

    def _learned(self, node: Node, node_id: int) -> None:
        """A response has named the node's id: store the id in the node, and in the connections through the node's listener."""
        node.node_id = node_id
        for connection, side in self.clients.items():
            if side.node is node:
                connection.node_id = node_id

    def _open(self, upstreams: tuple[Address, ...]) -> Node:
        """Open a listener for a node. The listener is bound before this function returns, so its address is known."""
        host, port = self._listen
        bound = self._bound(host, port + self._listeners if port else 0)
        self._listeners += 1
        node = Node(upstreams, (self._advertised_host or reachable(host), bound.getsockname()[1]))
        if len(upstreams) == 1:
            self._nodes[upstreams[0]] = node
        task = self.loop.create_task(self._serve(node, bound))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return node

    def _bound(self, host: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        except (OSError, OverflowError) as refused:
            if port and self._listeners:
                return self._bound(host, 0)  # the next port is taken
            raise ListenError(f"cannot listen on {host}:{port}: {reason_of(refused)}") from refused

    async def _serve(self, node: Node, bound: socket.socket) -> None:
        server = await self.loop.create_server(lambda: self._protocol(node), sock=bound, backlog=AT_ONCE)
        queue_connections(server)
        self._servers.append(server)

    # Connections

    def _protocol(self, node: Node) -> asyncio.BaseProtocol:
        """Creates the protocol for the connection of a client."""
        side = self._captured(ClientSide(self, node))
        if self._client_tls is None:
            return side
        return TlsTransport(side, self._client_tls, "{}:{}".format(*node.local), self._handshake_turns, Handshakes(self, node))

    @property
    def problem(self) -> str:
        """A text about the brokers that do not serve the proxy: their names, and the reasons. The text is "" if all brokers
        serve the proxy.
        """
        nodes = dict.fromkeys(node for node in (self._first, *self._nodes.values()) if node is not None)
        return "; ".join(node.problem for node in nodes if node.problem)

    def check(self, node: Node | None = None) -> None:
        """Ask the broker of a node, by default of the first node, until the broker serves the proxy. The reasons of the
        failures are logged."""
        node = node or self._first
        assert node is not None, "`start` opens the first listener"
        self.upstream.check(node)

    async def dial(self, side: ClientSide) -> None:
        """Connect to the broker. If this fails, the client's connection is closed."""
        node = side.node
        if await self.upstream.connect(lambda address: BrokerSide(self, side, address), node) is None:
            side.closing_level = logging.DEBUG
            self.proxy.set_time(self.clock.now())
            self.proxy.close(side.relay.connection, node.problem)
            self.flush()
            self.check(side.node)

    def node_at(self, address: Address) -> Node | None:
        """Returns the node at this address, or None. A node is known if a response has named it, or if it is the only address
        in `upstream`."""
        return self._nodes.get(address)

    async def close(self) -> None:
        """Close the listeners and all connections."""
        await asyncio.gather(*self._starting, return_exceptions=True)
        for node in (self._first, *self._nodes.values()):
            if node is not None and node.checking is not None:
                node.checking.cancel()
        await self._stop_listening()
        for side in list(self.clients.values()):
            side.close(reset=False)
            self.lost(side, "the proxy stops")
        await self._stopped()


class Handshakes:
    """Watches the TLS handshakes of clients, and notes the failed handshakes."""

    def __init__(self, host: ProxyHost, node: Node) -> None:
        self._host, self._node = host, node

    def began(self, transport: TlsTransport) -> None:
        """Does nothing, because no fault in a proxy acts on handshakes."""

    def failed(self, client_host: str, cause: str) -> None:
        """Note in the trace that a handshake failed."""
        connection = Connection(NUMBER, self._node.node_id, client_host, Session(SSL.value, SSL))
        connection.session.asked = SSL.value
        self._host.proxy.set_time(self._host.clock.now())
        self._host.proxy.trace.authenticated(connection, "failed", cause)


class ClientSide(ClientConnection):
    _host: ProxyHost

    def __init__(self, host: ProxyHost, node: Node) -> None:
        super().__init__(host, 0)  # the limits of a proxy are the same for all its nodes, so each node counts as node 0
        self._view = memoryview(host.receive_buffer())
        self.node = node
        self._broker: BrokerSide | None = None
        self._early: list[Buffer] = []
        """Bytes to send to the broker as soon as the connection to the broker is open."""
        self._dialing: asyncio.Task[None] | None = None
        self._in_line = b""
        """The bytes from the client that arrived while the connection waited in line."""

    def begin(self) -> None:
        """Serve the connection, and connect to its broker."""
        host = self._host
        self._state = READY
        subject = subject_of(self.transport)
        self.relay = host.proxy.connect(
            self.node.node_id, self.client_host, host.protocol.value, host.clock.now(),
            Principal(USER, subject) if subject else ANONYMOUS,
        )  # fmt: skip
        self.connection = self.relay.connection
        host.opened(self)
        host.flush()
        if self.connection.state is not CLOSED:
            host.loop.call_soon(self.balance)  # uvloop ignores `pause_reading` at this point, so do it later
            self._dialing = host.loop.create_task(host.dial(self))
            if self._in_line:
                self._take(memoryview(self._in_line))
                self._in_line = b""

    def joined(self, broker: BrokerSide) -> None:
        """Remember that the connection to the broker is open."""
        self._broker = broker
        for data in self._early:
            broker.transport.write(data)
        self._early.clear()
        self.balance()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._dialing is not None:
            self._dialing.cancel()
        if self._broker is not None:
            self._broker.transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        data = self._view[:nbytes]
        if self._broker is not None:
            passed = self.relay.pass_requests(data)
            if passed == nbytes:
                self._broker.transport.write(bytes(data))
            else:
                self._take(data, passed)
        elif self._state is not IN_LINE:
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
            host.failed(self.connection)
        host.flush()
        if not self.is_steady:
            self.balance()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.balance_broker()

    def resume_writing(self) -> None:
        self.congested = False
        self.balance_broker()
        self.now_reads()

    def now_reads(self) -> None:
        """If the client and the broker both read the bytes that the proxy sends, tell this to the limits."""
        if not self.congested and (self._broker is None or not self._broker.congested):
            self._host.limits.read(self)

    @property
    def unsent(self) -> int:
        """The number of bytes to the client and to the broker that the proxy could not send yet."""
        sides = (self,) if self._broker is None else (self, self._broker)
        return sum(each.transport.get_write_buffer_size() for each in sides)

    def released(self) -> None:
        self.balance()
        self.balance_broker()

    @property
    def has_more(self) -> bool:
        return not (self._reading and self.relay.is_idle)

    def go_on(self) -> None:
        try:
            self.relay.go_on(self._host.clock.now())
        except Exception:
            self._host.failed(self.connection)
        self.balance()

    @property
    def is_steady(self) -> bool:
        """Tells whether the client and the broker both read, and no bytes wait. In this state `balance` and `balance_broker`
        would change nothing."""
        broker = self._broker
        if broker is None or not (self._reading and broker._reading and self._line is None and self.relay.is_idle):
            return False
        return not (self.congested or broker.congested or self.reserved or broker.reserved)

    def balance(self) -> None:
        """Read from the client. Stop reading while the client's next request has to wait or the broker does not read."""
        broker, has_room = self._broker, self.reserve(_large(self.relay.whole_request))
        self.read(broker is not None and not broker.congested and not self.relay.holds_client and has_room)

    def balance_broker(self) -> None:
        """Read from the broker, except while the client does not read. A large response that has begun to arrive is read to its
        end."""
        if self._broker is not None:
            has_room = self._broker.reserve(_large(self.relay.whole_response))
            self._broker.read(self._line is None and has_room and (self._broker.reserved > 0 or not self.congested))

    def perform(self, effect: object) -> None:
        if not isinstance(effect, Forward):
            super().perform(effect)
        elif self._broker is not None:
            self._broker.transport.write(effect.data)
        else:
            self._early.append(effect.data)

    def send_shaped(self, effect: Shaped) -> None:
        self.relay.flow = SENDING
        super().send_shaped(effect)
        self.balance_broker()

    def _line_is_free(self) -> None:
        self.relay.flow = PASSING
        super()._line_is_free()
        self.balance_broker()

    def close(self, reset: bool) -> None:
        """Close both connections when everything is sent. With `reset`, reset the client's connection immediately."""
        self.give_back()
        super().close(reset)
        if self._broker is not None:
            self._broker.give_back()
            self._broker.transport.close()


class BrokerSide(Side):
    _host: ProxyHost

    def __init__(self, host: ProxyHost, client: ClientSide, address: Address) -> None:
        super().__init__(host)
        self._view = memoryview(host.receive_buffer())
        self._client = client
        self._address = address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._client.connection.state is CLOSED:
            self.transport.close()
        else:
            node = self._host.node_at(self._address)
            if node is not None:
                self._client.connection.node_id = node.node_id
            self._client.joined(self)

    @property
    def client(self) -> ClientSide:
        return self._client

    def connection_lost(self, exc: Exception | None) -> None:
        self.give_back()
        relay = self._client.relay
        if relay.connection.state is not CLOSED:
            if not relay.broker_has_sent:
                self._client.node.prefer_others(self._address)
            self._host.proxy.set_time(self._host.clock.now())
            broke = "" if exc is None else f"the connection to the broker broke: {self._host.upstream.broken(exc)}"
            reason = broke or relay.broker_closed()
            self._host.proxy.close(relay.connection, reason)
            self._host.flush()
            self._host.check(self._client.node)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        host, client, data = self._host, self._client, self._view[:nbytes]
        passed = client.relay.pass_responses(data)
        if passed == nbytes:
            client.write(bytes(data))
            return
        now = host.clock.now()
        host.proxy.set_time(now)
        try:
            client.relay.from_broker(data, now, passed)
        except Exception:
            host.failed(client.connection)
        host.flush()
        if not client.is_steady:
            client.balance_broker()
            client.balance()

    def pause_writing(self) -> None:
        self.congested = True
        self._client.balance()
        self._host.left_unread(self._client)

    def resume_writing(self) -> None:
        self.congested = False
        self._client.balance()
        self._client.now_reads()


def _large(whole: int) -> int:
    """Returns the number of bytes to reserve for an arriving frame, if the frame must be complete before it is handled. `whole`
    is the size of this frame, or 0 if there is no such frame."""
    return whole if whole > LARGE_FRAME else 0
