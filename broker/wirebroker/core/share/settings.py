"""The settings of a share group: the group's own values or, where it has none, the broker's values."""

from __future__ import annotations

import re
from functools import lru_cache

from wirebroker.core.config_resources import group_number
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.features import SHARE
from wirebroker.core.offset_lookup import EARLIEST, LATEST
from wirebroker.core.setting_definitions import GROUP_SETTINGS

WITH_DEAD_LETTERS = 2
"""The first level of the feature share.version at which groups have dead letters (KIP-1191)."""
BY_DURATION = "by_duration:"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


@lru_cache
def _parsed(name: str, own: str | None) -> str:
    """Returns the value of a group setting as normalized text. If the group has no value of its own (`own` is None), this is
    the default."""
    setting = GROUP_SETTINGS[name]
    return setting.text(setting.parse((setting.default or "") if own is None else own))


class ShareSettings:
    """The current settings of one share group."""

    def __init__(self, group_id: str, configs: BrokerConfigs) -> None:
        self.group_id = group_id
        self._configs = configs

    def _number(self, name: str) -> int:
        return group_number(self._configs.groups.get(self.group_id, {}), name, self._configs)

    def _text(self, name: str) -> str:
        own = self._configs.groups.get(self.group_id, {})
        return _parsed(name, own.get(name))

    @property
    def lock_ms(self) -> int:
        """The duration of an acquisition in ms."""
        return self._number("share.record.lock.duration.ms")

    @property
    def deliveries(self) -> int:
        """The largest number of deliveries of a record."""
        return self._number("share.delivery.count.limit")

    @property
    def in_flight(self) -> int:
        """The largest number of a partition's records that may be in flight."""
        return self._number("share.partition.max.record.locks")

    @property
    def renews(self) -> bool:
        """Tells whether members may renew a lock."""
        return self._text("share.renew.acknowledge.enable") == "true"

    @property
    def committed(self) -> bool:
        """Tells whether the isolation level is read_committed."""
        return self._text("share.isolation.level") == "read_committed"

    @property
    def dead_letter_topic(self) -> str:
        """The name of the topic for dead letters, or "" if the group has no dead letters."""
        if self._configs.features[SHARE] < WITH_DEAD_LETTERS:
            return ""
        return self._configs.groups.get(self.group_id, {}).get("errors.deadletterqueue.topic.name", "").strip()

    @property
    def has_dead_letters(self) -> bool:
        """Tells whether a record that is rejected or delivered too often gets a dead letter."""
        return bool(self.dead_letter_topic)

    @property
    def copies_dead_letters(self) -> bool:
        """Tells whether a dead letter has the key and the value of the original record."""
        own = self._configs.groups.get(self.group_id, {})
        return own.get("errors.deadletterqueue.copy.record.enable", "").strip().lower() == "true"

    def reset_time(self, now: int) -> int:
        """Returns where a new group starts to read: a time in ms, or the ListOffsets constant EARLIEST or LATEST."""
        reset = self._text("share.auto.offset.reset")
        if not reset.startswith(BY_DURATION):
            return EARLIEST if reset == "earliest" else LATEST
        found = _DURATION.fullmatch(reset.removeprefix(BY_DURATION))
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0,) * 4
        return now - int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
