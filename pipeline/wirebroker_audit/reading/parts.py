"""Writes tables as Parquet files. Tasks do this themselves, because a row that goes through the JVM costs several times as
much."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

REPEATING = ("topic", "segment", "problem", "detail")
"""The columns that are written with a Parquet dictionary. The other columns are faster without a dictionary."""
COUNTED = pa.schema([pa.field("rows", pa.int64())])


GATHERED_ROWS, GATHERED_BYTES = 20_000, 16 * 1024 * 1024
"""Rows are gathered until there are this many rows or bytes, and are then passed on together."""


def gathered(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in the same order, in larger batches. A small batch costs as much as a large batch, for the writer
    and for each later reader of the file."""
    held: list[pa.RecordBatch] = []
    number = size = 0
    for each in rows:
        held.append(each)
        number, size = number + each.num_rows, size + each.nbytes
        if number >= GATHERED_ROWS or size >= GATHERED_BYTES:
            yield _one(held)
            held, number, size = [], 0, 0
    if held:
        yield _one(held)


def _one(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return held[0] if len(held) == 1 else pa.concat_batches(held)


@contextmanager
def written(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Gives a writer of a Parquet file. The file appears at the end of the `with` block.

    A repeated task replaces the file with an equal file.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with pq.ParquetWriter(partial, schema, use_dictionary=[name for name in REPEATING if name in schema.names]) as file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def kept(rows: Iterable[pa.RecordBatch], path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Passes the rows on, and also writes them into a Parquet file. The file appears after the last row."""
    with written(path, schema) as file:
        for each in rows:
            file.write_batch(each)
            yield each


def counted(rows: Iterable[pa.RecordBatch], path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Writes the rows into a Parquet file, like `kept`, and yields their number."""
    number = sum(each.num_rows for each in kept(rows, path, schema))
    yield pa.RecordBatch.from_pylist([{"rows": number}], schema=COUNTED)
