"""What is audited: a log directory or a live cluster, as DataFrames of batches and records and what else is known of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from wirebroker_audit import schema
from wirebroker_audit.directory import read_directory
from wirebroker_audit.scan import EVERYTHING
from wirebroker_audit.sources.broker import partitions_as_text
from wirebroker_audit.sources.files import save_plan
from wirebroker_audit.wire import Client


class Origin(ABC):
    """Where batches come from. What can be seen to be wrong is said when it is made."""

    name: str
    format: str
    """the Data Source of its batches"""
    options: dict[str, str]
    """what that and the source of records are told"""
    bounds: list[tuple[str, int, int, int]]
    """topic, partition, log start, cleaned until: as in `schema.BOUNDS`"""
    problems: list[str]
    """what beside the batches cannot be read"""
    notices: list[str]

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.problems, self.notices = [], []

    @abstractmethod
    def look(self) -> None:
        """See what is there at this moment: `bounds`, `problems`, `notices`."""

    @abstractmethod
    def settle(self, folder: Path) -> None:
        """From now on all readings read what is there at this moment; `folder` is for what has to be written down."""

    def kept(self, folder: Path) -> DataFrame:
        """The parts of their runs, while the batches themselves are written into this folder as Parquet."""
        options = {**self.options, "keep": str(folder)}
        return self._spark.read.format(self.format).options(**options).load()

    @abstractmethod
    def records(self) -> DataFrame:
        """The records in them."""

    def bounds_frame(self) -> DataFrame:
        """`bounds` as a DataFrame."""
        return self._spark.createDataFrame(self.bounds, schema.BOUNDS)


class Directory(Origin):
    """A Kafka log directory. Raises NotALogDirectory."""

    format = "kafka-segments"

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

    def settle(self, folder: Path) -> None:
        plan = folder.resolve() / "plan.json"
        save_plan(self.options, plan)
        self.options["plan"] = str(plan)

    def look(self) -> None:
        folders, self.problems, self.notices = read_directory(self._path, self._topics)
        self.bounds = [(each.topic, each.partition, each.begins_at, each.cleaned_until) for each in folders]

    def records(self) -> DataFrame:
        return self._spark.read.format("kafka-segment-records").options(**self.options).load()


class Cluster(Origin):
    """A live cluster, up to the offsets that it has at this moment. Raises BrokerError."""

    format = "kafka-broker-batches"

    def __init__(self, spark: SparkSession, bootstrap: str, topics: tuple[str, ...]) -> None:
        super().__init__(spark)
        self.name = bootstrap
        self._topics = topics
        self.look()
        self.options = {
            "bootstrap": bootstrap, "topics": ",".join(topics), "partitions": partitions_as_text(self._live),
            "parallelism": str(spark.sparkContext.defaultParallelism),
        }  # fmt: skip

    def settle(self, folder: Path) -> None:
        """The options name the offsets already."""

    def look(self) -> None:
        client = Client(self.name)
        try:
            self._live = client.partitions(self._topics)
        finally:
            client.close()
        self.bounds = [
            (each.topic, each.partition, each.start, EVERYTHING if each.compacted is not False else -1) for each in self._live
        ]
        self.notices = [
            f"{topic}: the broker does not say whether it is compacted; what is missing there may be what compaction took"
            for topic in sorted({each.topic for each in self._live if each.compacted is None})
        ]

    def records(self) -> DataFrame:
        return self._spark.read.format("kafka-broker-records").options(**self.options).load()
