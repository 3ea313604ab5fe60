"""The audit on Spark from end to end: known faults, clean logs, a live broker, and the in-memory audit as its oracle."""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import (
    Fault,
    Writer,
    application_duplicate,
    epoch_duplicate,
    make_directory,
    session_duplicate,
)
from wirebroker import MockKafka, __version__
from wirebroker.audit import what_if
from wirebroker.audit.checks import Bounds, check_partition
from wirebroker.audit.findings import SEVERITIES, Finding, RecordRow
from wirebroker.audit.journal import Intended
from wirebroker.audit.reconcile import reconcile
from wirebroker.audit.stored import compacted_to, scan
from wirebroker.commands.cli import main
from wirebroker_audit.checks.reconcile import match_rows
from wirebroker_audit.command import show
from wirebroker_audit.job import Result, audit
from wirebroker_audit.logs.directory import find_partitions
from wirebroker_audit.request import Request
from wirebroker_audit.spark import tables
from wirekit import RawProducer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

SAID = (
    "kind",
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "first_sequence",
    "last_sequence",
    "first_offset",
    "last_offset",
)
NOT_BY_BATCH = frozenset(
    {"epoch_duplicate", "session_duplicate", "application_duplicate", "partition_duplicate", "lost", "unacknowledged_stored"}
)


def said(findings: Iterable[Any]) -> Counter[tuple[Any, ...]]:
    """Counts findings by fields and explanation, to compare two audits. Explanations of damage differ between the audits, so
    they are left out."""
    return Counter(
        (*(getattr(each, name) for name in SAID), each.explanation if each.kind not in ("bad_batch", "torn_tail") else "")
        for each in findings
    )


def found_in(spark: SparkSession, out: Path) -> list[Finding]:
    """Reads the findings that are stored in a report."""
    rows = spark.read.parquet(str(out / "findings")).select(*Finding._fields).collect()
    return [Finding(**row.asDict()) for row in rows]


def difference(one: Counter[Any], other: Counter[Any]) -> tuple[list[Any], list[Any]]:
    return sorted((one - other).elements()), sorted((other - one).elements())


# A directory with known faults


def matches(fault: Fault, found: Finding) -> bool:
    return (
        (fault.kind, fault.topic, fault.partition) == found[:1] + found[2:4]
        and fault.first_sequence in (-1, found.first_sequence)
        and fault.first_offset in (-1, found.first_offset)
    )


@pytest.mark.parametrize("together", [True, False], ids=["in the driver", "by executors"])
def test_every_fault_is_found_and_nothing_else(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    monkeypatch.setattr(tables, "FEW", 0)  # so that no intermediate table counts as small
    made = make_directory(tmp_path / "logs", seed=12, partitions=40)
    assert len({fault.kind for fault in made.faults}) == 13
    result = audit(spark, Request(tmp_path / "out", tmp_path / "logs", together=together))
    findings = found_in(spark, tmp_path / "out")
    left = list(made.faults)
    unexplained = []
    for found in findings:
        fault = next((each for each in left if matches(each, found)), None)
        if fault is None:
            unexplained.append(found)
        else:
            left.remove(fault)
    assert left == []
    assert unexplained == []
    assert result.exit_code == 1
    check_words(findings)
    check_report(tmp_path / "out", result, findings)
    check_against_oracle(tmp_path / "logs", findings)


def check_words(findings: list[Finding]) -> None:
    """Checks explanations that are easy to get wrong."""
    said = [each.explanation for each in findings]
    assert any(": a marker of producer 8019 epoch 0 is stored at offset" in each for each in said)
    assert any(re.search(": 5 of sequences .* stored twice: from .* at offset .* to .* at offset", each) for each in said)


def check_report(out: Path, result: Result, findings: list[Finding]) -> None:
    assert json.loads((out / "summary.json").read_text()) == result.summary
    assert result.summary["findings"] == dict(Counter(each.kind for each in findings))
    page = (out / "report.html").read_text()
    assert page.rstrip().endswith("</html>")
    assert page.count("<svg") >= 8, "each picture in two widths"
    assert result.summary["version"] == __version__
    assert all(result.summary[name] in page for name in ("audited_at", "host", "version"))
    assert {(each["kind"], each["severity"]): each["count"] for each in result.summary["kinds"]} == Counter(
        (each.kind, each.severity) for each in findings
    )
    severities = [each["severity"] for each in result.summary["kinds"]]
    assert severities == sorted(severities, key=SEVERITIES.index)
    assert "src=" not in page
    assert "<script" not in page
    assert not list(out.parent.glob(".*partial"))


def check_against_oracle(logs: Path, findings: list[Finding]) -> None:
    """Compares the findings with the findings of the in-memory audit. A partition with a wrong batch length is not compared,
    because the in-memory audit does not find the batch after it.
    """
    for partition in find_partitions(logs):
        where = (partition.topic, partition.partition)
        entries, cleaned_to = [], max(partition.cleaned_until, 0)
        for path in sorted(partition.path.glob("*.log")):
            data = memoryview(path.read_bytes())
            rows = list(scan(data, *where, f"{partition.path.name}/{path.name}"))
            shown = (compacted_to(row, data[row.position : row.position + row.bytes]) for row in rows)
            cleaned_to = max(cleaned_to, *shown, -1)
            entries += rows
        expected = check_partition(entries, Bounds(partition.log_start, cleaned_to))
        mine = [each for each in findings if each[2:4] == where and each.kind not in NOT_BY_BATCH]
        if any("up to the" in each.evidence and "its length is" in each.evidence for each in mine):
            continue
        if any("its header announces" in each.evidence for each in mine):
            continue
        assert difference(said(mine), said(expected)) == ([], []), where


def test_a_clean_directory_has_no_finding(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make_directory(tmp_path / "logs", seed=3, partitions=9, faults=())
    assert made.faults == []
    assert main(["audit", "--path", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--topic", "topic1"]) == 0
    out = capsys.readouterr().out
    assert "no finding" in out
    assert "topic1" in out
    assert "topic0" not in out


def test_a_policy_decides_what_counts(spark: SparkSession, tmp_path: Path) -> None:
    for topic in ("orders", "noise", "scratch"):
        writer = Writer(topic, 0, random.Random(1))
        for value in (b"one", b"one"):
            writer.data(5, values=[value])
        writer.sequences[5, 0] += 3
        writer.data(5, values=[b"two"])
        writer.save(tmp_path / "logs")
    policy = tmp_path / "policy.toml"
    policy.write_text(
        "[topics.orders]\nignore = ['gap']\nseverity = {application_duplicate = 'info'}\n"
        "[topics.noise]\nfail_on = 'never'\n[topics.scratch]\nignore = true"
    )
    result = audit(spark, Request(tmp_path / "out", tmp_path / "logs", policy=str(policy)))
    assert [(each["topic"], each["kind"], each["severity"], each["fails"]) for each in result.summary["by_topic"]] == [
        ("noise", "gap", "certain", False),
        ("noise", "application_duplicate", "likely", False),
        ("orders", "application_duplicate", "info", False),
    ]
    assert list(result.summary["topics"]) == ["noise", "orders"]
    assert any("ignores scratch" in each for each in result.summary["notices"])
    assert result.exit_code == 0
    assert "Earlier audits" not in (tmp_path / "out" / "report.html").read_text()
    again = audit(spark, Request(tmp_path / "out", tmp_path / "logs", topics=("noise",)))
    history = json.loads((tmp_path / "out" / "history.json").read_text())
    assert [(each["time"], each["failing"]) for each in history] == [(result.summary["time"], 0), (again.summary["time"], 2)]
    assert "Earlier audits" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.slow
def test_a_large_log_is_compared_batch_by_batch(spark: SparkSession, tmp_path: Path) -> None:
    faults = (epoch_duplicate, session_duplicate, application_duplicate)
    made = make_directory(tmp_path / "logs", seed=8, partitions=6, faults=faults)
    made_up = [fault for fault in made.faults if fault.kind != "torn_tail"]
    assert len({fault.kind for fault in made_up}) == 3
    audit(spark, Request(tmp_path / "out", tmp_path / "logs", records_limit=0))
    found = [each for each in found_in(spark, tmp_path / "out") if each.kind != "torn_tail"]
    told = [Fault(each.kind, each.topic, each.partition, each.first_sequence, each.first_offset) for each in found]
    assert sorted(told) == sorted(made_up)


# A live broker


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterable[dict[str, Any]]:
    """Raw producers play the flows B4 to B9 and A16. One audit of the live broker reads the logs, the trace and a journal."""
    folder = tmp_path_factory.mktemp("story")
    with MockKafka(topics={"orders": 1, "plain": 1, "spread": 2}) as kafka:
        six_in_flight(kafka)
        for _ in range(2):
            RawProducer(kafka, "plain").raw(plain_batch())
        for partition in (0, 1):
            RawProducer(kafka, "spread", partition).send(0, 1)
        RawProducer(kafka, "spread", 1).send(5, 6)
        trace = folder / "trace.jsonl"
        trace.write_text("".join(row.as_json() + "\n" for row in kafka.trace.produce()) + "no row\n")
        journal = folder / "journal.jsonl"
        lines = [{"topic": "orders", "value": f"v{number}", "acknowledged": number != 3} for number in range(7)] + [
            {"topic": "orders", "value": "never sent"}
        ]
        journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
        request = Request(folder / "out", bootstrap=kafka.bootstrap_servers, trace=str(trace), intended=str(journal))
        result = audit(spark, request)
        by_executors = replace(request, out=folder / "other", together=False)
        yield {
            "result": result, "other result": audit(spark, by_executors), "other": found_in(spark, by_executors.out),
            "findings": found_in(spark, folder / "out"),
            "oracle": kafka.audit(intended=lines), "arrivals": kafka.trace.produce(),
        }  # fmt: skip


def plain_batch() -> bytes:
    from wirekit import batch

    return batch(count=2, tag="p", timestamp=1_700_000_000_000)


def six_in_flight(kafka: MockKafka) -> None:
    """Flow B4: six batches are in flight, and the first ack is lost. The retry is too late, so the producer bumps its epoch."""
    producer = RawProducer(kafka)
    for sequence in range(6):
        producer.send(sequence)
    producer.send(0)
    producer.send(0, epoch=1)


def test_b4_b7_b8_b9_the_findings_over_the_wire_are_those_of_the_audit_in_the_small(story: dict[str, Any]) -> None:
    assert difference(said(story["findings"]), said(story["oracle"].findings)) == ([], [])
    kinds = {each.kind for each in story["findings"]}
    assert {"epoch_duplicate", "application_duplicate", "partition_duplicate", "lost", "unacknowledged_stored"} <= kinds
    severities = {(each.kind, each.severity) for each in story["findings"]}
    assert severities == {(each.kind, each.severity) for each in story["oracle"].findings}


def test_a_small_log_is_audited_in_the_driver_as_by_executors(story: dict[str, Any]) -> None:
    assert sorted(story["findings"]) == sorted(story["other"])
    one, other = (story[name].summary for name in ("result", "other result"))
    assert len(one) > 10
    assert {name for name in one if one[name] != other[name]} <= {"time", "audited_at"}


def test_a16_other_windows_are_judged_as_the_audit_in_the_small_judges_them(story: dict[str, Any]) -> None:
    outcomes = {each["variant"]: each for each in story["result"].summary["what_if"]}
    for oracle in what_if(story["arrivals"], windows=(1, 2, 5, 10)):
        mine = outcomes[f"window {oracle.rules.window}"]
        for name in ("accepted", "recognised", "rejected", "beyond", "records", "state_bytes"):
            assert mine[name] == getattr(oracle, name), (oracle.rules.window, name)
        for name in ("saved", "lost", "doubled"):
            assert mine[name] == len(getattr(oracle, name)), (oracle.rules.window, name)
    assert (outcomes["window 5"]["saved"], outcomes["window 10"]["saved"]) == (0, 1)
    assert outcomes["no idempotence"]["recognised"] == 0


def test_a_line_that_is_no_row_of_a_trace_is_counted(story: dict[str, Any]) -> None:
    assert any("1 lines are not rows of a trace" in each for each in story["result"].summary["notices"])


# Bad input


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--path", "nowhere"], "nowhere does not exist"),
        (["--path", "."], "holds no partition"),
        (["--bootstrap", "127.0.0.1:1"], "127.0.0.1:1"),
        (["--bootstrap", "nonsense"], "is not host:port"),
        (["--path", "logs", "--trace", "none.jsonl"], "--trace none.jsonl: there is no such file"),
        (["--path", "logs", "--out", "taken"], "is not a report of an audit"),
        (["--path", "logs", "--out", "likely"], "is not a report of an audit"),
    ],
)
def test_what_cannot_be_audited_is_said_at_once(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_directory(tmp_path / "logs" / "inner", seed=1, partitions=1, faults=())
    Path("taken").mkdir()
    Path("likely", "batches").mkdir(parents=True)
    for name in ("taken/precious", "likely/summary.json", "likely/precious"):
        Path(name).write_text("{}")
    assert main(["audit", *(["--out", "out"] if "--out" not in flags else []), *flags]) == 2
    assert words in capsys.readouterr().err
    assert not Path("out").exists()
    assert Path("taken", "precious").exists()
    assert Path("likely", "precious").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--path", "logs", "--out", "file/out"], "file/out"),
        (["--path", "gone", "--out", "out"], "gone does not exist"),
        (["--bootstrap", "127.0.0.1:1", "--out", "out"], "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_followed_is_said_in_a_sentence(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checks the errors that are found before Spark starts to read."""
    monkeypatch.chdir(tmp_path)
    make_directory(tmp_path / "logs", seed=1, partitions=1, faults=())
    Path("file").write_text("")
    context = SimpleNamespace(defaultParallelism=1, statusTracker=lambda: None, setLogLevel=lambda _: None)
    monkeypatch.setattr("wirebroker_audit.spark.session.get_session", lambda *given: SimpleNamespace(sparkContext=context))
    monkeypatch.setattr(Request, "check", lambda *given: None)
    assert main(["audit", "--follow", "1", *flags]) == 2
    (said,) = [line for line in capsys.readouterr().err.splitlines() if not line.endswith("…")]
    assert said.startswith("wirebroker audit: ")
    assert words in said


def test_the_findings_of_every_audit_are_appended_to_a_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_directory(tmp_path / "logs", seed=2, partitions=2)
    command = ["audit", "--path", str(tmp_path / "logs"), "--out", str(tmp_path / "out"), "--findings-table"]
    assert main([*command, "nowhere.lake.findings"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "out").exists(), "the audit has not started"
    spark.sql(f"CREATE DATABASE lake LOCATION '{tmp_path / 'lake'}'")
    try:
        for _ in range(2):
            assert main([*command, "parquet:lake.findings"]) == 1
        stored = spark.table("lake.findings")
        assert stored.count() == 2 * len(made.faults)
        assert [row.asDict() for row in stored.select("audited", "host").distinct().collect()] == [
            {"audited": str(tmp_path / "logs"), "host": socket.gethostname()}
        ]
        assert stored.select("audited_at").distinct().count() == 2
    finally:
        spark.sql("DROP DATABASE lake CASCADE")
    assert main([*command, f"json:{tmp_path / 'folder'}"]) == 1
    assert spark.read.json(str(tmp_path / "folder")).count() == len(made.faults)


def test_where_nothing_is_stored_nothing_is_found(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with MockKafka(topics=["orders"], data=tmp_path / "logs") as kafka:
        assert audit(spark, Request(Path("live"), bootstrap=kafka.bootstrap_servers)).exit_code == 0
    assert main(["audit", "--path", "logs", "--out", "out"]) == 0
    assert "no finding" in capsys.readouterr().out
    (tmp_path / "sent.jsonl").write_text('{"topic": "orders", "value_base64": "!"}\n')
    assert main(["audit", "--path", "logs", "--out", "out", "--intended", str(tmp_path / "sent.jsonl")]) == 2
    assert "sent.jsonl, line 1: value_base64 is not base64" in capsys.readouterr().err
    (tmp_path / "sent.parquet").write_text("x")
    assert main(["audit", "--path", "logs", "--out", "out", "--intended", str(tmp_path / "sent.parquet")]) == 2
    assert "sent.parquet: the file is not Parquet" in capsys.readouterr().err


@pytest.mark.parametrize("journal", [False, True])
def test_a_key_may_be_deleted_again(spark: SparkSession, tmp_path: Path, journal: bool) -> None:
    with MockKafka(topics=["orders"], data=tmp_path / "logs") as kafka:
        for value in (b"a", None, b"b", None):
            kafka.produce("orders", key=b"17", value=value)
    if journal:
        (tmp_path / "sent.jsonl").write_text('{"topic": "orders", "key": "17", "value": "a"}\n')
    intended = str(tmp_path / "sent.jsonl") if journal else None
    assert audit(spark, Request(tmp_path / "out", tmp_path / "logs", intended=intended)).summary["kinds"] == []


def test_the_journal_is_matched_as_the_audit_in_the_small_matches_it() -> None:
    chance = random.Random(9)
    for _ in range(500):
        partitions = [chance.randrange(3) for _ in range(chance.randint(0, 5))]
        wishes = [(chance.choice([None, 0, 1, 2]), chance.choice([None, True, False])) for _ in range(chance.randint(1, 5))]
        stored = [
            {"partition": where, "base_offset": n, "last_offset": n, "timestamp": n, "producer_id": 1, "producer_epoch": 0,
             "base_sequence": n, "last_sequence": n}
            for n, where in enumerate(partitions)
        ]  # fmt: skip
        wanted = [{"partition": where, "acknowledged": said, "producer": "till 3"} for where, said in wishes]
        made = Counter(row["outcome"] for row in match_rows(stored, wanted))
        rows = [RecordRow("t", where, n, n, 1, 0, n, "none", b"k", "v", "c") for n, where in enumerate(partitions)]
        journal = [Intended("t", b"k", None, where, said, "till 3", "v") for where, said in wishes]
        told = Counter(each.kind for each in reconcile(rows, journal))
        assert made["missing"] == told["lost"]
        assert made["failed"] == told["unacknowledged_stored"]
        copies = sum(each.last_offset - each.first_offset + 1 for each in reconcile(rows, journal) if "duplicate" in each.kind)
        assert made["beyond"] == copies


def test_two_batches_at_one_offset_are_two(spark: SparkSession, tmp_path: Path) -> None:
    log = Writer("orders", 0, random.Random(3))
    for value in (b"one", b"two"):
        log.data(5, values=[value], attributes=0x10)
        log.offset = 0
    log.offset = 1
    log.end(5, 0, commit=True)
    log.save(tmp_path / "logs")
    audit(spark, Request(tmp_path / "out", tmp_path / "logs"))
    assert [each.kind for each in found_in(spark, tmp_path / "out")] == ["offset_regression"]


def broken(writer: Writer, at: int, how: str) -> None:
    """Damages the batch with the index `at`. Afterwards more than its checksum is wrong."""
    raw = bytearray(writer.pieces[at])
    if how == "torn":
        del raw[70:]
    elif how == "magic":
        raw[16] = 7
    elif how == "length":
        raw[8:12] = (3).to_bytes(4, "big")
    else:
        raw[:] = bytes(len(raw))
    writer.pieces[at] = bytes(raw)


def test_a_transaction_whose_batch_is_damaged_is_told_of_once(spark: SparkSession, tmp_path: Path) -> None:
    cases = [("torn", 1), *((how, at) for how in ("magic", "length") for at in (0, 1)), ("zeros", 0)]
    for number, (how, at) in enumerate(cases):
        writer = Writer("orders", number, random.Random(number))
        writer.data(1, attributes=16)
        writer.end(1, 0, True)
        if how != "torn":
            writer.data(2, count=3)
        broken(writer, at, how)
        writer.save(tmp_path / "logs")
    result = audit(spark, Request(tmp_path / "out", tmp_path / "logs"))
    assert result.summary["findings"] == {"bad_batch": 5, "torn_tail": 1}


def test_what_changes_while_it_is_audited(spark: SparkSession, tmp_path: Path) -> None:
    """An audit does not read records that are appended after its start. It reports records that are deleted while it runs."""
    logs = tmp_path / "logs"
    growing, vanishing = Writer("growing", 0, random.Random(1)), Writer("vanishing", 0, random.Random(2))
    for writer in (growing, vanishing):
        writer.data(1)
        writer.save(logs)

    def meanwhile(stage: str) -> None:
        if stage.startswith("comparing") and (logs / "vanishing-0").exists():
            shutil.rmtree(logs / "vanishing-0")
            shutil.rmtree(logs / "growing-0")
            for producer_id, commit in ((2, False), (3, True)):
                growing.data(producer_id, values=[b"sent again"], attributes=16)
                growing.end(producer_id, 0, commit)
            growing.save(logs)

    result = audit(spark, Request(tmp_path / "out", logs), meanwhile)
    assert result.summary["findings"] == {}
    assert result.summary["topics"]["growing"]["batches"] == 1
    assert result.summary["problems"] == [f"{logs / 'vanishing-0'} no longer exists: the topic was deleted"]
    assert result.exit_code == 2


def test_of_many_topics_the_largest_are_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    counts = dict.fromkeys(("partitions", "records", "producers", "committed", "aborted"), 1)
    topics = {f"topic{n:04}": counts | {"batches": n} for n in range(5000)}
    summary = {"topics": topics, "kinds": [], "what_if": [], "notices": [], "problems": []}
    show(Result(summary, []), Console(highlight=False), tmp_path)
    out = capsys.readouterr().out
    assert "topic4999" in out
    assert "topic0007" not in out
    assert "4,960 smaller topics" in out
    assert len(out.splitlines()) < 50


def test_what_could_not_be_read_is_said_and_the_report_is_not_called_whole(spark: SparkSession, tmp_path: Path) -> None:
    make_directory(tmp_path / "logs", seed=2, partitions=1, faults=())
    (tmp_path / "logs" / "topic0-0" / f"{10**6:020d}.log").symlink_to(tmp_path / "gone")
    result = audit(spark, Request(tmp_path / "out", tmp_path / "logs"))
    assert result.exit_code == 2
    assert str(10**6) in result.summary["problems"][0]
    assert "not complete" in (tmp_path / "out" / "report.html").read_text()
    (tmp_path / "journal.jsonl").write_text('{"topic": "a"}\n{"topic": "b", "vallue": "x"}\n')
    with pytest.raises(Exception, match="line 2: there is no field 'vallue'; did you mean 'value'"):
        audit(spark, Request(tmp_path / "other", tmp_path / "logs", intended=str(tmp_path / "journal.jsonl")))
    assert not (tmp_path / "other").exists()
