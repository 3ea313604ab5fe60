"""Checks epochs and sequences: duplicates, gaps, disorder, and epochs that fall back.

The checks do not look at every batch. `suspects` finds producers with gaps or overlaps between their runs. `examined` returns
only the suspicious epochs of these producers: as whole runs if the runs do not overlap, as parts of runs if the parts do not
overlap, and otherwise as batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from kafkawire.batches import CONTROL, SEQUENCES, TRANSACTIONAL
from wirebroker.audit.copies import Copied, copied
from wirebroker.audit.findings import DAMAGE
from wirebroker_audit.checks.rows import (
    ABOUT,
    PLACE,
    by_log,
    earlier,
    finding,
    is_internal,
    is_marker,
    kind_of_row,
    place_of_row,
)
from wirebroker_audit.folding.runs import HEADER
from wirebroker_audit.spark.columns import LOG_ORDER, PARTITION, PRODUCER, intact
from wirebroker_audit.spark.tables import in_groups, settled, united
from wirebroker_audit.spark.wording import ROW, RULES, WORDS

LIFE = (*PRODUCER, "life")
EPOCH = (*LIFE, "producer_epoch")
GRAIN = 64 * 1024
"""A producer's batches within this many bytes of the log form one stretch. If two stretches overlap, the checks read their
batches."""
OVERLAPS = 500
"""One task examines this many sets of overlapping batches."""
FEW = 200_000
"""A join broadcasts at most this many rows to every executor."""
_STRETCH = (*ABOUT, "life", "run", "tail", "before")


def suspects(folded: DataFrame) -> DataFrame:
    """Returns ranges of producer epochs, from `producer_epoch` to `up_to`, in which a run does not simply continue the
    preceding run."""
    log = (*PRODUCER, "segment", "position")
    narrow = folded.where("producer_id >= 0").select(
        *log[:-1], "kind", *(sf.col(f"first.{name}").alias(name) for name in ("position", "base_sequence", "base_offset")),
        sf.col("first.producer_epoch").alias("epoch"), sf.col("last.producer_epoch").alias("last_epoch"),
        sf.struct("data.producer_epoch", "data.last_sequence", "data.last_offset").alias("end"),
    )  # fmt: skip
    before = earlier(PRODUCER)
    end, epoch, known = sf.when(~is_marker(), sf.col("end")), sf.col("epoch"), sf.coalesce("data.producer_epoch", sf.lit(-2))
    goes_on = RULES.continues(known, sf.coalesce("data.last_sequence", sf.lit(-1)), epoch, sf.col("base_sequence"))
    goes_on &= sf.col("base_offset") > sf.coalesce("data.last_offset", sf.lit(-1))
    is_first = (known < epoch) & (sf.col("lowest").isNull() | (sf.col("lowest") >= epoch))
    in_order = sf.when(RULES.is_epoch_regression(epoch, sf.col("epoch_before")), False).when(is_marker() | is_internal(), True)
    in_order = in_order.otherwise(goes_on | is_first)
    went_back = sf.coalesce(RULES.is_epoch_regression(sf.col("data.producer_epoch"), sf.col("highest")), sf.lit(False))
    return (
        narrow.withColumn("epoch_before", sf.lag("last_epoch").over(by_log(PRODUCER)))
        .withColumn("lowest", sf.min("epoch").over(before))
        .withColumn("highest", sf.max("end.producer_epoch").over(before))
        .withColumn("data", sf.last(end, ignorenulls=True).over(before))
        .where(~in_order | (went_back & ~is_marker()))
        .withColumn("up_to", sf.greatest("epoch", sf.least("end.producer_epoch", "highest")))
        .select(*PRODUCER, sf.col("epoch").alias("producer_epoch"), "up_to")
        .distinct()
    )


def in_life(folded: DataFrame, troubled: DataFrame, suspicious: DataFrame, expiration_ms: int) -> DataFrame:
    """Returns the suspects' runs. `life` counts how often the run's producer had expired before the run. `before` is the
    last batch of the preceding run in the same life.

    The columns describe the run's first batch; `tail` is the last batch that is not a marker. A damaged header also counts as a
    sign that its producer was active at that time.
    """
    log, ends = by_log(PRODUCER), sf.struct("producer_epoch", *PLACE)
    columns = ("run", "kind", "data", "last", "marked")
    sound = folded.where("producer_id >= 0").select(*PRODUCER, "segment", "first.*", *columns)
    damaged = troubled.where("producer_id >= 0 AND crc_stored >= 0").where(sf.col("problem").isin(*DAMAGE))
    damaged = damaged.withColumn("last", ends).select(*ABOUT, "last", kind_of_row().alias("kind"), sf.lit(-1).alias("marked"))
    within = (sf.lag("kind").over(log) == TRANSACTIONAL) & (sf.lag("marked").over(log) < sf.lag("last.position").over(log))
    pause = sf.col("max_timestamp") - sf.lag("last.max_timestamp").over(log)
    damaged = damaged.withColumn("last", sf.struct(*(f"last.{field.name}" for field in HEADER)))
    last = sf.struct("last.producer_epoch", *(f"last.{name}" if name != "segment" else name for name in PLACE))
    return (
        united([sound, damaged])
        .join(suspicious.select(*PRODUCER).distinct(), [*PRODUCER], "left_semi")
        .withColumn("reborn", sf.coalesce(RULES.is_forgotten(pause, expiration_ms, ~within), sf.lit(False)))
        .withColumn("life", sf.sum(sf.col("reborn").cast("int")).over(log))
        .where("run IS NOT NULL")
        .withColumn("before", sf.lag(last).over(by_log(LIFE)))
        .withColumn("last_epoch", sf.col("data.producer_epoch"))
        .withColumn("tail", sf.struct(*(f"data.{name}" if name != "segment" else name for name in PLACE)))
        .select(*ABOUT, "life", "run", "kind", "last_epoch", "tail", "before")
    )


def examined(heads: DataFrame, suspicious: DataFrame, batches: DataFrame) -> DataFrame:
    """Returns the stretches of the suspicious epochs in the form of `in_sequence`. Overlapping stretches are divided into
    single batches."""
    epochs = (
        suspicious.withColumn("producer_epoch", sf.explode(sf.sequence("producer_epoch", "up_to")))
        .select(*PRODUCER, "producer_epoch").distinct()
    )  # fmt: skip
    data = heads.where(~is_internal() & ~is_marker() & (sf.col("producer_epoch") >= 0) & (sf.col("base_sequence") >= 0))
    whole = data.where("producer_epoch = last_epoch").join(epochs, [*PRODUCER, "producer_epoch"], "left_semi")
    several = data.where("producer_epoch < last_epoch")
    within = several.join(epochs.withColumnRenamed("producer_epoch", "epoch"), [*PRODUCER])
    within = settled(within.where("epoch BETWEEN producer_epoch AND last_epoch"))
    stretches = whole.select(*_STRETCH)
    if not within.isEmpty():
        stretches = united([stretches, closer(within.drop("producer_epoch"), batches, sf.lit(0))])
    ordered = settled(in_sequence(stretches))
    for grain in (GRAIN, 1):
        overlapping = ordered.where("NOT alone")
        if overlapping.isEmpty():
            break
        single = closer(overlapping.withColumn("epoch", ROW.producer_epoch), batches, sf.floor(ROW.position / grain))
        ordered = settled(in_sequence(united([ordered.where("alone").select(*_STRETCH), single])))
    return ordered


def closer(stretches: DataFrame, batches: DataFrame, part: Column) -> DataFrame:
    """Returns the batches of these stretches, folded by `part`. Each row has the `epoch` of its stretch as its
    `producer_epoch`."""
    chosen = stretches.select(
        *PRODUCER, "life", "segment", "run", sf.col("epoch").alias("producer_epoch"), ROW.position.alias("start"),
        ROW.tail.position.alias("stop"), "before",
    )  # fmt: skip
    chosen = settled(chosen)
    keys = (*PRODUCER, "producer_epoch", "segment", "run")
    data = intact(batches).where(sf.col("attributes").bitwiseAND(sf.lit(CONTROL)) == 0).select(*ABOUT, "run")
    rows = data.join(sf.broadcast(chosen) if chosen.count() <= FEW else chosen, [*keys])
    joined_later = chosen.where("run < 0")  # the batches of joined runs keep their earlier run numbers, see `folding.runs`
    if not joined_later.isEmpty():
        rows = united([rows, data.drop("run").join(joined_later, [*keys[:-1]])])
    rows = rows.where("position BETWEEN start AND stop").withColumn("batch", place_of_row())
    folded = rows.groupBy(*keys, "life", "start", part.alias("part")).agg(
        sf.min_by("batch", "position").alias("head"), sf.max_by("batch", "position").alias("tail"),
        sf.max(sf.when(ROW.position == ROW.start, ROW.before)).alias("before"),
    )  # fmt: skip
    return folded.select("*", *(f"head.{name}" for name in PLACE if name != "segment")).select(*_STRETCH)


def in_sequence(stretches: DataFrame) -> DataFrame:
    """Returns stretches of consecutive sequences with the columns that the checks need; `with_copies` adds further columns.

    `place`, `tail_place`: the unwrapped first sequence of the first and the last batch · `end`: the last sequence · `order` in
    the log, within the epoch · `reach`: the `tail` of the stretch that has the highest end of all stretches with a lower place
    · `number`: the rank by place · `lower`: the last batch before the batch that begins the epoch · `overlap`: the set of
    stretches that overlap, directly or through others · `alone`: whether the set has one stretch.
    """
    log, by_place = by_log(EPOCH), Window.partitionBy(*EPOCH).orderBy("place", "order")
    first, end = sf.col("base_sequence").cast("bigint"), sf.col("tail.base_sequence").cast("bigint")
    length = sf.pmod(end - first, sf.lit(SEQUENCES))
    distance = RULES.distance(sf.lag(end).over(log), first)
    farthest = sf.struct("end", (-sf.col("order")).alias("order"), "tail")
    apart = sf.col("reach").isNull() | (sf.col("place") > sf.col("reach.end"))
    return (
        stretches.withColumn("place", sf.sum(sf.coalesce(distance + sf.lag(length).over(log), first)).over(log))
        .withColumn("tail_place", sf.col("place") + length)
        .withColumn("order", sf.row_number().over(log))
        .withColumn("lower", sf.first("before").over(log))
        .withColumn("end", sf.col("tail_place") + sf.col("tail.last_offset") - sf.col("tail.base_offset"))
        .withColumn("number", sf.row_number().over(by_place))
        .withColumn("reach", sf.max(farthest).over(by_place.rowsBetween(Window.unboundedPreceding, -1)))
        .withColumn("apart", apart)
        .withColumn("overlap", sf.sum(sf.col("apart").cast("int")).over(by_place))
        .withColumn("alone", sf.col("apart") & sf.coalesce(sf.lead("apart").over(by_place), sf.lit(True)))
        .select(*_STRETCH, "place", "tail_place", "end", "order", "number", "reach", "lower", "overlap", "alone")
    )


def with_copies(ordered: DataFrame) -> DataFrame:
    """Adds to each batch of `in_sequence` the part of its sequences that an earlier batch has stored. If there is no such part,
    the columns are null.

    `from_place`, `to_place`: the first and last repeated place · `doubled`: the number of repeated places between them ·
    `first`, `last`: the first batches in the log that have `from_place` and `to_place`.
    """
    rows = ordered.withColumn("side", sf.struct("place", *PLACE))
    side = rows.schema["side"].dataType
    told = [
        *(StructField(name, LongType()) for name in ("from_place", "to_place", "doubled")),
        *(StructField(name, side) for name in ("first", "last")),
    ]
    nothing = {field.name: sf.lit(None).cast(field.dataType) for field in told}
    schema = StructType([*rows.schema.fields, *told])
    lots = rows.where("NOT alone").withColumn("lot", sf.floor(sf.col("overlap") / OVERLAPS))
    overlapping = in_groups(lots, (*EPOCH, "lot"), _copied, schema)
    return united([rows.where("alone").withColumns(nothing), overlapping]).drop("side", "overlap", "alone")


def _copied(overlaps: pa.Table) -> pa.Table:
    """Adds the results of `wirebroker.audit.copies` to the batches of an epoch. `overlaps` has every batch of each overlapping
    set."""
    rows = overlaps.drop_columns(["lot"]).sort_by("order")
    extents = zip(rows.column("place").to_pylist(), rows.column("end").to_pylist(), strict=True)
    found = {each.batch: each for each in copied(list(extents))}
    told = [found.get(batch) for batch in range(len(rows))]
    for name, which in (("from_place", "start"), ("to_place", "end"), ("doubled", "doubled")):
        rows = rows.append_column(name, _numbers(told, which))
    for name in ("first", "last"):
        rows = rows.append_column(name, rows.column("side").take(_numbers(told, name)))
    return rows


def _numbers(told: Sequence[Copied | None], name: str) -> pa.Array:
    return pa.array([None if each is None else getattr(each, name) for each in told], pa.int64())


def epoch_regressions(heads: DataFrame) -> DataFrame:
    """Reports batches whose epoch is older than the epoch of their producer's previous batch."""
    fallen = heads.where(RULES.is_epoch_regression(ROW.producer_epoch, ROW.before.producer_epoch))
    before = sf.struct("before.producer_epoch", "before.base_offset", "before.last_offset")
    words = WORDS.epoch_regression(ROW, is_marker(), ROW.before)
    return finding(fallen, "epoch_regression", sf.struct(before.alias("before"), *PLACE), words)


def duplicates(ordered: DataFrame) -> DataFrame:
    """Reports sequences that a producer has stored twice within an epoch."""
    rows = (
        ordered.where("first IS NOT NULL")
        .withColumn("once", sf.col("first.base_offset") + sf.col("from_place") - sf.col("first.place"))
        .withColumn("once_last", sf.col("last.base_offset") + sf.col("to_place") - sf.col("last.place"))
        .withColumn("last_offset", sf.col("base_offset") + sf.col("to_place") - sf.col("place"))
        .withColumn("base_offset", sf.col("base_offset") + sf.col("from_place") - sf.col("place"))
        .transform(_about_places)
    )
    once, again = (ROW.once, ROW.once_last), (ROW.base_offset, ROW.last_offset)
    words = WORDS.duplicate(ROW, _sequences(), ROW.doubled, once, again)
    return finding(rows, "duplicate", sf.struct("first", "last", *PLACE), words)


def gaps(ordered: DataFrame) -> DataFrame:
    """Reports missing sequences between two stored batches. Each row has the batch `before` the gap, and the gap's
    first place."""
    return ordered.where(RULES.is_gap(ROW.place, ROW.reach.end)).select(
        *ABOUT, "place", sf.col("reach.tail").alias("before"), (sf.col("reach.end") + 1).alias("from_place"),
        sf.lit(False).alias("late"),
    )  # fmt: skip


def late_starts(ordered: DataFrame) -> DataFrame:
    """Reports new epochs that do not begin at sequence 0 although the producer is known: the first sequences are missing. The
    rows have the same form as the rows of `gaps`."""
    rows = ordered.where((ROW.number == 1) & RULES.is_late_start(ROW.place, ROW.lower.producer_epoch, ROW.producer_epoch))
    return rows.select(
        *ABOUT, "place", sf.struct(*(f"lower.{name}" for name in PLACE)).alias("before"),
        sf.lit(0).cast("bigint").alias("from_place"), sf.lit(True).alias("late"),
    )  # fmt: skip


def with_reasons(gaps: DataFrame, missing: DataFrame) -> DataFrame:
    """Adds `holes` to `gaps`: it counts those offsets between the two batches that are `missing` for a reason."""
    reasons = missing.where("reason > 0").select(*PARTITION, *LOG_ORDER, "reason")
    if reasons.isEmpty():
        return gaps.withColumn("holes", sf.lit(0).cast("bigint"))
    gaps = settled(gaps)
    sides = [gaps.select(*PARTITION, *LOG_ORDER), gaps.select(*PARTITION, "before.segment", "before.position")]
    points = sides[0].unionByName(sides[1]).distinct().withColumn("asked", sf.lit(True))
    below = (
        united([points, reasons])
        .withColumn("holes", sf.coalesce(sf.sum("reason").over(by_log(PARTITION)), sf.lit(0)))  # including this row
        .where("asked")
        .select(*PARTITION, sf.struct(*LOG_ORDER).alias("at"), "holes")
    )
    below = settled(below)
    after, before = (below.select(*PARTITION, sf.col("at").alias(at), sf.col("holes").alias(name)) for at, name in
                     (("here", "to"), ("there", "from")))  # fmt: skip
    return (
        gaps.withColumn("here", sf.struct(*LOG_ORDER))
        .withColumn("there", sf.struct("before.segment", "before.position"))
        .join(after, [*PARTITION, "here"])
        .join(before, [*PARTITION, "there"])
        .withColumn("holes", sf.abs(sf.col("to") - sf.col("from")))
    )


def unexplained(missing: DataFrame) -> DataFrame:
    """Reports those gaps and late starts that no missing offsets explain."""
    rows = missing.where(RULES.is_unexplained(ROW.place - ROW.from_place, ROW.holes)).transform(_between)
    about = (ROW, _sequences(), ROW.before, ROW.after)
    words = WORDS.choose(ROW.late, WORDS.late_start(*about), WORDS.gap(*about))
    return finding(rows, "gap", sf.struct("before", "after"), words)


def disorder(ordered: DataFrame) -> DataFrame:
    """Reports batches that are stored after a batch with higher sequences of the same epoch, except copies."""
    tail = sf.struct(sf.col("tail_place").alias("place"), *(f"tail.{name}" for name in PLACE))
    rows = (
        ordered.where("first IS NULL")
        .withColumn("before", sf.lag(tail).over(by_log(EPOCH)))
        .where(RULES.is_disorder(ROW.place, ROW.before.place))
    )
    return finding(rows, "disorder", sf.struct("before", *PLACE), WORDS.disorder(ROW, ROW.before))


def _about_places(rows: DataFrame) -> DataFrame:
    """Sets a row's first and last sequence from the places `from_place` and `to_place`."""
    rows = rows.withColumn("base_sequence", sf.pmod("from_place", sf.lit(SEQUENCES)))
    return rows.withColumn("last_sequence", sf.pmod("to_place", sf.lit(SEQUENCES)))


def _between(rows: DataFrame) -> DataFrame:
    """Makes each row describe the gap that ends before the row's batch. The gap begins at `from_place`; `before` is the batch
    before the gap."""
    return (
        rows.withColumn("after", place_of_row())
        .withColumn("last_offset", sf.col("base_offset"))
        .withColumn("base_offset", sf.col("before.last_offset"))
        .withColumn("to_place", sf.col("place") - 1)
        .transform(_about_places)
    )


def _sequences() -> tuple[Column, Column]:
    """Returns the first and the last sequence of a row."""
    return ROW.base_sequence, ROW.last_sequence
