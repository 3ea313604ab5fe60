"""The resources that have settings: topics, brokers, groups and client metrics. DescribeConfigs shows the settings, and the
AlterConfigs APIs change them.

Kafka checks an alteration twice: first on the receiving broker (ConfigAdminManager), then on the controller
(ConfigurationControlManager). The receiving broker and the controller have different error messages. The checks of this module
run in the same order as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kafkawire.compiling import fits
from kafkawire.errors import ErrorCode
from wirebroker.common.java_texts import JAVA_SPACE, parse_integer, trim
from wirebroker.core.acls import has_settings
from wirebroker.core.cluster import Cluster
from wirebroker.core.configs import (
    BrokerConfigs,
    ConfigError,
    Entry,
    Source,
    Synonym,
    check_topic_configs,
    in_java_order,
    keep,
)
from wirebroker.core.features import CORDONS_SINCE, ELIGIBLE_REPLICAS, METADATA
from wirebroker.core.java_order import buckets_for, hash_order, java_hash
from wirebroker.core.log_dirs import CORDONED
from wirebroker.core.loggers import STRICT_LOGGERS, Loggers
from wirebroker.core.names import ends_zookeeper_path, topic_name_error
from wirebroker.core.patterns import is_java_pattern
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since, until
from wirebroker.core.setting_definitions import CLIENT_METRICS_SETTINGS, STRICT_LISTS, ConfigType, Value, loosened

TYPES_CLIENT_METRICS = since("4.0", "an invalid value for a setting of client metrics is refused with error 40")
SHOWS_CLIENT_METRICS = since("4.1", "DescribeConfigs shows all settings of client metrics, with types", "KAFKA-17516")
SHOWS_GROUP_SYNONYMS = since("4.3", "DescribeConfigs also shows the broker's setting that a group's setting overrides")
NAMES_UNKNOWN_OPERATIONS = (
    since("3.3", "an unknown operation on a logger gets error 42")
    .then("3.7", False, "an unknown operation on a logger is refused with error −1")
    .then("4.4", True, "an unknown operation on a logger is refused with error 42")
)
TELLS_RANGES = since("4.4", "the refusal of a group's setting names the range in which it must be")
APPENDS_ONCE = since("3.3", "IncrementalAlterConfigs appends no item that a list already has", "KIP-833")
REFUSES_REPEATED_SETTINGS = since("3.3", "AlterConfigs refuses a setting that is given twice", "KIP-833")
FINDS_ALTERED_TOPICS = since("2.7", "AlterConfigs of an unknown topic gets error 3 instead of −1")
TELLS_SERVER_ERRORS = until(
    "2.6", "if AlterConfigs, IncrementalAlterConfigs or CreatePartitions fails with error −1, the response has no message"
)
ASKS_ABOUT_BROKERS_FIRST = since(
    "4.4",
    "a broker checks a client's rights before it checks the client's change of the broker's settings; a refusal has no message",
)
REFUSES_NULL_CHANGES = since(
    "2.6", "IncrementalAlterConfigs refuses a null value with error 42 instead of −1, and can append to a list that is not set"
)

LONGEST_VALUE = 32767


class ResourceType(IntEnum):
    """Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


KINDS = frozenset(ResourceType)


class Operation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET, DELETE, APPEND, SUBTRACT = range(4)


OPERATIONS = frozenset(Operation)


class Change(NamedTuple):
    """One setting that a client wants to change. `operation` may be a number that Kafka does not know."""

    name: str
    operation: int
    value: str | None


class Alteration:
    """The changes of a request to one resource. If `replaces` is set, the changes replace all settings of the resource."""

    def __init__(self, cluster: Cluster, node_id: int, kind: int, name: str, changes: list[Change], *, replaces: bool) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.kind = kind
        self.name = name
        self.changes = changes
        self.replaces = replaces

    @property
    def is_refused_early(self) -> bool:
        """Tells whether the receiving broker refuses the changes before anybody looks at the client's rights."""
        if self._zookeeper:
            return False
        if self._unsound() is not None:
            return True
        late = self.kind != ResourceType.BROKER or ASKS_ABOUT_BROKERS_FIRST.of(self.cluster.configs.release)
        return not late and self._on_this_broker() is not None

    @property
    def fails_controller(self) -> bool:
        """Tells whether a change has an operation that does not exist in any version. Such a change makes Kafka's controller
        refuse the whole request."""
        if all(change.operation in OPERATIONS for change in self.changes):
            return False
        if self._zookeeper or self.kind == ResourceType.BROKER_LOGGER or self._on_broker() is not None:
            return False
        refusal = self._apply_all(dict(current(self.cluster, self.kind, self.name)))
        return refusal is not None and refusal.code == ErrorCode.UNKNOWN_SERVER_ERROR

    @property
    def cannot_be_written(self) -> bool:
        """Tells whether the controller would have to write a record with a text that no record can hold."""
        texts = (self.name, *(text for each in self.changes for text in (each.name, each.value or "")))
        return not all(map(fits, texts)) and self.records > 0

    @property
    def most_records(self) -> int:
        """The number of records for the changes is at most this."""
        held = len(current(self.cluster, self.kind, self.name)) if self.replaces and self._on_broker() is None else 0
        return len(self.changes) + held

    @property
    def records(self) -> int:
        """The number of records that Kafka's controller would write for the changes."""
        if self._zookeeper or self.kind == ResourceType.BROKER_LOGGER or self._on_broker() is not None:
            return 0
        before = dict(current(self.cluster, self.kind, self.name))
        wanted = {} if self.replaces else dict(before)
        if self._apply_all(wanted) is not None or self._on_controller(wanted, validate_only=True) is not None:
            return 0
        return len({name for name, _ in before.items() ^ wanted.items()})

    def alter(self, *, validate_only: bool, whole: Refusal | None = None) -> Refusal | None:
        """Make all changes. If one change is invalid, make no change. Returns the Refusal of an invalid change, else None. With
        `validate_only`, only check the changes. `whole` is the refusal with which the controller refuses the whole request, or
        None.
        """
        refusal = self._on_broker()
        if refusal is not None:
            return refusal
        if self.kind == ResourceType.BROKER_LOGGER:
            if not validate_only:
                levels = [(change.name, change.value if change.operation == Operation.SET else None) for change in self.changes]
                self._loggers.alter(levels, self.cluster.configs.release)
            return None
        if whole is not None:
            return whole
        if self._zookeeper and not self.replaces and not ends_zookeeper_path(self.name) and self.kind == ResourceType.TOPIC:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Invalid path in ZooKeeper: /config/topics/{self.name}")
        wanted = {} if self.replaces else dict(current(self.cluster, self.kind, self.name))
        return self._apply_all(wanted) or self._on_controller(wanted, validate_only)

    def _apply_all(self, wanted: dict[str, str]) -> Refusal | None:
        """Make the changes to the settings of the resource, in the order of the controller's hash table. Returns the Refusal of
        the first invalid change, else None."""
        in_turn = self.changes
        if not self._zookeeper:
            in_turn = hash_order(self.changes, lambda change: java_hash(change.name), buckets_for(len(self.changes)))
        return next(filter(None, (self._apply(change, wanted) for change in in_turn)), None)

    def _on_broker(self) -> Refusal | None:
        refusal = self._unsound()
        if refusal is not None:
            return refusal
        if self.kind == ResourceType.BROKER_LOGGER:
            return self._on_loggers()
        return self._on_this_broker() if self.kind == ResourceType.BROKER else None

    def _unsound(self) -> Refusal | None:
        """Returns the refusal of changes that the receiving broker refuses for every resource of this type, else None."""
        names = [change.name for change in self.changes]
        takes_repeated = self.replaces and not REFUSES_REPEATED_SETTINGS.of(self.cluster.configs.release)
        if len(set(names)) != len(names) and not takes_repeated:
            return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        nulls = [change.name for change in self.changes if change.value is None and change.operation != Operation.DELETE]
        if nulls and REFUSES_NULL_CHANGES.of(self.cluster.configs.release):
            return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
        takes = self.kind != ResourceType.BROKER_LOGGER or not self.replaces
        if takes and self.kind in KINDS and has_settings(self.kind, self.cluster.configs.release):
            return None
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {self.kind}")

    def _on_loggers(self) -> Refusal | None:
        release = self.cluster.configs.release
        number = parse_integer(self.name)
        if number is None and (self.name or STRICT_LOGGERS.of(release)):
            return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {self.name}")
        if number is not None and number != self.node_id:
            message = f"Unexpected node id. Expected {self.node_id}, but received {number}"
            return Refusal(ErrorCode.INVALID_REQUEST, message)
        for change in self.changes:
            if change.operation not in OPERATIONS:
                unknown = f"Unknown operation type {change.operation} is not allowed for the BROKER_LOGGER resource"
                names = NAMES_UNKNOWN_OPERATIONS.of(release)
                return Refusal(ErrorCode.INVALID_REQUEST, unknown) if names else self._server_error("null")
            if change.operation not in (Operation.SET, Operation.DELETE):
                message = f"{Operation(change.operation).name} operation is not allowed for the BROKER_LOGGER resource"
                return Refusal(ErrorCode.INVALID_REQUEST, message)
            removes = change.operation == Operation.DELETE
            refusal = self._loggers.refusal(change.name, change.value, release, removes=removes)
            if refusal is not None:
                return refusal
        return None

    @property
    def _loggers(self) -> Loggers:
        return self.cluster.brokers[self.node_id].loggers

    def _on_this_broker(self) -> Refusal | None:
        number = parse_integer(self.name)
        if number is None and self.name:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {self.name}")
        if number is not None and number != self.node_id:
            message = f"Unexpected broker id, expected {self.node_id}, but received {self.name}"
            return Refusal(ErrorCode.INVALID_REQUEST, message)
        wanted = {} if self.replaces else dict(current(self.cluster, self.kind, self.name))
        for change in self.changes:
            if change.operation not in OPERATIONS:
                return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}")
            refusal = self._apply(change, wanted)
            if refusal is not None:
                return refusal
        try:
            node, listeners = int(self.name) if self.name else None, self.cluster.brokers[self.node_id].addresses
            self.cluster.configs.check(wanted, node, listeners or ("",))
            if self.name:
                self.cluster.log_dirs.check_cordoned(wanted.get(CORDONED, ""), self.node_id)
        except ConfigError as error:
            return Refusal(ErrorCode.INVALID_REQUEST, str(error))
        return None

    def _apply(self, change: Change, wanted: dict[str, str]) -> Refusal | None:
        """Make one change to the settings of the resource."""
        if change.operation == Operation.SET and change.value is not None:
            wanted[change.name] = change.value
        elif change.operation == Operation.DELETE:
            wanted.pop(change.name, None)
        elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
            return self._apply_to_list(change, change.value, wanted)
        elif change.operation == Operation.SET:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        else:
            return self._server_error("null")
        return None

    def _server_error(self, message: str) -> Refusal:
        """Returns the refusal of a change that fails with an exception in Kafka. In some releases the response has the
        exception's message."""
        tells = TELLS_SERVER_ERRORS.of(self.cluster.configs.release)
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message if tells else None)

    def _apply_to_list(self, change: Change, value: str | None, wanted: dict[str, str]) -> Refusal | None:
        known = self.cluster.configs.definitions
        tables = {ResourceType.TOPIC: known.topic, ResourceType.BROKER: known.broker}
        setting = tables.get(ResourceType(self.kind), {}).get(change.name)
        if setting is not None and setting.absent:
            setting = None
        verb = Operation(change.operation)
        if setting is None or setting.type is not ConfigType.LIST:
            if self.kind != ResourceType.BROKER:
                message = f"Can't {verb.name} to key {change.name} because its type is not LIST."
            elif setting is None:
                message = f"Unknown config name: {change.name}"
            else:
                message = f"Config value {verb.name.lower()} is not allowed for config key: {change.name}"
            if not self._zookeeper:
                return Refusal(ErrorCode.INVALID_CONFIG, message)
            if setting is None:
                return self._server_error(f"key not found: {change.name}")
            return Refusal(ErrorCode.INVALID_REQUEST, message)
        release = self.cluster.configs.release
        if value is None or (change.name not in wanted and not REFUSES_NULL_CHANGES.of(release)):
            return self._server_error(f"the setting {change.name} has no value")
        once = APPENDS_ONCE.of(release)
        values = [each for each in wanted.get(change.name, setting.default or "").split(",") if each or not once]
        for each in value.split(","):
            if verb is Operation.APPEND and not (once and each in values):
                values.append(each)
            elif verb is Operation.SUBTRACT and each in values:
                values.remove(each)
        wanted[change.name] = ",".join(values)
        return None

    def _on_controller(self, wanted: dict[str, str], validate_only: bool) -> Refusal | None:
        if not self._zookeeper and any(len(value) > LONGEST_VALUE for value in wanted.values()):
            message = f"The configuration value is longer than the {LONGEST_VALUE} bytes that a setting may have."
            return Refusal(ErrorCode.INVALID_CONFIG, message)
        refusal = self._replicas_error(wanted) or self._cordoning_error() or self._check(wanted)
        if refusal is None and not validate_only:
            before = dict(current(self.cluster, self.kind, self.name))
            texts = (self.name, wanted)
            self.cluster.decisions.make(texts, lambda: self._store(wanted), lambda: self._store(before))
        return refusal

    def _replicas_error(self, wanted: Mapping[str, str]) -> Refusal | None:
        """In a cluster with eligible leader replicas (KIP-966), refuses to change one broker's min.insync.replicas, and to
        remove the cluster's min.insync.replicas."""
        name = "min.insync.replicas"
        if self.kind != ResourceType.BROKER or not self.cluster.configs.features[ELIGIBLE_REPLICAS]:
            return None
        if self.name and any(change.name == name for change in self.changes):
            return Refusal(ErrorCode.INVALID_CONFIG, f"Broker-level {name} cannot be altered while ELR is enabled.")
        if not self.name and name not in wanted:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Cluster-level {name} cannot be removed while ELR is enabled.")
        return None

    def _cordoning_error(self) -> Refusal | None:
        """Refuses to cordon directories in a cluster that was upgraded but still has the metadata.version of an earlier
        release."""
        setting = self.cluster.configs.definitions.broker.get(CORDONED)
        known = setting is not None and not setting.absent and self.kind == ResourceType.BROKER
        if not known or self.cluster.configs.features[METADATA] >= CORDONS_SINCE:
            return None
        if all(change.name != CORDONED for change in self.changes):
            return None
        message = f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        return Refusal(ErrorCode.INVALID_CONFIG, message)

    def _check(self, wanted: dict[str, str]) -> Refusal | None:
        try:
            if self.kind == ResourceType.TOPIC:
                return self._check_topic(wanted)
            if self.kind == ResourceType.CLIENT_METRICS:
                return _check_client_metrics(self.name, wanted, self.cluster.configs.release)
            if self.kind == ResourceType.GROUP:
                return _check_group(self.name, wanted, self.cluster.configs)
        except ConfigError as error:
            known = all(map(self.cluster.configs.definitions.has_topic_setting, wanted))
            return Refusal(ErrorCode.INVALID_REQUEST if self._zookeeper and known else ErrorCode.INVALID_CONFIG, str(error))
        return None

    @property
    def _zookeeper(self) -> bool:
        """Tells whether the receiving broker, instead of a controller, checks the changes and writes them to ZooKeeper."""
        return self.cluster.configs.release.has_zookeeper

    def _check_topic(self, wanted: dict[str, str]) -> Refusal | None:
        if self._zookeeper and self.name not in self.cluster.topics:
            return self._no_topic_in_zookeeper(wanted)
        if not self.name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        error = topic_name_error(self.name)
        if error is not None:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
        held = self.cluster.topics[self.name].configs.overrides if self.name in self.cluster.topics else ()
        check_topic_configs(wanted, self.cluster.configs, held)
        if self.name not in self.cluster.topics:
            message = f"The topic '{self.name}' does not exist."
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return None

    def _no_topic_in_zookeeper(self, wanted: dict[str, str]) -> Refusal | None:
        if FINDS_ALTERED_TOPICS.of(self.cluster.configs.release):
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{self.name}' does not exist.")
        if error := topic_name_error(self.name):
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
        if not self.cluster.takes_name(self.name):
            return self._server_error(f'Topic "{self.name}" does not exist.')
        check_topic_configs(wanted, self.cluster.configs, ())
        return None

    def _store(self, wanted: dict[str, str]) -> None:
        configs = self.cluster.configs
        if self.kind == ResourceType.TOPIC:
            if self.name in self.cluster.topics:  # with ZooKeeper, a topic that is being deleted can be altered
                self.cluster.topics[self.name].configs.replace(wanted)
        elif self.kind == ResourceType.BROKER:
            configs.put(wanted, int(self.name) if self.name else None)
        else:
            keep(configs.groups if self.kind == ResourceType.GROUP else configs.client_metrics, self.name, wanted)
        self.cluster.version += 1


def unwritten(failed: Exception) -> Refusal:
    """Returns the refusal of a metadata change that could not be written to the log."""
    if not isinstance(failed, OSError):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"The change cannot be written down: {failed.strerror or failed}")


def current(cluster: Cluster, kind: int, name: str) -> Mapping[str, str]:
    """Returns the resource's own settings as text, without inherited values."""
    if kind == ResourceType.TOPIC:
        return cluster.topics[name].configs.overrides if name in cluster.topics else {}
    if kind == ResourceType.BROKER:
        return cluster.configs.dynamic.get(int(name) if name else None, {})
    if kind == ResourceType.GROUP:
        return cluster.configs.groups.get(name, {})
    return cluster.configs.client_metrics.get(name, {})


def repeated(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Returns the resources that a request names more than once. Kafka refuses every change of these resources."""
    seen: set[tuple[int, str]] = set()
    twice: set[tuple[int, str]] = set()
    for resource in resources:
        (twice if resource in seen else seen).add(resource)
    return twice


REPEATED = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def _check_client_metrics(name: str, wanted: Mapping[str, str], release: Release) -> Refusal | None:
    """Returns the refusal by Kafka's ClientMetricsConfigs.validate, or None."""
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in wanted:
        if key not in CLIENT_METRICS_SETTINGS:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    for key, raw in wanted.items():
        if TYPES_CLIENT_METRICS.of(release):
            value = loosened(CLIENT_METRICS_SETTINGS, STRICT_LISTS.of(release))[key].parse(raw)
        elif (value := _untyped(key, raw)) is None:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if isinstance(value, int) and not 100 <= value <= 3_600_000:
            message = f"Invalid value {value} for {key}, interval must be between 100 and 3600000 (1 hour)"
            return Refusal(ErrorCode.INVALID_REQUEST, message)
        if key == "match" and isinstance(value, list):
            for pattern in value:
                parts = pattern.rstrip("=").split("=")  # Java's split drops empty strings at the end
                if len(parts) != 2 or trim(parts[0]) not in _MATCHABLE or not is_java_pattern(trim(parts[1])):
                    return Refusal(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")
    return None


def _untyped(key: str, raw: str) -> Value:
    """Reads a setting of client metrics as in old releases. In these releases, such settings have no types. Returns None for an
    interval that is not a number.
    """
    if key == "interval.ms":
        return parse_integer(raw)
    values = raw.split(",")
    while raw and values and not values[-1]:  # Java's split drops empty strings at the end
        del values[-1]
    return values


_MATCHABLE = {"client_instance_id", "client_id", "client_software_name", "client_software_version"} | {
    "client_source_address", "client_source_port",
}  # fmt: skip


def _check_group(name: str, wanted: Mapping[str, str], broker: BrokerConfigs) -> Refusal | None:
    """Returns the refusal by Kafka's GroupConfig.validate, or None. The broker's group.*.min.* and group.*.max.* limit the
    settings of a group."""
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    known = broker.definitions.group
    for key in wanted:
        if key not in known or known[key].absent:
            raise ConfigError(f"Unknown group config name: {key}")
    if _has_twice(wanted.get(TAGS, "")):
        raise ConfigError(f"{TAGS} must not contain duplicate tag keys.")
    values = {key: known[key].parse(raw) for key, raw in wanted.items()}
    for key, value in values.items():
        if isinstance(value, int) and (outside := _outside(key, value, broker)):
            raise ConfigError(outside)
    if (assignor := values.get("streams.assignor.name")) is not None:
        assignors = broker.text("group.streams.assignors").split(",")
        if assignor not in assignors:
            chosen = f"streams.assignor.name '{assignor}' is not a registered task assignor."
            raise ConfigError(f"{chosen} Registered assignors are: [{', '.join(assignors)}].")
    if wanted.get("errors.deadletterqueue.topic.name", "").startswith("__"):
        raise ConfigError("errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if group_number(wanted, session, broker) <= group_number(wanted, heartbeat, broker):
            raise ConfigError(f"{session} must be greater than {heartbeat}")
    return None


TAGS = "streams.rack.aware.assignment.tags"


def _has_twice(raw: str) -> bool:
    items = [each.strip(JAVA_SPACE) for each in raw.split(",")]
    return len(set(items)) != len(items)


def _outside(key: str, value: int, broker: BrokerConfigs) -> str | None:
    """Returns Kafka's message if a group's setting is outside of the range that the broker's settings allow, else None."""
    kind, _, rest = key.partition(".")
    limits = {bound: f"group.{kind}.{bound}.{rest.removeprefix('num.')}" for bound in ("min", "max")}
    limits = {bound: name for bound, name in limits.items() if name in broker.definitions.broker}
    allowed = {bound: broker.integer(name) for bound, name in limits.items()}
    low, high = value < allowed.get("min", value), value > allowed.get("max", value)
    if not low and not high:
        return None
    tells = TELLS_RANGES.of(broker.release)
    if tells and len(allowed) > 1:
        return f"{key} must be in the range {allowed['min']} to {allowed['max']} inclusive."
    bound, words = ("min", "greater than or equal to") if low else ("max", "less than or equal to")
    return f"{key} must be {words} {allowed[bound] if tells else limits[bound]}"


def check_stored(kind: int, name: str, held: Mapping[str, str], configs: BrokerConfigs) -> None:
    """Checks settings that were read from the disk: the settings of a group, or of a metrics subscription. Raises ConfigError
    if they are invalid."""
    if kind == ResourceType.GROUP:
        refusal = _check_group(name, held, configs)
    else:
        refusal = _check_client_metrics(name, held, configs.release)
    if refusal is not None:
        raise ConfigError(refusal.message or refusal.code.name)


def group_number(wanted: Mapping[str, str], name: str, broker: BrokerConfigs) -> int:
    """Returns a group's numeric setting: the group's own value, else the broker's value."""
    return int(wanted[name]) if name in wanted else broker.integer(f"group.{name}")


_INHERITED = {"streams.assignor.name": "group.streams.assignors"}
"""For some group settings: the broker setting that has the default. For any other group setting, the name of this broker
setting is `group.` plus the name of the group setting."""


def describe_group(name: str, configs: BrokerConfigs, node_id: int) -> list[Entry]:
    """Returns the settings of a group. An unknown group has the broker's values."""
    own = configs.groups.get(name, {})
    entries = []
    for setting in configs.definitions.group.values():
        inherited = _INHERITED.get(setting.name, f"group.{setting.name}")
        if setting.hidden and setting.name not in own:
            continue
        if inherited in configs.definitions.broker:
            synonyms = configs.synonyms(inherited, node_id)
            value = configs.text(inherited)
            if setting.type is not ConfigType.LIST:  # the broker setting may be a list: its first entry is the default
                value = value.partition(",")[0]
        else:
            value = setting.default or ""
            synonyms = [Synonym(setting.name, value, Source.DEFAULT)]
        if setting.name in own:
            value = setting.text(setting.parse(own[setting.name]))
            synonyms.insert(0, Synonym(setting.name, value, Source.GROUP))
        if not SHOWS_GROUP_SYNONYMS.of(configs.release):
            synonyms = [Synonym(setting.name, value, synonyms[0].source)]
        entries.append(Entry(setting.name, value, synonyms[0].source, False, False, setting.type, synonyms))
    return in_java_order(entries)


def describe_client_metrics(name: str, configs: BrokerConfigs) -> list[Entry]:
    """Returns the settings of a client metrics subscription."""
    own = configs.client_metrics.get(name, {})
    if not SHOWS_CLIENT_METRICS.of(configs.release):
        source, unknown = Source.CLIENT_METRICS, ConfigType.UNKNOWN
        known = [each for each in CLIENT_METRICS_SETTINGS if each in own]
        return [Entry(each, own[each], source, False, False, unknown, []) for each in known]
    entries = []
    for setting in loosened(CLIENT_METRICS_SETTINGS, STRICT_LISTS.of(configs.release)).values():
        value = setting.text(setting.parse(own.get(setting.name, setting.default or "")))
        synonyms = [Synonym(setting.name, value, Source.CLIENT_METRICS)] if setting.name in own else []
        source = synonyms[0].source if synonyms else Source.DEFAULT
        entries.append(Entry(setting.name, value, source, False, False, setting.type, synonyms))
    return in_java_order(entries)
