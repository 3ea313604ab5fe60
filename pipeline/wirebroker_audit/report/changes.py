"""Compares findings with an earlier report by `id`: which are new, which are still there, and which are gone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from wirebroker_audit.folding import schema
from wirebroker_audit.spark.tables import collected, settled, stored

FINDINGS, SUMMARY = "findings", "summary.json"
STATES = ("new", "still", "gone")
LISTED = 20
"""The report lists at most this many findings with the state `gone`. All of them are counted."""


def since(findings: DataFrame, report: Path) -> dict[str, Any] | None:
    """Compare the findings with the findings of an earlier report.

    Returns the earlier report's `time`, the numbers of `new`, `still` present and `gone` findings, and the list
    `gone_findings`, which has at most `LISTED` of the `gone` findings. Returns None if there is no earlier report, or if the
    findings of that report have no `id`.
    """
    try:
        time = json.loads((report / SUMMARY).read_text(encoding="utf-8"))["time"]
        if "id" not in ds.dataset(report / FINDINGS, format="parquet").schema.names:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    before = stored(findings.sparkSession, report / FINDINGS, schema.REPORTED)
    now, then = (
        findings.select("id", sf.lit(1).alias("now")),
        before.select("id", "kind", "explanation", sf.lit(1).alias("then")),
    )
    both = now.join(then, ["id"], "full")
    state = sf.when(sf.col("then").isNull(), "new").when(sf.col("now").isNull(), "gone").otherwise("still")
    both = settled(both.select("id", "kind", "explanation", state.alias("state")))
    counts = {row["state"]: row["count"] for row in collected(both.groupBy("state").count())}
    gone = both.where("state = 'gone'").orderBy("kind", "explanation").limit(LISTED).select("id", "kind", "explanation")
    listed = [row.asDict() for row in collected(gone)]
    return {"time": time, **{name: counts.get(name, 0) for name in STATES}, "gone_findings": listed}


def new_ones(shown: Sequence[dict[str, Any]], report: Path) -> frozenset[str]:
    """Returns the `id` of each finding that the earlier report lacks. All findings of the earlier report must have an `id`."""
    if not (ids := [each["id"] for each in shown]):
        return frozenset()  # Arrow knows no type for an empty list
    known = ds.dataset(report / FINDINGS, format="parquet").to_table(columns=["id"], filter=ds.field("id").isin(ids))
    return frozenset(ids) - frozenset(known.column("id").to_pylist())
