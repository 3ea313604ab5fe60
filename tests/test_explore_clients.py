"""`wirebroker explore` with applications in Java, Go and JavaScript, and with a real Kafka behind the proxy. Some applications
are correct, and some have a bug.

All applications get the same faults at the same APIs, so the flags do not reveal the bug of an application.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ecosystem.interop.clients import PROGRAMS, fetched, node_folder
from ecosystem.kafka.server import KafkaServer
from wirebroker import MockKafka
from wirebroker.commands.cli import main
from wirebroker_tools.campaign.application import VARIABLES
from wirekit import kafka_jars, lacking

pytestmark = [
    pytest.mark.slow,  # starts Java and Node, and compiles Go
    pytest.mark.timeout(240),
]

HERE = Path(__file__).parent / "explored"
ALIKE = (
    "--api", "Produce,OffsetCommit", "--faults", "crash_after_write,INVALID_RECORD,REBALANCE_IN_PROGRESS",
    "--topic", "orders", "--topic", "audit", "--topic", "invoices", "--limit", "30",
)  # fmt: skip
FILL = ("--output", "invoices", "--setup", f"{sys.executable} {HERE / 'fill.py'}")
NO_CRASH = ("--faults", "INVALID_RECORD,REBALANCE_IN_PROGRESS")
"""Faults that do not kill the broker. (After a kill, the consumer of kafkajs would hang for half a minute.)"""
NO_ALARM = {"as_before", "failed"}


def explore(command: list[str], out: Path, bug: str, *flags: str) -> None:
    """Explores an application. If the application has a bug, the report must have this bug; otherwise the report must have no
    alarm.
    """
    code = main(["explore", "--out", str(out), *ALIKE, *flags, "--", *command])
    found = json.loads((out / "explore.json").read_text())
    outcomes = {name for run in found["runs"] for name in run["outcomes"]}
    if bug:
        assert (code, bug in outcomes) == (1, True), outcomes
    else:
        assert (code, outcomes - NO_ALARM) == (0, set())


@pytest.mark.parametrize(
    ("way", "flags", "bug"),
    [
        ("send", (), ""),
        ("transactions", FILL, ""),
        ("not-idempotent", (), "doubled"),
        ("left-open", (), "open_transaction"),
        ("commit-outside", FILL, "doubled"),
        ("auto-commit", FILL, "lost"),
    ],
)
def test_java(way: str, flags: tuple[str, ...], bug: str, orders_in_java: list[str], tmp_path: Path) -> None:
    explore([*orders_in_java, way], tmp_path, bug, *flags)


@pytest.mark.parametrize(
    ("way", "flags", "bug"),
    [
        ("send", (), ""),
        ("transactions", FILL, ""),
        ("unseen", (), "lost"),
        ("auto-commit", FILL, "lost"),
    ],
)
def test_go(way: str, flags: tuple[str, ...], bug: str, orders_in_go: list[str], tmp_path: Path) -> None:
    explore([*orders_in_go, way], tmp_path, bug, *flags)


@pytest.mark.parametrize(
    ("way", "flags", "bug"),
    [
        ("send", (), ""),
        ("not-idempotent", (), "doubled"),
        ("unseen", (), "lost"),
        ("not-awaited", (*FILL, *NO_CRASH), "lost"),
    ],
)
def test_javascript(way: str, flags: tuple[str, ...], bug: str, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        lacking("node", "node is not installed")
    if not fetched("kafkajs"):
        lacking("node", "kafkajs was not fetched; scripts/interop --fetch --clients kafkajs does that")
    (tmp_path / "node_modules").symlink_to(node_folder() / "node_modules")
    program = shutil.copy(HERE / "orders.mjs", tmp_path)
    explore(["node", str(program), way], tmp_path, bug, *flags)


PAGE = (Path(__file__).parent.parent / "docs" / "how-to" / "explore.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", ["java", "go"])
def test_the_page_starts_with_a_bug_and_mends_it(language: str, tmp_path: Path) -> None:
    with_bug, mended = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    flags = ("--api", "Produce", "--faults", "crash_after_write,INVALID_RECORD")
    explore(built(language, with_bug, tmp_path / "first"), tmp_path, "doubled", *flags)
    assert json.loads((tmp_path / "explore.json").read_text())["summary"]["lost"] > 0
    explore(built(language, mended, tmp_path / "second"), tmp_path, "", *flags)


def built(language: str, text: str, folder: Path) -> list[str]:
    """Compiles a program, and returns the command that runs it. If the compiler is missing, the test is skipped."""
    folder.mkdir()
    if language == "java":
        (program := folder / "SendOrders.java").write_text(text)
        return in_java(program, folder)
    (program := folder / "send_orders.go").write_text(text)
    return in_go(program, folder / "send_orders")


def test_before_a_real_kafka(tmp_path: Path) -> None:
    kafka_jars()
    program = [sys.executable, str(HERE / "pipeline.py"), "process-first"]
    faults = ("--api", "OffsetCommit", "--faults", "REBALANCE_IN_PROGRESS,cut")
    with KafkaServer() as kafka:
        explore(program, tmp_path, "doubled", *FILL, *faults, "--upstream", "{}:{}".format(*kafka.address))
    found = json.loads((tmp_path / "explore.json").read_text())
    assert found["plain"]["stored"] == {"invoices": 4}
    assert [run["outcomes"] for run in found["runs"] if run["fault"]["kind"] == "cut"] == [["as_before"]] * 3


@pytest.fixture(scope="module")
def orders_in_java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Compiles the Java application, and returns the command that runs it."""
    folder = tmp_path_factory.mktemp("java")
    return with_archive(in_java(HERE / "Orders.java", folder), "transactions", folder)


@pytest.fixture(scope="module")
def orders_in_go(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Compiles the Go application, and returns the command that runs it."""
    return in_go(HERE / "orders.go", tmp_path_factory.mktemp("go") / "orders")


def in_java(program: Path, folder: Path) -> list[str]:
    """Compiles a class with Kafka's client into a jar. The test is skipped without Java or the client."""
    jars = kafka_jars()
    if shutil.which("javac") is None:
        lacking("java", "javac is not installed")
    classes = folder / "classes"
    subprocess.run(["javac", "-cp", jars, "-d", classes, program], check=True, timeout=100)
    jar = Path(shutil.make_archive(str(classes), "zip", classes))
    quick = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    return ["java", *quick, "-cp", f"{jar}{os.pathsep}{jars}", program.stem]


def with_archive(java: list[str], way: str, folder: Path) -> list[str]:
    """Runs a program once, so that Java makes an archive of the classes that the program loads. Returns the command that uses
    the archive.

    An exploration starts a program dozens of times, and each run would spend half of its time on loading classes.
    """
    archive = folder / "classes.jsa"
    with MockKafka() as kafka:
        environment = os.environ | dict.fromkeys(VARIABLES, kafka.bootstrap_servers)
        subprocess.run([sys.executable, HERE / "fill.py"], env=environment, check=True, timeout=100)
        making = [java[0], "-Xlog:disable", f"-XX:ArchiveClassesAtExit={archive}", *java[1:], way]
        subprocess.run(making, env=environment, check=True, timeout=100)
    return [java[0], f"-XX:SharedArchiveFile={archive}", *java[1:]]


def in_go(program: Path, binary: Path) -> list[str]:
    """Compiles a program with the modules of scripts/interop. The test is skipped without Go or the modules."""
    if shutil.which("go") is None:
        lacking("go", "Go is not installed")
    if not fetched("franz-go"):
        lacking("go", "franz-go was not fetched; scripts/interop --fetch --clients franz-go does that")
    subprocess.run(["go", "build", "-o", binary, program], cwd=PROGRAMS / "go", check=True, timeout=200)
    return [str(binary)]
