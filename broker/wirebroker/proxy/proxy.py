"""The proxy as a synchronous machine, without sockets and without a clock.

    relay = proxy.connect(node_id, client_host, listener, now)
    relay.from_client(data, now)      bytes of the client have arrived
    relay.from_broker(data, now)      bytes of the broker have arrived
    proxy.take_effects()              bytes to send to either side, and connections to close

Like a broker's engine, the proxy has a fault plan. The proxy refuses fault rules that act inside a broker, because there is no
broker inside the proxy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from kafkawire.batches import BatchHeader
from kafkawire.declare import Message
from kafkawire.errors import WireError
from kafkawire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from kafkawire.messages.end_txn import EndTxnResponse
from kafkawire.messages.fetch import FetchResponse
from kafkawire.messages.init_producer_id import InitProducerIdResponse
from kafkawire.messages.metadata import MetadataResponse
from kafkawire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from kafkawire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kafkawire.primitives import Buffer
from kafkawire.registry import API_VERSIONS, FETCH, KEYS, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE, is_dropped
from wirebroker.common.bounded import Bounded, cut
from wirebroker.common.slices import pauses
from wirebroker.core.purgatory import Timers
from wirebroker.core.telemetry import Pushes, push_of
from wirebroker.faults.plan import FaultPlan
from wirebroker.proxy.addresses import Locate
from wirebroker.proxy.directory import LearnedDirectory, LearnedLeaders
from wirebroker.proxy.exchange import Forward, ForwardedExchange
from wirebroker.proxy.interest import Interest
from wirebroker.proxy.logins import LOGINS, Logins
from wirebroker.proxy.metrics import NO_RESPONSE, Metrics
from wirebroker.proxy.passing import COORDINATED, Passing
from wirebroker.proxy.recorder import ProxyRecorder, batches_of, batches_with_responses
from wirebroker.proxy.relay import Relay
from wirebroker.proxy.sender import Sender
from wirebroker.proxy.shadow import Shadow
from wirebroker.requests.connection import CLOSED, Connection
from wirebroker.requests.effects import Close, Effect
from wirebroker.requests.facts import facts_of
from wirebroker.security.principals import ANONYMOUS, Principal
from wirebroker.security.session import Session
from wirebroker.trace.recorder import UNMEASURED

FRAME_LIMIT = 256 * 1024 * 1024
"""The default limit on the size of a request, in bytes."""
STRANGERS_LIMIT = 512 * 1024
"""The size in bytes of the largest request that is kept whole before the client has authenticated (Kafka's
sasl.server.max.receive.size)."""
MOST_DESCRIBED = 100_000
"""The proxy remembers at most this many partitions for which it has sent a DescribeProducers."""
SHOWING = COORDINATED | {FETCH}
"""The APIs from which transactions and groups are learned."""
JUDGED = frozenset((PRODUCE, KEYS["InitProducerId"], KEYS["EndTxn"]))
"""Produce, because its batches get shadow verdicts, and other APIs on which these verdicts depend."""
ALWAYS_READ = frozenset((API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, KEYS["PushTelemetry"]))
"""The APIs whose messages the proxy decodes even without a trace."""
MEASURED_MS = 600_000
"""The proxy measures exchanges for this many ms after each request for the metrics."""
WATCHED_MS = 60_000
"""The proxy decodes each Fetch for this many ms after each request for groups or transactions."""
FEW = 1_000
"""If a Produce has at most this many batches, the proxy compares its response with the shadow's verdicts at once. Larger
responses are compared in slices."""
SHORT = 64 * FEW
"""A Produce of at most this many bytes has at most `FEW` batches, because the header of a batch has 61 bytes."""
METRICS_LIMIT = 16 * 1024 * 1024
"""The proxy decompresses at most this many bytes of the metrics that a client pushes."""


class Proxy:
    """Forwards the connections of clients to a cluster. `locate` returns the proxy's address for a node. `now` is in ms since
    the epoch."""

    def __init__(
        self, now: int, locate: Locate, *, seed: int = 0, refuses_faults: str = "", frame_limit: int = FRAME_LIMIT,
        strangers_limit: int = STRANGERS_LIMIT,
        oversized: Callable[[bytes, int, int], str] = lambda first, size, limit: f"a frame of {size} bytes",
    ) -> None:  # fmt: skip
        self.locate = locate
        self.refuses_faults = refuses_faults
        self.frame_limit = frame_limit
        self.strangers_limit = strangers_limit
        self._oversized = oversized
        self._time = now
        self.timers = Timers()
        self.effects: list[Effect | Forward] = []
        self.moment: Callable[[], int] = lambda: 0
        """A clock in µs for the times of traced exchanges. The clock returns 0 if times are not measured."""
        self.trace = ProxyRecorder(lambda: self.now)
        self.faults: FaultPlan | None = None
        """The fault plan if it has any rule, otherwise None."""
        self.plan = FaultPlan(self, seed)
        self.directory = LearnedDirectory()
        self.shadow = Shadow()
        self.logins = Logins(self.trace)
        self.leaders = LearnedLeaders()
        self.pushes = Pushes()
        """The metrics that clients have pushed and a broker has accepted (KIP-714)."""
        self.asks = False
        """Tells whether the proxy sends requests of its own. From the responses, the proxy learns about producers that wrote
        before the proxy started, and learns whether a broker serves a client.
        """
        self._described: Bounded[tuple[str, int], None] = Bounded(MOST_DESCRIBED)
        """The partitions that the proxy has already asked about."""
        self.metrics: Metrics | None = None
        """The metrics of forwarded exchanges, or None if no client has read the metrics recently."""
        self._measured = Metrics()
        self._measuring = Interest(self.timers, MEASURED_MS, self._choose)
        self.passing = Passing(self.directory, self.trace.passed)
        self._watching = Interest(self.timers, WATCHED_MS, self._choose)
        self._reads_all = False
        """Tells whether every request is decoded."""
        self._reads: frozenset[int] = frozenset()
        """The APIs whose requests are decoded even if `_reads_all` is not set."""
        self._uncompared: deque[tuple[ForwardedExchange, ProduceResponse]] = deque()
        """The responses that have not been compared with the shadow's verdicts yet."""
        self._compares = False
        self._learns: dict[int, Callable[[ForwardedExchange, Any], None]] = {
            **dict.fromkeys(LOGINS, self._logged_in), KEYS["InitProducerId"]: self._issued, KEYS["EndTxn"]: self._ended,
            PRODUCE: self._compare, KEYS["PushTelemetry"]: self._pushed, FETCH: self._fetched,
        }  # fmt: skip
        """For some APIs, the function that learns from their exchanges."""
        self._choose()
        self.relays: dict[Connection, Relay] = {}
        self._numbers = count(1)

    @property
    def now(self) -> int:
        """The time of the latest event."""
        return max(self._time, self.timers.reached)

    def rules_loaded(self, loaded: bool) -> None:
        """Remember that the fault plan's rules have changed. `loaded` tells whether the plan has any rule."""
        self.faults = self.plan if loaded else None

    @property
    def fault_broker(self) -> None:
        """None, because a proxy has no broker in which a fault could act."""
        return None

    def set_time(self, now: int) -> None:
        """Set the current time, in ms since the epoch."""
        self._time = max(self._time, now)

    def emit(self, effect: Effect) -> None:
        """Add an effect, which sends a response or closes a connection, to the effects that are queued already."""
        self.effects.append(effect)

    def take_effects(self) -> list[Effect | Forward]:
        """Returns the effects since the last call of this method, in order."""
        effects, self.effects = self.effects, []
        return effects

    def tick(self, now: int, enough: Callable[[], bool] | None = None) -> None:
        """Run the timers that are due. If `enough` is given, stop when `enough()` is true (see `Timers.run`)."""
        self.set_time(now)
        self.timers.run(now, enough)

    def deadline(self) -> int | None:
        """Returns the time at which `tick` has to be called next, in ms since the epoch, or None if no timer is set."""
        return self.timers.deadline()

    def trace_at(self, level: str) -> None:
        """Set the level of the trace. Raises ValueError if the level does not exist."""
        self.trace.set_level(level)
        self._choose()

    def _choose(self) -> None:
        """Choose the requests that are decoded."""
        self.metrics = self._measured if self._measuring.on else None
        self._reads_all = self.trace.exchanges or self._measuring.on
        self._reads = ALWAYS_READ
        if self.trace.verdicts:
            self._reads |= JUDGED | COORDINATED
        if self._watching.on:
            self._reads |= {FETCH}

    def measure(self) -> Metrics:
        """Returns the metrics of forwarded exchanges. The proxy measures exchanges for `MEASURED_MS` after each call of this
        method."""
        self._measuring.renew(self.now)
        return self._measured

    def watch(self) -> Passing:
        """Returns the transactions and groups in forwarded requests. For `WATCHED_MS` after each call of this method, the proxy
        also decodes every Fetch, in order to learn the lag of groups.
        """
        self._watching.renew(self.now)
        return self.passing

    @property
    def measures(self) -> bool:
        """Tells whether the times of exchanges are measured."""
        return self._reads_all

    # Connections

    def connect(self, node_id: int, client_host: str, listener: str, now: int, principal: Principal = ANONYMOUS) -> Relay:
        """Returns the relay for a client that has connected to a node's listener. While the node's id is unknown, `node_id` is
        −1.
        """
        self.set_time(now)
        connection = Connection(next(self._numbers), node_id, client_host, Session(listener, principal=principal))
        relay = self.relays[connection] = Relay(self, connection)
        if self.trace.changes:
            self.trace.opened(connection)
        if self.faults is not None:
            self.faults.connected(connection, now)
        return relay

    def disconnected(self, connection: Connection, reason: str, now: int) -> None:
        """Remember that the client or the broker has closed a connection. A second call does nothing."""
        self.set_time(now)
        relay = self.relays.pop(connection, None)
        if relay is not None:
            self.logins.ended(connection, relay.awaits_token)
            if self.trace.changes:
                self.trace.closed(connection, reason, relay.unanswered())
            connection.close()
            relay.ended()

    def close(self, connection: Connection, reason: str, *, reset: bool = False) -> None:
        """Close a client's connection and the connection to the broker. `reason` is for the log."""
        if connection.state is not CLOSED:
            self.disconnected(connection, reason, self.now)
            self.effects.append(Close(connection, reason, reset))

    def forward(self, connection: Connection, data: Buffer) -> None:
        """Send these bytes to the broker."""
        self.effects.append(Forward(connection, data))

    def oversized(self, first: bytes, size: int) -> str:
        """Returns the message about a request with an impossible size."""
        return self._oversized(first, size, self.frame_limit)

    # Requests and responses

    def looks_at(self, key: int, version: int) -> bool:
        """Tells whether a request of this API in this version has to be complete before the relay forwards it. The proxy then
        decodes the request, or traces that the request cannot be decoded."""
        faults = self.faults
        if self._reads_all or key in self._reads or (faults is not None and faults.concerns(key)):
            return True
        return self.trace.verdicts and is_dropped(key, version)

    def observe(self, exchange: ForwardedExchange, response: Message) -> None:
        """Learn from an exchange (producer ids, logins, groups and so on), and trace shadow verdicts."""
        if self.trace.verdicts and (ms := getattr(response, "throttle_time_ms", 0)) > 0:
            self.trace.held(exchange, ms)
        if exchange.api_key in SHOWING and self.trace.verdicts:
            sender = Sender(cut(exchange.client_id or ""), exchange.connection.client_host)
            self.passing.observe(self.now, exchange.api_key, sender, exchange.request, response)
        if (learn := self._learns.get(exchange.api_key)) is not None:
            learn(exchange, response)

    def _logged_in(self, exchange: ForwardedExchange, response: Message) -> None:
        self.logins.passed(exchange.connection, exchange.request, response, self.now)

    def _issued(self, exchange: ForwardedExchange, response: InitProducerIdResponse) -> None:
        if not response.error_code:
            self.shadow.issued(response.producer_id, response.producer_epoch)
            self.shadow.deadlines.given(response.producer_id, exchange.request.transaction_timeout_ms)  # type: ignore[attr-defined]

    def _ended(self, exchange: ForwardedExchange, response: EndTxnResponse) -> None:
        if not response.error_code:
            self.shadow.deadlines.ended(exchange.request.producer_id)  # type: ignore[attr-defined]

    def _fetched(self, exchange: ForwardedExchange, response: FetchResponse) -> None:
        self.directory.fetched(exchange.request, response, exchange.node_id)  # type: ignore[arg-type]
        if self.trace.exchanges:
            self.trace.fetched_all(exchange, response)

    def learned(self, response: Message) -> None:
        """Learn names of topics from a response, and leaders from a response to Metadata. If a topic was created again, forget
        what concerns the former topic."""
        if renewed := self.directory.learn(response):
            for forget in (self.leaders.forget, self.shadow.forget, self.passing.groups.forget_topics):
                forget(renewed)
        if self.trace.changes and isinstance(response, MetadataResponse):
            for change in self.leaders.learn(response, self.directory):
                self.trace.led(*change)

    def _pushed(self, exchange: ForwardedExchange, response: PushTelemetryResponse) -> None:
        request, connection = exchange.request, exchange.connection
        assert isinstance(request, PushTelemetryRequest)
        if response.error_code or not request.metrics:
            return
        try:
            client = exchange.client_id, connection.software
            push = push_of(request, self.now, connection.node_id, *client, METRICS_LIMIT)
        except WireError:  # the broker accepted the metrics, but they are too large or damaged
            return
        self.pushes.append(push)
        if self.trace.changes:
            self.trace.pushed(self.now, connection, exchange.client_id, request)

    def _compare(self, exchange: ForwardedExchange, response: ProduceResponse) -> None:
        if not self.trace.verdicts:
            return
        if not self._compares and (len(exchange.whole) <= SHORT or _partitions(exchange) <= FEW):
            for topic, batch, part in batches_with_responses(exchange, response):
                self._compare_batch(exchange, topic, batch, part)
            return
        self._uncompared.append((exchange, response))
        if not self._compares:
            self.timers.work(self._compare_all(), changes=False)

    def _compare_all(self) -> Iterator[None]:
        """Compare responses with the shadow's verdicts, in the order of the responses. Yields after each slice, because a
        request may have many partitions."""
        pause, self._compares = pauses(), True
        try:
            while self._uncompared:
                exchange, response = self._uncompared.popleft()
                yield  # end the turn in which the response was decoded
                for topic, batch, part in batches_with_responses(exchange, response):
                    yield from pause()
                    self._compare_batch(exchange, topic, batch, part)
        finally:
            self._compares = False

    def _compare_batch(
        self, exchange: ForwardedExchange, topic: str, batch: BatchHeader, part: PartitionProduceResponse
    ) -> None:
        request = exchange.request
        assert isinstance(request, ProduceRequest)
        judged = self.shadow.judged(topic, part.index, batch, part.error_code, part.base_offset, exchange.now)
        self.trace.compared(exchange, request.acks, topic, batch, part, judged)
        if not part.error_code and (request.transactional_id or self._watching.on):
            self._stored(exchange, request.transactional_id, topic, batch, part)

    def _stored(
        self, exchange: ForwardedExchange, transactional_id: str | None, topic: str, batch: BatchHeader,
        part: PartitionProduceResponse,
    ) -> None:  # fmt: skip
        """Note a stored batch. The batch moves the end of the log, and may belong to a transaction."""
        sender = Sender(cut(exchange.client_id or ""), exchange.connection.client_host)
        if transactional_id and batch.is_transactional:
            self.passing.wrote(self.now, sender, transactional_id, topic, batch, part.index)
        self.passing.groups.written(topic, part.index, part.base_offset + max(batch.records_count, 0))

    def question(self, exchange: ForwardedExchange) -> DescribeProducersRequest | None:
        """Returns the DescribeProducers request to send before this Produce, or None. The request asks about the partitions on
        which the broker may have a producer's state that the shadow does not have. The proxy asks only once about each
        partition.
        """
        topics: dict[str, list[int]] = {}
        for where, batch in batches_of(exchange).items():
            topic, partition = where
            if (
                topic
                and " " not in topic
                and where not in self._described
                and self.shadow.lacks(topic, partition, batch.producer_id)
            ):
                self._described.put(where, None)
                topics.setdefault(topic, []).append(partition)
        asked = [TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        return DescribeProducersRequest(topics=asked) if asked else None

    def described(self, response: DescribeProducersResponse) -> None:
        """Learn producers from the broker's response to the request that `question` has returned."""
        for topic in response.topics:
            for part in topic.partitions:
                for each in part.active_producers:
                    where = topic.name, part.partition_index
                    self.shadow.described(*where, each.producer_id, each.producer_epoch, each.last_sequence)

    def unanswered(self, exchange: ForwardedExchange) -> None:
        """Called if the response is lost, although the broker may have handled the request."""
        request = exchange.request
        if self.metrics is not None:
            self.metrics.passed(*exchange.sender, (NO_RESPONSE,), UNMEASURED)
        if isinstance(request, ProduceRequest):
            for batch in facts_of(request, exchange).batches:
                self.shadow.unanswered(batch.topic, batch.partition, batch.producer_id)


def _partitions(exchange: ForwardedExchange) -> int:
    """Returns the number of partitions in a Produce request."""
    request = exchange.request
    assert isinstance(request, ProduceRequest)
    return sum(len(topic.partition_data) for topic in request.topic_data)
