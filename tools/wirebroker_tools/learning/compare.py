"""Finds the differences between two learned clusters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from wirebroker.testing.learned_file import Acl, Broker, Group, Learned, Quota, Topic, User
from wirebroker_tools.learning.anonymous import SUPER_USERS

DEFAULT = "its default"
"""Shown as the value of a setting if a cluster does not set it."""
MISSING = "—"
"""Shown in place of a part that a cluster does not have."""


class Difference(NamedTuple):
    """One difference between two clusters: its place, and the value in each cluster."""

    section: str
    place: str
    one: str
    other: str


class Comparison(NamedTuple):
    """All differences between two clusters, and a sentence for each section that could not be compared."""

    differences: list[Difference]
    notes: list[str]


def compare(one: Learned, other: Learned, names: tuple[str, str]) -> Comparison:
    """Compares two clusters. `names` are the names of their files."""
    notes: list[str] = []
    found: list[Difference] = []
    hashed = [name for name, learned in zip(names, (one, other), strict=True) if learned.anonymous]
    unread = [_unread(learned) for learned in (one, other)]
    if hashed:
        one, other = _without_names(one), _without_names(other)
    for section, read in SECTIONS.items():
        missing = [name for name, errors in zip(names, unread, strict=True) if section in errors]
        if hashed and section in NAMED:
            notes.append(f"{section}: not compared, because the names in {' and '.join(hashed)} are hashed")
            continue
        if missing:
            error = next(errors[section] for errors in unread if section in errors)
            notes.append(f"{section}: compared as far as {' and '.join(missing)} could be read ({error})")
        partly = (section in unread[0], section in unread[1])
        found += _differences(section, read(one), read(other), partly)
    return Comparison(found, notes)


def _without_names(learned: Learned) -> Learned:
    """Returns the cluster without its racks and super users. Racks and super users are hashed like names, so they cannot be
    compared."""
    brokers = [msgspec.structs.replace(each, rack=None) for each in learned.brokers]
    settings = {name: value for name, value in learned.settings.items() if name != SUPER_USERS}
    return msgspec.structs.replace(learned, brokers=brokers, settings=settings)


def _unread(learned: Learned) -> dict[str, str]:
    """Returns an error for each section that could not be read completely. An error about the settings of topics counts as an
    error of the section "topics". The settings of brokers are in two sections, "settings" and "brokers".
    """
    errors: dict[str, str] = {}
    for each in learned.unread:
        of_broker = re.match(r"settings of brokers|broker \d", each.section)
        section = re.sub(r"(?:settings|protocols) of (\w+).*", r"\1", each.section)
        for name in ("settings", "brokers") if of_broker else (section,):
            errors.setdefault(name, each.error)
    return errors


def _differences(
    section: str, one: Mapping[str, Any], other: Mapping[str, Any], partly: tuple[bool, bool]
) -> Iterator[Difference]:
    """Yields the differences between two mappings. If only one of the clusters has a part, the whole part is one difference.

    `partly` says for each cluster whether its section is incomplete. A part that is missing in an incomplete section is not a
    difference, because the cluster may have the part.
    """
    for place in sorted(one.keys() | other.keys()):
        held, wanted = one.get(place), other.get(place)
        if held == wanted or (held is None and partly[0]) or (wanted is None and partly[1]):
            continue
        if isinstance(held, Mapping) and isinstance(wanted, Mapping):
            for difference in _differences(section, held, wanted, partly):
                yield difference._replace(place=f"{place}: {difference.place}")
        else:
            missing = DEFAULT if "." in place and not isinstance(wanted if held is None else held, Mapping) else MISSING
            yield Difference(section, place, _shown(held, missing), _shown(wanted, missing))


def _shown(value: Any, missing: str) -> str:
    if value is None:
        return missing
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each, missing)}" for name, each in value.items()) or "yes"
    return str(value)


def _cluster(learned: Learned) -> dict[str, Any]:
    return {"release": ("" if learned.exact else "about ") + (learned.release or "unknown"), "brokers": len(learned.brokers)}


def _versions(learned: Learned) -> dict[str, Any]:
    return {name: f"{oldest} to {newest}" for name, (oldest, newest) in learned.api_versions.items()}


def _features(learned: Learned) -> dict[str, Any]:
    return {
        name: {"supported": f"{oldest} to {newest}", "in effect": level}
        for name, (oldest, newest, level) in learned.features.items()
    }


def _brokers(learned: Learned) -> dict[str, Any]:
    def of(broker: Broker) -> dict[str, Any]:
        return ({"rack": broker.rack} if broker.rack else {}) | broker.settings | broker.altered

    return {f"broker {each.node_id}": of(each) for each in learned.brokers}


def _settings(learned: Learned) -> dict[str, Any]:
    return learned.settings | learned.altered


def _topics(learned: Learned) -> dict[str, Any]:
    def of(topic: Topic) -> dict[str, Any]:
        factors = sorted({len(each) for each in topic.replicas})
        return {"partitions": len(topic.replicas), "replicas": " or ".join(map(str, factors))} | topic.settings

    return {each.name: of(each) for each in learned.topics}


def _groups(learned: Learned) -> dict[str, Any]:
    def of(group: Group) -> dict[str, Any]:
        return {"type": group.type} | ({"protocol": group.protocol} if group.protocol else {}) | group.settings

    return {each.name: of(each) for each in learned.groups}


def _quotas(learned: Learned) -> dict[str, Any]:
    def of(quota: Quota) -> str:
        return ", ".join(f"{kind} {name}" for kind, name in sorted(quota.entity.items()))

    return {of(each): {name: f"{value:g}" for name, value in each.limits.items()} for each in learned.quotas}


def _acls(learned: Learned) -> dict[str, Any]:
    def of(acl: Acl) -> str:
        many = "*" if acl.pattern == "PREFIXED" else ""
        where = "" if acl.host == "*" else f" from {acl.host}"
        return f"{acl.permission.lower()} {acl.principal} {acl.operation} {acl.resource} {acl.name}{many}{where}"

    return {of(each): {} for each in learned.acls}


def _users(learned: Learned) -> dict[str, Any]:
    def of(user: User) -> dict[str, Any]:
        return {name: f"{iterations} iterations" for name, iterations in user.mechanisms.items()}

    return {each.name: of(each) for each in learned.users}


SECTIONS = {
    "cluster": _cluster, "versions": _versions, "features": _features, "brokers": _brokers, "settings": _settings,
    "topics": _topics, "groups": _groups, "quotas": _quotas, "acls": _acls, "users": _users,
}  # fmt: skip
"""For each section, a function that returns this section of a cluster as a mapping. The values of the mapping are texts,
numbers or mappings."""
NAMED = frozenset({"topics", "groups", "quotas", "acls", "users"})
"""The sections whose names `--anonymous` hashes."""


def table(differences: Sequence[Difference], names: tuple[str, str]) -> Iterator[str]:
    """Yields the differences as lines of text, grouped by section. Each line has the values of both clusters side by side."""
    widest = max((len(each.place) for each in differences), default=0)
    place, value = min(widest, MOST_COLUMNS), min(max((len(each.one) for each in differences), default=0), MOST_COLUMNS)
    value = max(value, len(names[0]))
    yield f"{'':{place + 2}}  {names[0]:{value}}  {names[1]}"
    section = ""
    for each in differences:
        if each.section != section:
            section = each.section
            yield section
        yield f"  {each.place:{place}}  {each.one:{value}}  {each.other}"


MOST_COLUMNS = 60
"""The columns for places and values are at most this wide. If a text is longer, its line is longer, too."""
