"""An event loop in a separate thread, for synchronous callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from wirebroker.net.forks import at_home
from wirebroker.net.sockets import new_loop

T = TypeVar("T")
__tracebackhide__ = True  # pytest leaves out these frames, and shows the caller's line
EXPECTED = (ValueError, LookupError, OSError)
"""Errors that the caller has caused. A traceback of these errors does not need the broker's code."""


class LoopThread:
    """Runs a loop until `stop()` is called. Any thread may call the methods. In a forked process, the methods raise
    RuntimeError."""

    def __init__(self, kind: str = "asyncio") -> None:
        self.loop = new_loop(kind)
        self.process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="wirebroker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def await_(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result."""
        try:
            at_home(self.process, "the loop of this MockKafka")
        except RuntimeError:
            coroutine.close()
            raise
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()
        except EXPECTED as error:
            raise error.with_traceback(None) from None

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and wait for its result."""
        at_home(self.process, "the loop of this MockKafka")
        return call_on(self.loop, function)

    def stop(self) -> None:
        """End the loop and its thread. Does nothing in a forked process."""
        if os.getpid() != self.process:
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


def call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> T:
    """Call a function in the thread of a loop. In this thread itself, call the function directly."""
    try:
        if running_loop() is loop:
            return function()
        future: Future[T] = Future()
        loop.call_soon_threadsafe(_call, function, future)
        return future.result()
    except EXPECTED as error:
        raise error.with_traceback(None) from None


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
