"""The releases of Kafka that a broker can play, as data: for each release, the API versions that it announces, its features,
and its default settings.

The data of each release is in a file beside this module. scripts/record oracle wrote the file from the responses of a real
broker. A process reads only the files of the releases that it uses. Differences in behaviour are declared beside the code that
obeys them (`wirebroker.core.releases.changes`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from kafkawire.registry import KEYS

DEFAULT = "4.4"
"""The release of Kafka that a broker plays if no profile is chosen."""


class Feature(NamedTuple):
    """A feature of the cluster: the oldest and newest supported level, and the level of a new cluster."""

    oldest: int
    newest: int
    level: int


SettingChange = tuple[str, ...]
"""A setting that differs from the base release: its type, its default and its marks, in the form of setting_definitions.txt.
The mark `valid=` names the valid values, and the mark `after=` names the setting that Kafka defines before this setting. The
mark `internal` means that no broker shows the setting, so its values were taken from Kafka's code."""


class Release(Struct, frozen=True):
    """One release.

    `announced` has the oldest and the newest version of each API in the response to ApiVersions, by API key. A broker may
    announce old versions of an API although it cannot read them; then `reads_from` has the oldest version that it can read.
    `settings` are the differences from the settings of the base release (`kafkawire.messages.BASE`), by kind of resource
    ("broker", "topic") and by name. None stands for a setting that the release does not have.
    """

    name: str
    version: str
    announced: Mapping[int, tuple[int, int]]
    reads_from: Mapping[int, int]
    features: Mapping[str, Feature]
    settings: Mapping[str, Mapping[str, SettingChange | None]]

    def read(self, key: int) -> tuple[int, int]:
        """Returns the oldest and the newest version of an announced API that the broker can read."""
        oldest, newest = self.announced[key]
        return self.reads_from.get(key, oldest), newest

    @property
    def has_zookeeper(self) -> bool:
        """Tells whether brokers of the release keep their metadata in ZooKeeper. Only KRaft brokers have the feature
        metadata.version."""
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
    )
