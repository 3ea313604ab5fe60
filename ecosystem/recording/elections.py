"""Record leader elections among three brokers of Kafka 4.3.1, into tests/data/elections-kafka-4.3.1.tar.xz for audit tests.

    scripts/record elections

Node 1 is the controller. The topic `clean` has replicas on nodes 2 and 1; the topics `allowed`, `unclean` and `idle` have
replicas on nodes 2 and 3. Each topic gets 50 records. Then node 3 stops, and `unclean` and `allowed` get 100 records that only
node 2 has. Then node 2 is killed, and node 3 starts again. Node 1 now leads `clean`. Node 3 is elected for the other topics:
for `allowed` because of the topic's setting, for `unclean` and `idle` by an administrator. Each topic then gets 20 records. The
log directories are then copied to `away/`. Then node 2 starts again, deletes the records that node 3 does not have, and is in
sync again; the log directories are then copied to `back/`. Takes about a minute; needs `java` and `mvn`.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ecosystem.kafka.server import KafkaServer, until
from ecosystem.recording.common import DATA, parser_of
from kafkawire.batches import Record, build_batch
from requesting import create_topics, new_topic, plain, produce_request
from responses import sole
from wirebroker.client.wire import WireClient

ARCHIVE = DATA / "elections-kafka-4.3.1.tar.xz"
NODES = (1, 2, 3)
TOPICS: dict[str, tuple[list[int], dict[str, str]]] = {
    "clean": ([2, 1], {}),
    "unclean": ([2, 3], {}),
    "allowed": ([2, 3], {"unclean_leader_election_enable": "true"}),
    "idle": ([2, 3], {}),
}
SETTINGS = {
    "auto.leader.rebalance.enable": "false", "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}  # fmt: skip
UNCLEAN = 1
"""The election type of ElectLeaders."""
WITHIN = 180.0
WRITTEN_WITHIN = 2.0
"""Seconds after which Kafka has written all checkpoints. Kafka does not report when they are written."""
LEFT_OUT = ("kafka.log", "server.properties", ".index", ".timeindex", ".lock", "bootstrap.checkpoint")


class Kafkas:
    """Three brokers, and clients of them."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        first = KafkaServer(SETTINGS | {"node.id": "1"}, data=folder / "node-1")
        rest = {
            node: KafkaServer(SETTINGS | {"node.id": str(node)}, data=folder / f"node-{node}", joins=first) for node in (2, 3)
        }
        self.servers = {1: first, **rest}
        for server in self.servers.values():
            stack.enter_context(server)
        self.produced = 1000

    def ask(self, node: int, request: Any, version: int) -> Any:
        client = WireClient(*self.servers[node].address)
        try:
            return client.request(request, version)
        finally:
            client.close()

    def state(self, topic: str) -> tuple[int, list[int]]:
        """Returns the leader and the in-sync replicas of a topic's partition."""
        found = sole(sole(self.ask(1, plain("Metadata", topics=[{"name": topic}]), 9).topics).partitions)
        return found.leader_id, sorted(found.isr_nodes)

    def wait(self, *topics: str, leader: int | None = None, in_sync: list[int] | None = None) -> None:
        def is_so() -> bool:
            states = map(self.state, topics)
            return all(leader in (None, had) and in_sync in (None, those) for had, those in states)

        until(is_so, f"leader {leader}, in sync {in_sync} of {topics}", WITHIN)

    def produce(self, count: int, *topics: str) -> None:
        """Produce records with acks=all in batches of ten. Each topic has its own producer id."""
        for topic in topics:
            self.produced += 1
            for at in range(0, count, 10):
                records = [
                    Record(each, 0, None, b"%s %d %d" % (topic.encode(), self.produced, at + each)) for each in range(10)
                ]
                now = int(time.time() * 1000)
                batch = build_batch(records, base_timestamp=now, producer_id=self.produced, producer_epoch=0, base_sequence=at)
                until(partial(self._stored, topic, batch), topic, WITHIN)

    def _stored(self, topic: str, batch: bytes) -> bool:
        leader, _ = self.state(topic)
        told = sole(sole(self.ask(leader, produce_request(topic, batch), 9).responses).partition_responses)
        return not told.error_code


def play(kafkas: Kafkas, save: Callable[[str], None]) -> None:
    on_three = [topic for topic, (nodes, _) in TOPICS.items() if 3 in nodes]
    made = [new_topic(name, -1, -1, on=[(0, nodes)], **configs) for name, (nodes, configs) in TOPICS.items()]

    def is_created() -> bool:
        return all(code.error_code in (0, 36) for code in kafkas.ask(1, create_topics(*made), 5).topics)

    until(is_created, "CreateTopics", WITHIN)
    kafkas.wait("clean", in_sync=[1, 2])
    kafkas.wait(*on_three, in_sync=[2, 3])
    kafkas.produce(50, *TOPICS)
    kafkas.servers[3].stop()
    kafkas.wait(*on_three, in_sync=[2])
    kafkas.produce(100, "unclean", "allowed")
    time.sleep(WRITTEN_WITHIN)
    kafkas.servers[2].stop("kill")
    kafkas.wait("clean", leader=1)
    kafkas.wait(*on_three, leader=-1)
    kafkas.servers[3].start()
    kafkas.wait("allowed", leader=3)
    named = [{"topic": name, "partitions": [0]} for name in ("unclean", "idle")]
    kafkas.ask(1, plain("ElectLeaders", election_type=UNCLEAN, topic_partitions=named, timeout_ms=5000), 2)
    kafkas.wait(*on_three, leader=3)
    kafkas.produce(20, *TOPICS)
    time.sleep(WRITTEN_WITHIN)
    save("away")
    kafkas.servers[2].start()
    kafkas.wait("clean", in_sync=[1, 2])
    kafkas.wait(*on_three, in_sync=[2, 3])
    time.sleep(WRITTEN_WITHIN)
    save("back")


def main(arguments: list[str]) -> int:
    parser_of("elections", __doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="record-elections-") as name:
        folder, made = Path(name), Path(name, ARCHIVE.name)
        with ExitStack() as stack, tarfile.open(made, "w:xz") as to:

            def save(when: str) -> None:
                for path in sorted(folder.glob("node-*/logs/**/*")):
                    if path.is_file() and not path.name.endswith(LEFT_OUT):
                        to.add(path, f"{when}/{path.relative_to(folder)}".replace("/logs/", "/"))

            play(Kafkas(stack, folder), save)
        shutil.copyfile(made, ARCHIVE)  # only now, so that a failure leaves the former recording
    print(f"{ARCHIVE.stat().st_size:,} bytes in {ARCHIVE.name}")
    return 0
