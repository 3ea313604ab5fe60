"""The topic settings that decide whether an acknowledged record can be lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.disk.metadata import BROKER, TOPIC, Image
from wirebroker.audit.findings import INTERNAL_TOPICS
from wirebroker_audit.wire import MIN_IN_SYNC, UNCLEAN

SHOWN = 20
"""A notice names at most this many topics."""


class Durability(NamedTuple):
    """A topic's settings. The defaults are Kafka's. A broker's configuration file may set other values, which the metadata does
    not show."""

    replicas: int
    min_in_sync: int = 1
    unclean: bool = False

    @classmethod
    def of(cls, replicas: int, settings: Mapping[str, str]) -> Durability:
        """Makes the object from a topic's `settings`, which have Kafka's names."""
        least = settings.get(MIN_IN_SYNC, "")
        return cls(replicas, int(least) if least.isdecimal() else 1, settings.get(UNCLEAN) == "true")


def durability_in(image: Image) -> dict[str, Durability]:
    """Returns the settings of each topic in the cluster's metadata."""
    of_brokers = image.settings.get((BROKER, ""), {})
    return {
        topic.name: Durability.of(
            max((len(each.replicas) for each in topic.partitions.values()), default=0),
            {**of_brokers, **image.settings.get((TOPIC, topic.name), {})},
        )
        for topic in image.topics.values()
    }


def notices_of(durability: Mapping[str, Durability], idempotent: Mapping[str, int]) -> list[str]:
    """Returns sentences about topics that may lose acknowledged records. `idempotent` counts the idempotent producers of each
    audited topic; these producers use acks=all. A log does not show which acks the other producers use."""
    known = {topic: durability[topic] for topic in sorted(idempotent) if topic in durability}
    risky = [topic for topic, each in known.items() if each.unclean and each.replicas > 1]
    weak = [
        topic
        for topic, each in known.items()
        if each.min_in_sync < 2 <= each.replicas and idempotent[topic] and topic not in INTERNAL_TOPICS
    ]
    told = []
    if risky:
        told.append(f"{_named(risky)}: {UNCLEAN} is on, so a replica that lacks acknowledged records may become the leader")
    if weak:
        producers = sum(idempotent[topic] for topic in weak)
        told.append(
            f"{_named(weak)}: {MIN_IN_SYNC} is below 2 and producers use acks=all (at least the {producers:,} that are "
            "idempotent), so the leader alone may acknowledge a record; if the leader's broker fails, this record is lost"
        )
    return told


def _named(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - SHOWN:,} more topics" if topics[SHOWN:] else ""
    return ", ".join(topics[:SHOWN]) + more
