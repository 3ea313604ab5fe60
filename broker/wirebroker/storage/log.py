"""The log of a partition on disk, in the partition's folder (UnifiedLog and LocalLog)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from kafkawire.batches import HEADER_SIZE, read_header
from kafkawire.disk.checkpoints import LEADER_EPOCHS, epochs_text
from kafkawire.disk.names import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    deleted_folder_name,
    file_name,
    offsets_in,
)
from kafkawire.disk.walking import ANYWHERE
from kafkawire.primitives import Buffer
from wirebroker.core.cluster import INTERNAL_TOPICS
from wirebroker.core.configs import TopicConfigs
from wirebroker.core.logs.cleaning import Task, next_plan, plan
from wirebroker.core.logs.interface import EMPTY, Kept, Owner, Slice
from wirebroker.storage import files
from wirebroker.storage.compaction import Cleaned, compact
from wirebroker.storage.directory import LogDirectory
from wirebroker.storage.inspection import Inspection
from wirebroker.storage.notes import note
from wirebroker.storage.recovery import LogSettings, Recovered, recover
from wirebroker.storage.segment import Index, Segment
from wirebroker.storage.snapshots import snapshot_bytes
from wirebroker.storage.upkeep import Upkeep


class FolderLog:
    """The log of one partition. Batches are written immediately; files that a start can rebuild from the batches are written
    later. `Log` describes the methods that a log in memory has, too.
    """

    largest_segment = 2**31 - 1

    def __init__(
        self, store: Upkeep, directory: LogDirectory, where: tuple[str, int], folder: Path, settings: LogSettings,
        configs: TopicConfigs, now: int,
    ) -> None:  # fmt: skip
        """Open the folder, and create or recover its log. Raises DamagedFile, OSError."""
        self.directory = directory
        self.where = where
        self.folder = folder
        self._moves = 0
        """A counter that rises by one when a move of the files begins, and by one when the move ends."""
        self._store = store
        self._configs = configs
        told = settings.segments._replace(written=lambda: store.written(self), failed=store.failed)
        self._settings = settings._replace(segments=told)
        self._owner: Owner | None = None
        self._epochs: Sequence[tuple[int, int]] = ()
        try:
            self._take(self._recover(now))
        except BaseException:
            store.forget(self)
            raise

    def _recover(self, now: int) -> Recovered:
        # The logs of internal topics are inspected completely, because the coordinators read them completely anyway.
        inspection = Inspection(ANYWHERE) if self.where[0] in INTERNAL_TOPICS else self._store.inspection
        return recover(self.folder, self._settings, self.directory.known_of(self.where), inspection, now)

    def _take(self, found: Recovered) -> None:
        self.segments = found.segments
        self.active = found.segments[-1]
        self.end_offset = found.end_offset
        self.recovery_point = found.recovery_point
        self._kept: Kept | None = found.kept
        self._written_epochs = found.written_epochs
        self._refused: list[Callable[[], None]] = []
        """Changes of the files that follow from a truncation, and that the disk has refused. They are made before the next
        write or checkpoint."""
        self._lower_cleaned()  # a kill may have come before this write of a truncation (LogCleanerManager.cleanableOffsets)

    # Only a log on disk has these methods

    def belongs_to(self, owner: Owner) -> Kept | None:
        """Set the partition that owns the log. Returns the partition's state, which was read from the files."""
        self._owner = owner
        self.last_epoch = -1
        kept, self._kept = self._kept, None
        return kept

    def restart(self, mode: str, now: int) -> Kept | None:
        """Close the files and open them again. In the mode "clean", the state that exists only in memory is written first. If
        this write fails, returns None, and the log stays as it is."""
        try:
            if mode == "clean":
                files.sync_all(self.close())
            for segment in self.segments:
                segment.let_go()
            self._take(self._recover(now))
        except OSError as failure:
            self._store.failed(failure)
            self._lower_cleaned()  # the checkpoint has been read again
            return None
        assert self._owner is not None
        return self.belongs_to(self._owner)

    def keep_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        """Replace the leader epochs and their start offsets. If an epoch in the checkpoint file is not valid any more, the file
        is written immediately. Otherwise the file is written later, because a start finds new epochs in the batches, too.
        """
        self._epochs = list(starts)
        if self._epochs[: len(self._written_epochs)] != self._written_epochs:
            self._try(self.write_epochs)

    def lower_start(self, offset: int) -> None:
        """See `Log.lower_start`. Without this, a start after a crash would refuse a log that ends before its start offset."""
        self._change_files(partial(self.directory.lower_start, self.where, offset))

    def _try(self, write: Callable[[], None]) -> None:
        """Write something beside the batches. If this fails, the log goes on, and the store logs the failure."""
        try:
            write()
        except OSError as failure:
            self._store.failed(failure)

    def write_epochs(self) -> None:
        """Replace the checkpoint file, unless it has exactly the leader epochs that have batches. Raises OSError."""
        begun = [each for each in self._epochs if each[1] < self.end_offset]
        if begun != self._written_epochs:
            files.replace(self.folder / LEADER_EPOCHS, epochs_text(begun).encode(), durable=False)
            self._written_epochs = begun

    def close(self) -> list[Path]:
        """Write all state that exists only in memory, and return the written files. When these files are synced, the next start
        has nothing to recover.

        As in UnifiedLog.flush, the file of an empty segment is not returned, because it has no records to lose. Raises OSError.
        """
        self.catch_up()
        self.write_epochs()
        self._close_active()
        self.release()
        self.recovery_point = self.end_offset
        written = [segment for segment in self.unsynced(self.end_offset) if segment.size]
        paths = [path for segment in written for path in segment.paths()]
        return [*paths, self.folder] if paths else []

    def release(self) -> None:
        """Close all descriptors."""
        for segment in self.segments:
            segment.release()

    @property
    def log_start_offset(self) -> int:
        """The partition's first offset. The files may still contain deleted records before this offset."""
        assert self._owner is not None
        return self._owner.log_start_offset

    def _close_active(self) -> None:
        """Write the indexes of the active segment, and a producer snapshot at the end of the log."""
        self._write_indexes()
        if self.end_offset:
            assert self._owner is not None
            path = self.folder / file_name(self.end_offset, SNAPSHOT)
            files.replace(path, snapshot_bytes(self._owner.producers), durable=False)

    def _write_indexes(self) -> None:
        assert self._owner is not None
        self.active.close(self._owner.transactions.ended_between(self.active.base_offset, self.end_offset))

    def unsynced(self, end: int) -> list[Segment]:
        """Returns the segments that begin before `end` and have changed since they were last synced."""
        return [segment for segment in self.segments if segment.dirty and segment.base_offset < max(end, 1)]

    def synced_up_to(self, offset: int) -> None:
        """Remember that all batches before `offset` are synced, so that a recovery can begin at `offset`."""
        self.recovery_point = max(self.recovery_point, min(offset, self.end_offset))  # the log may have been truncated since

    def sync(self, segments: Iterable[Segment]) -> None:
        """Sync these segments. Any thread may call this method. If the files are moved during the sync, they are synced again.
        Raises OSError.
        """
        written = list(segments)
        while written:
            before = self._moves
            for path in [path for segment in written for path in segment.paths()]:
                files.sync(path)
            files.sync(self.folder)
            if before == self._moves and not before % 2:
                return

    def move(self, directory: LogDirectory, put: Callable[[Path], None]) -> None:
        """Move the log to another log directory: `put` moves the folder. If this raises OSError, nothing has changed."""
        folder = directory.root / self.folder.name
        self.catch_up()
        self.release()
        self._moves += 1
        try:
            put(folder)
            self.directory, self.folder = directory, folder
            for segment in self.segments:
                segment.folder = folder
        finally:
            self._moves += 1

    def delete(self) -> None:
        """Delete the log: rename its folder now, and remove the folder in a background job."""
        self.release()
        self.segments = [self.active]
        self._refused.clear()
        self._store.forget(self)
        self._try(lambda: self.directory.forget(self.where))
        try:
            gone = self.folder.rename(self.folder.with_name(deleted_folder_name(*self.where, self._store.unique())))
        except OSError as failure:
            note(f"{self.folder} belongs to a deleted partition, but cannot be removed: {failure.strerror}")
            return
        self._store.remove_later(gone)

    # Writing

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(self, batch: Buffer, records: int, leader_epoch: int, timestamp: int, owned: bool = False) -> int:
        if leader_epoch != self.last_epoch:
            self._store.insist()  # a starting broker refuses a batch of a later leader epoch than the metadata has
            self.last_epoch = leader_epoch
        if self._refused:
            self.catch_up()
        base_offset = self.end_offset
        self.active.append(batch, base_offset, leader_epoch, timestamp, owned)
        self.end_offset = base_offset + records
        return base_offset

    def roll(self, now: int) -> None:
        """See `Log.roll`. If this raises OSError, nothing has changed."""
        self.catch_up()
        if not self.active.size:
            self.active.created = now
            return
        self._close_active()
        self._begin_segment(now)
        self._store.rolled(self, self.end_offset)

    def _begin_segment(self, now: int) -> None:
        """Begin a new active segment at the end of the log."""
        self.active.dirty = True  # the index files of the closed segment are not synced yet
        following = self._segment(self.end_offset, now)
        following.create()
        closed, self.active = self.active, following
        closed.let_go()
        self.segments.append(following)

    def _segment(self, base_offset: int, now: int) -> Segment:
        return Segment(self.folder, base_offset, now, self._settings.segments, Index())

    # Reading

    def read(self, offset: int, limit: int, max_bytes: int, at_least_one: bool) -> Slice:
        if offset >= min(limit, self.end_offset):
            return EMPTY
        segment, start = self._find(offset)
        stop = segment.size
        if limit < self.end_offset:
            stop = min(stop, segment.find(limit))
        available = stop - start
        if available <= 0:
            return EMPTY
        wanted = min(available, max_bytes)
        if wanted < available and wanted < (first := segment.batch_size(start)):
            if not at_least_one:
                return Slice(EMPTY.records, available)
            wanted = first
        data = memoryview(segment.read(start, wanted))
        segment.check(data, start)
        return Slice(data, available)

    def _find(self, offset: int) -> tuple[Segment, int]:
        """Returns the segment and the position of the first batch that ends at or after `offset`."""
        at = self._segment_of(offset)
        while True:
            segment = self.segments[at]
            if segment is not self.active:
                self._store.recent.use(segment)
            position = segment.find(offset)
            if position < segment.size or segment is self.active:
                return segment, position
            at += 1  # compaction has removed the last offsets of this segment, so look in the next segment

    def offset_after(self, offset: int, size: int) -> int:
        """See `Log.offset_after`. The result is from an index entry, or is the beginning of the next segment or the log end."""
        if offset >= self.end_offset:
            return self.end_offset
        segment, position = self._find(offset)
        behind = segment.offset_behind(position + size)
        if behind is not None:
            return behind
        following = self.segments.index(segment) + 1
        return self.segments[following].base_offset if following < len(self.segments) else self.end_offset

    def batches(self, start_offset: int = 0) -> Iterable[memoryview]:
        for segment in list(self.segments[self._segment_of(start_offset) :]):
            for _, batch in segment.batches(segment.find(start_offset)):
                yield batch

    def batches_since(self, timestamp: int, from_offset: int) -> Iterable[memoryview]:
        for segment in list(self.segments[self._segment_of(from_offset) :]):
            if segment.max_timestamp < timestamp:
                continue
            start = max(segment.find(from_offset), segment.position_before(timestamp))
            for _, batch in segment.batches(start):
                if read_header(batch[:HEADER_SIZE]).max_timestamp >= timestamp:
                    yield batch

    def _segment_of(self, offset: int) -> int:
        segments = self.segments
        if offset >= segments[-1].base_offset:
            return len(segments) - 1
        return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)

    # Compacting

    def to_compact(self, now: int) -> tuple[float, Task[Segment]] | None:
        """Returns the log's dirty ratio and the task that compacts the log, or None if the log is not dirty enough."""
        assert self._owner is not None
        return plan(self.segments, self.end_offset, self.cleaned_to, self._owner, self._configs, now)

    def next_compaction(self, now: int) -> int:
        """Returns the first time at which `to_compact` may return another result although the log has not changed, or NEVER."""
        assert self._owner is not None
        return next_plan(self.segments, self.end_offset, self.cleaned_to, self._owner, self._configs, now)

    def compact(self, task: Task[Segment]) -> Cleaned:
        """Write the compacted segments to new files beside the old segments. Any thread may call this method. Raises OSError,
        DamagedFile.
        """
        return compact(task, self._settings.segments)

    @property
    def cleaned_to(self) -> int:
        """The offset at which the next round of compaction begins. Compaction may have removed earlier offsets."""
        return self.directory.cleaned.get(self.where, 0)

    def take_compacted(self, cleaned: Cleaned) -> None:
        """Replace the old segments with the compacted segments. Drop a compacted segment if one of its old segments was deleted
        in the meantime.
        """
        taken = [made for made in cleaned.made if self.holds(made.replaces)]
        for made in cleaned.made:
            if made not in taken:
                for path in made.segment.paths(CLEANED):
                    path.unlink()
        if not taken:
            return
        # Write the checkpoint first: a start treats missing offsets after the offset in the checkpoint as damage.
        following = self.segments[self.segments.index(taken[-1].replaces[-1]) + 1]
        self.directory.set_cleaned(self.where, min(cleaned.end, following.base_offset))
        assert self._owner is not None
        for made in taken:
            stop = self.segments[self.segments.index(made.replaces[-1]) + 1].base_offset
            self._swap(made.segment, made.replaces)
            self._owner.transactions.keep_aborted(made.segment.base_offset, stop, made.aborted)

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Tells whether all of these segments are still part of the log."""
        return all(segment in self.segments for segment in segments)

    def _swap(self, made: Segment, replaces: Sequence[Segment]) -> None:
        """Replace the files of old segments with the files of the new segment. After a crash at any moment, a start finds
        either the old segments or the new segment. The indexes of the new segment may be missing.
        """
        made.path(LOG, CLEANED).replace(made.path(LOG, SWAP))
        for segment in replaces:
            segment.let_go()
            for path in segment.paths():
                path.unlink()
            if segment is not replaces[0]:
                segment.path(SNAPSHOT).unlink(missing_ok=True)
        made.path(LOG, SWAP).replace(made.path())
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            if (path := made.path(suffix, CLEANED)).exists():
                path.replace(made.path(suffix))
        made.let_go()
        at = self.segments.index(replaces[0])
        self.segments[at : at + len(replaces)] = [made]

    # Losing

    def drop_segments_below(self, offset: int) -> None:
        while len(self.segments) > 1 and self.segments[1].base_offset <= offset:
            try:
                self._discard(self.segments[0])
            except OSError as failure:  # this segment and later segments stay in the log until the next attempt
                self._store.failed(failure)
                return
            del self.segments[0]

    def _discard(self, segment: Segment) -> None:
        """Delete the files of a segment. If this raises OSError, the segment's log file still exists.

        The log file is deleted after its indexes, because a start treats an index without a log file as damage.
        """
        segment.let_go()
        log = segment.path()
        others = [path for path in (*segment.paths(), segment.path(SNAPSHOT)) if path.exists() and path != log]
        self._store.discard(others)
        if log.exists():
            self._store.discard([log])

    def empty(self, offset: int, now: int, *, closes: bool) -> None:
        if closes:
            self.roll(now)
        self.drop_segments_below(offset)

    def truncate_to(self, offset: int) -> None:
        """See `Log.truncate_to`. Later snapshots are removed, too. See `_change_files`."""
        if offset >= self.end_offset:
            return
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            self._change_files(partial(self._discard, self.segments.pop()))
        if self.segments[-1] is not self.active:
            self.active = self.segments[-1] = self.segments[-1].reopened()
        position = self.active.find(offset)
        end = max(offset, self.active.base_offset)
        if position < self.active.size:
            end = max(min(offset, read_header(self.active.read(position, HEADER_SIZE)).base_offset), self.active.base_offset)
            self.active.truncate(position, end)
            self._change_files(self.active.cut_files)
        self.end_offset = end
        self.recovery_point = min(self.recovery_point, end)
        is_compacted = self.active.base_offset < min(self.cleaned_to, end)
        self._lower_cleaned()
        self._change_files(partial(self._discard_snapshots, end))
        if is_compacted:
            self._change_files(self._begin_after_gap)
        self._checkpoint_cut()

    def _discard_snapshots(self, after: int) -> None:
        later = [each for each in offsets_in(self.folder, SNAPSHOT) if each > after]
        self._store.discard([self.folder / file_name(each, SNAPSHOT) for each in later])

    def _begin_after_gap(self) -> None:
        """Begin a new segment, because a start finds a log's end in the last segment, but the last records of the present
        segment may be missing."""
        if self.active.base_offset < self.end_offset:
            self._write_indexes()
            self._begin_segment(self.active.created)

    def start_at(self, offset: int, now: int) -> None:
        for segment in self.segments:
            self._change_files(partial(self._discard, segment))
        self._change_files(partial(self._discard_snapshots, -1))
        self.active = self._segment(offset, now)
        self._change_files(self.active.create)
        self.segments = [self.active]
        self.end_offset = self.recovery_point = offset
        self._lower_cleaned()
        self._checkpoint_cut()

    def _change_files(self, change: Callable[[], None]) -> None:
        """Change files after a truncation. The log itself is already truncated. If the disk refuses the change, the change is
        made before the next write or checkpoint; if the process is killed before that, the next start finds the files as they
        are."""
        self._refused.append(change)
        self._try(self.catch_up)

    def catch_up(self) -> None:
        """Make the changes of files that the disk has refused. Raises OSError."""
        while self._refused:
            self._refused[0]()
            del self._refused[0]

    def _lower_cleaned(self) -> None:
        """If the log counts as compacted beyond its end, let it count as compacted up to its end."""
        if self.cleaned_to > self.end_offset:
            self._change_files(partial(self.directory.set_cleaned, self.where, self.end_offset))

    def _checkpoint_cut(self) -> None:
        self._change_files(partial(self.directory.cut, self.where, self.recovery_point))
