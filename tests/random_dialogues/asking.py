"""The base class of all subjects. It has a seeded random generator, and remembers values in responses."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from random_dialogues.replay import Ask, Head, Responses


class Asking:
    """A dialogue with several brokers. Each request depends on the first broker's earlier responses.

    A subclass remembers the response of an API in its method `_heard_<Api>(ask, answer)`.
    """

    blocking: ClassVar[frozenset[str]] = frozenset()
    """APIs whose response can depend on later requests of other clients."""
    pause: ClassVar[float] = 0.0
    """Seconds to wait after each request, until its change is in effect in every part of a Kafka broker."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self._random = random.Random(f"{head.subject} {head.seed}")

    def fence(self, _: Ask) -> Ask | None:
        """Returns None, because no request of this subject needs a fence (see `playing.Subject`)."""
        return None

    def sent(self, ask: Ask) -> None:
        """Remember that a request is sent."""

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Remembers the first broker's responses."""
        response = responses.get(ask.connection)
        heard = getattr(self, f"_heard_{ask.api}", None)
        if response is not None and heard is not None:
            heard(ask, response)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _version(self, oldest: int, newest: int) -> int:
        return self._random.randint(oldest, newest)

    def _pick(self, options: dict[Any, float]) -> Any:
        """Returns one of these values, chosen by weight."""
        return self._random.choices(list(options), list(options.values()))[0]
