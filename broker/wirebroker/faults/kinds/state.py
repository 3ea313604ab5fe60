"""**State**, which changes just before the matched request is handled:"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from wirebroker.deeds.errors import NothingToChange
from wirebroker.faults.acts import Injection
from wirebroker.faults.forms import FaultError
from wirebroker.faults.rules import NonNegative, Positive, Rule
from wirebroker.requests.effects import Outcome
from wirebroker.requests.facts import Batch, Facts

if TYPE_CHECKING:
    from wirebroker.deeds.broker import EngineBroker

__all__ = [
    "advance", "expire_member", "expire_producer", "expire_session", "expire_transactional_id", "fence", "lose_coordinator",
    "move_coordinator", "move_leader", "restart", "slow_reassignment", "truncate", "upgrade", "withdraw_acl",
]  # fmt: skip

LONGEST_MS = 366 * 86_400_000
"""`advance` can move the clock by at most this many ms."""


class expire_producer(Rule):
    """The partitions of the matched batches forget the producers of these batches. If the request is not a Produce, all
    partitions forget the producer that the request names."""

    example = 'faults.expire_producer(api="Produce", nth=5)'
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        broker, producer, count = injection.broker, injection.facts.producer, 0
        for batch in injection.batches:
            with suppress(NothingToChange):  # the batch may be for a partition that does not exist
                if batch is not None:
                    count += broker.expire_producer(batch.producer_id, batch.topic, batch.partition)
                elif producer is not None:
                    count += broker.expire_producer(producer[0])
        return count > 0


class expire_session(Rule):
    """The client's session ends (KIP-368), and the client must authenticate again. If the client sends another request first,
    the connection is closed."""

    example = 'faults.expire_session(principal="User:alice", api="Produce", nth=3)'
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        return injection.broker.expire_session(injection.exchange.connection)


class withdraw_acl(Rule):
    """The ACL `acl` is removed, as if an administrator had removed it, until the rule is unloaded. `acl` is written as in
    `MockKafka(acls=…)`."""

    acl: str

    example = 'faults.withdraw_acl("allow User:alice WRITE TOPIC orders", api="Produce", nth=3)'
    needs_broker: ClassVar[bool] = True

    def check_options(self) -> None:
        from wirebroker.security.acl_specs import acl_of  # imported here, because a proxy does not have this module

        try:
            acl_of(self.acl)
        except ValueError as wrong:
            raise FaultError("acl", f"withdraw_acl: {wrong}") from None

    def change(self, injection: Injection) -> bool:
        return injection.at_unload(injection.broker.withdraw_acl(self.acl))


class expire_transactional_id(Rule):
    """The coordinator forgets the transactional id, unless this id has an open transaction."""

    transactional_id: str

    example = 'faults.expire_transactional_id("till", api="InitProducerId", nth=2)'
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        injection.broker.expire_transactional_id(self.transactional_id)
        return True


class fence(Rule):
    """Another producer starts with the same transactional id. The producer epoch increases, and an open transaction is
    aborted."""

    transactional_id: str

    example = 'faults.fence("till", api="EndTxn", nth=1)'
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        injection.broker.fence(self.transactional_id)
        return True


class slow_reassignment(Rule):
    """If a reassignment begins within the next `ms` milliseconds, it stays in progress until the end of this time. Only then do
    the new replicas become in sync.
    """

    ms: Positive

    example = 'faults.slow_reassignment(ms=2000, api="AlterPartitionReassignments")'
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        injection.broker.slow_reassignments(self.ms)
        return True


class expire_member(Rule):
    """The coordinator removes the group member that sends the request, as if the member's heartbeats had not arrived in
    time."""

    example = 'faults.expire_member(api="OffsetCommit", group="team", nth=2)'
    only_apis: ClassVar[tuple[str, ...]] = (
        "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "TxnOffsetCommit", "ConsumerGroupHeartbeat",
        "ShareGroupHeartbeat", "StreamsGroupHeartbeat",
    )  # fmt: skip
    """The APIs whose requests name a member."""
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        member_id = getattr(injection.request, "member_id", "")
        return injection.broker.expire_member(injection.facts.groups, member_id)


class move_leader(Rule):
    """In each matching partition of the request, another in-sync replica becomes the leader. If there is no other in-sync
    replica, the leader's replica is moved to another broker first.
    """

    example = 'faults.move_leader(api="Produce", topic="orders", nth=3)'
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        facts = injection.facts
        wanted = facts.partitions if injection.only is None else injection.only
        partitions = [(topic, index) for topic, index in wanted if index is not None]
        return injection.broker.move_leaders(partitions) > 0


class move_coordinator(Rule):
    """Another broker becomes the coordinator of the groups and transactional ids that the request names."""

    example = 'faults.move_coordinator(api="EndTxn", nth=1)'
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        facts = injection.facts
        return injection.broker.move_coordinator(facts.groups, facts.transactional_ids) > 0


class advance(Rule):
    """The broker's clock moves forward by `ms` milliseconds before the request is handled. So sessions and transactions may
    time out, and producers, offsets and records may expire."""

    ms: Annotated[int, Meta(ge=1, le=LONGEST_MS, extra={"unit": "ms"})]

    example = 'faults.advance(120_000, api="OffsetCommit", nth=2)'
    needs_broker: ClassVar[bool] = True

    def before(self, injection: Injection) -> Outcome:
        injection.broker.advance(injection.exchange.connection, self.ms)
        return injection.handle_later(self.ms)


class restart(Rule):
    """All brokers stop and start again. The brokers shut down cleanly (`mode="clean"`), or stop as after kill −9
    (`mode="kill"`). The request is not handled."""

    mode: Literal["clean", "kill"] = "clean"

    example = 'faults.restart(mode="kill", api="Produce", nth=7)'
    needs_broker: ClassVar[bool] = True

    def before(self, injection: Injection) -> Outcome:
        injection.broker.restart(self.mode)
        return Outcome.CLOSED


class upgrade(Rule):
    """The brokers restart with the release `to`, one after the other. Each broker is down for `ms` milliseconds. The broker
    that gets the request is the first to restart, and the request is not handled.
    """

    to: str
    ms: NonNegative = 0

    example = 'faults.upgrade("kafka-4.4", api="EndTxn", nth=1)'
    needs_broker: ClassVar[bool] = True
    may_miss: ClassVar[bool] = True

    def check_options(self) -> None:
        # Imported here, because a proxy does not have this module.
        from wirebroker.core.releases.naming import RELEASE_PROFILES, unknown

        if self.to not in RELEASE_PROFILES:
            raise FaultError("to", f"upgrade: {unknown(self.to, RELEASE_PROFILES)}")

    def check_broker(self, broker: EngineBroker) -> None:
        super().check_broker(broker)
        if why := broker.why_no_upgrade(self.to):
            raise FaultError("to", f"upgrade: {why}")

    def before(self, injection: Injection) -> Message | Outcome:
        exchange = injection.exchange
        try:
            begin = injection.broker.upgrade(self.to, exchange.connection.node_id, self.ms)
        except NothingToChange as reason:
            self.missed = str(reason)
            injection.report(False)
            return injection.request
        injection.report(True)
        begin(exchange.now)
        return Outcome.CLOSED


class truncate(Rule):
    """The partition loses the batch that contains `offset` and all later batches, as after an unclean election. The producers'
    states no longer include these batches."""

    offset: NonNegative

    example = 'faults.truncate(4, topic="orders", partition=0, api="Fetch", nth=1)'
    needed: ClassVar[tuple[str, ...]] = ("topic", "partition")
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        topic, partition = self.match.topic or "", self.match.partition or 0
        before = injection.broker.log_end_offset(topic, partition)
        return injection.broker.truncate(topic, partition, self.offset) != before


class lose_coordinator(Rule):
    """FindCoordinator gets the error COORDINATOR_NOT_AVAILABLE. Requests that are sent to a coordinator get the error
    NOT_COORDINATOR."""

    example = 'faults.lose_coordinator(group="team", times=3)'
    only_apis: ClassVar[tuple[str, ...]] = (
        "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
        "OffsetDelete", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "DescribeGroups", "DeleteGroups",
        "ShareGroupHeartbeat", "ShareGroupDescribe", "StreamsGroupHeartbeat", "StreamsGroupDescribe",
        "TxnOffsetCommit", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions",
    )  # fmt: skip
    """The APIs that only a coordinator handles, and the API that finds the coordinator."""

    def matching(self, facts: Facts) -> list[Batch | None]:
        coordinated = facts.api in self.only_apis and bool(facts.groups or facts.transactional_ids)
        return super().matching(facts) if coordinated else []

    def before(self, injection: Injection) -> Message | Outcome:
        finds = injection.facts.api == "FindCoordinator"
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if finds else ErrorCode.NOT_COORDINATOR
        return injection.refuse(code, None)
