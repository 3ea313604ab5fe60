"""The committed offsets of groups, and their records in __consumer_offsets (Kafka's OffsetMetadataManager)."""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable
from typing import Any

from kafkawire.errors import ErrorCode
from wirebroker.common.java_texts import length
from wirebroker.common.slices import SLICE
from wirebroker.core.cluster import GROUP_TOPIC
from wirebroker.core.groups.commit import Commit, offset_record, offset_tombstone
from wirebroker.core.groups.group import AnyGroup, Committer, Where
from wirebroker.core.groups.offsets import Committed, OffsetStore, TopicPartition
from wirebroker.core.groups.registry import Registry, encoded_batch
from wirebroker.core.purgatory import NEVER, Idle
from wirebroker.core.releases.changes import since

FINDS_GROUPS = since("4.0", "a commit to an unknown group gets GROUP_ID_NOT_FOUND", "KIP-848")
REFUSES_EARLY = since("4.0", "a commit that is refused creates no group", "KIP-848")


class OffsetManager:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._cluster = registry.cluster
        self.offsets = OffsetStore()

    # Committing

    def log_error(self, group_id: str) -> ErrorCode:
        """Returns COORDINATOR_NOT_AVAILABLE if the partition with the group's records has no leader or too few in-sync
        replicas: then the coordinator cannot write. Otherwise returns NONE."""
        return self._cluster.coordinator_log_error("group", group_id)

    def metadata_error(self, metadata: str | None) -> ErrorCode:
        """Returns OFFSET_METADATA_TOO_LARGE if an offset's metadata are too long, else NONE."""
        if metadata and length(metadata) > self._cluster.configs.integer("offset.metadata.max.bytes"):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def error(
        self, group_id: str, by: Committer, version: int | None, now: int, where: Iterable[tuple[bytes, int]] = ()
    ) -> ErrorCode:
        """Returns the error if the client `by` must not commit offsets, else NONE. A client that is not a member may commit to
        an unknown group: the commit creates the group.

        `version` is the version of OffsetCommit, or None for a transactional commit. The error for an unknown group depends on
        `version`. `where` has the partitions (topic id, index), which are checked only if a member commits with an old epoch.
        """
        if by.generation < 0:
            self.begin_early(group_id, now)
        group = self._registry.groups.get(group_id)
        if group is None:
            if by.generation < 0:
                return ErrorCode.NONE
            modern = FINDS_GROUPS.of(self._cluster.configs.release) and (version is None or version >= 9)
            return ErrorCode.GROUP_ID_NOT_FOUND if modern else ErrorCode.ILLEGAL_GENERATION
        topics = self._cluster.topics_by_id
        partitions = (
            Where(topic_id, topics[topic_id].name if topic_id in topics else None, index) for topic_id, index in where
        )
        return group.commit_error(by, version, partitions, now)

    def fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Returns the error if a client must not see the offsets of a group, else NONE. Every client may see the offsets of a
        classic group."""
        group = self._registry.groups.get(group_id)
        return group.fetch_error(member_id, epoch) if group is not None else ErrorCode.NONE

    def deletion_error(self, group_id: str) -> ErrorCode:
        """Returns the error if offsets of this group must not be deleted, else NONE. If the coordinator cannot read the
        members' subscriptions, returns an error, too."""
        group = self._registry.groups.get(group_id)
        return group.deletion_error() if group is not None else ErrorCode.GROUP_ID_NOT_FOUND

    def new(self, group_id: str, now: int, producer: tuple[int, int] | None = None) -> Commit:
        """Returns an empty commit. With `producer` (id, epoch), the offsets take effect when the producer commits its
        transaction."""
        log = self._cluster.partition(GROUP_TOPIC, self._registry.home(group_id))
        limit = log.policy.max_message_bytes if log is not None else 0
        return Commit(group_id, self._cluster, now, limit, producer)

    def commit(self, commit: Commit, batch: bytes | None, now: int) -> ErrorCode:
        """Write the offsets of `commit` to the log, and remember them. Returns the error for the client if the write fails.

        `batch` is the result of `commit.batch()`. If `batch` is None, the error is UNKNOWN_SERVER_ERROR, as in Kafka.
        """
        base, error = self._log_commit(commit, batch, now)
        if error:
            return error
        self._begin(commit.group_id, now)
        self.offsets.commit_all(commit.group_id, commit.offsets, base)
        return ErrorCode.NONE

    def commit_in_transaction(self, commit: Commit, batch: bytes | None, verified: bool, now: int) -> ErrorCode:
        """Write the offsets of `commit` to the log. The offsets take effect when the producer commits its transaction. Returns
        the error for the client if the write fails, such as INVALID_PRODUCER_EPOCH if the producer is fenced."""
        assert commit.producer is not None
        group_id = commit.group_id
        if not commit.offsets:
            self._begin(group_id, now)
            return ErrorCode.NONE
        if error := self.log_error(group_id):
            return error
        base, error = self._log_commit(commit, batch, now, verified)
        if error:
            return error
        self._begin(group_id, now)
        self.offsets.commit_in_transaction(self._registry.home(group_id), commit.producer[0], group_id, commit.offsets, base)
        return ErrorCode.NONE

    def begin_early(self, group_id: str, now: int) -> None:
        """Create a group without members if the release creates the group before it checks the commit."""
        if not REFUSES_EARLY.of(self._cluster.configs.release):
            self._begin(group_id, now)

    def _begin(self, group_id: str, now: int) -> None:
        """Create the group without members if it does not exist."""
        if group_id not in self._registry.groups:
            self._registry.create_classic(group_id, now)

    def _log_commit(self, commit: Commit, batch: bytes | None, now: int, verified: bool = False) -> tuple[int, ErrorCode]:
        log = self._cluster.partition(GROUP_TOPIC, self._registry.home(commit.group_id))
        if batch is None and commit.offsets and log is not None:
            return -1, ErrorCode.UNKNOWN_SERVER_ERROR
        return self._registry.append(commit.group_id, batch or b"", now, verified)

    def follow_logs(self, now: int) -> None:
        """For a soft reset: move each committed offset to the end of the partition's log, and forget the offsets of open
        transactions. Both changes are also written to __consumer_offsets.

        Raises OSError if the write fails.
        """
        for group_id in self.offsets.groups(pending=True):
            pending = dict.fromkeys(where for where, _ in self.offsets.pending_of(group_id))
            moved = self._at_log_ends(group_id, pending, now)
            tombstones = [offset_tombstone(group_id, where) for where in pending]  # these delete committed offsets, too
            records = [offset_record(group_id, where, each, self._cluster.topics) for where, each in moved.items()]
            # One batch: if the offsets were written after the tombstones, a full disk between the two would lose the offsets.
            batch = encoded_batch([record.encode() for record in tombstones + records], now) if tombstones or records else b""
            base, error = self._registry.append(group_id, batch, now)
            if error:
                raise OSError(f"the offsets of the group {group_id!r} cannot be written down ({error.name})")
            self.offsets.commit_all(group_id, moved, base + len(tombstones))
        self.offsets.drop_pending()

    def _at_log_ends(self, group_id: str, pending: Container[TopicPartition], now: int) -> dict[TopicPartition, Committed]:
        """Returns a group's committed offsets, moved to the ends of the logs. Leaves out the offsets that are there already and
        are not also `pending` in a transaction."""
        moved = {}
        for where, committed in self.offsets.of(group_id).items():
            partition = self._cluster.partition(*where)
            end = partition.log_end_offset if partition is not None else committed.offset
            if where in pending or committed.offset != end:
                moved[where] = committed._replace(offset=end, leader_epoch=-1, time=now)
        return moved

    def delete(self, group_id: str, where: Iterable[TopicPartition], now: int) -> ErrorCode:
        """Delete committed offsets. If the tombstones of the offsets cannot be written, no offset is deleted, and the error for
        the client is returned."""
        gone = [each for each in dict.fromkeys(where) if self.offsets.has(group_id, each)]
        error = self._registry.log(group_id, [offset_tombstone(group_id, each) for each in gone], now)
        for each in gone if not error else ():
            self.offsets.delete(group_id, each)
        return error

    # Expiring

    def expire(self, group: AnyGroup, now: int) -> Generator[None, Any, Idle]:
        """Delete the expired offsets of one group, in slices. If tombstones cannot be written, their offsets stay."""
        held, until, changed = list(self.offsets.of(group.group_id).items()), NEVER, False
        for i in range(0, len(held), SLICE):
            if i:
                yield
            times = {
                where: self._expires_at(group, where[0], committed)
                for where, committed in held[i : i + SLICE]
                if self.offsets.of(group.group_id).get(where) is committed and not self.offsets.waits(group.group_id, where)
            }
            expired = [where for where, expires in times.items() if expires <= now]
            until = min(until, *(expires for expires in times.values() if expires > now), NEVER)
            if expired and self.delete(group.group_id, expired, now):
                return now
            changed = changed or bool(expired)
        return None if changed else until

    def _expires_at(self, group: AnyGroup, topic: str, committed: Committed) -> int:
        since = group.kept_since(committed)
        if since is None or group.subscribes(topic):
            return NEVER
        keep = self._cluster.configs.integer("offsets.retention.minutes") * 60_000
        return committed.expires if committed.expires is not None else since + keep
