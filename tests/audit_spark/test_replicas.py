"""For each partition, the audit chooses the replica that it reads. It compares this replica with all other replicas."""

from __future__ import annotations

import os
import random
import shutil
import tarfile
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import Writer
from wirebroker import MockKafka
from wirebroker.audit.findings import Finding
from wirebroker_audit.checks.comparison import at_the_ends, compare, pairs
from wirebroker_audit.job import audit
from wirebroker_audit.logs import tails
from wirebroker_audit.logs.directory import NotALogDirectory, find_partitions, read_directory
from wirebroker_audit.request import Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)


def log(batches: int, seed: int = 1, *, roll: bool = False) -> Writer:
    """Writes a log with `batches` batches of ten records. Logs with the same seed begin with the same batches."""
    writer = Writer("orders", 0, random.Random(seed))
    for number in range(batches):
        if roll and number:
            writer.roll()
        writer.data(1, count=10, values=[b"%d.%d of %d" % (number, n, seed) for n in range(10)])
    return writer


def save(writer: Writer, node: Path, *, epochs: str = "", high_watermark: int | None = None, number: int = 0) -> Path:
    """Makes a broker's log directory that has only the log of `writer`. Returns the partition's folder."""
    writer.save(node)
    folder = node / f"{writer.topic}-{writer.partition}"
    (node / "meta.properties").write_text(f"version=1\nnode.id={number or int(node.name[-1])}\n")
    if epochs:
        lines = epochs.split(",")
        (folder / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    if high_watermark is not None:
        (node / "replication-offset-checkpoint").write_text(f"0\n1\n{writer.topic} {writer.partition} {high_watermark}\n")
    return folder


def compared(root: Path) -> list[Finding]:
    folders = find_partitions(root)
    return [found for each in folders for found in at_the_ends(each)] + [
        found for pair in pairs(folders) for found in compare(pair)
    ]


def short(found: list[Finding]) -> list[tuple[str, str, int, int]]:
    return sorted((each.kind, each.severity, each.first_offset, each.last_offset) for each in found)


# The choice


def test_within_one_leader_epoch_the_replica_that_reaches_farthest_is_read(tmp_path: Path) -> None:
    save(log(1), tmp_path / "node-1")
    save(log(2, roll=True), tmp_path / "node-2")
    (found,) = find_partitions(tmp_path)
    assert (found.node, [each.node for each in found.others]) == (2, [1])
    assert found.why == "its end offset is 20, the others' at most 10"
    assert read_directory(tmp_path)[1:] == ([], [])


def test_folders_of_brokers_may_lack_the_brokers_own_files(tmp_path: Path) -> None:
    for name in ("broker-1", "broker-2"):
        save(log(1), tmp_path / name)
        (tmp_path / name / "meta.properties").unlink()
    assert [each.path.parent.parent for each in find_partitions(tmp_path)] == [tmp_path], "broker-1 is not a partition"


def test_after_an_unclean_election_the_newer_leader_epoch_is_read(tmp_path: Path) -> None:
    save(log(15), tmp_path / "node-1", epochs="0 0", high_watermark=150)
    save(log(5), tmp_path / "node-2", epochs="0 0,1 50", high_watermark=50)
    (found,), problems, notices = read_directory(tmp_path)
    assert (found.node, found.why) == (2, "its leader epoch is 1, the others' at most 0")
    assert problems == []
    assert "node 1 reaches offset 150, in leader epoch 0" in notices[0]


def recreated(tmp_path: Path) -> None:
    """Node 1 was down while `orders` was deleted and created again. It still has the deleted topic's log, which is longer than
    the new topic's log."""
    with MockKafka(topics=["orders"], data=tmp_path / "node-2") as kafka:
        for value in range(5):
            kafka.produce("orders", value=f"{value} of the old topic")
    shutil.copytree(tmp_path / "node-2", tmp_path / "node-1")
    with MockKafka(data=tmp_path / "node-2") as kafka:
        kafka.delete_topic("orders")
        kafka.create_topic("orders")
        kafka.produce("orders", value="of the new topic")


def test_the_folder_of_a_deleted_topic_is_not_read_where_its_name_was_used_again(tmp_path: Path) -> None:
    recreated(tmp_path)
    (found,), _, notices = read_directory(tmp_path)
    assert (found.path.parent.name, found.others) == ("node-2", ())
    assert "node-1/orders-0 belongs to a deleted topic of this name" in notices[0]
    shutil.rmtree(tmp_path / "node-2" / "orders-0")
    with pytest.raises(NotALogDirectory, match="belongs to a deleted topic of this name"):
        read_directory(tmp_path)
    assert find_partitions(tmp_path / "node-1" / "orders-0"), "a folder that the user names is read"


def test_without_metadata_the_topic_whose_last_record_is_newer_is_read(tmp_path: Path) -> None:
    recreated(tmp_path)
    for node in ("node-1", "node-2"):
        shutil.rmtree(tmp_path / node / "__cluster_metadata-0")
    old, new = (tmp_path / node / "orders-0" for node in ("node-1", "node-2"))
    assert tails.tail_of(old).end > tails.tail_of(new).end
    writer = Writer("orders", 0, random.Random(1), time=1_600_000_000_000)
    writer.data(1, count=30)
    (old / f"{0:020}.log").write_bytes(b"".join(writer.pieces))
    (found,), _, notices = read_directory(tmp_path)
    assert found.path == new
    assert "node-1/orders-0 belongs to another topic of this name" in notices[0]


def test_folders_that_kafka_sets_aside_are_named(tmp_path: Path) -> None:
    node = tmp_path / "node-1"
    save(log(1), node)
    for kind in ("delete", "stray", "stray", "future"):
        (node / f"old-{len(list(node.iterdir()))}.{'0a' * 16}-{kind}").mkdir()
    notices = read_directory(tmp_path).notices
    assert len(notices) == 3
    assert any(
        "because the partition does not belong there; it was not read, and neither were 1 more" in each for each in notices
    )
    assert read_directory(tmp_path, ("orders",)).notices == []


def test_the_end_of_a_log_takes_a_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit finds the end of the log with the offset index, even if most of the index is unused. Without an index it reads
    the headers of the batches.
    """
    writer = log(400)
    folder = save(writer, tmp_path / "node-1")
    places = [0, *accumulate(map(len, writer.pieces))]
    assert tails.tail_of(folder).end == 4000
    entries = b"".join((n * 10 + 9).to_bytes(4, "big") + places[n].to_bytes(4, "big") for n in range(20, 400, 20))
    (folder / f"{0:020}.index").write_bytes(entries + bytes(10_000))
    begun = []
    real = tails._last_header
    monkeypatch.setattr(tails, "_last_header", lambda file, begin: begun.append(begin) or real(file, begin))  # type: ignore[func-returns-value]
    assert tails.tail_of(folder).end == 4000
    assert begun == [places[380]]
    (folder / f"{0:020}.index").write_bytes(entries[:-4] + (7).to_bytes(4, "big"))
    assert tails.tail_of(folder).end == 4000, "an index with wrong positions"
    (folder / f"{0:020}.index").write_bytes(entries + bytes(10_000))
    path = folder / f"{0:020}.log"
    os.truncate(path, places[379] + 5)
    assert tails.tail_of(folder).end == 3790, "an index with entries after the end of the log, as after a power cut"
    path.unlink()
    assert tails.tail_of(folder).end == 0, "a folder without a segment has no records"


@pytest.fixture
def kafka_4_3_1(tmp_path: Path) -> Path:
    """The log directories of three nodes of Kafka 4.3.1 with replication.factor=2 (the files of large indexes are cut short).

    `unclean-0` got 50 records. Then node 2 stopped, and node 1 alone committed 100 more records and never ran again.
    Node 2 became the leader, and got 20 records. `again-0` got 50 records on nodes 1 and 2. While node 1 was dead, the topic
    `again` was deleted and created again on nodes 2 and 3, and got 20 records. `fine-0` got 70 records on nodes 3 and 2. At the
    end, nodes 2 and 3 were killed.
    """
    with tarfile.open(Path(__file__).parents[1] / "data" / "replicas-kafka-4.3.1.tar.xz") as file:
        file.extractall(tmp_path / "real", filter="data")
    return tmp_path / "real"


def test_a_real_cluster_after_an_unclean_election_and_a_topic_created_again(kafka_4_3_1: Path) -> None:
    found, problems, notices = read_directory(kafka_4_3_1)
    read = {each.topic: (each.node, each.tail.end, each.why) for each in found}
    assert read == {
        "again": (2, 20, "it is the leader, in leader epoch 0"),
        "fine": (3, 70, "it is the leader, in leader epoch 0"),
        "unclean": (2, 70, "it is the leader, in leader epoch 1"),
    }
    assert problems == []
    assert [each.partition(": ")[0] for each in notices[1:]] == ["again-0", "unclean-0"]
    assert "waits for its deletion" in notices[0]
    assert short(compared(kafka_4_3_1)) == [("replica_divergence", "certain", 50, 149)]


def test_a_real_cluster_without_its_metadata(kafka_4_3_1: Path) -> None:
    """Without the cluster's metadata, the audit uses the partitions' files, and chooses the same replicas as with the
    metadata."""
    for each in kafka_4_3_1.glob("node-*/__cluster_metadata-0"):
        shutil.rmtree(each)
    found, _, notices = read_directory(kafka_4_3_1)
    assert [(each.topic, each.tail.end) for each in found] == [("again", 20), ("fine", 70), ("unclean", 70)]
    assert "whose last record is older" in notices[1]


def test_a_damaged_follower_of_a_real_cluster(kafka_4_3_1: Path) -> None:
    path = kafka_4_3_1 / "node-2" / "fine-0" / f"{0:020}.log"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 16
    path.write_bytes(raw)
    os.truncate(kafka_4_3_1 / "node-3" / "fine-0" / path.name, len(raw) - 1)
    assert short(compared(kafka_4_3_1)) == [
        ("replica_damage", "certain", 60, 69),
        ("replica_divergence", "certain", 50, 149),
        ("truncated", "likely", 60, 69),
    ]


# The comparison


def test_replicas_that_are_alike_have_no_finding(tmp_path: Path) -> None:
    save(log(9), tmp_path / "node-1", epochs="0 0", high_watermark=90)
    save(log(9, roll=True), tmp_path / "node-2", epochs="0 0", high_watermark=80)
    assert compared(tmp_path) == []


def test_a_follower_that_is_behind_and_a_tail_that_is_gone(tmp_path: Path) -> None:
    save(log(9), tmp_path / "node-1", epochs="0 0", high_watermark=90)
    save(log(7), tmp_path / "node-2", epochs="0 0", high_watermark=80)
    assert short(compared(tmp_path)) == [("replica_behind", "info", 70, 89), ("truncated", "likely", 70, 79)]
    (tmp_path / "node-2" / ".kafka_cleanshutdown").write_text("")
    assert ("truncated", "certain", 70, 79) in short(compared(tmp_path))
    shutil.rmtree(tmp_path / "node-1")
    assert short(compared(tmp_path)) == [("truncated", "certain", 70, 79)], "a single replica shows the loss, too"


@pytest.mark.parametrize("rolled", [False, True])
def test_bit_rot_on_a_follower(rolled: bool, tmp_path: Path) -> None:
    save(log(9), tmp_path / "node-1", epochs="0 0", high_watermark=90)
    folder = save(log(9, roll=rolled), tmp_path / "node-2", epochs="0 0", high_watermark=90)
    paths = sorted(folder.glob("*.log"))
    path, at = (paths[4], 70) if rolled else (paths[0], 4 * (paths[0].stat().st_size // 9) + 70)
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)
    (found,) = compared(tmp_path)
    assert short([found]) == [("replica_damage", "certain", 40, 49)]
    assert f"position {at - 70} of {path}" in found.explanation
    raw[at - 70 + 16] = 9  # a wrong magic byte, so that the bytes do not look like a batch
    path.write_bytes(raw)
    kinds = {each.kind for each in compared(tmp_path)}
    assert kinds == ({"replica_divergence"} if rolled else {"replica_damage"})


def test_a_wrong_length_on_a_follower_does_not_end_the_comparison(tmp_path: Path) -> None:
    save(log(9), tmp_path / "node-1", epochs="0 0,1 90", high_watermark=90)
    writer = log(9)
    raw = bytearray(writer.pieces[4])
    raw[9] ^= 0x40  # the length is now 4 MiB larger than the file
    writer.pieces[4] = bytes(raw)
    save(writer, tmp_path / "node-2", epochs="0 0", high_watermark=90)
    assert short(compared(tmp_path)) == [("replica_damage", "certain", 40, 49)]


def test_what_the_leader_alone_has_lost(tmp_path: Path) -> None:
    save(log(7), tmp_path / "node-1", epochs="0 0,1 90", high_watermark=90)
    save(log(9), tmp_path / "node-2", epochs="0 0", high_watermark=90)
    gone, differs = compared(tmp_path)
    assert short([gone, differs]) == [("replica_divergence", "certain", 70, 89), ("truncated", "likely", 70, 89)]
    assert (
        f"node 1 has lost these records, and node 2 still has them. Copy {tmp_path}/node-2/orders-0 before"
        in differs.explanation
    )
    assert read_directory(tmp_path).notices == [], "the findings already report the difference"


def test_a_log_without_a_segment_has_lost_everything(tmp_path: Path) -> None:
    folder = save(log(9), tmp_path / "node-1", epochs="0 0", high_watermark=90)
    next(folder.glob("*.log")).unlink()
    assert short(compared(tmp_path)) == [("truncated", "likely", 0, 89)]


def test_a_batch_that_a_follower_lacks_or_holds_otherwise(tmp_path: Path) -> None:
    save(log(9), tmp_path / "node-1", epochs="0 0", high_watermark=90)
    without = log(9)
    del without.pieces[3]
    save(without, tmp_path / "node-2", epochs="0 0", high_watermark=90)
    (found,) = compared(tmp_path)
    assert short([found]) == [("replica_divergence", "certain", 30, 39)]
    shutil.rmtree(tmp_path / "node-2")
    other = log(9)
    other.pieces[5:7] = log(9, seed=2).pieces[5:7]
    save(other, tmp_path / "node-2", epochs="0 0", high_watermark=90)
    assert short(compared(tmp_path)) == [("replica_divergence", "certain", 50, 69)]


def test_what_an_unclean_election_lost_was_below_the_old_leaders_high_watermark(tmp_path: Path) -> None:
    save(log(15), tmp_path / "node-1", epochs="0 0", high_watermark=120)
    new = log(5)
    for number in range(3):
        new.data(7, count=10, values=[b"later %d" % number] * 10)
    save(new, tmp_path / "node-2", epochs="0 0,1 50", high_watermark=80)
    (found,) = compared(tmp_path)
    assert short([found]) == [("replica_divergence", "certain", 50, 119)], "records beyond offset 120 were never committed"
    assert "the cluster no longer has records that this replica had committed" in found.explanation


def test_compaction_and_retention_make_no_difference(tmp_path: Path) -> None:
    save(log(9, roll=True), tmp_path / "node-1", epochs="0 0", high_watermark=90)
    folder = save(log(9, roll=True), tmp_path / "node-2", epochs="0 0", high_watermark=90)
    (folder / f"{0:020}.log").unlink()
    os.truncate(folder / f"{20:020}.log", 0)
    (tmp_path / "node-2" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 25\n")
    assert compared(tmp_path) == []


def test_a_report_of_three_nodes(spark: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save(log(9), tmp_path / "logs" / f"node-{number}", epochs="0 0", high_watermark=90)
    path = tmp_path / "logs" / "node-3" / "orders-0" / f"{0:020}.log"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    result = audit(spark, Request(tmp_path / "out", tmp_path / "logs"))
    assert result.summary["findings"] == {"replica_damage": 1}
    (read,) = result.summary["ranges"]
    assert (read["topic"], read["partition"], read["first"], read["end"]) == ("orders", 0, 0, 90)
    assert (read["why"], len(read["others"])) == ("the replicas end alike", 2)
    page = (tmp_path / "out" / "report.html").read_text().replace("<wbr>", "")
    assert "the replicas end alike" in page
    assert str(tmp_path / "logs" / "node-1" / "orders-0") in page


def test_missing_offsets_are_certain_only_where_a_file_tells_of_compaction(spark: SparkSession, tmp_path: Path) -> None:
    """If only a partition's folder was copied, the audit does not know whether its topic is compacted."""
    writer = log(1)
    writer.offset += 5
    writer.data(1, count=10)
    folder = save(writer, tmp_path / "node-1")

    def severities(path: Path) -> dict[str, str]:
        kinds = audit(spark, Request(tmp_path / "report", path)).summary["kinds"]
        return {each["kind"]: each["severity"] for each in kinds}

    assert severities(folder) == {"offset_gap": "likely"}
    (tmp_path / "node-1" / "cleaner-offset-checkpoint").write_text("0\n0\n")
    assert severities(folder) == {"offset_gap": "certain"}
