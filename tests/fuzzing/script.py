"""The steps of a fuzzer's case, which can be saved, repeated and reduced."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    """A step. The steps `open`, `send` and `close` have the number of a connection, `wait` has milliseconds, and `restart` has
    a mode.

    In a cluster, `kill broker` and `start broker` use `connection` as the number of the broker.

    `turns` completes all requests that are handled in slices.
    """

    what: str
    connection: int = 0
    frame: bytes = b""
    ms: int = 0
    mode: str = ""

    def __str__(self) -> str:
        if self.what == "send":
            return f"connection {self.connection} sends {len(self.frame)} bytes: {self.frame[:60].hex()}"
        if self.what == "wait":
            return f"the clock moves {self.ms} ms"
        return f"restart ({self.mode})" if self.what == "restart" else f"connection {self.connection}: {self.what}"


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of the broker to which a case is played."""

    seed: int
    brokers: int = 1
    data: bool = False
    trace: str = "off"
    faults: str = ""
    sliced: bool = False
    """Tells whether long requests are handled in slices. Then the engine can handle other requests between two slices."""


@dataclass(frozen=True, slots=True)
class Script:
    """The broker's settings, and the steps to play."""

    setting: Setting
    steps: tuple[Step, ...]

    def save(self, path: Path) -> None:
        """Writes the script as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        steps = [[each.what, each.connection, each.frame.hex(), each.ms, each.mode] for each in self.steps]
        path.write_text(json.dumps({"setting": asdict(self.setting), "steps": steps}) + "\n")


def load(path: Path) -> Script:
    """Reads a script that `Script.save` wrote. Raises OSError, ValueError."""
    said = json.loads(path.read_text())
    steps = tuple(Step(what, connection, bytes.fromhex(frame), ms, mode) for what, connection, frame, ms, mode in said["steps"])
    return Script(Setting(**said["setting"]), steps)


class Finding(AssertionError):
    """A violated rule. `kind` is the same for findings with the same cause."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}\n{detail}" if detail else kind)
        self.kind = kind
        self.detail = detail


Fails = Callable[[Sequence[Step]], bool]


def minimise(steps: Sequence[Step], fails: Fails, in_time: Callable[[], bool]) -> list[Step]:
    """Removes steps while there is time, and while the remaining steps still fail (delta debugging). Returns the rest."""
    kept, size = list(steps), max(len(steps) // 2, 1)
    while in_time():
        smaller = False
        at = 0
        while at < len(kept) and in_time():
            tried = kept[:at] + kept[at + size :]
            if tried and fails(tried):
                kept, smaller = tried, True
            else:
                at += size
        if size == 1 and not smaller:
            break
        size = max(size // 2, 1)
    return kept
