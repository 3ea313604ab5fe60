"""The releases of Kafka that a broker can be, as data: the API versions that a release announces, its features, and its
default settings.

Each release is a file beside this module, which scripts/record-oracle wrote when it asked a real broker. A process reads only
the files of the releases that it uses. `wirebroker.core.releases.changes` has the differences in behaviour between releases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kafkawire.registry import KEYS
from wirebroker.core.releases.changes import Behaviour, behaviour_of

DEFAULT = "4.4"
"""The release that a broker is without a profile."""


class Feature(NamedTuple):
    """A feature of the cluster: the oldest and newest supported level, and the level of a new cluster."""

    oldest: int
    newest: int
    level: int


SettingChange = tuple[str, ...]
"""A setting that 4.3.1 does not have, or has with another default: type, default and marks, as in setting_definitions.txt.
A mark `valid=` names the valid values; settings marked internal were read from Kafka's code, because no broker shows them."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release.

    `announced` are the oldest and newest version of each API in ApiVersions, by API key. `reads_from` is the oldest version
    that the broker really reads, for APIs that announce older ones. `settings` are the differences from the settings of 4.3.1
    by kind of resource ("broker", "topic") and name; None stands for a setting that the release does not have.
    """

    name: str
    version: str
    announced: Mapping[int, tuple[int, int]]
    reads_from: Mapping[int, int]
    features: Mapping[str, Feature]
    settings: Mapping[str, Mapping[str, SettingChange | None]]
    behaviour: Behaviour

    def read(self, key: int) -> tuple[int, int]:
        """Returns the versions of an announced API that the broker reads, the oldest and the newest."""
        oldest, newest = self.announced[key]
        return self.reads_from.get(key, oldest), newest

    @property
    def has_zookeeper(self) -> bool:
        """Tells whether the recorded broker kept its metadata in ZooKeeper: a KRaft broker has a metadata.version."""
        return "metadata.version" not in self.features


@cache
def release(name: str) -> Release:
    """Reads a release, such as "3.9". Raises FileNotFoundError for a release that was never recorded."""
    told = json.loads(Path(__file__).with_name(f"kafka-{name}.json").read_text(encoding="utf-8"))
    return Release(
        told["release"],
        told["version"],
        {KEYS[api]: (oldest, newest) for api, (oldest, newest) in told["api_versions"].items() if api in KEYS},
        {KEYS[api]: oldest for api, oldest in told.get("reads_from", {}).items()},
        {feature: Feature(*levels) for feature, levels in told["features"].items()},
        {
            kind: {setting: None if change is None else tuple(change) for setting, change in changes.items()}
            for kind, changes in told["settings"].items()
        },
        behaviour_of(name),
    )
