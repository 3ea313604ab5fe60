"""The parts of requests and responses: the topics and partitions that they name. Splits requests by these parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, TypeVar

from kafkawire.declare import Message, Struct
from kafkawire.entities import first, holders, lists, parts
from kafkawire.messages.produce import ProduceRequest
from kafkawire.primitives import format_uuid
from wirebroker.requests.received import Directory

T = TypeVar("T", bound=Struct)
TopicPartition = tuple[str, int]
Where = frozenset[tuple[str, int | None]]
"""Partitions. None as the index stands for the topic, in requests that name no partitions."""
Wanted = Callable[[str, "int | None"], bool]
NOT_ABOUT = ("forgotten_topics_data", "subscribed_topic_names", "assignments")
"""Lists of topics or partitions that a request names but does not act on: a Fetch session forgets them, a member subscribes to
them, a new topic places them on brokers.
"""


def topic_name(struct: Any, directory: Directory) -> str | None:
    """The topic that a part of a request or response names, by its name or its id."""
    name = first(struct, "topicName")
    if isinstance(name, str):
        return name
    topic_id = first(struct, "topicId")
    return None if topic_id is None else directory.topic_name(topic_id)


def topic_label(struct: Any, directory: Directory) -> str:
    """The topic's name for people, or "id …" if its id is not known; no topic's name has a space."""
    name = topic_name(struct, directory)
    if name:
        return name
    topic_id = first(struct, "topicId")
    return f"id {format_uuid(topic_id)}" if isinstance(topic_id, bytes) else ""


def partition_index(part: Any) -> int | None:
    """The partition that a part of a request or response names."""
    if isinstance(part, int):
        return part
    for name in holders(type(part), "partition"):
        if isinstance(index := getattr(part, name), int):
            return index
    return None


def named(struct: Any, directory: Directory) -> Iterator[tuple[str, int | None]]:
    """Yields every topic that is named at any depth (with None), and each partition of the topic that is named."""
    for attribute in lists(type(struct)):
        if attribute in NOT_ABOUT:
            continue
        plain = attribute in holders(type(struct), "topicName")
        for part in getattr(struct, attribute) or ():
            if isinstance(part, str) and plain:
                yield part, None
            elif isinstance(part, Struct):
                yield from _named_within(part, directory)


def _named_within(part: Struct, directory: Directory) -> Iterator[tuple[str, int | None]]:
    topic = topic_name(part, directory)
    if topic is None:
        yield from named(part, directory)
        return
    yield topic, None
    for attribute in _partition_lists(part):
        for each in getattr(part, attribute):
            if (index := partition_index(each)) is not None:
                yield topic, index


def _partition_lists(topic: Struct) -> list[str]:
    """The lists of partitions, with at least one element, of a part that names a topic."""
    cls = type(topic)
    found = []
    for name in lists(cls):
        elements = getattr(topic, name)
        if (
            elements
            and name not in NOT_ABOUT
            and (name in holders(cls, "partition") or holders(type(elements[0]), "partition"))
        ):
            found.append(name)
    return found


def named_in(request: Message, directory: Directory) -> Where:
    """The partitions that a request names, and the topics of which it names no partition."""
    found = set(named(request, directory))
    with_partitions = {topic for topic, index in found if index is not None}
    return frozenset((topic, index) for topic, index in found if index is not None or topic not in with_partitions)


def names_topics(message: Any, directory: Directory) -> bool:
    """Whether a message has parts that name topics."""
    return any(topic_name(part, directory) is not None or names_topics(part, directory) for part in parts(message))


def part_of(request: T, wanted: Wanted, directory: Directory) -> T:
    """The request for its wanted topics and partitions only."""
    kept = copy(request)
    for attribute in lists(type(request)):
        elements = getattr(request, attribute)
        if elements and attribute not in NOT_ABOUT:
            plain = attribute in holders(type(request), "topicName")
            reduced = (_part_of(each, wanted, directory, plain) for each in elements)
            setattr(kept, attribute, [each for each in reduced if each is not None])
    return kept


def _part_of(part: Any, wanted: Wanted, directory: Directory, plain: bool) -> Any:
    """The wanted part of an element, None if nothing of it is wanted. `plain`: the element is a topic's name."""
    if not isinstance(part, Struct):
        return part if not plain or wanted(part, None) else None
    topic = topic_name(part, directory)
    if topic is None:
        kept = part_of(part, wanted, directory)
        return kept if any(parts(kept)) or not any(parts(part)) else None
    names = _partition_lists(part)
    if not names:
        return part if wanted(topic, None) else None
    kept = copy(part)
    for name in names:
        setattr(kept, name, [each for each in getattr(part, name) if wanted(topic, partition_index(each))])
    return kept if any(getattr(kept, name) for name in names) else None


def own_records(request: Message) -> None:
    """Give a request that is kept its own copy of the records, because other connections will receive into the
    records' buffer.
    """
    if isinstance(request, ProduceRequest):
        for data in request.topic_data:
            for each in data.partition_data:
                if each.records is not None:
                    each.records = memoryview(bytes(each.records))
