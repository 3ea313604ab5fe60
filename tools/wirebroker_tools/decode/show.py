"""Shows decoded frames as text that people can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from kafkawire.errors import error_name
from wirebroker_tools.decode.batches import CUT
from wirebroker_tools.decode.frames import KIND, Decoded

LATEST_SHOWN = 253_370_764_800_000
"""The end of the year 9999 in ms since the epoch. Python's datetime cannot represent later times."""


def lines(decoded: Decoded) -> Iterator[str]:
    """Yields a frame as lines of text, one for each field."""
    plain = decoded.plain
    if plain[KIND] == "batches":
        yield f"record data, {decoded.size} bytes"
        yield from _fields({"batches": plain["batches"]}, 1)
        return
    client = f", client id {plain['client_id']!r}" if "client_id" in plain else ""
    head = f"{plain['api']} v{plain['version']} {plain[KIND]}"
    yield f"{head}, correlation id {plain['correlation_id']}{client}, {decoded.size} bytes"
    yield from _fields(plain["body"], 1)


def _fields(plain: dict[str, Any], depth: int) -> Iterator[str]:
    for name, value in plain.items():
        yield from _field(name, value, depth)


def _field(name: str, value: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, dict) and "hex" not in value:
        yield f"{indent}{name}"
        yield from _fields(value, depth + 1)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for at, each in enumerate(value):
            if isinstance(each, dict) and "base_offset" in each and "crc" in each:
                yield f"{indent}{name}[{at}]  {_batch(each)}"
                yield from _fields({key: part for key, part in each.items() if key not in _IN_HEAD}, depth + 1)
            else:
                yield from _field(f"{name}[{at}]", each, depth)
    else:
        yield f"{indent}{name}: {_shown(name, value)}"


_IN_HEAD = (
    "magic", "producer_id", "producer_epoch", "base_sequence", "records_count", "crc", "crc_right", "compression", "flags",
    "base_offset", "last_offset_delta", "partition_leader_epoch",
)  # fmt: skip
"""These fields of a batch are shown in the batch's first line instead of in separate lines."""


def _batch(plain: dict[str, Any]) -> str:
    count, more = plain["records_count"], plain["last_offset_delta"]
    parts = [f"{count} record{'s' * (count != 1)} at offset {_range(plain['base_offset'], more)}"]
    if plain["producer_id"] >= 0:
        sequence = plain["base_sequence"]
        sequences = f"sequence {_range(sequence, more)}" if sequence >= 0 else "without sequences"
        parts.append(f"producer {plain['producer_id']} epoch {plain['producer_epoch']}, {sequences}")
    parts += [f"leader epoch {plain['partition_leader_epoch']}", *plain["flags"]]
    if plain["compression"] != "none":
        parts.append(plain["compression"])
    return ", ".join([*parts, f"CRC {plain['crc']} {'right' if plain['crc_right'] else 'WRONG'}"])


def _range(first: int, more: int) -> str:
    return f"{first}–{first + more}" if more else str(first)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        data = value["hex"]
        return f"the first {len(data) // 2} of {value[CUT]} bytes of a batch, hex {data}" if CUT in value else f"hex {data}"
    if name.endswith("error_code") and isinstance(value, int):
        return f"{value} {error_name(value)}"
    if name.endswith("timestamp") and isinstance(value, int) and 0 < value < LATEST_SHOWN:
        return f"{value} ({datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec='milliseconds')})"
    return json.dumps(value, ensure_ascii=False)
