"""Random dialogues about the state of share groups: the requests between a partition's leader and the share coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json


class States(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    pause = 0.03

    def __init__(self, seed: int) -> None:
        super().__init__(Head("states", seed, ["t", "u"], ["a", "b"]))
        self._epoch = 1

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        weights: dict[Callable[[], Ask], float] = {
            self._initialize: 3.0, self._write: 5.0, self._read: 3.0, self._summary: 2.0, self._delete: 1.5,
            self._topology: 1.0,
        }  # fmt: skip
        return replace(self._pick(weights)(), connection=free[0])

    def _about(self, **partition: Json | int | list[Json]) -> Json:
        index = self._pick({0: 4, 1: 3, 7: 0.2})
        topic = self._pick({"@t": 4, "@u": 3, "@nobody": 0.3})
        group = self._pick({"@s": 4, "@b": 1})
        return {"group_id": group, "topics": [{"topic_id": topic, "partitions": [{"partition": index, **partition}]}]}

    def _initialize(self) -> Ask:
        self._epoch += self._chance(0.5)
        offset = self._random.choice([-1, 0, 0, 3])
        return Ask(0, "InitializeShareGroupState", 0, self._about(state_epoch=self._epoch, start_offset=offset))

    def _write(self) -> Ask:
        first = self._random.randrange(5)
        batch: Json = {
            "first_offset": first, "last_offset": first + self._random.randrange(3),
            "delivery_state": self._random.choice([0, 2, 4]), "delivery_count": 1,
        }  # fmt: skip
        epochs = {"state_epoch": self._epoch - self._chance(0.05), "leader_epoch": self._random.choice([0, 0, 0, 1])}
        asked = self._about(**epochs, start_offset=self._random.choice([-1, 0, 2]), state_batches=[batch] * self._chance(0.8))
        return Ask(0, "WriteShareGroupState", 0, asked)

    def _read(self) -> Ask:
        return Ask(0, "ReadShareGroupState", 0, self._about(leader_epoch=self._random.choice([0, 0, 1])))

    def _summary(self) -> Ask:
        return Ask(0, "ReadShareGroupStateSummary", 0, self._about(leader_epoch=self._random.choice([0, -1])))

    def _delete(self) -> Ask:
        return Ask(0, "DeleteShareGroupState", 0, self._about())

    def _topology(self) -> Ask:
        described: Json = {"subtopologies": [], "global_stores": []}
        body = {
            "group_id": self._pick({"@a": 4, "@b": 1}), "member_id": "m1", "topology_epoch": 0,
            "topology_description": described,
        }  # fmt: skip
        return Ask(0, "StreamsGroupTopologyDescriptionUpdate", 0, body)
