"""Random dialogues about brokers: moving replicas, elections, log directories, the quorum, and the brokers of coordinators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

METADATA = "__cluster_metadata"
VOTER: Json = {"voter_id": 7, "voter_directory_id": "@nobody"}


class Brokers(Asking):
    """A dialogue with a cluster whose brokers have the ids from 1 to `nodes`. Each request depends only on the seed."""

    pause = 0.06

    def __init__(self, seed: int, nodes: int = 1) -> None:
        super().__init__(Head("brokers", seed, ["t", "u"], ["a", "g"], ["a"]))
        self._nodes = range(1, nodes + 1)

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        weights: dict[Callable[[], Ask], float] = {
            self._reassign: 5.0, self._list_reassignments: 2.0, self._elect: 3.0, self._move: 3.0, self._describe_dirs: 2.0,
            self._cluster: 1.0, self._quorum: 1.0, self._raft: 0.5, self._unregister: 0.5, self._coordinator: 3.0,
            self._resources: 1.0, self._subscriptions: 1.0, self._push: 0.5,
        }  # fmt: skip
        return replace(self._pick(weights)(), connection=free[0])

    def _topic(self) -> str:
        return self._pick({"@t": 5, "@u": 4, "@n1": 2, "@nobody": 0.5})

    def _partition(self) -> int:
        return self._pick({0: 4, 1: 3, 7: 0.3})

    # Replicas

    def _replicas(self) -> list[int] | None:
        if self._chance(0.1):
            return None
        count = self._random.randint(1, len(self._nodes))
        return self._random.sample(self._nodes, count) if self._chance(0.95) else self._random.choice([[], [9], [1, 1]])

    def _reassign(self) -> Ask:
        version = self._version(0, 1)
        body: Json = {"timeout_ms": 10_000, "topics": [{"name": self._topic(), "partitions": [
            {"partition_index": self._partition(), "replicas": self._replicas()}
        ]}]}  # fmt: skip
        if version:
            body["allow_replication_factor_change"] = self._chance(0.8)
        return Ask(0, "AlterPartitionReassignments", version, body)

    def _list_reassignments(self) -> Ask:
        named = [{"name": self._topic(), "partition_indexes": [0, 1]}]
        body: Json = {"timeout_ms": 10_000, "topics": named if self._chance(0.5) else None}
        return Ask(0, "ListPartitionReassignments", 0, body)

    def _elect(self) -> Ask:
        version = self._version(0, 2)
        partitions = [{"topic": self._topic(), "partitions": [self._partition()]}] if self._chance(0.7) else None
        body: Json = {"topic_partitions": partitions, "timeout_ms": 10_000}
        if version:
            body["election_type"] = self._pick({0: 3, 1: 2, 5: 0.2})
        return Ask(0, "ElectLeaders", version, body)

    def _move(self) -> Ask:
        topics = [{"name": self._topic(), "partitions": [self._partition()]}]
        dirs = [{"path": self._pick({"/a": 3, "/b": 3, "/x": 0.5}), "topics": topics}]
        return Ask(0, "AlterReplicaLogDirs", self._version(1, 2), {"dirs": dirs})

    def _describe_dirs(self) -> Ask:
        named = [{"topic": self._topic(), "partitions": [0, 1]}]
        return Ask(0, "DescribeLogDirs", self._version(1, 4), {"topics": named if self._chance(0.6) else None})

    # The cluster

    def _cluster(self) -> Ask:
        return Ask(0, "DescribeCluster", 1, {"endpoint_type": self._pick({1: 5, 2: 1, 9: 0.2})})

    def _quorum(self) -> Ask:
        name, index = self._pick({(METADATA, 0): 5, ("@t", 0): 0.5, (METADATA, 3): 0.5})
        body = {"topics": [{"topic_name": name, "partitions": [{"partition_index": index}]}]}
        return Ask(0, "DescribeQuorum", self._version(0, 2), body)

    def _raft(self) -> Ask:
        listeners = [{"name": "CONTROLLER", "host": "localhost", "port": 9}]
        if self._chance(0.5):
            return Ask(0, "AddRaftVoter", 0, VOTER | {"timeout_ms": 1000, "listeners": listeners})
        return Ask(0, "RemoveRaftVoter", 0, VOTER)

    def _unregister(self) -> Ask:
        if self._chance(0.3):
            return Ask(0, "UnregisterController", 0, {"controller_id": 77})
        return Ask(0, "UnregisterBroker", 0, {"broker_id": 77})

    def _coordinator(self) -> Ask:
        version = self._version(0, 6)
        kind, key = self._pick({(0, "@a"): 4, (0, "@g"): 3, (1, "@a"): 3, (0, ""): 0.3, (7, "@a"): 0.2})
        if version < 4:
            return Ask(0, "FindCoordinator", version, {"key": key} | ({"key_type": kind} if version else {}))
        return Ask(0, "FindCoordinator", version, {"key_type": kind, "coordinator_keys": [key, "@h"]})

    def _resources(self) -> Ask:
        version = self._version(0, 1)
        types = self._random.choice([[], [2, 32], [16]]) if version else []
        return Ask(0, "ListConfigResources", version, {"resource_types": types} if version else {})

    # Metrics

    def _subscriptions(self) -> Ask:
        return Ask(0, "GetTelemetrySubscriptions", 0, {})

    def _push(self) -> Ask:
        body = {"client_instance_id": "@nobody", "subscription_id": 0, "metrics": "", "terminating": self._chance(0.3)}
        return Ask(0, "PushTelemetry", 0, body)
