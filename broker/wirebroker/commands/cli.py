"""The command line: parsing only. The commands themselves are in `wirebroker.commands` and are imported when called."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from importlib import import_module
from math import inf
from typing import Any

from wirebroker.commands.arguments import Parser, output_file, seconds, whole_number
from wirebroker.core.profile import DEFAULT_PROFILE
from wirebroker.pictures import PICTURES

DESCRIPTION = """\
A Kafka test double that speaks the real wire protocol and responds as a release of Apache Kafka would.

  wirebroker serve --topic orders:3          point any Kafka client at 127.0.0.1:9092
  wirebroker serve --trace console           ... and watch each batch being judged
  wirebroker demo                            see real clients, retries, gaps and old epochs
  wirebroker scenario run B3                 see how your client library handles a named failure
  wirebroker explore -- go test ./producer   find the single faults that break an application
  wirebroker conformance                     compare with the responses of a real Kafka
  wirebroker learn --bootstrap H:P --out F   your own cluster, for `serve --like F`
  wirebroker audit --path DIR --out REPORT   audit any Kafka's log directory: was delivery exactly once?
"""
FORMS = ("hex", "base64", "xxd", "python", "binary")
"""The forms of bytes on the command line; `decode.forms` reads and writes them."""
LEAST_MEMORY_MIB = 512
"""The least memory of Spark in MiB. Spark does not start with less than 450 MiB."""
EXIT_CODES = "exit codes: 0 success, 1 a difference or a finding, 2 the command could not run"


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    from wirebroker.common.version import __version__, build

    parser = Parser(
        prog="wirebroker",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"wirebroker {__version__} ({build()})")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _serve(commands)
    demo = commands.add_parser("demo", help="real clients and raw retries, with the reason for each verdict")
    demo.add_argument(
        "--no-spark", action="store_true", help="leave out the audit on Spark, which runs if the extra audit is installed"
    )
    demo.set_defaults(command="demo")
    _health(commands)
    conformance = commands.add_parser("conformance", help="replay recorded scenarios and print each difference from Kafka")
    conformance.add_argument("--bootstrap", metavar="H:P", help="the broker to compare; without it wirebroker starts its own")
    conformance.add_argument("--only", metavar="NAME,…", help="only these scenarios")
    conformance.add_argument("--json", type=output_file, metavar="FILE", help="write the result to this file")
    conformance.add_argument("--file", metavar="FILE", help="replay the recording in this file")
    conformance.add_argument("--profile", metavar="kafka-X.Y", help="compare with the responses of this release of Kafka")
    conformance.add_argument("--versions", choices=("named", "clamped"), help="with --profile: the versions that scenarios "
        "name, or lower versions that the broker announces (both)")  # fmt: skip
    conformance.needs("--profile", "--versions")
    conformance.set_defaults(command="conformance")
    _releases(commands)
    _proxy(commands)
    _learn(commands)
    _scenario(commands)
    _explore(commands)
    _trace(commands)
    _explain(commands)
    _decode(commands)
    _audit(commands)
    parser.describe()
    return parser


def _health(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("health", help="exit 0 if a broker responds, 1 if not; for container health checks")
    parser.add_argument("--bootstrap", metavar="H:P", help="any Kafka broker (default: the address at which `serve` would "
        "listen with the same environment, else 127.0.0.1:9092)")  # fmt: skip
    _secured(parser.add_argument)
    parser.add_argument("--timeout", type=seconds, default=2.0, metavar="S", help="seconds to wait (%(default)s)")
    parser.set_defaults(command="health", serve=lambda: build_parser().parse_args(["serve"]))


def _releases(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("releases", help="the releases of Kafka that a broker can run, and the changes between two")
    actions = parser.add_subparsers(metavar="list | diff", required=True)
    actions.add_parser("list", help="name the releases").set_defaults(command="releases", action="list")
    diff = actions.add_parser("diff", help="what changes for a client between two releases", epilog=EXIT_CODES)
    diff.add_argument("old", metavar="A", help="a release, such as 3.9")
    diff.add_argument("new", metavar="B", help="another release")
    diff.set_defaults(command="releases", action="diff")


def _serve(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "serve",
        help="start the broker",
        description="Start the broker. The broker prints one line per listener when it is ready, and `ready` last.",
        epilog=f"Every flag has an environment variable: WIREBROKER_PORT for --port. Spaces separate the values of a "
        f"repeatable flag. Kafka's own names are understood "
        f"too: KAFKA_LISTENERS, KAFKA_ADVERTISED_LISTENERS, KAFKA_<SETTING>. {EXIT_CODES}",
    )
    add = parser.add_argument

    def repeated(flag: str, metavar: str, help: str) -> None:
        add(flag, action="append", default=[], metavar=metavar, help=help)

    add("--host", help="address to listen on (127.0.0.1)")
    add(
        "--port",
        type=whole_number(0, 65535),
        help="port of the first broker; each further broker takes the next port; 0 = any free port (9092)",
    )
    add("--brokers", type=whole_number(None, 1000), metavar="N", help="brokers in this process (1)")
    repeated("--advertise", metavar="[NAME=]H:P", help="the address that clients connect to, at the first listener or at "
        "NAME (each further broker takes the next port; repeatable)")  # fmt: skip
    repeated("--listener", metavar="NAME=[PROTOCOL://]H:P[@H:P]", help="a listener; with a PROTOCOL (PLAINTEXT, SSL, "
        "SASL_PLAINTEXT, SASL_SSL) it takes the place of the usual listener unless --host or --port is given; the address "
        "after @ is advertised; each further broker takes the next ports (repeatable)")  # fmt: skip
    add("--tls", choices=("auto",), help="make certificates for the listeners that speak TLS, and print where their authority "
        "lies (needs the extra tls)")  # fmt: skip
    add("--tls-cert", metavar="FILE", help="the certificate of the listeners that speak TLS (PEM)")
    add("--tls-key", metavar="FILE", help="the certificate's private key, if it is in another file")
    add("--tls-client-ca", metavar="FILE", help="the authority of clients' certificates (PEM)")
    add("--tls-client", choices=("none", "requested", "required"), default="none",
        help="the certificates that SSL listeners want from clients (%(default)s)")  # fmt: skip
    repeated("--user", metavar="NAME:PASSWORD", help="a user who may log in at listeners with SASL, by any mechanism; the "
        "password @env:VARIABLE is the value of that variable, and does not show in `ps` (repeatable)")  # fmt: skip
    add("--users-file", type=_named, metavar="FILE", help="more users: a line NAME:PASSWORD for each")
    add("--telemetry", action="store_true", help="let clients push their own metrics (KIP-714)")
    repeated("--quota", metavar="WHOSE,LIMIT=N", help="what clients may use, as "
        "user=alice,client-id=app,producer_byte_rate=1000; the name <default> stands for all others (repeatable)")  # fmt: skip
    repeated("--feature", metavar="NAME=LEVEL", help="the level of a feature of a new cluster, as transaction.version=1 "
        "(repeatable)")  # fmt: skip
    repeated("--topic", metavar="NAME[:N][:rf=N][:KEY=VALUE]", help="create this topic with N partitions, N replicas and "
        "Kafka's topic settings (repeatable)")  # fmt: skip
    add("--partitions", type=whole_number(1, 2**31 - 1), metavar="N", help="default partitions: num.partitions")
    add("--like", type=_named, metavar="FILE.toml", help="start an empty copy of the cluster in this file of "
        "`wirebroker learn`; the other flags take precedence over the file")  # fmt: skip
    add("--profile", metavar="NAME", help=f"the release of Kafka, or the rules of the validator ({DEFAULT_PROFILE})")
    repeated("--set", metavar="RULE=VALUE", help="change one rule of the profile (repeatable)")
    add("--upgrade-to", metavar="NAME", help="upgrade the brokers to this release, one after the other, on the signal SIGUSR1")
    add("--upgrade-after", type=seconds, metavar="S", help="begin the upgrade S seconds after the start, without a signal")
    add("--upgrade-pause", type=seconds, metavar="S", help="each broker is down for S seconds of the broker's clock, and S "
        "more seconds pass before the next broker stops (0)")  # fmt: skip
    add("--no-finalize", action="store_true", help="do not raise the levels of features after the upgrade")
    repeated("--config", metavar="KEY=VALUE", help="a Kafka setting by Kafka's name (repeatable)")
    add("--scenario", metavar="NAME[/PART]", help="start with the settings and faults of this scenario, or of this part")
    add("--data", type=_named, metavar="DIR[,DIR…]",
        help="keep everything in this directory, or in several, in Kafka's own files (default: in memory)")  # fmt: skip
    add("--sync", default="never", choices=("always", "interval", "never"), help="with --data, flush the files "
        "before each response, every log.flush.interval.ms, or when the system decides, as in Kafka (%(default)s)")  # fmt: skip
    _faults(add, "make ids, and faults with a probability, repeatable")
    add("--clock", default="system", choices=("system", "frozen"), help="(%(default)s)")
    add("--warm", action="store_true", help="the coordinators' topics exist at the start, so clients need no first retry")
    repeated("--max-version", metavar="API=N", help="offer this API up to version N (repeatable)")
    add("--record-checks", default="full", choices=("full", "header"), help="check every record as Kafka does, or "
        "the batch header only (%(default)s)")  # fmt: skip
    _watching(add)
    _end_with_parent(parser)
    parser.needs("--upgrade-to", "--upgrade-after", "--upgrade-pause", "--no-finalize")
    parser.needs("--tls --tls-cert", "--tls-client")
    parser.needs("--tls --tls-cert --config --like", "--tls-client-ca")
    parser.needs("--tls-cert", "--tls-key")
    _needs_of_watching(parser)
    _mirror(parser, parser._actions)
    parser.set_defaults(command="serve", old_address=None)


def _faults(add: Callable[..., argparse.Action], seed_help: str) -> None:
    """Add the flags of faults, which `serve` and `proxy` have in common."""
    add("--faults", metavar="FILE.toml", help="load the faults in this file")
    add("--require-fired", action="store_true", help="exit with code 1 if a fault never fired")
    add("--random-seed", type=whole_number(-(2**63), 2**63 - 1), metavar="N", help=seed_help)


def _watching(add: Callable[..., argparse.Action]) -> None:
    """Add the flags for the trace and the loop, which `serve` and `proxy` have in common."""
    add("--control", metavar="H:P", help="open the HTTP control and the live page; a port alone listens on 127.0.0.1, "
        "0 = any free (needs the extra control)")  # fmt: skip
    add("--control-allow-host", action="append", default=[], metavar="NAME", help="accept requests to the control under "
        "this host name, such as a container's (repeatable); the control's own address and loopback are always "
        "accepted")  # fmt: skip
    add("--trace", action="append", default=[], metavar="console|FILE.jsonl", help="show or write the events of --trace-level "
        "(repeatable)")  # fmt: skip
    add("--trace-level", default="verdicts", choices=("off", "verdicts", "changes", "exchanges", "all"),
        help="each level adds events: verdicts and faults; connections and changes of state; responses and "
        "fetched batches; requests (%(default)s)")  # fmt: skip
    add("--capture", metavar="FILE.pcapng",
        help="write all requests and responses into this file for Wireshark, with the verdicts as comments")  # fmt: skip
    add("--rotate", metavar="SIZE|TIME", help="begin a new file of --trace and --capture when it has this size or age, like "
        "100MB, 1h or 100MB,1h; a full file gets a number in its name")  # fmt: skip
    add("--rotate-keep", type=whole_number(0, 1_000_000), metavar="N", help="keep only the N latest full files (10)")
    add("--loop", default="asyncio", choices=("asyncio", "uvloop"), help="the event loop (%(default)s)")


def _needs_of_watching(parser: Parser) -> None:
    """Name the flags of `_watching` that do nothing alone."""
    parser.needs("--control", "--control-allow-host")
    parser.needs("--trace --control --capture", "--trace-level")
    parser.needs("--trace --capture", "--rotate")
    parser.needs("--rotate", "--rotate-keep")


def _end_with_parent(parser: argparse.ArgumentParser) -> argparse.Action:
    return parser.add_argument("--exit-with-parent", action="store_true", help="end when the process that started this one "
        "ends, even if it is killed; on Windows, standard input must be a pipe")  # fmt: skip


def _mirror(parser: argparse.ArgumentParser, actions: Iterable[argparse.Action]) -> None:
    """Take each flag's default from its environment variable. Spaces separate the values of a repeatable flag. The parsed
    arguments have these defaults in `mirrored`, too.
    """
    mirrored: dict[str, Any] = {}
    parser.set_defaults(mirrored=mirrored)
    for action in actions:
        variable = f"WIREBROKER_{action.dest.upper()}"
        if action.option_strings and action.dest != "help" and variable in os.environ:
            try:
                action.default = _mirrored(action, os.environ[variable])
                mirrored[action.dest] = copy(action.default)
            except argparse.ArgumentTypeError as wrong:
                parser.error(f"{variable}: {wrong}")


def _mirrored(action: argparse.Action, text: str) -> Any:
    """The value of a flag that its variable gives. Raises ArgumentTypeError."""
    if isinstance(action.default, list):
        return text.split()
    if action.nargs == 0:
        return text.lower() in ("1", "true", "yes")
    if action.choices is not None and text not in action.choices:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(action.choices)}")
    return action.type(text) if callable(action.type) else text


def _proxy(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "proxy",
        help="stand in front of a real cluster: trace requests and responses, and inject faults",
        description="Pass requests on to a cluster. Each response that names a broker names a listener of the proxy instead.",
        epilog=f"Clients connect to --listen. Each further broker of the cluster gets the next port. {EXIT_CODES}",
    )
    add = parser.add_argument
    add("--upstream", required=True, type=_named, metavar="H:P[,H:P…]", help="a broker of the cluster; "
        "if several are given, clients get the first that can be reached")  # fmt: skip
    add("--listen", default="127.0.0.1:19092", type=_named, metavar="H:P", help="where clients connect (%(default)s)")
    add("--advertise", type=_named, metavar="HOST", help="the name by which clients on other machines reach this machine")
    _faults(add, "make faults with a probability repeatable")
    add("--allow-faults", action="store_true", help="load faults although the cluster is not on this machine")
    add("--config", action="append", default=[], metavar="KEY=VALUE", help="a limit for clients, by Kafka's name: "
        "socket.request.max.bytes, queued.max.request.bytes, max.connections … (repeatable)")  # fmt: skip
    add("--tls-cert", metavar="FILE", help="speak TLS with clients, with this certificate (PEM)")
    add("--tls-key", metavar="FILE", help="the certificate's private key, if it is in another file")
    add("--tls-client-ca", metavar="FILE", help="the authority of clients' certificates (PEM); clients need one")
    add("--tls-client", choices=("none", "requested", "required"), help="the certificates that the proxy wants from clients "
        "(required with --tls-client-ca, else none)")  # fmt: skip
    add("--command-config", type=_named, metavar="FILE", help="how to reach a secured cluster: TLS with PEM, PKCS12, JKS or "
        "the system's authorities, as Kafka's tools take it; clients log in with their own settings")  # fmt: skip
    add("--upstream-tls-ca", metavar="FILE", help="speak TLS with the brokers, whose certificates this authority signed (PEM)")
    add("--upstream-tls-cert", metavar="FILE", help="the client certificate that the proxy shows to the brokers (PEM)")
    add("--upstream-tls-key", metavar="FILE", help="the certificate's private key, if it is in another file")
    _watching(add)
    parser.needs("--tls-cert", "--tls-key", "--tls-client-ca", "--tls-client")
    parser.needs("--upstream-tls-ca", "--upstream-tls-cert")
    parser.needs("--upstream-tls-cert", "--upstream-tls-key")
    parser.needs("--faults --control", "--allow-faults", "--random-seed")
    _needs_of_watching(parser)
    _mirror(parser, [_end_with_parent(parser)])
    parser.set_defaults(command="proxy")


def _secured(add: Callable[..., Any], when: str = "") -> None:
    """Add the flag with which a command reaches a secured cluster."""
    add("--command-config", type=_named, metavar="FILE",
        help=f"{when}how to reach a secured cluster: TLS and SASL, as Kafka's tools take it")  # fmt: skip


def _learn(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "learn",
        help="read a cluster's release, settings, topics, ACLs …, for `serve --like`; or compare two clusters",
        description="Write a description of a cluster, without records and secrets, into a file for `serve --like`.",
        epilog=f"The command only reads the cluster, and reports the sections that it was not allowed to read. {EXIT_CODES}",
    )
    add = parser.add_argument
    add("--bootstrap", type=_named, metavar="H:P[,H:P…]", help="a broker of the cluster")
    _secured(add)
    add("--anonymous", action="store_true", help="hash all names, with a key that is thrown away")
    add("--out", type=output_file, metavar="FILE.toml", help="the file to write")
    add("--compare", nargs=2, type=_named, metavar=("A", "B"), help="print the differences between two such files")
    parser.set_defaults(command="learn")


def _scenario(commands: argparse._SubParsersAction[Parser]) -> None:
    scenario = commands.add_parser("scenario", help="named failures, and the reaction of a client")
    actions = scenario.add_subparsers(metavar="COMMAND", required=True, dest="action")
    actions.add_parser("list", help="list all scenarios")
    show = actions.add_parser("show", help="what happens in a scenario, and what a good client does")
    show.add_argument("name", metavar="NAME", help="as in the list, or a file that ends in .toml")
    run = actions.add_parser("run", help="run a client in a scenario: exit code 1 if it does not do what a good client does")
    run.add_argument("name", metavar="NAME", help="as in the list, a file that ends in .toml, or `all`")
    run.add_argument("--client", choices=("kafka-python", "aiokafka", "confluent", "wire"),
        help="(kafka-python) `wire` is a good producer of wirebroker's own")  # fmt: skip
    run.add_argument("--json", action="store_true", help="print the result as JSON")
    scenario.set_defaults(command="scenario")


def _explore(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "explore",
        help="find the single faults that break an application",
        usage="wirebroker explore [FLAGS] -- COMMAND …",
        description="Run a command again and again, each time with a broker of its own and one fault at one of its requests, "
        "and report the runs that lost, doubled or reordered records and ended with exit code 0. The command gets the broker's "
        "address in WIREBROKER_BOOTSTRAP, BOOTSTRAP_SERVERS and KAFKA_BOOTSTRAP_SERVERS.",
        epilog="Exit codes: 0 no fault broke the command silently, 1 a fault did, 2 no run was possible.",
    )
    add = parser.add_argument
    add("words", nargs="+", metavar="COMMAND", help="the command with its arguments, after --")
    add("--topic", action="append", default=[], metavar="NAME[:N]", help="create this topic with N partitions (repeatable)")
    add("--config", action="append", default=[], metavar="KEY=VALUE", help="a Kafka setting by Kafka's name (repeatable)")
    add("--profile", metavar="NAME", help="the release of the brokers, such as kafka-3.9")
    add("--setup", type=_named, metavar="CMD", help="run this first, without faults, for example to fill topics")
    add("--check", type=_named, metavar="CMD", help="run this after a command that ended with exit code 0, without faults; its "
        "exit code counts")  # fmt: skip
    add("--env", action="append", default=[], metavar="NAME", help="another environment variable for the address (repeatable)")
    add("--port", type=whole_number(1, 65535), metavar="N", help="the broker's port, for a command that cannot take an "
        "address; one run at a time")  # fmt: skip
    add("--upstream", type=_named, metavar="HOST:PORT", help="use a real cluster through a proxy, with the faults that a proxy "
        "can play; one run at a time")  # fmt: skip
    add("--allow-faults", action="store_true", help="with --upstream: try faults although the cluster is not on this machine")
    add("--output", action="append", default=[], metavar="TOPIC", help="compare the records of this topic only (repeatable)")
    add("--intended", type=_named, metavar="FILE", help="the records that each run should store: a journal, as for the audit")
    add("--api", metavar="API,…", help="try faults at requests of these APIs only")
    add("--faults", metavar="KIND,…", help="try these kinds of fault or errors only")
    add("--every", action="store_true", help="try faults at every request of a class, not only the first, second and last")
    add("--depth", type=whole_number(1, 2), choices=(1, 2), default=1, help="2 also tries pairs: a fault, and another fault at "
        "the retry (%(default)s)")  # fmt: skip
    add("--limit", type=seconds, default=180.0, metavar="S", help="a run that takes longer counts as hung (%(default)g s)")
    add("--budget", metavar="T", help="begin no further run after this time, like 10m")
    add("--jobs", type=whole_number(1, 1000), metavar="N", help="runs at once (two for each core)")
    add("--master", type=_named, metavar="URL", help="run the cases on a Spark cluster, such as spark://host:7077 or local[4]; "
        "needs the extra audit")  # fmt: skip
    add("--shard", metavar="I/N", help="try only this part of the faults, such as 3/10, to divide them among machines")
    add("--resume", action="store_true", help="continue an interrupted exploration with the same --out")
    add(
        "--baseline",
        type=_named,
        metavar="FILE",
        help="the explore.json of an earlier exploration: findings that it already has do not lead to exit code 1",
    )
    add("--fail-on", metavar="OUTCOME,…", help="the outcomes that lead to exit code 1: lost, doubled, reordered, "
        "open_transaction, hung, storm, check_failed, failed (all but the last)")  # fmt: skip
    add("--junit", type=output_file, metavar="FILE", help="write the runs as JUnit XML, too")
    add("--sarif", type=output_file, metavar="FILE", help="write the failing runs as SARIF 2.1.0")
    add("--out", type=_named, default="report", metavar="DIR", help="the directory of the report (%(default)s)")
    parser.needs("--upstream", "--allow-faults")
    parser.set_defaults(command="explore")


def _trace(commands: argparse._SubParsersAction[Parser]) -> None:
    trace = commands.add_parser("trace", help="read a trace that --trace FILE.jsonl wrote, or a capture (pcapng, pcap)")
    show = trace.add_subparsers(metavar="COMMAND", required=True).add_parser("show", help="print its rows")
    add = show.add_argument
    add("file", metavar="FILE", help="what --trace or --capture wrote, or a capture of tcpdump; - for standard input")
    add("--topic", metavar="NAME")
    add("--partition", type=whole_number(0, 2**31 - 1), metavar="N")
    add(
        "--producer",
        type=whole_number(0, 2**63 - 1),
        metavar="ID",
        help="a producer id: its batches, and all requests of its connections",
    )
    add("--transaction", metavar="ID", help="a transactional id")
    add("--group", metavar="ID")
    add("--verdict", choices=("accepted", "duplicate", "rejected"))
    add("--event", metavar="NAME", help="produce, fault, reply, fetch, group, transaction …")
    add("--api", metavar="NAME", help="requests, responses and verdicts of this API")
    add("--connection", type=whole_number(1, 2**63 - 1), metavar="N", help="the number after #")
    add("--client", metavar="ID", help="a client id")
    add("--principal", metavar="User:NAME", help="who logged in")
    add("--since", metavar="TIME", help="12:30:05.250, 2026-11-21T12:30 or ms since the epoch")
    add("--until", metavar="TIME")
    add("--where", default="", metavar="FILTER", help="a filter such as 'api=Produce error!=NONE' (docs/reference/trace.md)")
    add("--follow", action="store_true", help="show each row as it is appended, until Ctrl-C")
    add("--picture", choices=PICTURES, help="draw the chosen rows as SVG (docs/how-to/pictures.md)")
    add("--out", type=output_file, metavar="FILE", help="with --picture: write to this file, not to standard output")
    add("--of", default="", metavar="NAME", help="with --picture: the partition, group or producer to draw")
    add("--width", type=whole_number(100, 100_000), default=1000, metavar="PX", help="the width of the picture (%(default)s)")
    add("--fold", action=argparse.BooleanOptionalAction, help="show requests that repeat without an "
        "error as one line (the default on a terminal)")  # fmt: skip
    add("--page", action="store_true", help="show the file, of any size, on the live page (needs the extra control)")
    add("--control", type=_named, metavar="H:P", help="with --page: the page's address; a port alone is on "
        "127.0.0.1 (any free port)")  # fmt: skip
    add("--timeline", action="store_true", help="draw each producer's sequences: stored, duplicate, missing, stored again")
    show.needs("--picture", "--out", "--of", "--width")
    show.needs("--page", "--control")
    show.alone("--page", "--control")
    show.set_defaults(command="trace")


def _explain(commands: argparse._SubParsersAction[Parser]) -> None:
    explain = commands.add_parser(
        "explain",
        help="what is wrong in a trace, in a capture, or at a running broker or proxy",
        description="Print what is wrong, the most important first: what happened, its usual cause, where to look, and rows.",
        epilog="Exit codes: 0 no finding, 1 a finding, 2 the source could not be read.",
    )
    add = explain.add_argument
    add("source", metavar="FILE|URL", help="what --trace or --capture wrote, a capture of tcpdump, - for standard input, or "
        "the address of --control: http://127.0.0.1:8080")  # fmt: skip
    add("--json", type=output_file, metavar="FILE", help="write the findings to this file")
    explain.set_defaults(command="explain")


def _decode(commands: argparse._SubParsersAction[Parser]) -> None:
    decode = commands.add_parser(
        "decode",
        help="convert bytes of the protocol to named fields",
        description="Show requests, responses or record batches with their fields. A request and batches are recognised; "
        "for a response name the API and version.",
        epilog="Exit codes: 0 success, 1 record data is damaged, 2 the bytes cannot be read.",
    )
    add = decode.add_argument
    add("input", type=_named, metavar="INPUT", help="a file, - for standard input, or the bytes themselves: hex, base64, "
        "output of xxd, a literal of Python (b'…')")  # fmt: skip
    add("--api", metavar="NAME", help="the bytes are responses of this API")
    add("--version", type=whole_number(0, 2**15 - 1), metavar="N", help="... in this version")
    add("--form", choices=FORMS, help="the form of INPUT, if it is not recognised")
    add("--json", action="store_true", help="print JSON, which `encode` reads")
    decode.needs("--api", "--version")
    decode.set_defaults(command="decode")
    encode = commands.add_parser("encode", help="convert the output of `decode --json`, edited or not, to bytes")
    add = encode.add_argument
    add("input", type=_named, metavar="INPUT", help="a file, - for standard input, or JSON")
    add("--form", choices=FORMS, default="hex", help="(%(default)s)")
    add("--out", type=output_file, metavar="FILE", help="write to this file")
    encode.set_defaults(command="encode")
    diff = commands.add_parser("diff", help="two captured sessions side by side: errors, offsets, verdicts",
        epilog="Exit codes: 0 no difference that matters, 1 a difference, 2 a session cannot be read.")  # fmt: skip
    diff.add_argument("one", type=_named, metavar="A", help="a capture (pcapng, pcap)")
    diff.add_argument("other", type=_named, metavar="B")
    diff.set_defaults(command="diff")
    replay = commands.add_parser("replay", help="send a captured session again, and compare",
        epilog="Exit codes: 0 no difference that matters, 1 a difference, 2 the session cannot be replayed.")  # fmt: skip
    add = replay.add_argument
    add("session", type=_named, metavar="SESSION", help="a capture (pcapng, pcap)")
    add("--bootstrap", required=True, type=_named, metavar="H:P", help="the broker to which the session is sent")
    add("--create-topics", action="store_true", help="create the session's topics that do not exist")
    _secured(add)
    add("--timeout", type=seconds, default=30.0, metavar="S", help="seconds to wait for a response (%(default)s)")
    replay.set_defaults(command="replay")
    commands.add_parser("dissector", help="print a dissector for Wireshark (Lua) of all messages in all versions").set_defaults(
        command="dissector"
    )


def _audit(commands: argparse._SubParsersAction[Parser]) -> None:
    audit = commands.add_parser(
        "audit",
        help="was delivery exactly once? reads a log directory or a live cluster, on Spark",
        description="Read the stored records and report whether delivery was exactly once. Needs the extra audit.",
        epilog=EXIT_CODES,
    )
    where = audit.add_mutually_exclusive_group(required=True)
    where.add_argument("--path", type=_named, metavar="DIR",
        help="a log directory of wirebroker or of a real Kafka broker; also s3a:, hdfs: and abfs: addresses")  # fmt: skip
    where.add_argument("--bootstrap", type=_named, metavar="H:P", help="a live cluster, read batch by batch over the wire")
    add = audit.add_argument
    add("--remote-store", type=_named, metavar="DIR",
        help="with --path: where brokers keep the segments of tiered topics; a folder or an address")  # fmt: skip
    add("--topic", action="append", default=[], help="only this topic (repeatable)")
    _secured(add, "with --bootstrap: ")
    add("--max-rate", type=_rate, metavar="B", help="with --bootstrap: fetch at most this many bytes a second (like 20m)")
    add(
        "--trace",
        type=_named,
        metavar="FILE",
        help="the broker's trace: report also how other windows and profiles would judge its batches",
    )
    add("--intended", type=_named, metavar="FILE",
        help="the application's journal (JSON lines or Parquet) of the intended records, or TOML about its table")  # fmt: skip
    add("--pipeline", type=_named, action="append", default=[], metavar="in:TOPIC=out:TOPIC",
        help="was each input processed once? Or a TOML file with pipelines (repeatable)")  # fmt: skip
    add("--match", type=_named, metavar="PART",
        help="what inputs and outputs have in common: key (the default), header:NAME, value:JSONPATH, transaction")  # fmt: skip
    add("--since", type=_named, metavar="REPORT",
        help="continue where the audit in this report ended, and check both parts together")  # fmt: skip
    add("--out", required=True, type=_named, metavar="DIR", help="the directory of the report; an earlier report is replaced")
    add(
        "--producer-expiration",
        type=whole_number(1, 2**63 - 1),
        metavar="MS",
        help="the broker's producer.id.expiration.ms (86400000)",
    )
    add("--records-limit", type=whole_number(0, 2**63 - 1), metavar="N",
        help="compare a topic with more records than N batch by batch, without a journal (1000000)")  # fmt: skip
    add("--memory", type=_memory, metavar="SIZE",
        help="memory of Spark on this machine, like 4g (1500m); spark-submit has its own flag")  # fmt: skip
    add("--follow", type=seconds, metavar="S",
        help="update the findings every S seconds, until Ctrl-C")  # fmt: skip
    add("--master", type=_master, help="Spark's master (local[*])")
    add("--fail-on", choices=("certain", "likely", "never"),
        help="the lowest severity that leads to exit code 1 (likely)")  # fmt: skip
    add("--policy", type=_named, metavar="FILE", help="a TOML file: severities, ignored kinds and --fail-on for topics")
    add("--junit", type=_named, metavar="FILE", help="write the findings as JUnit XML, too")
    add("--sarif", type=_named, metavar="FILE", help="write the findings as SARIF 2.1.0")
    add("--prometheus", type=_named, metavar="FILE", help="write the numbers of findings in Prometheus' text format")
    add("--findings-to", type=_named, metavar="H:P/TOPIC", help="send the findings as JSON to this topic")
    add("--findings-table", type=_named, metavar="[FORMAT:]NAME", help="append the findings to this table of "
        "Spark's catalog or folder")  # fmt: skip
    audit.needs("--path", "--remote-store")
    audit.needs("--bootstrap", "--max-rate")
    audit.needs("--bootstrap --findings-to", "--command-config")
    audit.needs("--pipeline", "--match")
    audit.set_defaults(command="audit")


def _named(text: str) -> str:
    """A path or an address. An empty value is refused: it often comes from a variable that was never set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the value is empty")
    return text


def _rate(text: str) -> float:
    factor = {"k": 1024, "m": 1024**2, "g": 1024**3}.get(text[-1:].lower(), 1)
    try:
        rate = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        rate = 0
    if not 0 < rate < inf:
        raise argparse.ArgumentTypeError(f"expected bytes a second, like 500000 or 20m, not {text!r}")
    return rate


def _memory(text: str) -> str:
    match = re.fullmatch(r"(\d+)([mgt])b?", text, re.IGNORECASE)
    if match is None or int(match[1]) * {"m": 1, "g": 1024, "t": 1024**2}[match[2].lower()] < LEAST_MEMORY_MIB:
        raise argparse.ArgumentTypeError(f"expected a size of at least {LEAST_MEMORY_MIB}m, like 4g, not {text!r}")
    return text


def _master(text: str) -> str:
    if re.fullmatch(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+", text) is None:
        raise argparse.ArgumentTypeError(f"expected local[*], spark://host:port, yarn or k8s://…, not {text!r}")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parsed = build_parser().parse_args(arguments)
    gc.disable()  # modules are not garbage
    run = import_module(f"wirebroker.commands.{parsed.command}").run
    gc.freeze()
    gc.enable()
    try:
        code: int = run(parsed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the output has closed it, as in `| head`
        sys.stderr.close()
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
