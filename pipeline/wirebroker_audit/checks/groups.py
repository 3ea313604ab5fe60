"""Compares the commits of groups in `__consumer_offsets` with the logs. No Spark here.

A task reads one partition of `__consumer_offsets` in the order of the log. A commit inside a transaction counts once the
transaction's marker is stored, as in Kafka (OffsetMetadataManager). Compaction removes earlier commits, so a group's old
commits may be missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from kafkawire.batches import CONTROL, TRANSACTIONAL, iter_records, read_header
from kafkawire.coordinator_log import read_record
from kafkawire.coordinator_records import GROUP_RECORDS
from kafkawire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkawire.errors import ProtocolError
from wirebroker.audit.findings import Finding
from wirebroker_audit.reading.scan import Chunk

OFFSETS_TOPIC = "__consumer_offsets"
COMMITS = {1: GROUP_RECORDS[1]}
BACK_LIMIT = 1000
"""A commit goes back if its offset is below the offset of the previous commit. A task lists at most this many of these commits.
It counts the other commits, but does not list them."""
JUMP_LEAST, JUMP_TIMES = 100, 10
"""A commit is a jump if it passes at least `JUMP_LEAST` records, and at least `JUMP_TIMES` times as many as any earlier
commit."""
LISTED = 1000
"""The summary lists at most this many pairs of group and partition, and at most this many consume-transform-produce groups."""
Key = tuple[str, int]


class Commit(NamedTuple):
    """A group's commit for a partition."""

    group: str
    topic: str
    partition: int
    offset: int
    """the next offset to read; −1 if the record deletes the commit"""
    at_ms: int
    topic_id: bytes
    producer_id: int
    """the transaction's producer id, −1 outside a transaction"""
    producer_epoch: int = -1


class Step(NamedTuple):
    """A commit, and the previous commit for the same partition."""

    before: Commit
    commit: Commit
    largest: int = 0
    """the largest number of records that an earlier commit passed"""


@dataclass(slots=True)
class Pipeline:
    """A group's commits inside transactions: consume, transform, produce."""

    producers: set[int] = field(default_factory=set)
    committed: int = 0
    """transactions"""
    aborted: int = 0
    first_commits: int = 0
    """partitions whose earliest known commit is in a transaction: the number of inputs that this commit passed is unknown"""
    inputs: int = 0
    """the number of input offsets that the commits of committed transactions passed; first commits do not count"""
    again: int = 0
    """later commits went back by this many offsets, so this many input records were transformed twice"""
    open: int = 0
    """transactions without a marker"""

    def add(self, other: Pipeline) -> None:
        """Add the commits of another task."""
        self.producers |= other.producers
        for name in ("committed", "aborted", "first_commits", "inputs", "again", "open"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Seen:
    """The commits in one or all partitions of the topic, and the places where commits went back."""

    current: dict[tuple[str, str, int], Commit] = field(default_factory=dict)
    counts: dict[tuple[str, str, int], int] = field(default_factory=dict)
    reached: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """the highest committed offset of each group and partition"""
    largest: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """the largest number of records that a commit passed; the first commit counts as if it had passed all offsets below it"""
    back: list[Step] = field(default_factory=list)
    more_back: int = 0
    jumps: list[Step] = field(default_factory=list)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)

    def add(self, other: Seen) -> None:
        """Add the commits of another task; a group is in a single partition."""
        self.current |= other.current
        self.counts |= other.counts
        self.reached |= other.reached
        self.largest |= other.largest
        self.back += other.back
        self.more_back += other.more_back
        self.jumps += other.jumps
        for group, each in other.pipelines.items():
            self.pipelines.setdefault(group, Pipeline()).add(each)


PASSED = pa.schema(
    [
        pa.field("group", pa.string()), pa.field("topic", pa.string()), pa.field("partition", pa.int32()),
        pa.field("start", pa.int64()), pa.field("stop", pa.int64()), pa.field("reached", pa.int64()),
        pa.field("at_ms", pa.int64()),
        pa.field("producer_id", pa.int64()), pa.field("producer_epoch", pa.int32()), pa.field("number", pa.int64()),
        pa.field("holes", pa.int64()),
    ]
)  # fmt: skip
"""The offsets that a commit passed: from `start` up to `stop`, which is excluded. `start` is −1 if no earlier commit is known.
`reached` is the highest offset that was committed before this commit. `number` is the number of the commit's batch in its
partition. `holes` counts the holes in the partition before the earlier commit; compaction may have removed commits there."""
PASSED_ROWS = 20_000


def passed_rows(chunks: Iterable[Chunk], groups: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """Yields the offsets that each commit of these groups passed. `chunks` has a partition's batches in the order of the log.

    One row, whose group is "", has the number of all holes. Each further row with the group "" has a producer whose transaction
    has not ended in this partition.
    """
    reader = _Reader(frozenset(), groups)
    for chunk in chunks:
        if chunk.begin >= 0:
            reader.take(chunk)
        if len(reader.passed) >= PASSED_ROWS:
            yield _made(reader.passed)
            reader.passed.clear()
    rows = [*reader.passed, ("", "", -1, -1, -1, -1, -1, -1, -1, -1, reader.holes)]
    yield _made([*rows, *(("", "", -1, -1, -1, -1, -1, producer, -1, -1, 0) for producer in reader.pending)])


def _made(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), PASSED, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=PASSED)


def read_commits(chunks: Iterable[Chunk], topics: frozenset[str] = frozenset()) -> Seen:
    """Returns the commits for these topics, or for all topics, from a partition's chunks in the order of the log."""
    reader = _Reader(topics)
    for chunk in chunks:
        if chunk.begin >= 0:
            reader.take(chunk)
    return reader.end()


class _Reader:
    def __init__(self, topics: frozenset[str], groups: frozenset[str] = frozenset()) -> None:
        self._topics = topics
        self._groups = groups
        self.passed: list[tuple[Any, ...]] = []
        """rows of `PASSED` about `groups`"""
        self.holes = 0
        self._holes_at: dict[tuple[str, str, int], int] = {}
        self._next = 0
        self._number = 0
        self._seen = Seen()
        self._pending: dict[int, list[Commit]] = {}

    def take(self, chunk: Chunk) -> None:
        names = ("problem", "attributes", "position", "bytes", "producer_id", "marker", "base_offset", "last_offset", "records")
        for problem, attributes, position, size, producer, marker, base, last, records in zip(
            *(chunk.rows.column(name).to_pylist() for name in names), strict=True
        ):
            if problem not in (None, "offset_regression"):
                self.holes += 1
                continue
            self.holes += base != self._next or records != last - base + 1
            self._next = last + 1
            self._number += 1
            if attributes & CONTROL:
                self._ended(producer, marker == 1)
                continue
            at = chunk.places[position] if chunk.places else position - chunk.begin
            commits = list(self._commits(chunk.view[at : at + size], producer if attributes & TRANSACTIONAL else -1))
            if attributes & TRANSACTIONAL:
                self._pending.setdefault(producer, []).extend(commits)
            else:
                for each in commits:
                    self._apply(each)

    @property
    def pending(self) -> list[int]:
        """The producers whose transactions have not ended."""
        return list(self._pending)

    def end(self) -> Seen:
        for producer, commits in self._pending.items():
            for group in {each.group for each in commits}:
                self._pipeline(group, producer).open += 1
        return self._seen

    def _commits(self, batch: memoryview, producer: int) -> Iterator[Commit]:
        try:
            epoch = read_header(batch).producer_epoch if producer >= 0 else -1
            for record in iter_records(batch):
                read = read_record(COMMITS, record.key or b"", record.value)
                if read is None or not isinstance(read.key, OffsetCommitKey):
                    continue
                key, value = read.key, read.value
                if self._topics and key.topic not in self._topics:
                    continue
                told = (-1, -1, bytes(16))
                if isinstance(value, OffsetCommitValue):
                    told = (value.offset, value.commit_timestamp, value.topic_id)
                yield Commit(key.group, key.topic, key.partition, *told, producer, epoch)
        except ProtocolError:  # the audit of the topic itself reports damage
            return

    def _ended(self, producer: int, committed: bool) -> None:
        commits = self._pending.pop(producer, [])
        for group in {each.group for each in commits}:
            pipeline = self._pipeline(group, producer)
            pipeline.committed += committed
            pipeline.aborted += not committed
        for each in commits if committed else ():
            self._apply(each)

    def _apply(self, commit: Commit) -> None:
        key = (commit.group, commit.topic, commit.partition)
        if commit.offset < 0:
            self._seen.current.pop(key, None)
            return
        seen = self._seen
        before = seen.current.get(key)
        if commit.group in self._groups:
            self._pass(key, commit, before)
        seen.current[key] = commit
        seen.counts[key] = seen.counts.get(key, 0) + 1
        if before is None or _is_another_topic(before.topic_id, commit.topic_id):
            earlier = seen.reached.get(key, 0) if before is None else 0  # a commit counts even if it was deleted later
            seen.reached[key], seen.largest[key] = max(earlier, commit.offset), commit.offset
            if commit.producer_id >= 0:
                self._pipeline(commit.group, commit.producer_id).first_commits += 1
            return
        passed = commit.offset - before.offset
        if commit.producer_id >= 0:
            pipeline = self._pipeline(commit.group, commit.producer_id)
            pipeline.inputs += max(passed, 0)
            pipeline.again += max(-passed, 0)
        largest = seen.largest[key]
        if passed < 0 and len(seen.back) < BACK_LIMIT:
            seen.back.append(Step(before, commit))
        elif passed < 0:
            seen.more_back += 1
        elif passed >= max(JUMP_LEAST, JUMP_TIMES * largest) and len(seen.jumps) < BACK_LIMIT:
            seen.jumps.append(Step(before, commit, largest))
        seen.reached[key], seen.largest[key] = max(seen.reached[key], commit.offset), max(largest, passed)

    def _pass(self, key: tuple[str, str, int], commit: Commit, before: Commit | None) -> None:
        if before is not None and _is_another_topic(before.topic_id, commit.topic_id):
            before = None
        start, reached = (-1, -1) if before is None else (before.offset, self._seen.reached[key])
        holes = 0 if before is None else self._holes_at[key]
        self._holes_at[key] = self.holes
        self.passed.append((*key, start, commit.offset, reached, commit.at_ms, commit.producer_id, commit.producer_epoch,
                            self._number, holes))  # fmt: skip

    def _pipeline(self, group: str, producer: int) -> Pipeline:
        found = self._seen.pipelines.setdefault(group, Pipeline())
        found.producers.add(producer)
        return found


def _is_another_topic(one: bytes, other: bytes) -> bool:
    return any(one) and any(other) and one != other


# Against the logs


def findings_of(
    seen: Seen, ranges: Mapping[Key, tuple[int, int]], began_ms: int, passed: Mapping[Step, int] | None = None
) -> Iterator[Finding]:
    """Returns the findings about groups. `ranges` has each partition's log start and end, as they were at `began_ms` or later.
    For the jumps of groups with a known pipeline, `passed` has the number of passed inputs that have no output."""
    for before, commit, _ in seen.back:
        if (commit.topic, commit.partition) in ranges:
            yield _went_back(before, commit)
    for step in seen.jumps:
        without = (passed or {}).get(step)
        if (step.commit.topic, step.commit.partition) in ranges and without != 0:
            yield _jumped(step, without)
    for commit in seen.current.values():
        start, end = ranges.get((commit.topic, commit.partition), (0, commit.offset))
        if commit.offset < start:
            words = (
                f"group {commit.group!r} has committed offset {commit.offset}, but the log begins at {start} by now: the group "
                f"has not committed the records up to {start - 1}, and cannot read them any more"
            )
            yield _finding("group_skipped", "info", commit, (commit.offset, start - 1), words, log_start=start)
        elif commit.offset > end and commit.at_ms < began_ms:
            words = (
                f"group {commit.group!r} has committed offset {commit.offset}, but the log ends at {end}: the log was "
                f"truncated or created again, and records that are written below {commit.offset} from now on may never reach "
                f"the group"
            )
            yield _finding("group_skipped", "info", commit, (end, commit.offset - 1), words, log_end=end)


def _went_back(before: Commit, commit: Commit) -> Finding:
    count = before.offset - commit.offset
    records = "record" if count == 1 else f"{count:,} records"
    words = (
        f"group {commit.group!r} committed offset {commit.offset} at {_time(commit.at_ms)}, after {before.offset} at "
        f"{_time(before.at_ms)}: the {records} from there on may have been processed twice"
    )
    if commit.producer_id >= 0:
        words += f". Producer {commit.producer_id} committed it in a transaction, so the outputs may exist twice as well"
    offsets = (commit.offset, before.offset - 1)
    return _finding("commit_regression", "likely", commit, offsets, words, before=before.offset, before_at_ms=before.at_ms)


def _jumped(step: Step, without: int | None) -> Finding:
    before, commit, largest = step
    passed = commit.offset - before.offset
    words = (
        f"group {commit.group!r} committed offset {commit.offset} at {_time(commit.at_ms)}, after {before.offset} at "
        f"{_time(before.at_ms)}: it passed {passed:,} offsets; no earlier commit passed more than {largest:,}"
    )
    words += "; it may have skipped records" if without is None else f"; {without:,} inputs among them have no output"
    offsets = (before.offset, commit.offset - 1)
    more = {"before": before.offset, "before_at_ms": before.at_ms, "passed": passed, "without_output": without}
    return _finding("commit_jump", "info" if without is None else "certain", commit, offsets, words, **more)


def _finding(kind: str, severity: Any, commit: Commit, offsets: tuple[int, int], words: str, **more: object) -> Finding:
    evidence = {"group": commit.group, "committed": commit.offset, "at_ms": commit.at_ms} | more
    if commit.producer_id >= 0:
        evidence["producer_id"] = commit.producer_id
    return Finding(
        kind, severity, commit.topic, commit.partition, -1, -1, -1, -1, *offsets,
        json.dumps(evidence), f"{commit.topic}-{commit.partition}: {words}",
    )  # fmt: skip


def _time(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000)) if at_ms >= 0 else "an unknown time"


def summary_of(
    seen: Seen, ranges: Mapping[Key, tuple[int, int]], outputs: Mapping[int, tuple[int, int]]
) -> dict[str, list[dict[str, Any]]]:
    """Returns the groups and pipelines for `summary.json`. For each producer id, `outputs` has two numbers: the records in its
    committed transactions, and the records in its aborted transactions."""
    rows = []
    for (group, topic, number), commit in sorted(seen.current.items())[:LISTED]:
        _, end = ranges.get((topic, number), (0, -1))
        about = {"group": group, "topic": topic, "partition": number, "committed": commit.offset}
        rows.append(
            about | {"commits": seen.counts[group, topic, number], "lag": max(end - commit.offset, 0) if end >= 0 else None}
        )
    pipelines = []
    for group, each in sorted(seen.pipelines.items())[:LISTED]:
        made = [outputs.get(producer, (0, 0)) for producer in each.producers]
        pipelines.append({
            "group": group, "producers": len(each.producers), "committed": each.committed, "aborted": each.aborted,
            "open": each.open, "first_commits": each.first_commits, "inputs": each.inputs, "inputs_again": each.again,
            "outputs": sum(kept for kept, _ in made), "outputs_aborted": sum(dropped for _, dropped in made),
        })  # fmt: skip
    return {"groups": rows, "pipelines": pipelines}
