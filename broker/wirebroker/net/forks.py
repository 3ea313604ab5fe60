"""Handles forks of the process in which a broker runs. The broker does not run in the child process. The child has only the
broker's addresses.

A fork copies only the thread that calls it, so the broker's loop runs only in the parent. If code in the child waited for the
loop, it would wait forever. `at_home` prevents this. The child also inherits the broker's sockets, and gives them up
immediately. Otherwise the ports and connections would stay open after the parent has closed them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet


class HoldsSockets(Protocol):
    """An object with sockets that only this process may use."""

    def descriptors(self) -> Iterable[int]:
        """Returns the file descriptors of the sockets that are open now."""


_owners: WeakSet[HoldsSockets] = WeakSet()


def give_up_in_children(owner: HoldsSockets) -> None:
    """If the process is forked, make the child give up the sockets of `owner`."""
    _owners.add(owner)


def at_home(process: int, what: str) -> None:
    """Raises RuntimeError in a child that was forked from the process `process`. `what` names the object, which runs only in
    the process `process`."""
    if os.getpid() != process:
        raise RuntimeError(
            f"{what} runs in process {process}, and this process was forked from it; connect a client to its "
            "bootstrap_servers, or start another MockKafka in this process"
        )


def _give_up() -> None:
    """Point every inherited descriptor at /dev/null.

    The descriptors are not closed, because the child's copies of the broker's objects will close the same numbers later. By
    then, a closed number could belong to another file, which would be closed by mistake.
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
