"""Logs as streams for Spark (`--follow`): each micro-batch has the batches that were stored since the previous micro-batch.

    spark.dataSource.register(SegmentSource)
    spark.readStream.format("kafka-segments").option("path", DIR).load()
    spark.readStream.format("kafka-broker-batches").option("bootstrap", "127.0.0.1:9092").load()

A stream's position has an offset for each partition, and facts that identify its log. A micro-batch takes at most about
`batch.bytes` or `batch.offsets`, and the next micro-batch continues where it ended. A read error fails the micro-batch, and a
restart of the stream repeats the micro-batch. If a log restarted, its stream has a `deleted` row at position −1: the earlier
rows of this log no longer count.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from wirebroker.audit.findings import EXPIRATION_MS
from wirebroker.client.settings import Access
from wirebroker_audit.folding import schema
from wirebroker_audit.logs.directory import NotALogDirectory, find_partitions
from wirebroker_audit.logs.planning import cluster_piece
from wirebroker_audit.reading.folders import PartitionFolder
from wirebroker_audit.reading.live_segments import Ahead, pieces_between
from wirebroker_audit.reading.pieces import UNREAD, Mark, Piece, mark_from, packed
from wirebroker_audit.reading.reader import read_piece
from wirebroker_audit.wire import Client, LivePartition

Position = dict[str, str]
"""The text of a `Mark` for each `topic-partition`."""
RESTARTED_WORDS = "the partition was created again or truncated after offset {} was read; it is read from its beginning"
BATCH_BYTES, BATCH_OFFSETS = 4 * 1024 * 1024 * 1024, 20_000_000
LEAST_BYTES, LEAST_OFFSETS = 16 * 1024 * 1024, 50_000
"""If there is enough work, a task has at least this size."""


@dataclass
class Task(InputPartition):
    """The pieces that one task reads."""

    pieces: list[Piece]


class _StreamReader(DataSourceStreamReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._topics = tuple(filter(None, options.get("topics", "").split(",")))
        self._parallelism = int(options.get("parallelism", 1))
        self._expiration_ms = int(options.get("expiration", EXPIRATION_MS))
        self._at: Position = {}
        """the end of the last planned micro-batch; Spark plans each micro-batch, even an empty one, before it asks for the next
        end"""

    def initialOffset(self) -> Position:  # noqa: N802 - Spark's name
        return {}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        for each in partition.pieces:
            for chunk in read_piece(each, self._expiration_ms):
                if chunk.begin < 0 and (row := chunk.rows.to_pylist()[0])["problem"] == "unreadable":
                    raise OSError(row["detail"])
                yield chunk.rows

    def _tasks(self, pieces: list[Piece], least: int) -> list[InputPartition]:
        """Divides the work into tasks of about the same size. If there is enough work, this size is at least `least`."""
        room = max(sum(each.size for each in pieces) // self._parallelism, least)
        return [Task(each) for each in packed(pieces, room)]


class BrokerStream(_StreamReader):
    """Streams a live cluster. Each micro-batch ends at most at the cluster's end offsets of that moment."""

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
        taken = {  # each partition gets a share of the room in proportion to its unread offsets
            name: begin._replace(offset=begin.offset + -(-(ends[name] - begin.offset) * min(room, left) // max(left, 1)))
            for name, begin in begins.items()
        }
        return self._at | {name: each.text() for name, each in taken.items()}

    def _begin(self, each: LivePartition) -> Mark:
        """Returns the mark at which to continue: the beginning if the topic was created again, or if the log ends before the
        last offset read."""
        text = self._at.get(f"{each.topic}-{each.partition}")
        fresh = Mark(each.start, start=each.start, compacted=int(each.compacted is not False), topic_id=each.topic_id)
        if text is None:
            return fresh
        known = mark_from(text)
        if known.is_of_another(each.topic_id) or each.end < known.offset:
            return fresh._replace(life=known.life + 1)
        # if retention deleted records after this mark, the reader reports the deletion
        return known._replace(compacted=fresh.compacted, topic_id=each.topic_id or known.topic_id)

    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        self._at = end
        access = Access.of(self._options).shared_by(self._parallelism)
        return self._tasks([each for name in end for each in self._pieces(name, start, end, access)], LEAST_OFFSETS)

    def _pieces(self, name: str, start: Position, end: Position, access: Access) -> Iterator[Piece]:
        topic, _, partition = name.rpartition("-")
        mark = mark_from(end[name])
        begin = mark_from(start[name]) if name in start else mark._replace(offset=mark.start)
        if begin.life != mark.life:
            yield Piece(topic, int(partition), begin, mark, problem="deleted", detail=RESTARTED_WORDS.format(begin.offset))
            begin = mark._replace(offset=mark.start)
        if begin.offset < mark.offset:
            begin = begin._replace(compacted=mark.compacted, start=mark.start)
            piece = cluster_piece(topic, int(partition), begin, mark.offset, self._options["bootstrap"], access)
            yield replace(piece, number=begin.offset & 0x7FFF_FFFF)


class SegmentStream(_StreamReader):
    """Streams a log directory to which brokers write. Only whole batches are read."""

    def latestOffset(self) -> Position:  # noqa: N802 - Spark's name
        room = int(self._options.get("batch.bytes", BATCH_BYTES))
        marks = dict(self._at)
        ahead: dict[str, Ahead] = {}
        for name, folder in self._folders().items():
            with suppress(FileNotFoundError):  # a broker is changing the folder; the next micro-batch tries again
                ahead[name] = Ahead(folder, mark_from(self._at[name]) if name in self._at else UNREAD)
        for name, mark in _up_to(ahead, room):
            marks[name] = mark.text()
        return marks

    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        self._at = end
        folders = self._folders()
        pieces: list[Piece] = []
        for name, text in end.items():
            if text != start.get(name):
                folder = folders.get(name) or self._vanished(name)
                begin = mark_from(start[name]) if name in start else UNREAD
                pieces += pieces_between(folder, begin, mark_from(text))
        return self._tasks(pieces, LEAST_BYTES)

    def _folders(self) -> dict[str, PartitionFolder]:
        try:
            found = find_partitions(Path(self._options["path"]), () if self._at else self._topics)
        except NotALogDirectory:
            if not self._at or not Path(self._options["path"]).is_dir():
                raise
            found = []  # every topic was deleted; the stream continues
        return {f"{each.topic}-{each.partition}": each for each in found if not self._topics or each.topic in self._topics}

    def _vanished(self, name: str) -> PartitionFolder:
        topic, _, partition = name.rpartition("-")
        return PartitionFolder(Path(self._options["path"]) / name, topic, int(partition), 0, -1)


def _up_to(ahead: dict[str, Ahead], room: int) -> Iterator[tuple[str, Mark]]:
    """Yields the marks at which the next reads of the partitions end. All these reads together have about `room` bytes.
    Partitions with the most unread bytes go first."""
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


class SegmentSource(DataSource):
    """The record batches in a Kafka log directory."""

    @classmethod
    def name(cls) -> str:
        return "kafka-segments"

    def schema(self) -> StructType:
        return schema.BATCHES

    def streamReader(self, schema: StructType) -> SegmentStream:  # noqa: N802 - Spark's name
        return SegmentStream(self.options)


class BrokerSource(DataSource):
    """The record batches of a live cluster, committed or not, with the markers."""

    @classmethod
    def name(cls) -> str:
        return "kafka-broker-batches"

    def schema(self) -> StructType:
        return schema.BATCHES

    def streamReader(self, schema: StructType) -> BrokerStream:  # noqa: N802 - Spark's name
        return BrokerStream(self.options)
