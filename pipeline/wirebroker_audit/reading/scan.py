"""Turns bytes into rows: the headers of batches as Arrow columns, with CRC, damage, and the producers' runs. No
Spark or I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from kafkawire.batches import (
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_OVERHEAD,
    SEQUENCES,
    may_be_compacted,
)
from kafkawire.primitives import Buffer
from wirebroker_audit.reading.limits import LEAST_LENGTH, MAGIC, MAGIC_AT
from wirebroker_audit.reading.linker import NO_RUN, RULES, Array, Linker
from wirebroker_audit.reading.pieces import Piece
from wirebroker_audit.reading.walking import Walk

LARGEST_BATCH = 256 * 1024 * 1024
"""A batch length above this counts as damage."""
_LENGTH = struct.Struct(">i")
_MARKER = struct.Struct(">hh")
_HEADER = np.dtype(
    [
        ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
        ("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8"),
        ("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("records", ">i4"),
    ]
)  # fmt: skip

BATCHES = pa.schema(
    [
        pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("base_offset", pa.int64()),
        pa.field("last_offset", pa.int64()), pa.field("leader_epoch", pa.int32()), pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int16()), pa.field("base_sequence", pa.int32()),
        pa.field("last_sequence", pa.int32()), pa.field("records", pa.int32()), pa.field("attributes", pa.int16()),
        pa.field("max_timestamp", pa.int64()), pa.field("crc_stored", pa.int64()), pa.field("crc_computed", pa.int64()),
        pa.field("bytes", pa.int32()), pa.field("segment", pa.string()), pa.field("position", pa.int64()),
        pa.field("marker", pa.int8()), pa.field("content", pa.int64()), pa.field("run", pa.int64()),
        pa.field("missing", pa.int64()), pa.field("after_damage", pa.bool_()),
        pa.field("problem", pa.string()), pa.field("detail", pa.string()),
    ]
)  # fmt: skip
"""`BatchRow`, and the columns that the scan adds.

`marker`: 1 commit, 0 abort, −1 no marker · `content`: a hash of the stored records · `run`: see `linker` · `missing`: the
number of offsets between the batch and the earlier batches of its piece · `after_damage`: whether there is damage between
them · `problem`: a kind of finding, `unreadable`, `deleted`, or `old_format`; null for a sound batch · `detail`:
the reason as a clause. In a row with a problem other than `offset_regression`, only topic, partition, segment and position can
be trusted. If no batch can be read at the position, both offsets of the row are the expected next offset.
"""


def is_intact(rows: pa.RecordBatch) -> pa.BooleanArray:
    """Tells whether the header of each batch can be trusted."""
    problem = rows.column("problem")
    return pc.or_(pc.is_null(problem), pc.fill_null(pc.equal(problem, "offset_regression"), False))


class Chunk(NamedTuple):
    """A stretch of bytes, the batches in it, and their rows. The bytes stay valid until the next chunk is read."""

    view: memoryview
    rows: pa.RecordBatch
    begin: int
    """the view's position in its segment; −1 for rows about damage without batches"""
    places: dict[int, int] | None = None
    """maps a batch's position to its place in the view; None if each place is the position minus `begin`"""


def headers_at(view: Buffer, positions: Array) -> Array:
    """Returns the batch headers at these positions as a structured array."""
    anywhere: Array = np.ndarray(max(len(view) - HEADER_SIZE + 1, 0), np.dtype((np.void, HEADER_SIZE)), view, strides=1)
    return anywhere[positions].view(_HEADER)  # numpy copies an item of `void` at once, and a structured item by its fields


def stored_crc(view: Buffer, pos: int) -> int:
    """Returns the checksum in the header at `pos`."""
    return int.from_bytes(memoryview(view)[pos + 17 : pos + CRC_START], "big")


def looks_like_batch(view: Buffer) -> bool:
    """Tells whether the view may begin with a batch header; the CRC is not checked."""
    if len(view) < HEADER_SIZE or view[MAGIC_AT] != MAGIC:
        return False
    return bool(LEAST_LENGTH <= _LENGTH.unpack_from(view, 8)[0] <= LARGEST_BATCH)


def find_batch(view: memoryview, stop: int) -> int | None:
    """Returns the first position before `stop` at which a whole batch with a matching CRC begins."""
    raw = np.frombuffer(view, np.uint8)
    last = min(stop, len(view) - HEADER_SIZE + 1)
    if last <= 0:
        return None
    for at in np.flatnonzero(raw[MAGIC_AT : last + MAGIC_AT] == MAGIC).tolist():
        (length,) = _LENGTH.unpack_from(view, at + 8)
        end = at + LOG_OVERHEAD + length
        if length < LEAST_LENGTH or length > LARGEST_BATCH or end > len(view):
            continue
        if stored_crc(view, at) == crc32c(view[at + CRC_START : end]):
            return int(at)
    return None


def batch_rows(data: bytes, found: Walk, piece: Piece, linker: Linker, base_position: int) -> pa.RecordBatch:
    """Returns the walked batches as rows; `base_position` is the data's position in its segment."""
    positions, view = found.positions, memoryview(data)
    rows = headers_at(data, positions)
    crc_stored = rows["crc"].astype(np.int64)
    base = rows["base_offset"].astype(np.int64)
    delta = rows["last_offset_delta"].astype(np.int64)
    last = base + delta
    first_sequence = rows["base_sequence"].astype(np.int64)
    last_sequence = np.where(first_sequence >= 0, (first_sequence + delta) & (SEQUENCES - 1), -1)
    control = (rows["attributes"] & CONTROL) != 0
    bad_crc = crc_stored != found.crcs
    wrong = bad_crc | _contradictory(rows) | _too_few(view, positions, rows, bad_crc, piece.cleaned_until)
    intact = ~wrong
    problem, detail = _problems(rows, wrong, bad_crc, base, last, linker)
    runs = linker.runs(rows, last, last_sequence, intact)
    missing, after_damage = linker.missing_before(base, last, intact)
    count = len(positions)
    columns = [
        _constant(piece.topic, count), pa.array(np.full(count, piece.partition, np.int32)), pa.array(base),
        pa.array(last), pa.array(rows["leader_epoch"].astype(np.int32)),
        pa.array(rows["producer_id"].astype(np.int64)), pa.array(rows["producer_epoch"].astype(np.int16)),
        pa.array(first_sequence.astype(np.int32)), pa.array(last_sequence.astype(np.int32)),
        pa.array(rows["records"].astype(np.int32)), pa.array(rows["attributes"].astype(np.int16)),
        pa.array(rows["max_timestamp"].astype(np.int64)), pa.array(crc_stored), pa.array(found.crcs),
        pa.array((rows["length"] + LOG_OVERHEAD).astype(np.int32)), _constant(piece.segment, count),
        pa.array(base if piece.bootstrap else positions + base_position), pa.array(_markers(view, positions, control & intact)),
        pa.array(found.contents), pa.array(runs),
        pa.array(missing), pa.array(after_damage), problem, detail,
    ]  # fmt: skip
    made = pa.RecordBatch.from_arrays(columns, schema=BATCHES)
    gone = (np.maximum(base, last) < piece.begin.start) | (base >= piece.until)
    return made.filter(pa.array(~gone)) if gone.any() else made


def _problems(rows: Array, wrong: Array, bad_crc: Array, base: Array, last: Array, linker: Linker) -> tuple[pa.Array, pa.Array]:
    """Returns the problem of each batch and its detail; both are null for a batch without a problem."""
    chosen = np.flatnonzero(~wrong)
    before = linker.last_offsets_before(last[chosen])
    regressed = np.flatnonzero(RULES.is_offset_regression(base[chosen], before))
    found = {int(chosen[at]): ("offset_regression", str(before[at])) for at in regressed.tolist()}
    for index in np.flatnonzero(wrong).tolist():
        row = rows[index]
        found[index] = ("crc", "") if bad_crc[index] else (
            "bad_batch",
            f"its header has {row['records']} records, the last offset delta {row['last_offset_delta']}, producer "
            f"{row['producer_id']}, base sequence {row['base_sequence']} and compression {int(row['attributes']) & 7}",
        )  # fmt: skip
    if not found:
        return (_constant(None, len(rows)),) * 2
    each = [found.get(index, (None, None)) for index in range(len(rows))]
    return pa.array([problem for problem, _ in each], pa.string()), pa.array([detail for _, detail in each], pa.string())


def _contradictory(rows: Array) -> Array:
    """Tells which headers contradict themselves."""
    span = rows["last_offset_delta"].astype(np.int64) + 1
    attributes = rows["attributes"]
    wrong = (span < 1) | (rows["records"] < 0) | (rows["records"] > span) | (attributes & 0x07 > 4)
    wrong |= (rows["producer_id"] >= 0) & (rows["base_sequence"] < 0) & (attributes & CONTROL == 0)
    result: Array = wrong
    return result


def _too_few(view: memoryview, positions: Array, rows: Array, bad_crc: Array, cleaned_until: int) -> Array:
    """Tells which batches have fewer records than offsets although compaction cannot be the reason.

    A follower may copy compacted batches without a checkpoint that records the compaction. Then only the batches themselves
    show the compaction.
    """
    fewer: Array = (rows["records"] < rows["last_offset_delta"].astype(np.int64) + 1) & (rows["records"] >= 0)
    fewer &= (rows["base_offset"] >= cleaned_until) & (rows["attributes"] & DELETE_HORIZON == 0) & ~bad_crc
    for index in np.flatnonzero(fewer).tolist():
        begin = int(positions[index])
        end = begin + LOG_OVERHEAD + int(rows["length"][index])
        fewer[index] = not may_be_compacted(view[begin:end])
    return fewer


@lru_cache(8)  # most chunks of a segment have the same number of batches
def _constant(text: str | None, count: int) -> pa.Array:
    """Returns the text, or null, `count` times."""
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _markers(view: memoryview, positions: Array, control: Array) -> Array:
    """Returns 1 for a commit, 0 for an abort, −1 for anything else."""
    result = np.full(len(positions), -1, np.int8)
    for index in np.flatnonzero(control).tolist():
        result[index] = marker_of(view, int(positions[index]))
    return result


def marker_of(view: memoryview, pos: int) -> int:
    """Returns the kind of the control batch at `pos`: 1 commit, 0 abort, −1 neither."""
    at = pos + HEADER_SIZE
    try:
        for _ in range(4):  # length, (attributes), timestamp delta, offset delta, key length
            while view[at] & 0x80:
                at += 1
            at += 1
            if _ == 0:
                at += 1
        _version, kind = _MARKER.unpack_from(view, at)
    except (IndexError, struct.error):
        return -1
    return kind if kind in (0, 1) else -1


def damage_row(
    piece: Piece, problem: str, detail: str, *, position: int, size: int, expected_offset: int, head: Buffer = b""
) -> Chunk:
    """Makes a row about a position where no batch can be read; `head` has the rest of the batch's header, if there is any."""
    values: dict[str, Any] = {
        "topic": piece.topic, "partition": piece.partition, "base_offset": expected_offset,
        "last_offset": expected_offset, "leader_epoch": -1, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1,
        "last_sequence": -1, "records": 0, "attributes": 0, "max_timestamp": -1, "crc_stored": -1, "crc_computed": -1,
        "bytes": min(size, 2**31 - 1), "segment": piece.segment, "position": position, "marker": -1, "content": 0,
        "run": piece.number << 32 | NO_RUN, "missing": 0, "after_damage": False, "problem": problem, "detail": detail,
    }  # fmt: skip
    if len(head) >= HEADER_SIZE and any(head):
        rest = headers_at(head, np.zeros(1, np.int64))[0]
        values |= {name: int(rest[name]) for name in ("producer_id", "producer_epoch", "attributes", "max_timestamp")}
    return Chunk(memoryview(b""), pa.RecordBatch.from_pylist([values], schema=BATCHES), -1)


def is_zero(pieces: Iterator[Buffer]) -> bool:
    return all(not np.frombuffer(piece, np.uint8).any() for piece in pieces)
