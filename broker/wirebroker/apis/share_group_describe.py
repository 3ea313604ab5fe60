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
from wirebroker.apis.described import describe
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
        group, response = describe(DescribedGroup, group_id, ShareGroup, request, exchange, assignor_name="")
        if group is not None:
            response.assignor_name = ASSIGNOR
        elif group_id and response.error_message is None:
            response.error_message = MESSAGES.get(ErrorCode(response.error_code))
        for member in list(group.members.values()) if group is not None else ():
            yield from pause(MEMBER + len(member.topics) + len(member.assigned))
            response.members.append(_member(member, exchange))
        described.append(response)
    return ShareGroupDescribeResponse(groups=described)


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
