"""An *image* of a cluster's metadata (topics, settings, ACLs, features and so on), and the difference of two images.

An image is read from the records of `__cluster_metadata`, or made from a running cluster. The records that a broker writes are
computed as the difference of two images. So code that changes the cluster does not write records itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct

from kafkawire.batches import BatchHeader, iter_records
from kafkawire.declare import Message
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.names import LAST_OFFSET, LOG, METADATA_FOLDER, file_name, offsets_in
from kafkawire.disk.walking import Walk
from kafkawire.errors import ProtocolError
from kafkawire.metadata_log import Transactions, read_metadata
from kafkawire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from kafkawire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kafkawire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from kafkawire.metadata_records.config_record import ConfigRecord
from kafkawire.metadata_records.delegation_token_record import DelegationTokenRecord
from kafkawire.metadata_records.end_transaction_record import EndTransactionRecord
from kafkawire.metadata_records.feature_level_record import FeatureLevelRecord
from kafkawire.metadata_records.partition_change_record import PartitionChangeRecord
from kafkawire.metadata_records.partition_record import PartitionRecord
from kafkawire.metadata_records.producer_ids_record import ProducerIdsRecord
from kafkawire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kafkawire.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from kafkawire.metadata_records.remove_topic_record import RemoveTopicRecord
from kafkawire.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kafkawire.metadata_records.topic_record import TopicRecord
from kafkawire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

K = TypeVar("K")
V = TypeVar("V", str, float)
Settings = Mapping[tuple[int, str], Mapping[str, str]]
Order = Callable[[Iterable[str]], list[str]]

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
"""The kinds of resources that have settings (ConfigResource.Type)."""
METADATA_VERSION = "metadata.version"
TRANSACTIONS_LEVEL, ELIGIBLE_REPLICAS_LEVEL = 13, 23
"""From these levels of metadata.version on, records form transactions (3.6-IV1), and the records of partitions have room for
eligible leader replicas (4.0-IV1)."""
NO_LEADER = -1
UNCHANGED_LEADER = -2
UNASSIGNED = bytes(16)
"""The directory id of a replica that is not assigned to a log directory."""
RESERVED_IDS = 100
"""The ids below this number are reserved: no log directory has such an id."""


def is_reserved(directory_id: bytes) -> bool:
    """Tells whether the id stands for something like "unknown" or "unassigned", and not for a log directory (DirectoryId)."""
    return int.from_bytes(directory_id, "big") < RESERVED_IDS


_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


class PartitionImage(NamedTuple):
    """The replicas and the leader of a partition; during a reassignment also the added and the removed replicas."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    """The ids of the replicas' log directories; empty if they are not known."""
    eligible: tuple[int, ...] = ()
    """The eligible leader replicas: they are not in sync, and have all records below the high watermark (KIP-966)."""
    last_known: tuple[int, ...] = ()
    """If the partition has lost all eligible replicas: its last leader before this loss."""


class TopicImage(Struct):
    """A topic and its partitions by index."""

    name: str
    partitions: dict[int, PartitionImage] = {}


class ScramCredential(NamedTuple):
    """Kafka stores these values in place of a user's password for a SCRAM mechanism (RFC 5802)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class AclImage(NamedTuple):
    """An access control entry, with the resources to which it applies. `principal` is a text such as `User:alice`."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


QuotaEntity = tuple[tuple[str, str | None], ...]
"""The entity of a client quota: pairs of a type (`user`, `client-id`, `ip`) and a name, in order. The name None stands for the
default entity of the type.
"""


class TokenImage(NamedTuple):
    """A delegation token: principals like `User:alice`, and times in ms since the epoch."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_at: int
    most_at: int
    """The latest expiry that a renewal can give the token."""
    expires_at: int


class Image(Struct):
    """The image of a cluster's metadata: topics, settings, producer ids, ACLs and delegation tokens, each by id, and client
    quotas.

    Settings are stored by resource: its type, and its name ("" for all brokers).
    """

    topics: dict[bytes, TopicImage] = {}
    settings: dict[tuple[int, str], dict[str, str]] = {}
    next_producer_id: int = 0
    scram: dict[tuple[str, int], ScramCredential] = {}
    """SCRAM credentials, by user and the mechanism's number."""
    acls: dict[bytes, AclImage] = {}
    quotas: dict[QuotaEntity, dict[str, float]] = {}
    tokens: dict[str, TokenImage] = {}
    features: dict[str, int] = {}
    """The levels of the cluster's features. Kafka's controller writes only levels above 0."""

    def apply(self, record: Message) -> None:
        """Apply the record. Raises KeyError if the record names an unknown topic or partition."""
        if isinstance(record, TopicRecord):
            self.topics[record.topic_id] = TopicImage(record.name)
        elif isinstance(record, RemoveTopicRecord):
            topic = self.topics.pop(record.topic_id)
            self.settings.pop((TOPIC, topic.name), None)
        elif isinstance(record, PartitionRecord):
            self.topics[record.topic_id].partitions[record.partition_id] = PartitionImage(
                tuple(record.replicas), tuple(record.isr), record.leader, record.leader_epoch,
                tuple(record.adding_replicas), tuple(record.removing_replicas), tuple(record.directories),
                tuple(record.eligible_leader_replicas or ()), tuple(record.last_known_elr or ()),
            )  # fmt: skip
        elif isinstance(record, PartitionChangeRecord):
            partitions = self.topics[record.topic_id].partitions
            partitions[record.partition_id] = _changed(partitions[record.partition_id], record)
        elif isinstance(record, ConfigRecord):
            _put(self.settings, (record.resource_type, record.resource_name), record.name, record.value)
        elif isinstance(record, ProducerIdsRecord):
            self.next_producer_id = record.next_producer_id
        elif isinstance(record, FeatureLevelRecord):
            self.features[record.name] = record.feature_level
        else:
            self._apply_access(record)

    def _apply_access(self, record: Message) -> None:
        """Apply a record about SCRAM users, ACLs, quotas or delegation tokens."""
        if isinstance(record, UserScramCredentialRecord):
            self.scram[record.name, record.mechanism] = ScramCredential(
                bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
            )
        elif isinstance(record, RemoveUserScramCredentialRecord):
            self.scram.pop((record.name, record.mechanism), None)
        elif isinstance(record, AccessControlEntryRecord):
            self.acls[record.id] = AclImage(
                record.resource_type, record.resource_name, record.pattern_type, record.principal, record.host,
                record.operation, record.permission_type,
            )  # fmt: skip
        elif isinstance(record, RemoveAccessControlEntryRecord):
            del self.acls[record.id]
        elif isinstance(record, ClientQuotaRecord):
            entity = tuple(sorted((each.entity_type, each.entity_name) for each in record.entity))
            _put(self.quotas, entity, record.key, None if record.remove else record.value)
        elif isinstance(record, DelegationTokenRecord):
            self.tokens[record.token_id] = TokenImage(
                record.token_id, record.owner, record.requester, tuple(record.renewers), record.issue_timestamp,
                record.max_timestamp, record.expiration_timestamp,
            )  # fmt: skip
        elif isinstance(record, RemoveDelegationTokenRecord):
            self.tokens.pop(record.token_id, None)


def _put(held: dict[K, dict[str, V]], of: K, name: str, value: V | None) -> None:
    """Set a setting of the resource `of`, or a limit of the entity `of`. A `value` of None removes the setting. As in Kafka, if
    the last setting or limit is removed, `of` is removed, too."""
    own = held.setdefault(of, {})
    if value is not None:
        own[name] = value
    else:
        own.pop(name, None)
    if not own:
        del held[of]


def _changed(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Applies a change to a partition, like PartitionRegistration.merge. A new leader epoch begins if the partition gets a new
    leader, or loses its leader."""
    leader, epoch = partition.leader, partition.leader_epoch
    if record.leader != UNCHANGED_LEADER:
        leader, epoch = record.leader, epoch + 1
    held = partition.directories if record.replicas is None else ()
    return PartitionImage(
        partition.replicas if record.replicas is None else tuple(record.replicas),
        partition.in_sync if record.isr is None else tuple(record.isr),
        leader, epoch,
        partition.adding if record.adding_replicas is None else tuple(record.adding_replicas),
        partition.removing if record.removing_replicas is None else tuple(record.removing_replicas),
        held if record.directories is None else tuple(record.directories),
        partition.eligible if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
        partition.last_known if record.last_known_elr is None else tuple(record.last_known_elr),
    )  # fmt: skip


def bootstrap(old: Image, new: Image, level: int) -> Iterator[tuple[Message, int]]:
    """Yields the first records of a new cluster: its features, and the settings of all brokers."""
    together = level >= TRANSACTIONS_LEVEL
    if together:
        yield BeginTransactionRecord(name="Bootstrap records"), 0
    yield from _feature_records(old, new)
    yield from _setting_records((BROKER, ""), old.settings, new.settings, sorted)
    if together:
        yield EndTransactionRecord(), 0


def difference(old: Image, new: Image, node: tuple[int, int], level: int, order: Order) -> Iterator[tuple[Message, int]]:
    """Yields the records that turn the old image into the new image, each with its version. `node` is the id and the epoch of
    the broker that requested producer ids, `level` is the level of metadata.version, and the function `order` sorts the names
    of settings that change together.
    """
    for topic_id in old.topics.keys() - new.topics.keys():
        yield RemoveTopicRecord(topic_id=topic_id), 0
    written = {(TOPIC, topic.name) for topic_id, topic in old.topics.items() if topic_id not in new.topics}
    before = {resource: held for resource, held in old.settings.items() if resource not in written} if written else old.settings
    for topic_id, topic in new.topics.items():
        known = old.topics.get(topic_id)
        if known is topic:
            continue
        if known is None:
            yield TopicRecord(name=topic.name, topic_id=topic_id), 0
            yield from _setting_records((TOPIC, topic.name), before, new.settings, order)
            written.add((TOPIC, topic.name))
        yield from _partitions_records(topic_id, known, topic, level)
    changed = {each for each, held in new.settings.items() if before.get(each) is not held}
    for resource in sorted((changed | before.keys() - new.settings.keys()) - written):
        yield from _setting_records(resource, before, new.settings, order)
    yield from _scram_records(old, new)
    for acl_id in [each for each in old.acls if each not in new.acls]:
        yield RemoveAccessControlEntryRecord(id=acl_id), 0
    for acl_id, acl in new.acls.items():
        if acl_id in old.acls:
            continue
        yield AccessControlEntryRecord(
            id=acl_id, resource_type=acl.resource_type, resource_name=acl.name, pattern_type=acl.pattern_type,
            principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission,
        ), 0  # fmt: skip
    yield from _quota_records(old, new)
    yield from _token_records(old, new)
    yield from _feature_records(old, new)
    if old.next_producer_id != new.next_producer_id:
        node_id, epoch = node
        yield ProducerIdsRecord(broker_id=node_id, broker_epoch=epoch, next_producer_id=new.next_producer_id), 0


def _setting_records(resource: tuple[int, str], old: Settings, new: Settings, order: Order) -> Iterator[tuple[Message, int]]:
    before, after = old.get(resource, {}), new.get(resource, {})
    kind, owner = resource
    for name in order(each for each in {*before, *after} if before.get(each) != after.get(each)):
        yield ConfigRecord(resource_type=kind, resource_name=owner, name=name, value=after.get(name)), 0


def _scram_records(old: Image, new: Image) -> Iterator[tuple[Message, int]]:
    for name, mechanism in sorted(old.scram.keys() - new.scram.keys()):
        yield RemoveUserScramCredentialRecord(name=name, mechanism=mechanism), 0
    for (name, mechanism), held in sorted(new.scram.items()):
        if old.scram.get((name, mechanism)) != held:
            yield UserScramCredentialRecord(
                name=name, mechanism=mechanism, salt=held.salt, stored_key=held.stored_key, server_key=held.server_key,
                iterations=held.iterations,
            ), 0  # fmt: skip


def _quota_records(old: Image, new: Image) -> Iterator[tuple[Message, int]]:
    for entity in dict.fromkeys((*old.quotas, *new.quotas)):
        before, after = old.quotas.get(entity, {}), new.quotas.get(entity, {})
        for key in dict.fromkeys((*before, *after)):
            if before.get(key) != after.get(key):
                named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
                gone = key not in after
                yield ClientQuotaRecord(entity=named, key=key, value=after.get(key, 0.0), remove=gone), 0


def _token_records(old: Image, new: Image) -> Iterator[tuple[Message, int]]:
    for token_id in sorted(old.tokens.keys() - new.tokens.keys()):
        yield RemoveDelegationTokenRecord(token_id=token_id), 0
    for token_id, token in new.tokens.items():
        if old.tokens.get(token_id) != token:
            yield DelegationTokenRecord(
                owner=token.owner, requester=token.requester, renewers=list(token.renewers), issue_timestamp=token.issued_at,
                max_timestamp=token.most_at, expiration_timestamp=token.expires_at, token_id=token_id,
            ), 0  # fmt: skip


def _feature_records(old: Image, new: Image) -> Iterator[tuple[Message, int]]:
    for name, level in sorted(new.features.items(), key=lambda each: (each[0] != METADATA_VERSION, each[0])):
        if old.features.get(name, 0) != level:
            yield FeatureLevelRecord(name=name, feature_level=level), 0


def _partitions_records(topic_id: bytes, old: TopicImage | None, new: TopicImage, level: int) -> Iterator[tuple[Message, int]]:
    version = 2 if level >= ELIGIBLE_REPLICAS_LEVEL else 1
    for index, partition in new.partitions.items():
        before = old.partitions.get(index) if old else None
        yield from ((each, version) for each in _partition_records(topic_id, index, before, partition))


def _partition_records(topic_id: bytes, index: int, old: PartitionImage | None, new: PartitionImage) -> Iterator[Message]:
    if old is None:
        yield PartitionRecord(
            partition_id=index, topic_id=topic_id, replicas=list(new.replicas), isr=list(new.in_sync),
            removing_replicas=list(new.removing), adding_replicas=list(new.adding), leader=new.leader,
            leader_epoch=new.leader_epoch, partition_epoch=0, directories=_directories(new),
        )  # fmt: skip
        return
    moved = (old.replicas, _directories(old)) != (new.replicas, _directories(new))
    moves = (old.adding, old.removing) != (new.adding, new.removing)
    base = PartitionChangeRecord(
        partition_id=index, topic_id=topic_id,
        isr=list(new.in_sync) if old.in_sync != new.in_sync else None,
        replicas=list(new.replicas) if old.replicas != new.replicas else None,
        directories=_directories(new) if moved else None,
        adding_replicas=list(new.adding) if moves else None,
        removing_replicas=list(new.removing) if moves else None,
        eligible_leader_replicas=list(new.eligible) if old.eligible != new.eligible else None,
        last_known_elr=list(new.last_known) if old.last_known != new.last_known else None,
    )  # fmt: skip
    if old.leader_epoch == new.leader_epoch and old.leader == new.leader:
        if moved or moves or base.isr is not None:
            yield base
        return
    # Each record that sets the leader begins one leader epoch. So if the epoch rose by 3, three records are needed.
    for left in range(max(new.leader_epoch - old.leader_epoch, 1), 0, -1):
        base.leader = new.leader if left == 1 else NO_LEADER
        yield base
        base = PartitionChangeRecord(partition_id=index, topic_id=topic_id)


def _directories(partition: PartitionImage) -> list[bytes]:
    return list(partition.directories) or [UNASSIGNED] * len(partition.replicas)


# Reading


class MetadataFiles(NamedTuple):
    """The files of `__cluster_metadata-0` in the order in which they are read."""

    since: int
    """The end offset of the newest snapshot; 0 without a snapshot."""
    snapshot: Walk | None
    segments: list[Walk]
    """The segments with records at or after `since`, and always the last segment."""


def metadata_files(folder: Path, *, oldest: bool = False) -> MetadataFiles:
    """Returns the newest snapshot and the segments after it. With `oldest`, returns the oldest snapshot after which the
    segments have no gap, and all segments after it. Raises OSError.
    """
    snapshots = sorted(
        (int(match[1]), path)
        for path in folder.iterdir()
        if (match := _SNAPSHOT.fullmatch(path.name)) and match[1] <= LAST_OFFSET
    )
    bases = offsets_in(folder, LOG)
    since, snapshot = snapshots[-1] if snapshots else (0, None)
    if oldest and bases:
        continued = [each for each in snapshots if each[0] >= bases[0]]
        since, snapshot = (0, None) if bases[0] == 0 else continued[0] if continued else (since, snapshot)
    ends = [*bases[1:], since + 1]
    segments = [
        Walk(folder / file_name(base, LOG), base, gaps_below=0) for base, end in zip(bases, ends, strict=False) if end > since
    ]
    return MetadataFiles(since, None if snapshot is None else Walk(snapshot, 0), segments)


def replay(walk: Walk, image: Image, transactions: Transactions, since: int = 0) -> Iterator[BatchHeader]:
    """Apply a file's records from the offset `since` on to the image. Yields each batch's header once the batch is applied.

    The function stops where the walk over the file ends; the caller checks `walk.damage`. Raises DamagedFile for unreadable
    records.
    """
    for position, header, batch in walk:
        if not header.is_control and header.base_offset >= since:
            try:
                for each in iter_records(batch):
                    for record in transactions.take(*read_metadata(each.value or b"")):
                        image.apply(record)
            except (
                ProtocolError,
                LookupError,
                TypeError,
                ValueError,
            ) as wrong:  # not ProtocolError: fields contradict each other
                raise DamagedFile(walk.path, f"the metadata cannot be read: {wrong}", position) from wrong
        yield header


class WrittenImage(NamedTuple):
    """The image in a log directory's `__cluster_metadata`. Every node has such a file; a stopped node's file is outdated."""

    image: Image
    leader_epoch: int
    end: int
    """the offset after the last record read"""
    is_whole: bool
    """whether the files could be read to the end; after a power cut, the last batch may be torn"""

    def compacted_topics(self) -> frozenset[str]:
        """Returns the topics with `cleanup.policy` compact.

        The cleaner's checkpoint is not enough: a replica that was copied from a compacted replica has the same gaps,
        but no line in the checkpoint.
        """
        settings = self.image.settings
        default = settings.get((BROKER, ""), {}).get("log.cleanup.policy", "")
        names = (topic.name for topic in self.image.topics.values())
        return frozenset(name for name in names if "compact" in settings.get((TOPIC, name), {}).get("cleanup.policy", default))

    def tiered_topics(self) -> frozenset[str]:
        """Returns the topics whose segments the brokers move to a remote store (KIP-405)."""
        told = self.image.settings.items()
        return frozenset(name for (kind, name), own in told if kind == TOPIC and own.get("remote.storage.enable") == "true")


def written_image(log_dir: Path) -> WrittenImage | None:
    """Returns the image in this log directory, as far as it can be read. If the directory has no metadata, returns None."""
    image, transactions = Image(), Transactions()
    epoch, end, whole = -1, 0, False
    with suppress(OSError):
        files = metadata_files(log_dir / METADATA_FOLDER)
        walks = [each for each in (files.snapshot, *files.segments) if each is not None]
        for walk in walks:
            for header in replay(walk, image, transactions, 0 if walk is files.snapshot else files.since):
                if walk is not files.snapshot:
                    epoch, end = header.partition_leader_epoch, header.last_offset + 1
        end = max(end, files.since)
        whole = not any(each.damage for each in walks[:-1])
    return WrittenImage(image, epoch, end, whole) if end else None
