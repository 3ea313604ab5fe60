"""The state of groups and transactions in the requests through a proxy, as objects of the module `states`."""

from __future__ import annotations

from collections.abc import Iterable

from wirebroker.proxy.groups import PassingGroup, PassingGroups, PassingMember
from wirebroker.proxy.proxy import Proxy
from wirebroker.proxy.transactions import PassingTransaction
from wirebroker.testing.states import Group, Member, Offset, Partitions, Transaction


def transactions(proxy: Proxy) -> dict[str, Transaction]:
    """Returns every transactional id that the proxy has seen in requests, with the state of its transaction."""
    return {each.transactional_id: _transaction(each) for each in proxy.watch().transactions.at(proxy.now)}


def groups(proxy: Proxy) -> dict[str, Group]:
    """Returns every group that the proxy has seen in requests, with its members and committed offsets."""
    held = proxy.watch().groups
    return {each.group_id: _group(each, held) for each in held.at(proxy.now)}


def _transaction(each: PassingTransaction) -> Transaction:
    return Transaction(
        each.transactional_id, each.state, each.producer_id, each.producer_epoch, each.timeout_ms, each.started, each.updated,
        _by_topic(each.partitions), *each.sender,
    )  # fmt: skip


def _by_topic(partitions: Iterable[tuple[str, int]]) -> list[Partitions]:
    indexes: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        indexes.setdefault(topic, []).append(index)
    return [Partitions(topic, held) for topic, held in indexes.items()]


def _group(group: PassingGroup, held: PassingGroups) -> Group:
    committed = [(where, each, False) for where, each in group.offsets.items()]
    committed += [(where, each, True) for (_, where), each in group.pending.items()]
    offsets = []
    for where, each, pending in committed:
        end = held.end_of(where)
        lag = -1 if end < 0 else max(end - each.offset, 0)
        offsets.append(Offset(*where, each.offset, each.leader_epoch, each.metadata, each.time, pending, lag))
    return Group(
        group.group_id, group.kind, group.state, group.generation, group.protocol_type, group.protocol, group.leader,
        list(map(_member, group.members.values())), offsets,
    )  # fmt: skip


def _member(each: PassingMember) -> Member:
    assignment = None if each.assignment is None else [Partitions(topic, held) for topic, held in each.assignment.items()]
    client_id, host = each.sender
    return Member(
        each.member_id, each.instance_id, client_id, f"/{host}", assignment, each.heartbeat
    )  # as Java writes an address
