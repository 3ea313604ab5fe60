"""Topics and their partitions."""

from __future__ import annotations

from typing import Annotated

from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form, about
from wirebroker.deeds.declaring import partition_of, topic_named
from wirebroker.testing import states
from wirebroker.testing.states import PartitionState, TopicState


class Topics(Form):
    """Topics by their names."""

    topics: list[TopicState]


class WhichTopics(Form):
    """The topics to list."""

    internal: Annotated[bool, about("true: list the coordinators' topics, too")] = False


def listed(controlled: ControlledBroker, query: WhichTopics) -> Topics:
    """Returns the topics, with their partitions and offsets."""
    return Topics(list(states.topics(controlled.engine, internal=query.internal).values()))


def one(controlled: ControlledBroker, topic: str) -> TopicState:
    """Returns a topic with its partitions and offsets."""
    return states.topic_state(controlled.engine, topic_named(controlled.engine.cluster, topic))


def created(controlled: ControlledBroker, name: str) -> TopicState:
    """Returns the created topic."""
    return one(controlled, name)


def partition(controlled: ControlledBroker, topic: str, partition: int) -> PartitionState:
    """Returns the state of a partition."""
    held = partition_of(topic_named(controlled.engine.cluster, topic), partition)
    return states.partition_state(controlled.engine, held)
