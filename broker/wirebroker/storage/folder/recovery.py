"""What a partition's folder holds when the broker starts (LogLoader, ProducerStateManager).

After a clean shutdown the last snapshot has the producers' state. After a crash the segments from the recovery point on
are walked, their batches checked, their indexes made anew, and a torn tail is cut. Either way the state comes from the
newest snapshot, which keeps the last batch of each producer, and from the batches behind it.

Everything is looked at before anything is changed. Damage that is not a torn tail is an error: Kafka would cut there,
and lose the sound batches behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkawire.batches import BatchHeader, iter_records, read_header, read_marker
from kafkawire.primitives import Buffer
from wirebroker.core.open_transactions import AbortedTransaction, OpenTransactions
from wirebroker.core.producers import Key, advance, end_transaction, last_batch_only, last_timestamp, open_since
from wirebroker.core.profile import Rules
from wirebroker.storage.folder import files
from wirebroker.storage.folder.checkpoints import LEADER_EPOCHS, read_epochs
from wirebroker.storage.folder.faults import DamagedFile, note
from wirebroker.storage.folder.indexes import read_transaction_index
from wirebroker.storage.folder.names import (
    CLEANED,
    DELETED,
    LOG,
    SNAPSHOT,
    SWAP,
    TRANSACTION_INDEX,
    file_name,
    offset_of,
    offsets_in,
)
from wirebroker.storage.folder.segment import Index, Segment, SegmentSettings
from wirebroker.storage.folder.snapshots import read_snapshot, snapshot_bytes
from wirebroker.storage.folder.walking import Damage, Walk, is_cut_short, is_torn, sound_batch_behind
from wirebroker.storage.interface import Kept


class LogSettings(NamedTuple):
    """What a log needs to know of the settings. Times are in ms."""

    segments: SegmentSettings
    rules: Rules
    producer_expiration: int


class Known(NamedTuple):
    """What the directory's checkpoints say of a partition."""

    clean: bool
    recovery_point: int
    log_start_offset: int


class Recovered(NamedTuple):
    """A partition's log as it was found."""

    segments: list[Segment]
    end_offset: int
    recovery_point: int
    kept: Kept


class State:
    """The producers and transactions of a partition, as its batches say."""

    def __init__(self, rules: Rules) -> None:
        self.producers: dict[Key, bytes] = {}
        self.transactions = OpenTransactions()
        self._rules = rules

    def load(self, producers: Mapping[Key, bytes]) -> None:
        """Begin with what a snapshot holds."""
        self.producers = dict(producers)
        open_ones = {int(key): open_since(state) for key, state in producers.items() if open_since(state) >= 0}
        self.transactions.restart(open_ones)

    def follow(self, header: BatchHeader, batch: Buffer) -> None:
        """A batch is in the log (ProducerAppendInfo with the origin of a replica: nothing is refused)."""
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


def recover(folder: Path, settings: LogSettings, known: Known, now: int) -> Recovered:
    """Open the folder. Raises DamagedFile and changes nothing if batches would be lost."""
    _finish_swaps(folder)
    bases = offsets_in(folder, LOG)
    is_new = not bases
    if is_new:
        first = Segment(folder, known.log_start_offset, now, settings.segments, Index())
        first.create()
        bases = [known.log_start_offset]
    log_start = max(known.log_start_offset, bases[0])
    segments, unsure = _open(folder, bases, settings.segments, known, now)
    torn, rebuilt = _walk(segments, unsure, settings, log_start, now)
    end = rebuilt[-1].end if rebuilt and rebuilt[-1].segment is segments[-1] else _end_of(segments[-1])
    if end < log_start:
        raise DamagedFile(folder, f"the log ends at offset {end}, below its start at {log_start}; segments are missing")
    _write(rebuilt, log_start)
    if torn:
        note(torn)
    if is_new:
        segments[0].touched()
    kept = _kept(segments, end, log_start, settings, known.clean, now)
    for segment in segments[:-1]:
        segment.let_go()
    recovery_point = end if known.clean and not unsure else min(known.recovery_point, end)
    return Recovered(segments, end, recovery_point, kept)


def _finish_swaps(folder: Path) -> None:
    """Remove what was being made or deleted, and finish what was taking another's place (LogLoader.load).

    The indexes of a segment that does so are made anew.
    """
    names = [path.name for path in folder.iterdir() if path.is_file()]
    for name in names:
        if name.endswith((DELETED, CLEANED, ".tmp")):
            (folder / name).unlink()
    swaps = [name.removesuffix(SWAP) for name in names if name.endswith(SWAP)]
    for base in [offset_of(name, LOG) for name in swaps if name.endswith(LOG)]:
        assert base is not None
        made = Walk(folder / (file_name(base, LOG) + SWAP), base)
        for _ in made:
            pass
        # What the new segment holds was in the old ones: they are replaced, also if only some have been removed.
        for name in names:
            offset = offset_of(name, name[name.rfind(".") :])
            if offset is not None and base <= offset < made.next_offset and not name.endswith(SNAPSHOT):
                (folder / name).unlink(missing_ok=True)
        (folder / (file_name(base, LOG) + SWAP)).replace(folder / file_name(base, LOG))


def _open(
    folder: Path, bases: Sequence[int], limits: SegmentSettings, known: Known, now: int
) -> tuple[list[Segment], list[int]]:
    """The segments, and which of them have to be walked: those from the recovery point on, or without a good index."""
    segments: list[Segment] = []
    unsure: list[int] = []
    for i, base in enumerate(bases):
        segment = Segment(folder, base, now, limits, None)
        last = i + 1 == len(bases)
        if not known.clean and (last or bases[i + 1] > known.recovery_point):
            unsure.append(i)
        else:
            try:
                segment.load()
            except (DamagedFile, FileNotFoundError):
                unsure.append(i)
        segments.append(segment)
    return segments, unsure


class Rebuilt(NamedTuple):
    """A segment that was walked: it as it is now known, the state behind it, and where it ends."""

    segment: Segment
    state: State
    end: int


def _walk(
    segments: list[Segment], unsure: Sequence[int], settings: LogSettings, log_start: int, now: int
) -> tuple[str, list[Rebuilt]]:
    """Check the batches of these segments and count them anew, without changing a file; what is to be said of the tail."""
    torn = ""
    rebuilt: list[Rebuilt] = []
    for i in unsure:
        path, base = segments[i].path(), segments[i].base_offset
        state = State(settings.rules)
        if rebuilt and rebuilt[-1].segment is segments[i - 1]:
            state.load(_as_in_snapshot(rebuilt[-1].state))
        else:
            state = _state_at(base, segments[:i], log_start, settings, now)
        segment = Segment(path.parent, base, now, settings.segments, Index())
        walk = Walk(path, base)
        for _, header, batch in walk:
            segment.note(header.last_offset, header.size, header.max_timestamp)
            state.follow(header, batch)
        if walk.damage is not None:
            torn = cut_of(walk, walk.damage, followed=i + 1 < len(segments))
        segments[i] = segment
        rebuilt.append(Rebuilt(segment, state, walk.next_offset))
    return torn, rebuilt


def cut_of(walk: Walk, damage: Damage, *, followed: bool) -> str:
    """A sentence about the torn tail that will be cut off. Raises DamagedFile if it is none."""
    path, (position, why) = walk.path, damage
    size = path.stat().st_size
    behind = None if followed else sound_batch_behind(path, damage, walk.next_offset)
    if followed or behind is not None or not is_torn(path, damage, walk.next_offset):
        then = "segments follow" if followed else f"a sound batch follows at position {behind}"
        then = then if followed or behind is not None else f"{size - position} bytes are there"
        raise DamagedFile(
            path,
            f"{why}, and {then}. A crash does not leave this. Nothing of this log was changed; to go on without what is "
            "behind this position, cut the file there and remove the segments that follow",
            position,
        )
    unfinished = is_cut_short(path, damage)
    what = "a write left unfinished" if unfinished else "are not what was written there"
    told = "" if unfinished else ". A power cut leaves this; what is lost may have been acknowledged"
    return (
        f"{path}: cut off {size - position} bytes at position {position} that {what} ({why}); "
        f"the log goes on at offset {walk.next_offset}{told}"
    )


def _write(rebuilt: Sequence[Rebuilt], log_start: int) -> None:
    """Let the files of these segments be what was found: without a torn tail, and with new indexes and snapshots.

    What was found may be in the page cache alone.
    """
    for segment, state, end in rebuilt:
        if segment.size != segment.path().stat().st_size:
            segment.truncate(segment.size, end)
        segment.close(state.transactions.ended_between(segment.base_offset, end))
        segment.touched()
        if end > log_start:
            files.replace(segment.folder / file_name(end, SNAPSHOT), snapshot_bytes(state.producers), durable=False)


def _as_in_snapshot(state: State) -> dict[Key, bytes]:
    return {key: last_batch_only(packed) for key, packed in state.producers.items()}


def _state_at(offset: int, segments: Sequence[Segment], log_start: int, settings: LogSettings, now: int) -> State:
    """The state below `offset`: of the newest snapshot that can be read, and of the batches behind it."""
    state = State(settings.rules)
    since = log_start
    folder = segments[0].folder if segments else None
    for snapshot in reversed(offsets_in(folder, SNAPSHOT)) if folder else ():
        if not log_start < snapshot <= offset:
            continue
        try:
            loaded = read_snapshot(folder / file_name(snapshot, SNAPSHOT)) if folder else {}
        except DamagedFile:
            continue
        expired = [
            key
            for key, packed in loaded.items()
            if now - last_timestamp(packed) >= settings.producer_expiration and open_since(packed) < 0
        ]
        for key in expired:
            del loaded[key]
        state.load(loaded)
        since = snapshot
        break
    for i, segment in enumerate(segments):
        ends = segments[i + 1].base_offset if i + 1 < len(segments) else offset
        if since < min(ends, offset):
            for _, batch in segment.batches(segment.find(since)):
                header = read_header(batch)
                if header.base_offset >= offset:
                    break
                if header.base_offset >= since:
                    state.follow(header, batch)
    return state


def _end_of(segment: Segment) -> int:
    """The offset behind the last batch."""
    end = segment.base_offset
    for _, header in segment.headers(segment.index.positions[-1] if segment.index.positions else 0):
        end = header.last_offset + 1
    return end


def _kept(
    segments: Sequence[Segment], end: int, log_start: int, settings: LogSettings, clean: bool, now: int
) -> Kept:
    folder = segments[0].folder
    snapshots = offsets_in(folder, SNAPSHOT)
    # As in Kafka: without any snapshot a cleanly closed log is one of a time when nobody had producer ids.
    state = State(settings.rules) if clean and not snapshots else _state_at(end, segments, log_start, settings, now)
    aborted: list[AbortedTransaction] = []
    for segment in segments:
        aborted += read_transaction_index(segment.path(TRANSACTION_INDEX))
    for snapshot in snapshots:
        if snapshot > end or snapshot <= log_start:
            (folder / file_name(snapshot, SNAPSHOT)).unlink()
    starts = [(epoch, start) for epoch, start in read_epochs(folder / LEADER_EPOCHS) if start < end]
    return Kept(log_start, state.producers, [each for each in aborted if each.last_offset >= log_start], starts)
