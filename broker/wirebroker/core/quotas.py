"""Client quotas, and the measurement of what clients use (KIP-13, KIP-55, KIP-124, KIP-599, KIP-612).

`Quotas` holds the limits of a cluster. `Rate` and `TokenBucket` compute the same values as Kafka's classes of these names, on
the broker's clock.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkawire.disk.metadata import QuotaEntity
from wirebroker.core.java_order import SMALLEST, buckets_for, hash_order, java_hash
from wirebroker.core.networks import resolved
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since, until

POSITIVE_QUOTAS = since("3.5", "a quota of 0, or a quota that is too large for its type, is refused")
STRICT_QUOTAS = since("3.3", "AlterClientQuotas refuses a request that names an entity or a quota twice", "KIP-833")
"""From this release on, two more things are true: a filter that contradicts itself is refused, and requests with validate_only
count for the quota controller_mutation_rate."""
WHOLE_RATES = until("3.3", "quotas of bytes and connections are no longer rounded to whole numbers", "KIP-833")
QUOTAS_FOR_MUTATIONS = since("2.7", "quotas may have a controller_mutation_rate", "KIP-599")
QUOTAS_FOR_ADDRESSES = since("2.8", "quotas may belong to IP addresses", "KIP-612")
QUOTAS_FOR_IPV6 = since("3.3", "a quota may belong to an IPv6 address", "KIP-833")
FINITE_QUOTAS = since("4.4", "a quota that is not a finite number is refused")

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATION, CONNECTION = "controller_mutation_rate", "connection_creation_rate"
IN_ZOOKEEPER = (REQUEST, PRODUCE, FETCH, MUTATION, CONNECTION)
"""The order of an entity's limits in releases that keep quotas in ZooKeeper."""
BY_CLIENT = (PRODUCE, FETCH, REQUEST, MUTATION)
"""The limits that a user or a client id can have. An IP address can have only the limit CONNECTION."""
LARGEST = {PRODUCE: 2**63 - 1, FETCH: 2**63 - 1, CONNECTION: 2**31 - 1}
"""The limits that Kafka keeps as whole numbers, with their largest values."""
ALMOST_WHOLE = 1e-6
"""Kafka accepts a value as a whole number if the value differs from a whole number by at most this."""
Change = tuple[QuotaEntity, str, float | None]
"""An entity, the name of a limit, and the limit's new value. None removes the limit."""


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    """Returns the quota entity for `names`, a dictionary from entity types to names. The name None stands for the default
    entity. The limits of the default entity apply to all users, client ids or addresses that have no limit of their own."""
    return tuple(sorted(names.items()))


def entity_hash(entity: QuotaEntity) -> int:
    """Returns Kafka's `ClientQuotaEntity.hashCode`, as an unsigned number of 32 bits."""
    pairs = sum(java_hash(kind) ^ (0 if name is None else java_hash(name)) for kind, name in entity)
    return (31 + pairs) & 0xFFFFFFFF


def entity_kinds(release: Release) -> tuple[str, ...]:
    """Returns the kinds of entities that can have quotas in the release."""
    return (USER, CLIENT_ID, IP) if QUOTAS_FOR_ADDRESSES.of(release) else (USER, CLIENT_ID)


def entity_error(names: Mapping[str, str | None], order: Iterable[str], release: Release) -> str | None:
    """Returns Kafka's message if the entity `names` is invalid, or None if it is valid. `order` is the order
    in which the types are checked."""
    if not names:
        return "Invalid empty client quota entity"
    for kind in order:
        if kind not in entity_kinds(release):
            return f"Unhandled client quota entity type: {kind}"
        if names[kind] == "":
            return f"Empty {kind} not supported"
    if IP in names and len(names) > 1:
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    address = names.get(IP)
    if address is not None and not (resolved(address) and (QUOTAS_FOR_IPV6.of(release) or ":" not in address)):
        return f"{address} is not a valid IP or resolvable host."
    return None


def value_error(names: Mapping[str, str | None], key: str, value: float, release: Release) -> str | None:
    """Returns Kafka's message if the entity `names` cannot have the limit `key` with this value, else None."""
    if key not in ((CONNECTION,) if IP in names else BY_CLIENT) or (key == MUTATION and not QUOTAS_FOR_MUTATIONS.of(release)):
        return f"Invalid configuration key {key}"
    if FINITE_QUOTAS.of(release) and not math.isfinite(value):
        return f"Quota {key} must be a finite number"
    if not POSITIVE_QUOTAS.of(release):
        return _cast_error(key, value, release)
    if value <= 0.0:
        return f"Quota {key} must be greater than 0"
    if key not in LARGEST:
        return None
    if value > float(LARGEST[key]):
        return f"Proposed value for {key} is too large for {'an INT' if key == CONNECTION else 'a LONG'}."
    return f"{key} cannot be a fractional value." if value % 1.0 > ALMOST_WHOLE else None


def _cast_error(key: str, value: float, release: Release) -> str | None:
    """Returns Kafka's message if the limit requires a whole number and `value` is not a whole number, else None. Some releases
    check in this way: they cast the value to a whole number, and compare the result with the value."""
    if key not in LARGEST or math.isnan(value):
        return None
    largest = LARGEST[PRODUCE if STRICT_QUOTAS.of(release) else key]
    cast = math.trunc(max(-float(largest), min(float(largest), value + ALMOST_WHOLE)))
    return f"Configuration {key} must be a Long value" if abs(cast - value) > ALMOST_WHOLE else None


def kept(key: str, value: float, release: Release) -> float:
    """Returns the value of a limit as the release keeps it. A value that is not a number is kept as 0 in ZooKeeper."""
    if not WHOLE_RATES.of(release) or key not in LARGEST:
        return value
    return 0.0 if math.isnan(value) else float(math.trunc(value + ALMOST_WHOLE))


class Measured(NamedTuple):
    """The clients that are measured together: all clients with this user and this client id. "" stands for any user or any
    client id."""

    user: str
    client_id: str | None


class KeyedQuotas:
    """Finds the value of one kind of limit for a client, among the values of all entities (Kafka's
    ClientQuotaManager.DefaultQuotaCallback)."""

    def __init__(self) -> None:
        self._values: dict[QuotaEntity, float] = {}
        self._levels: Counter[tuple[str, ...]] = Counter()
        """The number of entities that have a limit, for each combination of entity types, such as (client-id, user)."""

    def __bool__(self) -> bool:
        return bool(self._values)

    def set(self, entity: QuotaEntity, value: float | None) -> None:
        """Set the limit of an entity; None removes the limit."""
        level = tuple(kind for kind, _ in entity)
        if self._values.pop(entity, None) is not None:
            self._levels[level] -= 1
            if not self._levels[level]:
                del self._levels[level]
        if value is not None:
            self._values[entity] = value
            self._levels[level] += 1

    def measured(self, user: str, client_id: str | None) -> Measured:
        """Returns the group of clients to which this user and client id belong. A group is measured as a whole."""
        if len(self._levels) == 1:
            (level,) = self._levels
            return Measured(user if USER in level else "", client_id if CLIENT_ID in level else "")
        named = self._values
        for client in (client_id, None):
            if ((CLIENT_ID, client), (USER, user)) in named:
                return Measured(user, client_id)
        if ((USER, user),) in named:
            return Measured(user, "")
        for client in (client_id, None):
            if ((CLIENT_ID, client), (USER, None)) in named:
                return Measured(user, client_id)
        return Measured(user, "") if ((USER, None),) in named else Measured("", client_id)

    def limit(self, who: Measured) -> tuple[float, QuotaEntity] | None:
        """Returns two values: the limit of these clients, and the entity that has this limit. Returns None if the clients have
        no limit."""
        user, client_id = who
        if client_id is None:
            return None
        places: list[QuotaEntity] = []
        if user and client_id:
            places = [((CLIENT_ID, c), (USER, u)) for u in (user, None) for c in (client_id, None)]
        elif user:
            places = [((USER, user),), ((USER, None),)]
        elif client_id:
            places = [((CLIENT_ID, client_id),), ((CLIENT_ID, None),)]
        found = next((place for place in places if place in self._values), None)
        return None if found is None else (self._values[found], found)


class Quotas:
    """The limits of a cluster."""

    def __init__(self) -> None:
        self.limits: dict[QuotaEntity, dict[str, float]] = {}
        """The limits of each entity."""
        self.on = False
        """Tells whether any limit is set."""
        self.keyed = {key: KeyedQuotas() for key in BY_CLIENT}
        """The limits of clients, by the name of the limit."""
        self._by_address: dict[str | None, QuotaEntity] = {}
        """For each IP address in Java's form, the entity whose limit of connections was set last. None stands for all other
        addresses."""
        self._buckets = SMALLEST
        """The number of buckets of Kafka's HashMap of the entities."""

    def in_order(self, entities: Iterable[QuotaEntity]) -> list[QuotaEntity]:
        """Returns the entities in the order in which Kafka describes them. `entities` are in the order of `limits`."""
        return hash_order(entities, entity_hash, self._buckets)

    def alter(self, changes: Sequence[Change]) -> None:
        """Set and remove limits. The method handles only the entities in `changes`, unless Kafka's HashMap gets another number
        of buckets."""
        by_entity: dict[QuotaEntity, dict[str, float | None]] = {}
        for entity, key, value in changes:
            by_entity.setdefault(entity, {})[key] = value
        count = len(self.limits)
        added: dict[QuotaEntity, dict[str, float]] = {}
        for entity in hash_order(by_entity, entity_hash, buckets_for(len(by_entity))):
            held = self._altered(self.limits.get(entity, {}), by_entity[entity])
            if not held:
                self.limits.pop(entity, None)
            else:
                (self.limits if entity in self.limits else added)[entity] = held
            if CONNECTION in by_entity[entity]:
                self._limit_connections(entity, held.get(CONNECTION))
            for key in by_entity[entity].keys() & self.keyed.keys():
                self.keyed[key].set(entity, held.get(key))
        buckets = buckets_for(len(self.limits) + len(added), count)
        if buckets != self._buckets:  # Kafka fills a new HashMap in the order of the old HashMap
            self.limits = {entity: self.limits[entity] for entity in self.in_order(self.limits)}
            self._buckets = buckets
        self.limits |= added
        self.on = bool(self.limits)

    def connecting(self, host: str) -> QuotaEntity | None:
        """Returns the entity whose limit applies to new connections from this address, or None."""
        return self._by_address.get(host) or self._by_address.get(None)

    def _limit_connections(self, entity: QuotaEntity, limit: float | None) -> None:
        ((_, name),) = entity
        address = None if name is None else resolved(name)
        if name is not None and address is None:  # a name that this broker does not resolve
            return
        if limit is None:
            self._by_address.pop(address, None)
        else:
            self._by_address[address] = entity

    @staticmethod
    def _altered(held: dict[str, float], changes: dict[str, float | None]) -> dict[str, float]:
        """Returns an entity's limits after these changes, in the order of Kafka's HashMap. `held` has the limits before the
        changes."""
        new = {key: changes[key] for key in hash_order(changes, java_hash, buckets_for(len(changes)))}
        kept = {key: value for key, value in {**held, **new}.items() if value is not None}
        return {key: kept[key] for key in hash_order(kept, java_hash, buckets_for(len(kept), len(held)))}


class Window(NamedTuple):
    """The window of a measurement: the number of samples, and the length of each sample in ms."""

    samples: int
    ms: int


class _Sample:
    __slots__ = ("last_event", "start", "value")

    def __init__(self, now: int) -> None:
        self.reset(now)

    def reset(self, now: int) -> None:
        self.start = self.last_event = now
        self.value = 0.0


class Rate:
    """Kafka's Rate over a WindowedSum: the average use per second over the last samples. Times are in ms."""

    __slots__ = ("_current", "_samples")

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, window: Window, value: float, now: int) -> None:
        """Add `value` to the measured use. A negative value subtracts an earlier use."""
        if not self._samples:
            self._samples.append(_Sample(now))
        sample = self._samples[self._current]
        if now - sample.start >= window.ms:
            self._current = (self._current + 1) % (window.samples + 1)
            if self._current >= len(self._samples):
                self._samples.append(_Sample(now))
            else:
                self._samples[self._current].reset(now)
            sample = self._samples[self._current]
        sample.value += value
        sample.last_event = now

    def measure(self, window: Window, now: int) -> float:
        """Returns the average use per second."""
        size = self.window_size(window, now)
        return sum(sample.value for sample in self._samples) / (size / 1000)

    def window_size(self, window: Window, now: int) -> int:
        """Returns the time in ms over which the rate is measured: at least the length of all samples but one."""
        for sample in self._samples:
            if now - sample.last_event >= window.samples * window.ms:
                sample.reset(now)
        elapsed = now - min((sample.start for sample in self._samples), default=now)
        missing = window.samples - 1 - elapsed // window.ms
        return max(elapsed + max(missing, 0) * window.ms, 1)

    def throttle_ms(self, window: Window, limit: float, now: int) -> int:
        """Returns the number of ms for which the client is throttled, or 0 if the measured rate is within `limit`."""
        value = self.measure(window, now)
        if value <= limit:
            return 0
        return java_round(quotient(value - limit, limit) * self.window_size(window, now))


class TokenBucket:
    """Kafka's TokenBucket. The bucket gets `limit` tokens a second, and holds at most the tokens of a whole window
    (KIP-599)."""

    __slots__ = ("_tokens", "_updated")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._updated = 0

    def refill(self, window: Window, limit: float, now: int) -> float:
        """Returns the number of tokens in the bucket now. The number is negative if clients have taken too many tokens."""
        burst = window.samples * (window.ms / 1000) * limit
        self._tokens = min(burst, self._tokens + limit * ((now - self._updated) / 1000))
        self._updated = now
        return self._tokens

    def take(self, window: Window, limit: float, count: float, now: int) -> None:
        """Take `count` tokens from the bucket, even if the bucket has fewer tokens."""
        self._tokens = self.refill(window, limit, now) - count

    def throttle_ms(self, window: Window, limit: float, now: int) -> int:
        """Returns the number of ms after which the number of tokens is no longer negative."""
        tokens = self.refill(window, limit, now)
        return java_round(quotient(-tokens, limit) * 1000) if tokens < 0 else 0


def quotient(value: float, divisor: float) -> float:
    """Returns the quotient. As in Java, a positive number divided by 0 is infinite."""
    return value / divisor if divisor else math.inf


def java_round(value: float) -> int:
    """Returns Java's `Math.round(value)`."""
    if math.isnan(value):
        return 0
    return 2**63 - 1 if value >= 2**63 else -(2**63) if value <= -(2**63) else math.floor(value + 0.5)
