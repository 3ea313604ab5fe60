"""The parsers of the tools' commands. The commands themselves are in the other modules of this package, which are imported when
a command is called."""

from __future__ import annotations

import argparse

from wirebroker.commands.arguments import Parser, output_file, seconds, whole_number
from wirebroker.commands.cli import EXIT_CODES, named, secured
from wirebroker_tools.pictures import PICTURES

FORMS = ("hex", "base64", "xxd", "python", "binary")
"""The forms of bytes on the command line; `decode.forms` reads and writes them."""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    _demo(commands)
    _conformance(commands)
    _learn(commands)
    _scenario(commands)
    _explore(commands)
    _trace(commands)
    _explain(commands)
    _decode(commands)


def _demo(commands: argparse._SubParsersAction[Parser]) -> None:
    demo = commands.add_parser("demo", help="real clients and raw retries, with the reason for each verdict")
    demo.add_argument(
        "--no-spark", action="store_true", help="leave out the audit on Spark, which runs if the extra audit is installed"
    )
    demo.set_defaults(command="wirebroker_tools.commands.demo")


def _conformance(commands: argparse._SubParsersAction[Parser]) -> None:
    conformance = commands.add_parser("conformance", help="replay recorded scenarios and print each difference from Kafka")
    conformance.add_argument("--bootstrap", metavar="H:P", help="the broker to compare; without it wirebroker starts its own")
    conformance.add_argument("--only", metavar="NAME,…", help="only these scenarios")
    conformance.add_argument("--json", type=output_file, metavar="FILE", help="write the result to this file")
    conformance.add_argument("--file", metavar="FILE", help="replay the recording in this file")
    conformance.add_argument("--profile", metavar="kafka-X.Y", help="compare with the responses of this release of Kafka")
    conformance.add_argument("--versions", choices=("named", "clamped"), help="with --profile: the versions that scenarios "
        "name, or lower versions that the broker announces (both)")  # fmt: skip
    conformance.needs("--profile", "--versions")
    conformance.set_defaults(command="wirebroker_tools.commands.conformance")


def _learn(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "learn",
        help="read a cluster's release, settings, topics, ACLs …, for `serve --like`; or compare two clusters",
        description="Write a description of a cluster, without records and secrets, into a file for `serve --like`.",
        epilog=f"The command only reads the cluster, and reports the sections that it was not allowed to read. {EXIT_CODES}",
    )
    add = parser.add_argument
    add("--bootstrap", type=named, metavar="H:P[,H:P…]", help="a broker of the cluster")
    secured(add)
    add("--anonymous", action="store_true", help="hash all names, with a key that is thrown away")
    add("--out", type=output_file, metavar="FILE.toml", help="the file to write")
    add("--compare", nargs=2, type=named, metavar=("A", "B"), help="print the differences between two such files")
    parser.set_defaults(command="wirebroker_tools.commands.learn")


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
    scenario.set_defaults(command="wirebroker_tools.commands.scenario")


def _explore(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "explore",
        help="find the single faults that break an application",
        usage="wirebroker explore [FLAGS] -- COMMAND …",
        description="Run a command again and again, each time with a broker of its own and one fault at one of its requests, "
        "and report the runs that lost, doubled or reordered records and ended with exit code 0. The command gets the broker's "
        "address in WIREBROKER_BOOTSTRAP, BOOTSTRAP_SERVERS and KAFKA_BOOTSTRAP_SERVERS.",
        epilog="Exit codes: 0 no fault broke the command silently, 1 a fault broke it silently, 2 no run was possible.",
    )
    add = parser.add_argument
    add("words", nargs="+", metavar="COMMAND", help="the command with its arguments, after --")
    add("--topic", action="append", default=[], metavar="NAME[:N]", help="create this topic with N partitions (repeatable)")
    add("--config", action="append", default=[], metavar="KEY=VALUE", help="a Kafka setting by Kafka's name (repeatable)")
    add("--profile", metavar="NAME", help="the release of the brokers, such as kafka-3.9")
    add("--setup", type=named, metavar="CMD", help="run this first, without faults, for example to fill topics")
    add("--check", type=named, metavar="CMD", help="run this after a command that ended with exit code 0, without faults; its "
        "exit code counts")  # fmt: skip
    add("--env", action="append", default=[], metavar="NAME", help="another environment variable for the address (repeatable)")
    add("--port", type=whole_number(1, 65535), metavar="N", help="the broker's port, for a command that cannot take an "
        "address; one run at a time")  # fmt: skip
    add("--upstream", type=named, metavar="HOST:PORT", help="use a real cluster through a proxy, with the faults that a proxy "
        "can play; one run at a time")  # fmt: skip
    add("--allow-faults", action="store_true", help="with --upstream: try faults although the cluster is not on this machine")
    add("--output", action="append", default=[], metavar="TOPIC", help="compare the records of this topic only (repeatable)")
    add("--intended", type=named, metavar="FILE", help="the records that each run should store: a journal, as for the audit")
    add("--api", metavar="API,…", help="try faults at requests of these APIs only")
    add("--faults", metavar="KIND,…", help="try these kinds of fault or errors only")
    add("--every", action="store_true", help="try faults at every request of a class, not only the first, second and last")
    add("--depth", type=whole_number(1, 2), choices=(1, 2), default=1, help="2 also tries pairs: a fault, and another fault at "
        "the retry (%(default)s)")  # fmt: skip
    add("--limit", type=seconds, default=180.0, metavar="S", help="a run that takes longer counts as hung (%(default)g s)")
    add("--budget", metavar="T", help="begin no further run after this time, like 10m")
    add("--jobs", type=whole_number(1, 1000), metavar="N", help="runs at once (two for each core)")
    add("--master", type=named, metavar="URL", help="run the cases on a Spark cluster, such as spark://host:7077 or local[4]; "
        "needs the extra audit")  # fmt: skip
    add("--shard", metavar="I/N", help="try only this part of the faults, such as 3/10, to divide them among machines")
    add("--resume", action="store_true", help="continue an interrupted exploration with the same --out")
    add(
        "--baseline",
        type=named,
        metavar="FILE",
        help="the explore.json of an earlier exploration: findings that it already has do not lead to exit code 1",
    )
    add("--fail-on", metavar="OUTCOME,…", help="the outcomes that lead to exit code 1: lost, doubled, reordered, "
        "open_transaction, hung, storm, check_failed, failed (all but the last)")  # fmt: skip
    add("--junit", type=output_file, metavar="FILE", help="write the runs as JUnit XML, too")
    add("--sarif", type=output_file, metavar="FILE", help="write the failing runs as SARIF 2.1.0")
    add("--out", type=named, default="report", metavar="DIR", help="the directory of the report (%(default)s)")
    parser.needs("--upstream", "--allow-faults")
    parser.set_defaults(command="wirebroker_tools.commands.explore")


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
    add("--control", type=named, metavar="H:P", help="with --page: the page's address; a port alone is on "
        "127.0.0.1 (any free port)")  # fmt: skip
    add("--timeline", action="store_true", help="draw each producer's sequences: stored, duplicate, missing, stored again")
    show.needs("--picture", "--out", "--of", "--width")
    show.needs("--page", "--control")
    show.alone("--page", "--control")
    show.set_defaults(command="wirebroker_tools.commands.trace")


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
    explain.set_defaults(command="wirebroker_tools.commands.explain")


def _decode(commands: argparse._SubParsersAction[Parser]) -> None:
    decode = commands.add_parser(
        "decode",
        help="convert bytes of the protocol to named fields",
        description="Show requests, responses or record batches with their fields. A request and batches are recognised; "
        "for a response name the API and version.",
        epilog="Exit codes: 0 success, 1 record data is damaged, 2 the bytes cannot be read.",
    )
    add = decode.add_argument
    add("input", type=named, metavar="INPUT", help="a file, - for standard input, or the bytes themselves: hex, base64, "
        "output of xxd, a literal of Python (b'…')")  # fmt: skip
    add("--api", metavar="NAME", help="the bytes are responses of this API")
    add("--version", type=whole_number(0, 2**15 - 1), metavar="N", help="... in this version")
    add("--form", choices=FORMS, help="the form of INPUT, if it is not recognised")
    add("--json", action="store_true", help="print JSON, which `encode` reads")
    decode.needs("--api", "--version")
    decode.set_defaults(command="wirebroker_tools.commands.decode")
    encode = commands.add_parser("encode", help="convert the output of `decode --json`, edited or not, to bytes")
    add = encode.add_argument
    add("input", type=named, metavar="INPUT", help="a file, - for standard input, or JSON")
    add("--form", choices=FORMS, default="hex", help="(%(default)s)")
    add("--out", type=output_file, metavar="FILE", help="write to this file")
    encode.set_defaults(command="wirebroker_tools.commands.encode")
    diff = commands.add_parser("diff", help="two captured sessions side by side: errors, offsets, verdicts",
        epilog="Exit codes: 0 no difference that matters, 1 a difference, 2 a session cannot be read.")  # fmt: skip
    diff.add_argument("one", type=named, metavar="A", help="a capture (pcapng, pcap)")
    diff.add_argument("other", type=named, metavar="B")
    diff.set_defaults(command="wirebroker_tools.commands.diff")
    replay = commands.add_parser("replay", help="send a captured session again, and compare",
        epilog="Exit codes: 0 no difference that matters, 1 a difference, 2 the session cannot be replayed.")  # fmt: skip
    add = replay.add_argument
    add("session", type=named, metavar="SESSION", help="a capture (pcapng, pcap)")
    add("--bootstrap", required=True, type=named, metavar="H:P", help="the broker to which the session is sent")
    add("--create-topics", action="store_true", help="create the session's topics that do not exist")
    secured(add)
    add("--timeout", type=seconds, default=30.0, metavar="S", help="seconds to wait for a response (%(default)s)")
    replay.set_defaults(command="wirebroker_tools.commands.replay")
    dissector = commands.add_parser("dissector", help="print a dissector for Wireshark (Lua) of all messages in all versions")
    dissector.set_defaults(command="wirebroker_tools.commands.dissector")
