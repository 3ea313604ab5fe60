"""The meaning of an error code for the client that gets it: whether the error refuses the client's work for good, and the usual
cause."""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.errors import RETRIABLE
from wirebroker_tools.explain.words import MINUTE, SECOND, tool

_RETRIABLE = frozenset(code.name for code in RETRIABLE)
UNAUTHORIZED = "_AUTHORIZATION_FAILED"
"""The names of the errors that ACLs cause end with this text."""
NO_COORDINATOR = frozenset(("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"))
OF_COORDINATORS = frozenset((
    "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "DescribeGroups", "ConsumerGroupDescribe", "InitProducerId", "EndTxn",
    "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit",
))  # fmt: skip
"""The APIs whose requests are sent to a coordinator."""
LOGINS = frozenset(("SaslHandshake", "SaslAuthenticate"))
BETWEEN_NODES = frozenset((
    "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "WriteTxnMarkers", "Vote", "BeginQuorumEpoch",
    "EndQuorumEpoch", "AlterPartition", "Envelope", "FetchSnapshot", "BrokerRegistration", "BrokerHeartbeat",
    "AllocateProducerIds", "ControllerRegistration", "AssignReplicasToDirs", "UpdateRaftVoter", "InitializeShareGroupState",
    "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary",
))  # fmt: skip
"""The APIs that nodes of a cluster use among themselves. Nodes repeat a refused request until it succeeds."""
WRITES = frozenset(
    ("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "ShareAcknowledge")
)
"""If a client gives up after a temporary error of one of these APIs, the client loses its work."""
QUIET = frozenset(("NONE", "UNSUPPORTED_VERSION", "REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED"))
"""Errors that are normal even if a client gets many of them, or that belong to another kind of finding."""
HANDLED = QUIET | frozenset((
    "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "OFFSET_OUT_OF_RANGE",
    "OFFSET_MOVED_TO_TIERED_STORAGE", "DUPLICATE_SEQUENCE_NUMBER", "INVALID_RECORD_STATE", "UNKNOWN_SUBSCRIPTION_ID",
    "REBOOTSTRAP_REQUIRED", "STREAMS_INVALID_TOPOLOGY_EPOCH", "NEW_LEADER_ELECTED",
))  # fmt: skip
"""Errors that are a part of the protocol: a client does what the error asks for, and continues."""
RECOVERED = frozenset(
    ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH", "TRANSACTION_ABORTABLE")
)
"""Errors after which a producer may begin again with a new epoch or a new transaction, and then loses nothing."""
FENCED = frozenset(("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"))
"""The errors that a producer gets if another producer has the same transactional id, or if the producer's transaction has timed
out.
"""
_OF_GROUPS = frozenset(("GROUP_ID_NOT_FOUND",))
ANSWERS: Mapping[str, frozenset[str]] = {
    "CreateTopics": frozenset(("TOPIC_ALREADY_EXISTS",)),
    "DescribeGroups": _OF_GROUPS,
    "ConsumerGroupDescribe": _OF_GROUPS,
    "ShareGroupDescribe": _OF_GROUPS,
    "StreamsGroupDescribe": _OF_GROUPS,
    "DescribeShareGroupOffsets": _OF_GROUPS,
    "DeleteShareGroupOffsets": _OF_GROUPS,
    "DeleteGroups": _OF_GROUPS,
    "OffsetDelete": _OF_GROUPS,
    "DescribeTransactions": frozenset(("TRANSACTIONAL_ID_NOT_FOUND",)),
    "DescribeUserScramCredentials": frozenset(("RESOURCE_NOT_FOUND",)),
    "AlterUserScramCredentials": frozenset(("RESOURCE_NOT_FOUND",)),
    "DescribeAcls": frozenset(("SECURITY_DISABLED",)),
    "DeleteAcls": frozenset(("SECURITY_DISABLED",)),
    "DescribeDelegationToken": frozenset(("DELEGATION_TOKEN_AUTH_DISABLED",)),
    "ExpireDelegationToken": frozenset(("DELEGATION_TOKEN_NOT_FOUND",)),
    "AlterPartitionReassignments": frozenset(("NO_REASSIGNMENT_IN_PROGRESS",)),
}
"""For some APIs of administrators, the errors which only mean that there is nothing to do or to show."""
PATIENT = {"CONCURRENT_TRANSACTIONS": 300}
"""For each of these errors, the number that applies instead of STORM, because clients normally retry often and quickly after
the error.
"""
STORM = 20
"""If a client gets the same error this many times within some seconds, this is a finding."""
ENDLESS, LASTS = 4, 15 * SECOND
"""If a client gets the same error at least ENDLESS times in a row, and over at least LASTS ms, this is a finding."""
LONG = {"CONCURRENT_TRANSACTIONS": 2 * MINUTE, "UNSTABLE_OFFSET_COMMIT": MINUTE} | dict.fromkeys(HANDLED, 10 * MINUTE)
"""The number of ms that applies instead of LASTS to errors that may last longer in a healthy cluster, while a transaction ends
or a group rebalances.
"""


def lasts(api: str, error: str) -> int:
    """If an error repeats without a success, it becomes a finding after some time. Returns this time in ms, or 0 if the error
    never becomes a finding."""
    return 0 if error == "UNSUPPORTED_VERSION" or is_answer(api, error) else LONG.get(error, LASTS)


def is_answer(api: str, error: str) -> bool:
    """Tells whether the error only answers a question of an administrator."""
    return error in ANSWERS.get(api, ())


def is_retriable(error: str) -> bool:
    """Tells whether Kafka's clients repeat a request after this error."""
    return error in _RETRIABLE


def is_final(api: str, error: str) -> bool:
    """Tells whether the error refuses the request for good: a client that sends the request again gets the error again."""
    if error in _RETRIABLE or error in HANDLED or error in RECOVERED or api in BETWEEN_NODES:
        return False
    return not is_answer(api, error)


def must_heal(api: str, error: str) -> bool:
    """Tells whether the client's work is lost if the client gives up after this error, that is, before a later request
    succeeds."""
    return api in WRITES and (error in _RETRIABLE or error in RECOVERED)


Advice = tuple[str, str]
ADVICE: dict[str, Advice] = {
    "NOT_ENOUGH_REPLICAS": ("fewer replicas are in sync than min.insync.replicas", "the other brokers; min.insync.replicas"),
    "UNKNOWN_TOPIC_OR_PARTITION": ("the topic or partition does not exist, or this broker does not know it yet",
     f"the topic's name; auto.create.topics.enable; {tool('kafka-topics', '--describe')}"),
    "UNKNOWN_TOPIC_ID": ("the topic was deleted; if it was created again, the new topic has another id", "Metadata of the "
     "client (--where api=Metadata); what deletes topics (--where event=topic)"),
    "NOT_LEADER_OR_FOLLOWER": ("the client asks a broker that no longer leads the partition, and has no newer metadata",
     "Metadata of the client (--where api=Metadata); the leader of the partition"),
    "LEADER_NOT_AVAILABLE": ("the partition has no leader", tool("kafka-topics", "--describe --unavailable-partitions")),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": ("an earlier batch never arrived or was lost; the client cannot recover",
     "the timeline of the producer: trace show --timeline"),
    "CONCURRENT_TRANSACTIONS": ("the earlier transaction of this id does not end", "the transaction's coordinator, and the "
     "brokers that lead its partitions: the markers do not reach them"),
    "OFFSET_OUT_OF_RANGE": ("the offset was deleted by retention, or never existed", "auto.offset.reset; retention.ms"),
    "MESSAGE_TOO_LARGE": ("the broker refuses the batch because it is larger than the topic takes; another try does not help",
     "{topics}: max.message.bytes (message.max.bytes of the broker if the topic sets none); the application's records and "
     "batch.size"),
    "RECORD_LIST_TOO_LARGE": ("the batch is larger than a segment of the topic", "{topics}: segment.bytes; batch.size"),
    "INVALID_REQUIRED_ACKS": ("acks has a value that Kafka does not have", "acks of the producer: 0, 1 or all (-1)"),
    "INVALID_RECORD": ("a record breaks a rule of the topic: it has no key and the topic is compacted, or its batch is damaged",
     "{topics}: cleanup.policy; the keys of the application's records"),
    "INVALID_TIMESTAMP": ("a record's timestamp is too far from the broker's clock", "{topics}: "
     "message.timestamp.before.max.ms and message.timestamp.after.max.ms; the timestamps that the application sets"),
    "UNSUPPORTED_COMPRESSION_TYPE": ("the request's version is too old for this compression", "compression.type of the topic "
     "and of the producer; the version of the client's library"),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": ("the records have an old format, which does not support what the client asks for",
     "log.message.format.version; the version of the client's library"),
    "INVALID_TOPIC_EXCEPTION": ("the name is not a legal topic name, or the topic is internal", "the topic's name: letters, "
     "digits, '.', '_' and '-', at most 249"),
    "INVALID_GROUP_ID": ("the group id is empty, or the group has another type than the client expects",
     "group.id and group.protocol of the client"),
    "GROUP_ID_NOT_FOUND": ("the group does not exist, or has another type than the client expects",
     "group.id and group.protocol of the client"),
    "INCONSISTENT_GROUP_PROTOCOL": ("the members have no assignor in common, or the group has another type",
     "partition.assignment.strategy and group.protocol of all members"),
    "UNSUPPORTED_ASSIGNOR": ("the broker does not have the assignor that the member names", "group.remote.assignor of the "
     "client; group.consumer.assignors of the broker"),
    "INVALID_REGULAR_EXPRESSION": ("the broker cannot compile the subscription's regular expression (RE2J)",
     "the pattern to which the application subscribes"),
    "INVALID_SESSION_TIMEOUT": ("session.timeout.ms is outside the limits of the broker",
     "session.timeout.ms; group.min.session.timeout.ms and group.max.session.timeout.ms"),
    "GROUP_MAX_SIZE_REACHED": ("the group has as many members as the broker allows", "group.max.size of the broker"),
    "FENCED_INSTANCE_ID": ("another member has the same group.instance.id", "group.instance.id: one for each process"),
    "UNRELEASED_INSTANCE_ID": ("another member has the same group.instance.id; it still runs, or it died and its "
     "session has not ended yet", "group.instance.id: one for each process"),
    "INVALID_COMMIT_OFFSET_SIZE": ("the commit is larger than the broker stores", "offset.metadata.max.bytes; the metadata "
     "that the application commits"),
    "OFFSET_METADATA_TOO_LARGE": ("the metadata of the commit is larger than the broker stores", "offset.metadata.max.bytes; "
     "the metadata that the application commits"),
    "INVALID_TRANSACTION_TIMEOUT": ("transaction.timeout.ms is above the broker's limit",
     "transaction.timeout.ms of the producer; transaction.max.timeout.ms of the broker"),
    "PRODUCER_FENCED": ("another producer has the same transactional id", "transactional.id: one for each producer"),
    "INVALID_PRODUCER_EPOCH": ("another producer has the same transactional id", "transactional.id: one for each producer"),
    "INVALID_TXN_STATE": ("the transaction is not in a state that allows this: the application commits or writes without a "
     "transaction", "the calls of beginTransaction(), commitTransaction() and abortTransaction() in the application"),
    "INVALID_PRODUCER_ID_MAPPING": ("the coordinator has forgotten the transactional id", "transactional.id.expiration.ms"),
    "POLICY_VIOLATION": ("a policy of the broker forbids it", "create.topic.policy.class.name, alter.config.policy.class.name"),
    "INVALID_REPLICATION_FACTOR": ("there are fewer brokers than replicas", "the topic's replication factor"),
    "UNKNOWN_SERVER_ERROR": ("the broker failed with an unexpected exception", "the broker's log at that time"),
}  # fmt: skip
"""For each error: the usual cause, and the setting to look at. `{topics}` stands for the commands that describe the topics."""
REPEATED = "the client retries before the cause is gone", "the error; retry.backoff.ms of the client"
REFUSED = "the request cannot succeed, however often the client sends it", "the error, and what the application asks for"
