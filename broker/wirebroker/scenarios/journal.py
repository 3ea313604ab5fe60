"""What the application meant to send, and what its client told it: the other half of what the log shows."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

from wirebroker.audit.journal import Intended


class Sent(NamedTuple):
    """A record that the application handed over."""

    value: str
    topic: str
    partition: int
    by: str
    """the producer: an application may have several"""


class Told(NamedTuple):
    """What the client told of a record. `error` is "" where it was acknowledged; `offset` −1 where it has none."""

    value: str
    offset: int
    error: str


@dataclass(slots=True)
class Note:
    """Something that the application did or was told beside its records: a call and what came of it."""

    what: str
    error: str = ""


class Journal:
    """Written by the workload and, from the clients' own threads, by their callbacks."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.told: list[Told] = []
        self.notes: list[Note] = []
        self.deleted: set[str] = set()
        """Values that were stored, and then deleted by somebody who may."""
        self._changed = threading.Condition()

    def tell(self, value: str, offset: int, error: str) -> None:
        """A callback."""
        with self._changed:
            self.told.append(Told(value, offset, error))
            self._changed.notify_all()

    def wait_told(self, values: set[str], timeout: float) -> bool:
        """Wait until something was told of each of these; whether it was."""
        with self._changed:
            return self._changed.wait_for(lambda: values <= {each.value for each in self.told}, timeout)

    def acknowledged(self) -> set[str]:
        """The values that were acknowledged at least once."""
        return {each.value for each in self.told if not each.error}

    def unacknowledged(self) -> list[Sent]:
        """What was handed over and not acknowledged, in order, each once."""
        known = self.acknowledged()
        return list({each.value: each for each in self.sent if each.value not in known}.values())

    def intended(self) -> list[Intended]:
        """The same for the audit: each record once, and what became of it as far as it was told."""
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
    """The name of the nth record, from 0: A, B … Z, AA, AB …"""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
