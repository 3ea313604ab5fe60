"""Finds the release of Kafka that announces the API versions and features of a learned cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafkawire.registry import KEYS
from wirebroker.core import releases

RELEASES = Path(releases.__file__).parent
"""The folder with a file for each release of Kafka. Each file has the versions that a real broker of the release announced."""
TELEMETRY = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})
"""The APIs that a broker announces only if it is configured to receive clients' metrics."""
Ranges = Mapping[str, tuple[int, int]]


def release_of(announced: Ranges, features: Mapping[str, tuple[int, int, int]]) -> tuple[str, bool]:
    """Returns two values: the release whose versions and features are most similar to the announced versions and features, and
    whether both are equal. If several releases are equally similar, the newest of these releases is returned.
    """
    best: tuple[tuple[bool, int, tuple[int, ...]], str] | None = None
    announced = _of_clients(announced)
    for told in _releases():
        known = _of_clients({name: tuple(versions) for name, versions in told["api_versions"].items()})
        alike = sum(announced.get(name) == versions for name, versions in known.items())
        ranges = {name: tuple(levels[:2]) for name, levels in told["features"].items()}
        exact = known == announced and all(ranges.get(name) == levels[:2] for name, levels in features.items())
        rank = (exact, alike, tuple(map(int, told["release"].split("."))))
        if best is None or rank > best[0]:
            best = rank, told["release"]
    assert best is not None
    return best[1], best[0][0]


def _of_clients(ranges: Ranges) -> Ranges:
    """Returns the versions of the APIs that clients use. Only these versions are compared, because old brokers also announce
    APIs that only brokers use."""
    return {name: versions for name, versions in ranges.items() if name in KEYS and name not in TELEMETRY}


def _releases() -> Iterator[dict[str, Any]]:
    for file in sorted(RELEASES.glob("kafka-*.json")):
        yield json.loads(file.read_text(encoding="utf-8"))
