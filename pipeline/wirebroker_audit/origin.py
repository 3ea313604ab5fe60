"""The log directory or live cluster that is audited: DataFrames of its batches and records, and its partitions' bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource

from kafkawire.disk.names import LOG, offset_of
from kafkawire.primitives import format_uuid
from wirebroker.client.settings import OPTION, Access
from wirebroker_audit.checks.comparison import at_the_ends, compare, pairs
from wirebroker_audit.checks.coordinators import TRANSACTION_TOPIC, Coordinators
from wirebroker_audit.folding.onward import Covered, Key, State, onward, onward_live
from wirebroker_audit.logs.directory import NotALogDirectory, find_partitions, read_directory
from wirebroker_audit.reading.live_log import Range, crc_before
from wirebroker_audit.reading.scan import EVERYTHING
from wirebroker_audit.reading.segments import Split
from wirebroker_audit.reading.splits import find_splits, is_small
from wirebroker_audit.sources.broker import BrokerRecordSource, BrokerSource, partitions_as_text
from wirebroker_audit.sources.files import SegmentRecordSource, SegmentSource, load_plan, save_plan, save_splits
from wirebroker_audit.spark import schema
from wirebroker_audit.spark.tables import is_together, local_rows, source
from wirebroker_audit.wire import PLAINTEXT, BrokerError, Client

SMALL_RECORDS = 100_000
"""The most records of a small log."""
TASKS = 1000
"""Tasks at most of a comparison of replicas."""


class Origin(ABC):
    """The source of batches. The constructor raises the errors of a wrong directory or address."""

    name: str
    is_cluster: bool
    batch_source: type[DataSource]
    record_source: type[DataSource]
    options: dict[str, str]
    """the options of that Data Source and of the source of records"""
    bounds: list[tuple[str, int, int, int]]
    """topic, partition, log start, cleaned until: as in `schema.BOUNDS`"""
    unsure: frozenset[str] = frozenset()
    """topics of which nothing says whether they are compacted, so that compaction may be the reason of missing offsets"""
    is_small: bool = False
    """whether the driver can read it as fast as the executors; known when it is pinned"""
    problems: list[str]
    """sentences about files that cannot be read, apart from the batches"""
    notices: list[str]

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.problems, self.notices = [], []
        self._onward: dict[str, str] = {}
        """the options of `kept` that `go_on` changes"""

    @abstractmethod
    def look(self) -> None:
        """Read the current `bounds`, `problems` and `notices`."""

    @abstractmethod
    def pin(self, folder: Path) -> None:
        """Let all later readings read the log as it is now; `folder` is for a file with the plan."""

    def kept(self, folder: Path) -> DataFrame:
        """The parts of runs; reading them writes the batches into this folder as Parquet."""
        options = {**self.options, **self._onward, "keep": str(folder)}
        return source(self._spark, self.batch_source, options)

    @abstractmethod
    def go_on(self, state: State, folder: Path) -> tuple[dict[Key, Covered], list[str]]:
        """Let `kept` read only what an earlier report does not cover, after `pin`.

        Returns the partitions whose earlier rows count, and sentences about the others. `folder` is for a file with the plan.
        """

    @abstractmethod
    def topic_id(self, topic: str, partition: int) -> str:
        """The id of the topic of this partition, "" if it is not known."""

    def base_of(self, label: str) -> int:
        """The base offset of a segment by its name in rows; −1 in a cluster."""
        return -1

    def records(self, topics: list[str]) -> DataFrame:
        """The records in the batches of these topics."""
        options = {**self.options, "only": ",".join(topics)}
        return source(self._spark, self.record_source, options)

    def replica(self, topic: str, partition: int) -> dict[str, Any]:
        """For the report: the replica that is read (`read`), why (`why`), and its `others`; nothing without a choice."""
        return {}

    def coordinators(self, producers: Iterable[int]) -> Coordinators:
        """What the transaction coordinators have written about these producers, as far as the origin holds it."""
        return Coordinators((), producers)

    def work_of(self, topic: str) -> list[list[Split]] | list[list[Range]]:
        """What to read of an internal topic, whatever topics are audited: a list for each partition; none if it is not here."""
        return []

    def between_replicas(self) -> DataFrame | None:
        """Findings about the replicas of a partition; None if there is nothing to compare."""
        return None

    def bounds_frame(self) -> DataFrame:
        """`bounds` as a DataFrame."""
        rows = ((*each, each[0] not in self.unsure) for each in self.bounds)
        return local_rows(self._spark, rows, schema.BOUNDS)


class Directory(Origin):
    """A Kafka log directory. Raises NotALogDirectory."""

    is_cluster = False
    batch_source, record_source = SegmentSource, SegmentRecordSource

    def __init__(self, spark: SparkSession, path: Path, topics: tuple[str, ...], split_bytes: int | None = None) -> None:
        super().__init__(spark)
        self.name = str(path)
        self._path, self._topics = path, topics
        self._physical: dict[str, int] = {}
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
        self.is_small = is_small(self._folders)
        self.options["plan"] = str(plan)

    def go_on(self, state: State, folder: Path) -> tuple[dict[Key, Covered], list[str]]:
        found = onward(state, self._folders, load_plan(Path(self.options["plan"])))
        plan = folder.resolve() / "onward.json"
        save_splits(found.splits, plan)
        self._onward, self._physical = {"plan": str(plan)}, found.physical
        return found.goes_on, found.notices

    def topic_id(self, topic: str, partition: int) -> str:
        return self._topic_ids.get((topic, partition), "")

    def base_of(self, label: str) -> int:
        known = self._physical.get(label)
        return known if known is not None else offset_of(Path(label).name, LOG) or 0

    def look(self) -> None:
        self._folders, self.problems, self.notices = read_directory(self._path, self._topics)
        self.bounds = [(each.topic, each.partition, each.begins_at, each.cleaned_until) for each in self._folders]
        self.unsure = frozenset(each.topic for each in self._folders if not each.policy_known)
        self._topic_ids = {(each.topic, each.partition): format_uuid(each.topic_id) for each in self._folders if each.topic_id}
        self._several = {(each.topic, each.partition): each for each in self._folders if each.why}

    def replica(self, topic: str, partition: int) -> dict[str, Any]:
        if (folder := self._several.get((topic, partition))) is None:
            return {}
        return {"read": str(folder.path), "why": folder.why, "others": [str(each.path) for each in folder.others]}

    def work_of(self, topic: str) -> list[list[Split]]:
        try:
            splits = find_splits(self._path, (topic,), EVERYTHING)
        except NotALogDirectory:
            return []
        return [list(each) for _, each in groupby(splits, lambda split: split.partition)]

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
        if is_together(self._spark):
            return local_rows(self._spark, [*found, *(each for pair in work for each in compare(pair))], schema.FINDINGS)
        ends = local_rows(self._spark, found, schema.FINDINGS)
        tasks = self._spark.sparkContext.parallelize(work, min(len(work), TASKS) or 1)
        return ends.unionAll(self._spark.createDataFrame(tasks.flatMap(compare), schema.FINDINGS))


class Cluster(Origin):
    """A live cluster, up to the offsets that it has at this moment. Raises BrokerError."""

    is_cluster = True
    batch_source, record_source = BrokerSource, BrokerRecordSource

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
        """The options name the offsets already."""
        self.is_small = sum(each.end - each.start for each in self._live) <= SMALL_RECORDS

    def go_on(self, state: State, folder: Path) -> tuple[dict[Key, Covered], list[str]]:
        client = Client(self.name, self._access)
        try:
            found = onward_live(state, self._live, lambda each, offset: crc_before(client, each, offset))
        finally:
            client.close()
        self._onward = {"partitions": partitions_as_text(found.live), "first.number": str(state.splits)}
        return found.goes_on, found.notices

    def work_of(self, topic: str) -> list[list[Range]]:
        client = Client(self.name, self._access)
        try:
            live = client.partitions((topic,))
        except BrokerError:  # no group has ever committed, or this user may not read them
            return []
        finally:
            client.close()
        return [
            [Range(0, self.name, topic, each.partition, each.start, each.end, True, True, self._access)]
            for each in live if each.start < each.end
        ]  # fmt: skip

    def topic_id(self, topic: str, partition: int) -> str:
        return next(each.topic_id for each in self._live if (each.topic, each.partition) == (topic, partition))

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
