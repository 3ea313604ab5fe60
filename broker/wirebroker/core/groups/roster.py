"""The members of a classic group: their requests, their leader, and the protocol for which they vote.

`classic` has the group's states and the phases of a rebalance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from kafkawire.codec import decode
from kafkawire.errors import ErrorCode, ProtocolError
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from wirebroker.core.java_order import buckets_for, hash_order, java_hash
from wirebroker.core.purgatory import Timer
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since
from wirebroker.core.scala_order import SCALA, hash_order_12, trie_order_13

COUNTS_VOTES_IN_JAVA = since(
    "4.0",
    "if protocols of a classic group have equal votes, the order of Java's hash tables decides, not that of Scala's",
    "KIP-848",
)

Protocols = Sequence[tuple[str, bytes]]


class JoinRequest(NamedTuple):
    """A JoinGroup request that the broker `node_id` has received. Timeouts are in ms."""

    node_id: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    rebalance_timeout: int
    session_timeout: int
    needs_known_id: bool
    """Tells whether a new member first gets a member id and must then join again with this id (KIP-394)."""
    may_skip_assignment: bool
    sees: Callable[[str], bool] | None = None
    """Tells whether the client may see a topic. The member's regular expression matches only topics that the client may see.

    None means that the client may see all topics.
    """


class Joined(NamedTuple):
    """The response to a JoinGroup. Only the leader's response has `members` (id, instance id, metadata)."""

    code: int
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: Sequence[tuple[str, str | None, bytes]] = ()
    skip_assignment: bool = False


class Synced(NamedTuple):
    """The response to a SyncGroup."""

    code: int
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


Joiner = Callable[[Joined], None]
Syncer = Callable[[Synced], None]


class Member(Struct, eq=False):
    """A member of a group. Timeouts are in ms."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    session_timeout: int
    protocols: Protocols
    assignment: bytes = b""
    joiner: Joiner | None = None
    """The callback of the JoinGroup that waits for the end of the join phase."""
    syncer: Syncer | None = None
    is_new: bool = True
    heartbeat: Timer | None = None

    def metadata(self, protocol: str | None) -> bytes:
        return dict(self.protocols).get(protocol or "", b"")

    def refuse_waiting(self, code: ErrorCode) -> None:
        """Respond with an error to the member's waiting JoinGroup or SyncGroup."""
        joiner, self.joiner = self.joiner, None
        syncer, self.syncer = self.syncer, None
        if joiner is not None:
            joiner(Joined(code, self.member_id))
        if syncer is not None:
            syncer(Synced(code))

    def stop_timer(self) -> None:
        """Stop the member's session timeout."""
        if self.heartbeat is not None:
            self.heartbeat.cancel()


class Roster(dict[str, Member]):
    """The members of a classic group by their ids, in the order in which they joined."""

    def __init__(self, members: Iterable[Member] = (), leader: str | None = None) -> None:
        super().__init__()
        self.leader = leader
        self.static: dict[str, str] = {}
        """The member ids of the static members, by group.instance.id."""
        self._votes: Counter[str] = Counter()
        """The number of members that support each protocol."""
        for member in members:
            self.admit(member)

    def admit(self, member: Member) -> None:
        """Add a member. The first member leads the group."""
        self[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._votes.update(name for name, _ in member.protocols)

    def dismiss(self, member: Member) -> None:
        """Remove a member. If the removed member led the group, the oldest remaining member becomes the leader."""
        del self[member.member_id]
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self), None)
        self._votes.subtract(name for name, _ in member.protocols)

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Replace the protocols that a member supports."""
        self._votes.subtract(name for name, _ in member.protocols)
        self._votes.update(name for name, _ in protocols)
        member.protocols = protocols

    def support_one_of(self, protocols: Protocols) -> bool:
        """Tells whether at least one of these protocols is supported by all members."""
        return any(self._votes[name] == len(self) for name, _ in protocols)

    def choose_protocol(self, release: Release) -> str:
        """Returns the protocol with the most votes: each member votes for its first protocol that all members support."""
        common = {name for name, count in self._votes.items() if count == len(self)}
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in self.values())
        return max(_in_order(votes, release), key=votes.__getitem__)

    def topics(self, protocol: str | None) -> set[str] | None:
        """Returns the topics to which the members subscribe as consumers, or None if a member's metadata cannot be read."""
        read = [_subscription(member.metadata(protocol)) for member in self.values()]
        return None if None in read else {topic for topics in read for topic in topics or ()}

    def rebalance_timeout(self) -> int:
        """Returns the longest rebalance timeout of the members in ms."""
        return max((member.rebalance_timeout for member in self.values()), default=0)

    def joined(self) -> list[Member]:
        """Returns the members whose JoinGroup waits for the end of the join phase."""
        return [member for member in self.values() if member.joiner is not None]


def _in_order(names: Collection[str], release: Release) -> list[str]:
    """Returns protocols in the order of the hash table in which Kafka counts the votes. If several protocols have the most
    votes, the first of these protocols wins."""
    if COUNTS_VOTES_IN_JAVA.of(release):
        return hash_order(names, java_hash, buckets_for(len(names)))
    return hash_order_12(names, java_hash) if SCALA.of(release) == 12 else trie_order_13(names, java_hash)


def _subscription(metadata: bytes) -> set[str] | None:
    """Returns the topics in a consumer's metadata, or None if the metadata cannot be read. All versions of the metadata begin
    like version 0."""
    try:
        return set(decode(ConsumerProtocolSubscription, metadata, 0, 2)[0].topics)
    except ProtocolError:
        return None
