"""The refusal of a request, and the refusals that several APIs share."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.errors import ErrorCode


class Refusal(NamedTuple):
    """An error code, with Kafka's message if the response has one."""

    code: ErrorCode
    message: str | None = None


DONE = Refusal(ErrorCode.NONE)
"""The result of a request, or of a part of a request, that was not refused."""
UNKNOWN_PARTITION = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
"""The refusal of a topic or partition that does not exist."""
MESSAGES = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
}
"""Kafka's default messages for these error codes. Only a few APIs have a field for an error message in their responses."""
MOST_RECORDS = 10_000
"""The largest number of records that Kafka's controller writes for one request (QuorumController.MAX_RECORDS_PER_USER_OP)."""
TOO_LARGE = Refusal(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
"""The refusal of a request for which Kafka's controller would have to write more than MOST_RECORDS records."""
