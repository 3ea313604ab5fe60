"""The stories of docs/how-to/debugging.md. Each story is played through a proxy. The story's commands must print the output
that the page shows.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaProducer

from actors import ClassicMember, Reader, TransactionalProducer
from dialogue import CLOSED, Dialogue, accepted, overall, refused, seq
from kafkawire.messages.metadata import MetadataRequest
from requesting import fetch, find_coordinator, produce_request
from wirebroker import faults
from wirebroker.client.wire import WireClient
from wirebroker.commands.cli import main
from wirebroker.mock import MockKafka
from wirebroker.proxy_kafka import ProxyKafka
from wirekit import ask_in_vain, batch, client, without_times

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "debugging.md"
TOLD = PAGE.read_text(encoding="utf-8").partition("\n## Stories")[2]
STORIES = dict(re.findall(r"^### (.*)\n((?:(?!##).*\n)*)", TOLD, re.MULTILINE))
Play = Callable[[MockKafka, ProxyKafka], Any]
PLAYS: dict[str, Play] = {}
ADVERTISED = "Clients connect once and never again"


def story(heading: str) -> Callable[[Play], Play]:
    """Returns a decorator for the function that plays the story under `heading`."""

    def register(play: Play) -> Play:
        PLAYS[heading] = play
        return play

    return register


@story("Ask first")
def held_back_by_a_quota(kafka: MockKafka, proxy: ProxyKafka) -> None:
    kafka.quotas.set(client_id="wirebroker-conformance", producer_byte_rate=20)
    wire = client(proxy)
    for _ in range(3):
        wire.request(produce_request("orders", batch(tag="x" * 500)), 9)
        kafka.clock.advance(minutes=1)


@story("45 although the producer counted right")
def lost_by_a_new_leader(kafka: MockKafka, proxy: ProxyKafka) -> None:
    line = Dialogue(proxy) >> seq(0, 2) << accepted(at=0) >> seq(3, 5) << accepted(at=3)
    kafka.truncate("orders", 0, 3)
    line >> seq(6, 8) << refused(45)


@story("45 because a batch never arrived")
def expired_in_the_client(kafka: MockKafka, proxy: ProxyKafka) -> None:
    Dialogue(proxy) >> seq(0, 2) << accepted(at=0) >> seq(5, 6) << refused(45) >> seq(5, 6) << refused(45)


@story("Records are there twice: no idempotence")
def retried_without_idempotence(kafka: MockKafka, proxy: ProxyKafka) -> None:
    kafka.faults.add(faults.lose_ack(api="Produce", nth=2, then="disconnect"))
    producer = KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, enable_idempotence=False, client_id="billing")
    for order in (b"tea", b"milk", b"sugar"):
        producer.send("orders", order).get(timeout=20)
    producer.close()
    proxy.wait_until(lambda: len(closed(proxy)) == 3)


@story("Records are there twice: the broker forgot the producer")
def retried_after_expiration(kafka: MockKafka, proxy: ProxyKafka) -> None:
    line = Dialogue(proxy) >> seq(0, 2) << accepted(at=0) >> seq(3, 5) << accepted(at=3)
    kafka.expire_producer(line.producer_id)
    line >> seq(3, 5) << accepted(at=6)


@story("A consumer reads nothing, and there is no error")
def behind_an_open_transaction(kafka: MockKafka, proxy: ProxyKafka) -> None:
    Dialogue(proxy) >> seq(0, 2) << accepted(at=0)
    till = TransactionalProducer(proxy, txid="till")
    till.init()
    till.send("sale")
    Dialogue(proxy) >> seq(0, 5) << accepted(at=4)
    reader = Reader(proxy)
    reader.fetch(offset=3)
    reader.fetch(offset=3)


@story("Find the open transaction")
def an_application_that_forgets_to_abort(kafka: MockKafka, proxy: ProxyKafka) -> None:
    till = TransactionalProducer(proxy, txid="till")
    till.init()
    till.send("sale")
    till.end()
    till.send("another sale")


@story("Fenced: two instances have one transactional id")
def two_instances(kafka: MockKafka, proxy: ProxyKafka) -> None:
    one, two = (TransactionalProducer(proxy, txid="till") for _ in range(2))
    one.init()
    one.send("sale")
    assert two.init() == 51
    two.init()
    assert one.send("another sale").error_code == 47
    assert one.end() == 90


@story("A group that never stops rebalancing")
def too_slow_between_polls(kafka: MockKafka, proxy: ProxyKafka) -> None:
    client(proxy).request(find_coordinator("team"), 4)
    quick, slow = ClassicMember(proxy), ClassicMember(proxy)
    quick.join()
    quick.sync({quick.member: b"all"})
    for _ in range(2):
        slow.member = ""
        slow.ask_to_join()
        slow.joined()
        slow.ask_to_join()
        kafka.wait_until(lambda: [group.state for group in kafka.groups().values()] == ["PreparingRebalance"])
        assert quick.heartbeat() == 27
        quick.ask_to_join()
        quick.joined(), slow.joined()
        slow.ask_to_sync()
        quick.sync({quick.member: b"half", slow.member: b"other half"})
        slow.synced()
        slow.leave()
        assert quick.heartbeat() == 27
        quick.join()
        quick.sync({quick.member: b"all"})


@story("Commits are refused after a rebalance")
def committed_too_late(kafka: MockKafka, proxy: ProxyKafka) -> None:
    client(proxy).request(find_coordinator("team"), 4)
    member = ClassicMember(proxy)
    member.join()
    member.sync({member.member: b"all"})
    assert member.commit(5) == 0
    member.join()
    member.sync({member.member: b"all"})
    member.generation -= 1
    assert member.commit(9) == 22


@story("An old client after the upgrade to Kafka 4")
def dropped_versions(kafka: MockKafka, proxy: ProxyKafka) -> None:
    client(proxy).request(MetadataRequest(topics=None), 9)
    ask_in_vain(proxy, "Produce", 2)
    ask_in_vain(proxy, "Fetch", 3)
    proxy.wait_until(lambda: len(closed(proxy)) == 3)


@story("A batch that is too large")
def too_large(kafka: MockKafka, proxy: ProxyKafka) -> None:
    line = Dialogue(proxy)
    for count in (1000, 100_000):
        line >> produce_request("orders", batch(count=count), 0) << overall()


@story("A slow broker, or a slow client")
def slow(kafka: MockKafka, proxy: ProxyKafka) -> None:
    kafka.faults.add(faults.delay(250, api="Produce", nth=2))
    line = Dialogue(proxy)
    for number in range(3):
        line >> seq(number) << accepted(at=number)
    line >> fetch(0) << overall()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MockKafka, ProxyKafka]]:
    monkeypatch.chdir(tmp_path)
    with MockKafka(topics={"orders": 1}) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers, trace="all") as proxy:
        yield kafka, proxy


def closed(proxy: ProxyKafka) -> list[int]:
    """Returns the ids of the connections that, according to the trace, were closed."""
    return [row.connection for row in proxy.trace.events("connection") if row.change == "closed"]


def plain(text: str) -> str:
    """Removes those parts of an output that differ between runs: times, addresses, and the number of spaces."""
    varies = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d\d:\d\d:\d\d\.\d{3}|[\d,]+ ms|[\d.]+ s\b|127\.0\.0\.1:\d+"
    timeless = re.sub(rf"{varies}|broker [\d,]+ µs, transfer [\d,]+, proxy [\d,]+", "", text)
    return re.sub(r"\s+$", "", re.sub(r" +", " ", timeless), flags=re.MULTILINE)


@pytest.mark.parametrize("heading", PLAYS)
def test_a_story_is_printed_as_shown(
    heading: str, stage: tuple[MockKafka, ProxyKafka], capsys: pytest.CaptureFixture[str]
) -> None:
    kafka, proxy = stage
    PLAYS[heading](kafka, proxy)
    rows = proxy.trace.events()
    Path("trace.jsonl").write_text("".join(f"{row.as_json()}\n" for row in rows), encoding="utf-8")
    shown = commands(heading)
    assert shown
    for command, output in shown:
        assert main(shlex.split(command)) == command.startswith("explain")
        assert plain(capsys.readouterr().out) == plain(output)


def commands(heading: str) -> list[tuple[str, str]]:
    """For each wirebroker command under `heading`, returns its arguments and the output that the page shows."""
    return re.findall(r"^\$ wirebroker (.*)\n((?:(?!\$ |```).*\n)*)", STORIES[heading], re.MULTILINE)


def test_an_advertised_address_that_is_wrong_is_named_as_shown() -> None:
    ((command, output),) = commands(ADVERTISED)
    with running("serve", "--port", "0", "--advertise", "kafka.internal:9092") as (_, cluster):
        arguments = shlex.split(command.replace("localhost:9092", cluster))
        with running(*arguments, "--listen", "127.0.0.1:0") as (proxy, address):
            (broker,) = WireClient.at(address).request(MetadataRequest(topics=None), 9).brokers
            Dialogue(SimpleNamespace(bootstrap_servers=f"{broker.host}:{broker.port}")) >> fetch(0) << CLOSED
            proxy.send_signal(signal.SIGTERM)
            printed = "".join(proxy.stdout)
    assert without_addresses(printed) == without_addresses(output.partition("ready\n")[2])


def without_addresses(log: str) -> list[str]:
    """Returns the lines of a log. Leaves out times, ports, and the system's message about an unknown host."""
    return [re.sub(r"127.0.0.1:\d+|reached: .*; the", "", text) for text in without_times(log)]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs a wirebroker command, and waits until it is ready. Yields its process and its address."""
    command = [sys.executable, "-m", "wirebroker.commands.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            address = re.findall(r"127.0.0.1:\d+", process.stdout.readline())[0]
            assert process.stdout.readline() == "ready\n"
            yield process, address
        finally:
            process.kill()


def test_every_story_is_played() -> None:
    assert list(STORIES) == [*PLAYS, ADVERTISED]
    assert "OUT\n" not in "".join(STORIES.values())
