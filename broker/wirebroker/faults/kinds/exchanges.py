"""**Exchanges**, one request and its response:"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from wirebroker.common.suggestions import nearest
from wirebroker.faults.acts import Injection
from wirebroker.faults.forms import FaultError
from wirebroker.faults.rules import InjectionPoint, Positive, Rule
from wirebroker.requests.effects import Outcome
from wirebroker.requests.errors import overwrite
from wirebroker.requests.errors import throttle as set_throttle_time
from wirebroker.requests.facts import Facts

if TYPE_CHECKING:
    from kafkawire.names import ErrorName
else:
    ErrorName = str  # the name may have upper or lower case

__all__ = ["answer", "delay", "disconnect", "error", "lose_ack", "lose_request", "observe", "reorder", "throttle"]
__tracebackhide__ = True  # pytest shows the caller's line

logger = logging.getLogger("wirebroker")

Then = Literal["disconnect", "silence"]
Ms = Annotated[int, Meta(ge=1, extra={"unit": "ms"})]


class lose_request(Rule):
    """The request is dropped before it is handled. Then the connection is closed (`then="disconnect"`), or nothing more is
    sent on the connection (`then="silence"`)."""

    then: Then = "disconnect"

    example = 'faults.lose_request(api="Produce", nth=3)'

    def before(self, injection: Injection) -> Outcome:
        if self.then == "disconnect":
            return injection.exchange.close("a fault lost a request")
        injection.exchange.connection.silence()
        return Outcome.SILENT


class lose_ack(Rule):
    """The request is handled, but its response is not sent. Then the connection is closed (`then="disconnect"`), or nothing
    more is sent on the connection (`then="silence"`)."""

    then: Then = "disconnect"

    example = 'faults.lose_ack(api="Produce", topic="orders", nth=4)'
    acts_at: ClassVar[InjectionPoint] = InjectionPoint.RESPONSE

    def on_response(self, injection: Injection, response: Message) -> bool:
        return injection.lose_response(close=self.then == "disconnect")


class error(Rule):
    """The response has the error `code` (a number or a name). Without `after`, the request is not handled. With `after`, the
    request is handled, and the error replaces the result."""

    code: Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)] | ErrorName
    after: bool = False

    example = 'faults.error("NOT_LEADER_OR_FOLLOWER", partition=1, times=3)'

    def check_options(self) -> None:
        if isinstance(self.code, int):
            self.code = int(self.code)
        elif (name := self.code.upper()) in ErrorCode.__members__:
            self.code = int(ErrorCode[name])
        else:
            raise FaultError("code", f"error: Kafka has no error {self.code!r}{nearest(name, ErrorCode.__members__)}")

    def before(self, injection: Injection) -> Message | Outcome:
        return injection.refuse(int(self.code), injection.only)

    def on_response(self, injection: Injection, response: Message) -> bool:
        overwrite(response, int(self.code), injection.only, injection.exchange, injection.facts.partitions)
        return True


class delay(Rule):
    """The request is handled `ms` milliseconds later, by the broker's clock. With `after`, the request is handled immediately,
    and the response is sent `ms` milliseconds later."""

    ms: Ms
    after: bool = False

    example = 'faults.delay(200, api="Fetch", every=10)'

    def before(self, injection: Injection) -> Outcome:
        return injection.handle_later(self.ms)

    def on_response(self, injection: Injection, response: Message) -> bool:
        injection.respond_later(response, self.ms)
        return False


class disconnect(Rule):
    """The connection is closed before the request is handled. With `after`, the request is handled, and the connection is
    closed without a response."""

    after: bool = False

    example = 'faults.disconnect(after=True, api="EndTxn")'

    def before(self, injection: Injection) -> Outcome:
        return injection.exchange.close(f"the fault {self}")

    def on_response(self, injection: Injection, response: Message) -> bool:
        return injection.lose_response(close=True)


class throttle(Rule):
    """The field throttle_time_ms of the response tells the client to wait for `ms` milliseconds."""

    ms: Annotated[int, Meta(ge=1, le=2**31 - 1, extra={"unit": "ms"})]

    example = 'faults.throttle(500, client_id="till")'
    acts_at: ClassVar[InjectionPoint] = InjectionPoint.RESPONSE
    may_miss: ClassVar[bool] = True

    def on_response(self, injection: Injection, response: Message) -> bool:
        injection.report(set_throttle_time(response, injection.exchange.version, self.ms))
        return True


class reorder(Rule):
    """The request waits until `others` requests of other connections have been handled."""

    others: Positive = 1

    example = 'faults.reorder(2, api="Produce", nth=1)'

    def before(self, injection: Injection) -> Outcome:
        return injection.handle_after_others(self.others)


class observe(Rule):
    """Nothing happens. The rule only counts the requests, so that a test can wait for a request. The trace has no row for this
    rule."""

    example = 'faults.observe(api="Produce", topic="orders")'
    may_miss: ClassVar[bool] = True  # no row in the trace, because a reader would take the row for a cause

    def before(self, injection: Injection) -> Message:
        return injection.request


class answer(Rule):
    """A Python function gets the request's facts and the request, and may return the response. If the function raises an
    exception, the exception is logged and the connection is closed."""

    answerer: Callable[[Facts, Message], Message | None]

    example = 'faults.answer(lambda facts, request: None, api="Metadata")'
    in_files: ClassVar[bool] = False

    def before(self, injection: Injection) -> Message | Outcome:
        try:
            response = self.answerer(injection.facts, injection.request)
        except Exception:
            logger.exception("the function of the rule %s raised an exception; the connection is closed", self)
            return injection.exchange.close("the function of a fault raised an exception; see the log")
        return injection.request if response is None else injection.respond(response)
