"""What each kind of fault does to a request before it is handled.

An action gets the plan, the strike, the request and its exchange. It returns the request to go on with, perhaps a part of
it, or the outcome if that is decided. A change of storage or state returns whether there was something to change, or None
if that shows when the request is handled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from wirebroker.exchange import Exchange, Outcome
from wirebroker.faults import state
from wirebroker.faults.rules import Count, Match, Rule
from wirebroker.requests.errors import READING, join, refuse
from wirebroker.requests.facts import Batch, Facts
from wirebroker.requests.parts import TopicPartition, Where, named_in, names_topics, part_of

if TYPE_CHECKING:
    from wirebroker.core.partition import Partition
    from wirebroker.faults.plan import FaultPlan

logger = logging.getLogger("wirebroker")

AFTER = frozenset({"lose_ack", "throttle"})
"""Kinds that are about the answer, beside those that say `after`."""


class Strike(NamedTuple):
    """A rule that strikes a request: which of its partitions (None: all), and for a Produce which of its batches."""

    rule: Rule
    only: Where | None
    batches: list[Batch | None]

    def without(self, gone: Where) -> Strike:
        """What is left of it where these partitions are no longer in the request."""
        only = None if self.only is None else self.only - gone
        batches = [each for each in self.batches if each is None or (each.topic, each.partition) not in gone]
        return Strike(self.rule, only, [] if only is not None and not only else batches)


@dataclass(slots=True)
class Struck:
    """What the rules want of one request and its answer."""

    facts: Facts
    before: list[Strike] = field(default_factory=list)
    """What has yet to happen before it is handled."""
    after: list[Strike] = field(default_factory=list)
    wire: list[Strike] = field(default_factory=list)
    overwrites: list[Strike] = field(default_factory=list)
    """Errors that are put into the answer once it is made, before anything else befalls it."""
    refused: Message | None = None
    """The answer to the partitions that were not handled,"""
    gone: Where = frozenset()
    """and these partitions."""
    slow: dict[TopicPartition, int] = field(default_factory=dict)
    """How many ms it takes to write to these partitions,"""
    slow_rule: Rule | None = None
    """by this rule, or the last of several."""
    failing: list[tuple[Strike, Partition]] = field(default_factory=list)
    """Partitions to which it cannot be written, and what says so."""
    crashes: bool = False
    """Whether the broker is killed once it is handled."""


REFUSED_ACKS_0 = "a fault refused a Produce with acks=0, which can be told in no other way"

Action = Callable[["FaultPlan", Strike, Message, Exchange], "Message | Outcome"]
Change = Callable[["FaultPlan", Strike, Exchange], "bool | None"]


def _lose_request(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Outcome:
    if strike.rule.options["then"] == "disconnect":
        return exchange.close("a fault lost a request")
    exchange.connection.silence()
    return Outcome.SILENT


def _disconnect(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Outcome:
    return exchange.close(f"the fault {strike.rule}")


def _reset(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Outcome:
    plan.engine.close(exchange.connection, f"the fault {strike.rule}", reset=True)
    return Outcome.CLOSED


def _delay(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Outcome:
    return plan.later(strike.rule, request, exchange)


def _reorder(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Outcome:
    return plan.behind_others(strike.rule, request, exchange)


def _answer(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Message | Outcome:
    assert strike.rule.answer is not None
    try:
        response = strike.rule.answer(exchange.struck.facts, request)
    except Exception:
        logger.exception("the function of the rule %s raised; the connection is closed", strike.rule)
        return exchange.close("the function of a fault raised, see the log")
    return request if response is None else _reply(plan, response, exchange)


def _error(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Message | Outcome:
    return _refuse(plan, strike.rule.options["code"], strike.only, request, exchange)


def _lose_coordinator(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Message | Outcome:
    finds = exchange.struck.facts.api == "FindCoordinator"
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE if finds else ErrorCode.NOT_COORDINATOR
    return _refuse(plan, code, None, request, exchange)


def _refuse(plan: FaultPlan, code: int, only: Where | None, request: Message, exchange: Exchange) -> Message | Outcome:
    """Answer with an error; what changes something is not handled."""
    struck: Struck = exchange.struck
    if struck.facts.api in READING:
        rule = Rule("error", Match(), Count(), {"code": code, "after": True})
        struck.overwrites.append(Strike(rule, only, []))
        return request
    if only is not None:
        refused = refuse(part_of(request, lambda *where: where in only, exchange.directory), code, exchange)
        if names_topics(refused, exchange.directory) and not named_in(request, exchange.directory) <= only:
            struck.refused = join(refused, struck.refused) if struck.refused else refused
            struck.gone |= only
            return part_of(request, lambda *where: where not in only, exchange.directory)
    if struck.facts.acks == 0:
        return exchange.close(REFUSED_ACKS_0)
    return _reply(plan, refuse(request, code, exchange), exchange)


def _reply(plan: FaultPlan, response: Message, exchange: Exchange) -> Outcome:
    """The request is answered and not handled: rules behind this one have nothing to strike, those about the answer have."""
    plan.not_handled(exchange)
    exchange.reply(response)
    return Outcome.PARKED


def _slow_write(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Message:
    struck: Struck = exchange.struck
    struck.slow_rule = strike.rule
    for batch in strike.batches:
        if batch is not None:
            where = (batch.topic, batch.partition)
            struck.slow[where] = struck.slow.get(where, 0) + strike.rule.options["ms"]
    return request


def _crash_after_write(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Message:
    exchange.struck.crashes = True
    return request


def _restart(plan: FaultPlan, strike: Strike, request: Message, exchange: Exchange) -> Outcome:
    plan.engine.restart(strike.rule.options["mode"], exchange.now)
    return Outcome.CLOSED


# Storage and state


def _fail_write(plan: FaultPlan, strike: Strike, exchange: Exchange) -> bool | None:
    """Whether a write fails shows when it is tried: a duplicate is not written."""
    failing: list[tuple[Strike, Partition]] = exchange.struck.failing
    for batch in strike.batches:
        found = exchange.cluster.partition(batch.topic, batch.partition) if batch is not None else None
        each = strike._replace(batches=[batch])
        if found is None or any(found is partition for _, partition in failing):
            plan.settle(each, exchange, False)
        else:
            failing.append((each, found))
    return None


def _disk_full(plan: FaultPlan, strike: Strike, exchange: Exchange) -> bool:
    match = strike.rule.match
    topics = [
        topic
        for topic in exchange.cluster.topics.values()
        if topic.name == match.topic or (match.topic is None and not topic.internal)
    ]
    full = [
        partition
        for topic in topics
        for partition in topic.partitions
        if partition.leader == exchange.node_id and match.partition in (None, partition.index) and partition.offline_at is None
    ]
    plan.take_offline(strike.rule, full, exchange.node_id)
    return bool(full)


def _expire_producer(plan: FaultPlan, strike: Strike, exchange: Exchange) -> bool:
    facts: Facts = exchange.struck.facts
    count = 0
    for batch in strike.batches:
        if batch is not None:
            count += state.expire_producer(plan.engine, batch.producer_id, batch.topic, batch.partition)
        elif facts.producer is not None:
            count += state.expire_producer(plan.engine, facts.producer[0])
    return count > 0


def _expire_transactional_id(plan: FaultPlan, strike: Strike, exchange: Exchange) -> bool:
    return state.expire_transactional_id(plan.engine, strike.rule.match.transactional_id or "", exchange.now, must=False)


def _fence(plan: FaultPlan, strike: Strike, exchange: Exchange) -> bool:
    return state.fence(plan.engine, strike.rule.match.transactional_id or "", exchange.now, must=False) >= 0


def _truncate(plan: FaultPlan, strike: Strike, exchange: Exchange) -> bool:
    topic, partition = strike.rule.match.topic or "", strike.rule.match.partition or 0
    found = exchange.cluster.partition(topic, partition)
    before = found.log_end_offset if found is not None else -1
    offset = strike.rule.options["offset"]
    return state.truncate(plan.engine, topic, partition, offset, exchange.now, must=False) not in (-1, before)


ACTIONS: dict[str, Action] = {
    "lose_request": _lose_request, "disconnect": _disconnect, "cut": _disconnect, "reset": _reset, "delay": _delay,
    "reorder": _reorder, "answer": _answer, "error": _error, "lose_coordinator": _lose_coordinator,
    "slow_write": _slow_write, "crash_after_write": _crash_after_write, "restart": _restart,
}  # fmt: skip
"""Kind to what it does to a request before that is handled."""
CHANGES: dict[str, Change] = {
    "fail_write": _fail_write, "disk_full": _disk_full, "expire_producer": _expire_producer,
    "expire_transactional_id": _expire_transactional_id, "fence": _fence, "truncate": _truncate,
}  # fmt: skip
"""Kind to what it changes before a request is handled, which leaves the request as it is."""
