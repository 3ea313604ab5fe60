"""What all dialogues share: a seeded die, its throws, and taking note of answers."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from random_dialogues.replay import Answers, Ask, Head


class Asking:
    """One dialogue; what is asked next depends on what the first broker answered.

    A subclass takes note of an answer in a method `_heard_<Api>(ask, answer)`.
    """

    blocking: ClassVar[frozenset[str]] = frozenset()
    """APIs that may wait for what others ask."""
    pause: ClassVar[float] = 0.0
    """Seconds after each request until every part of a Kafka has heard of it."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self._random = random.Random(f"{head.subject} {head.seed}")

    def fence(self, _: Ask) -> Ask | None:
        """None is needed where every request is answered."""
        return None

    def learn(self, ask: Ask, answers: Answers) -> None:
        """Take note of what the first broker answered."""
        answer = answers.get(ask.connection)
        heard = getattr(self, f"_heard_{ask.api}", None)
        if answer is not None and heard is not None:
            heard(ask, answer)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _version(self, oldest: int, newest: int) -> int:
        return self._random.randint(oldest, newest)

    def _pick(self, options: dict[Any, float]) -> Any:
        """One of these, by its weight."""
        return self._random.choices(list(options), list(options.values()))[0]
