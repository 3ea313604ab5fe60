"""The outcome of a run. The records that a read_committed consumer gets are compared with the records of two runs without
faults, or with a journal. Two runs without faults (plain runs) show which properties are the same in every run. If both runs
stored the same records, records are compared by key and value. Otherwise they are compared by their common properties: the
fields of their JSON objects that have the same values in both runs, their keys, or only their number.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wirebroker.audit.content import digest, head
from wirebroker.audit.findings import plural
from wirebroker.audit.journal import Intended
from wirebroker.mock import StoredRecord
from wirebroker.trace.rows import ProduceRow
from wirebroker_tools.campaign.application import Run

SILENT_OUTCOMES = ("lost", "doubled", "reordered", "open_transaction", "hung", "storm", "check_failed")
"""The outcomes that break an application silently: the application does not report the failure, or it does not end."""
KAFKAS_OWN = "kafka_defect"
"""This outcome replaces `lost` or `reordered` if a defect of Kafka 4.3.1 is the cause. The next release fixes the defect."""
OUTCOMES = (*SILENT_OUTCOMES, KAFKAS_OWN, "failed", "as_before")
LISTED = 20
"""A result lists at most this many records."""
SAID = 20
"""A sentence quotes at most this many words of the check's output."""
Identity = Callable[[StoredRecord], Hashable]
Lane = tuple[str, Hashable, str | None]
"""A lane is a sequence of records with these properties in common: topic, key or partition, and the client that sent them."""


@dataclass(slots=True)
class Judged:
    """The outcomes of a run, and the records that they concern."""

    outcomes: list[str]
    missing: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Expected:
    """The records that each run should store in one topic."""

    identity: Identity
    counts: Counter[Hashable]
    labels: dict[Hashable, str] = field(default_factory=dict)
    whole: bool = False
    """whether records are compared by key and value"""


@dataclass(slots=True)
class Expectation:
    """The outcome that each run should have."""

    topics: dict[str, Expected] = field(default_factory=dict)
    lanes: dict[Lane, list[Hashable]] = field(default_factory=dict)
    """for each lane: the records, if both plain runs stored them in the same order"""
    by_client: bool = True
    """whether lanes distinguish clients; false if the clients' ids differ from run to run"""
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """the groups' committed offsets; they are compared only if no records are compared"""
    notices: list[str] = field(default_factory=list)
    """sentences about differences between the plain runs"""

    def judge(self, run: Run) -> Judged:
        """Returns the outcomes of a run."""
        judged = Judged([])
        for topic, expected in self.topics.items():
            _compare(topic, expected, run.stored.get(topic, []), judged)
        if self.topics:
            self._look_at_order(run, judged)
        else:
            self._look_at_commits(run, judged)
        judged.outcomes = _outcomes(run, judged)
        for listed in (judged.missing, judged.doubled, judged.reordered):
            if len(listed) > LISTED:
                listed[LISTED:] = [f"… and {len(listed) - LISTED:,} more"]
        return judged

    def _look_at_order(self, run: Run, judged: Judged) -> None:
        identities = {name: each.identity for name, each in self.topics.items()}
        for lane, got in lanes(run, identities, by_client=self.by_client).items():
            places = {identity: place for place, identity in enumerate(self.lanes.get(lane, ()))}
            latest = -1
            for identity in dict.fromkeys(got):  # if a record has several copies, only the first counts
                place = places.get(identity, latest)
                if place < latest:
                    judged.reordered.append(self.topics[lane[0]].labels.get(identity, ""))
                latest = max(latest, place)

    def _look_at_commits(self, run: Run, judged: Judged) -> None:
        for where, offset in self.committed.items():
            if (got := run.committed.get(where, 0)) < offset:
                group, topic, partition = where
                judged.doubled.append(f"{topic}-{partition}: the group {group} gets offsets {got} to {offset - 1} again")


def _outcomes(run: Run, judged: Judged) -> list[str]:
    if run.storm:
        return ["storm"]
    if run.exit is None:
        return ["hung"]
    if run.exit != 0:
        return ["check_failed" if run.differences else "failed"]
    found = {
        "lost": judged.missing, "doubled": judged.doubled, "reordered": judged.reordered,
        "open_transaction": run.open_transactions, "check_failed": run.check not in (None, 0),
    }  # fmt: skip
    return [name for name, is_so in found.items() if is_so] or ["as_before"]


def _compare(topic: str, expected: Expected, records: Sequence[StoredRecord], judged: Judged) -> None:
    got: Counter[Hashable] = Counter()
    labels = dict(expected.labels)
    for each in records:
        got[identity := expected.identity(each)] += 1
        labels.setdefault(identity, label(each.key, each.value))
    others = [each.key for each in records if each.key is not None and expected.identity(each) not in expected.counts]
    unknown: Counter[Hashable] = Counter(others)
    for identity, count in (expected.counts - got).items():
        key: Hashable = identity[0] if isinstance(identity, tuple) else None
        changed = min(count, unknown[key])
        unknown[key] -= changed  # the topic has a record with this key and another value
        judged.missing += [f"{topic}: {labels.get(identity, 'a record')}"] * (count - changed)
    for identity, count in (got - expected.counts).items():
        if identity in expected.counts:
            judged.doubled += [f"{topic}: {labels[identity]}"] * count


def label(key: bytes | None, value: bytes | None) -> str:
    """Describes a record in a few words."""
    return f"value {head(value)}" if key is None else f"key {head(key)} value {head(value)}"


# The expectation


def expectation(one: Run, other: Run, topics: Collection[str] = ()) -> Expectation:
    """Returns the expectation: the properties that two plain runs have in common. With `topics`, only records in these topics
    are compared."""
    made = Expectation()
    for topic in sorted({*one.stored, *other.stored}):
        first, second = one.stored.get(topic, []), other.stored.get(topic, [])
        if (not first and not second) or (topics and topic not in topics):
            continue
        if len(first) != len(second):
            made.notices.append(
                f"{topic}: the plain runs stored {len(first):,} and {len(second):,} records, so its records are not compared"
            )
            continue
        name, identity = _identity(first, second)
        if name:
            made.notices.append(f"{topic}: the two plain runs stored different records, so records are compared by {name}")
        labels = {identity(each): label(each.key, each.value) for each in first} if identity(first[0]) != ANY else {}
        made.topics[topic] = Expected(identity, Counter(map(identity, first)), labels, not name)
    identities = {name: each.identity for name, each in made.topics.items()}
    made.by_client = lanes(one, identities).keys() == lanes(other, identities).keys()
    again = lanes(other, identities, by_client=made.by_client)
    orders = lanes(one, identities, by_client=made.by_client)
    made.lanes = {lane: order for lane, order in orders.items() if again.get(lane) == order}
    made.committed = {where: offset for where, offset in one.committed.items() if other.committed.get(where) == offset}
    return made


def intend(made: Expectation, rows: Iterable[Intended]) -> None:
    """Expect the records of a journal instead of the records of the plain runs. A record that the journal reports as failed may
    be stored or not.
    """
    counts: dict[str, Counter[Hashable]] = {}
    labels: dict[Hashable, str] = {}
    for row in rows:
        identity = row.key, row.digest
        if row.acknowledged is not False:
            counts.setdefault(row.topic, Counter())[identity] += 1
        labels[identity] = str(row)
    made.topics = {topic: Expected(_by_digest, found, labels) for topic, found in counts.items()}
    made.lanes = {}
    made.notices = []


def _by_digest(record: StoredRecord) -> Hashable:
    return record.key, digest(record.value)


ANY = ("any",)
"""The identity of all records of a topic if no property of its records repeats from run to run.

Then only the number of records is compared.
"""


def _identity(first: Sequence[StoredRecord], second: Sequence[StoredRecord]) -> tuple[str, Identity]:
    """Chooses the properties by which the records of two runs are compared. Returns the name of these properties, and the
    function that reads the properties from a record. The name "" means key and value.
    """
    ladder: list[tuple[str, Identity]] = [("", lambda each: (each.key, each.value))]
    if stable := _stable_fields(first, second):
        ladder.append((f"key and the fields {', '.join(stable)}", lambda each: (each.key, _fields(each, stable))))
        ladder.append((f"the fields {', '.join(stable)}", lambda each: (None, _fields(each, stable))))
    ladder.append(("value", lambda each: (None, each.value)))
    ladder.append(("key", lambda each: (each.key,)))
    for name, identity in ladder:
        if Counter(map(identity, first)) == Counter(map(identity, second)):
            return name, identity
    return "their number", lambda _: ANY


def _stable_fields(first: Sequence[StoredRecord], second: Sequence[StoredRecord]) -> list[str]:
    """Returns the fields of JSON objects that have the same values in both runs."""
    one, other = (list(map(_object, each)) for each in (first, second))
    names = sorted(set().union(*one) & set().union(*other))
    return [name for name in names if _values(one, name) == _values(other, name)]


def _values(objects: Iterable[Mapping[str, Any]], name: str) -> Counter[str]:
    return Counter(json.dumps(each.get(name), sort_keys=True) for each in objects)


def _object(record: StoredRecord) -> dict[str, Any]:
    try:
        found = json.loads(record.value or b"null")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _fields(record: StoredRecord, names: Iterable[str]) -> Hashable:
    found = _object(record)
    return tuple(json.dumps(found.get(name), sort_keys=True) for name in names)


def lanes(run: Run, identities: Mapping[str, Identity], *, by_client: bool = True) -> dict[Lane, list[Hashable]]:
    """Returns the records of each key and client in their order. Without keys, a topic with one partition is one sequence."""
    clients = _clients(run) if by_client else {}
    found: dict[Lane, list[Hashable]] = {}
    for topic, identity in identities.items():
        records = run.stored.get(topic, [])
        in_order = len({each.partition for each in records}) == 1
        for each in records:
            if each.key is not None or in_order:
                client = clients.get((topic, each.partition, each.offset))
                lane = topic, each.key if each.key is not None else each.partition, client
                found.setdefault(lane, []).append(identity(each))
    return found


def _clients(run: Run) -> dict[tuple[str, int, int], str | None]:
    """Returns the sender of each record."""
    return {
        (row.topic, row.partition, offset): row.client_id
        for row in run.rows
        if isinstance(row, ProduceRow) and row.verdict == "accepted"
        for offset in range(row.base_offset, row.base_offset + row.records)
    }


def sentence(judged: Judged, run: Run) -> str:
    """Returns a run's outcome in a few words."""
    if run.exit is None:
        return f"it sent {run.requests.total():,} requests and was ended by force" if run.storm else "it was ended by force"
    parts = [f"{plural(len(each), 'record')} {word}, such as {each[0]}" for word, each in (
        ("missing", judged.missing), ("stored again", judged.doubled), ("out of order", judged.reordered)) if each]  # fmt: skip
    if run.open_transactions:
        parts.append(f"the transaction {run.open_transactions[0]} is open")
    if run.check:
        said = f" and said: {' '.join(run.check_output.split()[-SAID:])}" if run.check_output.strip() else ""
        parts.append(f"--check ended with exit code {run.check}{said}")
    if run.differences:
        parts.append(f"and the test says: {' '.join(run.differences[0].split())}")
    return ", ".join([f"exit {run.exit}", *parts])
