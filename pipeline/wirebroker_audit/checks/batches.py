"""The checks of the stored batches: each is a function from DataFrames to findings.

The checks do not look at every batch. `runs` folds each unbroken stretch into one row, `suspects` finds the producers whose
runs do not simply follow each other, and `examined` has only their troubled epochs: as whole runs, and where these overlap as
pieces of runs, and where the pieces overlap as batches. The rules for unwrapped sequences, a producer's lives and holes with
reasons are those of `wirebroker.audit.checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from kafkawire.batches import CONTROL, SEQUENCES, TRANSACTIONAL
from wirebroker.audit.copies import Copied, copied
from wirebroker.audit.findings import DAMAGE, EXPIRATION_MS, INTERNAL_TOPICS, severity_of
from wirebroker_audit.folding.runs import HEADER, KEYS, fold
from wirebroker_audit.spark import schema
from wirebroker_audit.spark.schema import FINDINGS
from wirebroker_audit.spark.tables import collected, in_groups, local_rows, mapped, settled, united
from wirebroker_audit.spark.wording import ROW, WORDS, column_of

PARTITION = ("topic", "partition")
PRODUCER = (*PARTITION, "producer_id")
LIFE = (*PRODUCER, "life")
EPOCH = (*LIFE, "producer_epoch")
LOG_ORDER = ("segment", "position")
BREAKS = (*DAMAGE, "deleted", "unreadable", "old_format")
"""The problems that leave a hole in the log as it was read."""


PIECE = 64 * 1024
"""Bytes of the log in which a producer's batches are one piece. If pieces overlap, their batches are looked at."""
ISLANDS = 500
"""Islands that are looked at together."""
FEW = 200_000
"""So many rows fit into every executor."""


def findings_of(batches: DataFrame, folded: DataFrame, bounds: DataFrame, expiration_ms: int = EXPIRATION_MS) -> DataFrame:
    """Every finding in the batches. `folded` are their `runs`; `bounds` has the schema `BOUNDS`."""
    troubled = settled(batches.where("problem IS NOT NULL"))
    between = settled(seams(settled(splits(folded)), troubled, bounds))
    missing = settled(holes(batches, between, bounds))
    found, told = [local_rows(batches.sparkSession, [], FINDINGS)], None
    if not troubled.isEmpty():
        found.append(damages(troubled))
    if not (troubled.isEmpty() and between.isEmpty()):
        found.append(offset_regressions(troubled, between))
    if not folded.where("kind <> 0").isEmpty():
        found += transactions(troubled, folded, bounds)
    suspicious = settled(suspects(folded))
    if not suspicious.isEmpty():
        heads = settled(in_life(folded, troubled, suspicious, expiration_ms))
        ordered = settled(with_copies(examined(heads, suspicious, batches)))
        told = settled(unexplained(with_reasons(united([gaps(ordered), late_starts(ordered)]), missing)))
        found += [epoch_regressions(heads), duplicates(ordered), disorder(ordered), told]
    if not missing.isEmpty():
        found.append(offset_gaps(missing, told))
    return united(found)


# Runs


def intact(batches: DataFrame) -> DataFrame:
    """The batches whose headers can be trusted."""
    return batches.where("problem IS NULL OR problem = 'offset_regression'")


def runs(batches: DataFrame) -> DataFrame:
    """One row, as in `folding.RUNS`, for each unbroken stretch of a producer's batches in one split; batches without a
    producer are folded by split."""
    return joined(mapped(batches, lambda chunks: map(fold, chunks), schema.RUNS))


def joined(parts: DataFrame) -> DataFrame:
    """Runs whose parts were folded chunk by chunk."""
    whole = parts.groupBy(*KEYS).agg(
        *(sf.min_by(name, "first.position").alias(name) for name in ("kind", "first")),
        sf.max_by("data", "data.position").alias("data"), sf.max_by("last", "last.position").alias("last"),
        sf.collect_list("open").alias("open"),
        *(sf.sum(name).alias(name) for name in ("batches", "records", "bytes", "committed", "aborted")),
        *(sf.max(name).alias(name) for name in ("marked", "max_timestamp", "compacted_to")),
    )  # fmt: skip
    begun = sf.filter("open", lambda each: each["position"] > sf.col("marked"))
    return whole.withColumn("open", sf.array_min(begun)).select(schema.RUNS.names)


def summed(folded: DataFrame) -> dict[tuple[str, int], Row]:
    """By topic and partition: batches, records, bytes, committed, aborted, and the `last` offset."""
    sums = (sf.sum(name).cast("bigint").alias(name) for name in ("batches", "records", "bytes", "committed", "aborted"))
    rows = collected(folded.groupBy(*PARTITION).agg(*sums, sf.max("last.last_offset").alias("last")))
    return {(row["topic"], row["partition"]): row for row in rows}


def with_compaction(bounds: DataFrame, folded: DataFrame) -> DataFrame:
    """The bounds, raised if the batches themselves show that compaction got farther."""
    shown = folded.groupBy(*PARTITION).agg(sf.max("compacted_to").alias("shown")).where("shown >= 0")
    known = bounds.join(sf.broadcast(shown), [*PARTITION], "left")
    cleaned_until = sf.greatest("cleaned_until", sf.coalesce("shown", sf.lit(-1)))
    return known.withColumn("cleaned_until", cleaned_until).drop("shown")


def suspects(folded: DataFrame) -> DataFrame:
    """The epochs of producers, by partition, that do not simply go on from run to run: `producer_epoch` to `up_to`."""
    log = (*PRODUCER, "segment", "position")
    narrow = folded.where("producer_id >= 0").select(
        *log[:-1], "kind", *(sf.col(f"first.{name}").alias(name) for name in ("position", "base_sequence", "base_offset")),
        sf.col("first.producer_epoch").alias("epoch"), sf.col("last.producer_epoch").alias("last_epoch"),
        sf.struct("data.producer_epoch", "data.last_sequence", "data.last_offset").alias("end"),
    )  # fmt: skip
    before = _before(PRODUCER)
    end, epoch = sf.when(~_is_marker(), sf.col("end")), sf.col("epoch")
    next_sequence = sf.pmod(sf.col("data.last_sequence") + sf.lit(1).cast("bigint"), sf.lit(SEQUENCES))
    goes_on = (sf.col("base_sequence") == next_sequence) & (sf.col("base_offset") > sf.col("data.last_offset"))
    begins = (sf.col("base_sequence") == 0) | sf.col("lowest").isNull() | (sf.col("lowest") >= epoch)
    in_order = sf.when(sf.col("epoch_before") > epoch, False).when(_is_marker() | _internal(), True)
    in_order = in_order.when(sf.col("data").isNull() | (sf.col("data.producer_epoch") < epoch), begins)
    in_order = in_order.when(sf.col("data.producer_epoch") == epoch, goes_on).otherwise(False)
    went_back = sf.coalesce(sf.col("data.producer_epoch") < sf.col("highest"), sf.lit(False))
    return (
        narrow.withColumn("epoch_before", sf.lag("last_epoch").over(_log(PRODUCER)))
        .withColumn("lowest", sf.min("epoch").over(before))
        .withColumn("highest", sf.max("end.producer_epoch").over(before))
        .withColumn("data", sf.last(end, ignorenulls=True).over(before))
        .where(~in_order | (went_back & ~_is_marker()))
        .withColumn("up_to", sf.greatest("epoch", sf.least("end.producer_epoch", "highest")))
        .select(*PRODUCER, sf.col("epoch").alias("producer_epoch"), "up_to")
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
    return finding(rows, ROW.problem, evidence, WORDS.choose(ROW.problem == "crc", WORDS.crc(ROW), words), "certain")


def offset_regressions(troubled: DataFrame, between: DataFrame) -> DataFrame:
    """Batches whose base offset is not above the last offset before them: within a split, and `between` splits."""
    ends = between.where("base_offset <= last_before").withColumn("detail", sf.col("last_before").cast("string"))
    within = troubled.where("problem = 'offset_regression'")
    fallen = united(rows.select(*_ABOUT, "detail") for rows in (within, ends))
    return finding(fallen, "offset_regression", _place(), WORDS.offset_regression(ROW, ROW.detail))


def splits(folded: DataFrame) -> DataFrame:
    """The first sound batch of each split, and its `end`: the place of the last one, and the highest offset."""
    first = sf.min_by(sf.struct("producer_id", "first"), "first.position").alias("head")
    end = (sf.max_by("last.last_offset", "last.position").alias("last_offset"), sf.max("last.last_offset").alias("reach"))
    return (
        folded.groupBy(*PARTITION, "segment", sf.shiftright("run", 32).alias("split"))
        .agg(first, sf.max("last.position").alias("last_position"), *end)
        .withColumn("end", sf.struct("segment", sf.col("last_position").alias("position"), "last_offset", "reach"))
        .select(*PARTITION, "segment", "split", "head.producer_id", "head.first.*", "end")
    )


def seams(divided: DataFrame, troubled: DataFrame, bounds: DataFrame) -> DataFrame:
    """The first batches of splits that do not simply go on where the one before them ended.

    `missing`: the number of offsets before it that are missing · `after_damage`: whether damage lies before it · `last_before`:
    the last offset of the batch before it.
    """
    damage = troubled.where(sf.col("problem").isin(*BREAKS)).select(
        *PARTITION, *LOG_ORDER, sf.struct(*LOG_ORDER).alias("damaged")
    )
    before = _before(PARTITION)
    reach = sf.coalesce(sf.max("end.reach").over(before) + 1, sf.col("log_start"))
    sound = sf.max(sf.when(sf.col("end").isNotNull(), sf.struct("end.segment", "end.position"))).over(before)
    after_damage = "torn IS NOT NULL AND (sound IS NULL OR torn > sound)"
    return (
        united([divided, damage])
        .join(sf.broadcast(bounds), [*PARTITION])
        .select("*", reach.alias("reach"), sound.alias("sound"), sf.max("damaged").over(before).alias("torn"),
                sf.last("end.last_offset", ignorenulls=True).over(before).alias("last_before"))
        .where("end IS NOT NULL AND (base_offset > reach OR base_offset <= last_before)")
        .withColumn("missing", sf.greatest(sf.col("base_offset") - sf.col("reach"), sf.lit(0)))
        .withColumn("after_damage", sf.expr(after_damage))
        .select(*_ABOUT, "missing", "after_damage", "last_before")
    )  # fmt: skip


def holes(batches: DataFrame, between: DataFrame, bounds: DataFrame) -> DataFrame:
    """The batches before which offsets are missing: how many are `missing`, and for how many of these there is a `reason`."""
    rows = united(each.where("missing > 0").select(*_ABOUT, "missing", "after_damage") for each in (batches, between))
    cleaned = sf.least("base_offset", "cleaned_until") - sf.col("base_offset") + sf.col("missing")
    reason = sf.when(ROW.after_damage, ROW.missing).otherwise(sf.greatest(cleaned, sf.lit(0)))
    return rows.join(sf.broadcast(bounds), [*PARTITION]).withColumn("reason", reason)


def offset_gaps(missing: DataFrame, told: DataFrame | None) -> DataFrame:
    """Offsets that are missing for no reason, unless the gaps over them, in `told`, have as many missing sequences.

    They are only likely a finding if compaction may be the reason and nothing tells.
    """
    found = (
        missing.where(~_internal())
        .withColumn("after", _place())
        .withColumn("last_offset", sf.col("base_offset") - 1)
        .withColumn("base_offset", sf.greatest(sf.col("base_offset") - ROW.missing + ROW.reason, "log_start"))
        .withColumn("unexplained", sf.col("last_offset") - sf.col("base_offset") + 1)
        .where("unexplained > 0")
        .withColumns({name: sf.lit(-1) for name in ("producer_id", "producer_epoch", "base_sequence", "last_sequence")})
    )  # fmt: skip
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


# Transactions


def transactions(troubled: DataFrame, folded: DataFrame, bounds: DataFrame) -> list[DataFrame]:
    """Transactions without an end, and ends without a beginning.

    A batch with a damaged header may end a transaction, or explain an end without a beginning. It does not begin one.
    """
    damaged = troubled.where(sf.col("problem").isin(*DAMAGE) & (sf.col("producer_id") >= 0)).withColumn("kind", _kind())
    events = (
        united([_events(folded), damaged.select(*_ABOUT, "kind").withColumn("sound", sf.lit(False))])
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


def _events(folded: DataFrame) -> DataFrame:
    """Of each producer's run the first batch, the last marker if it ended a transaction, and the first batch after that."""
    goes_on = ~_is_marker() & (sf.col("marked") >= 0)
    ended = sf.col("first").withField("position", sf.col("marked"))
    events = sf.array(
        _event(sf.col("first"), sf.col("kind"), sound=True),
        sf.when(goes_on, _event(ended, sf.lit(CONTROL).cast("smallint"), sound=False)),
        sf.when(goes_on & sf.col("open").isNotNull(), _event(sf.col("open"), sf.col("kind"), sound=True)),
    )
    rows = folded.where("producer_id >= 0").withColumn("event", sf.explode(sf.array_compact(events)))
    return rows.select(*PRODUCER, "segment", "event.batch.*", "event.kind", "event.sound")


def _event(batch: Column, kind: Column, *, sound: bool) -> Column:
    return sf.struct(batch.alias("batch"), kind.alias("kind"), sf.lit(sound).alias("sound"))


def _open(spans: DataFrame, folded: DataFrame) -> DataFrame:
    latest = folded.groupBy(*PARTITION).agg(sf.max("max_timestamp").alias("latest"))
    rows = spans.join(sf.broadcast(latest), [*PARTITION])
    rows = rows.withColumn("open_ms", sf.greatest(sf.col("latest") - sf.col("max_timestamp"), sf.lit(0)))
    words = WORDS.open_transaction(ROW, ROW.open_ms)
    return finding(rows, "open_transaction", sf.struct("open_ms", *_PLACE), words)


def _without_data(spans: DataFrame, bounds: DataFrame, torn: DataFrame) -> DataFrame:
    """The exceptions: the data may have been deleted, compacted away, or damaged; `torn` is the first damaged place."""
    rows = spans.join(sf.broadcast(bounds), [*PARTITION]).join(sf.broadcast(torn), [*PARTITION], "left")
    lost = (sf.col("base_offset") < sf.col("cleaned_until")) | ((sf.col("log_start") > 0) & ~sf.col("known"))
    lost |= sf.coalesce(sf.col("torn") < sf.struct(*LOG_ORDER), sf.lit(False))
    return finding(rows.where(~lost), "marker_without_data", _place(), WORDS.marker_without_data(ROW))


# Epochs and sequences


def in_life(folded: DataFrame, troubled: DataFrame, suspicious: DataFrame, expiration_ms: int) -> DataFrame:
    """The suspects' runs, each with the life of its producer in which it was stored, and the batch `before` it in that life.

    The columns of a batch are those of the first one; `tail` is the last one that is not a marker. A damaged header counts for
    the lives of its producer.
    """
    log, ends = _log(PRODUCER), sf.struct("producer_epoch", *_PLACE)
    columns = ("run", "kind", "data", "last", "marked")
    sound = folded.where("producer_id >= 0").select(*PRODUCER, "segment", "first.*", *columns)
    damaged = troubled.where("producer_id >= 0 AND crc_stored >= 0").where(sf.col("problem").isin(*DAMAGE))
    damaged = damaged.withColumn("last", ends).select(*_ABOUT, "last", _kind().alias("kind"), sf.lit(-1).alias("marked"))
    within = (sf.lag("kind").over(log) == TRANSACTIONAL) & (sf.lag("marked").over(log) < sf.lag("last.position").over(log))
    pause = sf.col("max_timestamp") - sf.lag("last.max_timestamp").over(log)
    damaged = damaged.withColumn("last", sf.struct(*(f"last.{field.name}" for field in HEADER)))
    last = sf.struct("last.producer_epoch", *(f"last.{name}" if name != "segment" else name for name in _PLACE))
    return (
        united([sound, damaged])
        .join(suspicious.select(*PRODUCER).distinct(), [*PRODUCER], "left_semi")
        .withColumn("reborn", sf.coalesce((pause >= expiration_ms) & ~within, sf.lit(False)))
        .withColumn("life", sf.sum(sf.col("reborn").cast("int")).over(log))
        .where("run IS NOT NULL")
        .withColumn("before", sf.lag(last).over(_log(LIFE)))
        .withColumn("last_epoch", sf.col("data.producer_epoch"))
        .withColumn("tail", sf.struct(*(f"data.{name}" if name != "segment" else name for name in _PLACE)))
        .select(*_ABOUT, "life", "run", "kind", "last_epoch", "tail", "before")
    )


def examined(heads: DataFrame, suspicious: DataFrame, batches: DataFrame) -> DataFrame:
    """The stretches of the suspicious epochs, as `in_sequence` gives them; those that overlap are single batches."""
    epochs = (
        suspicious.withColumn("producer_epoch", sf.explode(sf.sequence("producer_epoch", "up_to")))
        .select(*PRODUCER, "producer_epoch").distinct()
    )  # fmt: skip
    data = heads.where(~_internal() & ~_is_marker() & (sf.col("producer_epoch") >= 0) & (sf.col("base_sequence") >= 0))
    whole = data.where("producer_epoch = last_epoch").join(epochs, [*PRODUCER, "producer_epoch"], "left_semi")
    several = data.where("producer_epoch < last_epoch")
    within = several.join(epochs.withColumnRenamed("producer_epoch", "epoch"), [*PRODUCER])
    within = settled(within.where("epoch BETWEEN producer_epoch AND last_epoch"))
    stretches = whole.select(*_STRETCH)
    if not within.isEmpty():
        stretches = united([stretches, closer(within.drop("producer_epoch"), batches, sf.lit(0))])
    ordered = settled(in_sequence(stretches))
    for grain in (PIECE, 1):
        overlapping = ordered.where("NOT alone")
        if overlapping.isEmpty():
            break
        single = closer(overlapping.withColumn("epoch", ROW.producer_epoch), batches, sf.floor(ROW.position / grain))
        ordered = settled(in_sequence(united([ordered.where("alone").select(*_STRETCH), single])))
    return ordered


def closer(stretches: DataFrame, batches: DataFrame, part: Column) -> DataFrame:
    """The batches of these stretches under their `epoch`, folded by `part`."""
    chosen = stretches.select(
        *PRODUCER, "life", "segment", "run", sf.col("epoch").alias("producer_epoch"), ROW.position.alias("start"),
        ROW.tail.position.alias("stop"), "before",
    )  # fmt: skip
    chosen = settled(chosen)
    keys = (*PRODUCER, "producer_epoch", "segment", "run")
    data = intact(batches).where(sf.col("attributes").bitwiseAND(sf.lit(CONTROL)) == 0).select(*_ABOUT, "run")
    rows = data.join(sf.broadcast(chosen) if chosen.count() <= FEW else chosen, [*keys])
    joined_later = chosen.where("run < 0")  # see `chaining`: the batches have the numbers of before
    if not joined_later.isEmpty():
        rows = united([rows, data.drop("run").join(joined_later, [*keys[:-1]])])
    rows = rows.where("position BETWEEN start AND stop").withColumn("batch", _place())
    folded = rows.groupBy(*keys, "life", "start", part.alias("part")).agg(
        sf.min_by("batch", "position").alias("head"), sf.max_by("batch", "position").alias("tail"),
        sf.max(sf.when(ROW.position == ROW.start, ROW.before)).alias("before"),
    )  # fmt: skip
    return folded.select("*", *(f"head.{name}" for name in _PLACE if name != "segment")).select(*_STRETCH)


def in_sequence(stretches: DataFrame) -> DataFrame:
    """Stretches of consecutive sequences with the columns that the checks need; `with_copies` adds the others.

    `place`, `tail_place`: the unwrapped first sequence of the first and the last batch · `end`: the last sequence · `order` in
    the log, within the epoch · `reach`: the `tail` of the stretch with the highest end among those of lower place · `number`:
    the rank by place · `lower`: the batch before the one that begins the epoch · `island`: the group of stretches that overlap,
    directly or through others · `alone`: whether the island has one stretch.
    """
    log, by_place = _log(EPOCH), Window.partitionBy(*EPOCH).orderBy("place", "order")
    first, end = sf.col("base_sequence").cast("bigint"), sf.col("tail.base_sequence").cast("bigint")
    length = sf.pmod(end - first, sf.lit(SEQUENCES))
    distance = sf.pmod(first - sf.lag(end).over(log), sf.lit(SEQUENCES))
    signed = sf.when(distance >= SEQUENCES // 2, distance - SEQUENCES).otherwise(distance)
    farthest = sf.struct("end", (-sf.col("order")).alias("order"), "tail")
    apart = sf.col("reach").isNull() | (sf.col("place") > sf.col("reach.end"))
    return (
        stretches.withColumn("place", sf.sum(sf.coalesce(signed + sf.lag(length).over(log), first)).over(log))
        .withColumn("tail_place", sf.col("place") + length)
        .withColumn("order", sf.row_number().over(log))
        .withColumn("lower", sf.first("before").over(log))
        .withColumn("end", sf.col("tail_place") + sf.col("tail.last_offset") - sf.col("tail.base_offset"))
        .withColumn("number", sf.row_number().over(by_place))
        .withColumn("reach", sf.max(farthest).over(by_place.rowsBetween(Window.unboundedPreceding, -1)))
        .withColumn("apart", apart)
        .withColumn("island", sf.sum(sf.col("apart").cast("int")).over(by_place))
        .withColumn("alone", sf.col("apart") & sf.coalesce(sf.lead("apart").over(by_place), sf.lit(True)))
        .select(*_STRETCH, "place", "tail_place", "end", "order", "number", "reach", "lower", "island", "alone")
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
    lots = rows.where("NOT alone").withColumn("lot", sf.floor(sf.col("island") / ISLANDS))
    overlapping = in_groups(lots, (*EPOCH, "lot"), _copied, schema)
    return united([rows.where("alone").withColumns(nothing), overlapping]).drop("side", "island", "alone")


def _copied(islands: pa.Table) -> pa.Table:
    """The batches of whole islands of an epoch with the results of `wirebroker.audit.copies`."""
    rows = islands.drop_columns(["lot"]).sort_by("order")
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
    """Batches of an older epoch than the one before them."""
    fallen = heads.where("producer_epoch < before.producer_epoch")
    before = sf.struct("before.producer_epoch", "before.base_offset", "before.last_offset")
    words = WORDS.epoch_regression(ROW, _is_marker(), ROW.before)
    return finding(fallen, "epoch_regression", sf.struct(before.alias("before"), *_PLACE), words)


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
    return finding(rows, "duplicate", sf.struct("first", "last", *_PLACE), words)


def gaps(ordered: DataFrame) -> DataFrame:
    """Sequences that are missing between two stored batches: batches with the one `before` the gap, and its first place."""
    return ordered.where("place > reach.end + 1").select(
        *_ABOUT, "place", sf.col("reach.tail").alias("before"), (sf.col("reach.end") + 1).alias("from_place"),
        sf.lit(False).alias("late"),
    )  # fmt: skip


def late_starts(ordered: DataFrame) -> DataFrame:
    """New epochs of a known producer that do not begin at sequence 0: the first sequences are missing. As `gaps`."""
    rows = ordered.where("number = 1 AND place > 0 AND lower.producer_epoch >= 0 AND lower.producer_epoch < producer_epoch")
    return rows.select(
        *_ABOUT, "place", sf.struct(*(f"lower.{name}" for name in _PLACE)).alias("before"),
        sf.lit(0).cast("bigint").alias("from_place"), sf.lit(True).alias("late"),
    )  # fmt: skip


def with_reasons(gaps: DataFrame, missing: DataFrame) -> DataFrame:
    """`gaps` with `holes`: the number of offsets between the two batches that are `missing` for a reason."""
    reasons = missing.where("reason > 0").select(*PARTITION, *LOG_ORDER, "reason")
    if reasons.isEmpty():
        return gaps.withColumn("holes", sf.lit(0).cast("bigint"))
    gaps = settled(gaps)
    sides = [gaps.select(*PARTITION, *LOG_ORDER), gaps.select(*PARTITION, "before.segment", "before.position")]
    points = sides[0].unionByName(sides[1]).distinct().withColumn("asked", sf.lit(True))
    below = (
        united([points, reasons])
        .withColumn("holes", sf.coalesce(sf.sum("reason").over(_log(PARTITION)), sf.lit(0)))  # up to its own place
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
    """The gaps and late starts for which no missing offsets account."""
    rows = missing.where("holes < place - from_place").transform(_between)
    about = (ROW, _sequences(), ROW.before, ROW.after)
    words = WORDS.choose(ROW.late, WORDS.late_start(*about), WORDS.gap(*about))
    return finding(rows, "gap", sf.struct("before", "after"), words)


def disorder(ordered: DataFrame) -> DataFrame:
    """Batches that are stored after a later one of their epoch, unless they are copies."""
    tail = sf.struct(sf.col("tail_place").alias("place"), *(f"tail.{name}" for name in _PLACE))
    rows = (
        ordered.where("first IS NULL")
        .withColumn("before", sf.lag(tail).over(_log(EPOCH)))
        .where("place < before.place")
    )  # fmt: skip
    return finding(rows, "disorder", sf.struct("before", *_PLACE), WORDS.disorder(ROW, ROW.before))


# Findings

_PLACE = ("base_offset", "last_offset", "base_sequence", "last_sequence", "max_timestamp", *LOG_ORDER)
_ABOUT = (*PRODUCER, "producer_epoch", *_PLACE)
_STRETCH = (*_ABOUT, "life", "run", "tail", "before")


def _log(keys: tuple[str, ...]) -> WindowSpec:
    return Window.partitionBy(*keys).orderBy(*LOG_ORDER)


def _before(keys: tuple[str, ...]) -> WindowSpec:
    return _log(keys).rowsBetween(Window.unboundedPreceding, -1)


def _about_places(first: str, last: str) -> Callable[[DataFrame], DataFrame]:
    """Let the sequences of a row be those at these places."""

    def named(rows: DataFrame) -> DataFrame:
        rows = rows.withColumn("base_sequence", sf.pmod(first, sf.lit(SEQUENCES)))
        return rows.withColumn("last_sequence", sf.pmod(last, sf.lit(SEQUENCES)))

    return named


def _between(rows: DataFrame) -> DataFrame:
    """Let a row describe the gap between `from_place` and its batch; `before` is the batch before the gap."""
    return (
        rows.withColumn("after", _place())
        .withColumn("last_offset", sf.col("base_offset"))
        .withColumn("base_offset", sf.col("before.last_offset"))
        .withColumn("to_place", sf.col("place") - 1)
        .transform(_about_places("from_place", "to_place"))
    )


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


def finding(
    rows: DataFrame, kind: Column | str, evidence: Column, words: Column, severity: Column | str | None = None
) -> DataFrame:  # fmt: skip
    """Findings about the batches or records in the rows. `kind` and `severity` are names or columns.

    The severity is that of the kind if it is not given; then the kind must be a name.
    """
    if severity is None:
        assert isinstance(kind, str)
        severity = severity_of(kind)
    sentence = WORDS.text("{place}: {words}", place=WORDS.partition(ROW.topic, ROW.partition), words=words)
    values = {
        "kind": column_of(kind), "severity": column_of(severity), "first_sequence": sf.col("base_sequence"),
        "first_offset": sf.col("base_offset"), "evidence": sf.to_json(evidence),
        "explanation": sentence,
    }  # fmt: skip
    columns = []
    for field in FINDINGS.fields:
        value = values[field.name] if field.name in values else sf.col(field.name)
        columns.append(value.cast(field.dataType.simpleString()).alias(field.name))  # of a DataType, PySpark asks the JVM often
    return rows.select(*columns)
