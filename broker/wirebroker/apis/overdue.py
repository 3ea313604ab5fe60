"""Requests that are overdue when the controller gets them, and so are not carried out.

The field timeout_ms limits the time of the controller. If it is 0 or negative, the time is already over: every part is
answered with REQUEST_TIMED_OUT, and nothing is checked (QuorumController.appendWriteEvent; ControllerRequestContext).
"""

from __future__ import annotations

from typing import TypeVar

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from wirebroker.exchange import Exchange

M = TypeVar("M", bound=Message)


def timed_out(request: Message, exchange: Exchange, answer: type[M]) -> M:
    """The answer to an overdue request."""
    from wirebroker.requests.errors import refuse

    response = refuse(request, ErrorCode.REQUEST_TIMED_OUT, exchange)
    assert isinstance(response, answer)
    for part in (response, *getattr(response, "topics", ())):
        if hasattr(part, "error_message"):
            part.error_message = None
    if hasattr(response, "error_code"):
        response.error_code = ErrorCode.REQUEST_TIMED_OUT
    return response
