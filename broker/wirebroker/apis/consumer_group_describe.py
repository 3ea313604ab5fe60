"""ConsumerGroupDescribe, versions 0–1: the members of consumer groups (KIP-848), what they have and should have.

From version 1 it is told which protocol a member speaks. Classic groups are not found here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.errors import ErrorCode
from kafkawire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from wirebroker.apis.describe_groups import ALL_GROUP_OPERATIONS
from wirebroker.core.groups.assignors import NOTHING
from wirebroker.core.groups.consumer import ConsumerGroup
from wirebroker.core.groups.members import ConsumerMember
from wirebroker.exchange import Exchange

CLASSIC, CONSUMER = 0, 1


def handle(request: ConsumerGroupDescribeRequest, exchange: Exchange) -> ConsumerGroupDescribeResponse:
    """Describe each group."""
    if not exchange.engine.groups.consumers.enabled:
        code = ErrorCode.UNSUPPORTED_VERSION
        return ConsumerGroupDescribeResponse(groups=[_refused(each, code) for each in request.group_ids])
    # Kafka answers at once that an empty id is none, and asks its coordinators for the others.
    described = [_describe(group_id, exchange) for group_id in sorted(request.group_ids, key=bool)]
    for group in described:
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = ALL_GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=described)


def _refused(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code, error_message=message, group_id=group_id, group_state="", group_epoch=0, assignment_epoch=0,
        assignor_name="", members=[],
    )  # fmt: skip


def _describe(group_id: str, exchange: Exchange) -> DescribedGroup:
    groups = exchange.engine.groups
    if fault := groups.membership_fault(group_id, exchange.node_id):
        return _refused(group_id, fault)
    group = groups.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        why = "not found" if group is None else "is not a consumer group"
        return _refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or groups.consumers.default_assignor(),
        members=[_member(group.members[member_id], group, exchange) for member_id in group.in_order()],
    )


def _member(member: ConsumerMember, group: ConsumerGroup, exchange: Exchange) -> Member:
    holds: dict[bytes, list[int]] = {}
    for owned in (member.assigned, member.revoking):
        for topic_id, indexes in owned.items():
            holds.setdefault(topic_id, []).extend(indexes)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(holds, exchange),
        target_assignment=_assignment(group.targets.get(member.member_id, NOTHING), exchange),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(held: Mapping[bytes, Iterable[int]], exchange: Exchange) -> Assignment:
    """Topics that were deleted are left out."""
    known = exchange.cluster.topics_by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=known[topic_id].name, partitions=sorted(indexes))
            for topic_id, indexes in held.items()
            if topic_id in known
        ]
    )
