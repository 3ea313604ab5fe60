"""The three indexes of a segment (OffsetIndex, TimeIndex, TransactionIndex): entries of fixed size, big-endian.

    .index       relative last offset of a batch 4 · position of the batch 4
    .timeindex   largest timestamp so far 8 · relative last offset of its batch 4
    .txnindex    version 2 · producer id 8 · first offset 8 · last offset 8 · last stable offset 8

Kafka creates .index and .timeindex at their largest size, and cuts them when it closes the segment. So the index of a segment
that was not closed ends in zeros.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.opening import open_to_read, read_whole

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
TRANSACTION_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction (AbortedTxn). A read_committed consumer skips the producer's records from `first_offset` up to the
    abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's offset."""
    last_stable_offset: int
    """The partition's last stable offset right after the transaction ended."""


def offset_index_bytes(base_offset: int, entries: Iterable[tuple[int, int]]) -> bytes:
    """Returns the content of an index file with these entries (last offset, position)."""
    return b"".join(OFFSET_ENTRY.pack(offset - base_offset, position) for offset, position in entries)


def read_offset_index(path: Path, base_offset: int) -> tuple[list[int], list[int]]:
    """Returns two lists: the last offsets in the entries of an index, and the positions in the entries. Stops at the first
    entry that is not higher than the entry before it. Raises DamagedFile, FileNotFoundError.
    """
    offsets: list[int] = []
    positions: list[int] = []
    for relative, position in OFFSET_ENTRY.iter_unpack(_whole(path, OFFSET_ENTRY.size)):
        if relative < 0 or position <= (positions[-1] if positions else 0):
            break
        offsets.append(base_offset + relative)
        positions.append(position)
    return offsets, positions


def time_index_bytes(base_offset: int, entries: Iterable[tuple[int, int]]) -> bytes:
    """Returns the content of a time index file with these entries (timestamp in ms, last offset)."""
    return b"".join(TIME_ENTRY.pack(timestamp, offset - base_offset) for timestamp, offset in entries)


def read_time_index(path: Path, base_offset: int) -> tuple[list[int], list[int]]:
    """Returns two lists: the timestamps in the entries of a time index, and the last offsets in the entries. Stops at the first
    entry that is not higher than the entry before it. Raises DamagedFile, FileNotFoundError.
    """
    stamps: list[int] = []
    offsets: list[int] = []
    for timestamp, relative in TIME_ENTRY.iter_unpack(_whole(path, TIME_ENTRY.size)):
        if relative < 0 or timestamp <= (stamps[-1] if stamps else -1) or (timestamp == 0 and relative == 0):
            break
        stamps.append(timestamp)
        offsets.append(base_offset + relative)
    return stamps, offsets


def last_entry(path: Path, entry: struct.Struct) -> tuple[int, ...]:
    """Returns the last entry of an index, or an empty tuple if the index has no entry. Raises DamagedFile,
    FileNotFoundError."""
    with open_to_read(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size % entry.size:
            raise _odd_size(path, size, entry.size)
        file.seek(max(size - entry.size, 0))
        return entry.unpack(file.read(entry.size)) if size else ()


def transaction_index_bytes(aborted: Iterable[AbortedTransaction]) -> bytes:
    """Returns the content of a transaction index file with these aborted transactions, in the order of their markers."""
    return b"".join(TRANSACTION_ENTRY.pack(0, *each) for each in aborted)


def read_transaction_index(path: Path) -> list[AbortedTransaction]:
    """Returns the aborted transactions of a segment. If there is no file, returns an empty list. Raises DamagedFile."""
    try:
        raw = _whole(path, TRANSACTION_ENTRY.size)
    except FileNotFoundError:
        return []
    found: list[AbortedTransaction] = []
    for at, (version, *fields) in enumerate(TRANSACTION_ENTRY.iter_unpack(raw)):
        if version != 0:
            raise DamagedFile(path, f"the entry has version {version}, expected 0", at * TRANSACTION_ENTRY.size)
        each = AbortedTransaction(*fields)
        if found and each.last_offset <= found[-1].last_offset:
            raise DamagedFile(path, f"{each} is not after {found[-1]}", at * TRANSACTION_ENTRY.size)
        found.append(each)
    return found


def _whole(path: Path, entry: int) -> bytes:
    raw = read_whole(path)
    if len(raw) % entry:
        raise _odd_size(path, len(raw), entry)
    return raw


def _odd_size(path: Path, size: int, entry: int) -> DamagedFile:
    return DamagedFile(path, f"{size} bytes are not a multiple of {entry}, the size of an entry")
