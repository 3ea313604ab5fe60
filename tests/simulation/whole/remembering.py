"""Checks that brokers have the same state after a restart: the state that they described before, and the state in the
coordinators' logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import astuple, replace

from fuzzing.script import Finding
from simulation.whole.agreeing import after_restart
from simulation.whole.done import ABSENT, Key
from simulation.whole.reading import was_compacted
from simulation.whole.shown import shown
from wirebroker.core.cluster import COORDINATOR_TOPICS, GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.features import TRANSACTION
from wirebroker.core.groups.loading import GroupLog
from wirebroker.core.groups.modern import ModernGroup
from wirebroker.core.groups.offsets import OffsetStore
from wirebroker.core.share.coordinator import ShareCoordinator
from wirebroker.core.transactions.log import read_transactions
from wirebroker.core.transactions.transaction import NO_EPOCH, Transaction

if TYPE_CHECKING:
    from simulation.whole.world import World
    from wirebroker.core.cluster import Cluster
    from wirebroker.core.partition import Partition


RESTORE = "restore"
"""Stands for the mode of a restart if a snapshot is restored."""
EMPTY = (0, None, ())
"""The state of a classic group whose clients only commit offsets. Such a group has no record."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
"""The states of a classic group in a rebalance."""
MOVES = ("directory", "replicas", "reassignment")
"""The facts that a reassignment changes. If a reassignment cannot be written, its client gets an error, but the reassignment is
not undone."""


KEPT = frozenset({"topic", "acl", "quota", "scram", "token", "feature", "group"})
"""The facts that a soft reset keeps."""


def restarting(world: World, mode: str, restart: Callable[[str], None]) -> None:
    """Restarts the brokers, and checks that they remember their state."""
    if world.disk is not None:
        world.disk.repair()
    world.settle()
    cluster = world.engine.cluster
    tells = world.engine.faults is None and all(each.leader != NO_LEADER for each in cluster.partitions())
    before = shown(world) if cluster.live_brokers and tells else {}
    unwritten = _unwritten(cluster) if mode == "kill" else ()
    restart(mode)
    after_restart(world.engine)
    world.settle()
    as_logged(world)
    if mode == "kill":  # the checkpoint of the log start offsets may be older
        world.done.starts.clear()
    if before:
        remembers(world, mode, before, unwritten)


def _unwritten(cluster: Cluster) -> set[str | Key]:
    """Returns the facts, or sorts of facts, that a failing disk has not taken yet. A timer would write them again, but the
    brokers are killed before that.

    A log is such a fact if a part of its truncation is left. The broker writes no batch to this log. As in Kafka, whose log
    directory goes offline then (LocalLog.maybeHandleIOException), only the files count at the next start."""
    moves = MOVES if cluster.decisions._given_up is not None else ()
    return {*moves, *(("log", each.topic, each.index) for each in cluster.partitions() if getattr(each.log, "_refused", None))}


def as_logged(world: World, read: Collection[Partition] | None = None) -> None:
    """Checks that after a restart the coordinators have the state that their logs record. If `read` is given, the coordinators
    have read only these logs again."""
    engine, (groups, transactions) = world.engine, offsets_as_logged(world)
    cluster = engine.cluster
    logs = {(each.topic, each.index) for each in (cluster.coordinator_logs() if read is None else read)}

    def of(kind: Literal["group", "transaction"], held: Mapping[str, Any]) -> dict[str, Any]:
        topic = COORDINATOR_TOPICS[kind]
        return {name: held[name] for name in held if (topic, cluster.coordinator_partition(kind, name)) in logs}

    held = of("group", engine.groups.groups)
    _same("groups", {name: _group(group) for name, group in held.items()}, dict.fromkeys(held, EMPTY) | of("group", groups))
    if engine.configs.features[TRANSACTION] and not world.setting.release:
        # at level 0, the records lack some fields, and an upgrade raises the level
        known = of("transaction", engine.transactions.transactions)
        _same("transactions", _without_times(known), _without_times(of("transaction", transactions)))


def offsets_as_logged(world: World) -> tuple[dict[str, Any], dict[str, Transaction]]:
    """Checks that the coordinators have the offsets and the states of share partitions that their logs record. This must hold
    at every time when no work is in progress. Returns the groups and the transactions in the logs, with which the coordinators
    need agree only after a restart."""
    engine, shares = world.engine, ShareCoordinator(world.engine.cluster)
    offsets, transactions, groups = OffsetStore(), dict[str, Transaction](), dict[str, Any]()
    for partition in engine.cluster.partitions():
        batches = partition.log.batches(partition.log_start_offset)
        if partition.topic == GROUP_TOPIC:
            loaded = GroupLog(partition.index, offsets, engine.groups.changes)
            for batch in batches:
                loaded.read(batch)
            groups |= {name: _classic(group.generation, group.protocol, group) for name, group in loaded.classic.items()}
            groups |= {name: _modern(group) for name, group in loaded.modern.items()}
        elif partition.topic == TRANSACTION_TOPIC:
            read_transactions(batches, transactions)
        elif partition.topic == SHARE_TOPIC:
            shares.load(partition.index, batches, world.now)
    held = engine.groups
    if any(each.lost_records and each.leader == NO_LEADER for each in engine.cluster.coordinator_logs()):
        return groups, transactions  # the next leader loads the log again; until then, nobody coordinates its groups
    _same("offsets", held.offsets._groups, offsets._groups)
    _same("offsets of transactions", _pending(held.offsets), _pending(offsets))
    _same("states of share groups", held.share_state.states, shares.states)
    return groups, transactions


def _pending(offsets: OffsetStore) -> dict[str, Any]:
    """Returns the groups with offsets in open transactions. A transaction without offsets counts as absent."""
    held = {group: {by: found for by, found in each.items() if found} for group, each in offsets._pending.items()}
    return {group: each for group, each in held.items() if each}


def _without_times(transactions: Mapping[str, Transaction]) -> dict[str, Any]:
    """Returns the transactions without their times, because the times change when the clock is set back. Transactions that are
    ending are returned without partitions, because the log does not record which partitions already have the marker."""
    changing: dict[str, Any] = {"updated": 0, "started": 0, "marked": {}}
    return {
        name: astuple(replace(each, **changing, partitions=set() if each.state.ending else each.partitions))
        for name, each in transactions.items()
    }


def _group(group: Any) -> Any:
    return _modern(group) if isinstance(group, ModernGroup) else _classic(group.generation, group.protocol, group)


def _classic(generation: int, protocol: str | None, group: Any) -> Any:
    members = group.members.values() if isinstance(group.members, Mapping) else group.members
    said = [
        (each.member_id, each.instance_id, each.assignment, each.rebalance_timeout, each.session_timeout, each.protocols)
        for each in members
    ]
    return generation, protocol or None, tuple(sorted(said))


def _modern(group: Any) -> Any:
    return group.kind, group.epoch, {name: member.epoch for name, member in group.members.items()}


def _same(what: str, found: Mapping[Any, Any], logged: Mapping[Any, Any]) -> None:
    for key in found.keys() | logged.keys():
        if (one := found.get(key)) != (other := logged.get(key)):
            raise Finding(f"not as the log says: {what}", f"{key}: {one}, expected {other}")


def remembers(world: World, mode: str, before: Mapping[Key, Any], unwritten: Container[str | Key] = ()) -> None:
    """Checks that the brokers describe the same state after a restart as before it. Facts and sorts of facts in `unwritten` may
    change, because the brokers could not write them before the restart."""
    after = shown(world)
    for key in sorted(before.keys() | after.keys(), key=repr):
        if key in unwritten or key[0] in unwritten:
            continue
        if before.get(key, ABSENT) != after.get(key, ABSENT) and not _may_change(world, mode, key, before, after):
            was, now = before.get(key, ABSENT), after.get(key, ABSENT)
            raise Finding(f"lost in a restart: {key[0]}", f"{key}: {was!r}, and after a restart ({mode}) {now!r}")


def keeps(before: Mapping[Key, Any], after: Mapping[Key, Any]) -> None:
    """Checks that a soft reset keeps topics, groups and the state of the controller. A deleted topic of the beginning comes
    back."""
    for key in [key for key in before if key[0] in KEPT]:
        if before[key] != after.get(key, ABSENT):
            raise Finding(f"lost in a soft reset: {key[0]}", f"{key}: {before[key]!r}, then {after.get(key, ABSENT)!r}")
    if more := [key for key in after.keys() - before.keys() if key[0] in KEPT and key[0] not in ("topic", "group")]:
        raise Finding(f"new after a soft reset: {more[0][0]}", str(more))


def _unrecorded(world: World) -> tuple[str, ...]:
    """Returns the states of groups that the logs perhaps do not have. As in Kafka, a group becomes empty even if the broker
    cannot write this change."""
    return ("Empty",) if world.disk_had_failed or world.coordinator_log_had_failed else ()


def _may_change(world: World, mode: str, key: Key, before: Mapping[Key, Any], after: Mapping[Key, Any]) -> bool:
    if key not in before and any(str(part).startswith("__") for part in key):
        return True  # a start creates the internal topics that were deleted
    if key[0] == "metadata":  # a restart changes the metadata, and a restore brings back earlier metadata
        return mode == RESTORE or before.get(key, 0) <= after.get(key, -1)
    if key[0] in MOVES:  # a start completes reassignments
        return ("reassignment", *(key[2:4] if key[0] == "directory" else key[1:3])) in before
    if key[0] in ("group", "members") and key not in after:
        # If a commit of offsets has created a group, the log has no record of the group until its first rebalance has ended.
        (state, members), offsets = (
            before.get(("members", key[1]), ("", {})),
            [each for each in before if each[:2] == ("offset", key[1])],
        )
        return (not members or state in REBALANCING) and not offsets
    states = {told[3] for fact, told in before.items() if fact[0] == "transaction"}
    ending = not states.isdisjoint(("PrepareCommit", "PrepareAbort"))
    if key[0] == "offset":  # a start writes the missing markers of a transaction that commits the offset
        return "PrepareCommit" in states and key in after
    if key[0] == "log" and key in after and key in before:  # a start writes the markers of transactions that were ending
        (start, stable, high, end), (new_start, new_stable, new_high, new_end) = before[key], after[key]
        grows = ending or str(key[1]).startswith("__")
        begins = new_start == start or (mode == "kill" and new_start <= start)
        ends = new_end == end or (grows and new_end >= end)
        return begins and ends and high <= new_high and (stable <= new_stable or mode == "kill")
    if key[0] == "producer":
        return ending or _producer_may_change(world, mode, key, before, after)
    if key[0] == "transaction" and key in before:
        if key not in after:  # before the restart the broker, like Kafka, listed an id that it could not write
            return bool(before[key][1] == NO_EPOCH)
        (producer_id, epoch, _, state, _), (now_id, now_epoch, *_) = before[key], after[key]
        return state in ("PrepareCommit", "PrepareAbort") and producer_id == now_id and epoch <= now_epoch
    if key[0] == "members":  # a classic group that was in a rebalance has the members of its last generation
        return key in before and before[key][0] in (*REBALANCING, *_unrecorded(world))
    return False


def _producer_may_change(world: World, mode: str, key: Key, before: Mapping[Key, Any], after: Mapping[Key, Any]) -> bool:
    """A start forgets producers whose batches were deleted. An old snapshot may bring back others."""
    partition = world.engine.cluster.partition(key[1], key[2])
    if partition is not None and partition.log_start_offset > 0:
        return True
    if mode != "kill":
        return False
    if key not in before or _had_expired(before[key], after.get(key)):
        return True
    # If compaction has removed the marker from a producer's last batch, a start that reads the log does not learn the producer
    # from this empty batch (ProducerAppendInfo.append).
    compacted = partition is not None and was_compacted(partition)
    return compacted and key not in after and before[key][1:] == (-1, -1)


def _had_expired(before: Any, after: Any) -> bool:
    """Tells whether a producer had expired before the brokers wrote a marker with its epoch. Such a marker leaves no sequence
    number. As in Kafka, after a kill, a start reads the log again, and so finds the producer's batch before the marker."""
    if after is None:
        return False
    (epoch, sequence, first), (new_epoch, _, new_first) = before, after
    return sequence == -1 and (epoch, first) == (new_epoch, new_first)
