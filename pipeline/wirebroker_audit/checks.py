"""The checks of the stored batches: each is a function from DataFrames to findings.

The checks do not look at every batch. `runs` folds each unbroken stretch into one row, `suspects` finds the producers whose
runs do not simply follow each other, and only their batches are put in order. The rules for unwrapped sequences, a producer's
lives and holes with reasons are those of `wirebroker.audit.checks`.

Tables that several checks read are checkpointed, not cached: Spark looks through the whole history of every cached table for
each query, and for small logs that costs more than the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from kafkawire.batches import CONTROL, SEQUENCES, TRANSACTIONAL
from wirebroker.audit.copies import Copied, copied
from wirebroker.audit.findings import DAMAGE, EXPIRATION_MS, INTERNAL_TOPICS, KINDS, severity_of
from wirebroker_audit import schema
from wirebroker_audit.folding import KEYS, fold
from wirebroker_audit.schema import FINDINGS
from wirebroker_audit.wording import ROW, WORDS

PARTITION = ("topic", "partition")
PRODUCER = (*PARTITION, "producer_id")
LIFE = (*PRODUCER, "life")
EPOCH = (*LIFE, "producer_epoch")
LOG_ORDER = ("segment", "position")
BREAKS = (*DAMAGE, "deleted", "unreadable")
"""The problems that leave a hole in the log as it was read."""


def findings_of(batches: DataFrame, folded: DataFrame, bounds: DataFrame, expiration_ms: int = EXPIRATION_MS) -> DataFrame:
    """Every finding in the batches. `folded` are their `runs`; `bounds` has the schema `BOUNDS`."""
    troubled = batches.where("problem IS NOT NULL").localCheckpoint()
    found = [damages(troubled), offset_regressions(troubled, folded), *transactions(troubled, folded, bounds)]
    suspicious = suspects(folded).localCheckpoint()
    if not suspicious.isEmpty():
        lives = with_holes(suspect_batches(batches, suspicious, expiration_ms), batches, troubled, suspicious, bounds)
        lives = lives.localCheckpoint()
        ordered = with_copies(in_sequence(lives).localCheckpoint()).localCheckpoint()
        found += [epoch_regressions(lives), *(check(ordered) for check in (duplicates, gaps, late_starts, disorder))]
    return reduce(DataFrame.unionByName, found)


# Runs


def intact(batches: DataFrame) -> DataFrame:
    """The batches whose headers can be trusted."""
    return batches.where("problem IS NULL OR problem = 'offset_regression'")


def runs(batches: DataFrame) -> DataFrame:
    """One row, as in `folding.RUNS`, for each unbroken stretch of a producer's batches in one split; batches without a
    producer are folded by split."""
    return joined(batches.mapInArrow(lambda chunks: map(fold, chunks), schema.RUNS))


def joined(parts: DataFrame) -> DataFrame:
    """Runs whose parts were folded chunk by chunk."""
    begins = ("base_sequence", "base_offset", "begin_last_sequence", "begin_last_offset", "begin_timestamp")
    return parts.groupBy(*KEYS).agg(
        sf.min("position").alias("position"), sf.max("last_position").alias("last_position"),
        *(sf.min_by(name, "position").alias(name) for name in begins),
        *(sf.max_by(name, "last_position").alias(name) for name in ("last_sequence", "last_offset")),
        *(sf.sum(name).alias(name) for name in ("batches", "records", "bytes")),
        *(sf.max(name).alias(name) for name in ("max_timestamp", "marker", "compacted_to")),
    )  # fmt: skip


def with_compaction(bounds: DataFrame, folded: DataFrame) -> DataFrame:
    """The bounds, raised if the batches themselves show that compaction got farther."""
    shown = folded.groupBy(*PARTITION).agg(sf.max("compacted_to").alias("shown")).where("shown >= 0")
    known = bounds.join(sf.broadcast(shown), [*PARTITION], "left")
    cleaned_until = sf.greatest("cleaned_until", sf.coalesce("shown", sf.lit(-1)))
    return known.withColumn("cleaned_until", cleaned_until).drop("shown")


def suspects(folded: DataFrame) -> DataFrame:
    """The producers, by partition, whose runs do not simply follow each other."""
    before = _before(PRODUCER)
    marker = _is_marker()
    data = sf.struct("producer_epoch", "last_sequence", "last_offset")
    epoch = sf.col("producer_epoch")
    next_sequence = sf.pmod(sf.col("data.last_sequence") + sf.lit(1).cast("bigint"), sf.lit(SEQUENCES))
    goes_on = (sf.col("base_sequence") == next_sequence) & (sf.col("base_offset") > sf.col("data.last_offset"))
    begins = (sf.col("base_sequence") == 0) | sf.col("lowest").isNull() | (sf.col("lowest") >= epoch)
    in_order = sf.when(sf.col("epoch_before") > epoch, False).when(marker | _internal(), True)
    in_order = in_order.when(sf.col("data").isNull() | (sf.col("data.producer_epoch") < epoch), begins)
    in_order = in_order.when(sf.col("data.producer_epoch") == epoch, goes_on).otherwise(False)
    return (
        folded.where("producer_id >= 0")
        .withColumn("epoch_before", sf.lag("producer_epoch").over(_log(PRODUCER)))
        .withColumn("lowest", sf.min("producer_epoch").over(before))
        .withColumn("data", sf.last(sf.when(~marker, data), ignorenulls=True).over(before))
        .where(~in_order)
        .select(*PRODUCER)
        .distinct()
    )


# Damage


def damages(troubled: DataFrame) -> DataFrame:
    """Bytes that hold no batch, and batches that cannot be trusted, as the scan found them."""
    rows = troubled.where(sf.col("problem").isin(*DAMAGE))
    no_batch = sf.col("crc_stored") < 0
    for name in ("producer_id", "producer_epoch"):
        rows = rows.withColumn(name, sf.when(no_batch, -1).otherwise(sf.col(name)))
    words = WORDS.damaged(ROW.segment, ROW.position, ROW.base_offset, ROW.detail)
    evidence = sf.struct("segment", "position", "bytes", "crc_stored", "crc_computed", "detail")
    return finding(rows, ROW.problem, evidence, WORDS.choose(ROW.problem == "crc", WORDS.crc(ROW), words))


def offset_regressions(troubled: DataFrame, folded: DataFrame) -> DataFrame:
    """Batches whose base offset is not above the last offset before them: within a split, and between splits."""
    split = (*PARTITION, "segment", "split")
    ends = (
        folded.withColumn("split", sf.shiftright("run", 32))
        .withColumn("first", sf.row_number().over(_log(split)) == 1)
        .withColumn("split_end", sf.max(sf.struct("last_position", "last_offset")).over(Window.partitionBy(*split)))
        .where("first")
        .withColumn("detail", sf.lag("split_end.last_offset").over(_log(PARTITION)))
        .where("base_offset <= detail")
    )
    within = troubled.where("problem = 'offset_regression'").select(*_ABOUT, "detail")
    fallen = within.unionByName(_first_batches(ends.withColumn("detail", ROW.detail.cast("string")), "detail"))
    return finding(fallen, sf.lit("offset_regression"), _place(), WORDS.offset_regression(ROW, ROW.detail))


# Transactions


def transactions(troubled: DataFrame, folded: DataFrame, bounds: DataFrame) -> list[DataFrame]:
    """Transactions without an end, and ends without a beginning.

    A batch with a damaged header may end a transaction, or explain an end without a beginning. It does not begin one.
    """
    damaged = troubled.where(sf.col("problem").isin(*DAMAGE) & (sf.col("producer_id") >= 0)).withColumn("kind", _kind())
    events = (
        _first_batches(folded.where("producer_id >= 0"), "kind").withColumn("sound", sf.lit(True))
        .unionByName(damaged.select(*_ABOUT, "kind").withColumn("sound", sf.lit(False)))
        .withColumn("known", sf.row_number().over(_log(PRODUCER)) > 1)
        .withColumn("ended", sf.coalesce(sf.sum(_is_marker().cast("int")).over(_before(PRODUCER)), sf.lit(0)))
    )  # fmt: skip
    span = (*PRODUCER, "ended")
    spans = (
        events.where(_is_marker() | _is_transactional())
        .withColumn("data", sf.max(_is_transactional()).over(Window.partitionBy(*span)))
        .withColumn("marked", sf.max(_is_marker()).over(Window.partitionBy(*span)))
        .where("sound AND NOT (data AND marked)")
        .withColumn("number", sf.row_number().over(_log(span)))
        .where("number = 1")
    )
    torn = troubled.where(sf.col("problem").isin(*BREAKS)).groupBy(*PARTITION).agg(sf.min(sf.struct(*LOG_ORDER)).alias("torn"))
    return [_open(spans.where("data"), folded), _without_data(spans.where("marked"), bounds, torn)]


def _open(spans: DataFrame, folded: DataFrame) -> DataFrame:
    latest = folded.groupBy(*PARTITION).agg(sf.max("max_timestamp").alias("latest"))
    rows = spans.join(sf.broadcast(latest), [*PARTITION])
    rows = rows.withColumn("open_ms", sf.greatest(sf.col("latest") - sf.col("max_timestamp"), sf.lit(0)))
    words = WORDS.open_transaction(ROW, ROW.open_ms)
    return finding(rows, sf.lit("open_transaction"), sf.struct("open_ms", *_PLACE), words)


def _without_data(spans: DataFrame, bounds: DataFrame, torn: DataFrame) -> DataFrame:
    """The exceptions: the data may have been deleted, compacted away, or damaged; `torn` is the first damaged place."""
    rows = spans.join(sf.broadcast(bounds), [*PARTITION]).join(sf.broadcast(torn), [*PARTITION], "left")
    lost = (sf.col("base_offset") < sf.col("cleaned_until")) | ((sf.col("log_start") > 0) & ~sf.col("known"))
    lost |= sf.coalesce(sf.col("torn") < sf.struct(*LOG_ORDER), sf.lit(False))
    return finding(rows.where(~lost), sf.lit("marker_without_data"), _place(), WORDS.marker_without_data(ROW))


# Epochs and sequences


def suspect_batches(batches: DataFrame, suspicious: DataFrame, expiration_ms: int) -> DataFrame:
    """The suspects' batches, markers included, each with the life of its producer in which it was stored."""
    log = _log(PRODUCER)
    within = sf.lag(_kind()).over(log) == TRANSACTIONAL
    pause = sf.col("max_timestamp") - sf.lag("max_timestamp").over(log)
    return (
        intact(batches).join(sf.broadcast(suspicious), [*PRODUCER], "left_semi")
        .select(*_ABOUT, "attributes")
        .withColumn("reborn", sf.coalesce((pause >= expiration_ms) & ~within, sf.lit(False)))
        .withColumn("life", sf.sum(sf.col("reborn").cast("int")).over(log))
    )  # fmt: skip


def with_holes(
    lives: DataFrame, batches: DataFrame, troubled: DataFrame, suspicious: DataFrame, bounds: DataFrame
) -> DataFrame:
    """`holes`: the number of offsets before each batch that are missing for a reason. Only its differences mean anything."""
    damaged = troubled.where(sf.col("problem").isin(*BREAKS)).select(*PARTITION)
    cleaned = bounds.where("cleaned_until > 0").select(*PARTITION)
    partitions = suspicious.select(*PARTITION).distinct()
    concerned = (
        damaged.unionByName(cleaned).distinct().join(sf.broadcast(partitions), [*PARTITION], "left_semi").localCheckpoint()
    )
    if concerned.isEmpty():
        return lives.withColumn("holes", sf.lit(0).cast("bigint"))
    log = _log(PARTITION)
    broken = sf.col("problem").isin(*BREAKS) & sf.col("problem").isNotNull()
    end = sf.when(sf.col("damaged") > sf.col("damaged_before"), sf.col("base_offset")).otherwise(
        sf.least("base_offset", "cleaned_until")
    )
    prefix = (
        batches.join(sf.broadcast(concerned), [*PARTITION], "left_semi").join(sf.broadcast(bounds), [*PARTITION])
        .withColumn("damaged", sf.sum(broken.cast("int")).over(log))
        .where(~broken)
        .withColumn("damaged_before", sf.coalesce(sf.lag("damaged").over(log), sf.lit(0)))
        .withColumn("reach", sf.coalesce(sf.max(sf.col("last_offset") + 1).over(_before(PARTITION)), sf.col("log_start")))
        .withColumn("holes", sf.sum(sf.greatest(end - sf.col("reach"), sf.lit(0))).over(log))
        .select(*PARTITION, *LOG_ORDER, "holes")
    )  # fmt: skip
    return lives.join(prefix, [*PARTITION, *LOG_ORDER], "left").fillna(0, ["holes"])


def in_sequence(lives: DataFrame) -> DataFrame:
    """The suspects' batches that have sequences, with the columns that the checks need; `with_copies` adds the others.

    `place`, `end`: the unwrapped first and last sequence · `order` in the log, within the epoch · `reach`: the batch with the
    highest end among those of lower place · `number`: the rank by place · `lower`: the batch before the one that begins the
    epoch · `island`: the group of batches that overlap, directly or through others · `alone`: whether the island has one batch.
    """
    log, by_place = _log(EPOCH), Window.partitionBy(*EPOCH).orderBy("place", "order")
    distance = sf.pmod(sf.col("base_sequence").cast("bigint") - sf.lag("base_sequence").over(log), sf.lit(SEQUENCES))
    signed = sf.when(distance >= SEQUENCES // 2, distance - SEQUENCES).otherwise(distance)
    farthest = sf.struct("end", (-sf.col("order")).alias("order"), "holes", *_PLACE)
    apart = sf.col("reach").isNull() | (sf.col("place") > sf.col("reach.end"))
    return (
        lives.withColumn("before", sf.lag(sf.struct("producer_epoch", "holes", *_PLACE)).over(_log(LIFE)))
        .where(~_internal() & (sf.col("base_sequence") >= 0) & (sf.col("producer_epoch") >= 0))
        .withColumn("place", sf.sum(sf.coalesce(signed, sf.col("base_sequence").cast("bigint"))).over(log))
        .withColumn("order", sf.row_number().over(log))
        .withColumn("lower", sf.first("before").over(log))
        .withColumn("end", sf.col("place") + sf.col("last_offset") - sf.col("base_offset"))
        .withColumn("number", sf.row_number().over(by_place))
        .withColumn("reach", sf.max(farthest).over(by_place.rowsBetween(Window.unboundedPreceding, -1)))
        .withColumn("apart", apart)
        .withColumn("island", sf.sum(sf.col("apart").cast("int")).over(by_place))
        .withColumn("alone", sf.col("apart") & sf.coalesce(sf.lead("apart").over(by_place), sf.lit(True)))
        .select(*_ABOUT, "life", "holes", "place", "end", "order", "number", "reach", "lower", "island", "alone")
    )


def with_copies(ordered: DataFrame) -> DataFrame:
    """The batches of `in_sequence`, each with its part that was stored before; the columns are null if none was.

    `from_place`, `to_place`: the first and last repeated place · `doubled`: the number of repeated places between them ·
    `first`, `last`: the first batch in the log that has the one place, and the other.
    """
    rows = ordered.withColumn("side", sf.struct("place", *_PLACE))
    side = rows.schema["side"].dataType
    told = [
        *(StructField(name, LongType()) for name in ("from_place", "to_place", "doubled")),
        *(StructField(name, side) for name in ("first", "last")),
    ]
    nothing = {field.name: sf.lit(None).cast(field.dataType) for field in told}
    schema = StructType([*rows.schema.fields, *told])
    overlapping = rows.where("NOT alone").groupBy(*EPOCH, "island").applyInArrow(_copied, schema)
    return rows.where("alone").withColumns(nothing).unionByName(overlapping).drop("side", "island", "alone")


def _copied(island: pa.Table) -> pa.Table:
    """The batches of one island with the results of `wirebroker.audit.copies`."""
    rows = island.sort_by("order")
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


def epoch_regressions(lives: DataFrame) -> DataFrame:
    """Batches of an older epoch than the one before them."""
    before = sf.lag(sf.struct("producer_epoch", "base_offset", "last_offset")).over(_log(LIFE))
    fallen = lives.withColumn("before", before).where("producer_epoch < before.producer_epoch")
    is_marker = sf.col("attributes").bitwiseAND(sf.lit(CONTROL)) != 0
    words = WORDS.epoch_regression(ROW, is_marker, ROW.before)
    return finding(fallen, sf.lit("epoch_regression"), sf.struct("before", *_PLACE), words)


def duplicates(ordered: DataFrame) -> DataFrame:
    """Sequences that one producer has stored twice within an epoch."""
    rows = (
        ordered.where("first IS NOT NULL")
        .withColumn("once", sf.col("first.base_offset") + sf.col("from_place") - sf.col("first.place"))
        .withColumn("once_last", sf.col("last.base_offset") + sf.col("to_place") - sf.col("last.place"))
        .withColumn("last_offset", sf.col("base_offset") + sf.col("to_place") - sf.col("place"))
        .withColumn("base_offset", sf.col("base_offset") + sf.col("from_place") - sf.col("place"))
        .transform(_about_places("from_place", "to_place"))
    )
    once, again = (ROW.once, ROW.once_last), (ROW.base_offset, ROW.last_offset)
    words = WORDS.duplicate(ROW, _sequences(), ROW.doubled, once, again)
    return finding(rows, sf.lit("duplicate"), sf.struct("first", "last", *_PLACE), words)


def gaps(ordered: DataFrame) -> DataFrame:
    """Sequences that are missing between two stored batches for no known reason."""
    missing = sf.col("place") - sf.col("reach.end") - 1
    rows = (
        ordered.where((missing > 0) & (sf.abs(sf.col("holes") - sf.col("reach.holes")) < missing))
        .withColumn("before", sf.col("reach"))
        .transform(_between(sf.col("reach.end") + 1))
    )
    return finding(rows, sf.lit("gap"), sf.struct("before", "after"), WORDS.gap(ROW, _sequences(), ROW.before, ROW.after))


def late_starts(ordered: DataFrame) -> DataFrame:
    """New epochs of a known producer that do not begin at sequence 0: the first sequences are missing."""
    rows = (
        ordered.where("number = 1 AND place > 0")
        .where("lower.producer_epoch >= 0 AND lower.producer_epoch < producer_epoch")
        .where(sf.abs(sf.col("holes") - sf.col("lower.holes")) < sf.col("place"))
        .withColumn("before", sf.col("lower"))
        .transform(_between(sf.lit(0)))
    )
    words = WORDS.late_start(ROW, _sequences(), ROW.before, ROW.after)
    return finding(rows, sf.lit("gap"), sf.struct("before", "after"), words)


def disorder(ordered: DataFrame) -> DataFrame:
    """Batches that are stored after a later one of their epoch, unless they are copies."""
    rows = (
        ordered.where("first IS NULL")
        .withColumn("before", sf.lag(sf.struct("place", *_PLACE)).over(_log(EPOCH)))
        .where("place < before.place")
    )
    return finding(rows, sf.lit("disorder"), sf.struct("before", *_PLACE), WORDS.disorder(ROW, ROW.before))


# Findings

_PLACE = ("base_offset", "last_offset", "base_sequence", "last_sequence", "max_timestamp", *LOG_ORDER)
_ABOUT = (*PRODUCER, "producer_epoch", *_PLACE)


def _log(keys: tuple[str, ...]) -> WindowSpec:
    return Window.partitionBy(*keys).orderBy(*LOG_ORDER)


def _before(keys: tuple[str, ...]) -> WindowSpec:
    return _log(keys).rowsBetween(Window.unboundedPreceding, -1)


def _first_batches(folded: DataFrame, *more: str) -> DataFrame:
    """The first batch of each run."""
    first = {
        "last_offset": "begin_last_offset",
        "last_sequence": "begin_last_sequence",
        "max_timestamp": "begin_timestamp",
    }
    return folded.select(*(sf.col(first.get(name, name)).alias(name) for name in (*_ABOUT, *more)))


def _about_places(first: str, last: str) -> Callable[[DataFrame], DataFrame]:
    """Let the sequences of a row be those at these places."""

    def named(rows: DataFrame) -> DataFrame:
        rows = rows.withColumn("base_sequence", sf.pmod(first, sf.lit(SEQUENCES)))
        return rows.withColumn("last_sequence", sf.pmod(last, sf.lit(SEQUENCES)))

    return named


def _between(first: Column) -> Callable[[DataFrame], DataFrame]:
    """Let a row describe the gap from the place `first` to its batch; `before` is the batch before the gap."""

    def moved(rows: DataFrame) -> DataFrame:
        return (
            rows.withColumn("after", _place())
            .withColumn("last_offset", sf.col("base_offset"))
            .withColumn("base_offset", sf.col("before.last_offset"))
            .withColumn("from_place", first)
            .withColumn("to_place", sf.col("place") - 1)
            .transform(_about_places("from_place", "to_place"))
        )

    return moved


def _sequences() -> tuple[Column, Column]:
    """The first and the last sequence of a row."""
    return ROW.base_sequence, ROW.last_sequence


def _kind() -> Column:
    """Transactional and control: as in the attributes."""
    return sf.col("attributes").bitwiseAND(sf.lit(TRANSACTIONAL | CONTROL))


def _is_marker() -> Column:
    return sf.col("kind").bitwiseAND(sf.lit(CONTROL)) != 0


def _is_transactional() -> Column:
    return sf.col("kind") == TRANSACTIONAL


def _internal() -> Column:
    return sf.col("topic").isin(*INTERNAL_TOPICS)


def _place() -> Column:
    return sf.struct(*_PLACE)


def finding(rows: DataFrame, kind: Column, evidence: Column, words: Column, severity: Column | None = None) -> DataFrame:
    """Findings about the batches or records in the rows. The severity is that of the kind unless it is given."""
    if severity is None:
        severity = sf.create_map(*(sf.lit(text) for name in KINDS for text in (name, severity_of(name))))[kind]
    sentence = WORDS.text("{place}: {words}", place=WORDS.partition(ROW.topic, ROW.partition), words=words)
    values = {
        "kind": kind, "severity": severity, "first_sequence": sf.col("base_sequence"), "first_offset": sf.col("base_offset"),
        "evidence": sf.to_json(evidence), "explanation": sentence,
    }  # fmt: skip
    columns = [values.get(field.name, sf.col(field.name)).cast(field.dataType).alias(field.name) for field in FINDINGS.fields]
    return rows.select(*columns)
