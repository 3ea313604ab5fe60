"""Finds the *odd* names: those that do not occur exactly once in the journal and once in the log.

A name is two 64-bit hashes. Spark shuffles names as arrays, which costs much less than rows, in buckets that tasks sort one
after the other. So memory grows neither with the journal nor with the log, nor with the copies of one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from wirebroker_audit.reading.linker import Array
from wirebroker_audit.spark.tables import in_groups, mapped, united

BUCKET = 500_000
"""The approximate number of names in one sort."""
MOST_BUCKETS = 10_000
NAME = np.dtype([("hash", "<i8"), ("check", "<i8"), ("partition", "<i4"), ("failed", "i1"), ("stored", "i1")])
"""`check` tells apart names with the same hash. `partition` is −1 if the journal names none, `failed` is 1 if sending was
reported as failed, `stored` is 1 for a stored record and 0 for an intended one."""
PACKED = StructType([StructField("bucket", IntegerType()), StructField("names", BinaryType())])
ODD = StructType([StructField(name, LongType()) for name in ("hash", "stored", "wanted")])


def odd_names(stored: DataFrame, wanted: DataFrame, count: int) -> DataFrame:
    """Returns the hashes of the odd names, with the numbers of their rows that are `stored` and `wanted`; numbers above 2 may
    be too low. A name is also odd if the journal and the log have different partitions for it, or if sending was reported as
    failed. `count` is the approximate number of all rows."""
    buckets = max(1, min(count // BUCKET, MOST_BUCKETS))
    check = sf.xxhash64("value_hash", "topic", "key", sf.lit(1)).alias("check")
    place = sf.coalesce("partition", sf.lit(-1)).alias("partition")
    failed = (~sf.coalesce("acknowledged", sf.lit(True))).cast("tinyint").alias("failed")
    one, none = (sf.lit(number).cast("tinyint") for number in (1, 0))
    there = stored.select("hash", check, place, none.alias("failed"), one.alias("stored"))
    meant = wanted.select("hash", check, place, failed, none.alias("stored"))
    packed = mapped(united([there, meant]), partial(pack, buckets=buckets), PACKED)
    return in_groups(packed, ("bucket",), odd_of, ODD)


def pack(chunks: Iterable[pa.RecordBatch], buckets: int) -> Iterator[pa.RecordBatch]:
    """Packs the names of each bucket, about `BUCKET` names at a time."""
    held: list[Array] = []
    for chunk in chunks:
        names = np.empty(chunk.num_rows, NAME)
        for field in NAME.names or ():
            names[field] = chunk.column(field).to_numpy(zero_copy_only=False)
        held.append(names)
        if sum(map(len, held)) >= BUCKET:
            yield _packed(np.concatenate(held), buckets)
            held.clear()
    if held:
        yield _packed(np.concatenate(held), buckets)


def _packed(names: Array, buckets: int) -> pa.RecordBatch:
    names = _cut_short(names)
    bucket = (names["hash"].astype(np.uint64) >> np.uint64(32)) % np.uint64(buckets)
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets), "right")
    parts = [(n, part.tobytes()) for n, part in enumerate(np.split(names[order], ends[:-1])) if len(part)]
    return pa.RecordBatch.from_arrays(
        [pa.array([n for n, _ in parts], pa.int32()), pa.array([part for _, part in parts], pa.binary())], ["bucket", "names"]
    )


def _cut_short(names: Array) -> Array:
    """Sorts the names by hash. Keeps at most two stored and two intended copies of each name, because two copies already make a
    name odd."""
    names = names[np.lexsort((names["stored"], names["hash"]))]
    third = np.zeros(len(names), bool)
    third[2:] = (names["hash"][2:] == names["hash"][:-2]) & (names["stored"][2:] == names["stored"][:-2])
    return names[~third]


def odd_of(packed: pa.Table) -> pa.Table:
    """Returns the odd names of one bucket."""
    names = np.frombuffer(b"".join(packed.column("names").to_pylist()), NAME)
    names = names[np.argsort(names["hash"], kind="stable")]
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
