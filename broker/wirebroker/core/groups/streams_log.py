"""The records of streams groups (KIP-1071) in __consumer_offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records import streams_group_current_member_assignment as current
from kafkawire.coordinator_records import streams_group_member_metadata as metadata
from kafkawire.coordinator_records import streams_group_metadata as group_metadata
from kafkawire.coordinator_records import streams_group_target_assignment_member as target
from kafkawire.coordinator_records import streams_group_target_assignment_metadata as assignment
from kafkawire.coordinator_records import streams_group_topology as topology
from kafkawire.declare import Message
from wirebroker.core.groups.modern import MemberState
from wirebroker.core.groups.modern_log import Format, OfGroup, OfMember
from wirebroker.core.groups.streams_member import Some, StreamsMember, Tasks
from wirebroker.core.groups.streams_topology import Topology

STATES = {MemberState.STABLE: 1, MemberState.UNREVOKED: 2, MemberState.UNRELEASED: 3}
"""For each state of a member, its number in the records. These numbers differ from the numbers in the records of consumer
groups."""
_STATES_READ = {number: state for state, number in STATES.items()}
T = TypeVar("T", current.TaskIds, target.TaskIds)
Ids = TypeVar("Ids")


def partitions_by_subtopology(tasks: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Returns the sorted partitions of these tasks by subtopology id, in the order of the subtopology ids."""
    found: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, []).append(partition)
    return found


def task_ids(made: Callable[..., Ids], tasks: Iterable[tuple[str, int]]) -> list[Ids]:
    """Returns the tasks for a message: for each subtopology an object of the class `made`."""
    return [made(subtopology_id=key, partitions=each) for key, each in partitions_by_subtopology(tasks).items()]


def _metadata(member: StreamsMember) -> Message:
    host_and_port = member.endpoint
    return metadata.StreamsGroupMemberMetadataValue(
        rack_id=member.rack_id, instance_id=member.instance_id, client_id=member.client_id, client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout, topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if host_and_port is None else metadata.Endpoint(host=host_and_port[0], port=host_and_port[1]),
        client_tags=[metadata.KeyValue(key=key, value=tag) for key, tag in sorted(member.tags.items())],
    )  # fmt: skip


def _with_metadata(member: StreamsMember, value: metadata.StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return replace(
        member, rack_id=value.rack_id, instance_id=value.instance_id, client_id=value.client_id,
        rebalance_timeout=value.rebalance_timeout_ms,
        client_host=value.client_host, topology_epoch=value.topology_epoch, process_id=value.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        tags={each.key: each.value for each in value.client_tags},
    )  # fmt: skip


def _current(member: StreamsMember) -> Message:
    assigned, revoking, ids = member.assigned, member.revoking, partial(task_ids, current.TaskIds)
    return current.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=STATES[member.state],
        active_tasks=_since(assigned.active), standby_tasks=ids(assigned.standby), warmup_tasks=ids(assigned.warmup),
        active_tasks_pending_revocation=_since(revoking.active), standby_tasks_pending_revocation=ids(revoking.standby),
        warmup_tasks_pending_revocation=ids(revoking.warmup),
    )  # fmt: skip


def _with_current(member: StreamsMember, value: current.StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    epoch = value.member_epoch
    return replace(
        member, epoch=epoch, previous_epoch=value.previous_member_epoch,
        state=_STATES_READ.get(value.state, MemberState.STABLE),
        assigned=Tasks(_tasks(value.active_tasks, epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)),
        revoking=Tasks(
            _tasks(value.active_tasks_pending_revocation, epoch), _tasks(value.standby_tasks_pending_revocation),
            _tasks(value.warmup_tasks_pending_revocation),
        ),
    )  # fmt: skip


def _target(given: Tasks) -> Message:
    active, standby, warmup = (task_ids(target.TaskIds, tasks) for tasks in given)
    return target.StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def _read_target(value: target.StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(*(_tasks(each) for each in (value.active_tasks, value.standby_tasks, value.warmup_tasks)))


def _since(tasks: Some) -> list[current.TaskIds]:
    found = task_ids(current.TaskIds, tasks)
    for each in found:
        each.assignment_epochs = [tasks[each.subtopology_id, partition] for partition in each.partitions]
    return found


def _tasks(held: Iterable[T], epoch: int = 0) -> dict[tuple[str, int], int]:
    """Returns the tasks, each with the member epoch at which it was assigned. If the record has no such epoch, `epoch` is
    used."""
    found: dict[tuple[str, int], int] = {}
    for each in held:
        epochs = getattr(each, "assignment_epochs", None) or [epoch] * len(each.partitions)
        found.update(zip(((each.subtopology_id, index) for index in each.partitions), epochs, strict=True))
    return found


def topology_record(group_id: str, held: Topology) -> CoordinatorRecord:
    """Returns the record of the topology that the first member sent."""
    return CoordinatorRecord(TOPOLOGY_KEY(group_id=group_id), held.value)


def epoch_fields(valid_topology_epoch: int, configs: Mapping[str, str]) -> dict[str, Any]:
    """Returns those fields in the record of a group's epoch that only streams groups have."""
    held = [group_metadata.LastAssignmentConfig(key=key, value=configured) for key, configured in sorted(configs.items())]
    return {"validated_topology_epoch": valid_topology_epoch, "last_assignment_configs": held}


TOPOLOGY_KEY = topology.StreamsGroupTopologyKey
_EPOCH = OfGroup(group_metadata.StreamsGroupMetadataKey, group_metadata.StreamsGroupMetadataValue)
_ASSIGNMENT = OfGroup(assignment.StreamsGroupTargetAssignmentMetadataKey, assignment.StreamsGroupTargetAssignmentMetadataValue)
FORMAT = Format(
    metadata=OfMember(metadata.StreamsGroupMemberMetadataKey, _metadata, _with_metadata),
    current=OfMember(current.StreamsGroupCurrentMemberAssignmentKey, _current, _with_current),
    target=OfMember(target.StreamsGroupTargetAssignmentMemberKey, _target, _read_target),
    epoch=_EPOCH,
    assignment=_ASSIGNMENT,
    group_keys=(_ASSIGNMENT.key, _EPOCH.key, TOPOLOGY_KEY),
)
