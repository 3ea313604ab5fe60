"""Runs of several micro-batches become one where they go on: the state of a stream does not grow with its age. No Spark here.

Each micro-batch reads a stretch of a segment by itself, so a producer that writes all the time has a run in each of them.
Stretches whose offsets go on are joined into one, and in it the runs that go on, by the rules of `scan.Linker`. The runs of a
joined stretch have negative numbers: their batches still have the numbers of before, and are found by their positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafkawire.batches import CONTROL, SEQUENCES, TRANSACTIONAL
from wirebroker.audit.findings import INTERNAL_TOPICS
from wirebroker_audit.folding.runs import RUNS
from wirebroker_audit.reading.scan import NO_RUN

Run = dict[str, Any]
"""A row of `RUNS`."""
SUMS = ("batches", "records", "bytes", "committed", "aborted")
HIGHEST = ("marked", "max_timestamp", "compacted_to")


def chained(runs: pa.Table, expiration_ms: int) -> pa.Table:
    """The runs of one segment, as `RUNS`, joined where they go on; after a pause of `expiration_ms` they do not."""
    ordered = sorted(runs.to_pylist(), key=lambda run: run["first"]["position"])
    made = [run for stretch in _stretches(ordered) for run in _joined(stretch, expiration_ms)]
    return pa.Table.from_pylist(made, schema=RUNS)


def _stretches(ordered: list[Run]) -> Iterator[list[Run]]:
    """The runs of the stretches whose offsets go on, together."""
    read: dict[int, list[Run]] = {}
    for run in ordered:
        read.setdefault(run["run"] >> 32, []).append(run)
    together: list[Run] = []
    for stretch in read.values():
        if together and stretch[0]["first"]["base_offset"] != _reach(together) + 1:
            yield together
            together = []
        together = together + stretch
    if together:
        yield together


def _reach(runs: list[Run]) -> int:
    return int(max(run["last"]["last_offset"] for run in runs))


def _joined(stretch: list[Run], expiration_ms: int) -> list[Run]:
    """The runs of a stretch, joined and with new numbers; one that was read at once stays as it is."""
    number = stretch[0]["run"] >> 32
    if all(run["run"] >> 32 == number for run in stretch):
        return stretch
    latest: dict[int, Run] = {}
    made: list[Run] = []
    for run in stretch:
        before = latest.get(run["producer_id"])
        if before is not None and _goes_on(before, run, expiration_ms):
            _append(before, run)
        else:
            low = NO_RUN if run["producer_id"] < 0 else len(made)
            latest[run["producer_id"]] = run | {"run": ~((number if number >= 0 else ~number) << 32 | low)}
            made.append(latest[run["producer_id"]])
    return made


def _goes_on(before: Run, run: Run, expiration_ms: int) -> bool:
    """Whether a run continues the one before it of its producer, as `Linker` would have seen it in one stretch."""
    if run["producer_id"] < 0:
        return True
    last, data, first = before["last"], before["data"], run["first"]
    if before["kind"] & CONTROL or first["base_offset"] <= last["last_offset"]:
        return False
    if first["producer_epoch"] < last["producer_epoch"]:
        return False
    is_open = before["kind"] == TRANSACTIONAL and before["marked"] < last["position"]
    if run["kind"] & CONTROL:
        return bool(is_open)
    if run["kind"] != before["kind"]:
        return False
    if not is_open and first["max_timestamp"] - last["max_timestamp"] >= expiration_ms:
        return False
    if run["topic"] in INTERNAL_TOPICS:
        return True
    if first["producer_epoch"] == data["producer_epoch"]:
        return bool((data["last_sequence"] + 1) % SEQUENCES == first["base_sequence"])
    return bool(data["producer_epoch"] >= 0 and first["base_sequence"] == 0)


def _append(run: Run, following: Run) -> None:
    """Let a run end with another one."""
    run["data"], run["last"] = following["data"] or run["data"], following["last"]
    for name in SUMS:
        run[name] += following[name]
    for name in HIGHEST:
        run[name] = max(run[name], following[name])
    begun = [each for each in (run["open"], following["open"]) if each is not None and each["position"] > run["marked"]]
    run["open"] = min(begun, key=lambda each: each["position"], default=None)
