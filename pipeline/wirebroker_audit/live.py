"""The audit of a log that grows: Structured Streaming over the same sources keeps the findings current.

Each micro-batch writes down its batches and their runs under its own number, and then finds again what there is to be found,
in the runs of all micro-batches and the batches of those producers that need a closer look: what it finds is what an audit of
the whole would. A micro-batch that is done again after a crash has the same number and the same batches, so that it writes
the same once more: nothing is lost, and nothing is there twice.

    OUT/live/batches/micro=7   OUT/live/runs/micro=7   OUT/live/checkpoint   OUT/findings.json
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from wirebroker_audit import checks, schema
from wirebroker_audit.job import CURRENT, LIVE
from wirebroker_audit.origin import Cluster, Directory

SAID = 500
"""Characters of a failure that are said."""
LIMIT = 10_000
"""Findings that are kept there; all are counted."""


def start(
    spark: SparkSession,
    origin: Directory | Cluster,
    out: Path,
    expiration_ms: int = checks.EXPIRATION_MS,
    seconds: float = 1,
) -> StreamingQuery:
    """Begin, or go on where an earlier run with the same `out` was ended or killed."""
    folder = out.resolve() / LIVE
    folder.mkdir(parents=True, exist_ok=True)

    def take(rows: DataFrame, micro: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / "batches" / f"micro={micro}"))
        mine = spark.read.schema(schema.BATCHES).parquet(str(folder / "batches" / f"micro={micro}"))
        checks.runs(mine).write.mode("overwrite").parquet(str(folder / "runs" / f"micro={micro}"))
        batches = spark.read.schema(schema.BATCHES).parquet(str(folder / "batches"))
        folded = spark.read.parquet(str(folder / "runs")).drop("micro").localCheckpoint()
        origin.look()
        bounds = checks.with_compaction(origin.bounds_frame(), folded)
        found = checks.findings_of(batches, folded, bounds, expiration_ms).localCheckpoint()
        _replace(out / CURRENT, found, micro)

    stream = spark.readStream.format(origin.format).options(**origin.options).load()
    return (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=f"{seconds} seconds")
        .start()
    )


def _replace(path: Path, found: DataFrame, micro: int) -> None:
    """Write the findings beside their place, and move them there."""
    rows = [row.asDict() for row in found.orderBy("topic", "partition", "first_offset", "kind").limit(LIMIT).collect()]
    counts, severities = (
        {row[name]: row["count"] for row in found.groupBy(name).count().collect()} for name in ("kind", "severity")
    )
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(
        json.dumps({"micro": micro, "counts": counts, "severities": severities, "findings": rows}, indent=1),
        encoding="utf-8",
    )
    partial.replace(path)


def follow(query: StreamingQuery, out: Path, say: Callable[[str], None], seconds: float) -> int:
    """Say what changes until Ctrl-C: 1 if a finding is certain, else 0; 2 if the stream failed, or nothing was read yet."""
    told: dict[str, int] | None = None
    current: dict[str, Any] = {}
    try:
        while query.isActive:
            if (out / CURRENT).exists():
                current = json.loads((out / CURRENT).read_text(encoding="utf-8"))
                if current["counts"] != told:
                    told = dict(current["counts"])
                    say(", ".join(f"{kind} {count:,}" for kind, count in told.items()) or "no finding")
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
