"""Random dialogues about feature levels, logger levels and group settings, while topics are created and deleted.

A feature level applies to the whole cluster. So each dialogue has its own broker, and first sets the levels that it later
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from random_dialogues.admin import Admin
from random_dialogues.asking import Asking
from random_dialogues.mixed import VALUES
from random_dialogues.replay import Ask, Head, Responses
from random_dialogues.shares import GROUP_RESOURCE
from random_dialogues.symbols import Json

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
UPGRADE, SAFE, UNSAFE = 1, 2, 3
LEVELS = {"group.version": 1, "share.version": 1, "streams.version": 1, "transaction.version": 2}
"""The features that dialogues change, and the level that each dialogue sets first."""
FEATURES = {
    "group.version": [0, 1, 2], "share.version": [0, 1, 2], "streams.version": [0, 1, 2], "transaction.version": [0, 1, 2, 3],
    "metadata.version": [30, 31, 1, 0], "kraft.version": [0, 9], "nope": [0, 1], "": [1],
}  # fmt: skip
LOGGERS = ["org.apache.kafka", "kafka", "kafka.log.LogCleaner", "kafka.coordinator.transaction.TransactionCoordinator"]
LOGGED = ["INFO", "WARN", "ERROR", "FATAL", "OFF", "warn", "loud", ""]
NAMES = {GROUP_RESOURCE: {"@g": 5, "@h": 3, "": 0.3}, TOPIC: {"@t": 3, "@u": 2, "@no": 1}, BROKER: {"1": 3, "9": 1, "x": 1}}
"""For each type of resource: its names and their weights. Names with larger weights are chosen more often."""
GROUP_VALUES = VALUES[GROUP_RESOURCE]


class Administration(Asking):
    """A dialogue. Each request depends only on the seed."""

    pause = 0.08

    def __init__(self, seed: int) -> None:
        super().__init__(Head("administration", seed, ["t", "u"], ["g"]))
        self._topics = Admin(seed)
        self._began = 0

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Remembers the first broker's responses."""
        self._topics.learn(ask, responses)

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        weights: dict[Callable[[], Ask], float] = {
            self._update: 4.0, self._api_versions: 3.0, self._of_feature: 2.0, self._alter_loggers: 2.0,
            self._describe_loggers: 2.0, self._alter: 4.0, self._replace: 2.0, self._describe: 3.0,
            lambda: self._topics.ask(free): 6.0, self._cluster: 1.0,
        }  # fmt: skip
        self._began += 1
        first = {1: self._begin_features, 2: self._begin_loggers}.get(self._began)
        return replace((first or self._pick(weights))(), connection=free[0])

    # Features

    def _begin_features(self) -> Ask:
        updates = [{"feature": name, "max_version_level": level, "upgrade_type": 1} for name, level in LEVELS.items()]
        return Ask(0, "UpdateFeatures", 1, {"timeout_ms": 10_000, "feature_updates": updates, "validate_only": False})

    def _update(self) -> Ask:
        version = self._version(0, 2)
        updates = []
        for name in self._random.sample(sorted(FEATURES), self._pick({1: 6, 2: 2, 3: 1, 0: 0.2})):
            if name not in LEVELS and self._chance(0.6):
                name = self._random.choice(sorted(LEVELS))
            level = self._random.choice(FEATURES[name]) if self._chance(0.9) else -1
            how = {"allow_downgrade": self._chance(0.5)}
            if version:
                how = {"upgrade_type": self._pick({UPGRADE: 4, SAFE: 3, UNSAFE: 3, 0: 0.3, 4: 0.3})}
            updates.append({"feature": name, "max_version_level": level, **how})
        body: Json = {"timeout_ms": 10_000, "feature_updates": list({each["feature"]: each for each in updates}.values())}
        if version:
            body["validate_only"] = self._chance(0.15)
        return Ask(0, "UpdateFeatures", version, body)

    def _api_versions(self) -> Ask:
        names = {("a", "1"): 6, ("", "1"): 0.3, ("-", "1"): 0.3, ("a", "1 2"): 0.3}
        name, version = self._pick(names)
        return Ask(0, "ApiVersions", self._version(3, 4), {"client_software_name": name, "client_software_version": version})

    def _of_feature(self) -> Ask:
        """Returns a request of an API that requires a feature. The API works only if this feature is enabled."""
        absent: Json = {"group_ids": ["@g"], "include_authorized_operations": False}
        stray: Json = {"group_id": "@g", "member_id": "m", "member_epoch": 5}
        topology: Json = {"group_id": "@g", "member_id": "m", "member_epoch": 5, "endpoint_information_epoch": 0}
        return self._random.choice(
            [
                Ask(0, "ConsumerGroupDescribe", 1, absent), Ask(0, "ShareGroupDescribe", 1, absent),
                Ask(0, "StreamsGroupDescribe", 0, absent), Ask(0, "ConsumerGroupHeartbeat", 1, stray),
                Ask(0, "ShareGroupHeartbeat", 1, stray), Ask(0, "StreamsGroupHeartbeat", 0, topology),
            ]
        )  # fmt: skip

    # Loggers

    def _begin_loggers(self) -> Ask:
        return self._levels([(name, DELETE, None) for name in LOGGERS], "1")

    def _levels(self, levels: list[tuple[str, int, str | None]], broker: str, *, validate_only: bool = False) -> Ask:
        configs = [{"name": name, "config_operation": how, "value": level} for name, how, level in levels]
        resource = {"resource_type": LOGGER, "resource_name": broker, "configs": configs}
        return Ask(0, "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": validate_only})

    def _broker(self) -> str:
        return self._pick({"1": 12, "": 1, "9": 1, "x": 0.5})

    def _alter_loggers(self) -> Ask:
        levels: list[tuple[str, int, str | None]] = []
        for _ in range(self._pick({1: 5, 2: 2})):
            name = self._random.choice(LOGGERS) if self._chance(0.9) else self._pick({"nope": 3, "root": 0.5, "": 1})
            how = self._pick({SET: 8, DELETE: 2, APPEND: 0.5, 9: 0.3})
            level = self._random.choice(LOGGED) if self._chance(0.5) else self._random.choice(LOGGED[:3])
            levels.append((name, how, level if how != DELETE else self._pick({None: 3, "INFO": 1})))
        return self._levels(levels, self._broker(), validate_only=self._chance(0.15))

    def _describe_loggers(self) -> Ask:
        asked = self._random.sample([*LOGGERS, "nope"], 3)
        resource: Json = {"resource_type": LOGGER, "resource_name": self._broker(), "configuration_keys": asked}
        return Ask(0, "DescribeConfigs", self._version(1, 4), {"resources": [resource], "include_synonyms": self._chance(0.4)})

    # Groups

    def _resource(self) -> Json:
        """Chooses a resource with settings, mostly a group."""
        kind = self._pick({GROUP_RESOURCE: 8, TOPIC: 3, BROKER: 1})
        names = {
            GROUP_RESOURCE: {"@g": 5, "@h": 3, "": 0.3},
            TOPIC: {"@t": 3, "@u": 2, "@no": 1},
            BROKER: {"1": 3, "9": 1, "x": 1},
        }
        return {"resource_type": kind, "resource_name": self._pick(names[kind])}

    def _resources(self, *, twice: bool = True) -> list[Json]:
        """Chooses resources: mostly one resource, in some cases the same resource twice."""
        resources = [self._resource() for _ in range(self._pick({1: 5, 2: 3}))]
        if not twice:
            return list({(each["resource_type"], each["resource_name"]): each for each in resources}.values())
        return [*resources, dict(resources[0])] if self._chance(0.15) else resources

    def _settings(self, kind: int) -> list[tuple[str, str]]:
        if kind == GROUP_RESOURCE:
            names = self._random.sample(sorted(GROUP_VALUES), self._pick({1: 5, 2: 2, 3: 1}))
            return [(name, self._random.choice(GROUP_VALUES[name][: None if self._chance(0.3) else 2])) for name in names]
        if kind == TOPIC:
            return [("retention.ms", self._random.choice(["1000", "x"])), ("min.insync.replicas", "1")]
        return [("log.cleaner.threads", "abc")]

    def _alter(self) -> Ask:
        resources = []
        for each in self._resources():
            how = self._pick({SET: 6, DELETE: 2, APPEND: 0.5, 9: 0.2})
            configs = [
                {"name": name, "config_operation": how, "value": None if how == DELETE else value}
                for name, value in self._settings(each["resource_type"])
            ]
            resources.append(each | {"configs": configs})
        body: Json = {"resources": resources, "validate_only": self._chance(0.15)}
        return Ask(0, "IncrementalAlterConfigs", self._version(0, 1), body)

    def _replace(self) -> Ask:
        resources = []
        for each in self._resources(twice=False):  # Kafka does not answer an AlterConfigs that names a resource twice
            configs = [{"name": name, "value": value} for name, value in self._settings(each["resource_type"])]
            resources.append(each | {"configs": configs})
        if self._chance(0.15):
            resources.append(
                {"resource_type": LOGGER, "resource_name": "1", "configs": [{"name": LOGGERS[0], "value": "INFO"}]}
            )
        return Ask(0, "AlterConfigs", self._version(0, 2), {"resources": resources, "validate_only": self._chance(0.15)})

    def _describe(self) -> Ask:
        resources = []
        for each in self._resources():
            keys = {GROUP_RESOURCE: sorted(GROUP_VALUES), TOPIC: ["retention.ms", "min.insync.replicas"]}.get(
                each["resource_type"], ["num.partitions", "log.cleaner.threads"]
            )
            every = each["resource_type"] == GROUP_RESOURCE and self._chance(0.5)
            resources.append(each | {"configuration_keys": None if every else self._random.sample(keys, 2)})
        body: Json = {"resources": resources, "include_synonyms": self._chance(0.5)}
        version = self._version(1, 4)
        if version >= 3:
            body["include_documentation"] = False
        return Ask(0, "DescribeConfigs", version, body)

    def _cluster(self) -> Ask:
        version = self._version(0, 2)
        body: Json = {"include_cluster_authorized_operations": self._chance(0.5)}
        if version >= 1:
            body["endpoint_type"] = self._pick({1: 6, 2: 0.5, 3: 0.5})
        if version >= 2:
            body["include_fenced_brokers"] = self._chance(0.5)
        return Ask(0, "DescribeCluster", version, body)
