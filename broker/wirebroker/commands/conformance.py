"""`wirebroker conformance`: replay recorded scenarios and print each difference from Kafka."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kafkawire.errors import WireError
from kafkawire.messages.api_versions import ApiVersionsRequest
from wirebroker.client.wire import WireClient, address_of
from wirebroker.common.complaints import complain
from wirebroker.conformance.own_broker import OwnBroker
from wirebroker.conformance.recording import Difference, Scenario, deliberate, load
from wirebroker.conformance.replay import RemoteBroker, replay

NEEDS_RESTART = "restarts the broker, which cannot be done by address"
NEEDS_GROUPS = "needs share groups and streams groups"
NEEDS_SETTINGS = "was recorded with other settings than a broker by address has"


@dataclass(slots=True)
class Report:
    """The result of a run."""

    agreed: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    deliberate: list[Difference] = field(default_factory=list)
    steps: int = 0


def run(options: argparse.Namespace) -> int:
    """Replay the scenarios. Returns the exit code: 0 if every step agrees, 1 if one differs, 2 if it could not be done."""
    try:
        only = options.only.split(",") if options.only else None
        scenarios = load(Path(options.file) if options.file else None, only)
        remote = RemoteBroker(*address_of(options.bootstrap)) if options.bootstrap else None
        report = run_all(scenarios, remote)
    except (ValueError, OSError) as wrong:
        complain("conformance", wrong)
        return 2
    _print(report)
    if options.json:
        Path(options.json).write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    return 1 if report.differing else 0


def run_all(scenarios: Iterable[Scenario], remote: RemoteBroker | None = None) -> Report:
    """Replay scenarios on a broker by address, or each on a broker of our own with the settings it was recorded with."""
    from rich.progress import track

    report = Report()
    for scenario in track(list(scenarios), "replaying", transient=True, disable=not sys.stderr.isatty()):
        if (reason := _unable(scenario, remote)) is not None:
            report.skipped[scenario.name] = reason
        elif remote is not None:
            check_responses(remote)
            _one(scenario, remote, report)
        else:
            with OwnBroker(scenario.settings, secured=scenario.secured, telemetry=scenario.telemetry) as own:
                _one(scenario, own, report)
    return report


def check_responses(remote: RemoteBroker) -> None:
    """Raises ConnectionError if no Kafka broker responds at the address, or no longer does; each step would differ."""
    with closing(WireClient(*remote.address)) as client:
        try:
            client.request(ApiVersionsRequest(), 0)
        except (OSError, WireError) as broken:
            raise ConnectionError("no Kafka broker responds at {}:{}: {}".format(*remote.address, broken)) from broken


def _unable(scenario: Scenario, remote: RemoteBroker | None) -> str | None:
    if remote is None:
        return None
    if scenario.ran_on == "restart":
        return NEEDS_RESTART
    if scenario.ran_on == "groups":
        return NEEDS_GROUPS
    return NEEDS_SETTINGS if scenario.ran_on not in ("main", "slow") else None


def _one(scenario: Scenario, broker: OwnBroker | RemoteBroker, report: Report) -> None:
    observed, differences = replay(scenario, broker)
    report.steps += len(observed)
    report.deliberate += [difference for difference in differences if deliberate(difference)]
    found = [difference for difference in differences if not deliberate(difference)]
    report.differences += found
    (report.differing if found else report.agreed).append(scenario.name)


def _print(report: Report) -> None:
    for difference in report.differences:
        print(f"{difference.scenario}, step {difference.index}: {json.dumps(difference.step)}")
        print(f"    Kafka    {json.dumps(difference.expected)}")
        print(f"    here     {json.dumps(difference.got)}")
    for difference in report.deliberate:
        print(f"{difference.scenario}, step {difference.index}: a response where Kafka never responds (deliberate)")
    reasons = sorted(set(report.skipped.values()))
    for reason in reasons:
        names = [name for name, why in report.skipped.items() if why == reason]
        print(f"{len(names)} skipped, because each {reason}: {', '.join(names)}")
    total = len(report.agreed) + len(report.differing)
    print(f"{len(report.agreed)} of {total} scenarios agree with Kafka in every step ({report.steps} steps)")
