"""Runs one real client for each language except Python: Java's client, franz-go and kafkajs. `scripts/interop` runs the other
clients.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wirebroker.mock import MockKafka
from wirekit import lacking

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "interop"
CHECKS = ["produce", "commit", "abort", "fence", "rebalance", "topics"]


@pytest.mark.parametrize(("client", "tool"), [("java", "java"), ("franz-go", "go"), ("kafkajs", "node")])
def test_e1_e2_c1_clients_of_other_languages_are_at_home(
    client: str, tool: str, mock_kafka_factory: Callable[..., MockKafka], tmp_path: Path
) -> None:
    if shutil.which(tool) is None:
        lacking(tool, f"{tool} is not installed")
    kafka = mock_kafka_factory(configs={"num.partitions": 2})
    found = tmp_path / "found.json"
    command = [sys.executable, SCRIPT, "--offline", "--clients", client, "--checks", ",".join(CHECKS)]
    run = subprocess.run(
        [*command, "--bootstrap", kafka.bootstrap_servers, "--json", found], capture_output=True, text=True, timeout=55
    )
    assert found.exists(), run.stderr
    (outcome,) = json.loads(found.read_text(encoding="utf-8"))
    if outcome["missing"]:
        lacking(tool, f"{client} is not run: {outcome['missing']}")
    results = {check: result["detail"] for check, result in outcome["results"].items() if result["result"] != "pass"}
    assert list(outcome["results"]) == CHECKS
    assert results == {}
    assert "accepted" in {row.verdict for row in kafka.trace.produce()}
