"""Handles long requests in slices, so that the engine can serve other connections between two slices.

A handler that works in slices is a generator (`exchange.Steps`). The first slice runs immediately, so a short request gets its
response without delay. If the request has more slices, it is parked and put into a queue. The engine's driver sets `wake`. The
driver calls `proceed` for each further slice. The driver does the work in `offloads` in a thread, and then calls `resume`. If a
driver (such as a test or the simulator) does not set `wake`, all slices of a request run in one call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import EncodeError, UnwritableText
from kafkawire.frames import encode_response
from wirebroker.apis.exchange import Exchange, Offload, Steps
from wirebroker.requests.effects import Outcome
from wirebroker.requests.parts import own_records
from wirebroker.trace.recorder import told_in


class Unfinished:
    """A request that is between two slices. If work was offloaded, the next slice gets the work's result (`result`) or
    exception (`error`)."""

    __slots__ = ("error", "exchange", "result", "steps")

    def __init__(self, exchange: Exchange, steps: Steps) -> None:
        self.exchange = exchange
        self.steps = steps
        self.result: Any = None
        self.error: BaseException | None = None

    def step(self) -> Offload | None:
        """Run one slice. If the slice asks for work in a thread, returns this work, else None. The last slice raises
        StopIteration with the outcome."""
        result, self.result = self.result, None
        error, self.error = self.error, None
        return self.steps.send(result) if error is None else self.steps.throw(error)

    def do(self, offload: Offload) -> None:
        """Do offloaded work, in any thread. The next slice gets the work's result or exception."""
        try:
            self.result = offload.work()
        except Exception as error:
            self.error = error


class Turns:
    """The requests of one engine that are between two slices."""

    def __init__(self, settled: Callable[[Exchange], bool] = lambda _: True) -> None:
        """`settled` writes down what a slice has changed. If the write fails, `settled` refuses the request and returns
        False."""
        self._settled = settled
        self.wake: Callable[[], None] | None = None
        """Called when a slice is ready to run, or when there is work for a thread. `wake` is None if the driver does not run
        slices."""
        self.waiting: deque[Unfinished] = deque()
        """The requests whose next slice is ready to run, in order."""
        self.offloads: deque[tuple[Unfinished, Offload]] = deque()
        """The pieces of work that are to run in a thread, each with the request that waits for this piece."""
        self._known: set[Unfinished] = set()
        self._running: Unfinished | None = None
        """The request whose slice is running now. A fault may stop the broker during a slice."""

    def begin(self, exchange: Exchange, steps: Steps) -> Message | Outcome:
        """Run the first slice of a request. Returns the request's outcome, or PARKED if there are more slices.

        If a fault rule needs the outcome, all slices run in this call.
        """
        unfinished = Unfinished(exchange, steps)
        try:
            offload = unfinished.step()
            while self.wake is None or (exchange.matches is not None and exchange.matches.needs_outcome):
                if offload is not None:
                    unfinished.do(offload)
                offload = unfinished.step()
        except StopIteration as last:
            outcome: Message | Outcome = last.value
            return outcome
        if not self._settled(exchange):
            steps.close()
            return Outcome.CLOSED
        if exchange.frame is not None and exchange.request is not None:
            own_records(exchange.request)
        exchange.frame = None
        self._known.add(unfinished)
        self._queue(unfinished, offload)
        return Outcome.PARKED

    def go_on(self, exchange: Exchange, steps: Steps) -> None:
        """Continue a parked request with `steps`. If the steps have only one slice, the response is sent now."""
        try:
            outcome = self.begin(exchange, steps)
        except UnwritableText as wrong:
            exchange.cannot_say(wrong)
            return
        if outcome is Outcome.PARKED:
            exchange.park()
        elif not isinstance(outcome, Outcome) and self._settled(exchange):
            exchange.respond(outcome)

    def proceed(self) -> None:
        """Run the next slice of the first request in the queue. Exceptions of the handler are raised."""
        unfinished = self.waiting.popleft()
        self._running = unfinished
        try:
            offload = unfinished.step()
            if unfinished not in self._known:  # the slice has stopped the broker
                unfinished.steps.close()
            elif self._settled(unfinished.exchange):
                self._queue(unfinished, offload)
            else:
                self._known.discard(unfinished)
                unfinished.steps.close()
        except StopIteration as last:
            self._known.discard(unfinished)
            if self._settled(unfinished.exchange):
                self._finish(unfinished.exchange, last.value)
        except UnwritableText as wrong:
            self._known.discard(unfinished)
            unfinished.exchange.cannot_say(wrong)
        except BaseException:
            self._known.discard(unfinished)
            raise
        finally:
            self._running = None

    def resume(self, unfinished: Unfinished) -> None:
        """Continue a request after its offloaded work was done with `Unfinished.do`. Does nothing if the request was dropped
        during the work."""
        if unfinished in self._known:
            self._queue(unfinished, None)

    def drop(self, node_id: int | None = None) -> None:
        """Drop the requests to the broker `node_id`, which has stopped. If `node_id` is None, all brokers have stopped."""
        gone = {each for each in self._known if node_id in (None, each.exchange.node_id)}
        self._known -= gone
        self.waiting = deque(each for each in self.waiting if each not in gone)
        self.offloads = deque(each for each in self.offloads if each[0] not in gone)
        for unfinished in gone - {self._running}:
            unfinished.steps.close()

    def _queue(self, unfinished: Unfinished, offload: Offload | None) -> None:
        if offload is None:
            self.waiting.append(unfinished)
        else:
            self.offloads.append((unfinished, offload))
        if self.wake is not None:
            self.wake()

    def _finish(self, exchange: Exchange, outcome: Message | Outcome) -> None:
        if outcome is Outcome.SILENT:
            exchange.release()
        elif not isinstance(outcome, Outcome):
            unfinished = Unfinished(exchange, _sent(exchange, outcome))
            self._known.add(unfinished)
            self.waiting.appendleft(unfinished)
            self.proceed()
        elif not exchange.alive:  # the request may have begun to wait after its client had left
            exchange.stop_waiting()


def _sent(exchange: Exchange, response: Message) -> Steps:
    """Send the response to a request with several slices. The response is large, so a thread encodes it."""
    if (access := exchange.access) is not None:
        exchange.access = None
        response = yield from access.joined(response)  # type: ignore[assignment]
    passed = exchange.passed(response)
    if passed is None:
        return Outcome.PARKED
    exchange.park()
    try:
        parts = yield Offload(partial(encode_response, exchange.correlation_id, passed, exchange.version))
        if exchange.traced is not None:
            errors, messages = yield Offload(partial(told_in, passed))
            exchange.traced = exchange.traced._replace(errors=errors, messages=messages)
    except EncodeError as wrong:
        exchange.cannot_say(wrong)
    else:
        exchange.send(passed, parts)
    return Outcome.PARKED


def steps_of(outcome: Message | Outcome | Steps) -> Steps:
    """Makes a generator from the result of a handler: an outcome or, if the handler works in slices, a generator. Other
    generators call it as `outcome = yield from steps_of(handler(…))`."""
    if isinstance(outcome, GeneratorType):
        done: Message | Outcome = yield from outcome
        return done
    return outcome  # type: ignore[return-value]
