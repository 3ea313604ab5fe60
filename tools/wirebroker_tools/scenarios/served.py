"""The scenario that `serve --scenario` serves. The scenario's settings become flags of the broker, and this module brings the
new broker into the state in which the scenario begins.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from wirebroker.commands.usage import UsageError, whole
from wirebroker.engine.engine import Engine
from wirebroker_tools.scenarios.reading import find
from wirebroker_tools.scenarios.scenario import Part
from wirebroker_tools.scenarios.setup import bring_about, topics


@dataclass(frozen=True)
class Scene:
    """The part of a scenario that a broker serves (`wirebroker.tools.Scene`)."""

    part: Part

    @property
    def faults(self) -> Sequence[object]:
        """The faults that the part loads."""
        return self.part.faults

    def bring_about(self, engine: Engine, now: int) -> None:
        """Bring the broker into the state in which the part begins, at the time `now` in ms since the epoch."""
        bring_about(self.part, engine, now)


def scene(arguments: argparse.Namespace) -> Scene:
    """Add the settings of --scenario to the flags. Returns the scene to serve. Raises ValueError."""
    name, slash, number = arguments.scenario.rpartition("/") if not arguments.scenario.endswith(".toml") else ("", "", "")
    scenario = find(name if slash else arguments.scenario)
    if slash and not 0 < whole(number) <= len(scenario.parts):
        raise UsageError(f"--scenario {arguments.scenario}: {name} has the parts 1 to {len(scenario.parts)}")
    part = scenario.parts[int(number) - 1 if slash else 0]
    if arguments.brokers is not None or part.broker.brokers > 1:
        arguments.brokers = max(arguments.brokers or 1, part.broker.brokers)
    arguments.profile = arguments.profile or part.broker.profile
    arguments.topic[:0] = [f"{topic}:{count}" for topic, count in topics(part).items()]
    arguments.set[:0] = [f"{rule}={value}" for rule, value in part.broker.rules.items()]
    arguments.config[:0] = [f"{key}={value}" for key, value in part.broker.configs.items()]
    print(f"scenario {scenario.name}: {scenario.title}. {scenario.broker_does}", file=sys.stderr)
    return Scene(part)
