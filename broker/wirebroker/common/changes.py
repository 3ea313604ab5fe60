"""The changes in a cluster with which `Cluster.watch` is called, other than appended records. A row of the trace is a
change with its time and its words (`trace.rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ShareEvent = Literal["acquired", "released", "settled", "lock_expired", "buried"]
"""What can happen to records of a share group; `buried` means that their dead letters were written."""


@dataclass(frozen=True)
class Change:
    """A change in a cluster. The change has no time: whoever notes it knows the time."""


@dataclass(frozen=True)
class TopicChange(Change):
    """A topic was created or deleted, or has more partitions."""

    change: Literal["created", "grown", "deleted"]
    topic: str
    partitions: int


@dataclass(frozen=True)
class LeaderChange(Change):
    """A partition has a new leader epoch, perhaps another leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True)
class InSyncChange(Change):
    """The in-sync replicas of a partition have changed."""

    topic: str
    partition: int
    in_sync: tuple[int, ...]
    high_watermark: int


@dataclass(frozen=True)
class BrokerChange(Change):
    """A broker was killed, stopped or unregistered, or started again."""

    change: Literal["killed", "stopped", "unregistered", "started"]
    node: int


@dataclass(frozen=True)
class UpgradeChange(Change):
    """A broker was started with another release of Kafka."""

    node: int
    former: str
    release: str


@dataclass(frozen=True)
class FeatureChange(Change):
    """The level of a feature of the cluster changed."""

    feature: str
    before: int
    level: int


@dataclass(frozen=True)
class ProducerChange(Change):
    """A partition learned of a new producer, saw a new epoch of a producer, or forgot a producer."""

    change: Literal["created", "epoch", "expired"]
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class TransactionChange(Change):
    """The state of a transactional id was written to the log."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class GroupChange(Change):
    """A group entered another state or generation."""

    group: str
    state: str
    generation: int
    members: int


@dataclass(frozen=True)
class ShareChange(Change):
    """Something has happened to records of a share group (KIP-932)."""

    change: ShareEvent
    group: str
    topic: str
    partition: int
    first: int
    last: int
    member: str
    """the member that had acquired the records"""
    state: str
    """the state afterwards: acquired, available, acknowledged, archiving or archived"""
    delivery_count: int
    """how often the records were delivered"""
    why: str = ""
    """why no dead letter was written; "" if one was written"""


@dataclass(frozen=True)
class LogStartChange(Change):
    """Retention moved the log start offset."""

    topic: str
    partition: int
    before: int
    """the previous log start offset"""
    log_start_offset: int


@dataclass(frozen=True)
class RestartChange(Change):
    """The brokers stopped and started again."""

    mode: str
