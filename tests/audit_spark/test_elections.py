"""Unclean elections, which the audit finds in the cluster's own metadata, without a journal."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.test_replicas import log, save, short
from kafkawire.batches import Record, build_batch
from kafkawire.declare import Message
from kafkawire.metadata_log import metadata_bytes
from kafkawire.metadata_records.config_record import ConfigRecord
from kafkawire.metadata_records.partition_change_record import PartitionChangeRecord
from kafkawire.metadata_records.partition_record import PartitionRecord
from kafkawire.metadata_records.topic_record import TopicRecord
from wirebroker import MockKafka
from wirebroker.audit.findings import Finding
from wirebroker_audit.checks.elections import findings_of
from wirebroker_audit.job import audit
from wirebroker_audit.logs.directory import find_partitions
from wirebroker_audit.logs.durability import Durability, notices_of
from wirebroker_audit.logs.elections import read_elections
from wirebroker_audit.request import Request
from wirekit import RawProducer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

ID = bytes(range(16))
AT_MS = 1_700_000_000_000
CREATED: Sequence[Message] = (
    TopicRecord(name="orders", topic_id=ID),
    PartitionRecord(partition_id=0, topic_id=ID, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0, partition_epoch=0),
)
SHRUNK = PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1])
LEADERLESS = PartitionChangeRecord(partition_id=0, topic_id=ID, leader=-1)
UNCLEAN = PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[2], leader=2, leader_recovery_state=1)
RECOVERED = PartitionChangeRecord(partition_id=0, topic_id=ID, leader_recovery_state=0)


def write_metadata(log_dir: Path, *records: Message, base: int = 0, snapshot: Sequence[Message] = ()) -> None:
    """Writes a metadata log that begins at the offset `base`, with one record in each batch. `snapshot` has the state before
    these records.
    """
    folder = log_dir / "__cluster_metadata-0"
    folder.mkdir(parents=True, exist_ok=True)

    def batches(held: Sequence[Message], first: int) -> bytes:
        made = (
            build_batch([Record(0, 0, None, metadata_bytes(each, each.__schema__.versions[1]))], base_offset=first + number,
                        leader_epoch=1, base_timestamp=AT_MS + (first + number) * 1000)
            for number, each in enumerate(held)
        )  # fmt: skip
        return b"".join(made)

    (folder / f"{base:020}.log").write_bytes(batches(records, base))
    if snapshot:
        (folder / f"{base:020}-{1:010}.checkpoint").write_bytes(batches(snapshot, 0))


def elections(root: Path) -> list[Finding]:
    folders = find_partitions(root)
    return list(findings_of(folders, read_elections(root, folders)))


def two_nodes(root: Path, old: int = 15, new: int = 5) -> None:
    """Writes the logs of two nodes. Node 1 was the first leader, and has `old` batches of ten records. When node 2 became the
    leader, it had the first `new` of these batches. Then node 2 got two more batches.
    """
    save(log(old), root / "node-1", epochs="0 0", high_watermark=old * 10)
    save(log(new + 2), root / "node-2", epochs=f"0 0,2 {new * 10}", high_watermark=new * 10)


def test_a_replica_that_still_has_the_records_makes_it_certain(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    write_metadata(tmp_path / "node-1", *CREATED, SHRUNK)
    write_metadata(tmp_path / "node-2", *CREATED, SHRUNK, LEADERLESS, UNCLEAN, RECOVERED)
    (found,) = elections(tmp_path)
    assert short([found]) == [("unclean_election", "certain", 50, 149)]
    evidence = json.loads(found.evidence)
    assert (evidence["leader"], evidence["former_leader"], evidence["leader_epoch"]) == (2, 1, 2)
    assert (evidence["in_sync"], evidence["at_ms"], evidence["from_offset"]) == ([1], AT_MS + 4000, 50)
    assert evidence["kept_in"] == str(tmp_path / "node-1" / "orders-0")
    assert "at 2023-11-14 22:13:24 UTC: node 2 became the leader without being in sync; node 1 had led" in found.explanation
    assert f"Copy {tmp_path}/node-1/orders-0 before that broker starts" in found.explanation


def test_once_the_former_leader_is_back_the_checkpoint_leaves_doubt(tmp_path: Path) -> None:
    for node in (1, 2):
        save(log(9), tmp_path / f"node-{node}", epochs="0 0,2 50", high_watermark=90)
        back = PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[2, 1])
        write_metadata(tmp_path / f"node-{node}", *CREATED, SHRUNK, LEADERLESS, UNCLEAN, RECOVERED, back)
    (found,) = elections(tmp_path)
    assert short([found]) == [("unclean_election", "likely", 50, -1)]
    assert "from offset 50 on is lost; no replica here shows how many" in found.explanation
    shutil.rmtree(tmp_path / "node-1")
    assert short(elections(tmp_path)) == [("unclean_election", "likely", 50, -1)], "one broker's directory is enough"
    shutil.rmtree(tmp_path / "node-2" / "orders-0")
    folder = save(log(9), tmp_path / "node-2", epochs="3 70", high_watermark=90)
    assert short(elections(tmp_path)) == [("unclean_election", "likely", -1, -1)], "no epoch entry has the offset"
    (folder / "leader-epoch-checkpoint").write_text("nonsense")
    assert short(elections(tmp_path)) == [("unclean_election", "likely", -1, -1)]


def test_nothing_is_lost_if_the_former_leader_never_learned_of_the_election_and_ends_there_too(tmp_path: Path) -> None:
    two_nodes(tmp_path, old=5)
    write_metadata(tmp_path / "node-1", *CREATED, SHRUNK)
    write_metadata(tmp_path / "node-2", *CREATED, SHRUNK, LEADERLESS, UNCLEAN)
    assert short(elections(tmp_path)) == [("unclean_election", "info", 50, 50)]
    write_metadata(tmp_path / "node-1", *CREATED, SHRUNK, LEADERLESS, UNCLEAN)
    assert short(elections(tmp_path)) == [("unclean_election", "likely", 50, -1)], "node 1 may have truncated since"


def test_each_of_two_elections_has_the_replica_that_it_left_behind(tmp_path: Path) -> None:
    """Node 1 stopped in leader epoch 0 and node 2 in epoch 1; node 3 has been the leader since epoch 2."""
    save(log(15), tmp_path / "node-1", epochs="0 0", high_watermark=150)
    save(log(12), tmp_path / "node-2", epochs="0 0,1 50", high_watermark=120)
    save(log(9), tmp_path / "node-3", epochs="0 0,1 50,2 70", high_watermark=90)
    again = PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[3], leader=3, leader_recovery_state=1)
    write_metadata(tmp_path / "node-3", *CREATED, SHRUNK, UNCLEAN, RECOVERED, again)
    one, other = elections(tmp_path)
    assert short([one, other]) == [("unclean_election", "certain", 50, 149), ("unclean_election", "certain", 70, 119)]
    told = [json.loads(each.evidence) for each in (one, other)]
    assert [(each["former_leader"], each["leader"], Path(each["kept_in"]).parent.name) for each in told] == [
        (1, 2, "node-1"), (2, 3, "node-2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "records",
    [
        (),
        (LEADERLESS, PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2, isr=[2])),
        (PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2, isr=[2, 1]),),
        (PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1),),
        (SHRUNK, PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1, 2]), LEADERLESS,
         PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2, isr=[2])),
        (PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1], eligible_leader_replicas=[2]),
         PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[], leader=-1, eligible_leader_replicas=[2, 1]),
         PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[2], leader=2, eligible_leader_replicas=[1])),
        (PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=[1, 2, 3], adding_replicas=[3]),
         PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1, 2, 3]),
         PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=[3, 2], isr=[3, 2], leader=3)),
    ],
    ids=["none", "failover", "moved", "epoch bump", "back in sync", "eligible", "reassigned"],
)  # fmt: skip
def test_clean_elections_are_no_finding(records: tuple[Message, ...], tmp_path: Path) -> None:
    """The old leader may have records that were never committed."""
    two_nodes(tmp_path)
    write_metadata(tmp_path / "node-2", *CREATED, *records)
    assert elections(tmp_path) == []


def test_without_kafkas_mark_the_replicas_in_sync_decide(tmp_path: Path) -> None:
    """Before metadata.version 3.2, partition records have no leader recovery state."""
    two_nodes(tmp_path)
    write_metadata(tmp_path / "node-2", *CREATED, SHRUNK, PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[2], leader=2))
    assert short(elections(tmp_path)) == [("unclean_election", "certain", 50, 149)]


def test_snapshots_hide_elections_and_older_files_tell_them(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    after = (
        CREATED[0],
        PartitionRecord(partition_id=0, topic_id=ID, replicas=[1, 2], isr=[2], leader=2, leader_epoch=2, partition_epoch=4),
    )
    node = tmp_path / "node-2"
    write_metadata(node, RECOVERED, base=7, snapshot=after)
    assert elections(tmp_path) == []
    write_metadata(node, *CREATED, SHRUNK, LEADERLESS, UNCLEAN)
    assert len(elections(tmp_path)) == 1, "the audit reads the segment before the snapshot"
    oldest = node / "__cluster_metadata-0" / f"{0:020}.log"
    oldest.write_bytes(oldest.read_bytes()[:-1])
    assert elections(tmp_path) == [], "the newest snapshot counts if an older file is damaged"
    oldest.unlink()
    write_metadata(tmp_path / "node-1", *CREATED, SHRUNK, LEADERLESS, UNCLEAN)
    assert len(elections(tmp_path)) == 1, "another node still has the older segment"
    during = PartitionRecord(
        partition_id=0, topic_id=ID, replicas=[1, 2], isr=[2], leader=2, leader_epoch=2, leader_recovery_state=1
    )
    shutil.rmtree(tmp_path / "node-1" / "__cluster_metadata-0")
    write_metadata(node, RECOVERED, base=7, snapshot=(CREATED[0], during))
    (found,) = elections(tmp_path)
    assert json.loads(found.evidence)["former_leader"] == -1


def test_records_that_a_dead_controller_alone_wrote_do_not_count(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    write_metadata(tmp_path / "node-1", *CREATED, SHRUNK, LEADERLESS, UNCLEAN)
    write_metadata(tmp_path / "node-2", *CREATED, *[RECOVERED] * 9)
    assert elections(tmp_path) == []


def test_a_topic_deleted_and_made_again_has_no_part_in_it(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    write_metadata(tmp_path / "node-2", *CREATED, SHRUNK, UNCLEAN)
    for node in (1, 2):
        (tmp_path / f"node-{node}" / "orders-0" / "partition.metadata").write_text(
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ\n"
        )
    folders = find_partitions(tmp_path / "node-2" / "orders-0")
    assert list(findings_of(folders, read_elections(tmp_path, folders))) == []


@pytest.mark.parametrize("content", [b"", b"\0" * 61, b"\xff" * 100])
def test_hostile_metadata_stops_nothing(content: bytes, tmp_path: Path) -> None:
    two_nodes(tmp_path)
    folder = tmp_path / "node-1" / "__cluster_metadata-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(content)
    (folder / f"{5:020}-{1:010}.checkpoint").write_bytes(content)
    write_metadata(tmp_path / "node-2", *CREATED, SHRUNK, UNCLEAN)
    assert len(elections(tmp_path)) == 1


# Settings


def risky(name: str = "orders") -> tuple[Message, ...]:
    def setting(kind: int, of: str, value: str, setting: str = "unclean.leader.election.enable") -> ConfigRecord:
        return ConfigRecord(resource_type=kind, resource_name=of, name=setting, value=value)

    return setting(4, "", "2", "min.insync.replicas"), setting(2, name, "true"), setting(2, name, "1", "min.insync.replicas")


def test_settings_that_may_lose_acknowledged_records_are_named(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    write_metadata(tmp_path / "node-1", *CREATED)
    folders = find_partitions(tmp_path)
    known = read_elections(tmp_path, folders).durability
    assert known == {"orders": Durability(2, 1, unclean=False)}, "Kafka's defaults"
    assert notices_of(known, {"orders": 0}) == [], "nobody is known to rely on acks=all"
    (weak,) = notices_of(known, {"orders": 7, "other": 1})
    assert weak.startswith("orders: min.insync.replicas is below 2 and producers use acks=all (at least the 7 that")
    write_metadata(tmp_path / "node-2", *CREATED, risky()[0])
    assert notices_of(read_elections(tmp_path, folders).durability, {"orders": 7}) == [], "the default of all brokers is 2"
    write_metadata(tmp_path / "node-2", *CREATED, *risky())
    unclean, weak = notices_of(read_elections(tmp_path, folders).durability, {"orders": 7})
    assert unclean.startswith("orders: unclean.leader.election.enable is on")
    alone = {f"t{number:02}": Durability(2, 1) for number in range(25)}
    assert ", t19 and 5 more topics: min" in notices_of(alone, dict.fromkeys(alone, 1))[0]
    assert notices_of({"orders": Durability(1, 1, unclean=True)}, {"orders": 1}) == [], "a single replica has no election"


def test_a_live_cluster_tells_the_settings_that_apply(spark: SparkSession, tmp_path: Path) -> None:
    with MockKafka(brokers=3) as kafka:
        for name, configs in (("orders", {"unclean.leader.election.enable": "true"}), ("safe", {"min.insync.replicas": "2"})):
            kafka.create_topic(name, replication_factor=3, configs=configs)
            kafka.move_leader(name, 0, to=1)
            assert RawProducer(kafka, name).send(0).error_code == 0
        summary = audit(spark, Request(tmp_path / "out", bootstrap=kafka.bootstrap_servers)).summary
    unclean, weak = summary["notices"]
    assert unclean.startswith("orders: unclean.leader.election.enable is on")
    assert weak.startswith("orders: min.insync.replicas is below 2")


# Three real brokers


@pytest.fixture
def kafka_4_3_1(tmp_path: Path) -> Path:
    """The log directories of the elections that scripts/record elections describes."""
    with tarfile.open(Path(__file__).parents[1] / "data" / "elections-kafka-4.3.1.tar.xz") as file:
        file.extractall(tmp_path / "real", filter="data")
    return tmp_path / "real"


def by_topic(found: list[Finding]) -> dict[str, tuple[str, int, int]]:
    return {each.topic: (each.severity, each.first_offset, each.last_offset) for each in found}


def test_a_real_cluster_before_and_after_its_old_leader_is_back(kafka_4_3_1: Path) -> None:
    away, back = by_topic(elections(kafka_4_3_1 / "away")), by_topic(elections(kafka_4_3_1 / "back"))
    assert away == {"unclean": ("certain", 50, 149), "allowed": ("certain", 50, 149), "idle": ("info", 50, 50)}
    assert back == dict.fromkeys(("unclean", "allowed", "idle"), ("likely", 50, -1))
    for node in (2, 3):
        assert by_topic(elections(kafka_4_3_1 / "back" / f"node-{node}")) == back


def test_the_report_of_a_real_cluster_whose_old_leader_is_back(spark: SparkSession, kafka_4_3_1: Path, tmp_path: Path) -> None:
    result = audit(spark, Request(tmp_path / "out", kafka_4_3_1 / "back"))
    assert result.summary["findings"] == {"unclean_election": 3}
    assert result.exit_code == 1
    page = (tmp_path / "out" / "report.html").read_text()
    assert "unclean_election" in page
    assert "Unclean elections are known since 20" in page
    assert result.summary["coverage"]["elections_from_ms"] == read_elections(kafka_4_3_1 / "back", ()).begins_ms > 0
    clean = audit(spark, Request(tmp_path / "clean", kafka_4_3_1 / "back", topics=("clean",)))
    assert (clean.summary["findings"], clean.exit_code) == ({}, 0)
