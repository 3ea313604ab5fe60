"""The records of streams groups in __consumer_offsets, in Kafka's format, and loading groups from them.

Kafka adds a hash of the topics to a group's epoch. Here it stays 0, which means unknown, because the topics are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records import streams_group_current_member_assignment as current
from kafkawire.coordinator_records import streams_group_member_metadata as metadata
from kafkawire.coordinator_records import streams_group_metadata as group_metadata
from kafkawire.coordinator_records import streams_group_target_assignment_member as target
from kafkawire.coordinator_records import streams_group_target_assignment_metadata as assignment
from kafkawire.coordinator_records import streams_group_topology as topology
from kafkawire.declare import Message
from wirebroker.core.groups.streams_group import StreamsGroup
from wirebroker.core.groups.streams_member import Some, StreamsMember, StreamsState, Tasks
from wirebroker.core.groups.streams_topology import Topology

T = TypeVar("T", current.TaskIds, target.TaskIds)
MEMBER_KEYS = (
    current.StreamsGroupCurrentMemberAssignmentKey, target.StreamsGroupTargetAssignmentMemberKey,
    metadata.StreamsGroupMemberMetadataKey,
)  # fmt: skip
"""The kinds of the records of a member, in the order of their tombstones."""
GROUP_KEYS = (
    assignment.StreamsGroupTargetAssignmentMetadataKey, group_metadata.StreamsGroupMetadataKey,
    topology.StreamsGroupTopologyKey,
)  # fmt: skip
"""The kinds of the other records of a group, in the order of their tombstones."""
KEYS = (*MEMBER_KEYS, *GROUP_KEYS)


def partitions_by_subtopology(tasks: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The partitions of these tasks, sorted, by the id of the subtopology, in the order of the ids."""
    found: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, []).append(partition)
    return found


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """What a member has sent."""
    host_and_port = member.endpoint
    value = metadata.StreamsGroupMemberMetadataValue(
        rack_id=member.rack_id, instance_id=None, client_id=member.client_id, client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout, topology_epoch=member.topology_epoch, process_id=member.process_id,
        user_endpoint=None if host_and_port is None else metadata.Endpoint(host=host_and_port[0], port=host_and_port[1]),
        client_tags=[metadata.KeyValue(key=key, value=tag) for key, tag in sorted(member.tags.items())],
    )  # fmt: skip
    return CoordinatorRecord(metadata.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def topology_record(group_id: str, held: Topology) -> CoordinatorRecord:
    """The topology that the first member brought."""
    return CoordinatorRecord(topology.StreamsGroupTopologyKey(group_id=group_id), held.value)


def epoch_record(group_id: str, epoch: int, valid_topology_epoch: int, configs: Mapping[str, str]) -> CoordinatorRecord:
    """A group's epoch."""
    value = group_metadata.StreamsGroupMetadataValue(
        epoch=epoch, metadata_hash=0, validated_topology_epoch=valid_topology_epoch,
        last_assignment_configs=[
            group_metadata.LastAssignmentConfig(key=key, value=configured) for key, configured in sorted(configs.items())
        ],
    )  # fmt: skip
    return CoordinatorRecord(group_metadata.StreamsGroupMetadataKey(group_id=group_id), value)


def target_records(
    group: StreamsGroup, targets: Mapping[str, Tasks], epoch: int, now: int
) -> Iterator[CoordinatorRecord]:  # fmt: skip
    """The changed targets, and the epoch of the assignment."""
    for member_id, given in targets.items():
        before = group.targets.get(member_id)
        if before is None or not before.same(given):
            active, standby, warmup = (
                [
                    target.TaskIds(subtopology_id=key, partitions=each)
                    for key, each in partitions_by_subtopology(tasks).items()
                ]
                for tasks in given
            )  # fmt: skip
            key = target.StreamsGroupTargetAssignmentMemberKey(group_id=group.group_id, member_id=member_id)
            yield CoordinatorRecord(
                key,
                target.StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup),
            )
    value = assignment.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now)
    yield CoordinatorRecord(assignment.StreamsGroupTargetAssignmentMetadataKey(group_id=group.group_id), value)


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """A member's tasks and epochs."""
    assigned, revoking = member.assigned, member.revoking
    value = current.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=member.state.value,
        active_tasks=_since(assigned.active), standby_tasks=_current(assigned.standby), warmup_tasks=_current(assigned.warmup),
        active_tasks_pending_revocation=_since(revoking.active),
        standby_tasks_pending_revocation=_current(revoking.standby), warmup_tasks_pending_revocation=_current(revoking.warmup),
    )  # fmt: skip
    key = current.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def _current(tasks: Some) -> list[current.TaskIds]:
    return [
        current.TaskIds(subtopology_id=key, partitions=partitions)
        for key, partitions in partitions_by_subtopology(tasks).items()
    ]  # fmt: skip


def _since(tasks: Some) -> list[current.TaskIds]:
    found = _current(tasks)
    for each in found:
        each.assignment_epochs = [tasks[each.subtopology_id, partition] for partition in each.partitions]
    return found


def member_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    """The tombstones of members."""
    return [CoordinatorRecord(kind(group_id=group_id, member_id=each), None) for each in member_ids for kind in MEMBER_KEYS]


def tombstones(group: StreamsGroup) -> list[CoordinatorRecord]:
    """The tombstones for all records of a group without members."""
    return [CoordinatorRecord(kind(group_id=group.group_id), None) for kind in GROUP_KEYS]


def replay(group: StreamsGroup, key: Message, value: Message | None) -> None:
    """Apply a record to its group."""
    member_id: str = getattr(key, "member_id", "")
    member = group.members.get(member_id) or StreamsMember(member_id)
    if isinstance(value, group_metadata.StreamsGroupMetadataValue):
        group.epoch, group.valid_topology_epoch = value.epoch, value.validated_topology_epoch
        group.configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    elif isinstance(value, assignment.StreamsGroupTargetAssignmentMetadataValue):
        group.assignment_epoch, group.assigned_at = value.assignment_epoch, value.assignment_timestamp
    elif isinstance(value, topology.StreamsGroupTopologyValue):
        group.topology = Topology(value)
    elif isinstance(value, metadata.StreamsGroupMemberMetadataValue):
        endpoint = value.user_endpoint
        group.update(replace(
            member, rack_id=value.rack_id, rebalance_timeout=value.rebalance_timeout_ms, client_id=value.client_id,
            client_host=value.client_host, topology_epoch=value.topology_epoch, process_id=value.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            tags={each.key: each.value for each in value.client_tags},
        ))  # fmt: skip
    elif isinstance(value, current.StreamsGroupCurrentMemberAssignmentValue):
        group.update(_with_tasks(member, value))
    elif isinstance(value, target.StreamsGroupTargetAssignmentMemberValue):
        group.targets[member_id] = Tasks(
            *(_tasks(each) for each in (value.active_tasks, value.standby_tasks, value.warmup_tasks))
        )
    elif isinstance(key, metadata.StreamsGroupMemberMetadataKey):
        if member_id in group.members:
            group.remove(member_id)
    elif isinstance(key, target.StreamsGroupTargetAssignmentMemberKey):
        group.targets.pop(member_id, None)


def _with_tasks(member: StreamsMember, value: current.StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    epoch = value.member_epoch
    return replace(
        member, epoch=epoch, previous_epoch=value.previous_member_epoch, state=StreamsState(value.state),
        assigned=Tasks(_tasks(value.active_tasks, epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)),
        revoking=Tasks(
            _tasks(value.active_tasks_pending_revocation, epoch), _tasks(value.standby_tasks_pending_revocation),
            _tasks(value.warmup_tasks_pending_revocation),
        ),
    )  # fmt: skip


def _tasks(held: Iterable[T], epoch: int = 0) -> dict[tuple[str, int], int]:
    """Tasks, each with the epoch at which it was assigned; `epoch` where the record has none."""
    found: dict[tuple[str, int], int] = {}
    for each in held:
        epochs = getattr(each, "assignment_epochs", None) or [epoch] * len(each.partitions)
        found.update(zip(((each.subtopology_id, index) for index in each.partitions), epochs, strict=True))
    return found
