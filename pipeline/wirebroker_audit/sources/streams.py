"""The same logs as streams: each micro-batch holds the batches that were stored since the one before it.

    spark.readStream.format("kafka-segments").option("path", DIR).load()
    spark.readStream.format("kafka-broker-batches").option("bootstrap", "127.0.0.1:9092").load()

Where a stream stands is, for each partition, an offset of the broker's, or a segment and a position in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from wirebroker_audit.live_log import Range, read_range
from wirebroker_audit.segments import PartitionFolder, Split, end_of_batches, find_partitions, read_split, segments_of
from wirebroker_audit.wire import Client

Standing = dict[str, str]
"""By `topic-partition`: an offset, or `segment:position`."""


@dataclass
class Piece(InputPartition):
    """What one task reads."""

    what: Range | Split


class _StreamReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._topics = tuple(filter(None, options.get("topics", "").split(",")))

    def initialOffset(self) -> Standing:  # noqa: N802 - Spark's name
        return {}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        chunks = read_range(partition.what) if isinstance(partition.what, Range) else read_split(partition.what)
        return (chunk.rows for chunk in chunks)


class BrokerStream(_StreamReader):
    """A live cluster, up to the offsets that it has at each moment."""

    def latestOffset(self) -> Standing:  # noqa: N802 - Spark's name
        client = Client(self._options["bootstrap"])
        try:
            live = client.partitions(self._topics)
        finally:
            client.close()
        return {f"{each.topic}-{each.partition}": f"{each.start}:{each.end}:{int(each.compacted)}" for each in live}

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

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._known: dict[str, tuple[int, int]] = {}

    def latestOffset(self) -> Standing:  # noqa: N802 - Spark's name
        for each in self._folders():
            name = f"{each.topic}-{each.partition}"
            self._known[name] = end_of_batches(each, self._known.get(name, (-1, 0)))
        return {name: f"{segment}:{position}" for name, (segment, position) in self._known.items()}

    def partitions(self, start: Standing, end: Standing) -> list[InputPartition]:
        folders = {f"{each.topic}-{each.partition}": each for each in self._folders()}
        pieces: list[InputPartition] = []
        for name, standing in end.items():
            if name in folders:
                begin, stop = (_place(each) for each in (start.get(name, "-1:0"), standing))
                pieces += [Piece(each) for each in _between(folders[name], begin, stop)]
        return pieces

    def _folders(self) -> list[PartitionFolder]:
        return find_partitions(Path(self._options["path"]), self._topics)


def _place(standing: str) -> tuple[int, int]:
    segment, _, position = standing.partition(":")
    return int(segment), int(position)


def _between(folder: PartitionFolder, begin: tuple[int, int], stop: tuple[int, int]) -> Iterator[Split]:
    """What lies between two places of a partition's log, segment by segment."""
    for first_offset, path in segments_of(folder):
        if not begin[0] <= first_offset <= stop[0]:
            continue
        start = begin[1] if first_offset == begin[0] else 0
        size = stop[1] if first_offset == stop[0] else path.stat().st_size
        if start < size:
            # the number tells the pieces of a segment apart, also over restarts
            yield Split(
                start & 0x7FFF_FFFF, folder.topic, folder.partition, str(path), f"{folder.path.name}/{path.name}", start, size,
                -1 if start else first_offset, folder.log_start, folder.cleaned_until,
            )  # fmt: skip
