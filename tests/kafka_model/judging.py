"""Plays a history on the model, and names the first response that Kafka's rules do not allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from kafka_model import classic, producers, transactions
from kafka_model.consumers import Consumers
from kafka_model.events import (
    Add,
    Batch,
    CommitOffsets,
    Describe,
    DescribeProducer,
    End,
    Event,
    Forget,
    Id,
    Init,
    Mark,
    Part,
    Produce,
    Where,
)
from kafka_model.history import Exchange, History
from kafka_model.possible import DONE, REFUSED, REPEATED, STORED, Outcome, Possible, refused
from kafka_model.producers import ANYBODY, NOBODY, Producer, Verification
from kafka_model.reading import events_of
from kafka_model.transactions import CONCURRENT, FENCED, OLD_EPOCH, ONGOING, UNKNOWN_ID, State, Transaction, fenced_for

RULED = frozenset({45, 46, 47, 48, 49, 51, 59, 90, 120})
"""Error codes that these rules judge. Other errors, such as NOT_LEADER_OR_FOLLOWER, have other reasons and change nothing."""
STORED_NEVERTHELESS = frozenset({7, 20})
HIDDEN = frozenset({3, 6, 29, 100})
"""Error codes for a partition that does not exist, is led by another broker, or may not be written by the client."""
NOT_ALLOWED = 53
TOO_FEW = 19
DAY = 86_400_000


class Refuted(NamedTuple):
    """The first response of a history that the rules do not allow."""

    exchange: Exchange
    about: str
    seen: Outcome
    allowed: list[Outcome]

    def __str__(self) -> str:
        rules = " or ".join(map(str, self.allowed)) or "nothing"
        return f"{self.exchange}\n  {self.about}: {self.seen}; the rules allow {rules}"


class Model:
    """A cluster as the rules see it. `prompt` tells whether the markers of a transaction are written before the next request is
    handled.
    """

    def __init__(self, *, prompt: bool = False, expiration_ms: int = DAY, id_expiration_ms: int = 7 * DAY) -> None:
        self.prompt, self.expiration_ms, self.id_expiration_ms = prompt, expiration_ms, id_expiration_ms
        self.partitions: defaultdict[Where, dict[Id, Possible[Producer]]] = defaultdict(dict)
        self.used: dict[tuple[Where, Id], int] = {}
        self.ends: defaultdict[Where, int] = defaultdict(int)
        self.emptied: set[Where] = set()
        self.ids: dict[str, Possible[State]] = {}
        self.ids_used: dict[str, int] = {}
        self.given: set[Id] = set()
        self.unknown_ids = self.lacks_replicas = False
        """The first tells whether unknown transactional ids may exist, which the history has not shown. The second tells
        whether brokers may be down.
        """
        self.now = 0
        self.refuted: list[tuple[str, Outcome, list[Outcome]]] = []

    # Events

    def see(self, event: Event, now: int) -> None:
        self.now = now
        self._pass()
        match event:
            case Produce():
                self._produce(event)
            case Init():
                self._init(event)
            case Add():
                self._add(event)
            case CommitOffsets():
                self._commit(event)
            case End():
                self._end(event)
            case Mark():
                self._mark(event)
            case Describe():
                self._describe(event)
            case DescribeProducer():
                self._describe_producer(event)
            case Forget():
                self._forget(event)

    def act(self, name: str, now: int) -> None:
        """Applies an event of the cluster without a request."""
        self.now = max(self.now, now)
        self._pass()
        self.lacks_replicas = self.lacks_replicas or name == "broker"
        for ids in self.ids.values():  # after loading, a coordinator does not know the former epoch
            ids.add(*(state._replace(last_epoch=-1) for state in ids.states if state is not None))
        for where, at in self.partitions.items():
            for known in at.values():
                known.change(Producer.restarted if name == "restart" else lambda _: ANYBODY)
                if where in self.emptied:  # the newest snapshot may lack the producer
                    known.add(NOBODY)
        if name not in ("restart", "broker"):  # any other act has put the cluster into an unknown state
            self.partitions.clear()
            self.ids.clear()
            self.ends.clear()
            self.unknown_ids = True

    def _forget(self, event: Forget) -> None:
        if event.only_records:
            self.emptied.update(where for where in self.partitions if where[0] == event.topic)
            return
        for where in [each for each in {*self.partitions, *self.ends} if each[0] == event.topic]:
            self.partitions.pop(where, None)
            self.ends.pop(where, None)
            self.emptied.discard(where)

    def _refute(self, about: str, seen: Outcome, allowed: list[Outcome]) -> None:
        self.refuted.append((about, seen, allowed))

    # Producers

    def _producer(self, where: Where, producer_id: Id) -> Possible[Producer]:
        known = self.partitions[where].setdefault(producer_id, Possible(NOBODY))
        if self.now - self.used.get((where, producer_id), self.now) >= self.expiration_ms:
            known.add(NOBODY, *(each._replace(verification=None) for each in known.states))
        return known

    def _produce(self, event: Produce) -> None:
        if event.acks == 0 or not event.parts:
            self._unanswered(event)
            return
        if event.transactional_id is not None and {part.code for part in event.parts} == {NOT_ALLOWED}:
            return
        transactional = [
            (part, batch) for part in event.parts for batch in part.batches if batch.transactional and part.code not in HIDDEN
        ]
        if transactional and event.transactional_id is None:
            for part in event.parts:
                if part.code in RULED | {0}:
                    self._refute(f"{part.where}", self._seen(part), [refused(NOT_ALLOWED)])
            return
        asking = [(part, batch) for part, batch in transactional if batch.verified]
        if len({(batch.producer_id, batch.epoch) for _, batch in asking}) > 1:
            return  # all partitions are refused
        verified = self._verify(event, [part for part, _ in asking])
        for part in event.parts:
            if len(part.batches) == 1:
                self._append(part, part.batches[0], event, verified)

    def _unanswered(self, event: Produce) -> None:
        """Handles a Produce without a response. Nobody knows whether the batches of this Produce are stored."""
        for part in event.parts:
            for batch in part.batches:
                if batch.checked:
                    known = self._producer(part.where, batch.producer_id)
                    known.add(*(each.stored(batch, None) for each in known.states))

    def _append(self, part: Part, batch: Batch, event: Produce, verified: dict[Where, set[int]]) -> None:
        if part.code is None and not batch.checked:
            return
        seen = self._seen(part)
        if not batch.checked:
            plain = batch.sound and part.code in RULED
            if seen.what == REPEATED or plain:
                self._refute(f"{part.where} ends at {self.ends[part.where]} or later", seen, [Outcome(STORED)])
            self._stored_at(part, batch, seen)
            return
        known = self._producer(part.where, batch.producer_id)
        if part.code is None or part.code in STORED_NEVERTHELESS:
            known.add(*(each.stored(batch, None if part.offset < 0 else part.offset) for each in known.states))
            return
        codes = verified.get(part.where, {0})
        if seen.what == REFUSED and (part.code not in RULED or part.code in codes) and not (
            part.code == TOO_FEW and batch.transactional and CONCURRENT not in codes and not self.lacks_replicas
        ):  # fmt: skip
            return
        if not batch.sound and seen.what == REFUSED:
            return
        allowed = [refused(code) for code in codes if code]
        if 0 in codes:
            told = known.see(lambda each: producers.append(each, batch, seen, True), seen)
            if not told:
                self._stored_at(part, batch, seen)
                self.used[part.where, batch.producer_id] = self.now
                return
            allowed += told
        self._refute(f"{part.where} {batch}", seen, allowed)

    def _seen(self, part: Part) -> Outcome:
        """Returns the outcome in the response. If the offset is before the log's end, the batch was stored before, so it is a
        retry."""
        if part.code:
            return refused(part.code)
        return Outcome(STORED if part.offset >= self.ends[part.where] else REPEATED, part.offset)

    def _stored_at(self, part: Part, batch: Batch, seen: Outcome) -> None:
        if seen.what == STORED:
            self.ends[part.where] = max(self.ends[part.where], part.offset + batch.count)

    def _verify(self, event: Produce, parts: list[Part]) -> dict[Where, set[int]]:
        """Checks whether the batches belong to the transaction. Returns the possible error codes for each partition."""
        found: dict[Where, set[int]] = {}
        asks: list[Part] = []
        for part in parts:
            (batch, *_) = part.batches
            known = self._producer(part.where, batch.producer_id)
            codes = _all_before_verification(known.states, batch)
            found[part.where] = {code for code in codes if code is not None}
            if None in codes:
                asks.append(part)
                known.change(lambda each, batch=batch: _awaiting(each, batch, event.version >= 12))
                self.used.setdefault((part.where, batch.producer_id), self.now)
        if asks:
            batch = asks[0].batches[0]
            for where, codes in self._ask(event, batch, asks).items():
                found[where] |= codes
        return found

    def _ask(self, event: Produce, batch: Batch, asks: list[Part]) -> dict[Where, set[int]]:
        known = self._id(event.transactional_id or "")
        if event.version < 12:
            codes = {part.where: {c for s in known.states for c in _verified(s, batch, part.where)} for part in asks}
            return {where: {_told(code, event.version) for code in found} for where, found in codes.items()}
        where = frozenset(part.where for part in asks)
        asked = Add(event.transactional_id or "", batch.producer_id, batch.epoch, 4, {})
        ways = [way for state in known.states for way in transactions.add(state, asked, where, self.now)]
        taken = [state for outcome, state in ways if outcome.what == DONE]
        answered = {part.code for part in asks}
        if taken and (len(taken) == len(ways) or 0 in answered) and answered <= RULED | {0}:
            known.states = tuple(dict.fromkeys(taken))
        elif taken and not (answered & {OLD_EPOCH, UNKNOWN_ID, CONCURRENT} and len(taken) < len(ways)):
            known.add(*taken)
        codes = {_told(int(str(o.detail or 0)), event.version) for o, _ in ways}
        return dict.fromkeys(where, codes)

    def _describe_producer(self, event: DescribeProducer) -> None:
        known = self._producer(event.where, event.producer_id)

        def holds(each: Producer) -> bool:
            same = (each.epoch, each.last, each.open_since) == (event.epoch, event.last_sequence, event.open_since)
            return same or each.vague

        if not known.keep(holds):
            told = Outcome("described", (event.epoch, event.last_sequence, event.open_since))
            self._refute(f"{event.where} producer {event.producer_id}", told,
                         [Outcome("described", (e.epoch, e.last, e.open_since)) for e in known.states])  # fmt: skip

    def _mark(self, event: Mark) -> None:
        for where, code in event.codes.items():
            known = self._producer(where, event.producer_id)

            def step(each: Producer, code: int | None = code) -> list[tuple[Outcome, Producer]]:
                if each.vague:
                    return [(Outcome(DONE), each.ended(event.epoch)), (Outcome(REFUSED), each)]
                error = producers.mark(each, event.epoch, event.strict)
                return [(refused(error), each)] if error else [(Outcome(DONE), each.ended(event.epoch)._replace(vague=False))]

            if code is not None and (code in RULED or not code):
                self._check(known, step, Outcome(DONE) if not code else refused(code), f"marker at {where}")

    # Transactions

    def _id(self, transactional_id: str) -> Possible[State]:
        known = self.ids.get(transactional_id)
        if known is None:
            known = self.ids[transactional_id] = Possible(None)
        if self.now - self.ids_used.get(transactional_id, self.now) >= self.id_expiration_ms:
            known.add(None)
        self.ids_used[transactional_id] = self.now
        return known

    def _pass(self) -> None:
        """Lets the coordinator do what it does by itself: abort each transaction some time after the transaction's timeout, and
        write markers that could not be written before, for example because a partition had no leader."""
        for known in self.ids.values():
            for state in known.states:
                if state is None:
                    continue
                if state.is_ending:
                    self._marked(state, known, perhaps=True)
                elif state.state == ONGOING and self.now - state.since >= state.timeout_ms:
                    known.add(*state.fenced())
                    for fenced in state.fenced():
                        self._marked(fenced, known, perhaps=True)

    def _marked(self, ending: Transaction, known: Possible[State], *, perhaps: bool = False) -> None:
        """Applies a transaction's markers. Also keeps the states without the markers, unless the markers are certainly
        written.
        """
        known.add(ending.completed())
        prompt = self.prompt and not perhaps
        if prompt:
            known.keep(lambda each: each is None or not each.is_ending)
        for where in ending.partitions:
            at = self._producer(where, ending.producer_id)
            ended = tuple(each.ended(ending.epoch) for each in at.states)
            plain = tuple(each._replace(verification=None) for each in ended)
            at.states = () if prompt else at.states
            at.add(*ended, *plain)
            if not perhaps:  # otherwise the markers may have been written long ago
                self.used[where, ending.producer_id] = self.now

    def _check(self, known: Possible, step: object, seen: Outcome, about: str) -> bool:
        allowed = known.see(step, seen)  # type: ignore[arg-type]
        if allowed:
            self._refute(about, seen, allowed)
        return not allowed

    def _init(self, event: Init) -> None:
        if event.transactional_id is None:
            new = [Outcome(DONE, ("a new id", 0))]
            if event.code == 0 and (event.producer_id in self.given or event.epoch):
                self._refute("InitProducerId", Outcome(DONE, (event.producer_id, event.epoch)), new)
            elif event.code in RULED:
                self._refute("InitProducerId", refused(event.code), new)
            self.given.add(event.producer_id)
            return
        known = self._id(event.transactional_id)
        step = lambda each: transactions.init(each, event)  # noqa: E731
        if event.code is None:
            known.add(*(state for each in known.states for _, state in step(each)))
            return
        if event.code and event.code not in RULED | {42, 50}:
            return
        seen = refused(event.code) if event.code else Outcome(DONE, (event.producer_id, event.epoch))
        renewed = Outcome(DONE, (None, 0))
        if event.code == 0 and event.epoch == 0:
            seen = renewed
        if self._check(known, step, seen, f"InitProducerId of {event.transactional_id}"):
            for state in known.states:
                if state is not None and state.is_ending:
                    self._marked(state, known)
            self.given.add(event.producer_id)

    def _add(self, event: Add) -> None:
        codes = {code for code in event.codes.values() if code is not None}
        if not codes or codes - RULED - {0}:
            return  # if one topic is unknown, for example, the coordinator adds no partition
        known = self._id(event.transactional_id)
        if event.verifies:
            for where, code in event.codes.items():
                allowed = {c for s in known.states for c in transactions.verify(s, event.producer_id, event.epoch, where)}
                if code not in allowed and not (code == 48 and 120 in allowed):
                    self._refute(f"{where}", refused(code or 0), [refused(each) for each in allowed])
            return
        if len(codes) > 1:
            self._refute(event.transactional_id, refused(max(codes)), [Outcome("the same for all partitions")])
        code = codes.pop()
        code = FENCED if code == OLD_EPOCH == fenced_for(event.version, 2) else code
        seen = refused(code) if code else Outcome(DONE)
        step = lambda each: transactions.add(each, event, frozenset(event.codes), self.now)  # noqa: E731
        self._check(known, step, seen, f"{event.transactional_id}")

    def _commit(self, event: CommitOffsets) -> None:
        known = self._id(event.transactional_id)
        at = self._producer(event.group, event.producer_id)
        asked = frozenset({event.group})
        states = [state for each in known.states for _, state in transactions.add(each, event, asked, self.now)]
        if event.code not in RULED | {0}:
            known.add(*(states if event.version >= 5 else ()))
            return
        batch = Batch(event.producer_id, event.epoch, -1, 1, transactional=True)
        codes = _all_before_verification(at.states, batch)
        if None in codes:
            codes.discard(None)
            if event.version >= 5:
                ways = [way for each in known.states for way in transactions.add(each, event, asked, self.now)]
                codes |= {int(str(outcome.detail or 0)) for outcome, _ in ways}
                if event.code == 0:
                    known.states = tuple(dict.fromkeys(s for o, s in ways if o.what == DONE)) or known.states
            else:
                codes |= {c for s in known.states for c in transactions.verify(s, event.producer_id, event.epoch, event.group)}
                codes |= {0} & {0 for s in known.states if s is not None and any(w[0] == event.group[0] for w in s.partitions)}
        told = {48 if code == 120 and event.version < 4 else _told(code or 0, 12) for code in codes}
        if event.code not in told:
            self._refute(f"{event.transactional_id}", refused(event.code or 0), [refused(each) for each in told])
        elif event.code == 0:
            at.change(lambda each: each.stored(batch, 0)._replace(last=-1, window=(), epoch=batch.epoch))

    def _end(self, event: End) -> None:
        known = self._id(event.transactional_id)
        step = lambda each: transactions.end(each, event)  # noqa: E731
        if event.code is None:
            known.add(*(state for each in known.states for _, state in step(each)))
            for state in known.states:
                if state is not None and state.is_ending:
                    self._marked(state, known)
            return
        if event.code and event.code not in RULED | {42}:
            return
        seen = refused(event.code) if event.code else Outcome(DONE, event.given)
        before = known.states
        if self._check(known, step, seen, f"EndTxn of {event.transactional_id}") and not event.code:
            if event.given is not None and event.given[0] != event.producer_id:
                known.change(lambda each: each and _with_new_id(each, event.given))
            for state in known.states if known.states != before else ():
                if state is not None and state.is_ending:
                    self._marked(state, known)
            if event.given is not None:
                known.change(lambda each: each and _with_new_id(each, event.given))

    def _describe(self, event: Describe) -> None:
        known = self._id(event.transactional_id)

        def holds(state: State) -> bool:
            if state is None or event.state is None:
                return state is None and event.state is None
            return state.state == event.state and state.producer_id in (event.producer_id, "a new id") and (
                event.epoch in (None, state.epoch)
            )  # fmt: skip

        if not known.keep(holds) and not self.unknown_ids:
            told = Outcome("described", (event.state, event.producer_id, event.epoch))
            self._refute(event.transactional_id, told, [Outcome("described", each) for each in known.states])


def _with_new_id(state: Transaction, given: tuple[Id, int] | None) -> Transaction:
    return state._replace(producer_id=given[0]) if given is not None and state.producer_id == "a new id" else state


def _before_verification(producer: Producer, batch: Batch) -> int | None:
    """Returns the error that the partition finds before it asks the coordinator. Returns 0 if the partition need not ask the
    coordinator, and None if it must ask."""
    if batch.epoch < producer.epoch:
        return OLD_EPOCH
    return 0 if producer.is_open and batch.epoch == producer.epoch else None


def _all_before_verification(states: Iterable[Producer], batch: Batch) -> set[int | None]:
    """Returns the results of `_before_verification` for all possible states. A producer whose state is unknown may have any
    epoch, and an open transaction."""
    codes = {_before_verification(each, batch) for each in states}
    return codes | ({OLD_EPOCH, 0, None} if any(each.vague for each in states) else set())


def _awaiting(producer: Producer, batch: Batch, implicit: bool) -> Producer:
    if _before_verification(producer, batch) is not None:
        return producer
    awaited = producer.verification or Verification(batch.sequence, batch.epoch, implicit)
    return producer._replace(verification=awaited.seeing(batch))


def _verified(state: State, batch: Batch, where: Where) -> tuple[int, ...]:
    return transactions.verify(state, batch.producer_id, batch.epoch, where)


def _told(code: int, version: int) -> int:
    """Returns the code that the client gets if the coordinator's response to the partition has `code`."""
    if code == FENCED:
        return OLD_EPOCH
    if code == CONCURRENT and version < 12:
        return TOO_FEW
    return 48 if code == 120 and version < 11 else code


def judge(history: History, *, checks_ms: int = 1, **options: bool | int) -> Refuted | None:
    """Returns the first response of the history that the rules do not allow, or None. The default of `checks_ms` is right for
    each interval (`classic.Groups`)."""
    model, groups, members = Model(**options), classic.Groups(checks_ms), Consumers()  # type: ignore[arg-type]
    exchanges = [each for each in history if isinstance(each, Exchange)]
    following = iter([*exchanges[1:], None])
    for each in history:
        if not isinstance(each, Exchange):
            model.act(each.name, each.now)
            groups.forget()
            members.forget()
            continue
        for event in events_of(each):
            model.see(event, each.now)
        if model.refuted:
            return Refuted(each, *model.refuted[0])
        try:
            groups.see(each, next(following))
            members.see(each)
        except classic.Wrong as wrong:
            return Refuted(wrong.exchange, f"at request {each.asked}", Outcome("this"), [Outcome(wrong.allowed)])
    return None
