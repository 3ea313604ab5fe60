"""Timers: their order, and cancelled timers take no memory."""

from __future__ import annotations

from collections.abc import Iterator

from wirebroker.core.purgatory import Timers


def test_timers_run_in_the_order_of_their_times() -> None:
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


def slices(ran: list[str], name: str, count: int) -> Iterator[None]:
    for number in range(count):
        ran.append(f"{name}{number}")
        yield


def test_work_is_done_at_once_without_slices() -> None:
    timers, ran = Timers(), list[str]()
    timers.work(slices(ran, "a", 3))
    assert (ran, timers.busy) == (["a0", "a1", "a2"], False)


def test_work_in_slices_goes_on_when_timers_are_run() -> None:
    timers, ran = Timers(), list[str]()
    timers.in_slices = True
    timers.work(slices(ran, "a", 2))
    timers.work(slices(ran, "b", 1))
    assert (ran, timers.deadline()) == (["a0", "b0"], 0)
    timers.run(0)
    assert (ran, timers.busy, timers.deadline()) == (["a0", "b0", "a1"], False, None)


def test_time_does_not_pass_before_the_work_is_done() -> None:
    timers, ran = Timers(), list[str]()
    timers.in_slices = True
    timers.at(10, lambda now: timers.work(slices(ran, "a", 3)))
    timers.at(11, lambda now: ran.append("later"))
    timers.run(20)
    assert ran == ["a0", "a1", "a2", "later"]


def test_a_driver_may_stop_and_timers_run_between_slices() -> None:
    timers, ran = Timers(), list[str]()
    timers.in_slices = True
    timers.work(slices(ran, "a", 4))
    timers.at(10, lambda now: ran.append("timer"))
    timers.at(10, lambda now: ran.append("other"))
    timers.run(10, lambda: True)
    assert ran == ["a0", "a1", "timer"]
    timers.run(10, lambda: True)
    assert ran == ["a0", "a1", "timer", "a2", "other"]


def test_clearing_the_timers_drops_the_work() -> None:
    timers, ran = Timers(), list[str]()
    timers.in_slices = True
    timers.work(slices(ran, "a", 2))
    timers.clear()
    timers.run(10)
    assert ran == ["a0"]
