"""Follows the logs and the acquired records of a world from step to step. Checks that readers see no record too early or
twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import gt
from typing import TYPE_CHECKING, Any, NamedTuple

from fuzzing.script import Finding
from kafkawire.batches import DELETE_HORIZON, HEADER_SIZE, BatchHeader, iter_records, read_header, read_marker
from simulation.whole.agreeing import is_coordinators, leaderless
from simulation.whole.done import BROKER
from wirebroker.apis.delayed import Delayed
from wirebroker.core.cluster import GROUP_TOPIC, Topic
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.groups.classic import Group
from wirebroker.core.groups.offsets import Committed, TopicPartition
from wirebroker.core.groups.share_group import Preparation, ShareGroup
from wirebroker.core.partition import Partition
from wirebroker.core.producers import _HEAD, Verification, epoch_of, last_offset, last_timestamp, open_since
from wirebroker.core.share.in_flight import InFlight, RecordState
from wirebroker.core.transactions.transaction import TransactionState

if TYPE_CHECKING:
    from simulation.whole.world import World
    from wirebroker.engine.engine import Engine


class Batch(NamedTuple):
    """A batch of a log, and the time at which this batch was first seen."""

    first: int
    last: int
    latest: int
    """The largest timestamp."""
    seen: int


class Ended(NamedTuple):
    """A transaction that has ended: its first offset and the offset of its marker."""

    producer_id: int
    first: int
    marker: int
    commit: bool


DELETING = ("OffsetDelete", "DeleteGroups")
"""Requests that delete committed offsets."""
MAKING_STATES = ("InitializeShareGroupState", "WriteShareGroupState")
EXPIRY_MS = 86_400_000
"""The time after which brokers forget an idle producer (producer.id.expiration.ms)."""


@dataclass(slots=True)
class Followed:
    """The known facts about a log. `position` is the offset of its next batch, `open` has the first offset of each open
    transaction by producer id, and `high` is the largest high watermark that readers have seen."""

    epoch: int = -1
    leader: int = -1
    position: int = 0
    open: dict[int, int] = field(default_factory=dict)
    high: int = 0
    start: int = 0
    batches: list[Batch] = field(default_factory=list)
    sent: dict[Any, Batch] = field(default_factory=dict)
    """The batches of idempotent producers. The key is unique for each batch."""
    ended: list[Ended] = field(default_factory=list)
    producers: dict[Any, int] = field(default_factory=dict)
    """For each producer that the partition knows, the time of its last batch."""
    producer_epochs: dict[Any, int] = field(default_factory=dict)
    """For each producer that the partition knows, the producer's epoch."""
    markers: dict[Any, tuple[int, ...]] = field(default_factory=dict)
    """For each producer that the partition knows, its epoch and the epoch of the last coordinator that wrote a marker."""
    forgotten: int = 0
    """Batches before this offset may be stored a second time, because a test has made brokers forget producers."""
    cut: int | None = None
    """The offset to which a test has truncated the log."""
    cleaned: int = 0
    """The offset up to which the log is compacted."""
    latest: dict[bytes, int] = field(default_factory=dict)
    """For each key, the offset of its last record. A key is left out if its last record is a tombstone or in a transaction."""
    leader_epoch: int = 0
    lagging: dict[int, int] = field(default_factory=dict)
    """For each in-sync replica that does not follow, the time since which its lag counts. At this time, it stopped or another
    broker began to lead."""
    overdue: dict[tuple[int, Any], int] = field(default_factory=dict)
    """For each producer that should be forgotten, by the replica that knows it (−1 is the leader): the time at which this was
    first seen."""
    verifications: dict[int, Verification] = field(default_factory=dict)
    """The verifications of transactions that the leader knows."""
    in_sync: set[int] | None = None
    """The brokers that were in sync or eligible to lead."""
    strangers: set[int] = field(default_factory=set)
    """The brokers that the partition lists as eligible leader replicas, but that have no replica. As in Kafka, such a broker
    may lead with an empty log after a further reassignment."""


class Following:
    """Follows the logs of one world."""

    def __init__(self) -> None:
        self._logs: dict[tuple[bytes, int], Followed] = {}
        self._was_faulty = False
        self._last_now = 0
        """The time at the last call of `look`."""
        self.looked = 0
        """The time of the last call of `look` after which no timer was due."""
        self._planned = 0
        """A round of compaction that ends after the last call of `look` was planned at this time or later. A thread compacts a
        log, and if the jobs of threads wait, the round was perhaps planned before that call."""
        self._subscribed: dict[tuple[str, tuple[str, int]], tuple[bytes, Engine]] = {}
        """The committed offsets of groups that subscribe to the offset's topic. Each value is the topic's id and the engine."""
        self._held: dict[tuple[str, tuple[str, int]], tuple[bytes, tuple[Engine, bytes], int, bool]] = {}
        """The committed offsets of classic groups. Each value is the topic's id, the engine with the id of its
        __consumer_offsets, the last time at which the group had members, and whether it has members whose subscriptions brokers
        cannot read, so that its offsets do not expire."""
        self._sent = 0
        """The number of requests that had been sent at the last call of `look`."""
        self._in_progress = self._deleting = False
        """Whether a request was in progress at the last call of `look`, and whether one may have deleted offsets since then."""
        self._committed: dict[tuple[str, TopicPartition], tuple[bytes, tuple[Engine, bytes], Committed]] = {}
        """All committed offsets. Each value has three parts: the id of the topic whose offset was committed, the log that holds
        the offset (see `_log_of_groups`), and the offset."""
        self._waiting: dict[tuple[str, int, int, str, int], tuple[bytes, tuple[Engine, bytes], int]] = {}
        """The offsets in open transactions: the group, the partition of __consumer_offsets, the producer, and the offset's
        partition. Each value is the topic's id, the log of groups, and the first offset of the transaction in this log."""
        self._pending = set[tuple[str, TopicPartition]]()
        """The offsets in open transactions, by group."""
        self._open: dict[tuple[int, int], int] = {}
        """For each open transaction, by producer id and epoch: the time at which it was first seen."""
        self._over: dict[str, int] = {}
        """For each transactional id that should have expired: the time at which this was first seen."""
        self._states: dict[str, set[tuple[str, bytes, int]]] = {}
        """For each share group, the states that are deleted with the group."""
        self._restarted = False
        """Tells whether the brokers have restarted since the last call of `look`."""
        self._periodic: object = None
        """The periodic checks that ran at the last step."""
        self._reads_again = False
        """Tells whether coordinators have read a log again that has lost records, or were perhaps killed during their work."""
        self.outliving: set[tuple[str, Any]] = set()
        """The groups that, as in Kafka, have offsets or states of a deleted topic, because the coordinators' logs could not be
        written when the topic was deleted."""

    def look(self, world: World) -> None:
        """Follow all logs up to their ends. Raises Finding."""
        faulty = world.engine.faults is not None
        # A fault can make brokers forget producers. If the clock was moved back, they may have expired before.
        if faulty or self._was_faulty or world.now < self._last_now:
            self.forget_producers()
        self._last_now = world.now
        self._was_faulty = faulty
        for topic in world.engine.cluster.topics.values():
            falls = bool(world.done.falls & {topic.name, "*"})
            for partition in topic.partitions:
                known = self._logs.setdefault((topic.topic_id, partition.index), Followed())
                self._follow(partition, known, world.now, falls)
                self._compacted(partition, known, self._planned)
                if not falls and partition.log_start_offset > known.start:
                    self._deleted(world, topic, partition, known)
                known.start = partition.log_start_offset
        for record, member in _acquired(world.engine):
            if record.lock is None or record.lock.action is None:
                raise Finding("an acquired record has no lock that ends", member)
        since = self._sent
        deleting = any(sent.api in DELETING for sent in world.history[since:])
        self._deleting = deleting or self._in_progress or world.requests_in_progress
        self._in_progress, self._sent = world.requests_in_progress, len(world.history)
        self._of_deleted_topics(world)
        self._of_subscribed_topics(world)
        self._of_empty_groups(world)
        self._of_late_commits(world)
        self._restarted, self._periodic = world.engine.maintenance is not self._periodic, world.engine.maintenance
        self._open_transactions(world)
        self._expired(world)
        self._of_deleted_groups(world, since)
        timers = world.engine.timers
        if not (timers.busy or timers.is_due(world.now)):  # otherwise a timer may still run, with the time at which it was due
            self._planned, self.looked = self.looked if world.jobs_wait else world.now, world.now

    def _of_subscribed_topics(self, world: World) -> None:
        """Checks that a group keeps its offsets for topics while its members subscribe to these topics."""
        engine, topics = world.engine, world.engine.cluster.topics
        groups, offsets = engine.groups.groups, engine.groups.offsets

        def wanted(name: str, topic: str) -> bool:
            return name in groups and topic in topics and groups[name].subscribes(topic)

        lost = [
            (name, where)
            for (name, where), (topic_id, of) in self._subscribed.items()
            if of is engine
            and where not in offsets.of(name)
            and wanted(name, where[0])
            and topics[where[0]].topic_id == topic_id
        ]
        if lost:
            raise Finding("an offset is lost, although its group subscribes to the topic", str(lost))
        self._subscribed = {
            (name, where): (topics[where[0]].topic_id, engine)
            for name in groups
            for where in offsets.of(name)
            if wanted(name, where[0])
        }

    def _of_empty_groups(self, world: World) -> None:
        """Checks that an empty classic group keeps its offsets for the retention time. The time begins when the group becomes
        empty."""
        engine, topics = world.engine, world.engine.cluster.topics
        groups, offsets = engine.groups.groups, engine.groups.offsets
        keep_ms = 60_000 * engine.configs.integer("offsets.retention.minutes")
        deleting, log = self._deleting, self._log_of_groups(world)
        for (name, (topic, index)), (topic_id, of, since, stays) in self._held.items():
            kept = name in groups and (topic, index) in offsets.of(name)
            deleted = topic not in topics or topics[topic].topic_id != topic_id
            gone = not kept and of == log and not (deleting or deleted)
            if gone and stays and name in groups and not groups[name].is_empty:
                raise Finding("an offset expires although its group has members", f"{name} {topic}-{index}")
            if gone and world.now - since < keep_ms:
                raise Finding("an offset of an empty group expires too early", f"{name} {topic}-{index}, empty since {since}")
        before, self._held = self._held, {}
        for name, group in groups.items():
            if isinstance(group, Group) and group.protocol_type is not None:
                for where, committed in offsets.of(name).items():
                    topic_id, of, since, _ = before.get((name, where), (b"", (engine, b"none"), self.looked, False))
                    occupied = bool(group.members) or of != log
                    if committed.expires is None and where[0] in topics:
                        stays = bool(group.members) and group.protocol_type != "consumer"
                        since = self.looked if occupied else since
                        self._held[name, where] = topics[where[0]].topic_id, log, since, stays

    def _of_late_commits(self, world: World) -> None:
        """Checks that a group keeps an offset for the retention time after the commit, unless a request deletes the offset or
        its topic. If an offset was in an open transaction, it is unknown to which of two topics with the same name it belongs.
        """
        engine, topics, log = world.engine, world.engine.cluster.topics, self._log_of_groups(world)
        offsets, before = engine.groups.offsets, self._committed
        keep_ms = 60_000 * engine.configs.integer("offsets.retention.minutes")
        for (name, where), (topic_id, of, committed) in before.items():
            there = where[0] in topics and topics[where[0]].topic_id == topic_id
            if self._deleting or not there or of != log or where in offsets.of(name):
                continue
            if committed.expires is None and 0 <= world.now - committed.time < keep_ms:
                raise Finding("an offset is lost soon after its commit", f"{name} {where}: {committed}")
        self._committed = {}
        for name in offsets.groups():
            for where, committed in offsets.of(name).items():
                known = before.get((name, where))
                topic_id = topics[where[0]].topic_id if where[0] in topics else b""
                if known is not None and known[2] == committed:
                    topic_id = known[0]
                elif (name, where) in self._pending:
                    topic_id = b""
                self._committed[name, where] = topic_id, log, committed
        self._of_open_transactions(world)
        self._pending = {(name, where) for name in offsets.groups(pending=True) for where, _ in offsets.pending_of(name)}

    def _of_open_transactions(self, world: World) -> None:
        """Checks that a group keeps the offsets of a transaction until the transaction ends or a request deletes them."""
        topics, log, held = world.engine.cluster.topics, self._log_of_groups(world), world.engine.groups.offsets._pending
        before, self._waiting = self._waiting, {}
        logs = topics[GROUP_TOPIC].partitions if GROUP_TOPIC in topics else ()
        for name, by_producer in held.items():
            for (home, key), offsets in by_producer.items():
                first = open_since(logs[home].producers.get(key)) if home < len(logs) else -1
                for topic, index in offsets:
                    topic_id = topics[topic].topic_id if topic in topics else b""
                    self._waiting[name, home, key, topic, index] = topic_id, log, first
        for (name, home, key, topic, index), (topic_id, of, first) in before.items() if not self._deleting else ():
            there = topic in topics and topics[topic].topic_id == topic_id and of == log and first >= 0
            lost = (name, home, key, topic, index) not in self._waiting
            if lost and there and open_since(logs[home].producers.get(key)) == first:
                raise Finding("an offset of an open transaction is lost", f"{name} {topic}-{index} of producer {key}")

    @staticmethod
    def _log_of_groups(world: World) -> tuple[Engine, bytes]:
        """Returns the engine, and the id of its __consumer_offsets."""
        topics = world.engine.cluster.topics
        return world.engine, topics[GROUP_TOPIC].topic_id if GROUP_TOPIC in topics else b""

    def _open_transactions(self, world: World) -> None:
        """Checks that transactions time out, and that transactional ids expire."""
        engine, now = world.engine, world.now
        checks_ms = engine.configs.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        held = engine.transactions.transactions.values()
        # As in Kafka, a blocked id does not time out before its coordinator has loaded its log again.
        open_ones = {
            (each.producer_id, each.producer_epoch): each
            for each in held
            if each.state is TransactionState.ONGOING and not each.is_stuck
        }
        self._open = {key: min(self._open.get(key, now), now) for key in open_ones}
        keep_ms = engine.configs.integer("transactional.id.expiration.ms")
        over = [each.transactional_id for each in held if each.state.may_expire and each.updated + keep_ms <= now]
        self._over = {name: min(self._over.get(name, now), now) for name in over}
        if world.at_repair:  # a coordinator that cannot write tries again at its next check
            self._open.clear()
            self._over.clear()
        if world.in_progress or engine.timers.is_due(now) or world.in_trouble or world.disk_had_failed:
            return
        # A restart begins the interval of the checks again.
        if self._restarted or any(map(_unwritable, engine.cluster.partitions())):
            self._open.clear()
            self._over.clear()
        often_ms = engine.configs.integer("transaction.remove.expired.transaction.cleanup.interval.ms")
        if late := [each for each in self._over.items() if now - each[1] > often_ms + 1]:
            raise Finding("a transactional id does not expire", str(late))
        for key, since in self._open.items():
            if now - since > open_ones[key].timeout_ms + checks_ms + 1:
                raise Finding("a transaction does not time out", f"{open_ones[key]}, open since {since}")

    def _of_deleted_topics(self, world: World) -> None:
        """Checks that groups have no offsets and no states of deleted topics, not even in open transactions."""
        engine, cluster = world.engine, world.engine.cluster
        if world.in_progress:
            self._reads_again = True  # a broker that is killed now does not go on with its work, as in Kafka
            return
        offsets, states = engine.groups.offsets, engine.groups.share_state.states
        told = {(group, topic) for group in engine.groups.groups for topic, _ in offsets.all_of(group)}
        told |= {(group, topic_id) for group, topic_id, _ in states}
        told |= {(name, each) for name, group in engine.groups.groups.items() for each in _with_states(group)}
        left = {each for each in told if each[1] not in cluster.topics and each[1] not in cluster.topics_by_id}
        failed = world.disk_had_failed or world.coordinator_log_had_failed
        troubled = world.in_trouble or failed or any(map(_unwritable, cluster.partitions()))
        if troubled or self._reads_again:
            self.outliving |= left
        # a coordinator whose broker is down reads its log later
        self._reads_again = any(each.lost_records for each in cluster.coordinator_logs())
        if late := left - self.outliving:
            raise Finding("offsets or states of a deleted topic", str(late))

    def _of_deleted_groups(self, world: World, since: int) -> None:
        """Checks that the states of share partitions are deleted with their group, unless a request makes them again."""
        groups, states = world.engine.groups.groups, world.engine.groups.share_state.states
        topics = world.engine.cluster.topics_by_id
        recent = world.history[0 if world.setting.sliced else since :]
        made = {sent.request.group_id for sent in recent if sent.api in MAKING_STATES}
        for name in self._states.keys() - groups.keys() - made:
            if left := [each for each in self._states[name] if each in states and each[1] in topics]:
                raise Finding("states of a deleted group", f"{left}")
        self._states = {
            name: {key for key in states if key[0] == name and _is_of(group, key[1], key[2])}
            for name, group in groups.items()
            if isinstance(group, ShareGroup)
        }

    def ended(self, topic_id: bytes, index: int) -> list[Ended]:
        """Returns the transactions of a log that have ended."""
        known = self._logs.get((topic_id, index))
        return known.ended if known is not None else []

    def at_time(self, topic_id: bytes, index: int, timestamp: int, bound: int) -> range:
        """Returns the offsets of the first batch before `bound` that has a record of this time or later, or −1 if there is no
        such batch."""
        known = self._logs.get((topic_id, index), Followed())
        found = next((each for each in known.batches if each.latest >= timestamp and each.last >= known.start), None)
        if found is None or max(found.first, known.start) >= bound:  # the start may be within the batch
            return range(-1, 0)
        return range(max(found.first, known.start), found.last + 1)

    def newest(self, topic_id: bytes, index: int, bound: int) -> range:
        """Returns the offsets of the first batch with the largest timestamp, or −1 if this batch is not before `bound`. As in
        Kafka, a batch before the start of the log may count, too: then all offsets up to the first batch are possible."""
        known = self._logs.get((topic_id, index), Followed())
        held = [each for each in known.batches if each.last >= known.start]
        found = max(held, key=lambda each: each.latest, default=None)
        if known.start or found is None or found.latest < 0:
            return range(-1, bound + 1)
        return range(-1, 0) if found.first >= bound else range(found.first, found.last + 1)

    def cut(self, topic_id: bytes, index: int, offset: int) -> None:
        """Remember that a test truncates a log to the batch that contains this offset."""
        if (known := self._logs.get((topic_id, index))) is not None and offset < known.position:
            known.cut = min((each.first for each in known.batches if each.last >= offset), default=None)

    def forget_producers(self) -> None:
        """Remember that a test makes brokers forget producers, so the same batches may be stored again."""
        for known in self._logs.values():
            known.producers.clear()
            known.forgotten = known.position

    def forget_offsets(self) -> None:
        """Remember that a log of coordinators has lost records or is deleted. So groups, or their offsets, may be lost; and if
        the log has lost the tombstones of a deleted topic, its offsets and states are there again, as in Kafka."""
        self._reads_again = True
        self._states.clear()
        self._subscribed.clear()
        self._held.clear()
        self._committed.clear()
        self._waiting.clear()

    def forget_leaders(self) -> None:
        """Remember that some changes of leaders are lost, because they could not be written."""
        for known in self._logs.values():
            known.epoch = -1

    def emptied(self, topics: Iterable[Topic]) -> None:
        """Forget the transactions of these topics, because a soft reset has deleted their records. It also forgets the offsets
        of open transactions, although these transactions stay open in __consumer_offsets."""
        self._waiting.clear()
        ids = {topic.topic_id for topic in topics}
        for known in [known for (topic_id, _), known in self._logs.items() if topic_id in ids]:
            known.open.clear()
            known.ended.clear()

    @classmethod
    def _follow(cls, partition: Partition, known: Followed, now: int, falls: bool) -> None:
        where, high = f"{partition.topic}-{partition.index}", partition.high_watermark
        if high < known.high and not (falls or known.strangers):
            raise Finding("the high watermark falls", f"{where}: from {known.high} to {high}")
        known.high, known.strangers = high, {*partition.eligible} - {*partition.replicas}
        cls._lags(partition, known, where, now)
        cls._verifies(partition, known, where)
        # After several elections in one step, it is unknown which replicas were in sync before the last election.
        elections = partition.leader_epoch - known.leader_epoch
        known.leader_epoch = partition.leader_epoch
        if elections <= 1 and known.in_sync is not None and (early := {*partition.eligible} - known.in_sync):
            raise Finding("a replica that was not in sync is eligible to lead", f"{where}: {early}, in sync {known.in_sync}")
        known.in_sync = {*partition.in_sync, *partition.eligible}
        if known.cut is not None and partition.log_end_offset < known.cut:
            raise Finding(
                "a truncated log loses more than it must", f"{where}: {partition.log_end_offset}, expected {known.cut}"
            )
        known.cut = None
        if partition.leader == known.leader == NO_LEADER and elections == 0 and partition.log_end_offset > known.position:
            raise Finding("a log without a leader gets records", f"{where}: {known.position}, {partition.log_end_offset}")
        if partition.leader_epoch < known.epoch or (
            partition.leader_epoch == known.epoch and partition.leader not in (known.leader, NO_LEADER)
        ):
            told = f"{where}: {partition.leader} in epoch {partition.leader_epoch}, after {known.leader} in epoch {known.epoch}"
            raise Finding("a new leader has no new epoch", told)
        known.leader = partition.leader
        if partition.leader_epoch != known.epoch or partition.log_end_offset < known.position:
            known.epoch, known.position = partition.leader_epoch, partition.log_start_offset
            known.open.clear()
            known.batches.clear()
            known.ended.clear()
            known.sent.clear()
            known.producers.clear()
            known.producer_epochs.clear()
            known.markers.clear()
            known.latest.clear()
            known.cleaned = partition.log.cleaned_to
        if partition.log_end_offset > known.position:
            for raw in partition.log.batches(known.position):
                cls._appended(partition, where, known, raw, now)
            known.position = partition.log_end_offset
        first = min((each for each in known.open.values() if each >= partition.log_start_offset), default=high)
        if partition.last_stable_offset > first:
            told = f"{where}: the last stable offset is {partition.last_stable_offset}, but a transaction is open at {first}"
            raise Finding("readers see an open transaction", told)
        unseen = [each for each in known.ended if each.marker >= high > partition.log_start_offset <= each.first]
        if unseen and partition.last_stable_offset > min(each.first for each in unseen):
            raise Finding("readers see a transaction whose end is not replicated", f"{where}: {unseen}, high watermark {high}")
        cls._index(partition, known, where)
        cls._producers(partition, known, where, now)

    @staticmethod
    def _lags(partition: Partition, known: Followed, where: str, now: int) -> None:
        """Checks that a replica leaves the in-sync replicas only after it has lagged for replica.lag.time.max.ms. A new leader
        begins to count again."""
        longest = partition.configs.broker.integer("replica.lag.time.max.ms")
        elected = partition.leader_epoch != known.leader_epoch
        frozen = partition.replication.frozen & {*partition.replicas}
        out = {node: since for node, since in known.lagging.items() if node in frozen - {*partition.in_sync}}
        if not elected and (early := [node for node, since in out.items() if 0 <= now - since < longest]):
            raise Finding("a replica is out of sync too early", f"{where}: {early}, which lag since {known.lagging}")
        lagging = frozen & {*partition.in_sync}
        known.lagging = {node: now if elected else known.lagging.get(node, now) for node in lagging}

    @staticmethod
    def _verifies(partition: Partition, known: Followed, where: str) -> None:
        """Checks that a new leader does not know which transactions another broker was verifying."""
        held = partition.transactions.verifications
        kept = [key for key, each in held.items() if known.verifications.get(key) is each]
        if kept and partition.leader not in (known.leader, NO_LEADER):
            raise Finding("a new leader knows the verifications of another leader", f"{where}: {kept}")
        known.verifications = dict(held)

    @staticmethod
    def _index(partition: Partition, known: Followed, where: str) -> None:
        """Checks that the index of aborted transactions agrees with the markers in the log."""
        if partition.log.cleaned_to:
            return
        start, end = partition.log_start_offset, partition.log_end_offset
        held = {
            (each.producer_id, each.first_offset, each.last_offset)
            for each in partition.transactions.ended_between(start, end + 1)
        }
        late = partition.transactions.ended_between(end, 2**63 - 1)
        wanted = {(each.producer_id, each.first, each.marker) for each in known.ended if not each.commit}
        # The first batches of a transaction may be deleted, so that only the index knows where the transaction began.
        begun_before = {(producer_id, last) for producer_id, first, last in held if first < start}
        differ = [each for each in held ^ wanted if start <= each[1] and (each[0], each[2]) not in begun_before] + late
        if differ:
            raise Finding("the index of aborted transactions is wrong", f"{where}: {differ}, expected {wanted}")

    @staticmethod
    def _producers(partition: Partition, known: Followed, where: str, now: int) -> None:
        """Checks that the partition forgets only producers that have been idle for a long time. If the clock was moved back,
        nobody knows how long."""
        keep_ms = partition.configs.broker.producer_expiration_ms
        gone = {
            key: last for key, last in known.producers.items() if key not in partition.producers and 0 <= now - last < keep_ms
        }
        if gone:
            raise Finding("a producer is forgotten", f"{where}: {gone}")
        markers = {key: _HEAD.unpack_from(state)[:2] for key, state in partition.producers.items()}
        lower = [key for key, last in known.producers.items() if 0 <= now - last < keep_ms and key in known.markers]
        if fell := [(key, known.markers[key], markers[key]) for key in lower if any(map(gt, known.markers[key], markers[key]))]:
            raise Finding("an epoch of a producer falls", f"{where}: {fell}")
        known.markers = markers
        known.producers = {key: min(last_timestamp(state), now) for key, state in partition.producers.items()}
        known.producer_epochs = {key: epoch_of(state) for key, state in partition.producers.items()}

    def _expired(self, world: World) -> None:
        """Checks that all replicas forget idle producers in time. Restarted brokers begin the interval of the checks again."""
        configs, timers = world.engine.configs, world.engine.timers
        if world.in_progress or timers.is_due(world.now):
            return
        keep_ms, often_ms = configs.producer_expiration_ms, configs.producer_expiration_check_ms
        for partition in world.engine.cluster.partitions():
            topic = world.engine.cluster.topics[partition.topic]
            known = self._logs.setdefault((topic.topic_id, partition.index), Followed())
            of = {-1: partition.producers} | {node: each.producers for node, each in partition.replication.lagging.items()}
            overdue = {
                (node, key)
                for node, producers in of.items()
                for key, state in producers.items()
                if open_since(state) < 0 and last_timestamp(state) + keep_ms <= world.now
            }
            known.overdue = {key: min(known.overdue.get(key, world.now), world.now) for key in overdue}
            if self._restarted:
                known.overdue = dict.fromkeys(known.overdue, world.now)
            if late := [key for key, since in known.overdue.items() if world.now - since > often_ms + 1]:
                raise Finding("an idle producer is still known", f"{partition.topic}-{partition.index}: {late}")

    @staticmethod
    def _compacted(partition: Partition, known: Followed, since: int) -> None:
        """After a round of compaction, checks which records the log still has. The round was planned at the time `since` or
        later."""
        start, end = partition.log_start_offset, partition.log.cleaned_to
        where = f"{partition.topic}-{partition.index}"
        if end < known.cleaned:
            raise Finding("a log forgets how far it is compacted", f"{where}: {end}, before {known.cleaned}")
        if end == known.cleaned:
            return
        known.cleaned = end
        if end > partition.last_stable_offset:
            raise Finding("an open transaction is compacted", f"{where}: to {end}, stable to {partition.last_stable_offset}")
        lasts, left = set[tuple[int, int]](), set[int]()
        for raw in partition.log.batches(start):
            header = read_header(raw)
            if header.base_offset >= end:
                break
            lasts.add((header.producer_id, header.last_offset))
            is_due = bool(header.attributes & DELETE_HORIZON) and header.base_timestamp <= since
            for record in iter_records(raw):
                left.add(header.base_offset + record.offset_delta)
                if is_due and (header.is_control or record.value is None):
                    raise Finding("a tombstone or marker stays after its time", f"{where}: {header}")
        if lost := [each for each in known.latest.items() if start <= each[1] < end and each[1] not in left]:
            raise Finding("compaction removes the last record of a key", f"{where}: {lost}")
        lasts_of = {(key, last_offset(state)) for key, state in partition.producers.items() if isinstance(key, int)}
        if gone := [each for each in lasts_of - lasts if start <= each[1] < end]:
            raise Finding("compaction removes the last batch of a producer", f"{where}: {gone}")

    @classmethod
    def _appended(cls, partition: Partition, where: str, known: Followed, raw: memoryview, now: int) -> None:
        header = read_header(raw)
        if (epoch := partition.epochs.at(header.base_offset)) != header.partition_leader_epoch:
            raise Finding("the leader epochs of a log are not those of its batches", f"{where}: {epoch}, {header}")
        if partition.policy.compacted and not header.is_control:
            for record in iter_records(raw):
                known.latest.pop(record.key or b"", None)
                if record.key and record.value is not None and not header.is_transactional:
                    known.latest[record.key] = header.base_offset + record.offset_delta
        batch = Batch(header.base_offset, header.last_offset, header.max_timestamp, now)
        known.batches.append(batch)
        if header.is_control:
            first = known.open.pop(header.producer_id, None)
            if first is not None and (marker := read_marker(next(iter(iter_records(raw))))) is not None:
                known.ended.append(Ended(header.producer_id, first, header.base_offset, marker.commit))
        elif header.producer_id >= 0 and header.producer_epoch >= 0:  # without an epoch, Kafka checks no sequence
            if header.is_transactional:
                known.open.setdefault(header.producer_id, header.base_offset)
            key = (header.producer_id, header.producer_epoch, header.base_sequence, bytes(raw[HEADER_SIZE:]))
            earlier = known.sent.setdefault(key, batch)
            if where.startswith("__"):
                return  # all transactional batches of the group coordinator have the sequence 0
            cls._epoch_begins(partition, where, known, header, now)
            if (
                earlier is not batch
                and now - max(earlier.latest, 0) < EXPIRY_MS
                and earlier.first >= max(known.start, known.forgotten)
            ):
                raise Finding("a batch is stored twice", f"{where}: at {earlier.first} and at {batch.first}, {header}")

    @staticmethod
    def _epoch_begins(partition: Partition, where: str, known: Followed, header: BatchHeader, now: int) -> None:
        """Checks that a producer with a new epoch begins at the sequence 0. If the partition has forgotten the producer, it may
        begin at any sequence."""
        key, epoch = header.producer_id, known.producer_epochs.get(header.producer_id, -1)
        remembers = 0 <= now - known.producers.get(key, -EXPIRY_MS) < partition.configs.broker.producer_expiration_ms
        if remembers and 0 <= epoch < header.producer_epoch and header.base_sequence:
            raise Finding("a new epoch does not begin at the first sequence", f"{where}: epoch {epoch}, then {header}")
        known.producer_epochs[key] = header.producer_epoch

    @staticmethod
    def _deleted(world: World, topic: Topic, partition: Partition, known: Followed) -> None:
        """Checks that retention deletes nothing too early."""
        begin = max(_asked_to_delete(world, topic.name, partition.index), default=0)
        changed = [
            when
            for key, when in world.done.since.items()
            if key[0] == "config" and "retention" in key[3] and (key[1] == BROKER or key[2] == topic.name)
        ]
        deletes = any(sent.api == "DeleteRecords" for link in world.links.values() for sent in link.awaited)
        altered = max(changed, default=world.began) >= max(world.following.looked, world.began + 1)
        if deletes or topic.internal or altered or world.in_trouble or {"topic", "config"} & world.done.vague:
            return
        keep_ms, keep_bytes = partition.configs.integer("retention.ms"), partition.configs.integer("retention.bytes")
        if 0 <= keep_bytes <= partition.log.size:
            return
        for each in known.batches:
            if begin <= each.last < partition.log_start_offset and (keep_ms < 0 or world.now - each.latest <= keep_ms):
                told = f"{topic.name}-{partition.index}: the batch up to {each.last}"
                raise Finding("retention deletes a batch too early", told)
        known.batches = [each for each in known.batches if each.last >= partition.log_start_offset]


def _with_states(group: object) -> Iterator[bytes]:
    """Yields the ids of the topics of which the records of a share group name a state."""
    held = group.preparation if isinstance(group, ShareGroup) else None
    for topics in held.by_state if held is not None else ():
        yield from topics


def _is_of(group: ShareGroup, topic_id: bytes, index: int) -> bool:
    """Tells whether the records of a share group name the state of this share partition."""
    held = group.preparation or Preparation()
    prepared = [topics[topic_id].partitions for topics in (held.initializing, held.initialized) if topic_id in topics]
    return topic_id in held.deleting or any(index in each for each in prepared)


def _unwritable(partition: Partition) -> bool:
    return partition.leader == NO_LEADER or partition.replication.too_few


def _asked_to_delete(world: World, topic: str, index: int) -> Iterator[int]:
    """Yields the offsets in DeleteRecords requests. Such a request asks to delete all records before its offset. The response
    does not matter, because the leader deletes before it waits for the other replicas."""
    for sent in world.history:
        for asked in sent.request.topics if sent.api == "DeleteRecords" else ():
            offsets = [part.offset for part in asked.partitions if asked.name == topic and part.partition_index == index]
            yield from (offset if offset >= 0 else 2**63 for offset in offsets)


def _acquired(engine: Engine) -> Iterator[tuple[InFlight, str]]:
    """Yields each record that a member of a share group has acquired, and a text with the group and the member."""
    for held in engine.shares._held.values():
        for batch in held.share.batches:
            for _, _, record in batch.states():
                if record.state is RecordState.ACQUIRED:
                    yield record, f"{held.key} {record.member_id}"


def nobody_left_waits(world: World) -> None:
    """Checks that no request waits for records if its client has left. Raises Finding."""
    engine = world.engine
    if world.requests_in_progress:
        return  # the request's next slice may notice that the client has left
    waiting: list[Any] = [each for partition in engine.cluster.partitions() for each in partition.waiting]
    for _, _, timer in engine.timers._heap:
        watched: Any = getattr(getattr(timer.action, "__self__", None), "_watched", ())
        if any(getattr(each, "deleted", False) for each in watched):
            raise Finding("a request waits for a deleted partition", str(timer.action))
    for callback in waiting + [each for held in engine.shares._waiting.values() for each in held]:
        request = getattr(callback, "__self__", None)
        exchange = getattr(request, "exchange", None) or getattr(request, "_exchange", None)
        if exchange is not None and not exchange.alive:
            raise Finding("a request of a client that has left waits for records", str(exchange.request)[:200])


def nobody_waits_in_vain(world: World) -> None:
    """Checks that no Produce and no DeleteRecords waits for what has already happened. Its response would come only at its
    timeout. Raises Finding."""
    if world.in_progress or world.engine.controller.busy:
        return
    for link in world.links.values():
        waits = getattr(getattr(link.connection.parked, "abandon", None), "__self__", None)
        if not isinstance(waits, Delayed):
            continue
        partitions = [each.partition for each in waits._left]
        gone = all(each.deleted or each.leader != link.connection.node_id for each in partitions)
        # As in Kafka, the failure of a log directory wakes no request (ReplicaManager.handleLogDirFailure). The death of a
        # broker whose replica is not in sync wakes no request either, because it changes no partition.
        alive = world.engine.cluster.alive
        dead = any(not alive(node) for each in partitions for node in {*each.replicas} - {*each.in_sync})
        if not (dead or any(each.offline_at for each in partitions)) and (gone or waits._is_complete()):
            raise Finding("a request waits although its response is complete", str(link.awaited[0] if link.awaited else waits))


def all_leave(world: World) -> None:
    """Lets all clients leave, and checks that none of their requests waits any more. Raises Finding."""
    engine = world.engine
    for where in list(world.links):
        world.leave(where)
    for partition in engine.cluster.partitions():
        if any(not (leaderless(partition) and is_coordinators(each)) for each in partition.waiting):
            raise Finding("a request of a client that has left waits for records", f"{partition.topic}-{partition.index}")
    if engine.shares._waiting:
        raise Finding("a ShareFetch of a client that has left waits for records", str([*engine.shares._waiting]))
    for _, _, timer in engine.timers._heap:
        if getattr(timer.action, "__module__", "").startswith("wirebroker.apis."):
            raise Finding("a timer of a client that has left stays", str(timer.action))
