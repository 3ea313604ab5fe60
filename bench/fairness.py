"""Measures how long a good client waits while a rude client is active. The good client sends small requests, and its worst
response time counts.

The server runs on one core and the rude client on another, if the machine has two. The good client has one request in
flight. The good client sends Metadata of one topic and Produce of one record alternately, `PAUSE` seconds apart. The rude
client is a separate process. A row lasts until the rude client has all its responses, or `LONGEST` seconds. Each row starts a
fresh server with 1,000 topics of 3 partitions. Kafka takes long to create the topics, so one Kafka serves all rows of a round.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from bench.contenders import Contender
from bench.fairness_rows import GOOD, ROWS, Row, frame, lay_out, produce, small_batch
from bench.process import Server, ServerFailed, cpu_ns
from bench.report import table
from bench.rude import Rude
from ecosystem.kafka.server import KafkaServer, KafkaUnavailable
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wirebroker.client.wire import ConnectionClosed, NoResponse, WireClient

LONGEST = 20.0
"""A row is given up after this many seconds. The table then shows that the good client waited for longer than this time."""
AFTERWARDS = 0.5
"""The good client continues for this many seconds after the rude client has its responses."""
PAUSE = 0.002
KAFKA = "Kafka 4.3.1"
KAFKA_HEAP = "2g"


def measure(
    contenders: Sequence[Contender], rows: Sequence[str], rounds: int, say: Callable[[str], None], *, kafka: bool = True
) -> dict[str, Any]:
    """For each row and contender, measures the good client's waits in ms, the server's CPU seconds, and the server's peak
    memory.
    """
    chosen = [row for row in ROWS if not rows or row.name.startswith(tuple(rows))]
    found: dict[str, Any] = {"rows": {row.name: {} for row in chosen}, "failures": {}}
    for number in range(rounds):
        for contender in contenders:
            for row in chosen:
                say(f"fairness: round {number + 1} of {rounds}, {contender.name}: {row.name}")
                with recorded(found, row, contender.name) as runs, Server(contender.at(0)) as server:
                    address = address_of(server.address)
                    with laid_out(address, server.pid) as client:
                        runs.append(one_row(row, client, server.pid))
        if kafka:
            _measure_kafka(chosen, found, f"round {number + 1} of {rounds}", say)
    return found


def _measure_kafka(chosen: Sequence[Row], found: dict[str, Any], which: str, say: Callable[[str], None]) -> None:
    settings = {"offsets.topic.num.partitions": "4", "group.max.session.timeout.ms": "600000"}
    try:
        with KafkaServer(settings, heap=KAFKA_HEAP) as kafka, laid_out(kafka.address, kafka.pid) as client:
            for row in chosen:
                say(f"fairness: {which}, {KAFKA}: {row.name}")
                with recorded(found, row, KAFKA) as runs:
                    runs.append(one_row(row, client, kafka.pid))
    except (KafkaUnavailable, RuntimeError, NoResponse, ConnectionClosed) as lacking:
        found["failures"][KAFKA] = str(lacking)


@contextmanager
def recorded(found: dict[str, Any], row: Row, name: str) -> Iterator[list[dict[str, Any]]]:
    """Yields the list of runs of one row and contender, and notes the reason if the row cannot be measured."""
    runs = found["rows"][row.name].setdefault(name, [])
    try:
        yield runs
    except (ServerFailed, RuntimeError, OSError) as failed:
        found["failures"][f"{name}, {row.name}"] = f"{type(failed).__name__}: {failed}"


def address_of(text: str) -> tuple[str, int]:
    """Returns the host and the port of an address."""
    host, _, port = text.rpartition(":")
    return host, int(port)


@contextmanager
def laid_out(address: tuple[str, int], pid: int) -> Iterator[WireClient]:
    """Pins the server to its own core and creates the topics of the table. Yields a client of the server."""
    client = WireClient(*address, timeout=LONGEST)
    try:
        lay_out(client)
        pin(pid)
        yield client
    finally:
        client.close()


def cores() -> tuple[int, int] | None:
    """Returns a core for the server and a core for the clients, or None if there is only one core, or the system cannot pin."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    available = sorted(os.sched_getaffinity(0))
    return (available[0], available[-1]) if len(available) > 1 else None


def pin(pid: int) -> None:
    """Keep all threads of the server on its core."""
    pair = cores()
    if pair is not None:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                os.sched_setaffinity(int(task.name), {pair[0]})


def one_row(row: Row, client: WireClient, pid: int) -> dict[str, Any]:
    """Returns the good client's waits while the rude client is active."""
    if row.prepare is not None:
        row.prepare(client)
    attack = row.attack()
    pair = cores()
    good = Good(client.address)
    try:
        forget_peak(pid)
        before, start = cpu_ns(pid), peak_bytes(pid)
        with Rude(attack, client.address, pair[1] if pair else None, LONGEST) as rude:
            waits, over = good.ask_beside(rude)
            report = rude.done() or {"seconds": None, "answers": 0, "why": f"not done after {LONGEST:.0f} s"}
            used, peak = cpu_ns(pid) - before, peak_bytes(pid)
    finally:
        good.close()
    waits.sort()
    return {
        "worst_ms": waits[-1] * 1e3, "over": over, "p99_ms": waits[len(waits) * 99 // 100] * 1e3,
        "median_ms": median(waits) * 1e3, "asked": len(waits), "server_cpu_seconds": used / 1e9,
        "peak_bytes": peak, "bytes_before": start, "rude": report, "sent_bytes": len(attack.payload),
    }  # fmt: skip


class Good:
    """The good client: it sends small requests, one after the other."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, LONGEST)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        metadata = frame(MetadataRequest(topics=[MetadataRequestTopic(name=GOOD)]), 9)
        self._requests = (metadata, produce(GOOD, small_batch()))
        for request in self._requests * 20:
            self._ask(request, LONGEST)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, count: int) -> list[float]:
        """Send `count` requests and return their waits in seconds. Raises ConnectionClosed without a response."""
        waits = []
        for number in range(count):
            start = time.perf_counter()
            if not self._ask(self._requests[number % 2], LONGEST):
                raise ConnectionClosed(f"no response within {LONGEST:.0f} s")
            waits.append(time.perf_counter() - start)
        return waits

    def ask_beside(self, rude: Rude) -> tuple[list[float], bool]:
        """Send requests until the rude client is done. Returns all waits in seconds, and True if a response was late."""
        waits: list[float] = []
        until = time.perf_counter() + LONGEST
        ending = False
        while (now := time.perf_counter()) < until:
            if not ending and rude.done() is not None:
                ending, until = True, now + AFTERWARDS
            if not self._ask(self._requests[len(waits) % 2], LONGEST):
                return [*waits, time.perf_counter() - now], True
            waits.append(time.perf_counter() - now)
            time.sleep(PAUSE)
        return waits, False

    def _ask(self, request: bytes, seconds: float) -> bool:
        """Send a request and read its response. Returns False if no response comes."""
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(request)
            left = int.from_bytes(self._exactly(4), "big")
            self._exactly(left)
        except OSError:
            return False
        return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("closed by the broker")
            data += part
        return data


def peak_bytes(pid: int) -> int:
    """Returns the peak resident memory of a process, or 0 if it is unknown."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0
    return 0


def forget_peak(pid: int) -> None:
    """Reset the peak to the present resident memory."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def report(found: dict[str, Any]) -> str:
    """Returns two tables: the good client's worst waits, and the cost of each row to each server."""
    titles = {row.name: row.title for row in ROWS}
    names = list(dict.fromkeys(name for runs in found["rows"].values() for name in runs))
    waits, costs = [], []
    for row, by_name in found["rows"].items():
        waits.append([titles[row], *(_waits(by_name.get(name, [])) for name in names)])
        for name in names:
            if runs := by_name.get(name):
                costs.append([f"{row}: {name}", *_costs(runs)])
    return (
        "Worst wait of a good client beside a rude client, ms: the median of the rounds (and the worst)\n"
        + table(["the rude one", *names], waits)
        + "\n\nThe cost to the server: medians of the rounds\n"
        + table(["", "good: median ms", "p99 ms", "asked", "until answered, s", "answers", "CPU s", "peak MB", "more MB"],
                costs)
        + "".join(f"\nfailed: {what}: {why}" for what, why in found["failures"].items())
    )  # fmt: skip


def _waits(runs: Sequence[dict[str, Any]]) -> str:
    if not runs:
        return "–"
    worst = [run["worst_ms"] for run in runs]
    over = ">" if any(run["over"] for run in runs) else ""
    return f"{over}{median(worst):,.0f} ({max(worst):,.0f})"


def _costs(runs: Sequence[dict[str, Any]]) -> list[str]:
    def middle(key: str) -> float:
        return median(run[key] for run in runs)

    seconds = [run["rude"]["seconds"] for run in runs]
    until = "not done" if None in seconds else f"{median(seconds):.2f}"
    responses = median(run["rude"]["answers"] for run in runs)
    more = median(run["peak_bytes"] - run["bytes_before"] for run in runs)
    return [
        f"{middle('median_ms'):.1f}", f"{middle('p99_ms'):.1f}", f"{middle('asked'):.0f}", until, f"{responses:.0f}",
        f"{middle('server_cpu_seconds'):.2f}", f"{middle('peak_bytes') / 1e6:.0f}", f"{more / 1e6:.0f}",
    ]  # fmt: skip
