"""Measures how long a broker with --data takes to recover after kill -9, with a gigabyte of 16 KiB batches."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.contenders import Contender
from bench.process import Server, ServerFailed
from bench.startup import first_response

BATCH = 16 * 1024
GIGABYTE = 1 << 30
HEADERS = 80
"""A batch has about this many bytes besides the record's value."""
FILL_WITHIN = 120.0


def measure(broker: Contender, generator: Sequence[str], rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """For each kill, returns the seconds from the next start of the process to its first response. Also returns the number of
    stored bytes.

    Raises ServerFailed.
    """
    with tempfile.TemporaryDirectory() as folder:
        say("recovery: filling")
        with Server(broker.at(0, folder)) as server:
            _fill(generator, server.address)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.log"))
        if size < GIGABYTE * 0.9:
            raise ServerFailed(f"only {size} bytes were stored")
        times = []
        for number in range(rounds):
            say(f"recovery: {number + 1} of {rounds}")
            times.append(first_response(broker, folder)[0])
        return {"bytes": size, "seconds": times}


def _fill(generator: Sequence[str], address: str) -> None:
    load = ["-record-bytes", BATCH - HEADERS, "-records", 1, "-requests", GIGABYTE // BATCH, "-warmup", 0]
    command = [*generator, "-address", address, "-seconds", FILL_WITHIN, *load]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=2 * FILL_WITHIN)
    if done.returncode:
        raise ServerFailed(done.stderr.strip().splitlines()[-1])


def report(found: dict[str, Any]) -> str:
    """Returns a text that shows the figures."""
    times = found["seconds"]
    return (
        f"Recovery of {found['bytes'] / GIGABYTE:.2f} GiB of 16 KiB batches after kill -9, process start to first Metadata "
        f"response: {median(times):.2f} s (from {min(times):.2f} to {max(times):.2f})"
    )
