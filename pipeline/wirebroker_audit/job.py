"""The audit from beginning to end: scan → batches → checks → contents → reconcile → other rules → report."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from wirebroker.audit.findings import INTERNAL_TOPICS, weight
from wirebroker.common.version import __version__
from wirebroker_audit import pipelines
from wirebroker_audit.checks import against_table, consumers, contents, groups, names, other_rules
from wirebroker_audit.checks import batches as checks
from wirebroker_audit.checks.against_table import read_table
from wirebroker_audit.checks.coordinators import Open
from wirebroker_audit.checks.pipeline import FOREVER
from wirebroker_audit.checks.reconcile import reconcile
from wirebroker_audit.checks.rows import identified
from wirebroker_audit.folding import schema
from wirebroker_audit.folding.since import BATCHES, RUNS, Earlier
from wirebroker_audit.inputs.journal import Journal, read_journal
from wirebroker_audit.inputs.pipelines import turns_of
from wirebroker_audit.inputs.policy import IGNORED
from wirebroker_audit.inputs.trace import read_trace
from wirebroker_audit.logs.durability import notices_of
from wirebroker_audit.origin import SMALL_RECORDS, Cluster, Directory, Origin
from wirebroker_audit.reading.folders import EVERYTHING
from wirebroker_audit.reading.pieces import Piece
from wirebroker_audit.report.folder import SUMMARY, whole_or_nothing
from wirebroker_audit.report.history import earlier, entry_of, save
from wirebroker_audit.request import REFUSALS, CannotAudit, Request
from wirebroker_audit.sources import expected, tasks
from wirebroker_audit.spark import tables
from wirebroker_audit.spark.columns import PARTITION
from wirebroker_audit.spark.tables import collected, local_rows, settled, united

if TYPE_CHECKING:
    from wirebroker_audit.report.coverage import Compared

COMMITS_MS = 60_000
"""If a transaction ended less than this many ms before the audit, the commit of its offsets may not have been read."""
OPEN_LIMIT = 10_000
"""At most this many open transactions are joined with the states of their coordinators."""
SAID = 20
"""At most this many problems are listed. All problems are counted."""
DESCRIPTION = "spark.job.description"
"""Spark's page shows the value of this local property as the description of a job."""
WORK, RECORDS = ".work", "records"
"""The folder for intermediate tables, which is not part of the report, and its subfolder for records."""
_RULES = StructType([StructField(name, StringType()) for name in ("topic", "kind", "chosen")])
_OPEN = tuple(name for name in Open._fields if name in schema.FINDINGS.names)
_TOLD = StructType(
    [
        *(field for field in schema.FINDINGS if field.name in _OPEN),
        *(StructField(name, StringType()) for name in ("kind", "words", "told", "now")),
    ]
)


@dataclass(slots=True)
class Result:
    """The result of an audit."""

    summary: dict[str, Any]
    findings: list[dict[str, Any]] = field(default_factory=list)
    """the first findings of each kind"""

    @property
    def exit_code(self) -> int:
        """Returns 2 if something could not be read, else 1 if a finding fails the audit by its topic's policy, else 0."""
        return int(self.summary["failing"] > 0) if self.summary["complete"] else 2


Stage = Callable[[str], None]
Expect = Callable[[Mapping[str, float]], None]


def audit(
    spark: SparkSession, request: Request, stage: Stage = lambda name: None, expect: Expect = lambda seconds: None
) -> Result:
    """Run the audit and write the report; `stage` receives the name of each stage. The name also describes Spark's jobs.
    `expect` receives estimates of how many seconds each stage takes, and is called again when better estimates are known.
    Raises CannotAudit."""

    def described(name: str) -> None:
        spark.sparkContext.setJobDescription(f"wirebroker audit: {name}")
        stage(name)

    try:
        request.check()
        described("listing partitions")
        request, origin = _without_skipped(spark, request)
        with whole_or_nothing(request.out.resolve()) as folder:
            return _Audit(spark, request, origin, folder, described, expect).run()
    except REFUSALS as refused:
        raise CannotAudit(str(refused)) from refused
    finally:
        spark.sparkContext.setLocalProperty(DESCRIPTION, None)  # type: ignore[arg-type]


def _without_skipped(spark: SparkSession, request: Request) -> tuple[Request, Origin]:
    """Returns the request and its origin, both without the topics that the policy ignores."""
    origin, policies = origin_of(spark, request), request.policies
    topics = sorted({topic for topic, *_ in origin.bounds})
    if skipped := [topic for topic in topics if policies.of(topic).skip]:
        request = replace(request, topics=tuple(topic for topic in topics if topic not in skipped))
        if not request.topics:
            raise CannotAudit(f"{request.policy} ignores every topic, so there is nothing to audit")
        origin = origin_of(spark, request)
        origin.notices.append(f"{request.policy} ignores {', '.join(skipped[:SAID])}{' …' if skipped[SAID:] else ''}")
    origin.bounds = [
        (topic, partition, start, EVERYTHING if policies.of(topic).compacted else cleaned)
        for topic, partition, start, cleaned in origin.bounds
    ]
    return request, origin


def origin_of(spark: SparkSession, request: Request) -> Directory | Cluster:
    if request.path is not None:
        return Directory(spark, request.path, request.topics, store=request.remote_store)
    assert request.bootstrap is not None
    return Cluster(spark, request.bootstrap, request.topics, request.access, turns_of(request.pipelines))


class _Audit:
    """One audit; each stage writes tables that later stages read."""

    def __init__(
        self, spark: SparkSession, request: Request, origin: Origin, folder: Path, stage: Stage, expect: Expect
    ) -> None:
        self.expect = expect
        self.spark, self.request, self.origin, self.folder, self.stage = spark, request, origin, folder, stage
        self.began = datetime.now(UTC)
        self.policies, self.pipelines = request.policies, request.pipelines
        pipelines.check_topics(self.pipelines, origin)
        self.problems, self.notices = [*origin.problems], [*origin.notices]
        self.table: DataFrame | None = None
        self.compared: dict[str, Compared] = {}
        self.lateness: dict[str, Any] | None = None

    def run(self) -> Result:
        work = self.folder / WORK
        work.mkdir()
        self.origin.pin()
        table_is_small = self._read_table()
        with ExitStack() as together:
            if self.request.together and self.origin.is_small and self.request.inputs_are_small() and table_is_small:
                together.enter_context(tables.together(self.spark))
            return self._run(together)

    def _run(self, together: ExitStack) -> Result:
        pieces, carried = self._to_read()
        intended = self._journal(pieces)
        arrivals = self._arrivals()
        self.stage(expected.SCAN)
        kept = self.folder.resolve() / BATCHES
        kept.mkdir()
        records = self.folder.resolve() / WORK / RECORDS if intended is not None and carried is None else None
        folded = tasks.fold(self.spark, pieces, kept, self.request.expiration_ms, records)
        if carried is not None:
            tables.added(carried.batches(), kept)
            folded = united([folded, carried.runs()])
        folded = settled(folded)
        by_partition = checks.summed(folded)
        totals = self._totals(folded, by_partition)
        if self._counted(totals, intended) > SMALL_RECORDS:
            together.close()
        batches = tables.stored(self.spark, kept, schema.BATCHES)
        self._unreadable(batches)
        self.stage(expected.CHECKS)
        bounds = settled(checks.with_compaction(self.origin.bounds_frame(), folded))
        found = checks.findings_of(batches, folded, bounds, self.request.expiration_ms)
        findings = self._with_findings(self._with_coordinators(self._aside(found, "checked")))
        if (between := self.origin.between_replicas()) is not None:
            self.stage("comparing replicas")
            findings = self._with_findings(between)
        self.notices += notices_of(self.origin.durability, {name: each["producers"] for name, each in totals.items()})
        for found in self._by_content(batches, bounds, findings, totals, intended):
            findings = self._with_findings(found)
        ranges = self._ranges(by_partition)
        findings, commits = self._with_groups(findings, batches, bounds, ranges)
        outcomes = self._what_if(arrivals)
        self.stage(expected.WRITING)
        before = self.request.since or self.request.out
        from wirebroker_audit.report import (
            changes,
            coverage,
            write_report,
        )  # slow to import; `command` imports it while Java starts

        changed = changes.since(findings, before)
        summary = self._summary(findings, totals, outcomes) | {"ranges": ranges, "changes": changed} | commits
        summary["coverage"] = coverage.coverage(ranges, batches, self.compared, self.request.intended)
        summary["coverage"]["elections_from_ms"] = self.origin.elections_ms
        tables.added(folded, self.folder / RUNS)
        self.origin.state_of(folded, self.request.expiration_ms).save(self.folder)
        history = [*earlier(before), entry_of(summary)]
        save(self.folder, history)
        shown = write_report(self.folder, summary, batches, folded, findings, outcomes, history, before)
        shutil.rmtree(self.folder / WORK, ignore_errors=True)
        (self.folder / SUMMARY).write_text(json.dumps(summary, indent=1), encoding="utf-8")
        coverage.write_sums(self.folder)
        return Result(summary, shown)

    def _journal(self, pieces: Sequence[Piece]) -> Journal | None:
        """Reads the journal, if there is a journal and it is not a table."""
        self.expect(expected.by_size(pieces, self.request.journal_bytes, by_record=self._by_record(0)))
        if (path := self.request.intended) is None or self.table is not None:
            return None
        self.stage(expected.JOURNAL)
        read = read_journal(self.spark, path, self.folder.resolve() / WORK / "journal", self.request.topics)
        if not read.number:
            self.notices.append(f"--intended {path}: the journal names no record, so it shows nothing about the log")
        return read

    def _counted(self, totals: Mapping[str, Mapping[str, int]], intended: Journal | None) -> int:
        """Returns the number of records, and updates the estimated duration: numbers of rows predict the duration better than
        sizes of segments."""
        batches, records = (sum(each[name] for each in totals.values()) for name in ("batches", "records"))
        rows = intended.number if intended is not None else 0
        self.expect(expected.by_rows(self.origin.pieces, batches, records, rows, by_record=self._by_record(records)))
        return records

    def _read_table(self) -> bool:
        """Reads the application's table, if the journal is a table. Returns False if the table has too many rows for the
        driver."""
        if (described := self.request.table) is None:
            return True
        self.stage("reading the application's table")
        rows = read_table(self.spark, described)
        topics = self.request.topics
        self.table = self._aside(rows.where(sf.col("topic").isin(*topics)) if topics else rows, "table")
        return self.table.count() <= SMALL_RECORDS

    def _by_record(self, records: int) -> bool:
        """Uses the number of all records to guess whether contents will be compared record by record. In fact the number of
        records in the largest topic decides."""
        return self.request.intended is not None or records <= self.request.records_limit

    def _to_read(self) -> tuple[list[Piece], Earlier | None]:
        """Returns two values: the pieces to read, and the earlier report that this audit continues (None if there is none).
        After an earlier report, an audit reads only the pieces after the report's marks."""
        if self.request.since is None or (state := self.request.earlier_state()) is None:
            return self.origin.pieces, None
        pieces, goes_on, notices = self.origin.after(state)
        self.notices += notices
        starts = {(topic, partition): start for topic, partition, start, _ in self.origin.bounds}
        return pieces, Earlier(self.spark, self.request.since, goes_on, starts)

    def _with_coordinators(self, findings: DataFrame) -> DataFrame:
        """Returns the findings. Adds to each finding about an open transaction the state that the transaction's coordinator has
        written."""
        open_ms = sf.get_json_object("evidence", "$.open_ms").cast("long")
        rows = collected(findings.where("kind = 'open_transaction'").select(*_OPEN, open_ms.alias("open_ms")).limit(OPEN_LIMIT))
        if not rows:
            return findings
        known = self.origin.coordinators([Open(*row) for row in rows])
        began = int(self.began.timestamp() * 1000)
        told = [(*row[: len(_OPEN)], "open_transaction", *known.about(Open(*row), began)) for row in rows]
        names = [*_OPEN, "kind"]
        more = local_rows(self.spark, told, _TOLD)
        joined = findings.join(sf.broadcast(more), names, "left")
        evidence = sf.concat(sf.expr("substring(evidence, 1, length(evidence) - 1)"), sf.lit(", "), "told", sf.lit("}"))
        joined = joined.withColumn("severity", sf.coalesce("now", "severity"))
        joined = joined.withColumn("explanation", sf.concat("explanation", sf.coalesce("words", sf.lit(""))))
        return joined.withColumn("evidence", sf.coalesce(evidence, "evidence")).select(*schema.FINDINGS.names)

    def _with_groups(
        self, findings: DataFrame, batches: DataFrame, bounds: DataFrame, ranges: list[dict[str, Any]]
    ) -> tuple[DataFrame, dict[str, Any]]:
        """Adds the findings about groups' commits and pipelines, and returns the summary's fields about them."""
        work = self.origin.pieces_of(groups.OFFSETS_TOPIC)
        self.stage("comparing the groups' commits")
        seen = consumers.commits(self.spark, work, frozenset(self.request.topics)) or groups.Seen()
        followed = pipelines.Followed()
        if self.pipelines:
            self.stage("following pipelines")
            log = pipelines.Log(
                self.spark, self.origin, batches, bounds, seen, self.request.expiration_ms,
                int(self.began.timestamp() * 1000) - COMMITS_MS if self.origin.is_cluster else FOREVER,
                self.folder.resolve() / WORK, self._aside, self._unreadable,
            )  # fmt: skip
            followed = pipelines.follow(self.pipelines, log)
            self.notices += followed.notices
            self.problems += followed.problems
            if followed.findings:
                findings = self._with_findings(united(followed.findings))
        if not work and not self.pipelines:
            return findings, {}
        known = {(each["topic"], each["partition"]): (each["first"], each["end"]) for each in ranges}
        unread = batches.where("problem = 'unreadable'").select(*PARTITION).distinct()
        for row in collected(unread) if self.problems else ():  # the report's problems name each unread part
            if (where := (row["topic"], row["partition"])) in known:
                known[where] = (known[where][0], FOREVER)  # the end of the log may be the part that was not read
        passed = pipelines.passed_by(seen.jumps, followed)
        told = list(groups.findings_of(seen, known, int(self.began.timestamp() * 1000), passed))
        if told:
            findings = self._with_findings(local_rows(self.spark, told, schema.FINDINGS))
        if seen.more_back:
            self.notices.append(
                f"{seen.more_back:,} more commits went back; {groups.BACK_LIMIT:,} of each partition are listed"
            )
        summary = groups.summary_of(seen, known, consumers.outputs(self.spark, batches, seen))
        return findings, summary | {"followed": followed.rows}

    def _with_findings(self, findings: DataFrame) -> DataFrame:
        """Append findings to the table. The policy of a finding's topic may change the severity of the finding, or ignore the
        finding: then it is left out. Returns the whole table."""
        chosen = self.policies.severities({topic for topic, *_ in self.origin.bounds})
        if chosen:
            rules = local_rows(self.spark, chosen, _RULES)
            findings = findings.join(sf.broadcast(rules), ["topic", "kind"], "left")
            findings = findings.where(f"chosen IS NULL OR chosen <> '{IGNORED}'")
            findings = findings.withColumn("severity", sf.coalesce("chosen", "severity")).select(*schema.FINDINGS.names)
        return tables.added(identified(findings), self.folder / "findings")

    def _aside(self, rows: DataFrame, name: str) -> DataFrame:
        """Writes the rows to an intermediate table, and returns that table."""
        return tables.added(rows, self.folder / WORK / name)

    def _arrivals(self) -> DataFrame | None:
        if self.request.trace is None:
            return None
        rows, damaged = read_trace(self.spark, self.request.trace, self.request.topics)
        if damaged:
            self.notices.append(f"{self.request.trace}: {damaged} lines are not rows of a trace and were left out")
        return rows

    def _unreadable(self, batches: DataFrame) -> None:
        """Add problems and notices about batches or records that were not read; equal sentences are added once."""
        rows = batches.where("problem IN ('unreadable', 'deleted', 'old_format')")
        rows = settled(rows.select("topic", "partition", "problem", "detail"))
        if rows.isEmpty():
            return
        told = collected(rows.distinct().orderBy(sf.desc("problem")).limit(SAID + 1))
        problems = [row["detail"] for row in told if row["problem"] == "unreadable"]
        gone = [f"{row['topic']}-{row['partition']}: {row['detail']}" for row in told if row["problem"] != "unreadable"]
        self.problems += [each for each in problems[:SAID] if each not in self.problems]
        self.notices += [each for each in gone[:SAID] if each not in self.notices]
        if len(told) > SAID:
            self.problems.append("… and more") if problems else self.notices.append("… and more")

    def _totals(self, folded: DataFrame, by_partition: Mapping[tuple[str, int], Row]) -> dict[str, dict[str, int]]:
        """Returns the partitions, batches, records, bytes, producers, commits and aborts of each topic. Markers count only as
        commits and aborts."""
        sums = ("batches", "records", "bytes", "committed", "aborted")
        numbers = Counter(topic for topic, *_ in self.origin.bounds)
        counted = {topic: dict.fromkeys((*sums, "producers"), 0) for topic in sorted(numbers)}
        totals = {topic: {"partitions": numbers[topic], **counts} for topic, counts in counted.items()}
        for (topic, _), row in by_partition.items():
            for name in sums:
                totals[topic][name] += row[name]
        sent = folded.where("producer_id >= 0 AND batches > 0").select("topic", "producer_id").distinct()
        for row in collected(sent.groupBy("topic").count()):
            totals[row["topic"]]["producers"] = row["count"]
        return totals

    def _ranges(self, by_partition: Mapping[tuple[str, int], Row]) -> list[dict[str, Any]]:
        """Returns the offsets that were read in each partition, from `first` up to `end`. If the partition has several
        replicas, also returns which replica was read.
        """
        ends = {where: row["last"] + 1 for where, row in by_partition.items()}
        return [
            {"topic": topic, "partition": partition, "first": first, "end": ends.get((topic, partition), first)}
            | self.origin.replica(topic, partition)
            | ({"remote": remote} if (remote := self.origin.remote(topic, partition)) else {})
            for topic, partition, first, _ in self.origin.bounds
        ]

    def _by_content(
        self, batches: DataFrame, bounds: DataFrame, found: DataFrame, totals: dict[str, dict[str, int]],
        intended: Journal | None,
    ) -> Iterator[DataFrame]:  # fmt: skip
        """Finds duplicates by the content of records, or of batches if there are too many records."""
        limit = self.request.records_limit
        large = [name for name, each in totals.items() if each["records"] > limit and name not in INTERNAL_TOPICS]
        if intended is not None or self.table is not None:
            large = []
        self.compared = {name: "batch by batch" if name in large else "record by record" for name in totals}
        if large:
            yield from self._by_batch(batches, found, totals, large)
        if large and len(large) == len(totals):
            return
        self.stage(expected.RECORDS)
        records = self._records([name for name in totals if name not in large], named=intended is not None)
        problems = settled(records.where("problem IS NOT NULL"))
        self._unreadable(problems)
        stored = self._since_log_start(records.where("problem IS NULL"), bounds)
        data = contents.data_batches(batches).where(~sf.col("topic").isin(*large))
        if not problems.isEmpty():
            yield contents.bad_records(problems)
        if intended is not None:
            yield from self._against_journal(intended, records, data, batches, bounds, found, totals)
            return
        units = contents.visible(contents.units_of_records(contents.with_outcome(stored, data, batches)))
        if self.table is not None:
            yield self._against_table(self.table, units)
        compared = contents.without_tombstones(stored)
        alike = settled(contents.repeated(contents.external(compared)))  # transactions are read only for these few rows
        if not alike.isEmpty():
            alike = contents.units_of_records(contents.with_outcome(alike, data, batches))
            yield from self._stored_again(contents.visible(alike), found, among=contents.without_tombstones(units))

    def _records(self, topics: Sequence[str], *, named: bool) -> DataFrame:
        """Returns the records of these topics. With `named`, each record has the hash by which a journal names the record."""
        folder = self.folder.resolve() / WORK / RECORDS
        if folder.exists():  # the tasks that scanned the batches have written them
            return tasks.stored_records(self.spark, folder, named=True)
        pieces = [each for each in self.origin.pieces if each.topic in topics]
        return tasks.records(self.spark, pieces, folder, self.request.expiration_ms, named=named)

    def _against_journal(
        self, intended: Journal, records: DataFrame, data: DataFrame, batches: DataFrame, bounds: DataFrame, found: DataFrame,
        totals: Mapping[str, Mapping[str, int]],
    ) -> Iterator[DataFrame]:  # fmt: skip
        """Finds differences between the journal and the log."""

        hidden = contents.hidden_batches(data, batches)
        hidden = None if hidden is None else settled(hidden)

        def rows_of(records: DataFrame) -> DataFrame:
            rows = self._since_log_start(records.where("problem IS NULL"), bounds)
            return contents.units_of_records(contents.with_known_outcome(rows, hidden), "hash")

        count = intended.number + sum(each["records"] for each in totals.values())
        starts = [(topic, partition, start) for topic, partition, start, _ in self.origin.bounds if start > 0]
        left_out = names.left_out(hidden, starts)
        came = reconcile(records, rows_of, intended.rows, contents.deleted(batches, bounds), left_out, count)
        yield came.findings
        yield from self._stored_again(contents.without_tombstones(came.unnamed), found, came.beyond)

    def _against_table(self, table: DataFrame, units: DataFrame) -> DataFrame:
        """Finds the rows of the application's table that have no record, and writes the counts for each interval of time."""
        self.stage("comparing with the application's table")
        described, now = self.request.table, against_table.milliseconds(self.began)
        assert described is not None
        units = units if described.value is not None else units.withColumn("value_hash", sf.lit(None).cast("string"))
        pairs = against_table.paired(table, units)
        facts = against_table.facts_of(units, self.origin.bounds)
        judged = self._aside(against_table.judged(pairs, facts, now, described.grace_ms), "judged")
        ends = table.agg(sf.min("time").alias("first"), sf.max("time").alias("last")).first()
        first, last = (ends["first"], ends["last"]) if ends is not None and ends["first"] is not None else (0, 0)
        width = against_table.width_for(first, last)
        counted = tables.added(against_table.by_time(judged, first, last, width), self.folder / "table")
        self.lateness = against_table.summary_of(described.file, [row.asDict() for row in counted.collect()], width)
        return against_table.lost(judged)

    def _by_batch(
        self, batches: DataFrame, found: DataFrame, totals: dict[str, dict[str, int]], large: list[str]
    ) -> Iterator[DataFrame]:
        """Finds duplicates by the content of batches, in topics with too many records."""
        self.stage(expected.BATCHES)
        limit = f"more than {self.request.records_limit:,} records, so contents were compared batch by batch"
        more = f" and {len(large) - SAID:,} more topics" if len(large) > SAID else ""
        self.notices.append(f"{', '.join(large[:SAID])}{more}: {limit}")
        data = contents.data_batches(batches).where(sf.col("topic").isin(*large))
        stored = sum(totals[name]["batches"] for name in large)
        alike = settled(contents.repeated_batches(batches, large, stored))
        rows = contents.visible(contents.with_outcome(alike, alike, batches))
        yield from self._stored_again(contents.units_of_batches(rows), found, among=data)

    def _since_log_start(self, records: DataFrame, bounds: DataFrame) -> DataFrame:
        """Keeps the records at or after the log start offset, which may lie inside a batch."""
        if all(log_start == 0 for _, _, log_start, _ in self.origin.bounds):
            return records
        starts = bounds.select(*PARTITION, "log_start")
        return records.join(sf.broadcast(starts), [*PARTITION]).where("offset >= log_start").drop("log_start")

    def _stored_again(
        self, units: DataFrame, found: DataFrame, beyond: DataFrame | None = None, *, among: DataFrame | None = None
    ) -> Iterator[DataFrame]:
        """Returns the findings about repeated units. If `units` is only a part of a topic's units, `among` has all the topic's
        units."""
        alike = settled(contents.repeated(units))
        again = None if alike.isEmpty() else contents.copies(self._meaningful(units if among is None else among, alike))
        if beyond is not None:
            named = beyond.select(*contents.UNIT, "first", "severity")
            again = named if again is None else again.select(*named.columns).unionByName(named)
        if again is not None:
            yield contents.stored_again(contents.untold(settled(again), found))

    def _meaningful(self, units: DataFrame, alike: DataFrame) -> DataFrame:
        repeats = contents.repeats(units, alike)
        self.compared |= {topic: "only counted" for topic, each in repeats.items() if each.vague}
        said = [notice for topic, each in repeats.items() if (notice := each.notice(topic, "--intended")) is not None]
        self.notices += said[:SAID] + ([f"… and the same in {len(said) - SAID:,} more topics"] if len(said) > SAID else [])
        return contents.told_apart(alike, repeats)

    def _what_if(self, arrivals: DataFrame | None) -> list[dict[str, Any]]:
        if arrivals is None:
            return []
        self.stage("judging the arrivals again")
        outcomes = other_rules.what_if(arrivals, expiration_ms=self.request.expiration_ms)
        outcomes = tables.added(outcomes, self.folder / "what_if")
        counted = [name for name in other_rules.OUTCOMES.names if name not in ("topic", "partition", "variant", "window")]
        rows = outcomes.groupBy("variant", "window").agg(*(sf.sum(name).alias(name) for name in counted)).collect()
        order = [each.name for each in other_rules.variants()]
        return sorted((row.asDict() for row in rows), key=lambda row: order.index(row["variant"]))

    def _summary(
        self, findings: DataFrame, totals: dict[str, dict[str, int]], outcomes: list[dict[str, Any]]
    ) -> dict[str, Any]:
        rows = collected(findings.groupBy("topic", "kind", "severity").count())
        by_topic = sorted(
            (row.asDict() | {"fails": self.policies.of(row["topic"]).fails(row["severity"])} for row in rows),
            key=lambda each: (each["topic"], weight(each["severity"], each["kind"])),
        )
        sums = sorted(_summed(by_topic, "kind", "severity").items(), key=lambda each: weight(each[0][1], each[0][0]))
        kinds = [{"kind": kind, "severity": severity, "count": count} for (kind, severity), count in sums]
        by_kind, by_severity = ({key: count for (key,), count in _summed(kinds, name).items()} for name in ("kind", "severity"))
        return {
            "complete": not self.problems,
            "origin": self.origin.name,
            "time": self.began.isoformat(timespec="milliseconds"),
            "audited_at": f"{self.began:%Y-%m-%d %H:%M:%S} UTC",
            "host": gethostname(),
            "version": __version__,
            "remote_store": str(self.request.remote_store) if self.request.remote_store is not None else None,
            "since": str(self.request.since) if self.request.since is not None else None,
            "trace": self.request.trace,
            "intended": self.request.intended,
            "findings": by_kind,
            "severities": by_severity,
            "kinds": kinds,
            "by_topic": by_topic,
            "failing": sum(each["count"] for each in by_topic if each["fails"]),
            "problems": self.problems,
            "notices": self.notices,
            "topics": totals,
            "what_if": outcomes,
            "table": self.lateness,
        }


def _summed(rows: list[dict[str, Any]], *names: str) -> Counter[tuple[str, ...]]:
    """Counts the findings by the columns `names`."""
    sums: Counter[tuple[str, ...]] = Counter()
    for each in rows:
        sums[tuple(each[name] for name in names)] += each["count"]
    return sums
