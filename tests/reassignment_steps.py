"""Moves replicas between three brokers, some of which are down. `play` yields the state after each step. The steps are played
on a real Kafka (scripts/record reassignments) and on wirebroker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from requesting import create_topics, new_topic, plain
from responses import sole
from wirebroker.client.wire import WireClient

STEPS = """
create w 1,2; stop 3; move w 1,3; move w 1,3; cancel w; cancel w; move w 3; elect w; move w 1,2; start 3; move w 2,1
stop 3; create x 1,2; move x 2,3 same; move x 2,3,1 same; start 3
create y 1,2,3 2; move y 3; move y 1,2,3; move y 3,2
create z 1,2; move z 2,1; move z 1,3; move z 1; move z 2,3
stop 3; create v 1,2; move v 3,1; grow v 2; delete v
create u 2,1; move u 3; stop 2; start 2; cancel u; move u 3,2,1; cancel u
create t 2; move t 1,3; stop 2; cancel t; elect t; start 2; cancel t; start 3
create s 1,2,3; stop 3; move s 1,3; move s 2,1; start 3
create r 1,2; stop 3; move r 1,3; move r 1,2,3; start 3
"""
"""`move TOPIC REPLICAS [same]` requests these replicas. With `same`, Kafka refuses the request if it would change the number of
replicas. Other steps: `create TOPIC REPLICAS [MIN.INSYNC.REPLICAS]`; `grow TOPIC PARTITIONS`; `stop` and `start` a broker.
"""


class Brokers(Protocol):
    """Three brokers. Broker 1 is the controller and stays up."""

    wire: WireClient

    def stop(self, node: int) -> None: ...

    def start(self, node: int) -> None: ...

    def settle(self) -> None:
        """Wait until followers have caught up."""


def steps() -> list[str]:
    """Returns all steps in order."""
    return [step for part in STEPS.replace("\n", ";").split(";") if (step := part.strip())]


def play(brokers: Brokers) -> Iterator[tuple[str, Any]]:
    """Plays all steps. Yields each step with the response, the partitions, and the reassignments in progress."""
    topic = ""
    for step in steps():
        verb, *rest = step.split()
        topic = topic if verb in ("stop", "start") else rest[0]
        response = _ask(brokers, verb, rest)
        brokers.settle()
        yield step, {"answer": response, "partitions": partitions(brokers, topic), "moving": moving(brokers)}


def _ask(brokers: Brokers, verb: str, rest: list[str]) -> Any:
    name, *more = rest
    if verb in ("stop", "start"):
        return (brokers.stop if verb == "stop" else brokers.start)(int(name))
    ask = brokers.wire.request
    if verb in ("move", "cancel"):
        to = [int(node) for node in more[0].split(",")] if more else None
        parts = [{"partition_index": 0, "replicas": to}]
        topics = [{"name": name, "partitions": parts}]
        request = plain("AlterPartitionReassignments", allow_replication_factor_change="same" not in more, topics=topics)
        said = sole(sole(ask(request, 1).responses).partitions)
    elif verb == "create":
        replicas = [int(node) for node in more[0].split(",")]
        configs = {"min_insync_replicas": more[1]} if more[1:] else {}
        said = sole(ask(create_topics(new_topic(name, -1, -1, on=[(0, replicas)], **configs)), 5).topics)
    elif verb == "grow":
        grown = {"name": name, "count": int(more[0]), "assignments": None}
        said = sole(ask(plain("CreatePartitions", topics=[grown], timeout_ms=5000), 3).results)
    elif verb == "delete":
        said = sole(ask(plain("DeleteTopics", topics=[{"name": name}], timeout_ms=5000), 6).responses)
    else:
        parts_of = [{"topic": name, "partitions": [0]}]
        elected = ask(plain("ElectLeaders", election_type=0, topic_partitions=parts_of, timeout_ms=5000), 2)
        said = sole(sole(elected.replica_election_results).partition_result)
    return [said.error_code, said.error_message]


def partitions(brokers: Brokers, topic: str) -> list[dict[str, Any]]:
    """Returns a topic's partitions. Kafka chooses the replicas of the partitions after partition 0 at random, so for these
    partitions only the number of replicas is returned.
    """
    request = plain("DescribeTopicPartitions", topics=[{"name": topic}], response_partition_limit=10)
    return [
        {
            "leader": each.leader_id, "epoch": each.leader_epoch, "replicas": each.replica_nodes, "in_sync": each.isr_nodes,
            "offline": each.offline_replicas, "eligible": each.eligible_leader_replicas, "last_known": each.last_known_elr,
        } if each.partition_index == 0 else {"replicas": len(each.replica_nodes)}
        for each in sole(brokers.wire.request(request, 0).topics).partitions
    ]  # fmt: skip


def moving(brokers: Brokers) -> dict[str, list[list[int]]]:
    """Returns the reassignments in progress: the replicas, the added replicas and the removed replicas."""
    listed = brokers.wire.request(plain("ListPartitionReassignments", topics=None), 0)
    return {
        topic.name: [each.replicas, each.adding_replicas, each.removing_replicas]
        for topic in sorted(listed.topics, key=lambda topic: topic.name)
        for each in topic.partitions
    }
