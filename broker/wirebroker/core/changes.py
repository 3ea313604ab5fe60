"""The changes in a cluster with which `Cluster.watch` is called, other than appended records. The trace uses the same names."""

from __future__ import annotations

from typing import Literal, NamedTuple

ShareEvent = Literal["acquired", "released", "settled", "lock_expired", "buried"]
"""What can happen to records of a share group; `buried` means that their dead letters were written."""


class TopicChange(NamedTuple):
    """A topic was created or deleted, or has more partitions."""

    change: Literal["created", "grown", "deleted"]
    topic: str
    partitions: int


class LeaderChange(NamedTuple):
    """A partition has a new leader epoch, perhaps another leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


class InSyncChange(NamedTuple):
    """The in-sync replicas of a partition have changed."""

    topic: str
    partition: int
    in_sync: tuple[int, ...]
    high_watermark: int


class BrokerChange(NamedTuple):
    """A broker was killed, stopped or unregistered, or started again."""

    change: Literal["killed", "stopped", "unregistered", "started"]
    node: int


class UpgradeChange(NamedTuple):
    """A broker was started with another release of Kafka."""

    node: int
    former: str
    release: str


class FeatureChange(NamedTuple):
    """The level of a feature of the cluster changed."""

    feature: str
    before: int
    level: int


class ProducerChange(NamedTuple):
    """A partition learned of a new producer, saw a new epoch of a producer, or forgot a producer."""

    change: Literal["created", "epoch", "expired"]
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int


class TransactionChange(NamedTuple):
    """The state of a transactional id was written to the log."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: tuple[str, ...]


class GroupChange(NamedTuple):
    """A group entered another state or generation."""

    group: str
    state: str
    generation: int
    members: int


class ShareChange(NamedTuple):
    """Something has happened to records of a share group (KIP-932)."""

    change: ShareEvent
    group: str
    topic: str
    partition: int
    first: int
    last: int
    member: str
    state: str
    """the state afterwards: acquired, available, acknowledged, archiving or archived"""
    delivery_count: int
    why: str = ""
    """why there is no dead letter; empty if there is one"""


class LogStartChange(NamedTuple):
    """Retention moved the log start offset."""

    topic: str
    partition: int
    before: int
    log_start_offset: int


class RestartChange(NamedTuple):
    """The brokers stopped and started again."""

    mode: str


Change = (
    TopicChange | LeaderChange | InSyncChange | BrokerChange | ProducerChange | TransactionChange | GroupChange
    | LogStartChange | RestartChange | ShareChange | FeatureChange | UpgradeChange
)  # fmt: skip
