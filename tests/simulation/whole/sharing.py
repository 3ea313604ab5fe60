"""Follows the records that the members of share groups have acquired: a member keeps its records until it acknowledges or
releases them, or until its lock ends."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fuzzing.script import Finding
from wirebroker.apis.share_fetch import ShareFetch, _visible
from wirebroker.core.share.in_flight import RecordState
from wirebroker.core.share.partition import SharePartition

if TYPE_CHECKING:
    from simulation.whole.world import Sent, World
    from wirebroker.core.share.partitions import Held
    from wirebroker.engine.engine import Engine

LONGEST_LOCK_MS = "share.record.lock.duration.ms"


class Lent(NamedTuple):
    """An acquired record: the share partition, the member, the end of the lock, and the member's session."""

    share: SharePartition
    member_id: str
    until: int
    session: Any


class Sharing:
    """Follows the acquired records of one world."""

    def __init__(self) -> None:
        self._lent: dict[tuple[Any, int], Lent] = {}
        self._sent = 0
        """The number of requests that had been sent at the last look."""
        self._awaited: list[Sent] = []
        """The requests that had no response at the last look."""
        self._counts: dict[tuple[SharePartition, int], int] = {}
        """The number of deliveries of each record that is the first of its batch or has its own state."""
        self._deliveries: dict[Any, int] = {}
        """For each share partition, the largest number of deliveries that its group has ever allowed."""

    def look(self, world: World) -> None:
        """Compare the records that are acquired now with those that were acquired at the last call. Raises Finding."""
        engine, lent = world.engine, dict[tuple[Any, int], Lent]()
        written = {sent.request.group_id for sent in world.history if sent.api == "WriteShareGroupState"}
        awaited = [sent for link in world.links.values() for sent in link.awaited]
        active = {
            (sent.request.group_id, sent.request.member_id)
            for sent in [*world.history[self._sent :], *awaited, *self._awaited]
            if sent.api in ("ShareFetch", "ShareAcknowledge")
        }
        counts, self._counts = self._counts, {}
        for held in engine.shares:
            limits, key = held.share.limits, held.key
            self._deliveries[key] = most = max(limits.deliveries, self._deliveries.get(key, 0))
            for first, last, record in (each for batch in held.share.batches for each in batch.states()):
                released = record.state is RecordState.AVAILABLE and key[0] not in written
                if record.delivery_count < counts.get((held.share, first), 0):
                    raise Finding("a record was delivered less often than before", f"{key} {first}: {record.delivery_count}")
                self._counts[held.share, first] = record.delivery_count
                if record.delivery_count > most - released:
                    raise Finding("a record is delivered too often", f"{key} {first}: {record.delivery_count}, at most {most}")
                if record.state is RecordState.ACQUIRED and record.lock is not None:
                    session = engine.shares.sessions.get((held.node_id, key[0], record.member_id))
                    self._lock(world, key, record)
                    for offset in range(first, last + 1):
                        lent[key, offset] = Lent(held.share, record.member_id, record.lock.when, session)
        if not world.in_progress:
            self._keeps(engine, lent, active, world.now)
        self._lent, self._sent, self._awaited = lent, len(world.history), awaited

    def _keeps(self, engine: Engine, lent: Mapping[tuple[Any, int], Lent], active: Container[Any], now: int) -> None:
        """Checks that each member has kept its records, unless it is `active`, its session or its lock has ended, or the share
        partition is closed."""
        for (key, offset), before in self._lent.items():
            held, present = engine.shares._held.get(key), lent.get((key, offset))
            if present is not None and present.member_id == before.member_id:
                continue
            same = held is not None and held.share is before.share
            session = engine.shares.sessions.get((held.node_id, key[0], before.member_id)) if held is not None else None
            stays = same and session is not None and session is before.session and now < before.until
            if stays and (key[0], before.member_id) not in active:
                raise Finding("a member loses its acquired records", f"{key} {offset}: {before.member_id} until {before.until}")

    @staticmethod
    def _lock(world: World, key: Any, record: Any) -> None:
        """Checks that a lock is not longer than the setting allows. The setting may have changed since the lock began."""
        changed = any(
            config.name == LONGEST_LOCK_MS
            for sent in world.history
            if "AlterConfigs" in sent.api
            for resource in sent.request.resources
            for config in resource.configs
        )
        longest = world.engine.shares.settings(key[0]).limits.lock_ms
        if not changed and record.lock.when - world.now > longest:
            raise Finding("a lock of acquired records is too long", f"{key}: {record.lock.when - world.now} ms, {longest}")


def nobody_waits_for_released_records(world: World) -> None:
    """Checks that no ShareFetch waits, although a record that was given out before is available again. Raises Finding.

    As in Kafka, members that release records wake the waiting requests before the release is written, so these requests find
    nothing (SharePartitionManager.acknowledge and releaseSession). So only a request is judged since which no member can have
    released records.
    """
    engine = world.engine
    if world.in_progress or world.in_trouble or engine.cluster.quotas.on:
        return
    for callbacks in engine.shares._waiting.values():
        for fetch in (getattr(each, "__self__", None) for each in callbacks):
            if not isinstance(fetch, ShareFetch) or fetch.request.min_bytes > 1 or fetch.request.max_bytes <= 0:
                continue
            if _members_may_have_released(world, fetch):
                continue
            for held in fetch._held.values():
                if engine.shares._held.get(held.key) is held and held.active and _has_released(held):
                    raise Finding("a ShareFetch waits for records that are available", f"{held.key}: {fetch.request}"[:500])


def _members_may_have_released(world: World, fetch: ShareFetch) -> bool:
    """Tells whether, since the request came, a client has left or the group's members have sent further requests."""
    links = [link for link in world.links.values() if link.connection is fetch.exchange.connection and link.awaited]
    since = links[0].awaited[0].number if links else -1
    later = world.history[since + 1 :]
    shares = [each for each in later if each.api in ("ShareFetch", "ShareAcknowledge")]
    return since < world.sent_at_last_leave or any(each.request.group_id == fetch.request.group_id for each in shares)


def _has_released(held: Held) -> bool:
    """Tells whether the next record of a share partition was given out before, is available, and can be read."""
    offset = held.share.next_fetch_offset()
    return offset <= held.share.end_offset and held.partition.log_start_offset <= offset < _visible(held)
