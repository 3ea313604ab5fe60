"""From batches to runs: each unbroken stretch becomes one row, and the batches go into a file. No Spark here.

The workers that read batches also fold them, chunk by chunk, so that Spark gets a few rows and not millions. `checks.joined`
joins a run that spans several chunks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkawire.batches import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from wirebroker_audit.scan import BATCHES

RUNS = pa.schema(
    [
        pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("segment", pa.string()),
        pa.field("run", pa.int64()), pa.field("producer_id", pa.int64()), pa.field("producer_epoch", pa.int16()),
        pa.field("kind", pa.int16()), pa.field("position", pa.int64()), pa.field("last_position", pa.int64()),
        pa.field("base_sequence", pa.int32()), pa.field("last_sequence", pa.int32()), pa.field("base_offset", pa.int64()),
        pa.field("last_offset", pa.int64()), pa.field("begin_last_sequence", pa.int32()),
        pa.field("begin_last_offset", pa.int64()), pa.field("begin_timestamp", pa.int64()),
        pa.field("batches", pa.int64()), pa.field("records", pa.int64()), pa.field("bytes", pa.int64()),
        pa.field("max_timestamp", pa.int64()), pa.field("marker", pa.int8()), pa.field("compacted_to", pa.int64()),
    ]
)  # fmt: skip
"""`kind`: transactional and control, as in the attributes · `position`, `base_…` and `begin_…` are the first batch's,
`last_…` the last one's · `batches`, `records` and `bytes` are sums · `compacted_to`: the end of the last batch that was visibly
compacted, −1 if none was."""
KEYS = ("topic", "partition", "segment", "run", "producer_id", "producer_epoch", "kind")
_FOLDS = {
    "position": ("position", "min"), "last_position": ("position", "max"), "base_sequence": ("base_sequence", "first"),
    "last_sequence": ("last_sequence", "last"), "base_offset": ("base_offset", "first"),
    "last_offset": ("last_offset", "last"), "begin_last_sequence": ("last_sequence", "first"),
    "begin_last_offset": ("last_offset", "first"), "begin_timestamp": ("max_timestamp", "first"),
    "batches": ("position", "count"), "records": ("records", "sum"), "bytes": ("bytes", "sum"),
    "max_timestamp": ("max_timestamp", "max"), "marker": ("marker", "max"), "compacted_to": ("compacted_to", "max"),
}  # fmt: skip
_REPEATING = ["topic", "segment", "problem", "detail"]
"""Columns with a Parquet dictionary; numbers are written without one, which is faster."""


def fold(batches: pa.RecordBatch) -> pa.RecordBatch:
    """The runs of these batches, as `RUNS`, without batches whose headers cannot be trusted."""
    problem = batches.column("problem")
    if problem.null_count < len(problem):
        batches = batches.filter(pc.or_(pc.is_null(problem), pc.fill_null(pc.equal(problem, "offset_regression"), False)))
    kind = pc.bit_wise_and(batches.column("attributes"), pa.scalar(TRANSACTIONAL | CONTROL, pa.int16()))
    rows = pa.Table.from_batches([batches]).append_column("kind", kind)
    rows = rows.append_column("compacted_to", _compacted_to(batches)).sort_by("position")
    made = rows.group_by(list(KEYS), use_threads=False).aggregate(list(_FOLDS.values()))
    names = {name: f"{column}_{how}" for name, (column, how) in _FOLDS.items()}
    columns = [made.column(names.get(field.name, field.name)).cast(field.type) for field in RUNS]
    return pa.Table.from_arrays(columns, schema=RUNS).combine_chunks().to_batches()[0] if made.num_rows else _NONE


def _compacted_to(batches: pa.RecordBatch) -> pa.Array:
    """The end of each batch that has fewer records than offsets, or a delete horizon; −1 for the others."""
    last = batches.column("last_offset")
    fewer = pc.less(batches.column("records"), pc.add(pc.subtract(last, batches.column("base_offset")), 1))
    horizon = pc.not_equal(pc.bit_wise_and(batches.column("attributes"), pa.scalar(DELETE_HORIZON, pa.int16())), 0)
    return pc.if_else(pc.or_(fewer, horizon), pc.add(last, 1), pa.scalar(-1, pa.int64()))


_NONE = pa.RecordBatch.from_pylist([], schema=RUNS)


def keep_and_fold(batches: Iterable[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    """The runs of the batches, which are written into a Parquet file; it appears after the last run.

    A repeated task replaces the file with an equal one.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with pq.ParquetWriter(partial, BATCHES, use_dictionary=_REPEATING) as file:
            for each in batches:
                file.write_batch(each)
                yield fold(each)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
