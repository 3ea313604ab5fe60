"""The broker that the clients of a script meet: wirebroker, a real Kafka or any other, and a proxy before it if wanted.

with ExitStack() as stack:
    address = through_proxy(stack, real_kafka(stack, {"num.partitions": "2"}), "verdicts")
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from _environment import ROOT
from _kafka_server import KafkaServer
from bench_parts.process import Server

WIREBROKER = (sys.executable, "-c", "import sys; from wirebroker.cli import main; sys.exit(main())")
"""The command that starts wirebroker."""
LEVELS = ("off", "verdicts", "changes", "exchanges", "all")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that name the broker."""
    parser.add_argument("--bootstrap", metavar="H:P", help="a broker to use, instead of starting wirebroker")
    parser.add_argument(
        "--on-kafka", action="store_true", help="start a real Kafka, instead of wirebroker (needs Java and mvn)"
    )
    add_proxy_flag(parser)


def add_proxy_flag(parser: argparse.ArgumentParser) -> None:
    """The flag that puts a proxy before the broker."""
    parser.add_argument(
        "--through-proxy", nargs="?", const="verdicts", choices=LEVELS, metavar="LEVEL",
        help="put a `wirebroker proxy` with this level of the trace (verdicts) before the broker",
    )  # fmt: skip


def use_checkout() -> None:
    """Let processes that are started run the code of this checkout."""
    paths = [str(ROOT / "broker"), str(ROOT / "protocol"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def real_kafka(stack: ExitStack, settings: Mapping[str, str], port: int = 0) -> str:
    """The address of a real Kafka with these settings. Raises KafkaUnavailable."""
    return "{}:{}".format(*stack.enter_context(KafkaServer(settings, port=port, heap="1g")).address)


def through_proxy(stack: ExitStack, address: str, level: str | None, flags: Sequence[str] = ()) -> str:
    """The address of a proxy before this broker; the broker's own without a level. Raises ServerFailed."""
    if level is None:
        return address
    command = [*WIREBROKER, "proxy", "--upstream", address, "--listen", "127.0.0.1:0", "--trace-level", level, *flags]
    return stack.enter_context(Server(command)).address
