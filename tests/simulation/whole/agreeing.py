"""Checks after each step that the parts of an engine's state agree with each other.

Often, two parts of the state say the same in different forms: one of them is, for example, an index, a count or a timer. If a
defect changes only one of the two parts, these checks find the defect immediately, long before a client could notice it.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding
from kafkawire.batches import read_header
from kafkawire.disk.checkpoints import read_offsets
from kafkawire.disk.names import SNAPSHOT, offsets_in
from kafkawire.registry import KEYS
from wirebroker.apis.refused import without_feature
from wirebroker.core.acls import EVERYBODY, WILDCARD, Acl, Acls, Operation, PatternType, Permission, ResourceType
from wirebroker.core.cluster import GROUP_TOPIC, TRANSACTION_TOPIC
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.features import REFUSED_WITHOUT, SHARE
from wirebroker.core.groups.classic import ClassicGroupState, Group
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.group import AnyGroup
from wirebroker.core.groups.modern import LEAVES_FOR_A_WHILE, REBALANCE, SESSION, MemberState, ModernGroup
from wirebroker.core.groups.streams_group import StreamsGroup
from wirebroker.core.image import image_of
from wirebroker.core.offset_lookup import MAX_TIMESTAMP
from wirebroker.core.producers import Key, epoch_of, last_offset, open_since
from wirebroker.core.purgatory import Periodic, Timer, name_of
from wirebroker.core.share.in_flight import InFlight, RecordState
from wirebroker.faults import withdraw_acl
from wirebroker.requests.connection import SILENT
from wirebroker.security.acl_specs import acl_of
from wirebroker.storage.changes import _versions
from wirebroker.storage.directory import CLEANED, LOG_STARTS

if TYPE_CHECKING:
    from diskkit import Disk
    from simulation.whole.world import World
    from wirebroker.core.cluster import Cluster
    from wirebroker.core.partition import Partition, PartitionCopy
    from wirebroker.core.share.partitions import Held
    from wirebroker.engine.engine import Engine
    from wirebroker.engine.snapshots import Snapshot
    from wirebroker.storage.directory import LogDirectory


def agree(world: World) -> None:
    """Raises Finding if two parts of the state do not agree."""
    engine, cluster = world.engine, world.engine.cluster
    for partition in cluster.partitions():
        _offsets(partition)
        _replicas(partition)
        if partition.rules != cluster.rules:
            raise Finding("a partition has other rules than the cluster", f"{partition.topic}-{partition.index}")
    _metadata(engine)
    _groups(engine, in_progress=world.in_progress, upgraded=bool(world.setting.release))
    _times(engine, world.now)
    _throttled(engine, world.now)
    _same("the periodic work", sorted(periodic_work(engine)), sorted(world.periodic))
    most = engine.configs.integer("max.incremental.fetch.session.cache.slots")
    if max(Counter(node_id for node_id, _ in engine.fetch_sessions._sessions).values(), default=0) > most:
        raise Finding("a broker has too many fetch sessions", str([*engine.fetch_sessions._sessions]))
    for node_id, session_id in engine.fetch_sessions._sessions:
        if node_id not in cluster.live_brokers:
            raise Finding("a fetch session outlives its broker", f"{session_id} of broker {node_id}")
    if not world.in_progress:
        _shares(engine, world.sessions.mixed)
        if not (engine.controller.busy or world.disk_had_failed):
            _written(engine)


def _same(what: str, one: object, other: object) -> None:
    if one != other:
        raise Finding(f"does not agree: {what}", f"{one}, expected {other}")


# Logs


def _offsets(partition: Partition) -> None:
    start, stable = partition.log_start_offset, partition.last_stable_offset
    high, end, starts = partition.high_watermark, partition.log_end_offset, partition.epochs.starts
    where = f"{partition.topic}-{partition.index}"
    if not 0 <= start <= stable <= high <= end:
        told = f"start {start}, last stable {stable}, high watermark {high}, end {end}"
        raise Finding("the offsets of a log are not in order", f"{where}: {told}")
    if partition._checkpointed_start[1] > start:
        told = f"{where}: {partition._checkpointed_start}, start {start}"
        raise Finding("the checkpoint of a log's start is after its start", told)
    if max(partition.log.cleaned_to, getattr(partition.log, "recovery_point", 0)) > end:
        raise Finding("a log is compacted or synced beyond its end", f"{where}: end {end}")
    epochs, offsets = [epoch for epoch, _ in starts], [offset for _, offset in starts]
    if epochs != sorted({*epochs}) or [*offsets, end] != sorted([*offsets, end]) or epochs[-1] > partition.leader_epoch:
        raise Finding("the leader epochs of a log are not in order", f"{where}: {starts}, end {end}")
    states = partition.producers
    if late := [key for key, state in states.items() if max(last_offset(state), open_since(state)) >= end]:
        raise Finding("a producer's state is about records after the end", f"{where}: {late}, end {end}")
    for key, awaited in partition.transactions.verifications.items():
        if key in states and open_since(states[key]) >= 0 and awaited.producer_epoch <= epoch_of(states[key]):
            raise Finding("a verification outlives the first batch of its transaction", f"{where}: {key}, {awaited}")
    _same("the open transactions of a log", partition.transactions._first_offsets, _open_ones(states))


def _open_ones(producers: Mapping[Key, bytes]) -> dict[Key, int]:
    return {key: first for key, state in producers.items() if (first := open_since(state)) >= 0}


def searches(partition: Partition) -> None:
    """Checks that a search for a time finds what a look at each batch finds. Raises Finding."""
    start, segments = partition.log_start_offset, partition.log.segments
    stored = [read_header(each) for each in partition.log.batches(segments[0].base_offset)]
    for segment, following in zip_longest(segments, segments[1:]):
        end = partition.log_end_offset if following is None else following.base_offset
        latest = max((each.max_timestamp for each in stored if segment.base_offset <= each.base_offset < end), default=-1)
        _same("the largest timestamp of a segment", segment.max_timestamp, latest)
    newest = max(stored, key=lambda each: each.max_timestamp, default=None)
    told = partition.offset_for(MAX_TIMESTAMP).offset
    # As in Kafka, an empty batch that compaction leaves keeps its timestamp (DefaultRecordBatch.writeEmptyHeader).
    seen = newest is not None and newest.max_timestamp >= 0 and newest.last_offset < partition.high_watermark
    if newest is not None and seen and not partition.log.cleaned_to:
        _same("the newest record", range(newest.base_offset, newest.last_offset + 1).count(told), 1)
    headers = [each for each in stored if each.last_offset >= start]
    for timestamp in {each.max_timestamp for each in headers}:
        found = [read_header(each).base_offset for each in partition.log.batches_since(timestamp, start)]
        _same("a search for a time", found, [each.base_offset for each in headers if each.max_timestamp >= timestamp])


def durable(disk: Disk, partitions: Iterable[Partition]) -> None:
    """Checks that the recovery point of each log is not after what is synced: a start that recovers the log does not check the
    batches before this point. Raises Finding."""
    for partition in partitions:
        log: Any = partition.log
        for segment in log.segments:
            if segment.base_offset < log.recovery_point and disk.synced(segment.path()) < segment.find(log.recovery_point):
                where = f"{partition.topic}-{partition.index}"
                raise Finding("a recovery point is after what is synced", f"{where}: {log.recovery_point}, {segment.path()}")


def stored(engine: Engine, *, well: bool) -> None:
    """Checks that the checkpoints of log directories have the contents that the brokers remember, and that no log has a later
    leader epoch than the metadata: a start would refuse it. If `well` is true, the disk has refused nothing: then no snapshot
    and no checkpoint is about records that are gone. Raises Finding."""
    store: Any = engine.store
    for directory in store._directories:
        for name, offsets in directory._written.items():
            _same(f"the file {name}", read_offsets(directory.root / name)[0], offsets)
        if well:
            _checkpointed(engine.cluster, directory)
    for topic in engine.cluster.topics.values():
        known = store._changes._metadata.image.topics.get(topic.topic_id)
        for partition in topic.partitions:
            log: Any = partition.log
            written = known and known.partitions.get(partition.index)
            if written and log.end_offset and log.last_epoch > written.leader_epoch:
                raise Finding("a log has a later leader epoch than the metadata", f"{log.where}: {log.last_epoch}, {written}")
            if well and (late := [each for each in offsets_in(log.folder, SNAPSHOT) if each > log.end_offset]):
                raise Finding("a snapshot of producers is after the end of its log", f"{log.where}: {late}, {log.end_offset}")


def _checkpointed(cluster: Cluster, directory: LogDirectory) -> None:
    """Checks that a start after a kill would take no wrong offset from a checkpoint: no log starts before the offset in the
    checkpoint, and none is compacted beyond it."""
    starts, cleaned = (read_offsets(directory.root / name)[0] for name in (LOG_STARTS, CLEANED))
    for partition in cluster.partitions():
        log: Any = partition.log
        if log.directory is not directory:
            continue
        told = [each.get(log.where, 0) for each in (starts, cleaned)]
        now = [partition.log_start_offset, log.cleaned_to]
        if told[0] > now[0] or told[1] < now[1]:
            raise Finding("a checkpoint is wrong about its log", f"{log.where}: start, compacted {told}, now {now}")


def _replicas(partition: Partition) -> None:
    where = f"{partition.topic}-{partition.index}"
    replication = partition.replication
    if late := [node for node, own in replication.since_restart.items() if own.log_end_offset > partition.log_end_offset]:
        raise Finding("a replica had followed beyond the end of its log", f"{where}: {late}")
    for node_id, prefix in replication.lagging.items():
        offsets = (prefix.log_start_offset, prefix.high_watermark, prefix.log_end_offset, partition.log_end_offset)
        if list(offsets) != sorted(offsets):
            raise Finding("the offsets of a lagging replica are not in order", f"{where} at {node_id}: {offsets}")
        _same("the open transactions of a lagging replica", prefix.transactions._first_offsets, _open_ones(prefix.producers))
        if node_id in partition.in_sync and prefix.log_end_offset < partition.high_watermark:
            raise Finding("an in-sync replica lacks committed records", f"{where} at {node_id}: {offsets}")
    lagging = replication.lagging
    ends = [lagging[each].log_end_offset if each in lagging else partition.log_end_offset for each in partition.in_sync]
    if partition.leader != NO_LEADER and not replication.too_few and partition.high_watermark < min(ends):
        raise Finding("the high watermark does not follow the in-sync replicas", f"{where}: {partition.high_watermark}, {ends}")
    if gone := {*lagging, *replication.frozen, *replication.since_restart} - {*partition.replicas}:
        raise Finding("a replica is followed that is not there", f"{where}: {gone}")
    aborted = partition.transactions._aborted[:1]
    if aborted and aborted[0].last_offset < partition.log.segments[0].base_offset:
        raise Finding("an aborted transaction outlives its records", f"{where}: {aborted}")
    if unknown := partition.log_dirs.keys() - {*partition.replicas}:
        raise Finding("a directory of a replica that is not there", f"{where}: {unknown}")


# Metadata


def _metadata(engine: Engine) -> None:
    cluster, levels = engine.cluster, engine.configs.features
    _same("topics by id", cluster.topics_by_id, {topic.topic_id: topic for topic in cluster.topics.values()})
    if not cluster.growing:
        dirs = Counter(each for partition in cluster.partitions() for each in partition.log_dirs.items())
        _same("the replicas of log directories", +cluster.log_dirs._held, dirs)
        made = {(node, (each.topic, each.index)) for each in cluster.partitions() for node in each.replicas}
        if late := cluster.log_dirs._preferred.keys() & made:
            raise Finding("a directory is chosen for a new replica that is there already", str(late))
    if engine.store is not None:
        moves = {(each.topic, each.index): path for (each, _), path in cluster.log_dirs.moves.items()}
        _same("moves of replicas", moves, {log.where: to.path for log, (to, _) in engine.store._moves._wanted.items()})
    for key, keyed in cluster.quotas.keyed.items():
        limits = {entity: held[key] for entity, held in cluster.quotas.limits.items() if key in held}
        _same("quotas", keyed._values, limits)
        counted = Counter(tuple(kind for kind, _ in entity) for entity in limits)
        _same("the numbers of quotas", {**keyed._levels}, {**counted})
    _acls(cluster.acls)
    refused = {key for key, handler in engine._handlers.items() if handler is without_feature}
    expected = {KEYS[name] for feature, names in REFUSED_WITHOUT.items() if not levels[feature] for name in names}
    _same("refused APIs", refused, expected)


def _acls(acls: Acls) -> None:
    """Checks that a search in the ACLs finds what a look at each ACL finds."""
    _same("names of ACLs", {acl for held in acls._of.values() for acl in held}, {*acls})
    for kind, name, principal in {(ResourceType(acl.resource_type), acl.name, acl.principal) for acl in acls}:
        for of in (name, f"{name}2"):
            about = {acl for acl in acls if acl.resource_type == kind and names(acl, of)}
            found = {acl for acl in about if acl.principal in (principal, EVERYBODY)}
            _same("ACLs about a resource", (set(acls.about(kind, of, principal).acls)), found)
        for operation in (Operation.READ, Operation.WRITE):
            told = acls.allows_some(principal, ADDRESS, operation, kind)
            _same("the right to do something to some resource", told, _allowed(acls, principal, operation, kind))


ADDRESS = "203.0.113.9"
"""The address of a client."""


def _allowed(acls: Acls, principal: str, operation: Operation, kind: ResourceType) -> bool:
    """Tells whether an ACL allows an operation on a resource that no other ACL denies. Looks at a resource for each ACL: a
    resource with the name or with the prefix in the ACL, or a resource that no other ACL names."""
    about = [
        acl
        for acl in acls
        if acl.resource_type == kind
        and acl.principal in (principal, EVERYBODY)
        and acl.operation in (operation, Operation.ALL)
        and acl.comes_from(ADDRESS, acls.networks)
    ]
    denied = [acl for acl in about if acl.permission == Permission.DENY]
    of = [f"{acl.name}~" if acl.pattern_type == PatternType.PREFIXED else acl.name for acl in about if acl not in denied]
    return any(not any(names(acl, "~" if name == WILDCARD else name) for acl in denied) for name in of)


def names(acl: Acl, name: str) -> bool:
    """Tells whether the ACL is about the resource with this name."""
    prefixed = acl.pattern_type == PatternType.PREFIXED
    return name.startswith(acl.name) if prefixed else acl.name in (name, WILDCARD)


def _written(engine: Engine) -> None:
    """Checks that the metadata on the disk equals the metadata of the cluster, unless a write is pending."""
    changes = engine.store and engine.store._changes
    if changes and changes._versions == _versions(engine.cluster) and not engine.cluster.decisions.pending:
        written, image = changes._metadata.image, changes._image()
        if unwritten := list(changes._difference(written, image)):
            raise Finding("a change of the metadata is not written", str(unwritten)[:500])


def undoable(cluster: Cluster) -> dict[str, object]:
    """Returns the state whose changes are undone if they cannot be written."""
    image = image_of(cluster)
    topics = {each.topic_id: (each.name, dict(each.configs.overrides)) for each in cluster.topics.values()}
    return {
        "features": image.features, "settings": image.settings, "users": image.scram, "ACLs": image.acls,
        "quotas": image.quotas, "tokens": image.tokens, "topics": topics,
    }  # fmt: skip


def unchanged(cluster: Cluster, before: Mapping[str, object]) -> None:
    """Checks that nothing has changed that could not be written. Raises Finding."""
    for what, held in undoable(cluster).items():
        _same(f"{what} that cannot be written", held, before[what])


def leaderless(partition: Partition) -> bool:
    """Tells whether no replica of the partition may lead it. As in Kafka, this is possible after a reassignment: a broker whose
    replica was removed may stay eligible to lead, because min.insync.replicas was compared with the former number of
    replicas. If the last in-sync replica is then killed, no replica is eligible."""
    return partition.leader == NO_LEADER and bool(partition.eligible) and not {*partition.eligible} & {*partition.replicas}


def as_copied(cluster: Cluster, snapshot: Snapshot) -> None:
    """Checks that each partition has the state of a snapshot, unless a coordinator has written to it since. Raises Finding."""
    for topic in snapshot.topics:
        for partition, kept in zip(cluster.topics_by_id[topic.topic_id].partitions, topic.partitions, strict=True):
            if partition.log_end_offset == kept.log.end_offset:
                one, other = (_comparable(each) for each in (partition.copied(kept.dirs), kept))
                _same(f"a partition after a restore: {topic.name}-{partition.index}", one, other)


def _comparable(copy: PartitionCopy) -> dict[str, object]:
    """Returns the parts of a partition's copy that a restore brings back. Leader epochs do not go back."""
    parts = copy._asdict()
    transactions = parts.pop("transactions")
    del parts["leader_epoch"], parts["epoch_starts"], parts["log"]
    return parts | {"open": transactions._first_offsets, "aborted": transactions._aborted}


def after_reset(engine: Engine, partitions: Iterable[Partition]) -> None:
    """Checks the state after a soft reset: no log has records, and no client lags. Raises Finding."""
    if measured := [*engine.throttle._rates, *engine.throttle._buckets]:
        raise Finding("a soft reset keeps measurements of clients", str(measured))
    if pushed := [*engine.telemetry.pushes]:
        raise Finding("a soft reset keeps the metrics of clients", str(pushed)[:500])
    if engine.controller.slow_until or {*engine.cluster.live_brokers} != {*engine.cluster.brokers}:
        raise Finding("a soft reset repairs too little", f"{engine.controller.slow_until}, {[*engine.cluster.live_brokers]}")
    ends = {(each.topic, each.index): each.log_end_offset for each in partitions}
    for partition in partitions:
        where = f"{partition.topic}-{partition.index}"
        if partition.log_start_offset != partition.log_end_offset or partition.transactions.first_unstable() is not None:
            raise Finding("a soft reset leaves records", f"{where}: {partition.log_start_offset}, {partition.log_end_offset}")
        first = partition.replicas[0]
        leads = partition.leader == first or first not in partition.in_sync
        lacks = partition.leader == NO_LEADER or not leads
        if partition.moves or partition.replication.frozen or (lacks and not leaderless(partition)):
            raise Finding("a soft reset repairs too little", f"{where}: {partition.replication.frozen}")
    for group in engine.groups.offsets.groups(pending=True):
        offsets = {where: held.offset for where, held in engine.groups.offsets.of(group).items() if where in ends}
        _same("committed offsets and the ends of logs after a soft reset", offsets, {where: ends[where] for where in offsets})


def after_restart(engine: Engine) -> None:
    """Checks that brokers have forgotten what they keep only in memory. Raises Finding."""
    parts: dict[str, Any] = {
        "fetch sessions": engine.fetch_sessions._sessions, "clients' metrics": engine.telemetry._clients,
        "measurements of clients": engine.throttle._rates, "measurements of topics": engine.throttle._buckets,
        "waiting requests": [one for each in engine.cluster.partitions() for one in each.waiting if not is_coordinators(one)],
        "verifications": [one for each in engine.cluster.partitions() for one in each.transactions.verifications],
        "connections": engine.connections,
    }  # fmt: skip
    for what, held in parts.items():
        if held:
            raise Finding(f"a restart keeps {what}", str([*held])[:500])


def without_faults(engine: Engine, rules: Iterable[Any], *, well: bool) -> None:
    """Checks that nothing of the faults is left after these rules were unloaded. If `well` is true, no test has broken anything
    else. Raises Finding."""
    plan = engine.plan
    left: dict[str, Any] = {
        "rules": plan.rules, "delayed requests": plan._held, "slow writes": plan._waiting, "changes": plan._at_unload,
        "silent connections": [each for each in engine.connections if each.state is SILENT],
        "ended sessions": [each for each in engine.connections if each.session.ended],
        "failed directories": [each.topic for each in engine.cluster.partitions() if each.offline_at and well],
        "withdrawn ACLs": [
            each.acl for each in rules if isinstance(each, withdraw_acl) and each.fired and well
            and acl_of(each.acl) not in engine.cluster.acls
        ],
    }  # fmt: skip
    for what, held in left.items():
        if held:
            raise Finding(f"{what} of faults are left", str([*held])[:500])


def at_rest(engine: Engine) -> None:
    """Checks the state when everything is repaired and all work has had enough time. Raises Finding."""
    cluster, decisions = engine.cluster, engine.cluster.decisions
    if engine.upgrading is not None:
        raise Finding("an upgrade does not end", str([*engine.upgrading.nodes]))
    if cluster.log_dirs.moves:
        raise Finding("a move to another directory does not end", str([*cluster.log_dirs.moves.values()]))
    if decisions._write is not None and decisions._versions() != decisions._written:
        raise Finding("a change of the metadata is never written", str(decisions._given_up))
    _written(engine)
    for partition in cluster.partitions():
        lacking = {*partition.replicas} - {*partition.in_sync}
        if partition.leader != NO_LEADER and lacking:
            raise Finding("a replica does not come in sync", f"{partition.topic}-{partition.index}: {lacking}")


def _throttled(engine: Engine, now: int) -> None:
    """Checks that only running brokers measure clients, and that no measurement is from the future."""
    throttle, brokers = engine.throttle, engine.cluster.brokers
    if gone := [key for key in throttle._rates if not brokers[key[0]].running]:
        raise Finding("a broker that does not run measures clients", str(gone))
    times = [sample.last_event for rate in throttle._rates.values() for sample in rate._samples]
    if late := [each for each in (*times, *(bucket._updated for bucket in throttle._buckets.values())) if each > now]:
        raise Finding("a client was measured in the future", str(late))


def files_agree(partition: Partition) -> None:
    """Checks that a log on disk has its files in the directory that the brokers describe, with the sizes that they describe.
    Raises Finding."""
    log: Any = partition.log
    where = f"{partition.topic}-{partition.index}"
    told = partition.log_dirs.get(log.directory.node_id, log.directory.path)
    if log.folder.parent != log.directory.root or (log.directory.node_id in partition.replicas and told != log.directory.path):
        raise Finding("a log is not in the directory that the brokers describe", f"{where}: {log.folder}, {told}")
    for segment in log.segments:
        size = segment.path().stat().st_size if segment.path().exists() else -1
        _same("the size of a file", size, segment.size)


# Times after a move of the clock

YEARS_MS = 400_000_000_000
NO_TIMES = re.compile(
    r"trace|_plan|faults|produce_shape|parked|_current|\.exchange|\.log\.|segments|share_state\.states|preparation\.initialized"
    r"|commits\.offsets|tokens\.by_id|since_restart|\._due\."
)
"""The times in these parts of an engine stay when the clock is moved: times of records and of files, times of requests and of
unloaded faults, the ends of delegation tokens, which clients know, and the time from which periodic work has rested, because
work rests only within a run of the timers."""


def stored_times(engine: Engine) -> dict[str, int]:
    """Returns all times (in ms since the epoch) that an engine holds in memory, by their paths."""
    now, found, seen = engine.now, dict[str, int](), set[int]()

    def walk(value: Any, way: str) -> None:
        if isinstance(value, int):
            if abs(value - now) < YEARS_MS:
                found[way] = value
            return
        named = _parts(value) if id(value) not in seen else ()
        seen.add(id(value))
        for name, part in named:
            if NO_TIMES.search(f"{way}{name}.") is None:
                walk(part, way + name)

    walk(engine, "")
    return found


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes or the elements of a value, each with a name."""
    if isinstance(value, Mapping):
        for number, (key, each) in enumerate(value.items()):
            yield f"[{key if isinstance(key, str | int) else number}]", each
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", getattr(value, name)) for name in value._fields)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((f"[{number}]", each) for number, each in enumerate(value))
    elif type(value).__module__.startswith("wirebroker") and not isinstance(value, type) and not callable(value):
        slots = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())]
        names = [*getattr(value, "__dict__", ()), *slots] if getattr(value, "action", True) is not None else ()
        yield from ((f".{name}", getattr(value, name)) for name in names if not name.startswith("__") and hasattr(value, name))


def keeps_time(engine: Engine, before: Mapping[str, int], now: int) -> None:
    """Checks that no time stayed in the future when the clock was set back to `now`. Otherwise something would not happen until
    the clock reaches this time again. `before` has the times before the clock was moved. Raises Finding."""
    after = stored_times(engine)
    if late := [way for way, time in before.items() if time > now and after.get(way) == time]:
        raise Finding("a time stays when the clock is set back", str(sorted(late)[:5]))


# Coordinators

PHASES = (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.COMPLETING_REBALANCE)
"""The states of a classic group that end at a time limit."""


def is_coordinators(callback: object) -> bool:
    """Tells whether the callback is not a request's, but a transaction coordinator's that waits to write a marker."""
    return getattr(callback, "__qualname__", "").startswith("TransactionCoordinator.")


def _groups(engine: Engine, *, in_progress: bool, upgraded: bool) -> None:
    cluster, groups = engine.cluster, engine.groups
    if GROUP_TOPIC not in cluster.topics and (groups.groups or groups.offsets.groups()):
        raise Finding("groups outlive their log", str([*groups.groups]))
    if TRANSACTION_TOPIC not in cluster.topics and engine.transactions.transactions:
        raise Finding("transactional ids outlive their log", str([*engine.transactions.transactions]))
    if unknown := {*groups.offsets.groups()} - groups.groups.keys():
        raise Finding("offsets of a group that is not there", str(unknown))
    logs = cluster.topics[GROUP_TOPIC].partitions if GROUP_TOPIC in cluster.topics else ()
    coordinated = {each.index for each in logs if each.leader != NO_LEADER}
    for name, group in groups.groups.items():
        here = groups.home(name) in coordinated and not in_progress  # otherwise a timer's work may have slices left
        if isinstance(group, ModernGroup):
            timed = {member for (_, member), timer in group._timers.items() if member and timer.action is not None}
            for what, members in (("target", {*group.targets}), ("timer", timed)):
                if gone := members - group.members.keys():
                    raise Finding(f"a member that is gone has a {what}", f"{name}: {gone}")
            if not engine.groups.changes.running:
                _assignments(name, group)
                _instances(name, group, upgraded)
            if here:
                _timeouts(name, group)
        elif here:
            _classic(group)
    _timers_of_groups(engine)


def _timers_of_groups(engine: Engine) -> None:
    """Checks that each timer of a group belongs to a group that is there, and that the group can cancel it."""
    groups = engine.groups.groups
    for _, _, timer in engine.timers._heap:
        owner = _owner(timer.action)
        if isinstance(owner, AnyGroup) and groups.get(owner.group_id) is not owner:
            raise Finding("a group that is gone has a timer", f"{owner.group_id}: {timer.action}")
        if isinstance(owner, AnyGroup) and not _knows(owner, timer):
            raise Finding("a group has forgotten a timer, and cannot cancel it", f"{owner.group_id}: {timer.action}")


def _knows(group: Any, timer: Timer) -> bool:
    """Tells whether the group holds this timer, so that it can cancel the timer."""
    if isinstance(group, ModernGroup):
        return any(each is timer for each in group._timers.values())
    held = [group._phase, *group.pending.values(), *(member.heartbeat for member in group.members.values())]
    periodic = getattr(timer.action, "__self__", None)
    return any(each is timer or (each is periodic and each is not None) for each in held)


def _timeouts(name: str, group: Any) -> None:
    """Checks that each member has a session timeout, and that exactly the members that must give up partitions or tasks have a
    time limit for this. A member that was away when its limit ended has no limit."""
    if ageless := [each for each in group.members if not group.has_timer(SESSION, each)]:
        raise Finding("a member has no session timeout", f"{name}: {ageless}")
    for member_id, member in group.members.items():
        revokes, limited = member.state is MemberState.UNREVOKED, group.has_timer(REBALANCE, member_id)
        if revokes != limited and member.epoch != LEAVES_FOR_A_WHILE and not member.speaks_classic:
            raise Finding("a time limit for giving up partitions is wrong", f"{name}: {limited}, {member}")


def _instances(name: str, group: Any, upgraded: bool) -> None:
    """Checks that each instance id belongs to a member. Before Kafka 4.4, a member that gets another instance id also keeps its
    former one, perhaps beyond an upgrade."""
    static = {member_id: member.instance_id for member_id, member in group.members.items() if member.instance_id}
    if not upgraded and (gone := [each for each in group.static_members.items() if static.get(each[1]) != each[0]]):
        raise Finding("an instance id belongs to no member", f"{name}: {gone}")


def _assignments(name: str, group: Any) -> None:
    """Checks that no two members have the same partition or task, and that no epoch is later than the group's epoch."""
    epochs = [member.epoch for member in group.members.values()]
    if max([group.assignment_epoch, *epochs]) > group.epoch:
        raise Finding("an epoch is later than the epoch of its group", f"{name}: {group.assignment_epoch}, {epochs}")
    given: list[Any] = []
    if isinstance(group, ConsumerGroup):
        given = [(topic, index) for target in group.targets.values() for topic in target for index in target[topic]]
        held = [each for member in group.members.values() for each in (member.assigned, member.revoking)]
        owned = [(topic, index) for each in held for topic in each for index in each[topic]]
        _same("the owners of partitions", sorted(group._owners), sorted(owned))
    elif isinstance(group, StreamsGroup):
        given = [task for target in group.targets.values() for task in target.active]
    if len(given) != len(set(given)):
        raise Finding("two members have the same target", f"{name}: {group.targets}")


def _classic(group: Group) -> None:
    """Checks that no member of a stable group waits, and that each member that does not wait has a session timeout."""
    for member_id, member in group.members.items():
        waits = member.joiner is not None or member.syncer is not None
        if waits and group.state is ClassicGroupState.STABLE:
            raise Finding("a member waits, although its group is stable", f"{group.group_id}: {member_id}")
        if not waits and (member.heartbeat is None or member.heartbeat.action is None):
            raise Finding("a member has no session timeout", f"{group.group_id}: {member_id}")
    phase, state = group._phase, group.state
    runs = isinstance(phase, Periodic) or (phase is not None and phase.action is not None)
    # Some members may send their SyncGroup after the leader's, which makes the group stable.
    awaits = state in PHASES or (state is ClassicGroupState.STABLE and bool(group._unsynced))
    if runs != awaits:
        raise Finding("a phase of a rebalance has a wrong timeout", f"{group.group_id}: {state}, {phase}, {group._unsynced}")


def _owner(action: Any) -> object:
    """Returns the object whose method has set a timer with this action, or None if the action does not know this object."""
    action = getattr(getattr(action, "__self__", None), "_task", action)
    names, cells = getattr(action, "__code__", None), getattr(action, "__closure__", None)
    held = dict(zip(names.co_freevars, cells, strict=True)) if names and cells else {}
    return getattr(action, "__self__", held["self"].cell_contents if "self" in held else None)


# Times


def periodic_work(engine: Engine) -> list[str]:
    """Returns the names of the engine's periodic work. Work that belongs to a group, or to the controller's checks for lag, is
    left out.
    """
    timers, owners = engine.timers, [getattr(group, "_phase", None) for group in engine.groups.groups.values()]
    owners += engine.controller._lag_checks.values()
    set_ones = [getattr(timer.action, "__self__", None) for _, _, timer in timers._heap]
    return [name_of(each._task) for each in (*set_ones, *timers.resting) if isinstance(each, Periodic) and each not in owners]


def _times(engine: Engine, now: int) -> None:
    """Checks that no remembered time is in the future. This must hold even after the clock was set back."""
    times: dict[str, int] = {}
    for name, transaction in engine.transactions.transactions.items():
        times[f"transactional id {name}"] = max(transaction.updated, transaction.started)
    for name, group in engine.groups.groups.items():
        group.change_times(lambda time, what=f"group {name}": times.setdefault(what, time) and time)
    for (node_id, session_id), session in engine.fetch_sessions._sessions.items():
        times[f"fetch session {session_id} of broker {node_id}"] = max(session.used, session.created)
    if late := {what: time - now for what, time in times.items() if time > now}:
        raise Finding("something has happened in the future", str(late))


# Share groups


def _shares(engine: Engine, mixed: Container[object]) -> None:
    """Checks share groups. `mixed` has the sessions that had several requests at the same time. As in Kafka, a waiting
    ShareFetch still acquires records after another request has ended its session."""
    cluster, shares = engine.cluster, engine.shares
    for session in shares.sessions:
        if session.key[0] not in cluster.live_brokers:
            raise Finding("a share session outlives its broker", str(session.key))
    for number, began in shares.sessions._connections.items():
        known = shares.sessions.get(began.key)
        if not began.stale and (known is None or known.connection != number):
            raise Finding("a connection has a share session that is over", f"{number}: {began}, {known}")
    _same("share sessions", +shares.sessions._members, Counter(session.key[:2] for session in shares.sessions))
    if not engine.configs.features[SHARE] and (left := [session.key for session in shares.sessions]):
        raise Finding("a share session outlives the feature of share groups", str(left))
    locks = 0
    for held in shares:
        completed = 0
        for first, last, record in _records(held):
            locks += record.lock is not None and record.lock.action is not None
            if record.state.is_terminal:
                completed += max(last - max(first, held.share.start_offset) + 1, 0)
            session = (held.node_id, held.key[0], record.member_id)
            ended = shares.sessions.get(session) is None and session not in mixed
            # As in Kafka, if the release of records cannot be written, the records stay acquired until their lock expires.
            if record.state is RecordState.ACQUIRED and ended and held.key in engine.groups.share_state.states:
                raise Finding("a member without a session has acquired records", f"{held.key} {record.member_id}")
            if record.available and last >= held.share.start_offset and not held.share.looks_for_next:
                raise Finding("nobody looks for an available record", f"{held.key} {first}")
        if held.active:
            _same("completed records", held.share.completed, completed)
    actions = (getattr(timer.action, "__qualname__", "") for _, _, timer in engine.timers._heap)
    _same("locks of records", sum(name.startswith("SharePartition.lock") for name in actions), locks)


def _records(held: Held) -> Iterator[tuple[int, int, InFlight]]:
    for batch in held.share.batches:
        yield from batch.states()
