"""What a client is told when the log behind a coordinator refuses a record."""

from __future__ import annotations

from kafkawire.errors import ErrorCode

_TOLD_AS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
RETRY_MS = 500
"""How long after a timer of a coordinator could not write it is tried again (CoordinatorTimerImpl)."""


def told_as(code: ErrorCode) -> ErrorCode:
    """The error as the coordinator's client is told it (CoordinatorOperationExceptionHelper, TransactionStateManager).

    Other errors are told as they are.
    """
    return _TOLD_AS.get(code, code)
