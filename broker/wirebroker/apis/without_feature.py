"""The response to a request whose API belongs to a feature at level 0: UNSUPPORTED_VERSION, as in KafkaApis."""

from __future__ import annotations

from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.registry import response_class
from wirebroker.apis.exchange import Exchange
from wirebroker.requests.errors import refuse


def handle(request: Message, exchange: Exchange) -> Message:
    """Refuse it: as a whole where the response has an error of its own, else for each group."""
    made: Any = response_class(exchange.api_key)
    names = {field.name for field in made.__wire__}
    if "error_code" in names:
        response = made(error_code=ErrorCode.UNSUPPORTED_VERSION)
        if made.__name__ in ("AlterShareGroupOffsetsResponse", "DeleteShareGroupOffsetsResponse"):
            response.error_message = "The version of API is not supported."
        return response  # type: ignore[no-any-return]
    by_group: Any = refuse(request, ErrorCode.UNSUPPORTED_VERSION, exchange)
    for group in by_group.groups:
        group.error_code = ErrorCode.UNSUPPORTED_VERSION
        if hasattr(group, "topics"):
            group.topics = []
    return by_group  # type: ignore[no-any-return]
