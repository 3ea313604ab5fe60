"""Conditions that must hold in every world.

Safety: each acknowledged record is stored once and in order, unless Kafka would lose it, too; a log's offsets are in order; the
brokers describe the effects of the accepted requests, and describe the same state after a restart.

Liveness: every request gets its response, or its connection is closed; no timer fires more often, and no work lasts longer,
than a limit allows.

Conservation: when everything is deleted and all clients have left, the engine is as large as a new engine.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from fuzzing.acknowledged import Log, read_log
from fuzzing.script import Finding
from kafka_model.judging import judge
from kafka_model.observing import anomalies_of
from kafkawire.errors import ErrorCode
from random_dialogues import logins
from requesting import plain
from simulation.whole.acts import DAY, MINUTE, SECOND
from simulation.whole.agreeing import after_restart, agree, at_rest, durable, files_agree, leaderless, searches, stored
from simulation.whole.conserving import conserved
from simulation.whole.done import Key
from simulation.whole.following import all_leave, nobody_left_waits, nobody_waits_in_vain
from simulation.whole.permitting import permitted, rights
from simulation.whole.reading import nobody_waits_for_nothing
from simulation.whole.remembering import offsets_as_logged, remembers, restarting
from simulation.whole.settling import groups_settle
from simulation.whole.sharing import nobody_waits_for_released_records
from simulation.whole.shown import shown
from simulation.whole.throttling import limits, throttled
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.groups.classic import Group
from wirebroker.core.groups.modern import SESSION, ModernGroup
from wirebroker.core.groups.streams_group import StreamsGroup
from wirebroker.core.logs.cleaning import plan
from wirebroker.core.producers import open_since, unpack
from wirebroker.core.transactions.transaction import TransactionState
from wirebroker.requests.authentication import _credential
from wirebroker.security.scram import BY_NAME
from wirebroker.security.session import Stage

if TYPE_CHECKING:
    from simulation.whole.world import Link, Sent, World
    from wirebroker.core.partition import Partition

MOST_FIRED = 10_000
"""One timer may fire at most this many times in one step. A step moves the clock by at most a month. If long work runs in
slices, the timers that become due in the last hour of a step run only in the next steps (`World.advance_in_slices`). So one
step may run all retries of an hour. For example, a coordinator that cannot store a marker tries again every half second."""
LOGS_EACH = 3
"""After one of this many steps, the offsets and states of the coordinators are compared with their logs, which takes long."""
CLOSES = (
    "acks=0", "the broker restarts", "was killed", "was stopped", "session has expired", "authenticat", "the fault close",
    "is upgraded",
)  # fmt: skip
"""A broker may close a connection if the reason contains one of these texts, because Kafka closes such connections, too."""
SESSION_OVER = "ended, and the client did not authenticate again"
"""The reason with which a broker closes a connection whose session has ended."""
WAITS = (SECOND, MINUTE, 11 * MINUTE)
"""The clock moves forward by these times before the check that every request has its response."""
LONGEST_WAIT = 2**31
UNREFUSED = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""With these results of a Produce, the records were stored."""
MONTH_MS = 30 * DAY


# After each step


def after_step(world: World, fired: Counter[str]) -> None:
    """Checks the conditions that must hold after each step. Raises Finding."""
    for name, times in fired.items():
        if times > MOST_FIRED:
            raise Finding(f"{name} fires too often", f"{times} times in one step")
    agree(world)
    world.following.look(world)
    world.sharing.look(world)
    world.sessions.look(world)
    nobody_waits_for_nothing(world)
    nobody_waits_for_released_records(world)
    nobody_left_waits(world)
    nobody_waits_in_vain(world)
    if world.disk is not None and len(world.log) % LOGS_EACH == 1:
        durable(world.disk, world.engine.cluster.partitions())
        if not world.in_progress:
            stored(world.engine, well=not world.disk_had_failed)
    if len(world.log) % LOGS_EACH == 0 and not (world.in_progress or world.disk_failed):
        offsets_as_logged(world)


def closed(world: World, sent: Sent | None, reason: str) -> None:
    """Checks the reason with which a broker has closed a connection. Raises Finding."""
    if not reason.strip():
        raise Finding("a connection is closed without a reason", str(sent))
    if sent is not None and SESSION_OVER in reason and sent.at == world.now and not sent.late:
        raise Finding("a connection is closed before the end of its session", f"{sent}: {reason}")
    if not (world.expects_closes or world.in_trouble or any(part in reason for part in CLOSES)):
        raise Finding(f"{sent.api if sent else 'no request'}: the connection is closed", f"{sent}: {reason}")


def authenticated(world: World, link: Link, sent: Sent, response: Any) -> None:
    """Checks that a client has logged in by the password that its user had at the client's first SCRAM message, and that a
    session ends at the time that the response to SaslAuthenticate announced. Raises Finding."""
    session = link.connection.session
    mechanism = BY_NAME.get(session.asked)
    if sent.api == "SaslAuthenticate" and not response.error_code and mechanism is not None:
        if session.stage is Stage.TOKEN:  # as Kafka's ScramSaslServer does, the broker reads the credential now
            link.login = (world.engine.cluster.scram.get((session.user, mechanism.number)),)
        elif session.stage is Stage.DONE and link.login is not None:
            (held,), link.login = link.login, None
            if held is None or held != _credential(mechanism, logins.PASSWORD, held.salt, held.iterations):
                raise Finding("a client logs in by a password that is not its user's any more", f"{session.user}: {held}")
    if lifetime := getattr(response, "session_lifetime_ms", 0):
        ends, expected = link.connection.session.expires_at, world.now + lifetime
        if ends != expected:
            raise Finding("a session ends at another time than its client was told", f"{ends}, expected {expected}")


def sent(world: World, link: Link, sent: Sent) -> None:
    """Notes what a client may do when it sends a request."""
    session = link.connection.session  # a client that has begun to log in again gets an error
    ends = world.now - 1 if session.ended else session.expires_at
    sent.late = session.stage is Stage.DONE and ends is not None and world.now > ends and not sent.api.startswith("Sasl")
    if sent.api == "Produce" and sent.request.acks == -1 and not world.setting.sliced:
        sent.lacking = frozenset((each.topic, each.index) for each in world.engine.cluster.partitions() if _lacks(each))
    sent.faulty = world.engine.faults is not None
    sent.rights, sent.limits = rights(world, link, sent.api, sent.request), limits(world, link)


def acknowledged(world: World) -> None:
    """Checks that everything that a broker has written is synced before a response, if `sync` is "always". Raises Finding."""
    for partition in world.engine.cluster.partitions() if world.setting.sync == "always" else ():
        segment: Any = partition.log.segments[-1]
        if world.disk is not None and segment.size > world.disk.synced(segment.path()):
            raise Finding("acknowledged before it is synced", f"{segment.path()}: {segment.size}")


def served(world: World, link: Link, sent: Sent, size: int) -> None:
    """Checks a response of `size` bytes. Raises Finding."""
    if sent.late:
        raise Finding("a client is served after the end of its session", f"{sent}, which ended at {link.connection.session}")
    permitted(world, link, sent, sent.response)
    if not sent.faulty:
        throttled(world, link, sent, size)
    if sent.api == "Produce":
        replicated(world, sent)
    if not (world.setting.sliced or sent.faulty):
        stays(world, sent)


def stays(world: World, sent: Sent) -> None:
    """Checks that the session timeout of a member begins again with its heartbeat. Raises Finding."""
    request, response = sent.request, sent.response
    epoch = getattr(request, "member_epoch", getattr(request, "generation_id", -1))
    if not _keeps_alive(sent) or getattr(response, "error_code", 0) or epoch < 0 or not sent.at <= world.now:
        return
    groups = world.engine.groups
    group: Any = groups.groups.get(request.group_id)
    member = group.members.get(getattr(response, "member_id", None) or request.member_id) if group is not None else None
    if member is None or _repeats_sync(world, sent):  # the member has left meanwhile, or the group was stable before
        return
    if isinstance(group, Group) and (sent.api == "Heartbeat" or member.member_id == group.members.leader):
        timer, ms = member.heartbeat, member.session_timeout
    elif isinstance(group, ModernGroup) and not member.speaks_classic:
        timer = group._timers.get((SESSION, member.member_id))
        ms = groups._modern[group.kind].setting(group.group_id, "session.timeout.ms")
    else:
        return
    if timer is None or timer.when < sent.at + ms:
        raise Finding("a heartbeat does not extend the session of its member", f"{sent}: {timer and timer.when}, {ms} ms")
    if isinstance(group, StreamsGroup) and (configs := groups.streams._configs(group)) != group.configs:
        raise Finding("a heartbeat does not notice changed settings", f"{group.group_id}: {group.configs}, expected {configs}")


def _keeps_alive(sent: Sent) -> bool:
    """Tells whether a request without an error keeps its member alive: a heartbeat, or the SyncGroup with the assignments."""
    return sent.api.endswith("Heartbeat") or (sent.api == "SyncGroup" and bool(sent.request.assignments))  # type: ignore[attr-defined]


def _repeats_sync(world: World, sent: Sent) -> bool:
    """Tells whether the request is a SyncGroup after another one of the group's generation. In a stable group it does not
    extend the session (GroupMetadataManager.classicGroupSyncToClassicGroup)."""
    if sent.api != "SyncGroup":
        return False
    request: Any = sent.request
    syncs: list[Any] = [each.request for each in world.history[: sent.number] if each.api == "SyncGroup"]
    return any((each.group_id, each.generation_id) == (request.group_id, request.generation_id) for each in syncs)


def _lacks(partition: Partition) -> bool:
    """Tells whether fewer replicas are in sync than acks=all requires."""
    return len(partition.in_sync) < min(partition.configs.integer("min.insync.replicas"), len(partition.replicas))


def replicated(world: World, sent: Sent) -> None:
    """Checks that enough replicas have the records of a Produce with acks=all. Raises Finding."""
    topics = world.engine.cluster.topics
    for told in sent.response.responses if sent.request.acks == -1 and sent.response is not None else ():  # type: ignore[attr-defined]
        topic = topics.get(told.name) or world.engine.cluster.topics_by_id.get(bytes(told.topic_id))
        for part in told.partition_responses:
            partition = topic and topic.partition(part.index)
            if partition and part.error_code in UNREFUSED and (partition.topic, partition.index) in sent.lacking:
                raise Finding("Produce: stored although too few replicas are in sync", f"{sent} {partition.topic}: {part}")
            if not partition or part.error_code or part.base_offset < 0:
                continue
            where = f"{partition.topic}-{partition.index}: {part}"
            if _lacks(partition) and not world.setting.sliced:  # in slices, a response may come after a replica is lost
                raise Finding("Produce: fewer replicas are in sync than acks=all requires", f"{where}, {partition.in_sync}")
            if partition.log_end_offset > part.base_offset >= partition.high_watermark:
                raise Finding("Produce: acknowledged before it is replicated", f"{where}, {partition.high_watermark}")


# In the end


def finish(world: World) -> None:
    """Checks the conditions that must hold in the end. Raises Finding."""
    guarding = world.watch.guarding
    with guarding("repairing", lenient=True):
        world.jobs_wait = False
        world.repair()
        world.expects_closes = False
        grows(world)
        groups_settle(world)
        if world.setting.seed % 2:
            all_leave(world)
        live(world)
        as_the_rules_say(world)
    world.disk_failed = False
    with guarding("the end", lenient=False):
        completed(world)
        logs(world)
        before = describes_what_was_done(world)
        restarted(world, before)
        aged(world)
    with guarding("the clean-up", lenient=False):
        all_leave(world)
        conserved(world)


def grows(world: World) -> None:
    """Adds partitions to a topic, and restarts the brokers before the groups notice the new partitions."""
    chance, groups = Random(f"grows {world.setting.seed}"), world.engine.groups.groups.values()
    subscribed = {name for group in groups if isinstance(group, ModernGroup) for name in group.topics()} & {"t", "u"}
    name = chance.choice(sorted(subscribed) or ["t", "u"])
    often = 0.8 if subscribed and world.setting.data else 0.4  # only brokers with a data directory read the groups again
    if (topic := world.engine.cluster.topics.get(name)) is not None and chance.random() < often:
        request: Any = plain("CreatePartitions", topics=[{"name": name, "count": len(topic.partitions) + 1}], timeout_ms=1000)
        world.done.learn("CreatePartitions", request, world.ask(request, 3), 3)
    if chance.random() < often:
        world.expects_closes = True
        restart = world.start_again if world.setting.data else partial(world.engine.restart, now=world.now)
        restarting(world, chance.choice(["clean", "kill"]), restart)
        world.expects_closes = False


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
    """Returns the number of requests that have not arrived plus the number of requests without a response. A quota can delay
    the next request of a connection."""
    return sum(len(link.arrived) + len(link.awaited) for link in world.links.values())


def completed(world: World) -> None:
    """Checks that no work is in progress. There was enough time to complete all work."""
    engine = world.engine
    for name, transaction in engine.transactions.transactions.items():
        partitions = [engine.cluster.partition(*where) for where in transaction.partitions]
        # If __transaction_state has lost records, a transaction may be ending again, although its partitions already have a
        # marker of the same epoch. As in Kafka, a partition refuses the marker as stale, and the coordinator gives up
        # (TransactionMarkerRequestCompletionHandler).
        lost = world.forgot_transactions
        if transaction.state.ending and not (lost or any(each is not None and leaderless(each) for each in partitions)):
            raise Finding("a transaction does not end", f"{name}: {transaction.state.value}")
    if engine.cluster.decisions.pending:
        raise Finding("a change of the metadata is pending", str(engine.cluster.decisions._made))
    if engine.cluster.growing:
        raise Finding("a topic is still being created", str(engine.cluster.growing))
    for partition in engine.cluster.partitions():
        if partition.leader == NO_LEADER:
            if leaderless(partition):
                continue
            raise Finding("a partition has no leader", f"{partition.topic}-{partition.index}")
        # As in Kafka, a reassignment that both adds and removes a replica, because it replaced another one, does not end.
        ends = not {*partition.adding} & {*partition.removing}
        if partition.moves and ends and {*partition.replicas} <= world.engine.cluster.brokers.keys():
            raise Finding("a reassignment does not end", f"{partition.topic}-{partition.index}: {partition.replicas}")
        if partition.high_watermark != partition.log_end_offset:
            told = f"{partition.topic}-{partition.index}: {partition.high_watermark}, expected {partition.log_end_offset}"
            raise Finding("the high watermark does not reach the end", told)
        _no_transaction_hangs(world, partition)
    at_rest(engine)


def _no_transaction_hangs(world: World, partition: Partition) -> None:
    """Checks that the coordinator knows each open transaction of a partition. Otherwise nobody would end the transaction."""
    where = (partition.topic, partition.index)
    known = {each.producer_id for each in world.engine.transactions.transactions.values() if where in each.partitions}
    open_ones = [key for key, state in partition.producers.items() if open_since(state) >= 0 and key not in known]
    meddled = world.forgot_transactions or any(sent.api == "WriteTxnMarkers" for sent in world.history)
    if open_ones and not meddled and not {partition.topic, "*"} & (world.done.falls | world.done.lossy):
        raise Finding("a transaction hangs", f"{partition.topic}-{partition.index}: {open_ones}, known {known}")


def _waiting(world: World) -> list[Sent]:
    """Returns the requests that wait for a response. As in Kafka, a JoinGroup or SyncGroup gets no response if the same member
    has sent the same kind of request again. A SyncGroup also gets no response if its member was removed."""
    waiting = [link.awaited[0] for link in world.links.values() if link.awaited]
    waiting = [each for each in waiting if each.api != "SyncGroup" or not _was_removed(world, each.request)]
    latest = {_of_member(each): each for each in world.history}
    return [each for each in waiting if _of_member(each) is None or latest[_of_member(each)] is each]


def _was_removed(world: World, request: Any) -> bool:
    """Tells whether a LeaveGroup has removed the member of a request."""
    group = world.engine.groups.groups.get(request.group_id)
    leaves = any(sent.api == "LeaveGroup" and sent.request.group_id == request.group_id for sent in world.history)
    return leaves and (group is None or request.member_id not in group.members)


def _of_member(sent: Sent) -> tuple[str, str, str] | None:
    """If a known member has sent this JoinGroup or SyncGroup, returns the API, the group and the member; otherwise None."""
    if sent.api not in ("JoinGroup", "SyncGroup") or not sent.request.member_id:
        return None
    return sent.api, sent.request.group_id, sent.request.member_id


def as_the_rules_say(world: World) -> None:
    """Checks that Kafka's rules allow the responses (`kafka_model`)."""
    checks_ms = world.engine.cluster.configs.integer("offsets.retention.check.interval.ms")
    refuted = judge(world.judged, id_expiration_ms=7 * DAY, checks_ms=checks_ms)
    if refuted is not None:
        raise Finding(f"{refuted.exchange.api}: against the rules", str(refuted))
    if world.setting.brokers == 1:  # with several brokers, batches that only the leader had may be lost
        for anomaly in anomalies_of(world.judged):
            raise Finding(f"anomaly: {anomaly.kind}", anomaly.sentence)


def logs(world: World) -> None:
    """Checks that the logs have all acknowledged batches, and that no offsets are missing."""
    done, waits = world.done, world.engine.cluster.configs.integer("log.retention.check.interval.ms")
    for topic in world.engine.cluster.topics.values():
        for partition in topic.partitions:
            compacted = partition.log.cleaned_to > 0
            log = read_log(
                f"{topic.name}-{partition.index}", partition.log_start_offset, partition.log_end_offset,
                partition.log.batches(partition.log_start_offset), compacted=compacted, cleaned_to=partition.log.cleaned_to,
            )  # fmt: skip
            start = done.starts.get((topic.topic_id, partition.index), 0)
            if start > partition.log_start_offset and "*" not in done.lossy:
                raise Finding("deleted records are back", f"{log.name} begins at {log.start}, expected {start}")
            if not done.lossy & {topic.name, "*"}:
                done.acknowledged.check(topic.topic_id, partition.index, log)
            searches(partition)
            _producers(partition, log)
            if world.setting.data:
                files_agree(partition)
            # as in Kafka, the check for retention deletes a segment that was before the log's start when it was closed
            following = [each for each in list(partition.log.segments)[1:2] if world.now - each.created > waits]
            if following and following[0].base_offset <= partition.log_start_offset:
                raise Finding("a segment before the log's start is kept", f"{log.name} begins at {log.start}")


def _producers(partition: Partition, log: Log) -> None:
    """Checks that the log has the batches that the partition remembers for each producer, unless they are deleted. Otherwise
    the partition takes a lost batch for a stored one."""
    for key, state in partition.producers.items():
        for each in unpack(state).batches:
            if each.first_offset >= max(log.start, log.cleaned_to) and isinstance(key, int):
                stored = log.batches.get(each.first_offset)
                found = stored and (stored.header.producer_id, stored.header.last_sequence, stored.header.last_offset)
                if found != (key, each.last_sequence, each.last_offset):
                    told = f"{log.name}: {key}, {each}, {found}"
                    raise Finding("a producer's state is about a batch that is not stored", told)


def describes_what_was_done(world: World) -> dict[Key, Any]:
    """Checks that the brokers describe the effects of the accepted requests. Returns the state that they describe."""
    told = shown(world)
    for difference in world.done.differences(told):
        raise Finding(f"not as it was done: {difference.split(',')[0].strip('(')}", difference)
    return told


def aged(world: World) -> None:
    """Lets a month pass, so that every timer of the final state fires."""
    world.advance(8 * DAY)
    world.advance(31 * DAY)
    after_step(world, world.watch.take_fired())
    logs(world)
    for partition in world.engine.cluster.partitions():
        _partition_aged(partition)
        _all_compacted(world, partition)
    _coordinators_aged(world)


def _partition_aged(partition: Partition) -> None:
    """Checks that a partition has forgotten what has expired."""
    where, configs = f"{partition.topic}-{partition.index}", partition.configs
    known = [key for key, state in partition.producers.items() if open_since(state) < 0]
    if known:  # as in Kafka, a producer with an open transaction stays, even if the coordinator forgot the transaction
        raise Finding("an expired producer is still known", f"{where}: {known}")
    if partition.transactions.verifications:
        raise Finding("an expired verification is still there", f"{where}: {[*partition.transactions.verifications]}")
    expires = configs.text("cleanup.policy") == "delete" and 0 <= configs.integer("retention.ms") < MONTH_MS
    if expires and partition.log_start_offset != partition.log_end_offset:
        raise Finding("expired records are still there", f"{where}: {partition.log_start_offset}")
    most, segments = configs.integer("retention.bytes"), list(partition.log.segments)
    if configs.text("cleanup.policy") == "delete" and 0 <= most <= sum(each.size for each in segments[1:]):
        raise Finding("retention by size keeps too many segments", f"{where}: {[each.size for each in segments]}, {most}")


def _coordinators_aged(world: World) -> None:
    """Checks that the coordinators have forgotten what has expired."""
    writable = not any(map(leaderless, world.engine.cluster.partitions()))
    _transactions_are_over(world, writable=writable)
    if writable:
        present = {name: [*group.members] for name, group in world.engine.groups.groups.items() if group.members}
        if present:
            raise Finding("members that send no heartbeats are still there", str(present))
    offsets = world.engine.groups.offsets
    for group in offsets.groups() if writable else ():
        for where, committed in offsets.of(group).items():
            if committed.expires is None and not offsets.waits(group, where):
                raise Finding("an expired offset is still there", f"{group} {where}: {committed}")


def _all_compacted(world: World, partition: Partition) -> None:
    """Checks that a log which is dirty enough was compacted."""
    log: Any = partition.log
    cleaning = world.engine.configs.value("log.cleaner.enable") and not world.disk_had_failed
    dirty = plan(log.segments, log.end_offset, log.cleaned_to, partition, partition.configs, world.now)
    if cleaning and dirty is not None:
        raise Finding("a log is not compacted", f"{partition.topic}-{partition.index}: {dirty}")


def _transactions_are_over(world: World, *, writable: bool) -> None:
    """Checks that no transaction is open, and that transactional ids have expired if the brokers can write this."""
    for name, transaction in world.engine.transactions.transactions.items():
        if transaction.state is TransactionState.ONGOING:
            raise Finding("a transaction has not timed out", name)
        if writable and transaction.state.may_expire and world.now - transaction.updated >= 8 * DAY:
            raise Finding("an expired transactional id is still known", f"{name}: {transaction.state.value}")


# Restarts


def restarted(world: World, before: dict[Key, Any]) -> None:
    """Restarts the brokers, and checks that they describe the state `before`."""
    chance = Random(world.setting.seed)
    mode = chance.choice(["clean", "kill"])
    world.say(f"the brokers restart ({mode})")
    world.expects_closes = True
    if world.setting.data and chance.random() < 0.8:
        world.start_again(mode)
    else:
        world.engine.restart(mode, world.now)
        after_restart(world.engine)
        world.settle()
    world.expects_closes = False
    if mode == "kill":
        world.done.killed()
    world.advance(SECOND)
    remembers(world, mode, before)
    logs(world)
