"""Error answers: a response that says an error for everything the request asked, or for some of its partitions.

Requests that only ask are handled and their answer is overwritten. Those that change something are answered without
being handled; what such an answer looks like follows from the request: the same topics, partitions and names, with the
error beside each. If only some partitions are struck, the request is split into two, and the answers are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, TypeVar

from kafkawire.declare import Message, Struct
from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkawire.messages.offset_fetch import OffsetFetchResponse
from kafkawire.primitives import ZERO_UUID
from kafkawire.registry import api_name, response_class
from wirebroker.exchange import Exchange
from wirebroker.faults.facts import OTHERS_NAMES, PLAIN_NAMES, Where, fields_of, partition_index, topic_name

T = TypeVar("T", bound=Struct)
READING = frozenset(
    {
        "Fetch", "ListOffsets", "Metadata", "OffsetFetch", "FindCoordinator", "DescribeGroups", "ListGroups", "ApiVersions",
        "OffsetForLeaderEpoch", "DescribeConfigs", "DescribeLogDirs", "DescribeCluster", "DescribeProducers",
        "DescribeTransactions", "ListTransactions", "DescribeTopicPartitions", "ConsumerGroupDescribe",
        "ListPartitionReassignments", "DescribeQuorum", "ListConfigResources", "DescribeAcls",
    }
)  # fmt: skip
"""APIs that change nothing, so that handling them before their answer is overwritten does no harm."""
TOPIC_ERRORS = frozenset({"Metadata", "DescribeTopicPartitions", "CreateTopics", "DeleteTopics", "CreatePartitions"})
"""APIs whose answers have their errors beside the topics."""
OF_SESSIONS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)  # fmt: skip
"""What a Fetch says of itself; everything else it says of partitions."""
OF_OFFSETS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)  # fmt: skip
"""What OffsetFetch says of partitions; from version 2 on it says everything else of the group."""
CODES = ("error_code", "partition_error_code")
REPEATED = frozenset(
    {
        "name", "topic", "topic_id", "group_id", "member_id", "group_instance_id", "resource_type", "resource_name",
        "transactional_id", "producer_id",
    }
)  # fmt: skip
"""What an answer repeats of the request."""
BLANK = frozenset(
    {"base_offset", "high_watermark", "last_stable_offset", "offset", "timestamp", "log_start_offset", "producer_id",
     "producer_epoch", "generation_id", "committed_offset", "low_watermark"}
)  # fmt: skip
"""Numbers that are −1 beside an error."""
PARTS = {
    "responses": ("topic_data", "resources", "topic_names", "topics"), "partition_responses": ("partition_data",),
    "topics": ("topics",), "partitions": ("partitions", "partition_indexes"),
    "results": ("topics", "groups_names", "creations", "dirs"),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",), "results_by_partition": ("partitions",),
    "results_by_transaction": ("transactions",), "topic_results": ("topics",), "members": ("members",),
    "markers": ("markers",), "filter_results": ("filters",), "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",), "groups": ("groups", "group_ids"), "coordinators": ("coordinator_keys",),
    "transaction_states": ("transactional_ids",),
}  # fmt: skip
"""A list in an answer, and the lists of the request that it answers."""


def overwrite(response: Any, code: int, only: Where | None, exchange: Exchange) -> None:
    """Put the error into the response where Kafka has it, or for these partitions or topics alone.

    Without `only` it is said of each partition, and of the request where it has none. What belongs to no partition is said
    of the whole: a fault of the session in Fetch, one of the group in OffsetFetch.
    """
    if isinstance(response, FetchResponse):
        _overwrite_fetch(response, code, only, exchange)
    elif only is None and isinstance(response, OffsetFetchResponse) and exchange.version >= 2 and code not in OF_OFFSETS:
        groups: list[Any] = response.groups or [response]
        for group in groups:
            group.error_code, group.topics = code, []
    elif not _overwrite(response, code, only, exchange) and only is not None:
        _overwrite(response, code, None, exchange)


def _overwrite_fetch(response: FetchResponse, code: int, only: Where | None, exchange: Exchange) -> None:
    if code in OF_SESSIONS and only is None:
        response.error_code, response.session_id, response.responses = code, 0, []
        return
    answered = {
        (topic_name(topic, exchange), part.partition_index) for topic in response.responses for part in topic.partitions
    }
    for name, index in only or exchange.struck.facts.partitions:
        if index is not None and (name, index) not in answered and not response.error_code:
            response.responses.append(_unsaid(name, index, exchange))
    for topic in response.responses:
        _overwrite(topic, code, only, exchange)


def _unsaid(name: str, index: int, exchange: Exchange) -> FetchableTopicResponse:
    """What an answer leaves out that names only what has changed in its session."""
    known = exchange.cluster.topics.get(name)
    data = PartitionData(partition_index=index, error_code=0, high_watermark=-1, records=b"")
    return FetchableTopicResponse(topic=name, topic_id=known.topic_id if known else ZERO_UUID, partitions=[data])


def _overwrite(response: Any, code: int, only: Where | None, exchange: Exchange, topic: str = "") -> bool:
    """Whether there was a place for it."""
    named = topic_name(response, exchange)
    topic = named or topic
    index = partition_index(response)
    by_topic = named is not None and index is None and api_name(exchange.api_key) in TOPIC_ERRORS
    here = only is None or (topic, index) in only or (by_topic and any(wanted == topic for wanted, _ in only))
    found = False
    if here and (by_topic or not _has_parts(response)):
        for attribute in CODES:
            if hasattr(response, attribute):
                setattr(response, attribute, code)
                _blank(response)
                found = True
    for part in () if by_topic else _parts(response):
        found |= _overwrite(part, code, only, exchange, topic)
    return found


def _has_parts(response: Any) -> bool:
    """Whether the error belongs to the parts of this, at any depth, and not to itself."""
    return any(any(hasattr(part, code) for code in CODES) or _has_parts(part) for part in _parts(response))


def _parts(response: Any) -> Iterator[Any]:
    """The structs in a response's lists."""
    for attribute in fields_of(response):
        value = getattr(response, attribute)
        if isinstance(value, list):
            yield from (part for part in value if isinstance(part, Struct))


def _blank(part: Any) -> None:
    """What an answer with an error has instead of a result."""
    for attribute in BLANK & set(type(part).__slots__):
        setattr(part, attribute, -1)
    if hasattr(part, "records"):
        part.records = b""


def names_topics(answer: Any, exchange: Exchange) -> bool:
    """Whether there are topics in an answer, or in a request, to which an error may belong."""
    return any(topic_name(part, exchange) is not None or names_topics(part, exchange) for part in _parts(answer))


def refuse(request: Message, code: int, exchange: Exchange) -> Message:
    """The response that has this error everywhere, made of the request alone."""
    made: Message = _like(response_class(exchange.api_key), request, code)
    return made


def error_answers(exchange: Exchange) -> Iterator[Message]:
    """What says UNKNOWN_SERVER_ERROR instead of an answer that cannot be encoded, as `AbstractRequest.getErrorResponse`.

    Each is to be tried if the one before cannot be encoded either: first what names all that was asked for, then what
    names nothing.
    """
    if exchange.request is None:
        return
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    named = refuse(exchange.request, code, exchange)
    if isinstance(named, OffsetFetchResponse):
        overwrite(named, code, None, exchange)
    yield named
    cls: Any = response_class(exchange.api_key)
    if any(field.name == "error_code" and field.present(exchange.version) for field in cls.__wire__):
        yield cls(error_code=code)


def _like(cls: type[Struct], asked: Any, code: int) -> Any:
    """A part of the answer, made like the part of the request that it answers."""
    values: dict[str, Any] = {}
    answered_by_parts = False
    index = partition_index(asked)
    for field in cls.__wire__:
        part_class = field.spec[0] if isinstance(field.spec, list) else None
        if isinstance(part_class, type) and field.name in PARTS:
            sources = (getattr(asked, each, None) for each in PARTS[field.name])
            parts: list[Any] = next((found for found in sources if found), [])
            if hasattr(asked, "dirs"):  # AlterReplicaLogDirs is answered by topic
                parts = [topic for each in parts for topic in each.topics]
            values[field.name] = [_like(part_class, part, code) for part in parts]
            answered_by_parts = answered_by_parts or bool(parts)
        elif isinstance(asked, str) and field.name in ("name", "group_id", "topic", "key", "transactional_id"):
            values[field.name] = asked
        elif field.name == "topic_name":
            values[field.name] = asked.topic_name if hasattr(asked, "topic_name") else asked.name
        elif field.name in REPEATED and hasattr(asked, field.name):
            said = getattr(asked, field.name)
            # Metadata may name a topic by its id alone (MetadataRequest.getErrorResponse).
            values[field.name] = "" if said is None and field.spec == "string" else said
        elif field.name in ("partition_index", "index", "partition", "partition_id") and index is not None:
            values[field.name] = index
        elif field.name in CODES:
            values[field.name] = code
    if answered_by_parts and "error_code" in values:
        values["error_code"] = 0
    made = cls(**values)
    if any(hasattr(made, each) for each in CODES):
        _blank(made)
    return made


Wanted = Callable[[str, "int | None"], bool]


def part_of(request: T, wanted: Wanted, exchange: Exchange) -> T:
    """A request for those of its topics and partitions that are wanted."""
    kept = copy(request)
    for attribute in fields_of(request):
        parts = getattr(request, attribute)
        if isinstance(parts, list) and attribute not in OTHERS_NAMES:
            named = attribute in PLAIN_NAMES
            left = (_part_of(part, wanted, exchange, named) for part in parts)
            setattr(kept, attribute, [part for part in left if part is not None])
    return kept


def _part_of(part: Any, wanted: Wanted, exchange: Exchange, named: bool) -> Any:
    """What is wanted of this, None if nothing is; `named` if it is a topic's name and nothing more."""
    if not isinstance(part, Struct):
        return part if not named or wanted(part, None) else None
    topic = topic_name(part, exchange)
    if topic is None:
        rest = part_of(part, wanted, exchange)
        return rest if any(_parts(rest)) or not any(_parts(part)) else None
    lists = [each for each in fields_of(part) if each.startswith("partition") and getattr(part, each)]
    if not lists:
        return part if wanted(topic, None) else None
    kept = copy(part)
    for attribute in lists:
        indexes: list[Any] = getattr(part, attribute)
        setattr(kept, attribute, [each for each in indexes if wanted(topic, partition_index(each))])
    return kept if any(getattr(kept, attribute) for attribute in lists) else None


def join(handled: Any, refused: Any) -> Any:
    """One answer of two halves: what was refused goes to the handled parts of the same topic."""
    for attribute in fields_of(handled):
        more = getattr(refused, attribute)
        if isinstance(more, list) and more:
            parts = getattr(handled, attribute)
            known = {_identity(part): part for part in parts}
            for part in more:
                if (same := known.get(_identity(part))) is not None:
                    join(same, part)
                else:
                    parts.append(part)
    return handled


def _identity(part: Any) -> tuple[Any, ...]:
    """What tells a part of an answer from the others."""
    return (partition_index(part), *(getattr(part, attribute, None) for attribute in (*sorted(REPEATED), "topic_name")))


def throttle(response: Any, version: int, ms: int) -> bool:
    """Tell the client to hold back; False if the answer of this version cannot say so."""
    told = any(field.name == "throttle_time_ms" and field.present(version) for field in response.__wire__)
    if told:
        response.throttle_time_ms = ms
    return told
