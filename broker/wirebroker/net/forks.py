"""Forked processes: they have no broker, only its addresses.

A fork copies only the thread that called it, so the broker's loop runs in the parent alone. A child that waited for the
loop would wait forever, so `at_home` is called first. The child also inherits the broker's sockets, and gives them up at once.
Otherwise a port or connection that the parent closes would stay open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet


class HoldsSockets(Protocol):
    """An object with sockets that belong to this process."""

    def descriptors(self) -> Iterable[int]:
        """The file descriptors of the sockets that are open now."""


_owners: WeakSet[HoldsSockets] = WeakSet()


def give_up_in_children(owner: HoldsSockets) -> None:
    """Have a forked process give up these sockets."""
    _owners.add(owner)


def at_home(process: int, what: str) -> None:
    """Raises RuntimeError if this is not the process in which `what` runs, but one that was forked from it."""
    if os.getpid() != process:
        raise RuntimeError(
            f"{what} runs in process {process}, and this process was forked from it; connect a client to its "
            "bootstrap_servers, or start another MockKafka in this process"
        )


def _give_up() -> None:
    """Point every inherited descriptor at /dev/null.

    They are not closed here, because the copied objects will close their numbers later, and the numbers may belong to other
    files by then.
    """
    descriptors = [each for owner in list(_owners) for each in owner.descriptors()]
    _owners.clear()
    if not descriptors:
        return
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in descriptors:
            if descriptor >= 0:
                os.dup2(nowhere, descriptor, inheritable=False)
        os.close(nowhere)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_give_up)
