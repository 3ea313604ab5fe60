"""Starts a client's program, reads its output line by line, and kills it if it prints nothing for too long."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from bench.process import end_group
from ecosystem.interop.checks import FAIL, Outcome, Result
from ecosystem.interop.clients import CLIENTS, OTHERS, Command, Missing, fetched

SILENCE = 90.0
"""A client's program is killed after this many seconds without output. Within a check, a program waits at most 20 s for
anything.
"""


def run(
    client: str, bootstrap: str, prefix: str, checks: Sequence[str], told: Callable[[str, Result], None] = lambda *_: None,
    *, offline: bool = False,
) -> Outcome:  # fmt: skip
    """Run the checks of one client. `told` is called as soon as a check has a result. With `offline`, nothing is fetched.

    If a program dies or hangs, its current check fails, and the program is started again for the remaining checks.
    """
    outcome = Outcome(client)
    try:
        if offline and not fetched(client):
            raise Missing(f"it was not fetched yet; scripts/interop --fetch --clients {client} does that")
        command = (CLIENTS | OTHERS)[client]()
    except Missing as missing:
        outcome.missing = str(missing)
        return outcome
    left = list(checks)
    while left:
        problem = _listen(command, bootstrap, prefix, left, outcome, told)
        if left:
            result = Result(FAIL, problem or "the program ended before its checks ended")
            outcome.results[left[0]] = result
            told(left.pop(0), result)
    return outcome


def _listen(
    command: Command, bootstrap: str, prefix: str, left: list[str], outcome: Outcome, told: Callable[[str, Result], None]
) -> str:
    """Start the program for the checks in `left`, and remove each finished check from `left`. Returns the problem, or ""."""
    words = [str(word) for word in command.words] + [bootstrap, prefix, *left]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env=os.environ | command.environment, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            for line in _lines(process.stdout):
                _take(line, left, outcome, told)
                if not left:
                    return ""
            return f"the program ended with: {_last(errors)}"
        except TimeoutError:
            return f"the program printed nothing for {SILENCE:.0f} s; it last wrote: {_last(errors)}"
        finally:
            end_group(process)
            process.stdout.close()


def _take(line: dict[str, Any], left: list[str], outcome: Outcome, told: Callable[[str, Result], None]) -> None:
    if "client" in line:
        outcome.version = line["version"]
    elif left and line.get("check") == left[0]:
        result = Result(line["result"], line["detail"], line["seconds"])
        outcome.results[left.pop(0)] = result
        told(line["check"], result)


def _lines(stream: IO[bytes]) -> Any:
    """Yields the JSON objects that the program prints, one a line, and ignores other lines. Raises TimeoutError."""
    data = b""
    while True:
        *lines, data = data.split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                yield json.loads(line)
        deadline = time.monotonic() + SILENCE
        if not select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        read = os.read(stream.fileno(), 65536)
        if not read:
            return
        data += read


def _last(errors: IO[bytes]) -> str:
    errors.seek(0)
    return " ".join(errors.read().decode(errors="replace").split())[-400:] or "nothing"
