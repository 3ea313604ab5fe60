"""Saves and restores a cluster's state: the metadata as an image, and the coordinators' state from the coordinators' topics.

A data directory and a snapshot contain the image and the logs. They do not contain the state that coordinators have in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from kafkawire.disk.damage import DataError
from kafkawire.disk.metadata import BROKER, CLIENT_METRICS, GROUP, Image
from kafkawire.errors import ProtocolError
from wirebroker.core.acls import Acl
from wirebroker.core.cluster import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC, Cluster
from wirebroker.core.configs import keep

if TYPE_CHECKING:
    from wirebroker.core.groups import GroupCoordinator
    from wirebroker.core.partition import Partition
    from wirebroker.core.transactions import TransactionCoordinator


def image_of(cluster: Cluster) -> Image:
    """Returns an image of the cluster's present metadata, without topics."""
    configs = cluster.configs
    image = Image(next_producer_id=cluster.producer_ids.next_block, scram=dict(cluster.scram))
    for node, layer in configs.dynamic.items():
        keep(image.settings, (BROKER, "" if node is None else str(node)), layer)
    image.settings |= {(GROUP, name): dict(held) for name, held in configs.groups.items()}
    image.settings |= {(CLIENT_METRICS, name): dict(held) for name, held in configs.client_metrics.items()}
    image.tokens = dict(cluster.tokens.by_id)
    image.features = dict(configs.features)
    image.acls = {acl_id: acl for acl, acl_id in cluster.acls.ids.items()}
    image.quotas = {entity: dict(cluster.quotas.limits[entity]) for entity in cluster.quotas.in_order(cluster.quotas.limits)}
    return image


def enter_image(cluster: Cluster, image: Image) -> None:
    """Restore the metadata of an image in a new cluster, except topics and settings."""
    cluster.producer_ids.next_block = image.next_producer_id
    cluster.scram.update(image.scram)
    for acl_id, acl in image.acls.items():
        cluster.acls.add(Acl(*acl), acl_id)
    cluster.quotas.alter([(entity, key, value) for entity, held in image.quotas.items() for key, value in held.items()])
    cluster.tokens.by_id.update(image.tokens)
    if image.features:
        cluster.configs.features.update((name, image.features.get(name, 0)) for name in cluster.configs.features)


class LoggedCoordinator(Protocol):
    """A coordinator whose state is what the records of its internal topic say."""

    def load(self, index: int, batches: Iterable[memoryview], now: int) -> None:
        """Load the state from the batches of one partition. Raises an exception for a record that cannot be read."""

    def unload(self, index: int) -> None:
        """Forget the state of one partition, because its log must be read again."""

    def moved(self, index: int, now: int) -> None:
        """Handle a new leader, or the loss of the leader, of one partition."""

    def log_deleted(self) -> None:
        """Forget all state, because the topic is deleted."""


Coordinators = Mapping[str, LoggedCoordinator]
"""The coordinators by the names of their topics."""


def coordinators_of(groups: GroupCoordinator, transactions: TransactionCoordinator) -> Coordinators:
    return {GROUP_TOPIC: groups, TRANSACTION_TOPIC: transactions, SHARE_TOPIC: groups.share_state}


def load_coordinators(cluster: Cluster, coordinators: Coordinators, now: int) -> None:
    """Load groups, transactions and share states from the coordinators' topics. Raises DataError for a record that cannot be
    read."""
    for partition in cluster.coordinator_logs():
        load_coordinator(partition, coordinators[partition.topic], now)


def load_coordinator(partition: Partition, coordinator: LoggedCoordinator, now: int) -> None:
    """Load the state that one partition of a coordinators' topic holds. Raises DataError for a record that cannot be read."""
    try:
        coordinator.load(partition.index, partition.log.batches(partition.log_start_offset), now)
    except (ProtocolError, ValueError, LookupError, TypeError) as wrong:  # or the fields do not fit together
        raise DataError(f"{partition.topic}-{partition.index} holds a record that cannot be read: {wrong}") from wrong
