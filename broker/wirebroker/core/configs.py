"""Topic and broker settings: where they are set, and which value is in effect.

A broker setting takes its value from the first of these sources that has a value: the dynamic settings of one broker, the
dynamic settings of all brokers, the static settings, the defaults (Kafka's DynamicBrokerConfig). A topic setting takes the
topic's own value, or else the value of the corresponding broker setting. In wirebroker all brokers of a cluster are one
process, so a dynamic setting of one broker takes effect for all brokers. But DescribeConfigs shows this setting only for the
broker for which it was set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar

from wirebroker.common.java_texts import JAVA_SPACE, parse_integer, trim
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.features import ELIGIBLE_REPLICAS, new_levels
from wirebroker.core.java_order import buckets_for, hash_order, java_hash
from wirebroker.core.networks import resolved
from wirebroker.core.releases import DEFAULT, Release, release
from wirebroker.core.releases.changes import since, until
from wirebroker.core.setting_definitions import (
    LOOSE,
    PER_LISTENER,
    STRICT_LISTS,
    ConfigError,
    ConfigType,
    Definitions,
    Setting,
    Value,
    definitions_of,
)

REFUSES_REPEATED_ITEMS = since("4.4", "a broker's setting that has an item twice cannot be altered")
HIDES_AT_CREATION = until("3.3", "the response to CreateTopics of KRaft has internal settings, too", "KIP-833").then(
    "3.6", True, "the response to CreateTopics has no internal settings"
)

__all__ = ["BrokerConfigs", "ConfigError", "Entry", "Source", "Synonym", "TopicConfigs", "check_topic_configs"]

K = TypeVar("K")
_SAME: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Broker settings with the same meaning in different units. In each group, the first setting that has a value takes effect."""
_MS = {"hours": 3_600_000, "minutes": 60_000}


class Source(IntEnum):
    """The source of a value, with its number in DescribeConfigs."""

    UNKNOWN, TOPIC, BROKER, ALL_BROKERS, STATIC, DEFAULT, LOGGER, CLIENT_METRICS, GROUP = range(9)


class Synonym(NamedTuple):
    """A source that has a value for a setting. `value` is None if the broker does not show the value."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """A setting as DescribeConfigs shows it. The first synonym is in effect."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    type: ConfigType
    synonyms: list[Synonym]


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Returns the names of the broker settings that can give this setting its value in Kafka. The result includes this setting
    itself."""
    for group in _SAME:
        if name in group:
            return group
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    return (name,)


def _own_defaults(brokers: int) -> dict[str, str]:
    """Returns the defaults that differ from Kafka's defaults. With these defaults, tests do not wait, and one broker is
    enough."""
    return {
        "connection.failed.authentication.delay.ms": "0",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(min(3, brokers)),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(min(3, brokers)),
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(min(3, brokers)),
        "share.coordinator.state.topic.min.isr": "1",
    }


def in_java_order(entries: list[Entry]) -> list[Entry]:
    """Returns the settings in the order of Kafka's HashMap of settings. `entries` are in the order of Kafka's definitions."""
    return hash_order(entries, lambda each: java_hash(each.name), buckets_for(len(entries)))


class Configs:
    """Typed values of settings by name."""

    def value(self, name: str) -> Value:
        """Returns the typed value. Raises KeyError for an unknown name."""
        raise NotImplementedError

    def integer(self, name: str) -> int:
        """Returns the value of a setting whose value is a whole number."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} is not a whole number but {value!r}")
        return value

    def text(self, name: str) -> str:
        """Returns the value as Kafka writes it, or an empty text if the setting has no value."""
        value = self.value(name)
        return "" if value is None else Setting.text(value)


MIN_IN_SYNC = "min.insync.replicas"
OVERRIDES = "max.connections.per.ip.overrides"
HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")
"""The characters that a host may have in Kafka's SocketServerConfigs."""
PRODUCER_EXPIRATION = "producer.id.expiration.ms"


class BrokerConfigs(Configs):
    """The settings of a cluster's brokers. `version` rises with every change of a broker's or a topic's settings."""

    def __init__(
        self, overrides: Mapping[str, str], *, brokers: int = 1, of: Release | None = None, kafkas_defaults: bool = False
    ) -> None:
        """`overrides` are Kafka's broker settings by name.

        A value under the name of a topic setting is the broker's default for this topic setting. All other settings have the
        defaults for tests or, with `kafkas_defaults`, Kafka's defaults. `of` is the release whose settings are used, by default
        `wirebroker.core.releases.DEFAULT`.

        Raises ConfigError for a name that Kafka does not have, or a value that Kafka refuses.
        """
        self.release = of or release(DEFAULT)
        self.definitions = definitions_of(self.release.settings, strict_lists=STRICT_LISTS.of(self.release))
        self.static = {} if kafkas_defaults else _own_defaults(brokers)
        self.apart: dict[int, Mapping[str, str]] = {}
        """For each broker: the static settings that differ from broker to broker.

        DescribeConfigs shows these values, but the values in `static` take effect.
        """
        self.topic_static: dict[str, str] = {}
        """The initial values of topic settings that have no corresponding broker setting."""
        given: dict[str, str] = {}
        for name, raw in overrides.items():
            self._take(name, raw, given)
        self.static.update(given)
        self.features = new_levels(self.release.features)
        """The levels of the cluster's features. Elections and the precedence of min.insync.replicas depend on these levels."""
        whole = {MIN_IN_SYNC: self._at_start(MIN_IN_SYNC)} if self.features[ELIGIBLE_REPLICAS] else {}
        self.dynamic: dict[int | None, dict[str, str]] = {None: whole}
        """The dynamic settings, which can be altered while the broker runs. The key is a broker's id, or None for all brokers.

        In a cluster with eligible leader replicas (KIP-966), min.insync.replicas is dynamic from the beginning, with its static
        value.
        """
        self.groups: dict[str, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}
        self.version = 0
        self._cache: dict[str, Value] = {}
        self._shown: tuple[int, dict[Hashable, list[Entry]]] = (0, {})
        """The results that `shown` remembers, and the `version` of the settings from which they were made."""
        self._props = self._merged(self.dynamic)
        self._check_together()
        connections_by_host(self.text(OVERRIDES))
        check_topic_configs(self.topic_static, self)

    def _take(self, name: str, raw: str, given: dict[str, str]) -> None:
        known = self.definitions
        if name in known.broker:
            target = name
            known.broker[name].parse(raw)
        elif name in known.topic:
            known.topic[name].parse(raw)
            if name not in known.topic_synonyms:
                self.topic_static[name] = raw
                return
            target = known.topic_synonyms[name][0]
        elif (setting := known.of_listener(name)) is not None:
            target = name
            setting.parse(raw)
        else:
            names = [*known.broker, *known.topic]
            raise ConfigError(f"Unknown config name: {name}", suggestion=did_you_mean(name, names, 0.6))
        if given.get(target, raw) != raw:
            raise ConfigError(f"{target} is set twice, to {given[target]} and to {raw}")
        given[target] = raw

    def _merged(
        self, dynamic: Mapping[int | None, Mapping[str, str]], static: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Merges the static and the dynamic settings. As in Kafka, a dynamic setting hides its synonyms among the settings of
        lower precedence."""
        props = dict(self.static if static is None else static)
        for node in sorted(dynamic, key=lambda node: (node is not None, -(node or 0))):
            for name, raw in dynamic[node].items():
                for other in broker_synonyms(name) if name != "log.flush.interval.ms" else (name,):
                    props.pop(other, None)
                props[name] = raw
        return props

    def _check_together(self) -> None:
        for name in ("segment.ms", "retention.ms"):
            lowest = self.definitions.topic_synonyms[name][0]
            value = self.integer(name)
            if value < 1 and not (name == "retention.ms" and value == -1):
                unlimited = "unlimited (-1) or, " if name == "retention.ms" else ""
                raise ConfigError(f"{lowest} must be {unlimited}greater than or equal to 1")

    def _check_required(self) -> None:
        """Raises ConfigError if settings contradict each other after an alteration (KafkaConfig.validateValues)."""
        threads = self.integer(CLEANER)
        if not threads:
            raise ConfigError("/ by zero")
        try:
            self._check_together()
            if self.integer(CLEANER_BUFFER) // threads <= 1 << 20:
                raise ConfigError(f"{CLEANER_BUFFER} must be at least 1MB per cleaner thread.")
            jitter = self._own(self.definitions.broker["log.roll.jitter.ms"])
            if isinstance(jitter, int) and jitter < 0:
                raise ConfigError("log.roll.jitter.ms must be greater than or equal to 0")
            if not self.integer("max.connections.per.ip") and not self.value(OVERRIDES):
                allowed = f"can be set to zero only if {OVERRIDES} property is set"
                raise ConfigError(f"max.connections.per.ip {allowed}.")
        except ConfigError as error:
            raise ConfigError(f"requirement failed: {error}") from None
        connections_by_host(self.text(OVERRIDES))
        for kind in ("consumer", "share", "streams"):
            interval, most = f"group.{kind}.assignment.interval.ms", f"group.{kind}.max.assignment.interval.ms"
            if self.integer(interval) > self.integer(most):
                raise ConfigError(f"{interval} must be less than or equal to {most}")

    def become(self, to: Release) -> None:
        """Use the settings and defaults of another release. The levels of features do not change.

        If the release lacks a setting that has a value, the value is kept, as in Kafka, but has no effect.
        """
        self.release = to
        self.definitions = definitions_of(to.settings, strict_lists=STRICT_LISTS.of(to))
        self.features.update((name, 0) for name in to.features if name not in self.features)
        self.restore(self.dynamic)

    def value(self, name: str) -> Value:
        """Returns the typed value of a broker setting, or the broker's default for a topic setting. Raises KeyError if there is
        no setting of this name."""
        try:
            return self._cache[name]
        except KeyError:
            setting = self.definitions.broker.get(name)
            found = self._topic_value(name) if setting is None else self._own(setting)
            self._cache[name] = found
            return found

    @property
    def producer_expiration_ms(self) -> int:
        """The time in ms after which a partition forgets a producer that sends nothing.

        Before 3.4 this time is transactional.id.expiration.ms (KIP-854).
        """
        absent = self.definitions.broker[PRODUCER_EXPIRATION].absent
        return self.integer("transactional.id.expiration.ms" if absent else PRODUCER_EXPIRATION)

    @property
    def producer_expiration_check_ms(self) -> int:
        """The interval in ms at which partitions look for producers to forget.

        Before 3.4 the interval is ten minutes (KIP-854).
        """
        absent = self.definitions.broker[PRODUCER_EXPIRATION].absent
        return 600_000 if absent else self.integer("producer.id.expiration.check.interval.ms")

    def at(self, listener: str, name: str, mechanism: str = "") -> Value:
        """Returns the value that a setting has on a listener: the listener's value for the SASL mechanism, else the listener's
        value, else the broker's value. As in Kafka, clients log in by the static settings: an alteration has no effect, not
        even after a restart.
        """
        setting = self.definitions.broker[name]
        for prefix in (f"{PER_LISTENER}{listener}.{mechanism}.".lower(), f"{PER_LISTENER}{listener}.".lower(), ""):
            raw = self.static.get(f"{prefix}{name}")
            if raw is not None:
                return setting.parse(raw)
        return setting.default_value()

    def _own(self, setting: Setting) -> Value:
        raw = self._props.get(setting.name)
        return setting.default_value() if raw is None else setting.parse(raw)

    def _topic_value(self, name: str) -> Value:
        setting = self.definitions.topic[name]
        synonyms = self.definitions.topic_synonyms.get(name)
        if synonyms is None:
            raw = self.topic_static.get(name)
            return setting.default_value() if raw is None else setting.parse(raw)
        for synonym in synonyms:
            value = self._own(self.definitions.broker[synonym])
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool):
                value *= _MS.get(synonym.rpartition(".")[2], 1)
                return -1 if name == "retention.ms" and value < 0 else value
            return value
        return None

    def alter(self, changes: Mapping[str, str | None], broker: int | None = None) -> None:
        """Change dynamic settings of one broker or, if `broker` is None, of all brokers. A value of None removes the dynamic
        setting.

        Raises ConfigError, and changes nothing, for a setting that cannot change while a Kafka broker runs.
        """
        layer = dict(self.dynamic.get(broker, {}))
        for name, raw in changes.items():
            if raw is None:
                layer.pop(name, None)
            else:
                layer[name] = raw
        self.replace(layer, broker)

    def replace(self, layer: Mapping[str, str], broker: int | None = None) -> None:
        """Replace all dynamic settings of one broker or, if `broker` is None, of all brokers. Raises ConfigError as `alter`
        does."""
        self.check(layer, broker)
        self.put(layer, broker)

    def load(self, layer: Mapping[str, str], broker: int | None) -> None:
        """Replace all dynamic settings by stored settings. Raises ConfigError for settings that no alteration could have
        stored. Numbers of threads may differ by any factor from the static numbers, because no threads run yet."""
        check_dynamic(layer, self.definitions, self.release, per_broker=broker is not None)
        with self._trying(layer, broker):
            self._check_required()
        self.put(layer, broker)

    def check(self, layer: Mapping[str, str], broker: int | None = None, listeners: Iterable[str] = ("",)) -> None:
        """Check an alteration after which one broker, or all brokers, would have these dynamic settings. Raises ConfigError as
        `alter` does, and for settings that one of these listeners cannot use. The name "" stands for a listener without
        settings of its own."""
        check_dynamic(layer, self.definitions, self.release, per_broker=broker is not None)
        pools = {name: self.integer(name) for name in (CLEANER, *POOLS)}
        at_listeners = {each.lower(): self._on_listener(each.lower(), THREADS) for each in listeners}
        with self._trying(layer, broker):
            self._check_required()
            wrongs = [self._wrong_on_listener(listener, threads) for listener, threads in at_listeners.items()]
            wrongs += [_check_pool(name, threads, self.integer(name)) for name, threads in pools.items()]
        if (wrong := next(filter(None, wrongs), None)) is not None:
            raise ConfigError(f"{INVALID}{wrong} for configuration Invalid dynamic configuration")

    @contextmanager
    def _trying(self, layer: Mapping[str, str], broker: int | None) -> Iterator[None]:
        """While this context is open, one broker or all brokers have these dynamic settings."""
        before = self._props
        try:
            self._use(self._merged({**self.dynamic, broker: layer}))
            yield
        finally:
            self._use(before)

    def put(self, layer: Mapping[str, str], broker: int | None) -> None:
        """Replace all dynamic settings of one broker or of all brokers, without checks."""
        if broker is None:
            self.dynamic[None] = dict(layer)
        else:
            keep(self.dynamic, broker, layer)
        self._use(self._merged(self.dynamic))
        self.version += 1

    def _wrong_on_listener(self, listener: str, threads: int) -> str | None:
        """Returns Kafka's message if a listener (its name in lower case) cannot use its settings, else None. Kafka reads all
        settings of the listener, also settings that have no effect (DynamicBrokerConfig.processListenerReconfigurable).
        `threads` is the listener's number of threads until now."""
        try:
            for name, raw in self._props.items():
                setting = self.definitions.of_listener(name) if name.startswith(f"{PER_LISTENER}{listener}.") else None
                if setting is not None and not setting.absent:
                    setting.parse(raw)
        except ConfigError as error:
            return str(error)
        for name in CONNECTION_LIMITS:
            if self._on_listener(listener, name) == 0:
                return f"Invalid {name} 0"
        return _check_pool(THREADS, threads, self._on_listener(listener, THREADS))

    def _on_listener(self, listener: str, name: str) -> int:
        """Returns the value of an integer setting on a listener, whose name is in lower case."""
        raw = self._props.get(f"{PER_LISTENER}{listener}.{name}")
        value = self.value(name) if raw is None else self.definitions.broker[name].parse(raw)
        assert isinstance(value, int)
        return value

    def _at_start(self, name: str) -> str:
        return self.static.get(name, self.definitions.broker[name].default or "1")

    def begin_eligible_replicas(self) -> None:
        """Prepare the settings for eligible leader replicas.

        If min.insync.replicas has no dynamic value for all brokers, its static value becomes this dynamic value. Dynamic values
        of single brokers are removed.
        """
        cleaned = {node: {k: v for k, v in layer.items() if k != MIN_IN_SYNC} for node, layer in self.dynamic.items()}
        whole = {MIN_IN_SYNC: self._at_start(MIN_IN_SYNC)} | self.dynamic[None]
        self.restore({**cleaned, None: whole})

    def without_eligible_replicas(self, whole: Mapping[str, str]) -> None:
        """Remove min.insync.replicas from the dynamic settings of all brokers. Keep the setting if the cluster has eligible
        leader replicas, or if `whole` contains min.insync.replicas."""
        if not self.features[ELIGIBLE_REPLICAS] and MIN_IN_SYNC not in whole:
            self.alter({MIN_IN_SYNC: None})

    def restore(self, dynamic: Mapping[int | None, Mapping[str, str]]) -> None:
        """Use these layers of dynamic settings without checks, because they were in use before, or were made from layers that
        were in use."""
        self.dynamic = {None: {}, **{node: dict(layer) for node, layer in dynamic.items() if layer or node is None}}
        self._use(self._merged(self.dynamic))
        self.version += 1

    def _use(self, props: dict[str, str]) -> None:
        self._props = props
        self._cache.clear()

    def layers(self, node: int, facts: Mapping[str, str] | None = None) -> tuple[tuple[Mapping[str, str], Source], ...]:
        """Returns the settings of this broker by layer. An earlier layer takes precedence. For `facts` see `synonyms`."""
        return (
            (self.dynamic.get(node, {}), Source.BROKER),
            (self.dynamic[None], Source.ALL_BROKERS),
            ({**self._static_at(node), **(facts or {})}, Source.STATIC),
        )

    def _static_at(self, node: int) -> Mapping[str, str]:
        """Returns the static settings as this broker shows them."""
        if not self.apart:
            return self.static
        differing = {name for held in self.apart.values() for name in held}
        return {name: raw for name, raw in self.static.items() if name not in differing} | dict(self.apart.get(node, {}))

    def synonyms(self, name: str, node: int, facts: Mapping[str, str] | None = None) -> list[Synonym]:
        """Returns every source that has a value for this setting at this broker. The first source is in effect.

        `facts` are settings that only the running broker knows, such as its listeners. These settings have the precedence of
        static settings.
        """
        found = []
        known = self.definitions
        base = known.of_listener(name)
        names = broker_synonyms(name) if base is None else (name, base.name)
        for layer, source in self.layers(node, facts):
            found += [self._synonym(each, layer[each], source) for each in names if each in layer]
        for each in names:
            setting = known.broker.get(each)
            if setting is not None and setting.default is not None and not setting.marks & {"quota", "unlisted"}:
                found.append(self._synonym(each, setting.text(setting.default_value()), Source.DEFAULT))
        while found and found[0].name != name:
            del found[0]
        return found

    def _synonym(self, name: str, raw: str, source: Source) -> Synonym:
        return Synonym(name, None if self.definitions.of_broker(name).sensitive else raw, source)

    def shown(self, key: Hashable, make: Callable[[], list[Entry]]) -> list[Entry]:
        """Returns the result of `make()`, which is remembered under `key` until a setting changes. Callers must not change the
        list."""
        if self._shown[0] != self.version:
            self._shown = (self.version, {})
        kept = self._shown[1]
        found = kept.get(key)
        if found is None:
            found = kept[key] = make()
        return found

    def topic_defaults(self, node: int) -> list[Entry]:
        """Returns all topic settings, internal settings included, as this broker shows them for a topic without overrides."""
        settings = self.definitions.topic.values()
        return self.shown(node, lambda: in_java_order([self._topic_default(setting, node) for setting in settings]))

    def _topic_default(self, setting: Setting, node: int) -> Entry:
        names = self.definitions.topic_synonyms.get(setting.name)
        synonyms = self.synonyms(names[0], node) if names else []
        source = synonyms[0].source if synonyms else Source.DEFAULT
        return Entry(setting.name, self.text(setting.name), source, False, False, setting.type, synonyms)

    def describe(self, node: int, facts: Mapping[str, str] | None = None) -> list[Entry]:
        """Returns all settings of one broker: first the internal settings that are set and the settings that Kafka does not
        know, then all other settings."""
        return self.shown((node, *(facts or {}).items()), lambda: self._describe(node, facts))

    def _describe(self, node: int, facts: Mapping[str, str] | None) -> list[Entry]:
        entries: list[Entry] = []
        first: list[Entry] = []
        dynamic = {each: held for each, held in self.dynamic.items() if each in (None, node)}
        layers = self._merged(dynamic, self._static_at(node)) | dict(facts or {})
        known = self.definitions
        made_up = [name for name in layers if name not in known.broker]
        for name in [*known.broker, *made_up]:
            setting = known.of_broker(name)
            synonyms = self.synonyms(name, node, facts)
            if setting.absent:
                continue
            if setting.hidden and not (synonyms and synonyms[0].source is not Source.DEFAULT):
                continue
            raw = layers.get(name)
            if raw is not None and name not in known.broker:  # Kafka does not read the settings of a listener here
                shown = None if setting.sensitive else raw
            else:
                value = setting.default_value() if raw is None else setting.parse(raw)
                shown = None if value is None or setting.sensitive else setting.text(value)
            source = synonyms[0].source if synonyms else Source.DEFAULT
            entry = Entry(name, shown, source, known.read_only(name), setting.sensitive, setting.shown_type, synonyms)
            (entries if name in known.broker and not setting.hidden else first).append(entry)
        return in_java_order(first) + in_java_order(entries)

    def describe_altered(self) -> list[Entry]:
        """Returns the dynamic settings of all brokers.

        DescribeConfigs shows these settings if the name of the broker is empty.
        """
        entries = []
        for name, raw in self.dynamic[None].items():
            synonym = self._synonym(name, raw, Source.ALL_BROKERS)
            setting, read_only = self.definitions.of_broker(name), self.definitions.read_only(name)
            shown = Entry(name, synonym.value, synonym.source, read_only, setting.sensitive, setting.type, [synonym])
            entries.append(shown)
        return in_java_order(entries)


def keep(held: dict[K, dict[str, str]], of: K, settings: Mapping[str, str]) -> None:
    """Replace the settings of a resource. As in Kafka, a resource without settings of its own is not kept."""
    if settings:
        held[of] = dict(settings)
    else:
        held.pop(of, None)


def check_dynamic(layer: Mapping[str, str], definitions: Definitions, release: Release, *, per_broker: bool) -> None:
    """Raise ConfigError unless all these settings can change while a Kafka broker runs
    (DynamicBrokerConfig.validateConfigs)."""
    known = [setting for name in layer if (setting := definitions.broker.get(name)) is not None and not setting.absent]
    fixed = [setting.name for setting in known if setting.read_only]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    secret = [setting.name for setting in known if "per-listener" in setting.marks]
    if secret:
        how = "can be dynamically updated only per-listener using the listener prefix"
        raise ConfigError(f"These security configs {how}: [{', '.join(secret)}]")
    for setting in known:
        if REFUSES_REPEATED_ITEMS.of(release):
            _check_items(setting, layer[setting.name])
        setting.parse(layer[setting.name])
    of_listeners = {name: match[1] for name in layer if (match := _OF_LISTENER.fullmatch(name)) is not None}
    for name, base in of_listeners.items():
        setting = definitions.broker.get(base)
        if setting is not None and not setting.absent and not setting.read_only:
            if REFUSES_REPEATED_ITEMS.of(release):
                _check_items(setting, layer[name])
            setting.parse(layer[name])
    local = [setting.name for setting in known if "per-broker" in setting.marks]
    local += [name for name, base in of_listeners.items() if base not in OF_ALL_LISTENERS]
    if local and not per_broker:
        where = "at default cluster level, broker id must be specified"
        raise ConfigError(f"Cannot update these configs {where}: [{', '.join(local)}]")


@lru_cache(maxsize=16)
def connections_by_host(raw: str) -> Mapping[str, int]:
    """Returns the largest number of connections of each address that max.connections.per.ip.overrides names. Raises
    ConfigError, with the messages of Kafka and of Java."""
    found: dict[str, str] = {}
    for each in re.split(r"\s*,\s*", raw.rstrip(", ")) if raw.strip(", ") else ():
        host, colon, number = each.rpartition(":")
        if not colon:
            wrong = f"begin 0, end -1, length {len(each)}"
            raise ConfigError(f"Error parsing configuration property '{OVERRIDES}': {wrong}")
        found[trim(host)] = trim(number)
    if unsound := [host for host in found if HOST.fullmatch(host) is None]:
        raise ConfigError(f"{OVERRIDES} contains invalid addresses : {','.join(unsound)}")
    limits = {host: parse_integer(number) for host, number in found.items()}
    for host, limit in limits.items():
        if limit is None:
            raise ConfigError(f'For input string: "{found[host]}"')
    return {resolved(host) or host: limit for host, limit in limits.items() if limit is not None}


def _check_items(setting: Setting, raw: str) -> None:
    items = [each.strip(JAVA_SPACE) for each in raw.split(",")]
    if setting.type is ConfigType.LIST and LOOSE not in setting.marks and len(set(items)) != len(items):
        raise ConfigError(f"Configuration '{setting.name}' values must not be duplicated.")


_OF_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)
THREADS = "num.network.threads"
CONNECTION_LIMITS = ("max.connections", "max.connection.creation.rate")
OF_ALL_LISTENERS = (*CONNECTION_LIMITS, THREADS)
"""The settings of a listener that can be altered for all brokers together."""
CLEANER, CLEANER_BUFFER = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
POOLS = (
    "background.threads", "num.io.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads",
)  # fmt: skip
"""The settings whose values are numbers of threads, except `CLEANER` and `THREADS`. In Kafka one alteration can at most double
or halve a number of threads."""
INVALID = "Invalid value org.apache.kafka.common.config.ConfigException: "
"""Kafka's message begins with this text if a part of the broker refuses a setting (DynamicBrokerConfig)."""


def _check_pool(name: str, before: int, after: int) -> str | None:
    """Returns the message of Kafka's DynamicThreadPool.validateReconfiguration or LogCleaner.validateReconfiguration, or
    None."""
    failed = f"Dynamic thread count update validation failed for {name}={after}, value should"
    cleaner = "Log cleaner threads cannot be"
    if after == before:
        return None
    if after < before // 2:
        few = f"{cleaner} reduced to less than" if name == CLEANER else f"{failed} be at least"
        return f"{few} half the current value {before}"
    if after > before * 2:
        many = f"{cleaner} increased to more than" if name == CLEANER else f"{failed} not be greater than"
        return f"{many} double the current value {before}"
    return None


def check_topic_configs(overrides: Mapping[str, str], broker: BrokerConfigs, held: Collection[str] = ()) -> dict[str, Value]:
    """Returns the typed values of a topic's `overrides`. Raises ConfigError if values are wrong or contradict each other
    (LogConfig.validate).

    Settings in `held` may be unknown: the topic has them from another release, and they have no effect.
    """
    for name in overrides:
        if name not in held and not broker.definitions.has_topic_setting(name):
            raise ConfigError(f"Unknown topic config name: {name}")
    known = broker.definitions.topic
    values = {name: known[name].parse(raw) for name, raw in overrides.items() if name in known}
    least = values.get("min.compaction.lag.ms", broker.value("min.compaction.lag.ms"))
    most = values.get("max.compaction.lag.ms", broker.value("max.compaction.lag.ms"))
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise ConfigError(f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})")
    if values.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
        )
    return values


class TopicConfigs(Configs):
    """The settings of one topic: its own settings (`overrides`), and the broker's values for all other settings."""

    def __init__(self, broker: BrokerConfigs, overrides: Mapping[str, str], held: Collection[str] = ()) -> None:
        """Raises ConfigError for a value that Kafka refuses, and for an unknown name that is not in `held`."""
        self.broker = broker
        self._set(overrides, held)

    def _set(self, overrides: Mapping[str, str], held: Collection[str]) -> None:
        self._values = check_topic_configs(overrides, self.broker, held)
        self.overrides = dict(overrides)

    def replace(self, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of the topic. Raises ConfigError for an invalid name or value, and changes nothing."""
        self._set(overrides, self.overrides)
        self.broker.version += 1

    def value(self, name: str) -> Value:
        """Returns the typed value. Raises KeyError if topics have no such setting."""
        if name in self._values:
            return self._values[name]
        if name not in self.broker.definitions.topic:
            raise KeyError(name)
        return self.broker.value(name)

    @property
    def release(self) -> Release:
        """The release that the brokers run."""
        return self.broker.release

    @property
    def keeps_eligible(self) -> bool:
        """Tells whether the cluster has eligible leader replicas (KIP-966)."""
        return self.broker.features[ELIGIBLE_REPLICAS] > 0

    def source(self, name: str, node: int) -> Source:
        """Returns the source that the controller reports for the setting's value. The controller considers every corresponding
        broker setting."""
        if name in self.overrides:
            return Source.TOPIC
        for layer, source in self.broker.layers(node):
            if any(synonym in layer for synonym in self.broker.definitions.topic_synonyms.get(name, ())):
                return source
        return Source.DEFAULT

    def describe(self, node: int, names: Iterable[str] | None = None) -> list[Entry]:
        """Returns the topic's settings as this broker shows them; with `names`, only the named settings. Callers must not
        change the list."""
        if names is None and not self.overrides:
            return self.broker.shown((node, "topics"), lambda: self._describe(node, None))
        return self._describe(node, names)

    def describe_created(self, node: int) -> list[Entry]:
        """Returns the topic's settings as the controller shows them when it creates the topic. `source` finds the source of
        each setting."""
        if self.overrides:
            return self._describe_created(node)
        return self.broker.shown((node, "created"), lambda: self._describe_created(node))

    def _describe_created(self, node: int) -> list[Entry]:
        entries = self.describe(node) if HIDES_AT_CREATION.of(self.release) else self._describe(node, None, with_internal=True)
        return [entry._replace(source=self.source(entry.name, node)) for entry in sorted(entries)]

    def _describe(self, node: int, names: Iterable[str] | None, *, with_internal: bool = False) -> list[Entry]:
        wanted = None if names is None else set(names)
        entries = []
        for entry in self.broker.topic_defaults(node):
            name = entry.name
            if wanted is not None and name not in wanted:
                continue
            if name in self.overrides:
                value = self.text(name)
                synonyms = [Synonym(name, value, Source.TOPIC), *entry.synonyms]
                entries.append(entry._replace(value=value, source=Source.TOPIC, synonyms=synonyms))
                continue
            setting = self.broker.definitions.topic[name]
            if not setting.hidden or (with_internal and setting.internal and not setting.absent):
                entries.append(entry)
        return entries
