"""`wirebroker trace show`: which rows of a file the command shows, and its picture of a producer's sequences."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from actors import OLD, Reader, TransactionalProducer
from kafkawire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkawire.messages.end_txn import EndTxnRequest
from requesting import find_coordinator, init_producer_id, plain, produce_request
from wirebroker import faults
from wirebroker.client.wire import WireClient
from wirebroker.commands.cli import main
from wirebroker.mock import MockKafka
from wirebroker.proxy_kafka import ProxyKafka
from wirebroker.trace.layout import line
from wirebroker.trace.rows import FaultRow, ProduceRow, RunRow, ShadowRow, TransactionRow, row_from_json
from wirebroker_tools.commands.trace import moment
from wirebroker_tools.traces.timeline import LINES, timelines
from wirekit import RawProducer, batch

START = 1_800_000_000_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with every kind of row. It has two producers on two partitions, a duplicate, a gap and a fault."""
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
        (["--producer", "1", "--event", "produce"], 1, "orders-1"),
        (["--where", "event=produce producer=1"], 1, "orders-1"),
        (["--producer", "1", "--api", "Produce", "--event", "request"], 1, "orders-1"),
        (["--producer", "1", "--api", "Produce", "--event", "reply"], 1, "orders-1"),
        (["--topic", "orders", "--partition", "1", "--event", "produce"], 1, "orders-1"),
        (["--topic", "other", "--event", "reply"], 1, "other-0"),
        (["--api", "initproducerid", "--event", "reply"], 3, "InitProducerId"),
        (["--api", "Produce", "--event", "fault"], 1, "error"),
        (["--connection", "2"], 6, "#2"),
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


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--topic", "orders"], ["Ongoing", "PrepareCommit", "CompleteCommit", "Ongoing", "PrepareAbort", "CompleteAbort"]),
        (["--topic", "orders", "--partition", "1"], ["Ongoing", "PrepareAbort", "CompleteAbort"]),
        (["--topic", "other"], ["Ongoing", "PrepareAbort", "CompleteAbort"]),
        (["--partition", "1"], ["Ongoing", "PrepareAbort"]),
    ],
    ids=str,
)
def test_a_topic_is_shown_with_the_ends_of_its_transactions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], shown: list[str]
) -> None:
    """A completed transaction no longer has partitions, so its row does not name the topic."""
    rows = [TransactionRow("pay", 7, 0, "Empty", (), time=START)]
    for where, end in (("orders-0", "Commit"), ("other-0", "Abort"), ("orders-1", "Abort")):
        states = {"Ongoing": (where,), f"Prepare{end}": (where,), f"Complete{end}": ()}
        rows += [TransactionRow("pay", 7, 0, state, within, time=rows[-1].time + 1) for state, within in states.items()]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f"{row.as_json()}\n" for row in rows), encoding="utf-8")
    assert [line.split("changed")[1].split()[0] for line in show(capsys, path, *options)] == shown


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
        (["--event", "verdict"], "there is no event 'verdict'; there are produce, shadow, fault"),
        (["--event", "faults"], "there is no event 'faults'; did you mean 'fault'?\n"),
        (["--api", "Prodce"], "there is no API 'Prodce'; did you mean 'Produce'?"),
        (["--topic", "oders"], "no row is about the topic 'oders'; did you mean 'orders'?"),
        (["--client", "nobody"], "no row is about the client 'nobody'; there are wirebroker-conformance"),
        (["--producer", "7"], "no row is about the producer 7; there are 0, 1"),
        (["--connection", "9"], "no row is about the connection 9"),
        (["--group", "readers"], "no row is about a group\n"),
        (["--follow", "--timeline"], "--timeline draws a whole trace, so --follow cannot be given with it"),
    ],
)
def test_what_cannot_be_meant(capsys: pytest.CaptureFixture[str], file: Path, options: list[str], said: str) -> None:
    assert main(["trace", "show", str(file), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_line_that_is_no_row_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"event": "reply"}\n[]\nx\n{"event": ["reply"]}\n{"event": "restart", "time": 1, "mode": "kill"}\n')
    assert main(["trace", "show", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        f"{path}:1: this line is not a row of a trace (Object missing required field `time`)",
        f"{path}:2: this line is not a row of a trace (it is not a JSON object)",
        f"{path}:3: this line is not a row of a trace (Expecting value: line 1 column 1 (char 0))",
        f"{path}:4: this line is not a row of a trace (there is no event ['reply'])",
    ]
    assert "restarted (kill)" in out


@pytest.mark.parametrize("command", [["trace", "show"], ["explain"]])
@pytest.mark.parametrize(("line", "reason"), [
    (b'{"event": "later", "time": 5}', "there is no event 'later'"),
    (b' { "event":"run","time":-5,"change":"started"}', "time"),
])  # fmt: skip
def test_a_trace_without_a_row_of_this_version_is_not_another_kind_of_file(
    command: list[str], line: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(line + b"\n" + line + b"\n")
    assert main([*command, str(path)]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert f"{path}: no line is a row of a trace; the trace of another version may have other rows (line 1: " in sentence
    assert reason in sentence


def test_a_trace_without_rows_to_show_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path, file: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("")
    assert main(["trace", "show", str(path)]) == 0
    assert capsys.readouterr() == ("", f"{path} is empty: nothing was traced\n")
    assert main(["trace", "show", str(file), "--event", "group"]) == 0
    assert capsys.readouterr().err.endswith(f"rows in {file} is chosen by the flags\n")
    path.write_text('{"event": "run", "time": 1, "change": "started"}\n')
    assert main(["trace", "show", str(path), "--timeline"]) == 0
    assert capsys.readouterr() == ("", f"none of the 1 rows in {path} is a batch that the flags choose\n")


def test_a_trace_of_few_events_says_how_to_get_more(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"event": "restart", "time": 1, "mode": "kill"}\n')
    assert main(["trace", "show", str(path), "--group", "readers"]) == 2
    assert "no row is about a group; with serve --trace-level all, the trace has all events" in capsys.readouterr().err


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
    docs = Path(__file__).resolve().parent.parent / "docs" / "reference" / "trace.md"
    assert f"```text\n{PICTURE}```" in docs.read_text(encoding="utf-8")
    assert len(show(capsys, file, "--timeline")) == len(lines) + 8, "the timelines of other producers follow"


def test_a_timeline_of_some_rows_sums_up_all_of_them(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    heading, *lines, summary = show(capsys, file, "--timeline", "--verdict", "duplicate")
    assert heading == "producer 0 epoch 0 on orders-0: sequences 0–41, shown 5–9"
    assert [line[16:] for line in lines] == [f"{'5–9':<15} |{'▒' * 48}|  duplicate  of offset 5"]
    assert summary == "  4 accepted, 1 duplicate, 2 rejected; never stored: 24–41; 1 of 7 batches shown"


def test_a_batch_that_a_fault_stopped_is_drawn_without_a_verdict(mock_kafka: MockKafka) -> None:
    mock_kafka.create_topic("orders")
    mock_kafka.faults.add(faults.delay(1, api="Produce", nth=2))
    mock_kafka.faults.add(faults.error(7, api="Produce", nth=2, name="slow-disk"))
    producer = RawProducer(mock_kafka)
    producer.send(0, 1)
    producer.send(2, 3)
    mock_kafka.faults.clear()
    mock_kafka.faults.add(faults.error(7, api="Produce", nth=[2, 3]))
    for _ in range(3):
        producer.raw(batch(-1, 2, pid=-1, epoch=-1))
    shown = [text.rpartition("|  ")[2] for text in timelines(mock_kafka.trace.events())]
    assert shown == [
        "producer 0 epoch 0 on orders-0: sequences 0–3",
        "accepted   offset 0",
        "fault      stopped by delay(api=Produce, nth=2, ms=1, after=False), "
        "error(api=Produce, nth=2, code=7, after=False, name=slow-disk)",
        "  1 accepted, 0 duplicate, 0 rejected, 1 stopped by a fault; never stored: 2–3",
        "",
        "client 'wirebroker-conformance' without idempotence on orders-0: offsets 2–5",
        "accepted   offset 2",
        "fault      stopped by error(api=Produce, nth=[2, 3], code=7, after=False)",
        "fault      stopped by error(api=Produce, nth=[2, 3], code=7, after=False)",
        "  1 accepted, 0 duplicate, 0 rejected, 2 stopped by a fault; without sequences, so a retry is not recognised",
    ]
    assert "seq 2–3     2 rec  fault" in line(mock_kafka.trace.faults()[0])


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with a transaction and a group (on separate connections), a fault in the transaction, and another producer."""
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    with MockKafka(topics={"orders": 2}, trace="all", clock="frozen") as kafka:
        kafka.faults.add(faults.delay(1, api="EndTxn"))
        host, port = kafka.bootstrap_servers.split(":")
        shop, readers = (WireClient(host, int(port)) for _ in range(2))
        shop.request(find_coordinator("shop", kind=1), 4)
        ids = shop.request(init_producer_id("shop"), 4)
        records = batch(0, pid=ids.producer_id, epoch=0, transactional=True)
        topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
        shop.request(AddPartitionsToTxnRequest([], "shop", ids.producer_id, 0, topics), 3)
        produce = produce_request("orders", records)
        produce.transactional_id = "shop"
        shop.request(produce, 9)
        shop.send(EndTxnRequest("shop", ids.producer_id, 0, True), 3)
        kafka.wait_until(lambda: kafka.trace.faults())
        kafka.clock.advance(milliseconds=2)
        shop.response()
        readers.request(find_coordinator("readers"), 4)
        RawProducer(kafka, "orders", 1).send(0)
        path.write_text("".join(row.as_json() + "\n" for row in kafka.trace.events()), encoding="utf-8")
    return path


def test_a_transaction_has_its_requests_its_batches_and_its_faults(capsys: pytest.CaptureFixture[str], mixed: Path) -> None:
    lines = show(capsys, mixed, "--transaction", "shop")
    text = "\n".join(lines)
    for word in ("InitProducerId", "AddPartitionsToTxn", "accepted", "known from now on", "Ongoing", "delay(", "EndTxn"):
        assert word in text, word
    assert "orders-1" not in text, "the other producer"
    assert main(["trace", "show", str(mixed), "--transaction", "shpo"]) == 2
    assert "the transaction 'shpo'; did you mean 'shop'?" in capsys.readouterr().err


def test_a_group_has_its_requests(capsys: pytest.CaptureFixture[str], mixed: Path) -> None:
    lines = show(capsys, mixed, "--group", "readers")
    assert [("asked" in line, "FindCoordinator" in line) for line in lines] == [(True, True), (False, True)]


def test_a_producer_has_its_requests_and_responses(capsys: pytest.CaptureFixture[str], mixed: Path) -> None:
    whole, mine, other = (show(capsys, mixed, *each) for each in ([], ["--producer", "0"], ["--producer", "1"]))
    text = "\n".join(mine)
    for word in (
        "opened",
        "InitProducerId",
        "AddPartitionsToTxn",
        "Produce v9",
        "accepted",
        "delay(",
        "EndTxn",
        "CompleteCommit",
    ):
        assert word in text, word
    assert not [line for line in mine if "orders-1" in line]
    assert [line for line in other if "orders-1" in line and "Produce" in line]
    assert not set(mine) & set(other)
    assert len(mine) + len(other) < len(whole), "neither view has the rows of topics and of the group"


def test_standard_input(capsys: pytest.CaptureFixture[str], mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = show(capsys, mixed, "--producer", "0")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no row\n" + mixed.read_bytes())))
    assert main(["trace", "show", "-", "--producer", "0"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == expected
    assert printed.err.startswith("standard input:1: this line is not a row")


def test_a_file_is_followed(mixed: Path, tmp_path: Path) -> None:
    path = tmp_path / "growing.jsonl"
    first, second, third = mixed.read_text(encoding="utf-8").splitlines(keepends=True)[:3]
    path.write_text(first + second[:20], encoding="utf-8")
    command = [sys.executable, "-m", "wirebroker.commands.cli", "trace", "show", str(path), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = [process.stdout.readline()]
        with path.open("a", encoding="utf-8") as file:
            file.write(second[20:])
        shown.append(process.stdout.readline())
        path.write_text(third, encoding="utf-8")
        shown.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert shown == [line(row_from_json(json.loads(text))) + "\n" for text in (first, second, third)]


# Timelines


def test_runs_in_one_file_are_kept_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In each run, the numbers of connections, correlation ids and producers start again. So rows of different runs must not be
    mixed.
    """
    path = tmp_path / "trace.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for nth in (9, 2):
            with MockKafka(topics={"orders": 1}, clock="frozen") as kafka:
                kafka.faults.add(faults.error(7, api="Produce", nth=nth))
                producer = RawProducer(kafka)
                producer.send(0, 4)
                producer.send(5, 9)
                rows = [RunRow(kafka.clock.now(), "started"), *kafka.trace.events()]
                file.writelines(each.as_json() + "\n" for each in rows)
    shown = [text.rpartition("|  ")[2].partition(" at ")[0] for text in show(capsys, path, "--timeline")]
    heading = ["the run that began", "", "producer 0 epoch 0 on orders-0: sequences 0–9", "accepted   offset 0"]
    assert shown == [
        *heading,
        "accepted   offset 5",
        "  2 accepted, 0 duplicate, 0 rejected; nothing is missing",
        "",
        *heading,
        "fault      stopped by error(api=Produce, nth=2, code=7, after=False)",
        "  1 accepted, 0 duplicate, 0 rejected, 1 stopped by a fault; never stored: 5–9",
    ]
    assert len(show(capsys, path, "--verdict", "accepted", "--producer", "0")) == 3


def row(first: int, last: int, verdict: Any = "accepted", offset: int = 0, **others: Any) -> ProduceRow:
    values: dict[str, Any] = dict.fromkeys(ProduceRow.__struct_fields__, 0) | {
        "topic": "orders", "first_sequence": first, "last_sequence": last, "verdict": verdict, "base_offset": offset,
        "records": last - first + 1,
    }  # fmt: skip
    return ProduceRow(**values | others)


def test_records_that_are_sent_again_in_the_next_epoch_are_found_there() -> None:
    refused = {"code": 45, "error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    rows = [row(0, 1), row(2, 4, "rejected", -1, **refused), row(0, 2, offset=2, producer_epoch=1)]
    summaries = [text for text in timelines(rows) if "never stored" in text]
    assert summaries == [
        "  1 accepted, 0 duplicate, 1 rejected; never stored: 2–4 in this epoch; they are probably 0–2 of epoch 1"
    ]
    rows[2] = row(0, 0, offset=2, producer_epoch=1)
    assert "never stored: 2–4 in this epoch; epoch 1 goes on with 1 record" in "".join(timelines(rows))
    assert "in this epoch" not in "".join(timelines(rows[:2]))


def test_a_producer_of_a_proxy_has_the_requests_that_name_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with MockKafka(topics={"orders": 1}) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers, trace="all") as proxy:
        till, other = TransactionalProducer(proxy, version=OLD), TransactionalProducer(proxy, "other")
        for each in (till, other):
            each.init()
        till.add()
        till.send("sale")
        till.end()
        path.write_text("".join(each.as_json() + "\n" for each in proxy.trace.events()), encoding="utf-8")
        line = Reader(proxy)
        line.ask(plain("Fetch", **unknown_topic()), 13)
        (fetched,) = proxy.trace.events("fetch")
    shown = show(capsys, path, "--producer", str(till.pid), "--event", "reply")
    apis = ["FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"]
    assert [api for api in apis for text in shown if f" {api} v" in text] == apis
    assert len(shown) == len(apis)
    assert fetched.topic.startswith("id AAAA")


def unknown_topic() -> dict[str, Any]:
    """Returns the fields of a Fetch request. It has a topic id that no topic has."""
    part = {"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1000}
    return {"max_wait_ms": 0, "topics": [{"topic_id": b"\0" * 15 + b"\7", "partitions": [part]}]}


def test_long_runs_are_folded() -> None:
    rows = [row(at, at, offset=at) for at in range(3000)]
    refused = {"code": 45, "error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    rows[1500:1500] = [row(1499, 1499, "duplicate", 1499)] * 7 + [
        row(at, at, "rejected", -1, **refused) for at in range(1600, 1700)
    ]
    _, *lines, summary = timelines(rows)
    assert [line.split("|")[2].strip() for line in lines] == [
        "accepted   1,500 batches, offsets 0–1499",
        "duplicate  7 times, of offset 1499",
        "rejected   100 batches, 45 OUT_OF_ORDER_SEQUENCE_NUMBER, missing 1500–1599",
        "accepted   1,500 batches, offsets 1500–2999",
    ]
    assert "·×" in lines[2]
    assert summary == "  3,000 accepted, 7 duplicate, 100 rejected; nothing is missing"


def test_a_picture_has_a_limit_of_lines_whatever_happens() -> None:
    rows = [each for at in range(3000) for each in (row(at, at, offset=at), row(at, at, "duplicate", at))]
    _, *lines, summary = timelines(rows)
    assert len(lines) == LINES
    assert all("mixed      50 accepted, 50 duplicate" in line for line in lines)
    assert summary == "  3,000 accepted, 3,000 duplicate, 0 rejected; nothing is missing"


def test_a_producer_without_idempotence_lies_at_its_offsets_and_its_doubling_is_marked() -> None:
    billing = {"topic": "payments", "producer_id": -1, "client_id": "billing", "bytes": 80, "records": 1}
    rows = [row(-1, -1, offset=at, **billing, correlation_id=at) for at in range(11)]
    rule = "lose_ack(api=Produce, nth=5, then=disconnect)"
    lost = FaultRow(0, 0, 0, "billing", "Produce", 9, 4, "lose_ack", rule, ("payments-0",), 1)
    elsewhere = FaultRow(0, 0, 0, "billing", "Produce", 9, 7, "lose_ack", rule, ("orders-0",), 1)
    picture = [text[:2] + text[16:] if text[4:5] == ":" else text for text in timelines([*rows, lost, elsewhere])]
    docs = Path(__file__).resolve().parent.parent / "docs" / "reference" / "trace.md"
    assert "```text\n" + "\n".join(picture) + "\n```" in docs.read_text(encoding="utf-8")


def test_a_doubling_under_a_new_epoch_is_marked_with_the_retry_that_was_rejected(mock_kafka: MockKafka) -> None:
    mock_kafka.create_topic("orders")
    producer = RawProducer(mock_kafka)
    for first in (0, 2, 4, 6, 8, 10, 0, 2):
        producer.send(first, first + 1)
    producer.send(0, 1, epoch=1)
    rows = mock_kafka.trace.produce("orders")
    marked = [text.partition("accepted   ")[2] for text in timelines(rows) if "◄" in text]
    assert marked == [
        "offset 0  ◄ probably stored again at offset 12",
        "offset 12  ◄ probably the batch at offset 0 again: its retry was rejected, 45 OUT_OF_ORDER_SEQUENCE_NUMBER",
    ]


def test_the_rows_of_a_proxy_are_drawn_and_a_surprise_is_marked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    texts = {"client_id": "till", "software": "", "compression": "none", "transactional": False, "rule": "", "error": ""}
    texts |= {"principal": "User:ANONYMOUS", "client_host": ""}
    for first, predicted in ((0, "accepted"), (1, "duplicate")):
        plain = row(first, first, **texts, note="", explain="")
        shadow = ShadowRow(**asdict(plain), predicted=predicted, agrees=predicted == "accepted")  # fmt: skip
        with path.open("a", encoding="utf-8") as file:
            file.write(shadow.as_json() + "\n")
    assert len(show(capsys, path, "--api", "Produce")) == 2
    _, *lines, _ = show(capsys, path, "--timeline")
    assert [text.rpartition("|  ")[2] for text in lines] == [
        "accepted   offset 0", "accepted   offset 0  ◄ the sequences predict duplicate"
    ]  # fmt: skip


def test_a_duplicate_of_an_earlier_run_is_not_missing() -> None:
    *_, summary = timelines([row(0, 4, "duplicate", offset=0), row(5, 9, offset=5)])
    assert summary == "  1 accepted, 1 duplicate, 0 rejected; nothing is missing"


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
