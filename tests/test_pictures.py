"""Pictures of a trace: how rows are drawn, hostile names, and the time that very many rows take."""

from __future__ import annotations

import gc
import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from msgspec.structs import fields, replace

from dialogue import Dialogue, accepted, seq
from inprocess import InProcess
from wirebroker import MockKafka, faults
from wirebroker.__main__ import main
from wirebroker.requests.facts import Batch
from wirebroker.trace.layout import time_of_day
from wirebroker.trace.recorder import Recorder
from wirebroker.trace.rows import (
    EVENTS,
    AuthenticationRow,
    FaultRow,
    FetchRow,
    GroupRow,
    ProduceRow,
    ReplyRow,
    RequestRow,
    RetentionRow,
    Row,
    TransactionRow,
)
from wirebroker_tools.pictures import PICTURES
from wirebroker_tools.pictures.drawing import ALL, Wish, draw
from wirebroker_tools.pictures.kept import MOST, KeptRows
from wirebroker_tools.pictures.marks import STYLE, TAGS, Mark, Picture, svg
from wirebroker_tools.pictures.stored import Found, Stored, stored
from wirebroker_tools.traces.timeline import timelines

HOSTILE = "<img src=x onerror=alert(1)>\"'&\x1b[31m\u202e]]>\udc80"
START = 1_700_000_000_000


def asked(
    time: int, number: int, api: str = "Produce", client: str | None = "shop", about: Sequence[str] = ("orders-0",)
) -> Row:
    return RequestRow(START + time, 1, 1, client, "", api, 9, number, 100, tuple(about))


def answered(
    time: int, number: int, api: str = "Produce", client: str | None = "shop", errors: Sequence[str] = (), latency: int = 0
) -> Row:
    return ReplyRow(START + time, 1, 1, client, "", api, 9, number, 50, latency, tuple(errors), ("orders-0",))


def judged(
    time: int, number: int, first: int, verdict: str = "accepted", offset: int = 0, error: str = "NONE", explain: str = ""
) -> Row:
    return ProduceRow(
        START + time, 1, 1, "shop", "", 9, number, -1, "orders", 0, 7, 0, first, first + 4, 5, 300, "none", False,
        verdict, "next", 0 if error == "NONE" else 45, error, offset, "", explain,
    )  # fmt: skip


def produced(time: int, number: int, first: int, verdict: str = "accepted", offset: int = 0) -> list[Row]:
    return [asked(time, number), judged(time, number, first, verdict, offset), answered(time + 1, number)]


def idle(time: int, number: int) -> list[Row]:
    fetched = FetchRow(START + time, 1, 1, "reader", "", 12, number, "orders", 0, 5, 0, 5, 5, 0, False, 0, "NONE")
    return [asked(time - 500, number, "Fetch", "reader"), fetched, answered(time, number, "Fetch", "reader")]


def drawn(rows: Sequence[Row], kind: str = "sequence", **wish: int | str) -> Picture:
    return draw(kind, list(enumerate(rows, 1)), Wish(**wish))


def marks_in(marks: Sequence[Mark]) -> Iterator[Mark]:
    for mark in marks:
        yield mark
        yield from marks_in(mark.marks)


def words_in(picture: Picture) -> list[str]:
    """Returns the visible texts of a picture, from top to bottom."""
    texts = [mark for mark in marks_in(picture.marks) if mark.tag == "text"]
    return [mark.text for mark in sorted(texts, key=lambda mark: float(mark.attributes["y"]))]


def test_a_request_and_its_response_are_arrows_that_say_what_they_did() -> None:
    words = words_in(drawn(produced(0, 1, first=5, offset=12)))
    assert words[:2] == ["shop", "broker 1"]
    assert [words[3], words[5]] == ["Produce orders-0 seq 5–9", "offset 12–16"]


def test_a_refusal_and_a_duplicate_have_their_colours_and_reasons() -> None:
    why = "rejected 45 OUT_OF_ORDER_SEQUENCE_NUMBER: expected sequence 10 for producer 7, got 20; batches"
    refused = [asked(2, 2), judged(2, 2, 20, "rejected", -1, "OUT_OF_ORDER_SEQUENCE_NUMBER", why), answered(2, 2)]
    picture = drawn([*produced(0, 1, 5, "duplicate", 12), *refused])
    said = {mark.text: mark.attributes["class"] for mark in marks_in(picture.marks) if mark.tag == "text"}
    assert said["duplicate of offset 12"] == "say end duplicate"
    assert said["OUT_OF_ORDER_SEQUENCE_NUMBER: expected sequence 10, got 20"] == "say end rejected"


@pytest.mark.parametrize(
    ("kind", "rows", "sentence"),
    [
        ("lose_ack", [asked(0, 1), judged(0, 1, 0)], "⚡ lose_ack: accepted at offset 0; the response is lost"),
        ("lose_request", [asked(0, 1)], "Produce orders-0  ⚡ lose_request: the request is lost"),
        ("error", [asked(0, 1), answered(0, 1, errors=["REQUEST_TIMED_OUT"])], "REQUEST_TIMED_OUT  ⚡ error"),
    ],
)
def test_a_fault_is_drawn_where_it_struck(kind: str, rows: list[Row], sentence: str) -> None:
    struck = FaultRow(START, 1, 1, "shop", "Produce", 9, 1, kind, f"{kind}()", (), 1)
    at = 2 if kind != "error" else 1
    picture = drawn([*rows[:at], struck, *rows[at:]])
    assert sentence in words_in(picture)
    crosses = [mark for mark in marks_in(picture.marks) if mark.attributes.get("class") == "stroke thick fault"]
    assert len(crosses) == (0 if kind == "error" else 2)


def test_idle_polls_share_an_arrow_and_errors_do_not() -> None:
    rows = [row for at in range(40) for row in idle(1000 + at * 500, at)]
    rows += [asked(30_000, 99, "Fetch", "reader"), answered(30_000, 99, "Fetch", "reader", ["NOT_LEADER_OR_FOLLOWER"])]
    words = words_in(drawn(rows))
    assert [text for text in words if "Fetch" in text] == ["40 × Fetch orders-0 · 20.0 s", "Fetch orders-0"]
    assert words[words.index("Fetch orders-0") + 1] == "NOT_LEADER_OR_FOLLOWER"
    assert "⋮ 9.5 s" in words or "⋮ 10.0 s" in words, "the pause is shown"


def test_what_went_wrong_is_drawn_even_if_everything_else_is_folded() -> None:
    rows = [row for at in range(3000) for row in produced(at, at, at * 5, offset=at * 5)]
    rows[4500:4503] = [asked(1500, 1500), answered(1501, 1500, errors=["NOT_ENOUGH_REPLICAS"])]
    picture = drawn(rows, lines=40)
    words = words_in(picture)
    assert words.count("NOT_ENOUGH_REPLICAS") == 1
    folds = [mark for mark in marks_in(picture.marks) if "data-first" in mark.attributes]
    assert 4 <= len(folds) <= 40
    covered = [(int(mark.attributes["data-first"]), int(mark.attributes["data-last"])) for mark in folds]
    assert covered[0][0] == 1, "a fold has the numbers of its first and last rows"
    assert covered[-1][1] == len(rows)


def test_a_failure_that_repeats_is_folded_with_as_many_errors_as_requests() -> None:
    rows: list[Row] = []
    for at in range(20):
        rows += [asked(10 * at, at), judged(10 * at, at, 0, "rejected", -1, "NOT_ENOUGH_REPLICAS"), answered(10 * at + 1, at)]
    words = words_in(drawn(rows, lines=400))
    assert words.count("Produce orders-0 seq 0–4") == words.count("NOT_ENOUGH_REPLICAS") == 3
    assert {"17 × Produce orders-0", "17 × NOT_ENOUGH_REPLICAS"} <= set(words)


def test_a_client_whose_handshake_fails_has_a_lane() -> None:
    why = "the client does not trust the authority of the broker's certificate"
    rows = [
        AuthenticationRow(START + at, 1, 0, "10.0.0.9", "SSL", "SSL", "failed", "User:ANONYMOUS", False, -1, why)
        for at in range(20)
    ]
    picture = drawn([*produced(0, 1, 0), *rows], width=1300)
    words = words_in(picture)
    assert words.count(f"SSL failed: {why}") == 3
    assert f"17 × SSL failed: {why}" in words
    assert "10.0.0.9" in words


def test_a_narrow_sequence_has_the_hour_once() -> None:
    clocks = [[text for text in words_in(drawn(produced(0, 1, 0), width=width)) if ":" in text[:3]] for width in (400, 1000)]
    first, second = time_of_day(START), time_of_day(START + 1)
    assert clocks == [[first[:5]], [first, second]]


def test_a_transactional_id_chooses_a_window() -> None:
    rows = [transaction(0, "Ongoing"), judged(0, 1, 0, offset=0)]
    assert drawn(rows, "windows", of="pay").choice == "pay"
    assert drawn(rows, "windows", of="other").choice == "producer 7 on orders-0"


def test_a_window_has_its_rows_only() -> None:
    rows = [row for at in range(10) for row in produced(at, at, at * 5, offset=at * 5)]
    picture = drawn(rows, first=4, last=6)
    assert (picture.first, picture.last) == (4, 6)
    assert "Produce orders-0 seq 5–9" in words_in(picture)
    assert "Produce orders-0 seq 10–14" not in words_in(picture)


def transaction(time: int, state: str) -> Row:
    return TransactionRow("pay", 7, 0, state, ("orders-0",) if state == "Ongoing" else (), time=START + time)


def test_the_log_shows_batches_transactions_and_positions() -> None:
    rows: list[Row] = []
    for at, end in ((0, "CompleteCommit"), (6, "CompleteAbort")):
        batch = judged(at * 100, at, at, offset=at)
        rows += [transaction(at * 100, "Ongoing"), replace(batch, transactional=True), transaction(at * 100 + 50, end)]
    rows += [
        judged(900, 20, 0, "duplicate", 0),
        FetchRow(START + 950, 1, 2, "reader", "", 12, 1, "orders", 0, 6, 10, 12, 12, 3, True, 0, "NONE"),
        RetentionRow("orders", 0, 3, 6, time=START + 990),
    ]
    picture = drawn(rows, "log")
    words = words_in(picture)
    assert {"pay: committed", "pay: aborted", "committed", "aborted", "duplicate of 0"} <= set(words)
    assert {"high watermark → 12", "reader reads → 6", "log start → 6", "shop, producer 7"} <= set(words)
    classes = [str(mark.attributes.get("class", "")) for mark in marks_in(picture.marks)]
    assert {each for each in classes if each.startswith("tint boxed")} == {"tint boxed good", "tint boxed bad"}
    stored = [mark for mark in marks_in(picture.marks) if str(mark.attributes.get("class", "")).startswith("half")]
    assert [mark.attributes["x"] for mark in stored] == sorted(mark.attributes["x"] for mark in stored)
    assert len(stored) == 2
    assert picture.choices == ["orders-0"]


def test_a_log_with_very_large_offsets_has_a_scale() -> None:
    words = words_in(drawn([judged(0, 1, 0, offset=0), judged(1, 2, 5, offset=2**63 - 10)], "log", width=400))
    assert {"offset", "0"} <= set(words)


def test_a_transaction_that_its_coordinator_aborted_is_not_drawn_as_committed() -> None:
    """A proxy does not see markers. It learns about the abort from a refused batch or an InitProducerId, and about the marker
    from a missing offset.
    """
    first = replace(judged(0, 1, 0, offset=0), transactional=True)
    late = replace(judged(900, 2, 5, "rejected", -1, "INVALID_PRODUCER_EPOCH"), transactional=True)
    after = replace(first, time=START + 1000, producer_epoch=2, base_offset=6)
    last = replace(after, time=START + 1300, base_offset=13)
    begun, committed = transaction(0, "Ongoing"), [transaction(time, "CompleteCommit") for time in (1100, 1400)]
    for ends in ([late], [transaction(950, "Empty")], [late, transaction(950, "Empty")], []):
        picture = drawn([begun, first, *ends, after, committed[0], last, committed[1]], "log")
        said = [text for text in words_in(picture) if text.startswith("pay: ")]
        assert said == ["pay: aborted", "pay: committed", "pay: committed"], ends
        titles = [mark.text for mark in marks_in(picture.marks) if mark.tag == "title"]
        assert "offset 5: aborted" in titles
        assert "offset 11: committed" in titles
        assert "offset 12: aborted" not in titles, "the trace does not say what is at offset 12"


def test_a_reader_that_comes_back_to_the_same_records() -> None:
    fetched = FetchRow(START, 1, 2, "reader", "", 12, 1, "orders", 0, 3, 500, 12, 12, 0, False, 0, "NONE")
    rows: list[Row] = [judged(0, 1, 0, offset=0)]
    rows += [replace(fetched, time=START + at * 100) for at in range(3)]
    rows += [replace(fetched, time=START + 400 + at * 100, offset=12, bytes=0) for at in range(3)]
    words = words_in(drawn(rows, "log"))
    assert "reader reads → 12, back 2 times (red)" in words
    assert "The log of orders-0" in words
    left = member(900, "reader", "SyncGroup", "orders-1")
    assert "reader reads → 12, back 2 times (red), then left it" in words_in(drawn([*rows, left], "log", width=1400))


def test_a_later_window_of_the_log_has_the_state_before_it() -> None:
    rows = [replace(judged(0, 1, 0, offset=0), transactional=True), judged(100, 2, 0, "duplicate", 0)]
    picture = drawn(rows, "log", first=2)
    assert "producer 7: open" in words_in(picture)
    assert not [mark for mark in marks_in(picture.marks) if str(mark.attributes.get("class", "")).startswith("half")]


def test_a_window_fills_and_forgets() -> None:
    rows = [judged(at, at, at * 5, offset=at * 5) for at in range(7)]
    late = judged(9, 9, 0, "rejected", -1, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    words = words_in(drawn([*rows, judged(8, 8, 30, "duplicate", 30), late], "windows"))
    assert "seq 30–34 again: duplicate of offset 30" in words
    assert "seq 0–4 refused: OUT_OF_ORDER_SEQUENCE_NUMBER" in words
    last = words[words.index("seq 0–4 refused: OUT_OF_ORDER_SEQUENCE_NUMBER") :]
    assert [text for text in last if text[0].isdigit() and ":" not in text] == ["10–14", "15–19", "20–24", "25–29", "30–34"]
    assert words.count("0–4") == 6, "the batch is drawn in the window five times, and once when it is forgotten"
    folded = words_in(drawn([judged(at, at, at * 5, offset=at * 5) for at in range(100)], "windows"))
    assert "⋮ 96 more, in order" in folded


@pytest.mark.parametrize(("profile", "remembered"), [("single", 1), ("textbook", 5)])
def test_a_window_has_as_many_batches_as_the_brokers_profile_remembers(profile: str, remembered: int) -> None:
    kafka = InProcess(profile=profile, topics={"orders": 1})
    dialogue = Dialogue(kafka)
    for first in range(0, 30, 5):
        dialogue >> seq(first, first + 4) << accepted(at=first)
    words = words_in(drawn(kafka.engine.trace.events(), "windows"))
    spans = [text for text in words if text[0].isdigit() and ":" not in text]
    assert spans[-remembered:] == [f"{first}–{first + 4}" for first in range(30 - 5 * remembered, 30, 5)]
    assert words.count("0–4") == remembered + 1, "once for each arrival that it outlived, and once when it is forgotten"


def member(time: int, name: str, api: str, assigned: str | None = None, errors: Sequence[str] = ()) -> Row:
    details: dict[str, str | int] = {"member_id": f"{name}-id"} | ({"assigned": assigned} if assigned is not None else {})
    reply = answered(time, time, api, name, errors)
    return replace(reply, about=("group team",), details=details)


def test_a_group_has_lanes_of_partitions_and_members() -> None:
    rows = [
        GroupRow("team", "PreparingRebalance", 0, 1, time=START), member(0, "one", "JoinGroup"),
        GroupRow("team", "Stable", 1, 1, time=START + 10),
        member(10, "one", "SyncGroup", "orders-0, orders-1"), *(member(at, "one", "Heartbeat") for at in range(300, 1500, 300)),
        GroupRow("team", "PreparingRebalance", 1, 2, time=START + 2000), GroupRow("team", "Stable", 2, 2, time=START + 2500),
        member(2500, "one", "SyncGroup", "orders-0"), member(2500, "two", "SyncGroup", "orders-1"),
        member(6000, "one", "Heartbeat", errors=["UNKNOWN_MEMBER_ID"]), member(6100, "two", "LeaveGroup"),
    ]  # fmt: skip
    picture = drawn(rows, "groups")
    titles = [mark.text.partition(" from ")[0] for mark in marks_in(picture.marks) if " has orders-" in mark.text]
    assert sorted(titles) == ["one has orders-0", "one has orders-1", "two has orders-1"]
    words = words_in(picture)
    assert {f"group team on {date.fromtimestamp(START // 1000)}", "gen 1", "gen 2", "orders-0", "orders-1"} <= set(words)
    assert "no heartbeat for 4.9 s" in words
    bands = [mark for mark in marks_in(picture.marks) if mark.attributes.get("class") == "tint warn"]
    assert len(bands) == 2
    assert bands[1].attributes["x"] > bands[0].attributes["x"]


def test_names_that_begin_alike_are_told_apart_where_there_is_little_room() -> None:
    members = [f"settlement-service-consumer-{at}" for at in range(3)]
    topic = "settlement.orders.of.the.european.branch.v1"
    rows: list[Row] = [GroupRow("team", "Stable", 1, 3, time=START)]
    rows += [member(at, name, "SyncGroup", f"{topic}-{at}") for at, name in enumerate(members)]
    rows += [member(3000 + at, name, "Heartbeat") for at, name in enumerate(members)]
    for width in (420, 1000):
        cut = {words for words in words_in(drawn(rows, "groups", width=width)) if words.startswith("set") and "…" in words}
        assert {words[-2:] for words in cut} >= {"-0", "-1", "-2"}, width


def test_a_client_that_joins_again_keeps_its_lane() -> None:
    rows: list[Row] = [GroupRow("team", "Stable", 1, 1, time=START)]
    for at in range(4):
        first = replace(member(at * 1000, "one", "JoinGroup"), details={"member_id": f"id-{at}"})
        rows += [first, replace(first, time=first.time + 500, api="LeaveGroup")]
    words = words_in(drawn(rows, "groups"))
    assert words.count("one") == 1
    assert not [text for text in words if text.startswith("one …")]
    both = replace(first, details={"member_id": "other"})
    assert len([text for text in words_in(drawn([*rows[:-1], both], "groups")) if text.startswith("one …")]) == 2
    clocks = [text for text in words if text[2:3] == ":"]
    assert len(clocks) >= 3
    assert all(text.count(":") == 2 for text in clocks)


def test_a_group_without_a_coordinator_says_so() -> None:
    rows = [GroupRow("team", "Stable", 1, 1, time=START), member(0, "one", "SyncGroup", "orders-0")]
    asks = [replace(member(at * 1000, "one", "FindCoordinator"), details={}) for at in range(2, 9)]
    assert "no coordinator responds" in words_in(drawn([*rows, *asks], "groups"))
    assert "no coordinator responds" not in words_in(
        drawn([*rows, asks[0], member(3000, "one", "Heartbeat"), asks[-1]], "groups")
    )
    back = member(9000, "one", "Heartbeat")
    (box,) = [mark for mark in marks_in(drawn([*rows, *asks, back, member(20_000, "one", "Heartbeat")], "groups").marks)
              if mark.tag == "rect" and mark.marks and "no coordinator" in mark.marks[0].text]  # fmt: skip
    assert float(box.attributes["x"]) + float(box.attributes["width"]) < 700, "the box ends when the coordinator responds"


def hostile(row: type[Row], time: int) -> Row:
    """Returns a row of the type `row`. Every text in this row is hostile."""
    hints = get_type_hints(row)
    values = {str: HOSTILE, str | None: HOSTILE, int: 7, float: 7.0, bool: True, bool | None: True, tuple[str, ...]: (HOSTILE,)}
    of_fields = {each.name: hints[each.name] for each in fields(row) if each.required}
    made = {
        name: get_args(hint)[0] if get_origin(hint) is Literal else values.get(hint, ()) for name, hint in of_fields.items()
    }
    return row(**made | {"time": time})


@pytest.mark.parametrize("kind", ALL)
def test_names_never_become_markup(kind: str) -> None:
    rows = [asked(0, 1, client=HOSTILE, about=[HOSTILE]), answered(1, 1, client=HOSTILE, errors=[HOSTILE]), *produced(5, 2, 0)]
    rows += [hostile(row, START + 10 + 10 * at) for at, row in enumerate(EVENTS.values())]
    for width in (320, 1000):
        text = svg(drawn(rows, kind, width=width))
        made = ET.fromstring(text)
        tags = {element.tag.partition("}")[2] for element in made.iter()}
        assert tags <= TAGS | {"svg", "style", "title"}
        assert all(not name.startswith("on") and name != "href" for element in made.iter() for name in element.attrib)
        assert "\x1b" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize("kind", ALL)
def test_a_hundred_thousand_exchanges_take_less_than_a_second(kind: str) -> None:
    rows: list[Row] = []
    for at in range(100_000):
        rows += [
            judged(at, at, at * 5, offset=at * 5),
            answered(at, at, errors=["REQUEST_TIMED_OUT"] if at % 10_000 == 0 else []),
        ]
    gc.disable()  # a process that has run many tests has so many objects that collecting garbage takes seconds
    try:
        began = time.process_time()
        text = svg(drawn(rows, kind))
        took = time.process_time() - began
    finally:
        gc.enable()
    assert len(text) < 1_000_000
    assert took < 3.0, "0.3 to 0.6 s on a quiet machine"


@pytest.mark.parametrize("kind", ALL)
def test_without_rows_there_is_a_sentence(kind: str) -> None:
    assert words_in(drawn([], kind))


def test_rows_are_kept_and_forgotten() -> None:
    recorder = Recorder(lambda: START, size=100)
    kept = KeptRows(most=1000)
    for _ in range(12):
        for number in range(100):
            recorder._add(asked(number, number))
        list(kept.catch_up(recorder, "1"))
    assert kept.rows[-1][0] == 1200
    assert 900 <= len(kept.rows) <= 1000
    for number in range(150):
        recorder._add(asked(number, number))
    list(kept.catch_up(recorder, "1"))
    assert [number for number, _ in kept.rows[-101:]] == [1200, *range(1251, 1351)], (
        "the recorder had dropped 50 rows before they were read"
    )
    list(kept.catch_up(recorder, "2"))
    assert kept.rows[0][0] == 1251, "another run begins"
    assert MOST == 200_000


def test_the_command_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "trace.jsonl", tmp_path / "sequence.svg"
    file.write_text("".join(f"{row.as_json()}\n" for row in produced(0, 1, 5, offset=12)))
    assert main(["trace", "show", str(file), "--picture", "sequence", "--out", str(out)]) == 0
    assert "Produce orders-0 seq 5–9" in out.read_text(encoding="utf-8")
    assert main(["trace", "show", str(file), "--picture", "sequence"]) == 0
    assert capsys.readouterr().out.startswith("<svg ")
    assert main(["trace", "show", str(file), "--picture", "sequence", "--verdict", "rejected"]) == 2
    assert "none of the 3 rows" in capsys.readouterr().err
    assert main(["trace", "show", str(file), "--picture", "sequence", "--follow"]) == 2


def test_python_and_http_draw_what_a_broker_did() -> None:
    from controlkit import ControlClient

    with MockKafka(topics={"orders": 1}, control=True, trace="all") as kafka:
        kafka.faults.add(faults.delay(api="Metadata", ms=1))
        kafka.produce("orders", value=b"tea")
        text = kafka.trace.picture("sequence")
        control = ControlClient(kafka.control_url)
        response = control.raw("GET", "/pictures/sequence?width=640")
        assert response.headers["content-type"].startswith("image/svg+xml")
        assert ET.fromstring(response.body).attrib["width"] == "640"
        assert ET.fromstring(text).attrib["width"] == "1000"
        marks = json.loads(control.raw("GET", "/pictures/sequence/marks?latest=1").body)
        assert marks["first"] == marks["last"] > 0
        refused = control.raw("GET", "/pictures/sequenze")
        assert refused.status == 404
        assert "did you mean 'sequence'" in refused.body
        with pytest.raises(ValueError, match="did you mean 'sequence'"):
            kafka.trace.picture("sequenze")


def test_the_style_is_complete() -> None:
    assert set(PICTURES) | {"overview"} == set(ALL)
    assert STYLE.count("{") == STYLE.count("}")


def test_a_window_has_batches_that_a_fault_stopped_as_the_timeline_has() -> None:
    sent = Batch("orders", 0, 7, 0, 5, 9, 5)
    struck = FaultRow(START + 5, 1, 1, "shop", "Produce", 9, 2, "lose_request", "lose_request(nth=2)", (), 1, sent)
    rows = [*produced(0, 1, 0, offset=0), asked(4, 2), struck, *produced(9, 3, 5, offset=5)]
    words = [text for text in words_in(drawn(rows, "windows", width=1400)) if text.startswith("seq")]
    assert words == ["seq 0–4 → offset 0, epoch 0", "seq 5–9 ⚡ lose_request(nth=2)", "seq 5–9 → offset 5"]
    (again,) = [line for line in timelines(rows) if "stopped by lose_request" in line]
    assert again.split()[1] == "5–9"


def test_batches_of_several_partitions_share_a_line_without_sequences() -> None:
    """If a line is about batches of two partitions, it does not show their sequences as one range."""
    rows: list[Row] = []
    for at in range(400):
        place = {"partition": at % 2, "first_sequence": 5 * (at // 2), "last_sequence": 5 * (at // 2) + 4}
        rows += [asked(at, at), replace(judged(at, at, 0, offset=at), **place), answered(at + 1, at)]
    words = words_in(drawn(rows, lines=20))
    assert any(text.endswith(" × Produce") for text in words)
    assert not [text for text in words if "Produce" in text and "seq" in text]


def heads_of(picture: Picture) -> list[Mark]:
    return [mark for mark in marks_in(picture.marks) if "head " in str(mark.attributes.get("class", ""))]


def test_names_of_many_lanes_are_whole() -> None:
    names = [f"settlement-worker-{at}" for at in range(6)]
    rows = [asked(at, at, client=name) for at, name in enumerate(names)]
    for width in (700, 1000, 1400):
        assert all(name in "".join(mark.text for mark in heads_of(drawn(rows, width=width))) for name in names), width


@pytest.mark.parametrize("names", [["kafka-python-producer-1", "till"], ["kafka-python-3.0.12", "rdkafka", "x" * 90]])
def test_a_long_name_turns_no_head_upright(names: list[str]) -> None:
    """A long name is divided into lines. If it is still too long, its middle is left out. Names are vertical only if the lanes
    are narrow.
    """
    rows = [asked(at, at, client=name) for at, name in enumerate(names)]
    for width in (800, 1000, 1400):
        picture = drawn(rows, width=width)
        heads = heads_of(picture)
        assert not [mark for mark in heads if "transform" in mark.attributes], width
        boxes = [mark for mark in marks_in(picture.marks) if str(mark.attributes.get("class", "")).startswith("box ")]
        wide = float(boxes[0].attributes["width"])
        assert all(len(mark.text) * 7.25 <= wide for mark in heads), width
        assert max(float(mark.attributes["height"]) for mark in boxes if mark.attributes["y"] == 4) <= 64
        told = "".join(mark.text for mark in heads)
        assert all(name in told for name in names if len(name) < 30), width
    upright = heads_of(drawn([asked(at, at, client=f"kafka-python-producer-{at}") for at in range(8)], width=420))
    assert all("transform" in mark.attributes for mark in upright)
    assert {mark.text[-1] for mark in upright} >= set("01234567"), "the ends of the names differ"


def test_a_stored_log_shows_what_an_audit_found_at_its_offsets() -> None:
    """A duplicate is drawn as two brackets: at its own offsets, and at the offsets of the first copy. A finding outside the log
    is not drawn.
    """
    batches = [
        Stored(0, 4, "producer 7 epoch 0", 0, 4), Stored(5, 9, "producer 8 epoch 0", 0, 4),
        Stored(10, 14, "producer 7 epoch 0", 0, 4), Stored(15, 15, "producer 7 epoch 0", marker=0),
    ]  # fmt: skip
    found = [Found("duplicate", "certain", 10, 14, HOSTILE), Found("duplicate", "certain", 0, 4, is_other=True)]
    picture = stored("orders-0", batches, [*found, Found("gap", "likely", 900, 900)], 600)
    said = {mark.text: mark for mark in marks_in(picture.marks) if mark.tag == "text"}
    assert {"seq 0–4", "duplicate (dashed: the first copy)"} <= set(said)
    assert "gap" not in said
    pieces = [mark for mark in marks_in(picture.marks) if str(mark.attributes.get("class", "")).startswith(("half", "tint"))]
    brackets = [mark for mark in marks_in(picture.marks) if mark.tag == "path"]
    assert [mark.attributes["class"] for mark in brackets] == ["stroke thick bad", "stroke thick dashed bad"]
    begins = [float(str(mark.attributes["d"])[1:].split()[0]) for mark in brackets]
    assert begins == [pieces[2].attributes["x"], pieces[0].attributes["x"]]
    assert pieces[0].attributes["class"] == pieces[2].attributes["class"] != pieces[1].attributes["class"]
    assert pieces[3].marks[0].text == "offset 15: producer 7 epoch 0 aborted"
    assert "<img" not in svg(picture)
