"""The rules that are loaded, and what they do to each request on its way through the engine.

With no rule loaded the engine does not come here. A request meets the rules before it is handled, in the order in which
they were added; the first that ends it decides. What each kind does then is in `actions`. What is to happen to its answer
is kept beside the exchange (`Exchange.struck`) and happens when the answer is made, at once or later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import read_request_header
from kafkawire.primitives import Buffer
from wirebroker.exchange import Connection, Exchange, Outcome, Reply, Shape, Shaped
from wirebroker.faults.actions import ACTIONS, AFTER, REFUSED_ACKS_0, Strike, Struck
from wirebroker.faults.facts import Facts, TopicPartition, facts_of, facts_of_header
from wirebroker.faults.refusals import join, overwrite, own_records
from wirebroker.faults.rules import WIRE, Rule, partitions_of

if TYPE_CHECKING:
    from wirebroker.core.partition import Partition
    from wirebroker.engine import Engine

TICK = 0.02
"""Seconds between two pieces of an answer whose bandwidth is limited."""
SIZE_BYTES = 4


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
        self.engine = engine
        self._random = random.Random(seed)
        self._held: list[_Held] = []
        self._behind: dict[TopicPartition, list[Callable[[int], None]]] = {}
        """Partitions to which a slow write is under way, and the requests that wait behind it."""
        self._offline: dict[Rule, list[Partition]] = {}
        """What a full disk has taken offline."""
        self._weighed: dict[Connection, set[Rule]] = {}
        """Rules that were asked about a request of which only a part has come."""

    def reseed(self, seed: int) -> None:
        """Draw what is left to chance from this seed, from the next request on."""
        self.seed = seed
        self._random = random.Random(seed)

    def add(self, rule: Rule) -> Rule:
        """Load a rule; it strikes from the next request on."""
        self.rules.append(rule)
        self.engine.faults = self
        return rule

    def remove(self, rule: Rule) -> None:
        """Unload a rule; harmless if it is not loaded. A disk that it filled has room again."""
        if rule in self.rules:
            self.rules.remove(rule)
        for partition in self._offline.pop(rule, ()):
            partition.go_online()
        self.engine.faults = self if self.rules else None

    def clear(self) -> None:
        """Unload all rules. Requests that `reorder` holds back go on."""
        for rule in list(self.rules):
            self.remove(rule)
        held, self._held = self._held, []
        for each in held:
            each.go_on(0)

    def restarted(self) -> None:
        """The brokers begin anew: whoever waited has lost the connection."""
        self._held.clear()
        self._behind.clear()
        self._weighed.clear()

    # Before there is a whole request

    def connected(self, connection: Connection, now: int) -> None:
        """A connection was made: see whether it is refused."""
        self._weighed = {known: rules for known, rules in self._weighed.items() if not known.closed}
        for rule in self.rules:
            of_node = rule.match.node in (None, connection.node_id)
            if rule.kind == "refuse" and of_node and rule.strikes(self._random.random):
                self.engine.trace.fired(now, connection, rule)
                self.engine.close(connection, f"the fault {rule}", reset=True)
                return

    def arriving(self, connection: Connection, part: Buffer, now: int) -> None:
        """A part of a request has come, without its size: see whether the rest is wanted."""
        for rule in self.rules:
            if not rule.cuts_requests or rule.options["bytes"] > len(part) + SIZE_BYTES:
                continue
            weighed = self._weighed.setdefault(connection, set())
            try:
                facts = facts_of_header(read_request_header(part), connection.node_id, connection.number)
            except (ProtocolError, KeyError):
                return
            if rule not in weighed and rule.matched(facts):
                weighed.add(rule)
                if rule.strikes(self._random.random):
                    self._weighed.pop(connection)
                    self.engine.trace.fired(now, connection, rule, facts)
                    self.engine.close(connection, f"the fault {rule}")
                    return

    # Before it is handled

    def receive(self, request: Message, exchange: Exchange) -> None:
        """A request has arrived: let the rules at it, and handle it unless one of them prevents that."""
        facts = facts_of(request, exchange)
        struck = exchange.struck = Struck(facts)
        for strike in self._strikes(facts, exchange):
            rule = strike.rule
            if rule.kind in WIRE and not rule.cuts_requests:
                struck.wire.append(strike)
            elif rule.options.get("after") or rule.kind in AFTER:
                struck.after.append(strike)
            else:
                struck.before.append(strike)
        self._proceed(request, exchange, exchange.now)

    def _proceed(self, request: Message, exchange: Exchange, now: int) -> None:
        """Let the rules act that have not yet, and handle the request if they leave it."""
        struck: Struck = exchange.struck
        while struck.before:
            strike = self._left_of(struck.before.pop(0), struck)
            if not strike.batches:
                continue
            self._tell(strike, exchange)
            decided = ACTIONS[strike.rule.kind](self, strike, request, exchange)
            if isinstance(decided, Outcome):
                if decided is not Outcome.PARKED:
                    self._take_back(struck)
                return
            request = decided
        self.will_answer(exchange)
        self.admit(request, exchange, now)

    @staticmethod
    def _left_of(strike: Strike, struck: Struck) -> Strike:
        """What a rule still strikes of a request of which others have refused a part."""
        left = strike.without(struck.gone)
        strike.rule.fired -= len(strike.batches) - len(left.batches)
        return left

    def will_answer(self, exchange: Exchange) -> None:
        """The request will be answered, so that the rules about its answer have something to strike."""
        struck: Struck = exchange.struck
        for strike in (*struck.after, *struck.wire):
            self._tell(strike, exchange)

    def _tell(self, strike: Strike, exchange: Exchange) -> None:
        facts = exchange.struck.facts
        self.engine.trace.fired(
            exchange.now, exchange.connection, strike.rule, facts, strike.only, exchange.correlation_id
        )

    @staticmethod
    def _take_back(struck: Struck) -> None:
        """A rule has ended the request: those behind it, and those about its answer, have struck nothing."""
        for strike in (*struck.before, *struck.after, *struck.wire):
            strike.rule.fired -= len(strike.batches)

    def _strikes(self, facts: Facts, exchange: Exchange) -> Iterator[Strike]:
        weighed = self._weighed.pop(exchange.connection, ())
        size = len(exchange.frame or b"") + SIZE_BYTES
        for rule in self.rules:
            if rule.cuts_requests and (rule in weighed or rule.options["bytes"] > size):
                continue
            hit = [each for each in rule.matched(facts) if rule.strikes(self._random.random)]
            if hit:
                yield Strike(rule, partitions_of(hit, rule, facts), hit)

    def admit(self, request: Message, exchange: Exchange, now: int) -> None:
        """Handle the request, unless a slow write is before it, or it is one itself."""
        struck: Struck = exchange.struck
        wanted = sorted({(batch.topic, batch.partition) for batch in struck.facts.batches})
        before = next((each for each in wanted if each in self._behind), None)
        if before is not None:
            self._park(request, exchange)
            self._behind[before].append(lambda later: self._resume(request, exchange, later, self.admit))
        elif struck.slow:
            slow, struck.slow = struck.slow, {}
            self._park(request, exchange)
            for each in slow:
                self._behind[each] = []
            self.engine.timers.at(now + max(slow.values()), lambda later: self._written(slow, request, exchange, later))
        else:
            self.handle(request, exchange)

    def _written(self, partitions: Iterable[TopicPartition], request: Message, exchange: Exchange, now: int) -> None:
        """A slow write is done: handle it, and then those that waited behind it, in order."""
        waiting = [each for partition in partitions for each in self._behind.pop(partition)]
        self._resume(request, exchange, now, self.admit)
        for go_on in waiting:
            go_on(now)

    def handle(self, request: Message, exchange: Exchange) -> None:
        """Have the request handled, and let those go on that waited for it."""
        struck: Struck = exchange.struck
        for partition in struck.failing:
            partition.fail_next_write()
        self.engine.handle(request, exchange)
        if struck.refused is not None and struck.facts.acks == 0:
            exchange.close(REFUSED_ACKS_0)
        for partition in struck.failing:
            partition.fail_next_write(0)
        if struck.crashes:
            self._crash(exchange.node_id, exchange.now)
        for held in [each for each in self._held if each.connection != exchange.connection.number]:
            held.others -= 1
            if held.others <= 0:
                self._held.remove(held)
                held.go_on(exchange.now)

    def _crash(self, node_id: int, now: int) -> None:
        """The broker is killed and starts again; if it is not the only one, others lead in its place."""
        if len(self.engine.cluster.brokers) == 1:
            self.engine.restart("kill", now)
        else:
            self.engine.kill_broker(node_id, now)
            self.engine.start_broker(node_id, now)

    def later(self, request: Message, exchange: Exchange, ms: int) -> Outcome:
        """Handle the request `ms` later."""
        self._park(request, exchange)
        self.engine.timers.at(exchange.now + ms, lambda now: self._resume(request, exchange, now, self._proceed))
        return Outcome.PARKED

    def behind_others(self, request: Message, exchange: Exchange, others: int) -> Outcome:
        """Handle the request when so many of other connections have been handled."""
        self._park(request, exchange)
        go_on = partial(self._resume, request, exchange, go_on=self._proceed)
        self._held.append(_Held(others, exchange.connection.number, go_on))
        return Outcome.PARKED

    @staticmethod
    def _park(request: Message, exchange: Exchange) -> None:
        exchange.park()
        own_records(request)

    def _resume(
        self, request: Message, exchange: Exchange, now: int, go_on: Callable[[Message, Exchange, int], None]
    ) -> None:
        """Let a request go on that was parked, if somebody still waits for it."""
        if not exchange.alive:
            return
        connection = exchange.connection
        connection.parked = None
        exchange.now = max(exchange.now, now)
        go_on(request, exchange, exchange.now)
        if exchange.struck.facts.acks == 0 and exchange.alive:
            self.engine.effects.append(Reply(connection, []))  # nothing is sent, but what waits behind it may go on

    def take_offline(self, rule: Rule, partitions: list[Partition], node_id: int) -> None:
        """The broker's directory with these partitions is gone until the rule is unloaded."""
        self._offline.setdefault(rule, []).extend(partitions)
        for partition in partitions:
            partition.go_offline(node_id)

    # After

    def answered(self, response: Message, exchange: Exchange) -> Message | None:
        """The answer as the rules leave it; None if it is not to be sent, now or ever."""
        struck: Struck = exchange.struck
        if struck.crashes:
            return None
        if struck.refused is not None and type(response) is type(struck.refused):
            response, struck.refused = join(response, struck.refused), None
        for rule, only, _ in (*struck.overwrites, *struck.after):
            if rule.kind == "delay":
                if not struck.delayed:
                    struck.delayed = True
                    exchange.park()
                    at = exchange.now + rule.options["ms"]
                    self.engine.timers.at(at, lambda _: exchange.reply(response))
                    return None
            elif rule.kind == "throttle":
                if hasattr(response, "throttle_time_ms"):
                    response.throttle_time_ms = rule.options["ms"]
            elif rule.kind == "error":
                overwrite(response, rule.options["code"], only, exchange)
            elif rule.kind in ("disconnect", "reset") or rule.options.get("then") == "disconnect":
                self.engine.close(exchange.connection, f"the fault {rule}", reset=rule.kind == "reset")
                return None
            else:
                exchange.connection.silence()
                return None
        return response

    def send(self, parts: list[Buffer], exchange: Exchange) -> None:
        """Send an answer as the rules of the wire have it."""
        connection, engine = exchange.connection, self.engine
        cut = piece = None
        pause, flipped, closing = 0.0, [], []
        size = sum(len(part) for part in parts)
        for rule, _, _ in exchange.struck.wire:
            options = rule.options
            if rule.kind == "cut":
                cut = min(options["bytes"], size if cut is None else cut)
                closing.append((0, rule))
            elif rule.kind == "slice":
                piece, pause = options["bytes"], options["ms"] / 1000
            elif rule.kind == "bandwidth":
                piece, pause = max(int(options["rate"] * TICK), 1), max(TICK, 1 / options["rate"])
            elif rule.kind == "corrupt":
                flipped += self._places(options["bytes"], options.get("at"), size)
            else:
                closing.append((options["ms"], rule))
        connection.halted = True
        engine.effects.append(Shaped(connection, parts, Shape(cut, piece, pause, tuple(flipped))))
        for ms, rule in closing:
            self._close_later(connection, ms, rule, engine.now)

    def _places(self, count: int, at: int | None, size: int) -> list[int]:
        """Which bytes of an answer of this size are damaged."""
        if at is None:
            return sorted(self._random.sample(range(SIZE_BYTES, size), min(count, size - SIZE_BYTES)))
        first = at if at >= 0 else size + at
        return [place for place in range(first, first + count) if 0 <= place < size]

    def _close_later(self, connection: Connection, ms: int, rule: Rule, now: int) -> None:
        if ms:
            self.engine.timers.at(now + ms, lambda _: self.engine.close(connection, f"the fault {rule}"))
        else:
            self.engine.close(connection, f"the fault {rule}")
