"""Returns the keys of the containers in an engine's state. With these keys, tests find state that the engine never removes."""

from __future__ import annotations

import types
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any

from wirebroker.core.partition import Partition
from wirebroker.engine.engine import Engine

SKIPPED = frozenset(
    {"timers", "_timers", "_cache", "_shown", "_props", "_needed", "log", "version", "random_bytes", "release", "definitions"}
)
"""Attributes that do not belong to the state of the cluster: timers, caches, and notes about logs."""


def held(engine: Engine) -> dict[str, frozenset[str]]:
    """For each container in the engine's state, returns its path and its keys."""
    found: dict[str, frozenset[str]] = {}
    seen: set[int] = set()

    def walk(value: Any, way: str) -> None:
        if isinstance(value, str | bytes | int | float | None | Enum | type | types.FunctionType | types.MethodType):
            return
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Mapping):
            found[way] = frozenset(map(repr, value))
            for key, each in value.items():
                walk(each, f"{way}[{key!r}]")
        elif isinstance(value, Set | list | tuple):
            found[way] = frozenset(map(repr, value)) if isinstance(value, Set) else frozenset({f"{len(value)} elements"})
        elif type(value).__module__.startswith("wirebroker.core") and not isinstance(value, Partition):
            names = [
                *getattr(value, "__dict__", ()),
                *(name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())),
            ]
            for name in names:
                if name not in SKIPPED:
                    walk(getattr(value, name, None), f"{way}.{name}")

    for name in ("cluster", "groups", "transactions", "shares", "telemetry", "fetch_sessions"):
        walk(getattr(engine, name), name)
    return found
