"""Random dialogues of share groups whose settings change. They also change settings of other groups, telemetry and quotas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from random_dialogues.asking import Asking
from random_dialogues.quotas import Quotas
from random_dialogues.replay import Ask, Head, Responses
from random_dialogues.shares import GROUP_RESOURCE, Shares
from random_dialogues.symbols import Json

METRICS_RESOURCE = 16
SET, DELETE, APPEND, SUBTRACT, UNKNOWN = range(5)
VALUES: dict[int, dict[str, list[str]]] = {
    GROUP_RESOURCE: {
        "share.isolation.level": ["read_committed", "read_uncommitted", "READ_COMMITTED", ""],
        "share.delivery.count.limit": ["2", "3", "5", "10", "1", "11", "x"],
        "share.partition.max.record.locks": ["100", "2000", "4000", "99", "4001"],
        "share.record.lock.duration.ms": ["15000", "60000", "14999", "60001"],
        "share.renew.acknowledge.enable": ["true", "false", "TRUE", "no"],
        "share.auto.offset.reset": ["earliest", "latest", "by_duration:PT1H", "by_duration:x", "none"],
        "share.session.timeout.ms": ["45000", "60000", "1", "60001"],
        "share.heartbeat.interval.ms": ["5000", "15000", "4999", "50000"],
        "consumer.session.timeout.ms": ["45000", "50000", "44999"],
        "streams.num.standby.replicas": ["0", "1", "2", "3", "-1"],
        "nope": ["1"],
    },
    METRICS_RESOURCE: {
        "interval.ms": ["100", "1000", "3600000", "99", "3600001", "x"],
        "metrics": ["*", "a.,b.", "", ","],
        "match": [
            "client_id=a",
            "client_id=[",
            "client_id=",
            "client_id=a=b",
            "nope=1",
            "client_id",
            "client_id = a ",
            "",
            "=a",
        ],
        "nope": ["1"],
    },
}
NAMES = {GROUP_RESOURCE: {"@a": 5, "@b": 3, "@c": 2, "": 0.3}, METRICS_RESOURCE: {"@s": 4, "@r": 2, "": 0.3}}


class Mixed(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    pause = 0.08

    def __init__(self, seed: int) -> None:
        super().__init__(Head("mixed", seed, ["t", "u"], ["a", "b", "c"]))
        self._shares, self._quotas = Shares(seed), Quotas(seed)

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        if self._shares.is_beginning:
            return self._shares.ask(free)
        weights: dict[Callable[[list[int]], Ask], float] = {
            self._shares.ask: 10.0, self._quotas.ask: 1.5, self._alter: 4.0, self._describe: 2.0, self._large: 1.5,
        }  # fmt: skip
        return replace(self._pick(weights)(free), connection=free[0])

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Note the first broker's responses."""
        self._shares.learn(ask, responses)

    def _kind(self) -> int:
        return int(self._pick({GROUP_RESOURCE: 3, METRICS_RESOURCE: 1}))

    def _alter(self, _: list[int]) -> Ask:
        resources = [self._resource(self._kind()) for _ in range(self._pick({1: 6, 2: 1}))]
        body: Json = {"resources": resources, "validate_only": self._chance(0.1)}
        if self._chance(0.15):
            for resource in resources:
                for config in resource["configs"]:
                    del config["config_operation"]
            return Ask(0, "AlterConfigs", 2, body)
        return Ask(0, "IncrementalAlterConfigs", self._version(0, 1), body)

    def _resource(self, kind: int) -> Json:
        configs = []
        for name in self._random.choices(list(VALUES[kind]), k=self._pick({1: 8, 2: 2, 3: 1})):
            operation = self._pick({SET: 12, DELETE: 3, APPEND: 0.7, SUBTRACT: 0.7, UNKNOWN: 0.1})
            value = None if operation == DELETE or self._chance(0.02) else self._random.choice(VALUES[kind][name])
            configs.append({"name": name, "config_operation": operation, "value": value})
        return {"resource_type": kind, "resource_name": self._pick(NAMES[kind]), "configs": configs}

    def _describe(self, _: list[int]) -> Ask:
        kind = self._kind()
        names = self._random.sample(list(VALUES[kind]), 2) if self._chance(0.4) else None
        resource = {"resource_type": kind, "resource_name": self._pick(NAMES[kind]), "configuration_keys": names}
        body: Json = {"resources": [resource], "include_synonyms": self._chance(0.5), "include_documentation": False}
        return Ask(0, "DescribeConfigs", 4, body)

    def _large(self, _: list[int]) -> Ask:
        """Produces records so large that a fetch returns only some of the batches."""
        data = []
        for index in self._random.sample([0, 1], self._random.choice([1, 2])):
            records = [{"n": self._random.choice([1, 2, 40]), "tag": "v" * self._random.choice([1, 200])}]
            data.append({"index": index, "records": records})
            self._shares.produced(("t", index), records[0]["n"])
        topics = [{"name": "@t", "partition_data": data}]
        return Ask(0, "Produce", 9, {"transactional_id": None, "acks": -1, "timeout_ms": 10_000, "topic_data": topics})
