"""Gathers the data of the pictures: small tables, even for a large log."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from kafkawire.batches import CONTROL
from wirebroker.audit.findings import weight
from wirebroker_audit.spark.columns import PRODUCER, intact
from wirebroker_audit.spark.tables import collected, is_light, settled

Row = dict[str, Any]
SHOWN = 20
"""The page shows this many findings of each kind and severity."""
CELLS_ACROSS, CELLS_DOWN = 24, 40
"""The heat map shows this many producers and this many partitions. Producers and partitions with the most findings are chosen
first, then producers and partitions with the most records."""
TIMELINES, POINTS = 3, 2000
"""The sequences of this many producers are drawn, each with at most this many batches."""


class Ribbon(NamedTuple):
    """The batches of one partition around its gravest finding, and the findings about the partition."""

    topic: str
    partition: int
    batches: list[Row]
    findings: list[Row]


class Timeline(NamedTuple):
    """The batches of one producer on one partition, and the findings about them."""

    topic: str
    partition: int
    producer_id: int
    batches: list[Row]
    findings: list[Row]


RIBBONS, BATCHES = 3, 24
"""The logs of this many partitions are drawn around a finding, each with this many batches."""
NEAR = 50_000
"""The batches of a finding's producer are searched first within this many offsets of the finding, so that Parquet skips most of
a file."""


def first_findings(findings: DataFrame) -> list[Row]:
    """Returns the first findings of each kind and severity, the gravest findings first."""
    order = Window.partitionBy("kind", "severity").orderBy("topic", "partition", "first_offset", "first_sequence")
    rows = findings.withColumn("number", sf.row_number().over(order)).where(sf.col("number") <= SHOWN)
    first = [row.asDict() for row in collected(rows.orderBy("kind", "number").drop("number"))]
    return sorted(first, key=lambda each: weight(each["severity"], each["kind"]))


def heat_map(folded: DataFrame, findings: DataFrame | None) -> list[Row]:
    """Returns the numbers of records and findings by partition and producer, for the partitions and producers of the heat
    map."""
    data = folded.where(sf.col("kind").bitwiseAND(sf.lit(CONTROL)) == 0)
    cells = data.groupBy(*PRODUCER).agg(sf.sum("records").alias("records"))
    both = settled(_with_wrong(cells, findings))
    sums = [sf.sum(name).alias(name) for name in ("wrong", "records")]
    producers, partitions = both.groupBy("producer_id").agg(*sums), both.groupBy("topic", "partition").agg(*sums)
    most = [sf.col("wrong").desc(), sf.col("records").desc()]
    across = producers.orderBy(*most, "producer_id").limit(CELLS_ACROSS).select("producer_id")
    down = partitions.orderBy(*most, "topic", "partition").limit(CELLS_DOWN).select("topic", "partition")
    chosen = both.join(sf.broadcast(across), ["producer_id"]).join(sf.broadcast(down), ["topic", "partition"])
    return [row.asDict() for row in collected(chosen.orderBy("topic", "partition", "producer_id"))]


def _with_wrong(cells: DataFrame, findings: DataFrame | None) -> DataFrame:
    """Adds the number of findings (`wrong`), and the gravest severity (`worst`)."""
    if findings is None:
        return cells.select("*", sf.lit(0).alias("wrong"), sf.lit(None).cast("string").alias("worst"))
    wrong = findings.where("severity <> 'info'").groupBy(*PRODUCER).agg(
        sf.count(sf.lit(1)).alias("wrong"), sf.min("severity").alias("worst")  # "certain" sorts before "likely"
    )  # fmt: skip
    return cells.join(wrong, [*PRODUCER], "left").fillna(0, ["wrong"])


def timelines(batches: DataFrame, findings: list[Row]) -> list[Timeline]:
    """Returns the producers with the most findings about their sequences, with the batches around the first finding of
    each."""
    by_producer: dict[tuple[str, int, int], list[Row]] = {}
    for each in findings:
        if each["producer_id"] >= 0 and each["first_sequence"] >= 0 and each["first_offset"] >= 0:
            by_producer.setdefault((each["topic"], each["partition"], each["producer_id"]), []).append(each)
    chosen = sorted(by_producer.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:TIMELINES]
    return [_timeline(batches, *key, found) for key, found in chosen]


def _timeline(batches: DataFrame, topic: str, partition: int, producer_id: int, found: list[Row]) -> Timeline:
    about = min(each["first_offset"] for each in found)
    mine = _of(batches, topic, partition).where((sf.col("producer_id") == producer_id) & (sf.col("base_sequence") >= 0))
    return Timeline(topic, partition, producer_id, _around(batches, mine, about, POINTS, "producer_epoch"), found)


def ribbons(batches: DataFrame, findings: list[Row]) -> list[Ribbon]:
    """Returns the partitions with the gravest findings, each with the batches around its first finding. Findings without an
    offset, and findings with the severity `info`, do not count."""
    by_partition: dict[tuple[str, int], list[Row]] = {}
    for each in findings:
        if each["first_offset"] >= 0 and each["severity"] != "info":
            by_partition.setdefault((each["topic"], each["partition"]), []).append(each)
    names = "producer_id", "producer_epoch", "marker"
    return [
        Ribbon(*key, _around(batches, _of(batches, *key), found[0]["first_offset"], BATCHES, *names), found)
        for key, found in list(by_partition.items())[:RIBBONS]
    ]


def _of(batches: DataFrame, topic: str, partition: int) -> DataFrame:
    return intact(batches).where((sf.col("topic") == topic) & (sf.col("partition") == partition))


def _around(batches: DataFrame, mine: DataFrame, about: int, most: int, *names: str) -> list[Row]:
    """Returns the batches closest to an offset, in the order of their offsets."""
    away = sf.abs(sf.col("base_offset") - about)
    near = mine.where(sf.col("base_offset").between(about - NEAR, about + NEAR))
    columns = ("base_offset", "last_offset", "base_sequence", "last_sequence", *names)
    for chosen in (mine,) if is_light(batches) else (near, mine):
        rows = chosen.orderBy(away).limit(most).select(*columns).collect()
        if len(rows) == most:
            break
    return sorted((row.asDict() for row in rows), key=lambda row: row["base_offset"])
