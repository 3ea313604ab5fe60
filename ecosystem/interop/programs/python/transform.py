"""Consumes NAME.in, produces NAME.out, and commits: transform.py BOOTSTRAP NAME INSTANCE [--at-least-once]

Each output has the headers of its input and another value. Every tenth output goes to NAME.rejected. With transactions each
record is processed exactly once; with --at-least-once, the outputs are stored twice if the program is killed between the
outputs and their commit. Ends with code 1 after an error from which only a new producer recovers.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

EVERY = 0.3
"""A transaction is committed after this many seconds."""
WITHIN = 30.0
# If no broker can be reached, librdkafka begins again with the bootstrap addresses. Its transactional producer then waits for
# ever for the former connection to the group's coordinator (seen with librdkafka 2.16 and with a Kafka 4.3.1 that was killed
# and started). "none" keeps the known brokers.
KEEPS_BROKERS = {"metadata.recovery.strategy": "none"}


class Exactly:
    """Consume, transform, produce in transactions. Before partitions are revoked, their transaction is committed."""

    def __init__(self, bootstrap: str, name: str, instance: str) -> None:
        self.name = name
        reads = {"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False,
                 "auto.offset.reset": "earliest", "isolation.level": "read_committed"}  # fmt: skip
        self.consumer = Consumer(reads | KEEPS_BROKERS)
        self.producer = Producer({"bootstrap.servers": bootstrap} | KEEPS_BROKERS | self.settings(instance))
        self.offsets: dict[tuple[str, int], int] = {}
        """for each partition with consumed records that are not yet committed, the offset after these records"""
        self.began = 0.0
        self.stopped = False
        self.prepare()

    def settings(self, instance: str) -> dict[str, Any]:
        return {"transactional.id": f"{self.name}-{instance}", "transaction.timeout.ms": 15_000}

    def prepare(self) -> None:
        again(lambda: self.producer.init_transactions(WITHIN))

    def run(self) -> None:
        self.consumer.subscribe([f"{self.name}.in"], on_revoke=lambda *_: self.finish(), on_lost=lambda *_: self.abort())
        while not self.stopped:
            record = self.consumer.poll(0.1)
            if record is not None and record.error() is None:
                self.take(record)
            if self.offsets and time.monotonic() > self.began + EVERY:
                self.finish()
        self.finish()
        self.consumer.close()

    def take(self, record: Message) -> None:
        if not self.offsets:
            self.began = time.monotonic()
            self.begin()
        number = int(dict(record.headers())["id"].decode().split("-")[1])
        topic = f"{self.name}.{'rejected' if number % 10 == 9 else 'out'}"
        value = b'{"invoice": "%s"}' % dict(record.headers())["id"]
        while True:
            try:
                self.producer.produce(topic, value, record.key(), headers=record.headers())
                break
            except BufferError:
                self.producer.poll(0.1)
        self.offsets[record.topic(), record.partition()] = record.offset() + 1

    def positions(self) -> list[TopicPartition]:
        return [TopicPartition(*where, offset) for where, offset in self.offsets.items()]

    def begin(self) -> None:
        self.producer.begin_transaction()

    def finish(self) -> None:
        """Commit the transaction. If the commit fails with an error that requires an abort, abort the transaction, and consume
        its records again."""
        if not self.offsets:
            return
        try:
            metadata = self.consumer.consumer_group_metadata()
            again(lambda: self.producer.send_offsets_to_transaction(self.positions(), metadata, WITHIN))
            again(lambda: self.producer.commit_transaction(WITHIN))
            self.offsets.clear()
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            print(f"aborts: {failed}", file=sys.stderr, flush=True)
            self.abort()

    def abort(self) -> None:
        if not self.offsets:
            return
        self.offsets.clear()
        again(lambda: self.producer.abort_transaction(WITHIN))
        for committed in self.consumer.committed(self.consumer.assignment(), WITHIN):
            start = max(committed.offset, 0)
            self.consumer.seek(TopicPartition(committed.topic, committed.partition, start))


class AtLeastOnce(Exactly):
    """Produces, flushes, then commits."""

    def settings(self, instance: str) -> dict[str, Any]:
        return {"enable.idempotence": True}

    def prepare(self) -> None:
        pass

    begin = prepare

    def finish(self) -> None:
        if self.offsets:
            if self.producer.flush(120):
                raise SystemExit("outputs were not acknowledged")
            try:
                self.consumer.commit(offsets=self.positions(), asynchronous=False)
            except KafkaException as failed:  # the group has rebalanced: another member consumes these records again
                print(f"not committed: {failed}", file=sys.stderr, flush=True)
            self.offsets.clear()

    def abort(self) -> None:
        self.producer.flush(120)
        self.offsets.clear()


def again(call: Any) -> None:
    """Repeat the call until it succeeds, or fails with an error that is not retriable."""
    while True:
        try:
            call()
            return
        except KafkaException as failed:
            error: KafkaError = failed.args[0]
            if not error.retriable():
                raise


def main(words: Sequence[str]) -> None:
    application = (AtLeastOnce if "--at-least-once" in words else Exactly)(*words[:3])

    def stop(*_: Any) -> None:
        application.stopped = True

    signal.signal(signal.SIGTERM, stop)
    application.run()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KafkaException as fatal:
        sys.exit(f"ends: {fatal}")
