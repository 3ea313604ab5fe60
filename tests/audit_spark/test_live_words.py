"""The messages of a live audit while it runs. No Spark here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from wirebroker_audit import live
from wirebroker_audit.inputs.policy import Policy


class Query:
    """A stand-in for a stream. It reports one state after another, and then raises KeyboardInterrupt as Ctrl-C does."""

    def __init__(self, out: Path, moments: list[dict[str, Any]]) -> None:
        self._out, self._moments = out, moments

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        if not self._moments:
            raise KeyboardInterrupt
        (self._out / live.CURRENT).write_text(json.dumps({"severities": {}, "micro": 7} | self._moments.pop(0)))
        return True

    def stop(self) -> None:
        """Does nothing: no query runs."""

    def exception(self) -> None:
        """Returns None: the stream did not fail."""


def test_notices_are_said_once_and_the_counts_behind_them(tmp_path: Path) -> None:
    said: list[str] = []
    moments = [
        {"counts": {"gap": 1}},  # the file of an earlier release has no notices
        {"counts": {"gap": 1}, "notices": []},
        {"counts": {"gap": 1}, "notices": ["a"]},
        {"counts": {"gap": 1}, "notices": ["a"]},
        {"counts": {}, "notices": ["a", "b"]},
    ]
    code, why = live.follow(lambda: Query(tmp_path, moments), tmp_path, said.append, 0, Policy("likely"), again=False)  # type: ignore[arg-type,return-value]
    assert (code, why) == (0, "stopped after micro-batch 7. Start it again to continue from here")
    assert said == ["gap 1", "note: a", "gap 1", "note: b", "no finding"]


def test_of_a_partition_made_anew_what_was_read_before_ended(tmp_path: Path) -> None:
    path = tmp_path / "anew.json"
    live.Restarts(path).begin([], 3)
    assert not path.exists()
    live.Restarts(path).begin([("orders", 0)], 5)
    live.Restarts(path).begin([("orders", 1)], 7)
    restarts = live.Restarts(path)
    assert restarts.ended(4) == {("orders", 0), ("orders", 1)}
    assert restarts.ended(5) == {("orders", 1)}
    assert restarts.ended(7) == frozenset()


class Failing(Query):
    """A stand-in for a stream that reports one state after another and then fails."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        if not self._moments:
            return False
        moment = self._moments.pop(0)
        if isinstance(moment, BaseException):
            raise moment
        (self._out / live.CURRENT).write_text(json.dumps({"severities": {}, "micro": 0} | moment))
        return True

    def exception(self) -> Exception:  # type: ignore[override]
        """Returns the error of a task, in the form in which Spark reports it."""
        return ValueError("Job aborted\n  File x\nOSError: orders-0 at offset 5: broker:9092: refused\n\tat org.apache")


def test_a_stream_that_fails_goes_on_while_it_reads_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit reports a failure once, and restarts the stream. The audit ends if the stream fails again and again."""
    now = [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(live.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    said: list[str] = []
    lives: list[list[Any]] = [[{"counts": {"gap": 1}}], [], [{"counts": {"gap": 2}}]]

    def begin() -> Failing:
        return Failing(tmp_path, lives.pop(0) if lives else [])

    code, why = live.follow(begin, tmp_path, said.append, 0, Policy("likely"), again=True)  # type: ignore[arg-type]
    trouble = "orders-0 at offset 5: broker:9092: refused"
    assert said == ["gap 1", f"{trouble}; trying again for 10 minutes", "gap 2", f"{trouble}; trying again for 10 minutes"]
    assert (code, why) == (2, f"the stream failed: {trouble}. Start it again to continue from here")
    assert live.PATIENCE < now[0] < live.PATIENCE + 20
    assert live.follow(begin, tmp_path, said.append, 0, Policy("likely"), again=False)[0] == 2  # type: ignore[arg-type]
