"""Topics and their partitions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form, Positive, about
from wirebroker.control.problems import Problem
from wirebroker.testing import operations, states
from wirebroker.testing.states import TopicState

MOST_PARTITIONS = 10_000
"""The largest number of partitions of a new topic; Kafka has the same limit for one request."""
Setting = str | int | float | bool


class NewTopic(Form):
    """A topic to create."""

    name: Annotated[str, about("as Kafka allows: letters, digits, '.', '_' and '-'", examples=["orders"])]
    partitions: Annotated[Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)] | None, about("null: num.partitions")] = None
    replication_factor: Annotated[Positive | None, about("null: default.replication.factor")] = None
    configs: Annotated[dict[str, Setting], about("Kafka's topic settings by Kafka's names")] = {}


class Topics(Form):
    """Topics by their names."""

    topics: list[TopicState]


class WhichTopics(Form):
    """The topics to list."""

    internal: Annotated[bool, about("true: list the coordinators' topics, too")] = False


def listed(controlled: ControlledBroker, query: WhichTopics) -> Topics:
    """Returns the topics, with their partitions and offsets."""
    return Topics(list(states.topics(controlled.engine, internal=query.internal).values()))


def create(controlled: ControlledBroker, body: NewTopic) -> TopicState:
    """Create a topic."""
    try:
        topic = operations.create_topic(
            controlled.engine, body.name, controlled.now, body.partitions, body.configs, body.replication_factor
        )
    except operations.TopicExists as exists:
        raise Problem(409, str(exists), "name") from None
    except operations.NoSuchSetting as unknown:
        raise Problem(422, str(unknown), f"configs.{unknown.name}") from None
    controlled.changed()
    return one(controlled, topic.name)


def one(controlled: ControlledBroker, topic: str) -> TopicState:
    """Returns a topic with its partitions and offsets."""
    return states.topic_state(controlled.engine, operations.topic_named(controlled.engine, topic))


def delete(controlled: ControlledBroker, topic: str) -> None:
    """Delete a topic with all its records."""
    operations.delete_topic(controlled.engine, topic, controlled.now)
    controlled.changed()
