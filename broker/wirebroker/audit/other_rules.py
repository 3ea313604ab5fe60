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

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wirebroker.audit.findings import EXPIRATION_MS, WINDOWS
from wirebroker.audit.validator import COUNTS, Validator
from wirebroker.core.profile import Rules, profile
from wirebroker.trace.rows import ProduceRow


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
    return [replay(rows, profile(name, window=window), expiration_ms=expiration_ms) for name in profiles for window in windows]


def replay(arrivals: Iterable[ProduceRow], rules: Rules, *, expiration_ms: int = EXPIRATION_MS) -> WhatIf:
    """Judge the arrivals, oldest first, again under these rules."""
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
