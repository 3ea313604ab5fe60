"""Checks of a requested placement of replicas (Kafka's ReplicationControlManager, StripedReplicaPlacer)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.errors import ErrorCode
from wirebroker.core.cluster import Cluster
from wirebroker.core.refusals import Refusal


def assignment_error(broker_ids: Sequence[int], factor: int | None, cluster: Cluster) -> Refusal | None:
    """Returns a refusal if a partition may not have these replicas, else None. `factor` is the number of replicas of the other
    partitions, if known."""
    manual = "The manual partition assignment includes"
    if not broker_ids:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{manual} an empty replica list.")
    previous = None
    for node_id in sorted(broker_ids):
        if not cluster.registered(node_id):
            message = f"{manual} broker {node_id}, but no such broker is registered."
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        if node_id == previous:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{manual} the broker {node_id} more than once.")
        previous = node_id
    if factor is not None and len(broker_ids) != factor:
        message = (
            f"{manual} a partition with {len(broker_ids)} replica(s), but this is not consistent with previous "
            f"partitions, which have {factor} replica(s)."
        )
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return None


def all_down(broker_ids: Sequence[int], partition: int, cluster: Cluster) -> Refusal | None:
    """Returns a refusal if all brokers of a new partition are down, because then no broker could lead the partition. Otherwise
    returns None."""
    if any(map(cluster.alive, broker_ids)):
        return None
    return Refusal(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
        "controlled shutdown.",
    )


def factor_error(factor: int, cluster: Cluster) -> Refusal | None:
    """Returns the refusal of this replication factor for new partitions, or None."""
    why = cluster.cannot_replicate(factor)
    return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, why) if why else None
