"""Selects the fields that a trace keeps from requests and responses, in addition to names and errors. Fields have Kafka's
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from kafkawire.batches import first_header
from kafkawire.declare import Message
from kafkawire.entities import has_field, parts, struct_lists
from kafkawire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.messages.init_producer_id import InitProducerIdResponse
from kafkawire.messages.offset_commit import OffsetCommitRequest
from kafkawire.messages.produce import ProduceRequest
from kafkawire.messages.sync_group import SyncGroupResponse
from wirebroker.requests.assignments import CONSUMER, assigned
from wirebroker.requests.facts import producer_of_request
from wirebroker.requests.parts import topic_label
from wirebroker.requests.received import Directory

Details = dict[str, "str | int"]
NOBODY = -1, -1
LONGEST_WAIT = 2**31 - 1
_MEMBER = ("member_id", "generation_id")
_HEARTBEAT = ("member_id", "member_epoch", "rebalance_timeout_ms")
OF_REQUESTS: Mapping[str, tuple[str, ...]] = {
    "InitProducerIdRequest": ("transaction_timeout_ms",),
    "EndTxnRequest": ("committed",),
    "JoinGroupRequest": ("member_id", "session_timeout_ms", "rebalance_timeout_ms", "group_instance_id", "reason"),
    "SyncGroupRequest": _MEMBER,
    "HeartbeatRequest": _MEMBER,
    "LeaveGroupRequest": ("member_id", "reason"),
    "OffsetCommitRequest": ("member_id",),
    "ConsumerGroupHeartbeatRequest": _HEARTBEAT,
    "ShareGroupHeartbeatRequest": _HEARTBEAT,
    "StreamsGroupHeartbeatRequest": _HEARTBEAT,
    "SaslHandshakeRequest": ("mechanism",),
}
"""For each request, the fields that the trace keeps. If the request itself lacks a field, the field comes from the first
element of the request's list.
"""
OF_RESPONSES: Mapping[str, tuple[str, ...]] = {
    "JoinGroupResponse": ("member_id", "generation_id"),
    "ConsumerGroupHeartbeatResponse": ("member_id", "member_epoch"),
    "ShareGroupHeartbeatResponse": ("member_id", "member_epoch"),
    "StreamsGroupHeartbeatResponse": ("member_id", "member_epoch"),
}
"""For each response, the fields that the trace keeps. A field of the response replaces the request's field of the same name,
unless the response's field is empty.
"""
JOINED_AS = "joined_as"
"""If a JoinGroup response has another member id than its request, the trace keeps the request's member id ("" for a new member)
under this name."""
ASSIGNED = "assigned"
"""The partitions that a member was assigned, as topic-partition, separated by commas."""
OFFSETS = "offsets"
"""The offsets that a request commits, as topic-partition:offset, separated by commas."""
MOST = 100
"""`ASSIGNED` and `OFFSETS` name at most this many partitions."""
COORDINATOR = "coordinator"
"""The result of FindCoordinator, in words."""
_OF_MESSAGES = {name for names in (*OF_REQUESTS.values(), *OF_RESPONSES.values()) for name in names}
NAMES = frozenset((JOINED_AS, COORDINATOR, ASSIGNED, OFFSETS, *_OF_MESSAGES))
"""Every field name that `details_of` can return."""


def details_of(request: Message, directory: Directory) -> Details:
    """Returns those fields of a request that the trace keeps."""
    found = _kept(request, OF_REQUESTS.get(type(request).__name__, ()))
    if isinstance(request, OffsetCommitRequest):
        offsets = (
            f"{topic_label(topic, directory)}-{each.partition_index}:{each.committed_offset}"
            for topic in request.topics
            for each in topic.partitions
        )
        found[OFFSETS] = ", ".join(islice(offsets, MOST))
    return found


def details_with(details: Details, response: Message, directory: Directory) -> Details:
    """Returns the fields of a request and of its response."""
    name = type(response).__name__
    if name == "FindCoordinatorResponse":
        return details | {COORDINATOR: "; ".join(islice(_coordinators(response), MOST))}
    if (assigned := _assigned(response, directory)) is not None:
        details = details | {ASSIGNED: ", ".join(islice(assigned, MOST))}
    if name not in OF_RESPONSES:
        return details
    found = {key: value for key, value in _kept(response, OF_RESPONSES[name]).items() if value not in ("", -1)}
    asked = details.get("member_id")
    if name == "JoinGroupResponse" and asked != found.get("member_id", asked):
        found[JOINED_AS] = asked or ""
    return details | found


def _assigned(response: Any, directory: Directory) -> Iterable[str] | None:
    """Returns the partitions that a response assigns to a member. Returns None if the response assigns no partitions, or if the
    group's protocol is not `consumer`.
    """
    if isinstance(response, SyncGroupResponse):
        if response.error_code:
            return None
        topics = assigned(bytes(response.assignment), response.protocol_type or CONSUMER)
        return None if topics is None else (f"{name}-{index}" for name, numbers in topics.items() for index in numbers)
    given = response.assignment if isinstance(response, ConsumerGroupHeartbeatResponse) else None
    if given is None:
        return None
    return (f"{topic_label(each, directory)}-{index}" for each in given.topic_partitions for index in each.partitions)


def _kept(message: Any, names: tuple[str, ...]) -> Details:
    found: Details = {}
    for name in names:
        value = getattr(message, name, None)
        if value in (None, "") and (element := next(parts(message), None)) is not None:
            value = getattr(element, name, value)
        if value is not None:
            found[name] = value if isinstance(value, str) else int(value)
    return found


def _coordinators(response: Any) -> Iterator[str]:
    """Yields the address of each coordinator in a response to FindCoordinator."""
    several = len(response.coordinators) > 1
    for each in response.coordinators or [response]:
        if not each.error_code:
            yield f"{f'{each.key}: ' if several else ''}node {each.node_id} at {each.host}:{each.port}"


def producer_of(request: Message) -> tuple[int, int]:
    """Returns the producer id and epoch in a request, or −1 for both if the request names no producer. In a Produce, the first
    batch names the producer."""
    if isinstance(request, ProduceRequest):
        for topic in request.topic_data:
            for each in topic.partition_data:
                if (header := first_header(each.records)) is not None:
                    return header.producer_id, header.producer_epoch
        return NOBODY
    return producer_of_request(request) or NOBODY


def producer_with(producer: tuple[int, int], response: Message) -> tuple[int, int]:
    """Returns the producer in a response to InitProducerId; for any other response, returns `producer`, the producer that the
    request names."""
    if isinstance(response, InitProducerIdResponse) and not response.error_code:
        return response.producer_id, response.producer_epoch
    return producer


def longest_wait(request: Any) -> int:
    """Returns how many ms the broker may wait (for records or for other members) before it responds to this request."""
    name = type(request).__name__
    if name in ("FetchRequest", "ShareFetchRequest"):
        return int(request.max_wait_ms)
    return LONGEST_WAIT if name in ("JoinGroupRequest", "SyncGroupRequest") else 0


def error_messages(struct: Any) -> Iterator[str]:
    """Yields all error messages in a response, at any depth."""
    if message := getattr(struct, "error_message", None):
        yield message
    for name, part_class in struct_lists(type(struct)):
        if has_field(part_class, "error_message"):
            for part in getattr(struct, name) or ():
                yield from error_messages(part)
