"""Instructions that a server executes for each request, counted by Valgrind: the same on a busy machine and on a quiet one.

One server handles few requests and another one more; the difference belongs to the requests. A count does not show waits for
memory, nor the kernel's work; the time beside another checkout shows both.
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench_parts import report
from bench_parts.beside import FETCHED, contenders
from bench_parts.contenders import Contender
from bench_parts.process import Server, ServerFailed
from bench_parts.throughput import SIZES

VALGRIND = "valgrind"
COUNTER = ("env", "PYTHONHASHSEED=0", VALGRIND, "--trace-children=yes", "--tool=cachegrind", "--cache-sim=no",
           "--cachegrind-out-file=/dev/null")  # fmt: skip
FEW, MANY = 300, 1500
"""Requests that are measured in the two runs."""
READY_WITHIN, ENDS_WITHIN = 120.0, 60.0
"""Seconds: Valgrind is some fifty times slower."""
LOAD = ("-inflight", "1", "-warmup", "100", "-seconds", "600")


@dataclass(slots=True)
class Counted:
    """One row: a contender under one load, and the instructions for each request, here and in the other checkout."""

    name: str
    load: str
    counts: dict[str, float] = field(default_factory=dict)
    failure: str = ""


def measure(
    checkout: Path, loop: str, generator: Sequence[str], sizes: Sequence[str], say: Callable[[str], None]
) -> list[Counted]:
    """Produce with each size of batches, and Fetch of one batch of 16 KiB, each with one request at a time."""
    loads = {f"Produce {size}": ("-mode", "produce", "-bytes", str(SIZES[size])) for size in sizes}
    loads["Fetch 16k"] = ("-mode", "fetch", "-bytes", "16384", "-fill", str(1 << 20), "-max-bytes", "16384")
    entered = contenders(checkout, loop)
    for each in entered[:2]:  # the first start of each checkout compiles it
        _executed(each, [*generator, *LOAD], 1)
    rows = []
    for title, load in loads.items():
        for ours, theirs in zip(entered[::2], entered[1::2], strict=True):
            if "fetch" in load and ours.name not in FETCHED:
                continue
            say(f"instructions: {title}, {ours.name}")
            row = Counted(ours.name, title)
            try:
                row.counts = {
                    "this": _for_each(ours, generator, load),
                    "other": _for_each(theirs, generator, load),
                }
            except ServerFailed as failed:
                row.failure = str(failed)
            rows.append(row)
    return rows


def _for_each(contender: Contender, generator: Sequence[str], load: Sequence[str]) -> float:
    few, many = (_executed(contender, [*generator, *load, *LOAD, *contender.load], count) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def _executed(contender: Contender, load: Sequence[str], requests: int) -> int:
    """Instructions of a server's whole life, in which it handles so many requests."""
    with (
        tempfile.TemporaryDirectory(prefix="wirebroker-bench-") as folder,
        Server([*COUNTER, *contender.at(0, folder)], READY_WITHIN) as server,
    ):
        command = [*load, "-requests", str(requests), "-address", server.address]
        done = subprocess.run(command, capture_output=True, text=True)
        server.signal(signal.SIGTERM)
        server.wait(ENDS_WITHIN)
        found = re.search(r"I\s+refs:\s+([\d,]+)", server.last_words())
        if done.returncode or found is None:
            raise ServerFailed(done.stderr.strip()[-200:] or f"{VALGRIND} printed no count: {server.last_words()}")
    return int(found[1].replace(",", ""))


def text(rows: Sequence[Counted]) -> str:
    """The rows as a table."""
    shown = [
        [row.load, row.name, f"{row.counts['this']:,.0f}", f"{row.counts['other']:,.0f}",
         f"{row.counts['other'] / row.counts['this']:.3f}"]
        for row in rows if not row.failure
    ]  # fmt: skip
    failures = "".join(f"\n{row.load}, {row.name} failed: {row.failure}" for row in rows if row.failure)
    head = ["", "", "this", "other", "other ÷ this"]
    return f"Instructions for each request, one request at a time\n{report.table(head, shown)}{failures}"
