"""Finds the topics and partitions that requests and responses name, and splits requests by topic and partition."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from copy import copy
from typing import Any, TypeVar

from kafkawire.declare import Message, Struct
from kafkawire.entities import first, holders, lists, parts
from kafkawire.messages.produce import ProduceRequest
from kafkawire.primitives import format_uuid
from wirebroker.common.slices import Pause, at_once, never
from wirebroker.requests.received import Directory

T = TypeVar("T", bound=Struct)
TopicPartition = tuple[str, int]
Where = frozenset[tuple[str, int | None]]
"""Partitions, as topic and index. The index is None if the request names the topic without partitions."""
Wanted = Callable[[str, "int | None"], bool]
NOT_ABOUT = ("forgotten_topics_data", "subscribed_topic_names", "assignments")
"""Lists in requests. A request does not act on the topics or partitions in these lists: the partitions that a fetch session
forgets, the topics that a member subscribes to, and the replica assignment of a new topic.
"""


def topic_name(struct: Any, directory: Directory) -> str | None:
    """Returns the name of the topic in a part of a request or response. The part may have the topic's name or its id."""
    name = first(struct, "topicName")
    if isinstance(name, str):
        return name
    topic_id = first(struct, "topicId")
    return None if topic_id is None else directory.topic_name(topic_id)


def topic_label(struct: Any, directory: Directory) -> str:
    """Returns the topic's name, or "id …" if the topic id is unknown. No topic name contains a space, so a name cannot be
    confused with an id.
    """
    name = topic_name(struct, directory)
    if name:
        return name
    topic_id = first(struct, "topicId")
    return f"id {format_uuid(topic_id)}" if isinstance(topic_id, bytes) else ""


def partition_index(part: Any) -> int | None:
    """Returns the partition that a part of a request or response names."""
    if isinstance(part, int):
        return part
    for name in holders(type(part), "partition"):
        if isinstance(index := getattr(part, name), int):
            return index
    return None


def named(struct: Any, directory: Directory) -> Iterator[tuple[str, int | None]]:
    """Yields the topics and partitions that the struct names at any depth: a topic as (topic, None), a partition as (topic,
    index).
    """
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
    """Returns the names of the non-empty partition lists in a part that names a topic."""
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
    """Returns the partitions that a request names, and the topics that it names without a partition."""
    found = set(named(request, directory))
    with_partitions = {topic for topic, index in found if index is not None}
    return frozenset((topic, index) for topic, index in found if index is not None or topic not in with_partitions)


def names_topics(message: Any, directory: Directory) -> bool:
    """Tells whether a message has parts that name topics."""
    return any(topic_name(part, directory) is not None or names_topics(part, directory) for part in parts(message))


def part_of(request: T, wanted: Wanted, directory: Directory) -> T:
    """Returns a copy of the request that has only the wanted topics and partitions."""
    return at_once(part_in_slices(request, wanted, directory, never))


def part_in_slices(request: T, wanted: Wanted, directory: Directory, pause: Pause) -> Generator[None, None, T]:
    """Returns the same as `part_of`, but in slices."""
    kept = copy(request)
    for attribute in lists(type(request)):
        elements = getattr(request, attribute)
        if elements and attribute not in NOT_ABOUT:
            plain = attribute in holders(type(request), "topicName")
            reduced: list[Any] = []
            for each in elements:
                yield from pause()
                if (part := (yield from _part_of(each, wanted, directory, plain, pause))) is not None:
                    reduced.append(part)
            setattr(kept, attribute, reduced)
    return kept


def _part_of(part: Any, wanted: Wanted, directory: Directory, plain: bool, pause: Pause) -> Generator[None, None, Any]:
    """Reduces a list element to its wanted parts. Returns None if no part is wanted. With `plain` the element itself is a
    topic name.
    """
    if not isinstance(part, Struct):
        return part if not plain or wanted(part, None) else None
    topic = topic_name(part, directory)
    if topic is None:
        kept = yield from part_in_slices(part, wanted, directory, pause)
        return kept if any(parts(kept)) or not any(parts(part)) else None
    names = _partition_lists(part)
    if not names:
        return part if wanted(topic, None) else None
    kept = copy(part)
    for name in names:
        chosen = []
        for each in getattr(part, name):
            yield from pause()
            if wanted(topic, partition_index(each)):
                chosen.append(each)
        setattr(kept, name, chosen)
    return kept if any(getattr(kept, name) for name in names) else None


def own_records(request: Message) -> None:
    """Copy the records of a request that is kept for later. The records still lie in the receive buffer, which other
    connections will overwrite.
    """
    if isinstance(request, ProduceRequest):
        for data in request.topic_data:
            for each in data.partition_data:
                if each.records is not None:
                    each.records = memoryview(bytes(each.records))
