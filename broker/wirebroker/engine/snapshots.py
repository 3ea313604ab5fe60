"""Snapshots of a broker in memory. If a test goes back to a snapshot, clients see a restart of all brokers, and the logs become
the logs of the snapshot.

A new engine gets the state that Kafka keeps on its disk: the metadata, the logs, and the states of the logs' producers and
transactions. A restart keeps only the last batch of each producer. A snapshot keeps all batches in the producer's window. The
coordinators load their state from their topics. Leader epochs and producer ids never go back, because clients have already seen
later values. From the newer leader epoch, a consumer also learns that records were lost (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from kafkawire.disk.metadata import BROKER, CLIENT_METRICS, GROUP, Image
from wirebroker.core.cluster import Cluster, StoredPartition, Topic
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.image import enter_image, image_of, load_coordinators
from wirebroker.core.partition import PartitionCopy
from wirebroker.core.profile import Rules
from wirebroker.engine.engine import Engine


class TopicCopy(Struct, frozen=True):
    """A copy of a topic in a snapshot."""

    name: str
    topic_id: bytes
    overrides: Mapping[str, str]
    partitions: tuple[PartitionCopy, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The state of a broker at one time. A snapshot never changes, so a test can go back to it many times."""

    now: int
    """The time of the snapshot on the broker's clock, in ms since the epoch."""
    of: object = field(repr=False)
    """The host from which the snapshot was taken. A host is the object that runs a broker's engine."""
    image: Image = field(repr=False)
    """The cluster's metadata without its topics."""
    topics: tuple[TopicCopy, ...] = field(repr=False)
    passwords: Mapping[str, str] = field(repr=False)
    rules: Rules = field(repr=False)
    run: Mapping[int, Rules] = field(repr=False)
    """For each broker, the rules of the release that it runs."""
    random_bytes: Callable[[int], bytes] = field(repr=False)
    """The generator of random ids. The snapshot keeps the generator, so that ids in the snapshot are not generated a second
    time."""


def take(engine: Engine, now: int, of: object) -> Snapshot:
    """Returns a snapshot of the engine. `of` is the engine's host. Raises RuntimeError if the broker has a data directory, if a
    broker is down, or if a replica lags, moves or is offline.
    """
    if engine.store is not None:
        raise RuntimeError(f"this broker keeps its data in {engine.store.root}; a snapshot needs a broker in memory")
    if engine.upgrading is not None:
        raise RuntimeError(f"an upgrade to {engine.upgrading.rules.name} is in progress; take a snapshot before or after it")
    engine.set_time(now)
    engine.controller.finish()
    engine.groups.changes.finish()
    engine.timers.finish_work()
    cluster = engine.cluster
    _check_whole(cluster)
    topics = tuple(_copy(topic, cluster) for topic in cluster.topics.values())
    run = {node_id: broker.rules for node_id, broker in cluster.brokers.items()}
    passwords = dict(engine.authenticator.passwords)
    return Snapshot(now, of, image_of(cluster), topics, passwords, engine.rules, run, cluster.random_bytes)


def _check_whole(cluster: Cluster) -> None:
    for node_id, broker in cluster.brokers.items():
        if not broker.alive:
            raise RuntimeError(f"broker {node_id} is down; start it before you take a snapshot")
    for partition in cluster.partitions():
        if not partition.is_whole:
            where = f"{partition.topic}-{partition.index}"
            raise RuntimeError(f"a replica of {where} lags, moves or is offline; let it follow before you take a snapshot")


def _copy(topic: Topic, cluster: Cluster) -> TopicCopy:
    partitions = (
        each.copied({node_id: cluster.log_dirs.of(each, node_id) for node_id in each.replicas}) for each in topic.partitions
    )
    return TopicCopy(topic.name, topic.topic_id, dict(topic.configs.overrides), tuple(partitions))


def go_back(engine: Engine, snapshot: Snapshot, before: Engine) -> None:
    """Load the snapshot into a new engine, which replaces the engine `before`."""
    cluster, now = engine.cluster, snapshot.now
    cluster.forget_topics(now)
    engine.become(snapshot.rules)
    for node_id, rules in snapshot.run.items():
        engine.run_release(cluster.brokers[node_id], rules)
    cluster.random_bytes = snapshot.random_bytes
    cluster.alter_acls((), list(cluster.acls))
    cluster.quotas.alter([(entity, key, None) for entity, held in cluster.quotas.limits.items() for key in held])
    cluster.scram.clear()
    enter_image(cluster, snapshot.image)
    engine.alter_features({})
    _enter_settings(engine.configs, snapshot.image)
    engine.authenticator.passwords.clear()
    engine.authenticator.passwords.update(snapshot.passwords)
    for topic in snapshot.topics:
        _restore(topic, cluster, before.cluster, now)
    cluster.last_epoch = max(before.cluster.last_epoch, *_epochs_gone(cluster, before.cluster))
    ids = cluster.producer_ids
    ids.next_block = max(ids.next_block, before.cluster.producer_ids.next_block)
    load_coordinators(cluster, engine.coordinators, now)
    for partition in cluster.partitions():
        engine.maintenance.compaction.consider(partition)
    engine.trace.clear()


def _enter_settings(configs: BrokerConfigs, image: Image) -> None:
    settings = image.settings.items()
    configs.restore({int(name) if name else None: held for (kind, name), held in settings if kind == BROKER})
    configs.groups.update({name: dict(held) for (kind, name), held in settings if kind == GROUP})
    configs.client_metrics.update({name: dict(held) for (kind, name), held in settings if kind == CLIENT_METRICS})


def _restore(topic: TopicCopy, cluster: Cluster, before: Cluster, now: int) -> None:
    stored = [StoredPartition(each.dirs, each.leader_epoch) for each in topic.partitions]
    made = cluster.restore_topic(topic.name, topic.topic_id, topic.overrides, stored, now)
    former = before.topics_by_id.get(topic.topic_id)
    for partition, kept in zip(made.partitions, topic.partitions, strict=True):
        seen = None if former is None else former.partition(partition.index)
        partition.restore(kept, 1 + max(kept.leader_epoch, seen.leader_epoch if seen is not None else before.last_epoch))


def _epochs_gone(cluster: Cluster, before: Cluster) -> Iterator[int]:
    """Yields 0, and then the leader epoch of each partition that exists only in the cluster `before`."""
    yield 0
    for topic in before.topics.values():
        kept = cluster.topics_by_id.get(topic.topic_id)
        yield from (each.leader_epoch for each in topic.partitions if kept is None or kept.partition(each.index) is None)
