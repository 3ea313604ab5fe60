"""The messages that classic consumers send each other through the coordinator: subscriptions and assignments.

The coordinator reads the messages when it needs a group's subscriptions, and when it converts a group to another protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.codec import decode, encode
from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

NEWEST = 3
"""The newest version that the coordinator can read. As in Kafka, the coordinator reads a message of a later version in the same
way as a message of this version."""


def version_of(raw: bytes) -> int:
    """Returns the message's version, which is in its first two bytes. Raises ProtocolError if the bytes cannot be read."""
    version = int.from_bytes(raw[:2], "big", signed=True)
    if len(raw) < 2 or version < 0:
        raise ProtocolError("its version cannot be read")
    return min(version, NEWEST)


def read_subscription(raw: bytes) -> ConsumerProtocolSubscription:
    """Returns a consumer's subscription. Raises ProtocolError if the bytes cannot be read."""
    return decode(ConsumerProtocolSubscription, raw, version_of(raw), 2)[0]


def read_assignment(raw: bytes) -> ConsumerProtocolAssignment:
    """Returns a consumer's assignment. Raises ProtocolError if the bytes cannot be read."""
    return decode(ConsumerProtocolAssignment, raw, version_of(raw), 2)[0]


def write_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """Returns an assignment in this version, for a member that speaks the classic protocol."""
    message: Message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=topic, partitions=list(given)) for topic, given in partitions.items()]
    )
    return version.to_bytes(2, "big") + encode(message, version)
