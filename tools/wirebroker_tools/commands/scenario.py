"""`wirebroker scenario list|show|run`: named failures, and how a client handles them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from wirebroker_tools.drivers import ClientName, driver, silence
from wirebroker_tools.scenarios.play import Result, play
from wirebroker_tools.scenarios.reading import find, names
from wirebroker_tools.scenarios.scenario import Scenario, ScenarioError
from wirebroker_tools.scenarios.show import Screen, as_json


def run(options: argparse.Namespace) -> int:
    """Run the subcommand. Returns the exit code: 0 for success, 1 if a client did not do what the scenario expects, 2 if the
    subcommand could not run.
    """
    if options.action == "list":
        Screen().catalogue(map(find, names()))
        return 0
    if options.action == "show":
        Screen().describe(find(options.name))
        return 0
    silence()
    return _run_all(options) if options.name == "all" else _run_one(options)


def _run_one(options: argparse.Namespace) -> int:
    scenario = find(options.name)
    client = options.client or ("kafka-python" if "kafka-python" in scenario.clients else scenario.clients[0])
    if client not in scenario.clients:
        raise ScenarioError(f"{client} cannot play {scenario.name}: {scenario.others}")
    results = []
    for result in _play([scenario], client):
        results.append(result)
        if not options.json:
            Screen().result(result)
    if options.json:
        print(json.dumps([as_json(result) for result in results], indent=1))
    elif len(results) > 1:
        Screen().comparison(results)
    return _code(results)


def _run_all(options: argparse.Namespace) -> int:
    from rich.progress import track

    client: ClientName = options.client or "kafka-python"
    driver(client)
    scenarios = [find(name) for name in names()]
    mine = [each for each in scenarios if client in each.clients]
    shown = track(mine, f"{client}", transient=True, disable=not sys.stderr.isatty())
    results = [result for scenario in shown for result in _play([scenario], client)]
    if options.json:
        print(json.dumps([as_json(result) for result in results], indent=1))
    else:
        Screen().summary(results, {each.name: each.others for each in scenarios if each not in mine})
    return _code(results)


def _play(scenarios: Sequence[Scenario], client: ClientName) -> Iterator[Result]:
    for scenario in scenarios:
        for part in scenario.parts:
            yield play(scenario, part, client)


def _code(results: Sequence[Result]) -> int:
    return 0 if all(result.met for result in results) else 1
