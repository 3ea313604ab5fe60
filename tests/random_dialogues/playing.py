"""Plays a dialogue on several brokers at once: each step on all brokers, comparing all their responses."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Protocol

from kafkawire.errors import ProtocolError
from random_dialogues.replay import (
    Ask,
    Dialogue,
    Difference,
    Head,
    Player,
    Responses,
    Step,
    chosen_by_hash,
)
from wirebroker.conformance.versions import Announced
from wirebroker.core.releases import Release

Address = tuple[str, int]
ANSWERED_WITHIN = 10.0
"""The most seconds to wait for a response that always arrives."""
GRACE = 0.04
"""Seconds after the fence during which other responses may arrive: Kafka has timers and several network threads."""
LATER = 1.5
"""Seconds after which a response from one broker without a response from the other counts as a difference."""
CONNECTIONS = 5
TRIES = 500
"""The number of requests that a subject may make up until the release supports one."""


class Subject(Protocol):
    """Makes up one dialogue, step by step."""

    head: Head
    blocking: frozenset[str]
    """APIs whose response may wait for other clients' requests."""
    pause: float
    """Seconds to wait after each request until its change has reached every part of a Kafka broker."""

    def ask(self, free: list[int]) -> Ask:
        """The next request, on one of these connections."""

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Note the first broker's responses."""

    def fence(self, ask: Ask) -> Ask | None:
        """Returns a request to which Kafka responds only after all consequences of this request."""


class OfRelease:
    """A subject whose requests have only versions and topic settings that a release has."""

    def __init__(self, subject: Subject, announced: Announced, release: Release) -> None:
        self._subject, self._announced = subject, announced
        self.blocking, self.pause = subject.blocking, subject.pause
        absent = {name for name, change in release.settings.get("topic", {}).items() if change is None}
        configs = {
            topic: {name: value for name, value in given.items() if name not in absent}
            for topic, given in subject.head.configs.items()
        }
        self.head = replace(subject.head, configs=configs)

    def ask(self, free: list[int]) -> Ask:
        """Returns the subject's next request that the release has. Raises ProtocolError if there seems to be none."""
        for _ in range(TRIES):
            if self._has(ask := self._subject.ask(free)):
                return ask
            self._subject.learn(ask, {})
        raise ProtocolError(f"the release has no request about {self.head.subject}")

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Note the first broker's responses."""
        self._subject.learn(ask, responses)

    def fence(self, ask: Ask) -> Ask | None:
        """The subject's fence, if the release has it."""
        fence = self._subject.fence(ask)
        return fence if fence is not None and self._has(fence) else None

    def _has(self, ask: Ask) -> bool:
        return not self._announced.lacks(ask.api) and self._announced.lowered(ask.api, ask.version) == ask.version


@dataclass(slots=True)
class Played:
    """The result of one dialogue. `cut`: the dialogue ended early, where Kafka's behaviour is random."""

    dialogue: Dialogue
    difference: Difference | None
    cut: bool


def play(subject: Subject, addresses: list[Address], steps: int) -> Played:
    """Plays a dialogue on all these brokers. The first broker is the reference."""
    done: list[Step] = []
    with ExitStack() as stack:
        players = [stack.enter_context(closing(Player(address))) for address in addresses]
        for player in players:
            player.prepare(subject.head)
        for index in range(steps):
            free = [number for number in range(CONNECTIONS) if all(number not in p.busy() for p in players)]
            if not free:
                break
            ask = subject.ask(free)
            responses = _responses(subject, ask, players)
            done.append(Step(ask, responses[0]))
            for got in responses[1:]:
                if got != responses[0]:
                    dialogue = Dialogue(subject.head, done[:-1])
                    if chosen_by_hash(responses[0], got):
                        return Played(dialogue, None, True)
                    return Played(dialogue, Difference(subject.head, index, done, got), True)
            subject.learn(ask, responses[0])
            time.sleep(subject.pause)
            settled = [player.settle(ask) for player in players]
            if not all(settled):
                return Played(Dialogue(subject.head, done), None, True)
    return Played(Dialogue(subject.head, done), None, False)


def _responses(subject: Subject, ask: Ask, players: list[Player]) -> list[Responses]:
    """Returns all responses of all brokers after this request."""
    for player in players:
        player.send(ask)
    expected = set() if ask.api in subject.blocking else {ask.connection}
    responses = [
        player.responses(expected, ANSWERED_WITHIN, fence=subject.fence(ask), grace=GRACE if subject.blocking else 0.0)
        for player in players
    ]
    deadline = time.monotonic() + LATER
    while any(got.keys() != responses[0].keys() for got in responses) and time.monotonic() < deadline:
        responses = [got | player.responses((), 0.0, grace=GRACE) for got, player in zip(responses, players, strict=True)]
    return responses
