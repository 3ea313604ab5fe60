"""The log directories of each broker, and the directories of its replicas (Kafka's LogManager).

Without a data directory, the log directories are only the names in `log.dirs` or `log.dir`, which are the same for all brokers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from wirebroker.core.configs import BrokerConfigs, ConfigError
from wirebroker.core.java_order import buckets_for, hash_order, java_hash, partition_hash, signed
from wirebroker.core.scala_order import SCALA, hash_order_12

if TYPE_CHECKING:
    from wirebroker.core.partition import Partition

CORDONED = "cordoned.log.dirs"
ALL = "*"

Where = tuple[str, int]
Move = Callable[["Partition", int, str], None]


class LogDirs:
    """The log directories of each broker, and the directory of each replica. If a broker has only one directory, its replicas
    are not listed."""

    def __init__(
        self, configs: BrokerConfigs, stored: Mapping[int, Sequence[str]] | None = None,
        ids: Mapping[int, bytes] | None = None,
    ) -> None:  # fmt: skip
        """If the data is on disk: `stored` has the directories of each broker, and `ids` has the id of each broker's first
        directory. Raises ConfigError."""
        self._configs = configs
        self.ids = ids or {}
        self._stored = stored or {}
        names = _listed(configs.text("log.dirs") or configs.text("log.dir"))
        self._named = tuple(dict.fromkeys(map(_absolute, names)))
        self._held: Counter[tuple[int, str]] = Counter()
        """For each directory of each broker, the number of replicas."""
        self._preferred: dict[tuple[int, Where], str] = {}
        """The directories that AlterReplicaLogDirs chose for replicas that do not exist yet. A restart forgets these
        directories."""
        self.moves: dict[tuple[Partition, int], str] = {}
        """The new directory of each replica that is being moved."""
        self.mover: Move | None = None
        """The function that moves the files of a replica. If the logs are in memory, this is None, and a move is done
        immediately."""
        self.holder: Callable[[Partition], tuple[int, str]] | None = None
        """A function that returns the broker and the directory that have a partition's files, or None if the logs are in
        memory."""
        stored_paths = {path for held in self._stored.values() for path in held}
        self._check_cordoned(configs.text(CORDONED), stored_paths or self._named)

    def paths(self, node_id: int) -> Sequence[str]:
        """Returns the directories of this broker."""
        return self._stored.get(node_id, self._named)

    def of(self, partition: Partition, node_id: int) -> str:
        """Returns the directory in which this broker has its replica of the partition."""
        return partition.log_dirs.get(node_id) or self.paths(node_id)[0]

    def future(self, partition: Partition, node_id: int) -> str | None:
        """Returns the directory to which this broker is moving its replica."""
        return self.moves.get((partition, node_id))

    # Cordoned directories

    def cordoned(self, node_id: int) -> Collection[str]:
        """Returns the cordoned directories of this broker, which accept no new replicas. Releases before Kafka 4.3 have no
        cordoned directories (KIP-1066)."""
        if self._configs.definitions.broker[CORDONED].absent:
            return ()
        given = self._configs.dynamic.get(node_id, {}).get(CORDONED)
        names = _listed(self._configs.static.get(CORDONED, "") if given is None else given)
        return self.paths(node_id) if ALL in names else names

    def takes_replicas(self, node_id: int) -> bool:
        """Tells whether this broker accepts new replicas: at least one of its directories is not cordoned."""
        cordoned = self.cordoned(node_id)
        return not cordoned or any(path not in cordoned for path in self.paths(node_id))

    def check_cordoned(self, value: str, node_id: int) -> None:
        """Raise ConfigError unless this broker has all directories in `value` (KafkaConfig.validateCordonedLogDirs)."""
        self._check_cordoned(value, self.paths(node_id))

    def _check_cordoned(self, value: str, paths: Collection[str]) -> None:
        names = [] if self._configs.definitions.broker[CORDONED].absent else _listed(value)
        unknown = [name for name in names if name not in paths]
        if ALL in names and len(names) > 1:
            raise ConfigError(f"requirement failed: When {CORDONED} is set to {ALL}, it must not contain other values")
        if unknown and ALL not in names:
            where = f"All entries in {CORDONED} must be present in log.dirs or log.dir"
            raise ConfigError(f"requirement failed: {where}. Missing entries : {', '.join(unknown)}")

    # New replicas

    def planned(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> dict[int, dict[int, str]]:
        """Returns the directory of each replica of new partitions, by partition index and by broker. The first replica of each
        partition will be its leader.

        As in Kafka, a broker first makes the logs of the partitions that it leads, in the order of Java's HashMap. (Releases
        with ZooKeeper use the order of Scala's HashMap.) The broker puts each log into its directory with the fewest logs.
        """
        if all(len(self.paths(node_id)) == 1 for nodes in replicas.values() for node_id in nodes):
            return {index: {node_id: self.paths(node_id)[0] for node_id in nodes} for index, nodes in replicas.items()}
        led: dict[int, list[int]] = {}
        followed: dict[int, list[int]] = {}
        for index, nodes in replicas.items():
            for node_id in nodes:
                (led if node_id == nodes[0] else followed).setdefault(node_id, []).append(index)
        planned: dict[int, dict[int, str]] = {index: {} for index in replicas}
        in_order = self._order()
        for node_id in dict.fromkeys((*led, *followed)):
            held = {path: self._held[node_id, path] for path in self.paths(node_id)}
            for index in (*in_order(topic, led.get(node_id, ())), *in_order(topic, followed.get(node_id, ()))):
                path = planned[index][node_id] = self._next(topic, index, node_id, held)
                held[path] += 1
        return {index: {node_id: planned[index][node_id] for node_id in nodes} for index, nodes in replicas.items()}

    def _order(self) -> Callable[[str, Iterable[int]], list[int]]:
        """Returns a function that sorts a topic's partitions into the order in which a broker makes their logs."""
        release = self._configs.release
        if not release.has_zookeeper:
            return _in_order
        return _in_order_of_scala_12 if SCALA.of(release) == 12 else _in_order_of_scala_13

    def _next(self, topic: str, index: int, node_id: int, held: Mapping[str, int]) -> str:
        """Returns the directory for a new replica (LogManager.getOrCreateLog and nextLogDirs)."""
        preferred = self._preferred.get((node_id, (topic, index)))
        if preferred is not None or len(held) == 1:
            return preferred or next(iter(held))
        cordoned = self.cordoned(node_id)
        free = {path: number for path, number in held.items() if path not in cordoned}
        return min(free, key=free.__getitem__) if free else next(iter(held))

    def prefer(self, node_id: int, topic: str, index: int, path: str) -> None:
        """Remember the directory `path` for a replica that does not exist yet."""
        if len(self.paths(node_id)) > 1:
            self._preferred[node_id, (topic, index)] = path

    def restarted(self) -> None:
        """After a restart of a broker, forget the directories that were chosen for replicas that do not exist yet."""
        self._preferred.clear()

    # Replicas that exist

    def enter(self, partition: Partition, dirs: Mapping[int, str]) -> None:
        """Register that the replicas of the partition are in these directories, and that other brokers have no replica."""
        self.forget(partition)
        for node_id, path in dirs.items():
            self._preferred.pop((node_id, (partition.topic, partition.index)), None)
            if len(self.paths(node_id)) > 1:
                partition.log_dirs[node_id] = path
                self._held[node_id, path] += 1

    def follow(self, partition: Partition) -> None:
        """Choose directories for new replicas, after a reassignment changed the partition's replicas.

        If a broker still has the partition's files from an earlier replica, its new replica is where the files are.
        """
        planned = self.planned(partition.topic, {partition.index: partition.replicas})[partition.index]
        known = partition.log_dirs | (dict([self.holder(partition)]) if self.holder is not None else {})
        self.enter(partition, planned | {node: path for node, path in known.items() if node in planned})

    def forget(self, partition: Partition) -> None:
        """Forget the directories of the partition's replicas."""
        for node_id, path in partition.log_dirs.items():
            self._held[node_id, path] -= 1
        partition.log_dirs.clear()

    def move(self, partition: Partition, node_id: int, path: str) -> None:
        """Move this broker's replica of the partition to this directory, unless it is already there."""
        if self.mover is not None:
            self.mover(partition, node_id, path)
        elif path != self.of(partition, node_id):
            self.moved(partition, node_id, path)

    def moved(self, partition: Partition, node_id: int, path: str) -> None:
        """Register that this broker's replica of the partition is in another directory now."""
        self.enter(partition, partition.log_dirs | {node_id: path})


def _listed(value: str) -> list[str]:
    return [name for each in value.split(",") if (name := each.strip())]


def _absolute(name: str) -> str:
    """Returns the absolute path, like Java's `File.getAbsolutePath`. Even on Windows a path that begins with a slash counts as
    absolute."""
    return name if name.startswith("/") else os.path.join(os.getcwd(), name)


def _in_order(topic: str, indexes: Iterable[int]) -> list[int]:
    """Returns the partitions in the order of TopicsDelta.localChanges. Kafka puts them into a HashMap one by one, and then
    copies them into a second HashMap."""
    indexes = sorted(indexes)

    def hashed(index: int) -> int:
        return partition_hash((topic, index))

    copied = 1 << ceil(len(indexes) / 0.75).bit_length()
    return hash_order(hash_order(indexes, hashed, buckets_for(len(indexes))), hashed, copied)


def _in_order_of_scala_13(topic: str, indexes: Iterable[int]) -> list[int]:
    """Returns the partitions in the order of ReplicaManager.becomeLeaderOrFollower, which puts them into a mutable HashMap of
    Scala 2.13."""
    name, indexes = java_hash(topic), sorted(indexes)
    buckets = buckets_for(len(indexes))

    def place(index: int) -> tuple[int, int]:
        code = _scala_hash(name, index)
        mixed = code ^ code >> 16
        return mixed & (buckets - 1), signed(mixed)

    return sorted(indexes, key=place)


def _in_order_of_scala_12(topic: str, indexes: Iterable[int]) -> list[int]:
    """Returns the partitions in the order of ReplicaManager.becomeLeaderOrFollower with Scala 2.12.

    Kafka puts the partitions into a mutable HashMap, and `filter` then makes a second HashMap from the first.
    """
    hashed = partial(_scala_hash, java_hash(topic))
    return hash_order_12(hash_order_12(_in_order(topic, indexes), hashed), hashed)


def _scala_hash(topic_hash: int, index: int) -> int:
    """Returns the hash of a partition as a key of Scala's hash tables. `topic_hash` is the `java_hash` of the topic."""
    return (31 + topic_hash + 17 * index) & 0xFFFFFFFF
