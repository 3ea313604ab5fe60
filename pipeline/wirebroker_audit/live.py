"""The audit of a log that grows: Structured Streaming over the same sources keeps the findings current.

Each micro-batch writes its batches and their runs under its own number. Then it runs the checks again over the runs of all
micro-batches and the batches of suspicious producers, so its findings are those of an audit of the whole. After a crash a
micro-batch is repeated with the same number and the same batches, and writes the same files: nothing is lost or doubled.

    OUT/live/batches/micro=7   OUT/live/runs/micro=7   OUT/live/anew.json   OUT/live/checkpoint   OUT/findings.json

Folders of earlier micro-batches are joined from time to time, see `micro_batches`. Rows below the log start no longer count,
and joining leaves them out, so the state holds no more than the log. If a partition restarted because its topic was deleted and
created again, its earlier batches are left out. An audit of the whole would not find either of them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker_audit import checks, schema
from wirebroker_audit.job import CURRENT, LIVE
from wirebroker_audit.live_segments import RESTARTED
from wirebroker_audit.micro_batches import Folder, MicroBatches
from wirebroker_audit.origin import Cluster, Directory
from wirebroker_audit.policy import Policy
from wirebroker_audit.tables import collected, settled

SAID = 500
"""Characters of a failure that are shown."""
SAID_NOTICES = 20
LIMIT = 10_000
"""Findings that `findings.json` lists; all are counted."""
PATIENCE, PAUSE = 600.0, 2.0
"""Seconds for which the failing stream of a cluster is begun again although it reads nothing, and between two attempts."""
_REASON = re.compile(r"(?:OSError|BrokerError|NotALogDirectory|\w*NotFoundError|PermissionError): (?:\[Errno \d+\] )?(.+)")


def start(
    spark: SparkSession,
    origin: Directory | Cluster,
    out: Path,
    expiration_ms: int = EXPIRATION_MS,
    seconds: float = 1,
) -> StreamingQuery:
    """Start, or continue where an earlier run with the same `out` ended or was killed."""
    origin.options["expiration"] = str(expiration_ms)
    folder = out.resolve() / LIVE
    folder.mkdir(parents=True, exist_ok=True)
    restarts = Restarts(folder / "anew.json")
    kept_batches = _Table(spark, folder, "batches", schema.BATCHES, restarts, "problem = 'deleted' OR last_offset >= log_start")
    kept_runs = _Table(spark, folder, "runs", schema.RUNS, restarts, "last.last_offset >= log_start")

    def take(rows: DataFrame, micro: int) -> None:
        origin.look()
        for table in (kept_batches, kept_runs):
            table.starts = [(topic, partition, start) for topic, partition, start, _ in origin.bounds if start > 0]
        mine = kept_batches.take(rows, micro)
        restarted = mine.where(f"problem = 'deleted' AND position = {RESTARTED}").select("topic", "partition").distinct()
        restarts.begin([(row["topic"], row["partition"]) for row in restarted.collect()], micro)
        kept_runs.take(checks.runs(mine), micro)
        batches, folded = kept_batches.all(), settled(kept_runs.all())
        bounds = checks.with_compaction(origin.bounds_frame(), folded)
        found = settled(checks.findings_of(batches, folded, bounds, expiration_ms))
        gone = (
            batches.where("problem IN ('deleted', 'old_format')")
            .select("topic", "partition", "detail")
            .limit(SAID_NOTICES)
            .collect()
        )
        notices = [f"{row['topic']}-{row['partition']}: {row['detail']}" for row in gone]
        _replace(out / CURRENT, found, micro, [*origin.notices, *notices])

    spark.dataSource.register(origin.batch_source)
    stream = spark.readStream.format(origin.batch_source.name()).options(**origin.options).load()
    return (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=f"{seconds} seconds")
        .start()
    )


class Restarts:
    """The micro-batch with which each restarted partition began again, in a file that is replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        self._began = {(topic, partition): micro for topic, partition, micro in told}

    def begin(self, partitions: list[tuple[str, int]], micro: int) -> None:
        """These partitions restart with this micro-batch; a repeated call changes nothing."""
        if partitions:
            self._began |= dict.fromkeys(partitions, micro)
            _write(self._path, [[*each, began] for each, began in self._began.items()])

    def ended(self, micro: int) -> frozenset[tuple[str, int]]:
        """The partitions whose rows up to this micro-batch no longer count."""
        return frozenset(each for each, began in self._began.items() if micro < began)


class _Table:
    """The rows of one kind from all micro-batches."""

    starts: list[tuple[str, int, int]]
    """the partitions whose log starts above 0, with that offset"""

    def __init__(
        self, spark: SparkSession, folder: Path, name: str, columns: StructType, restarts: Restarts, in_log: str
    ) -> None:
        self._spark, self._columns, self._restarts, self._in_log = spark, columns, restarts, in_log
        self.starts = []
        self._folders = MicroBatches(folder / name, folder / f"joined-{name}")

    def take(self, rows: DataFrame, micro: int) -> DataFrame:
        """Write a micro-batch's rows; returns them as they were written."""
        self._folders.join(micro, lambda kept, path: self._read(kept).write.mode("overwrite").parquet(str(path)))
        path = str(self._folders.path(micro))
        rows.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(self._columns).parquet(path)

    def all(self) -> DataFrame:
        """The rows of all micro-batches that still count."""
        return self._read(self._folders.current())

    def _read(self, kept: list[Folder]) -> DataFrame:
        paths: dict[frozenset[tuple[str, int]], list[str]] = {}
        for each in kept:
            paths.setdefault(self._restarts.ended(each.last), []).append(str(each.path))
        frames = []
        for ended, together in paths.items():
            rows = self._spark.read.schema(self._columns).parquet(*together)
            for topic, partition in sorted(ended):
                rows = rows.where((sf.col("topic") != topic) | (sf.col("partition") != partition))
            frames.append(rows)
        rows = reduce(DataFrame.unionByName, frames)
        if not self.starts:
            return rows
        starts = self._spark.createDataFrame(self.starts, "topic string, partition int, log_start long")
        known = rows.join(sf.broadcast(starts), ["topic", "partition"], "left")
        return known.where(f"log_start IS NULL OR {self._in_log}").select(*self._columns.names)


def _write(path: Path, content: Any) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    partial.replace(path)


def _replace(path: Path, found: DataFrame, micro: int, notices: list[str]) -> None:
    """Write the findings beside their place, then move them there."""
    rows = [row.asDict() for row in collected(found.orderBy("topic", "partition", "first_offset", "kind").limit(LIMIT))]
    counts, severities = (
        {row[name]: row["count"] for row in collected(found.groupBy(name).count())} for name in ("kind", "severity")
    )
    current = {"micro": micro, "counts": counts, "severities": severities, "notices": notices, "findings": rows}
    _write(path, current)


def follow(
    begin: Callable[[], StreamingQuery], out: Path, say: Callable[[str], None], seconds: float, policy: Policy, *, again: bool
) -> tuple[int, str]:
    """Report changes until Ctrl-C; returns the exit code and why it ended.

    The code is 1 if a finding fails the audit, else 0; 2 if the stream failed or has read nothing. With `again` a failed stream
    is begun again where it ended, until it has read nothing for PATIENCE seconds.
    """
    shown = _Shown(out, say)
    failing_since = None
    query = begin()
    try:
        while True:
            progressed = shown.watch(query, seconds)
            why = reason_of(str(query.exception() or "the stream was stopped"))
            if progressed or failing_since is None:
                failing_since = time.monotonic()
            if not again or time.monotonic() - failing_since > PATIENCE:
                return 2, f"the stream failed: {why}. Start it again to continue from here"
            shown.trouble(why)
            time.sleep(PAUSE)
            query = begin()
    except KeyboardInterrupt:
        query.stop()
    if shown.current is None:
        return 2, "stopped before anything was read"
    failing = any(policy.fails(severity) for severity in shown.current["severities"])
    return int(failing), f"stopped after micro-batch {shown.current.get('micro', 0)}. Start it again to continue from here"


def reason_of(failure: str) -> str:
    """The error in the text of a Spark exception, which has the stack traces of two languages around it."""
    found = _REASON.findall(failure)
    return str(found[-1] if found else failure.strip().partition("\n")[0])[:SAID].rstrip(". ")


class _Shown:
    """What the user has been told."""

    def __init__(self, out: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = out / CURRENT, say
        self._told: list[str] = []
        self._trouble = ""
        self.current: dict[str, Any] | None = None

    def watch(self, query: StreamingQuery, seconds: float) -> bool:
        """Report changes until the stream ends; whether there were any."""
        progressed = False
        while query.isActive:
            if self._path.exists():
                current = json.loads(self._path.read_text(encoding="utf-8"))
                progressed |= self.current is not None and current != self.current
                self.current = current
                self._report(_words(current), progressed)
            time.sleep(seconds)
        return progressed

    def trouble(self, why: str) -> None:
        """Say once that the stream is begun again."""
        if why != self._trouble:
            self._trouble = why
            self._say(f"{why}; trying again for {PATIENCE / 60:.0f} minutes")

    def _report(self, words: list[str], progressed: bool) -> None:
        if words == self._told and not (self._trouble and progressed):
            return
        for each in words[:-1]:
            if each not in self._told:
                self._say(each)
        self._say(words[-1])  # the last message stays on the screen
        self._told, self._trouble = words, ""


def _words(current: dict[str, Any]) -> list[str]:
    """The current notices, and the number of findings of each kind."""
    counts = ", ".join(f"{kind} {count:,}" for kind, count in current["counts"].items())
    return [*(f"note: {notice}" for notice in current.get("notices", [])), counts or "no finding"]
