"""Parses the command line, and does nothing else. The commands are in `wirebroker.commands`, and are imported when they are
called."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from importlib import import_module
from io import TextIOWrapper
from math import inf
from typing import Any

from wirebroker.commands.arguments import Parser, is_of_output, seconds, whole_number
from wirebroker.common.complaints import Complaint, complain
from wirebroker.testing.option_table import defaults, flags
from wirebroker.tools import installed_tools

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
LEAST_MEMORY_MIB = 512
"""The smallest memory of Spark in MiB. Spark does not start with less than 450 MiB."""
SWITCHES = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("", "0", "false", "no", "off"), False)
"""The values of the environment variable of a flag that takes no value."""
EXIT_CODES = "exit codes: 0 success, 1 a difference or a finding, 2 the command could not run"


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """Returns the parser of the whole command line, or only of this command of the broker. Making the parsers of all commands
    would take much of a broker's start time.
    """
    from wirebroker.common.version import __version__, build

    parser = Parser(
        prog="wirebroker",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"wirebroker {__version__} ({build()})")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    own = {"serve": _serve, "health": _health, "releases": _releases, "proxy": _proxy, "audit": _audit}
    for add in [own[command]] if command in own else own.values():
        add(commands)
    if command not in own and (tools := installed_tools()) is not None:
        tools.add_commands(commands)
    parser.describe()
    return parser


def _health(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("health", help="exit 0 if a broker responds, 1 if not; for container health checks")
    parser.add_argument("--bootstrap", metavar="H:P", help="any Kafka broker (default: the address at which `serve` would "
        "listen with the same environment, else 127.0.0.1:9092)")  # fmt: skip
    secured(parser.add_argument)
    parser.add_argument("--timeout", type=seconds, default=2.0, metavar="S", help="seconds to wait (%(default)s)")
    parser.set_defaults(command="wirebroker.commands.health", serve=lambda: build_parser("serve").parse_args(["serve"]))


def _releases(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("releases", help="the releases of Kafka that a broker can run, and the changes between two")
    actions = parser.add_subparsers(metavar="list | diff", required=True)
    actions.add_parser("list", help="name the releases").set_defaults(command="wirebroker.commands.releases", action="list")
    diff = actions.add_parser("diff", help="what changes for a client between two releases", epilog=EXIT_CODES)
    diff.add_argument("old", metavar="A", help="a release, such as 3.9")
    diff.add_argument("new", metavar="B", help="another release")
    diff.set_defaults(command="wirebroker.commands.releases", action="diff")


def _serve(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "serve",
        help="start the broker",
        description="Start the broker. The broker prints one line per listener when it is ready, and `ready` last.",
        epilog=f"Every flag has an environment variable: WIREBROKER_PORT for --port. Spaces separate the values of a "
        f"repeatable flag, but line breaks separate the values of --acl. Kafka's own names are understood "
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
    _options(add)
    repeated("--advertise", metavar="[NAME=]H:P", help="the address that clients connect to, at the first listener or at "
        "NAME (each further broker takes the next port; repeatable)")  # fmt: skip
    repeated("--listener", metavar="NAME=[PROTOCOL://]H:P[@H:P]", help="a listener; with a PROTOCOL (PLAINTEXT, SSL, "
        "SASL_PLAINTEXT, SASL_SSL) it takes the place of the usual listener unless --host or --port is given; the address "
        "after @ is advertised; each further broker takes the next ports (repeatable)")  # fmt: skip
    add("--tls", choices=("auto",), help="create certificates for the listeners with TLS, and print the path of their "
        "authority (needs the extra tls)")  # fmt: skip
    add("--tls-cert", metavar="FILE", help="the certificate of the listeners that speak TLS (PEM)")
    add("--tls-key", metavar="FILE", help="the certificate's private key, if it is in another file")
    add("--tls-client-ca", metavar="FILE", help="the authority of clients' certificates (PEM)")
    add("--tls-client", choices=("none", "requested", "required"), default="none",
        help="the certificates that SSL listeners want from clients (%(default)s)")  # fmt: skip
    add("--users-file", type=named, metavar="FILE", help="more users: a line NAME:PASSWORD for each")
    add("--partitions", type=whole_number(1, 2**31 - 1), metavar="N", help="default partitions: num.partitions")
    add("--upgrade-to", metavar="NAME", help="upgrade the brokers to this release, one after the other, on the signal SIGUSR1")
    add("--upgrade-after", type=seconds, metavar="S", help="begin the upgrade S seconds after the start, without a signal")
    add("--upgrade-pause", type=seconds, metavar="S", help="each broker is down for S seconds of the broker's clock, and S "
        "more seconds pass before the next broker stops (0)")  # fmt: skip
    add("--no-finalize", action="store_true", help="do not raise the levels of features after the upgrade")
    add("--scenario", metavar="NAME[/PART]", help="start with the settings and faults of this scenario or part")
    _faults(add, "repeat the ids, and the choices of faults with a probability, of an earlier start")
    _watching(add)
    _end_with_parent(parser)
    add("--ready", default="text", choices=("text", "json"), help="json prints one line when the broker is ready, for "
        "programs: {\"bootstrap\": …, \"control\": …, \"version\": …} (%(default)s)")  # fmt: skip
    parser.needs("--upgrade-to", "--upgrade-after", "--upgrade-pause", "--no-finalize")
    parser.needs("--tls --tls-cert", "--tls-client")
    parser.needs("--tls --tls-cert --config --like", "--tls-client-ca")
    parser.needs("--tls-cert", "--tls-key")
    _needs_of_watching(parser)
    _mirror(parser, parser._actions)
    parser.set_defaults(command="wirebroker.commands.serve", old_address=None)


def _options(add: Callable[..., argparse.Action]) -> None:
    """Add the flags that set an option of the broker."""
    of_options = defaults()
    for option, flag in flags().items():
        words: dict[str, Any] = {"help": flag.help}
        if flag.metavar:
            words["metavar"] = flag.metavar
        if flag.repeatable:
            words |= {"action": "append", "default": [], "help": f"{flag.help} (repeatable)"}
        elif of_options[option] is False:
            words["action"] = "store_true"
        elif flag.choices:
            words |= {"choices": flag.choices, "default": of_options[option]}
        elif flag.whole or flag.path:
            words["type"] = whole_number(*flag.whole) if flag.whole else named
        add(flag.name, **words)


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
    add("--rotate", metavar="SIZE|TIME", help="begin a new file of --trace and --capture when a file has this size or age, "
        "such as 100MB or 1h, or 100MB,1h for both; a full file gets a number in its name")  # fmt: skip
    add("--rotate-keep", type=whole_number(0, 1_000_000), metavar="N", help="keep only the N latest full files (10)")
    add("--loop", default="asyncio", choices=("asyncio", "uvloop"), help="the event loop (%(default)s)")


def _needs_of_watching(parser: Parser) -> None:
    """Some flags of `_watching` have no effect without another flag. Declare the other flag."""
    parser.needs("--control", "--control-allow-host")
    parser.needs("--trace --control --capture", "--trace-level")
    parser.needs("--trace --capture", "--rotate")
    parser.needs("--rotate", "--rotate-keep")


def _end_with_parent(parser: argparse.ArgumentParser) -> argparse.Action:
    return parser.add_argument("--exit-with-parent", action="store_true", help="end when the parent process ends, even if the "
        "parent is killed; on Windows, standard input must be a pipe")  # fmt: skip


def _mirror(parser: argparse.ArgumentParser, actions: Iterable[argparse.Action]) -> None:
    """Take each flag's default from its environment variable. In the variable of a repeatable flag, spaces separate the values.
    If the values may contain spaces, line breaks separate them. The parsed arguments also have these defaults in `mirrored`.
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
    """Returns the value that a flag's environment variable gives. Raises ArgumentTypeError."""
    if isinstance(action.default, list):
        in_lines = any(flag.in_lines for flag in flags().values() if flag.dest == action.dest)
        return [each.strip() for each in text.splitlines() if each.strip()] if in_lines else text.split()
    if action.nargs == 0:
        if (word := text.strip().lower()) not in SWITCHES:
            raise argparse.ArgumentTypeError(f"{text!r} is not true or false")
        return SWITCHES[word]
    if action.choices is not None and text not in action.choices:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(action.choices)}")
    return action.type(text) if callable(action.type) else text


def _proxy(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "proxy",
        help="stand in front of a real cluster: trace requests and responses, and inject faults",
        description="Forward requests to a cluster. In responses, addresses of brokers become addresses of the proxy.",
        epilog=f"Clients connect to --listen. Each further broker of the cluster gets the next port. {EXIT_CODES}",
    )
    add = parser.add_argument
    add("--upstream", required=True, type=named, metavar="H:P[,H:P…]", help="a broker of the cluster; "
        "if several are given, clients get the first that can be reached")  # fmt: skip
    add("--listen", default="127.0.0.1:19092", type=named, metavar="H:P", help="where clients connect (%(default)s)")
    add("--advertise", type=named, metavar="HOST", help="the name by which clients on other machines reach this machine")
    _faults(add, "repeat the choices of faults with a probability of an earlier start")
    add("--allow-faults", action="store_true", help="allow faults although the cluster is not on this machine")
    add("--config", action="append", default=[], metavar="KEY=VALUE", help="a limit for clients, by Kafka's name: "
        "socket.request.max.bytes, queued.max.request.bytes, max.connections … (repeatable)")  # fmt: skip
    add("--tls-cert", metavar="FILE", help="speak TLS with clients, with this certificate (PEM)")
    add("--tls-key", metavar="FILE", help="the certificate's private key, if it is in another file")
    add("--tls-client-ca", metavar="FILE", help="the authority of clients' certificates (PEM); clients need such a certificate")
    add("--tls-client", choices=("none", "requested", "required"), help="the certificates that the proxy wants from clients "
        "(required with --tls-client-ca, else none)")  # fmt: skip
    add("--command-config", type=named, metavar="FILE", help="a file for Kafka's tools that tells how to reach a secured "
        "cluster: TLS with PEM, PKCS12, JKS or the system's authorities; clients log in with their own settings")  # fmt: skip
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
    parser.set_defaults(command="wirebroker.commands.proxy")


def secured(add: Callable[..., Any], when: str = "") -> None:
    """Add the flag for access to a secured cluster."""
    add("--command-config", type=named, metavar="FILE",
        help=f"{when}a file for Kafka's tools that tells how to reach a secured cluster: TLS and SASL")  # fmt: skip


def _audit(commands: argparse._SubParsersAction[Parser]) -> None:
    audit = commands.add_parser(
        "audit",
        help="was delivery exactly once? reads a log directory or a live cluster, on Spark",
        description="Read the stored records and report whether delivery was exactly once. Needs the extra audit.",
        epilog=EXIT_CODES,
    )
    where = audit.add_mutually_exclusive_group(required=True)
    where.add_argument("--path", type=named, metavar="DIR",
        help="a log directory of wirebroker or of a real Kafka broker; also s3a:, hdfs: and abfs: addresses")  # fmt: skip
    where.add_argument("--bootstrap", type=named, metavar="H:P", help="a live cluster, read batch by batch over the wire")
    add = audit.add_argument
    add("--remote-store", type=named, metavar="DIR",
        help="with --path: where brokers keep the segments of tiered topics; a folder or an address")  # fmt: skip
    add("--topic", action="append", default=[], help="only this topic (repeatable)")
    secured(add, "with --bootstrap: ")
    add("--max-rate", type=_rate, metavar="B", help="with --bootstrap: fetch at most this many bytes a second (like 20m)")
    add(
        "--trace",
        type=named,
        metavar="FILE",
        help="the broker's trace: also report how other windows and profiles would judge its batches",
    )
    add("--intended", type=named, metavar="FILE",
        help="the application's journal (JSON lines or Parquet) of the intended records, or TOML about its table")  # fmt: skip
    add("--pipeline", type=named, action="append", default=[], metavar="in:TOPIC=out:TOPIC",
        help="was each input processed once? Or a TOML file with pipelines (repeatable)")  # fmt: skip
    add("--match", type=named, metavar="PART",
        help="how an output names its input: key (the default), header:NAME, value:JSONPATH, transaction")  # fmt: skip
    add("--since", type=named, metavar="REPORT",
        help="continue at the end of the audit in this report, and check both parts together")  # fmt: skip
    add("--out", required=True, type=named, metavar="DIR", help="the directory of the report; an earlier report is replaced")
    add(
        "--producer-expiration",
        type=whole_number(1, 2**63 - 1),
        metavar="MS",
        help="the broker's producer.id.expiration.ms (86400000)",
    )
    add("--records-limit", type=whole_number(0, 2**63 - 1), metavar="N",
        help="without a journal, compare a topic of more than N records batch by batch (1000000)")  # fmt: skip
    add("--memory", type=_memory, metavar="SIZE",
        help="memory of Spark on this machine, like 4g (1500m); spark-submit has its own flag")  # fmt: skip
    add("--follow", type=seconds, metavar="S", help="update the findings every S seconds, until Ctrl-C")
    add("--master", type=_master, help="Spark's master (local[*])")
    add("--fail-on", choices=("certain", "likely", "never"), help="the lowest severity that leads to exit code 1 (likely)")
    add("--policy", type=named, metavar="FILE", help="a TOML file: severities, ignored kinds and --fail-on for topics")
    add("--junit", type=named, metavar="FILE", help="write the findings as JUnit XML, too")
    add("--sarif", type=named, metavar="FILE", help="write the findings as SARIF 2.1.0")
    add("--prometheus", type=named, metavar="FILE", help="write the numbers of findings in Prometheus' text format")
    add("--findings-to", type=named, metavar="H:P/TOPIC", help="send the findings as JSON to this topic")
    add("--findings-table", type=named, metavar="[FORMAT:]NAME", help="append the findings to this table of "
        "Spark's catalog or folder")  # fmt: skip
    audit.needs("--path", "--remote-store")
    audit.needs("--bootstrap", "--max-rate")
    audit.needs("--bootstrap --findings-to", "--command-config")
    audit.needs("--pipeline", "--match")
    audit.set_defaults(command="wirebroker.commands.audit")


def named(text: str) -> str:
    """The type of a flag that takes a path or an address. An empty value is refused, because it often comes from a variable
    that was never set."""
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
    words = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, TextIOWrapper):  # an encoding such as cp1252 lacks many characters of drawings and names
        sys.stdout.reconfigure(errors="backslashreplace")
    parsed = build_parser(next(iter(words), "")).parse_args(words)
    gc.disable()  # the collector need not look at modules, because they are never freed
    run: Callable[[argparse.Namespace], int] = import_module(parsed.command).run
    gc.freeze()
    gc.enable()
    code = 0
    try:
        code = _done(run, parsed, words[0])
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has closed the output, as `head` does in `… | head`; a command that ended has its code
        pass
    except OSError as failure:  # for example, the disk of the output is full
        complain(words[0], f"standard output: {failure.strerror or failure}")
        code = 2
    else:
        return code
    _discard_output()
    return code


def _done(run: Callable[[argparse.Namespace], int], parsed: argparse.Namespace, command: str) -> int:
    """Run a command. Returns its exit code, which is 2 if the command cannot be carried out. Raises OSError if standard output
    cannot be written."""
    try:
        return run(parsed)
    except Complaint as wrong:
        complain(command, wrong)
    except OSError as failure:
        if is_of_output(failure):
            raise
        complain(command, f"{failure.filename}: {failure.strerror}" if failure.filename else failure.strerror or failure)
    return 2


def _discard_output() -> None:
    """Discard the output that could not be written. At its end, Python would try to write it again, and would change the exit
    code to 120."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
