"""Reads logs as Spark does, in one batch or as a stream. The logs have damage, deleted segments and unreadable files. These
tests do not start Spark.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.restless import Restless
from audit_spark.synthetic import Writer
from wirebroker import MockKafka
from wirebroker_audit import wire
from wirebroker_audit.logs import planning
from wirebroker_audit.logs.directory import find_partitions
from wirebroker_audit.logs.planning import directory_pieces
from wirebroker_audit.reading import live_segments, segments
from wirebroker_audit.reading.pieces import RESTARTED, packed
from wirebroker_audit.reading.reader import read_piece
from wirebroker_audit.sources.streams import BrokerStream, Position, SegmentStream
from wirekit import RawProducer


@pytest.fixture
def writer() -> Writer:
    writer = Writer("orders", 0, random.Random(1))
    for _ in range(40):
        writer.data(7, count=2)
    return writer


def log_of(folder: Path) -> Path:
    return folder / "orders-0" / f"{0:020d}.log"


def rows(stream: SegmentStream | BrokerStream, start: Position, end: Position) -> list[dict[str, Any]]:
    read: Iterator[Any] = (batch for each in stream.partitions(start, end) for batch in stream.read(each))
    return [row for batch in read for row in batch.to_pylist()]


def test_damage_does_not_stop_the_stream(writer: Writer, tmp_path: Path) -> None:
    writer.save(tmp_path)
    whole = bytearray(log_of(tmp_path).read_bytes())
    whole[16 + sum(map(len, writer.pieces[:10]))] = 1  # the magic byte of the eleventh batch
    log_of(tmp_path).write_bytes(whole)
    stream = SegmentStream({"path": str(tmp_path)})
    found = rows(stream, {}, stream.latestOffset())
    assert [row["problem"] for row in found] == [None] * 10 + ["bad_batch"] + [None] * 29


def test_a_batch_is_read_when_it_is_whole(writer: Writer, tmp_path: Path) -> None:
    writer.save(tmp_path)
    whole = log_of(tmp_path).read_bytes()
    log_of(tmp_path).write_bytes(whole[:-5])
    stream = SegmentStream({"path": str(tmp_path)})
    first = stream.latestOffset()
    assert len(rows(stream, {}, first)) == 39
    assert stream.latestOffset() == first
    log_of(tmp_path).write_bytes(whole)
    assert [row["base_offset"] for row in rows(stream, first, stream.latestOffset())] == [78]


def test_what_retention_took_before_it_was_read_is_said(writer: Writer, tmp_path: Path) -> None:
    writer.save(tmp_path)
    stream = SegmentStream({"path": str(tmp_path)})
    first = stream.latestOffset()
    for _ in range(3):
        writer.roll()
        writer.data(7, count=2)
    writer.save(tmp_path / "later")
    segments = sorted((tmp_path / "later" / "orders-0").iterdir())
    assert [path.name for path in segments[1:]] == [f"{offset:020d}.log" for offset in (80, 82, 84)]
    log_of(tmp_path).unlink()
    for path in segments[2:]:
        path.rename(tmp_path / "orders-0" / path.name)
    found = rows(stream, first, stream.latestOffset())
    assert [(row["problem"], row["base_offset"]) for row in found] == [("deleted", 80), (None, 82), (None, 84)]
    assert found[0]["detail"] == "offsets 80 to 81 were deleted before they were read"
    assert found[0]["segment"] < found[1]["segment"]


def test_nothing_is_missing_where_retention_took_what_was_read(writer: Writer, tmp_path: Path) -> None:
    writer.save(tmp_path)
    stream = SegmentStream({"path": str(tmp_path)})
    first = stream.latestOffset()
    writer.roll()
    writer.data(7, count=2)
    writer.save(tmp_path / "later")
    log_of(tmp_path).unlink()
    (tmp_path / "later" / "orders-0" / f"{80:020d}.log").rename(tmp_path / "orders-0" / f"{80:020d}.log")
    assert [row["problem"] for row in rows(stream, first, stream.latestOffset())] == [None]


def test_a_range_that_cannot_be_read_fails_and_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PAUSE", 0)
    with MockKafka(topics=["orders"]) as kafka:
        producer = RawProducer(kafka)
        for number in range(5):
            producer.send(number)
        stream = BrokerStream({"bootstrap": kafka.bootstrap_servers})
        end = stream.latestOffset()
        kafka.kill_broker(1)
        with pytest.raises(OSError, match="orders-0 at offset 0"):
            rows(stream, {}, end)
        kafka.start_broker(1)
        assert len(rows(stream, {}, end)) == 5


def test_a_log_that_is_not_large_keeps_all_cores_busy(writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.save(tmp_path)
    folders = find_partitions(tmp_path)
    assert len(directory_pieces(folders, cores=2)) == 1
    monkeypatch.setattr(planning, "LEAST_SHARE", 1000)
    pieces = directory_pieces(folders, cores=2)
    assert len(packed(pieces, max(each.size for each in pieces))) == len(pieces) == 2
    assert sum(chunk.rows.num_rows for piece in pieces for chunk in read_piece(piece)) == 40


# A log whose segments change


class Followed:
    """Reads a stream, and collects the rows of its micro-batches."""

    def __init__(self, root: Path, **options: str) -> None:
        self.options = {"path": str(root), **options}
        self.stream = SegmentStream(self.options)
        self.at: Position = {}
        self.rows: list[dict[str, Any]] = []

    def restart(self) -> None:
        self.stream = SegmentStream(self.options)
        self.stream.partitions(self.at, self.at)  # as Spark does

    def take(self, again: int = 0) -> list[dict[str, Any]]:
        """Reads and commits one micro-batch. Before that, reads this micro-batch `again` times with a stream that is killed
        before the commit."""
        end = self.stream.latestOffset()
        for _ in range(again):
            rows(self.stream, self.at, end)
            self.stream = SegmentStream(self.options)
            self.stream.partitions(end, end)
        made = rows(self.stream, self.at, end)
        self.at = end
        self.rows += made
        return made


def offsets(found: list[dict[str, Any]]) -> list[int]:
    return [row["base_offset"] for row in found if row["problem"] is None]


def in_log_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["segment"], row["position"]))


def gone(found: list[dict[str, Any]]) -> set[int]:
    """Returns the offsets that the rows report as deleted."""
    said = [row["detail"].split() for row in found if row["problem"] == "deleted"]
    return {offset for words in said for offset in range(int(words[1]), int(words[3]) + 1)}


@pytest.mark.parametrize("seed", range(12))
def test_each_batch_is_read_once_whatever_becomes_of_the_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    log = Restless(tmp_path, rng)
    followed = Followed(tmp_path, **{"batch.bytes": rng.choice(("1", "400", "4000000000"))})
    look = live_segments.segments_now

    def looked(folder: Path) -> list[tuple[int, Path]]:
        found = look(folder)
        if rng.random() < 0.3:  # the folder changes right after the audit has listed it
            log.act()
        return found

    monkeypatch.setattr(live_segments, "segments_now", looked)
    for _ in range(25):
        for _ in range(rng.choice((1, 3, 8))):
            log.act()
        followed.take(again=rng.choice((0, 0, 0, 1, 2)))
        if rng.random() < 0.2:
            followed.restart()
    monkeypatch.setattr(live_segments, "segments_now", look)
    log.settle()
    while followed.take():
        pass
    read = offsets(followed.rows)
    assert len(read) == len(set(read))
    stored = {base for batches in log.segments.values() for base in batches}
    assert stored <= set(read)
    assert not gone(followed.rows) & stored
    ordered = in_log_order(followed.rows)
    assert offsets(ordered) == sorted(read)
    assert {row["problem"] for row in ordered} <= {None, "deleted"}


def test_segments_that_are_joined_between_planning_and_reading(tmp_path: Path) -> None:
    log = Restless(tmp_path, random.Random(1))
    followed = Followed(tmp_path)
    for _ in range(3):
        log.append(4)
        log.roll()
    log.append(4)
    before = sorted(base for batches in log.segments.values() for base in batches)
    end = followed.stream.latestOffset()
    pieces = followed.stream.partitions({}, end)
    log.clean(3, keep=1.0)
    found = [row for each in pieces for batch in followed.stream.read(each) for row in batch.to_pylist()]
    assert offsets(found) == before
    assert offsets(in_log_order(found)) == before


def test_segments_that_are_joined_between_the_look_and_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Restless(tmp_path, random.Random(1))
    followed = Followed(tmp_path)
    for _ in range(3):
        log.append(4)
        log.roll()
    before = sorted(base for batches in log.segments.values() for base in batches)
    end = followed.stream.latestOffset()
    pieces = followed.stream.partitions({}, end)
    look = live_segments.segments_now

    def looked(folder: Path) -> list[tuple[int, Path]]:
        found = look(folder)
        log.clean(3 if len(log.segments) == 4 else 0, keep=1.0)
        return found

    monkeypatch.setattr(live_segments, "segments_now", looked)
    found = [row for each in pieces for batch in followed.stream.read(each) for row in batch.to_pylist()]
    assert offsets(found) == before


@pytest.mark.parametrize("more", [3, 40])
def test_a_segment_that_was_written_anew_where_it_was_read(tmp_path: Path, more: int) -> None:
    log = Restless(tmp_path, random.Random(2))
    log.alike = True
    followed = Followed(tmp_path)
    log.append(9)
    followed.take()
    size = log.path(0).stat().st_size
    log.append(more)
    log.roll()
    log.append(2)
    log.clean(1, keep=0.5)
    assert (log.path(0).stat().st_size < size) == (more == 3)
    fresh = [base for batches in log.segments.values() for base in batches if base > max(offsets(followed.rows))]
    assert offsets(followed.take()) == sorted(fresh)
    assert offsets(in_log_order(followed.rows)) == sorted(offsets(followed.rows))


def test_what_cannot_be_read_fails_the_micro_batch(tmp_path: Path) -> None:
    log = Restless(tmp_path, random.Random(3))
    log.append(3)
    followed = Followed(tmp_path)
    end = followed.stream.latestOffset()
    log.path(0).unlink()
    log.path(0).mkdir()
    with pytest.raises(OSError, match="this is a folder where a file should be"):
        rows(followed.stream, {}, end)


def test_a_log_directory_that_is_gone_fails_and_a_topic_that_is_gone_is_said(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    log = Restless(logs, random.Random(4))
    Restless(logs, random.Random(4), "other-0")
    log.append(3)
    followed = Followed(logs)
    end = followed.stream.latestOffset()
    shutil.rmtree(log.folder)
    (row,) = rows(followed.stream, {}, end)
    assert (row["problem"], row["detail"]) == ("deleted", f"offsets 0 to {log.offset - 1} were deleted before they were read")
    pieces = followed.stream.partitions({}, end)
    shutil.rmtree(logs)
    with pytest.raises(FileNotFoundError):
        list(followed.stream.read(pieces[0]))


@pytest.mark.parametrize("topic_id", ["", "4KVWbYsSQ6CGrd1Rcczhqg"])
def test_a_topic_that_was_made_anew_is_read_from_its_beginning(tmp_path: Path, topic_id: str) -> None:
    log = Restless(tmp_path, random.Random(5), topic_id=topic_id)
    log.append(9)
    followed = Followed(tmp_path)
    followed.take()
    shutil.rmtree(log.folder)
    another = Restless(tmp_path, random.Random(6), topic_id=topic_id and "xtzWWN4bTjitpL3kfd9s5g")
    another.append(20 if topic_id else 4)  # without topic ids, the audit sees the new topic only because its log ends earlier
    if topic_id:
        assert another.offset > log.offset
    followed.restart()
    first, *found = followed.take()
    assert (first["problem"], first["position"]) == ("deleted", RESTARTED)
    assert offsets(found) == sorted(another.segments[0])
    assert in_log_order([first, *found]) == [first, *found]
    another.append(2)
    assert len(offsets(followed.take())) == 2


def test_a_log_that_was_cut_while_it_was_read_is_said(tmp_path: Path) -> None:
    log = Restless(tmp_path, random.Random(7))
    log.append(3)
    kept, end = log.offset, len(log.path(0).read_bytes())
    log.append(3)
    followed = Followed(tmp_path)
    planned = followed.stream.latestOffset()
    os.truncate(log.path(0), end)
    found = rows(followed.stream, {}, planned)
    assert [row["problem"] for row in found] == [None] * 3 + ["deleted"]
    assert gone(found) == set(range(kept, log.offset))


def test_a_large_log_is_taken_in_several_micro_batches_and_small_ones_share_tasks(tmp_path: Path) -> None:
    logs = []
    for number in range(40):
        logs.append(Restless(tmp_path, random.Random(number), f"orders-{number}"))
        for _ in range(1 + number % 3):
            logs[-1].append(3)
            logs[-1].roll()
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    followed = Followed(tmp_path, **{"batch.bytes": str(size // 5), "parallelism": "2"})
    counts = []
    while made := followed.take():
        counts.append(len(made))
        followed.restart()
    assert 4 <= len(counts) <= 6
    assert sum(counts) == len(followed.rows) == sum(3 * (1 + number % 3) for number in range(40))
    assert len({(row["partition"], row["base_offset"]) for row in followed.rows}) == len(followed.rows)
    whole = SegmentStream({"path": str(tmp_path), "parallelism": "2"})
    assert len(whole.partitions({}, whole.latestOffset())) == 1


def test_a_segment_that_is_being_written_is_taken_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_segments, "SPLIT_BYTES", 300)
    monkeypatch.setattr(segments, "CHUNK", 200)
    log = Restless(tmp_path, random.Random(9))
    log.append(30)
    followed = Followed(tmp_path, **{"batch.bytes": "600"})
    counts = []
    while made := followed.take():
        counts.append(len(made))
        followed.restart()
    assert sum(counts) == 30
    assert len(counts) > 3
    assert offsets(followed.rows) == sorted(log.segments[0])


def test_a_live_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    with MockKafka(topics={"orders": 1}) as kafka:
        producer = RawProducer(kafka)
        for number in range(3):
            producer.send(number)
        options = {"bootstrap": kafka.bootstrap_servers}
        stream = BrokerStream(options)
        first = stream.latestOffset()
        assert offsets(rows(stream, {}, first)) == [0, 1, 2]
        kafka.delete_topic("orders")
        kafka.create_topic("orders", partitions=1)
        other = RawProducer(kafka)
        for number in range(5):
            other.send(number)
        stream = BrokerStream(options)
        stream.partitions(first, first)
        second = stream.latestOffset()
        found = rows(stream, first, second)
        assert [(row["problem"], row["position"]) for row in found[:1]] == [("deleted", RESTARTED)]
        assert offsets(found) == [0, 1, 2, 3, 4]
        assert stream.latestOffset() == second


def test_a_live_cluster_is_taken_in_several_micro_batches() -> None:
    with MockKafka(topics={"orders": 3}) as kafka:
        producer = RawProducer(kafka)
        for number in range(7):
            producer.send(number)
        stream = BrokerStream({"bootstrap": kafka.bootstrap_servers, "batch.offsets": "3", "parallelism": "2"})
        at: Position = {}
        counts = []
        while (end := stream.latestOffset()) != at:
            pieces = stream.partitions(at, end)
            assert len(pieces) <= 1
            counts.append(len(rows(stream, at, end)))
            at = end
        assert counts == [3, 3, 1]


@pytest.mark.parametrize("where", ["crc", "bad_batch"])
def test_damage_between_two_micro_batches_is_told_once(writer: Writer, tmp_path: Path, where: str) -> None:
    at = sum(map(len, writer.pieces[:20]))
    writer.save(tmp_path)
    whole = bytearray(log_of(tmp_path).read_bytes())
    whole[at + (61 if where == "crc" else 16)] ^= 1  # damages the batch's records, or its magic byte
    end = at + len(writer.pieces[20])
    log_of(tmp_path).write_bytes(whole[:end])
    followed = Followed(tmp_path)
    assert [row["problem"] for row in followed.take()] == [None] * 20
    followed.restart()
    assert followed.take() == []
    log_of(tmp_path).write_bytes(whole)
    followed.restart()
    assert [row["problem"] for row in followed.take()] == [where] + [None] * 19
    assert followed.take() == []
