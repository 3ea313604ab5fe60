"""TCP connections in a capture: the bytes of each side in order. Retransmissions are left out, and gaps are marked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from wirebroker_tools.capture.packets import ACK, FIN, RST, SYN, Endpoint, Segment

MOST_HELD = 256
"""If this many segments wait for an earlier segment, the earlier segment counts as missing from the capture."""
MOST_ENDED = 1000
"""This many connections are remembered after their end."""
_HALF, _ALL = 1 << 31, (1 << 32) - 1


class Piece(NamedTuple):
    """Bytes that one side sent; `time` is in µs since the epoch."""

    stream: Stream
    sender: Endpoint
    data: bytes
    after_gap: bool
    """True if the bytes that precede these bytes are missing from the capture."""
    time: int
    at: int = 0
    """The position of the bytes in the file of the capture."""


class Ended(NamedTuple):
    """The end of a connection; `reason` is a sentence."""

    stream: Stream
    reason: str
    time: int


class Stream:
    """A TCP connection. `client` is the side that opened the connection, or None until the capture shows which side it was."""

    def __init__(self, segment: Segment) -> None:
        self.ends = segment.source, segment.target
        self.client: Endpoint | None = None
        self.sides = {self.ends[0]: _Side(), self.ends[1]: _Side()}
        self.closed = False

    @property
    def server(self) -> Endpoint:
        """The side that is not the client."""
        return self.ends[1] if self.client == self.ends[0] else self.ends[0]

    def take(self, segment: Segment) -> Iterator[Piece | Ended]:
        """Yields the bytes that can be passed on now, after this segment."""
        if segment.flags & SYN:
            self.client = segment.target if segment.flags & ACK else segment.source
        for data, after_gap, at in self.sides[segment.source].take(segment):
            yield Piece(self, segment.source, data, after_gap, segment.time, at)
        if segment.flags & ACK:
            for data, after_gap, at in self.sides[segment.target].acknowledge(segment.acknowledged):
                yield Piece(self, segment.target, data, after_gap, segment.time, at)
        if segment.flags & (FIN | RST) and not self.closed:
            self.closed = bool(segment.flags & RST) or all(each.ended for each in self.sides.values())
            if self.closed:
                yield Ended(self, "it was reset" if segment.flags & RST else "it was closed", segment.time)

    def rest(self, time: int) -> Iterator[Piece]:
        """Yields the bytes that were not passed on, because segments before them never came."""
        for end, side in self.sides.items():
            for data, after_gap, at in side.give_up():
                yield Piece(self, end, data, after_gap, time, at)


Passed = tuple[bytes, bool, int]
"""Complete bytes, their position in the file, and whether bytes before them are missing."""


class _Side:
    """The bytes that one side has sent."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._held: dict[int, tuple[bytes, int]] = {}
        self._acknowledged: int | None = None
        self.ended = False

    def take(self, segment: Segment) -> Iterator[Passed]:
        """Yields the bytes that can be passed on now: the stream no longer waits for earlier bytes. Also yields whether bytes
        are missing before them."""
        sequence = segment.sequence
        if segment.flags & SYN:
            self._next = sequence = (sequence + 1) & _ALL
        self.ended |= bool(segment.flags & FIN)
        if not segment.payload:
            return
        if self._next is None:
            self._next = sequence
            yield from self._pass(sequence, segment.payload, segment.at, True)
            return
        if 0 < self._ahead(sequence) < _HALF:
            if sequence not in self._held or len(segment.payload) > len(self._held[sequence][0]):
                self._held[sequence] = segment.payload, segment.at
            if len(self._held) > MOST_HELD or self._is_received(sequence):
                yield from self.give_up()
            return
        yield from self._pass(sequence, segment.payload, segment.at, False)
        yield from self._held_ones()

    def acknowledge(self, acknowledged: int) -> Iterator[Passed]:
        """Take an acknowledgement: the other side has all earlier bytes, so earlier bytes that have not come yet are missing
        from the capture."""
        if self._acknowledged is None or 0 < (acknowledged - self._acknowledged) & _ALL < _HALF:
            self._acknowledged = acknowledged
        if self._held and self._is_received(min(self._held, key=self._ahead)):
            yield from self.give_up()

    def _is_received(self, sequence: int) -> bool:
        """Tells whether the other side has acknowledged all bytes before this sequence number."""
        return self._acknowledged is not None and (self._acknowledged - sequence) & _ALL < _HALF

    def give_up(self) -> Iterator[Passed]:
        """Yields the bytes after a gap; from now on, the bytes of the gap count as missing."""
        while self._held and self._next is not None:
            nearest = min(self._held, key=self._ahead)
            self._next = nearest
            yield from self._pass(nearest, *self._held.pop(nearest), True)
            yield from self._held_ones()

    def _held_ones(self) -> Iterator[Passed]:
        """Yields those held bytes that now follow without a gap. Bytes that were already yielded are dropped."""
        while ready := [each for each in self._held if self._ahead(each) == 0 or self._ahead(each) >= _HALF]:
            for sequence in ready:
                yield from self._pass(sequence, *self._held.pop(sequence), False)

    def _ahead(self, sequence: int) -> int:
        return (sequence - (self._next or 0)) & _ALL

    def _pass(self, sequence: int, data: bytes, at: int, after_gap: bool) -> Iterator[Passed]:
        """Returns the part of these bytes that was not yielded before."""
        passed = ((self._next or 0) - sequence) & _ALL
        if passed < len(data):
            self._next = (sequence + len(data)) & _ALL
            yield data[passed:], after_gap, at + passed


class Streams:
    """The connections of a capture."""

    def __init__(self) -> None:
        self._streams: dict[tuple[Endpoint, Endpoint], Stream] = {}
        self._ended: deque[tuple[Endpoint, Endpoint]] = deque()
        self._time = 0

    def take(self, segment: Segment) -> Iterator[Piece | Ended]:
        """Yields the bytes that this segment completes, in the order of the capture."""
        self._time = segment.time
        first, second = sorted((segment.source, segment.target))
        stream = self._streams.get((first, second))
        if stream is None or (stream.closed and segment.flags & SYN and not segment.flags & ACK):
            stream = self._streams[first, second] = Stream(segment)
        for event in stream.take(segment):
            yield event
            if isinstance(event, Ended):
                self._forget_after((first, second))

    def _forget_after(self, ended: tuple[Endpoint, Endpoint]) -> None:
        """Remember that a connection is over. Late segments of the latest connections are still recognised."""
        self._ended.append(ended)
        if len(self._ended) > MOST_ENDED:
            oldest = self._ended.popleft()
            if oldest in self._streams and self._streams[oldest].closed:
                del self._streams[oldest]

    def rest(self) -> Iterator[Piece]:
        """Yields the bytes that were not passed on, because the capture lacks segments before them."""
        for stream in self._streams.values():
            yield from stream.rest(self._time)
