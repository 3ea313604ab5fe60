"""Follows the sessions of fetches and of share groups, and checks that each request has the epoch that its session expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding
from kafkawire.errors import ErrorCode

if TYPE_CHECKING:
    from simulation.whole.world import Sent

INITIAL, FINAL = 0, -1
WRONG = (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.INVALID_SHARE_SESSION_EPOCH)


class Sessions:
    """The next epoch of each session, as far as responses tell."""

    def __init__(self) -> None:
        self._next: dict[Any, tuple[int, int]] = {}
        """The number of the latest request that was answered, and the epoch after it."""

    def answered(self, sent: Sent, response: Any) -> None:
        """Note a response. Raises Finding."""
        request = sent.request
        if sent.api == "Fetch" and sent.version >= 7:
            key, epoch = (sent.node, request.session_id or response.session_id), request.session_epoch
        elif sent.api in ("ShareFetch", "ShareAcknowledge"):
            key, epoch = (sent.node, request.group_id, request.member_id), request.share_session_epoch
        else:
            return
        latest, expected = self._next.get(key, (-1, -1))
        if sent.number < latest:
            return  # a later request was answered first
        if epoch not in (INITIAL, FINAL) and expected > 0:
            if not response.error_code and epoch != expected:
                raise Finding(f"{sent.api}: a session accepts a wrong epoch", f"{key}: {epoch}, and not {expected}")
            if response.error_code in WRONG and epoch == expected:
                raise Finding(f"{sent.api}: a session refuses its next epoch", f"{key}: {epoch}")
        if response.error_code or epoch == FINAL:
            self._next.pop(key, None)
        else:
            self._next[key] = sent.number, epoch + 1
