"""Measures wirebroker, kfake and a real Kafka in the same rounds.

One Kafka serves all rounds, so that the JVM has compiled its code. The first round warms it up, and is not shown.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence

from bench import report
from bench.contenders import Contender
from bench.process import ServerFailed
from bench.throughput import LOAD_WITHIN, Case, Report

KAFKA, BROKER, KFAKE = "Kafka 4.3.1", "wirebroker full", "kfake"
OPTIONS = ("-XX:+UseSerialGC",)
"""Options of Kafka's JVM. They do not limit compilation, because with such a limit the JVM starts faster but runs slower."""
RATE, CPU = "requests_per_second", "server_cpu_us_per_request"


def rounds(cases: Sequence[Case], one: Callable[[Case, Contender], Report], count: int, say: Callable[[str], None]) -> None:
    """Give each contender of each case one turn in each round."""
    for number in range(count + 1):
        for case in cases:
            say(f"round {number} of {count}: {case.title}")
            for contender in case.contenders:
                if contender.name in case.failures or (not number and contender.name != KAFKA):
                    continue
                try:
                    found = one(case, contender)
                except ServerFailed as failed:
                    case.failures[contender.name] = str(failed)
                    continue
                if number:
                    case.rounds.setdefault(contender.name, []).append(found)


def generate(load: Sequence[str], address: str, pid: int) -> Report:
    """Run the load generator against a server. Returns the generator's measurements. Raises ServerFailed."""
    command = [*load, "-address", address, "-pid", str(pid), "-topic", f"bench-{time.time_ns()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_WITHIN, check=False)
    except subprocess.TimeoutExpired as late:
        raise ServerFailed(f"the load was not done after {LOAD_WITHIN:.0f} s") from late
    if done.returncode:
        raise ServerFailed(done.stderr.strip().splitlines()[-1])
    made: Report = json.loads(done.stdout)
    return made


def text(case: Case) -> str:
    """Returns the table of one case: medians, and ratios to kfake and Kafka within each round."""
    rows = []
    for name, found in case.rounds.items():
        row = [name, str(len(found))]
        for key, form in ((RATE, ",.0f"), (CPU, ".2f")):
            ratios = [case.ratio(name, other, key) for other in (KFAKE, KAFKA)]
            row += [f"{case.middle(name, key):{form}}", *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)]
        rows.append(row)
    head = ["", "rounds", "a second", "× kfake", "× Kafka", "CPU µs each", "× kfake", "× Kafka"]
    table = report.table(head, rows)
    return f"{case.title}\n{table}" + "".join(f"\n{name} failed: {why}" for name, why in case.failures.items())
