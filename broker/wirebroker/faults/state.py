"""Changes the storage and the state of an engine, for faults that act inside a broker and for methods of MockKafka.

In Kafka, some of these changes (expiration, fencing, the loss of the end of a log) happen only after days, or because of a
second client.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from kafkawire.errors import ErrorCode
from wirebroker.common.changes import LeaderChange, ProducerChange
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.cluster import Cluster
from wirebroker.core.controller import Controller
from wirebroker.core.groups.coordinator import GroupCoordinator
from wirebroker.core.transactions import TransactionCoordinator
from wirebroker.core.transactions.coordinator import InitRequest
from wirebroker.core.transactions.transaction import Transaction
from wirebroker.core.truncation import truncate as truncate_log
from wirebroker.faults.acts import NothingToChange
from wirebroker.requests.authentication import Authenticator
from wirebroker.requests.connection import Connection
from wirebroker.requests.effects import AdvanceClock, Effect
from wirebroker.requests.parts import TopicPartition
from wirebroker.security.acl_specs import acl_of

ATTEMPTS = 3
"""After these errors of InitProducerId, a producer tries again, because the coordinator is still loading or aborting a
transaction."""


class Upgrade(Protocol):
    """A rolling upgrade that has not begun."""

    @property
    def nodes(self) -> Collection[int]:
        """The brokers that are to be upgraded."""

    def proceed(self, now: int) -> None:
        """Begin the upgrade."""


class Engine(Protocol):
    """The part of an engine that `EngineBroker` uses: its cluster, and the methods that stop and start brokers."""

    cluster: Cluster
    transactions: TransactionCoordinator
    authenticator: Authenticator
    controller: Controller
    groups: GroupCoordinator

    def emit(self, effect: Effect) -> None:
        """Add an effect that the host performs."""

    def restart(self, mode: str, now: int) -> None:
        """Stop all brokers and start them again."""

    def kill_broker(self, node_id: int, now: int) -> None:
        """Stop a broker as kill −9 does."""

    def start_broker(self, node_id: int, now: int) -> None:
        """Start a killed broker."""

    def upgrade_from(self, first: int, to: str, pause_ms: int) -> Upgrade:
        """Returns a rolling upgrade to another release. Raises ValueError if the upgrade is refused."""


class EngineBroker:
    """The interface through which the fault plan changes an engine's storage and state (see `acts.BrokerParts`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def nodes(self) -> Collection[int]:
        """The ids of the cluster's brokers."""
        return self._engine.cluster.brokers

    def why_no_upgrade(self, to: str) -> str:
        """Returns why the cluster cannot be upgraded to a release, or ""."""
        try:
            self._engine.upgrade_from(min(self.nodes), to, 0)
        except ValueError as refused:
            return str(refused)
        return ""

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
        """Make partitions that the node `node_id` leads unavailable. If no topic is given, these are all such partitions except
        those of internal topics.

        Returns a function that makes the partitions available again, or None if no partition was affected.
        """
        full = [
            each
            for named in self._engine.cluster.topics.values()
            if named.name == topic or (topic is None and not named.internal)
            for each in named.partitions
            if each.leader == node_id and partition in (None, each.index) and each.offline_at is None
        ]
        for each in full:
            each.go_offline(node_id)

        def restore() -> None:
            for each in full:
                each.go_online()

        return restore if full else None

    def expire_producer(self, producer_id: int, topic: str | None = None, partition: int | None = None) -> int:
        """Forget a producer on all partitions, or on those of the given topic or partition. A partition on which the producer
        has an open transaction does not forget it.

        Returns the number of partitions that have forgotten the producer.
        """
        cluster, count = self._engine.cluster, 0
        for each in cluster.partitions():
            if topic in (None, each.topic) and partition in (None, each.index):
                epoch = each.expire_producer(producer_id)
                if epoch is not None:
                    count += 1
                    cluster.report(ProducerChange("expired", each.topic, each.index, producer_id, epoch))
        return count

    def expire_transactional_id(self, transactional_id: str, now: int) -> None:
        """Make the coordinator forget a transactional id. Raises NothingToChange if the id is unknown, or if its state forbids
        the change."""
        known = self._transaction(transactional_id)
        if not known.state.may_expire:
            state = known.state.value
            raise NothingToChange(
                f"the transactional id {transactional_id!r} is in state {state}, and Kafka forgets no id in that state"
            )
        self._engine.transactions.forget(known, now)

    def fence(self, transactional_id: str, now: int) -> int:
        """Increase the producer epoch of a transactional id, and abort its open transaction. The start of another producer with
        this id has the same effect.

        Returns the new epoch. Raises NothingToChange if the id is unknown, or if its producer cannot be fenced now.
        """
        known, cluster = self._transaction(transactional_id), self._engine.cluster
        node = cluster.coordinator("transaction", transactional_id) or cluster.controller_id
        request = InitRequest(transactional_id, known.timeout_ms, None, node)
        code = ErrorCode.NONE
        for _ in range(ATTEMPTS):
            code, _, epoch = self._engine.transactions.init_producer_id(request, now)
            if not code:
                return epoch
        raise NothingToChange(f"the transactional id {transactional_id!r} cannot be fenced now: {code.name}")

    def _transaction(self, transactional_id: str) -> Transaction:
        known = self._engine.transactions.transactions
        if transactional_id not in known:
            advice = did_you_mean(transactional_id, known)
            raise NothingToChange(f"there is no transactional id {transactional_id!r}{advice}")
        return known[transactional_id]

    def expire_session(self, connection: Connection, now: int) -> bool:
        """End the session of a connection that has authenticated by SASL. Returns False if the connection has not."""
        if connection.session.sasl_user:
            self._engine.authenticator.expire(connection, now)
        return connection.session.sasl_user

    def withdraw_acl(self, text: str) -> bool:
        """Remove the ACL that `text` describes. Returns whether the ACL existed. Raises ValueError if `text` is not an ACL."""
        acl, cluster = acl_of(text), self._engine.cluster
        was_there = acl in cluster.acls
        cluster.alter_acls((), [acl])
        return was_there

    def slow_reassignments(self, until: int) -> None:
        """Delay reassignments: a replica that is added before the time `until` becomes in sync only at `until`."""
        self._engine.controller.slow_until = until

    def truncate(self, topic: str, partition: int, offset: int, now: int) -> tuple[int, int]:
        """Delete the batch that contains `offset` and all later batches of a partition. Returns the log end offset before and
        after.

        Raises NothingToChange if the partition does not exist, or does not have the offset.
        """
        found = self._engine.cluster.partition(topic, partition)
        if found is None:
            raise NothingToChange(self._engine.cluster.no_partition(topic, partition))
        before, epoch = found.log_end_offset, found.leader_epoch
        try:
            end = truncate_log(found, offset, now)
        except ValueError as wrong:
            raise NothingToChange(str(wrong)) from None
        if found.leader_epoch != epoch:
            self._engine.cluster.version += 1
            self._engine.cluster.report(LeaderChange(topic, partition, found.leader, found.leader_epoch))
        return before, end

    def move_leader(self, partitions: Iterable[TopicPartition], now: int) -> int:
        """Make another broker the leader of each partition. Returns the number of partitions whose leader has changed."""
        cluster, controller = self._engine.cluster, self._engine.controller
        found = [held for where in sorted(partitions) if (held := cluster.partition(*where)) is not None]
        return sum(controller.move_away(each, now) for each in found)

    def move_coordinator(self, groups: Iterable[str], transactional_ids: Iterable[str], now: int) -> int:
        """Make another broker the coordinator of the groups and transactional ids. Returns the number of groups and
        transactional ids whose coordinator has changed."""
        cluster = self._engine.cluster
        keys = [*(("group", each) for each in groups), *(("transaction", each) for each in transactional_ids)]
        logs = [log for key in sorted(keys) if (log := cluster.coordinator_log(*key)) is not None]
        return self.move_leader({(log.topic, log.index) for log in logs}, now)

    def expire_member(self, groups: Iterable[str], member_id: str, now: int) -> bool:
        """End the session of the member `member_id` of one of the groups. Returns False if no group has this member."""
        return any(self._engine.groups.expire_member(group_id, member_id, now) for group_id in sorted(groups))

    def advance(self, connection: Connection, ms: int) -> None:
        """Move the clock forward by `ms` as soon as the connection's current request has a response or is parked."""
        self._engine.emit(AdvanceClock(connection, ms))

    def restart(self, mode: str, now: int) -> None:
        """Stop all brokers and start them again."""
        self._engine.restart(mode, now)

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
        return made.proceed

    def crash(self, node_id: int, now: int) -> None:
        """Kill one broker and start it again. If the cluster has other brokers, they become the leaders of its partitions."""
        if len(self._engine.cluster.brokers) == 1:
            self._engine.restart("kill", now)
        else:
            self._engine.kill_broker(node_id, now)
            self._engine.start_broker(node_id, now)
