"""The methods by which faults change a broker: every deed, and changes that only faults make.

In Kafka, some of these changes happen only after days, or because of a second client. Examples are expiration, fencing, and the
loss of the end of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from wirebroker.deeds.acls import AclDeeds
from wirebroker.deeds.cluster import ClusterDeeds
from wirebroker.deeds.engine_parts import EngineParts
from wirebroker.deeds.errors import NothingToChange
from wirebroker.deeds.running import RunningDeeds
from wirebroker.deeds.state import StateDeeds
from wirebroker.deeds.topics import TopicDeeds
from wirebroker.requests.connection import Connection
from wirebroker.requests.effects import AdvanceClock
from wirebroker.requests.parts import TopicPartition
from wirebroker.security.acl_specs import acl_of

if TYPE_CHECKING:
    from wirebroker.deeds.declaring import R


class EngineBroker(TopicDeeds, AclDeeds, StateDeeds, ClusterDeeds, RunningDeeds):
    """The engine of a broker. The deeds happen at the engine's time, and the caller must perform the engine's effects."""

    def __init__(self, engine: EngineParts) -> None:
        self._held = engine

    @property
    def _engine(self) -> EngineParts:
        return self._held

    def _perform(self, act: Callable[[], R], *, settles: bool) -> R:
        return act()

    @property
    def nodes(self) -> Collection[int]:
        """The ids of the cluster's brokers."""
        return self._engine.cluster.brokers

    def why_no_upgrade(self, to: str) -> str:
        """Returns why the cluster cannot be upgraded to a release, or "" if it can."""
        try:
            self._engine.upgrade_from(min(self.nodes), to, 0)
        except ValueError as refused:
            return str(refused)
        return ""

    def log_end_offset(self, topic: str, partition: int) -> int:
        """Returns the log end offset of a partition, or −1 if the partition does not exist."""
        found = self._engine.cluster.partition(topic, partition)
        return -1 if found is None else found.log_end_offset

    def fail_write(self, partition: TopicPartition) -> None:
        """Make the next write to the partition fail."""
        if (found := self._engine.cluster.partition(*partition)) is not None:
            found.fail_next_write()

    def write_failed(self, partition: TopicPartition) -> bool:
        """Let writes succeed again. Returns whether a write failed since `fail_write`."""
        found = self._engine.cluster.partition(*partition)
        failed = found is not None and not found.write_fails
        if found is not None:
            found.fail_next_write(0)
        return failed

    def fill_disk(self, node_id: int, topic: str | None, partition: int | None) -> Callable[[], None] | None:
        """Make partitions of one leader unavailable: the partitions of the topic that the node `node_id` leads. If no topic is
        given, all partitions that this node leads become unavailable, except partitions of internal topics.

        Returns a function that makes the partitions available again, or None if no partition was affected.
        """
        full = [
            each
            for named in self._engine.cluster.topics.values()
            if named.name == topic or (topic is None and not named.internal)
            for each in named.partitions
            if each.leader == node_id and partition in (None, each.index) and node_id not in each.offline_at
        ]
        for each in full:
            each.go_offline(node_id)

        def restore() -> None:
            for each in full:
                each.go_online(node_id)

        return restore if full else None

    def expire_session(self, connection: Connection) -> bool:
        """End the SASL session of a connection. Returns False if the connection has not authenticated by SASL."""
        if connection.session.sasl_user:
            self._engine.authenticator.expire(connection)
        return connection.session.sasl_user

    def withdraw_acl(self, text: str) -> Callable[[], None] | None:
        """Remove the ACL that `text` describes. Returns a function that adds the ACL again, or None if the ACL did not exist.
        Raises ValueError if `text` is not an ACL."""
        acl, cluster = acl_of(text), self._engine.cluster
        if acl not in cluster.acls:
            return None
        cluster.alter_acls((), [acl])
        return lambda: cluster.alter_acls([acl], ())

    def slow_reassignments(self, ms: int) -> None:
        """Delay reassignments: a replica that is added within the next `ms` becomes in sync when these `ms` have passed."""
        self._engine.controller.slow_until = self._now + ms

    def move_leaders(self, partitions: Iterable[TopicPartition]) -> int:
        """Give each of these partitions another leader. Returns how many partitions have a new leader."""
        cluster, controller = self._engine.cluster, self._engine.controller
        found = [held for where in sorted(partitions) if (held := cluster.partition(*where)) is not None]
        return sum(controller.move_away(each, self._now) for each in found)

    def move_coordinator(self, groups: Iterable[str], transactional_ids: Iterable[str]) -> int:
        """Make another broker the coordinator of the groups and transactional ids. Returns the number of groups and
        transactional ids whose coordinator has changed."""
        cluster = self._engine.cluster
        keys = [*(("group", each) for each in groups), *(("transaction", each) for each in transactional_ids)]
        logs = [log for key in sorted(keys) if (log := cluster.coordinator_log(*key)) is not None]
        return self.move_leaders({(log.topic, log.index) for log in logs})

    def expire_member(self, groups: Iterable[str], member_id: str) -> bool:
        """End the session of the member `member_id` of one of the groups. Returns False if no group has this member."""
        return any(self._engine.groups.expire_member(group_id, member_id, self._now) for group_id in sorted(groups))

    def advance(self, connection: Connection, ms: int) -> None:
        """Move the clock forward by `ms` as soon as the connection's current request has a response or is parked."""
        self._engine.emit(AdvanceClock(connection, ms))

    def upgrade(self, to: str, first: int, ms: int) -> Callable[[int], None]:
        """Returns a function that begins a rolling upgrade to the release `to`. The argument of this function is the time. The
        broker `first` is upgraded first, and each broker is down for `ms`. Raises NothingToChange if all brokers run the
        release already, or if the upgrade is refused."""
        try:
            made = self._engine.upgrade_from(first, to, ms)
        except ValueError as refused:
            raise NothingToChange(str(refused)) from None
        if not made.nodes:
            raise NothingToChange(f"all brokers run {to}")
        return made.go_on

    def crash(self, node_id: int) -> None:
        """Kill one broker and start it again. If the cluster has other brokers, they become the leaders of the killed broker's
        partitions."""
        if len(self.nodes) == 1:
            self.restart("kill")
        else:
            self.kill_broker(node_id)
            self.start_broker(node_id)
