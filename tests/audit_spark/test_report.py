"""The page: its pictures can be read on a phone."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from wirebroker_audit.report import page, plots
from wirebroker_audit.report.gather import Timeline

READABLE = 10
"""Pixels of the smallest letters."""
REM = 16


def pictures() -> list[str]:
    """One of each kind."""
    found: dict[str, Any] = {"kind": "duplicate", "first_sequence": 0, "last_sequence": 4, "first_offset": 5, "last_offset": 9}
    stored = {"base_offset": 0, "last_offset": 4, "base_sequence": 0, "last_sequence": 4}
    cells = [
        {"topic": "orders", "partition": n % 40, "producer_id": 8000 + n % 24, "records": n, "wrong": n % 7 == 0}
        for n in range(400)
    ]
    counted = {"recognised": 1, "rejected": 2, "doubled": 3}
    outcomes = [{"variant": f"window {n}", "window": n, **counted} for n in (1, 2, 5, 10)] + [
        {"variant": name, "window": 5, **counted} for name in ("no idempotence", "redpanda-24")
    ]
    return [
        plots.findings_by_kind({"duplicate": 3, "gap": 1}), plots.timeline(Timeline("orders", 0, 7, [stored], [found])),
        plots.heat_map(cells), plots.what_if(outcomes),
    ]  # fmt: skip


def test_what_pictures_say_can_be_read_on_a_phone() -> None:
    least = re.search(r"\.scroll svg\{min-width:(\d+)rem\}", page.STYLE)
    assert least is not None
    for picture in pictures():
        assert page._picture(picture).startswith("<div class='scroll'><svg")
        width = float(re.search(r'viewBox="0 0 ([\d.]+) ', picture)[1])  # type: ignore[index]
        sizes = [float(each) for each in re.findall(r"font(?:-size)?:[^;\"]*?([\d.]+)px", picture)]
        assert len(sizes) > 3
        assert min(sizes) * int(least[1]) * REM / width >= READABLE
