"""The batches that a scenario's produce step describes, including broken batches."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from kafkawire.batches import CONTROL, HEADER, HEADER_SIZE, LOG_APPEND_TIME, Record, build_batch, crc_of, read_header
from kafkawire.compression import NAMES

Step = dict[str, Any]
_ALTERED = {
    "base_offset": "base_offset", "length": "batch_length", "leader_epoch": "partition_leader_epoch", "magic": "magic",
    "attrs": "attributes", "last_offset_delta": "last_offset_delta", "count": "records_count",
}  # fmt: skip


def record_data(step: Step, timestamp: int) -> bytes | None:
    if "raw_hex" in step:
        return None if step["raw_hex"] is None else bytes.fromhex(step["raw_hex"])
    if "message_set" in step:
        return _message_set(step["message_set"], timestamp)
    data = batch(step, timestamp)
    for more in step.get("more", []):
        data += batch({**{k: v for k, v in step.items() if k != "more"}, **more}, timestamp)
    if "append_hex" in step:
        data += bytes.fromhex(step["append_hex"])
    if "truncate" in step:
        cut = step["truncate"]
        data = data[:cut] if cut >= 0 else data[: len(data) + cut]
    return data


def batch(step: Step, timestamp: int) -> bytes:
    """Returns one batch, with the step's alterations."""
    return altered(_well_formed(step, timestamp), step)


def altered(sound: bytes, step: Step) -> bytes:
    """Applies the step's alterations to a batch. The CRC is computed after the alterations, unless the step itself alters the
    CRC."""
    made = bytearray(sound)
    header = read_header(made)
    changes = {field: step[name] for name, field in _ALTERED.items() if name in step}
    attributes = changes.get("attributes", header.attributes)
    if step.get("control"):
        attributes |= CONTROL
    if step.get("ts_type"):
        attributes |= LOG_APPEND_TIME
    changes["attributes"] = attributes
    if step.get("empty"):
        del made[HEADER_SIZE:]
        changes.setdefault("batch_length", HEADER_SIZE - 12)
        changes.setdefault("records_count", 0)
        changes.setdefault("last_offset_delta", step.get("last_offset_delta", -1))
    header = header._replace(**changes)
    HEADER.pack_into(made, 0, *header._replace(crc=0))
    struct.pack_into(">I", made, 17, step["crc"] if "crc" in step else crc_of(made))
    if step.get("flip_last_byte"):
        made[-1] ^= 0xFF
    return bytes(made)


def _well_formed(step: Step, timestamp: int) -> bytes:
    count = max(step.get("n", 1), 1)
    first = max(step.get("seq", -1), 0)
    key = step.get("key")
    deltas = step.get("offset_deltas") or range(count)
    records = [
        Record(delta, 0, key.encode() if isinstance(key, str) else None, _value(step, first + i))
        for i, delta in enumerate(deltas)
    ]
    return build_batch(
        records,
        base_timestamp=timestamp,
        producer_id=step.get("pid", -1),
        producer_epoch=step.get("epoch", -1),
        base_sequence=step.get("seq", -1),
        compression=NAMES.index(step.get("codec", "none")),
        transactional=bool(step.get("txn")),
    )


def _value(step: Step, number: int) -> bytes:
    if "value_bytes" in step:
        return b"x" * int(step["value_bytes"])
    return f"{step.get('tag', 'v')}{number}".encode()


def _message_set(magic: int, timestamp: int) -> bytes:
    """Returns one message of the formats before 0.11."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", 2) + b"v0"
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message
