"""Listening sockets and event loops for brokers, for a proxy and for the control endpoint."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from kafkawire.extras import how_to_install

BACKLOG = 1024
"""The operating system keeps up to this many new connections until the loop accepts them."""
AT_ONCE = 32
"""The loop accepts up to this many connections in one turn. Accepting a connection takes up to a quarter of a millisecond."""

ACCEPTED_WITHIN = 4
"""A connection that the loop has accepted reaches its protocol within this number of turns."""


class ListenError(OSError):
    """Raised if the address of a listener cannot be used. The message names the address and the reason."""


async def open_server(
    protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int, purpose: str = ""
) -> tuple[asyncio.Server, int]:
    """Returns a server on the running loop, and its port. The server refuses connections until `start_serving`. Raises
    ListenError. `purpose` is a part of the error message, and follows the address.
    """
    loop = asyncio.get_running_loop()
    with _refusals(host, port, purpose):
        server = await loop.create_server(protocol, host, port, backlog=AT_ONCE, start_serving=False)
        if not server.sockets:  # asyncio skips an address for which it cannot create a socket
            socket.socket().close()
            raise OSError("no socket can be made for this address")
    return server, server.sockets[0].getsockname()[1]


async def start_serving(server: asyncio.Server, purpose: str = "") -> None:
    """Let a server accept connections. Raises ListenError."""
    host, port, *_ = server.sockets[0].getsockname()
    with _refusals(host, port, purpose):
        await server.start_serving()
        queue_connections(server)


@contextmanager
def _refusals(host: str, port: int, purpose: str) -> Iterator[None]:
    """Raise ListenError if the system refuses what is done in the context."""
    try:
        yield
    except (OSError, OverflowError) as refused:
        advice = "; let the process open more files (ulimit -n), or start fewer brokers" if _is_out_of_files(refused) else ""
        raise ListenError(f"cannot listen on {host}:{port}{purpose}: {reason_of(refused)}{advice}") from refused


def queue_connections(server: asyncio.Server) -> None:
    """Let the operating system queue BACKLOG connections for a server. asyncio itself gets a smaller backlog, because it
    accepts a whole backlog of connections in one turn of the loop."""
    for each in server.sockets:
        with socket.fromfd(each.fileno(), each.family, each.type) as same:
            same.listen(BACKLOG)


async def stop_listening(servers: Collection[asyncio.Server]) -> None:
    """Close servers. A connection that the loop has accepted reaches its protocol only some turns later. If the server were
    closed meanwhile, asyncio would keep the connection open for ever. So this function first waits for these turns."""
    loop = asyncio.get_running_loop()
    for server in servers:
        for listener in server.sockets:
            with suppress(NotImplementedError):  # Windows
                loop.remove_reader(listener.fileno())
    for _ in range(ACCEPTED_WITHIN):
        await asyncio.sleep(0)
    for server in servers:
        server.close()


def reason_of(failure: OSError | OverflowError) -> str:
    """Returns the operating system's own message for a failed call, without the longer message in which asyncio wraps it."""
    number = getattr(failure, "errno", None)
    if number is not None and number > 0:
        return os.strerror(number)
    return getattr(failure, "strerror", None) or str(failure)  # errors of getaddrinfo have negative numbers


def _is_out_of_files(failure: Exception) -> bool:
    return isinstance(failure, OSError) and failure.errno in (errno.EMFILE, errno.ENFILE)


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """Returns a new event loop of this kind: "asyncio", or "uvloop" if it is installed."""
    if kind == "uvloop":
        try:
            import uvloop
        except ImportError:
            raise ValueError(f"--loop uvloop needs another package; {how_to_install('uvloop')}") from None
        made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        return made
    if kind != "asyncio":
        raise ValueError(f"the loop is 'asyncio' or 'uvloop', not {kind!r}")
    return asyncio.SelectorEventLoop() if sys.platform == "win32" else asyncio.new_event_loop()
