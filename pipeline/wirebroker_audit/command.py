"""The command: a progress bar, a table of the findings, and an exit code for scripts.

    wirebroker audit --path DIR --out REPORT
    python -m wirebroker_audit --path DIR --out REPORT          the same, for spark-submit

Exit codes: 0 no finding fails the audit, 1 a finding fails it (`--fail-on`), 2 the audit failed or could not read everything,
130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import re
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kafkawire.printable import printable, printable_lines
from wirebroker.client.settings import Access, read_access
from wirebroker.common.console import Output
from wirebroker_audit.logs.places import BadPlace, input_path, local_path, log_path
from wirebroker_audit.reading.remote import is_remote, place
from wirebroker_audit.share import Share, duration
from wirebroker_audit.spark.interruption import Interruption
from wirebroker_audit.spark.java import NoJava

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wirebroker_audit.job import Result
    from wirebroker_audit.request import Request

SHOWN = 3
"""The terminal shows this many findings of each kind and severity."""
TOPICS_SHOWN = 40
"""The terminal shows this many topics, the largest first."""
REFRESH, EVERY = 0.25, 60.0
"""Seconds between two requests for the state of Spark's tasks, and between two lines of output if there is no terminal."""
PLACES, INPUTS = ("out", "policy", "since", "command_config", "junit", "sarif", "prometheus"), ("trace", "intended")
"""Two groups of flags: with a path that this process reads, and with a path that Spark reads (`INPUTS`)."""
ONCE_ONLY = ("policy", "since", "findings-table", "pipeline", "remote-store")
"""Flags that cannot be used with --follow, in addition to the flags of `Exports`."""
JAVA_CLASS = re.compile(r"^: (?:[\w$]+\.)+[\w$]+: ")
"""Matches the class name of a Java exception, which stands before the message."""
COLOURS = {"certain": "red", "likely": "yellow", "info": "bright_black"}


def run(options: argparse.Namespace) -> int:
    """Run the audit and return its exit code."""
    err = Console(stderr=True, highlight=False)
    interruption = Interruption()
    said = ""
    try:
        _resolve(options)
        with interruption:
            return _run(options, err, interruption)
    except (BadPlace, NoJava, Refused) as refused:
        said = str(refused)
    except BaseException:
        if interruption.number is None:
            raise
    if interruption.number is not None:  # after a signal, every other error is a consequence of the signal
        _tidy(Path(options.out))
        said = f"interrupted: {_left_behind(Path(options.out), follows=options.follow is not None)}"
    err.print(printable_lines(f"wirebroker audit: {said}"), soft_wrap=True, markup=False)
    return 2 if interruption.number is None else interruption.exit_code


def _resolve(options: argparse.Namespace) -> None:
    """Turn `file:` addresses into paths. Raises BadPlace for an address that this process cannot open."""
    for names, resolve in ((("path", "remote_store"), log_path), (PLACES, local_path), (INPUTS, input_path)):
        for name in names:
            if (text := getattr(options, name)) is not None:
                setattr(options, name, str(resolve(text, f"--{name.replace('_', '-')}")))


def _left_behind(out: Path, *, follows: bool) -> str:
    if follows and out.exists():
        return f"{out} has the findings so far; run the same command to continue"
    return f"{out} was not changed" if out.exists() else "no report was written"


class Refused(Exception):
    """Raised if the command cannot carry out the audit. The message gives the reason."""


def _run(options: argparse.Namespace, err: Console, interruption: Interruption) -> int:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from wirebroker_audit.job import audit
    from wirebroker_audit.report.catalog import FindingsTable
    from wirebroker_audit.report.exports import Exports
    from wirebroker_audit.report.folder import LIVE, SUMMARY
    from wirebroker_audit.request import REFUSALS, CannotAudit
    from wirebroker_audit.spark.session import BRIEF, ONCE, get_session

    # PySpark 4.2 and later warn about pandas 3, which the audit does not use: it uses Arrow
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        request = _request(options)
        exports = Exports.of(options, request.access)
        table = FindingsTable.of(options.findings_table) if options.findings_table is not None else None
        if options.follow is not None and (
            given := [*exports.flags, *(f"--{name}" for name in ONCE_ONLY if getattr(options, name.replace("-", "_")))]
        ):
            raise Refused(f"{given[0]} does not work together with --follow")
        if options.follow is not None and request.path is not None and is_remote(request.path):
            raise Refused(f"--follow reads paths of this machine, not {options.path}")
        exports.check()
        request.check(SUMMARY if options.follow is None else LIVE)
        with _progress(err) as shown:
            shown.stage("starting Spark")
            threading.Thread(target=import_module, args=("wirebroker_audit.report",), daemon=True).start()  # while Java starts
            settings = {"spark.driver.memory": options.memory} if options.memory else {}
            settings |= request.settings
            if options.follow is None:
                settings |= BRIEF if request.looks_small() else ONCE
            with interruption.passing_errors_on():
                spark = get_session(options.master, settings)
            interruption.watch(spark.sparkContext, cancel=options.follow is None)
            shown.watch(spark)
            if table is not None:
                table.check(spark)
            if options.follow is None:
                result = audit(spark, request, shown.stage, shown.expect)
                exports.write(result.summary, request.out)
                if table is not None:
                    table.append(spark, result.summary, request.out / "findings")
            else:
                code, why = _follow(spark, request, shown.stage, options.follow)
    except (CannotAudit, *REFUSALS) as refused:
        raise Refused(str(refused)) from refused
    except OSError as refused:  # a file of the live audit cannot be read or written
        raise Refused(f"{refused.filename}: {refused.strerror}" if refused.filename else str(refused)) from refused
    except (PySparkException, Py4JError) as failed:
        raise Refused(f"Spark failed: {first_line(failed)}") from failed
    if options.follow is not None:
        err.print(printable(f"wirebroker audit: {why}"), soft_wrap=True, markup=False)
        return code
    show(result, Output(highlight=False), request.out)
    return result.exit_code


def _request(options: argparse.Namespace) -> Request:
    """Makes the audit's request from the flags. Raises BadConfig."""
    from wirebroker_audit.request import Request

    request = Request(
        out=Path(options.out), path=place(options.path) if options.path else None, bootstrap=options.bootstrap,
        topics=tuple(options.topic), trace=options.trace, intended=options.intended, policy=options.policy,
        fail_on=options.fail_on, since=Path(options.since) if options.since else None, access=access_of(options),
        pipeline=tuple(options.pipeline), match=options.match,
        remote_store=place(options.remote_store) if options.remote_store else None,
    )  # fmt: skip
    if options.producer_expiration is not None:
        request = request.with_expiration(options.producer_expiration)
    if options.records_limit is not None:
        request = replace(request, records_limit=options.records_limit)
    return request


def _follow(spark: SparkSession, request: Request, say: Callable[[str], None], seconds: float) -> tuple[int, str]:
    """Runs the live audit (`--follow`) until it ends. Returns its exit code and the reason why it ended."""
    from wirebroker_audit.job import origin_of
    from wirebroker_audit.live import follow, start

    origin = origin_of(spark, request)
    spark.sparkContext.setLogLevel("OFF")  # a restarted stream would write stack traces of two languages
    return follow(
        lambda: start(spark, origin, request.out, request.expiration_ms, seconds),
        request.out, say, seconds, request.policies.default, again=request.bootstrap is not None,
    )  # fmt: skip


def access_of(options: argparse.Namespace) -> Access:
    """Makes the settings for connections to clusters from the flags. Raises BadConfig."""
    access = read_access(options.command_config) if options.command_config is not None else Access()
    return replace(access, max_rate=options.max_rate or 0)


def _tidy(out: Path) -> None:
    """Remove the unfinished report once Spark has stopped: cancelled tasks may still write for a moment."""
    from pyspark.sql import SparkSession

    from wirebroker_audit.report.folder import partial_of

    with suppress(Exception):
        if (spark := SparkSession.getActiveSession()) is not None:
            spark.stop()
    shutil.rmtree(partial_of(out.resolve()), ignore_errors=True)


def first_line(failed: Exception) -> str:
    """Returns the message of a Spark exception, without the stack traces of both languages."""
    lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
    said = next((line for line in lines if not line.startswith("An error occurred while calling")), type(failed).__name__)
    return JAVA_CLASS.sub("", said)


def show(result: Result, console: Console, out: Path) -> None:
    """Shows the summary in the terminal."""
    summary = result.summary
    table = Table(box=None, pad_edge=False)
    names = ("partitions", "batches", "records", "producers", "committed", "aborted")
    for name in ("topic", *names[:-2], "commit markers", "abort markers"):  # a transaction has a marker in each partition
        table.add_column(name, justify="left" if name == "topic" else "right")
    topics: dict[str, dict[str, int]] = summary["topics"]
    largest = set(sorted(topics, key=lambda name: -topics[name]["batches"])[:TOPICS_SHOWN])
    for topic, counts in topics.items():
        if topic in largest:
            table.add_row(Text(printable(topic)), *(f"{counts[name]:,}" for name in names))
    console.print(table)
    if len(topics) > len(largest):
        console.print(f"… and {len(topics) - len(largest):,} smaller topics; see the report")
    for group in summary["kinds"]:
        kind, severity = group["kind"], group["severity"]
        console.print(f"[{COLOURS[severity]}]{severity:<8} {kind}: {group['count']:,}[/]")
        for each in [each for each in result.findings if (each["kind"], each["severity"]) == (kind, severity)][:SHOWN]:
            console.print(printable(f"         {each['explanation']}"), markup=False, soft_wrap=True)
    if not summary["kinds"]:
        console.print("no finding")
    for variant in summary["what_if"]:
        words = "{variant}: {recognised} retries recognised, {rejected} rejected, {doubled} stored again, {lost} lost"
        console.print(words.format(**variant), markup=False)
    for topic, sums in (summary.get("table") or {"topics": {}})["topics"].items():
        from wirebroker_audit.checks.against_table import sentence

        console.print(printable(f"{topic}: {sentence(sums)}"), markup=False, soft_wrap=True)
    for row in summary.get("followed", ()):
        from wirebroker_audit.checks.pipeline import sentence as of_pipeline

        console.print(printable(of_pipeline(row)), markup=False, soft_wrap=True)
    for notice in summary["notices"]:
        console.print(printable(f"note: {notice}"), markup=False, soft_wrap=True)
    for problem in summary["problems"]:
        console.print(printable(f"could not be read: {problem}"), markup=False, soft_wrap=True)
    console.print(f"report: {out / 'report.html'}", markup=False, soft_wrap=True)


class _Shown:
    """The progress bar: the stage, how much of the whole audit is done, and about how long the rest takes.

    Without a terminal, a line is printed for each stage, and for each minute of a long stage.
    """

    def __init__(self, progress: Progress, err: Console) -> None:
        self._progress, self._err = progress, err
        self._task = progress.add_task("", total=None, left="")
        self._tracker: Any = None
        self._name = ""
        self._told = 0.0
        self.share = Share()
        self.ended = threading.Event()

    def expect(self, seconds: Mapping[str, float]) -> None:
        self.share.expect(seconds)

    def stage(self, name: str) -> None:
        self._name, self._told = name, monotonic()
        self.share.begin(name, self._told)
        self._progress.update(self._task, description=name)
        if not self._err.is_terminal:
            self._err.print(f"{name} …", soft_wrap=True, markup=False)

    def watch(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self.ended.wait(REFRESH):
            try:
                stages = [self._tracker.getStageInfo(each) for each in self._tracker.getActiveStageIds()]
            except Exception:  # Spark is being stopped
                return
            known = [each for each in stages if each is not None]
            total, done = sum(each.numTasks for each in known), sum(each.numCompletedTasks for each in known)
            self._show(done / total if total else 0.0)

    def _show(self, part: float) -> None:
        now = monotonic()
        done, left = self.share.look(part, now)
        words = "" if left is None else f"about {duration(left)} left"
        self._progress.update(self._task, completed=done, total=1.0 if self.share.is_known else None, left=words)
        if not self._err.is_terminal and now - self._told > EVERY:
            self._told = now
            about = f" {done:.0%} of the audit," if self.share.is_known else ""
            self._err.print(f"{self._name} …{about} {words}".rstrip(" ,"), soft_wrap=True, markup=False)


@contextmanager
def _progress(err: Console) -> Iterator[_Shown]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        shown = _Shown(progress, err)
        try:
            yield shown
        finally:
            shown.ended.set()
