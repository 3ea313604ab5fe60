"""Instructions and system calls of a server for each request, counted by Valgrind: the same on busy and on quiet machines.

One server first handles requests that are not counted, so that it has loaded and compiled what they need. It then handles
several runs of requests; the median run counts, because timers and the garbage collector fall into some of them. Instructions
are those of the process, not the kernel's; a count does not show waits for memory. The time beside another checkout shows both.

The counts depend on the interpreter, on the C library and on the processor for which they choose their code. So `budgets.json`
names what it was made with. Where something else runs, the commit that wrote the file is counted in the same run instead.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from _kafka_security import SERVER, Security
from bench_parts import report
from bench_parts.beside import serve, sources, without_compiled
from bench_parts.contenders import ROOT
from bench_parts.counted_rows import PROXIED, Step, Wanted, broker_rows, proxy_rows
from bench_parts.process import Missing, Server, ServerFailed, machine

VALGRIND, CONTROL = "valgrind", "callgrind_control"
COUNTER = ("env", "PYTHONHASHSEED=0", VALGRIND, "--trace-children=yes", "--trace-syscalls=yes", "--tool=callgrind",
           "--instr-atstart=no")  # fmt: skip
SYSTEM_CALL = re.compile(rb"^SYSCALL\[\d+,\d+\]\( *\d+\) sys_(?!clock_gettime|gettimeofday|time )", re.MULTILINE)
"""Where one begins. Without Valgrind the clock is read without the kernel."""
WARM, RUNS, EACH = 40, 5, 20
"""Requests that are not counted, counted runs, and requests of a run."""
LARGE, FEWER = "0.9 MB", 5
"""A row with large batches has this many times fewer requests."""
READY_WITHIN = 120.0
"""Seconds: Valgrind is some fifty times slower."""
BUDGETS = Path(__file__).with_name("budgets.json")
LIMIT = 1.02
INSTRUCTIONS, SYSTEM_CALLS = "instructions", "system calls"
SPARE = {INSTRUCTIONS: 0.0, SYSTEM_CALLS: 0.25}
"""What is allowed above the budget if that is more: memory that the allocator takes now and then."""
COMMAND = "scripts/bench --only instructions --write-budgets"
LIBRARIES = ("crc32c", "cramjam")

Counts = dict[str, dict[str, float]]
"""The figures of each row."""


@dataclass(slots=True)
class Counted:
    """What was counted here, and what it is compared with."""

    here: Counts
    base: Counts = field(default_factory=dict)
    base_name: str = "other"

    def exceeded(self) -> list[str]:
        """A sentence for each figure above its budget."""
        sentences = []
        for row, found in self.here.items():
            for figure, budget in self.base.get(row, {}).items():
                if found[figure] > max(budget * LIMIT, budget + SPARE[figure]):
                    above = f"{found[figure] / budget - 1:+.1%}, allowed {LIMIT - 1:+.0%}"
                    sentences.append(f"{row}: {found[figure]:,.1f} {figure}; the budget is {budget:,.1f} ({above})")
        return sentences


def measure(checkout: Path | None, only: Sequence[str], say: Callable[[str], None]) -> Counted | Missing:
    """Count this checkout, and what it is compared with: another checkout, or the budgets. Raises ServerFailed."""
    if not (shutil.which(VALGRIND) and shutil.which(CONTROL)):
        return Missing("instructions", "Valgrind is not installed")

    def wanted(row: str) -> bool:
        return not only or row.startswith(tuple(only))

    with tempfile.TemporaryDirectory(prefix="wirebroker-bench-") as folder:
        here = ROOT if checkout else without_compiled(Path(folder, "here"))
        budgets = json.loads(BUDGETS.read_text()) if BUDGETS.exists() else {"made_with": None}
        if not checkout and budgets["made_with"] == made_with():
            return Counted(_counts(here, wanted, say), budgets["rows"], "budget")
        base = checkout or _committed(Path(folder, "base"))
        with ThreadPoolExecutor() as pool:  # the counts do not disturb each other
            counts = list(pool.map(lambda each: _counts(each, wanted, say), [here, base] if base else [here]))
        return Counted(counts[0], counts[1] if base else {}, "other" if checkout else "its commit")


def made_with() -> dict[str, str]:
    """What the counts depend on, apart from the sources."""

    def library(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "none"

    valgrind = subprocess.run([VALGRIND, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}",
        "system": f"{platform.machine()}, {' '.join(platform.libc_ver())}", "processor": machine()["processor"],
        "openssl": ssl.OPENSSL_VERSION, "valgrind": valgrind, **{name: library(name) for name in LIBRARIES},
    }  # fmt: skip


def write(counted: Counted) -> None:
    """Write the budgets."""
    rows = {row: {figure: round(value, 2) for figure, value in found.items()} for row, found in counted.here.items()}
    BUDGETS.write_text(json.dumps({"made_with": made_with(), "rows": rows}, indent=1) + "\n")


def _committed(folder: Path) -> Path | None:
    """The sources of the commit that wrote the budgets; None where the clone does not go back so far."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("log", "-1", "--format=%H", "--", str(BUDGETS))
    if not commit or git("rev-parse", "--is-shallow-repository") == "true":  # the oldest commit seems to write every file
        return None
    folder.mkdir()
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", commit, *sources()], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)
    return None if archive.wait() else folder


def _counts(checkout: Path, wanted: Wanted, say: Callable[[str], None]) -> Counts:
    found: Counts = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wirebroker-bench-")))
        security = Security(listeners=())
        security.make_certificates(folder)
        flags = ("--warm", "--record-checks", "full", "--listener", "PLAINTEXT=PLAINTEXT://127.0.0.1:0")
        secured = ("--listener", "SSL=SSL://127.0.0.1:0", "--tls-cert", str(folder / SERVER))
        with Meter([*serve(checkout, "asyncio", flags), *secured], folder / "broker") as broker:
            address, tls = re.findall(r"listening on (\S+)", broker.output)
            for row, step in broker_rows(address, tls, wanted):
                say(f"instructions: {row}")
                found[row] = broker.count(step, FEWER if LARGE in row else 1)
        if not wanted(PROXIED):
            return found
        upstream = stack.enter_context(Server([*serve(ROOT, "asyncio", ()), "--port", "0"]))
        proxy = serve(checkout, "asyncio", ("--listen", "127.0.0.1:0", "--upstream", upstream.address), "proxy")
        with Meter(proxy, folder / "proxy") as meter:
            for row, step in proxy_rows(meter.address, wanted):
                say(f"instructions: {row}")
                found[row] = meter.count(step, 1)
    return found


class Meter(Server):
    """A server under Valgrind."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        folder.mkdir()
        self._folder, self._dumps = folder, 0
        files = (f"--log-file={folder}/log", f"--callgrind-out-file={folder}/counts")
        super().__init__([*COUNTER, *files, *command], READY_WITHIN)

    def count(self, step: Step, fewer: int) -> dict[str, float]:
        """The figures for each request. Raises ServerFailed."""
        for _ in range(WARM // fewer):
            step()
        _control("-i", "on", self.pid)
        self._figures()
        runs = []
        for _ in range(RUNS):
            for _ in range(EACH // fewer):
                step()
            runs.append(self._figures())
        _control("-i", "off", self.pid)
        each = [median(counts) / (EACH // fewer) for counts in zip(*runs, strict=True)]
        return dict(zip((INSTRUCTIONS, SYSTEM_CALLS), each, strict=True))

    def _figures(self) -> tuple[int, int]:
        """Instructions and system calls since the last time."""
        log = Path(self._folder, "log")
        calls = len(SYSTEM_CALL.findall(log.read_bytes()))
        log.write_bytes(b"")
        _control("-d", self.pid)
        self._dumps += 1
        dump = Path(self._folder, f"counts.{self._dumps}").read_text()
        return int(dump.rpartition("totals:")[2].split()[0]), calls


def _control(*arguments: object) -> None:
    """Switch the counting on or off, or write down the counts since the last time and begin again at 0."""
    done = subprocess.run([CONTROL, *map(str, arguments)], capture_output=True, text=True, timeout=READY_WITHIN)
    if done.returncode:
        raise ServerFailed(f"{CONTROL} failed: {done.stderr.strip()[-200:]}")


def text(counted: Counted) -> str:
    """The rows as a table."""
    shown = []
    for row, found in counted.here.items():
        cells = [row]
        for figure, form in ((INSTRUCTIONS, ",.0f"), (SYSTEM_CALLS, ".2f")):
            base = counted.base.get(row, {}).get(figure)
            cells += [f"{found[figure]:{form}}", *((f"{base:{form}}", f"{found[figure] / base:.3f}") if base else ("", ""))]
        shown.append(cells)
    head = ["", INSTRUCTIONS, counted.base_name, "×", SYSTEM_CALLS, counted.base_name, "×"]
    return f"For each request, one request at a time, CPython {sys.version.split()[0]}\n{report.table(head, shown)}"
