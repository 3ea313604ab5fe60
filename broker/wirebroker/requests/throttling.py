"""Computes how long clients have to wait after they exceed their quotas (Kafka's ClientQuotaManager and related classes).

Each broker measures its own clients, and the controller measures changes of topics. A rate is measured only while it has a
quota. Times are ms of the broker's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkawire.disk.metadata import QuotaEntity
from wirebroker.core.java_order import signed
from wirebroker.core.quotas import (
    CONNECTION,
    FETCH,
    MUTATION,
    REQUEST,
    STRICT_QUOTAS,
    KeyedQuotas,
    Measured,
    Rate,
    TokenBucket,
    Window,
)
from wirebroker.core.releases.changes import until
from wirebroker.requests.connection import Connection

if TYPE_CHECKING:
    from wirebroker.core.cluster import Cluster

LIMITS_MUTATIONS = until("3.3", "the quota controller_mutation_rate has no effect with KRaft", "KIP-833").then(
    "3.5", True, "the quota controller_mutation_rate takes effect with KRaft", "KAFKA-14351"
)

MANY = 10_000
"""If there are at least this many meters, unused meters are dropped before a new meter is made."""
UNLIMITED = 2**31 - 1


class Exceeded(NamedTuple):
    """A quota that a client has exceeded."""

    ms: int
    """how long the client has to wait"""
    quota: str
    whose: str
    """the quota's entity, in words"""
    limit: float


Note = Callable[[Connection, "str | None", str, int, str, str, float], None]
"""The type of a function that is called whenever a client is throttled. Its arguments are the connection, the client id, the
API, and the fields of `Exceeded`.
"""


class ThrottledExchange(Protocol):
    """The attributes of a request's exchange that the quotas need."""

    connection: Connection
    client_id: str | None
    api_key: int
    version: int
    size: int


def words_of(entity: QuotaEntity) -> str:
    """Returns a quota entity in words, such as `user alice, default client-id`."""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in sorted(entity, reverse=True))


class Throttle:
    """Measures what clients use of their quotas, and calls `note` whenever a client is throttled."""

    def __init__(self, cluster: Cluster, note: Note) -> None:
        self._cluster = cluster
        self.note = note
        self.stopwatch: Callable[[], int] = lambda: 0
        """Returns the machine's time in ns. It is used to measure how long the handling of a request takes."""
        self.request_ms: float | None = None
        """The duration in ms that each request is assumed to take; None if durations are measured."""
        self._rates: dict[tuple[int, str, Measured], Rate] = {}
        self._buckets: dict[Measured, TokenBucket] = {}
        self._current: tuple[ThrottledExchange | None, int] = (None, 0)

    def _quotas(self, key: str) -> KeyedQuotas:
        return self._cluster.quotas.keyed[key]

    @property
    def _window(self) -> Window:
        configs = self._cluster.configs
        return Window(configs.integer("quota.window.num"), configs.integer("quota.window.size.seconds") * 1000)

    def restarted(self, node_id: int | None = None) -> None:
        """Forget the measurements of this broker, or of all brokers."""
        self._rates = {key: rate for key, rate in self._rates.items() if node_id not in (None, key[0])}
        if node_id is None:
            self._buckets.clear()

    def begin(self, exchange: ThrottledExchange, size: int) -> None:
        """Register that a request of `size` bytes is now being handled."""
        exchange.size = size
        self._current = exchange, self.stopwatch()

    # Rates

    def use(self, exchange: ThrottledExchange, key: str, value: float, now: int) -> Exceeded | None:
        """Add `value` to the client's use of the quota `key`. Returns the quota if the client has exceeded it, else None."""
        quotas = self._quotas(key)
        if not quotas:
            return None
        limit, rate = self._meter(exchange, key, quotas, now)
        rate.record(self._window, value, now)
        if limit is None:
            return None
        ms = rate.throttle_ms(self._window, limit[0], now)
        ms = min(ms, self._window.ms) if key == REQUEST else signed(ms)
        return Exceeded(ms, key, words_of(limit[1]), limit[0]) if ms > 0 else None

    def _meter(
        self, exchange: ThrottledExchange, key: str, quotas: KeyedQuotas, now: int
    ) -> tuple[tuple[float, QuotaEntity] | None, Rate]:
        connection = exchange.connection
        who = quotas.measured(connection.session.principal.name, exchange.client_id)
        rate = self._rates.get((connection.node_id, key, who))
        if rate is None:
            if len(self._rates) >= MANY:
                self._rates = {known: rate for known, rate in self._rates.items() if rate.measure(self._window, now)}
            rate = self._rates[connection.node_id, key, who] = Rate()
        return quotas.limit(who), rate

    def unuse(self, exchange: ThrottledExchange, key: str, value: float, now: int) -> None:
        """Subtract what `use` has added, because the response was not sent."""
        if quotas := self._quotas(key):
            self._meter(exchange, key, quotas, now)[1].record(self._window, -value, now)

    def handled(self, exchange: ThrottledExchange, now: int) -> Exceeded | None:
        """Add the duration of a request's handling to the client's use of the request quota. Returns the request quota
        if the client has exceeded it, else None.
        """
        if not self._quotas(REQUEST):
            return None
        current, began = self._current
        ns = (self.stopwatch() - began if current is exchange else 0) if self.request_ms is None else self.request_ms * 1e6
        return self.use(exchange, REQUEST, ns * (100.0 / 1e9), now)

    def room(self, exchange: ThrottledExchange) -> int:
        """Returns the largest allowed size of a Fetch response in bytes: the number of bytes that the fetch quota allows in a
        whole window.
        """
        quotas = self._quotas(FETCH)
        limit = (
            quotas.limit(quotas.measured(exchange.connection.session.principal.name, exchange.client_id)) if quotas else None
        )
        if limit is None:
            return UNLIMITED
        window = self._window
        return max(0, int(min(limit[0] * (window.samples - 1) * (window.ms // 1000), UNLIMITED)))

    # Changes of topics

    def mutations(self, exchange: ThrottledExchange, strict_since: int, *, validates: bool = False) -> Mutations:
        """Returns an object that counts the request's topic changes against the client's quota. Since version `strict_since` of
        the API, a request that exceeds the quota is refused. `validates` says that the request only validates and changes
        nothing.
        """
        release = self._cluster.configs.release
        if not LIMITS_MUTATIONS.of(release) or (validates and not STRICT_QUOTAS.of(release)):
            return Mutations()
        if not self._cluster.quotas.on or not (quotas := self._quotas(MUTATION)):
            return Mutations()
        configs = self._cluster.configs
        window = Window(
            configs.integer("controller.quota.window.num"), configs.integer("controller.quota.window.size.seconds") * 1000
        )
        who = quotas.measured(exchange.connection.session.principal.name, exchange.client_id)
        limit = quotas.limit(who)
        if limit is None:
            return Mutations()
        bucket = self._buckets.setdefault(who, TokenBucket())
        return Bucket(bucket, window, limit[0], words_of(limit[1]), strict=exchange.version >= strict_since)

    # Connections

    def connecting(self, connection: Connection, now: int) -> Exceeded | None:
        """Count a new connection. Returns the connection quota if the client's address has exceeded it, else None."""
        quotas, host = self._cluster.quotas, connection.client_host
        entity = quotas.connecting(host)
        if entity is None:
            return None
        limit, window = quotas.limits[entity][CONNECTION], self._window
        rate = self._rates.setdefault((connection.node_id, CONNECTION, Measured(host, "")), Rate())
        rate.record(window, 1.0, now)
        ms = min(rate.throttle_ms(window, int(limit), now), window.ms)
        if ms <= 0:
            return None
        rate.record(window, -1.0, now)
        return Exceeded(ms, CONNECTION, words_of(entity), limit)


class Mutations:
    """The topic changes of a request, if no quota limits these changes."""

    def take(self, count: int, now: int) -> bool:
        """Tells whether the client may create or delete this many partitions."""
        return True

    def exceeded(self, now: int) -> Exceeded | None:
        return None


class Bucket(Mutations):
    """Takes a token from the client's bucket for each partition that one request creates or deletes."""

    def __init__(self, bucket: TokenBucket, window: Window, limit: float, whose: str, *, strict: bool) -> None:
        self._bucket, self._window, self._limit = bucket, window, limit
        self._whose, self._strict = whose, strict
        self._ms = self._at = 0

    def take(self, count: int, now: int) -> bool:
        """Tells whether the client may create or delete this many partitions. The request that makes the number of tokens
        negative still succeeds."""
        bucket, window, limit = self._bucket, self._window, self._limit
        if not self._strict:
            bucket.take(window, limit, count, now)
        if ms := bucket.throttle_ms(window, limit, now):
            self._ms, self._at = ms, now
        elif self._strict:
            bucket.take(window, limit, count, now)
        return not (self._strict and ms)

    def exceeded(self, now: int) -> Exceeded | None:
        ms = max(0, signed(self._ms - (now - self._at))) if self._ms else 0
        return Exceeded(ms, MUTATION, self._whose, self._limit) if ms else None
