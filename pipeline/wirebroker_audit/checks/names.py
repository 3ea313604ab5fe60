"""Finds the *odd* names. A name is odd unless it occurs exactly once in the journal and exactly once in the log.

A name is two 64-bit hashes (see `naming`). Tasks write these hashes into the rows. Spark shuffles names as arrays, which costs
much less than shuffling rows. Tasks sort the names bucket by bucket. So a task's memory does not grow with the journal, with
the log, or with the number of copies of one name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from wirebroker_audit.reading.linker import Array, is_among
from wirebroker_audit.spark.tables import collected, from_files, in_groups, mapped, settled, united

BUCKET = 500_000
"""About this many names are sorted together."""
MOST_BUCKETS = 10_000
MOST_HIDDEN = 100_000
"""Each task holds the places of at most this many batches whose transaction is not committed."""
NAME = np.dtype([("hash", "<i8"), ("check", "<i8"), ("partition", "<i4"), ("failed", "i1"), ("stored", "i1")])
"""`check` distinguishes names with the same hash. `partition` is −1 if the journal names no partition, `failed` is 1 if sending
was reported as failed, `stored` is 1 for a stored record and 0 for an intended record."""
PACKED = StructType([StructField("bucket", IntegerType()), StructField("names", BinaryType())])
ODD = StructType([StructField(name, LongType()) for name in ("hash", "stored", "wanted")])


AT = ("topic", "partition", "segment", "position")
"""The place of a batch."""
_PLACES = pa.schema(
    [pa.field(name, kind) for name, kind in zip(AT, (pa.string(), pa.int32(), pa.string(), pa.int64()), strict=True)]
)


class LeftOut(NamedTuple):
    """Describes the stored records that do not count."""

    batches: pa.Table | None = None
    """the place of each batch whose transaction is not committed; None if there are no such batches"""
    many: DataFrame | None = None
    """the same places, if they are too many for a task: Spark then leaves out the records of these batches"""
    starts: pa.Table | None = None
    """the `log_start` of each partition that does not begin at 0; None if all begin at 0"""

    def without(self, rows: pa.RecordBatch) -> pa.Table:
        """Returns the rows of the records that count."""
        rest = pa.Table.from_batches([rows])
        if self.batches is not None:
            rest = rest.join(self.batches, list(AT), join_type="left anti", use_threads=False)
        if self.starts is not None:
            rest = rest.join(self.starts, ["topic", "partition"], join_type="left outer", use_threads=False)
            begin = rest["log_start"].fill_null(0).to_numpy()
            rest = rest.filter(pa.array(rest["offset"].fill_null(-1).to_numpy() >= begin))
        return rest

    @property
    def columns(self) -> list[str]:
        """The columns that `without` needs, besides the partition."""
        return ["topic", "segment", "position", "offset"] if self != LeftOut() else []


def left_out(hidden: DataFrame | None, starts: Sequence[tuple[str, int, int]]) -> LeftOut:
    """Returns the records that do not count: records in the `hidden` batches, and records before the log start offset of their
    partition."""
    rows = [] if hidden is None else collected(hidden.select(*AT).limit(MOST_HIDDEN + 1))
    columns = zip(*starts, strict=True) if starts else ()
    begun = [
        pa.array(column, kind) for column, kind in zip(columns, (pa.string(), pa.int32(), pa.int64()), strict=bool(starts))
    ]
    before = pa.table(begun, [*AT[:2], "log_start"]) if starts else None
    if len(rows) > MOST_HIDDEN:
        return LeftOut(many=hidden, starts=before)
    return LeftOut(pa.Table.from_pylist([row.asDict() for row in rows], _PLACES) if rows else None, starts=before)


def odd_names(stored: DataFrame, wanted: DataFrame, left_out: LeftOut, count: int) -> DataFrame:
    """Returns the hashes of the odd names, each with the number of its rows in `stored` and in `wanted`. A number above 2 may
    be too low. A name is also odd if the journal and the log have different partitions for it, or if sending was reported as
    failed. `count` is the approximate number of all rows. If the files of `stored` and `wanted` can be read directly, filters
    on the two tables are ignored."""
    buckets = max(1, min(count // BUCKET, MOST_BUCKETS))
    if left_out.many is not None:
        stored = settled(stored.select(*_COLUMNS, *left_out.columns).join(left_out.many, [*AT], "left_anti"))
    there = _packed_rows(
        stored, [*_COLUMNS, *left_out.columns], partial(_of_stored, left_out=left_out._replace(many=None)), buckets
    )
    meant = _packed_rows(wanted, [*_COLUMNS, "acknowledged"], _of_wanted, buckets)
    return in_groups(united([there, meant]), ("bucket",), odd_of, ODD)


_COLUMNS = ("hash", "check", "partition")


def _packed_rows(rows: DataFrame, columns: list[str], names: Callable[[pa.RecordBatch], Array], buckets: int) -> DataFrame:
    def of_files(files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        return pack((names(each) for file in files for each in pq.ParquetFile(file).iter_batches(columns=columns)), buckets)

    def of_rows() -> DataFrame:
        return mapped(rows.select(*columns), lambda chunks: pack(map(names, chunks), buckets), PACKED)

    return from_files(rows, of_files, PACKED, of_rows)


def _of_stored(rows: pa.RecordBatch, left_out: LeftOut) -> Array:
    return _names(left_out.without(rows) if left_out.columns else pa.Table.from_batches([rows]), 0, 1)


def _of_wanted(rows: pa.RecordBatch) -> Array:
    failed = ~rows.column("acknowledged").fill_null(True).to_numpy(zero_copy_only=False)
    return _names(pa.Table.from_batches([rows]), failed, 0)


def _names(rows: pa.Table, failed: Array | int, stored: int) -> Array:
    names = np.empty(len(rows), NAME)
    for field in ("hash", "check"):
        names[field] = rows[field].fill_null(0).to_numpy()
    names["partition"] = rows["partition"].fill_null(-1).to_numpy()
    names["failed"], names["stored"] = failed, stored
    known = rows["hash"].is_valid().to_numpy()
    return names if known.all() else names[known]


def pack(names: Iterable[Array], buckets: int) -> Iterator[pa.RecordBatch]:
    """Packs the names of each bucket, about `BUCKET` names at a time. One call gets either only names of stored records, or
    only names of intended records."""
    held: list[Array] = []
    for each in names:
        held.append(each)
        if sum(map(len, held)) >= BUCKET:
            yield _packed(np.concatenate(held), buckets)
            held.clear()
    if held:
        yield _packed(np.concatenate(held), buckets)


def _packed(names: Array, buckets: int) -> pa.RecordBatch:
    names = _cut_short(names)
    bucket = ((names["hash"].view(np.uint64) >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)
    ends = np.searchsorted(bucket, np.arange(buckets), "right")
    parts = [(n, part.tobytes()) for n, part in enumerate(np.split(names, ends[:-1])) if len(part)]
    return pa.RecordBatch.from_arrays(
        [pa.array([n for n, _ in parts], pa.int32()), pa.array([part for _, part in parts], pa.binary())], ["bucket", "names"]
    )


def _cut_short(names: Array) -> Array:
    """Sorts the names of one side by hash. Keeps two copies of each name at most, because two already make a name odd."""
    names = names[np.argsort(names["hash"].view(np.uint64))]
    third = np.zeros(len(names), bool)
    third[2:] = names["hash"][2:] == names["hash"][:-2]
    return names[~third] if third.any() else names


def odd_of(packed: pa.Table) -> pa.Table:
    """Returns the odd names of one bucket."""
    names = np.frombuffer(b"".join(packed.column("names").to_pylist()), NAME)
    names = names[np.argsort(names["hash"].view(np.uint64), kind="stable")]
    hashes = names["hash"]
    starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
    rows = np.diff(np.append(starts, len(names)))
    stored = np.add.reduceat(names["stored"].astype(np.int64), starts)
    one, other = names[starts], names[np.minimum(starts + 1, len(names) - 1)]
    places = (one["partition"] == other["partition"]) | (one["partition"] < 0) | (other["partition"] < 0)
    alike = (one["check"] == other["check"]) & places & (one["failed"] + other["failed"] == 0)
    odd = ~((rows == 2) & (stored == 1) & alike)
    columns = hashes[starts][odd], stored[odd], (rows - stored)[odd]
    return pa.table([pa.array(each, pa.int64()) for each in columns], ODD.names)


MOST_PICKED = 1_000_000
"""To pick rows, each task holds at most this many hashes."""


def picked(rows: DataFrame, odd: DataFrame) -> DataFrame:
    """Returns the rows whose hash is in `odd`. If the files of `rows` can be read directly, filters on the table are
    ignored."""

    def joined() -> DataFrame:
        return rows.join(odd.select("hash"), ["hash"], "left_semi")

    few = collected(odd.select("hash").limit(MOST_PICKED + 1))
    if len(few) > MOST_PICKED:
        return joined()
    hashes = np.sort(np.array([row["hash"] for row in few], np.int64))
    if not len(hashes):
        return rows.limit(0)

    def of_files(files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        return (each for file in files for each in _picked_in(pq.ParquetFile(file), hashes))

    return from_files(rows, of_files, rows.schema, joined)


def _picked_in(file: pq.ParquetFile, hashes: Array) -> Iterator[pa.RecordBatch]:
    """Yields the rows that have one of these hashes. Reads the other columns of a row group only if the group has such a
    row."""
    for number in range(file.num_row_groups):
        group = file.read_row_group(number, ["hash"])["hash"]
        mine = group.fill_null(0).to_numpy()
        found = is_among(mine, hashes) & group.is_valid().to_numpy()
        if found.any():
            yield from file.read_row_group(number).filter(pa.array(found)).to_batches()
