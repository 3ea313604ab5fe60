"""Checks that a request has reached the right broker and has the right leader epoch (KIP-320)."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from wirebroker.core.partition import Partition


def leader_error(partition: Partition | None, node_id: int, leader_epoch: int = -1, *, or_follower: bool = False) -> ErrorCode:
    """Returns the error if the broker does not lead the partition, else NONE. With `or_follower`, there is also no error if the
    broker has any replica of the partition.

    `leader_epoch` is the leader epoch that the client has sent, or −1 if the client has sent no leader epoch.
    """
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if node_id in partition.offline_at:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if leader_epoch != -1 and leader_epoch != partition.leader_epoch:
        older = leader_epoch < partition.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
    if partition.leader != node_id and not (or_follower and node_id in partition.replicas):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE
