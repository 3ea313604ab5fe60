"""Reads the groups' commits on Spark, with one task for each partition of `__consumer_offsets`, and counts the records that
producers wrote between commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from wirebroker.audit.findings import INTERNAL_TOPICS
from wirebroker_audit.checks.groups import PASSED, Seen, passed_rows, read_commits
from wirebroker_audit.reading.pieces import Piece
from wirebroker_audit.reading.reader import read_piece
from wirebroker_audit.spark.columns import LOG_ORDER, PARTITION, intact
from wirebroker_audit.spark.tables import is_together, mapped

TASKS = 1000


def commits(spark: SparkSession, work: list[list[Piece]], topics: frozenset[str]) -> Seen | None:
    """Returns the commits of all groups for these topics. `work` has the pieces of each partition of `OFFSETS_TOPIC`. Returns
    None if `work` is empty."""
    if not work:
        return None

    def read(pieces: list[Piece]) -> Seen:
        return read_commits(chain.from_iterable(map(read_piece, pieces)), topics)

    seen = Seen()
    tasks = spark.sparkContext.parallelize(work, min(len(work), TASKS)).map(read)
    for each in map(read, work) if is_together(spark) else tasks.toLocalIterator():
        seen.add(each)
    return seen


def passed(spark: SparkSession, work: list[list[Piece]], groups: frozenset[str]) -> DataFrame:
    """Returns the offsets that each commit of these groups passed; see `PASSED`."""

    def read(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            for number in chunk.column("id").to_pylist():
                yield from passed_rows(chain.from_iterable(map(read_piece, work[number])), groups)

    return mapped(spark.range(0, len(work), 1, max(min(len(work), TASKS), 1)), read, from_arrow_schema(PASSED))


def outputs(spark: SparkSession, batches: DataFrame, seen: Seen) -> Mapping[int, tuple[int, int]]:
    """Counts the committed and the aborted records of each producer that commits offsets in transactions."""
    producers = [(each,) for pipeline in seen.pipelines.values() for each in pipeline.producers]
    if not producers:
        return {}
    mine = spark.createDataFrame(producers, "producer_id long").distinct()
    rows = ended(batches.where(~sf.col("topic").isin(*INTERNAL_TOPICS)).join(sf.broadcast(mine), "producer_id"))
    sums = (sf.coalesce(sf.sum(sf.when(sf.col("end.marker") == number, sf.col("records"))), sf.lit(0)) for number in (1, 0))
    found = rows.groupBy("producer_id").agg(*(each.alias(name) for each, name in zip(sums, ("kept", "dropped"), strict=True)))
    return {row["producer_id"]: (row["kept"], row["dropped"]) for row in found.collect()}


def ended(batches: DataFrame) -> DataFrame:
    """Returns the batches of data. The `end` of a batch is the offset and the time of its producer's next marker; null if there
    is no such marker."""
    # The window is sorted backwards. In log order, each row's frame would reach from the next row to the last row, and Spark
    # would read all of these rows again for each row.
    backwards = Window.partitionBy(*PARTITION, "producer_id").orderBy(*(sf.col(name).desc() for name in LOG_ORDER))
    after = backwards.rowsBetween(Window.unboundedPreceding, -1)
    marker = sf.struct("marker", sf.col("base_offset").alias("offset"), sf.col("max_timestamp").alias("at_ms"))
    end = sf.last(sf.when(sf.col("marker") >= 0, marker), ignorenulls=True).over(after)
    return intact(batches).withColumn("end", end).where("marker < 0")
