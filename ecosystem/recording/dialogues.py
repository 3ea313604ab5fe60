"""Play random dialogues on a real Apache Kafka: record its responses, or compare another broker with Kafka.

    scripts/record dialogues groups --count 60 --steps 45 --out FILE.jsonl.gz     record dialogues
    scripts/record dialogues transactions --compare 127.0.0.1:9092                compare this broker with Kafka
    scripts/record dialogues transactions --bootstrap 127.0.0.1:29092 …           use a Kafka that runs already
    scripts/record dialogues transactions --release 2.8 …                         use another release of Kafka
    scripts/record dialogues transactions --seed 17 --count 1 --before 40 …       play one dialogue, and print its steps

The seed and Kafka's responses determine a dialogue. So a seed gives the same dialogue as long as Kafka's responses stay the
same. Without --compare every dialogue is played three times, side by side, on Kafka. If the responses of the three runs differ,
the dialogue is reported and not recorded. The first difference of each dialogue is printed with the steps before it. Exit code
1 on a difference, 2 if the dialogues could not be played. Without --bootstrap the script needs Java and mvn.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ecosystem.kafka.releases import VERSION, version_of
from ecosystem.kafka.server import KafkaServer
from ecosystem.recording.common import parser_of
from kafkawire.errors import ProtocolError
from random_dialogues.odd import RECORDED
from random_dialogues.playing import Address, OfRelease, Played, Subject, play
from random_dialogues.replay import Step, describe, save
from wirebroker.client.wire import WireClient
from wirebroker.core.releases import release
from wirebroker_tools.conformance.versions import Announced

TIMES = 3
"""The number of runs of a dialogue for a recording. If a response depends on chance, the runs most likely differ.
"""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        with _kafka(options) as kafka:
            brokers = [kafka, options.compare] if options.compare else [kafka] * TIMES
            played = list(_play_all(options, brokers))
    except (ProtocolError, OSError) as wrong:
        print(f"scripts/record dialogues: {wrong or type(wrong).__name__}", file=sys.stderr)
        return 2
    if options.out:
        kept = [each.dialogue for each in played if each.difference is None]
        save(options.out, kept)
        print(f"{options.out}: {len(kept)} dialogues, {options.out.stat().st_size} bytes")
    _report(played, options)
    return 1 if any(each.difference for each in played) else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("dialogues", __doc__)
    parser.add_argument("subject", choices=sorted(RECORDED), help="the subject of the dialogues")
    parser.add_argument("--count", type=int, default=60, metavar="N", help="the number of dialogues (60)")
    parser.add_argument("--steps", type=int, default=40, metavar="N", help="the number of requests in each dialogue (40)")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="S", help="the seed of the first dialogue; the next seeds follow (1)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the recording here, compressed if it ends in .gz")
    parser.add_argument("--bootstrap", type=_address, metavar="H:P", help="use the running Kafka at this address")
    parser.add_argument("--compare", type=_address, metavar="H:P", help="the broker to compare with Kafka")
    parser.add_argument("--release", metavar="X.Y", help="a release other than 4.3; requests use its API versions")
    parser.add_argument(
        "--before", type=int, default=6, metavar="N", help="the number of steps to print before a difference (6)"
    )
    parser.add_argument("--responses", action="store_true", help="count Kafka's responses, by API and error")
    options = parser.parse_args(arguments)
    if options.out and options.compare:
        parser.error("--out records only Kafka's responses, so it cannot be used with --compare")
    return options


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not host:port")
    return host, int(port)


@contextmanager
def _kafka(options: argparse.Namespace) -> Iterator[Address]:
    if options.bootstrap is not None:
        yield options.bootstrap
        return
    with KafkaServer(version=version_of(options.release) if options.release else VERSION) as server:
        yield server.address


def _subject(options: argparse.Namespace, seed: int, announced: Announced) -> Subject:
    subject = RECORDED[options.subject](seed)
    return OfRelease(subject, announced, release(options.release)) if options.release else subject


def _play_all(options: argparse.Namespace, brokers: list[Address]) -> Iterator[Played]:
    with closing(WireClient(*brokers[0])) as client:
        announced = Announced.by(client)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(options.subject, total=options.count)
        for seed in range(options.seed, options.seed + options.count):
            played = play(_subject(options, seed, announced), brokers, options.steps)
            if played.difference is not None:
                print(describe(played.difference, options.before), end="\n\n", flush=True)
            progress.update(task, advance=1, description=f"{options.subject}, seed {seed}")
            yield played


def _report(played: list[Played], options: argparse.Namespace) -> None:
    steps = [step for each in played for step in each.dialogue.steps]
    if options.responses:
        _count_responses(steps)
    well = sum(each.difference is None for each in played)
    cut = sum(each.cut and each.difference is None for each in played)
    ours = sum(_succeeded(step) for step in steps)
    print(f"{well} of {len(played)} dialogues agree ({len(steps)} steps, of which {ours} succeeded)")
    if cut:
        print(f"{cut} of them ended early, at a response of Kafka that depends on chance")


def _errors(value: object) -> Iterator[str]:
    """Yields every error code in a response, at any depth."""
    if isinstance(value, dict):
        yield from (str(item) for name, item in value.items() if name.endswith("error_code"))
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _errors(item)


def _succeeded(step: Step) -> bool:
    return not any(_errors(list(step.responses.values())))


def _count_responses(steps: list[Step]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for step in steps:
        for error in set(_errors(list(step.responses.values()))) or {"0 NONE" if step.responses else "no response"}:
            counts[step.ask.api, error] += 1
    for (api, error), count in sorted(counts.items()):
        print(f"{count:6} {api:22} {error}")
