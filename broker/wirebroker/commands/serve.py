"""`wirebroker serve`: a broker in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wirebroker.apis.loading import imports_of_broker
from wirebroker.commands.environment import from_environment, naming_variable
from wirebroker.commands.listeners import listeners
from wirebroker.commands.parent import watch_parent
from wirebroker.commands.upgrading import upgrade_later
from wirebroker.commands.usage import UsageError, address_in, pair, whole
from wirebroker.commands.users import users_of
from wirebroker.common.complaints import complain
from wirebroker.common.lasting import KEPT, Rotation
from wirebroker.common.suggestions import did_you_mean
from wirebroker.engine.engine import Engine
from wirebroker.faults.forms import FaultError
from wirebroker.net.clock import Clock
from wirebroker.net.host import Host
from wirebroker.net.listener import Address
from wirebroker.net.sockets import new_loop
from wirebroker.testing import states
from wirebroker.testing.option_table import Flag, flags
from wirebroker.testing.options import BrokerOptions, OptionError
from wirebroker.tools import tools

if TYPE_CHECKING:
    from wirebroker.control.server import Control
    from wirebroker.faults.files import FaultFile
    from wirebroker.faults.plan import FaultPlan
    from wirebroker.tools import Scene
    from wirebroker.trace.recorder import Recorder

logger = logging.getLogger("wirebroker")

FLAGS = {option: flag.name for option, flag in flags().items()} | {"trace": "--trace-level"}
"""For each option, the name of the flag that sets the option."""
LOG_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"


def log_to_stderr() -> None:
    """Write log messages of the level INFO and above to stderr, with the time of day."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, datefmt="%Y-%m-%d %H:%M:%S", stream=sys.stderr)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal stops the broker. Returns 0, or 2 if the broker cannot be started."""
    log_to_stderr()
    try:
        for warning in from_environment(arguments, os.environ):
            logger.warning(warning)
        scene = tools().scene(arguments) if arguments.scenario else None
        loop = new_loop(arguments.loop)
        with ExitStack() as resources:
            resources.callback(loop.close)
            return loop.run_until_complete(_serve(arguments, resources, scene))
    except OptionError as wrong:
        problem = f"{FLAGS.get(wrong.option, '--' + wrong.option.replace('_', '-'))}: {wrong.problem}"
    except OSError as failure:
        where = f" ({failure.filename})" if failure.filename else ""
        problem = f"{failure.strerror or failure}{where}"
    except ValueError as wrong:
        problem = str(wrong)
    complain("serve", naming_variable(problem, arguments))
    return 2


async def _serve(arguments: argparse.Namespace, resources: ExitStack, scene: Scene | None) -> int:
    faults = fault_file(arguments.faults) if arguments.faults else None
    if arguments.trace and arguments.trace_level == "off":
        raise UsageError("--trace-level off: --trace would have no events to show")
    for sink in arguments.trace:
        check_sink(sink)
    if arguments.require_fired and not ((faults and faults.rules) or (scene and scene.faults) or arguments.control):
        raise UsageError("--require-fired: no fault is loaded; load faults with --faults, --scenario or --control")
    rotation = rotation_in(arguments)
    options = broker_options(arguments, faults)
    for note in options.notes:
        logger.warning(note)
    clock = options.new_clock()
    new_engine = _engine_maker(options, clock, faults, scene)
    engine = new_engine()
    host = Host(engine, clock)
    tell: Callable[[str], None] = logger.info if arguments.ready == "json" else print_line
    control: Control | None = None
    upgrade: asyncio.Task[None] | None = None
    try:
        for sink in arguments.trace:
            attach_sink(engine.trace, sink, rotation, resources)
        if arguments.capture:
            host.capture_to(arguments.capture, tools().open_capture(arguments.capture, rotation))
        if (server := control_server(arguments)) is not None:
            control = server.control_of_broker(host, new_engine, arguments.control_allow_host)
        stop = stop_signal()
        if arguments.exit_with_parent:
            watch_parent(stop)
        opened = list(listeners(arguments, options.settings, engine.cluster.brokers, tell))
        for listener, bound in zip(opened, await host.listen(*opened), strict=True):
            tell(f"listening on {bound[0]}:{bound[1]} (node {listener.node_id}{listener.shown})")
        await open_control(control, arguments, tell)
        upgrade = upgrade_later(arguments, host, tell)
        print_line(_ready(host.engine, control) if arguments.ready == "json" else "ready")
        await load_between_requests(imports_of_broker(), stop)
        # The garbage collector runs rarely, because it would find little. Loaded modules stay, and most objects of a request
        # are either freed by their reference counts or kept.
        gc.collect()
        gc.freeze()
        gc.set_threshold(3_000, 5, 7_000)
        host.after_replacement = gc.collect
        await stop.wait()
        ignore_signals()
    finally:
        if upgrade is not None:
            upgrade.cancel()
        if control is not None:
            await control.close()
        await host.close()
    return unfired(host.engine.plan, "serve") if arguments.require_fired else 0


def print_line(text: str) -> None:
    """Print a line on stdout. If stdout is closed, the broker continues."""
    from wirebroker.trace.sinks import write_line

    with suppress(OSError):
        write_line(sys.stdout, text)


def control_server(arguments: argparse.Namespace) -> ModuleType | None:
    """Returns the module `wirebroker.control.server`, if the flags ask for the HTTP control. Raises UsageError."""
    if not arguments.control:
        return None
    control_address(arguments.control)
    try:
        from wirebroker.control import server
    except ImportError as missing:
        raise UsageError(f"--control: {missing}") from None
    return server


def _ready(engine: Engine, control: Control | None) -> str:
    """Returns the line of `--ready json`, which tells a program the broker's addresses."""
    from wirebroker.common.version import __version__

    where = {"bootstrap": states.bootstrap_servers(engine), "control": control.url if control is not None else None}
    return json.dumps(where | {"version": __version__})


async def open_control(
    control: Control | None, arguments: argparse.Namespace, tell: Callable[[str], None] = print_line
) -> None:
    """Open the HTTP control at the address in --control, and print the control's URL. Raises UsageError, ListenError."""
    if control is not None:
        await control.listen(*control_address(arguments.control))
        tell(f"control on {control.url}{' (open to others)' if control.open_to_others else ''}")


def unfired(plan: FaultPlan, command: str) -> int:
    """Print the faults that never fired, including removed faults. Returns 1 if a fault never fired, else 0."""
    silent = plan.unfired()
    for rule in silent:
        matched = f"{rule.seen} request{'s' * (rule.seen != 1)} matched it{rule.missed and f'; {rule.missed}'}"
        why = matched if rule.seen else rule.why_not
        complain(command, f"the fault {rule} never fired; {why}")
    return 1 if silent else 0


# From the command line to options


def broker_options(arguments: argparse.Namespace, faults: FaultFile | None = None) -> BrokerOptions:
    """Returns the broker that the flags describe. Raises UsageError, OptionError."""
    given = {option: _value(flag, getattr(arguments, flag.dest)) for option, flag in flags().items()}
    if arguments.partitions is not None:
        given["configs"]["num.partitions"] = str(arguments.partitions)
    given["users"] = users_of(arguments.user, arguments.users_file, os.environ)
    seeds = (arguments.random_seed, faults.seed if faults else None, 0)
    fault_seed = next(seed for seed in seeds if seed is not None)
    return BrokerOptions(
        **given, random_seed=arguments.random_seed, fault_seed=fault_seed, cold_start=not arguments.warm,
        trace=arguments.trace_level,
    )  # fmt: skip


def _value(flag: Flag, given: Any) -> Any:
    """Converts the value of a flag to the value of the flag's option. Raises UsageError."""
    if flag.read is not None:
        return flag.read(given)
    if not flag.parts:
        return given
    pairs = dict(pair(text, flag.name, flag.parts) for text in given)
    return {name: _whole(flag, f"{name}={value}", value) for name, value in pairs.items()} if flag.numbers else pairs


def _engine_maker(options: BrokerOptions, clock: Clock, faults: FaultFile | None, scene: Scene | None) -> Callable[[], Engine]:
    """Returns a function that makes the engine at the start and at each reset.

    The function applies the options, the fault file and the scenario, in this order.

    A soft reset keeps the engine, and loads the faults of the file and of the scenario again.
    """

    def new_engine() -> Engine:
        now = clock.now()
        engine = options.new_engine(now)
        for rule, place in zip(faults.rules, faults.places, strict=True) if faults else ():
            try:
                engine.plan.add(rule.copy())
            except FaultError as refused:
                raise UsageError(f"--faults: {place}: {refused}") from None
        if scene is not None:
            scene.bring_about(engine, now)
        if engine.faults is not None:
            rules = list(engine.plan.rules)
            engine.at_soft_reset.append(lambda _: engine.plan.load_again(rules))
        return engine

    return new_engine


def fault_file(path: str) -> FaultFile:
    """Returns the rules of a fault file. Raises UsageError."""
    from wirebroker.faults.files import FaultFileError, load

    try:
        return load(Path(path))
    except OSError as refused:
        raise UsageError(f"--faults {path}: {refused.strerror}") from refused
    except FaultFileError as wrong:
        raise UsageError(f"--faults: {wrong}") from None


def check_sink(sink: str) -> None:
    """Refuse a single word other than `console`, because a misspelt `console` would become a file."""
    if sink == "console" or Path(sink).suffix or Path(sink).name != sink or Path(sink).exists():
        return
    advice = did_you_mean(sink, ["console"]) or "; write 'console', or a file's name that ends in .jsonl"
    raise UsageError(f"--trace {sink}: this is neither 'console' nor a name like trace.jsonl{advice}")


def attach_sink(trace: Recorder, sink: str, rotation: Rotation | None, resources: ExitStack) -> None:
    """Write the trace to the console, or to a file. Raises UsageError."""
    from wirebroker.trace.sinks import ConsoleSink, JsonLinesSink

    if sink == "console":
        console = ConsoleSink()
        resources.callback(console.close)
        trace.sinks.append(console)
        return
    try:
        file = JsonLinesSink(Path(sink), rotation)
    except OSError as refused:
        raise UsageError(f"--trace {sink}: {refused.strerror}") from refused
    resources.callback(file.close)
    trace.sinks.append(file)
    trace.begin_run("started", file)


def rotation_in(arguments: argparse.Namespace) -> Rotation | None:
    """Returns the limits at which the files of --trace and --capture are rotated. Raises UsageError."""
    if arguments.rotate is None:
        return None
    if not arguments.capture and all(sink == "console" for sink in arguments.trace):
        raise UsageError("--rotate is for the files of --trace and --capture, but no file is named there")
    try:
        return Rotation.of(arguments.rotate, KEPT if arguments.rotate_keep is None else arguments.rotate_keep)
    except ValueError as wrong:
        raise UsageError(f"--rotate: {wrong}") from None


async def load_between_requests(imports: Iterable[Callable[[], object]], stop: asyncio.Event) -> None:
    """Perform these imports one by one, and let the event loop serve clients between two imports. If the process has no file
    descriptor left for an import, the module is imported at its first use. If `stop` is set, no further import begins."""
    for each in imports:
        if stop.is_set():
            return
        with suppress(OSError):
            each()
        await asyncio.sleep(0)


def stop_signal() -> asyncio.Event:
    """Returns an event that is set by SIGINT and SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_soon(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(stop.set)

    # not by the loop's add_signal_handler: removing such a handler would let a second signal end the process for a moment
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_soon)
    return stop


def ignore_signals() -> None:
    """Ignore further signals to stop. Python would remove another handler when it ends, so a second signal would end the
    process before its files are closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def control_address(text: str) -> Address:
    """Returns the address in `--control`; a port alone is a port on loopback. Raises UsageError."""
    port = text.removeprefix(":")
    return address_in(f"127.0.0.1:{port}" if whole(port) >= 0 else text, "--control")


def _whole(flag: Flag, text: str, value: str) -> int:
    if whole(value) < 0:
        raise UsageError(f"{flag.name} {text}: {value!r} is not a {flag.parts.partition('=')[2].lower()}")
    return int(value)
