"""The live page exports chosen rows of the trace as captures, or as scenarios that a broker can play."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import asdict

from controlkit import ControlClient
from requesting import produce_request
from test_live_events import events
from wirebroker import MockKafka, faults
from wirebroker.client.wire import Connection, address_of
from wirebroker.trace.rows import ProduceRow, ReplyRow, Row, ShadowRow
from wirebroker_tools.capture.session import Session
from wirebroker_tools.scenarios.play import play
from wirebroker_tools.scenarios.reading import find, read
from wirebroker_tools.traces.scenario import scenario_of
from wirekit import batch


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics={"payments": 2}, control=True, trace="exchanges") as kafka:
        yield kafka


def send(kafka: MockKafka, *sequences: int) -> None:
    connection = Connection(address_of(kafka.bootstrap_servers))
    for sequence in sequences:
        connection.request(produce_request("payments", batch(sequence, pid=7, epoch=0), 1), 9)
    connection.close()


def exported(kafka: MockKafka, what: str, body: Any) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(kafka.control_url).netloc, timeout=10)
    connection.request("POST", f"/export/{what}", json.dumps(body))
    response = connection.getresponse()
    data = response.read()
    connection.close()
    assert response.status == 200, data
    return data


def test_a_capture_has_the_exchanges_and_remarks(kafka: MockKafka, tmp_path: Path) -> None:
    with events(kafka.control_url) as stream:
        _, run, _ = stream.next()
        send(kafka, 0, 1, 1)
        rows = stream.rows(8)
        numbers = [row["id"] for row in rows if row["event"] == "reply"]
        chosen = [{"number": number, "remarks": [f"remark {number}"]} for number in numbers]
        data = exported(kafka, "capture", {"run": run["run"], "exchanges": chosen})
    (tmp_path / "x.pcapng").write_bytes(data)
    found: list[Row] = []
    session = Session(found.append)
    with (tmp_path / "x.pcapng").open("rb") as file:
        session.read(file)
    assert session.complaints == []
    assert [row.verdict for row in found if isinstance(row, ShadowRow)] == ["accepted", "accepted", "duplicate"]
    assert [row.correlation_id for row in found if isinstance(row, ReplyRow)] == [
        row["correlation_id"] for row in rows if row["event"] == "reply"
    ]
    assert all(f"remark {number}".encode() in data for number in numbers)


def test_a_capture_of_forgotten_exchanges_is_refused(kafka: MockKafka) -> None:
    problem = ControlClient(kafka.control_url).refused("POST", "/export/capture", {"exchanges": [{"number": 3}]})
    assert problem["detail"] == "the control keeps no bytes of these exchanges"


def test_a_scenario_of_rows_is_played_by_the_mock(kafka: MockKafka, tmp_path: Path) -> None:
    kafka.faults.add(faults.lose_ack(topic="payments", nth=2))
    connection = Connection(address_of(kafka.bootstrap_servers))
    connection.send(produce_request("payments", batch(0, pid=7, epoch=0), 1), 9)
    connection.send(produce_request("payments", batch(1, pid=7, epoch=0), 1), 9)
    kafka.wait_until(lambda: len(kafka.trace.faults()) == 1)
    connection.close()
    send(kafka, 1, 2)
    rows = [json.loads(row.as_json()) for row in kafka.trace.events()]
    file = tmp_path / "recorded.toml"
    file.write_bytes(exported(kafka, "scenario", {"rows": rows}))
    scenario = find(str(file))
    (part,) = scenario.parts
    assert part.steps == [{"produce": 3, "partitions": [1]}]
    assert [rule.described() for rule in part.rules()] == [
        {"kind": "lose_ack", "topic": "orders", "nth": 2, "then": "disconnect"}
    ]
    result = play(scenario, part, "wire")
    assert result.met
    assert "duplicate" in [row.verdict for row in result.rows], "the scenario repeats the fault"
    assert len(result.log) == 3


def verdict(error: str, agrees: bool | None, sequence: int, correlation: int) -> ShadowRow:
    row = ProduceRow(
        0, 1, 1, "c", "", 9, correlation, -1, "payments", 0, 7, 0, sequence, sequence, 1, 70, "none", False,
        "rejected" if error != "NONE" else "accepted", "next", 0, error, sequence, "", "",
    )  # fmt: skip
    return ShadowRow(**asdict(row), predicted="accepted", agrees=agrees)


def response(error: str, correlation: int, api: str = "Produce") -> ReplyRow:
    return ReplyRow(0, 1, 1, "c", "", api, 9, correlation, 57, 0, (error,) if error else (), ("payments-0",))


def test_an_error_that_the_sequences_do_not_explain_becomes_a_fault() -> None:
    text = scenario_of(
        [
            verdict("NONE", True, 0, 1), response("", 1),
            verdict("NOT_LEADER_OR_FOLLOWER", None, 1, 2), response("NOT_LEADER_OR_FOLLOWER", 2),
            verdict("OUT_OF_ORDER_SEQUENCE_NUMBER", True, 5, 3), response("OUT_OF_ORDER_SEQUENCE_NUMBER", 3),
            verdict("NONE", True, 1, 4), response("", 4), response("COORDINATOR_NOT_AVAILABLE", 5, "FindCoordinator"),
        ],
        {},
    )  # fmt: skip
    (part,) = read("recorded", text, "recorded.toml").parts
    assert part.faults == [
        {"kind": "error", "api": "Produce", "code": "NOT_LEADER_OR_FOLLOWER", "nth": 2},
        {"kind": "error", "api": "FindCoordinator", "code": "COORDINATOR_NOT_AVAILABLE", "nth": 1},
    ]
    assert part.steps == [{"produce": 3, "partitions": [0]}]
    part.faults.pop()
    result = play(read("recorded", text, "recorded.toml"), part, "wire")
    assert result.met
    assert len(result.log) == 3


def test_rows_without_a_batch_are_no_scenario() -> None:
    with pytest.raises(ValueError, match="nothing to produce"):
        scenario_of([response("", 1, "Metadata")], {})
