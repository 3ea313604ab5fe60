"""Checks the values in responses that describe the brokers' state: the values must be those of the present state, the response
must have everything that the request's filters match, and nothing else. After each step, an administrator asks such questions.

For each API, a function returns two dictionaries with the same kinds of keys: the values that the response tells, and the
values that it should tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from fuzzing.script import Finding
from requesting import plain
from simulation.whole.done import Key
from simulation.whole.reading import EARLIEST, LATEST, NEWEST
from wirebroker.core.acls import PatternType
from wirebroker.core.cluster import SHARE_TOPIC
from wirebroker.core.groups.classic import ClassicGroupState, Group
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.group import Where
from wirebroker.core.groups.share_group import ShareGroup
from wirebroker.core.groups.streams_group import StreamsGroup
from wirebroker.core.producers import unpack

if TYPE_CHECKING:
    from simulation.whole.world import Link, Sent, World

Facts = Mapping[Key, Any]
Told = tuple[Facts, Facts]
ABSENT = "absent"
ANY, MATCH = 1, 2
EXACT, DEFAULT, SPECIFIED = range(3)
LAG_FROM, PATTERN_FROM, DURATION_FROM = 1, 2, 1
STATES_FROM, TYPES_FROM = 4, 5
EPOCHS_FROM, STABLE_FROM = 5, 7
UNSTABLE_OFFSET_COMMIT = 88
FULL = {"ListGroups", "ListTransactions", "DescribeLogDirs", "DescribeAcls", "DescribeClientQuotas", "ListConfigResources"}
"""APIs whose responses have everything that the filters match, unless the client lacks rights."""


def described(world: World, link: Link, sent: Sent) -> None:
    """Checks a response. If requests run in slices, the state may have changed since the request was handled. A release that is
    upgraded may describe its state in another way. Raises Finding."""
    describe, response = DESCRIBED.get(sent.api), sent.response
    if describe is None or world.setting.sliced or world.setting.release or getattr(response, "error_code", 0):
        return
    told, expected = describe(world, link.node, sent)
    for key, value in told.items():
        if value != expected.get(key, ABSENT):
            raise Finding(f"{sent.api}: not the present state", f"{sent} {key}: {value}, expected {expected.get(key, ABSENT)}")
    if sent.api in FULL and (not world.setting.secured or link.number < 0) and (lacks := expected.keys() - told.keys()):
        raise Finding(f"{sent.api}: something is left out", f"{sent}: {sorted(lacks, key=repr)}, {sent.request}")


# Groups


def _classic_groups(world: World, _: int, sent: Sent) -> Told:
    told: dict[Key, Any] = {}
    expected: dict[Key, Any] = {}
    for each in sent.response.groups:  # type: ignore[union-attr]
        group = world.engine.groups.groups.get(each.group_id)
        if each.error_code or not isinstance(group, Group):
            continue
        stable = group.state is ClassicGroupState.STABLE
        told[each.group_id,] = each.group_state, each.protocol_type, each.protocol_data
        expected[each.group_id,] = group.state.value, group.protocol_type or "", (group.protocol or "") if stable else ""
        told[each.group_id, "members"] = {
            (one.member_id, one.client_id, one.client_host, bytes(one.member_metadata), bytes(one.member_assignment))
            for one in each.members
        }
        expected[each.group_id, "members"] = {
            (one.member_id, one.client_id, one.client_host, one.metadata(group.protocol) if stable else b"", one.assignment)
            for one in group.members.values()
        }
    return told, expected


def _modern_groups(world: World, _: int, sent: Sent) -> Told:
    told: dict[Key, Any] = {}
    expected: dict[Key, Any] = {}
    for each in sent.response.groups:  # type: ignore[union-attr]
        group: Any = world.engine.groups.groups.get(each.group_id)
        if each.error_code or not isinstance(group, ConsumerGroup | ShareGroup):
            continue
        told[each.group_id,] = each.group_state, each.group_epoch, each.assignment_epoch
        expected[each.group_id,] = group.state_name, group.epoch, group.assignment_epoch
        for one in each.members:
            named = one.rack_id, one.client_id, one.client_host, one.member_epoch, sorted(one.subscribed_topic_names)
            told[each.group_id, one.member_id] = (*named, _assigned(one.assignment))
            told[each.group_id, one.member_id, "target"] = _assigned(getattr(one, "target_assignment", one.assignment))
            told[each.group_id, one.member_id, "own"] = [
                getattr(one, name, None) for name in ("instance_id", "subscribed_topic_regex")
            ]
        for one in group.members.values():
            named = one.rack_id, one.client_id, one.client_host, one.epoch, sorted(one.topics)
            held = _partitions(world, one.assigned, getattr(one, "revoking", {}))
            target = _partitions(world, group.targets.get(one.member_id, {})) if isinstance(group, ConsumerGroup) else held
            expected[each.group_id, one.member_id] = (*named, held)
            expected[each.group_id, one.member_id, "target"] = target
            expected[each.group_id, one.member_id, "own"] = [getattr(one, name, None) for name in ("instance_id", "regex")]
    return told, expected


def _assigned(assignment: Any) -> set[tuple[str, int]]:
    return {(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions}


def _partitions(world: World, *held: Mapping[bytes, Iterable[int]]) -> set[tuple[str, int]]:
    known = world.engine.cluster.topics_by_id
    return {(known[topic].name, index) for each in held for topic in each if topic in known for index in each[topic]}


def _listed_groups(world: World, node: int, sent: Sent) -> Told:
    states = {each.lower().strip() for each in getattr(sent.request, "states_filter", ())}
    types = {each.lower() for each in getattr(sent.request, "types_filter", ())}
    told, expected = {}, {}
    for each in sent.response.groups:  # type: ignore[union-attr]
        told[each.group_id,] = each.protocol_type, each.group_state, each.group_type
    for name, group in world.engine.groups.groups.items():
        state = {"NotReady": "not_ready"}.get(group.state_name, group.state_name.lower())
        fits = (not states or state in states) and (not types or group.kind in types)
        if fits and world.engine.cluster.coordinator("group", name) == node:
            shown = group.state_name if sent.version >= STATES_FROM else "", group.kind if sent.version >= TYPES_FROM else ""
            expected[name,] = group.protocol_type or "", *shown
    return told, expected


def _offsets(world: World, _: int, sent: Sent) -> Told:
    request, response, version, offsets = sent.request, sent.response, sent.version, world.engine.groups.offsets
    groups: Any = response.groups if version >= 8 else [response]  # type: ignore[union-attr]
    told, expected = {}, {}
    for group in groups:
        name = group.group_id if version >= 8 else request.group_id
        held_by: Any = world.engine.groups.groups.get(name)
        asked = next((each for each in getattr(request, "groups", ()) if each.group_id == name), None)
        if version >= 9 and asked and asked.member_id and not group.error_code and isinstance(held_by, ConsumerGroup):
            member = held_by.members.get(asked.member_id)
            told[name, asked.member_id] = asked.member_epoch
            expected[name, asked.member_id] = member.epoch if member is not None else ABSENT
        for topic in group.topics if not group.error_code else ():
            known = world.engine.cluster.topics_by_id.get(bytes(getattr(topic, "topic_id", b"")))
            where = topic.name or (known.name if known else "")
            for part in topic.partitions if where else ():
                if part.error_code not in (0, UNSTABLE_OFFSET_COMMIT):
                    continue
                key = name, where, part.partition_index
                told[key] = part.error_code, part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                held = offsets.of(name).get((where, part.partition_index))
                found = (
                    (held.offset, held.leader_epoch if version >= EPOCHS_FROM else -1, held.metadata) if held else (-1, -1, "")
                )
                unstable = getattr(request, "require_stable", False) and offsets.waits(name, (where, part.partition_index))
                expected[key] = (UNSTABLE_OFFSET_COMMIT, -1, -1, "") if unstable else (0, *found)
    return told, expected


def _share_offsets(world: World, _: int, sent: Sent) -> Told:
    told, expected = {}, {}
    for group in sent.response.groups:  # type: ignore[union-attr]
        for topic in group.topics if not group.error_code else ():
            for part in topic.partitions:
                key = group.group_id, bytes(topic.topic_id), part.partition_index
                state = world.engine.groups.share_state.states.get(key)
                partition = world.engine.cluster.partition(topic.topic_name, part.partition_index)
                if part.error_code or state is None or partition is None:
                    continue
                told[key] = part.start_offset, getattr(part, "lag", -1)
                known = sent.version >= LAG_FROM and -1 not in (state.start_offset, state.completed)
                lag = partition.high_watermark - state.start_offset - state.completed if known else -1
                expected[key] = state.start_offset, lag
    return told, expected


def _commit(world: World, _: int, sent: Sent) -> Told:
    """OffsetCommit: a member commits with its present generation or epoch. A member of a consumer group or a streams group may
    also commit with an old epoch, if it has owned the partitions since then."""
    request, topics = sent.request, sent.response.topics  # type: ignore[union-attr]
    group: Any = world.engine.groups.groups.get(request.group_id)
    epoch = request.generation_id_or_member_epoch
    accepted = [(topic, part.partition_index) for topic in topics for part in topic.partitions if not part.error_code]
    told, expected = {}, {}
    for topic, index in accepted if epoch >= 0 else ():
        member = group.members.get(request.member_id) if group is not None else None
        present = -1 if member is None else group.generation if isinstance(group, Group) else member.epoch
        found = world.engine.cluster.find_topic(topic.name, bytes(topic.topic_id))
        if isinstance(group, ConsumerGroup | StreamsGroup) and member is not None and found is not None:
            since = group.has_since(member, Where(found.topic_id, found.name, index))
            present = epoch if since is not None and since <= epoch < present else present
        told[request.member_id, str(topic.name), index], expected[request.member_id, str(topic.name), index] = epoch, present
    return told, expected


def _generation(world: World, _: int, sent: Sent) -> Told:
    """Heartbeat and SyncGroup: a member has its present generation."""
    request, group = sent.request, world.engine.groups.groups.get(sent.request.group_id)
    if not isinstance(group, Group):
        return {}, {}
    key = (request.member_id,)
    return {key: request.generation_id}, {key: group.generation if request.member_id in group.members else ABSENT}


# Transactions and producers


def _transactions(world: World, _: int, sent: Sent) -> Told:
    held = world.engine.transactions.transactions
    told, expected = {}, {}
    for each in sent.response.transaction_states:  # type: ignore[union-attr]
        if not each.error_code:
            times = each.transaction_timeout_ms, each.transaction_start_time_ms
            added = {(topic.topic, index) for topic in each.topics for index in topic.partitions}
            told[each.transactional_id,] = each.transaction_state, each.producer_id, each.producer_epoch, *times, added
    for name, one in held.items():
        times = one.timeout_ms, one.started
        expected[name,] = one.state.value, one.producer_id, one.producer_epoch, *times, one.partitions
    return told, expected


def _listed_transactions(world: World, node: int, sent: Sent) -> Told:
    request, held, now = sent.request, world.engine.transactions.transactions, world.now
    told = {
        (each.transactional_id,): (each.transaction_state, each.producer_id)
        for each in sent.response.transaction_states  # type: ignore[union-attr]
    }
    longest = request.duration_filter if sent.version >= DURATION_FROM else -1
    expected = {
        (name,): (one.state.value, one.producer_id)
        for name, one in held.items()
        if (not request.state_filters or one.state.value in request.state_filters)
        and (not request.producer_id_filters or one.producer_id in request.producer_id_filters)
        and (longest < 0 or now - one.started > longest)
        and world.engine.cluster.coordinator("transaction", name) == node
        and (not getattr(request, "transactional_id_pattern", None) or (name,) in told)
    }
    return told, expected


def _producers(world: World, node: int, sent: Sent) -> Told:
    told, expected = {}, {}
    for topic in sent.response.topics:  # type: ignore[union-attr]
        for part in topic.partitions:
            partition = world.engine.cluster.partition(topic.name, part.partition_index)
            if part.error_code or partition is None or partition.leader != node:
                continue
            for each in part.active_producers:
                epochs = each.producer_epoch, each.coordinator_epoch
                last = each.last_sequence, each.last_timestamp
                told[topic.name, part.partition_index, each.producer_id] = *epochs, *last, each.current_txn_start_offset
            for key, state in partition.producers.items():
                one = unpack(state)
                epochs, last = (one.producer_epoch, one.coordinator_epoch), (one.last_sequence, one.last_timestamp)
                expected[topic.name, part.partition_index, key] = *epochs, *last, one.current_txn_first_offset
    return told, expected


# Topics, settings and security


def _replicas(world: World, node: int, sent: Sent) -> Told:
    wanted = sent.request.topics and {(topic.topic, index) for topic in sent.request.topics for index in topic.partitions}
    told = {
        (result.log_dir, topic.name, part.partition_index, part.is_future_key): (part.partition_size, part.offset_lag)
        for result in sent.response.results  # type: ignore[union-attr]
        for topic in result.topics
        for part in topic.partitions
    }
    expected: dict[Key, Any] = {}
    for partition in world.engine.cluster.partitions():
        where = partition.topic, partition.index
        if node not in partition.replicas or (sent.request.topics is not None and where not in wanted):
            continue
        size = sum(segment.size for segment in partition.log.segments)
        expected[world.engine.cluster.log_dirs.of(partition, node), *where, False] = size, 0
        if (future := world.engine.cluster.log_dirs.future(partition, node)) is not None:
            expected[future, *where, True] = 0, partition.log_end_offset
    return told, expected


def _acls(world: World, _: int, sent: Sent) -> Told:
    told = {
        (
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        ): 1
        for each in sent.response.resources  # type: ignore[union-attr]
        for acl in each.acls
    }
    return told, dict.fromkeys(_matching(world, sent.request), 1)


def _left_acls(world: World, _: int, sent: Sent) -> Told:
    """For DeleteAcls: tells which ACLs are left that should be deleted, and which were deleted that should not be."""
    asked, results = sent.request.filters, sent.response.filter_results  # type: ignore[union-attr]
    gone: dict[Key, Any] = {}
    for wanted, result in zip(asked, results, strict=True):
        for acl in result.matching_acls:
            if not _fits(wanted, acl):
                gone[acl.resource_name, str(acl)] = "deleted"
        if not result.error_code:
            gone |= dict.fromkeys(_matching(world, wanted), "left")
    return gone, {}


def _matching(world: World, wanted: Any) -> Iterator[Key]:
    for acl in world.engine.cluster.acls:
        if _fits(wanted, acl):
            place = acl.resource_type, acl.name, acl.pattern_type
            yield (*place, acl.principal, acl.host, acl.operation, acl.permission)


def _fits(wanted: Any, acl: Any) -> bool:
    """Tells whether a filter matches an ACL."""
    name = getattr(acl, "name", None) or acl.resource_name
    permission = acl.permission if hasattr(acl, "permission") else acl.permission_type
    pattern, named = wanted.pattern_type_filter, wanted.resource_name_filter
    pairs = (
        (wanted.resource_type_filter, acl.resource_type),
        (wanted.operation, acl.operation),
        (wanted.permission_type, permission),
    )
    texts = (wanted.principal_filter, acl.principal), (wanted.host_filter, acl.host)
    if any(each not in (ANY, of) for each, of in pairs) or any(each not in (None, of) for each, of in texts):
        return False
    if pattern not in (ANY, MATCH, acl.pattern_type):
        return False
    if pattern != MATCH or named is None:
        return named in (None, name)
    return name in (named, "*") if acl.pattern_type == PatternType.LITERAL else named.startswith(name)


def _quotas(world: World, _: int, sent: Sent) -> Told:
    told = {
        (frozenset((each.entity_type, each.entity_name) for each in entry.entity), value.key): value.value
        for entry in sent.response.entries or ()  # type: ignore[union-attr]
        for value in entry.values
    }
    wanted = {each.entity_type: (each.match_type, each.match) for each in sent.request.components}
    expected = {
        (frozenset(entity), key): value
        for entity, held in world.engine.cluster.quotas.limits.items()
        for key, value in held.items()
        if (not sent.request.strict or len(entity) == len(wanted))
        and all(_has(dict(entity), kind, *how) for kind, how in wanted.items())
    }
    return told, expected


def _has(names: Mapping[str, str | None], kind: str, how: int, name: str | None) -> bool:
    return kind in names and (how == SPECIFIED or names[kind] == (None if how == DEFAULT else name))


def _resources(world: World, _: int, sent: Sent) -> Told:
    configs, cluster = world.engine.cluster.configs, world.engine.cluster
    brokers = [str(node) for node in cluster.brokers]
    held: dict[int, Iterable[str]] = {
        2: cluster.topics, 4: brokers, 8: brokers, 16: configs.client_metrics, 32: configs.groups,
    }  # fmt: skip
    kinds = set(getattr(sent.request, "resource_types", ())) or held.keys() if sent.version >= 1 else {16}
    told = {(each.resource_type if sent.version else 16, each.resource_name): 1 for each in sent.response.config_resources}  # type: ignore[union-attr]
    return told, {(kind, name): 1 for kind in kinds if kind in held for name in held[kind]}


def _tokens(_: World, __: int, sent: Sent) -> Told:
    owners = {(each.principal_type, each.principal_name) for each in sent.request.owners or ()}
    told = {(each.principal_type, each.principal_name): 1 for each in sent.response.tokens}  # type: ignore[union-attr]
    return told, dict.fromkeys(owners or told, 1)


def _coordinators(world: World, _: int, sent: Sent) -> Told:
    response: Any = sent.response
    kind = "transaction" if sent.request.key_type == 1 else "group"
    found = response.coordinators if sent.version >= 4 else [response]
    told = {
        (each.key if sent.version >= 4 else sent.request.key,): each.node_id
        for each in found
        if not each.error_code and sent.request.key_type in (0, 1)
    }
    return told, {(key,): world.engine.cluster.coordinator(kind, key) for (key,) in told}  # type: ignore[arg-type]


def _leaders(world: World, _: int, sent: Sent) -> Told:
    """Metadata and DescribeTopicPartitions."""
    cluster, version = world.engine.cluster, sent.version
    told, expected = {}, {}
    detailed = sent.api == "DescribeTopicPartitions"
    for broker in getattr(sent.response, "brokers", ()):
        told["broker", broker.node_id], expected["broker", broker.node_id] = 1, int(broker.node_id in cluster.live_brokers)
    for topic in sent.response.topics:  # type: ignore[union-attr]
        found = cluster.topics.get(topic.name or "")
        for part in topic.partitions if found is not None and not topic.error_code else ():
            partition = cluster.partition(topic.name, part.partition_index)
            if partition is None or (not detailed and not version):
                continue
            key = topic.name, part.partition_index
            offline = {each for each in partition.replicas if each not in cluster.live_brokers or each in partition.offline_at}
            told[key], expected[key] = (
                [part.leader_id, {*part.isr_nodes}, {*part.replica_nodes}],
                [partition.leader, {*partition.in_sync}, {*partition.replicas}],
            )
            if detailed or version >= 7:
                told[key].append(part.leader_epoch)
                expected[key].append(partition.leader_epoch)
            if detailed or version >= 5:
                told[key].append({*part.offline_replicas})
                expected[key].append(offline)
            if detailed:
                told[key].append({*(part.eligible_leader_replicas or ())})
                expected[key].append({*partition.eligible})
    return told, expected


DESCRIBED: dict[str, Callable[[World, int, Sent], Told]] = {
    "DescribeGroups": _classic_groups, "ConsumerGroupDescribe": _modern_groups, "ShareGroupDescribe": _modern_groups,
    "ListGroups": _listed_groups, "OffsetFetch": _offsets, "DescribeShareGroupOffsets": _share_offsets,
    "DescribeTransactions": _transactions, "ListTransactions": _listed_transactions, "DescribeProducers": _producers,
    "DescribeLogDirs": _replicas, "DescribeAcls": _acls, "DeleteAcls": _left_acls, "DescribeClientQuotas": _quotas,
    "ListConfigResources": _resources, "DescribeDelegationToken": _tokens, "FindCoordinator": _coordinators,
    "OffsetCommit": _commit, "Heartbeat": _generation, "SyncGroup": _generation,
    "Metadata": _leaders, "DescribeTopicPartitions": _leaders,
}  # fmt: skip
"""For each API, the function that returns what the response tells, and what it should tell."""


# The administrator's questions

QUESTIONS = 3
"""The number of questions after each step."""
STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
KINDS = ("classic", "consumer", "share", "streams")
OF_TRANSACTIONS = ("Ongoing", "Empty", "PrepareCommit", "CompleteCommit", "CompleteAbort")
TIMES = (EARLIEST, LATEST, NEWEST, NEWEST)
Question = tuple[str, int, dict[str, Any]]
"""The name of an API, a version, and the fields of a request."""


def look(world: World, chance: Random) -> None:
    """Lets an administrator ask some questions. Raises Finding."""
    if world.in_progress or world.in_trouble or world.setting.sliced or not world.engine.cluster.live_brokers:
        return
    for ask in chance.sample(ASKING, QUESTIONS):
        node = chance.choice(sorted(world.engine.cluster.live_brokers))
        if (question := ask(world, chance, node)) is not None:
            api, version, fields = question
            world.ask(plain(api, **fields), version, node)


def _some(chance: Random, among: Sequence[Any]) -> list[Any]:
    """Returns some elements, or none, which mostly stands for no filter."""
    return [each for each in among if chance.random() < 0.3] if chance.random() < 0.7 else []


def _ask_groups(world: World, chance: Random, _: int) -> Question:
    names = list(world.engine.groups.groups) or ["g"]
    api = chance.choice(["DescribeGroups", "ConsumerGroupDescribe", "ShareGroupDescribe"])
    return api, chance.choice([1, 5, 9]), {"groups" if api == "DescribeGroups" else "group_ids": names}


def _ask_list(_: World, chance: Random, __: int) -> Question:
    filters = {"states_filter": _some(chance, STATES), "types_filter": _some(chance, KINDS)}
    return "ListGroups", 5, filters


def _ask_offsets(world: World, chance: Random, _: int) -> Question | None:
    offsets = world.engine.groups.offsets
    if not (names := offsets.groups(pending=True)):
        return None
    name, version = chance.choice(names), chance.choice([7, 8, 9])
    held: list[dict[str, Any]] = [{"name": topic, "partition_indexes": [index]} for topic, index in offsets.all_of(name)]
    asked: dict[str, Any] = {"group_id": name, "topics": chance.choice([held, None])}
    group = world.engine.groups.groups.get(name)
    if isinstance(group, ConsumerGroup) and group.members and version >= 9:  # in some cases, with an old or a wrong epoch
        member = chance.choice(list(group.members.values()))
        asked |= {"member_id": member.member_id, "member_epoch": max(member.epoch - chance.choice([0, 1, -1]), 0)}
    return "OffsetFetch", version, {"require_stable": chance.random() < 0.5} | (asked if version < 8 else {"groups": [asked]})


def _ask_share_offsets(world: World, _: Random, __: int) -> Question | None:
    if SHARE_TOPIC not in world.engine.cluster.topics:  # the request would create the topic
        return None
    names = [name for name, group in world.engine.groups.groups.items() if isinstance(group, ShareGroup)]
    return "DescribeShareGroupOffsets", 1, {"groups": [{"group_id": name, "topics": None} for name in names]}


def _ask_transactions(world: World, chance: Random, _: int) -> Question:
    held = world.engine.transactions.transactions
    if held and chance.random() < 0.3:
        return "DescribeTransactions", 0, {"transactional_ids": list(held)}
    ids, longest = [each.producer_id for each in held.values()], chance.choice([-1, -1, 0, 1000, 60_000])
    filters = {"state_filters": _some(chance, OF_TRANSACTIONS), "producer_id_filters": _some(chance, ids)}
    return "ListTransactions", 1, filters | {"duration_filter": longest}


def _ask_producers(world: World, chance: Random, node: int) -> Question:
    topics = [
        {"name": topic.name, "partition_indexes": [each.index for each in topic.partitions if each.leader == node]}
        for topic in world.engine.cluster.topics.values()
        if not topic.internal  # the model of Kafka's rules does not know that coordinators write transactional batches
    ]
    return "DescribeProducers", 0, {"topics": topics}


def _ask_directories(world: World, chance: Random, _: int) -> Question:
    topics = [{"topic": name, "partitions": [0]} for name in _some(chance, list(world.engine.cluster.topics))]
    return "DescribeLogDirs", 4, {"topics": topics or None}


def _ask_acls(world: World, chance: Random, _: int) -> Question:
    acls = list(world.engine.cluster.acls)
    fields: dict[str, Any] = {
        "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": chance.choice([ANY, MATCH]),
        "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY,
    }  # fmt: skip
    if acls:
        acl = chance.choice(acls)
        of = {
            "resource_type_filter": acl.resource_type, "resource_name_filter": acl.name,
            "pattern_type_filter": acl.pattern_type, "principal_filter": acl.principal, "host_filter": acl.host,
            "operation": acl.operation, "permission_type": acl.permission,
        }  # fmt: skip
        fields |= {name: of[name] for name in _some(chance, list(of))}
    return "DescribeAcls", 3, fields


def _ask_quotas(world: World, chance: Random, _: int) -> Question:
    entities = list(world.engine.cluster.quotas.limits)
    parts = [
        {"entity_type": kind, "match_type": how, "match": name if how == EXACT else None}
        for kind, name in _some(chance, chance.choice(entities) if entities else ())
        for how in [chance.choice([DEFAULT if name is None else EXACT, SPECIFIED])]
    ]
    return "DescribeClientQuotas", 1, {"components": parts, "strict": chance.random() < 0.5}


def _ask_resources(_: World, chance: Random, __: int) -> Question:
    return "ListConfigResources", 1, {"resource_types": _some(chance, [2, 4, 8, 16, 32])}


def _ask_topics(world: World, chance: Random, _: int) -> Question:
    if chance.random() < 0.3:
        return (
            "DescribeTopicPartitions",
            0,
            {"topics": [{"name": name} for name in world.engine.cluster.topics], "cursor": None},
        )
    return "Metadata", chance.choice([4, 7, 9, 12, 13]), {"topics": None, "allow_auto_topic_creation": False}


def _ask_coordinators(world: World, chance: Random, _: int) -> Question:
    kind = chance.choice([0, 1])
    names = [*(world.engine.transactions.transactions if kind else world.engine.groups.groups), "z"]
    return "FindCoordinator", 4, {"key_type": kind, "coordinator_keys": names}


def _ask_ends(world: World, chance: Random, node: int) -> Question:
    latest = [segment.max_timestamp for each in world.engine.cluster.partitions() for segment in each.log.segments]
    topics = [
        {"name": topic.name, "partitions": [
            {"partition_index": each.index, "timestamp": chance.choice([*TIMES, chance.choice(latest)])}
            for each in topic.partitions if each.leader == node
        ]}
        for topic in world.engine.cluster.topics.values()
    ]  # fmt: skip
    return "ListOffsets", chance.choice([7, 10]), {"topics": topics, "replica_id": -1, "isolation_level": chance.choice([0, 1])}


ASKING: list[Callable[[World, Random, int], Question | None]] = [
    _ask_groups, _ask_list, _ask_offsets, _ask_share_offsets, _ask_transactions, _ask_producers, _ask_directories, _ask_acls,
    _ask_quotas, _ask_resources, _ask_topics, _ask_coordinators, _ask_ends,
]  # fmt: skip
