"""The errors that Kafka 4.3.1 returns for each API that applications use.

The errors were read from the response classes of kafka-clients 4.3.1 (`…Response.java` lists its codes) and from the classes
that handle the requests: ReplicaManager and ProducerStateManager for Produce and Fetch, GroupCoordinatorService and
GroupMetadataManager for groups, TransactionCoordinator and TransactionStateManager for transactions. The table leaves out three
kinds of errors: errors that need a request of another form (INVALID_REQUEST, UNSUPPORTED_VERSION), errors that a client meets
in every run (MEMBER_ID_REQUIRED), and errors that Kafka returns only to brokers.
"""

from __future__ import annotations

COORDINATOR = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
GROUP = (*COORDINATOR, "GROUP_AUTHORIZATION_FAILED")
TRANSACTION = (
    *COORDINATOR, "CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED", "TRANSACTION_ABORTABLE", "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)  # fmt: skip
LEADER = (
    "NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "UNKNOWN_TOPIC_OR_PARTITION",
    "TOPIC_AUTHORIZATION_FAILED", "KAFKA_STORAGE_ERROR", "UNKNOWN_SERVER_ERROR",
)  # fmt: skip
MEMBER = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "FENCED_INSTANCE_ID")
HEARTBEAT = (*GROUP, "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "UNRELEASED_INSTANCE_ID", "GROUP_MAX_SIZE_REACHED")
OFFSETS = ("OFFSET_METADATA_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE")

ERRORS: dict[str, tuple[str, ...]] = {
    "Produce": (
        "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "NOT_ENOUGH_REPLICAS", "CORRUPT_MESSAGE",
        "INVALID_RECORD", "TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_TIMESTAMP",
        "KAFKA_STORAGE_ERROR", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE", "CONCURRENT_TRANSACTIONS", "TRANSACTION_ABORTABLE", "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR",
    ),
    "Fetch": (
        *LEADER, "OFFSET_OUT_OF_RANGE", "CORRUPT_MESSAGE", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID",
        "FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR",
    ),
    "ListOffsets": (*LEADER, "LEADER_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE"),
    "OffsetForLeaderEpoch": LEADER,
    "Metadata": (
        "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "TOPIC_AUTHORIZATION_FAILED",
        "INVALID_TOPIC_EXCEPTION",
    ),
    "FindCoordinator": (
        "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "GROUP_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "JoinGroup": (
        *GROUP, "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "INCONSISTENT_GROUP_PROTOCOL", "INVALID_SESSION_TIMEOUT",
        "GROUP_MAX_SIZE_REACHED", "REBALANCE_IN_PROGRESS", "UNKNOWN_SERVER_ERROR",
    ),
    "SyncGroup": (*GROUP, *MEMBER, "INCONSISTENT_GROUP_PROTOCOL", "UNKNOWN_SERVER_ERROR"),
    "Heartbeat": (*GROUP, *MEMBER),
    "LeaveGroup": (*GROUP, "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"),
    "ConsumerGroupHeartbeat": (*HEARTBEAT, "UNSUPPORTED_ASSIGNOR", "TOPIC_AUTHORIZATION_FAILED"),
    "ShareGroupHeartbeat": (*GROUP, "UNKNOWN_MEMBER_ID", "GROUP_MAX_SIZE_REACHED", "TOPIC_AUTHORIZATION_FAILED"),
    "StreamsGroupHeartbeat": (*HEARTBEAT, "GROUP_ID_NOT_FOUND", "STREAMS_INVALID_TOPOLOGY", "STREAMS_TOPOLOGY_FENCED"),
    "ShareFetch": (
        "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID", "TOPIC_AUTHORIZATION_FAILED", "KAFKA_STORAGE_ERROR",
        "INVALID_RECORD_STATE", "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH",
    ),
    "ShareAcknowledge": (
        "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_ID", "TOPIC_AUTHORIZATION_FAILED", "KAFKA_STORAGE_ERROR",
        "INVALID_RECORD_STATE", "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH",
    ),
    "OffsetCommit": (
        *GROUP, *MEMBER, *OFFSETS, "STALE_MEMBER_EPOCH", "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_ID_NOT_FOUND",
    ),
    "OffsetFetch": (*GROUP, "UNSTABLE_OFFSET_COMMIT", "UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED"),
    "InitProducerId": (
        *COORDINATOR, "CONCURRENT_TRANSACTIONS", "INVALID_TRANSACTION_TIMEOUT", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
        "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "AddPartitionsToTxn": (*TRANSACTION, "INVALID_TXN_STATE", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION"),
    "AddOffsetsToTxn": (*TRANSACTION, "INVALID_TXN_STATE", "GROUP_AUTHORIZATION_FAILED"),
    "EndTxn": (*TRANSACTION, "INVALID_TXN_STATE"),
    "TxnOffsetCommit": (
        *GROUP, *OFFSETS, "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "INVALID_PRODUCER_EPOCH",
        "TRANSACTION_ABORTABLE", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED",
    ),
    "CreateTopics": (
        "TOPIC_ALREADY_EXISTS", "REQUEST_TIMED_OUT", "NOT_CONTROLLER", "INVALID_REPLICATION_FACTOR", "POLICY_VIOLATION",
        "TOPIC_AUTHORIZATION_FAILED",
    ),
    "DeleteTopics": ("REQUEST_TIMED_OUT", "NOT_CONTROLLER", "TOPIC_DELETION_DISABLED", "TOPIC_AUTHORIZATION_FAILED"),
    "DeleteRecords": ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "TOPIC_AUTHORIZATION_FAILED"),
    "OffsetDelete": (*GROUP, "GROUP_SUBSCRIBED_TO_TOPIC", "GROUP_ID_NOT_FOUND"),
    "DeleteGroups": (*GROUP, "NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND"),
}  # fmt: skip
"""For each API, the errors with which Kafka refuses a request. Among similar errors, the likeliest culprit comes first."""

DONE: dict[str, tuple[str, ...]] = {
    "Produce": ("REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_LEADER_OR_FOLLOWER"),
    "OffsetCommit": ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    "TxnOffsetCommit": ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    "InitProducerId": ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    "AddPartitionsToTxn": ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    "AddOffsetsToTxn": ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    "EndTxn": ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    "CreateTopics": ("REQUEST_TIMED_OUT",),
    "DeleteTopics": ("REQUEST_TIMED_OUT",),
}
"""For each API, the errors that Kafka may return although the request has taken effect. For example, the batch was appended,
but its replicas took too long, or the leader or the coordinator moved.
"""

OF_SEQUENCES = frozenset({"OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "CLUSTER_AUTHORIZATION_FAILED"})
"""Errors of Produce that only idempotent producers get."""
OF_TRANSACTIONS = frozenset(
    {
        "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE", "CONCURRENT_TRANSACTIONS", "TRANSACTION_ABORTABLE",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    }
)  # fmt: skip
"""Errors of Produce that only requests with a transactional id get."""
WITHOUT_ID = frozenset({"COORDINATOR_LOAD_IN_PROGRESS", "CLUSTER_AUTHORIZATION_FAILED"})
"""All errors of an InitProducerId without a transactional id. Any broker handles such a request, and no coordinator takes part
(`TransactionCoordinator.handleInitProducerId`, `RPCProducerIdManager`)."""
OF_REPLICAS = frozenset({"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT"})
"""Errors that only a Produce with acks=all gets. A Produce whose batch was stored gets an error only if it waits for
replicas."""

OF_STATIC_MEMBERS = frozenset({"FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"})
"""Errors that only members with a group.instance.id get."""
OF_CONSUMER_GROUPS = frozenset({"STALE_MEMBER_EPOCH"})
"""Errors of a commit that only members of the group protocol of KIP-848 get."""

SINCE: dict[tuple[str, str], int] = {
    ("Produce", "TRANSACTION_ABORTABLE"): 11, ("Produce", "UNKNOWN_TOPIC_ID"): 13,
    ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"): 7, ("Fetch", "INVALID_FETCH_SESSION_EPOCH"): 7,
    ("Fetch", "FENCED_LEADER_EPOCH"): 9, ("Fetch", "UNKNOWN_LEADER_EPOCH"): 9,
    ("Fetch", "UNKNOWN_TOPIC_ID"): 13, ("Fetch", "INCONSISTENT_TOPIC_ID"): 13, ("Fetch", "FETCH_SESSION_TOPIC_ID_ERROR"): 13,
    ("ListOffsets", "FENCED_LEADER_EPOCH"): 4, ("ListOffsets", "UNKNOWN_LEADER_EPOCH"): 4,
    ("ListOffsets", "OFFSET_NOT_AVAILABLE"): 5, ("Metadata", "UNKNOWN_TOPIC_ID"): 10,
    ("OffsetCommit", "GROUP_ID_NOT_FOUND"): 9, ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"): 7,
    ("TxnOffsetCommit", "UNKNOWN_MEMBER_ID"): 3, ("TxnOffsetCommit", "ILLEGAL_GENERATION"): 3,
    ("TxnOffsetCommit", "TRANSACTION_ABORTABLE"): 4, ("InitProducerId", "PRODUCER_FENCED"): 4,
    ("AddPartitionsToTxn", "PRODUCER_FENCED"): 2, ("AddPartitionsToTxn", "TRANSACTION_ABORTABLE"): 5,
    ("AddOffsetsToTxn", "PRODUCER_FENCED"): 2, ("AddOffsetsToTxn", "TRANSACTION_ABORTABLE"): 4,
    ("EndTxn", "PRODUCER_FENCED"): 2, ("EndTxn", "TRANSACTION_ABORTABLE"): 4,
}  # fmt: skip
"""For some errors, the first version of the API in which Kafka returns the error (KafkaApis, and the notes in the schemas)."""

OF_LOST_DATA: frozenset[tuple[str, str]] = frozenset({("Fetch", "OFFSET_OUT_OF_RANGE")})
"""Errors (API, name) that result from records that the cluster has lost or deleted. No application can prevent them."""
