"""The engine takes requests and returns effects. The engine has no sockets and no clock.

    engine.receive(connection, frame, now)    handles one request
    engine.tick(now)                          runs the due timers
    engine.deadline()                         says when to call tick next
    engine.take_effects()                     takes the responses to send and connections to close

While a connection's `parked` is set, the driver must not call `receive` for it. So, as in Kafka, the requests of a connection
are handled one after the other, and their responses are sent in the same order.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from types import GeneratorType
from typing import TYPE_CHECKING, Literal, Unpack

from kafkawire.codec import decode
from kafkawire.declare import Message
from kafkawire.disk.damage import DataError
from kafkawire.errors import EncodeError, ProtocolError, TooManyElements, UnwritableText, error_name
from kafkawire.frames import KEY_VERSION_CORRELATION, SIZE, RequestHeader, read_request_header
from kafkawire.messages.produce import ProduceRequest
from kafkawire.registry import API_VERSIONS, KEYS, PRODUCE, SASL_AUTHENTICATE, api_name, request_class
from wirebroker.apis import Handler, handler_of, served_versions
from wirebroker.apis.directory import EngineDirectory
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.apis.permissions import Access, admit
from wirebroker.apis.produce_shape import produce_by_shape
from wirebroker.apis.refused import without_feature
from wirebroker.common.changes import RestartRow
from wirebroker.core.cluster import SHARED_CLUSTER_ID, Broker, Cluster, memory_log
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.controller import Controller
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.features import REFUSED_WITHOUT, SHARE
from wirebroker.core.fetch_sessions import KEEPS_FETCH_EPOCHS, FetchSessions
from wirebroker.core.groups import GroupCoordinator
from wirebroker.core.image import coordinators_of, load_coordinator
from wirebroker.core.log_dirs import LogDirs
from wirebroker.core.maintenance import Maintenance
from wirebroker.core.profile import Rules
from wirebroker.core.purgatory import Timers
from wirebroker.core.racks import racks
from wirebroker.core.releases import release
from wirebroker.core.releases.changes import since, until
from wirebroker.core.share.partitions import SharePartitions
from wirebroker.core.telemetry import Telemetry
from wirebroker.core.transactions import TransactionCoordinator
from wirebroker.engine.turns import Turns, steps_of
from wirebroker.requests.authentication import Authenticator
from wirebroker.requests.authorizer import Authorizer
from wirebroker.requests.connection import (
    CLOSED,
    SILENT,
    Connection,
    Decision,
    Delay,
    Disconnect,
    Ignore,
    Interceptor,
    Muted,
    Refuse,
    Send,
    Unauthenticated,
)
from wirebroker.requests.effects import Close, Effect, Outcome, Respond
from wirebroker.requests.facts import facts_of, groups_of, implied_by
from wirebroker.requests.throttling import Throttle
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.security.session import Session
from wirebroker.trace.broker import BrokerRecorder
from wirebroker.trace.recorder import names_of

if TYPE_CHECKING:
    from wirebroker.core.partition import Partition
    from wirebroker.deeds.broker import EngineBroker
    from wirebroker.engine.upgrading import Manner, Upgrading
    from wirebroker.faults.plan import FaultPlan
    from wirebroker.storage.store import FolderStore

logger = logging.getLogger("wirebroker")

TELLS_OWN_VERSIONS = since(
    "2.4", "the response to an ApiVersions request of an unknown version has the known versions", "KIP-511"
)
TELLS_METADATA_ERRORS = until("2.4", "Metadata version 9 before the end of a login closes the connection").then(
    "2.5", True, "Metadata version 9 before the end of a login gets a response"
)


FEW_ELEMENTS = 2048
"""A request whose arrays have more elements than this is decoded in a thread. One element takes about a microsecond."""


def first_node(settings: Mapping[str, str]) -> int:
    """Returns the id of the first broker: the value of `node.id` or `broker.id`, or 1. A value that is not a number is ignored
    here, because BrokerConfigs refuses it later."""
    try:
        number = int(settings.get("node.id", settings.get("broker.id", "1")))
    except ValueError:
        return 1
    return number if number >= 0 else 1


class Engine:
    """A cluster of brokers that does no I/O and never waits. The function `random_bytes(n)` returns bytes for new ids. `now` is
    in ms since the epoch."""

    def __init__(
        self,
        now: int,
        random_bytes: Callable[[int], bytes],
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        rules: Rules | None = None,
        full_checks: bool = True,
        cold_start: bool = True,
        max_versions: Mapping[int, int] | None = None,
        seed: int = 0,
        telemetry: bool = False,
        store: FolderStore | None = None,
        nodes: Mapping[int, str | None] | None = None,
        kafkas_defaults: bool = False,
    ) -> None:
        """With a `store`, the engine loads the stored cluster. `nodes` has the id and the rack of each broker. Without `nodes`,
        the number of brokers is `brokers`, and their ids begin at `node.id`. The setting `broker.rack` overrides the racks in
        `nodes`.

        With `kafkas_defaults`, settings that are not in `settings` have Kafka's defaults. Without `kafkas_defaults`, such
        settings have defaults that suit tests. Raises OSError if the store cannot be read.
        """
        self.timers = Timers()
        self._time = now
        self.rules = rules or Rules()
        first = first_node(settings or {})
        nodes = nodes or dict.fromkeys(range(first, first + brokers))
        self.configs = BrokerConfigs(
            settings or {}, brokers=len(nodes), of=release(self.rules.release), kafkas_defaults=kafkas_defaults
        )
        self._max_versions = max_versions or {}
        self._served: dict[Rules, Mapping[int, tuple[int, int]]] = {}
        """For each set of rules, the APIs that a broker with these rules serves, with the oldest and the newest version of
        each."""
        self.cluster = self._new_cluster(nodes, random_bytes, full_checks, cold_start, store)
        for broker in self.cluster.brokers.values():
            self.run_release(broker, self.rules)
        slots = self.configs.integer("max.incremental.fetch.session.cache.slots")
        self.fetch_sessions = FetchSessions(
            random_bytes, slots, lambda: KEEPS_FETCH_EPOCHS.of(self.configs.release), self.cluster.topic_name
        )
        self.groups = GroupCoordinator(self.cluster, now)
        self.directory = EngineDirectory(self.cluster, self.fetch_sessions, self.groups.offsets)
        self.shares = SharePartitions(self.cluster, self.groups.share_state)
        self.transactions = TransactionCoordinator(self.cluster, self.groups.offsets.end_transaction, now)
        self.coordinators = coordinators_of(self.groups, self.transactions)
        self.maintenance = Maintenance(self.cluster, now)
        self.controller = Controller(self.cluster, self._coordinator_moved, now)
        self.trace = BrokerRecorder(lambda: self.now)
        self.authenticator = Authenticator(self.cluster, self.trace.authenticated)
        self.authorizer = Authorizer(self.cluster, self.trace.refused)
        self.throttle = Throttle(self.cluster, self.trace.throttled)
        self.store = store
        if store is not None:
            store.load(self.cluster, self.coordinators, now)
        self.faults: FaultPlan | None = None
        """The fault plan if it has rules, else None."""
        self._seed = seed
        self._plan: FaultPlan | None = None
        self.telemetry = Telemetry(self.configs, announced=telemetry)
        self.effects: list[Effect] = []
        self.turns = Turns(self._settled)
        self.connections: set[Connection] = set()
        self.new_interceptor: Callable[[Connection], Interceptor | None] | None = None
        """Creates the interceptor of a new connection. See `wirebroker.requests.connection`."""
        self.at_restart: list[Callable[[], object]] = []
        """The functions that a restart calls after it has closed all connections. They close what the engine does not know."""
        self.at_soft_reset: list[Callable[[int], None]] = []
        """The functions that a soft reset calls with the current time. These functions restore the topics and settings with
        which the broker was started.
        """
        self.upgrading: Upgrading | None = None
        """The rolling upgrade that is in progress."""
        self._numbers = count(1)
        self._handlers: dict[int, Handler] = {}
        self._features_changed()

    def _new_cluster(
        self, nodes: Mapping[int, str | None], random_bytes: Callable[[int], bytes], full_checks: bool, cold_start: bool,
        store: FolderStore | None,
    ) -> Cluster:  # fmt: skip
        """Returns a cluster of these nodes. The cluster's logs are in the store, or in memory if there is no store."""
        in_racks = racks(self.configs.text("broker.rack"), len(nodes))
        return Cluster(
            [Broker(node_id, rack=named or rack) for (node_id, rack), named in zip(nodes.items(), in_racks, strict=True)],
            self.configs, self.rules, self.timers, random_bytes, full_checks=full_checks, cold_start=cold_start,
            cluster_id=SHARED_CLUSTER_ID if store is None else store.cluster_id,
            open_log=memory_log if store is None else store.open_log,
            log_dirs=LogDirs(self.configs, *(() if store is None else (store.log_dirs, store.directory_ids))),
        )  # fmt: skip

    @property
    def plan(self) -> FaultPlan:
        """The fault plan of this engine. The plan is created when it is first needed."""
        if self._plan is None:
            from wirebroker.faults.plan import FaultPlan

            self._plan = FaultPlan(self, self._seed)
        return self._plan

    def rules_loaded(self, loaded: bool) -> None:
        """Follow a change of the fault plan's rules. `loaded` tells whether the plan has any rule."""
        self.faults = self._plan if loaded else None

    @property
    def refuses_faults(self) -> str:
        """The reason why fault rules are refused. This engine accepts all fault rules, so the reason is ""."""
        return ""

    @property
    def fault_broker(self) -> EngineBroker:
        """The interface through which faults change the state of this broker."""
        from wirebroker.deeds.broker import EngineBroker

        return EngineBroker(self)

    @property
    def now(self) -> int:
        """The time of the latest request, timer or call of `set_time`. Requests on the fast path do not update this time."""
        return max(self._time, self.timers.reached)

    def set_time(self, now: int) -> None:
        """Set the current time. The driver calls this before it calls a method that has no argument for the time."""
        self._time = max(self._time, now)

    def move_time(self, ms: int) -> None:
        """The clock was moved by `ms` (negative if it was moved back). Move all stored times by `ms`, so that timers and
        sessions keep their remaining time."""
        self._time += ms
        self.timers.move(ms)
        self.cluster.move_time(ms)
        self.groups.move_time(ms)
        self.transactions.move_time(ms)
        self.telemetry.move_time(ms)
        self.fetch_sessions.move_time(ms)
        for connection in self.connections:
            connection.session.move_time(ms)

    def trace_at(self, level: str) -> None:
        """Set the level of the trace. Raises ValueError for a level that does not exist."""
        self.trace.set_level(level)
        self.cluster.watch = self.trace.changed if self.trace.changes else None
        for connection in self.connections:
            connection.produce_shape = None  # the trace needs `Exchange` objects, which the fast path does not create

    def alter_features(self, levels: Mapping[str, int]) -> None:
        """Change the levels of features, without the checks of Kafka's controller. Raises KeyError for an unknown feature."""
        self.cluster.alter_features(levels, self._features_changed)

    def begin_with(self, levels: Mapping[str, int]) -> None:
        """Set the feature levels of a new cluster. Raises KeyError for an unknown feature."""
        self.configs.features.update(levels)
        self.configs.without_eligible_replicas({})
        self._features_changed()

    def _features_changed(self) -> None:
        """Refuse each API that needs a feature if the feature's level is 0. If share.version is 0, also forget the share
        sessions."""
        levels = self.configs.features
        for feature, names in REFUSED_WITHOUT.items():
            for key in map(KEYS.__getitem__, names):
                if not levels[feature]:
                    self._handlers[key] = without_feature
                elif self._handlers.get(key) is without_feature:
                    del self._handlers[key]
        if not levels[SHARE]:
            self.shares.restart()

    def connect(
        self, node_id: int, client_host: str = "127.0.0.1", listener: str = "PLAINTEXT", now: int = 0,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT, subject: str = "",
    ) -> Connection:  # fmt: skip
        """Add a client's connection to the broker `node_id`. `subject` is the subject of the client certificate that TLS has
        verified."""
        connection = Connection(next(self._numbers), node_id, client_host, Session(listener, protocol))
        connection.versions = self.cluster.brokers[node_id].versions
        self.connections.add(connection)
        connection.interceptor = self.authenticator.interceptor(connection)
        if subject:
            self.authenticator.by_certificate(connection, subject)
        if self.new_interceptor is not None:
            connection.interceptor = self.new_interceptor(connection)
        if self.trace.changes:
            self.set_time(now)
            self.trace.opened(connection)
        if self.cluster.quotas.on:
            self._hold_back(connection, now)
        return connection

    def _hold_back(self, connection: Connection, now: int) -> None:
        """If the connection exceeds the connection quota of the client's address, serve no requests on it, and close it after a
        delay (KIP-612)."""
        exceeded = self.throttle.connecting(connection, now)
        if exceeded is not None:
            self.throttle.note(connection, None, "", *exceeded)
            why = f"too many connections from {connection.client_host}: {exceeded.quota} is {exceeded.limit:g}"
            connection.parked = Muted(self.timers.at(now + exceeded.ms, lambda _: self.close(connection, why)))

    def disconnected(self, connection: Connection, reason: str = "the client closed it", now: int = 0) -> None:
        """Remove a connection that the client has closed. If a request is parked, its response is dropped."""
        if self.trace.changes and connection.state is not CLOSED:
            self.set_time(now)
            self.trace.closed(connection, reason)
        connection.close()
        parked, connection.parked = connection.parked, None
        if parked is not None:
            parked.left()
        self.connections.discard(connection)
        self.shares.disconnected(connection.number, self.now)
        self.telemetry.disconnected(connection.number)

    def close(self, connection: Connection, reason: str, *, reset: bool = False) -> None:
        """Close the connection. `reason` is a sentence for the log. With `reset`, responses that are not sent yet are
        dropped."""
        if connection.state is not CLOSED:
            self.disconnected(connection, reason)
            self.effects.append(Close(connection, reason, reset))

    def receive(self, connection: Connection, frame: memoryview, now: int, owned: bool = False) -> None:
        """Handle one request. `frame` is the request frame without its size field. With `owned`, the engine may keep the
        frame's buffer instead of a copy."""
        try:
            interceptor = connection.interceptor
            decision = None if interceptor is None else interceptor.decide(connection, frame, now)
            if decision is not None and self._ends(connection, decision, now):
                return
            key, version, correlation_id = KEY_VERSION_CORRELATION.unpack_from(frame)
            faults = self.faults
            if faults is not None and (isinstance(decision, Refuse) or not faults.arrived(key)):
                faults = None
            shape = connection.produce_shape
            if (
                shape is not None
                and faults is None
                and decision is None
                and key == PRODUCE
                and version == shape.version
                and produce_by_shape(self, connection, shape, frame, correlation_id, now, owned)
            ):
                return
            oldest, newest = connection.versions.get(key, (1, 0))
            if not oldest <= version <= newest:
                self._unsupported(connection, frame, now)
                return
            header = read_request_header(frame)
            most = FEW_ELEMENTS if self.turns.wake is not None and decision is None else None
            request, _ = decode(request_class(key), frame, version, header.end, most)
            if key not in self._handlers:
                self._handler(key)
        except (OSError, ImportError) as failure:  # modules are imported when they are first needed
            self.close(connection, f"{api_name(key)} cannot be loaded: {failure}; perhaps too many files are open")
            return
        except struct.error:
            self.close(connection, f"the client's request of {len(frame)} bytes has no header")
            return
        except ProtocolError as damage:
            if isinstance(damage, TooManyElements) and most is not None:
                self._receive_long(connection, frame, header, now, owned)
            else:
                self.close(connection, f"the client's request cannot be read: {damage}")
            return
        exchange = self._exchange(connection, header, now, frame, request)
        if self.trace.exchanges:
            self.trace.requested(request, exchange)
        if decision is not None and self._refuses(request, exchange, decision):
            return
        if faults is not None:
            faults.receive(request, exchange)
        else:
            self.handle(request, exchange)

    def _exchange(
        self, connection: Connection, header: RequestHeader, now: int, frame: memoryview | None = None,
        request: Message | None = None,
    ) -> Exchange:  # fmt: skip
        """Returns the exchange of a request. If `frame` is given, the engine's time is set to `now`, and the request counts
        towards quotas."""
        key, version, correlation_id, client_id, _ = header
        exchange = Exchange(self, connection, key, version, correlation_id, client_id, now, frame, request)
        if frame is not None:
            self._time = now
            if self.cluster.quotas.on:
                self.throttle.begin(exchange, len(frame))
        return exchange

    def _ends(self, connection: Connection, decision: Decision, now: int) -> bool:
        """Carry out the interceptor's decision if it ends the request. Returns False if the request has to be decoded."""
        if isinstance(decision, Disconnect):
            self.close(connection, decision.reason)
        elif isinstance(decision, Send):
            self.effects.append(Respond(connection, [SIZE.pack(len(decision.token)) + decision.token]))
        elif isinstance(decision, Unauthenticated):
            exchange = self._exchange(connection, RequestHeader(SASL_AUTHENTICATE, 0, 0, None, 0), now)
            self.unauthenticated(exchange, None, decision.cause)
        else:
            return isinstance(decision, Ignore)
        return True

    def _refuses(self, request: Message, exchange: Exchange, decision: Decision) -> bool:
        """Carry out the interceptor's decision about a decoded request. Returns False if the request is to be handled, perhaps
        with a delay."""
        if not isinstance(decision, Refuse):
            exchange.delay_ms = decision.ms if isinstance(decision, Delay) else 0
            return False
        from wirebroker.requests.errors import refuse

        code, unheard = decision.error_code, isinstance(request, ProduceRequest) and request.acks == 0
        if not TELLS_METADATA_ERRORS.of(self.configs.release):
            unheard |= exchange.api_key == KEYS["Metadata"] and exchange.version >= 9
        response = None if unheard else refuse(request, code, exchange)
        if decision.ends_by:
            self.unauthenticated(exchange, response, decision.ends_by)
        elif response is None:  # as in Kafka: there is no response that could tell the client
            exchange.close(f"the client's Produce with acks=0 is refused: {error_name(code)}")
        else:
            exchange.respond(response)
        return True

    def unauthenticated(self, exchange: Exchange, response: Message | None, cause: str) -> Outcome:
        """Wait for connection.failed.authentication.delay.ms. Then send `response`, if it is given, and close the
        connection."""

        def end(_: int) -> None:
            if response is not None:
                exchange.ends_by = cause
                exchange.respond(response)
            if response is None or exchange.connection.parked is not exchange:  # otherwise the response is delayed
                exchange.close(cause)

        delay = self.configs.integer("connection.failed.authentication.delay.ms")
        if delay:
            exchange.park()
            self.timers.at(exchange.now + delay, end)
        else:
            end(exchange.now)
        return Outcome.PARKED if delay else Outcome.CLOSED

    def handle(self, request: Message, exchange: Exchange) -> None:
        """Call the handler of the request's API. The handler responds now or later."""
        try:
            outcome = self._outcome(request, exchange)
            if isinstance(outcome, GeneratorType):
                outcome = self.turns.begin(exchange, outcome)
            if self.cluster.decisions.pending and not self._settled(exchange):
                return
        except UnwritableText as wrong:  # nothing has changed, and Kafka responds with UNKNOWN_SERVER_ERROR
            exchange.cannot_say(wrong)
            return
        if outcome is Outcome.PARKED:
            exchange.park()
        elif not isinstance(outcome, Outcome):
            exchange.respond(outcome)  # type: ignore[arg-type]
        else:
            exchange.access = None

    def _settled(self, exchange: Exchange) -> bool:
        """Write down what a request has changed. If the write fails, refuse the request and return False."""
        failed = self.cluster.decisions.write_down(exchange.now)
        if failed is not None:
            exchange.stop_waiting()
        if isinstance(failed, EncodeError):
            exchange.cannot_say(failed)
        elif isinstance(failed, OSError):
            exchange.close(f"the change cannot be written to the data directory: {failed}")
        elif failed is not None:
            raise failed
        return failed is None

    def _outcome(self, request: Message, exchange: Exchange) -> Message | Outcome | Steps:
        """Call the handler of the request's API and return its outcome. If the client is not authorized, return the refusal."""
        changes = self.groups.changes
        if changes.running and changes.concern(groups_of(request)):
            return self._after_changes(request, exchange)
        key = exchange.api_key
        handler = self._handlers.get(key) or self._handler(key)
        if not self.authorizer.on or handler is without_feature:
            return handler(request, exchange)
        return self._admitted(request, exchange, handler)

    def _admitted(self, request: Message, exchange: Exchange, handler: Handler) -> Steps:
        """Handle the authorized part of a request."""
        access = exchange.access = Access(exchange)
        left = yield from admit(request, access)
        unheard = isinstance(request, ProduceRequest) and request.acks == 0 and access.refused is not None
        if left is not None:
            yield from self.groups.changes.settled(groups_of(left))  # a change may have begun meanwhile
            outcome = yield from steps_of(handler(left, exchange))
            return exchange.close("the client's Produce with acks=0 names a forbidden topic") if unheard else outcome
        if unheard:
            return exchange.close("the client's Produce with acks=0 is not allowed")
        exchange.access = None
        return access.refused  # type: ignore[no-any-return]

    def _after_changes(self, request: Message, exchange: Exchange) -> Steps:
        """Wait until no change of the request's groups is in progress. Then handle the request."""
        yield from self.groups.changes.settled(groups_of(request))
        return (yield from steps_of(self._outcome(request, exchange)))

    def go_on(self, exchange: Exchange, steps: Steps) -> None:
        """Continue a parked request. The `steps` respond at once, or work in slices and then respond."""
        self.turns.go_on(exchange, steps)

    def _handler(self, key: int) -> Handler:
        handler = self._handlers.get(key)
        if handler is None:
            handler = self._handlers[key] = handler_of(key)
        return handler

    def _receive_long(self, connection: Connection, frame: memoryview, header: RequestHeader, now: int, owned: bool) -> None:
        """Handle a request that takes long to decode. A thread decodes the request."""
        whole = frame if owned else memoryview(bytes(frame))
        exchange = self._exchange(connection, header, now, whole)
        exchange.frame = None  # until the request is decoded, its fields are unknown
        self.turns.begin(exchange, self._read_offloaded(exchange, whole, header.end))
        exchange.park()

    def _read_offloaded(self, exchange: Exchange, frame: memoryview, start: int) -> Steps:
        key, version = exchange.api_key, exchange.version
        try:
            request, _ = yield Offload(partial(decode, request_class(key), frame, version, start))
        except ProtocolError as damage:
            return exchange.close(f"the client's request cannot be read: {damage}")
        exchange.request = request
        traced, concerned = self.trace.exchanges, self.faults is not None and self.faults.concerns(key)
        if traced or concerned:
            facts = yield Offload(partial(facts_of, request, exchange, list(implied_by(request, exchange))))
        if traced:
            self.trace.requested(request, exchange, (yield Offload(partial(names_of, facts))))
        if not concerned:
            return (yield from steps_of(self._outcome(request, exchange)))
        connection, exchange.frame = exchange.connection, frame
        connection.parked = None
        self.plan.receive(request, exchange, facts)
        if connection.parked is None and connection.state is not CLOSED:
            exchange.release()
        return Outcome.PARKED

    def _unsupported(self, connection: Connection, frame: memoryview, now: int) -> None:
        """Handle a request of an unsupported version. As in Kafka, close the connection. Only ApiVersions gets a response, in
        version 0, which every client can read."""
        key, version, correlation_id = KEY_VERSION_CORRELATION.unpack_from(frame)
        if key == API_VERSIONS:
            from wirebroker.apis.api_versions import unsupported_version

            exchange = self._exchange(connection, RequestHeader(key, 0, correlation_id, None, 0), now)
            tells = TELLS_OWN_VERSIONS.of(self.cluster.configs.release)
            exchange.respond(unsupported_version(connection.versions[key], tells=tells))
            return
        offered = connection.versions.get(key)
        if self.trace.verdicts:
            self.set_time(now)
            self.trace.unsupported(connection, frame, *(offered or (0, -1)))
        what = f"versions {offered[0]} to {offered[1]} are offered" if offered else "this API is not offered"
        self.close(connection, f"the client requested {api_name(key)} version {version}; {what}")

    def tick(self, now: int, enough: Callable[[], bool] | None = None) -> None:
        """Run the due timers in order. If `enough` is given, stop when `enough()` is true (see `Timers.run`)."""
        self.timers.run(now, enough)

    def deadline(self) -> int | None:
        """Returns when `tick` has to be called next, in ms since the epoch, or None if no timer is set."""
        return self.timers.deadline()

    def emit(self, effect: Effect) -> None:
        """Add an effect, which the next `take_effects` will return: a response to send, or a connection to close."""
        self.effects.append(effect)

    def take_effects(self) -> list[Effect]:
        """Returns the effects that were added since the last call of this method, in order."""
        effects, self.effects = self.effects, []
        return effects

    def restart(self, mode: str, now: int) -> None:
        """Stop all brokers and start them again. In the mode "clean", the brokers shut down cleanly; in the mode "kill", the
        brokers are killed.

        The brokers keep the state that Kafka would find on its disk. Connections are closed. Sessions and waiting requests are
        dropped.
        """
        if mode not in ("clean", "kill"):
            raise ValueError(f"a restart is 'clean' or 'kill', not {mode!r}")
        self.set_time(now)
        self.controller.finish()
        self.shares.restart()
        for connection in sorted(self.connections, key=lambda each: each.number):
            self.close(connection, "the broker restarts")
        for close in self.at_restart:
            close()
        self.timers.clear()
        self.cluster.deleting.clear()
        self.throttle.restarted()
        self.telemetry.clear()
        self.turns.drop()
        if self._plan is not None:
            self._plan.restarted()
        self.cluster.log_dirs.restarted()
        for node_id, broker in self.cluster.brokers.items():
            broker.start()
            self.cluster.producer_ids.restarted(node_id)
        if self.store is not None:
            self.store.restart(mode, now)
        for partition in self.cluster.partitions():
            held = partition.replicas
            partition.restart(mode, now)
            if partition.replicas != held:  # the restart has completed a reassignment
                self.cluster.log_dirs.follow(partition)
        self.fetch_sessions.clear()
        self.groups.restart(now)
        for partition in self.cluster.coordinator_logs():
            if partition.lost_records:
                self._coordinator_moved(partition, now)
        self.transactions.restart(now)
        self.maintenance = Maintenance(self.cluster, now)
        self.controller.restart(now)
        self.cluster.report(RestartRow(mode))
        if self.store is not None:
            self.store.restarted(now)
        if self.upgrading is not None:
            self.upgrading.restarted(now)

    def kill_broker(self, node_id: int, now: int) -> None:
        """Stop a broker as kill −9 does: its connections break, and other brokers lead its partitions. Raises ValueError if the
        broker is down.

        If the broker led many partitions, their new leaders are elected in slices. `controller.finish` elects the rest at once.
        """
        self._end_broker(node_id, now, "killed")

    def stop_broker(self, node_id: int, now: int) -> None:
        """Shut down a broker cleanly. This has the same effect as `kill_broker`, because followers always have all records."""
        self._end_broker(node_id, now, "stopped")

    def _end_broker(self, node_id: int, now: int, how: Literal["killed", "stopped"]) -> None:
        self.shares.broker_down(node_id)
        self.close_all_at(node_id, f"broker {node_id} was {how}")
        self.turns.drop(node_id)
        if self._plan is not None:
            self._plan.killed(node_id)
        self.controller.broker_down(node_id, now, how)
        self.fetch_sessions.clear_at(node_id)
        self.throttle.restarted(node_id)
        self.cluster.producer_ids.restarted(node_id)

    def close_all_at(self, node_id: int, reason: str) -> None:
        """Close the connections to a broker. `reason` is a sentence for the log."""
        for connection in sorted(self.connections, key=lambda each: each.number):
            if connection.node_id == node_id:
                self.close(connection, reason)

    def run_release(self, broker: Broker, rules: Rules) -> None:
        """Change the release of a broker to the release of `rules`. The broker must have no connections."""
        if rules not in self._served:
            self._served[rules] = served_versions(rules, self._max_versions)
        broker.rules, broker.versions = rules, self._served[rules]

    def become(self, rules: Rules) -> None:
        """Change the cluster's rules to `rules`, because all brokers now have these rules."""
        self.rules = rules
        self.cluster.become(rules)

    def new_upgrade(self, to: str, **manner: Unpack[Manner]) -> Upgrading:
        """Returns a rolling upgrade. The upgrade begins when its method `proceed` is called (`wirebroker.engine.upgrading`).
        Raises ValueError if the upgrade is refused.
        """
        from wirebroker.engine.upgrading import upgrading

        return upgrading(self, to, **manner)

    def upgrade_from(self, first: int, to: str, pause_ms: int) -> Upgrading:
        """Returns a rolling upgrade for the fault that upgrades brokers. The broker `first` is upgraded first."""
        return self.new_upgrade(to, first=first, pause_ms=pause_ms)

    def start_broker(self, node_id: int, now: int) -> None:
        """Start a broker that is down. Does nothing if the broker is up."""
        self.controller.broker_up(node_id, now)

    def clear_faults(self) -> None:
        """Unload all fault rules, let the delayed requests continue, close the silenced connections, and let the sessions that
        a fault has ended continue."""
        if self._plan is not None:
            self._plan.clear()
        for connection in list(self.connections):
            self.authenticator.renew(connection)
            if connection.state is SILENT:
                self.close(connection, "a fault has silenced it, and a reset unloads all faults")

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Handle the deletion of a topic. If the topic is a coordinator's internal topic, the coordinator forgets its state.
        For any other topic, `groups.forget_topics` will forget the offsets that groups have committed for it.
        """
        if (coordinator := self.coordinators.get(topic)) is not None:
            coordinator.log_deleted()
        else:
            self.groups.topic_deleted(topic, topic_id)

    def _coordinator_moved(self, partition: Partition, now: int) -> None:
        """Handle a new leader, or the loss of the leader, of a coordinators' partition. If the partition has lost records, the
        coordinator reads its log again: it forgets what only the lost records said."""
        coordinator = self.coordinators[partition.topic]
        if not partition.lost_records or partition.leader == NO_LEADER:
            coordinator.moved(partition.index, now)
            return
        partition.lost_records = False
        coordinator.unload(partition.index)
        try:
            load_coordinator(partition, coordinator, now)
        except DataError as damage:
            log = partition.topic, partition.index
            logger.error("the coordinator of %s-%d goes on without the records of this log: %s", *log, damage)
