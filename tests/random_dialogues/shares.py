"""Random dialogues of share groups: sessions, acquired records and their acknowledgements, membership, and administration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

MEMBERS = ["m1", "m2", "m3"]
PLACES = [("t", 0), ("t", 1), ("u", 0), ("u", 1)]
WAIT_MS, LOAD_MS = 10, 2000
"""The max_wait_ms of a normal ShareFetch, and of a ShareFetch that makes the broker read share state."""
SHARE_TYPE, GROUP_RESOURCE = 2, 32
Place = tuple[str, int]


@dataclass(eq=False)
class Member:
    """A member's own state of its share session."""

    group: str
    name: str
    epoch: int = 0
    acquired: dict[Place, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


class Shares(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    pause = 0.03

    def __init__(self, seed: int) -> None:
        super().__init__(Head("shares", seed, ["t", "u"], ["a", "b", "c"]))
        self._members = [Member(group, name) for group in ("@a", "@b") for name in MEMBERS]
        self._epochs: dict[tuple[str, str], int] = {}
        self._ends: dict[Place, int] = defaultdict(int)
        self._starts: dict[Place, int] = defaultdict(int)
        self._count = 0
        self._first = [
            self._config("@a", "share.auto.offset.reset", "earliest"),  # one by one, because a release may lack some of them
            self._config("@a", "share.assignment.interval.ms", "0"),
            self._config("@b", "share.delivery.count.limit", "3"),
            self._config("@b", "share.partition.max.record.locks", "100"),
            self._alter("@a", [("t", 0, 0), ("t", 1, 0), ("u", 0, 0), ("u", 1, 0)]),
            self._alter("@b", [("t", 0, 0), ("t", 1, 0), ("u", 0, 0), ("u", 1, 0)]),
            *(self._load(group, place) for group in ("@a", "@b") for place in PLACES),
        ]

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        self._count += 1
        if self._first:
            return self._first.pop(0)
        weights: dict[Callable[[], Ask], float] = {
            self._produce: 6.0, self._fetch: 16.0, self._acknowledge: 8.0, self._heartbeat: 3.0, self._describe: 1.0,
            self._describe_offsets: 2.0, self._alter_some: 0.5, self._delete_offsets: 0.4, self._delete_group: 0.3,
            self._delete_records: 0.7, self._state: 2.5, self._other_api: 0.8, self._list: 0.5,
        }  # fmt: skip
        return replace(self._pick(weights)(), connection=free[0])

    @property
    def is_beginning(self) -> bool:
        """Tells whether the dialogue is still preparing the groups."""
        return bool(self._first)

    def produced(self, place: Place, count: int) -> None:
        """Remembers that `count` records were produced to a partition."""
        self._ends[place] += count

    def _load(self, group: str, place: Place) -> Ask:
        """Returns a ShareFetch that makes the broker read the group's share state in the background."""
        body: Json = {
            "group_id": group, "member_id": "loader", "share_session_epoch": 0, "max_wait_ms": LOAD_MS, "min_bytes": 0,
            "max_records": 1, "batch_size": 1, "topics": self._topics([place], {}), "forgotten_topics_data": [],
        }  # fmt: skip
        return Ask(0, "ShareFetch", 1, body)

    # Administration

    @staticmethod
    def _config(group: str, name: str, value: str) -> Ask:
        configs = [{"name": name, "config_operation": 0, "value": value}]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": configs}
        return Ask(0, "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False})

    @staticmethod
    def _alter(group: str, offsets: list[tuple[str, int, int]]) -> Ask:
        topics: dict[str, list[Json]] = {}
        for topic, index, offset in offsets:
            topics.setdefault(topic, []).append({"partition_index": index, "start_offset": offset})
        named = [{"topic_name": f"@{topic}", "partitions": partitions} for topic, partitions in topics.items()]
        return Ask(0, "AlterShareGroupOffsets", 0, {"group_id": group, "topics": named})

    def _group(self) -> str:
        return str(self._pick({"@a": 6, "@b": 4, "@c": 1.5, "": 0.3, "@nope": 0.3}))

    def _other_group(self) -> str:
        """Chooses a group whose share state is not being read by a fetch. Kafka reads the state in the background, so the
        result of a simultaneous change would depend on the order.
        """
        busy = {"@a": 2} if self._epochs.get(("@a", "m1"), 0) else {}
        return str(self._pick({"@c": 8, "": 0.3, "@nope": 0.5, **busy}))

    def _alter_some(self) -> Ask:
        places = self._random.sample([*PLACES, ("nope", 0), ("t", 7)], self._random.choice([1, 2]))
        return self._alter(self._other_group(), [(*place, self._offset(place)) for place in places])

    def _delete_offsets(self) -> Ask:
        topics = [{"topic_name": f"@{topic}"} for topic in self._random.sample(["t", "u", "nope"], self._random.choice([1, 2]))]
        return Ask(0, "DeleteShareGroupOffsets", 0, {"group_id": self._other_group(), "topics": topics})

    def _delete_group(self) -> Ask:
        return Ask(0, "DeleteGroups", 2, {"groups_names": [self._other_group()]})

    def _list(self) -> Ask:
        body: Json = {"states_filter": self._random.choice([[], ["Stable"], ["Empty"]])}
        return Ask(0, "ListGroups", 5, body | {"types_filter": self._random.choice([[], ["share"], ["Share"], ["classic"]])})

    def _describe(self) -> Ask:
        groups = [self._group()] + (["@b"] if self._chance(0.3) else [])
        return Ask(0, "ShareGroupDescribe", 1, {"group_ids": groups, "include_authorized_operations": self._chance(0.3)})

    def _describe_offsets(self) -> Ask:
        topics = None
        if self._chance(0.5):
            topics = [{"topic_name": "@t", "partitions": [0, 1]}, {"topic_name": "@nope", "partitions": [0]}]
            topics = topics[: self._random.choice([1, 2])]
        return Ask(
            0, "DescribeShareGroupOffsets", self._version(0, 1), {"groups": [{"group_id": self._group(), "topics": topics}]}
        )

    def _delete_records(self) -> Ask:
        place = self._random.choice(PLACES[:2])
        offset = self._random.randint(self._starts[place], self._ends[place])
        partitions = [{"partition_index": place[1], "offset": offset}]
        self._starts[place] = offset
        return Ask(
            0, "DeleteRecords", 2, {"topics": [{"name": f"@{place[0]}", "partitions": partitions}], "timeout_ms": 10_000}
        )

    def _other_api(self) -> Ask:
        """Returns a request for another type of group, but with the id of a share group."""
        group, member = self._group() or "@a", self._random.choice(MEMBERS)
        offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        commit = {"name": "@t", "partitions": [offset]}
        asks: list[tuple[str, int, Json]] = [
            ("DescribeGroups", 6, {"groups": [group], "include_authorized_operations": False}),
            ("ConsumerGroupDescribe", 1, {"group_ids": [group], "include_authorized_operations": False}),
            ("Heartbeat", 4, {"group_id": group, "generation_id": 1, "member_id": member}),
            ("LeaveGroup", 2, {"group_id": group, "member_id": member}),
            (
                "OffsetFetch",
                7,
                {"group_id": group, "topics": [{"name": "@t", "partition_indexes": [0]}], "require_stable": False},
            ),
        ]
        if group in ("@a", "@b"):
            body: Json = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": [commit]}
            asks.append(
                ("OffsetDelete", 0, {"group_id": group, "topics": [{"name": "@t", "partitions": [{"partition_index": 0}]}]})
            )
            asks.append(("OffsetCommit", self._version(8, 9), body))
        api, version, body = self._random.choice(asks)
        return Ask(0, api, version, body)

    # Records

    def _produce(self) -> Ask:
        topic, index = place = self._random.choices(PLACES, [8, 3, 2, 1])[0]
        count = self._pick({1: 3, 2: 3, 3: 2, 5: 2, 9: 1})
        self._ends[place] += count
        partition = {"index": index, "records": [{"n": count, "tag": f"v{self._count}."}]}
        data = [{"name": f"@{topic}", "partition_data": [partition]}]
        return Ask(0, "Produce", 9, {"transactional_id": None, "acks": -1, "timeout_ms": 10_000, "topic_data": data})

    def _offset(self, place: Place) -> int:
        return self._random.randint(self._starts[place], self._ends[place] + 1)

    # Sessions

    def _member(self) -> Member:
        return self._random.choices(self._members, [6, 4, 1, 5, 2, 1])[0]

    def _epoch(self, member: Member) -> int:
        return int(self._pick({0: 0.7, -1: 0.6, member.epoch + 1: 0.5, member.epoch - 1: 0.5} | {member.epoch: 24}))

    def _fetch(self) -> Ask:
        member = self._member()
        epoch = self._epoch(member)
        version = 2 if self._chance(0.75) else 1
        places = []
        if epoch == 0 or self._chance(0.5):
            weights = {("t", 0): 8, ("t", 1): 3, ("u", 0): 2, ("u", 1): 1, ("nope", 0): 0.4, ("t", 7): 0.3}
            places = list(dict.fromkeys(self._pick(weights) for _ in range(self._pick({1: 4, 2: 2}))))
        acknowledged = self._acknowledgements(member) if epoch and self._chance(0.45) else {}
        if epoch == 0 and self._chance(0.05):
            acknowledged = self._acknowledgements(member)
        forgotten = [("t", 1)] if epoch > 0 and self._chance(0.06) else []
        body: Json = {
            "group_id": member.group, "member_id": member.name, "share_session_epoch": epoch,
            "max_wait_ms": WAIT_MS, "min_bytes": self._pick({1: 12, 0: 1, 300: 1}),
            "max_bytes": self._pick({1 << 20: 12, 150: 2, 0: 0.3}),
            "max_records": self._pick({1: 2, 2: 2, 3: 3, 5: 3, 500: 6, 0: 0.3}),
            "batch_size": self._pick({1: 2, 2: 2, 4: 2, 500: 6}), "topics": self._topics(places, acknowledged),
            "forgotten_topics_data": [{"topic_id": f"@{topic}", "partitions": [index]} for topic, index in forgotten],
        }  # fmt: skip
        if version >= 2:
            body |= {"share_acquire_mode": self._pick({0: 6, 1: 6, 2: 0.2}), "is_renew_ack": False}
            if acknowledged and self._chance(0.06):
                body |= {"is_renew_ack": True, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
            elif self._chance(0.02):
                body["is_renew_ack"] = True
        return Ask(0, "ShareFetch", version, body)

    @staticmethod
    def _topics(places: list[Place], acknowledged: dict[Place, list[Json]]) -> list[Json]:
        topics: dict[str, list[Json]] = {}
        for topic, index in dict.fromkeys([*places, *acknowledged]):
            batches = acknowledged.get((topic, index), [])
            topics.setdefault(topic, []).append({"partition_index": index, "acknowledgement_batches": batches})
        return [{"topic_id": f"@{topic}", "partitions": partitions} for topic, partitions in topics.items()]

    def _acknowledgements(self, member: Member, *, renew: bool = False) -> dict[Place, list[Json]]:
        known = [place for place, ranges in member.acquired.items() if ranges]
        places = self._random.sample(known, min(len(known), self._pick({1: 5, 2: 1}))) if known else []
        if not places or self._chance(0.05):
            places = [self._random.choice([*PLACES[:2], ("nope", 0), ("t", 7)])]
        return {place: self._batches(member, place, renew) for place in places}

    def _batches(self, member: Member, place: Place, renew: bool) -> list[Json]:
        ranges = member.acquired[place]
        if not ranges or self._chance(0.06):
            first = self._offset(place)
            return [self._batch(first, first + self._random.choice([0, 1, 3, -1]), renew)]
        batches = []
        for first, last in sorted(self._random.sample(ranges, self._random.randint(1, min(2, len(ranges))))):
            kind = self._pick({"all": 8, "some": 4, "more": 0.5})
            if kind == "some" and last > first:
                middle = self._random.randint(first, last)
                first, last = (first, middle) if self._chance(0.5) else (middle, last)
            elif kind == "more":
                first, last = max(first - self._random.choice([0, 1]), 0), last + self._random.choice([0, 1])
            batches.append(self._batch(first, last, renew))
        if self._chance(0.03):
            batches.append(batches[0])
        return [] if self._chance(0.02) else batches

    def _batch(self, first: int, last: int, renew: bool) -> Json:
        kinds = {1: 8, 2: 5, 3: 2, 0: 0.4, 4: 4 if renew else 0.1, 5: 0.05}
        if self._chance(0.3) and last > first:
            types = [self._pick(kinds) for _ in range(last - first + 1 + self._pick({0: 30, 1: 0.5}))]
        else:
            types = [self._pick(kinds)] if self._chance(0.99) else []
        return {"first_offset": first, "last_offset": last, "acknowledge_types": types}

    def _acknowledge(self) -> Ask:
        member = self._member()
        version = 2 if self._chance(0.75) else 1
        renew = version >= 2 and self._chance(0.15)
        body: Json = {
            "group_id": member.group, "member_id": member.name, "share_session_epoch": self._epoch(member),
            "topics": self._topics([], self._acknowledgements(member, renew=renew) if self._chance(0.95) else {}),
        }  # fmt: skip
        if version >= 2:
            body["is_renew_ack"] = renew
        return Ask(0, "ShareAcknowledge", version, body)

    # Members

    def _heartbeat(self) -> Ask:
        group = self._pick({"@a": 8, "@b": 2, "@c": 2, "": 0.2})
        member = self._pick({"m1": 5, "m2": 3, "m3": 2, "": 0.2, "m" * 37: 0.2})
        known = self._epochs.get((group, member), 0)
        epoch = self._pick({0: 2, -1: 1, known + 1: 0.5, max(known - 1, 0): 1, -2: 0.2} | {known: 12})
        topics = self._pick({None: 4, ("t",): 3, ("t", "u"): 3, ("u",): 1, ("nope",): 0.4, (): 0.2})
        if epoch == 0 and topics is None and self._chance(0.9):
            topics = ("t",)
        if member != "m1" and topics is not None:  # the assignment depends on the topics' ids
            topics = ("nope",)
            epoch = epoch if group == "@c" else max(epoch, 1)
        body = {
            "group_id": group, "member_id": member, "member_epoch": epoch, "rack_id": None,
            "subscribed_topic_names": None if topics is None else [f"@{topic}" for topic in topics],
        }  # fmt: skip
        return Ask(0, "ShareGroupHeartbeat", 1, body)

    # The share coordinator

    def _state(self) -> Ask:
        group = self._pick({"@c": 8, "@a": 1})
        place = self._pick({("u", 0): 4, ("u", 1): 4, ("t", 0): 1, ("nope", 0): 0.3, ("t", 7): 0.3})
        api = self._pick({"Read": 3, "ReadSummary": 2} if group == "@a" else {
            "Initialize": 2, "Read": 3, "Write": 6, "Delete": 0.7, "ReadSummary": 2,
        })  # fmt: skip
        partition: Json = {"partition": place[1]}
        version = 0
        if api == "Initialize":
            partition |= {
                "state_epoch": self._pick({0: 3, 1: 2, 2: 1, -1: 0.5}),
                "start_offset": self._pick({-1: 1, 0: 3, 4: 1}),
            }
        elif api == "Read":
            partition["leader_epoch"] = -1 if group == "@a" else self._pick({0: 4, 1: 1, -1: 2})
        elif api == "Write":
            version = self._version(0, 1)
            first = self._random.randrange(8)
            batches = [
                {
                    "first_offset": first + i * 3, "last_offset": first + i * 3 + self._random.randrange(6),
                    "delivery_state": self._random.choice([0, 2, 4]), "delivery_count": self._random.randint(1, 3),
                }
                for i in range(self._random.choice([0, 1, 1, 2]))
            ]  # fmt: skip
            partition |= {
                "state_epoch": self._pick({0: 4, 1: 2, 2: 1, -1: 1}), "leader_epoch": self._pick({0: 4, 1: 1, -1: 1}),
                "start_offset": self._pick({-1: 3, 0: 3, 3: 1, 6: 1}), "state_batches": batches,
            }  # fmt: skip
            if version >= 1:
                partition["delivery_complete_count"] = self._random.randrange(4)
        elif api == "ReadSummary":
            version = self._version(0, 1)
            partition["leader_epoch"] = 0
        name = "ReadShareGroupStateSummary" if api == "ReadSummary" else f"{api}ShareGroupState"
        body = {"group_id": group, "topics": [{"topic_id": f"@{place[0]}", "partitions": [partition]}]}
        return Ask(0, name, version, body)

    # The responses

    def _heard_ShareGroupHeartbeat(self, ask: Ask, response: Json) -> None:  # noqa: N802
        key = ask.body["group_id"], ask.body["member_id"]
        if "error_code" not in response:
            self._epochs[key] = 0 if ask.body["member_epoch"] == -1 else response["member_epoch"]

    def _heard_ShareAcknowledge(self, ask: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" not in response:
            self._settled(ask)

    def _heard_ShareFetch(self, ask: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" in response:
            return
        member = self._settled(ask)
        for topic in response.get("responses", ()):
            for partition in topic["partitions"]:
                place = (topic["topic_id"].removeprefix("@"), partition.get("partition_index", 0))
                for acquired in partition.get("acquired_records", ()):
                    member.acquired[place].append((acquired.get("first_offset", 0), acquired.get("last_offset", 0)))

    def _settled(self, ask: Ask) -> Member:
        """Remembers the next epoch and, in most cases, forgets the acknowledged records."""
        key = (ask.body["group_id"], ask.body["member_id"])
        member = next((each for each in self._members if (each.group, each.name) == key), Member(*key))
        epoch = ask.body["share_session_epoch"]
        member.epoch = 0 if epoch == -1 else epoch + 1
        if epoch in (0, -1):
            member.acquired.clear()
        for topic in ask.body["topics"]:
            for partition in topic["partitions"]:
                place = (topic["topic_id"].removeprefix("@"), partition["partition_index"])
                for batch in partition["acknowledgement_batches"]:
                    if self._chance(0.9):
                        member.acquired[place] = [
                            each
                            for each in member.acquired[place]
                            if not batch["first_offset"] <= each[0] <= batch["last_offset"]
                        ]
        return member
