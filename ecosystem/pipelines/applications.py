"""The applications of the test, which are killed and started again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ecosystem.interop.clients import PROGRAMS, Command, cache, call, go, tool
from ecosystem.kafka.releases import fetch_jars
from ecosystem.pipelines.cluster import Cluster

JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
INSTANCES = 2
QUIET = (20.0, 40.0)
"""Seconds between two kills."""


def java(version: str) -> Command:
    """Returns the Java application, which is compiled once. Raises Missing."""
    jars, classes = fetch_jars(version), cache() / f"transform-{version}"
    call([tool("javac"), "-cp", f"{jars}/*", "-d", classes, PROGRAMS / "java" / "Transform.java"], PROGRAMS, "`javac`")
    return Command(["java", *JVM, "-cp", f"{jars}/*{os.pathsep}{classes}", "Transform"])


def python(program: str) -> Command:
    return Command([sys.executable, PROGRAMS / "python" / f"{program}.py"])


APPLICATIONS: dict[str, tuple[Callable[[str], Command], tuple[str, ...]]] = {
    "java": (java, ()),
    "python": (lambda _: python("transform"), ()),
    "go": (lambda _: go("transform")(), ()),
    "plain": (lambda _: python("transform"), ("--at-least-once",)),
}
"""The command of each application, and further arguments."""


class Process:
    """A program that is started again each time that it has ended."""

    def __init__(self, words: Sequence[str | Path], log: Path) -> None:
        self.words, self.log = [str(word) for word in words], log
        self.exits = 0
        """the number of times that the program ended by itself"""
        self.due = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            log.write(f"--- {time.strftime('%H:%M:%S')} starts\n".encode())
            self.process = subprocess.Popen(
                self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def tend(self) -> None:
        """Start the program if it is due, or if it has ended by itself."""
        if self.process is not None and self.process.poll() is not None:
            self.exits += 1
            self.process, self.due = None, time.monotonic() + 1
        if self.process is None and time.monotonic() >= self.due:
            self.start()

    def kill(self, away: float) -> None:
        """Kill the program now. `tend` starts it again after `away` seconds."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process, self.due = None, time.monotonic() + away

    def end(self, within: float = 60.0) -> str:
        """End the program cleanly. Returns the last line of its output."""
        if self.process is not None:
            process, self.process = self.process, None
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(within)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return self.log.read_text(errors="replace").rstrip().rpartition("\n")[2]

    def aborts(self) -> int:
        """Returns the number of transactions that the program aborted."""
        return self.log.read_bytes().count(b"aborts: ")


def instances(name: str, version: str, bootstrap: str, folder: Path) -> list[Process]:
    """Returns the instances of an application, which are not started yet. Raises Missing."""
    prepare, more = APPLICATIONS[name]
    words = [*prepare(version).words, bootstrap, name]
    return [Process([*words, str(number), *more], folder / f"{name}-{number}.log") for number in range(INSTANCES)]


def feeds(bootstrap: str, rate: int, folder: Path) -> list[Process]:
    """Returns the producers of the inputs of all applications, which are not started yet."""
    words = [*python("feed").words, bootstrap, str(rate)]
    return [Process([*words, "java", "python", "plain"], folder / "feed.log"), Process([*words, "go"], folder / "feed-go.log")]


class Chaos:
    """Repeatedly kills an instance of an application, a broker, or both. Processes without a name are not killed, but started
    again if they end."""

    def __init__(self, cluster: Cluster, processes: dict[str, list[Process]], seed: int, say: Callable[[str], None]) -> None:
        self.cluster, self.processes, self.random, self.say = cluster, processes, random.Random(seed), say
        self.kills: Counter[str] = Counter()
        self.threads: list[threading.Thread] = []

    def run(self, seconds: float) -> None:
        """For this number of seconds, kill again and again; then wait until all killed processes run again."""
        end = time.monotonic() + seconds
        strike = time.monotonic() + 15
        while time.monotonic() < end:
            self.tend()
            if time.monotonic() > strike:
                self.strike()
                strike = time.monotonic() + self.random.uniform(*QUIET)
            time.sleep(0.3)
        for thread in self.threads:
            thread.join()
        for each in self.all():
            each.due = 0
            each.tend()

    def all(self) -> list[Process]:
        return [each for group in self.processes.values() for each in group]

    def tend(self) -> None:
        for each in self.all():
            each.tend()

    def strike(self) -> None:
        kind = self.random.choice(("application", "application", "broker", "both", "several"))
        if kind in ("broker", "both"):
            if any(thread.is_alive() for thread in self.threads) or not self.cluster.in_sync():
                kind = "application"
            else:
                self._kill_broker()
        if kind != "broker":
            for _ in range(3 if kind == "several" else 1):
                self._kill_instance()

    def _kill_instance(self) -> None:
        name = self.random.choice([each for each in self.processes if each])
        instance = self.random.choice(self.processes[name])
        away = self.random.choice((0.2, 3.0, 15.0))
        self.kills[name] += 1
        self.say(f"kills an instance of {name}, which is away for {away} s")
        instance.kill(away)

    def _kill_broker(self) -> None:
        server = self.random.choice(self.cluster.servers)
        away = self.random.choice((0.5, 8.0, 20.0))
        self.kills["broker"] += 1
        self.say(f"kills broker {server.settings['node.id']}, which is away for {away} s")
        server.stop("kill")

        def back() -> None:
            time.sleep(away)
            server.launch()

        self.threads = [each for each in self.threads if each.is_alive()]
        self.threads.append(threading.Thread(target=back))
        self.threads[-1].start()
