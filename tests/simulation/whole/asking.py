"""Steps that send requests. The generators of the random dialogues (`random_dialogues`) make the requests, and learn from the
responses. All generators use the same names, so that their requests are about the same things."""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from kafkawire.declare import Message
from kafkawire.registry import KEYS, request_class
from random_dialogues.brokers import Brokers
from random_dialogues.consumers import Consumers
from random_dialogues.logins import USER, Logins
from random_dialogues.playing import Subject
from random_dialogues.replay import Ask
from random_dialogues.security import Security
from random_dialogues.states import States
from random_dialogues.subjects import SUBJECTS
from random_dialogues.symbols import Json, Symbols, from_json, to_json
from simulation.whole.habits import Habits
from simulation.whole.kinds import ASKED
from simulation.whole.schedule import Setting

LONGEST_WAITS = (0, 0, 500, 20_000)
"""The max_wait_ms of Fetch requests. The Fetch requests of dialogues do not wait."""
MOST = 2**31 - 1
VARIED: dict[tuple[str, str], tuple[Any, ...]] = {
    ("JoinGroup", "rebalance_timeout_ms"): (0, 0, 10, 5000, 300_000, MOST),
    ("JoinGroup", "session_timeout_ms"): (6000, 10_000, 45_000, 1_800_000),
    ("ConsumerGroupHeartbeat", "rebalance_timeout_ms"): (0, 1, MOST),
    ("ConsumerGroupHeartbeat", "instance_id"): ("i1", "i2"),
    ("StreamsGroupHeartbeat", "rebalance_timeout_ms"): (0, 1, MOST),
    ("Fetch", "max_wait_ms"): LONGEST_WAITS, ("Fetch", "isolation_level"): (0, 1), ("Fetch", "min_bytes"): (0, 1, MOST),
    ("ShareFetch", "max_wait_ms"): (0, 500, 30_000), ("ShareFetch", "min_bytes"): (0, 1, MOST),
    ("ShareFetch", "max_records"): (1, MOST), ("ShareFetch", "batch_size"): (1, MOST),
    ("InitProducerId", "transaction_timeout_ms"): (1, 1000, 10_000, 900_000), ("Produce", "acks"): (-1, -1, 1),
    ("Produce", "timeout_ms"): (0, 1, MOST), ("DeleteRecords", "timeout_ms"): (0, 1, MOST),
    ("CreateTopics", "timeout_ms"): (0, -1), ("DeleteTopics", "timeout_ms"): (0, -1),
    ("CreatePartitions", "timeout_ms"): (0, -1),
}  # fmt: skip
"""Values of single fields of requests."""
LONG_WAIT: Json = {"max_wait_ms": 20_000, "min_bytes": MOST}
BY_WAITING = 0.2
"""The probability that a Fetch or ShareFetch waits as in LONG_WAIT. With fields that are only drawn from `VARIED`, few requests
would wait."""
OF_LOGINS = 0.4
"""The probability that a changed SCRAM credential belongs to the user that logs in."""
SEVERAL_BATCHES = 0.5
"""The probability that a WriteShareGroupState has several batches."""
LONG = ("OffsetCommit", "TxnOffsetCommit", "AlterShareGroupOffsets", "DeleteShareGroupOffsets")
"""Requests that work on one topic after the other."""
LISTED = ("c", "z", "n", "@t", "@u")
LENGTHENED = 0.5
"""The probability that such a request has further topics."""
DELETED_MEANWHILE, MADE_AGAIN = 0.4, 0.5
"""Two probabilities: that another client deletes a topic while a long request about this topic is in progress, and that the
client then makes the topic and the request again."""
STATIC: dict[str, tuple[Any, ...]] = {
    "group_instance_id": ("i1", "i2"), "rebalance_timeout_ms": (0, 0, 0, 5000), "session_timeout_ms": (6000, 45_000),
}  # fmt: skip
"""Values of a static member."""
OWN_GROUPS = {"groups": "1", "consumers": "2", "shares": "3", "mixed": "3", "streams": "4"}
"""If groups of different types must have different names: for each subject, the ending of the names of its groups."""
ALIKE_TOPICS = dict.fromkeys(("@u", "@n1", "@n2", "@n3"), "@t")
ALIKE = ALIKE_TOPICS | dict.fromkeys(("@b", "@c", "@g", "@h", "@i", "@s"), "@a")
"""Names of topics, groups and transactional ids. If requests shall be about the same thing, each name is replaced by its
value.
"""
MOSTLY = 0.8
"""If requests shall be about the same thing, names are replaced as in `ALIKE` with this probability."""
GROUP_FIELDS = ("group_id", "group_ids", "groups", "groups_names", "coordinator_keys", "key")
SINCE_STATIC = 5
"""The first version of JoinGroup that supports static members."""
GIVES_ID = 4
"""The first version of JoinGroup in which a new member first gets a member id, and then must join again with this id, unless
the member is static."""
CONNECT_EACH = 4
"""In one of this many schedules, classic groups have members whose subscriptions brokers cannot read."""
KEYED = 5
"""The number of keys of records. All records with one of these keys are tombstones."""
TIMED = 3
"""The records of every third request have different timestamps, and some of them are older than records before them."""
FOLLOWING = 4
"""The next request often comes from the subject of one of the latest FOLLOWING requests. Then both requests concern the same
things."""
COMPACTED = {
    "cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "60000",
}  # fmt: skip
TOPICS: dict[str, dict[str, str]] = {
    "t": {"segment.ms": "60000"}, "u": {"segment.ms": "60000", "retention.ms": "86400000"},
    "c": COMPACTED,
    "z": {
        "compression.type": "uncompressed", "message.timestamp.type": "LogAppendTime", "segment.ms": "60000",
        "retention.bytes": "150", "retention.ms": "-1",
    },
    "n": {"max.message.bytes": "400", "message.timestamp.before.max.ms": "3600000"},
}  # fmt: skip
"""The topics that exist at first, with their settings. Each has two partitions."""
ALL_COMPACTED = {"t": COMPACTED, "u": COMPACTED | {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}}
"""Other settings of topics. With them, logs with transactions are compacted."""


class Asked(NamedTuple):
    """A request that a subject sends."""

    subject: str
    ask: Ask
    message: Message


class Speaker:
    """All subjects, with the symbols that stand for ids in their requests."""

    def __init__(self, setting: Setting) -> None:
        self.symbols = Symbols("")
        self._seed, self._brokers, self._tries, self._planned = setting.seed, setting.brokers, setting.tries, setting.planned
        self._subjects: dict[str, Subject] = {}
        self._count = 0
        self._latest: deque[str] = deque(maxlen=FOLLOWING)
        self._habits = Habits()
        self._apart = not self._planned and self._seed % 3 > 0
        """Tells whether the groups of each type have names of their own."""
        self._alike, self._judged, self._sliced = setting.alike, setting.judged, setting.sliced and not setting.planned
        self._stored = setting.data
        """Tells whether the cluster is on disk. A start then makes the credentials of the user that logs in again."""
        self._static = setting.static or (not self._planned and self._seed % 2 == 0)
        """Tells whether some new members of classic groups are static."""

    def _subject(self, name: str) -> Subject:
        if name not in self._subjects:
            made = Brokers(self._seed, self._brokers) if name == "brokers" else MAKERS[name](self._seed)
            _shorten(made)
            _shorten(getattr(made, "_shares", None))
            self._subjects[name] = made
        return self._subjects[name]

    def ask(self, api: str, chance: Random, free: list[int], now: int) -> Asked | None:
        """Returns a request of this API. If that is impossible, returns another request that the subject would send now.
        Returns None if the request needs an id that no broker has given out."""
        due = None if self._planned else self._habits.next(chance)
        if due is not None:
            name, ask = due[0], replace(due[1], connection=free[0])
            ask = ask if ask.api in ("CreateTopics", "DeleteTopics") else _varied(ask, chance)
        else:
            name = self._who(api, chance)
            made = self._made(name, api, chance, free)
            if made is None:
                return None
            ask = made
        if self._sliced and ask.api in LONG:
            ask = self._lengthened(name, ask, chance)
        self._subject(name).sent(ask)
        self._habits.sent(name, ask)
        self._count += 1
        _mark(ask.body, name, self._count, tombstones=not self._judged)
        self.symbols.date(self._count, now)
        try:
            body = ask.body
            if self._alike and chance.random() < MOSTLY:
                body = _alike(body, ALIKE if self._planned else ALIKE_TOPICS)
            if self._seed % CONNECT_EACH == 3 and not self._planned and body.get("protocol_type") == "consumer":
                body = body | {"protocol_type": "connect"}
            if ask.api == "AlterUserScramCredentials" and not self._stored:
                body = _of_logins(body, chance)
            if self._apart:
                body = _apart(body, OWN_GROUPS.get(name, ""))
            return Asked(name, ask, from_json(request_class(KEYS[ask.api]), body, self.symbols, now))
        except KeyError:
            return None

    def _who(self, api: str, chance: Random) -> str:
        """Chooses the subject that sends a request of this API."""
        if self._planned and self._static:
            return ASKED[api][0]
        latest = [each for each in self._latest if each in ASKED[api] and not self._planned]
        name = latest[-1] if latest and chance.random() < 0.6 else chance.choice(ASKED[api])
        self._latest.append(name)
        return name

    def _made(self, name: str, api: str, chance: Random, free: list[int]) -> Ask | None:
        """Returns a request of a subject."""
        subject: Any = self._subject(name)
        ask: Ask | None = None
        for _ in range(self._tries):
            subject._random = Random(chance.getrandbits(32))
            for part in ("_shares", "_quotas", "_topics"):
                if hasattr(subject, part):
                    getattr(subject, part)._random = subject._random
            try:
                ask = subject.ask(free)
            except ValueError:  # the subject's knowledge is outdated
                continue
            if ask.api == api or name == "logins":
                break
            subject.learn(ask, {})
        if ask is None:
            return None
        if not self._planned:
            ask = _varied(ask, chance)
        if self._static and ask.api == "JoinGroup" and not ask.body["member_id"]:
            ask = self._as_static(ask, chance)
        if not self._planned:
            return ask
        if ask.api == "Fetch":
            ask.body["max_wait_ms"] = chance.choice(LONGEST_WAITS)
        if ask.api == "Metadata" and ask.version and chance.random() < 0.5:
            ask.body["topics"] = None
        return replace(ask, body=_shortened(ask.body, chance)) if self._alike else ask

    def _lengthened(self, name: str, ask: Ask, chance: Random) -> Ask:
        """In some cases, adds further topics to a request about topics. It then runs in many slices. In some cases, a rival
        deletes one of the topics meanwhile, and perhaps makes it again."""
        topics = ask.body["topics"]
        named = next((field for field in ("name", "topic_name") if topics and field in topics[0]), "")
        if not named:
            return ask
        if chance.random() < LENGTHENED:
            others = [each for each in LISTED if each not in {topic[named] for topic in topics}]
            topics = topics + [_both_partitions(topics[0]) | {named: other} for other in others]
        if chance.random() < DELETED_MEANWHILE:
            again = replace(ask, body=copy.deepcopy(ask.body)) if chance.random() < MADE_AGAIN else None
            index = min(chance.randrange(len(topics)) for _ in range(2))  # the work on the first topics is done before
            self._habits.delete_meanwhile(name, topics[index][named], again)
        return replace(ask, body=ask.body | {"topics": topics})

    def _as_static(self, ask: Ask, chance: Random) -> Ask:
        """Makes the new member in a JoinGroup static, unless the version is too old. In plans, only the version GIVES_ID is too
        old. So a plan can have static members and a member id with which no member has joined yet."""
        version = max(ask.version, SINCE_STATIC) if self._planned and ask.version != GIVES_ID else ask.version
        if version < SINCE_STATIC:
            return ask
        return replace(ask, version=version, body=ask.body | {name: chance.choice(values) for name, values in STATIC.items()})

    def hear(self, asked: Asked, connection: int, response: Message | None) -> None:
        """Let the subject learn from a response, or learn that there is no response."""
        subject = self._subjects[asked.subject]
        told: Json | None = None
        if response is not None:
            self.symbols.learn(response)
            told = to_json(response, self.symbols)
            self._habits.heard(asked.subject, asked.ask, told)
        subject.learn(asked.ask, {} if told is None else {connection: told})


def _varied(ask: Ask, chance: Random) -> Ask:
    """Changes some fields of a request to values whose effect depends on the time. Such values do not occur in dialogues."""
    changed = {
        field: chance.choice(values)
        for (api, field), values in VARIED.items()
        if api == ask.api and field in ask.body and chance.random() < 0.3
    }
    if ask.api in ("Fetch", "ShareFetch") and chance.random() < BY_WAITING:
        changed |= LONG_WAIT
    if ask.api == "WriteShareGroupState" and chance.random() < SEVERAL_BATCHES:
        changed["topics"] = [_with_batches(topic, chance) for topic in ask.body["topics"]]
    return replace(ask, body=ask.body | changed)


def _of_logins(body: Json, chance: Random) -> Json:
    """Changes the user of some of these SCRAM credentials to the user that logs in."""
    return {
        field: [each | {"name": USER} if chance.random() < OF_LOGINS else each for each in body[field]]
        for field in ("deletions", "upsertions")
    }


def _with_batches(topic: Json, chance: Random) -> Json:
    """Returns the topic of a WriteShareGroupState with further batches after the first batch of each partition. These batches
    may have the same state as the batch before them, and may begin within this batch."""
    parts = []
    for part in topic["partitions"]:
        batches: list[Json] = list(part["state_batches"])
        for _ in range(chance.randint(1, 2) if batches else 0):
            first = max(batches[-1]["last_offset"] + chance.choice([0, 1, 1, 2]), 0)
            states = {"delivery_state": chance.choice([0, batches[-1]["delivery_state"]])}
            batches.append(batches[-1] | states | {"first_offset": first, "last_offset": first + chance.randrange(3)})
        parts.append(part | {"state_batches": batches})
    return topic | {"partitions": parts}


def _both_partitions(topic: Json) -> Json:
    """Returns a topic of a request with both partitions, if the request names partitions."""
    parts = [part | {"partition_index": index} for index in (0, 1) for part in topic.get("partitions", ())[:1]]
    return topic | {"partitions": parts} if parts else topic


def _renamed(body: Any, rename: Callable[[str, str], str], field: str = "") -> Any:
    """Returns a copy of this part of a request with new texts. `rename` gets a field and its text, and returns the new text."""
    if isinstance(body, dict):
        return {name: _renamed(value, rename, name) for name, value in body.items()}
    if isinstance(body, list):
        return [_renamed(each, rename, field) for each in body]
    return rename(field, body) if isinstance(body, str) else body


def _apart(body: Json, suffix: str) -> Json:
    """Returns a copy of the request in which the names of groups have this suffix."""
    renamed: Json = _renamed(body, lambda field, text: text + suffix if field in GROUP_FIELDS and text[:1] == "@" else text)
    return renamed


def _shortened(body: Json, chance: Random) -> Json:
    """Returns a copy of the request in which most lists have only one element."""
    return {
        name: [chance.choice(value)] if isinstance(value, list) and len(value) > 1 and chance.random() < 0.6 else value
        for name, value in body.items()
    }


def _alike(body: Json, names: Mapping[str, str]) -> Json:
    """Returns a copy of the request with other names. If several names of the request would become the same name, the request
    keeps its names."""
    found = set[tuple[bool, str]]()

    def note(field: str, text: str) -> str:
        found.add((field in GROUP_FIELDS, text))
        return text

    def rename(field: str, text: str) -> str:
        return names[text] if text in names and times[field in GROUP_FIELDS, names[text]] == 1 else text

    _renamed(body, note)
    times = Counter((group, names.get(text, text)) for group, text in found)
    renamed: Json = _renamed(body, rename)
    return renamed


def _mark(body: Json, subject: str, number: int, *, tombstones: bool) -> None:
    """Makes the values of records unique: the tag of each batch begins with the subject's name and the number of the request.
    Gives the records keys and timestamps, and makes some of the records tombstones, because some topics are compacted. In a
    history that is judged, a record is identified by its value, so there are no tombstones."""
    for place, topic in enumerate(body.get("topic_data", ())):
        for part in topic["partition_data"]:
            for batch in part["records"] or ():
                if not batch["tag"].startswith(subject):
                    batch["tag"] = f"{subject}{number}.{place}.{part['index']}.{batch['tag']}"
                    batch.setdefault("key", f"k{number % KEYED}")
                    if number % TIMED == 0:
                        batch |= {"step_ms": 1000} | {"ts_offset_ms": -20_000 * (number % KEYED), **batch}
                    batch["null"] = tombstones and number % KEYED == 0


def _shorten(subject: Any) -> None:
    """Removes some of the requests with which a dialogue prepares its groups, because schedules are short."""
    first = getattr(subject, "_first", None)
    if first:
        first[:] = [first[number] for number in PREPARING if number < len(first)]


PREPARING = (0, 4, 6)
"""Requests that prepare share groups: the setting share.auto.offset.reset, the start offsets, and the ShareFetch that loads a
partition."""
MAKERS = SUBJECTS | {"consumers": Consumers, "security": Security, "states": States, "logins": Logins}
"""The subjects by name. The dialogues about brokers need the number of brokers, too."""
