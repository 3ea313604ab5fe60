"""Measures the resident memory of a server after 200,000 records of 100 bytes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.contenders import Contender
from bench.process import Server, ServerFailed, resident_bytes

RECORDS = 200_000
VALUE = 100
FILL_WITHIN = 90.0
SETTLED = 0.3
"""The memory is read this many seconds after the last response."""


def measure(
    contenders: Sequence[Contender], generator: Sequence[str], per_batch: Sequence[int], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measures the memory in bytes before and after the load, for each contender and each number of records in a batch."""
    rows: list[dict[str, Any]] = []
    for records in per_batch:
        for contender in contenders:
            say(f"memory: {contender.name}, {records} in a batch")
            row: dict[str, Any] = {"contender": contender.name, "records_per_batch": records, "records": RECORDS}
            try:
                row |= _fill(contender, generator, records)
            except ServerFailed as failed:
                row["failure"] = str(failed)
            rows.append(row)
    return rows


def _fill(contender: Contender, generator: Sequence[str], records: int) -> dict[str, int]:
    with Server(contender.at(0)) as server:
        before = resident_bytes(server.pid)
        load = ["-record-bytes", VALUE, "-records", records, "-requests", RECORDS // records, "-warmup", 0]
        command = [*generator, "-address", server.address, "-seconds", FILL_WITHIN, *load]
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=2 * FILL_WITHIN)
        except subprocess.TimeoutExpired as late:
            raise ServerFailed(f"the broker did not have all records after {2 * FILL_WITHIN:.0f} s") from late
        if done.returncode:
            raise ServerFailed(done.stderr.strip().splitlines()[-1])
        time.sleep(SETTLED)
        return {"before": before, "after": resident_bytes(server.pid)}
