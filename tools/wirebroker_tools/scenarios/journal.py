"""The records that the application sent, each with the outcome that the client reported."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

from wirebroker.audit.journal import Intended


class Sent(NamedTuple):
    """A record that the application handed to its client."""

    value: str
    topic: str
    partition: int
    by: str
    """the name of the producer that sent the record; an application may have several producers"""


class Told(NamedTuple):
    """A record's outcome as the client reported it. `error` is "" if the record is acknowledged. `offset` is −1 if it is
    unknown.
    """

    value: str
    offset: int
    error: str


@dataclass(slots=True)
class Note:
    """A call to the client that is not a send, and the error of this call."""

    what: str
    error: str = ""


class Journal:
    """The sent records, their outcomes and other calls. The workload and the clients' callbacks add entries from their own
    threads.
    """

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.told: list[Told] = []
        self.notes: list[Note] = []
        self.deleted: set[str] = set()
        """The values of records that were stored and that a step of the scenario then deleted."""
        self._changed = threading.Condition()

    def tell(self, value: str, offset: int, error: str) -> None:
        """Note the outcome of a record. The clients' callbacks call this method."""
        with self._changed:
            self.told.append(Told(value, offset, error))
            self._changed.notify_all()

    def wait_told(self, values: set[str], timeout: float) -> bool:
        """Wait for the outcome of each of these values. Returns False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: values <= {each.value for each in self.told}, timeout)

    def acknowledged(self) -> set[str]:
        """Returns the values acknowledged at least once."""
        return {each.value for each in self.told if not each.error}

    def unacknowledged(self) -> list[Sent]:
        """Returns each unacknowledged record once, in the order in which the records were sent."""
        known = self.acknowledged()
        return list({each.value: each for each in self.sent if each.value not in known}.values())

    def intended(self) -> list[Intended]:
        """Returns the sent records in the form that the audit reads. Each record is returned once, with the outcome if the
        client reported one.
        """
        good, failed = self.acknowledged(), {each.value for each in self.told if each.error}
        once = {each.value: each for each in self.sent}
        return [
            Intended(
                each.topic, None, value.encode(), None,
                True if value in good else False if value in failed else None, each.by,
            )
            for value, each in once.items()
        ]  # fmt: skip


def label(number: int) -> str:
    """Returns the name of the nth record, from 0: A, B … Z, AA, AB …"""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
