"""The report's page and pictures: nothing is cut off on a phone, each colour has one meaning, and hostile names are escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from matplotlib.textpath import TextPath

from wirebroker.audit.findings import KINDS, severity_of
from wirebroker.common.page import PALETTE, STYLE
from wirebroker_audit.report import page, plots
from wirebroker_audit.report.colours import SEVERITIES
from wirebroker_audit.report.gather import Ribbon, Timeline
from wirebroker_audit.report.history import HISTORY, KEPT, earlier, save

READABLE = 10
"""The smallest size, in pixels, that text may have in a picture that is as wide as `PHONE`."""
PHONE = 360 - 32
NAMES = ("orders", "<script>alert(1)</script>", "a$b$c_{", "x" * 249, "\u202edesrever", "bell\a", "'\" onload=alert(1) x='")
FAR = 10**12


def finding(kind: str, severity: str = "", first: int = 0, offset: int = 5, **evidence: Any) -> dict[str, Any]:
    return {
        "kind": kind, "severity": severity or severity_of(kind), "topic": NAMES[1], "partition": 0, "producer_id": 7,
        "producer_epoch": 0, "first_sequence": first, "last_sequence": first + 4, "first_offset": offset,
        "last_offset": offset + 4, "evidence": json.dumps(evidence), "explanation": f"{NAMES[4]}: {NAMES[1]}",
        "id": NAMES[1],
    }  # fmt: skip


def batch(offset: int, sequence: int) -> dict[str, int]:
    return {"base_offset": offset, "last_offset": offset + 4, "base_sequence": sequence, "last_sequence": sequence + 4}


def counted(*kinds: tuple[str, str, int]) -> list[dict[str, Any]]:
    return [{"kind": kind, "severity": severity, "count": count} for kind, severity, count in kinds]


def cells() -> list[dict[str, Any]]:
    return [
        {"topic": NAMES[n % len(NAMES)], "partition": n // 70, "producer_id": (8000 + n % 24) * 10 ** (n % 3 * 7),
         "records": n * 10**6, "wrong": (n % 7 == 0) * 10 ** (n % 5), "worst": "certain" if n % 7 == 0 else None}
        for n in range(280)
    ]  # fmt: skip


DOUBLED = finding("duplicate", offset=FAR + 9, first=10, first_=None) | {"evidence": json.dumps({"first": batch(FAR, 10)})}
RETRIED = finding("epoch_duplicate", offset=FAR + 50) | {
    "evidence": json.dumps({"first_partition": 0, **{f"first_{name}": number for name, number in batch(FAR + 30, 0).items()}})
}


def audits(count: int) -> list[dict[str, Any]]:
    """Returns a history of nightly audits."""
    days = (datetime(2026, 1, 1, 2, 30) + timedelta(days=n) for n in range(count))
    return [
        {
            "time": f"{day:%Y-%m-%dT%H:%M:%S}.000+00:00", "severities": {"certain": 12_345 * (n % 2), "likely": n},
            "records": 10**9, "complete": True, "version": "1.2.3",
        }
        for n, day in enumerate(days)
    ]  # fmt: skip


RULES = [*(f"window {n}" for n in (1, 2, 5, 10)), "no idempotence", "redpanda-24"]
LARGE = Timeline(NAMES[3], 0, 2**62, [batch(FAR + n, n) for n in range(0, 10_000, 5)], [DOUBLED, RETRIED, finding("gap")])
PICTURES: dict[str, Callable[[], str]] = {
    "one bar": lambda: plots.findings_by_kind(counted(("duplicate", "certain", 1))),
    "bars": lambda: plots.findings_by_kind(counted(*((kind, severity_of(kind), 12_345) for kind in KINDS))),
    "timeline": lambda: plots.timeline(Timeline("orders", 0, 7, [batch(0, 0), batch(5, 0)], [finding("duplicate")])),
    "large timeline": lambda: plots.timeline(LARGE),
    "heat map": lambda: plots.heat_map(cells()),
    "small heat map": lambda: plots.heat_map(cells()[:2]),
    "trend": lambda: plots.trend(audits(3)),
    "long trend": lambda: plots.trend(audits(400)),
    "what if": lambda: plots.what_if(
        [{"variant": rule, "window": 5, "recognised": 1, "rejected": 2, "doubled": 3} for rule in RULES]
    ),
}
"""Pictures of each kind, with small and with large numbers."""


@cache
def drawn(name: str) -> str:
    return PICTURES[name]()


TEXT = re.compile(r'<text style="font-size: ([\d.]+)px([^"]*)"([^>]*)>([^<]*)</text>')


def texts(svg: str) -> list[tuple[str, float, float, float]]:
    """Returns each text with its size and its left and right edges, measured in matplotlib's wide font."""
    found = []
    for size, style, place, text in TEXT.findall(svg):
        if "rotate(-90" in place or "translate" in place:
            continue
        at = float(re.search(r' x="([-\d.]+)"', place)[1])  # type: ignore[index]
        length = TextPath((0, 0), unescape(text).replace("$", "S"), size=float(size)).get_extents().width
        before = 1 if "end" in style else 0.5 if "middle" in style else 0
        found.append((text, float(size), at - before * length, at + (1 - before) * length))
    return found


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_of_a_picture_is_cut_and_all_of_it_can_be_read_on_a_phone(name: str) -> None:
    assert re.search(r"@media\(max-width:40rem\)\{\.narrow\{display:block\}\.wide,", STYLE)
    narrow = drawn(name).partition("<div class='narrow'>")[2]
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', narrow)[1])  # type: ignore[index]
    for svg, scale in ((narrow, PHONE / width), (drawn(name).partition("<div class='narrow'>")[0], 1)):
        wide = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])  # type: ignore[index]
        assert texts(svg)
        for text, size, begin, end in texts(svg):
            assert size * scale >= READABLE - 1, text
            assert -1 <= begin < end <= wide + 1, text


@pytest.mark.parametrize("name", PICTURES)
def test_axes_have_whole_numbers(name: str) -> None:
    numbers = [text for text, *_ in texts(drawn(name)) if re.fullmatch(r"[-−]?[\d.,]+", text)]
    assert [each for each in numbers if "." in each] == []
    assert len(set(numbers)) >= 2 or name in ("one bar", "bars")


def test_a_finding_has_the_colour_of_its_own_severity() -> None:
    red, amber = SEVERITIES["certain"], SEVERITIES["likely"]
    bars = plots.findings_by_kind(counted(("lost", "certain", 3)))
    assert f"var(--certain,{red})" in bars
    assert amber not in bars
    likely = plots.timeline(Timeline("orders", 0, 7, [batch(0, 0)], [finding("epoch_duplicate")]))
    certain = plots.timeline(Timeline("orders", 0, 7, [batch(0, 0)], [finding("gap", "certain")]))
    assert (red in likely, amber in likely) == (False, True)
    assert (red in certain, amber in certain) == (True, False)
    assert red not in plots.heat_map([{**each, "worst": each["worst"] and "likely"} for each in cells()])


def test_both_copies_of_what_is_stored_twice_are_drawn() -> None:
    assert plots.first_copies(DOUBLED) == [((FAR, FAR + 5), (10, 15))]
    assert plots.first_copies(RETRIED) == [((FAR + 30, FAR + 35), (0, 5))]
    assert plots.first_copies(RETRIED | {"partition": 1}) == []
    svg = plots.timeline(Timeline("orders", 0, 7, [], [DOUBLED]))
    assert svg.count("duplicate, first copy") == 2, "in both widths"


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ({}, "Yes, as far as the batches that were read show: no finding is certain or likely."),
        ({"info": 2}, "Yes, as far as the batches that were read show: no finding is certain or likely."),
        ({"certain": 1}, "No: 1 finding is certain."),
        ({"certain": 2, "likely": 1}, "No: 2 findings are certain, 1 is likely."),
        ({"certain": 1, "likely": 1200}, "No: 1 finding is certain, 1,200 are likely."),
        ({"likely": 1}, "Probably not: 1 finding is likely."),
        ({"likely": 3}, "Probably not: 3 findings are likely."),
    ],
)
def test_the_verdict_is_a_sentence(counts: dict[str, int], sentence: str) -> None:
    assert page.verdict(counts)[1] == sentence


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_names_and_contents_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [finding("gap") for _ in range(9)]
    monkeypatch.setattr(page, "first_findings", lambda findings: found)
    monkeypatch.setattr(page, "timelines", lambda *_: [Timeline(NAMES[1], 0, 7, [batch(0, 0)], found)])
    stored = [batch(0, 0) | {"producer_id": 7, "producer_epoch": 0, "marker": -1}]
    monkeypatch.setattr(page, "ribbons", lambda *_: [Ribbon(NAMES[1], 0, stored, found)])
    monkeypatch.setattr(page, "heat_map", lambda *_: cells())
    monkeypatch.setattr(page, "new_ones", lambda *_: frozenset(each["id"] for each in found))
    counts = dict.fromkeys(("partitions", "batches", "records", "bytes", "producers", "committed", "aborted"), 1)
    summary = {
        "complete": False, "origin": NAMES[1], "audited_at": "2026-01-02 03:04:05 UTC", "host": NAMES[1], "version": "1.2.3",
        "problems": [NAMES[1]], "notices": [NAMES[4]], "kinds": counted(("gap", "certain", 9)), "severities": {"certain": 9},
        "topics": dict.fromkeys(NAMES, counts),
        "changes": {
            "time": NAMES[1], "new": 0, "still": 9, "gone": 1, "gone_findings": [{"kind": "gap", "explanation": NAMES[1]}],
        },
        "coverage": {"digest": "0", "elections_from_ms": 2**62, "topics": {
            each: {"partitions": 1, "replicas": 1, "offsets": 9, "from_ms": 0, "to_ms": 2**62, "sequences": True,
                   "contents": "batch by batch", "journal": each, "remote_segments": 3, "remote_missing": 2**62}
            for each in NAMES
        }},
        "ranges": [{"topic": each, "partition": 0, "read": each, "why": "", "others": [each]} for each in NAMES],
    }  # fmt: skip
    page.write_report(tmp_path, summary, None, None, None, [], audits(20), tmp_path)  # type: ignore[arg-type]
    written = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    tags = Tags(written)
    assert not tags.names & {"script", "img", "iframe", "link"}
    assert not {each for each in tags.attributes if each.startswith("on")}
    assert "\u202e" not in written
    assert "2026-01-02 03:04:05 UTC" in written
    assert "wirebroker 1.2.3" in written
    assert "2026-01-20 02:30" in written
    assert "2026-01-10 02:30" not in written, "the table has only the latest ten audits"
    places = [written.index(each) for each in ("gap: 9 certain", "<svg", "What was read")]
    assert places == sorted(places), "the sections are not in order"


def luminance(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_schemes(scheme: str) -> None:
    colours = {name: getattr(shades, scheme) for name, shades in PALETTE.items()}
    pairs = [(name, "paper") for name in ("ink", "faint", "certain", "likely", "good", "stored")]
    pairs += [("ink", name) for name in colours if name.endswith("-tint")]
    for text, ground in pairs:
        dark, bright = sorted((luminance(colours[text]), luminance(colours[ground])))
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


def test_a_history_that_cannot_be_read_begins_again(tmp_path: Path) -> None:
    assert earlier(tmp_path) == []
    save(tmp_path, audits(500))
    assert earlier(tmp_path) == audits(500)[-KEPT:]
    for text in ("", "[[", "7", '[{"time": "x"}, 3]'):
        (tmp_path / HISTORY).write_text(text)
        assert earlier(tmp_path) == []
