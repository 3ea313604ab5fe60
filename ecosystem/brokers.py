"""The broker for the clients of a script: wirebroker, a real Kafka or another broker, optionally behind a proxy.

with ExitStack() as stack:
    address = through_proxy(stack, real_kafka(stack, {"num.partitions": "2"}), "verdicts")
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.process import Server
from ecosystem.kafka.releases import VERSION
from ecosystem.kafka.security import CA, INTERNAL, SERVER, Security
from ecosystem.kafka.server import READY_WITHIN, KafkaServer, KafkaUnavailable
from kafkawire.messages.metadata import MetadataRequest
from wirebroker.client.wire import WireClient

WIREBROKER = (sys.executable, "-c", "import sys; from wirebroker.commands.cli import main; sys.exit(main())")
"""The command that starts wirebroker."""
ROOT = Path(__file__).resolve().parent.parent
LEVELS = ("off", "verdicts", "changes", "exchanges", "all")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that name the broker."""
    parser.add_argument("--bootstrap", metavar="H:P", help="a broker to use, instead of starting wirebroker")
    parser.add_argument(
        "--on-kafka", action="store_true", help="start a real Kafka, instead of wirebroker (needs Java and mvn)"
    )
    add_proxy_flag(parser)


def add_proxy_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag that puts a proxy in front of the broker."""
    parser.add_argument(
        "--through-proxy", nargs="?", const="verdicts", choices=LEVELS, metavar="LEVEL",
        help="put a `wirebroker proxy` with this trace level (verdicts) in front of the broker",
    )  # fmt: skip


def use_checkout() -> None:
    """Let child processes run the code of this checkout."""
    paths = [str(ROOT / "broker"), str(ROOT / "protocol"), str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def real_kafka(stack: ExitStack, settings: Mapping[str, str], version: str = VERSION) -> str:
    """Starts a real Kafka with these settings, and returns its address. Raises KafkaUnavailable."""
    return "{}:{}".format(*stack.enter_context(KafkaServer(settings, version=version, heap="1g")).address)


Addresses = list[dict[str, str]]
"""For each broker, the address of each listener by its security protocol."""


def kafka_cluster(
    stack: ExitStack, settings: Mapping[str, str], brokers: int, security: Security, version: str = VERSION,
    port: int = 0, advertised: str = "",
) -> Addresses:  # fmt: skip
    """Starts a real Kafka of several brokers, and returns their listeners. `port` and `advertised` belong to the first broker;
    the other brokers have the next ports. If brokers advertise another address, they reach each other through an additional
    listener. Raises KafkaUnavailable.
    """
    first, servers = int(settings.get("node.id", "1")), list[KafkaServer]()
    if advertised:
        security, settings = Security(listeners=(INTERNAL,)), {**settings, "inter.broker.listener.name": INTERNAL}
    for number in range(brokers):
        server = KafkaServer(
            {**settings, "node.id": str(first + number)}, version=version, security=security, port=port and port + number,
            joins=servers[0] if servers else None, advertised=moved(advertised, number),
        )  # fmt: skip
        servers.append(stack.enter_context(server))
    with closing(WireClient(*servers[0].address)) as client:
        until = time.monotonic() + READY_WITHIN
        while len(client.request(MetadataRequest(topics=[]), 4).brokers) < brokers:
            if time.monotonic() > until:
                raise KafkaUnavailable(f"the {brokers} brokers of Kafka did not form a cluster within {READY_WITHIN:.0f} s")
            time.sleep(0.1)
    return [{name: f"{host}:{port}" for name, (host, port) in each.addresses.items()} for each in servers]


def moved(address: str, ports: int) -> str:
    """Returns the address with a port that is higher by this number; for "" returns ""."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + ports}" if address else ""


def own_cluster(
    stack: ExitStack, settings: Mapping[str, str], brokers: int, security: Security, more: Sequence[str] = ()
) -> Addresses:
    """Starts a wirebroker with this number of brokers, and returns their listeners. Raises ServerFailed."""
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="wirebroker-")))
    security.make_certificates(folder)
    flags = ["--brokers", str(brokers), "--port", "0", "--tls-cert", str(folder / SERVER)]
    flags += ["--tls-client-ca", str(folder / CA), "--tls-client", "requested"]
    flags += [word for name in security.listeners for word in ("--listener", f"{name}={name}://127.0.0.1:0")]
    flags += [word for name, password in security.users.items() for word in ("--user", f"{name}:{password}")]
    flags += [word for name, value in settings.items() for word in ("--config", f"{name}={value}")]
    said = stack.enter_context(Server([*WIREBROKER, "serve", *flags, *more])).output
    found: dict[str, dict[str, str]] = {}
    for address, node, protocol in re.findall(r"listening on (\S+) \(node (\d+)(?:, (\w+))?\)", said):
        found.setdefault(node, {})[protocol or "PLAINTEXT"] = address
    return list(found.values())


def through_proxy(stack: ExitStack, address: str, level: str | None, flags: Sequence[str] = ()) -> str:
    """Starts a proxy in front of this broker, and returns its address. Without a trace level, starts no proxy and returns the
    broker's own address. Raises ServerFailed."""
    if level is None:
        return address
    command = [*WIREBROKER, "proxy", "--upstream", address, "--listen", "127.0.0.1:0", "--trace-level", level, *flags]
    return stack.enter_context(Server(command)).address
