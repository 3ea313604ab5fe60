"""Compares the contents of records, and finds records that are stored twice. In a log with too many records it compares whole
batches.

A *unit* is a record, or all records of a batch. The rules are the same as in `wirebroker.audit.reconcile`: units are compared
within their topic, and only if a read_committed consumer sees them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from kafkawire.batches import CONTROL, TRANSACTIONAL
from wirebroker.audit.content import SHOWN
from wirebroker.audit.findings import INTERNAL_TOPICS
from wirebroker.audit.matching import MANY, Repeats
from wirebroker_audit.checks.rows import finding
from wirebroker_audit.reading.linker import Array
from wirebroker_audit.reading.scan import is_intact
from wirebroker_audit.spark.columns import LOG_ORDER, PARTITION, PRODUCER, intact
from wirebroker_audit.spark.tables import collected, from_files, in_groups, mapped, settled, united
from wirebroker_audit.spark.wording import ROW, WORDS

UNIT = (
    "topic", "partition", "base_offset", "last_offset", "timestamp", "producer_id", "producer_epoch", "base_sequence",
    "last_sequence", "content", "key", "value_hash", "shown",
)  # fmt: skip
SIDE = ("partition", "producer_id", "producer_epoch", "base_sequence", "last_sequence", "base_offset", "last_offset")


# Units


def head(data: str) -> Column:
    """Shows the beginning of a column's bytes as `wirebroker.audit.content.head` does. The bytes need not be UTF-8."""
    text = sf.make_valid_utf8(sf.substring(data, 1, SHOWN * 4).cast("string"))
    line = sf.regexp_replace(sf.substring(text, 1, SHOWN), r"[\p{C}\p{Z}&&[^ ]]", "\N{MIDDLE DOT}")
    more = sf.when((sf.length(text) > SHOWN) | (sf.length(data) > SHOWN * 4), "…").otherwise("")
    return sf.coalesce(sf.concat(sf.lit("'"), line, more, sf.lit("'")), sf.lit("null"))


def outcomes(data: DataFrame, batches: DataFrame) -> DataFrame:
    """Returns the outcome of the transactional batches `data`: `transaction` is committed, aborted or open."""
    data = data.select(*PRODUCER, *LOG_ORDER, sf.lit(None).cast("tinyint").alias("marker"))
    markers = intact(batches).where("marker >= 0").select(*PRODUCER, *LOG_ORDER, "marker")
    markers = markers.join(data.select(*PRODUCER).distinct(), [*PRODUCER], "left_semi")
    backwards = Window.partitionBy(*PRODUCER).orderBy(*(sf.desc(name) for name in LOG_ORDER))
    ending = sf.last("marker", ignorenulls=True).over(backwards)
    state = sf.when(sf.col("next") == 1, "committed").when(sf.col("next") == 0, "aborted").otherwise("open")
    ended = united([data, markers]).withColumn("next", ending).where("marker IS NULL")
    return ended.select(*PARTITION, *LOG_ORDER, state.alias("transaction"))


def with_outcome(rows: DataFrame, data: DataFrame, batches: DataFrame) -> DataFrame:
    """Adds to each row the `transaction` of its batch in `data`: committed, aborted, open, or none."""
    data = transactional(data)
    return with_known_outcome(rows, None if data.isEmpty() else outcomes(data, batches))


def with_known_outcome(rows: DataFrame, outcomes: DataFrame | None) -> DataFrame:
    """Adds to each row the `transaction` of its batch in `outcomes`, or none."""
    if outcomes is None:
        return rows.withColumn("transaction", sf.lit("none"))
    return rows.join(outcomes, [*PARTITION, *LOG_ORDER], "left").fillna("none", ["transaction"])


def hidden_batches(data: DataFrame, batches: DataFrame) -> DataFrame | None:
    """Returns the places of the batches in `data` whose transaction is aborted or open; None if there are no transactions."""
    data = transactional(data)
    return None if data.isEmpty() else outcomes(data, batches).where("transaction <> 'committed'")


def transactional(data: DataFrame) -> DataFrame:
    """Keeps only the batches that belong to a transaction."""
    return data.where(sf.col("attributes").bitwiseAND(sf.lit(TRANSACTIONAL | CONTROL)) == TRANSACTIONAL)


def visible(rows: DataFrame) -> DataFrame:
    """Keeps only the rows that a read_committed consumer of an ordinary topic sees."""
    return external(rows).where(sf.col("transaction").isin("none", "committed"))


def external(rows: DataFrame) -> DataFrame:
    """Returns the rows of the applications' topics."""
    return rows.where(~sf.col("topic").isin(*INTERNAL_TOPICS))


def content() -> Column:
    """Returns the `content` of a record, as `wirebroker.audit.content` defines it."""
    parts = (sf.coalesce(part, sf.lit("-")) for part in (sf.sha2("key", 256), sf.col("value_hash")))
    return sf.coalesce("content", sf.sha2(sf.concat_ws(":", *parts).cast("binary"), 256))


def units_of_records(records: DataFrame, *more: str) -> DataFrame:
    """Returns each record as a unit. A unit has the outcome of the record's transaction, and the columns `more`."""
    same = {"base_offset": "offset", "last_offset": "offset", "base_sequence": "sequence", "last_sequence": "sequence"}
    shown = records.withColumn("shown", head("value_head")).withColumn("content", content())
    return shown.select(*(sf.col(same.get(name, name)).alias(name) for name in UNIT), "transaction", *more)


def units_of_batches(batches: DataFrame) -> DataFrame:
    """Returns each batch of data as a unit, identified by the number of its stored records and two checksums of these
    records."""
    content = sf.concat_ws(":", sf.hex("content"), "records", "bytes", sf.col("attributes").bitwiseAND(sf.lit(7)))
    return (
        batches.withColumn("content", content)
        .withColumn("timestamp", sf.col("max_timestamp"))
        .withColumn("key", sf.lit(None).cast("binary"))
        .withColumn("value_hash", sf.lit(None).cast("string"))
        .withColumn("shown", sf.lit(None).cast("string"))
        .select(*UNIT)
    )


def data_batches(batches: DataFrame) -> DataFrame:
    """Returns the batches that hold records of an application."""
    data = (sf.col("attributes").bitwiseAND(sf.lit(CONTROL)) == 0) & (sf.col("records") > 0)
    return intact(batches).where(data)


def bad_records(problems: DataFrame) -> DataFrame:
    """Returns the batches that have a matching checksum and records that cannot be read."""
    none = {name: sf.lit(-1) for name in ("base_sequence", "last_sequence")}
    at = {"base_offset": sf.col("batch_offset"), "last_offset": sf.col("batch_offset")}
    rows = problems.where("problem = 'bad_batch'").withColumns(none | at)
    words = WORDS.damaged(ROW.segment, ROW.position, ROW.base_offset, ROW.detail)
    return finding(rows, "bad_batch", sf.struct("segment", "position", "detail"), words)


def deleted(batches: DataFrame, bounds: DataFrame) -> DataFrame:
    """Returns the number of offsets that retention, DeleteRecords and compaction removed from each partition."""
    bounds = settled(bounds)
    if (compacted := bounds.where("cleaned_until > 0")).isEmpty():
        return bounds.select(*PARTITION, sf.col("log_start").alias("deleted"))
    cleaned = intact(batches).join(sf.broadcast(compacted), [*PARTITION]).where("base_offset < cleaned_until")
    holes = cleaned.groupBy(*PARTITION).agg(
        (sf.max("last_offset") + 1 - sf.first("log_start") - sf.sum("records")).alias("holes")
    )
    gone = sf.col("log_start") + sf.greatest(sf.coalesce("holes", sf.lit(0)), sf.lit(0))
    return settled(bounds.join(holes, [*PARTITION], "left").select(*PARTITION, gone.alias("deleted")))


# Copies

BUCKET = 500_000
"""About this many checksums are sorted together."""
MOST_BUCKETS = 10_000
PACKED = StructType(
    [StructField("topic", StringType()), StructField("bucket", IntegerType()), StructField("contents", BinaryType())]
)
DOUBLED = StructType([StructField("topic", StringType()), StructField("content", LongType())])


def pack(chunks: Iterable[pa.RecordBatch], buckets: int) -> Iterator[pa.RecordBatch]:
    """Yields the checksums by topic and bucket, as arrays of 64-bit numbers, about `BUCKET` checksums at a time."""
    held: defaultdict[str, list[Array]] = defaultdict(list)
    count = 0
    for chunk in chunks:
        topics = chunk.column("topic").dictionary_encode()
        numbers, contents = topics.indices.to_numpy(), chunk.column("content").to_numpy()
        for number, topic in enumerate(topics.dictionary.to_pylist()):
            held[topic].append(contents[numbers == number])
        count += len(contents)
        if count >= BUCKET:
            yield _packed(held, buckets)
            count = 0
            held.clear()
    if held:
        yield _packed(held, buckets)


def _packed(held: Mapping[str, list[Array]], buckets: int) -> pa.RecordBatch:
    rows: list[tuple[str, int, bytes]] = []
    for topic, pieces in held.items():
        contents = np.concatenate(pieces)
        bucket = (contents.view(np.uint64) >> np.uint64(32)) % np.uint64(buckets)
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(buckets), "right")
        rows += [(topic, n, part.tobytes()) for n, part in enumerate(np.split(contents[order], ends[:-1])) if len(part)]
    names, numbers, parts = zip(*rows, strict=True)
    columns = [pa.array(names, pa.string()), pa.array(numbers, pa.int32()), pa.array(parts, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["topic", "bucket", "contents"])


def doubles(packed: pa.Table) -> pa.Table:
    """Returns the checksums that occur repeatedly in one bucket of a topic."""
    contents = np.frombuffer(b"".join(packed.column("contents").to_pylist()), np.int64)
    contents = np.sort(contents)
    found = np.unique(contents[1:][contents[1:] == contents[:-1]])
    topics = pa.repeat(packed.column("topic")[0], len(found))
    return pa.table({"topic": topics, "content": pa.array(found)})


def without_tombstones(rows: DataFrame) -> DataFrame:
    """Returns the records except tombstones, see `matching.is_tombstone`."""
    return rows.where("key IS NULL OR value_hash IS NOT NULL")


def repeated(units: DataFrame) -> DataFrame:
    """Returns the units whose content occurs repeatedly in their topic."""
    counted = units.groupBy("topic", "content").agg(sf.count(sf.lit(1)).alias("copies")).where("copies > 1")
    return units.join(counted.drop("copies"), ["topic", "content"], "left_semi")


def checksums(file: Path, topics: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the topic and checksum of the `data_batches` of these topics in a Parquet file."""
    columns = ["topic", "content", "attributes", "records", "problem"]
    for rows in pq.ParquetFile(file).iter_batches(columns=columns):
        data = (rows.column("attributes").to_numpy() & CONTROL == 0) & (rows.column("records").to_numpy() > 0)
        named = pc.is_in(rows.column("topic"), pa.array(topics, pa.string()))
        yield rows.select(["topic", "content"]).filter(pc.and_(pc.and_(is_intact(rows), named), pa.array(data)))


def packed_batches(data: DataFrame, topics: Sequence[str], buckets: int) -> DataFrame:
    """Packs the checksums of all batches."""

    def of_files(files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        return pack((rows for file in files for rows in checksums(file, topics)), buckets)

    def of_rows() -> DataFrame:
        return mapped(data.select("topic", "content"), lambda chunks: pack(chunks, buckets), PACKED)

    return from_files(data, of_files, PACKED, of_rows)


def repeated_batches(batches: DataFrame, topics: Sequence[str], count: int) -> DataFrame:
    """Returns the batches whose checksum occurs repeatedly in their topic. `count` is the approximate number of all batches of
    these topics.

    Spark shuffles the checksums as arrays, which costs much less than shuffling rows.
    """
    buckets = max(1, min(count // BUCKET, MOST_BUCKETS))
    data = data_batches(batches).where(sf.col("topic").isin(*topics))
    packed = packed_batches(data, topics, buckets)
    doubled = settled(in_groups(packed, ("topic", "bucket"), doubles, DOUBLED))
    return data.join(doubled, ["topic", "content"], "left_semi") if not doubled.isEmpty() else data.limit(0)


def repeats(units: DataFrame, alike: DataFrame) -> dict[str, Repeats]:
    """Counts how often the contents of each topic repeat. `alike` are the repeated units."""
    counted = alike.groupBy("topic", "content").agg(sf.count(sf.lit(1)).alias("copies"))
    many = sf.col("copies") > MANY
    among = counted.groupBy("topic").agg(
        sf.sum("copies").alias("among"),
        sf.sum(sf.when(many, sf.col("copies")).otherwise(0)).alias("many"),
        sf.sum(sf.when(many, 0).otherwise(1)).alias("contents"),
    )
    total = units.groupBy("topic").agg(sf.count(sf.lit(1)).alias("units"))
    rows = collected(among.join(total, ["topic"]).orderBy("topic"))
    return {row["topic"]: Repeats(row["units"], row["many"], row["units"] - row["among"] + row["contents"]) for row in rows}


def told_apart(alike: DataFrame, repeats: Mapping[str, Repeats]) -> DataFrame:
    """Keeps only the repeated units whose contents can identify duplicates."""
    vague = [topic for topic, each in repeats.items() if each.vague]
    left = alike.where(~sf.col("topic").isin(*vague)) if vague else alike
    if not any(each.many for each in repeats.values()):
        return left
    counted = alike.groupBy("topic", "content").agg(sf.count(sf.lit(1)).alias("copies"))
    return left.join(counted.where(sf.col("copies") > MANY), ["topic", "content"], "left_anti")


def copies(units: DataFrame) -> DataFrame:
    """Returns all repeated units except the originals. `first` is the unit with which a copy is compared: the first such unit
    in the copy's partition; if the copy is itself this first unit, the original."""
    alike = ("topic", "content")
    ranked = units.withColumn("rank", sf.row_number().over(Window.partitionBy(*alike, "partition").orderBy("base_offset")))
    order = Window.partitionBy(*alike).orderBy("rank", "timestamp", "partition", "base_offset")
    whole = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    here = Window.partitionBy(*alike, "partition").orderBy("rank")
    side = sf.struct(*SIDE, "timestamp")
    return (
        ranked.withColumn("number", sf.row_number().over(order))
        .withColumn("original", sf.first(side).over(whole))
        .withColumn("here", sf.first(side).over(here))
        .where("number > 1")
        .withColumn("first", sf.when(sf.col("rank") == 1, sf.col("original")).otherwise(sf.col("here")))
        .withColumn("severity", sf.lit("likely"))
        .drop("original", "here", "rank", "number")
    )


def untold(again: DataFrame, told: DataFrame) -> DataFrame:
    """Returns the copies with their `kind`; leaves out copies that the checks of batches reported as `duplicate`."""
    named = again.withColumn("kind", WORDS.kind(ROW.first, ROW)).withColumn(
        "severity", sf.when(sf.col("kind") == "duplicate", "certain").otherwise(sf.col("severity"))
    )
    by_sequence = told.where("kind = 'duplicate'").select(
        *PARTITION, sf.explode(sf.sequence("first_offset", "last_offset")).alias("base_offset")
    )
    fresh = named.where("kind = 'duplicate'").join(by_sequence, [*PARTITION, "base_offset"], "left_anti")
    return united([named.where("kind <> 'duplicate'"), fresh.select(*named.columns)])


def stored_again(again: DataFrame) -> DataFrame:
    """Makes one finding for each stretch of copies. In a stretch the copies are adjacent and their originals are adjacent. All
    copies have the same producer and epoch, and so do all originals."""
    likeness = (
        "topic", "partition", "kind", "severity", "producer_id", "producer_epoch", "first_partition", "first_producer_id",
        "first_producer_epoch",
    )  # fmt: skip
    flat = again.select("*", *(sf.col(f"first.{name}").alias(f"first_{name}") for name in (*SIDE, "timestamp")))
    order = Window.partitionBy(*likeness).orderBy("base_offset")
    beside = (sf.lag("last_offset").over(order) + 1 == sf.col("base_offset")) & (
        sf.lag("first_last_offset").over(order) + 1 == sf.col("first_base_offset")
    )
    runs = flat.withColumn("breaks", sf.coalesce(~beside, sf.lit(True)).cast("int")).withColumn(
        "stretch", sf.sum("breaks").over(order)
    )
    ends = {name: sf.min_by if name.endswith("base_sequence") else sf.max_by for name in
            ("base_sequence", "last_sequence", "first_base_sequence", "first_last_sequence")}  # fmt: skip
    grouped = runs.groupBy(*likeness, "stretch").agg(
        sf.min("base_offset").alias("base_offset_"), sf.max("last_offset").alias("last_offset"),
        sf.min("first_base_offset").alias("first_base_offset"), sf.max("first_last_offset").alias("first_last_offset"),
        *(pick(name, "base_offset").alias(name) for name, pick in ends.items()),
        sf.sum(sf.col("last_offset") - sf.col("base_offset") + 1).alias("records"),
        sf.min_by("shown", "base_offset").alias("value"), sf.min_by("key", "base_offset").alias("key_bytes"),
        sf.min(sf.col("timestamp") == sf.col("first_timestamp")).alias("same_timestamps"),
    ).withColumnRenamed("base_offset_", "base_offset")  # fmt: skip
    evidence = sf.struct(
        "records", "first_partition", "first_producer_id", "first_producer_epoch", "first_base_sequence",
        "first_last_sequence", "first_base_offset", "first_last_offset",
        head("key_bytes").alias("key"), "value", "same_timestamps",
    )  # fmt: skip
    label = WORDS.label(ROW.key_bytes.isNotNull(), head("key_bytes"), ROW.value)
    labelled = grouped.withColumn("label", sf.coalesce(label, sf.lit("")))
    return finding(labelled, ROW.kind, evidence, WORDS.stored_twice(ROW), ROW.severity)
