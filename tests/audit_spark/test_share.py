"""The progress of an audit: which share is done, and how much time is left."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from rich.console import Console

from wirebroker_audit import command
from wirebroker_audit.reading.pieces import Mark, Piece
from wirebroker_audit.share import Share, duration
from wirebroker_audit.sources import expected


def test_the_share_and_the_time_that_is_left() -> None:
    share = Share()
    share.begin("starting Spark", 0)
    assert share.look(0.5, 9) == (0.0, None), "no stage is known yet"
    share.expect({"scan": 30, "check": 10, "report": 10})
    share.begin("scan", 10)
    assert share.look(0.5, 12) == (pytest.approx(0.3), None), "too early to tell"
    done, left = share.look(0.5, 40)
    assert (done, left) == (pytest.approx(0.3), pytest.approx(70)), "30 s for 30 %"
    assert share.look(0.2, 41)[0] == done, "the share does not decrease when Spark's next job adds tasks"
    assert share.look(1.0, 41)[0] < 0.6, "a stage is not complete after one job, because it may run more jobs"
    share.begin("check", 70)
    share.expect({"scan": 30, "check": 60, "report": 10})  # there are more rows than the sizes of segments suggested
    shown, left = share.look(0, 70)
    assert 0.5 < shown < 0.6, "the share does not decrease after a new estimate"
    assert left == pytest.approx(140), "but 60 s were 30 %"
    share.begin("something else", 100)
    share.begin("report", 110)
    done, left = share.look(0.9, 119)
    assert 0.9 < done < 1
    assert left is not None
    assert left < 12


def test_estimates_come_from_sizes_and_then_from_rows() -> None:
    def log(size: int, pieces: int = 1) -> list[Piece]:
        return [Piece("orders", 0, Mark(), Mark(), file="a", size=size // pieces)] * pieces

    def total(pieces: list[Piece], journal: int = 0) -> float:
        return sum(expected.by_size(pieces, journal, by_record=True).values())

    assert total(log(1 << 33)) > 4 * total(log(1 << 30))
    assert total(log(1 << 30, pieces=20_000)) > total(log(1 << 30)) + 50, "each piece takes additional time"
    assert total(log(1 << 20), journal=1 << 30) > total(log(1 << 20)) + 50, "the rows of a journal take additional time"
    few, many = (sum(expected.by_rows(log(1 << 30), 1000, each, 0, by_record=True).values()) for each in (1000, 10**8))
    assert many > few + 1000


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (59, "59 s"), (90, "2 min"), (7500, "2 h 5 min")])
def test_durations_are_readable(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_without_a_terminal_a_long_stage_tells_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(command, "monotonic", lambda: now[0])
    text = io.StringIO()
    err = Console(file=text, highlight=False)
    with command._progress(err) as shown:
        shown.expect({"scanning batches": 90, "writing the report": 10})
        shown.stage("scanning batches")
        for now[0] in (30.0, 59.0, 61.0, 62.0, 122.0):
            shown._show(0.5)
    assert text.getvalue().splitlines() == [
        "scanning batches …",
        "scanning batches … 45% of the audit, about 1 min left",
        "scanning batches … 45% of the audit, about 2 min left",
    ]
