"""The state of a running broker for tests: its topics, brokers, groups and transactions.

`MockKafka` returns these objects, and the HTTP control returns them as JSON, so both show the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from kafkawire.primitives import format_uuid
from wirebroker.core.cluster import Topic
from wirebroker.core.groups.classic import Group as ClassicGroup
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.consumer_member import ConsumerMember
from wirebroker.core.groups.group import AnyGroup
from wirebroker.core.groups.share_group import ShareGroup, ShareMember
from wirebroker.core.groups.share_heartbeats import ASSIGNOR
from wirebroker.core.groups.streams_group import StreamsGroup
from wirebroker.core.groups.streams_member import StreamsMember
from wirebroker.core.partition import Partition
from wirebroker.core.quotas import CLIENT_ID, IP, USER
from wirebroker.core.transactions.transaction import Transaction as HeldTransaction
from wirebroker.deeds.quotas import DEFAULT
from wirebroker.engine.engine import Engine
from wirebroker.requests.assignments import assigned
from wirebroker.security.acl_specs import text_of


class StateView(msgspec.Struct, forbid_unknown_fields=True):
    """The base class of all states. A state shows the broker at one moment, and does not change afterwards."""


class Quota(StateView):
    """The quota limits of an entity. The name `<default>` stands for all clients that have no limit of their own."""

    user: str | None
    client_id: str | None
    ip: str | None
    limits: Annotated[dict[str, float], Meta(description="by Kafka's names")]


class PartitionState(StateView):
    """A partition. Leaders and replicas are node ids."""

    partition: int
    leader: Annotated[int, Meta(description="−1 if the partition has no leader")]
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    eligible: Annotated[list[int], Meta(description="the replicas that may become leader if no replica is in sync (KIP-966)")]
    offline: Annotated[list[int], Meta(description="the replicas whose brokers are down")]
    log_start_offset: int
    log_end_offset: Annotated[int, Meta(description="the offset that the next record will get")]
    high_watermark: Annotated[int, Meta(description="the offset up to which consumers may read")]
    last_stable_offset: Annotated[int, Meta(description="the offset up to which read_committed consumers may read")]


class TopicState(StateView):
    """A topic."""

    name: str
    topic_id: Annotated[str, Meta(description="the topic id, as Kafka's tools print it")]
    internal: Annotated[bool, Meta(description="whether this is an internal topic of the coordinators")]
    configs: Annotated[dict[str, str], Meta(description="the settings that were made for this topic")]
    partitions: list[PartitionState]


class Broker(StateView):
    """A broker, and the advertised address of each of its listeners."""

    node_id: int
    alive: Annotated[bool, Meta(description="false while the broker is down")]
    release: Annotated[str, Meta(description="the release of Kafka that the broker runs", examples=["4.3"])]
    listeners: Annotated[dict[str, str], Meta(description="name to host:port", examples=[{"PLAINTEXT": "127.0.0.1:9092"}])]


class Partitions(StateView):
    """Some of the partitions of a topic."""

    topic: str
    partitions: list[int]


class Transaction(StateView):
    """A transactional id and its latest transaction. Times are in ms since the epoch; −1 means that there is no time."""

    transactional_id: str
    state: Annotated[str, Meta(description="Kafka's name of the state", examples=["Ongoing"])]
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started: int
    updated: int
    partitions: Annotated[
        list[Partitions], Meta(description="the open transaction's partitions; in a proxy, __consumer_offsets has index −1")
    ]
    client_id: Annotated[str, Meta(description='in a proxy, the client that used the id last; in a broker, ""')] = ""
    client_host: Annotated[str, Meta(description="the client's host")] = ""


class Member(StateView):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: Annotated[list[Partitions] | None, Meta(description="null if the assignment is unknown or cannot be read")]
    heartbeat: Annotated[
        int, Meta(description="in a proxy, when the broker last confirmed the member (ms since the epoch); in a broker, −1")
    ] = -1


class Offset(StateView):
    """A committed offset."""

    topic: str
    partition: int
    offset: int
    leader_epoch: Annotated[int, Meta(description="−1 if the client did not send it")]
    metadata: str
    time: Annotated[int, Meta(description="the time of the commit, in ms since the epoch")]
    pending: Annotated[bool, Meta(description="whether the commit waits for the end of a transaction")]
    lag: Annotated[
        int, Meta(description="the number of offsets between the commit and the high watermark, −1 if it is not known")
    ] = -1


class Group(StateView):
    """A group."""

    group_id: str
    type: Annotated[str, Meta(description="classic, consumer, share or streams")]
    state: Annotated[str, Meta(description="Kafka's name of the state", examples=["Stable"])]
    generation: Annotated[int, Meta(description="the generation; for a consumer, share or streams group, the group epoch")]
    protocol_type: str
    protocol: Annotated[str, Meta(description="the assignor on which the members have agreed")]
    leader: Annotated[str | None, Meta(description="in a classic group, the member that assigns the partitions")]
    members: list[Member]
    offsets: list[Offset]


def topics(engine: Engine, *, internal: bool = False) -> dict[str, TopicState]:
    """Returns the topics by name; with `internal`, also the internal topics of the coordinators."""
    found = sorted(engine.cluster.topics.items())
    return {name: topic_state(engine, each) for name, each in found if internal or not each.internal}


def topic_state(engine: Engine, held: Topic) -> TopicState:
    """Returns the state of a topic and its partitions."""
    partitions = [partition_state(engine, each) for each in held.partitions]
    return TopicState(held.name, format_uuid(held.topic_id), held.internal, dict(held.configs.overrides), partitions)


def partition_state(engine: Engine, held: Partition) -> PartitionState:
    """Returns the state of a partition."""
    return PartitionState(
        held.index, held.leader, held.leader_epoch, list(held.replicas), list(held.in_sync), list(held.eligible),
        engine.cluster.offline(held), held.log_start_offset, held.log_end_offset, held.high_watermark, held.last_stable_offset,
    )  # fmt: skip


def brokers(engine: Engine) -> dict[int, Broker]:
    """Returns the brokers by node id."""
    return {
        node_id: Broker(
            node_id, each.alive, each.rules.release, {name: f"{host}:{port}" for name, (host, port) in each.addresses.items()}
        )
        for node_id, each in engine.cluster.brokers.items()
    }


def bootstrap_servers(engine: Engine) -> str:
    """Returns the addresses of the brokers' first listeners, comma-separated."""
    return ",".join(next(iter(each.listeners.values()), "") for each in brokers(engine).values())


def transactions(engine: Engine) -> dict[str, Transaction]:
    """Returns every transactional id, with the state of its transaction."""
    return {name: _transaction(each) for name, each in engine.transactions.transactions.items()}


def _transaction(held: HeldTransaction) -> Transaction:
    indexes: dict[str, list[int]] = {}
    for topic, index in sorted(held.partitions):
        indexes.setdefault(topic, []).append(index)
    return Transaction(
        held.transactional_id, held.state.value, held.producer_id, held.producer_epoch, held.timeout_ms, held.started,
        held.updated, [Partitions(topic, partitions) for topic, partitions in indexes.items()],
    )  # fmt: skip


def groups(engine: Engine) -> dict[str, Group]:
    """Returns every group, with its members and committed offsets."""
    return {group_id: _group(each, engine) for group_id, each in engine.groups.groups.items()}


def group(engine: Engine, group_id: str) -> Group:
    """Returns a group, with its members and committed offsets. Raises KeyError."""
    return _group(engine.groups.groups[group_id], engine)


def _group(held: AnyGroup, engine: Engine) -> Group:
    offsets = _offsets(held.group_id, engine)
    assignor, leader, members = "sticky", None, []
    if isinstance(held, ShareGroup):
        assignor, offsets = ASSIGNOR, []
        members = [_shared(member, engine) for member in held.members.values()]
    elif isinstance(held, ConsumerGroup):
        assignor = held.preferred_assignor() or engine.groups.consumers.default_assignor()
        members = [_consumer(member, engine) for member in held.members.values()]
    elif isinstance(held, StreamsGroup):
        members = [_streams(member, held, engine) for member in held.members.values()]
    elif isinstance(held, ClassicGroup):
        assignor, leader = held.protocol or "", held.members.leader
        members = [
            Member(each.member_id, each.instance_id, each.client_id, each.client_host, _assigned(each.assignment, held))
            for each in held.members.values()
        ]
    return Group(
        held.group_id, held.kind, held.state_name, held.generation_or_epoch, held.protocol_type or "", assignor, leader,
        members, offsets,
    )  # fmt: skip


def _assigned(assignment: bytes, held: ClassicGroup) -> list[Partitions] | None:
    """Returns the partitions of a classic member, or None if the member's assignment is not in the format of Kafka's
    consumers."""
    found = assigned(assignment, held.protocol_type)
    return None if found is None else [Partitions(topic, indexes) for topic, indexes in found.items()]


def _consumer(member: ConsumerMember, engine: Engine) -> Member:
    names = {topic_id: topic.name for topic_id, topic in engine.cluster.topics_by_id.items()}
    owned: dict[str, list[int]] = {}
    for part in (member.assigned, member.revoking):
        _collect(part, names, owned)
    assignment = [Partitions(topic, sorted(indexes)) for topic, indexes in owned.items()]
    return Member(member.member_id, member.instance_id, member.client_id, member.client_host, assignment)


def _shared(member: ShareMember, engine: Engine) -> Member:
    names = {topic_id: topic.name for topic_id, topic in engine.cluster.topics_by_id.items()}
    assignment = [Partitions(names[topic_id], list(held)) for topic_id, held in member.assigned.items() if topic_id in names]
    return Member(member.member_id, None, member.client_id, member.client_host, assignment)


def _streams(member: StreamsMember, held: StreamsGroup, engine: Engine) -> Member:
    """Returns the state of a streams group's member, with the partitions that its active tasks read."""
    reads: dict[str, list[int]] = {}
    for topic, key in held.topology.reader_of.items() if held.topology is not None else ():
        count = len(engine.cluster.topics[topic].partitions) if topic in engine.cluster.topics else 0
        if indexes := sorted(index for other, index in member.assigned.active if other == key and index < count):
            reads[topic] = indexes
    assignment = [Partitions(topic, indexes) for topic, indexes in reads.items()]
    return Member(member.member_id, None, member.client_id, member.client_host, assignment)


def _collect(part: Mapping[bytes, Mapping[int, int]], names: Mapping[bytes, str], into: dict[str, list[int]]) -> None:
    for topic_id, indexes in part.items():
        if topic_id in names:
            into.setdefault(names[topic_id], []).extend(indexes)


def acls(engine: Engine) -> list[str]:
    """Returns all ACLs as texts, sorted."""
    return sorted(map(text_of, engine.cluster.acls.ids))


def quotas(engine: Engine) -> list[Quota]:
    """Returns all quotas with their limits."""
    found = []
    for entity, held in engine.cluster.quotas.limits.items():
        names = {kind: DEFAULT if name is None else name for kind, name in entity}
        found.append(Quota(names.get(USER), names.get(CLIENT_ID), names.get(IP), dict(held)))
    return found


def _offsets(group_id: str, engine: Engine) -> list[Offset]:
    store = engine.groups.offsets
    found = [(where, committed, False) for where, committed in store.of(group_id).items()]
    found += [(where, committed, True) for where, committed in store.pending_of(group_id)]
    return [
        Offset(
            *where,
            committed.offset,
            committed.leader_epoch,
            committed.metadata,
            committed.time,
            pending,
            _lag(engine, *where, committed.offset),
        )
        for where, committed, pending in found
    ]


def _lag(engine: Engine, topic: str, index: int, committed: int) -> int:
    partition = engine.cluster.partition(topic, index)
    return -1 if partition is None else max(partition.high_watermark - committed, 0)
