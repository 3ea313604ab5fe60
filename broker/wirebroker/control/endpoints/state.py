"""The state that the broker keeps about clients: producers, transactions and groups."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from wirebroker.common.suggestions import did_you_mean
from wirebroker.control.controlled import Controlled, ControlledBroker
from wirebroker.control.endpoints.records import LONGEST_WAIT_S
from wirebroker.control.forms import Form, Natural, about
from wirebroker.control.problems import Problem
from wirebroker.core.producers import Key, ProducerEntry, unpack
from wirebroker.deeds.declaring import partition_of, topic_named
from wirebroker.testing import operations
from wirebroker.testing.goals import GroupReady
from wirebroker.testing.states import Group, Transaction

MOST_LAG = 1000
"""A lag is counted only up to this many records, because clients wait while the broker counts."""


class Batch(Form):
    """A batch that the validator remembers."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: Annotated[int, about("the largest timestamp, in ms since the epoch")]


class Producer(Form):
    """The state of a producer on a partition; −1 stands for "none"."""

    partition: int
    producer_id: Annotated[int, about("−1 if producers have names instead of ids, as under the profile pulsar")]
    name: Annotated[str | None, about("the producer's name under the profile pulsar; null under other profiles")]
    producer_epoch: int
    last_sequence: int
    last_timestamp: Annotated[int, about("ms since the epoch")]
    coordinator_epoch: int
    current_txn_start_offset: Annotated[int, about("the offset at which the producer's open transaction begins")]
    poisoned: Annotated[bool, about("true: the producer needs a new id, because the broker refuses all its batches")]
    batches: Annotated[list[Batch], about("the batches that the validator remembers, oldest first")]


class Producers(Form):
    """Producers, by partition."""

    producers: list[Producer]


class ProducerAt(Producer):
    """The state of a producer on a partition, with the partition's topic."""

    topic: str
    whole: Annotated[bool, about("false: batches that the leader remembers did not pass through the proxy")]


class AllProducers(Form):
    """The producers on all partitions."""

    producers: list[ProducerAt]
    more: Annotated[int, about("the number of producers beyond the limit, which are left out")]


class Limited(Form):
    """The topic, and the largest number of producers to list."""

    topic: Annotated[str | None, about("only producers on this topic")] = None
    limit: Annotated[int, about("the largest number of producers", ge=1, le=10_000)] = 1000


class OfPartition(Form):
    """One partition, or all partitions."""

    partition: Annotated[int | None, about("only this partition")] = None


class Transactions(Form):
    """Transactional ids."""

    transactions: list[Transaction]


class Groups(Form):
    """Groups."""

    groups: list[Group]


class CommittedOffset(Form):
    """A committed offset."""

    topic: str
    partition: Annotated[int, about("the partition's index", ge=0)]
    offset: Annotated[int, about("the committed offset is this or a later offset", ge=0)]


class Awaited(Form):
    """The conditions that a group must meet. Without `members`, `committed` and `lag`, the group must be stable."""

    members: Annotated[Natural | None, about("the group is stable and has this number of members")] = None
    committed: Annotated[list[CommittedOffset] | None, about("these offsets are committed")] = None
    lag: Annotated[
        Annotated[int, Meta(ge=0, le=MOST_LAG)] | None,
        about("the group lags by at most this many records; only records that a read_committed consumer gets count"),
    ] = None
    timeout: Annotated[float, about("wait at most this many seconds", ge=0, le=LONGEST_WAIT_S)] = 5.0


def producers(controlled: ControlledBroker, topic: str, query: OfPartition) -> Producers:
    """Returns the validator's state of each producer on the partitions of a topic."""
    found = topic_named(controlled.engine.cluster, topic)
    held = found.partitions if query.partition is None else [partition_of(found, query.partition)]
    return Producers([_producer(each.index, *entry) for each in held for entry in operations.producers(each).items()])


def all_producers(controlled: Controlled, query: Limited) -> AllProducers:
    """Returns the validator's state of each producer on each partition. A proxy derives the state from the batches that it has
    forwarded."""
    found = [each for each in controlled.producers() if query.topic in (None, each[0])]
    shown = [_producer_at(*each) for each in found[-query.limit :]]
    return AllProducers(shown, len(found) - len(shown))


def transactions(controlled: Controlled) -> Transactions:
    """Returns every transactional id, with the state of its transaction. A proxy has only the ids in requests that it has
    forwarded."""
    return Transactions(list(controlled.transactions().values()))


def transaction(controlled: Controlled, transactional_id: str) -> Transaction:
    """Returns a transactional id, with the state of its transaction."""
    known = controlled.transactions()
    if transactional_id not in known:
        advice = did_you_mean(transactional_id, known)
        raise Problem(404, f"there is no transactional id {transactional_id!r}{advice}", "transactional_id")
    return known[transactional_id]


def groups(controlled: Controlled) -> Groups:
    """Returns every group, with its members and committed offsets. A proxy has only the groups in requests that it has
    forwarded."""
    return Groups(list(controlled.groups().values()))


def group(controlled: Controlled, group_id: str) -> Group:
    """Returns a group, with its members and committed offsets."""
    known = controlled.groups()
    if group_id not in known:
        raise Problem(404, f"there is no group {group_id!r}{did_you_mean(group_id, known)}", "group_id")
    return known[group_id]


async def wait_for_group(controlled: ControlledBroker, group_id: str, body: Awaited) -> Group:
    """Wait until a group is stable, or meets all given conditions: a number of members, committed offsets, a largest lag.

    Without a condition, or with `members`, the group must be stable. After the timeout, 409 names the conditions that are not
    met.
    """
    committed = body.committed and {(each.topic, each.partition): each.offset for each in body.committed}
    return await controlled.reach(GroupReady(group_id, body.members, committed or None, body.lag), body.timeout)


def _producer_at(topic: str, partition: int, key: Key, state: bytes, whole: bool) -> ProducerAt:
    of_partition = _producer(partition, key, unpack(state))
    return ProducerAt(**msgspec.structs.asdict(of_partition), topic=topic, whole=whole)


def _producer(partition: int, key: Key, entry: ProducerEntry) -> Producer:
    batches = [
        Batch(each.first_sequence, each.last_sequence, each.first_offset, each.last_offset, each.timestamp)
        for each in entry.batches
    ]
    producer_id, name = (key, None) if isinstance(key, int) else (-1, key)
    return Producer(
        partition, producer_id, name, entry.producer_epoch, entry.last_sequence, entry.last_timestamp,
        entry.coordinator_epoch, entry.current_txn_first_offset, entry.poisoned, batches,
    )  # fmt: skip
