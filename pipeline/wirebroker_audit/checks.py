"""What the stored batches say of themselves: each check is a function from DataFrames to findings.

The checks do not look at every batch. `runs` folds the unbroken stretches that the scan saw into one row each, `suspects`
finds the producers whose runs do not simply follow each other, and only their batches are put in order. Three things keep
innocent logs clean:

* Sequences count modulo 2³¹, so they are unwrapped: the place of a batch is the running sum of the signed distances
  between neighbours of one producer and epoch. Duplicates and gaps are looked for in the order of places, disorder and
  epochs in the order of the log.
* A producer has lives: where the timestamps of its neighbouring batches are `producer.id.expiration.ms` apart and no
  transaction is open between them, the broker has forgotten it, and sequences and epochs begin anew.
* Holes have reasons: missing sequences are no gap where at least as many offsets are missing that compaction took, or
  that lie where the log is damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from kafkawire.batches import CONTROL, SEQUENCES, TRANSACTIONAL
from wirebroker.audit.findings import KINDS, severity_of
from wirebroker_audit.schema import FINDINGS

EXPIRATION_MS = 86_400_000
"""Kafka's default of producer.id.expiration.ms."""
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Kafka writes every transactional batch of `__consumer_offsets` with sequence 0: sequences say nothing there."""
PARTITION = ("topic", "partition")
PRODUCER = (*PARTITION, "producer_id")
LIFE = (*PRODUCER, "life")
EPOCH = (*LIFE, "producer_epoch")
LOG_ORDER = ("segment", "position")
DAMAGE = ("crc", "bad_batch", "torn_tail")
UNREADABLE = "unreadable"


def findings_of(batches: DataFrame, bounds: DataFrame, expiration_ms: int = EXPIRATION_MS) -> DataFrame:
    """Every finding that the batches give by themselves. `bounds` has the log start and the cleaner's offset by partition."""
    troubled = batches.where("problem IS NOT NULL").cache()
    folded = runs(batches).cache()
    found = [damages(troubled), offset_regressions(troubled, folded), *transactions(troubled, folded, bounds)]
    suspicious = suspects(folded).cache()
    if not suspicious.isEmpty():
        lives = with_holes(suspect_batches(batches, suspicious, expiration_ms), batches, troubled, suspicious, bounds)
        lives = lives.cache()
        ordered = in_sequence(lives).cache()
        found += [epoch_regressions(lives), *(check(ordered) for check in (duplicates, gaps, late_starts, disorder))]
    return reduce(DataFrame.unionByName, found)


# Runs


def intact(batches: DataFrame) -> DataFrame:
    """The batches whose headers can be trusted."""
    return batches.where("problem IS NULL OR problem = 'offset_regression'")


def runs(batches: DataFrame) -> DataFrame:
    """One row for each unbroken stretch of a producer's batches in one split; batches without one are folded by split.

    `position`, `base_…` and `begin_…` are the first batch's, `last_…` the last one's.
    """
    return (
        intact(batches)
        .withColumn("kind", _kind())
        .groupBy(*PARTITION, "segment", "run", "producer_id", "producer_epoch", "kind")
        .agg(
            F.min("position").alias("position"),
            F.max("position").alias("last_position"),
            F.min_by("base_sequence", "position").alias("base_sequence"),
            F.max_by("last_sequence", "position").alias("last_sequence"),
            F.min_by("base_offset", "position").alias("base_offset"),
            F.max_by("last_offset", "position").alias("last_offset"),
            F.min_by("last_sequence", "position").alias("begin_last_sequence"),
            F.min_by("last_offset", "position").alias("begin_last_offset"),
            F.min_by("max_timestamp", "position").alias("begin_timestamp"),
            F.count(F.lit(1)).alias("batches"),
            F.sum("records").alias("records"),
            F.sum("bytes").alias("bytes"),
            F.max("max_timestamp").alias("max_timestamp"),
            F.max("marker").alias("marker"),
        )
    )


def suspects(folded: DataFrame) -> DataFrame:
    """The producers, by partition, whose runs do not simply follow each other."""
    before = _before(PRODUCER)
    marker = _is_marker()
    data = F.struct("producer_epoch", "last_sequence", "last_offset")
    epoch = F.col("producer_epoch")
    next_sequence = F.pmod(F.col("data.last_sequence") + F.lit(1).cast("bigint"), F.lit(SEQUENCES))
    goes_on = (F.col("base_sequence") == next_sequence) & (F.col("base_offset") > F.col("data.last_offset"))
    begins = (F.col("base_sequence") == 0) | F.col("lowest").isNull() | (F.col("lowest") >= epoch)
    in_order = F.when(F.col("epoch_before") > epoch, False).when(marker | _internal(), True)
    in_order = in_order.when(F.col("data").isNull() | (F.col("data.producer_epoch") < epoch), begins)
    in_order = in_order.when(F.col("data.producer_epoch") == epoch, goes_on).otherwise(False)
    return (
        folded.where("producer_id >= 0")
        .withColumn("epoch_before", F.lag("producer_epoch").over(_log(PRODUCER)))
        .withColumn("lowest", F.min("producer_epoch").over(before))
        .withColumn("data", F.last(F.when(~marker, data), ignorenulls=True).over(before))
        .where(~in_order)
        .select(*PRODUCER)
        .distinct()
    )


# Damage


def damages(troubled: DataFrame) -> DataFrame:
    """What is no batch, or one that cannot be trusted, as the scan saw it."""
    where = F.format_string("the batch at position %d of %s", "position", "segment")
    evidence = F.struct("segment", "position", "bytes", "crc_stored", "crc_computed", "detail")
    about = F.when(F.col("problem") == "crc", " cannot be trusted: ").otherwise(F.lit(" is damaged: "))
    return _finding(
        troubled.where(F.col("problem").isin(*DAMAGE)), F.col("problem"), evidence, F.concat(where, about, "detail")
    )


def offset_regressions(troubled: DataFrame, folded: DataFrame) -> DataFrame:
    """Batches whose base offset is not above the last offset before them: within a split, and between splits."""
    split = (*PARTITION, "segment", "split")
    ends = (
        folded.withColumn("split", F.shiftright("run", 32))
        .withColumn("first", F.row_number().over(_log(split)) == 1)
        .withColumn("split_end", F.max(F.struct("last_position", "last_offset")).over(Window.partitionBy(*split)))
        .where("first")
        .withColumn("before", F.lag("split_end.last_offset").over(_log(PARTITION)))
        .where("base_offset <= before")
    )
    fallen = troubled.where("problem = 'offset_regression'").select(*_ABOUT).unionByName(_first_batches(ends))
    words = F.format_string("a batch begins at offset %d, which is not above the offset before it", "base_offset")
    return _finding(fallen, F.lit("offset_regression"), _place(), words)


# Transactions


def transactions(troubled: DataFrame, folded: DataFrame, bounds: DataFrame) -> list[DataFrame]:
    """Transactions without an end, and ends without a beginning.

    A header that cannot be trusted is believed here: a marker that is damaged would be told of twice otherwise.
    """
    believed = troubled.where("problem IN ('crc', 'bad_batch') AND producer_id >= 0").withColumn("kind", _kind())
    events = (
        _first_batches(folded.where("producer_id >= 0"), "kind").unionByName(believed.select(*_ABOUT, "kind"))
        .withColumn("known", F.row_number().over(_log(PRODUCER)) > 1)
        .withColumn("ended", F.coalesce(F.sum(_is_marker().cast("int")).over(_before(PRODUCER)), F.lit(0)))
    )  # fmt: skip
    span = (*PRODUCER, "ended")
    spans = (
        events.where(_is_marker() | _is_transactional())
        .withColumn("data", F.max(_is_transactional()).over(Window.partitionBy(*span)))
        .withColumn("marked", F.max(_is_marker()).over(Window.partitionBy(*span)))
        .withColumn("number", F.row_number().over(_log(span)))
        .where("number = 1 AND NOT (data AND marked)")
    )
    return [_open(spans.where("data"), folded), _without_data(spans.where("marked"), bounds)]


def _open(spans: DataFrame, folded: DataFrame) -> DataFrame:
    latest = folded.groupBy(*PARTITION).agg(F.max("max_timestamp").alias("latest"))
    rows = spans.join(F.broadcast(latest), [*PARTITION])
    rows = rows.withColumn("open_ms", F.greatest(F.col("latest") - F.col("max_timestamp"), F.lit(0)))
    words = F.format_string(
        "the transaction that %s began at offset %d has neither been committed nor aborted; it has been open for %d ms",
        _who(), "base_offset", "open_ms",
    )  # fmt: skip
    return _finding(rows, F.lit("open_transaction"), F.struct("open_ms", *_PLACE), words)


def _without_data(spans: DataFrame, bounds: DataFrame) -> DataFrame:
    rows = spans.join(F.broadcast(bounds), [*PARTITION])
    lost = (F.col("base_offset") < F.col("cleaned_until")) | ((F.col("log_start") > 0) & ~F.col("known"))
    words = F.format_string(
        "a transaction of %s ended at offset %d without a batch of it being stored here", _who(), "base_offset"
    )
    return _finding(rows.where(~lost), F.lit("marker_without_data"), _place(), words)


# Epochs and sequences


def suspect_batches(batches: DataFrame, suspicious: DataFrame, expiration_ms: int) -> DataFrame:
    """The suspects' batches, markers included, each with the life of its producer in which it was stored."""
    log = _log(PRODUCER)
    within = F.lag(_kind()).over(log) == TRANSACTIONAL
    pause = F.col("max_timestamp") - F.lag("max_timestamp").over(log)
    return (
        intact(batches).join(F.broadcast(suspicious), [*PRODUCER], "left_semi")
        .select(*_ABOUT, "attributes")
        .withColumn("reborn", F.coalesce((pause >= expiration_ms) & ~within, F.lit(False)))
        .withColumn("life", F.sum(F.col("reborn").cast("int")).over(log))
    )  # fmt: skip


def with_holes(
    lives: DataFrame, batches: DataFrame, troubled: DataFrame, suspicious: DataFrame, bounds: DataFrame
) -> DataFrame:
    """`holes`: how many offsets are missing for a reason before each batch. Only differences of it mean anything."""
    damaged = troubled.where(F.col("problem").isin(*DAMAGE)).select(*PARTITION)
    cleaned = bounds.where("cleaned_until > 0").select(*PARTITION)
    partitions = suspicious.select(*PARTITION).distinct()
    concerned = damaged.unionByName(cleaned).distinct().join(F.broadcast(partitions), [*PARTITION], "left_semi").cache()
    if concerned.isEmpty():
        return lives.withColumn("holes", F.lit(0).cast("bigint"))
    log = _log(PARTITION)
    broken = F.col("problem").isin(*DAMAGE) & F.col("problem").isNotNull()
    end = F.when(F.col("damaged") > F.col("damaged_before"), F.col("base_offset")).otherwise(
        F.least("base_offset", "cleaned_until")
    )
    prefix = (
        batches.join(F.broadcast(concerned), [*PARTITION], "left_semi").join(F.broadcast(bounds), [*PARTITION])
        .withColumn("damaged", F.sum(broken.cast("int")).over(log))
        .where(~broken)
        .withColumn("damaged_before", F.coalesce(F.lag("damaged").over(log), F.lit(0)))
        .withColumn("reach", F.coalesce(F.max(F.col("last_offset") + 1).over(_before(PARTITION)), F.col("log_start")))
        .withColumn("holes", F.sum(F.greatest(end - F.col("reach"), F.lit(0))).over(log))
        .select(*PARTITION, *LOG_ORDER, "holes")
    )  # fmt: skip
    return lives.join(prefix, [*PARTITION, *LOG_ORDER], "left").fillna(0, ["holes"])


def in_sequence(lives: DataFrame) -> DataFrame:
    """The batches of suspects that have sequences, with all that the checks ask of them.

    `place`, `end`: its unwrapped first and last sequence · `order` in the log, within its epoch · `reach`: of the batches
    of lower place the one that reaches farthest · `first`: the earliest batch that has one of its sequences, null unless
    there is one · `number`: its rank by place · `lower`: the batch before the one that begins the epoch.
    """
    log, by_place = _log(EPOCH), Window.partitionBy(*EPOCH).orderBy("place", "order")
    distance = F.pmod(F.col("base_sequence").cast("bigint") - F.lag("base_sequence").over(log), F.lit(SEQUENCES))
    signed = F.when(distance >= SEQUENCES // 2, distance - SEQUENCES).otherwise(distance)
    farthest = F.struct("end", (-F.col("order")).alias("order"), "holes", *_PLACE)
    apart = F.col("reach").isNull() | (F.col("place") > F.col("reach.end"))
    member = F.struct("order", "place", "end", *_PLACE)
    return (
        lives.withColumn("before", F.lag(F.struct("producer_epoch", "holes", *_PLACE)).over(_log(LIFE)))
        .where(~_internal() & (F.col("base_sequence") >= 0) & (F.col("producer_epoch") >= 0))
        .withColumn("place", F.sum(F.coalesce(signed, F.col("base_sequence").cast("bigint"))).over(log))
        .withColumn("order", F.row_number().over(log))
        .withColumn("lower", F.first("before").over(log))
        .withColumn("end", F.col("place") + F.col("last_offset") - F.col("base_offset"))
        .withColumn("number", F.row_number().over(by_place))
        .withColumn("reach", F.max(farthest).over(by_place.rowsBetween(Window.unboundedPreceding, -1)))
        .withColumn("island", F.sum(apart.cast("int")).over(by_place))
        .withColumn("members", F.collect_list(member).over(Window.partitionBy(*EPOCH, "island")))
        .withColumn("first", F.array_min(F.filter("members", _is_earlier_copy)))
        .drop("members", "before")
    )


def _is_earlier_copy(member: Column) -> Column:
    """Whether a batch of the island stands before this one in the log, and has one of its sequences."""
    overlaps = (member["place"] <= F.col("end")) & (F.col("place") <= member["end"])
    return (member["order"] < F.col("order")) & overlaps


def epoch_regressions(lives: DataFrame) -> DataFrame:
    """Batches of an older epoch than the one before them."""
    rows = lives.withColumn("before", F.lag(F.struct("producer_epoch", "last_offset")).over(_log(LIFE)))
    words = F.format_string(
        "a batch of %s is stored at offset %d, behind epoch %d of the same producer at offset %d",
        _who(), "base_offset", "before.producer_epoch", "before.last_offset",
    )  # fmt: skip
    fallen = rows.where("producer_epoch < before.producer_epoch")
    return _finding(fallen, F.lit("epoch_regression"), F.struct("before", *_PLACE), words)


def duplicates(ordered: DataFrame) -> DataFrame:
    """Sequences that one producer has stored twice within an epoch."""
    rows = (
        ordered.where("first IS NOT NULL")
        .withColumn("from_place", F.greatest("place", "first.place")).withColumn("to_place", F.least("end", "first.end"))
        .withColumn("once", F.col("first.base_offset") + F.col("from_place") - F.col("first.place"))
        .withColumn("last_offset", F.col("base_offset") + F.col("to_place") - F.col("place"))
        .withColumn("base_offset", F.col("base_offset") + F.col("from_place") - F.col("place"))
        .transform(_about_places("from_place", "to_place"))
    )  # fmt: skip
    words = F.format_string(
        "%s of %s stored twice: from offset %d on, and again from offset %d on",
        _sequences(),
        _who(),
        "once",
        "base_offset",
    )
    return _finding(rows, F.lit("duplicate"), F.struct("first", *_PLACE), words)


def gaps(ordered: DataFrame) -> DataFrame:
    """Sequences that are missing between two stored batches, and that nothing accounts for."""
    missing = F.col("place") - F.col("reach.end") - 1
    rows = (
        ordered.where((missing > 0) & (F.abs(F.col("holes") - F.col("reach.holes")) < missing))
        .withColumn("behind", F.struct(*_PLACE))
        .withColumn("last_offset", F.col("base_offset"))
        .withColumn("base_offset", F.col("reach.last_offset"))
        .withColumn("from_place", F.col("reach.end") + 1).withColumn("to_place", F.col("place") - 1)
        .transform(_about_places("from_place", "to_place"))
    )  # fmt: skip
    words = F.format_string(
        "%s of %s missing between offset %d and offset %d", _sequences(), _who(), "base_offset", "last_offset"
    )
    return _finding(rows, F.lit("gap"), F.struct(F.col("reach").alias("before"), "behind"), words)


def late_starts(ordered: DataFrame) -> DataFrame:
    """New epochs of a known producer that do not begin at sequence 0: the first sequences are missing."""
    rows = (
        ordered.where("number = 1 AND place > 0 AND lower.producer_epoch < producer_epoch")
        .where(F.abs(F.col("holes") - F.col("lower.holes")) < F.col("place"))
        .withColumn("behind", F.struct(*_PLACE))
        .withColumn("last_offset", F.col("base_offset"))
        .withColumn("base_offset", F.col("lower.last_offset"))
        .withColumn("from_place", F.lit(0)).withColumn("to_place", F.col("place") - 1)
        .transform(_about_places("from_place", "to_place"))
    )  # fmt: skip
    words = F.format_string(
        "%s of %s missing: the epoch begins behind offset %d, at offset %d",
        _sequences(), _who(), "base_offset", "last_offset",
    )  # fmt: skip
    return _finding(rows, F.lit("gap"), F.struct(F.col("lower").alias("before"), "behind"), words)


def disorder(ordered: DataFrame) -> DataFrame:
    """Batches that are stored behind a later one of their epoch, unless they are copies."""
    rows = (
        ordered.where("first IS NULL")
        .withColumn("before", F.lag(F.struct("place", *_PLACE)).over(_log(EPOCH)))
        .where("place < before.place")
    )
    words = F.format_string(
        "%s of %s stored out of order: at offset %d, behind sequence %d at offset %d",
        _sequences(), _who(), "base_offset", "before.base_sequence", "before.base_offset",
    )  # fmt: skip
    return _finding(rows, F.lit("disorder"), F.struct("before", *_PLACE), words)


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
    return folded.select(*(F.col(first.get(name, name)).alias(name) for name in (*_ABOUT, *more)))


def _about_places(first: str, last: str) -> Callable[[DataFrame], DataFrame]:
    """Let rows be about these places, as the sequences that they stand for."""

    def named(rows: DataFrame) -> DataFrame:
        rows = rows.withColumn("base_sequence", F.pmod(first, F.lit(SEQUENCES)))
        return rows.withColumn("last_sequence", F.pmod(last, F.lit(SEQUENCES)))

    return named


def _kind() -> Column:
    """Transactional and control: as in the attributes."""
    return F.col("attributes").bitwiseAND(F.lit(TRANSACTIONAL | CONTROL))


def _is_marker() -> Column:
    return F.col("kind").bitwiseAND(F.lit(CONTROL)) != 0


def _is_transactional() -> Column:
    return F.col("kind") == TRANSACTIONAL


def _internal() -> Column:
    return F.col("topic").isin(*INTERNAL_TOPICS)


def _place() -> Column:
    return F.struct(*_PLACE)


def _who() -> Column:
    return F.format_string("producer %d epoch %d", "producer_id", "producer_epoch")


def _sequences() -> Column:
    """The sequences of a row, as the subject of a sentence that goes on with "of"."""
    one = F.col("base_sequence") == F.col("last_sequence")
    several = F.format_string("sequences %d\N{EN DASH}%d", "base_sequence", "last_sequence")
    return F.when(one, F.format_string("sequence %d", "base_sequence")).otherwise(several)


def _finding(rows: DataFrame, kind: Column, evidence: Column, words: Column) -> DataFrame:
    """The rows as findings: their columns say what they are about."""
    severity = F.create_map(*(F.lit(text) for name in KINDS for text in (name, severity_of(name))))[kind]
    values = {
        "kind": kind, "severity": severity, "first_sequence": F.col("base_sequence"), "first_offset": F.col("base_offset"),
        "evidence": F.to_json(evidence),
        "explanation": F.concat(F.col("topic"), F.lit("-"), F.col("partition"), F.lit(": "), words),
    }  # fmt: skip
    columns = [
        values.get(field.name, F.col(field.name)).cast(field.dataType).alias(field.name) for field in FINDINGS.fields
    ]
    return rows.select(*columns)
