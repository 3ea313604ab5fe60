"""The client confluent-kafka, a wrapper of librdkafka. With and without idempotence, confluent-kafka has up to five requests in
flight."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer

from wirebroker_tools.drivers import BLOCK, ProducerSettings, Refused, Report, sentence

QUICK = {
    "retry.backoff.ms": 20, "retry.backoff.max.ms": 50, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20, "broker.address.family": "v4",
}  # fmt: skip
SILENT = logging.getLogger("wirebroker.silent")
"""Discards librdkafka's own log lines, including fatal errors, because the application gets these errors anyway."""
SILENT.setLevel(logging.CRITICAL + 1)


class Producer:
    def __init__(self, address: str, settings: ProducerSettings, report: Report) -> None:
        self._report = report
        self._pending: list[str] = []
        self._delivered: deque[tuple[str, Any, Any]] = deque()
        self._transactional = settings.transactional_id is not None
        options: dict[str, Any] = {
            "bootstrap.servers": address, "max.in.flight.requests.per.connection": settings.in_flight,
            "error_cb": lambda error: None,
        } | {name.replace("_", "."): value for name, value in settings.options().items()}  # fmt: skip
        if settings.quick:
            options |= QUICK | {
                "socket.timeout.ms": settings.request_timeout, "message.timeout.ms": settings.delivery_timeout,
                "batch.num.messages": 1, "linger.ms": 0,
            }  # fmt: skip
        if not settings.retries:
            options["retries"] = 0
        try:
            self._producer = ConfluentProducer(options, logger=SILENT)
        except KafkaException as refused:
            raise Refused(sentence(refused)) from None

    def start(self) -> None:
        if self._transactional:
            self._producer.init_transactions(BLOCK)

    def send(self, topic: str, value: str, partition: int) -> None:
        self._pending.append(value)
        try:
            self._producer.produce(
                topic, value.encode(), partition=partition,
                on_delivery=lambda error, message: self._delivered.append((value, error, message)),
            )  # fmt: skip
        except Exception as failed:
            self._outcome(value, -1, sentence(failed))

    def push(self) -> None:
        pass

    def flush(self, timeout: float) -> None:
        raised: BaseException | None = None
        try:
            self._producer.flush(timeout)
        except Exception as error:
            raised = error.__cause__ or error
            self._producer.flush(timeout)
        self._report_delivered()
        if raised is not None and not len(self._producer):
            # librdkafka raises a fatal error while it serves delivery reports, and the report of the affected record may get
            # lost. Then the exception is the only sign of the failure.
            for value in list(self._pending):
                self._outcome(value, -1, sentence(raised))

    def _report_delivered(self) -> None:
        while self._delivered:
            value, failed, message = self._delivered.popleft()
            self._outcome(value, -1 if failed else message.offset(), f"{failed.name()}: {failed.str()}" if failed else "")

    def _outcome(self, value: str, offset: int | None, error: str) -> None:
        self._pending.remove(value)
        self._report(value, -1 if offset is None else offset, error)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction(BLOCK)
        self._report_delivered()

    def abort(self) -> None:
        self._producer.abort_transaction(BLOCK)

    def send_offset(self, reader: Reader, offset: int) -> None:
        where = TopicPartition(reader.topic, 0, offset)
        self._producer.send_offsets_to_transaction([where], reader.consumer.consumer_group_metadata(), BLOCK)

    def close(self, timeout: float) -> None:
        self._producer.flush(timeout)
        self.crash()

    def crash(self) -> None:
        self._producer.purge()
        self._producer.flush(0)
        del self._producer


class Reader:
    """A Consumer."""

    def __init__(self, address: str, topic: str, group: str, isolation: str, *, member: bool = False) -> None:
        self.topic, self.group = topic, group
        self.consumer = Consumer(
            {
                "bootstrap.servers": address, "group.id": group, "isolation.level": isolation, "enable.auto.commit": member,
                "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, "error_cb": lambda error: None,
            } | QUICK,
            logger=SILENT,
        )  # fmt: skip
        if member:
            self.consumer.subscribe([topic])

    def committed(self) -> int:
        (known,) = self.consumer.committed([TopicPartition(self.topic, 0)], timeout=BLOCK)
        return max(known.offset, 0)

    def read(self, offset: int | None, count: int, timeout: float) -> list[tuple[int, str]]:
        if offset is not None:
            self.consumer.assign([TopicPartition(self.topic, 0, offset)])
        found: list[tuple[int, str]] = []
        end = time.monotonic() + timeout
        while len(found) < count and time.monotonic() < end:
            messages = self.consumer.consume(count - len(found), timeout=0.1)
            found += [(m.offset() or 0, (m.value() or b"").decode()) for m in messages if m.error() is None]
        return found

    def position(self) -> int:
        self.consumer.poll(0.3)
        (where,) = self.consumer.position([TopicPartition(self.topic, 0)])
        return int(where.offset)

    def commit(self, offset: int) -> None:
        self.consumer.commit(offsets=[TopicPartition(self.topic, 0, offset)], asynchronous=False)

    def close(self) -> None:
        self.consumer.close()
