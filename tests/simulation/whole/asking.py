"""Steps that send requests. The generators of the random dialogues make them (`random_dialogues`), each with what it has learnt
from responses; all of them use the same names, so that their requests are about the same things."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from kafkawire.declare import Message
from kafkawire.registry import KEYS, request_class
from random_dialogues.brokers import Brokers
from random_dialogues.consumers import Consumers
from random_dialogues.logins import Logins
from random_dialogues.playing import Subject
from random_dialogues.replay import Ask
from random_dialogues.security import Security
from random_dialogues.states import States
from random_dialogues.subjects import SUBJECTS
from random_dialogues.symbols import Json, Symbols, from_json, to_json
from simulation.whole.kinds import ASKED

LONGEST_WAITS = (0, 0, 500, 20_000)
"""The max_wait_ms of Fetch requests. Those of dialogues do not wait."""
TOPICS: dict[str, dict[str, str]] = {
    "t": {}, "u": {"segment.ms": "60000", "retention.ms": "86400000"}, "c": {"cleanup.policy": "compact"},
    "z": {"compression.type": "uncompressed", "message.timestamp.type": "LogAppendTime"},
    "n": {"max.message.bytes": "400", "message.timestamp.before.max.ms": "3600000"},
}  # fmt: skip
"""The topics that exist at first, with their settings. Each has two partitions."""


class Asked(NamedTuple):
    """A request that a subject sends."""

    subject: str
    ask: Ask
    message: Message


class Speaker:
    """All subjects, with the symbols that stand for ids in their requests."""

    def __init__(self, seed: int, brokers: int, tries: int) -> None:
        self.symbols = Symbols("")
        self._seed, self._brokers, self._tries = seed, brokers, tries
        self._subjects: dict[str, Subject] = {}
        self._count = 0

    def _subject(self, name: str) -> Subject:
        if name not in self._subjects:
            made = Brokers(self._seed, self._brokers) if name == "brokers" else MAKERS[name](self._seed)
            _shorten(made)
            _shorten(getattr(made, "_shares", None))
            self._subjects[name] = made
        return self._subjects[name]

    def ask(self, api: str, chance: Random, free: list[int], now: int) -> Asked | None:
        """Returns a request of this API, or else another request that its subject would send now. Returns None if the request
        needs an id that no broker has given."""
        name = chance.choice(ASKED[api])
        subject: Any = self._subject(name)
        ask = None
        for _ in range(self._tries):
            subject._random = Random(chance.getrandbits(32))
            for part in ("_shares", "_quotas", "_topics"):
                if hasattr(subject, part):
                    getattr(subject, part)._random = subject._random
            try:
                ask = subject.ask(free)
            except ValueError:  # what it has learnt is not true any more
                continue
            if ask.api == api or name == "logins":
                break
            subject.learn(ask, {})
        if ask is None:
            return None
        if ask.api == "Fetch":
            ask.body["max_wait_ms"] = chance.choice(LONGEST_WAITS)
        self._count += 1
        self.symbols.date(self._count, now)
        try:
            return Asked(name, ask, from_json(request_class(KEYS[ask.api]), ask.body, self.symbols, now))
        except KeyError:
            return None

    def hear(self, asked: Asked, connection: int, response: Message | None) -> None:
        """Let the subject learn from a response, or from its absence."""
        subject = self._subjects[asked.subject]
        told: Json | None = None
        if response is not None:
            self.symbols.learn(response)
            told = to_json(response, self.symbols)
        subject.learn(asked.ask, {} if told is None else {connection: told})


def _shorten(subject: Any) -> None:
    """Leaves only some of the requests with which a dialogue prepares its groups, because schedules are short."""
    first = getattr(subject, "_first", None)
    if first:
        first[:] = [first[number] for number in PREPARING if number < len(first)]


PREPARING = (0, 4, 6)
"""Of share groups: the setting share.auto.offset.reset, the start offsets, and the ShareFetch that loads a partition."""
MAKERS = SUBJECTS | {"consumers": Consumers, "security": Security, "states": States, "logins": Logins}
"""The subjects by name. The dialogues about brokers need the number of brokers, too."""
