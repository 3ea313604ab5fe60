"""`wirebroker trace show`: what is chosen of a file, and the picture of a producer's sequences."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from wirebroker import faults
from wirebroker.cli import main
from wirebroker.commands.trace import moment
from wirebroker.mock import MockKafka
from wirebroker.trace.rows import ProduceRow
from wirebroker.trace.timeline import timelines
from wirekit import RawProducer

START = 1_800_000_000_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two producers on two partitions, one of them with a duplicate and a gap; a fault; every row there is."""
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    with MockKafka(topics={"orders": 2, "other": 1}, trace="all", clock="frozen") as kafka:
        now = kafka.clock.now()
        kafka.faults.add(faults.error(7, api="Produce", topic="other"))
        first, second, third = (RawProducer(kafka, *where) for where in (("orders", 0), ("orders", 1), ("other", 0)))
        for span in ((0, 4), (5, 9), (5, 9), (20, 23), (10, 19), (20, 23), (40, 41)):
            first.send(*span)
            kafka.clock.advance(milliseconds=500)
        second.send(0)
        third.send(0)
        rows = [row.as_json().replace(str(now)[:7], str(START)[:7]) for row in kafka.trace.events()]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def show(capsys: pytest.CaptureFixture[str], file: Path, *options: str) -> list[str]:
    assert main(["trace", "show", str(file), *options]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("options", "count", "within"),
    [
        (["--event", "produce"], 8, "rec"),
        (["--verdict", "rejected"], 2, "45 OUT_OF_ORDER"),
        (["--verdict", "duplicate", "--producer", "0"], 1, "duplicate of offset"),
        (["--producer", "1"], 2, "orders-1"),
        (["--topic", "orders", "--partition", "1", "--event", "produce"], 1, "orders-1"),
        (["--topic", "other", "--event", "reply"], 1, "other-0"),
        (["--api", "initproducerid", "--event", "reply"], 3, "InitProducerId"),
        (["--api", "Produce", "--event", "fault"], 1, "error"),
        (["--connection", "2"], 6, "#2"),
        (["--client", "nobody"], 0, ""),
        (["--client", "wirebroker-conformance", "--event", "request"], 12, "asked"),
        (["--event", "producer", "--topic", "orders"], 2, "known from now on"),
        (["--event", "group"], 0, ""),
    ],
    ids=str,
)
def test_what_is_chosen(capsys: pytest.CaptureFixture[str], file: Path, options: list[str], count: int, within: str) -> None:
    lines = show(capsys, file, *options)
    assert len(lines) == count
    assert all(within in line for line in lines)


def test_a_window_of_time(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    whole = show(capsys, file, "--event", "produce")
    third = whole[2].split()[0]
    assert show(capsys, file, "--event", "produce", "--since", third) == whole[2:]
    assert show(capsys, file, "--event", "produce", "--until", third) == whole[:3]
    assert show(capsys, file, "--event", "produce", "--since", third, "--until", third) == whole[2:3]


def test_moments() -> None:
    assert moment("1800000000123", START) == 1800000000123
    clock = time.strftime("%H:%M:%S", time.localtime(START / 1000))
    assert moment(clock, START + 999) == START
    assert moment(f"{clock}.25", START) == START + 250
    assert moment("2027-01-15T08:00:00+00:00", 0) == 1_800_000_000_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--since", "noon"], "'noon' is not a time; write 12:30"),
        (["--event", "verdict"], "there is no event 'verdict'"),
    ],
)
def test_what_cannot_be_meant(capsys: pytest.CaptureFixture[str], file: Path, options: list[str], said: str) -> None:
    assert main(["trace", "show", str(file), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_line_that_is_no_row_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"event": "reply"}\n[]\n{"event": "restart", "time": 1, "mode": "kill"}\n')
    assert main(["trace", "show", str(path)]) == 0
    out, err = capsys.readouterr()
    assert [text.partition(" (")[0] for text in err.splitlines()] == [
        f"{path}:1: this line is not a row of a trace", f"{path}:2: this line is not a row of a trace",
    ]  # fmt: skip
    assert "restarted (kill)" in out


def test_damage_within_a_row_is_named_too(capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path) -> None:
    path = tmp_path / "trace.jsonl"
    good = next(text for text in file.read_text(encoding="utf-8").splitlines() if '"event": "produce"' in text)
    time = good.partition('"time": ')[2].partition(",")[0]
    bad = [
        good.replace(f'"time": {time}', '"time": "abc"'), good.replace(f'"time": {time}', '"time": NaN'),
        good.replace('"verdict": "accepted"', '"verdict": "odd"'), good.replace('"topic": "orders"', '"topic": ["orders"]'),
        "[" * 100_000, good.replace(f'"time": {time}', f'"time": {10**30}'), good.replace(f'"time": {time}', '"time": -1'),
    ]  # fmt: skip
    assert good not in bad
    path.write_bytes("\n".join(bad).encode() + b"\n\xff\xfe\x00\n" + good.encode() + b"\n")
    for options in ([], ["--timeline"]):
        assert main(["trace", "show", str(path), *options]) == 0
        out, err = capsys.readouterr()
        assert [text.partition(":")[2].partition(":")[0] for text in err.splitlines()] == list("12345678")
        assert "orders-0" in out


PICTURE = """\
producer 0 epoch 0 on orders-0: sequences 0–41
  0–4             |██████                                          |  accepted   offset 0
  5–9             |     ███████                                    |  accepted   offset 5
  5–9             |     ▒▒▒▒▒▒▒                                    |  duplicate  of offset 5
  20–23           |           ···········××××××                    |  rejected   45 OUT_OF_ORDER_SEQUENCE_NUMBER, missing 10–19
  10–19           |           ████████████                         |  accepted   offset 10
  20–23           |                      ██████                    |  accepted   offset 20
  40–41           |                           ··················×××|  rejected   45 OUT_OF_ORDER_SEQUENCE_NUMBER, missing 24–39
  4 accepted, 1 duplicate, 2 rejected; never stored: 24–41
"""


def test_a_timeline(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    lines = show(capsys, file, "--timeline", "--producer", "0")
    assert [line[:2] + line[16:] if line[4:5] == ":" else line for line in lines] == PICTURE.splitlines()
    docs = Path(__file__).resolve().parent.parent / "docs" / "trace.md"
    assert f"```text\n{PICTURE}```" in docs.read_text(encoding="utf-8")
    assert len(show(capsys, file, "--timeline")) == len(lines) + 4, "and one for the other producer"


def row(first: int, last: int, verdict: Any = "accepted", offset: int = 0) -> ProduceRow:
    values: dict[str, Any] = {field.name: 0 for field in fields(ProduceRow)} | {
        "topic": "orders", "first_sequence": first, "last_sequence": last, "verdict": verdict, "base_offset": offset,
    }  # fmt: skip
    return ProduceRow(**values)


def test_a_timeline_goes_on_behind_the_wrap() -> None:
    top = 2**31
    head, *lines, summary = timelines([row(top - 4, top - 1), row(0, 3), row(top - 4, top - 1, "duplicate")])
    assert head.endswith("sequences 2147483644–3")
    assert [line.split("|")[1].rstrip() for line in lines] == ["█" * 24, " " * 24 + "█" * 24, "▒" * 24]
    assert summary == "  2 accepted, 1 duplicate, 0 rejected; nothing is missing"


def test_a_timeline_in_colour() -> None:
    text = "".join(timelines([row(0, 3), row(0, 3, "duplicate")], colour=True))
    assert "\x1b[32m█" in text
    assert "\x1b[33m▒" in text
