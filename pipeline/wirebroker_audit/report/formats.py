"""The findings in the formats of other programs: JUnit XML, SARIF 2.1.0, and Prometheus' text format. No Spark here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from wirebroker.audit.findings import KINDS, severity_of
from wirebroker.common import exports
from wirebroker.common.exports import Tested

Row = dict[str, Any]
Summary = Mapping[str, Any]
SHOWN = 20
"""A JUnit file lists at most this many findings of one topic and kind."""
RESULTS = 5000
"""A SARIF file has at most this many findings: GitHub accepts no more from one run."""
_LEVELS = {"certain": "error", "likely": "warning", "info": "note"}


def read_findings(report: Path) -> Iterator[Row]:
    """Yields all findings of a report, a few at a time."""
    for batch in ds.dataset(report / "findings", format="parquet").to_batches():
        yield from batch.to_pylist()


def junit(summary: Summary, findings: Iterable[Row]) -> str:
    """Writes a test case for each topic without failing findings. Any other topic has a test case for each kind of its failing
    findings."""
    shown: dict[tuple[str, str], list[str]] = {}
    for each in findings:
        texts = shown.setdefault((each["topic"], each["kind"]), [])
        if len(texts) < SHOWN:
            texts.append(each["explanation"])
    failing: dict[str, dict[str, int]] = {}
    for each in summary["by_topic"]:
        kinds = failing.setdefault(each["topic"], {})
        if each["fails"]:
            kinds[each["kind"]] = kinds.get(each["kind"], 0) + each["count"]
    cases: list[Tested] = []
    for topic in sorted({*summary["topics"], *failing}):
        if not failing.get(topic):
            cases.append(Tested(topic, "delivered exactly once"))
        for kind, count in failing.get(topic, {}).items():
            texts = shown.get((topic, kind), [])
            more = [f"… and {count - len(texts):,} more"] if count > len(texts) else []
            cases.append(Tested(topic, kind, f"{count:,} × {KINDS[kind]}", kind, "\n".join([*texts, *more])))
    for problem in summary["problems"]:
        cases.append(Tested("wirebroker audit", "everything was read", problem, "unreadable", tag="error"))
    return exports.junit("wirebroker audit", summary["time"], summary["host"], cases)


def sarif(summary: Summary, findings: Iterable[Row]) -> str:
    """Writes a SARIF run with a rule for each kind of finding and a result for each finding. The run also has a notification
    for each thing that could not be read, and for each notice."""
    rules = [
        {"id": kind, "shortDescription": {"text": words}, "defaultConfiguration": {"level": _LEVELS[severity_of(kind)]}}
        for kind, words in KINDS.items()
    ]
    results = [_result(each) for each, _ in zip(findings, range(RESULTS), strict=False)]
    invocation = {
        "executionSuccessful": summary["complete"], "startTimeUtc": summary["time"], "machine": summary["host"],
        "toolExecutionNotifications": [
            {"level": level, "message": {"text": each}}
            for level, texts in (("error", summary["problems"]), ("note", summary["notices"])) for each in texts
        ],
    }  # fmt: skip
    driver = {"name": "wirebroker audit", "version": summary["version"], "rules": rules}
    about = {"origin": summary["origin"], "findings": sum(summary["findings"].values()), "shown": len(results)}
    return exports.sarif(driver, invocation, results, about)


def _result(finding: Row) -> Row:
    where = f"{finding['topic']}-{finding['partition']}" if finding["partition"] >= 0 else finding["topic"]
    offset = finding["first_offset"]
    logical = {"fullyQualifiedName": where if offset < 0 else f"{where}@{offset}", "kind": "resource"}
    return {
        "ruleId": finding["kind"], "ruleIndex": list(KINDS).index(finding["kind"]), "level": _LEVELS[finding["severity"]],
        "message": {"text": finding["explanation"]},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": where}}, "logicalLocations": [logical]}],
        "partialFingerprints": {"finding/v1": finding["id"]},
        "properties": json.loads(finding["evidence"]),
    }  # fmt: skip


def prometheus(summary: Summary) -> str:
    """Writes gauges for the textfile collector of node_exporter or for a push gateway."""
    topics, counted = summary["topics"], summary["by_topic"]
    failing = dict.fromkeys(topics, 0)
    for each in counted:
        failing[each["topic"]] = failing.get(each["topic"], 0) + (each["count"] if each["fails"] else 0)
    findings = [({name: each[name] for name in ("topic", "kind", "severity")}, each["count"]) for each in counted]
    read = [({"topic": topic}, counts) for topic, counts in topics.items()]
    metrics: list[tuple[str, str, Sequence[tuple[Mapping[str, str], int]]]] = [
        ("findings", "Findings by topic, kind and severity.", findings),
        ("failing_findings", "Findings that fail the audit.", [({"topic": topic}, count) for topic, count in failing.items()]),
        ("batches", "Batches that were read.", [(labels, counts["batches"]) for labels, counts in read]),
        ("records", "Records that were read.", [(labels, counts["records"]) for labels, counts in read]),
        ("complete", "1 if everything could be read.", [({}, int(summary["complete"]))]),
        ("time_seconds", "When the audit began.", [({}, int(datetime.fromisoformat(summary["time"]).timestamp()))]),
    ]
    lines = []
    for name, about, samples in metrics:
        lines += [f"# HELP wirebroker_audit_{name} {about}", f"# TYPE wirebroker_audit_{name} gauge"]
        lines += [f"wirebroker_audit_{name}{_labels(labels)} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    escaped = {name: text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, text in labels.items()}
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped.items()) + "}" if escaped else ""


FORMATS: Mapping[str, Callable[[Summary, Path], str]] = {
    "junit": lambda summary, report: junit(summary, read_findings(report)),
    "sarif": lambda summary, report: sarif(summary, read_findings(report)),
    "prometheus": lambda summary, _: prometheus(summary),
}
"""Maps the flag that names the file to the function that returns the text of the report."""


def write_format(name: str, path: Path, summary: Summary, report: Path) -> None:
    """Write the file so that it appears whole, because a collector may read it at any moment. Raises OSError."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(FORMATS[name](summary, report), encoding="utf-8")
    partial.replace(path)
