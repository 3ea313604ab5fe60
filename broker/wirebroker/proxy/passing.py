"""Learns transactions and groups from the exchanges that a proxy forwards, and traces their changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.batches import BatchHeader
from kafkawire.declare import Message
from kafkawire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.registry import FETCH, KEYS
from wirebroker.proxy.directory import LearnedDirectory
from wirebroker.proxy.groups import PassingGroup, PassingGroups
from wirebroker.proxy.sender import Sender
from wirebroker.proxy.transactions import PassingTransaction, PassingTransactions

COORDINATED = frozenset(
    KEYS[name]
    for name in (
        "AddOffsetsToTxn", "AddPartitionsToTxn", "ConsumerGroupHeartbeat", "DeleteGroups", "EndTxn", "Heartbeat",
        "InitProducerId", "JoinGroup", "LeaveGroup", "ListOffsets", "OffsetCommit", "OffsetDelete", "OffsetFetch",
        "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "SyncGroup", "TxnOffsetCommit",
    )
)  # fmt: skip
"""The APIs from which transactions and groups are learned. Requests of these APIs are rare in comparison with Produce and
Fetch."""
Fold = Callable[[int, Sender, Any, Any], PassingTransaction | PassingGroup | None]
Changed = Callable[[PassingTransaction | PassingGroup], None]


class Passing:
    """The transactions and groups in forwarded requests. `changed` is called for each change."""

    def __init__(self, directory: LearnedDirectory, changed: Changed) -> None:
        self.transactions = PassingTransactions()
        self.groups = PassingGroups(directory)
        self._changed = changed
        transactions, groups = self.transactions, self.groups
        self._folds: dict[int, Fold] = {
            KEYS["InitProducerId"]: self._initialised, KEYS["AddPartitionsToTxn"]: transactions.added,
            KEYS["AddOffsetsToTxn"]: transactions.offsets_added, KEYS["EndTxn"]: self._ended,
            KEYS["TxnOffsetCommit"]: groups.committed_in_transaction, KEYS["OffsetCommit"]: groups.committed,
            KEYS["OffsetFetch"]: groups.fetched, KEYS["OffsetDelete"]: groups.offsets_deleted,
            KEYS["DeleteGroups"]: groups.deleted, KEYS["JoinGroup"]: groups.joined, KEYS["SyncGroup"]: groups.synced,
            KEYS["Heartbeat"]: groups.heard, KEYS["LeaveGroup"]: groups.left, KEYS["ListOffsets"]: groups.listed,
            KEYS["ConsumerGroupHeartbeat"]: groups.beaten, KEYS["ShareGroupHeartbeat"]: groups.beaten,
            KEYS["StreamsGroupHeartbeat"]: groups.beaten,
        }  # fmt: skip

    def observe(self, now: int, key: int, sender: Sender, request: Message, response: Message) -> None:
        """Learn about transactions and groups from an exchange that was forwarded."""
        if key == FETCH:
            self.groups.read(response)  # type: ignore[arg-type]
        elif (fold := self._folds.get(key)) is not None and (changed := fold(now, sender, request, response)) is not None:
            self._changed(changed)

    def wrote(self, now: int, sender: Sender, transactional_id: str, topic: str, batch: BatchHeader, partition: int) -> None:
        """Note a transactional batch that was stored. Since KIP-890, such a batch also adds its partition to the
        transaction."""
        of = batch.producer_id, batch.producer_epoch
        if (changed := self.transactions.written(now, sender, transactional_id, of, [(topic, partition)])) is not None:
            self._changed(changed)

    def _initialised(
        self, now: int, sender: Sender, request: InitProducerIdRequest, response: InitProducerIdResponse
    ) -> PassingTransaction | None:
        if (aborted := self.transactions.superseded(now, request, response)) is not None:
            self._changed(aborted)
        return self.transactions.initialised(now, sender, request, response)

    def _ended(self, now: int, sender: Sender, request: EndTxnRequest, response: EndTxnResponse) -> PassingTransaction | None:
        self.groups.transaction_ended(request, response)
        return self.transactions.ended(now, sender, request, response)
