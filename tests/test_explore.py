"""`wirebroker explore` runs two sorts of applications: applications with a known bug, and correct applications. Each run has
one fault.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kafkawire.errors import ErrorCode
from kafkawire.registry import KEYS
from wirebroker import MockKafka, faults
from wirebroker.commands.cli import main
from wirebroker_tools.campaign import application
from wirebroker_tools.campaign.application import Output
from wirebroker_tools.campaign.cases import Results, in_shard, play_all
from wirebroker_tools.campaign.errors import DONE, ERRORS, OF_LOST_DATA, OF_STATIC_MEMBERS, SINCE, WITHOUT_ID
from wirebroker_tools.campaign.exploration import Exploration
from wirebroker_tools.campaign.findings import UNREAD
from wirebroker_tools.campaign.in_pytest import REPORTED
from wirebroker_tools.campaign.misfortunes import Asked, Choice, Place, cases, places
from wirebroker_tools.campaign.outcomes import OUTCOMES
from wirebroker_tools.campaign.show import Screen
from wirebroker_tools.campaign.workers import workers
from wirekit import FEW_PLUGINS

pytest_plugins = ["pytester"]

HERE = Path(__file__).parent / "explored"
Explore = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def explore(tmp_path: Path) -> Explore:
    """Returns a function that explores an application from tests/explored. The function returns the exit code and the content
    of explore.json.
    """

    def run(application: str, *flags: str) -> tuple[int, dict[str, Any]]:
        name, *arguments = application.split()
        out = tmp_path / "report"
        code = main(
            ["explore", "--out", str(out), "--topic", "orders", *flags, "--", sys.executable, str(HERE / name), *arguments]
        )
        return code, json.loads((out / "explore.json").read_text()) if code != 2 else {}

    return run


FILL = ("--topic", "invoices", "--output", "invoices", "--setup", f"{sys.executable} {HERE / 'fill.py'}")


def test_results_that_nobody_looks_at_are_lost(explore: Explore, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = explore("fire_and_forget.py", "--api", "Produce", "--faults", "INVALID_RECORD,throttle")
    assert code == 1
    assert found["plain"]["requests"]["Produce"] == 6
    assert found["plain"]["stored"] == {"orders": 6}
    assert found["summary"]["lost"] == 3
    assert found["summary"]["as_before"] == 3
    lost = [run for run in found["runs"] if run["outcomes"] == ["lost"]]
    assert {run["nth"] for run in lost} == {1, 2, 6}
    assert lost[0]["fault"] == {
        "kind": "error", "api": "Produce", "client_id": "rdkafka", "topic": "orders", "nth": 1, "code": "INVALID_RECORD",
    }  # fmt: skip
    assert lost[0]["exit"] == 0
    assert lost[0]["missing"] == ["orders: key 'key-0' value 'order-0'"]
    assert lost[0]["again"] == "always"
    assert sorted(run["order"] for run in found["runs"]) == list(range(1, 7))
    (finding,) = found["findings"]
    assert finding["sentence"].startswith("Produce to orders: INVALID_RECORD … exit 0, 1 record missing")
    assert (finding["cause"], finding["look_at"]) == UNREAD
    assert finding["runs"] == [run["id"] for run in sorted(lost, key=lambda run: run["order"])]
    shown = capsys.readouterr().out
    assert "to try      6 faults: about " in shown
    assert f"usual cause: {finding['cause']}" in shown


def test_what_breaks_an_application_is_written_down(
    explore: Explore, tmp_path: Path, mock_kafka: MockKafka, pytester: pytest.Pytester
) -> None:
    junit, sarif = tmp_path / "found.xml", tmp_path / "found.sarif"
    flags = ("--api", "Produce", "--faults", "INVALID_RECORD", "--limit", "20")
    _, found = explore("fire_and_forget.py", *flags, "--junit", str(junit), "--sarif", str(sarif))
    assert [run["file"] for run in found["runs"]] == [f"faults/lost-{number}.toml" for number in (1, 2, 3)]
    (rule,) = mock_kafka.faults.load(tmp_path / "report" / "faults" / "lost-2.toml")
    assert str(rule) == str(faults.error("INVALID_RECORD", api="Produce", topic="orders", client_id="rdkafka", nth=6))
    written = tmp_path / "report" / "tests" / "test_lost_2.py"
    pytester.makepyfile(written.read_text())
    outcome = pytester.runpytest_subprocess(*FEW_PLUGINS)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines("*lost: exit 0, 1 record missing, such as orders: key 'key-1' value 'order-5'*")
    page = (tmp_path / "report" / "index.html").read_text()
    assert "never stored" not in page
    assert "INVALID_RECORD (nth 1, 2, 6)" in page
    assert "Produce v10" in page
    (suite,) = ET.fromstring(junit.read_text())
    assert (suite.get("tests"), suite.get("failures")) == ("3", "3")
    (run,) = json.loads(sarif.read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["lost"] * 3


@pytest.mark.parametrize(("arguments", "outcome"), [("", "lost"), ("asserting", "check_failed")])
def test_a_fault_outlives_the_reset_before_each_test(arguments: str, outcome: str, explore: Explore) -> None:
    """The application's second test empties the broker. Nevertheless, the records of both tests are compared, and a fault can
    hit the second test."""
    code, found = explore(f"attached.py {arguments}", "--api", "Produce", "--faults", "INVALID_RECORD")
    assert code == 1
    assert found["plain"]["stored"] == {"orders": 2}
    assert [(run["nth"], run["fired"], run["outcomes"], run["missing"][:1]) for run in found["runs"]] == [
        (1, 1, [outcome], ["orders: value 'first'"]), (2, 1, [outcome], ["orders: value 'second'"]),
    ]  # fmt: skip
    assert "the test says: orders: " in found["runs"][0]["sentence"] or not arguments


def test_tests_of_other_languages_run_one_after_the_other(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    names = ("GOFLAGS", "RUST_TEST_THREADS", "WIREBROKER_CONTROL")
    program = f"import os; open({str(seen)!r}, 'w').write('\\n'.join(map(os.environ.get, {names})))"
    main(["explore", "--out", str(tmp_path / "report"), "--", sys.executable, "-c", program])
    goflags, threads, control = seen.read_text().splitlines()
    assert (goflags.split()[-2:], threads) == (["-p=1", "-count=1"], "1")
    assert control.startswith("http://127.0.0.1:")


def test_a_baseline_has_what_is_known(explore: Explore, tmp_path: Path) -> None:
    flags = ("--api", "Produce", "--faults", "INVALID_RECORD")
    explore("fire_and_forget.py", *flags)
    known = tmp_path / "known.json"
    known.write_text((tmp_path / "report" / "explore.json").read_text())
    code, found = explore("fire_and_forget.py", *flags, "--baseline", str(known))
    assert code == 0
    assert found["summary"]["lost"] == 3


def test_retries_without_idempotence_double_and_reorder(explore: Explore) -> None:
    code, found = explore("retries.py", "--api", "Produce", "--faults", "crash_after_write,NOT_ENOUGH_REPLICAS")
    assert code == 1
    doubled = {run["fault"]["kind"] for run in found["runs"] if "doubled" in run["outcomes"]}
    reordered = {run["fault"].get("code") for run in found["runs"] if "reordered" in run["outcomes"]}
    assert doubled == {"crash_after_write"}
    assert reordered == {"NOT_ENOUGH_REPLICAS"}


def test_an_upgrade_is_tried_at_each_request(explore: Explore) -> None:
    flags = ("--profile", "kafka-3.9", "--api", "Produce", "--faults", "upgrade")
    code, found = explore("retries.py idempotent", *flags)
    assert code == 0
    assert {run["fault"]["kind"] for run in found["runs"]} == {"upgrade"}
    assert all(run["fired"] == 1 and run["outcomes"] == ["as_before"] for run in found["runs"])


def test_an_idempotent_producer_gives_no_alarm(explore: Explore) -> None:
    code, found = explore(
        "retries.py idempotent",
        "--api",
        "Produce",
        "--faults",
        "crash_after_write,cut,NOT_ENOUGH_REPLICAS,INVALID_RECORD",
    )
    assert code == 0
    assert {name for run in found["runs"] for name in run["outcomes"]} == {"as_before", "failed", "kafka_defect"}


def test_leaders_and_coordinators_move_where_there_are_two_brokers(explore: Explore, tmp_path: Path) -> None:
    one_address = 'case "$BOOTSTRAP_SERVERS" in *,*) exit 1;; esac'  # this client accepts no list of addresses
    move = ("--api", "Produce", "--faults", "move_leader", "--check", one_address)
    code, found = explore("fire_and_forget.py once", *move)
    assert code == 0
    assert [(run["outcomes"], run["fired"]) for run in found["runs"]] == [(["as_before"], 1)] * 3
    (journal := tmp_path / "intended.jsonl").write_text('{"topic": "orders", "value": "another"}')
    explore("fire_and_forget.py once", *move, "--intended", str(journal))
    text = (tmp_path / "report" / "faults" / "lost-1.toml").read_text()
    assert "# wirebroker serve --brokers 2 --faults faults/lost-1.toml" in text
    code, found = explore("pipeline.py process-first", *FILL, "--api", "OffsetCommit", "--faults", "move_coordinator")
    assert code == 0
    assert [run["fired"] for run in found["runs"]] == [1, 1, 1]


def test_a_member_whose_session_ends_gets_records_again(explore: Explore) -> None:
    code, found = explore("pipeline.py process-first", *FILL, "--api", "OffsetCommit", "--faults", "expire_member")
    assert code == 1
    assert found["summary"]["doubled"] == found["summary"]["runs"] == 3


def test_b12_processing_before_the_commit_doubles(explore: Explore) -> None:
    code, found = explore("pipeline.py process-first", *FILL, "--api", "OffsetCommit", "--faults", "REBALANCE_IN_PROGRESS")
    assert code == 1
    assert found["summary"]["doubled"] == found["summary"]["runs"] == 3


def test_a_commit_before_processing_loses(explore: Explore) -> None:
    faults = "MESSAGE_TOO_LARGE,INVALID_RECORD"
    code, found = explore("pipeline.py commit-first", *FILL, "--api", "Produce", "--faults", faults)
    assert code == 1
    assert found["summary"]["lost"] >= 3


def test_transactions_give_no_alarm(explore: Explore) -> None:
    faults = "TRANSACTION_ABORTABLE,CONCURRENT_TRANSACTIONS,PRODUCER_FENCED,fence"
    code, found = explore("pipeline.py transactional", *FILL, "--api", "EndTxn,TxnOffsetCommit", "--faults", faults)
    assert code == 0
    assert found["summary"]["failed"] > 0
    assert found["summary"]["failed"] + found["summary"]["as_before"] == found["summary"]["runs"]


def test_a_cluster_behind_the_proxy_is_left_as_it_was_found(explore: Explore, mock_kafka: MockKafka) -> None:
    mock_kafka.produce("orders", value=b"of another time")
    fill = (*FILL, "--upstream", mock_kafka.bootstrap_servers)
    code, found = explore("pipeline.py process-first", *fill, "--api", "OffsetCommit", "--faults", "REBALANCE_IN_PROGRESS")
    assert code == 1
    assert [run["outcomes"] for run in found["runs"]] == [["doubled"]] * 3
    code, found = explore("pipeline.py transactional", *fill, "--api", "EndTxn", "--faults", "PRODUCER_FENCED")
    assert code == 0
    assert {tuple(run["outcomes"]) for run in found["runs"]} == {("failed",)}
    assert not [each for each in mock_kafka.transactions().values() if each.state == "Ongoing"]


def test_what_goes_on_inside_a_broker_is_not_tried_before_a_cluster(
    explore: Explore, plain_rows: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = {case["fault"]["kind"] for case in cases(places(plain_rows), Choice.of((), (), proxied=True))}
    assert kinds == {"lose_request", "lose_ack", "cut", "error", "throttle", "delay"}
    upstream = ("--upstream", "127.0.0.1:9")
    for flags, sentence in (
        (("--faults", "restart"), "restart: this happens inside a broker"),
        (("--config", "a=b"), "--config: not with --upstream"),
        ((), "--upstream 127.0.0.1:9: Connection refused"),
    ):
        assert explore("fire_and_forget.py", *upstream, *flags)[0] == 2
        assert sentence in capsys.readouterr().err


def test_errors_that_the_application_cannot_get_are_not_tried(plain_rows: list[Any]) -> None:
    """The application has no transactions. It is a dynamic member of a classic group, so it has no instance id and no epoch."""
    wanted = {**places(plain_rows), Place("InitProducerId", None, None): [Asked(6)]}
    table = cases(wanted, Choice(impossible=OF_STATIC_MEMBERS))
    errors = {(case["api"], case["fault"].get("code")) for case in table}
    assert ("Heartbeat", "UNKNOWN_MEMBER_ID") in errors
    assert ("Heartbeat", "FENCED_INSTANCE_ID") not in errors
    assert ("FindCoordinator", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED") not in errors
    assert {code for api, code in errors if api == "InitProducerId" and code} == WITHOUT_ID
    assert ("Fetch", "UNKNOWN_TOPIC_ID") not in {
        (case["api"], case["fault"].get("code")) for case in cases({Place("Fetch", None, None): [Asked(12)]}, Choice())
    }


def test_an_endless_loop_hangs(explore: Explore) -> None:
    code, found = explore("loops.py", "--api", "EndTxn", "--faults", "PRODUCER_FENCED", "--limit", "2")
    assert code == 1
    assert [run["outcomes"] for run in found["runs"]] == [["hung"]]


def test_b9_a_record_that_is_sent_again_is_doubled(explore: Explore) -> None:
    code, found = explore("resend.py again", "--api", "Produce", "--faults", "cut,INVALID_RECORD")
    assert code == 1
    doubled = [(run["fault"]["kind"], run["nth"]) for run in found["runs"] if run["outcomes"] == ["doubled"]]
    assert sorted(doubled) == [("cut", 1), ("cut", 2), ("cut", 3)]
    assert found["summary"]["as_before"] == 3


def test_a_client_that_tries_again_itself_gives_no_alarm(explore: Explore) -> None:
    code, found = explore("resend.py", "--api", "Produce", "--faults", "cut,crash_after_write,INVALID_RECORD")
    assert code == 0
    assert (found["summary"]["as_before"], found["summary"]["failed"]) == (6, 3)


def test_gathered_exceptions_are_lost_if_nobody_looks(explore: Explore) -> None:
    flags = ("--api", "Produce", "--faults", "MESSAGE_TOO_LARGE,lose_ack")
    code, found = explore("gathered.py unseen", *flags)
    assert code == 1
    assert [run["fault"]["code"] for run in found["runs"] if run["outcomes"] == ["lost"]] == ["MESSAGE_TOO_LARGE"]
    code, found = explore("gathered.py", *flags)
    assert code == 0
    assert {run["fault"].get("code"): run["outcomes"] for run in found["runs"]} == {
        "MESSAGE_TOO_LARGE": ["failed"], None: ["as_before"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["nothing-of-this-name"], "nothing-of-this-name cannot be started: No such file or directory"),
        ([sys.executable, "-c", "print('no'); raise SystemExit(3)"], "ended with exit code 3; it said: …no"),
        ([sys.executable, "-c", ""], "sent no request to Kafka at the address in WIREBROKER_BOOTSTRAP"),
        ([sys.executable, "-c", ""], "the broker that WIREBROKER_BOOTSTRAP and WIREBROKER_CONTROL name"),
        ([sys.executable, str(HERE / "attached.py"), "asserting", "wrong"], "jest -i"),
    ],
)
def test_what_cannot_be_explored_is_said(
    command: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", "--out", str(tmp_path), "--", *command]) == 2
    assert sentence in capsys.readouterr().err


def test_a_budget_that_is_too_short_for_any_fault_is_no_success(explore: Explore, capsys: pytest.CaptureFixture[str]) -> None:
    assert explore("fire_and_forget.py", "--api", "Produce", "--budget", "0s")[0] == 2
    assert "--budget 0s: the runs without faults took longer, so no fault was tried" in capsys.readouterr().err


def test_a_journal_and_a_check_say_what_is_right(explore: Explore, tmp_path: Path) -> None:
    journal = tmp_path / "intended.jsonl"
    rows = [{"topic": "orders", "key": f"key-{number % 2}", "value": f"order-{number}"} for number in range(7)]
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, found = explore("fire_and_forget.py", "--intended", str(journal), "--api", "Produce", "--faults", "throttle")
    assert code == 1
    assert {tuple(run["missing"]) for run in found["runs"]} == {("orders: key 'key-0', value 'order-6'",)}
    mark = tmp_path / "mark"
    twice = f"test -e {mark}-2 && echo third call && exit 3; test -e {mark} && touch {mark}-2; touch {mark}"
    code, found = explore("fire_and_forget.py", "--check", twice, "--api", "Produce", "--faults", "throttle", "--jobs", "1")
    assert code == 1
    assert {(*run["outcomes"], run["sentence"]) for run in found["runs"]} == {
        ("check_failed", "exit 0, --check ended with exit code 3 and said: third call")
    }


def test_two_faults_break_what_survives_one(explore: Explore, mock_kafka: MockKafka, tmp_path: Path) -> None:
    flags = ("--api", "Produce", "--faults", "restart")
    assert explore("fire_and_forget.py once", *flags)[0] == 0
    code, found = explore("fire_and_forget.py once", *flags, "--depth", "2")
    assert code == 1
    lost = [run for run in found["runs"] if run["outcomes"] == ["lost"]]
    assert [(run["fault"]["nth"], run["second"]["nth"]) for run in lost] == [(1, 2)]  # only this fault leads to new requests
    assert len(mock_kafka.faults.load(tmp_path / "report" / lost[0]["file"])) == 2


def test_a_second_fault_strikes_where_the_first_one_led(explore: Explore) -> None:
    faults = "INVALID_RECORD,MESSAGE_TOO_LARGE,throttle"
    code, found = explore("spare.py", "--api", "Produce", "--faults", faults, "--depth", "2")
    assert code == 1
    single, double = ([run for run in found["runs"] if ("second" in run) is two] for two in (False, True))
    assert [run["outcomes"] for run in single] == [["as_before"]] * 3
    assert len({run["dialogue"] for run in single}) == 2  # both errors have the same effect; only one gets a second fault
    assert {run["fault"]["code"] for run in double} == {"INVALID_RECORD"}
    assert {run["second"]["client_id"] for run in double} == {"spare"}  # the application uses this client only after a fault
    assert [run["second"]["code"] for run in double if run["outcomes"] == ["lost"]] == ["INVALID_RECORD", "MESSAGE_TOO_LARGE"]
    assert not any("later" in run for run in found["runs"])


# In pytest

EXPLORED = """
import pytest
from confluent_kafka import Producer

@pytest.fixture
def producer(mock_kafka):
    return Producer({"bootstrap.servers": mock_kafka.bootstrap_servers, "acks": 1, "retries": 0, "linger.ms": 0})

def send(producer, check):
    results = []
    for number in range(2):
        producer.produce("orders", value=str(number), on_delivery=lambda error, _: results.append(error))
        producer.flush(5)
    if check and any(results):
        raise RuntimeError("not sent")

mark = pytest.mark.mock_kafka(topics="orders", explore={"api": "Produce", "faults": ["INVALID_RECORD", "throttle"]})

@mark
def test_ignores_results(mock_kafka, producer):
    send(producer, check=False)

@mark
def test_checks_results(mock_kafka, producer):
    send(producer, check=True)

@mark
def test_sees_it_itself(mock_kafka, producer):
    send(producer, check=False)
    assert len(mock_kafka.records("orders")) == 2

class Response:
    def __init__(self, status_code):
        self.status_code = status_code

def service(producer):
    try:
        send(producer, check=True)
    except RuntimeError:
        return Response(503)
    return Response(201)

@mark
def test_gets_a_status(mock_kafka, producer):
    assert service(producer).status_code == 201

@pytest.mark.mock_kafka(explore={"faults": "nothing"})
def test_wrong_word(mock_kafka): ...
"""


def test_a_test_is_explored(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(EXPLORED)
    outcome = pytester.runpytest_subprocess(*FEW_PLUGINS, "-n", "1")
    results = outcome.parseoutcomes()
    assert (results["passed"], results["failed"], results["errors"]) == (2, 2 + 4, 1)  # two tests, each with two subtests
    text = outcome.stdout.str()
    assert "2 of 4 faults break this test" in text
    assert "usual cause: the result of send is never read, or its error is ignored" in text
    assert "lost: Produce to orders nth 1: INVALID_RECORD … exit 0, 1 record missing, such as orders: value '0'" in text
    seen = "exit 0, 1 record missing, such as orders: value '0', and the test says: assert 1 == 2"
    assert f"check_failed: Produce to orders nth 1: INVALID_RECORD … {seen}" in text
    assert "503" not in text
    assert "explore: nothing: there is no such fault or error; there are lose_request" in text


def test_the_number_of_faults_and_a_budget_are_told_before(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        EXPLORED.partition("@mark")[0].replace('"throttle"]', '"throttle"], "budget": "0s"')
        + """
@mark
def test_it(mock_kafka, producer):
    send(producer, check=False)
"""
    )
    outcome = pytester.runpytest_subprocess(*FEW_PLUGINS)
    outcome.assert_outcomes(passed=1)
    outcome.stdout.fnmatch_lines([
        "*::test_it explores 4 faults: about *; the budget of 0.0 s buys the likely culprits first",
        "*::test_it 4 faults were not tried: the budget was used up",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("message", "is_reported"),
    [
        ("assert 503 == 201\n +  where 503 = <Response [503 Service Unavailable]>.status_code", True),
        ("assert False\n +  where False = <Response [503 Service Unavailable]>.is_success", True),
        ("no order\nassert 500 in (200, 201)", True),
        ("assert 429 == 200", True),
        ("assert 502 < 300\n +  where 502 = <ClientResponse(http://x) [502 Bad Gateway]>.status", True),
        ("assert 404 == 201\n +  where 404 = <Response [404 Not Found]>.status_code", False),
        ("assert 499 == 500\n +  where 499 = len([StoredRecord(orders-0 offset 503)])", False),
        ("assert 503 == 500", False),
    ],
)
def test_a_status_of_a_server_is_a_report(message: str, is_reported: bool) -> None:
    assert bool(REPORTED.search(message)) == is_reported


PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "explore.md"


@pytest.mark.parametrize(("number", "outcomes"), [(0, {"lost", "doubled"}), (1, {"failed", "as_before"})])
def test_the_page_starts_with_a_bug_and_mends_it(number: int, outcomes: set[str], tmp_path: Path) -> None:
    program = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[number]
    (tmp_path / "send_orders.py").write_text(program, encoding="utf-8")
    flags = ["--topic", "orders", "--api", "Produce", "--faults", "crash_after_write,INVALID_RECORD"]
    main(["explore", "--out", str(tmp_path), *flags, "--", sys.executable, str(tmp_path / "send_orders.py")])
    found = json.loads((tmp_path / "explore.json").read_text())
    assert {name for run in found["runs"] for name in run["outcomes"]} == outcomes


# The terminal


@pytest.mark.parametrize(
    ("terminal", "line"),
    [
        (True, "  tried 3 faults at 5 requests  ███████████████████  3/4  2 min 5 s"),
        (False, "  tried 3 faults at 5 requests in 2 min 5 s"),
    ],
)
def test_a_bar_stays_on_a_terminal(terminal: bool, line: str) -> None:
    shown = io.StringIO()
    summary = {"summary": dict.fromkeys((*OUTCOMES, "not_fired"), 0) | {"runs": 3, "not_tried": 1}}
    Screen(Console(file=shown, force_terminal=terminal, no_color=True, width=128)).results(summary, [], [], 125, 5)
    assert re.sub(r"\x1b\[\d*m", "", shown.getvalue()).splitlines()[0] == line


# The table


def test_every_error_in_the_table_exists() -> None:
    for api, names in [*ERRORS.items(), *DONE.items(), *((api, (name,)) for api, name in (*OF_LOST_DATA, *SINCE))]:
        assert api in KEYS
        assert set(names) <= set(ErrorCode.__members__)


def test_faults_that_no_application_can_help_are_tried_only_by_name(plain_rows: list[Any]) -> None:
    found = places(plain_rows)
    usual = {case["fault"]["kind"] for case in cases(found, Choice())}
    assert usual >= {"move_leader", "move_coordinator", "expire_member", "advance", "restart", "cut", "throttle", "error"}
    named = {case["fault"].get("code") for case in cases(found, Choice.of((), ["OFFSET_OUT_OF_RANGE"]))}
    assert not usual & {"truncate", "corrupt"}
    assert named == {"OFFSET_OUT_OF_RANGE"}


@pytest.fixture
def plain_rows(mock_kafka: Any) -> list[Any]:
    """Returns the trace of a broker and a consumer that reads one record."""
    from confluent_kafka import Consumer

    mock_kafka.trace.level = "all"
    mock_kafka.produce("orders", value=b"1")
    consumer = Consumer({"bootstrap.servers": mock_kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert consumer.poll(10) is not None
    consumer.close()
    rows: list[Any] = mock_kafka.trace.events()
    return rows


def test_a_campaign_goes_on_where_it_was(tmp_path: Path) -> None:
    table = [{"id": str(number)} for number in range(6)]
    played: list[str] = []

    def play(case: Any) -> dict[str, Any]:
        played.append(case["id"])
        return {"id": case["id"], "square": int(case["id"]) ** 2}

    first = Results(tmp_path / "runs.jsonl")
    with workers(jobs=1) as players:
        half = list(play_all(table, play, first, players, go_on=lambda: len(played) < 3))
    first.close()
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"id": "3", "squ')  # an incomplete line, as after a crash of the machine
    second = Results(tmp_path / "runs.jsonl", resume=True)
    with workers(jobs=2) as players:
        whole = list(play_all(table, play, second, players, go_on=lambda: True))
    assert len(half) == 3
    assert sorted(each["square"] for each in whole) == [0, 1, 4, 9, 16, 25]
    assert len(played) == 6


RESULT = {
    "id": "Produce/1/error", "api": "Produce", "nth": 1, "fault": {"kind": "error"}, "outcomes": ["as_before"], "exit": 0,
    "seconds": 0.1, "fired": 1, "sentence": "",
}  # fmt: skip
DAMAGED = {
    "not JSON": b"{", "deep": b"[" * 100_000, "no object": b"[1]", "no id": b"{}", "no text": b"\xff\xfe{}",
    "no outcomes": json.dumps(RESULT | {"outcomes": 5}).encode(), "no outcome": json.dumps(RESULT | {"outcomes": []}).encode(),
    "no number": json.dumps(RESULT | {"nth": "first"}).encode(), "no fault": json.dumps(RESULT | {"fault": None}).encode(),
}  # fmt: skip
"""Lines that are not results."""


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("flag", ["--resume", "--baseline"])
def test_results_that_cannot_be_used_are_named_in_one_sentence(
    flag: str, line: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, report = tmp_path / "runs.jsonl", tmp_path / "known.json"
    content = json.dumps(RESULT).encode() + b"\n" + line + b"\n"
    results.write_bytes(content)
    report.write_bytes(b'{"runs": [' + line + b"]}")
    flags = [flag] if flag == "--resume" else [flag, str(report)]
    assert main(["explore", "--out", str(tmp_path), *flags, "--", "nothing-of-this-name"]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert (f"{results}:2: this line is not " if flag == "--resume" else f"{report}: this is not an explore.json") in sentence
    assert flag == "--baseline" or results.read_bytes() == content


def test_a_full_disk_takes_no_earlier_result_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"id": "1"}\n{"id": "2"}\n')

    def full(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device"):
        Results(path, resume=True)
    assert path.read_text() == '{"id": "1"}\n{"id": "2"}\n'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("file", ["runs.jsonl", "explore.json", "index.html"])
def test_a_report_that_cannot_be_written_is_named(
    file: str, explore: Explore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report" / file
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    assert explore("fire_and_forget.py", "--api", "Produce", "--faults", "INVALID_RECORD") == (2, {})
    assert capsys.readouterr().err == f"wirebroker explore: {path}: No space left on device\n"


@pytest.mark.parametrize("reason", [errno.EPIPE, errno.ENOSPC])
def test_an_exploration_goes_on_without_a_reader(reason: int, explore: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unwritable(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(sys, "stdout", Unwritable())
    code, found = explore("fire_and_forget.py", "--api", "Produce", "--faults", "INVALID_RECORD")
    assert (code, found["summary"]["lost"]) == (1, 3)


@pytest.mark.skipif(not hasattr(os, "pread"), reason="the output is shortened where pread exists")
def test_an_output_without_an_end_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "LARGEST_OUTPUT", 10_000)
    monkeypatch.setattr(application, "TAIL", 100)
    with (tmp_path / "output").open("w+b", buffering=0) as file:
        output = Output(file)
        for number in range(2000):
            os.write(file.fileno(), b"%099d\n" % number)  # at the position where a command would write
            output.shorten()
        assert os.fstat(file.fileno()).st_blocks * 512 <= 20_000
        assert output.tail() == f"{1999:099d}\n"
        os.ftruncate(file.fileno(), 0)
        assert Output(file).tail() == ""


def test_the_end_of_an_output_is_whole_if_it_was_shortened_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "LARGEST_OUTPUT", 10)
    with (tmp_path / "output").open("w+b", buffering=0) as file:
        output = Output(file)
        os.write(file.fileno(), b"a line before\n")
        output.shorten()
        os.write(file.fileno(), b"and after\n")
        assert output.tail() == "a line before\nand after\n"


def test_a_command_that_only_writes_hangs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shortened = []
    monkeypatch.setattr(Output, "shorten", lambda self: shortened.append(self))
    endless = "while True: print('again and again')"
    assert main(["explore", "--limit", "1", "--", sys.executable, "-c", endless]) == 2
    assert "the command did not end within 1 s (--limit); it said: …" in capsys.readouterr().err
    assert shortened


def test_an_interrupted_exploration_says_where_it_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Exploration) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Exploration, "begin", interrupted)
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(RESULT) + "\n")
    assert main(["explore", "--out", str(tmp_path), "--resume", "--", "a-command"]) == 130
    assert capsys.readouterr().err == f"wirebroker explore: interrupted with 1 result in {path}; --resume continues\n"
    assert json.loads(path.read_text()) == RESULT


def test_shards_divide_a_table() -> None:
    table = [{"id": f"case-{number}"} for number in range(100)]
    parts = [[case["id"] for case in table if in_shard(case, (number, 3))] for number in (1, 2, 3)]
    assert sorted(each for part in parts for each in part) == sorted(case["id"] for case in table)
    assert all(len(part) > 15 for part in parts)
