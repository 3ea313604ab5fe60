"""Overdue requests: the controller does not carry out a request that arrives after its timeout is over.

The field timeout_ms limits the time in which the controller may carry out the request. With a timeout of 0 or less every part
of the request gets REQUEST_TIMED_OUT, and nothing is checked (QuorumController.appendWriteEvent; ControllerRequestContext).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING

from kafkawire.declare import Message, Struct
from kafkawire.entities import parts
from kafkawire.errors import ErrorCode
from wirebroker.apis.exchange import Exchange
from wirebroker.common.slices import pauses

if TYPE_CHECKING:
    from kafkawire.messages.create_partitions import CreatePartitionsRequest
    from kafkawire.messages.create_topics import CreateTopicsRequest


def _with_parts(struct: Struct) -> Iterator[Struct]:
    yield struct
    for part in parts(struct):
        yield from _with_parts(part)


def is_overdue(timeout_ms: int, topics: Iterable[str | bytes | None]) -> bool:
    """Tells whether a request is overdue. `topics` are the names or the ids of the topics in the request. Topics that are named
    twice or have no name (None) do not reach the controller, so a request with only such topics is not overdue."""
    return timeout_ms <= 0 and any(times == 1 for key, times in Counter(topics).items() if key is not None)


def is_late(request: CreateTopicsRequest | CreatePartitionsRequest, exchange: Exchange) -> bool:
    """Tells whether the controller refuses the whole request, because the request is overdue."""
    zookeeper = exchange.cluster.configs.release.has_zookeeper
    return not zookeeper and is_overdue(request.timeout_ms, [topic.name for topic in request.topics])


def timed_out(request: Message, exchange: Exchange) -> Generator[None, None, Message]:
    """Makes the response to an overdue request, in slices."""
    from wirebroker.requests.errors import refuse_in_slices

    pause = pauses()
    response = yield from refuse_in_slices(request, ErrorCode.REQUEST_TIMED_OUT, exchange, pause)
    for part in _with_parts(response):
        yield from pause()
        if hasattr(part, "error_message"):
            part.error_message = None
    if hasattr(response, "error_code"):
        response.error_code = ErrorCode.REQUEST_TIMED_OUT
    return response
