"""An event loop in a separate thread, for synchronous callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from wirebroker.net.forks import at_home
from wirebroker.net.sockets import new_loop

T = TypeVar("T")
__tracebackhide__ = True  # pytest leaves out these frames, and shows the caller's line
EXPECTED = (ValueError, LookupError, OSError)
"""The types of errors that the caller has caused. The tracebacks of these errors do not need to show the broker's code."""
RECHECK_S = 1.0
"""A call that waits for its result checks at this interval in seconds whether the loop still runs."""


class LoopThread:
    """Runs a loop until `stop()` is called. Any thread may call the methods. In a forked process, the methods raise
    RuntimeError."""

    def __init__(self, kind: str = "asyncio") -> None:
        self.loop = new_loop(kind)
        self.process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="wirebroker", daemon=True)
        runs = threading.Event()
        self.loop.call_soon(runs.set)
        self._thread.start()
        runs.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def await_(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result. Raises RuntimeError in the loop's own thread."""
        try:
            at_home(self.process, "the loop of this MockKafka")
            if running_loop() is self.loop:
                raise RuntimeError("this call waits for the broker's event loop; call it outside of the loop's thread")
            _check_runs(self.loop)
        except RuntimeError:
            coroutine.close()
            raise
        try:
            return _result(asyncio.run_coroutine_threadsafe(coroutine, self.loop), self.loop)
        except EXPECTED as error:
            raise error.with_traceback(None) from None

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and wait for its result."""
        at_home(self.process, "the loop of this MockKafka")
        return call_on(self.loop, function)

    def stop(self) -> None:
        """End the loop and its thread. Does nothing if they have ended, or in a forked process."""
        if os.getpid() != self.process or self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


def call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> T:
    """Call a function in the thread of a loop. If the caller is already in this thread, call the function directly. Raises
    RuntimeError if the loop does not run."""
    try:
        if running_loop() is loop:
            return function()
        future: Future[T] = Future()
        loop.call_soon_threadsafe(_call, function, future)
        return _result(future, loop)
    except EXPECTED as error:
        raise error.with_traceback(None) from None


def _check_runs(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_running():
        raise RuntimeError(
            "the event loop of this broker does not run; call this while the loop runs, or start the broker in a `with` "
            "statement, which runs it in a thread of its own"
        )


def _result(future: Future[T], loop: asyncio.AbstractEventLoop) -> T:
    """Wait for a result. If the loop ends meanwhile, raise RuntimeError, because the result would never come."""
    while not wait([future], RECHECK_S).done:
        _check_runs(loop)
    return future.result()


def _call(function: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
