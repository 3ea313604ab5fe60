"""Reads the topics with which a broker starts, from `topics=` of MockKafka and `serve --topic`.

A topic can be a string such as `orders`, `orders:3` or `orders:3:rf=2:cleanup.policy=compact`. In a dict, the keys are names,
and each value is a partition count or a dict with the fields of `Words`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from msgspec import Struct

from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.names import topic_name_error
from wirebroker.deeds.topics import MOST_PARTITIONS

__tracebackhide__ = True  # pytest shows the caller's line


class Words(TypedDict, total=False):
    """The description of a topic as a dict. Missing values come from the broker's settings, as in Kafka."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, Any]


Topics = str | Iterable[str] | Mapping[str, int | Words | None]


class TopicSpec(Struct, frozen=True):
    """A topic to create. If a count is None, the broker's settings `num.partitions` and `default.replication.factor` decide.
    Raises ValueError.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"the name of a topic must be a string, not {self.name!r}")
        if (error := topic_name_error(self.name)) is not None:
            raise ValueError(error)
        for what, count in (("partition", self.partitions), ("replica", self.replication_factor)):
            if count is not None and (type(count) is not int or count < 1):
                raise ValueError(f"{self.name!r} needs at least 1 {what}, not {count!r}")
        if self.partitions is not None and self.partitions > MOST_PARTITIONS:
            raise ValueError(f"{self.name!r} can have at most {MOST_PARTITIONS} partitions, not {self.partitions}")
        if not isinstance(self.configs, Mapping):
            raise ValueError(f"the configs of {self.name!r} must be a dict of Kafka's topic settings, not {self.configs!r}")


def topic_specs(topics: Topics) -> dict[str, TopicSpec]:
    """Returns the topics by name. Raises ValueError."""
    if isinstance(topics, Mapping):
        return {name: _from_dict(name, words) for name, words in topics.items()}
    if not isinstance(topics, Iterable):
        raise ValueError(f"give a name, a list of names, or a dict of names and partition counts, not {topics!r}")
    found: dict[str, TopicSpec] = {}
    for text in (topics,) if isinstance(topics, str) else topics:
        made = _from_text(text)
        if made.name in found:
            raise ValueError(f"the topic {made.name!r} is named twice")
        found[made.name] = made
    return found


def _from_dict(name: str, words: Any) -> TopicSpec:
    if not isinstance(words, Mapping):
        return TopicSpec(name, words)
    for word in words:
        if word not in Words.__annotations__:
            known = Words.__annotations__
            advice = did_you_mean(str(word), known) or f"; it can have {', '.join(known)}"
            if "." in str(word):
                advice = "; Kafka's settings go into its 'configs'"
            raise ValueError(f"{name!r} has no {word!r}{advice}")
    return TopicSpec(name, **words)


def _from_text(text: str) -> TopicSpec:
    if not isinstance(text, str):
        return TopicSpec(text)  # which raises
    name, *parts = text.split(":")
    partitions = _count(text, "partitions", parts.pop(0)) if parts and "=" not in parts[0] else None
    settings: dict[str, str] = {}
    key = ""
    for part in parts:
        if "=" in part:
            key, _, value = part.partition("=")
            if key in settings:
                raise ValueError(f"{text}: {key} is set twice")
            settings[key] = value
        elif key:  # the value may contain a colon, such as the value of leader.replication.throttled.replicas
            settings[key] += f":{part}"
        else:
            raise ValueError(f"{text}: {part!r} is not KEY=VALUE")
    replicas = settings.pop("rf", None)
    return TopicSpec(name, partitions, None if replicas is None else _count(text, "replicas", replicas), settings)


def _count(text: str, what: str, count: str) -> int:
    if not (count.isascii() and count.isdigit() and len(count) <= 9 and int(count) > 0):
        raise ValueError(f"{text[:100]}: the number of {what} is {count[:20]!r}")
    return int(count)
