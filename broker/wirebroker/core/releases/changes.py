"""Differences of behaviour between releases of Kafka. The API versions, features and settings of each release are in other
files (`wirebroker.core.releases`).

A difference is declared once, at the top of a module that obeys it, and read as `VERIFIES_TRANSACTIONS.of(release)`:

    VERIFIES_TRANSACTIONS = since("3.6", "transactional batches are verified, and can get the errors 47, 48 and 49", "KIP-890")
    HIDES_ZSTD = since("2.1", "Fetch before version 10 of a topic …", "KIP-110").then("4.0", False, "Fetch before version 10 …")
    FIRST_EPOCH = ByRelease(0).then("4.3", 1, "a new consumer, share or streams group begins with epoch 1")

`wirebroker releases diff` and docs/reference/releases.md are gathered from these declarations (`wirebroker.commands.releases`).
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from wirebroker.core.releases import Release

RELEASES = (
    "0.11", "1.0", "1.1", "2.1", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    "4.0", "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
"""The releases of Kafka that a broker can play, oldest first."""

SEEN = "seen"
"""Used in place of a KIP or a ticket if a change was only observed."""

T = TypeVar("T")


class Change(NamedTuple):
    """A change of behaviour. From `release` on, the behaviour has this value. `says` is what clients see from then on, and
    `because` is the KIP or the ticket."""

    release: str
    value: object
    says: str
    because: str


class ByRelease(Generic[T]):
    """A behaviour that differs between releases."""

    __slots__ = ("_values", "changes", "oldest")

    def __init__(self, oldest: T) -> None:
        """`oldest` is the value before the first change."""
        self.oldest = oldest
        self.changes: list[Change] = []
        self._values = dict.fromkeys(RELEASES, oldest)

    def then(self, release: str, value: T, says: str, because: str = SEEN) -> ByRelease[T]:
        """Add a change that is later than all changes so far. Raises ValueError if no release in `RELEASES` has the change."""
        first = number(release)
        if first > number(RELEASES[-1]):
            raise ValueError(f"{says!r} begins with Kafka {release}, but RELEASES ends with {RELEASES[-1]}")
        self.changes.append(Change(release, value, says, because))
        self._values.update({name: value for name, numbers in _NUMBERS.items() if numbers >= first})
        return self

    def of(self, release: Release) -> T:
        return self._values[release.name]

    def at(self, name: str) -> T:
        """Returns the value in the release of this name, such as "3.9"."""
        return self._values[name]


def since(release: str, says: str, because: str = SEEN) -> ByRelease[bool]:
    """Returns a behaviour that begins with this release."""
    return ByRelease(False).then(release, True, says, because)


def until(release: str, says: str, because: str = SEEN) -> ByRelease[bool]:
    """Returns a behaviour that all releases before this release have. `says` is what clients see from this release on, when the
    behaviour has ended."""
    return ByRelease(True).then(release, False, says, because)


def number(release: str) -> tuple[int, ...]:
    """Returns the numbers of a release, so that releases can be compared: 3.10 is newer than 3.9."""
    return tuple(map(int, release.split(".")))


_NUMBERS = {name: number(name) for name in RELEASES}
