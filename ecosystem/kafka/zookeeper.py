"""The ZooKeeper that a release of Kafka before 3.3 needs: one server on a loopback port, from the jars of Kafka."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ecosystem.kafka.releases import HOST, KafkaUnavailable, free_port

READY_WITHIN = 30.0
TICK_MS = 500
SESSION_SECONDS = 4.0
"""A killed broker stays registered for this many seconds. A new broker with the same id has to wait until this time is over."""
ADMIN = "kafka.admin.ConfigCommand"


class ZooKeeper:
    """One server, whose files are in `folder`. `java` returns the command of a JVM for a main class and its arguments."""

    def __init__(self, folder: Path, java: Callable[..., list[str]]) -> None:
        self.address = f"{HOST}:{free_port()}"
        self._folder, self._java = folder, java
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server unless it runs, and wait until it listens. Raises KafkaUnavailable."""
        if self._process is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        host, port = self.address.split(":")
        lines = {
            "dataDir": str(self._folder), "clientPort": port, "clientPortAddress": host, "tickTime": str(TICK_MS),
            "maxClientCnxns": "0", "admin.enableServer": "false",
        }  # fmt: skip
        config = self._folder / "zookeeper.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        log = self._folder / "zookeeper.log"
        with log.open("ab") as out:
            command = self._java("org.apache.zookeeper.server.ZooKeeperServerMain", str(config))
            self._process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise KafkaUnavailable(f"ZooKeeper did not start: {log.read_text(errors='replace')[-1500:]}")

    def add_user(self, name: str, password: str, mechanisms: tuple[str, ...]) -> None:
        """Write a user's SCRAM credentials, which a broker reads when it starts. Raises KafkaUnavailable."""
        added = ",".join(f"{each}=[password={password}]" for each in mechanisms)
        which = ("--entity-type", "users", "--entity-name", name)
        command = self._java(ADMIN, "--zookeeper", self.address, "--alter", "--add-config", added, *which)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KafkaUnavailable(f"user {name} could not be made: {(done.stdout + done.stderr).strip()[-800:]}")

    def stop(self) -> None:
        """End the server."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
