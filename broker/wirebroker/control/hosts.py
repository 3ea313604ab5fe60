"""By which names the control may be asked for.

It has no password, so a page of any site may not reach it. A site can let its own name lead to this machine (DNS rebinding),
and a published port of a container is reached in the same way; what the browser then says in Host is the site's name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


class Hosts:
    """The names of loopback, the address that a request came to, and those that are added."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {plain_host(name) for name in names}

    def add(self, name: str) -> None:
        """Take this name, too."""
        self._names.add(plain_host(name))

    def takes(self, host: str, reached: str) -> bool:
        """Whether a Host header is one of ours; `reached` is the address at which the connection arrived."""
        name = plain_host(host)
        if name in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or name == plain_host(reached.partition("%")[0])


def plain_host(host: str) -> str:
    """The name or address of a Host header: without port and brackets, in small letters."""
    name = host.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    return name.rstrip(".")
