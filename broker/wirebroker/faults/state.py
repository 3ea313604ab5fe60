"""Changes of an engine's storage and state, for faults inside a broker and for tests that make them at once.

Some of them take days in Kafka, or a second client: expiration, fencing, a log that loses its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkawire.errors import ErrorCode
from wirebroker.core.changes import LeaderChange, ProducerChange
from wirebroker.core.transactions.coordinator import InitRequest
from wirebroker.core.truncation import truncate as truncate_log

if TYPE_CHECKING:
    from wirebroker.engine import Engine
    from wirebroker.requests.parts import TopicPartition

ATTEMPTS = 3
"""A producer that begins must try again while the coordinator loads, and while a transaction is being aborted."""


class EngineBroker:
    """The inside of a broker for the plan (see `host.Broker`)."""

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
        """Take the partitions that a node leads offline; without a topic all but the internal ones.

        Returns the call that brings them back, None if there was none to take offline.
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

    def expire_producer(self, producer_id: int, topic: str | None, partition: int | None) -> bool:
        """Forget a producer. Returns whether a partition knew it."""
        return expire_producer(self._engine, producer_id, topic, partition) > 0

    def expire_transactional_id(self, transactional_id: str, now: int) -> bool:
        """Forget a transactional id. Returns False if there is none, or it may not expire now."""
        return expire_transactional_id(self._engine, transactional_id, now, must=False)

    def fence(self, transactional_id: str, now: int) -> bool:
        """Raise the epoch of a transactional id. Returns False if there is none, or it cannot be fenced now."""
        return fence(self._engine, transactional_id, now, must=False) >= 0

    def truncate(self, topic: str, partition: int, offset: int, now: int) -> bool:
        """Let a partition lose everything from an offset on. Returns whether it has lost something."""
        found = self._engine.cluster.partition(topic, partition)
        before = found.log_end_offset if found is not None else -1
        return truncate(self._engine, topic, partition, offset, now, must=False) not in (-1, before)

    def restart(self, mode: str, now: int) -> None:
        """Stop all brokers and start them again."""
        self._engine.restart(mode, now)

    def crash(self, node_id: int, now: int) -> None:
        """Kill one broker and start it again; if there are others, they lead in its place."""
        if len(self._engine.cluster.brokers) == 1:
            self._engine.restart("kill", now)
        else:
            self._engine.kill_broker(node_id, now)
            self._engine.start_broker(node_id, now)


def expire_producer(engine: Engine, producer_id: int, topic: str | None = None, partition: int | None = None) -> int:
    """Forget the producer on all partitions, or on those named, unless it has a transaction open there.

    Returns how many partitions knew it.
    """
    count = 0
    for each in engine.cluster.partitions():
        if topic in (None, each.topic) and partition in (None, each.index):
            epoch = each.expire_producer(producer_id)
            if epoch is not None:
                count += 1
                engine.cluster.report(ProducerChange("expired", each.topic, each.index, producer_id, epoch))
    return count


def expire_transactional_id(engine: Engine, transactional_id: str, now: int, *, must: bool = True) -> bool:
    """Let the coordinator forget a transactional id. Returns whether it did; with `must` raises ValueError if it may not."""
    known = engine.transactions.transactions.get(transactional_id)
    if known is None:
        reason = f"there is no transactional id {transactional_id!r}"
    elif not known.state.may_expire:
        reason = f"the transactional id {transactional_id!r} is in state {known.state.value}, in which Kafka keeps it"
    else:
        engine.transactions.forget(known, now)
        return True
    if must:
        raise ValueError(reason)
    return False


def fence(engine: Engine, transactional_id: str, now: int, *, must: bool = True) -> int:
    """Raise the epoch of a transactional id, as another producer does when it begins, and abort an open transaction.

    Returns the new epoch, −1 for none; with `must` raises ValueError if there is no such id, or it cannot be fenced now.
    """
    known = engine.transactions.transactions.get(transactional_id)
    if known is None:
        if must:
            raise ValueError(f"there is no transactional id {transactional_id!r}")
        return -1
    node = engine.cluster.coordinator("transaction", transactional_id) or engine.cluster.controller_id
    asked = InitRequest(transactional_id, known.timeout_ms, None, node)
    code = ErrorCode.NONE
    for _ in range(ATTEMPTS):
        code, _, epoch = engine.transactions.init_producer_id(asked, now)
        if not code:
            return epoch
    if must:
        raise ValueError(f"the transactional id {transactional_id!r} cannot be fenced now: {code.name}")
    return -1


def truncate(engine: Engine, topic: str, partition: int, offset: int, now: int, *, must: bool = True) -> int:
    """Let a partition lose everything from the batch with `offset` on. Returns its log end offset, −1 if it lost nothing.

    With `must` raises ValueError if there is no such partition, or no such offset in it.
    """
    found = engine.cluster.partition(topic, partition)
    try:
        if found is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        epoch = found.leader_epoch
        end = truncate_log(found, offset, now)
    except ValueError:
        if must:
            raise
        return -1
    if found.leader_epoch != epoch:
        engine.cluster.version += 1
        engine.cluster.report(LeaderChange(topic, partition, found.leader, found.leader_epoch))
    return end
