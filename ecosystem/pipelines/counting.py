"""Counts the inputs and outputs of an application with a separate consumer, without any code of the audit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from ecosystem.kafka.server import until


class Cluster(Protocol):
    """A cluster that a client can reach."""

    bootstrap: str


class Counts(NamedTuple):
    """The numbers of an application's records, as a consumer with read_committed sees them."""

    inputs: int
    repeated: int
    """inputs that their producer stored a second time"""
    outputs: int
    dropped: int
    """inputs that need no output"""
    lost: int
    doubled: int
    invented: int
    disordered: int
    """inputs whose first output comes after an output of a later input with the same key"""


def committed_records(cluster: Cluster, topic: str) -> Iterator[Message]:
    """Yields all records of a topic that a consumer with read_committed sees."""
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": "counts", "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True,
    })  # fmt: skip
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
    left = set(partitions)
    while left:
        record = consumer.poll(60)
        if record is None:
            raise SystemExit(f"{topic}: no record within 60 s")
        if record.error() is None:
            yield record
        else:
            left.discard(record.partition())
    consumer.close()


def identity(name: str, record: Message) -> str:
    if name in ("java", "go"):
        return str(json.loads(record.value())["order"]["id"])
    return str(dict(record.headers())["id"].decode())


def count(cluster: Cluster, name: str, outputs: list[str]) -> Counts:
    """Count the records of this application."""
    places: dict[str, tuple[int, int]] = {}
    into, out, dropped = Counter[str](), Counter[str](), set[str]()
    for record in committed_records(cluster, f"{name}.in"):
        which = identity(name, record)
        into[which] += 1
        places.setdefault(which, (record.partition(), record.offset()))
        if name == "go" and json.loads(record.value()).get("state") == "draft":
            dropped.add(which)
    latest: dict[tuple[int, bytes, str, int], int] = {}
    disordered = 0
    for topic in outputs:
        for record in committed_records(cluster, topic):
            which = identity(name, record)
            out[which] += 1
            if out[which] == into[which] == 1:
                partition, offset = places[which]
                among = (partition, record.key(), topic, record.partition())
                disordered += latest.get(among, -1) > offset
                latest[among] = max(latest.get(among, -1), offset)
    return Counts(
        into.total(), into.total() - len(into), out.total(), len(dropped),
        lost=sum(max(into[which] - out[which], 0) for which in into.keys() - dropped),
        doubled=sum(max(out[which] - into[which], 0) for which in into),
        invented=sum(out[which] for which in out.keys() - into.keys()), disordered=disordered,
    )  # fmt: skip


def last_inputs(cluster: Cluster, name: str) -> dict[int, int]:
    """Returns the offset of the last committed input of each partition."""
    return {record.partition(): record.offset() for record in committed_records(cluster, f"{name}.in")}


def is_drained(cluster: Cluster, name: str, last: dict[int, int]) -> bool:
    """Tells whether the application's group has committed all inputs."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name, "isolation.level": "read_committed"})
    try:
        committed = consumer.committed([TopicPartition(f"{name}.in", each) for each in last], 30)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return all(each.offset > last[each.partition] for each in committed)


def drain(cluster: Cluster, names: Iterable[str], tend: Callable[[], object]) -> None:
    """Waits until these applications have processed all inputs, and calls `tend` repeatedly while it waits."""
    last = {name: last_inputs(cluster, name) for name in names}

    def drained() -> bool:
        tend()
        return all(is_drained(cluster, name, last[name]) for name in last)

    until(drained, "all inputs processed", 300)
