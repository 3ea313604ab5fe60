"""The errors that a coordinator's client gets when the coordinator's log refuses a record."""

from __future__ import annotations

from kafkawire.errors import ErrorCode

_TRANSLATED = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
RETRY_MS = 500
"""The time in ms after which a coordinator repeats a failed write that one of its timers made (CoordinatorTimerImpl)."""


def translate_error(code: ErrorCode) -> ErrorCode:
    """Translates an error of the coordinator's log to the error that clients get (CoordinatorOperationExceptionHelper,
    TransactionStateManager). Errors that are not in the table stay unchanged.
    """
    return _TRANSLATED.get(code, code)
