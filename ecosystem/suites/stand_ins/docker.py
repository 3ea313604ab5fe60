"""Stands in for the Python package docker, so that a client's suite uses a running broker and does not start a container.

A "container" forwards the ports that the tests request. SUITE_LISTENERS has the target addresses (`PLAINTEXT=127.0.0.1:9092
SSL=…`). If the tests call one of Kafka's tools, the container runs the stand-in for the program docker (docker_program.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))
import forwarding


class Container:
    """Stands in for a container. The stand-in only forwards ports."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        listeners = dict(each.split("=", 1) for each in os.environ["SUITE_LISTENERS"].split())
        asked = {each: "ADVERTISED_" + ("" if each == "PLAINTEXT" else f"{each}_") + "PORT" for each in listeners}
        ports = {int(wanted[asked[each]]): to for each, to in listeners.items() if asked[each] in wanted}
        self._process = subprocess.Popen(forwarding.words(ports), stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def exec_run(self, command: str, **_: Any) -> tuple[int, bytes]:
        """Runs one of Kafka's tools, and returns its exit code and output."""
        done = subprocess.run(
            ["docker", "exec", "broker", "bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        return done.returncode, done.stdout

    def stop(self) -> None:
        """End the forwarding."""
        self._process.kill()
        self._process.communicate()


def from_env() -> SimpleNamespace:
    """Stands in for the function that returns a client of the docker daemon."""
    run = lambda environment, **_: Container(environment)  # noqa: E731
    return SimpleNamespace(containers=SimpleNamespace(run=run), close=lambda: None)


models = SimpleNamespace(containers=SimpleNamespace(Container=Container))
