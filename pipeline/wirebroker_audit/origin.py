"""The origin of an audit is a log directory or a live cluster. An origin has the pieces to read and the bounds of its
partitions."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource

from kafkawire.disk.names import LOG, offset_of
from kafkawire.primitives import format_uuid
from wirebroker.client.settings import OPTION, Access
from wirebroker_audit.checks import elections
from wirebroker_audit.checks.comparison import at_the_ends, compare, pairs
from wirebroker_audit.checks.coordinators import TRANSACTION_TOPIC, Coordinators, Open
from wirebroker_audit.checks.groups import OFFSETS_TOPIC
from wirebroker_audit.checks.live_coordinators import live_coordinators
from wirebroker_audit.folding import schema
from wirebroker_audit.folding.since import ReportState, ends_of, onward, onward_live
from wirebroker_audit.logs.directory import NotALogDirectory, find_partitions, read_directory
from wirebroker_audit.logs.durability import Durability
from wirebroker_audit.logs.elections import read_elections
from wirebroker_audit.logs.planning import cluster_pieces, directory_pieces, find_pieces, is_small, numbered
from wirebroker_audit.logs.tiered import left_unread, with_remote
from wirebroker_audit.reading.folders import EVERYTHING
from wirebroker_audit.reading.live_log import crc_before
from wirebroker_audit.reading.pieces import SPLIT_BYTES, Key, Mark, Piece
from wirebroker_audit.sources.streams import BrokerSource, SegmentSource
from wirebroker_audit.spark.tables import is_together, local_rows
from wirebroker_audit.wire import PLAINTEXT, BrokerError, Client, LivePartition

SMALL_RECORDS = 100_000
"""A small log has at most this many records."""
TASKS = 1000
"""A comparison of replicas has at most this many tasks."""


class Origin(ABC):
    """The log that is audited. The constructor raises an error for a wrong directory or address."""

    name: str
    is_cluster: bool
    stream: type[DataSource]
    """the Data Source that streams the growing log"""
    options: dict[str, str]
    """the options of that Data Source"""
    pieces: list[Piece]
    """the whole log as it was when `pin` was called"""
    bounds: list[tuple[str, int, int, int]]
    """topic, partition, log start offset, and `cleaned_until`, as in `schema.BOUNDS`"""
    elections_ms: int = -1
    """The origin's metadata shows every unclean election since this time. The comparison of the replicas sets the time. It
    stays −1 if the origin does not show elections; for example, a live cluster does not show them."""
    unsure: frozenset[str] = frozenset()
    """topics for which no file or broker says whether they are compacted; compaction may explain missing offsets in these
    topics"""
    is_small: bool = False
    """whether the driver can read the log as fast as the executors; set by `pin`"""
    durability: Mapping[str, Durability]
    """the topics' settings, known once the replicas are compared; empty if the origin does not have them"""
    problems: list[str]
    """sentences about files that cannot be read; problems with batches are rows of the scan, not sentences"""
    notices: list[str]

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.problems, self.notices = [], []
        self.durability = {}
        self.cores = spark.sparkContext.defaultParallelism

    @abstractmethod
    def look(self) -> None:
        """Read the current `bounds`, `problems` and `notices`."""

    @abstractmethod
    def pin(self) -> None:
        """Plan the `pieces`: from now on, every stage reads the log as it is at this moment."""

    @abstractmethod
    def after(self, state: ReportState) -> tuple[list[Piece], dict[Key, Mark], list[str]]:
        """Returns three values: the part of `pieces` that an earlier report has not read, the marks of the partitions whose
        earlier rows count, and notices."""

    def state_of(self, folded: DataFrame, expiration_ms: int) -> ReportState:
        """Returns how far the audit has read each partition, from the last batches in its runs."""
        ends = ends_of(folded)
        marks = {}
        for topic, partition, start, _ in self.bounds:
            read = ends.get((topic, partition))
            mark = Mark(start) if read is None else self.mark_of(read)
            marks[topic, partition] = mark._replace(topic_id=self.topic_id(topic, partition))
        return ReportState(self.is_cluster, expiration_ms, 1 + max((row["piece"] for row in ends.values()), default=-1), marks)

    @abstractmethod
    def mark_of(self, end: Row) -> Mark:
        """Returns the mark after a partition's last batch; `end` is a row of `ends_of`."""

    @abstractmethod
    def topic_id(self, topic: str, partition: int) -> str:
        """Returns the id of the topic of this partition, "" if it is not known."""

    def replica(self, topic: str, partition: int) -> dict[str, Any]:
        """Returns facts for the report: the replica that is read (`read`), the reason (`why`) and the other replicas
        (`others`). The result is empty if there was only one replica.
        """
        return {}

    def remote(self, topic: str, partition: int) -> dict[str, Any]:
        """Returns facts for the report: how much of the partition is in a remote store, as in `Tiering.facts`."""
        return {}

    @abstractmethod
    def coordinators(self, opened: Sequence[Open]) -> Coordinators:
        """Returns the transaction coordinators' states for these open transactions, as far as the origin has them."""

    @abstractmethod
    def pieces_of(self, topic: str) -> list[list[Piece]]:
        """Returns a list of pieces for each partition of an internal topic, even if the topic is not audited. Returns nothing
        if the topic does not exist.
        """

    def between_replicas(self) -> DataFrame | None:
        """Returns the findings about replicas and elections, or None if there is nothing to compare."""
        return None

    def bounds_frame(self) -> DataFrame:
        """Returns `bounds` as a DataFrame."""
        rows = ((*each, each[0] not in self.unsure) for each in self.bounds)
        return local_rows(self._spark, rows, schema.BOUNDS)


class Directory(Origin):
    """A Kafka log directory, and the remote store of its tiered topics. Raises NotALogDirectory."""

    is_cluster = False
    stream = SegmentSource

    def __init__(
        self, spark: SparkSession, path: Path, topics: tuple[str, ...], split_bytes: int = SPLIT_BYTES,
        store: Path | None = None,
    ) -> None:  # fmt: skip
        super().__init__(spark)
        self.name = str(path)
        self._path, self._topics, self._store = path, topics, store
        self._physical: dict[str, int] = {}
        self.look()
        self._split_bytes = split_bytes
        self.options = {"path": str(path.resolve()), "topics": ",".join(topics), "parallelism": str(self.cores)}

    def pin(self) -> None:
        self.pieces = directory_pieces(self._folders, self._split_bytes, self.cores)
        self.is_small = is_small(self._folders)

    def after(self, state: ReportState) -> tuple[list[Piece], dict[Key, Mark], list[str]]:
        found = onward(state, self._folders, self.pieces)
        self._physical = found.physical
        return found.pieces, found.goes_on, found.notices

    def mark_of(self, end: Row) -> Mark:
        label = offset_of(Path(end["segment"]).name, LOG) or 0
        segment, position = self._physical.get(end["segment"], label), end["position"] + end["last_bytes"]
        return Mark(end["last_offset"] + 1, segment, position, end["position"], end["last_crc"], label)

    def topic_id(self, topic: str, partition: int) -> str:
        return self._topic_ids.get((topic, partition), "")

    def look(self) -> None:
        folders, self.problems, self.notices = read_directory(self._path, self._topics)
        tiering = left_unread(folders) if self._store is None else with_remote(folders, self._path, self._store)
        self._folders, self._tiers = tiering.folders, tiering.facts
        self.problems += tiering.problems
        self.notices += tiering.notices
        self.bounds = [(each.topic, each.partition, each.begins_at, each.cleaned_until) for each in self._folders]
        self.unsure = frozenset(each.topic for each in self._folders if not each.policy_known)
        self._topic_ids = {(each.topic, each.partition): format_uuid(each.topic_id) for each in self._folders if each.topic_id}
        self._several = {(each.topic, each.partition): each for each in self._folders if each.why}

    def replica(self, topic: str, partition: int) -> dict[str, Any]:
        if (folder := self._several.get((topic, partition))) is None:
            return {}
        return {"read": str(folder.path), "why": folder.why, "others": [str(each.path) for each in folder.others]}

    def remote(self, topic: str, partition: int) -> dict[str, Any]:
        return self._tiers.get((topic, partition), {})

    def pieces_of(self, topic: str) -> list[list[Piece]]:
        try:
            pieces = find_pieces(self._path, (topic,), EVERYTHING)
        except NotALogDirectory:
            return []
        return [list(each) for _, each in groupby(pieces, lambda piece: piece.partition)]

    def coordinators(self, opened: Sequence[Open]) -> Coordinators:
        try:
            folders = find_partitions(self._path, (TRANSACTION_TOPIC,))
        except NotALogDirectory:
            folders = []
        return Coordinators(folders, (each.producer_id for each in opened))

    def between_replicas(self) -> DataFrame | None:
        found = [finding for each in self._folders for finding in at_the_ends(each)]
        known = read_elections(self._path.resolve(), self._folders)
        self.durability, self.elections_ms = known.durability, known.begins_ms
        found += elections.findings_of(self._folders, known)
        work = list(pairs(self._folders))
        if not work and not found:
            return None
        if is_together(self._spark):
            return local_rows(self._spark, [*found, *(each for pair in work for each in compare(pair))], schema.FINDINGS)
        ends = local_rows(self._spark, found, schema.FINDINGS)
        tasks = self._spark.sparkContext.parallelize(work, min(len(work), TASKS) or 1)
        return ends.unionAll(self._spark.createDataFrame(tasks.flatMap(compare), schema.FINDINGS))


class Cluster(Origin):
    """A live cluster, up to the end offsets that its brokers returned last. Raises BrokerError."""

    is_cluster = True
    stream = BrokerSource

    def __init__(
        self, spark: SparkSession, bootstrap: str, topics: tuple[str, ...], access: Access = PLAINTEXT,
        turns: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """The end offsets of topics with a higher number in `turns` are requested later."""
        super().__init__(spark)
        self.name, self._turns = bootstrap, turns or {}
        self._topics, self._access = topics, access
        self.look()
        self.options = {
            "bootstrap": bootstrap, "topics": ",".join(topics), "parallelism": str(self.cores), OPTION: access.text(),
        }  # fmt: skip

    def pin(self) -> None:
        """Plan the pieces up to the end offsets that the last request to the brokers returned."""
        self.pieces = self._plan(self._live)
        self.is_small = sum(each.size for each in self.pieces) <= SMALL_RECORDS

    def _plan(self, live: list[LivePartition]) -> list[Piece]:
        return cluster_pieces(live, self.name, self.cores, self._access.shared_by(self.cores))

    def after(self, state: ReportState) -> tuple[list[Piece], dict[Key, Mark], list[str]]:
        client = Client(self.name, self._access)
        try:
            found = onward_live(state, self._live, lambda each, offset: crc_before(client, each, offset))
        finally:
            client.close()
        return numbered(self._plan(found.live), state.pieces), found.goes_on, found.notices

    def mark_of(self, end: Row) -> Mark:
        return Mark(end["last_offset"] + 1, last=end["position"], crc=end["last_crc"])

    def pieces_of(self, topic: str) -> list[list[Piece]]:
        live = self._commits if topic == OFFSETS_TOPIC else self._partitions_of(topic)
        whole = (cluster_pieces([replace(each, compacted=True)], self.name, 1, self._access) for each in live)
        return [each for each in whole if each]

    def coordinators(self, opened: Sequence[Open]) -> Coordinators:
        client = Client(self.name, self._access)
        try:
            return live_coordinators(client, opened, int(time.time() * 1000))
        except BrokerError:  # a broker that does not list its transactions can still be audited
            return Coordinators((), ())
        finally:
            client.close()

    def topic_id(self, topic: str, partition: int) -> str:
        return self._topic_ids[topic, partition]

    def _partitions_of(self, topic: str) -> list[LivePartition]:
        client = Client(self.name, self._access)
        try:
            return client.partitions((topic,))
        except BrokerError:  # no group has ever committed, or this user may not read the commits
            return []
        finally:
            client.close()

    def look(self) -> None:
        """First asks for the end of `__consumer_offsets`, then for the ends of the audited topics. So the audit reads all
        records that were written before a commit that it reads."""
        self._commits = self._partitions_of(OFFSETS_TOPIC)
        client = Client(self.name, self._access)
        try:
            self._live = client.partitions(self._topics, self._turns)
            told = ((topic, settings) for topic, settings in client.settings.items() if settings)
            self.durability = {topic: Durability.of(client.replicas[topic], settings) for topic, settings in told}
        finally:
            client.close()
        self._topic_ids = {(each.topic, each.partition): each.topic_id for each in self._live}
        self.bounds = [
            (each.topic, each.partition, each.start, EVERYTHING if each.compacted is not False else -1) for each in self._live
        ]
        self.notices = [
            f"{topic}: the broker does not say whether the topic is compacted, so missing offsets do not count as gaps"
            for topic in sorted({each.topic for each in self._live if each.compacted is None})
        ]
