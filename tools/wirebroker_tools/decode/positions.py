"""Finds the positions of the fields of a frame, so that a hex dump can show which bytes belong to which field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkawire.fields import Node, read_fields
from kafkawire.frames import read_request_header, read_response_header, written_version
from kafkawire.primitives import format_uuid
from kafkawire.registry import request_class, response_class

LONGEST = 200
"""At most this many characters of a value are shown."""


class Position(NamedTuple):
    """A field: its name, how deeply it is nested, its value as text, and the positions of its bytes (`start` to `end`)."""

    name: str
    depth: int
    value: str
    start: int
    end: int


def request_positions(frame: bytes) -> Iterator[Position]:
    """Yields the fields of a request frame without its size. Raises ProtocolError, or KeyError for an unknown API."""
    header = read_request_header(memoryview(frame))
    yield Position("api_key", 0, str(header.api_key), 0, 2)
    yield Position("api_version", 0, str(header.api_version), 2, 4)
    yield Position("correlation_id", 0, str(header.correlation_id), 4, 8)
    yield Position("client_id", 0, _shown(header.client_id), 8, 10 + len((header.client_id or "").encode()))
    nodes, _ = read_fields(request_class(header.api_key), frame, header.api_version, header.end)
    yield from _positions(nodes, 0)


def response_positions(frame: bytes, api_key: int, version: int) -> Iterator[Position]:
    """Yields the fields of a response frame without its size. Raises ProtocolError."""
    version = written_version(frame, api_key, version)
    correlation_id, end = read_response_header(memoryview(frame), api_key, version)
    yield Position("correlation_id", 0, str(correlation_id), 0, 4)
    nodes, _ = read_fields(response_class(api_key), frame, version, end)
    yield from _positions(nodes, 0)


def _positions(nodes: list[Node], depth: int) -> Iterator[Position]:
    for node in nodes:
        inside = isinstance(node.value, list)
        value = f"{len(node.value)} elements" if inside and isinstance(node.spec, list) else "" if inside else _of(node)
        yield Position(node.name, depth, value, node.start, node.end)
        if inside:
            yield from _positions(node.value, depth + 1)


def _of(node: Node) -> str:
    if node.spec == "uuid" and node.value is not None:
        return format_uuid(node.value)
    return _shown(node.value)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text = "null" if value is None else str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
