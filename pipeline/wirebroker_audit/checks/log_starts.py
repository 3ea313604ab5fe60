"""Corrects runs that begin before the log start of their partition: batches below the log start no longer count."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from wirebroker_audit.checks.sequences import suspects
from wirebroker_audit.folding import schema
from wirebroker_audit.sources.tasks import runs_of
from wirebroker_audit.spark.columns import PARTITION, PRODUCER
from wirebroker_audit.spark.tables import settled


def from_log_starts(folded: DataFrame, batches: DataFrame, starts: DataFrame) -> DataFrame:
    """Returns the runs. If a check needs a run that begins before a log start, the run is folded again from its remaining
    batches.

    A check looks at the beginning of a run only if the producer is suspicious or a transaction has been open since that
    beginning. The batches of a healthy log are not read. `starts` has topic, partition and log_start.
    """
    across = folded.join(sf.broadcast(starts), [*PARTITION]).where("producer_id >= 0 AND first.last_offset < log_start")
    across = settled(across)
    if across.isEmpty():
        return folded
    keys = (*PRODUCER, "segment", "run")
    suspicious = suspects(folded).select(*PRODUCER).distinct().withColumn("suspicious", sf.lit(True))
    chosen = (
        across.join(suspicious, [*PRODUCER], "left")
        .where("suspicious OR open.last_offset < log_start")
        .select(*keys, sf.col("first.position").alias("start"), sf.col("last.position").alias("stop"))
    )
    chosen = settled(chosen)
    if chosen.isEmpty():
        return folded
    left = batches.drop("run").join(sf.broadcast(chosen), [*PRODUCER, "segment"]).where("position BETWEEN start AND stop")
    left = left.repartition(*PRODUCER, "segment").sortWithinPartitions("position")
    others = folded.join(sf.broadcast(chosen.select(*keys)), [*keys], "left_anti")
    return settled(others.unionByName(runs_of(left.select(*schema.BATCHES.names))))
