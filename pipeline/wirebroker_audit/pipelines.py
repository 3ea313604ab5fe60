"""A stage of the audit that follows the records of pipelines from inputs to outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from wirebroker_audit.checks import consumers, contents
from wirebroker_audit.checks.against_table import read_keys
from wirebroker_audit.checks.groups import OFFSETS_TOPIC, Seen, Step
from wirebroker_audit.checks.pipeline import TRANSACTION, Facts, Pipeline
from wirebroker_audit.checks.pipeline_transactions import counted
from wirebroker_audit.checks.pipelines import judged, of_tables
from wirebroker_audit.folding import schema
from wirebroker_audit.inputs.pipelines import BadPipeline
from wirebroker_audit.origin import Origin
from wirebroker_audit.reading.identities import Wanted
from wirebroker_audit.sources import tasks
from wirebroker_audit.spark.columns import PARTITION
from wirebroker_audit.spark.tables import collected, local_rows, settled, united

_JUMPS = StructType(
    [
        StructField("step", IntegerType()), StructField("pipeline", IntegerType()), StructField("topic", StringType()),
        StructField("partition", IntegerType()), StructField("start", LongType()), StructField("stop", LongType()),
    ]
)  # fmt: skip
"""The offsets that a jump passed, for each pipeline of its group."""


@dataclass(slots=True)
class Followed:
    """The result of following all pipelines."""

    findings: list[DataFrame] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    """the rows of the summary, one for each pipeline"""
    by_records: list[tuple[Pipeline, Facts]] = field(default_factory=list)
    """the pipelines whose records are matched"""
    unprocessed: DataFrame | None = None
    """the inputs that have no output; `pipeline` is an index into `by_records`"""
    notices: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Log:
    """The log as the earlier stages have read it."""

    spark: SparkSession
    origin: Origin
    batches: DataFrame
    bounds: DataFrame
    seen: Seen
    """the groups' commits"""
    expiration_ms: int
    until_ms: int
    """the commits of a live cluster were certainly read up to this time"""
    work: Path
    """the folder of intermediate tables"""
    aside: Callable[[DataFrame, str], DataFrame]
    """writes an intermediate table"""
    unreadable: Callable[[DataFrame], None]
    """reports what could not be read"""


def check_topics(pipelines: Sequence[Pipeline], origin: Origin) -> None:
    """Raises BadPipeline if the log does not have a topic of a pipeline."""
    known = {topic for topic, *_ in origin.bounds}
    for each in pipelines:
        if absent := [topic for topic in (*each.inputs, *each.outputs) if topic not in known]:
            raise BadPipeline(f"pipeline {each.name}: {origin.name} has no topic {absent[0]}, or --topic leaves the topic out")


def follow(pipelines: Sequence[Pipeline], log: Log) -> Followed:
    """Follow the records of all pipelines. Raises BadTable."""
    followed = Followed()
    matched: list[dict[str, Any]] = []
    counted_in: list[tuple[Pipeline, Facts, dict[str, Any]]] = []
    rows = contents.deleted(log.batches, log.bounds).groupBy("topic").agg(sf.sum("deleted").alias("deleted"))
    removed = {row["topic"]: row["deleted"] for row in collected(rows)}
    wrong = log.batches.where("problem IS NOT NULL AND problem <> 'offset_regression'")
    damaged, unread = _troubled(wrong)
    for pipeline in pipelines:
        topics = {*pipeline.inputs, *pipeline.outputs}
        group, notices = group_of(pipeline, log)
        followed.notices += notices
        facts = Facts(
            group, {where[1:]: offset for where, offset in log.seen.reached.items() if where[0] == group},
            sum(removed.get(topic, 0) for topic in pipeline.inputs), sum(removed.get(topic, 0) for topic in pipeline.outputs),
            not damaged.isdisjoint(topics), log.until_ms, unread & topics,
        )  # fmt: skip
        row: dict[str, Any] = {
            "name": pipeline.name, "in": list(pipeline.inputs),
            "out": list(pipeline.outputs) if pipeline.table is None else pipeline.table.file,
            "match": str(pipeline.match or TRANSACTION), "group": group,
        }  # fmt: skip
        followed.rows.append(row)
        if pipeline.match is not None:
            followed.by_records.append((pipeline, facts))
            matched.append(row)
        elif group is None:
            followed.problems.append(f"pipeline {pipeline.name}: no group is known, so no transaction was compared")
        elif facts.unread:
            not_read = " and ".join(sorted(facts.unread))
            followed.problems.append(f"pipeline {pipeline.name}: {not_read} was not read whole, so no transaction was compared")
        else:
            counted_in.append((pipeline, facts, row))
    if matched:
        _by_records(followed, log, matched)
    if counted_in:
        _by_transactions(followed, log, counted_in)
    return followed


def _troubled(rows: DataFrame) -> tuple[set[str], frozenset[str]]:
    """Returns two sets of topics: topics whose rows have a problem, and topics with a part that could not be read at all."""
    found = collected(rows.groupBy("topic").agg(sf.max(sf.col("problem") == "unreadable").alias("unread")))
    return {row["topic"] for row in found}, frozenset(row["topic"] for row in found if row["unread"])


def group_of(pipeline: Pipeline, log: Log) -> tuple[str | None, list[str]]:
    """Returns the pipeline's group: the only group that commits the pipeline's inputs, or the only group that commits them in
    transactions. If there is no such group, the list has a notice."""
    name = f"pipeline {pipeline.name}"
    waiting = "inputs after the last input with an output may still be processed"
    groups = sorted({group for group, topic, _ in log.seen.reached if topic in pipeline.inputs})
    if pipeline.group is not None:
        if pipeline.group in groups:
            return pipeline.group, []
        return None, [f"{name}: group {pipeline.group!r} has committed no offset of its inputs, so {waiting}"]
    transactional = [group for group in groups if group in log.seen.pipelines]
    for chosen in (groups, transactional):
        if len(chosen) == 1:
            return chosen[0], []
    if groups:
        listed = f"{', '.join(groups[:5])}{' …' if groups[5:] else ''}"
        return None, [f"{name}: the groups {listed} commit its inputs, so {waiting}; name its group in a TOML file"]
    return None, [f"{name}: no group commits its inputs, so {waiting}"]


def passed_by(jumps: Sequence[Step], followed: Followed) -> dict[Step, int]:
    """For each jump of a followed group, counts the passed inputs that have no output."""
    asked = [
        (place, number, step.commit.topic, step.commit.partition, step.before.offset, step.commit.offset)
        for place, step in enumerate(jumps)
        for number, (pipeline, facts) in enumerate(followed.by_records)
        if facts.group == step.commit.group and step.commit.topic in pipeline.inputs
    ]
    if not asked or followed.unprocessed is None:
        return {}
    steps = local_rows(followed.unprocessed.sparkSession, asked, _JUMPS)
    both = followed.unprocessed.join(sf.broadcast(steps), ["pipeline", *PARTITION])
    passed = both.where("offset >= start AND offset < stop").groupBy("step", "pipeline").count()
    found = dict.fromkeys((jumps[place] for place, *_ in asked), 0)
    for row in collected(passed):
        step = jumps[row["step"]]
        found[step] = max(found[step], row["count"])
    return found


def _by_transactions(followed: Followed, log: Log, pipelines: Sequence[tuple[Pipeline, Facts, dict[str, Any]]]) -> None:
    """Counts the inputs and outputs of each transaction."""
    groups = frozenset(facts.group for _, facts, _ in pipelines if facts.group is not None)
    passed = log.aside(consumers.passed(log.spark, log.origin.pieces_of(OFFSETS_TOPIC), groups), "passed")
    for pipeline, facts, row in pipelines:
        result = counted(pipeline, facts, passed, log.batches, log.bounds.select(*PARTITION, "log_start"))
        followed.findings += result.findings
        row["records"] = result.counts


def _by_records(followed: Followed, log: Log, matched: Sequence[dict[str, Any]]) -> None:
    """Reads the identities of inputs and outputs, and compares the two sides."""
    pipelines = [pipeline for pipeline, _ in followed.by_records]
    wanted: dict[str, list[Wanted]] = {}
    for number, pipeline in enumerate(pipelines):
        for topic, each in pipeline.wanted(number):
            wanted.setdefault(topic, []).append(each)
    pieces = [each for each in log.origin.pieces if each.topic in wanted]
    rows = tasks.identities(log.spark, pieces, log.work / "identities", wanted, log.expiration_ms)
    problems = settled(rows.where("problem IS NOT NULL"))
    log.unreadable(problems)
    damaged, unread = _troubled(problems)
    starts = log.bounds.select(*PARTITION, "log_start")
    rows = rows.where("problem IS NULL").join(sf.broadcast(starts), [*PARTITION]).where("offset >= log_start").drop("log_start")
    data = contents.data_batches(log.batches).where(sf.col("topic").isin(*wanted))
    rows = contents.with_outcome(rows, data, log.batches)
    tables = {number: each.table for number, each in enumerate(pipelines) if each.table is not None}
    if tables:
        keys = {number: read_keys(log.spark, table) for number, table in tables.items()}
        none = local_rows(log.spark, [], schema.IDENTITIES).withColumn("transaction", sf.lit("none"))
        rows = united([rows, log.aside(of_tables(keys, pipelines, none), "tables")])
    known = []
    for pipeline, facts in followed.by_records:
        topics = {*pipeline.inputs, *pipeline.outputs}
        is_damaged = facts.is_damaged or not damaged.isdisjoint(topics)
        known.append(facts._replace(is_damaged=is_damaged, unread=facts.unread | (unread & topics)))
    result = judged(pipelines, known, rows)
    followed.findings += result.findings
    followed.notices += result.notices
    followed.problems += result.problems
    followed.unprocessed = result.unprocessed
    for row, counts in zip(matched, result.counts, strict=True):
        row["records"] = counts
