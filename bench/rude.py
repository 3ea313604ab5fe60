"""A rude client: its requests, and a process that sends them."""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

READ = 1 << 18
STALLED = 3.0
"""A client that never reads is done when it has not been able to send anything for this number of seconds."""
BACKLOG_WITHIN = 30.0


@dataclass(frozen=True, slots=True)
class Attack:
    """The behaviour of one rude client: the frames that it sends on each connection, and whether it reads the responses."""

    payload: bytes
    responses: int
    """The client reads this many responses on each connection; 0 if it never reads."""
    connections: int = 1
    times: int = 1
    """This many times, the client opens its connections, sends, reads, and closes the connections."""
    piece: int = 0
    """The client sends the payload in pieces of this many bytes."""
    pause: float = 0.0
    """Seconds between two pieces."""
    silent: bool = False
    """True if the server never responds to the client's bytes. The client then does not wait for responses."""


class Rude:
    """The process of a rude client. `done` returns the result once the client is done. The process ends with the `with`
    block."""

    def __init__(self, attack: Attack, address: tuple[str, int], core: int | None, longest: float) -> None:
        context = multiprocessing.get_context("fork")
        self._reports, reports = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(attack, address, core, longest, reports), daemon=True)
        self._report: dict[str, Any] | None = None

    def __enter__(self) -> Rude:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def done(self) -> dict[str, Any] | None:
        """Returns the seconds until the last response and the number of responses, or None while the client is active."""
        if self._report is None and self._reports.poll():
            self._report = self._reports.recv()
        return self._report


def _run(attack: Attack, address: tuple[str, int], core: int | None, longest: float, reports: Connection) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
    start = time.perf_counter()
    answered, why = 0, ""
    try:
        for _ in range(attack.times):
            answered += _once(attack, address, start + longest)
            if time.perf_counter() - start > longest:
                break
    except OSError as broken:
        why = f"{type(broken).__name__}: {broken}"
    reports.send({"seconds": time.perf_counter() - start, "answers": answered, "why": why})
    time.sleep(longest)  # connections with unread responses stay open


def _once(attack: Attack, address: tuple[str, int], until: float) -> int:
    """Connect, send, and read or wait until sending stalls. Returns the number of responses."""
    opened = [socket.create_connection(address, BACKLOG_WITHIN) for _ in range(attack.connections)]
    if attack.responses == 0 and not attack.silent:
        _send_unread(opened[0], attack.payload, until)
        _kept.extend(opened)
        return 0
    senders = [threading.Thread(target=_send, args=(one, attack), daemon=True) for one in opened[:1]]
    for sender in senders:
        sender.start()
    for one in opened[1:]:
        one.sendall(attack.payload)
    if attack.silent:
        senders[0].join(max(until - time.perf_counter(), 0))
        return 0
    answered = sum(_read(one, attack.responses, until) for one in opened)
    for one in opened:
        one.close()
    return answered


_kept: list[socket.socket] = []


def _send(opened: socket.socket, attack: Attack) -> None:
    piece = attack.piece or len(attack.payload)
    with suppress(OSError):
        for at in range(0, len(attack.payload), piece):
            opened.sendall(memoryview(attack.payload)[at : at + piece])
            time.sleep(attack.pause)


def _send_unread(opened: socket.socket, payload: bytes, until: float) -> None:
    """Send until the server takes no more bytes."""
    left = memoryview(payload)
    opened.settimeout(STALLED)
    with suppress(OSError):
        while len(left) and time.perf_counter() < until:
            left = left[opened.send(left) :]
    if not len(left):
        time.sleep(max(min(STALLED, until - time.perf_counter()), 0))


def _read(opened: socket.socket, responses: int, until: float) -> int:
    """Read this many responses, or fewer if the time is up or the server closes the connection."""
    buffer = memoryview(bytearray(READ))
    head, left, read = b"", 0, 0
    while read < responses and (seconds := until - time.perf_counter()) > 0:
        opened.settimeout(seconds)
        try:
            got = opened.recv_into(buffer)
        except TimeoutError:
            return read
        if not got:
            return read
        at = 0
        while at < got:
            if left:
                step = min(left, got - at)
                left, at = left - step, at + step
                read += not left
                continue
            take = min(4 - len(head), got - at)
            head, at = head + bytes(buffer[at : at + take]), at + take
            if len(head) == 4:
                left, head = int.from_bytes(head, "big"), b""
    return read
