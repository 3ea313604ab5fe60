"""The live page reads a stream of trace rows. It also reads the bytes of requests and responses."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from controlkit import ControlClient
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from requesting import plain, produce_request
from wirebroker import MockKafka, ProxyKafka, faults
from wirebroker.client.wire import Connection, address_of
from wirebroker.control.endpoints.events import MOST_READERS
from wirebroker.trace.brief import COLUMNS
from wirebroker.trace.kept_frames import About
from wirebroker.trace.recorder import RING, Recorder
from wirebroker.trace.rows import ConnectionRow, GroupRow, ReplyRow
from wirekit import Reachable, batch


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka(topics={"orders": 2}, control=True, trace="exchanges") as kafka:
        yield kafka


def ask_for_metadata(kafka: Reachable) -> None:
    """Sends a Metadata request for the topic `orders`, and waits for the response."""
    connection = Connection(address_of(kafka.bootstrap_servers))
    connection.request(plain("Metadata", topics=[{"name": "orders"}]), 8)
    connection.close()


class Events:
    """Reads server-sent events. Rows arrive as arrays. This class converts them to dictionaries and adds the row's number."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self._columns: dict[str, list[str]] = {}
        assert response.getheader("content-type") == "text/event-stream; charset=utf-8"

    def next(self) -> tuple[str, Any, int]:
        """Returns the name, the data and the id of the next event. The id is −1 if the event has none."""
        name, data, number = "rows", "", -1
        while (line := self._response.readline().decode().rstrip("\n")) or not data:
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data = value
            elif field == "id":
                number = int(value)
        found = json.loads(data)
        if name == "run":
            self._columns = found["columns"]
        elif name == "rows":
            first = number - len(found) + 1
            found = [{"id": first + at, "event": row[0]} | self._named(row) for at, row in enumerate(found)]
        return name, found, number

    def _named(self, row: list[Any]) -> dict[str, Any]:
        return dict(zip(self._columns[row[0]], row[1:], strict=True))

    def rows(self, count: int) -> list[dict[str, Any]]:
        """Reads events until it has at least `count` rows."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            name, data, _ = self.next()
            assert name == "rows"
            found += data
        return found


@contextmanager
def events(url: str, query: str = "") -> Iterator[Events]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=10)
    connection.request("GET", f"/events{query}")
    try:
        yield Events(connection.getresponse())
    finally:
        connection.close()


def test_rows_come_with_numbers_and_words(kafka: MockKafka) -> None:
    kafka.produce("orders", value="tea")
    with events(kafka.control_url) as stream:
        name, run, _ = stream.next()
        assert (name, run["of"], run["lowest"]["Produce"]) == ("run", "broker", 3)
        _, rows, number = stream.next()
        assert [row["id"] for row in rows] == list(range(1, number + 1))
        assert rows[0] | {"time": 0} == {
            "id": 1, "event": "topic", "time": 0, "change": "created", "topic": "orders", "partitions": 2,
            "parts": ["orders", "topic", "changed", "created, with 2 partitions"],
        }  # fmt: skip
        ask_for_metadata(kafka)
        later = stream.rows(1)
        assert later[0]["id"] == number + 1


def test_verdicts_come_whole_unless_they_are_as_they_should_be(kafka: MockKafka) -> None:
    connection = Connection(address_of(kafka.bootstrap_servers))
    for sequence in (0, 1, 1):
        connection.request(produce_request("orders", batch(sequence, pid=7, epoch=0)), 9)
    connection.close()
    produced = kafka.trace.produce()
    with events(kafka.control_url, "?after=0") as stream:
        _, run, _ = stream.next()
        rows = [row for row in stream.rows(1) if row["event"] in ("stored", "produce")]
    first, second, third = rows
    assert [row["event"] for row in rows] == ["stored", "stored", "produce"]
    assert [first["rule"], second["rule"], second["base_offset"]] == ["first", "next", 1]
    assert second["header"][9:] == [7, 0, 1, 1]
    assert run["accepted"]["next"] == "{came} {are} the next of {who}"
    assert {name: third[name] for name in ("verdict", "explain")} == {"verdict": "duplicate", "explain": produced[2].explain}


def test_a_name_that_is_no_text_is_sent_all_the_same(kafka: MockKafka) -> None:
    kafka._call(lambda engine: engine.trace._add(GroupRow("half \ud83d", "Stable", 1, 1, time=0)))
    with events(kafka.control_url) as stream:
        stream.next()
        assert stream.rows(1)[-1]["group"] == "half \ud83d"


def test_a_reader_goes_on_after_its_last_row(kafka: MockKafka) -> None:
    with events(kafka.control_url) as stream:
        _, run, _ = stream.next()
        _, _rows, number = stream.next()
    kafka.create_topic("payments")
    with events(kafka.control_url, f"?run={run['run']}&after={number}") as stream:
        stream.next()
        assert stream.rows(1)[0]["topic"] == "payments"
    with events(kafka.control_url, f"?run=another&after={number}") as stream:
        stream.next()
        assert stream.rows(1)[0]["id"] == 1


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_a_reset_begins_another_run(kafka: MockKafka, soft: bool) -> None:
    control = ControlClient(kafka.control_url)
    with events(kafka.control_url) as stream:
        _, before, _ = stream.next()
        stream.next()
        control.ask("POST", "/reset", {"soft": soft})
        name, after, _ = stream.next()
        assert name == "run"
        assert after["run"] != before["run"]
        kafka.create_topic("new")
        assert stream.rows(1)[0]["id"] == 1


def test_readers_have_a_limit_and_share_their_messages(kafka: MockKafka) -> None:
    control = ControlClient(kafka.control_url)
    with ExitStack() as stack:
        streams = [stack.enter_context(events(kafka.control_url)) for _ in range(MOST_READERS)]
        kafka.create_topic("shared")
        for stream in streams:
            stream.next()
            while not any(row.get("topic") == "shared" for row in stream.rows(1)):
                pass
        assert control.refused("GET", "/events")["status"] == 503
    kafka.wait_until(lambda: kafka._call(lambda engine: engine.trace.kept is None), timeout=10)  # all readers have gone
    with events(kafka.control_url) as stream:
        assert stream.next()[0] == "run"


def test_a_reader_that_is_late_learns_how_many_rows_it_missed(kafka: MockKafka) -> None:
    count = RING + 100

    def flood(engine: Any) -> None:
        for number in range(count):
            engine.trace._add(ConnectionRow(0, 1, number, "opened", "127.0.0.1", "PLAINTEXT", "", ""))

    kafka._call(flood)
    with events(kafka.control_url) as stream:
        stream.next()
        name, missed, _ = stream.next()
        assert name == "missed"
        assert missed["rows"] >= 100
        assert stream.rows(1)[0]["id"] == missed["rows"] + 1


def test_after_gives_the_first_rows_after_a_number() -> None:
    trace = Recorder(lambda: 0, size=5)
    at = 1 + COLUMNS["connection"].index("connection")
    for number in range(1, 9):
        trace._add(ConnectionRow(0, 1, number, "opened", "", "", "", ""))

    def numbers(after: int, most: int) -> tuple[int, list[int]]:
        missed, rows = trace.after(after, most)
        return missed, [row[at] for row in rows]

    assert numbers(0, 2) == (3, [4, 5])
    assert numbers(5, 2) == (0, [6, 7])
    assert numbers(7, 100) == (0, [8])
    assert numbers(8, 100) == (0, [])


def test_the_bytes_of_an_exchange_are_shown_field_by_field(kafka: MockKafka) -> None:
    control = ControlClient(kafka.control_url)
    with events(kafka.control_url) as stream:
        stream.next()
        stream.next()
        ask_for_metadata(kafka)
        row = next(row for row in stream.rows(1) if row["event"] == "reply")
        shown = control.ask("GET", f"/exchanges/{row['id']}")
    request, response = shown["request"], shown["response"]
    assert response["size"] == row["bytes"] - 4
    name = next(field for field in request["fields"] if field["name"] == "name")
    assert name["value"] == "orders"
    assert b"orders" in bytes.fromhex(request["hex"])[name["start"] : name["end"]]
    assert any("orders" in line for line in response["lines"])
    assert not request["damage"]
    assert not response["damage"]


def test_no_secret_is_shown(kafka: MockKafka) -> None:
    version = 2
    request = encode_request(3, "billing", plain("SaslAuthenticate", auth_bytes=b"\0alice\0hunter2"), version)
    response = encode_response(3, SaslAuthenticateResponse(auth_bytes=b"v=signature"), version)
    about = About(SaslAuthenticateRequest.__schema__.key, version, 1, 1, 0, 0, "")
    with events(kafka.control_url) as stream:
        stream.next()
        kafka._call(lambda engine: engine.trace.kept.keep(1, about, request[4:], response))  # type: ignore[union-attr]
        shown = ControlClient(kafka.control_url).ask("GET", "/exchanges/1")
    text = json.dumps(shown) + bytes.fromhex(shown["request"]["hex"] + shown["response"]["hex"]).decode("latin-1")
    assert "hunter2" not in text
    assert "signature" not in text
    assert "billing" in text
    assert not shown["request"]["damage"]


def test_bytes_are_kept_only_while_somebody_looks(kafka: MockKafka) -> None:
    control = ControlClient(kafka.control_url)
    ask_for_metadata(kafka)
    response = kafka.trace.where("event=reply").pop()
    assert kafka._call(lambda engine: engine.trace.kept) is None
    problem = control.refused("GET", f"/exchanges/{kafka.trace.events().index(response) + 1}")
    assert problem["status"] == 404


def test_the_level_of_the_trace_can_be_set(kafka: MockKafka) -> None:
    control = ControlClient(kafka.control_url)
    assert control.ask("GET", "/trace/level") == {"level": "exchanges"}
    assert control.ask("POST", "/trace/level", {"level": "verdicts"}) == {"level": "verdicts"}
    assert kafka.trace.level == "verdicts"
    assert control.refused("POST", "/trace/level", {"level": "loud"})["status"] == 422


def test_lines_of_the_trace_can_be_filtered(kafka: MockKafka) -> None:
    kafka.create_topic("payments")
    where = urlsplit(kafka.control_url)
    connection = http.client.HTTPConnection(where.netloc, timeout=10)
    connection.request("GET", "/trace.jsonl?where=event%3Dtopic%20topic%3Dpayments")
    rows = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    connection.close()
    assert [row["topic"] for row in rows] == ["payments"]
    problem = ControlClient(kafka.control_url).refused("GET", "/trace.jsonl?where=tpic%3Dx")
    assert problem["detail"] == "no row has a field 'tpic'; did you mean 'topic'?"


def test_a_proxy_has_the_same_stream_and_no_broker() -> None:
    with MockKafka(topics={"orders": 1}) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers, control=True) as proxy:
        control = ControlClient(proxy.control_url)
        assert control.ask("GET", "/health")["bootstrap_servers"] == proxy.bootstrap_servers
        assert control.raw("GET", "/topics").status == 404
        control.ask("POST", "/trace/level", {"level": "exchanges"})
        with events(proxy.control_url) as stream:
            assert stream.next()[1]["of"] == "proxy"
            ask_for_metadata(proxy)
            row = next(row for row in stream.rows(1) if row["event"] == "reply")
            assert control.ask("GET", f"/exchanges/{row['id']}")["request"]["fields"]
            assert control.ask("GET", "/producers") == {"producers": [], "more": 0}
        rule = control.ask("POST", "/faults", {"kind": "disconnect", "api": "Metadata", "nth": 1})
        assert control.ask("GET", f"/faults/{rule['id']}")["fired"] == 0


def test_a_proxy_tells_where_the_time_went() -> None:
    with MockKafka(topics={"orders": 1}) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers, trace="exchanges") as proxy:
        kafka.faults.add(faults.delay(100, api="Metadata"))
        kafka.faults.add(faults.slice(10, ms=30, api="Metadata", nth=2))
        ask_for_metadata(proxy)
        ask_for_metadata(proxy)
        slow, sliced = proxy.trace.where("api=Metadata upstream_us>=90000")
        assert isinstance(slow, ReplyRow)
        assert isinstance(sliced, ReplyRow)
        assert 0 <= slow.transfer_us < sliced.transfer_us
        assert sliced.transfer_us >= 30_000
        assert slow.proxy_us > 0
        assert f"broker {slow.upstream_us:,} µs" in slow.parts()[3]
        assert kafka.trace.where("upstream_us>=0") == []
