"""The kinds of steps, and their weights. Kinds with larger weights are drawn more often."""

from __future__ import annotations

from simulation.whole.acts import ACTS

ASKED: dict[str, tuple[str, ...]] = {
    "AddOffsetsToTxn": ("transactions",),
    "AddPartitionsToTxn": ("transactions",),
    "AddRaftVoter": ("brokers",),
    "AlterClientQuotas": ("quotas",),
    "AlterConfigs": ("admin", "administration", "mixed"),
    "AlterPartitionReassignments": ("brokers",),
    "AlterReplicaLogDirs": ("brokers",),
    "AlterShareGroupOffsets": ("shares",),
    "AlterUserScramCredentials": ("security",),
    "ApiVersions": ("administration",),
    "ConsumerGroupDescribe": ("consumers", "administration"),
    "ConsumerGroupHeartbeat": ("consumers",),
    "CreateAcls": ("security",),
    "CreateDelegationToken": ("security",),
    "CreatePartitions": ("admin", "streams"),
    "CreateTopics": ("admin",),
    "DeleteAcls": ("security",),
    "DeleteGroups": ("groups", "consumers", "shares", "streams", "transactions"),
    "DeleteRecords": ("logs", "shares"),
    "DeleteShareGroupOffsets": ("shares",),
    "DeleteShareGroupState": ("states",),
    "DeleteTopics": ("admin",),
    "DescribeAcls": ("security",),
    "DescribeClientQuotas": ("quotas",),
    "DescribeCluster": ("brokers", "administration"),
    "DescribeConfigs": ("admin", "administration", "mixed"),
    "DescribeDelegationToken": ("security",),
    "DescribeGroups": ("groups",),
    "DescribeLogDirs": ("brokers",),
    "DescribeProducers": ("logs", "transactions"),
    "DescribeQuorum": ("brokers",),
    "DescribeShareGroupOffsets": ("shares",),
    "DescribeTopicPartitions": ("admin",),
    "DescribeTransactions": ("transactions",),
    "DescribeUserScramCredentials": ("security",),
    "ElectLeaders": ("brokers",),
    "EndTxn": ("transactions",),
    "ExpireDelegationToken": ("security",),
    "Fetch": ("logs", "transactions"),
    "FindCoordinator": ("brokers",),
    "GetTelemetrySubscriptions": ("brokers",),
    "Heartbeat": ("groups",),
    "IncrementalAlterConfigs": ("admin", "administration", "mixed"),
    "InitProducerId": ("transactions", "logs"),
    "InitializeShareGroupState": ("states",),
    "JoinGroup": ("groups", "transactions"),
    "LeaveGroup": ("groups", "transactions"),
    "ListConfigResources": ("brokers",),
    "ListGroups": ("groups", "shares", "streams"),
    "ListOffsets": ("logs", "transactions", "admin"),
    "ListPartitionReassignments": ("brokers",),
    "ListTransactions": ("transactions",),
    "Metadata": ("admin",),
    "OffsetCommit": ("groups", "consumers", "streams", "transactions"),
    "OffsetDelete": ("groups", "streams", "transactions"),
    "OffsetFetch": ("groups", "consumers", "streams", "transactions"),
    "OffsetForLeaderEpoch": ("logs",),
    "Produce": ("logs", "transactions", "shares", "mixed"),
    "PushTelemetry": ("brokers",),
    "ReadShareGroupState": ("states",),
    "ReadShareGroupStateSummary": ("states",),
    "RemoveRaftVoter": ("brokers",),
    "RenewDelegationToken": ("security",),
    "SaslAuthenticate": ("logins",),
    "SaslHandshake": ("logins",),
    "ShareAcknowledge": ("shares",),
    "ShareFetch": ("shares",),
    "ShareGroupDescribe": ("shares",),
    "ShareGroupHeartbeat": ("shares",),
    "StreamsGroupDescribe": ("streams",),
    "StreamsGroupHeartbeat": ("streams",),
    "StreamsGroupTopologyDescriptionUpdate": ("states",),
    "SyncGroup": ("groups", "transactions"),
    "TxnOffsetCommit": ("transactions",),
    "UnregisterBroker": ("brokers",),
    "UnregisterController": ("brokers",),
    "UpdateFeatures": ("administration",),
    "WriteShareGroupState": ("states",),
    "WriteTxnMarkers": ("transactions",),
}
"""For each API, the subjects of dialogues that send its requests."""

OFTEN = {
    "Produce": 5, "Fetch": 3, "InitProducerId": 2, "EndTxn": 3, "JoinGroup": 4, "SyncGroup": 4, "OffsetCommit": 3,
    "TxnOffsetCommit": 2, "ConsumerGroupHeartbeat": 4, "ShareGroupHeartbeat": 3, "ShareFetch": 3, "ShareAcknowledge": 2,
    "StreamsGroupHeartbeat": 3, "DeleteRecords": 2, "CreateTopics": 2, "DeleteTopics": 1, "IncrementalAlterConfigs": 3,
    "Heartbeat": 2, "SaslAuthenticate": 2, "AddPartitionsToTxn": 2, "CreateAcls": 2, "CreateDelegationToken": 2,
}  # fmt: skip
"""The weights of requests with many effects. A request that is neither here nor in `SELDOM` has the weight 1."""
SELDOM = dict.fromkeys(
    ("UnregisterBroker", "UnregisterController", "AddRaftVoter", "RemoveRaftVoter", "DescribeCluster", "DescribeQuorum",
     "ListConfigResources", "UpdateFeatures", "ApiVersions"), 0.2
)  # fmt: skip
ACT_WEIGHTS = {
    "clock: at once": 6.0, "clock: seconds": 4.0, "clock: minutes": 2.5, "clock: hours": 0.7, "clock: days": 0.5,
    "a client leaves": 1.0, "faults end": 1.0, "the disk is well again": 0.6,
    "soft reset": 0.25, "snapshot": 0.3, "restore": 0.4,
    "running: restart": 0.5, "cluster: start_broker": 1.0, "cluster: kill_broker": 0.4, "cluster: move_leader": 0.4,
    "cluster: freeze_replica": 0.5, "an internal topic is deleted": 0.2, "state: truncate": 0.4,
    "start again cleanly": 0.3, "start again after a kill": 0.3, "the disk is full": 0.3, "the disk fails once": 0.3,
    "a broker starts again": 0.3, "an unclean election": 0.3,
}  # fmt: skip
"""The weights of acts. The weight of every other act is 0.12."""
WEIGHTS: dict[str, float] = {api: OFTEN.get(api, SELDOM.get(api, 1)) for api in ASKED} | {
    name: ACT_WEIGHTS.get(name, 0.12) for name in ACTS
}
THEMES: dict[str, tuple[str, ...]] = {
    "classic groups": (
        "JoinGroup", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "DescribeGroups",
        "DeleteGroups", "OffsetDelete", "a member's session ends", "clock: at once", "clock: seconds",
    ),
    "consumer groups": (
        "ConsumerGroupHeartbeat", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "OffsetCommit", "OffsetFetch",
        "CreatePartitions", "CreateTopics", "DeleteTopics", "clock: at once", "clock: seconds",
    ),
    "share groups": (
        "ShareGroupHeartbeat", "ShareFetch", "ShareFetch", "ShareAcknowledge", "ShareGroupDescribe", "Produce",
        "AlterShareGroupOffsets", "DeleteShareGroupOffsets", "DescribeShareGroupOffsets", "DeleteTopics", "DeleteRecords",
        "a client leaves", "clock: seconds",
    ),
    "streams groups": (
        "StreamsGroupHeartbeat", "StreamsGroupHeartbeat", "StreamsGroupDescribe", "CreatePartitions", "DeleteTopics",
        "OffsetCommit", "clock: at once", "clock: seconds",
    ),
    "transactions": (
        "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "TxnOffsetCommit", "EndTxn", "EndTxn",
        "Produce", "Fetch", "OffsetCommit", "OffsetFetch", "WriteTxnMarkers", "DescribeTransactions", "clock: seconds",
        "clock: minutes", "clock: days", "the transaction version changes",
    ),
    "logs": (
        "Produce", "Produce", "Fetch", "Fetch", "ListOffsets", "DeleteRecords", "OffsetForLeaderEpoch", "DescribeProducers",
        "IncrementalAlterConfigs", "state: truncate", "clock: minutes", "clock: days",
    ),
    "replicas": (
        "Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "ElectLeaders", "AlterPartitionReassignments",
        "cluster: kill_broker", "cluster: start_broker", "cluster: move_leader", "cluster: freeze_replica", "clock: seconds",
        "clock: days",
    ),
    "transactions on replicas": (
        "InitProducerId", "AddPartitionsToTxn", "AddPartitionsToTxn", "Produce", "Produce", "Produce", "EndTxn", "EndTxn",
        "cluster: freeze_replica", "cluster: freeze_replica", "cluster: move_leader", "cluster: kill_broker",
        "cluster: start_broker", "ElectLeaders", "Fetch", "state: truncate", "clock: at once", "DeleteRecords",
        "a broker starts again",
    ),
    "lost records": (
        "an unclean election", "an unclean election", "a broker starts again", "state: truncate", "state: truncate", "Produce",
        "OffsetCommit", "JoinGroup", "ConsumerGroupHeartbeat", "InitProducerId", "AddPartitionsToTxn", "TxnOffsetCommit",
        "EndTxn", "ShareAcknowledge", "DeleteRecords", "cluster: start_broker", "ListOffsets", "clock: seconds",
    ),
    "records that come back": (
        "Produce", "Produce", "AddPartitionsToTxn", "EndTxn", "DeleteRecords", "DeleteRecords", "running: restart",
        "start again after a kill", "a broker starts again", "state: truncate", "Fetch", "Fetch", "clock: at once",
    ),
    "topics": (
        "CreateTopics", "DeleteTopics", "CreatePartitions", "Metadata", "DescribeTopicPartitions", "Produce", "Fetch",
        "OffsetCommit", "an internal topic is deleted", "ConsumerGroupHeartbeat", "ShareFetch", "clock: seconds",
    ),
    "security": (
        "CreateAcls", "CreateAcls", "DeleteAcls", "DescribeAcls", "SaslHandshake", "SaslAuthenticate",
        "AlterUserScramCredentials", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "Produce",
        "Fetch", "Metadata", "DeleteRecords", "DeleteRecords", "acl: add_acl", "acl: add_acl", "clock: hours",
    ),
    "settings and quotas": (
        "AlterClientQuotas", "AlterClientQuotas", "DescribeClientQuotas", "IncrementalAlterConfigs", "AlterConfigs",
        "DescribeConfigs", "Produce", "Fetch", "GetTelemetrySubscriptions", "PushTelemetry", "quota: set", "quota: remove",
        "clock: seconds",
    ),
    "the disk": (
        "start again cleanly", "start again after a kill", "the disk is full", "the disk fails once",
        "the disk is well again", "Produce", "OffsetCommit", "EndTxn", "AddPartitionsToTxn", "JoinGroup", "SyncGroup",
        "IncrementalAlterConfigs", "CreateTopics", "clock: seconds",
    ),
    "settings on a disk": (
        "the disk is full", "the disk fails once", "CreateAcls", "CreateAcls", "DeleteAcls", "AlterClientQuotas",
        "AlterUserScramCredentials", "CreateTopics", "IncrementalAlterConfigs", "the disk is well again", "running: restart",
        "start again after a kill", "cluster: kill_broker", "cluster: start_broker", "Fetch", "clock: seconds", "clock: days",
    ),
    "states of share groups": (
        "ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "AlterShareGroupOffsets", "DeleteShareGroupOffsets",
        "DeleteShareGroupOffsets", "DeleteGroups", "DeleteTopics", "InitializeShareGroupState", "WriteShareGroupState",
        "WriteShareGroupState", "a write fails", "the disk is full", "the disk is well again", "clock: at once",
    ),
    "long requests": (
        "OffsetCommit", "OffsetCommit", "TxnOffsetCommit", "OffsetDelete", "AlterShareGroupOffsets", "AlterShareGroupOffsets",
        "AlterShareGroupOffsets", "DeleteShareGroupOffsets", "DeleteShareGroupOffsets", "ShareGroupHeartbeat", "DeleteGroups",
        "DeleteTopics", "CreateTopics", "CreateTopics",
    ),
    "failures": (
        "a partition goes offline", "a partition goes offline", "a write fails", "the disk is well again", "Produce",
        "AddPartitionsToTxn", "AddPartitionsToTxn", "EndTxn", "EndTxn", "TxnOffsetCommit", "OffsetCommit", "ShareAcknowledge",
        "Fetch", "ShareFetch", "clock: seconds",
    ),
    "restarts": (
        "running: restart", "running: restart", "fault: restart", "clock: minutes", "cluster: kill_broker",
        "cluster: start_broker", "Fetch", "Fetch", "ShareFetch", "TxnOffsetCommit", "EndTxn", "ConsumerGroupHeartbeat",
        "CreatePartitions", "clock: seconds",
    ),
    "snapshots": (
        "snapshot", "restore", "restore", "soft reset", "Produce", "Fetch", "InitProducerId", "EndTxn", "OffsetCommit",
        "CreateTopics", "IncrementalAlterConfigs", "CreateAcls", "AlterClientQuotas", "reassignments are slow",
        "clock: seconds", "clock: hours",
    ),
    "upgrades": (
        "upgrade", "upgrade", "UpdateFeatures", "UpdateFeatures", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "ShareFetch",
        "StreamsGroupHeartbeat", "Produce", "EndTxn", "Fetch", "clock: seconds",
    ),
}  # fmt: skip
"""Each theme has kinds of steps that concern the same things. In a schedule with themes, the kinds of these themes are more
frequent.
"""
KINDS = list(WEIGHTS)
"""The kinds of steps."""
SETUP_KINDS = [
    "Produce", "Produce", "InitProducerId", "JoinGroup", "JoinGroup", "SyncGroup", "OffsetCommit", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "AddPartitionsToTxn", "CreateTopics", "ShareFetch",
    "IncrementalAlterConfigs",
]  # fmt: skip
"""The kinds of the first steps of a schedule."""
NO_CHANGE = frozenset(
    {"a client leaves", "all clients leave", "running: restart", "cluster: kill_broker", "cluster: start_broker",
     *(kind for kind in KINDS if kind.startswith("clock: "))}
)  # fmt: skip
"""Acts that do not change what the model of Kafka's rules knows about the cluster."""
