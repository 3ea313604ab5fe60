"""Record tiered storage of Kafka 4.3.1 (KIP-405), into tests/data/tiered-kafka-4.3.1.tar.xz for audit tests.

    scripts/record tiered

One broker moves small segments to Kafka's LocalTieredStorage, and keeps little locally. `orders` gets records of two idempotent
producers, `payments` gets transactions, some of them aborted, and `trimmed` has such a short retention that its oldest remote
segments are deleted. In the middle the broker restarts, so there are two leader epochs. The archive has the log directory
(`node/`), the remote directory (`remote/`) and the records that a consumer with read_committed gets (`consumed.json`). Takes
about a minute; needs `java` and `mvn`.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.kafka.releases import fetch_jar_of
from ecosystem.kafka.server import KafkaServer, until
from ecosystem.recording.common import DATA, parser_of

ARCHIVE = DATA / "tiered-kafka-4.3.1.tar.xz"
TOPICS: dict[str, dict[str, str]] = {"orders": {}, "payments": {}, "trimmed": {"retention.bytes": "12000"}}
TIERED = {
    "remote.storage.enable": "true", "internal.segment.bytes": "4096", "local.retention.bytes": "4096",
    "file.delete.delay.ms": "100", "index.interval.bytes": "512",
}  # fmt: skip
PACKAGE = "org.apache.kafka.server.log.remote"
LEFT_OUT = (".timeindex", ".lock", "bootstrap.checkpoint")
CACHE = "remote-log-index-cache"
"""The folder with the broker's copies of remote indexes."""
WITHIN = 90.0


def settings(remote: Path) -> dict[str, str]:
    """Returns the settings of a broker that moves segments to the folder `remote` within a second."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": f"{PACKAGE}.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": str(fetch_jar_of("kafka-storage", "test")),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rsm.config.dir": str(remote),
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        "remote.log.manager.task.interval.ms": "300",
        "log.retention.check.interval.ms": "300",
        "log.initial.task.delay.ms": "100",
        "replica.high.watermark.checkpoint.interval.ms": "500",
        "log.flush.start.offset.checkpoint.interval.ms": "500",
        "log.index.size.max.bytes": "4096",
    }


def produce(address: str, run: int) -> None:
    """Produce the records of one run."""
    for name in "ab":
        producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "batch.size": 1000})
        for number in range(150):
            producer.produce("orders", f"order {run} {name} {number} ".ljust(100, name), f"{run}-{name}-{number}", 0)
            producer.produce("trimmed", f"trimmed {run} {name} {number} ".ljust(100, name), None, 0)
            if not number % 10:
                producer.flush()
        producer.flush()
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"payments-{run}", "linger.ms": 5})
    producer.init_transactions()
    for number in range(40):
        producer.begin_transaction()
        for at in range(5):
            producer.produce("payments", f"payment {run} {number} {at} ".ljust(100, "."), f"{run}-{number}-{at}", 0)
        producer.flush()  # otherwise an abort would come before the records are sent
        (producer.abort_transaction if number % 4 == 3 else producer.commit_transaction)()


def consumed(address: str) -> dict[str, list[int]]:
    """Returns the offsets that a consumer with read_committed gets from the beginning of each topic."""
    found: dict[str, list[int]] = {}
    for topic in TOPICS:
        consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "isolation.level": "read_committed"})
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
        consumer.assign([TopicPartition(topic, 0, first)])
        offsets = found[topic] = []
        deadline = time.monotonic() + WITHIN
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end and time.monotonic() < deadline:
            if (message := consumer.poll(1)) is not None and message.error() is None:
                offsets.append(message.offset())
        consumer.close()
    return found


def main(arguments: list[str]) -> int:
    parser_of("tiered", __doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="record-tiered-") as name:
        folder = Path(name)
        remote = folder / "remote"
        remote.mkdir()
        with KafkaServer(settings(remote), data=folder / "node") as kafka:
            address = "{}:{}".format(*kafka.address)
            admin = AdminClient({"bootstrap.servers": address})
            for each in admin.create_topics(
                [NewTopic(name, 1, 1, config=TIERED | own) for name, own in TOPICS.items()]
            ).values():
                each.result()
            produce(address, 1)
            kafka.restart()
            produce(address, 2)
            logs = folder / "node" / "logs"
            until(
                lambda: all(len(list((logs / f"{topic}-0").glob("*.log"))) <= 3 for topic in TOPICS), "local retention", WITHIN
            )
            time.sleep(3)  # Kafka does not report when it has written its checkpoints
            offsets = consumed(address)
        with tarfile.open(ARCHIVE, "w:xz") as to:
            for path in sorted((*logs.rglob("*"), *remote.rglob("*"))):
                if path.is_file() and not path.name.endswith(LEFT_OUT) and CACHE not in path.parts:
                    to.add(path, str(path.relative_to(folder)).replace("/logs/", "/"))
            text = json.dumps(offsets).encode()
            info = tarfile.TarInfo("consumed.json")
            info.size = len(text)
            to.addfile(info, io.BytesIO(text))
    print(f"{ARCHIVE.stat().st_size:,} bytes in {ARCHIVE.name}")
    return 0
