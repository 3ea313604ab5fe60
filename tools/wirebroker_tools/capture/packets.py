"""Reads the TCP segments in packets, and makes packets for a session that was never on a wire."""

from __future__ import annotations

import struct
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from wirebroker_tools.capture.files import Packet

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
IPV4, IPV6 = 0x0800, 0x86DD
TCP = 6
VLAN = frozenset((0x8100, 0x88A8, 0x9100))
LONGEST_PAYLOAD = 60_000
"""This module writes at most this many bytes of payload in a packet; an IP packet has at most 64 KiB."""
_EXTENSIONS = frozenset((0, 43, 60))
"""The IPv6 extension headers that may precede the TCP header. Each of them contains its own length."""
_FRAGMENT = 44
HOSTS = 4096
"""At most this many addresses are kept in memory as text."""
_RAW, _IPV4_ONLY, _IPV6_ONLY = (12, 14, 101), 228, 229
_ETHERNET, _NULL, _LOOP, _SLL, _SLL2 = 1, 0, 108, 113, 276

LINKS = frozenset((_ETHERNET, _NULL, _LOOP, _SLL, _SLL2, *_RAW, _IPV4_ONLY, _IPV6_ONLY))
"""The types of a packet's first header that this module can read."""

Endpoint = tuple[str, int]


class Segment(NamedTuple):
    """A TCP segment; `time` is in µs since the epoch."""

    time: int
    source: Endpoint
    target: Endpoint
    sequence: int
    acknowledged: int
    flags: int
    payload: bytes
    at: int = 0
    """The position of the payload in the file of the capture."""


# Reading


def segment_of(packet: Packet) -> Segment | None:
    """Returns the TCP segment in a packet. Returns None if the packet holds anything else, or if too little of the packet was
    captured."""
    try:
        at = _network_header(packet)
        return None if at is None else _segment(packet, at)
    except (struct.error, IndexError):
        return None


def _network_header(packet: Packet) -> int | None:
    """Returns where the IP header begins, or None for other protocols."""
    data, link = packet.data, packet.link
    if link == _ETHERNET:
        at = 12
        while _number(data, at) in VLAN:
            at += 4
        return at + 2 if _number(data, at) in (IPV4, IPV6) else None
    if link == _SLL:
        return 16 if _number(data, 14) in (IPV4, IPV6) else None
    if link == _SLL2:
        return 20 if _number(data, 0) in (IPV4, IPV6) else None
    if link in (_NULL, _LOOP):
        return 4
    return 0 if link in (*_RAW, _IPV4_ONLY, _IPV6_ONLY) else None


def _number(data: bytes, at: int) -> int:
    found: int = struct.unpack_from(">H", data, at)[0]
    return found


def _segment(packet: Packet, at: int) -> Segment | None:
    data = packet.data
    if data[at] >> 4 == 4:
        size, fragment = _number(data, at + 2), _number(data, at + 6)
        if data[at + 9] != TCP or fragment & 0x3FFF:
            return None
        end = at + size if size else len(data)  # the size is 0 if the network card splits the packet later
        begin = at + (data[at] & 15) * 4
        hosts = _shown4(data[at + 12 : at + 16]), _shown4(data[at + 16 : at + 20])
    elif data[at] >> 4 == 6:
        size = _number(data, at + 4)
        end = at + 40 + size if size else len(data)
        found = _after_extensions(data, at + 40, data[at + 6])
        if found is None:
            return None
        begin = found
        hosts = _shown6(data[at + 8 : at + 24]), _shown6(data[at + 24 : at + 40])
    else:
        return None
    source, target, sequence, acknowledged = struct.unpack_from(">HHII", data, begin)
    start = begin + (data[begin + 12] >> 4) * 4
    ends = (hosts[0], source), (hosts[1], target)
    return Segment(packet.time, *ends, sequence, acknowledged, data[begin + 13], data[start:end], packet.at + start)


def _after_extensions(data: bytes, at: int, kind: int) -> int | None:
    while kind in _EXTENSIONS:
        kind, at = data[at], at + 8 + data[at + 1] * 8
    if kind == _FRAGMENT:
        return at + 8 if data[at] == TCP and not _number(data, at + 2) & ~6 else None
    return at if kind == TCP else None


@lru_cache(HOSTS)
def _shown4(raw: bytes) -> str:
    return str(IPv4Address(raw))


@lru_cache(HOSTS)
def _shown6(raw: bytes) -> str:
    address = IPv6Address(raw)
    return str(address.ipv4_mapped or address)


# Writing


class Line:
    """A TCP connection for which packets are made: the address and the next sequence number of each side."""

    def __init__(self, client: Endpoint, server: Endpoint) -> None:
        self._ends = _address(client[0]), _address(server[0])
        if self._ends[0].version != self._ends[1].version:
            self._ends = (IPv4Address("127.0.0.1"), IPv4Address("127.0.0.1"))
        self._ports = client[1] & 0xFFFF, server[1] & 0xFFFF
        self._next = [1000, 2000]

    def handshake(self) -> list[bytes]:
        """Returns the three packets that open the connection."""
        return [self._packet(0, SYN), self._packet(1, SYN | ACK), self._packet(0, ACK)]

    def sent(self, by_server: bool, payload: bytes) -> bytes:
        """Returns a packet with these bytes, at most LONGEST_PAYLOAD."""
        return self._packet(int(by_server), PSH | ACK, payload)

    def end(self, by_server: bool) -> bytes:
        """Returns the packet with which one side closes the connection."""
        return self._packet(int(by_server), FIN | ACK)

    def _packet(self, side: int, flags: int, payload: bytes = b"") -> bytes:
        source, target = self._ends[side], self._ends[1 - side]
        acknowledged = self._next[1 - side] if flags & ACK else 0
        head = struct.pack(
            ">HHIIBBHHH", self._ports[side], self._ports[1 - side], self._next[side], acknowledged, 5 << 4, flags, 0xFFFF, 0, 0
        )
        size = len(head) + len(payload)
        pseudo = source.packed + target.packed + struct.pack(">II", TCP, size)
        head = head[:16] + _checksum(pseudo + head + payload) + head[18:]
        self._next[side] = (self._next[side] + len(payload) + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
        return _ethernet(source, target, size, side) + head + payload


def _address(host: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return IPv4Address("127.0.0.1")


def _ethernet(source: IPv4Address | IPv6Address, target: IPv4Address | IPv6Address, size: int, side: int) -> bytes:
    macs = b"\2\0\0\0\0\2\2\0\0\0\0\1" if side == 0 else b"\2\0\0\0\0\1\2\0\0\0\0\2"
    if source.version == 6:
        return macs + struct.pack(">HIHBB", IPV6, 6 << 28, size, TCP, 64) + source.packed + target.packed
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, 0, 0x4000, 64, TCP, 0) + source.packed + target.packed
    return macs + struct.pack(">H", IPV4) + head[:10] + _checksum(head) + head[12:]


def _checksum(data: bytes) -> bytes:
    """Returns the internet checksum, which is a sum of 16-bit numbers modulo 65,535.

    The sum is computed by one large division.
    """
    total = int.from_bytes(data + bytes(len(data) % 2), "big") % 0xFFFF
    return struct.pack(">H", ~total & 0xFFFF)
