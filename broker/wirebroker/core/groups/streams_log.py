"""The records of streams groups (KIP-1071) in __consumer_offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from wirebroker.core.groups.modern_log import ModernRecords
from wirebroker.core.groups.modern_member import MemberState
from wirebroker.core.groups.streams_member import Some, StreamsMember, Tasks
from wirebroker.core.groups.streams_topology import Topology

STATES = {MemberState.STABLE: 1, MemberState.UNREVOKED: 2, MemberState.UNRELEASED: 3}
"""The numbers of a member's states in the records. They differ from those in the records of consumer groups."""
_STATES_READ = {number: state for state, number in STATES.items()}
T = TypeVar("T", current.TaskIds, target.TaskIds)


def partitions_by_subtopology(tasks: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Returns the sorted partitions of these tasks by subtopology id, in the order of the subtopology ids."""
    found: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, []).append(partition)
    return found


class StreamsRecords(ModernRecords[StreamsMember, Tasks]):
    """Writes and reads the records of streams groups."""

    metadata_key = metadata.StreamsGroupMemberMetadataKey
    current_key = current.StreamsGroupCurrentMemberAssignmentKey
    target_key = target.StreamsGroupTargetAssignmentMemberKey
    epoch_key = group_metadata.StreamsGroupMetadataKey
    assignment_key = assignment.StreamsGroupTargetAssignmentMetadataKey
    assignment_value = assignment.StreamsGroupTargetAssignmentMetadataValue
    topology_key = topology.StreamsGroupTopologyKey
    group_keys = (assignment_key, epoch_key, topology_key)

    def _metadata(self, member: StreamsMember) -> Message:
        host_and_port = member.endpoint
        return metadata.StreamsGroupMemberMetadataValue(
            rack_id=member.rack_id, instance_id=member.instance_id, client_id=member.client_id, client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout, topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if host_and_port is None else metadata.Endpoint(host=host_and_port[0], port=host_and_port[1]),
            client_tags=[metadata.KeyValue(key=key, value=tag) for key, tag in sorted(member.tags.items())],
        )  # fmt: skip

    def _current(self, member: StreamsMember) -> Message:
        assigned, revoking = member.assigned, member.revoking
        return current.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=STATES[member.state],
            active_tasks=_since(assigned.active), standby_tasks=_current(assigned.standby),
            warmup_tasks=_current(assigned.warmup), active_tasks_pending_revocation=_since(revoking.active),
            standby_tasks_pending_revocation=_current(revoking.standby),
            warmup_tasks_pending_revocation=_current(revoking.warmup),
        )  # fmt: skip

    def _target(self, given: Tasks) -> Message:
        active, standby, warmup = (
            [target.TaskIds(subtopology_id=key, partitions=each) for key, each in partitions_by_subtopology(tasks).items()]
            for tasks in given
        )
        return target.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=active, standby_tasks=standby, warmup_tasks=warmup
        )  # fmt: skip

    def topology(self, group_id: str, held: Topology) -> CoordinatorRecord:
        """Returns the topology that the first member sent."""
        return CoordinatorRecord(self.topology_key(group_id=group_id), held.value)

    def epoch_record(
        self, group_id: str, epoch: int, hashed: int, valid_topology_epoch: int, configs: Mapping[str, str]
    ) -> CoordinatorRecord:  # fmt: skip
        """Returns a group's epoch, with the hash of its topics."""
        value = group_metadata.StreamsGroupMetadataValue(
            epoch=epoch, metadata_hash=hashed, validated_topology_epoch=valid_topology_epoch,
            last_assignment_configs=[
                group_metadata.LastAssignmentConfig(key=key, value=configured) for key, configured in sorted(configs.items())
            ],
        )  # fmt: skip
        return self.epoch(group_id, value)

    def with_metadata(self, member: StreamsMember, value: metadata.StreamsGroupMemberMetadataValue) -> StreamsMember:
        """Returns the member with the fields that it has sent."""
        endpoint = value.user_endpoint
        return replace(
            member, rack_id=value.rack_id, instance_id=value.instance_id, client_id=value.client_id,
            rebalance_timeout=value.rebalance_timeout_ms,
            client_host=value.client_host, topology_epoch=value.topology_epoch, process_id=value.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            tags={each.key: each.value for each in value.client_tags},
        )  # fmt: skip

    def with_assignment(
        self, member: StreamsMember, value: current.StreamsGroupCurrentMemberAssignmentValue
    ) -> StreamsMember:  # fmt: skip
        """Returns the member with its epochs and tasks."""
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

    def read_target(self, value: target.StreamsGroupTargetAssignmentMemberValue) -> Tasks:
        """Returns a member's target."""
        return Tasks(*(_tasks(each) for each in (value.active_tasks, value.standby_tasks, value.warmup_tasks)))


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


def _tasks(held: Iterable[T], epoch: int = 0) -> dict[tuple[str, int], int]:
    """Returns the tasks, each with the member epoch at which it was assigned. If the record has no such epoch, `epoch` is
    used."""
    found: dict[tuple[str, int], int] = {}
    for each in held:
        epochs = getattr(each, "assignment_epochs", None) or [epoch] * len(each.partitions)
        found.update(zip(((each.subtopology_id, index) for index in each.partitions), epochs, strict=True))
    return found
