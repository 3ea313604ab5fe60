"""A request that waits until partitions reach a condition (Kafka's DelayedOperation)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkawire.declare import Message
from wirebroker.apis.exchange import Exchange
from wirebroker.core.partition import Partition
from wirebroker.requests.effects import Outcome


class Delayed:
    """Sends `_response()` once `is_complete()` is true after a change of a partition, or the timeout is over."""

    def __init__(
        self, exchange: Exchange, partitions: Iterable[Partition], is_complete: Callable[[], bool],
        response: Callable[[], Message],
    ) -> None:  # fmt: skip
        self._exchange = exchange
        self._partitions = list(partitions)
        self._is_complete = is_complete
        self._response = response

    def wait(self, timeout_ms: int) -> Message | Outcome:
        """Returns the response if it is complete; otherwise parks the request for at most `timeout_ms`."""
        if self._is_complete():
            return self._response()
        self._timer = self._exchange.cluster.timers.at(self._exchange.now + timeout_ms, self._finish)
        for partition in self._partitions:
            partition.waiting[self._changed] = None
        self._exchange.abandon = self._leave
        return Outcome.PARKED

    def _changed(self, partition: Partition, now: int) -> None:
        if self._changed in partition.waiting and (not self._exchange.alive or self._is_complete()):
            self._finish(now)

    def _leave(self) -> None:
        self._exchange.abandon = None
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiting.pop(self._changed, None)

    def _finish(self, now: int) -> None:
        self._leave()
        if self._exchange.alive:
            self._exchange.respond(self._response())
