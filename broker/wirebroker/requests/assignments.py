"""Decodes assignments of classic groups. The group's leader writes the assignments, and brokers pass them on unread."""

from __future__ import annotations

from kafkawire.codec import decode
from kafkawire.errors import ProtocolError
from kafkawire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment

CONSUMER = "consumer"


def assigned(assignment: bytes, protocol_type: str | None) -> dict[str, list[int]] | None:
    """Returns the partitions that are assigned to a member, by topic, or None if the assignment is not in the format of Kafka's
    consumers.
    """
    if protocol_type != CONSUMER or not assignment:
        return None if assignment else {}
    try:
        version = min(max(int.from_bytes(assignment[:2], "big", signed=True), 0), 3)
        read, _ = decode(ConsumerProtocolAssignment, memoryview(assignment), version, 2)
    except ProtocolError:
        return None
    return {each.topic: sorted(each.partitions) for each in read.assigned_partitions}
