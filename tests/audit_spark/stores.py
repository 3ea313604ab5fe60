"""Makes a log directory with faults. Then runs a whole audit of a copy of this directory in a store."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from audit_spark.conftest import QUICK_JAVA
from audit_spark.synthetic import Made, Writer, make_directory
from wirebroker_audit.logs.planning import SMALL_BYTES


def make_logs(folder: Path) -> Made:
    """Makes small partitions with faults, and one large partition, which the executors read and not the driver."""
    made = make_directory(folder, seed=6, partitions=4)
    large = Writer("large", 0, random.Random(4))
    for each in range(5):
        large.data(1, values=[random.Random(each).randbytes(SMALL_BYTES // 4)])
    large.save(folder)
    return made


def check_audit(address: str, made: Made, origin: str, environment: Mapping[str, str], out: Path) -> None:
    """Runs `wirebroker audit` on the directory at `address`, and checks that the audit finds exactly the planted faults."""
    command = [sys.executable, "-m", "wirebroker", "audit", "--path", address, "--out", out]
    environment = os.environ | {"JAVA_TOOL_OPTIONS": QUICK_JAVA} | environment
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 1, run.stdout + run.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["complete"], summary["problems"], summary["origin"]) == (True, [], origin)
    assert summary["topics"]["large"]["bytes"] > SMALL_BYTES
    found = pq.read_table(out / "findings").to_pylist()
    assert len(found) == len(made.faults)
    assert {(each["kind"], each["topic"], each["partition"]) for each in found} == {
        (fault.kind, fault.topic, fault.partition) for fault in made.faults
    }
