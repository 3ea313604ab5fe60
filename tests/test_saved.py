"""Saved traces and captures of any size: how they are indexed and searched, and the page that `trace show` serves for them."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from controlkit import ControlClient
from test_filters import FOUND, ROWS
from wirebroker import MockKafka
from wirebroker.commands.cli import main
from wirebroker.trace.filters import needles, parsed
from wirebroker.trace.rows import ReplyRow, Row
from wirebroker_tools.capture.spool import exchange_in, spool
from wirebroker_tools.traces.folds import Fold, folded
from wirebroker_tools.traces.saved import BLOCK, Parts, SavedRows, Search, window
from wirekit import NOW, RawProducer


def reply(number: int, *errors: str, api: str = "Fetch", connection: int = 1) -> ReplyRow:
    """Returns the trace row of a response."""
    return ReplyRow(NOW + number, 1, connection, "reader", "", api, 12, number, 57, number % 7, errors, ("orders-0",))


def written(path: Path, lines: list[str]) -> SavedRows:
    """Writes `lines` into a file. There is no line end after the last line. Returns the indexed file."""
    path.write_text("\n".join(lines), encoding="utf-8")
    saved = SavedRows(path)
    for _ in saved.index():
        pass
    return saved


def numbers(saved: SavedRows, chosen: SavedRows | Search, after: int = 0, most: int = 10_000) -> list[int]:
    found, reached = [], after
    while True:
        rows, now = window(saved, chosen, reached, most, lambda: True)
        found += [number for number, _ in rows]
        if now == reached:
            return found
        reached = now


def test_every_row_of_an_indexed_file_is_found_by_its_number(tmp_path: Path) -> None:
    lines = [reply(number).as_json() for number in range(3 * BLOCK + 10)]
    lines[BLOCK] = "not a row"
    lines[BLOCK + 1] = '{"event": "reply", "time": 5}'
    saved = written(tmp_path / "a.jsonl", lines)
    assert (saved.rows, saved.blocks, saved.done) == (len(lines), 4, True)
    assert numbers(saved, saved) == [each for each in range(1, len(lines) + 1) if each not in (BLOCK + 1, BLOCK + 2)]
    assert numbers(saved, saved, after=3 * BLOCK + 7) == [3 * BLOCK + 8, 3 * BLOCK + 9, 3 * BLOCK + 10]
    assert saved.line(len(lines)) == lines[-1].encode()
    assert saved.line(0) is saved.line(len(lines) + 1) is None
    assert saved.number_at(NOW + 2 * BLOCK + 5) == 2 * BLOCK
    assert window(saved, saved, 5, 3, lambda: False)[1] == 8


def test_a_line_with_any_number_of_problems_is_indexed(tmp_path: Path) -> None:
    whole, path = reply(1, "UNKNOWN_MEMBER_ID").as_json(), tmp_path / "a.jsonl"
    path.write_text(f"{whole}\n{whole * 40_000}\n")
    saved = SavedRows(path)
    for _ in saved.index(growing=True):
        pass
    with path.open("a") as file:
        file.write(f"{whole * 40_000}\n{whole}\n")
    for _ in saved.index():
        pass
    assert (saved.done, saved.rows, list(saved.troubles)) == (True, 4, [2**16 - 1])
    assert numbers(saved, saved) == [1, 4]


def test_a_file_that_grows_is_indexed_as_one_that_is_whole(tmp_path: Path) -> None:
    whole = "".join(
        reply(number, *(("UNKNOWN_MEMBER_ID",) if number % 100 == 7 else ())).as_json() + "\n" for number in range(1000)
    )
    path = tmp_path / "b.jsonl"
    path.write_text("")
    saved = SavedRows(path)
    for start, end in pairwise([*range(0, len(whole), 7777), len(whole)]):
        with path.open("a") as file:
            file.write(whole[start:end])
        for _ in saved.index(growing=True):
            pass
    for _ in saved.index():
        pass
    once = written(tmp_path / "c.jsonl", whole.splitlines())
    assert (list(saved.starts), list(saved.times), list(saved.troubles)) == (
        list(once.starts),
        list(once.times),
        list(once.troubles),
    )
    assert sum(saved.troubles) == 10
    assert numbers(saved, saved) == list(range(1, 1001))


@pytest.mark.parametrize(("text", "names"), FOUND)
def test_a_search_of_a_file_finds_what_the_filter_finds(text: str, names: str, tmp_path: Path) -> None:
    saved = written(tmp_path / "a.jsonl", [row.as_json() for row in ROWS.values()] * 30)
    search, wanted = Search(saved, parsed(text)), parsed(text)
    expected = [number for number, row in enumerate([*ROWS.values()] * 30, 1) if wanted.has(row)]
    assert len(expected) == 30 * len(names.split())
    assert numbers(saved, search) == expected, "rows are found even before the search has reached them"
    while search.go():
        pass
    assert (search.found, search.done) == (len(expected), True)
    assert numbers(saved, search) == expected


def test_a_search_reads_only_lines_that_can_meet_its_filter() -> None:
    assert needles(parsed("topic=Orders client~bill")) in ((b"orders",), (b"bill",))
    assert needles(parsed("group=a or group=b")) == (b"a", b"b")
    for text in (
        "",
        "topic!=orders",
        "api=Produce",
        "error=NONE",
        "latency>5",
        "group=a or latency>5",
        'topic="ä"',
        'topic="a/b"',
    ):
        assert needles(parsed(text)) is None, text


def test_a_capture_as_rows_has_the_places_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with MockKafka(topics={"orders": 1}, capture=path) as kafka:
        producer = RawProducer(kafka)
        for first in (0, 1, 1, 9):
            producer.send(first, first)
    into = io.BytesIO()
    complaints = [each for each in spool(io.BytesIO(path.read_bytes()), into.write) if each]
    assert complaints == []
    parts = Parts(path)
    lines = into.getvalue().splitlines()
    exchanges = [exchange_in(line, parts.read) for line in lines if json.loads(line)["event"] == "reply"]
    produced = [each for each in exchanges if each is not None and each.about.api_key == 0]
    assert len(produced) == 4
    for each in produced:
        assert each.request[:4] == b"\0\0\0\x09"
        assert int.from_bytes(each.response[:4], "big") == len(each.response) - 4
        assert each.request[4:8] == each.response[4:8], "their correlation id"


# Rows that repeat


def test_requests_that_repeat_without_an_error_are_one_line() -> None:
    polls: list[Row] = [
        row for number in range(100) for row in (reply(2 * number), reply(2 * number + 1, api="Heartbeat", connection=2))
    ]
    found = list(folded([*polls, reply(500, "NOT_LEADER_OR_FOLLOWER"), *polls[:6]]))
    fold = found[2]
    assert isinstance(fold, Fold)
    assert fold.words() == ("99 × Fetch, 99 × Heartbeat", "0 errors, at most 6 ms")
    assert [each for each in found if not isinstance(each, Fold)] == [
        *polls[:2],
        reply(500, "NOT_LEADER_OR_FOLLOWER"),
        *polls[:6],
    ]
    assert list(folded([])) == []


def test_the_console_folds_for_people_and_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text("".join(reply(number).as_json() + "\n" for number in range(1273)))
    assert main(["trace", "show", str(tmp_path / "a.jsonl")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1273
    assert main(["trace", "show", str(tmp_path / "a.jsonl"), "--fold"]) == 0
    first, fold = capsys.readouterr().out.splitlines()
    assert "Fetch v12" in first
    assert "… 1,272 × Fetch, 0 errors, at most 6 ms, until " in fold


# The page


def test_the_command_serves_the_page_of_a_file_until_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(reply(number).as_json() + "\n" for number in range(10)))
    command = [sys.executable, "-m", "wirebroker.commands.cli", "trace", "show", str(path), "--page"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            name, on, address = process.stdout.readline().split()
            assert (name, on) == ("a.jsonl", "on")
            control = ControlClient(address.removesuffix("/live/"))
            assert control.ask("GET", "/health")["file"] == "a.jsonl"
            assert control.raw("GET", "/live/").status == 200
            assert control.raw("GET", "/exchanges/3").status == 404
            assert control.raw("GET", "/faults").status == 404
            assert control.raw("GET", "/events?where=apj=1").status == 422
            assert control.raw("GET", "/live/", headers={"Host": "evil.example"}).status == 403
            assert control.raw("POST", "/open?name=x", headers={"Origin": "http://evil.example"}).status == 403
            assert control.raw("POST", "/open?name=x", body=path.read_bytes()).json == {"page": "/saved/1/live/"}
            assert control.raw("GET", "/saved/1/health").json["file"] == "x"
            assert control.raw("POST", "/saved/1/open?name=x", body=path.read_bytes()).status == 404, (
                "files would nest for ever"
            )
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        ("", [], "a.jsonl is empty: nothing was traced"),
        ("x", ["--control", "nowhere"], "--control: 'nowhere' is not host:port"),
    ],
)
def test_a_page_that_cannot_be_shown_is_refused(
    content: str, arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    assert main(["trace", "show", str(tmp_path / "a.jsonl"), "--page", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert main(["trace", "show", "-", "--page"]) == 2
