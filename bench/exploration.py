"""Measures the cost of an exploration: how many times a second it runs a test that takes 0.1 s, and how much time each run adds
to the explored command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

TEST = """
import os, time
import pytest
from kafkawire.batches import Record, build_batch
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wirebroker.client.wire import WireClient

@pytest.mark.mock_kafka(topics="orders", explore={"api": "Produce", "every": True})
def test_that_takes_a_tenth_of_a_second(mock_kafka):
    with open(os.environ["RUNS"], "ab") as runs:
        runs.write(b".")
    time.sleep(0.1)
    client = WireClient.at(mock_kafka.bootstrap_servers)
    for number in range(3):
        part = PartitionProduceData(index=0, records=build_batch([Record(0, 0, None, b"%d" % number)]))
        topic = TopicProduceData(name="orders", partition_data=[part])
        client.request(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    client.close()
"""
DRIVER = """
import json, time
import pytest, wirebroker_tools.campaign.in_pytest as in_pytest
explore_item = in_pytest.explore_item
def timed(*arguments):
    cpu, wall = time.process_time(), time.perf_counter()
    explore_item(*arguments)
    with open("times.json", "w") as file:
        json.dump([time.process_time() - cpu, time.perf_counter() - wall], file)
in_pytest.explore_item = timed
pytest.main(["-q", "-p", "no:cacheprovider", "test_bench.py"])
"""
COMMAND = """
import os, socket, struct
host, _, port = os.environ["WIREBROKER_BOOTSTRAP"].rpartition(":")
client = socket.create_connection((host, int(port)))
body = struct.pack(">hhih5si", 3, 1, 7, 5, b"bench", 0)
for _ in range(20):
    client.sendall(struct.pack(">i", len(body)) + body)
    size, = struct.unpack(">i", client.recv(4))
    client.recv(size)
"""


def measure(rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Returns the figures of each round. For a test in one worker of pytest: the runs a second, and the CPU time of a run. For
    a command: the time that the command itself takes, and the time that the exploration adds to each run. Times are in ms.
    """
    found: dict[str, Any] = {"runs_per_s": [], "cpu_ms": [], "overhead_ms": [], "own_ms": []}
    for number in range(rounds):
        say(f"exploration: round {number + 1} of {rounds}")
        with tempfile.TemporaryDirectory() as folder:
            rate, cpu = _tests(Path(folder))
        found["runs_per_s"].append(rate)
        found["cpu_ms"].append(cpu)
        overhead, own = _commands()
        found["overhead_ms"].append(overhead)
        found["own_ms"].append(own)
    return found


def _tests(folder: Path) -> tuple[float, float]:
    (folder / "test_bench.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    runs = folder / "runs"
    environment = os.environ | {"RUNS": str(runs)}
    subprocess.run([sys.executable, "-c", DRIVER], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    cpu, seconds = json.loads((folder / "times.json").read_text())
    count = len(runs.read_bytes())
    return count / seconds, cpu / count * 1000


def _commands() -> tuple[float, float]:
    from wirebroker_tools.campaign.application import Application
    from wirebroker_tools.campaign.exploration import Exploration
    from wirebroker_tools.campaign.misfortunes import Choice

    application = Application([sys.executable, "-S", "-E", "-c", COMMAND])
    exploration = Exploration(application, Choice.of(["Metadata"], ["error"], every=True))
    try:
        exploration.begin()
        began = time.perf_counter()
        results = [exploration.case(case) for case in exploration.table]
        seconds = time.perf_counter() - began
    finally:
        application.stop()
    own = sum(result["seconds"] for result in results)
    return (seconds - own) / len(results) * 1000, own / len(results) * 1000


def text(found: dict[str, Any]) -> str:
    """Returns a text that shows the figures."""
    middle = {name: median(values) for name, values in found.items()}
    return (
        f"explored test that takes 0.1 s: {middle['runs_per_s']:.1f} runs a second in one worker of pytest, "
        f"{middle['cpu_ms']:.0f} ms of CPU each\n"
        f"explored command that takes {middle['own_ms']:.0f} ms: {middle['overhead_ms']:.1f} ms more for each run"
    )
