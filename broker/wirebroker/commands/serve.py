"""`wirebroker serve`: a broker in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.disk.damage import DataError
from kafkawire.registry import KEYS
from wirebroker.clock import clock
from wirebroker.core.configs import ConfigError
from wirebroker.core.names import topic_name_error
from wirebroker.core.profile import profile
from wirebroker.engine import Engine, first_node
from wirebroker.net.host import Host, ListenError, new_loop

if TYPE_CHECKING:
    from wirebroker.control.server import Control
    from wirebroker.faults.files import FaultFile
    from wirebroker.scenarios.scenario import Part
    from wirebroker.storage.folder.store import FolderStore

KAFKA_PREFIX = "KAFKA_"
NOT_SETTINGS = frozenset({"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
                          "KAFKA_BROKER_ID", "KAFKA_PROCESS_ROLES", "KAFKA_CONTROLLER_QUORUM_VOTERS",
                          "KAFKA_CONTROLLER_LISTENER_NAMES", "KAFKA_INTER_BROKER_LISTENER_NAME", "KAFKA_HEAP_OPTS",
                          "KAFKA_OPTS", "KAFKA_HOME", "KAFKA_VERSION", "KAFKA_URI", "KAFKA_LOG_DIRS"})  # fmt: skip
"""Variables of Kafka's images that say where things are, which is told here in other ways or has no meaning."""


class UsageError(ValueError):
    """What was asked for cannot be done; the message is for the user."""


class Listener(NamedTuple):
    """Where one broker listens, and what it tells clients."""

    node_id: int
    name: str
    host: str
    port: int
    advertised: tuple[str, int] | None


def run(options: argparse.Namespace) -> int:
    """Serve until told to stop: 0, or 2 if it cannot be done."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        from_environment(options, os.environ)
        part = from_scenario(options) if options.scenario else None
        loop = new_loop(options.loop)
        with ExitStack() as resources:
            resources.callback(loop.close)
            return loop.run_until_complete(_serve(options, resources, part))
    except (ListenError, DataError, ConfigError, ValueError) as wrong:
        print(f"wirebroker serve: {wrong}", file=sys.stderr)
        return 2
    except OSError as failure:
        where = f" ({failure.filename})" if failure.filename else ""
        print(f"wirebroker serve: {failure.strerror or failure}{where}", file=sys.stderr)
        return 2


async def _serve(options: argparse.Namespace, resources: ExitStack, part: Part | None) -> int:
    time_source = clock(options.clock)
    faults = _fault_file(options.faults) if options.faults else None
    if options.trace and options.trace_level == "off":
        raise UsageError("--trace-level off leaves --trace nothing to show")

    def start() -> Engine:
        return _engine(options, faults, part, time_source.now(), resources)

    engine = start()
    for sink in options.trace:
        _attach(engine, sink, resources)
    host = Host(engine, time_source)
    if options.control_allow_host and not options.control:
        raise UsageError("--control-allow-host is for the control; say with --control where it listens")
    control = _control(host, options, start) if options.control else None
    stop = _stop_signal()
    try:
        for listener in listeners(options, min(engine.cluster.brokers)):
            bound = await host.listen(listener.node_id, listener.host, listener.port, listener.name, listener.advertised)
            name = "" if listener.name == "PLAINTEXT" else f", {listener.name}"
            _say(f"listening on {bound[0]}:{bound[1]} (node {listener.node_id}{name})")
        if control is not None:
            await control.listen(*control_address(options.control))
            _say(f"control on {control.url}{' (open to others)' if control.open_to_others else ''}")
        _say("ready")
        # What is loaded by now stays; and most that is made per request is dropped at once or kept for good, so that a
        # collector that looks often finds nothing.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 5, 400)
        await stop.wait()
    finally:
        if control is not None:
            await control.close()
        await host.close()
    return _unfired(host.engine) if options.require_fired else 0


def _say(text: str) -> None:
    """Print a line for whoever started the broker. If nobody can read it, the broker goes on all the same."""
    from wirebroker.trace.sinks import write_line

    with suppress(OSError):
        write_line(sys.stdout, text)


def _control(host: Host, options: argparse.Namespace, start: Callable[[], Engine]) -> Control:
    """The HTTP control, where a reset goes on with an engine as at the start."""
    control_address(options.control)
    try:
        from wirebroker.control.server import Control
    except ImportError as missing:
        raise UsageError(f"--control: {missing}") from None
    return Control(host, start, options.control_allow_host)


def _unfired(engine: Engine) -> int:
    """Name the faults that never fired; 1 if there is one."""
    silent = [rule for rule in engine.plan.rules if not rule.fired]
    for rule in silent:
        print(f"wirebroker serve: the fault {rule} never fired; {rule.seen} requests matched it", file=sys.stderr)
    return 1 if silent else 0


def _engine(options: argparse.Namespace, faults: FaultFile | None, part: Part | None, now: int, resources: ExitStack) -> Engine:
    """An engine as the options, the fault file and the scenario want it."""
    settings = _settings(options)
    if options.partitions is not None:
        settings["num.partitions"] = str(options.partitions)
    rules = profile(options.profile)
    for rule, value in (_pair(text, "--set") for text in options.set):
        rules = rules.with_setting(rule, value)
    if options.brokers < 1:
        raise UsageError(f"--brokers takes a number from 1 up, not {options.brokers}")
    seed = options.random_seed
    chances = seed if seed is not None else (faults.seed if faults and faults.seed is not None else 0)
    if options.sync != "never" and not options.data:
        raise UsageError(f"--sync {options.sync} says when --data is put on the disk, and there is no --data")
    random_bytes = os.urandom if seed is None else random.Random(seed).randbytes
    store = _store(options, random_bytes, resources) if options.data else None
    engine = Engine(
        now,
        random_bytes,
        brokers=options.brokers,
        settings=settings,
        rules=rules,
        full_checks=options.record_checks == "full",
        max_versions=dict(_max_version(text) for text in options.max_version),
        seed=chances,
        store=store,
    )
    for text in options.topic:
        _create_topic(engine, text, now)
    if (failed := engine.cluster.decisions.write_down(now)) is not None:
        raise failed
    for rule_of_file in faults.rules if faults else ():
        engine.plan.add(replace(rule_of_file, seen=0, fired=0))
    engine.trace_at(options.trace_level)
    if part is not None:
        _bring_about(part, engine, now)
    return engine


def from_scenario(options: argparse.Namespace) -> Part:
    """Let the scenario say what no flag does; the part of it that is to be served. Raises ValueError."""
    from wirebroker.scenarios.scenario import find
    from wirebroker.scenarios.setup import topics

    name, slash, number = options.scenario.rpartition("/") if not options.scenario.endswith(".toml") else ("", "", "")
    scenario = find(name if slash else options.scenario)
    if slash and not 0 < _number(number) <= len(scenario.parts):
        raise UsageError(f"--scenario {options.scenario}: {name} has the parts 1 to {len(scenario.parts)}")
    part = scenario.parts[int(number) - 1 if slash else 0]
    options.brokers = max(options.brokers, part.broker.brokers)
    options.profile = part.broker.profile if options.profile == "kafka-4.3" else options.profile
    options.topic[:0] = [f"{topic}:{count}" for topic, count in topics(part).items()]
    options.set[:0] = [f"{rule}={value}" for rule, value in part.broker.rules.items()]
    options.config[:0] = [f"{key}={value}" for key, value in part.broker.configs.items()]
    print(f"scenario {scenario.name}: {scenario.title}. {scenario.broker_does}", file=sys.stderr)
    return part


def _bring_about(part: Part, engine: Engine, now: int) -> None:
    from wirebroker.scenarios.setup import bring_about

    bring_about(part, engine, now)


def _settings(options: argparse.Namespace) -> dict[str, str]:
    return dict(_pair(text, "--config") for text in options.config)


def _store(options: argparse.Namespace, random_bytes: Callable[[int], bytes], resources: ExitStack) -> FolderStore:
    from wirebroker.storage.folder.store import FolderStore

    first = first_node(_settings(options))
    store = FolderStore(Path(options.data), random_bytes, brokers=options.brokers, sync=options.sync, first_node=first)
    resources.callback(store.abandon)
    return store


def _fault_file(path: str) -> FaultFile:
    from wirebroker.faults.files import FaultFileError, load

    try:
        return load(Path(path))
    except OSError as refused:
        raise UsageError(f"--faults {path}: {refused.strerror}") from refused
    except FaultFileError as wrong:
        raise UsageError(f"--faults: {wrong}") from None


def _create_topic(engine: Engine, text: str, now: int) -> None:
    name, colon, count = text.partition(":")
    if (fault := topic_name_error(name)) is not None:
        raise UsageError(f"--topic {text}: {fault}")
    if colon and _number(count) < 1:
        raise UsageError(f"--topic {text}: the number of partitions is {count!r}")
    if engine.store is not None and name in engine.store.topics_found:
        return  # it was there before, and stays as it is
    if name in engine.cluster.topics:
        raise UsageError(f"--topic {text}: this topic is named twice")
    engine.cluster.create_topic(name, now, partitions=int(count) if count else None)


def _attach(engine: Engine, sink: str, resources: ExitStack) -> None:
    from wirebroker.trace.sinks import ConsoleSink, JsonLinesSink

    if sink == "console":
        engine.trace.sinks.append(ConsoleSink())
        return
    try:
        file = JsonLinesSink(Path(sink))
    except OSError as refused:
        raise UsageError(f"--trace {sink}: {refused.strerror}") from refused
    resources.callback(file.close)
    engine.trace.sinks.append(file)


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    return stop


def listeners(options: argparse.Namespace, first_node: int = 1) -> list[Listener]:
    """Every socket to open; brokers are numbered from `first_node` on. Raises UsageError for an address that is none."""
    advertised = address(options.advertise, "--advertise") if options.advertise else None
    found = []
    for i in range(options.brokers):
        shown = (advertised[0], advertised[1] + i) if advertised else None
        port = options.port + i if options.port else 0
        found.append(Listener(first_node + i, "PLAINTEXT", options.host, port, shown))
    if options.listener and options.brokers > 1:
        raise UsageError("--listener is for one broker; with --brokers N each has one listener")
    for text in options.listener:
        name, where = _pair(text, "--listener")
        bind, _, told = where.partition("@")
        found.append(Listener(first_node, name, *address(bind, "--listener"), address(told, "--listener") if told else None))
    return found


def address(text: str, flag: str) -> tuple[str, int]:
    """`host:port` as a pair. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not 0 <= _number(port) <= 65535:
        raise UsageError(f"{flag}: {text!r} is not host:port")
    return host.strip("[]"), int(port)


def control_address(text: str) -> tuple[str, int]:
    """Where --control says to listen; a port alone is one of loopback. Raises UsageError."""
    port = text.removeprefix(":")
    return address(f"127.0.0.1:{port}" if _number(port) >= 0 else text, "--control")


def from_environment(options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Let the variables of Kafka's images speak where no flag did."""
    with suppress(KeyError):
        _kafka_listeners(options, environment["KAFKA_LISTENERS"], environment.get("KAFKA_ADVERTISED_LISTENERS", ""))
    named = {text.partition("=")[0] for text in options.config}
    for variable, value in environment.items():
        if variable.startswith(KAFKA_PREFIX) and variable not in NOT_SETTINGS:
            setting = variable.removeprefix(KAFKA_PREFIX).lower().replace("_", ".")
            if setting not in named:
                options.config.append(f"{setting}={value}")


def _kafka_listeners(options: argparse.Namespace, bound: str, advertised: str) -> None:
    """`PLAINTEXT://0.0.0.0:29092,HOST://0.0.0.0:9092`, and the same form for what is advertised."""
    told = dict(_kafka_address(text) for text in advertised.split(",") if text)
    places = [_kafka_address(text) for text in bound.split(",") if text]
    places = [(name, where) for name, where in places if name != "CONTROLLER"]
    for i, (name, (host, port)) in enumerate(places):
        shown = told.get(name)
        if i == 0:
            options.host, options.port = host or "0.0.0.0", port
            options.advertise = f"{shown[0]}:{shown[1]}" if shown else options.advertise
        else:
            suffix = f"@{shown[0]}:{shown[1]}" if shown else ""
            options.listener.append(f"{name}={host or '0.0.0.0'}:{port}{suffix}")


def _kafka_address(text: str) -> tuple[str, tuple[str, int]]:
    name, mark, where = text.strip().partition("://")
    if not mark:
        raise UsageError(f"KAFKA_LISTENERS: {text!r} is not NAME://host:port")
    return name, address(where, "KAFKA_LISTENERS")


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{flag} {text}: this is not NAME=VALUE")
    return name.strip(), value.strip()


def _number(text: str) -> int:
    """The whole number that a text is, −1 if it is not one of up to nine digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


def _max_version(text: str) -> tuple[int, int]:
    name, value = _pair(text, "--max-version")
    if name not in KEYS:
        raise UsageError(f"--max-version {text}: there is no API named {name!r}")
    if _number(value) < 0:
        raise UsageError(f"--max-version {text}: {value!r} is not a version")
    return KEYS[name], int(value)
