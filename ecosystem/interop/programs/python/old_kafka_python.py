"""The checks with kafka-python 2.0.2. The client asks the broker for its API versions. If the environment variable PINNED is
set, the client does not ask. Instead it uses the versions of the release in its setting `api_version`; the checks run with
several earlier releases, one after the other.
"""

from __future__ import annotations

import os
from typing import Any

import kafka
import kit
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

COUNT = 40
RELEASES = ((0, 8, 2), (0, 9), (0, 10), (0, 10, 1), (0, 11)) if os.environ.get("PINNED") else (None,)
"""The values of `api_version`; with None the client asks the broker."""
NO_GROUPS = (0, 8, 2)


def consumed(topic: str, settings: dict[str, Any], group: str | None = None) -> list[bytes]:
    consumer = KafkaConsumer(
        group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, consumer_timeout_ms=20_000, **settings
    )
    if group is None:
        consumer.assign([TopicPartition(topic, 0)])
    else:
        consumer.subscribe([topic])
    found = [record.value for _, record in zip(range(COUNT), consumer, strict=False)]
    if group is not None:
        consumer.commit()
        assert consumer.committed(TopicPartition(topic, 0)) == COUNT
    consumer.close()
    return found


def produce(bootstrap: str, prefix: str) -> str:
    """Produce and consume as a client of each release: message sets of magic 0 and 1, and record batches."""
    for release in RELEASES:
        settings = {"bootstrap_servers": bootstrap, "api_version": release}
        for codec in (None, "gzip"):
            topic = f"{prefix}-{'-'.join(map(str, release or ('asked',)))}-{codec}"
            producer = KafkaProducer(compression_type=codec, acks="all", **settings)
            sent = [producer.send(topic, partition=0, value=b"v%d" % at) for at in range(COUNT)]
            assert [each.get(20).offset for each in sent] == list(range(COUNT))
            producer.close()
            assert consumed(topic, settings) == [b"v%d" % at for at in range(COUNT)], (release, codec)
    return f"{RELEASES}, with and without gzip"


def rebalance(bootstrap: str, prefix: str) -> None:
    """With each release that has Kafka's own groups, consume in a group, commit, and read the committed offsets."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for release in RELEASES:
        if release == NO_GROUPS:
            continue
        topic = f"{prefix}-{'-'.join(map(str, release or ('asked',)))}"
        for at in range(COUNT):
            producer.send(topic, partition=0, value=b"v%d" % at).get(20)
        settings = {"bootstrap_servers": bootstrap, "api_version": release}
        assert consumed(topic, settings, topic) == [b"v%d" % at for at in range(COUNT)], release
    producer.close()


kit.run("kafka-python", kafka.__version__, {"produce": produce, "rebalance": rebalance})
