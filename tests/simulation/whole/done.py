"""The state that the brokers must describe after the requests that they accepted. `shown` reads the state that the brokers do
describe.

A fact has a key, which begins with its family, and the values that it may have. If a request has no response, the broker may or
may not have carried out the request. `ANY` stands for an unknown fact, and `ABSENT` for a fact that does not exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fuzzing.acknowledged import Acknowledged
from fuzzing.script import Finding
from kafkawire.errors import ErrorCode
from wirebroker.core.partition import CHECKPOINT_MS

if TYPE_CHECKING:
    from simulation.whole.world import World

Key = tuple[Any, ...]
ABSENT, ANY = "absent", "anything"
COMPLETE = frozenset({"topic", "config", "acl", "quota", "scram", "token", "offset"})
"""`Done` knows every fact of these families. So any other fact of these families must be absent."""
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE = 0, 1
UNCLEAN = "unclean.leader.election.enable"
TOKEN_CHECKS_MS = 3_600_000
"""The interval at which brokers remove expired tokens (delegation.token.expiry.check.interval.ms)."""
SELDOM = 5
"""If this is n, only every n-th schedule reads the broker settings, because a broker has many settings."""


class Pending(NamedTuple):
    """An offset that a transaction commits: its key, its value, the number of the response, and the time, from which Kafka
    counts the offset's retention. `sure` tells whether the transaction coordinator certainly knows the group, and the
    transaction has certainly not ended."""

    key: Key
    value: Any
    number: int
    time: int
    sure: bool


class Done:
    """The facts that follow from the requests that the brokers of a world have accepted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.facts: dict[Key, set[Any]] = {}
        self.since: dict[Key, int] = {}
        """The earliest time from which a fact may have its value."""
        self.vague: set[str] = set()
        """The families whose facts are all unknown now."""
        self.starts: dict[tuple[bytes, int], int] = {}
        """The earliest offset at which each log may begin after DeleteRecords requests."""
        self._deleted_at: dict[tuple[bytes, int], int] = {}
        """For each log, the time of the last DeleteRecords request."""
        self.acknowledged = Acknowledged()
        self.lossy: set[str] = set()
        """The topics that, as in Kafka, may have lost acknowledged records."""
        self.falls: set[str] = set()
        """The topics whose high watermarks may fall."""
        self.shaken = Counter[str]()
        """For each topic, how often its log may have lost records, or its high watermark may have fallen. "*" stands for all
        topics."""
        self.unclean = False
        """Tells whether a setting allows unclean elections, so that each election may lose records."""
        self.auto_created: set[str] = set()
        self.alone = True
        """Tells whether no other request that changes offsets was on its way together with the present request."""
        self._count = 0
        """The number of responses and deeds."""
        self._changed: dict[Key, int] = {}
        """The number of the response or deed that last set a fact."""
        self._pending: dict[Any, list[Pending]] = {}
        """The offsets of open transactions, by producer id."""
        self._given: set[int] = set()
        """The producer ids of all producers."""
        self._most: dict[bytes, int] = {}
        """For each delegation token, the end of its maximum lifetime."""
        self._added: set[tuple[Any, str]] = set()
        """The producers and groups of the accepted AddOffsetsToTxn requests."""

    # Facts

    def set(self, key: Key, *values: Any) -> None:
        """Remember that a fact has one of these values."""
        self.facts[key] = set(values)
        self.since[key], self._changed[key] = self._world.now, self._count

    def add(self, key: Key, *values: Any) -> None:
        """Remember that a fact may have changed to one of these values."""
        since = self.since.get(key, self._world.now)
        self.set(key, *self.facts.get(key, {ABSENT}), *values)
        self.since[key] = since

    def drop(self, *begin: Any, how: Callable[[Key], None] | None = None) -> None:
        """For each fact whose key begins with these values, set the fact to absent or, if `how` is given, call `how` with the
        key.
        """
        for key in [key for key in self.facts if key[: len(begin)] == begin]:
            (how or (lambda each: self.set(each, ABSENT)))(key)

    def all_unknown(self) -> None:
        """Remember that all facts are unknown, because the brokers went back to an earlier state."""
        self.vague |= COMPLETE
        self.starts.clear()
        for name in (*(topic.name for topic in self._world.engine.cluster.topics.values()), "*"):
            self._may_lose(name)
        self._may_fall("*")

    def learn_again(self, told: Mapping[Key, Any]) -> None:
        """Know the facts again that the brokers describe after they went back to an earlier state."""
        self.facts = {key: {value} for key, value in told.items() if key[0] in COMPLETE}
        self.since = dict.fromkeys(self.facts, self._world.now)
        self._changed = dict.fromkeys(self.facts, self._count)
        offsets = self._world.engine.groups.offsets
        for group in offsets.groups(pending=True):  # it is unknown which requests have sent the offsets of open transactions
            for (topic, index), _ in offsets.pending_of(group):
                self.facts["offset", group, topic, index] = {ANY}
        for known in (self._pending, self.auto_created, self.vague, self.lossy, self.falls):
            known.clear()
        self.acknowledged = Acknowledged()

    def topic_exists(self, topic: Any) -> None:
        """Note a topic that exists from the beginning."""
        self.set(("topic", topic.name), (topic.topic_id, len(topic.partitions)))
        for name, value in topic.configs.overrides.items():
            self.set(("config", TOPIC, topic.name, name), value)

    def unknown_after(self, deed: str, given: Mapping[str, Any]) -> None:
        """Note which facts are unknown after a deed with these arguments."""
        self._count += 1
        name = given.get("topic", given.get("name"))
        if deed in ("create_topic", "delete_topic"):
            self._topic_unknown(name)
        elif "acl" in deed:
            self.vague.add("acl")
        elif deed in ("set", "remove"):
            self.vague.add("quota")
        elif deed == "subscribe":
            self.drop("config", METRICS, how=lambda key: self.set(key, ANY))
            for setting in ("metrics", "interval.ms", "match"):
                self.set(("config", METRICS, name, setting), ANY)
        elif deed == "truncate" or given.get("unclean"):
            self._may_lose(str(name))
            self._may_fall(str(name))
            found = self._world.engine.cluster.topics.get(name)
            if found is not None:
                self.starts = {where: start for where, start in self.starts.items() if where[0] != found.topic_id}
        elif deed in ("crash", "restart", "crash_after_write"):
            self.starts.clear()  # as in Kafka, a kill brings back deleted records down to the last checkpoint

    def killed(self) -> None:
        """Forget where logs begin after DeleteRecords requests that are younger than the last checkpoint may be. As in Kafka, a
        kill brings their records back."""
        kept = {where for where, since in self._deleted_at.items() if self._world.now - since > CHECKPOINT_MS}
        self.starts = {where: start for where, start in self.starts.items() if where in kept}

    def _may_lose(self, name: str) -> None:
        self.lossy.add(name)
        self.shaken[name] += 1

    def _may_fall(self, name: str) -> None:
        self.falls.add(name)
        self.shaken[name] += 1

    def _unclean(self) -> None:
        self.unclean = True
        self._may_lose("*")
        self._may_fall("*")

    def is_calm(self, topic: str, before: Counter[str]) -> bool:
        """Tells whether a topic's log has certainly lost no records, and its high watermark has not fallen, since `shaken` was
        `before`. In slices, a loss may come some time after its cause."""
        if self.unclean or self._world.setting.sliced:
            return not {topic, "*"} & (self.lossy | self.falls)
        return all(self.shaken[name] == before[name] for name in (topic, "*"))

    def _topic_unknown(self, name: str) -> None:
        self.set(("topic", name), ANY)
        self.drop("config", TOPIC, name, how=lambda key: self.set(key, ANY))
        self.auto_created.add(name)
        self._offsets_become(ANY, topic=name)

    def _topic_gone(self, name: str) -> None:
        self.set(("topic", name), ABSENT)
        self.drop("config", TOPIC, name)
        self._offsets_become(ABSENT, topic=name)
        self.lossy.discard(name)

    def _offsets_become(self, value: Any, *, group: str | None = None, topic: str | None = None) -> None:
        """Set all offsets of a group or a topic to one value. This includes the offsets of open transactions."""
        pending = [each.key for known in self._pending.values() for each in known]
        for key in dict.fromkeys([*(key for key in self.facts if key[0] == "offset"), *pending]):
            if group in (None, key[1]) and topic in (None, key[2]):
                self.set(key, value)

    # What was asked

    def learn(self, api: str, request: Any, response: Any, version: int) -> None:
        """Note the effects of an accepted request."""
        self._count += 1
        learner = getattr(self, f"_{api}", None)
        if learner is not None and not getattr(request, "validate_only", False):
            learner(request, response, version)

    def perhaps(self, api: str, request: Any, version: int = -1) -> None:
        """Remember that a request got no valid response. The broker may or may not have carried out this request."""
        if getattr(request, "validate_only", False):
            return
        family = {
            "CreateAcls": "acl", "DeleteAcls": "acl", "AlterClientQuotas": "quota", "AlterUserScramCredentials": "scram",
            "CreateDelegationToken": "token", "RenewDelegationToken": "token", "ExpireDelegationToken": "token",
            "AlterConfigs": "config", "IncrementalAlterConfigs": "config",
        }.get(api)  # fmt: skip
        if family is not None:
            self.vague.add(family)
        elif api == "ElectLeaders":
            self._may_fall("*")
        elif api in ("CreateTopics", "DeleteTopics", "CreatePartitions"):
            self.vague |= {"topic", "config", "offset"}
        elif api in ("Metadata", "StreamsGroupHeartbeat"):
            self._auto(api, request)
        else:
            self._offsets_perhaps(api, request, version)

    def _offsets_perhaps(self, api: str, request: Any, version: int) -> None:
        """Remember that offsets may have been committed or deleted."""
        if api == "OffsetCommit":
            for key, value in self._commits(request, version):
                self.add(key, value, ABSENT)  # the request may have asked for an expiry
        elif api == "TxnOffsetCommit":
            known = self._pending.setdefault(request.producer_id, [])
            known += [
                Pending(key, value, self._count, self._world.now, False) for key, value in self._commits(request, version)
            ]
            for key, _ in self._commits(request, version):  # a lost EndTxn may have been noted before, and committed them
                self.set(key, ANY)
        elif api == "EndTxn":
            known = self._pending.get(request.producer_id, [])
            for each in known if request.committed else ():
                self._commit_pending(each, sure=False)
            known[:] = [each._replace(sure=False) for each in known]  # the producer's next transaction may not have them
        elif api == "OffsetDelete":
            for topic in request.topics:
                for part in topic.partitions:
                    self.add(("offset", request.group_id, topic.name, part.partition_index), ABSENT)
        elif api == "DeleteGroups":
            for group_id in request.groups_names:
                self._offsets_become(ANY, group=group_id)

    def _auto(self, api: str, request: Any) -> None:
        if api != "Metadata":
            self._StreamsGroupHeartbeat(request, None, 0)
            return
        names = [each.name for each in request.topics or () if each.name]
        deleting = any(sent.api == "DeleteTopics" for link in self._world.links.values() for sent in link.awaited)
        for name in names if request.allow_auto_topic_creation else ():
            if deleting or self.facts.get(("topic", name), {ABSENT}) == {ABSENT}:
                self._topic_unknown(name)

    def _StreamsGroupHeartbeat(self, request: Any, _: Any, __: int) -> None:  # noqa: N802
        for part in request.topology.subtopologies if request.topology is not None else ():
            for topic in (*part.state_changelog_topics, *part.repartition_source_topics):
                if self.facts.get(("topic", topic.name), {ABSENT}) == {ABSENT}:
                    self._topic_unknown(topic.name)

    def _Metadata(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        self._auto("Metadata", request)
        self._replicas(response)

    def _DescribeTopicPartitions(self, _: Any, response: Any, __: int) -> None:  # noqa: N802
        self._replicas(response)

    def _replicas(self, response: Any) -> None:
        """Checks that brokers describe the present leaders and replicas."""
        for topic in response.topics:
            for part in topic.partitions:
                partition = self._world.engine.cluster.partition(topic.name or "", part.partition_index)
                if partition is None or part.error_code or self._world.setting.sliced:
                    continue
                told = part.leader_id, sorted(part.isr_nodes), sorted(part.replica_nodes)
                expected = partition.leader, sorted(partition.in_sync), sorted(partition.replicas)
                if told != expected:
                    raise Finding("not the present replicas of a partition", f"{topic.name} {part}: {told}, {expected}")

    # Topics

    def _CreateTopics(self, request: Any, response: Any, version: int) -> None:  # noqa: N802
        asked = {each.name: each for each in request.topics}
        for made in response.topics:
            if made.error_code:
                continue
            self._topic_gone(made.name)
            if version < 7:
                self.set(("topic", made.name), ANY)
            else:
                self.set(("topic", made.name), (made.topic_id, made.num_partitions))
                self._world.speaker.symbols.topic(made.name, made.topic_id)
            for config in asked[made.name].configs:
                if config.name == UNCLEAN:
                    self._unclean()
                self.set(("config", TOPIC, made.name, config.name), config.value)

    def _DeleteTopics(self, _: Any, response: Any, __: int) -> None:  # noqa: N802
        for gone in response.responses:
            if not gone.error_code:
                self._topic_gone(gone.name)

    def _CreatePartitions(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        counts = {each.name: each.count for each in request.topics}
        for grown in response.results:
            known = self.facts.get(("topic", grown.name), {ANY})
            if not grown.error_code and ANY not in known and ABSENT not in known:
                self.set(("topic", grown.name), *((topic_id, counts[grown.name]) for topic_id, _ in known))

    def _DeleteRecords(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        for topic in response.topics:
            found = self._world.engine.cluster.topics.get(topic.name)
            for part in topic.partitions if found is not None else ():
                if not part.error_code and found is not None:
                    where = found.topic_id, part.partition_index
                    self.starts[where] = max(self.starts.get(where, 0), part.low_watermark)
                    self._deleted_at[where] = self._world.now

    def _Produce(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        cluster = self._world.engine.cluster
        ids = {topic.name: topic.topic_id for topic in cluster.topics.values()}
        if request.acks == -1:
            known = set(ids.values())
            self.acknowledged.note(
                request, response, lambda name: ids.get(name) if isinstance(name, str) else name if name in known else None
            )

    def _ElectLeaders(self, request: Any, _: Any, __: int) -> None:  # noqa: N802
        if request.election_type:
            self._may_fall("*")

    # Settings

    def _AlterConfigs(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        for resource in self._accepted(request, response):
            where = ("config", resource.resource_type, resource.resource_name)
            self.drop(*where)
            for config in resource.configs:
                self.set((*where, config.name), ABSENT if config.value is None else config.value)
                if config.name == UNCLEAN:
                    self._unclean()

    def _IncrementalAlterConfigs(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        for resource in self._accepted(request, response):
            for config in resource.configs:
                key = ("config", resource.resource_type, resource.resource_name, config.name)
                operation = config.config_operation
                self.set(key, {SET: config.value, DELETE: ABSENT}.get(operation, ANY))
                if config.name == UNCLEAN:
                    self._unclean()

    @staticmethod
    def _accepted(request: Any, response: Any) -> Iterator[Any]:
        codes = {(each.resource_type, each.resource_name): each.error_code for each in response.responses}
        for resource in request.resources:
            if not codes.get((resource.resource_type, resource.resource_name), -1) and resource.resource_type != LOGGER:
                yield resource

    # Security

    def _CreateAcls(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        for acl, made in zip(request.creations, response.results, strict=True):
            if not made.error_code:
                self.set(acl_key(acl, acl.resource_pattern_type), True)

    def _DeleteAcls(self, _: Any, response: Any, __: int) -> None:  # noqa: N802
        for result in response.filter_results:
            for acl in result.matching_acls:
                if not acl.error_code:
                    self.set(acl_key(acl, acl.pattern_type), ABSENT)

    def _AlterClientQuotas(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        refused = {quota_key(told.entity, "") for told in response.entries if told.error_code}
        times = Counter(quota_key(entry.entity, "") for entry in request.entries)
        for entry in request.entries:
            entity = quota_key(entry.entity, "")
            for op in entry.ops:
                if times[entity] > 1:  # the first entry may have been accepted
                    self.set(quota_key(entry.entity, op.key), ANY)
                elif entity not in refused:
                    self.set(quota_key(entry.entity, op.key), ABSENT if op.remove else op.value, *_whole(op))

    def _AlterUserScramCredentials(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        refused = {each.user for each in response.results if each.error_code}
        for each in request.deletions:
            if each.name not in refused:
                self.set(("scram", each.name, each.mechanism), ABSENT)
        for each in request.upsertions:
            if each.name not in refused:
                self.set(("scram", each.name, each.mechanism), each.iterations)

    def _CreateDelegationToken(self, _: Any, response: Any, __: int) -> None:  # noqa: N802
        if not response.error_code:
            self._most[bytes(response.hmac)] = response.max_timestamp_ms
            self._lives(bytes(response.hmac), response)
            self.set(("token", bytes(response.hmac)), response.expiry_timestamp_ms)

    def _lives(self, hmac: bytes, response: Any) -> None:
        """Checks that a token expires at the latest at the end of its maximum lifetime."""
        if response.expiry_timestamp_ms > self._most.get(hmac, response.expiry_timestamp_ms):
            raise Finding("a token lives too long", f"{response}, at most until {self._most[hmac]}")

    def _token_is_found(self, request: Any, response: Any) -> None:
        """Checks that a token can be renewed if and only if it is there and has not expired."""
        known, now = self.facts.get(("token", bytes(request.hmac)), {ABSENT}), self._world.now
        if "token" in self.vague or ANY in known or self._world.setting.sliced:
            return
        lives = [value for value in known if value != ABSENT and now <= value]
        if not response.error_code and not lives:
            raise Finding("a token is renewed that has expired or is not there", f"{request}: {known}")
        if response.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED and len(lives) == len(known):
            raise Finding("a token has expired too early", f"{request}: {known}")
        if response.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND and len(lives) == len(known):
            raise Finding("a token is not found", f"{request}: {known}")

    def _RenewDelegationToken(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        self._token_is_found(request, response)
        if not response.error_code:
            self._lives(bytes(request.hmac), response)
            self.set(("token", bytes(request.hmac)), response.expiry_timestamp_ms)

    def _ExpireDelegationToken(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        if not response.error_code:
            gone = request.expiry_time_period_ms < 0
            if not gone:
                self._lives(bytes(request.hmac), response)
            self.set(("token", bytes(request.hmac)), ABSENT if gone else response.expiry_timestamp_ms)

    # Offsets

    def _name(self, topic: Any) -> str:
        if getattr(topic, "name", ""):
            return str(topic.name)
        found = self._world.engine.cluster.topics_by_id.get(bytes(topic.topic_id))
        return found.name if found is not None else ""

    def _commits(self, request: Any, version: int) -> Iterator[tuple[Key, Any]]:
        has_epoch = version >= (2 if hasattr(request, "transactional_id") else 6)
        for topic in request.topics:
            for part in topic.partitions:
                key = ("offset", request.group_id, self._name(topic), part.partition_index)
                epoch = part.committed_leader_epoch if has_epoch else -1
                yield key, (part.committed_offset, epoch, part.committed_metadata or "")

    def _committed(self, request: Any, response: Any, version: int) -> Iterator[tuple[Key, Any]]:
        codes = {(self._name(t), p.partition_index): p.error_code for t in response.topics for p in t.partitions}
        yield from ((key, value) for key, value in self._commits(request, version) if not codes.get((key[2], key[3]), -1))

    def _commit(self, key: Key, *values: Any) -> None:
        """Remember that an offset is committed. If requests run in slices, the order of the responses is not the order of the
        requests, unless no other request of this kind was on its way.
        """
        (self.set if self.alone else self.add)(key, *values)

    def _OffsetCommit(self, request: Any, response: Any, version: int) -> None:  # noqa: N802
        for key, value in self._committed(request, response, version):
            self._commit(key, value, *([ABSENT] if 2 <= version <= 4 and request.retention_time_ms >= 0 else []))

    def _TxnOffsetCommit(self, request: Any, response: Any, version: int) -> None:  # noqa: N802
        if self._world.setting.sliced:
            for key, _ in self._committed(request, response, version):
                self.set(key, ANY)
        known = self._pending.setdefault(request.producer_id, [])
        sure = version >= 5 or (request.producer_id, request.group_id) in self._added
        now = self._world.now
        known += [Pending(key, value, self._count, now, sure) for key, value in self._committed(request, response, version)]

    def _AddOffsetsToTxn(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        if not response.error_code:
            self._added.add((request.producer_id, request.group_id))

    def _InitProducerId(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        if response.error_code:
            return
        if request.transactional_id:
            self._transaction_over(response.producer_id)
            held = self._world.engine.transactions.transactions.get(request.transactional_id)
            if held is not None and held.timeout_ms != request.transaction_timeout_ms and not self._world.setting.sliced:
                raise Finding("a transactional id has another timeout than its producer wants", f"{request}: {held}")
        elif response.producer_id in self._given:
            raise Finding("a producer id is given out twice", str(response))
        self._given.add(response.producer_id)

    def _EndTxn(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        if response.error_code:
            return
        pending = self._transaction_over(request.producer_id)
        if not request.committed:
            return
        changed = dict(self._changed)  # if the transaction commits several offsets for a key, the last commit counts
        for each in pending:
            if changed.get(each.key, 0) > each.number:
                if len(self.facts[each.key]) > 1:  # it is unknown whether the newer offset is committed
                    self._commit_pending(each, sure=False)
                continue  # a newer offset is not replaced
            self._commit_pending(each, sure=each.sure)
            # If two transactions commit the offset, the later record counts, even if its transaction ends first.
            self._changed[each.key] = max(each.number, changed.get(each.key, 0))

    def _WriteTxnMarkers(self, request: Any, _: Any, __: int) -> None:  # noqa: N802
        for marker in request.markers:
            if any(topic.name == "__consumer_offsets" for topic in marker.topics):
                for each in self._pending.get(marker.producer_id, ()):
                    self._commit_pending(each, sure=False)

    def _commit_pending(self, pending: Pending, *, sure: bool) -> None:
        (self._commit if sure else self.add)(pending.key, pending.value)
        self.since[pending.key] = min(self.since[pending.key], pending.time)

    def _transaction_over(self, producer_id: Any) -> list[Pending]:
        self._added = {each for each in self._added if each[0] != producer_id}
        return self._pending.pop(producer_id, [])

    def _OffsetFetch(self, request: Any, response: Any, version: int) -> None:  # noqa: N802
        if "offset" in self.vague or self._world.setting.sliced or version < 2:
            return
        groups = [(request.group_id, response)] if version < 8 else [(each.group_id, each) for each in response.groups]
        for group_id, group in groups:
            for topic in group.topics if not group.error_code else ():
                for part in topic.partitions:
                    key = ("offset", group_id, self._name(topic), part.partition_index)
                    told = part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                    found, wanted = ABSENT if part.committed_offset == -1 else told, self.facts.get(key, {ABSENT})
                    if version < 5:  # the response has no leader epoch
                        wanted = {each if isinstance(each, str) else (each[0], -1, each[2]) for each in wanted}
                    if not part.error_code and key[2] and not ({ANY, found} & wanted or self._may_differ(key, found)):
                        raise Finding("OffsetFetch: not what was committed", f"{key}: {found}, expected {wanted}")

    def _OffsetDelete(self, request: Any, response: Any, _: int) -> None:  # noqa: N802
        for topic in response.topics if not response.error_code else ():
            for part in topic.partitions:
                if not part.error_code:
                    self.set(("offset", request.group_id, topic.name, part.partition_index), ABSENT)

    def _DeleteGroups(self, _: Any, response: Any, __: int) -> None:  # noqa: N802
        for result in response.results:
            if result.error_code:
                continue
            self._offsets_become(ABSENT, group=result.group_id)
            states = self._world.engine.groups.share_state.states
            if not self._world.setting.sliced and (left := [key for key in states if key[0] == result.group_id]):
                raise Finding("the state of a share group outlives it", str(left))

    # The comparison

    def differences(self, shown: Mapping[Key, Any]) -> Iterator[str]:
        """Yields a text for each fact that differs from the effects of the requests."""
        known = {key for key in self.facts if key[0] in COMPLETE}
        for key in sorted(known | {key for key in shown if key[0] in COMPLETE}, key=repr):
            found = shown.get(key, ABSENT)
            if key[0] in self.vague or self._may_differ(key, found):
                continue
            wanted = self.facts.get(key, {ABSENT})
            late = key[0] == "token" and found != ABSENT and self._world.now > found + TOKEN_CHECKS_MS
            if late and not self._world.disk_had_failed:  # a removal that cannot be written is tried again at the next check
                yield f"{key}: {found!r}, expected an expired token to be gone"
            if ANY not in wanted and found not in wanted and _plainly(found) not in map(_plainly, wanted):
                yield f"{key}: {found!r}, expected {sorted(map(repr, wanted))}"

    def _may_differ(self, key: Key, found: Any) -> bool:
        now = self._world.now
        if key[0] == "topic":
            return key[1].startswith("__") or "-" in key[1] or key[1] in self.auto_created
        if key[0] == "config" and key[1] == BROKER:  # an upgrade sets min.insync.replicas
            return self._world.setting.seed % SELDOM > 0 or bool(self._world.setting.release)
        if key[0] == "config" and key[1] == METRICS and self._world.setting.release:
            return True  # after an upgrade, the value may not be valid any more; then no setting of the resource is described
        if key[0] == "config":
            return key[1] == TOPIC and (key[2] in self.auto_created or "-" in key[2] or key[2].startswith("__"))
        if key[0] == "offset":
            keep_ms = 60_000 * self._world.engine.configs.integer("offsets.retention.minutes")
            outlives = ABSENT in self.facts.get(key, {ABSENT}) and (key[1], key[2]) in self._world.following.outliving
            return outlives or bool(found == ABSENT and now - self.since.get(key, 0) >= keep_ms)
        if key[0] == "token":
            ends = [each for each in self.facts.get(key, ()) if isinstance(each, int)]
            return found == ABSENT and bool(ends) and now >= min(ends)
        return False


def _plainly(value: Any) -> Any:
    """Returns a setting's value as Kafka shows it: TRUE as true, and a list without spaces."""
    return value.lower().replace(" ", "") if isinstance(value, str) else value


def _whole(op: Any) -> Iterable[float]:
    """Returns the rate as a whole number, as Kafka keeps it."""
    return () if op.remove or op.value != op.value or abs(op.value) > 1e15 else (float(int(op.value)),)


def acl_key(acl: Any, pattern_type: int) -> Key:
    return (
        "acl", acl.resource_type, acl.resource_name, pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type,
    )  # fmt: skip


def quota_key(entity: Iterable[Any], limit: str) -> Key:
    return ("quota", frozenset((each.entity_type, each.entity_name) for each in entity), limit)
