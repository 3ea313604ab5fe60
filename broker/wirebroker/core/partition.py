"""One partition: its log, its producers' state, and the offsets that clients see.

`append` handles every batch of a client: it checks the records, asks the validator for a verdict, and changes the log and the
producer's state together. The response, the trace and the explanation are all made from the resulting `Appended`. Most batches
continue the sequence of their producer. `fast_path` stores such a batch faster, with the same result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from itertools import islice, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

from kafkawire.batches import TRANSACTIONAL, BatchHeader, end_txn_marker, read_header
from kafkawire.disk.indexes import AbortedTransaction
from kafkawire.errors import ErrorCode
from wirebroker.common.slices import pauses
from wirebroker.core.configs import TopicConfigs
from wirebroker.core.elections import NO_LEADER
from wirebroker.core.fast_path import FastPath
from wirebroker.core.leader_epochs import LeaderEpochs
from wirebroker.core.logs.interface import Kept, Log, Slice
from wirebroker.core.logs.memory import MemoryLog
from wirebroker.core.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    NOTHING_FOUND,
    TimestampedOffset,
    first_since,
    newest,
)
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
    end_transaction,
    epoch_of,
    judge,
    judge_marker,
    last_batch_only,
    last_offset,
    last_timestamp,
    open_since,
    open_transactions,
    poison,
    without_batches,
    without_transaction,
)
from wirebroker.core.profile import Rules
from wirebroker.core.purgatory import NEVER
from wirebroker.core.record_checks import EXPLAINS_RECORDS, Checked, RecordPolicy, RecordReject, check
from wirebroker.core.releases.changes import ByRelease, since, until
from wirebroker.core.replication import Prefix, Replication

VERIFIES_EPOCHS = since("4.0", "a fenced producer's batch is refused before its transaction is verified", "KIP-890")
KEEPS_BATCHES = since("1.0", "a retry is recognised even after its transaction has ended", "KAFKA-5494")
CLEAN_RESTART_EPOCHS = ByRelease(3).then(
    "3.6", 2, "a clean restart increases the leader epoch by 2 instead of 3", "KAFKA-15021"
)
"""With KRaft: if a partition has only one replica, a clean restart of the replica's broker increases the leader epoch by this
number."""
ZOOKEEPER_RESTART_EPOCHS = ByRelease(1).then("1.1", 0, "leader epochs do not increase when the only broker restarts")
"""With ZooKeeper: if a partition has only one replica, a restart of the replica's broker increases the leader epoch by this
number."""
LISTS_EMPTY_ABORTS = until("2.8", "Fetch does not list aborted transactions without batches")

_base_offset = attrgetter("base_offset")
CHECKPOINT_MS = 60_000
"""The interval at which Kafka writes down the log start offset (log.flush.start.offset.checkpoint.interval.ms)."""
NOWHERE = 2**63 - 1
"""An offset that no record has."""

_new: Any = tuple.__new__


class Appended(NamedTuple):
    """The result of `append`: the verdict on the batch, and the fields of the response. An unknown offset is −1, as in
    Kafka."""

    verdict: Verdict | RecordReject
    error_code: int
    base_offset: int
    log_append_time: int
    log_start_offset: int
    header: BatchHeader | None
    state_before: bytes | None
    """The producer's packed state before the batch was appended. The verdict was made with this state."""


def appended_next(base_offset: int, header: BatchHeader) -> Appended:
    """Returns an `Appended` for a batch that the fast path stored. Only the fields that the trace needs are set."""
    return Appended(Accept(base_offset, "next"), 0, base_offset, -1, -1, header, None)


class EndMarker(NamedTuple):
    """The marker that ends a producer's transaction. The transaction coordinator writes the marker to a partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


class PartitionCopy(NamedTuple):
    """A snapshot of a partition. Its log is in memory, and all its replicas are in sync."""

    dirs: dict[int, str]
    """The log directory of each replica, by broker."""
    leader: int
    leader_epoch: int
    epoch_starts: list[tuple[int, int]]
    log: MemoryLog
    log_start_offset: int
    producers: dict[Key, bytes]
    transactions: OpenTransactions
    restarted: dict[int, Prefix]
    checkpointed_start: tuple[int, int]
    deleted: dict[Key, bytes]
    emptied: tuple[int, int]


class Partition:
    """The leader's view of one partition. Times are in ms since the epoch."""

    def __init__(
        self, topic: str, index: int, replicas: list[int], configs: TopicConfigs, rules: Rules, now: int,
        *, full_checks: bool = True, log: Log | None = None,
    ) -> None:  # fmt: skip
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.adding: tuple[int, ...] = ()
        """The replicas that the reassignment in progress adds."""
        self.removing: tuple[int, ...] = ()
        """The replicas that the reassignment in progress removes at its end."""
        self.in_sync = list(replicas)
        self.leader = replicas[0] if replicas else -1
        self.leader_epoch = 0
        self.eligible: list[int] = []
        """The eligible leader replicas (KIP-966), which may lead while no replica is in sync."""
        self.last_known_leader: int | None = None
        """While the partition has no leader, the last leader."""
        self.log_dirs: dict[int, str] = {}
        """The directories of the replicas, by broker; see `LogDirs.of`."""
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
        """The callbacks of waiting Fetch requests, which are called at every append."""
        self.rolled: Callable[[Partition, int], None] | None = None
        """Called when a segment of a compacted topic is closed."""
        self.write_fails = 0
        """This many writes will fail, beginning with the next write; see `fail_next_write`."""
        self.offline_at: frozenset[int] = frozenset()
        """The brokers on which the directory of this partition has failed; see `go_offline`."""
        self.epochs = LeaderEpochs([(0, 0)])
        self._checkpointed_start = (now, 0)
        self._deleted: dict[Key, bytes] = {}
        """The producers that were forgotten when the log start offset last advanced. Only old releases forget a producer when
        its last batch is deleted."""
        self.emptied_from = NOWHERE
        """The smallest offset that a soft reset (`empty`) has deleted. A Fetch from this offset or a later offset is not out of
        range."""
        self._emptied_to = 0
        self.held_at: int | None = None
        """The high watermark, or None while the high watermark is the end of the log. `Replication.review` computes this
        value."""
        self.lost_records = False
        """Tells whether the end of the log was truncated, and no coordinator has read the log again since."""
        self.replication = Replication(self)
        self.fast_path = FastPath(self)
        if (kept := self.log.belongs_to(self)) is not None:
            self._take(kept, now)

    @property
    def moves(self) -> bool:
        """Tells whether a reassignment is in progress."""
        return bool(self.adding or self.removing)

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.log.end_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are replicated, and therefore visible to consumers."""
        return self.log.end_offset if self.held_at is None else self.held_at

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers may read: the start of the earliest open transaction or, if no
        transaction is open, the high watermark."""
        unstable = self.transactions.first_unstable()
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def policy(self) -> RecordPolicy:
        """The topic's settings for records."""
        fast_path = self.fast_path
        return fast_path.policy if fast_path.version == self._settings.version else fast_path.read_policy()

    # Writing

    def _follow_settings(self) -> None:
        """A setting or another input of the fast path has changed: compute the values that depend on it."""
        self.fast_path.renew()
        self.replication.review()  # min.insync.replicas may have changed

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
        """Judge a client's batch, and store the batch if the batch is in order. For `verified` see `start_verification`.

        With `at_once`, the method raises TakesLong, and changes nothing, if the check of the records takes long. The caller
        then checks the records elsewhere (`record_checks.check`) and passes the result as `checked`.
        """
        fast_path = self.fast_path
        if fast_path.version != self._settings.version:
            self._follow_settings()
        if checked is None:
            checked = check(records, fast_path.policy, now, produce_version, self.full_checks, at_once)
        if isinstance(checked, RecordReject):
            if not EXPLAINS_RECORDS.at(fast_path.policy.release):
                checked = checked.unexplained()
            start = self.log_start_offset if checked.log_start_known else -1
            return Appended(checked, checked.code, -1, -1, start, checked.header, None)
        header = checked.header
        producer_id = header.producer_id
        named = producer_id < 0 or self.rules.key == "client_id"
        key = self._other_key(header, client_id) if named else producer_id
        if key is None:
            return self._store(checked, None, Accept(self.log.end_offset, "no_producer"), None, now, owned)
        state = self.producers.get(key)
        known = issued is None or issued(header.producer_id)
        awaited = self.transactions.verifications.get(producer_id)
        verdict = judge(state, header, self.rules, self.log.end_offset, Origin.CLIENT, known, awaited, verified)
        if isinstance(verdict, Accept):
            return self._store(checked, key, verdict, state, now, owned)
        if isinstance(verdict, Duplicate):
            return Appended(verdict, 0, verdict.base_offset, verdict.timestamp, self.log_start_offset, header, state)
        if verdict.poisons and state is not None:
            self.producers[key] = poison(state)
        return Appended(verdict, verdict.code, -1, -1, self.log_start_offset, header, state)

    def _other_key(self, header: BatchHeader, client_id: str | None) -> Key | None:
        """Returns the key of a producer that has no id, or that the profile identifies by its client id."""
        by_name = self.rules.key == "client_id" and header.base_sequence >= 0
        return client_id if by_name else None

    def _store(
        self, checked: Checked, key: Key | None, verdict: Accept, state: bytes | None, now: int, owned: bool
    ) -> Appended:
        """Append the batch to the log and change the producer's state. If the write fails, neither changes."""
        header, _, timestamp, append_time, _ = checked
        if self._cannot_write:
            return self._failed(header, state)
        try:
            base = self._write(checked, now, owned)
        except OSError:
            return _not_written(header, state)
        if key is not None:
            self.producers[key] = advance(state, header, base, timestamp, self.rules)
            if header.attributes & TRANSACTIONAL:
                self._joins_transaction(header.producer_id, state, base)
        if self.waiting:
            self.notify(now)
        appended: Appended = _new(Appended, (verdict, 0, base, append_time, self.log_start_offset, header, state))
        return appended

    def fail_next_write(self, times: int = 1) -> None:
        """Let the next `times` writes fail as on a broken disk. A Produce request then gets KAFKA_STORAGE_ERROR. The log and
        the producers' states do not change."""
        self.write_fails = times
        self.fast_path.invalidate()

    def go_offline(self, node_id: int) -> None:
        """Make the log unreadable and unwritable at this broker, because its log directory has failed
        (HostedPartition.Offline)."""
        self.offline_at |= {node_id}
        self.fast_path.invalidate()

    def go_online(self, node_id: int) -> None:
        """Make the log available again at this broker, with all its records."""
        self.offline_at -= {node_id}
        self.fast_path.invalidate()

    @property
    def _cannot_write(self) -> bool:
        return bool(self.write_fails) or self.leader in self.offline_at

    def _failed(self, header: BatchHeader, state: bytes | None) -> Appended:
        if self.write_fails:
            self.write_fails -= 1
            self.fast_path.invalidate()
        return _not_written(header, state)

    def _write(self, checked: Checked, now: int, owned: bool) -> int:
        header, batch, timestamp, _, rewritten = checked
        log, fast_path = self.log, self.fast_path
        if fast_path.version != self._settings.version:
            self._follow_settings()
        policy, active = fast_path.policy, log.active
        # Kafka's LogSegment.shouldRoll compares only the timestamps of records. In wirebroker, the age of the segment by the
        # broker's clock counts as well, because a test may have moved the clock.
        waited = max(now - active.created, timestamp - active.first_timestamp)
        if active.size + len(batch) > fast_path.segment_bytes or waited > policy.segment_ms:
            log.roll(now)
            if self.rolled is not None and policy.compacted:
                self.rolled(self, now)
        return log.append(batch, header.last_offset_delta + 1, self.leader_epoch, timestamp, owned or rewritten)

    # Transactions

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, bumps_epoch: bool, now: int
    ) -> ErrorCode | Verification | None:
        """Decide whether the transaction coordinator must verify a transactional batch before it is appended.

        Returns None if the producer's transaction is already open here: then no verification is needed. Returns a Verification
        if the coordinator must verify the batch. If the coordinator confirms the transaction, the caller appends the batch with
        `verified` set. The partition remembers the Verification until the batch is stored. Returns INVALID_PRODUCER_EPOCH if
        the epoch is old.
        """
        state = self.producers.get(producer_id)
        if state is not None:
            if open_since(state) >= 0 and not VERIFIES_EPOCHS.of(self.configs.release):
                return None
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
        """Append a coordinator's batch. The batch's epoch and transaction are checked, but not its records and sequences. A
        timer may call this method while the partition has no leader."""
        if self.leader == NO_LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        header = read_header(batch)
        checked = Checked(header, memoryview(batch), header.max_timestamp, -1, False)
        if header.producer_id < 0:
            accept = Accept(self.log.end_offset, "no_producer")
            return ErrorCode(self._store(checked, None, accept, None, now, False).error_code)
        state = self.producers.get(header.producer_id)
        awaited = self.transactions.verifications.get(header.producer_id)
        leo = self.log.end_offset
        verdict = judge(state, header, self.rules, leo, Origin.COORDINATOR, True, awaited, verified)
        if not isinstance(verdict, Accept):
            return ErrorCode(verdict.code) if isinstance(verdict, Reject) else ErrorCode.NONE
        return ErrorCode(self._store(checked, header.producer_id, verdict, state, now, False).error_code)

    def append_marker(self, marker: EndMarker, now: int) -> ErrorCode:
        """Append the control batch that ends a producer's transaction here. Returns NONE, or the error if the batch is
        refused."""
        state = self.producers.get(marker.producer_id)
        epochs = (marker.producer_epoch, marker.coordinator_epoch)
        if error := judge_marker(state, *epochs, marker.transaction_version):
            return error
        batch = end_txn_marker(
            marker.commit, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch, timestamp=now,
        )  # fmt: skip
        checked = Checked(read_header(batch), memoryview(batch), now, -1, False)
        if self._cannot_write:
            return ErrorCode(self._failed(checked.header, state).error_code)
        try:
            base = self._write(checked, now, False)
        except OSError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        ended = end_transaction(state, *epochs, now)
        release = self.configs.release
        self.producers[marker.producer_id] = ended if KEEPS_BATCHES.of(release) else without_batches(ended)
        self.transactions.end(
            marker.producer_id, base, aborted=not marker.commit, replicated=self.held_at is None,
            keeps_empty=LISTS_EMPTY_ABORTS.of(release),
        )  # fmt: skip
        awaited = self.transactions.verifications.get(marker.producer_id)
        if awaited is not None and not (awaited.bumps_epoch and awaited.producer_epoch == marker.producer_epoch):
            del self.transactions.verifications[marker.producer_id]
        self.notify(now)
        return ErrorCode.NONE

    def aborted_transactions(self, fetch_offset: int, read: Slice) -> list[AbortedTransaction]:
        """Returns the aborted transactions that overlap `read`, the slice of the log from `fetch_offset` on."""
        return self.transactions.aborted_between(fetch_offset, self.log.offset_after(fetch_offset, len(read.records)))

    def _joins_transaction(self, producer_id: int, state_before: bytes | None, base_offset: int) -> None:
        if open_since(state_before) < 0:
            self.transactions.begin(producer_id, base_offset)
        self.transactions.verifications.pop(producer_id, None)

    def notify(self, now: int) -> None:
        """Call the callbacks of the waiting requests, because records were stored or became visible, or the leader changed."""
        for callback in list(self.waiting):
            callback(self, now)

    # Reading

    def seen_at(self, node_id: int) -> Partition | Prefix:
        """Returns the partition's offsets as the replica on the broker `node_id` knows them. All replicas share the records in
        `log`."""
        return self.replication.lagging.get(node_id, self)

    def segment_base(self, offset: int) -> int:
        """Returns the base offset of the segment to which the offset belongs. The log end offset belongs to the active
        segment.
        """
        segments = self.log.segments
        base = segments[-1].base_offset
        if offset >= base:
            return base
        return segments[max(bisect_right(segments, offset, key=_base_offset) - 1, 0)].base_offset

    def offset_for(self, timestamp: int, committed: bool = False) -> TimestampedOffset:
        """Returns the offset that ListOffsets finds for a timestamp: a time in ms since the epoch, or a negative constant such
        as LATEST."""
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return TimestampedOffset(self.log_start_offset, -1, self.epochs.at(self.log_start_offset))
        if timestamp == LATEST:
            end = self.last_stable_offset if committed else self.high_watermark
            return TimestampedOffset(end, -1, self.leader_epoch)
        if timestamp == MAX_TIMESTAMP:
            found = newest(self.log)
        else:
            found = first_since(self.log, timestamp, self.log_start_offset)
        visible = self.last_stable_offset if committed else self.high_watermark
        return found if found.offset < visible else NOTHING_FOUND

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Returns two values: the largest leader epoch at or below `epoch`, and the offset at which this leader epoch ended.
        Returns (−1, −1) if `epoch` is later than the current leader epoch."""
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        if epoch > self.leader_epoch or epoch == -1:
            return -1, -1
        if epoch < self.epochs.at(self.log_start_offset):  # Kafka has forgotten earlier epochs (truncateFromStart)
            return epoch, self.log_start_offset
        return self.epochs.end_of(epoch, self.log_end_offset)

    # Leaders

    def new_leader_epoch(self, epoch: int, *, elected: bool = True) -> None:
        """Begin a new leader epoch, which later batches carry. `elected` is False if no leader could be elected."""
        self.leader_epoch = epoch
        if elected:
            self.epochs.begin(epoch, self.log_end_offset)
            self.log.keep_epochs(self.epochs.starts)

    def prefix(self, now: int) -> Prefix:
        """Returns the present state of the partition, for a replica that stops replicating the leader's log now."""
        return Prefix(
            self.log_end_offset, self.log_start_offset, self.high_watermark, dict(self.producers),
            self.transactions.copy(), list(self.epochs.starts), now,
        )  # fmt: skip

    def take_over(self, prefix: Prefix) -> None:
        """Continue from `prefix`, the state of the new leader. All records that the new leader lacks are lost, with their
        effects on producers and transactions."""
        end = prefix.log_end_offset
        self.lost_records = self.lost_records or end < self.log_end_offset
        first = self.log.segments[0].base_offset
        self.log_start_offset = max(prefix.log_start_offset, min(end, first))
        self.log.lower_start(self.log_start_offset)  # before the log ends before its old start
        if end < first:
            self.log.start_at(end, prefix.caught_up)
        else:
            self.log.truncate_to(end)
        written, start = self._checkpointed_start
        self._checkpointed_start, self._deleted = (written, min(start, self.log_start_offset)), {}
        self.producers = dict(prefix.producers)
        self.transactions = prefix.transactions.copy()
        self.transactions.forget_below(self.log.segments[0].base_offset)  # retention has gone on since the copy was made
        self.epochs = LeaderEpochs(prefix.epoch_starts)
        # The new leader may know an older high watermark. Retention has deleted only records that were replicated.
        self.held_at = max(min(prefix.high_watermark, end), self.log_start_offset)

    def lead_from_here(self, now: int) -> None:
        """The end of the log was truncated: forget the leader epochs that began in the deleted part, and begin a new epoch."""
        self.lost_records = True
        self.epochs.truncate(self.log_end_offset)
        self.new_leader_epoch(self.leader_epoch + 1)
        self.replication.cut_off(self.log_end_offset)
        self.replication.review()
        self.notify(now)

    # Deleting

    def delete_records(self, offset: int, now: int) -> int:
        """Move the log start offset up to `offset`, which the caller has checked. Returns the log start offset afterwards."""
        self._start_at(max(offset, self.log_start_offset), now)
        return self.log_start_offset

    def _start_at(self, offset: int, now: int) -> None:
        if offset > self.log_start_offset:
            self._advance_start(offset, now)
        self.log.drop_segments_below(offset)  # also segments that could not be deleted before
        # Kafka's TransactionIndex belongs to a segment: a kill may bring the records of a kept segment back.
        self.transactions.forget_below(self.log.segments[0].base_offset)

    def _advance_start(self, offset: int, now: int) -> None:
        written, start = self._checkpointed_start
        if now - written >= CHECKPOINT_MS:
            self._checkpointed_start = (now - (now - written) % CHECKPOINT_MS, self.log_start_offset)
        else:
            self._checkpointed_start = (written, start)
        self.log_start_offset = offset
        if not self.rules.keeps_state_on_log_start_advance:
            gone = [key for key, state in self.producers.items() if last_offset(state) < offset]
            self._deleted = {key: self.producers.pop(key) for key in gone}

    def empty(self, now: int) -> None:
        """Delete all records for a soft reset. Clients need not restart: producers continue their sequences, and consumers
        continue at their offsets.

        Afterwards the log starts at its end and has no open transaction. The reset writes no marker, because a marker's
        offset would be a lag for consumers that have read all records. A Fetch from a deleted offset continues at the new
        start.
        """
        start, end = self.log_start_offset, self.high_watermark
        unfinished = [key for key, state in self.producers.items() if open_since(state) >= 0]
        for key in unfinished:
            self.producers[key] = without_transaction(self.producers[key])
        self.transactions.clear()
        if start < end:
            self.log_start_offset = end
            with suppress(OSError):  # if the write fails, old records stay on the disk, before the log start offset
                self.log.empty(end, now, closes=bool(unfinished))
            self.emptied_from, self._emptied_to = min(self.emptied_from, start), end

    def after_emptied(self, offset: int) -> int | None:
        """Returns the offset at which a Fetch from `offset` continues if a soft reset has deleted this offset. Otherwise
        returns None."""
        return self._emptied_to if self.emptied_from <= offset < self._emptied_to >= self.log_start_offset else None

    def retain(self, now: int) -> int:
        """Delete the segments that retention.ms and retention.bytes no longer require (Kafka's deletableSegments), and the
        segments before the log start offset. Returns the time at which the retention of the first kept segment ends, or NEVER.
        """
        start, until = self._retained_from(now) if "delete" in self.configs.text("cleanup.policy") else (0, NEVER)
        self._start_at(max(start, self.log_start_offset), now)
        return until

    def _retained_from(self, now: int) -> tuple[int, int]:
        """Returns two values: the start offset of the first segment that must be kept, and the time at which the retention of
        this segment ends. If no segment must be kept, closes the active segment and returns the log end offset.

        Records that are not replicated are kept, so that the log start offset never passes the high watermark.
        """
        keep_ms = self.configs.integer("retention.ms")
        keep_bytes = self.configs.integer("retention.bytes")
        log, end = self.log, self.log.end_offset
        left = log.size if keep_bytes >= 0 else 0
        for segment, following in zip_longest(log.segments, islice(log.segments, 1, None)):
            left -= segment.size
            latest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created
            expired = keep_ms >= 0 and now - latest > keep_ms
            oversize = keep_bytes >= 0 and left >= keep_bytes
            is_replicated = self.high_watermark >= (end if following is None else following.base_offset)
            if not is_replicated or (following is None and not segment.size):
                return segment.base_offset, NEVER
            if not (expired or oversize):
                return segment.base_offset, latest + keep_ms + 1 if keep_ms >= 0 else NEVER
        try:
            log.roll(now)
        except OSError:  # the next retention check tries again
            return log.active.base_offset, now
        return end, NEVER

    def expire_producers(self, now: int, after_ms: int) -> Generator[None, Any, tuple[list[tuple[int, int]], int]]:
        """Forget, in slices, each producer that has no open transaction, if its last batch is at least `after_ms` old. Returns
        two values: the id and epoch of each forgotten producer, and the time at which the next producer expires (NEVER if there
        is none).
        """
        gone = []
        verifications = self.transactions.verifications
        for producer_id in [known for known, awaited in verifications.items() if now - awaited.since >= after_ms]:
            del verifications[producer_id]
        until = min((awaited.since + after_ms for awaited in verifications.values()), default=NEVER)
        pause = pauses()
        for producers in (self.producers, *(prefix.producers for prefix in self.replication.lagging.values())):
            for key, state in list(producers.items()):
                yield from pause()
                if open_since(state) >= 0 or producers.get(key) is not state:
                    continue
                if (expires := last_timestamp(state) + after_ms) > now:
                    until = min(until, expires)
                    continue
                del producers[key]
                if producers is self.producers:
                    gone.append((key if isinstance(key, int) else -1, epoch_of(state)))
        return gone, until

    def expire_producer(self, producer_id: int) -> int | None:
        """Forget one producer, even if its last batch is recent, and return its epoch. Returns None if the producer is unknown
        or has an open transaction.

        Lagging replicas forget the producer, too: in Kafka, each replica does this by its own clock.
        """
        state = self.producers.get(producer_id)
        if state is None or open_since(state) >= 0:
            return None
        for prefix in self.replication.lagging.values():
            if (known := prefix.producers.get(producer_id)) is not None and open_since(known) < 0:
                del prefix.producers[producer_id]
        return epoch_of(self.producers.pop(producer_id))

    def move_time(self, ms: int) -> None:
        """Move the times of the last checkpoint, the verifications and the lagging replicas by `ms`, because the clock was
        moved by `ms`. The times of records stay."""
        written, start = self._checkpointed_start
        self._checkpointed_start = (written + ms, start)
        for awaited in self.transactions.verifications.values():
            awaited.since += ms
        for prefix in self.replication.lagging.values():
            prefix.caught_up += ms

    def delete(self, now: int) -> None:
        """Close the log, because the topic is deleted. Then call the callbacks of the waiting requests; these requests find
        that the partition has no leader."""
        self.deleted = True
        self.leader = -1
        self.log.delete()
        self.notify(now)
        # Weak references avoid a cycle, so that the partition is freed as soon as no request refers to it.
        self.replication.weaken()
        self.fast_path.weaken()

    def become(self, rules: Rules) -> None:
        """Follow the rules of another release, which all brokers run from now on."""
        self.rules = rules
        self.fast_path.invalidate()
        self.replication.become_release()
        self.replication.review()

    def restart(self, mode: str, now: int) -> None:
        """All brokers restart after a clean shutdown ("clean") or a kill −9 ("kill"). Keep only the state that Kafka would find
        on its disk.

        Only the last batch of each producer is remembered. A clean shutdown leaves no producer snapshot from before the log
        start offset. After a kill, the log start offset is read from the last checkpoint.
        """
        self.waiting.clear()
        self.replication.restart(now)
        kept = self.log.restart(mode, now)
        if kept is None:
            self._restart_in_memory(mode, now)
        else:
            self._take(kept, now)
        if elections := self._elections_at_restart(mode):
            self.new_leader_epoch(self.leader_epoch + elections)

    def _elections_at_restart(self, mode: str) -> int:
        """Returns how much the leader epoch rises when the partition's only broker restarts."""
        release = self.configs.release
        if self._settings.release.has_zookeeper:
            return ZOOKEEPER_RESTART_EPOCHS.of(release)
        return CLEAN_RESTART_EPOCHS.of(release) if mode == "clean" else 1

    def _take(self, kept: Kept, now: int) -> None:
        """Restore the partition's state from `kept`, which the log has read from the disk."""
        self.log_start_offset = kept.log_start_offset
        self.producers = dict(kept.producers)
        self.transactions.restore_aborted(kept.aborted)
        self.transactions.restart(open_transactions(kept.producers))
        self.epochs = LeaderEpochs(kept.epoch_starts)
        if not kept.epoch_starts:
            self.epochs.begin(self.leader_epoch, self.log_end_offset)
            self.log.keep_epochs(self.epochs.starts)
        self._checkpointed_start = (now, self.log_start_offset)

    def _restart_in_memory(self, mode: str, now: int) -> None:
        if mode == "kill":
            written, start = self._checkpointed_start
            if now - written < CHECKPOINT_MS:
                self.log_start_offset = max(start, self.log.segments[0].base_offset)
                found = {key: state for key, state in self._deleted.items() if last_offset(state) >= self.log_start_offset}
                self.producers = found | self.producers
        self.producers = self.producers_after_restart(self.producers, self.log_start_offset, self.log_end_offset)
        self.transactions.restart(open_transactions(self.producers))
        self._checkpointed_start = (now, self.log_start_offset)

    # Snapshots

    @property
    def is_whole(self) -> bool:
        """Tells whether every replica has the whole log, no replica is moving to another directory, and no directory has
        failed."""
        return not (self.moves or self.replication.lagging or self.offline_at)

    def copied(self, dirs: dict[int, str]) -> PartitionCopy:
        """Returns a copy of the partition's state. `is_whole` must be True. `dirs` are the directories of
        its replicas."""
        assert isinstance(self.log, MemoryLog)
        return PartitionCopy(
            dirs, self.leader, self.leader_epoch, list(self.epochs.starts), self.log.copy(), self.log_start_offset,
            dict(self.producers), self.transactions.copy(), dict(self.replication.since_restart), self._checkpointed_start,
            dict(self._deleted), (self.emptied_from, self._emptied_to),
        )  # fmt: skip

    def restore(self, kept: PartitionCopy, epoch: int) -> None:
        """Continue from the copy `kept`, in the leader epoch `epoch`. `epoch` must be later than every leader epoch that
        clients have seen."""
        self.log = kept.log.copy()
        self.log_start_offset = kept.log_start_offset
        self.producers, self.transactions = dict(kept.producers), kept.transactions.copy()
        self._checkpointed_start, self._deleted = kept.checkpointed_start, dict(kept.deleted)
        self.emptied_from, self._emptied_to = kept.emptied
        self.leader, self.epochs = kept.leader, LeaderEpochs(kept.epoch_starts)
        self.new_leader_epoch(epoch)
        self.replication.since_restart = dict(kept.restarted)
        self.replication.review()
        self.fast_path.invalidate()

    def producers_after_restart(self, producers: Mapping[Key, bytes], start: int, end: int) -> dict[Key, bytes]:
        """Returns the producers' states after a restart with a log from `start` to `end`. Each state has only its last batch.

        Kafka reads the states from the snapshot at the end of the log. The snapshot also has producers whose batches were
        deleted. If the log is empty, Kafka deletes the snapshot (ProducerStateManager.truncateAndReload), and no producer is
        known.
        """
        if start >= end and self.rules.key == "producer_id":
            return {}
        return {key: last_batch_only(state) for key, state in producers.items()}


def _not_written(header: BatchHeader, state: bytes | None) -> Appended:
    code = ErrorCode.KAFKA_STORAGE_ERROR
    return Appended(Reject(code, "write_failed", header.base_sequence, -1), code, -1, -1, -1, header, state)
