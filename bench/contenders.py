"""The contenders and the load generator. The output names a contender that cannot run, with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.process import Missing

PARTS = Path(__file__).resolve().parent
ROOT = PARTS.parent
BUILD_WITHIN = 180.0
"""A build may take this many seconds. The first build of kfake fetches its modules."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A server to measure, and the flags that the load generator needs for this server."""

    name: str
    command: tuple[str, ...]
    load: tuple[str, ...] = ()
    port_flag: str = "--port"
    data_flag: str = ""
    """With this flag the server gets a new directory for its data."""

    def at(self, port: int, folder: str = "") -> list[str]:
        """Returns the command that starts the server on this port. The server may keep its data in the folder."""
        data = [self.data_flag, f"{folder}/data"] if self.data_flag and folder else []
        return [*self.command, self.port_flag, str(port), *data]


@dataclass(slots=True)
class Field:
    """The contenders that can run here, the command of the load generator, and the missing programs with the reasons."""

    contenders: list[Contender]
    load: tuple[str, ...]
    has_go: bool
    missing: list[Missing]

    def named(self, *names: str) -> list[Contender]:
        """Returns the named contenders that can run, in the order of the names."""
        return [found for name in names for found in self.contenders if found.name == name]


def field(loop: str = "asyncio") -> Field:
    """Build the programs, and find out which contenders can run here."""
    missing: list[Missing] = []
    servers = _python_servers(loop, missing)
    load = go_binary("loadgen")
    if isinstance(load, Missing):
        missing.append(Missing("the Go load generator", f"{load.why}; a slower load generator in Python takes its place"))
        missing.append(Missing("kfake, Fetch, more than one connection and varied records", "they need Go"))
        plain = [server for server in servers if not server.load]
        return Field(plain, (sys.executable, str(PARTS / "load.py")), False, missing)
    kfake = go_binary("kfakeserver")
    if isinstance(kfake, Missing):
        missing.append(kfake)
    else:
        servers.append(Contender("kfake", (str(kfake),)))
    return Field(servers, (str(load),), True, missing)


def _python_servers(loop: str, missing: list[Missing]) -> list[Contender]:
    floor = (sys.executable, str(PARTS / "floor.py"), "--loop", loop)
    servers = [Contender("floor", floor), Contender("floor+walk", (*floor, "--walk"))]
    broker = Path(sys.executable).parent / "wirebroker"
    if not broker.exists():
        missing.append(Missing("wirebroker", f"there is no command wirebroker beside {Path(sys.executable).name}"))
        return servers
    full, header = ((str(broker), "serve", "--loop", loop, "--record-checks", checks) for checks in ("full", "header"))
    return [
        *servers,
        Contender("wirebroker full", full),
        Contender("wirebroker full, varied", full, ("-varied",)),
        Contender("wirebroker header", header),
        Contender("wirebroker --data", full, data_flag="--data"),
    ]


def go_binary(name: str) -> Path | Missing:
    """Returns the program `name` of the folder go/. The program is built if it is older than its sources."""
    go = shutil.which("go")
    if go is None:
        return Missing(name, "Go is not installed")
    source = PARTS / "go" / name
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "wirebroker" / "bench"
    binary = cache / name
    newest = max(file.stat().st_mtime for file in source.iterdir())
    if binary.exists() and binary.stat().st_mtime > newest:
        return binary
    cache.mkdir(parents=True, exist_ok=True)
    made = cache / f"{name}.{os.getpid()}"
    try:
        built = subprocess.run(
            [go, "build", "-o", str(made), "."], cwd=source, capture_output=True, text=True, timeout=BUILD_WITHIN
        )
    except subprocess.TimeoutExpired:
        return Missing(name, f"it was not built within {BUILD_WITHIN:.0f} s")
    if built.returncode:
        return Missing(name, f"it could not be built: {built.stderr.strip().splitlines()[-1]}")
    made.replace(binary)
    return binary
