"""Random dialogues of members of consumer groups (KIP-848). Members may be static, and follow the protocol or break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

GROUPS, MEMBERS = ["@g", "@h"], ["c1", "c2", "c3"]
INSTANCES = {"c1": None, "c2": "i1", "c3": None}
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
FENCED = ("110 FENCED_MEMBER_EPOCH", "25 UNKNOWN_MEMBER_ID")


@dataclass(eq=False)
class Member:
    """A member's own state."""

    group: str
    name: str
    epoch: int = 0
    owned: list[Json] = field(default_factory=list)


class Consumers(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    pause = 0.06

    def __init__(self, seed: int) -> None:
        super().__init__(Head("consumers", seed, ["t", "u"], ["g", "h"]))
        self._members = [Member(group, name) for group in GROUPS for name in MEMBERS]

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        weights: dict[Callable[[], Ask], float] = {
            self._beat: 12.0, self._leave: 2.0, self._commit: 4.0, self._fetch: 2.0, self._describe: 2.0, self._delete: 0.5,
        }  # fmt: skip
        return replace(self._pick(weights)(), connection=free[0])

    def _member(self) -> Member:
        joined = [each for each in self._members if each.epoch > 0]
        return self._random.choice(joined if joined and self._chance(0.7) else self._members)

    def _beat(self) -> Ask:
        member = self._member()
        version = 1
        body: Json = {"group_id": member.group, "member_id": member.name, "member_epoch": member.epoch}
        if self._chance(0.05):
            body["member_epoch"] = max(member.epoch + self._random.choice([-1, 1]), 0)
        if instance := INSTANCES[member.name]:
            body["instance_id"] = instance
        if body["member_epoch"] == 0:
            body |= {"rebalance_timeout_ms": 60_000, "topic_partitions": []} | self._subscription()
        else:
            body["topic_partitions"] = member.owned if self._chance(0.8) else None
            body |= self._subscription() if self._chance(0.15) else {}
        return Ask(0, "ConsumerGroupHeartbeat", version, body)

    def _subscription(self) -> Json:
        if self._chance(0.2):
            return {"subscribed_topic_regex": self._random.choice(["t|u", ".*", "n.*", "("])}
        names = self._random.choice([["@t"], ["@u"], ["@t", "@u"], ["@t", "@n1"], []])
        return {"subscribed_topic_names": names, "server_assignor": self._pick({None: 5, "range": 2, "uniform": 1, "no": 0.2})}

    def _leave(self) -> Ask:
        member = self._member()
        instance = INSTANCES[member.name]
        epoch = LEAVES_FOR_A_WHILE if instance and self._chance(0.6) else LEAVES
        body: Json = {"group_id": member.group, "member_id": member.name, "member_epoch": epoch}
        return Ask(0, "ConsumerGroupHeartbeat", 1, body | ({"instance_id": instance} if instance else {}))

    def _commit(self) -> Ask:
        member, version = self._member(), self._version(8, 10)
        name = self._random.choice(["@t", "@u"])
        part = {"partition_index": self._pick({0: 3, 1: 3, 7: 0.2}), "committed_offset": self._random.randrange(50)}
        part |= {"committed_metadata": self._random.choice(["m", "", None])}
        body: Json = {"group_id": member.group, "member_id": member.name, "generation_id_or_member_epoch": member.epoch or -1}
        return Ask(0, "OffsetCommit", version, body | {"topics": [
            {"topic_id" if version >= 10 else "name": name, "partitions": [part]}
        ]})  # fmt: skip

    def _fetch(self) -> Ask:
        member, version = self._member(), self._version(8, 9)
        body: Json = {"group_id": member.group, "topics": None}
        if version >= 9 and member.epoch:
            body |= {"member_id": member.name, "member_epoch": member.epoch}
        return Ask(0, "OffsetFetch", version, {"groups": [body]})

    def _describe(self) -> Ask:
        return Ask(0, "ConsumerGroupDescribe", self._version(0, 1), {"group_ids": self._random.choice([["@g"], ["@g", "@h"]])})

    def _delete(self) -> Ask:
        return Ask(0, "DeleteGroups", 2, {"groups_names": [self._random.choice(GROUPS)]})

    # The responses

    def _heard_ConsumerGroupHeartbeat(self, ask: Ask, response: Json) -> None:  # noqa: N802
        member = next(m for m in self._members if (m.group, m.name) == (ask.body["group_id"], ask.body["member_id"]))
        if response.get("error_code") in FENCED:
            member.epoch, member.owned = 0, []
        elif "error_code" not in response:
            member.epoch = max(response.get("member_epoch", 0), 0)
            if member.epoch == 0:
                member.owned = []
            elif (given := response.get("assignment")) is not None:
                member.owned = [
                    {"topic_id": each["topic_id"], "partitions": each.get("partitions", [])}
                    for each in given.get("topic_partitions", [])
                ]
