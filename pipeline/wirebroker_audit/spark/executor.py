"""Spark as a `concurrent.futures.Executor`: each call is a task. Spark gives the tasks of a lost executor to another
executor."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from zipfile import ZipFile

from py4j.protocol import Py4JError
from pyspark import cloudpickle as untyped
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from wirebroker_audit.spark.java import NoJava
from wirebroker_audit.spark.session import BRIEF, get_session

P = ParamSpec("P")
T = TypeVar("T")
CANNOT_START = (NoJava, PySparkException, Py4JError)
AHEAD = 2
"""This many tasks are submitted for each core. With more than one task, no core waits for the driver, and a cluster with
dynamic allocation adds executors.
"""
MOST = 4096
"""At most this many tasks run at once. For each task a thread of the driver waits."""

REASON = re.compile(r"(ModuleNotFoundError|ImportError|AttributeError|\w*\.?PicklingError|SyntaxError)\b.*: ")
"""Matches the error of an executor that lacks the driver's packages."""
JAVA = re.compile(r": (?:[\w$]+\.)+[\w$]+: ")
"""Matches the class name of a Java exception. In the error, the exception's message follows this name."""

cloudpickle: Any = untyped


class LostTask(RuntimeError):
    """Raised if Spark gave up a task; the message is a sentence."""


class SparkExecutor(Executor):
    """Runs calls on a cluster. Calls are pickled, even calls of functions that are defined inside other functions.

    Every call is a Spark job of its own, with one partition, so its result is known as soon as it ends. If the executor of a
    call is lost, Spark runs the call again, up to `spark.task.maxFailures` times. If the call itself raised an exception, Spark
    does not run it again.
    """

    def __init__(self, master: str | None, name: str, folders: Sequence[Path] = ()) -> None:
        """Uses a session for this master, or the session of `spark-submit`. `folders` have the modules that executors need.

        Raises `CANNOT_START`.
        """
        self._is_mine = SparkSession.getActiveSession() is None
        self._spark = get_session(master, BRIEF, name)
        self._context = self._spark.sparkContext
        self._threads = ThreadPoolExecutor(MOST, "wirebroker-spark")
        self._cancelled = False
        self._folder = tempfile.TemporaryDirectory()  # the folder stays, because executors that join later fetch its files, too
        for number, source in enumerate(folders):
            self._context.addPyFile(str(_zipped(source, Path(self._folder.name, f"modules-{number}.zip"))))

    def width(self) -> int:
        """Returns how many calls the caller should submit at once."""
        return min(AHEAD * self._context.defaultParallelism, MOST)

    def submit(self, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        """Run a call on the cluster. The result raises LostTask if Spark gave up the call."""
        return self._threads.submit(self._run, partial(function, *args, **options))

    def _run(self, call: Callable[[], T]) -> T:
        if self._cancelled:
            raise LostTask("the task was cancelled")
        pickled: bytes = cloudpickle.dumps(call)
        try:
            (result,) = self._context.parallelize([pickled], 1).mapPartitions(_played).collect()
        except (PySparkException, Py4JError) as failed:
            raise LostTask(f"Spark gave a task up: {in_a_line(failed)}") from None
        value, error = cloudpickle.loads(result)
        if isinstance(error, ImportError):
            raise LostTask(f"the executors lack what the driver has: {error}")
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def cancel(self) -> None:
        """Cancel the running calls."""
        self._cancelled = True
        with suppress(Py4JError, OSError):
            self._context.setLogLevel("OFF")
            self._context.cancelAllJobs()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the running calls, and end the session if this object began it."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        if self._is_mine:
            with suppress(Py4JError, OSError):
                self._spark.stop()
        self._folder.cleanup()


def _zipped(folder: Path, target: Path) -> Path:
    """Writes the modules and packages of a folder into a ZIP file, and returns `target`. A package may lack `__init__`."""
    with ZipFile(target, "w") as made:
        for path in folder.rglob("*"):
            if path.suffix == ".py" or (path.is_dir() and path.name.isidentifier() and path.name != "__pycache__"):
                made.write(path, path.relative_to(folder))
    return target


def _played(calls: Iterable[bytes]) -> Iterable[bytes]:
    """Makes the calls on an executor. Yields the result of each call, or the error that the call raised."""
    for pickled in calls:
        value: Any = None
        error: Exception | None = None
        try:
            value = cloudpickle.loads(pickled)()
        except Exception as raised:
            error = raised
        yield cloudpickle.dumps((value, error))


def in_a_line(failed: BaseException) -> str:
    """Returns the line with the reason in an error of Spark: Python's error on the executor, or else Java's exception."""
    lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
    reason = next((line for line in lines if REASON.match(line)), None)
    return reason or next((line for line in lines if JAVA.match(line)), lines[0] if lines else type(failed).__name__)
