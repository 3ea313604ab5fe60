"""Random dialogues of transactional producers that send valid and invalid requests, and of consumers of their records.

Most of the time a producer follows one of two protocols. With transaction version 1, it sends AddPartitionsToTxn first and
keeps its epoch. With version 2, Produce v12 adds the partitions and EndTxn v5 increases the epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head
from random_dialogues.symbols import Json

NO_ERROR = "0 NONE"
NEVER_GIVEN = 10**15
"""A producer id that no broker hands out in a test."""
UNKNOWN_MEMBER_ID = "25 UNKNOWN_MEMBER_ID"
CONCURRENT = "51 CONCURRENT_TRANSACTIONS"
Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(eq=False)
class Producer:
    """The state that a producer keeps itself. A zombie (an older producer with the same transactional id) has such a state,
    too."""

    transactional_id: str | None
    pid: str
    epoch: int
    modern: bool
    open: bool = False
    added: set[Place] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    def ended(self) -> None:
        """Resets the state of the transaction after its end."""
        self.open = False
        self.added.clear()
        self.groups.clear()


class Transactions(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    head_topics = ["t", "u"]
    head_groups = ["g", "h", "i"]
    head_ids = ["a", "b", "c"]

    def __init__(self, seed: int) -> None:
        super().__init__(Head("transactions", seed, self.head_topics, self.head_groups, self.head_ids))
        self._producers: list[Producer] = []
        self._next: dict[tuple[str, int, Place], int] = defaultdict(int)
        self._sent: dict[tuple[str, Place], list[Json]] = defaultdict(list)
        self._ends: dict[Place, int] = defaultdict(int)
        self._tags = 0
        self._member, self._generation = "", -1
        self._plain_ids: list[str] = []
        self._pids = 0
        self._actor: Producer | None = None
        self._last: Ask | None = None
        self._then: Ask | None = None

    # What happens next

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request: a request that follows from the last request, the same request again, or a random
        request.
        """
        ask, self._then = self._then, None
        if ask is None:
            last = self._last if self._chance(0.03) else None
            ask = last or self._anything()
        self._last = None if ask.api == "JoinGroup" else ask  # a repeated JoinGroup would wait until the member joins again
        return replace(ask, connection=free[0])

    def _anything(self) -> Ask:
        name = self._random.choices(self.head_ids, [6, 3, 1])[0]
        producer = self._actor = self._who(name)
        if producer is None:
            return self._init(None, name)
        weights: dict[Callable[[Producer], Ask], float] = {
            self._init: 0.7, self._produce: 9.0, self._end: 1.0, self._add_partitions: 1.0, self._add_offsets: 1.2,
            self._commit_offsets: 2.0, self._fetch: 3.0, self._list_offsets: 1.2, self._describe: 1.0,
            self._list: 0.7, self._describe_producers: 1.2, self._offsets: 0.8, self._markers: 0.5,
            self._group: 1.0, self._plain: 1.0,
        }  # fmt: skip
        if producer.open:
            weights[self._end] = 5.0
            weights[self._commit_offsets] = 3.0 if producer.groups or producer.modern else 0.7
        if not producer.modern:
            weights[self._add_partitions] = 2.5 if producer.open else 6.0
            weights[self._produce] = 9.0 if producer.added else 2.0
            weights[self._add_offsets] = 2.0
        return self._random.choices(list(weights), list(weights.values()))[0](producer)

    def _who(self, name: str) -> Producer | None:
        """Chooses a producer: mostly the newest producer with the transactional id, sometimes a zombie, rarely a producer with
        another id."""
        known = [p for p in self._producers if p.transactional_id == name]
        if not known:
            return None if not self._producers or self._chance(0.5) else self._random.choice(self._producers)
        return known[-1] if self._chance(0.9) else self._random.choice(known)

    def _identity(self, producer: Producer, *, right: float = 0.9, nameless: bool = True) -> tuple[str, str | int, int]:
        """Returns the transactional id, the producer id and the epoch for a request. In some cases one of these three values is
        wrong.

        `nameless` allows the empty transactional id. All dialogues share this id, and Kafka's transaction verification refuses
        simultaneous requests of two producers with the same transactional id.
        """
        named, pid, epoch = f"@{producer.transactional_id}", producer.pid, producer.epoch
        if self._chance(right):
            return named, pid, epoch
        other = self._random.choice(self._producers)
        return self._random.choice(
            [
                (named, pid, epoch - 1), (named, pid, epoch + 1), (named, pid, epoch + 1), (named, NEVER_GIVEN, epoch),
                ("@nobody", pid, epoch), (f"@{other.transactional_id}", pid, epoch), (named, other.pid, epoch),
                (named, pid, -1), ("" if nameless else "@nobody", pid, epoch), (named, -1, epoch),
                (named, pid, max(0, epoch - 2)),
            ]
        )  # fmt: skip

    def _place(self, producer: Producer | None = None) -> Place:
        if producer and not producer.modern and producer.added and self._chance(0.85):
            return self._random.choice(sorted(producer.added))
        return self._random.choices(["t", "u"], [3, 1])[0], self._random.randrange(2)

    def _places(self) -> list[Json]:
        """Chooses partitions of one or two topics, rarely of a topic that does not exist."""
        names = self._random.choices([["t"], ["u"], ["t", "u"], ["nope"], ["t", "nope"]], [6, 2, 2, 0.3, 0.2])[0]
        indexes = [[0], [1], [0, 1], [0, 7]]
        return [{"name": f"@{name}", "partitions": self._random.choices(indexes, [4, 3, 3, 0.4])[0]} for name in names]

    # Producers

    def _init(self, producer: Producer | None, name: str = "") -> Ask:
        version = self._version(0, 5)
        named: str | None = f"@{producer.transactional_id if producer else name}"
        if self._chance(0.1):
            named = self._random.choices([*(f"@{i}" for i in self.head_ids), None, ""], [1, 1, 1, 3, 1])[0]
        timeout = self._random.choices([60_000, 70_000, 0, -1, 900_001], [40, 4, 0.5, 0.5, 0.5])[0]
        body: Json = {"transactional_id": named, "transaction_timeout_ms": timeout}
        if version >= 3 and producer is not None and self._chance(0.6):
            _, pid, epoch = self._identity(producer, right=0.7)
            body |= {"producer_id": pid, "producer_epoch": epoch}
        return Ask(0, "InitProducerId", version, body)

    def _add_partitions(self, producer: Producer) -> Ask:
        named, pid, epoch = self._identity(producer)
        body: Json
        if self._chance(0.75):
            body = {
                "v3_and_below_transactional_id": named, "v3_and_below_producer_id": pid,
                "v3_and_below_producer_epoch": epoch, "v3_and_below_topics": self._places(),
            }  # fmt: skip
            return Ask(0, "AddPartitionsToTxn", self._version(0, 3), body)
        several = [producer]
        if self._chance(0.4):
            several += [p for p in self._producers if p.transactional_id not in (None, producer.transactional_id)][-1:]
        transactions: dict[str, Json] = {}  # by id, because Kafka mixes up the partitions if a request has the same id twice
        for each in several:
            named, pid, epoch = self._identity(each)
            transactions[named] = {
                "transactional_id": named, "producer_id": pid, "producer_epoch": epoch,
                "verify_only": self._chance(0.5), "topics": self._places(),
            }  # fmt: skip
        body = {"transactions": list(transactions.values())}
        return Ask(0, "AddPartitionsToTxn", self._version(4, 5), body)

    def _add_offsets(self, producer: Producer) -> Ask:
        named, pid, epoch = self._identity(producer)
        group = self._random.choices(["@g", "@h", "@i", ""], [6, 2, 0.5, 0.3])[0]
        body: Json = {"transactional_id": named, "producer_id": pid, "producer_epoch": epoch, "group_id": group}
        return Ask(0, "AddOffsetsToTxn", self._version(0, 4), body)

    def _commit_offsets(self, producer: Producer) -> Ask:
        named, pid, epoch = self._identity(producer, nameless=False)
        version = 5 if producer.modern != self._chance(0.1) else self._version(0, 4)
        known = sorted(producer.groups)
        group = self._random.choice(known) if known and self._chance(0.85) else self._random.choice(["g", "g", "h"])
        body: Json = {
            "transactional_id": named, "group_id": "" if self._chance(0.02) else f"@{group}", "producer_id": pid,
            "producer_epoch": epoch, "topics": self._offset_topics(),
        }  # fmt: skip
        if version >= 3:
            body |= self._membership("generation_id")
        return Ask(0, "TxnOffsetCommit", version, body)

    def _membership(self, generation: str) -> Json:
        """Returns the fields that identify the member that commits."""
        told: Json = self._random.choices(
            [
                {}, {generation: self._generation, "member_id": self._member},
                {generation: self._generation, "member_id": "bogus"},
                {generation: self._generation + 1, "member_id": self._member}, {generation: -1, "member_id": self._member},
                {generation: self._generation, "member_id": ""},
                {generation: self._generation, "member_id": self._member, "group_instance_id": "i"},
            ],
            [10, 8, 1, 1, 1, 1, 0.5],
        )[0]  # fmt: skip
        return told

    def _offset_topics(self) -> list[Json]:
        topics: list[Json] = []
        for place in self._places()[:1]:
            partitions = [
                {
                    "partition_index": index,
                    "committed_offset": self._random.randrange(50) if self._chance(0.97) else -2,
                    "committed_leader_epoch": self._random.choice([-1, 0]),
                    "committed_metadata": self._random.choice(["m", None, ""]) if self._chance(0.97) else "x" * 5000,
                }
                for index in place["partitions"]
            ]
            topics.append({"name": place["name"], "partitions": partitions})
        return topics

    def _end(self, producer: Producer) -> Ask:
        named, pid, epoch = self._identity(producer)
        version = 5 if producer.modern != self._chance(0.08) else self._version(0, 4)
        body: Json = {"transactional_id": named, "producer_id": pid, "producer_epoch": epoch, "committed": self._chance(0.6)}
        return Ask(0, "EndTxn", version, body)

    # Records

    def _produce(self, producer: Producer) -> Ask:
        named, pid, epoch = self._identity(producer, nameless=False)
        transactional = self._chance(0.96)
        request_id: str | None = named
        if self._chance(0.04):
            request_id = self._random.choice([None, "@a", "@b"])
        version = self._random.choice([12, 13]) if producer.modern != self._chance(0.07) else self._version(3, 11)
        places = [self._place(producer)]
        if self._chance(0.15):
            places = [(places[0][0], 0), (places[0][0], 1)]
        return self._request(version, request_id, [(p, self._batch(pid, epoch, p, transactional)) for p in places])

    def _plain(self, producer: Producer) -> Ask:
        """Produces idempotent batches with a producer id that may or may not belong to a transactional id."""
        pid, epoch = producer.pid, producer.epoch
        if self._plain_ids and self._chance(0.7):
            pid, epoch = self._random.choice(self._plain_ids), 0
        place = self._place()
        return self._request(self._version(3, 13), None, [(place, self._batch(pid, epoch, place, False))])

    def _request(self, version: int, transactional_id: str | None, batches: Iterable[tuple[Place, Json]]) -> Ask:
        topics: dict[str, list[Json]] = {}
        for (topic, index), batch in batches:
            topics.setdefault(topic, []).append({"index": index, "records": [batch]})
        key = "topic_id" if version >= 13 else "name"
        data = [{key: f"@{topic}", "partition_data": partitions} for topic, partitions in topics.items()]
        acks = -1 if self._chance(0.96) else 1
        body: Json = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 10_000, "topic_data": data}
        return Ask(0, "Produce", version, body)

    def _batch(self, pid: str | int, epoch: int, place: Place, transactional: bool) -> Json:
        sent = self._sent[str(pid), place]
        if sent and self._chance(0.1):
            return self._random.choice(sent[-self._random.choice([1, 3, 6]) :])
        following = self._next[str(pid), epoch, place]
        kind = self._random.choices(["next", "gap", "back", "first"], [18, 1, 0.5, 0.5])[0]
        seq = {"next": following, "gap": following + 2, "back": max(0, following - 1), "first": 0}[kind]
        self._tags += 1
        batch: Json = {"pid": pid, "epoch": epoch, "seq": seq, "n": self._random.choice([1, 1, 2, 3])}
        batch["tag"] = f"v{self._tags}."
        if transactional:
            batch["txn"] = 1
        if self._chance(0.01):
            batch["control"] = 1
        return batch

    def _markers(self, producer: Producer) -> Ask:
        """Sends WriteTxnMarkers as a coordinator does. The epoch of the markers is never newer than the coordinator's epoch.

        After markers with a newer epoch, Kafka's coordinator would never write its own markers, and the transaction would hang
        forever.
        """
        version = self._version(1, 2)
        marker: Json = {
            "producer_id": producer.pid if self._chance(0.9) else NEVER_GIVEN,
            "producer_epoch": max(0, producer.epoch - self._random.choices([0, 1], [4, 1])[0]),
            "transaction_result": self._chance(0.5), "coordinator_epoch": self._random.choices([0, -1], [8, 1])[0],
            "topics": [{"name": t["name"], "partition_indexes": t["partitions"]} for t in self._places()],
        }  # fmt: skip
        if version >= 2:
            marker["transaction_version"] = self._random.choices([0, 1, 2], [1, 3, 3])[0]
        return Ask(0, "WriteTxnMarkers", version, {"markers": [marker]})

    # Readers

    def _fetch(self, _: Producer | None = None) -> Ask:
        version = self._version(4, 18)
        written = sorted(self._ends)
        topic, index = self._random.choice(written) if written and self._chance(0.9) else self._place()
        end = self._ends[topic, index]
        offset = self._random.choices([0, self._random.randint(0, end), end, end + 2], [6, 4, 1, 0.3])[0]
        partitions = [{"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
        named = {"topic_id" if version >= 13 else "topic": f"@{topic}"}
        body: Json = {
            "max_wait_ms": 0, "min_bytes": 0, "isolation_level": 1 if self._chance(0.75) else 0,
            "topics": [named | {"partitions": partitions}],
        }  # fmt: skip
        return Ask(0, "Fetch", version, body)

    def _list_offsets(self, _: Producer | None = None) -> Ask:
        version = self._version(1, 11)
        timestamp = self._random.choices([-1, -2, 0, 1 << 50], [8, 1, 1, 1])[0]
        topics = [
            {"name": t["name"], "partitions": [{"partition_index": i, "timestamp": timestamp} for i in t["partitions"]]}
            for t in self._places()
        ]
        body: Json = {"replica_id": -1, "topics": topics}
        if version >= 2:
            body["isolation_level"] = 1 if self._chance(0.7) else 0
        return Ask(0, "ListOffsets", version, body)

    def _describe(self, _: Producer | None = None) -> Ask:
        names = [f"@{name}" for name in self.head_ids] + self._random.choice([[], [], ["@nobody"], [""]])
        return Ask(0, "DescribeTransactions", 0, {"transactional_ids": names})

    def _list(self, producer: Producer) -> Ask:
        version = self._version(0, 2)
        states = [[], ["Ongoing"], ["CompleteCommit", "CompleteAbort"], ["Empty"], ["Dead", "bogus"], ["ongoing"]]
        body: Json = {
            "state_filters": self._random.choices(states, [4, 2, 2, 1, 1, 0.5])[0],
            "producer_id_filters": self._random.choices([[], [producer.pid], [NEVER_GIVEN]], [6, 2, 1])[0],
        }
        if version >= 1:
            body["duration_filter"] = self._random.choices([-1, 3_600_000], [5, 1])[0]
        if version >= 2:
            body["transactional_id_pattern"] = self._random.choices([None, "@a", "@.*", "", "("], [4, 1, 2, 1, 0.5])[0]
        return Ask(0, "ListTransactions", version, body)

    def _describe_producers(self, _: Producer | None = None) -> Ask:
        topics = [{"name": t["name"], "partition_indexes": t["partitions"]} for t in self._places()]
        return Ask(0, "DescribeProducers", 0, {"topics": topics})

    # Groups

    def _offsets(self, _: Producer | None = None) -> Ask:
        version = self._version(1, 10)
        group = self._random.choices(["@g", "@h", "@i"], [6, 3, 0.5])[0]
        everything = version >= 2 and self._chance(0.4)
        body: Json
        if version < 8:
            topics = [{"name": "@t", "partition_indexes": [0, 1]}, {"name": "@u", "partition_indexes": [0, 7]}]
            body = {"group_id": group, "topics": None if everything else topics}
        else:
            key = "topic_id" if version >= 10 else "name"
            topics = [{key: "@t", "partition_indexes": [0, 1]}, {key: "@u", "partition_indexes": [0, 7]}]
            body = {"groups": [{"group_id": group, "topics": None if everything else topics}]}
        if version >= 7:
            body["require_stable"] = self._chance(0.6)
        return Ask(0, "OffsetFetch", version, body)

    def _group(self, _: Producer) -> Ask:
        """Returns a request of the only member of group g, a commit without a transaction, or a request that deletes a group's
        offsets."""
        kind = self._random.choices(["member", "commit", "delete", "delete offsets", "leave"], [6, 3, 0.7, 0.7, 0.7])[0]
        if kind == "commit":
            body: Json = {"group_id": self._random.choice(["@g", "@h"]), "topics": self._offset_topics()}
            body |= self._membership("generation_id_or_member_epoch")
            return Ask(0, "OffsetCommit", self._version(7, 9), body)
        if kind == "delete":
            return Ask(0, "DeleteGroups", self._version(0, 2), {"groups_names": [self._random.choice(["@g", "@h"])]})
        if kind == "delete offsets":
            topics = [{"name": "@t", "partitions": [{"partition_index": 0}, {"partition_index": 7}]}]
            return Ask(0, "OffsetDelete", 0, {"group_id": self._random.choice(["@g", "@h"]), "topics": topics})
        if kind == "leave" and self._member:
            return Ask(0, "LeaveGroup", 2, {"group_id": "@g", "member_id": self._member})
        if self._member and self._chance(0.6):
            assignments = [{"member_id": self._member, "assignment": "A"}]
            body = {"group_id": "@g", "generation_id": self._generation, "member_id": self._member}
            return Ask(0, "SyncGroup", 2, body | {"assignments": assignments})
        protocols = [{"name": "range", "metadata": "m"}]
        body = {"group_id": "@g", "session_timeout_ms": 120_000, "rebalance_timeout_ms": 60_000}
        body |= {"member_id": self._member, "protocol_type": "consumer", "protocols": protocols}
        return Ask(0, "JoinGroup", 3, body)

    # The responses

    def _heard_InitProducerId(self, ask: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" in response:
            if response["error_code"] == CONCURRENT:
                for producer in self._of(ask.body["transactional_id"]):
                    producer.ended()
            return
        named, pid, epoch = ask.body["transactional_id"], response["producer_id"], response.get("producer_epoch", 0)
        if not named:
            self._plain_ids.append(pid)
        else:
            self._producers.append(Producer(named[1:], pid, epoch, self._chance(0.55)))

    def _of(self, named: str | None) -> list[Producer]:
        return [p for p in self._producers if p.transactional_id == (named or "")[1:]]

    def _heard_AddPartitionsToTxn(self, ask: Ask, response: Json) -> None:  # noqa: N802
        for result in response.get("results_by_topic_v3_and_below", []):
            self._added(ask.body["v3_and_below_transactional_id"], result)
        for transaction in response.get("results_by_transaction", []):
            told = [t for t in ask.body["transactions"] if t["transactional_id"] == transaction.get("transactional_id")]
            if told and not told[0]["verify_only"]:
                for result in transaction.get("topic_results", []):
                    self._added(transaction["transactional_id"], result)

    def _added(self, named: str, result: Json) -> None:
        for partition in result.get("results_by_partition", []):
            if "partition_error_code" not in partition:
                for producer in self._of(named)[-1:]:
                    producer.open = True
                    producer.added.add((result["name"][1:], partition.get("partition_index", 0)))

    def _heard_AddOffsetsToTxn(self, ask: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" not in response:
            for producer in self._of(ask.body["transactional_id"])[-1:]:
                producer.open = True
                producer.groups.add(ask.body["group_id"][1:])

    def _heard_TxnOffsetCommit(self, ask: Ask, response: Json) -> None:  # noqa: N802
        self._look(0.4, [self._offsets])
        codes = [p.get("error_code") for t in response.get("topics", []) for p in t["partitions"]]
        if None in codes and ask.version >= 5:
            for producer in self._of(ask.body["transactional_id"])[-1:]:
                producer.open = True

    def _heard_EndTxn(self, ask: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" in response:
            return
        self._look(0.4, [self._fetch, self._fetch, self._offsets, self._describe, self._describe_producers])
        if self._chance(0.08):
            committed = ask.body["committed"] if self._chance(0.6) else not ask.body["committed"]
            self._then = Ask(0, "EndTxn", ask.version, ask.body | {"committed": committed})
        for producer in self._of(ask.body["transactional_id"])[-1:]:
            producer.ended()
            if ask.version >= 5 and ask.body["producer_id"] == producer.pid:
                producer.pid = response.get("producer_id", producer.pid)
                producer.epoch = response.get("producer_epoch", 0)

    def _heard_Produce(self, ask: Ask, response: Json) -> None:  # noqa: N802
        for told, topic in zip(ask.body["topic_data"], response.get("responses", []), strict=False):
            name = (told.get("name") or told["topic_id"])[1:]
            for partition in topic["partition_responses"]:
                if "error_code" not in partition:
                    place = name, partition.get("index", 0)
                    batch = next(d["records"][0] for d in told["partition_data"] if d["index"] == place[1])
                    self._stored(ask, place, batch)
                    self._ends[place] = max(self._ends[place], partition.get("base_offset", 0) + batch["n"])

    def _stored(self, ask: Ask, place: Place, batch: Json) -> None:
        pid, sent = str(batch["pid"]), self._sent[str(batch["pid"]), place]
        if batch not in sent:
            sent.append(batch)
            self._next[pid, batch["epoch"], place] = batch["seq"] + batch["n"]
        if batch.get("txn"):
            for producer in self._of(ask.body["transactional_id"])[-1:]:
                producer.open = True
                producer.added.add(place)

    def _heard_WriteTxnMarkers(self, _: Ask, __: Json) -> None:  # noqa: N802
        self._look(0.6, [self._fetch, self._describe_producers, self._describe, self._list_offsets])

    def _look(self, share: float, readers: list[Callable[[], Ask]]) -> None:
        """With the probability `share`, makes the next request a request that reads the result of this request."""
        if self._chance(share):
            self._then = self._random.choice(readers)()

    def _heard_JoinGroup(self, _: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" not in response:
            self._member, self._generation = response["member_id"], response["generation_id"]
        elif response["error_code"] == UNKNOWN_MEMBER_ID:
            self._member = ""

    def _heard_LeaveGroup(self, _: Ask, response: Json) -> None:  # noqa: N802
        if "error_code" not in response:
            self._member = ""
