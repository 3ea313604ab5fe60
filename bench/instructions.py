"""Counts a server's instructions, system calls and copied bytes for each request. The machine's load does not change the
counts.

Valgrind counts the instructions and the system calls of one server. A second server counts the copied bytes: a library made
from `copied.c` stands between this server and the C library. This needs a C compiler. Each server first handles requests that
are not counted, so that their code is loaded and compiled. Each server then handles several runs of requests. The lowest count
of these runs is the result, because timers and the garbage collector only add to a count, and add more on a busy machine.
Instructions of the kernel and waits for memory are not counted. `--beside` measures the time, which includes both.

The counts depend on the interpreter, the C library and the processor. So `budgets.json` names the interpreter, library and
processor of its counts. On a machine where one of the three differs, the script also measures the commit that wrote
`budgets.json`, and compares the counts of both commits.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench import report
from bench.beside import serve, sources, without_compiled
from bench.contenders import ROOT
from bench.counted_rows import PROXIED, Step, Wanted, broker_rows, proxy_rows
from bench.process import Missing, Server, ServerFailed, machine
from ecosystem.kafka.security import SERVER, Security
from kafkawire.messages.api_versions import ApiVersionsRequest
from wirebroker.apis.loading import imports_of_broker
from wirebroker.client.wire import WireClient

VALGRIND, CONTROL = "valgrind", "callgrind_control"
ALIKE = ("env", "-u", "WIREBROKER_EXIT_WITH_PARENT", "PYTHONHASHSEED=0")
"""Begins the command of a counted server. Such a server does not watch its parent: the timer of the watch adds some 10,000
instructions to a request, now more and now less.
"""
COUNTER = (*ALIKE, VALGRIND, "--trace-children=yes", "--trace-syscalls=yes", "--tool=callgrind",
           "--instr-atstart=no")  # fmt: skip
SYSTEM_CALL = re.compile(rb"^SYSCALL\[\d+,\d+\]\( *\d+\) sys_(?!clock_gettime|gettimeofday|time )", re.MULTILINE)
"""Matches the beginning of a system call in Valgrind's log. Reads of the clock are left out, because without Valgrind they need
no system call."""
WARM, RUNS, EACH = 40, 5, 10
"""The first WARM requests are not counted. Then come RUNS counted runs, each with EACH requests."""
LARGE, FEWER = "0.9 MB", 5
"""If the name of a row contains LARGE, the number of its requests is divided by FEWER."""
READY_WITHIN = 120.0
"""Seconds to wait for a response. Under Valgrind a server is some fifty times slower."""
BUDGETS = Path(__file__).with_name("budgets.json")
COPIES, COUNTER_OF_COPIES = Path(__file__).with_name("copied.c"), "copied.so"
_SUM = struct.Struct("=Q")
LIMIT = 1.02
INSTRUCTIONS, SYSTEM_CALLS, COPIED = "instructions", "system calls", "bytes copied"
FORMS = {INSTRUCTIONS: ",.0f", SYSTEM_CALLS: ".2f", COPIED: ",.0f"}
SPARE = {INSTRUCTIONS: 0.0, SYSTEM_CALLS: 0.25, COPIED: 100.0}
"""A count may always exceed its budget by this amount, because the allocator takes memory now and then."""
SPARE_IF_LARGE = {INSTRUCTIONS: 0.0, SYSTEM_CALLS: 1.5, COPIED: 64_000.0}
"""This larger amount applies to rows with large batches, because the client and the system decide in how many pieces a batch
arrives.
"""
COMMAND = "scripts/bench --only instructions --write-budgets"
LIBRARIES = ("crc32c", "cramjam")

Counts = dict[str, dict[str, float]]
"""For each row, its counts: instructions, system calls, bytes copied."""


@dataclass(slots=True)
class Counted:
    """The counts of this checkout, and the counts with which they are compared."""

    here: Counts
    base: Counts = field(default_factory=dict)
    base_name: str = "other"

    def exceeded(self) -> list[str]:
        """Returns a sentence for each count that is above its budget."""
        sentences = []
        for row, found in self.here.items():
            spare = SPARE_IF_LARGE if LARGE in row else SPARE
            for figure, budget in self.base.get(row, {}).items():
                if found.get(figure, 0) > max(budget * LIMIT, budget + spare[figure]):
                    above = f"{found[figure] / budget - 1:+.1%}, allowed {LIMIT - 1:+.0%}"
                    sentences.append(f"{row}: {found[figure]:,.1f} {figure}; the budget is {budget:,.1f} ({above})")
        return sentences


def measure(checkout: Path | None, only: Sequence[str], say: Callable[[str], None]) -> Counted | Missing:
    """Count this checkout, and compare it with another checkout or with the budgets. Raises ServerFailed."""
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
        with ThreadPoolExecutor() as pool:  # two servers that are counted in parallel do not disturb each other
            counts = list(pool.map(lambda each: _counts(each, wanted, say), [here, base] if base else [here]))
        return Counted(counts[0], counts[1] if base else {}, "other" if checkout else "its commit")


def made_with() -> dict[str, str]:
    """The counts depend on the interpreter, the C library and the processor. Returns these three."""

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
    """Returns the sources of the commit that wrote the budgets; None if this clone of the repository lacks the commit."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("log", "-1", "--format=%H", "--", str(BUDGETS))
    if (
        not commit or git("rev-parse", "--is-shallow-repository") == "true"
    ):  # the oldest commit of a shallow clone adds every file
        return None
    folder.mkdir()
    archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", commit, *sources()], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)
    return None if archive.wait() else folder


def _counts(checkout: Path, wanted: Wanted, say: Callable[[str], None]) -> Counts:
    found: Counts = {}
    with tempfile.TemporaryDirectory(prefix="wirebroker-bench-") as name:
        folder = Path(name)
        security = Security(listeners=())
        security.make_certificates(folder)
        for meter in (Meter, CopyMeter) if _build(folder) else (Meter,):
            for row, figures in _rows(checkout, meter, folder, wanted):
                say(f"{', '.join(figures)}: {row}")
                found[row] = found.get(row, {}) | figures
    return found


def _rows(checkout: Path, meter: type[Meter], folder: Path, wanted: Wanted) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields each row with the counts of this meter."""
    flags = ("--warm", "--record-checks", "full", "--listener", "PLAINTEXT=PLAINTEXT://127.0.0.1:0")
    secured = ("--listener", "SSL=SSL://127.0.0.1:0", "--tls-cert", str(folder / SERVER))
    with meter([*serve(checkout, "asyncio", flags), *secured], folder) as broker:
        address, tls = re.findall(r"listening on (\S+)", broker.output)
        _let_import(address)
        for row, step in broker_rows(address, tls, wanted):
            yield row, broker.count(step, FEWER if LARGE in row else 1)
    if not any(map(wanted, PROXIED)):
        return
    with Server([*serve(ROOT, "asyncio", ()), "--port", "0"]) as upstream:
        command = serve(checkout, "asyncio", ("--listen", "127.0.0.1:0", "--upstream", upstream.address), "proxy")
        with meter(command, folder) as proxy:
            _let_import(proxy.address)
            for row, step in proxy_rows(proxy.address, wanted):
                yield row, proxy.count(step, 1)


def _let_import(address: str) -> None:
    """Sends requests until all modules are imported. Between two requests, the server performs at least one import."""
    host, _, port = address.rpartition(":")
    with closing(WireClient(host, int(port))) as client:
        for _ in imports_of_broker():
            client.request(ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 0)


def _build(folder: Path) -> bool:
    """Build the library that counts copied bytes, if there is a C compiler."""
    command = ("cc", "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", str(folder / COUNTER_OF_COPIES), str(COPIES), "-ldl")
    return shutil.which("cc") is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


class Meter(Server):
    """A server under Valgrind."""

    figures: tuple[str, ...] = (INSTRUCTIONS, SYSTEM_CALLS)

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._folder, self._dumps = Path(tempfile.mkdtemp(dir=folder)), 0
        super().__init__([*self._prefix(), *command], READY_WITHIN)

    def _prefix(self) -> Sequence[str]:
        return (*COUNTER, f"--log-file={self._folder}/log", f"--callgrind-out-file={self._folder}/counts")

    def count(self, step: Step, fewer: int) -> dict[str, float]:
        """Returns the counts for one request. Raises ServerFailed."""
        for _ in range(WARM // fewer):
            step()
        self._switch("on")
        self._take()
        runs = []
        for _ in range(RUNS):
            for _ in range(EACH // fewer):
                step()
            runs.append(self._take())
        self._switch("off")
        each = [min(counts) / (EACH // fewer) for counts in zip(*runs, strict=True)]
        return dict(zip(self.figures, each, strict=True))

    def _switch(self, on: str) -> None:
        _control("-i", on, self.pid)

    def _take(self) -> tuple[int, ...]:
        """Returns the counts since the previous call."""
        log = Path(self._folder, "log")
        calls = len(SYSTEM_CALL.findall(log.read_bytes()))
        log.write_bytes(b"")
        _control("-d", self.pid)
        self._dumps += 1
        dump = Path(self._folder, f"counts.{self._dumps}").read_text()
        return int(dump.rpartition("totals:")[2].split()[0]), calls


class CopyMeter(Meter):
    """A server whose copies are counted."""

    figures = (COPIED,)

    def _prefix(self) -> Sequence[str]:
        sum_of_copies = Path(self._folder, "copied")
        sum_of_copies.write_bytes(bytes(_SUM.size))
        library = self._folder.parent / COUNTER_OF_COPIES
        return (*ALIKE, f"LD_PRELOAD={library}", f"WIREBROKER_COPIED={sum_of_copies}")

    def _switch(self, on: str) -> None:
        self._before = 0

    def _take(self) -> tuple[int, ...]:
        (now,) = _SUM.unpack(Path(self._folder, "copied").read_bytes())
        since, self._before = now - self._before, now
        return (since,)


def _control(*arguments: object) -> None:
    """Switch the counting on or off, or make the server write the counts and begin again at 0."""
    done = subprocess.run([CONTROL, *map(str, arguments)], capture_output=True, text=True, timeout=READY_WITHIN)
    if done.returncode:
        raise ServerFailed(f"{CONTROL} failed: {done.stderr.strip()[-200:]}")


def text(counted: Counted) -> str:
    """Returns the table of the rows."""
    shown = []
    for row, found in counted.here.items():
        cells = [row]
        for figure, value in found.items():
            base, form = counted.base.get(row, {}).get(figure), FORMS[figure]
            cells += [f"{value:{form}}", *((f"{base:{form}}", f"{value / base:.3f}") if base else ("", ""))]
        shown.append(cells)
    figures = list(next(iter(counted.here.values()), {}))
    head = ["", *(cell for figure in figures for cell in (figure, counted.base_name, "×"))]
    return f"For each request, one request at a time, CPython {sys.version.split()[0]}\n{report.table(head, shown)}"
