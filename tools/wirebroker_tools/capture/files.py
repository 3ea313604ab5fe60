"""Writes and reads pcapng files, and reads pcap files (draft-ietf-opsawg-pcapng and draft-ietf-opsawg-pcap).

An incomplete file is read up to its end; `DamagedCapture` then names the place and the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from wirebroker_tools.decode.other_files import LONGEST_START, other_file

ETHERNET = 1
SECTION, INTERFACE, OLD_PACKET, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
BYTE_ORDER = 0x1A2B3C4D
COMMENT, RESOLUTION, END_OF_OPTIONS = 1, 9, 0
PCAP = {0xA1B2C3D4: 1, 0xA1B23C4D: 1000}
"""The magic numbers of pcap files, each with the number of timestamp units in a µs."""
LARGEST = 1 << 26
"""A block of more bytes is not read. For comparison, Wireshark's limit for a packet is 256 KiB."""
LONGEST_COMMENT = 0xFFFC
SNAP_LENGTH = 0


class DamagedCapture(ValueError):
    """Raised if a file is not a capture, or if it ends in the middle of a block or packet. The message has the position."""


class Packet(NamedTuple):
    """A packet as it was captured; `time` is in µs since the epoch."""

    time: int
    link: int
    """The type of the packet's first header, one of tcpdump's LINKTYPE_ numbers."""
    data: bytes
    comments: tuple[str, ...] = ()
    at: int = 0
    """The position of `data` in the file."""
    is_cut: bool = False
    """True if a snap length has cut off the packet's end (`tcpdump -s`)."""


def is_capture(first: bytes) -> bool:
    """Tells whether a file that begins with these bytes is a capture."""
    if len(first) < 4:
        return False
    numbers = {int.from_bytes(first[:4], "big"), int.from_bytes(first[:4], "little")}
    return SECTION in numbers or not numbers.isdisjoint(PCAP)


# Writing


def start_of_file() -> bytes:
    """Returns the first blocks of a pcapng file of Ethernet packets with times in µs."""
    section = struct.pack("<IHHq", BYTE_ORDER, 1, 0, -1)
    return _block(SECTION, section) + _block(INTERFACE, struct.pack("<HHI", ETHERNET, 0, SNAP_LENGTH))


def packet_block(time: int, data: bytes, comments: Iterable[str] = ()) -> bytes:
    """Returns the block of one packet, with comments that Wireshark shows; `time` is in µs since the epoch."""
    body = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + _padded(data)
    options = b"".join(_option(COMMENT, text.encode(errors="replace")[:LONGEST_COMMENT]) for text in comments)
    return _block(ENHANCED, body + options + _option(END_OF_OPTIONS, b"") if options else body)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


# Reading


def read_packets(file: BinaryIO) -> Iterator[Packet]:
    """Yields the packets of a pcapng or pcap file. Raises DamagedCapture, after the packets before the damage."""
    first = file.read(4)
    if not is_capture(first):
        known = other_file("", first + file.read(LONGEST_START - len(first)))
        raise DamagedCapture(known or "this is neither a pcapng nor a pcap file")
    if int.from_bytes(first, "big") == SECTION:
        yield from _Pcapng(file).packets()
    else:
        yield from _pcap(file, first)


def _pcap(file: BinaryIO, first: bytes) -> Iterator[Packet]:
    order = ">" if int.from_bytes(first, "big") in PCAP else "<"
    units = PCAP[struct.unpack(order + "I", first)[0]]
    head = _exactly(file, 20, 4)
    link = struct.unpack(order + "I", head[16:])[0] & 0xFFFF
    at = 24
    while record := file.read(16):
        if len(record) < 16:
            raise DamagedCapture(f"byte {at}: the file breaks off in the header of a packet")
        seconds, fraction, size, whole = struct.unpack(order + "4I", record)
        if size > LARGEST:
            raise DamagedCapture(f"byte {at}: a packet of {size} bytes is not possible")
        time = seconds * 1_000_000 + fraction // units
        yield Packet(time, link, _exactly(file, size, at + 16), (), at + 16, size < whole)
        at += 16 + size


def _exactly(file: BinaryIO, size: int, at: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise DamagedCapture(f"byte {at}: the file breaks off; {size} bytes belong here, and {len(data)} are left")
    return data


@dataclass(slots=True)
class _Interface:
    link: int
    units: int = 1_000_000
    """The number of units of a timestamp in a second."""


class _Pcapng:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._order = "<"
        self._interfaces: list[_Interface] = []

    def packets(self) -> Iterator[Packet]:
        kind_bytes = struct.pack(">I", SECTION)
        while kind_bytes:
            try:
                yield from self._block(kind_bytes)
            except (struct.error, IndexError):
                raise DamagedCapture(f"byte {self._at}: a block is shorter than its content") from None
            kind_bytes = self._file.read(4)

    def _block(self, kind_bytes: bytes) -> Iterator[Packet]:
        begin = self._at
        if len(kind_bytes) < 4:
            raise DamagedCapture(f"byte {begin}: the file breaks off in the header of a block")
        is_section = int.from_bytes(kind_bytes, "big") == SECTION
        rest = _exactly(self._file, 8 if is_section else 4, begin + 4)
        if is_section:
            self._begin_section(rest[4:])
        kind, size = self._unpack("I", kind_bytes)[0], self._unpack("I", rest)[0]
        if not 12 <= size <= LARGEST or size % 4:
            raise DamagedCapture(f"byte {begin}: a block of {size} bytes is not possible")
        body = rest[4:] + _exactly(self._file, size - 4 - len(rest), begin + 4 + len(rest))
        if self._unpack("I", body[-4:])[0] != size:
            raise DamagedCapture(f"byte {begin}: the two lengths of a block differ")
        yield from self._content(kind, body[:-4])
        self._at = begin + size

    def _begin_section(self, mark: bytes) -> None:
        if int.from_bytes(mark, "big") not in (BYTE_ORDER, 0x4D3C2B1A):
            raise DamagedCapture(f"byte {self._at}: the byte order of a section is unknown")
        self._order = ">" if int.from_bytes(mark, "big") == BYTE_ORDER else "<"
        self._interfaces = []

    def _unpack(self, form: str, data: bytes, at: int = 0) -> tuple[int, ...]:
        return struct.unpack_from(self._order + form, data, at)

    def _content(self, kind: int, body: bytes) -> Iterator[Packet]:
        if kind == INTERFACE:
            (link,) = self._unpack("H", body)
            self._interfaces.append(_Interface(link))
            for code, value in self._options(body, 8):
                if code == RESOLUTION and value:
                    power = value[0] & 0x7F
                    self._interfaces[-1].units = (2 if value[0] & 0x80 else 10) ** power
        elif kind in (ENHANCED, OLD_PACKET):
            interface, high, low, size, whole = self._unpack("IIIII" if kind == ENHANCED else "HxxIIII", body)
            if size > len(body) - 20:
                raise DamagedCapture(f"byte {self._at}: a packet of {size} bytes in a block of {len(body)}")
            comments = [value for code, value in self._options(body, 20 + size + -size % 4) if code == COMMENT]
            time, data = high << 32 | low, body[20 : 20 + size]
            yield self._packet(interface, time, data, comments, self._at + 28, size < whole)
        elif kind == SIMPLE:
            (size,) = self._unpack("I", body)
            yield self._packet(0, 0, body[4 : 4 + size], [], self._at + 12, len(body) - 4 < size)

    def _packet(self, interface: int, time: int, data: bytes, comments: list[bytes], at: int, is_cut: bool) -> Packet:
        if interface >= len(self._interfaces):
            raise DamagedCapture(f"byte {self._at}: a packet of interface {interface}, which the file does not describe")
        held = self._interfaces[interface]
        texts = tuple(each.decode(errors="replace") for each in comments)
        return Packet(time * 1_000_000 // held.units, held.link, data, texts, at, is_cut)

    def _options(self, body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
        while at + 4 <= len(body):
            code, size = self._unpack("HH", body, at)
            if code == END_OF_OPTIONS:
                return
            yield code, body[at + 4 : at + 4 + size]
            at += 4 + size + -size % 4
