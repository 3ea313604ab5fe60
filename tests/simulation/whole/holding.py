"""What must hold in every world.

Safety: what was acknowledged is there, in order and once, unless Kafka loses it, too; the offsets of a log are in order; the
brokers describe what was done, and describe the same after a restart.

Liveness: every request gets its response or its close; no timer fires, and no work goes on, more often than a bound.

Conservation: when everything is deleted and all clients have left, the engine is as large as a new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from fuzzing.acknowledged import read_log
from fuzzing.script import Finding
from kafka_model.judging import judge
from simulation.whole.acts import DAY, MINUTE, SECOND
from simulation.whole.conserving import conserved
from simulation.whole.done import ABSENT, Key
from simulation.whole.following import all_leave
from simulation.whole.shown import shown
from wirebroker.core.producers import open_since
from wirebroker.core.transactions.transaction import NO_EPOCH, TransactionState

if TYPE_CHECKING:
    from simulation.whole.world import Sent, World
    from wirebroker.core.partition import Partition

MOST_FIRED = 5000
"""The most firings of one timer in one step. A step moves the clock by at most a month."""
CLOSES = (
    "acks=0", "the broker restarts", "was killed", "was stopped", "session has expired", "authenticat", "the fault close",
)  # fmt: skip
"""Parts of the reasons for which Kafka, too, closes a connection."""
WAITS = (SECOND, MINUTE, 11 * MINUTE)
"""How long responses may take, in three steps."""
LONGEST_WAIT = 2**31
MONTH_MS = 30 * DAY


# After each step


def after_step(world: World, fired: Counter[str]) -> None:
    """Checks what must hold after each step. Raises Finding."""
    for name, times in fired.items():
        if times > MOST_FIRED:
            raise Finding(f"{name} fires too often", f"{times} times in one step")
    for partition in world.engine.cluster.partitions():
        _in_order(partition)
    world.following.look(world)


def _in_order(partition: Partition) -> None:
    start, stable = partition.log_start_offset, partition.last_stable_offset
    high, end = partition.high_watermark, partition.log_end_offset
    if not 0 <= start <= high <= end or not stable <= high:
        told = f"start {start}, last stable {stable}, high watermark {high}, end {end}"
        raise Finding("the offsets of a log are not in order", f"{partition.topic}-{partition.index}: {told}")


def closed(world: World, sent: Sent | None, reason: str) -> None:
    """Checks the reason for which a broker has closed a connection. Raises Finding."""
    if not reason.strip():
        raise Finding("a connection is closed without a reason", str(sent))
    if not (world.expects_closes or world.in_trouble or any(part in reason for part in CLOSES)):
        raise Finding(f"{sent.api if sent else 'no request'}: the connection is closed", f"{sent}: {reason}")


# In the end


def finish(world: World) -> None:
    """Checks what must hold in the end. Raises Finding."""
    guarding = world.watch.guarding
    with guarding("repairing", lenient=True):
        world.repair()
        world.expects_closes = False
        if world.setting.seed % 2:
            all_leave(world)
        live(world)
        as_the_rules_say(world)
    world.disk_failed = False
    with guarding("the end", lenient=False):
        logs(world)
        before = describes_what_was_done(world)
        restarted(world, before)
        aged(world)
    with guarding("the clean-up", lenient=False):
        conserved(world)


def live(world: World) -> None:
    """Checks that every request gets its response."""
    for ms in WAITS:
        world.advance(ms)
    while waiting := _waiting(world):
        before = _left(world)
        world.advance(LONGEST_WAIT)
        if _left(world) == before:
            raise Finding(f"{waiting[0].api}: no response", f"{[str(each) for each in waiting]}")


def _left(world: World) -> int:
    """Returns how much the clients still wait for: each request until it arrives, and until its response. A quota can hold a
    connection back after each request."""
    return sum(len(link.arrived) + len(link.awaited) for link in world.links.values())


def _waiting(world: World) -> list[Sent]:
    """Returns the requests that wait for a response. As in Kafka, a JoinGroup that a later one of the same member has replaced
    gets none."""
    waiting = [link.awaited[0] for link in world.links.values() if link.awaited]
    joins = Counter(
        (each.request.group_id, each.request.member_id) for each in world.history if each.api in ("JoinGroup", "SyncGroup")
    )
    return [
        each
        for each in waiting
        if each.api not in ("JoinGroup", "SyncGroup") or joins[each.request.group_id, each.request.member_id] < 2
    ]


def as_the_rules_say(world: World) -> None:
    """Checks that Kafka's rules allow the responses (`kafka_model`)."""
    refuted = judge(world.judged, id_expiration_ms=7 * DAY)
    if refuted is not None:
        raise Finding(f"{refuted.exchange.api}: against the rules", str(refuted))


def logs(world: World) -> None:
    """Checks that the logs have what was acknowledged, and that no offsets are missing."""
    done = world.done
    for topic in world.engine.cluster.topics.values():
        for partition in topic.partitions:
            compacted = partition.log.cleaned_to > 0
            log = read_log(
                f"{topic.name}-{partition.index}", partition.log_start_offset, partition.log_end_offset,
                partition.log.batches(partition.log_start_offset), compacted=compacted, cleaned_to=partition.log.cleaned_to,
            )  # fmt: skip
            start = done.starts.get((topic.topic_id, partition.index), 0)
            if start > partition.log_start_offset and "*" not in done.lossy:
                raise Finding("deleted records are back", f"{log.name} begins at {log.start}, and not at {start}")
            if not done.lossy & {topic.name, "*" if world.setting.brokers > 1 else ""}:
                done.acknowledged.check(topic.topic_id, partition.index, log)
            _once(log)
            closed = list(partition.log.segments)[1:2]
            if closed and closed[0].base_offset <= partition.log_start_offset:
                raise Finding("a segment before the log's start is kept", f"{log.name} begins at {log.start}")


def _once(log: Any) -> None:
    """Checks that no batch of an idempotent producer is there twice."""
    seen: dict[Any, int] = {}
    for offset, batch in log.batches.items():
        header = batch.header
        if header.producer_id >= 0 and not header.is_control:
            key = header.producer_id, header.producer_epoch, header.base_sequence, batch.records
            if key in seen:
                raise Finding("a batch is stored twice", f"{log.name}: at {seen[key]} and at {offset}, {header}")
            seen[key] = offset


def describes_what_was_done(world: World) -> dict[Key, Any]:
    """Checks that the brokers describe what the accepted requests have done. Returns what they describe."""
    told = shown(world)
    for difference in world.done.differences(told):
        raise Finding(f"not as it was done: {difference.split(',')[0].strip('(')}", difference)
    return told


def aged(world: World) -> None:
    """A month passes, so that every timer meets what the schedule has left."""
    world.advance(8 * DAY)
    world.advance(31 * DAY)
    after_step(world, world.watch.take_fired())
    logs(world)
    for partition in world.engine.cluster.partitions():
        where, configs = f"{partition.topic}-{partition.index}", partition.configs
        cut = bool(world.done.falls & {partition.topic, "*"})  # a marker that was cut off leaves a hanging transaction
        left = [key for key, state in partition.producers.items() if not cut or open_since(state) < 0]
        if left:
            raise Finding("an expired producer is still known", f"{where}: {left}")
        expires = configs.text("cleanup.policy") == "delete" and 0 <= configs.integer("retention.ms") < MONTH_MS
        if expires and partition.log_start_offset != partition.log_end_offset:
            raise Finding("expired records are still there", f"{where}: {partition.log_start_offset}")
    for name, transaction in world.engine.transactions.transactions.items():
        if transaction.state is TransactionState.ONGOING:
            raise Finding("a transaction has not timed out", name)


# Restarts


def restarted(world: World, before: dict[Key, Any]) -> None:
    """Restarts the brokers, and checks that they describe the same."""
    chance = Random(world.setting.seed)
    mode = chance.choice(["clean", "kill"])
    world.say(f"the brokers restart ({mode})")
    world.expects_closes = True
    if world.setting.data and chance.random() < 0.8:
        world.start_again(mode)
    else:
        world.engine.restart(mode, world.now)
        world.settle()
    world.expects_closes = False
    world.advance(SECOND)
    after = shown(world)
    for key in sorted(before.keys() | after.keys(), key=repr):
        if before.get(key, ABSENT) != after.get(key, ABSENT) and not _may_change(world, mode, key, before, after):
            was, now = before.get(key, ABSENT), after.get(key, ABSENT)
            raise Finding(f"lost in a restart: {key[0]}", f"{key}: {was!r}, and after a restart ({mode}) {now!r}")
    logs(world)


def _may_change(world: World, mode: str, key: Key, before: Mapping[Key, Any], after: Mapping[Key, Any]) -> bool:
    if key[0] == "log" and key in after and key in before:
        (start, _, end), (new_start, _, new_end) = before[key], after[key]
        internal = str(key[1]).startswith("__")
        return (mode == "kill" and new_start <= start and end == new_end) or (internal and new_end >= end)
    if key[0] == "producer":  # a start forgets producers whose batches were deleted; an older snapshot may have expired ones
        partition = world.engine.cluster.partition(key[1], key[2])
        return (mode == "kill" and key not in before) or (partition is not None and partition.log_start_offset > 0)
    if key[0] == "transaction" and key in before and key in after:
        return bool(before[key][0] == after[key][0] and before[key][1] <= after[key][1])
    if key[0] == "transaction" and key in before:  # an id that could not be written has no epoch; Kafka lists it, too
        return bool(before[key][1] == NO_EPOCH)
    return False
