"""Watches an engine while it works: its exceptions, its log messages, the timers that fire, and whether each step ends."""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

from fuzzing.script import Finding
from wirebroker.core import purgatory
from wirebroker.core.purgatory import Periodic, Timers, name_of

HANG_S = 20.0
"""Seconds of CPU time after which a step is interrupted. This limit finds loops that contain neither timers nor slices."""
MOST_AGAIN = 500
"""After a timer has set itself again this many times, the broker holds it back. The broker's own limit is too high for a
test.
"""
MOST_SLICES = 100_000
"""One step runs at most this many slices of long work. A step can be a month, in which a full disk wakes all periodic work each
hour."""


PERIODIC = name_of(Periodic._begin)


class Hang(BaseException):
    """Raised in a step that does not end. It is a BaseException, so `except Exception` does not catch it."""


class Watch(logging.Handler):
    """Watches the engines of one world."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.fired: Counter[str] = Counter()
        self.slices = 0
        self.logged: list[str] = []
        logging.getLogger("wirebroker").addHandler(self)
        self._fire, self._proceed = Timers._fire, purgatory._Work.proceed
        self._begin = Periodic._begin
        watch, fire, proceed, begin = self, self._fire, self._proceed, self._begin

        def fire_and_count(timers: Timers, now: int) -> None:
            timers._name = ""
            fire(timers, now)
            if timers._name and timers._name != PERIODIC:
                watch.fired[timers._name] += 1

        @wraps(begin)
        def begin_and_count(periodic: Periodic, now: int) -> None:
            watch.fired[name_of(periodic._task)] += 1
            begin(periodic, now)

        def proceed_and_count(work: Any) -> bool:
            watch.slices += 1
            if watch.slices > MOST_SLICES:
                raise Hang
            return proceed(work)

        self._most_again, purgatory.MOST_AGAIN = purgatory.MOST_AGAIN, MOST_AGAIN
        Timers._fire = fire_and_count  # type: ignore[method-assign]
        Periodic._begin = begin_and_count  # type: ignore[method-assign]
        purgatory._Work.proceed = proceed_and_count  # type: ignore[method-assign]

    def close(self) -> None:
        """Stop watching."""
        Timers._fire = self._fire  # type: ignore[method-assign]
        Periodic._begin = self._begin  # type: ignore[method-assign]
        purgatory._Work.proceed = self._proceed  # type: ignore[method-assign]
        purgatory.MOST_AGAIN = self._most_again
        logging.getLogger("wirebroker").removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error that is logged."""
        self.logged.append(record.getMessage())

    def take_fired(self) -> Counter[str]:
        """For each name of an action, returns how often timers with this action have fired since the last call."""
        fired, self.fired = self.fired, Counter()
        self.slices = 0
        return fired

    @contextmanager
    def guarding(self, what: str, *, lenient: bool) -> Iterator[None]:
        """Raises Finding if the engine raises an exception, does not end, or logs an error (unless `lenient`)."""
        main = threading.current_thread() is threading.main_thread()
        if main:
            previous = signal.signal(signal.SIGVTALRM, _hangs)
            signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
        try:
            yield
        except Hang as hang:
            raise Finding(f"hang: {place(hang)}", f"{what}\n{_stack(hang)}") from None
        except Finding:
            raise
        except Exception as error:
            raise Finding(f"raised: {place(error)}", f"{what}\n{_stack(error)}") from None
        finally:
            if main:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                signal.signal(signal.SIGVTALRM, previous)
        logged, self.logged = self.logged, []
        if logged and not lenient:
            raise Finding(f"logged: {logged[0][:80]}", f"{what}\n" + "\n".join(logged))


def _hangs(_: int, __: FrameType | None) -> None:
    raise Hang


def place(error: BaseException) -> str:
    """Returns the error and the function of the broker that raised it. Findings with the same text have the same cause."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if "/wirebroker/" in each.filename or "/kafkawire/" in each.filename]
    last = (ours or list(frames))[-1]
    if isinstance(error, Hang):
        last = next((each for each in reversed(ours) if each.name not in ("proceed", "run")), last)
    return f"{type(error).__name__} in {Path(last.filename).name} {last.name}"


def _stack(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-3000:]
