"""System calls of `wirebroker serve --data` fail. The broker recovers, or ends with a message and an exit code."""

from __future__ import annotations

import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actors import ClassicMember, Reader, TransactionalProducer
from crashkit import Served
from requesting import create_topic, find_coordinator, produce_request
from responses import only, sole
from wirebroker.client.wire import WireClient
from wirekit import batch, client, without_times

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process cannot be set here")
SMALL = (
    "--topic", "orders", "--config", "offsets.topic.num.partitions=1",
    "--config", "transaction.state.log.num.partitions=1", "--config", "log.flush.offset.checkpoint.interval.ms=100",
)  # fmt: skip
NOT_COORDINATOR, STORAGE_ERROR = 16, 56


class Address(NamedTuple):
    """A broker's address in the form that `wirekit.client` needs."""

    bootstrap_servers: str


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def at(served: Served) -> Any:
    """Waits until the broker's coordinators have loaded. Returns its address."""
    broker = Address("{}:{}".format(*served.address))
    for _ in range(2):
        for kind, key in ((0, "team"), (1, "till")):
            client(broker).request(find_coordinator(key, kind=kind), 4)
    while ClassicMember(broker).commit(1) == NOT_COORDINATOR or TransactionalProducer(broker, "warm").init():
        pass
    return broker


def full(served: Served, now: bool = True) -> None:
    """Makes every write that enlarges a file fail, as on a full disk, but with another error message. `now=False` ends this."""
    size = 1 if now else resource.RLIM_INFINITY
    resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def said(served: Served, code: int) -> list[str]:
    """Stops the broker with SIGTERM. Returns the lines of its log, except those about connections."""
    served.process.send_signal(signal.SIGTERM)
    lines = without_times(served.process.communicate(timeout=10)[1])
    assert served.process.returncode == code
    return [text for text in lines if not text.startswith("INFO connection ")]


def produce(wire: WireClient) -> int:
    code: int = only(wire.request(produce_request("orders", batch()), 9)).error_code
    return code


def create(wire: WireClient, name: str) -> int:
    code: int = sole(wire.request(create_topic(name), 5).topics).error_code
    return code


@pytest.mark.parametrize("sync", ["never", "always"])
def test_on_a_full_disk_nothing_is_acknowledged_that_a_crash_would_lose(data: Path, sync: str) -> None:
    with Served(data, *SMALL, "--sync", sync) as served:
        broker = at(served)
        one, till, wire = ClassicMember(broker), TransactionalProducer(broker), client(broker)
        assert (one.commit(13), till.init(), till.send("a").error_code) == (0, 0, 0)
        full(served)
        assert [one.commit(101) for _ in range(100)] == [NOT_COORDINATOR] * 100
        assert (till.end(), till.send("b").error_code, produce(wire)) == (NOT_COORDINATOR, STORAGE_ERROR, STORAGE_ERROR)
        assert create(wire, "new") == STORAGE_ERROR
        assert one.committed() == 13, "other requests on the same connections are still served"
        full(served, False)
        assert (one.commit(14), produce(wire), create(wire, "new")) == (0, 0, 0)
        full(served)
        assert (one.commit(101), till.end()) == (NOT_COORDINATOR, NOT_COORDINATOR)
        served.process.kill()
        told = served.process.communicate()[1]
        assert "cannot be written to: File too large" in told
        assert told.count("\n") < 8
        assert "Traceback" not in told
    with Served(data, "--sync", sync) as served:
        broker = at(served)
        till.wire = client(broker)
        assert (till.end(), ClassicMember(broker).committed()) == (0, 1)
        assert Reader(broker).values() == ["a0", "v0"]
        assert said(served, 0) == []


def test_a_stop_that_cannot_be_clean_says_so(data: Path) -> None:
    with Served(data, *SMALL) as served:
        broker = at(served)
        assert produce(client(broker)) == 0
        full(served)
        lines = said(served, 2)
        assert lines[-1] == (
            f"wirebroker serve: {data} was not closed cleanly: File too large. Nothing that was acknowledged is lost; the next "
            "start checks the logs as after a crash"
        )
        assert len(lines) <= 2
    with Served(data) as served:
        assert Reader(Address("{}:{}".format(*served.address))).values() == ["v0"]


def test_a_stop_without_the_directory_says_so(data: Path) -> None:
    with Served(data, *SMALL) as served:
        assert produce(client(at(served))) == 0
        data.rename(data.with_name("gone"))
        lines = said(served, 2)
        assert lines[-1].startswith(f"wirebroker serve: {data} has lost files while it was served: ")
        assert not [text for text in lines if "Traceback" in text]


def test_a_start_on_a_full_disk_is_one_sentence(data: Path) -> None:
    import subprocess

    command = [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--port", "0", "--data", str(data)]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"wirebroker serve: {data} cannot be used: File too large. Nothing is lost; solve this problem and start again\n"
    )


@pytest.fixture
def crowd() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    yield sockets
    for each in sockets:
        each.close()


def test_too_many_connections_are_one_sentence_and_it_recovers(data: Path, crowd: list[socket.socket]) -> None:
    with Served(data, *SMALL) as served:
        broker = at(served)
        wire = client(broker)
        assert (produce(wire), create(wire, "old")) == (0, 0)
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (48, 48))
        crowd += [socket.create_connection(served.address) for _ in range(60)]
        made = (create(wire, f"t{i}") for i in range(500))  # the broker accepts the connections while it handles these requests
        assert STORAGE_ERROR in made, "a request failed because no file could be opened"
        assert produce(wire) == 0, "this request succeeds because the log's file is already open"
        time.sleep(1.2)  # asyncio accepts connections again after 1 s
        for each in crowd:
            each.close()
        assert produce(client(broker)) == 0
        assert create(wire, "new") == 0
        lines = said(served, 0)
    assert len([text for text in lines if "no further connection can be accepted: Too many open files" in text]) == 1
    assert len([text for text in lines if "cannot be written to: Too many open files" in text]) <= 2
    assert len(lines) <= 5
