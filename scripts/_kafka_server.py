"""A real Apache Kafka: its jars from Maven Central, and one KRaft broker of it on a loopback port.

    with KafkaServer({"producer.id.expiration.ms": "2000"}) as kafka:
        host, port = kafka.address

With TLS and SASL: see `_kafka_security`.

Needs `java` (17 or newer) and `mvn`. The jars are kept in `$XDG_CACHE_HOME/wirebroker/kafka-VERSION-log4j`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from _kafka_security import Security

VERSION = "4.3.1"
ARTIFACTS = ("kafka_2.13", "kafka-tools", "kafka-storage")
LOGGER = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
LEVELS = Path(__file__).with_name("kafka-log4j2.properties")
HOST = "127.0.0.1"
READY_WITHIN = 60.0
"""Seconds a broker may take to start or to stop."""
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER_ID = "d2lyZWJyb2tlci1vcmFjbA"

TELEMETRY_RECEIVER = "TelemetryReceiver"
"""The value of `metric.reporters` with which a broker takes clients' metrics; needs `javac`."""

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY = "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class KafkaUnavailable(Exception):
    """A real Kafka cannot be had here; the text says why."""


def jar_folder(version: str = VERSION) -> Path:
    """Where the jars are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wirebroker" / f"kafka-{version}-log4j"


def fetch_jars(version: str = VERSION) -> Path:
    """The folder with Kafka's jars and all that they need, fetched once. Raises KafkaUnavailable."""
    target = jar_folder(version)
    if target.is_dir():
        return target
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise KafkaUnavailable(f"a real Kafka needs `{tool}`, which is not on this machine")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        wanted = [("org.apache.kafka", artifact, version) for artifact in ARTIFACTS]
        wanted.append(tuple(LOGGER.split(":")))  # type: ignore[arg-type]
        pom = Path(work, "pom.xml")
        pom.write_text(POM.format(dependencies="".join(DEPENDENCY.format(*each) for each in wanted)))
        jars = Path(work, "jars")
        command = ["mvn", "-q", "-B", "-f", str(pom), COPY, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not jars.is_dir():
            raise KafkaUnavailable(f"mvn could not fetch Kafka {version}: {(done.stdout + done.stderr).strip()[-800:]}")
        try:
            jars.rename(target)
        except OSError:
            if not target.is_dir():  # else somebody else was faster
                raise
    return target


def free_port() -> int:
    """A loopback port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class KafkaServer:
    """One broker and controller in one process, with the settings of the recordings unless `settings` says otherwise.

    `data` keeps its files (a temporary folder otherwise), in the folders that `log.dirs` names; `port` 0 takes a free one and
    keeps it over restarts. `security` adds listeners, whose addresses `addresses` has by protocol. With `joins` it is another
    broker of that one's cluster, and needs a `node.id` of its own.
    Raises KafkaUnavailable where Kafka cannot be had or does not start.
    """

    SETTINGS: Mapping[str, str] = {
        "num.partitions": "1",
        "auto.create.topics.enable": "true",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "log.initial.task.delay.ms": "100",  # 30 s otherwise: the recorded broker had been up for longer
    }

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        version: str = VERSION,
        port: int = 0,
        data: Path | None = None,
        heap: str = "512m",
        security: Security | None = None,
        java_options: Sequence[str] = JAVA_OPTIONS,
        joins: KafkaServer | None = None,
    ) -> None:
        self.version = version
        self._joins = joins
        self.controller = f"{HOST}:{free_port()}" if joins is None else joins.controller
        self.security = security or Security(listeners=())
        self.settings = {**self.SETTINGS, **(settings or {})}
        self.address = (HOST, port or free_port())
        self.addresses = {"PLAINTEXT": self.address} | {each: (HOST, free_port()) for each in self.security.listeners}
        self._heap, self._java_options = heap, java_options
        self._temporary = data is None
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-")) if data is None else data
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KafkaServer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def log(self) -> Path:
        """The output of the process."""
        return self._folder / "kafka.log"

    @property
    def pid(self) -> int:
        """The process id of the running broker, 0 when there is none."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start the broker, formatting its storage the first time, and wait until it responds."""
        properties = self._folder / "server.properties"
        if not properties.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            if self.security.listeners and self._joins is None:
                self.security.make_certificates(self._folder / "certificates")
            properties.write_text(self._properties())
            self._compile_plugins()
            self._format(properties)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(properties)), stdout=log, stderr=log, start_new_session=True
            )
        self._wait_until_listening()

    def stop(self, mode: str = "clean") -> None:
        """Stop it: "clean" as an operator does, "kill" as a power cut does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGKILL if mode == "kill" else signal.SIGTERM)
        try:
            process.wait(READY_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, mode: str = "clean") -> None:
        """Stop it and start it again on the same files and the same port."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop it, and remove its files if they were temporary."""
        self.stop("kill" if self._temporary else "clean")
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def now(self) -> int:
        """ms since the epoch, by its clock, which is this machine's."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def _java(self, main: str, *arguments: str) -> list[str]:
        jars = fetch_jars(self.version)
        options = (*self._java_options, f"-Dlog4j2.configurationFile={LEVELS}", *self.security.java_options())
        return ["java", f"-Xmx{self._heap}", *options, "-cp", f"{jars}/*:{self._plugins}", main, *arguments]

    def _properties(self) -> str:
        first = self._joins or self
        addresses = ",".join(f"{name}://{host}:{port}" for name, (host, port) in self.addresses.items())
        lines = {
            "process.roles": "broker,controller" if first is self else "broker",
            "node.id": self.settings.get("node.id", "1"),
            "controller.quorum.voters": f"{first.settings.get('node.id', '1')}@{self.controller}",
            "listeners": f"{addresses},CONTROLLER://{self.controller}" if first is self else addresses,
            "advertised.listeners": addresses,
            "controller.listener.names": "CONTROLLER",
        }
        lines |= {} if first is self else {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
        lines |= (self.security.settings() if self.security.listeners else {}) | self.settings
        lines["log.dirs"] = ",".join(f"{self._folder}{each}" for each in self.settings.get("log.dirs", "/logs").split(","))
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    @property
    def _plugins(self) -> Path:
        return self._folder / "plugins"

    def _compile_plugins(self) -> None:
        if self.settings.get("metric.reporters") != TELEMETRY_RECEIVER:
            return
        source = Path(__file__).with_name(f"{TELEMETRY_RECEIVER}.java")
        command = ["javac", "-cp", f"{fetch_jars(self.version)}/*", "-d", str(self._plugins), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KafkaUnavailable(f"{source.name} could not be compiled: {done.stderr.strip()[-800:]}")

    def _format(self, properties: Path) -> None:
        users = self.security.format_arguments() if self._joins is None else ()
        command = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties), *users)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KafkaUnavailable(f"the storage could not be formatted: {(done.stdout + done.stderr).strip()[-800:]}")

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                for address in self.addresses.values():  # a broker opens one listener after another
                    socket.create_connection(address, 1).close()
                return
            except OSError:
                time.sleep(0.1)
        tail = self.log.read_text(errors="replace")[-1500:]
        raise KafkaUnavailable(f"Kafka {self.version} did not start: {tail}")
