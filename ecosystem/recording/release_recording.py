"""Plays the recorded scenarios on another release of Kafka. The module chooses the broker, the repetitions, and the scenarios
that the release supports.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ecosystem.kafka.releases import KafkaUnavailable, has_kraft, numbers
from ecosystem.kafka.security import OAuth, Security
from ecosystem.kafka.server import TELEMETRY_RECEIVER, KafkaServer
from wirebroker_tools.conformance.recording import USERS, Json, Scenario
from wirebroker_tools.conformance.releases import MODES, ReleaseRecording
from wirebroker_tools.conformance.replay import play
from wirebroker_tools.conformance.run import Run
from wirebroker_tools.conformance.versions import VersionMode

TIMES = 2
"""The number of times that a scenario is played in each mode."""
NEEDS_NEW_BROKER = (
    "cold", "controller", "cold_shares", "cold_shares_alter", "features", "log_dirs", "log_dirs_new",
    "loggers", "secured_acls",
)  # fmt: skip
"""Groups of scenarios that leave state behind. Each turn of such a group gets a new broker, because this state would disturb
the next turn."""
APART = ("features", "log_dirs", "loggers")
"""Groups in which each scenario gets its own broker. A scenario of these groups leaves state that would disturb the other
scenarios: levels of features or of loggers, or logs in directories.
"""
SECURED_AT_ONCE = ("secured_sessions", "secured_tokens")
AT_ONCE = ("slow", "secured", "groups", "expire", "expire_txnid", "expire_off_retention", *SECURED_AT_ONCE)
"""Groups whose turns are played at the same time, because the scenarios wait for a long time and are independent of each
other."""
PAUSE = 0.3
"""After this many seconds, even a broker on a busy machine has applied a change of a group's settings."""
RETENTION_AFTER = 31
"""A broker first checks for old segments this many seconds after its start. Releases before 3.6 have no setting for this."""
Turn = tuple[VersionMode, int]
TURNS: list[Turn] = [(mode, count) for mode in MODES for count in range(TIMES)]


def server_for(scenario: Scenario, version: str) -> KafkaServer:
    """Returns a broker of this version, with the settings of the scenario."""
    settings = scenario.settings | ({"metric.reporters": TELEMETRY_RECEIVER} if scenario.telemetry else {})
    oauth = OAuth() if scenario.ran_on == "secured_tokens" else None
    security = Security(USERS, listeners=("SASL_PLAINTEXT",), oauth=oauth) if scenario.secured else None
    return KafkaServer(settings, version=version, security=security)


def cannot(scenario: Scenario, version: str, apis: Iterable[str]) -> str | None:
    """Returns why a release does not support a scenario, or "". `apis` are the APIs that the release announces."""
    release, has = numbers(version), set(apis)
    if scenario.telemetry and release < (3, 7):
        return "needs metrics of clients (KIP-714)"
    if scenario.ran_on == "features" and release < (4,):
        return "needs levels of features that later releases have"
    if scenario.ran_on == "secured_tokens" and release < (2,):
        return "needs OAUTHBEARER (KIP-255)"
    if scenario.ran_on.startswith("log_dirs") and has_kraft(version) and release < (3, 7):
        return "needs several log directories in KRaft (KIP-858)"
    if scenario.ran_on.startswith("cold_shares") and "ShareGroupHeartbeat" not in has:
        return "needs ShareGroupHeartbeat"
    if has_kraft(version) and release < (3, 6) and scenario.ran_on == "secured_owners":
        return "needs delegation tokens in KRaft (KAFKA-15219)"
    if has_kraft(version) and release < (3, 5) and any("SCRAM-SHA" in str(row["step"]) for row in scenario.steps):
        return "needs SCRAM in KRaft (KIP-900)"
    asked = Counter(row["step"]["api"] for row in scenario.steps if row["step"]["op"] in ("ask", "exchange"))
    if not scenario.telemetry and 2 * sum(asked[api] for api in asked.keys() - has) > len(scenario.steps):
        return f"needs {', '.join(sorted(asked.keys() - has))}"
    return None


def record(recording: ReleaseRecording, scenarios: Iterable[Scenario], *, again: bool = False) -> Iterator[str]:
    """Play the scenarios that the release supports, and record the broker's responses. Yields the name of each finished group.
    With `again`, a step is left out if its response differs from the earlier recording.
    """
    groups: dict[tuple[str, str], list[Scenario]] = defaultdict(list)
    for scenario in scenarios:
        groups[scenario.ran_on, scenario.name if scenario.ran_on in APART else ""].append(scenario)
    for (name, _), group in groups.items():
        began = time.monotonic()
        try:
            seen = _play_group(name, group, recording.version)
        except KafkaUnavailable as refused:
            print(f"{name}: {refused}", file=sys.stderr)
            recording.skipped |= dict.fromkeys(
                [each.name for each in group], "needs settings with which the release does not start"
            )
            continue
        except TimeoutError as late:
            print(f"{name}: {late}", file=sys.stderr)
            recording.skipped |= dict.fromkeys([each.name for each in group], f"did not end: {late}")
            continue
        for scenario in group:
            for mode in MODES:
                recording.add(scenario, mode, [seen[scenario.name, (mode, count)] for count in range(TIMES)], again=again)
        print(f"{name}: {len(group)} scenarios in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        yield name


def _play_group(name: str, group: list[Scenario], version: str) -> dict[tuple[str, Turn], list[Json]]:
    """Returns the observations of each scenario in each turn. If no request of a scenario needs a lower version, the scenario's
    clamped turns are not played: they have the observations of its named turns.
    """
    seen: dict[tuple[str, Turn], list[Json]] = {}
    same: set[str] = set()

    def known(scenario: Scenario, mode: VersionMode, count: int) -> bool:
        named = seen.get((scenario.name, ("named", count)))
        if mode == "named" or scenario.name not in same or named is None:
            return False
        seen[scenario.name, (mode, count)] = named
        return True

    def play_all(server: KafkaServer, mode: VersionMode, count: int) -> None:
        for scenario in group:
            if not known(scenario, mode, count):
                run = Run(scenario, server, mode)
                seen[scenario.name, (mode, count)] = play(run, PAUSE)
                if not run.lowered:
                    same.add(scenario.name)

    if name in NEEDS_NEW_BROKER:
        for turn in TURNS:
            if not all(known(scenario, *turn) for scenario in group):
                with started(group[0], version) as server:
                    play_all(server, *turn)
        return seen
    # If a turn fails, the broker stops first. The other turns then end, because their requests get no response.
    with ThreadPoolExecutor(len(TURNS) if name in AT_ONCE else 1) as threads, started(group[0], version) as server:
        list(threads.map(lambda turn: play_all(server, *turn), TURNS))
    return seen


@contextmanager
def started(scenario: Scenario, version: str) -> Iterator[KafkaServer]:
    """Yields a broker for a scenario. If the scenario needs it, the broker has already run for as long as the recorded broker
    had run."""
    with server_for(scenario, version) as server:
        if scenario.ran_on == "expire_off_retention" and numbers(version) < (3, 8):
            time.sleep(RETENTION_AFTER)
        yield server
