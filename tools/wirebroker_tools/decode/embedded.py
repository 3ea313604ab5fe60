"""Converts messages that are inside bytes fields: coordinators' records, transaction markers, and messages of the consumer
protocol.

For example, bytes become `{"OffsetCommitValue": {"version": 4, …}}`. Bytes are converted only if the encoded message has
exactly the same bytes. So nothing is lost when the message is converted back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from kafkawire.codec import encode
from kafkawire.coordinator_records import GROUP_RECORDS, TRANSACTION_RECORDS
from kafkawire.declare import Message
from kafkawire.errors import EncodeError, ProtocolError
from kafkawire.fields import read_fields
from kafkawire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from wirebroker_tools.decode.plain import PlainError, message_of, plain_of

Plain = dict[str, Any]

_PREFIX = struct.Struct(">h")
_MARKER_KEY, _MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")
MARKER_TYPES = {0: "abort", 1: "commit"}
BY_FIELD = {
    "metadata": ConsumerProtocolSubscription, "member_metadata": ConsumerProtocolSubscription,
    "subscription": ConsumerProtocolSubscription, "assignment": ConsumerProtocolAssignment,
    "member_assignment": ConsumerProtocolAssignment,
}  # fmt: skip
"""If the members of a group are consumers, these fields of the type bytes contain a message of the consumer protocol."""
INTERNAL_TOPICS = {"__consumer_offsets": GROUP_RECORDS, "__transaction_state": TRANSACTION_RECORDS}


@cache
def _by_name() -> dict[str, type[Message]]:
    found: dict[str, type[Message]] = {each.__name__: each for each in BY_FIELD.values()}
    for kinds in (GROUP_RECORDS, TRANSACTION_RECORDS):
        for module, name in kinds.values():
            where = import_module(f"kafkawire.coordinator_records.{module}")
            found |= {f"{name}{part}": getattr(where, f"{name}{part}") for part in ("Key", "Value")}
    return found


def in_field(name: str, raw: bytes) -> Plain | None:
    """Returns the message in the bytes `raw` of the field `name`, or None if `raw` is not a message."""
    cls = BY_FIELD.get(name)
    return _versioned(cls, raw) if cls is not None else None


def in_record(key: bytes | None, value: bytes | None, topic: str | None) -> tuple[Plain | None, Plain | None]:
    """Returns the key and the value of a coordinator's record as messages. Returns None in place of a message that cannot be
    read. `topic` is None if the topic's name is unknown."""
    tables = [INTERNAL_TOPICS[topic]] if topic in INTERNAL_TOPICS else [] if topic else list(INTERNAL_TOPICS.values())
    for kinds in tables:
        for kind in kinds if key and len(key) >= _PREFIX.size else ():
            if _PREFIX.unpack_from(key or b"")[0] == kind:
                names = _by_name()
                found = _message(names[f"{kinds[kind][1]}Key"], key or b"", 0, {})
                if found is not None:
                    return found, None if value is None else _versioned(names[f"{kinds[kind][1]}Value"], value)
    return None, None


def in_marker(key: bytes | None, value: bytes | None) -> tuple[Plain | None, Plain | None]:
    """Returns the key and the value of a transaction marker's control record as messages."""
    if key is None or value is None or len(key) != _MARKER_KEY.size or len(value) != _MARKER_VALUE.size:
        return None, None
    (version, kind), (value_version, epoch) = _MARKER_KEY.unpack(key), _MARKER_VALUE.unpack(value)
    if kind not in MARKER_TYPES:
        return None, None
    shown = {"version": version, "type": MARKER_TYPES[kind]}
    return {"ControlRecordType": shown}, {"EndTxnMarker": {"version": value_version, "coordinator_epoch": epoch}}


def _versioned(cls: type[Message], raw: bytes) -> Plain | None:
    if len(raw) < _PREFIX.size:
        return None
    (version,) = _PREFIX.unpack_from(raw)
    return _message(cls, raw, version, {"version": version})


def _message(cls: type[Message], raw: bytes, version: int, first: Plain) -> Plain | None:
    try:
        nodes, _ = read_fields(cls, raw, version, _PREFIX.size)
        plain = {cls.__name__: first | plain_of(nodes, in_field)}
        return plain if embedded_bytes(plain, "") == raw else None
    except (ProtocolError, PlainError):
        return None


def embedded_bytes(plain: Plain, path: str) -> bytes:
    """Returns the bytes of a message that `in_field`, `in_record` or `in_marker` has converted. Raises PlainError."""
    if len(plain) != 1:
        raise PlainError(f'{path}: expected {{"hex": …}} or one message by its name, not {", ".join(plain) or "nothing"}')
    ((name, content),) = plain.items()
    if not isinstance(content, dict):
        raise PlainError(f"{path}.{name}: this is not an object")
    try:
        if name in MARKERS:
            return MARKERS[name](content)
        cls = _by_name().get(name)
        if cls is None:
            raise PlainError(f'{path}: there is no message {name!r}; a value in hex is {{"hex": …}}')
        is_key = name.endswith("Key")
        version = 0 if is_key else content["version"]
        fields = {key: value for key, value in content.items() if is_key or key != "version"}
        prefix = cls.__schema__.key if is_key else version
        return _PREFIX.pack(prefix) + encode(message_of(cls, fields, embedded_bytes, f"{path}.{name}"), version)
    except (EncodeError, KeyError, TypeError, ValueError, struct.error) as wrong:
        raise wrong if isinstance(wrong, PlainError) else PlainError(f"{path}.{name}: {_words(wrong)}") from wrong


def _words(wrong: Exception) -> str:
    return f"there is no {wrong}" if isinstance(wrong, KeyError) else str(wrong)


def _marker_key(content: Plain) -> bytes:
    types = {name: kind for kind, name in MARKER_TYPES.items()}
    return _MARKER_KEY.pack(content["version"], types[content["type"]])


def _marker_value(content: Plain) -> bytes:
    return _MARKER_VALUE.pack(content["version"], content["coordinator_epoch"])


MARKERS: dict[str, Callable[[Plain], bytes]] = {"ControlRecordType": _marker_key, "EndTxnMarker": _marker_value}
