"""Reads the facts of a request, in the same way for all APIs: its topics, partitions, groups and producers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from kafkawire.batches import first_header
from kafkawire.declare import Message
from kafkawire.entities import holders, mentions, values
from kafkawire.frames import RequestHeader
from kafkawire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafkawire.messages.fetch import FetchRequest
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.offset_fetch import OffsetFetchRequest
from kafkawire.messages.produce import ProduceRequest
from kafkawire.registry import KEYS, api_name, request_class
from wirebroker.requests.parts import TopicPartition, named, topic_name
from wirebroker.requests.received import Directory, Received

GROUP_KEY, TRANSACTION_KEY = 0, 1
"""FindCoordinator's key types."""


class Batch(Struct, frozen=True):
    """A batch in a Produce. Without a producer id, or with an unreadable header, the batch's producer id, epoch and sequences
    are −1."""

    topic: str
    partition: int
    producer_id: int = -1
    producer_epoch: int = -1
    first_sequence: int = -1
    last_sequence: int = -1
    records: int = 0


class Facts(Struct, frozen=True):
    """The facts of one request. Only a Produce has `batches` and `acks`.

    `topics` and `partitions` are the topics and partitions that the request or its fetch session names. If the request asks for
    all topics or partitions, they are all listed.
    """

    api: str
    version: int
    client_id: str | None
    node: int
    connection: int
    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()
    groups: frozenset[str] = frozenset()
    transactional_ids: frozenset[str] = frozenset()
    producer: tuple[int, int] | None = None
    batches: tuple[Batch, ...] = ()
    acks: int | None = None
    principal: str = ""
    """The client's principal, like `User:alice`."""


def facts_of(request: Message, received: Received, implied: Iterable[tuple[str, int | None]] | None = None) -> Facts:
    """Returns the facts of a request. The caller may pass the result of `implied_by` as `implied`; then this function can run
    in any thread.
    """
    about = [*named(request, received.directory), *(implied_by(request, received) if implied is None else implied)]
    produce = request if isinstance(request, ProduceRequest) else None
    return Facts(
        api=api_name(received.api_key),
        version=received.version,
        client_id=received.client_id,
        node=received.node_id,
        connection=received.connection.number,
        topics=frozenset(topic for topic, _ in about),
        partitions=frozenset((topic, index) for topic, index in about if index is not None),
        groups=frozenset(groups_of(request)),
        transactional_ids=frozenset(_ids(request, "transactionalId", TRANSACTION_KEY)),
        producer=producer_of_request(request),
        batches=tuple(_batches(produce, received.directory)) if produce is not None else (),
        acks=produce.acks if produce is not None else None,
        principal=str(received.connection.session.principal),
    )


def groups_of(request: Message) -> Iterator[str]:
    return _ids(request, "groupId", GROUP_KEY)


def facts_of_header(header: RequestHeader, node: int, connection: int) -> Facts:
    """Returns the facts that can be read from a request's header alone."""
    return Facts(api_name(header.api_key), header.api_version, header.client_id, node, connection)


def can_name(api: str, word: str) -> bool:
    """Tells whether requests of this API can name a group, transactional_id, producer_id or producer_epoch."""
    cls = request_class(KEYS[api])
    if word == "group":
        return mentions(cls, "groupId") or mentions(cls, "coordinatorKey")
    if word == "transactional_id":
        return mentions(cls, "transactionalId") or mentions(cls, "coordinatorKey")
    return api == "Produce" or bool(holders(cls, "producerEpoch"))


def implied_by(request: Message, received: Received) -> Iterator[tuple[str, int | None]]:
    """Yields the topics and partitions that a request concerns but does not name."""
    directory = received.directory
    if isinstance(request, FetchRequest):
        for topic, index in directory.session_partitions(request, received.node_id):
            yield from ((topic, None), (topic, index))
    elif isinstance(request, OffsetFetchRequest):
        groups: list[Any] = request.groups if received.version >= 8 else [request]
        for group in groups:
            for topic, index in directory.group_partitions(group.group_id) if group.topics is None else ():
                yield from ((topic, None), (topic, index))
    elif _asks_for_all_topics(request, received.version):
        yield from ((topic, None) for topic in directory.topics())


def _asks_for_all_topics(request: Message, version: int) -> bool:
    if isinstance(request, MetadataRequest):
        return request.topics is None or (version == 0 and not request.topics)
    return isinstance(request, DescribeTopicPartitionsRequest) and not request.topics


def _ids(request: Any, entity: Any, key_type: int) -> Iterator[str]:
    """Yields the groups or transactional ids that a request names."""
    yield from (each for each in values(request, entity) if each)
    if getattr(request, "key_type", None) == key_type:
        yield from request.coordinator_keys or [request.key]


def producer_of_request(request: Any) -> tuple[int, int] | None:
    """Returns the producer id and epoch that a request itself names, outside its batches."""
    cls = type(request)
    for id_field, epoch_field in zip(holders(cls, "producerId"), holders(cls, "producerEpoch"), strict=False):
        if (producer_id := getattr(request, id_field)) >= 0:
            return producer_id, getattr(request, epoch_field)
    return None


def _batches(request: ProduceRequest, directory: Directory) -> Iterator[Batch]:
    for data in request.topic_data:
        topic = topic_name(data, directory) or ""
        for part in data.partition_data:
            if (header := first_header(part.records)) is None:
                yield Batch(topic, part.index)
                continue
            yield Batch(
                topic, part.index, header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence,
                max(header.records_count, 0),
            )  # fmt: skip
