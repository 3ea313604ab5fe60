"""**The wire**. Pauses here use the machine's time, and not the broker's clock:"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from msgspec import Meta

from kafkawire.declare import Message
from kafkawire.frames import SIZE_BYTES
from wirebroker.faults.acts import Injection, OutgoingResponse
from wirebroker.faults.forms import FaultError
from wirebroker.faults.rules import HEADER_WORDS, InjectionPoint, Match, NonNegative, Positive, Rule
from wirebroker.requests.effects import Outcome
from wirebroker.requests.facts import Batch, Facts

__all__ = ["bandwidth", "close", "corrupt", "cut", "refuse", "reset", "slice"]
__tracebackhide__ = True  # pytest shows the caller's line

HEADER_BYTES = 8
"""The number of bytes from the start of a request, including its size field, to the end of its API version."""
PIECE_S = 0.02
"""The time in seconds between two pieces of a response with limited bandwidth."""

Milliseconds = Annotated[int, Meta(ge=0, extra={"unit": "ms"})]


class cut(Rule):
    """Only the first `bytes` bytes of the response (including the size field) are sent, and then the connection is closed. With
    `request`, the connection is closed when `bytes` bytes of the request have arrived, and the request is not handled."""

    bytes: NonNegative
    request: bool = False

    example = 'faults.cut(10, api="Produce", nth=2)'

    def check_options(self) -> None:
        if not self.request:
            return
        if self.bytes < HEADER_BYTES:
            raise FaultError("bytes", f"cut: with request, bytes must be at least {HEADER_BYTES}, not {self.bytes}")
        for word in Match.__struct_fields__:
            if word not in HEADER_WORDS and getattr(self.match, word) is not None:
                known = ", ".join(HEADER_WORDS)
                raise FaultError(word, f"cut: before a request has arrived only {known} are known, not {word}")

    @property
    def injection_point(self) -> InjectionPoint:
        return InjectionPoint.ARRIVAL if self.request else InjectionPoint.WIRE

    @property
    def arrival_bytes(self) -> int:
        return self.bytes

    def matching(self, facts: Facts) -> list[Batch | None]:
        if self.request:
            return [None] if self.match.header_fits(facts) else []
        return super().matching(facts)

    def before(self, injection: Injection) -> Outcome:
        return injection.exchange.close(f"the fault {self}")

    def send(self, line: OutgoingResponse) -> bool:
        line.cut = min(self.bytes, line.size if line.cut is None else line.cut)
        line.closing.append((0, self))
        return True


class slice(Rule):
    """The response is sent in pieces of `bytes` bytes, with pauses of `ms` milliseconds between the pieces."""

    bytes: Positive
    ms: Milliseconds = 1

    example = 'faults.slice(7, ms=5, api="Fetch")'
    acts_at: ClassVar[InjectionPoint] = InjectionPoint.WIRE

    def send(self, line: OutgoingResponse) -> bool:
        if self.bytes >= line.size:
            return False
        line.piece, line.pause, line.slowed_by = self.bytes, self.ms / 1000, self
        return True


class bandwidth(Rule):
    """The response is sent with a bandwidth of `rate` bytes per second."""

    rate: Annotated[int, Meta(ge=1, extra={"unit": "bytes per second"})]

    example = 'faults.bandwidth(100_000, api="Fetch")'
    acts_at: ClassVar[InjectionPoint] = InjectionPoint.WIRE

    def send(self, line: OutgoingResponse) -> bool:
        line.piece, line.pause = max(int(self.rate * PIECE_S), 1), max(PIECE_S, 1 / self.rate)
        line.slowed_by = self
        return True


class corrupt(Rule):
    """All bits of `bytes` bytes of the response are inverted, beginning with the byte at the position `at`. A negative `at`
    counts from the end of the response. Without `at`, the seed determines random bytes after the size field."""

    bytes: Positive = 1
    at: int | None = None

    example = 'faults.corrupt(2, at=-20, api="Fetch", nth=1)'
    acts_at: ClassVar[InjectionPoint] = InjectionPoint.WIRE

    def send(self, line: OutgoingResponse) -> bool:
        if self.at is None:
            damaged = sorted(line.sample(range(SIZE_BYTES, line.size), min(self.bytes, line.size - SIZE_BYTES)))
        else:
            first = self.at if self.at >= 0 else line.size + self.at
            damaged = list(range(max(first, 0), min(first + self.bytes, line.size)))
        line.flipped += damaged
        return bool(damaged)


class reset(Rule):
    """The connection is reset (RST) before the request is handled. With `after`, the request is handled, and the connection is
    reset without a response."""

    after: bool = False

    example = 'faults.reset(after=True, api="Produce")'

    def before(self, injection: Injection) -> Outcome:
        return injection.reset()

    def on_response(self, injection: Injection, response: Message) -> bool:
        return injection.lose_response(close=True, reset=True)


class refuse(Rule):
    """A new connection is reset immediately. The words `node`, `nth`, `every`, `probability` and `times` choose the
    connections."""

    example = "faults.refuse(node=2, times=5)"
    acts_at: ClassVar[InjectionPoint] = InjectionPoint.CONNECTION
    match_words: ClassVar[tuple[str, ...]] = ("node",)

    def matching(self, facts: Facts) -> list[Batch | None]:
        return []

    @property
    def apis(self) -> Iterable[str]:
        return ()


class close(Rule):
    """The connection is closed `ms` milliseconds after the response, by the broker's clock. Without `ms`, the connection is
    closed immediately after the response."""

    ms: Milliseconds = 0

    example = 'faults.close(ms=9000, api="Metadata", nth=2)'
    acts_at: ClassVar[InjectionPoint] = InjectionPoint.WIRE

    def send(self, line: OutgoingResponse) -> bool:
        line.closing.append((self.ms, self))
        return True
