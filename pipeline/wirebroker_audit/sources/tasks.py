"""Spark's tasks that read the pieces of a log: batches folded into runs, or records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow.parquet import ParquetWriter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker_audit.folding import schema
from wirebroker_audit.folding.runs import folded
from wirebroker_audit.logs.planning import LEAST_SHARE
from wirebroker_audit.reading.identities import IDENTITIES, Wanted, identity_rows
from wirebroker_audit.reading.naming import with_hashes, with_names
from wirebroker_audit.reading.parts import COUNTED, GATHERED_ROWS, counted, gathered, kept, written
from wirebroker_audit.reading.pieces import SPLIT_BYTES, Piece, packed
from wirebroker_audit.reading.reader import read_piece
from wirebroker_audit.reading.records import RECORDS, record_rows
from wirebroker_audit.reading.scan import BATCHES, Chunk
from wirebroker_audit.spark.tables import mapped, stored

NAMED_RECORDS: pa.Schema = with_hashes(RECORDS)
ROUNDS = 4
"""If there are many small pieces, each core runs this many tasks, one after the other. With several tasks for each core,
progress is visible, and no core is idle for long at the end."""


def fold(
    spark: SparkSession, pieces: Sequence[Piece], keep: Path, expiration_ms: int, records: Path | None = None
) -> DataFrame:
    """Returns the runs of these pieces. Each task writes the batches that it reads into a Parquet file in the folder `keep`. If
    there is a folder `records`, which must be new, the task also writes the batches' records and their names into a file
    there."""
    if records is not None:
        records.mkdir()

    def work(mine: list[Piece]) -> Iterator[pa.RecordBatch]:
        chunks: Iterator[Chunk] = (chunk for piece in mine for chunk in read_piece(piece, expiration_ms))
        if records is not None:
            chunks = _with_records(chunks, _part(records, mine))
        return folded(kept(gathered(chunk.rows for chunk in chunks), _part(keep, mine), BATCHES))

    return _mapped(spark, pieces, work, schema.RUNS)


def _with_records(chunks: Iterable[Chunk], path: Path) -> Iterator[Chunk]:
    """Passes the chunks on, and writes their records into a Parquet file."""
    with written(path, NAMED_RECORDS) as file:
        held: list[pa.RecordBatch] = []
        for chunk in chunks:
            held += record_rows([chunk], contents=False)
            if sum(each.num_rows for each in held) >= GATHERED_ROWS:
                _write(file, held)
            yield chunk
        _write(file, held)


def _write(file: ParquetWriter, held: list[pa.RecordBatch]) -> None:
    if held:
        file.write_batch(with_names(pa.concat_batches(held)))
        held.clear()


def runs_of(rows: DataFrame) -> DataFrame:
    """Folds batches into runs. `rows` has batches that earlier tasks have written, in the order of the log."""
    return mapped(rows, folded, schema.RUNS)


def records(spark: SparkSession, pieces: Sequence[Piece], keep: Path, expiration_ms: int, *, named: bool) -> DataFrame:
    """Returns the records in the batches of these pieces. Tasks write the records as Parquet files into the new folder `keep`:
    each record with its name if `named`, else with its contents."""
    keep.mkdir()

    def work(mine: list[Piece]) -> Iterator[pa.RecordBatch]:
        chunks = (chunk for piece in mine for chunk in read_piece(piece, expiration_ms))
        rows = gathered(record_rows(chunks, contents=not named))
        return counted(map(with_names, rows) if named else rows, _part(keep, mine), NAMED_RECORDS if named else RECORDS)

    _mapped(spark, pieces, work, from_arrow_schema(COUNTED)).collect()
    return stored_records(spark, keep, named=named)


def stored_records(spark: SparkSession, keep: Path, *, named: bool) -> DataFrame:
    """Returns the records that tasks have written into this folder."""
    return stored(spark, keep, from_arrow_schema(NAMED_RECORDS) if named else schema.RECORDS)


def _part(keep: Path, mine: Sequence[Piece]) -> Path:
    return keep / f"part-{mine[0].number:05d}.parquet"


def identities(
    spark: SparkSession, pieces: Sequence[Piece], keep: Path, wanted: Mapping[str, Sequence[Wanted]], expiration_ms: int
) -> DataFrame:
    """Reads the identities of the records in the batches of these pieces, for each side of a pipeline; `wanted` has the topics,
    and the parts of their records that are read.

    Each task writes its rows into a Parquet file in the new folder `keep`.
    """
    keep.mkdir()

    def work(mine: list[Piece]) -> Iterator[pa.RecordBatch]:
        rows = identity_rows((chunk for piece in mine for chunk in read_piece(piece, expiration_ms)), wanted)
        return counted(gathered(rows), _part(keep, mine), IDENTITIES)

    _mapped(spark, pieces, work, from_arrow_schema(COUNTED)).collect()
    return stored(spark, keep, schema.IDENTITIES)


def batches(spark: SparkSession, pieces: Sequence[Piece], expiration_ms: int = EXPIRATION_MS) -> DataFrame:
    def work(mine: list[Piece]) -> Iterator[pa.RecordBatch]:
        return (chunk.rows for piece in mine for chunk in read_piece(piece, expiration_ms))

    return _mapped(spark, pieces, work, schema.BATCHES)


def _mapped(
    spark: SparkSession, pieces: Sequence[Piece], work: Callable[[list[Piece]], Iterator[pa.RecordBatch]], rows: StructType
) -> DataFrame:
    """Divides the pieces into groups, and returns the rows that `work` yields for them, in one task for each group."""
    share = -(-sum(each.size for each in pieces) // spark.sparkContext.defaultParallelism)
    tasks = packed(pieces, min(SPLIT_BYTES, share, max(share // ROUNDS, LEAST_SHARE)))

    def run(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            for number in chunk.column("id").to_pylist():
                yield from work(tasks[number])

    return mapped(spark.range(0, len(tasks), 1, max(len(tasks), 1)), run, rows)
