"""Intermediate tables: on Spark's executors, or in the driver if the log is small.

For a small log, Spark's tasks, shuffles, generated code and Python workers cost more than the work itself. So `together` makes
a session run the same queries in another way. The driver runs the Python functions, and every intermediate table is a local
relation of one partition. Then no query shuffles, and the optimizer removes queries about empty tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

TOGETHER = "spark.wirebroker.together"
LIGHT = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings for small tables: one partition, no job for a broadcast, and no generated code, because compiling code that runs
only once takes longer than interpreting the query."""
FEW = 10_000
"""The driver keeps at most this many rows, even for a large log. Queries about these rows run with `LIGHT`; Spark optimizes
away queries about empty tables."""
TASKS = 1000
"""At most this many tasks read files."""
Fold = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


@contextmanager
def together(spark: SparkSession) -> Iterator[None]:
    """Inside the `with` block, intermediate tables are in the driver. After the block the session has its earlier settings
    again."""
    with _set(spark, {TOGETHER: "true", **LIGHT}):
        yield


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


def is_together(spark: SparkSession) -> bool:
    """Tells whether intermediate tables are in the driver now."""
    return spark.conf.get(TOGETHER, "false") == "true"


def settled(rows: DataFrame) -> DataFrame:
    """Computes the rows now, and only once, for tables that several queries read.

    The rows are checkpointed, not cached, because Spark looks through the whole history of every cached table for each query.
    If there are few rows, they become a local relation.
    """
    spark = rows.sparkSession
    java = rows._jdf  # PySpark has no function that leaves the rows in the JVM
    if is_together(spark):
        return _relation(spark, java.collectAsList(), java.schema()).coalesce(1)
    if is_light(limited := rows.limit(FEW + 1)):
        with _set(spark, LIGHT):
            few = limited._jdf.collectAsList()
        if few.size() <= FEW:
            return _relation(spark, few, java.schema())
    held = rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)  # a few million rows in memory would fill the heap
    few = held._jdf.takeAsList(FEW + 1)
    return held if few.size() > FEW else _relation(spark, few, java.schema())


def is_light(rows: DataFrame) -> bool:
    """Tells whether the rows come only from local relations."""
    leaves = rows._jdf.queryExecution().optimizedPlan().collectLeaves()
    return all(leaves.apply(index).nodeName() == "LocalRelation" for index in range(leaves.size()))


def collected(rows: DataFrame) -> list[Row]:
    """Returns the rows as Python objects."""
    if is_together(rows.sparkSession) or not is_light(rows):
        return rows.collect()
    with _set(rows.sparkSession, LIGHT):
        return rows.collect()


def _relation(spark: SparkSession, rows: Any, schema: Any) -> DataFrame:
    """Returns rows of the JVM as a local relation."""
    return DataFrame(spark._jsparkSession.createDataFrame(rows, schema), spark)


def local(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Returns a table of the driver as a DataFrame of one partition."""
    whole = (table if len(table) else table.schema.empty_table()).combine_chunks()  # Spark stops at an empty Arrow batch
    return spark.createDataFrame(whole).coalesce(1)


def _arrow(rows: DataFrame) -> pa.Table:
    """Returns the rows in Arrow. `toArrow` fails if a struct is null and has a field that must not be null."""
    nullable = json.loads(rows.schema.json().replace('"nullable":false', '"nullable":true'))
    return rows.to(StructType.fromJson(nullable)).toArrow()


def local_rows(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType) -> DataFrame:
    """Returns rows of Python values as a DataFrame of one partition."""
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return local(spark, pa.Table.from_pylist(named, schema=to_arrow_schema(schema)))


def stored(spark: SparkSession, folder: Path, schema: StructType) -> DataFrame:
    """Returns the rows in a folder of Parquet files."""
    if not is_together(spark) and not _has_few(folder):
        return spark.read.schema(schema).parquet(folder.resolve().as_uri())
    return local(spark, pq.read_table(folder, schema=to_arrow_schema(schema)))


def added(rows: DataFrame, folder: Path) -> DataFrame:
    """Adds the rows to a folder of Parquet files. Returns all rows in the folder."""
    spark, schema = rows.sparkSession, rows.schema
    if not is_together(spark) and not is_light(rows):
        rows.write.mode("append").parquet(folder.resolve().as_uri())
    else:
        folder.mkdir(exist_ok=True)
        with _set(spark, LIGHT):
            pq.write_table(_arrow(rows), folder / f"part-{uuid4().hex}.parquet")
    return stored(spark, folder, schema)


def _has_few(folder: Path) -> bool:
    """Tells whether the driver can hold the rows of these Parquet files."""
    count = 0
    for path in folder.glob("*.parquet"):
        count += pq.read_metadata(path).num_rows
        if count > FEW:
            return False
    return True


def united(frames: Iterable[DataFrame]) -> DataFrame:
    """Returns the rows of all tables. Columns are matched by name, and absent columns are null."""
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    return rows.coalesce(1) if is_together(rows.sparkSession) else rows


def mapped(rows: DataFrame, function: Fold, schema: StructType) -> DataFrame:
    """Returns the Arrow batches that `function` makes. `function` gets the batches of all rows or, as with `mapInArrow`, the
    batches of one part of the rows."""
    spark = rows.sparkSession
    if not is_together(spark):
        return rows.mapInArrow(function, schema)
    made = function(_arrow(rows).to_batches())
    return local(spark, pa.Table.from_batches(made, to_arrow_schema(schema)))


def from_files(
    rows: DataFrame,
    function: Callable[[Iterable[Path]], Iterator[pa.RecordBatch]],
    schema: StructType,
    otherwise: Callable[[], DataFrame],
) -> DataFrame:
    """Returns the Arrow batches that `function` makes from the Parquet files of the rows, or the result of `otherwise` if the
    rows are not in files.

    Python reads the files itself, because reading them through the JVM costs several times as much. Filters of `rows` do not
    apply.
    """
    if not (files := rows.inputFiles()):
        return otherwise()

    def of_files(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for chunk in chunks for number in chunk.column("id").to_pylist())
        return function(Path(unquote(urlsplit(files[number]).path)) for number in numbers)

    return mapped(rows.sparkSession.range(0, len(files), 1, min(len(files), TASKS)), of_files, schema)


def in_groups(rows: DataFrame, keys: Sequence[str], function: Callable[[pa.Table], pa.Table], schema: StructType) -> DataFrame:
    """Calls `function` for each group of rows with equal keys, and returns the rows of all tables that the calls return.
    Spark's `applyInArrow` does the same.
    """
    spark = rows.sparkSession
    if not is_together(spark):
        return rows.groupBy(*keys).applyInArrow(function, schema)
    table = _arrow(rows)
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, key in enumerate(zip(*(table.column(name).to_pylist() for name in keys), strict=True)):
        groups.setdefault(key, []).append(index)
    made = [function(table.take(pa.array(indices))) for indices in groups.values()]
    return local(spark, pa.concat_tables(made) if made else to_arrow_schema(schema).empty_table())
