"""Random dialogues of administrators: they create, extend and delete topics, and change settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
SETTINGS = {
    "retention.ms": ["1000", "-1", "-2", "abc", ""], "cleanup.policy": ["compact", "delete", "compact,delete", "bogus"],
    "max.message.bytes": ["100", "0", "-1", "2147483648"], "min.insync.replicas": ["1", "2", "0"],
    "compression.type": ["gzip", "zstd", "producer", "none"], "message.timestamp.type": ["LogAppendTime", "Never"],
    "segment.bytes": ["1048576", "10"], "unclean.leader.election.enable": ["true", "maybe"], "no.such.setting": ["1"],
    "segment.ms": ["60000", "0"], "delete.retention.ms": ["5"], "compression.gzip.level": ["5", "0", "10"],
    "leader.replication.throttled.replicas": ["*", "0:1", "x"], "message.timestamp.after.max.ms": ["7"],
}  # fmt: skip
NAMES = ["t", "u", "n1", "n2", "n3"]
ODD_NAMES = ["", ".", "..", "a b", "x" * 250, "@n.1", "@n_1"]


class Admin(Asking):
    """One dialogue. Each request depends on the first broker's earlier responses."""

    pause = 0.06
    """Seconds after which a change is in effect in every part of a Kafka broker."""

    def __init__(self, seed: int) -> None:
        super().__init__(Head("admin", seed, ["t", "u"], configs={"u": {"retention.ms": "5000", "cleanup.policy": "compact"}}))

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        weights: dict[Callable[[], Ask], float] = {
            self._create: 5.0, self._delete: 2.0, self._grow: 3.0, self._describe_configs: 4.0, self._alter: 4.0,
            self._replace: 2.0, self._metadata: 4.0, self._describe: 2.0, self._latest: 2.0,
        }  # fmt: skip
        ask = self._pick(weights)()
        return replace(ask, connection=free[0])

    def _name(self, odd: float = 0.05) -> str:
        if self._chance(odd):
            return self._random.choice(ODD_NAMES)
        return "@" + self._random.choice(NAMES)

    def _names(self) -> list[str]:
        """Returns topic names: mostly one name, in some cases the same name twice."""
        names = [self._name() for _ in range(self._pick({1: 6, 2: 2, 3: 1}))]
        return names if self._chance(0.15) else sorted(set(names))

    def _settings(self) -> list[tuple[str, str | None]]:
        chosen = self._random.sample(sorted(SETTINGS), self._pick({1: 5, 2: 2}))
        return [
            (name, self._random.choice([*SETTINGS[name], None]) if self._chance(0.4) else SETTINGS[name][0]) for name in chosen
        ]

    # Topics

    def _create(self) -> Ask:
        version = self._version(2, 7)
        body: Json = {
            "topics": [self._new_topic(name) for name in self._names()], "timeout_ms": 10_000,
            "validate_only": self._chance(0.2),
        }  # fmt: skip
        return Ask(0, "CreateTopics", version, body)

    def _new_topic(self, name: str) -> Json:
        counts = self._pick(
            {(1, 1): 4, (3, 1): 3, (-1, -1): 2, (0, 1): 0.3, (-2, 1): 0.3, (1, 2): 0.5, (1, 0): 0.3, (-1, 1): 1}
        )
        topic: Json = {
            "name": name,
            "num_partitions": counts[0],
            "replication_factor": counts[1],
            "assignments": [],
            "configs": [],
        }
        if self._chance(0.15):
            topic["assignments"] = [
                {"partition_index": index, "broker_ids": brokers}
                for index, brokers in self._random.choice(
                    [
                        [(0, [1])],
                        [(0, [1]), (1, [1])],
                        [(1, [1])],
                        [(0, [1]), (0, [1])],
                        [(0, [1, 1])],
                        [(0, [9])],
                        [(0, [])],
                        [(0, [1, 2])],
                    ]
                )
            ]
            if self._chance(0.8):
                topic |= {"num_partitions": -1, "replication_factor": -1}
        if self._chance(0.3):
            topic["configs"] = [{"name": name, "value": value} for name, value in self._settings()]
        return topic

    def _delete(self) -> Ask:
        version = self._version(1, 6)
        body: Json = {"timeout_ms": 10_000}
        if version < 6:
            body["topic_names"] = self._names()
        else:
            by_id = [{"name": None, "topic_id": self._pick({"@t": 2, "@u": 1, "@nobody": 1})}]
            body["topics"] = by_id if self._chance(0.4) else [{"name": name} for name in self._names()]
        return Ask(0, "DeleteTopics", version, body)

    def _grow(self) -> Ask:
        topics = []
        for name in self._names():
            topic: Json = {
                "name": name,
                "count": self._pick({3: 3, 4: 3, 2: 1, 1: 1, 0: 0.3, -1: 0.3, 6: 1}),
                "assignments": None,
            }
            if self._chance(0.2):
                topic["assignments"] = [
                    {"broker_ids": brokers} for brokers in self._random.choice([[[1]], [[1], [1]], [[9]], [[]], [[1, 1]]])
                ]
            topics.append(topic)
        body: Json = {"topics": topics, "timeout_ms": 10_000, "validate_only": self._chance(0.2)}
        return Ask(0, "CreatePartitions", self._version(0, 3), body)

    def _metadata(self) -> Ask:
        version = self._version(0, 13)
        if version >= 10 and self._chance(0.3):
            topics: list[Json] = [{"name": None, "topic_id": self._pick({"@t": 3, "@u": 2, "@nobody": 1})}]
        else:
            topics = [{"name": name} for name in self._names()]
        body: Json = {"topics": topics}
        if version >= 4:
            body["allow_auto_topic_creation"] = self._chance(0.1)
        if version >= 8:
            body["include_topic_authorized_operations"] = self._chance(0.2)
        return Ask(0, "Metadata", version, body)

    def _describe(self) -> Ask:
        body: Json = {
            "topics": [{"name": name} for name in self._names()],
            "response_partition_limit": self._pick({2000: 4, 2: 1, 1: 1, 0: 0.2}),
        }
        if self._chance(0.2):
            body["cursor"] = {"topic_name": self._name(), "partition_index": self._pick({0: 2, 1: 2, 9: 1, -1: 0.3})}
        return Ask(0, "DescribeTopicPartitions", 0, body)

    def _latest(self) -> Ask:
        partitions = [{"partition_index": index, "timestamp": -1} for index in (0, 2)]
        return Ask(0, "ListOffsets", 6, {"replica_id": -1, "topics": [{"name": self._name(0), "partitions": partitions}]})

    # Settings

    def _resource(self) -> Json:
        kind = self._pick({TOPIC: 10, BROKER: 1, 0: 0.2, 77: 0.2})
        name = self._name() if kind == TOPIC else self._pick({"1": 3, "": 1, "9": 1, "x": 0.5})
        return {"resource_type": kind, "resource_name": name}

    def _describe_configs(self) -> Ask:
        version = self._version(1, 4)
        resource = self._resource()
        keys = self._random.sample(sorted(SETTINGS), 3)
        if resource["resource_type"] == BROKER:
            keys = ["num.partitions", "log.retention.ms", "no.such.setting", "message.max.bytes"]
        elif self._chance(0.3):
            keys = None
        body: Json = {"resources": [resource | {"configuration_keys": keys}], "include_synonyms": self._chance(0.5)}
        return Ask(0, "DescribeConfigs", version, body)

    def _alter(self) -> Ask:
        resource = self._resource()
        configs: list[Json] = []
        for name, value in self._settings():
            operation = self._pick({SET: 6, DELETE: 2, APPEND: 1, SUBTRACT: 1, 9: 0.2})
            if operation in (APPEND, SUBTRACT) and self._chance(0.7):
                name, value = "cleanup.policy", self._random.choice(["delete", "compact"])
            configs.append({"name": name, "config_operation": operation, "value": None if operation == DELETE else value})
        if self._chance(0.05):
            configs.append(dict(configs[0]))
        if resource["resource_type"] == BROKER:
            configs = [{"name": "log.cleaner.threads", "config_operation": SET, "value": "abc"}]
        body: Json = {"resources": [resource | {"configs": configs}], "validate_only": self._chance(0.2)}
        return Ask(0, "IncrementalAlterConfigs", self._version(0, 1), body)

    def _replace(self) -> Ask:
        configs = [{"name": name, "value": value} for name, value in self._settings()]
        resource = {"resource_type": TOPIC, "resource_name": self._name(), "configs": configs}
        return Ask(0, "AlterConfigs", self._version(0, 2), {"resources": [resource], "validate_only": self._chance(0.2)})
