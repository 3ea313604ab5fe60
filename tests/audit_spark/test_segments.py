"""Segment files as the audit reads them: splits, runs, and rows about damage. No Spark here."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from audit_spark.synthetic import FAULTS, Writer, bad_length, batch, make_directory, ordinary, torn_tail, zeros
from kafkawire.disk.metadata import written_image
from wirebroker import MockKafka
from wirebroker.audit.findings import BatchRow
from wirebroker.audit.stored import scan
from wirebroker_audit.logs.directory import NotALogDirectory, find_partitions, read_directory
from wirebroker_audit.logs.planning import find_pieces
from wirebroker_audit.logs.tails import tail_of
from wirebroker_audit.reading import segments
from wirebroker_audit.reading.folders import EVERYTHING
from wirebroker_audit.reading.pieces import SPLIT_BYTES
from wirebroker_audit.reading.reader import read_piece

ADDED = ("marker", "content", "run", "missing", "after_damage", "problem", "detail")


def rows_of(root: Path, split_bytes: int = SPLIT_BYTES) -> list[dict[str, object]]:
    return [
        row for split in find_pieces(root, (), split_bytes) for chunk in read_piece(split) for row in chunk.rows.to_pylist()
    ]


def log(tmp_path: Path) -> Writer:
    return Writer("orders", 0, random.Random(1))


def only_segment(root: Path) -> Path:
    (path,) = (root / "orders-0").glob("*.log")
    return path


def test_headers_are_what_the_audit_in_the_small_reads(tmp_path: Path) -> None:
    faults = tuple(fault for fault in FAULTS if fault is not bad_length)
    make_directory(tmp_path, seed=5, partitions=12, faults=faults)
    rows = rows_of(tmp_path)
    found = [row for row in rows if row["problem"] in (None, "crc", "offset_regression")]
    contradictory = {(row["segment"], row["position"]) for row in rows if row["problem"] == "bad_batch"}
    expected = []
    for partition in find_partitions(tmp_path):
        for path in sorted(partition.path.glob("*.log")):
            where = f"{partition.path.name}/{path.name}"
            small = scan(path.read_bytes(), partition.topic, partition.partition, where)
            expected += [row for row in small if isinstance(row, BatchRow)]
    assert [BatchRow(**{name: row[name] for name in BatchRow._fields}) for row in found] == [
        row for row in expected if (row.segment, row.position) not in contradictory
    ]
    assert len(found) > 100


@pytest.mark.parametrize(("chunk", "batches"), [(3000, 5), (700, 100), (100_000, 1)])
def test_damaged_logs_read_the_same_in_any_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, batches: int
) -> None:
    make_directory(tmp_path, seed=6, partitions=12, faults=FAULTS)

    def read() -> list[dict[str, object]]:
        numbers: dict[object, int] = {}  # runs are numbered chunk by chunk, so they are compared by their first batches
        return [row | {"run": numbers.setdefault(row["run"], len(numbers))} for row in rows_of(tmp_path)]

    whole = read()
    assert len({row["problem"] for row in whole}) > 4
    monkeypatch.setattr(segments, "CHUNK", chunk)
    monkeypatch.setattr(segments, "BATCHES", batches)
    assert read() == whole


def test_splits_read_every_batch_once_with_and_without_an_index(tmp_path: Path) -> None:
    writer = log(tmp_path)
    for number in range(600):
        writer.data(1 + number % 3, values=[b"\x02" * 200])
    writer.save(tmp_path)
    path = only_segment(tmp_path)
    whole = [(row["position"], row["base_offset"]) for row in rows_of(tmp_path)]
    assert len(whole) == 600
    for index in (False, True):
        if index:
            entries = b"".join(struct.pack(">ii", offset, position) for position, offset in whole[::10])
            path.with_suffix(".index").write_bytes(entries + bytes(4096))
        splits = find_pieces(tmp_path, (), 20_000)
        assert len(splits) > 5
        assert [(row["position"], row["base_offset"]) for row in rows_of(tmp_path, 20_000)] == whole


def test_a_run_is_broken_where_sequences_are_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "CHUNK", 1000)  # small chunks, so that a run is in several chunks
    writer = log(tmp_path)
    for number in range(60):
        writer.data(1 + number % 2)
    writer.sequences[1, 0] += 5
    for _ in range(10):
        writer.data(1)
    writer.save(tmp_path)
    rows = rows_of(tmp_path)
    assert len({row["run"] for row in rows}) == 3
    assert {row["run"] for row in rows if row["producer_id"] == 2} == {rows[1]["run"]}


@pytest.mark.parametrize("version", [1, 2])
def test_a_transactional_log_has_as_many_runs_as_producers(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run can have many transactions, even in transaction version 2, where each transaction has its own epoch."""
    monkeypatch.setattr(segments, "CHUNK", 1000)
    writer = log(tmp_path)
    epochs = {1: 0, 2: 0}
    for number in range(200):
        pid = writer.rng.choice((1, 2))
        for _ in range(writer.rng.randint(1, 3)):
            writer.data(pid, epochs[pid], attributes=16)
        epochs[pid] += version - 1
        writer.end(pid, epochs[pid], number % 5 > 0)
    writer.save(tmp_path)
    rows = rows_of(tmp_path)
    assert len({(row["producer_id"], row["run"]) for row in rows}) == len({row["run"] for row in rows}) == 2


BREAKS = {
    "a marker without data": lambda log: log.end(1, 0, True),
    "a gap": lambda log: log.sequences.update({(1, 0): log.sequences[1, 0] + 1}),
    "a new epoch that does not begin at 0": lambda log: log.sequences.update({(1, 1): 4}),
    "no transaction": lambda log: log.data(1),
    "a pause": lambda log: setattr(log, "time", log.time + 86_400_000),
}


@pytest.mark.parametrize("how", BREAKS)
def test_what_ends_a_run_among_transactions(how: str, tmp_path: Path) -> None:
    writer = log(tmp_path)
    for part in range(2):
        epoch = part if "epoch" in how else 0
        for _ in range(3):
            writer.data(1, epoch, attributes=16)
            writer.end(1, epoch, True)
        if part == 0:
            BREAKS[how](writer)
    writer.save(tmp_path)
    runs = [row["run"] for row in rows_of(tmp_path)]
    assert len(set(runs[:6])) == len(set(runs[-6:])) == 1
    assert runs[0] != runs[-1]


def test_zeros_behind_the_last_batch_are_clean_and_a_torn_batch_is_not(tmp_path: Path) -> None:
    for name, end in (("a", zeros), ("b", torn_tail)):
        writer = log(tmp_path)
        ordinary(writer)
        end(writer)
        writer.save(tmp_path / name)
    assert [row["problem"] for row in rows_of(tmp_path / "a") if row["problem"]] == []
    last = rows_of(tmp_path / "b")[-1]
    assert last["problem"] == "torn_tail"
    assert "whole batch" in str(last["detail"])


def test_a_torn_batch_in_space_that_was_set_aside_is_torn_and_not_corrupt(tmp_path: Path) -> None:
    writer = log(tmp_path)
    writer.data(1)
    whole = len(writer.pieces[0])
    writer.data(1, values=[b"x" * 300])
    writer.save(tmp_path)
    path = only_segment(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[: whole + 150] + bytes(len(raw)))
    assert [(row["problem"], row["position"]) for row in rows_of(tmp_path)] == [(None, 0), ("torn_tail", whole)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", None), (b"not a log at all, but text " * 40, "bad_batch"), (b"\x7fELF" * 3, "torn_tail")],
    ids=["empty", "foreign", "short"],
)
def test_files_that_are_no_logs(content: bytes, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(content)
    assert [row["problem"] for row in rows_of(tmp_path)] == ([problem] if problem else [])


def test_what_kafka_does_not_count_as_part_of_a_log_is_left_out(tmp_path: Path) -> None:
    writer = log(tmp_path)
    ordinary(writer)
    writer.save(tmp_path)
    folder = tmp_path / "orders-0"
    for name in (f"{0:020d}.log.deleted", f"{9:020d}.log.cleaned", f"{9:020d}.log.swap", "leader-epoch-checkpoint"):
        (folder / name).write_bytes(b"junk")
    for name in ("__cluster_metadata-0", "gone-1.0123456789abcdef0123456789abcdef-delete", "lost+found"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020d}.log").write_bytes(b"junk")
    assert {row["topic"] for row in rows_of(tmp_path)} == {"orders"}
    assert [row["problem"] for row in rows_of(tmp_path) if row["problem"]] == []


@pytest.mark.parametrize(
    ("key", "left", "count", "problem"),
    [
        (b"k", [1, 3], None, None),
        (b"k", [], None, None),
        (b"k", [1, 3], 3, "bad_batch"),
        (b"k", [3, 1], None, "bad_batch"),
        (None, [1, 3], None, "bad_batch"),
        (b"k", [0, 1, 2, 3], 5, "bad_batch"),
    ],
)
def test_fewer_records_than_offsets_are_compaction_or_a_lie(
    key: bytes | None, left: list[int], count: int | None, problem: str | None, tmp_path: Path
) -> None:
    writer = log(tmp_path)
    writer.put(batch(0, writer.values(4), pid=1, epoch=0, seq=0, key=key, left=left, count=count), 4)
    writer.save(tmp_path)
    assert [row["problem"] for row in rows_of(tmp_path)] == [problem]


def test_d6_batches_below_the_log_start_are_no_part_of_the_log(tmp_path: Path) -> None:
    writer = log(tmp_path)
    for _ in range(5):
        writer.data(1, count=2)
    writer.save(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    assert [row["base_offset"] for row in rows_of(tmp_path)] == [4, 6, 8]


def test_what_cannot_be_read_is_a_row_with_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").symlink_to(tmp_path / "nowhere")
    (folder / "00000000000000000000.copy.log").write_bytes(b"x")
    problems = {(row["problem"], str(row["detail"]).partition(str(folder))[1]) for row in rows_of(tmp_path)}
    assert problems == {("unreadable", str(folder))}
    assert len(rows_of(tmp_path)) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize("kind", ["a symbolic link", "a pipe"])
def test_only_a_plain_file_is_read_as_a_segment(tmp_path: Path, kind: str) -> None:
    writer = log(tmp_path)
    writer.data(1, count=2)
    writer.save(tmp_path / "logs")
    segment = only_segment(tmp_path / "logs")
    segment.rename(tmp_path / "elsewhere")
    if kind == "a pipe":
        os.mkfifo(segment)
    else:
        segment.symlink_to(tmp_path / "elsewhere")
    segment.with_suffix(".index").unlink(missing_ok=True)
    os.mkfifo(segment.with_suffix(".index"))
    (row,) = rows_of(tmp_path / "logs")
    assert row["problem"] == "unreadable"
    assert f"this is {kind}; a log directory holds only files" in str(row["detail"])
    assert str(row["detail"]).count(str(segment)) == 1
    assert tail_of(segment.parent).end == -1


def test_a_directory_without_partitions_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(NotALogDirectory, match="no folder like"):
        find_partitions(tmp_path)
    with pytest.raises(NotALogDirectory, match="does not exist"):
        find_partitions(tmp_path / "nowhere")
    writer = log(tmp_path)
    ordinary(writer)
    writer.save(tmp_path)
    with pytest.raises(NotALogDirectory, match="no topic payments"):
        find_partitions(tmp_path, ("payments",))
    assert [each.topic for each in find_partitions(tmp_path / "orders-0")] == ["orders"]


def test_a_directory_above_the_log_directory_names_it(tmp_path: Path) -> None:
    saved = tmp_path / "k3" / "n1" / "data"
    writer = log(saved)
    ordinary(writer)
    writer.save(saved)
    with pytest.raises(NotALogDirectory, match=f"--path {re.escape(str(saved))}$"):
        read_directory(tmp_path)


def test_a_link_that_leads_nowhere_is_a_problem(tmp_path: Path) -> None:
    writer = log(tmp_path)
    ordinary(writer)
    writer.save(tmp_path)
    (tmp_path / "orders-1").symlink_to("/mnt/lost/orders-1")
    (tmp_path / "other-0").symlink_to("/mnt/lost/other-0")
    (problem,) = read_directory(tmp_path, ("orders",)).problems
    assert problem.startswith(f"{tmp_path / 'orders-1'} is a link to /mnt/lost/orders-1, which is not there")
    assert len(read_directory(tmp_path).problems) == 2


def test_a_brokers_directory_is_no_partition_whatever_its_name(tmp_path: Path) -> None:
    log(tmp_path).save(tmp_path / "node-1")
    (tmp_path / "node-1" / "meta.properties").write_text("version=1\n")
    assert [each.topic for each in find_partitions(tmp_path)] == ["orders"]


@pytest.mark.parametrize("node", ["version=1\nnode.id", "version=0\nbroker.id"], ids=["kraft", "zookeeper"])
def test_directories_of_two_clusters_are_not_mixed(tmp_path: Path, node: str) -> None:
    for number, cluster in ((1, "north"), (2, "north"), (3, "south")):
        folder = tmp_path / f"node-{number}"
        log(tmp_path).save(folder)
        (folder / "meta.properties").write_text(f"{node}={number}\ncluster.id={cluster}\n")
    with pytest.raises(NotALogDirectory) as refused:
        read_directory(tmp_path)
    first = tmp_path.resolve() / "node-1"
    third = first.with_name("node-3")
    clusters = f"{third} belongs to the cluster south, and {first} to the cluster north"
    assert str(refused.value) == f"{clusters}; audit each cluster by itself: --path {first}"
    shutil.rmtree(tmp_path / "node-3")
    assert len(read_directory(tmp_path).partitions) == 1


def test_a_brokers_folder_is_not_a_partition_if_its_log_directory_lies_below(tmp_path: Path) -> None:
    logs = tmp_path / "node-1" / "logs"
    log(tmp_path).save(logs)
    (logs / "meta.properties").write_text("version=1\n")
    with pytest.raises(NotALogDirectory, match=f"holds no partition: .*; {re.escape(str(logs))} contains"):
        find_partitions(tmp_path)


def test_a_compacted_topic_may_have_holes_where_no_checkpoint_says_so(tmp_path: Path) -> None:
    """A replica copies only batches that the leader still has. So offsets can be missing before the replica's own cleaner has
    written a checkpoint.
    """
    with MockKafka(data=tmp_path) as kafka:
        kafka.create_topic("orders", 1, {"cleanup.policy": "compact,delete"})
        kafka.create_topic("gone", 1, {"cleanup.policy": "compact"})
        kafka.create_topic("plain")
        kafka.delete_topic("gone")
    shutil.rmtree(tmp_path / "orders-0")
    writer = log(tmp_path)
    for _ in range(3):
        writer.roll()
        writer.data(1, count=10)
    writer.save(tmp_path)
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    written = written_image(tmp_path)
    assert written is not None
    assert written.compacted_topics() == {"orders"}
    for said, cleaned_until in (("0\n0\n", EVERYTHING), ("0\n1\norders 0 3\n", 20)):
        checkpoint.write_text(said)
        assert [(each.topic, each.cleaned_until) for each in find_partitions(tmp_path)] == [
            ("orders", cleaned_until),
            ("plain", -1),
        ]


def test_each_replica_rolls_its_own_segments(tmp_path: Path) -> None:
    """Neither the base offset of the last segment nor the size of a preallocated file says which replica has the higher end
    offset.
    """
    writer = log(tmp_path)
    writer.data(1)
    writer.roll()
    writer.data(1)
    writer.save(tmp_path / "a")
    with max((tmp_path / "a" / "orders-0").glob("*.log")).open("ab") as file:
        file.write(bytes(5000))
    writer.segments.clear()
    writer.data(1)
    writer.save(tmp_path / "b")
    (found,) = find_partitions(tmp_path)
    assert found.path.parent.name == "b"


def test_what_retention_and_the_cleaner_do_not_write_down(tmp_path: Path) -> None:
    """If the log start offset is the first offset of a segment, Kafka does not write it to the checkpoint. The cleaner always
    cleans whole segments.
    """
    writer = log(tmp_path)
    for _ in range(3):
        writer.data(1, count=10)
        writer.roll()
    writer.save(tmp_path)
    (tmp_path / "orders-0" / f"{0:020}.log").unlink()
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    for said, cleaned_until in ((0, 0), (13, 20), (20, 20), (23, 30), (33, 33)):
        checkpoint.write_text(f"0\n1\norders 0 {said}\n")
        (found,) = find_partitions(tmp_path)
        assert (found.log_start, found.begins_at, found.cleaned_until) == (0, 10, cleaned_until)
    checkpoint.write_text("")
    (found,) = find_partitions(tmp_path)
    assert found.cleaned_until == -1
    assert read_directory(tmp_path)[1:] == ([], []), "Kafka creates the checkpoint without entries"


@pytest.mark.parametrize("content", ["0\n2\norders 0 5\n", "0\n1\norders 0\n", "0\nmany\n"])
def test_a_damaged_checkpoint_is_said_and_compaction_not_excluded(content: str, tmp_path: Path) -> None:
    writer = log(tmp_path)
    writer.data(1)
    writer.save(tmp_path)
    (tmp_path / "cleaner-offset-checkpoint").write_text(content)
    (found,) = find_partitions(tmp_path)
    assert found.cleaned_until > 2**50
    ((problem,), notices) = read_directory(tmp_path)[1:]
    assert (problem.partition(": ")[0], notices) == (str(tmp_path / "cleaner-offset-checkpoint"), [])


def reading(root: Path) -> Iterator[dict[str, object]]:
    """Yields the rows of the only piece. No file is opened before the first row is requested."""
    (split,) = find_pieces(root)
    return (row for chunk in read_piece(split) for row in chunk.rows.to_pylist())


def test_space_that_is_set_aside_may_be_written_to_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = log(tmp_path)
    writer.data(1)
    writer.save(tmp_path)
    whole = only_segment(tmp_path).read_bytes()
    with only_segment(tmp_path).open("ab") as file:
        file.write(bytes(len(whole)))
    really = segments.is_zero

    def written_meanwhile(pieces: Iterator[memoryview]) -> bool:
        with only_segment(tmp_path).open("r+b") as file:
            file.seek(len(whole))
            file.write((1000).to_bytes(8, "big") + whole[8:])
        return really(pieces)

    monkeypatch.setattr(segments, "is_zero", written_meanwhile)
    assert [(row["base_offset"], row["problem"]) for row in reading(tmp_path)] == [(0, None), (1000, None)]


def test_a_file_that_becomes_another_one_is_said(tmp_path: Path) -> None:
    writer = log(tmp_path)
    writer.data(1)
    writer.data(1)
    writer.save(tmp_path)
    path = only_segment(tmp_path)
    whole, half = path.read_bytes(), writer.pieces[0]
    planned = reading(tmp_path)
    other = path.with_suffix(".swap")
    other.write_bytes(half)
    other.rename(path)
    assert [(row["problem"], "compacted before" in str(row["detail"])) for row in planned] == [("deleted", True)]
    path.write_bytes(whole)
    planned = reading(tmp_path)
    os.truncate(path, len(half))
    assert [row["problem"] for row in planned] == [None, "deleted"]
    planned = reading(tmp_path)
    path.unlink()
    assert [(row["problem"], "was deleted before" in str(row["detail"])) for row in planned] == [("deleted", True)]
    path.write_bytes(whole)
    planned = reading(tmp_path)
    shutil.rmtree(path.parent)
    assert [(row["problem"], "the topic was deleted" in str(row["detail"])) for row in planned] == [("unreadable", True)]


def test_a_file_that_is_cut_inside_a_batch_while_it_is_read_ends_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = log(tmp_path)
    writer.data(1)
    writer.data(1)
    writer.save(tmp_path)
    path, first = only_segment(tmp_path), len(writer.pieces[0])
    whole = path.read_bytes()
    really = segments.size_of

    def cut_after_the_size_is_known(file: BinaryIO) -> int:
        size = really(file)
        os.truncate(path, first + 70)
        return size

    monkeypatch.setattr(segments, "size_of", cut_after_the_size_is_known)
    assert [row["problem"] for row in reading(tmp_path)] == [None, "torn_tail"]
    path.write_bytes(whole[: first + 70])
    with path.open("rb") as file:
        assert [(at, walked.end) for at, _, walked in segments.whole_batches(file, 0, len(whole))] == [(0, first)]


def test_what_nobody_lets_us_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("broker 1", "broker 2"):
        writer = log(tmp_path)
        writer.data(1)
        writer.save(tmp_path / name)
    (tmp_path / "lost+found").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name == "broker 1")
    assert [each.path.parent.name for each in find_partitions(tmp_path)] == ["broker 1"]
    assert read_directory(tmp_path).problems == [f"{tmp_path / 'broker 2'}: permission denied, so nothing in it was audited"]
