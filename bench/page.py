"""Measures the live page under load: the cost of an open page for the broker, and how smoothly a browser draws the page."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench import load, report
from bench.process import Server, cpu_ns, free_port

RATE = 5000
"""Exchanges a second."""
BURST = 5
SECONDS, SETTLING_S = 4.0, 0.5
LEVELS = ("verdicts", "exchanges")
TASK, THREAD_NAME, MAIN_THREAD = "RunTask", "thread_name", "CrRendererMain"
Row = dict[str, Any]


def measure(rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Measures the CPU time for each exchange on one broker, alternately with and without a reader of the page's stream.

    Each turn with a reader is compared with the turns before and after it.
    """
    return [_level(level, rounds, say) for level in LEVELS]


def _level(level: str, rounds: int, say: Callable[[str], None]) -> Row:
    control = free_port()
    command = [Path(sys.executable).parent / "wirebroker", "serve", "--port", "0", "--control", control, "--trace-level", level]
    with Server(command) as server:
        producer = load.Producer(argparse.Namespace(address=server.address, bytes=1024, records=1, record_bytes=100, version=9))
        _produce(producer, 1.0)
        alone: list[float] = []
        read: list[float] = []
        for number in range(rounds):
            say(f"page, level {level}: round {number + 1} of {rounds}")
            alone.append(_cpu_us(server.pid, producer))
            with _reader(control) as received:
                _produce(producer, SETTLING_S)
                read.append(_cpu_us(server.pid, producer))
        alone.append(_cpu_us(server.pid, producer))
        found = {
            "level": level, "rounds": rounds, "rate": _rate(producer), "alone_us": median(alone), "read_us": median(read),
            "growth": median(2 * with_page / sum(beside) - 1 for with_page, beside in zip(read, pairwise(alone), strict=True)),
            "bytes": received[0],
        }  # fmt: skip
        return found | _browsed(control, producer, say)


def _produce(producer: load.Producer, seconds: float) -> int:
    """Produce for some seconds at the rate `RATE`, or slower if the server cannot keep up. Returns the number of requests."""
    start, first = time.monotonic(), producer.sent
    while (now := time.monotonic() - start) < seconds:
        if producer.sent - first < now * RATE:
            producer.produce(BURST, start + seconds + 60)
        else:
            time.sleep(BURST / RATE / 2)
    return producer.sent - first


def _rate(producer: load.Producer) -> float:
    start = time.monotonic()
    return _produce(producer, 1.0) / (time.monotonic() - start)


def _cpu_us(pid: int, producer: load.Producer) -> float:
    before = cpu_ns(pid)
    count = _produce(producer, SECONDS)
    return (cpu_ns(pid) - before) / 1e3 / count


@contextmanager
def _reader(control: int) -> Iterator[list[int]]:
    """Reads `/events` as a page does, and counts the received bytes."""
    received = [0]
    with socket.create_connection(("127.0.0.1", control)) as stream:
        stream.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

        def read() -> None:
            with suppress(ConnectionResetError):
                while got := len(stream.recv(1 << 20)):
                    received[0] += got

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield received
        finally:
            stream.shutdown(socket.SHUT_RDWR)
            reader.join()


def _browsed(control: int, producer: load.Producer, say: Callable[[str], None]) -> Row:
    """Measures the longest task of each view in Chromium while exchanges arrive, in ms of CPU. Returns nothing without
    Playwright and Chromium.

    The browser draws no frame during a task. The unit is CPU time, because the broker, the load and the browser share
    the cores.
    """
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    if chromium is None:
        return {}
    longest: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        for view in ("exchanges", "producers", "log", "clients"):
            say(f"page, in Chromium: {view}")
            page.goto(f"http://127.0.0.1:{control}/live/#/{view}")
            _produce(producer, 2.0)
            browser.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline", "__metadata"])
            _produce(producer, SECONDS)
            longest[view] = _longest_task_ms(browser.stop_tracing())
            shown = page.locator("#state").text_content()
        browser.close()
    return {"longest_task_ms": longest, "state": shown}


def _longest_task_ms(trace: bytes) -> float:
    """Returns the CPU time of the longest task of the page's main thread."""
    events = json.loads(trace)["traceEvents"]
    main = {
        (each["pid"], each["tid"]) for each in events if each["name"] == THREAD_NAME and each["args"]["name"] == MAIN_THREAD
    }
    return (
        max((each.get("tdur", 0) for each in events if each["name"] == TASK and (each["pid"], each["tid"]) in main), default=0)
        / 1e3
    )


def text(rows: list[Row]) -> str:
    """Returns the table: a line for each level of the trace."""
    cells = [
        [row["level"], f"{row['rate']:,.0f}", f"{row['alone_us']:.1f}", f"{row['read_us']:.1f}", f"{row['growth']:+.1%}",
         ", ".join(f"{view} {ms:.0f}" for view, ms in row.get("longest_task_ms", {}).items()) or "not measured",
         row.get("state", "")]
        for row in rows
    ]  # fmt: skip
    head = ["level", "exchanges/s", "CPU µs each", "with a page", "growth", "longest task in Chromium, ms", "the page says"]
    return "live page\n" + report.table(head, cells)
