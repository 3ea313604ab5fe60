"""Measures transactions a second: produce one batch, commit, repeat; alternately on wirebroker and on a real Apache Kafka.

One producer uses transaction version 2 over a raw connection: Produce v12, which adds the partition to the transaction, and
EndTxn v5. If Kafka returns CONCURRENT_TRANSACTIONS, the producer repeats the request at once, like a client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.contenders import Contender
from bench.process import Server
from ecosystem.kafka.server import KafkaServer, KafkaUnavailable
from kafkawire.batches import Record, build_batch
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.end_txn import EndTxnRequest
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wirebroker.client.wire import WireClient

SECONDS = 3.0
CONCURRENT_TRANSACTIONS = 51
PAUSE, WITHIN = 0.05, 30.0
VALUE = b"v" * 100


def measure(wirebroker: Contender, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Returns the transactions a second of wirebroker and of Kafka in each round; `failure` is the reason if there is
    no real Kafka.
    """
    found: dict[str, Any] = {"rounds": [], "failure": None}
    try:
        with KafkaServer({"num.partitions": "1"}) as kafka, Server(wirebroker.at(0)) as server:
            host, _, port = server.address.rpartition(":")
            for number in range(rounds):
                say(f"transactions: round {number + 1} of {rounds}")
                found["rounds"].append(
                    {"wirebroker": per_second((host, int(port)), number), "Kafka 4.3.1": per_second(kafka.address, number)}
                )
    except KafkaUnavailable as lacking:
        found["failure"] = str(lacking)
    return found


def per_second(address: tuple[str, int], number: int) -> float:
    """Returns the number of transactions that one producer commits in a second."""
    client = WireClient(*address, timeout=30)
    name = f"bench-{number}-{time.time_ns()}"
    producer_id, epoch = _start(client, name)
    done, end = 0, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        _produce(client, name, producer_id, epoch)
        request = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True)
        response = client.request(request, 5)
        if response.error_code:
            raise RuntimeError(f"EndTxn returned error {response.error_code}")
        producer_id, epoch = response.producer_id, response.producer_epoch
        done += 1
    client.close()
    return done / SECONDS


def _start(client: WireClient, name: str) -> tuple[int, int]:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        if not client.request(find, 4).coordinators[0].error_code:
            response = client.request(init, 4)
            if not response.error_code:
                return response.producer_id, response.producer_epoch
        time.sleep(PAUSE)
    raise RuntimeError("the transaction coordinator was not ready in time")


def _produce(client: WireClient, name: str, producer_id: int, epoch: int) -> None:
    data = build_batch(
        [Record(0, 0, None, VALUE)], base_timestamp=time.time_ns() // 1_000_000, producer_id=producer_id,
        producer_epoch=epoch, base_sequence=0, transactional=True,
    )  # fmt: skip
    partition = PartitionProduceData(index=0, records=data)
    topic = TopicProduceData(name=name, partition_data=[partition])
    request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[topic])
    while True:
        response = client.request(request, 12).responses[0].partition_responses[0]
        if not response.error_code:
            return
        if response.error_code not in (CONCURRENT_TRANSACTIONS, 3, 6):  # 3, 6: the new topic is not ready yet
            raise RuntimeError(f"Produce returned error {response.error_code}")


def report(found: dict[str, Any]) -> str:
    """Returns the report, with a line for each figure."""
    if found["failure"]:
        return f"Transactions were not measured: {found['failure']}"
    lines = ["Transactions a second: one batch of one record, committed; one producer"]
    for name in ("wirebroker", "Kafka 4.3.1"):
        rates = [each[name] for each in found["rounds"]]
        lines.append(f"  {name:12} {median(rates):8,.0f}   from {min(rates):,.0f} to {max(rates):,.0f}")
    ratio = median(each["wirebroker"] / each["Kafka 4.3.1"] for each in found["rounds"])
    lines.append(f"  wirebroker is {ratio:.1f} times as fast (median of the ratios within a round)")
    return "\n".join(lines)
