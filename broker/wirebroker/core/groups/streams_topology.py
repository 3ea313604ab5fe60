"""The topology of a streams group, and its configuration with the cluster's topics (KIP-1071).

`configure` is Kafka's InternalTopicManager. The configuration has the number of tasks of each subtopology, and the internal
topics that are missing, with their numbers of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeVar

from kafkawire.coordinator_records.streams_group_topology import StreamsGroupTopologyValue, Subtopology, TopicInfo
from kafkawire.declare import Struct
from kafkawire.errors import ErrorCode
from wirebroker.common.slices import TOPICS, after, pauses, weighted_pauses
from wirebroker.core.java_order import buckets_for, hash_order, java_hash, set_of_names

S = TypeVar("S", bound=Struct)
Counts = Callable[[str], int | None]
"""A function that returns the number of partitions of a topic, or None if the topic does not exist."""
SHOWN = 3
"""The largest number of topics that are named in one message to the client."""


class Status(IntEnum):
    """The statuses in a heartbeat response: reasons why a member of a streams group cannot work normally."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Told(NamedTuple):
    """A status with Kafka's message for the client."""

    status: Status
    detail: str


class Misfit(NamedTuple):
    """The error for a topology that is invalid, whatever topics the cluster has. `message` is None where Kafka's code fails
    with an exception instead of a message for the client."""

    code: ErrorCode
    message: str | None = None


class InternalTopic(NamedTuple):
    """An internal topic as the application needs it. If the replication factor `factor` is 0, the broker's default applies."""

    name: str
    partitions: int
    factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with its number of tasks and its internal topics, derived from the cluster's topics."""

    tasks: int
    topology: Subtopology
    sources: list[InternalTopic]
    changelogs: list[InternalTopic]

    @property
    def inputs(self) -> list[str]:
        """The topics that the subtopology reads, in the order of a HashSet of their names."""
        return set_of_names([*set_of_names(self.topology.source_topics), *(each.name for each in self.sources)])


class Configured(NamedTuple):
    """A topology, configured as far as the cluster's topics allow. `told` is the status that clients get. If `told` is None,
    the topology is ready.
    """

    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    """The subtopologies by id, in the order of the ids; None if the cluster's topics do not fit the topology."""
    missing: Mapping[str, InternalTopic]
    """The internal topics that do not exist yet and have to be created."""
    told: Told | None


class Topology:
    """The topology of a streams group, which the group's first member sends. The topology never changes."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.value = value
        self.epoch = value.epoch
        by_id = {each.subtopology_id: each for each in value.subtopologies}
        self.subtopologies = {key: by_id[key] for key in hash_order(by_id, java_hash, buckets_for(len(by_id)))}
        """The subtopologies by id, in the order of Java's hash table."""
        self.reader_of: dict[str, str] = {}
        """For each topic, the id of the subtopology that reads it."""
        for key, each in self.subtopologies.items():
            self.reader_of |= dict.fromkeys([*each.source_topics, *_names(each.repartition_source_topics)], key)
        self.required = set_of_names(
            name
            for each in self.subtopologies.values()
            for name in (
                *each.source_topics, *_names(each.repartition_source_topics), *_names(each.state_changelog_topics),
            )
        )  # fmt: skip
        """The names of all topics that the topology needs, without duplicates."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and (self.epoch, self.subtopologies) == (other.epoch, other.subtopologies)

    __hash__ = None  # type: ignore[assignment]


def topics_of(topology: Any) -> list[str]:
    """Returns the names of all topics in the topology of a request or a response, without duplicates."""
    found: dict[str, None] = {}
    for each in topology.subtopologies or ():
        found |= dict.fromkeys([*each.source_topics, *each.repartition_sink_topics])
        found |= dict.fromkeys(_names([*each.repartition_source_topics, *each.state_changelog_topics]))
    return list(found)


def from_request(sent: Struct) -> Topology | Misfit:
    """Returns the topology of a heartbeat."""
    value = copied(StreamsGroupTopologyValue, sent)
    ids = [each.subtopology_id for each in value.subtopologies]
    if value.epoch < 0 or len(set(ids)) < len(ids):
        return Misfit(ErrorCode.UNKNOWN_SERVER_ERROR)
    return Topology(value)


def copied(kind: type[S], source: Any) -> S:
    """Returns a struct of the class `kind` with the values of `source`, a struct of another class with the same field names."""
    fields = {}
    for declared in kind.__wire__:
        value = getattr(source, declared.name)
        inner = declared.spec[0] if isinstance(declared.spec, list) else None
        fields[declared.name] = [copied(inner, each) for each in value] if isinstance(inner, type) else value
    return kind(**fields)


def _names(topics: Iterable[TopicInfo]) -> list[str]:
    return [each.name for each in topics]


class _TopicsDoNotFitError(Exception):
    """Raised if the topics of the cluster do not fit the topology."""

    def __init__(self, status: Status, detail: str) -> None:
        self.told = Told(status, detail)


class _InvalidError(Exception):
    """Raised if the topology is invalid, whatever topics the cluster has."""

    def __init__(self, message: str | None = None) -> None:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if message is None else ErrorCode.STREAMS_INVALID_TOPOLOGY
        self.misfit = Misfit(code, message)


def configure(topology: Topology, existing: Counts) -> Generator[None, Any, Configured | Misfit]:
    """Configure a topology with the existing topics, in slices. The numbers that the function `existing` returns must not
    change between slices."""
    try:
        groups = [group for each in topology.subtopologies.values() for group in _copartitioned(each)]
        yield from after(topology.required)
        return (yield from _configured(topology, groups, existing))
    except _TopicsDoNotFitError as unfit:
        return Configured(None, {}, unfit.told)
    except _InvalidError as invalid:
        return invalid.misfit


def _copartitioned(subtopology: Subtopology) -> list[set[str]]:
    """Returns the groups of topics that must be co-partitioned: all topics of a group must have the same number of
    partitions."""
    sources, repartitioned = subtopology.source_topics, _names(subtopology.repartition_source_topics)
    found = []
    for group in subtopology.copartition_groups:
        for indexes, names in ((group.source_topics, sources), (group.repartition_source_topics, repartitioned)):
            if any(not 0 <= each < len(names) for each in indexes):
                raise _InvalidError
        found.append(
            {sources[each] for each in group.source_topics} | {repartitioned[each] for each in group.repartition_source_topics}
        )
    return found


def _configured(topology: Topology, groups: Sequence[set[str]], existing: Counts) -> Generator[None, Any, Configured]:
    everything = topology.subtopologies.values()
    absent = sorted({name for each in everything for name in each.source_topics if existing(name) is None})
    if absent:
        raise _TopicsDoNotFitError(Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(absent)} are missing.")
    yield from after(topology.required)
    decided = yield from _repartition_counts(topology, existing)

    def count(name: str) -> int:
        found = existing(name)
        if found is None:
            found = decided.get(name)
        if found is None:
            raise _InvalidError
        return found

    yield from _copartition(topology, groups, decided, count)
    tasks: dict[str, int] = {}
    for key, each in topology.subtopologies.items():
        read = [*each.source_topics, *_names(each.repartition_source_topics)]
        if not read:
            raise _InvalidError(f"No source topics found for subtopology {key}")
        tasks[key] = max(count(name) for name in read)
    yield from after(topology.required)
    for key, each in topology.subtopologies.items():
        decided |= dict.fromkeys(_names(each.state_changelog_topics), tasks[key])
    configured = {}
    pause = pauses(TOPICS)
    for key, each in sorted(topology.subtopologies.items()):
        sources, changelogs = (
            _internal(each.repartition_source_topics, decided),
            _internal(each.state_changelog_topics, decided),
        )
        configured[key] = ConfiguredSubtopology(tasks[key], each, sources, changelogs)
        yield from pause()
    missing = _missing(configured.values(), topology, existing)
    if not missing:
        return Configured(configured, {}, None)
    return Configured(
        configured, missing, Told(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(list(missing))}")
    )


def _repartition_counts(topology: Topology, existing: Counts) -> Generator[None, Any, dict[str, int]]:
    """Returns the number of partitions of each repartition topic. If the topology has no number for a topic, the topic gets the
    largest number of partitions among the input topics of the subtopology that writes the topic."""
    everything = list(topology.subtopologies.values())
    counts = {
        topic.name: topic.partitions for each in everything for topic in each.repartition_source_topics if topic.partitions != 0
    }
    readers: dict[str, list[int]] = {}
    for number, each in enumerate(everything):
        for name in _names(each.repartition_source_topics):
            readers.setdefault(name, []).append(number)
    # Kafka visits all subtopologies, in rounds, until every number is known. Here a round visits only the subtopologies for
    # which the number of partitions of an input topic has just become known. So the time for a long chain of subtopologies is
    # not quadratic.
    turns = [(0, number) for number in range(len(everything))]
    done: set[int] = set()
    pause = pauses(TOPICS)
    while turns:
        yield from pause()
        turn, number = heappop(turns)
        if number in done:
            continue
        each = everything[number]
        read = (counts.get(name) for name in _names(each.repartition_source_topics))
        largest = max((found for found in (*read, *map(existing, each.source_topics)) if found is not None), default=None)
        if largest is None:
            continue
        done.add(number)
        for sink in [name for name in each.repartition_sink_topics if name not in counts]:
            counts[sink] = largest
            for reader in readers.get(sink, ()):
                heappush(turns, (turn + (reader <= number), reader))
    if any(name not in counts for each in everything for name in each.repartition_sink_topics):
        raise _InvalidError(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that "
            "cannot be resolved."
        )
    if any(name not in counts for each in everything for name in _names(each.repartition_source_topics)):
        raise _InvalidError(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never "
            "used as a sink topic."
        )
    return counts


def _copartition(
    topology: Topology, groups: Sequence[set[str]], decided: dict[str, int], count: Callable[[str], int]
) -> Generator[None, Any, None]:
    """Give each repartition topic as many partitions as the topics with which it must be co-partitioned
    (CopartitionedTopicsEnforcer)."""
    infos = [topic for each in topology.subtopologies.values() for topic in each.repartition_source_topics]
    fixed = set_of_names(topic.name for topic in infos if topic.partitions != 0)
    internal = {topic.name for topic in infos}
    fixed_counts: list[int] | None = None  # computed once, because no group changes these numbers
    pause = weighted_pauses()
    for group in groups:
        if not group:
            continue
        yield from pause(len(group))
        repartitioned = {name: count(name) for name in set_of_names(sorted(group)) if name in internal}
        external = {name: count(name) for name in group if name not in internal}
        if external:
            _same(external.values(), external)
            wanted = next(iter(external.values()))
        elif fixed:
            if fixed_counts is None:
                fixed_counts = [*map(count, fixed)]
            _same(fixed_counts, repartitioned)
            wanted = fixed_counts[0]
        else:
            wanted = max(repartitioned.values())
        for name, found in repartitioned.items():
            if name in fixed and found != wanted:
                raise _TopicsDoNotFitError(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{found}] of repartition topic [{name}] doesn't match number of partitions "
                    f"[{wanted}] of the source topic.",
                )
        decided |= dict.fromkeys(repartitioned, wanted)


def _same(counts: Iterable[int], shown: Mapping[str, int]) -> None:
    if len(set(counts)) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise _TopicsDoNotFitError(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )


def _internal(topics: Sequence[TopicInfo], decided: Mapping[str, int]) -> list[InternalTopic]:
    found: dict[str, InternalTopic] = {}
    for topic in topics:
        configs = {each.key: each.value for each in topic.topic_configs}
        partitions = topic.partitions or decided[topic.name]
        if topic.name in found or len(configs) < len(topic.topic_configs) or partitions < 1:
            raise _InvalidError
        in_order = hash_order(configs, java_hash, buckets_for(len(configs)))
        found[topic.name] = InternalTopic(
            topic.name, partitions, topic.replication_factor, {key: configs[key] for key in in_order}
        )
    return list(found.values())


def _missing(configured: Iterable[ConfiguredSubtopology], topology: Topology, existing: Counts) -> dict[str, InternalTopic]:
    """Returns the internal topics that do not exist, in the order of Java's hash table."""
    wanted = {topic.name: topic for each in configured for topic in (*each.sources, *each.changelogs)}
    for name in topology.required:
        found = existing(name)
        if found is None or name not in wanted:
            continue
        if found != wanted[name].partitions:
            raise _TopicsDoNotFitError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {wanted[name].partitions}, found {found}",
            )
    buckets = buckets_for(len(wanted))
    left = [name for name in wanted if existing(name) is None]
    return {name: wanted[name] for name in hash_order(left, java_hash, buckets)}


def _summary(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} additional topics" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
