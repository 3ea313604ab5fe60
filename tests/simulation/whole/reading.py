"""Checks the data that readers get. Compares each response to a Fetch or ListOffsets with the logs and with the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from fuzzing.script import Finding
from kafkawire.batches import BatchHeader, iter_batches, iter_records, read_header
from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import FetchPartition, FetchTopic
from wirebroker.security.session import Stage

if TYPE_CHECKING:
    from simulation.whole.world import Sent, World
    from wirebroker.core.cluster import Topic
    from wirebroker.core.partition import Partition

INITIAL, FINAL = 0, -1
LARGE = 1 << 20
"""More bytes than all logs of a world have together."""
EARLIEST, LATEST, NEWEST = -2, -1, -3
SINCE_SESSIONS, BY_TOPIC_ID = 7, 13
"""The first versions of Fetch with sessions, and with topic ids."""
SINCE_EPOCHS = 9
"""The first version of Fetch with leader epochs."""
Key = tuple[str | bytes, int]


def was_compacted(partition: Partition) -> bool:
    """Tells whether compaction may have removed records: the log is compacted, or it was compacted under earlier settings."""
    return "compact" in partition.configs.text("cleanup.policy") or partition.log.cleaned_to > 0


class Ends(NamedTuple):
    """The state of a partition when a request was sent."""

    topic_id: bytes
    epoch: int
    start: int
    stable: int
    high: int
    end: int


class Before(NamedTuple):
    """The state of all logs when a request was sent. For `shaken`, see `Done`."""

    ends: dict[tuple[str, int], Ends]
    shaken: Counter[str]


NOTHING = Before({}, Counter())


class Readers:
    """The requests of readers, and the partitions that each fetch session fetches."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[int, int], dict[Key, Any]] = {}
        self._failed = set[tuple[int, int, Key]]()
        """The partitions of sessions for which the last response had an error."""
        self._ends: dict[tuple[int, int, Key], tuple[int, int]] = {}
        """The high watermark and the log start offset that the client of a session knows, by broker, session and partition."""
        self._before: dict[int, Before] = {}

    def sent(self, world: World, sent: Sent) -> None:
        """Note the state of the logs when a request is sent."""
        if sent.api in ("Fetch", "ListOffsets", "OffsetForLeaderEpoch"):
            ends = {(each.topic, each.index): _ends(topic, each) for topic, each in _partitions(world)}
            self._before[sent.number] = Before(ends, world.done.shaken.copy())

    def lost(self, sent: Sent) -> None:
        """Remember that a request gets no response, or that its response cannot be judged."""
        self._before.pop(sent.number, None)
        if sent.api == "Fetch":
            self._sessions.pop((sent.node, sent.request.session_id), None)

    def answered(self, world: World, sent: Sent, response: Any) -> None:
        """Judge a response. Raises Finding."""
        before = self._before.pop(sent.number, NOTHING)
        if sent.api == "Fetch":
            self._fetched(world, sent, response, before)
        elif sent.api == "ListOffsets" and sent.at == world.now:
            _listed(world, sent, response, before)
        elif sent.api == "OffsetForLeaderEpoch" and sent.at == world.now:
            _ends_of_epochs(world, sent, response, before)

    def _fetched(self, world: World, sent: Sent, response: Any, before: Before) -> None:
        whole = _is_whole(sent)
        asked = self._asked(sent, response, whole)
        told: list[Key] = []
        for topic in response.responses:
            known = _topic(world, topic)
            for part in topic.partitions:
                key = (_name(topic), part.partition_index)
                told.append(key)
                if asked is not None and key not in asked:
                    raise Finding("a Fetch gets a partition that it did not ask for", f"{sent}: {key}")
                partition = known and known.partition(part.partition_index)
                ends = known and before.ends.get((known.name, part.partition_index))
                calm = known is not None and world.done.is_calm(known.name, before.shaken)
                if known and partition and ends and asked and ends.topic_id == known.topic_id and calm:
                    _Part(world, sent, partition, ends, asked[key], part).judge()
        self._tells_again(sent, response, asked, told)
        if len(told) != len(set(told)):
            raise Finding("a Fetch gets a partition twice", f"{sent}: {told}")
        answers = not (response.error_code or response.throttle_time_ms)  # a throttled client gets no partitions
        if whole and asked is not None and answers and set(told) != asked.keys():
            raise Finding("a Fetch does not get all partitions", f"{sent}: {told}, expected {[*asked]}")
        for name, index in (asked or {}).keys() - set(told) if answers and not world.engine.cluster.quotas.on else ():
            known = _topic(world, FetchTopic(topic=name) if isinstance(name, str) else FetchTopic(topic_id=name))
            ends = known and before.ends.get((known.name, index))
            if ends and asked and known and world.done.is_calm(known.name, before.shaken):
                _has_no_more(sent, ends, asked[name, index], f"{known.name}-{index}")

    def _tells_again(self, sent: Sent, response: Any, asked: dict[Key, Any] | None, told: list[Key]) -> None:
        """Checks that a session's client learns when a partition has no error any more."""
        session = sent.node, response.session_id
        codes = {
            (_name(topic), part.partition_index): part.error_code for topic in response.responses for part in topic.partitions
        }
        answers = asked is not None and not (response.error_code or response.throttle_time_ms)
        left = [key for key in (asked or {}).keys() - set(told) if (*session, key) in self._failed]
        if answers and left:
            raise Finding("a Fetch does not tell that a partition is well again", f"{sent}: {left}")
        self._tells_nothing_new(session, response, asked, whole=_is_whole(sent))
        self._failed = {each for each in self._failed if each[:2] != session or each[2] not in codes}
        self._failed |= {(*session, key) for key, code in codes.items() if code and response.session_id}

    def _tells_nothing_new(self, session: tuple[int, int], response: Any, asked: dict[Key, Any] | None, *, whole: bool) -> None:
        """Checks that a session's response leaves out the partitions of which the client knows everything."""
        self._ends = {each: ends for each, ends in self._ends.items() if each[:2] != session or each[2] in (asked or {})}
        for topic in response.responses if asked is not None and session[1] else ():
            for part in topic.partitions:
                where, ends = (*session, (_name(topic), part.partition_index)), (part.high_watermark, part.log_start_offset)
                plain = not part.error_code and part.diverging_epoch.epoch < 0 and part.preferred_read_replica < 0
                if plain and not (whole or part.records) and self._ends.get(where) == ends:
                    raise Finding("a session's response has a partition of which nothing is new", f"{where}: {ends}")
                self._ends[where] = ends if not part.error_code else (-1, -1)

    def update(self, world: World, node: int, request: Any, version: int, chance: Random) -> None:
        """Changes a request: it then continues a fetch session, and fetches one of the session's partitions without a limit."""
        by_id = version >= BY_TOPIC_ID
        known = [
            key
            for key, held in self._sessions.items()
            if key[0] == node and held and isinstance(next(iter(held))[0], bytes) == by_id
        ]
        if known and version >= SINCE_SESSIONS and (epoch := world.sessions.following(key := chance.choice(known))):
            request.session_id, request.session_epoch = key[1], epoch
        held = self._sessions.get((node, request.session_id))
        if not held or request.session_epoch in (INITIAL, FINAL):
            return
        name, index = chance.choice(sorted(held, key=str))
        topic = _topic(world, FetchTopic(topic=name) if isinstance(name, str) else FetchTopic(topic_id=name))
        if topic is None or (partition := topic.partition(index)) is None:
            return
        epoch = partition.leader_epoch if version >= SINCE_EPOCHS else -1
        part = FetchPartition(
            partition=index, current_leader_epoch=epoch, fetch_offset=partition.log_start_offset, partition_max_bytes=LARGE
        )
        place = {"topic": name} if isinstance(name, str) else {"topic_id": name}
        request.topics = [FetchTopic(**place, partitions=[part])]
        request.max_bytes = LARGE

    def _asked(self, sent: Sent, response: Any, whole: bool) -> dict[Key, Any] | None:
        """Returns the partitions that a request fetches, or None if they are unknown."""
        request = sent.request
        named = {(_name(topic), part.partition): part for topic in request.topics for part in topic.partitions}
        if whole:
            self._sessions.pop((sent.node, request.session_id), None)
            if response.session_id and not response.error_code:
                self._sessions[sent.node, response.session_id] = named
            return named
        held = self._sessions.get((sent.node, request.session_id))
        if response.error_code or held is None:
            return None
        held |= named
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                held.pop((_name(topic), index), None)
        return dict(held) if held else None


def nobody_waits_for_nothing(world: World) -> None:
    """Checks that no Fetch waits for records that are there already. Raises Finding."""
    if world.in_progress or world.in_trouble or world.engine.cluster.quotas.on:
        return
    for link in world.links.values():
        sent = link.awaited[0] if link.awaited and not link.arrived else None
        if sent is None or sent.api != "Fetch" or not _is_whole(sent) or sent.request.min_bytes > 1:
            continue
        if link.connection.session.stage is not Stage.DONE:  # a client that has begun to log in again waits for its refusal
            continue
        for topic, part in ((each, part) for each in sent.request.topics for part in each.partitions):
            known = _topic(world, topic)
            partition = known and known.partition(part.partition)
            if not partition or partition.leader != link.node or min(part.partition_max_bytes, sent.request.max_bytes) < LARGE:
                continue
            end = partition.last_stable_offset if sent.request.isolation_level == 1 else partition.high_watermark
            if partition.log_start_offset <= part.fetch_offset < end:
                told = f"{sent} of {partition.topic}-{partition.index}: {part}, end {end}"
                raise Finding("a Fetch waits for records that are there", told)


def _is_whole(sent: Sent) -> bool:
    """Tells whether the request names all partitions that it fetches."""
    return bool(sent.version < SINCE_SESSIONS or sent.request.session_epoch in (INITIAL, FINAL))


class _Part(NamedTuple):
    """A partition in the response to a Fetch."""

    world: World
    sent: Sent
    partition: Partition
    before: Ends
    asked: Any
    told: Any

    def judge(self) -> None:
        """Compare the response with the log."""
        if self.partition.after_emptied(self.asked.fetch_offset) is not None:  # a Fetch goes on after a soft reset
            return
        self._epoch()
        if self.told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self.asked.last_fetched_epoch < 0:
            self._expect(
                not self.partition.log_start_offset <= self.asked.fetch_offset <= self.before.end,
                f"the offset {self.asked.fetch_offset} is in the log",
            )
        if self.told.error_code or self.told.diverging_epoch.epoch >= 0:
            return
        self._offsets()
        self._records()

    def _expect(self, holds: bool, why: str) -> None:
        if not holds:
            where = f"{self.partition.topic}-{self.partition.index}"
            told = {name: getattr(self.told, name) for name in self.told.__slots__ if name != "records"}
            raise Finding(
                f"Fetch: {why.split(' at ')[0]}", f"{self.sent} of {where}: {why}\n{self.asked}\n{told}\n{self.before}"
            )

    def _epoch(self) -> None:
        asked, code, now = self.asked.current_leader_epoch, self.told.error_code, self.partition.leader_epoch
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            self._expect(0 <= asked < now, "the leader epoch is fenced, but it is not old")
        elif code == ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._expect(asked > self.before.epoch, "the leader epoch is unknown, but it is not new")
        elif not code and asked >= 0 and self.sent.version >= 9:
            self._expect(self.before.epoch <= asked <= now, "another leader epoch is accepted")

    def _offsets(self) -> None:
        told, version = self.told, self.sent.version
        high = self.partition.high_watermark
        self._expect(self.before.high <= told.high_watermark <= high, "the high watermark is wrong")
        self._expect(
            told.last_stable_offset <= min(told.high_watermark, self.partition.last_stable_offset),
            "the last stable offset is wrong",
        )
        if version >= 5:
            start = self.partition.log_start_offset
            self._expect(self.before.start <= told.log_start_offset <= start, "the log start offset is wrong")

    def _records(self) -> None:
        committed = self.sent.request.isolation_level == 1
        bound = self.told.last_stable_offset if committed else self.told.high_watermark
        compacted = was_compacted(self.partition)
        batches = list(iter_batches(self.told.records or b""))
        asked, offset = self.asked, self.asked.fetch_offset
        large = asked.partition_max_bytes >= LARGE <= self.sent.request.max_bytes
        ready = self.before.stable if committed else self.before.high
        whole = not large or compacted or self.world.engine.cluster.quotas.on  # a quota limits the bytes of a response, too
        if not batches:
            self._expect(whole or offset >= ready, "records are left out")
            return
        first = read_header(batches[0])
        self._expect(
            first.last_offset >= offset and (first.base_offset <= offset or compacted),
            "the first batch does not have the offset",
        )
        stored = {read_header(raw).base_offset: raw for raw in self.partition.log.batches(first.base_offset)}
        following = first.base_offset
        for raw in batches:
            header = read_header(raw)
            self._expect(header.base_offset == following or compacted, f"records are missing at {following}")
            following = header.last_offset + 1
            self._expect(following <= bound, f"readers may not see a batch at {header.base_offset}")
            same = header.base_offset in stored and stored[header.base_offset] == raw
            gone = compacted or header.base_offset < self.partition.log_start_offset
            self._expect(same or gone, f"a batch is not as it is stored at {header.base_offset}")
        segments = {segment.base_offset for segment in self.partition.log.segments}
        self._expect(whole or following >= ready or following in segments, f"records are left out at {following}")
        if committed and not compacted:
            self._aborted(offset, following)

    def _aborted(self, offset: int, end: int) -> None:
        """Checks that a reader of committed records learns of the aborted transactions."""
        ended = self.world.following.ended(self.before.topic_id, self.partition.index)
        told = {(each.producer_id, each.first_offset) for each in self.told.aborted_transactions or ()}
        for each in ended:
            key = (each.producer_id, each.first)
            if each.commit:
                self._expect(key not in told, f"a committed transaction is reported as aborted at {each.first}")
            elif each.marker >= offset and self.partition.log_start_offset <= each.first < end:
                self._expect(key in told, f"an aborted transaction is not reported at {each.first}")


def _has_no_more(sent: Sent, ends: Ends, asked: Any, where: str) -> None:
    """Checks that a session's partition that a response leaves out has no records for the client."""
    ready = ends.stable if sent.request.isolation_level == 1 else ends.high
    if asked.partition_max_bytes >= LARGE <= sent.request.max_bytes and ends.start <= asked.fetch_offset < ready:
        raise Finding("Fetch: a partition with records is left out", f"{sent} of {where}: {asked}, {ends}")


def _ends_of_epochs(world: World, sent: Sent, response: Any, before: Before) -> None:
    """Checks at which offsets the leader epochs end."""
    asked = {(topic.topic, part.partition): part.leader_epoch for topic in sent.request.topics for part in topic.partitions}
    for topic in response.topics:
        for part in topic.partitions:
            where = (topic.topic, part.partition)
            partition, ends, epoch = world.engine.cluster.partition(*where), before.ends.get(where), asked.get(where, -1)
            if part.error_code or partition is None or ends is None or epoch < 0 or ends[1:] != _ends_of(partition):
                continue
            start = partition.log_start_offset  # may be within a batch
            begins = [(each.partition_leader_epoch, max(each.base_offset, start)) for each in _headers(partition)]
            allowed = {next((offset for later, offset in begins if later > epoch), partition.log_end_offset)}
            if epoch > partition.leader_epoch:
                allowed = {-1}
            elif not begins or begins[0][0] > epoch:  # the records at the end of the epoch are deleted
                allowed = set(range(min(allowed) + 1))
            if part.end_offset not in allowed:
                raise Finding("OffsetForLeaderEpoch: a wrong offset", f"{sent} of epoch {epoch}: {part}, {begins}")


def _headers(partition: Partition) -> Iterator[BatchHeader]:
    return map(read_header, partition.log.batches(partition.log_start_offset))


def _listed(world: World, sent: Sent, response: Any, before: Before) -> None:
    asked = {(topic.name, part.partition_index): part for topic in sent.request.topics for part in topic.partitions}
    for topic in response.topics:
        for part in topic.partitions:
            where = (topic.name, part.partition_index)
            partition, ends, wanted = world.engine.cluster.partition(*where), before.ends.get(where), asked.get(where)
            if wanted is None:
                raise Finding("ListOffsets gets a partition that it did not ask for", f"{sent}: {where}")
            if part.error_code or partition is None or ends is None or sent.version < 1:
                continue
            if not world.done.is_calm(topic.name, before.shaken) or ends[1:] != _ends_of(partition):
                continue
            bound = ends.stable if sent.request.isolation_level == 1 else ends.high
            if wanted.timestamp == EARLIEST:
                allowed = range(ends.start, ends.start + 1)
            elif wanted.timestamp == LATEST:
                allowed = range(bound, bound + 1)
            elif wanted.timestamp == NEWEST and not was_compacted(partition):
                allowed = world.following.newest(ends.topic_id, part.partition_index, bound)
            elif wanted.timestamp >= 0 and not was_compacted(partition):
                allowed = world.following.at_time(ends.topic_id, part.partition_index, wanted.timestamp, bound)
            else:
                continue
            if part.offset not in allowed:
                raise Finding("ListOffsets: a wrong offset", f"{sent} with {wanted}: {part}, expected {allowed}; {ends}")
            _record_at(partition, wanted.timestamp, part, sent)


def _record_at(partition: Partition, asked: int, told: Any, sent: Sent) -> None:
    """Checks the leader epoch and the timestamp that ListOffsets returns with an offset."""
    expected = -1, partition.leader_epoch if asked == LATEST else partition.epochs.at(told.offset)
    if asked not in (EARLIEST, LATEST):
        expected = -1, -1
        for raw in partition.log.batches(told.offset) if told.offset >= 0 else ():
            header = read_header(raw)
            times = {
                header.base_offset + each.offset_delta: header.base_timestamp + each.timestamp_delta
                for each in iter_records(raw)
            }
            time = header.max_timestamp if header.is_log_append_time else times.get(told.offset, -1)
            expected = time, header.partition_leader_epoch
            break
    if told.timestamp != expected[0] or (sent.version >= 4 and told.leader_epoch != expected[1]):
        raise Finding("ListOffsets: a wrong timestamp or leader epoch", f"{sent} of {asked}: {told}, expected {expected}")


def _partitions(world: World) -> Any:
    return ((topic, each) for topic in world.engine.cluster.topics.values() for each in topic.partitions)


def _ends(topic: Topic, each: Partition) -> Ends:
    return Ends(topic.topic_id, *_ends_of(each))


def _ends_of(each: Partition) -> tuple[int, ...]:
    return each.leader_epoch, each.log_start_offset, each.last_stable_offset, each.high_watermark, each.log_end_offset


def _topic(world: World, told: Any) -> Topic | None:
    cluster = world.engine.cluster
    return cluster.topics.get(told.topic) if told.topic else cluster.topics_by_id.get(bytes(told.topic_id))


def _name(told: Any) -> str | bytes:
    return str(told.topic) if told.topic else bytes(told.topic_id)
