"""The `wire` client: a good idempotent producer in one short module, without a library.

The client follows Kafka's rules (KIP-98, KIP-360). The client sends unacknowledged batches again, unchanged and in order. After
OUT_OF_ORDER_SEQUENCE_NUMBER there are two cases: if an earlier batch failed, too, the client sends the batch again with
unchanged sequences; otherwise the client raises its epoch, and begins at sequence 0. Unlike the libraries, this client accepts
any number of requests in flight and any first sequence. The client does not support transactions.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from kafkawire.batches import SEQUENCES, Record, build_batch
from kafkawire.errors import ProtocolError, error_name
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wirebroker.client.brokers import Brokers, leaders_in
from wirebroker_tools.drivers import ProducerSettings, Report

VERSION, METADATA_VERSION = 12, 12
OUT_OF_ORDER, UNKNOWN_PRODUCER_ID, REQUEST_TIMED_OUT = 45, 59, 7
RETRIABLE = frozenset({2, 3, 5, 6, 7, 13, 14, 15, 16, 19, 20, 51, 56})
"""Kafka's retriable errors of Produce and InitProducerId."""
LAST_EPOCH = 32767
BACKOFF = 0.02
BROKEN = (OSError, ProtocolError)


@dataclass(slots=True, eq=False)
class _Batch:
    topic: str
    partition: int
    values: list[str]
    due: float
    """the time after which the producer gives up the batch"""
    sequence: int = -1
    epoch: int = -1

    @property
    def where(self) -> tuple[str, int]:
        return self.topic, self.partition


class Producer:
    """A producer with or without idempotence. The producer sends its records when it is flushed."""

    def __init__(self, address: str, settings: ProducerSettings, report: Report) -> None:
        self._settings, self._report = settings, report
        self._bootstrap = address
        self._brokers = Brokers(timeout=settings.request_timeout / 1000)
        self._leaders: dict[tuple[str, int], str] = {}
        self._closed: set[str] = set()
        """The leaders to which nothing more is sent in this round, because a send to them failed."""
        self._given_up: set[str] = set()
        """The leaders that can send no further responses in this round."""
        self._records: deque[tuple[str, int, str]] = deque()
        self._sizes = cycle(settings.batches or [1])
        self._unacknowledged: list[_Batch] = []
        self._next: dict[tuple[str, int], int] = defaultdict(lambda: settings.first_sequence)
        self._producer_id = self._epoch = -1
        self._flushing = threading.Lock()
        self._dead = False

    def start(self) -> None:
        if self._settings.idempotence:
            self._init()

    def _init(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            try:
                response = self._brokers.request(request, 4, self._bootstrap.split(",")[0])
            except BROKEN:
                time.sleep(BACKOFF)
                continue
            if response.error_code not in RETRIABLE:
                break
            time.sleep(BACKOFF)
        if response.error_code:
            raise ProtocolError(f"InitProducerId: {error_name(response.error_code)}")
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch

    def send(self, topic: str, value: str, partition: int) -> None:
        self._records.append((topic, partition, value))

    def push(self) -> None:
        threading.Thread(target=self.flush, args=(self._settings.delivery_timeout / 1000,), daemon=True).start()

    def flush(self, timeout: float) -> None:
        with self._flushing:
            self._make_batches()
            end = time.monotonic() + timeout
            while self._unacknowledged and time.monotonic() < end and not self._dead:
                self._round(self._unacknowledged[: self._settings.in_flight])

    def _make_batches(self) -> None:
        due = time.monotonic() + self._settings.delivery_timeout / 1000
        while self._records:
            topic, partition, value = self._records.popleft()
            batch = _Batch(topic, partition, [value], due)
            wanted = next(self._sizes)
            while len(batch.values) < wanted and self._records and self._records[0][:2] == batch.where:
                batch.values.append(self._records.popleft()[2])
            self._number(batch)
            self._unacknowledged.append(batch)

    def _number(self, batch: _Batch) -> None:
        """Give the batch the next sequences of its partition."""
        if self._settings.idempotence:
            batch.sequence, batch.epoch = self._next[batch.where], self._epoch
            self._next[batch.where] = (batch.sequence + len(batch.values)) % SEQUENCES

    def _round(self, batches: list[_Batch]) -> None:
        """Send these batches one after the other, and then read their responses."""
        self._closed.clear()
        self._given_up.clear()
        sent = [(batch, leader) for batch in batches if (leader := self._leader(batch)) and self._sent(batch, leader)]
        acked = self._settings.acks != 0
        responses = [(batch, self._response(leader) if acked else (0, -1)) for batch, leader in sent]
        for leader in self._closed:
            self._brokers.drop(leader)
        failing: set[tuple[str, int]] = set()
        rewind = False
        for batch, (code, offset) in responses:
            rewind |= self._judged(batch, code, offset, first=batch.where not in failing)
            if code:
                failing.add(batch.where)
        if len(sent) < len(batches) or failing:
            self._leaders.clear()
            time.sleep(BACKOFF)
        if rewind:
            self._begin_epoch()

    def _judged(self, batch: _Batch, code: int, offset: int, first: bool) -> bool:
        """Handle the response to a batch. Returns True if the producer needs a new epoch."""
        if not code:
            self._done(batch, offset, "")
            return False
        numbered = self._settings.idempotence
        if numbered and code in (OUT_OF_ORDER, UNKNOWN_PRODUCER_ID) and time.monotonic() < batch.due:
            return first  # if an earlier batch failed, both batches are sent again
        if code in RETRIABLE and self._settings.retries and time.monotonic() < batch.due:
            return False
        self._done(batch, -1, error_name(code))
        return numbered

    def _done(self, batch: _Batch, offset: int, error: str) -> None:
        self._unacknowledged.remove(batch)
        for number, value in enumerate(batch.values):
            self._report(value, offset + number if offset >= 0 else -1, error)

    def _begin_epoch(self) -> None:
        """Begin the next epoch, or get a new producer id if this was the last epoch. The remaining batches get new
        sequences.
        """
        if self._epoch < LAST_EPOCH:
            self._epoch += 1
        else:
            self._init()
        self._next = defaultdict(int)
        for batch in self._unacknowledged:
            self._number(batch)

    # The wire

    def _sent(self, batch: _Batch, leader: str) -> bool:
        records = [Record(i, 0, None, value.encode()) for i, value in enumerate(batch.values)]
        data = build_batch(
            records, base_timestamp=time.time_ns() // 1_000_000, producer_id=self._producer_id,
            producer_epoch=batch.epoch, base_sequence=batch.sequence,
        )  # fmt: skip
        part = PartitionProduceData(index=batch.partition, records=data)
        acks = -1 if self._settings.acks == "all" else int(self._settings.acks)
        request = ProduceRequest(
            acks=acks, timeout_ms=self._settings.request_timeout,
            topic_data=[TopicProduceData(name=batch.topic, partition_data=[part])],
        )  # fmt: skip
        if leader in self._closed:
            return False
        try:
            self._brokers.send(request, VERSION, leader, awaits_response=acks != 0, reads_on=True)
        except BROKEN:
            self._closed.add(leader)
        return leader not in self._closed

    def _response(self, leader: str) -> tuple[int, int]:
        """Returns the error code and the offset. If no response comes, returns REQUEST_TIMED_OUT and closes the connection."""
        if leader in self._given_up:
            return REQUEST_TIMED_OUT, -1
        try:
            response = self._brokers.response(leader).responses[0].partition_responses[0]
        except BROKEN:
            self._brokers.drop(leader)
            self._given_up.add(leader)
            return REQUEST_TIMED_OUT, -1
        return response.error_code, response.base_offset

    def _leader(self, batch: _Batch) -> str:
        if batch.where not in self._leaders:
            self._ask_for_leaders(batch.topic)
        return self._leaders.get(batch.where, "")

    def _ask_for_leaders(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        for address in self._bootstrap.split(","):
            try:
                response = self._brokers.request(request, METADATA_VERSION, address)
            except BROKEN:
                continue
            self._leaders.update(leaders_in(response))
            return

    # The rest

    def begin(self) -> None:
        raise NotImplementedError("the wire client has no transactions")

    commit = abort = begin

    def send_offset(self, reader: Any, offset: int) -> None:
        self.begin()

    def close(self, timeout: float) -> None:
        self.flush(timeout)
        self.crash()

    def crash(self) -> None:
        self._dead = True
        self._brokers.close()
