"""Timers: their order, and that those who were cancelled take no room."""

from __future__ import annotations

from wirebroker.core.purgatory import Timers


def test_timers_run_in_the_order_in_which_they_fall_due() -> None:
    timers, ran = Timers(), list[tuple[str, int]]()
    timers.at(30, lambda now: ran.append(("late", now)))
    timers.at(10, lambda now: ran.append(("first", now)))
    timers.at(10, lambda now: ran.append(("second", now)))
    timers.at(20, lambda now: ran.append(("cancelled", now))).cancel()
    assert timers.deadline() == 10
    timers.run(25)
    assert (ran, timers.deadline()) == ([("first", 10), ("second", 10)], 30)
    timers.run(30)
    assert ran[-1] == ("late", 30)


def test_a_timer_that_sets_another_one_that_is_due_runs_it_too() -> None:
    timers, ran = Timers(), list[int]()
    timers.at(10, lambda now: timers.at(now + 5, ran.append) and None)
    timers.run(100)
    assert ran == [15]


def test_cancelled_timers_are_forgotten_before_they_fall_due() -> None:
    timers = Timers()
    kept = [timers.at(1_000_000 + number, lambda now: None) for number in range(100)]
    for number in range(100_000):
        timers.at(2_000_000 + number, lambda now: None).cancel()
    assert len(timers._heap) < 3_000
    assert timers.deadline() == kept[0].when
