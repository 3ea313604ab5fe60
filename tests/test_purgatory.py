"""Timers fire in order, cancelled timers take no memory, and no timer runs forever."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from wirebroker.core import purgatory
from wirebroker.core.purgatory import MOST_AT_ONCE, NEVER, Timers


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


# Periodic work


def test_periodic_work_rests_until_it_has_something_to_do() -> None:
    timers, begun = Timers(), list[int]()
    timers.every(lambda: 10, 0, lambda now: begun.append(now) or (65 if now < 65 else NEVER))
    timers.run(60)
    assert (begun, timers.deadline()) == ([10], 70)
    timers.run(200)
    assert begun == [10, 70]
    assert timers.deadline() == 210


def test_a_change_ends_the_rest_at_the_next_time_of_the_interval() -> None:
    timers, begun = Timers(), list[int]()
    timers.every(lambda: 10, 0, lambda now: begun.append(now) or NEVER)
    timers.at(33, lambda now: None)
    timers.at(50, lambda now: timers.work(iter((None,))))
    timers.run(100)
    assert begun == [10, 40, 50]


def test_work_that_changes_something_begins_again_in_each_interval() -> None:
    timers, begun = Timers(), list[int]()

    def change(now: int) -> Generator[None, Any, int | None]:
        begun.append(now)
        yield
        return None if now < 30 else NEVER

    timers.every(lambda: 10, 0, change)
    timers.run(100)
    assert begun == [10, 20, 30]
    timers.run(105)
    timers.run(110)
    assert begun == [10, 20, 30, 110]


def test_a_rest_ends_when_the_driver_stops_the_run() -> None:
    timers, begun = Timers(), list[int]()
    timers.every(lambda: 10, 0, lambda now: begun.append(now) or NEVER)
    timers.at(25, lambda now: None)
    timers.run(100, lambda: timers.reached == 25)
    assert (begun, timers.deadline()) == ([10], 30)


def test_cancelled_work_does_not_begin_again() -> None:
    timers, begun = Timers(), list[int]()
    periodic = timers.every(lambda: 10, 0, lambda now: begun.append(now) or NEVER, first=3)
    timers.run(5)
    periodic.cancel()
    timers.run(100)
    assert (begun, timers.deadline()) == ([3], None)


# Limits: if a timer or work would never end, it must wait, and the log names it


def test_timers_that_set_each_other_for_the_same_time_wait(caplog: pytest.LogCaptureFixture) -> None:
    timers, ran = Timers(), list[int]()

    def ping(now: int) -> None:
        timers.at(now, pong)

    def pong(now: int) -> None:
        ran.append(now)
        timers.at(now - 1, ping)

    timers.at(10, ping)
    timers.at(20, lambda now: ran.append(now))
    timers.run(30)
    assert ran[-1] == 20, "later timers run"
    assert MOST_AT_ONCE < len(ran) < 2 * MOST_AT_ONCE
    assert timers.deadline() == 1030
    (row,) = caplog.records
    assert "ping waits" in row.message or "pong waits" in row.message


def test_many_timers_of_one_time_may_set_a_timer_each(caplog: pytest.LogCaptureFixture) -> None:
    timers, ran = Timers(), list[int]()
    for _ in range(3 * MOST_AT_ONCE):
        timers.at(10, lambda now: timers.at(now, ran.append) and None)
    timers.run(10)
    assert (len(ran), caplog.records) == (3 * MOST_AT_ONCE, [])


@pytest.mark.parametrize("moves", [False, True])
def test_a_timer_that_sets_itself_again_too_often_waits(
    moves: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purgatory, "MOST_AGAIN", 100)
    timers, ran = Timers(), list[int]()

    def again(now: int) -> None:
        ran.append(now)
        timers.at(now + 1, again)

    timers.at(1, again)
    if moves:
        timers.begin_move()
    timers.run(1000)
    assert (len(ran), timers.deadline()) == (101, 2000)
    timers.run(3000)
    assert len(ran) == (102 if moves else 202), "the limit is for one move of the clock"
    assert "again waits" in caplog.text


def test_periodic_work_that_changes_something_too_often_waits(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purgatory, "MOST_AGAIN", 100)
    timers, begun = Timers(), list[int]()
    timers.every(lambda: 1, 0, begun.append)
    timers.run(1000)
    assert (len(begun), timers.deadline()) == (101, 1001)
    assert "append waits" in caplog.text


@pytest.mark.parametrize("in_slices", [False, True])
def test_work_that_does_not_end_is_stopped(
    in_slices: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purgatory, "MOST_SLICES", 100)
    timers, ran = Timers(), list[str]()
    timers.in_slices = in_slices
    timers.work(slices(ran, "endless", 10**9))
    timers.run(10)
    assert (len(ran), timers.busy) == (100, False)
    assert "slices is stopped" in caplog.text
