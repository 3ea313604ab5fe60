"""The checks find each planted anomaly, and find no anomaly in the responses of a sound cluster."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import pytest

import test_simulation
from kafka_model.anomalies import Poll, Send, Transaction, anomalies
from kafka_model.history import Tap
from kafka_model.observing import anomalies_of
from simulation.schedule import Schedule
from simulation.world import Violation

A, B, IN = ("a", 0), ("b", 0), ("in", 0)


class Clients(NamedTuple):
    sends: list[Send]
    transactions: list[Transaction]
    polls: list[Poll]


def read(where: tuple[str, int], *values: str | None, first: int = 0, time: int = 9, by: str | None = None,
         group: str | None = None) -> Poll:  # fmt: skip
    """Returns a poll that reads committed records from `first` on. If a value is None, the reader gets no record at this
    offset."""
    records = tuple((offset, value) for offset, value in enumerate(values, first) if value is not None)
    return Poll(where, first, first + len(values), records, True, time, by, group)


def of(name: str, *places: tuple[tuple[str, int], int]) -> list[Send]:
    """Returns the sends of a transaction. For the name `t1`, the values are `t1.a`, `t1.b` …"""
    return [Send(f"{name}.{where[0]}", where, True, offset, name) for where, offset in places]


T1, T2 = Transaction("t1", "x", True, 5), Transaction("t2", "x", True, 6)
OTHER = T2._replace(producer="y")
BOTH = [*of("t1", (A, 0), (B, 0)), *of("t2", (A, 1), (B, 1))]
CLEAN = Clients(
    [*BOTH, Send("p", A, True, 2), Send("q", B, None), Send("r", B, False)], [T1, T2],
    [read(A, "t1.a", "t2.a", "p"), read(B, "t1.b", "t2.b", time=12), read(A, "t1.a", first=0, time=12)],
)  # fmt: skip
PLANTED = {
    "duplicate": CLEAN._replace(polls=[read(A, "t1.a", "t2.a", "p", "p")]),
    "two_values": CLEAN._replace(polls=[read(A, "t1.a", "t2.a", "p"), read(A, "s", first=2, time=10)]),
    "unacknowledged_stored": CLEAN._replace(polls=[read(B, "t1.b", "t2.b", "r")]),
    "lost": CLEAN._replace(polls=[read(A, "t1.a", "t2.a", None, "s")]),
    "G0": CLEAN._replace(polls=[read(A, "t1.a", "t2.a"), read(B, "t2.b", "t1.b")]),
    "G1a": CLEAN._replace(transactions=[T1, T2._replace(committed=False)], polls=[read(A, "t1.a", "t2.a")]),
    "G1b": CLEAN._replace(polls=[read(A, "t1.a", "t2.a", time=5)]),
    "G1c": Clients(BOTH, [T1, OTHER], [read(A, "t1.a", by="t2"), read(B, "t2.b", first=1, by="t1")]),
    "read_skew": Clients(
        BOTH, [T1, Transaction("t3", "z", True, 20)],
        [read(A, "t1.a", by="t3"), read(B, None, "s", by="t3"), read(B, "t1.b", time=12)],
    ),
    "processed_twice": Clients(
        [Send("i", IN)], [T1, T2], [read(IN, "i", by="t1", group="g"), read(IN, "i", by="t2", group="g")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_anomaly_is_found(kind: str) -> None:
    assert [each.kind for each in anomalies(*PLANTED[kind])] == [kind]


SOUND = {
    "all is read": CLEAN,
    "nothing is read": CLEAN._replace(polls=[]),
    "transactions of two producers are interleaved": Clients(
        BOTH, [T1, OTHER], [read(A, "t1.a", "t2.a"), read(B, "t2.b", "t1.b")]
    ),
    "an aborted value is read by a reader of everything": Clients(
        BOTH, [T1._replace(committed=False)], [read(A, "t1.a")._replace(committed=False)]
    ),
    "the input of an aborted transaction is read again": Clients(
        [Send("i", IN)], [T1._replace(committed=False), T2],
        [read(IN, "i", by="t1", group="g"), read(IN, "i", by="t2", group="g")],
    ),
    "two groups read the same input": Clients(
        [Send("i", IN)], [T1, T2], [read(IN, "i", by="t1", group="g"), read(IN, "i", by="t2", group="h")]
    ),
    "the rest of a transaction is not reached yet": Clients(
        BOTH, [T1, Transaction("t3", "z", True, 20)], [read(A, "t1.a", by="t3"), read(B, by="t3")]
    ),
    "a value of an unknown transaction is missing": Clients(BOTH, [T1._replace(committed=None)], [read(A, None, "t2.a")]),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_what_a_sound_cluster_shows_is_no_anomaly(name: str) -> None:
    assert anomalies(*SOUND[name]) == []


def test_deleted_records_are_not_lost() -> None:
    assert anomalies(*PLANTED["lost"], begins={A: 3}) == []


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_clients_of_a_schedule_see_no_anomaly(first: int) -> None:
    for seed in range(first, first + 20):
        schedule = Schedule(seed)
        tap = Tap(schedule.world.engine)
        schedule.run()
        assert anomalies_of(tap.history) == [], f"seed {seed}"


def test_clients_see_what_a_broken_rule_does(monkeypatch: pytest.MonkeyPatch) -> None:
    options = test_simulation.BROKEN["acks=all is acknowledged at once"](monkeypatch)
    for seed in range(100):
        schedule = Schedule(seed, **options)
        tap = Tap(schedule.world.engine)
        with suppress(Violation):
            schedule.run()
        if {"lost", "two_values"} & {each.kind for each in anomalies_of(tap.history)}:
            return
    pytest.fail("100 schedules show no anomaly")
