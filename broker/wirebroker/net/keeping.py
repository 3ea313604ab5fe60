"""What a data directory asks of the loop: long jobs go to a thread, and with `--sync always` answers wait for the disk.

Answers that wait are a group: all that came while the last group was being synced is synced together, with one fsync
for each file that was written to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

from kafkawire.disk.damage import DataError
from wirebroker.clock import Clock
from wirebroker.engine import Engine
from wirebroker.exchange import Close, Effect
from wirebroker.storage.folder.store import FolderStore, Job

logger = logging.getLogger("wirebroker")

REST = 0.5
"""Seconds after a failed sync in which nothing is synced; answers wait, and what comes meanwhile goes with the next."""


class Keeper:
    """Between a host and the store of its engine. `released` is called when effects that were held are due."""

    def __init__(self, engine: Engine, store: FolderStore, clock: Clock, released: Callable[[list[Effect]], None]) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._released = released
        self._loop = asyncio.get_running_loop()
        self._syncs = ThreadPoolExecutor(1, "wirebroker-sync")
        """For what answers wait for, and nothing else."""
        self._jobs = ThreadPoolExecutor(1, "wirebroker-storage")
        self._jobs_apart = ThreadPoolExecutor(1, "wirebroker-compaction")
        self._waiting: list[Effect] = []
        """Effects of what may not be on the disk yet, and all that came after them."""
        self._holds_answers = store.holds_answers
        self._syncing = False
        self._running = False
        self._resting: asyncio.TimerHandle | None = None
        """Set after a sync has failed, until the next one."""
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Write down what has changed, and take the engine's effects if they have to wait."""
        store, engine = self._store, self._engine
        if engine.cluster.decisions.pending:  # by a timer, or by the test; requests have seen to theirs
            engine.cluster.decisions.write_down(self._clock.now())
        if self._holds_answers and not self._closing:
            job = None if self._syncing or self._resting is not None else store.sync_now()
            if job is not None:
                self._begin(job)
            if self._syncing or self._resting is not None:
                self._waiting += engine.effects
                engine.effects = []
        if store.jobs and not self._running:
            self._running = True
            self._start(self._run())

    def _begin(self, job: Job) -> None:
        """Sync in the thread; what waits when that is done was written before, or waits for another."""
        self._syncing = True
        held, self._waiting = self._engine.effects, []
        self._engine.effects = []
        done = self._loop.run_in_executor(self._syncs, job.work)
        done.add_done_callback(lambda future: self._synced(future, job, held))

    def _synced(self, future: asyncio.Future[None], job: Job, held: list[Effect]) -> None:
        self._syncing = False
        if (failure := future.exception()) is not None:
            job.failed()
            logger.error("%s cannot be synced, and what waited for it is not answered: %s", self._store.root, failure)
            self._resting = self._loop.call_later(REST, self._rested)
            held = self._given_up(held)
        else:
            job.done()
        following, self._waiting = self._waiting, []
        self._engine.effects = following + self._engine.effects
        self._released(held)

    def _rested(self) -> None:
        self._resting = None
        self._released([])

    def _given_up(self, effects: list[Effect]) -> list[Effect]:
        """The connections to be closed: nobody may be told that something is on the disk which is not."""
        engine = self._engine
        before, engine.effects = engine.effects, [effect for effect in effects if isinstance(effect, Close)]
        for connection in {effect.connection for effect in effects}:
            engine.close(connection, f"{self._store.root} cannot be synced")
        closed, engine.effects = engine.effects, before
        return closed

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        """Do the jobs, one after the other, and beside them what would hold up the others."""
        jobs = self._store.jobs
        try:
            while jobs:
                job = jobs.popleft()
                if job.apart:
                    self._start(self._do(job, self._jobs_apart))
                else:
                    await self._do(job, self._jobs)
        finally:
            self._running = False

    async def _do(self, job: Job, thread: ThreadPoolExecutor) -> None:
        try:
            try:
                await self._loop.run_in_executor(thread, job.work)
            except OSError:
                job.failed()
                raise
            job.done()
        except DataError as failure:
            logger.error("the data directory: %s", failure)
        except OSError as failure:
            self._store.failed(failure)
        self._released([])

    async def close(self) -> None:
        """Wait for the jobs and the threads to end."""
        self._closing = True
        if self._resting is not None:
            self._resting.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        for thread in (self._syncs, self._jobs, self._jobs_apart):
            await self._loop.run_in_executor(None, thread.shutdown)
