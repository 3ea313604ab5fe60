"""The tasks that concern all logs of a data directory: syncing, deleting files, and reporting a failing disk.

The engine's driver calls a job's `work` in a thread, and its `done` in the engine's thread.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

from kafkawire.disk.names import DELETED
from wirebroker.storage import files
from wirebroker.storage.inspection import Inspection
from wirebroker.storage.metadata import MetadataLog
from wirebroker.storage.notes import note
from wirebroker.storage.segment import INDEXES_KEPT, MOST_OPEN, Recent, Segment

ALWAYS, INTERVAL, NEVER = "always", "interval", "never"
"""The times at which written data is synced: before each response, every log.flush.interval.ms, or when the operating system
decides."""


class Job(NamedTuple):
    """A long task. `work` may run in any thread; afterwards the engine's thread calls `done`."""

    work: Callable[[], None]
    done: Callable[[], None]
    apart: bool = False
    """Tells whether the job takes very long, and so runs in a thread of its own. At most one such job runs at a time."""
    failed: Callable[[], None] = lambda: None
    """A function that is called instead of `done` if `work` raises OSError."""


class Syncable(Protocol):
    """A log that has to be synced from time to time."""

    end_offset: int

    def unsynced(self, end: int) -> list[Segment]:
        """Returns the segments that begin before `end` and have changed since they were last synced."""

    def sync(self, segments: Iterable[Segment]) -> None:
        """Sync these segments. Any thread may call this. Raises OSError."""

    def synced_up_to(self, offset: int) -> None:
        """Remember that all batches before `offset` are synced."""


class Upkeep:
    """The jobs, syncs and deletions of a data directory. Logs and moves use this part of the store."""

    def __init__(self, root: Path, sync: str, metadata: MetadataLog, random_bytes: Callable[[int], bytes]) -> None:
        self.root = root
        self.sync = sync
        self.metadata = metadata
        self.jobs: deque[Job] = deque()
        self.recent = Recent(INDEXES_KEPT, Segment.let_go)
        """The closed segments whose indexes are in memory."""
        self.inspection = Inspection()
        """Decides which cleanly closed segments the start reads completely."""
        self.compacting: Syncable | None = None
        """The log that is being compacted in a thread."""
        self._files = Recent(MOST_OPEN, Segment.release)
        self._random_bytes = random_bytes
        self._dirty: dict[Syncable, None] = {}
        """The logs that have changed since their last sync."""
        self._made: list[Path] = []
        """Other files and folders that were created or changed since their last sync."""
        self._trouble = False
        """Tells whether writes fail at present. A failed write sets this, and a successful checkpoint clears it."""

    def unique(self) -> bytes:
        """Returns 16 random bytes for a folder name that no other folder has."""
        return self._random_bytes(16)

    @property
    def is_failing(self) -> bool:
        """Tells whether a write has failed and, since this failure, no checkpoint has been written."""
        return self._trouble

    def insist(self) -> None:
        """Try again to write those changes of the metadata that could not be written. Raises OSError."""
        raise NotImplementedError

    def failed(self, failure: Exception) -> None:
        """Log a failed write. Further failed writes are not logged until `succeeded` is called."""
        if not self._trouble:
            self._trouble = True
            note(
                f"{self.root} cannot be written to: {words(failure)}. Until the directory is writable again, requests "
                "that change data are refused; this message is not repeated"
            )

    def succeeded(self) -> None:
        """Remember that writes succeed. If a write had failed before, log that the directory can be written to again."""
        if self._trouble:
            self._trouble = False
            note(f"{self.root} can be written to again")

    # Deleting

    def discard(self, paths: Iterable[Path]) -> None:
        """Delete these files: rename them immediately, and remove them in a background job. Raises OSError."""
        renamed: list[Path] = []

        def remove() -> None:
            for path in renamed:
                with suppress(OSError):  # the next start removes the file
                    path.unlink(missing_ok=True)

        self.jobs.append(Job(remove, nothing))
        for path in paths:
            renamed.append(path.rename(path.with_name(path.name + DELETED)))

    def remove_later(self, folder: Path) -> None:
        """Remove this folder in a background job."""
        self.jobs.append(Job(lambda: shutil.rmtree(folder, ignore_errors=True), nothing))

    # Syncing

    def written(self, log: Syncable) -> None:
        """Remember that this log has been written to and is not synced."""
        self._dirty[log] = None

    def forget(self, log: Syncable) -> None:
        """Forget this log, because it does not have to be synced any more."""
        self._dirty.pop(log, None)

    def rolled(self, log: Syncable, end: int) -> None:
        """Sync the segments before `end`, so that a recovery can begin after the closed segment. As in Kafka, these segments
        are synced with every `--sync` setting. With `--sync always`, this method leaves the sync to the next responses, because
        they wait for a sync that includes the closed segment.
        """
        if not self.holds_responses:
            self.jobs.append(self._sync_job({log: end}, []))

    @property
    def holds_responses(self) -> bool:
        """Tells whether each response waits until all earlier writes are synced."""
        return self.sync == ALWAYS

    def sync_now(self) -> Job | None:
        """Returns a job that syncs all writes so far, or None if there is nothing to sync."""
        metadata_end = self.metadata.end_offset
        if not self._dirty and metadata_end <= self.metadata.synced_offset:
            return None
        ends, made = {log: log.end_offset for log in self._dirty}, list(dict.fromkeys(self._made))
        self._dirty.clear()
        self._made.clear()
        return self._sync_job(ends, made, metadata_end)

    def _sync_job(self, ends: Mapping[Syncable, int], made: list[Path], metadata_end: int = 0) -> Job:
        """Returns a job that syncs each log up to its offset in `ends`, the metadata up to `metadata_end`, and the files
        `made`. If the job fails, the next sync includes the same files.
        """
        metadata, segments = self.metadata, {log: log.unsynced(end) for log, end in ends.items()}
        paths = [*made, metadata.path] if metadata_end > metadata.synced_offset else made
        for segment in chain.from_iterable(segments.values()):
            segment.dirty = False

        def work() -> None:
            for path in paths:
                files.sync(path)
            for log, written in segments.items():
                log.sync(written)

        def done() -> None:
            for log, end in ends.items():
                log.synced_up_to(end)
            metadata.synced_offset = max(metadata.synced_offset, metadata_end)

        def failed() -> None:
            self._made += made
            for segment in chain.from_iterable(segments.values()):
                segment.touched()

        return Job(work, done, failed=failed)

    def run_jobs(self) -> None:
        """Run all jobs in this thread. If a job raises OSError, the later jobs stay in the queue."""
        while self.jobs:
            job = self.jobs.popleft()
            try:
                job.work()
            except OSError:
                job.failed()
                raise
            job.done()


def words(failure: Exception) -> str:
    """Returns the message of a failure. For an OSError, this is the operating system's message and, if it is known, the file's
    name."""
    if not isinstance(failure, OSError):
        return str(failure)
    return f"{failure.strerror or failure}{f' ({failure.filename})' if failure.filename else ''}"


def nothing() -> None:
    """Do nothing."""
