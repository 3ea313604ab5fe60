"""Decides where a producer's run continues and where it ends. No Spark or I/O.

A *run* is an unbroken stretch of one producer's batches. Each batch continues the sequence, or starts a newer epoch with
sequence 0. The offsets rise, and no pause is so long that the broker forgets the producer. A marker belongs to the run whose
transaction it ends. A healthy log has few runs, even if it has many batches and transactions, so the checks look at runs first.

The function `follows` decides whether a run continues. The *events* of `follows` are batches while a piece is read, and whole
runs when runs of several pieces are joined. A run may always be divided, because each check has the same findings for two parts
of a run as for the whole run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkawire.batches import CONTROL, TRANSACTIONAL
from wirebroker.audit.findings import EXPIRATION_MS, INTERNAL_TOPICS
from wirebroker.audit.rules import Rules

Array = np.ndarray[Any, Any]
FIELDS = (
    "producer_id", "kind", "first_epoch", "first_sequence", "first_offset", "first_timestamp",
    "last_epoch", "last_offset", "last_timestamp", "data_epoch", "data_sequence", "is_closed", "run",
)  # fmt: skip
"""The fields of an event. `kind`: transactional and control, as in the attributes of the first batch; or `DAMAGED` · `data_…`:
epoch and last sequence of the last batch that is not a marker · `is_closed`: whether the last batch is a marker that ended a
transaction."""
_COLUMN = {name: column for column, name in enumerate(FIELDS)}
DAMAGED = 1 << 16
REMEMBERED = 200_000
"""A `Linker` keeps this many runs that may continue. A run ends when the linker no longer keeps it."""
NO_RUN = 0xFFFF_FFFF
"""A batch without a sequence belongs to no run: the low 32 bits of its `run` have this value."""


class ArrayRules(Rules):
    """The rules for NumPy arrays."""

    def choose(self, condition: Any, yes: Any, no: Any) -> Array:
        result: Array = np.where(condition, yes, no)
        return result

    def modulo(self, number: Any, divisor: int) -> Array:
        result: Array = number & (divisor - 1)  # faster than a division; the divisors are powers of two
        return result


RULES = ArrayRules()


class Events:
    """Batches, or whole runs, by columns: `events[field]` has 64-bit integers, one for each event."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Array) -> None:
        self._columns = columns
        """shape (fields, events), so that the values of a field lie side by side in memory"""

    @classmethod
    def zeros(cls, count: int) -> Events:
        """Returns `count` events with 0 in each field."""
        return cls(np.zeros((len(FIELDS), count), np.int64))

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, field: str) -> Array:
        column: Array = self._columns[_COLUMN[field]]
        return column

    def __setitem__(self, field: str, values: Array | int) -> None:
        self._columns[_COLUMN[field]] = values

    def at(self, chosen: Array | slice) -> Events:
        """Returns the events at these indexes, or the events for which a mask is true. A slice shares memory with this
        object."""
        if isinstance(chosen, slice):
            return Events(self._columns[:, chosen])
        return Events(self._columns.take(np.flatnonzero(chosen) if chosen.dtype == bool else chosen, axis=1))

    def followed_by(self, other: Events) -> Events:
        """Returns the events of this object, followed by the events of `other`."""
        return Events(np.concatenate([self._columns, other._columns], axis=1))


def stable_order(producers: Array) -> Array:
    """Returns the indexes of the events, ordered by producer; the events of a producer keep their order."""
    low = producers.min()
    if producers.max() - low < 1 << 16:  # NumPy sorts integers of 16 bits in a fraction of the time
        producers = (producers - low).astype(np.uint16)
    return np.argsort(producers, kind="stable")


def is_among(values: Array, ordered: Array) -> Array:
    """Tells for each value whether it is among the values of `ordered`; `ordered` must not be empty."""
    found: Array = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found


def follows(seen: Events, expiration_ms: int, numbered: bool, together: Array | None = None) -> Array:
    """Tells for each event whether it continues the run of the event before it. Events are ordered by producer, then by the
    log.

    `numbered`: whether the producers of this topic number their batches · `together`: the number of the event's stretch of the
    log; no run crosses from one stretch into another.
    """
    result = np.zeros(len(seen), bool)
    if len(seen) < 2:
        return result
    before, each = seen.at(slice(None, -1)), seen.at(slice(1, None))
    beside = (each["producer_id"] == before["producer_id"]) & (each["first_offset"] > before["last_offset"])
    beside &= ~np.asarray(RULES.is_epoch_regression(each["first_epoch"], before["last_epoch"]))
    if together is not None:
        beside &= together[1:] == together[:-1]
    is_open = (before["kind"] == TRANSACTIONAL) & (before["is_closed"] == 0)
    ends = beside & is_open & _is_control(each["kind"])
    result[1:] = ends
    data = before
    markers = _is_control(before["kind"])
    if markers.any():
        at = np.arange(len(each))
        data = seen.at(np.where(markers, at - 1, at))  # the index −1 of the first event is not used
    goes_on = np.ones(len(each), bool)
    if numbered:
        goes_on = RULES.continues(data["data_epoch"], data["data_sequence"], each["first_epoch"], each["first_sequence"])
        goes_on &= (data["data_epoch"] >= 0) | (each["first_epoch"] == data["data_epoch"])
    pause = each["first_timestamp"] - before["last_timestamp"]
    result[1:] |= (
        beside & (_is_data(before["kind"]) | result[:-1]) & (each["kind"] == data["kind"]) & _is_data(each["kind"])
        & goes_on & ~np.asarray(RULES.is_forgotten(pause, expiration_ms, ~is_open))
    )  # fmt: skip
    return result


def _is_control(kind: Array) -> Array:
    result: Array = kind & CONTROL != 0
    return result


def _is_data(kind: Array) -> Array:
    result: Array = kind & (CONTROL | DAMAGED) == 0
    return result


def is_numbered(topic: str) -> bool:
    """Tells whether producers number their batches in this topic. In internal topics, the coordinators do not number their
    batches."""
    return topic not in INTERNAL_TOPICS


class Linker:
    """Numbers the runs of a piece and keeps the last offset; it takes the batches in log order."""

    def __init__(self, number: int, topic: str, expiration_ms: int = EXPIRATION_MS) -> None:
        self._high = number << 32
        self._expiration_ms = expiration_ms
        self._numbered = is_numbered(topic)
        self._runs = 0
        self._known = Events.zeros(0)
        """the runs that may continue"""
        self._last_offset = -1
        self._reach = -1
        """the highest last offset of a sound batch, or −1 before the first sound batch"""
        self._after_damage = False

    @property
    def next_offset(self) -> int:
        """The expected next offset, 0 before the first batch."""
        return self._last_offset + 1

    def start_at(self, offset: int) -> None:
        """Set the expected offset of the first batch."""
        self._last_offset = offset - 1

    def damaged(self, producer_id: int) -> None:
        """End the run of this producer, because no batch can be read at this place. `producer_id` comes from the remains of the
        batch's header; it is −1 if the producer is unknown."""
        self._after_damage = True
        self._known = self._known.at(self._known["producer_id"] != producer_id)

    def last_offsets_before(self, last: Array) -> Array:
        """Returns the last offset before each sound batch: the last offset of the previous batch."""
        before = np.empty_like(last)
        before[1:] = last[:-1]
        before[:1] = self._last_offset
        if len(last):
            self._last_offset = int(last[-1])
        return before

    def missing_before(self, base: Array, last: Array, sound: Array) -> tuple[Array, Array]:
        """Returns the number of offsets that are missing before each batch, and whether there is damage before the batch."""
        missing, after_damage = np.zeros(len(base), np.int64), np.zeros(len(base), bool)
        at = np.flatnonzero(sound)
        damaged = np.diff(at, prepend=-1) > 1
        if len(at):
            reach = np.maximum.accumulate(np.append(self._reach if self._reach >= 0 else base[at[0]] - 1, last[at]))
            missing[at] = np.maximum(base[at] - reach[:-1] - 1, 0)
            damaged[0] |= self._after_damage
            after_damage[at] = damaged
            self._reach = int(reach[-1])
            self._after_damage = False
        self._after_damage |= bool(len(base)) and not sound[-1]
        return missing, after_damage

    def runs(self, rows: Array, last_offsets: Array, last_sequences: Array, sound: Array) -> Array:
        """Returns the run of each batch that has a producer. A damaged batch has no run, and ends its producer's run."""
        result = np.full(len(rows), self._high | NO_RUN, np.int64)
        numbered = np.flatnonzero(rows["producer_id"] >= 0)
        if not len(numbered):
            return result
        chosen = numbered if len(numbered) < len(rows) else slice(None)  # a slice copies nothing
        producers = rows["producer_id"][chosen].astype(np.int64)
        order = stable_order(producers)
        ordered = producers[order]
        mine = is_among(self._known["producer_id"], ordered)
        known = self._known.at(mine)
        seen = known.followed_by(Events.zeros(len(numbered)))
        here = seen.at(slice(len(known), None))
        for name, source in (
            ("first_epoch", "producer_epoch"), ("last_epoch", "producer_epoch"),
            ("data_epoch", "producer_epoch"), ("first_sequence", "base_sequence"), ("first_offset", "base_offset"),
            ("first_timestamp", "max_timestamp"), ("last_timestamp", "max_timestamp"),
        ):  # fmt: skip
            here[name] = rows[source][chosen]
        here["data_sequence"], here["last_offset"] = last_sequences[chosen], last_offsets[chosen]
        here["kind"] = np.where(sound[chosen], rows["attributes"][chosen] & (TRANSACTIONAL | CONTROL), DAMAGED)
        here["producer_id"], here["run"] = producers, -1
        first = np.searchsorted(ordered, known["producer_id"])
        order = np.insert(order + len(known), first, np.arange(len(known)))
        seen = seen.at(order)
        continues = follows(seen, self._expiration_ms, self._numbered)
        heads = np.flatnonzero(~continues & (seen["run"] < 0) & (seen["kind"] != DAMAGED))
        seen["run"][heads] = np.arange(self._runs, self._runs + len(heads))
        self._runs += len(heads)
        head_of = np.maximum.accumulate(np.where(seen["run"] >= 0, np.arange(len(seen)), 0))
        seen["run"] = np.where(seen["kind"] == DAMAGED, -1, seen["run"][head_of])
        may_go_on = _that_may_go_on(seen, continues)
        self._known = self._known.at(~mine).followed_by(may_go_on).at(slice(-REMEMBERED, None))
        run = np.empty(len(seen), np.int64)
        run[order] = seen["run"]
        run = run[len(known) :]
        result[numbered[run >= 0]] = self._high | run[run >= 0]
        return result


def _that_may_go_on(seen: Events, continues: Array) -> Events:
    """Returns each producer's last run as one event. The last batch of the event is data, or a marker that ended a transaction
    in the run."""
    ends = np.append(np.flatnonzero(seen["producer_id"][1:] != seen["producer_id"][:-1]), len(seen) - 1)
    ends = ends[_is_data(seen["kind"][ends]) | (_is_control(seen["kind"][ends]) & continues[ends])]
    closed = _is_control(seen["kind"][ends])
    result = seen.at(ends)
    for name in ("kind", "data_epoch", "data_sequence"):
        result[name] = np.where(closed, seen[name][ends - 1], result[name])
    result["is_closed"] |= closed
    return result
