"""Small helpers that tests share: batch headers, batches, and clients that send requests to a broker over the wire."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

from ecosystem.kafka.releases import jar_folder
from inprocess import InProcess, Links
from kafkawire.batches import BatchHeader, Record, build_batch
from kafkawire.registry import KEYS
from requesting import init_producer_id, produce_request
from responses import only
from wirebroker.client.wire import ConnectionClosed, Connections, WireClient, address_of
from wirebroker.mock import MockKafka

NOW = 1_800_000_000_000
FEW_PLUGINS = [word for name in ("anyio", "cacheprovider", "hypothesispytest", "schemathesis") for word in ("-p", f"no:{name}")]
"""Flags for pytest in its own process. Without these plugins, pytest starts in half the time."""


class Reachable(Protocol):
    """A MockKafka, a ProxyKafka, or any other object that has an address."""

    @property
    def bootstrap_servers(self) -> str: ...


def header(seq: int = 0, count: int = 1, *, pid: int = 7, epoch: int = 0, timestamp: int = NOW) -> BatchHeader:
    """Returns the header of a well-formed batch."""
    return BatchHeader(0, 100, -1, 2, 0, 0, count - 1, timestamp, timestamp, pid, epoch, seq, count)


def batch(
    seq: int = -1,
    count: int = 1,
    *,
    pid: int = -1,
    epoch: int = -1,
    timestamp: int | None = None,
    tag: str = "v",
    **options: Any,
) -> bytes:
    """Returns a batch of `count` records with the values v0, v1 …"""
    if timestamp is None:
        timestamp = time.time_ns() // 1_000_000
    records = [Record(i, 0, None, f"{tag}{max(seq, 0) + i}".encode()) for i in range(count)]
    return build_batch(records, base_timestamp=timestamp, producer_id=pid, producer_epoch=epoch, base_sequence=seq, **options)


def client(kafka: Reachable | InProcess, node: int = 0) -> Connections:
    """Returns a raw wire client of one of the brokers."""
    return Links(kafka, node) if isinstance(kafka, InProcess) else WireClient.at(kafka.bootstrap_servers.split(",")[node])


def dial(kafka: Reachable, node: int = 0) -> socket.socket:
    """Returns a socket that is connected to one of the brokers."""
    return socket.create_connection(address_of(kafka.bootstrap_servers.split(",")[node]), 20)


def exactly(connection: socket.socket, size: int) -> bytes:
    """Reads `size` bytes. Raises AssertionError if the broker closes the connection before all bytes have arrived."""
    received = bytearray()
    while len(received) < size:
        more = connection.recv(size - len(received))
        assert more, "the broker closed the connection"
        received += more
    return bytes(received)


def has_come(connection: socket.socket) -> bool:
    """Returns true if a response has arrived, at least in part."""
    timeout = connection.gettimeout()
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(timeout)


def ask_in_vain(kafka: Reachable, api: str, version: int) -> None:
    """Sends a request without a body, which is invalid. Checks that the broker closes the connection."""
    line = client(kafka)
    line.send_raw(KEYS[api], version, b"", header_version=1)
    with pytest.raises(ConnectionClosed):
        line.frame()


class RawProducer:
    """An idempotent producer that sends exactly the given sequences."""

    def __init__(self, kafka: MockKafka, topic: str = "orders", partition: int = 0) -> None:
        self.wire = client(kafka)
        self.topic, self.partition = topic, partition
        self.pid = self.wire.request(init_producer_id(None, 1000), 0).producer_id
        self.epoch = 0

    def send(self, first: int, last: int | None = None, *, epoch: int | None = None, version: int = 9, acks: int = -1) -> Any:
        """Send a batch with the sequences from `first` to `last`. Returns the partition's response."""
        count = 1 if last is None else last - first + 1
        data = batch(first, count, pid=self.pid, epoch=self.epoch if epoch is None else epoch)
        return self.raw(data, version, acks)

    def raw(self, data: bytes | None, version: int = 9, acks: int = -1) -> Any:
        """Send `data` as the record data. Returns the partition's response."""
        request = produce_request(self.topic, data, self.partition, acks)
        return only(self.wire.request(request, version))


def without_times(log: str) -> list[str]:
    """Returns the lines of a server's log. Leaves out the time at the beginning of each line."""
    return [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ", "", text) for text in log.splitlines()]


def lacking(what: str, reason: str) -> NoReturn:
    """Skip the test. If WIREBROKER_REQUIRE names the missing tool, the test fails instead."""
    if what in os.environ.get("WIREBROKER_REQUIRE", "").split(","):
        pytest.fail(f"{what} is required, and {reason}")
    pytest.skip(reason)


def cache_folder() -> Path:
    """Returns the folder with the files that scripts have fetched for tests."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wirebroker"


def kafka_jars() -> str:
    """Returns the class path of Kafka's own jars. Without Java or the jars, the test is skipped."""
    if shutil.which("java") is None:
        lacking("java", "java is not installed")
    if not jar_folder().is_dir():
        lacking("java", "Kafka's jars are not there; scripts/interop --fetch fetches them")
    return f"{jar_folder()}/*"
