"""A group whose members send ConsumerGroupHeartbeat (KIP-848): epochs never fall, and a partition has one owner.

A member owns the partitions that the last response to the member has assigned. After the coordinator has taken back a
partition, the member still owns it until the member sends a heartbeat that does not list it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka_model.classic import Wrong
from kafka_model.history import Exchange
from kafka_model.reading import code_of

UNKNOWN_MEMBER, FENCED_EPOCH, NO_GROUP = 25, 110, 69
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
SESSION_MS = 45_000
Owned = set[tuple[Any, int]]


@dataclass(eq=False)
class Member:
    instance: str | None
    epoch: int
    former_epoch: int
    heard: int
    patience_ms: int
    """If a member has sent no request for this time, the coordinator may have removed the member."""
    assigned: Owned = field(default_factory=set)
    leaving: Owned = field(default_factory=set)
    """Partitions that the coordinator has taken back, but that the member has not given up yet."""


def _partitions(told: list[Any] | None) -> Owned | None:
    return None if told is None else {(each["topic_id"], index) for each in told for index in each.get("partitions", ())}


class Consumers:
    """A cluster's groups that use KIP-848."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Member]] = {}
        self._timeouts: dict[tuple[str, str], int] = {}
        """For each group and member: the last rebalance timeout that the member has sent. A member need not send it again."""

    def forget(self) -> None:
        self.held.clear()

    def see(self, exchange: Exchange) -> None:
        """Applies an exchange to its group. Raises Wrong."""
        asked, response = exchange.request, exchange.response
        if exchange.api == "DeleteGroups":
            for each in (response or {}).get("results", ()):
                if not code_of(each):
                    self.held.pop(each.get("group_id", ""), None)
        if exchange.api != "ConsumerGroupHeartbeat":
            return
        members = self.held.setdefault(asked.get("group_id", ""), {})
        for member_id in [each for each, held in members.items() if exchange.now - held.heard >= held.patience_ms]:
            del members[member_id]
        if response is None:
            members.clear()  # nobody knows whether the broker has handled the request
            return
        code = code_of(response)
        epoch, member_id = asked.get("member_epoch", 0), response.get("member_id") or asked.get("member_id", "")
        known = members.get(member_id)
        if known is not None and code == UNKNOWN_MEMBER and asked.get("instance_id") not in (None, known.instance):
            return  # the group does not know the instance id
        if known is not None and epoch > 0 and not self._fits(known, asked, epoch) and code in (0, UNKNOWN_MEMBER):
            raise Wrong(exchange, f"code {FENCED_EPOCH}, because the member has epoch {known.epoch}")
        if code in (UNKNOWN_MEMBER, FENCED_EPOCH, NO_GROUP):
            if known is not None and code != FENCED_EPOCH and epoch >= 0:
                raise Wrong(exchange, "any other code, because the member is known")
        elif not code and epoch == LEAVES:
            members.pop(member_id, None)
        elif not code and epoch != LEAVES_FOR_A_WHILE:
            self._stay(exchange, members, member_id)

    @staticmethod
    def _fits(known: Member, asked: dict[str, Any], epoch: int) -> bool:
        claimed = _partitions(asked.get("topic_partitions"))
        repeats = epoch == known.former_epoch and claimed is not None and claimed <= known.assigned | known.leaving
        return epoch == known.epoch or repeats

    def _stay(self, exchange: Exchange, members: dict[str, Member], member_id: str) -> None:
        asked, response = exchange.request, exchange.response or {}
        epoch, instance = response.get("member_epoch", 0), asked.get("instance_id")
        place, timeout = (asked.get("group_id", ""), member_id), asked.get("rebalance_timeout_ms", -1)
        if timeout > 0:
            self._timeouts[place] = timeout
        patience = min(SESSION_MS, self._timeouts.get(place, SESSION_MS))
        held = members.get(member_id) or self._former(members, instance)
        if held is None:
            held = Member(instance, epoch, epoch, exchange.now, patience)
        elif epoch < held.epoch and asked.get("member_epoch", 0) > 0:
            raise Wrong(exchange, f"epoch {held.epoch} or a higher one")
        for other in [each for each, member in members.items() if member is held]:
            del members[other]
        members[member_id] = held
        if instance is not None:  # a member that joins again may have another instance id
            held.instance = instance
        if epoch != held.epoch:
            held.former_epoch, held.epoch = held.epoch, epoch
        held.heard, held.patience_ms = exchange.now, patience
        claimed, given = _partitions(asked.get("topic_partitions")), response.get("assignment")
        if given is not None:
            assigned = _partitions(given.get("topic_partitions", [])) or set()
            taken, held.assigned = held.assigned - assigned, assigned
        else:
            taken = set()
        owned = [held.leaving, taken] if claimed is None else [each for each in (held.leaving, taken) if claimed & each]
        held.leaving = set().union(*owned)
        for other, owned in self._owned(members):
            if other != member_id and (twice := owned & held.assigned):
                raise Wrong(exchange, f"an assignment without {sorted(twice, key=str)}, which {other} owns")

    @staticmethod
    def _former(members: dict[str, Member], instance: str | None) -> Member | None:
        return next((each for each in members.values() if instance is not None and each.instance == instance), None)

    @staticmethod
    def _owned(members: dict[str, Member]) -> Iterator[tuple[str, Owned]]:
        for member_id, member in members.items():
            yield member_id, member.assigned | member.leaving
