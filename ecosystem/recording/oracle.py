"""Replay the recorded scenarios on a real Apache Kafka, and record its responses.

    scripts/record oracle                          replay all scenarios, and print each difference from the recording
    scripts/record oracle --out FILE               also write a new recording of the same scenarios
    scripts/record oracle --only gap,dup_last      only these scenarios
    scripts/record oracle --release 3.9            record the API versions, features and settings of another release, and
                                                   each step whose response differs from 4.3.1 (with --only: only in
                                                   these scenarios)
    scripts/record oracle --release 3.9 --again --only gap    also leave out steps that differ from the present recording
    scripts/record oracle --release 3.9 --announced    only its API versions, features and settings
    scripts/record oracle --release 4.4 --file FILE    replay scenarios that only this release has; with --out, write them
    scripts/record oracle --through-proxy          with a `wirebroker proxy` in front of Kafka
    scripts/record oracle --defaults FILE          record the defaults of all settings instead (tests/data/defaults-4.3.1.json)
    scripts/record oracle --numbers [--release 4.4]    record the responses to numbers out of range instead, of 4.3 or 4.4, into
                                                   tests/data (tests/number_requests.py)

Every group of scenarios gets a fresh broker with the recorded settings. Waits and restarts take their real time, so a
recording takes two to three minutes, and ten to twenty for another release. Exit code 1 if a response differs, 2 if
the scenarios could not be replayed. Needs Java and mvn.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import number_requests
from acl_requests import USERS, log_in
from default_settings import defaults
from ecosystem.brokers import add_proxy_flag, through_proxy, use_checkout
from ecosystem.kafka.releases import VERSION, has_kraft, numbers, version_of
from ecosystem.kafka.security import Security
from ecosystem.kafka.server import TELEMETRY_RECEIVER, KafkaServer
from ecosystem.recording.announced import announced, make_topic, write
from ecosystem.recording.common import ROOT, parser_of
from ecosystem.recording.release_recording import cannot, record, server_for
from kafkawire.messages.api_versions import ApiVersionsRequest
from wirebroker.client.wire import Connection, WireClient, address_of
from wirebroker_tools.conformance.recording import Difference, Json, Scenario, load
from wirebroker_tools.conformance.releases import BASE, MODES, ReleaseRecording, read
from wirebroker_tools.conformance.replay import replay
from wirebroker_tools.conformance.run import ReplayTarget

ANNOUNCED = ROOT / "broker" / "wirebroker" / "core" / "releases"
NOT_PLAYED = "was not played"
RECORDED = ROOT / "tools" / "wirebroker_tools" / "conformance" / "recordings" / "releases"


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        if options.numbers:
            return _record_numbers(options.release or BASE)
        if options.release and not options.file:
            return _record_release(options)
        return _record_defaults(options.defaults) if options.defaults else _replay(options)
    except (ValueError, OSError) as wrong:
        print(f"scripts/record oracle: {wrong}", file=sys.stderr)
        return 2


def _replay(options: argparse.Namespace) -> int:
    """Replay the recorded scenarios on Kafka 4.3.1. Options choose a file of scenarios, and another release."""
    version = version_of(options.release) if options.release else VERSION
    scenarios = load(options.file, options.only.split(",") if options.only else None)
    with Progress(TextColumn("{task.description:42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        task = progress.add_task("starting Kafka", total=len(scenarios))
        recorded: dict[str, Json] = {}
        differences: list[Difference] = []
        broker = ""
        for scenario, server in _on_real_brokers(scenarios, options.through_proxy, version):
            progress.update(task, description=scenario.name)
            with closing(WireClient(*server.address)) as client:
                broker = broker or _describe(client, version)
            observed, found = replay(scenario, server)
            recorded[scenario.name] = _recording(scenario, observed)
            differences += found
            progress.advance(task)
    if options.out:
        ordered = [recorded[scenario.name] for scenario in scenarios]
        text = json.dumps({"broker": broker, "scenarios": ordered}, indent=1, ensure_ascii=False)
        options.out.write_text(text + "\n", encoding="utf-8")
    _report(scenarios, differences, broker)
    return 1 if differences else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("oracle", __doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the new recording to this file")
    parser.add_argument("--file", type=Path, metavar="FILE", help="replay the recording in this file")
    parser.add_argument("--only", metavar="NAME,…", help="only these scenarios")
    parser.add_argument("--release", metavar="X.Y", help="record this release of Kafka")
    parser.add_argument(
        "--announced", action="store_true", help="with --release: record only the API versions, features and settings"
    )
    parser.add_argument(
        "--again", action="store_true", help="with --release: leave out steps that differ from the present recording"
    )
    parser.add_argument("--defaults", type=Path, metavar="FILE", help="record the defaults of all settings in this file")
    parser.add_argument("--numbers", action="store_true", help="record the responses to numbers out of range")
    add_proxy_flag(parser)
    return parser.parse_args(arguments)


def _record_release(options: argparse.Namespace) -> int:
    """Record the API versions, features and settings of a release, and the steps whose response differs from the response of
    4.3.1."""
    version = version_of(options.release)
    with _plain_broker(version) as client:
        described, broker = announced(client, options.release, version), _describe(client, version)
    write(ANNOUNCED / f"kafka-{options.release}.json", described)
    if options.announced or options.release == BASE:
        return 0
    path = RECORDED / f"kafka-{options.release}.json.xz"
    if (options.only or options.again) and path.exists():
        recording = read(path.read_bytes())
    else:
        recording = ReleaseRecording(version, broker, dict.fromkeys([each.name for each in load()], NOT_PLAYED))
    scenarios = load(only=options.only.split(",") if options.only else None)
    reasons = {each.name: cannot(each, version, described["api_versions"]) for each in scenarios}
    recording.skipped |= {name: reason for name, reason in reasons.items() if reason}
    for _ in record(recording, [each for each in scenarios if not reasons[each.name]], again=options.again):
        recording.write(path)
    for mode in MODES:
        changed = sum(map(len, recording.differing(mode).values()))
        left_out = sum(map(len, recording.left_out[mode].values()))
        print(
            f"{broker}, versions {mode}: {changed} steps differ from {VERSION}, {left_out} gave other responses when repeated"
        )
    print(f"{len(recording.skipped)} scenarios skipped; {path.stat().st_size} bytes")
    return 0


@contextmanager
def _plain_broker(version: str) -> Iterator[WireClient]:
    """Yields a client of a broker that sets no internal settings. (Kafka describes an internal setting only if it is set.)"""
    server = KafkaServer(version=version)
    del server.settings["log.initial.task.delay.ms"]
    with server, closing(WireClient(*server.address)) as client:
        make_topic(client)
        yield client


def _record_defaults(path: Path) -> int:
    """Record the default settings of a broker, a topic, a group and client metrics, as DescribeConfigs returns them."""
    with _plain_broker(VERSION) as client:
        path.write_text(json.dumps(defaults(client), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


class _Numbers:
    """A real broker that gets requests with numbers out of range."""

    def __init__(self, server: KafkaServer) -> None:
        self._addresses, self.pause = server.addresses, time.sleep

    def connect(self, *, secured: bool = False) -> Connection:
        return log_in(self._addresses["SASL_PLAINTEXT"], "admin") if secured else Connection(self._addresses["PLAINTEXT"])


def _record_numbers(release: str) -> int:
    """Record the responses of 4.3 or, for another release, only the responses that differ from 4.3."""
    security = Security(USERS, listeners=("SASL_PLAINTEXT",))
    settings = number_requests.SETTINGS | {"metric.reporters": TELEMETRY_RECEIVER}
    with KafkaServer(settings, version=version_of(release), security=security) as server:
        steps = list(number_requests.play(_Numbers(server), release))
    if release != BASE:
        known = number_requests.recorded(BASE)
        changed = {step.case for step in steps if known.get(step[:-1]) != step.response}
        steps = [step for step in steps if step.case in changed]
    number_requests.write(release, steps)
    print(f"{len(steps)} responses of Kafka {version_of(release)}")
    return 0


class Proxied:
    """A real broker whose clients go through a proxy."""

    def __init__(self, server: KafkaServer, address: tuple[str, int]) -> None:
        self.address = address
        self.addresses = server.addresses
        self.now, self.sleep, self.restart = server.now, server.sleep, server.restart


def _on_real_brokers(scenarios: list[Scenario], proxy: str | None, version: str) -> Iterator[tuple[Scenario, ReplayTarget]]:
    """Group the scenarios that need the same settings, start a broker for each group, and yield each scenario with its broker.

    `proxy` is the trace level of a proxy in front of the broker; None means no proxy.
    """
    use_checkout()
    groups: dict[str, list[Scenario]] = defaultdict(list)
    for scenario in scenarios:
        groups[scenario.ran_on].append(scenario)
    for group in groups.values():
        with server_for(group[0], version) as server, ExitStack() as stack:
            address = through_proxy(stack, "{}:{}".format(*server.address), proxy)
            for scenario in group:
                yield scenario, server if proxy is None else Proxied(server, address_of(address))


def _describe(client: WireClient, version: str) -> str:
    """Describes the broker: its release, and the finalized features on which its behaviour depends."""
    request = ApiVersionsRequest(client_software_name="wirebroker", client_software_version="1")
    response = client.request(request, 3 if numbers(version) >= (2, 4) else 0)
    features = {feature.name: feature.max_version_level for feature in response.finalized_features}
    named = [f"{name} {features[name]}" for name in ("metadata.version", "transaction.version") if name in features]
    return f"Apache Kafka {version} ({', '.join(['KRaft' if has_kraft(version) else 'ZooKeeper', *named])})"


def _recording(scenario: Scenario, observed: list[Any]) -> Json:
    steps = [{"step": row["step"], "observed": seen} for row, seen in zip(scenario.steps, observed, strict=True)]
    return {"name": scenario.name, "about": scenario.about, "steps": steps, "ran_on": scenario.ran_on}


def _report(scenarios: list[Scenario], differences: list[Difference], broker: str) -> None:
    for difference in differences:
        print(f"{difference.scenario}, step {difference.index}: {json.dumps(difference.step, ensure_ascii=False)}")
        print(f"    recorded {json.dumps(difference.expected, ensure_ascii=False)}")
        print(f"    now      {json.dumps(difference.got, ensure_ascii=False)}")
    steps = sum(len(scenario.steps) for scenario in scenarios)
    differing = len({difference.scenario for difference in differences})
    print(f"{broker}: {len(scenarios) - differing} of {len(scenarios)} scenarios agree with the recording in every step")
    print(f"{steps - len(differences)} of {steps} steps agree")
