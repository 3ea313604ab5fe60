"""The audit of the pipelines of `applications`, and the comparison of its report with the expected counts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ecosystem.pipelines.counting import Counts

ROOT = Path(__file__).resolve().parent.parent.parent
POLICIES = """
[pipelines.java]
in = "java.in"
out = "java.out"
match = "key"

[pipelines.java-transactions]
in = "java.in"
out = "java.out"
match = "transaction"

[pipelines.python]
in = "python.in"
out = ["python.out", "python.rejected"]
match = "header:id"

[pipelines.python-transactions]
in = "python.in"
out = ["python.out", "python.rejected"]
match = "transaction"

[pipelines.go]
in = "go.in"
out = "go.out"
match = "value:$.order.id"
may_drop = "value:$.state=draft"

[pipelines.go-transactions]
in = "go.in"
out = "go.out"
match = "transaction"
may_drop = true

[pipelines.plain]
in = "plain.in"
out = ["plain.out", "plain.rejected"]
match = "header:id"
"""
PARTITIONS = {"in": 4, "out": 3}


def outputs(name: str) -> list[str]:
    """Returns the topics that an application writes."""
    return [f"{name}.out", *([f"{name}.rejected"] if name in ("python", "plain") else [])]


def topics(name: str) -> dict[str, int]:
    """Returns the topics that an application reads and writes, with their numbers of partitions."""
    return {f"{name}.in": PARTITIONS["in"], **dict.fromkeys(outputs(name), PARTITIONS["out"])}


def say(text: str) -> None:
    """Prints a line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def audit(folder: Path, name: str, policies: str, *where: str) -> dict[str, Any]:
    """Audit with these policies, and write the report to the folder. Returns its summary, empty if there is no report."""
    out, file = folder / f"report-{name}", folder / "pipelines.toml"
    file.write_text(policies)
    words = [*where, "--pipeline", str(file), "--out", str(out), "--master", "local[2]"]
    began = time.monotonic()
    command = [sys.executable, "-m", "wirebroker_audit", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    say(f"audit {name}: exit code {done.returncode} after {took:.0f} s\n{done.stdout}{done.stderr[-2000:]}")
    return dict(json.loads((out / "summary.json").read_text())) if (out / "summary.json").exists() else {}


NAMES = {"inputs": "inputs", "outputs": "outputs", "lost": "unprocessed", "doubled": "processed_twice",
         "invented": "without_input", "disordered": "out_of_order", "dropped": "dropped"}  # fmt: skip
"""Maps each count of this script to its name in the audit's summary."""


REPEATS = ("processed_twice", "session_duplicate", "epoch_duplicate", "application_duplicate")
"""The kinds of findings about records that are stored twice."""


def differences(name: str, summary: dict[str, Any], counted: dict[str, Counts]) -> list[str]:
    """Returns the errors of the audit, in words."""
    wrong = [] if summary.get("complete") else ["the audit is not complete"]
    for each in summary.get("followed", []):
        expected = counted[each["name"].partition("-")[0]]
        for ours, theirs in NAMES.items():
            if (found := (each.get("records") or {}).get(theirs)) != getattr(expected, ours) and name != "during":
                wrong.append(f"pipeline {each['name']}: {theirs} {found}, counted {getattr(expected, ours)}")
    for each in (each for each in summary.get("by_topic", []) if each["fails"]):
        of, _, side = each["topic"].partition(".")
        told = counted.get(of)
        repeats = told is not None and (told.repeated if side == "in" else told.repeated or told.doubled)
        disorder = told is not None and told.disordered
        if not (repeats and each["kind"] in REPEATS) and not (disorder and each["kind"] == "output_disorder"):
            wrong.append(f"{each['topic']}: {each['count']} x {each['kind']}")
    return [f"{name}: {each}" for each in wrong]
