"""The workers that play the cases of a campaign: threads, processes, or the executors of a Spark cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from kafkawire.extras import how_to_install
from wirebroker.common.complaints import Complaint

NEEDED = ("pyspark", "pyarrow")
"""The packages of the extra `audit` that `--master` needs."""


class NoSpark(Complaint):
    """Raised if Spark cannot be used; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Plays cases. Any number of threads may submit cases."""

    executor: Executor
    width: Callable[[], int]
    """the number of cases to submit at once; a cluster can grow, and the number then grows, too"""
    abandon: Callable[[], None] = lambda: None
    """ends the running cases early"""
    elsewhere: bool = False
    """whether the workers may be on other machines"""


@contextmanager
def workers(
    kind: Literal["threads", "processes"] = "threads", jobs: int | None = None, *, master: str | None = None,
    folders: Sequence[Path] = (),
) -> Iterator[Workers]:  # fmt: skip
    """Returns workers of this kind that run `jobs` cases at once, or workers on this Spark cluster. Raises NoSpark.

    Without `jobs`, each core has one process or, because threads mostly wait, two threads. `folders` contain modules that the
    executors of Spark lack. The executors need the same version of wirebroker as the driver.
    """
    cores = os.cpu_count() or 1
    if master is not None:
        with _on_spark(master, jobs, folders) as made:
            yield made
        return
    count = jobs or (cores if kind == "processes" else 2 * cores)
    executor = ProcessPoolExecutor(count) if kind == "processes" else ThreadPoolExecutor(count, "wirebroker-case")
    with executor:
        yield Workers(executor, lambda: count, lambda: executor.shutdown(wait=False, cancel_futures=True))


@contextmanager
def _on_spark(master: str, jobs: int | None, folders: Sequence[Path]) -> Iterator[Workers]:
    for name in NEEDED:
        try:
            import_module(name)
        except ImportError:
            raise NoSpark(f"--master needs {name}; {how_to_install('audit')}") from None
    spark = import_module("wirebroker_audit.spark.executor")
    try:
        executor = spark.SparkExecutor(master, "wirebroker-campaign", folders)
    except spark.CANNOT_START as failed:
        raise NoSpark(f"--master {master}: {spark.in_a_line(failed)}") from None
    try:
        with executor:
            yield Workers(executor, (lambda: jobs) if jobs else executor.width, executor.cancel, elsewhere=True)
    except spark.LostTask as lost:
        raise NoSpark(f"--master {master}: {lost}") from None
