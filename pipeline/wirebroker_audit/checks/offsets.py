"""Damage and offsets: untrusted batches, decreasing offsets, and missing offsets."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from kafkawire.batches import SEQUENCES
from wirebroker.audit.findings import DAMAGE, severity_of
from wirebroker_audit.checks.rows import (
    ABOUT,
    BREAKS,
    earlier,
    finding,
    is_internal,
    place_of_row,
)
from wirebroker_audit.spark.columns import LOG_ORDER, PARTITION
from wirebroker_audit.spark.tables import united
from wirebroker_audit.spark.wording import ROW, RULES, WORDS


def damages(troubled: DataFrame) -> DataFrame:
    """Reports the damage that the scan found: bytes that are not a batch, and batches that cannot be trusted."""
    rows = troubled.where(sf.col("problem").isin(*DAMAGE))
    no_batch = sf.col("crc_stored") < 0
    for name in ("producer_id", "producer_epoch"):
        rows = rows.withColumn(name, sf.when(no_batch, -1).otherwise(sf.col(name)))
    words = WORDS.damaged(ROW.segment, ROW.position, ROW.base_offset, ROW.detail)
    evidence = sf.struct("segment", "position", "bytes", "crc_stored", "crc_computed", "detail")
    return finding(rows, ROW.problem, evidence, WORDS.choose(ROW.problem == "crc", WORDS.crc(ROW), words), "certain")


def offset_regressions(troubled: DataFrame, between: DataFrame) -> DataFrame:
    """Reports batches whose base offset is not above the last offset of the preceding batch. That batch is in the same split
    (`troubled`) or at the end of an earlier split (`between`)."""
    fallen = RULES.is_offset_regression(ROW.base_offset, ROW.last_before)
    ends = between.where(fallen).withColumn("detail", sf.col("last_before").cast("string"))
    within = troubled.where("problem = 'offset_regression'")
    fallen = united(rows.select(*ABOUT, "detail") for rows in (within, ends))
    return finding(fallen, "offset_regression", place_of_row(), WORDS.offset_regression(ROW, ROW.detail))


def splits(folded: DataFrame) -> DataFrame:
    """Returns the first sound batch of each split, and the split's `end`: the last batch's offset, and the highest offset."""
    first = sf.min_by(sf.struct("producer_id", "first"), "first.position").alias("head")
    end = (sf.max_by("last.last_offset", "last.position").alias("last_offset"), sf.max("last.last_offset").alias("reach"))
    return (
        folded.groupBy(*PARTITION, "segment", sf.shiftright("run", 32).alias("split"))
        .agg(first, sf.max("last.position").alias("last_position"), *end)
        .withColumn("end", sf.struct("segment", sf.col("last_position").alias("position"), "last_offset", "reach"))
        .select(*PARTITION, "segment", "split", "head.producer_id", "head.first.*", "end")
    )


def boundaries(divided: DataFrame, troubled: DataFrame, bounds: DataFrame) -> DataFrame:
    """Returns the first batch of each split, if this batch does not begin at the offset after the preceding batch.

    `missing`: the number of offsets that are missing before the batch · `after_damage`: whether there is damage before the
    batch · `last_before`: the last offset of the preceding batch.
    """
    damage = troubled.where(sf.col("problem").isin(*BREAKS)).select(
        *PARTITION, *LOG_ORDER, sf.struct(*LOG_ORDER).alias("damaged")
    )
    before = earlier(PARTITION)
    reach = sf.coalesce(sf.max("end.reach").over(before) + 1, sf.col("log_start"))
    sound = sf.max(sf.when(sf.col("end").isNotNull(), sf.struct("end.segment", "end.position"))).over(before)
    fallen = RULES.is_offset_regression(ROW.base_offset, ROW.last_before)
    after_damage = "torn IS NOT NULL AND (sound IS NULL OR torn > sound)"
    return (
        united([divided, damage])
        .join(sf.broadcast(bounds), [*PARTITION])
        .select("*", reach.alias("reach"), sound.alias("sound"), sf.max("damaged").over(before).alias("torn"),
                sf.last("end.last_offset", ignorenulls=True).over(before).alias("last_before"))
        .where(ROW.end.isNotNull() & ((ROW.base_offset > ROW.reach) | fallen))
        .withColumn("missing", sf.greatest(sf.col("base_offset") - sf.col("reach"), sf.lit(0)))
        .withColumn("after_damage", sf.expr(after_damage))
        .select(*ABOUT, "missing", "after_damage", "last_before")
    )  # fmt: skip


def holes(batches: DataFrame, between: DataFrame, bounds: DataFrame) -> DataFrame:
    """Returns the batches that follow missing offsets. `missing` counts these offsets; `reason` counts the missing offsets that
    damage or compaction explains."""
    rows = united(each.where("missing > 0").select(*ABOUT, "missing", "after_damage") for each in (batches, between))
    cleaned = sf.least("base_offset", "cleaned_until") - sf.col("base_offset") + sf.col("missing")
    reason = sf.when(ROW.after_damage, ROW.missing).otherwise(sf.greatest(cleaned, sf.lit(0)))
    return rows.join(sf.broadcast(bounds), [*PARTITION]).withColumn("reason", reason)


def offset_gaps(missing: DataFrame, told: DataFrame | None) -> DataFrame:
    """Reports missing offsets that have no reason, unless the sequence gaps in `told` already report the same number of
    records.

    The finding has the severity `likely` if compaction may be the reason and no file says whether the topic is compacted.
    """
    found = (
        missing.where(~is_internal())
        .withColumn("after", place_of_row())
        .withColumn("last_offset", sf.col("base_offset") - 1)
        .withColumn("base_offset", sf.greatest(sf.col("base_offset") - ROW.missing + ROW.reason, "log_start"))
        .withColumn("unexplained", sf.col("last_offset") - sf.col("base_offset") + 1)
        .where("unexplained > 0")
        .withColumns({name: sf.lit(-1) for name in ("producer_id", "producer_epoch", "base_sequence", "last_sequence")})
    )
    if told is not None:
        gaps = told.where("kind = 'gap' AND first_offset < last_offset").withColumn(
            "over", sf.pmod(sf.col("last_sequence").cast("bigint") - sf.col("first_sequence"), sf.lit(SEQUENCES)) + 1
        )
        begins, ends = gaps.withColumn("at", ROW.first_offset), gaps.withColumn("at", ROW.last_offset)
        ends = ends.withColumn("over", -ROW.over)
        sides = (rows.select(*PARTITION, "at", "over") for rows in (begins, ends))
        over = sf.coalesce(sf.sum("over").over(Window.partitionBy(*PARTITION).orderBy("at")), sf.lit(0))
        found = united([found.withColumn("at", ROW.base_offset), *sides])
        found = found.withColumn("over", over).where("unexplained > over")
    words = WORDS.offset_gap(ROW.base_offset, ROW.last_offset)
    severity = sf.when(ROW.policy_known, severity_of("offset_gap")).otherwise("likely")
    return finding(found, "offset_gap", sf.struct("after"), words, severity)
