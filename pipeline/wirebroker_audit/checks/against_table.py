"""Uses the application's own table as the journal. Finds the rows that have no record, and computes how late the records of the
other rows are.

A TOML file describes the table; see docs/how-to/audit-spark/inputs.md. Rows and records are matched by topic, key and, if the
table has it, value. A pair is a row and its record. If a key has as many rows as records, the first row belongs to the first
record, the second row to the second record, and so on. For any other key, a record belongs to the latest row that precedes the
record and has no record yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegralType, LongType, StringType, StructField, StructType

from wirebroker.common.suggestions import nearest
from wirebroker.common.toml import toml_file
from wirebroker_audit.checks.contents import SIDE, head
from wirebroker_audit.checks.reconcile import digest_of_name
from wirebroker_audit.checks.rows import finding
from wirebroker_audit.spark.pipeline_wording import WORDS
from wirebroker_audit.spark.tables import local_rows, united
from wirebroker_audit.spark.wording import ROW

NAME = ("topic", "key", "value_hash")
STATES = ("stored", "missing", "pending", "gone", "beyond", "unnamed")
"""States of a row. stored: its record is in the log; missing: its record is not in the log; pending: the row is younger than
`grace`; gone: retention or compaction may have removed its record. States of a record. beyond: its key has fewer rows than
records; unnamed: no row has its key.
"""
BUCKETS = 60
"""The rows are counted by intervals of time. There are at most this many intervals."""
WIDTHS = tuple(1000 * seconds for seconds in (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400))
"""The lengths that an interval may have, in milliseconds. If all are too short, a multiple of the last length is used."""
_FACTS = StructType(
    [StructField("topic", StringType()), *(StructField(name, LongType()) for name in ("begins", "ends", "compacted"))]
)
_FIELDS = {
    "format": str, "path": str, "table": str, "options": dict, "jars": list, "packages": list, "where": str, "topic": str,
    "topic_from": str, "key": str, "value": str, "time": str, "grace": int,
}  # fmt: skip


class BadTable(Exception):
    """Raised if a file does not describe a table or the table cannot be read. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Description:
    """The description of a table; `key`, `value`, `time`, `where` and `topic_from` are SQL expressions over its columns."""

    file: str
    key: str
    time: str = ""
    """a timestamp, or milliseconds since 1970; "" if a pipeline writes the table"""
    topic_from: str = ""
    value: str | None = None
    where: str | None = None
    format: str = "parquet"
    path: str | None = None
    table: str | None = None
    """a name in the session's catalog, instead of `format`"""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """options of the format, such as a database's address and password"""
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    grace_ms: int = 60_000
    """if a row is younger than this, its record may still be sent"""

    @property
    def settings(self) -> dict[str, str]:
        """The Spark settings that a session on this machine needs to read the table."""
        given = {"spark.jars": ",".join(self.jars), "spark.jars.packages": ",".join(self.packages)}
        return {name: value for name, value in given.items() if value}


def is_description(path: str | None) -> bool:
    """Tells whether the file is a TOML file, which describes a table. Any other file is a journal."""
    return path is not None and path.endswith(".toml")


def read_description(path: str) -> Description:
    """Reads the description of the table that is used as the journal. Raises BadTable, OSError."""
    given = _settings(path, ("key", "time"))
    if ("topic" in given) == ("topic_from" in given):
        raise BadTable(f"{path}: give either topic (one topic for all rows) or topic_from (the column with the topic)")
    topic = given.pop("topic", None)
    if topic is not None:
        given["topic_from"] = "'" + topic.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return _described(path, given)


def read_output(path: str) -> Description:
    """Returns the description of the table that a pipeline writes. `key` is the part that a row has in common with its input.
    Raises BadTable, OSError."""
    given = _settings(path, ("key",))
    for name in ("topic", "topic_from", "time", "value", "grace"):
        if name in given:
            raise BadTable(f"{path}: the description of a table that a pipeline writes cannot have {name}")
    return _described(path, given)


def _settings(path: str, needed: tuple[str, ...]) -> dict[str, Any]:
    given = toml_file(path, BadTable)
    for name, value in given.items():
        if name not in _FIELDS:
            raise BadTable(f"{path}: there is no setting {name!r}{nearest(name, _FIELDS)}")
        if not isinstance(value, _FIELDS[name]) or isinstance(value, bool):
            raise BadTable(f"{path}: {name} must be {_FIELDS[name].__name__}, not {value!r}")
    if wrong_names := [name for name in needed if name not in given]:
        raise BadTable(f"{path}: {wrong_names[0]} is missing: it names the column with the {wrong_names[0]} of each row")
    return given


def _described(path: str, given: dict[str, Any]) -> Description:
    options = {name: _option(path, name, value) for name, value in given.pop("options", {}).items()}
    lists: dict[str, Any] = {name: tuple(map(str, given.pop(name, ()))) for name in ("jars", "packages")}
    return Description(path, options=options, grace_ms=1000 * given.pop("grace", 60), **lists, **given)


def _option(path: str, name: str, value: Any) -> str:
    """Returns an option of the format; `{ env = "NAME" }` stands for the value of an environment variable, so that no file
    holds a password."""
    if not isinstance(value, dict):
        return str(value).lower() if isinstance(value, bool) else str(value)
    variable = str(value.get("env"))
    if list(value) != ["env"] or variable not in os.environ:
        raise BadTable(f"{path}: options.{name}: there is no environment variable {variable!r}")
    return os.environ[variable]


def read_table(spark: SparkSession, described: Description) -> DataFrame:
    """Returns the rows of the table: topic, key, value_hash, and `time` in milliseconds. Raises BadTable."""
    with _refusals(described):
        rows = _rows(spark, described)
        value = sf.lit(None).cast("string") if described.value is None else sf.sha2(_bytes(rows, described.value), 256)
        chosen = rows.select(
            sf.expr(described.topic_from).cast("string").alias("topic"), _bytes(rows, described.key).alias("key"),
            value.alias("value_hash"), _milliseconds(rows, described.time).alias("time"),
        )  # fmt: skip
        return chosen.where("topic IS NOT NULL AND time IS NOT NULL")


def read_keys(spark: SparkSession, described: Description) -> DataFrame:
    """Returns the `key` of each row of the table. Raises BadTable."""
    with _refusals(described):
        rows = _rows(spark, described)
        return rows.select(_bytes(rows, described.key).alias("key"))


@contextmanager
def _refusals(described: Description) -> Iterator[None]:
    """Turns Spark's errors into BadTable."""
    try:
        yield
    except (PySparkException, Py4JError) as refused:
        lines = [line for line in str(refused).splitlines() if line.strip()]
        raise BadTable(f"{described.file}: the table cannot be read: {lines[0] if lines else refused}") from refused


def _rows(spark: SparkSession, described: Description) -> DataFrame:
    if described.table is not None:
        rows = spark.read.table(described.table)
    else:
        rows = spark.read.format(described.format).options(**described.options).load(described.path)
    return rows if described.where is None else rows.where(described.where)


def _bytes(rows: DataFrame, expression: str) -> Column:
    """Returns the column as bytes: a binary column unchanged, any other column as its text in UTF-8."""
    kind = rows.select(sf.expr(expression).alias("it")).schema["it"].dataType.typeName()
    return sf.expr(expression) if kind == "binary" else sf.expr(expression).cast("string").cast("binary")


def _milliseconds(rows: DataFrame, expression: str) -> Column:
    kind = rows.select(sf.expr(expression).alias("it")).schema["it"].dataType
    column = sf.expr(expression)
    return column.cast("bigint") if isinstance(kind, IntegralType) else sf.unix_millis(column.cast("timestamp"))


def paired(rows: DataFrame, units: DataFrame) -> DataFrame:
    """Joins rows and records into pairs. A record without a row has a null `time`; a row without a record has a null
    `timestamp`. `rows` and `records` count all rows and all records that have the pair's name (`NAME`).
    """
    wanted = rows.select(*NAME, ROW.time.alias("at"), sf.lit(0).alias("side"), sf.lit(-1).cast("bigint").alias("base_offset"))
    stored = units.select(*NAME, ROW.timestamp.alias("at"), sf.lit(1).alias("side"), "base_offset")
    both = united([wanted, stored])
    name = Window.partitionBy(*NAME)
    order = ("at", "side", "base_offset")
    depth = sf.sum(1 - 2 * ROW.side).over(name.orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.currentRow))
    numbered = (
        both.withColumn("rows", sf.sum(1 - ROW.side).over(name))
        .withColumn("records", sf.sum("side").over(name))
        .withColumn("level", depth + ROW.side)  # as with brackets: a row opens a level, and the next record closes it
        .withColumn("turn", sf.row_number().over(Window.partitionBy(*NAME, "level").orderBy(*order)))
        .withColumn("rank", sf.row_number().over(Window.partitionBy(*NAME, "side").orderBy(*order)))
    )
    by_level = sf.struct(ROW.level.cast("bigint").alias("one"), sf.ceil(ROW.turn / 2).alias("other"))
    by_rank = sf.struct(sf.lit(0).cast("bigint").alias("one"), ROW.rank.cast("bigint").alias("other"))
    pair = sf.when(ROW.rows == ROW.records, by_rank).otherwise(by_level)
    return numbered.groupBy(*NAME, "rows", "records", pair.alias("pair")).agg(
        sf.max(sf.when(ROW.side == 0, ROW.at)).alias("time"), sf.max(sf.when(ROW.side == 1, ROW.at)).alias("timestamp")
    )


def facts_of(units: DataFrame, bounds: list[tuple[str, int, int, int]]) -> DataFrame:
    """Returns a row for each topic. `begins`: since this time, all partitions of the topic have records; null if nothing was
    removed from the beginning of any partition. `ends` is the time of the topic's latest record. `compacted` tells whether the
    topic was compacted.
    """
    times = units.groupBy("topic", "partition").agg(sf.min("timestamp").alias("first"), sf.max("timestamp").alias("last"))
    seen = {(row["topic"], row["partition"]): row for row in times.collect()}
    facts: dict[str, tuple[int | None, int, int]] = {}
    for topic, partition, log_start, cleaned_until in bounds:
        row = seen.get((topic, partition))
        begins, ends, compacted = facts.get(topic, (None, -1, 0))
        if log_start > 0 and row is not None:
            begins = max(begins or 0, row["first"])
        facts[topic] = begins, max(ends, row["last"] if row is not None else -1), compacted or int(cleaned_until > log_start)
    return local_rows(units.sparkSession, ((topic, *each) for topic, each in facts.items()), _FACTS)


def judged(pairs: DataFrame, facts: DataFrame, now: int, grace_ms: int) -> DataFrame:
    """Adds the `state` of each pair, and the `severity` of a missing record."""
    row = sf.when(ROW.timestamp.isNotNull(), "stored")
    row = row.when((sf.coalesce("compacted", sf.lit(0)) > 0) & (ROW.records > 0), "gone").when(ROW.time < ROW.begins, "gone")
    row = row.when(ROW.time > now - grace_ms, "pending").otherwise("missing")
    record = sf.when(ROW.rows > 0, "beyond").otherwise("unnamed")
    removed = ROW.begins.isNotNull() | (ROW.compacted > 0) | (ROW.time + grace_ms > ROW.ends) | ROW.ends.isNull()
    return (
        pairs.join(sf.broadcast(facts), ["topic"], "left")
        .withColumn("state", sf.when(ROW.time.isNull(), record).otherwise(row))
        .withColumn("severity", sf.when(removed, "likely").otherwise("certain"))
    )


def lost(judged: DataFrame) -> DataFrame:
    """Returns a finding for each row without a record."""
    rows = judged.where("state = 'missing'").withColumn("partition", sf.lit(-1))
    rows = rows.withColumns({name: sf.lit(-1) for name in SIDE if name != "partition"})
    rows = rows.withColumn("label", sf.date_format(sf.timestamp_millis("time"), "yyyy-MM-dd HH:mm:ss"))
    counts = (ROW.rows.alias("rows_of_key"), ROW.records.alias("records_of_key"))
    copy = sf.row_number().over(Window.partitionBy(*NAME, "time").orderBy(ROW.pair.one, ROW.pair.other)).alias("copy")
    evidence = sf.struct(head("key").alias("key"), "time", *counts, digest_of_name(), copy)
    words = WORDS.row_without_record(head("key"), ROW.label, ROW.rows, ROW.records)
    return finding(rows, "lost", evidence, words, ROW.severity)


def width_for(first: int, last: int) -> int:
    """Returns the length, in milliseconds, of the intervals that divide the time from `first` to `last`."""
    needed = (last - first) // BUCKETS + 1
    return next((width for width in WIDTHS if width >= needed), -(-needed // WIDTHS[-1]) * WIDTHS[-1])


def by_time(judged: DataFrame, first: int, last: int, width: int) -> DataFrame:
    """Counts each state by topic and interval, and computes in ms how late the records are: `median`, `p99`, `latest`.

    A record without a row belongs to interval −1 if it is older or younger than all rows.
    """
    at = sf.coalesce("time", sf.when(ROW.timestamp.between(first, last), ROW.timestamp))
    late = sf.when(ROW.state == "stored", sf.greatest(ROW.timestamp - ROW.time, sf.lit(0)))
    return (
        judged.groupBy("topic", sf.coalesce((sf.floor(at / width) * width).cast("bigint"), sf.lit(-1)).alias("begins_at"))
        .agg(
            *(sf.count(sf.when(ROW.state == state, 1)).alias(state) for state in STATES),
            *(sf.percentile_approx(late, sf.lit(part)).cast("bigint").alias(name) for name, part in
              (("median", 0.5), ("p99", 0.99), ("latest", 1.0))),
        )
        .orderBy("topic", "begins_at")
    )  # fmt: skip


def summary_of(file: str, buckets: list[dict[str, Any]], width: int) -> dict[str, Any]:
    """Returns the sums and the intervals of each topic, for the report."""
    topics: dict[str, Any] = {}
    for each in buckets:
        sums = topics.setdefault(each["topic"], dict.fromkeys(STATES, 0) | {"latest_ms": 0, "buckets": []})
        for state in STATES:
            sums[state] += each[state]
        sums["latest_ms"] = max(sums["latest_ms"], each["latest"] or 0)
        if each["begins_at"] >= 0:
            sums["buckets"].append({name: value for name, value in each.items() if name != "topic"})
    return {"description": file, "bucket_ms": width, "topics": topics}


def milliseconds(moment: datetime) -> int:
    """Returns the time in ms since the epoch."""
    return int(moment.timestamp() * 1000)


def sentence(sums: Mapping[str, Any]) -> str:
    """Sums up the table's rows for one topic in words."""
    rows = sum(sums[state] for state in ("stored", "missing", "pending", "gone"))
    return (
        f"the table has {rows:,} rows; {sums['stored']:,} are stored, {sums['missing']:,} are missing, {sums['pending']:,} may "
        f"still be sent, {sums['gone']:,} may have been removed. Records without a row: {sums['beyond'] + sums['unnamed']:,}. "
        f"The latest record came {sums['latest_ms'] / 1000:,.1f} s after its row"
    )
