"""Continues where an earlier audit ended (`--since`): finds the pieces that are left to read, and the earlier rows that still
count.

Besides its batches and runs, a report says how far its audit read each partition (`covered.json`). The next audit reads only
the later batches and checks them together with the earlier batches, so it has the same findings as an audit of the whole log.
If a log restarted, because its topic was recreated or because it was truncated, its earlier rows no longer count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from kafkawire.batches import HEADER_SIZE
from kafkawire.disk.damage import reason
from kafkawire.disk.opening import open_to_read
from wirebroker_audit.folding import schema
from wirebroker_audit.logs.planning import numbered
from wirebroker_audit.reading.folders import PartitionFolder
from wirebroker_audit.reading.live_segments import Ahead, holds, place_of
from wirebroker_audit.reading.pieces import Key, Mark, Piece, deleted_before_read
from wirebroker_audit.reading.scan import stored_crc
from wirebroker_audit.spark.columns import LOG_ORDER, PARTITION
from wirebroker_audit.wire import LivePartition

COVERED, RUNS, BATCHES, SUMMARY = "covered.json", "runs", "batches", "summary.json"
FORMAT = 2


class BadReport(Exception):
    """Raised if a report cannot be continued. The message gives the reason and the next step."""


@dataclass(frozen=True, slots=True)
class ReportState:
    """The state of a report: how far its audit has read each partition."""

    is_cluster: bool
    expiration_ms: int
    pieces: int
    """all pieces of the report have numbers below `pieces`"""
    partitions: dict[Key, Mark]
    audited_at: str = ""

    def save(self, report: Path) -> None:
        """Write this state into a report's folder."""
        told = {
            "format": FORMAT, "is_cluster": self.is_cluster, "expiration_ms": self.expiration_ms, "pieces": self.pieces,
            "partitions": [[*key, *mark] for key, mark in self.partitions.items()],
        }  # fmt: skip
        (report / COVERED).write_text(json.dumps(told), encoding="utf-8")


def read_state(report: Path, *, is_cluster: bool, expiration_ms: int, with_remote: bool = False) -> ReportState:
    """Returns the state of a report, if an audit with these settings can continue it. Raises BadReport."""
    where = f"--since {report}"
    try:
        told = json.loads((report / COVERED).read_text(encoding="utf-8"))
        summary = json.loads((report / SUMMARY).read_text(encoding="utf-8"))
    except OSError as refused:
        lacks = f"{Path(refused.filename or COVERED).name}: {refused.strerror}"
        raise BadReport(f"{where}: this is not a report that an audit can continue; {lacks}") from None
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
            f"{where}: that audit read {summary['origin']}; --path continues only an audit with --path, and --bootstrap only "
            f"an audit with --bootstrap"
        )
    if (summary.get("remote_store") is not None) != with_remote:
        raise BadReport(
            f"{where}: that audit ran {'without' if with_remote else 'with'} --remote-store, so its log begins elsewhere; "
            "audit the whole log once"
        )
    if told["expiration_ms"] != expiration_ms:
        raise BadReport(f"{where}: that audit had --producer-expiration {told['expiration_ms']}, this audit {expiration_ms}")
    found = {(topic, number): Mark(*rest) for topic, number, *rest in told["partitions"]}
    return ReportState(is_cluster, expiration_ms, told["pieces"], found, summary["audited_at"])


def ends_of(folded: DataFrame) -> dict[Key, Row]:
    """Returns each partition's last batch in these runs: segment, position, last_offset, last_bytes, last_crc, and the last
    `piece`."""
    place = sf.struct("segment", sf.col("last.position").alias("position"))
    names = ("segment", "last.position", "last.last_offset", "last_bytes", "last_crc")
    rows = folded.groupBy(*PARTITION).agg(
        sf.max_by(sf.struct(*names), place).alias("end"), sf.max(sf.shiftright("run", 32)).alias("piece")
    )
    return {(row["topic"], row["partition"]): row for row in rows.select(*PARTITION, "end.*", "piece").collect()}


@dataclass(slots=True)
class Onward:
    """The pieces that an audit reads after an earlier audit."""

    pieces: list[Piece] = field(default_factory=list)
    goes_on: dict[Key, Mark] = field(default_factory=dict)
    """the partitions whose earlier rows count, and the mark at which reading continues in each"""
    notices: list[str] = field(default_factory=list)
    physical: dict[str, int] = field(default_factory=dict)
    """Some segments have one name in the rows, and another name as a file. Maps the name in the rows to the base offset in the
    file's name."""


def onward(state: ReportState, folders: Sequence[PartitionFolder], pieces: Iterable[Piece]) -> Onward:
    """Finds the unread pieces of a directory; `pieces` are all pieces of the directory. Raises OSError."""
    by_partition: dict[Key, list[Piece]] = {}
    for each in pieces:
        by_partition.setdefault((each.topic, each.partition), []).append(each)
    found = Onward()
    for folder in folders:
        key = (folder.topic, folder.partition)
        mine = by_partition.get(key, [])
        if (mark := state.partitions.get(key)) is not None:
            mine = _left(folder, mark, mine, found)
        found.pieces += mine
    found.pieces = numbered(found.pieces, state.pieces)
    found.notices += vanished(state, [(each.topic, each.partition) for each in folders])
    return found


def vanished(state: ReportState, here: Iterable[Key]) -> list[str]:
    """If the earlier audit read partitions that this audit does not read, returns a sentence that names them."""
    gone = [f"{topic}-{number}" for topic, number in sorted(state.partitions.keys() - set(here))]
    names = f"{', '.join(gone[:20])}{' …' if gone[20:] else ''}"
    return [f"{names}: this audit does not read it, so its earlier batches were left out"] if gone else []


def _notice(key: Key, words: str) -> str:
    return f"{key[0]}-{key[1]}: {words}"


def _gone(key: Key, mark: Mark, begins_at: int) -> list[str]:
    """Returns a notice if offsets were deleted before any audit read them."""
    return [_notice(key, deleted_before_read(mark.offset, begins_at))] if begins_at > mark.offset else []


def _left(folder: PartitionFolder, mark: Mark, pieces: list[Piece], found: Onward) -> list[Piece]:
    """Returns the pieces of a partition that are left to read after the mark; all pieces if the log restarted."""
    key = (folder.topic, folder.partition)
    try:
        begin = Ahead(folder, mark).mark
        why = mark.why_restarted(begin.topic_id) if begin.life != mark.life else _another(folder, pieces, mark)
        if not why:
            found.notices += _gone(key, mark, begin.offset)
            found.goes_on[key] = mark
            return [part for each in pieces for part in _after(each, begin, mark, found)]
    except OSError as changed:
        why = f"its segments could not be compared with the earlier report ({reason(changed)}); it is read from its beginning"
    found.goes_on.pop(key, None)
    found.notices.append(_notice(key, why))
    return pieces


def another(offset: int) -> str:
    """Returns the reason why a log is read from its beginning: another batch has replaced the batch before `offset`."""
    return f"the batch before offset {offset} has changed, so the log was truncated; it is read from its beginning"


def _another(folder: PartitionFolder, pieces: list[Piece], mark: Mark) -> str:
    """If the batch that was read last has changed, returns the reason why the log is read from its beginning. Returns "" if the
    batch is the same, or if the cleaner may have changed it."""
    path = next((each.path for each in pieces if each.begin.segment == mark.segment and each.file), None)
    if mark.crc < 0 or path is None or mark.last < 0 or folder.cleaned_until >= 0:
        return ""
    with open_to_read(path) as file:
        if not holds(file, mark):
            return ""
        file.seek(mark.last)
        return "" if stored_crc(file.read(HEADER_SIZE), 0) == mark.crc else another(mark.offset)


def _after(piece: Piece, begin: Mark, mark: Mark, found: Onward) -> list[Piece]:
    """Returns the part of a piece that lies after the mark. Rows from a rewritten segment get a segment name that sorts after
    the earlier rows."""
    base = piece.begin.segment
    if base != begin.segment:
        return [piece] if base < 0 or base > begin.segment else []
    position, label = begin.position, piece.begin.label
    if begin.last < 0 and begin.offset > base:  # the cleaner has rewritten the segment since the earlier audit
        with open_to_read(piece.path) as file:
            position = place_of(file, begin.offset).position
    if (base, position) == (mark.segment, mark.position):
        label = mark.label
    elif position:
        label = begin.offset
    if label != base:
        found.physical[piece.named(label)] = base
    start = max(piece.begin.position, position)
    if piece.end.position <= start:
        return []
    return [replace(piece, begin=piece.begin._replace(position=start, label=label), size=piece.end.position - start)]


def onward_live(
    state: ReportState, live: Sequence[LivePartition], crc_before: Callable[[LivePartition, int], int]
) -> OnwardLive:
    """Returns the unread part of a cluster. `crc_before` returns the checksum of the batch before an offset, −1 if it is not
    known."""
    found = OnwardLive(notices=vanished(state, [(each.topic, each.partition) for each in live]))
    for each in live:
        key = (each.topic, each.partition)
        if (mark := state.partitions.get(key)) is None:
            found.live.append(each)
        elif why := _why_new(each, mark, crc_before):
            found.notices.append(_notice(key, why))
            found.live.append(each)
        else:
            found.notices += _gone(key, mark, each.start)
            found.goes_on[key] = mark
            if mark.offset < each.end:
                found.live.append(replace(each, start=max(mark.offset, each.start)))
    return found


@dataclass(slots=True)
class OnwardLive:
    """The partitions that an audit of a cluster reads after an earlier audit."""

    live: list[LivePartition] = field(default_factory=list)
    goes_on: dict[Key, Mark] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


def _why_new(each: LivePartition, mark: Mark, crc_before: Callable[[LivePartition, int], int]) -> str:
    if mark.is_of_another(each.topic_id) or each.end < mark.offset:
        return mark.why_restarted(each.topic_id)
    may_have_changed = each.compacted is not False or each.start >= mark.offset
    if mark.crc >= 0 and not may_have_changed and crc_before(each, mark.offset) not in (-1, mark.crc):
        return another(mark.offset)
    return ""


class Earlier:
    """The rows of an earlier report, for the partitions that this audit continues: from each partition's log start up to its
    mark."""

    def __init__(self, spark: SparkSession, report: Path, goes_on: Mapping[Key, Mark], starts: Mapping[Key, int]) -> None:
        self._spark, self._report = spark, report
        rows = []
        for (topic, partition), mark in goes_on.items():
            segment = Piece(topic, partition, mark, mark).segment
            rows.append((topic, partition, segment, mark.last, starts[topic, partition]))
        self._goes_on = spark.createDataFrame(rows, "topic string, partition int, seam string, at long, log_start long")

    def batches(self) -> DataFrame:
        """Returns the report's batches. Damage after the last sound batch is read again, because a broker may have written
        there since."""
        rows = self._read(BATCHES, schema.BATCHES.names, "last_offset")
        before = sf.struct(*LOG_ORDER) < sf.struct(sf.col("seam").alias("segment"), sf.col("at").alias("position"))
        rows = rows.where(sf.col("problem").isNull() | (sf.col("problem") == "offset_regression") | before)
        return rows.select(*schema.BATCHES.names)

    def runs(self) -> DataFrame:
        return self._read(RUNS, schema.RUNS.names, "last.last_offset").select(*schema.RUNS.names)

    def _read(self, name: str, columns: list[str], reach: str) -> DataFrame:
        shape = schema.BATCHES if name == BATCHES else schema.RUNS
        rows = self._spark.read.schema(shape).parquet((self._report.resolve() / name).as_uri()).select(*columns)
        return rows.join(sf.broadcast(self._goes_on), [*PARTITION]).where(f"{reach} >= log_start")
