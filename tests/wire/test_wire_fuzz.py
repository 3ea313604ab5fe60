"""Hostile bytes: the decoder raises no other error than ProtocolError, and the size of the input limits the memory that it
takes.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import codec
from kafkawire.declare import Field, Message, Struct
from kafkawire.errors import ProtocolError
from kafkawire.frames import decode_response, read_request_header, read_response_header
from kafkawire.messages import APIS
from kafkawire.primitives import write_uvarint
from wire.random_messages import EVERY_VERSION, MESSAGES, Maker, damaged, versions_of

DAMAGED_PER_VERSION = 15
BILLION = struct.pack(">i", 1_000_000_000)
COMPACT_BILLION = bytearray()
write_uvarint(COMPACT_BILLION, 1_000_000_000)
SLACK = 4096
"""Every decoding may allocate at least this many bytes, even for a short input. They are for the message, an exception and its
traceback.
"""
PER_ELEMENT = 1024
"""One counted element may allocate at most this many bytes, so that MAX_ELEMENTS elements take at most half a gigabyte."""
MOST_MEASUREMENTS = 20
"""The memory of a decoding is measured at most this many times."""
# Python must allocate an object for each of these values. (It shares small numbers.)
COSTLY = {
    "bool": True, "int8": -100, "int16": -1000, "uint16": 60_000, "int32": -70_000, "uint32": 70_000,
    "int64": -(2**60), "float64": 1.5, "uuid": b"x" * 16, "string": "ab", "bytes": b"", "records": b"",
}  # fmt: skip


def read_or_refuse(cls: type[Message], version: int, raw: bytes) -> None:
    try:
        _, end = codec.decode(cls, raw, version)
    except ProtocolError:
        return
    assert 0 <= end <= len(raw)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_damaged_messages_are_read_or_refused(cls: type[Message]) -> None:
    for version in versions_of(cls):
        random, maker = Random(version), Maker((cls.__name__, version))
        for _ in range(DAMAGED_PER_VERSION):
            raw = codec.encode(maker.message(cls, version), version)
            read_or_refuse(cls, version, damaged(raw, random))
            read_or_refuse(cls, version, random.randbytes(random.randint(0, 40)))
            read_or_refuse(cls, version, bytes(random.choices((0, 1, 2, 3, 0x80, 0xFF), k=30)))


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_cut_anywhere_is_refused(cls: type[Message]) -> None:
    for version in versions_of(cls):
        raw = codec.encode(Maker((cls.__name__, version), longest=1).message(cls, version), version)
        for end in range(0, len(raw), 1 + len(raw) // 40):
            with pytest.raises(ProtocolError):
                codec.decode(cls, raw[:end], version)


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(st.binary(max_size=30), st.sampled_from(sorted(APIS)), st.integers(-1, 20))
def test_headers_are_read_or_refused(garbage: bytes, key: int, version: int) -> None:
    frame = struct.pack(">hh", key, version) + garbage
    for read in (lambda: read_request_header(frame).end, lambda: read_response_header(garbage, key, version)[1]):
        try:
            end = read()
        except ProtocolError:
            continue
        assert 0 <= end <= len(frame)


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(EVERY_VERSION))
def test_responses_are_read_or_refused(garbage: bytes, what: tuple[type[Message], int]) -> None:
    cls, version = what
    try:
        _, response = decode_response(garbage, cls.__schema__.key, version)
    except ProtocolError:
        return
    assert response.__schema__.key == cls.__schema__.key


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def peak_of_reading(cls: type[Message], version: int, raw: bytes) -> int:
    """Returns the peak memory of a decoding, in bytes. Threads that earlier tests have left behind allocate memory, too, so one
    result may be too high. Therefore the decoding is measured until the lowest result occurs twice."""
    read_or_refuse(cls, version, raw)  # the first decoding compiles the class and fills Python's caches
    peaks = [_peak(cls, version, raw)]
    while peaks.count(min(peaks)) < 2 and len(peaks) < MOST_MEASUREMENTS:
        peaks.append(_peak(cls, version, raw))
    return min(peaks)


def _peak(cls: type[Message], version: int, raw: bytes) -> int:
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    read_or_refuse(cls, version, raw)
    return tracemalloc.get_traced_memory()[1] - before


@pytest.mark.usefixtures("traced")
def test_a_count_of_a_billion_costs_nothing_wherever_it_stands() -> None:
    for cls, version in EVERY_VERSION:
        if version not in shapes(cls):
            continue
        raw = codec.encode(Maker((cls.__name__, version), longest=1).message(cls, version), version)[:100]
        for at in range(len(raw)):
            for count in (BILLION, COMPACT_BILLION):
                hostile = bytes(raw[:at] + count + raw[at + 1 :])
                assert peak_of_reading(cls, version, hostile) <= codec.MOST_OBJECTS * len(hostile) + SLACK


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_many_small_elements_take_a_bounded_multiple_of_their_bytes(cls: type[Message]) -> None:
    for version in shapes(cls):
        for path in arrays(cls, version):
            raw = codec.encode(swollen(cls, version, path, 60), version)
            peak = peak_of_reading(cls, version, raw)
            budget = [codec.MAX_ELEMENTS]
            codec.message_reader(cls, version)(memoryview(raw), 0, len(raw), budget)
            assert peak <= codec.MOST_OBJECTS * len(raw) + SLACK, (version, path)
            assert peak <= PER_ELEMENT * (codec.MAX_ELEMENTS - budget[0]) + SLACK, (version, path)


def shapes(cls: type[Message]) -> set[int]:
    """Returns the versions to test: the first version, the first flexible version, and the last version."""
    versions = versions_of(cls)
    return {versions[0], versions[-1], min(max(cls.__schema__.flexible, versions[0]), versions[-1])}


def plain(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in cls.__wire__ if field.present(version) and field.tag is None]


def arrays(cls: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    """Yields the path of every array inside a message."""
    for field in plain(cls, version):
        element = field.spec[0] if isinstance(field.spec, list) else field.spec
        if isinstance(field.spec, list):
            yield (field.name,)
        if isinstance(element, type):
            yield from ((field.name, *path) for path in arrays(element, version))


def smallest(spec: Any, version: int) -> Any:
    """Returns a value that has few bytes on the wire, but for which Python must make new objects."""
    if isinstance(spec, list):
        return []
    if isinstance(spec, type):
        return spec(**{field.name: smallest(field.spec, version) for field in plain(spec, version)})
    return COSTLY[spec]


def swollen(cls: type[Struct], version: int, path: tuple[str, ...], count: int) -> Any:
    """Returns the smallest message with `count` elements in the path's outermost array, and one element in each inner array."""
    made = smallest(cls, version)
    spec = next(field.spec for field in plain(cls, version) if field.name == path[0])
    if not isinstance(spec, list):
        setattr(made, path[0], swollen(spec, version, path[1:], count))
    elif len(path) == 1:
        setattr(made, path[0], [smallest(spec[0], version)] * count)
    else:
        setattr(made, path[0], [swollen(spec[0], version, path[1:], 1)] * count)
    return made
