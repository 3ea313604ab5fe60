"""Converts frames to plain data and back: requests, responses, and record data without a frame, as in a log segment.

{"kind": "request", "api": "Produce", "version": 9, "correlation_id": 3, "client_id": "billing", "body": {…}}
{"kind": "response", "api": "Produce", "version": 9, "correlation_id": 3, "body": {…}}
{"kind": "batches", "batches": […]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkawire.batches import MAGIC_AT, CorruptBatch, next_batch_size
from kafkawire.declare import Message
from kafkawire.errors import EncodeError, ProtocolError
from kafkawire.fields import Node, read_fields
from kafkawire.frames import (
    SIZE_BYTES,
    encode_request,
    encode_response,
    frame_end,
    read_request_header,
    read_response_header,
    written_version,
)
from kafkawire.message_sets import has_valid_crc
from kafkawire.messages import APIS
from kafkawire.primitives import Buffer
from kafkawire.registry import KEYS, api_name, request_class, response_class
from wirebroker.common.suggestions import did_you_mean
from wirebroker_tools.decode.batches import MAGIC, RecordData, record_data
from wirebroker_tools.decode.embedded import embedded_bytes, in_field
from wirebroker_tools.decode.plain import PlainError, message_of, plain_of

SMALLEST = 4
"""The size in bytes of the smallest frame, which has only a correlation id."""
KIND = "kind"


@dataclass(slots=True)
class Decoded:
    """A frame as plain data. `complaints` has a sentence about each damaged part. All parts without damage are decoded."""

    plain: dict[str, Any]
    size: int
    """the number of bytes of the frame; if the frame has a size field in the input, the number includes the four bytes of this
    field"""
    complaints: list[str] = field(default_factory=list)


class NotRecognised(ProtocolError):
    """Raised if bytes are neither a request nor batches. The error's message says what is wrong or missing."""


def decode_all(data: bytes, api: str | None = None, version: int | None = None) -> Iterator[Decoded]:
    """Yields the frames in `data`. If `api` is given, the frames are responses to `api` in `version`. Without `api`, the frames
    are requests or record data.

    Each frame may begin with its size. Raises ProtocolError; the message names the field, and the position in `data`.
    """
    if not data:
        raise NotRecognised("there are no bytes")
    if api is None and are_batches(data):
        reader = RecordData()
        yield Decoded({KIND: "batches", "batches": reader.read(data, None, 0, "batches")}, len(data), reader.complaints)
        return
    key = None if api is None else key_of(api)
    for start, end in _frames(data, key is not None):
        begin = start + SIZE_BYTES if start != end and _sized(data, start) == end else start
        decoded = _request(data[:end], begin) if key is None else _response(data[:end], begin, key, version or 0)
        decoded.size = end - start
        yield decoded


def key_of(api: str) -> int:
    """Returns the key of an API, which is given by its name or its number. Raises NotRecognised."""
    names = {name.lower(): key for name, key in KEYS.items()}
    key = int(api) if api.isdecimal() else names.get(api.lower(), -1)
    if key not in APIS:
        raise NotRecognised(f"there is no API {api!r}{did_you_mean(api, KEYS)}")
    return key


def are_batches(data: Buffer) -> bool:
    """Tells whether the data begins with a whole record batch, or with a whole message of magic 0 or 1 (Kafka before 0.11). The
    CRC of such a message must be right.
    """
    view = memoryview(data)
    try:
        size = next_batch_size(view, 0)
    except CorruptBatch:
        return False
    if size is None or size > len(data):
        return False
    return view[MAGIC_AT] == MAGIC or has_valid_crc(view[:size])


def _sized(data: bytes, pos: int) -> int:
    """Returns the end of the frame whose size field is at `pos`, or −1 if no frame can begin at `pos`."""
    if len(data) - pos < SIZE_BYTES:
        return -1
    end = frame_end(data, pos)
    return end if end - pos >= SIZE_BYTES + SMALLEST else -1


def _frames(data: bytes, responses: bool) -> list[tuple[int, int]]:
    """Returns the start and the end of each frame. If the data cannot be split exactly into frames with size fields, all of it
    is one frame without a size field."""
    found, pos = [], 0
    while pos < len(data):
        end = _sized(data, pos)
        if not pos < end <= len(data):
            break
        found.append((pos, end))
        pos = end
    if found and pos == len(data):
        return found
    end = _sized(data, pos)
    if end > 0 and not responses and not _is_request(data, 0) and (found or _is_request(data, SIZE_BYTES)):
        announced, left = end - pos - SIZE_BYTES, len(data) - pos - SIZE_BYTES
        raise ProtocolError(f"byte {pos}: the frame announces {announced} bytes, and {left} are left")
    return [(0, len(data))]


def _is_request(data: bytes, pos: int) -> bool:
    """Tells whether the bytes at `pos` begin a request header with an API and a version that this module can decode."""
    key, version = int.from_bytes(data[pos : pos + 2], "big"), int.from_bytes(data[pos + 2 : pos + 4], "big")
    if key not in APIS:
        return False
    oldest, newest = request_class(key).__schema__.versions
    return oldest <= version <= newest


def _request(data: bytes, begin: int) -> Decoded:
    if not _is_request(data, begin):
        key, version = int.from_bytes(data[begin : begin + 2], "big"), int.from_bytes(data[begin + 2 : begin + 4], "big")
        raise NotRecognised(_unrecognised(key, version, len(data) - begin))
    header = read_request_header(memoryview(data)[begin:])
    reader, cls = RecordData(), request_class(header.api_key)
    body, end = _body(cls, data, header.api_version, begin + header.end, reader)
    plain = {
        KIND: "request", "api": api_name(header.api_key), "version": header.api_version,
        "correlation_id": header.correlation_id, "client_id": header.client_id, "body": body,
    }  # fmt: skip
    return Decoded(plain, 0, reader.complaints + _left_over(cls, len(data) - end, end))


def _unrecognised(key: int, version: int, size: int) -> str:
    remedy = "a response needs --api and --version"
    if size < 8:
        return f"{size} bytes are too few for a request; {remedy}"
    if key not in APIS:
        return f"this is not a request: it begins with API key {key}, which Kafka does not have; {remedy}"
    oldest, newest = request_class(key).__schema__.versions
    return f"this is {api_name(key)} version {version}, and versions {oldest} to {newest} can be read; {remedy}"


def _response(data: bytes, begin: int, key: int, version: int) -> Decoded:
    cls = response_class(key)
    oldest, newest = cls.__schema__.versions
    if not oldest <= version <= newest:
        raise NotRecognised(f"{api_name(key)} has versions {oldest} to {newest}, not {version}")
    frame = memoryview(data)[begin:]
    version = written_version(frame, key, version)
    correlation_id, pos = read_response_header(frame, key, version)
    reader = RecordData(may_be_cut=True)
    body, end = _body(cls, data, version, begin + pos, reader)
    plain = {KIND: "response", "api": api_name(key), "version": version, "correlation_id": correlation_id, "body": body}
    return Decoded(plain, 0, reader.complaints + _left_over(cls, len(data) - end, end))


def _left_over(cls: type[Message], count: int, pos: int) -> list[str]:
    return [f"byte {pos}: {count} bytes follow after the end of {cls.__name__}"] if count else []


def _body(cls: type[Message], data: bytes, version: int, pos: int, reader: RecordData) -> tuple[dict[str, Any], int]:
    """Returns two values: a message (with its record batches) as plain data, and the position after the message."""
    try:
        nodes, end = read_fields(cls, data, version, pos)
    except ProtocolError as damage:
        raise ProtocolError(f"{cls.__name__} v{version}, {damage}") from None
    topic: str | None = None
    path = "records"

    def records(node: Node) -> Any:
        if node.name == "unaligned_records" and not are_batches(node.value):  # a part of a snapshot that begins inside a batch
            return {"hex": bytes(node.value).hex()}
        return reader.read(node.value, topic, node.end - len(node.value), path)

    plain: dict[str, Any] = {}
    for node in nodes:
        if isinstance(node.spec, list) and isinstance(node.spec[0], type) and node.value is not None:
            plain[node.name] = []
            for each in node.value:  # in Produce and Fetch, the elements are topics
                topic = next((str(part.value) for part in each.value if part.name in ("name", "topic")), None)
                path = f"{node.name}{each.name} ({topic}), records" if topic else f"{node.name}{each.name}, records"
                plain[node.name].append(plain_of(each.value, in_field, records))
        else:
            plain |= plain_of([node], in_field, records)
    return plain, end


# Back


def encode_plain(plain: Any) -> bytes:
    """Returns the bytes of a frame or of batches. The bytes of a frame begin with its size. Raises PlainError."""
    if not isinstance(plain, dict) or plain.get(KIND) not in ("request", "response", "batches"):
        raise PlainError("this is not a frame: an object whose `kind` is request, response or batches")
    if plain[KIND] == "batches":
        return record_data(plain.get("batches", []), "batches")
    try:
        key, version, correlation_id = key_of(str(plain["api"])), plain["version"], plain.get("correlation_id", 0)
    except KeyError as absent:
        raise PlainError(f"the {plain[KIND]} has no {absent}") from None
    except NotRecognised as unknown:
        raise PlainError(f"api: {unknown}") from None
    cls = request_class(key) if plain[KIND] == "request" else response_class(key)
    oldest, newest = cls.__schema__.versions
    if not isinstance(version, int) or not oldest <= version <= newest:
        raise PlainError(f"version: {cls.__name__} has versions {oldest} to {newest}, not {version!r}")
    message = message_of(cls, plain.get("body", {}), embedded_bytes, "body", record_data)
    try:
        if plain[KIND] == "request":
            return encode_request(correlation_id, plain.get("client_id"), message, version)
        return b"".join(encode_response(correlation_id, message, version))
    except EncodeError as wrong:
        raise PlainError(str(wrong)) from None
