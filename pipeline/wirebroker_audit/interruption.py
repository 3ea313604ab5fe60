"""Ctrl-C, or SIGTERM, while Spark is at work: an end without the stacks of two languages.

A signal may arrive while the main thread is in the midst of a call to the JVM. To leave the call there would spoil the
connection for all that is still to be called, and to make another one from the handler cannot be done at all (PySpark's own
handler tries to). So a thread makes Spark silent and cancels its jobs, which ends such calls, and KeyboardInterrupt is raised
when the main thread is out of them. What Spark says of its cancelled jobs comes as an exception of some kind or other:
whoever catches one asks first whether a `number` came. A second signal is obeyed at once.
"""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM)
EACH = 0.1
"""Seconds between two attempts: behind a cancelled job there may be a further one."""
PATIENCE = 2.0
"""Seconds that a JVM is given to answer at the end."""


class Interruption:
    """Takes the signals while it is entered, in the main thread."""

    number: int | None = None
    """of the signal that came"""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._context: Any = None
        self._cancel = True
        self._nudged = False
        self._chaser: threading.Thread | None = None
        self._over = threading.Event()

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._came) for number in NUMBERS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._chaser is not None:  # it may be about to send another signal, which is still ours to take
            self._chaser.join(PATIENCE)
        if self.number is not None:
            logging.disable(logging.NOTSET)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """What shells give a process that a signal ended."""
        return 128 + (self.number or signal.SIGINT)

    def watch(self, context: Any, *, cancel: bool) -> None:
        """There is a SparkContext by now, which has put its own handler in place of ours. A stream cancels its own jobs."""
        self._context, self._cancel = context, cancel
        if self._before:
            signal.signal(signal.SIGINT, self._came)

    def _came(self, number: int, frame: FrameType | None) -> None:
        nudged, self._nudged = self._nudged, False
        again = not nudged and self.number is not None
        if not nudged and self.number is None:
            self.number = number
            logging.disable()  # py4j logs every call that does not come back, by loggers of several names
            if self._context is not None:
                self._chaser = threading.Thread(target=self._chase, daemon=True)
                self._chaser.start()
        if again or self._context is None or (nudged and not self._over.is_set() and not _calls_java(frame)):
            self._over.set()
            raise KeyboardInterrupt

    def _chase(self) -> None:
        with suppress(Exception):  # Spark may be on its way out
            self._context.setLogLevel("OFF")
        while not self._over.is_set():
            if self._cancel:
                with suppress(Exception):
                    self._context.cancelAllJobs()
            self._nudged = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            self._over.wait(EACH)


def _calls_java(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("py4j"):
            return True
        frame = frame.f_back
    return False
