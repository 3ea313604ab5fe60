"""Changes of an engine's storage and state, for faults inside a broker and for tests that make such changes at once.

In Kafka, some of these changes take days or a second client: expiration, fencing, a log that loses its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from kafkawire.errors import ErrorCode
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.changes import LeaderChange, ProducerChange
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
"""A producer that begins must try again while the coordinator loads, and while a transaction is being aborted."""


class Upgrade(Protocol):
    """A rolling upgrade that may begin."""

    @property
    def nodes(self) -> Collection[int]:
        """The brokers to upgrade."""

    def proceed(self, now: int) -> None:
        """Begin."""


class Engine(Protocol):
    """The cluster of an engine, and the calls that stop and start its brokers."""

    cluster: Cluster
    transactions: TransactionCoordinator
    authenticator: Authenticator
    controller: Controller
    groups: GroupCoordinator

    def emit(self, effect: Effect) -> None:
        """Let the host make a call."""

    def restart(self, mode: str, now: int) -> None:
        """Stop all brokers and start them again."""

    def kill_broker(self, node_id: int, now: int) -> None:
        """End a broker as with kill −9."""

    def start_broker(self, node_id: int, now: int) -> None:
        """Start a killed broker."""

    def upgrade_from(self, first: int, to: str, pause_ms: int) -> Upgrade:
        """Returns a rolling upgrade to another release. Raises ValueError if it is refused."""


class EngineBroker:
    """The inside of a broker for the plan (see `acts.BrokerParts`)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def fail_write(self, partition: TopicPartition) -> None:
        """Let the next write to the partition fail."""
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
        """Take the partitions that a node leads offline; without a topic, all except internal partitions.

        Returns the call that brings the partitions back, or None if no partition was taken offline.
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
        """Forget the producer on all partitions, or on the named partitions, unless it has a transaction open there.

        Returns the number of partitions that knew the producer.
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
        """Let the coordinator forget a transactional id. Raises NothingToChange if the id does not exist, or its state
        forbids the change."""
        known = self._transaction(transactional_id)
        if not known.state.may_expire:
            state = known.state.value
            raise NothingToChange(
                f"the transactional id {transactional_id!r} is in state {state}, and Kafka forgets no id in that state"
            )
        self._engine.transactions.forget(known, now)

    def fence(self, transactional_id: str, now: int) -> int:
        """Raise the epoch of a transactional id, as another producer does when it begins, and abort an open transaction.

        Returns the new epoch. Raises NothingToChange if there is no such id, or it cannot be fenced now.
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
        """Let the session of a client end. Returns whether the client has authenticated by SASL."""
        if connection.session.sasl_user:
            self._engine.authenticator.expire(connection, now)
        return connection.session.sasl_user

    def withdraw_acl(self, text: str) -> bool:
        """Remove an ACL. Returns whether the ACL existed. Raises ValueError for a text that is not an ACL."""
        acl, cluster = acl_of(text), self._engine.cluster
        was_there = acl in cluster.acls
        cluster.alter_acls((), [acl])
        return was_there

    def slow_reassignments(self, until: int) -> None:
        """Let replicas that are added before `until` get in sync only at `until`."""
        self._engine.controller.slow_until = until

    def truncate(self, topic: str, partition: int, offset: int, now: int) -> tuple[int, int]:
        """Let a partition lose everything from the batch with `offset` on. Returns the partition's log end offset before and
        after.

        Raises NothingToChange if there is no such partition, or no such offset in it.
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
        """Let another broker lead each of these partitions. Returns how many leaders have moved."""
        cluster, controller = self._engine.cluster, self._engine.controller
        found = [held for where in sorted(partitions) if (held := cluster.partition(*where)) is not None]
        return sum(controller.move_away(each, now) for each in found)

    def move_coordinator(self, groups: Iterable[str], transactional_ids: Iterable[str], now: int) -> int:
        """Let another broker coordinate these groups and transactional ids. Returns how many coordinators have moved."""
        cluster = self._engine.cluster
        keys = [*(("group", each) for each in groups), *(("transaction", each) for each in transactional_ids)]
        logs = [log for key in sorted(keys) if (log := cluster.coordinator_log(*key)) is not None]
        return self.move_leader({(log.topic, log.index) for log in logs}, now)

    def expire_member(self, groups: Iterable[str], member_id: str, now: int) -> bool:
        """Let the session of a member of these groups end. Returns whether such a member exists."""
        return any(self._engine.groups.expire_member(group_id, member_id, now) for group_id in sorted(groups))

    def advance(self, connection: Connection, ms: int) -> None:
        """Move the clock forward as soon as this request waits or is done."""
        self._engine.emit(AdvanceClock(connection, ms))

    def restart(self, mode: str, now: int) -> None:
        """Stop all brokers and start them again."""
        self._engine.restart(mode, now)

    def upgrade(self, to: str, first: int, ms: int) -> Callable[[int], None]:
        """Returns the call, with the time, that begins an upgrade of the brokers to another release, from the broker `first` on
        and with a pause of `ms`. Raises NothingToChange if all brokers run the release, or the upgrade is refused."""
        try:
            made = self._engine.upgrade_from(first, to, ms)
        except ValueError as refused:
            raise NothingToChange(str(refused)) from None
        if not made.nodes:
            raise NothingToChange(f"all brokers run {to}")
        return made.proceed

    def crash(self, node_id: int, now: int) -> None:
        """Kill one broker and start it again. Other brokers, if any, lead in its place."""
        if len(self._engine.cluster.brokers) == 1:
            self._engine.restart("kill", now)
        else:
            self._engine.kill_broker(node_id, now)
            self._engine.start_broker(node_id, now)
