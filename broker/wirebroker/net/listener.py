"""Listeners: where a broker accepts connections, and the address that it advertises to clients there.

`Host.listen` opens the socket, and `Engine.connect` makes the session of each of its connections.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from wirebroker.net.tls import Tls
from wirebroker.security.protocols import SecurityProtocol

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening socket of one broker. Port 0 is any free port; `advertised` is the bound address unless it is given."""

    node_id: int
    host: str
    port: int = 0
    advertised: Address | None = None
    name: str = "PLAINTEXT"
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: Tls | None = None
    """The certificates, which a protocol with TLS needs."""

    @property
    def shown(self) -> str:
        """Returns its name and protocol for people, after a comma; "" for the default listener."""
        names = dict.fromkeys((self.name, self.protocol.name if self.protocol is not SecurityProtocol.PLAINTEXT else self.name))
        return "" if self.name == "PLAINTEXT" else ", " + ", ".join(names)


def one_each(
    node_ids: Iterable[int], host: str, port: int, advertised: Address | None = None, name: str = "PLAINTEXT",
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT, tls: Tls | None = None,
) -> list[Listener]:  # fmt: skip
    """A listener for each broker: the first broker gets these ports, and each further broker the ports after them."""
    return [
        Listener(node_id, host, port + i if port else 0, advertised and (advertised[0], advertised[1] + i), name, protocol, tls)
        for i, node_id in enumerate(node_ids)
    ]


def parse_address(text: str) -> Address:
    """`host:port` as a pair, without the brackets of an IPv6 address. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError(f"{text!r} is not host:port")
    if "/" in host:
        raise ValueError(f"{text!r} is not host:port; leave out what is before the host's name")
    return host.strip("[]"), int(port)


def reachable(host: str) -> str:
    """A host that clients on this machine can connect to; loopback for a listener on every interface."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
