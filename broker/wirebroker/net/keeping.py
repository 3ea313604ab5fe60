"""What a data directory asks of the loop: long jobs go to a thread, and with `--sync always` answers wait for the disk.

Answers that wait are a group: all that came while the last group was being synced is synced together, with one fsync
for each file that was written to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from wirebroker.clock import Clock
from wirebroker.engine import Engine
from wirebroker.exchange import Effect
from wirebroker.storage.folder.store import FolderStore, Job

logger = logging.getLogger("wirebroker")


class Keeper:
    """Between a host and the store of its engine. `released` is called when effects that were held are due."""

    def __init__(self, engine: Engine, store: FolderStore, clock: Clock, released: Callable[[list[Effect]], None]) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._released = released
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "wirebroker-storage")
        self._waiting: list[Effect] = []
        """Effects of what may not be on the disk yet, and all that came after them."""
        self._holds_answers = store.holds_answers
        self._syncing = False
        self._running: asyncio.Task[None] | None = None
        for note in store.notes:
            logger.warning("%s", note)

    def look(self) -> None:
        """Write down what has changed, and take the engine's effects if they have to wait."""
        store, engine = self._store, self._engine
        cluster = engine.cluster
        if store.settled != (cluster.version, cluster.configs.version, cluster.producer_ids.next_block):
            self._settle()
        if self._holds_answers:
            job = None if self._syncing else store.sync_now()
            if job is not None:
                self._begin(job)
            if self._syncing:
                self._waiting += engine.effects
                engine.effects = []
        if store.jobs and self._running is None:
            self._running = self._loop.create_task(self._run())

    def _settle(self) -> None:
        try:
            self._store.settle(self._clock.now())
        except OSError as failure:
            root = self._store.root
            logger.error("%s cannot be written to, and what waited for it is not answered: %s", root, failure)
            self._give_up(self._engine.effects)

    def _begin(self, job: Job) -> None:
        """Sync in the thread; what waits when that is done was written before, or waits for another."""
        self._syncing = True
        held, self._waiting = self._engine.effects, []
        self._engine.effects = []
        done = self._loop.run_in_executor(self._thread, job.work)
        done.add_done_callback(lambda future: self._synced(future, job, held))

    def _synced(self, future: asyncio.Future[None], job: Job, held: list[Effect]) -> None:
        self._syncing = False
        if (failure := future.exception()) is not None:
            logger.error("%s cannot be synced, and what waited for it is not answered: %s", self._store.root, failure)
            self._give_up(held)
            held = []
        else:
            job.done()
        following, self._waiting = self._waiting, []
        self._engine.effects = following + self._engine.effects
        self._released(held)

    def _give_up(self, effects: list[Effect]) -> None:
        """Nobody may be told that something is stored which is not."""
        self._engine.effects = [effect for effect in self._engine.effects if effect not in effects]
        for connection in {effect.connection for effect in effects}:
            self._engine.close(connection, f"{self._store.root} cannot be written to")

    async def _run(self) -> None:
        """Do the jobs, one after the other."""
        store = self._store
        try:
            while store.jobs:
                job = store.jobs.popleft()
                try:
                    await self._loop.run_in_executor(self._thread, job.work)
                    job.done()
                    self._released([])
                except OSError as failure:
                    logger.error("the data directory: %s", failure)
        finally:
            self._running = None

    async def close(self) -> None:
        """Wait for the thread to end."""
        if self._running is not None:
            await self._running
        await self._loop.run_in_executor(None, self._thread.shutdown)
