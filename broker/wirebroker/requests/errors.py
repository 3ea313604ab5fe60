"""Makes error responses. The response has the error for everything that the request names, or only for some partitions.

A request that only reads is handled, and then the error overwrites its response. A request that changes something is not
handled; its error response is built from the request: the same topics, partitions and names, each with the error. If only some
partitions get the error, the request is split in two and the responses are joined.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

from kafkawire.declare import Field, Message, Struct
from kafkawire.entities import Entity, first, holders, mentions, parts
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from kafkawire.messages.elect_leaders import ElectLeadersResponse
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkawire.messages.metadata import MetadataResponse, MetadataResponseTopic
from kafkawire.messages.offset_fetch import OffsetFetchResponse
from kafkawire.registry import api_name, response_class
from wirebroker.common.slices import Pause, at_once, never
from wirebroker.requests.parts import Where, partition_index, topic_name
from wirebroker.requests.received import Received

READING = frozenset(
    {
        "Fetch", "ListOffsets", "Metadata", "OffsetFetch", "FindCoordinator", "DescribeGroups", "ListGroups", "ApiVersions",
        "OffsetForLeaderEpoch", "DescribeConfigs", "DescribeLogDirs", "DescribeCluster", "DescribeProducers",
        "DescribeTransactions", "ListTransactions", "DescribeTopicPartitions", "ConsumerGroupDescribe",
        "ListPartitionReassignments", "DescribeQuorum", "ListConfigResources", "DescribeAcls", "SaslHandshake",
        "DescribeUserScramCredentials", "DescribeClientQuotas", "ShareGroupDescribe", "StreamsGroupDescribe",
        "DescribeShareGroupOffsets",
    }
)  # fmt: skip
"""APIs that only read. Their requests change nothing, so the broker can handle such a request before a fault overwrites the
response with an error.
"""
TOPIC_ERRORS = frozenset({"Metadata", "DescribeTopicPartitions", "CreateTopics", "DeleteTopics", "CreatePartitions"})
"""APIs whose responses have an error code for each topic."""
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)  # fmt: skip
"""A Fetch response has these errors at its top level, and all other errors at its partitions."""
OFFSET_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)  # fmt: skip
"""An OffsetFetch response has these errors at single partitions. Since version 2 it has all other errors at the group."""
REPEATED_ENTITIES: tuple[Entity, ...] = ("topicName", "topicId", "groupId", "transactionalId", "coordinatorKey", "partition")
"""A response repeats these entities from the request, even if its own field has another name."""
REPEATED_FIELDS = (
    "member_id", "group_instance_id", "resource_type", "resource_name", "producer_id", "entity_type", "entity_name",
)  # fmt: skip
"""A response repeats these fields from the request if its own field has the same name."""
BLANK = frozenset(
    {"base_offset", "high_watermark", "last_stable_offset", "offset", "timestamp", "log_start_offset", "producer_id",
     "producer_epoch", "generation_id", "committed_offset", "low_watermark", "node_id", "port"}
)  # fmt: skip
"""Numeric fields that are set to −1 in a part that has an error."""
ERRORS_AT_BOTH = (MetadataResponse, AlterPartitionReassignmentsResponse, ElectLeadersResponse)
"""Responses in which both the top level and the parts get the error."""
NEVER_NULL = (MetadataResponseTopic,)
"""Parts whose name is empty if the request names the topic by its id. In other parts the name is then null
(`MetadataRequest.getErrorResponse`; Metadata has ids since version 10, but null names only since version 12)."""
PARTS = {
    "responses": ("topic_data", "resources", "topic_names", "topics"), "partition_responses": ("partition_data",),
    "topics": ("topics",), "partitions": ("partitions", "partition_indexes"),
    "results": ("topics", "groups_names", "creations", "dirs", "resources", "upsertions", "deletions"),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",), "results_by_partition": ("partitions",),
    "results_by_transaction": ("transactions",), "topic_results": ("topics",), "members": ("members",), "entries": ("entries",),
    "markers": ("markers",), "filter_results": ("filters",), "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",), "groups": ("groups", "group_ids"), "coordinators": ("coordinator_keys",),
    "transaction_states": ("transactional_ids",), "entity": ("entity",),
}  # fmt: skip
"""For each list in a response, the lists in the request that may correspond to this list."""


def overwrite(response: Any, code: int, only: Where | None, received: Received, about: Iterable[tuple[str, int]] = ()) -> None:
    """Put the error `code` where Kafka puts it in a response. If `only` is given, put the error only at the partitions or
    topics in `only`.

    Without `only`, each partition gets the error. In a response without partitions, the whole response gets the error.
    There are two exceptions: session errors of Fetch go to the top level, and group errors of OffsetFetch go to the group.
    `about` lists all partitions of a Fetch, because the response may leave out unchanged partitions.
    """
    if isinstance(response, FetchResponse):
        _overwrite_fetch(response, code, only, received, about)
    elif only is None and isinstance(response, OffsetFetchResponse) and received.version >= 2 and code not in OFFSET_ERRORS:
        groups: list[Any] = response.groups or [response]
        for group in groups:
            group.error_code, group.topics = code, []
    elif not _overwrite(response, code, only, received) and only is not None:
        _overwrite(response, code, None, received)


def _overwrite_fetch(
    response: FetchResponse, code: int, only: Where | None, received: Received, about: Iterable[tuple[str, int]]
) -> None:
    if code in SESSION_ERRORS and only is None:
        response.error_code, response.session_id, response.responses = code, 0, []
        return
    answered = {
        (topic_name(topic, received.directory), part.partition_index)
        for topic in response.responses
        for part in topic.partitions
    }
    for name, index in only or about:
        if index is not None and (name, index) not in answered and not response.error_code:
            response.responses.append(_empty_fetch(name, index, received))
    for topic in response.responses:
        _overwrite(topic, code, only, received)


def _empty_fetch(name: str, index: int, received: Received) -> FetchableTopicResponse:
    """Returns a partition without records, to add to an incremental Fetch response. The response left the partition out because
    nothing had changed in it since the previous response of the session.
    """
    data = PartitionData(partition_index=index, error_code=0, high_watermark=-1, records=b"")
    return FetchableTopicResponse(topic=name, topic_id=received.directory.topic_id(name), partitions=[data])


def _overwrite(response: Any, code: int, only: Where | None, received: Received, topic: str = "") -> bool:
    """Put the error into this part of a response and into its inner parts. Returns whether this part has a
    field for the error."""
    own_topic = topic_name(response, received.directory)
    topic = own_topic or topic
    index = partition_index(response)
    by_topic = own_topic is not None and index is None and api_name(received.api_key) in TOPIC_ERRORS
    here = only is None or (topic, index) in only or (by_topic and any(wanted == topic for wanted, _ in only))
    found = False
    if here and (by_topic or not _parts_have_codes(response)):
        for field in holders(type(response), "errorCode"):
            setattr(response, field, code)
            _blank(response)
            found = True
    for part in () if by_topic else parts(response):
        found |= _overwrite(part, code, only, received, topic)
    return found


def _parts_have_codes(response: Any) -> bool:
    """Tells whether inner parts of this part, at any depth, have error codes. The inner parts then get the error, instead of
    this part.
    """
    return any(map(_has_code, parts(response)))


def _has_code(part: Any) -> bool:
    return mentions(type(part), "errorCode") and (bool(holders(type(part), "errorCode")) or _parts_have_codes(part))


def _blank(part: Any) -> None:
    """Replace the results in a part with empty values, because the part gets an error."""
    for attribute in BLANK & set(type(part).__slots__):
        setattr(part, attribute, -1)
    if hasattr(part, "records"):
        part.records = b""
    if hasattr(part, "host"):
        part.host = ""


def refuse(request: Message, code: int, received: Received) -> Message:
    """Returns a response made from the request alone, with this error in all its parts."""
    return at_once(refuse_in_slices(request, code, received, never))


def refuse_in_slices(request: Message, code: int, received: Received, pause: Pause) -> Generator[None, None, Message]:
    """Returns the same response as `refuse`, but in slices, for requests with many parts."""
    made: Message = yield from _like(response_class(received.api_key), request, code, pause)
    return made


def error_responses(request: Message, received: Received) -> Iterator[Message]:
    """Yields two responses with UNKNOWN_SERVER_ERROR, like `AbstractRequest.getErrorResponse`. The two responses replace a
    response that cannot be encoded.

    The first response names everything that the request names. The second response names nothing, and is used if the first
    response cannot be encoded either.
    """
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    full = refuse(request, code, received)
    if isinstance(full, OffsetFetchResponse):
        overwrite(full, code, None, received)
    yield full
    cls: Any = response_class(received.api_key)
    if any(field.name == "error_code" and field.present(received.version) for field in cls.__wire__):
        yield cls(error_code=code)


def _like(cls: type[Struct], source: Any, code: int, pause: Pause) -> Generator[None, None, Any]:
    """Makes a part of the response from the corresponding part of the request."""
    values: dict[str, Any] = {}
    parts_have_codes = False
    for field in cls.__wire__:
        part_class = field.spec[0] if isinstance(field.spec, list) else None
        if isinstance(part_class, type) and field.name in PARTS:
            sources = _sources(source, field.name)
            values[field.name] = made_parts = []
            for each in sources:
                yield from pause()
                made_parts.append((yield from _like(part_class, each, code, pause)))
            parts_have_codes = parts_have_codes or any(map(_has_code, made_parts))
        elif field.entity == "errorCode":
            values[field.name] = code
        elif not isinstance(field.spec, list) and (repeated := _repeated(source, field)) is not None:
            values[field.name] = repeated
        elif field.nullable_since < field.nullable_until and (
            _has_id(source) and cls not in NEVER_NULL
            if field.entity == "topicName"
            else field.name in REPEATED_FIELDS and hasattr(source, field.name)
        ):
            values[field.name] = None
    if parts_have_codes and "error_code" in values and cls not in ERRORS_AT_BOTH:
        values["error_code"] = 0
    made = cls(**values)
    if holders(cls, "errorCode"):
        _blank(made)
    return made


def _has_id(source: Any) -> bool:
    """Tells whether a part of a request names its topic by id."""
    return isinstance(source, Struct) and first(source, "topicName") is None and any(first(source, "topicId") or b"")


def _sources(source: Any, name: str) -> list[Any]:
    """Returns the parts of the request that correspond to this list of the response."""
    found: list[Any] = next((each for name in PARTS[name] if (each := getattr(source, name, None))), [])
    if hasattr(source, "upsertions"):  # AlterUserScramCredentials has two lists of users; its response has each user once
        users = {each.name: each for each in (*source.deletions, *source.upsertions)}
        return [users[name] for name in sorted(users)]
    if hasattr(source, "dirs"):  # AlterReplicaLogDirs: the request is ordered by directory, the response by topic
        return [topic for each in found for topic in each.topics]
    return found


def _repeated(source: Any, field: Field) -> Any:
    """Returns the request's value if the response's field repeats a field of the request, else None."""
    if field.name in REPEATED_FIELDS:
        return getattr(source, field.name, None)
    if field.name == "user":
        return getattr(source, "name", None)
    for entity in REPEATED_ENTITIES:
        if field.entity == entity and isinstance(source, Struct):
            return partition_index(source) if entity == "partition" else first(source, entity)
        if field.entity == entity != "topicId" and isinstance(source, int if entity == "partition" else str):
            return source
    return None


def join(handled: Any, refused: Any) -> Any:
    """Joins the response to the handled half of a request and the response to the refused half. Partitions of the same topic
    are put together.
    """
    return at_once(join_in_slices(handled, refused, never))


def join_in_slices(handled: Any, refused: Any, pause: Pause) -> Generator[None, None, Any]:
    """Returns the same response as `join`, but in slices."""
    for attribute in type(handled).__slots__:
        more = getattr(refused, attribute)
        if isinstance(more, list) and more:
            present = getattr(handled, attribute)
            known: dict[tuple[Any, ...], Any] = {}
            for part in present:
                yield from pause()
                known[_identity(part)] = part
            for part in more:
                yield from pause()
                if (same := known.get(_identity(part))) is not None:
                    yield from join_in_slices(same, part, pause)
                else:
                    present.append(part)
    return handled


def _identity(part: Any) -> tuple[Any, ...]:
    """Returns the values that identify a part of a response among its other parts."""
    return (
        *(partition_index(part) if entity == "partition" else first(part, entity) for entity in REPEATED_ENTITIES),
        *(getattr(part, name, None) for name in REPEATED_FIELDS),
    )


def throttle(response: Any, version: int, ms: int) -> bool:
    """Set the response's throttle_time_ms. Returns False if the response does not have this field in this version."""
    present = any(field.name == "throttle_time_ms" and field.present(version) for field in response.__wire__)
    if present:
        response.throttle_time_ms = ms
    return present
