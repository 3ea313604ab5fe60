"""States what an audit has proven: the topics, offsets and times that it read, and how it compared their contents.

A user can compare the digests of two audits, and can check by the digests that a report is unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from wirebroker.audit.findings import INTERNAL_TOPICS
from wirebroker_audit.spark.columns import PARTITION, intact
from wirebroker_audit.spark.tables import collected

Compared = Literal["record by record", "batch by batch", "only counted"]
SUMS = "SHA256SUMS"
"""This file has the digest of each other file of a report, in the form that `sha256sum -c` reads."""
REMOTE = {"segments": "remote_segments", "missing": "remote_missing"}
"""Maps a fact about a remote store (`Tiering.facts`) to the name of its sum over the partitions of a topic."""
_READ_BYTES = 1 << 20


def coverage(
    ranges: Sequence[Mapping[str, Any]], batches: DataFrame, compared: Mapping[str, Compared], against: str | None
) -> dict[str, Any]:
    """Returns which part of each topic was read, and the digest of all batches that were read.

    `ranges` has the offsets that were read in each partition, `compared` says how contents were compared, and `against` names
    the journal, if there is one. The digest depends on the batches alone: not on segments, machines or the time of the audit.
    """
    told = collected(
        intact(batches)
        .groupBy(*PARTITION)
        .agg(
            sf.min("max_timestamp").alias("from_ms"),
            sf.max("max_timestamp").alias("to_ms"),
            sf.count(sf.lit(1)).alias("batches"),
            sf.bit_xor(sf.xxhash64("base_offset", "last_offset", "crc_stored", "bytes", "producer_id")).alias("sum"),
        )
    )
    by_partition = {(row["topic"], row["partition"]): row for row in told}
    topics: dict[str, dict[str, Any]] = {}
    lines = []
    for each in sorted(ranges, key=lambda one: (one["topic"], one["partition"])):
        name, number = each["topic"], each["partition"]
        topic = topics.setdefault(name, _nothing(name, compared.get(name, "only counted"), against))
        topic["partitions"] += 1
        topic["offsets"] += each["end"] - each["first"]
        topic["replicas"] += 1 + len(each.get("others", ()))
        for fact, column in REMOTE.items():
            topic[column] += each.get("remote", {}).get(fact, 0)
        row = by_partition.get((name, number))
        if row is not None:
            topic["from_ms"] = row["from_ms"] if topic["from_ms"] < 0 else min(topic["from_ms"], row["from_ms"])
            topic["to_ms"] = max(topic["to_ms"], row["to_ms"])
        sums = (0, 0) if row is None else (row["batches"], row["sum"] & (1 << 64) - 1)
        lines.append(f"{name}-{number} {each['first']} {each['end']} {sums[0]} {sums[1]:016x}\n")
    return {"topics": topics, "digest": hashlib.sha256("".join(lines).encode()).hexdigest()}


def _nothing(topic: str, compared: Compared, against: str | None) -> dict[str, Any]:
    """Returns the coverage of a topic from which nothing was read yet."""
    internal = topic in INTERNAL_TOPICS
    return {
        "partitions": 0, "offsets": 0, "replicas": 0, "from_ms": -1, "to_ms": -1, **dict.fromkeys(REMOTE.values(), 0),
        "sequences": not internal, "contents": "only counted" if internal else compared,
        "journal": None if internal else against,
    }  # fmt: skip


def write_sums(report: Path) -> None:
    """Write the digest of each file of the report into `SUMS`, which `sha256sum -c` reads and users may sign."""
    files = sorted(each for each in report.rglob("*") if each.is_file() and each.name != SUMS)
    lines = [f"{_digest(each)}  {each.relative_to(report).as_posix()}\n" for each in files]
    (report / SUMS).write_text("".join(lines), encoding="utf-8")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.hexdigest()
