"""DeleteShareGroupOffsets, version 0: deletes the state of topics in a share group without members."""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.core.refusals import DONE, MESSAGES, Refusal


def handle(request: DeleteShareGroupOffsetsRequest, exchange: Exchange) -> Steps:
    groups = exchange.engine.groups
    if error := groups.membership_error(request.group_id, exchange.node_id):
        return exchange.refused(error, MESSAGES.get(error))
    names = [topic.topic_name for topic in request.topics]
    found = yield from groups.shares.states.delete_offsets(request.group_id, names, exchange.now)
    if isinstance(found, Refusal):
        return exchange.refused(*found)
    responses = []
    for name, topic_id, refused in found:
        code, message = refused or DONE
        responses.append(
            DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, error_code=code, error_message=message)
        )
    return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses)
