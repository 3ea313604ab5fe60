"""Sends requests to several brokers over the wire. Each helper returns the values that tests compare."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkawire.declare import Message
from kafkawire.errors import error_name
from requesting import delete_records, fetch, list_offsets, plain, produce_request
from responses import only
from wirebroker.client.wire import WireClient
from wirebroker.mock import MockKafka
from wirekit import batch, client


class Told(NamedTuple):
    """The result of a Produce request. −1 means that the response has no such offset."""

    error: str
    offset: int = -1
    log_start: int = -1
    leader: tuple[int, int] = (-1, -1)


class Read(NamedTuple):
    """The result of a Fetch request. `size` is the size of its records in bytes."""

    error: str
    high_watermark: int
    last_stable: int
    size: int
    diverging: tuple[int, int] = (-1, -1)


class Described(NamedTuple):
    """A partition as DescribeTopicPartitions shows it."""

    leader: int
    epoch: int
    in_sync: list[int]
    eligible: list[int]
    last_known: list[int]
    offline: list[int]


class Cluster:
    """One wire client for each broker of a MockKafka, by node id."""

    def __init__(self, kafka: MockKafka, brokers: int = 3) -> None:
        self.kafka = kafka
        self.wires = {node: client(kafka, node - 1) for node in range(1, brokers + 1)}

    def kill(self, node: int) -> None:
        self.kafka.kill_broker(node)
        self.wires[node].drop("main")
        self.wires[node].drop("admin")

    def wire(self, node: int) -> WireClient:
        return self.wires[node]

    def anyone(self) -> WireClient:
        return self.wires[self.kafka._call(lambda engine: min(engine.cluster.live_brokers))]

    def produce(
        self, node: int, topic: str, count: int = 1, *, seq: int = -1, pid: int = 5, acks: int = -1, version: int = 12,
        timeout_ms: int = 5000,
    ) -> Told:  # fmt: skip
        self.send(node, topic, count, seq=seq, pid=pid, acks=acks, version=version, timeout_ms=timeout_ms)
        return self.told(node, version)

    def send(
        self, node: int, topic: str, count: int = 1, *, seq: int = -1, pid: int = 5, acks: int = -1, version: int = 12,
        timeout_ms: int = 5000,
    ) -> None:  # fmt: skip
        """Sends a Produce request. `told` waits for the response."""
        data = batch(seq, count, pid=pid if seq >= 0 else -1, epoch=0 if seq >= 0 else -1, timestamp=self.kafka.clock.now())
        self.wires[node].send(produce_request(topic, data, acks=acks, timeout_ms=timeout_ms), version)

    def told(self, node: int, version: int = 12) -> Told:
        response = only(self.wires[node].response())
        leader = (response.current_leader.leader_id, response.current_leader.leader_epoch)
        return Told(error_name(response.error_code), response.base_offset, response.log_start_offset, leader)

    def fetch_request(self, topic: str, offset: int, *, epoch: int, last: int, wait_ms: int, committed: bool) -> Message:
        return fetch(
            offset,
            topic=topic,
            wait_ms=wait_ms,
            part={"current_leader_epoch": epoch, "last_fetched_epoch": last},
            isolation_level=int(committed),
        )

    def fetch(
        self, node: int, topic: str, offset: int = 0, *, epoch: int = -1, last: int = -1, wait_ms: int = 0,
        committed: bool = False, version: int = 12,
    ) -> Read:  # fmt: skip
        request = self.fetch_request(topic, offset, epoch=epoch, last=last, wait_ms=wait_ms, committed=committed)
        self.wires[node].send(request, version)
        return self.read(node, version)

    def read(self, node: int, version: int = 12) -> Read:
        data = only(self.wires[node].response())
        diverging = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        return Read(
            error_name(data.error_code), data.high_watermark, data.last_stable_offset, len(data.records or b""), diverging
        )

    def end(self, node: int, topic: str, version: int = 6) -> tuple[str, int, int]:
        """Requests the end offset with ListOffsets. Returns the error, the offset and the leader epoch."""
        request = list_offsets(-1, topic=topic)
        response = only(self.wires[node].request(request, version))
        return error_name(response.error_code), response.offset, response.leader_epoch

    def epoch_end(self, node: int, topic: str, epoch: int, current: int = -1) -> tuple[str, int, int]:
        """Sends OffsetForLeaderEpoch. Returns the error, the epoch, and the end offset of the epoch."""
        part = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        request = plain("OffsetForLeaderEpoch", replica_id=-1, topics=[{"topic": topic, "partitions": [part]}])
        response = only(self.wires[node].request(request, 3))
        return error_name(response.error_code), response.leader_epoch, response.end_offset

    def delete_records(self, node: int, topic: str, offset: int, timeout_ms: int = 1000) -> None:
        self.wires[node].send(delete_records(offset, topic=topic, timeout_ms=timeout_ms), 2)

    def deleted(self, node: int) -> tuple[str, int]:
        response = only(self.wires[node].response())
        return error_name(response.error_code), response.low_watermark

    def describe(self, topic: str) -> Described:
        request = plain("DescribeTopicPartitions", topics=[{"name": topic}], response_partition_limit=10)
        part: Any = only(self.anyone().request(request, 0, "admin"))
        return Described(
            part.leader_id, part.leader_epoch, part.isr_nodes, part.eligible_leader_replicas, part.last_known_elr,
            part.offline_replicas,
        )  # fmt: skip

    def metadata(self, topic: str, version: int = 9) -> dict[str, Any]:
        request = plain("Metadata", topics=[{"name": topic}], allow_auto_topic_creation=False)
        response = self.anyone().request(request, version, "admin")
        part = only(response)
        return {
            "brokers": [broker.node_id for broker in response.brokers], "error": error_name(part.error_code),
            "leader": part.leader_id, "epoch": part.leader_epoch, "replicas": part.replica_nodes,
            "in_sync": part.isr_nodes, "offline": part.offline_replicas,
        }  # fmt: skip
