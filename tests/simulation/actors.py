"""Models of clients that behave as real, correct clients do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafkawire.batches import SEQUENCES, Record, build_batch, iter_batches, iter_records, read_header
from kafkawire.messages.produce import ProduceRequest
from requesting import end_txn, fetch, find_coordinator, init_producer_id, produce_request
from responses import only
from simulation.world import TOPIC, Link, Violation, World

OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE, CONCURRENT, FENCED, ABORTABLE, STORAGE = 45, 47, 48, 51, 90, 120, 56
NOT_LEADER, TIMED_OUT, NO_COORDINATOR, NOT_COORDINATOR, TOO_FEW_REPLICAS = 6, 7, 15, 16, 19
AGAIN = (STORAGE, TIMED_OUT, TOO_FEW_REPLICAS)
"""Errors after which a client repeats the request to the same broker."""
GONE = (INVALID_EPOCH, INVALID_STATE, FENCED, ABORTABLE, 49)
"""If a transactional producer gets one of these errors, its transaction is lost, and it starts a new transaction."""


class ModelClient:
    """A client with a connection, which it reopens after a failure."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.link: Link | None = None
        world.soon(self.connect)

    def where(self) -> int | None:
        """Returns the broker that the client must contact next, or None if there is none."""
        return 1

    def connect(self) -> None:
        """If no connection is open, opens one and calls `connected`."""
        if self.link is None or not self.link.open:
            node = self.where()
            if node is None or not self.world.engine.cluster.alive(node):
                self.broken()
                return
            self.link = Link(self.world, self.broken, node)
            self.connected()

    def look_elsewhere(self) -> None:
        """Disconnects from a broker that is not the right one (the leader or the coordinator), and looks for the right broker
        later.
        """
        if self.link is not None:
            self.link.leave()
        self.broken()

    def leader(self, partition: int) -> int | None:
        leader = self.world.engine.cluster.topics[TOPIC].partitions[partition].leader
        return leader if leader >= 0 else None

    def broken(self) -> None:
        """Reconnect a while after the connection was lost."""
        self.world.soon(self.connect, 30)

    def connected(self) -> None:
        """Called when a connection has been opened."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        self.world.say(f"{self.name}: {text}")


def produce(partition: int, data: bytes, txid: str | None = None) -> ProduceRequest:
    """Returns a Produce request with one batch."""
    return produce_request(TOPIC, data, partition=partition, timeout_ms=1000, txid=txid)


@dataclass(slots=True, eq=False)
class Sent:
    """A batch of an idempotent producer."""

    sequence: int
    values: list[str]
    data: bytes
    offset: int = -1
    last: int = field(init=False)

    def __post_init__(self) -> None:
        self.last = (self.sequence + len(self.values) - 1) % SEQUENCES


class ModelProducer(ModelClient):
    """Keeps up to `in_flight` batches in flight, and retries all unacknowledged batches in order."""

    def __init__(self, world: World, name: str, batches: int, in_flight: int, first_sequence: int = 0) -> None:
        super().__init__(world, name)
        self.partition = world.random.randrange(2)
        self.left, self.limit = batches, in_flight
        self.producer_id = -1
        self.batches: list[Sent] = []
        self._next_sequence = first_sequence
        self._unacknowledged = self._to_send = self._under_way = 0
        self._rewinds = False

    def where(self) -> int | None:
        return self.leader(self.partition)

    @property
    def done(self) -> bool:
        return self.left == 0 and self._unacknowledged == len(self.batches)

    @property
    def begun(self) -> bool:
        """Tells whether the broker has acknowledged a batch of this producer. The broker then has a state for the producer."""
        return self._unacknowledged > 0

    def connected(self) -> None:
        self._under_way, self._rewinds = 0, False
        self._to_send = self._unacknowledged
        if self.producer_id >= 0:
            self._go_on()
        else:
            request = init_producer_id(None, 1000)
            assert self.link is not None
            self.link.send(request, 4, self._initialized)

    def _initialized(self, response: Any) -> None:
        self.producer_id = response.producer_id
        self._go_on()

    def _go_on(self) -> None:
        """Send batches until `in_flight` batches are in flight."""
        while self._under_way < self.limit and not self._rewinds and self.link is not None and self.link.open:
            if self._to_send == len(self.batches):
                if self.left == 0:
                    return
                self._make()
            batch = self.batches[self._to_send]
            self._to_send += 1
            self._under_way += 1
            self.link.send(produce(self.partition, batch.data), 9, lambda response, sent=batch: self._answered(sent, response))

    def _make(self) -> None:
        self.left -= 1
        count = self.world.random.randint(1, 3)
        number = len(self.batches)
        values = [f"{self.name}.{number}.{index}" for index in range(count)]
        data = build_batch(
            [Record(i, 0, None, value.encode()) for i, value in enumerate(values)], base_timestamp=self.world.now,
            producer_id=self.producer_id, producer_epoch=0, base_sequence=self._next_sequence,
        )  # fmt: skip
        self.batches.append(Sent(self._next_sequence, values, data))
        self._next_sequence = (self._next_sequence + count) % SEQUENCES

    def _answered(self, sent: Sent, response: Any) -> None:
        part = only(response)
        self._under_way -= 1
        first = self._unacknowledged < len(self.batches) and self.batches[self._unacknowledged] is sent
        if part.error_code == 0:
            if sent.offset not in (-1, part.base_offset):
                raise Violation(f"{self.name}: sequence {sent.sequence} has the offsets {sent.offset} and {part.base_offset}")
            sent.offset = part.base_offset
            while self._unacknowledged < len(self.batches) and self.batches[self._unacknowledged].offset >= 0:
                self._unacknowledged += 1
        elif part.error_code == NOT_LEADER:
            self.look_elsewhere()
            return
        elif part.error_code in AGAIN or (part.error_code == OUT_OF_ORDER and not first):
            self._rewinds = True
        else:
            raise Violation(f"{self.name}: sequence {sent.sequence} is the next one, but the error is {part.error_code}")
        if self._rewinds and self._under_way == 0:
            self._rewinds, self._to_send = False, self._unacknowledged
        self._go_on()


@dataclass(slots=True, eq=False)
class Outcome:
    """The outcome of a transaction for its producer: committed, aborted, or unknown."""

    values: dict[int, list[str]]
    said: str = "unknown"


class ModelTransactions(ModelClient):
    """Runs transactions one after another. If the producer is fenced, it starts again. Several producers can share a
    transactional id."""

    def __init__(self, world: World, name: str, txid: str, transactions: int) -> None:
        super().__init__(world, name)
        self.txid, self.left = txid, transactions
        self.producer_id = self.epoch = -1
        self.outcomes: list[Outcome] = []
        self._work: list[tuple[int, list[str], bytes]] = []
        self._commits = True
        self._open = self._waits = False

    @property
    def done(self) -> bool:
        return self.left == 0 and not self._open

    def where(self) -> int | None:
        """If the producer is going to write to a partition, returns the partition's leader; otherwise, returns the producer's
        coordinator.
        """
        if self._open and self._work:
            return self.leader(self._work[0][0])
        cluster = self.world.engine.cluster
        if cluster.coordinator_partition("transaction", self.txid) is None:
            return min(cluster.live_brokers, default=None)
        return cluster.coordinator("transaction", self.txid)

    def connected(self) -> None:
        self._waits = False
        if self.producer_id < 0:
            self._find()
        elif self._open:
            self._step()
        else:
            self._begin()

    def _find(self) -> None:
        self._send(find_coordinator(self.txid, kind=1), 4, lambda _: self._init())

    def _init(self) -> None:
        self._send(init_producer_id(self.txid), 5, self._initialized)

    def _initialized(self, response: Any) -> None:
        if response.error_code == NOT_COORDINATOR:
            self.look_elsewhere()
        elif response.error_code in (CONCURRENT, NO_COORDINATOR):
            self.world.soon(self._anew, 20)
        elif response.error_code:
            raise Violation(f"{self.name}: the error of InitProducerId is {response.error_code}")
        else:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._begin()

    def _begin(self) -> None:
        if self.left == 0:
            return
        self.left -= 1
        chance = self.world.random
        partitions = chance.sample([0, 1], chance.randint(1, 2))
        number = len(self.outcomes)
        values = {each: [f"{self.name}.{number}.{each}.{i}" for i in range(chance.randint(1, 2))] for each in partitions}
        self.outcomes.append(Outcome(values))
        self._commits = chance.random() < 0.7
        self._work = [
            (
                each, texts,
                build_batch(
                    [Record(i, 0, None, text.encode()) for i, text in enumerate(texts)], base_timestamp=self.world.now,
                    producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=0, transactional=True,
                ),
            )
            for each, texts in values.items()
        ]  # fmt: skip
        self._open = True
        self._step()

    def _step(self) -> None:
        """Sends the next request of the transaction, or repeats a request whose response was lost."""
        if self._work:
            partition, _, data = self._work[0]
            self._send(produce(partition, data, self.txid), 12, self._produced)
        else:
            request = end_txn(self.txid, (self.producer_id, self.epoch), self._commits)
            self._send(request, 5, self._ended)

    def _produced(self, response: Any) -> None:
        code = only(response).error_code
        if code in GONE:
            self._lost("aborted")
        elif code == NOT_LEADER:
            self.look_elsewhere()
        elif code == CONCURRENT or code in AGAIN:
            self.world.soon(self._retry, 20)
        elif code:
            raise Violation(f"{self.name}: the error of a transactional batch is {code}")
        else:
            self._work.pop(0)
            self._step()

    def _retry(self) -> None:
        if self.link is not None and self.link.open and self._open and not self._waits:
            self._step()

    def _ended(self, response: Any) -> None:
        if response.error_code == NOT_COORDINATOR:
            self.look_elsewhere()
        elif response.error_code in (CONCURRENT, NO_COORDINATOR):
            self.world.soon(self._retry, 20)
        elif response.error_code in GONE:
            self._lost("aborted" if response.error_code == INVALID_STATE else "unknown")
        elif response.error_code:
            raise Violation(f"{self.name}: the error of EndTxn is {response.error_code}")
        else:
            self.outcomes[-1].said = "committed" if self._commits else "aborted"
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._open = False
            self.world.soon(self._next)

    def _next(self) -> None:
        if self.link is not None and self.link.open and not self._open and not self._waits:
            self._begin()

    def _lost(self, said: str) -> None:
        """Ends a transaction after another producer took over the transactional id, or after the coordinator fenced this
        producer."""
        self.outcomes[-1].said = said
        self._open = False
        self._work = []
        self.producer_id = self.epoch = -1
        self.say("fenced")
        if self.left:
            self.world.soon(self._anew, 60)

    def _anew(self) -> None:
        if self.link is not None and self.link.open and self.producer_id < 0 and not self._waits:
            self._find()

    def _send(self, request: Any, version: int, on_response: Any) -> None:
        """Sends a request if the client is connected to the right broker; otherwise looks for that broker."""
        if self.link is not None and self.link.open:
            if self.where() != self.link.node:
                self.look_elsewhere()
                return
            self._waits = True
            self.link.send(request, version, lambda response: self._answered(response, on_response))

    def _answered(self, response: Any, on_response: Any) -> None:
        self._waits = False
        on_response(response)


class ModelConsumer(ModelClient):
    """Consumes one partition from the beginning with read_committed, and keeps the records that an application would get."""

    def __init__(self, world: World, name: str, partition: int) -> None:
        super().__init__(world, name)
        self.partition = partition
        self.offset = 0
        self.values: list[str] = []
        self._aborting: set[int] = set()
        self._waits = False

    def where(self) -> int | None:
        return self.leader(self.partition)

    def connected(self) -> None:
        self._waits = False
        self._fetch()

    def _fetch(self) -> None:
        request = fetch(self.offset, topic=TOPIC, partition=self.partition, wait_ms=50, isolation_level=1)
        if self.link is not None and self.link.open:
            self._waits = True
            self.link.send(request, 11, self._fetched)

    def _fetched(self, response: Any) -> None:
        self._waits = False
        part = only(response)
        if part.error_code:
            raise Violation(f"{self.name}: the error of Fetch from {self.offset} is {part.error_code}")
        waiting = sorted(part.aborted_transactions or [], key=lambda aborted: aborted.first_offset)
        for raw in iter_batches(part.records or b""):
            header = read_header(raw)
            if header.last_offset < self.offset:
                continue
            if header.base_offset > self.offset:
                raise Violation(f"{self.name}: a hole in the log, from {self.offset} to {header.base_offset}")
            if header.last_offset >= part.last_stable_offset:
                raise Violation(f"{self.name}: read {header.last_offset}, but the LSO is {part.last_stable_offset}")
            while waiting and waiting[0].first_offset <= header.last_offset:
                self._aborting.add(waiting.pop(0).producer_id)
            if header.is_control:
                self._aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in self._aborting):
                self.values += [(record.value or b"").decode() for record in iter_records(raw)]
            self.offset = header.last_offset + 1
        self.world.soon(self._again, 20)

    def _again(self) -> None:
        if not self._waits:
            self._fetch()
