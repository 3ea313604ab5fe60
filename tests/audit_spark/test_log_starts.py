"""The joined runs of a stream give the same findings as the whole log, even if the log start moves."""

from __future__ import annotations

import random
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra wirebroker[audit] is not installed")
pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

import pyarrow.compute as pc  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

from audit_spark.synthetic import FAULTS, TRANSACTIONAL, Writer, bad_length, bad_magic, cut, make_directory  # noqa: E402
from wirebroker.audit.findings import EXPIRATION_MS  # noqa: E402
from wirebroker_audit.checks import batches as checks  # noqa: E402
from wirebroker_audit.checks.log_starts import from_log_starts  # noqa: E402
from wirebroker_audit.folding import schema  # noqa: E402
from wirebroker_audit.folding.runs import (  # noqa: E402
    RUNS,
    fold,
    joined,
)
from wirebroker_audit.reading.live_segments import _sound_batches, segments_now  # noqa: E402
from wirebroker_audit.reading.pieces import UNREAD, Mark, Piece  # noqa: E402
from wirebroker_audit.reading.reader import read_piece  # noqa: E402
from wirebroker_audit.reading.scan import BATCHES  # noqa: E402
from wirebroker_audit.sources.tasks import runs_of  # noqa: E402
from wirebroker_audit.spark.tables import local, local_rows, settled, together  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LogStart = tuple[str, int, int]
LOG_STARTS = StructType([schema.BOUNDS[name] for name in ("topic", "partition", "log_start")])
UNREADABLE = (bad_length, bad_magic, cut)
"""Faults that are not planted. A stream that continues at damaged bytes does not know the expected offset, so its explanation
would differ.
"""
AT_ONCE = 8


def marks(folder: Path, log_start: int, dice: random.Random) -> list[Mark]:
    """Returns the places at which a stream stops: the start of each segment, and the ends of about half of the batches."""
    made: list[Mark] = []
    for first, path in segments_now(folder):
        begin = UNREAD._replace(start=log_start).at_segment(first)
        made.append(begin)
        with path.open("rb") as file:
            for each in _sound_batches(file, 0):
                for last, end, offset in zip(each.begins, each.ends, each.next_offset, strict=True):
                    begin = begin._replace(position=int(end), offset=max(int(offset), begin.offset), last=int(last))
                    if dice.random() < 0.5:
                        made.append(begin)
        made.append(begin)
    return made


def scanned(folder: Path, begin: Mark, end: Mark) -> list[pa.RecordBatch]:
    """Reads the batches between two marks."""
    topic, _, partition = folder.name.rpartition("-")
    return [chunk.rows for chunk in read_piece(Piece(topic, int(partition), begin, end, str(folder)))]


def micro_batches_of(logs: Path, starts: list[LogStart], dice: random.Random, *, whole: bool) -> list[pa.Table]:
    """Returns one table for each micro-batch, with the rows that a stream reads in it. With `whole`, returns the rows that an
    audit reads, with each segment in one piece."""
    log_start = {f"{topic}-{partition}": start for topic, partition, start in starts}
    steps = []
    for folder in sorted(logs.iterdir()):
        stops = marks(folder, log_start.get(folder.name, 0), dice)
        if whole:
            stops = [each for number, each in enumerate(stops) if each.position == 0 or number == len(stops) - 1]
        steps.append([scanned(folder, *each) for each in pairwise(stops)])
    return [
        pa.Table.from_batches([rows for of_one in step for rows in of_one], BATCHES)
        for step in zip_longest(*steps, fillvalue=[])
    ]


def found_in(batches: DataFrame, folded: DataFrame, starts: list[LogStart]) -> list[str]:
    bounds = local_rows(batches.sparkSession, [(*each, -1, True) for each in starts], schema.BOUNDS)
    found = checks.findings_of(batches, folded, checks.with_compaction(bounds, folded))
    return sorted(str(row.asDict()) for row in found.collect())


def by_segment(runs: pa.Table) -> pa.Table:
    segment = runs["segment"]
    return pa.concat_tables(joined(runs.filter(pc.equal(segment, each)), EXPIRATION_MS) for each in pc.unique(segment))


def joined_in_folders(read: list[pa.Table]) -> pa.Table:
    """Joins the runs of all micro-batches, eight folders at a time, until one folder is left. Returns its runs."""
    folders = [pa.Table.from_batches([fold(each) for each in table.to_batches()], RUNS) for table in read]
    while len(folders) > 1:
        groups = [pa.concat_tables(folders[at : at + AT_ONCE]) for at in range(0, len(folders), AT_ONCE)]
        folders = [by_segment(group) for group in groups]
    return folders[0]


def streamed(spark: SparkSession, read: list[pa.Table], starts: list[LogStart]) -> tuple[DataFrame, DataFrame]:
    """Returns the batches and the runs that a stream has after these micro-batches, if the logs then start at `starts`."""
    known = local_rows(spark, starts, LOG_STARTS)
    left = local(spark, pa.concat_tables(read)).join(known, ["topic", "partition"]).where("last_offset >= log_start")
    batches = settled(left.select(*schema.BATCHES.names))
    folded = local(spark, joined_in_folders(read)).join(known, ["topic", "partition"]).where("last.last_offset >= log_start")
    return batches, settled(from_log_starts(settled(folded.select(*schema.RUNS.names)), batches, known))


def test_a_transaction_that_is_open_across_the_log_start_begins_where_the_log_does(spark: SparkSession, tmp_path: Path) -> None:
    log = Writer("orders", 0, random.Random(1))
    for _ in range(4):
        log.data(1, count=2, attributes=TRANSACTIONAL)
    log.save(tmp_path)
    starts = [("orders", 0, 3)]
    with together(spark):
        batches, folded = streamed(spark, micro_batches_of(tmp_path, [], random.Random(1), whole=False), starts)
        (found,) = found_in(batches, folded, starts)
    assert "'open_transaction'" in found
    assert "'first_offset': 2," in found


@pytest.mark.slow
def test_joined_runs_give_the_findings_of_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    dice, logs = random.Random(5), tmp_path / "logs"
    make_directory(logs, seed=11, partitions=10, faults=tuple(each for each in FAULTS if each not in UNREADABLE))
    with together(spark):
        read = micro_batches_of(logs, [], dice, whole=False)
        ends = pa.concat_tables(read).group_by(["topic", "partition"]).aggregate([("last_offset", "max")]).to_pylist()
        starts = [
            (row["topic"], row["partition"], dice.choice((0, dice.randint(1, row["last_offset_max"] // 2)))) for row in ends
        ]
        whole = local(spark, pa.concat_tables(micro_batches_of(logs, starts, dice, whole=True)))
        runs = settled(runs_of(whole))
        expected = found_in(whole, runs, starts)
        batches, folded = streamed(spark, read, starts)
        assert found_in(batches, folded, starts) == expected
        assert folded.count() <= 1.1 * runs.count()
        assert len({each.split(",")[0] for each in expected}) > 3, "the test needs more than three kinds of findings"
