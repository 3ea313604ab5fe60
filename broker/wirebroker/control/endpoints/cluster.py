"""The cluster: brokers, leaders and upgrades."""

from __future__ import annotations

from typing import Annotated

from kafkawire.errors import error_name
from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.endpoints import topics
from wirebroker.control.forms import Form, about
from wirebroker.control.problems import Problem
from wirebroker.core.profile import PROFILES
from wirebroker.core.releases.naming import unknown
from wirebroker.deeds.declaring import topic_named
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


class Elected(Form):
    """The result of an election."""

    code: Annotated[int, about("Kafka's error code, 0 if the leader has changed")]
    error: Annotated[str, about("the name of the error", examples=["ELECTION_NOT_NEEDED"])]
    leader: Leader


class Upgrade(Form):
    """The release to which brokers are upgraded."""

    to: Annotated[str, about("the profile of the release", examples=["kafka-4.4"])]
    node_id: Annotated[int | None, about("upgrade only this broker; null: all brokers, one after the other")] = None
    finalize: Annotated[bool, about("raise the levels of features when all brokers run the release")] = True
    pause: Annotated[float, about("each broker is down for this many seconds of the clock", ge=0, le=LONGEST_CHANGE_S)] = 0


def brokers(controlled: ControlledBroker) -> Brokers:
    """Returns the brokers, each with its release, its advertised address, and whether it is alive."""
    return Brokers(list(states.brokers(controlled.engine).values()))


async def upgrade(controlled: ControlledBroker, body: Upgrade) -> Brokers:
    """Upgrade the brokers to another release of Kafka, one after the other. Each broker stops and starts with all its data.

    The response is sent when the upgrade is complete. A downgrade is possible if the feature levels allow the other release.
    """
    if body.to not in PROFILES:
        raise Problem(422, unknown(body.to, PROFILES), "to")
    engine, now = controlled.engine, controlled.now
    try:
        begun = operations.upgrade(engine, now, body.to, body.node_id, finalize=body.finalize, pause=body.pause)
    except ValueError as refused:
        raise Problem(409, str(refused)) from None
    controlled.changed()
    if controlled.host.clock.running:
        await controlled.complete(
            f"the upgrade to {body.to}", lambda: operations.is_upgraded(begun, controlled.engine), LONGEST_UPGRADE_S
        )
    return brokers(controlled)


def leaders(controlled: ControlledBroker, query: OfTopic) -> Leaders:
    """Returns the leader of each partition, and its in-sync replicas."""
    known = controlled.engine.cluster
    wanted = known.topics.values() if query.topic is None else [topic_named(known, query.topic)]
    return Leaders([leader(controlled, topic.name, each.index) for topic in wanted for each in topic.partitions])


def elected(controlled: ControlledBroker, topic: str, partition: int, result: int) -> Elected:
    """Returns the result of an election: Kafka's error code."""
    return Elected(int(result), error_name(result), leader(controlled, topic, partition))


def leader(controlled: ControlledBroker, topic: str, partition: int) -> Leader:
    """Returns the leader of a partition."""
    state = topics.partition(controlled, topic, partition)
    return Leader(
        topic, partition, state.leader, state.leader_epoch, state.replicas, state.in_sync, state.eligible, state.offline
    )
