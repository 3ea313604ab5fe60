"""Measures start times: of a server process with and without its control, of an import, and of a MockKafka in a fresh or warm
process.

The script also measures the CPU time of a process and its children up to the first response. On a busy machine, this time is
more reliable than the elapsed time.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

from bench.contenders import ROOT, Contender
from bench.process import ServerFailed, cpu_ns, end_group

RESPONSE_WITHIN = 20.0
POLL = 0.0005
"""Seconds between attempts to connect."""
_BODY = struct.pack(">hhih5si", 3, 1, 7, 5, b"bench", 0)
METADATA = struct.pack(">i", len(_BODY)) + _BODY
"""A Metadata request of version 1 without topics; even the oldest clients can send it."""

IMPORTS = {
    "import wirebroker": "import wirebroker",
    "from wirebroker import MockKafka": "from wirebroker import MockKafka",
    "import wirebroker.commands.cli": "import wirebroker.commands.cli",
}
_TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"

_MOCK = """
import json, socket, sys, time
from wirebroker import MockKafka
request, runs = bytes.fromhex(sys.argv[1]), int(sys.argv[2])
def once():
    start = time.perf_counter()
    kafka = MockKafka()
    kafka.start()
    up = time.perf_counter()
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(request)
        assert len(client.recv(4)) == 4
        answered = time.perf_counter()
    kafka.stop()
    return up - start, answered - start, time.perf_counter() - answered
print(json.dumps([once() for _ in range(runs + 1)]))
"""


def measure(contenders: Sequence[Contender], runs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measures all start times, in ms. Each figure is a median with the smallest and the largest value."""
    plain = next((each for each in contenders if each.name == "wirebroker full"), None)
    if plain is not None:
        script = (str(ROOT / "scripts" / "run"), "serve")
        contenders = [
            *contenders, Contender("wirebroker full, --control", (*plain.command, "--control", "0")),
            Contender("scripts/run serve", script), Contender("scripts/run serve --control 0", (*script, "--control", "0")),
        ]  # fmt: skip
    say("startup: processes")
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    used: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    times["bare interpreter"] = []
    failures: dict[str, str] = {}
    for _ in range(runs):
        for contender in contenders:
            try:
                seconds, cpu = first_response(contender)
                times[contender.name].append(seconds)
                used[contender.name].append(cpu)
            except ServerFailed as failed:
                failures[contender.name] = str(failed)
        times["bare interpreter"].append(_interpreter("pass")[0])
    result: dict[str, Any] = {
        "processes": {name: _summary(found, used.get(name, ())) for name, found in times.items() if found},
        "failures": failures,
    }
    if any(contender.name.startswith("wirebroker") for contender in contenders):
        say("startup: imports and MockKafka")
        result["imports"] = _imports(runs)
        result["mock"] = _mock(20, runs)
    return result


def first_response(contender: Contender, folder: str = "") -> tuple[float, float]:
    """Starts the process, with its data in `folder`. Returns the seconds until the process's first Metadata response, and the
    seconds of its CPU time.

    Raises ServerFailed.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = time.perf_counter()
    process = subprocess.Popen(
        contender.at(port, folder), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        while time.perf_counter() - start < RESPONSE_WITHIN and process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=RESPONSE_WITHIN) as client:
                client.sendall(METADATA)
                head = client.recv(8)
                if head[4:] == METADATA[8:12]:
                    return time.perf_counter() - start, cpu_ns(process.pid) / 1e9
            time.sleep(POLL)
        raise ServerFailed(f"{contender.name} did not respond to Metadata within {RESPONSE_WITHIN:.0f} s")
    finally:
        end_group(process)


def _interpreter(code: str) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return time.perf_counter() - start, done.stdout


def _imports(runs: int) -> dict[str, Any]:
    """Measures each import in a fresh interpreter: the time of the import itself, and the time of the whole process."""
    for statement in IMPORTS.values():
        _interpreter(statement)  # Python compiles the modules now, and not in the measurement
    own: dict[str, list[float]] = {name: [] for name in IMPORTS}
    whole: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(runs):
        for name, statement in IMPORTS.items():
            seconds, printed = _interpreter(_TIMED.format(statement))
            own[name].append(float(printed))
            whole[name].append(seconds)
    return {name: {"import": _summary(own[name]), "process": _summary(whole[name])} for name in IMPORTS}


def _mock(runs: int, processes: int) -> dict[str, Any]:
    """Measures the start, first response and stop of MockKafka: many times in one process, and once each in many processes."""
    firsts, warm = [], []
    for number in range(processes):
        command = [sys.executable, "-c", _MOCK, METADATA.hex(), str(0 if number else runs)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode:
            return {"failure": done.stderr.strip().splitlines()[-1]}
        first, *others = json.loads(done.stdout)
        firsts.append(first)
        warm += others
    fresh_start, fresh_response, _ = zip(*firsts, strict=True)
    started, answered, stopped = zip(*warm, strict=True)
    return {
        "start": _summary(started), "first answer": _summary(answered), "stop": _summary(stopped), "runs": runs,
        "fresh": {"start": _summary(fresh_start), "first answer": _summary(fresh_response)},
    }  # fmt: skip


def _summary(seconds: Sequence[float], cpu: Sequence[float] = ()) -> dict[str, float]:
    found = {"median": 1e3 * median(seconds), "min": 1e3 * min(seconds), "max": 1e3 * max(seconds)}
    return found | {"cpu": 1e3 * median(cpu)} if cpu else found
