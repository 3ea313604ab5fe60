"""The rules that are loaded, and what they do to each request on its way through the engine.

With no rule loaded the engine does not come here. A request meets the rules before it is handled, in the order in which
they were added; the first that ends it decides. What each kind does then is in `actions`. What is to happen to its answer
is kept beside the exchange (`Exchange.struck`) and happens when the answer is made, at once or later. A rule counts as soon
as it is to strike, so that `times` holds; if it comes to nothing, its count is taken back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import read_request_header
from kafkawire.primitives import Buffer
from kafkawire.registry import KEYS
from wirebroker.core.purgatory import Timer
from wirebroker.exchange import Connection, Exchange, Outcome, Reply, Shape, Shaped
from wirebroker.faults.actions import ACTIONS, AFTER, CHANGES, REFUSED_ACKS_0, Strike, Struck
from wirebroker.faults.rules import WIRE, Rule, partitions_of
from wirebroker.requests.errors import join, overwrite, throttle
from wirebroker.requests.facts import Facts, facts_of, facts_of_header
from wirebroker.requests.parts import TopicPartition, Where
from wirebroker.turns import own_records

if TYPE_CHECKING:
    from wirebroker.core.partition import Partition
    from wirebroker.engine import Engine

TICK = 0.02
"""Seconds between two pieces of an answer whose bandwidth is limited."""
SIZE_BYTES = 4
NOTHING: Where = frozenset()


@dataclass(slots=True, eq=False)
class _Held:
    """A request or an answer that a rule holds back: for some time, or until others have been handled."""

    rule: Rule
    exchange: Exchange
    go_on: Callable[[int], None]
    timer: Timer | None = None
    others: int = 0


class FaultPlan:
    """The rules of one engine. `seed` makes what is left to chance the same each time."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.seed = seed
        self.rules: list[Rule] = []
        self.engine = engine
        self._random = random.Random(seed)
        self._held: list[_Held] = []
        """What rules hold back, in the order in which they came to hold it."""
        self._behind: dict[TopicPartition, list[Callable[[int], None]]] = {}
        """Partitions to which a slow write is under way, and the requests that wait behind it."""
        self._offline: dict[Rule, list[Partition]] = {}
        """What a full disk has taken offline."""
        self._weighed: dict[Connection, set[Rule]] = {}
        """Rules that were asked about a request of which only a part has come."""
        self._keys: frozenset[int] = frozenset()
        """Keys of the APIs that rules are for."""

    def reseed(self, seed: int) -> None:
        """Draw what is left to chance from this seed, from the next request on."""
        self.seed = seed
        self._random = random.Random(seed)

    def add(self, rule: Rule) -> Rule:
        """Load a rule; it strikes from the next request on. One that is loaded stays as it is."""
        if rule not in self.rules:
            self.rules.append(rule)
        self._changed()
        return rule

    def remove(self, rule: Rule) -> None:
        """Unload a rule; harmless if it is not loaded. What it held back goes on, and a disk that it filled has room again."""
        self._unload([rule])

    def clear(self) -> None:
        """Unload all rules; what they held back goes on."""
        self._unload(list(self.rules))

    def _unload(self, rules: list[Rule]) -> None:
        for rule in rules:
            if rule in self.rules:
                self.rules.remove(rule)
            for partition in self._offline.pop(rule, ()):
                partition.go_online()
        self._changed()
        for held in [each for each in self._held if each.rule in rules]:
            self._let_go(held, self.engine.now)

    def _changed(self) -> None:
        self.engine.faults = self if self.rules else None
        self._keys = frozenset(KEYS[api] for rule in self.rules for api in rule.apis)

    def concerns(self, key: int) -> bool:
        """Whether rules may have a say in requests of this API: to strike them, or to have them wait or be waited for."""
        return key in self._keys or bool(self._held or self._behind or self._weighed)

    def restarted(self) -> None:
        """The brokers begin anew: what they had yet to handle is lost."""
        for held in self._held:
            self._take_back(held.exchange.struck.before)
        self._held.clear()
        self._behind.clear()
        self._weighed.clear()

    def killed(self, node_id: int) -> None:
        """A broker is gone, and what it had yet to handle."""
        for held in [each for each in self._held if each.exchange.node_id == node_id]:
            self._forget(held)
            self._take_back(held.exchange.struck.before)
            if held.rule is held.exchange.struck.slow_rule:
                for go_on in self._no_longer_behind(held.exchange.struck.slow):
                    go_on(self.engine.now)

    def left(self, exchange: Exchange) -> None:
        """Nobody waits for this answer any more, so that the rules about it have nothing to strike."""
        struck: Struck = exchange.struck
        self._take_back(struck.after, struck.wire)

    # Before there is a whole request

    def connected(self, connection: Connection, now: int) -> None:
        """A connection was made: see whether it is refused."""
        self._weighed = {known: rules for known, rules in self._weighed.items() if not known.closed}
        for rule in self.rules:
            of_node = rule.match.node in (None, connection.node_id)
            if rule.kind == "refuse" and of_node and rule.strikes(self._random.random):
                self.engine.trace.fired(now, connection, rule, rule.fired)
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
                    self.engine.trace.fired(now, connection, rule, rule.fired, facts)
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
        if struck.before or struck.after or struck.wire:
            exchange.frame = None  # what is struck is not what the next request will look like
        self._proceed(request, exchange, exchange.now)

    def _proceed(self, request: Message, exchange: Exchange, now: int) -> None:
        """Let the rules act that have not yet, and handle the request if they leave it."""
        struck: Struck = exchange.struck
        while struck.before:
            strike = self._left_of(struck.before.pop(0), struck.gone)
            if not strike.batches:
                continue
            change = CHANGES.get(strike.rule.kind)
            if change is not None:
                done = change(self, strike, exchange)
                if done is not None:
                    self.settle(strike, exchange, done)
                continue
            self._tell(strike, exchange)
            decided = ACTIONS[strike.rule.kind](self, strike, request, exchange)
            if isinstance(decided, Outcome):
                if decided is not Outcome.PARKED:
                    self._take_back(struck.before, struck.after, struck.wire)
                return
            request = decided
        self.admit(request, exchange, now)

    def _left_of(self, strike: Strike, gone: Where = NOTHING) -> Strike:
        """What a rule still strikes: nothing once it is unloaded, and nothing of what others have refused."""
        left = strike.without(gone) if strike.rule in self.rules else strike._replace(batches=[])
        strike.rule.fired -= len(strike.batches) - len(left.batches)
        return left

    def settle(self, strike: Strike, exchange: Exchange, done: bool) -> None:
        """A rule has tried: tell of it, or if it found nothing to do, it has not fired."""
        if done:
            self._tell(strike, exchange)
        else:
            self._take_back([strike])

    def _tell(self, strike: Strike, exchange: Exchange) -> None:
        """A rule strikes: each firing is a line of the trace."""
        facts, before = exchange.struck.facts, strike.rule.fired - len(strike.batches)
        for number, batch in enumerate(strike.batches, 1):
            several = batch is not None and len(strike.batches) > 1
            only = {(batch.topic, batch.partition)} if batch is not None and several else strike.only
            self.engine.trace.fired(
                self.engine.now, exchange.connection, strike.rule, before + number, facts, only, exchange.correlation_id
            )

    @staticmethod
    def _take_back(*strikes: list[Strike]) -> None:
        """These rules have struck nothing after all."""
        for some in strikes:
            for strike in some:
                strike.rule.fired -= len(strike.batches)
            some.clear()

    def not_handled(self, exchange: Exchange) -> None:
        """The request is answered without being handled: rules behind the one that did it have nothing to strike."""
        self._take_back(exchange.struck.before)

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
        wanted = sorted({(batch.topic, batch.partition) for batch in struck.facts.batches} - struck.gone)
        before = next((each for each in wanted if each in self._behind), None)
        if before is not None:
            self._park(request, exchange)
            self._behind[before].append(lambda later: self._resume(request, exchange, later, self.admit))
        elif struck.slow and struck.slow_rule is not None:
            for each in struck.slow:
                self._behind[each] = []
            self._park(request, exchange)
            self._hold(struck.slow_rule, exchange, now + max(struck.slow.values()), partial(self._written, request, exchange))
        else:
            self.handle(request, exchange)

    def _written(self, request: Message, exchange: Exchange, now: int) -> None:
        """A slow write is done: handle it, and then those that waited behind it, in order."""
        waiting = self._no_longer_behind(exchange.struck.slow)
        self._resume(request, exchange, now, self.admit)
        for go_on in waiting:
            go_on(now)

    def _no_longer_behind(self, slow: dict[TopicPartition, int]) -> list[Callable[[int], None]]:
        """These writes are over; who waited behind them."""
        waiting = [each for partition in slow for each in self._behind.pop(partition)]
        slow.clear()
        return waiting

    def handle(self, request: Message, exchange: Exchange) -> None:
        """Have the request handled, and let those go on that waited for it."""
        struck: Struck = exchange.struck
        for _, partition in struck.failing:
            partition.fail_next_write()
        self.engine.handle(request, exchange)
        self._tried_to_write(exchange)
        if struck.refused is not None and struck.facts.acks == 0:
            exchange.close(REFUSED_ACKS_0)
        if struck.crashes:
            self._crash(exchange.node_id, exchange.now)
        if not exchange.alive:
            self.left(exchange)
        self._handled(exchange)

    def _tried_to_write(self, exchange: Exchange) -> None:
        """What was to fail has failed by now, or was not to be written."""
        failing, exchange.struck.failing = exchange.struck.failing, []
        for strike, partition in failing:
            self.settle(strike, exchange, not partition.write_fails)
            partition.fail_next_write(0)

    def _handled(self, exchange: Exchange) -> None:
        for held in [each for each in self._held if each.others and each.exchange.connection is not exchange.connection]:
            held.others -= 1
            if not held.others:
                self._let_go(held, exchange.now)

    def _crash(self, node_id: int, now: int) -> None:
        """The broker is killed and starts again; if it is not the only one, others lead in its place."""
        if len(self.engine.cluster.brokers) == 1:
            self.engine.restart("kill", now)
        else:
            self.engine.kill_broker(node_id, now)
            self.engine.start_broker(node_id, now)

    # Holding back

    def later(self, rule: Rule, request: Message, exchange: Exchange) -> Outcome:
        """Handle the request later."""
        self._park(request, exchange)
        self._hold(rule, exchange, exchange.now + rule.options["ms"], self._going_on(request, exchange))
        return Outcome.PARKED

    def behind_others(self, rule: Rule, request: Message, exchange: Exchange) -> Outcome:
        """Handle the request when some of other connections have been handled."""
        self._park(request, exchange)
        self._held.append(_Held(rule, exchange, self._going_on(request, exchange), others=rule.options["others"]))
        return Outcome.PARKED

    def _going_on(self, request: Message, exchange: Exchange) -> Callable[[int], None]:
        return partial(self._resume, request, exchange, go_on=self._proceed)

    def _hold(self, rule: Rule, exchange: Exchange, until: int, go_on: Callable[[int], None]) -> None:
        held = _Held(rule, exchange, go_on)
        held.timer = self.engine.timers.at(until, lambda now: self._let_go(held, now))
        self._held.append(held)

    def _let_go(self, held: _Held, now: int) -> None:
        if self._forget(held):
            held.go_on(now)

    def _forget(self, held: _Held) -> bool:
        """Hold it no longer; whether it was held."""
        if held not in self._held:
            return False
        self._held.remove(held)
        if held.timer is not None:
            held.timer.cancel()
        return True

    @staticmethod
    def _park(request: Message, exchange: Exchange) -> None:
        exchange.park()
        exchange.frame = None  # others will receive into its buffer
        own_records(request)

    def _resume(self, request: Message, exchange: Exchange, now: int, go_on: Callable[[Message, Exchange, int], None]) -> None:
        """Let a request go on that was parked; one whose client has gone is handled all the same, as it has been read."""
        connection = exchange.connection
        if connection.parked is exchange:
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
        self._tried_to_write(exchange)
        if struck.crashes or exchange.connection.closed or exchange.connection.silent:
            self.left(exchange)
            return None
        if struck.refused is not None and type(response) is type(struck.refused):
            response, struck.refused = join(response, struck.refused), None
        for rule, only, _ in struck.overwrites:
            overwrite(response, rule.options["code"], only, exchange, struck.facts.partitions)
        struck.overwrites.clear()
        while struck.after:
            strike = self._left_of(struck.after.pop(0))
            if strike.batches and not self._befall(strike, response, exchange):
                return None
        return response

    def _befall(self, strike: Strike, response: Message, exchange: Exchange) -> bool:
        """Do to an answer what a rule says; whether it can be sent now."""
        rule = strike.rule
        if rule.kind == "throttle":
            self.settle(strike, exchange, throttle(response, exchange.version, rule.options["ms"]))
            return True
        self._tell(strike, exchange)
        if rule.kind == "error":
            overwrite(response, rule.options["code"], strike.only, exchange, exchange.struck.facts.partitions)
            return True
        if rule.kind == "delay":
            exchange.park()
            self._hold(rule, exchange, self.engine.now + rule.options["ms"], lambda _: exchange.reply(response))
            return False
        self.left(exchange)
        if rule.kind in ("disconnect", "reset") or rule.options.get("then") == "disconnect":
            self.engine.close(exchange.connection, f"the fault {rule}", reset=rule.kind == "reset")
        else:
            exchange.connection.silence()
        return False

    def send(self, parts: list[Buffer], exchange: Exchange) -> None:
        """Send an answer as the rules of the wire have it."""
        connection, engine = exchange.connection, self.engine
        strikes = [self._left_of(strike) for strike in exchange.struck.wire]
        exchange.struck.wire.clear()
        shape, closing = self._shape([each for each in strikes if each.batches], parts, exchange)
        connection.halted = True
        engine.effects.append(Shaped(connection, parts, shape))
        for ms, rule in closing:
            self._close_later(connection, ms, rule, engine.now)

    def _shape(
        self, strikes: list[Strike], parts: list[Buffer], exchange: Exchange
    ) -> tuple[Shape, list[tuple[int, Rule]]]:  # fmt: skip
        """What the rules make of an answer; and how many ms later which of them close the connection."""
        cut = piece = None
        pause, flipped, closing = 0.0, [], []
        size = sum(len(part) for part in parts)
        for strike in strikes:
            rule, options, done = strike.rule, strike.rule.options, True
            if rule.kind == "cut":
                cut = min(options["bytes"], size if cut is None else cut)
                closing.append((0, rule))
            elif rule.kind == "slice":
                done = options["bytes"] < size
                piece, pause = (options["bytes"], options["ms"] / 1000) if done else (piece, pause)
            elif rule.kind == "bandwidth":
                piece, pause = max(int(options["rate"] * TICK), 1), max(TICK, 1 / options["rate"])
            elif rule.kind == "corrupt":
                places = self._places(options["bytes"], options.get("at"), size)
                flipped += places
                done = bool(places)
            else:
                closing.append((options["ms"], rule))
            self.settle(strike, exchange, done)
        return Shape(cut, piece, pause, tuple(flipped)), closing

    def _places(self, count: int, at: int | None, size: int) -> list[int]:
        """Which bytes of an answer of this size are damaged."""
        if at is None:
            return sorted(self._random.sample(range(SIZE_BYTES, size), min(count, size - SIZE_BYTES)))
        first = at if at >= 0 else size + at
        return list(range(max(first, 0), min(first + count, size)))

    def _close_later(self, connection: Connection, ms: int, rule: Rule, now: int) -> None:
        if ms:
            self.engine.timers.at(now + ms, lambda _: self.engine.close(connection, f"the fault {rule}"))
        else:
            self.engine.close(connection, f"the fault {rule}")
