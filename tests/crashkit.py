"""Kill a broker under load and restart it. Then compare its records with the acknowledged records, and audit the log."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from bench.process import refuse_own_errors
from kafkawire.batches import Record, build_batch, iter_batches, iter_records, read_header
from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import PartitionData
from kafkawire.messages.init_producer_id import InitProducerIdResponse
from requesting import create_topic, end_txn, init_producer_id, offset_commit, offset_fetch, plain, produce_request
from responses import only, sole
from wirebroker.client.wire import WireClient
from wirebroker.mock import MockKafka
from wirekit import batch

TOPIC = "orders"
LEDGER = "ledger"
"""A compacted topic to which a transactional producer writes."""
LEDGER_SETTINGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "100"}
OFTEN = ("--config", "log.cleaner.backoff.ms=50")
GONE = (OSError,)


class Served:
    """Runs `wirebroker serve --data` in its own process."""

    def __init__(self, data: Path | Sequence[Path], *flags: str) -> None:
        given = str(data) if isinstance(data, Path) else ",".join(map(str, data))
        self._command = [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--port", "0", "--data", given, *flags]

    def __enter__(self) -> Served:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        found = re.match(r"listening on (\S+):(\d+) ", first)
        if found is None:
            raise AssertionError(f"{first}{self.process.communicate()[1]}")
        self.address = (found[1], int(found[2]))
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.said = self.process.communicate()[1]
        if kind is None:
            refuse_own_errors(self.said)

    def client(self) -> WireClient:
        """Connects a new client to the broker."""
        return WireClient(*self.address)


@dataclass
class Sender(threading.Thread):
    """An idempotent producer that sends one batch after another to a partition until the broker dies."""

    served: Served
    partition: int
    size: int
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The offset of each acknowledged batch. The key is the batch's first sequence."""
    next_sequence: int = 0
    producer_id: int = -1
    wrong: str = ""

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def begin(self) -> None:
        """Get a producer id, and start to send in a thread."""
        asked = init_producer_id(None, 1000)
        self.producer_id = self.served.client().request(asked, 0).producer_id
        self.start()

    def data(self, sequence: int) -> bytes:
        """Returns the batch whose first sequence is `sequence`. This sequence determines the batch's records."""
        count = 1 + sequence % 3
        return batch(sequence, count, pid=self.producer_id, epoch=0, tag=f"{self.partition}:" + "x" * self.size)

    def send(self, wire: WireClient, sequence: int) -> tuple[int, int]:
        """Send one batch. Returns the error code and the base offset."""
        request = produce_request(TOPIC, self.data(sequence), self.partition)
        response = only(wire.request(request, 9))
        return response.error_code, response.base_offset

    def run(self) -> None:
        wire = self.served.client()
        try:
            while True:
                code, offset = self.send(wire, self.next_sequence)
                if code:
                    self.wrong = f"partition {self.partition}, sequence {self.next_sequence}: {ErrorCode(code).name}"
                    return
                self.acknowledged[self.next_sequence] = offset
                self.next_sequence += 1 + self.next_sequence % 3
        except GONE:
            return
        finally:
            wire.close()


class Committer(threading.Thread):
    """Commits increasing offsets for a group until the broker dies."""

    def __init__(self, served: Served) -> None:
        super().__init__(daemon=True)
        self.served = served
        self.committed = -1
        self.sent = -1

    def run(self) -> None:
        wire = self.served.client()
        try:
            while True:
                self.sent += 1
                if commit(wire, self.sent) == 0:
                    self.committed = self.sent
        except GONE:
            return


class Mover(threading.Thread):
    """Moves partitions of client topics and internal topics between the log directories until the broker dies."""

    def __init__(self, served: Served, dirs: Sequence[Path], chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.served, self.dirs, self.chance = served, [str(each.resolve()) for each in dirs], chance
        self.asked = 0

    def run(self) -> None:
        wire, topics = self.served.client(), (TOPIC, LEDGER, "__consumer_offsets", "__transaction_state")
        try:
            while True:
                wanted = {"name": self.chance.choice(topics), "partitions": [0, 1, 2, 3]}
                dirs = [{"path": self.chance.choice(self.dirs), "topics": [wanted]}]
                response = wire.request(plain("AlterReplicaLogDirs", dirs=dirs), 2)
                codes = {part.error_code for topic in response.results for part in topic.partitions}
                assert codes <= {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, codes
                self.asked += 1
        except GONE:
            return


class Bookkeeper(threading.Thread):
    """Writes increasing numbers under ten keys until the broker dies. Each transaction writes one number. Every fourth
    transaction is aborted.
    """

    def __init__(self, served: Served, first: int) -> None:
        super().__init__(daemon=True)
        self.served = served
        self.number = first
        self.committed: dict[int, int] = {}
        self.wrong = ""

    @staticmethod
    def begin(wire: WireClient) -> InitProducerIdResponse:
        """Send an InitProducerId, which also aborts the open transaction of an earlier producer."""
        asked = init_producer_id(LEDGER)
        for _ in range(5):  # coordinators need a moment to load after the broker's start
            wire.request(plain("FindCoordinator", key=LEDGER, key_type=1), 3)
            response = wire.request(asked, 5)
            if response.error_code == 0:
                break
        return response

    def run(self) -> None:
        wire = self.served.client()
        try:
            begun = self.begin(wire)
            producer, self.wrong = (begun.producer_id, begun.producer_epoch), _failed(begun.error_code)
            while not self.wrong:
                producer = self.write(wire, *producer)
        except GONE:
            return
        finally:
            wire.close()

    def write(self, wire: WireClient, producer_id: int, epoch: int) -> tuple[int, int]:
        """Run one transaction. Returns the producer id and the epoch for the next transaction."""
        record = Record(0, 0, b"%d" % (self.number % 10), b"%d " % self.number + bytes(20_000))
        now = time.time_ns() // 1_000_000
        data = build_batch(
            [record], base_timestamp=now, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        request = produce_request(LEDGER, data)
        request.transactional_id = LEDGER
        told = only(wire.request(request, 12))
        keeps = self.number % 4 != 3
        ended = wire.request(end_txn(LEDGER, (producer_id, epoch), keeps), 5)
        self.wrong = _failed(told.error_code) or _failed(ended.error_code)
        if keeps and not self.wrong:
            self.committed[self.number % 10] = self.number
        self.number += 1
        return ended.producer_id, ended.producer_epoch


def _failed(code: int) -> str:
    return f"{LEDGER}: {ErrorCode(code).name}" if code else ""


def balances(wire: WireClient) -> dict[int, int]:
    """Returns the last committed number of each key, as a read_committed consumer reads it."""
    found: dict[int, int] = {}
    offset = 0
    while True:
        response = fetch(wire, LEDGER, 0, offset, isolation_level=1)
        aborted = sorted(((each.first_offset, each.producer_id) for each in response.aborted_transactions or ()), reverse=True)
        leaves_out = set()
        for each in iter_batches(response.records or b""):
            header = read_header(each)
            offset = header.last_offset + 1
            while aborted and aborted[-1][0] <= header.last_offset:
                leaves_out.add(aborted.pop()[1])
            if header.is_control:
                leaves_out.discard(header.producer_id)
            elif header.producer_id not in leaves_out:
                found |= {int(record.key or b""): int((record.value or b"").split()[0]) for record in iter_records(each)}
        if not response.records:
            return found


def commit(wire: WireClient, offset: int, topic: str = TOPIC) -> int:
    """Commit an offset for the group in the topic's first partition. Returns the error code."""
    wire.request(plain("FindCoordinator", key="group", key_type=0), 3)
    request = offset_commit("group", offset, topic=topic)
    code: int = only(wire.request(request, 8)).error_code
    return code


def committed(wire: WireClient, topic: str = TOPIC) -> int:
    """Returns the group's committed offset in the topic's first partition."""
    wire.request(plain("FindCoordinator", key="group", key_type=0), 3)
    for _ in range(3):
        response = wire.request(offset_fetch("group", topic=topic), 7)
        if response.error_code == 0:
            return int(only(response).committed_offset)
    raise AssertionError(f"OffsetFetch: {response.error_code}")


def fetch(wire: WireClient, topic: str, partition: int, offset: int, isolation_level: int = 0) -> PartitionData:
    """Fetches from `offset`, and returns the partition's response."""
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [asked]}]
    request = plain("Fetch", replica_id=-1, max_wait_ms=0, min_bytes=0, isolation_level=isolation_level, topics=topics)
    response = only(wire.request(request, 11))
    assert response.error_code == 0, response
    return response


def stored(wire: WireClient, partition: int) -> list[tuple[int, int, int, list[bytes | None]]]:
    """For every batch in a partition, returns the base offset, the producer id, the first sequence and the values."""
    found: list[tuple[int, int, int, list[bytes | None]]] = []
    offset = 0
    while True:
        response = fetch(wire, TOPIC, partition, offset)
        for each in iter_batches(response.records or b""):
            header = read_header(each)
            values = [record.value for record in iter_records(each)]
            found.append((header.base_offset, header.producer_id, header.base_sequence, values))
            offset = header.last_offset + 1
        if not response.records:
            return found


def crash_once(data: Path | Sequence[Path], seed: int, *flags: str, senders: int = 2) -> str:
    """Kills a broker under load at a random moment, starts it again, compares its records with the acknowledged records, and
    audits the log. Returns a summary.

    If the broker has several log directories, partitions are moved between them all the time.
    """
    chance = random.Random(seed)
    with Served(data, "--topic", f"{TOPIC}:{senders}", *OFTEN, *flags) as served:
        create_ledger(served.client())
        before_balances = balances(served.client())
        books = Bookkeeper(served, max(before_balances.values(), default=0) + 1000)
        running = [Sender(served, i, chance.choice((10, 1000, 16_000))) for i in range(senders)]
        before = [stored(served.client(), sender.partition) for sender in running]
        groups = Committer(served)
        mover = None if isinstance(data, Path) else Mover(served, data, random.Random(seed))
        floor = committed(served.client())
        for sender in running:
            sender.begin()
        groups.start()
        books.start()
        if mover is not None:
            mover.start()
        threading.Event().wait(chance.uniform(0.02, 0.5))
    for thread in (*running, groups, books, *([] if mover is None else [mover])):
        thread.join(20)
    with Served(data, *OFTEN, *flags) as again:
        wire = again.client()
        assert not books.wrong, books.wrong
        assert Bookkeeper.begin(wire).error_code == 0
        compare_balances(before_balances | books.committed, balances(wire), books.number)
        for sender in running:
            assert not sender.wrong, sender.wrong
            compare(sender, before[sender.partition], wire)
        kept = committed(wire)
        assert groups.committed <= kept <= max(groups.sent, floor), (groups.committed, kept, groups.sent)
    with MockKafka(data=data) as kafka:
        certain = [finding for finding in kafka.audit().findings if finding.severity == "certain"]
        assert not certain, certain
        holes = kafka._call(lambda engine: engine.cluster.topics[LEDGER].partitions[0].log.cleaned_to)
    batches = sum(len(sender.acknowledged) for sender in running)
    return (
        f"seed {seed}: {batches} batches, {len(books.committed)} keys and offset {groups.committed} were acknowledged, and all "
        f"are there; {LEDGER} is compacted up to {holes}; {again.said}"
    )


def create_ledger(wire: WireClient) -> None:
    """Creates the compacted topic unless it exists."""
    code = sole(wire.request(create_topic(LEDGER, configs=LEDGER_SETTINGS), 7).topics).error_code
    assert code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def compare_balances(committed: dict[int, int], found: dict[int, int], number: int) -> None:
    """Checks the last number of each key. It must be the last committed number or a later number, and may not be from an
    aborted transaction."""
    assert found.keys() >= committed.keys()
    for key, last in found.items():
        assert committed.get(key, 0) <= last <= number, (key, last, committed.get(key))
        assert last % 4 != 3, "an aborted transaction wrote this number"


def compare(sender: Sender, before: list[tuple[int, int, int, list[bytes | None]]], wire: WireClient) -> None:
    """Checks that no acknowledged batch is lost, and that a retried batch is stored once."""
    code, offset = sender.send(wire, sender.next_sequence)  # the batch may be stored already, without an ack
    assert code == 0, (sender.next_sequence, ErrorCode(code).name)
    sender.acknowledged[sender.next_sequence] = offset
    found = stored(wire, sender.partition)
    assert found[: len(before)] == before
    mine = [(base, sequence, values) for base, producer_id, sequence, values in found if producer_id == sender.producer_id]
    assert len(mine) == len({sequence for _, sequence, _ in mine}), "a batch is stored twice"
    assert {sequence: base for base, sequence, _ in mine} == sender.acknowledged
    for _, sequence, values in mine:
        expected = [record.value for record in iter_records(sender.data(sequence))]
        assert values == expected
