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
from wirebroker.common.complaints import Complaint
from wirebroker.faults.files import read_rule
from wirebroker.faults.rules import Rule
from wirebroker.mock import MockKafka, StoredRecord
from wirebroker.net.thread import LoopThread
from wirebroker.proxy_kafka import ProxyKafka
from wirebroker.testing.operations import visible
from wirebroker.trace.rows import RequestRow, Row
from wirebroker.trace.selection import GROUP, TRANSACTION
from wirebroker_tools.campaign.attached import CONTROL, Tests, has_control, in_turn
from wirebroker_tools.campaign.misfortunes import brokers_for
from wirebroker_tools.campaign.upstream import Ends, Left, Upstream, UpstreamError, open_producers

VARIABLES = ("WIREBROKER_BOOTSTRAP", "BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS")
"""The environment variables that have the broker's address."""
ROWS, PLAIN_ROWS = 20_000, 500_000
"""A run keeps ROWS rows of the trace. A plain run keeps PLAIN_ROWS rows, because the table of cases is made from its rows."""
TAIL = 4000
"""A run keeps the last bytes of the command's output, at most this many."""
LARGEST_OUTPUT, OUTPUT_PAUSE_S = 16 << 20, 0.1
"""A command that hangs may write without an end. So every OUTPUT_PAUSE_S seconds, the file of an output that has more than
LARGEST_OUTPUT bytes is emptied, except for the last bytes."""
STORM_RATE, STORM_LEAST, STORM_FACTOR = 200, 1000, 20
"""A run counts as a storm if it sends at least `STORM_RATE` requests in a second, at least `STORM_LEAST` requests in all, and
at least `STORM_FACTOR` times as many requests as the plain run.
"""
LAST_BYTES_S = 1.0
"""When the command has ended, wait this many seconds for bytes that it sent earlier."""


class CannotRun(Complaint):
    """Raised if a command cannot be run as required; the message is a sentence."""


@dataclass(slots=True)
class Run:
    exit: int | None
    """the command's exit code; None if it was ended by force"""
    seconds: float
    check: int | None = None
    """the exit code of the command of `--check`"""
    check_output: str = ""
    tests: int = 0
    """the number of tests that have emptied the broker"""
    differences: list[str] = field(default_factory=list)
    """the differences that the tests themselves found in the records"""
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

    def take(self, parts: Sequence[Left]) -> None:
        """Add what was left in the broker. Each part was read at the end of a test of the command, or at the end of the run."""
        for number, part in enumerate(parts):
            for topic, records in part.stored.items():
                self.stored.setdefault(topic, []).extend(records)
            for (group, topic, partition), offset in part.committed.items():
                self.committed[f"{group} in test {number}" if len(parts) > 1 else group, topic, partition] = offset
            self.open_transactions += [name for name in part.open_transactions if name not in self.open_transactions]
            self.has_static_members |= part.has_static_members


@dataclass(frozen=True, slots=True)
class Application:
    """The user's command, and the setup of its brokers. Any number of threads may call `run`."""

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
    """the real cluster that each run uses instead of a broker of its own; such runs take place one at a time"""
    thread: LoopThread | None = field(default_factory=LoopThread)
    """the thread of the brokers; None for an application that never runs"""
    processes: set[subprocess.Popen[bytes]] = field(default_factory=set)
    """the processes that are running now"""

    def run(
        self, faults: Iterable[Mapping[str, Any]] = (), usual: int | None = None, *, changed: Mapping[str, Any] | None = None
    ) -> Run:  # fmt: skip
        """Run the command with these faults, which have the form of a fault file. `usual` is the number of requests in the
        plain run.

        `changed` are further settings of MockKafka. Raises CannotRun.
        """
        load_broker()
        faults = list(faults)
        rules = [read_rule(words) for words in faults]
        settings = {"brokers": brokers_for(faults), **self.settings, **(changed or {}), "trace": "all"}
        if self.upstream is None:
            kafka, tests = MockKafka(loop_thread=self.thread, **settings), Tests()
            if has_control():
                kafka._new_control = tests.control
            with kafka:
                return self._with(kafka, rules, Watch(usual), tests, partial(_ends, kafka), partial(left_in, kafka))
        upstream = self.upstream
        try:
            upstream.begin()
            with ProxyKafka(loop_thread=self.thread, upstream=upstream.address, trace="all", **self.settings) as proxy:
                return self._with(proxy, rules, Watch(usual), Tests(), upstream.ends, partial(_left_upstream, upstream))
        except (UpstreamError, OSError, ProtocolError) as failure:
            raise CannotRun(f"--upstream {upstream.address}: {failure}") from None

    def _with(
        self, kafka: MockKafka | ProxyKafka, rules: Sequence[Rule], watch: Watch, tests: Tests, ends: Callable[[], Ends],
        left: Callable[[Ends, Iterable[Row]], Left],
    ) -> Run:  # fmt: skip
        if self.setup is not None:
            self._shell("--setup", self.setup, kafka)
        begin: Ends = {}
        parts: list[Left] = []

        def begin_part() -> None:
            nonlocal begin
            begin = ends()
            for rule in rules:  # all tests share the rule objects, because a rule counts the requests of all tests
                kafka.faults.add(rule)

        kafka._call(lambda machine: machine.trace.sinks.append(watch))
        begin_part()
        tests.before, tests.after = lambda: parts.append(left(begin, watch.rows)), begin_part
        run = self._watched(kafka, watch)
        kafka._call(lambda machine: machine.trace.detach(watch))
        run.fired, run.tests, run.differences = sum(rule.fired for rule in rules), tests.begun, tests.differences
        rules = ()
        kafka.faults.clear()
        if self.check is not None and run.exit == 0:
            run.check, run.check_output = self._run(in_shell(self.check), kafka, self.limit)
        run.take([*parts, left(begin, run.rows)])
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
        with tempfile.TemporaryFile() as file:
            output = Output(file)
            try:
                process = subprocess.Popen(
                    command, env=self._environment(kafka), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                    start_new_session=True, cwd=self.cwd,
                )  # fmt: skip
            except OSError as refused:
                raise CannotRun(f"{command[0]} cannot be started: {refused.strerror}") from None
            self.processes.add(process)
            ended, over = threading.Event(), threading.Event()

            def end() -> None:
                ended.set()
                kill(process)

            guarding = threading.Thread(target=guard, args=(output, limit, over, end), daemon=True)
            guarding.start()
            if watch is not None:
                watch.stop = end
            try:
                process.wait()  # no timeout here: with a timeout, Python looks only every 50 ms
            finally:
                over.set()
                guarding.join()
                kill(process)
                self.processes.discard(process)
            return None if ended.is_set() else process.returncode, output.tail()

    def _environment(self, kafka: MockKafka | ProxyKafka) -> dict[str, str]:
        """Returns the environment of a command, with the addresses of the broker and of its control."""
        first, *_ = kafka.bootstrap_servers.split(",")  # only one address, because the application may not accept a list
        made = {**os.environ, **dict.fromkeys((*VARIABLES, *self.variables), first)}
        made.pop(CONTROL, None)
        if self.upstream is None and has_control():
            made |= {CONTROL: kafka.control_url} | in_turn(made)
        return made

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


def guard(output: Output, limit: float, over: threading.Event, end: Callable[[], None]) -> None:
    """Until the command is over, keep its output small. After `limit` seconds, end the command."""
    latest = time.monotonic() + limit
    while not over.wait(min(OUTPUT_PAUSE_S, max(latest - time.monotonic(), 0))):
        output.shorten()
        if time.monotonic() >= latest:
            end()
            return


class Output:
    """The output of a command, in a file that the command writes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._kept = b""
        """the last bytes before the file was emptied"""
        self._emptied_to = 0
        """the bytes before this position are gone; the command continues at its own position, and the file has a hole"""

    def shorten(self) -> None:
        """Empty the file if it is large. Windows has no `pread`, which reads beside a program that writes."""
        if not hasattr(os, "pread"):
            return
        size = os.fstat(self._file.fileno()).st_size
        if size - self._emptied_to > LARGEST_OUTPUT:
            self._kept = os.pread(self._file.fileno(), TAIL, max(size - TAIL, 0))
            os.truncate(self._file.fileno(), 0)
            self._emptied_to = size

    def tail(self) -> str:
        """Returns the end of the output. The command must have ended, because this moves the position of its file."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(size - TAIL, self._emptied_to))
        return (self._kept + self._file.read())[-TAIL:].decode(errors="replace")


def _ends(kafka: MockKafka) -> Ends:
    topics = kafka.topics()
    return {(name, each.partition): each.log_end_offset for name, topic in topics.items() for each in topic.partitions}


def left_in(kafka: MockKafka, begin: Ends, rows: Iterable[Row] = ()) -> Left:
    """Returns the records, offsets and transactions in a run's broker. `begin` has the log end offsets before the run."""
    groups, stored = kafka.groups(), {}
    writers: set[int] = set()
    for topic in kafka.topics():
        logs: dict[int, list[StoredRecord]] = {}
        for each in kafka.records(topic):
            logs.setdefault(each.partition, []).append(each)
        writers |= {each for log in logs.values() for each in open_producers(log)}
        shown = [each for log in logs.values() for each in visible(log)[0]]  # also the records after an open transaction
        stored[topic] = [each for each in shown if each.offset >= begin.get((topic, each.partition), 0)]
    return Left(
        stored,
        {(group, *where): offset for group in groups for where, offset in kafka.committed_offsets(group).items()},
        sorted(name for name, each in kafka.transactions().items() if each.state == "Ongoing" and each.producer_id in writers),
        any(member.instance_id for group in groups.values() for member in group.members),
    )


def _left_upstream(upstream: Upstream, begin: Ends, rows: Iterable[Row]) -> Left:
    """Returns the records, offsets and transactions that a run left in a real cluster."""
    about = {name for row in rows if isinstance(row, RequestRow) for name in row.about}
    groups, transactional_ids = (
        {name.removeprefix(word) for name in about if name.startswith(word)} for word in (GROUP, TRANSACTION)
    )
    static = any(map(upstream.has_static_members, groups))
    return upstream.left(begin, groups, transactional_ids)._replace(has_static_members=static)
