"""Random dialogues of members of classic groups: members that join at the same time, offsets, and administration."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head, Responses
from random_dialogues.symbols import Json

OFFSETS_ASKED = [0, 1, 7]
"""The partitions that requests name. A topic has the partitions 0 and 1."""
MEMBER_ID_REQUIRED = "79 MEMBER_ID_REQUIRED"
UNKNOWN_MEMBER_ID = "25 UNKNOWN_MEMBER_ID"
LONG_METADATA = "x" * 5000
"""More than offset.metadata.max.bytes."""


class Groups(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    blocking = frozenset({"JoinGroup", "SyncGroup"})

    def __init__(self, seed: int) -> None:
        super().__init__(Head("groups", seed, ["t", "u"], ["a", "b", "c"]))
        self._members: dict[str, list[str]] = defaultdict(list)
        self._instances: dict[str, str | None] = {}
        self._generations: dict[str, int] = defaultdict(int)
        self._invited: list[tuple[str, str]] = []
        """For each group: the member id that a client got. The client must send this id when it joins again."""
        self._joining: dict[int, tuple[str, str | None]] = {}
        self._connection = 0
        self._group, self._member, self._generation = "", "", 0
        self._instance: str | None = None

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request, for one of these connections.

        All dialogues share the group with the empty name. So a dialogue sends this group only requests that do not change its
        state.
        """
        self._connection = self._random.choice(free)
        self._group = self._random.choices(["@a", "@b", "", "@c"], [8, 2, 0.3, 0.5])[0]
        self._choose_member()
        if not self._group:
            return self._random.choice([self._join, self._sync, self._heartbeat, self._leave])()
        weights = {
            self._join: 6.0, self._rejoin: 6.0, self._sync: 8.0, self._heartbeat: 4.0, self._leave: 2.0,
            self._commit: 3.0, self._fetch: 2.0, self._delete_offsets: 1.0, self._describe: 4.0, self._list: 1.0,
            self._delete: 1.0,
        }  # fmt: skip
        if not self._members[self._group]:
            weights |= {self._sync: 1.0, self._heartbeat: 0.5, self._leave: 0.5}
        ask = self._pick(weights)()
        self.sent(ask)
        return ask

    def sent(self, ask: Ask) -> None:
        """Remember that a request is sent."""
        if ask.api == "JoinGroup":
            self._joining[ask.connection] = ask.body["group_id"], ask.body.get("group_instance_id")

    def _choose_member(self) -> None:
        """Chooses the sender's member id, instance id and generation. Mostly, these belong to a member."""
        known = self._members[self._group] or [""]
        self._member = self._random.choices([self._random.choice(known), "bogus", ""], [12, 1, 1])[0]
        self._instance = self._random.choices([None, "i1", "i2", "ix"], [12, 2, 2, 0.5])[0]
        if self._member in self._instances and self._chance(0.9):
            self._instance = self._instances[self._member]
        generation = self._generations[self._group]
        self._generation = self._random.choices([generation, generation - 1, generation + 1, -1], [14, 1, 1, 1])[0]

    def _version(self, oldest: int, newest: int, mostly: int = 0) -> int:
        """Returns a random version. In at least two thirds of the cases, the version is `mostly` or higher."""
        return max(self._random.randint(oldest, newest), mostly if self._chance(0.65) else 0)

    def _request(self, api: str, version: int, body: Json) -> Ask:
        return Ask(self._connection, api, version, body)

    def _with_instance(self, version: int, since: int = 3) -> Json:
        return {"group_instance_id": self._instance} if version >= since and self._instance is not None else {}

    # Members

    def _join(self) -> Ask:
        return self._join_as("" if self._chance(0.93) else self._member)

    def _rejoin(self) -> Ask:
        if self._invited and self._chance(0.6):
            self._group, self._member = self._invited.pop()
            self._instance = self._instances[self._member]
            self._members[self._group].append(self._member)
        return self._join_as(self._member)

    def _join_as(self, member: str) -> Ask:
        version = self._version(0, 9, mostly=5)
        lists = [["range"], ["range", "rr"], ["rr", "range"], ["rr"], [], ["range", "sticky"]]
        names = self._random.choices(lists, [14, 3, 3, 0.5, 0.5, 1])[0]
        metadata = self._random.choice(["m1", "m1", "m1", "m2"])
        body: Json = {
            "group_id": self._group, "session_timeout_ms": self._random.choices([60_000, 100, 10**9], [30, 1, 1])[0],
            "rebalance_timeout_ms": 60_000, "member_id": member,
            "protocol_type": self._random.choices(["consumer", "connect", ""], [20, 1, 0.5])[0],
            "protocols": [{"name": name, "metadata": metadata} for name in names],
        }  # fmt: skip
        return self._request("JoinGroup", version, body | self._with_instance(version, 5))

    def _sync(self) -> Ask:
        version = self._version(0, 5, mostly=3)
        assignments: list[Json] = []
        if self._chance(0.85):
            assigned = [m for m in self._members[self._group] if self._chance(0.9)]
            assignments = [{"member_id": m, "assignment": f"A{m}"} for m in assigned]
        body: Json = self._as_member("generation_id") | {"assignments": assignments} | self._with_instance(version)
        if version >= 5:
            body["protocol_type"] = self._random.choices(["consumer", None, "connect"], [10, 10, 1])[0]
            body["protocol_name"] = self._random.choices(["range", None, "rr"], [10, 10, 1])[0]
        return self._request("SyncGroup", version, body)

    def _as_member(self, generation: str) -> Json:
        return {"group_id": self._group, generation: self._generation, "member_id": self._member}

    def _heartbeat(self) -> Ask:
        version = self._version(0, 4)
        return self._request("Heartbeat", version, self._as_member("generation_id") | self._with_instance(version))

    def _leave(self) -> Ask:
        version = self._version(0, 5)
        if version < 3:
            return self._request("LeaveGroup", version, {"group_id": self._group, "member_id": self._member})
        members: list[Json] = [{"member_id": self._member if self._chance(0.7) else "", "group_instance_id": self._instance}]
        if self._chance(0.3):
            members.append({"member_id": "bogus2", "group_instance_id": None})
        members = self._random.choices([members, members * 2, []], [17, 1, 2])[0]
        return self._request("LeaveGroup", version, {"group_id": self._group, "members": members})

    # Offsets

    def _topic(self, version: int, ids_since: int) -> Json:
        """Chooses a topic, in some cases a topic that does not exist. The request has the topic's id from version `ids_since`
        on, otherwise its name.
        """
        name = "@" + self._random.choices(["t", "u", "nope"], [9, 9, 2])[0]
        return {"topic_id": name} if version >= ids_since else {"name": name}

    def _commit(self) -> Ask:
        # A failed commit creates the group, but Kafka does not list the group at once.
        long = 1 if self._generations[self._group] else 0
        version = self._version(2, 10)
        partitions = [
            {
                "partition_index": index,
                "committed_offset": self._random.randrange(50) if self._chance(0.95) else -3,
                "committed_leader_epoch": self._random.choice([-1, 3]),
                "committed_metadata": self._random.choices(["xxx", None, LONG_METADATA], [16, 4, long])[0],
            }
            for index in self._random.choices([[0], [0, 1], [1, 7]], [5, 5, 2])[0]
        ]
        body: Json = {"group_id": self._group}
        if self._chance(0.7):
            body = self._as_member("generation_id_or_member_epoch") | self._with_instance(version, 7)
        topics = [self._topic(version, 10) | {"partitions": partitions}] if self._chance(0.95) else []
        return self._request("OffsetCommit", version, body | {"topics": topics})

    def _fetch(self) -> Ask:
        version = self._version(1, 10)
        stable = {"require_stable": self._chance(0.5)} if version >= 7 else {}
        everything = version >= 2 and self._chance(0.4)
        topics: Any = None if everything else [self._topic(version, 10) | {"partition_indexes": OFFSETS_ASKED}]
        if version < 8:
            return self._request("OffsetFetch", version, {"group_id": self._group, "topics": topics} | stable)
        groups: list[Json] = [{"group_id": self._group, "topics": topics}]
        if self._chance(0.4):
            groups.append({"group_id": "@b", "topics": topics})
        if version >= 9 and self._chance(0.2):
            groups[0] |= {"member_id": self._member, "member_epoch": self._generation}
        return self._request("OffsetFetch", version, {"groups": groups} | stable)

    def _delete_offsets(self) -> Ask:
        partitions = [{"partition_index": index} for index in (0, 7)]
        topics = [self._topic(0, 1) | {"partitions": partitions}]
        return self._request("OffsetDelete", 0, {"group_id": self._group, "topics": topics})

    # Administration

    def _describe(self) -> Ask:
        version = self._version(0, 6)
        body: Json = {"groups": [self._group] if self._chance(0.8) else [self._group, "@b"]}
        if version >= 3:
            body["include_authorized_operations"] = self._chance(0.3)
        return self._request("DescribeGroups", version, body)

    def _list(self) -> Ask:
        version = self._version(0, 5)
        body: Json = {}
        if version >= 4:
            body["states_filter"] = self._random.choice([[], ["Stable"], ["Empty", "PreparingRebalance"], ["bogus"]])
        if version >= 5:
            body["types_filter"] = self._random.choice([[], ["classic"], ["consumer"], ["Classic"], ["bogus"]])
        return self._request("ListGroups", version, body)

    def _delete(self) -> Ask:
        names = [self._group] if self._chance(0.7) else [self._group, "@c"]
        return self._request("DeleteGroups", self._version(0, 2), {"groups_names": names})

    # The responses

    def fence(self, ask: Ask) -> Ask | None:
        """Returns a LeaveGroup with an unknown member. The request changes nothing, and Kafka responds to it only after all
        earlier writes.
        """
        group = ask.body.get("group_id", "")
        return Ask(ask.connection, "LeaveGroup", 2, {"group_id": group, "member_id": "nobody"}) if group else None

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Remembers the members and the generations in the first broker's responses."""
        self._forget(ask, responses.get(ask.connection, {}))
        for connection, response in responses.items():
            if connection not in self._joining or "member_id" not in response:
                continue
            group, instance = self._joining.pop(connection)
            member = response["member_id"]
            if member.startswith("$"):
                self._instances.setdefault(member, instance)
                if member not in self._members[group] and ("error_code" not in response or self._chance(0.15)):
                    self._members[group].append(member)
            if "error_code" not in response:
                self._generations[group] = response["generation_id"]
            elif response["error_code"] == MEMBER_ID_REQUIRED:
                self._invited.append((group, member))

    def _forget(self, ask: Ask, response: Json) -> None:
        """In most cases, forgets a member that has left or that the broker does not know. The member then sends no more
        requests.
        """
        known = self._members[ask.body.get("group_id", "")]
        member = ask.body.get("member_id")
        gone = response.get("error_code") == UNKNOWN_MEMBER_ID or ask.api == "LeaveGroup"
        if gone and member in known and self._chance(0.8):
            known.remove(member)
