"""Follows fetch sessions and share sessions, and checks the epochs in the requests of each session."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding
from kafkawire.errors import ErrorCode

if TYPE_CHECKING:
    from simulation.whole.world import Sent, World

INITIAL, FINAL = 0, -1
WRONG = (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.INVALID_SHARE_SESSION_EPOCH)


class Sessions:
    """The next epoch of each session according to the responses. If several requests of a session are under way at the same
    time, they are not judged, because their order is unknown."""

    def __init__(self) -> None:
        self._next: dict[Any, int] = {}
        self._waiting: defaultdict[Any, set[int]] = defaultdict(set)
        """The numbers of the requests that have no response yet."""
        self.mixed: set[Any] = set()
        """The sessions that had several requests at the same time."""
        self._unordered: set[int] = set()
        self._told: set[tuple[int, int]] = set()
        """The fetch sessions that clients know, by broker and session id."""
        self._over: set[tuple[int, int]] = set()
        """The fetch sessions that clients have ended since the last call of `look`."""
        self._is_told = True
        """Tells whether each Fetch has got its response."""

    def look(self, world: World) -> None:
        """Checks that brokers keep no fetch session that no client knows, or that its client has ended. Raises Finding."""
        waits = any(sent.api == "Fetch" for link in world.links.values() for sent in link.awaited)
        if self._is_told and not waits and (unknown := world.engine.fetch_sessions._sessions.keys() - self._told):
            raise Finding("a broker keeps a fetch session that no client knows", str(unknown))
        if left := self._over & world.engine.fetch_sessions._sessions.keys():
            raise Finding("a broker keeps a fetch session that its client has ended", str(left))
        self._over.clear()

    def following(self, key: Any) -> int:
        """Returns the epoch that a session expects, or 0."""
        return self._next.get(key, 0)

    def node_of(self, request: Any) -> int | None:
        """Returns the broker that has the session of a request, or None."""
        names = ("session_id",), ("group_id", "member_id")
        named = [tuple(getattr(request, name, None) for name in each) for each in names]
        epoch = getattr(request, "session_epoch", getattr(request, "share_session_epoch", INITIAL))
        return next((key[0] for key in self._next if key[1:] in named), None) if epoch != INITIAL else None

    def sent(self, sent: Sent) -> None:
        """Remember that a request is sent."""
        if (key := _key(sent, None)) is not None:
            if waiting := self._waiting[key]:
                self._unordered |= {*waiting, sent.number}
                self.mixed.add(key)
            waiting.add(sent.number)

    def lost(self, sent: Sent) -> None:
        """Remember that a request gets no response, or that its response cannot be judged."""
        self._is_told = self._is_told and sent.api != "Fetch"
        if (key := _key(sent, None)) is not None:
            self._waiting[key].discard(sent.number)
            self._next.pop(key, None)

    def answered(self, sent: Sent, response: Any) -> None:
        """Note a response. Raises Finding."""
        if (asked := _key(sent, None)) is None:
            return
        self._waiting[asked].discard(sent.number)
        key, epoch = _key(sent, response), _epoch(sent)
        if sent.api == "Fetch" and response.session_id:
            self._told.add((sent.node, response.session_id))
        if sent.api == "Fetch" and sent.request.session_id and epoch in (INITIAL, FINAL) and not response.error_code:
            self._over.add((sent.node, sent.request.session_id))
        expected = self._next.get(key, 0)
        ordered = sent.number not in self._unordered
        # Kafka does not tell a throttled client that its epoch is wrong: the response has no session and no partitions.
        hides = sent.api == "Fetch" and response.throttle_time_ms and not response.session_id
        if epoch not in (INITIAL, FINAL) and expected and ordered and not hides:
            if not response.error_code and epoch != expected:
                raise Finding(f"{sent.api}: a session accepts a wrong epoch", f"{key}: {epoch}, expected {expected}")
            if response.error_code in WRONG and epoch == expected:
                raise Finding(f"{sent.api}: a session refuses its next epoch", f"{key}: {epoch}")
        if response.error_code or epoch == FINAL or not ordered:
            self._next.pop(key, None)
        else:
            self._next[key] = epoch + 1


def _key(sent: Sent, response: Any) -> Any:
    """Returns the key of a request's session, or None if the request has no session."""
    request = sent.request
    if sent.api == "Fetch" and sent.version >= 7:
        return sent.node, request.session_id or (f"of request {sent.number}" if response is None else response.session_id)
    if sent.api in ("ShareFetch", "ShareAcknowledge"):
        return sent.node, request.group_id, request.member_id
    return None


def _epoch(sent: Sent) -> int:
    epoch: int = sent.request.session_epoch if sent.api == "Fetch" else sent.request.share_session_epoch
    return epoch
