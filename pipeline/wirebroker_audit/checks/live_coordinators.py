"""Asks a live cluster about open transactions: which have ended since the log was read, and which states do their coordinators
have (KIP-664)?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from kafkawire.coordinator_records.transaction_log import PartitionsSchema, TransactionLogValue
from kafkawire.errors import ErrorCode
from kafkawire.messages import describe_producers as producers
from kafkawire.messages import describe_transactions as transactions
from kafkawire.messages.describe_cluster import DescribeClusterRequest
from kafkawire.messages.list_transactions import ListTransactionsRequest
from wirebroker_audit.checks.coordinators import NAMES, Coordinators, Open
from wirebroker_audit.wire import BrokerError, Client

_ADMINISTRATES = 1 << 7 | 1 << 9
"""ALTER and CLUSTER_ACTION of the cluster, as bits of `cluster_authorized_operations` (AclOperation)."""


def live_coordinators(client: Client, opened: Sequence[Open], now_ms: int) -> Coordinators:
    """Asks the leaders which of the transactions are still open, and asks the coordinators for the transactions' states. Raises
    BrokerError.

    A coordinator leaves out transactional ids that the client may not describe. So the list is certainly complete only if the
    client may administer the cluster.
    """
    running = {(topic, partition, producer): start for topic, partition, producer, start in _running(client, opened)}
    ended = [each for each in opened if not 0 <= running.get(_key(each), -1) <= each.first_offset]
    states = {}
    wanted, nodes = sorted({each.producer_id for each in opened}), client.nodes()
    for node in nodes:
        listed = client.ask(node, ListTransactionsRequest(state_filters=[], producer_id_filters=wanted))
        if listed.error_code:
            return Coordinators.of_cluster({}, now_ms, ended, is_whole=False)
        names = [each.transactional_id for each in listed.transaction_states]
        told = client.ask(node, transactions.DescribeTransactionsRequest(transactional_ids=names)) if names else None
        for each in told.transaction_states if told is not None else ():
            if each.error_code == ErrorCode.NONE:
                states[each.transactional_id] = _state(each)
    cluster = client.ask(nodes[0], DescribeClusterRequest(include_cluster_authorized_operations=True))
    is_whole = cluster.cluster_authorized_operations & _ADMINISTRATES == _ADMINISTRATES
    return Coordinators.of_cluster(states, now_ms, ended, is_whole=is_whole)


def _key(opened: Open) -> tuple[str, int, int]:
    return opened.topic, opened.partition, opened.producer_id


def _running(client: Client, opened: Sequence[Open]) -> Iterator[tuple[str, int, int, int]]:
    """Asks each partition's present leader, and yields topic, partition, producer id and first offset of each open transaction.
    If the leader does not list the producers of a partition, all transactions on this partition count as open.
    """
    partitions: dict[tuple[str, int], list[Open]] = {}
    for each in opened:
        partitions.setdefault((each.topic, each.partition), []).append(each)
    client.refresh(tuple({topic for topic, _ in partitions}))
    led: dict[str, dict[str, list[int]]] = {}
    for topic, partition in partitions:
        led.setdefault(client.leader(topic, partition), {}).setdefault(topic, []).append(partition)
    told: dict[tuple[str, int], producers.PartitionResponse] = {}
    for leader, topics in led.items():
        named = [producers.TopicRequest(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()]
        with suppress(BrokerError):
            response = client.ask(leader, producers.DescribeProducersRequest(topics=named))
            told |= {(topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions}
    for where, here in partitions.items():
        found = told.get(where)
        if found is None or found.error_code:
            yield from ((*where, each.producer_id, each.first_offset) for each in here)
        else:
            yield from ((*where, each.producer_id, each.current_txn_start_offset) for each in found.active_producers)


def _state(told: transactions.TransactionState) -> TransactionLogValue:
    """Returns a described transaction in the form of the record that its coordinator writes."""
    return TransactionLogValue(
        producer_id=told.producer_id, producer_epoch=told.producer_epoch, transaction_timeout_ms=told.transaction_timeout_ms,
        transaction_status=NAMES.get(told.transaction_state, 0),
        transaction_partitions=[PartitionsSchema(topic=each.topic, partition_ids=each.partitions) for each in told.topics],
        transaction_last_update_timestamp_ms=told.transaction_start_time_ms,
        transaction_start_timestamp_ms=told.transaction_start_time_ms,
    )  # fmt: skip
