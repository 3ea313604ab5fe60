"""Runs the long work of a data directory in threads. With `--sync always`, responses wait until their records are synced
(fsync).

Responses wait in groups. While the records of one group are synced, new responses collect in the next group. So each written
file needs only one fsync for a whole group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor

from kafkawire.disk.damage import DataError
from wirebroker.engine.engine import Engine
from wirebroker.net.clock import Clock
from wirebroker.requests.effects import Close, Effect
from wirebroker.storage.store import FolderStore
from wirebroker.storage.upkeep import Job

logger = logging.getLogger("wirebroker")

PAUSE_S = 0.5
"""After a failed sync, the next sync begins after this time in seconds. Responses to later writes wait until then."""


class StorageJobs:
    """Runs the jobs of an engine's store. `release` is a function of the host: it performs the effects that had to wait, and
    then calls `check` again."""

    def __init__(self, engine: Engine, store: FolderStore, clock: Clock, release: Callable[[list[Effect]], None]) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._release = release
        self._loop = asyncio.get_running_loop()
        self._sync_thread = ThreadPoolExecutor(1, "wirebroker-sync")
        """The thread for the syncs that responses wait for. Nothing else runs in this thread."""
        self._job_thread = ThreadPoolExecutor(1, "wirebroker-storage")
        self._compaction_thread = ThreadPoolExecutor(1, "wirebroker-compaction")
        self._waiting: list[Effect] = []
        """Effects of requests whose records are perhaps not synced yet, and all later effects."""
        self._holds_responses = store.holds_responses
        self._syncing = False
        self._running = False
        self._pause: asyncio.TimerHandle | None = None
        """After a failed sync, the timer of the next sync; otherwise None."""
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._working: dict[Job, Future[None]] = {}
        """The jobs that threads are working on."""

    def check(self) -> None:
        """Write the changes of the metadata, and start the store's jobs. If responses must wait for a sync, take them from the
        engine first.
        """
        store, engine = self._store, self._engine
        if engine.cluster.decisions.pending:  # changes by a timer or a test; a request writes its own changes
            engine.cluster.decisions.write_down(self._clock.now())
        if self._holds_responses and not self._closing:
            job = None if self._blocked else store.sync_now()
            if job is not None:
                self._begin(job)
            if self._blocked:
                self._waiting += engine.take_effects()
        if store.jobs and not self._running:
            self._running = True
            self._start(self._run())

    @property
    def _blocked(self) -> bool:
        return self._syncing or self._pause is not None

    def _begin(self, job: Job) -> None:
        """Sync in the thread. Until the sync ends, the effects that are in the queue now wait, because they belong to earlier
        writes. Later effects wait for the next sync."""
        self._syncing = True
        self._waiting = []
        held = self._engine.take_effects()
        done = self._loop.run_in_executor(self._sync_thread, job.work)
        done.add_done_callback(lambda future: self._synced(future, job, held))

    def _synced(self, future: asyncio.Future[None], job: Job, held: list[Effect]) -> None:
        self._syncing = False
        if (failure := future.exception()) is not None:
            job.failed()
            logger.error("%s cannot be synced; connections that wait for the sync are closed: %s", self._store.root, failure)
            self._pause = self._loop.call_later(PAUSE_S, self._resume)
            held = self._closed(held)
        else:
            job.done()
        self._engine.effects[:0] = self._waiting
        self._waiting = []
        self._release(held)

    def _resume(self) -> None:
        self._pause = None
        self._release([])

    def _closed(self, effects: list[Effect]) -> list[Effect]:
        """Close the connections of these effects, because no response may confirm a record that is not on the disk."""
        engine = self._engine
        following = engine.take_effects()
        engine.effects += [effect for effect in effects if isinstance(effect, Close)]
        for connection in {effect.connection for effect in effects}:
            engine.close(connection, f"{self._store.root} cannot be synced")
        closed = engine.take_effects()
        engine.effects += following
        return closed

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        """Do the jobs one after the other. A job whose `apart` is true, such as a compaction, runs beside the other jobs."""
        jobs = self._store.jobs
        try:
            while jobs:
                job = jobs.popleft()
                if job.apart:
                    self._start(self._do(job))
                else:
                    await self._do(job)
        finally:
            self._running = False

    async def _do(self, job: Job) -> None:
        await asyncio.wait([asyncio.wrap_future(self._submit(job))])
        self._complete(job)
        self._release([])

    def _submit(self, job: Job) -> Future[None]:
        thread = self._compaction_thread if job.apart else self._job_thread
        work = self._working[job] = thread.submit(job.work)
        return work

    def _complete(self, job: Job) -> None:
        """Wait until the job's thread ends. Then take over the result of the job, unless `finish` has already done so."""
        work = self._working.pop(job, None)
        if work is None:
            return
        try:
            try:
                work.result()
            except OSError:
                job.failed()
                raise
            job.done()
        except DataError as failure:
            logger.error("the data directory: %s", failure)
        except OSError as failure:
            self._store.failed(failure)

    def finish(self) -> None:
        """Wait until all jobs are done, including jobs that begin during the wait. Unlike `finished`, this blocks the event
        loop."""
        jobs = self._store.jobs
        while jobs or self._working:
            while jobs:
                self._submit(jobs.popleft())
            for job in list(self._working):
                self._complete(job)

    async def finished(self) -> None:
        """Wait until all jobs are done, including jobs that begin during the wait."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Wait until the jobs and the threads have ended."""
        self._closing = True
        if self._pause is not None:
            self._pause.cancel()
        await self.finished()
        for thread in (self._sync_thread, self._job_thread, self._compaction_thread):
            await self._loop.run_in_executor(None, thread.shutdown)
