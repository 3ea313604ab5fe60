"""Writes odd metadata records in valid batches into a data directory, as an attacker can do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from kafkawire.batches import Record, build_batch, iter_batches, read_header
from kafkawire.declare import Message
from kafkawire.disk.checkpoints import RECOVERY_POINTS
from kafkawire.disk.damage import DataError
from kafkawire.metadata_log import metadata_bytes
from wirebroker.engine.engine import Engine
from wirebroker.storage.store import FolderStore

NOW = 1_800_000_000_000


def start(data: Path) -> str:
    """Starts a broker without sockets on the directory, and stops it. Returns "", or why the broker refused the directory."""
    store = None
    try:
        store = FolderStore(data, random.Random(1).randbytes)
        Engine(NOW, random.Random(1).randbytes, store=store)
        store.close(NOW)
    except DataError as refused:
        if store is not None:
            store.abandon()
        return str(refused)
    return ""


def with_records(data: Path, records: Sequence[Message]) -> None:
    """Append `records` to the metadata log in a stopped broker's data directory."""
    values = [metadata_bytes(each, each.__schema__.versions[1]) for each in records]
    with_values(data / "__cluster_metadata-0" / f"{0:020d}.log", values)
    (data / RECOVERY_POINTS).unlink(missing_ok=True)  # this checkpoint has the old end of the metadata log


def with_values(log: Path, values: Sequence[bytes], keys: Sequence[bytes | None] | None = None) -> None:
    """Append a batch with `values` to a log."""
    end, epoch = 0, 0
    for batch in iter_batches(log.read_bytes()):
        header = read_header(batch)
        end, epoch = header.last_offset + 1, header.partition_leader_epoch
    pairs = zip(keys or [None] * len(values), values, strict=True)
    batch = build_batch([Record(i, 0, *pair) for i, pair in enumerate(pairs)], base_offset=end, leader_epoch=epoch)
    with log.open("ab") as file:
        file.write(batch)
