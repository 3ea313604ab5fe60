"""Goals that a test can wait for. A goal checks whether the engine's state meets a condition. After a timeout, it explains what
is missing.

`MockKafka` and the HTTP control use the same goals, so their conditions and messages are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.cluster import Topic
from wirebroker.core.partition import Partition
from wirebroker.deeds.declaring import partition_of
from wirebroker.deeds.errors import NoSuchTopic
from wirebroker.engine.engine import Engine
from wirebroker.testing import operations, states
from wirebroker.testing.expectations import check
from wirebroker.testing.operations import StoredRecord

__tracebackhide__ = True  # pytest shows the caller's line

T_co = TypeVar("T_co", covariant=True)
MOST_AT_ONCE = 4000
"""One call of `Reader.read` reads at most this many records, because a record takes 14 µs on a busy machine. The next call
continues after these records.
"""
MOST_OTHERS = 1000
"""If there are more records than expected, at most this many of the additional records are read for the error message."""
SETTLED = ("Stable", "Empty", "Dead", "NotReady")
"""In these states a group does not wait for members."""


class Goal(Protocol[T_co]):
    """A condition on the broker's state. A test waits until the state meets the condition, and then gets a value."""

    def reached(self, engine: Engine) -> bool:
        """Tells whether the test can stop waiting."""

    def result(self, engine: Engine) -> T_co:
        """Returns the value that the test gets."""

    def shortfall(self, engine: Engine) -> str | None:
        """Returns the beginning of the timeout message, to which the caller adds the time. Returns None if the value of
        `result` already shows what is missing.
        """


# Records


class Reader:
    """Reads a topic in steps: each call of `read` reads a limited number of records that were stored since the previous call.
    With `committed`, only committed records are read, otherwise all records except markers.
    """

    def __init__(self, topic: str, partition: int | None, *, committed: bool, most: int) -> None:
        self.topic, self.partition, self._committed, self._most = topic, partition, committed, most
        self._of: tuple[Engine, bytes] | None = None
        """The engine and the id of the topic that the records are from. After a reset, another engine has the topic."""
        self._next: dict[int, tuple[int, int]] = {}
        """For each partition, the log start offset, and the offset at which the next call continues."""
        self._found: dict[int, list[StoredRecord]] = {}

    @property
    def records(self) -> list[StoredRecord]:
        """The records read so far, by partition and offset."""
        return [record for index in sorted(self._found) for record in self._found[index]]

    def read(self, engine: Engine) -> bool:
        """Read further records. Returns True if there are no more records now."""
        topic = engine.cluster.topics.get(self.topic)
        if topic is None:
            return True
        if (of := (engine, topic.topic_id)) != self._of:
            self._of, self._next, self._found = of, {}, {}
        left = MOST_AT_ONCE
        for each in self._partitions(topic):
            left -= self._read(each, min(left, self._most - sum(map(len, self._found.values()))))
            if left <= 0:
                return False
        return True

    def hidden(self, engine: Engine) -> Iterator[tuple[StoredRecord, operations.Fate]]:
        """Yields the records that a read_committed consumer does not get, and why."""
        topic = engine.cluster.topics.get(self.topic)
        for partition in () if topic is None else self._partitions(topic):
            fate = operations.fates(partition)
            for record in operations.stored_records(partition):
                if not record.control and (why := fate(record)) != "committed":
                    yield record, why

    def _partitions(self, topic: Topic) -> Sequence[Partition]:
        return topic.partitions if self.partition is None else [partition_of(topic, self.partition)]

    def _read(self, partition: Partition, most: int) -> int:
        """Read at most `most` records of a partition. Returns the number of records read."""
        start, stop = partition.log_start_offset, self._end(partition)
        known, position = self._next.get(partition.index, (start, start))
        if known != start or position > stop:  # records were deleted or truncated since the previous call
            position = start
            self._found.pop(partition.index, None)
        found = self._found.setdefault(partition.index, [])
        read = operations.committed_records if self._committed else operations.stored_records
        passed = 0
        for record in read(partition, position) if position < stop else ():
            if passed >= most:
                self._next[partition.index] = start, record.offset
                return passed
            passed += 1
            if not record.control:
                found.append(record)
        self._next[partition.index] = start, stop
        return passed

    def _end(self, partition: Partition) -> int:
        return partition.last_stable_offset if self._committed else partition.log_end_offset


class RecordsStored:
    """The goal that a topic has `count` records. With `committed`, only the records that a read_committed consumer gets are
    counted.
    """

    def __init__(self, topic: str, count: int, *, committed: bool = False) -> None:
        self._topic, self._count, self._committed = topic, count, committed
        self._reader = Reader(topic, None, committed=True, most=count)

    def _stored(self, engine: Engine) -> int:
        if not self._committed:
            return operations.record_count(engine, self._topic)
        self._reader.read(engine)
        return len(self._reader.records)

    def reached(self, engine: Engine) -> bool:
        return self._stored(engine) >= self._count

    def result(self, engine: Engine) -> None:
        return None

    def shortfall(self, engine: Engine) -> str:
        word = "committed" if self._committed else "stored"
        missing = _no_topic(engine, self._topic)
        fates = Counter(fate for _, fate in islice(self._reader.hidden(engine), MOST_OTHERS)) if self._committed else Counter()
        others = ", ".join(f"{count} {fate}" for fate, count in fates.items())
        hidden = f" (and {others})" if others else ""
        return f"{self._stored(engine)} of {self._count} records were {word} in {self._topic!r}{missing}{hidden} within"


class RecordsExpected:
    """The goal that the topic has the expected records. The wait also ends as soon as the goal can no longer be reached."""

    def __init__(self, topic: str, expected: Sequence[Any], partition: int | None, *, in_order: bool, committed: bool) -> None:
        self._expected, self._in_order, self._missing = expected, in_order, ""
        self._committed = committed
        self._hidden: list[tuple[StoredRecord, operations.Fate]] = []
        """If expected records are missing: the stored records that a read_committed consumer does not get."""
        self._reader = Reader(topic, partition, committed=committed, most=len(expected) + MOST_OTHERS)

    def reached(self, engine: Engine) -> bool:
        complete = self._reader.read(engine)
        count = len(self._reader.records)
        missing = self._reader.topic not in engine.cluster.topics
        return (complete and count == len(self._expected)) or count > len(self._expected) or (missing and not self._expected)

    def result(self, engine: Engine) -> list[StoredRecord]:
        """Returns the records to pass to `verdict`. Raises NoSuchTopic if the topic does not exist and no records are
        expected.
        """
        self._missing = _no_topic(engine, self._reader.topic)
        if self._missing and not self._expected:
            raise NoSuchTopic(self._reader.topic, engine.cluster.topics)
        if self._committed and len(self._reader.records) < len(self._expected):
            self._hidden = list(islice(self._reader.hidden(engine), MOST_OTHERS))
        return self._reader.records

    def verdict(self, stored: list[StoredRecord]) -> list[StoredRecord]:
        """Returns the stored records if they are as expected, and raises Difference otherwise. This method needs no engine, so
        any thread can call it.
        """
        what = f"the records of {self._where!r} differ{self._missing}"
        check(self._expected, stored, in_order=self._in_order, what=what, hidden=self._hidden)
        return stored

    def shortfall(self, engine: Engine) -> None:
        return None

    @property
    def _where(self) -> str:
        reader = self._reader
        return reader.topic if reader.partition is None else f"{reader.topic}-{reader.partition}"


def _no_topic(engine: Engine, topic: str) -> str:
    known = engine.cluster.topics
    return "" if topic in known else f" (no topic has this name{did_you_mean(topic, known)})"


# Groups


class GroupReady:
    """The goal that a group meets all conditions that are given: it has `members` members, has committed the offsets in
    `committed`, and lags by at most `lag` records.

    The group must also be stable, except if `committed` or `lag` is given without `members`.
    """

    def __init__(
        self, group: str, members: int | None, committed: Mapping[tuple[str, int], int] | None, lag: int | None
    ) -> None:
        self._group, self._members, self._committed, self._lag = group, members, committed, lag
        self._stable = members is not None or (committed is None and lag is None)

    def reached(self, engine: Engine) -> bool:
        return self._group in engine.groups.groups and not self._missing(engine)

    def result(self, engine: Engine) -> states.Group:
        return states.group(engine, self._group)

    def shortfall(self, engine: Engine) -> str:
        known = engine.groups.groups
        if self._group not in known:
            return f"there was no group {self._group!r}{did_you_mean(self._group, known)} within"
        return f"the group {self._group!r} {' and '.join(self._missing(engine))} within"

    def _missing(self, engine: Engine) -> list[str]:
        group = states.group(engine, self._group)
        missing = []
        if self._members is not None and len(group.members) != self._members:
            missing.append(f"had {len(group.members)} of {self._members} members")
        if self._stable and group.state != "Stable":
            missing.append(f"was {group.state}")
        held = {(each.topic, each.partition): each.offset for each in group.offsets if not each.pending}
        for (topic, index), offset in (self._committed or {}).items():
            if held.get((topic, index), -1) < offset:
                has = f"offset {held[topic, index]}" if (topic, index) in held else "nothing"
                missing.append(f"had committed {has} of {topic}-{index}, not {offset}")
        if self._lag is not None:
            missing += self._behind(engine, group, held)
        return missing

    def _behind(self, engine: Engine, group: states.Group, held: Mapping[tuple[str, int], int]) -> list[str]:
        assert self._lag is not None
        assigned = {
            (part.topic, index) for each in group.members for part in each.assignment or () for index in part.partitions
        }
        if not assigned and not held:
            return ["had committed nothing and read no partition"]
        lags: dict[tuple[str, int], int] = {}
        for where in sorted(assigned | held.keys()):
            left = self._lag + MOST_AT_ONCE - sum(lags.values())
            lags[where] = lag_of(engine, *where, held.get(where), left)
        if sum(lags.values()) <= self._lag:
            return []
        parts = [f"{topic}-{index} by {lag}" for (topic, index), lag in lags.items() if lag]
        return [f"was behind in {', '.join(parts[:8])}{f' and {len(parts) - 8} more' if len(parts) > 8 else ''}"]


def lag_of(engine: Engine, topic: str, index: int, committed: int | None, most: int = MOST_AT_ONCE) -> int:
    """Returns how many records a read_committed consumer would get from the committed offset on, but at most `most`. Without a
    committed offset, the count begins at the log start.

    Unlike Kafka's lag, this number does not include markers.
    """
    partition = engine.cluster.partition(topic, index)
    if partition is None or (committed or 0) >= partition.last_stable_offset:
        return 0
    return sum(1 for _ in islice(operations.committed_records(partition, committed or 0), max(most, 0)))


# Quiet


class Quiet:
    """The goal that for `seconds` seconds no log, group or transaction has changed, and no group has waited for members."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds, self._now = seconds, now
        self._seen: object = None
        self._since = now()

    def reached(self, engine: Engine) -> bool:
        seen = self._look(engine)
        if seen != self._seen or self._unsettled(engine):
            self._seen, self._since = seen, self._now()
        return self._now() - self._since >= self._seconds

    def result(self, engine: Engine) -> None:
        return None

    def shortfall(self, engine: Engine) -> str:
        unsettled = self._unsettled(engine)
        why = "the group {!r} was {}".format(*unsettled[0]) if unsettled else "logs still changed"
        return f"the broker was not quiet for {self._seconds:g} s, because {why}, within"

    def _look(self, engine: Engine) -> object:
        """Returns a value that is different after any change of logs, groups or transactions. The value has the ends of all
        logs. So offset commits and transactions change the value, too, because they are records in internal topics.
        """
        topics = engine.cluster.topics
        return len(topics), sum(each.log_end_offset for each in engine.cluster.partitions()), _phases(engine)

    @staticmethod
    def _unsettled(engine: Engine) -> list[tuple[str, str]]:
        return [(name, state) for name, state, _ in _phases(engine) if state not in SETTLED]


def _phases(engine: Engine) -> list[tuple[str, str, int]]:
    """Returns each group with its state and its generation or epoch."""
    return [(name, each.state_name, each.generation_or_epoch) for name, each in engine.groups.groups.items()]
