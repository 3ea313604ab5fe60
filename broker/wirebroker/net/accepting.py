"""Too many open files when a client wants to connect: said now and then, where asyncio logs a traceback for each attempt."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

logger = logging.getLogger("wirebroker")

SAID_EVERY = 10.0
"""Seconds between two sentences about it."""
OUT_OF_FILES = "socket.accept() out of system resource"
"""What asyncio calls it. It stops accepting for a second then, and tries again."""
TRIED_AGAIN = "Exception in callback BaseSelectorEventLoop._start_serving("


class AcceptFaults:
    """A loop's exception handler. Everything else goes to the one that was there before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._before = loop.get_exception_handler()
        self._next = 0.0

    @classmethod
    def watch(cls, loop: asyncio.AbstractEventLoop) -> None:
        """Be the loop's handler; harmless if one of this kind is that already."""
        if not isinstance(loop.get_exception_handler(), cls):
            loop.set_exception_handler(cls(loop))

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message = context.get("message", "")
        if message == OUT_OF_FILES:
            self._say(loop.time(), context.get("exception"))
        elif TRIED_AGAIN in message and isinstance(context.get("exception"), (ValueError, OSError)):
            pass  # the listener was closed before it was tried again
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)

    def _say(self, now: float, failure: BaseException | None) -> None:
        if now >= self._next:
            self._next = now + SAID_EVERY
            why = getattr(failure, "strerror", None) or failure
            logger.error(
                "no further connection can be accepted: %s. Those that are there go on, and it is tried again every second; "
                "let the process open more files (ulimit -n), or use fewer connections",
                why,
            )
