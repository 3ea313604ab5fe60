"""The messages of a live audit while it runs. No Spark here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from wirebroker_audit import live
from wirebroker_audit.policy import Policy


class Query:
    """A stream that brings these findings one after another, and is then ended by Ctrl-C."""

    def __init__(self, out: Path, moments: list[dict[str, Any]]) -> None:
        self._out, self._moments = out, moments

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        if not self._moments:
            raise KeyboardInterrupt
        (self._out / live.CURRENT).write_text(json.dumps({"severities": {}} | self._moments.pop(0)))
        return True

    def stop(self) -> None:
        """Nothing is to be stopped."""

    def exception(self) -> None:
        """It did not fail."""


def test_notices_are_said_once_and_the_counts_behind_them(tmp_path: Path) -> None:
    said: list[str] = []
    moments = [
        {"counts": {"gap": 1}},  # as an earlier release wrote it
        {"counts": {"gap": 1}, "notices": []},
        {"counts": {"gap": 1}, "notices": ["a"]},
        {"counts": {"gap": 1}, "notices": ["a"]},
        {"counts": {}, "notices": ["a", "b"]},
    ]
    assert live.follow(Query(tmp_path, moments), tmp_path, said.append, 0, Policy("likely")) == 0  # type: ignore[arg-type]
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
