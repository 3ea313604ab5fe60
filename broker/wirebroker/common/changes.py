"""The interface of a row in the trace, and the rows about changes in a cluster. The cluster passes these rows to
`Cluster.watch`. Other rows are in `trace.rows`.
"""

from __future__ import annotations

import json
from typing import ClassVar, Literal

from msgspec import Struct, to_builtins

Parts = tuple[str, str, str, str]
"""The four parts of a row in words: the topic or group, the request, the outcome in a word, and the rest."""
MIDDLE = 37
"""The width in columns of the part about the request."""
PRODUCER_CHANGES = {"created": "known from now on", "epoch": "a new epoch", "expired": "forgotten"}
ShareEvent = Literal["acquired", "released", "settled", "lock_expired", "buried"]
"""The changes of a share group's records. `buried` means that the records' dead letters were written."""


def ordinal(number: int) -> str:
    """Returns 1st, 2nd, 3rd, 4th and so on."""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def spread(left: str, right: str) -> str:
    return f"{left}{right:>{max(MIDDLE - len(left), len(right) + 1)}}"


class Row(Struct, frozen=True):
    """An event, as a row of the trace."""

    event: ClassVar[str]

    time: int

    def parts(self) -> Parts:
        """Returns the parts of the row in words."""
        raise NotImplementedError

    def as_json(self) -> str:
        """Returns the row as one JSON object on one line."""
        return json.dumps({"event": self.event, "time": self.time} | to_builtins(self))


class Change(Row, frozen=True, kw_only=True):
    """A change in a cluster. The code that changes the cluster leaves out the time, and the recorder adds the time."""

    time: int = -1


class TopicRow(Change, frozen=True):
    """A topic was created, was deleted, or got more partitions."""

    event = "topic"

    change: Literal["created", "grown", "deleted"]
    topic: str
    partitions: int

    def parts(self) -> Parts:
        return self.topic, "topic", "changed", f"{self.change}, with {self.partitions} partition{'s' * (self.partitions != 1)}"


class LeaderRow(Change, frozen=True):
    """A partition has a new leader epoch, and perhaps a new leader. A `leader` of −1 means that the partition has no leader."""

    event = "leader"

    topic: str
    partition: int
    leader: int
    leader_epoch: int

    def parts(self) -> Parts:
        leader = f"led by node {self.leader}" if self.leader >= 0 else "without a leader"
        return f"{self.topic}-{self.partition}", "leader", "changed", f"{leader} in epoch {self.leader_epoch}"


class InSyncRow(Change, frozen=True):
    """The in-sync replicas of a partition changed."""

    event = "isr"

    topic: str
    partition: int
    in_sync: tuple[int, ...]
    high_watermark: int

    def parts(self) -> Parts:
        nodes = ", ".join(map(str, self.in_sync)) or "nobody"
        return (
            f"{self.topic}-{self.partition}",
            "replicas",
            "changed",
            f"in sync: {nodes}; high watermark {self.high_watermark}",
        )


class BrokerRow(Change, frozen=True):
    """A broker was killed, stopped or unregistered, or started again."""

    event = "broker"

    change: Literal["killed", "stopped", "unregistered", "started"]
    node: int

    def parts(self) -> Parts:
        return "", f"broker {self.node}", "changed", self.change


class UpgradeRow(Change, frozen=True):
    """A broker starts with another release of Kafka."""

    event = "upgrade"

    node: int
    former: str
    release: str

    def parts(self) -> Parts:
        return "", f"broker {self.node}", "changed", f"from Kafka {self.former} to {self.release}"


class FeatureRow(Change, frozen=True):
    """A feature of the cluster has another level."""

    event = "feature"

    feature: str
    before: int
    level: int

    def parts(self) -> Parts:
        return "", self.feature, "changed", f"from level {self.before} to {self.level}"


class ProducerRow(Change, frozen=True):
    """A partition got the first batch of a producer, got the first batch of a new epoch, or forgot a producer."""

    event = "producer"

    change: Literal["created", "epoch", "expired"]
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int

    def parts(self) -> Parts:
        return (
            f"{self.topic}-{self.partition}",
            f"pid {self.producer_id}/{self.producer_epoch}",
            "changed",
            PRODUCER_CHANGES[self.change],
        )


class TransactionRow(Change, frozen=True):
    """The state, epoch or partitions of a transactional id changed, and the change was written to the log."""

    event = "transaction"

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: tuple[str, ...]

    def parts(self) -> Parts:
        within = f" with {', '.join(self.partitions)}" if self.partitions else ""
        return self.transactional_id, f"pid {self.producer_id}/{self.producer_epoch}", "changed", f"{self.state}{within}"


class GroupRow(Change, frozen=True):
    """A group entered a new state or a new generation. For a consumer group the generation is the group epoch."""

    event = "group"

    group: str
    state: str
    generation: int
    members: int

    def parts(self) -> Parts:
        members = f"{self.members} member{'s' * (self.members != 1)}"
        return self.group, "group", "changed", f"{self.state}, generation {self.generation}, {members}"


class ShareRow(Change, frozen=True):
    """Records of a share group were acquired, released, accepted, rejected or sent as dead letters, or their lock expired."""

    event = "share"

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

    def parts(self) -> Parts:
        where = f"{self.first}–{self.last}" if self.last > self.first else str(self.first)
        return f"{self.topic}-{self.partition}", spread(f"share group {self.group}", where), self.state, self._why()

    def _why(self) -> str:
        if self.change == "acquired":
            return f"delivered to {self.member} for the {ordinal(self.delivery_count)} time"
        if self.change == "lock_expired":
            again = "they can be delivered again" if self.state == "available" else "they are not delivered again"
            return f"the lock of {self.member} has expired after delivery {self.delivery_count}: {again}"
        if self.change == "buried":
            return f"without a dead letter: {self.why}" if self.why else "the dead letter is written"
        return f"by {self.member} after delivery {self.delivery_count}"


class RetentionRow(Change, frozen=True):
    """Retention deleted the records before `log_start_offset`."""

    event = "retention"

    topic: str
    partition: int
    before: int
    """the previous log start offset"""
    log_start_offset: int

    def parts(self) -> Parts:
        rest = f"begins at {self.log_start_offset} instead of {self.before}"
        return f"{self.topic}-{self.partition}", "retention", "changed", rest


class RestartRow(Change, frozen=True):
    """The brokers stopped and started again."""

    event = "restart"

    mode: str

    def parts(self) -> Parts:
        return "", "brokers", "changed", f"restarted ({self.mode})"
