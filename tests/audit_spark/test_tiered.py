"""Tiered storage (KIP-405): the audit reads the segments in a remote store together with the local segments."""

from __future__ import annotations

import json
import os
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import Writer, batch
from audit_spark.tiny_s3 import serving
from kafkawire.batches import Record, build_batch
from kafkawire.disk.remote_segments import COPY_FINISHED, COPY_STARTED, DELETE_FINISHED, REMOTE_METADATA, remote_name
from kafkawire.metadata_log import metadata_bytes
from kafkawire.primitives import format_uuid
from kafkawire.remote_records import remote_log_segment_metadata_record as added
from kafkawire.remote_records import remote_log_segment_metadata_update_record as updated
from wirebroker_audit.checks.comparison import compare, pairs
from wirebroker_audit.job import audit
from wirebroker_audit.logs.directory import find_partitions
from wirebroker_audit.logs.planning import directory_pieces
from wirebroker_audit.logs.tiered import NotARemoteStore, Tiering, with_remote
from wirebroker_audit.reading import remote
from wirebroker_audit.reading.reader import read_piece
from wirebroker_audit.reading.remote import place
from wirebroker_audit.request import CannotAudit, Request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wirebroker_audit.job import Result

pytestmark = pytest.mark.timeout(900)
RECORDED = Path(__file__).parents[1] / "data" / "tiered-kafka-4.3.1.tar.xz"
INPUTS = Path(__file__).parents[2] / "docs" / "how-to" / "audit-spark" / "inputs.md"
TOPICS = ("orders", "payments", "trimmed")


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """Returns a folder with two folders of a real Kafka: the log directory `node`, and the remote store `remote`, to which
    Kafka has moved segments."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def audited(spark: SparkSession, folder: Path, store: Path | None, topics: tuple[str, ...] = TOPICS, **more: Any) -> Result:
    return audit(spark, Request(folder / "report", path=folder / "node", topics=topics, remote_store=store, **more))


def segments(folder: Path, topic: str) -> list[Path]:
    return sorted(folder.glob(f"remote/*/{topic}-0-*/*.log"))


def short(result: Result) -> list[tuple[str, str, int, int]]:
    return sorted((each["kind"], each["severity"], each["first_offset"], each["last_offset"]) for each in result.findings)


# A real Kafka's directories


def test_a_tiered_log_is_audited_whole(spark: SparkSession, kafka: Path) -> None:
    consumed = json.loads((kafka / "consumed.json").read_text())
    result = audited(spark, kafka, kafka / "remote")
    assert (short(result), result.summary["notices"], result.exit_code) == ([], [], 0)
    counts = result.summary["topics"]
    assert {name: counts[name]["records"] for name in ("orders", "trimmed")} == {
        name: len(consumed[name]) for name in ("orders", "trimmed")
    }
    assert (counts["payments"]["committed"], counts["payments"]["aborted"]) == (60, 20)
    assert counts["payments"]["records"] - 20 * 5 == len(consumed["payments"]), "the rest was aborted"
    assert [(each["first"], each["end"]) for each in result.summary["ranges"]] == [(0, 600), (0, 480), (481, 600)]
    covered = result.summary["coverage"]["topics"]
    assert [(each["remote_segments"], each["remote_missing"]) for each in covered.values()] == [(18, 0), (14, 0), (2, 0)]
    assert "<th>remote segments</th>" in (kafka / "report" / "report.html").read_text().replace(' class="number"', "")


def test_without_the_store_the_audit_says_what_it_did_not_read(spark: SparkSession, kafka: Path) -> None:
    result = audited(spark, kafka, None)
    assert (short(result), result.exit_code) == ([], 0)
    (notice,) = result.summary["notices"]
    assert f"note: {notice}" in INPUTS.read_text(), "as the page shows it"
    (orders, _, trimmed) = result.summary["ranges"]
    assert orders["remote"] == {"segments": 0, "missing": 541, "missing_offsets": [[0, 540]]}
    assert trimmed["remote"]["missing_offsets"] == [[481, 540]]


LOST = {0: ("offset_gap", 0, 30), 7: ("gap", 210, 241), -2: ("gap", 510, 541)}
"""The expected finding for each segment of `orders` that a test deletes. It is a gap if a producer's sequences show which
records are gone."""


@pytest.mark.parametrize("index", LOST, ids=["first", "middle", "last before the local log"])
def test_a_lost_remote_segment_is_found(spark: SparkSession, kafka: Path, index: int) -> None:
    gone, following = segments(kafka, "orders")[index], segments(kafka, "orders")[index + 1]
    first, last = int(gone.name[:20]), int(following.name[:20]) - 1
    gone.unlink()
    result = audited(spark, kafka, kafka / "remote", ("orders",))
    assert LOST[index] in [(kind, *offsets) for kind, severity, *offsets in short(result) if severity == "certain"]
    assert result.exit_code == 1
    (notice,) = result.summary["notices"]
    assert f"lacks offsets {first} to {last}, " in notice
    if index == 7:
        assert f"note: {notice}" in INPUTS.read_text()
        (gap,) = (each for each in result.findings if each["kind"] == "gap")
        assert gap["explanation"] in INPUTS.read_text()
    assert result.summary["ranges"][0]["remote"]["missing_offsets"] == [[first, last]]


# Made directories


TOPIC_ID = bytes(range(16))
ID = format_uuid(TOPIC_ID)


class Tier:
    """A log directory and its remote store, made from a log that was written whole."""

    def __init__(self, folder: Path, log: Writer, *, aiven: bool = False) -> None:
        self.folder, self.log, self.aiven = folder, log, aiven
        log.save(folder / "whole")
        log.save(folder / "node")
        self.local = folder / "node" / "orders-0"
        self.remote = folder / "store" / (f"orders-{ID}/0" if aiven else f"orders-0-{ID}")
        self.remote.mkdir(parents=True)
        (self.local / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}\n")
        (folder / "node" / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
        self.records: list[bytes] = []
        self.ids = iter(range(1, 1 << 20))

    @property
    def firsts(self) -> list[int]:
        """The base offsets of the log's segments."""
        return [0, *(first for first, _ in self.log.segments)]

    def copy(self, start: int, end: int, *, state: int = COPY_FINISHED, epoch: int = 0, raw: bytes | None = None) -> Path:
        """Stores the batches from offset `start` up to `end` as a remote segment, with its metadata."""
        segment_id = next(self.ids).to_bytes(16, "big")
        path = self.remote / remote_name(start, segment_id)
        path.write_bytes(self.bytes_between(start, end) if raw is None else raw)
        if self.aiven:
            path.with_suffix(".rsm-manifest").write_text('{"version": "1", "compression": false}')
        self.note(segment_id, start, end, state, epoch)
        return path

    def bytes_between(self, start: int, end: int) -> bytes:
        return b"".join(each for each in self.log.pieces if start <= int.from_bytes(each[:8], "big") <= end)

    def note(self, segment_id: bytes, start: int, end: int, state: int, epoch: int = 0, topic: str = "orders") -> None:
        """Adds the metadata of a segment, as a broker would."""
        where = added.TopicIdPartitionEntry(name=topic, id=TOPIC_ID, partition=0)
        first = added.RemoteLogSegmentMetadataRecord(
            remote_log_segment_id=added.RemoteLogSegmentIdEntry(topic_id_partition=where, id=segment_id),
            start_offset=start, end_offset=end, broker_id=1, max_timestamp_ms=0, event_timestamp_ms=0,
            segment_leader_epochs=[added.SegmentLeaderEpochEntry(leader_epoch=epoch, offset=start)],
            segment_size_in_bytes=1, remote_log_segment_state=COPY_STARTED,
        )  # fmt: skip
        self.records.append(metadata_bytes(first, 0))
        same = updated.TopicIdPartitionEntry(name=topic, id=TOPIC_ID, partition=0)
        after = updated.RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=updated.RemoteLogSegmentIdEntry(topic_id_partition=same, id=segment_id),
            broker_id=1, event_timestamp_ms=0, remote_log_segment_state=state,
        )  # fmt: skip
        self.records.append(metadata_bytes(after, 0))

    def move(self, count: int, *, kept: int = 0) -> None:
        """Moves the first `count` segments to the store; the last `kept` of them stay in the local log, too."""
        firsts = [*self.firsts, self.log.offset]
        for index in range(count):
            self.copy(firsts[index], firsts[index + 1] - 1)
            if index < count - kept:
                (self.local / f"{firsts[index]:020d}.log").unlink()

    def write(self) -> None:
        """Writes `__remote_log_metadata`."""
        folder = self.folder / "node" / f"{REMOTE_METADATA}-0"
        folder.mkdir(exist_ok=True)
        raw = (
            build_batch([Record(0, 0, None, value)], base_offset=offset, base_timestamp=0, producer_id=-1, producer_epoch=-1,
                        base_sequence=-1)
            for offset, value in enumerate(self.records)
        )  # fmt: skip
        (folder / f"{0:020d}.log").write_bytes(b"".join(raw))

    def read(self, store: Path | None = None) -> Tiering:
        root = self.folder / "node"
        return with_remote(find_partitions(root, ("orders",)), root, store or self.folder / "store")


def log(segments: int = 6, batches: int = 4) -> Writer:
    writer = Writer("orders", 0, random.Random(1))
    for number in range(segments * batches):
        if number and number % batches == 0:
            writer.roll()
        writer.data(1 + number % 2, count=5)
    return writer


def rows(tiering: Tiering) -> list[tuple[Any, ...]]:
    """Returns the rows that are read, without their positions."""
    names = ("base_offset", "last_offset", "crc_stored", "problem", "detail")
    pieces = directory_pieces(tiering.folders)
    read = [row for piece in pieces for chunk in read_piece(piece) for row in chunk.rows.to_pylist()]
    return [tuple(row[name] for name in names) for row in read]


def whole(tier: Tier) -> list[tuple[Any, ...]]:
    return rows(Tiering(find_partitions(tier.folder / "whole")))


def test_each_batch_is_read_once_whatever_the_store_has_twice(tmp_path: Path) -> None:
    tier = Tier(tmp_path, log())
    tier.move(4, kept=1)  # segments of 20 offsets; the local log begins at offset 60
    tier.copy(10, 34)  # another leader has copied other segments
    tier.copy(35, 64)
    tier.copy(40, 44)
    tier.copy(45, 49)
    next(tier.remote.glob(f"{40:020d}-{'A' * 21}?.log")).unlink()
    tier.copy(0, 59, state=COPY_STARTED, raw=b"not yet")
    tier.copy(0, 59, state=DELETE_FINISHED, raw=b"deleted")
    tier.copy(0, 79, epoch=7, raw=b"of a leader that the log does not know")
    (tier.remote / remote_name(40, bytes(16))).write_bytes(b"not in the metadata")
    (tier.local / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    tier.write()
    found = tier.read()
    assert rows(found) == whole(tier)
    assert (found.problems, [each.first for each in found.folders[0].copied]) == ([], [60, 35])
    (notice,) = found.notices
    assert "1 remote segments are of an earlier leader's log" in notice


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with serving(tmp_path) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "any")
        remote._s3.cache_clear()
        yield tmp_path
    remote._s3.cache_clear()


@pytest.mark.parametrize("noted", [True, False], ids=["with metadata", "by names"])
@pytest.mark.parametrize("aiven", [True, False], ids=["aiven", "kafka"])
def test_both_layouts_are_read_from_s3(s3: Path, aiven: bool, noted: bool) -> None:
    tier = Tier(s3, log(), aiven=aiven)
    tier.move(4)
    if noted:
        tier.write()
    found = tier.read(place("s3a://store"))
    assert str(found.folders[0].remote[0].path).startswith(f"s3a://store/orders-{ID}/0/" if aiven else "s3a://store/orders-0-")
    assert rows(found) == whole(tier)
    assert [REMOTE_METADATA in each for each in found.notices] == ([] if noted else [True])


def test_a_partition_of_which_nothing_was_copied_yet_has_no_folder_in_the_store(tmp_path: Path) -> None:
    tier = Tier(tmp_path, log(), aiven=True)
    tier.remote.rename(tier.remote.with_name("1"))  # another partition's folder
    found = tier.read()
    assert rows(found) == whole(tier)
    assert (found.problems, found.facts) == ([], {})


def test_the_prefix_of_names_in_a_bucket_may_end_without_a_slash(tmp_path: Path) -> None:
    tier = Tier(tmp_path, log(), aiven=True)
    tier.move(3)
    (tmp_path / "store" / f"orders-{ID}").rename(tmp_path / "store" / f"cluster-7.orders-{ID}")
    assert rows(tier.read()) == whole(tier)


@pytest.mark.parametrize(
    ("manifest", "raw", "words"),
    [
        ('{"compression": true, "encryption": {"dataKey": "x"}}', b"", "is compressed and encrypted"),
        ('{"compression": false, "encryption": {"dataKey": "x"}}', None, "is encrypted"),
        (None, b"(\xb5/\xfd" + bytes(100), "has no manifest"),
        ("[" * 100_000, b"?" * 100, "has a damaged manifest"),
        ("[]", None, ""),
        (None, None, ""),
    ],
)
def test_segments_that_are_compressed_or_encrypted_are_named(
    tmp_path: Path, manifest: str | None, raw: bytes | None, words: str
) -> None:
    tier = Tier(tmp_path, log(), aiven=True)
    tier.move(3)
    tier.write()
    path = sorted(tier.remote.glob("*.log"))[1]
    path.write_bytes(path.read_bytes() if raw is None else raw or b"(\xb5/\xfd")
    path.with_suffix(".rsm-manifest").unlink()
    if manifest is not None:
        path.with_suffix(".rsm-manifest").write_text(manifest)
    told = [(problem, detail) for *_, problem, detail in rows(tier.read()) if problem]
    assert [problem for problem, _ in told] == (["unreadable"] if words else [])
    assert not words or f"{path} {words}" in told[0][1]


def test_without_metadata_a_notice_says_where_the_store_begins(tmp_path: Path) -> None:
    tier = Tier(tmp_path, log())
    tier.move(3)
    min(tier.remote.glob("*.log")).unlink()
    found = tier.read()
    assert found.folders[0].begins_at == 20
    assert "begins at offset 0, but the remote store has records only from offset 20 on" in found.notices[-1]


def test_a_place_without_these_segments_is_refused(tmp_path: Path) -> None:
    tier = Tier(tmp_path, log())
    tier.move(3)
    tier.write()
    (tmp_path / "empty").mkdir()
    for name, words in (("empty", "holds no segments of these topics"), ("nowhere", "No such file")):
        with pytest.raises(NotARemoteStore, match=words):
            tier.read(tmp_path / name)


HOSTILE = {
    "cut short": b"\x01\x00\x00\x07ord",
    "of another frame": b"\x00\x00\x00",
    "of an unknown kind": b"\x01\x63\x00",
    "empty": b"",
    "a huge array": b"\x01\x00\x00\x07orders" + bytes(60) + b"\xff\xff\xff\xff\x0f",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_metadata_is_named_and_the_rest_is_read(tmp_path: Path, kind: str) -> None:
    tier = Tier(tmp_path, log())
    tier.move(3)
    tier.records.insert(2, HOSTILE[kind])
    tier.write()
    found = tier.read()
    assert rows(found) == whole(tier)
    assert len(found.problems) == (kind != "of an unknown kind")
    assert all(f"{REMOTE_METADATA}-0" in each and "cannot be read" in each for each in found.problems)


def test_hostile_names_offsets_and_files_lead_nowhere(tmp_path: Path) -> None:
    tier = Tier(tmp_path, log())
    tier.move(3)
    for start, end in ((-5, 3), (9, 2), (2**62, 2**63 - 1)):
        tier.note(b"x" * 16, start, end, COPY_FINISHED)
    tier.note(b"y" * 16, 0, 10, COPY_FINISHED, topic="../../etc")
    tier.note(b"z" * 16, 0, 10, 99)
    tier.write()
    gone, pipe, link, *_ = sorted(tier.remote.glob("*.log"))
    secret = tmp_path / "secret"
    secret.write_bytes(link.read_bytes())
    for each in (gone, pipe, link):
        each.unlink()
    os.mkfifo(pipe)
    link.symlink_to(secret)
    (tier.remote / f"{0:020d}-..%2f..%2fsecret.log").write_bytes(b"?")
    (tier.remote / f"{'9' * 20}-{'A' * 22}.log").write_bytes(b"?")
    found = tier.read()
    assert found.folders[0].remote == ()
    assert len(found.problems) == 3
    assert "lacks offsets 0 to 59" in found.notices[0]
    assert found.folders[0].begins_at == 0, "so the loss is a finding"


def test_a_damaged_log_of_metadata_is_named(tmp_path: Path) -> None:
    tier = Tier(tmp_path, log())
    tier.move(3)
    tier.write()
    path = tmp_path / "node" / f"{REMOTE_METADATA}-0" / f"{0:020d}.log"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    (problem,) = tier.read().problems
    assert "later metadata there was not read" in problem


def test_the_copy_of_local_segments_is_compared(tmp_path: Path) -> None:
    tier = Tier(tmp_path, log())
    tier.move(5, kept=3)
    tier.write()
    assert [found for pair in pairs(tier.read().folders) for found in compare(pair)] == []
    damaged, other = sorted(tier.remote.glob("*.log"))[2:4]
    raw = bytearray(damaged.read_bytes())
    raw[-1] ^= 1
    damaged.write_bytes(raw)
    other.write_bytes(b"".join(batch(60 + 5 * number, [b"x"] * 5, pid=9, epoch=0, seq=5 * number) for number in range(4)))
    found = [found for pair in pairs(tier.read().folders) for found in compare(pair)]
    assert [(each.kind, each.severity, each.first_offset, each.last_offset) for each in found] == [
        ("replica_damage", "certain", 55, 59), ("replica_divergence", "certain", 60, 79),
    ]  # fmt: skip
    assert "the copy in the remote store is damaged" in found[0].explanation
    assert str(other) in found[1].explanation


# Audits of directories that the tests make


def test_faults_across_the_border_of_the_two_logs_are_found(spark: SparkSession, tmp_path: Path) -> None:
    writer = log(4)
    writer.data(3, count=5)  # the last batch of the remote log …
    writer.roll()
    writer.data(3, count=5, seq=0)  # … is stored again in the local log
    writer.data(3, count=5, seq=5)
    writer.data(3, count=5, seq=15)  # and five records are missing
    tier = Tier(tmp_path, writer)
    tier.move(4)
    tier.write()
    flipped = sorted(tier.remote.glob("*.log"))[1]
    raw = bytearray(flipped.read_bytes())
    raw[-1] ^= 1
    flipped.write_bytes(raw)
    result = audited(spark, tmp_path, tmp_path / "store", ("orders",))
    assert short(result) == [("crc", "certain", 35, 39), ("duplicate", "certain", 85, 89), ("gap", "certain", 94, 95)]


def test_thousands_of_remote_segments_share_a_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    tier = Tier(tmp_path, log(3000, 1))
    tier.move(2999)
    tier.write()
    result = audited(spark, tmp_path, tmp_path / "store", ("orders",))
    assert (short(result), result.summary["topics"]["orders"]["batches"]) == ([], 3000)
    assert len(list((tmp_path / "report" / "batches").glob("*.parquet"))) <= 8


def test_an_audit_continues_although_the_log_has_moved_to_the_store(spark: SparkSession, tmp_path: Path) -> None:
    first, second = Tier(tmp_path / "first", log(6)), Tier(tmp_path / "second", log(12))
    first.move(3)
    second.move(10)  # now the segment that was read last is in the store
    for each in (first, second):
        each.write()
    audited(spark, first.folder, first.folder / "store", ("orders",))
    earlier = first.folder / "report"
    result = audited(spark, second.folder, second.folder / "store", ("orders",), since=earlier)
    assert (short(result), result.summary["notices"]) == ([], [])
    assert result.summary["topics"]["orders"]["batches"] == 48
    with pytest.raises(CannotAudit, match="that audit ran with --remote-store"):
        audited(spark, second.folder, None, ("orders",), since=earlier)
