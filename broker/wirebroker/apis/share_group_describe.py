"""ShareGroupDescribe, version 1: the members of share groups, with their assignments. Groups of other types are not found."""

from __future__ import annotations

from kafkawire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from wirebroker.apis.described import Slices, described
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import MEMBER, weighted_pauses
from wirebroker.core.groups.share_group import ShareGroup, ShareMember
from wirebroker.core.groups.share_heartbeats import ASSIGNOR
from wirebroker.core.refusals import MESSAGES


def handle(request: ShareGroupDescribeRequest, exchange: Exchange) -> Steps:
    pause = weighted_pauses()

    def fill(group: ShareGroup, entry: DescribedGroup) -> Slices:
        entry.assignor_name = ASSIGNOR
        for member in list(group.members.values()):
            yield from pause(MEMBER + len(member.topics) + len(member.assigned))
            entry.members.append(_member(member, exchange))

    entries = yield from described(DescribedGroup, ShareGroup, fill, request, exchange, MESSAGES)
    return ShareGroupDescribeResponse(groups=entries)


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
