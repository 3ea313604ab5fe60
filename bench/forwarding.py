"""Compares the proxy with a bare relay, Toxiproxy and Kroxylicious: CPU time for each forwarded Produce."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bench import report
from bench.contenders import BUILD_WITHIN, Contender
from bench.process import READY_WITHIN, Missing, Server, ServerFailed, free_port
from bench.throughput import LOAD_WITHIN, Case, Report, produce_cases

TOXIPROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"
CLASSPATH = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
PARTS = Path(__file__).resolve().parent
BARE = "bare relay"
VERSIONS = (9, 12)
"""The measured versions of Produce. From version 10 on, a response may name other brokers (KIP-951)."""
RATE, CPU = "requests_per_second", "server_cpu_us_per_request"


def contenders(loop: str) -> tuple[list[Contender], list[Missing]]:
    """Returns the proxies that can run here. The last argument of each command is the address of the broker."""
    proxy = (str(Path(sys.executable).parent / "wirebroker"), "proxy", "--listen", "127.0.0.1:0", "--loop", loop)
    found = [
        Contender(BARE, (sys.executable, str(PARTS / "bare_relay.py"), "--upstream")),
        Contender("wirebroker, trace off", (*proxy, "--trace-level", "off", "--upstream")),
        Contender("wirebroker, shadow verdicts", (*proxy, "--upstream")),
    ]
    missing = []
    toxiproxy, kroxylicious = _toxiproxy(), _kroxylicious()
    if isinstance(toxiproxy, Missing):
        missing.append(toxiproxy)
    else:
        found.append(Contender(Toxiproxy.name, (str(toxiproxy),)))
    if isinstance(kroxylicious, Missing):
        missing.append(kroxylicious)
    else:
        found.append(Contender("Kroxylicious 0.12, no filters", kroxylicious))
    return found, missing


def _kroxylicious() -> tuple[str, ...] | Missing:
    """Fetches Kroxylicious with Maven, and returns the command that starts Kroxylicious. The caller appends the broker's
    address.
    """
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        return Missing("Kroxylicious", "Java or Maven is not installed")
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as paths:
        command = [maven, "-q", "-B", "-f", PARTS / "kroxylicious" / "pom.xml", CLASSPATH, f"-Dmdep.outputFile={paths.name}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_WITHIN, check=False)
        if done.returncode:
            return Missing("Kroxylicious", f"Maven could not fetch it: {done.stdout.strip()[-200:]}")
        return java, "-cp", Path(paths.name).read_text().strip(), str(PARTS / "kroxylicious" / "Main.java")


def _toxiproxy() -> Path | Missing:
    """Builds Toxiproxy's server with Go, and returns its path."""
    go = shutil.which("go")
    if go is None:
        return Missing("Toxiproxy", "Go is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "wirebroker" / "bench" / "toxiproxy"
    if not (cache / "server").exists():
        command, environment = [go, "install", TOXIPROXY], os.environ | {"GOBIN": str(cache)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_WITHIN, check=False)
        if done.returncode:
            return Missing("Toxiproxy", f"it could not be built: {done.stderr.strip().splitlines()[-1]}")
    return cache / "server"


class Toxiproxy(Server):
    """A Toxiproxy in front of one broker. Toxiproxy prints nothing when it is ready, so the benchmark tries its port."""

    name = "Toxiproxy 2.5"

    def __init__(self, program: str, upstream: str, folder: str) -> None:
        api, port = free_port(), free_port()
        listen, config = f"127.0.0.1:{port}", Path(folder, "proxies.json")
        config.write_text(json.dumps([{"name": "kafka", "listen": listen, "upstream": upstream, "enabled": True}]))
        super().__init__([program, "-port", str(api), "-config", config])
        self._listen = listen

    def _await_ready(self) -> None:
        deadline, (host, port) = time.monotonic() + READY_WITHIN, self._listen.split(":")
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection((host, int(port)), 1):
                self.address = self._listen
                return
            time.sleep(0.05)
        raise ServerFailed(f"Toxiproxy was not ready after {READY_WITHIN:.0f} s")


def measure(
    entered: Sequence[Contender], loop: str, generator: Sequence[str], sizes: Sequence[str], rounds: int, share: float,
    say: Callable[[str], None],
) -> list[Case]:  # fmt: skip
    """Produce over one connection with each size of batches, through each proxy in turn."""
    broker = (str(Path(sys.executable).parent / "wirebroker"), "serve", "--port", "0", "--loop", loop, "--trace-level", "off",
              "--record-checks", "header")  # fmt: skip
    cases = [case for version in VERSIONS for case in produce_cases(entered, sizes, [1], version, share)]
    for number in range(rounds):
        for case in cases:
            say(f"round {number + 1} of {rounds}: {case.title}")
            turn = number % len(entered)
            for contender in [*entered[turn:], *entered[:turn]]:
                if contender.name not in case.failures:
                    try:
                        found = _one(contender, broker, [*generator, *case.load])
                    except ServerFailed as failed:
                        case.failures[contender.name] = str(failed)
                    else:
                        case.rounds.setdefault(contender.name, []).append(found)
    return cases


def _one(contender: Contender, broker: Sequence[str], load: Sequence[str]) -> Report:
    with tempfile.TemporaryDirectory(prefix="wirebroker-bench-") as folder, Server(broker) as upstream:
        if contender.name == Toxiproxy.name:
            proxy: Server = Toxiproxy(contender.command[0], upstream.address, folder)
        else:
            proxy = Server([*contender.command, upstream.address])
        with proxy:
            command = [*load, "-address", proxy.address, "-pid", str(proxy.pid)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_WITHIN, check=False)
            except subprocess.TimeoutExpired as late:
                raise ServerFailed(f"the load was not done after {LOAD_WITHIN:.0f} s") from late
            if done.returncode:
                raise ServerFailed(f"{done.stderr.strip().splitlines()[-1]}; the proxy said: {proxy.last_words()}")
            made: Report = json.loads(done.stdout)
            return made


def text(case: Case) -> str:
    """Returns the table of one case: medians of CPU time, and ratios to the bare relay and to Toxiproxy within each round."""
    rows = []
    for name, found in case.rounds.items():
        ratios = [case.ratio(name, other, CPU) for other in (BARE, Toxiproxy.name)]
        shown = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        rows.append([name, str(len(found)), f"{case.middle(name, RATE):,.0f}", f"{case.middle(name, CPU):.1f}", *shown])
    head = ["", "rounds", "req/s", "CPU µs/req", "× bare relay", "× Toxiproxy"]
    shown_table = f"{case.title}\n{report.table(head, rows)}"
    return shown_table + "".join(f"\n{name} failed: {why}" for name, why in case.failures.items())
