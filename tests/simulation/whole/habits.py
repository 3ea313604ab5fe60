"""The requests that clients send by themselves as a consequence of earlier requests and responses.

A library finds its coordinator, joins a group with the member id from the response, sends SyncGroup, joins again when other
members join or leave, continues its fetch session, and ends its transactions. A rival repeats requests of another client.
Clients also delete some of the records that they have written. Without habits and rivals, few groups in a schedule would become
stable, and few sessions and transactions would have more than one request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from random_dialogues.replay import Ask
from random_dialogues.symbols import Json

NOT_COORDINATOR, MEMBER_ID_REQUIRED, REBALANCE = "16 NOT_COORDINATOR", "79 MEMBER_ID_REQUIRED", "27 REBALANCE_IN_PROGRESS"
GONE = ("25 UNKNOWN_MEMBER_ID", "82 FENCED_INSTANCE_ID", "16 NOT_COORDINATOR", "23 INCONSISTENT_GROUP_PROTOCOL")
SHARING: Json = {"member_epoch": 0, "subscribed_topic_names": ["@t", "@u"]}
OFFSET: Json = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": "m"}
MOST_KEPT = 2
"""The offsets of a share group are deleted again if they are set for more topics."""
MAKING_STATES = ("InitializeShareGroupState", "WriteShareGroupState")
BATCH: Json = {"first_offset": 0, "last_offset": 1, "delivery_state": 0, "delivery_count": 0}
MOST_BATCHES = 4
"""A leader continues to write the state of a share partition until a request has this many batches."""
UNAVAILABLE = ("15 COORDINATOR_NOT_AVAILABLE", "16 NOT_COORDINATOR", "56 KAFKA_STORAGE_ERROR")
SINCE_SESSIONS = 7
"""The first version of Fetch with sessions."""
EPOCHS = ("member_epoch", "session_epoch", "share_session_epoch")
"""The epoch fields in which −1 ends a session or a membership."""
MOST_DUE, LATEST = 6, 8
"""At most MOST_DUE requests wait to be sent. A rival repeats only one of the last LATEST requests."""
IN_ORDER = 4
"""The number of batches of one producer after which the first batch is sent again. Brokers remember five batches."""
BY_HABIT, BY_RIVALS = 0.5, 0.1
"""Two probabilities: that a client sends a due request, and that a rival repeats another client's request."""
BY_PURGES, MOST_WRITTEN = 0.1, 4
"""The probability that a client deletes records that it has written. Each client remembers its last MOST_WRITTEN batches."""
Due = tuple[str, Ask]
"""A subject and its request."""


class Written(NamedTuple):
    """A batch that a subject has written."""

    subject: str
    topic: str
    index: int
    base: int
    count: int


class Habits:
    """The requests that follow from earlier requests. `next` returns them, one after the other."""

    def __init__(self) -> None:
        self._due: deque[Due] = deque(maxlen=MOST_DUE)
        self._at_once: deque[Due] = deque()
        """The requests that come next, in any case."""
        self._later: dict[tuple[str, Any], Due] = {}
        """For each open transaction, the request that ends it, by transactional id and producer id."""
        self._written: deque[Written] = deque(maxlen=MOST_WRITTEN)
        """The last batches that are written, and not deleted again."""
        self._latest: deque[Due] = deque(maxlen=LATEST)
        self._joined: dict[str, dict[str, Due]] = {}
        """For each group: the last JoinGroup of each member."""
        self._burst: list[Due] = []
        """The batches of one producer, in order."""
        self._sharing: set[tuple[str, str]] = set()
        """The groups and members of share groups that have fetched."""

    def next(self, chance: Random) -> Due | None:
        """Returns a request that a client sends now, or None."""
        if self._at_once:
            return self._at_once.popleft()
        if self._due and chance.random() < BY_HABIT:
            return self._due.popleft()
        if self._later and chance.random() < BY_RIVALS:
            subject, end = self._later.pop(next(iter(self._later)))
            return subject, replace(end, body=end.body | {"committed": chance.random() < 0.6})
        if self._written and chance.random() < BY_PURGES:
            return self._purge(self._written.popleft(), chance)
        return _rival(*chance.choice(self._latest), chance) if self._latest and chance.random() < BY_RIVALS else None

    @staticmethod
    def _purge(written: Written, chance: Random) -> Due:
        """Returns a request that deletes all records of a partition, or the records before a record of a batch."""
        offset = chance.choice([-1, written.base + chance.randrange(max(written.count, 1))])
        topic = {"name": written.topic, "partitions": [{"partition_index": written.index, "offset": offset}]}
        return written.subject, Ask(0, "DeleteRecords", 2, {"topics": [topic], "timeout_ms": 1000})

    def delete_meanwhile(self, subject: str, topic: str, ask: Ask | None) -> None:
        """Let a rival delete a topic in the next step. If there is a request `ask`, let the rival make the topic again, and
        then send this request."""
        deletion = Ask(0, "DeleteTopics", 5, {"topic_names": [topic], "timeout_ms": 1000})
        following = [] if ask is None else [*_following(deletion, {}), ask]
        self._at_once.extend((subject, each) for each in (deletion, *following))

    def sent(self, subject: str, ask: Ask) -> None:
        """Remember that a request is sent. After a new member's JoinGroup, all other members of the group join again. A new
        member of a share group sends a heartbeat."""
        if ask.api != "Produce" or all("seq" in batch for batch in _batches(ask)):
            self._latest.append((subject, ask))
        if ask.api == "JoinGroup" and ask.body["member_id"] not in self._members(ask.body["group_id"]):
            self._join_again(ask.body["group_id"])
        if ask.api == "ShareFetch" and (key := (ask.body["group_id"], ask.body["member_id"])) not in self._sharing:
            self._sharing.add(key)
            names = dict(zip(("group_id", "member_id"), key, strict=True))
            self._due.append((subject, Ask(0, "ShareGroupHeartbeat", 1, names | SHARING)))

    def heard(self, subject: str, ask: Ask, told: Json) -> None:
        """Note the response to a request."""
        text = str(told)
        if NOT_COORDINATOR in text:
            self._due.extend((subject, each) for each in _finding(ask.body))
        if ask.api == "JoinGroup":
            self._heard_join(subject, ask, told)
        elif ask.api in ("Heartbeat", "SyncGroup") and told.get("error_code") == REBALANCE:
            member = self._members(ask.body["group_id"]).get(ask.body["member_id"])
            self._due.extend([member] if member is not None else [])
        elif "error_code" in text:
            self._due.extend((subject, each) for each in _after_failure(ask, text))
        elif ask.api == "SyncGroup":
            self._join_beside(ask.body["group_id"])
        elif ask.api == "LeaveGroup":
            for gone in ask.body.get("members", [ask.body]):
                self._members(ask.body["group_id"]).pop(gone.get("member_id", ""), None)
            self._join_again(ask.body["group_id"])
        else:
            self._due.extend((subject, each) for each in _following(ask, told))
            self._continue(subject, ask)
            self._later.update((key, (subject, end)) for key, end in _ends(ask))
            self._again(ask)
            self._written.extend(_written(subject, ask, told) if ask.api == "Produce" else ())

    def _again(self, ask: Ask) -> None:
        """If topics are made, repeats the last request about each of them. The topics may have existed before."""
        for made in ask.body["topics"] if ask.api == "CreateTopics" else ():
            about = [each for each in self._latest if not each[1].api.endswith("Topics") and repr(made["name"]) in str(each[1])]
            self._due.extend(about[-1:])

    def _continue(self, subject: str, ask: Ask) -> None:
        """Lets one producer send several batches, one after the other, and then the first of them again."""
        batches = [*_batches(ask)] if ask.api == "Produce" and not ask.body["transactional_id"] else []
        if len(batches) != 1 or batches[0].get("seq", -1) < 0 or len(self._burst) > IN_ORDER:
            return
        batch, last = batches[0], next(_batches(self._burst[-1][1])) if self._burst else None
        if last is not None and (batch.get("pid"), batch["seq"]) != (last.get("pid"), last["seq"] + last.get("n", 1)):
            return
        self._burst.append((subject, ask))
        if len(self._burst) > IN_ORDER:
            self._due.append(self._burst[0])
            return
        topic = ask.body["topic_data"][0]
        part = topic["partition_data"][0]
        following = {**batch, "seq": (batch["seq"] + batch.get("n", 1)) % 2**31, "tag": f"b{len(self._burst)}."}
        data = [topic | {"partition_data": [part | {"records": [following]}]}]
        self._due.append((subject, replace(ask, body=ask.body | {"topic_data": data})))

    def _heard_join(self, subject: str, ask: Ask, told: Json) -> None:
        group, member, error = ask.body["group_id"], told.get("member_id", ""), told.get("error_code")
        again = replace(ask, body=ask.body | {"member_id": member})
        if error == MEMBER_ID_REQUIRED:
            self._due.append((subject, again))
        elif error in GONE:
            self._members(group).pop(ask.body["member_id"], None)
        elif error is None:
            self._members(group)[member] = subject, again
            given = [{"member_id": each["member_id"], "assignment": "A"} for each in told.get("members", ())]
            body: Json = {"group_id": group, "generation_id": told["generation_id"], "member_id": member, "assignments": given}
            if (instance := ask.body.get("group_instance_id")) is not None:
                body["group_instance_id"] = instance
            self._due.append((subject, Ask(0, "SyncGroup", 3, body)))

    def _members(self, group: str) -> dict[str, Due]:
        return self._joined.setdefault(group, {})

    def _join_beside(self, group: str) -> None:
        """If a group has one member, let a second member join."""
        if len(members := self._members(group)) == 1:
            subject, ask = next(iter(members.values()))
            body = ask.body | {"member_id": ""}
            if (instance := body.get("group_instance_id")) is not None:
                body["group_instance_id"] = "i1" if instance == "i2" else "i2"
            self._due.append((subject, replace(ask, body=body)))

    def _join_again(self, group: str) -> None:
        self._due.extend(self._members(group).values())


def _finding(body: Json) -> Iterator[Ask]:
    """Yields the FindCoordinator requests for the group and the transactional id of a request."""
    for kind, field in enumerate(("group_id", "transactional_id")):
        key: Any = body.get(field)
        if key:
            yield Ask(0, "FindCoordinator", 4, {"key_type": kind, "coordinator_keys": [key]})


def _following(ask: Ask, told: Json) -> Iterator[Ask]:
    """Yields the requests that follow an accepted request."""
    if ask.api == "Fetch" and ask.version >= SINCE_SESSIONS and told.get("session_id"):
        session = {"session_id": told["session_id"], "session_epoch": ask.body.get("session_epoch", -1) + 1}
        yield replace(ask, body=ask.body | session)
    elif ask.api == "ShareFetch" and (acquired := list(_acquired(told))):
        named = {name: ask.body[name] for name in ("group_id", "member_id")}
        session = {"share_session_epoch": ask.body["share_session_epoch"] + 1, "topics": acquired}
        yield Ask(0, "ShareAcknowledge", 1, named | session)
    elif ask.api == "DeleteTopics":
        names = [each["name"] for each in ask.body.get("topics", ()) if each.get("name")] or ask.body.get("topic_names", ())
        made = [
            {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []} for name in names
        ]
        yield Ask(0, "CreateTopics", 5, {"topics": made, "timeout_ms": 10_000, "validate_only": False})
    elif ask.api == "AddOffsetsToTxn":
        named = {name: ask.body[name] for name in ("transactional_id", "producer_id", "producer_epoch", "group_id")}
        yield Ask(0, "TxnOffsetCommit", 2, named | {"topics": [{"name": "@t", "partitions": [OFFSET]}]})
    elif ask.api == "AlterShareGroupOffsets" and len(ask.body["topics"]) > MOST_KEPT:
        topics = [{"topic_name": each["topic_name"]} for each in ask.body["topics"]]
        yield Ask(0, "DeleteShareGroupOffsets", 0, {"group_id": ask.body["group_id"], "topics": topics})
    elif ask.api in MAKING_STATES and len(_first_partition(ask).get("state_batches", ())) < MOST_BATCHES:
        yield _writing(ask)


def _first_partition(ask: Ask) -> Json:
    part: Json = ask.body["topics"][0]["partitions"][0]
    return part


def _writing(ask: Ask) -> Ask:
    """Returns the WriteShareGroupState with which the leader of a share partition continues."""
    part = _first_partition(ask)
    batches = [{**batch, "delivery_count": batch["delivery_count"] + 1} for batch in part.get("state_batches") or (BATCH,)]
    epochs = {"state_epoch": part["state_epoch"], "leader_epoch": part.get("leader_epoch", 0)}
    written = {"partition": part["partition"], **epochs, "start_offset": -1, "state_batches": batches}
    topic = {"topic_id": ask.body["topics"][0]["topic_id"], "partitions": [written]}
    return Ask(0, "WriteShareGroupState", 0, {"group_id": ask.body["group_id"], "topics": [topic]})


def _after_failure(ask: Ask, text: str) -> Iterator[Ask]:
    """Yields the request that follows if a share group, or a part of it, could not be deleted: its deletion."""
    if ask.api in ("DeleteShareGroupOffsets", "DeleteGroups") and any(each in text for each in UNAVAILABLE):
        names = ask.body.get("groups_names") or [ask.body["group_id"]]
        yield Ask(0, "DeleteGroups", 2, {"groups_names": names})


def _acquired(told: Json) -> Iterator[Json]:
    """Yields the topics for a request that acknowledges the last acquired record of each partition in a ShareFetch response."""
    for topic in told.get("responses", ()):
        parts = [
            {"partition_index": part.get("partition_index", 0), "acknowledgement_batches": [_last_of(part["acquired_records"])]}
            for part in topic["partitions"]
            if part.get("acquired_records")
        ]
        if parts:
            yield {"topic_id": topic["topic_id"], "partitions": parts}


def _last_of(acquired: list[Json]) -> Json:
    last = acquired[-1].get("last_offset", 0)
    return {"first_offset": last, "last_offset": last, "acknowledge_types": [1 + last % 3]}


def _ends(ask: Ask) -> Iterator[tuple[tuple[str, Any], Ask]]:
    """Yields the end of the transaction to which an accepted request belongs."""
    body, modern = ask.body, 5
    if ask.api == "Produce" and body["transactional_id"]:
        batch = next(_batches(ask))
        body, modern = {"producer_id": batch.get("pid"), "producer_epoch": batch.get("epoch"), **body}, 12
    elif ask.api != "TxnOffsetCommit":
        return
    named = {name: body[name] for name in ("transactional_id", "producer_id", "producer_epoch")}
    key = (named["transactional_id"], named["producer_id"])
    yield key, Ask(0, "EndTxn", 5 if ask.version >= modern else 3, named)


def _written(subject: str, ask: Ask, told: Json) -> Iterator[Written]:
    """Yields the last batch of each partition of an accepted Produce."""
    bases = {
        (_named(topic), part.get("index", 0)): part.get("base_offset", 0)
        for topic in told.get("responses", ())
        for part in topic.get("partition_responses", ())
    }
    for topic in ask.body["topic_data"]:
        for part in topic["partition_data"]:
            where = _named(topic), part["index"]
            if where in bases and part["records"]:
                yield Written(subject, *where, bases[where], part["records"][-1].get("n", 1))


def _named(topic: Json) -> str:
    return str(topic.get("name") or topic.get("topic_id") or "")


def _batches(ask: Ask) -> Iterator[Json]:
    """Yields the batches of a Produce."""
    return (batch for topic in ask.body["topic_data"] for part in topic["partition_data"] for batch in part["records"] or ({},))


def _rival(subject: str, ask: Ask, chance: Random) -> Due:
    """Returns the request that another client sends after this request. It repeats the request, commits the same offsets
    without a transaction, ends the session or the membership, begins another session, deletes the written records, the offsets
    or the topic, or commits with an old generation."""
    leaving = next((name for name in EPOCHS if name in ask.body), None)
    if ask.api == "Produce" and chance.random() < (0.6 if ask.body["transactional_id"] else 0.2):
        topics = [
            {"name": each.get("name") or each["topic_id"], "partitions": [
                {"partition_index": part["index"], "offset": chance.choice([-1, -1, 1, chance.randrange(2, 20)])}
                for part in each["partition_data"]
            ]}
            for each in ask.body["topic_data"]
        ]  # fmt: skip
        return subject, Ask(0, "DeleteRecords", 2, {"topics": topics, "timeout_ms": 1000})
    if ask.api in ("OffsetCommit", "TxnOffsetCommit") and chance.random() < 0.2:
        names = [each["name"] for each in ask.body["topics"] if "name" in each][:1]
        return subject, Ask(0, "DeleteTopics", 5, {"topic_names": names, "timeout_ms": 1000})
    if ask.api == "TxnOffsetCommit" and chance.random() < 0.7:
        topics = [
            topic | {"partitions": [part | {"committed_offset": chance.randrange(50)} for part in topic["partitions"]]}
            for topic in ask.body["topics"]
        ]
        return subject, Ask(0, "OffsetCommit", 8, {"group_id": ask.body["group_id"], "topics": topics})
    if ask.api == "OffsetCommit" and chance.random() < 0.4:
        topics = [
            {"name": each["name"], "partitions": [{"partition_index": part["partition_index"]} for part in each["partitions"]]}
            for each in ask.body["topics"]
            if "name" in each
        ]
        return subject, Ask(0, "OffsetDelete", 0, {"group_id": ask.body["group_id"], "topics": topics})
    if ask.api in ("SyncGroup", "Heartbeat") and chance.random() < 0.5:  # the member has missed a rebalance
        member = {name: ask.body[name] for name in ("group_id", "member_id")}
        late = {"generation_id_or_member_epoch": max(ask.body["generation_id"] - 1, 0)}
        return subject, Ask(0, "OffsetCommit", 7, member | late | {"topics": [{"name": "@t", "partitions": [OFFSET]}]})
    if ask.api == "JoinGroup" and ask.body["member_id"] and chance.random() < 0.3:
        return subject, Ask(0, "LeaveGroup", 2, {name: ask.body[name] for name in ("group_id", "member_id")})
    if leaving is not None and chance.random() < 0.3:
        epoch = chance.choice([-1, -1, 0]) if leaving == "session_epoch" else -1
        return subject, replace(ask, body=ask.body | {leaving: epoch})
    return subject, ask
