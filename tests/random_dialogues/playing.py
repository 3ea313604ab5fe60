"""Plays a dialogue on several brokers at the same time. After each step, compares the responses of all brokers."""

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
from wirebroker.core.releases import Release
from wirebroker_tools.conformance.versions import Announced

Address = tuple[str, int]
ANSWERED_WITHIN = 10.0
"""The longest wait, in seconds, for a response that must arrive."""
GRACE = 0.04
"""For this many seconds after the response to a fence, Kafka's timers and network threads may still send responses."""
LATER = 1.5
"""If only one of two brokers has responded after this many seconds, this counts as a difference."""
CONNECTIONS = 5
TRIES = 500
"""A subject makes requests until the release supports one of them, but at most this many."""


class Subject(Protocol):
    """Makes a random dialogue, step by step."""

    head: Head
    blocking: frozenset[str]
    """APIs whose response can depend on later requests of other clients."""
    pause: float
    """Seconds to wait after each request, until its change is in effect in every part of a Kafka broker."""

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request, for one of these connections."""

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Note the first broker's responses."""

    def fence(self, ask: Ask) -> Ask | None:
        """Returns a request to which Kafka responds only after all effects of `ask`, or None if no such request is needed."""


class OfRelease:
    """Limits a subject to the API versions and topic settings that a release supports."""

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
        """Returns the subject's next request that the release supports. Raises ProtocolError after `TRIES` requests that the
        release does not support."""
        for _ in range(TRIES):
            if self._has(ask := self._subject.ask(free)):
                return ask
            self._subject.learn(ask, {})
        raise ProtocolError(f"the release has no request about {self.head.subject}")

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Note the first broker's responses."""
        self._subject.learn(ask, responses)

    def fence(self, ask: Ask) -> Ask | None:
        """Returns the subject's fence."""
        return self._subject.fence(ask)

    def _has(self, ask: Ask) -> bool:
        return not self._announced.lacks(ask.api) and self._announced.lowered(ask.api, ask.version) == ask.version


@dataclass(slots=True)
class Played:
    """The result of one dialogue. `cut` means that the dialogue ended early, at a step where Kafka's response is random."""

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
    """Sends this request to all brokers, and returns all their responses."""
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
