"""Random dialogues about logs: valid and invalid batches of idempotent producers, and every way of reading."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

NEVER_GIVEN = 10**15
"""A producer id that no broker hands out in a test."""
CONFIGS = {
    "c": {"cleanup.policy": "compact"},
    "z": {"compression.type": "uncompressed", "message.timestamp.type": "LogAppendTime"},
    "n": {"max.message.bytes": "400", "message.timestamp.before.max.ms": "3600000"},
}
PLACES = [("t", 0), ("t", 1), ("c", 0), ("z", 0), ("n", 1)]
DAY = 86_400_000
Place = tuple[str, int]


@dataclass(eq=False)
class Producer:
    """What an idempotent producer, not the broker, keeps."""

    pid: str | int
    epoch: int
    following: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    sent: dict[Place, list[Json]] = field(default_factory=lambda: defaultdict(list))


@dataclass(eq=False)
class Session:
    """A fetch session. As with a real client, all its requests have the same version of Fetch."""

    session_id: str
    epoch: int
    version: int


class Logs(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    def __init__(self, seed: int) -> None:
        super().__init__(Head("logs", seed, ["t", "c", "z", "n"], configs=CONFIGS))
        self._producers: list[Producer] = []
        self._sessions: list[Session] = []
        self._ends: dict[Place, int] = defaultdict(int)
        self._starts: dict[Place, int] = defaultdict(int)
        self._asked = 0
        self._last: Ask | None = None
        self._actor: Producer | None = None

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        weights: dict[Callable[[], Ask], float] = {
            self._init: 4.0 if len(self._producers) < 2 else 0.5, self._produce: 10.0, self._fetch: 5.0,
            self._list_offsets: 4.0, self._delete_records: 1.5, self._epoch_end: 1.0, self._describe: 1.5,
        }  # fmt: skip
        ask = self._pick(weights)()
        self._asked += 1
        return replace(ask, connection=free[0])

    def _place(self) -> Place:
        written = sorted(self._ends)
        if written and self._chance(0.75):
            return self._random.choice(written)
        return self._random.choices([*PLACES, ("nope", 0), ("t", 7)], [8, 4, 3, 3, 3, 0.3, 0.3])[0]

    def _offset(self, place: Place) -> int:
        """Returns an offset in the log, or an offset just before or after the log."""
        start, end = self._starts[place], self._ends[place]
        return self._random.choices(
            [start, self._random.randint(start, end), end, end + 1, start - 1, -1], [5, 6, 2, 0.5, 0.5, 0.2]
        )[0]

    # Producers

    def _init(self) -> Ask:
        return Ask(0, "InitProducerId", self._version(0, 5), {"transactional_id": None, "transaction_timeout_ms": 60_000})

    def _produce(self) -> Ask:
        version = self._version(3, 13)
        places = [self._place()]
        if self._chance(0.15):
            places = sorted({*places, self._place()})
        self._actor = self._random.choice(self._producers) if self._producers else None
        topics: dict[str, list[Json]] = {}
        for place in places:
            records: list[Json] | None = [self._batch(self._actor, place)]
            if self._chance(0.01):
                records = [*(records or []), self._batch(None, place)]
            topics.setdefault(place[0], []).append({"index": place[1], "records": records})
        key = "topic_id" if version >= 13 else "name"
        data = [{key: f"@{topic}", "partition_data": partitions} for topic, partitions in topics.items()]
        acks = self._pick({-1: 20, 1: 2, 2: 0.2})
        body: Json = {"transactional_id": None, "acks": acks, "timeout_ms": 10_000, "topic_data": data}
        return Ask(0, "Produce", version, body)

    def _batch(self, producer: Producer | None, place: Place) -> Json:
        batch: Json = {"n": self._pick({1: 4, 2: 3, 3: 2, 7: 0.5}), "tag": f"v{self._asked}."}
        if producer is not None and self._chance(0.9):
            if producer.sent[place] and self._chance(0.15):
                return self._random.choice(producer.sent[place][-self._random.choice([1, 3, 7]) :])
            following = producer.following[place]
            epoch = producer.epoch
            seq = following
            kinds = {
                "next": 18,
                "gap": 1,
                "back": 0.7,
                "first": 0.5,
                "bump": 0.7,
                "bump gap": 0.3,
                "old": 0.7,
                "wrap": 0.7,
            }
            kind = self._pick(kinds)
            if kind == "gap":
                seq = (following + 2) % 2**31
            elif kind == "back":
                seq = max(0, following - 1)
            elif kind == "first":
                seq = 0
            elif kind.startswith("bump"):
                epoch, seq = epoch + 1, 3 if kind == "bump gap" else 0
            elif kind == "old":
                epoch = max(epoch - 1, -1)
            elif kind == "wrap" and not producer.sent[place]:
                seq = 2**31 - self._random.choice([1, 2, 3])
            batch |= {"pid": producer.pid if self._chance(0.98) else NEVER_GIVEN, "epoch": epoch, "seq": seq}
        if place[0] == "c" and self._chance(0.85):
            batch["key"] = "k"
        if self._chance(0.25):
            batch["codec"] = self._random.choice(["gzip", "snappy", "lz4", "zstd"])
        if self._chance(0.12):
            batch |= self._wrong(batch)
        return batch

    def _wrong(self, batch: Json) -> Json:
        """Returns a change that makes a batch invalid or unusual."""
        n = batch["n"]
        return self._random.choice(
            [
                {"crc": 1}, {"magic": 1}, {"magic": 3}, {"count": n + 1}, {"count": 0}, {"count": -1},
                {"last_offset_delta": n}, {"last_offset_delta": -1}, {"base_offset": 5}, {"leader_epoch": 7},
                {"length": 10}, {"length": 10_000}, {"control": 1}, {"ts_type": 1}, {"txn": 1}, {"empty": 1},
                {"attrs": 5}, {"attrs": 64}, {"ts_offset_ms": -2 * DAY}, {"ts_offset_ms": 2 * DAY}, {"ts_offset_ms": -5000},
                {"offset_deltas": [0, 2]}, {"offset_deltas": [1, 0]}, {"flip_last_byte": 1}, {"seq": -1}, {"epoch": -1},
                {"n": 60}, {"pid": -1}, {"seq": -5}, {"pid": -1, "seq": 0},
            ]
        )  # fmt: skip

    # Readers

    def _fetch(self) -> Ask:
        going_on = self._random.choice(self._sessions[-3:]) if self._sessions and self._chance(0.35) else None
        version = self._version(4, 18) if going_on is None or self._chance(0.03) else going_on.version
        body: Json = {
            "max_wait_ms": 0, "min_bytes": self._pick({0: 3, 1: 3, 1 << 20: 1}), "isolation_level": self._version(0, 1),
            "max_bytes": self._pick({1 << 20: 6, 0: 0.5, 100: 1, 300: 1, 2**31 - 1: 2}),
        }  # fmt: skip
        places = sorted({self._place() for _ in range(self._pick({1: 5, 2: 3, 4: 1}))})
        self._say_session(version, body, going_on)
        if going_on is not None and self._chance(0.5):
            places = places[:1] if self._chance(0.3) else []
        key = "topic_id" if version >= 13 else "topic"
        topics: dict[str, list[Json]] = {}
        for place in places:
            topics.setdefault(place[0], []).append(self._wanted(place, version))
        body["topics"] = [{key: f"@{topic}", "partitions": partitions} for topic, partitions in topics.items()]
        if going_on is not None and self._chance(0.15):
            place = self._place()
            body["forgotten_topics_data"] = [{key: f"@{place[0]}", "partitions": [place[1]]}]
        return Ask(0, "Fetch", version, body)

    def _wanted(self, place: Place, version: int) -> Json:
        wanted: Json = {
            "partition": place[1], "fetch_offset": self._offset(place),
            "partition_max_bytes": self._pick({1 << 20: 6, 1: 1, 150: 2, 0: 0.3}),
        }  # fmt: skip
        if version >= 9:
            wanted["current_leader_epoch"] = self._pick({-1: 6, 0: 4, 1: 0.4})
        if version >= 12:
            wanted["last_fetched_epoch"] = self._pick({-1: 6, 0: 2, 1: 0.3})
        return wanted

    def _say_session(self, version: int, body: Json, session: Session | None) -> None:
        """Sets the session fields of a Fetch: continues `session`, in some cases wrongly, or begins a new session."""
        if version < 7:
            return
        if session is None:
            body["session_epoch"] = self._pick({-1: 1, 0: 1})
            if self._sessions and self._chance(0.2):
                body["session_id"] = self._sessions[-1].session_id
            return
        body |= {"session_id": session.session_id, "session_epoch": session.epoch}
        odd = self._pick({"": 20, "epoch": 1, "unknown": 0.7, "end": 1})
        if odd == "epoch":
            body["session_epoch"] += self._random.choice([1, 2])
        elif odd == "unknown":
            body["session_id"] = 77
        elif odd == "end":
            body["session_epoch"] = -1

    def _list_offsets(self) -> Ask:
        version = self._version(1, 11)
        topics: dict[str, list[Json]] = {}
        for place in sorted({self._place() for _ in range(self._pick({1: 5, 2: 3}))}):
            wanted: Json = {"partition_index": place[1], "timestamp": self._timestamp(version, place)}
            if version >= 4:
                wanted["current_leader_epoch"] = self._pick({-1: 6, 0: 4, 1: 0.4})
            topics.setdefault(place[0], []).append(wanted)
        body: Json = {
            "replica_id": -1, "topics": [{"name": f"@{name}", "partitions": wanted} for name, wanted in topics.items()]
        }  # fmt: skip
        if version >= 2:
            body["isolation_level"] = self._version(0, 1)
        return Ask(0, "ListOffsets", version, body)

    def _timestamp(self, version: int, place: Place) -> int | str:
        """Returns a timestamp for ListOffsets: the time of a batch, an unusual time, or a special timestamp such as −1."""
        if self._asked and place[0] != "z" and self._chance(0.5):
            return f"$t{self._random.randint(1, self._asked)}"
        newest = -5 if version >= 9 else -4 if version >= 8 else -3 if version >= 7 else -2
        return self._random.choice([*range(newest, 1), -6, 1 << 50])

    def _delete_records(self) -> Ask:
        place = self._place()
        offset = self._offset(place) if self._chance(0.6) else self._random.randint(0, max(1, self._ends[place] // 2))
        partitions = [{"partition_index": place[1], "offset": offset}]
        body: Json = {"topics": [{"name": f"@{place[0]}", "partitions": partitions}], "timeout_ms": 10_000}
        return Ask(0, "DeleteRecords", self._version(0, 2), body)

    def _epoch_end(self) -> Ask:
        place = self._place()
        version = self._version(2, 4)
        wanted: Json = {"partition": place[1], "leader_epoch": self._pick({0: 4, -1: 1, 1: 1, 5: 1})}
        wanted["current_leader_epoch"] = self._pick({-1: 6, 0: 4, 1: 0.4})
        body: Json = {"topics": [{"topic": f"@{place[0]}", "partitions": [wanted]}]}
        if version >= 3:
            body["replica_id"] = -2
        return Ask(0, "OffsetForLeaderEpoch", version, body)

    def _describe(self) -> Ask:
        place = self._place()
        topics = [{"name": f"@{place[0]}", "partition_indexes": [place[1]]}]
        return Ask(0, "DescribeProducers", 0, {"topics": topics})

    # The responses

    def _heard_InitProducerId(self, _: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" not in response:
            self._producers.append(Producer(response["producer_id"], response.get("producer_epoch", 0)))

    def _heard_Produce(self, ask: Ask, response: Json) -> None:  # noqa: N802
        told = {
            ((data.get("name") or data["topic_id"])[1:], each["index"]): each["records"][0]
            for data in ask.body["topic_data"] for each in data["partition_data"]
        }  # fmt: skip
        for topic in response.get("responses", []):
            name = (topic.get("name") or topic.get("topic_id", "@"))[1:]
            for partition in topic["partition_responses"]:
                place = name, partition.get("index", 0)
                if "error_code" not in partition and place in told:
                    self._stored(place, told[place], partition.get("base_offset", 0))

    def _stored(self, place: Place, batch: Json, base_offset: int) -> None:
        self._ends[place] = max(self._ends[place], base_offset + batch["n"])
        producer = self._actor
        if producer is not None and "seq" in batch and batch["seq"] >= 0 and batch not in producer.sent[place]:
            if batch.get("epoch", -1) > producer.epoch:
                producer.epoch = batch["epoch"]
                producer.following.clear()
            producer.sent[place].append(batch)
            producer.following[place] = (batch["seq"] + batch["n"]) % 2**31

    def _heard_Fetch(self, ask: Ask, response: Json) -> None:  # noqa: N802
        if "session_id" not in response or "error_code" in response:
            return
        known = [each for each in self._sessions if each.session_id == response["session_id"]]
        if known:
            known[0].epoch += 1
        else:
            self._sessions.append(Session(response["session_id"], 1, ask.version))

    def _heard_DeleteRecords(self, _: Ask, response: Json) -> None:  # noqa: N802
        for topic in response.get("topics", []):
            for partition in topic["partitions"]:
                if "error_code" not in partition:
                    place = topic["name"][1:], partition.get("partition_index", 0)
                    self._starts[place] = partition.get("low_watermark", 0)
