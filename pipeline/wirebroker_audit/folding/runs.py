"""From batches to runs: each unbroken stretch becomes one row, and the batches go into a file. No Spark here.

The workers that read batches also fold them, chunk by chunk, so that Spark gets a few rows and not millions. `checks.joined`
joins a run that spans several chunks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafkawire.batches import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from wirebroker_audit.reading.scan import BATCHES, Array, is_intact

HEADER = pa.struct(
    [
        pa.field("position", pa.int64()), pa.field("base_offset", pa.int64()), pa.field("last_offset", pa.int64()),
        pa.field("base_sequence", pa.int32()), pa.field("last_sequence", pa.int32()),
        pa.field("max_timestamp", pa.int64()), pa.field("producer_epoch", pa.int16()),
    ]
)  # fmt: skip
"""What a run keeps of a batch."""
RUNS = pa.schema(
    [
        pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("segment", pa.string()),
        pa.field("run", pa.int64()), pa.field("producer_id", pa.int64()), pa.field("kind", pa.int16()),
        pa.field("first", HEADER), pa.field("data", HEADER), pa.field("last", HEADER), pa.field("open", HEADER),
        pa.field("marked", pa.int64()), pa.field("batches", pa.int64()), pa.field("records", pa.int64()),
        pa.field("bytes", pa.int64()), pa.field("committed", pa.int64()), pa.field("aborted", pa.int64()),
        pa.field("max_timestamp", pa.int64()), pa.field("compacted_to", pa.int64()),
    ]
)  # fmt: skip
"""`kind`: transactional and control, as in the attributes of the first batch; a marker that ends no transaction of its run is a
run of its own · `first`, `last`: the first and the last batch, `data`: the last one that is not a marker · `marked`: the
position of the last marker, −1 if there is none · `open`: the first batch of the transaction that is open at the run's end ·
`batches`, `records`: those of data · `committed`, `aborted`: the numbers of markers · `compacted_to`: the end of the last batch
that was visibly compacted, −1 if none was."""
KEYS = ("topic", "partition", "segment", "run", "producer_id")
_REPEATING = ["topic", "segment", "problem", "detail"]
"""Columns with a Parquet dictionary; numbers are written without one, which is faster."""


def fold(batches: pa.RecordBatch) -> pa.RecordBatch:
    """The runs of these batches, as `RUNS`, without batches whose headers cannot be trusted."""
    if batches.column("problem").null_count < len(batches):
        batches = batches.filter(is_intact(batches))
    if not len(batches):
        return _NONE
    order, starts = _grouped(batches)
    batches = batches.take(pa.array(order))
    ends = np.append(starts[1:], len(order))
    attributes, marker = _numbers(batches, "attributes"), _numbers(batches, "marker")
    is_data, at = attributes & CONTROL == 0, np.arange(len(order))
    data = np.maximum.reduceat(np.where(is_data, at, -1), starts)
    marked = np.maximum.reduceat(np.where(is_data, -1, at), starts)
    kind = attributes[starts] & (TRANSACTIONAL | CONTROL)
    begun = np.where((data > marked) & (attributes[data] & TRANSACTIONAL != 0), np.maximum(starts, marked + 1), -1)
    header = pa.StructArray.from_arrays([batches.column(field.name) for field in HEADER], fields=list(HEADER))
    sums = {
        "batches": is_data, "records": np.where(is_data, _numbers(batches, "records"), 0), "bytes": _numbers(batches, "bytes"),
        "committed": marker == 1, "aborted": marker == 0,
    }  # fmt: skip
    first = batches.take(pa.array(starts))
    columns = {
        **{name: first.column(name) for name in KEYS}, "kind": pa.array(kind),
        "first": _at(header, starts), "data": _at(header, data), "last": _at(header, ends - 1), "open": _at(header, begun),
        "marked": pa.array(np.where(marked >= 0, _numbers(batches, "position")[marked], -1)),
        **{name: pa.array(np.add.reduceat(each.astype(np.int64), starts)) for name, each in sums.items()},
        **{name: pa.array(np.maximum.reduceat(each, starts)) for name, each in (
            ("max_timestamp", _numbers(batches, "max_timestamp")), ("compacted_to", _compacted_to(batches)))},
    }  # fmt: skip
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in RUNS], schema=RUNS)


def _grouped(batches: pa.RecordBatch) -> tuple[Array, Array]:
    """The order of the batches by run, then by position; and where in that order each run begins."""
    run = _numbers(batches, "run")
    segment = batches.column("segment").dictionary_encode().indices.to_numpy()
    order = np.lexsort((_numbers(batches, "position"), run, segment))
    begins = np.zeros(len(order), bool)
    begins[0] = True
    for key in (segment, run):
        begins[1:] |= np.diff(key[order]) != 0
    return order, np.flatnonzero(begins)


def _numbers(batches: pa.RecordBatch, name: str) -> Array:
    result: Array = batches.column(name).to_numpy()
    return result


def _at(header: pa.StructArray, at: Array) -> pa.Array:
    """The headers at these places, null for −1."""
    return header.take(pa.array(at, mask=at < 0))


def _compacted_to(batches: pa.RecordBatch) -> Array:
    """The end of each batch that has fewer records than offsets, or a delete horizon; −1 for the others."""
    last = _numbers(batches, "last_offset")
    shown = _numbers(batches, "records") < last - _numbers(batches, "base_offset") + 1
    shown |= _numbers(batches, "attributes") & DELETE_HORIZON != 0
    result: Array = np.where(shown, last + 1, -1)
    return result


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
