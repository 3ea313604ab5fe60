"""The table of `--releases`, which scripts/interop and scripts/client-suites make."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ecosystem.release_table import Checked, compare

ON_KAFKA = {"2.8": {"produce", "fence"}, "3.9": {"produce", "fence", "groups"}}


def played(own: dict[str, set[str]]) -> Callable[[str, bool, Any], list[Checked]]:
    """Returns a stand-in for the function that runs a single client. On Kafka the client passes the checks in `ON_KAFKA`, and
    on wirebroker the checks in `own`."""

    def play(release: str, real: bool, passing: Any) -> list[Checked]:
        passed = ON_KAFKA[release] if real else own[release]
        wanted = passed | {"groups"} if passing is None else passing.get("sarama", ())
        return [Checked("sarama", "1.61", passed, wanted), Checked("kcat", "1.7", (), (), "it needs `kcat`")]

    return play


@pytest.mark.parametrize(
    ("beside", "own", "cells", "code"),
    [
        (True, ON_KAFKA, "2 of 2 | 3 of 3", 0),
        (True, {"2.8": {"produce", "groups"}, "3.9": {"produce"}}, "1 of 2 −fence +groups | 1 of 3 −fence −groups", 1),
        (True, {"2.8": {"produce", "fence", *"abcde"}, "3.9": ON_KAFKA["3.9"]}, "2 of 2 +5 | 3 of 3", 0),
        (False, {"2.8": {"produce"}, "3.9": {"groups"}}, "1 of 2 −groups | 1 of 1", 1),
    ],
)
def test_a_cell_counts_the_checks_that_kafka_passes(
    beside: bool, own: dict[str, set[str]], cells: str, code: int, tmp_path: Path
) -> None:
    chosen = argparse.Namespace(releases=["2.8", "3.9"], beside_kafka=beside, markdown=tmp_path / "table.md")
    assert compare(Console(file=io.StringIO()), chosen, "client", played(own)) == code
    heading, _, *rows = chosen.markdown.read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    assert heading == "| client | version | 2.8 | 3.9 |"
    assert rows == [f"| sarama | 1.61 | {cells} |", "| kcat | 1.7 | not run | not run |"]
