"""Random dialogues of streams groups: members join, confirm their tasks, and leave. Requests also have topologies and internal
topics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

MEMBERS = ["m1", "m2", "m3"]
PROCESSES = {"m1": "p1", "m2": "p1", "m3": "p2"}
GROUPS = ["@a", "@b", "@c"]
GROUP_RESOURCE = 32
KINDS = ("active_tasks", "standby_tasks", "warmup_tasks")


@dataclass(eq=False)
class Member:
    """A member's own state."""

    group: str
    name: str
    epoch: int = 0
    endpoint: int = 0
    tasks: dict[str, list[Json]] = field(default_factory=lambda: {kind: [] for kind in KINDS})


def _topic(name: str, partitions: int = 0, **configs: str) -> Json:
    told = [{"key": key, "value": value} for key, value in configs.items()]
    return {"name": name, "partitions": partitions, "replication_factor": 0, "topic_configs": told}


def _subtopology(key: str, sources: list[str], **fields: list[Json] | list[str]) -> Json:
    empty: Json = {
        "state_changelog_topics": [], "repartition_sink_topics": [], "repartition_source_topics": [], "copartition_groups": [],
    }  # fmt: skip
    return {"subtopology_id": key, "source_topics": sources, "source_topic_regex": []} | empty | fields


def _together(sources: list[int], repartitioned: list[int]) -> list[Json]:
    return [{"source_topics": sources, "source_topic_regex": [], "repartition_source_topics": repartitioned}]


class Streams(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    pause = 0.15

    def __init__(self, seed: int) -> None:
        super().__init__(Head("streams", seed, ["t", "u"], ["a", "b", "c"]))
        self._members = [Member(group, name) for group in GROUPS for name in MEMBERS]
        self._topologies = dict(zip(GROUPS, self._random.sample(self._all_topologies(), 3), strict=True))
        standbys = str(self._pick({0: 2, 1: 3, 2: 1}))
        at_once = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}
        self._first = [
            self._configs("@a", at_once | {"streams.num.standby.replicas": standbys}),
            *(self._configs(group, at_once) for group in ("@b", "@c")),
        ]

    @property
    def is_beginning(self) -> bool:
        """Tells whether the dialogue is still preparing the groups."""
        return bool(self._first)

    def _all_topologies(self) -> list[Json]:
        changelog = _topic("@log", **{"cleanup.policy": "compact"})
        stateful = _subtopology("0", ["@t"], state_changelog_topics=[changelog])
        repartition = _subtopology("0", ["@t"], repartition_sink_topics=["@rep"])
        counts = _subtopology("1", [], repartition_source_topics=[_topic("@rep")], state_changelog_topics=[_topic("@log2")])
        both = _subtopology("0", ["@t", "@u"], state_changelog_topics=[changelog], copartition_groups=_together([0, 1], []))
        fixed = _subtopology("1", ["@u"], repartition_source_topics=[_topic("@rep", 3)], copartition_groups=_together([0], [0]))
        return [
            self._topology(stateful), self._topology(stateful), self._topology(repartition, counts),
            self._topology(repartition, counts), self._topology(_subtopology("0", ["@t"]), _subtopology("1", ["@u"])),
            self._topology(both), self._topology(repartition, fixed),
            self._topology(_subtopology("0", ["@t", "@nope", "@nope2"])), self._topology(_subtopology("0", [])),
            self._topology(_subtopology("0", ["@t"], repartition_sink_topics=["@other"]), counts),
            self._topology(stateful, _subtopology("x", ["@u"], state_changelog_topics=[_topic("@log3")])),
        ]  # fmt: skip

    @staticmethod
    def _topology(*subtopologies: Json) -> Json:
        return {"epoch": 0, "subtopologies": list(subtopologies)}

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        if self._first:
            return self._first.pop(0)
        weights: dict[Callable[[], Ask], float] = {
            self._heartbeat: 24.0, self._wrong: 3.0, self._leave: 1.2, self._describe: 3.0, self._commit: 2.0,
            self._fetch: 0.8, self._other_api: 1.5, self._delete_offsets: 0.6, self._delete_group: 0.6, self._list: 0.6,
            self._grow: 0.4, self._change: 0.3,
        }  # fmt: skip
        return replace(self._pick(weights)(), connection=free[0])

    # Administration

    @staticmethod
    def _configs(group: str, settings: dict[str, str]) -> Ask:
        configs = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": configs}
        return Ask(0, "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False})

    def _change(self) -> Ask:
        return self._configs(self._group(), {"streams.num.standby.replicas": str(self._random.randrange(3))})

    def _group(self) -> str:
        return str(self._pick({"@a": 6, "@b": 4, "@c": 1.5, "": 0.3, "@nope": 0.3}))

    def _describe(self) -> Ask:
        groups = [self._group()] + (["@b"] if self._chance(0.3) else [])
        return Ask(0, "StreamsGroupDescribe", 0, {"group_ids": groups, "include_authorized_operations": self._chance(0.3)})

    def _list(self) -> Ask:
        states = self._random.choice([[], ["Stable"], ["Empty"], ["NotReady"], ["Not_Ready"], ["Reconciling"]])
        types = self._random.choice([[], ["streams"], ["Streams"], ["classic"]])
        return Ask(0, "ListGroups", 5, {"states_filter": states, "types_filter": types})

    def _delete_group(self) -> Ask:
        return Ask(0, "DeleteGroups", 2, {"groups_names": [self._group()]})

    def _grow(self) -> Ask:
        topic = {"name": self._pick({"@t": 2, "@u": 2, "@rep": 1}), "count": self._random.choice([3, 4]), "assignments": None}
        return Ask(0, "CreatePartitions", 3, {"topics": [topic], "timeout_ms": 10_000, "validate_only": False})

    # Offsets

    def _commit(self) -> Ask:
        member = self._random.choice(self._members)
        epoch = self._pick({member.epoch: 6, member.epoch - 1: 2, member.epoch + 1: 1, -1: 1, 1: 1})
        offset = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        partitions = [{"partition_index": self._random.choice([0, 0, 1])} | offset]
        body: Json = {
            "group_id": member.group, "generation_id_or_member_epoch": epoch,
            "member_id": member.name if epoch >= 0 or self._chance(0.5) else "",
            "topics": [{"name": self._pick({"@t": 5, "@u": 2, "@rep": 1}), "partitions": partitions}],
        }  # fmt: skip
        return Ask(0, "OffsetCommit", self._pick({9: 6, 8: 1}), body)

    def _fetch(self) -> Ask:
        member = self._random.choice(self._members)
        group: Json = {"group_id": member.group, "topics": [{"name": "@t", "partition_indexes": [0, 1]}]}
        if self._chance(0.6):
            group |= {"member_id": member.name, "member_epoch": self._pick({member.epoch: 3, 1: 1, -1: 1})}
        return Ask(0, "OffsetFetch", 9, {"groups": [group], "require_stable": False})

    def _delete_offsets(self) -> Ask:
        topics = [{"name": self._pick({"@t": 2, "@u": 1}), "partitions": [{"partition_index": 0}]}]
        return Ask(0, "OffsetDelete", 0, {"group_id": self._group(), "topics": topics})

    def _other_api(self) -> Ask:
        """Returns a request for another type of group, but with the id of a streams group."""
        group, member = self._group() or "@a", self._random.choice(MEMBERS)
        describe = {"include_authorized_operations": False}
        asks: list[tuple[str, int, Json]] = [
            ("DescribeGroups", 6, {"groups": [group]} | describe),
            ("ConsumerGroupDescribe", 1, {"group_ids": [group]} | describe),
            ("ShareGroupDescribe", 1, {"group_ids": [group]} | describe),
            ("Heartbeat", 4, {"group_id": group, "generation_id": 1, "member_id": member}),
            ("LeaveGroup", 2, {"group_id": group, "member_id": member}),
            ("SyncGroup", 5, {"group_id": group, "generation_id": 1, "member_id": member, "assignments": []}),
        ]
        api, version, body = self._random.choice(asks)
        return Ask(0, api, version, body)

    # Members

    def _heartbeat(self) -> Ask:
        member = self._random.choices(self._members, [8, 6, 4, 5, 4, 2, 3, 2, 1])[0]
        body = self._base(member)
        if member.epoch == 0:
            return Ask(0, "StreamsGroupHeartbeat", 0, body | self._joining(member))
        if self._chance(0.85):
            body |= {kind: member.tasks[kind] for kind in KINDS}
        if self._chance(0.05):
            body["user_endpoint"] = {"host": "there", "port": self._random.choice([80, 81])}
        if self._chance(0.04):
            body["process_id"] = self._random.choice(["p1", "p2", "p3"])
        if self._chance(0.02):
            body["shutdown_application"] = True
        return Ask(0, "StreamsGroupHeartbeat", 0, body)

    @staticmethod
    def _base(member: Member) -> Json:
        return {
            "group_id": member.group, "member_id": member.name, "member_epoch": member.epoch,
            "endpoint_information_epoch": member.endpoint,
        }  # fmt: skip

    def _joining(self, member: Member) -> Json:
        endpoint = {"host": member.name, "port": 8080} if member.name != "m3" and self._ready(member.group) else None
        tags = [{"key": "zone", "value": member.name}] if self._chance(0.3) else []
        return {
            "rebalance_timeout_ms": 60_000, "topology": self._topologies[member.group], "active_tasks": [],
            "standby_tasks": [], "warmup_tasks": [], "process_id": PROCESSES[member.name], "user_endpoint": endpoint,
            "client_tags": tags,
        }  # fmt: skip

    def _ready(self, group: str) -> bool:
        """Tells whether the topology is certainly complete. Kafka fails if it must return the endpoints of a topology that is
        not configured.
        """
        everything = self._topologies[group]["subtopologies"]
        return all(each["source_topics"] in (["@t"], ["@u"]) for each in everything) and len(everything) == 1

    def _leave(self) -> Ask:
        member = self._random.choice(self._members)
        return Ask(0, "StreamsGroupHeartbeat", 0, self._base(member) | {"member_epoch": -1})

    def _wrong(self) -> Ask:
        """Returns a heartbeat that is refused with an error."""
        member = self._random.choice(self._members)
        body = self._base(member)
        if member.epoch == 0 or self._chance(0.2):
            body |= self._joining(member) | {"member_epoch": 0}
        extra = {"subtopology_id": self._pick({"0": 3, "9": 1}), "partitions": [self._random.choice([0, 1, 7, -1])]}
        other = self._topologies[member.group] | {"epoch": self._random.choice([0, 1, -1])}
        changes: list[Json] = [
            {"member_epoch": member.epoch + 1}, {"member_epoch": max(member.epoch - 1, 1)}, {"member_epoch": -2},
            {"member_epoch": -3}, {"member_id": ""}, {"group_id": ""}, {"group_id": "@nope", "member_epoch": 3},
            {"rack_id": " "}, {"instance_id": "i"}, {"task_offsets": []}, {"task_end_offsets": []},
            {"active_tasks": [extra], "standby_tasks": [], "warmup_tasks": []}, {"active_tasks": None},
            {"standby_tasks": [extra], "active_tasks": [], "warmup_tasks": []}, {"warmup_tasks": [extra]},
            {"topology": None}, {"topology": other}, {"rebalance_timeout_ms": -1}, {"member_id": "stranger"},
            {"topology": self._topology(_subtopology("0", ["__consumer_offsets"])), "member_epoch": 0},
            {"topology": self._topology(_subtopology("0", ["a b"])), "member_epoch": 0},
            {"topology": self._topology(_subtopology("0", ["@t"], state_changelog_topics=[_topic("@log", 2)]))},
            {"topology": self._topology(_subtopology("0", ["@u"]))},
            {"client_tags": [{"key": "k", "value": "1"}, {"key": "k", "value": "2"}]},
        ]  # fmt: skip
        return Ask(0, "StreamsGroupHeartbeat", 0, body | self._random.choice(changes))

    # The responses

    def _heard_StreamsGroupHeartbeat(self, ask: Ask, response: Json) -> None:  # noqa: N802
        key = ask.body["group_id"], ask.body["member_id"]
        member = next((each for each in self._members if (each.group, each.name) == key), Member(*key))
        if "error_code" in response:
            lost = ("25 ", "110 ", "69 ")
            if str(response["error_code"]).startswith(lost) and self._chance(0.7):
                member.epoch, member.tasks = 0, {kind: [] for kind in KINDS}
            return
        member.epoch = max(response.get("member_epoch", 0), 0)
        member.endpoint = response.get("endpoint_information_epoch", 0)
        if member.epoch == 0:
            member.tasks = {kind: [] for kind in KINDS}
        for kind in KINDS:
            if response.get(kind) is not None:
                member.tasks[kind] = response[kind]
