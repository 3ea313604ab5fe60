"""Keeps the numbers of earlier audits whose reports were at the same place. A new report continues the list of audits from the
report that it replaces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HISTORY = "history.json"
KEPT = 400
"""A history keeps this many latest audits: a year of nightly audits."""
NEEDED = {"time", "severities", "records", "version"}
"""The fields of an audit that the report shows."""

Entry = dict[str, Any]


def entry_of(summary: Mapping[str, Any]) -> Entry:
    """Returns the numbers of an audit."""
    sums = {name: sum(counts[name] for counts in summary["topics"].values()) for name in ("batches", "records")}
    names = ("time", "version", "host", "complete", "severities", "findings", "failing")
    return {name: summary[name] for name in names} | sums


def earlier(report: Path) -> list[Entry]:
    """Returns the history in a report's folder, the earliest audit first. The history is empty if there is no report, or if its
    history cannot be read."""
    try:
        told = json.loads((report / HISTORY).read_text(encoding="utf-8"))
        return [each for each in told if isinstance(each, dict) and each.keys() >= NEEDED]
    except (OSError, ValueError, TypeError):
        return []


def save(report: Path, entries: list[Entry]) -> None:
    """Write the history into a report's folder."""
    (report / HISTORY).write_text(json.dumps(entries[-KEPT:], indent=1), encoding="utf-8")
