"""ShareGroupDescribe, version 1: the members of share groups, with their assignments. Groups of other types are not found."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from wirebroker.apis.describe_groups import all_group_operations
from wirebroker.apis.described import NoGroup, find, refused
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import IDS, MEMBER, pauses, weighted_pauses
from wirebroker.core.groups.share_group import ShareGroup, ShareMember
from wirebroker.core.groups.share_heartbeats import ASSIGNOR
from wirebroker.core.refusals import MESSAGES


def handle(request: ShareGroupDescribeRequest, exchange: Exchange) -> Steps:
    pause_for_id, pause = pauses(IDS), weighted_pauses()
    described = []
    for group_id in sorted(request.group_ids, key=bool):  # as in Kafka, an empty id is refused first
        yield from pause_for_id()
        group, response = _describe(group_id, exchange)
        if request.include_authorized_operations and not response.error_code:
            response.authorized_operations = all_group_operations(exchange)
        for member in list(group.members.values()) if group is not None else ():
            yield from pause(MEMBER + len(member.topics) + len(member.assigned))
            response.members.append(_member(member, exchange))
        described.append(response)
    return ShareGroupDescribeResponse(groups=described)


def _describe(group_id: str, exchange: Exchange) -> tuple[ShareGroup | None, DescribedGroup]:
    """Returns the group, or None if it is not found, and the group's part of the response, still without members."""
    group = find(group_id, ShareGroup, exchange)
    if isinstance(group, NoGroup):
        if group_id and group.message is None:
            group = NoGroup(group.code, MESSAGES.get(group.code))
        return None, refused(DescribedGroup, group_id, group, assignor_name="")
    response = DescribedGroup(
        error_code=ErrorCode.NONE, group_id=group_id, group_state=group.state_name, group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch, assignor_name=ASSIGNOR, members=[],
    )  # fmt: skip
    return group, response


def _member(member: ShareMember, exchange: Exchange) -> Member:
    known = exchange.cluster.topics_by_id
    held = [
        TopicPartitions(topic_id=topic_id, topic_name=known[topic_id].name, partitions=list(indexes))
        for topic_id, indexes in member.assigned.items()
        if topic_id in known
    ]
    return Member(
        member_id=member.member_id, rack_id=member.rack_id, member_epoch=member.epoch, client_id=member.client_id,
        client_host=member.client_host, subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(topic_partitions=held),
    )  # fmt: skip
