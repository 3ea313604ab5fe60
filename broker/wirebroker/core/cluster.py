"""The cluster: brokers, topics, and leaders. The cluster keeps the metadata that KRaft would keep, without the quorum."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from kafkawire.disk.metadata import ScramCredential, TokenImage
from kafkawire.errors import ErrorCode
from kafkawire.primitives import ZERO_UUID, new_uuid
from wirebroker.common.changes import Change, FeatureRow, TopicRow
from wirebroker.common.slices import at_once, pauses
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.acls import Acl, Acls
from wirebroker.core.configs import BrokerConfigs, ConfigError, TopicConfigs
from wirebroker.core.delegation_tokens import DelegationTokens
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.features import ELIGIBLE_REPLICAS
from wirebroker.core.java_order import abs_hash
from wirebroker.core.log_dirs import LogDirs
from wirebroker.core.loggers import Loggers
from wirebroker.core.logs.interface import Log
from wirebroker.core.logs.memory import ANY_SIZE, INTERNAL_SEGMENT, MemoryLog
from wirebroker.core.metadata_writes import Decisions, check_texts
from wirebroker.core.partition import Partition
from wirebroker.core.producer_ids import ProducerIds
from wirebroker.core.profile import Rules
from wirebroker.core.purgatory import Timers
from wirebroker.core.quotas import Change as QuotaChange
from wirebroker.core.quotas import Quotas
from wirebroker.core.racks import spread
from wirebroker.core.releases import Release, release
from wirebroker.core.releases.changes import since

HOSTS_ARE_NETWORKS = since("4.4", "the host of an ACL may be a network such as 10.0.0.0/8", "KIP-1276")
FREES_NAMES = since("3.3", "a topic can be created again right after its deletion", "KIP-833")

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
COORDINATOR_TOPICS = {"group": GROUP_TOPIC, "transaction": TRANSACTION_TOPIC, "share": SHARE_TOPIC}
"""The topic of each kind of coordinator."""
SETTINGS_OF = {
    GROUP_TOPIC: "offsets.topic", TRANSACTION_TOPIC: "transaction.state.log", SHARE_TOPIC: "share.coordinator.state.topic",
}  # fmt: skip
"""For each coordinators' topic, the prefix of its broker settings."""
SHARED_CLUSTER_ID = "wirebroker-cluster-00A"
"""The cluster id if the cluster is in memory, or if its data directory has no id."""
INTERNAL_TOPICS = frozenset(COORDINATOR_TOPICS.values())
GROWN = 8
"""The number of partitions that one slice creates.

If there is a data directory, creating a partition takes about a millisecond.
"""


class Broker(Struct):
    """One broker. `addresses` has the advertised address of each listener, by the listener's name."""

    node_id: int
    addresses: dict[str, tuple[str, int]] = {}
    rack: str | None = None
    running: bool = True
    registered: bool = True
    """Tells whether the controller knows the broker. A broker registers itself when it starts."""
    in_quorum: bool = True
    """Tells whether the active controller knows this broker as a controller. A broker registers itself when it starts."""
    stopped: tuple[int, int] | None = None
    """When the broker stopped: the offset of the metadata, and the time in ms. None if the broker runs."""
    loggers: Loggers = field(default_factory=Loggers)
    """The levels of the broker's loggers."""
    rules: Rules = field(default_factory=Rules)
    """The broker's rules, which depend on its release. During a rolling upgrade the brokers run two releases."""
    versions: Mapping[int, tuple[int, int]] = {}
    """For each API key, the lowest and the highest version that the broker can read."""

    @property
    def release(self) -> Release:
        """The release of Kafka that the broker runs."""
        return release(self.rules.release)

    @property
    def alive(self) -> bool:
        """Tells whether the broker can lead and follow partitions."""
        return self.running and self.registered

    def start(self) -> None:
        """Start the broker, which registers itself."""
        self.running = self.registered = self.in_quorum = True
        self.stopped = None
        self.loggers = Loggers()

    def address(self, listener: str) -> tuple[str, int]:
        """Returns the advertised host and port for this listener. For an unknown listener, returns the host and port of the
        first listener."""
        return self.addresses.get(listener) or next(iter(self.addresses.values()), ("", -1))


class Topic(Struct, eq=False):
    """A topic; `topic_id` is 16 raw bytes."""

    name: str
    topic_id: bytes
    configs: TopicConfigs
    partitions: list[Partition] = []

    @property
    def internal(self) -> bool:
        """Tells whether this is a coordinators' topic, to which clients must not write."""
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> Partition | None:
        """Returns the partition with this index, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class StoredPartition(NamedTuple):
    """A partition that is restored from the disk.

    `dirs` has the log directory of each replica, by broker id; `leader_epoch` is the partition's leader epoch before the start.
    """

    dirs: Mapping[int, str]
    leader_epoch: int


OpenLog = Callable[[Topic, int, Mapping[int, str], int], Log]
"""Opens a partition's log. The arguments are the topic, the index, the log directory of each replica (by broker id), and the
time."""


def memory_log(topic: Topic, index: int, dirs: Mapping[int, str], now: int) -> Log:
    return MemoryLog(0, now, INTERNAL_SEGMENT if topic.internal else ANY_SIZE)


class MetadataLog(Protocol):
    """The end of the metadata log."""

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of the last record."""


class Cluster:
    """The state that the brokers of one process share. The class reads no clock: times are passed in."""

    metadata_log: MetadataLog | None = None
    """The metadata log, if the metadata are on disk."""
    last_epoch = 0
    """The largest leader epoch of all deleted partitions. A snapshot may bring back such a partition."""

    def __init__(
        self,
        brokers: Sequence[Broker],
        configs: BrokerConfigs,
        rules: Rules,
        timers: Timers,
        random_bytes: Callable[[int], bytes],
        *,
        full_checks: bool = True,
        cold_start: bool = True,
        cluster_id: str = SHARED_CLUSTER_ID,
        open_log: OpenLog = memory_log,
        log_dirs: LogDirs | None = None,
    ) -> None:
        self.brokers = {broker.node_id: broker for broker in brokers}
        self.configs = configs
        self.rules = rules
        self.timers = timers
        self.random_bytes = random_bytes
        self.full_checks = full_checks
        self.cluster_id = cluster_id
        self._open_log = open_log
        self.log_dirs = log_dirs or LogDirs(configs)
        """The log directory of each replica."""
        self.producer_ids = ProducerIds()
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self._alike: dict[str, dict[str, None]] = {}
        """The names of topics that contain '.' or '_'. The key is the name with '_' in place of '.'."""
        self.scram: dict[tuple[str, int], ScramCredential] = {}
        """The SCRAM credentials, by user and the mechanism's number (1 SHA-256, 2 SHA-512)."""
        self.acls = Acls(networks=HOSTS_ARE_NETWORKS.of(configs.release))
        """The ACLs, if there is an authorizer."""
        self.quotas = Quotas()
        """The quotas of clients."""
        self.tokens = DelegationTokens()
        self.cold_start = cold_start
        """Tells whether new coordinators must first load, as in Kafka.

        Until a coordinator is loaded, a client gets two retriable errors.
        """
        self._unloaded: set[str] = set()
        self.loading_ms = 0
        """The longest time in ms for which coordinators load after their topic is created.

        With 0, there is no limit. In any case, the first request to one of the coordinators ends the loading.
        """
        self.auto_creation_ms = 0
        """The time in ms between a Metadata request for an unknown topic and the automatic creation of the topic."""
        self.deletion_ms = 0
        """With ZooKeeper: for this time in ms after a topic is deleted, no new topic can have its name."""
        self.deleting: dict[str, int] = {}
        """The name of each deleted topic that the controller has not yet removed from ZooKeeper, with its number of partitions.
        No new topic can have the name yet, and the partitions' logs still exist."""
        self.growing: set[str] = set()
        """Topics that are being created or extended in slices."""
        self.stillborn: dict[str, int] = {}
        """With ZooKeeper: the topics that have all their replicas on brokers that do not exist, each with its number of
        partitions. No broker has such a topic, but the topic's name is taken."""
        self.refused_settings: dict[str, dict[str, str]] = {}
        """The settings in refused CreateTopics requests, by topic name. The next topic with the name gets these settings."""
        self._due: dict[str, int] = {}
        """For each topic that a Metadata request has asked for: the time at which the topic will be created automatically."""
        self.version = 0
        """The version of the metadata, which rises with every change of topics, partitions, leaders or settings."""
        self.topics_created = 0
        """The number of topics that were ever created."""
        self.decisions = Decisions(timers, lambda: (self.version, configs.version, self.producer_ids.next_block))
        self.watch: Callable[[Change], None] | None = None
        """If this function is set, it is called with every change."""
        self.rolled: Callable[[Partition, int], None] | None = None
        """Called when a segment of a compacted topic is closed."""

    @property
    def metadata_offset(self) -> int:
        """The offset after the last metadata change. This offset never falls, not even when brokers with data on disk
        restart."""
        return self.version if self.metadata_log is None else self.metadata_log.end_offset

    @property
    def quorum_epoch(self) -> int:
        """The leader epoch of the controllers' quorum. With data on disk, a new epoch begins with each start."""
        return 1 if self.metadata_log is None else self.metadata_log.leader_epoch

    def report(self, change: Change) -> None:
        """Call `watch` with the change, if `watch` is set."""
        if self.watch is not None:
            self.watch(change)

    @property
    def controller_id(self) -> int:
        """The broker that Metadata names as the controller; −1 if no broker is alive.

        In wirebroker every broker can handle the requests for a controller.
        """
        return min(self.live_brokers, default=-1)

    @property
    def live_brokers(self) -> dict[int, Broker]:
        """The brokers that are neither down nor unregistered, by id. Metadata responses name only these brokers."""
        return {node_id: broker for node_id, broker in self.brokers.items() if broker.alive}

    @property
    def registered_brokers(self) -> dict[int, Broker]:
        """The brokers that the controller knows, by id; some may be stopped."""
        return {node_id: broker for node_id, broker in self.brokers.items() if broker.registered}

    @property
    def usable_brokers(self) -> dict[int, Broker]:
        """The registered brokers that can get new replicas: each has a log directory that is not cordoned."""
        return {node_id: broker for node_id, broker in self.registered_brokers.items() if self.log_dirs.takes_replicas(node_id)}

    def cannot_replicate(self, factor: int) -> str:
        """Returns Kafka's message if new partitions cannot have this many replicas, or "" if they can
        (StripedReplicaPlacer.place).
        """
        usable = self.usable_brokers
        if not any(broker.alive for broker in usable.values()):
            return "All brokers are currently fenced, or have all their log directories cordoned."
        if factor > len(usable):
            return (
                f"The target replication factor of {factor} cannot be reached because only {len(usable)} broker(s) are "
                "registered or some brokers have all their log directories cordoned."
            )
        return ""

    def alive(self, node_id: int) -> bool:
        """Tells whether the broker exists and is neither down nor unregistered."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.alive

    def registered(self, node_id: int) -> bool:
        """Tells whether the broker exists and the controller knows it."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.registered

    def offline(self, partition: Partition) -> list[int]:
        """Returns the partition's replicas on stopped brokers or failed log directories."""
        return [each for each in partition.replicas if not self.alive(each) or each in partition.offline_at]

    def create_topic(
        self, name: str, now: int, *, partitions: int | None = None, replication_factor: int | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None, overrides: Mapping[str, str] | None = None,
    ) -> Topic:  # fmt: skip
        """Create the topic before any other request is handled; see `creating_topic`."""
        return at_once(self.creating_topic(name, now, partitions, replication_factor, assignment, overrides))

    def creating_topic(
        self, name: str, now: int, partitions: int | None = None, replication_factor: int | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None, overrides: Mapping[str, str] | None = None,
    ) -> Generator[None, Any, Topic]:  # fmt: skip
        """Create the topic in slices, and spread its leaders over the brokers. The caller has checked the name, the counts and
        the settings.

        No client sees the topic before all of its partitions exist. The topic must not be in `growing`. If a log cannot be
        created, raises OSError and creates nothing. The topic is removed again if its creation cannot be written to the
        metadata log. Raises UnwritableText for a name or a setting that no record can hold.
        """
        overrides = self.refused_settings.pop(name, {}) | dict(overrides or {})
        check_texts((name, overrides))
        topic = Topic(name, self._new_topic_id(), TopicConfigs(self.configs, overrides))
        count = len(assignment) if assignment else partitions or self.configs.integer("num.partitions")
        factor = replication_factor or self.configs.integer("default.replication.factor")
        topic.partitions = yield from self._growing(topic, count, now, factor, assignment)
        self._enter(topic)
        self.topics_created += 1
        self.version += 1

        def undo() -> None:
            self._remove(topic)
            self._shrink(topic, 0, now)

        self.decisions.made(undo, lambda: self.report(TopicRow("created", name, count)))
        return topic

    def alter_acls(self, added: Sequence[Acl], removed: Sequence[Acl]) -> None:
        """Add and remove ACLs. The change is undone if it cannot be written to the metadata log."""
        new = {acl: new_uuid(self.random_bytes) for acl in dict.fromkeys(added) if acl not in self.acls}
        gone = {acl: self.acls.ids[acl] for acl in removed if acl in self.acls}

        def change(add: Mapping[Acl, bytes], remove: Mapping[Acl, bytes]) -> None:
            for acl in remove:
                if acl in self.acls:
                    self.acls.remove(acl)
            for acl, acl_id in add.items():
                if acl not in self.acls:
                    self.acls.add(acl, acl_id)
            self.version += 1

        self.decisions.make(list(new), lambda: change(new, gone), lambda: change(gone, new))

    def alter_features(self, levels: Mapping[str, int], then: Callable[[], None]) -> None:
        """Change the levels of features, and then call `then`. If the change cannot be written to the metadata log, the change
        is undone. `then` is called in both cases."""
        held = self.configs.features
        before = {name: held[name] for name in levels}
        settings = {where: dict(given) for where, given in self.configs.dynamic.items()}
        if levels.get(ELIGIBLE_REPLICAS):
            self.configs.begin_eligible_replicas()

        def undo() -> None:
            held.update(before)
            self.configs.restore(settings)
            then()

        held.update(levels)
        self.version += 1
        changes = [FeatureRow(name, before[name], level) for name, level in levels.items() if level != before[name]]

        def done() -> None:
            then()
            for change in changes:
                self.report(change)

        self.decisions.made(undo, done)

    def alter_quotas(self, changes: Sequence[QuotaChange]) -> None:
        """Change client quotas. The change is undone if it cannot be written to the metadata log."""
        held = self.quotas.limits
        back = [(entity, key, held.get(entity, {}).get(key)) for entity, key, _ in changes]

        def change(to: Sequence[QuotaChange]) -> None:
            self.quotas.alter(to)
            self.version += 1

        self.decisions.make(changes, lambda: change(changes), lambda: change(back))

    def alter_scram(self, changes: Mapping[tuple[str, int], ScramCredential | None]) -> None:
        """Change SCRAM credentials; None removes a credential. The change is undone if it cannot be written to the metadata
        log."""
        before = {key: self.scram.get(key) for key in changes}
        self.decisions.make([name for name, _ in changes], lambda: self._set_scram(changes), lambda: self._set_scram(before))

    def _set_scram(self, credentials: Mapping[tuple[str, int], ScramCredential | None]) -> None:
        for key, credential in credentials.items():
            if credential is None:
                self.scram.pop(key, None)
            else:
                self.scram[key] = credential
        self.version += 1

    def alter_token(self, token_id: str, token: TokenImage | None) -> None:
        """Create or change a delegation token; None removes the token.

        The change is undone if it cannot be written to the metadata log.
        """
        held = self.tokens.by_id
        before = held.get(token_id)

        def change(to: TokenImage | None) -> None:
            if to is None:
                held.pop(token_id, None)
            else:
                held[token_id] = to
            self.version += 1

        self.decisions.make(token or (), lambda: change(token), lambda: change(before))

    def auto_create_topic(self, name: str, now: int) -> None:
        """Create a topic with the default settings after `auto_creation_ms`, if the creation can be written to the metadata
        log."""
        if not self.auto_creation_ms:
            self.create_default_topic(name, now)
        elif self._due.get(name, now) <= now:  # no creation is planned, or a restart has lost the timer
            self._due[name] = now + self.auto_creation_ms
            self.timers.at(self._due[name], lambda when: self.create_default_topic(name, when))

    def move_time(self, ms: int) -> None:
        """Move all stored times by `ms`, because the clock was moved by `ms`."""
        self._due = {name: when + ms for name, when in self._due.items()}
        self.decisions.move_time(ms)
        for partition in self.partitions():
            partition.move_time(ms)

    def create_default_topic(self, name: str, now: int, overrides: Mapping[str, str] | None = None) -> None:
        """Create a topic with the default counts now, if it does not exist and its creation can be written to the metadata
        log."""
        self._due.pop(name, None)
        if self.cannot_replicate(self.configs.integer("default.replication.factor")):
            return
        if name not in self.topics and name not in self.growing and not self.takes_name(name):
            with suppress(OSError):
                self.create_topic(name, now, overrides=overrides)
            self.decisions.write_down(now)

    def adding_partitions(
        self, topic: Topic, total: int, now: int, factor: int, assignment: Mapping[int, Sequence[int]] | None = None
    ) -> Generator[None, Any, None]:
        """Add partitions in slices, so that the topic has `total` partitions.

        Clients see all new partitions at the same moment. The first live replica of each partition becomes its leader.

        Like `creating_topic`, this method raises OSError and changes nothing if a log cannot be created.
        """
        before = len(topic.partitions)
        made = yield from self._growing(topic, total, now, factor, assignment)
        if self.topics.get(topic.name) is not topic:  # the topic was deleted in the meantime
            self._discard(made, now)
            return
        topic.partitions += made
        self.version += 1
        grown = TopicRow("grown", topic.name, total)
        self.decisions.made(lambda: self._shrink(topic, before, now), lambda: self.report(grown))

    def _growing(
        self, topic: Topic, total: int, now: int, factor: int, assignment: Mapping[int, Sequence[int]] | None
    ) -> Generator[None, Any, list[Partition]]:
        """Make the missing partitions of a topic, so that it has `total` partitions.

        If a broker starts or stops in the meantime, start over with another placement.
        """
        self.growing.add(topic.name)
        made: list[Partition] = []
        pause = pauses(GROWN)
        try:
            live: set[int] = set()
            while live != self.live_brokers.keys() or not made:
                self._discard(made, now)
                live = set(self.live_brokers)
                placed = {}
                for index in range(len(topic.partitions), total):
                    yield from pause()
                    placed[index] = (assignment or {}).get(index) or self._replicas(index, factor)
                for index, dirs in self.log_dirs.planned(topic.name, placed).items():
                    yield from pause()
                    made.append(self._placed_partition(topic, index, dirs, now))
        except BaseException:  # a log cannot be created, or the broker stops
            self._discard(made, now)
            raise
        finally:
            self.growing.discard(topic.name)
        return made

    def _replicas(self, index: int, factor: int) -> list[int]:
        """Returns the replicas of a new partition, as node ids."""
        usable = self.usable_brokers
        nodes = spread(broker for broker in usable.values() if broker.alive)
        start = index % max(len(nodes), 1)
        return (nodes[start:] + nodes[:start] + sorted(usable.keys() - nodes))[:factor]

    def _placed_partition(self, topic: Topic, index: int, dirs: Mapping[int, str], now: int) -> Partition:
        made = self._new_partition(topic, index, dirs, now)
        for node_id in self.offline(made):
            made.replication.absent(node_id, now)
        return made

    def _shrink(self, topic: Topic, count: int, now: int) -> None:
        """Remove the partitions with index `count` and higher, which no client has seen."""
        gone = topic.partitions[count:]
        del topic.partitions[count:]
        self.version += 1
        self._discard(gone, now)

    def _discard(self, partitions: list[Partition], now: int) -> None:
        for partition in partitions:
            self.log_dirs.forget(partition)
            partition.delete(now)
        partitions.clear()

    def _new_partition(self, topic: Topic, index: int, dirs: Mapping[int, str], now: int) -> Partition:
        log = self._open_log(topic, index, dirs, now)
        made = Partition(topic.name, index, list(dirs), topic.configs, self.rules, now, full_checks=self.full_checks, log=log)
        made.rolled = self.rolled
        self.log_dirs.enter(made, dirs)
        return made

    def restore_topic(
        self, name: str, topic_id: bytes, overrides: Mapping[str, str], partitions: Sequence[StoredPartition], now: int
    ) -> Topic:
        """Restore a topic that existed before the start. The first replica of each partition becomes its leader."""
        topic = Topic(name, topic_id, TopicConfigs(self.configs, overrides, held=overrides))
        for index, stored in enumerate(partitions):
            partition = self._new_partition(topic, index, stored.dirs, now)
            partition.new_leader_epoch(stored.leader_epoch + 1)
            topic.partitions.append(partition)
        self._enter(topic)
        self.topics_created += 1
        self.version += 1
        return topic

    def _enter(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        if "." in topic.name or "_" in topic.name:
            self._alike.setdefault(topic.name.replace(".", "_"), {})[topic.name] = None

    def _remove(self, topic: Topic) -> None:
        del self.topics[topic.name], self.topics_by_id[topic.topic_id]
        alike = topic.name.replace(".", "_")
        if alike in self._alike:
            self._alike[alike].pop(topic.name, None)
            if not self._alike[alike]:
                del self._alike[alike]

    def forget_topics(self, now: int) -> None:
        """Remove all topics of a new cluster. No client has seen these topics."""
        for topic in list(self.topics.values()):
            self._remove(topic)
            self._discard(topic.partitions, now)
        self._unloaded.clear()

    def topics_like(self, name: str) -> Iterable[str]:
        """Returns the topics whose names differ from this name only in '.' and '_'."""
        return self._alike.get(name.replace(".", "_"), ())

    def delete_topic(self, topic: Topic, now: int, then: Callable[[], None]) -> None:
        """Delete the topic with all its records. `then` is called when the deletion is in the metadata log."""
        self._remove(topic)
        self.version += 1

        def undo() -> None:
            self._enter(topic)
            self.version += 1

        def done() -> None:
            for partition in topic.partitions:
                self.last_epoch = max(self.last_epoch, partition.leader_epoch)
                self.log_dirs.forget(partition)
                partition.delete(now)
            self.report(TopicRow("deleted", topic.name, len(topic.partitions)))
            then()

        self.decisions.made(undo, done)

    def takes_name(self, name: str) -> bool:
        """Tells whether ZooKeeper has a topic with this name although no broker knows the topic."""
        return name in self.stillborn or name in self.deleting

    def keep_name(self, topic: Topic, now: int) -> None:
        """With ZooKeeper, no new topic can have the name of a deleted topic during the first `deletion_ms` after the
        deletion."""
        if self.deletion_ms and not FREES_NAMES.of(self.configs.release):

            def free(_: int) -> None:
                self.deleting.pop(topic.name, None)

            self.deleting[topic.name] = len(topic.partitions)
            self.timers.at(now + self.deletion_ms, free)

    def new_producer_id(self, node_id: int, now: int) -> int | None:
        """Returns the next id of the broker's block of producer ids. Returns None if the broker needs a new block, and the
        block cannot be written to the metadata log."""
        ids = self.producer_ids
        before = ids.next_block
        made = ids.allocate(node_id)
        if ids.next_block != before:
            self.decisions.made(lambda: ids.give_back(node_id, before), lambda: None)
            if self.decisions.write_down(now) is not None:
                return None
        return made

    def find_topic(self, name: str, topic_id: bytes) -> Topic | None:
        """Returns the topic with this id. If the id is zero, as in old versions of a request, returns the topic by name."""
        return self.topics.get(name) if topic_id == ZERO_UUID else self.topics_by_id.get(topic_id)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of the topic with this id, or None if the cluster has no such topic."""
        found = self.topics_by_id.get(topic_id)
        return found.name if found else None

    def partition(self, topic: str, index: int) -> Partition | None:
        """Returns the partition, or None if the cluster has no such partition."""
        found = self.topics.get(topic)
        return found.partition(index) if found else None

    def no_partition(self, topic: str, index: int) -> str:
        """Returns a sentence about a partition that does not exist."""
        advice = "" if topic in self.topics else did_you_mean(topic, self.topics)
        return f"there is no partition {topic}-{index}{advice}"

    def become(self, rules: Rules) -> None:
        """Use the rules and the behaviour of another release. From now on all brokers run this release."""
        self.rules = rules
        self.configs.become(release(rules.release))
        self.acls.networks = HOSTS_ARE_NETWORKS.of(self.configs.release)
        for partition in self.partitions():
            partition.become(rules)
        self.version += 1

    def partitions(self) -> Iterator[Partition]:
        """Yields every partition of every topic."""
        for topic in self.topics.values():
            yield from topic.partitions

    def coordinator_logs(self) -> Iterator[Partition]:
        """Yields every partition of the coordinators' topics."""
        for name in COORDINATOR_TOPICS.values():
            if (topic := self.topics.get(name)) is not None:
                yield from topic.partitions

    def coordinator_partition(self, kind: str, key: str) -> int | None:
        """Returns the index of the coordinators' partition for this key, or None if the coordinators' topic does not exist."""
        topic = self.topics.get(COORDINATOR_TOPICS[kind])
        return abs_hash(key) % len(topic.partitions) if topic else None

    def coordinator(self, kind: str, key: str) -> int | None:
        """Returns the broker that coordinates the key, or None if no broker does. The key is a group id (`kind` is "group"), a
        transactional id ("transaction") or the key of a share partition ("share").
        """
        log = self.coordinator_log(kind, key)
        return log.leader if log is not None and log.leader != NO_LEADER else None

    def coordinator_log(self, kind: str, key: str) -> Partition | None:
        """Returns the coordinators' partition for this key, or None if the coordinators' topic does not exist."""
        index = self.coordinator_partition(kind, key)
        return None if index is None else self.partition(COORDINATOR_TOPICS[kind], index)

    def coordinator_log_error(self, kind: str, key: str) -> ErrorCode:
        """Returns COORDINATOR_NOT_AVAILABLE if the coordinator's log has no leader or too few in-sync replicas: then the
        coordinator cannot write. Otherwise returns NONE."""
        log = self.coordinator_log(kind, key)
        unavailable = log is not None and (log.leader == NO_LEADER or log.replication.too_few)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if unavailable else ErrorCode.NONE

    def coordinator_error(self, kind: str, key: str, node_id: int) -> ErrorCode:
        """Returns NOT_COORDINATOR if this broker does not coordinate the key, else NONE. After the creation of a coordinators'
        topic, the coordinators load: the first request in this time also gets NOT_COORDINATOR."""
        if self.coordinator(kind, key) != node_id:
            return ErrorCode.NOT_COORDINATOR
        topic = COORDINATOR_TOPICS[kind]
        if topic in self._unloaded:
            self._unloaded.remove(topic)
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def create_internal_topic(self, name: str, now: int) -> Topic:
        """Create a coordinators' topic.

        Raises ConfigError if the settings do not allow this topic, or if no broker can have a replica.
        """
        if why := self.cannot_replicate(1):
            raise ConfigError(why)
        prefix = SETTINGS_OF[name]
        factor = min(self.configs.integer(f"{prefix}.replication.factor"), len(self.registered_brokers))
        overrides = {"cleanup.policy": "compact", "compression.type": "producer"}
        if name == TRANSACTION_TOPIC:
            overrides |= {"compression.type": "uncompressed", "unclean.leader.election.enable": "false"}
            overrides["min.insync.replicas"] = str(self.configs.value("transaction.state.log.min.isr"))
        if name == SHARE_TOPIC:
            overrides |= {"cleanup.policy": "delete", "retention.ms": "-1"}
            overrides["min.insync.replicas"] = str(self.configs.value("share.coordinator.state.topic.min.isr"))
        overrides["segment.bytes"] = str(self.configs.value(f"{prefix}.segment.bytes"))
        count = self.configs.integer(f"{prefix}.num.partitions")
        if self.cold_start and name != SHARE_TOPIC and not self.configs.release.has_zookeeper:
            self._unloaded.add(name)
            if self.loading_ms:
                self.timers.at(now + self.loading_ms, lambda now: self._unloaded.discard(name))
        return self.create_topic(name, now, partitions=count, replication_factor=factor, overrides=overrides)

    def warm(self, now: int) -> None:
        """Create the coordinators' topics that do not exist, and mark all coordinators as loaded, so that they respond without
        delay.

        Raises ConfigError in the same cases as `create_internal_topic`.
        """
        for name in SETTINGS_OF:
            if name not in self.topics:
                self.create_internal_topic(name, now)
        self._unloaded.clear()

    def _new_topic_id(self) -> bytes:
        while True:
            made = new_uuid(self.random_bytes)
            if made not in self.topics_by_id and any(made):
                return made
