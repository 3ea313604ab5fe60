"""The same logs as streams: each micro-batch holds the batches stored since the one before it.

    spark.dataSource.register(SegmentSource)
    spark.readStream.format("kafka-segments").option("path", DIR).load()
    spark.readStream.format("kafka-broker-batches").option("bootstrap", "127.0.0.1:9092").load()

A stream's position has an offset for each partition, and facts that identify its log. A micro-batch takes at most about
`batch.bytes` or `batch.offsets`, and the next one continues there. A read error fails the micro-batch, and a restart of the
stream repeats it. If a log restarted, a `deleted` row at position −1 means that its earlier rows no longer count.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker.client.settings import Access
from wirebroker_audit.logs.directory import NotALogDirectory, find_partitions
from wirebroker_audit.logs.replicas import PartitionFolder
from wirebroker_audit.reading.live_log import Range, Restarted, read_range
from wirebroker_audit.reading.live_segments import UNREAD, Ahead, Mark, Stretch, mark_from, read_stretch, stretches
from wirebroker_audit.sources.packing import packed
from wirebroker_audit.wire import Client, LivePartition

Position = dict[str, str]
"""By `topic-partition`: a `Reach`, or a `Mark`."""
BATCH_BYTES, BATCH_OFFSETS = 4 * 1024 * 1024 * 1024, 20_000_000
LEAST_BYTES, LEAST_OFFSETS = 16 * 1024 * 1024, 50_000
"""The least size of a task, if there is enough work."""
Work = Range | Stretch | Restarted


@dataclass
class Piece(InputPartition):
    """The work of one task."""

    what: list[Work]


class _StreamReader(DataSourceStreamReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._topics = tuple(filter(None, options.get("topics", "").split(",")))
        self._parallelism = int(options.get("parallelism", 1))
        self._expiration_ms = int(options.get("expiration", EXPIRATION_MS))
        self._at: Position = {}
        """the end of the last planned micro-batch; Spark plans one, even an empty one, before it asks for more"""

    def initialOffset(self) -> Position:  # noqa: N802 - Spark's name
        return {}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        for each in partition.what:
            read = (
                read_stretch(each, self._expiration_ms) if isinstance(each, Stretch) else read_range(each, self._expiration_ms)
            )
            for chunk in read:
                if chunk.begin < 0 and (row := chunk.rows.to_pylist()[0])["problem"] == "unreadable":
                    raise OSError(row["detail"])
                yield chunk.rows

    def _packed(self, work: list[tuple[int, Work]], least: int) -> list[InputPartition]:
        """Tasks of about the same size, and no more than are worth while."""
        room = max(sum(size for size, _ in work) // self._parallelism, least)
        return [Piece(each) for each in packed(work, room)]


class Reach(NamedTuple):
    """How far a partition of a live cluster was read."""

    start: int
    """its log start offset when it was first requested"""
    offset: int
    compacted: int
    life: int = 0
    """how often the partition restarted"""
    topic_id: str = ""

    def text(self) -> str:
        """The reach as text, for a stream's position."""
        return ":".join(map(str, self))


def reach_from(text: str) -> Reach:
    """The reach in a text of `Reach.text`; an older text lacks the last fields."""
    fields = text.split(":")
    return Reach(*map(int, fields[:4]), *fields[4:])  # type: ignore[arg-type]


class BrokerStream(_StreamReader):
    """A live cluster, up to the offsets that it has at each moment."""

    def latestOffset(self) -> Position:  # noqa: N802 - Spark's name
        client = Client(self._options["bootstrap"], Access.of(self._options))
        try:
            live = client.partitions(self._topics)
        finally:
            client.close()
        room = int(self._options.get("batch.offsets", BATCH_OFFSETS))
        begins = {f"{each.topic}-{each.partition}": self._begin(each) for each in live}
        ends = {f"{each.topic}-{each.partition}": each.end for each in live}
        left = sum(ends[name] - begin.offset for name, begin in begins.items())
        taken = {  # each partition gets its share
            name: begin._replace(offset=begin.offset + -(-(ends[name] - begin.offset) * min(room, left) // max(left, 1)))
            for name, begin in begins.items()
        }
        return self._at | {name: each.text() for name, each in taken.items()}

    def _begin(self, each: LivePartition) -> Reach:
        """The place to continue; the beginning if it is another topic of that name or ends before the last read offset."""
        text = self._at.get(f"{each.topic}-{each.partition}")
        fresh = Reach(each.start, each.start, int(each.compacted is not False), 0, each.topic_id)
        if text is None:
            return fresh
        known = reach_from(text)
        is_another = bool(known.topic_id and each.topic_id and known.topic_id != each.topic_id)
        if is_another or each.end < known.offset:
            return fresh._replace(life=known.life + 1)
        # if it was deleted up to here, the reader reports that
        topic_id = each.topic_id or known.topic_id
        return known._replace(compacted=fresh.compacted, topic_id=topic_id)

    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        self._at = end
        work: list[tuple[int, Work]] = []
        access = Access.of(self._options).shared_by(self._parallelism)
        for name, text in end.items():
            reach = reach_from(text)
            known = reach_from(start[name]) if name in start else None
            topic, _, partition = name.rpartition("-")
            if known is not None and known.life != reach.life:
                work.append((0, Restarted(topic, int(partition), known.offset)))
                known = None
            begin = reach.start if known is None else known.offset
            if begin < reach.offset:
                what = Range(
                    begin & 0x7FFF_FFFF, self._options["bootstrap"], topic, int(partition), begin, reach.offset,
                    known is None, bool(reach.compacted), access,
                )  # fmt: skip
                work.append((reach.offset - begin, what))
        return self._packed(work, LEAST_OFFSETS)


class SegmentStream(_StreamReader):
    """A log directory that grows. Only whole batches are read."""

    def latestOffset(self) -> Position:  # noqa: N802 - Spark's name
        room = int(self._options.get("batch.bytes", BATCH_BYTES))
        marks = dict(self._at)
        ahead: dict[str, Ahead] = {}
        for name, folder in self._folders().items():
            with suppress(FileNotFoundError):  # it is changing; the next micro-batch tries again
                ahead[name] = Ahead(folder, mark_from(self._at[name]) if name in self._at else UNREAD)
        for name, mark in _up_to(ahead, room):
            marks[name] = mark.text()
        return marks

    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        self._at = end
        folders = self._folders()
        work: list[tuple[int, Work]] = []
        for name, text in end.items():
            if text != start.get(name):
                folder = folders.get(name) or self._vanished(name)
                begin = mark_from(start[name]) if name in start else UNREAD
                work += [(each.size, each) for each in stretches(folder, begin, mark_from(text))]
        return self._packed(work, LEAST_BYTES)

    def _folders(self) -> dict[str, PartitionFolder]:
        try:
            found = find_partitions(Path(self._options["path"]), () if self._at else self._topics)
        except NotALogDirectory:
            if not self._at or not Path(self._options["path"]).is_dir():
                raise
            found = []  # every topic was deleted; the stream goes on
        return {f"{each.topic}-{each.partition}": each for each in found if not self._topics or each.topic in self._topics}

    def _vanished(self, name: str) -> PartitionFolder:
        topic, _, partition = name.rpartition("-")
        return PartitionFolder(Path(self._options["path"]) / name, topic, int(partition), 0, -1)


def _up_to(ahead: dict[str, Ahead], room: int) -> Iterator[tuple[str, Mark]]:
    """Marks within so many bytes, for all partitions together; those with the most unread bytes go first."""
    waiting = [(-each.left, name, each.marks()) for name, each in ahead.items()]
    heapq.heapify(waiting)
    while waiting and room > 0:
        left, name, marks = heapq.heappop(waiting)
        with suppress(FileNotFoundError):
            if (step := next(marks, None)) is not None:
                mark, size = step
                yield name, mark
                room -= size
                heapq.heappush(waiting, (min(left + size, 0), name, marks))
