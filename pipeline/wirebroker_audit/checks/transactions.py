"""Finds transactions that have no end, and ends of transactions that have no beginning."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from kafkawire.batches import CONTROL
from wirebroker.audit.findings import DAMAGE
from wirebroker_audit.checks.rows import (
    ABOUT,
    BREAKS,
    PLACE,
    by_log,
    earlier,
    finding,
    is_marker,
    is_transactional,
    kind_of_row,
    place_of_row,
)
from wirebroker_audit.spark.columns import LOG_ORDER, PARTITION, PRODUCER
from wirebroker_audit.spark.tables import united
from wirebroker_audit.spark.wording import ROW, WORDS


def transactions(troubled: DataFrame, folded: DataFrame, bounds: DataFrame) -> list[DataFrame]:
    """Returns transactions that have no end, and ends of transactions that have no beginning.

    A damaged batch counts only if it prevents a finding: a damaged marker ends an open transaction, and damaged data can be the
    beginning of a transaction that has only an end. If a damaged batch seems to begin a transaction, this transaction is not
    reported as open.
    """
    damaged = troubled.where(sf.col("problem").isin(*DAMAGE) & (sf.col("producer_id") >= 0)).withColumn("kind", kind_of_row())
    unsound = damaged.select(*ABOUT, "kind").withColumns({"sound": sf.lit(False), "reach": sf.col("base_offset")})
    events = (
        united([_events(folded), unsound])
        .withColumn("before", sf.max("reach").over(earlier(PRODUCER)))
        .withColumn("ended", sf.coalesce(sf.sum(is_marker().cast("int")).over(earlier(PRODUCER)), sf.lit(0)))
    )
    span = (*PRODUCER, "ended")
    spans = (
        events.where(is_marker() | is_transactional())
        .withColumn("data", sf.max(is_transactional()).over(Window.partitionBy(*span)))
        .withColumn("marked", sf.max(is_marker()).over(Window.partitionBy(*span)))
        .where("sound AND NOT (data AND marked)")
        .withColumn("number", sf.row_number().over(by_log(span)))
        .where("number = 1")
    )
    torn = troubled.where(sf.col("problem").isin(*BREAKS)).groupBy(*PARTITION).agg(sf.min(sf.struct(*LOG_ORDER)).alias("torn"))
    return [_open(spans.where("data"), folded), _without_data(spans.where("marked"), bounds, torn)]


def _events(folded: DataFrame) -> DataFrame:
    """Returns up to three events for each run of a producer: its first batch, its last marker if this marker ended a
    transaction, and its first batch after this marker."""
    goes_on = ~is_marker() & (sf.col("marked") >= 0)
    ended = sf.col("first").withField("position", sf.col("marked"))
    events = sf.array(
        _event(sf.col("first"), sf.col("kind"), sound=True),
        sf.when(goes_on, _event(ended, sf.lit(CONTROL).cast("smallint"), sound=False)),
        sf.when(goes_on & sf.col("open").isNotNull(), _event(sf.col("open"), sf.col("kind"), sound=True)),
    )
    rows = folded.where("producer_id >= 0").withColumn("event", sf.explode(sf.array_compact(events)))
    reach = sf.col("last.base_offset").alias("reach")
    return rows.select(*PRODUCER, "segment", "event.batch.*", "event.kind", "event.sound", reach)


def _event(batch: Column, kind: Column, *, sound: bool) -> Column:
    return sf.struct(batch.alias("batch"), kind.alias("kind"), sf.lit(sound).alias("sound"))


def _open(spans: DataFrame, folded: DataFrame) -> DataFrame:
    latest = folded.groupBy(*PARTITION).agg(sf.max("max_timestamp").alias("latest"))
    rows = spans.join(sf.broadcast(latest), [*PARTITION])
    rows = rows.withColumn("open_ms", sf.greatest(sf.col("latest") - sf.col("max_timestamp"), sf.lit(0)))
    words = WORDS.open_transaction(ROW, ROW.open_ms)
    return finding(rows, "open_transaction", sf.struct("open_ms", *PLACE), words)


def _without_data(spans: DataFrame, bounds: DataFrame, torn: DataFrame) -> DataFrame:
    """Reports markers that have no data, unless their data may have been deleted, compacted away, or damaged.

    `before` is the base offset of the producer's previous batch: only data after that batch can belong to the marker. `torn` is
    the first damaged place of a partition.
    """
    rows = spans.join(sf.broadcast(bounds), [*PARTITION]).join(sf.broadcast(torn), [*PARTITION], "left")
    compacted = sf.col("cleaned_until") > sf.coalesce("before", sf.lit(0))
    lost = compacted | (sf.col("before").isNull() & (sf.col("log_start") > 0))
    lost |= sf.coalesce(sf.col("torn") < sf.struct(*LOG_ORDER), sf.lit(False))
    return finding(rows.where(~lost), "marker_without_data", place_of_row(), WORDS.marker_without_data(ROW))
