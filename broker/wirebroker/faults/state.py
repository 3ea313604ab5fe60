"""Changes of state that in Kafka take days or a second client: expiration, fencing, a log that loses its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.errors import ErrorCode
from wirebroker.core.changes import LeaderChange, ProducerChange
from wirebroker.core.transactions.coordinator import InitRequest
from wirebroker.core.truncation import truncate as truncate_log

if TYPE_CHECKING:
    from wirebroker.engine import Engine

ATTEMPTS = 3
"""A producer that begins is told to ask again while the coordinator loads, and while a transaction is being aborted."""


def expire_producer(engine: Engine, producer_id: int, topic: str | None = None, partition: int | None = None) -> int:
    """Forget the producer on all partitions, or on those named, unless it has something open there; on how many it was."""
    count = 0
    for each in engine.cluster.partitions():
        if topic in (None, each.topic) and partition in (None, each.index):
            epoch = each.expire_producer(producer_id)
            if epoch is not None:
                count += 1
                engine.cluster.report(ProducerChange("expired", each.topic, each.index, producer_id, epoch))
    return count


def expire_transactional_id(engine: Engine, transactional_id: str, now: int, *, must: bool = True) -> bool:
    """Let the coordinator forget a transactional id; whether it did. With `must` ValueError says why it may not."""
    known = engine.transactions.transactions.get(transactional_id)
    if known is None:
        fault = f"there is no transactional id {transactional_id!r}"
    elif not known.state.may_expire:
        fault = f"the transactional id {transactional_id!r} is in state {known.state.value}, in which Kafka keeps it"
    else:
        engine.transactions.forget(known, now)
        return True
    if must:
        raise ValueError(fault)
    return False


def fence(engine: Engine, transactional_id: str, now: int, *, must: bool = True) -> int:
    """Raise the epoch of a transactional id, as another producer that begins with it would; the new epoch, −1 for none.

    A transaction that is open is aborted. With `must` ValueError if there is no such id, or it cannot be fenced now.
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
    """Let a partition lose everything from the batch that holds `offset` on; its log end offset, −1 if it was left as it was.

    With `must` ValueError if there is no such partition, or no such offset in it.
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
