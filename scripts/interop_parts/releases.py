"""Runs the same clients on wirebroker, which behaves as several releases of Kafka, and optionally on real Kafka brokers."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from contextlib import ExitStack

from _brokers import WIREBROKER, use_checkout
from _kafka_releases import version_of
from _kafka_server import KafkaServer
from bench_parts.process import Server
from interop_parts import secured
from interop_parts.checks import PASS, Outcome
from rich.console import Console

Play = Callable[[str], list[Outcome]]
"""A function that runs all clients on the broker at an address."""
BESIDE = (
    "A number counts the checks that a client passes on wirebroker, of those that it passes on a real Kafka of the "
    "release. The names after it are checks that pass only here (+) or only there (−)."
)
ALONE = "A number counts the checks that a client passes, of those that it offers. The names after it are checks that fail."


def compare(console: Console, chosen: argparse.Namespace, play: Play) -> int:
    """Run the clients on each release, print the table and write it. With `--beside-kafka`, returns 1 if a check passes on
    Kafka but fails on wirebroker. Without, returns 1 if any check fails. Raises ServerFailed and KafkaUnavailable.
    """
    use_checkout()
    chosen.checks = [check for check in chosen.checks if check not in secured.WAYS]
    rows: dict[str, list[str]] = {client: [] for client in chosen.clients}
    versions: dict[str, str] = {}
    agree = True
    for release in chosen.releases:
        kafka = _on_kafka(release, play) if chosen.beside_kafka else None
        own = _on_wirebroker(release, play)
        for at, outcome in enumerate(own):
            versions[outcome.client] = outcome.version
            rows[outcome.client].append(_cell(outcome, kafka[at] if kafka else None))
            agree &= not _lost(outcome, kafka[at] if kafka else None)
    table = _markdown(chosen.releases, rows, versions, BESIDE if chosen.beside_kafka else ALONE)
    console.print(table, markup=False, highlight=False)
    if chosen.markdown:
        chosen.markdown.write_text(table)
    return 0 if agree else 1


def _on_wirebroker(release: str, play: Play) -> list[Outcome]:
    with ExitStack() as stack:
        return play(stack.enter_context(Server([*WIREBROKER, "serve", "--port", "0", "--profile", f"kafka-{release}"])).address)


def _on_kafka(release: str, play: Play) -> list[Outcome]:
    with KafkaServer(version=version_of(release), heap="1g") as server:
        return play("{}:{}".format(*server.address))


def _passed(outcome: Outcome) -> set[str]:
    return {check for check, found in outcome.results.items() if found.result == PASS}


def _lost(own: Outcome, kafka: Outcome | None) -> list[str]:
    """Returns the checks that fail on wirebroker but pass on Kafka. Without results of Kafka, returns all failed checks."""
    return own.failed if kafka is None else sorted(_passed(kafka) - _passed(own))


def _cell(own: Outcome, kafka: Outcome | None) -> str:
    if own.missing:
        return "not run"
    passed, wanted = _passed(own), _passed(own) | set(own.failed) if kafka is None else _passed(kafka)
    differing = "".join(f" −{check}" for check in _lost(own, kafka))
    differing += "".join(f" +{check}" for check in sorted(passed - wanted))
    return f"{len(passed & wanted)} of {len(wanted)}{differing}"


def _markdown(names: list[str], rows: dict[str, list[str]], versions: dict[str, str], explained: str) -> str:
    lines = [f"| client | version | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    lines += [f"| {client} | {versions[client]} | {' | '.join(cells)} |" for client, cells in rows.items()]
    return "\n".join(lines) + f"\n\n{textwrap.fill(explained, 120)}\n"
