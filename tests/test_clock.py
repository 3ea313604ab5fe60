"""The clock: moving it by eight days has the same effects as eight days that really pass."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.request import urlopen

import pytest

from kafkawire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.messages.delete_groups import DeleteGroupsRequest
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from requesting import add_partitions, fetch, find_coordinator, init_producer_id, join_group, offset_commit
from responses import only
from wirebroker import faults
from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.endpoints.running import Step, advance
from wirebroker.control.problems import Problem
from wirebroker.core.setting_definitions import BROKER_SETTINGS, TOPIC_SETTINGS
from wirebroker.mock import MockKafka
from wirebroker.net.host import Host
from wirebroker.trace.layout import line
from wirekit import RawProducer, batch, client

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
SETTINGS = {"retention.ms": 2 * HOUR, "transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


def coordinators(wire: Any) -> None:
    for kind, key in ((0, "team"), (1, "till")):
        wire.request(find_coordinator(key, kind=kind), 4)


def join_and_commit(wire: Any) -> None:
    """Joins a classic group with a session timeout of 20 s, and commits an offset."""
    joined = wire.request(
        join_group("team", "", [("range", b"")], session_ms=20 * SECOND, rebalance_ms=MINUTE),
        3,
    )
    given = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
    who = {"group_id": "team", "generation_id": joined.generation_id, "member_id": joined.member_id}
    wire.request(SyncGroupRequest(assignments=[given], **who), 1)
    commit = offset_commit("team", 1, joined.member_id, joined.generation_id, metadata=None)
    assert only(wire.request(commit, 6)).error_code == 0


def begin_transaction(wire: Any) -> None:
    """Begins a transaction with a timeout of one minute. Also creates another transactional id, which stays idle."""
    for transactional_id in ("idle", "till"):
        asked = init_producer_id(transactional_id, MINUTE)
        producer = wire.request(asked, 4)
    begun = add_partitions("till", (producer.producer_id, producer.producer_epoch))
    response = wire.request(begun, 3)
    assert only(response).partition_error_code == 0


def heartbeat(wire: Any) -> None:
    """Joins a KIP-848 group, whose session timeout is 45 s by default."""
    asked = ConsumerGroupHeartbeatRequest(
        group_id="new", member_id="m", member_epoch=0, rebalance_timeout_ms=MINUTE, subscribed_topic_names=["orders"],
        topic_partitions=[],
    )  # fmt: skip
    assert wire.request(asked, 1).error_code == 0


EXPECTED = [
    (500, "Fetch is answered"),
    (3 * SECOND, "Metadata is answered"),
    (20 * SECOND, "team is PreparingRebalance"),
    (20 * SECOND, "team is Empty"),
    (45 * SECOND, "new is Empty"),
    (70 * SECOND, "till is PrepareAbort"),
    (70 * SECOND, "till is CompleteAbort"),
    (2 * HOUR + 5 * MINUTE, "orders-0 begins at 3"),
    (DAY, "orders-0 forgets producer 0"),
    (DAY + 10 * MINUTE, "orders-0 forgets producer 2"),
    (7 * DAY, "idle is Dead"),
    (7 * DAY + 10 * MINUTE, "team is Dead"),
    (7 * DAY + HOUR, "till is Dead"),
]


def told(row: Any) -> str | None:
    """Describes an event in words. Returns None if the test does not compare the event."""
    if row.event == "reply":
        return f"{row.api} is answered"
    if row.event == "group":
        return f"{row.group} is {row.state}"
    if row.event == "transaction":
        return f"{row.transactional_id} is {row.state}"
    if row.event == "retention":
        return f"{row.topic}-{row.partition} begins at {row.log_start_offset}"
    if row.event == "producer":
        return f"{row.topic}-{row.partition} forgets producer {row.producer_id}"
    return None


@pytest.mark.mock_kafka(topics={"orders": 2}, trace="exchanges", clock="frozen", configs=SETTINGS)
@pytest.mark.parametrize("steps", [1, 8 * 24], ids=["at once", "hour by hour"])
def test_c4_c5_c6_eight_days_run_every_timer_in_order(mock_kafka: MockKafka, steps: int) -> None:
    start = mock_kafka.clock.now()
    wire = client(mock_kafka)
    coordinators(wire)
    producer = RawProducer(mock_kafka)
    producer.raw(batch(0, 2, pid=producer.pid, epoch=0, timestamp=start))
    join_and_commit(wire)
    begin_transaction(wire)
    heartbeat(wire)
    mock_kafka.faults.add(faults.delay(3 * SECOND, api="Metadata"))
    slow, polling = client(mock_kafka), client(mock_kafka)
    slow.send(MetadataRequest(topics=[]), 9)
    mock_kafka.wait_until(lambda: bool(mock_kafka.trace.faults()))
    polling.send(fetch(partition=1, wait_ms=500), 12)
    mock_kafka.wait_until(lambda: mock_kafka._call(lambda e: bool(e.cluster.topics["orders"].partitions[1].waiting)))
    seen = len(mock_kafka.trace.events())
    for _ in range(steps):
        mock_kafka.clock.advance(days=8 / steps)
    rows = mock_kafka.trace.events()[seen:]
    found = [(row.time - start, text) for row in rows if (text := told(row)) is not None]
    assert found == EXPECTED, "\n".join(map(line, rows))
    assert (slow.response().controller_id, polling.response().error_code) == (1, 0)


@pytest.mark.mock_kafka(topics={"orders": 1})
def test_moving_the_clock_makes_no_connection_idle(mock_kafka: MockKafka) -> None:
    """Only the broker's clock moves. No real time passes for the client, so the broker does not count its connection as
    idle."""
    wire = client(mock_kafka)
    wire.request(MetadataRequest(topics=[]), 9)
    mock_kafka.clock.advance(days=8)
    assert wire.request(MetadataRequest(topics=[]), 9).controller_id == 1


def test_the_timers_that_the_documentation_names_are_settings() -> None:
    text = (Path(__file__).resolve().parent.parent / "docs" / "how-to" / "clock.md").read_text(encoding="utf-8")
    table = text.partition("## The broker's timers")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", table))
    assert named - {*BROKER_SETTINGS, *TOPIC_SETTINGS} == {"transaction.timeout.ms"}, "this is a producer's setting"


def late(kafka: MockKafka, ms: int) -> None:
    """Lets time pass without running the broker, as on a busy machine that runs the broker `ms` too late."""
    assert kafka._host is not None
    kafka._host.clock.advance(ms)


@pytest.mark.parametrize("clock", ["system", "frozen"])
@pytest.mark.parametrize("looks", ["a request", "Python", "HTTP"])
def test_a_request_sees_what_a_late_timer_should_have_done(clock: Any, looks: str) -> None:
    with MockKafka(topics={"orders": 1}, clock=clock, control=looks == "HTTP") as kafka:
        wire = client(kafka)
        coordinators(wire)
        join_and_commit(wire)
        late(kafka, 10 * SECOND)
        assert kafka.groups()["team"].state == "Stable"
        late(kafka, 10 * SECOND)
        if looks == "a request":
            (deleted,) = wire.request(DeleteGroupsRequest(groups_names=["team"]), 2).results
            assert deleted.error_code == 0
        elif looks == "Python":
            assert kafka.groups()["team"].state == "Empty"
        else:
            with urlopen(f"{kafka.control_url}/groups") as response:
                (group,) = json.load(response)["groups"]
            assert group["state"] == "Empty"


def test_on_a_busy_machine_a_request_sees_what_every_late_timer_should_have_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process runs, real time passes, and the broker uses no CPU time."""
    with MockKafka(topics={"orders": 1}, clock="frozen") as kafka:
        wire = client(kafka)
        coordinators(wire)
        join_and_commit(wire)
        late(kafka, 30 * SECOND)
        moments = count(perf_counter())
        monkeypatch.setattr("wirebroker.net.host.perf_counter", lambda: next(moments))
        assert kafka.groups()["team"].state == "Empty"


@pytest.mark.parametrize("kind", ["reset", "soft reset", "restore"])
def test_a_reset_ends_a_move_of_the_clock(kind: str, mock_kafka_factory: Callable[..., MockKafka]) -> None:
    kafka = mock_kafka_factory(clock="frozen")
    snapshot, began = kafka.snapshot(), kafka.clock.now()

    async def move_and_reset(host: Host) -> int:
        move = asyncio.ensure_future(host.advance_beside(8 * DAY))
        await asyncio.sleep(0)  # the first step of the move
        kafka.restore(snapshot) if kind == "restore" else kafka.reset(soft=kind == "soft reset")
        return await move

    assert kafka._loop is not None
    left = asyncio.run_coroutine_threadsafe(move_and_reset(kafka._running), kafka._loop).result(10)
    assert left > 0
    assert kafka.clock.now() == began


@pytest.mark.parametrize("kind", ["reset", "soft reset", "stop"])
def test_the_control_tells_that_a_move_of_the_clock_was_cut_off(
    kind: str, mock_kafka_factory: Callable[..., MockKafka]
) -> None:
    kafka = mock_kafka_factory(clock="frozen")

    async def move(host: Host) -> None:
        controlled = ControlledBroker(host, kafka._new_engine)
        moving = asyncio.ensure_future(advance(controlled, Step(days=8)))
        await asyncio.sleep(0)  # the first step of the move
        controlled.close() if kind == "stop" else controlled.reset(soft=kind == "soft reset")
        with pytest.raises(Problem) as problem:
            await moving
        cut_off = (503, "the broker is stopping") if kind == "stop" else (409, "a reset has set the clock back")
        assert (problem.value.status, problem.value.detail.startswith(cut_off[1])) == (cut_off[0], True)

    assert kafka._loop is not None
    asyncio.run_coroutine_threadsafe(move(kafka._running), kafka._loop).result(10)
