"""What if the rules had been others: the arrivals of a trace, judged again.

The stored log gives every window the same verdict, so what is judged are the arrivals, accepted or not, by the same
`judge` as the broker's. They are what the client sent after the answers that it got: behind the first batch of a
producer that would have been answered otherwise, it would have sent something else. `beyond` counts those.

    for each in what_if(kafka.trace.produce("orders"), windows=(1, 2, 5, 10)):
        print(each)

Not asked again is what does not depend on the rules: batches that were refused for their records, for their transaction,
or because a write failed keep their verdict. Restarts are not in the arrivals; that a producer expired shows as the
time between two of its batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkawire.batches import BatchHeader
from wirebroker.audit.checks import EXPIRATION_MS
from wirebroker.core.producers import Accept, Duplicate, Key, Reject, Verdict, advance, judge, last_timestamp, poison
from wirebroker.core.profile import Rules, profile
from wirebroker.trace.rows import ProduceRow, VerdictName

WINDOWS = (1, 2, 5, 10)
_JUDGED = frozenset(
    {"epoch_fenced", "unissued_producer_id", "first_not_zero", "refused_until_new_id", "new_epoch_not_zero", "gap",
     "before_window", "overlap"}
)  # fmt: skip
"""The rules by which `judge` rejects for an epoch or a sequence; other rejections do not depend on the profile."""


@dataclass(slots=True)
class WhatIf:
    """What would have become of the arrivals under these rules. Counts are of batches, unless they say records."""

    rules: Rules
    accepted: int = 0
    recognised: int = 0
    rejected: int = 0
    beyond: int = 0
    """arrivals behind a batch of the same producer that would have been answered otherwise; counted above as well"""
    records: int = 0
    """how many would be stored"""
    state_bytes: int = 0
    """what the validator remembers in the end, of all producers"""
    saved: list[ProduceRow] = field(default_factory=list)
    """retries that were not recognised and would have been"""
    lost: list[ProduceRow] = field(default_factory=list)
    """batches that were accepted or recognised and would have been rejected"""
    doubled: list[ProduceRow] = field(default_factory=list)
    """retries that were recognised and would have been stored again"""

    def __str__(self) -> str:
        return (
            f"{self.rules.name} with a window of {self.rules.window}: {self.accepted} accepted, {self.recognised} recognised "
            f"as retries, {self.rejected} rejected; {self.records} records stored; {len(self.saved)} retries saved, "
            f"{len(self.lost)} batches lost, {len(self.doubled)} doubled; {self.state_bytes} bytes remembered"
        )


def what_if(
    arrivals: Iterable[ProduceRow], *, windows: Sequence[int] = WINDOWS, profiles: Sequence[str] = ("kafka-4.3",),
    expiration_ms: int = EXPIRATION_MS,
) -> list[WhatIf]:  # fmt: skip
    """Judge the arrivals, oldest first, again under each of these profiles with each of these windows."""
    rows = list(arrivals)
    return [
        replay(rows, profile(name, window=window), expiration_ms=expiration_ms)
        for name in profiles
        for window in windows
    ]


def replay(arrivals: Iterable[ProduceRow], rules: Rules, *, expiration_ms: int = EXPIRATION_MS) -> WhatIf:
    """Judge the arrivals, oldest first, again under these rules."""
    result = WhatIf(rules)
    states: dict[tuple[str, int, Key], bytes] = {}
    ends: dict[tuple[str, int], int] = {}
    diverged: set[tuple[str, int, Key]] = set()
    for row in arrivals:
        place = (row.topic, row.partition)
        key = (*place, _key(row, rules))
        result.beyond += key in diverged
        state = states.get(key)
        if state is not None and row.time - last_timestamp(state) >= expiration_ms:
            state = None
        header = _header(row)
        end = ends.get(place, 0)
        verdict = _verdict(row, header, state, rules, end)
        name = _name(verdict, row)
        if isinstance(verdict, Accept):
            ends[place] = end + row.records
            if verdict.rule != "no_producer":
                states[key] = advance(state, header, end, row.time, rules)
        elif isinstance(verdict, Reject) and verdict.poisons and state is not None:
            states[key] = poison(state)
        _count(result, row, name)
        if name != row.verdict:
            diverged.add(key)
    result.state_bytes = sum(map(len, states.values()))
    return result


def _key(row: ProduceRow, rules: Rules) -> Key:
    return row.client_id or "" if rules.key == "client_id" else row.producer_id


def _header(row: ProduceRow) -> BatchHeader:
    """The header as far as the judge reads it. A transaction is none of its questions here."""
    return BatchHeader(
        0, row.bytes, -1, 2, 0, 0, row.records - 1, row.time, row.time, row.producer_id, row.producer_epoch,
        row.first_sequence, row.records,
    )  # fmt: skip


def _verdict(row: ProduceRow, header: BatchHeader, state: bytes | None, rules: Rules, end: int) -> Verdict | None:
    """The verdict under these rules; None if it is not theirs to decide."""
    if row.verdict == "rejected" and row.rule not in _JUDGED:
        return None
    if row.first_sequence < 0 or (row.producer_id < 0 and rules.key == "producer_id"):
        return Accept(end, "no_producer")
    return judge(state, header, rules, end, issued=row.rule != "unissued_producer_id")


def _name(verdict: Any, row: ProduceRow) -> VerdictName:
    if verdict is None:
        return row.verdict
    if isinstance(verdict, Accept):
        return "accepted"
    return "duplicate" if isinstance(verdict, Duplicate) else "rejected"


def _count(result: WhatIf, row: ProduceRow, name: VerdictName) -> None:
    if name == "accepted":
        result.accepted += 1
        result.records += row.records
        if row.verdict == "duplicate":
            result.doubled.append(row)
    elif name == "duplicate":
        result.recognised += 1
        if row.verdict != "duplicate":
            result.saved.append(row)
    else:
        result.rejected += 1
        if row.verdict != "rejected":
            result.lost.append(row)
