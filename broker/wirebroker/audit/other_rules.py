"""What if the broker had other rules? This module judges the arrivals of a trace again.

The broker's own `judge` looks at all arrivals, including rejected batches. The stored batches alone would not be enough: they
get the same verdict with every window. If the client had got another response, it would then have sent other batches. `beyond`
counts the arrivals after the first changed verdict on a batch of the same producer.

    for each in what_if(kafka.trace.produce("orders"), windows=(1, 2, 5, 10)):
        print(each)

Some verdicts do not depend on the rules, and do not change: a batch stays rejected if it was rejected for its records or for
its transaction, or because a write failed. The arrivals do not show restarts of the broker. A long pause between two batches of
a producer means that the producer has expired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wirebroker.audit.findings import EXPIRATION_MS, WINDOWS
from wirebroker.audit.validator import COUNTS, Validator
from wirebroker.core.profile import DEFAULT_PROFILE, Rules, profile
from wirebroker.trace.rows import ProduceRow


@dataclass(slots=True)
class WhatIf:
    """The outcome of the arrivals under other rules. Except for `records` and `state_bytes`, all counts are numbers of
    batches."""

    rules: Rules
    accepted: int = 0
    recognised: int = 0
    rejected: int = 0
    beyond: int = 0
    """the number of arrivals after the first changed verdict on a batch of the same producer; the other counts include these
    arrivals"""
    records: int = 0
    """the number of records that would be stored"""
    state_bytes: int = 0
    """the size of the validator's states of all producers after the last arrival"""
    saved: list[ProduceRow] = field(default_factory=list)
    """retries that were not recognised, and are recognised under these rules"""
    lost: list[ProduceRow] = field(default_factory=list)
    """batches that were accepted or recognised, and are rejected under these rules"""
    doubled: list[ProduceRow] = field(default_factory=list)
    """retries that were recognised, and are stored again under these rules"""

    def __str__(self) -> str:
        return (
            f"{self.rules.name} with a window of {self.rules.window}: {self.accepted} accepted, {self.recognised} recognised "
            f"as retries, {self.rejected} rejected; {self.records} records stored; {len(self.saved)} retries saved, "
            f"{len(self.lost)} batches lost, {len(self.doubled)} doubled; {self.state_bytes} bytes remembered"
        )


def what_if(
    arrivals: Iterable[ProduceRow], *, windows: Sequence[int] = WINDOWS, profiles: Sequence[str] = (DEFAULT_PROFILE,),
    expiration_ms: int = EXPIRATION_MS,
) -> list[WhatIf]:  # fmt: skip
    """Judge the arrivals again, oldest first, under each of these profiles with each of these windows."""
    rows = list(arrivals)
    return [
        judged_again(rows, profile(name, window=window), expiration_ms=expiration_ms) for name in profiles for window in windows
    ]


def judged_again(arrivals: Iterable[ProduceRow], rules: Rules, *, expiration_ms: int = EXPIRATION_MS) -> WhatIf:
    """Judge the arrivals again, oldest first, under these rules."""
    result = WhatIf(rules)
    places: defaultdict[tuple[str, int], Validator] = defaultdict(lambda: Validator(rules, expiration_ms))
    changed = {"saved": result.saved, "lost": result.lost, "doubled": result.doubled}
    for row in arrivals:
        change = places[row.topic, row.partition].take(row)
        if change is not None:
            changed[change].append(row)
    for count in COUNTS:
        setattr(result, count, sum(getattr(each, count) for each in places.values()))
    return result
