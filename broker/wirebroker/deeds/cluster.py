"""The cluster: brokers, leaders and replicas."""

from __future__ import annotations

from typing import Annotated

from wirebroker.deeds.declaring import IMPOSSIBLE, NO_BROKER, NO_TOPIC, Deeds, NodeId, about, deed

__tracebackhide__ = True  # pytest shows the caller's line
PARTITION = "/topics/{topic}/partitions/{partition:number}"
NO_REPLICA = {404: "there is no such topic, partition or broker"}
Replica = Annotated[NodeId, about("the node id of the broker that has the replica")]


class ClusterDeeds(Deeds):
    """The deeds that change brokers and replicas."""

    @deed("POST", "/brokers/{node_id:number}/kill", shows="brokers", settles=True, problems=NO_BROKER, impossible=IMPOSSIBLE)
    def kill_broker(
        self, node_id: NodeId, *,
        unregister: Annotated[
            bool, about("true: the cluster also forgets the broker, which is a new broker when it starts")
        ] = False,
    ) -> None:  # fmt: skip
        """Stop a broker as kill −9 does: its connections break, its port refuses connections, and other brokers lead its
        partitions. With `unregister`, the cluster also forgets the broker, as after UnregisterBroker: when the broker
        starts, it is a new broker in the running cluster.

        Records that were not replicated are lost. Raises ValueError if there is no such broker, or if the broker is already
        down.
        """
        self._engine.kill_broker(node_id, self._now)
        if unregister:
            self._engine.controller.unregister(node_id, self._now)

    @deed("POST", "/brokers/{node_id:number}/start", shows="brokers", settles=True, problems=NO_BROKER, impossible=IMPOSSIBLE)
    def start_broker(self, node_id: NodeId) -> None:
        """Start a killed broker: its replicas follow the leaders again and become in sync. Does nothing if the broker is
        running."""
        self._engine.start_broker(node_id, self._now)

    @deed("POST", f"{PARTITION}/move-leader", shows="leader", problems=NO_REPLICA, impossible=IMPOSSIBLE)
    def move_leader(
        self, topic: str, partition: int = 0, *,
        to: Annotated[NodeId, about("the node id of a replica that is alive and in sync")],
    ) -> None:  # fmt: skip
        """Make another in-sync replica the leader. If the replica was frozen, the records that it lacks are lost. Raises
        ValueError unless the broker `to` is up and its replica is in sync."""
        self._engine.controller.move_leader(topic, partition, to, self._now)

    @deed("POST", f"{PARTITION}/elect-leader", shows="elected", problems=NO_TOPIC)
    def elect_leader(
        self, topic: str, partition: int = 0, *,
        unclean: Annotated[
            bool, about("true: without a leader, elect any live replica; false: only the preferred replica")
        ] = False,
    ) -> int:  # fmt: skip
        """Elect the preferred replica as the leader. With `unclean`, elect any live replica if the partition has no leader,
        even a replica that is not in sync. Returns Kafka's error code."""
        return self._engine.controller.elect_leader(topic, partition, self._now, unclean=unclean)

    @deed("POST", f"{PARTITION}/freeze-replica", shows="leader", problems=NO_REPLICA, impossible=IMPOSSIBLE)
    def freeze_replica(self, topic: str, partition: int, node_id: Replica) -> None:
        """Make a follower stop fetching. After replica.lag.time.max.ms the follower is out of sync. Raises ValueError if the
        replica is the leader."""
        self._engine.controller.freeze_replica(topic, partition, node_id, self._now)

    @deed("POST", f"{PARTITION}/thaw-replica", shows="leader", problems=NO_REPLICA, impossible=IMPOSSIBLE)
    def thaw_replica(self, topic: str, partition: int, node_id: Replica) -> None:
        """Make a frozen follower fetch again. The follower catches up and becomes in sync."""
        self._engine.controller.thaw_replica(topic, partition, node_id, self._now)
