"""The definitions of settings. Each definition has a type, a default and valid values; it reads a value from text, and writes a
value as text.

The rules and the messages come from Kafka's ConfigDef. The settings themselves are in setting_definitions.txt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from wirebroker.common.java_texts import JAVA_SPACE, parse_duration, parse_integer, trim
from wirebroker.core.releases import SettingChange
from wirebroker.core.releases.changes import since

STRICT_LISTS = since("4.2", "a list in a setting has no empty items, and an item given twice counts once", "KIP-1161")

Value = bool | int | float | str | list[str] | None


class ConfigError(ValueError):
    """Raised if Kafka refuses the name or the value of a setting. The message is for the client."""

    def __init__(self, sentence: str, *, suggestion: str = "") -> None:
        super().__init__(sentence + suggestion)


class ConfigType(IntEnum):
    """The types of settings, with their numbers in DescribeConfigs."""

    UNKNOWN, BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(10)


_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_DOUBLE = re.compile(r"[+-]?0x([0-9a-f]+\.?|[0-9a-f]*\.[0-9a-f]+)p[+-]?[0-9]+[fd]?", re.ASCII | re.IGNORECASE)
BY_DURATION = "by_duration:"
_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


class Setting(Struct, frozen=True):
    """One setting. `default` is the default value as text, or None. setting_definitions.txt explains the forms of `valid`."""

    name: str
    type: ConfigType
    default: str | None
    valid: str
    marks: frozenset[str]

    @property
    def internal(self) -> bool:
        """Tells whether Kafka hides the setting in its documentation and its responses."""
        return "internal" in self.marks

    @property
    def absent(self) -> bool:
        """Tells whether the release lacks the setting. The broker then uses the default, and clients do not see the setting."""
        return "absent" in self.marks

    @property
    def read_only(self) -> bool:
        """Tells whether the setting cannot change while the broker runs."""
        return not self.marks & {"dynamic", "per-broker", "per-listener"}

    @property
    def hidden(self) -> bool:
        """Tells whether the broker shows the setting only if it is set."""
        return bool(self.marks & {"internal", "quota", "absent", "unlisted"})

    @property
    def shown_type(self) -> ConfigType:
        """The setting's type in DescribeConfigs. The type is UNKNOWN for a setting that no ConfigDef of Kafka defines."""
        return ConfigType.UNKNOWN if "unlisted" in self.marks else self.type

    @property
    def sensitive(self) -> bool:
        """Tells whether the broker never shows the value. Passwords are sensitive. Values of unknown type are also sensitive,
        because they might be secrets."""
        return self.shown_type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    def parse(self, raw: str) -> Value:
        """Converts the text `raw` to a value of the setting's type. Raises ConfigError if the text is not valid."""
        value = self._typed(raw)
        if self.valid != "-" or isinstance(value, list):
            self._check(value)
        return value

    def default_value(self) -> Value:
        """Returns the default as a value of the setting's type, or None."""
        return None if self.default is None else self._typed(self.default)

    def _typed(self, raw: str) -> Value:
        text = trim(raw)
        if self.type is ConfigType.BOOLEAN:
            if text.casefold() not in ("true", "false"):
                raise self.error(raw, "Expected value to be either true or false")
            return text.casefold() == "true"
        if self.type in _BITS:
            if (whole := parse_integer(text, _BITS[self.type])) is None:
                raise self.error(raw, f"Not a number of type {self.type.name}")
            return whole
        if self.type is ConfigType.DOUBLE:
            if (number := _double(text)) is None:
                raise self.error(raw, "Not a number of type DOUBLE")
            return number
        if self.type is ConfigType.LIST:
            values = [part.strip(JAVA_SPACE) for part in text.split(",")] if text else []
            return values if self.valid == "replicas" or LOOSE in self.marks else list(dict.fromkeys(values))
        return text

    def _check(self, value: Value) -> None:
        if isinstance(value, list):
            self._check_list(value)
        elif isinstance(value, str):
            self._check_word(value)
        elif isinstance(value, int | float):
            self._check_range(value)

    def _check_range(self, value: int | float) -> None:
        if self.valid == "-1|1..9":
            if value != -1 and not 1 <= value <= 9:
                raise self.error(str(value), "Value must be between 1 and 9 or equal to -1")
            return
        low, _, high = self.valid.partition("..")
        if value < float(low):
            raise self.error(self.text(value), f"Value must be at least {low}")
        if high and value > float(high):
            raise self.error(self.text(value), f"Value must be no more than {high}")

    def _check_word(self, value: str) -> None:
        if self.valid == "nonempty":
            if not value:
                raise self.error(value, "String must be non-empty")
        elif self.valid.startswith("anycase:"):
            words = self.valid.removeprefix("anycase:").split("|")
            if value.upper() not in words:
                raise self.error(value, f"String must be one of (case insensitive): {', '.join(words)}")
        elif self.valid == "reset":
            if value not in ("latest", "earliest") and duration_of(value) < 0:
                known = "either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"
                again = f"Invalid value `{value}` for configuration {self.name}."
                raise self.error(value, f"{again} The value must be {known}.")
        elif value not in self.valid.split("|"):
            raise self.error(value, f"String must be one of: {', '.join(self.valid.split('|'))}")

    def _check_list(self, values: list[str]) -> None:
        if self.valid == "replicas":
            if any(_REPLICA.fullmatch(value.strip()) is None for value in values) and "".join(values).strip() != "*":
                raise self.error(
                    f"[{', '.join(values)}]",
                    f"{self.name} must be the literal '*' or a list of replicas in the following format: "
                    "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
                )
            return
        for value in values:
            if not value and LOOSE not in self.marks:
                raise ConfigError(f"Configuration '{self.name}' values must not be empty.")
            if self.valid != "-":
                self._check_word(value)

    def error(self, value: str, why: str) -> ConfigError:
        """Returns Kafka's error for a value that is not valid."""
        return ConfigError(f"Invalid value {value} for configuration {self.name}: {why}")

    @staticmethod
    def text(value: Value) -> str:
        """Returns a typed value as Kafka writes it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return _java_double(value)
        if isinstance(value, list):
            return ",".join(value)
        return str(value)


def duration_of(reset: str) -> int:
    """Returns the nanoseconds in a value such as `by_duration:PT1H`, or a negative number if the value has no duration."""
    duration = parse_duration(reset.removeprefix(BY_DURATION)) if reset.startswith(BY_DURATION) else None
    return -1 if duration is None else duration


def _double(text: str) -> float | None:
    """Returns the number that Java's `Double.parseDouble` returns for the text, or None if Java refuses the text."""
    number = text.rstrip("fFdD")
    if _DOUBLE.fullmatch(text) is not None:
        return float(number)
    if _HEX_DOUBLE.fullmatch(text) is None:
        return None
    try:
        return float.fromhex(number)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _java_double(value: float) -> str:
    """Returns the number as text, in the form of Java's Double.toString."""
    if not math.isfinite(value):
        return repr(value).replace("nan", "NaN").replace("inf", "Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value!r}".replace("e+", "e").partition("e")
    if not exponent:
        digits, _, exponent = f"{value:.16e}".partition("e")
        digits = digits.rstrip("0")
    if "." not in digits:
        digits += "."
    return f"{digits + '0' if digits.endswith('.') else digits}E{int(exponent)}"


def _tables() -> dict[str, list[list[str]]]:
    """Returns the rows of each section of setting_definitions.txt. A row is a list of words."""
    tables: dict[str, list[list[str]]] = {}
    for line in Path(__file__).with_name("setting_definitions.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = tables[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append(line.split())
    return tables


def _settings(rows: Iterable[Sequence[str]]) -> dict[str, Setting]:
    return {name: _setting(name, kind, default, valid, marks) for name, kind, default, valid, *marks in rows}


def _setting(name: str, kind: str, default: str, valid: str, marks: Iterable[str]) -> Setting:
    return Setting(name, ConfigType[kind.upper()], {"-": None, '""': ""}.get(default, default), valid, frozenset(marks))


_TABLES = _tables()
TOPIC_SETTINGS = _settings(_TABLES["topic"])
BROKER_SETTINGS = _settings(_TABLES["broker"])
GROUP_SETTINGS = _settings(_TABLES["group"])
CLIENT_METRICS_SETTINGS = _settings(_TABLES["client metrics"])
TOPIC_SYNONYMS = {name: tuple(synonyms) for name, *synonyms in _TABLES["topic synonyms"]}
"""For each topic setting, the broker settings that can give it a default value. The first of these settings that is set takes
effect."""
PER_LISTENER = "listener.name."
"""The name of a setting for one listener begins with this prefix and the listener's name in lower case."""


class Definitions(Struct, frozen=True):
    """The definitions of settings in one release, by kind and name. A setting that the release does not have is marked
    `absent`."""

    broker: Mapping[str, Setting]
    topic: Mapping[str, Setting]
    group: Mapping[str, Setting]
    topic_synonyms: Mapping[str, tuple[str, ...]]
    """For each topic setting, the broker settings that can give it a default value. The first of these settings that is set
    takes effect."""

    def has_topic_setting(self, name: str) -> bool:
        """Tells whether a topic of the release can have this setting."""
        return name in self.topic and not self.topic[name].absent

    def has(self, name: str) -> bool:
        """Tells whether Kafka has a broker or topic setting of this name."""
        return name in self.broker or name in self.topic or self.of_listener(name) is not None

    def of_broker(self, name: str) -> Setting:
        """Returns the definition of a broker setting or of a listener's setting. If Kafka does not know the name, the
        definition has the type UNKNOWN, so that the value is hidden like a secret."""
        unknown = Setting(name, ConfigType.UNKNOWN, None, "-", frozenset())
        return self.broker.get(name) or self.of_listener(name) or unknown

    def of_listener(self, name: str) -> Setting | None:
        """If `name` has the form `listener.name.NAME[.MECHANISM].SETTING`, returns the definition of the broker setting
        SETTING. Otherwise returns None."""
        if not name.startswith(PER_LISTENER):
            return None
        setting = name.removeprefix(PER_LISTENER).partition(".")[2]
        return self.broker.get(setting) or self.broker.get(setting.partition(".")[2])

    def read_only(self, name: str) -> bool:
        """Tells whether DescribeConfigs shows the setting as read-only. Only a restart of the broker can change such a
        setting."""
        return self.of_broker(name).read_only or name.startswith(PER_LISTENER)


DEFINITIONS = Definitions(BROKER_SETTINGS, TOPIC_SETTINGS, GROUP_SETTINGS, TOPIC_SYNONYMS)
"""The settings of the base release."""


def definitions_of(settings: Mapping[str, Mapping[str, SettingChange | None]], *, strict_lists: bool = True) -> Definitions:
    """Returns the definitions for a release. `settings` has the differences from the settings of the base release. For
    `strict_lists` see `loosened`."""
    if not settings and strict_lists:
        return DEFINITIONS
    broker, topic, group = (
        loosened(_changed(own, settings.get(kind, {})), strict_lists)
        for kind, own in (("broker", BROKER_SETTINGS), ("topic", TOPIC_SETTINGS), ("group", GROUP_SETTINGS))
    )
    named = {name: [each for each in (f"log.{name}", name) if each in broker] for name in topic if name not in TOPIC_SETTINGS}
    added = {name: (synonyms[0],) for name, synonyms in named.items() if synonyms}
    return Definitions(broker, topic, group, TOPIC_SYNONYMS | added)


def loosened(settings: Mapping[str, Setting], strict_lists: bool) -> Mapping[str, Setting]:
    """Returns the settings of a release. If the release does not have `strict_lists`, its lists may have repeated items and
    empty items (KIP-1161)."""
    if strict_lists:
        return settings
    lists = {name: each for name, each in settings.items() if each.type is ConfigType.LIST}
    return {**settings, **{name: replace(each, marks=each.marks | {LOOSE}) for name, each in lists.items()}}


LOOSE = "loose"
"""The mark of a list setting that may have repeated items and empty items."""
VALID = "valid="
"""The prefix of a mark that names the valid values of a release's setting."""
AFTER = "after="
"""The prefix of a mark of a release's setting. The mark names another setting: Kafka defines that other setting directly before
this setting."""


def _changed(own: Mapping[str, Setting], changes: Mapping[str, SettingChange | None]) -> dict[str, Setting]:
    found, names = dict(own), list(own)
    for name, change in changes.items():
        known = own.get(name)
        if change is not None:
            kind, default, *marks = change
            valid = _marked(VALID, marks) or (known.valid if known else "-")
            found[name] = _setting(name, kind, default, valid, [each for each in marks if not each.startswith((VALID, AFTER))])
        elif known is not None:
            found[name] = replace(known, marks=known.marks | {"absent"})
    waiting = {name: _marked(AFTER, changes[name] or ()) for name in found if name not in own}
    while ready := [name for name, after in waiting.items() if after is None or after in names]:
        for name in ready:
            after = waiting.pop(name)
            names.insert(len(names) if after is None else names.index(after) + 1, name)
    return {name: found[name] for name in (*names, *waiting)}


def _marked(prefix: str, marks: Iterable[str]) -> str | None:
    """Returns the rest of the mark that begins with `prefix`, or None."""
    return next((each.removeprefix(prefix) for each in marks if each.startswith(prefix)), None)


@cache
def meanings() -> Mapping[str, str]:
    """Returns the meaning of each setting, by its name. Reads setting_meanings.txt when a client first asks for a meaning."""
    lines = Path(__file__).with_name("setting_meanings.txt").read_text(encoding="utf-8").splitlines()
    return {name: text for name, _, text in (line.partition(" ") for line in lines) if text and name != "#"}


@cache
def ignored_patterns() -> Mapping[str, Sequence[str]]:
    """Returns the name patterns (for fnmatch) of Kafka's settings that have no effect in wirebroker. The patterns are grouped
    by the reason why the settings have no effect."""
    lines = Path(__file__).with_name("ignored_settings.txt").read_text(encoding="utf-8").splitlines()
    split = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {why: patterns.split() for why, _, patterns in split}


def ignored(names: Iterable[str]) -> list[str]:
    """Returns those topic and broker settings in `names` that have no effect in wirebroker."""
    from fnmatch import fnmatchcase

    patterns = [pattern for some in ignored_patterns().values() for pattern in some]
    return sorted(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))
