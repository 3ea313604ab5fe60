"""Saves and restores a cluster's state: the metadata as an image, and the coordinators' state from the coordinators' topics.

A data directory and a snapshot contain the image and the logs. They do not contain the state that coordinators have in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.disk.damage import DataError
from kafkawire.disk.metadata import BROKER, CLIENT_METRICS, GROUP, Image
from kafkawire.errors import ProtocolError
from wirebroker.core.acls import Acl
from wirebroker.core.cluster import COORDINATOR_TOPICS, GROUP_TOPIC, SHARE_TOPIC, Cluster
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


def load_coordinators(cluster: Cluster, groups: GroupCoordinator, transactions: TransactionCoordinator, now: int) -> None:
    """Load groups, transactions and share states from the coordinators' topics. Raises DataError for a record that cannot be
    read."""
    for name in COORDINATOR_TOPICS.values():
        topic = cluster.topics.get(name)
        for partition in topic.partitions if topic is not None else ():
            load_coordinator(partition, groups, transactions, now)


def load_coordinator(partition: Partition, groups: GroupCoordinator, transactions: TransactionCoordinator, now: int) -> None:
    """Load the state that one partition of a coordinators' topic holds. Raises DataError for a record that cannot be read."""
    name, batches = partition.topic, partition.log.batches(partition.log_start_offset)
    try:
        if name == GROUP_TOPIC:
            groups.load(partition.index, batches, now)
        elif name == SHARE_TOPIC:
            groups.share_state.load(partition.index, batches, now)
        else:
            transactions.load(batches, now)
    except (ProtocolError, ValueError, LookupError, TypeError) as wrong:  # or the fields do not fit together
        raise DataError(f"{name}-{partition.index} holds a record that cannot be read: {wrong}") from wrong
