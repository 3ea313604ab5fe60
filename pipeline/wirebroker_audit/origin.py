"""The log directory or live cluster that is audited: DataFrames of its batches and records, and its partitions' bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from wirebroker_audit import schema
from wirebroker_audit.access import OPTION, Access
from wirebroker_audit.comparison import at_the_ends, compare, pairs
from wirebroker_audit.coordinators import TRANSACTION_TOPIC, Coordinators
from wirebroker_audit.directory import NotALogDirectory, find_partitions, read_directory
from wirebroker_audit.scan import EVERYTHING
from wirebroker_audit.sources.broker import partitions_as_text
from wirebroker_audit.sources.files import save_plan
from wirebroker_audit.wire import PLAINTEXT, Client

TASKS = 1000
"""Tasks at most of a comparison of replicas."""


class Origin(ABC):
    """The source of batches. The constructor raises the errors of a wrong directory or address."""

    name: str
    format: str
    """the Data Source of its batches"""
    record_format: str
    """the Data Source of its records"""
    options: dict[str, str]
    """the options of that Data Source and of the source of records"""
    bounds: list[tuple[str, int, int, int]]
    """topic, partition, log start, cleaned until: as in `schema.BOUNDS`"""
    unsure: frozenset[str] = frozenset()
    """topics of which nothing says whether they are compacted, so that compaction may be the reason of missing offsets"""
    problems: list[str]
    """sentences about files that cannot be read, apart from the batches"""
    notices: list[str]

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.problems, self.notices = [], []

    @abstractmethod
    def look(self) -> None:
        """Read the current `bounds`, `problems` and `notices`."""

    @abstractmethod
    def pin(self, folder: Path) -> None:
        """Let all later readings read the log as it is now; `folder` is for a file with the plan."""

    def kept(self, folder: Path) -> DataFrame:
        """The parts of runs; reading them writes the batches into this folder as Parquet."""
        options = {**self.options, "keep": str(folder)}
        return self._spark.read.format(self.format).options(**options).load()

    def records(self, topics: list[str]) -> DataFrame:
        """The records in the batches of these topics."""
        options = {**self.options, "only": ",".join(topics)}
        return self._spark.read.format(self.record_format).options(**options).load()

    def replica(self, topic: str, partition: int) -> dict[str, Any]:
        """For the report: the replica that is read (`read`), why (`why`), and its `others`; nothing without a choice."""
        return {}

    def coordinators(self, producers: Iterable[int]) -> Coordinators:
        """What the transaction coordinators have written about these producers, as far as the origin holds it."""
        return Coordinators((), producers)

    def between_replicas(self) -> DataFrame | None:
        """Findings about the replicas of a partition; None if there is nothing to compare."""
        return None

    def bounds_frame(self) -> DataFrame:
        """`bounds` as a DataFrame."""
        return self._spark.createDataFrame(self.bounds, schema.BOUNDS)


class Directory(Origin):
    """A Kafka log directory. Raises NotALogDirectory."""

    format, record_format = "kafka-segments", "kafka-segment-records"

    def __init__(self, spark: SparkSession, path: Path, topics: tuple[str, ...], split_bytes: int | None = None) -> None:
        super().__init__(spark)
        self.name = str(path)
        self._path, self._topics = path, topics
        self.look()
        self.options = {
            "path": str(path.resolve()), "topics": ",".join(topics),
            "parallelism": str(spark.sparkContext.defaultParallelism),
        }  # fmt: skip
        if split_bytes:
            self.options["split.bytes"] = str(split_bytes)

    def pin(self, folder: Path) -> None:
        plan = folder.resolve() / "plan.json"
        save_plan(self.options, plan)
        self.options["plan"] = str(plan)

    def look(self) -> None:
        self._folders, self.problems, self.notices = read_directory(self._path, self._topics)
        self.bounds = [(each.topic, each.partition, each.begins_at, each.cleaned_until) for each in self._folders]
        self.unsure = frozenset(each.topic for each in self._folders if not each.policy_known)
        self._several = {(each.topic, each.partition): each for each in self._folders if each.why}

    def replica(self, topic: str, partition: int) -> dict[str, Any]:
        if (folder := self._several.get((topic, partition))) is None:
            return {}
        return {"read": str(folder.path), "why": folder.why, "others": [str(each.path) for each in folder.others]}

    def coordinators(self, producers: Iterable[int]) -> Coordinators:
        try:
            folders = find_partitions(self._path, (TRANSACTION_TOPIC,))
        except NotALogDirectory:
            folders = []
        return Coordinators(folders, producers)

    def between_replicas(self) -> DataFrame | None:
        found = [finding for each in self._folders for finding in at_the_ends(each)]
        work = list(pairs(self._folders))
        if not work and not found:
            return None
        ends = self._spark.createDataFrame(found, schema.FINDINGS)
        tasks = self._spark.sparkContext.parallelize(work, min(len(work), TASKS) or 1)
        return ends.unionAll(self._spark.createDataFrame(tasks.flatMap(compare), schema.FINDINGS))


class Cluster(Origin):
    """A live cluster, up to the offsets that it has at this moment. Raises BrokerError."""

    format, record_format = "kafka-broker-batches", "kafka-broker-records"

    def __init__(self, spark: SparkSession, bootstrap: str, topics: tuple[str, ...], access: Access = PLAINTEXT) -> None:
        super().__init__(spark)
        self.name = bootstrap
        self._topics, self._access = topics, access
        self.look()
        self.options = {
            "bootstrap": bootstrap, "topics": ",".join(topics), "partitions": partitions_as_text(self._live),
            "parallelism": str(spark.sparkContext.defaultParallelism), OPTION: access.text(),
        }  # fmt: skip

    def pin(self, folder: Path) -> None:
        """Nothing to do: the options name the offsets."""

    def look(self) -> None:
        client = Client(self.name, self._access)
        try:
            self._live = client.partitions(self._topics)
        finally:
            client.close()
        self.bounds = [
            (each.topic, each.partition, each.start, EVERYTHING if each.compacted is not False else -1) for each in self._live
        ]
        self.notices = [
            f"{topic}: the broker does not say whether the topic is compacted, so missing offsets do not count as gaps"
            for topic in sorted({each.topic for each in self._live if each.compacted is None})
        ]
