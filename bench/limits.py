"""Measures the cost of a full broker: 1,000 connections, 10,000 topics, 100,000 partitions, 1,000 groups.

Each case starts a fresh server, in memory or with `--data`, and fills it over the wire. The script then measures the server's
resident memory, its open descriptors, and its CPU time without requests. It also measures how long a client waits for Metadata
of one topic, and for Produce of one record. With `--data` the server is then stopped by SIGTERM and started again.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.contenders import Contender
from bench.fairness import Good, address_of
from bench.fairness_rows import COMMITTING, GOOD, commit, create_topics, find_coordinator
from bench.process import Server, ServerFailed, cpu_ns, resident_bytes
from bench.report import table
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wirebroker.client.wire import WireClient

WITHIN = 600.0
STOP_WITHIN = 120.0
ASKED = 500
IDLE = 3.0
"""Seconds without requests."""
MEMBER_ID_REQUIRED = 79

Fill = Callable[[WireClient, ExitStack], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of content with which a server is filled."""

    title: str
    fill: Fill


def connections(client: WireClient, kept: ExitStack) -> None:
    """Opens 1,000 connections, which stay open after one request each."""
    for number in range(1000):
        client.request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, f"c{number}")


def topics(client: WireClient, kept: ExitStack) -> None:
    """Creates 10,000 topics of one partition."""
    create_topics(client, [f"topic-{number:05d}" for number in range(10_000)], 1)


def partitions(client: WireClient, kept: ExitStack) -> None:
    """Creates 100 topics of 1,000 partitions."""
    for at in range(0, 100, 5):
        create_topics(client, [f"topic-{number:03d}" for number in range(at, at + 5)], 1000)


def groups(client: WireClient, kept: ExitStack) -> None:
    """Makes 1,000 groups, each with one member and one committed offset."""
    create_topics(client, ["topic-0007"], 1)
    find_coordinator(client, COMMITTING)
    while client.request(commit(COMMITTING, [0]), 8).topics[0].partitions[0].error_code:
        time.sleep(0.05)
    for number in range(1000):
        name = f"group-{number:04d}"
        member_id, generation = join(client, name)
        request = commit(name, [0])
        request.member_id, request.generation_id_or_member_epoch = member_id, generation
        if code := client.request(request, 8).topics[0].partitions[0].error_code:
            raise RuntimeError(f"OffsetCommit returned error {code}")


def join(client: WireClient, group: str) -> tuple[str, int]:
    """Joins a group, and returns the member's id and generation. The member's assignment has 100 bytes."""
    joining = JoinGroupRequest(
        group_id=group, session_timeout_ms=300_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(100))],
    )  # fmt: skip
    response = client.request(joining, 7)
    if response.error_code == MEMBER_ID_REQUIRED:
        joining.member_id = response.member_id
        response = client.request(joining, 7)
    given = [SyncGroupRequestAssignment(member_id=response.member_id, assignment=bytes(100))]
    sync = SyncGroupRequest(
        group_id=group, generation_id=response.generation_id, member_id=response.member_id, protocol_type="consumer",
        protocol_name="range", assignments=given,
    )  # fmt: skip
    if code := response.error_code or client.request(sync, 5).error_code:
        raise RuntimeError(f"joining {group} returned error {code}")
    return response.member_id, response.generation_id


CASES = (
    Case("nothing", lambda client, kept: None),
    Case("1,000 connections", connections),
    Case("10,000 topics of 1 partition", topics),
    Case("100,000 partitions in 100 topics", partitions),
    Case("1,000 groups of 1 member", groups),
)


def measure(memory: Contender, data: Contender, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measures each case in memory and with `--data`."""
    rows = []
    for contender, kept in ((memory, False), (data, True)):
        for case in CASES:
            say(f"limits: {case.title}{', --data' if kept else ''}")
            row: dict[str, Any] = {"case": case.title, "data": kept}
            try:
                with tempfile.TemporaryDirectory() as folder:
                    row |= _one(case, contender, folder if kept else "")
            except (ServerFailed, RuntimeError, OSError) as failed:
                row["failure"] = f"{type(failed).__name__}: {failed}"
            say(report([row]).splitlines()[-1])
            rows.append(row)
    return rows


def _one(case: Case, contender: Contender, folder: str) -> dict[str, Any]:
    with ExitStack() as kept, Server(contender.at(0, folder)) as server:
        client = WireClient(*address_of(server.address), timeout=WITHIN)
        kept.callback(client.close)
        create_topics(client, [GOOD], 1)
        start, used = time.perf_counter(), cpu_ns(server.pid)
        case.fill(client, kept)
        found = {"fill_seconds": time.perf_counter() - start, "fill_cpu_seconds": (cpu_ns(server.pid) - used) / 1e9}
        found |= look(client.address, server.pid)
        if folder:
            found["stop_seconds"] = stop(server)
    if folder:
        found |= again(contender, folder)
    return found


def look(address: tuple[str, int], pid: int) -> dict[str, Any]:
    """Measures the server from outside."""
    used, start = cpu_ns(pid), time.perf_counter()
    time.sleep(IDLE)
    idle = (cpu_ns(pid) - used) / 1e9 / (time.perf_counter() - start)
    good = Good(address)
    waits = sorted(good.ask(ASKED))
    good.close()
    return {
        "resident_bytes": resident_bytes(pid), "descriptors": descriptors(pid), "idle_cpu": idle,
        "median_ms": median(waits) * 1e3, "p99_ms": waits[len(waits) * 99 // 100] * 1e3,
    }  # fmt: skip


def descriptors(pid: int) -> int:
    """Returns the number of open descriptors of a process; 0 if it is unknown."""
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return 0


def stop(server: Server) -> float:
    """Stops the server cleanly, and returns the seconds that the stop took. Raises ServerFailed if the stop takes too long."""
    start = time.perf_counter()
    server.signal(signal.SIGTERM)
    try:
        server.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired as late:
        raise ServerFailed(f"the server did not stop within {STOP_WITHIN:.0f} s") from late
    return time.perf_counter() - start


def again(contender: Contender, folder: str) -> dict[str, Any]:
    """Starts the server on the same directory. Returns the seconds until the server responds, and its memory at that time."""
    start = time.perf_counter()
    with Server(contender.at(0, folder), WITHIN) as server:
        with socket.create_connection(address_of(server.address), WITHIN):
            seconds = time.perf_counter() - start
        return {
            "start_seconds": seconds,
            "start_bytes": resident_bytes(server.pid),
            "start_descriptors": descriptors(server.pid),
        }


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Returns a line for each case."""
    lines = []
    for row in rows:
        title = row["case"] + (", --data" if row["data"] else "")
        if "failure" in row:
            lines.append([title, "failed: " + row["failure"][:80], *[""] * 9])
            continue
        lines.append([
            title, f"{row['fill_seconds']:.2f}", f"{row['resident_bytes'] / 1e6:.0f}", str(row["descriptors"]),
            f"{row['idle_cpu'] * 100:.1f}", f"{row['median_ms']:.2f}", f"{row['p99_ms']:.2f}",
            *(f"{row[key]:.2f}" if key in row else "" for key in ("stop_seconds", "start_seconds")),
            *(f"{row[key] / 1e6:.0f}" if key in row else "" for key in ("start_bytes",)),
            str(row.get("start_descriptors", "")),
        ])  # fmt: skip
    head = ["", "made in s", "RSS MB", "descriptors", "idle CPU %", "answer ms", "p99 ms", "stop s", "start s", "RSS MB",
            "descriptors"]  # fmt: skip
    return "The cost of a broker\n" + table(head, lines)
