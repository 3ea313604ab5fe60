"""A proxy's connections to the brokers of the cluster: the order in which addresses are tried, and the reasons why a broker
cannot be reached."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

from kafkawire.frames import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from wirebroker.net.listener import Address, is_own
from wirebroker.net.sockets import reason_of
from wirebroker.proxy.relay import OWN_CLIENT_ID, SPEAKS_TLS, TLS_RECORDS, WANTS_TLS

logger = logging.getLogger("wirebroker")

DIAL_TIMEOUT_S = 10.0
CHECK_AGAIN_S = 2.0
"""The time in seconds between two attempts to reach a broker."""
UNKNOWN_NODE = -1
OWN_PORT = (
    "the address is on the proxy's own machine, but no address in --upstream is on this machine; if it is a broker's address, "
    "add it to --upstream"
)

REFUSES_CERTIFICATE = (
    "SSLV3_ALERT_BAD_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_EXPIRED",
)  # fmt: skip
"""OpenSSL's names of the alerts with which a broker refuses a client that has no certificate, or the wrong certificate."""
WANTS_CERTIFICATE = "the broker wants a certificate from its clients; give --upstream-tls-cert"
REFUSED_CERTIFICATE = "the broker does not accept the proxy's certificate (--upstream-tls-cert)"
NO_TLS = "it closed the connection during the TLS handshake, so it seems not to speak TLS; leave out --upstream-tls-ca"


class Node:
    """A node of the cluster: the address of the node, and the proxy's address for the node. The node has an id as soon as a
    response has named the id.

    If there are several bootstrap addresses (`--upstream a:9092,b:9092`), one `Node` stands for all these brokers and has no
    id.
    """

    def __init__(self, upstreams: tuple[Address, ...], local: Address) -> None:
        self.upstreams = upstreams
        """The addresses in the order in which they are tried. The address that was last reached comes first."""
        self.local = local
        self.node_id = UNKNOWN_NODE
        self.problem = ""
        """The reason why the broker cannot be reached or does not serve the proxy, or ""."""
        self.refuses = False
        """Tells whether the broker accepts connections, but then does not serve the proxy. If so, a new connection to the
        broker does not clear `problem`.
        """
        self.checking: asyncio.Task[None] | None = None

    def prefer(self, upstream: Address) -> None:
        """Try this address first from now on."""
        self.upstreams = (upstream, *(each for each in self.upstreams if each != upstream))

    def prefer_others(self, upstream: Address) -> None:
        """Try this address last from now on, because it accepts connections but sends no response, like the port of a container
        without a broker.
        """
        self.upstreams = (*(each for each in self.upstreams if each != upstream), upstream)


class Upstream:
    """The brokers behind a proxy. `given` are the addresses in `--upstream`. With `lends_certificate`, `tls` has a client
    certificate, which brokers see instead of the clients' certificates.
    """

    def __init__(self, given: tuple[Address, ...], tls: ssl.SSLContext | None, lends_certificate: bool) -> None:
        self.given, self.lends_certificate = given, lends_certificate
        self._tls = tls

    def check(self, node: Node) -> None:
        """Ask the broker of a node for its API versions until the broker responds. So a mistake, such as a wrong address, a
        listener that requires TLS, or a missing certificate, is logged before the first client connects.
        """
        if node.checking is None or node.checking.done():
            node.checking = asyncio.get_running_loop().create_task(self._check(node))

    async def _check(self, node: Node) -> None:
        while True:
            if await self._serves(node):
                return
            await asyncio.sleep(CHECK_AGAIN_S)

    async def _serves(self, node: Node) -> bool:
        if (transport := await self.connect(lambda _: Probe(), node)) is None:
            return False
        asked = cast("Probe", transport.get_protocol())
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                problem = self._refusal(await asked.ended)
        except TimeoutError:
            problem = f"it has not answered within {DIAL_TIMEOUT_S:.0f} s"
        finally:
            transport.close()
        if problem:
            address = node.upstreams[0]
            node.prefer_others(address)
            where = "{}:{}".format(*address)
            self._has_problem(node, f"the broker at {where} does not serve the proxy: {problem}", refuses=True)
        else:
            self._is_well(node)
        return not problem

    def _refusal(self, ended: bytes | Exception | None) -> str:
        """Returns the reason why a broker accepts connections, but does not serve the proxy. Returns "" if the broker serves
        the proxy."""
        if isinstance(ended, bytes):
            return SPEAKS_TLS if ended[:2] in TLS_RECORDS else ""
        if ended is not None:
            return self.broken(ended)
        return "it closed the connection before its first response" + ("" if self._tls else f"; {WANTS_TLS}")

    def broken(self, failure: Exception) -> str:
        """Returns the reason why a connection to a broker broke."""
        if isinstance(failure, ssl.SSLError) and failure.reason in REFUSES_CERTIFICATE:
            return REFUSED_CERTIFICATE if self.lends_certificate else WANTS_CERTIFICATE
        if isinstance(failure, UnicodeError):
            return f"this is not a host's name ({failure})"
        return _reason(failure) if isinstance(failure, OSError) else str(failure)

    async def connect(self, protocol: Callable[[Address], asyncio.BaseProtocol], node: Node) -> asyncio.Transport | None:
        """Connect to the first broker of a node that can be reached. Returns None if no broker can be reached. The same reason
        is logged only once, because clients try again and again.
        """
        problems = []
        for address in node.upstreams:
            try:
                transport = await self._connect(protocol, address, DIAL_TIMEOUT_S / len(node.upstreams))
            except (OSError, TimeoutError, UnicodeError) as failure:
                problems.append("the broker at {}:{} cannot be reached: {}".format(*address, self._unreached(failure)))
                continue
            self._reached(node, address, problems)
            return transport
        self._has_problem(node, "; ".join(problems))
        return None

    def _unreached(self, failure: Exception) -> str:
        if self._tls is not None and isinstance(failure, ConnectionError) and not failure.errno:
            return NO_TLS
        return self.broken(failure)

    def _reached(self, node: Node, address: Address, problems: list[str]) -> None:
        """Try this address of a node first from now on, because it was reached. `problems` are the failures of the addresses
        that were tried before.
        """
        node.prefer(address)
        if not node.refuses:
            self._is_well(node)
        if problems:
            logger.warning("%s; the proxy uses %s:%d", "; ".join(problems), *address)

    async def _connect(
        self, protocol: Callable[[Address], asyncio.BaseProtocol], address: Address, timeout: float
    ) -> asyncio.Transport:
        """Connect to a broker. Raises OSError, TimeoutError, UnicodeError."""
        name = address[0] if self._tls is not None else None
        async with asyncio.timeout(timeout):
            resolved = address if address in self.given else await self._elsewhere(address)
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: protocol(address), *resolved, ssl=self._tls, server_hostname=name
            )
        return transport

    async def _elsewhere(self, named: Address) -> Address:
        """Returns an address to connect to, for a node that a response has named. Raises OSError if this is an address of this
        machine, but no broker in `given` is on this machine. Raises UnicodeError.
        """
        found = await self._resolved(named)
        if not any(map(is_own, found)):
            return found[0]
        for given in self.given:
            if any(map(is_own, await self._resolved(given))):
                return found[0]
        raise OSError(OWN_PORT)

    async def _resolved(self, address: Address) -> list[Address]:
        """Returns the addresses of a host name. Raises OSError, UnicodeError."""
        found = await asyncio.get_running_loop().getaddrinfo(*address, type=socket.SOCK_STREAM)
        return [(str(each[0]), int(each[1])) for *_, each in found]

    def _is_well(self, node: Node) -> None:
        if node.problem:
            node.problem, node.refuses = "", False
            logger.info("the broker at %s:%d can be reached now", *node.upstreams[0])

    def _has_problem(self, node: Node, problem: str, *, refuses: bool = False) -> None:
        if problem != node.problem:
            node.problem, node.refuses = problem, refuses
            logger.warning("%s; the proxy closes clients' connections until it reaches the broker", problem)


class Probe(asyncio.Protocol):
    """Asks a broker for its API versions. `ended` gets the beginning of the broker's response, the error that broke the
    connection, or None if the broker closes the connection without a response.
    """

    def __init__(self) -> None:
        self.ended: asyncio.Future[bytes | Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(encode_request(1, OWN_CLIENT_ID, ApiVersionsRequest(), 0))

    def data_received(self, data: bytes) -> None:
        self._end(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def _end(self, how: bytes | Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(how)


def _reason(failure: OSError) -> str:
    """Returns the reason why a broker cannot be reached."""
    if isinstance(failure, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({failure.verify_message})"
    if isinstance(failure, ssl.SSLError):
        return f"the TLS handshake failed ({failure.reason or failure}); does it speak TLS?"
    return reason_of(failure) or f"no connection within {DIAL_TIMEOUT_S:.0f} s"
