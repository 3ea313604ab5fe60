"""Describes the last rebalances and commits of groups for the report of a failed test.

The history is read from the coordinator's records in `__consumer_offsets`, so the broker does not have to keep a history for
the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkawire.primitives import format_uuid
from wirebroker.audit.content import head
from wirebroker.testing.group_lines import listed
from wirebroker.testing.operations import stored_records
from wirebroker.trace.layout import PLACE, time_of_day
from wirebroker_tools.decode.embedded import in_record

if TYPE_CHECKING:
    from wirebroker.engine.engine import Engine

OFFSETS = "__consumer_offsets"
LATEST = 200
"""The report reads at most this many records from each partition of `__consumer_offsets`."""


class Event(NamedTuple):
    """A change of a group. If the change is an offset commit, `committed` has the partition and the offset."""

    time: int
    group: str
    change: str
    committed: tuple[str, int] | None = None


def history_lines(engine: Engine) -> list[str]:
    """Returns the last rebalances and commits, oldest first. Consecutive commits of one group share a line."""
    lines: list[str] = []
    last: Event | None = None
    offsets: dict[str, int] = {}
    for each in sorted(_events(engine), key=lambda event: event.time):
        if each.committed is None:
            lines.append(_shown(each, each.change))
        else:
            if last is not None and last.committed is not None and last.group == each.group:
                lines.pop()
            else:
                offsets = {}
            offsets |= [each.committed]
            lines.append(_shown(each, f"committed {listed([f'{name} at {offset}' for name, offset in offsets.items()])}"))
        last = each
    return lines


def _shown(event: Event, change: str) -> str:
    return f"{time_of_day(event.time)}  {head(event.group.encode()):<{PLACE}} {change}"


def _events(engine: Engine) -> Iterator[Event]:
    topic = engine.cluster.topics.get(OFFSETS)
    names = {format_uuid(topic_id): each.name for topic_id, each in engine.cluster.topics_by_id.items()}
    for partition in topic.partitions if topic is not None else ():
        for record in stored_records(partition, partition.log_end_offset - LATEST):
            key, value = in_record(record.key, record.value, OFFSETS)
            if key is not None:
                ((kind, about),) = key.items()
                change = _change(kind.removesuffix("Key"), about, next(iter(value.values())) if value else None, names)
                if change is not None:
                    group, (text, committed) = about.get("group") or about.get("group_id") or "", change
                    yield Event(record.timestamp, group, text, committed)


def _change(
    kind: str, key: dict[str, Any], value: dict[str, Any] | None, names: dict[str, str]
) -> tuple[str, tuple[str, int] | None] | None:
    """Describes one record of a group in words. Returns None if the report does not need the record."""
    if kind == "OffsetCommit":
        where = f"{key['topic']}-{key['partition']}"
        return (f"forgot the offset of {where}", None) if value is None else ("", (where, value["offset"]))
    if kind == "GroupMetadata":
        return (_generation(value), None) if value is not None and value["generation"] else None
    if kind.endswith("GroupMetadata"):
        return (f"epoch {value['epoch']}", None) if value is not None else None
    if kind.endswith("GroupMemberMetadata"):
        return (f"{head(value['client_id'].encode())} joined" if value is not None else "a member left"), None
    if kind.endswith("GroupTargetAssignmentMember") and value is not None and "topic_partitions" in value:
        parts = [
            f"{names.get(each['topic_id'], '?')}-{index}" for each in value["topic_partitions"] for index in each["partitions"]
        ]
        return f"a member gets {listed(parts) or 'no partition'}", None
    return None


def _generation(value: dict[str, Any]) -> str:
    """Describes a generation of a classic group, with the members' partitions if the assignment can be read."""
    members = []
    for each in value["members"]:
        read = each["assignment"].get("ConsumerProtocolAssignment") if isinstance(each["assignment"], dict) else None
        parts = [
            f"{part['topic']}-{index}" for part in (read or {}).get("assigned_partitions", ()) for index in part["partitions"]
        ]
        members.append(f"{head(each['client_id'].encode())} has {listed(parts) or 'no partition'}")
    return f"generation {value['generation']}: {listed(members) or 'no members'}"
