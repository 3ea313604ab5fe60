"""Sends the fuzzer's requests over TCP to a `serve` process. Meanwhile, a good connection measures how long its own responses
take.

The seed determines the requests of the clients. The responses also depend on time, and later requests use values from these
responses.
"""

from __future__ import annotations

import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil

from fuzzing.acknowledged import Acknowledged, read_log
from fuzzing.frames import damaged_frame, frame
from fuzzing.known import Known
from fuzzing.requests import Author
from fuzzing.script import Finding
from fuzzing.world import TOPICS, folder
from kafkawire.batches import iter_batches
from kafkawire.errors import ProtocolError
from kafkawire.frames import decode_response
from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkawire.registry import KEYS, PRODUCE, versions
from requesting import list_offsets
from responses import only, sole
from wirebroker.apis import SERVED
from wirebroker.client.wire import WireClient

TOO_LONG = 0.1
"""The longest time, in seconds, that the good connection may wait for a response."""
SHARE = 0.6
"""A wait counts only if the server has used the CPU for at least this share of the wait. (On a busy machine everything
waits.)
"""
MOST_GROWTH = 400 << 20
"""The server's memory may grow by at most this many bytes in a case. A case sends a few MB."""
RESPONSE_WITHIN = 5.0
PIPELINED = 40
UNREAD = 4 << 20
"""A client that never reads sends at most this many bytes."""
GONE = (OSError,)
SHARED = "good"
"""The topic of the good connection."""


class Server:
    """A process of `wirebroker serve`. `log` is its output on stderr."""

    def __init__(self, place: Path, *, data: bool) -> None:
        self._place, self._data = place, data
        self._errors = place / "stderr"
        self.start()

    def start(self) -> None:
        """Starts the server. Raises Finding if the server does not start."""
        topics = [f"--topic={name}:{count}" for name, (count, _) in TOPICS.items()] + [f"--topic={SHARED}:1"]
        where = ["--data", str(self._place / "data")] if self._data else []
        command = [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--port", "0", *topics, *where]
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        found = re.match(r"listening on (\S+):(\d+) ", first)
        if found is None or self.process.stdout.readline() != "ready\n":
            self.process.kill()
            raise Finding("the broker does not start", self.log[-2000:])
        self.address = (found[1], int(found[2]))
        self.measured = psutil.Process(self.process.pid)

    @property
    def log(self) -> str:
        """Returns the server's output on stderr."""
        return self._errors.read_text(errors="replace")

    def cpu(self) -> float:
        """Returns the seconds of CPU time that the server has used."""
        times = self.measured.cpu_times()
        return float(times.user + times.system)

    def stop(self, *, kill: bool) -> None:
        """Stops or kills the server. Raises Finding if the server does not stop after SIGTERM."""
        (self.process.kill if kill else self.process.terminate)()
        try:
            code = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Finding("the broker does not stop", "20 s after SIGTERM") from None
        if not kill and code != 0:
            raise Finding("the broker ends with an error", f"exit code {code}\n{self.log[-2000:]}")


class GoodConnection(threading.Thread):
    """Requests the metadata of one topic repeatedly, and measures the longest wait that the broker caused."""

    def __init__(self, server: Server, sent: deque[str], patience: float) -> None:
        super().__init__(daemon=True)
        self._server, self._sent, self._patience = server, sent, patience
        self._over = threading.Event()
        self.worst = 0.0
        self.during: list[str] = []
        self.failed = ""
        self.asked = 0

    def run(self) -> None:
        wire = WireClient(*self._server.address, timeout=60)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=SHARED)], allow_auto_topic_creation=False)
        try:
            while not self._over.is_set():
                cpu, begun = self._server.cpu(), time.monotonic()
                wire.request(request, 12)
                self.asked += 1
                took = time.monotonic() - begun
                if took > max(self._patience, self.worst) and self._server.cpu() - cpu > SHARE * took:
                    self.worst, self.during = took, list(self._sent)
                self._over.wait(0.003)
        except (*GONE, ProtocolError, psutil.Error) as failed:
            self.failed = f"{type(failed).__name__}: {failed}"
        finally:
            wire.close()

    def end(self) -> None:
        """Stops requesting. Raises Finding if a response was missing or took too long."""
        self._over.set()
        self.join(70)
        if self.failed:
            raise Finding("a good connection is not answered", f"{self.failed}\n" + "\n".join(self._sent))
        if self.worst > self._patience:
            last = self.during[-1] if self.during else "?"
            name = last.partition(",")[0]
            raise Finding(f"a good connection waits during {name}", f"{self.worst * 1000:.0f} ms\n" + "\n".join(self.during))


def whole_frames(received: bytearray) -> Iterator[bytes]:
    """Removes complete frames from the received data, and yields them."""
    while len(received) >= 4 and len(received) - 4 >= (size := int.from_bytes(received[:4], "big")):
        frame = bytes(received[4 : 4 + size])
        del received[: 4 + size]
        yield frame


@dataclass(eq=False)
class RudeConnection:
    """A connection of the fuzzer. A `deaf` connection never reads its responses."""

    socket: socket.socket
    deaf: bool
    received: bytearray = field(default_factory=bytearray)
    awaited: deque[tuple[int, int, int, Any]] = field(default_factory=deque)
    sent: int = 0


@dataclass(slots=True)
class ServedOutcome:
    """The result of a case."""

    finding: Finding | None
    requests: int
    responses: int
    worst: float
    cpu: float


class ServedCase:
    """A server and its clients. For every third seed the server has a data directory. This server is killed and restarted
    halfway.
    """

    def __init__(self, seed: int, apis: tuple[str, ...] = (), requests: int = 300, patience: float = TOO_LONG) -> None:
        """The good connection may wait for `patience` seconds."""
        self.random = Random(f"served-{seed}")
        self._apis, self._count, self._patience = apis, requests, patience
        self._data = seed % 3 == 0
        self._place = folder()
        self.known = Known(self.random, tuple(TOPICS))
        self.author = Author(self.random, self.known, lambda: time.time_ns() // 1_000_000)
        self.acknowledged = Acknowledged()
        self._links: dict[int, RudeConnection] = {}
        self._last: deque[str] = deque(maxlen=6)
        self._correlation = self.responses = 0
        self._ids: dict[str, bytes] = {}

    def run(self) -> ServedOutcome:
        """Plays the case to its end."""
        finding, worst, cpu = None, 0.0, 0.0
        try:
            server = Server(self._place, data=self._data)
            try:
                for _ in range(2 if self._data else 1):
                    worst = max(worst, self._play(server))
                cpu = server.cpu()
                server.stop(kill=False)
                self._check_output(server)
            finally:
                server.process.kill()
                server.process.wait()
        except Finding as found:
            finding = found
        finally:
            for link in self._links.values():
                link.socket.close()
            shutil.rmtree(self._place, ignore_errors=True)
        return ServedOutcome(finding, self._correlation, self.responses, worst, cpu)

    def _play(self, server: Server) -> float:
        """Plays the clients' requests. If the broker has a data directory, kills the broker and checks the acknowledged
        records.
        """
        self._ids = self._ids or topic_ids(server)
        before = server.measured.memory_info().rss
        good = GoodConnection(server, self._last, self._patience)
        good.start()
        for _ in range(self._count):
            self._act(server)
            if server.process.poll() is not None:
                raise Finding("the broker is gone", f"exit code {server.process.returncode}\n{server.log[-2000:]}")
        good.end()
        grown = server.measured.memory_info().rss - before
        if grown > MOST_GROWTH:
            raise Finding("memory", f"{grown >> 20} MiB more in one case\n" + "\n".join(self._last))
        for number in list(self._links):
            self._drop(number)
        self._check_output(server)
        if self._data:
            server.stop(kill=True)
            server.start()
        self._check_logs(server)
        return good.worst

    @staticmethod
    def _check_output(server: Server) -> None:
        said = server.log
        at = next((said.find(word) for word in ("Traceback", "ERROR ", "CRITICAL ") if word in said), -1)
        if at >= 0:
            lines = said[at:].splitlines()
            last = next((line for line in lines if line and not line.startswith((" ", "ERROR", "Traceback"))), lines[0])
            raise Finding(f"logged: {re.sub('[0-9]+', 'N', last)[:150]}", said[at : at + 4000])

    # The clients

    def _act(self, server: Server) -> None:
        chance, number = self.random.random(), self.random.randrange(6)
        link = self._links.get(number)
        if link is None:
            made = socket.create_connection(server.address, RESPONSE_WITHIN)
            link = self._links[number] = RudeConnection(made, deaf=self.random.random() < 0.2)
        try:
            if chance < 0.02:
                raw = self._frame(link)
                link.socket.sendall(raw[: self.random.randrange(len(raw))])
                self._drop(number)
            elif chance < 0.1 or link.deaf:
                self._pipeline(link)
            else:
                link.socket.sendall(self._frame(link))
                if chance < 0.8:
                    self._read(link)
        except OSError:
            self._drop(number)

    def _pipeline(self, link: RudeConnection) -> None:
        raw = self._frame(link)
        burst = b"".join(raw if self.random.random() < 0.7 else self._frame(link) for _ in range(PIPELINED))
        if link.deaf:
            link.socket.setblocking(False)
            if link.sent < UNREAD:
                link.sent += link.socket.send(burst)
            return
        link.awaited.clear()  # the same frame is sent many times, and the responses are ignored
        link.socket.sendall(burst[: 1 << 18])
        self._drain(link)

    def _frame(self, link: RudeConnection) -> bytes:
        if self._apis and self.random.random() < 0.7:
            name = self.random.choice(self._apis)
        else:
            name = self.random.choice(SERVED)
        key = KEYS[name]
        oldest, newest = versions(key)
        if newest < oldest:  # the broker's release does not have this API
            return self._frame(link)
        version = self.random.choice((newest, self.random.randint(oldest, newest)))
        made = self.author.request(key, version, mutations=self.random.choice((0, 0, 1, 2)))
        self._correlation += 1
        raw = frame(key, version, self._correlation, made.body)
        if self.random.random() < 0.05:
            raw = damaged_frame(self.random, raw)  # the response to a damaged frame is not used
        elif getattr(made.message, "acks", 1) != 0:
            link.awaited.append((self._correlation, key, version, made.message))
        self._last.append(f"{name} v{version}, {len(raw)} bytes: {raw[:120].hex()}")
        return struct.pack(">i", len(raw)) + raw

    def _read(self, link: RudeConnection) -> None:
        """Waits a moment for data, and remembers the values of complete responses."""
        link.socket.settimeout(0.05)
        try:
            data = link.socket.recv(1 << 20)
        except TimeoutError:
            return
        if not data:
            raise ConnectionResetError
        link.received += data
        for raw in whole_frames(link.received):
            self.responses += 1
            self._answered(link, raw)

    def _drain(self, link: RudeConnection) -> None:
        """Reads responses for a moment, and ignores them."""
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            self._read(link)

    def _answered(self, link: RudeConnection, raw: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", raw)
        while link.awaited and link.awaited[0][0] != correlation_id:
            link.awaited.popleft()
        if not link.awaited:
            return
        _, key, version, message = link.awaited.popleft()
        try:
            _, response = decode_response(raw, key, version)
        except ProtocolError as wrong:
            raise Finding(f"{type(message).__name__} v{version}: a response that cannot be read", str(wrong)) from None
        self.known.learn(message, response)
        if key == PRODUCE:
            self.acknowledged.note(message, response, lambda name: self._ids.get(name) if isinstance(name, str) else name)

    def _drop(self, number: int) -> None:
        self._links.pop(number).socket.close()

    # In the end

    def _check_logs(self, server: Server) -> None:
        wire = WireClient(*server.address)
        try:
            for name, topic_id in topic_ids(server).items():
                compacted = "compact" in cleanup_policy(wire, name)
                logs = [read_all(wire, name, index) for index in range(TOPICS[name][0])]
                if topic_ids(server).get(name) != topic_id:
                    continue  # requests of the closed connections still ran, and have deleted the topic and made it again
                for index, (start, end, raw) in enumerate(logs):
                    self.acknowledged.check(topic_id, index, read_log(f"{name}-{index}", start, end, raw, compacted=compacted))
        except (*GONE, ProtocolError) as wrong:
            raise Finding("the log cannot be read in the end", f"{type(wrong).__name__}: {wrong}") from None
        finally:
            wire.close()


def topic_ids(server: Server) -> dict[str, bytes]:
    """Returns the ids of the existing topics, by name."""
    wire = WireClient(*server.address)
    try:
        response = wire.request(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
    finally:
        wire.close()
    return {topic.name: topic.topic_id for topic in response.topics if topic.name in TOPICS}


def cleanup_policy(wire: WireClient, topic: str) -> str:
    """Returns the cleanup.policy of a topic."""
    asked = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=["cleanup.policy"])
    response = wire.request(DescribeConfigsRequest(resources=[asked]), 4)
    return str(sole(response.results).configs[0].value)


def read_all(wire: WireClient, topic: str, index: int) -> tuple[int, int, list[bytes]]:
    """Returns the start and the end of a partition's log, and the batches of this log."""
    found: list[bytes] = []
    offset, start = 0, 0
    while True:
        asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[asked])])
        response = only(wire.request(request, 11))
        if response.error_code == 1:  # OFFSET_OUT_OF_RANGE: the log begins later
            asked.fetch_offset = offset = start = list_offset(wire, topic, index, -2)
            response = only(wire.request(request, 11))
        if not response.records:
            return start, response.high_watermark, found
        for each in iter_batches(response.records):
            found.append(bytes(each))
            offset = int.from_bytes(each[:8], "big", signed=True) + int.from_bytes(each[23:27], "big") + 1


def list_offset(wire: WireClient, topic: str, index: int, timestamp: int) -> int:
    """Sends ListOffsets with this timestamp, and returns the offset."""
    response = wire.request(list_offsets(timestamp, topic=topic, partition=index), 7)
    return int(only(response).offset)
