"""The state of clients in the broker: producers, transactions, groups; and operations that expire or fence them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from kafkawire.codec import decode
from kafkawire.errors import ProtocolError
from kafkawire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from wirebroker import operations
from wirebroker.control.controlled import Controlled
from wirebroker.control.endpoints.topics import PartitionState, partition_state
from wirebroker.control.forms import Form, about
from wirebroker.control.problems import Problem
from wirebroker.core.groups.classic import Group as ClassicGroup
from wirebroker.core.groups.consumer import CONSUMER, ConsumerGroup
from wirebroker.core.groups.members import ConsumerMember
from wirebroker.core.partition import Partition
from wirebroker.core.producers import Key, ProducerEntry
from wirebroker.core.transactions.transaction import Transaction as HeldTransaction


class Batch(Form):
    """A batch that the validator remembers."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: Annotated[int, about("its largest, ms since the epoch")]


class Producer(Form):
    """The state of a producer on a partition; −1 stands for "none"."""

    partition: int
    producer_id: Annotated[int, about("−1 where producers are known by their names")]
    name: Annotated[str | None, about("under the profile pulsar; null otherwise")]
    producer_epoch: int
    last_sequence: int
    last_timestamp: Annotated[int, about("ms since the epoch")]
    coordinator_epoch: int
    current_txn_start_offset: Annotated[int, about("where its open transaction begins")]
    poisoned: Annotated[bool, about("whether it is refused until it has a new id")]
    batches: Annotated[list[Batch], about("the window, oldest first")]


class Producers(Form):
    """Producers, by partition."""

    producers: list[Producer]


class OfPartition(Form):
    """A partition, or all."""

    partition: Annotated[int | None, about("only this partition")] = None


class Partitions(Form):
    """Partitions of a topic."""

    topic: str
    partitions: list[int]


class Transaction(Form):
    """A transactional id. Times are ms since the epoch; −1 stands for "none"."""

    transactional_id: str
    state: Annotated[str, about("Kafka's name of it", examples=["Ongoing"])]
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started: int
    updated: int
    partitions: Annotated[list[Partitions], about("those in the open transaction")]


class Transactions(Form):
    """Transactional ids."""

    transactions: list[Transaction]


class Member(Form):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Annotated[list[Partitions] | None, about("null if it cannot be read: it is the clients' own affair")]


class Offset(Form):
    """A committed offset."""

    topic: str
    partition: int
    offset: int
    leader_epoch: Annotated[int, about("−1 if the client did not say")]
    metadata: str
    time: Annotated[int, about("when it was committed, ms since the epoch")]
    pending: Annotated[bool, about("whether it waits for the end of a transaction")]


class Group(Form):
    """A group."""

    group_id: str
    type: Annotated[str, about("classic or consumer")]
    state: Annotated[str, about("Kafka's name of it", examples=["Stable"])]
    generation: Annotated[int, about("of a consumer group, its epoch")]
    protocol_type: str
    protocol: Annotated[str, about("what assigns partitions, as far as it is agreed on")]
    leader: Annotated[str | None, about("the member that assigns them, in a classic group")]
    members: list[Member]
    offsets: list[Offset]


class Groups(Form):
    """Groups."""

    groups: list[Group]


class Where(Form):
    """Some partitions, or all."""

    topic: Annotated[str | None, about("those of this topic")] = None
    partition: Annotated[int | None, about("those with this index")] = None


class Expired(Form):
    """The number of partitions that forgot the producer."""

    partitions: Annotated[int, about("the number of partitions that knew the producer")]


class Cut(Form):
    """The offset at which a log is cut off."""

    offset: Annotated[int, about("records from the batch of this offset on are lost", ge=0)]


def producers(controlled: Controlled, topic: str, query: OfPartition) -> Producers:
    """The validator's state of each producer of a topic, by partition."""
    found = operations.topic_named(controlled.engine, topic)
    held = found.partitions if query.partition is None else [operations.partition_of(found, query.partition)]
    return Producers([_producer(each, *entry) for each in held for entry in operations.producers(each).items()])


def transactions(controlled: Controlled) -> Transactions:
    """Every transactional id, with the state of its transaction."""
    return Transactions([_transaction(each) for each in controlled.engine.transactions.transactions.values()])


def transaction(controlled: Controlled, transactional_id: str) -> Transaction:
    """A transactional id, with the state of its transaction."""
    found = controlled.engine.transactions.transactions.get(transactional_id)
    if found is None:
        raise Problem(404, f"there is no transactional id {transactional_id!r}", "transactional_id")
    return _transaction(found)


def groups(controlled: Controlled) -> Groups:
    """Every group, with its members and committed offsets."""
    return Groups([_group(each, controlled) for each in controlled.engine.groups.groups.values()])


def group(controlled: Controlled, group_id: str) -> Group:
    """A group, with its members and committed offsets."""
    found = controlled.engine.groups.groups.get(group_id)
    if found is None:
        raise Problem(404, f"there is no group {group_id!r}", "group_id")
    return _group(found, controlled)


def expire_producer(controlled: Controlled, producer_id: int, body: Where) -> Expired:
    """Let partitions forget a producer as after producer.id.expiration.ms, unless it has an open transaction there."""
    count = controlled.engine.fault_broker.expire_producer(producer_id, body.topic, body.partition)
    controlled.changed()
    return Expired(count)


def expire_transaction(controlled: Controlled, transactional_id: str) -> None:
    """Let the coordinator forget a transactional id as after transactional.id.expiration.ms."""
    transaction(controlled, transactional_id)
    controlled.change(partial(controlled.engine.fault_broker.expire_transactional_id, transactional_id))


def fence(controlled: Controlled, transactional_id: str) -> Transaction:
    """Fence a transactional producer, as a second one with its id would: its epoch rises, its open transaction is aborted."""
    transaction(controlled, transactional_id)
    controlled.change(partial(controlled.engine.fault_broker.fence, transactional_id))
    return transaction(controlled, transactional_id)


def truncate(controlled: Controlled, topic: str, partition: int, body: Cut) -> PartitionState:
    """Delete the end of a partition's log, from the batch with this offset on."""
    held = operations.partition_of(operations.topic_named(controlled.engine, topic), partition)
    controlled.engine.fault_broker.truncate(topic, partition, body.offset, controlled.now)
    controlled.changed()
    return partition_state(held)


def _producer(held: Partition, key: Key, entry: ProducerEntry) -> Producer:
    batches = [
        Batch(each.first_sequence, each.last_sequence, each.first_offset, each.last_offset, each.timestamp)
        for each in entry.batches
    ]
    producer_id, name = (key, None) if isinstance(key, int) else (-1, key)
    return Producer(
        held.index, producer_id, name, entry.producer_epoch, entry.last_sequence, entry.last_timestamp,
        entry.coordinator_epoch, entry.current_txn_first_offset, entry.poisoned, batches,
    )  # fmt: skip


def _transaction(held: HeldTransaction) -> Transaction:
    indexes: dict[str, list[int]] = {}
    for topic, index in sorted(held.partitions):
        indexes.setdefault(topic, []).append(index)
    return Transaction(
        held.transactional_id, held.state.value, held.producer_id, held.producer_epoch, held.timeout_ms, held.started,
        held.updated, [Partitions(topic, partitions) for topic, partitions in indexes.items()],
    )  # fmt: skip


def _group(held: ClassicGroup | ConsumerGroup, controlled: Controlled) -> Group:
    offsets = _offsets(held.group_id, controlled)
    if isinstance(held, ConsumerGroup):
        members = [_consumer(member, controlled) for member in held.members.values()]
        assignor = held.preferred_assignor() or controlled.engine.groups.consumers.default_assignor()
        return Group(held.group_id, CONSUMER, held.state, held.epoch, CONSUMER, assignor, None, members, offsets)
    classic = [
        Member(each.member_id, each.instance_id, each.client_id, each.client_host, _assigned(each.assignment, held))
        for each in held.members.values()
    ]
    return Group(
        held.group_id, "classic", held.state.value, held.generation, held.protocol_type or "", held.protocol or "",
        held.leader, classic, offsets,
    )  # fmt: skip


def _assigned(assignment: bytes, held: ClassicGroup) -> list[Partitions] | None:
    """The partitions of a classic member, if its assignment has the form that Kafka's consumers write."""
    if held.protocol_type != CONSUMER or not assignment:
        return None if assignment else []
    try:
        version = min(max(int.from_bytes(assignment[:2], "big", signed=True), 0), 3)
        read, _ = decode(ConsumerProtocolAssignment, memoryview(assignment), version, 2)
    except ProtocolError:
        return None
    return [Partitions(each.topic, sorted(each.partitions)) for each in read.assigned_partitions]


def _consumer(member: ConsumerMember, controlled: Controlled) -> Member:
    known = controlled.engine.cluster.topics_by_id
    owned: dict[str, list[int]] = {}
    for part in (member.assigned, member.revoking):
        _collect(part, {topic_id: topic.name for topic_id, topic in known.items()}, owned)
    assignment = [Partitions(topic, sorted(indexes)) for topic, indexes in owned.items()]
    return Member(member.member_id, member.instance_id, member.client_id, member.client_host, assignment)


def _collect(part: Mapping[bytes, Mapping[int, int]], names: Mapping[bytes, str], into: dict[str, list[int]]) -> None:
    for topic_id, indexes in part.items():
        if topic_id in names:
            into.setdefault(names[topic_id], []).extend(indexes)


def _offsets(group_id: str, controlled: Controlled) -> list[Offset]:
    store = controlled.engine.groups.offsets
    found = [(where, committed, False) for where, committed in store.of(group_id).items()]
    found += [(where, committed, True) for where, committed in store.pending_of(group_id)]
    return [
        Offset(*where, committed.offset, committed.leader_epoch, committed.metadata, committed.time, pending)
        for where, committed, pending in found
    ]
