"""Steps that are not requests: deeds of tests, failures, and the passing of time.

Each deed and each kind of fault automatically becomes an act, so new deeds and faults need no code here. The value of each
argument of an act is drawn from values of the world. The argument's name determines from which values (`ARGUMENTS`).
"""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable, Container, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from diskkit import Failure
from kafkawire.batches import read_header
from requesting import plain
from simulation.whole.agreeing import after_reset, as_copied, keeps_time, stored_times
from simulation.whole.remembering import RESTORE, keeps, remembers, restarting
from simulation.whole.shown import shown
from simulation.whole.things import CLUSTER, Things, node_thing, topic_thing, txn_thing
from wirebroker import faults
from wirebroker.core.acls import Acl
from wirebroker.core.cluster import GROUP_TOPIC, INTERNAL_TOPICS, SHARE_TOPIC, TRANSACTION_TOPIC
from wirebroker.core.features import TRANSACTION
from wirebroker.deeds.acls import AclDeeds
from wirebroker.deeds.broker import EngineBroker
from wirebroker.deeds.cluster import ClusterDeeds
from wirebroker.deeds.declaring import Deeds, deeds_in
from wirebroker.deeds.quotas import QuotaDeeds
from wirebroker.deeds.running import RunningDeeds
from wirebroker.deeds.state import StateDeeds
from wirebroker.deeds.telemetry import TelemetryDeeds
from wirebroker.deeds.topics import TopicDeeds
from wirebroker.engine.snapshots import go_back, take
from wirebroker.engine.soft_reset import soft_reset
from wirebroker.faults.rules import KINDS
from wirebroker.security.acl_specs import text_of

if TYPE_CHECKING:
    from simulation.whole.world import World
    from wirebroker.core.partition import Partition

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
ACLS = (
    "allow User:alice READ TOPIC t", "allow User:alice WRITE TOPIC t", "deny User:alice DELETE TOPIC t",
    "allow User:alice DESCRIBE TOPIC u", "allow User:* READ TOPIC t", "deny User:* WRITE TOPIC t*",
)  # fmt: skip
NAMES = ("t", "u", "n1", "n.2")
TRANSACTIONS = ("a", "b", "c")
NEWEST = "kafka-4.4"
BY_ENDS = 0.3
"""The probability that the clock moves to the end of a session or a token, if there is one."""
INTERNAL = (GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC)
HOLDERS: tuple[type[Deeds], ...] = (
    TopicDeeds, AclDeeds, StateDeeds, ClusterDeeds, RunningDeeds, QuotaDeeds, TelemetryDeeds,
)  # fmt: skip
NO_ACTS = {
    "answer": "a program's own response; the world could not tell whether it is right",
    "stall_handshake": "there are no handshakes without sockets",
    "expire_certificate": "there are no handshakes without sockets",
    "refuse": "the host refuses connections, and the world has no sockets",
}
"""The kinds of faults that are not acts. Each value is the reason why the kind is not an act."""


class Doer(EngineBroker, QuotaDeeds, TelemetryDeeds):
    """Does every deed to the engine of a world."""


Act = Callable[["World", Random], Things]
"""Changes a world, and returns the things that the change concerns. If the act is impossible, raises ValueError, KeyError,
IndexError, RuntimeError or OSError."""
ACTS: dict[str, Act] = {}
"""The acts by name."""
ABOUT: dict[str, str] = {}
"""For each act, the sort of things that it is about. The default is the whole cluster."""
IMPOSSIBLE = (ValueError, LookupError, RuntimeError, OSError)
NEVER_LACK = frozenset({"snapshot", "restore", "soft reset", "upgrade", "running: restart"})
"""These acts need no topic, no group and no other part of the cluster. So a LookupError in such an act is a defect."""
STARTS = frozenset({"running: restart", "start again cleanly", "start again after a kill"})
"""In these acts, brokers start. An OSError in such an act is a defect, because the disk is well, or because a restart within
the process goes on although the disk has failed."""


def act(name: str, about: str = CLUSTER) -> Callable[[Act], Act]:
    """Declares an act."""

    def declare(function: Act) -> Act:
        ACTS[name] = function
        ABOUT[name] = about
        return function

    return declare


# Arguments


def _in_use(world: World) -> list[Partition]:
    """Returns the partitions that belong to open transactions, and the partitions for which requests wait."""
    transactions = world.engine.transactions.transactions.values()
    added = {where for each in transactions for where in each.partitions}
    partitions = [each for each in world.engine.cluster.partitions() if not each.topic.startswith("__")]
    return [each for each in partitions if each.waiting or (each.topic, each.index) in added]


def _partition(world: World, chance: Random) -> tuple[str, int]:
    """Returns a topic and a partition. In many cases, the partition is in use."""
    used = sorted((each.topic, each.index) for each in _in_use(world))
    return world.pick(chance, used) if used and chance.random() < 0.7 else (_topic(world, chance), chance.choice([0, 1]))


def _log(world: World, chance: Random) -> tuple[str, int]:
    """Returns a topic and a partition. In some cases, it is a log of coordinators that has records."""
    logs = [(each.topic, each.index) for each in world.engine.cluster.coordinator_logs() if each.log_end_offset]
    return world.pick(chance, logs) if logs and chance.random() < 0.4 else _partition(world, chance)


def _topic(world: World, chance: Random) -> str:
    known = [name for name in world.engine.cluster.topics if not name.startswith("__")]
    if world.setting.alike and chance.random() < 0.8:
        return NAMES[0]
    return world.pick(chance, known or NAMES) if chance.random() < 0.95 else "absent"


def _absent(world: World) -> list[str]:
    """Returns names of topics that do not exist. If topics of the beginning are deleted, returns only their names."""
    absent = [name for name in NAMES if name not in world.engine.cluster.topics]
    return [name for name in absent if name in ("t", "u")] or absent


def _offset(world: World, chance: Random) -> int:
    ends = [each.log_end_offset for each in world.engine.cluster.partitions() if not each.topic.startswith("__")]
    return chance.randint(0, max(ends, default=0))


def _border(world: World, chance: Random) -> dict[str, Any]:
    """Returns a place in a log: the beginning of a segment that is not the first, the beginning or the end of the visible
    records, or the beginning of one of the last batches in a log of coordinators. If there is no such place, and also in some
    other cases, returns an empty dict.
    """
    kind = chance.random()
    found: list[tuple[Partition, int]] = []
    logs = [each for each in world.engine.cluster.partitions() if not each.topic.startswith("__")]
    if kind < 0.3:
        found = [(each, segment.base_offset) for each in logs for segment in list(each.log.segments)[1:]]
    elif kind < 0.6:
        begins = [each for each in logs if each.log_start_offset]
        found = [(each, offset) for each in begins for offset in 2 * [each.log_start_offset] + [each.last_stable_offset]]
    elif kind < 0.8:
        cut = world.engine.cluster.partition(*_log(world, chance))
        batches = [*cut.log.batches(cut.log_start_offset)] if cut is not None else []
        found = [(cut, max(read_header(each).base_offset, cut.log_start_offset)) for each in batches[-6:] if cut is not None]
    if not found:
        return {}
    partition, offset = chance.choice(found)
    return {"topic": partition.topic, "partition": partition.index, "offset": offset}


def _producer(world: World, chance: Random) -> int:
    known = sorted({key for each in world.engine.cluster.partitions() for key in each.producers})
    return world.pick(chance, known or [5])


def _transaction(world: World, chance: Random) -> str:
    return world.pick(chance, list(world.engine.transactions.transactions) or TRANSACTIONS)


def _acl(world: World, chance: Random) -> str:
    known: list[Acl] = list(world.engine.cluster.acls.ids)
    return text_of(world.pick(chance, sorted(known, key=str))) if known and chance.random() < 0.5 else chance.choice(ACLS)


def _node(world: World, chance: Random) -> int:
    return world.pick(chance, sorted(world.engine.cluster.brokers))


ARGUMENTS: dict[str, Callable[[World, Random], Any]] = {
    "topic": _topic, "partition": lambda _, chance: chance.choice([0, 0, 1]), "offset": _offset, "node_id": _node, "to": _node,
    "producer_id": _producer, "transactional_id": _transaction, "acl": _acl,
    "mode": lambda _, chance: chance.choice(["clean", "kill"]), "unclean": lambda _, chance: chance.random() < 0.5,
    "partitions": lambda _, chance: chance.choice([1, 2, 3]), "replication_factor": lambda _, chance: chance.choice([None, 1]),
    "configs": lambda _, chance: chance.choice([None, {"retention.ms": 60_000}, {"cleanup.policy": "compact"}]),
    "user": lambda _, chance: chance.choice(["alice", None, None, "<default>"]),
    "client_id": lambda _, chance: chance.choice([None, "c", "<default>"]),
    "unregister": lambda *_: False, "ip": lambda *_: None, "producer_byte_rate": lambda _, chance: chance.choice([1e9, 1.0]),
    "consumer_byte_rate": lambda _, chance: chance.choice([None, 1.0]),
    "request_percentage": lambda *_: None, "controller_mutation_rate": lambda *_: None,
    "connection_creation_rate": lambda *_: None, "metrics": lambda *_: ("*",), "interval_ms": lambda *_: 1000,
    "match": lambda *_: (), "name": lambda *_: "s",
    # of faults
    "then": lambda _, chance: chance.choice(["disconnect", "silence"]), "code": lambda _, chance: chance.choice([6, 7, 15, 16]),
    "after": lambda _, chance: chance.random() < 0.5, "ms": lambda _, chance: chance.choice([5, 200, 5000, 90_000]),
    "others": lambda *_: 1, "bytes": lambda _, chance: chance.choice([1, 5, 30]), "request": lambda *_: False,
    "at": lambda *_: None, "rate": lambda *_: 100_000,
}  # fmt: skip
OWN_ARGUMENTS: dict[tuple[str, str], Callable[[World, Random], Any]] = {
    ("create_topic", "name"): lambda world, chance: world.pick(chance, _absent(world) or NAMES),
    ("delete_topic", "name"): lambda world, chance: chance.choice([*NAMES, *(_topic(world, chance) for _ in NAMES)]),
    ("upgrade", "to"): lambda *_: NEWEST,
}
"""Values for arguments of a single deed or fault."""


def _choices(owner: str, names: Iterable[str]) -> dict[str, Callable[[World, Random], Any]]:
    """Returns how the values of these arguments are chosen. Raises KeyError at the import if an argument has no values: in a
    schedule the act would count as impossible."""
    return {name: OWN_ARGUMENTS.get((owner, name)) or ARGUMENTS[name] for name in names}


def _about(given: dict[str, Any], deed: str) -> Things:
    """Returns the things that the arguments name, or the whole cluster if they name nothing."""
    found = set[str]()
    name = given.get("topic", given.get("name") if "topic" in deed else None)
    if name is not None:
        found.add(topic_thing(name))
    if "node_id" in given and name is None:
        found.add(node_thing(given["node_id"]))
    if "transactional_id" in given:
        found.add(txn_thing(given["transactional_id"]))
    return frozenset(found or {CLUSTER})


def _sort(names: Container[str], deed: str) -> str:
    """Returns the sort of things that `_about` finds in arguments with these names."""
    if "topic" in names or ("name" in names and "topic" in deed):
        return "topic"
    return "broker" if "node_id" in names else "transaction" if "transactional_id" in names else CLUSTER


# Deeds


def _declare_deeds(holder: type[Deeds]) -> None:
    for each in deeds_in(holder):
        name, owner = each.function.__name__, each.function.__qualname__.split(".")[0]
        parameters = list(_parameters(each.function))
        deed = act(f"{owner.removesuffix('Deeds').lower()}: {name}", _sort({each.name for each in parameters}, name))
        deed(_deed(name, owner, parameters))


def _parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    yield from list(inspect.signature(function).parameters.values())[1:]


def _deed(name: str, owner: str, parameters: list[inspect.Parameter]) -> Act:
    choices = _choices(name, [each.name for each in parameters])

    def perform(world: World, chance: Random) -> Things:
        given = {each: choose(world, chance) for each, choose in choices.items()}
        if {"topic", "partition"} <= given.keys():
            given["topic"], given["partition"] = _partition(world, chance)
        if name == "truncate":
            given |= _border(world, chance)
        positional = [given[each.name] for each in parameters if each.kind is not each.KEYWORD_ONLY]
        named = {each.name: given[each.name] for each in parameters if each.kind is each.KEYWORD_ONLY}
        world.say(f"{owner}.{name} {given}")
        world.done.unknown_after(name, given)
        if name == "truncate" and (cut := world.engine.cluster.topics.get(given["topic"])) is not None:
            world.following.cut(cut.topic_id, given["partition"], given["offset"])
        elif name == "expire_producer":
            world.following.forget_producers()
        world.expects_closes = True
        holder = next(each for each in HOLDERS if each.__name__ == owner)
        getattr(holder, name)(Doer(world.engine), *positional, **named)
        if name == "create_topic":  # the clients know the new topic's id, as after a Metadata request
            world.speaker.symbols.topic(given["name"], world.engine.cluster.topics[given["name"]].topic_id)
        world.engine.controller.finish()
        return _about(given, name)

    return perform


for _holder in HOLDERS:
    _declare_deeds(_holder)


# Faults


def _fault(name: str) -> Act:
    kind: Any = KINDS[name]
    choices = _choices(name, [each for each, hint in kind.__annotations__.items() if "ClassVar" not in str(hint)])

    def perform(world: World, chance: Random) -> Things:
        given = {each: choose(world, chance) for each, choose in choices.items()}
        if name == "cut":
            given["bytes"] += 8
        if name == "withdraw_acl" and world.setting.secured:  # an ACL that is not there cannot be withdrawn
            world.done.unknown_after("add_acl", given)
            Doer(world.engine).add_acl(given["acl"])
        words = {"every": 1, "times": chance.choice([1, 1, 3])} if name != "refuse" else {}
        words |= {"topic": "t", "partition": 0} if name in ("truncate", "disk_full") else {}
        world.say(f"fault {name} {given}")
        if name in ("truncate", "restart", "crash_after_write", "move_leader", "withdraw_acl"):
            world.done.unknown_after(name, words)
        world.engine.plan.add(getattr(faults, name)(**given, **words))
        return frozenset({CLUSTER})

    return perform


for _name in sorted(KINDS.keys() - NO_ACTS.keys()):
    ACTS[f"fault: {_name}"] = _fault(_name)


@act("faults end")
def _faults_end(world: World, _: Random) -> Things:
    world.clear_faults()
    return frozenset({CLUSTER})


@act("a partition goes offline", "topic")
def _goes_offline(world: World, chance: Random) -> Things:
    (topic, index), node = _log(world, chance), _node(world, chance)
    partition = world.engine.cluster.partition(topic, index)
    if partition is not None and chance.random() < 0.7:
        node = partition.leader
    world.coordinator_log_had_failed |= topic in INTERNAL_TOPICS
    restore = Doer(world.engine).fill_disk(node, topic, index)
    if restore is not None:
        world.at_repair.append(restore)
    return frozenset({topic_thing(topic)})


@act("a write fails")
def _write_fails(world: World, chance: Random) -> Things:
    partition = world.engine.cluster.partition(*_log(world, chance))
    if partition is not None:
        world.coordinator_log_had_failed |= partition.topic in INTERNAL_TOPICS
        partition.fail_next_write(chance.choice([1, 1, 5]))
        world.at_repair.append(lambda: partition.fail_next_write(0))
    return frozenset({CLUSTER})


@act("a session ends")
def _session_ends(world: World, chance: Random) -> Things:
    for link in world.links.values():
        Doer(world.engine).expire_session(link.connection)
    world.expects_closes = True
    return frozenset({CLUSTER})


@act("a member's session ends", "group")
def _member_ends(world: World, chance: Random) -> Things:
    groups = world.engine.groups
    known = sorted((group, member) for group, found in groups.groups.items() for member in found.members)
    waiting = [each for each in known if getattr(groups.groups[each[0]].members[each[1]], "joiner", None) is not None]
    group, member = world.pick(chance, waiting if waiting and chance.random() < 0.7 else known)
    Doer(world.engine).expire_member([group], member)
    return frozenset({f"group {group}"})


@act("a coordinator moves")
def _coordinator_moves(world: World, chance: Random) -> Things:
    groups, ids = chance.choice([["a", "g"], []]), chance.choice([["a", "b"], []])
    Doer(world.engine).move_coordinator(groups, ids)
    return frozenset({CLUSTER})


@act("reassignments are slow")
def _slow(world: World, chance: Random) -> Things:
    Doer(world.engine).slow_reassignments(chance.choice([SECOND, HOUR]))
    return frozenset({CLUSTER})


# The whole


@act("soft reset")
def _soft_reset(world: World, _: Random) -> Things:
    world.repair()
    asks = not (world.in_progress or world.setting.release)
    before = shown(world) if asks else {}
    back = world.began - world.now
    times = stored_times(world.engine) if back else {}
    world.engine.move_time(back)
    world.now = world.began
    world.done.all_unknown()
    soft_reset(world.engine, world.now)
    keeps_time(world.engine, times, world.now)
    topics = [each for each in world.engine.cluster.topics.values() if not each.internal]
    after_reset(world.engine, [partition for topic in topics for partition in topic.partitions])
    if asks:
        keeps(before, shown(world))
    world.following.emptied(topics)
    world.learns_again = True
    return frozenset({CLUSTER})


@act("snapshot")
def _snapshot(world: World, _: Random) -> Things:
    world.snapshot = take(world.engine, world.now, world)
    settled = not (world.in_progress or world.engine.timers.is_due(world.now))  # nothing changes after the snapshot
    world.kept = shown(world) if world.engine.faults is None and settled else {}
    return frozenset({CLUSTER})


@act("restore")
def _restore(world: World, _: Random) -> Things:
    if world.snapshot is None or world.setting.data:
        raise RuntimeError("there is no snapshot")
    world.now = world.snapshot.now  # the new engine sets its timers from then on
    before, world.engine = world.engine, world.new_engine()
    go_back(world.engine, world.snapshot, before)
    as_copied(world.engine.cluster, world.snapshot)
    world.forget_links()
    world.done.all_unknown()
    world.learns_again = True
    if world.kept:
        remembers(world, RESTORE, world.kept)
    return frozenset({CLUSTER})


@act("start again cleanly")
def _start_again(world: World, _: Random) -> Things:
    restarting(world, "clean", world.start_again)
    return frozenset({CLUSTER})


@act("start again after a kill")
def _start_again_killed(world: World, _: Random) -> Things:
    restarting(world, "kill", world.start_again)
    return frozenset({CLUSTER})


@act("running: restart")
def _restarts(world: World, chance: Random) -> Things:
    world.expects_closes = True
    world.done.unknown_after("restart", {})
    restarts: Any = Doer(world.engine).restart
    mode = chance.choice(["clean", "kill"])
    if world.disk_failed and chance.random() < 0.7:
        restarts(mode)  # while the disk fails, the brokers need not remember everything
    else:
        restarting(world, mode, restarts)
    return frozenset({CLUSTER})


@act("a broker starts again", "broker")
def _broker_again(world: World, chance: Random) -> Things:
    """One broker is killed and started at once. Then, in some cases, it leads its partitions."""
    node, doer, leads = _node(world, chance), Doer(world.engine), chance.random() < 0.6
    _kill(world, [node])
    _start(world, [node])
    for partition in list(world.engine.cluster.partitions()) if leads else ():
        if node in partition.in_sync and node != partition.leader:
            doer.move_leader(partition.topic, partition.index, to=node)
    return frozenset({node_thing(node)})


@act("an unclean election")
def _unclean(world: World, chance: Random) -> Things:
    """A replica that lacks records leads, because the brokers with these records are down. If no replica lacks records, one
    broker is killed, so that a later election can be unclean. Both concern the whole cluster: all partitions of the brokers
    change."""
    cluster = world.engine.cluster
    if len(cluster.brokers) == 1:
        raise RuntimeError("there is only one broker")
    behind = [
        (partition, node)
        for partition in cluster.partitions()
        for node, prefix in partition.replication.lagging.items()
        if prefix.log_end_offset < partition.log_end_offset
    ]
    if not behind:
        _kill(world, [_node(world, chance)])
        return frozenset({CLUSTER})
    partition, node = chance.choice(behind)
    others = [each for each in partition.replicas if each != node and each in cluster.live_brokers]
    world.done.unknown_after("elect_leader", {"topic": partition.topic, "unclean": True})
    world.say(f"broker {node} leads {partition.topic}-{partition.index}")
    _kill(world, others)
    _start(world, [node])
    Doer(world.engine).elect_leader(partition.topic, partition.index, unclean=True)
    _start(world, others)
    return frozenset({CLUSTER})


def _kill(world: World, nodes: Iterable[int]) -> None:
    world.expects_closes = True
    world.done.unknown_after("kill_broker", {})
    for node in nodes:
        Doer(world.engine).kill_broker(node)
        world.engine.controller.finish()


def _start(world: World, nodes: Iterable[int]) -> None:
    for node in nodes:
        Doer(world.engine).start_broker(node)
        world.engine.controller.finish()


@act("upgrade")
def _upgrade(world: World, chance: Random) -> Things:
    world.expects_closes = True
    Doer(world.engine).upgrade(NEWEST, _node(world, chance), chance.choice([0, 2000]))(world.now)
    return frozenset({CLUSTER})


@act("the transaction version changes")
def _transaction_version(world: World, chance: Random) -> Things:
    if world.engine.faults is not None or world.disk_failed:
        raise RuntimeError("faults are loaded, or the disk refuses")
    level = {"feature": TRANSACTION, "max_version_level": chance.choice([0, 0, 1, 2]), "upgrade_type": 2}
    world.ask(plain("UpdateFeatures", feature_updates=[level], timeout_ms=1000), 1)
    return frozenset({CLUSTER})


@act("a client leaves")
def _leaves(world: World, chance: Random) -> Things:
    world.leave(world.pick(chance, sorted(world.links)))
    return frozenset({CLUSTER})


@act("an internal topic is deleted")
def _internal_deleted(world: World, chance: Random) -> Things:
    name = chance.choice(INTERNAL)
    if world.in_trouble:
        raise RuntimeError("faults are loaded, or the disk fails")
    world.done.perhaps("DeleteTopics", None)
    world.ask(plain("DeleteTopics", topics=[{"name": name}], topic_names=[name], timeout_ms=1000), 6)
    world.forgot_transactions = world.forgot_transactions or name == TRANSACTION_TOPIC
    world.following.forget_offsets()
    return frozenset({topic_thing(name), CLUSTER})


@act("all clients leave")
def _all_leave(world: World, _: Random) -> Things:
    for where in list(world.links):
        world.leave(where)
    return frozenset({CLUSTER})


# The disk


def _disk(world: World, failure: Failure) -> Things:
    if world.disk is None:
        raise RuntimeError("the brokers have no disk")
    world.disk.failure = failure._replace(number=failure.number + len(world.disk.calls))
    world.disk_failed = world.disk_had_failed = True
    return frozenset({CLUSTER})


@act("the disk is full")
def _full(world: World, _: Random) -> Things:
    return _disk(world, Failure(0, stays=True))


@act("the disk fails once")
def _fails(world: World, chance: Random) -> Things:
    return _disk(world, Failure(chance.randrange(6), errno.EIO, short=chance.random() < 0.3))


@act("the disk is well again")
def _well(world: World, _: Random) -> Things:
    world.mend()
    return frozenset({CLUSTER})


# Time


def _ends(world: World) -> list[int]:
    """Returns the times, within the next hour, at which a client's session or a delegation token ends."""
    ends = {link.connection.session.expires_at for link in world.links.values()}
    ends |= {token.expires_at for token in world.engine.cluster.tokens}
    return sorted(each for each in ends if each is not None and 0 < each - world.now <= HOUR)


def _moves(ms: Callable[[Random], int]) -> Act:
    """Returns an act that moves the clock. In some cases, the clock moves exactly to the end of a session or a token."""

    def move(world: World, chance: Random) -> Things:
        time = ms(chance)
        if chance.random() < BY_ENDS and (ends := _ends(world)):
            time = chance.choice(ends) - world.now + chance.choice([0, 0, 1])
        if world.engine.timers.in_slices:
            world.advance_in_slices(time, moved=chance.random() < 0.5)
        else:
            world.advance(time)
        return frozenset({CLUSTER})

    return move


ACTS["clock: at once"] = _moves(lambda chance: chance.randint(1, 50))
ACTS["clock: seconds"] = _moves(lambda chance: chance.randint(1, 30) * SECOND)
ACTS["clock: minutes"] = _moves(lambda chance: chance.choice([1, 5, 6, 10, 20]) * MINUTE)
ACTS["clock: hours"] = _moves(lambda chance: chance.randint(1, 30) * HOUR)
ACTS["clock: days"] = _moves(lambda chance: chance.choice([2, 7, 8, 31]) * DAY)
