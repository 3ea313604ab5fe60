"""Produces inputs steadily.

    feed.py BOOTSTRAP RATE NAME…

Record n of topic NAME.in has one of 500 keys, the header `id`, and a JSON value. The first n is the present time in ms, so that
a feed that is started again makes other records. The producer is idempotent. For names that begin with `go` it also uses
transactions, and aborts every eighth transaction. SIGTERM ends the feed after all records are acknowledged.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaException, Producer

TICK = 0.2
"""Seconds between two bursts of records."""
KEYS = 500


def record(topic: str, number: int) -> dict[str, Any]:
    told = {"order": {"id": f"{topic}-{number}"}, "state": "draft" if number % 7 == 3 else "new", "note": "x" * (number % 90)}
    key = f"k{random.randrange(KEYS)}"
    return {"topic": f"{topic}.in", "key": key, "value": json.dumps(told), "headers": {"id": f"{topic}-{number}"}}


class Plain:
    """An idempotent producer without transactions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic, self.number, self.sent, self.lost = topic, time.time_ns() // 1_000_000, 0, 0
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True} | self.settings())

    def settings(self) -> dict[str, Any]:
        return {}

    def send(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.sent += 1
            while True:
                try:
                    self.producer.produce(**record(self.topic, self.number), on_delivery=self._delivered)
                    break
                except BufferError:
                    self.producer.poll(0.1)
        self.producer.poll(0)

    def _delivered(self, error: Any, _: Any) -> None:
        self.lost += error is not None

    def close(self) -> None:
        self.producer.flush(120)


class Transactional(Plain):
    """Sends each burst in a transaction. A failed transaction is aborted, and its records are not sent again."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self.turn = 0
        self.producer.init_transactions(60)

    def settings(self) -> dict[str, Any]:
        return {"transactional.id": f"feed-{self.topic}", "transaction.timeout.ms": 60_000}

    def send(self, count: int) -> None:
        self.turn += 1
        self.producer.begin_transaction()
        super().send(count)
        while True:
            try:
                if self.turn % 8:
                    self.producer.commit_transaction(30)
                else:
                    self.producer.flush(30)  # so that the log also has the records of the aborted transaction
                    self.producer.abort_transaction(30)
                return
            except KafkaException as failed:
                if failed.args[0].txn_requires_abort():
                    self.turn = 0
                elif not failed.args[0].retriable():
                    raise


def bursts(rate: float) -> Iterator[int]:
    """After each tick, yields the number of records that are due."""
    began, sent = time.monotonic(), 0
    while True:
        time.sleep(TICK)
        due = int((time.monotonic() - began) * rate)
        yield min(due - sent, int(rate))  # the records that were due in a long pause are not sent later
        sent = due


def main(bootstrap: str, rate: str, *topics: str) -> None:
    feeds = [(Transactional if topic.startswith("go") else Plain)(bootstrap, topic) for topic in topics]
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    for count in bursts(float(rate)):
        for feed in feeds:
            feed.send(count)
        if stopped:
            break
    for feed in feeds:
        feed.close()
    print(json.dumps({feed.topic: {"sent": feed.sent, "lost": feed.lost} for feed in feeds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
