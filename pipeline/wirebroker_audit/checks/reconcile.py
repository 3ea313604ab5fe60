"""Compares the stored records with the application's journal. Finds lost records, further copies, and stored records whose
sending was reported as failed.

A journal names a record by topic, key and value. Most names occur once in the journal and once in the log. `names` finds all
other names. Only rows with these other names are read again, and only names that occur on both sides are matched one by one.
The rows have a `hash` and a `check`, see `naming.with_names`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from wirebroker.audit.matching import Place, Wish, match
from wirebroker_audit.checks.contents import SIDE, head, visible
from wirebroker_audit.checks.names import LeftOut, odd_names, picked
from wirebroker_audit.checks.rows import finding
from wirebroker_audit.spark.columns import PARTITION
from wirebroker_audit.spark.tables import in_groups, settled, united
from wirebroker_audit.spark.wording import ROW, WORDS

Row = dict[str, Any]
NAME = ("topic", "key", "value_hash")


class Reconciled(NamedTuple):
    """The result of matching."""

    unnamed: DataFrame
    """stored units that the journal does not name"""
    beyond: DataFrame
    """unintended copies; `first` is the copy with which the unintended copy is compared"""
    findings: DataFrame
    """lost, unacknowledged_stored"""


def reconcile(
    records: DataFrame, rows_of: Callable[[DataFrame], DataFrame], intended: DataFrame, deleted: DataFrame,
    left_out: LeftOut, count: int,
) -> Reconciled:  # fmt: skip
    """Match the stored records with the intended records.

    `rows_of` turns records into units; a unit has a `hash` and the outcome of its `transaction`. `left_out` tells which records
    are not visible. `deleted` has the number of offsets that retention or compaction removed from each partition. `count` is
    the approximate number of all records.
    """
    odd = settled(odd_names(records, intended, left_out, count))
    both, absent, unnamed = (odd.where(which).select("hash") for which in (
        "wanted > 0 AND stored > 0", "wanted > 0 AND stored = 0", "wanted = 0"))  # fmt: skip
    stored, wanted = (
        settled(rows_of(picked(records, odd))),
        settled(picked(intended, odd).withColumn("shown", shown_of_intended())),
    )
    hidden, seen = stored.where("transaction IN ('aborted', 'open')"), visible(stored)
    stored_twice = _named(seen.join(both, ["hash"], "left_semi"))
    matched = settled(_matched(stored_twice, _named(wanted.join(both, ["hash"], "left_semi"))))
    missing = united([matched.where("outcome = 'missing'"), _missing(_named(wanted.join(absent, ["hash"], "left_semi")))])
    lost = _lost(missing, _named(hidden), deleted)
    rest = seen.join(unnamed, ["hash"], "left_semi").drop("hash")
    return Reconciled(rest, matched.where("outcome = 'beyond'"), united([lost, _unacknowledged(matched)]))


def shown_of_intended() -> Column:
    """Returns the value of an intended record, for explanations. `shown` is null if the journal has only a hash."""
    return sf.coalesce("shown", sf.concat(sf.lit("the SHA-256 "), "value_hash"), sf.lit("null"))


def _named(rows: DataFrame) -> DataFrame:
    parts = (sf.col("topic"), sf.coalesce(sf.hex("key"), sf.lit("-")), sf.coalesce("value_hash", sf.lit("-")))
    return rows.withColumn("name", sf.concat_ws(":", *parts)).drop("hash", "check")


def _missing(wanted: DataFrame) -> DataFrame:
    """Returns the intended records that have no stored copy. Records whose sending was reported as failed are left out. `copy`
    numbers equal records."""
    copy = sf.row_number().over(Window.partitionBy("name").orderBy("partition", "producer")) - 1
    absent = wanted.where(sf.coalesce("acknowledged", sf.lit(True))).withColumn("copy", copy)
    return absent.withColumn("outcome", sf.lit("missing"))


def _matched(stored: DataFrame, wanted: DataFrame) -> DataFrame:
    """Returns the records that do not match, each with its `outcome`: beyond (an unintended copy), failed (stored, although
    sending was reported as failed) or missing."""
    left = stored.withColumn("side", sf.lit("stored"))
    right = wanted.withColumn("side", sf.lit("wanted"))
    both = united([left, right])
    side = StructType([field for field in both.schema.fields if field.name in (*SIDE, "timestamp")])
    fields = [field for field in both.schema.fields if field.name != "side"]
    schema = StructType(
        [
            *fields,
            StructField("outcome", StringType()),
            StructField("severity", StringType()),
            StructField("copy", IntegerType()),
            StructField("first", side),
        ]
    )
    arrow = to_arrow_schema(schema)

    def match(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        made = match_rows([row for row in rows if row["side"] == "stored"], [row for row in rows if row["side"] == "wanted"])
        return pa.Table.from_pylist([{name: row.get(name) for name in arrow.names} for row in made], schema=arrow)

    return in_groups(both, ("name",), match, schema)


def match_rows(stored: Sequence[Row], wanted: Sequence[Row]) -> list[Row]:
    """Matches the stored copies of one name with its intended records, as `wirebroker.audit.matching` does. Returns the missing
    records, the stored copies whose sending was reported as failed, and the unintended copies."""
    places = [Place(row["partition"], row["base_offset"], row["timestamp"]) for row in stored]
    matched = match(places, [Wish(each["partition"], each["acknowledged"]) for each in wanted])
    made = [wanted[wish] | {"outcome": "missing", "copy": copy} for copy, wish in enumerate(matched.missing)]
    made += [stored[copy] | {"outcome": "failed", "producer": wanted[wish]["producer"]} for copy, wish in matched.failed]
    for again, first in matched.beyond:
        side = {name: stored[first][name] for name in (*SIDE, "timestamp")}
        made.append(stored[again] | {"outcome": "beyond", "severity": "certain", "first": side})
    return made


def _unacknowledged(matched: DataFrame) -> DataFrame:
    rows = matched.where("outcome = 'failed'")
    evidence = sf.struct(head("key").alias("key"), "producer")
    words = WORDS.unacknowledged_stored(_record(), ROW.base_offset)
    return finding(rows, "unacknowledged_stored", evidence, words, "certain")


def _lost(missing: DataFrame, hidden: DataFrame, deleted: DataFrame) -> DataFrame:
    """Returns records that are missing in the log. The deletion may explain all missing records if at least as many offsets
    were deleted as records are missing.
    """
    place = sf.coalesce("partition", sf.lit(-1))
    near = hidden.groupBy("name").agg(
        *(sf.max_by(name, "base_offset").alias(f"near_{name}") for name in ("transaction", "partition", "base_offset"))
    )
    rows = missing.select(*NAME, "name", place.alias("partition"), "acknowledged", "producer", "shown", "copy")
    groups = rows.groupBy(*PARTITION).agg(sf.count(sf.lit(1)).alias("missing"))
    of_topic = deleted.groupBy("topic").agg(sf.sum("deleted").alias("deleted")).withColumn("partition", sf.lit(-1))
    gone = united([deleted.select(*PARTITION, "deleted"), of_topic])
    counted = groups.join(gone, [*PARTITION], "left").fillna(0, ["deleted"])
    severity = sf.when(sf.col("deleted") == 0, "certain").when(sf.col("missing") <= sf.col("deleted"), "info")
    lost = rows.join(sf.broadcast(counted), [*PARTITION]).join(near, ["name"], "left")
    hides = WORDS.in_transaction(ROW.near_partition, ROW.near_base_offset, ROW.near_transaction == "aborted")
    words = WORDS.lost(_record(), ROW.acknowledged, sf.coalesce(hides, sf.lit("")), ROW.missing, ROW.deleted)
    none = {name: sf.lit(-1) for name in SIDE if name != "partition"}
    evidence = sf.struct(head("key").alias("key"), "acknowledged", "producer", digest_of_name(), "copy")
    return finding(lost.withColumns(none), "lost", evidence, words, severity.otherwise("likely"))


def digest_of_name() -> Column:
    """Returns a digest of the record's key and value, as the `record` of a finding's evidence."""
    parts = (sf.coalesce(part, sf.lit("-")) for part in (sf.sha2("key", 256), sf.col("value_hash")))
    return sf.substring(sf.sha2(sf.concat_ws(":", *parts).cast("binary"), 256), 1, 16).alias("record")


def _record() -> Column:
    """Returns the record as the journal names it."""
    record: Column = WORDS.record(ROW.key.isNotNull(), head("key"), ROW.shown)
    return record
