"""Opens a partition's folder when the broker starts, and recovers the log (LogLoader, ProducerStateManager).

After a clean shutdown the last producer snapshot has the producers' state, and the checkpoint has the end of the log. After a
crash, the start reads the segments from the recovery point on, checks their batches, rebuilds their indexes and removes a torn
tail. The newest snapshot has the last batch of each producer. The start takes the producers' state from this snapshot and from
the later batches. The start also reads as many cleanly closed segments as an `Inspection` allows. For the other segments, it
compares only the ends of the files.

The start reads all files before it changes any file. Damage before the tail is an error. (Kafka would cut the log at the
damage, and lose the undamaged batches after it.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kafkawire.batches import BatchHeader, iter_records, read_header, read_marker
from kafkawire.disk.checkpoints import CLEAN_SHUTDOWN, LOG_STARTS, RECOVERY_POINTS
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.epochs import LeaderEpochs
from kafkawire.disk.indexes import AbortedTransaction, read_transaction_index
from kafkawire.disk.names import (
    CLEANED,
    DELETED,
    LOG,
    SNAPSHOT,
    SWAP,
    TRANSACTION_INDEX,
    Listing,
    file_name,
    listing,
    offset_of,
    offsets_in,
)
from kafkawire.disk.walking import ANYWHERE, Damage, Walk, is_cut_short, is_torn, sound_batch_after
from kafkawire.primitives import Buffer
from wirebroker.core.logs.interface import Kept
from wirebroker.core.open_transactions import OpenTransactions
from wirebroker.core.producers import (
    Key,
    advance,
    end_transaction,
    last_batch_only,
    last_offset,
    last_timestamp,
    open_since,
    open_transactions,
)
from wirebroker.core.profile import Rules
from wirebroker.storage import files
from wirebroker.storage.inspection import Inspection, check_names, unfit_indexes
from wirebroker.storage.notes import note
from wirebroker.storage.segment import Expected, Index, Segment, SegmentSettings
from wirebroker.storage.snapshots import read_snapshot, snapshot_bytes

UNFINISHED = (DELETED, CLEANED, ".tmp")
"""A start removes the files whose names have these endings."""


class LogSettings(NamedTuple):
    """The settings of a log. Times are in ms."""

    segments: SegmentSettings
    rules: Rules
    producer_expiration: int


class Known(NamedTuple):
    """The facts about a partition in the checkpoints and in the metadata."""

    clean: bool
    recovery_point: int | None
    """The offset in the checkpoint of recovery points; None if that checkpoint does not name the partition."""
    log_start_offset: int
    starts_there: bool = False
    """Tells whether a clean stop has recorded `log_start_offset`. If so, a log that begins after this offset has lost
    segments."""
    gaps_below: int = ANYWHERE
    """Compaction may have removed offsets before this offset."""
    latest_epoch: int | None = None
    """The partition's leader epoch in the metadata."""


class Recovered(NamedTuple):
    """The log of a partition after recovery."""

    segments: list[Segment]
    end_offset: int
    recovery_point: int
    kept: Kept
    written_epochs: list[tuple[int, int]]
    """The leader epochs in the checkpoint file."""


class RecoveredState:
    """Collects the producers and transactions of a partition from its batches."""

    def __init__(self, rules: Rules) -> None:
        self.producers: dict[Key, bytes] = {}
        self.transactions = OpenTransactions()
        self._rules = rules

    def load(self, producers: Mapping[Key, bytes]) -> None:
        """Replace the state with the producers in a snapshot."""
        self.producers = dict(producers)
        self.transactions.restart(open_transactions(producers))

    def follow(self, header: BatchHeader, batch: Buffer) -> None:
        """Apply a batch of the log to the state. Like ProducerAppendInfo for a replica, this method never refuses a batch."""
        key = header.producer_id
        if key < 0:
            return
        state = self.producers.get(key)
        if not header.is_control:
            self.producers[key] = advance(state, header, header.base_offset, header.max_timestamp, self._rules)
            if header.is_transactional and open_since(state) < 0:
                self.transactions.begin(key, header.base_offset)
            return
        record = next(iter_records(batch), None)
        marker = read_marker(record) if record is not None else None
        if marker is not None:
            epochs = header.producer_epoch, marker.coordinator_epoch
            self.producers[key] = end_transaction(state, *epochs, header.max_timestamp)
            self.transactions.end(key, header.base_offset, aborted=not marker.commit)


def recover(folder: Path, settings: LogSettings, known: Known, inspection: Inspection, now: int) -> Recovered:
    """Recover the log in a folder. If batches would be lost, raises DamagedFile and changes nothing."""
    present = listing(folder)
    if any(name.endswith((*UNFINISHED, SWAP)) for name in present.names):
        _finish_swaps(folder, present.names)
        present = listing(folder)
    check_names(folder, present, (known.clean and known.recovery_point) or 0)
    is_new = not present.offsets[LOG]
    if is_new:
        first = Segment(folder, known.log_start_offset, now, settings.segments, Index())
        first.create()
        present.offsets[LOG].append(known.log_start_offset)
    recovery = Recovery(folder, present, settings, known, inspection, now)
    recovery.look()
    found = recovery.take()
    if is_new:
        found.segments[0].touched()
    return found


def _finish_swaps(folder: Path, found: Iterable[str]) -> None:
    """Remove incomplete files and files that were being deleted, and finish swaps of segments (LogLoader.load).

    The start rebuilds the indexes of the new segments later.
    """
    names = [name for name in found if (folder / name).is_file()]
    for name in names:
        if name.endswith(UNFINISHED):
            (folder / name).unlink(missing_ok=True)  # a job of this process may remove the file first
    swaps = [name.removesuffix(SWAP) for name in names if name.endswith(SWAP)]
    for base in [offset_of(name, LOG) for name in swaps if name.endswith(LOG)]:
        assert base is not None
        made = Walk(folder / (file_name(base, LOG) + SWAP), base)
        for _ in made:
            pass
        # The new segment has all records of the old segments, so it replaces the old segments even if some of them are already
        # removed.
        for name in names:
            offset = offset_of(name, name[name.rfind(".") :])
            if offset is not None and base <= offset < max(made.next_offset, base + 1) and not name.endswith(SNAPSHOT):
                (folder / name).unlink(missing_ok=True)
        (folder / (file_name(base, LOG) + SWAP)).replace(folder / file_name(base, LOG))


class Walked(NamedTuple):
    """A segment whose batches were checked, the partition's state after the last batch, and the segment's end offset."""

    segment: Segment
    state: RecoveredState
    end: int


class Closed(NamedTuple):
    """A closed segment that recovery has read, and the aborted transactions in its batches.

    With `complete`, no batch of the log up to this segment is missing, so `aborted` has all of the segment's aborted
    transactions.
    """

    segment: Segment
    aborted: Sequence[AbortedTransaction]
    complete: bool


class Recovery:
    """The recovery of one folder: `look` reads everything, then `take` changes the files."""

    def __init__(
        self, folder: Path, present: Listing, settings: LogSettings, known: Known, inspection: Inspection, now: int
    ) -> None:
        self.folder = folder
        self.segments: list[Segment] = []
        self.end = 0
        self._bases = present.offsets[LOG]
        self._present = present
        self._snapshots = set(present.offsets[SNAPSHOT])
        """The offsets of the existing snapshots."""
        self._settings = settings
        self._known = known
        self._inspection = inspection
        self._now = now
        self._log_start = max(known.log_start_offset, self._bases[0])
        self._epochs = LeaderEpochs(folder, self._bases[0], known.latest_epoch, clean=known.clean)
        self._expected = Expected(known.gaps_below, self._epochs, set())
        self._last: Walked | None = None
        """The previous segment, if the start has read its batches."""
        self._crashed: list[Walked] = []
        """The segments that may have changed since the last sync. Their indexes are rebuilt."""
        self._closed: list[Closed] = []
        """The closed segments that the recovery has read completely."""
        self._unfit: list[tuple[Closed, list[Path]]] = []
        """The closed segments whose indexes contradict the batches."""
        self._starts: list[tuple[int, int]] = []
        self._is_known_at_end = False
        """Tells whether the snapshot at the end of the log is usable."""
        self._torn = ""
        self._is_complete = self._bases[0] == 0 and known.gaps_below == 0
        """Tells whether the checked part of the log still has every batch that was ever written."""

    # Looking

    def look(self) -> None:
        """Check every segment without changing a file. Raises DamagedFile."""
        for i, base in enumerate(self._bases):
            if i and self.end != base and (self.end > base or self.end >= self._known.gaps_below):
                raise DamagedFile(
                    self.folder / file_name(base, LOG),
                    f"it begins at offset {base}, but the preceding segment's next offset is {self.end}. Restore the "
                    "missing segments from a copy; to continue without them, remove all segments before this segment",
                )
            self._look_at(i, base)
        self._check_ends()
        for closed in self._closed:
            if unfit := unfit_indexes(*closed):
                self._unfit.append((closed, unfit))
        self._check_snapshot()
        self._starts = self._epochs.up_to(self.end)

    def _look_at(self, i: int, base: int) -> None:
        known, following = self._known, self._bases[i + 1] if i + 1 < len(self._bases) else None
        if known.clean:
            closed = known.recovery_point is not None
        else:
            closed = following is not None and following <= (known.recovery_point or 0)
        segment = Segment(self.folder, base, self._now, self._settings.segments, None)
        self.segments.append(segment)
        if closed and not self._epochs.are_lost and not self._inspection.takes(segment.path()):
            with suppress(DamagedFile, FileNotFoundError):
                self.end = segment.believe(self._expected)
                self._check_aborted(segment)
                self._last, self._is_complete = None, False
                return
        self._walk(base, closed, followed=following is not None)

    def _walk(self, base: int, closed: bool, *, followed: bool) -> None:
        """Check a segment's batches, and apply them to the state. If the segment is `closed`, compare its indexes with its
        batches.
        """
        state = self._state_before(base)
        segment = Segment(self.folder, base, self._now, self._settings.segments, Index())
        self.segments[-1] = segment
        walk = Walk(segment.path(), base, gaps_below=self._known.gaps_below)
        for position, header, batch in walk:
            self._epochs.follow(walk.path, position, header)
            segment.note(header.last_offset, header.size, header.max_timestamp)
            state.follow(header, batch)
        if walk.damage is not None:
            self._torn = cut_of(walk, walk.damage, followed=followed, clean=self._known.clean)
        self.end = walk.next_offset
        self._last = Walked(segment, state, self.end)
        if not closed:
            self._crashed.append(self._last)
        else:
            self._closed.append(Closed(segment, self._ended(self._last), self._is_complete))

    def _check_aborted(self, segment: Segment) -> None:
        if segment.base_offset in self._present.offsets[TRANSACTION_INDEX]:
            path = segment.path(TRANSACTION_INDEX)
            for each in read_transaction_index(path):
                if not segment.base_offset <= each.last_offset < self.end:
                    raise DamagedFile(path, f"{each} belongs to another segment")
                self._expected.aborted.add((each.producer_id, each.last_offset))

    def _state_before(self, base: int) -> RecoveredState:
        if self._last is None:
            return self._state_at(base, self.segments[:-1])
        state = RecoveredState(self._settings.rules)
        state.load({key: last_batch_only(packed) for key, packed in self._last.state.producers.items()})
        return state

    @staticmethod
    def _ended(walked: Walked) -> list[AbortedTransaction]:
        return walked.state.transactions.ended_between(walked.segment.base_offset, walked.end)

    def _check_ends(self) -> None:
        known, end = self._known, self.end
        if end < self._log_start:
            raise DamagedFile(
                self.folder, f"the log ends at offset {end}, before its start offset {self._log_start}; segments are missing"
            )
        if known.starts_there and self._bases[0] > known.log_start_offset:
            raise DamagedFile(
                self.folder,
                f"the log begins at offset {self._bases[0]}, but it began at offset {known.log_start_offset} when the broker "
                f"stopped. Restore the missing segments from a copy; to go on without them, remove "
                f"{self.folder.parent / LOG_STARTS} and {self.folder.parent / RECOVERY_POINTS}",
            )
        reached = known.recovery_point
        if reached is None or end == reached or (end > reached and not known.clean):
            return
        checkpoint = self.folder.parent / RECOVERY_POINTS
        if known.clean:
            raise DamagedFile(
                self.segments[-1].path(),
                f"the log ends at offset {end}, but it ended at offset {reached} when the broker stopped cleanly. Restore the "
                f"file from a copy; to go on without the missing records, remove {checkpoint}",
            )
        note(
            f"{self.folder}: the log ends at offset {end}, but {checkpoint} says that the log was synced up to offset "
            f"{reached}. Records are lost, unless the topic was recreated or truncated shortly before the broker was killed"
        )

    # Taking

    def take(self) -> Recovered:
        """Remove a torn tail, and rebuild wrong indexes. Returns the recovered log."""
        if not self._is_known_at_end:
            self._remove_snapshots({self.end})
        self._write_crashed()
        for closed, unfit in self._unfit:
            for path in unfit:
                path.unlink(missing_ok=True)
            closed.segment.close(closed.aborted)
            closed.segment.touched()
        if self._torn:
            note(self._torn)
        for segment in self.segments[:-1]:
            segment.let_go()
        known = self._known
        was_closed = known.clean and not self._crashed
        recovery_point = self.end if was_closed else min(known.recovery_point or 0, self.end)
        kept = Kept(self._log_start, self._producers(), self._aborted(), self._starts)
        return Recovered(self.segments, self.end, recovery_point, kept, self._epochs.written)

    def _write_crashed(self) -> None:
        """Cut off the torn tails of the segments that a crash may have damaged, and write their indexes. Mark these segments as
        not synced, because their batches may be only in the page cache.
        """
        for segment, state, end in self._crashed:
            if segment.size != segment.path().stat().st_size:
                segment.truncate(segment.size, end)
                segment.cut_files()
            segment.close(state.transactions.ended_between(segment.base_offset, end))
            segment.touched()
            if end > self._log_start and not (end == self.end and self._is_known_at_end):
                files.replace(segment.folder / file_name(end, SNAPSHOT), snapshot_bytes(state.producers), durable=False)
                self._snapshots.add(end)

    def _aborted(self) -> list[AbortedTransaction]:
        aborted: list[AbortedTransaction] = []
        had_transactions = self._present.offsets[TRANSACTION_INDEX] or self._crashed or self._unfit
        for base in offsets_in(self.folder, TRANSACTION_INDEX) if had_transactions else ():
            aborted += read_transaction_index(self.folder / file_name(base, TRANSACTION_INDEX))
        return [each for each in aborted if each.last_offset >= self._log_start]

    # Producers

    def _check_snapshot(self) -> None:
        """Check the producer snapshot at the end of the log. Every clean stop writes this snapshot. Raises DamagedFile if the
        producers' state is lost and the batches cannot restore it.
        """
        path = self.folder / file_name(self.end, SNAPSHOT)
        if self.end <= self._log_start:
            return
        why = self._damage_of_snapshot(path)
        self._is_known_at_end = not why
        if not self._known.clean or not why:
            return
        older = [each for each in self._present.offsets[SNAPSHOT] if self._log_start < each < self.end]
        if self._bases[0] and not any(_is_snapshot(self.folder / file_name(each, SNAPSHOT)) for each in older):
            raise DamagedFile(
                path,
                f"{why}, and some of the producers' batches have been deleted. Restore the file from a copy; to keep only the "
                f"producers that still have batches in the log, remove {self.folder.parent / CLEAN_SHUTDOWN}",
            )
        note(f"{path}: {why}; the start restores the producers' state from the batches")

    def _damage_of_snapshot(self, path: Path) -> str:
        """Returns the reason why the last snapshot cannot be used, or "". Raises DamagedFile if the snapshot may belong to
        another log.
        """
        try:
            producers = read_snapshot(path)
        except FileNotFoundError:
            return "it is missing"
        except DamagedFile as damaged:
            return damaged.why
        for key, packed in producers.items():
            if (written := last_offset(packed)) >= 0 and (why := self._damage_of_producer(key, written)):
                if self._known.clean:
                    raise DamagedFile(path, f"{why}. If the log is right, remove this file")
                return why
        return ""

    def _damage_of_producer(self, key: Key, written: int) -> str:
        """Returns a sentence if, according to the log, the producer's last batch does not end at offset `written`, else ""."""
        segment = next((each for each in reversed(self.segments) if each.base_offset <= written), None)
        if segment is None or segment.unchecked:
            return ""
        header = segment.header_of(written)
        if header is None or header.producer_id != key:
            return f"its last offset for producer {key} is {written}, but no batch of the log ends at this offset"
        known = self._last.state.producers.get(key, b"") if self._last else b""
        if known and last_offset(known) > written:
            return f"its last offset for producer {key} is {written}, but the log has the later offset {last_offset(known)}"
        return ""

    def _producers(self) -> dict[Key, bytes]:
        """Returns the producers' states at the end of the log. Removes snapshots with offsets outside the log."""
        state = self._state_at(self.end, self.segments)
        self._remove_snapshots({each for each in self._snapshots if each > self.end or each <= self._log_start})
        return state.producers

    def _remove_snapshots(self, offsets: Set[int]) -> None:
        for offset in sorted(offsets & self._snapshots):
            (self.folder / file_name(offset, SNAPSHOT)).unlink()
        self._snapshots -= offsets

    def _state_at(self, offset: int, segments: Sequence[Segment]) -> RecoveredState:
        """Returns the state before `offset`, from the newest readable snapshot and the batches after it."""
        state = RecoveredState(self._settings.rules)
        since = self._log_start
        for snapshot in sorted(self._snapshots, reverse=True):
            if not since < snapshot <= offset:
                continue
            with suppress(DamagedFile):
                state.load(self._unexpired(read_snapshot(self.folder / file_name(snapshot, SNAPSHOT))))
                since = snapshot
                break
        for i, segment in enumerate(segments):
            ends = segments[i + 1].base_offset if i + 1 < len(segments) else offset
            if since < min(ends, offset):
                for _, batch in segment.batches(segment.find(since)):
                    header = read_header(batch)
                    if since <= header.base_offset < offset:
                        state.follow(header, batch)
        return state

    def _unexpired(self, producers: Mapping[Key, bytes]) -> dict[Key, bytes]:
        oldest = self._now - self._settings.producer_expiration
        return {key: packed for key, packed in producers.items() if last_timestamp(packed) > oldest or open_since(packed) >= 0}


def _is_snapshot(path: Path) -> bool:
    try:
        read_snapshot(path)
    except DamagedFile:
        return False
    return True


def cut_of(walk: Walk, damage: Damage, *, followed: bool, clean: bool) -> str:
    """Returns the log message about a torn tail. The caller then cuts off the tail. Raises DamagedFile if a crash cannot
    explain the damage.

    After a `clean` stop any damage raises DamagedFile.
    """
    path, (position, why) = walk.path, damage
    size = path.stat().st_size
    behind = None if followed else sound_batch_after(path, damage, walk.next_offset)
    if followed or clean or behind is not None or not is_torn(path, damage, walk.next_offset):
        then = "segments follow" if followed else f"the file has {size - position} bytes from this position on"
        then = then if behind is None else f"a sound batch follows at position {behind}"
        leaves = "A clean stop" if clean else "A crash"
        raise DamagedFile(
            path,
            f"{why}, and {then}. {leaves} does not leave such bytes. Nothing of this log was changed; to go on without the "
            "bytes after this position, cut the file there and remove the later segments"
            + (f" and {path.parent.parent / RECOVERY_POINTS}" if clean else ""),
            position,
        )
    unfinished = is_cut_short(path, damage)
    what = "a write left unfinished" if unfinished else "differ from what was written there"
    told = "" if unfinished else ". A power cut can leave such bytes; the records that were cut off may have been acknowledged"
    return (
        f"{path}: cut off {size - position} bytes at position {position} that {what} ({why}); "
        f"the log goes on at offset {walk.next_offset}{told}"
    )
