"""Starts and ends the process of a server, reads its CPU time and memory, and describes the machine."""

from __future__ import annotations

import os
import platform
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

READY_WITHIN = 20.0
"""A server must be ready within this many seconds."""
_TICK_NS = 1_000_000_000 // (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)


class ServerFailed(Exception):
    """Raised if a server did not start, or died; the message has its last output."""


class OwnError(Exception):
    """A server has failed in wirebroker's own code."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A measurement that is not possible here, with the reason."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


def refuse_own_errors(said: str) -> None:
    """Raises OwnError if a server that has written this to stderr has failed in wirebroker's own code. A server lives on after
    such an error, and clients may hide it, because they try again."""
    if (at := said.find("error in wirebroker")) >= 0:
        raise OwnError(said[max(at - 200, 0) : at + 3000])


class Server:
    """A server process on its own loopback port. The end of the `with` block kills the process and its process group. If the
    server has failed in wirebroker's own code, the end of the block raises OwnError."""

    def __init__(self, command: Sequence[str | Path], ready_within: float = READY_WITHIN) -> None:
        self.command = [str(part) for part in command]
        self._ready_within = ready_within
        self.address = ""
        self.output = ""
        """The server's output up to its line "ready", which says where the server listens."""
        self.pid = 0

    def __enter__(self) -> Server:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
        )
        self.pid = self._process.pid
        try:
            self._await_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        end_group(self._process)
        if self._process.stdout is not None:
            self._process.stdout.close()
        said = self._said()
        self._errors.close()
        if kind is None:
            refuse_own_errors(said)

    def _await_ready(self) -> None:
        assert self._process.stdout is not None
        output, deadline = b"", time.monotonic() + self._ready_within
        while b"ready" not in output:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise ServerFailed(f"{self.command[0]} was not ready after {self._ready_within:.0f} s")
            read = os.read(self._process.stdout.fileno(), 4096)
            if not read:
                raise ServerFailed(f"{self.command[0]} ended before it was ready and said: {self.last_words()}")
            output += read
        found = re.search(rb"listening on (\S+:\d+)", output)
        if found is None:
            raise ServerFailed(f"{self.command[0]} did not print its address: {output!r}")
        self.address, self.output = found[1].decode(), output.decode()

    def signal(self, number: int) -> None:
        """Send the server a signal."""
        self._process.send_signal(number)

    def wait(self, seconds: float) -> None:
        """Wait for the server to end. Raises subprocess.TimeoutExpired."""
        self._process.wait(seconds)

    @property
    def alive(self) -> bool:
        """Tells whether the process still runs."""
        return self._process.poll() is None

    def last_words(self) -> str:
        """Returns the last lines that the server wrote to stderr."""
        return self._said().strip()[-400:] or "nothing"

    def _said(self) -> str:
        """Returns everything that the server wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill the process and its process group, and reap it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    """Returns a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_ns(pid: int) -> int:
    """Returns the user and system time of all threads of a process, in ns; 0 if it is unknown."""
    total = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, ValueError, IndexError):
            total += int(file.read_text().split()[0])
    if total:
        return total
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_NS
    return 0


def resident_bytes(pid: int) -> int:
    """Returns the resident memory of a process; 0 if it is unknown."""
    with suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0
    return 0


def available_bytes() -> int:
    """Returns the memory that is still available, or 2 GiB if it is unknown."""
    with suppress(OSError):
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        if found:
            return int(found[1]) * 1024
    return 2 << 30


def machine() -> dict[str, Any]:
    """Describes the machine and the versions on which the figures depend."""
    model = ""
    with suppress(OSError):
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        model = found[1] if found else ""
    huge = ""
    with suppress(OSError):
        found = re.search(r"\[(\w+)\]", Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text())
        huge = found[1] if found else ""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": model or platform.processor() or platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "transparent_hugepages": huge,
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
