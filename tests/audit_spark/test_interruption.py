"""After Ctrl-C during a Spark job, the audit prints one message and no stack trace, and leaves no partial report."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import make_directory
from wirebroker_audit.job import DESCRIPTION, audit
from wirebroker_audit.report.folder import whole_or_nothing
from wirebroker_audit.request import Request
from wirebroker_audit.spark.interruption import STDERR, Interruption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def in_java(what: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that calls `what`. The function has the module name of py4j's calls to the JVM."""
    module = {"__name__": "py4j.clientserver", "what": what}
    exec("def call(): what()", module)
    return module["call"]  # type: ignore[return-value]


class Context:
    """Stands in for a SparkContext."""

    def __init__(self) -> None:
        self.level = ""
        self.cancelled = threading.Event()

    def setLogLevel(self, level: str) -> None:  # noqa: N802
        self.level = level

    def cancelAllJobs(self) -> None:  # noqa: N802
        self.cancelled.set()


def during(job: Callable[[], None], interruption: Interruption, context: Context, cancel: bool = True) -> None:
    """Calls a job as if it ran in the JVM, and then sleeps."""
    with interruption:
        interruption.watch(context, cancel=cancel)
        in_java(job)()
        time.sleep(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_call_to_java_is_not_left_before_its_job_is_cancelled(number: signal.Signals) -> None:
    context, said = Context(), []

    def job() -> None:
        signal.raise_signal(number)
        said.append(context.cancelled.wait(10))

    before = signal.getsignal(number)
    interruption = Interruption()
    with pytest.raises(KeyboardInterrupt):
        during(job, interruption, context)
    assert said == [True]
    assert context.level == "OFF"
    assert interruption.exit_code == 128 + number
    assert signal.getsignal(number) is before


def test_what_was_cancelled_may_end_it_first_and_nothing_comes_behind() -> None:
    context = Context()

    def job() -> None:
        signal.raise_signal(signal.SIGINT)
        context.cancelled.wait(10)
        raise LookupError("the job was cancelled")

    for _ in range(20):
        interruption = Interruption()
        with pytest.raises(LookupError):
            during(job, interruption, context)
        assert interruption.number == signal.SIGINT
        sum(range(1000))


def test_before_there_is_a_context_and_at_a_second_signal_it_ends_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), Interruption():
        signal.raise_signal(signal.SIGINT)

    def job() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        during(job, Interruption(), Context(), cancel=False)


CHILD = """
import sys
for line in iter(sys.stdin.readline, ""):
    sys.stderr.write(line)
    sys.stderr.flush()
"""
"""A process that writes what it is told to its standard error."""


@contextlib.contextmanager
def errors_into(path: Path) -> Iterator[None]:
    """In this context, the file gets the standard error of this process and of its children."""
    own = os.dup(STDERR)
    with path.open("wb") as file:
        os.dup2(file.fileno(), STDERR)
    yield
    os.dup2(own, STDERR)
    os.close(own)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_errors_of_other_processes_are_passed_on_until_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    interruption, errors = Interruption(), tmp_path / "errors"
    with errors_into(errors), interruption.passing_errors_on():
        java = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, text=True)
    assert java.stdin is not None
    java.stdin.write("WARN an unknown setting\n\tat org.example.Main\n")
    java.stdin.flush()
    while "Main\n" not in errors.read_text():
        time.sleep(0.01)
    with pytest.raises(KeyboardInterrupt), interruption:
        signal.raise_signal(number)
    java.communicate('Exception in thread "worker" java.io.EOFException\n\tat org.apache.spark.Worker\nhalf a line')
    assert interruption.passer is not None
    interruption.passer.join(10)
    assert errors.read_text() == "WARN an unknown setting\n\tat org.example.Main\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_audit_that_is_interrupted_says_so_and_leaves_nothing(number: signal.Signals, code: int, tmp_path: Path) -> None:
    make_directory(tmp_path / "logs", seed=1, partitions=30)
    arguments = ["audit", "--path", str(tmp_path / "logs"), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", "wirebroker.commands.cli", *arguments], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        if line.startswith("scanning batches"):
            process.send_signal(number)
            lines.clear()  # on a busy machine, Spark reports errors also before the signal
        lines.append(line)
    assert process.wait() == code
    assert lines[-1] == "wirebroker audit: interrupted: no report was written\n"
    assert not [line for line in lines if "Traceback" in line or line.startswith("\tat ") or "Error" in line]
    assert [each.name for each in tmp_path.iterdir()] == ["logs"]


class Killed(BaseException):
    """Raised where the process would be killed."""


@pytest.mark.parametrize("steps", range(9))
def test_wherever_it_is_killed_there_is_no_half_report(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("summary.json", "report.html"):
        (out / name).write_text("old")
    left = steps
    remove, rename = shutil.rmtree, Path.rename

    def step(last: Callable[[], object]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            if left == -1:
                last()
            raise Killed

    def half(path: Path, **options: object) -> None:
        step(lambda: (path / "report.html").unlink(missing_ok=True))
        remove(path, ignore_errors=True)

    def move(path: Path, to: Path) -> Path:
        step(lambda: None)
        return rename(path, to)

    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(shutil, "rmtree", half)
        patched.setattr(Path, "rename", move)
        with whole_or_nothing(out) as folder:
            for name in ("summary.json", "report.html"):
                (folder / name).write_text("new")
    if out.exists():
        assert {each.name: each.read_text() for each in out.iterdir()} in (
            dict.fromkeys(("summary.json", "report.html"), "old"), dict.fromkeys(("summary.json", "report.html"), "new"),
        )  # fmt: skip
    with contextlib.suppress(LookupError), whole_or_nothing(out):
        raise LookupError("no job was running at the next signal")
    assert len({(out / name).read_text() for name in ("summary.json", "report.html")}) == 1
    with whole_or_nothing(out):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_sparks_jobs_are_described_by_their_stage(spark: SparkSession, tmp_path: Path) -> None:
    make_directory(tmp_path / "logs", seed=1, partitions=1)
    said: list[tuple[str, str | None]] = []

    def stage(name: str) -> None:
        said.append((f"wirebroker audit: {name}", spark.sparkContext.getLocalProperty(DESCRIPTION)))

    audit(spark, Request(tmp_path / "out", tmp_path / "logs"), stage)
    assert len(said) > 3
    assert [wanted for wanted, _ in said] == [told for _, told in said]
    assert spark.sparkContext.getLocalProperty(DESCRIPTION) is None
