"""`wirebroker releases`: lists the releases of Kafka that a broker can run, or the differences between two releases."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from kafkawire.registry import api_name
from wirebroker.commands.usage import UsageError
from wirebroker.core.releases import DEFAULT, Release, release
from wirebroker.core.releases.changes import RELEASES, ByRelease, Change, number
from wirebroker.core.releases.naming import RELEASE_PROFILES, unknown
from wirebroker.core.setting_definitions import Setting, definitions_of

KINDS = ("broker", "topic", "group")
DECLARING = ("wirebroker.core", "wirebroker.security", "wirebroker.requests", "wirebroker.apis", "wirebroker.engine")
"""The packages whose modules declare differences of behaviour."""


def run(options: argparse.Namespace) -> int:
    """List the releases, or compare two. Returns 0, or 1 if the two releases differ, or 2 for an unknown release."""
    if options.action == "list":
        for name in RELEASES:
            print(_described(release(name)))
        return 0
    old, new = (_named(name) for name in (options.old, options.new))
    lines = list(_differences(old, new))
    print("\n".join(lines) or f"{old.version} and {new.version} do not differ for a client.")
    return 1 if lines else 0


def _named(name: str) -> Release:
    known = name.removeprefix("kafka-")
    if known not in RELEASES:
        raise UsageError(unknown(name, RELEASE_PROFILES, "release"))
    return release(known)


def _described(each: Release) -> str:
    levels = ", ".join(f"{name} {feature.level}" for name, feature in each.features.items())
    where = "its metadata in ZooKeeper" if each.has_zookeeper else levels
    return (
        f"kafka-{each.name:<6}{each.version:<10}{len(each.announced)} APIs, {where}{' (the default)' * (each.name == DEFAULT)}"
    )


def _differences(old: Release, new: Release) -> Iterator[str]:
    """Yields a line for each difference that a client notices if its brokers change from the release `old` to the release
    `new`."""
    yield from _section("behaviour", _behaviour(old, new))
    yield from _section("API versions", _versions(old, new))
    yield from _section("features", _features(old, new))
    for kind in KINDS:
        yield from _section(f"settings of a {kind}", _settings(_known(old, kind), _known(new, kind)))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield f"{title} ({len(found)})"
        yield from (f"  {line}" for line in found)


def declared() -> list[ByRelease[Any]]:
    """Returns all behaviours that differ between releases, in the order of the modules that declare them."""
    packages = [importlib.import_module(name) for name in DECLARING]
    found = (each for package in packages for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    modules = [*packages, *(importlib.import_module(each.name) for each in found)]
    values = (value for module in modules for value in vars(module).values() if isinstance(value, ByRelease))
    return list({id(value): value for value in values}.values())


def changes() -> list[Change]:
    """Returns all changes of behaviour, newest first."""
    found = [change for each in declared() for change in each.changes]
    return sorted(found, key=lambda change: number(change.release), reverse=True)


def _behaviour(old: Release, new: Release) -> Iterator[str]:
    first, last = sorted((number(old.name), number(new.name)))
    for change in changes():
        if first < number(change.release) <= last:
            gone = "no longer: " if number(old.name) > number(new.name) else ""
            yield f"{gone}{change.says} (since {change.release}, {change.because})"


def _versions(old: Release, new: Release) -> Iterator[str]:
    for key in sorted(old.announced.keys() | new.announced.keys()):
        ranges = [_range(each, key) for each in (old, new)]
        if ranges[0] != ranges[1]:
            yield f"{api_name(key):<32}{ranges[0]:>8}  →  {ranges[1]}"


def _range(each: Release, key: int) -> str:
    return "{}–{}".format(*each.read(key)) if key in each.announced else "absent"


def _features(old: Release, new: Release) -> Iterator[str]:
    for name in [*new.features, *(name for name in old.features if name not in new.features)]:
        levels = [f"{each.features[name].level}" if name in each.features else "absent" for each in (old, new)]
        if levels[0] != levels[1]:
            yield f"{name:<40}{levels[0]:>8}  →  {levels[1]}"


def _known(each: Release, kind: str) -> Mapping[str, Setting]:
    settings: Mapping[str, Setting] = getattr(definitions_of(each.settings), kind)
    return {name: setting for name, setting in settings.items() if not setting.absent}


def _settings(old: Mapping[str, Setting], new: Mapping[str, Setting]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        for shown in (_default, _valid) if name in old and name in new else (_default,):
            values = [shown(each[name]) if name in each else "absent" for each in (old, new)]
            if values[0] != values[1]:
                yield f"{name:<56}{values[0]}  →  {values[1]}"


def _valid(setting: Setting) -> str:
    return "any value" if setting.valid == "-" else f"values {setting.valid}"


def _default(setting: Setting) -> str:
    return "no value" if setting.default is None else setting.default or '""'
