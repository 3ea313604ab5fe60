"""Logs one sentence if too many open files prevent new connections. asyncio alone would log a traceback for each failed
accept."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

logger = logging.getLogger("wirebroker")

LOG_EVERY_S = 10.0
OUT_OF_FILES = "socket.accept() out of system resource"
"""The message that asyncio logs if it cannot accept a connection. Then asyncio waits for a second, and tries again."""
RETRY_AFTER_CLOSE = "Exception in callback BaseSelectorEventLoop._start_serving("
"""The beginning of asyncio's message if the listener was closed while asyncio was waiting to try again."""


class AcceptErrorHandler:
    """An exception handler of an event loop. The handler logs the errors of accepting connections, and passes all other
    exceptions to the handler that was installed before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._previous = loop.get_exception_handler()
        self._next = 0.0

    @classmethod
    def install(cls, loop: asyncio.AbstractEventLoop) -> None:
        """Install a handler in the loop, unless one is installed already."""
        if not isinstance(loop.get_exception_handler(), cls):
            loop.set_exception_handler(cls(loop))

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message = context.get("message", "")
        if message == OUT_OF_FILES:
            self._log(loop.time(), context.get("exception"))
        elif RETRY_AFTER_CLOSE in message and isinstance(context.get("exception"), (ValueError, OSError)):
            pass
        elif self._previous is not None:
            self._previous(loop, context)
        else:
            loop.default_exception_handler(context)

    def _log(self, now: float, failure: BaseException | None) -> None:
        if now >= self._next:
            self._next = now + LOG_EVERY_S
            why = getattr(failure, "strerror", None) or failure
            logger.error(
                "no further connection can be accepted: %s. Open connections continue, and accepting is retried every second; "
                "let the process open more files (ulimit -n), or use fewer connections",
                why,
            )
