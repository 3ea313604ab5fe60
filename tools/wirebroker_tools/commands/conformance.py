"""`wirebroker conformance`: replay recorded scenarios and print each difference from Kafka."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

from kafkawire.errors import WireError
from kafkawire.messages.api_versions import ApiVersionsRequest
from wirebroker.client.wire import WireClient, address_of
from wirebroker.commands.arguments import Unread, write_output
from wirebroker.common.complaints import complain
from wirebroker.core.profile import ProfileName
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import LEFT_OUT, Difference, Scenario, deliberate, load, own_scenarios
from wirebroker_tools.conformance.releases import BASE, MODES, PREFIX, recorded_releases, release_recording
from wirebroker_tools.conformance.replay import RemoteBroker, replay
from wirebroker_tools.conformance.versions import VersionMode

NEEDS_RESTART = "restarts the broker, which cannot be done by address"
NEEDS_GROUPS = "needs share groups and streams groups"
NEEDS_SETTINGS = "was recorded with settings that the broker at the address does not have"


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
    """Replay the scenarios. Returns the exit code: 0 if every step agrees, 1 if a step differs, 2 if the scenarios could not be
    replayed."""
    try:
        remote = RemoteBroker(*address_of(options.bootstrap)) if options.bootstrap else None
        reports = {versions: run_all(scenarios, remote, play) for versions, (scenarios, play) in _wanted(options).items()}
    except ValueError as wrong:
        complain("conformance", wrong)
        return 2
    with Unread():
        for versions, report in reports.items():
            _print(report, f", versions {versions}" if len(reports) > 1 else "")
    if options.json:
        told = {versions: asdict(report) for versions, report in reports.items()}
        text = json.dumps(told if options.profile else told["named"], indent=1)
        write_output(options.json, text + "\n")
    return 1 if any(report.differing for report in reports.values()) else 0


@dataclass(frozen=True, slots=True)
class Play:
    """The settings of a replay: the profile of wirebroker, the versions of requests, and the scenarios that a release does not
    support."""

    profile: ProfileName = "kafka-4.3"
    versions: VersionMode = "named"
    skipped: Mapping[str, str] = field(default_factory=dict)


def _wanted(options: argparse.Namespace) -> dict[VersionMode, tuple[list[Scenario], Play]]:
    """For each way of choosing request versions, returns the scenarios to replay and the settings of the replay. Raises
    ValueError.
    """
    only = options.only.split(",") if options.only else None
    profile = cast(ProfileName, options.profile or f"{PREFIX}{BASE}")
    release = profile.removeprefix(PREFIX)
    if release == BASE:
        return {"named": (load(Path(options.file) if options.file else None, only), Play())}
    if options.file:
        raise ValueError(f"--file is a recording of Kafka {BASE} and cannot be used with --profile")
    own = [each for each in own_scenarios(release) if only is None or each.name in only]
    rest = None if only is None else [name for name in only if name not in {each.name for each in own}]
    if own and (rest == [] or release not in recorded_releases()):
        return {"named": (own, Play(profile))}
    recording = release_recording(release)
    modes = [options.versions] if options.versions else MODES
    skipped = {name: reason for name, reason in recording.skipped.items() if only is None or name in only}
    return {
        versions: (
            [*recording.scenarios(versions, rest), *(own if versions == "named" else ())], Play(profile, versions, skipped),
        )
        for versions in modes
    }  # fmt: skip


def run_all(scenarios: Iterable[Scenario], remote: RemoteBroker | None = None, play: Play = Play()) -> Report:
    """Replay the scenarios on the broker `remote`. Without `remote`, replay each scenario on a wirebroker of its own, which has
    the settings of the recording."""
    from rich.progress import track

    report = Report(skipped=dict(play.skipped))
    for scenario in track(list(scenarios), "replaying", transient=True, disable=not sys.stderr.isatty()):
        if (reason := _unable(scenario, remote)) is not None:
            report.skipped[scenario.name] = reason
        elif remote is not None:
            check_responses(remote)
            _one(scenario, remote, report, play)
        else:
            with OwnBroker(
                scenario.settings, profile=play.profile, secured=scenario.secured, telemetry=scenario.telemetry
            ) as own:
                _one(scenario, own, report, play)
    return report


def check_responses(remote: RemoteBroker) -> None:
    """Raises ConnectionError if no Kafka broker responds at the address, because every step would then differ."""
    with closing(WireClient(*remote.address)) as client:
        try:
            client.request(ApiVersionsRequest(), 0)
        except (OSError, WireError) as broken:
            raise ConnectionError("no Kafka broker responds at {}:{}: {}".format(*remote.address, broken)) from broken


def _unable(scenario: Scenario, remote: RemoteBroker | None) -> str | None:
    if remote is None:
        return None
    if scenario.ran_on in ("restart", "loggers"):
        return NEEDS_RESTART
    if scenario.ran_on == "groups":
        return NEEDS_GROUPS
    return NEEDS_SETTINGS if scenario.ran_on not in ("main", "slow") else None


def _one(scenario: Scenario, broker: OwnBroker | RemoteBroker, report: Report, play: Play) -> None:
    observed, differences = replay(scenario, broker, play.versions)
    report.steps += len(observed) - (scenario.expected or []).count(LEFT_OUT)
    report.deliberate += [difference for difference in differences if deliberate(difference)]
    found = [difference for difference in differences if not deliberate(difference)]
    report.differences += found
    (report.differing if found else report.agreed).append(scenario.name)


def _print(report: Report, which: str) -> None:
    for difference in report.differences:
        print(f"{difference.scenario}, step {difference.index}: {json.dumps(difference.step)}")
        print(f"    Kafka    {json.dumps(difference.expected)}")
        print(f"    here     {json.dumps(difference.got)}")
    for difference in report.deliberate:
        print(f"{difference.scenario}, step {difference.index}: INVALID_RECORD for a null record set (deliberate)")
    reasons = sorted(set(report.skipped.values()))
    for reason in reasons:
        names = [name for name, why in report.skipped.items() if why == reason]
        print(f"{len(names)} skipped, because each {reason}: {', '.join(names)}")
    total = len(report.agreed) + len(report.differing)
    print(f"{len(report.agreed)} of {total} scenarios agree with Kafka in every step ({report.steps} steps{which})")
