"""Converts entries of message sets to plain data and back. An entry is a message of magic 0 or 1, or a wrapper with messages
inside."""

from __future__ import annotations

from typing import Any

from kafkawire.compression import NAMES, CodecMissing
from kafkawire.errors import ProtocolError
from kafkawire.message_sets import NO_TIMESTAMP, LegacyRecord, has_valid_crc, messages_in, read_message, write_set
from wirebroker_tools.decode.embedded import embedded_bytes, in_record
from wirebroker_tools.decode.plain import bytes_of, plain_bytes


def plain_entry(entry: memoryview, topic: str | None) -> tuple[dict[str, Any], str]:
    """Returns a whole entry as plain data. Also returns a sentence about the entry's damage, or "" if the entry is undamaged.
    Raises ProtocolError if the plain data could not be converted back to the same bytes.
    """
    message = read_message(entry)
    complaint = "" if has_valid_crc(entry) else "the CRC of the message does not match"
    plain: dict[str, Any] = {"magic": message.magic, "offset": message.offset, "attributes": message.attributes}
    if message.magic > 0:
        plain["timestamp"] = message.timestamp
    if message.compression:
        plain["compression"] = NAMES[message.compression] if message.compression < len(NAMES) else "unknown"
        try:
            plain["messages"] = [_contents(each, topic) for each in messages_in(message)]
        except (ProtocolError, CodecMissing) as damage:
            complaint = complaint or f"the messages inside cannot be read: {damage}"
        plain |= {"key": plain_bytes(message.key), "value": {"hex": (message.value or b"").hex()}}
    else:
        plain |= _key_and_value(message, topic)
    if entry_bytes(plain, "") != entry:
        raise ProtocolError(complaint or "the message has bytes that belong to no field")
    return plain, complaint


def _contents(message: LegacyRecord, topic: str | None) -> dict[str, Any]:
    return {"offset": message.offset, "timestamp": message.timestamp, **_key_and_value(message, topic)}


def _key_and_value(message: LegacyRecord, topic: str | None) -> dict[str, Any]:
    key, value = in_record(message.key, message.value, topic)
    return {
        "key": plain_bytes(message.key) if key is None else key,
        "value": plain_bytes(message.value) if value is None else value,
    }


def entry_bytes(plain: dict[str, Any], path: str) -> bytes:
    """Returns the bytes of an entry. The bytes of a wrapper come from its `value`, and not from its `messages`. Raises
    PlainError."""
    key, value = (bytes_of(plain.get(name), embedded_bytes, f"{path}.{name}") for name in ("key", "value"))
    timestamp, attributes = plain.get("timestamp", NO_TIMESTAMP), plain.get("attributes", 0)
    return write_set([LegacyRecord(plain.get("offset", 0), plain["magic"], attributes, timestamp, key, value)])
