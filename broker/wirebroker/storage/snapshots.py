"""Converts packed producer states to a producer snapshot file and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kafkawire.disk.snapshots import ProducerState, producer_snapshot_bytes, read_producer_snapshot
from wirebroker.core.producers import BatchMetadata, Key, ProducerEntry, pack, unpack


def snapshot_bytes(producers: Mapping[Key, bytes]) -> bytes:
    """Returns the packed states as the bytes of a snapshot. Kafka's format has only producer ids, so the snapshot leaves out
    producers with names.
    """
    return producer_snapshot_bytes(_states(producers))


def _states(producers: Mapping[Key, bytes]) -> Iterator[ProducerState]:
    for key, state in producers.items():
        if isinstance(key, int):
            entry = unpack(state)
            last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, -1)
            yield ProducerState(
                key, entry.producer_epoch, last.last_sequence, last.last_offset, last.offset_delta,
                entry.last_timestamp, entry.coordinator_epoch, entry.current_txn_first_offset,
            )  # fmt: skip


def read_snapshot(path: Path) -> dict[Key, bytes]:
    """Returns the packed states by producer id. Raises DamagedFile."""
    producers: dict[Key, bytes] = {}
    for key, epoch, sequence, offset, delta, timestamp, coordinator, opened in read_producer_snapshot(path):
        batches = (BatchMetadata(sequence, offset, delta, timestamp),) if offset >= 0 else ()
        last = sequence if batches else -1
        producers[key] = pack(ProducerEntry(epoch, last, coordinator, timestamp, opened, False, batches))
    return producers
