"""The host names under which the control responds.

The control has no password, so web pages of other sites must not reach it. A site can let its own host name resolve to this
machine (DNS rebinding), even to a published port of a container. The browser then sends the site's name in the header Host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


class Hosts:
    """The allowed names: loopback, the address on which a request arrived, and added names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {plain_host(name) for name in names}

    def add(self, name: str) -> None:
        """Allow this name, too."""
        self._names.add(plain_host(name))

    def takes(self, host: str, reached: str) -> bool:
        """Tells whether the control responds to a request with this Host header. `reached` is the address on which the
        connection arrived."""
        name = plain_host(host)
        if name in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or name == plain_host(reached.partition("%")[0])


def plain_host(host: str) -> str:
    """Returns the name or address of a Host header: without port and brackets, in lower case."""
    name = host.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    return name.rstrip(".")
