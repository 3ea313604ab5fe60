"""Audits a growing log: Structured Streaming reads new batches, and each micro-batch updates the findings.

Each micro-batch writes its batches and their runs under its own number. Then the micro-batch runs the checks again, over the
runs of all micro-batches and the batches of suspicious producers. So its findings equal the findings of a whole audit. After a
crash a micro-batch is repeated with the same number and the same batches, and writes the same files: nothing is lost or
doubled.

    OUT/live/batches/micro=7   OUT/live/runs/micro=7   OUT/live/anew.json   OUT/live/checkpoint   OUT/findings.json

Folders of earlier micro-batches are joined from time to time (see `micro_batches`), and so are runs that continue (see
`folding.runs`). So a segment has about as many runs as producers, even in an old stream. Rows below the log start no longer
count, and joining leaves them out, so the state holds no more than the log. If a partition restarted because its topic was
deleted and created again, its earlier batches are left out. A full audit would not read such rows and batches, either.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker_audit.checks import batches as checks
from wirebroker_audit.checks.log_starts import from_log_starts
from wirebroker_audit.folding import schema
from wirebroker_audit.folding.micro_batches import Folder, MicroBatches
from wirebroker_audit.folding.runs import joined
from wirebroker_audit.inputs.policy import Policy
from wirebroker_audit.origin import Cluster, Directory
from wirebroker_audit.reading.pieces import RESTARTED
from wirebroker_audit.report.folder import CURRENT, LIVE
from wirebroker_audit.sources.tasks import runs_of
from wirebroker_audit.spark.columns import PARTITION
from wirebroker_audit.spark.tables import collected, in_groups, settled

SAID = 500
"""At most this many characters of a failure are shown."""
SAID_NOTICES = 20
LIMIT = 10_000
"""`findings.json` lists at most this many findings. All findings are counted."""
PATIENCE, PAUSE = 600.0, 2.0
"""If a stream of a cluster fails, it is restarted after `PAUSE` seconds. The restarts end when the stream has read nothing for
`PATIENCE` seconds."""
_REASON = re.compile(r"(?:OSError|BrokerError|NotALogDirectory|\w*NotFoundError|PermissionError): (?:\[Errno \d+\] )?(.+)")


def start(
    spark: SparkSession,
    origin: Directory | Cluster,
    out: Path,
    expiration_ms: int = EXPIRATION_MS,
    seconds: float = 1,
) -> StreamingQuery:
    """Start the stream, or continue where an earlier run with the same `out` ended or was killed."""
    origin.options["expiration"] = str(expiration_ms)
    folder = out.resolve() / LIVE
    state = LiveState(spark, folder, expiration_ms)

    def take(rows: DataFrame, micro: int) -> None:
        origin.look()
        state.take(rows, micro, [(topic, partition, begin) for topic, partition, begin, _ in origin.bounds if begin > 0])
        batches, folded = state.batches(), settled(state.runs())
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

    spark.dataSource.register(origin.stream)
    stream = spark.readStream.format(origin.stream.name()).options(**origin.options).load()
    return (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=f"{seconds} seconds")
        .start()
    )


class LiveState:
    """All batches that still count, from all micro-batches, and the runs of these batches."""

    def __init__(self, spark: SparkSession, folder: Path, expiration_ms: int = EXPIRATION_MS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._restarts = Restarts(folder / "anew.json")

        def chain(rows: DataFrame) -> DataFrame:
            return in_groups(rows, (*PARTITION, "segment"), partial(joined, expiration_ms=expiration_ms), schema.RUNS)

        within = "problem = 'deleted' OR last_offset >= log_start"
        self._batches = _Table(spark, folder, "batches", schema.BATCHES, self._restarts, within)
        self._runs = _Table(spark, folder, "runs", schema.RUNS, self._restarts, "last.last_offset >= log_start", chain)

    def take(self, rows: DataFrame, micro: int, starts: Sequence[tuple[str, int, int]] = ()) -> None:
        """Keep the batches of a micro-batch; `starts` lists each partition whose log start offset is above 0, and this offset.

        A repeated call with the same micro-batch changes nothing.
        """
        self._batches.starts = self._runs.starts = list(starts)
        mine = self._batches.take(rows, micro)
        restarted = mine.where(f"problem = 'deleted' AND position = {RESTARTED}").select("topic", "partition").distinct()
        self._restarts.begin([(row["topic"], row["partition"]) for row in restarted.collect()], micro)
        self._runs.take(runs_of(mine), micro)

    def batches(self) -> DataFrame:
        """Returns all batches that still count."""
        return self._batches.all()

    def runs(self) -> DataFrame:
        """Returns the runs of all batches that still count; the runs leave out batches before the log start offset."""
        runs, starts = self._runs.all(), self._runs.log_starts()
        return runs if starts is None else from_log_starts(settled(runs), self.batches(), starts)


class Restarts:
    """The micro-batch in which each partition restarted. Each change replaces the whole file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        self._began = {(topic, partition): micro for topic, partition, micro in told}

    def begin(self, partitions: list[tuple[str, int]], micro: int) -> None:
        """Write down that these partitions restart with this micro-batch. A repeated call changes nothing."""
        if partitions:
            self._began |= dict.fromkeys(partitions, micro)
            _write(self._path, [[*each, began] for each, began in self._began.items()])

    def ended(self, micro: int) -> frozenset[tuple[str, int]]:
        """Returns the partitions whose rows up to this micro-batch no longer count."""
        return frozenset(each for each, began in self._began.items() if micro < began)


class _Table:
    """The rows of one kind from all micro-batches."""

    starts: list[tuple[str, int, int]]
    """each partition whose log start offset is above 0, and this offset"""

    def __init__(
        self, spark: SparkSession, folder: Path, name: str, columns: StructType, restarts: Restarts, in_log: str,
        compress: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    ) -> None:  # fmt: skip
        self._spark, self._columns, self._restarts, self._in_log = spark, columns, restarts, in_log
        self._compress = compress
        self.starts = []
        self._folders = MicroBatches(folder / name, folder / f"joined-{name}")

    def take(self, rows: DataFrame, micro: int) -> DataFrame:
        """Write a micro-batch's rows to a file, and return the rows of that file."""
        self._folders.join(micro, self._join)
        path = str(self._folders.path(micro))
        rows.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(self._columns).parquet(path)

    def _join(self, kept: list[Folder], path: Path) -> None:
        self._compress(self._read(kept)).coalesce(1).write.mode("overwrite").parquet(str(path))

    def all(self) -> DataFrame:
        """Returns the rows that still count, from all micro-batches."""
        return self._read(self._folders.current())

    def log_starts(self) -> DataFrame | None:
        """Returns `starts` as a DataFrame."""
        columns = "topic string, partition int, log_start long"
        return self._spark.createDataFrame(self.starts, columns) if self.starts else None

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
        if (starts := self.log_starts()) is None:
            return rows
        known = rows.join(sf.broadcast(starts), ["topic", "partition"], "left")
        return known.where(f"log_start IS NULL OR {self._in_log}").select(*self._columns.names)


def _write(path: Path, content: Any) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    partial.replace(path)


def _replace(path: Path, found: DataFrame, micro: int, notices: list[str]) -> None:
    """Write the findings to a new file, then rename it to `path`, so that a reader never gets an incomplete file."""
    rows = [row.asDict() for row in collected(found.orderBy("topic", "partition", "first_offset", "kind").limit(LIMIT))]
    counts, severities = (
        {row[name]: row["count"] for row in collected(found.groupBy(name).count())} for name in ("kind", "severity")
    )
    current = {"micro": micro, "counts": counts, "severities": severities, "notices": notices, "findings": rows}
    _write(path, current)


def follow(
    begin: Callable[[], StreamingQuery], out: Path, say: Callable[[str], None], seconds: float, policy: Policy, *, again: bool
) -> tuple[int, str]:
    """Report changes until Ctrl-C. Returns the exit code, and the reason why the live audit ended.

    The code is 1 if a finding fails the audit, else 0; 2 if the stream failed or has read nothing. With `again`, a failed
    stream is restarted where it ended. The restarts end when the stream has read nothing for PATIENCE seconds.
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
    """Returns the error from the text of a Spark exception, without the stack traces of both languages around it."""
    found = _REASON.findall(failure)
    return str(found[-1] if found else failure.strip().partition("\n")[0])[:SAID].rstrip(". ")


class _Shown:
    """The messages that the user has already seen."""

    def __init__(self, out: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = out / CURRENT, say
        self._told: list[str] = []
        self._trouble = ""
        self.current: dict[str, Any] | None = None

    def watch(self, query: StreamingQuery, seconds: float) -> bool:
        """Report changes until the stream ends. Returns whether any changes were reported."""
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
        """Reports that the stream is restarted, once for each reason."""
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
    """Show the current notices, and the number of findings of each kind."""
    counts = ", ".join(f"{kind} {count:,}" for kind, count in current["counts"].items())
    return [*(f"note: {notice}" for notice in current.get("notices", [])), counts or "no finding"]
