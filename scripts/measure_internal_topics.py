#!/usr/bin/env python3
"""Measures the memory of the coordinators' topics while an engine handles one group's commits and one producer's transactions.

scripts/measure_internal_topics.py [--commits 1000000] [--transactions 100000] [--without]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

from _environment import enter

enter("crc32c", "psutil")

from kafkawire.declare import Message
from kafkawire.frames import SIZE, decode_response, encode_request
from kafkawire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafkawire.messages.end_txn import EndTxnRequest
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from wirebroker.engine.engine import Engine
from wirebroker.requests.effects import Respond

SHOWN = 10
"""The number of lines in each table."""


class Session:
    """One connection to an engine whose clock shows the machine's time."""

    def __init__(self, compacting: bool) -> None:
        settings = {"log.cleaner.enable": str(compacting).lower()}
        self.engine = Engine(self._now(), os.urandom, cold_start=False, settings=settings)
        self.engine.timers.in_slices = True
        self.engine.cluster.create_topic("orders", self._now())
        self._connection = self.engine.connect(1)

    @staticmethod
    def _now() -> int:
        return time.time_ns() // 1_000_000

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request, runs one slice of the engine's deferred work, and returns the response."""
        frame = encode_request(1, "measure", request, version)[SIZE.size :]
        self.engine.receive(self._connection, memoryview(frame), self._now())
        self.engine.tick(self._now(), lambda: True)
        (effect,) = self.engine.take_effects()
        assert isinstance(effect, Respond), effect
        response = b"".join(bytes(part) for part in effect.parts)[SIZE.size :]
        return decode_response(response, request.__schema__.key, version)[1]

    def held(self, topic: str) -> int:
        """Returns the size in bytes of a topic's logs."""
        return sum(each.log.size for each in self.engine.cluster.topics[topic].partitions)


def resident() -> int:
    """Returns the resident memory of this process, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def measure(session: Session, what: str, topic: str, count: int, act: Callable[[int], None]) -> None:
    """Call `act` `count` times, and print the memory of the topic and of the process at intervals."""
    act(0)
    before, begun = resident(), time.process_time()
    longest = 0.0
    print(f"{what:>14} {'MiB in ' + topic:>28} {'more MiB resident':>18} {'us each':>8} {'longest ms':>10}")
    for number in range(1, count + 1):
        started = time.process_time()
        act(number)
        longest = max(longest, time.process_time() - started)
        if number % max(count // SHOWN, 1) == 0:
            each = (time.process_time() - begun) / number * 1e6
            grown = (resident() - before) / 2**20
            print(f"{number:>14,} {session.held(topic) / 2**20:>28.2f} {grown:>18.1f} {each:>8.1f} {longest * 1e3:>10.1f}")


def commits(session: Session, count: int) -> None:
    """Commit offsets of one group on one partition."""
    session.ask(FindCoordinatorRequest(key="group", key_type=0), 2)

    def act(number: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="")
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        response = session.ask(OffsetCommitRequest(group_id="group", topics=[topic]), 7)
        assert response.topics[0].partitions[0].error_code == 0

    measure(session, "commits", "__consumer_offsets", count, act)


def transactions(session: Session, count: int) -> None:
    """Run transactions with one transactional id. Each adds a partition and ends without records."""
    session.ask(FindCoordinatorRequest(key="id", key_type=1), 2)
    begun = session.ask(InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000), 3)
    who = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}

    def act(_: int) -> None:
        topic = AddPartitionsToTxnTopic(name="orders", partitions=[0])
        request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="id", v3_and_below_topics=[topic])
        request.v3_and_below_producer_id, request.v3_and_below_producer_epoch = who.values()
        session.ask(request, 3)
        assert session.ask(EndTxnRequest(transactional_id="id", committed=True, **who), 3).error_code == 0

    measure(session, "transactions", "__transaction_state", count, act)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--without", action="store_true", help="do not compact")
    options = parser.parse_args()
    session = Session(compacting=not options.without)
    commits(session, options.commits)
    transactions(session, options.transactions)


if __name__ == "__main__":
    main()
