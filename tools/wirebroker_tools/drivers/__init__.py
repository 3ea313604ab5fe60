"""A common interface to the client libraries. The interface has a few blocking calls, and each call ends in bounded time.

Each library has a module with a `Producer` and, if the client can consume, a `Reader`. A library is imported only when it is
first used, so that an error can then say that the library is missing. The scenarios, the demo and the interoperability checks
use this interface. Exceptions of the client library are passed on unchanged.

    Producer(address, settings, report)   raises Refused if the client does not take the settings
        start()                           connect, and call init_transactions if the producer is transactional
        send(topic, value, partition)     hand over a record; its outcome is reported now or later
        push()                            send the records that were handed over; most clients send them without this call
        flush(timeout)                    wait up to `timeout` seconds until the outcome of every record is reported
        begin(), commit(), abort()        begin_transaction, commit_transaction, abort_transaction
        send_offset(reader, offset)       send_offsets_to_transaction, for partition 0 of the reader's topic
        close(timeout)                    close the producer, and wait up to `timeout` seconds for it
        crash()                           drop the producer as if its process had died: it sends and reports nothing more

    Reader(address, topic, group, isolation, *, member=False)
                                          reads partition 0 or, with `member`, the whole topic as the only member of a group
        committed()                       the group's committed offset, or 0
        read(offset, count, timeout)      offsets and values of at most `count` records that arrive within the timeout, from
                                          `offset` or, with None, from the current position on
        position()                        the offset after the last record or marker that was read
        commit(offset), close()
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, get_args

from wirebroker.common.complaints import Complaint

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


class NotInstalled(Complaint):
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
