"""Listeners: the addresses at which a broker accepts connections, and the addresses that it advertises to clients.

`Host.listen` opens a listener's socket, and `Engine.connect` creates the session of each connection to the listener.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

from msgspec import Struct

from kafkawire.compiling import fits
from wirebroker.net.tls import Tls
from wirebroker.security.protocols import SecurityProtocol

Address = tuple[str, int]


class Listener(Struct, frozen=True):
    """A listener of a broker, which has one socket. The port 0 stands for any free port. If `advertised` is None, the broker
    advertises the address to which the socket is bound. If the port in `advertised` is 0, the broker advertises the port to
    which the socket is bound."""

    node_id: int
    host: str
    port: int = 0
    advertised: Address | None = None
    name: str = "PLAINTEXT"
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: Tls | None = None
    """The certificates. A listener needs certificates if its protocol uses TLS."""

    @property
    def shown(self) -> str:
        """Returns a text for the end of a message: a comma and the names of the listener and its protocol. For the default
        listener, returns ""."""
        names = dict.fromkeys((self.name, self.protocol.name if self.protocol is not SecurityProtocol.PLAINTEXT else self.name))
        return "" if self.name == "PLAINTEXT" else ", " + ", ".join(names)


def one_each(
    node_ids: Iterable[int], host: str, port: int, advertised: Address | None = None, name: str = "PLAINTEXT",
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT, tls: Tls | None = None,
) -> list[Listener]:  # fmt: skip
    """Returns a listener for each broker. The first broker has the port `port` and the address `advertised`. For each further
    broker, the listener's port and the advertised port are higher by one. A port of 0 stays 0."""

    def later(address: Address, i: int) -> Address:
        return address[0], address[1] + i if address[1] else 0

    return [
        Listener(node_id, *later((host, port), i), advertised and later(advertised, i), name, protocol, tls)
        for i, node_id in enumerate(node_ids)
    ]


def parse_address(text: str) -> Address:
    """Returns the host and the port in `host:port`. The host has no brackets, even if it is an IPv6 address. Raises
    ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError(f"{text!r} is not host:port")
    if not fits(host):
        raise ValueError(f"{host[:64]!a} is not a host's name")
    if "/" in host:
        raise ValueError(f"{text!r} is not host:port; begin with the host's name")
    return host.strip("[]"), int(port)


def canonical_host_name() -> str:
    """Returns this machine's name, which Kafka advertises for a listener without a host (Java's getCanonicalHostName)."""
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return "localhost"
    try:
        return socket.gethostbyaddr(address)[0]
    except OSError:
        return address


def reachable(host: str) -> str:
    """Returns the host to which clients on this machine connect. If the listener listens on every interface, this is the
    loopback address."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def is_loopback(host: str) -> bool:
    """Tells whether a host name or address is a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_own(address: Address) -> bool:
    """Tells whether an IP address belongs to this machine. No packet is sent. A socket has the same address as source and as
    target only if the target is this machine."""
    host, port = address
    ip = ipaddress.ip_address(host.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback or ip.is_unspecified:
        return True
    with socket.socket(socket.AF_INET if ip.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(ip), port))
        except OSError:
            return False
        return str(probe.getsockname()[0]) == str(ip)
