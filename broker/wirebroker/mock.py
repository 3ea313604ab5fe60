"""MockKafka: a broker inside the process that tests run in.

    with MockKafka(topics={"orders": 3}) as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

A `with` gives it a thread and an event loop of its own, for synchronous clients; `async with` runs it in the caller's
loop. Every method may be called from any thread. A process that is forked has no broker in it: there every method raises
RuntimeError, and clients connect to the parent's broker by its `bootstrap_servers`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kafkawire.batches import Record as WireRecord
from kafkawire.registry import KEYS
from wirebroker import operations
from wirebroker.clock import Clock
from wirebroker.clock import clock as make_clock
from wirebroker.core.producers import ProducerEntry
from wirebroker.core.profile import profile as named_profile
from wirebroker.engine import Engine, first_node
from wirebroker.faults import state
from wirebroker.net.forks import at_home
from wirebroker.net.host import Host
from wirebroker.net.thread import LoopThread, call_on
from wirebroker.operations import PartitionState, StoredRecord
from wirebroker.trace.levels import includes
from wirebroker.trace.rows import FaultRow, ProduceRow, Row

if TYPE_CHECKING:
    from wirebroker.audit.journal import Rows
    from wirebroker.audit.report import AuditReport
    from wirebroker.control.server import Control
    from wirebroker.faults.rules import Rule
    from wirebroker.storage.folder.store import FolderStore

T = TypeVar("T")
__all__ = ["ClockControl", "Faults", "MockKafka", "PartitionState", "StoredRecord", "TraceView"]


class MockKafka:
    """A cluster of `brokers` brokers on free loopback ports (or from `port` on).

    `topics` maps names to partition counts; `configs` are Kafka's settings by Kafka's names; `profile` and `rules` say
    how the validator decides; `clock` is "system" or "frozen". With `cold_start` the coordinators of groups and transactions
    take their time at first, as in Kafka, and clients have to ask again. `trace` is how much is traced: "off", "verdicts",
    "changes", "exchanges" or "all" (`wirebroker.trace.levels`). With `control` it can be asked and told over HTTP as well, at
    `control_url` (needs wirebroker[control]). With `data` everything is kept in
    that directory, in Kafka's own files, and what is there is served; `sync` says when it is put on the disk: "always",
    "interval" or "never". Raises ValueError for a setting that does not exist, DataError (an OSError) if the directory cannot
    be used.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        topics: Mapping[str, int] | Iterable[str] | None = None,
        profile: str = "kafka-4.3",
        rules: Mapping[str, Any] | None = None,
        configs: Mapping[str, Any] | None = None,
        clock: str = "system",
        record_checks: str = "full",
        max_versions: Mapping[str, int] | None = None,
        random_seed: int | None = None,
        cold_start: bool = False,
        trace: str = "verdicts",
        host: str = "127.0.0.1",
        port: int = 0,
        control: bool = False,
        data: str | os.PathLike[str] | None = None,
        sync: str = "never",
        loop_thread: LoopThread | None = None,
    ) -> None:
        if record_checks not in ("full", "header"):
            raise ValueError(f"record_checks is 'full' or 'header', not {record_checks!r}")
        if sync not in ("always", "interval", "never"):
            raise ValueError(f"sync is 'always', 'interval' or 'never', not {sync!r}")
        if sync != "never" and data is None:
            raise ValueError(f"sync={sync!r} says when data is put on the disk, and there is none")
        self._brokers = brokers
        self._topics = topics if isinstance(topics, Mapping) else dict.fromkeys(topics or (), 1)
        self._rules = named_profile(profile, **(rules or {}))
        self._configs = {name: operations.setting(value) for name, value in (configs or {}).items()}
        self._full_checks = record_checks == "full"
        self._max_versions = {_api_key(name): version for name, version in (max_versions or {}).items()}
        self._seed = int.from_bytes(os.urandom(4), "big") if random_seed is None else random_seed
        self._random = os.urandom if random_seed is None else random.Random(random_seed).randbytes
        self._cold_start = cold_start
        includes(trace, "off")
        self._trace_level = trace
        self._clock = make_clock(clock)
        self._address = (host, port)
        self._data = None if data is None else Path(data)
        self._sync = sync
        self._given_thread = loop_thread
        self._thread: LoopThread | None = None
        self._host: Host | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ports: list[tuple[str, int]] = []
        self._process = os.getpid()
        """Where it was started."""
        self._new_control = _control_class() if control else None
        self._control: Control | None = None
        self.clock = ClockControl(self)
        self.trace = TraceView(self)
        self.faults = Faults(self)

    # Starting and stopping

    def __enter__(self) -> MockKafka:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> MockKafka:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def start(self) -> None:
        """Begin to listen, in a thread of its own."""
        self._thread = self._given_thread or LoopThread()
        try:
            self._thread.await_(self._start())
        except BaseException:
            self._stop_thread()
            raise

    def stop(self) -> None:
        """Close all connections and listeners; harmless if it is not running, or runs in the process this was forked from."""
        if os.getpid() != self._process:
            self._forget()
        elif self._thread is not None:
            self._thread.await_(self._stop())
            self._stop_thread()

    def _stop_thread(self) -> None:
        if self._thread is not None and self._given_thread is None:
            self._thread.stop()
        self._thread = None

    def _forget(self) -> None:
        """Be one that is not running; the broker itself is left alone."""
        self._thread = self._host = self._loop = self._control = None
        self._ports.clear()

    async def _start(self) -> None:
        engine = self._engine()
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._host = Host(engine, self._clock)
        name, port = self._address
        try:
            for i, node_id in enumerate(engine.cluster.brokers):
                self._ports.append(await self._host.listen(node_id, name, port + i if port else 0))
            if self._new_control is not None:
                self._control = self._new_control(self._host, self._engine)
                await self._control.listen("127.0.0.1", 0)
        except BaseException:
            await self._stop()
            raise

    async def _stop(self) -> None:
        if os.getpid() != self._process:
            self._forget()
            return
        if self._control is not None:
            await self._control.close()
            self._control = None
        host, self._host = self._host, None
        if host is not None:
            self._ports.clear()
            await host.close()

    def _engine(self) -> Engine:
        store = None if self._data is None else self._open_store(self._data)
        try:
            return self._engine_on(store)
        except BaseException:
            if store is not None:
                store.abandon()
            raise

    def _engine_on(self, store: FolderStore | None) -> Engine:
        engine = Engine(
            self._clock.now(), self._random, brokers=self._brokers, settings=self._configs, rules=self._rules,
            full_checks=self._full_checks, cold_start=self._cold_start, max_versions=self._max_versions, seed=self._seed,
            store=store,
        )  # fmt: skip
        engine.trace_at(self._trace_level)
        found = store.topics_found if store is not None else ()
        for name, partitions in self._topics.items():
            if name not in found:
                operations.create_topic(engine, name, self._clock.now(), partitions)
        return engine

    def _open_store(self, data: Path) -> FolderStore:
        from wirebroker.storage.folder.store import FolderStore

        return FolderStore(data, self._random, brokers=self._brokers, sync=self._sync, first_node=first_node(self._configs))

    def _started(self) -> None:
        if self._host is None:
            raise RuntimeError("this MockKafka is not running; use it in a with statement, or call start()")

    @property
    def _running(self) -> Host:
        self._started()
        assert self._host is not None
        at_home(self._process, "this MockKafka")
        return self._host

    def _call(self, function: Callable[[Engine], T], *, changes: bool = False) -> T:
        """Run a function of the engine in its loop's thread; if it changes anything, perform what comes of it."""
        host = self._running
        assert self._loop is not None

        def run() -> T:
            if changes:
                host.engine.it_is(self._clock.now())
            result = function(host.engine)
            if changes:
                operations.changed(host)
            return result

        return call_on(self._loop, run)

    # What tests ask

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:PORT`, comma-separated for several brokers. Holds in forked processes too."""
        self._started()
        return ",".join(f"{host}:{port}" for host, port in self._ports)

    @property
    def control_url(self) -> str:
        """Where the HTTP control is: `http://127.0.0.1:PORT`. RuntimeError without `control=True`."""
        self._started()
        if self._control is None:
            raise RuntimeError("this MockKafka has no HTTP control; make it with MockKafka(control=True)")
        return self._control.url

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, Any] | None = None, *,
        replication_factor: int | None = None,
    ) -> None:  # fmt: skip
        """Create a topic. ValueError if there is one of this name, or if the name or a setting is not allowed."""
        now = self._clock.now()
        create = functools.partial(
            operations.create_topic, name=name, now=now, partitions=partitions, configs=configs,
            replication_factor=replication_factor,
        )  # fmt: skip
        self._call(lambda engine: create(engine), changes=True)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all that is in it. KeyError for a topic that does not exist."""
        now = self._clock.now()
        self._call(lambda engine: operations.delete_topic(engine, name, now), changes=True)

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """Every record that is stored, by partition and offset. KeyError for a topic that does not exist."""
        return self._call(lambda engine: operations.records(engine, topic, partition))

    def producers(self, topic: str, partition: int) -> dict[int | str, ProducerEntry]:
        """The validator's state of one partition: producer id to epoch and latest batches."""

        def read(engine: Engine) -> dict[int | str, ProducerEntry]:
            return operations.producers(operations.partition_of(operations.topic_named(engine, topic), partition))

        return self._call(read)

    def produce(
        self,
        topic: str,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int = 0,
        timestamp: int | None = None,
    ) -> int:
        """Store a record without a client, creating the topic if there is none; its offset."""
        now = self._clock.now()
        record, when = WireRecord(0, 0, key, value, tuple(headers)), now if timestamp is None else timestamp
        return self._call(lambda engine: operations.store(engine, topic, partition, record, when, now), changes=True)

    def wait_until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Wait until `condition()` holds. TimeoutError after `timeout` s.

        It is asked after every change of the broker's, and every 50 ms for what comes true elsewhere.
        """
        if self._loop is not None and _running_loop() is self._loop:
            raise RuntimeError("this would block the broker's own loop; await wait_until_async instead")
        changed, end = threading.Event(), time.monotonic() + timeout
        host = self._running
        host.watchers.append(changed.set)
        try:
            while not condition():
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"the condition did not come true within {timeout} s")
                changed.wait(min(left, operations.ASK_AGAIN_S))
                changed.clear()
        finally:
            host.watchers.remove(changed.set)

    async def wait_until_async(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """`wait_until` for code that runs in the broker's own loop."""
        await operations.until(self._running, condition, timeout)

    def wait_for_records(self, topic: str, count: int, timeout: float = 5.0) -> list[StoredRecord]:
        """Wait until `count` records are stored in the topic; all of them. TimeoutError says how many came."""
        try:
            self.wait_until(lambda: self._stored(topic) >= count, timeout)
        except TimeoutError:
            raise self._too_few(topic, count, timeout) from None
        return self.records(topic)

    async def wait_for_records_async(self, topic: str, count: int, timeout: float = 5.0) -> list[StoredRecord]:
        """`wait_for_records` for code that runs in the broker's own loop."""
        try:
            await self.wait_until_async(lambda: self._stored(topic) >= count, timeout)
        except TimeoutError:
            raise self._too_few(topic, count, timeout) from None
        return self.records(topic)

    def _too_few(self, topic: str, count: int, timeout: float) -> TimeoutError:
        return TimeoutError(f"{self._stored(topic)} of {count} records were stored in {topic!r} within {timeout} s")

    def _stored(self, topic: str) -> int:
        return self._call(lambda engine: operations.record_count(engine, topic))

    def audit(self, topics: Iterable[str] | str | None = None, *, intended: Rows | None = None) -> AuditReport:
        """Whether delivery was exactly once: the findings in what is stored now, of these topics or of all.

        `intended` is what the application meant to send: rows, or the path of a journal (`wirebroker.audit.journal`).
        KeyError for a topic that does not exist, ValueError for a row that cannot be understood.
        """
        from wirebroker.audit.report import AuditReport

        names = [topics] if isinstance(topics, str) else None if topics is None else list(topics)
        now = self._clock.now()
        partitions, arrivals = self._call(lambda engine: operations.evidence(engine, names, now))
        return AuditReport(partitions, arrivals=arrivals, intended=intended, topics=names)

    # What takes days, or a second client

    def expire_producer(self, producer_id: int, topic: str | None = None, partition: int | None = None) -> int:
        """Let partitions forget a producer as after producer.id.expiration.ms; on how many it was known."""
        return self._call(lambda engine: state.expire_producer(engine, producer_id, topic, partition), changes=True)

    def expire_transactional_id(self, transactional_id: str) -> None:
        """Let the coordinator forget a transactional id as after transactional.id.expiration.ms. ValueError if it may not."""
        now = self._clock.now()
        self._call(lambda engine: state.expire_transactional_id(engine, transactional_id, now), changes=True)

    def fence(self, transactional_id: str) -> int:
        """Fence a transactional producer, as a second one with its id would; the new epoch. ValueError if there is none."""
        now = self._clock.now()
        return self._call(lambda engine: state.fence(engine, transactional_id, now), changes=True)

    def truncate(self, topic: str, partition: int, offset: int) -> int:
        """Let a partition lose everything from the batch that holds `offset` on; its log end offset. ValueError."""
        now = self._clock.now()
        return self._call(lambda engine: state.truncate(engine, topic, partition, offset, now), changes=True)

    def restart(self, mode: str = "clean") -> None:
        """Stop and start the brokers: "clean", or "kill" as with kill −9. The addresses stay the same."""
        self._call(lambda engine: engine.restart(mode, self._clock.now()), changes=True)

    # The cluster: brokers, leaders, replicas

    def kill_broker(self, node_id: int) -> None:
        """End a broker as with kill −9: its connections break, its port refuses, others lead what it led.

        What was not replicated is lost. ValueError if there is no such broker, or it is down already.
        """
        self._call(lambda engine: engine.kill_broker(node_id, self._clock.now()), changes=True)

    def start_broker(self, node_id: int) -> None:
        """Start a broker that was killed: it follows again and is in sync. ValueError if it is up."""
        self._call(lambda engine: engine.start_broker(node_id, self._clock.now()), changes=True)

    def move_leader(self, topic: str, partition: int = 0, *, to: int) -> None:
        """Let this broker lead the partition; what it lacks, being frozen, is lost. ValueError unless it is up and in sync."""
        now = self._clock.now()
        self._call(lambda engine: engine.controller.move_leader(topic, partition, to, now), changes=True)

    def elect_leader(self, topic: str, partition: int = 0, *, unclean: bool = False) -> int:
        """Elect the preferred leader, or with `unclean`, if there is none, any replica that is up; Kafka's error code."""
        now = self._clock.now()
        return self._call(lambda engine: engine.controller.elect_leader(topic, partition, now, unclean=unclean), changes=True)

    def freeze_replica(self, topic: str, partition: int, node_id: int) -> None:
        """Let a follower stop fetching; after replica.lag.time.max.ms it is out of sync. ValueError for the leader."""
        now = self._clock.now()
        self._call(lambda engine: engine.controller.freeze_replica(topic, partition, node_id, now), changes=True)

    def thaw_replica(self, topic: str, partition: int, node_id: int) -> None:
        """Let a follower fetch again: it catches up, and is in sync."""
        now = self._clock.now()
        self._call(lambda engine: engine.controller.thaw_replica(topic, partition, node_id, now), changes=True)

    def partition(self, topic: str, partition: int = 0) -> PartitionState:
        """Where a partition stands: who leads, who is in sync, and its offsets. KeyError for an unknown topic."""
        return self._call(lambda engine: operations.partition_state(engine, topic, partition))

    def reset(self) -> None:
        """Close the connections and empty the broker, as if it had just been started."""
        host = self._running
        assert self._loop is not None
        if self._data is not None:
            raise RuntimeError(f"this broker keeps its data in {self._data}, and a reset would delete it")
        call_on(self._loop, lambda: host.replace(self._engine()))


class ClockControl:
    """Moves a broker's time. What is the client's own timer is not moved by it."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka

    @property
    def _source(self) -> Clock:
        return self._kafka._clock

    def now(self) -> int:
        """ms since the epoch, by the broker's clock."""
        return self._source.now()

    def advance(self, delta: timedelta | None = None, **parts: float) -> None:
        """Move the clock forward, by a timedelta and its parts (`days=8`), and run every timer that falls due, in order."""
        ms = round(((delta or timedelta()) + timedelta(**parts)) / timedelta(milliseconds=1))
        host, loop = self._kafka._running, self._kafka._loop
        assert loop is not None
        call_on(loop, lambda: host.advance(ms))


class Faults:
    """The faults of a broker: rules from `wirebroker.faults`, each of which counts how often it has fired."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka

    @property
    def seed(self) -> int:
        """What the probabilities of rules are drawn from; `MockKafka(random_seed=…)` repeats a run."""
        return self._kafka._seed if self._kafka._host is None else self._kafka._call(lambda engine: engine.plan.seed)

    @property
    def rules(self) -> list[Rule]:
        """The rules that are loaded, in the order in which they are asked."""
        return self._kafka._call(lambda engine: list(engine.plan.rules))

    def add(self, rule: Rule) -> Rule:
        """Load a rule; it strikes from the next request on. Returns it, so that its `fired` can be asked."""
        return self._kafka._call(lambda engine: engine.plan.add(rule))

    def remove(self, rule: Rule) -> None:
        """Unload a rule; harmless if it is not loaded. What it held back goes on."""
        self._kafka._call(lambda engine: engine.plan.remove(rule), changes=True)

    def clear(self) -> None:
        """Unload all rules; what they held back goes on."""
        self._kafka._call(lambda engine: engine.plan.clear(), changes=True)

    def load(self, path: str | os.PathLike[str]) -> list[Rule]:
        """Load the rules of a fault file; they are returned. FaultFileError names the line that is wrong."""
        from wirebroker.faults.files import load

        file = load(Path(path))
        return self._kafka._call(lambda engine: operations.load_faults(engine, file))

    def as_toml(self) -> str:
        """The loaded rules as a fault file, with which a run can be repeated."""
        from wirebroker.faults.files import dump

        return dump(self.rules, self.seed)

    def assert_fired(self) -> None:
        """NotFired if a loaded rule has never struck: a test that passes without its fault proves nothing."""
        for rule in self.rules:
            rule.assert_fired()


class TraceView:
    """The latest rows of the trace: verdicts and faults, and at a higher level all else that happened."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka

    @property
    def level(self) -> str:
        """How much is traced; may be set at any time."""
        return self._kafka._call(lambda engine: engine.trace.level)

    @level.setter
    def level(self, level: str) -> None:
        self._kafka._call(lambda engine: engine.trace_at(level))

    def events(self, *names: str) -> list[Row]:
        """Every row of these events ("reply", "group" …), or of all, oldest first."""
        return self._kafka._call(lambda engine: engine.trace.events(*names))

    def produce(self, topic: str | None = None, partition: int | None = None) -> list[ProduceRow]:
        """Every verdict in the ring, oldest first."""
        return self._kafka._call(lambda engine: engine.trace.produce(topic, partition))

    def faults(self) -> list[FaultRow]:
        """Every fault that struck, oldest first."""
        return self._kafka._call(lambda engine: engine.trace.faults())

    def last(self, count: int = 20) -> list[Row]:
        """The latest rows of any kind, oldest first."""
        return self._kafka._call(lambda engine: engine.trace.last(count))


def _api_key(name: str) -> int:
    if name not in KEYS:
        raise ValueError(f"there is no API named {name!r}")
    return KEYS[name]


def _control_class() -> type[Control]:
    """Imported in the caller's thread, and only when it is asked for."""
    from wirebroker.control.server import Control

    return Control


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
