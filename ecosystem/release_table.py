"""Runs checks on wirebroker as several releases of Kafka and, with `--beside-kafka`, on real brokers of these releases.

add_release_flags(parser)
if chosen.releases:
    return compare(console, chosen, play)
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ecosystem.kafka.releases import RELEASES

NAMED = 4
"""A cell of the table names at most this number of checks that differ."""
BESIDE = (
    "A cell counts the checks that the {row} passes on wirebroker, of the checks that it passes on a real Kafka of the "
    "release. After the counts, the cell names checks that pass only on wirebroker (+) or only on the real Kafka (−)."
)
ALONE = "A cell counts the checks that the {row} passes, of the checks that it should pass, and names the checks that fail."


@dataclass(frozen=True, slots=True)
class Checked:
    """The checks of one client or suite on one broker. `missing` is the reason why the checks did not run, or ""."""

    name: str
    version: str
    passed: Collection[str]
    wanted: Collection[str]
    missing: str = ""


Passing = Mapping[str, Collection[str]] | None
"""The names of the checks that pass on a real Kafka of the release, for each client or suite; None without a real Kafka."""
Play = Callable[[str, bool, Passing], list[Checked]]
"""Runs everything on a broker of a release. The broker is a real Kafka if the second argument is true."""


def some_of(known: Mapping[str, object]) -> Callable[[str], list[str]]:
    """Returns the type of an option whose value is a list of names from `known`, separated by commas."""

    def parse(text: str) -> list[str]:
        names = [part.strip() for part in text.split(",") if part.strip()]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return names

    return parse


def add_release_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name releases, and the flag for the table's file."""
    parser.add_argument("--releases", type=some_of(RELEASES), metavar="X.Y,Z.W", help="run on each of these releases of Kafka")
    parser.add_argument(
        "--beside-kafka",
        action="store_true",
        help="with --releases: also run on real Kafka brokers, and count only checks that pass on these",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to this file")


def check_release_flags(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """End the script with an error if flags contradict each other."""
    if chosen.releases and (chosen.bootstrap or chosen.on_kafka):
        parser.error("--releases starts the brokers itself, so it cannot be used with --bootstrap or --on-kafka")
    if chosen.beside_kafka and not chosen.releases:
        parser.error("--beside-kafka needs --releases")


def compare(console: Console, chosen: argparse.Namespace, row: str, play: Play) -> int:
    """Run everything on each release, print the table and write it. `row` is the heading of the column with the rows' names.
    Returns 1 if a check that should pass fails on wirebroker. Raises ServerFailed and KafkaUnavailable.
    """
    rows: dict[str, list[str]] = {}
    agree = True
    for release in chosen.releases:
        kafka = {each.name: each for each in play(release, True, None)} if chosen.beside_kafka else {}
        passing = {name: each.passed for name, each in kafka.items() if not each.missing} if chosen.beside_kafka else None
        for own in play(release, False, passing):
            row_of = rows.setdefault(own.name, [own.name, own.version])
            reason = own.missing or (kafka[own.name].missing if kafka else "")
            row_of.append("not run" if reason else _cell(own))
            agree &= bool(reason) or set(own.wanted) <= set(own.passed)
            if reason:
                console.print(f"{own.name} was not run on {release}: {reason}", markup=False, highlight=False)
            elif lost := sorted(set(own.wanted) - set(own.passed)):
                console.print(
                    f"{own.name} on {release} fails: {', '.join(lost)}", markup=False, highlight=False, soft_wrap=True
                )
    table = _markdown([row, "version", *chosen.releases], rows, (BESIDE if chosen.beside_kafka else ALONE).format(row=row))
    console.print(table, markup=False, highlight=False, soft_wrap=True)
    if chosen.markdown:
        chosen.markdown.write_text(table)
    return 0 if agree else 1


def _cell(own: Checked) -> str:
    passed, wanted = set(own.passed), set(own.wanted)
    differing = "".join(_differing(sign, names) for sign, names in (("−", wanted - passed), ("+", passed - wanted)) if names)
    return f"{len(passed & wanted)} of {len(wanted)}{differing}"


def _differing(sign: str, names: set[str]) -> str:
    if len(names) > NAMED:
        return f" {sign}{len(names)}"
    return "".join(f" {sign}{name}" for name in sorted(names))


def _markdown(headings: list[str], rows: dict[str, list[str]], explained: str) -> str:
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    lines += [f"| {' | '.join(cells)} |" for cells in rows.values()]
    return "\n".join(lines) + f"\n\n{textwrap.fill(explained, 120)}\n"
