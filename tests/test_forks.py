"""A forked process cannot use its parent's MockKafka, except as a client, and nothing hangs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable

import kafka as kafka_python
import pytest

from kafkawire.messages.metadata import MetadataRequest
from wirebroker import MockKafka
from wirebroker.client.wire import ConnectionClosed
from wirekit import RawProducer, client

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
ELSEWHERE = (
    "this MockKafka runs in process {pid}, and this process was forked from it; connect a client to its "
    "bootstrap_servers, or start another MockKafka in this process"
)


class Child:
    """A forked process that runs a function, and then waits until the test kills it."""

    def __init__(self, act: Callable[[], str]) -> None:
        said, say = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            signal.alarm(20)  # ends a child that hangs
            os.close(said)
            try:
                response = act()
            except BaseException as failure:
                response = f"{type(failure).__name__}: {failure}"
            os.write(say, response.encode())
            os.close(say)
            signal.pause()
        os.close(say)
        with os.fdopen(said) as file:
            self.said = file.read()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize(
    "touch",
    [
        lambda kafka: kafka.records("orders"),
        lambda kafka: kafka.clock.advance(seconds=1),
        lambda kafka: kafka.trace.last(),
        lambda kafka: kafka.faults.clear(),
        lambda kafka: kafka.wait_for_records("orders", 1),
        lambda kafka: kafka.reset(),
    ],
    ids=["records", "advance", "trace", "faults", "wait", "reset"],
)
def test_every_method_raises_at_once_in_a_child(mock_kafka: MockKafka, touch: Callable[[MockKafka], object]) -> None:
    mock_kafka.create_topic("orders")
    with Child(lambda: str(touch(mock_kafka))) as child:
        assert child.said == "RuntimeError: " + ELSEWHERE.format(pid=os.getpid())
    assert mock_kafka.records("orders") == []


def test_a_fixture_starts_no_broker_in_a_child(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    with Child(lambda: str(mock_kafka_factory())) as child:
        assert child.said.startswith(f"RuntimeError: the loop of this MockKafka runs in process {os.getpid()}")


def test_a_child_that_stops_its_copy_leaves_the_broker_alone() -> None:
    with MockKafka(topics=["orders"]) as kafka:

        def stop() -> str:
            addresses = kafka.bootstrap_servers
            kafka.stop()
            return addresses

        with Child(stop) as child:
            assert child.said == kafka.bootstrap_servers
        RawProducer(kafka).send(0)
        assert len(kafka.records("orders")) == 1


def test_a_child_has_a_broker_of_its_own_if_it_starts_one(mock_kafka: MockKafka) -> None:
    def own() -> str:
        with MockKafka(topics=["orders"]) as kafka:
            RawProducer(kafka).send(0)
            return str(len(kafka.records("orders")))

    with Child(own) as child:
        assert child.said == "1"


def test_what_the_broker_closes_is_closed_while_a_child_lives() -> None:
    with MockKafka(brokers=2) as kafka:
        wire, (host, port) = client(kafka, 1), kafka._ports[1]
        wire.request(MetadataRequest(topics=[]), 9)
        with Child(str):
            kafka.kill_broker(2)
            with pytest.raises(ConnectionClosed):
                wire.request(MetadataRequest(topics=[]), 9)
            kafka.stop()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, port), 5)


def send(servers: str, value: bytes) -> None:
    producer = kafka_python.KafkaProducer(bootstrap_servers=servers)
    producer.send("orders", value).get(10)
    producer.close()


def test_clients_in_forked_processes_reach_the_broker_of_the_parent(mock_kafka: MockKafka) -> None:
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=send, args=(mock_kafka.bootstrap_servers, b"%d" % i)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert {record.value for record in mock_kafka.records("orders")} == {b"0", b"1"}


def test_a_child_that_exits_normally_does_not_disturb_the_parent() -> None:
    program = textwrap.dedent(
        """
        import gc, os, sys
        from wirebroker import MockKafka
        with MockKafka(topics=["orders"], control=True) as kafka:
            if (child := os.fork()) == 0:
                gc.collect()
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            kafka.produce("orders", value=b"x")
            print(len(kafka.records("orders")))
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("7\n1\n", "", 0)
