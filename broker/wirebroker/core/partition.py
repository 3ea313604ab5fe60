"""One partition: its log, its producers' state, and the offsets that clients see.

Every batch that a client sends passes `append`: what Kafka checks of the records, then the validator's verdict, then
the log and the state together. One place decides; the reply, the trace and the explanation read the same `Appended`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from crc32c import crc32c

from kafkawire.batches import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    end_txn_marker,
    iter_records,
    read_header,
)
from kafkawire.disk.indexes import AbortedTransaction
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.record_walk import walk_records
from wirebroker.core.configs import TopicConfigs
from wirebroker.core.open_transactions import OpenTransactions
from wirebroker.core.producers import (
    Accept,
    Duplicate,
    Key,
    Origin,
    Reject,
    Verdict,
    Verification,
    advance,
    advance_in_order,
    end_transaction,
    epoch_of,
    judge,
    judge_marker,
    last_batch_only,
    last_offset,
    last_timestamp,
    open_since,
    poison,
)
from wirebroker.core.profile import Rules
from wirebroker.core.record_checks import MANY_RECORDS, Checked, RecordPolicy, RecordReject, check
from wirebroker.core.replication import Prefix, Replication
from wirebroker.core.slices import pauses
from wirebroker.storage.interface import Kept, Log, Slice
from wirebroker.storage.memory import MemoryLog

EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5
CHECKPOINT_MS = 60_000
"""How often Kafka writes down the log start offset (log.flush.start.offset.checkpoint.interval.ms)."""


_new: Any = tuple.__new__
_unpack = HEADER.unpack_from


class Appended(NamedTuple):
    """What came of one batch: the verdict, and what the answer says. Offsets are −1 where Kafka sends −1."""

    verdict: Verdict | RecordReject
    error_code: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    header: BatchHeader | None
    state_before: bytes | None
    """The producer's packed state that the verdict was reached on."""


def appended_next(base_offset: int, header: BatchHeader) -> Appended:
    """What `append` says of a batch that `append_next` stored, as far as a trace needs it."""
    return Appended(Accept(base_offset, "next"), 0, base_offset, -1, -1, header, None)


class TimestampedOffset(NamedTuple):
    """An answer to ListOffsets."""

    offset: int
    timestamp: int
    leader_epoch: int


NOTHING_FOUND = TimestampedOffset(-1, -1, -1)


class Partition:
    """The leader's view of one partition. Times are ms since the epoch."""

    def __init__(
        self, topic: str, index: int, replicas: list[int], configs: TopicConfigs, rules: Rules, now: int,
        *, full_checks: bool = True, log: Log | None = None,
    ) -> None:  # fmt: skip
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.in_sync = list(replicas)
        self.leader = replicas[0] if replicas else -1
        self.leader_epoch = 0
        self.eligible: list[int] = []
        """Who else may lead where nobody is in sync (eligible leader replicas, KIP-966)."""
        self.last_known_leader: int | None = None
        """Who led before nobody did."""
        self.configs = configs
        self._settings = configs.broker
        self.rules = rules
        self.full_checks = full_checks
        self.log = log or MemoryLog(0, now)
        self.log_start_offset = 0
        self.producers: dict[Key, bytes] = {}
        self.transactions = OpenTransactions()
        self.deleted = False
        self.waiting: dict[Callable[[Partition, int], None], None] = {}
        """Told of every append; parked Fetches are here."""
        self.rolled: Callable[[Partition, int], None] | None = None
        """Told when a segment of a compacted topic is closed."""
        self.write_fails = 0
        """How many of the next writes fail; see `fail_next_write`."""
        self.offline_at: int | None = None
        """The broker whose directory with this partition has failed; see `go_offline`."""
        self._epoch_starts: list[tuple[int, int]] = [(0, 0)]
        self._checkpointed_start = (now, 0)
        self._policy: RecordPolicy | None = None
        self._policy_version = -1
        self.held_at: int | None = None
        """The high watermark where it is not the end of the log; `Replication.review` says when."""
        self.replication = Replication(self)
        self._plain_limit = self._latest_ahead = self._oldest_behind = self._segment_bytes = self._segment_ms = 0
        """What `append_next` needs of the policy: the largest batch it may take, and how far timestamps may be off."""
        if (kept := self.log.belongs_to(self)) is not None:
            self._take(kept, now)

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.log.end_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are replicated and so visible to consumers."""
        return self.log.end_offset if self.held_at is None else self.held_at

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a read_committed consumer may read: where the earliest open transaction begins."""
        unstable = self.transactions.first_unstable()
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def policy(self) -> RecordPolicy:
        """What the topic's configuration asks of records; derived anew when it has changed."""
        if self._policy is None or self._policy_version != self._settings.version:
            policy = self._policy = RecordPolicy.from_configs(f"{self.topic}-{self.index}", self.configs)
            self._policy_version = self._settings.version
            plain = policy.compression == "producer" and not policy.append_time and not policy.compacted
            plain = plain and self.rules.key == "producer_id"
            plain = plain and not self.write_fails and self.offline_at is None
            self._plain_limit = min(policy.max_message_bytes, policy.segment_bytes) if plain else 0
            self._latest_ahead, self._oldest_behind = policy.after_max_ms, policy.before_max_ms
            self._segment_bytes = min(policy.segment_bytes, self.log.largest_segment)
            self._segment_ms = policy.segment_ms
            self.replication.review()  # min.insync.replicas may have changed
        return self._policy

    # Writing

    def append_next(self, records: memoryview, now: int, owned: bool) -> int:
        """The short way of what nearly every batch is: plain, sound, and the next one of its producer.

        It only recognises such a batch, stores it and returns its base offset; anything else is −1, and nothing was
        done: `append` decides about it. What it does with one is what `append` would do (`appended_next` has that).
        """
        size = len(records)
        if not HEADER_SIZE <= size <= self._plain_limit or self._policy_version != self._settings.version:
            return -1
        base_offset, length, _, magic, crc, attributes, delta, base_time, latest, pid, epoch, sequence, count = _unpack(records)
        state = self.producers.get(pid)
        if state is None or length != size - LOG_OVERHEAD or magic != 2 or attributes or base_offset:
            return -1
        if not 0 < count <= MANY_RECORDS or count != delta + 1 or latest - now > self._latest_ahead:
            return -1
        if crc32c(records[CRC_START:]) != crc:
            return -1
        if self.full_checks:
            try:
                high, low, _ = walk_records(records[HEADER_SIZE:], count)
            except ProtocolError:
                return -1
            if base_time + high != latest or now - base_time - low > self._oldest_behind:
                return -1
        log = self.log
        base = log.end_offset
        advanced = advance_in_order(state, epoch, sequence, delta, base, latest, self.rules.window)
        if advanced is None:
            return -1
        active = log.active
        if active.size + size > self._segment_bytes or now - active.created > self._segment_ms:
            try:
                log.roll(now)
            except OSError:
                return -1
            active = log.active
        try:
            active.append(records, base, self.leader_epoch, latest, owned)
        except OSError:
            return -1
        log.end_offset = base + count
        self.producers[pid] = advanced
        if self.waiting:
            self.tell(now)
        return base

    def append(
        self,
        records: memoryview | None,
        now: int,
        produce_version: int,
        *,
        client_id: str | None = None,
        issued: Callable[[int], bool] | None = None,
        owned: bool = False,
        verified: bool = False,
        at_once: bool = False,
        checked: Checked | RecordReject | None = None,
    ) -> Appended:
        """Judge one client's batch, and store it if it is in order; `verified` is as in `start_verification`.

        With `at_once` it raises TakesLong for a batch whose records take long to check, and does nothing. Whoever checks
        them elsewhere (`record_checks.check`) passes the result as `checked`.
        """
        policy = self._policy
        if policy is None or self._policy_version != self._settings.version:
            policy = self.policy
        if checked is None:
            checked = check(records, policy, now, produce_version, self.full_checks, at_once)
        if isinstance(checked, RecordReject):
            start = self.log_start_offset if checked.log_start_known else -1
            return Appended(checked, checked.code, -1, -1, start, checked.header, None)
        header = checked.header
        producer_id = header.producer_id
        named = producer_id < 0 or self.rules.key == "client_id"
        key = self._other_key(header, client_id) if named else producer_id
        if key is None:
            return self._store(checked, None, Accept(self.log.end_offset, "no_producer"), None, now, owned, policy)
        state = self.producers.get(key)
        known = issued is None or issued(header.producer_id)
        awaited = self.transactions.verifications.get(producer_id)
        verdict = judge(state, header, self.rules, self.log.end_offset, Origin.CLIENT, known, awaited, verified)
        if isinstance(verdict, Accept):
            return self._store(checked, key, verdict, state, now, owned, policy)
        if isinstance(verdict, Duplicate):
            return Appended(verdict, 0, verdict.base_offset, verdict.timestamp, self.log_start_offset, header, state)
        if verdict.poisons and state is not None:
            self.producers[key] = poison(state)
        return Appended(verdict, verdict.code, -1, -1, self.log_start_offset, header, state)

    def _other_key(self, header: BatchHeader, client_id: str | None) -> Key | None:
        """What a producer is known by that has no id, or where ids do not count."""
        by_name = self.rules.key == "client_id" and header.base_sequence >= 0
        return client_id if by_name else None

    def _store(
        self, checked: Checked, key: Key | None, verdict: Accept, state: bytes | None, now: int, owned: bool,
        policy: RecordPolicy,
    ) -> Appended:  # fmt: skip
        """Append to the log and to the state: both or, if the log refuses, neither."""
        header, _, timestamp, append_time, _ = checked
        if self._cannot_write:
            return self._failed(header, state)
        try:
            base = self._write(checked, now, owned, policy)
        except OSError:
            return _not_written(header, state)
        if key is not None:
            self.producers[key] = advance(state, header, base, timestamp, self.rules)
            if header.attributes & TRANSACTIONAL:
                self._joins_transaction(header.producer_id, state, base)
        if self.waiting:
            self.tell(now)
        appended: Appended = _new(Appended, (verdict, 0, base, append_time, self.log_start_offset, header, state))
        return appended

    def fail_next_write(self, times: int = 1) -> None:
        """Let the next writes fail, as with a broken disk: KAFKA_STORAGE_ERROR, and neither log nor state changes."""
        self.write_fails = times
        self._plain_limit = 0  # so that nothing takes the short way, which knows nothing of this
        if not times:
            self._policy_version = -1

    def go_offline(self, node_id: int) -> None:
        """This broker's directory with the log has failed: it can neither write nor read it (HostedPartition.Offline)."""
        self.offline_at = node_id
        self._plain_limit = 0

    def go_online(self) -> None:
        """The directory is there again, with all that it held."""
        self.offline_at = None
        self._policy_version = -1

    @property
    def _cannot_write(self) -> bool:
        return bool(self.write_fails) or (self.offline_at is not None and self.offline_at == self.leader)

    def _failed(self, header: BatchHeader, state: bytes | None) -> Appended:
        if self.write_fails:
            self.write_fails -= 1
        if not self.write_fails:
            self._policy_version = -1
        return _not_written(header, state)

    def _write(self, checked: Checked, now: int, owned: bool, policy: RecordPolicy) -> int:
        header, batch, timestamp, _, rewritten = checked
        log = self.log
        active = log.active
        if active.size + len(batch) > self._segment_bytes or now - active.created > policy.segment_ms:
            log.roll(now)  # as Kafka's LogSegment.shouldRoll: it would grow too large, or its first batch is too old
            if self.rolled is not None and policy.compacted:
                self.rolled(self, now)
        return log.append(batch, header.last_offset_delta + 1, self.leader_epoch, timestamp, owned or rewritten)

    # Transactions

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, bumps_epoch: bool, now: int
    ) -> ErrorCode | Verification | None:
        """Before a transactional batch is appended: whether the transaction coordinator has to be asked about it.

        None if the producer's transaction is open here already. Else the coordinator is asked, and if it agrees the batch
        is appended as `verified`; what it returns here is remembered until then. INVALID_PRODUCER_EPOCH for an old epoch.
        """
        state = self.producers.get(producer_id)
        if state is not None:
            if producer_epoch < epoch_of(state):
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if producer_epoch == epoch_of(state) and open_since(state) >= 0:
                return None
        awaited = self.transactions.verifications.get(producer_id)
        if awaited is None:
            awaited = Verification(sequence, producer_epoch, bumps_epoch, now)
            self.transactions.verifications[producer_id] = awaited
        awaited.see(sequence, producer_epoch)
        return awaited

    def append_own(self, batch: bytes, now: int, *, verified: bool = False) -> ErrorCode:
        """Append a batch that a coordinator made; it is not checked, but its epoch and transaction are."""
        header = read_header(batch)
        checked = Checked(header, memoryview(batch), header.max_timestamp, -1, False)
        if header.producer_id < 0:
            accept = Accept(self.log.end_offset, "no_producer")
            return ErrorCode(self._store(checked, None, accept, None, now, False, self.policy).error_code)
        state = self.producers.get(header.producer_id)
        awaited = self.transactions.verifications.get(header.producer_id)
        leo = self.log.end_offset
        verdict = judge(state, header, self.rules, leo, Origin.COORDINATOR, True, awaited, verified)
        if not isinstance(verdict, Accept):
            return ErrorCode(verdict.code) if isinstance(verdict, Reject) else ErrorCode.NONE
        return ErrorCode(self._store(checked, header.producer_id, verdict, state, now, False, self.policy).error_code)

    def append_marker(self, marker: EndMarker, now: int) -> ErrorCode:
        """Append the control batch that ends a producer's transaction here, or say why it may not be."""
        state = self.producers.get(marker.producer_id)
        epochs = (marker.producer_epoch, marker.coordinator_epoch)
        if fault := judge_marker(state, *epochs, marker.transaction_version):
            return fault
        batch = end_txn_marker(
            marker.commit, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch, timestamp=now,
        )  # fmt: skip
        checked = Checked(read_header(batch), memoryview(batch), now, -1, False)
        if self._cannot_write:
            return ErrorCode(self._failed(checked.header, state).error_code)
        try:
            base = self._write(checked, now, False, self.policy)
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.producers[marker.producer_id] = end_transaction(state, *epochs, now)
        replicated = self.held_at is None
        self.transactions.end(marker.producer_id, base, aborted=not marker.commit, replicated=replicated)
        awaited = self.transactions.verifications.get(marker.producer_id)
        if awaited is not None and not (awaited.bumps_epoch and awaited.producer_epoch == marker.producer_epoch):
            del self.transactions.verifications[marker.producer_id]
        self.tell(now)
        return ErrorCode.NONE

    def aborted_transactions(self, fetch_offset: int, read: Slice) -> list[AbortedTransaction]:
        """What was aborted in a slice that was read from `fetch_offset` on."""
        return self.transactions.aborted_between(fetch_offset, self.log.offset_after(fetch_offset, len(read.data)))

    def _joins_transaction(self, producer_id: int, state_before: bytes | None, base_offset: int) -> None:
        if open_since(state_before) < 0:
            self.transactions.begin(producer_id, base_offset)
        self.transactions.verifications.pop(producer_id, None)

    def tell(self, now: int) -> None:
        """Something has changed: more is stored or visible, or somebody else leads."""
        for told in list(self.waiting):
            told(self, now)

    # Reading

    def seen_at(self, node_id: int) -> Partition | Prefix:
        """The partition as somebody sees it who reads at this replica: offsets only, the records are in `log`."""
        return self.replication.behind.get(node_id, self)

    def offset_for(self, timestamp: int, committed: bool = False) -> TimestampedOffset:
        """What ListOffsets asks: a time in ms since the epoch, or one of its negative stand-ins."""
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return TimestampedOffset(self.log_start_offset, -1, self._epoch_at(self.log_start_offset))
        if timestamp == LATEST:
            end = self.last_stable_offset if committed else self.high_watermark
            return TimestampedOffset(end, -1, self.leader_epoch)
        found = self._newest() if timestamp == MAX_TIMESTAMP else self._at_or_after(timestamp, self.log_start_offset)
        visible = self.last_stable_offset if committed else self.high_watermark
        return found if found.offset < visible else NOTHING_FOUND

    def _at_or_after(self, timestamp: int, start: int) -> TimestampedOffset:
        """The first record from offset `start` on whose time is at least `timestamp`."""
        if timestamp < 0:
            return NOTHING_FOUND
        for batch in self.log.batches_since(timestamp, start):
            header = read_header(batch)
            for record in iter_records(batch):
                when = header.max_timestamp if header.is_log_append_time else header.base_timestamp + record.timestamp_delta
                offset = header.base_offset + record.offset_delta
                if when >= timestamp and offset >= start:
                    return TimestampedOffset(offset, when, header.partition_leader_epoch)
        return NOTHING_FOUND

    def _newest(self) -> TimestampedOffset:
        """The record with the largest timestamp, the first of them if there are several.

        As in Kafka it may lie before the log start, as long as its segment is there.
        """
        stamps = [segment.max_timestamp for segment in self.log.segments]
        largest = max(stamps, default=-1)
        return self._at_or_after(largest, self.log.segments[0].base_offset) if largest >= 0 else NOTHING_FOUND

    def _epoch_at(self, offset: int) -> int:
        epoch = self._epoch_starts[0][0]
        for started, start in self._epoch_starts:
            if start <= offset:
                epoch = started
        return epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch at or below `epoch` and the offset at which it ended (LeaderEpochFileCache).

        An epoch older than all that are known ended where they begin. (−1, −1) for one that has not been yet.
        """
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        if epoch > self.leader_epoch or epoch == -1:
            return -1, -1
        if epoch < self._epoch_starts[0][0]:
            return epoch, self._epoch_starts[0][1]
        for i, (started, _) in reversed(list(enumerate(self._epoch_starts))):
            if started <= epoch:
                following = i + 1
                end = self._epoch_starts[following][1] if following < len(self._epoch_starts) else self.log_end_offset
                return started, end
        return -1, -1

    # Leaders

    def new_leader_epoch(self, epoch: int, *, elected: bool = True) -> None:
        """A leader is elected: what it appends from here on carries `epoch`. Or nobody could be, which counts as well."""
        self.leader_epoch = epoch
        if elected:
            if self._epoch_starts and self._epoch_starts[-1][1] == self.log_end_offset:
                self._epoch_starts.pop()
            self._epoch_starts.append((epoch, self.log_end_offset))
            self.log.keep_epochs(self._epoch_starts)

    @property
    def epoch_start(self) -> int:
        """The offset at which the leader's epoch begins."""
        return self._epoch_starts[-1][1]

    def prefix(self, now: int) -> Prefix:
        """What a replica holds that stops following at this moment."""
        return Prefix(
            self.log_end_offset, self.log_start_offset, self.high_watermark, dict(self.producers),
            self.transactions.copy(), list(self._epoch_starts), now,
        )  # fmt: skip

    def take_over(self, prefix: Prefix) -> None:
        """Go on from what a new leader holds: records behind it are gone, and so is what was known of them."""
        end = prefix.log_end_offset
        if end < self.log.segments[0].base_offset:
            self.log.start_at(end, prefix.caught_up)
        else:
            self.log.truncate_to(end)
        self.log_start_offset = max(prefix.log_start_offset, self.log.segments[0].base_offset)
        self.producers = dict(prefix.producers)
        self.transactions = prefix.transactions.copy()
        self._epoch_starts = list(prefix.epoch_starts)
        self.held_at = min(prefix.high_watermark, end)

    def lead_from_here(self, now: int) -> None:
        """The log has lost its end: epochs that began behind it are gone, and a new one begins."""
        while len(self._epoch_starts) > 1 and self._epoch_starts[-1][1] > self.log_end_offset:
            self._epoch_starts.pop()
        self.new_leader_epoch(self.leader_epoch + 1)
        self.replication.cut_off(self.log_end_offset)
        self.replication.review()
        self.tell(now)

    # Losing

    def delete_records(self, offset: int, now: int) -> int:
        """Let the log begin at `offset`, which the caller has checked; the log start offset that now holds."""
        self._start_at(max(offset, self.log_start_offset), now)
        return self.log_start_offset

    def _start_at(self, offset: int, now: int) -> None:
        if offset == self.log_start_offset:
            return
        written, start = self._checkpointed_start
        if now - written >= CHECKPOINT_MS:
            self._checkpointed_start = (now - (now - written) % CHECKPOINT_MS, self.log_start_offset)
        else:
            self._checkpointed_start = (written, start)
        self.log_start_offset = offset
        self.log.drop_segments_below(offset)
        self.transactions.forget_below(offset)
        if not self.rules.keeps_state_on_log_start_advance:
            gone = [key for key, state in self.producers.items() if last_offset(state) < offset]
            for key in gone:
                del self.producers[key]

    def retain(self, now: int) -> None:
        """Delete the segments that retention.ms or retention.bytes no longer keep (Kafka's deletableSegments).

        What is not replicated is kept, so that the log never begins behind the high watermark.
        """
        if "delete" not in self.configs.text("cleanup.policy"):
            return
        keep_ms = self.configs.integer("retention.ms")
        keep_bytes = self.configs.integer("retention.bytes")
        while (first := self.log.segments[0]).size or first is not self.log.active:
            newest = first.max_timestamp if first.max_timestamp >= 0 else first.created
            expired = keep_ms >= 0 and now - newest > keep_ms
            oversize = keep_bytes >= 0 and self.log.size - first.size >= keep_bytes
            if not expired and not oversize:
                break
            if self.high_watermark < (self.log.end_offset if first is self.log.active else self.log.segments[1].base_offset):
                break
            if first is self.log.active:
                try:
                    self.log.roll(now)
                except OSError:
                    break  # it is tried again at the next check
            self._start_at(self.log.segments[1].base_offset, now)

    def expire_producers(self, now: int, after_ms: int) -> Iterator[tuple[int, int] | None]:
        """Forget producers whose last batch carries a timestamp at least `after_ms` old, and that have nothing open.

        Yields the id and epoch of each that is forgotten, and None between slices.
        """
        verifications = self.transactions.verifications
        for producer_id in [known for known, awaited in verifications.items() if now - awaited.since >= after_ms]:
            del verifications[producer_id]
        pause = pauses()
        for producers in (self.producers, *(prefix.producers for prefix in self.replication.behind.values())):
            for key, state in list(producers.items()):
                if pause():
                    yield None
                if now - last_timestamp(state) < after_ms or open_since(state) >= 0 or producers.get(key) is not state:
                    continue
                del producers[key]
                if producers is self.producers:
                    yield key if isinstance(key, int) else -1, epoch_of(state)

    def expire_producer(self, producer_id: int) -> int | None:
        """Forget one producer whatever its age, unless it has a transaction open; its epoch, None if it was not forgotten.

        Replicas that are behind forget it as well, as their own clocks would have them do.
        """
        state = self.producers.get(producer_id)
        if state is None or open_since(state) >= 0:
            return None
        for prefix in self.replication.behind.values():
            if (known := prefix.producers.get(producer_id)) is not None and open_since(known) < 0:
                del prefix.producers[producer_id]
        return epoch_of(self.producers.pop(producer_id))

    def delete(self) -> None:
        """The topic is deleted: those who wait are told, and find no leader."""
        self.deleted = True
        self.leader = -1
        self.log.delete()
        self.tell(0)

    def restart(self, mode: str, now: int) -> None:
        """Keep what Kafka finds on disk after all brokers shut down cleanly, or after kill −9.

        Of each producer the last batch survives. A clean shutdown leaves no snapshot from before the log start; a kill
        brings back the log start offset of the last checkpoint.
        """
        self.waiting.clear()
        self.replication.restart(now)
        kept = self.log.restart(mode, now)
        if kept is None:
            self._restart_in_memory(mode, now)
        else:
            self._take(kept, now)
        self.new_leader_epoch(self.leader_epoch + (2 if mode == "clean" else 1))

    def _take(self, kept: Kept, now: int) -> None:
        """Be what the log has kept."""
        self.log_start_offset = kept.log_start_offset
        self.producers = dict(kept.producers)
        self.transactions.restore_aborted(kept.aborted)
        self.transactions.restart({int(key): open_since(s) for key, s in kept.producers.items() if open_since(s) >= 0})
        self._epoch_starts = kept.epoch_starts
        if not self._epoch_starts:
            self._epoch_starts = [(self.leader_epoch, self.log_end_offset)]
            self.log.keep_epochs(self._epoch_starts)
        self._checkpointed_start = (now, self.log_start_offset)

    def _restart_in_memory(self, mode: str, now: int) -> None:
        if mode == "kill":
            written, start = self._checkpointed_start
            if now - written < CHECKPOINT_MS:
                self.log_start_offset = max(start, self.log.segments[0].base_offset)
        survivors = self.producers = self.found_again(self.producers, self.log_start_offset, self.log_end_offset)
        self.transactions.restart({int(k): open_since(s) for k, s in survivors.items() if open_since(s) >= 0})
        self._checkpointed_start = (now, self.log_start_offset)

    def found_again(self, producers: Mapping[Key, bytes], start: int, end: int) -> dict[Key, bytes]:
        """What a restarted broker knows of these producers, with a log from `start` to `end`: the last batch of each.

        The snapshot at the end of the log has them all, also those whose batches were deleted; one that is not behind the
        log start is deleted (ProducerStateManager.truncateAndReload), so that nobody is known in a log that is empty.
        """
        if start >= end and self.rules.key == "producer_id":
            return {}
        return {key: last_batch_only(state) for key, state in producers.items()}


def _not_written(header: BatchHeader, state: bytes | None) -> Appended:
    code = ErrorCode.KAFKA_STORAGE_ERROR
    return Appended(Reject(code, "write_failed", header.base_sequence, -1), code, -1, -1, -1, header, state)


class EndMarker(NamedTuple):
    """The end of a producer's transaction, as its coordinator has it written on a partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
