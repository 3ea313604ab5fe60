"""Runs a suite, and reads the result of each test from its output."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bench.process import end_group
from ecosystem.suites.suites import WORDS, Run, Suite

SILENCE = 600.0
"""A suite is killed after this many seconds without output."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(slots=True)
class Outcome:
    """The results of one suite. `missing` says why the suite did not run. `lost` has the tests that pass on Kafka, but not
    here."""

    suite: Suite
    results: dict[str, str] = field(default_factory=dict)
    missing: str = ""
    lost: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def names(self, result: str) -> set[str]:
        """Returns the tests with this result."""
        return {name for name, found in self.results.items() if found == result}


def run(
    suite: Suite, address: str, version: str, only: str, told: Callable[[str, str, int], None], output: Path | None = None
) -> Outcome:
    """Run the suite, or one of its tests alone, against brokers of this version of Kafka; calls `told` with each result.
    Raises Missing if the suite cannot be fetched.
    """
    made = suite.make(address, version)
    outcome, began = Outcome(suite), time.monotonic()
    log = None
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        log = (output / f"{suite.name}.log").open("w")
    try:
        for line in _lines(made, only):
            text = COLOUR.sub("", line)
            if log is not None:
                log.write(text)
            found = made.tells.search(text)
            # A test whose cleanup fails is reported twice, as passed and as failed. It counts as failed.
            name = made.named(found["name"]) if found else ""
            if found and outcome.results.get(name) != WORDS["FAILED"]:
                outcome.results[name] = WORDS[found["word"]]
                told(name, outcome.results[name], len(outcome.results))
    finally:
        if log is not None:
            log.close()
    outcome.seconds = time.monotonic() - began
    return outcome


def _lines(made: Run, only: str) -> Iterator[str]:
    """Yields the lines that the program prints, until it ends or prints nothing for too long."""
    words, environment = [str(word) for word in made.words], os.environ | made.environment
    if only:
        added = made.only(only)
        if isinstance(added, dict):
            environment |= added
        else:
            words += added
    process = subprocess.Popen(
        words, cwd=made.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield from _until_silent(process.stdout)
    finally:
        end_group(process)
        process.stdout.close()


def _until_silent(stream: IO[bytes]) -> Iterator[str]:
    data = b""
    while select.select([stream], [], [], SILENCE)[0]:
        read = os.read(stream.fileno(), 1 << 16)
        if not read:
            break
        *lines, data = (data + read).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace") + "\n"
    if data:
        yield data.decode(errors="replace")
