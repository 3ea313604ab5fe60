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
EPOCH = (*PRODUCER, "life", "producer_epoch")
LOG_ORDER = ("segment", "position")
DAMAGE = ("crc", "bad_batch", "torn_tail")
UNREADABLE = "unreadable"


def findings_of(batches: DataFrame, bounds: DataFrame, expiration_ms: int = EXPIRATION_MS) -> list[DataFrame]:
    """Every finding that the batches give by themselves. `bounds` has the log start and the cleaner's offset by partition."""
    folded = runs(batches).cache()
    found = [damages(batches), offset_regressions(batches, folded), *transactions(batches, folded, bounds)]
    suspicious = suspects(folded).cache()
    if not suspicious.isEmpty():
        lives = with_holes(suspect_batches(batches, suspicious, expiration_ms), batches, suspicious, bounds).cache()
        placed = places(lives).cache()
        twice = copies(placed).cache()
        found += [epoch_regressions(lives), duplicates(twice), gaps(placed), late_starts(placed, lives)]
        found.append(disorder(placed, twice))
    return found


# Runs


def intact(batches: DataFrame) -> DataFrame:
    """The batches whose headers can be trusted."""
    return batches.where("problem IS NULL OR problem = 'offset_regression'")


def runs(batches: DataFrame) -> DataFrame:
    """One row for each unbroken stretch of a producer's batches in one split; batches without one are folded by split."""
    return (
        intact(batches)
        .withColumn("kind", F.col("attributes").bitwiseAND(F.lit(TRANSACTIONAL | CONTROL)))
        .groupBy(*PARTITION, "segment", "run", "producer_id", "producer_epoch", "kind")
        .agg(
            F.min("position").alias("position"),
            F.max("position").alias("last_position"),
            F.min_by("base_sequence", "position").alias("first_sequence"),
            F.max_by("last_sequence", "position").alias("last_sequence"),
            F.min_by("base_offset", "position").alias("first_offset"),
            F.max_by("last_offset", "position").alias("last_offset"),
            F.count(F.lit(1)).alias("batches"),
            F.sum("records").cast("bigint").alias("records"),
            F.sum("bytes").alias("bytes"),
            F.max("max_timestamp").alias("max_timestamp"),
            F.max("marker").alias("marker"),
        )
    )


def suspects(folded: DataFrame) -> DataFrame:
    """The producers, by partition, whose runs do not simply follow each other."""
    before = _log(PRODUCER).rowsBetween(Window.unboundedPreceding, -1)
    marker = F.col("kind").bitwiseAND(CONTROL) != 0
    data = F.struct("producer_epoch", "last_sequence", "last_offset")
    epoch = F.col("producer_epoch")
    goes_on = (F.col("first_sequence") == F.pmod(F.col("data.last_sequence") + F.lit(1).cast("bigint"), F.lit(SEQUENCES))) & (
        F.col("first_offset") > F.col("data.last_offset")
    )
    begins = (F.col("first_sequence") == 0) | F.col("lowest").isNull() | (F.col("lowest") >= epoch)
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


def damages(batches: DataFrame) -> DataFrame:
    """What is no batch, or one that cannot be trusted, as the scan saw it."""
    where = F.format_string("the batch at position %d of %s", "position", "segment")
    evidence = F.struct("segment", "position", "bytes", "crc_stored", "crc_computed", "detail")
    about = F.when(F.col("problem") == "crc", " cannot be trusted: ").otherwise(F.lit(" is damaged: "))
    return _finding(
        batches.where(F.col("problem").isin(*DAMAGE)), F.col("problem"), evidence, F.concat(where, about, "detail")
    )


def offset_regressions(batches: DataFrame, folded: DataFrame) -> DataFrame:
    """Batches whose base offset is not above the last offset before them: within a split, and between splits."""
    ends = (
        folded.withColumn("split", F.shiftright("run", 32))
        .groupBy(*PARTITION, "segment", "split")
        .agg(
            F.min_by("first_offset", "position").alias("first"), F.max_by("last_offset", "last_position").alias("last"),
            F.min("position").alias("position"),
        )
        .withColumn("before", F.lag("last").over(_log(PARTITION)))
        .where("first <= before")
        .select(*PARTITION, *LOG_ORDER)
    )  # fmt: skip
    fallen = batches.where("problem = 'offset_regression'").unionByName(
        batches.join(F.broadcast(ends), [*PARTITION, *LOG_ORDER], "left_semi")
    )
    words = F.format_string("a batch begins at offset %d, which is not above the offset before it", "base_offset")
    return _finding(fallen, F.lit("offset_regression"), _place(), words)


# Transactions


def transactions(batches: DataFrame, folded: DataFrame, bounds: DataFrame) -> list[DataFrame]:
    """Transactions without an end, and ends without a beginning.

    A header that cannot be trusted is believed here: a marker that is damaged would be told of twice otherwise.
    """
    columns = (*PRODUCER, "producer_epoch", "kind", *LOG_ORDER)
    damaged = (
        batches.where("problem IN ('crc', 'bad_batch') AND producer_id >= 0")
        .withColumn("kind", F.col("attributes").bitwiseAND(F.lit(TRANSACTIONAL | CONTROL)))
        .select(*columns)
    )
    log = _log(PRODUCER)
    marker = F.col("kind").bitwiseAND(CONTROL) != 0
    data = F.col("kind") == TRANSACTIONAL
    events = (
        folded.where("producer_id >= 0").select(*columns).unionByName(damaged)
        .withColumn("known", F.row_number().over(log) > 1)
        .withColumn("ended", F.coalesce(F.sum(marker.cast("int")).over(log.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0)))
    )  # fmt: skip
    spans = (
        events.where(marker | data)
        .groupBy(*PRODUCER, "ended")
        .agg(
            F.min(F.when(data, F.struct(*LOG_ORDER))).alias("begin"),
            F.min(F.when(marker, F.struct(*LOG_ORDER, "known"))).alias("end"),
        )
    )
    return [_open(batches, folded, spans.where("end IS NULL")), _without_data(batches, spans.where("begin IS NULL"), bounds)]


def _open(batches: DataFrame, folded: DataFrame, spans: DataFrame) -> DataFrame:
    latest = folded.groupBy(*PARTITION).agg(F.max("max_timestamp").alias("latest"))
    keys = spans.select(*PRODUCER, "begin.*")
    rows = batches.join(F.broadcast(keys), [*PRODUCER, *LOG_ORDER]).join(F.broadcast(latest), [*PARTITION])
    rows = rows.withColumn("open_ms", F.greatest(F.col("latest") - F.col("max_timestamp"), F.lit(0)))
    words = F.format_string(
        "the transaction that %s began at offset %d has neither been committed nor aborted; it has been open for %d ms",
        _who(), "base_offset", "open_ms",
    )  # fmt: skip
    return _finding(rows, F.lit("open_transaction"), F.struct("open_ms", *_PLACE), words)


def _without_data(batches: DataFrame, spans: DataFrame, bounds: DataFrame) -> DataFrame:
    keys = spans.select(*PRODUCER, "end.*")
    rows = intact(batches).join(F.broadcast(keys), [*PRODUCER, *LOG_ORDER]).join(F.broadcast(bounds), [*PARTITION])
    lost = (F.col("base_offset") < F.col("cleaned_until")) | ((F.col("log_start") > 0) & ~F.col("known"))
    words = F.format_string(
        "a transaction of %s ended at offset %d without a batch of it being stored here", _who(), "base_offset"
    )
    return _finding(rows.where(~lost), F.lit("marker_without_data"), _place(), words)


# Epochs and sequences


def suspect_batches(batches: DataFrame, suspicious: DataFrame, expiration_ms: int) -> DataFrame:
    """The suspects' batches, markers included, each with the life of its producer in which it was stored."""
    log = _log(PRODUCER)
    within = F.lag(F.col("attributes").bitwiseAND(F.lit(TRANSACTIONAL | CONTROL))).over(log) == TRANSACTIONAL
    pause = F.col("max_timestamp") - F.lag("max_timestamp").over(log)
    return (
        intact(batches).join(F.broadcast(suspicious), [*PRODUCER], "left_semi")
        .withColumn("reborn", F.coalesce((pause >= expiration_ms) & ~within, F.lit(False)))
        .withColumn("life", F.sum(F.col("reborn").cast("int")).over(log))
    )  # fmt: skip


def epoch_regressions(lives: DataFrame) -> DataFrame:
    """Batches of an older epoch than the one before them."""
    log = _log((*PRODUCER, "life"))
    before = F.lag(F.struct("producer_epoch", "last_offset")).over(log)
    rows = lives.withColumn("before", before).where("producer_epoch < before.producer_epoch")
    words = F.format_string(
        "a batch of %s is stored at offset %d, behind epoch %d of the same producer at offset %d",
        _who(), "base_offset", "before.producer_epoch", "before.last_offset",
    )  # fmt: skip
    return _finding(rows, F.lit("epoch_regression"), F.struct("before", *_PLACE), words)


def places(lives: DataFrame) -> DataFrame:
    """The batches with sequences, each with its unwrapped first and last sequence (`place`, `end`) and its `order`."""
    log = _log(EPOCH)
    distance = F.pmod(F.col("base_sequence").cast("bigint") - F.lag("base_sequence").over(log), F.lit(SEQUENCES))
    signed = F.when(distance >= SEQUENCES // 2, distance - SEQUENCES).otherwise(distance)
    return (
        lives.where(~_internal() & (F.col("base_sequence") >= 0) & (F.col("producer_epoch") >= 0))
        .withColumn("step", F.coalesce(signed, F.col("base_sequence").cast("bigint")))
        .withColumn("place", F.sum("step").over(log))
        .withColumn("order", F.row_number().over(log))
        .withColumn("end", F.col("place") + F.col("last_offset") - F.col("base_offset"))
    )


def with_holes(lives: DataFrame, batches: DataFrame, suspicious: DataFrame, bounds: DataFrame) -> DataFrame:
    """`holes`: how many offsets are missing for a reason before each batch. Only differences of it mean anything."""
    damaged = batches.where(F.col("problem").isin(*DAMAGE)).select(*PARTITION)
    cleaned = bounds.where("cleaned_until > 0").select(*PARTITION)
    concerned = (
        damaged.unionByName(cleaned).distinct().join(suspicious.select(*PARTITION).distinct(), [*PARTITION], "left_semi")
    ).cache()
    if concerned.isEmpty():
        return lives.withColumn("holes", F.lit(0).cast("bigint"))
    log = _log(PARTITION)
    before = log.rowsBetween(Window.unboundedPreceding, -1)
    broken = F.col("problem").isin(*DAMAGE) & F.col("problem").isNotNull()
    end = F.when(F.col("damaged") > F.col("damaged_before"), F.col("base_offset")).otherwise(
        F.least("base_offset", "cleaned_until")
    )
    prefix = (
        batches.join(F.broadcast(concerned), [*PARTITION], "left_semi").join(F.broadcast(bounds), [*PARTITION])
        .withColumn("damaged", F.sum(broken.cast("int")).over(log))
        .where(~broken)
        .withColumn("damaged_before", F.coalesce(F.lag("damaged").over(log), F.lit(0)))
        .withColumn("reach", F.coalesce(F.max(F.col("last_offset") + 1).over(before), F.col("log_start")))
        .withColumn("holes", F.sum(F.greatest(end - F.col("reach"), F.lit(0))).over(log))
        .select(*PARTITION, *LOG_ORDER, "holes")
    )  # fmt: skip
    return lives.join(prefix, [*PARTITION, *LOG_ORDER], "left").fillna(0, ["holes"])


def copies(placed: DataFrame) -> DataFrame:
    """The batches of which something is stored before, with the `first` batch that has it.

    Compared is only within islands of batches that overlap.
    """
    islands = _islands(placed)
    alone = Window.partitionBy(*EPOCH, "island")
    crowded = islands.withColumn("size", F.count(F.lit(1)).over(alone)).where("size > 1")
    later, earlier = crowded.alias("later"), crowded.alias("earlier")
    same = [F.col(f"later.{name}") == F.col(f"earlier.{name}") for name in (*EPOCH, "island")]
    overlap = (
        (F.col("earlier.order") < F.col("later.order"))
        & (F.col("earlier.place") <= F.col("later.end"))
        & (F.col("later.place") <= F.col("earlier.end"))
    )
    first = F.min(F.struct(*(F.col(f"earlier.{name}").alias(name) for name in ("order", "place", "end", *_PLACE))))
    pairs = later.join(earlier, [*same, overlap]).groupBy("later.topic", "later.partition", *(f"later.{name}" for name in LOG_ORDER))
    return crowded.join(pairs.agg(first.alias("first")), [*PARTITION, *LOG_ORDER])


def duplicates(twice: DataFrame) -> DataFrame:
    """Sequences that one producer has stored twice within an epoch."""
    start, end = F.greatest("place", "first.place"), F.least("end", "first.end")
    rows = (
        twice.withColumn("from_place", start).withColumn("to_place", end)
        .withColumn("base_sequence", F.pmod("from_place", F.lit(SEQUENCES)))
        .withColumn("last_sequence", F.pmod("to_place", F.lit(SEQUENCES)))
        .withColumn("once", F.col("first.base_offset") + F.col("from_place") - F.col("first.place"))
        .withColumn("last_offset", F.col("base_offset") + F.col("to_place") - F.col("place"))
        .withColumn("base_offset", F.col("base_offset") + F.col("from_place") - F.col("place"))
    )  # fmt: skip
    words = F.format_string(
        "%s of %s stored twice: from offset %d on, and again from offset %d on", _sequences(), _who(), "once", "base_offset"
    )
    return _finding(rows, F.lit("duplicate"), F.struct("first", *_PLACE), words)


def gaps(placed: DataFrame) -> DataFrame:
    """Sequences that are missing between two stored batches, and that nothing accounts for."""
    reached = _islands(placed).where("place > reach.end + 1").withColumn("missing", F.col("place") - F.col("reach.end") - 1)
    rows = (
        reached.where(F.abs(F.col("holes") - F.col("reach.holes")) < F.col("missing"))
        .withColumn("behind", F.struct(*_PLACE))
        .withColumn("last_offset", F.col("base_offset"))
        .withColumn("base_offset", F.col("reach.last_offset"))
        .withColumn("base_sequence", F.pmod(F.col("reach.end") + 1, F.lit(SEQUENCES)))
        .withColumn("last_sequence", F.pmod(F.col("place") - 1, F.lit(SEQUENCES)))
    )
    words = F.format_string(
        "%s of %s missing between offset %d and offset %d", _sequences(), _who(), "base_offset", "last_offset"
    )
    return _finding(rows, F.lit("gap"), F.struct(F.col("reach").alias("before"), "behind"), words)


def late_starts(placed: DataFrame, lives: DataFrame) -> DataFrame:
    """A new epoch that does not begin at sequence 0, though its producer was known: the first sequences are missing."""
    firsts = (
        placed.withColumn("number", F.row_number().over(Window.partitionBy(*EPOCH).orderBy("place", "order")))
        .withColumn("begun", F.min(F.struct(*LOG_ORDER)).over(Window.partitionBy(*EPOCH)))
        .where("number = 1 AND place > 0")
    )
    life = (*PRODUCER, "life")
    older = lives.select(
        *life, F.struct(*LOG_ORDER).alias("at"), F.col("producer_epoch").alias("older_epoch"),
        F.col("last_offset").alias("older_offset"), F.col("holes").alias("older_holes"),
    )  # fmt: skip
    lower = (
        firsts.join(older, [*life]).where("at < begun AND older_epoch < producer_epoch")
        .groupBy(*PARTITION, *LOG_ORDER).agg(F.max_by(F.struct("older_epoch", "older_offset", "older_holes"), "at").alias("lower"))
    )  # fmt: skip
    rows = (
        firsts.join(lower, [*PARTITION, *LOG_ORDER])
        .where(F.abs(F.col("holes") - F.col("lower.older_holes")) < F.col("place"))
        .withColumn("behind", F.struct(*_PLACE))
        .withColumn("base_sequence", F.lit(0))
        .withColumn("last_sequence", F.pmod(F.col("place") - 1, F.lit(SEQUENCES)))
        .withColumn("last_offset", F.col("base_offset"))
        .withColumn("base_offset", F.col("lower.older_offset"))
    )
    words = F.format_string(
        "%s of %s missing: the epoch begins behind offset %d, at offset %d",
        _sequences(), _who(), "base_offset", "last_offset",
    )  # fmt: skip
    return _finding(rows, F.lit("gap"), F.struct("lower", "behind"), words)


def disorder(placed: DataFrame, twice: DataFrame) -> DataFrame:
    """Batches that are stored behind a later one of their epoch, unless they are copies."""
    before = F.lag(F.struct("place", *_PLACE)).over(_log(EPOCH))
    rows = (
        placed.join(twice.select(*PARTITION, *LOG_ORDER), [*PARTITION, *LOG_ORDER], "left_anti")
        .withColumn("before", before)
        .where("place < before.place")
    )
    words = F.format_string(
        "%s of %s stored out of order: at offset %d, behind sequence %d at offset %d",
        _sequences(), _who(), "base_offset", "before.base_sequence", "before.base_offset",
    )  # fmt: skip
    return _finding(rows, F.lit("disorder"), F.struct("before", *_PLACE), words)


def _islands(placed: DataFrame) -> DataFrame:
    """In the order of sequences: how far the batches before reach, and the number of the island that overlaps."""
    order = Window.partitionBy(*EPOCH).orderBy("place", "order")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    reach = F.struct("end", (-F.col("order")).alias("order"), "holes", *_PLACE)
    apart = F.col("reach").isNull() | (F.col("place") > F.col("reach.end"))
    return placed.withColumn("reach", F.max(reach).over(before)).withColumn("island", F.sum(apart.cast("int")).over(order))


# Findings

_PLACE = ("base_offset", "last_offset", "base_sequence", "last_sequence", "max_timestamp", "segment", "position")


def _log(keys: tuple[str, ...]) -> WindowSpec:
    return Window.partitionBy(*keys).orderBy(*LOG_ORDER)


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
