"""Driving a machine without I/O on an event loop, whether an engine or a proxy: listeners, a capture, and one alarm.

The driver hands arriving bytes to the machine, performs the machine's effects (`flush`), and sets the alarm for the machine's
next deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from wirebroker.net.accept_errors import AcceptErrorHandler
from wirebroker.net.capturing import Tap
from wirebroker.net.clock import Clock

if TYPE_CHECKING:
    from wirebroker.capture.recording import Capture
    from wirebroker.trace.recorder import Recorder


class Driver:
    """The listeners, the capture and the alarm of one machine."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self._capture: Capture | None = None
        self._servers: list[asyncio.Server] = []
        self._alarm: asyncio.TimerHandle | None = None
        self.alarm_at: int | None = None
        """The machine's next deadline, in ms since the epoch."""
        AcceptErrorHandler.install(self.loop)

    @property
    def trace(self) -> Recorder:
        """The machine's trace."""
        raise NotImplementedError

    def capture_to(self, path: str) -> None:
        """Write all bytes and verdicts into this file; call this before a listener opens. Raises OSError."""
        from wirebroker.capture.recording import open_capture

        self._capture = open_capture(path)
        self.trace.sinks.append(self._capture)

    def _captured(self, protocol: asyncio.BufferedProtocol) -> asyncio.BufferedProtocol:
        """The protocol, with a tap below it if there is a capture."""
        return protocol if self._capture is None else Tap(self._capture, protocol)

    def _set_alarm(self, deadline: int | None, runs: bool = True) -> None:
        """Call `_wake` at the deadline; `runs` says whether the clock reaches it by itself."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.alarm_at = deadline
        if deadline is not None and runs:
            self._alarm = self.loop.call_later(max(deadline - self.clock.now(), 0) / 1000, self._wake)

    def _wake(self) -> None:
        """The alarm rings: run the machine's timers."""
        raise NotImplementedError

    def _stop_listening(self) -> None:
        """Accept no more connections, and cancel the alarm."""
        for server in self._servers:
            server.close()
        if self._alarm is not None:
            self._alarm.cancel()

    async def _stopped(self) -> None:
        """Wait until the listeners are closed, and close the capture."""
        for server in self._servers:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(server.wait_closed(), 1)
        self._servers.clear()
        if self._capture is not None:
            self._capture.close()
