"""The suites: what each needs, fetched and built in a folder of the cache, and how its tests are run and read."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from interop_parts.clients import Missing, cache, call, tool

HERE = Path(__file__).resolve().parent
KAFKA_PYTHON = "3.0.12"
FRANZ_GO = "github.com/twmb/franz-go@v1.22.2"
KAFKA_JAVASCRIPT = "@confluentinc/kafka-javascript@1.10.1"
"""Confluent's npm package, which carries the source of librdkafka 2.16.0 with its tests."""

PASS, FAIL, SKIP = "passed", "failed", "skipped"
WORDS = {"PASSED": PASS, "PASS": PASS, "FAILED": FAIL, "FAIL": FAIL, "ERROR": FAIL, "SKIPPED": SKIP, "SKIP": SKIP}


@dataclass(slots=True)
class Run:
    """A command that runs tests, and the pattern of an output line with a result: groups `name` and `word`."""

    words: Sequence[str | Path]
    folder: Path
    tells: re.Pattern[str]
    environment: dict[str, str] = field(default_factory=dict)
    only: Callable[[str], dict[str, str] | Sequence[str]] = lambda name: ()
    """Words or environment variables to run one test alone."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite and the brokers it wants: how many, and their settings. `seconds` is about how long it takes."""

    name: str
    version: str
    make: Callable[[str], Run]
    """The run against the brokers at this address, after fetching what it needs. Raises Missing."""
    seconds: int
    brokers: int = 1
    settings: Sequence[str] = ()
    not_offered: str = "$^"
    """A pattern of the names of tests that need features which the broker does not have and README names."""


def kafka_python(address: str) -> Run:
    """The integration tests of the sdist, in an environment of their own that has its codecs."""
    folder = cache() / f"suite-kafka-python-{KAFKA_PYTHON}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        call([sys.executable, "-m", "venv", folder / "venv"], folder, "making an environment")
        pip = [folder / "venv" / "bin" / "python", "-m", "pip", "-q", "--disable-pip-version-check"]
        sdist = ["download", "--no-deps", "--no-binary", ":all:", f"kafka-python=={KAFKA_PYTHON}"]
        call([*pip, *sdist], folder, "`pip download kafka-python`")
        shutil.unpack_archive(folder / f"kafka_python-{KAFKA_PYTHON}.tar.gz", folder)
        (folder / f"kafka_python-{KAFKA_PYTHON}").rename(folder / "source")
        needs = [f"{folder / 'source'}[snappy,lz4,zstd,crc32c,testing]"]
        call([*pip, "install", *needs], folder, "`pip install kafka-python`")
        shutil.copy(HERE / "service.py", folder / "source" / "test")
        (folder / "source" / "test" / "__init__.py").touch()
        # An external broker needs nothing of it, and the fixtures still look for it.
        (folder / "source" / "servers" / "4.2.0" / "kafka-bin").mkdir(parents=True)
        (folder / "complete").touch()
    options = ["--timeout", "60", "-v", "--tb=short", "-p", "no:cacheprovider", "-o", "log_level=WARNING"]
    return Run(
        [folder / "venv" / "bin" / "python", "-m", "pytest", *options, "test/integration"],
        folder / "source",
        re.compile(r"^test/integration/(?P<name>\S+?::\S+) (?P<word>PASSED|FAILED|ERROR|SKIPPED)"),
        {"KAFKA_URI": f"PLAINTEXT://{address}", "KAFKA_VERSION": "4.2.0", "PYTHONPATH": ""},
        lambda name: ["-k", re.sub(r"\[.*", "", name).rpartition("::")[2]],
    )


def franz_go(address: str) -> Run:
    """The tests of package kgo of the Go module, compiled."""
    binary = cache() / f"suite-{FRANZ_GO.rpartition('/')[2]}"
    found = json.loads(call([tool("go"), "mod", "download", "-json", FRANZ_GO], cache(), f"`go mod download {FRANZ_GO}`"))
    package = Path(found["Dir"]) / "pkg" / "kgo"
    if not binary.exists():
        call(["go", "test", "-c", "-o", binary, "."], package, "`go test -c`")
    return Run(
        [binary, "-test.v", "-test.timeout", "20m"],
        package,
        re.compile(r"^--- (?P<word>PASS|FAIL|SKIP): (?P<name>\S+)"),
        {"KGO_TEST_RF": "3", "KGO_LOG_LEVEL": "none"}
        | {name: value for name, value in os.environ.items() if name.startswith("KGO_TEST_")}
        | {"KGO_SEEDS": address},
        lambda name: ["-test.run", f"^{name}$"],
    )


def librdkafka(address: str) -> Run:
    """The tests that need a broker, compiled with the library from the source in Confluent's npm package."""
    for name in ("make", "gcc", "g++"):
        tool(name)
    folder = cache() / f"suite-librdkafka-{KAFKA_JAVASCRIPT.rpartition('@')[2]}"
    tests = folder / "package" / "deps" / "librdkafka" / "tests"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        call([tool("npm"), "pack", "--silent", KAFKA_JAVASCRIPT], folder, f"`npm pack {KAFKA_JAVASCRIPT}`")
        (archive,) = folder.glob("*.tgz")
        shutil.unpack_archive(archive, folder)
        call(["./configure", "--disable-curl"], tests.parent, "librdkafka's configure")
        call(["make", f"-j{os.cpu_count() or 1}", "libs"], tests.parent, "making librdkafka")
        call(["make", f"-j{os.cpu_count() or 1}", "build"], tests, "making librdkafka's tests")
        (folder / "complete").touch()
    (tests / "test.conf").write_text(f"metadata.broker.list={address}\n")
    return Run(
        ["./test-runner", "-p2", "-E", "-L"],
        tests,
        re.compile(r"=+ Test (?P<name>\S+) (?P<word>PASSED|FAILED|SKIPPED)"),
        {"LD_LIBRARY_PATH": "../src:../src-cpp", "TEST_KAFKA_VERSION": "4.0.0"},
        lambda name: {"TESTS": name},
    )


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "kafka-python", KAFKA_PYTHON, kafka_python, 60,
            settings=("num.partitions=2", "node.id=0", "group.min.session.timeout.ms=1000"),
        ),
        Suite(
            "franz-go", FRANZ_GO.rpartition("v")[2], franz_go, 180, brokers=3, settings=("num.partitions=2",),
            not_offered="TestShareGroup|TestConsumeRegexShare",
        ),
        Suite(
            "librdkafka", "2.16.0", librdkafka, 600,
            # Two consumers that subscribe at once are meant to be in the first generation both.
            settings=("num.partitions=4", "group.initial.rebalance.delay.ms=1000"),
        ),
    )
}  # fmt: skip


def expected(name: str) -> Path:
    """The file with the names of the tests that a real Kafka passes."""
    return HERE / "expected" / f"{name}.txt"


__all__ = ["FAIL", "PASS", "SKIP", "SUITES", "WORDS", "Missing", "Run", "Suite", "expected"]
