"""The suites of clients. In a folder of the cache, this module fetches and builds what each suite needs. It also has the
command that runs the suite, and the form of its results.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ecosystem.brokers import WIREBROKER
from ecosystem.interop.clients import Missing, cache, call, crate, tool
from ecosystem.kafka.releases import COPY, numbers
from ecosystem.kafka.security import CA, CLIENT

SERVE = (*WIREBROKER, "serve")
"""The command that starts wirebroker."""
HERE = Path(__file__).resolve().parent
STAND_INS = HERE / "stand_ins"
GITHUB = "https://github.com/"
CONFLUENT_KAFKA_PYTHON = "2.15.0"
CONFLUENT_NEEDS = ("pytest<9", "pytest-asyncio<1", "pytest-timeout==2.4.0")
CONFLUENT_KAFKA_JAVASCRIPT = "1.9.1"
JEST = "29.7.0"
KAFKAJS = "2.2.4"
PLATFORMATIC_KAFKA = "2.9.0"
NODE = "24.9.0"
"""The version of Node that runs tests in TypeScript. Older versions of Node cannot run such tests."""
RSKAFKA = "0.6.0"
KAFKA_PYTHON = "3.0.12"
AIOKAFKA = "0.14.0"
AIOKAFKA_NEEDS = ("pytest==9.0.2", "pytest-asyncio==1.3.0", "pytest-mock==3.15.1", "pytest-timeout==2.4.0")
FRANZ_GO = "github.com/twmb/franz-go@v1.22.2"
KAFKA_GO = "github.com/segmentio/kafka-go@v0.4.51"
SARAMA = "github.com/IBM/sarama@v1.61.1"
KAFKA = "4.3.1"
STREAMS_CLASSES = (
    "EOSUncleanShutdown|EmitOnChange|FineGrainedAutoReset|GlobalKTable|GlobalKTableEOS|KStreamAggregation|KafkaStreamsCloseOptions|"
    "LagFetch|MetricsReporter|PapiDsl|PurgeRepartitionTopic|RegexSource|StreamTableJoin|SwallowUnknownTopicError"
)
EMBEDDED = "embedded"
"""The value of --bootstrap that lets a suite start a real Kafka itself."""
TOXIPROXY = "github.com/Shopify/toxiproxy/v2@v2.5.0"
KAFKA_JAVASCRIPT = "@confluentinc/kafka-javascript@1.10.1"
"""Confluent's npm package, which carries the source of librdkafka 2.16.0 with its tests."""
ACLS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "super.users=User:admin;User:ANONYMOUS",
)
SARAMA_PORT = 28091
"""The first broker's port in sarama's tests. Toxiproxy forwards port 29091 to this port, and the next ports to the other
brokers.
"""

PASS, FAIL, SKIP = "passed", "failed", "skipped"
WORDS = {"PASSED": PASS, "PASS": PASS, "FAILED": FAIL, "FAIL": FAIL, "ERROR": FAIL, "SKIPPED": SKIP, "SKIP": SKIP}
WORDS |= {"SUCCESSFUL": PASS, "ABORTED": SKIP, "ok": PASS, "ignored": SKIP}


@dataclass(slots=True)
class Run:
    """A command that runs tests. `tells` is a pattern for the output lines that have a test's result; its groups are `name` and
    `word`."""

    words: Sequence[str | Path]
    folder: Path
    tells: re.Pattern[str]
    environment: dict[str, str] = field(default_factory=dict)
    only: Callable[[str], dict[str, str] | Sequence[str]] = lambda name: ()
    """Returns the additional words or environment variables that run only the test of this name."""
    named: Callable[[str], str] = str
    """Returns a test's name without the parts that change from run to run."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite, and the number and the settings of the brokers that it needs. `seconds` is the suite's approximate duration."""

    name: str
    version: str
    make: Callable[[str, str], Run]
    """Fetches the suite's dependencies, and returns the command that runs the suite. The arguments are the brokers' address and
    their version of Kafka. Raises Missing.
    """
    seconds: int
    brokers: int = 1
    """The number of brokers to start, or 0 if the tests themselves start brokers."""
    settings: Sequence[str] = ()
    flags: Sequence[str] = ()
    """More flags of `wirebroker serve`."""
    port: int = 0
    """The port at which the tests expect the first broker, or 0 for any port. The other brokers have the next ports."""
    advertised: str = ""
    """The first broker advertises this address instead of its own; the other brokers advertise the next ports."""
    listeners: Sequence[str] = ()
    """The secured listeners of each broker; the address is then `PLAINTEXT=127.0.0.1:9092 SSL=… CERTIFICATES=FOLDER`."""
    users: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Ports that the tests cannot change. Each port leads to a listener of a broker: the value has the listener's name and the
    broker's number, from 0."""
    not_offered: str = "$^"
    """Matches the names of tests that need a feature which wirebroker does not offer. The README lists these features."""


def kafka_python(address: str, version: str) -> Run:
    """The integration tests of the sdist, in a separate environment with the packages of the codecs."""
    folder = cache() / f"suite-kafka-python-{KAFKA_PYTHON}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        pip = [environment(folder), "-m", "pip", "-q", "--disable-pip-version-check"]
        sdist = ["download", "--no-deps", "--no-binary", ":all:", f"kafka-python=={KAFKA_PYTHON}"]
        call([*pip, *sdist], folder, "`pip download kafka-python`")
        shutil.unpack_archive(folder / f"kafka_python-{KAFKA_PYTHON}.tar.gz", folder)
        (folder / f"kafka_python-{KAFKA_PYTHON}").rename(folder / "source")
        needs = [f"{folder / 'source'}[snappy,lz4,zstd,crc32c,testing]"]
        call([*pip, "install", *needs], folder, "`pip install kafka-python`")
        shutil.copy(HERE / "service.py", folder / "source" / "test")
        (folder / "source" / "test" / "__init__.py").touch()
        (folder / "complete").touch()
    known = at_most(version, "4.2.0")
    # The fixtures look for this folder, although an external broker does not need it.
    (folder / "source" / "servers" / known / "kafka-bin").mkdir(parents=True, exist_ok=True)
    options = ["--timeout", "60", "-v", "--tb=short", "-p", "no:cacheprovider", "-o", "log_level=WARNING"]
    return Run(
        [folder / "venv" / "bin" / "python", "-m", "pytest", *options, "test/integration"],
        folder / "source",
        re.compile(r"^test/integration/(?P<name>\S+?::\S+) (?P<word>PASSED|FAILED|ERROR|SKIPPED)"),
        {"KAFKA_URI": f"PLAINTEXT://{address}", "KAFKA_VERSION": known, "PYTHONPATH": ""},
        lambda name: ["-k", re.sub(r"\[.*", "", name).rpartition("::")[2]],
    )


def aiokafka(address: str, version: str) -> Run:
    """The tests of aiokafka's repository, run with the package from PyPI. A stand-in for docker forwards the ports of the
    brokers that the tests would start.
    """
    folder = cache() / f"suite-aiokafka-{AIOKAFKA}"
    if not (folder / "complete").exists():
        source = checkout("aio-libs/aiokafka", f"v{AIOKAFKA}", folder)
        environment(folder, f"aiokafka[snappy,lz4,zstd]=={AIOKAFKA}", *AIOKAFKA_NEEDS)
        (folder / "run").mkdir()
        for each in ("tests", "docker", "pyproject.toml"):  # without the repository's own package
            (source / each).rename(folder / "run" / each)
        program(folder / "bin" / "ktutil", "exit 0")  # no Kerberos: the tests that need it fail
        (folder / "complete").touch()
    trusted, made = folder / "run" / "tests" / "ssl_cert", Path(listeners(address)["CERTIFICATES"])
    trusted.mkdir(exist_ok=True)
    for name, file in {"ca.crt": CA, "client.crt": CLIENT, "client.key": CLIENT}.items():
        shutil.copy(made / file, trusted / name)
    options = ["--docker-image", f"aiolibs/kafka:2.13_{version}", "--no-pull", "--timeout", "120", "-v", "--tb=short"]
    return Run(
        [folder / "venv" / "bin" / "python", "-m", "pytest", *options, "-p", "no:cacheprovider", "tests"],
        folder / "run",
        re.compile(r"^tests/(?P<name>\S+?::\S+.*?) (?P<word>PASSED|FAILED|ERROR|SKIPPED)"),
        with_stand_ins(address, folder / "bin"),
        lambda name: ["-k", re.sub(r"\[.*", "", name).rpartition("::")[2]],
        named=lambda name: re.sub(r"\[\d+-\d+-\d+\]", "", name),  # made at random
    )


def franz_go(address: str, _: str) -> Run:
    """The tests of package kgo of the Go module, compiled."""
    binary = cache() / f"suite-{FRANZ_GO.rpartition('/')[2]}"
    package = go_module(FRANZ_GO) / "pkg" / "kgo"
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


def kafka_go(address: str, _: str) -> Run:
    """The tests of the Go module's package kafka, which look for the broker at localhost:9092."""
    binary, source = cache() / f"suite-{KAFKA_GO.rpartition('/')[2]}", go_module(KAFKA_GO)
    at_port(address, 9092)
    folder = Path(f"{binary}.source")
    if not binary.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder, copy_function=shutil.copyfile)  # a writable copy, because go.mod must be updated
        call(["go", "test", "-mod=mod", "-c", "-o", binary, "."], folder, "`go test -c`")
    # kafka-go itself does not run the tests of net.Conn, because a topic does not behave as a pipe does.
    # The tests in `left_out` call a function that is nil. Their panic would end the whole run.
    left_out = "^TestReaderConsumerGroup$/^(consumer_group_commits_on_close|verify_offset_committed)"
    words = [binary, "-test.v", "-test.timeout", "20m", "-test.skip", left_out]
    return Run(words, source, GO_RESULT, {"KAFKA_SKIP_NETTEST": "1"}, go_only)


def sarama(address: str, version: str) -> Run:
    """The functional tests of sarama, which connect to the five brokers through toxiproxy."""
    at_port(address, SARAMA_PORT)
    binary, proxy = (cache() / f"suite-{name}" for name in (SARAMA.rpartition("/")[2], "toxiproxy@v2.5.0"))
    source = go_module(SARAMA)
    if not binary.exists():
        call(["go", "build", "-o", proxy, "./cmd/server"], go_module(TOXIPROXY), "`go build` of toxiproxy")
        call(["go", "test", "-tags", "functional", "-c", "-o", binary, "."], source, "`go test -c`")
    files = "".join(file.read_text() for file in source.glob("functional_*_test.go"))
    names = re.findall(r"(?m)^func (Test(?!Main)\w+)", files)
    tests = [binary, "-test.v", "-test.timeout", "40m", "-test.run", f"^({'|'.join(names)})$"]
    # These tests stop a broker with docker, and panic if the stop fails.
    tests += ["-test.skip", "^(TestConsumerFetchFollowerFailover|TestFuncTxnProduceWithBrokerFailure)$"]
    return Run(
        [sys.executable, HERE / "toxiproxy.py", proxy, str(SARAMA_PORT), *tests],
        source, GO_RESULT, {"TOXIPROXY_ADDR": "http://127.0.0.1:8474", "KAFKA_VERSION": version}, go_only,
    )  # fmt: skip


def librdkafka(address: str, version: str) -> Run:
    """The tests that need a broker. Both the tests and the library are compiled from the source in Confluent's npm package."""
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
        {"LD_LIBRARY_PATH": "../src:../src-cpp", "TEST_KAFKA_VERSION": at_most(version, "4.0.0")},
        lambda name: {"TESTS": name},
    )


def confluent_kafka_python(address: str, _: str) -> Run:
    """The integration tests of the repository that need no schema registry, run with the package from PyPI."""
    folder = cache() / f"suite-confluent-kafka-python-{CONFLUENT_KAFKA_PYTHON}"
    if not (folder / "complete").exists():
        source = checkout("confluentinc/confluent-kafka-python", f"v{CONFLUENT_KAFKA_PYTHON}", folder)
        package = f"confluent-kafka[schemaregistry,avro,json,protobuf]=={CONFLUENT_KAFKA_PYTHON}"
        environment(folder, package, *CONFLUENT_NEEDS)
        (folder / "run").mkdir()
        (source / "tests").rename(folder / "run" / "tests")  # without the repository's own package
        # The fixtures would start a Kafka with trivup. On a given broker they only import trivup.
        clusters = folder / "run" / "trivup" / "clusters"
        clusters.mkdir(parents=True)
        (clusters / "KafkaCluster.py").write_text("KafkaCluster = None\n")
        (folder / "complete").touch()
    parts = [f"tests/integration/{part}" for part in ("admin", "consumer", "producer", "share_consumer")]
    options = ["--timeout", "120", "-v", "--tb=short", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
    return Run(
        [folder / "venv" / "bin" / "python", "-m", "pytest", *options, *parts],
        folder / "run",
        re.compile(r"^tests/integration/(?P<name>\S+?::\S+.*?) (?P<word>PASSED|FAILED|ERROR|SKIPPED)"),
        {"BROKERS": address, "PYTHONPATH": str(folder / "run")},
        lambda name: ["-k", re.sub(r"\[.*", "", name).rpartition("::")[2]],
    )


def kafkajs(address: str, _: str) -> Run:
    """The specs of the repository, which need three brokers at fixed ports. The repository's own script creates the users."""
    folder = cache() / f"suite-kafkajs-{KAFKAJS}"
    source = folder / "source"
    if not (folder / "complete").exists():
        checkout("tulios/kafkajs", f"v{KAFKAJS}", folder)
        npm_install(source)
        (folder / "complete").touch()
    return Run(
        ["sh", "-ec", './scripts/createScramCredentials.sh; exec "$@"', "sh", *jest("--ci", "--maxWorkers=2", "--forceExit")],
        source,
        JEST_RESULT,
        {"KAFKA_VERSION": "2.4", "NODE_ENV": "test", "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1"}
        | with_stand_ins(address, folder / "bin"),
        jest_only,
    )


def confluent_kafka_javascript(address: str, _: str, protocol: str) -> Run:
    """The specs of the repository, run with the library from npm and with this group protocol (classic or consumer)."""
    name = f"@confluentinc/kafka-javascript@{CONFLUENT_KAFKA_JAVASCRIPT}"
    folder = cache() / f"suite-confluent-kafka-javascript-{CONFLUENT_KAFKA_JAVASCRIPT}"
    if not (folder / "complete").exists():
        source = checkout("confluentinc/confluent-kafka-javascript", f"v{CONFLUENT_KAFKA_JAVASCRIPT}", folder)
        (source / "test").rename(folder / "test")
        shutil.rmtree(source)
        (folder / "npm").mkdir()
        # npm compiles the library if there is no prebuilt binary for this Node.
        install = ["env", "CKJS_LINKING=dynamic", tool("npm"), "install", "--silent", "--no-audit", "--no-fund"]
        call([*install, name, f"jest@{JEST}"], folder / "npm", f"`npm install {name}`")
        (folder / "npm" / "node_modules" / "@confluentinc" / "kafka-javascript").rename(source)
        (folder / "npm" / "node_modules").rename(source / "node_modules")
        (folder / "test").rename(source / "test")
        (folder / "complete").touch()
    return Run(
        # These settings replace the project's own settings of jest, which measure coverage and transform TypeScript.
        jest("--ci", "--maxWorkers=2", "--forceExit", '--config={"transform": {}, "roots": ["test/promisified"]}'),
        folder / "source",
        JEST_RESULT,
        {"KAFKA_HOST": address, "TEST_CONSUMER_GROUP_PROTOCOL": protocol},
        jest_only,
    )


def platformatic_kafka(address: str, _: str) -> Run:
    """The repository's tests that need neither Kerberos nor a schema registry, run with the version of Node that they need."""
    folder = cache() / f"suite-platformatic-kafka-{PLATFORMATIC_KAFKA}"
    source = folder / "source"
    if not (folder / "complete").exists():
        checkout("platformatic/kafka", f"v{PLATFORMATIC_KAFKA}", folder)
        npm_install(source)
        (folder / "node").mkdir()
        call(
            [tool("npm"), "install", "--silent", "--no-audit", "--no-fund", f"node@{NODE}"],
            folder / "node",
            "`npm install node`",
        )
        (folder / "complete").touch()
    files = [str(file.relative_to(source)) for file in sorted(source.glob("test/**/*.test.ts"))]
    left_out = re.compile("gssapi|schema-registry|test/registries")
    node = [folder / "node" / "node_modules" / ".bin" / "node", "--test", "--test-concurrency=2", "--test-timeout=120000"]
    # Node takes each argument after the first file for another file, so the pattern that selects a test comes before the files.
    before_files = 'exec "$@" ${PATTERN:+"--test-name-pattern=$PATTERN"} $FILES'
    return Run(
        ["sh", "-ec", before_files, "sh", *node, f"--test-reporter={HERE / 'node_reporter.mjs'}"],
        source,
        re.compile(r"^node: (?P<word>PASSED|FAILED|SKIPPED) (?P<name>.+?)\s*$"),
        {"KAFKA_VERSION": "8.1.0", "PATTERN": "", "FILES": " ".join(file for file in files if not left_out.search(file))},
        node_only,
    )


def rskafka(address: str, _: str) -> Run:
    """The integration tests in the crate of crates.io; tests that need Java or a SOCKS5 proxy skip themselves."""
    folder, tests = cache() / f"suite-rskafka-{RSKAFKA}", ("client", "consumer", "produce_consume", "producer")
    chosen = ["--features", "full", *(word for name in tests for word in ("--test", name))]
    if not (folder / "complete").exists():
        crate("rskafka", RSKAFKA, folder)
        # rskafka needs neither the pinned Rust nor the locked rsasl.
        (folder / "source" / "rust-toolchain.toml").unlink(missing_ok=True)
        call([tool("cargo"), "update", "--quiet", "-p", "rsasl"], folder / "source", "`cargo update`")
        call([tool("cargo"), "test", "--no-run", "--quiet", *chosen], folder / "source", "`cargo test --no-run`")
        (folder / "complete").touch()
    found = listeners(address)
    connects = {"KAFKA_CONNECT": found["PLAINTEXT"], "KAFKA_SASL_CONNECT": found["SASL_PLAINTEXT"]}
    return Run(
        [tool("cargo"), "test", "--no-fail-fast", *chosen, "--"],
        folder / "source",
        re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<word>ok|FAILED|ignored)"),
        {"TEST_INTEGRATION": "1", "TEST_BROKER_IMPL": "kafka"} | connects,
        lambda name: ["--exact", name],
    )


def streams(address: str, _: str) -> Run:
    """Kafka Streams' integration tests in the classes that do not need streams groups (KIP-1071)."""
    return of_kafka(address, "kafka-streams-integration-tests", STREAMS_CLASSES)


def of_kafka(address: str, artifact: str, classes: str) -> Run:
    """Kafka's own tests, from a jar of Maven Central. A class that starts wirebroker replaces the class that starts Kafka."""
    folder = cache() / f"suite-kafka-{KAFKA}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "java", folder)
        jars = [tool("mvn"), "-q", "-B", COPY, "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"]
        call(jars, folder, "fetching Kafka's tests with mvn")
        call([tool("javac"), "-cp", "jars/*", "-d", "replaced", "KafkaClusterTestKit.java"], folder, "javac")
        (folder / "complete").touch()
    paths = ["jars/*"] if address == EMBEDDED else ["replaced", "jars/*"]
    java = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dserve={chr(10).join(SERVE)}"]
    launcher = ["org.junit.platform.console.ConsoleLauncher", "execute", "--details=testfeed", "--disable-banner"]
    jar = f"--scan-classpath=jars/{artifact}-{KAFKA}-test.jar"
    return Run(
        [*java, "-cp", os.pathsep.join(paths), *launcher, jar, f"--include-classname=.*[.]({classes})IntegrationTest"],
        folder,
        re.compile(r"^JUnit Jupiter > (?P<name>.+) :: (?P<word>SUCCESSFUL|FAILED|ABORTED|SKIPPED)"),
        only=lambda name: ["--include-methodname=.*[.]" + name.partition("(")[0].replace(" > ", "#")],
        named=lambda name: re.sub(r"\[\d+\] ", "", name),  # removes the index of a parametrised run
    )


def checkout(repository: str, tag: str, folder: Path) -> Path:
    """Clones this tag of a repository into a new folder, for tests that no package of a registry contains. Raises Missing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    cloned = ["clone", "--quiet", "--depth", "1", "--branch", tag, "-c", "advice.detachedHead=false"]
    call([tool("git"), *cloned, f"{GITHUB}{repository}", folder / "source"], folder, f"`git clone` of {repository}")
    return folder / "source"


def environment(folder: Path, *packages: str) -> Path:
    """Returns the Python of a new environment with these packages. Raises Missing."""
    call([sys.executable, "-m", "venv", folder / "venv"], folder, "making an environment")
    python = folder / "venv" / "bin" / "python"
    if packages:
        install = [python, "-m", "pip", "-q", "--disable-pip-version-check", "install", *packages]
        call(install, folder, f"`pip install {packages[0]}`")
    return python


def program(path: Path, script: str) -> None:
    """Write a shell script that tests find on the path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def listeners(address: str) -> dict[str, str]:
    """Splits an address with several listeners into the addresses by listener."""
    return dict(each.split("=", 1) for each in address.split())


def with_stand_ins(address: str, programs: Path) -> dict[str, str]:
    """Returns the environment variables with which tests find the stand-in for docker and these programs."""
    program(programs / "docker", f'exec "{sys.executable}" "{STAND_INS}/docker_program.py" "$@"')
    python_path = os.pathsep.join([str(STAND_INS), os.environ.get("PYTHONPATH", "")])
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    return {"PYTHONPATH": python_path, "PATH": path, "SUITE_LISTENERS": address}


JEST_RESULT = re.compile(r"^jest: (?P<word>PASSED|FAILED|SKIPPED) (?P<name>.+?)\s*$")
"""A line of jest_reporter.js about a test."""


def jest(*options: str) -> list[str | Path]:
    """Returns the command that runs the tests of a folder with jest."""
    return [
        tool("node"),
        "node_modules/jest/bin/jest.js",
        *options,
        "--no-watchman",
        f"--reporters={HERE / 'jest_reporter.js'}",
    ]


def jest_only(name: str) -> Sequence[str]:
    """Returns the words that run one test of jest."""
    file, _, title = name.partition(" > ")
    return ["--testPathPattern", re.escape(file), "-t", "^" + re.escape(title).replace("\\ ", r"\s+") + "$"]


def node_only(name: str) -> dict[str, str]:
    """Returns the file and the pattern with which Node's own runner runs only one test."""
    file, _, title = name.partition(" > ")
    return {"FILES": file, "PATTERN": f"(^| ){re.escape(title)}$"}


def npm_install(folder: Path) -> None:
    """Install the dependencies of a checkout, including its development dependencies, without running their scripts. Raises
    Missing."""
    options = ["--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--silent"]
    call([tool("npm"), "install", *options], folder, f"`npm install` for {folder.parent.name}")


def at_most(version: str, known: str) -> str:
    """Returns the version of the brokers, or the newest version that the tests know."""
    return min(version, known, key=numbers)


GO_RESULT = re.compile(r"^ *--- (?P<word>PASS|FAIL|SKIP): (?P<name>\S+)")
"""A line of `go test -v` about a test or a subtest."""


def go_only(name: str) -> Sequence[str]:
    """Returns the words that run one Go test, or one subtest."""
    return ["-test.run", "/".join(f"^{re.escape(part)}$" for part in name.split("/"))]


def go_module(module: str) -> Path:
    """Returns the folder in which Go keeps the source of a module. Go fetches the module once. Raises Missing."""
    found = json.loads(call([tool("go"), "mod", "download", "-json", module], cache(), f"`go mod download {module}`"))
    return Path(found["Dir"])


def at_port(address: str, port: int) -> None:
    """Check that the broker listens on this port, because the tests cannot use another port. Raises Missing if it does not."""
    if not address.endswith(f":{port}"):
        raise Missing(f"its tests connect to the first broker at port {port}, but the broker is at {address}")


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "kafka-python", KAFKA_PYTHON, kafka_python, 60,
            settings=("num.partitions=2", "node.id=0", "group.min.session.timeout.ms=1000"),
        ),
        Suite(
            "aiokafka", AIOKAFKA, aiokafka, 600,
            settings=(
                "num.partitions=2", *ACLS,
            ),
            listeners=("SSL", "SASL_PLAINTEXT", "SASL_SSL"), users={"admin": "admin", "test": "test", "test2": "test2"},
        ),
        Suite(
            "franz-go", FRANZ_GO.rpartition("v")[2], franz_go, 180, brokers=3, settings=("num.partitions=2",),
        ),
        Suite(
            "kafka-go", KAFKA_GO.rpartition("v")[2], kafka_go, 300,
            settings=("message.max.bytes=200000000",), port=9092, advertised="localhost:9092",
        ),
        Suite(
            "sarama", SARAMA.rpartition("v")[2], sarama, 900, brokers=5,
            settings=(
                "default.replication.factor=2", "offsets.topic.replication.factor=2",
                "transaction.state.log.replication.factor=2", "auto.create.topics.enable=false",
                "group.initial.rebalance.delay.ms=0",
                "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
            ),
            port=SARAMA_PORT, advertised="127.0.0.1:29091",
        ),
        Suite(
            "confluent-kafka-python", CONFLUENT_KAFKA_PYTHON, confluent_kafka_python, 600,
            settings=("group.share.record.lock.duration.ms=1000", "group.share.min.record.lock.duration.ms=1000", *ACLS),
        ),
        *(
            Suite(
                name, CONFLUENT_KAFKA_JAVASCRIPT, partial(confluent_kafka_javascript, protocol=protocol), 600,
                settings=(
                    "num.partitions=4", "group.consumer.min.session.timeout.ms=6000", "group.consumer.session.timeout.ms=10000",
                    "connections.max.reauth.ms=10000", *ACLS,
                ),
            )
            for name, protocol in {
                "confluent-kafka-javascript": "classic", "confluent-kafka-javascript-consumer": "consumer",
            }.items()
        ),
        Suite(
            "kafkajs", KAFKAJS, kafkajs, 600, brokers=3,
            settings=(
                "node.id=0", "default.replication.factor=2", "num.partitions=2", *ACLS,
            ),
            listeners=("SSL", "SASL_SSL"), users={"test": "testtest", "alice": "alicealice", "bob": "bobbob"},
            flags=("--faults", str(HERE / "slow-reassignments.toml")),
            ports={
                9092 + 3 * number + place: (listener, number)
                for number in range(3) for place, listener in enumerate(("PLAINTEXT", "SSL", "SASL_SSL"))
            },
        ),
        Suite(
            "platformatic-kafka", PLATFORMATIC_KAFKA, platformatic_kafka, 600, brokers=3,
            settings=(
                "default.replication.factor=3", "min.insync.replicas=1", "group.consumer.heartbeat.interval.ms=200",
                "group.consumer.min.heartbeat.interval.ms=100", "connections.max.reauth.ms=5000", *ACLS,
            ),
            listeners=("SASL_PLAINTEXT",), users={"admin": "admin"},
            ports={
                9001: ("PLAINTEXT", 0), 9002: ("SASL_PLAINTEXT", 0),
                **{9011 + number: ("PLAINTEXT", number) for number in range(3)},
            },
            # admin.test.ts leaves a quota in force. The quota delays "fetch loop must stop when stream is paused", so this test
            # fails.
            not_offered=".*(describeConfigs should include documentation|fetch loop must stop when stream is paused)",
        ),
        Suite(
            "rskafka", RSKAFKA, rskafka, 120, brokers=3, settings=("auto.create.topics.enable=false",),
            listeners=("SASL_PLAINTEXT",), users={"admin": "admin-secret"},
        ),
        Suite("kafka-streams", KAFKA, streams, 900, brokers=0),
        Suite(
            "librdkafka", "2.16.0", librdkafka, 600,
            # With the delay, two consumers that subscribe at the same time are both in the first generation.
            settings=("num.partitions=4", "group.initial.rebalance.delay.ms=1000"),
        ),
    )
}  # fmt: skip


def expected(name: str) -> Path:
    """Returns the file with the names of the tests that a real Kafka passes."""
    return HERE / "expected" / f"{name}.txt"


__all__ = ["FAIL", "PASS", "SERVE", "SKIP", "SUITES", "WORDS", "Missing", "Run", "Suite", "expected"]
