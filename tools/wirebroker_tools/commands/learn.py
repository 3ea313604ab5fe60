"""`wirebroker learn`: a cluster's release, settings, topics, groups, quotas, ACLs and users, as a file for `serve --like`."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kafkawire.errors import WireError
from kafkawire.printable import printable
from wirebroker.audit.findings import plural
from wirebroker.client.brokers import Brokers
from wirebroker.client.login import LoginFailed
from wirebroker.client.settings import Access, read_access
from wirebroker.client.wire import ConnectionClosed, Limits
from wirebroker.commands.arguments import Unread, write_output
from wirebroker.commands.usage import UsageError
from wirebroker.testing.learned_file import Learned, dump, read
from wirebroker.testing.likeness import OPEN
from wirebroker_tools.learning.anonymous import anonymous
from wirebroker_tools.learning.asking import CannotLearn
from wirebroker_tools.learning.compare import compare, table
from wirebroker_tools.learning.learn import learn

CLIENT_ID = "wirebroker-learn"
KEY_BYTES = 16
LARGEST_RESPONSE = 64 * 1024 * 1024
"""A response has at most this many bytes. The Metadata of 100,000 partitions has about five million bytes."""
PATIENCE = 10
"""A whole response may take this many times as long as request.timeout.ms. The wait for the next byte may take
request.timeout.ms."""
SHOWN = 6
"""The output names at most this many omitted settings. The written file names all omitted settings."""
SECURED = "; if this listener has TLS or SASL, --command-config tells how to reach it"


def run(options: argparse.Namespace) -> int:
    """Learn a cluster, or compare two files. Returns 0, or 1 if the files differ, or 2 if the command failed."""
    if options.compare is not None:
        if options.bootstrap or options.out or options.command_config or options.anonymous:
            raise UsageError("--compare reads two files; give it without the flags that learn a cluster")
        return _compare(*options.compare)
    if options.bootstrap is None or options.out is None:
        raise UsageError("give --bootstrap (the cluster) and --out (the file), or --compare A B to compare two files")
    learned = _learn(options.bootstrap, options.command_config)
    learned = anonymous(learned, secrets.token_bytes(KEY_BYTES)) if options.anonymous else learned
    write_output(options.out, dump(learned))
    for line in _summary(learned, options.bootstrap, options.out):
        print(printable(line))
    return 0


def _learn(bootstrap: str, config: str | None) -> Learned:
    """Learn the cluster of the first broker that can be reached. Raises CannotLearn, BadConfig."""
    access = Access() if config is None else read_access(config)
    addresses = [each.strip() for each in bootstrap.split(",") if each.strip()]
    problem = f"--bootstrap {bootstrap!r} is not host:port"
    for address in addresses:
        try:
            seconds = access.timeout_ms / 1000
            limits = Limits(LARGEST_RESPONSE, seconds * PATIENCE)
            with closing(Brokers(access, seconds, CLIENT_ID, limits)) as brokers, _progress() as progress:
                return learn(brokers, address, progress)
        except ConnectionClosed as refused:
            problem = f"{address}: {refused}{SECURED if config is None else ''}"
        except (OSError, WireError, LoginFailed, ValueError) as broken:
            raise CannotLearn(f"{address}: {broken}{SECURED if config is None else ''}") from None
    raise CannotLearn(problem)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Shows a progress bar on a terminal, and nothing elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("asking")
        yield lambda section, done, total: progress.update(task, description=section, completed=done, total=total)


def _summary(learned: Learned, bootstrap: str, out: str) -> Iterator[str]:
    release = f"Kafka {learned.release}" if learned.exact else f"like Kafka {learned.release}" if learned.release else "Kafka"
    partitions = sum(len(each.replicas) for each in learned.topics)
    yield f"{bootstrap} is {release}, judging by the versions of {len(learned.api_versions)} APIs" + (
        ""
        if learned.exact or not learned.release
        else "; no release announces exactly these versions; this is the nearest release"
    )
    counts = [
        plural(len(learned.brokers), "broker"), plural(len(learned.topics), "topic"), plural(partitions, "partition"),
        plural(len(learned.groups), "group"), plural(len(learned.quotas), "quota"), plural(len(learned.acls), "ACL"),
        plural(len(learned.users), "user"),
    ]  # fmt: skip
    yield f"learned     {', '.join(counts)}"
    for each in learned.unread:
        yield f"not read    {each.section}: {each.error}" + (f"; needs {each.needs}" if each.needs else "")
    if learned.left_out:
        more = f" and {len(learned.left_out) - SHOWN} more" if len(learned.left_out) > SHOWN else ""
        yield f"left out    {', '.join(learned.left_out[:SHOWN])}{more}"
    if OPEN in learned.left_out:
        yield f"assumed     {OPEN}=true: it is set, and Kafka hides its value"
    yield f"{out}: `wirebroker serve --like {out}` serves such a cluster, empty"


def _compare(one: str, other: str) -> int:
    """Print the differences between two files. Raises FileError."""
    names = (one, other)
    found = compare(read(one), read(other), names)
    for note in found.notes:
        print(printable(note), file=sys.stderr)
    reservation = " in the parts that were compared" if found.notes else ""
    with Unread():
        for line in table(found.differences, names) if found.differences else ():
            print(printable(line))
        if found.differences:
            print(f"{plural(len(found.differences), 'difference')}{reservation}")
        else:
            print(printable(f"{one} and {other} are alike{reservation}"))
    return 1 if found.differences else 0
