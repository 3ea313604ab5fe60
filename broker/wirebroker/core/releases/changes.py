"""The changes of behaviour from release to release of Kafka. The API versions, features and settings of each release are in
other files (`wirebroker.core.releases`).

A row names a rule, the release that changed the rule, and the value of the rule before that release. The rules of an older
release are those of the newest release, except the rules that a release in between has changed: these have their earlier
values. docs/reference/releases.md is made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

RELEASES = (
    "0.11", "1.0", "1.1", "2.1", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    "4.0", "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
"""The releases of Kafka that a broker can play, oldest first."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of a broker of one release, except its verdicts on batches. The default values of the fields are those of
    the newest release."""

    telemetry: bool = True
    """Clients can push their metrics if the broker is configured with a receiver for client metrics."""
    forgives_clients: bool = True
    """After PushTelemetry was refused because of its subscription or codec, the client may call GetTelemetrySubscriptions
    again without waiting."""
    reads_metrics: bool = True
    """Clients' metrics that cannot be decompressed are refused."""
    limits_metrics: bool = True
    """The size limit for clients' metrics applies to the decompressed metrics, too."""
    types_client_metrics: bool = True
    """The settings of client metrics have types, so a value that does not fit the type is refused."""
    shows_client_metrics: bool = True
    """DescribeConfigs shows every setting of client metrics, with type, default and synonyms."""
    tells_own_versions: bool = True
    """The response to an ApiVersions request of an unknown version lists the known versions of ApiVersions."""
    explains_producers: bool = True
    """An error of DescribeProducers has a message, and DescribeProducers checks the topic's name."""
    no_operations: int = -(2**31)
    """The value of authorized_operations in the responses to Metadata and DescribeGroups if the request did not ask for it."""
    empty_messages: bool = True
    """If CreateAcls succeeds, the error message in the response is empty, and not null."""
    knows_abortable: bool = True
    """AddPartitionsToTxn that only verifies has the error TRANSACTION_ABORTABLE for a partition outside of the transaction, and
    not INVALID_TXN_STATE."""
    verifies_epochs: bool = True
    """Before a leader asks the transaction coordinator about a transactional batch, it checks the batch's producer epoch."""
    responds_to_cut_records: bool = True
    """If the record data of Produce ends early or has an unknown magic, the response has an error. Older brokers close the
    connection."""
    responds_to_wrong_records: bool = True
    """If Produce has several batches or messages of an old magic, the response has an error. Older brokers close the
    connection."""
    explains_records: bool = True
    """Refused records have the error INVALID_RECORD, and the response names each refused record."""
    names_records: bool = True
    """The response names every refused record with its error, and not only the first refused record."""
    compares_counts: bool = True
    """A batch must have as many records as its last offset delta says."""
    keeps_batches: bool = True
    """A retry of a batch is recognised even after the producer's transaction has ended."""
    finds_topics_first: bool = True
    """Fetch checks that the topic exists before it checks that the client can read the topic's codec."""
    repeats_committed_topics: bool = True
    """If OffsetCommit, TxnOffsetCommit or OffsetDelete names a topic twice, the response does, too, unless it has errors for
    unknown partitions. OffsetFetch responds also for topics without partitions."""
    repeats_listed_topics: bool = False
    """The response to ListOffsets repeats the topics of the request, also if they have no partitions or are named twice."""
    hides_storage_errors: bool = False
    """Produce before version 4 has NOT_LEADER_OR_FOLLOWER in place of KAFKA_STORAGE_ERROR."""
    hides_zstd: bool = False
    """A Fetch before version 10 of a topic with compression.type=zstd is refused with UNSUPPORTED_COMPRESSION_TYPE."""
    waits_at_end_only: bool = True
    """A Fetch from an offset after the last readable one does not wait. Only the end of the readable records is waited at."""
    lowers_min_bytes: bool = True
    """If a Fetch has a min_bytes above the most bytes that its response may have, it waits for the smaller number."""
    fenced_state: str = "The coordinator rejected the request because the state epoch did not match."
    """Kafka's message for FENCED_STATE_EPOCH, the error of a share partition's state."""
    shards_fetch_sessions: bool = True
    """A Fetch fails if the broker has no shard of its cache for the request's session id."""
    fences_newer_epochs: bool = True
    """EndTxn with a producer epoch newer than the known one is refused, and does not change the known epoch."""
    fences_timed_out: bool = True
    """InitProducerId with the epoch of a transaction that the coordinator has aborted is refused. Kafka 2.5 takes the request
    for a repeated one, and responds with the present epoch."""
    tells_last_stable_offset: bool = True
    """The response to Fetch has the last stable offset for read_uncommitted consumers, too."""
    needs_transactional_id: bool = True
    """A transactional batch is refused if the Produce request has no transactional id."""
    newest_codec: int = 4
    """The number of the newest compression codec; 4 is zstd."""
    newest_resource: int = 32
    """The number of the newest kind of resource that has settings; 32 is a group, 16 client metrics, 8 a broker's loggers."""
    repeats_unknown_kinds: bool = True
    """The response to DescribeConfigs repeats the number of an unknown type of resource. Older brokers respond with 0."""
    repeats_altered_kinds: bool = True
    """The response to AlterConfigs repeats the number of an unknown type of resource. Older brokers respond with 0."""
    shows_group_synonyms: bool = True
    """For a group's setting, DescribeConfigs shows every source of a value as a synonym, and not only the source in effect."""
    finds_groups: bool = True
    """From version 9 of OffsetCommit on, a commit to an unknown group gets GROUP_ID_NOT_FOUND. Older brokers respond with
    ILLEGAL_GENERATION."""
    keeps_emptied_groups: bool = True
    """A group without members still exists after its last offset was deleted. The next expiration of offsets removes the
    group."""
    refuses_deletion: bool = True
    """With delete.topic.enable=false, DeleteTopics is refused immediately. In older brokers the request times out."""
    finds_wrong_settings: bool = True
    """A setting whose value cannot be parsed gets the error INVALID_CONFIG. Older brokers respond with UNKNOWN_SERVER_ERROR."""
    finds_partitions: bool = True
    """AddPartitionsToTxn refuses unknown partitions of existing topics, and not only unknown topics."""
    explains_fencing: bool = False
    """The response has an error message if a transactional batch is refused because its producer is fenced, or because it has
    another producer's id."""
    foresees_null_records: bool = True
    """The broker sends no response to a Produce request with null record data. Older brokers respond with
    UNKNOWN_SERVER_ERROR."""
    verifies_offset_commits: bool = True
    """For TxnOffsetCommit, the group coordinator asks the transaction coordinator whether the partition of
    __consumer_offsets belongs to the transaction."""
    clean_restart_epochs: int = 2
    """With KRaft, a clean restart of a partition's only broker increases the partition's leader epoch by this number."""
    zookeeper_restart_epochs: int = 0
    """With ZooKeeper, a restart of a partition's only broker increases the partition's leader epoch by this number."""
    lists_stale_partitions: bool = True
    """If LeaderAndIsr is refused because of an old epoch, the response has the error for each partition, too."""
    caps_min_in_sync: bool = True
    """A min.insync.replicas above the partition's number of replicas counts as the number of replicas."""
    verifies_transactions: bool = True
    """A leader asks the coordinator whether a transactional batch belongs to an open transaction."""
    refuses_append_time: bool = False
    """A client's batch with the timestamp type LogAppendTime is refused."""
    stand_ins: int = -(2**63)
    """In ListOffsets, negative timestamps from this one up are constants, such as LATEST (−1). Smaller values are ordinary
    times."""
    versions_stand_ins: bool = True
    """In ListOffsets, a constant needs the version that brought the constant."""
    lists_aborted: bool = True
    """If Fetch returns an error for a partition, the partition's list of aborted transactions is empty, and not null."""
    cuts_first_batch: bool = False
    """If the first batch is larger than the limit of a Fetch request before version 3, the response has the beginning of that
    batch."""
    fills_converted: bool = True
    """If Fetch converts records for an old version of the request, the response has as many bytes as before the conversion. A
    truncated message takes the place of the missing bytes.
    """
    takes_many_batches: bool = False
    """A Produce request before version 3 may have several compressed messages, or messages of magic 0 and of magic 1."""
    hosts_are_networks: bool = True
    """The host of an ACL may be a network. An invalid host is refused."""
    follows_emptied_groups: bool = True
    """When the last member leaves a group, the epoch of the group's (now empty) assignment becomes the group's epoch. So the
    next member gets partitions without waiting for the assignment interval."""
    follows_assignors: bool = True
    """A group's epoch increases if its members choose another assignor."""
    readmits_static_members: bool = True
    """A static member can rejoin a group even if the group is full."""
    tells_bad_subscriptions: bool = True
    """A consumer group refuses a member of the classic protocol with INCONSISTENT_GROUP_PROTOCOL if the member's subscription
    cannot be parsed."""
    first_epoch: int = 1
    """The first epoch of a new consumer, share or streams group, before its first member joins."""
    assigns_once: bool = True
    """Newly initialized partitions do not increase a share group's epoch again while the assignment for the present epoch is
    still to be computed."""
    counts_from_start: bool = True
    """The lag of a share partition is known as soon as the partition has a start offset. In older brokers the lag is unknown
    until records are acknowledged."""
    refuses_null_names: bool = True
    """ShareFetch without a group id or a member id gets INVALID_REQUEST. Older brokers respond with UNKNOWN_SERVER_ERROR."""
    grows_from_start: bool = True
    """If partitions are added to a topic of a share group, the group reads them from their first record."""
    counts_wanted_partitions: bool = True
    """CreateTopics first refuses a request for more than ten thousand partitions, including those of invalid topics."""
    limits_new_partitions: bool = True
    """CreatePartitions refuses a request that adds more than ten thousand partitions."""
    full_streams_groups: bool = True
    """Streams groups have static members and task offsets, and a member keeps a task while the task's kind changes."""
    names_unknown_operations: bool = True
    """IncrementalAlterConfigs responds with INVALID_REQUEST to an unknown operation on a logger."""
    positive_quotas: bool = True
    """A quota must be greater than 0, and must not be too large for its type."""
    strict_quotas: bool = True
    """A request that names an entity or a quota twice is refused, and so is a filter that contradicts itself. The quota
    controller_mutation_rate also counts requests with validate_only.
    """
    limits_mutations: bool = True
    """The quota controller_mutation_rate takes effect."""
    strict_tokens: bool = True
    """RenewDelegationToken with a period of 0 ms uses the default period. If the request is refused, the expiry time in the
    response is 0 instead of −1.
    """
    removes_expired_tokens: bool = True
    """ExpireDelegationToken can remove a token that has expired, as long as the broker has not removed it."""
    tells_removal: bool = True
    """When ExpireDelegationToken removes a token, the response has the time of the removal. Older brokers respond with the
    requested period."""
    one_credential: bool = True
    """AlterUserScramCredentials may name a user only once. In older brokers a request may name a user once for each
    mechanism."""
    has_quorum_loggers: bool = True
    """Brokers have the loggers of the quorum's controller."""
    identifies_transactional_offsets: bool = True
    """The records of offsets that a transaction commits have the topics' ids."""
    frees_instances: bool = True
    """If a static member of a consumer group joins again with another group.instance.id, another member can have the old id."""
    refuses_repeated_items: bool = True
    """A dynamic setting of a broker cannot be a list that has an item twice."""
    tells_ranges: bool = True
    """If a group's setting is refused because it is out of range, the message names the range. In older brokers the message
    names the broker's setting that is the limit."""
    has_moved_loggers: bool = True
    """Loggers have the names of the classes of Kafka 4.4, which has moved some classes to other packages."""
    tells_inherited_levels: bool = True
    """DescribeConfigs shows the level that a logger inherits from its parent. Older brokers show the level of the root
    logger."""
    strict_loggers: bool = True
    """An unknown logger or level gets INVALID_CONFIG, and a change of loggers must name the broker."""
    ends_sessions: bool = True
    """A client's session ends when its credential expires, even if connections.max.reauth.ms is 0."""
    closes_ended_sessions: bool = True
    """If a client's session has ended, its next request closes the connection. Older brokers leave the connection open, and
    never respond."""
    ends_bare_sessions: bool = True
    """connections.max.reauth.ms also ends the sessions of clients that send their tokens without request headers."""
    checks_nonces: bool = True
    """The client's final message in a SCRAM handshake must repeat the nonces."""
    responds_to_deleted_topics: bool = True
    """If a topic was deleted after the share session began, ShareFetch gets an error for each partition of the topic. In older
    brokers the whole request fails."""
    whole_rates: bool = False
    """A quota that is a rate of bytes or of connections is kept as a whole number."""
    quotas_for_mutations: bool = True
    """A quota may be a controller_mutation_rate."""
    quotas_for_addresses: bool = True
    """A quota may belong to an IP address."""
    quotas_for_ipv6: bool = True
    """A quota may belong to an IPv6 address."""
    strict_lists: bool = True
    """A setting that is a list has no empty items, and an item that is given twice counts once."""
    appends_once: bool = True
    """IncrementalAlterConfigs appends an item to a list only if the list does not have the item."""
    names_topics_once: bool = True
    """If a request names a topic twice, the responses to CreateTopics and DeleteTopics have one result for the topic."""
    frees_names: bool = True
    """After DeleteTopics the topic's name is free. With ZooKeeper the controller removes the topic a little later. Until then
    CreateTopics refuses the name with TOPIC_ALREADY_EXISTS."""
    counts_before_settings: bool = False
    """CreateTopics checks the numbers of partitions and replicas before it checks the settings. For brokers with ZooKeeper."""
    refuses_repeated_settings: bool = True
    """AlterConfigs refuses a setting that is given twice. In older brokers the last value counts."""
    expects_null_settings: bool = True
    """CreateTopics refuses a setting without a value with INVALID_REQUEST. Older brokers respond with UNKNOWN_SERVER_ERROR. For
    brokers with ZooKeeper."""
    default_counts: bool = True
    """In CreateTopics −1 stands for the default number of partitions and replicas."""
    finite_quotas: bool = True
    """A quota must be a finite number."""
    tells_assignments: bool = True
    """DescribeGroups shows the members' last assignments also while a group rebalances."""
    refuses_early: bool = True
    """If a commit of offsets is refused, no group is created."""
    strict_members: bool = True
    """A request that names an unknown group.instance.id is refused, and so is a TxnOffsetCommit that names a member without a
    generation."""
    tells_metadata_errors: bool = True
    """A refused Metadata request of version 9 gets a response. Kafka 2.4 closes the connection."""
    authenticates_again: bool = True
    """An authenticated client may authenticate again, and sessions can expire."""
    tells_versions_once: bool = True
    """Before a client logs in with SASL, it may send ApiVersions only once. Kafka 0.11 has no such limit."""
    hides_mechanisms: bool = True
    """If SaslHandshake is refused because the client is authenticated or its listener needs no authentication, the response
    lists no mechanisms."""
    logs_in_by_token: bool = True
    """Clients can log in with a delegation token instead of a password. Older brokers do not know the SCRAM extension
    "tokenauth", and ignore it."""
    strict_plain: bool = True
    """The message of a client that logs in with PLAIN must not end with a NUL."""
    empty_login_messages: bool = True
    """If SaslAuthenticate succeeds, the error message in the response is empty, and not null."""
    keeps_compacted_records: bool = True
    """DeleteRecords deletes nothing from a compacted topic. Older brokers delete the records, and respond with the same
    POLICY_VIOLATION."""
    moves_replicas: bool = True
    """AlterReplicaLogDirs moves replicas. Kafka 1.0 leaves an existing replica in its directory, and responds without an
    error."""
    checks_moved_names: bool = True
    """AlterReplicaLogDirs refuses a topic whose name is too long for the folder of a moving log."""
    finds_moved_partitions: bool = True
    """AlterReplicaLogDirs refuses an unknown partition with UNKNOWN_TOPIC_OR_PARTITION. Older brokers respond with
    REPLICA_NOT_AVAILABLE."""
    keeps_fetch_epochs: bool = True
    """A fetch session remembers the leader epoch that a request names."""
    repeats_described_groups: bool = True
    """If DescribeGroups names a group twice, the response has two descriptions."""
    checks_group_ids: bool = True
    """SyncGroup, Heartbeat, LeaveGroup and TxnOffsetCommit refuse an empty group id with INVALID_GROUP_ID."""
    name_of_syncing: str = "CompletingRebalance"
    """The name of a classic group's state in which the group waits for the leader's SyncGroup."""
    no_generation: int = -1
    """The generation in a JoinGroup response with an error."""
    checks_syncing_generation: bool = True
    """A heartbeat with a wrong generation is refused while a classic group waits for the leader's SyncGroup. Older brokers
    respond with REBALANCE_IN_PROGRESS."""
    finds_topics_at_once: bool = True
    """CreateTopics checks that a topic's name is free before all other checks. For brokers with ZooKeeper."""
    finds_described_topics: bool = True
    """DescribeConfigs refuses an unknown topic. Older brokers show the default settings."""
    finds_committed_partitions: bool = True
    """Commits of offsets refuse unknown partitions of existing topics, and not only unknown topics."""
    tells_offset_epochs: bool = True
    """ListOffsets returns the leader epoch of an offset."""
    stops_at_stable_offset: bool = True
    """A read_committed Fetch at the last stable offset lists no aborted transactions. Older brokers list those after it."""
    checks_unknown_topics: bool = True
    """Metadata refuses the invalid name of an unknown topic, also if the topic would not be created."""
    lists_empty_aborts: bool = False
    """If a transaction without batches in a partition is aborted, Fetch lists the transaction as aborted."""
    describes_metadata: bool = True
    """DescribeGroups shows the metadata of members. Kafka 2.3 shows the assignment in its place."""
    finds_altered_topics: bool = True
    """AlterConfigs and IncrementalAlterConfigs of an unknown topic have the error UNKNOWN_TOPIC_OR_PARTITION. Older brokers
    respond with UNKNOWN_SERVER_ERROR. They can still alter a topic that is being deleted."""
    tells_server_errors: bool = False
    """If AlterConfigs, IncrementalAlterConfigs or CreatePartitions fails with UNKNOWN_SERVER_ERROR, the response has a
    message."""
    refuses_null_changes: bool = True
    """IncrementalAlterConfigs refuses a null value, and can append to a list that is not set. Older brokers respond with
    UNKNOWN_SERVER_ERROR."""
    empty_described: bool = True
    """If DescribeConfigs succeeds, the error message in the response is empty, and so is the documentation of a logger. In
    older brokers these texts are null."""
    repeats_described_resources: bool = True
    """If DescribeConfigs names a resource twice, the response has two results. Older brokers have one result, and the settings
    that the request names last."""
    reads_null_settings: bool = True
    """AlterConfigs refuses a setting without a value. Older brokers close the connection."""
    repeats_deleted_offsets: bool = False
    """The response to OffsetDelete repeats each topic as often as it has partitions."""
    names_groups_once: bool = False
    """If OffsetFetch names a group twice, the response has one result for the group."""
    counts_refused_leavers: bool = False
    """If LeaveGroup before version 3 is refused as a whole, the error is UNSUPPORTED_VERSION."""
    empty_quota_messages: bool = True
    """If DescribeClientQuotas succeeds, the error message in the response is empty, and not null."""
    ignores_case_of_states: bool = True
    """ListGroups ignores the case of the states in its filter."""
    creates_altered_groups: bool = True
    """AlterShareGroupOffsets can create the group. In Kafka 4.1 the group must exist, and the response does not have an error
    of the whole request."""
    trims_states: bool = True
    """ListGroups ignores blanks around the states in its filter."""
    ignores_committers: bool = True
    """An OffsetCommit without a generation to a classic group without members may name any member."""
    counts_votes_in_java: bool = True
    """If protocols of a classic group have equal votes, the order of Java's HashMap decides. In older brokers the order of
    Scala's HashMap decides."""
    syncing_is_alive: bool = True
    """A heartbeat succeeds while a classic group waits for the leader's SyncGroup. Older brokers respond with
    REBALANCE_IN_PROGRESS."""
    identifies_committers: bool = True
    """While a classic group waits for the leader's SyncGroup, OffsetCommit checks the member and the generation, and then
    returns REBALANCE_IN_PROGRESS. Older brokers do not check them."""
    rebalances_for_returning: bool = True
    """If a static member returns without its member id while a classic group waits for the leader's SyncGroup, the group
    rebalances."""
    compares_returning: bool = True
    """If a static member returns to a stable classic group without its member id, the group rebalances if its protocol
    changes. Otherwise the new member id is written to the log."""
    leaves_out_instances: bool = True
    """A JoinGroup response before version 5 leaves out the instances of static members. In older brokers, such a response to
    the leader has the error UNSUPPORTED_VERSION."""
    notes_client_versions: bool = True
    """AddPartitionsToTxn from version 4 on needs transaction version 2. The request is refused if the feature
    transaction.version has the level 0."""
    hides_at_creation: bool = True
    """The response to CreateTopics leaves out internal settings that are not set."""
    upgrades_quorum: bool = True
    """UpdateFeatures changes kraft.version."""
    updates_together: bool = True
    """UpdateFeatures makes all updates or none."""
    oldest_metadata: int = 0
    """UpdateFeatures refuses a level of metadata.version below this level, also if the brokers support the level."""
    unknown_features: str = "not found"
    """UpdateFeatures of an unknown feature to level 0: "not found", "accepted", or "unsupported" by a broker."""
    unfinished_feature: str | None = None
    """The name of a feature that the release knows but does not support; its level may be set to 0."""
    tells_levels: bool = True
    """The refusal to lower metadata.version names the present level."""
    advises_unsafe: bool = False
    """The refusal of a safe downgrade of metadata.version advises an unsafe downgrade, which is refused, too."""
    scala: int = 13
    """The minor version of Scala 2 with which a release with ZooKeeper is built. Brokers make new logs in the order of Scala's
    hash tables."""
    forgets_start: bool = True
    """After InitProducerId, a transaction has no start time."""
    refuses_negative_epochs: bool = True
    """Requests about the state of a share partition refuse negative epochs. In older brokers −1 is an unknown epoch."""
    reads_unknown_epochs: bool = True
    """ReadShareGroupState takes −1 for an unknown leader epoch, if negative epochs are not refused. Older brokers take −1 for
    an old leader epoch."""
    keeps_share_progress: bool = True
    """A write of a share partition's state never lowers the start offset, and never lowers the number of completed records at
    the same start offset."""
    rebalances_for_pending: bool = True
    """A classic group also rebalances if a client leaves that has a member id, but has not joined with it yet."""
    forgets_refused_settings: bool = True
    """If CreateTopics refuses the assignment of a new topic, the broker forgets the settings of the topic. Older brokers keep
    them for the next topic with this name."""
    makes_ids_early: bool = True
    """The response to a CreateTopics that only validates has a topic id."""

    def has_settings(self, resource: int) -> bool:
        """Tells whether this kind of resource, by its number in DescribeConfigs, has settings in the release."""
        return resource <= self.newest_resource


class Change(NamedTuple):
    """A change of behaviour. Before `release`, the rule `rule` had the value `before`. `says` is what clients see from
    `release` on.

    `rule` is a field of `Behaviour` or of the validator's `Rules`. `because` is the KIP or the ticket; "seen" means that the
    change was only observed.
    """

    release: str
    rule: str
    before: Any
    because: str
    says: str


FENCED_SHARE_STATE = "The share coordinator rejected the request because the share-group state epoch did not match."
CHANGES: tuple[Change, ...] = (
    Change("4.4", "hosts_are_networks", False, "KIP-1276", "the host of an ACL may be a network such as 10.0.0.0/8"),
    Change("4.4", "fenced_state", FENCED_SHARE_STATE, "seen", "the message of error 124 is about any state epoch"),
    Change("4.4", "full_streams_groups", False, "KIP-1071", "streams groups have static members and task offsets"),
    Change("4.4", "follows_emptied_groups", False, "seen", "the first member of an emptied group gets partitions at once"),
    Change(
        "4.4", "follows_assignors", False, "seen", "a consumer group's epoch increases if its members choose another assignor"
    ),
    Change("4.4", "readmits_static_members", False, "seen", "a static member can rejoin a consumer group that is full"),
    Change("4.4", "tells_bad_subscriptions", False, "seen", "a classic member with an unreadable subscription gets error 23"),
    Change("4.4", "grows_from_start", False, "seen", "a share group reads added partitions from their first record"),
    Change("4.4", "limits_new_partitions", False, "seen", "CreatePartitions adds at most 10,000 partitions"),
    Change("4.4", "names_unknown_operations", False, "seen", "an unknown operation on a logger is refused with error 42"),
    Change("4.4", "responds_to_deleted_topics", False, "seen", "ShareFetch of a deleted topic has error 3 for each partition"),
    Change("4.4", "identifies_transactional_offsets", False, "seen", "offsets of transactions are recorded with topic ids"),
    Change("4.4", "frees_instances", False, "seen", "a consumer that changes its group.instance.id frees the old one"),
    Change("4.4", "refuses_repeated_items", False, "seen", "a broker's setting that has an item twice cannot be altered"),
    Change("4.4", "tells_ranges", False, "seen", "the refusal of a group's setting names the range in which it must be"),
    Change("4.4", "has_moved_loggers", False, "seen", "some of the brokers' loggers have other names"),
    Change("4.4", "finite_quotas", False, "seen", "a quota that is not a finite number is refused"),
    Change("4.4", "refuses_negative_epochs", False, "seen", "the state of a share partition needs epochs of 0 or more"),
    Change("4.4", "keeps_share_progress", False, "seen", "a write of a share partition's state never lowers its start offset"),
    Change(
        "4.3",
        "shows_group_synonyms",
        False,
        "seen",
        "DescribeConfigs also shows the broker's setting that a group's setting overrides",
    ),
    Change("4.3", "first_epoch", 0, "seen", "a new consumer, share or streams group begins with epoch 1"),
    Change("4.3", "assigns_once", False, "seen", "a share group's epoch increases at most once before an assignment"),
    Change(
        "4.3", "counts_from_start", False, "KIP-1226", "the lag of a share partition is known before the first acknowledgement"
    ),
    Change("4.3", "reads_unknown_epochs", False, "seen", "ReadShareGroupState with the leader epoch −1 succeeds, until 4.4"),
    Change("4.3", "limits_metrics", False, "seen", "decompressed metrics of clients are limited by telemetry.max.bytes"),
    Change(
        "4.3", "refuses_null_names", False, "seen", "ShareFetch without a group id or a member id gets error 42 instead of −1"
    ),
    Change(
        "4.2", "strict_lists", False, "KIP-1161", "a list in a setting has no empty items, and an item given twice counts once"
    ),
    Change("4.2", "unfinished_feature", "streams.version", "KIP-1071", "brokers support the feature streams.version"),
    Change(
        "4.2",
        "creates_altered_groups",
        False,
        "KIP-932",
        "AlterShareGroupOffsets can create the group, and tells an error of the whole request",
    ),
    Change("4.2", "tells_levels", False, "seen", "the refusal to lower metadata.version names the present level"),
    Change(
        "4.1", "shows_client_metrics", False, "KAFKA-17516", "DescribeConfigs shows all settings of client metrics, with types"
    ),
    Change("4.1", "unfinished_feature", None, "KIP-1071", "UpdateFeatures may set streams.version to 0"),
    Change("4.1", "upgrades_quorum", False, "KAFKA-16538", "UpdateFeatures changes kraft.version"),
    Change("4.1", "forgets_start", False, "seen", "DescribeTransactions shows no start time after InitProducerId"),
    Change("4.1", "transaction_start", "any", "KIP-890", "with transaction version 2 a producer's first sequence must be 0"),
    Change(
        "4.0", "verifies_epochs", False, "KIP-890", "a fenced producer's batch is refused before its transaction is verified"
    ),
    Change(
        "4.0", "notes_client_versions", False, "KIP-890", "AddPartitionsToTxn from version 4 on needs transaction version 2"
    ),
    Change(
        "4.0",
        "hides_zstd",
        True,
        "KIP-896",
        "Fetch before version 10 also returns records of topics with compression.type=zstd",
    ),
    Change("4.0", "updates_together", False, "KIP-1022", "UpdateFeatures makes all updates or none, and has one error"),
    Change("4.0", "oldest_metadata", 4, "KIP-896", "the oldest level of metadata.version is the oldest that brokers support"),
    Change("4.0", "unknown_features", "accepted", "seen", "UpdateFeatures of an unknown feature to level 0 is refused"),
    Change(
        "4.0",
        "repeats_listed_topics",
        True,
        "seen",
        "ListOffsets has one result for a topic named twice",
    ),
    Change("4.0", "repeats_committed_topics", False, "KIP-848", "OffsetCommit and OffsetFetch respond for each topic as named"),
    Change("4.0", "tells_assignments", False, "KIP-848", "DescribeGroups shows assignments also while a group rebalances"),
    Change(
        "4.0",
        "counts_votes_in_java",
        False,
        "KIP-848",
        "if protocols of a classic group have equal votes, the order of Java's hash tables decides, and not of Scala's",
    ),
    Change("4.0", "trims_states", False, "KIP-848", "ListGroups ignores blanks around the states in its filter"),
    Change(
        "4.0",
        "rebalances_for_pending",
        False,
        "KIP-848",
        "a classic group also rebalances if a client leaves that has a member id but has not joined yet",
    ),
    Change("4.0", "refuses_early", False, "KIP-848", "a commit that is refused creates no group"),
    Change("4.0", "newest_resource", 16, "KIP-848", "groups have settings"),
    Change("4.0", "finds_groups", False, "KIP-848", "a commit to an unknown group gets GROUP_ID_NOT_FOUND"),
    Change(
        "4.0",
        "keeps_emptied_groups",
        False,
        "KIP-848",
        "a group without members still exists after its last offset was deleted",
    ),
    Change(
        "4.0",
        "types_client_metrics",
        False,
        "seen",
        "an invalid value for a setting of client metrics is refused with error 40",
    ),
    Change(
        "4.0",
        "forgives_clients",
        False,
        "seen",
        "after errors 76 and 117 a client may call GetTelemetrySubscriptions without waiting",
    ),
    Change("3.9", "counts_wanted_partitions", False, "KAFKA-17870", "CreateTopics refuses more than 10,000 partitions first"),
    Change("3.9", "stand_ins", -4, "KIP-1005", "in ListOffsets, timestamps of −5 and below are special values or are refused"),
    Change("3.9", "versions_stand_ins", False, "KIP-1005", "in ListOffsets, a special value needs the version that brought it"),
    Change("3.8", "waits_at_end_only", False, "seen", "a Fetch from an offset after the last readable one does not wait"),
    Change("3.8", "shards_fetch_sessions", False, "KAFKA-9401", "a Fetch with a session id from 2147483640 on gets error −1"),
    Change("3.8", "knows_abortable", False, "KIP-890", "a verifying AddPartitionsToTxn has error 120 instead of 48"),
    Change("3.8", "ignores_case_of_states", False, "KIP-848", "ListGroups ignores the case of the states in its filter"),
    Change("3.8", "reads_metrics", False, "seen", "client metrics that cannot be decompressed are refused with error 87"),
    Change("3.8", "foresees_null_records", False, "seen", "Produce without record data gets no response"),
    Change("3.7", "unknown_features", "unsupported", "seen", "UpdateFeatures of an unknown feature to level 0 changes nothing"),
    Change("3.7", "advises_unsafe", True, "seen", "the refusal to lower metadata.version no longer advises UNSAFE_DOWNGRADE"),
    Change("3.7", "telemetry", False, "KIP-714", "clients can push their metrics"),
    Change("3.7", "newest_resource", 8, "KIP-714", "client metrics have settings"),
    Change("3.7", "verifies_offset_commits", False, "KIP-890", "TxnOffsetCommit is verified with the transaction coordinator"),
    Change(
        "3.7",
        "caps_min_in_sync",
        False,
        "KIP-966",
        "a min.insync.replicas above the number of replicas counts as the number of replicas",
    ),
    Change("3.7", "explains_fencing", True, "KIP-890", "the errors 47 and 49 of a transactional batch have no message"),
    Change("3.7", "removes_expired_tokens", False, "seen", "ExpireDelegationToken can remove an expired token"),
    Change(
        "3.7",
        "tells_removal",
        False,
        "seen",
        "the response to ExpireDelegationToken has the time at which the token was removed",
    ),
    Change("3.7", "names_unknown_operations", True, "seen", "an unknown operation on a logger is refused with error −1"),
    Change(
        "3.7", "checks_nonces", False, "CVE-2024-56128", "the client's last message in a SCRAM handshake must repeat the nonces"
    ),
    Change("3.6", "explains_fencing", False, "KIP-890", "the errors 47 and 49 of a transactional batch have a message"),
    Change("3.6", "hides_at_creation", False, "seen", "the response to CreateTopics has no internal settings"),
    Change("3.6", "verifies_transactions", False, "KIP-890", "transactional batches are verified: errors 47, 48 and 49"),
    Change(
        "3.6",
        "strict_tokens",
        False,
        "KAFKA-15219",
        "RenewDelegationToken with a period of 0 ms uses the default period",
    ),
    Change(
        "3.6", "tells_removal", True, "seen", "if ExpireDelegationToken removes a token, the response has the requested period"
    ),
    Change("3.6", "clean_restart_epochs", 3, "KAFKA-15021", "a clean restart increases the leader epoch by 2 instead of 3"),
    Change("3.6", "refuses_append_time", True, "KIP-937", "a batch with the timestamp type LogAppendTime is accepted"),
    Change("3.5", "names_groups_once", True, "seen", "OffsetFetch has a result for each repetition of a group"),
    Change("3.5", "counts_refused_leavers", True, "seen", "LeaveGroup before version 3 is refused with the right error"),
    Change("3.5", "stand_ins", -3, "KIP-405", "in ListOffsets, timestamp −4 is a special value"),
    Change("3.5", "positive_quotas", False, "seen", "a quota of 0, or too large for its type, is refused"),
    Change("3.5", "limits_mutations", False, "KAFKA-14351", "the quota controller_mutation_rate takes effect with KRaft"),
    Change(
        "3.4",
        "counts_refused_leavers",
        False,
        "seen",
        "LeaveGroup before version 3 that is refused as a whole gets error 35",
    ),
    Change(
        "3.4",
        "forgets_refused_settings",
        False,
        "seen",
        "if CreateTopics refuses an assignment, the topic's settings are not kept for the next topic with this name",
    ),
    Change("3.3", "forgets_refused_settings", True, "KIP-833", "CreateTopics may keep the settings of a refused topic"),
    Change("3.3", "makes_ids_early", False, "KIP-833", "the response to a CreateTopics that only validates has a topic id"),
    Change("3.3", "hides_at_creation", True, "KIP-833", "the response to CreateTopics of KRaft has internal settings, too"),
    Change("3.3", "limits_mutations", True, "KIP-833", "the quota controller_mutation_rate has no effect with KRaft"),
    Change(
        "3.3", "strict_quotas", False, "KIP-833", "AlterClientQuotas refuses a request that names an entity or a quota twice"
    ),
    Change("3.3", "frees_names", False, "KIP-833", "a topic can be created again right after its deletion"),
    Change("3.3", "counts_before_settings", True, "KIP-833", "CreateTopics checks settings before it checks numbers"),
    Change("3.3", "appends_once", False, "KIP-833", "IncrementalAlterConfigs appends no item that a list already has"),
    Change("3.3", "whole_rates", True, "KIP-833", "quotas of bytes and connections need not be kept as whole numbers"),
    Change("3.3", "quotas_for_ipv6", False, "KIP-833", "a quota may belong to an IPv6 address"),
    Change(
        "3.3",
        "names_topics_once",
        False,
        "KIP-833",
        "CreateTopics and DeleteTopics have one result for a topic that is named twice, and DeleteTopics refuses it",
    ),
    Change("3.3", "one_credential", False, "KIP-833", "AlterUserScramCredentials refuses a user that is named twice"),
    Change("3.3", "strict_loggers", False, "KIP-833", "unknown loggers and levels are refused with error 40 instead of 42"),
    Change("3.3", "has_quorum_loggers", False, "KIP-833", "brokers have the loggers of the quorum's controller"),
    Change("3.3", "refuses_repeated_settings", False, "KIP-833", "AlterConfigs refuses a setting that is given twice"),
    Change("3.3", "names_unknown_operations", False, "seen", "an unknown operation on a logger gets error 42"),
    Change(
        "3.3",
        "ends_sessions",
        False,
        "seen",
        "a session ends when its credential expires, even if connections.max.reauth.ms is 0",
    ),
    Change(
        "3.3",
        "ignores_committers",
        False,
        "seen",
        "OffsetCommit without a generation to a group without members may name any member",
    ),
    Change(
        "3.3",
        "leaves_out_instances",
        False,
        "seen",
        "JoinGroup before version 5 of the leader of a group with static members is no longer refused",
    ),
    Change("3.0", "names_groups_once", False, "KIP-709", "OffsetFetch has one result for a group that is named twice"),
    Change(
        "3.0",
        "ignores_committers",
        True,
        "seen",
        "OffsetCommit without a generation to a group without members must not name a member",
    ),
    Change(
        "3.0",
        "strict_members",
        False,
        "seen",
        "an unknown group.instance.id is refused",
    ),
    Change("3.0", "stand_ins", -2, "KIP-734", "in ListOffsets, timestamp −3 asks for the record with the largest timestamp"),
    Change(
        "3.0", "cuts_first_batch", True, "seen", "Fetch before version 3 returns nothing if the first batch exceeds the limit"
    ),
    Change("3.0", "explains_producers", False, "seen", "errors of DescribeProducers have a message"),
    Change(
        "3.0",
        "lists_aborted",
        False,
        "seen",
        "after an error, Fetch returns an empty list of aborted transactions instead of null",
    ),
    Change(
        "2.8",
        "checks_unknown_topics",
        False,
        "seen",
        "Metadata refuses an invalid name of a topic that would not be created with error 17 instead of 3",
    ),
    Change(
        "2.8", "hides_storage_errors", True, "seen", "Produce before version 4 has error 56 instead of 6 if a disk has failed"
    ),
    Change("2.8", "repeats_listed_topics", False, "seen", "ListOffsets responds for each topic as it is named"),
    Change("2.8", "lists_empty_aborts", True, "seen", "Fetch does not list aborted transactions without batches"),
    Change(
        "2.8",
        "empty_quota_messages",
        False,
        "seen",
        "if DescribeClientQuotas succeeds, its error message is empty instead of null",
    ),
    Change("2.8", "quotas_for_addresses", False, "KIP-612", "quotas may belong to IP addresses"),
    Change(
        "2.8",
        "tells_inherited_levels",
        False,
        "KAFKA-10469",
        "DescribeConfigs shows the level that a logger inherits from its parent, and not the root logger's",
    ),
    Change("2.8", "responds_to_cut_records", False, "seen", "Produce with record data that ends early gets a response"),
    Change("2.7", "finds_altered_topics", False, "seen", "AlterConfigs of an unknown topic gets error 3 instead of −1"),
    Change("2.7", "empty_described", False, "seen", "the response to DescribeConfigs has empty texts instead of null"),
    Change("2.7", "repeats_described_resources", False, "seen", "DescribeConfigs has two results for a resource named twice"),
    Change("2.7", "repeats_unknown_kinds", False, "seen", "DescribeConfigs repeats the number of an unknown resource type"),
    Change("2.7", "quotas_for_mutations", False, "KIP-599", "quotas may have a controller_mutation_rate"),
    Change(
        "2.7",
        "counts_before_settings",
        False,
        "seen",
        "CreateTopics checks the numbers of partitions and replicas before it checks the settings, until KRaft",
    ),
    Change("2.6", "repeats_altered_kinds", False, "seen", "AlterConfigs repeats the number of an unknown resource type"),
    Change("2.6", "fences_timed_out", False, "seen", "InitProducerId with the epoch of a timed-out transaction is refused"),
    Change("2.6", "reads_null_settings", False, "seen", "AlterConfigs with a null value gets a response"),
    Change(
        "2.6",
        "tells_server_errors",
        True,
        "seen",
        "if AlterConfigs, IncrementalAlterConfigs or CreatePartitions fails with error −1, the response has no message",
    ),
    Change(
        "2.6",
        "refuses_null_changes",
        False,
        "seen",
        "IncrementalAlterConfigs refuses a null value with error 42 instead of −1, and can append to a list that is not set",
    ),
    Change(
        "2.6",
        "repeats_deleted_offsets",
        True,
        "seen",
        "the response to OffsetDelete has each topic once, and not once for each partition",
    ),
    Change("2.6", "syncing_is_alive", False, "seen", "Heartbeat succeeds while a group waits for the leader's SyncGroup"),
    Change(
        "2.6",
        "compares_returning",
        False,
        "seen",
        "a static member that returns with other protocols can start a rebalance, and its new member id is written to the log",
    ),
    Change("2.6", "expects_null_settings", False, "seen", "CreateTopics refuses a setting without a value with error 42"),
    Change("2.6", "fences_newer_epochs", False, "KIP-588", "EndTxn with a newer epoch is refused and changes nothing"),
    Change(
        "2.5",
        "no_operations",
        0,
        "seen",
        "Metadata and DescribeGroups return −2³¹ instead of 0 for authorized operations that were not requested",
    ),
    Change("2.5", "lowers_min_bytes", False, "KAFKA-9677", "a Fetch waits for no more bytes than its response may have"),
    Change("2.5", "empty_messages", False, "seen", "if CreateAcls succeeds, its error message is empty instead of null"),
    Change("2.5", "tells_metadata_errors", False, "seen", "Metadata version 9 before the end of a login gets a response"),
    Change("2.5", "keeps_fetch_epochs", False, "seen", "a fetch session remembers the leader epoch that a request names"),
    Change("2.5", "after_marker", "59", "KIP-360", "a gap after a transaction's marker gets error 45"),
    Change(
        "2.5",
        "stops_at_stable_offset",
        False,
        "seen",
        "a read_committed Fetch at the last stable offset lists no aborted transactions",
    ),
    Change("2.5", "names_records", False, "seen", "the response to Produce names each refused record and its error"),
    Change(
        "2.5",
        "rebalances_for_returning",
        False,
        "seen",
        "a static member that returns while its group waits for the leader's SyncGroup starts a rebalance",
    ),
    Change(
        "2.5",
        "leaves_out_instances",
        True,
        "seen",
        "JoinGroup before version 5 of the leader of a group with static members is refused with error 35",
    ),
    Change("2.5", "first_sequence", "zero_or_59", "KIP-360", "a producer without state may begin at any sequence"),
    Change(
        "2.5",
        "ends_bare_sessions",
        False,
        "seen",
        "connections.max.reauth.ms also ends sessions of clients whose tokens have no request headers",
    ),
    Change(
        "2.4",
        "identifies_committers",
        False,
        "seen",
        "OffsetCommit checks the member and the generation also while the group waits for the leader's SyncGroup",
    ),
    Change("2.4", "tells_metadata_errors", True, "seen", "Metadata version 9 before the end of a login closes the connection"),
    Change("2.4", "describes_metadata", False, "seen", "DescribeGroups shows the metadata of members, not their assignments"),
    Change("2.4", "takes_many_batches", True, "seen", "Produce before version 3 is refused if it has two compressed messages"),
    Change(
        "2.4",
        "tells_own_versions",
        False,
        "KIP-511",
        "the response to an ApiVersions request of an unknown version has the known versions",
    ),
    Change("2.4", "newest_resource", 4, "KIP-412", "a broker's loggers have levels"),
    Change(
        "2.4",
        "closes_ended_sessions",
        False,
        "seen",
        "a request after the end of the client's session closes the connection, and does not remain without a response",
    ),
    Change("2.4", "scala", 12, "seen", "new logs go to several directories in the order of Scala 2.13's hash tables"),
    Change(
        "2.4", "default_counts", False, "KIP-464", "CreateTopics takes −1 for the default number of partitions and replicas"
    ),
    Change("2.4", "explains_records", False, "KIP-467", "refused records get error 87 with details, instead of error 2"),
    Change("2.4", "state_after_delete", "lost", "KAFKA-7190", "a producer's state still exists after its records were deleted"),
    Change("2.3", "repeats_described_groups", False, "seen", "DescribeGroups describes a group twice that is named twice"),
    Change(
        "2.3", "empty_login_messages", False, "seen", "if SaslAuthenticate succeeds, its error message is empty instead of null"
    ),
    Change("2.3", "no_generation", 0, "seen", "JoinGroup with an error returns generation −1 instead of 0"),
    Change(
        "2.3",
        "checks_syncing_generation",
        False,
        "seen",
        "a heartbeat with a wrong generation gets error 22 also while its group waits for the leader's SyncGroup",
    ),
    Change("2.3", "finds_topics_at_once", False, "seen", "CreateTopics checks first whether the topic's name is free"),
    Change("2.3", "tells_offset_epochs", False, "seen", "ListOffsets returns the leader epoch of an offset"),
    Change("2.3", "describes_metadata", True, "seen", "DescribeGroups shows the assignments of members as their metadata"),
    Change(
        "2.3", "finds_topics_first", False, "seen", "for an unknown topic, Fetch before version 10 gets error 3 instead of 76"
    ),
    Change(
        "2.3",
        "names_topics_once",
        True,
        "seen",
        "CreateTopics and DeleteTopics have a result for each repetition of a topic's name",
    ),
    Change("2.2", "authenticates_again", False, "KIP-368", "clients can authenticate again, and sessions can expire"),
    Change("2.2", "checks_moved_names", False, "seen", "AlterReplicaLogDirs refuses a very long topic name with error 17"),
    Change("2.2", "strict_plain", False, "seen", "a login with PLAIN that ends with a NUL is refused"),
    Change(
        "2.1", "hides_zstd", False, "KIP-110", "Fetch before version 10 of a topic with compression.type=zstd gets error 76"
    ),
    Change("2.1", "finds_topics_first", True, "KIP-110", "for an unknown topic, Fetch before version 10 gets error 76"),
    Change("2.1", "after_marker", "45", "seen", "a gap after a transaction's marker gets error 59"),
    Change("2.1", "finds_moved_partitions", False, "seen", "AlterReplicaLogDirs of an unknown partition gets error 3, not 9"),
    Change("2.1", "newest_codec", 3, "KIP-110", "the broker knows the codec zstd"),
    Change("2.0", "reads_null_settings", True, "seen", "AlterConfigs with a null value closes the connection"),
    Change("2.0", "checks_group_ids", False, "seen", "all requests of members refuse an empty group id with error 24"),
    Change("2.0", "finds_described_topics", False, "seen", "DescribeConfigs refuses an unknown topic"),
    Change("2.0", "finds_committed_partitions", False, "seen", "commits of offsets refuse unknown partitions of a known topic"),
    Change(
        "2.0",
        "fills_converted",
        False,
        "KIP-283",
        "records converted for Fetch before version 4 may end with a truncated message",
    ),
    Change("2.0", "responds_to_wrong_records", False, "seen", "Produce with several batches or old messages gets a response"),
    Change(
        "2.0",
        "tells_last_stable_offset",
        False,
        "seen",
        "Fetch returns the last stable offset to read_uncommitted consumers, too",
    ),
    Change(
        "2.0",
        "needs_transactional_id",
        False,
        "seen",
        "a transactional batch without a transactional id is refused with error 53",
    ),
    Change("2.0", "finds_wrong_settings", False, "seen", "a setting whose value cannot be parsed gets error 40 instead of −1"),
    Change("2.0", "finds_partitions", False, "seen", "AddPartitionsToTxn refuses unknown partitions of a known topic"),
    Change("1.1", "moves_replicas", False, "KIP-113", "AlterReplicaLogDirs moves existing replicas"),
    Change("1.1", "zookeeper_restart_epochs", 1, "seen", "leader epochs do not increase when the only broker restarts"),
    Change(
        "1.1",
        "lists_stale_partitions",
        False,
        "seen",
        "the response to LeaderAndIsr with an old epoch has the error for each partition, too",
    ),
    Change("1.1", "hides_mechanisms", False, "seen", "a SaslHandshake that is refused with error 34 lists no mechanisms"),
    Change("1.1", "logs_in_by_token", False, "KIP-48", "clients can log in with delegation tokens"),
    Change("1.1", "keeps_compacted_records", False, "seen", "DeleteRecords deletes nothing from a compacted topic"),
    Change("1.1", "compares_counts", False, "seen", "a batch's number of records must agree with its last offset delta"),
    Change("1.1", "name_of_syncing", "AwaitingSync", "seen", "the state AwaitingSync of a group is called CompletingRebalance"),
    Change("1.0", "tells_versions_once", False, "seen", "a second ApiVersions before a login closes the connection"),
    Change("1.0", "refuses_deletion", False, "seen", "with delete.topic.enable=false DeleteTopics is refused at once"),
    Change("1.0", "keeps_batches", False, "KAFKA-5494", "a retry is recognised even after its transaction has ended"),
    Change("1.0", "finds_partitions", True, "seen", "AddPartitionsToTxn accepts unknown partitions of a known topic"),
    Change("1.0", "first_sequence", "zero_or_45", "KIP-192", "a first sequence other than zero gets the special error 59"),
    Change("1.0", "window", 1, "KAFKA-5494", "retries of the last five batches are recognised, and not only of the last batch"),
)
"""The changes, newest first. If two rows change the same rule, the lower row has the rule's value for the releases before its
own release."""


def number(release: str) -> tuple[int, ...]:
    """Returns the numbers of a release, so that releases can be compared: 3.10 is newer than 3.9."""
    return tuple(map(int, release.split(".")))


def before(release: str) -> dict[str, Any]:
    """Returns the rules in which a release differs from the newest release, with their values. The rules are fields of
    `Behaviour` and of the validator's `Rules`."""
    return {change.rule: change.before for change in CHANGES if number(release) < number(change.release)}


def behaviour_of(release: str) -> Behaviour:
    """Returns the behaviour of a broker of this release."""
    return Behaviour(**{rule: value for rule, value in before(release).items() if rule in _FIELDS})


def rules_of(release: str) -> dict[str, Any]:
    """Returns the fields of the validator's `Rules` in which a release differs from the newest release."""
    return {rule: value for rule, value in before(release).items() if rule not in _FIELDS}


_FIELDS = frozenset(field.name for field in fields(Behaviour))
