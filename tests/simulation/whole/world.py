"""An engine, its clients, its disk and the time. `play` does one step, and then checks the conditions that must always hold."""

from __future__ import annotations

import logging
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import pytest

from diskkit import Disk, Failure
from fuzzing.script import Finding
from fuzzing.world import folder
from kafka_model.history import Act, Exchange, Tap
from kafkawire.declare import Message
from kafkawire.disk.damage import DataError
from kafkawire.errors import EncodeError, ProtocolError
from kafkawire.frames import decode_response, encode_request
from kafkawire.registry import KEYS, api_name
from random_dialogues import logins
from random_dialogues.replay import Ask
from simulation.whole import holding
from simulation.whole.acts import ACTS, IMPOSSIBLE, NEVER_LACK, STARTS
from simulation.whole.agreeing import periodic_work, unchanged, undoable, without_faults
from simulation.whole.answering import complete
from simulation.whole.asking import ALL_COMPACTED, TOPICS, Asked, Speaker
from simulation.whole.describing import described, look
from simulation.whole.done import BROKER, SELDOM, Done, Key
from simulation.whole.following import Following
from simulation.whole.kinds import NO_CHANGE
from simulation.whole.pairs import Met
from simulation.whole.permitting import Rights
from simulation.whole.reading import Readers
from simulation.whole.remembering import as_logged
from simulation.whole.schedule import Setting, Step
from simulation.whole.sessions import Sessions
from simulation.whole.sharing import Sharing
from simulation.whole.shown import shown
from simulation.whole.things import CLUSTER, Things, things_of
from simulation.whole.throttling import Limits
from simulation.whole.watching import Watch, place
from wirebroker.apis import fetch, offset_commits
from wirebroker.common import slices
from wirebroker.core import controller
from wirebroker.core.cluster import GROUP_TOPIC, TRANSACTION_TOPIC
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.groups import offset_manager
from wirebroker.core.partition import Partition
from wirebroker.engine import engine as wirebroker_engine
from wirebroker.engine.engine import Engine
from wirebroker.engine.snapshots import Snapshot
from wirebroker.net.host import STEP_MS
from wirebroker.requests.connection import CLOSED, Connection
from wirebroker.requests.effects import AdvanceClock, Close, Effect, Respond, Shaped
from wirebroker.security.principals import Principal
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.security.scram import ScramCredential
from wirebroker.storage.inspection import Inspection
from wirebroker.testing.options import BrokerOptions

LOGGER = logging.getLogger("wirebroker")
START = 1_800_000_000_000
CONNECTIONS = 5
USERS = {3: "alice", 4: "admin"}
"""The connections whose users are logged in. Without an authorizer, alice may do everything."""
T = TypeVar("T")
SETTINGS = {
    "offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2", "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2", "delegation.token.secret.key": "secret", "num.partitions": "2",
    "transactional.id.expiration.ms": "604800000", "offsets.retention.minutes": "10080",
    "delegation.token.expiry.time.ms": "3600000", "connection.failed.authentication.delay.ms": "100",
    "connections.max.reauth.ms": "120000",
}  # fmt: skip
SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin", "allow.everyone.if.no.acl.found": "true",
}  # fmt: skip
COMPACTED_EACH = 4
"""If this is n, every n-th schedule has more compacted topics."""
SHORT_RETENTION_EACH = 3
"""If this is n, offsets expire after a minute in every n-th schedule."""
FEW_SESSIONS_EACH = 5
"""If this is n, a broker keeps at most two fetch sessions in every n-th schedule."""
FEW_DELIVERIES_EACH = 2
"""If this is n, share groups deliver each record at most twice in every n-th schedule."""
JOBS_WAIT_EACH = 2
"""If this is n, the jobs of threads wait in every n-th schedule."""
JUDGED_MS = 3 * 86_400_000
"""After this time in ms, the model of Kafka's rules stops judging."""
FAULTY = 4
"""A fault stays loaded for this many steps."""
SLICES = (1, 1, 3)
"""If long requests run in slices, a schedule runs this many of them between two steps: one or the other number."""
QUICK_TIMERS = 6
"""If long work runs in slices, this many slices of timers' work run after each slice of a request, in every second schedule. A
slice of a server ends after some elements, which may be many offsets of a timer's work and few of a request's."""

MOST_JOBS = 100
"""At most this many jobs wait for threads, also while the clock moves by a month."""
UNWRITTEN = "the change cannot be written"
"""A broker may close a connection if it could not carry out the client's request. The reason then contains this text."""
CHANGING_OFFSETS = ("OffsetCommit", "TxnOffsetCommit", "EndTxn", "OffsetDelete", "DeleteGroups", "DeleteTopics", "CreateTopics")
"""Requests after which other offsets may be committed. One whose client left may still be carried out."""
LEAVING, LEAVING_SLICED = 0.04, 0.2
"""The probability that a client leaves before its request has a response. The second value is used if requests run in
slices.
"""
LEAVING_AT_WAIT = 0.5
"""If requests run in slices, the probability that a client which leaves does so when its request begins to wait."""
MANY = (
    (slices, "TOPICS", 1), (fetch, "FEW", 0), (fetch, "READ", 1), (offset_commits, "SLICE", 1), (offset_manager, "SLICE", 1),
    (controller, "CHANGED", 1), (wirebroker_engine, "FEW_ELEMENTS", 4),
)  # fmt: skip
"""If requests run in slices: the numbers of elements from which on work is long, in place of the broker's numbers."""
LONGEST_SLICED = 24
"""At most this many slices run before a client leaves."""

FIRST: dict[Any, dict[Key, Any]] = {}
"""The facts of a new cluster, without facts about topics. The key has the settings that determine these facts."""


@dataclass(eq=False)
class Sent:
    """A request on its way."""

    number: int
    asked: Asked
    version: int
    node: int
    at: int
    answered_at: int = -1
    response: Message | None = None
    ended: int = 1 << 30
    """The number of requests that had been sent when this request got its response."""
    size: int = 0
    """The number of bytes of the request."""
    late: bool = False
    """Tells whether the client's session had ended when the request was sent."""
    faulty: bool = False
    """Tells whether faults were loaded when the request was sent. A fault can delay the response."""
    lacking: frozenset[tuple[str, int]] = frozenset()
    """The partitions that have too few in-sync replicas for acks=all when a Produce is sent."""
    rights: Rights | None = None
    limits: Limits | None = None

    @property
    def api(self) -> str:
        return self.asked.ask.api

    @property
    def request(self) -> Any:
        return self.asked.message

    def __str__(self) -> str:
        return f"{self.api} v{self.version}"


@dataclass(eq=False)
class Link:
    """A client's connection to one broker."""

    number: int
    node: int
    connection: Connection
    arrived: deque[bytes] = field(default_factory=deque)
    awaited: deque[Sent] = field(default_factory=deque)
    answers: list[bytes] | None = None
    """The responses to an administrator, or None if the connection belongs to a client."""
    login: tuple[ScramCredential | None] | None = None
    """The credential of the connection's user when its SCRAM dialogue began; None if this was not seen."""


class Judging(Tap):
    """Records the history of an engine until `stop` is called."""

    def mark(self) -> tuple[int, int]:
        """Returns the number of entries in the history, and the number of the last request or response."""
        return len(self.history), self._count

    def stop(self, mark: tuple[int, int]) -> None:
        """Stop recording, and keep only the requests and responses up to a mark."""
        kept, self.history = self.history, []
        entries, last = mark
        del kept[entries:]
        for each in kept:
            if isinstance(each, Exchange) and each.answered > last:
                each.response, each.answered = None, -1
        self._waiting.clear()


class Where(NamedTuple):
    """A client's number and the broker to which it is connected."""

    number: int
    node: int


class World:
    """The world of one schedule. `close` removes its directory."""

    def __init__(self, setting: Setting, met: Met | None = None) -> None:
        self.setting, self.began, self.now = setting, START, START
        self.links: dict[Where, Link] = {}
        self.log: list[str] = []
        self.history: list[Sent] = []
        self.sent_at_last_leave = 0
        """The number of requests that were sent before a client last left."""
        """All requests, in the order in which they were sent."""
        self.judged: list[Exchange | Act] = []
        """The requests that the model of Kafka's rules judges. It judges all requests until something breaks or a test changes
        the state.
        """
        self.judging: Judging | None = None
        self.snapshot: Snapshot | None = None
        self.kept: dict[Key, Any] = {}
        """The state that the brokers described at the time of the snapshot."""
        self.at_repair: list[Callable[[], object]] = []
        """The functions that repair what acts have broken."""
        self.expects_closes = self.disk_failed = self.disk_had_failed = self.forgot_transactions = False
        self.coordinator_log_had_failed = False
        self.learns_again = False
        """Tells whether the brokers went back to an earlier state, so that the world must learn the facts again."""
        self._kind = ""
        """The kind of the present step. If a subject has sent a request of another kind than the step's kind, this is the kind
        of the request."""
        self._faulty = 0
        self.names: dict[bytes, str] = {}
        """The names of all topics by id, including deleted topics."""
        self.following = Following()
        self.sessions, self.readers, self.sharing = Sessions(), Readers(), Sharing()
        self.done = Done(self)
        self.met = met or Met()
        self.watch = Watch()
        self._by_connection: dict[Connection, Link] = {}
        self._patch = pytest.MonkeyPatch()
        self._level = LOGGER.level
        LOGGER.setLevel(logging.WARNING)
        if setting.sliced and not setting.planned:
            self._shorten_slices()
        if setting.data and setting.seed % 4 == 1:  # as in a large directory, a start reads only the ends of the files
            self._patch.setattr(Inspection, "takes", lambda *_: False)
        self._folder: Path | None = folder() if setting.data else None
        self.disk = None if self._folder is None else Disk(self._folder, self._patch)
        self.jobs_wait = setting.seed % JOBS_WAIT_EACH == 0
        """Tells whether the jobs of threads run only before the next step. A kill may come first."""
        self.timer_slices = QUICK_TIMERS if setting.seed % 2 else 1
        self._profile = setting.release
        self.engine = self.new_engine(first=True)
        self.periodic = periodic_work(self.engine)
        self.speaker = Speaker(setting)
        self._learn_topics()

    def new_engine(self, *, first: bool = False) -> Engine:
        """Returns an engine with the setting's options. If there is a data directory, the engine loads it. The first engine has
        the topics that exist at the beginning."""
        setting = self.setting
        topics = TOPICS if setting.judged or setting.seed % COMPACTED_EACH else TOPICS | ALL_COMPACTED
        options = BrokerOptions(
            random_seed=setting.seed, brokers=setting.brokers, warm=setting.warm, telemetry=True,
            data=self.data_directories or None, sync=setting.sync,  # type: ignore[arg-type]
            trace="exchanges" if setting.traced else "off", profile=self._profile or None,  # type: ignore[arg-type]
            configs=self._configs(),
            users={logins.USER: logins.PASSWORD} if setting.secured else None,
            topics={
                name: {"partitions": 2, "replication_factor": setting.brokers, "configs": configs}
                for name, configs in (topics.items() if first else ())
            },
        )  # fmt: skip
        engine = options.new_engine(self.now)
        if setting.judged and first and not setting.sliced:
            self.judging = Judging(engine)
            self.judged = self.judging.history
        if setting.sliced:
            engine.turns.wake = _nothing
            engine.timers.in_slices = not setting.planned
        return engine

    @property
    def data_directories(self) -> list[Path]:
        """The data directories: one or two, or none for a cluster in memory."""
        if self._folder is None:
            return []
        return [self._folder / "data", *([self._folder / "more"] if self.setting.seed % 2 else [])]

    def _shorten_slices(self) -> None:
        """Makes each slice of long work end after one element, because the lists in this world are short."""
        pattern = slices._pattern
        self._patch.setattr(slices, "_pattern", lambda _: pattern(1))
        for function in (slices.weighted_pauses, slices.sliced):
            self._patch.setattr(function, "__defaults__", (1,))
        for module, name, most in MANY:
            self._patch.setattr(module, name, most)

    def _configs(self) -> dict[str, str]:
        setting = self.setting
        configs = SETTINGS | (SECURED if setting.secured else {}) | ({} if setting.data else {"log.dirs": "/a,/b"})
        if setting.seed % SHORT_RETENTION_EACH == 1:
            configs |= {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "5000"}
        if setting.seed % FEW_DELIVERIES_EACH == 1 and not setting.release:
            configs |= {"group.share.delivery.count.limit": "2"}
        if setting.seed % FEW_SESSIONS_EACH == 1:
            configs |= {"max.incremental.fetch.session.cache.slots": "2"}
        if setting.brokers > 1 and setting.seed % 3 == 0:  # records wait for a second replica
            configs |= {"min.insync.replicas": "2"}
        return configs

    def _learn_topics(self) -> None:
        for topic in self.engine.cluster.topics.values():
            self.speaker.symbols.topic(topic.name, topic.topic_id)
            self.done.topic_exists(topic)
        where = str(self._configs()), self.setting.brokers, self.setting.release, self.setting.seed % SELDOM
        if where not in FIRST:
            FIRST[where] = {key: value for key, value in shown(self).items() if key[0] in ("scram", "acl") or key[1] == BROKER}
        for key, value in FIRST[where].items():
            self.done.set(key, value)

    def close(self) -> None:
        """Closes everything."""
        self.watch.close()
        self._patch.undo()
        LOGGER.setLevel(self._level)
        if self.engine.store is not None:
            with suppress(OSError):
                self.engine.store.abandon()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def say(self, text: str) -> None:
        """Adds a line to the log, which is printed if the schedule fails."""
        self.log.append(f"{(self.now - self.began) / 1000:>12.3f}  {text}")

    @staticmethod
    def pick(chance: Random, among: Sequence[T]) -> T:
        """Chooses an element of `among` by its hash. If an element that was not chosen is missing, the choice stays the
        same.
        """
        if not among:
            raise LookupError("there is nothing to choose from")
        salt = chance.getrandbits(32)
        return min(among, key=lambda each: crc32(f"{salt} {each}".encode()))

    # Steps

    def play(self, step: Step) -> None:
        """Do one step, and check the conditions that must always hold. Raises Finding."""
        chance = Random(step.seed)
        self.expects_closes = False
        self._faulty = self._faulty + 1 if self.engine.faults is not None else 0
        if self._faulty > FAULTY:
            self.clear_faults()
        self._kind = step.kind
        if step.kind not in STARTS:
            self.run_jobs()
        if self.learns_again and not (self.in_progress or self.in_trouble or self.engine.timers.is_due(self.now)):
            self.learns_again = False
            self.done.learn_again(shown(self))
        full = self._full_disk()
        before = undoable(self.engine.cluster) if full else {}
        mark, trouble = self.judging.mark() if self.judging else (0, 0), self.in_trouble
        ends = {each: (each.leader_epoch, each.log_end_offset) for each in self.engine.cluster.coordinator_logs()}
        began = self.now
        with self.watch.guarding(step.kind, lenient=trouble):
            if step.kind in ACTS:
                things = self._act(step.kind, chance)
            else:
                things = self._ask(step.kind, chance)
            self.settle(chance.choice(SLICES))
        if full and self._full_disk() is full:
            unchanged(self.engine.cluster, before)
        logs = [each for each in self.engine.cluster.coordinator_logs() if each in ends]
        lost = [each for each in logs if _lost_records(each, *ends[each])]
        if lost:  # by an unclean election: as in Kafka, the coordinators forget what only these records said
            self.done.vague.add("offset")
            # If a log of groups has lost the marker of a transaction, the transaction's offsets stay pending, as in Kafka.
            forgetful = any(each.topic in (GROUP_TOPIC, TRANSACTION_TOPIC) for each in lost)
            self.forgot_transactions = self.forgot_transactions or forgetful
            self.following.forget_offsets()
        moved = [each for each in logs if each.leader_epoch != ends[each][0] and each.leader != NO_LEADER]
        # If time has passed, the coordinators may know what no record tells, such as a rebalance.
        if moved and not self.in_progress and self.now == began:
            as_logged(self, moved)
        if moved and self.judging:
            self.judging.act("broker")
        changed = lost or (step.kind in ACTS and step.kind not in NO_CHANGE)
        if self.judging and (trouble or changed or self.now - self.began > JUDGED_MS):
            self.judging.stop(mark)
            self.judging = None
        fired = self.watch.take_fired()
        done = [] if things is None else [(self._kind, things)]
        self.met.note(done + [(f"timer: {name}", frozenset({CLUSTER})) for name in fired])
        with self.watch.guarding(step.kind, lenient=True):
            holding.after_step(self, fired)
            look(self, Random(f"look {step.seed}"))

    @property
    def in_trouble(self) -> bool:
        """Tells whether the disk has failed or faults are loaded. Then the broker logs errors and closes connections."""
        return self.disk_failed or self.engine.faults is not None or bool(self.at_repair)

    def _full_disk(self) -> Failure | None:
        """Returns the failure that keeps the brokers from writing anything, or None. A change that is made in slices may be
        written later. An upgrade changes features and settings before they are written."""
        failure = None if self.disk is None else self.disk.failure
        changing = self.in_progress or self.setting.release or self.engine.cluster.decisions.pending
        return None if failure is None or changing or not failure.stays else failure

    def _act(self, kind: str, chance: Random) -> Things | None:
        begun = len(self.log)
        try:
            self.run_overdue()
            things = ACTS[kind](self, chance)
        except IMPOSSIBLE as why:
            wrong = isinstance(why, EncodeError | ProtocolError) or (isinstance(why, LookupError) and kind in NEVER_LACK)
            wrong = wrong or (isinstance(why, OSError) and kind in STARTS)
            if wrong or kind.startswith("clock: "):
                raise
            self.say(f"{kind}: impossible, {type(why).__name__} {why}")
            return None
        if len(self.log) == begun:
            self.say(kind)
        return things

    def _free(self, api: str, chance: Random) -> list[int]:
        """Returns the connections that may send a request of this API, in a random order."""
        busy = {link.number for link in self.links.values() if link.awaited}
        free = [number for number in range(CONNECTIONS) if number not in busy]
        if api.startswith("Sasl") and logins.CONNECTION in busy:
            return []
        free += [number for number in self._logged_in() if number not in busy]
        if "Token" in api:
            free = [number for number in free if number in USERS]
        chance.shuffle(free)
        return free

    def _ask(self, api: str, chance: Random) -> Things | None:
        free = self._free(api, chance)
        if not free:
            return None
        asked = self.speaker.ask(api, chance, free, self.now)
        if asked is None:
            return None
        node = self._node_for(asked.message, chance)
        known = [where.node for where in self.links if where.number == logins.CONNECTION]
        if asked.ask.connection == logins.CONNECTION and known:
            node = known[0]
        if node is None:
            return None
        link = self._link(asked.ask.connection, node)
        oldest, newest = link.connection.versions.get(KEYS[asked.ask.api], (0, -1))
        if not oldest <= asked.ask.version <= newest:
            return None
        if not self.setting.planned:
            self._inform(asked.message, chance)
            if asked.ask.api == "Fetch" and chance.random() < 0.5:
                self.readers.update(self, node, asked.message, asked.ask.version, chance)
        sent = Sent(len(self.history), asked, asked.ask.version, node, self.now)
        self.say(f"[{link.number}→{node}] {sent} {asked.ask.body}")
        try:
            frame = encode_request(sent.number, "c", asked.message, sent.version)[4:]
        except EncodeError:
            return None
        sent.size = len(frame)
        holding.sent(self, link, sent)
        self.history.append(sent)
        self.sessions.sent(sent)
        self._kind = sent.api
        self.readers.sent(self, sent)
        link.arrived.append(frame)
        link.awaited.append(sent)
        self.names |= {topic.topic_id: topic.name for topic in self.engine.cluster.topics.values()}
        leaving = LEAVING_SLICED if self.setting.sliced else LEAVING
        if not (self.judging or self.setting.planned) and chance.random() < leaving:
            slices = chance.randint(0, LONGEST_SLICED)
            if self.setting.sliced and chance.random() < LEAVING_AT_WAIT:
                self._until_it_waits(link, chance.randint(0, 2))
            else:
                self.settle(slices)
            if self.links.get(Where(link.number, link.node)) is link:
                self.say(f"[{link.number}→{node}] leaves")
                self.leave(Where(link.number, link.node))
        return things_of(sent.api, asked.message, self.names)

    def _until_it_waits(self, link: Link, more: int) -> None:
        """Runs slices until a request begins to wait, and then this many more slices."""
        for _ in range(4 * LONGEST_SLICED):
            self.settle(1)
            if getattr(link.connection.parked, "abandon", None) is not None or not self.requests_in_progress:
                break
        self.settle(more)

    def _inform(self, request: Any, chance: Random) -> None:
        """Changes a request: in most cases, sets its leader epochs to the present leader epochs. Also replaces the paths of
        directories by paths that exist.
        """
        if self.setting.data:
            for number, directory in enumerate(getattr(request, "dirs", ())):
                paths = self.engine.cluster.log_dirs.paths(min(self.engine.cluster.brokers))
                directory.path = paths[(number + chance.randrange(2)) % len(paths)]
        for topic in getattr(request, "topics", None) or ():
            name = getattr(topic, "topic", None) or getattr(topic, "name", None)
            found = self.engine.cluster.topics.get(name or "") or self.engine.cluster.topics_by_id.get(
                bytes(getattr(topic, "topic_id", b"") or b"")
            )
            for part in getattr(topic, "partitions", None) or ():
                if found is not None and getattr(part, "current_leader_epoch", -1) >= 0 and chance.random() < 0.7:
                    partition = found.partition(getattr(part, "partition", getattr(part, "partition_index", 0)))
                    part.current_leader_epoch = partition.leader_epoch if partition else 0

    def _logged_in(self) -> list[int]:
        """Returns the numbers of the connections that have logged in by SASL."""
        return [link.number for link in self.links.values() if link.connection.session.mechanism]

    def _node_for(self, request: Any, chance: Random) -> int | None:
        """Returns the broker to which a client would send the request, or in some cases another broker. Returns None if all
        brokers are down.
        """
        cluster = self.engine.cluster
        live = sorted(cluster.live_brokers)
        if not live:
            return None
        wanted = None
        if chance.random() > 0.1 and len(cluster.brokers) > 1:
            wanted = self.sessions.node_of(request) or self._leader(request)
        return wanted if wanted in live else self.pick(chance, live)

    def _leader(self, request: Any) -> int | None:
        cluster = self.engine.cluster
        for name, kind in (("transactional_id", "transaction"), ("group_id", "group")):
            if (key := getattr(request, name, None)) and not hasattr(request, "share_session_epoch"):
                if name == "transactional_id" and hasattr(request, "acks"):
                    continue
                with suppress(LookupError, ValueError):
                    return cluster.coordinator(kind, key)  # type: ignore[arg-type]
        for topics in ("topics", "topic_data"):
            for topic in (getattr(request, topics, None) or ())[:1]:
                found = cluster.topics.get(getattr(topic, "name", None) or getattr(topic, "topic", None) or "")
                found = found or cluster.topics_by_id.get(bytes(getattr(topic, "topic_id", b"") or b""))
                for part in (getattr(topic, "partitions", None) or getattr(topic, "partition_data", None) or ())[:1]:
                    index = getattr(part, "partition", getattr(part, "partition_index", getattr(part, "index", 0)))
                    partition = found and found.partition(index if isinstance(index, int) else 0)
                    return partition.leader if partition else None
        return None

    def _link(self, number: int, node: int) -> Link:
        where = Where(number, node)
        link = self.links.get(where)
        if link is None:
            sasl = SecurityProtocol.SASL_PLAINTEXT if number == logins.CONNECTION else SecurityProtocol.PLAINTEXT
            connection = self.engine.connect(node, now=self.now, listener=sasl.name, protocol=sasl)
            if (user := USERS.get(number)) is not None:
                self._log_in(connection, user)
            link = self.links[where] = self._by_connection[connection] = Link(number, node, connection)
        return link

    @staticmethod
    def _log_in(connection: Connection, user: str) -> None:
        connection.session.principal = Principal("User", user)
        connection.session.protocol = SecurityProtocol.SASL_PLAINTEXT

    def leave(self, where: Where) -> None:
        """Close a connection as its client."""
        link = self.links.pop(where)
        self.engine.disconnected(link.connection, now=self.now)
        self._gone(link)

    def _gone(self, link: Link) -> None:
        self.sent_at_last_leave = len(self.history)
        self._by_connection.pop(link.connection, None)
        if self.links.get(Where(link.number, link.node)) is link:
            del self.links[Where(link.number, link.node)]
        for sent in link.awaited:
            self._unjudged(sent)
            self.done.perhaps(sent.api, sent.request, sent.version)
            self.speaker.hear(sent.asked, link.number, None)

    def forget_links(self) -> None:
        """Remember that all connections are lost."""
        for link in list(self.links.values()):
            self._gone(link)

    # The time

    @property
    def requests_in_progress(self) -> bool:
        """Whether a request has slices left, or work for a thread."""
        return bool(self.engine.turns.waiting or self.engine.turns.offloads)

    @property
    def in_progress(self) -> bool:
        """Whether work of a request or of a timer has slices left."""
        return self.requests_in_progress or self.engine.timers.busy

    def advance(self, ms: int) -> None:
        """Move the clock forward. The clients get the responses that the engine sends meanwhile."""
        self.say(f"{ms} ms pass")
        self._tick(self.now + ms)

    def advance_in_slices(self, ms: int, *, moved: bool) -> None:
        """Let time pass, or move the clock if `moved` is true. Timers that become due in the last hour of this time do not run
        yet. They run in the next steps, as in a server whose timers take long. A server, too, handles requests after each hour
        of a move."""
        self.say(f"{ms} ms pass")
        self.settle()
        if ms > STEP_MS:
            self._tick(self.now + ms - STEP_MS)
        if moved:
            self.engine.timers.begin_move()
        self.now += min(ms, STEP_MS)

    def _tick(self, now: int) -> None:
        self.now = now
        self.engine.tick(now)
        self.settle()

    def run_overdue(self) -> None:
        """Run the due timers, as a server does before it handles a request or a deed. Do nothing while the clock is being
        moved.
        """
        timers = self.engine.timers
        if timers.in_slices and not timers._moves and timers.is_due(self.now):
            self.engine.tick(self.now, lambda: not timers.is_due(self.now))
            self._perform()

    def settle(self, slices: int = 1 << 30) -> None:
        """Pass the requests that have arrived to the engine, and take its responses, until nothing changes or `slices` slices
        have run."""
        moved = True
        self._perform()
        while moved:
            moved = False
            for link in list(self.links.values()):
                while link.arrived and link.connection.parked is None and link.connection.state is not CLOSED:
                    moved = True
                    self.run_overdue()
                    self.engine.receive(link.connection, memoryview(bytearray(link.arrived.popleft())), self.now)
                    self._perform()
                self._without_response(link)
            if slices > 0 and (ran := self._run_slices()):
                slices -= ran
                moved = True
            if moved:
                self._perform()

    def _run_slices(self) -> int:
        """First runs the next slice of a request, or its work for a thread. Then runs the next slices of timers' work, or the
        next timers. Returns 0, 1 or 2: how many of the two ran."""
        turns, timers, ran = self.engine.turns, self.engine.timers, 0
        if turns.offloads:
            unfinished, offload = turns.offloads.popleft()
            unfinished.do(offload)
            turns.resume(unfinished)
            ran += 1
        elif turns.waiting:
            turns.proceed()
            ran += 1
        for number in range(self.timer_slices):
            if not (timers.in_slices and (timers.busy or timers.is_due(self.now))):
                timers.end_move()
                break
            self._perform()
            self.engine.tick(self.now, lambda: True)
            ran += number == 0
        return ran

    def _without_response(self, link: Link) -> None:
        """Notes that the broker has handled the requests with acks=0."""
        while link.awaited and not link.arrived and link.connection.parked is None:
            if getattr(link.awaited[0].request, "acks", 1) != 0:
                break
            self._answered(link, None)

    def _perform(self) -> None:
        engine, store = self.engine, self.engine.store
        if engine.cluster.decisions.pending:
            engine.cluster.decisions.write_down(self.now)
        if store is not None:
            self._sync()
        moves = 0
        for effect in engine.take_effects():
            moves += self._effect(effect)
        if not self.jobs_wait:
            self.run_jobs()
        if moves:
            self._tick(self.now + moves)

    def run_jobs(self) -> None:
        """Runs the jobs that the server gives to threads."""
        store = self.engine.store
        if store is not None and len(store.jobs) > MOST_JOBS:
            raise Finding("jobs for threads pile up", str(len(store.jobs)))
        while store is not None and store.jobs:
            try:
                store.run_jobs()
            except DataError:
                raise
            except OSError as failure:  # the later jobs still run, as in the server (`StorageJobs`)
                store.failed(failure)

    def _sync(self) -> None:
        """If `sync` is "always", syncs the logs, and closes the connections whose records cannot be synced."""
        engine, store = self.engine, self.engine.store
        if store is None or not store.holds_responses or (job := store.sync_now()) is None:
            return
        held = engine.take_effects()
        try:
            job.work()
        except OSError:
            job.failed()
            for connection in {effect.connection for effect in held}:
                engine.close(connection, "it cannot be synced")
            held = [effect for effect in held if isinstance(effect, Close)]
        else:
            job.done()
        engine.effects[:0] = held

    def _effect(self, effect: Effect) -> int:
        link = self._by_connection.get(effect.connection)
        if isinstance(effect, AdvanceClock):
            return effect.ms
        if link is None:
            return 0
        if link.answers is not None:
            if isinstance(effect, Close):
                raise Finding("an administrator's connection is closed", effect.reason)
            link.answers.append(b"".join(effect.parts))
        elif isinstance(effect, Shaped) and (effect.shape.cut is not None or effect.shape.flipped):
            self.leave(Where(link.number, link.node))
        elif isinstance(effect, Respond | Shaped):
            if effect.parts:
                holding.acknowledged(self)
                self._answered(link, b"".join(effect.parts))
        elif isinstance(effect, Close):
            sent = link.awaited[0] if link.awaited else None
            holding.closed(self, sent, effect.reason)
            if sent is not None and UNWRITTEN in effect.reason and not self.setting.sliced:
                self._answered(link, None, done=False)
            self._gone(link)
        return 0

    def _answered(self, link: Link, raw: bytes | None, *, done: bool = True) -> None:
        if not link.awaited:
            raise Finding("a response without a request", (raw or b"")[:60].hex())
        sent = link.awaited.popleft()
        sent.answered_at, sent.ended = self.now, len(self.history) - 1
        if raw is None:
            self._unjudged(sent)
            if done:
                self.done.perhaps(sent.api, sent.request, sent.version)
            self.speaker.hear(sent.asked, link.number, None)
            return
        try:
            correlation, sent.response = decode_response(raw[4:], KEYS[sent.api], sent.version)
        except ProtocolError as wrong:
            raise Finding(f"{sent}: a response that cannot be read", f"{wrong}: {raw[:200].hex()}") from None
        if correlation != sent.number:
            raise Finding(f"{sent}: a response to another request", str(correlation))
        if self.in_trouble:
            self._unjudged(sent)
        else:
            self.sessions.answered(sent, sent.response)
            holding.authenticated(self, link, sent, sent.response)
            holding.served(self, link, sent, len(raw))
            self.readers.answered(self, sent, sent.response)
            complete(sent, sent.response)
            described(self, link, sent)
        if self.engine.faults is None:
            self.done.alone = not self.setting.sliced or self._alone(sent)
            self.done.learn(sent.api, sent.request, sent.response, sent.version)
        else:
            self.done.perhaps(sent.api, sent.request, sent.version)
        self.speaker.hear(sent.asked, link.number, sent.response)

    def _alone(self, sent: Sent) -> bool:
        """Tells whether no other request that may change offsets was on its way at the same time as this request."""
        others = [each for each in self.history[sent.number + 1 :] if each.api in CHANGING_OFFSETS]
        before = [each for each in self.history[: sent.number] if each.api in CHANGING_OFFSETS and each.ended >= sent.number]
        return not (others or before)

    def _unjudged(self, sent: Sent) -> None:
        self.sessions.lost(sent)
        self.readers.lost(sent)

    # Repair

    def clear_faults(self) -> None:
        """Unload all fault rules."""
        self.expects_closes = True
        rules = list(self.engine.plan.rules) if self.engine.faults is not None else None
        self.engine.clear_faults()
        if rules is not None:
            without_faults(self.engine, rules, well=not (self.at_repair or self.disk_failed))

    def mend(self) -> None:
        """Make every log writable again."""
        for undo in self.at_repair:
            undo()
        self.at_repair.clear()
        if self.disk is not None:
            self.disk.repair()

    def repair(self) -> None:
        """Repair everything: remove faults, repair the disk, start the brokers that are down, and let all replicas follow."""
        self.clear_faults()
        self.mend()
        self.engine.controller.recover(self.now)
        if self.judging is not None and self.setting.brokers > 1:
            self.judging.act("broker")  # another broker may have become a group's coordinator
        self.settle()

    def start_again(self, mode: str) -> None:
        """Stop the process and start it again with its data directory. Raises RuntimeError if there is no data directory."""
        if self._folder is None or self.engine.store is None:
            raise RuntimeError("the brokers have no data directory")
        if self.disk is not None:
            self.disk.repair()
            self.disk_failed = False
        self.settle()
        if mode == "clean":
            self.engine.store.close(self.now)
        else:
            if self.engine.cluster.decisions._given_up is not None:  # the timer that tries again has not fired yet
                self.following.forget_leaders()
            self.engine.store.abandon()
        self.forget_links()
        self.at_repair.clear()
        self._profile = self._profile and self.engine.rules.name
        self.engine = self.new_engine()

    # Asking as an administrator

    def ask(self, request: Message, version: int, node: int | None = None) -> Any:
        """Sends a request as an administrator over a new connection. Returns the response, or None if the API is not served.
        Raises Finding."""
        key, node = request.__schema__.key, node or min(self.engine.cluster.live_brokers)
        connection = self.engine.connect(node, now=self.now)
        oldest, newest = connection.versions.get(key, (0, -1))
        if newest < oldest:
            self.engine.disconnected(connection, now=self.now)
            return None
        version = max(oldest, min(version, newest))
        self._log_in(connection, "admin")
        link = Link(-1, node, connection, answers=[])
        self.links[Where(-1, node)] = self._by_connection[connection] = link
        sent = Sent(-1, Asked("an administrator", Ask(0, api_name(key), version, {}), request), version, node, self.now)
        self.readers.sent(self, sent)
        link.arrived.append(encode_request(7, "admin", request, version)[4:])
        try:
            self.settle()
        except Finding:
            raise
        except Exception as error:  # an act that is impossible raises an exception, too
            raise Finding(f"raised: {place(error)}", f"{request}\n{error!r}") from error
        self.leave(Where(-1, node))
        if not self.engine.cluster.brokers[node].running:  # a client cannot ask this broker, so the broker measures no client
            self.engine.throttle.restarted(node)
        if not link.answers:
            raise Finding(f"an administrator's {api_name(key)} is not answered", str(request)[:300])
        sent.response = decode_response(link.answers[0][4:], key, version)[1]
        if not self.in_trouble:
            self.readers.answered(self, sent, sent.response)
            described(self, link, sent)
        return sent.response


def _nothing() -> None:
    """Does nothing, because `settle` runs the slices."""


def run(setting: Setting, steps: Sequence[Step], met: Met | None = None) -> World:
    """Plays a schedule to its end, and returns the world. Raises Finding."""
    world = World(setting, met)
    try:
        world.met.begin()
        for step in steps:
            world.play(step)
        holding.finish(world)
    except Finding as found:
        found.log = world.log  # type: ignore[attr-defined]
        raise
    finally:
        world.close()
    return world


def _lost_records(partition: Partition, epoch: int, end: int) -> bool:
    """Tells whether the log has lost records since it had this leader epoch and this end: whether a later epoch begins before
    this end."""
    return any(later > epoch and start < end for later, start in partition.epochs.starts)
