"""The records about controllers and brokers in the metadata log, as Kafka's controller writes them.

Kafka's tools read these records, and a Kafka that continues the log reads them, too. wirebroker does not read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from kafkawire.declare import Message
from kafkawire.messages.leader_change_message import LeaderChangeMessage, Voter
from kafkawire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kafkawire.metadata_records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kafkawire.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from wirebroker.core.cluster import Broker, Cluster
from wirebroker.core.features import KRAFT, METADATA
from wirebroker.core.java_order import SMALLEST, hash_order, java_hash
from wirebroker.core.quorum import LISTENER, endpoint, voters
from wirebroker.storage.directory import LogDirectories

REGISTERED_CONTROLLERS_LEVEL, CORDONED_LEVEL = 15, 30
"""Two levels of metadata.version. Controllers are registered from the first level on (3.7-IV0). Brokers report their cordoned
log directories from the second level on (4.3-IV0)."""
BROKER_RECORD_LEVELS = (7, 8, 17, CORDONED_LEVEL)
"""The record of a broker's registration has versions 1 to 4. For each version: the first level of metadata.version with this
version."""
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
FENCED, UNFENCED = 1, -1
NO_EPOCH = -1


class Registrations:
    """The brokers that this process has registered in the metadata log."""

    def __init__(self, cluster: Cluster, directories: LogDirectories) -> None:
        self._cluster = cluster
        self._directories = directories
        self._metadata = directories.metadata
        self._epochs: dict[int, int] = {}
        """The epoch of each registered broker: the offset of its registration."""
        self._cordoned: dict[int, list[bytes]] = {}

    def epoch(self, node_id: int) -> int:
        """Returns the epoch of a broker, or −1 if the broker is not registered."""
        return self._epochs.get(node_id, NO_EPOCH)

    def begin(self, now: int) -> None:
        """Begin a leader epoch of the metadata log. In the new epoch no broker is registered yet. Raises OSError."""
        self._epochs.clear()
        self._cordoned.clear()
        version = int(self._cluster.configs.features[KRAFT] > 0)
        all_voters = [Voter(voter_id=each.node_id, voter_directory_id=each.directory_id) for each in voters(self._cluster)]
        message = LeaderChangeMessage(
            version=version, leader_id=all_voters[0].voter_id, voters=all_voters, granting_voters=all_voters
        )
        self._metadata.begin_epoch(message, version, now)

    def write(self, now: int) -> None:
        """Register the brokers that have listeners and are not registered yet. Fence the brokers that are down. Raises
        OSError."""
        if self._level < BROKER_RECORD_LEVELS[0]:
            return
        for node_id, broker in self._cluster.brokers.items():
            known = node_id in self._epochs
            if broker.alive and broker.addresses and not known:
                self._register(broker, now)
            elif known and not broker.alive:
                self._metadata.append(iter([self._change(node_id, 0, fenced=FENCED)]), now)
                del self._epochs[node_id]
            if node_id in self._epochs:
                self._write_cordoned(node_id, now)

    def leaving(self) -> Iterator[tuple[Message, int]]:
        """Yields the records with which the brokers begin their shutdown."""
        return (self._change(node_id, 1, in_controlled_shutdown=1) for node_id in self._epochs)

    def left(self) -> Iterator[tuple[Message, int]]:
        """Yields the records with which the brokers end their shutdown."""
        return (self._change(node_id, 0, fenced=FENCED) for node_id in self._epochs)

    @property
    def _level(self) -> int:
        return self._cluster.configs.features.get(METADATA, 0)

    def _register(self, broker: Broker, now: int) -> None:
        node_id, level = broker.node_id, self._level
        if level >= REGISTERED_CONTROLLERS_LEVEL:
            self._metadata.append(iter([(self._controller_record(broker), 0)]), now)
        epoch = self._metadata.end_offset
        version = sum(level >= each for each in BROKER_RECORD_LEVELS)
        self._metadata.append(iter([(self._broker_record(broker, epoch), version)]), now)
        self._epochs[node_id] = epoch
        self._write_cordoned(node_id, now)
        self._metadata.append(iter([self._change(node_id, 0, fenced=UNFENCED)]), now)

    def _write_cordoned(self, node_id: int, now: int) -> None:
        paths = self._cluster.log_dirs.cordoned(node_id)
        cordoned = [each.id for each in self._directories.of[node_id] if each.path in paths]
        if self._level >= CORDONED_LEVEL and self._cordoned.get(node_id) != cordoned:
            self._metadata.append(iter([self._change(node_id, 3, cordoned_log_dirs=cordoned)]), now)
            self._cordoned[node_id] = cordoned

    def _change(self, node_id: int, version: int, **changed: object) -> tuple[Message, int]:
        record = BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=self._epochs[node_id])
        for name, value in changed.items():
            setattr(record, name, value)
        return record, version

    def _controller_record(self, broker: Broker) -> RegisterControllerRecord:
        host, port = endpoint(broker, self._cluster)
        return RegisterControllerRecord(
            controller_id=broker.node_id, incarnation_id=self._incarnation("controller", broker), zk_migration_ready=False,
            end_points=[ControllerEndpoint(name=LISTENER, host=host, port=port, security_protocol=0)],
            features=[
                ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in _features(broker)
            ],
        )  # fmt: skip

    def _broker_record(self, broker: Broker, epoch: int) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=broker.node_id, incarnation_id=self._incarnation("broker", broker), broker_epoch=epoch,
            end_points=[
                BrokerEndpoint(name=name, host=host, port=port, security_protocol=self._protocol(name))
                for name, (host, port) in broker.addresses.items()
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in _features(broker)
            ],
            rack=broker.rack, log_dirs=sorted(each.id for each in self._directories.of[broker.node_id]),
        )  # fmt: skip

    def _incarnation(self, role: str, broker: Broker) -> bytes:
        """Returns an id that is unique to this start of the broker."""
        where = self._directories.of[broker.node_id][0].id + self._metadata.end_offset.to_bytes(8, "big")
        return sha256(role.encode() + where).digest()[:16]

    def _protocol(self, listener: str) -> int:
        pairs = [each.strip().split(":") for each in self._cluster.configs.text("listener.security.protocol.map").split(",")]
        named = dict(each for each in pairs if len(each) == 2).get(listener, listener)
        return PROTOCOLS.index(named) if named in PROTOCOLS else 0


def _features(broker: Broker) -> Iterator[tuple[str, int, int]]:
    """Yields the name and the lowest and highest level of each feature that the broker supports."""
    features = broker.release.features
    for name in hash_order(features, java_hash, SMALLEST):
        yield name, features[name].oldest, features[name].newest
