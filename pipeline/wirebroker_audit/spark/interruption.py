"""Handles Ctrl-C and SIGTERM while Spark is at work, so that the audit ends without the stack traces of two languages.

A signal may arrive during the main thread's call to the JVM. If the main thread left that call, the connection would be broken
for later calls. The handler itself cannot make another call, although PySpark's own handler tries to. So a thread silences
Spark and cancels its jobs, which ends the call; then the main thread raises KeyboardInterrupt. Spark raises some exception for
a cancelled job, so code that catches an exception looks at `number` first. A second signal takes effect at once.

Not all errors of Java go through Spark's log. For example, a thread that ends with an exception prints its stack trace itself,
and so does a Python worker. So Java and its workers write their errors into a pipe, and after a signal nobody passes them on.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM)
EACH = 0.1
"""Seconds between two attempts to cancel Spark's jobs: another job may follow a cancelled job."""
PATIENCE = 2.0
"""Seconds to wait for the JVM at the end."""
STDERR = 2


class Interruption:
    """Handles the signals inside its `with` block, in the main thread."""

    number: int | None = None
    """the signal that arrived"""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._context: Any = None
        self._cancel = True
        self._nudged = False
        self._chaser: threading.Thread | None = None
        self._over = threading.Event()
        self.passer: threading.Thread | None = None
        """The thread that passes on the errors of other processes."""

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._came) for number in NUMBERS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._chaser is not None:  # this handler must still catch a signal that the thread may be about to send
            self._chaser.join(PATIENCE)
        if self.number is not None:
            logging.disable(logging.NOTSET)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a process ended by a signal."""
        return 128 + (self.number or signal.SIGINT)

    @contextmanager
    def passing_errors_on(self) -> Iterator[None]:
        """Processes that start in this context write their errors into a pipe. A thread passes each line on to the standard
        error of this process, until a signal arrives. In this context, the errors of this process go the same way."""
        try:
            own = os.dup(STDERR)
        except OSError:  # this process has no standard error
            yield
            return
        source, target = os.pipe()
        os.dup2(target, STDERR)
        os.close(target)
        self.passer = threading.Thread(target=self._pass_on, args=(source, own), daemon=True)
        self.passer.start()
        try:
            yield
        finally:
            os.dup2(own, STDERR)

    def _pass_on(self, source: int, target: int) -> None:
        with open(source, "rb") as errors:
            for line in errors:
                if self.number is None:
                    with suppress(OSError):  # nobody reads the standard error any more
                        os.write(target, line)

    def watch(self, context: Any, *, cancel: bool) -> None:
        """Install the handler again, because the SparkContext has replaced it with its own handler. A stream cancels its own
        jobs."""
        self._context, self._cancel = context, cancel
        if self._before:
            signal.signal(signal.SIGINT, self._came)

    def _came(self, number: int, frame: FrameType | None) -> None:
        nudged, self._nudged = self._nudged, False
        again = not nudged and self.number is not None
        if not nudged and self.number is None:
            self.number = number
            logging.disable()  # py4j has several loggers, and logs every call that does not return
            if self._context is not None:
                self._chaser = threading.Thread(target=self._chase, daemon=True)
                self._chaser.start()
        if again or self._context is None or (nudged and not self._over.is_set() and not _calls_java(frame)):
            self._over.set()
            raise KeyboardInterrupt

    def _chase(self) -> None:
        with suppress(Exception):  # Spark may already be ending
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
