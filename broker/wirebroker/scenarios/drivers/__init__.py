"""How the client libraries are driven: the same few calls for each, synchronous, every one of which ends.

A driver module has `VERSION_OF` (the distribution), `Producer` and, where the client has them, `Reader`. Libraries are
imported only when they are asked for, so that one that is not installed can be named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from wirebroker.scenarios.scenario import ClientName, ProducerSettings

Told = Callable[[str, int, str], None]
"""Told of each record what became of it: its value, its offset (−1 if there is none), the error ("" if there is none)."""
BLOCK = 2.0
"""Seconds that a call may block where the client has a bound for that."""
PACKAGES: dict[ClientName, str] = {
    "kafka-python": "kafka-python", "aiokafka": "aiokafka", "confluent": "confluent-kafka", "wire": "",
}  # fmt: skip
MODULES: dict[ClientName, str] = {
    "kafka-python": "kafka_python",
    "confluent": "confluent",
    "aiokafka": "aio",
    "wire": "wire",
}


class NotInstalled(Exception):
    """The client library is not there; the message says how to get it."""


class Refused(Exception):
    """The client refuses the settings."""


class Producer(Protocol):
    """A producer of an application. What a client raises comes through as it is."""

    def __init__(self, address: str, settings: ProducerSettings, told: Told) -> None:
        """Make it. Raises Refused for settings that it does not take."""

    def begin_with(self) -> None:
        """What comes before the first record: connecting, and for a transactional producer init_transactions."""

    def send(self, topic: str, value: str, partition: int) -> None:
        """Hand over a record; `told` hears of it later, or at once."""

    def push(self) -> None:
        """Have what was handed over sent by itself, which most clients do anyway."""

    def flush(self, timeout: float) -> None:
        """Wait until `told` has heard of every record, or `timeout` seconds."""

    def begin(self) -> None:
        """begin_transaction"""

    def commit(self) -> None:
        """commit_transaction"""

    def abort(self) -> None:
        """abort_transaction"""

    def send_offset(self, reader: Any, offset: int) -> None:
        """send_offsets_to_transaction for partition 0 of the topic that the reader reads."""

    def close(self, timeout: float) -> None:
        """End it, waiting at most so long."""

    def crash(self) -> None:
        """Let it go as if the process had died: nothing more is sent or told."""


class Reader(Protocol):
    """A consumer of partition 0 of a topic, in a group that it is alone in."""

    group: str
    topic: str

    def __init__(self, address: str, topic: str, group: str, isolation: str) -> None: ...

    def committed(self) -> int:
        """The group's offset, 0 if it has none."""

    def read(self, offset: int, count: int, timeout: float) -> list[tuple[int, str]]:
        """Offsets and values of up to `count` records from this offset on, as many as come in time."""

    def position(self) -> int:
        """The offset after what was read, which a marker moves on as well."""

    def commit(self, offset: int) -> None:
        """Commit the group's offset."""

    def close(self) -> None:
        """End it."""


def client_version(client: ClientName) -> str:
    """The version that is installed. Raises NotInstalled."""
    package = PACKAGES[client]
    try:
        return version(package or "wirebroker")
    except PackageNotFoundError:
        raise NotInstalled(f"{package} is not installed: pip install {package}") from None


def driver(client: ClientName) -> Any:
    """The module that drives this client. Raises NotInstalled."""
    client_version(client)
    return import_module(f"{__name__}.{MODULES[client]}")


def silence() -> None:
    """Keep the libraries from logging their misfortunes, for a program that prints what comes of them itself."""
    for library in ("kafka", "aiokafka"):
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)


def sentence(error: BaseException) -> str:
    """An error as an application's log would have it, on one line."""
    name, text = type(error).__name__, " ".join(str(error).split())
    text = text.removeprefix(f"{name}: ")
    return f"{name}: {text}" if text and text != name else name
