"""`serve --upgrade-to`: a rolling upgrade that begins on a signal, or after a time."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from collections.abc import Callable

from wirebroker.commands.usage import UsageError
from wirebroker.net.host import Host
from wirebroker.testing.operations import CutOff, is_upgraded, upgrade

logger = logging.getLogger("wirebroker")


def upgrade_later(arguments: argparse.Namespace, host: Host, tell: Callable[[str], None]) -> asyncio.Task[None] | None:
    """Begin the requested upgrade later. Returns the task that waits for the time or the signal. Without --upgrade-to, returns
    None. Raises UsageError.

    `tell` is called with a line for each broker that now runs the new release.
    """
    to, after = arguments.upgrade_to, arguments.upgrade_after
    if to is None:
        return None
    try:
        host.engine.new_upgrade(to)
    except ValueError as wrong:
        raise UsageError(f"--upgrade-to: {wrong}") from None
    return asyncio.get_running_loop().create_task(_upgrade(arguments, host, tell, None if after is not None else _signal(to)))


def _signal(to: str) -> asyncio.Event:
    """Returns an event that is set by SIGUSR1. Raises UsageError on Windows, which does not have this signal."""
    begin = asyncio.Event()
    try:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, begin.set)
    except (NotImplementedError, AttributeError):
        raise UsageError("--upgrade-to: this system has no signal SIGUSR1; give --upgrade-after as well") from None
    logger.info("kill -USR1 %d begins the upgrade to %s", os.getpid(), to)
    return begin


async def _upgrade(arguments: argparse.Namespace, host: Host, tell: Callable[[str], None], begin: asyncio.Event | None) -> None:
    if begin is None:
        await asyncio.sleep(arguments.upgrade_after)
    else:
        await begin.wait()
    to, release = arguments.upgrade_to, arguments.upgrade_to.removeprefix("kafka-")
    engine, now = host.engine, host.time()
    engine.set_time(now)
    try:
        begun = upgrade(
            engine, now, to, finalize=not arguments.no_finalize, pause=arguments.upgrade_pause or 0,
            told=lambda node_id: tell(f"broker {node_id} runs Kafka {release}"),
        )  # fmt: skip
    except (ValueError, OSError) as refused:
        logger.warning("the upgrade to %s is refused: %s", to, refused)
        return
    host.changed()
    try:
        await host.wait_until(lambda: is_upgraded(begun, host.engine), float("inf"))
    except CutOff as cut_off:
        logger.warning("%s", cut_off)
    except OSError:  # the upgrade has logged it
        return
    else:
        tell(f"upgraded to {to}")
