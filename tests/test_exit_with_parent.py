"""With `--exit-with-parent`, a broker ends when the test runner that started it is killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wirebroker.commands import parent
from wirebroker.commands.usage import UsageError

SERVE = ["serve", "--port", "0", "--exit-with-parent"]
PROXY = ["proxy", "--upstream", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--exit-with-parent"]
RUNNER = """
import subprocess, sys, time
stdin = {"pipe": subprocess.PIPE, "null": subprocess.DEVNULL, "inherited": None}[sys.argv[1]]
child = subprocess.Popen([*sys.argv[2:]], stdin=stdin)
time.sleep(60)
"""
COMMAND = [sys.executable, "-m", "wirebroker.commands.cli"]
IN_A_SHELL = ["sh", "-c", '"$@"; true', "sh", *COMMAND]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
@pytest.mark.parametrize(
    ("stdin", "command"),
    [("pipe", [*IN_A_SHELL, *SERVE]), ("null", [*COMMAND, *SERVE]), ("inherited", [*COMMAND, *SERVE]),
     ("pipe", [*COMMAND, *PROXY])],
    ids=["a pipe, through a shell", "no pipe", "an inherited pipe that has already ended", "proxy"],
)  # fmt: skip
def test_it_ends_when_its_parent_is_killed(stdin: str, command: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(write_end)
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, stdin, *command],
        stdin=read_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(read_end)
    assert runner.stdout is not None
    assert runner.stdout.readline().startswith("listening on")
    assert runner.stdout.readline() == "ready\n"
    runner.kill()
    rest, log = runner.communicate(timeout=20)  # waits until the broker has closed its output
    assert rest == ""
    assert "the parent process has ended" in log


def test_on_windows_it_needs_a_pipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def watch() -> None:
        parent.watch_parent(asyncio.Event())

    monkeypatch.setattr(sys, "platform", "win32")
    with (tmp_path / "empty").open("w+") as file:
        monkeypatch.setattr(parent, "STDIN", file.fileno())
        with pytest.raises(UsageError, match="on Windows, start the command with a pipe as standard input"):
            asyncio.run(watch())
