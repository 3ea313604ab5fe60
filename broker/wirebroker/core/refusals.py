"""The refusal of a request, and the refusals that several APIs share."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.errors import ErrorCode
from kafkawire.primitives import ZERO_UUID


class Refusal(NamedTuple):
    """An error, with Kafka's message."""

    code: ErrorCode
    message: str | None = None


MESSAGES = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
}
"""Kafka's own messages for errors, which few responses have."""
MOST_RECORDS = 10_000
"""The largest number of records that Kafka's controller writes for one request (QuorumController.MAX_RECORDS_PER_USER_OP)."""
TOO_LARGE = Refusal(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
"""For a request that needs more records."""


def voter_refusal(verb: str, cluster_id: str | None, own: str, voter_id: int, directory_id: bytes, level: int) -> Refusal:
    """Why a voter cannot be added or removed: something is wrong, or the quorum is static (kraft.version 0); else NONE."""
    if cluster_id not in (None, own):
        message = f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"'
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    if voter_id < 0 or directory_id == ZERO_UUID:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{verb.capitalize()} voter request didn't include a valid voter")
    if level:
        return Refusal(ErrorCode.NONE)
    gerund = f"{verb.removesuffix('e')}ing"
    message = f"Cluster doesn't support {gerund} voter because the kraft.version feature is 0"
    return Refusal(ErrorCode.UNSUPPORTED_VERSION, message)
