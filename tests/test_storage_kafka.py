"""Data directories and a real Kafka: Kafka's tools read our files, wirebroker serves Kafka's directory, and Kafka serves our
directory.

Needs java, and Kafka's jars. `scripts/interop --fetch` fetches the jars.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from crashkit import commit, committed
from ecosystem.kafka.releases import fetch_jars
from ecosystem.kafka.server import KafkaServer
from kafkawire.batches import Record, build_batch, iter_batches, iter_records, read_header
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from requesting import create_topic, end_txn, init_producer_id, produce_request
from responses import only, sole
from wirebroker.client.wire import WireClient
from wirebroker.mock import MockKafka
from wirekit import client, kafka_jars

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent

DUMP = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.flush.offset.checkpoint.interval.ms": "500"}
TOPICS = {
    "plain": {}, "mine": {"segment.bytes": "1048576"},
    "packed": {"max.message.bytes": "2000000"},
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def needs_java() -> None:
    kafka_jars()


def dumped(*arguments: str) -> str:
    """Returns the output of kafka-dump-log. Fails if it reports a mismatch."""
    jars = fetch_jars()
    command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", DUMP, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "Found timestamp mismatch" not in run.stdout
    assert "mismatch" not in run.stdout.lower(), run.stdout[-2000:]
    return run.stdout


# A dialogue that is possible with Kafka and with wirebroker


def eventually(ask: Callable[[], T], settled: Callable[[T], bool]) -> T:
    """Repeats a request until the response is final, because a real broker needs time. Returns the response."""
    deadline = time.monotonic() + 60
    while not settled(response := ask()):
        assert time.monotonic() < deadline, response
        threading.Event().wait(0.05)
    return response


class Dialogue:
    """Writes data of all kinds to a broker. The requests depend only on the broker's responses."""

    def __init__(self, wire: WireClient, now: int) -> None:
        self.wire = wire
        self.now = now
        self.versions: dict[str, int] = {}

    def topics(self) -> None:
        for name, configs in TOPICS.items():
            response = sole(self.wire.request(create_topic(name, configs=configs), 7).topics)
            assert response.error_code == 0, response
        wanted = [MetadataRequestTopic(name=name, topic_id=bytes(16)) for name in TOPICS]
        eventually(
            lambda: self.wire.request(MetadataRequest(topics=wanted), 12).topics,
            lambda told: all(topic.error_code == 0 and sole(topic.partitions).leader_id >= 0 for topic in told),
        )

    def produce(self, topic: str, records: list[Record], transactional_id: str | None = None, **options: Any) -> Any:
        made = build_batch(records, base_timestamp=self.now, transactional=transactional_id is not None, **options)
        request = produce_request(topic, made, txid=transactional_id)
        return only(self.wire.request(request, 12))

    def idempotent(self, topic: str, sequences: range, pid: int, size: int = 10) -> list[int]:
        offsets = []
        for sequence in sequences:
            record = Record(0, 0, b"k%d" % (sequence % 7), b"%d " % sequence + random.Random(sequence).randbytes(size))
            response = self.produce(topic, [record], producer_id=pid, producer_epoch=0, base_sequence=sequence)
            assert response.error_code == 0, (sequence, response)
            offsets.append(response.base_offset)
        return offsets

    def producer(self, transactional_id: str | None = None) -> tuple[int, int]:
        if transactional_id is not None:
            self.coordinator(transactional_id, 1)
        request = init_producer_id(transactional_id)
        response = eventually(lambda: self.wire.request(request, 5), lambda each: each.error_code == 0)
        return response.producer_id, response.producer_epoch

    def coordinator(self, key: str, kind: int) -> None:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        eventually(lambda: self.wire.request(request, 3), lambda response: response.error_code == 0)

    def transaction(self, topic: str, name: str, commits: bool | None) -> None:
        """Runs a transaction with three records. If `commits` is None, the transaction stays open."""
        pid, epoch = self.producer(name)
        records = [Record(i, 0, b"t%d" % i, b"%s %s" % (name.encode(), str(commits).encode())) for i in range(3)]
        response = eventually(
            lambda: self.produce(topic, records, name, producer_id=pid, producer_epoch=epoch, base_sequence=0),
            lambda each: each.error_code not in (6, 16, 51),  # these errors end with the election or the transaction
        )
        assert response.error_code == 0, response
        if commits is not None:
            end = end_txn(name, (pid, epoch), commits)
            assert self.wire.request(end, 5).error_code == 0


def stored(wire: WireClient, topic: str, isolation: int = 1) -> list[tuple[int, bytes | None, bytes | None, int]]:
    """Returns two values: the offset, key, value and producer id of each record that Fetch returns, and the aborted
    transactions.
    """
    found: list[tuple[int, bytes | None, bytes | None, int]] = []
    offset = 0
    while True:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, isolation_level=isolation,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )  # fmt: skip
        response = eventually(
            lambda request=request: only(wire.request(request, 11)),
            lambda each: each.error_code not in (3, 5, 6),
        )
        assert response.error_code == 0, response
        for each in iter_batches(response.records or b""):
            header = read_header(each)
            for record in iter_records(each):
                found.append((header.base_offset + record.offset_delta, record.key, record.value, header.producer_id))
            offset = header.last_offset + 1
        for aborted in response.aborted_transactions or ():
            found.append((aborted.first_offset, None, b"aborted", aborted.producer_id))
        if not response.records:
            return found


def everything(wire: WireClient) -> dict[str, Any]:
    """Returns the records that a consumer gets from every topic. For a compacted topic, returns only the last record of each
    key, because compaction may not have removed earlier records yet.
    """
    found: dict[str, Any] = {f"{topic} {isolation}": stored(wire, topic, isolation) for topic in TOPICS for isolation in (0, 1)}
    for name in ("compacted 0", "compacted 1"):
        found[name] = {key: (offset, value) for offset, key, value, _ in found[name]}
    return found


def speak(dialogue: Dialogue) -> int:
    """Writes data of all kinds. Returns the producer id of the records in the topic `plain`."""
    pid, _ = dialogue.producer()
    dialogue.idempotent("plain", range(10), pid)
    for codec in (1, 2, 3, 4):
        records = [Record(i, i, b"k", b"value " * 20) for i in range(50)]
        assert dialogue.produce("packed", records, compression=codec).error_code == 0
    dialogue.idempotent("compacted", range(60), dialogue.producer()[0], 40_000)
    assert dialogue.produce("compacted", [Record(0, 0, b"k3", None)]).error_code == 0
    for name, commits in (("tx-a", True), ("tx-b", False), ("tx-a", False), ("tx-open", None)):
        dialogue.transaction("plain", name, commits)
    return pid


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[MockKafka]:
    with MockKafka(profile="kafka-4.3", data=tmp_path / "data", configs=SETTINGS) as kafka:
        yield kafka


def test_kafkas_tools_read_every_file(ours: MockKafka, tmp_path: Path) -> None:
    dialogue = Dialogue(client(ours), ours.clock.now())
    dialogue.topics()
    pid = speak(dialogue)
    assert commit(dialogue.wire, 3, "plain") == 0
    ours.clock.advance(seconds=2)
    compacted = (tmp_path / "data" / "compacted-0").glob
    ours.wait_until(lambda: sum(path.stat().st_size for path in compacted("*.log")) < 1_000_000)
    before = {topic: len(ours.records(topic)) for topic in TOPICS}
    ours.stop()
    folder = tmp_path / "data"

    def paths(pattern: str) -> str:
        found = sorted(str(path) for path in folder.glob(pattern) if path.stat().st_size)
        assert found, pattern
        return ",".join(found)

    text = dumped("--deep-iteration", "--files", paths("[pmc]*-0/*.log"))
    assert len(re.findall(r"^\| offset: ", text, re.MULTILINE)) == sum(before.values())
    assert "isvalid: false" not in text
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in text
    assert "endTxnMarker: ABORT" in text
    indexes = f"{paths('*-0/*.index')},{paths('[pc]*-0/*.timeindex')}"
    assert dumped("--verify-index-only", "--files", indexes).count("Dumping") == indexes.count(",") + 1
    assert dumped("--index-sanity-check", "--files", indexes).count("passed sanity check") == indexes.count(",") + 1
    text = dumped("--files", f"{paths('plain-0/*.snapshot')},{paths('plain-0/*.txnindex')}")
    assert f"producerId: {pid} producerEpoch: 0" in text
    assert text.count("version: 0 producerId:") == 2
    text = dumped("--cluster-metadata-decoder", "--files", paths("__cluster_metadata-0/*.log"))
    assert text.count('"type":"TOPIC_RECORD"') == len(TOPICS) + 2
    assert '"name":"max.message.bytes","value":"2000000"' in text
    assert "Error" not in text
    text = dumped("--offsets-decoder", "--files", paths("__consumer_offsets-*/*.log"))
    assert '"group":"group"' in text
    assert '"offset":3' in text
    text = dumped("--transaction-log-decoder", "--files", paths("__transaction_state-*/*.log"))
    assert '"transactionalId":"tx-open"' in text


def test_we_serve_its_directory_and_it_serves_ours(tmp_path: Path) -> None:
    """Kafka fills a directory. wirebroker serves a copy of it and writes more batches. Kafka then continues after wirebroker's
    batches.
    """
    with KafkaServer(SETTINGS, data=tmp_path / "kafka") as kafka:
        wire = WireClient(*kafka.address)
        dialogue = Dialogue(wire, kafka.now())
        dialogue.topics()
        pid = speak(dialogue)
        dialogue.coordinator("group", 0)
        eventually(lambda: commit(wire, 4, "plain"), lambda code: code == 0)
        before = everything(wire)
        assert [value for *_, value, _ in before["plain 1"]].count(b"aborted") == 2
        kafka.stop()
        logs = tmp_path / "kafka" / "logs"
        copy = shutil.copytree(logs, tmp_path / "copy")

        with MockKafka(profile="kafka-4.3", data=copy, configs=SETTINGS) as ours:
            wire = client(ours)
            assert everything(wire) == before
            assert committed(wire, "plain") == 4
            settings = ours._call(lambda engine: engine.cluster.topics["packed"].configs.overrides)
            assert settings == TOPICS["packed"]
            dialogue = Dialogue(wire, kafka.now())
            again = dialogue.idempotent("plain", range(9, 10), pid)
            assert again == [9], "a retry of the last batch before the restart is recognised"
            dialogue.idempotent("plain", range(10, 12), pid)
            last = dialogue.idempotent("mine", range(200), pid, 20_000)[-1]
            dialogue.transaction("mine", "tx-a", True)
            dialogue.transaction("mine", "tx-b", False)
            theirs = everything(wire)
            open_ones = ours._call(lambda engine: engine.transactions.transactions["tx-open"].state.value)
            assert open_ones == "Ongoing"

        shutil.rmtree(logs / "mine-0")
        shutil.copytree(copy / "mine-0", logs / "mine-0")
        kafka.start()
        wire = WireClient(*kafka.address)
        for isolation in (0, 1):
            expected = theirs[f"mine {isolation}"]  # the last record is visible only after the high watermark has advanced
            found = eventually(lambda i=isolation: stored(wire, "mine", i), lambda got, all_=expected: got >= all_)
            assert found == expected
        dialogue = Dialogue(wire, kafka.now())
        assert dialogue.idempotent("mine", range(199, 200), pid, 20_000) == [last], (
            "Kafka reads the producer's last sequence from our snapshot"
        )
        assert dialogue.idempotent("mine", range(200, 201), pid)[0] > last
        said = kafka.log.read_text(errors="replace")
        assert "mine-0" not in "".join(line for line in said.splitlines() if "ERROR" in line or "WARN" in line), said
