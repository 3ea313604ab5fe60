"""A real Apache Kafka from Maven Central, with one broker on a loopback port: KRaft, or ZooKeeper before 3.3.

    with KafkaServer({"producer.id.expiration.ms": "2000"}) as kafka:
        host, port = kafka.address

With TLS and SASL: see `ecosystem.kafka.security`.

Needs `java` (17 or newer) and `mvn`. The jars are kept in `$XDG_CACHE_HOME/wirebroker/kafka-VERSION-log4j`.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from ecosystem.kafka.releases import (
    HOST,
    VERSION,
    KafkaUnavailable,
    fetch_jars,
    free_port,
    has_kraft,
    in_release,
    java_options,
    numbers,
)
from ecosystem.kafka.security import SCRAM, Security
from ecosystem.kafka.zookeeper import SESSION_SECONDS, ZooKeeper
from kafkawire.errors import WireError
from kafkawire.messages.metadata import MetadataRequest
from wirebroker.client.wire import WireClient
from wirebroker_tools.conformance.run import RETRIES

READY_WITHIN = 60.0
"""The seconds that a broker may take to start or to stop."""
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER_ID = "d2lyZWJyb2tlci1vcmFjbA"

TELEMETRY_RECEIVER = "TelemetryReceiver"
"""With this value of `metric.reporters` a broker accepts the metrics of clients; `javac` must be installed."""


class KafkaServer:
    """One broker and controller in one process, with the settings of the recordings unless `settings` says otherwise.

    `data` is the folder for the broker's files, by default a temporary folder; `log.dirs` names its subfolders. With `port` 0
    the broker gets a free port, and keeps this port when it restarts. `security` adds listeners; `addresses` has their
    addresses by protocol. With `joins` the broker joins the cluster of the server `joins`, and its settings need another
    `node.id`. `advertised` is the address that clients use, if it is not the broker's own. `quorum` has the addresses of all
    controllers by node id. With `quorum`, the broker is also a controller, and it is one of several brokers that
    `start_together` starts. Raises KafkaUnavailable if Kafka is not on this machine or does not start.
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
        "log.initial.task.delay.ms": "100",  # the default is 30 s, but the recorded broker had already run for longer than 30 s
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
        advertised: str = "",
        quorum: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self._joins = joins
        self.security = security or Security(listeners=())
        self.settings = in_release({**self.SETTINGS, **(settings or {})}, version)
        node = self.settings.get("node.id", "1")
        self._quorum = quorum or {node: f"{HOST}:{free_port()}"}
        self.controller = self._quorum[node] if joins is None else joins.controller
        self.address = (HOST, port or free_port())
        self.addresses = {"PLAINTEXT": self.address} | {each: (HOST, free_port()) for each in self.security.listeners}
        self.retries = RETRIES
        self._advertised = {"PLAINTEXT": advertised} if advertised else {}
        self._heap, self._java_options = heap, java_options
        self._temporary = data is None
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-")) if data is None else data
        self._process: subprocess.Popen[bytes] | None = None
        self.zookeeper = self._zookeeper()
        """The ZooKeeper of the cluster, or None for a KRaft broker."""

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
        """The process id of the running broker, or 0."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start the broker, and wait until it responds. The first start formats the broker's storage."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start the broker without waiting for it."""
        properties = self._folder / "server.properties"
        if not properties.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            if self.security.listeners and self._joins is None:
                self.security.make_certificates(self._folder / "certificates")
            properties.write_text(self._properties())
            self._compile_plugins()
            self._prepare(properties)
        if self.zookeeper is not None:
            self.zookeeper.start()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(properties)), stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> None:
        """Wait until the broker responds."""
        self._wait_until_listening()
        if self.zookeeper is not None:
            self._wait_until_known()

    def stop(self, mode: str = "clean") -> None:
        """Stop the broker: "clean" as an operator does, "kill" as a power cut does."""
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
        """Stop the broker, and start it again on the same files and the same port."""
        self.stop(mode)
        if self.zookeeper is not None and mode == "kill":
            time.sleep(SESSION_SECONDS + 1)
        self.start()

    def close(self) -> None:
        """Stop the broker, and remove its files if they were temporary."""
        self.stop("kill" if self._temporary else "clean")
        if self.zookeeper is not None and self._joins is None:
            self.zookeeper.stop()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def now(self) -> int:
        """Returns the broker's time in ms since the epoch: the time of this machine."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def _java(self, main: str, *arguments: str) -> list[str]:
        jars = fetch_jars(self.version)
        options = (*self._java_options, *java_options(self.version), *self.security.java_options(self.version))
        return ["java", f"-Xmx{self._heap}", *options, "-cp", f"{jars}/*:{self._plugins}", main, *arguments]

    def _zookeeper(self) -> ZooKeeper | None:
        if has_kraft(self.version):
            return None
        return ZooKeeper(self._folder / "zookeeper", self._java) if self._joins is None else self._joins.zookeeper

    def _properties(self) -> str:
        addresses = ",".join(f"{name}://{host}:{port}" for name, (host, port) in self.addresses.items())
        own = {name: f"{host}:{port}" for name, (host, port) in self.addresses.items()} | self._advertised
        advertised = ",".join(f"{name}://{address}" for name, address in own.items())
        lines = {"advertised.listeners": advertised} | (self._in_kraft(addresses) if self.zookeeper is None else {})
        lines |= self.security.settings() if self.security.listeners else {}
        if self.zookeeper is not None:
            lines |= self._in_zookeeper(self.zookeeper, addresses)
        lines |= self.settings
        lines["log.dirs"] = ",".join(f"{self._folder}{each}" for each in self.settings.get("log.dirs", "/logs").split(","))
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _in_kraft(self, addresses: str) -> dict[str, str]:
        first = self._joins or self
        lines = {
            "process.roles": "broker,controller" if first is self else "broker",
            "node.id": self.settings.get("node.id", "1"),
            "controller.quorum.voters": ",".join(f"{node}@{address}" for node, address in first._quorum.items()),
            "listeners": f"{addresses},CONTROLLER://{self.controller}" if first is self else addresses,
            "controller.listener.names": "CONTROLLER",
        }
        return lines | ({} if first is self else {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"})

    def _in_zookeeper(self, zookeeper: ZooKeeper, addresses: str) -> dict[str, str]:
        return {
            "broker.id": self.settings.get("node.id", "1"),
            "listeners": addresses,
            "zookeeper.connect": zookeeper.address,
            "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
        }

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

    def _prepare(self, properties: Path) -> None:
        """Format the storage, or write the users to ZooKeeper."""
        if self.zookeeper is not None:
            self.zookeeper.start()
            for name, password in self.security.users.items() if self._joins is None else ():
                self.zookeeper.add_user(name, password, SCRAM)
            return
        takes_users = self._joins is None and numbers(self.version) >= (3, 5)  # KIP-900
        users = self.security.format_arguments() if takes_users else ()
        command = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties), *users)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KafkaUnavailable(f"the storage could not be formatted: {(done.stdout + done.stderr).strip()[-800:]}")

    def _wait_until_known(self) -> None:
        """Wait until clients see this broker and a controller. A broker with ZooKeeper already listens before that."""
        deadline, node = time.monotonic() + READY_WITHIN, int(self.settings.get("node.id", "1"))
        while time.monotonic() < deadline:
            client = WireClient(*self.address, timeout=5)
            try:
                response = client.request(MetadataRequest(topics=[]), 1)
                if response.controller_id >= 0 and node in [each.node_id for each in response.brokers]:
                    return
            except (OSError, WireError):
                pass
            finally:
                client.close()
            time.sleep(0.1)
        raise KafkaUnavailable(f"Kafka {self.version} did not join its cluster: {self.log.read_text(errors='replace')[-1500:]}")

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


def start_together(servers: Sequence[KafkaServer]) -> None:
    """Start the brokers of a quorum, and wait until all respond. They start together, because a single broker elects no
    controller. Raises KafkaUnavailable."""
    for server in servers:
        server.launch()
    for server in servers:
        server.wait()


def until(condition: Callable[[], bool], what: str, within: float = 120.0) -> None:
    """Wait until the condition is true. Errors of a broker that cannot be reached are ignored. Exits after `within` seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if condition():
                return
        except (OSError, WireError):
            pass
        time.sleep(0.2)
    raise SystemExit(f"{what}: this did not happen within {within:.0f} s")
