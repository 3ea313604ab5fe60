"""Clients make a broker use memory, and the broker releases this memory again. Each table has the limit that
docs/reference/limits.md states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from requesting import heartbeat, init_producer_id, join_group, offset_commit, offset_delete, plain, produce_request
from responses import only
from wirebroker.core.purgatory import Timers
from wirebroker.engine.engine import Engine
from wirebroker.mock import MockKafka
from wirekit import batch, client

MANY = 30


@pytest.fixture
def kafka(mock_kafka_factory: Callable[..., MockKafka]) -> MockKafka:
    return mock_kafka_factory(topics=["orders"], clock="frozen")


def found(wire: Any, kind: int, key: str) -> None:
    assert wire.request(plain("FindCoordinator", key=key, key_type=kind), 2).error_code == 0


def committed(wire: Any, group: str) -> None:
    response = wire.request(offset_commit(group, 1), 7)
    assert only(response).error_code == 0


def groups_held(kafka: MockKafka) -> int:
    return kafka._call(lambda engine: len(engine.groups.groups) + len(engine.groups.offsets._groups))


def test_groups_without_members_are_deleted_with_their_offsets(kafka: MockKafka) -> None:
    wire = client(kafka)
    found(wire, 0, "g")
    for number in range(MANY):
        committed(wire, f"g{number}")
    assert groups_held(kafka) == 2 * MANY
    kafka.clock.advance(days=6)
    assert groups_held(kafka) == 2 * MANY
    kafka.clock.advance(days=2)
    assert groups_held(kafka) == 0


def test_deleted_offsets_leave_no_memory_in_use(kafka: MockKafka) -> None:
    wire = client(kafka)
    found(wire, 0, "g")
    committed(wire, "g")
    assert wire.request(offset_delete("g"), 0).error_code == 0
    assert kafka._call(lambda engine: engine.groups.offsets._groups) == {}


def test_groups_whose_clients_never_come_back_are_deleted(kafka: MockKafka) -> None:
    wire = client(kafka)
    found(wire, 0, "g")
    for number in range(MANY):
        request = join_group(f"g{number}", "", [("range", b"")], rebalance_ms=10000)
        assert wire.request(request, 4).error_code == 79  # MEMBER_ID_REQUIRED
    assert groups_held(kafka) == MANY
    kafka.clock.advance(minutes=11)
    assert groups_held(kafka) == 0


def test_transactional_ids_and_producers_expire(kafka: MockKafka) -> None:
    wire = client(kafka)
    found(wire, 1, "t")
    for number in range(MANY):
        request = init_producer_id(f"t{number}", 1000)
        pid = wire.request(request, 3).producer_id
        wire.request(produce_request("orders", batch(0, pid=pid, epoch=0)), 9)
        refused = produce_request("orders", batch(0, pid=10**6 + number, epoch=0, transactional=True))
        refused.transactional_id = f"x{number}"
        assert only(wire.request(refused, 9)).error_code

    def held(engine: Engine) -> tuple[int, int, int]:
        partition = engine.cluster.topics["orders"].partitions[0]
        return len(engine.transactions.transactions), len(partition.producers), len(partition.transactions.verifications)

    assert kafka._call(held) == (MANY, MANY, MANY)
    kafka.clock.advance(hours=25)
    assert kafka._call(held) == (MANY, 0, 0)
    kafka.clock.advance(days=7)
    assert kafka._call(held) == (0, 0, 0)


def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    for when in range(50_000):
        timers.at(10**9 + when, print).cancel()
    assert len(timers._heap) <= 2048


def test_a_live_member_leaves_no_cancelled_timers(kafka: MockKafka) -> None:
    wire = client(kafka)
    found(wire, 0, "g")
    request = join_group("g", "", [("range", b"")], session_ms=300000, rebalance_ms=10000)
    joined = wire.request(request, 3)
    for _ in range(3000):
        beat = heartbeat("g", joined.member_id, joined.generation_id)
        wire.send(beat, 3)
    for _ in range(3000):
        wire.response()
    assert kafka._call(lambda engine: len(engine.timers._heap)) < 2048
