"""Checks after each step that the parts of an engine's state agree with each other.

Often, two parts of the state say the same in different forms: one of them is, for example, an index, a count or a timer. If a
defect changes only one of the two parts, these checks find the defect immediately, long before a client could notice it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding
from kafkawire.batches import read_header
from kafkawire.registry import KEYS
from wirebroker.apis.refused import without_feature
from wirebroker.core.acls import EVERYBODY, WILDCARD, Acl, Acls, PatternType, ResourceType
from wirebroker.core.cluster import GROUP_TOPIC, TRANSACTION_TOPIC
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.features import REFUSED_WITHOUT
from wirebroker.core.groups.classic import ClassicGroupState, Group
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.group import AnyGroup
from wirebroker.core.groups.modern import SESSION, ModernGroup
from wirebroker.core.groups.streams_group import StreamsGroup
from wirebroker.core.offset_lookup import MAX_TIMESTAMP
from wirebroker.core.producers import Key, last_offset, open_since
from wirebroker.core.purgatory import Periodic, name_of
from wirebroker.core.share.in_flight import InFlight, RecordState
from wirebroker.storage.changes import _versions

if TYPE_CHECKING:
    from diskkit import Disk
    from simulation.whole.world import World
    from wirebroker.core.partition import Partition
    from wirebroker.core.share.partitions import Held
    from wirebroker.engine.engine import Engine


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
    _same("the periodic work", sorted(periodic_work(engine)), sorted(world.periodic))
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
    epochs, offsets = [epoch for epoch, _ in starts], [offset for _, offset in starts]
    if epochs != sorted({*epochs}) or [*offsets, end] != sorted([*offsets, end]) or epochs[-1] > partition.leader_epoch:
        raise Finding("the leader epochs of a log are not in order", f"{where}: {starts}, end {end}")
    states = partition.producers
    if late := [key for key, state in states.items() if max(last_offset(state), open_since(state)) >= end]:
        raise Finding("a producer's state is about records after the end", f"{where}: {late}, end {end}")
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


def _replicas(partition: Partition) -> None:
    where = f"{partition.topic}-{partition.index}"
    for node_id, prefix in partition.replication.lagging.items():
        offsets = (prefix.log_start_offset, prefix.high_watermark, prefix.log_end_offset, partition.log_end_offset)
        if list(offsets) != sorted(offsets):
            raise Finding("the offsets of a lagging replica are not in order", f"{where} at {node_id}: {offsets}")
        _same("the open transactions of a lagging replica", prefix.transactions._first_offsets, _open_ones(prefix.producers))
        if node_id in partition.in_sync and prefix.log_end_offset < partition.high_watermark:
            raise Finding("an in-sync replica lacks committed records", f"{where} at {node_id}: {offsets}")
    lagging = partition.replication.lagging
    ends = [lagging[each].log_end_offset if each in lagging else partition.log_end_offset for each in partition.in_sync]
    if partition.leader != NO_LEADER and not partition.replication.too_few and partition.high_watermark < min(ends):
        raise Finding("the high watermark does not follow the in-sync replicas", f"{where}: {partition.high_watermark}, {ends}")
    if unknown := partition.log_dirs.keys() - {*partition.replicas}:
        raise Finding("a directory of a replica that is not there", f"{where}: {unknown}")


# Metadata


def _metadata(engine: Engine) -> None:
    cluster, levels = engine.cluster, engine.configs.features
    _same("topics by id", cluster.topics_by_id, {topic.topic_id: topic for topic in cluster.topics.values()})
    if not cluster.growing:
        dirs = Counter(each for partition in cluster.partitions() for each in partition.log_dirs.items())
        _same("the replicas of log directories", +cluster.log_dirs._held, dirs)
    for key, keyed in cluster.quotas.keyed.items():
        limits = {entity: held[key] for entity, held in cluster.quotas.limits.items() if key in held}
        _same("quotas", keyed._values, limits)
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


def after_reset(engine: Engine, partitions: Iterable[Partition]) -> None:
    """Checks the state after a soft reset: no log has records, and no client lags. Raises Finding."""
    if engine.controller.slow_until or {*engine.cluster.live_brokers} != {*engine.cluster.brokers}:
        raise Finding("a soft reset repairs too little", f"{engine.controller.slow_until}, {[*engine.cluster.live_brokers]}")
    ends = {(each.topic, each.index): each.log_end_offset for each in partitions}
    for partition in partitions:
        where = f"{partition.topic}-{partition.index}"
        if partition.log_start_offset != partition.log_end_offset or partition.transactions.first_unstable() is not None:
            raise Finding("a soft reset leaves records", f"{where}: {partition.log_start_offset}, {partition.log_end_offset}")
        if partition.moves or partition.replication.frozen or partition.leader == NO_LEADER:
            raise Finding("a soft reset repairs too little", f"{where}: {partition.replication.frozen}")
    for group in engine.groups.offsets.groups(pending=True):
        offsets = {where: held.offset for where, held in engine.groups.offsets.of(group).items() if where in ends}
        _same("committed offsets and the ends of logs after a soft reset", offsets, {where: ends[where] for where in offsets})


# Coordinators


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
            if here and (ageless := [each for each in group.members if not group.has_timer(SESSION, each)]):
                raise Finding("a member has no session timeout", f"{name}: {ageless}")
        elif here:
            _classic(group)
    for _, _, timer in engine.timers._heap:
        owner = _owner(timer.action)
        if isinstance(owner, AnyGroup) and groups.groups.get(owner.group_id) is not owner:
            raise Finding("a group that is gone has a timer", f"{owner.group_id}: {timer.action}")


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
    _same("share sessions", +shares.sessions._members, Counter(session.key[:2] for session in shares.sessions))
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
        if held.active:
            _same("completed records", held.share.completed, completed)
    actions = (getattr(timer.action, "__qualname__", "") for _, _, timer in engine.timers._heap)
    _same("locks of records", sum(name.startswith("SharePartition.lock") for name in actions), locks)


def _records(held: Held) -> Iterator[tuple[int, int, InFlight]]:
    for batch in held.share.batches:
        yield from batch.states()
