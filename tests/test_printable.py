"""In terminals, logs and reports, the names that clients choose have only visible characters."""

from __future__ import annotations

import io
import json
import logging
import tomllib
from pathlib import Path

import pytest

from kafkawire.frames import encode_request
from kafkawire.printable import printable
from requesting import heartbeat, init_producer_id, offset_commit, plain, produce_request
from wirebroker import MockKafka, faults
from wirebroker.__main__ import main
from wirebroker.client.wire import Connection, address_of
from wirebroker.faults.files import dump
from wirebroker.testing import failure_report
from wirebroker.trace.sinks import ConsoleSink
from wirekit import batch

FORGED = "12:30:05.250  #7   orders-0  forged"
HOSTILE = f"\x1b]0;owned\x07\x1b[2Aapp\r\n{FORGED}\x85\x9b31m\u202egnp\u2066\u200bb\u2028\u2029\ufeff\u3164\U000e0041"
"""A name with ESC, BEL, line ends, C1 control characters, direction marks and zero-width characters."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-0 – µs, 注文, заказы, 🙂", "orders-0 – µs, 注文, заказы, 🙂"),
        ("a\x1b[31mb\x07\r\n\t", r"a\u001b[31mb\u0007\r\n\t"),
        ("\x85\x9b\x7f\xad", r"\u0085\u009b\u007f\u00ad"),
        ("\u202e\u2066\u200f\u061c", r"\u202e\u2066\u200f\u061c"),
        ("\u200b\u2060\ufeff\u2028\u2029\xa0", r"\u200b\u2060\ufeff\u2028\u2029\u00a0"),
        ("\u3164\u115f\u2800\ufe0f\u034f", r"\u3164\u115f\u2800\ufe0f\u034f"),
        ("\U000e0041\U000e0100\udc80", r"\udb40\udc41\udb40\udd00\udc80"),
    ],
)
def test_what_cannot_be_seen_is_written_as_json_writes_it(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert json.loads(f'"{shown}"') == text


UNSEEN = {letter for letter in HOSTILE if letter < " " or not letter.isascii()}


def assert_plain(text: str, among: str = "") -> None:
    """Checks that no line has invisible characters or begins with the forged text, and that the text contains `among`."""
    lines = text.split("\n")
    assert [line for line in lines if UNSEEN & set(line)] == []
    assert not any(line.lstrip().startswith(FORGED) for line in lines)
    assert among in text


def speak(kafka: MockKafka) -> None:
    """Sends requests that have the hostile name in every field whose value a client can choose."""
    connection = Connection(address_of(kafka.bootstrap_servers), client_id=HOSTILE)
    connection.request(plain("ApiVersions", client_software_name="app", client_software_version="1"), 3)
    connection.request(plain("Metadata", topics=[{"name": HOSTILE}]), 9)
    connection.request(plain("FindCoordinator", key=HOSTILE, key_type=0), 3)
    connection.request(init_producer_id(HOSTILE), 4)
    connection.request(heartbeat(HOSTILE, HOSTILE, 1, HOSTILE), 4)
    commit = offset_commit("ㅤ" + HOSTILE, 0, metadata=HOSTILE)
    connection.request(commit, 8)
    connection.request(produce_request("orders", batch(0, 1, pid=-1, epoch=-1)), 9)
    connection.request(produce_request(HOSTILE, batch(0, 1, pid=-1, epoch=-1)), 9)
    connection.close()


def test_a_client_cannot_write_to_the_console_or_forge_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console, captured = io.StringIO(), tmp_path / "session.pcapng"
    with MockKafka(topics={"orders": 1}, trace="all", capture=captured) as kafka:
        kafka.faults.add(faults.error(7, api="Heartbeat", group=HOSTILE))
        kafka._call(lambda engine: engine.trace.sinks.append(ConsoleSink(console)))
        speak(kafka)
        rows = kafka.trace.events()
        reported = kafka._call(failure_report.sections)
        written = dump(kafka._call(lambda engine: engine.plan.rules), 0)
    assert HOSTILE in {getattr(row, "client_id", "") for row in rows}
    assert_plain(console.getvalue(), r"\u001b[2Aapp\r\n12:30")
    for text in reported.values():
        assert_plain(text)
    assert_plain(written)
    assert tomllib.loads(written)["fault"][0]["group"] == HOSTILE
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(row.as_json() + "\n" for row in rows), encoding="utf-8")
    # programs get the unchanged name
    assert HOSTILE in {json.loads(line).get("client_id") for line in file.read_text().splitlines()}
    asked = encode_request(7, HOSTILE, plain("Metadata"), 9).hex()
    for command in (
        ["trace", "show", str(file)], ["trace", "show", str(file), "--timeline"], ["trace", "show", str(captured)],
        ["trace", "show", str(file), "--group", "app\x1b[2A\r"], ["decode", asked], ["decode", "--json", asked],
    ):  # fmt: skip
        main(command)
        shown = capsys.readouterr()
        assert_plain(shown.out + shown.err, "app")


def test_sessions_that_differ_are_shown_in_plain_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one.pcapng", tmp_path / "other.pcapng"
    for path, topics in ((one, {"orders": 1}), (other, {"invoices": 1})):
        with MockKafka(topics=topics, capture=path, configs={"auto.create.topics.enable": "false"}) as kafka:  # type: ignore[arg-type]
            speak(kafka)
    assert main(["diff", str(one), str(other)]) == 1
    assert_plain(capsys.readouterr().out, r"\x1b[2Aapp\r\n12:30")


def test_the_log_is_plain_also_in_a_traceback() -> None:
    logger, written = logging.getLogger("wirebroker"), io.StringIO()
    handler = logging.StreamHandler(written)
    logger.addHandler(handler)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("a request of %s failed", HOSTILE)
    finally:
        logger.removeHandler(handler)
    (line, *traceback) = written.getvalue().splitlines()
    assert r"a request of \u001b]0;owned\u0007" in line
    assert traceback
    assert_plain("\n".join([line, *traceback]))


def test_the_comments_of_a_capture_are_plain(tmp_path: Path) -> None:
    path = tmp_path / "session.pcapng"
    with MockKafka(topics={"orders": 1}, trace="all", capture=path) as kafka:
        kafka.faults.add(faults.error(7, api="Heartbeat", group=HOSTILE))
        speak(kafka)
    comments = path.read_bytes()
    at = comments.index(b"fault: ")
    assert_plain(comments[at : comments.index(b"time", at)].decode(), r"\u001b[2Aapp\r\n12:30")


def test_the_audit_in_the_small_is_plain() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        kafka.produce("orders", key=HOSTILE.encode(), value=b"1")
        kafka.produce("orders", key=HOSTILE.encode(), value=b"1")
        report = kafka.audit()
    assert_plain(str(report), "app")
    with pytest.raises(AssertionError) as failed:
        report.assert_exactly_once(intended=[{"topic": HOSTILE, "key": "a", "value": "b"}])
    assert_plain(str(failed.value), "app")
