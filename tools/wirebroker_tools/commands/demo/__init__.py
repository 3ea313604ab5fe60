"""`wirebroker demo`: real clients, and scenarios with raw retries, send to a broker in this process. The demo shows the reason
for each verdict.

`clients` and the scenarios define the expected results. The exit code is 1 if a result differs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from wirebroker.mock import MockKafka
from wirebroker_tools.commands.demo.clients import CLIENTS, VALUES, ClientResult, drive, topic_of
from wirebroker_tools.commands.demo.show import Screen
from wirebroker_tools.drivers import ClientName, silence
from wirebroker_tools.scenarios.play import Result, play
from wirebroker_tools.scenarios.reading import find
from wirebroker_tools.scenarios.scenario import Part, Scenario

FLOWS = ("B1", "B2", "B3", "B4", "B7")
"""The scenarios in the demo. Only the first part of each scenario is played, with the `wire` client."""


def run(options: argparse.Namespace) -> int:
    """Play the clients and the scenarios, show the verdicts, and compare them with the expected verdicts.

    Returns the exit code: 0 if everything went as expected, else 1.
    """
    silence()  # otherwise the libraries would print errors when the broker stops
    with MockKafka() as kafka:
        code = demonstrate(kafka, Screen())
        if options.no_spark or find_spec("pyspark") is None:
            return code
        return max(code, audit_on_spark(kafka.bootstrap_servers))


def audit_on_spark(address: str) -> int:
    """Audit the clients' broker over the wire, as `wirebroker audit` would. Returns the exit code of the audit."""
    report = Path(tempfile.mkdtemp(prefix="wirebroker-demo-")) / "report"
    print(f"\n$ wirebroker audit --bootstrap {address} --out {report}", flush=True)
    code: int = import_module("wirebroker.commands.cli").main(["audit", "--bootstrap", address, "--out", str(report)])
    return code


def demonstrate(
    kafka: MockKafka,
    screen: Screen,
    clients: Sequence[ClientName] = CLIENTS,
    flows: Sequence[tuple[Scenario, Part]] | None = None,
) -> int:
    """Run the demo: the clients on this broker, and each flow on its own broker. Returns the exit code."""
    started = time.monotonic()
    screen.begin(kafka.bootstrap_servers)
    results: list[ClientResult | Result] = []
    for client in clients:
        results.append(driven := drive(client, kafka))
        screen.client(driven)
    for scenario, part in flows if flows is not None else [(flow, flow.parts[0]) for flow in map(find, FLOWS)]:
        results.append(played := play(scenario, part, "wire"))
        screen.flow(played)
    run = [client for client, result in zip(clients, results, strict=False) if getattr(result, "rows", None)]
    intended = [(topic_of(client), None, value.encode()) for client in run for value in VALUES]
    audit = kafka.audit([topic_of(client) for client in run], intended=intended)
    screen.audit(audit, [result for result in results if isinstance(result, Result)])
    screen.end(results, time.monotonic() - started)
    return 1 if audit.findings or any(result.differences for result in results) else 0
