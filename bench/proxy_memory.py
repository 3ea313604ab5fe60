"""Measures the resident memory of a proxy while millions of exchanges pass, over one connection and over a thousand."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import report
from bench.process import Server, ServerFailed, cpu_ns, resident_bytes

WIREBROKER = str(Path(sys.executable).parent / "wirebroker")
SETTINGS = ("log.retention.bytes=67108864", "log.segment.bytes=16777216", "log.retention.check.interval.ms=1000")
"""The proxied broker forgets old records, so that its own memory has a limit."""
CASES = (("off", 1), ("verdicts", 1), ("off", 1000), ("verdicts", 1000))
"""Each case has a level of the trace and a number of connections."""
LONGEST_S = 4 * 3600
EVERY_S = 2.0
PARTS = 10


def measure(
    loop: str, generator: Sequence[str], exchanges: int, names: Sequence[str], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """For each case, measures the proxy's memory in bytes after each tenth of the exchanges.

    With `names` it measures only the cases whose name begins with one of them, such as "off-1" or "verdicts".
    """
    rows = []
    for level, connections in CASES:
        if names and not f"{level}-{connections}".startswith(tuple(names)):
            continue
        say(f"memory of the proxy: trace {level}, {connections} connections, {exchanges:,} exchanges")
        row: dict[str, Any] = {"level": level, "connections": connections, "exchanges": exchanges}
        try:
            row |= _one(level, loop, [*generator, "-connections", str(connections), "-requests", str(exchanges)])
        except ServerFailed as failed:
            row["failure"] = str(failed)
        rows.append(row)
    return rows


def _one(level: str, loop: str, load: Sequence[str]) -> dict[str, Any]:
    settings = [word for setting in SETTINGS for word in ("--config", setting)]
    broker = [
        WIREBROKER,
        "serve",
        "--port",
        "0",
        "--loop",
        loop,
        "--trace-level",
        "off",
        "--record-checks",
        "header",
        *settings,
    ]
    proxy = [WIREBROKER, "proxy", "--listen", "127.0.0.1:0", "--loop", loop, "--trace-level", level, "--upstream"]
    with Server(broker) as upstream, Server([*proxy, upstream.address]) as server:
        command = [*load, "-address", server.address, "-seconds", str(LONGEST_S), "-records", "1", "-record-bytes", "10"]
        began = cpu_ns(server.pid)
        memory = list(_watched(command, server.pid))
        step = max(len(memory) / PARTS, 1)
        return {
            "memory": [memory[min(int((part + 1) * step), len(memory)) - 1] for part in range(PARTS)],
            "highest": max(memory), "cpu_s": (cpu_ns(server.pid) - began) / 1e9,
        }  # fmt: skip


def _watched(command: Sequence[str], pid: int) -> Iterator[int]:
    """Yields the memory of a process every few seconds while a command runs."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        while running.poll() is None:
            time.sleep(EVERY_S)
            yield resident_bytes(pid)
        if running.returncode:
            raise ServerFailed(running.stderr.read().strip().splitlines()[-1])


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the table of the rows, in MiB."""
    head = ["trace", "connections", "exchanges", "CPU s", *(f"{part + 1}/{PARTS}" for part in range(PARTS)), "highest"]
    shown = [
        [row["level"], str(row["connections"]), f"{row['exchanges']:,}", f"{row['cpu_s']:.0f}",
         *(f"{each / 2**20:.1f}" for each in row["memory"]), f"{row['highest'] / 2**20:.1f}"]
        for row in rows if "failure" not in row
    ]  # fmt: skip
    failures = "".join(
        f"\n{row['level']}, {row['connections']} connections failed: {row['failure']}" for row in rows if "failure" in row
    )
    return f"Memory of the proxy in MiB, after each tenth of the time\n{report.table(head, shown)}{failures}"
