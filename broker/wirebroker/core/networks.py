"""Networks in ACLs (KIP-1276): `10.0.0.0/8` and `fd00::/8` stand for all hosts in them."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
"""The form that Kafka's SubnetUtils accepts. Leading zeros are allowed. Any address of the network may stand before the slash
(`10.1.2.3/8`)."""
_IPV6 = re.compile(r"([0-9a-fA-F:.]+)(?:%\w+)?/(\d{1,3})", re.ASCII)


@lru_cache(maxsize=1000)
def network(pattern: str) -> IPv4Network | IPv6Network:
    """Returns the network that a pattern with a slash stands for. Raises ValueError for a pattern that Kafka refuses."""
    if ":" in pattern:
        if not (found := _IPV6.fullmatch(pattern)):
            raise ValueError(f"Could not parse [{pattern}]")
        return ip_network(f"{found.group(1)}/{int(found.group(2))}", strict=False)
    if not (found := _IPV4.fullmatch(pattern)):
        raise ValueError(f"Could not parse [{pattern}]")
    *octets, bits = map(int, found.groups())
    return ip_network(f"{'.'.join(map(str, octets))}/{bits}", strict=False)


@lru_cache(maxsize=1000)
def holds(pattern: str, host: str) -> bool:
    """Tells whether the host `pattern` of an ACL is a network that contains the address `host`."""
    if "/" not in pattern:
        return False
    try:
        address, within = ip_address(host), network(pattern)
    except ValueError:
        return False
    return address.version == within.version and address in within
