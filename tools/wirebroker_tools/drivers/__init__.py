"""A common interface to the client libraries. The interface has a few blocking calls, and each call ends in bounded time.

Each library has a module with a `Producer` and, if the client can consume, a `Reader`. A library is imported only when it is
first used, so that an error can then say that the library is missing. The scenarios, the demo and the interoperability checks
use this interface.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, Protocol, get_args

ClientName = Literal["kafka-python", "aiokafka", "confluent", "wire"]
CLIENTS: tuple[ClientName, ...] = get_args(ClientName)
Report = Callable[[str, int, str], None]
"""The type of a callback for a record's outcome.

The callback gets the value, the offset (−1 if there is none) and the error ("" if there is none).
"""
BLOCK = 2.0
"""A call may block for this many seconds. Clients that have a setting for this limit get the limit as the setting's value."""
PACKAGES: dict[ClientName, str] = {
    "kafka-python": "kafka-python", "aiokafka": "aiokafka", "confluent": "confluent-kafka", "wire": "wirebroker",
}  # fmt: skip
"""The PyPI distribution of each client."""


class NotInstalled(Exception):
    """Raised if the client library is not installed; the message says how to install it."""


class Refused(Exception):
    """Raised if the client refuses the settings."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of the application's producer. Times are in ms."""

    idempotence: bool = True
    acks: int | str = "all"
    in_flight: int = 5
    retries: bool = True
    transactional_id: str | None = None
    transaction_timeout: int = 60_000
    request_timeout: int = 2000
    delivery_timeout: int = 4000
    quick: bool = True
    """If true, the client has short timeouts and one record per batch, so that a scenario ends soon. If false, the client has
    the defaults of its library.
    """
    batches: list[int] = field(default_factory=list)
    """The numbers of records in the wire client's batches. The libraries send each record in its own batch."""
    first_sequence: int = 0
    """The wire client's first sequence. The libraries begin at 0."""

    def options(self) -> dict[str, Any]:
        """Returns the options that all libraries have. Their names are Kafka's names, with underscores instead of dots."""
        shared: dict[str, Any] = {"acks": self.acks, "enable_idempotence": self.idempotence}
        if self.quick:
            shared["request_timeout_ms"] = self.request_timeout
        if self.transactional_id:
            shared |= {"transactional_id": self.transactional_id, "transaction_timeout_ms": self.transaction_timeout}
        return shared


class Producer(Protocol):
    """An application's producer. Exceptions of the client library are passed on unchanged."""

    def __init__(self, address: str, settings: ProducerSettings, report: Report) -> None:
        """Raises Refused if the client does not take the settings."""

    def start(self) -> None:
        """Connect, and call init_transactions if the producer is transactional."""

    def send(self, topic: str, value: str, partition: int) -> None:
        """Hand over a record. The outcome of the record is reported now or later."""

    def push(self) -> None:
        """Start to send the records that were handed over. Most clients start to send without this call."""

    def flush(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until the outcome of every record is reported."""

    def begin(self) -> None:
        """Call begin_transaction."""

    def commit(self) -> None:
        """Call commit_transaction."""

    def abort(self) -> None:
        """Call abort_transaction."""

    def send_offset(self, reader: Any, offset: int) -> None:
        """Call send_offsets_to_transaction for partition 0 of the reader's topic."""

    def close(self, timeout: float) -> None:
        """Close the producer, and wait up to `timeout` seconds for it."""

    def crash(self) -> None:
        """Drop the producer as if its process had died. From now on, the producer neither sends nor reports anything."""


class Reader(Protocol):
    """A consumer of partition 0 of a topic.

    With `member` the consumer is the only member of a group and reads the whole topic.
    """

    group: str
    topic: str

    def __init__(self, address: str, topic: str, group: str, isolation: str, *, member: bool = False) -> None: ...

    def committed(self) -> int:
        """Returns the group's committed offset, or 0 if it has none."""

    def read(self, offset: int | None, count: int, timeout: float) -> list[tuple[int, str]]:
        """Returns offsets and values of at most `count` records that arrive within the timeout, beginning at `offset` or at the
        current position.
        """

    def position(self) -> int:
        """Returns the offset after the last record or marker that was read."""

    def commit(self, offset: int) -> None:
        """Commit the group's offset."""

    def close(self) -> None:
        """Close the consumer."""


def client_version(client: ClientName) -> str:
    """Returns the installed version. Raises NotInstalled."""
    package = PACKAGES[client]
    try:
        return version(package)
    except PackageNotFoundError:
        raise NotInstalled(f"{package} is not installed: pip install {package}") from None


def driver(client: ClientName) -> Any:
    """Returns the module of this client. Raises NotInstalled."""
    client_version(client)
    return import_module(f"{__name__}.{client.replace('-', '_')}")


def silence() -> None:
    """Stop the libraries from logging errors, for programs that print the outcomes themselves."""
    for library in ("kafka", "aiokafka"):
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)


def sentence(error: BaseException) -> str:
    """Returns an error on one line, as an application would log it."""
    name, text = type(error).__name__, " ".join(str(error).split())
    text = text.removeprefix(f"{name}: ")
    return f"{name}: {text}" if text and text != name else name
