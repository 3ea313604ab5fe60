"""Random dialogues of other subjects, in which some requests have an unusual value in one field: the smallest or the largest
number, null, an empty text or list, a repeated entry, or a name that does not exist.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kafkawire.declare import Field
from kafkawire.registry import KEYS, request_class
from random_dialogues.playing import Subject
from random_dialogues.replay import Ask, Responses
from random_dialogues.subjects import SUBJECTS
from random_dialogues.symbols import Json

SHARE = 0.3
"""The share of the requests that have an unusual value."""
ALTERED = ("logs", "transactions", "groups", "admin", "streams", "shares")
"""The subjects whose requests are altered."""
BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
TEXTS = ["@t", "@u", "@nobody", "@g", "@a", "@1", "@é", "@a b", "@" + "x" * 237, "@" + "x" * 300]
"""Unusual texts. They are names that belong to the dialogue, so that dialogues do not affect each other."""
IDS = ["@t", "@u", "@nobody", "@"]
WAITS = ("max_wait_ms", "timeout_ms", "session_timeout_ms", "rebalance_timeout_ms")
"""Fields that keep their value, because another value would delay the response."""
NEVER_ANSWERED = frozenset(
    {
        ("Produce", "records"), ("JoinGroup", "protocols"), ("JoinGroup", "metadata"), ("AlterConfigs", "resources"),
        ("AddPartitionsToTxn", "transactions"), ("WriteTxnMarkers", "topics"), ("WriteTxnMarkers", "partition_indexes"),
        ("DescribeShareGroupOffsets", "partitions"), ("DescribeShareGroupOffsets", "topics"),
    }
)  # fmt: skip
"""Fields that can have values to which Kafka never responds, or responds only after half a minute."""
READ_LATER = frozenset((("ShareFetch", "group_id"), ("ShareFetch", "topic_id"), ("ShareFetch", "partition_index")))
"""Fields that would make Kafka read another share state in the background. The response would then depend on the time."""
Place = tuple[Json, Field]
"""A struct of a request, and a field of this struct."""


class Odd:
    """A dialogue of another subject. Each request depends on the first broker's earlier responses."""

    def __init__(self, seed: int) -> None:
        self._subject: Subject = SUBJECTS[ALTERED[seed % len(ALTERED)]](seed)
        head = self._subject.head  # a request may name a transactional id, so the coordinators of transactions must be loaded
        self.head = replace(head, subject="odd", transactional_ids=head.transactional_ids or ["a"])
        self.blocking, self.pause = self._subject.blocking, self._subject.pause
        self._random = random.Random(f"odd {seed}")

    def fence(self, ask: Ask) -> Ask | None:
        """Returns the subject's fence."""
        return self._subject.fence(ask)

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Note the first broker's responses."""
        self._subject.learn(ask, responses)

    def ask(self, free: list[int]) -> Ask:
        """Returns the subject's next request, with or without an unusual value."""
        begins = getattr(self._subject, "is_beginning", False)
        ask = self._subject.ask(free)
        places = [] if begins or self._random.random() > SHARE else list(_places(request_class(KEYS[ask.api]), ask))
        if not places:
            return ask
        memo: dict[int, Any] = {}
        altered = replace(ask, body=copy.deepcopy(ask.body, memo))
        held, field = self._random.choice(places)
        where = memo[id(held)]
        where[field.name] = self._random.choice(_values(field, ask.version, where.get(field.name)))
        return altered


def _places(cls: Any, ask: Ask, body: Json | None = None) -> Iterator[Place]:
    """Yields each field of a request of this class that may have an unusual value, together with the field's struct."""
    held = ask.body if body is None else body
    for field in cls.__wire__:
        where = (ask.api, field.name)
        if not field.present(ask.version) or field.name in WAITS or where in NEVER_ANSWERED or where in READ_LATER:
            continue
        yield held, field
        inner = field.spec[0] if isinstance(field.spec, list) else field.spec
        if isinstance(inner, type):
            value = held.get(field.name)
            for each in value if isinstance(value, list) else [value]:
                if each is not None:
                    yield from _places(inner, ask, each)


def _values(field: Field, version: int, value: Any) -> list[Any]:
    """Returns the unusual values of a field."""
    null = [None] if field.nullable(version) else []
    spec = field.spec
    if isinstance(spec, list):
        return [[], *null, *([value + copy.deepcopy(value[:1]), value[::-1]] if value else [])]
    if spec in BITS:
        most = 2 ** BITS[spec] - 1
        near = [value - 1, value + 1] if isinstance(value, int) and -most <= value < most else []
        return [-2, -1, 0, 1, 2, most, -most - 1, *near]
    empty = [] if field.entity == "groupId" else [""]  # dialogues would share a group without a name
    made: dict[Any, Callable[[], list[Any]]] = {
        "string": lambda: [*TEXTS, *empty, *null], "uuid": lambda: IDS, "bool": lambda: [not value],
        "bytes": lambda: ["", "\0\1", "x" * 40, *null], "float64": lambda: [0.0, -1.0, 0.5, 1e308],
    }  # fmt: skip
    return made.get(spec, lambda: null or [value if value is not None else {}])()


RECORDED: dict[str, Callable[[int], Subject]] = {**SUBJECTS, "odd": Odd}
"""The subjects of recorded dialogues."""
