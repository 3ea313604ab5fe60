"""Anomalies in the values that clients have sent and read. Adya defined the names that begin with G, which Elle also uses. The
audit uses the other names.

    duplicate         a value is read at two offsets, or on two partitions
    lost              a value that was acknowledged or committed is missing at an offset that a reader has passed
    two_values        two values are read at one offset
    unacknowledged_stored   a value is read although its sending has failed for good
    G0                two transactions of one transactional id are in opposite orders on two partitions
    G1a               an aborted value is read
    G1b               a value is read before its transaction ends
    G1c               transactions have read each other's values, in a circle
    read_skew         a transaction reads one value of another transaction, but misses a value at an offset that it has passed
    processed_twice   two committed transactions have read the same input for the same group

Only readers of committed records count for G1a, G1b, G1c and read_skew. Values must be unique. Kafka does not promise an order
between transactions of different ids, so G0 compares only transactions of the same id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from kafka_model.events import Where


class Send(NamedTuple):
    value: str
    where: Where
    acknowledged: bool | None = True
    """True if the value was acknowledged, False if its sending has failed for good, and None if nobody knows."""
    offset: int | None = None
    transaction: str | None = None


class Transaction(NamedTuple):
    name: str
    producer: str
    """The transactional id."""
    committed: bool | None
    """None if the transaction has not ended, or if nobody knows how it ended."""
    ended: int = -1
    """The time at which the producer asked for the end of the transaction, or −1."""


class Poll(NamedTuple):
    """The records that a reader got from a partition: all from `first` up to `end`, at which the next poll begins."""

    where: Where
    first: int
    end: int
    records: tuple[tuple[int, str], ...]
    committed: bool = True
    time: int = 0
    transaction: str | None = None
    """The transaction in which the reader processes these records."""
    group: str | None = None


class Anomaly(NamedTuple):
    kind: str
    sentence: str


class Observed:
    """The values that clients have sent and read. `places` has the places of each value, and `values` has the values at each
    place.
    """

    def __init__(self, sends: Iterable[Send], transactions: Iterable[Transaction], polls: Iterable[Poll]) -> None:
        self.sends = {each.value: each for each in sends}
        self.transactions = {each.name: each for each in transactions}
        self.polls = sorted(polls, key=lambda each: each.time)
        self.places: defaultdict[str, dict[tuple[Where, int], None]] = defaultdict(dict)
        self.values: defaultdict[tuple[Where, int], dict[str, None]] = defaultdict(dict)
        self.parts: defaultdict[str, list[Send]] = defaultdict(list)
        for poll in self.polls:
            for offset, value in poll.records:
                self.places[value][poll.where, offset] = None
                self.values[poll.where, offset][value] = None
        for send in self.sends.values():
            if send.transaction is not None:
                self.parts[send.transaction].append(send)

    def offset_of(self, send: Send) -> int | None:
        """Returns the offset at which a reader has read the value. If no reader has read it, returns the offset that the
        Produce response has."""
        read = next((offset for where, offset in self.places[send.value] if where == send.where), None)
        return read if read is not None else send.offset

    def outcome(self, send: Send) -> bool | None:
        """Returns True if the value must be read, False if it must not be read, and None if both are possible."""
        if send.transaction is None or send.acknowledged is False:
            return send.acknowledged
        found = self.transactions.get(send.transaction)
        committed = None if found is None else found.committed
        return committed and send.acknowledged

    def reads(self) -> Iterator[tuple[Poll, Send]]:
        """Yields each transactional value that a reader of committed records has read, and the poll that read this value."""
        for poll in self.polls:
            for _, value in poll.records if poll.committed else ():
                if (send := self.sends.get(value)) is not None and send.transaction is not None:
                    yield poll, send


def anomalies(
    sends: Iterable[Send], transactions: Iterable[Transaction], polls: Iterable[Poll], begins: Mapping[Where, int] | None = None
) -> list[Anomaly]:
    """Returns the anomalies. `begins` has the first offsets of partitions from which records were deleted."""
    seen = Observed(sends, transactions, polls)
    checks = (_duplicates, _two_values, _failed, _aborted, _early, _write_cycles, _read_cycles, _skews, _processed_twice)
    found = [anomaly for check in checks for anomaly in check(seen)]
    return found + list(_lost(seen, begins or {}))


def _duplicates(seen: Observed) -> Iterator[Anomaly]:
    for value, places in seen.places.items():
        if len(places) > 1:
            yield Anomaly("duplicate", f"{value} is at {' and at '.join(map(_at, places))}")


def _two_values(seen: Observed) -> Iterator[Anomaly]:
    for place, values in seen.values.items():
        if len(values) > 1:
            yield Anomaly("two_values", f"at {_at(place)} readers have read {' and '.join(values)}")


def _failed(seen: Observed) -> Iterator[Anomaly]:
    for value, places in seen.places.items():
        send = seen.sends.get(value)
        if send is not None and send.acknowledged is False:
            yield Anomaly("unacknowledged_stored", f"the sending of {value} has failed, but it is at {_at(next(iter(places)))}")


def _lost(seen: Observed, begins: Mapping[Where, int]) -> Iterator[Anomaly]:
    """A value counts as lost only if a reader has passed its offset. Otherwise, nobody knows whether the value is stored."""
    covered: defaultdict[Where, list[tuple[int, int]]] = defaultdict(list)
    for poll in seen.polls:
        covered[poll.where].append((poll.first, poll.end))
    for send in seen.sends.values():
        if not seen.outcome(send) or seen.places[send.value]:
            continue
        offset = -1 if send.offset is None else send.offset
        reached = any(first <= offset < end for first, end in covered[send.where])
        if reached and offset >= begins.get(send.where, 0):
            yield Anomaly("lost", f"{send.value} was acknowledged at {_at((send.where, offset))}, but is not there")


def _aborted(seen: Observed) -> Iterator[Anomaly]:
    for poll, send in seen.reads():
        found = seen.transactions.get(send.transaction or "")
        if found is not None and found.committed is False:
            yield Anomaly("G1a", f"{send.value} of the aborted transaction {found.name} was read from {_name(poll.where)}")


def _early(seen: Observed) -> Iterator[Anomaly]:
    for poll, send in seen.reads():
        found = seen.transactions.get(send.transaction or "")
        if found is not None and found.committed is not False and (found.ended < 0 or poll.time < found.ended):
            yield Anomaly("G1b", f"{send.value} was read before the transaction {found.name} ended")


def _write_cycles(seen: Observed) -> Iterator[Anomaly]:
    by_producer: defaultdict[str, list[Transaction]] = defaultdict(list)
    for each in seen.transactions.values():
        by_producer[each.producer].append(each)
    for of_one in by_producer.values():
        for one, other in combinations(of_one, 2):
            orders = set(_orders(seen, one, other))
            if len(orders) > 1:
                yield Anomaly("G0", f"the values of {one.name} and {other.name} are in different orders on their partitions")


def _orders(seen: Observed, one: Transaction, other: Transaction) -> Iterator[bool]:
    """For each partition, compares each value of the first transaction with each value of the second. Yields whether the first
    transaction's value is before the second's."""
    places = [
        [(send.where, offset) for send in seen.parts[each.name] if (offset := seen.offset_of(send)) is not None]
        for each in (one, other)
    ]
    for where, offset in places[0]:
        yield from (offset < later for place, later in places[1] if place == where)


def _read_cycles(seen: Observed) -> Iterator[Anomaly]:
    read_from: defaultdict[str, set[str]] = defaultdict(set)
    for poll, send in seen.reads():
        if poll.transaction is not None and send.transaction not in (None, poll.transaction):
            read_from[poll.transaction].add(send.transaction or "")
    for start in sorted(read_from):
        way = _way(read_from, start)
        if way and min(way) == start:
            yield Anomaly("G1c", f"each has read from the next, in a circle: {', '.join(way)}")


def _way(read_from: Mapping[str, set[str]], start: str) -> list[str]:
    """Returns a circle of transactions that begins with `start`, or an empty list."""
    ways = [[start]]
    known: set[str] = set()
    while ways:
        way = ways.pop()
        for following in sorted(read_from.get(way[-1], ())):
            if following == start:
                return way
            if following not in known:
                known.add(following)
                ways.append([*way, following])
    return []


def _skews(seen: Observed) -> Iterator[Anomaly]:
    by_reader: defaultdict[str, list[Poll]] = defaultdict(list)
    for poll in seen.polls:
        if poll.transaction is not None and poll.committed:
            by_reader[poll.transaction].append(poll)
    for reader, polls in by_reader.items():
        read = {value for poll in polls for _, value in poll.records}
        met = {seen.sends[value].transaction for value in read if value in seen.sends} - {None, reader}
        for name in sorted(filter(None, met)):
            missed = [send for send in seen.parts[name] if send.value not in read and _passed(seen, send, polls)]
            if missed:
                yield Anomaly("read_skew", f"{reader} has read a part of {name}, but not {missed[0].value}")


def _passed(seen: Observed, send: Send, polls: Sequence[Poll]) -> bool:
    offset = seen.offset_of(send)
    return offset is not None and any(poll.where == send.where and poll.first <= offset < poll.end for poll in polls)


def _processed_twice(seen: Observed) -> Iterator[Anomaly]:
    done: dict[tuple[str, Where, int], str] = {}
    for poll in seen.polls:
        found = seen.transactions.get(poll.transaction or "")
        if found is None or not found.committed or poll.group is None:
            continue
        for offset, value in poll.records:
            first = done.setdefault((poll.group, poll.where, offset), found.name)
            if first != found.name:
                yield Anomaly("processed_twice", f"{first} and {found.name} have read {value} for {poll.group}")


def _name(where: Where) -> str:
    return f"{where[0]}-{where[1]}"


def _at(place: tuple[Where, int]) -> str:
    return f"offset {place[1]} of {_name(place[0])}"
