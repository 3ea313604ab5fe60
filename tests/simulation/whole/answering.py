"""Checks that a response is about everything that its request names, and about nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding
from kafkawire.entities import holders, parts

if TYPE_CHECKING:
    from simulation.whole.world import Sent

BY_PARTITION = frozenset(
    {"Produce", "ListOffsets", "OffsetCommit", "TxnOffsetCommit", "AddPartitionsToTxn", "DeleteRecords", "OffsetForLeaderEpoch",
     "DescribeProducers", "OffsetDelete", "AlterShareGroupOffsets"}
)  # fmt: skip
"""APIs that respond for each partition."""
LISTS: dict[str, tuple[str, str, str]] = {
    "DescribeGroups": ("groups", "groups", "group_id"), "DeleteGroups": ("groups_names", "results", "group_id"),
    "ConsumerGroupDescribe": ("group_ids", "groups", "group_id"), "ShareGroupDescribe": ("group_ids", "groups", "group_id"),
    "StreamsGroupDescribe": ("group_ids", "groups", "group_id"), "CreateTopics": ("topics", "topics", "name"),
    "CreatePartitions": ("topics", "results", "name"), "DescribeConfigs": ("resources", "results", "resource_name"),
    "AlterConfigs": ("resources", "responses", "resource_name"),
    "IncrementalAlterConfigs": ("resources", "responses", "resource_name"),
    "DescribeTransactions": ("transactional_ids", "transaction_states", "transactional_id"),
    "DescribeShareGroupOffsets": ("groups", "groups", "group_id"),
}  # fmt: skip
"""For other APIs: the name of the list in the request, the name of the list in the response, and the field that has an
element's name.
"""


def complete(sent: Sent, response: Any) -> None:
    """Checks a response. Raises Finding."""
    if getattr(response, "error_code", 0):
        return
    if sent.api in BY_PARTITION:
        asked, told = set(_places(sent.request)), list(_places(response))
    elif sent.api in LISTS:
        of_request, of_response, field = LISTS[sent.api]
        asked = {(_named(each, field),) for each in getattr(sent.request, of_request)}
        told = [(_named(each, field),) for each in getattr(response, of_response)]
    else:
        return
    if asked != set(told):
        detail = f"{sent} names {sorted(map(str, asked))}, but the response names {told}"
        raise Finding(f"{sent.api}: the response is about something else", detail)
    if len(told) > len(asked) and len(asked) == sum(1 for _ in _places(sent.request)) and sent.api in BY_PARTITION:
        raise Finding(f"{sent.api}: the response repeats something", f"{sent}: {told}")


def _named(each: Any, field: str) -> Any:
    if isinstance(each, str):
        return each
    kind = getattr(each, "resource_type", None)
    return getattr(each, field) if kind is None else (kind, getattr(each, field))


def _places(struct: Any, topic: Any = None) -> Iterator[tuple[Any, int]]:
    """Yields each topic and partition that a message names."""
    cls = type(struct)
    names = [getattr(struct, field) for entity in ("topicName", "topicId") for field in holders(cls, entity)]
    topic = next((bytes(each) if isinstance(each, memoryview) else each for each in names if each and any(each)), topic)
    for field in holders(cls, "partition"):
        value = getattr(struct, field)
        yield from ((topic, index) for index in (value if isinstance(value, list) else [value]))
    for part in parts(struct):
        yield from _places(part, topic)
