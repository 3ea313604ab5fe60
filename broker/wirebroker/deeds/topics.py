"""Topics and their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.names import topic_name_error
from wirebroker.core.setting_definitions import TOPIC_SETTINGS, ConfigError
from wirebroker.deeds.declaring import NO_TOPIC, UNWRITTEN, Called, Deeds, about, deed
from wirebroker.deeds.errors import Unfit

__tracebackhide__ = True  # pytest shows the caller's line
MOST_PARTITIONS = 10_000
"""The largest number of partitions of a new topic; Kafka has the same limit for one request."""
Setting = str | int | float | bool


class TopicExists(Unfit):
    """Raised if a topic of this name already exists."""

    status, field = 409, "name"


class NoSuchSetting(Unfit, ConfigError):
    """Raised for a name that is not the name of a topic setting."""

    status = 422

    def __init__(self, name: str) -> None:
        super().__init__(f"topics have no setting {name!r}{did_you_mean(name, TOPIC_SETTINGS)}")
        self.field = f"configs.{name}"


class TopicDeeds(Deeds):
    """The deeds that change topics."""

    @deed("POST", "/topics", status=201, shows="topic", problems={409: "a topic of this name exists already", **UNWRITTEN})
    def create_topic(
        self,
        name: Annotated[str, about("as Kafka allows: letters, digits, '.', '_' and '-'", examples=["orders"])],
        partitions: Annotated[Annotated[int, Meta(ge=1, le=MOST_PARTITIONS)] | None, about("null: num.partitions")] = None,
        configs: Annotated[Mapping[str, Setting] | None, about("Kafka's topic settings by Kafka's names")] = None,
        *,
        replication_factor: Annotated[Annotated[int, Meta(ge=1)] | None, about("null: default.replication.factor")] = None,
    ) -> None:
        """Create a topic. By default the settings num.partitions and default.replication.factor determine the topic's numbers
        of partitions and replicas.

        Raises ValueError if the topic exists already, or if the name or a setting is not allowed. Raises OSError if the broker
        cannot write to its data directory.
        """
        cluster = self._engine.cluster
        if (error := topic_name_error(name)) is not None:
            raise ValueError(error)
        if name in cluster.topics or name in cluster.growing:
            raise TopicExists(f"Topic '{name}' already exists.")
        if partitions is not None and not 1 <= partitions <= MOST_PARTITIONS:
            raise ValueError(f"a topic has at least 1 and at most {MOST_PARTITIONS} partitions, not {partitions}")
        brokers = len(cluster.registered_brokers)
        if replication_factor is not None and not 1 <= replication_factor <= brokers:
            raise ValueError(f"{brokers} broker{'s' * (brokers > 1)} cannot hold {replication_factor} replicas of {name!r}")
        for key in configs or {}:
            if not cluster.configs.definitions.has_topic_setting(key):
                raise NoSuchSetting(key)
        if not any(map(cluster.alive, cluster.brokers)):
            raise ValueError(f"{name!r} cannot be created, because all brokers are down")
        overrides = {key: setting(value) for key, value in (configs or {}).items()}
        cluster.create_topic(name, self._now, partitions=partitions, replication_factor=replication_factor, overrides=overrides)
        self._write_down()

    @deed("DELETE", "/topics/{topic}", problems={**NO_TOPIC, **UNWRITTEN})
    def delete_topic(self, name: Annotated[str, Called("topic")]) -> None:
        """Delete a topic with all its records. Raises KeyError if the topic does not exist, and OSError if the broker cannot
        write to its data directory."""
        engine, topic = self._engine, self._topic(name)
        engine.cluster.delete_topic(topic, self._now, lambda: engine.topic_deleted(name, topic.topic_id))
        self._write_down()
        engine.groups.forget_topics(self._now)


def setting(value: object) -> str:
    """Returns the value of a setting in Kafka's form, such as `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)
