"""One run: its own broker, at most a few faults, and a process that runs the user's command."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

from kafkawire.errors import ProtocolError
from wirebroker.apis.loading import load_broker
from wirebroker.faults.files import read_rule
from wirebroker.faults.rules import Rule
from wirebroker.mock import MockKafka, StoredRecord
from wirebroker.net.thread import LoopThread
from wirebroker.proxy_kafka import ProxyKafka
from wirebroker.trace.rows import RequestRow, Row
from wirebroker.trace.selection import GROUP, TRANSACTION
from wirebroker_tools.campaign.misfortunes import brokers_for
from wirebroker_tools.campaign.upstream import Ends, Upstream, UpstreamError, open_producers

VARIABLES = ("WIREBROKER_BOOTSTRAP", "BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS")
"""The environment variables that have the broker's address."""
ROWS, PLAIN_ROWS = 20_000, 500_000
"""The number of trace rows that a run keeps. A plain run keeps more rows, because they become the table of cases."""
TAIL = 4000
"""The number of bytes of the command's output that a run keeps."""
STORM_RATE, STORM_LEAST, STORM_FACTOR = 200, 1000, 20
"""A run counts as a storm if it sends at least `STORM_RATE` requests in a second, `STORM_LEAST` requests in all, and
`STORM_FACTOR` times the requests of the plain run.
"""
LAST_BYTES_S = 1.0
"""Seconds to wait for the bytes that the command sent before it ended."""
ABORTED_AFTER_MINUTES = 16
"""The minutes after which the broker has certainly aborted every open transaction (transaction.max.timeout.ms)."""


class CannotRun(RuntimeError):
    """Raised if a command cannot be run as required; the message is a sentence."""


@dataclass(slots=True)
class Run:
    """The results of one run."""

    exit: int | None
    """the command's exit code; None if it was ended by force"""
    seconds: float
    check: int | None = None
    """the exit code of the command that checks"""
    storm: bool = False
    fired: int = 0
    stored: dict[str, list[StoredRecord]] = field(default_factory=dict)
    """the stored records by topic, as a read_committed consumer gets them, without the records of the setup"""
    open_transactions: list[str] = field(default_factory=list)
    """the open transactions that hold back records"""
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """committed offsets by group, topic and partition"""
    has_static_members: bool = False
    rows: list[Row] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    output: str = ""


@dataclass(frozen=True, slots=True)
class Application:
    """The user's command, and how its brokers are set up. Any number of threads may run it."""

    command: Sequence[str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """the settings of MockKafka, or of ProxyKafka if there is an upstream"""
    variables: Sequence[str] = ()
    """more variables for the broker's address"""
    setup: str | None = None
    check: str | None = None
    limit: float = 180.0
    cwd: str | None = None
    """the command's working directory; None: the working directory of this process"""
    upstream: Upstream | None = None
    """the real cluster that each run uses instead of a broker of its own; with a real cluster, only one run happens at a
    time"""
    thread: LoopThread | None = field(default_factory=LoopThread)
    """the thread of the brokers; None for an application that never runs"""
    processes: set[subprocess.Popen[bytes]] = field(default_factory=set)
    """the processes that are running now"""

    def run(
        self, faults: Iterable[Mapping[str, Any]] = (), usual: int | None = None, *, changed: Mapping[str, Any] | None = None
    ) -> Run:  # fmt: skip
        """Run the command with these faults, in the words of a fault file. `usual` is the plain run's number of requests.

        `changed` are further settings of MockKafka. Raises CannotRun.
        """
        load_broker()
        faults = list(faults)
        rules = [read_rule(words) for words in faults]
        settings = {"brokers": brokers_for(faults), **self.settings, **(changed or {}), "trace": "all"}
        if self.upstream is None:
            with MockKafka(loop_thread=self.thread, **settings) as kafka:
                return self._with(kafka, rules, Watch(usual), lambda: _ends(kafka), partial(collect, kafka=kafka))
        upstream = self.upstream
        try:
            upstream.begin()
            with ProxyKafka(loop_thread=self.thread, upstream=upstream.address, trace="all", **self.settings) as proxy:
                return self._with(proxy, rules, Watch(usual), upstream.ends, partial(_collect_upstream, upstream=upstream))
        except (UpstreamError, OSError, ProtocolError) as failure:
            raise CannotRun(f"--upstream {upstream.address}: {failure}") from None

    def _with(
        self, kafka: MockKafka | ProxyKafka, rules: Sequence[Rule], watch: Watch, ends: Callable[[], Ends],
        collected: Callable[..., None],
    ) -> Run:  # fmt: skip
        if self.setup is not None:
            self._shell("--setup", self.setup, kafka)
        begin = ends()
        kafka._call(lambda machine: machine.trace.sinks.append(watch))
        for rule in rules:
            kafka.faults.add(rule)
        run = self._watched(kafka, watch)
        kafka._call(lambda machine: machine.trace.detach(watch))
        run.fired = sum(rule.fired for rule in rules)
        kafka.faults.clear()
        if self.check is not None and run.exit == 0:
            run.check = self._run(in_shell(self.check), kafka, self.limit)[0]
        collected(run, begin=begin)
        return run

    def _watched(self, kafka: MockKafka | ProxyKafka, watch: Watch) -> Run:
        began = time.monotonic()
        code, output = self._run(self.command, kafka, self.limit, watch)
        seconds = time.monotonic() - began
        with suppress(TimeoutError):
            kafka.wait_until(lambda: not kafka.connection_count(), LAST_BYTES_S)
        return Run(code, seconds, storm=watch.storm, rows=list(watch.rows), requests=watch.requests, output=output)

    def _shell(self, flag: str, command: str, kafka: MockKafka | ProxyKafka) -> None:
        code, output = self._run(in_shell(command), kafka, self.limit)
        if code != 0:
            raise CannotRun(f"{flag} {command!r} ended with exit code {code}: {output.strip()[-300:]}")

    def _run(
        self, command: Sequence[str], kafka: MockKafka | ProxyKafka, limit: float, watch: Watch | None = None
    ) -> tuple[int | None, str]:  # fmt: skip
        """Run a command to its end. Returns the exit code (None if the command was ended by force), and the end of the
        command's output."""
        first, *_ = kafka.bootstrap_servers.split(",")  # only one address, because the application may not accept a list
        address = dict.fromkeys((*VARIABLES, *self.variables), first)
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    command, env={**os.environ, **address}, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    start_new_session=True, cwd=self.cwd,
                )  # fmt: skip
            except OSError as refused:
                raise CannotRun(f"{command[0]} cannot be started: {refused.strerror}") from None
            self.processes.add(process)
            ended = threading.Event()

            def end() -> None:
                ended.set()
                kill(process)

            timer = threading.Timer(limit, end)
            timer.start()
            if watch is not None:
                watch.stop = end
            try:
                process.wait()  # no timeout here: with a timeout, Python looks only every 50 ms
            finally:
                timer.cancel()
                kill(process)
                self.processes.discard(process)
            return None if ended.is_set() else process.returncode, _tail(output)

    def abandon(self) -> None:
        """End all running commands."""
        for process in list(self.processes):
            kill(process)

    def stop(self) -> None:
        """End all running commands, and the brokers' thread."""
        self.abandon()
        if self.upstream is not None:
            self.upstream.close()
        if self.thread is not None:
            self.thread.stop()


class Watch:
    """A sink of the trace that keeps the rows of a run and counts its requests.

    The sink ends the run if the requests become a storm.
    """

    name = "the exploration"

    def __init__(self, usual: int | None) -> None:
        self.rows: deque[Row] = deque(maxlen=PLAIN_ROWS if usual is None else ROWS)
        self.requests: Counter[str] = Counter()
        self.storm = False
        self.stop: Callable[[], None] = lambda: None
        """ends the run"""
        self._most = None if usual is None else max(STORM_LEAST, STORM_FACTOR * usual)
        self._times: deque[int] = deque([0], maxlen=STORM_RATE)

    def __call__(self, row: Row) -> None:
        self.rows.append(row)
        if not isinstance(row, RequestRow):
            return
        self.requests[row.api] += 1
        self._times.append(row.time)
        if self._most is not None and not self.storm and self.requests.total() > self._most:
            self.storm = row.time - self._times[0] < 1000
            if self.storm:
                self.stop()


def in_shell(command: str) -> list[str]:
    """Returns the command that runs a command line in the system's shell."""
    return ["cmd", "/c", command] if os.name == "nt" else ["sh", "-c", command]


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all processes that it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(size - TAIL, 0))
    return output.read().decode(errors="replace")


def _ends(kafka: MockKafka) -> Ends:
    topics = kafka.topics()
    return {(name, each.partition): each.log_end_offset for name, topic in topics.items() for each in topic.partitions}


def collect(run: Run, kafka: MockKafka, begin: Mapping[tuple[str, int], int]) -> None:
    """Read the records, offsets and transactions that a run left in its broker.

    `begin` are the offsets at which the logs ended before the run.
    """
    groups = kafka.groups()
    run.has_static_members = any(member.instance_id for group in groups.values() for member in group.members)
    run.committed = {(group, *where): offset for group in groups for where, offset in kafka.committed_offsets(group).items()}
    topics, is_open = kafka.topics(), {name: each for name, each in kafka.transactions().items() if each.state == "Ongoing"}
    if is_open:  # records after an open transaction are stored, but a read_committed consumer does not get them before its end
        writers = {each for topic in topics for each in open_producers(kafka.records(topic))}
        run.open_transactions = sorted(name for name, each in is_open.items() if each.producer_id in writers)
        kafka.clock.advance(minutes=ABORTED_AFTER_MINUTES)
    for topic in topics:
        records = kafka.records(topic, committed=True)
        run.stored[topic] = [each for each in records if each.offset >= begin.get((topic, each.partition), 0)]


def _collect_upstream(run: Run, upstream: Upstream, begin: Mapping[tuple[str, int], int]) -> None:
    """Read the records, offsets and transactions that a run left in a real cluster."""
    about = {name for row in run.rows if isinstance(row, RequestRow) for name in row.about}
    groups, transactional_ids = (
        {name.removeprefix(word) for name in about if name.startswith(word)} for word in (GROUP, TRANSACTION)
    )
    run.has_static_members = any(map(upstream.has_static_members, groups))
    run.stored, run.committed, run.open_transactions = upstream.left(begin, groups, transactional_ids)
