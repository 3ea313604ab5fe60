"""Topics and their partitions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kafkawire.primitives import format_uuid
from wirebroker import operations
from wirebroker.control.controlled import Controlled
from wirebroker.control.forms import Form, Positive, about, nearest
from wirebroker.control.problems import Problem
from wirebroker.core.cluster import Topic
from wirebroker.core.partition import Partition
from wirebroker.core.setting_definitions import TOPIC_SETTINGS

MOST_PARTITIONS = 10_000
"""As many as Kafka's controller lets one request create."""
Setting = str | int | float | bool


class NewTopic(Form):
    """A topic to create."""

    name: Annotated[str, about("as Kafka allows it: letters, digits, '.', '_' and '-'", examples=["orders"])]
    partitions: Annotated[Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)] | None, about("how many; else num.partitions")] = None
    replication_factor: Annotated[Positive | None, about("replicas; else default.replication.factor")] = None
    configs: Annotated[dict[str, Setting], about("Kafka's topic settings by Kafka's names")] = {}


class PartitionState(Form):
    """A partition. Leaders and replicas are node ids."""

    partition: int
    leader: Annotated[int, about("−1 if there is none")]
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    log_start_offset: int
    log_end_offset: Annotated[int, about("the offset that the next record will get")]
    high_watermark: Annotated[int, about("up to where consumers may read")]
    last_stable_offset: Annotated[int, about("up to where read_committed consumers may read")]


class TopicState(Form):
    """A topic."""

    name: str
    topic_id: Annotated[str, about("as Kafka's tools print it")]
    internal: Annotated[bool, about("whether it is one of the coordinators' own")]
    configs: Annotated[dict[str, str], about("what is set for this topic alone")]
    partitions: list[PartitionState]


class Topics(Form):
    """Topics by their names."""

    topics: list[TopicState]


class WhichTopics(Form):
    """Which topics to list."""

    internal: Annotated[bool, about("the coordinators' own as well")] = False


def listed(controlled: Controlled, query: WhichTopics) -> Topics:
    """The topics, with their partitions and offsets."""
    topics = sorted(controlled.engine.cluster.topics.values(), key=lambda each: each.name)
    return Topics([_shown(topic) for topic in topics if query.internal or not topic.internal])


def create(controlled: Controlled, body: NewTopic) -> TopicState:
    """Create a topic."""
    for name in body.configs:
        if name not in TOPIC_SETTINGS:
            close = nearest(name, TOPIC_SETTINGS) if len(name) < 100 else ""
            raise Problem(422, f"topics have no setting {name!r}{close.partition('; there are')[0]}", f"configs.{name}")
    try:
        topic = operations.create_topic(
            controlled.engine, body.name, controlled.now, body.partitions, body.configs, body.replication_factor
        )
    except operations.TopicExists as exists:
        raise Problem(409, str(exists), "name") from None
    controlled.changed()
    return _shown(topic)


def one(controlled: Controlled, topic: str) -> TopicState:
    """A topic with its partitions and offsets."""
    return _shown(operations.topic_named(controlled.engine, topic))


def delete(controlled: Controlled, topic: str) -> None:
    """Delete a topic with all that is in it."""
    operations.delete_topic(controlled.engine, topic, controlled.now)
    controlled.changed()


def _shown(topic: Topic) -> TopicState:
    return TopicState(
        topic.name, format_uuid(topic.topic_id), topic.internal, dict(topic.configs.overrides),
        [partition_state(each) for each in topic.partitions],
    )  # fmt: skip


def partition_state(held: Partition) -> PartitionState:
    return PartitionState(
        held.index, held.leader, held.leader_epoch, list(held.replicas), list(held.in_sync), held.log_start_offset,
        held.log_end_offset, held.high_watermark, held.last_stable_offset,
    )  # fmt: skip
