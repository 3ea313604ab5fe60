"""For a case of an exploration, a test is written. It is in the language of the command, and uses the library in clients/."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from wirebroker.mock import StoredRecord
from wirebroker_tools.campaign.application import Application, Run
from wirebroker_tools.campaign.exploration import Exploration
from wirebroker_tools.campaign.misfortunes import OPTIONAL, USUAL, Asked, Choice, Place, cases
from wirebroker_tools.campaign.report import write_cases
from wirebroker_tools.campaign.reproductions import LANGUAGES, Reproduction, comparable, language_of
from wirebroker_tools.campaign.words import faults_of
from wirekit import lacking

ROOT = Path(__file__).parent.parent
GO, JAVASCRIPT, JAVA, RUST = LANGUAGES
PLACES = {
    Place("Produce", "sender", "orders"): [
        Asked(12, 50, acks=1, idempotent=True, before=(0, 3, 1), transactional_ids=("till",)),
    ],
    Place("Heartbeat", None, None): [Asked(4, 50)],
    Place("OffsetCommit", "it's \"me\"", None): [Asked(9, 50)],
}  # fmt: skip
RECORDS = {"orders": [("customer-7", 'an "order"'), (None, "päck")]}


def reproductions() -> list[Reproduction]:
    """Returns a reproduction for each kind of fault. Some have two faults."""
    kinds = ["upgrade", *OPTIONAL]
    table = [*cases(PLACES, Choice()), *cases(PLACES, Choice.of((), [kind for kind in kinds if kind.islower()]))]
    by_kind = {(case["fault"]["kind"], "second" in case, case["fault"].get("after")): faults_of(case) for case in table}
    assert {kind for kind, *_ in by_kind} >= {*USUAL, "upgrade", "truncate"}
    return [
        Reproduction("lost … exit 0", f"lost-{number}", "the command", faults, 1 + number % 2, ["orders:3"], RECORDS)
        for number, faults in enumerate(by_kind.values(), 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "language"),
    [
        ("go test ./...", GO), ("./orders.test -test.run Test", GO), ("npm test", JAVASCRIPT), ("npx jest -i", JAVASCRIPT),
        ("/usr/bin/node --test", JAVASCRIPT), ("mvn -q test", JAVA), ("./gradlew test", JAVA), ("cargo test", RUST),
        ("python3.11 -m pytest", None), ("uv run pytest", None), ("./orders", None), ("dotnet test", None),
    ],
)  # fmt: skip
def test_the_language_is_the_one_of_the_command(command: str, language: object) -> None:
    assert language_of(command.split()) is language
    assert language_of(["sh", "-c", f"cd orders && {command}"]) is language


def test_a_test_in_go_vets(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        lacking("go", "Go is not installed")
    for each in reproductions():
        (tmp_path / GO.file(each.name)).write_text(GO.test(each))
    replaced = f"replace wirebrokertest => {ROOT / 'clients' / 'go'}"
    (tmp_path / "go.mod").write_text(f"module reproduced\n\ngo 1.24\n\nrequire wirebrokertest v0.0.0\n\n{replaced}\n")
    done = subprocess.run(["go", "vet", "./..."], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_test_in_javascript_can_be_read(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        lacking("node", "node is not installed")
    every = "".join(f"{{\n{JAVASCRIPT.test(each)}\n}}\n" for each in reproductions())
    body = "\n".join(line for line in every.splitlines() if not line.startswith("import "))
    (program := tmp_path / "reproduced.mjs").write_text(body)
    done = subprocess.run(["node", "--check", program], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_language_says_what_to_call_and_what_is_expected() -> None:
    fault = {"kind": "error", "api": "Produce", "topic": "orders", "client_id": "kgo", "nth": 2, "code": "INVALID_RECORD"}
    slow = {"kind": "delay", "api": "EndTxn", "ms": 1500}
    made = Reproduction(
        "Produce to orders … exit 0", "lost-1", "npm test", [fault, slow], 1, ["orders:3"], {"orders": [("a", "b")]}
    )
    expected = {
        GO: (
            "lost_1_test.go", "func TestLost1(t *testing.T) {", 'wirebrokertest.Reset(t, "orders:3")',
            'Error("INVALID_RECORD", wirebrokertest.On{API: "Produce", Topic: "orders", ClientID: "kgo", Nth: 2})',
            'wirebrokertest.Delay(1500*time.Millisecond, wirebrokertest.On{API: "EndTxn"})', "fault2.AssertFired(t)",
            'wirebrokertest.Record{Key: "a", Value: "b"}',
        ),
        JAVASCRIPT: (
            "lost-1.test.mjs", 'useBroker({ topics: ["orders:3"] })', "await fault1.assertFired();",
            '{ kind: "error", api: "Produce", topic: "orders", client_id: "kgo", nth: 2, code: "INVALID_RECORD" }',
        ),
        JAVA: (
            "Lost1Test.java", '@Wirebroker(topics = {"orders:3"})', 'KafkaRecord.of("a", "b")',
            'Fault.error("INVALID_RECORD").api("Produce").topic("orders").clientId("kgo").nth(2)',
            'Fault.delay(Duration.ofMillis(1500)).api("EndTxn")',
        ),
        RUST: (
            "lost_1.rs", 'wirebroker::reset(&["orders:3"])', 'broker.assert_records("orders", &[Record::new("a", "b")]);',
            'Fault::error("INVALID_RECORD").api("Produce").topic("orders").client_id("kgo").nth(2)',
            'Fault::delay(Duration::from_millis(1500)).api("EndTxn")',
        ),
    }  # fmt: skip
    for language, (file, *parts) in expected.items():
        assert language.file(made.name) == file
        text = language.test(made)
        for part in ("Produce to orders … exit 0", "Call the code under test here, as `npm test` does", *parts):
            assert part in text


def test_a_report_has_a_test_in_the_language_of_the_command(tmp_path: Path) -> None:
    stored = {
        "orders": [
            StoredRecord("orders", 0, offset, 0, b"k", b"order-%d" % offset, (), -1, -1, -1, False, False)
            for offset in range(2)
        ],
        "audit": [StoredRecord("audit", 0, 0, 0, None, b"\xff", (), -1, -1, -1, False, False)],
    }
    plain = Run(0, 0.1, stored=stored)
    exploration = Exploration(Application(["npm", "test"], {"topics": ["orders:3"]}, thread=None))
    exploration.compare(plain, plain)
    case = {"id": "x", "api": "Produce", "nth": 1, "fault": {"kind": "lose_ack", "api": "Produce", "nth": 1}}
    write_cases(exploration, [{**case, "outcomes": ["lost"], "sentence": "exit 0, 1 record missing"}], tmp_path)
    assert [path.name for path in (tmp_path / "tests").iterdir()] == ["lost-1.test.mjs"]
    text = (tmp_path / "tests" / "lost-1.test.mjs").read_text(encoding="utf-8")
    assert 'topics: ["orders:3", "audit"]' in text
    assert '{ key: "k", value: "order-1" }' in text
    assert text.count("assertRecords") == 1  # the record of audit is not a text


def test_only_text_is_compared() -> None:
    assert comparable([(None, b"a"), (b"k", b"b")]) == [(None, "a"), ("k", "b")]
    for records in ([(None, b"\xff")], [(None, b"a\nb")], [(None, None)], [(None, b"a")] * 21, []):
        assert comparable(records) is None
