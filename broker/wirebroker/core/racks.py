"""The racks of the brokers, and the choice of the replica that a consumer in a rack should read (KIP-392)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from wirebroker.core.configs import ConfigError
from wirebroker.core.partition import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The `replica.selector.class` that sends consumers to replicas in their racks."""


class Racked(Protocol):
    """A broker that may be in a rack."""

    node_id: int
    rack: str | None

    @property
    def alive(self) -> bool:
        """Tells whether the broker can lead partitions and replicate them."""


def racks(value: str, brokers: int) -> list[str | None]:
    """Returns the rack of each broker from `broker.rack`, which is either one rack for all brokers or a comma-separated list
    with a rack for each broker. Raises ConfigError.

    A list is allowed because all brokers of a cluster are one process here and share their settings.
    """
    names = [name.strip() or None for name in value.split(",")]
    if len(names) == 1:
        return names * brokers
    if len(names) != brokers:
        raise ConfigError(f"broker.rack names {len(names)} racks ({value}), and there are {brokers} brokers")
    return names


def spread(brokers: Iterable[Racked]) -> list[int]:
    """Returns the ids of these brokers. As far as possible, ids that are neighbours in the result belong to brokers in
    different racks."""
    taken: Counter[str | None] = Counter()
    order = []
    for broker in sorted(brokers, key=lambda each: each.node_id):
        order.append((taken[broker.rack], broker.node_id))
        taken[broker.rack] += 1
    return [node_id for _, node_id in sorted(order)]


def preferred_replica(brokers: Mapping[int, Racked], partition: Partition, rack: str, offset: int) -> int:
    """Returns the in-sync replica in `rack` that has the offset, or −1 if the consumer should read from the leader
    (findPreferredReadReplica).

    If several replicas have the offset, returns the replica with the highest end offset. If several replicas have this end
    offset, returns the replica with the highest id.
    """
    known = (brokers[node_id] for node_id in partition.in_sync if node_id in brokers)
    near = [broker.node_id for broker in known if broker.alive and broker.rack == rack]
    if partition.leader in near:
        return -1
    ends = []
    for node_id in near:
        seen = partition.seen_at(node_id)
        if seen.log_start_offset <= offset <= seen.log_end_offset:
            ends.append((seen.log_end_offset, node_id))
    return max(ends, default=(-1, -1))[1]
