"""The clients that tests use: members of groups, transactional producers and readers. Each actor sends exactly the requests
that the test calls for.

An actor sends its requests to a MockKafka, a ProxyKafka or an InProcess, over its own connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inprocess import InProcess
from kafkawire.batches import iter_batches, iter_records, read_header
from kafkawire.codec import encode
from kafkawire.declare import Message, from_plain
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from requesting import (
    TRANSACTION,
    add_offsets,
    add_partitions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    offset_commit,
    offset_fetch,
    offset_fetch_of,
    plain,
    produce_request,
    sync_group,
    txn_offset_commit,
)
from responses import only, sole
from wirebroker.core.groups.embedded import read_assignment, write_assignment
from wirekit import Reachable, batch, client

TEAM = "team"
MEMBER_ID_REQUIRED = 79
OLD, NEW = 11, 12
"""Versions of Produce. With OLD the client sends AddPartitionsToTxn. With NEW the broker adds the partition itself."""
Told = dict[str, list[int]]
"""The partitions that a member owns, or that are assigned to it, by topic."""


class Actor:
    """A client with a connection."""

    def __init__(self, broker: Reachable | InProcess) -> None:
        self.broker: Any = broker
        self.wire = client(broker)

    def ask(self, request: Message, version: int) -> Any:
        """Send a request, and return the response."""
        return self.wire.request(request, version)

    def code(self, request: Message, version: int) -> int:
        """Send a request. Returns the error code of the response. If the response has none, returns the code of its only topic,
        partition or group.
        """
        response = self.ask(request, version)
        return int((only(response) if not hasattr(response, "error_code") else response).error_code)


class ClassicMember(Actor):
    """A member of a classic group."""

    def __init__(self, broker: Reachable | InProcess, instance: str | None = None, group: str = TEAM) -> None:
        super().__init__(broker)
        self.member, self.generation, self.instance, self.group = "", -1, instance, group

    def ask_to_join(
        self, protocols: str | Iterable[tuple[str, bytes]] = "range", session_ms: int = 10_000, rebalance_ms: int = 60_000,
        version: int = 7,
    ) -> None:  # fmt: skip
        """Send a JoinGroup, and do not wait for the response."""
        times = {"session_ms": session_ms, "rebalance_ms": rebalance_ms}
        self.wire.send(join_group(self.group, self.member, protocols, **times, instance=self.instance), version)

    def joined(self, version: int = 7) -> Any:
        """Wait for the response to the JoinGroup, and return it."""
        response = self.wire.response()
        self.member, self.generation = response.member_id or self.member, response.generation_id
        return response

    def join(self, **options: Any) -> Any:
        """Join the group. A member without an id first requests an id."""
        if not self.member and self.instance is None:
            self.ask_to_join(**options)
            assert self.joined().error_code == MEMBER_ID_REQUIRED
        self.ask_to_join(**options)
        return self.joined()

    def ask_to_sync(self, assignments: dict[str, bytes] | None = None, generation: int | None = None) -> None:
        """Send a SyncGroup, and do not wait for the response."""
        at = self.generation if generation is None else generation
        self.wire.send(sync_group(self.group, self.member, at, assignments, self.instance), 3)

    def synced(self) -> tuple[int, bytes]:
        """Wait for the response to the SyncGroup. Returns its error code and the assignment."""
        response = self.wire.response()
        return response.error_code, bytes(response.assignment)

    def sync(self, assignments: dict[str, bytes] | None = None, generation: int | None = None) -> tuple[int, bytes]:
        """Send a SyncGroup. Returns the error code and the assignment."""
        self.ask_to_sync(assignments, generation)
        return self.synced()

    def heartbeat(self, generation: int | None = None) -> int:
        """Send a heartbeat. Returns the error code."""
        at = self.generation if generation is None else generation
        return self.code(heartbeat(self.group, self.member, at, self.instance), 3)

    def leave(self) -> int:
        """Leave the group. Returns the error code for the member."""
        return int(sole(self.ask(leave_group(self.group, self.member, self.instance), 3).members).error_code)

    def commit(self, offset: int, *, topic: str = "orders", meta: str = "") -> int:
        """Commit an offset. Returns the error code."""
        told = {"topic": topic, "metadata": meta, "group_instance_id": self.instance}
        return self.code(offset_commit(self.group, offset, self.member, self.generation, **told), 8)

    def committed(self) -> int:
        """Fetch the offset that the group has committed."""
        return int(only(self.ask(offset_fetch(self.group), 7)).committed_offset)


class ClassicConsumer(ClassicMember):
    """A member of a classic group that sends subscriptions and reads assignments as a consumer does."""

    def __init__(self, broker: Reachable | InProcess, instance: str | None = None) -> None:
        super().__init__(broker, instance)
        self.owned: Told = {}

    def join(self, *protocols: tuple[str, bytes]) -> Any:
        """Join with the given protocols. By default, join with `range` and a subscription that lists the member's
        partitions."""
        held = [{"topic": topic, "partitions": owned} for topic, owned in self.owned.items()]
        subscription = from_plain(ConsumerProtocolSubscription, {"topics": ["orders"], "owned_partitions": held})
        self.ask_to_join(protocols or [("range", b"\0\1" + encode(subscription, 1))], session_ms=45_000)
        response = self.joined()
        return self.join(*protocols) if response.error_code == MEMBER_ID_REQUIRED else response

    def assign(self, given: Told | None = None) -> int:
        """Send a SyncGroup and return the error code. If the member is the leader, `given` is its own assignment. After success
        the member owns the assigned partitions.
        """
        code, assignment = self.sync(None if given is None else {self.member: write_assignment(given, 1)})
        if not code:
            self.owned = {each.topic: sorted(each.partitions) for each in read_assignment(assignment).assigned_partitions}
        return code


class Member(Actor):
    """A member of a consumer group (KIP-848). The member owns partitions as soon as a response assigns them; `beat` tells the
    broker so."""

    def __init__(self, broker: Reachable | InProcess, name: str, instance: str | None = None, group: str = TEAM) -> None:
        super().__init__(broker)
        self.name, self.instance, self.group = name, instance, group
        self.epoch = 0
        self.owned: Told = {}

    def ids(self) -> dict[str, bytes]:
        """Returns the ids of all topics, by name."""
        return dict(self.broker._call(lambda engine: {t.name: t.topic_id for t in engine.cluster.topics.values()}))

    def send(self, epoch: int, owned: Told | None = None, version: int = 1, **fields: Any) -> Any:
        """Send a heartbeat. Returns the whole response."""
        ids = self.ids()
        claimed = None if owned is None else [{"topic_id": ids[topic], "partitions": held} for topic, held in owned.items()]
        who = {"group_id": self.group, "member_id": self.name, "instance_id": self.instance, "member_epoch": epoch}
        response = self.ask(plain("ConsumerGroupHeartbeat", **(who | {"topic_partitions": claimed} | fields)), version)
        if not response.error_code:
            self.epoch = max(response.member_epoch, 0)
        return response

    def told(self, response: Any) -> Told | None:
        """Returns the assignment in a response, or None if the response has no assignment."""
        assert response.error_code == 0, (response.error_code, response.error_message)
        if response.assignment is None:
            return None
        names = {topic_id: name for name, topic_id in self.ids().items()}
        given = {names[each.topic_id]: list(each.partitions) for each in response.assignment.topic_partitions}
        return dict(sorted(given.items()))

    def join(self, *topics: str, **fields: Any) -> Told | None:
        """Join, and own the assigned partitions."""
        if "subscribed_topic_regex" not in fields:
            fields["subscribed_topic_names"] = list(topics or ["orders"])
        given = self.told(self.send(0, {}, rebalance_timeout_ms=60_000, **fields))
        self.owned = given or {}
        return given

    def beat(self, **fields: Any) -> Told | None:
        """Send a heartbeat with the owned partitions. If the response assigns partitions, the member then owns these
        partitions."""
        given = self.told(self.send(self.epoch, self.owned, **fields))
        if given is not None:
            self.owned = given
        return given

    def fault(self, epoch: int, owned: Told | None = None, **fields: Any) -> int:
        """Send a heartbeat. Returns the error code."""
        return int(self.send(epoch, owned, **fields).error_code)

    def leave(self, epoch: int = -1) -> int:
        """Send the heartbeat that leaves the group. Returns its error code."""
        return self.fault(epoch)

    def commit(self, offset: int, *, partition: int = 0, epoch: int | None = None, version: int = 9) -> int:
        """Commit an offset. Returns the error code."""
        at = self.epoch if epoch is None else epoch
        return self.code(offset_commit(self.group, offset, self.name, at, partition=partition), version)

    def fetch(self, **who: Any) -> tuple[int, int | None]:
        """Send an OffsetFetch. Returns the group's error code, and the offset or None."""
        group = sole(self.ask(offset_fetch_of(self.group, **who), 9).groups)
        return group.error_code, only(group).committed_offset if group.topics else None


class TransactionalProducer(Actor):
    """A transactional producer. `version` is the version of Produce, OLD or NEW."""

    def __init__(self, broker: Reachable | InProcess, txid: str = "till", version: int = NEW, timeout_ms: int = 60_000) -> None:
        super().__init__(broker)
        self.txid, self.version, self.timeout_ms = txid, version, timeout_ms
        self.pid = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def _took(self, response: Any) -> None:
        self.pid, self.epoch = response.producer_id, response.producer_epoch
        self.sequences.clear()

    def init(self, version: int = 5, current: tuple[int, int] = (-1, -1)) -> int:
        """Get a producer id and an epoch. Returns the error code."""
        self.ask(find_coordinator(self.txid, kind=TRANSACTION), 4)
        response = self.ask(init_producer_id(self.txid, self.timeout_ms, current), version)
        if not response.error_code:
            self._took(response)
        return int(response.error_code)

    def add(self, topic: str = "orders", partition: int = 0, version: int = 3) -> int:
        """Add a partition to the transaction. Returns the partition's error code."""
        request = add_partitions(self.txid, (self.pid, self.epoch), topic, [partition])
        return int(only(self.ask(request, version)).partition_error_code)

    def send(self, value: str, topic: str = "orders", partition: int = 0, **options: Any) -> Any:
        """Produce one record. Returns the partition's response."""
        where = (topic, partition)
        sequence = options.pop("sequence", self.sequences.get(where, 0))
        data = batch(sequence, 1, pid=self.pid, epoch=self.epoch, tag=value, transactional=True, **options)
        response = only(self.ask(produce_request(topic, data, partition, txid=self.txid), self.version))
        if not response.error_code:
            self.sequences[where] = sequence + 1
        return response

    def end(self, commit: bool = True, version: int | None = None) -> int:
        """Commit or abort the transaction. Returns the error code."""
        version = version or (5 if self.version >= NEW else 4)
        response = self.ask(end_txn(self.txid, (self.pid, self.epoch), commit), version)
        if not response.error_code and version >= 5:
            self._took(response)
        return int(response.error_code)

    def send_offsets(self, group: str, offset: int, topic: str = "orders", version: int = 5) -> int:
        """Commit a group's offset in the transaction. Returns the error code."""
        if version < 5:
            assert self.code(add_offsets(self.txid, (self.pid, self.epoch), group), 3) == 0
        return self.code(txn_offset_commit(self.txid, (self.pid, self.epoch), group, offset, topic=topic), version)


class Reader(Actor):
    """Reads partitions as a consumer does, with read_committed by default."""

    def __init__(self, broker: Reachable | InProcess, committed: bool = True) -> None:
        super().__init__(broker)
        self.committed = committed

    def fetch(self, topic: str = "orders", partition: int = 0, offset: int = 0) -> Any:
        """Send a Fetch. Returns the partition's response."""
        request = fetch(offset, topic=topic, partition=partition, isolation_level=int(self.committed))
        return only(self.ask(request, 12))

    def values(self, topic: str = "orders", partition: int = 0) -> list[str]:
        """Returns the values that a consumer would deliver to its application. Skips the records of aborted transactions. The
        Fetch response lists these transactions.
        """
        values: list[str] = []
        offset, aborting = 0, set[int]()
        while (response := self.fetch(topic, partition, offset)).records:
            waiting = sorted(response.aborted_transactions or [], key=lambda a: a.first_offset)
            for raw in iter_batches(response.records):
                header = read_header(raw)
                offset = header.last_offset + 1
                while waiting and waiting[0].first_offset <= header.last_offset:
                    aborting.add(waiting.pop(0).producer_id)
                records = list(iter_records(raw))
                if header.is_control:
                    aborting.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborting):
                    values += [(record.value or b"").decode() for record in records]
        return values

    def end(self, topic: str = "orders") -> int:
        """Returns the partition's end offset at the reader's isolation level."""
        return int(only(self.ask(list_offsets(-1, topic=topic, isolation_level=int(self.committed)), 6)).offset)

    def committed_offset(self, group: str, topic: str = "orders", stable: bool = True) -> tuple[int, int]:
        """Fetch a group's committed offset. Returns the error code and the offset."""
        self.ask(find_coordinator(group), 4)
        response = only(self.ask(offset_fetch(group, topic=topic, require_stable=stable), 7))
        return response.error_code, response.committed_offset
