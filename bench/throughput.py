"""Measures Produce and Fetch. Each round measures every contender once, so that changes of the machine's load affect all of
them.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.contenders import Contender
from bench.process import Server, ServerFailed, available_bytes

LOAD_WITHIN = 60.0
KIB, MB = 1024, 1_000_000
SIZES = {"1k": KIB, "16k": 16 * KIB, "1m": MB}
"""The sizes of batches in bytes. The largest size is slightly below max.message.bytes, 1048588."""
REQUESTS = {"1k": 40_000, "16k": 12_000, "1m": 256}
WARM_UP = {"1k": 1_000, "16k": 200, "1m": 20}
FETCH_FILL = 64 * 1024 * 1024
FETCHED_BATCH = 16 * KIB

Report = dict[str, Any]


@dataclass(slots=True)
class Case:
    """A load, and the measurements of each contender under it, round by round."""

    mode: str
    title: str
    load: list[str]
    contenders: Sequence[Contender]
    generator: Sequence[str] = ()
    """The command of the load generator; empty for the usual command."""
    rounds: dict[str, list[Report]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def middle(self, contender: str, key: str) -> float:
        """Returns the median of a figure over the rounds."""
        return float(median(report[key] for report in self.rounds[contender]))

    def ratio(self, contender: str, other: str, key: str) -> float | None:
        """Returns the median of the ratios within each round."""
        pairs = list(zip(self.rounds.get(contender, ()), self.rounds.get(other, ()), strict=False))
        return median(mine[key] / theirs[key] for mine, theirs in pairs) if pairs and pairs[0][1][key] else None


def produce_cases(
    contenders: Sequence[Contender], sizes: Sequence[str], connections: Sequence[int], version: int, share: float
) -> Iterator[Case]:
    """Yields a case of Produce for each batch size and number of connections. `share` is the fraction of the usual load."""
    for size in sizes:
        for count in connections:
            requests = int(REQUESTS[size] * share)
            load = [
                "-mode", "produce", "-version", str(version), "-bytes", str(SIZES[size]),
                "-connections", str(count), "-requests", str(requests), "-seconds", str(share),
                "-warmup", str(max(WARM_UP[size] // count, 5)), "-reserve", str(_reserve(requests * SIZES[size])),
            ]  # fmt: skip
            title = f"Produce v{version}, batches of {_bytes(SIZES[size])}, {_connections(count)}, five in flight"
            yield Case("produce", title, load, contenders)


def fetch_cases(contenders: Sequence[Contender], connections: Sequence[int], version: int, share: float) -> Iterator[Case]:
    """Yields a case of Fetch for each number of connections. Each connection reads its own partition again and again, in
    successive requests of at most 1 MiB.
    """
    for count in connections:
        load = [
            "-mode", "fetch", "-fetch-version", str(version), "-bytes", str(FETCHED_BATCH),
            "-connections", str(count), "-fill", str(FETCH_FILL // count), "-max-bytes", str(1 << 20),
            "-seconds", str(0.6 * share), "-reserve", str(_reserve(FETCH_FILL)),
        ]  # fmt: skip
        yield Case("fetch", f"Fetch v{version} of up to 1 MiB, batches of 16 KiB, {_connections(count)}", load, contenders)


def run(cases: Sequence[Case], generator: Sequence[str], rounds: int, deadline: float, say: Callable[[str], None]) -> int:
    """Measure all cases until the deadline. Returns the number of whole rounds."""
    for number in range(rounds):
        for case in cases:
            if time.monotonic() > deadline:
                return number
            say(f"round {number + 1} of {rounds}: {case.title}")
            turn = number % len(case.contenders)
            for contender in [*case.contenders[turn:], *case.contenders[:turn]]:
                if contender.name in case.failures:
                    continue
                try:
                    report = measure(contender, generator, case.load)
                except ServerFailed as failed:
                    case.failures[contender.name] = str(failed)
                    case.rounds.pop(contender.name, None)
                else:
                    case.rounds.setdefault(contender.name, []).append(report)
    return rounds


def measure(contender: Contender, generator: Sequence[str], load: Sequence[str]) -> Report:
    """Run the load generator against a fresh server. Returns the generator's measurements. Raises ServerFailed."""
    with tempfile.TemporaryDirectory(prefix="wirebroker-bench-") as folder, Server(contender.at(0, folder)) as server:
        command = [*generator, "-address", server.address, "-pid", str(server.pid), *contender.load, *load]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_WITHIN)
        except subprocess.TimeoutExpired as late:
            raise ServerFailed(f"the load was not done after {LOAD_WITHIN:.0f} s") from late
        if done.returncode:
            fate = "which lives on, said" if server.alive else "which is gone, said"
            raise ServerFailed(f"{done.stderr.strip().splitlines()[-1]}; the server, {fate}: {server.last_words()}")
        report: Report = json.loads(done.stdout)
        return report


def _reserve(size: int) -> int:
    """Returns the megabytes to reserve for a server that keeps `size` bytes, within the machine's available memory."""
    return int(min(1.5 * size + 64 * MB, available_bytes() / 4) / MB)


def _bytes(size: int) -> str:
    return f"{size // KIB} KiB" if size % KIB == 0 else f"{size // MB} MB"


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"
