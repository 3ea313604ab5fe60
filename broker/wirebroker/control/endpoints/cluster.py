"""The cluster: killing and starting brokers, moving leaders, and letting followers lag."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from kafkawire.errors import error_name
from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form, about
from wirebroker.control.problems import Problem
from wirebroker.core.profile import PROFILES
from wirebroker.core.releases.naming import unknown
from wirebroker.testing import operations, states
from wirebroker.testing.states import Broker
from wirebroker.testing.waits import LONGEST_UPGRADE_S

LONGEST_CHANGE_S = 60.0


class Brokers(Form):
    """The brokers of the cluster."""

    brokers: list[Broker]


class Leader(Form):
    """The leader and replicas of a partition, as node ids."""

    topic: str
    partition: int
    leader: Annotated[int, about("−1 while the partition has no leader")]
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    eligible: Annotated[list[int], about("replicas that may lead when no replica is in sync (KIP-966)")]
    offline: Annotated[list[int], about("replicas whose brokers are down")]


class Leaders(Form):
    """The leaders of partitions."""

    leaders: list[Leader]


class OfTopic(Form):
    """One topic, or all topics."""

    topic: Annotated[str | None, about("only this topic")] = None


class Move(Form):
    """The new leader."""

    to: Annotated[int, about("the node id of a replica that is alive and in sync")]


class Election(Form):
    """The options of an election."""

    unclean: Annotated[bool, about("true: without a leader, elect any live replica; false: only the preferred replica")] = False


class Elected(Form):
    """The result of an election."""

    code: Annotated[int, about("Kafka's error code, 0 if the leader has changed")]
    error: Annotated[str, about("the name of the error", examples=["ELECTION_NOT_NEEDED"])]
    leader: Leader


class Replica(Form):
    """A follower."""

    node_id: Annotated[int, about("the node id of the broker that has the replica")]


class Upgrade(Form):
    """The release to which brokers are upgraded."""

    to: Annotated[str, about("the profile of the release", examples=["kafka-4.4"])]
    node_id: Annotated[int | None, about("upgrade only this broker; null: all brokers, one after the other")] = None
    finalize: Annotated[bool, about("raise the levels of features when all brokers run the release")] = True
    pause: Annotated[float, about("each broker is down for this many seconds of the clock", ge=0, le=LONGEST_CHANGE_S)] = 0


def brokers(controlled: ControlledBroker) -> Brokers:
    """Returns the brokers, whether they are alive, their releases and their advertised addresses."""
    return Brokers(list(states.brokers(controlled.engine).values()))


async def kill(controlled: ControlledBroker, node_id: int) -> Brokers:
    """End a broker as with kill −9: its connections break, its port refuses connections, and other brokers lead its
    partitions.

    Records that were not replicated are lost.
    """
    _change(controlled, node_id, controlled.engine.kill_broker)
    return await _settled(controlled)


async def start(controlled: ControlledBroker, node_id: int) -> Brokers:
    """Start a killed broker: its replicas follow again and get in sync. A running broker continues."""
    _change(controlled, node_id, controlled.engine.start_broker)
    return await _settled(controlled)


async def upgrade(controlled: ControlledBroker, body: Upgrade) -> Brokers:
    """Upgrade the brokers to another release of Kafka, one after the other: each broker stops and starts with all its data.

    The response is sent when the upgrade is complete. A downgrade is possible if the levels of features allow it.
    """
    if body.to not in PROFILES:
        raise Problem(422, unknown(body.to, PROFILES), "to")
    begin = partial(operations.upgrade, to=body.to, node_id=body.node_id, finalize=body.finalize, pause=body.pause)
    controlled.change(partial(begin, controlled.engine))
    if controlled.host.clock.running:
        await controlled.until(lambda: controlled.engine.upgrading is None, LONGEST_UPGRADE_S)
    return brokers(controlled)


async def _settled(controlled: ControlledBroker) -> Brokers:
    """Wait until all elections are done. Returns the brokers."""
    await controlled.until(lambda: not controlled.engine.controller.busy, LONGEST_CHANGE_S)
    return brokers(controlled)


def leaders(controlled: ControlledBroker, query: OfTopic) -> Leaders:
    """Returns the leader of each partition, and its in-sync replicas."""
    topics = controlled.engine.cluster.topics
    wanted = topics.values() if query.topic is None else [operations.topic_named(controlled.engine, query.topic)]
    return Leaders([_leader(controlled, topic.name, each.index) for topic in wanted for each in topic.partitions])


def move_leader(controlled: ControlledBroker, topic: str, partition: int, body: Move) -> Leader:
    """Make another in-sync replica the leader. No record is lost."""
    return _change_replica(controlled, topic, partition, body.to, controlled.engine.controller.move_leader)


def elect_leader(controlled: ControlledBroker, topic: str, partition: int, body: Election) -> Elected:
    """Elect the preferred leader. With `unclean`, elect any live replica if the partition has no leader."""
    _leader(controlled, topic, partition)
    code = controlled.engine.controller.elect_leader(topic, partition, controlled.now, unclean=body.unclean)
    controlled.changed()
    return Elected(int(code), error_name(code), _leader(controlled, topic, partition))


def freeze_replica(controlled: ControlledBroker, topic: str, partition: int, body: Replica) -> Leader:
    """Make a follower stop fetching. After replica.lag.time.max.ms the follower is out of sync."""
    return _change_replica(controlled, topic, partition, body.node_id, controlled.engine.controller.freeze_replica)


def thaw_replica(controlled: ControlledBroker, topic: str, partition: int, body: Replica) -> Leader:
    """Make a follower fetch again: it catches up and becomes in-sync."""
    return _change_replica(controlled, topic, partition, body.node_id, controlled.engine.controller.thaw_replica)


def _change_replica(
    controlled: ControlledBroker, topic: str, partition: int, node_id: int, change: Callable[[str, int, int, int], None]
) -> Leader:
    _leader(controlled, topic, partition)
    _change(controlled, node_id, partial(change, topic, partition))
    return _leader(controlled, topic, partition)


def _change(controlled: ControlledBroker, node_id: int, change: Callable[[int, int], None]) -> None:
    """Apply the change to this broker. Raises Problem: 404 if the broker does not exist, 409 if the change is not possible
    now."""
    known = controlled.engine.cluster.brokers
    if node_id not in known:
        raise Problem(404, f"there is no broker {node_id}; there are {', '.join(map(str, known))}", "node_id")
    controlled.change(partial(change, node_id))


def _leader(controlled: ControlledBroker, topic: str, partition: int) -> Leader:
    held = operations.partition_of(operations.topic_named(controlled.engine, topic), partition)
    state = states.partition_state(controlled.engine, held)
    return Leader(
        topic, partition, state.leader, state.leader_epoch, state.replicas, state.in_sync, state.eligible, state.offline
    )
