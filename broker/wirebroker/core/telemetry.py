"""The metrics that clients push to brokers (KIP-714): the subscriptions, and the metrics themselves (Kafka's
ClientMetricsManager).

Each broker remembers the clients that have requested a subscription from this broker, or have pushed metrics to it. A client
pushes the metrics of all subscriptions that match the client, at the shortest interval of these subscriptions. Times are in ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from kafkawire.checksums import crc32c
from kafkawire.compression import NONE, decompress
from kafkawire.errors import ErrorCode
from kafkawire.messages.push_telemetry import PushTelemetryRequest
from wirebroker.common.java_texts import JAVA_SPACE, trim
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.java_order import buckets_for, hash_order, java_hash, signed, uuid_hash
from wirebroker.core.patterns import Pattern, PatternError, compile_pattern

INTERVAL_MS = 300_000
"""A client's push interval in ms is at most this, and exactly this if its subscriptions have no interval."""
EVERYTHING = "*"
KEPT_MS = 60_000
"""If a client sends no requests, the broker remembers it for at least this time in ms."""
MOST_CLIENTS = 16_384
KEPT_PUSHES, KEPT_BYTES = 1000, 64 << 20
FORGIVEN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After one of these errors, a client may ask for its subscription again without waiting."""


class Push(NamedTuple):
    """The metrics that a client has pushed. `metrics` is a decompressed OTLP MetricsData."""

    time: int
    node: int
    client_id: str | None
    client_instance_id: bytes
    software: tuple[str, str]
    terminating: bool
    metrics: bytes


class Pushes:
    """The latest pushes, oldest first. At most `KEPT_PUSHES` pushes are kept, with at most `KEPT_BYTES` bytes in total. The
    latest push is always kept."""

    def __init__(self) -> None:
        self._kept: deque[Push] = deque()
        self._bytes = 0

    def __iter__(self) -> Iterator[Push]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def append(self, push: Push) -> None:
        """Keep a push, and forget the oldest pushes to make room."""
        self._kept.append(push)
        self._bytes += len(push.metrics)
        while len(self._kept) > KEPT_PUSHES or (self._bytes > KEPT_BYTES and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft().metrics)


class Subscription(NamedTuple):
    """A subscription: a condition for clients, and the metrics that the matching clients push."""

    match: tuple[tuple[str, Pattern | None], ...]
    """Names of attributes, each with a pattern. None stands for a pattern that Java accepts but RE2 refuses."""
    metrics: list[str]
    interval_ms: int

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        """Tells whether a client's attributes match all patterns."""
        for name, pattern in self.match:
            value = attributes.get(name)
            if value is None or pattern is None or not pattern.matches(value):
                return False
        return True


def subscription_of(settings: Mapping[str, str]) -> Subscription:
    """Returns the subscription with these settings. The patterns are compiled once, and not for each client."""
    match = (each.partition("=") for each in _listed(settings, "match"))
    patterns = tuple((trim(name), _compiled(trim(wanted))) for name, _, wanted in match)
    return Subscription(patterns, _listed(settings, "metrics"), int(settings.get("interval.ms", INTERVAL_MS)))


def _compiled(expression: str) -> Pattern | None:
    try:
        return compile_pattern(expression)
    except PatternError:
        return None


def push_of(
    request: PushTelemetryRequest, time: int, node: int, client_id: str | None, software: tuple[str, str], limit: int
) -> Push:
    """Returns the `Push` that a request contains. Raises WireError if the metrics cannot be decompressed to at most `limit`
    bytes.
    """
    codec, metrics = request.compression_type, request.metrics
    plain = bytes(metrics if codec == NONE else decompress(codec, metrics, limit))
    return Push(time, node, client_id, request.client_instance_id, software, request.terminating, plain)


class Client(Struct):
    """The state of a client instance on one broker."""

    subscription_id: int
    version: int
    """the value of `Telemetry._version` when the client's subscription was made"""
    metrics: list[str]
    interval_ms: int
    asked: int = 0
    pushed: int = 0
    terminating: bool = False
    error: ErrorCode = ErrorCode.NONE
    expires: int = 0

    def may_ask(self, now: int, *, forgives: bool) -> bool:
        """Tells whether the client may get its subscription now. With `forgives`, the client need not wait after one of the
        errors in `FORGIVEN`."""
        if now - max(self.asked, self.pushed) >= self.interval_ms:
            self.asked = now
            return True
        return forgives and self.error in FORGIVEN

    def may_push(self, now: int) -> bool:
        """Tells whether the client may push metrics now. A client may push metrics once after each request for its
        subscription, and then once in each push interval."""
        if self.asked > self.pushed or now - self.pushed >= self.interval_ms:
            self.pushed = now
            return True
        return False


class Telemetry(Struct):
    """The receiver of clients' metrics in a cluster."""

    configs: BrokerConfigs
    announced: bool = False
    """Tells whether the broker announces that it accepts metrics. As in Kafka, the broker accepts metrics even if it does not
    announce this."""
    pushes: Pushes = field(default_factory=Pushes)
    _clients: dict[tuple[int, bytes], Client] = {}
    _connections: dict[int, tuple[int, bytes]] = {}
    _settings: dict[str, dict[str, str]] = {}
    """The settings from which the subscriptions are made. A change replaces all settings of a subscription."""
    _subscriptions: dict[str, Subscription] = {}
    _version: int = 0

    def clear(self) -> None:
        """Forget all clients, because the brokers restart."""
        self._clients.clear()
        self._connections.clear()

    def move_time(self, ms: int) -> None:
        """The clock was moved by `ms`. Move all stored times by `ms`."""
        for client in self._clients.values():
            client.asked, client.pushed, client.expires = client.asked + ms, client.pushed + ms, client.expires + ms

    def disconnected(self, number: int) -> None:
        """Forget the client of a connection."""
        if (key := self._connections.pop(number, None)) is not None:
            self._clients.pop(key, None)

    def client(self, node: int, number: int, instance: bytes, attributes: Mapping[str, str | None], now: int) -> Client:
        """Returns the client with the instance id `instance`. This client has just sent a request on the connection
        `number`."""
        self._look_at_subscriptions()
        key = node, instance
        known = self._clients.pop(key, None)
        if known is None or known.version < self._version or now >= known.expires:
            known = self._new(instance, attributes)
            self._connections[number] = key
        self._clients[key] = known
        if len(self._clients) > MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        known.expires = now + max(KEPT_MS, 3 * known.interval_ms)
        return known

    def is_known(self, node: int, instance: bytes) -> bool:
        """Tells whether the broker knows a client with this instance id."""
        return (node, instance) in self._clients

    def _look_at_subscriptions(self) -> None:
        if (held := self.configs.client_metrics) != self._settings:
            self._subscriptions = {
                name: self._subscriptions[name] if settings is self._settings.get(name) else subscription_of(settings)
                for name, settings in held.items()
            }
            self._settings = dict(held)
            self._version += 1

    def _new(self, instance: bytes, attributes: Mapping[str, str | None]) -> Client:
        wanted: dict[str, None] = {}
        interval = INTERVAL_MS
        for each in self._subscriptions.values():
            if each.matches(attributes):
                wanted |= dict.fromkeys(each.metrics)
                interval = min(interval, each.interval_ms)
        metrics = [EVERYTHING] if EVERYTHING in wanted else hash_order(wanted, java_hash, buckets_for(len(wanted)))
        return Client(_subscription_id(metrics, interval, instance), self._version, metrics, interval)


def _listed(held: Mapping[str, str], name: str) -> list[str]:
    return [item for each in held.get(name, "").split(",") if (item := each.strip(JAVA_SPACE))]


def _subscription_id(metrics: list[str], interval: int, instance: bytes) -> int:
    """Returns the subscription id that Kafka's computeSubscriptionId would compute: a signed number of 32 bits."""
    text = f"[{', '.join(metrics)}]{interval}"
    return signed(crc32c(text.encode()) ^ uuid_hash(instance))
