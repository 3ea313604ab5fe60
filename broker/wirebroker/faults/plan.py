"""The fault plan applies the loaded rules to each request and its response.

Before a request is handled, the rules act on it in the order in which they were added. After a rule that ends the request, no
further rule acts. The exchange remembers the rules that will act on the response (`Exchange.matches`), because the response may
be made later. The firing of a rule is counted when the rule is chosen, so the rule never exceeds `times`. If the rule then
finds nothing to do, the firing is subtracted again.

The plan uses only a `Host` and exchanges (see `interfaces`), but no engine, so the same rules work in a proxy. While no rule is
loaded, the engine does not call the plan.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import SIZE_BYTES, read_request_header
from kafkawire.primitives import Buffer
from kafkawire.registry import KEYS, api_name
from wirebroker.deeds.errors import NothingToChange
from wirebroker.faults.acts import Greeting, Injection, OutgoingResponse
from wirebroker.faults.forms import FaultError
from wirebroker.faults.interfaces import Alarm, Host, Planned
from wirebroker.faults.matches import MatchedRule, Matches
from wirebroker.faults.misses import Misses
from wirebroker.faults.rules import InjectionPoint, Rule, partitions_of
from wirebroker.requests.connection import CLOSED, Connection
from wirebroker.requests.effects import Outcome, Respond, Shaped
from wirebroker.requests.errors import READING, join, overwrite, refuse
from wirebroker.requests.facts import Batch, Facts, facts_of, facts_of_header
from wirebroker.requests.parts import TopicPartition, Where, named_in, names_topics, own_records, part_of

if TYPE_CHECKING:
    from wirebroker.deeds.broker import EngineBroker
    from wirebroker.faults.files import FaultFile

REMEMBERED = 1000
"""The plan remembers at most this many of the unloaded rules that never fired."""
NOTHING: Where = frozenset()
REFUSED_ACKS_0 = "a fault refused a Produce with acks=0, which gets no response that could report the error"

Continue = Callable[[int], None]
"""A function that continues a request later. Its argument is the time at which it is called."""


class _Held(Struct, eq=False):
    """A request or a response that a rule delays for some time, or until other requests were handled."""

    rule: Rule
    exchange: Planned
    go_on: Continue
    timer: Alarm | None = None
    others: int = 0


class _Waiting(Struct, eq=False):
    """A request that waits until a slow write in one of its partitions is done."""

    exchange: Planned
    go_on: Continue


class FaultPlan:
    """The fault rules of one host. Plans with the same `seed` make the same random choices."""

    def __init__(self, host: Host, seed: int) -> None:
        self.seed = self._first_seed = seed
        self.rules: list[Rule] = []
        self.host = host
        self._random = random.Random(seed)
        self._held: list[_Held] = []
        """The delayed requests and responses, oldest first."""
        self._waiting: dict[TopicPartition, list[_Waiting]] = {}
        """For each partition with a slow write in progress, the requests that wait for this write."""
        self._released: deque[_Waiting] = deque()
        """The requests whose wait is over, and which continue now, one after the other. One of them may stop the broker."""
        self._at_unload: dict[Hashable, dict[Callable[[Hashable], None], None]] = {}
        self._seen_parts: dict[Connection, set[Rule]] = {}
        """If only a part of a request has arrived on a connection: the rules that have matched this part, by connection."""
        self._unloaded_unfired: deque[Rule] = deque(maxlen=REMEMBERED)
        """The latest unloaded rules that never fired. Their number is limited, because a test may load any number of rules."""
        self._keys: frozenset[int] = frozenset()
        """The keys of the APIs that rules may match."""
        self._arrived: Counter[str] = Counter()
        """The number of requests of each API. Requests are counted only while rules are loaded."""

    @property
    def broker(self) -> EngineBroker:
        """The interface to the broker's state, for rules that act inside a broker. A proxy has no such interface, and its `add`
        refuses these rules."""
        assert self.host.fault_broker is not None
        return self.host.fault_broker

    def reseed(self, seed: int) -> None:
        """Use `seed` for the random choices from the next request on."""
        self.seed = seed
        self._random = random.Random(seed)

    def add(self, rule: Rule) -> Rule:
        """Load a rule, which can fire from the next request on. If the rule is loaded already, nothing changes.

        Raises FaultError if the host accepts no rules, or if the host is a proxy and the rule acts inside a broker.
        """
        self._check(rule)
        return self._load(rule)

    def _check(self, rule: Rule) -> None:
        if self.host.refuses_faults:
            raise FaultError("kind", self.host.refuses_faults)
        if rule.needs_broker and self.host.fault_broker is None:
            raise FaultError("kind", f"{rule.kind} acts inside a broker, and this is a proxy; load it in the broker instead")
        if rule.match.principal is not None and self.host.fault_broker is None:
            raise FaultError("principal", "a proxy cannot see the principals of clients; load the rule in the broker")
        if self.host.fault_broker is not None:
            rule.check_broker(self.host.fault_broker)

    def _load(self, rule: Rule) -> Rule:
        if rule not in self.rules:
            self.rules.append(rule)
            rule.added, rule.loaded_at, rule.misses = True, self.host.now, Misses(self._arrived)
        self._changed()
        return rule

    def load(self, file: FaultFile) -> list[Rule]:
        """Load the rules of a fault file and return them. If the file has a seed, later random choices use this seed.

        Raises FaultError as `add` does. Then no rule of the file is loaded.
        """
        for rule in file.rules:
            self._check(rule)
        if file.seed is not None:
            self.reseed(file.seed)
        return [self._load(rule) for rule in file.rules]

    def remove(self, rule: Rule) -> None:
        """Unload a rule, let the requests that it delays continue, and end its lasting effects. Does nothing if the rule is not
        loaded."""
        self._unload([rule])

    def clear(self) -> None:
        """Unload all rules, and let the requests that they delay continue."""
        self._unload(list(self.rules))

    def _unload(self, rules: list[Rule]) -> None:
        for rule in rules:
            if rule in self.rules:
                self.rules.remove(rule)
                if rule.misses is not None:
                    rule.misses.end()
                self._unloaded_unfired += [] if rule.fired else [rule]
            for restore in self._at_unload.pop(rule, ()):
                restore(rule)
        self._changed()
        for held in [each for each in self._held if each.rule in rules]:
            self._let_go(held, self.host.now)

    def unfired(self) -> list[Rule]:
        """Returns the rules that never fired: first the rules that were unloaded, then the rules that are still loaded."""
        unloaded = [rule for rule in self._unloaded_unfired if rule not in self.rules and not rule.fired]
        return [*unloaded, *(rule for rule in self.rules if not rule.fired)]

    def succeed(self, earlier: FaultPlan) -> None:
        """After a reset, remember the rules that never fired in the plan before the reset (`earlier`), except rules that are
        loaded again."""
        again = set(map(str, self.rules))
        self._unloaded_unfired += [rule for rule in earlier.unfired() if str(rule) not in again]

    def load_again(self, rules: Iterable[Rule]) -> None:
        """After a soft reset, load copies of the rules with which the broker was started, and use the first seed again.

        If an earlier copy of one of these rules never fired, this copy is forgotten.
        """
        self.reseed(self._first_seed)
        again = [self._load(rule.copy()) for rule in rules]
        kept = [rule for rule in self._unloaded_unfired if str(rule) not in map(str, again)]
        self._unloaded_unfired = deque(kept, REMEMBERED)

    def _changed(self) -> None:
        self.host.rules_loaded(bool(self.rules))
        self._keys = frozenset(KEYS[api] for rule in self.rules for api in rule.apis)

    def concerns(self, key: int) -> bool:
        """Tells whether requests of the API `key` must be passed to the plan. They must be passed if rules may match them, if
        they may have to wait, or if other requests may wait for them."""
        return key in self._keys or bool(self._held or self._waiting or self._seen_parts)

    def arrived(self, key: int) -> bool:
        """Remember that a request of the API `key` has arrived. Returns True if the request must be passed to the plan."""
        self._arrived[api_name(key)] += 1
        return self.concerns(key)

    def restarted(self) -> None:
        """Forget the delayed requests, which are lost because the brokers restart."""
        for held in self._held:
            self._lose(held.exchange)
        self._held.clear()
        self._lose_waiting(None)
        self._waiting.clear()
        self._seen_parts.clear()

    def killed(self, node_id: int) -> None:
        """Forget the delayed requests to a broker that was killed, and let the requests to other brokers that wait for them
        continue."""
        self._lose_waiting(node_id)
        for held in [each for each in self._held if each.exchange.node_id == node_id]:
            matches = _matches(held.exchange)
            self._forget(held)
            self._lose(held.exchange)
            if held.rule is matches.slow_rule:
                self._end_slow_write(matches.slow)
        self._release(self.host.now)

    def _lose_waiting(self, node_id: int | None) -> None:
        """Forget the requests to a broker, or to all brokers, that wait for a slow write or have just waited for one."""
        for waiting in (*self._waiting.values(), self._released):
            for each in [each for each in waiting if node_id in (None, each.exchange.node_id)]:
                waiting.remove(each)
                self._lose(each.exchange)

    def _lose(self, exchange: Planned) -> None:
        """Subtract the firings of the rules that have not acted on a request yet, because the request is lost."""
        matches = _matches(exchange)
        self.take_back(matches.before, [matched for matched, _ in matches.failing])
        matches.failing = []

    def left(self, exchange: Planned) -> None:
        """Forget the rules for the response of an exchange, because the client no longer waits for the response."""
        matches = _matches(exchange)
        self.take_back(matches.after, matches.wire)

    # Before there is a whole request

    def greet(self, connection: Connection, greeting: Greeting) -> None:
        """Apply the rules to a TLS handshake that begins. `connection` describes the connection that will exist after the
        handshake."""
        for rule in self.rules:
            matches = rule.injection_point is InjectionPoint.HANDSHAKE and rule.match.node in (None, connection.node_id)
            if matches and rule.greets(greeting) and rule.fires(self._random.random):
                rule.greet(greeting)
                self.host.trace.fired(greeting.now, connection, rule, rule.fired)

    def connected(self, connection: Connection, now: int) -> None:
        """Reset a new connection if a rule fires on it."""
        self._seen_parts = {known: rules for known, rules in self._seen_parts.items() if known.state is not CLOSED}
        for rule in self.rules:
            matches = rule.injection_point is InjectionPoint.CONNECTION and rule.match.node in (None, connection.node_id)
            if matches and rule.fires(self._random.random):
                self.host.trace.fired(now, connection, rule, rule.fired)
                self.host.close(connection, f"the fault {rule}", reset=True)
                return

    def arriving(self, connection: Connection, part: Buffer, now: int) -> None:
        """Close the connection if a rule fires on a request that has arrived only in part. `part` does not include the size
        field."""
        for rule in self.rules:
            if rule.injection_point is not InjectionPoint.ARRIVAL or rule.arrival_bytes > len(part) + SIZE_BYTES:
                continue
            seen = self._seen_parts.setdefault(connection, set())
            try:
                facts = facts_of_header(read_request_header(part), connection.node_id, connection.number)
            except (ProtocolError, KeyError):
                return
            if rule not in seen and rule.matching(facts):
                seen.add(rule)
                if rule.fires(self._random.random):
                    self._seen_parts.pop(connection)
                    self.host.trace.fired(now, connection, rule, rule.fired, facts)
                    self.host.close(connection, f"the fault {rule}")
                    return

    # Before it is handled

    def receive(self, request: Message, exchange: Planned, facts: Facts | None = None) -> None:
        """Apply the rules to a request that has arrived. Then handle the request, unless a rule prevents it.

        If the facts of the request are known already, `facts` has them. In this case the request's records are not in the
        connection's buffer.
        """
        owned = facts is not None
        facts = facts or facts_of(request, exchange)
        matches = exchange.matches = Matches(facts)
        lists = {InjectionPoint.RESPONSE: matches.after, InjectionPoint.WIRE: matches.wire}
        for matched in self._matched_rules(facts, exchange):
            lists.get(matched.rule.injection_point, matches.before).append(matched)
        if owned or matches.before or matches.after or matches.wire:
            exchange.frame = None  # the fast path must not compare the next request with this request
        self._proceed(request, exchange, exchange.now)

    def _matched_rules(self, facts: Facts, exchange: Planned) -> Iterator[MatchedRule]:
        seen = self._seen_parts.pop(exchange.connection, ())
        size = len(exchange.frame or b"") + SIZE_BYTES
        for rule in self.rules:
            if rule.injection_point is InjectionPoint.ARRIVAL and (rule in seen or rule.arrival_bytes > size):
                continue
            matching = rule.matching(facts)
            injection = [each for each in matching if rule.fires(self._random.random)]
            if not rule.seen:
                rule.note_miss(facts)
            if injection:
                yield MatchedRule(rule, partitions_of(injection, rule, facts), injection)

    def _proceed(self, request: Message, exchange: Planned, now: int) -> None:
        """Apply the remaining rules to a request. Then handle the request, unless a rule prevents it."""
        matches = _matches(exchange)
        while matches.before:
            matched = self._remaining(matches.before.pop(0), matches.gone)
            if not matched.batches:
                continue
            injection = self._injection(matched, request, exchange)
            if type(matched.rule).change is not Rule.change:
                self._change(injection)
                continue
            if not matched.rule.may_miss:
                self._trace(matched, exchange)
            decided = matched.rule.before(injection)
            if isinstance(decided, Outcome):
                if decided is not Outcome.PARKED:
                    self.take_back(matches.before, matches.after, matches.wire)
                return
            request = decided
        self._admit(request, exchange, now)

    def _injection(self, matched: MatchedRule, request: Message, exchange: Planned) -> _Injection:
        matches = _matches(exchange)
        return _Injection(request, exchange, matches.facts, matched.only, matched.batches, self, matched, matches)

    @staticmethod
    def _change(injection: _Injection) -> None:
        try:
            done = injection.matched.rule.change(injection)
        except NothingToChange:
            done = False
        if done is not None:
            injection.report(done)

    def _remaining(self, matched: MatchedRule, gone: Where = NOTHING) -> MatchedRule:
        """Returns the match without the partitions `gone`, which other rules have refused. Returns an empty match if the rule
        was unloaded."""
        remaining = matched.without(gone) if matched.rule in self.rules else matched._replace(batches=[])
        matched.rule.fired -= len(matched.batches) - len(remaining.batches)
        return remaining

    def report(self, matched: MatchedRule, exchange: Planned, done: bool) -> None:
        """Write to the trace that a rule has fired. If `done` is False, the rule found nothing to do, and the firing is
        subtracted instead."""
        if done:
            self._trace(matched, exchange)
        else:
            self.take_back([matched])

    def _trace(self, matched: MatchedRule, exchange: Planned) -> None:
        """Write the firings of a rule to the trace: one row for each matched batch, or one row for the request."""
        facts, before = _matches(exchange).facts, matched.rule.fired - len(matched.batches)
        for number, batch in enumerate(matched.batches, 1):
            several = batch is not None and len(matched.batches) > 1
            only = {(batch.topic, batch.partition)} if batch is not None and several else matched.only
            self.host.trace.fired(
                self.host.now, exchange.connection, matched.rule, before + number, facts, only, exchange.correlation_id, batch
            )

    @staticmethod
    def take_back(*fires: list[MatchedRule]) -> None:
        """Subtract the firings of rules that will not act."""
        for some in fires:
            for matched in some:
                matched.rule.fired -= len(matched.batches)
            some.clear()

    def _admit(self, request: Message, exchange: Planned, now: int) -> None:
        """Handle the request as soon as no slow write is in progress in its partitions. If its own write is slow, first wait
        until this write is done."""
        matches = _matches(exchange)
        wanted = {(batch.topic, batch.partition) for batch in matches.facts.batches} - matches.gone if self._waiting else ()
        before = next((each for each in sorted(wanted) if each in self._waiting), None)
        if before is not None:
            self._park(request, exchange)
            go_on = partial(self._resume, request, exchange, go_on=self._admit)
            self._waiting[before].append(_Waiting(exchange, go_on))
        elif matches.slow and matches.slow_rule is not None:
            for each in matches.slow:
                self._waiting[each] = []
            self._park(request, exchange)
            self.hold(matches.slow_rule, exchange, now + max(matches.slow.values()), partial(self._written, request, exchange))
        else:
            self._handle(request, exchange)

    def _written(self, request: Message, exchange: Planned, now: int) -> None:
        """Handle a request whose slow write is done, and then, in order, the requests that waited for this write."""
        self._end_slow_write(_matches(exchange).slow)
        self._resume(request, exchange, now, self._admit)
        self._release(now)

    def _end_slow_write(self, slow: dict[TopicPartition, int]) -> None:
        """End the slow writes in the partitions `slow`. The requests that waited for these writes are released."""
        for partition in slow:
            self._released += self._waiting.pop(partition)
        slow.clear()

    def _release(self, now: int) -> None:
        """Let the released requests continue."""
        while self._released:
            self._released.popleft().go_on(now)

    def _handle(self, request: Message, exchange: Planned) -> None:
        """Handle the request, and then the requests that waited for it."""
        matches = _matches(exchange)
        for _, where in matches.failing:
            self.broker.fail_write(where)
        exchange.handle(request)
        self._report_failed_writes(exchange)
        if matches.refused is not None and matches.facts.acks == 0:
            exchange.close(REFUSED_ACKS_0)
        if matches.crashes:
            self.broker.crash(exchange.node_id)
        if not exchange.alive:
            self.left(exchange)
        for held in [each for each in self._held if each.others and each.exchange.connection is not exchange.connection]:
            held.others -= 1
            if not held.others:
                self._let_go(held, self.host.now)

    def _report_failed_writes(self, exchange: Planned) -> None:
        """For each firing of a rule that makes a write fail, report whether the write was attempted. A duplicate is not
        written, so its write cannot fail."""
        matches = _matches(exchange)
        failing, matches.failing = matches.failing, []
        for matched, where in failing:
            self.report(matched, exchange, self.broker.write_failed(where))

    def at_unload(self, rule: Hashable, restore: Callable[[Hashable], None]) -> None:
        """Call `restore(rule)` once when the rule is unloaded, also if this method was called several times with `restore`."""
        self._at_unload.setdefault(rule, {})[restore] = None

    # Holding back

    def hold_request(self, rule: Rule, request: Message, exchange: Planned, *, ms: int = 0, others: int = 0) -> None:
        """Handle the request `ms` milliseconds later, or as soon as `others` requests of other connections have been
        handled."""
        self._park(request, exchange)
        go_on = partial(self._resume, request, exchange, go_on=self._proceed)
        if others:
            self._held.append(_Held(rule, exchange, go_on, others=others))
        else:
            self.hold(rule, exchange, exchange.now + ms, go_on)

    def hold(self, rule: Rule, exchange: Planned, until: int, go_on: Continue) -> None:
        """Call `go_on` at the time `until` (ms since the epoch), or when the rule is unloaded."""
        held = _Held(rule, exchange, go_on)
        held.timer = self.host.timers.at(until, lambda now: self._let_go(held, now))
        self._held.append(held)

    def _let_go(self, held: _Held, now: int) -> None:
        if self._forget(held):
            held.go_on(now)

    def _forget(self, held: _Held) -> bool:
        """Forget a delayed request. Returns False if the request was not delayed any more."""
        if held not in self._held:
            return False
        self._held.remove(held)
        if held.timer is not None:
            held.timer.cancel()
        return True

    @staticmethod
    def _park(request: Message, exchange: Planned) -> None:
        exchange.park()
        exchange.frame = None  # later requests will overwrite the buffer
        own_records(request)

    def _resume(self, request: Message, exchange: Planned, now: int, go_on: Callable[[Message, Planned, int], None]) -> None:
        """Continue a parked request. The request is handled even if its client has disconnected, because it was read
        completely."""
        connection = exchange.connection
        exchange.unpark()
        exchange.now = now
        go_on(request, exchange, now)
        if exchange.alive:  # perhaps the request gets no response
            self.host.emit(Respond(connection, []))  # send nothing, but let the connection's next request continue

    # After

    def on_response(self, response: Message, exchange: Planned) -> Message | None:
        """Apply the rules to a response before it is sent. Returns the response to send now, or None."""
        matches = _matches(exchange)
        self._report_failed_writes(exchange)
        if matches.crashes or not exchange.responds:
            self.left(exchange)
            return None
        if matches.refused is not None and type(response) is type(matches.refused):
            response, matches.refused = join(response, matches.refused), None
        for code, only in matches.overwrites:
            overwrite(response, code, only, exchange, matches.facts.partitions)
        matches.overwrites.clear()
        while matches.after:
            matched = self._remaining(matches.after.pop(0))
            if not matched.batches:
                continue
            if not matched.rule.may_miss:
                self._trace(matched, exchange)
            if not matched.rule.on_response(self._injection(matched, response, exchange), response):
                return None
        return response

    def send(self, parts: list[Buffer], exchange: Planned) -> None:
        """Send the bytes of a response, with the changes that rules make to these bytes."""
        connection, matches = exchange.connection, _matches(exchange)
        fires = [self._remaining(matched) for matched in matches.wire]
        matches.wire.clear()
        line = OutgoingResponse(sum(map(len, parts)), self._random.sample)
        for matched in fires:
            if matched.batches:
                self.report(matched, exchange, matched.rule.send(line))
        connection.halted = True
        self.host.emit(Shaped(connection, parts, line.shape))
        for ms, rule in line.closing:
            close = partial(self._close, connection, rule)
            if ms:
                self.host.timers.at(self.host.now + ms, close)
            else:
                close(self.host.now)

    def _close(self, connection: Connection, rule: Hashable, now: int) -> None:
        """Close the connection, unless the rule was unloaded before this time."""
        if rule in self.rules:
            self.host.close(connection, f"the fault {rule}")


@dataclass(slots=True)
class _Injection(Injection):
    """The plan's implementation of `Injection`, whose methods rules call."""

    exchange: Planned
    plan: FaultPlan
    matched: MatchedRule
    matches: Matches

    @property
    def broker(self) -> EngineBroker:
        return self.plan.broker

    def respond(self, response: Message) -> Outcome:
        self.plan.take_back(self.matches.before)
        self.matches.crashes = False  # nothing is written
        self.exchange.respond(response)
        return Outcome.PARKED

    def refuse(self, code: int, only: Where | None) -> Message | Outcome:
        request, exchange, matches = self.request, self.exchange, self.matches
        if matches.facts.api in READING:
            matches.overwrites.append((code, only))
            return request
        directory = exchange.directory
        if only is not None:
            refused = refuse(part_of(request, lambda *where: where in only, directory), code, exchange)
            if names_topics(refused, directory) and not named_in(request, directory) <= only:
                matches.refused = join(refused, matches.refused) if matches.refused else refused
                matches.gone |= only
                matches.slow = {where: ms for where, ms in matches.slow.items() if where not in only}
                return part_of(request, lambda *where: where not in only, directory)
        if matches.facts.acks == 0:
            return exchange.close(REFUSED_ACKS_0)
        return self.respond(refuse(request, code, exchange))

    def handle_later(self, ms: int) -> Outcome:
        self.plan.hold_request(self.matched.rule, self.request, self.exchange, ms=ms)
        return Outcome.PARKED

    def handle_after_others(self, others: int) -> Outcome:
        self.plan.hold_request(self.matched.rule, self.request, self.exchange, others=others)
        return Outcome.PARKED

    def respond_later(self, response: Message, ms: int) -> None:
        self.exchange.park()
        self.plan.hold(self.matched.rule, self.exchange, self.plan.host.now + ms, lambda _: self.exchange.respond(response))

    def lose_response(self, *, close: bool, reset: bool = False) -> bool:
        self.plan.left(self.exchange)
        if close:
            self.plan.host.close(self.exchange.connection, f"the fault {self.matched.rule}", reset=reset)
        else:
            self.exchange.connection.silence()
        return False

    def reset(self) -> Outcome:
        self.plan.host.close(self.exchange.connection, f"the fault {self.matched.rule}", reset=True)
        return Outcome.CLOSED

    def fail_write(self, batch: Batch) -> None:
        where, matched = (batch.topic, batch.partition), self.matched._replace(batches=[batch])
        if any(where == other for _, other in self.matches.failing):
            self.plan.report(matched, self.exchange, False)
        else:
            self.matches.failing.append((matched, where))

    def slow_write(self, batch: Batch, ms: int) -> None:
        slow, where = self.matches.slow, (batch.topic, batch.partition)
        slow[where] = slow.get(where, 0) + ms
        self.matches.slow_rule = self.matched.rule

    def crash(self) -> None:
        self.matches.crashes = True

    def at_unload(self, restore: Callable[[], None] | None) -> bool:
        if restore is not None:
            self.plan.at_unload(self.matched.rule, lambda _: restore())
        return restore is not None

    def report(self, done: bool) -> None:
        self.plan.report(self.matched, self.exchange, done)


def _matches(exchange: Planned) -> Matches:
    """Returns the rules that match a request. `receive` has stored them in the exchange."""
    assert exchange.matches is not None
    return exchange.matches
