"""A request that waits until its partitions meet a condition (Kafka's DelayedOperation)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from wirebroker.apis.exchange import Exchange
from wirebroker.core.leadership import leader_error
from wirebroker.core.partition import Partition
from wirebroker.requests.effects import Outcome


class Delayed:
    """Sends the response when every part of `awaited` has ended its wait, or when the timeout is over. A part waits for a
    change of its `partition`."""

    def __init__(
        self, exchange: Exchange, awaited: Sequence[Any], is_over: Callable[[Any, ErrorCode], bool], response: Message
    ) -> None:
        """`is_over` tells whether the wait of a part has ended. The second argument of `is_over` is an error if the broker no
        longer leads the partition."""
        self._exchange = exchange
        self._left = self._awaited = awaited
        self._is_over = is_over
        self._response = response

    def wait(self, timeout_ms: int) -> Message | Outcome:
        """Returns the response if it is complete; otherwise parks the request for at most `timeout_ms`."""
        if self._is_complete():
            return self._response
        self._timer = self._exchange.cluster.timers.at(self._exchange.now + timeout_ms, self._finish)
        for each in self._awaited:
            each.partition.waiting[self._changed] = None
        self._exchange.abandon = self._leave
        return Outcome.PARKED

    def _is_complete(self) -> bool:
        self._left = [each for each in self._left if not self._is_over(each, self._error(each.partition))]
        return not self._left

    def _error(self, partition: Partition) -> ErrorCode:
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition.deleted else ErrorCode.NONE
        return gone or leader_error(partition, self._exchange.node_id)

    def _changed(self, partition: Partition, now: int) -> None:
        if self._changed in partition.waiting and (not self._exchange.alive or self._is_complete()):
            self._finish(now)

    def _leave(self) -> None:
        self._exchange.abandon = None
        self._timer.cancel()
        for each in self._awaited:
            each.partition.waiting.pop(self._changed, None)

    def _finish(self, now: int) -> None:
        self._leave()
        if self._exchange.alive:
            self._exchange.respond(self._response)
