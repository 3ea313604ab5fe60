"""A broker or a proxy that runs in the same process as the tests: its event loop, and calls from other threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, Protocol, Self, TypeVar

from wirebroker.net.driver import Driver
from wirebroker.net.forks import at_home
from wirebroker.net.thread import LoopThread, call_on
from wirebroker.tools import tools

H = TypeVar("H", bound=Driver[Any])
T = TypeVar("T")
__tracebackhide__ = True  # pytest shows the caller's line


class _Control(Protocol):
    """The part of the HTTP control that this module uses."""

    @property
    def url(self) -> str: ...

    async def close(self) -> None: ...


class InProcess(Generic[H]):
    """The base of MockKafka and ProxyKafka. `with` runs the host in a thread with an event loop of its own."""

    def __init__(self, loop_thread: LoopThread | None, capture: str | os.PathLike[str] | None) -> None:
        self._given_thread = loop_thread
        self._thread: LoopThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._host: H | None = None
        self._process = os.getpid()
        """The process that created this object."""
        self._stopping = Lock()
        """A lock that is held while `stop` runs. Several threads may call `stop`."""
        self._capture_path = capture
        self._control: _Control | None = None

    def _new_host(self) -> H:
        raise NotImplementedError

    async def _open(self, host: H) -> None:
        """Open the listeners and the control."""
        raise NotImplementedError

    def _ends(self, host: H) -> None:
        """Called before a host is closed."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the host in a separate thread. Raises RuntimeError if the host is running, and OSError if it cannot listen."""
        self._check_stopped()
        thread = self._given_thread or LoopThread()
        try:
            thread.await_(self._start())
        except BaseException:
            self._stop_thread(thread)
            raise
        self._thread = thread

    def stop(self) -> None:
        """Close all connections and listeners. Does nothing if the host is not running, or in a forked process. Raises
        RuntimeError if it is called in the host's event loop."""
        with self._stopping:
            if os.getpid() != self._process or not self.running:
                self._forget()
            elif (thread := self._thread) is not None:
                thread.await_(self._stop())
                self._stop_thread(thread)
                self._thread = None

    def _stop_thread(self, thread: LoopThread) -> None:
        if self._given_thread is None:
            thread.stop()

    def _forget(self) -> None:
        """Forget the running host, but do not stop it. Afterwards `running` is False."""
        self._thread = self._host = self._loop = self._control = None

    async def _start(self) -> None:
        self._check_stopped()
        self._forget()
        self._process, self._loop = os.getpid(), asyncio.get_running_loop()
        host = self._host = self._new_host()
        try:
            if self._capture_path is not None:
                path = os.fspath(self._capture_path)
                host.capture_to(path, tools().open_capture(path, None))
            await self._open(host)
        except BaseException:
            await self._stop()
            raise

    async def _stop(self) -> None:
        if os.getpid() != self._process:
            self._forget()
            return
        control, self._control = self._control, None
        if control is not None:
            await control.close()
        host, self._host = self._host, None
        if host is not None:
            self._ends(host)
            await host.close()

    @property
    def running(self) -> bool:
        """Tells whether the broker or the proxy is running. If its event loop has ended, it is not running."""
        return self._host is not None and self._loop is not None and not self._loop.is_closed()

    def _check_stopped(self) -> None:
        if self.running:
            name = type(self).__name__
            raise RuntimeError(f"this {name} is already running; create a second {name}, or call stop() first")

    def _started(self) -> None:
        if not self.running:
            name = type(self).__name__
            raise RuntimeError(f"this {name} is not running; use it in a with statement, or call start()")

    @property
    def _running(self) -> H:
        self._started()
        assert self._host is not None
        at_home(self._process, f"this {type(self).__name__}")
        return self._host

    def _in_loop(self, function: Callable[[H], T]) -> T:
        """Call `function(host)` in the thread of the event loop."""
        host = self._running
        assert self._loop is not None
        return call_on(self._loop, lambda: function(host))

    @property
    def control_url(self) -> str:
        """The address of the HTTP control: `http://127.0.0.1:PORT`. Raises RuntimeError without `control=True`."""
        self._started()
        if self._control is None:
            name = type(self).__name__
            raise RuntimeError(f"this {name} has no HTTP control; create it with {name}(control=True)")
        return self._control.url
