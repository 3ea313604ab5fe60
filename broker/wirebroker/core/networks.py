"""IP addresses as Java reads and writes them, and networks in ACLs (KIP-1276): `10.0.0.0/8` and `fd00::/8` stand for all hosts
in them."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from wirebroker.common.java_texts import parse_integer

LOOPBACK = "127.0.0.1"
_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
"""The form that Kafka's SubnetUtils accepts. Leading zeros are allowed. Any address of the network may stand before the slash
(`10.1.2.3/8`)."""
_IPV6 = re.compile(r"(\[)?([0-9a-fA-F:.]+)(?:%\w+)?(?(1)\])", re.ASCII)
"""An IPv6 address that Java may read. Kafka also needs a network interface with the name after the percent sign."""
_ZEROS = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")
"""The leading zeros of a number in an IPv6 address. Java accepts any number of zeros."""


@lru_cache(maxsize=1000)
def address_of(text: str) -> str | None:
    """Returns an IP address in the form of Java's getHostAddress, or None if Java reads no IP address from the text.

    Kafka compares and shows hosts in this form: "::1" is "0:0:0:0:0:0:0:1", and "::ffff:1.2.3.4" is "1.2.3.4".
    """
    found = _address(text)
    if not isinstance(found, IPv6Address):
        return None if found is None else str(found)
    return ":".join(f"{int(group, 16):x}" for group in found.exploded.split(":"))


def resolved(host: str) -> str | None:
    """Returns the address of a host in the form of `address_of`, or None. "localhost" is the only host name that has an address
    here; Kafka resolves all names."""
    return LOOPBACK if host == "localhost" else address_of(host)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Returns the address that Java's InetAddress.getByName reads from a text, or None. Java reads `::ffff:1.2.3.4` as the
    IPv4 address 1.2.3.4."""
    if ":" not in text:
        return _ipv4(text)
    found = _IPV6.fullmatch(text)
    try:
        address = IPv6Address(_ZEROS.sub("", found.group(2))) if found else None
    except ValueError:
        return None
    return address and (address.ipv4_mapped or address)


def _ipv4(text: str) -> IPv4Address | None:
    """Reads an IPv4 address. If the text has fewer than four numbers, the last number stands for several bytes."""
    numbers = text.split(".")
    if len(text) > 15 or len(numbers) > 4 or not all(each.isascii() and each.isdecimal() for each in numbers):
        return None
    *first, last = map(int, numbers)
    if any(each > 255 for each in first) or last >= 256 ** (4 - len(first)):
        return None
    return IPv4Address(int.from_bytes(bytes(first) + bytes(4 - len(first))) + last)


@lru_cache(maxsize=1000)
def network(pattern: str) -> IPv4Network | IPv6Network:
    """Returns the network that a pattern with a slash stands for. If Kafka refuses the pattern, raises ValueError with Kafka's
    message."""
    if ":" in pattern:
        return _ipv6_network(pattern)
    if not (found := _IPV4.fullmatch(pattern)):
        raise ValueError(f"Could not parse [{pattern}]")
    *octets, bits = map(int, found.groups())
    for number, most in (*((each, 255) for each in octets), (bits, 32)):
        if number > most:
            raise ValueError(f"Value [{number}] not in range [0,{most}]")
    return IPv4Network((bytes(octets), bits), strict=False)


def _ipv6_network(pattern: str) -> IPv6Network:
    text, _, prefix = pattern.partition("/")
    bits = parse_integer(prefix)
    if bits is None:
        raise ValueError(f"Could not parse [{pattern}] - invalid prefix length")
    if not 0 <= bits <= 128:
        raise ValueError(f"Could not parse [{pattern}] - prefix length must be between 0 and 128")
    address = _address(text)
    if isinstance(address, IPv6Address):
        return IPv6Network((address, bits), strict=False)
    raise ValueError(f"Could not parse [{text}]" + ("" if address is None else " - not an IPv6 address"))


@lru_cache(maxsize=1000)
def holds(pattern: str, host: str) -> bool:
    """Tells whether the host `pattern` of an ACL is a network that contains the address `host`."""
    if "/" not in pattern:
        return False
    try:
        address, within = _address(host), network(pattern)
    except ValueError:
        return False
    return address is not None and address.version == within.version and address in within
