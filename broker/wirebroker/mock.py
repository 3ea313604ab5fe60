"""MockKafka: a broker inside the process that tests run in.

    with MockKafka(topics={"orders": 3}) as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

A `with` gives it a thread and an event loop of its own, for synchronous clients; `async with` runs it in the caller's
loop. Every method may be called from any thread.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafkawire.batches import Record as WireRecord
from kafkawire.batches import build_batch, iter_records, read_header
from kafkawire.registry import KEYS
from wirebroker.clock import Clock
from wirebroker.clock import clock as make_clock
from wirebroker.core.names import topic_name_fault
from wirebroker.core.partition import Partition
from wirebroker.core.producers import ProducerEntry, unpack
from wirebroker.core.profile import profile as named_profile
from wirebroker.core.record_checks import RecordReject
from wirebroker.engine import Engine
from wirebroker.net.host import Host
from wirebroker.net.thread import LoopThread, call_on
from wirebroker.trace.rows import FaultRow, ProduceRow, Row

if TYPE_CHECKING:
    from wirebroker.faults.rules import Rule
    from wirebroker.storage.folder.store import FolderStore

T = TypeVar("T")


class StoredRecord(NamedTuple):
    """One record as it is stored; −1 stands for "none"."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: bool


class MockKafka:
    """A cluster of `brokers` brokers on free loopback ports (or from `port` on).

    `topics` maps names to partition counts; `configs` are Kafka's settings by Kafka's names; `profile` and `rules` say
    how the validator decides; `clock` is "system" or "frozen". With `cold_start` the coordinators of groups and transactions
    take their time at first, as in Kafka, and clients have to ask again. Raises ValueError for a setting that does not exist.
    With `data` everything is kept in that directory, in Kafka's own files, and what is there is served; `sync` says when it
    is put on the disk: "always", "interval" or "never". DataError (an OSError) if the directory cannot be used.
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
        host: str = "127.0.0.1",
        port: int = 0,
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
        self._configs = {name: _setting(value) for name, value in (configs or {}).items()}
        self._full_checks = record_checks == "full"
        self._max_versions = {_api_key(name): version for name, version in (max_versions or {}).items()}
        self._seed = int.from_bytes(os.urandom(4), "big") if random_seed is None else random_seed
        self._random = os.urandom if random_seed is None else random.Random(random_seed).randbytes
        self._cold_start = cold_start
        self._clock = make_clock(clock)
        self._address = (host, port)
        self._data = None if data is None else Path(data)
        self._sync = sync
        self._given_thread = loop_thread
        self._thread: LoopThread | None = None
        self._host: Host | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ports: list[tuple[str, int]] = []
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
        """Close all connections and listeners; harmless if it is not running."""
        if self._thread is not None:
            self._thread.await_(self._stop())
            self._stop_thread()

    def _stop_thread(self) -> None:
        if self._thread is not None and self._given_thread is None:
            self._thread.stop()
        self._thread = None

    async def _start(self) -> None:
        engine = self._engine()
        self._loop = asyncio.get_running_loop()
        self._host = Host(engine, self._clock)
        name, port = self._address
        try:
            for i, node_id in enumerate(engine.cluster.brokers):
                self._ports.append(await self._host.listen(node_id, name, port + i if port else 0))
        except BaseException:
            await self._stop()
            raise

    async def _stop(self) -> None:
        if self._host is not None:
            await self._host.close()
            self._host = None
            self._ports.clear()

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
        found = store.topics_found if store is not None else ()
        for name, partitions in self._topics.items():
            if name not in found:
                _create(engine, name, self._clock.now(), partitions, {})
        return engine

    def _open_store(self, data: Path) -> FolderStore:
        from wirebroker.storage.folder.store import FolderStore

        return FolderStore(data, self._random, brokers=self._brokers, sync=self._sync)

    @property
    def _running(self) -> Host:
        if self._host is None:
            raise RuntimeError("this MockKafka is not running; use it in a with statement, or call start()")
        return self._host

    def _call(self, function: Callable[[Engine], T], *, changes: bool = False) -> T:
        """Run a function of the engine in its loop's thread; if it changes anything, perform what comes of it."""
        host = self._running
        assert self._loop is not None

        def run() -> T:
            result = function(host.engine)
            if changes:
                host.flush()
                host.notify()
            return result

        return call_on(self._loop, run)

    # What tests ask

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:PORT`, comma-separated for several brokers."""
        self._running  # noqa: B018
        return ",".join(f"{host}:{port}" for host, port in self._ports)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, Any] | None = None) -> None:
        """Create a topic. ValueError if there is one of this name, or if the name or a setting is not allowed."""
        overrides = {key: _setting(value) for key, value in (configs or {}).items()}
        now = self._clock.now()
        self._call(lambda engine: _create(engine, name, now, partitions, overrides), changes=True)

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """Every record that is stored, by partition and offset. KeyError for a topic that does not exist."""
        return self._call(
            lambda engine: [
                record
                for held in engine.cluster.topics[topic].partitions
                if partition in (None, held.index)
                for record in stored_records(held)
            ]
        )

    def producers(self, topic: str, partition: int) -> dict[int | str, ProducerEntry]:
        """The validator's state of one partition: producer id to epoch and latest batches."""
        return self._call(
            lambda engine: {
                key: unpack(state)
                for key, state in engine.cluster.topics[topic].partitions[partition].producers.items()
            }
        )

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
        record = WireRecord(0, 0, key, value, tuple(headers))
        batch = build_batch([record], base_timestamp=now if timestamp is None else timestamp)

        def store(engine: Engine) -> int:
            if topic not in engine.cluster.topics:
                _create(engine, topic, now, None, {})
            appended = engine.cluster.topics[topic].partitions[partition].append(memoryview(batch), now, 9)
            if isinstance(appended.verdict, RecordReject):
                raise ValueError(f"the record was refused: {appended.verdict.message or appended.verdict.rule}")
            return appended.base_offset

        return self._call(store, changes=True)

    def wait_until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Wait, without polling, until `condition()` holds; it is asked after every change. TimeoutError after `timeout` s."""
        if self._loop is not None and _running_loop() is self._loop:
            raise RuntimeError("this would block the broker's own loop; await wait_until_async instead")
        changed, end = threading.Event(), time.monotonic() + timeout
        host = self._running
        host.watchers.append(changed.set)
        try:
            while not condition():
                if not changed.wait(max(end - time.monotonic(), 0)):
                    raise TimeoutError(f"the condition did not come true within {timeout} s")
                changed.clear()
        finally:
            host.watchers.remove(changed.set)

    async def wait_until_async(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """`wait_until` for code that runs in the broker's own loop."""
        changed = asyncio.Event()
        host = self._running
        host.watchers.append(changed.set)
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    await changed.wait()
                    changed.clear()
        finally:
            host.watchers.remove(changed.set)

    def wait_for_records(self, topic: str, count: int, timeout: float = 5.0) -> list[StoredRecord]:
        """Wait until `count` records are stored in the topic; all of them. TimeoutError says how many came."""
        try:
            self.wait_until(lambda: self._stored(topic) >= count, timeout)
        except TimeoutError:
            message = f"{self._stored(topic)} of {count} records were stored in {topic!r} within {timeout} s"
            raise TimeoutError(message) from None
        return self.records(topic)

    async def wait_for_records_async(self, topic: str, count: int, timeout: float = 5.0) -> list[StoredRecord]:
        """`wait_for_records` for code that runs in the broker's own loop."""
        await self.wait_until_async(lambda: self._stored(topic) >= count, timeout)
        return self.records(topic)

    def _stored(self, topic: str) -> int:
        def count(engine: Engine) -> int:
            found = engine.cluster.topics.get(topic)
            return sum(p.log_end_offset - p.log_start_offset for p in found.partitions) if found else 0

        return self._call(count)

    def restart(self, mode: str = "clean") -> None:
        """Stop and start the brokers: "clean", or "kill" as with kill −9. The addresses stay the same."""
        self._call(lambda engine: engine.restart(mode, self._clock.now()), changes=True)

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
        """Move the clock forward, by a timedelta or its parts (`days=8`), and run every timer that falls due, in order."""
        ms = int((delta or timedelta(**parts)) / timedelta(milliseconds=1))
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
        return self._kafka._seed

    @property
    def rules(self) -> list[Rule]:
        """The rules that are loaded, in the order in which they are asked."""
        return self._kafka._call(lambda engine: list(engine.plan.rules))

    def add(self, rule: Rule) -> Rule:
        """Load a rule; it strikes from the next request on. Returns it, so that its `fired` can be asked."""
        return self._kafka._call(lambda engine: engine.plan.add(rule))

    def remove(self, rule: Rule) -> None:
        """Unload a rule; harmless if it is not loaded."""
        self._kafka._call(lambda engine: engine.plan.remove(rule), changes=True)

    def clear(self) -> None:
        """Unload all rules; what they held back goes on."""
        self._kafka._call(lambda engine: engine.plan.clear(), changes=True)

    def load(self, path: str | os.PathLike[str]) -> list[Rule]:
        """Load the rules of a fault file; they are returned. FaultFileError names the line that is wrong."""
        from wirebroker.faults.files import load

        return [self.add(rule) for rule in load(Path(path)).rules]

    def as_toml(self) -> str:
        """The loaded rules as a fault file, with which a run can be repeated."""
        from wirebroker.faults.files import dump

        return dump(self.rules, self.seed)

    def assert_fired(self) -> None:
        """NotFired if a loaded rule has never struck: a test that passes without its fault proves nothing."""
        for rule in self.rules:
            rule.assert_fired()


class TraceView:
    """The verdicts of the latest Produce requests."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka

    def produce(self, topic: str | None = None, partition: int | None = None) -> list[ProduceRow]:
        """Every verdict in the ring, oldest first."""
        return self._kafka._call(lambda engine: engine.trace.produce(topic, partition))

    def faults(self) -> list[FaultRow]:
        """Every fault that struck, oldest first."""
        return self._kafka._call(lambda engine: engine.trace.faults())

    def last(self, count: int = 20) -> list[Row]:
        """The latest rows of any kind, oldest first."""
        return self._kafka._call(lambda engine: engine.trace.last(count))


def stored_records(partition: Partition) -> list[StoredRecord]:
    """Every record of a partition from its log start on."""
    found = []
    for batch in partition.log.batches(partition.log_start_offset):
        header = read_header(batch)
        for record in iter_records(batch):
            offset = header.base_offset + record.offset_delta
            if offset < partition.log_start_offset:
                continue
            numbered = header.base_sequence >= 0
            found.append(
                StoredRecord(
                    partition.topic, partition.index, offset,
                    header.max_timestamp if header.is_log_append_time else header.base_timestamp + record.timestamp_delta,
                    record.key, record.value, tuple(record.headers), header.producer_id, header.producer_epoch,
                    (header.base_sequence + record.offset_delta) % 2**31 if numbered else -1,
                    header.is_transactional, header.is_control,
                )
            )  # fmt: skip
    return found


def _create(engine: Engine, name: str, now: int, partitions: int | None, overrides: Mapping[str, str]) -> None:
    if (fault := topic_name_fault(name)) is not None:
        raise ValueError(fault)
    if name in engine.cluster.topics:
        raise ValueError(f"Topic '{name}' already exists.")
    if partitions is not None and partitions < 1:
        raise ValueError(f"a topic has at least one partition, not {partitions}")
    engine.cluster.create_topic(name, now, partitions=partitions, overrides=overrides)


def _setting(value: Any) -> str:
    """A setting as Kafka writes it: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _api_key(name: str) -> int:
    if name not in KEYS:
        raise ValueError(f"there is no API named {name!r}")
    return KEYS[name]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
