"""In every state, timers and periodic work come to an end. While the clock moves, they do not run unnecessarily."""

from __future__ import annotations

import ast
import logging
from collections import Counter
from collections.abc import Callable
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import wirebroker
from actors import ClassicMember, Member, TransactionalProducer
from dialogue import Dialogue, accepted, answered, tagged
from inprocess import InProcess
from random_dialogues.replay import load, replay
from requesting import delete_records
from wirebroker.core import purgatory
from wirebroker.core.partition import Partition
from wirebroker.core.purgatory import Periodic, Timer, Timers, name_of
from wirebroker.engine.engine import Engine
from wirebroker.storage.log import FolderLog
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import BASE_SETTINGS

pytestmark = pytest.mark.timeout(30)  # a low limit, so that a timer that never ends fails soon

DATA = Path(__file__).parent / "data"
RETENTIONS = {"by-time": {"retention.ms": 60_000}, "by-size": {"retention.bytes": 0}, "never": {"retention.ms": -1}}


def retained(data: Path | None) -> InProcess:
    """Returns a broker with a topic for each kind of retention. A retention check takes place each minute."""
    topics = {name: {"partitions": 4, "configs": configs} for name, configs in RETENTIONS.items()}
    return InProcess(topics=topics, data=data, configs={"log.retention.check.interval.ms": 60_000})


def partitions(broker: InProcess) -> list[Partition]:
    return [each for name in RETENTIONS for each in broker.engine.cluster.topics[name].partitions]


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("kept", ["memory", "disk", "disk-that-refuses"])
def test_a_retention_check_ends_wherever_the_log_starts(
    kept: str, rolled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = retained(None if kept == "memory" else tmp_path)
    for partition in partitions(broker):
        for offset in range(3):
            Dialogue(broker) >> tagged("v", topic=partition.topic, partition=partition.index) << accepted(at=offset)
        if rolled:
            partition.log.roll(broker.clock.now())
    with monkeypatch.context() as patched:
        if kept == "disk-that-refuses":
            patched.setattr(FolderLog, "_discard", refuse)
        for partition in partitions(broker):
            wanted = delete_records(partition.index, topic=partition.topic, partition=partition.index)
            Dialogue(broker) >> wanted << answered(error_code=0)
        broker.clock.advance(minutes=5)
        for partition in partitions(broker):
            ends = partition.index if partition.topic == "never" else 3
            assert (partition.log_start_offset, partition.log_end_offset) == (ends, 3)
    broker.clock.advance(minutes=1)
    for partition in partitions(broker):
        assert len(partition.log.segments) == (2 if rolled and partition.log_start_offset < 3 else 1)


def refuse(*_: Any) -> None:
    raise OSError("the disk refuses")


# The timers of a broker

INTERVALS = {
    "delegation.token.expiry.check.interval.ms": "1000",
    "leader.imbalance.check.interval.seconds": "1",
    "log.cleaner.backoff.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "offsets.retention.check.interval.ms": "1000",
    "producer.id.expiration.check.interval.ms": "1000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "1000",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}
"""The intervals of all periodic work. A month has 2,678,400 s."""
TOKENS = {"delegation.token.secret.key": "secret"}
SUBJECTS = "admin", "administration", "groups", "logs", "mixed", "quotas", "shares", "streams", "transactions"


MONTH_MS = 31 * 86_400_000
MOST = 100
"""In a month without requests, all timers of one name together may fire this many times. The states below have at most about
ten members, transactions and locks."""


@pytest.fixture
def fired(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often timers run, and how often periodic work begins. The keys are the names of the actions."""
    found = Counter[str]()
    at, begin = Timers.at, Periodic._begin

    def counted_at(timers: Timers, when: int, action: Callable[[int], object]) -> Timer:
        @wraps(action)
        def counted(now: int) -> None:
            found[name_of(action)] += 1
            action(now)

        return at(timers, when, counted)

    def counted_begin(periodic: Periodic, now: int) -> None:
        found[name_of(periodic._task)] += 1
        begin(periodic, now)

    monkeypatch.setattr(Timers, "at", counted_at)
    monkeypatch.setattr(Periodic, "_begin", counted_begin)
    return found


def month(engine: Engine, fired: Counter[str]) -> Counter[str]:
    """Lets a month pass. Returns how often timers fired, by name."""
    fired.clear()
    engine.tick(engine.now + MONTH_MS)
    return Counter(fired)


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("kept", ["memory", "disk"])
def test_a_month_without_requests_fires_no_timer_in_vain(
    kept: str, subject: str, tmp_path: Path, fired: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The recorded dialogues leave groups, transactions, locks, sessions and settings of all kinds."""
    dialogues = islice(load(DATA / f"dialogues-{subject}.jsonl.gz"), 2)
    with OwnBroker(BASE_SETTINGS | INTERVALS | TOKENS, data=tmp_path if kept == "disk" else None) as broker:
        for dialogue in dialogues:
            replay(dialogue, broker.address)
        first, second = broker.kafka._call(lambda engine: [month(engine, fired) for _ in range(2)])
    assert max(first.values()) < MOST, first
    assert set(second.values()) == {1}, second  # each kind of periodic work checks once whether it has something to do
    assert [row.message for row in caplog.records if row.levelno >= logging.ERROR and row.name == "wirebroker"] == []


def test_a_month_queues_one_sync(tmp_path: Path, fired: Counter[str], caplog: pytest.LogCaptureFixture) -> None:
    """The first sync runs after the clock has moved, so the metadata are not synced before that."""
    broker = InProcess(topics=["orders"], data=tmp_path, sync="interval")
    assert month(broker.engine, fired)["FolderStore._sync_by_timer"] < MOST
    assert broker.engine.store is not None
    assert len(broker.engine.store.jobs) == 1
    assert caplog.messages == []


def test_nothing_is_written_to_a_partition_without_a_leader() -> None:
    """Members, offsets, transactions and ids expire, and a topic is deleted, while the only broker is down."""
    broker = InProcess(topics=["orders", "gone"], warm=True)
    producer, idle = TransactionalProducer(broker), TransactionalProducer(broker, "idle")
    Member(broker, "m", group="new").join("orders")
    member = ClassicMember(broker)
    member.join()
    member.sync({})
    assert (member.commit(1), member.commit(2, topic="gone"), producer.init(), idle.init()) == (0, 0, 0, 0)
    assert producer.send("v").error_code == 0
    broker.kill_broker(1)
    ends = {partition: partition.log_end_offset for partition in broker.engine.cluster.partitions()}
    broker.delete_topic("gone")
    broker.clock.advance(days=31)
    assert {partition: partition.log_end_offset for partition in ends} == ends


# Timers that set themselves again


def static_members_that_do_not_return() -> InProcess:
    """A member leaves. The only remaining member is a static member, which has not joined again. Both members have a rebalance
    timeout of 0 ms."""
    broker = InProcess(warm=True)
    static, other = ClassicMember(broker, instance="till"), ClassicMember(broker)
    times = {"rebalance_ms": 0, "session_ms": 1_800_000}
    static.join(**times)
    static.sync({})
    other.ask_to_join(**times)
    other.joined()
    other.ask_to_join(**times)
    static.join(**times)
    other.joined()
    static.sync({})
    other.sync()
    assert other.leave() == 0
    return broker


def a_frozen_follower() -> InProcess:
    broker = InProcess(topics={"orders": {"replication_factor": 2}}, brokers=2)
    partition = broker.engine.cluster.topics["orders"].partitions[0]
    broker.engine.controller.freeze_replica("orders", 0, partition.replicas[1], broker.clock.now())
    return broker


def a_log_that_is_not_dirty_enough() -> InProcess:
    broker = InProcess(topics=["orders"])
    Dialogue(broker) >> tagged("v") << accepted(at=0)
    partition = broker.engine.cluster.topics["orders"].partitions[0]
    partition.log.roll(broker.clock.now())
    partition.configs.replace({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"})
    return broker


def an_open_transaction() -> InProcess:
    broker = InProcess(topics=["orders"], warm=True)
    producer = TransactionalProducer(broker, timeout_ms=900_000)
    assert (producer.init(), producer.send("v").error_code) == (0, 0)
    return broker


def a_transaction_that_cannot_be_aborted() -> InProcess:
    broker = an_open_transaction()
    for partition in broker.engine.cluster.topics["__transaction_state"].partitions:
        partition.fail_next_write(10**9)
    return broker


def a_marker_that_cannot_be_written() -> InProcess:
    broker = an_open_transaction()
    broker.engine.cluster.topics["orders"].partitions[0].go_offline(1)
    return broker


def a_member_that_cannot_be_removed() -> InProcess:
    broker = InProcess(topics=["orders"], warm=True)
    Member(broker, "m").join("orders")
    for partition in broker.engine.cluster.topics["__consumer_offsets"].partitions:
        partition.go_offline(1)
    return broker


def metadata_that_cannot_be_written() -> InProcess:
    broker = InProcess()
    broker.engine.cluster.decisions.write_with(refuse)
    broker.engine.cluster.decisions.write_down(broker.clock.now())
    return broker


STATES: dict[Callable[[], InProcess], str] = {
    static_members_that_do_not_return: "",
    a_frozen_follower: "",
    a_log_that_is_not_dirty_enough: "",
    an_open_transaction: "",
    a_transaction_that_cannot_be_aborted: "TransactionCoordinator._abort_timed_out",
    a_marker_that_cannot_be_written: "TransactionCoordinator._retry.<locals>.again",
    a_member_that_cannot_be_removed: "ModernGroup.set_timer.<locals>.<lambda>",
    metadata_that_cannot_be_written: "Decisions._again",
}
"""States in which a timer sets itself again. If the timer repeats a write that fails, the value is the timer's name in the log;
otherwise it is ""."""


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_timer_that_sets_itself_again_ends(
    state: Callable[[], InProcess], fired: Counter[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(purgatory, "MOST_AGAIN", MOST)
    broker = state()
    broker.clock.advance(days=31)
    assert max(fired.values()) <= MOST + 5, fired  # if another timer changes something, this wakes periodic work
    named = [row.message.split()[0] for row in caplog.records if "does not end" in row.message]
    assert named == ([STATES[state]] if STATES[state] else [])
    fired.clear()
    broker.clock.advance(seconds=10)
    assert fired[STATES[state]] or not STATES[state], "the timer goes on after the move"


def test_a_group_of_absent_static_members_does_not_keep_the_broker_busy(fired: Counter[str]) -> None:
    """The driver runs the timers whenever one is due, as a host does while no client sends anything."""
    engine = static_members_that_do_not_return().engine
    end = engine.now + 10_000
    while (due := engine.timers.deadline()) is not None and due <= end:
        engine.tick(due)
    assert max(fired.values()) <= MOST, fired


# All timers

ONCE, BOUNDED, REPEATS = "sets no timer", "sets itself again a few times", "see STATES"
TIMERS = {
    "apis/delayed.py Delayed.wait": ONCE,
    "apis/exchange.py Exchange._send_later": ONCE,
    "apis/exchange.py Exchange.mute": ONCE,
    "apis/fetch.py Fetch.wait": ONCE,
    "apis/share_fetch.py ShareFetch._wait": ONCE,
    "apis/share_fetch.py handle": ONCE,
    "core/cluster.py Cluster.auto_create_topic": ONCE,
    "core/cluster.py Cluster.create_internal_topic": ONCE,
    "core/cluster.py Cluster.keep_name": ONCE,
    "core/controller.py Controller.reassign": ONCE,
    "core/groups/classic.py Group._await_heartbeat": ONCE,
    "core/groups/classic.py Group._complete_join": BOUNDED,
    "core/groups/classic.py Group._wait_for_first_members": BOUNDED,
    "core/groups/classic.py Group.add_pending": ONCE,
    "core/groups/classic.py Group.prepare_rebalance": BOUNDED,
    "core/groups/modern.py ModernGroup.set_timer": REPEATS,
    "core/metadata_writes.py Decisions._try_again": REPEATS,
    "core/share/dead_letters.py DeadLetters._sent": BOUNDED,
    "core/share/partition.py SharePartition.lock": ONCE,
    "core/transactions/coordinator.py TransactionCoordinator._retry": REPEATS,
    "engine/engine.py Engine._hold_back": ONCE,
    "engine/engine.py Engine.unauthenticated": ONCE,
    "engine/upgrading.py Upgrading.proceed": BOUNDED,
    "engine/upgrading.py Upgrading.restarted": BOUNDED,
    "faults/plan.py FaultPlan.send": ONCE,
    "faults/plan.py FaultPlan.hold": ONCE,
    "net/handshakes.py Handshakes._stall": ONCE,
    "proxy/interest.py Interest._end": BOUNDED,
    "proxy/interest.py Interest.renew": BOUNDED,
}
"""The functions that set timers other than periodic timers. Each value says why a function's timers end."""


class Sites(ast.NodeVisitor):
    """Finds the functions that set timers with `Timers.at`."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.found = set[str]()
        self._path, self._within = path, list[str]()
        self.visit(tree)

    def _enter(self, node: Any) -> None:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _enter  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr == "at" and ast.unparse(called.value).endswith("timers"):
            self.found.add(f"{self._path} {'.'.join(self._within)}")
        self.generic_visit(node)


def test_every_timer_is_periodic_or_is_known_to_end() -> None:
    root = Path(wirebroker.__file__).parent
    files = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    found = set().union(*(Sites(path, ast.parse(text)).found for path, text in files.items() if "timers" in text))
    assert found == set(TIMERS)
