"""Reading on from where an earlier audit ended (`--since`): what its report covers, and what is left to read. No Spark here.

A report keeps how far it read each partition (`covered.json`) beside its batches and runs. The next audit reads what came after
that, and checks the earlier batches together with the new ones, so its findings are those of an audit of the whole. If a log
restarted, because its topic was deleted and created again or because it was truncated, its earlier rows no longer count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kafkawire.batches import HEADER_SIZE
from kafkawire.disk.damage import reason
from kafkawire.disk.names import LOG, offset_of
from kafkawire.disk.opening import open_to_read
from wirebroker_audit.logs.remote import place
from wirebroker_audit.logs.replicas import PartitionFolder
from wirebroker_audit.reading.live_segments import Ahead, Mark, holds, place_of, why_restarted
from wirebroker_audit.reading.scan import stored_crc
from wirebroker_audit.reading.segments import Split
from wirebroker_audit.wire import LivePartition

COVERED, RUNS, BATCHES, SUMMARY = "covered.json", "runs", "batches", "summary.json"
FORMAT = 1
Key = tuple[str, int]


class BadReport(Exception):
    """A report cannot be continued; the text says why, and what to do."""


class Covered(NamedTuple):
    """How far an audit read a partition: its last sound batch."""

    label: str
    """the segment, as the rows name it; "" if there was no batch"""
    position: int
    """where the batch begins; in a cluster its base offset"""
    offset: int
    """the offset after it"""
    base: int
    """the segment's base offset, −1 in a cluster"""
    topic_id: str
    size: int = 0
    """bytes of the batch"""
    crc: int = -1
    """its checksum, −1 if it is not known"""

    @property
    def mark(self) -> Mark:
        """The place after the batch in a folder."""
        last = self.position if self.label else -1
        return Mark(self.base, self.position + self.size, self.offset, last, self.base, topic_id=self.topic_id)


@dataclass(frozen=True, slots=True)
class State:
    """What a report covers."""

    is_cluster: bool
    expiration_ms: int
    splits: int
    """the numbers of its splits are below this one"""
    partitions: dict[Key, Covered]
    audited_at: str = ""

    def save(self, report: Path) -> None:
        """Write it into a report's folder."""
        told = {
            "format": FORMAT, "is_cluster": self.is_cluster, "expiration_ms": self.expiration_ms, "splits": self.splits,
            "partitions": [[*key, *each[:5]] for key, each in self.partitions.items()],
        }  # fmt: skip
        (report / COVERED).write_text(json.dumps(told), encoding="utf-8")


def read_state(report: Path, *, is_cluster: bool, expiration_ms: int) -> State:
    """What a report covers, if an audit of these settings can go on from it. Raises BadReport."""
    where = f"--since {report}"
    try:
        told = json.loads((report / COVERED).read_text(encoding="utf-8"))
        summary = json.loads((report / SUMMARY).read_text(encoding="utf-8"))
    except OSError as refused:
        lacks = f"{Path(refused.filename or COVERED).name}: {refused.strerror}"
        raise BadReport(f"{where}: this is not a report that an audit can go on from; {lacks}") from None
    except ValueError:
        raise BadReport(f"{where}: {COVERED} or {SUMMARY} is damaged; audit the whole log once") from None
    if missing := [name for name in (RUNS, BATCHES) if not (report / name).is_dir()]:
        raise BadReport(f"{where}: the report lacks its folder {missing[0]}; audit the whole log once")
    if told.get("format") != FORMAT:
        raise BadReport(f"{where}: another version of the audit wrote this report; audit the whole log once")
    if not summary["complete"]:
        raise BadReport(f"{where}: that audit could not read everything ({summary['problems'][0]}); audit the whole log again")
    if told["is_cluster"] != is_cluster:
        raise BadReport(
            f"{where}: that audit read {summary['origin']}; --path goes on from --path, --bootstrap from --bootstrap"
        )
    if told["expiration_ms"] != expiration_ms:
        raise BadReport(f"{where}: that audit had --producer-expiration {told['expiration_ms']}, this one {expiration_ms}")
    found = {(topic, number): Covered(*rest) for topic, number, *rest in told["partitions"]}
    return State(is_cluster, expiration_ms, told["splits"], found, summary["audited_at"])


@dataclass(slots=True)
class Onward:
    """What an audit reads that goes on from another one."""

    splits: list[Split]
    goes_on: dict[Key, Covered]
    """the partitions whose earlier rows count, with the place from which on they are read"""
    notices: list[str]
    physical: dict[str, int]
    """the base offset of the segment for each name in rows that is not the file's own"""


def onward(state: State, folders: Sequence[PartitionFolder], splits: Iterable[Split]) -> Onward:
    """What is left to read in a directory; `splits` are those of the whole. Raises OSError."""
    by_partition: dict[Key, list[Split]] = {}
    for each in splits:
        by_partition.setdefault((each.topic, each.partition), []).append(each)
    found = Onward([], {}, [], {})
    for folder in folders:
        key = (folder.topic, folder.partition)
        mine = by_partition.get(key, [])
        if (covered := state.partitions.get(key)) is not None:
            mine = _left(folder, covered, mine, found)
        found.splits += mine
    found.splits = [replace(each, number=state.splits + number) for number, each in enumerate(found.splits)]
    found.notices += vanished(state, [(each.topic, each.partition) for each in folders])
    return found


def vanished(state: State, here: Iterable[Key]) -> list[str]:
    """A sentence about partitions that are no longer there."""
    gone = [f"{topic}-{number}" for topic, number in sorted(state.partitions.keys() - set(here))]
    names = f"{', '.join(gone[:20])}{' …' if gone[20:] else ''}"
    return [f"{names}: this audit does not read it, so its earlier batches were left out"] if gone else []


def restarted(key: Key, why: str) -> str:
    """A notice about a log whose earlier rows do not count."""
    return f"{key[0]}-{key[1]}: {why}"


def _left(folder: PartitionFolder, covered: Covered, splits: list[Split], found: Onward) -> list[Split]:
    """The splits of a partition from the seam on."""
    key, mark = (folder.topic, folder.partition), covered.mark
    try:
        begin = Ahead(folder, mark).mark
        why = why_restarted(mark, begin) if begin.life != mark.life else _another(folder, splits, covered)
        if not why:
            found.notices += gone(key, mark.offset, begin.offset)
            found.goes_on[key] = covered
            return [part for each in splits for part in _after(each, begin, covered, found)]
    except OSError as changed:
        why = f"its segments could not be compared with the earlier report ({reason(changed)}); it is read from its beginning"
    found.goes_on.pop(key, None)
    found.notices.append(restarted(key, why))
    return splits


def gone(key: Key, read_to: int, begins_at: int) -> list[str]:
    """A notice about offsets that no audit has read."""
    if begins_at <= read_to:
        return []
    return [f"{key[0]}-{key[1]}: offsets {read_to} to {begins_at - 1} were deleted before they were read"]


def another(offset: int) -> str:
    """Why a log restarted whose last batch that was read is another one now."""
    return (
        f"the batch before offset {offset} is another one than before, so the log was truncated; it is read from its beginning"
    )


def _another(folder: PartitionFolder, splits: list[Split], covered: Covered) -> str:
    """Why the last batch that was read is not what it was, "" if it is; the cleaner may change it."""
    mark = covered.mark
    path = next((each.path for each in splits if _base(each) == mark.segment), None)
    if covered.crc < 0 or path is None or mark.last < 0 or folder.cleaned_until >= 0:
        return ""
    with open_to_read(place(path)) as file:
        if not holds(file, mark):
            return ""
        file.seek(mark.last)
        return "" if stored_crc(file.read(HEADER_SIZE), 0) == covered.crc else another(mark.offset)


def _after(split: Split, begin: Mark, covered: Covered, found: Onward) -> list[Split]:
    """The part of a split after the seam; rows from a rewritten segment get a name that sorts after the earlier rows."""
    base = _base(split)
    if base is None or base != begin.segment:
        return [split] if base is None or base > begin.segment else []
    position, segment = begin.position, split.segment
    if begin.last < 0 and begin.offset > base:  # the cleaner has rewritten the segment
        with open_to_read(place(split.path)) as file:
            position = place_of(file, begin.offset).position
    if (base, position) == (covered.mark.segment, covered.mark.position):
        segment = covered.label
    elif position:
        segment = f"{Path(split.path).parent.name}/{begin.offset:020d}{LOG}"
    if segment != split.segment:
        found.physical[segment] = base
    if split.stop <= position:
        return []
    return [
        replace(
            split,
            start=max(split.start, position),
            segment=segment,
            first_offset=split.first_offset if split.start >= position else -1,
        )
    ]


def _base(split: Split) -> int | None:
    return offset_of(Path(split.path).name, LOG)


def onward_live(state: State, live: Sequence[LivePartition], crc_before: Callable[[LivePartition, int], int]) -> OnwardLive:
    """What is left to read of a cluster; `crc_before` has the checksum of the batch before an offset, −1 if it cannot tell."""
    found = OnwardLive([], {}, vanished(state, [(each.topic, each.partition) for each in live]))
    for each in live:
        key = (each.topic, each.partition)
        if (covered := state.partitions.get(key)) is None:
            found.live.append(each)
        elif why := _why_new(each, covered, crc_before):
            found.notices.append(restarted(key, why))
            found.live.append(each)
        else:
            found.notices += gone(key, covered.offset, each.start)
            found.goes_on[key] = covered
            if covered.offset < each.end:
                found.live.append(replace(each, start=max(covered.offset, each.start)))
    return found


@dataclass(slots=True)
class OnwardLive:
    """What an audit of a cluster reads that goes on from another one."""

    live: list[LivePartition]
    goes_on: dict[Key, Covered]
    notices: list[str]


def _why_new(each: LivePartition, covered: Covered, crc_before: Callable[[LivePartition, int], int]) -> str:
    here = Mark(-1, 0, 0, topic_id=each.topic_id)
    if (covered.topic_id and each.topic_id not in ("", covered.topic_id)) or each.end < covered.offset:
        return why_restarted(covered.mark, here)
    may_have_changed = each.compacted is not False or each.start >= covered.offset
    if covered.crc >= 0 and not may_have_changed and crc_before(each, covered.offset) not in (-1, covered.crc):
        return another(covered.offset)
    return ""
