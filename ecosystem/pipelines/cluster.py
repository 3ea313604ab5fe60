"""A real Kafka cluster on one machine: three brokers, which are also controllers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.kafka.releases import HOST, free_port
from ecosystem.kafka.server import KafkaServer, start_together

NODES = ("1", "2", "3")
SETTINGS = {
    "auto.create.topics.enable": "false", "default.replication.factor": "3", "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2", "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2", "group.initial.rebalance.delay.ms": "1000",
    "broker.session.timeout.ms": "6000", "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "3000", "group.consumer.heartbeat.interval.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "1000", "log.segment.bytes": str(16 << 20),
    "num.network.threads": "2", "num.io.threads": "3",
}  # fmt: skip


class Cluster:
    """Three brokers, and an administrator's client."""

    def __init__(self, stack: ExitStack, folder: Path, version: str) -> None:
        self.folder = folder
        controllers = {node: f"{HOST}:{free_port()}" for node in NODES}
        shared: dict[str, Any] = {"version": version, "heap": "256m", "quorum": controllers}
        self.servers = [KafkaServer(SETTINGS | {"node.id": node}, data=folder / f"node-{node}", **shared) for node in NODES]
        for server in self.servers:
            stack.callback(server.close)
        start_together(self.servers)
        self.bootstrap = ",".join("{}:{}".format(*server.address) for server in self.servers)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topics: dict[str, int], **configs: str) -> None:
        """Create topics with their numbers of partitions."""
        wanted = [NewTopic(name, partitions, 3, config=configs) for name, partitions in topics.items()]
        for made in self.admin.create_topics(wanted).values():
            made.result(30)

    def stop(self) -> Path:
        """Stop the brokers. Returns the folder of their log directories."""
        logs = self.folder / "logs"
        logs.mkdir()
        for node, server in zip(NODES, self.servers, strict=True):
            server.stop()
            (self.folder / f"node-{node}" / "logs").rename(logs / f"node-{node}")
        return logs

    def in_sync(self) -> bool:
        """Tells whether all replicas of all partitions are in sync."""
        try:
            topics = self.admin.list_topics(timeout=5).topics.values()
        except KafkaException:
            return False
        return all(len(each.isrs) == 3 for topic in topics for each in topic.partitions.values())
