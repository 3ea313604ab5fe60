"""Producer snapshots: NNN.snapshot, version 1 (ProducerStateManager.writeSnapshot, ProducerSnapshot.json).

    version 2 · CRC-32C of what follows 4 · count 4 · entries:
    producer id 8 · epoch 2 · last sequence 4 · last offset 8 · offset delta 4 · timestamp 8 · coordinator epoch 4 ·
    first offset of the open transaction 8 (−1 for none)

A snapshot has only the last batch of each producer. So after a restart, the broker recognises only a retry of this batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kafkawire.checksums import crc32c
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.opening import read_whole

VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6


class ProducerState(NamedTuple):
    """The state of a producer at the snapshot's offset, in the order of the file's fields. An offset of −1 stands for
    "none"."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def producer_snapshot_bytes(producers: Iterable[ProducerState]) -> bytes:
    """Returns the content of a snapshot file with these producers."""
    entries = [_ENTRY.pack(*producer) for producer in producers]
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def read_producer_snapshot(path: Path) -> list[ProducerState]:
    """Returns the producers in a snapshot. Raises DamagedFile if Kafka would also refuse the file."""
    raw = read_whole(path)
    if len(raw) < _HEAD.size:
        raise DamagedFile(path, f"a producer snapshot has at least {_HEAD.size} bytes, this one has {len(raw)}")
    version, crc, count = _HEAD.unpack_from(raw)
    if version != VERSION:
        raise DamagedFile(path, f"the producer snapshot has version {version}, expected {VERSION}")
    if crc32c(raw[_CRC_FROM:]) != crc:
        raise DamagedFile(path, "the CRC of the producer snapshot does not match its content")
    if len(raw) != _HEAD.size + count * _ENTRY.size:
        raise DamagedFile(path, f"the producer snapshot announces {count} producers and has {len(raw)} bytes")
    return [ProducerState._make(fields) for fields in _ENTRY.iter_unpack(raw[_HEAD.size :])]
