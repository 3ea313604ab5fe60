"""The GitHub action setup-wirebroker. The tests run its script as a runner does, but with an archive in a local folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from kafkawire.messages.metadata import MetadataRequest
from wirebroker.client.wire import WireClient

ACTION = Path(__file__).resolve().parent.parent / ".github" / "actions" / "setup-wirebroker"
NAME = "wirebroker-runtime-9.9.9-linux-x64"
pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the action downloads with curl")


class Runner:
    """The folders and files of a runner, and the archive that it downloads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / NAME / "wirebroker"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m wirebroker "$@"\n')
        program.chmod(0o755)
        archive = folder / f"{NAME}.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(program.parent, NAME)
        shutil.rmtree(program.parent)
        self.sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        self.processes: list[subprocess.Popen[str]] = []

    def run(self, sha256: str, topics: str) -> str:
        """Runs the action's script. Returns the script's output."""
        (self.folder / "temp").mkdir()
        given = {
            "VERSION": "9.9.9", "SHA256": sha256, "TOPICS": topics, "URL": self.folder.as_uri(), "RUNNER_OS": "Linux",
            "RUNNER_ARCH": "X64", "RUNNER_TEMP": str(self.folder / "temp"), "GITHUB_PATH": str(self.folder / "path"),
            "GITHUB_ENV": str(self.folder / "env"),
        }  # fmt: skip
        step = yaml.safe_load((ACTION / "action.yml").read_text())["runs"]["steps"][0]
        assert step["env"].keys() <= given.keys()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WIREBROKER_")}
        self.processes.append(
            process := subprocess.Popen(
                ["bash", "-c", step["run"]], env=environment | given | {"GITHUB_ACTION_PATH": str(ACTION)},
                stdout=subprocess.PIPE, text=True, start_new_session=True,
            )
        )  # fmt: skip
        return process.communicate(timeout=60)[0]

    def told(self, file: str) -> list[str]:
        """Returns the lines that the action has given to the next steps."""
        return (self.folder / file).read_text().splitlines()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(tmp_path)
    yield made
    for each in made.processes:
        try:
            os.killpg(each.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_the_next_steps_find_the_program_and_the_broker(runner: Runner) -> None:
    runner.run(runner.sha256, "orders:3 payments")
    (path,) = runner.told("path")
    assert subprocess.check_output([f"{path}/wirebroker", "--version"], text=True).startswith("wirebroker ")
    found = dict(line.split("=", 1) for line in runner.told("env"))
    with closing(WireClient.at(found["WIREBROKER_BOOTSTRAP"])) as wire:
        topics = wire.request(MetadataRequest(topics=None), 9).topics
    assert {topic.name: len(topic.partitions) for topic in topics} == {"orders": 3, "payments": 1}
    assert found["WIREBROKER_CONTROL"].startswith("http://127.0.0.1:")


def test_an_archive_that_somebody_has_changed_is_refused(runner: Runner) -> None:
    assert f"has the SHA-256 {runner.sha256}; the input sha256 is {'0' * 64}" in runner.run("0" * 64, "")
    assert not (runner.folder / "path").exists()
