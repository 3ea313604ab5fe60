"""The changes from release to release of Kafka, except API versions, features and settings: one row for each rule.

A row names the release that brought a rule, and the value of the rule before. The rules of a release are those of the newest
release, with the earlier value of each rule that came later. docs/reference/releases.md is made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

RELEASES = (
    "0.11", "1.0", "1.1", "2.1", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    "4.0", "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
"""The releases that can be served, oldest first."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of a release's broker, except its verdicts on batches. The defaults are those of the newest release."""

    telemetry: bool = True
    """Clients can push their metrics, if the broker has a receiver for them."""
    forgives_clients: bool = True
    """A client may ask for its subscription again at once after its metrics were refused for the subscription or the codec."""
    reads_metrics: bool = True
    """Clients' metrics that cannot be decompressed are refused."""
    limits_metrics: bool = True
    """Clients' metrics are also limited after they were decompressed."""
    types_client_metrics: bool = True
    """The settings of client metrics have types."""
    shows_client_metrics: bool = True
    """DescribeConfigs shows every setting of client metrics, with type, default and synonyms."""
    tells_own_versions: bool = True
    """The response to ApiVersions in an unknown version has the versions of ApiVersions."""
    explains_producers: bool = True
    """An error of DescribeProducers has a message, and a topic's name is checked."""
    no_operations: int = -(2**31)
    """The value of allowed operations in DescribeGroups if the request did not ask for them."""
    empty_messages: bool = True
    """CreateAcls without an error has an empty message, and not null."""
    verifies_epochs: bool = True
    """A leader compares the epochs before it asks the coordinator about a transactional batch."""
    responds_to_cut_records: bool = True
    """Produce with record data that ends early or has an unknown magic gets an error, and does not close the connection."""
    responds_to_wrong_records: bool = True
    """Produce with several batches, or with messages of an old magic, gets an error, and does not close the connection."""
    explains_records: bool = True
    """Refused records have the error INVALID_RECORD, and the response names each refused record."""
    names_records: bool = True
    """The response to refused records names each refused record with its error, and not only the first."""
    compares_counts: bool = True
    """A batch must have as many records as its last offset delta says."""
    keeps_batches: bool = True
    """A producer's retries are recognised also after its transaction has ended."""
    finds_topics_first: bool = True
    """Fetch checks that the topic exists before it checks that the client can read the topic's codec."""
    fences_newer_epochs: bool = True
    """EndTxn with a newer epoch than the producer's changes nothing."""
    tells_last_stable_offset: bool = True
    """Fetch returns the last stable offset to readers of uncommitted records, too."""
    needs_transactional_id: bool = True
    """A transactional batch is refused if the request has no transactional id."""
    newest_codec: int = 4
    """The number of the newest compression codec; 4 is zstd."""
    newest_resource: int = 32
    """The number of the newest kind of resource that has settings; 32 is a group, 16 client metrics, 8 a broker's loggers."""
    repeats_unknown_kinds: bool = True
    """A response about a resource of an unknown kind has the number of the kind, and not 0."""
    shows_group_synonyms: bool = True
    """DescribeConfigs shows each place that gives a setting of a group a value, and not only the place in effect."""
    finds_groups: bool = True
    """A commit to an unknown group is GROUP_ID_NOT_FOUND since version 9 of OffsetCommit, and not ILLEGAL_GENERATION."""
    keeps_emptied_groups: bool = True
    """A group without members stays after its last offset was deleted, until offsets expire."""
    refuses_deletion: bool = True
    """With delete.topic.enable=false, DeleteTopics is refused at once, and does not time out."""
    finds_wrong_settings: bool = True
    """A setting that cannot be read is INVALID_CONFIG, and not UNKNOWN_SERVER_ERROR."""
    finds_partitions: bool = True
    """AddPartitionsToTxn refuses partitions that do not exist, and not only topics."""
    explains_fencing: bool = False
    """A transactional batch of a fenced producer, or with another producer's id, is refused with a message."""
    foresees_null_records: bool = True
    """Null record data gets no response at all, instead of UNKNOWN_SERVER_ERROR."""
    verifies_offset_commits: bool = True
    """TxnOffsetCommit verifies with the coordinator that the group's partition belongs to the transaction."""
    clean_restart_epochs: int = 2
    """The number by which a leader epoch rises when the partition's only broker is restarted cleanly, in KRaft."""
    caps_min_in_sync: bool = True
    """min.insync.replicas counts at most as the partition's number of replicas."""
    verifies_transactions: bool = True
    """A leader asks the coordinator whether a transactional batch belongs to an open transaction."""
    refuses_append_time: bool = False
    """A client's batch with the timestamp type LogAppendTime is refused."""
    stand_ins: int = -(2**63)
    """The lowest time in ListOffsets that stands for an offset; lower values are times."""
    lists_aborted: bool = True
    """An error in Fetch carries an empty list of aborted transactions, and not null."""
    cuts_first_batch: bool = False
    """A Fetch before version 3 with a limit below the size of the first batch gets the beginning of that batch."""
    fills_converted: bool = True
    """Records that Fetch converts for an old version take as many bytes as before the conversion; a truncated message fills the
    rest.
    """
    takes_many_batches: bool = False
    """A Produce before version 3 may hold several compressed messages, and messages of both magics."""
    hosts_are_networks: bool = True
    """The host of an ACL may be a network, and is checked."""
    follows_emptied_groups: bool = True
    """When a group's last member leaves, its assignment has the group's epoch, and the next member need not wait for the
    assignment interval."""
    follows_assignors: bool = True
    """A group's epoch rises if its members choose another assignor."""
    readmits_static_members: bool = True
    """A static member comes back although its group is full."""
    tells_bad_subscriptions: bool = True
    """A classic member of a consumer group whose subscription cannot be read gets INCONSISTENT_GROUP_PROTOCOL."""
    first_epoch: int = 1
    """The epoch of a group of the newer types before its first member."""
    assigns_once: bool = True
    """The epoch of a share group does not rise for newly prepared partitions while an assignment is due."""
    counts_from_start: bool = True
    """The lag of a share partition is known from its first offset on, and not only after an acknowledgement."""
    refuses_null_names: bool = True
    """ShareFetch without a group or a member is INVALID_REQUEST, and not UNKNOWN_SERVER_ERROR."""
    grows_from_start: bool = True
    """A share group reads a new partition of a topic that it knows from its first record."""
    limits_new_partitions: bool = True
    """CreatePartitions refuses more than ten thousand further partitions in a request."""
    full_streams_groups: bool = True
    """Streams groups have static members and the offsets of tasks, and a member keeps a task while its role changes."""
    names_unknown_operations: bool = True
    """IncrementalAlterConfigs of loggers refuses an operation that does not exist with INVALID_REQUEST."""
    positive_quotas: bool = True
    """A quota is greater than 0, and not greater than the number that holds it."""
    strict_quotas: bool = True
    """An entity or a quota that is named twice is refused, and so is a filter that contradicts itself. The quota of mutations
    also counts requests that only validate.
    """
    limits_mutations: bool = True
    """Quotas of mutations take effect."""
    strict_tokens: bool = True
    """A delegation token that is renewed by 0 ms is renewed by the default period, and a refusal has the time 0
    instead of −1.
    """
    removes_expired_tokens: bool = True
    """An expired delegation token can be removed before the broker removes it."""
    tells_removal: bool = True
    """The response to the removal of a delegation token has the time of the removal, and not the requested period."""
    one_credential: bool = True
    """AlterUserScramCredentials names a user once, and not once for each mechanism."""
    has_quorum_loggers: bool = True
    """The loggers of the quorum's controller exist."""
    strict_loggers: bool = True
    """An unknown logger or level gets INVALID_CONFIG, and changes of loggers name their broker."""
    ends_sessions: bool = True
    """A session ends with its credential also if connections.max.reauth.ms is 0."""
    checks_nonces: bool = True
    """The final message of SCRAM must repeat the nonces."""
    responds_to_deleted_topics: bool = True
    """ShareFetch of a topic that was deleted since the session began gets a response, and does not fail."""
    finite_quotas: bool = True
    """A quota is a finite number."""
    tells_assignments: bool = True
    """DescribeGroups shows the members' last assignments also while a group rebalances."""
    refuses_early: bool = True
    """A commit of offsets that is refused creates no group."""
    strict_members: bool = True
    """The group.instance.id that a member names must exist, and TxnOffsetCommit names a member together with its generation."""
    notes_client_versions: bool = True
    """AddPartitionsToTxn from version 4 belongs to transaction version 2, and fails at level 0."""
    upgrades_quorum: bool = True
    """UpdateFeatures changes kraft.version."""
    forgets_start: bool = True
    """A transaction that was initialized again has no start time."""

    def has_settings(self, resource: int) -> bool:
        """Tells whether this kind of resource, by its number in DescribeConfigs, has settings in the release."""
        return resource <= self.newest_resource


class Change(NamedTuple):
    """A change of behaviour: the first release with the present value of `rule`, its value `before`, and what clients see.

    `rule` is a field of `Behaviour` or of the validator's `Rules`; `because` is the KIP or the ticket.
    """

    release: str
    rule: str
    before: Any
    because: str
    says: str


CHANGES: tuple[Change, ...] = (
    Change("4.4", "hosts_are_networks", False, "KIP-1276", "the host of an ACL may be a network such as 10.0.0.0/8"),
    Change("4.4", "full_streams_groups", False, "KIP-1071", "streams groups have static members, and offsets of tasks"),
    Change("4.4", "follows_emptied_groups", False, "seen", "the first member of an emptied group gets partitions at once"),
    Change("4.4", "follows_assignors", False, "seen", "a consumer group's epoch rises if its members choose another assignor"),
    Change("4.4", "readmits_static_members", False, "seen", "a static member comes back although its consumer group is full"),
    Change("4.4", "tells_bad_subscriptions", False, "seen", "a classic member with an unreadable subscription gets error 23"),
    Change("4.4", "grows_from_start", False, "seen", "a share group reads a partition that was added from its first record"),
    Change("4.4", "limits_new_partitions", False, "seen", "CreatePartitions adds at most 10,000 partitions"),
    Change("4.4", "names_unknown_operations", False, "seen", "an unknown operation on a logger is refused with error 42"),
    Change("4.4", "responds_to_deleted_topics", False, "seen", "ShareFetch of a deleted topic has error 3 for each partition"),
    Change("4.4", "finite_quotas", False, "seen", "a quota that is not a finite number is refused"),
    Change(
        "4.3",
        "shows_group_synonyms",
        False,
        "seen",
        "DescribeConfigs also shows the broker's setting that a group's setting overrides",
    ),
    Change("4.3", "first_epoch", 0, "seen", "a new group of the newer types begins with the epoch 1"),
    Change("4.3", "assigns_once", False, "seen", "a share group's epoch does not rise twice before an assignment"),
    Change("4.3", "counts_from_start", False, "KIP-1226", "the lag of a share partition is known before acknowledgements"),
    Change("4.3", "limits_metrics", False, "seen", "decompressed metrics of clients are limited by telemetry.max.bytes"),
    Change("4.3", "refuses_null_names", False, "seen", "ShareFetch without a group or a member is 42 instead of −1"),
    Change(
        "4.1", "shows_client_metrics", False, "KAFKA-17516", "DescribeConfigs shows all settings of client metrics, with types"
    ),
    Change("4.1", "upgrades_quorum", False, "KAFKA-16538", "UpdateFeatures changes kraft.version"),
    Change("4.1", "forgets_start", False, "seen", "DescribeTransactions shows no start time after InitProducerId"),
    Change("4.1", "transaction_start", "any", "KIP-890", "with transaction version 2 a producer's first sequence is 0"),
    Change(
        "4.0", "verifies_epochs", False, "KIP-890", "a fenced producer's batch is refused before its transaction is verified"
    ),
    Change("4.0", "notes_client_versions", False, "KIP-890", "AddPartitionsToTxn from version 4 needs transaction version 2"),
    Change("4.0", "tells_assignments", False, "KIP-848", "DescribeGroups shows assignments also while a group rebalances"),
    Change("4.0", "refuses_early", False, "KIP-848", "a commit that is refused creates no group"),
    Change("4.0", "newest_resource", 16, "KIP-848", "groups have settings"),
    Change("4.0", "finds_groups", False, "KIP-848", "a commit to an unknown group is GROUP_ID_NOT_FOUND"),
    Change("4.0", "keeps_emptied_groups", False, "KIP-848", "a group without members outlives the deletion of its last offset"),
    Change("4.0", "types_client_metrics", False, "seen", "a setting of client metrics that cannot be read is refused with 40"),
    Change("4.0", "forgives_clients", False, "seen", "after errors 76 and 117 a client may ask for its subscription at once"),
    Change("3.8", "reads_metrics", False, "seen", "metrics of clients that cannot be decompressed are refused with 87"),
    Change("3.8", "foresees_null_records", False, "seen", "Produce without record data gets no response"),
    Change("3.7", "telemetry", False, "KIP-714", "clients can push their metrics"),
    Change("3.7", "newest_resource", 8, "KIP-714", "client metrics have settings"),
    Change("3.7", "verifies_offset_commits", False, "KIP-890", "TxnOffsetCommit is verified with the transaction coordinator"),
    Change("3.7", "caps_min_in_sync", False, "KIP-966", "min.insync.replicas counts up to the number of replicas"),
    Change("3.7", "explains_fencing", True, "KIP-890", "the errors 47 and 49 of a transactional batch have no message"),
    Change("3.7", "removes_expired_tokens", False, "seen", "an expired delegation token can still be removed"),
    Change(
        "3.7", "tells_removal", False, "seen", "the response to the removal of a delegation token has the time of the removal"
    ),
    Change("3.7", "names_unknown_operations", True, "seen", "an unknown operation on a logger is refused with −1"),
    Change("3.7", "checks_nonces", False, "CVE-2024-56128", "the last message of a client in SCRAM must repeat the nonces"),
    Change("3.6", "explains_fencing", False, "KIP-890", "the errors 47 and 49 of a transactional batch have a message"),
    Change("3.6", "verifies_transactions", False, "KIP-890", "transactional batches are verified: errors 47, 48 and 49"),
    Change(
        "3.6",
        "strict_tokens",
        False,
        "KAFKA-15219",
        "a delegation token that is renewed by 0 ms is renewed by the default period",
    ),
    Change("3.6", "tells_removal", True, "seen", "the response to the removal of a delegation token has the requested period"),
    Change("3.6", "clean_restart_epochs", 3, "KAFKA-15021", "a clean restart raises the leader epoch by 2 instead of 3"),
    Change("3.6", "refuses_append_time", True, "KIP-937", "a batch with the timestamp type LogAppendTime is accepted"),
    Change("3.5", "stand_ins", -3, "KIP-405", "the times from −4 down in ListOffsets stand for offsets, or are refused"),
    Change("3.5", "positive_quotas", False, "seen", "a quota of 0, or too large for its type, is refused"),
    Change("3.5", "limits_mutations", False, "KAFKA-14351", "quotas of mutations take effect in KRaft"),
    Change("3.3", "limits_mutations", True, "KIP-833", "quotas of mutations have no effect in KRaft"),
    Change("3.3", "strict_quotas", False, "KIP-833", "AlterClientQuotas refuses what is named twice"),
    Change("3.3", "one_credential", False, "KIP-833", "AlterUserScramCredentials refuses a user that is named twice"),
    Change("3.3", "strict_loggers", False, "KIP-833", "unknown loggers and levels are refused with 40 instead of 42"),
    Change("3.3", "has_quorum_loggers", False, "KIP-833", "brokers have the loggers of the quorum's controller"),
    Change("3.3", "names_unknown_operations", False, "seen", "an unknown operation on a logger is refused with 42"),
    Change("3.3", "ends_sessions", False, "seen", "a session ends with its credential, with any connections.max.reauth.ms"),
    Change(
        "3.0",
        "strict_members",
        False,
        "seen",
        "an unknown group.instance.id is refused",
    ),
    Change("3.0", "stand_ins", -2, "KIP-734", "the time −3 in ListOffsets stands for the largest timestamp"),
    Change("3.0", "cuts_first_batch", True, "seen", "a Fetch before version 3 with a limit below the first batch gets nothing"),
    Change("3.0", "explains_producers", False, "seen", "errors of DescribeProducers have a message"),
    Change("3.0", "lists_aborted", False, "seen", "an error in Fetch has an empty list of aborted transactions"),
    Change("2.8", "responds_to_cut_records", False, "seen", "Produce with record data that ends early gets a response"),
    Change("2.7", "repeats_unknown_kinds", False, "seen", "responses about settings repeat a kind of resource that is unknown"),
    Change("2.6", "fences_newer_epochs", False, "KIP-588", "EndTxn with a newer epoch is refused and changes nothing"),
    Change("2.5", "names_records", False, "seen", "the response names each refused record with its error"),
    Change("2.5", "first_sequence", "zero_or_59", "KIP-360", "a producer without state may begin at any sequence"),
    Change("2.4", "takes_many_batches", True, "seen", "a Produce before version 3 with two compressed messages is refused"),
    Change("2.4", "tells_own_versions", False, "KIP-511", "ApiVersions in an unknown version gets the known versions"),
    Change("2.4", "newest_resource", 4, "KIP-412", "a broker's loggers have levels"),
    Change(
        "2.4", "no_operations", 0, "seen", "DescribeGroups shows the operations −2³¹ instead of 0 if they were not asked for"
    ),
    Change("2.4", "empty_messages", False, "seen", "CreateAcls without an error has an empty message instead of null"),
    Change("2.4", "explains_records", False, "KIP-467", "refused records have the error 87 and details, instead of 2"),
    Change("2.4", "state_after_delete", "lost", "KAFKA-7190", "a producer's state outlives the deletion of its records"),
    Change("2.3", "finds_topics_first", False, "seen", "Fetch before version 10 of an unknown topic is 3 instead of 76"),
    Change("2.1", "finds_topics_first", True, "KIP-110", "Fetch before version 10 of an unknown topic is 76"),
    Change("2.1", "newest_codec", 3, "KIP-110", "zstd is known"),
    Change("2.0", "fills_converted", False, "KIP-283", "records converted for a Fetch before version 4 end with a cut message"),
    Change("2.0", "responds_to_wrong_records", False, "seen", "Produce with several batches or old messages gets a response"),
    Change("2.0", "tells_last_stable_offset", False, "seen", "Fetch returns the last stable offset to every reader"),
    Change("2.0", "needs_transactional_id", False, "seen", "a transactional batch needs a transactional id, else 53"),
    Change("2.0", "finds_wrong_settings", False, "seen", "a setting that cannot be read is refused with 40 instead of −1"),
    Change("2.0", "finds_partitions", False, "seen", "AddPartitionsToTxn refuses unknown partitions of a known topic"),
    Change("1.1", "compares_counts", False, "seen", "a batch's number of records must agree with its last offset delta"),
    Change("1.0", "refuses_deletion", False, "seen", "with delete.topic.enable=false DeleteTopics is refused at once"),
    Change("1.0", "keeps_batches", False, "KAFKA-5494", "a retry is recognised also after its transaction has ended"),
    Change("1.0", "finds_partitions", True, "seen", "AddPartitionsToTxn accepts unknown partitions of a known topic"),
    Change("1.0", "first_sequence", "zero_or_45", "KIP-192", "a first sequence other than zero has an error of its own, 59"),
    Change("1.0", "window", 1, "KAFKA-5494", "retries of the last five batches are recognised, and not only of the last batch"),
)
"""Newest first. If a rule has two rows, the older row holds for the releases before it."""


def number(release: str) -> tuple[int, ...]:
    """Returns a release as numbers that can be compared: 3.10 is newer than 3.9."""
    return tuple(map(int, release.split(".")))


def before(release: str) -> dict[str, Any]:
    """Returns a release's differences from the newest release: fields of `Behaviour` and of the validator's `Rules`."""
    return {change.rule: change.before for change in CHANGES if number(release) < number(change.release)}


def behaviour_of(release: str) -> Behaviour:
    """Returns the behaviour of a broker of this release."""
    return Behaviour(**{rule: value for rule, value in before(release).items() if rule in _FIELDS})


def rules_of(release: str) -> dict[str, Any]:
    """Returns the fields of the validator's `Rules` in which a release differs from the newest release."""
    return {rule: value for rule, value in before(release).items() if rule not in _FIELDS}


_FIELDS = frozenset(field.name for field in fields(Behaviour))
