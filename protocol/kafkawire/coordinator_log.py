"""Records of __consumer_offsets and __transaction_state in Kafka's own format. A key is its kind (int16) and a message; a value
is its version (int16) and a message."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from kafkawire.codec import decode, encode
from kafkawire.declare import Message
from kafkawire.errors import EncodeError, ProtocolError, UnwritableText
from kafkawire.primitives import Buffer

_PREFIX = struct.Struct(">h")


class CoordinatorRecord(NamedTuple):
    """A record whose key and value are messages. `value` is None for a tombstone."""

    key: Message
    value: Message | None
    version: int = 0
    """The value is written in this version of its message class."""

    def encode(self) -> tuple[bytes, bytes | None]:
        """Returns the bytes of the record's key and value. Raises UnwritableText."""
        return encode_key(self.key), None if self.value is None else encode_value(self.value, self.version)


def encode_key(key: Message) -> bytes:
    """Returns the bytes of a record's key. Raises UnwritableText."""
    return _PREFIX.pack(key.__schema__.key) + _written(key, 0)


def encode_value(value: Message, version: int = 0) -> bytes:
    """Returns the bytes of a record's value. Raises UnwritableText."""
    return _PREFIX.pack(version) + _written(value, version)


def _written(message: Message, version: int) -> bytes:
    try:
        return encode(message, version)
    except EncodeError as wrong:
        raise UnwritableText(str(wrong)) from wrong


def read_record(kinds: Mapping[int, tuple[str, str]], key: Buffer, value: Buffer | None) -> CoordinatorRecord | None:
    """Returns a record of these kinds (`GROUP_RECORDS` or `TRANSACTION_RECORDS`), or None for another kind.

    Raises ProtocolError for bytes that are not such a record.
    """
    try:
        (kind,) = _PREFIX.unpack_from(key)
        if kind not in kinds:
            return None
        module_name, name = kinds[kind]
        module = import_module(f"kafkawire.coordinator_records.{module_name}")
        read_key, _ = decode(getattr(module, f"{name}Key"), key, 0, _PREFIX.size)
        if value is None:
            return CoordinatorRecord(read_key, None)
        (version,) = _PREFIX.unpack_from(value)
        read_value, _ = decode(getattr(module, f"{name}Value"), value, version, _PREFIX.size)
    except struct.error as damage:
        raise ProtocolError(f"a coordinator's record is too short: {damage}") from damage
    return CoordinatorRecord(read_key, read_value, version)
