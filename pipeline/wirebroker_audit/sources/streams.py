"""The same logs as streams: each micro-batch holds the batches that were stored since the one before it.

    spark.readStream.format("kafka-segments").option("path", DIR).load()
    spark.readStream.format("kafka-broker-batches").option("bootstrap", "127.0.0.1:9092").load()

Where a stream stands is, for each partition, an offset of the broker's, or a segment, a position in it and the next offset.
What cannot be read fails the micro-batch, which is done again when the stream is started again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from wirebroker_audit.live_log import Range, read_range
from wirebroker_audit.segments import (
    NOWHERE,
    End,
    PartitionFolder,
    Split,
    end_of_batches,
    find_partitions,
    read_split,
    segments_of,
)
from wirebroker_audit.wire import Client

Standing = dict[str, str]
"""By `topic-partition`: an offset, or `segment:position:offset`."""


@dataclass
class Piece(InputPartition):
    """What one task reads."""

    what: Range | Split


class _StreamReader(DataSourceStreamReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._topics = tuple(filter(None, options.get("topics", "").split(",")))

    def initialOffset(self) -> Standing:  # noqa: N802 - Spark's name
        return {}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        chunks = read_range(partition.what) if isinstance(partition.what, Range) else read_split(partition.what)
        for chunk in chunks:
            if chunk.begin < 0 and (row := chunk.rows.to_pylist()[0])["problem"] == "unreadable":
                raise OSError(row["detail"])
            yield chunk.rows


class BrokerStream(_StreamReader):
    """A live cluster, up to the offsets that it has at each moment."""

    def latestOffset(self) -> Standing:  # noqa: N802 - Spark's name
        client = Client(self._options["bootstrap"])
        try:
            live = client.partitions(self._topics)
        finally:
            client.close()
        return {
            f"{each.topic}-{each.partition}": f"{each.start}:{each.end}:{int(each.compacted is not False)}"
            for each in live
        }

    def partitions(self, start: Standing, end: Standing) -> list[InputPartition]:
        pieces: list[InputPartition] = []
        for name, standing in end.items():
            topic, _, partition = name.rpartition("-")
            first, stop, compacted = map(int, standing.split(":"))
            begin = int(start[name].split(":")[1]) if name in start else first
            if begin < stop:
                bootstrap = self._options["bootstrap"]
                what = Range(begin, bootstrap, topic, int(partition), begin, stop, name not in start, bool(compacted))
                pieces.append(Piece(what))
        return pieces


class SegmentStream(_StreamReader):
    """A log directory that grows. A batch is read when it is whole."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._known: dict[str, End] = {}

    def latestOffset(self) -> Standing:  # noqa: N802 - Spark's name
        for each in self._folders():
            name = f"{each.topic}-{each.partition}"
            self._known[name] = end_of_batches(each, self._known.get(name, NOWHERE))
        return {name: ":".join(map(str, end)) for name, end in self._known.items()}

    def partitions(self, start: Standing, end: Standing) -> list[InputPartition]:
        folders = {f"{each.topic}-{each.partition}": each for each in self._folders()}
        pieces: list[InputPartition] = []
        for name, standing in end.items():
            if name in folders:
                begin = _end(start[name]) if name in start else NOWHERE
                pieces += [Piece(each) for each in _between(folders[name], begin, _end(standing))]
        return pieces

    def _folders(self) -> list[PartitionFolder]:
        return find_partitions(Path(self._options["path"]), self._topics)


def _end(standing: str) -> End:
    return End(*map(int, standing.split(":")))


def _between(folder: PartitionFolder, begin: End, stop: End) -> Iterator[Split]:
    """What lies between two places of a partition's log, segment by segment; what retention took before, as a `deleted`."""
    segments = [each for each in segments_of(folder) if begin.segment <= each[0] <= stop.segment]
    if begin is not NOWHERE and segments and segments[0][0] > max(begin.segment, begin.next_offset):
        yield _deleted(folder, begin.next_offset, segments[0][0])
    for first_offset, path in segments:
        start = begin.position if first_offset == begin.segment else 0
        size = stop.position if first_offset == stop.segment else path.stat().st_size
        if start < size:
            # the number tells the pieces of a segment apart, also over restarts
            yield Split(
                start & 0x7FFF_FFFF, folder.topic, folder.partition, str(path), f"{folder.path.name}/{path.name}", start, size,
                -1 if start else first_offset, folder.log_start, folder.cleaned_until,
            )  # fmt: skip


def _deleted(folder: PartitionFolder, begin: int, end: int) -> Split:
    """In place of segments that were deleted before they were read; in the order of the log it stands where they stood."""
    detail = f"offsets {begin} to {end - 1} were deleted before they were read"
    segment = f"{folder.path.name}/{begin:020d}.log"
    return Split(
        0,
        folder.topic,
        folder.partition,
        "",
        segment,
        0,
        0,
        begin,
        folder.log_start,
        folder.cleaned_until,
        detail,
        "deleted",
    )
