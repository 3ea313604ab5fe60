"""A cluster of three brokers in this process. The cluster can be ended, and opened again with the same files and addresses."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import random
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wirebroker import MockKafka
from wirebroker.engine.engine import Engine
from wirebroker.net.clock import Clock
from wirebroker.net.listener import Listener
from wirebroker.net.tls import make_certificates, tls_of
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.trace.sinks import JsonLinesSink

HOST, NODES = "127.0.0.1", (1, 2, 3)
SETTINGS = {
    "auto.create.topics.enable": "false", "min.insync.replicas": "2", "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "2000", "log.segment.bytes": str(1 << 20),
    "sasl.enabled.mechanisms": "SCRAM-SHA-256", "connections.max.reauth.ms": "20000",
}  # fmt: skip
M_ARENA_MAX = -8
"""The number of this setting in glibc's malloc.h: the largest number of heaps."""


class Size(NamedTuple):
    """The size of the process and of its brokers."""

    memory: int
    """the resident memory in MB"""
    descriptors: int
    threads: int
    tasks: int
    """the tasks of the event loop"""
    timers: int
    connections: int


class Brokers:
    """Three brokers, whose clients find them again after each start."""

    def __init__(self, folder: Path, profile: str, topics: dict[str, int], trace: Path | None = None) -> None:
        # Otherwise each new thread of the brokers gets a heap of its own, with free memory that is not returned. When the same
        # 140 MB of data were opened three times, the process grew from 43 to 75 MB, and with one heap only to 45 MB.
        _call_c_library("mallopt", M_ARENA_MAX, 1)
        self.folder, self.profile, self._trace = folder, profile, trace
        self.port = _free_ports(2 * len(NODES))
        self.bootstrap = ",".join(f"{HOST}:{self.port + number}" for number in range(len(NODES)))
        self.secured = f"{HOST}:{self.port + len(NODES)}"
        self.ca = folder / "tls" / "ca.pem"
        self.ca.parent.mkdir()
        self._tls = tls_of(SETTINGS, make_certificates(folder / "tls", [HOST]), "SASL_SSL")
        self._clock: Clock | None = None
        self._topics = {name: {"partitions": count, "replication_factor": 3} for name, count in topics.items()}
        self.kafka = self._opened()

    def _opened(self) -> MockKafka:
        kafka = MockKafka(
            brokers=3, port=self.port, data=self.folder / "data", profile=self.profile, configs=SETTINGS,
            users={"till": "secret"}, topics=self._topics, trace="exchanges" if self._trace else "verdicts",
        )  # fmt: skip
        if self._clock is not None:  # the time does not go back, because the audit compares the times of records
            kafka._clock = self._clock
        self._clock = kafka._clock
        kafka.start()
        if self._trace:
            sink = JsonLinesSink(self._trace)
            kafka._call(lambda engine: engine.trace.sinks.append(sink))
        for number, node in enumerate(NODES, self.port + len(NODES)):
            kafka._listen(Listener(node, HOST, number, None, "SASL_SSL", SecurityProtocol.SASL_SSL, self._tls))
        return kafka

    def open_again(self) -> None:
        """Ends the brokers, and opens their directories again."""
        self.kafka.stop()
        self.kafka = self._opened()

    def upgrade(self, profile: str) -> None:
        """Upgrades one broker after the other."""
        self.kafka.upgrade(profile, pause=3)  # type: ignore[arg-type]
        self.profile = profile

    def size(self) -> Size:
        """Returns the present size. Memory that is free, but that the C library keeps, does not count."""
        gc.collect()  # the objects of an engine refer to each other, so an engine that has ended would stay for a while
        _call_c_library("malloc_trim", 0)  # which returns free memory to the system

        def inside(engine: Engine) -> tuple[int, int]:
            return len(asyncio.all_tasks()), sum(timer.action is not None for *_, timer in engine.timers._heap)

        status = Path("/proc/self/status").read_text()
        memory, threads = (int(re.findall(rf"{name}:\s+(\d+)", status)[0]) for name in ("VmRSS", "Threads"))
        tasks, timers = self.kafka._call(inside)
        connections = self.kafka.connection_count()
        return Size(memory // 1024, len(os.listdir("/proc/self/fd")), threads, tasks, timers, connections)


def _call_c_library(function: str, *numbers: int) -> None:
    """Call a function for the memory of the process. Does nothing with a C library other than glibc."""
    with suppress(AttributeError):
        getattr(ctypes.CDLL(None), function)(*numbers)


def _free_ports(count: int) -> int:
    """Returns the first of several neighbouring free ports. The system does not use these ports for outgoing connections."""
    while True:
        first = random.randrange(20_000, 32_000)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind((HOST, port))
            return first
        except OSError:
            continue
