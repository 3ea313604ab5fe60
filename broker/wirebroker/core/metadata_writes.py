"""Writes changes of the cluster's metadata. A change is written before any client sees it. If the write fails, the change is
undone.

Kafka's controller stops when its log cannot be written. wirebroker refuses the request for the change, and continues. A
record cannot hold a text that is too long or that has half of a surrogate pair. A change with such a text is refused before it
is made. This also holds without a data directory. Some changes, such as a new leader, cannot be undone. Such a change is
written as soon as the log can be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kafkawire.compiling import LONGEST_STRING, fits
from kafkawire.declare import Struct
from kafkawire.errors import UnwritableText
from wirebroker.core.coordinator_errors import RETRY_MS
from wirebroker.core.purgatory import Timers

if TYPE_CHECKING:
    from wirebroker.core.partition import Partition

Versions = tuple[int, int, int]


SHOWN = 40
"""If a text is too long, a message shows at most this many characters of it."""

TEXTLESS = frozenset({bytes, int, bool, type(None)})
"""Values of these types contain no text."""


class Write(Protocol):
    """Writes down all changes. If `only` is not empty, the changes concern only these partitions. Raises OSError if the write
    fails, and other exceptions for changes that cannot be encoded."""

    def __call__(self, now: int, only: Sequence[Partition] = ()) -> None: ...


def check_texts(held: object) -> None:
    """Raise UnwritableText if `held` is a text that neither a record nor a response can hold, or if it contains such a text.
    `held` is a text, or a mapping, a sequence or a struct of a message that contains texts. Other values are ignored.
    """
    if isinstance(held, str):
        if not fits(held):
            what = f"{held[:SHOWN]}…" if len(held) > SHOWN else held
            raise UnwritableText(f"{what!a} is longer than {LONGEST_STRING} bytes, or has half of a surrogate pair")
    elif isinstance(held, list | tuple):
        for each in held:
            if type(each) not in TEXTLESS and not (type(each) is str and fits(each)):
                check_texts(each)
    elif isinstance(held, Mapping):
        check_texts(tuple(held))
        check_texts(tuple(held.values()))
    elif isinstance(held, Struct):
        check_texts([getattr(held, field.name) for field in held.__wire__])
    elif isinstance(held, Iterable) and not isinstance(held, bytes | memoryview):
        for each in held:
            check_texts(each)


class Decisions:
    """The metadata changes that are not written down yet. The function `versions` returns counters; each change increases at
    least one of them."""

    def __init__(self, timers: Timers, versions: Callable[[], Versions]) -> None:
        self._timers = timers
        self._versions = versions
        self._write: Write | None = None
        self._written: Versions | None = None
        self._given_up: Versions | None = None
        """The versions of the metadata when the last write failed. A timer or a further change starts the next attempt."""
        self._failed_at = 0
        self._waiting = False
        self._made: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def write_with(self, write: Write) -> None:
        """Set the function that writes changes down. The function raises OSError if the write fails. A broker in memory sets no
        such function and writes nothing.
        """
        self._write = write
        self._written = self._given_up = None
        self._waiting = False

    def make(
        self, texts: object, change: Callable[[], None], undo: Callable[[], None], done: Callable[[], None] = lambda: None
    ) -> None:
        """Make a change. Its records will hold these texts (see `check_texts`). `undo` takes the change back; `done` is called
        after the change is written down.

        Raises UnwritableText, or the exception that `change` raises. After an exception nothing has changed.
        """
        check_texts(texts)
        try:
            change()
        except BaseException:
            undo()
            raise
        self.made(undo, done)

    def made(self, undo: Callable[[], None], done: Callable[[], None]) -> None:
        """Register a change that has been made. The change contains no texts. See `make`."""
        if self._write is None:
            done()
        else:
            self._made.append((undo, done))

    @property
    def pending(self) -> bool:
        """Tells whether there are changes that are neither written down nor refused."""
        return self._write is not None and (now := self._versions()) != self._written and now != self._given_up

    def write_down(self, now: int, only: Sequence[Partition] = ()) -> Exception | None:
        """Write down the pending changes. If the write fails, undo the changes that can be undone, and return the exception.
        The exception is an OSError, or another exception if a change cannot be encoded or the code that writes has an error.

        If `only` is not empty, the pending changes concern only these partitions.
        """
        if not self.pending or self._write is None:
            return None
        made, self._made = self._made, []
        versions = self._versions()
        try:
            self._write(now, only)
        except Exception as failed:
            for undo, _ in reversed(made):
                undo()
            self._given_up, self._failed_at = self._versions(), now
            self._try_again(now)
            return failed
        self._written = versions
        for _, done in made:
            done()
        return None

    def move_time(self, ms: int) -> None:
        """Move the time of the last failed write by `ms`, because the clock was moved by `ms`."""
        self._failed_at += ms

    def insist(self) -> Exception | None:
        """Write down all pending changes now, including changes that could not be written before; see `write_down`."""
        self._given_up = None
        return self.write_down(max(self._failed_at, self._timers.reached))

    def _try_again(self, now: int) -> None:
        if not self._waiting:
            self._waiting = True
            self._timers.at(now + RETRY_MS, self._again)

    def _again(self, now: int) -> None:
        self._waiting = False
        self._given_up = None
        self.write_down(now)
