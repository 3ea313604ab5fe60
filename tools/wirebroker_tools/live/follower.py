"""Finds problems in the trace of a running broker or proxy. The trace keeps only the latest rows, so a follower reads each row
soon after it is traced.
"""

from __future__ import annotations

import asyncio

from wirebroker.control.controlled import Controlled
from wirebroker_tools.explain.explanation import Explanation
from wirebroker_tools.explain.findings import Finding

PAUSE_S = 1.0
"""The trace is read at intervals of this many seconds."""


class Follower:
    """Reads the trace every second until the broker or the proxy stops."""

    def __init__(self, followed: Controlled) -> None:
        self._followed = followed
        self._run = ""
        self._number = 0
        """The number of rows of the run that this follower has read or missed."""
        self._lock = asyncio.Lock()
        self.explanation = Explanation()
        self._task = asyncio.create_task(self._follow())
        followed.at_close.append(self._stop)

    def _stop(self) -> None:
        self._task.cancel()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_S)
            async with self._lock:
                await self._catch_up()

    async def findings(self) -> list[Finding]:
        """Returns the present findings."""
        async with self._lock:
            await self._catch_up()
            return await asyncio.to_thread(self.explanation.findings, self._followed.now)

    async def _catch_up(self) -> None:
        trace = self._followed.machine.trace
        if self._run != self._followed.run:
            self._run, self._number, self.explanation = self._followed.run, 0, Explanation()
        added = trace.added
        rows = trace.last(added - self._number)
        self.explanation.skip(added - self._number - len(rows))
        self._number = added
        # runs in a thread, so that the broker serves its clients meanwhile
        await asyncio.to_thread(self.explanation.take_all, rows)
