"""Reads the application's journal from JSON lines or Parquet; `wirebroker.audit.journal` describes its form.

Spark's workers check each row with the functions of `wirebroker.audit.journal`; SQL merges rows with the same id. The journal
is read once, and the audit keeps the columns that it needs to match records, with hashes in place of values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from wirebroker.audit.journal import FIELDS, parse_line, part_of
from wirebroker.common.suggestions import did_you_mean
from wirebroker_audit.inputs.columns import FORMS, columns_of, parsed
from wirebroker_audit.reading.naming import with_hashes, with_names
from wirebroker_audit.reading.parts import gathered, written
from wirebroker_audit.spark.tables import Fold, mapped, stored, united

PARTS = pa.schema(
    [
        pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("key", pa.binary()),
        pa.field("value_hash", pa.string()), pa.field("acknowledged", pa.bool_()), pa.field("producer", pa.string()),
        pa.field("shown", pa.string()), pa.field("key_form", pa.string()), pa.field("value_form", pa.string()),
        pa.field("id", pa.string()), pa.field("problem", pa.string()), pa.field("line", pa.binary()),
    ]
)  # fmt: skip
"""One row of a journal. `key_form` and `value_form` are the names of the journal's fields that hold the key and the value. A
malformed row has a `problem` and, in a file of lines, the `line`. `shown` is null if the row has only a hash of its value."""
_NAMED = with_hashes(PARTS)
_TOLD = pa.schema([pa.field(name, pa.int64()) for name in ("rows", "ids", "problems")])
COLUMNS = ("topic", "partition", "key", "value_hash", "acknowledged", "producer", "shown")
CASTS = {"topic": "string", "partition": "int", "acknowledged": "boolean", "producer": "string"}
"""The types to which these Parquet columns are cast. For example, pandas stores partitions as floating point numbers if some
are null."""

PART, BLOCK = 64 * 1024 * 1024, 1024 * 1024
"""Each task reads this many bytes of a file, and parses this many bytes at a time."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz")
"""Spark reads files with these suffixes."""
LOOKED_AT = 20_000
"""Before Spark starts, this many lines at the beginning of a journal are checked."""


class BadJournal(Exception):
    """Raised if a line or a file is not a journal. The message names the line or file, and the reason."""


def check_journal(path: str) -> None:
    """Look at the beginning of a journal without Spark. Raises BadJournal, OSError."""
    if _is_parquet(path):
        first = next(iter(sorted(Path(path).glob("*.parquet"))), Path(path)) if Path(path).is_dir() else Path(path)
        try:
            _check_names(pq.read_schema(first).names, path)
        except pa.ArrowInvalid as refused:
            raise BadJournal(f"{path}: the file is not Parquet") from refused
        return
    if Path(path).is_dir():
        if not any(each.is_file() for each in Path(path).iterdir()):
            raise BadJournal(f"--intended {path}: the directory holds no file")
        return
    with Path(path).open("rb") as file:
        for number, line in enumerate(islice(file, LOOKED_AT), 1):
            if line.strip() and (problem := _of_line(line).get("problem")):
                raise BadJournal(f"{path}, line {number}{problem}")


class Journal(NamedTuple):
    """The intended records."""

    rows: DataFrame
    """one row for each record, with the columns `COLUMNS`, a `hash` and a `check`; see `naming`"""
    number: int
    """the number of rows in the journal; rows with the same id are one record"""


def read_journal(spark: SparkSession, path: str, keep: Path, topics: Sequence[str] = ()) -> Journal:
    """Reads the journal, or its rows about these topics. Spark's tasks write the rows into the new folder `keep`. Raises
    BadJournal."""
    keep.mkdir()
    rows, made = _parquet(spark, path) if _is_parquet(path) else _lines(spark, path)
    told = mapped(rows, partial(_kept, made=made, keep=keep, topics=topics), from_arrow_schema(_TOLD)).collect()
    parts = stored(spark, keep, from_arrow_schema(_NAMED))
    if any(row["problems"] for row in told) and (bad := parts.where("problem IS NOT NULL").first()) is not None:
        raise BadJournal(f"{_where(path, bad['line'])}{bad['problem']}")
    count = sum(row["rows"] for row in told)
    if any(row["ids"] for row in told):
        merged = keep.with_name(f"{keep.name}-merged")
        merged.mkdir()
        mapped(_merged(parts), partial(_kept, made=_of_merged, keep=merged, topics=topics), from_arrow_schema(_TOLD)).collect()
        parts = stored(spark, merged, from_arrow_schema(_NAMED))
        if (bad := parts.where("problem IS NOT NULL").first()) is not None:
            raise BadJournal(f"{path}: {bad['problem']}")
    return Journal(parts, count)


def _kept(chunks: Iterable[pa.RecordBatch], made: Fold, keep: Path, topics: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Writes a task's rows to a file, with the hashes that name their records. Yields three numbers: of all rows, of the rows
    with an id, and of the rows with a problem."""
    context = TaskContext.get()
    path = keep / f"part-{0 if context is None else context.partitionId():05d}.parquet"
    sums = {"rows": 0, "ids": 0, "problems": 0}
    with written(path, _NAMED) as file:
        for each in gathered(made(chunks)):
            sums["rows"] += each.num_rows
            for name in ("id", "problem"):
                sums[f"{name}s"] += each.num_rows - each.column(name).null_count
            file.write_batch(with_names(_within(each, topics)))
    yield pa.RecordBatch.from_pylist([sums], schema=_TOLD)


def _within(rows: pa.RecordBatch, topics: Sequence[str]) -> pa.RecordBatch:
    """Returns the rows of these topics, and all rows that have an id or a problem; all rows if no topics are given."""
    if not topics:
        return rows
    wanted = pc.is_in(rows.column("topic"), pa.array(topics, pa.string()))
    return rows.filter(pc.or_(wanted, pc.or_(rows.column("id").is_valid(), rows.column("problem").is_valid())))


def _is_parquet(path: str) -> bool:
    local = Path(path)
    return path.endswith(".parquet") or (local.is_dir() and any(local.glob("*.parquet")))


def _parquet(spark: SparkSession, path: str) -> tuple[DataFrame, Fold]:
    try:
        rows = spark.read.parquet(path)
    except (PySparkException, Py4JError) as refused:
        raise BadJournal(f"{path}: the file is not Parquet") from refused
    _check_names(rows.columns, path)
    rows = rows.withColumns({name: sf.col(name).cast(to) for name, to in CASTS.items() if name in rows.columns})
    return rows, _of_rows


def _lines(spark: SparkSession, path: str) -> tuple[DataFrame, Fold]:
    local = Path(path)
    if not local.is_file() or local.suffix in COMPRESSED:
        return spark.read.text(path).select(sf.col("value").cast("binary").alias("line")), _of_lines  # a line need not be UTF-8
    parts = max(-(-local.stat().st_size // PART), 1)
    return spark.range(0, parts, 1, parts), partial(_of_parts, path=local.resolve())


def _of_parts(chunks: Iterable[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    """Reads the parts of a file whose numbers are in `chunks`."""
    for chunk in chunks:
        for number in chunk.column("id").to_pylist():
            yield from (_made_of(block) for block in blocks(path, number * PART, (number + 1) * PART))


def blocks(path: Path, begin: int, end: int) -> Iterator[bytes]:
    """Yields the lines that begin at or after `begin` and before `end`, many at a time. Each line ends with a line feed."""
    with path.open("rb") as file:
        file.seek(max(begin - 1, 0))
        if begin:
            file.readline()  # the rest of a line that begins before `begin`
        while (at := file.tell()) < end:
            block = file.read(min(BLOCK, end - at))
            block += file.readline() if not block.endswith(b"\n") else b""
            if not block:
                return
            yield block if block.endswith(b"\n") else block + b"\n"


def _of_rows(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        made = columns_of(pa.Table.from_batches([chunk]), PARTS)
        yield made if made is not None else pa.RecordBatch.from_pylist([_part(row) for row in chunk.to_pylist()], schema=PARTS)


def _of_merged(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        nulls = pa.nulls(chunk.num_rows)
        columns = [(chunk.column(each.name) if each.name in chunk.schema.names else nulls).cast(each.type) for each in PARTS]
        yield pa.RecordBatch.from_arrays(columns, schema=PARTS)


def _of_lines(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        yield _made_of(b"".join(line + b"\n" for line in chunk.column("line").to_pylist()))


def _made_of(block: bytes) -> pa.RecordBatch:
    rows = parsed(block)
    made = None if rows is None else columns_of(rows, PARTS)
    if made is not None:
        return made
    lines = (line.rstrip(b"\r") for line in block.split(b"\n"))
    return pa.RecordBatch.from_pylist([_of_line(line) for line in lines if line.strip()], schema=PARTS)


def _of_line(line: bytes) -> dict[str, Any]:
    try:
        row = parse_line(line, "")
    except ValueError as wrong:
        return {"problem": str(wrong), "line": line}
    part = _part(row)
    return part | {"line": line} if "problem" in part else part


def _part(row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        made = part_of(row, "")
    except ValueError as wrong:
        return {"problem": str(wrong)}
    forms = {name: next((form for form in FORMS[name] if row.get(form) is not None), None) for name in FORMS}
    entry = row.get("id")
    return {
        "topic": made.topic or None, "partition": made.partition, "key": made.key, "value_hash": made.digest,
        "acknowledged": made.acknowledged, "producer": made.producer,
        "shown": made.shown if forms["value"] and made.value_hash is None else None,
        "key_form": forms["key"], "value_form": forms["value"], "id": None if entry is None else json.dumps(entry),
    }  # fmt: skip


def _where(path: str, line: bytes | None) -> str:
    """Names the file and, if this process can read the file, the number of the line."""
    try:
        with Path(path).open("rb") as file:
            number = next((number for number, each in enumerate(file, 1) if each.rstrip(b"\r\n") == line), 0)
    except OSError:
        number = 0
    return f"{path}, line {number}" if number else path


def _check_names(names: list[str], where: str) -> None:
    for name in names:
        if name not in FIELDS:
            raise BadJournal(f"{where}: there is no field {name!r}{did_you_mean(name, FIELDS)}")


def _merged(parts: DataFrame) -> DataFrame:
    """Merges the rows with the same id into one record. Each row adds fields that are null in the other rows; `acknowledged` is
    true if any row says so.

    `problem` describes a mistake that no single row shows, such as two forms of a key.
    """
    plain = [name for name in COLUMNS if name != "acknowledged"]
    two = [_two_forms(name, sf.min(f"{name}_form"), sf.max(f"{name}_form")) for name in FORMS]
    by_id = (
        parts.where("id IS NOT NULL").groupBy("id")
        .agg(
            *(sf.first(name, ignorenulls=True).alias(name) for name in plain), sf.max("acknowledged").alias("acknowledged"),
            sf.coalesce(*two).alias("forms"),
        )
        .withColumn("problem", sf.coalesce("forms", sf.when(sf.col("topic").isNull(), sf.concat(
            sf.lit("no row with the id "), "id", sf.lit(" has a topic")))))
    )  # fmt: skip
    return united([parts.where("id IS NULL").select(*COLUMNS, "problem"), by_id.select(*COLUMNS, "problem")])


def _two_forms(name: str, one: Column, other: Column) -> Column:
    words = sf.concat(
        sf.lit("the rows with the id "), "id", sf.lit(": "), one, sf.lit(" and "), other,
        sf.lit(f" give the {name} twice; use one of them"),
    )  # fmt: skip
    return sf.when(one < other, words)
