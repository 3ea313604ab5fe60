"""`wirebroker demo`: real clients and raw retries against a broker in this process, and the reason for each verdict.

What is expected is written down in `flows` and `clients` before anything is sent; the exit code says whether it held.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Sequence

from wirebroker.commands.demo.clients import CLIENTS, Client, ClientResult, drive
from wirebroker.commands.demo.flows import FLOWS, Flow, FlowResult, play
from wirebroker.commands.demo.show import Screen
from wirebroker.mock import MockKafka


def run(options: argparse.Namespace) -> int:
    """Send, show and compare: 0 if everything went as expected, 1 if anything did not."""
    for library in ("kafka", "aiokafka"):  # what they think of a broker that goes away is not the demo's subject
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)
    with MockKafka() as kafka:
        return demonstrate(kafka, Screen())


def demonstrate(
    kafka: MockKafka, screen: Screen, clients: Sequence[Client] = CLIENTS, flows: Sequence[Flow] = FLOWS
) -> int:
    """Run the demo on this broker; its exit code."""
    started = time.monotonic()
    screen.begin(kafka.bootstrap_servers)
    results: list[ClientResult | FlowResult] = []
    for client in clients:
        results.append(driven := drive(client, kafka))
        screen.client(driven)
    for flow in flows:
        results.append(played := play(flow, kafka))
        screen.flow(played)
    screen.end(results, time.monotonic() - started)
    return 1 if any(result.differences for result in results) else 0
