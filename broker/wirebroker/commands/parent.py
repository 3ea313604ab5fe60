"""`--exit-with-parent`: a broker or proxy ends when the process that started it ends, even if that process is killed.

This module watches for two signs that the parent process has ended. First, if standard input is a pipe, the pipe ends when no
process has the pipe's other end open any more. Every platform closes the pipe when the parent ends in any way, and wrappers
such as `uv run` or Windows' launchers pass the pipe on. Second, on POSIX the parent's id (`getppid`) changes. This module does
not use the signal that Linux can send (PR_SET_PDEATHSIG): Linux sends it when the parent's thread ends, and Go ends threads
while their process continues.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import threading
from contextlib import suppress

from wirebroker.commands.usage import UsageError

logger = logging.getLogger("wirebroker")

ASK_EVERY_S = 0.5
"""The time in seconds between two checks of the parent's id."""
STDIN = 0


def watch_parent(stop: asyncio.Event) -> None:
    """Set `stop` when the parent process has ended.

    Raises UsageError if this process cannot notice the end of its parent.
    """
    loop = asyncio.get_running_loop()
    piped = _piped()
    if sys.platform == "win32" and not piped:
        raise UsageError("--exit-with-parent: on Windows, start the command with a pipe as standard input")

    def end(sign: str) -> None:
        if not stop.is_set():
            logger.info("%s: the parent process has ended", sign)
            stop.set()

    def read() -> None:
        with suppress(OSError):
            while os.read(STDIN, 4096):
                pass
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end, "standard input has ended")

    def ask() -> None:
        if os.getppid() != parent:
            end("the parent's id has changed")
        elif not stop.is_set():
            loop.call_later(ASK_EVERY_S, ask)

    if piped:
        threading.Thread(target=read, name="wirebroker-parent", daemon=True).start()
    if sys.platform != "win32":
        parent = os.getppid()
        ask()


def _piped() -> bool:
    """Tells whether standard input is a pipe, or a socket (from Node), that is still open."""
    try:
        mode = os.fstat(STDIN).st_mode
    except OSError:
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    if sys.platform == "win32":
        return True
    import select

    asked = select.poll()
    asked.register(STDIN, select.POLLIN)
    return not any(found & select.POLLHUP and not found & select.POLLIN for _, found in asked.poll(0))
