"""The client kafka-python. An idempotent producer has one request per partition in flight; any other producer has up to
five.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaConfigurationError

from wirebroker_tools.drivers import BLOCK, ProducerSettings, Refused, Report, sentence

QUICK = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50, "metrics_enabled": False}


class Producer:
    """A KafkaProducer."""

    def __init__(self, address: str, settings: ProducerSettings, report: Report) -> None:
        self._report = report
        self._transactional = settings.transactional_id is not None
        options: dict[str, Any] = {"max_in_flight_requests_per_connection": settings.in_flight} | settings.options()
        if settings.quick:
            options |= {"delivery_timeout_ms": settings.delivery_timeout, "max_block_ms": int(BLOCK * 1000), "batch_size": 0}
            options |= QUICK
        if not settings.retries:
            options["retries"] = 0
        try:
            self._producer = KafkaProducer(bootstrap_servers=address, **options)
        except KafkaConfigurationError as refused:
            raise Refused(sentence(refused)) from None

    def start(self) -> None:
        if self._transactional:
            self._producer.init_transactions()

    def send(self, topic: str, value: str, partition: int) -> None:
        try:
            future = self._producer.send(topic, value.encode(), partition=partition)
        except Exception as failed:
            self._report(value, -1, sentence(failed))
            return
        future.add_callback(lambda metadata: self._report(value, metadata.offset, ""))
        future.add_errback(lambda error: self._report(value, -1, sentence(error)))

    def push(self) -> None:
        pass

    def flush(self, timeout: float) -> None:
        self._producer.flush(timeout)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def send_offset(self, reader: Reader, offset: int) -> None:
        offsets = {reader.partition: OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, reader.consumer.group_metadata())

    def close(self, timeout: float) -> None:
        self._producer.close(timeout)

    def crash(self) -> None:
        with contextlib.suppress(Exception):
            self._producer._sender.force_close()
            self._producer.close(0)


class Reader:
    """A KafkaConsumer."""

    def __init__(self, address: str, topic: str, group: str, isolation: str, *, member: bool = False) -> None:
        self.topic, self.group = topic, group
        self.partition = TopicPartition(topic, 0)
        self.consumer = KafkaConsumer(
            bootstrap_servers=address, group_id=group, isolation_level=isolation, enable_auto_commit=member,
            auto_offset_reset="earliest", fetch_max_wait_ms=100, **({} if member else {"request_timeout_ms": 3000}), **QUICK,
        )  # fmt: skip
        if member:
            self.consumer.subscribe([topic])
            # Request the topic's metadata before the client joins the group: a client that learns of the topic only later joins
            # again, and may hang.
            self.consumer.partitions_for_topic(topic)
        else:
            self.consumer.assign([self.partition])

    def committed(self) -> int:
        return self.consumer.committed(self.partition) or 0

    def read(self, offset: int | None, count: int, timeout: float) -> list[tuple[int, str]]:
        if offset is not None:
            self.consumer.seek(self.partition, offset)
        found: list[tuple[int, str]] = []
        end = time.monotonic() + timeout
        while len(found) < count and time.monotonic() < end:
            for messages in self.consumer.poll(timeout_ms=100, max_records=count - len(found)).values():
                found += [(message.offset, message.value.decode()) for message in messages]
        return found

    def position(self) -> int:
        self.consumer.poll(timeout_ms=100)
        return int(self.consumer.position(self.partition))

    def commit(self, offset: int) -> None:
        self.consumer.commit({self.partition: OffsetAndMetadata(offset, "", -1)})

    def close(self) -> None:
        self.consumer.close()
