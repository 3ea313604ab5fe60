"""ShareAcknowledge, versions 1–2: a share group's member accepts, releases or rejects acquired records (KIP-932).

The request needs a share session, which the member's first ShareFetch began. Epoch −1 ends the session, and releases the
records that are still acquired. From version 2 a member may also renew its locks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache
from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import Pause, pauses
from wirebroker.core.acls import Operation, ResourceType
from wirebroker.core.refusals import DONE, Refusal
from wirebroker.core.share.partition import RENEW, Acknowledged, Broken
from wirebroker.core.share.partitions import PARTITIONS, Settling
from wirebroker.core.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, Wanted

LONGEST_MEMBER_ID = 36
RENEWS_SINCE = 2
NAMES_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
Outcomes = dict[Place, Refusal]
Begun = tuple[Outcomes, list[tuple[Place, Settling]]]


def handle(request: ShareAcknowledgeRequest, exchange: Exchange) -> Steps:
    shares = exchange.engine.shares
    group_id, member_id = request.group_id, request.member_id
    if group_id is None or not is_member_id(member_id):
        return exchange.refused(ErrorCode.INVALID_REQUEST)
    key = (exchange.node_id, group_id, member_id or "")
    epoch = request.share_session_epoch
    code = ErrorCode.INVALID_SHARE_SESSION_EPOCH if epoch == INITIAL_EPOCH else shares.sessions.check(key, epoch)
    if isinstance(code, ErrorCode):
        return exchange.refused(code)
    readable = may_read(exchange)
    if readable is not everything and names_unknown_topic(request, exchange):
        return exchange.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    pause = pauses(PARTITIONS)
    try:
        outcomes, settling = yield from begin(request, exchange, readable, pause)
    except Broken:
        return exchange.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    for each in settling:
        yield from pause()
        finish(each, outcomes, exchange)
    if epoch == FINAL_EPOCH:
        yield from shares.end_session(key, exchange.now, pause)
    settings = settling[0][1].held.settings if settling else shares.settings(group_id)
    response = ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE, acquisition_lock_timeout_ms=settings.limits.lock_ms, responses=[], node_endpoints=[]
    )
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), (error, message) in outcomes.items():
        yield from pause()
        if topic_id not in topics:
            topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[])
        leader, epoch = leader_of((topic_id, index), error, exchange, response.node_endpoints, NodeEndpoint)
        data = PartitionData(
            partition_index=index, error_code=error, error_message=message,
            current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        )  # fmt: skip
        topics[topic_id].partitions.append(data)
    response.responses = list(topics.values())
    return response


def is_member_id(member_id: str | None) -> bool:
    """Tells whether Kafka accepts this text as a member id."""
    return member_id is not None and 0 < len(member_id) <= LONGEST_MEMBER_ID


def leader_of(place: Place, error: int, exchange: Exchange, endpoints: list[Any], kind: type) -> tuple[int, int]:
    """Returns the leader's id and epoch. Both are 0 if the error does not require a leader, or if the partition does not exist.
    Adds the leader's address to the endpoints."""
    if error not in NAMES_LEADER:
        return 0, 0
    topic = exchange.cluster.topics_by_id.get(place[0])
    partition = topic.partition(place[1]) if topic is not None else None
    if partition is None:
        return 0, 0
    exchange.name_endpoint(partition.leader, endpoints, kind)
    return partition.leader, partition.leader_epoch


def names_unknown_topic(request: Any, exchange: Exchange, wanted: Iterable[Wanted] = ()) -> bool:
    """Tells whether a ShareAcknowledge or ShareFetch, or its session (`wanted`), names an unknown topic. With an authorizer,
    Kafka fails on such a request: it asks the authorizer for the names of all topics, and an unknown topic has no name."""
    topics = exchange.cluster.topics_by_id
    unknown = any(each.partitions and each.topic_id not in topics for each in request.topics)
    return unknown or any(each.topic is None for each in wanted)


def may_read(exchange: Exchange) -> Callable[[str], bool]:
    """Returns a function that tells whether the client may read a topic. Without an authorizer, this function is `everything`.
    A refusal is recorded once for each topic."""
    authorizer, connection = exchange.engine.authorizer, exchange.connection
    if not authorizer.on:
        return everything
    return cache(lambda topic: authorizer.may(connection, Operation.READ, ResourceType.TOPIC, topic))


def everything(topic: str) -> bool:
    return True


def begin(request: Any, exchange: Exchange, readable: Callable[[str], bool], pause: Pause) -> Generator[None, Any, Begun]:
    """Check the acknowledgements of a ShareAcknowledge or ShareFetch.

    Returns the results so far, and the writes that are still to be made.

    Raises Broken.
    """
    renews, topics = exchange.version >= RENEWS_SINCE, exchange.cluster.topics_by_id
    outcomes: Outcomes = {}
    asked: dict[Place, list[Acknowledged]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            yield from pause()
            place = (topic.topic_id, partition.partition_index)
            batches = [
                Acknowledged(each.first_offset, each.last_offset, each.acknowledge_types)
                for each in partition.acknowledgement_batches
            ]
            if topic.topic_id not in topics:
                outcomes[place] = Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
            elif not _are_valid(batches, renews, request.is_renew_ack):
                outcomes[place] = Refusal(ErrorCode.INVALID_REQUEST)
            else:
                asked[place] = batches
    for place in list(asked):
        known = topics.get(place[0])
        if known is not None and not readable(known.name):
            outcomes[place] = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            del asked[place]
        elif known is None or known.partition(place[1]) is None:
            outcomes[place] = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            del asked[place]
    if not any(asked.values()):  # if no acknowledgement passed the checks, Kafka omits the other partitions
        return outcomes, []
    return outcomes, (yield from _begin(request, asked, outcomes, exchange, pause))


def _begin(
    request: Any, asked: Mapping[Place, list[Acknowledged]], outcomes: Outcomes, exchange: Exchange,
    pause: Pause,
) -> Generator[None, Any, list[tuple[Place, Settling]]]:  # fmt: skip
    settling = []
    for place, batches in asked.items():
        yield from pause()
        if not batches:
            outcomes[place] = DONE
            continue
        key = (request.group_id, *place)
        found = exchange.engine.shares.acknowledge(key, exchange.node_id, request.member_id, batches, exchange.now)
        if isinstance(found, Refusal):
            outcomes[place] = found
        else:
            settling.append((place, found))
    return settling


def _are_valid(batches: Iterable[Acknowledged], supports_renewal: bool, is_renewal: bool) -> bool:
    """Tells whether Kafka accepts the form of a partition's acknowledgements (KafkaApis.validateAcknowledgementBatches)."""
    before = -1
    for first, last, types in batches:
        if first > last or first < before or not types:
            return False
        if len(types) > 1 and last - first != len(types) - 1:
            return False
        if any(not 0 <= kind <= (RENEW if supports_renewal else RENEW - 1) for kind in types):
            return False
        if RENEW in types and not is_renewal:
            return False
        before = last
    return True


def finish(settled: tuple[Place, Settling], outcomes: Outcomes, exchange: Exchange) -> None:
    """Write the acknowledgements of one partition, after `begin` has checked them."""
    place, settling = settled
    outcomes[place] = exchange.engine.shares.finish(settling, exchange.engine.now) or DONE
