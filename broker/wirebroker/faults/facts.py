"""What a request is about: the facts that rules match on, read out of any request in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkawire.batches import HEADER_SIZE, read_header
from kafkawire.declare import Message
from kafkawire.frames import RequestHeader
from kafkawire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafkawire.messages.fetch import FetchRequest
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.offset_fetch import OffsetFetchRequest
from kafkawire.messages.produce import ProduceRequest
from kafkawire.registry import KEYS, api_name, request_class
from wirebroker.core.fetch_sessions import INITIAL_EPOCH
from wirebroker.exchange import Exchange

TopicPartition = tuple[str, int]
Where = frozenset[tuple[str, int | None]]
"""Partitions; None instead of an index stands for the topic, in requests that name no partitions."""

OTHERS_NAMES = ("protocols", "features", "feature_updates", "resources", "forgotten_topics_data")
"""Lists in requests whose parts have names that are no topics', or of topics that the request is not about."""

PLAIN_NAMES = ("topic_names", "topics")
"""Lists in requests that may be topics' names and nothing more."""

GROUP_LISTS = ("groups", "groups_names", "group_ids")
TRANSACTIONAL_IDS = ("transactional_id", "v3_and_below_transactional_id")
TRANSACTIONAL_ID_LISTS = ("transactions", "transactional_ids")
COORDINATOR_KEYS = ("key", "coordinator_keys")
PREFIXES = ("", "v3_and_below_")
"""Fields of requests that say what they are about."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch in a Produce. −1 where it has no producer, or cannot be read."""

    topic: str
    partition: int
    producer_id: int = -1
    producer_epoch: int = -1
    first_sequence: int = -1
    last_sequence: int = -1


@dataclass(frozen=True, slots=True)
class Facts:
    """One request. `batches` is empty except for Produce; `partitions` are those that it is about.

    These are the ones that it names, those of its fetch session, and all where it asks for all.
    """

    api: str
    version: int
    client_id: str | None
    node: int
    connection: int
    topics: frozenset[str]
    partitions: frozenset[TopicPartition]
    groups: frozenset[str]
    transactional_ids: frozenset[str]
    producer: tuple[int, int] | None
    batches: tuple[Batch, ...]
    acks: int | None = None
    """Of a Produce."""


def facts_of(request: Message, exchange: Exchange) -> Facts:
    """The facts of this request."""
    touched = [*_touched(request, exchange), *_meant(request, exchange)]
    return Facts(
        api=api_name(exchange.api_key),
        version=exchange.version,
        client_id=exchange.client_id,
        node=exchange.node_id,
        connection=exchange.connection.number,
        topics=frozenset(topic for topic, _ in touched),
        partitions=frozenset((topic, index) for topic, index in touched if index is not None),
        groups=frozenset(_groups(request)),
        transactional_ids=frozenset(_transactional_ids(request)),
        producer=_producer(request),
        batches=tuple(_batches(request, exchange)) if isinstance(request, ProduceRequest) else (),
        acks=request.acks if isinstance(request, ProduceRequest) else None,
    )


def facts_of_header(header: RequestHeader, node: int, connection: int) -> Facts:
    """What is known of a request of which only the header has come."""
    nothing: frozenset[Any] = frozenset()
    return Facts(
        api_name(header.api_key), header.api_version, header.client_id, node, connection, nothing, nothing, nothing, nothing,
        None, (),
    )  # fmt: skip


def topic_name(struct: Any, exchange: Exchange) -> str | None:
    """The topic that a part of a request or response names, by its name or its id."""
    for attribute in ("name", "topic", "topic_name"):
        name = getattr(struct, attribute, None)
        if isinstance(name, str) and name:
            return name
    known = exchange.cluster.topics_by_id.get(getattr(struct, "topic_id", b"") or b"")
    return known.name if known else None


def partition_index(part: Any) -> int | None:
    """The partition that a part of a request or response is for."""
    if isinstance(part, int):
        return part
    for attribute in ("partition_index", "partition", "index", "partition_id"):
        index = getattr(part, attribute, None)
        if isinstance(index, int):
            return index
    return None


def named_in(request: Message, exchange: Exchange) -> Where:
    """The partitions that a request names, and the topics of which it names none."""
    touched = set(_touched(request, exchange))
    with_partitions = {topic for topic, index in touched if index is not None}
    return frozenset((topic, index) for topic, index in touched if index is not None or topic not in with_partitions)


def _touched(struct: Any, exchange: Exchange) -> Iterator[tuple[str, int | None]]:
    """Every topic that is named at any depth, with each partition that is named in it."""
    for attribute in fields_of(struct):
        parts = getattr(struct, attribute)
        if not isinstance(parts, list) or attribute in OTHERS_NAMES:
            continue
        for part in parts:
            if isinstance(part, str) and attribute in PLAIN_NAMES:
                yield part, None
            elif hasattr(part, "__slots__"):
                yield from _within(part, exchange)


def _meant(request: Message, exchange: Exchange) -> Iterator[tuple[str, int | None]]:
    """Every topic and partition that a request is about without naming it."""
    cluster, engine = exchange.cluster, exchange.engine
    if isinstance(request, FetchRequest) and request.session_epoch > INITIAL_EPOCH:
        for name, index in engine.fetch_sessions.held(request, exchange.node_id):
            topic = cluster.topics_by_id.get(name) if isinstance(name, bytes) else cluster.topics.get(name)
            if topic is not None:
                yield from ((topic.name, None), (topic.name, index))
    elif isinstance(request, OffsetFetchRequest):
        asked: list[Any] = request.groups if exchange.version >= 8 else [request]
        for group in asked:
            for name, index in engine.groups.offsets.of(group.group_id) if group.topics is None else ():
                yield from ((name, None), (name, index))
    elif _asks_for_all_topics(request, exchange.version):
        yield from ((name, None) for name in cluster.topics)


def _asks_for_all_topics(request: Message, version: int) -> bool:
    if isinstance(request, MetadataRequest):
        return request.topics is None or (version == 0 and not request.topics)
    return isinstance(request, DescribeTopicPartitionsRequest) and not request.topics


def _within(part: Any, exchange: Exchange) -> Iterator[tuple[str, int | None]]:
    topic = topic_name(part, exchange)
    if topic is None:
        yield from _touched(part, exchange)
        return
    yield topic, None
    for attribute in fields_of(part):
        for inner in getattr(part, attribute) if attribute.startswith("partition") else ():
            index = partition_index(inner)
            if index is not None:
                yield topic, index


def fields_of(struct: Any) -> tuple[str, ...]:
    """The names of what a part of a request or response has."""
    return fields_of_class(type(struct))


def fields_of_class(cls: type) -> tuple[str, ...]:
    """The names of what parts of this class have."""
    return tuple(getattr(cls, "__slots__", ()))


def has(api: str, word: str) -> bool:
    """Whether requests of this API can match by this word: a group, a transactional id, a producer's id or epoch."""
    fields = fields_of_class(request_class(KEYS[api]))
    if word == "group":
        return any(name in fields for name in ("group_id", *GROUP_LISTS, *COORDINATOR_KEYS))
    if word == "transactional_id":
        return any(name in fields for name in (*TRANSACTIONAL_IDS, *TRANSACTIONAL_ID_LISTS, *COORDINATOR_KEYS))
    return api == "Produce" or any(f"{prefix}producer_epoch" in fields for prefix in PREFIXES)


def _groups(request: Any) -> Iterator[str]:
    if isinstance(getattr(request, "group_id", None), str) and request.group_id:
        yield request.group_id
    for each in (group for attribute in GROUP_LISTS for group in getattr(request, attribute, ())):
        yield each if isinstance(each, str) else getattr(each, "group_id", "")
    if getattr(request, "key_type", None) == 0:
        yield from _keys(request)


def _transactional_ids(request: Any) -> Iterator[str]:
    for attribute in TRANSACTIONAL_IDS:
        if getattr(request, attribute, None):
            yield getattr(request, attribute)
    for each in getattr(request, "transactions", ()):
        yield each.transactional_id
    yield from getattr(request, "transactional_ids", ())
    if getattr(request, "key_type", None) == 1:
        yield from _keys(request)


def _keys(request: Any) -> Iterator[str]:
    yield from (request.coordinator_keys or [request.key])


def _producer(request: Any) -> tuple[int, int] | None:
    for prefix in PREFIXES:
        producer_id = getattr(request, f"{prefix}producer_id", None)
        if isinstance(producer_id, int) and producer_id >= 0 and hasattr(request, f"{prefix}producer_epoch"):
            return producer_id, getattr(request, f"{prefix}producer_epoch")
    return None


def _batches(request: ProduceRequest, exchange: Exchange) -> Iterator[Batch]:
    for data in request.topic_data:
        topic = topic_name(data, exchange) or ""
        for asked in data.partition_data:
            if asked.records is None or len(asked.records) < HEADER_SIZE:
                yield Batch(topic, asked.index)
                continue
            header = read_header(asked.records)
            yield Batch(
                topic, asked.index, header.producer_id, header.producer_epoch, header.base_sequence,
                header.last_sequence,
            )  # fmt: skip
