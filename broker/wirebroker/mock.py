"""MockKafka: a broker that runs in the same process as the tests.

    with MockKafka(topics={"orders": 3}) as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

`with` runs the broker in a separate thread with its own event loop, for synchronous clients. `async with` runs the broker in
the caller's event loop. Every method may be called from any thread. The broker does not run in a forked process. There, every
method raises RuntimeError, but clients can connect to the parent process's broker at `bootstrap_servers`.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from kafkawire.batches import Record as WireRecord
from kafkawire.printable import printable
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.producers import ProducerEntry
from wirebroker.core.profile import ProfileName
from wirebroker.deeds.acls import AclDeeds
from wirebroker.deeds.cluster import ClusterDeeds
from wirebroker.deeds.declaring import Deeds, partition_of, topic_named
from wirebroker.deeds.quotas import QuotaDeeds
from wirebroker.deeds.running import RunningDeeds
from wirebroker.deeds.state import StateDeeds
from wirebroker.deeds.telemetry import TelemetryDeeds
from wirebroker.deeds.topics import TopicDeeds
from wirebroker.engine.engine import Engine
from wirebroker.engine.snapshots import Snapshot
from wirebroker.net.host import Host
from wirebroker.net.listener import Address, Listener, one_each
from wirebroker.net.thread import LoopThread
from wirebroker.net.tls import CA, CLIENT, Tls, make_certificates, tls_of
from wirebroker.security.mechanisms import OAUTHBEARER
from wirebroker.security.protocols import protocol_named
from wirebroker.security.web_tokens import unsecured_token
from wirebroker.testing import operations, states
from wirebroker.testing import started as made
from wirebroker.testing.failure_report import sections
from wirebroker.testing.operations import StoredRecord
from wirebroker.testing.option_table import Options
from wirebroker.testing.options import BrokerOptions, OptionError, check_types
from wirebroker.testing.states import PartitionState
from wirebroker.testing.topic_specs import Topics, topic_specs
from wirebroker.testing.views import Faults, TraceView, checked_rules
from wirebroker.testing.waits import Waits

if TYPE_CHECKING:
    from wirebroker.audit.journal import Rows
    from wirebroker.audit.report import AuditReport
    from wirebroker.control.server import Control
    from wirebroker.faults.rules import Rule
    from wirebroker.testing.client_settings import Library, MechanismName
    from wirebroker.testing.metric_points import MetricPoint

T = TypeVar("T")
P = ParamSpec("P")
PROFILE_VARIABLE = "WIREBROKER_PROFILE"
Security = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Data = bytes | str | dict[str, Any] | list[Any] | None
"""A record's key or value. A text is stored as UTF-8, and a dict or a list as JSON."""
__all__ = ["ClockControl", "Faults", "MockKafka", "PartitionState", "Quotas", "Settings", "StoredRecord", "TraceView"]
__tracebackhide__ = True  # pytest shows the caller's line


@dataclass(frozen=True, kw_only=True)
class Settings(Options):
    """The arguments of `MockKafka` and of the pytest marker: the options of a broker, and how clients reach it."""

    host: str = "127.0.0.1"
    port: int = 0
    """The brokers listen on this port and the following ports. 0 stands for any free ports."""
    security: Security = "plaintext"
    """The protocol that clients must use."""
    control: bool = False
    """Opens the HTTP control, whose address is `control_url`. Needs the extra "control" of the package."""
    capture: str | os.PathLike[str] | None = None
    """The broker writes its traffic into this pcapng file for Wireshark, with the verdicts as comments."""
    loop_thread: LoopThread | None = None
    """The thread whose loop runs the broker. None stands for a new thread."""
    faults: Rule | Sequence[Rule] = ()
    """Rules from `wirebroker.faults`. At the start and after each reset, the broker loads copies of these rules. The copies are
    in `kafka.faults.rules`."""


def _options(fault_seed: int, given: Mapping[str, Any]) -> BrokerOptions:
    """Returns the options. If neither `profile` nor `like` is given, the profile comes from the environment. Raises
    OptionError."""
    profile = os.environ.get(PROFILE_VARIABLE)
    if not profile or "profile" in given or "like" in given:
        return BrokerOptions(fault_seed=fault_seed, **given)
    try:
        return BrokerOptions(fault_seed=fault_seed, **given, profile=cast(ProfileName, profile))
    except OptionError as wrong:
        raise (OptionError(PROFILE_VARIABLE, wrong.problem) if wrong.option == "profile" else wrong) from None


def _takes(settings: Callable[P, object]) -> Callable[[Callable[..., None]], Callable[Concatenate[MockKafka, P], None]]:
    """Shows type checkers and IDEs that the constructor takes the arguments of `settings`."""
    return lambda constructor: cast("Callable[Concatenate[MockKafka, P], None]", constructor)


class MockKafka(Waits, TopicDeeds, AclDeeds, StateDeeds, ClusterDeeds, RunningDeeds):
    """A cluster of `brokers` brokers, which listen on loopback ports. `Settings` and its base `Options` describe the arguments.

    If neither `profile` nor `like` is given, the environment variable WIREBROKER_PROFILE names the profile. So a whole test
    suite can run on several releases. Raises ValueError if an option or a setting cannot be used, and DataError (an OSError) if
    the directory `data` cannot be used.
    """

    @_takes(Settings)
    def __init__(self, **given: Any) -> None:
        known = [each.name for each in fields(Settings)]
        for name in given:
            if name not in known:
                raise TypeError(f"MockKafka has no setting {name!r}{did_you_mean(name, known)}")
        own = {name: given.pop(name, getattr(Settings, name)) for name in Settings.__annotations__}
        check_types(Settings, own)
        super().__init__(own["loop_thread"], own["capture"])
        seed = given.get("random_seed")
        fault_seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed
        self._options = _options(fault_seed, given)
        for note in self._options.notes:
            warnings.warn(printable(note), stacklevel=2)
        self._rules = checked_rules(own["faults"])
        self._clock = self._options.new_clock()
        self._address = (own["host"], own["port"])
        self._protocol = protocol_named(own["security"])
        self._tls_folder: tempfile.TemporaryDirectory[str] | None = None
        self._ended: Engine | None = None
        """The engine of a stopped broker. It is kept because the report of a failed test needs its state."""
        self._ports: list[Address] = []
        self._new_control: Callable[[Host, Callable[[], Engine]], Control] | None = None
        if own["control"]:  # imported here, in the caller's thread, and only for a broker with a control endpoint
            from wirebroker.control.server import control_of_broker

            self._new_control = control_of_broker
        self.clock = ClockControl(self)
        self.trace = TraceView(self)
        self.faults = Faults(self)
        self.quotas = Quotas(self)
        self.telemetry = TelemetryView(self)

    # Starting and stopping

    async def __aenter__(self) -> MockKafka:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def _forget(self) -> None:
        super()._forget()
        self._ports.clear()

    async def _start(self) -> None:
        await super()._start()
        made.announce(self)

    def _new_host(self) -> Host:
        return Host(self._new_engine(), self._clock)

    async def _open(self, host: Host) -> None:
        try:
            name, tls = self._protocol.name, self._certificates()
            listeners = one_each(host.engine.cluster.brokers, *self._address, None, name, self._protocol, tls)
            self._ports += await host.listen(*listeners)
            if self._new_control is not None:
                self._control = self._new_control(host, self._new_engine)
                await self._control.listen("127.0.0.1", 0)
        except BaseException:
            if self._tls_folder is not None:
                self._tls_folder.cleanup()
                self._tls_folder = None
            raise

    def _ends(self, host: Host) -> None:
        self._ended = host.engine
        self._ports.clear()

    def _certificates(self) -> Tls | None:
        """Returns the broker's certificates, or None without TLS. Creates certificates if the settings name none."""
        if not self._protocol.tls:
            return None
        settings = self._options.settings
        if (named := tls_of(settings, None, self._protocol.name)) is not None:
            return named
        if self._tls_folder is None:
            self._tls_folder = tempfile.TemporaryDirectory(prefix="wirebroker-tls-", ignore_cleanup_errors=True)
        made_here = make_certificates(Path(self._tls_folder.name), [self._address[0], "localhost"])
        return tls_of(settings, made_here, self._protocol.name)

    @property
    def tls_folder(self) -> Path:
        """The folder with the certificates that were created for this MockKafka. Clients have to trust `ca.pem`. `client.pem`
        is a client certificate.

        Raises RuntimeError if no certificates were created.
        """
        if self._tls_folder is None:
            raise RuntimeError('this MockKafka has no certificates; create it with security="ssl" or "sasl_ssl"')
        return Path(self._tls_folder.name)

    def _listen(self, listener: Listener) -> Address:
        """Open one more listener."""
        assert self._thread is not None
        (address,) = self._thread.await_(self._running.listen(listener))
        return address

    def _new_engine(self) -> Engine:
        engine, rules = self._options.new_engine(self._clock.now()), self._rules
        if rules:
            for rule in rules:
                engine.plan.add(rule.copy())
            engine.at_soft_reset.append(lambda _: engine.plan.load_again(rules))
        return engine

    def _call(self, function: Callable[[Engine], T]) -> T:
        """Run a function in the thread of the engine's loop, with the engine as its argument."""
        return self._in_loop(lambda host: function(host.up_to_date()))

    def _at_last(self, read: Callable[[Engine], T]) -> T | None:
        """Calls the function `read` with the engine, and returns the result. Also works after the broker has stopped. Returns
        None if the broker has never run.
        """
        if self.running:
            return self._call(read)
        ended = self._peek() or self._ended
        return None if ended is None else read(ended)

    @property
    def _fault_seed(self) -> int:
        return self._call(lambda engine: engine.plan.seed) if self.running else self._options.fault_seed

    def _change(self, function: Callable[[Engine, int], T]) -> T:
        """Call a function that changes the broker, with the engine and the time as arguments. Then perform the engine's
        effects."""

        def run(host: Host) -> T:
            now = host.time()
            host.engine.set_time(now)
            result = function(host.engine, now)
            host.changed()
            return result

        return self._in_loop(run)

    @property
    def _engine(self) -> Engine:
        return self._running.engine

    def _perform(self, act: Callable[[], T], *, settles: bool) -> T:
        result = self._change(lambda engine, now: act())
        if settles:
            self._change(lambda engine, now: engine.controller.finish())
        return result

    def __repr__(self) -> str:
        """Returns the addresses and topics as text. Does not wait for the broker's event loop, because a debugger may have
        stopped the loop."""
        engine = self._peek()
        if engine is None or not self.running:
            return "MockKafka(not running)"
        addresses = ",".join(f"{host}:{port}" for host, port in self._ports)
        return f"MockKafka({addresses}, topics: {', '.join(self._topic_names(engine)) or 'none'})"

    @staticmethod
    def _topic_names(engine: Engine) -> list[str]:
        return [name for name, topic in list(engine.cluster.topics.items()) if not topic.internal]

    def _peek(self) -> Engine | None:
        return None if self._host is None else self._host.engine

    # Topics, records, producers

    @property
    def bootstrap_servers(self) -> str:
        """The address to which clients connect: `127.0.0.1:PORT`, or a comma-separated list for several brokers. Forked
        processes can use this address, too.
        """
        self._started()
        return ",".join(f"{host}:{port}" for host, port in self._ports)

    def client_settings(
        self, library: Library, user: str | None = None, mechanism: MechanismName | None = None
    ) -> dict[str, Any]:
        """Returns the settings that a client library needs to connect, under the library's own names:
        `KafkaProducer(**kafka.client_settings("kafka-python"))`.

        `library` is kafka-python, aiokafka, java, kafkajs or franz-go. For librdkafka and the libraries that use it, `library`
        is confluent, librdkafka, node-rdkafka, rdkafka or dotnet. `user` is the name of a user, by default the first user in
        `users`. By default, `mechanism` is the first enabled mechanism of SCRAM-SHA-256, SCRAM-SHA-512 and PLAIN with which the
        user can log in. With OAUTHBEARER, any user name is valid. If ssl.client.auth requires a client certificate, the
        settings contain one. Raises ValueError if the library or the user is unknown, if there is no user, or if tokens for
        OAUTHBEARER must be signed.
        """
        from wirebroker.testing.client_settings import Access, client_settings

        users, name = self._options.logins, user
        if self._protocol.sasl:
            name = next(iter(users), None) if user is None else user
            if mechanism == OAUTHBEARER:
                self._check_unsecured()
            elif name not in users:
                advice = did_you_mean(name or "", users) or "; name it in users="
                raise ValueError(f"there is no user {name!r}{advice}" if name else "there is no user; give users=")
        chosen = self._options.mechanism_of(name or "") if mechanism is None else mechanism
        folder = None if self._tls_folder is None else self.tls_folder
        shows = folder is not None and self._options.settings.get("ssl.client.auth", "none") != "none"
        access = Access(
            self.bootstrap_servers, self._protocol, chosen, name or "", users.get(name or "", ""),
            ca=folder and folder / CA, client=folder / CLIENT if shows and folder is not None else None,
            token=lambda: self._token(name or ""),
        )  # fmt: skip
        return client_settings(library, access)

    def _check_unsecured(self) -> None:
        settings = self._options.settings
        if OAUTHBEARER not in settings.get("sasl.enabled.mechanisms", ""):
            raise ValueError(f"name {OAUTHBEARER} in sasl.enabled.mechanisms")
        if signed := [name for name in settings if name.endswith("sasl.oauthbearer.jwks.endpoint.url")]:
            raise ValueError(f"give the client a token of your own: tokens must be signed by a key in {signed[0]}")

    def _token(self, user: str) -> str:
        """Returns an unsigned token for a user. The token is valid for an hour by the broker's clock."""
        now = self.clock.now() / 1000
        return unsecured_token({"sub": user, "iat": now, "exp": now + 3600})

    def topics(self, *, internal: bool = False) -> dict[str, states.TopicState]:
        """Returns the topics by name, with their settings and partitions. With `internal`, also returns the internal topics."""
        return self._call(lambda engine: states.topics(engine, internal=internal))

    def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[StoredRecord]:
        """Returns every stored record, in the order of partitions and offsets. Raises KeyError or IndexError if the partition
        does not exist.

        The result includes records of open and aborted transactions, and transaction markers. With `committed`, the result has
        only the records that a read_committed consumer gets.
        """
        return self._call(lambda engine: operations.records(engine, topic, partition, committed=committed))

    def producers(self, topic: str, partition: int) -> dict[int | str, ProducerEntry]:
        """Returns the validator's state of one partition: the epoch and the latest batches of each producer id."""

        def read(engine: Engine) -> dict[int | str, ProducerEntry]:
            return operations.producers(partition_of(topic_named(engine.cluster, topic), partition))

        return self._call(read)

    def produce(
        self,
        topic: str,
        *,
        key: Data = None,
        value: Data = None,
        headers: Mapping[str, Data] | Iterable[tuple[str, Data]] = (),
        partition: int = 0,
        timestamp: int | None = None,
    ) -> int:
        """Store a record without a client. If the topic does not exist, it is created. Returns the record's offset.

        A text is stored as UTF-8, and a dict or a list as JSON.
        """
        record = WireRecord(0, 0, _bytes("key", key), _bytes("value", value), _headers(headers))
        return self._change(lambda engine, now: operations.store(engine, topic, partition, record, timestamp, now))

    def acls(self) -> list[str]:
        """Returns the ACLs as texts, such as "allow User:alice READ TOPIC orders"."""
        return self._call(states.acls)

    # Groups, transactions, connections

    def groups(self) -> dict[str, states.Group]:
        """Returns every group by its id, with its state, its members and their partitions, and its committed offsets."""
        return self._call(states.groups)

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Returns the group's committed offset for each topic and partition. The result is empty if the group has committed
        nothing."""

        def read(engine: Engine) -> dict[tuple[str, int], int]:
            return {where: committed.offset for where, committed in engine.groups.offsets.of(group).items()}

        return self._call(read)

    def transactions(self) -> dict[str, states.Transaction]:
        """Returns every transactional id, with the state and the partitions of its transaction."""
        return self._call(states.transactions)

    def connection_count(self) -> int:
        """Returns the number of connections of clients."""
        return self._call(lambda engine: len(engine.connections))

    def audit(self, topics: Iterable[str] | str | None = None, *, intended: Rows | None = None) -> AuditReport:
        """Check in the stored records of `topics` (by default, of all topics) whether each record was delivered exactly once.

        `intended` are the records that the application meant to send: rows, or a journal's path (`wirebroker.audit.journal`).
        Raises KeyError if a topic does not exist, and ValueError if a row cannot be read.
        """
        from wirebroker.audit.report import AuditReport

        names = [topics] if isinstance(topics, str) else None if topics is None else list(topics)
        partitions, arrivals = self._call(lambda engine: operations.evidence(engine, names, self._clock.now()))
        return AuditReport(partitions, arrivals=arrivals, intended=intended, topics=names)

    # The cluster

    def partition(self, topic: str, partition: int = 0) -> PartitionState:
        """Returns a partition's leader, in-sync replicas and offsets. Raises KeyError or IndexError if the partition does not
        exist."""

        def read(engine: Engine) -> PartitionState:
            held = partition_of(topic_named(engine.cluster, topic), partition)
            return states.partition_state(engine, held)

        return self._call(read)

    def brokers(self) -> dict[int, states.Broker]:
        """Returns the brokers by id. Each entry has the broker's addresses, and tells whether the broker is up."""
        return self._call(states.brokers)

    def reset(self, *, soft: bool = False) -> None:
        """Return the broker to the state that it had at the start: close the connections, delete all data, and set the clock
        back.

        With `soft`, connections, topics, and groups with their members stay, so clients can continue. The logs are emptied,
        committed offsets move to the ends of the logs, and faults, trace and clock are reset. Raises RuntimeError if the broker
        has `data` and the reset is not soft, because the reset would delete the data.
        """
        self._in_loop(lambda host: host.reset(self._new_engine, soft=soft))

    def begin_test(self, name: str, topics: Topics = ()) -> None:
        """Reset the broker softly, note in the trace that the test `name` begins, and create missing topics and missing
        partitions. Raises ValueError if a topic cannot be created."""
        wanted = topic_specs(topics)
        self._in_loop(lambda host: host.begin_test(name))
        self._change(lambda engine, now: operations.provide(engine, wanted))

    def report(self) -> dict[str, str]:
        """Returns the report that pytest shows when a test fails: sections by title, such as the last verdicts and records
        since the last reset."""
        return self._call(sections)

    def snapshot(self) -> Snapshot:
        """Returns a copy of the broker's whole state and of its clock, for `restore`. Clients do not notice the copying.

        The records are not copied, so a snapshot takes little time and memory. Raises RuntimeError if the broker has `data`, if
        a broker is down, or if a replica lags, is being moved or is offline.
        """
        return self._in_loop(lambda host: host.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this MockKafka, and close the connections. A snapshot can be restored any number of times.

        Topics with their ids, records, producers, open transactions, groups, committed offsets, settings, ACLs, users, quotas
        and the clock return to the snapshot's state. Clients see a restart. Faults and trace are reset as by `reset`. Raises
        ValueError for a snapshot of another MockKafka.
        """
        if snapshot.of is not self._running:
            raise ValueError("this snapshot is of another MockKafka, or this MockKafka has been stopped; take a new snapshot")
        self._in_loop(lambda host: host.restore(snapshot, self._new_engine))


class ClockControl:
    """Moves a broker's clock. The timers inside clients do not follow this clock."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka

    def __repr__(self) -> str:
        return f"ClockControl({datetime.fromtimestamp(self.now() / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}+00:00)"

    def now(self) -> int:
        """Returns the time of the broker's clock, in ms since the epoch."""
        return self._kafka._clock.now()

    def advance(
        self, delta: timedelta | None = None, *, weeks: float = 0, days: float = 0, hours: float = 0, minutes: float = 0,
        seconds: float = 0, milliseconds: float = 0,
    ) -> None:  # fmt: skip
        """Move the clock forward by the sum of the arguments, and run every timer that becomes due, in order."""
        if delta is not None and not isinstance(delta, timedelta):
            raise TypeError(f"advance takes a timedelta, or arguments such as days=8, not {delta!r}")
        parts = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        ms = round(((delta or timedelta()) + parts) / timedelta(milliseconds=1))
        self._kafka._in_loop(lambda host: host.advance(ms))


class _Part(Deeds):
    """The base class of parts such as `kafka.quotas`, whose deeds act on the broker of a MockKafka."""

    def __init__(self, kafka: MockKafka) -> None:
        self._kafka = kafka

    @property
    def _engine(self) -> Engine:
        return self._kafka._engine

    def _perform(self, act: Callable[[], T], *, settles: bool) -> T:
        return self._kafka._perform(act, settles=settles)


class Quotas(_Part, QuotaDeeds):
    """The quotas of a broker's clients: limits of a user, a client id, a user with a client id, or an IP address.

    The name `"<default>"` stands for all users, client ids or addresses that have no limit of their own. A client that exceeds
    its limit has to wait. The waiting time is measured on the broker's clock.
    """

    def __repr__(self) -> str:
        engine = self._kafka._peek()
        limits = [] if engine is None else [f"{dict(entity)}: {held}" for entity, held in engine.cluster.quotas.limits.items()]
        return f"Quotas({', '.join(limits) or 'none'})"

    def all(self) -> list[states.Quota]:
        """Returns all quotas."""
        return self._kafka._call(states.quotas)

    def count_requests_as(self, milliseconds: float | None) -> None:
        """For the quota request_percentage, count each request as if it took this time. With None, the real time is measured
        again."""
        self._kafka._call(lambda engine: setattr(engine.throttle, "request_ms", milliseconds))


class TelemetryView(_Part, TelemetryDeeds):
    """The metrics that clients have pushed (KIP-714). Clients push metrics only with `MockKafka(telemetry=True)`."""

    def __repr__(self) -> str:
        engine = self._kafka._peek()
        return f"TelemetryView({len(engine.telemetry.pushes) if engine is not None else 0} pushes)"

    def points(self, client_id: str | None = None, metric: str | None = None) -> list[MetricPoint]:
        """Returns the metrics that clients have pushed, the oldest first. `client_id` limits the result to the metrics of one
        client, and `metric` to one metric. Needs the extra "telemetry" of the package.

        Raises RuntimeError if the extra is not installed, and ValueError if a push cannot be parsed.
        """
        from wirebroker.testing.metric_points import points

        return self._kafka._call(lambda engine: points(engine.telemetry.pushes, client_id, metric))


def _bytes(what: str, data: Data) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if isinstance(data, dict | list):
        return json.dumps(data).encode()
    raise TypeError(f"{what} is bytes, a text, a dict or a list for JSON, or None, not {data!r}; serialize it first")


def _headers(headers: Mapping[str, Data] | Iterable[tuple[str, Data]]) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"headers are a dict, or pairs of a name and its value, not {headers!r}")
    return tuple((name, _bytes(f"the header {name!r}", value)) for name, value in pairs)
