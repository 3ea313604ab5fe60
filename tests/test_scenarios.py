"""The named scenarios: their files, the counts of outcomes, the command, and each scenario, played by one client.

To keep the tests quick, each scenario is played by only one client. `scripts/client-table` plays every scenario with every
client.
"""

from __future__ import annotations

import itertools
import json
import re
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import kafka
import pytest

from requesting import produce_request
from wirebroker import MockKafka, faults
from wirebroker.client.wire import Connection
from wirebroker.commands.cli import main
from wirebroker.mock import StoredRecord
from wirebroker_tools.drivers import CLIENTS, PACKAGES, ClientName, ProducerSettings
from wirebroker_tools.drivers.wire import Producer
from wirebroker_tools.scenarios.journal import Journal, Sent, label
from wirebroker_tools.scenarios.outcome import Counts, count, judge
from wirebroker_tools.scenarios.play import Result, play
from wirebroker_tools.scenarios.reading import find, names, read
from wirebroker_tools.scenarios.scenario import Expect, ScenarioError
from wirebroker_tools.scenarios.show import catalogue
from wirebroker_tools.scenarios.watch import Watch
from wirekit import batch, client

ROOT = Path(__file__).resolve().parent.parent
NAMED = [name for name in names() if not re.fullmatch(r"B\d+", name)]
FINDINGS = {
    ("first-fails-rest-ooo", "confluent"): {"duplicates"},
    ("new-partition-race", "confluent"): {"loses"},
    ("ooo-in-txn", "kafka-python"): {"loses"},
    ("ooo-in-txn", "aiokafka"): {"loses"},
    ("late-produce-after-abort", "kafka-python"): {"loses"},
    ("retention-forgets-pid", "kafka-python"): {"hangs"},
    ("coordinator-dies", "kafka-python"): {"hangs"},
    ("coordinator-moves", "kafka-python"): {"loses"},
    ("coordinator-dies", "aiokafka"): {"hangs"},
    ("missing-batch", "aiokafka"): {"fails cleanly"},
}
"""For each scenario and client: how the client differs from a good client. docs/reference/clients-table.md has the versions."""
SLOW = {pair for pair, outcomes in FINDINGS.items() if "hangs" in outcomes}
"""Scenarios in which a client hangs until the time limit. They are not played here."""


def agree(result: Result) -> None:
    """The audit reads batches, and the scenario compares values. Checks that both have the same counts."""
    counts, summary = result.outcome.counts, result.audit.summary()
    assert summary["doubled"] == counts.doubled, result.audit
    lost = [found for found in result.audit.of("lost") if "was acknowledged" in found.explanation]
    deleted = sum(found.severity == "info" for found in lost)
    assert len(lost) - deleted == counts.lost, result.audit


def turn(number: int) -> ClientName:
    """Returns the client that plays the scenario number `number`."""
    name = NAMED[number]
    able = [client for client in find(name).clients if (name, client) not in SLOW]
    return able[number % len(able)]


def run(name: str, client: ClientName) -> list[Result]:
    scenario = find(name)
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda part: play(scenario, part, client), scenario.parts))


@pytest.mark.parametrize(("name", "client"), [(name, turn(i)) for i, name in enumerate(NAMED)])
def test_the_client_does_what_a_good_client_does(name: str, client: ClientName) -> None:
    for result in run(name, client):
        known = FINDINGS.get((name, client), set())
        assert result.met or result.outcome.name in known, result.differences
        assert not any("never fired" in each for each in result.differences), result.differences
        agree(result)


def test_there_are_thirty_and_each_has_a_source() -> None:
    assert len(NAMED) >= 30
    assert [name for name in names() if name not in NAMED] == [f"B{n}" for n in range(1, 13)]
    for scenario in map(find, NAMED):
        assert scenario.sources, scenario.name
        assert scenario.others or scenario.clients == list(CLIENTS), "the file must say why a client cannot play the scenario"


def test_what_the_good_client_does_is_what_the_one_spoken_by_hand_does() -> None:
    """Only in two scenarios, the client `wire` and the good client have different results. These scenarios show the effect of
    more requests in flight."""
    differing = {"sixth-in-flight", "new-partition-race"}
    for name in set(NAMED) - differing:
        scenario = find(name)
        if "wire" in scenario.clients:
            assert all("wire" not in part.expect.clients for part in scenario.parts), name


def test_a_client_that_hangs_ends_all_the_same() -> None:
    scenario = find("coordinator-dies")
    result = play(scenario, scenario.parts[0], "aiokafka", limit=1.0)
    assert result.outcome.name == "hangs"
    assert "has not come back after 1 s" in [note.error for note in result.journal.notes], "the note must name the call"
    assert result.seconds < 4


def test_what_a_consumer_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    from wirebroker_tools.drivers import kafka_python

    def refuse(*_: object) -> int:
        raise ConnectionError("no route")

    monkeypatch.setattr(kafka_python.Reader, "read", refuse)
    scenario = find("end-is-a-marker")
    result = play(scenario, scenario.parts[0], "kafka-python")
    assert result.differences == ["read: ConnectionError: no route"]


# Counting


def stored(*values: str, first: int = 0, partition: int = 0, producer: int = 7, **more: Any) -> list[StoredRecord]:
    return [
        StoredRecord(
            "orders", partition, first + i, 0, more.get("key"), value.encode(), (), producer, 0, i,
            more.get("transactional", False), more.get("control", False),
        )
        for i, value in enumerate(values)
    ]  # fmt: skip


def marker(offset: int, commit: bool, producer: int = 7) -> StoredRecord:
    (made,) = stored("", first=offset, producer=producer, key=bytes((0, 0, 0, commit)), transactional=True, control=True)
    return made


def journal(values: str, acknowledged: str = "", failed: str = "") -> Journal:
    made = Journal()
    made.sent = [Sent(value, "orders", 0, "first") for value in values]
    for offset, value in enumerate(acknowledged):
        made.tell(value, offset, "")
    for value in failed:
        made.tell(value, -1, "KafkaTimeoutError")
    return made


COUNTED: list[tuple[str, Journal, list[StoredRecord], Counts, str]] = [
    ("all well", journal("AB", "AB"), stored("A", "B"), Counts(sent=2, stored=2), "recovers"),
    ("doubled", journal("AB", "AB"), stored("A", "B", "B"), Counts(sent=2, stored=3, doubled=1), "duplicates"),
    ("lost", journal("AB", "AB"), stored("A"), Counts(sent=2, stored=1, lost=1), "loses"),
    ("worst", journal("ABC", "ABC"), stored("A", "A", "B"), Counts(sent=3, stored=3, doubled=1, lost=1), "loses"),
    ("failed", journal("AB", "A", "B"), stored("A"), Counts(sent=2, stored=1, failed=1), "fails cleanly"),
    (
        "failed and there",
        journal("AB", "A", "B"),
        stored("A", "B"),
        Counts(2, 2, failed=1, failed_stored=1),
        "fails cleanly",
    ),
    ("silence", journal("AB", "A"), stored("A", "B"), Counts(sent=2, stored=2, untold=1), "hangs"),
    ("overtaken", journal("ABC", "ABC"), stored("A", "C", "B"), Counts(sent=3, stored=3, displaced=1), "reorders"),
    ("once more behind", journal("AB", "AB"), stored("A", "B", "A"), Counts(sent=2, stored=3, doubled=1), "duplicates"),
    ("of another", journal("A", "A"), stored("A", "X"), Counts(sent=1, stored=1), "recovers"),
]


@pytest.mark.parametrize(("said", "log", "counts", "outcome"), [case[1:] for case in COUNTED], ids=[c[0] for c in COUNTED])
def test_what_happened_is_counted(said: Journal, log: list[StoredRecord], counts: Counts, outcome: str) -> None:
    assert count(said, log) == counts
    assert judge(counts, hung=False, refused=False, expect=Expect()).name == outcome


def test_only_what_is_committed_counts() -> None:
    log = [
        *stored("A", "B", transactional=True), marker(2, True),
        *stored("C", "D", first=3, transactional=True), marker(5, False),
        *stored("E", first=6, transactional=True),
    ]  # fmt: skip
    counts = count(journal("ABCDE", "AB", "CD"), log, [["A", "B"], ["C", "D"]])
    assert counts == Counts(sent=5, stored=2, failed=2, untold=1, open=1)
    assert "open" not in judge(Counts(), False, False, Expect()).differences
    assert judge(counts, False, False, Expect()).differences[-1] == "1 records are in an open transaction"


def test_a_part_of_a_transaction_is_a_loss() -> None:
    log = [*stored("A", transactional=True), marker(1, True)]
    counts = count(journal("AB", "", "AB"), log, [["A", "B"]])
    assert (counts.torn, judge(counts, False, False, Expect(["fails cleanly"])).name) == (1, "loses")


def test_producers_and_partitions_have_an_order_of_their_own() -> None:
    said = Journal()
    said.sent = [Sent("A", "orders", 0, "first"), Sent("B", "orders", 1, "first"), Sent("C", "orders", 0, "second")]
    for each in said.sent:
        said.tell(each.value, 0, "")
    assert count(said, [*stored("C", "A"), *stored("B", partition=1)]).displaced == 0


def test_counts_that_differ_are_told() -> None:
    expect = Expect(["recovers"], stored=3, doubled=0, lost=0, failed=0)
    judged = judge(Counts(sent=3, stored=4, doubled=1), False, False, expect)
    assert judged.differences == [
        "it stores records twice; expected that it recovers",
        "stored: 4 records, expected 3",
        "doubled: 1 records, expected 0",
    ]


def test_labels_go_on_after_z() -> None:
    assert [label(n) for n in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]


# Files

GOOD = """
title = "t"
broker_does = "b"
good_client = "g"
sources = ["KIP-360"]
steps = [{ produce = 1 }]
"""
WRONG = [
    ("title = ", "own.toml: this is not TOML"),
    (GOOD.replace("title", "titel"), "own.toml: there is no 'titel' here; did you mean 'title'?"),
    (GOOD.replace('good_client = "g"', ""), "own.toml: 'good_client' is missing"),
    (GOOD.replace("KIP-360", "somewhere"), "own.toml: the source 'somewhere' is not owner/repository#number"),
    (GOOD.replace("produce = 1", "prodcue = 1"), "own.toml, step 1: there is no step 'prodcue'; did you mean 'produce'?"),
    (GOOD.replace("produce = 1", "produce = true"), "own.toml, step 1: produce: expected int, got bool"),
    (GOOD.replace("produce = 1", "produce = 1, wiat = false"), "step 1: there is no 'wiat' here; did you mean 'wait'?"),
    (
        GOOD.replace("produce = 1", 'process = 1, offsets = "later"'),
        "step 1: offsets: there is no 'later'; did you mean 'after'?",
    ),
    (GOOD.replace("produce = 1", "process = 1"), "own.toml, step 1: 'offsets' is missing"),
    (GOOD.replace("produce = 1", "advance = { weeks = 1 }"), "step 1: advance: there is no 'weeks'; it may be days, hours"),
    (GOOD.replace("produce = 1", "kill = 'all'"), "step 1: kill: there is no 'all'; it may be leader, transaction coordinator"),
    (GOOD.replace("steps = [{ produce = 1 }]", ""), "own.toml: there are no steps, so nothing would happen"),
    (GOOD + 'clients = ["kafkajs"]', "own.toml: clients: there is no 'kafkajs'; did you mean 'aiokafka'?"),
    (GOOD + "[producer]\ninflight = 6", "producer: there is no 'inflight' here; did you mean 'in_flight'?"),
    (GOOD + '[producer]\nin_flight = "six"', "producer: in_flight: expected int, got str"),
    (GOOD + "[broker]\nbrokers = true", "broker: brokers: expected int, got bool"),
    (GOOD + '[[fault]]\nkind = "lose_akc"', "there is no kind 'lose_akc'; did you mean 'lose_ack'?"),
    (GOOD + '[[fault]]\nkind = "lose_ack"\nnth = 0', "lose_ack: nth must be a whole number of at least 1"),
    (GOOD + '[expect]\noutcome = ["recover"]', "expect: outcome: there is no 'recover'; did you mean 'recovers'?"),
    (GOOD + '[expect.wire]\noutcome = ["recover"]', "expect.wire: outcome: there is no 'recover'"),
    (GOOD + '[[part]]\nname = "a"\n[[part]]', "own.toml: each of several parts needs a name"),
    (GOOD + "part = [3]", "own.toml, part 1: expected a table, got 3"),
    (GOOD + "part = " + "[" * 20_000, "own.toml: this is not TOML: "),
    (GOOD + "part = " + "9" * 5000, "own.toml: this is not TOML: Exceeds the limit"),
]


def test_a_file_that_is_not_utf8_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"# \x80")
    with pytest.raises(ScenarioError, match=r"own.toml: this is not UTF-8: "):
        find(str(path))


@pytest.mark.parametrize(("text", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_a_file_that_is_wrong_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(sentence)):
        read("own", text, "own.toml")


def test_a_part_adds_to_tables_and_replaces_lists() -> None:
    text = (
        GOOD
        + """
[producer]
acks = 1
in_flight = 2
[[fault]]
kind = "lose_ack"
[[part]]
name = "as above"
[[part]]
name = "other"
steps = [{ produce = 2 }]
fault = []
producer = { in_flight = 3 }
"""
    )
    above, other = read("own", text, "own.toml").parts
    assert (above.producer.acks, above.producer.in_flight, len(above.rules()), above.steps) == (
        1,
        2,
        1,
        [{"produce": 1}],
    )
    assert (other.producer.acks, other.producer.in_flight, len(other.rules()), other.steps) == (
        1,
        3,
        0,
        [{"produce": 2}],
    )


# The command


def test_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(re.search(rf"^{re.escape(name)} ", listed, re.MULTILINE) for name in names())
    assert main(["scenario", "show", "b11"]) == 0
    shown = capsys.readouterr().out
    assert "without idempotence" in shown and "good client" in shown  # noqa: PT018
    assert "reorders, 5 stored, 0 doubled, 0 lost, 0 failed; aiokafka: recovers, 5 stored" in " ".join(shown.split())


def test_a_run_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "run", "lost-ack", "--client", "wire"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "lost-ack  an acknowledgement is lost with its connection  wire",
        "  InitProducerId",
        "  A        0          accepted   offset 0   the first of this producer",
        "  B        1          accepted   offset 1   the next of this producer",
        "  C        2          accepted   unheard    the next of this producer",
        "  C        fault      lose_ack(api=Produce, nth=3, then=disconnect)",
        "  C        2          duplicate  offset 2   batch 1 of 3 in the window; not stored again",
        "  D        3          accepted   offset 3   the next of this producer",
        "  E        4          accepted   offset 4   the next of this producer",
        "  acknowledged  A @0  B @1  C @2  D @3  E @4",
        "  the log       orders-0: A  B  C  D  E",
        "  recovers  5 sent, 5 stored",
    ]


def test_the_wire_client_reads_what_came_before_the_connection_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker closes the connection at the third Produce request, before the client sends the fourth."""
    sent, send_bytes = itertools.count(1), Connection.send_bytes

    def late(self: Connection, raw: bytes) -> None:
        if raw[4:6] == b"\0\0" and next(sent) in (4, 5):
            closed = select.poll()
            closed.register(self._socket, select.POLLRDHUP)
            assert closed.poll(10_000)
        send_bytes(self, raw)

    monkeypatch.setattr(Connection, "send_bytes", late)
    with MockKafka(topics={"orders": 1}) as kafka:
        kafka.faults.add(faults.lose_ack(api="Produce", nth=3, then="disconnect"))
        acknowledged: list[tuple[str, int, str]] = []
        settings = ProducerSettings(in_flight=5)
        producer = Producer(kafka.bootstrap_servers, settings, lambda *told: acknowledged.append(told))
        producer.start()
        for value in "ABCDE":
            producer.send("orders", value, 0)
        producer.flush(10)
        assert acknowledged == [(value, offset, "") for offset, value in enumerate("ABCDE")]
        verdicts = [str(row.verdict) for row in kafka.trace.events("produce")]
    assert verdicts == ["accepted"] * 3 + ["duplicate"] + ["accepted"] * 2


def test_a_finding_is_exit_code_1_and_a_file_of_ones_own_is_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.toml"
    own.write_text(GOOD + '[producer]\nidempotence = false\n[[fault]]\nkind = "lose_ack"\napi = "Produce"\nnth = 1\n')
    assert main(["scenario", "run", str(own), "--client", "wire"]) == 1
    assert "FINDING: it stores records twice; expected that it recovers" in capsys.readouterr().out


def test_json_says_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "run", "B4", "--client", "wire", "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["outcome"], said["met"], said["counts"]["doubled"], said["client"]) == ("duplicates", True, 7, "wire")
    assert said["log"][0] == ["orders", 0, 0, "A0"]
    assert said["acknowledged"][-1] == ["A6", 48]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["B99"], "there is no scenario 'B99'; did you mean 'B9'?"),
        (["no/such.toml"], "no/such.toml: No such file or directory"),
        (
            ["sequence-wrap", "--client", "aiokafka"],
            "aiokafka cannot play sequence-wrap: no library has an option for its first sequence",
        ),
    ],
)
def test_what_cannot_be_run_is_exit_code_2(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "run", *arguments]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("name", ["B1", "all"])
def test_a_client_that_is_not_installed_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PACKAGES, "confluent", "no-such-client")
    assert main(["scenario", "run", name, "--client", "confluent"]) == 2
    assert capsys.readouterr().err == "wirebroker scenario: no-such-client is not installed: pip install no-such-client\n"


# serve --scenario


def test_any_client_can_meet_a_scenario_by_address(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    command = [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--port", "0", "--scenario", "B5/2", "--require-fired"]
    command += ["--trace", str(trace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[2]
        producer = kafka.KafkaProducer(bootstrap_servers=address, batch_size=0)
        offsets = [producer.send("orders", b"%d" % i, partition=0).get(10).offset for i in range(5)]
        producer.close()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
    assert (offsets, process.returncode) == ([0, 1, 2, 3, 4], 0)
    verdicts = [row["verdict"] for row in map(json.loads, trace.read_text().splitlines()) if row["event"] == "produce"]
    assert verdicts == ["accepted"] * 3 + ["duplicate"] + ["accepted"] * 2, "the ack of the third batch was lost"
    assert said.startswith("scenario B5: the three failures of any send. The broker does not receive C")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("B99", "there is no scenario 'B99'; did you mean 'B9'?"), ("B9/7", "B9 has the parts 1 to 4")],
)
def test_serve_refuses_what_is_no_scenario(name: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--scenario", name]) == 2
    assert sentence in capsys.readouterr().err


# Documentation


def test_the_documented_scenarios_are_those_that_are_there() -> None:
    text = (ROOT / "docs" / "how-to" / "scenarios.md").read_text(encoding="utf-8")
    shown = text.partition("<!-- made by scripts/client-table -->\n")[2].partition("<!-- end -->")[0]
    assert shown == catalogue(map(find, names())), "run scripts/client-table --catalogue"
    toml = text.partition("```toml\n")[2].partition("```")[0]
    assert read("lost-ack", toml, "lost-ack.toml") == find("lost-ack")


def test_the_table_of_clients_has_every_scenario() -> None:
    text = (ROOT / "docs" / "reference" / "clients-table.md").read_text(encoding="utf-8")
    rows = [tuple(cell.strip(" `") for cell in line.split("|")[1:3]) for line in text.splitlines() if line.startswith("| `")]
    expected = [(each.name, part.name) for each in map(find, names()) for part in each.parts]
    assert rows == [pair for pair in expected if set(find(pair[0]).clients) != {"wire"}], "run scripts/client-table"


@pytest.mark.mock_kafka(topics={"orders": 2})
def test_a_request_for_two_partitions_is_one_request(mock_kafka: MockKafka) -> None:
    watch = Watch(mock_kafka)
    request = produce_request("orders", batch(tag="A"))
    request.topic_data[0].partition_data += produce_request("orders", batch(tag="B"), 1).topic_data[0].partition_data
    with closing(client(mock_kafka)) as connections:
        connections.request(request, 9)
        connections.request(produce_request("orders", batch(tag="C")), 9)
    assert [event.what for event in watch.events()] == ["A0", "B0", "C0"]
