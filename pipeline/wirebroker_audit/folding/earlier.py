"""The batches and runs of the report that an audit goes on from, as far as they still count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from wirebroker_audit.checks.batches import LOG_ORDER, PARTITION, intact
from wirebroker_audit.folding.onward import BATCHES, RUNS, Covered, Key, State
from wirebroker_audit.origin import Origin
from wirebroker_audit.spark import schema

_PLACE = "topic string, partition int, segment string, position long"


def with_last_batches(spark: SparkSession, report: Path, state: State) -> State:
    """The state with the size and the checksum of each partition's last batch."""
    places = [(*key, each.label, each.position) for key, each in state.partitions.items() if each.label]
    if not places:
        return state
    rows = spark.read.schema(schema.BATCHES).parquet(_uri(report, BATCHES))
    found = intact(rows).join(sf.broadcast(spark.createDataFrame(places, _PLACE)), [*PARTITION, *LOG_ORDER])
    known = dict(state.partitions)
    for row in found.select(*PARTITION, "bytes", "crc_stored").collect():
        key = (row["topic"], row["partition"])
        known[key] = known[key]._replace(size=row["bytes"], crc=row["crc_stored"])
    return replace(state, partitions=known)


def state_of(folded: DataFrame, origin: Origin, expiration_ms: int) -> State:
    """How far an audit has read, by its runs."""
    place = sf.struct("segment", sf.col("last.position").alias("position"))
    rows = folded.groupBy(*PARTITION).agg(
        sf.max_by(sf.struct("segment", "last.position", "last.last_offset"), place).alias("end"),
        sf.max(sf.shiftright("run", 32)).alias("split"),
    )  # fmt: skip
    ends = {(row["topic"], row["partition"]): row for row in rows.collect()}
    found = {}
    for topic, partition, start, _ in origin.bounds:
        topic_id = origin.topic_id(topic, partition)
        if (row := ends.get((topic, partition))) is None:
            found[topic, partition] = Covered("", 0, start, -1, topic_id)
        else:
            label, position, last_offset = row["end"]
            found[topic, partition] = Covered(label, position, last_offset + 1, origin.base_of(label), topic_id)
    splits = 1 + max((row["split"] for row in ends.values()), default=-1)
    return State(origin.is_cluster, expiration_ms, splits, found)


class Earlier:
    """The rows of an earlier report about partitions that went on, from their log start up to the seam."""

    def __init__(self, spark: SparkSession, report: Path, goes_on: Mapping[Key, Covered], starts: Mapping[Key, int]) -> None:
        self._spark, self._report = spark, report
        rows = [(*key, each.label, each.position, starts[key]) for key, each in goes_on.items()]
        self._goes_on = spark.createDataFrame(rows, "topic string, partition int, seam string, at long, log_start long")

    def batches(self) -> DataFrame:
        """Its batches; damage after the last sound batch is read again, because more may have been written there."""
        rows = self._read(BATCHES, schema.BATCHES.names, "last_offset")
        before = sf.struct(*LOG_ORDER) < sf.struct(sf.col("seam").alias("segment"), sf.col("at").alias("position"))
        rows = rows.where(sf.col("problem").isNull() | (sf.col("problem") == "offset_regression") | before)
        return rows.select(*schema.BATCHES.names)

    def runs(self) -> DataFrame:
        """Its runs."""
        return self._read(RUNS, schema.RUNS.names, "last.last_offset").select(*schema.RUNS.names)

    def _read(self, name: str, columns: list[str], reach: str) -> DataFrame:
        shape = schema.BATCHES if name == BATCHES else schema.RUNS
        rows = self._spark.read.schema(shape).parquet(_uri(self._report, name)).select(*columns)
        return rows.join(sf.broadcast(self._goes_on), [*PARTITION]).where(f"{reach} >= log_start")


def _uri(report: Path, name: str) -> str:
    return (report.resolve() / name).as_uri()
