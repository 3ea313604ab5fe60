"""Columns and windows that all checks use, and functions that turn rows into findings."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf

from kafkawire.batches import CONTROL, TRANSACTIONAL
from wirebroker.audit.findings import DAMAGE, INTERNAL_TOPICS, severity_of
from wirebroker_audit.folding.schema import FINDINGS, REPORTED
from wirebroker_audit.spark.columns import LOG_ORDER, PRODUCER
from wirebroker_audit.spark.wording import ROW, WORDS, column_of

BREAKS = (*DAMAGE, "deleted", "unreadable", "old_format")
"""If batches have one of these problems, no row has their offsets."""
PLACE = ("base_offset", "last_offset", "base_sequence", "last_sequence", "max_timestamp", *LOG_ORDER)
ABOUT = (*PRODUCER, "producer_epoch", *PLACE)
IDENTITY = ("kind", "topic", "partition", "producer_id", "producer_epoch", "first_sequence", "first_offset")
OF_EVIDENCE = ("group", "committed", "at_ms", "replica", "record", "time", "copy")
"""These fields of the evidence distinguish findings that have no offset, and findings about a group or a replica."""


def by_log(keys: tuple[str, ...]) -> WindowSpec:
    """Returns a window over the rows with equal keys, in the order of the log."""
    return Window.partitionBy(*keys).orderBy(*LOG_ORDER)


def earlier(keys: tuple[str, ...]) -> WindowSpec:
    """Returns a window over the rows that precede a row in the log and have the same keys."""
    return by_log(keys).rowsBetween(Window.unboundedPreceding, -1)


def kind_of_row() -> Column:
    """Returns the transactional and the control bit of the attributes."""
    return sf.col("attributes").bitwiseAND(sf.lit(TRANSACTIONAL | CONTROL))


def is_marker() -> Column:
    """Tells whether a row is a marker, by its `kind`."""
    return sf.col("kind").bitwiseAND(sf.lit(CONTROL)) != 0


def is_transactional() -> Column:
    """Tells whether a row is a batch of data in a transaction, by its `kind`."""
    return sf.col("kind") == TRANSACTIONAL


def is_internal() -> Column:
    """Tells whether a row is about an internal topic, which belongs to the coordinators."""
    return sf.col("topic").isin(*INTERNAL_TOPICS)


def place_of_row() -> Column:
    """Returns `PLACE` as one column."""
    return sf.struct(*PLACE)


def finding(
    rows: DataFrame, kind: Column | str, evidence: Column, words: Column, severity: Column | str | None = None
) -> DataFrame:
    """Returns findings about the batches or records in the rows. `kind` and `severity` are names or columns.

    By default a finding has the severity of its kind; `kind` must then be a name.
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
        columns.append(
            value.cast(field.dataType.simpleString()).alias(field.name)
        )  # a string, because PySpark would call the JVM many times for a DataType
    return rows.select(*columns)


def identified(findings: DataFrame) -> DataFrame:
    """Adds `id`, 16 hexadecimal digits. An `id` is the same in every audit of this log, and no other finding has it.

    An `id` is a hash of the fields `IDENTITY` and `OF_EVIDENCE`, which have the same values in a later audit.
    """
    evidence = (sf.get_json_object("evidence", f"$.{name}") for name in OF_EVIDENCE)
    parts = [sf.coalesce(part.cast("string"), sf.lit("")) for part in (*map(sf.col, IDENTITY), *evidence)]
    parts.append(sf.get_json_object("evidence", "$.pipeline"))  # most kinds have no pipeline: null, and concat_ws leaves it out
    digest = sf.substring(sf.sha2(sf.concat_ws("\x00", *parts).cast("binary"), 256), 1, 16)
    return findings.withColumn("id", digest).select(*REPORTED.names)
