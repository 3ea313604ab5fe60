"""The audit of a log that grows: Structured Streaming over the same sources keeps the findings current.

Each micro-batch writes down its batches and their runs under its own number, and then finds again what there is to be found,
in the runs of all micro-batches and the batches of those producers that need a closer look: what it finds is what an audit of
the whole would. A micro-batch that is done again after a crash has the same number and the same batches, so that it writes
the same once more: nothing is lost, and nothing is there twice.

    OUT/live/batches/micro=7   OUT/live/runs/micro=7   OUT/live/anew.json   OUT/live/checkpoint   OUT/findings.json

Folders of earlier micro-batches are joined from time to time, see `micro_batches`. If a partition restarted, because its topic
was deleted and created again, its earlier batches are left out: an audit of the whole would not find them either.
"""

from __future__ import annotations

import json
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
from wirebroker_audit.live_segments import ANEW
from wirebroker_audit.micro_batches import Kept, Shelf
from wirebroker_audit.origin import Cluster, Directory

SAID = 500
"""Characters of a failure that are said."""
SAID_NOTICES = 20
LIMIT = 10_000
"""Findings that are kept there; all are counted."""


def start(
    spark: SparkSession,
    origin: Directory | Cluster,
    out: Path,
    expiration_ms: int = EXPIRATION_MS,
    seconds: float = 1,
) -> StreamingQuery:
    """Begin, or go on where an earlier run with the same `out` was ended or killed."""
    folder = out.resolve() / LIVE
    folder.mkdir(parents=True, exist_ok=True)
    lives = Lives(folder / "anew.json")
    kept_batches = _Table(spark, folder, "batches", schema.BATCHES, lives)
    kept_runs = _Table(spark, folder, "runs", schema.RUNS, lives)

    def take(rows: DataFrame, micro: int) -> None:
        mine = kept_batches.take(rows, micro)
        anew = mine.where(f"problem = 'deleted' AND position = {ANEW}").select("topic", "partition").distinct()
        lives.begin([(row["topic"], row["partition"]) for row in anew.collect()], micro)
        kept_runs.take(checks.runs(mine), micro)
        batches, folded = kept_batches.all(), kept_runs.all().localCheckpoint()
        origin.look()
        bounds = checks.with_compaction(origin.bounds_frame(), folded)
        found = checks.findings_of(batches, folded, bounds, expiration_ms).localCheckpoint()
        gone = batches.where("problem = 'deleted'").select("topic", "partition", "detail").limit(SAID_NOTICES).collect()
        notices = [f"{row['topic']}-{row['partition']}: {row['detail']}" for row in gone]
        _replace(out / CURRENT, found, micro, [*origin.notices, *notices])

    stream = spark.readStream.format(origin.format).options(**origin.options).load()
    return (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=f"{seconds} seconds")
        .start()
    )


class Lives:
    """With which micro-batch each partition began anew that did; kept in a file that is replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        self._began = {(topic, partition): micro for topic, partition, micro in told}

    def begin(self, partitions: list[tuple[str, int]], micro: int) -> None:
        """These begin anew with this micro-batch; said again when it is done again."""
        if partitions:
            self._began |= dict.fromkeys(partitions, micro)
            _write(self._path, [[*each, began] for each, began in self._began.items()])

    def ended(self, micro: int) -> frozenset[tuple[str, int]]:
        """The partitions of which nothing counts that was read up to this micro-batch."""
        return frozenset(each for each, began in self._began.items() if micro < began)


class _Table:
    """What the micro-batches gave, of one kind."""

    def __init__(self, spark: SparkSession, folder: Path, name: str, columns: StructType, lives: Lives) -> None:
        self._spark, self._columns, self._lives = spark, columns, lives
        self._shelf = Shelf(folder / name, folder / f"joined-{name}")

    def take(self, rows: DataFrame, micro: int) -> DataFrame:
        """Write down what a micro-batch gives; it is returned as it was written."""
        self._shelf.tidy(micro, lambda kept, path: self._read(kept).write.mode("overwrite").parquet(str(path)))
        path = str(self._shelf.path(micro))
        rows.write.mode("overwrite").parquet(path)
        return self._spark.read.schema(self._columns).parquet(path)

    def all(self) -> DataFrame:
        """The rows of all micro-batches that still count."""
        return self._read(self._shelf.kept())

    def _read(self, kept: list[Kept]) -> DataFrame:
        paths: dict[frozenset[tuple[str, int]], list[str]] = {}
        for each in kept:
            paths.setdefault(self._lives.ended(each.last), []).append(str(each.path))
        frames = []
        for ended, together in paths.items():
            rows = self._spark.read.schema(self._columns).parquet(*together)
            for topic, partition in sorted(ended):
                rows = rows.where((sf.col("topic") != topic) | (sf.col("partition") != partition))
            frames.append(rows)
        return reduce(DataFrame.unionByName, frames)


def _write(path: Path, content: Any) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    partial.replace(path)


def _replace(path: Path, found: DataFrame, micro: int, notices: list[str]) -> None:
    """Write the findings beside their place, and move them there."""
    rows = [row.asDict() for row in found.orderBy("topic", "partition", "first_offset", "kind").limit(LIMIT).collect()]
    counts, severities = (
        {row[name]: row["count"] for row in found.groupBy(name).count().collect()} for name in ("kind", "severity")
    )
    current = {"micro": micro, "counts": counts, "severities": severities, "notices": notices, "findings": rows}
    _write(path, current)


def follow(query: StreamingQuery, out: Path, say: Callable[[str], None], seconds: float) -> int:
    """Say what changes until Ctrl-C: 1 if a finding is certain, else 0; 2 if the stream failed, or nothing was read yet."""
    told: list[str] = []
    current: dict[str, Any] = {}
    try:
        while query.isActive:
            if (out / CURRENT).exists():
                current = json.loads((out / CURRENT).read_text(encoding="utf-8"))
                if (words := _words(current)) != told:
                    for each in words[:-1]:
                        if each not in told:
                            say(each)
                    say(words[-1])  # what is said last stays on the screen
                    told = words
            time.sleep(seconds)
    except KeyboardInterrupt:
        query.stop()
    if (failure := query.exception()) is not None:
        say(f"the stream failed; it goes on from here when it is started again: {str(failure)[:SAID]}")
        return 2
    if not current:
        say("nothing was read yet")
        return 2
    return int("certain" in current["severities"])


def _words(current: dict[str, Any]) -> list[str]:
    """What is to be said of the findings of a moment: the notices, and how many there are of each kind."""
    counts = ", ".join(f"{kind} {count:,}" for kind, count in current["counts"].items())
    return [*(f"note: {notice}" for notice in current.get("notices", [])), counts or "no finding"]
