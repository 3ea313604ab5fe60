"""Instructions that a server executes for each request, counted by Valgrind: the same on a busy machine and on a quiet one.

One server first handles requests that are not counted, so that it has loaded and compiled what they need. It then handles
few requests and more requests; the difference belongs to the requests. A count does not show waits for memory, nor the kernel's
work; the time beside another checkout shows both.
"""

from __future__ import annotations

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

VALGRIND, CONTROL = "valgrind", "callgrind_control"
COUNTER = ("env", "PYTHONHASHSEED=0", VALGRIND, "--trace-children=yes", "--tool=callgrind", "--instr-atstart=no")
MANY, MANY_LARGE = 1500, 300
"""Requests of the larger counted run; fewer of 1 MiB, because a broker keeps every batch in memory."""
FEWER = 5
"""The smaller counted run, and the run before it, have this many times fewer requests."""
READY_WITHIN = 120.0
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
    rows = []
    for title, load in loads.items():
        for ours, theirs in zip(entered[::2], entered[1::2], strict=True):
            if "fetch" in load and ours.name not in FETCHED:
                continue
            say(f"instructions: {title}, {ours.name}")
            row = Counted(ours.name, title)
            try:
                many = MANY_LARGE if title == "Produce 1m" else MANY
                row.counts = {
                    "this": _for_each(ours, [*generator, *load], many),
                    "other": _for_each(theirs, [*generator, *load], many),
                }
            except ServerFailed as failed:
                row.failure = str(failed)
            rows.append(row)
    return rows


def _for_each(contender: Contender, load: Sequence[str], many: int) -> float:
    few = many // FEWER
    with (
        tempfile.TemporaryDirectory(prefix="wirebroker-bench-") as folder,
        Server([*COUNTER, f"--callgrind-out-file={folder}/counts", *contender.at(0, folder)], READY_WITHIN) as server,
    ):
        counts = []
        for topic, requests in (("warm", few), ("few", few), ("many", many)):
            if topic == "few":
                _control("-i", "on", server.pid)
            command = [*load, *LOAD, *contender.load, "-topic", topic, "-requests", str(requests)]
            done = subprocess.run([*command, "-address", server.address], capture_output=True, text=True)
            if done.returncode:
                raise ServerFailed(done.stderr.strip()[-200:])
            if topic != "warm":
                _control("-d", server.pid)
                dump = Path(folder, f"counts.{len(counts) + 1}").read_text()
                counts.append(int(dump.rpartition("totals:")[2].split()[0]))
    return (counts[1] - counts[0]) / (many - few)


def _control(*arguments: object) -> None:
    """Switch the counting on, or write down the counts since the last time and begin again at 0."""
    done = subprocess.run([CONTROL, *map(str, arguments)], capture_output=True, text=True, timeout=READY_WITHIN)
    if done.returncode:
        raise ServerFailed(f"{CONTROL} failed: {done.stderr.strip()[-200:]}")


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
