"""The quorum of controllers, as clients see it. In wirebroker every broker is a controller and a voter.

There is no Raft, and there is no listener that only controllers use. The endpoint of a controller comes from
controller.quorum.voters or, if this setting does not name the controller, from the broker's first listener.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from kafkawire.primitives import ZERO_UUID, format_uuid
from wirebroker.core.cluster import Broker, Cluster
from wirebroker.core.features import KRAFT

LISTENER = "CONTROLLER"
"""The listener of Kafka's controllers."""
VOTERS = "controller.quorum.voters"


class Voter(NamedTuple):
    """A voter, with the id of its first log directory. The id is zero as long as the quorum is static (kraft.version 0)."""

    node_id: int
    directory_id: bytes

    def __str__(self) -> str:
        """Returns the voter in the form of Kafka's ReplicaKey."""
        return f"ReplicaKey(id={self.node_id}, directoryId={format_uuid(self.directory_id)})"


def voters(cluster: Cluster) -> list[Voter]:
    dynamic = cluster.configs.features[KRAFT] > 0
    return [Voter(node_id, _directory_id(node_id, cluster) if dynamic else ZERO_UUID) for node_id in cluster.brokers]


def _directory_id(node_id: int, cluster: Cluster) -> bytes:
    """Returns the id of the broker's first log directory. A broker in memory always has the same id."""
    return cluster.log_dirs.ids.get(node_id) or sha256(f"{cluster.cluster_id} {node_id}".encode()).digest()[:16]


def endpoint(broker: Broker, cluster: Cluster) -> tuple[str, int]:
    """Returns the host and port of the broker's controller."""
    for voter in cluster.configs.text(VOTERS).split(","):
        node_id, _, address = voter.strip().partition("@")
        host, _, port = address.rpartition(":")
        if node_id == str(broker.node_id) and port.isdecimal():
            return host.strip("[]"), int(port)
    return broker.address("")
