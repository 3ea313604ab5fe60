"""The handlers of the broker's requests. Each module handles one API or several similar APIs.

The docstring of each module states the API's versions and behaviour. The handler is the module's function `handle`. A module of
several APIs may instead have a function for each API, with the name of the API's module in `kafkawire.messages`.

A handler takes the decoded request and its `Exchange`, and returns the response, or an `Outcome` if there is no response yet.
If a request may take long, its handler is a generator, which yields between slices of the work (`exchange.Steps`,
`slices.pauses`). Handlers fill every field; the codec omits the fields that a version does not have. A broker imports all these
modules soon after its start (`wirebroker.apis.loading`). An engine without a server imports a module at the first request of
the module's API. The file skipped.md in this folder lists the APIs that are only partly served, with reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kafkawire.declare import Message
from kafkawire.messages import APIS
from kafkawire.registry import KEYS, api_name, versions
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.core.profile import Rules
from wirebroker.core.releases import release
from wirebroker.core.releases.changes import since
from wirebroker.requests.effects import Outcome

HAS_TELEMETRY = since("3.7", "clients can push their metrics", "KIP-714")

Handler = Callable[[Any, Exchange], "Message | Outcome | Steps"]

SERVED = (
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
    "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "ApiVersions", "CreateTopics",
    "DeleteTopics", "DeleteRecords", "InitProducerId", "OffsetForLeaderEpoch", "DescribeConfigs", "AlterConfigs",
    "DescribeLogDirs", "CreatePartitions", "DeleteGroups", "IncrementalAlterConfigs", "OffsetDelete",
    "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit", "DescribeCluster",
    "DescribeProducers", "DescribeTransactions", "ListTransactions", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe",
    "DescribeTopicPartitions", "ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments",
    "AlterReplicaLogDirs", "DescribeQuorum", "ListConfigResources", "DescribeAcls", "CreateAcls", "DeleteAcls",
    "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken",
    "SaslHandshake", "SaslAuthenticate", "DescribeUserScramCredentials", "AlterUserScramCredentials",
    "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge", "InitializeShareGroupState",
    "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary",
    "DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets", "StreamsGroupHeartbeat",
    "StreamsGroupDescribe", "DescribeClientQuotas", "AlterClientQuotas", "UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter",
    "UpdateFeatures", "StreamsGroupTopologyDescriptionUpdate", "UnregisterController",
)  # fmt: skip
"""The APIs that have a handler."""
TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")
"""The APIs that Kafka always serves, but announces only if a receiver of client metrics is configured."""
IN_ZOOKEEPER = (
    "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition", "AllocateProducerIds",
)  # fmt: skip
"""The APIs that a controller and its brokers use among themselves. In a cluster with ZooKeeper, every listener of a broker
accepts these APIs."""

SHARED = {
    "acls": ("DescribeAcls", "CreateAcls", "DeleteAcls"),
    "classic_groups": ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
    "client_quotas": ("DescribeClientQuotas", "AlterClientQuotas"),
    "configs": ("DescribeConfigs", "ListConfigResources", "AlterConfigs", "IncrementalAlterConfigs"),
    "consumer_groups": ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    "controller_requests": IN_ZOOKEEPER,
    "delegation_tokens": [name for name in SERVED if "DelegationToken" in name],
    "groups": ("ListGroups", "DescribeGroups", "DeleteGroups"),
    "log_dirs": ("DescribeLogDirs", "AlterReplicaLogDirs"),
    "log_offsets": ("ListOffsets", "OffsetForLeaderEpoch"),
    "offset_commits": ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete"),
    "producer_states": ("DescribeProducers", "DescribeTransactions", "ListTransactions"),
    "refused": ("AddRaftVoter", "RemoveRaftVoter"),
    "replicas": ("AlterPartitionReassignments", "ListPartitionReassignments", "ElectLeaders"),
    "sasl": ("SaslHandshake", "SaslAuthenticate"),
    "scram_credentials": ("DescribeUserScramCredentials", "AlterUserScramCredentials"),
    "share_group_offsets": [name for name in SERVED if "ShareGroupOffsets" in name],
    "share_group_state": [name for name in SERVED if "ShareGroupState" in name],
    "share_groups": ("ShareGroupHeartbeat", "ShareGroupDescribe"),
    "streams_groups": ("StreamsGroupHeartbeat", "StreamsGroupDescribe", "StreamsGroupTopologyDescriptionUpdate"),
    "telemetry": TELEMETRY,
    "topic_creation": ("CreateTopics", "CreatePartitions"),
    "transactions": ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers"),
    "unregister": ("UnregisterBroker", "UnregisterController"),
}
"""The modules that several APIs share. All other APIs have a module of their own."""
MODULES = {name: module for module, names in SHARED.items() for name in names}


def handler_of(key: int) -> Handler:
    """Returns the handler of this API. Raises KeyError for an API without a handler."""
    own = APIS[key].module
    module = import_module(f"wirebroker.apis.{MODULES.get(api_name(key), own)}")
    handler: Handler = module.handle if hasattr(module, "handle") else getattr(module, own)
    return handler


def served_versions(rules: Rules, max_versions: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Returns the served versions for each API key. These are the versions of the profile's release, up to the user's
    `max_versions`."""
    own, served = release(rules.release), {}
    offered = {KEYS[name]: own.read(KEYS[name]) for name in (*SERVED, *IN_ZOOKEEPER) if KEYS[name] in own.announced}
    if HAS_TELEMETRY.of(own):
        offered |= {KEYS[name]: versions(KEYS[name]) for name in TELEMETRY}
    for key, (oldest, newest) in offered.items():
        newest = min(newest, max_versions.get(key, newest))
        if oldest <= newest:
            served[key] = (oldest, newest)
    return served
