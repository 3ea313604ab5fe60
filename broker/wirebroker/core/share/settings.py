"""The settings of a share group: the group's own values or, if the group does not set them, the broker's values."""

from __future__ import annotations

from functools import lru_cache

from wirebroker.core.config_resources import group_number
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.features import SHARE
from wirebroker.core.offset_lookup import EARLIEST, LATEST
from wirebroker.core.setting_definitions import BY_DURATION, GROUP_SETTINGS, duration_of
from wirebroker.core.share.in_flight import Limits

WITH_DEAD_LETTERS = 2
"""The first level of the feature share.version at which groups have dead letters (KIP-1191)."""


@lru_cache
def _parsed(name: str, own: str | None) -> str:
    """Returns the value of a group setting as normalized text. If the group has no value of its own (`own` is None), returns
    the default."""
    setting = GROUP_SETTINGS[name]
    return setting.text(setting.parse((setting.default or "") if own is None else own))


class ShareSettings:
    """The current settings of one share group."""

    def __init__(self, group_id: str, configs: BrokerConfigs) -> None:
        self.group_id = group_id
        self._configs = configs
        self._read_from: tuple[object, ...] = ()
        self._limits = Limits(0, 0, 0, False, False, False)

    @property
    def limits(self) -> Limits:
        """The limits of the group. They are read again only after a change of a setting or of the feature's level."""
        configs = self._configs
        inputs = (configs.version, configs.groups.get(self.group_id), configs.features[SHARE])
        if inputs != self._read_from:
            self._read_from = inputs
            self._limits = Limits(
                self._number("share.record.lock.duration.ms"), self._number("share.delivery.count.limit"),
                self._number("share.partition.max.record.locks"), self._text("share.renew.acknowledge.enable") == "true",
                bool(self.dead_letter_topic), self._text("share.isolation.level") == "read_committed",
            )  # fmt: skip
        return self._limits

    def _number(self, name: str) -> int:
        return group_number(self._configs.groups.get(self.group_id, {}), name, self._configs)

    def _text(self, name: str) -> str:
        own = self._configs.groups.get(self.group_id, {})
        return _parsed(name, own.get(name))

    @property
    def dead_letter_topic(self) -> str:
        """The name of the topic for dead letters, or "" if the group has no dead letters."""
        if self._configs.features[SHARE] < WITH_DEAD_LETTERS:
            return ""
        return self._configs.groups.get(self.group_id, {}).get("errors.deadletterqueue.topic.name", "").strip()

    @property
    def copies_dead_letters(self) -> bool:
        """Tells whether a dead letter has the key and the value of the original record."""
        own = self._configs.groups.get(self.group_id, {})
        return own.get("errors.deadletterqueue.copy.record.enable", "").strip().lower() == "true"

    def reset_time(self, now: int) -> int:
        """Returns the place at which a new group starts to read: a time in ms, or one of the ListOffsets constants EARLIEST and
        LATEST."""
        reset = self._text("share.auto.offset.reset")
        if not reset.startswith(BY_DURATION):
            return EARLIEST if reset == "earliest" else LATEST
        return now - duration_of(reset) // 1_000_000
