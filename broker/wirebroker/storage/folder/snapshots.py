"""Producer state on disk: NNN.snapshot, version 1 (ProducerStateManager.writeSnapshot, ProducerSnapshot.json).

    version 2 · CRC-32C of what follows 4 · count 4 · entries:
    producer id 8 · epoch 2 · last sequence 4 · last offset 8 · offset delta 4 · timestamp 8 · coordinator epoch 4 ·
    first offset of the open transaction 8 (−1 for none)

Of each producer the last batch is kept, so that after a restart only that is recognised as a retry.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from crc32c import crc32c

from wirebroker.core.producers import BatchMetadata, Key, ProducerEntry, pack, unpack
from wirebroker.storage.folder.damage import DamagedFile

VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6


def snapshot_bytes(producers: Mapping[Key, bytes]) -> bytes:
    """The packed states of producers as a file. Kafka's format has room for producer ids alone, not for names."""
    entries = []
    for key, state in producers.items():
        if isinstance(key, int):
            entry = unpack(state)
            last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, -1)
            entries.append(
                _ENTRY.pack(
                    key, entry.producer_epoch, last.last_sequence, last.last_offset, last.offset_delta,
                    entry.last_timestamp, entry.coordinator_epoch, entry.current_txn_first_offset,
                )
            )  # fmt: skip
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def read_snapshot(path: Path) -> dict[Key, bytes]:
    """Producer ids and their packed states. Raises DamagedFile for what Kafka would not take either."""
    raw = path.read_bytes()
    if len(raw) < _HEAD.size:
        raise DamagedFile(path, f"a producer snapshot of {len(raw)} bytes")
    version, crc, count = _HEAD.unpack_from(raw)
    if version != VERSION:
        raise DamagedFile(path, f"a producer snapshot of version {version}; {VERSION} is known")
    if crc32c(raw[_CRC_FROM:]) != crc:
        raise DamagedFile(path, "the CRC of the producer snapshot does not fit")
    if len(raw) != _HEAD.size + count * _ENTRY.size:
        raise DamagedFile(path, f"a producer snapshot of {count} producers in {len(raw)} bytes")
    producers: dict[Key, bytes] = {}
    for key, epoch, sequence, offset, delta, timestamp, coordinator, opened in _ENTRY.iter_unpack(raw[_HEAD.size :]):
        batches = (BatchMetadata(sequence, offset, delta, timestamp),) if offset >= 0 else ()
        last = sequence if batches else -1
        producers[key] = pack(ProducerEntry(epoch, last, coordinator, timestamp, opened, False, batches))
    return producers
