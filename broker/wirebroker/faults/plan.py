"""The rules that are loaded, and what they do to each request on its way through the engine.

With no rule loaded the engine does not come here. A request meets the rules before it is handled, in the order in which
they were added; the first that strikes decides whether it is handled at all. What is to happen to its answer is kept
beside the exchange (`Exchange.struck`) and happens when the answer is made, at once or later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkawire.declare import Message
from kafkawire.messages.produce import ProduceRequest, ProduceResponse
from wirebroker.exchange import Exchange, Outcome
from wirebroker.faults.facts import Facts, Where, facts_of
from wirebroker.faults.refusals import READING, join, overwrite, own_records, refuse, without
from wirebroker.faults.rules import Rule, partitions_of

if TYPE_CHECKING:
    from wirebroker.engine import Engine


@dataclass(slots=True)
class Struck:
    """What the rules want of one request's answer."""

    facts: Facts
    after: list[tuple[Rule, Where | None]] = field(default_factory=list)
    refused: ProduceResponse | None = None
    """The answer to the partitions of a Produce that were not handled."""
    delayed: bool = False


@dataclass(slots=True, eq=False)
class _Held:
    """A request that waits for others to be handled first."""

    others: int
    connection: int
    go_on: Callable[[int], None]


class FaultPlan:
    """The rules of one engine. `seed` makes what is left to chance the same each time."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.seed = seed
        self.rules: list[Rule] = []
        self._engine = engine
        self._random = random.Random(seed)
        self._held: list[_Held] = []

    def reseed(self, seed: int) -> None:
        """Draw what is left to chance from this seed, from the next request on."""
        self.seed = seed
        self._random = random.Random(seed)

    def add(self, rule: Rule) -> Rule:
        """Load a rule; it strikes from the next request on."""
        self.rules.append(rule)
        self._engine.faults = self
        return rule

    def remove(self, rule: Rule) -> None:
        """Unload a rule; harmless if it is not loaded."""
        if rule in self.rules:
            self.rules.remove(rule)
        self._engine.faults = self if self.rules else None

    def clear(self) -> None:
        """Unload all rules. Requests that a rule holds back go on."""
        self.rules.clear()
        self._engine.faults = None
        held, self._held = self._held, []
        for each in held:
            each.go_on(0)

    # Before

    def receive(self, request: Message, exchange: Exchange) -> None:
        """A request has arrived: let the rules at it, and handle it unless one of them prevents that."""
        facts = facts_of(request, exchange)
        struck = Struck(facts)
        exchange.struck = struck
        for rule, only in list(self._strikes(facts)):
            self._engine.trace.fired(exchange, rule, only)
            decided = self._before(rule, only, request, exchange, struck)
            if decided is None:
                continue
            if isinstance(decided, Outcome):
                return
            request = decided
        self._handle(request, exchange, struck)

    def _strikes(self, facts: Facts) -> Iterator[tuple[Rule, Where | None]]:
        for rule in self.rules:
            matched = rule.match.struck(facts)
            hit = [each for each in matched if rule.strikes(self._random.random)]
            if hit:
                yield rule, partitions_of(hit, rule, facts)

    def _before(
        self, rule: Rule, only: Where | None, request: Message, exchange: Exchange, struck: Struck
    ) -> Message | Outcome | None:
        """What a rule does before the request is handled: end it (an Outcome), change it, or nothing (None)."""
        options = rule.options
        if options.get("after") or rule.kind in ("lose_ack", "throttle"):
            struck.after.append((rule, only))
            return None
        if rule.kind == "lose_request":
            return self._lose(exchange, options["then"])
        if rule.kind == "disconnect":
            return exchange.close(f"the fault {rule}")
        if rule.kind == "delay":
            return self._later(request, exchange, struck, options["ms"])
        if rule.kind == "reorder":
            return self._hold(request, exchange, struck, options["others"])
        if rule.kind == "answer" and rule.answer is not None:
            response = rule.answer(struck.facts, request)
            return None if response is None else self._reply(response, exchange)
        return self._error(options["code"], only, request, exchange, struck)

    def _error(
        self, code: int, only: Where | None, request: Message, exchange: Exchange, struck: Struck
    ) -> Message | Outcome | None:
        if isinstance(request, ProduceRequest):
            if only is None:
                if request.acks == 0:
                    return exchange.close("a fault refused a Produce with acks=0, which can be told in no other way")
                return self._reply(refuse(request, code, exchange), exchange)
            rest = without(request, only, exchange)
            refused = refuse(request, code, exchange)
            assert isinstance(refused, ProduceResponse)
            _keep(refused, only, exchange)
            if not rest.topic_data:
                return self._reply(refused, exchange)
            struck.refused = join(refused, struck.refused) if struck.refused else refused
            return rest
        if struck.facts.api in READING or only is not None:
            struck.after.append((_error_rule(code), only))
            return None
        return self._reply(refuse(request, code, exchange), exchange)

    def _reply(self, response: Message, exchange: Exchange) -> Outcome:
        exchange.reply(response)
        return Outcome.PARKED

    def _lose(self, exchange: Exchange, then: str) -> Outcome:
        if then == "disconnect":
            return exchange.close("a fault lost a request")
        exchange.connection.silence()
        return Outcome.SILENT

    def _handle(self, request: Message, exchange: Exchange, struck: Struck) -> None:
        self._engine.handle(request, exchange)
        for held in [each for each in self._held if each.connection != exchange.connection.number]:
            held.others -= 1
            if held.others <= 0:
                self._held.remove(held)
                held.go_on(exchange.now)

    def _later(self, request: Message, exchange: Exchange, struck: Struck, ms: int) -> Outcome:
        exchange.park()
        own_records(request)
        self._engine.timers.at(exchange.now + ms, lambda now: self._resume(request, exchange, struck, now))
        return Outcome.PARKED

    def _hold(self, request: Message, exchange: Exchange, struck: Struck, others: int) -> Outcome:
        exchange.park()
        own_records(request)
        self._held.append(
            _Held(others, exchange.connection.number, lambda now: self._resume(request, exchange, struck, now))
        )
        return Outcome.PARKED

    def _resume(self, request: Message, exchange: Exchange, struck: Struck, now: int) -> None:
        if exchange.alive:
            exchange.connection.parked = None
            exchange.now = max(exchange.now, now)
            self._engine.handle(request, exchange)

    # After

    def answered(self, response: Message, exchange: Exchange) -> Message | None:
        """The answer as the rules leave it; None if it is not to be sent, now or ever."""
        struck = exchange.struck
        if struck.refused is not None and isinstance(response, ProduceResponse):
            response, struck.refused = join(response, struck.refused), None
        for rule, only in struck.after:
            if rule.kind == "delay":
                if not struck.delayed:
                    struck.delayed = True
                    exchange.park()
                    at = exchange.now + rule.options["ms"]
                    self._engine.timers.at(at, lambda _: exchange.reply(response))
                    return None
            elif rule.kind == "throttle":
                if hasattr(response, "throttle_time_ms"):
                    response.throttle_time_ms = rule.options["ms"]
            elif rule.kind == "error":
                overwrite(response, rule.options["code"], only, exchange)
            elif rule.kind == "disconnect" or rule.options.get("then") == "disconnect":
                exchange.close(f"the fault {rule}")
                return None
            else:
                exchange.connection.silence()
                return None
        return response


def _error_rule(code: int) -> Rule:
    from wirebroker.faults.rules import Count, Match

    return Rule("error", Match(), Count(), {"code": code, "after": True})


def _keep(response: ProduceResponse, only: Where, exchange: Exchange) -> None:
    """Leave only the answers to these partitions."""
    from wirebroker.faults.facts import topic_name

    for topic in response.responses:
        name = topic_name(topic, exchange) or ""
        topic.partition_responses = [each for each in topic.partition_responses if (name, each.index) in only]
    response.responses = [topic for topic in response.responses if topic.partition_responses]
