"""Reports the unclean elections in the cluster's metadata, and the offsets whose records an election may have lost. No Spark
here.

The new leader's epoch begins at the end of the new leader's log; this offset is in the leader-epoch-checkpoint of that log. The
former leader may have stored records at that offset or above: these records are lost. When the former leader comes back, it
deletes these records; then only the metadata shows that there was an election.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from kafkawire.disk.checkpoints import LEADER_EPOCHS, read_epochs
from kafkawire.disk.elections import UNKNOWN, UncleanElection
from wirebroker.audit.findings import Finding, Severity
from wirebroker_audit.logs.elections import Elections
from wirebroker_audit.logs.tails import tail_of
from wirebroker_audit.reading.folders import PartitionFolder

KIND = "unclean_election"


class _Doubt(NamedTuple):
    """The offsets whose records an election may have lost, and the replicas' evidence about these records."""

    severity: Severity
    first: int
    last: int
    words: str
    holder: PartitionFolder | None = None
    """the replica that still has the records"""


def findings_of(folders: Iterable[PartitionFolder], elections: Elections) -> Iterator[Finding]:
    """Yields a finding for each unclean election of these partitions."""
    by_partition: dict[tuple[str, int], list[UncleanElection]] = {}
    for each in elections.found:
        by_partition.setdefault((each.topic, each.partition), []).append(each)
    for folder in folders:
        held = by_partition.get((folder.topic, folder.partition), ())
        mine = [each for each in held if folder.topic_id in (None, each.topic_id)]
        if not mine:
            continue
        read = folder if folder.others else folder.with_tail(tail_of(folder.path))
        replicas = [read, *read.others]
        begun = -1
        for each in mine:
            yield _finding(each, folder, _doubt(each, replicas, begun, elections.ends))
            begun = each.leader_epoch


def _doubt(election: UncleanElection, replicas: Sequence[PartitionFolder], begun: int, ends: Mapping[int, int]) -> _Doubt:
    """Returns the offsets that this election may have lost. `begun` is the epoch of the previous unclean election. Replicas
    with an older epoch say something about the previous election, not about this election."""
    start = _start_of(election.leader_epoch, replicas)
    if start < 0:
        unknown = "no leader-epoch-checkpoint here has the offset at which it began, so the number of lost records is unknown"
        return _Doubt("likely", -1, -1, unknown)
    left = [each for each in replicas if begun <= each.tail.leader_epoch < election.leader_epoch]
    holder = max(left, key=lambda each: each.tail.end, default=None)
    if holder is not None and holder.tail.end > start:
        first, last = max(start, holder.begins_at), holder.tail.end - 1
        words = (
            f"{holder.owner} still has {_offsets(first, last)} from before the election; the elected leader lacks them. "
            f"Copy {holder.path} before that broker starts: a replica deletes the records that its leader lacks"
        )
        return _Doubt("certain", first, last, words, holder)
    former = next((each for each in left if each.node == election.former_leader), None)
    learned = UNKNOWN if former is None or former.node is None else ends.get(former.node, UNKNOWN)
    if former is not None and former.tail.end >= 0 and 0 <= learned <= election.offset:
        words = f"the log of {former.owner}, which had not learned of the election, ends there or before: nothing is lost"
        return _Doubt("info", start, start, words)
    words = f"any record of the former leader from offset {start} on is lost; no replica here shows how many there were"
    return _Doubt("likely", start, -1, words)


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first}–{last}"


def _start_of(epoch: int, replicas: Sequence[PartitionFolder]) -> int:
    """Returns the first offset of this leader epoch; −1 if no checkpoint has it. An epoch without an entry has no records, so
    it began at the first offset of the next epoch."""
    for each in replicas:
        with suppress(OSError):  # DamagedFile is an OSError
            entries = read_epochs(each.path / LEADER_EPOCHS)
            at = next((index for index, (held, _) in enumerate(entries) if held >= epoch), None)
            if at is not None and (at > 0 or entries[at][0] == epoch):
                return entries[at][1]
    return -1


def _finding(election: UncleanElection, folder: PartitionFolder, doubt: _Doubt) -> Finding:
    when = "" if election.at_ms < 0 else f" at {datetime.fromtimestamp(election.at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    former = election.former_leader
    before = {UNKNOWN: "", election.leader: "; it had led before, and had then lost its place among the in-sync replicas"}.get(
        former, f"; node {former} had led"
    )
    could = ", ".join(map(str, sorted(set(election.in_sync)))) or "none"
    sync = f"; in sync: {could}" if former != UNKNOWN or election.in_sync else ""
    begins = "" if doubt.first < 0 else f" at offset {doubt.first}"
    words = (
        f"{folder.name}: leader epoch {election.leader_epoch} began{begins} with an unclean election{when}: node "
        f"{election.leader} became the leader without being in sync{before}{sync}. {doubt.words[0].upper()}{doubt.words[1:]}"
    )
    evidence = {
        "leader_epoch": election.leader_epoch, "leader": election.leader, "former_leader": former,
        "in_sync": sorted(set(election.in_sync)), "at_ms": election.at_ms, "from_offset": doubt.first,
    }  # fmt: skip
    if doubt.holder is not None:
        mark = doubt.holder.high_watermark
        evidence |= {"kept_in": str(doubt.holder.path), "high_watermark": mark}
    place = (doubt.first, doubt.last)
    return Finding(KIND, doubt.severity, folder.topic, folder.partition, -1, -1, -1, -1, *place, json.dumps(evidence), words)
