"""Groups and transactions in a data directory: a restarted broker restores everything that it knew from the records of groups
and transactions.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import MEMBER_ID_REQUIRED, TEAM, ClassicMember, Member, TransactionalProducer
from random_dialogues.replay import load, replay
from requesting import find_coordinator, plain
from wirebroker.core.groups.classic import Group
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.engine.engine import Engine
from wirebroker.mock import MockKafka
from wirebroker.net.thread import LoopThread
from wirebroker.storage.snapshots import snapshot_bytes
from wirebroker.storage.store import FolderStore
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import BASE_SETTINGS
from wirekit import client

REBALANCE_IN_PROGRESS = 27
DATA = Path(__file__).parent / "data"


def classic(group: Group) -> Any:
    kept = group.snapshot  # the group's current members may differ from the last written snapshot
    members = [(m.member_id, m.instance_id, m.client_id) for m in kept.members]
    return kept.generation, kept.protocol_type or None, kept.protocol, kept.leader, members


def modern(group: ConsumerGroup) -> Any:
    resolved = {regex: (found.topics, found.time) for regex, found in group.resolved.items()}
    return (
        group.epoch, group.assignment_epoch, group.assigned_at, group.members, group.static_members,
        {name: dict(given) for name, given in group.targets.items()}, resolved, group.subscriptions, group.facts,
        group.state_name,
    )  # fmt: skip


def state_of(engine: Engine) -> dict[str, Any]:
    """Returns all state of a broker that the broker must still have after a restart."""
    offsets = engine.groups.offsets
    groups = engine.groups.groups
    return {
        "classic": {
            name: classic(group) for name, group in groups.items()
            if isinstance(group, Group) and (group.snapshot.members or offsets.of(name))
        },
        "modern": {name: modern(group) for name, group in groups.items() if isinstance(group, ConsumerGroup)},
        "offsets": {name: offsets.of(name) for name in groups if offsets.of(name)},
        "waiting": {name: sorted(offsets.pending_of(name)) for name in groups if list(offsets.pending_of(name))},
        "transactions": {
            name: (t.producer_id, t.producer_epoch, t.state, t.partitions, t.timeout_ms, t.started, t.client_version)
            for name, t in engine.transactions.transactions.items()
        },
        "producers": {
            (p.topic, p.index): snapshot_bytes(dict(sorted(p.producers.items()))) for p in engine.cluster.partitions()
        },
        "logs": {
            (p.topic, p.index): (p.log_start_offset, p.last_stable_offset, p.log_end_offset, p.leader_epoch)
            for p in engine.cluster.partitions()
        },
        "aborted": {(p.topic, p.index): p.transactions.aborted_between(0, 10**9) for p in engine.cluster.partitions()},
        "topics": {t.name: (t.topic_id, t.configs.overrides, len(t.partitions)) for t in engine.cluster.topics.values()},
    }  # fmt: skip


def producers_after_restart(data: Path, now: int) -> dict[str, Any]:
    store = FolderStore(data, bytes)
    found = state_of(Engine(now, bytes, settings=BASE_SETTINGS, store=store))
    store.abandon()
    found["logs"] = {where: (*rest, epoch - 1) for where, (*rest, epoch) in found["logs"].items()}
    return found


@pytest.mark.parametrize("subject", ["groups", "transactions"])
def test_after_hundreds_of_random_dialogues_all_is_found_again(subject: str, tmp_path: Path) -> None:
    dialogues = list(load(DATA / f"dialogues-{subject}.jsonl.gz"))[:: 1 if subject == "groups" else 4]
    with OwnBroker(BASE_SETTINGS, data=tmp_path / "data") as broker:
        for dialogue in dialogues:
            assert replay(dialogue, broker.address).difference is None

        def look(engine: Engine) -> dict[str, Any]:
            shutil.copytree(tmp_path / "data", tmp_path / "copy")
            return state_of(engine)

        before = broker.kafka._call(look)
        now = broker.now()
    after = producers_after_restart(tmp_path / "copy", now)
    for what, known in before.items():
        assert after[what] == known, what
    assert len(before["transactions" if subject == "transactions" else "classic"]) > 10


def test_consumer_groups_are_found_again_after_every_change(tmp_path: Path) -> None:
    settings = {**BASE_SETTINGS, "group.consumer.assignment.interval.ms": "0"}
    with MockKafka(data=tmp_path / "data", topics={"orders": 4, "order-lines": 2}, configs=settings) as kafka:
        asker = client(kafka)
        asker.request(find_coordinator(TEAM), 4)
        one, two, three = (Member(kafka, name) for name in ("one", "two", "three"))
        static = Member(kafka, "four", instance="i")
        steps: list[Callable[[], object]] = [
            lambda: one.join(), lambda: one.beat(), lambda: two.join(subscribed_topic_regex="order.*"),
            lambda: one.beat(), lambda: one.beat(), lambda: two.beat(), lambda: static.join("orders"),
            lambda: [each.beat() for each in (one, two, static) for _ in range(2)], lambda: one.commit(5),
            lambda: static.leave(-2), lambda: Member(kafka, "five", instance="i").join("orders"),
            lambda: two.beat(subscribed_topic_regex="", subscribed_topic_names=["orders"]), lambda: one.leave(),
            lambda: three.join("order-lines"), lambda: kafka.clock.advance(seconds=50),
            lambda: Member(kafka, "six").join("orders"),
        ]  # fmt: skip
        groups = set()
        for number, step in enumerate(steps):
            step()
            copy = tmp_path / f"copy-{number}"

            def look(engine: Engine, copy: Path = copy) -> dict[str, Any]:
                shutil.copytree(tmp_path / "data", copy)
                return state_of(engine)

            before = kafka._call(look)
            after = producers_after_restart(copy, kafka.clock.now())
            assert after["modern"] == before["modern"], number
            assert after["offsets"] == before["offsets"]
            groups.add(str(before["modern"]))
        assert len(groups) > 10


def test_a_clock_that_goes_back_at_a_restart_stops_no_group_and_no_transaction(tmp_path: Path) -> None:
    def start() -> MockKafka:
        return MockKafka(topics={"orders": 2}, data=tmp_path, clock="frozen")

    with start() as kafka:
        kafka.clock.advance(days=2)
        client(kafka).request(find_coordinator(TEAM), 4)
        Member(kafka, "first").join("orders")
        producer = TransactionalProducer(kafka, timeout_ms=60_000)
        producer.init()
        producer.send("a")
    with start() as kafka:
        Member(kafka, "second").join("orders")
        kafka.clock.advance(seconds=10)
        Member(kafka, "third").join("orders")
        group = client(kafka).request(plain("ConsumerGroupDescribe", group_ids=[TEAM]), 1).groups[0]
        assert (group.group_epoch, group.assignment_epoch) == (4, 4)
        assert kafka.transactions()["till"].state == "Ongoing"
        kafka.clock.advance(seconds=60)
        assert kafka.transactions()["till"].state == "CompleteAbort"


def test_the_members_of_a_group_that_is_too_large_after_a_restart_must_join_again(tmp_path: Path) -> None:
    def start(most: int) -> MockKafka:
        settings = {"group.initial.rebalance.delay.ms": 0, "group.max.size": most}
        return MockKafka(data=tmp_path, clock="frozen", configs=settings)

    with start(2) as kafka:
        client(kafka).request(find_coordinator(TEAM), 4)
        one, two = ClassicMember(kafka), ClassicMember(kafka)
        one.join()
        two.ask_to_join()
        assert two.joined().error_code == MEMBER_ID_REQUIRED
        two.ask_to_join()
        while one.heartbeat() != REBALANCE_IN_PROGRESS:
            pass  # the broker has not handled the JoinGroup yet
        one.ask_to_join()
        assert [member.joined().error_code for member in (one, two)] == [0, 0]
        assert one.sync({}) == (0, b"")
    with start(1) as kafka:
        again = ClassicMember(kafka), ClassicMember(kafka)
        for member, former in zip(again, (one, two), strict=True):
            member.member, member.generation = former.member, former.generation
        one, two = again
        assert {one.heartbeat(), two.heartbeat()} == {REBALANCE_IN_PROGRESS}


def test_no_timer_wakes_a_broker_that_has_closed_its_files(tmp_path: Path) -> None:
    """As in a test process, the event loop continues after the broker has stopped. If a timer remained, it would end a member's
    session, and append a record about this to a closed log."""
    thread = LoopThread()
    try:
        kafka = MockKafka(topics={"orders": 1}, data=tmp_path, loop_thread=thread)
        kafka.start()
        members = [ClassicMember(kafka, group=f"team {number}") for number in range(3)]
        for member in members:
            client(kafka).request(find_coordinator(member.group), 4)
            member.join()
        host = kafka._running
        kafka.stop()

        async def awaited() -> int | None:
            """After all connections are lost, returns the deadline for which the loop has an alarm."""
            await asyncio.sleep(0)
            return host.alarm_at

        assert thread.await_(awaited()) is None
    finally:
        thread.stop()
