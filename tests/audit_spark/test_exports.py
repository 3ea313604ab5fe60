"""Exports findings to other programs, and applies the policies that decide which findings fail an audit. No Spark here."""

from __future__ import annotations

import json
import lzma
import random
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

from audit_spark.synthetic import Writer
from wirebroker import MockKafka
from wirebroker.audit.findings import Finding
from wirebroker.commands.cli import build_parser, main
from wirebroker_audit.command import first_line
from wirebroker_audit.inputs.policy import BadPolicy, Policies, read_policies
from wirebroker_audit.job import Result
from wirebroker_audit.logs.places import input_path, local_path
from wirebroker_audit.report import exports, formats
from wirebroker_audit.request import CannotAudit, Request
from wirebroker_audit.wire import BrokerError

DATA = Path(__file__).parents[1] / "data"


def finding(topic: str, kind: str = "gap", severity: str = "certain", offset: int = 7, words: str = "") -> dict[str, Any]:
    words = words or f"{topic}-0: {kind} at {offset}"
    return Finding(kind, severity, topic, 0, 12, 0, 5, 6, offset, offset, '{"a": 1}', words)._asdict() | {
        "id": f"{topic}/{kind}/{offset}"
    }  # type: ignore[arg-type]


FINDINGS = [
    finding("orders"), finding("orders", offset=9, words="a < b & \x00 \N{SNOWMAN}"),
    finding("orders", "partition_duplicate", "likely"), finding('pay"ments\\', "marker_without_data", "info"),
]  # fmt: skip
COUNTS = dict.fromkeys(("partitions", "batches", "records", "bytes", "producers", "committed", "aborted"), 3)


def summary(**given: Any) -> dict[str, Any]:
    return {
        "complete": True, "origin": "logs", "time": "2026-01-02T03:04:05.678+00:00", "host": "h", "version": "1.2.3",
        "problems": [], "notices": ["a note"], "findings": {"gap": 2, "partition_duplicate": 1, "marker_without_data": 1},
        "topics": dict.fromkeys(("orders", "empty", 'pay"ments\\'), COUNTS),
        "by_topic": [
            {"topic": "orders", "kind": "gap", "severity": "certain", "count": 25, "fails": True},
            {"topic": "orders", "kind": "partition_duplicate", "severity": "likely", "count": 1, "fails": False},
            {"topic": 'pay"ments\\', "kind": "marker_without_data", "severity": "info", "count": 1, "fails": False},
        ],
    } | given  # fmt: skip


# Formats


def test_junit_has_a_case_for_each_topic_that_is_well_and_each_kind_that_is_not() -> None:
    root = ET.fromstring(formats.junit(summary(problems=["x.log: denied"]), FINDINGS))
    (suite,) = root.iter("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "1")
    cases = {(case.get("classname"), case.get("name")): [each.tag for each in case] for case in root.iter("testcase")}
    assert cases == {
        ("orders", "gap"): ["failure"], ("empty", "delivered exactly once"): [],
        ('pay"ments\\', "delivered exactly once"): [], ("wirebroker audit", "everything was read"): ["error"],
    }  # fmt: skip
    (failure,) = root.iter("failure")
    assert (failure.text or "").splitlines() == [
        "orders-0: gap at 7",
        "a < b & \N{REPLACEMENT CHARACTER} \N{SNOWMAN}",
        "… and 23 more",
    ]
    assert (failure.get("message") or "").startswith("25 × sequences")


def test_sarif_is_valid() -> None:
    with lzma.open(DATA / "sarif-2.1.0.schema.json.xz") as file:
        schema = json.load(file)
    for about in (summary(), summary(complete=False, problems=["x.log: denied"])):
        made = json.loads(formats.sarif(about, FINDINGS))
        assert list(Draft7Validator(schema).iter_errors(made)) == []
    (run,) = made["runs"]
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [
        ("gap", "error"), ("gap", "error"), ("partition_duplicate", "warning"), ("marker_without_data", "note"),
    ]  # fmt: skip
    assert all(run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    assert len({each["partialFingerprints"]["finding/v1"] for each in run["results"]}) == 4
    assert len(json.loads(formats.sarif(summary(), FINDINGS * 2000))["runs"][0]["results"]) == formats.RESULTS


def test_prometheus_text() -> None:
    lines = formats.prometheus(summary()).splitlines()
    label = r'[a-z]+="(?:[^"\\\n]|\\[\\"n])*"'
    sample = re.compile(rf"wirebroker_audit_[a-z_]+(?:\{{{label}(?:,{label})*\}})? [0-9]+")
    assert [line for line in lines if not line.startswith("# ") and not sample.fullmatch(line)] == []
    assert 'wirebroker_audit_findings{topic="orders",kind="gap",severity="certain"} 25' in lines
    assert 'wirebroker_audit_failing_findings{topic="empty"} 0' in lines
    assert r'wirebroker_audit_records{topic="pay\"ments\\"} 3' in lines
    assert "wirebroker_audit_time_seconds 1767323045" in lines


def test_a_file_is_written_from_the_findings_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "findings").mkdir()
    pq.write_table(pa.Table.from_pylist(FINDINGS), tmp_path / "findings" / "part.parquet")
    for name in formats.FORMATS:
        formats.write_format(name, tmp_path / name, summary(), tmp_path)
        assert "orders" in (tmp_path / name).read_text(encoding="utf-8")
    assert not list(tmp_path.glob(".*"))


def test_findings_as_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "BATCH_RECORDS", 1)
    with MockKafka(topics={"findings": 3}) as kafka:
        where = f"{kafka.bootstrap_servers}/findings"
        exports.send(where, summary(), FINDINGS)
        exports.send(where, summary(), FINDINGS)
        records = kafka.records("findings")
        told = [json.loads(each.value or b"") for each in records]
        assert sorted(each["explanation"] for each in told) == sorted(2 * [each["explanation"] for each in FINDINGS])
        assert {(each["origin"], each["version"], each["evidence"]["a"]) for each in told} == {("logs", "1.2.3", 1)}
        assert len({each.key for each in records}) == 4, "a finding has the same key in both exports"
        assert len({(each.key, each.partition) for each in records}) == 4
        with pytest.raises(BrokerError, match="has no topic other"):
            exports.send(f"{kafka.bootstrap_servers}/other", summary(), FINDINGS)
    with pytest.raises(BrokerError, match="expected host:port/topic"):
        exports.send("localhost:9092", summary(), FINDINGS)


# Policies

POLICY = """
fail_on = "certain"
[topics."*-changelog"]
compacted = true
[topics.payments]
fail_on = "likely"
ignore = ["partition_duplicate"]
severity = { application_duplicate = "certain" }
[topics."scratch.*"]
ignore = true
[topics."*"]
fail_on = "never"
"""


def test_a_topic_has_the_first_policy_that_matches(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    policies = read_policies(str(path), None)
    assert policies.of("a-changelog").compacted
    assert policies.of("scratch.1").skip
    assert policies.of("payments").fails("likely")
    assert not policies.of("payments").fails("info")
    assert policies.of("a-changelog").fails("certain")
    assert not policies.of("a-changelog").fails("likely")
    assert not policies.of("other").fails("certain")
    assert policies.severities(["payments", "other"]) == [
        ("payments", "application_duplicate", "certain"), ("payments", "partition_duplicate", "ignored"),
    ]  # fmt: skip
    assert read_policies(str(path), "likely").of("other").fails("likely"), "the flag overrides the file"
    assert Policies().of("any").fails("likely"), "by default a likely finding fails the audit"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fail_on =", "this is not TOML"),
        ("fail_on = 'sure'", "fail_on: 'sure' is not known; expected one of certain, likely, never"),
        ("fail-on = 'certain'", "there is no setting 'fail-on'; did you mean 'fail_on'?"),
        ("[topics.orders]\nignore = ['gapp']", "topics.orders: 'gapp' is not known; did you mean 'gap'?"),
        ("[topics.orders]\nignore = 'gap'", "topics.orders.ignore: expected true or a list of kinds"),
        ("[topics.orders]\nseverity = {gap = 'bad'}", "topics.orders.severity.gap: 'bad' is not known"),
        ("[topics.orders]\ncompacted = 1", "expected true or false"),
        ("topics = 3", "expected tables"),
    ],
)
def test_what_is_wrong_with_a_policy_is_said(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(BadPolicy, match=re.escape(words)) as caught:
        read_policies(str(path), None)
    assert str(path) in str(caught.value)


def test_the_exit_code() -> None:
    for failing, complete, code in ((0, True, 0), (3, True, 1), (0, False, 2), (3, False, 2)):
        assert Result({"failing": failing, "complete": complete}).exit_code == code


# Before Spark starts


def test_a_broken_journal_and_an_unknown_topic_are_told_before_spark_starts(tmp_path: Path) -> None:
    journal, table = tmp_path / "sent.jsonl", tmp_path / "sent.parquet"
    journal.write_text('{"topic": "a"}\n\n{"topic": "b", "vallue": "x"}\n')
    pq.write_table(pa.table({"topic": ["a"], "valeu": ["x"]}), table)
    with MockKafka(topics=["orders"], data=tmp_path / "logs") as kafka:
        for wrong, words in (
            (journal, "line 3: there is no field 'vallue'"),
            (table, "no field 'valeu'; did you mean 'value'"),
        ):
            with pytest.raises(CannotAudit, match=words):
                Request(tmp_path / "out", bootstrap=kafka.bootstrap_servers, intended=str(wrong)).check()
        with pytest.raises(CannotAudit, match="has no topic ordres"):
            Request(tmp_path / "out", bootstrap=kafka.bootstrap_servers, topics=("ordres",)).check()
    with pytest.raises(CannotAudit, match="holds no topic ordres"):
        Request(tmp_path / "out", tmp_path / "logs", topics=("ordres",)).check()
    table.write_bytes(b"no table")
    with pytest.raises(CannotAudit, match="is not Parquet"):
        Request(tmp_path / "out", tmp_path / "logs", intended=str(table)).check()


def test_file_addresses_are_paths() -> None:
    for text, path in (
        ("logs", "logs"), ("/a:/b", "/a:/b"), ("C:/logs", "C:/logs"), ("file:/a/b", "/a/b"), ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"), ("FILE:/a", "/a"),
    ):  # fmt: skip
        assert local_path(text, "--path") == Path(path)
        assert input_path(text, "--intended") == path
    assert input_path("s3a://bucket/sent", "--intended") == "s3a://bucket/sent", "Spark may be able to open the address"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--junit", "."], ": this is a directory"),
        (["--junit", "file/x.xml"], "file/x.xml: its parent is a file and not a directory"),
        (["--intended", "empty"], "--intended empty: the directory holds no file"),
        (["--path", "ftp://host/logs"], "--path ftp://host/logs: the audit cannot open ftp: addresses"),
        (["--path", "s3a://bucket/logs", "--follow", "1"], "--follow reads paths of this machine, not s3a:"),
        (["--follow", "1", "--since", "."], "--since does not work together with --follow"),
        (["--since", "."], "this is not a report that an audit can continue"),
        (["--max-rate", "1k"], "--max-rate does nothing without --bootstrap"),
        (["--command-config", "x"], "--command-config does nothing without --bootstrap or --findings-to"),
        (["--out", "hdfs:/reports/x"], "--out hdfs:/reports/x: the audit cannot open hdfs: addresses"),
        (["--sarif", "file://host/x"], "the address names the host host"),
        (["--path", "file:///no/such place"], "/no/such place does not exist"),
        (["--findings-to", "127.0.0.1:9"], "expected host:port/topic"),
        (["--policy", "none.toml"], "--policy none.toml: there is no such file"),
        (["--follow", "1", "--sarif", "x"], "--sarif does not work together with --follow"),
        (["--follow", "1", "--policy", "x"], "--policy does not work together with --follow"),
        (["--follow", "1", "--findings-table", "x"], "--findings-table does not work together with --follow"),
    ],
)
def test_flags_that_cannot_be_met_are_refused_at_once(
    flags: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("empty").mkdir()
    monkeypatch.setattr("wirebroker_audit.spark.session.get_session", lambda *given: pytest.fail("Spark was started"))
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(["audit", *([] if "--path" in flags else ["--path", "."]), "--out", "out", *flags]))
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--memory", "lots"], "expected a size of at least 512m, like 4g, not 'lots'"),
        (["--memory", "300m"], "at least 512m"),
        (["--records-limit", "-1"], "expected a whole number from 0"),
        (["--master", "nonsense"], "expected local[*], spark://host:port, yarn or k8s://…, not 'nonsense'"),
    ],
)
def test_flags_that_spark_or_java_would_refuse_are_refused_at_once(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["audit", "--path", ".", "--out", "out", *flags])
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag", ["local", "local[*]", "local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host"]
)
def test_masters_that_spark_has(flag: str) -> None:
    assert (
        build_parser().parse_args(["audit", "--path", ".", "--out", "out", "--master", flag, "--memory", "2G"]).master == flag
    )


@pytest.mark.parametrize("place", ["report", "orders-0/report", "link/report"])
def test_a_report_may_not_lie_in_a_log_directory(place: str, tmp_path: Path) -> None:
    """Kafka does not start if its log directory has a folder that is not a partition's folder."""
    logs = tmp_path / "logs"
    Writer("orders", 0, random.Random(1)).save(logs)
    (tmp_path / "link").symlink_to(logs)
    out = (tmp_path if place.startswith("link") else logs) / place
    for path in (logs, logs / "orders-0", tmp_path):
        with pytest.raises(CannotAudit, match="lies in the log directory .*/logs, and a broker refuses to start"):
            Request(out, path).check()
    Request(tmp_path / "report", tmp_path).check()


def test_the_class_of_a_java_exception_is_not_part_of_the_sentence() -> None:
    assert first_line(Exception("An error occurred while calling o1.x.\n: org.apache.X$Y: [NO] It is not there: x")) == (
        "[NO] It is not there: x"
    )
