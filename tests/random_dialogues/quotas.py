"""Random dialogues about client quotas: their entities, their values, and filters that find quotas.

A dialogue alters only entities with its own names, because other entities would affect other dialogues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

EXACT, DEFAULT, SPECIFIED = range(3)
BY_CLIENT = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]
PER_ADDRESS = "connection_creation_rate"
VALUES = [1e9, 2e9, 12345678.0, 100.5, 1e-9, 0.0, -1.0, 9.3e18, 2.5e9, 1.0000001, 3e9]


class Quotas(Asking):
    """A dialogue. Each request depends only on the seed."""

    pause = 0.06
    """Seconds after which a change is in effect in every part of a Kafka broker."""

    def __init__(self, seed: int) -> None:
        super().__init__(Head("quotas", seed))
        self._addresses = [f"10.{seed >> 8}.{seed & 255}.{i}" for i in (1, 2)]

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        weights: dict[Callable[[], Ask], float] = {self._alter: 6.0, self._describe: 5.0}
        return replace(self._pick(weights)(), connection=free[0])

    def _entity(self) -> Json:
        """Returns a quota entity, mostly with names that belong to this dialogue."""
        user, client = self._pick({"@u": 3, "@v": 2}), self._pick({"@c": 3, "@d": 1})
        options: dict[int, Json] = {
            0: {"user": user}, 1: {"client-id": client}, 2: {"user": user, "client-id": client},
            3: {"user": user, "client-id": None}, 4: {"user": None, "client-id": client},
            5: {"ip": self._random.choice(self._addresses)}, 6: {"ip": "no such host"}, 7: {}, 8: {"user": ""},
            9: {"user": user, "ip": self._addresses[0]}, 10: {"group": "@g"}, 11: {"user": user, "topic": "@t"},
        }  # fmt: skip
        weights = {0: 5, 1: 4, 2: 4, 3: 2, 4: 2, 5: 3, 6: 0.3, 7: 0.2, 8: 0.2, 9: 0.2, 10: 0.2, 11: 0.2}
        return options[self._pick(weights)]

    def _alter(self) -> Ask:
        entries = []
        for _ in range(self._pick({1: 5, 2: 2, 3: 1})):
            entity = self._entity()
            named = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
            entries.append({"entity": named, "ops": self._ops(address="ip" in entity)})
        if self._chance(0.05):
            entries.append(dict(entries[0]))
        body: Json = {"entries": entries, "validate_only": self._chance(0.15)}
        return Ask(0, "AlterClientQuotas", self._version(0, 1), body)

    def _ops(self, *, address: bool) -> list[Json]:
        known = [PER_ADDRESS] if address else BY_CLIENT
        ops: list[Json] = []
        for _ in range(self._pick({1: 5, 2: 2, 3: 1, 0: 0.3})):
            key = self._random.choice([*BY_CLIENT, PER_ADDRESS, "no_such_quota"] if self._chance(0.1) else known)
            value = self._random.choice(VALUES) if self._chance(0.4) else self._random.choice(VALUES[:3])
            ops.append({"key": key, "value": value, "remove": self._chance(0.25)})
        return ops if self._chance(0.1) else list({op["key"]: op for op in ops}.values())

    def _describe(self) -> Ask:
        components = self._pick_components()
        if self._chance(0.06):
            odd = [("", EXACT, "@u"), ("group", SPECIFIED, None), ("user", EXACT, None), ("user", DEFAULT, "@u")]
            odd += [("client-id", SPECIFIED, "@c"), ("user", 3, None), ("ip", EXACT, self._addresses[0]), ("user", EXACT, "@u")]
            components.append(self._random.choice(odd))
        shown = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        body: Json = {"components": shown, "strict": self._chance(0.5)}
        return Ask(0, "DescribeClientQuotas", self._version(0, 1), body)

    def _pick_components(self) -> list[tuple[str, int, str | None]]:
        """Returns a filter that names an entity of this dialogue, because a wider filter would also find quotas of other
        dialogues.
        """
        user, client = self._pick({"@u": 3, "@v": 2}), self._pick({"@c": 3, "@d": 1})
        named = ("client-id", EXACT, client)
        options: dict[int, list[tuple[str, int, str | None]]] = {
            0: [("user", EXACT, user)], 1: [named], 2: [("user", EXACT, user), named], 3: [named, ("user", DEFAULT, None)],
            4: [("user", EXACT, user), ("client-id", DEFAULT, None)],
            5: [("user", EXACT, user), ("client-id", SPECIFIED, None)],
            6: [("user", SPECIFIED, None), named], 7: [("ip", EXACT, self._random.choice(self._addresses))],
        }  # fmt: skip
        return options[self._pick({0: 4, 1: 3, 2: 3, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2})]
