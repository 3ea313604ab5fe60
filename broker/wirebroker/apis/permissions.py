"""The permissions that each API needs: the rules of Kafka's KafkaApis and ControllerApis.

A request is divided before it is handled. The forbidden parts of a request get an error. The allowed parts are handled as a
request of their own. Then both responses are joined. If a request asks for all resources, the response leaves out the resources
that the client may not see. Therefore handlers need no ACLs. The exceptions are Fetch, whose sessions remember partitions, and
Produce, whose batches show whether they are transactional.

The rules are generators, which yield between slices of a long request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from copy import copy
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafkawire.batches import transactional_header
from kafkawire.declare import Message
from kafkawire.entities import lists, struct_lists
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kafkawire.messages.describe_client_quotas import DescribeClientQuotasResponse
from kafkawire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
from kafkawire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kafkawire.messages.join_group import JoinGroupResponse
from kafkawire.messages.offset_fetch import OffsetFetchRequest
from kafkawire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafkawire.primitives import ZERO_UUID
from kafkawire.registry import api_name, response_class
from wirebroker.apis import (
    IN_ZOOKEEPER,
    acls,
    configs,
    delete_topics,
    describe_topic_partitions,
    log_offsets,
    metadata,
)
from wirebroker.apis.overdue import is_late
from wirebroker.common.slices import mapped, pauses
from wirebroker.core.acls import CLUSTER_NAME, Operation, ResourceType, has_settings
from wirebroker.core.cluster import INTERNAL_TOPICS
from wirebroker.core.config_resources import ASKS_ABOUT_BROKERS_FIRST
from wirebroker.core.groups.streams_topology import topics_of
from wirebroker.core.names import topic_name_error
from wirebroker.requests.errors import join_in_slices, refuse_in_slices
from wirebroker.requests.parts import named, part_in_slices, topic_name

if TYPE_CHECKING:
    from wirebroker.apis.exchange import Exchange

T = TypeVar("T")
Slices = Generator[None, Any, T]
Finish = Callable[[Any, "Access"], Slices[None]]
_O, _R = Operation, ResourceType
CODES = {
    _R.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _R.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _R.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _R.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
MESSAGES = {
    _R.TOPIC: "Topic authorization failed.", _R.GROUP: "Group authorization failed.",
    _R.CLUSTER: "Cluster authorization failed.", _R.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}  # fmt: skip
"""Kafka's messages for authorization errors, in responses that have a field for a message."""
WHOLE_ERRORS = frozenset(
    {"LeaveGroup", "OffsetDelete", "ConsumerGroupHeartbeat", "DescribeQuorum", "DescribeLogDirs", "AddPartitionsToTxn",
     "ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "AlterShareGroupOffsets", "DeleteShareGroupOffsets",
     "StreamsGroupHeartbeat"}
)  # fmt: skip
"""APIs whose response names no resources when the whole request is refused."""
WORDED = ("AlterShareGroupOffsetsResponse", "DeleteShareGroupOffsetsResponse")
"""If access to the group is refused, these responses name no resources, but have an error message."""
SHARE = 2
"""The type of a share partition's key in FindCoordinator."""
BROKERS, LOGGERS = 4, 8
"""The resource types of brokers and of their loggers. A refusal to change them has no message, if the receiving broker looks at
the client's rights."""
RESOURCES_OF_CONFIGS = {2: _R.TOPIC, 32: _R.GROUP}
"""The types of resources that own their settings. The settings of all other resources belong to the cluster."""
DECISIONS = 128
"""The number of decisions in one slice. One decision takes about 20 µs."""


class Access:
    """The client's rights for one request, and their effect on the response."""

    __slots__ = ("exchange", "finish", "pause", "refused")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.pause = pauses(DECISIONS)
        self.refused: Any = None
        """The response for the forbidden parts; None if no part is forbidden."""
        self.finish: Finish | None = None
        """Removes from the response all resources that the client may not see. The function gets the `Access` as an argument,
        because a reference to the `Access` would make a cycle of objects, which stays in memory until the garbage collector
        runs."""

    def may(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME, *, asked: bool = True) -> bool:
        """Tells whether the client may perform this operation. With `asked` the client has requested the operation, so a
        refusal is recorded.
        """
        exchange = self.exchange
        return exchange.engine.authorizer.may(exchange.connection, operation, kind, name, asked=asked)

    def operations(self, kind: ResourceType, name: str) -> int:
        """Returns the operations that the client may perform on a resource, as a bit field for a response."""
        return self.exchange.engine.authorizer.operations(self.exchange.connection, kind, name)

    def cluster_operations(self) -> int:
        """Returns the operations that the client may perform on the cluster, or 0 if the client may not describe the
        cluster."""
        return self.operations(_R.CLUSTER, CLUSTER_NAME) if self.may(_O.DESCRIBE, _R.CLUSTER) else 0

    def refuse(self, request: Message, code: ErrorCode, message: str | None = None) -> Slices[None]:
        """Refuse this part of the request with an error, and a message if one is given."""
        response: Any = yield from refuse_in_slices(request, code, self.exchange, self.pause)
        if isinstance(response, JoinGroupResponse):
            response.member_id = ""
            if self.exchange.version >= 7:
                response.protocol_name = None
        if message is not None:
            yield from self.tell(response, message)
        if self.refused is not None:
            response = yield from join_in_slices(self.refused, response, self.pause)
        self.refused = response

    def tell(self, response: Any, message: str) -> Slices[None]:
        """Add a message to each error of a response."""
        if getattr(response, "error_code", 0) and hasattr(response, "error_message"):
            response.error_message = message
        for name, _ in struct_lists(type(response)):
            for part in getattr(response, name) or ():
                yield from self.pause()
                yield from self.tell(part, message)

    def refuse_all(self, kind: ResourceType) -> None:
        """Respond to the request with an error for the whole request."""
        response: Any = response_class(self.exchange.api_key)
        self.refused = response(error_code=CODES[kind])
        if response.__name__ in WORDED or (kind == _R.CLUSTER and hasattr(response, "error_message")):
            self.refused.error_message = MESSAGES[kind]

    def divide(self, request: Any, attribute: str, allowed: Callable[[Any], bool]) -> Slices[tuple[Any, list[Any]]]:
        """Divides the elements of a list in the request. Returns two values: the request with only the allowed elements (None
        if no element is allowed), and the refused elements."""
        fitting: list[Any] = []
        refused: list[Any] = []
        for each in getattr(request, attribute):
            yield from self.pause()
            (fitting if allowed(each) else refused).append(each)
        if not refused:
            return request, []
        return _with(request, attribute, fitting) if fitting else None, refused

    def joined(self, response: Any) -> Slices[Any]:
        """Returns the response to the allowed part, together with the refused elements."""
        if self.finish is not None:
            yield from self.finish(response, self)
        return response if self.refused is None else (yield from join_in_slices(response, self.refused, self.pause))

    def only(self, elements: Iterable[T], allowed: Callable[[T], bool]) -> Slices[list[T]]:
        found = []
        for each in elements:
            yield from self.pause()
            if allowed(each):
                found.append(each)
        return found

    def may_all(self, operation: Operation, kind: ResourceType, names: Iterable[str]) -> Slices[bool]:
        """Tells whether the client may perform this operation on all of these resources."""
        for name in names:
            yield from self.pause()
            if not self.may(operation, kind, name):
                return False
        return True


def _with(request: Any, attribute: str, elements: list[Any]) -> Any:
    """Returns a copy of the request with only these elements in the list `attribute`."""
    changed = copy(request)
    setattr(changed, attribute, elements)
    return changed


Rule = Callable[[Any, Access], Slices[Any]]
"""Returns the allowed part of the request, or None if nothing is allowed."""


def whole(
    operation: Operation, kind: ResourceType, field: str = "", message: str | None = None,
    response: Callable[[Any, Exchange], Message] | None = None,
) -> Rule:  # fmt: skip
    """The client needs one right for the whole request: on the resource that `field` names or, without `field`, on the
    cluster. `response` makes the response to a refused request, if an API has a response of its own."""
    told = message or (None if field else f"The request needs {operation.name} permission.")

    def rule(request: Any, access: Access) -> Slices[Any]:
        if access.may(operation, kind, getattr(request, field) if field else CLUSTER_NAME):
            return request
        if response is not None:
            access.refused = response(request, access.exchange)
        elif api_name(access.exchange.api_key) in WHOLE_ERRORS:
            access.refuse_all(kind)
        else:
            yield from access.refuse(request, CODES[kind], told)
        return None

    return rule


def topics(operation: Operation, message: str | None = None) -> Rule:
    """The client needs the same right on each topic."""

    def rule(request: Any, access: Access) -> Slices[Any]:
        directory, pause = access.exchange.directory, access.pause
        denied = yield from _denied(request, access, lambda name: access.may(operation, _R.TOPIC, name))
        if not denied:
            return request
        refused = yield from part_in_slices(request, lambda topic, _: topic in denied, directory, pause)
        yield from access.refuse(refused, CODES[_R.TOPIC], message)
        kept = yield from part_in_slices(request, lambda topic, _: topic not in denied, directory, pause)
        return kept if any(getattr(kept, name) for name in lists(type(kept))) else None

    return rule


def _denied(request: Any, access: Access, may: Callable[[str], bool]) -> Slices[set[str]]:
    """Returns those topics in the request that the client may not use."""
    decided: dict[str, bool] = {}
    for topic, _ in named(request, access.exchange.directory):
        yield from access.pause()
        if topic not in decided:
            decided[topic] = may(topic)
    return {topic for topic, allowed in decided.items() if not allowed}


def each(operation: Operation, kind: ResourceType, attribute: str, field: str = "") -> Rule:
    """The client needs the same right on the resource of each element of a list. The name of the resource is the element itself
    or, with `field`, this field of the element."""

    def rule(request: Any, access: Access) -> Slices[Any]:
        def name(element: Any) -> str:
            found: str = getattr(element, field) if field else element
            return found

        allowed = partial(access.may, operation, kind)
        kept, refused = yield from access.divide(request, attribute, lambda element: allowed(name(element)))
        if refused:
            yield from access.refuse(_with(request, attribute, refused), CODES[kind])
        return kept

    return rule


def _delete_groups(request: Any, access: Access) -> Slices[Any]:
    """A group that is named twice gets one result."""
    once = _with(request, "groups_names", list(dict.fromkeys(request.groups_names)))
    return (yield from each(_O.DELETE, _R.GROUP, "groups_names")(once, access))


def unless(wrong: Callable[[Any, int], object], rule: Rule) -> Rule:
    """Applies the rule to requests that are not `wrong`. The handler refuses a wrong request as a whole, without information
    about the named resources."""

    def guarded(request: Any, access: Access) -> Slices[Any]:
        return request if wrong(request, access.exchange.version) else (yield from rule(request, access))

    return guarded


def both(*rules: Rule) -> Rule:
    """Applies each rule in turn while a part of the request is still allowed."""

    def rule(request: Any, access: Access) -> Slices[Any]:
        for one in rules:
            if request is not None:
                request = yield from one(request, access)
        return request

    return rule


def suffices(operation: Operation, rule: Rule) -> Rule:
    """A client with this right on the cluster needs no other right. The rule applies to all other clients."""

    def either(request: Any, access: Access) -> Slices[Any]:
        return request if access.may(operation, _R.CLUSTER, asked=False) else (yield from rule(request, access))

    return either


def _share_offsets(request: Any, access: Access) -> Slices[Any]:
    """If the client may read none of the topics, returns the request without topics, so that the handler still checks the
    group. If the handler refuses the group, the whole response is this refusal.

    As in Kafka, a refused AlterShareGroupOffsets shows the id of a topic that the client may not read.
    """
    cluster = access.exchange.cluster

    def refused_by_group(response: Any, access: Access) -> Slices[None]:
        if response.error_code:
            access.refused = None
        yield from ()

    access.finish = refused_by_group
    kept = yield from topics(_O.READ, MESSAGES[_R.TOPIC])(request, access)
    if isinstance(access.refused, AlterShareGroupOffsetsResponse):
        for topic in access.refused.responses:
            yield from access.pause()
            if topic.topic_name in cluster.topics:
                topic.topic_id = cluster.topics[topic.topic_name].topic_id
    return kept or _with(request, "topics", [])


def _produce(request: Any, access: Access) -> Slices[Any]:
    if any(transactional_header(each.records) for data in request.topic_data for each in data.partition_data):
        allowed = request.transactional_id is not None and access.may(_O.WRITE, _R.TRANSACTIONAL_ID, request.transactional_id)
        if not allowed:
            yield from access.refuse(request, CODES[_R.TRANSACTIONAL_ID])
            return None
    return (yield from topics(_O.WRITE)(request, access))


def _metadata(request: Any, access: Access) -> Slices[Any]:
    everything = request.topics is None or (access.exchange.version == 0 and not request.topics)
    by_id = metadata.by_id(request)
    directory = access.exchange.directory

    access.finish = partial(_seen_metadata, request, everything=everything)
    if everything:
        return request
    kept = copy(request)
    kept.topics, hidden, uncreated = [], [], []
    for topic in metadata.distinct(request):
        yield from access.pause()
        name = directory.topic_name(topic.topic_id) if by_id else topic.name
        if name is not None and not access.may(_O.DESCRIBE, _R.TOPIC, name):
            hidden.append(topic)
        elif name is not None and not _may_be_made(name, request, access):
            uncreated.append(topic)
        else:
            kept.topics.append(topic)
    if hidden or uncreated:
        found: Any = response_class(access.exchange.api_key)

        def unseen(topic: Any) -> Any:
            return _unseen(found, None, topic.topic_id) if by_id else _unseen(found, topic.name)

        made = yield from mapped(unseen, (*uncreated, *hidden), access.pause)
        access.refused = found(brokers=[], topics=made)
    if not kept.topics:  # in version 0 an empty list means all topics
        access.finish = partial(_seen_metadata, request, unasked=True)
    return kept


def _seen_metadata(
    request: Any, response: Any, access: Access, *, everything: bool = False, unasked: bool = False
) -> Slices[None]:
    """Removes the topics that the client may not see. If the request asks for the allowed operations, adds them to the
    remaining topics."""
    if unasked:
        response.topics = []
    elif everything:
        may = partial(access.may, _O.DESCRIBE, _R.TOPIC, asked=False)
        response.topics = yield from access.only(response.topics, lambda topic: may(topic.name))
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            yield from access.pause()
            if topic.name is not None and topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                topic.topic_authorized_operations = access.operations(_R.TOPIC, topic.name)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = access.cluster_operations()


def _may_be_made(name: str, request: Any, access: Access) -> bool:
    """Tells whether the client may name this topic. The client may not do so if its request would create the topic, and the
    client may not create topics."""
    cluster = access.exchange.cluster
    if name in cluster.topics or not (request.allow_auto_topic_creation and cluster.configs.value("auto.create.topics.enable")):
        return True
    return access.may(_O.CREATE, _R.CLUSTER, asked=False) or access.may(_O.CREATE, _R.TOPIC, name)


def _unseen(response: Any, name: str | None, topic_id: bytes = ZERO_UUID) -> Any:
    """Returns the entry for a topic that the client may not see. The entry is for a response to Metadata or
    DescribeTopicPartitions. The entry has no id if the request names the topic by name.
    """
    made = next(field.spec[0] for field in response.__wire__ if field.name == "topics")
    return made(error_code=CODES[_R.TOPIC], name=name, topic_id=topic_id, partitions=[])


def _describe_topic_partitions(request: Any, access: Access) -> Slices[Any]:
    everything = not request.topics
    after = "" if request.cursor is None else request.cursor.topic_name
    named_topics = access.exchange.cluster.topics if everything else [topic.name for topic in request.topics]
    wanted = [name for name in named_topics if name >= after]
    seen = yield from access.only(wanted, partial(access.may, _O.DESCRIBE, _R.TOPIC, asked=not everything))
    kinds = next(field.spec[0] for field in type(request).__wire__ if field.name == "topics")
    kept = copy(request)
    kept.topics = [kinds(name=name) for name in seen]
    known = frozenset(seen)
    if after not in known:
        kept.cursor = None
    found: Any = response_class(access.exchange.api_key)
    if not everything:
        unknown = [name for name in wanted if name not in known]
        made = yield from mapped(partial(_unseen, found), unknown, access.pause)
        access.refused = found(topics=made) if made or not kept.topics else None
    elif not seen:
        access.refused = found(topics=[])

    def finish(response: Any, access: Access) -> Slices[None]:
        for topic in response.topics:
            yield from access.pause()
            topic.topic_authorized_operations = access.operations(_R.TOPIC, topic.name)

    access.finish = finish
    return kept if kept.topics else None


def _create_topics(request: Any, access: Access) -> Slices[Any]:
    times = Counter(topic.name for topic in request.topics)
    if access.may(_O.CREATE, _R.CLUSTER, asked=False):
        kept = request
    else:

        def allowed(topic: Any) -> bool:
            # The handler refuses a topic that is named twice, and the metadata topic.
            special = times[topic.name] > 1 or topic.name == "__cluster_metadata"
            return special or access.may(_O.CREATE, _R.TOPIC, topic.name)

        kept, refused = yield from access.divide(request, "topics", allowed)
        if kept is not None and is_late(kept, access.exchange):
            return request
        if refused:
            yield from access.refuse(_with(request, "topics", refused), CODES[_R.TOPIC], "Authorization failed.")

    def finish(response: Any, access: Access) -> Slices[None]:
        for topic in response.topics:
            yield from access.pause()
            if not topic.error_code and not access.may(_O.DESCRIBE_CONFIGS, _R.TOPIC, topic.name, asked=False):
                topic.topic_config_error_code = CODES[_R.TOPIC]
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []

    access.finish = finish
    return kept


def _create_partitions(request: Any, access: Access) -> Slices[Any]:
    """The handler refuses a topic that is named twice, even if the client may not alter this topic. If any other topic reaches
    the handler too late, the handler refuses the whole request."""
    times = Counter(topic.name for topic in request.topics)
    kept, refused = yield from access.divide(
        request, "topics", lambda topic: times[topic.name] > 1 or access.may(_O.ALTER, _R.TOPIC, topic.name)
    )
    if kept is not None and is_late(kept, access.exchange):
        return request
    if refused:
        yield from access.refuse(_with(request, "topics", refused), CODES[_R.TOPIC])
    return kept


def _delete_topics(request: Any, access: Access) -> Slices[Any]:
    if access.may(_O.DELETE, _R.CLUSTER, asked=False) or delete_topics.refuses_whole(request, access.exchange):
        return request
    directory, cluster = access.exchange.directory, access.exchange.cluster
    attribute = "topics" if request.topics else "topic_names"
    unclear = delete_topics.unclear(getattr(request, attribute), access.exchange)
    unnamed: set[bytes] = set()

    def allowed(topic: Any) -> bool:
        by_id = not isinstance(topic, str) and topic.name is None
        name = topic if isinstance(topic, str) else topic_name(topic, directory)
        if name is None or unclear(topic) or access.may(_O.DELETE, _R.TOPIC, name):
            return True
        seen = access.may(_O.DESCRIBE, _R.TOPIC, name)
        if by_id and not seen:
            unnamed.add(topic.topic_id)
        return not by_id and seen and name not in cluster.topics  # an unknown topic that the client may describe

    kept, refused = yield from access.divide(request, attribute, allowed)
    if refused:
        yield from access.refuse(_with(request, attribute, refused), CODES[_R.TOPIC], MESSAGES[_R.TOPIC])
        for result in access.refused.responses:
            yield from access.pause()
            if result.topic_id != ZERO_UUID:
                result.name = None if result.topic_id in unnamed else directory.topic_name(result.topic_id)
    return kept


def _configs(operation: Operation) -> Rule:
    alters = operation == _O.ALTER_CONFIGS

    def rule(request: Any, access: Access) -> Slices[Any]:
        def kind_of(resource: Any) -> tuple[ResourceType, str]:
            kind = RESOURCES_OF_CONFIGS.get(resource.resource_type, _R.CLUSTER)
            return kind, CLUSTER_NAME if kind == _R.CLUSTER else resource.resource_name

        release = access.exchange.cluster.configs.release
        if not alters and configs.refuses_whole(request, access.exchange):
            return request
        early = configs.EarlyRefusals(request, access.exchange) if alters else None
        wordless = {LOGGERS, BROKERS} if ASKS_ABOUT_BROKERS_FIRST.of(release) else {LOGGERS}

        def admits(resource: Any) -> bool:  # the handler refuses a kind of resource that the release does not have
            known = has_settings(resource.resource_type, release)
            exempt = not known or (early is not None and early.refuses(resource))
            return exempt or access.may(operation, *kind_of(resource))

        kept, refused = yield from access.divide(request, "resources", admits)
        if refused:
            yield from access.refuse(_with(request, "resources", refused), CODES[_R.CLUSTER])
            responses = access.refused.responses if alters else access.refused.results
            for resource, response in zip(refused, responses, strict=True):
                yield from access.pause()
                kind = kind_of(resource)[0]
                message = None if alters and resource.resource_type in wordless else MESSAGES[kind]
                response.error_code, response.error_message = CODES[kind], message
        return kept if early is None or kept is None else early.prepared(kept)

    return rule


def _find_coordinator(request: Any, access: Access) -> Slices[Any]:
    kinds = {0: _R.GROUP, 1: _R.TRANSACTIONAL_ID}
    if request.key_type == SHARE and access.exchange.version >= 6:
        return (yield from CLUSTER_ACTION(request, access))
    if request.key_type not in kinds:
        return request
    kind = kinds[request.key_type]
    one, several = whole(_O.DESCRIBE, kind, "key", MESSAGES[kind]), each(_O.DESCRIBE, kind, "coordinator_keys")
    return (yield from (one if access.exchange.version < 4 else several)(request, access))


def _described_groups(attribute: str) -> Rule:
    divided = each(_O.DESCRIBE, _R.GROUP, attribute)

    def rule(request: Any, access: Access) -> Slices[Any]:
        def finish(response: Any, access: Access) -> Slices[None]:
            seen = []
            for group in response.groups:
                yield from access.pause()
                if request.include_authorized_operations and not group.error_code:
                    group.authorized_operations = access.operations(_R.GROUP, group.group_id)
                seen.append((yield from _seen(group, access)))
            response.groups = seen

        access.finish = finish
        return (yield from divided(request, access))

    return rule


def _seen(group: Any, access: Access) -> Slices[Any]:
    """Returns a described group. If a group is not classic and has a topic that the client may not describe, only the group's
    name remains."""
    assigned = [
        part.topic_name
        for member in group.members
        if hasattr(member, "assignment")  # Kafka does not read the assignments of classic groups
        for held in (member.assignment, getattr(member, "target_assignment", None))
        for part in getattr(held, "topic_partitions", ())
    ]
    hidden = "The group has described topic(s) that the client is not authorized to describe."
    if getattr(group, "topology", None) is not None:
        assigned = topics_of(group.topology)
        hidden = "The described group uses topics that the client is not authorized to describe."
    if (yield from access.may_all(_O.DESCRIBE, _R.TOPIC, dict.fromkeys(assigned))):
        return group
    return type(group)(group_id=group.group_id, error_code=CODES[_R.TOPIC], error_message=hidden, members=[])


def _only_seen(kind: ResourceType, attribute: str, field: str, *, asked: bool = True) -> Finish:
    """Removes from a list of the response those resources that the client may not describe."""

    def finish(response: Any, access: Access) -> Slices[None]:
        may = partial(access.may, _O.DESCRIBE, kind, asked=asked)
        seen = yield from access.only(getattr(response, attribute), lambda each: may(getattr(each, field)))
        setattr(response, attribute, seen)

    return finish


def finished(finish: Finish) -> Rule:
    """Allows each request; `finish` then removes from its response what the client may not see."""

    def rule(request: Any, access: Access) -> Slices[Any]:
        access.finish = finish
        yield from ()
        return request

    return rule


def _describe_transactions(request: Any, access: Access) -> Slices[Any]:
    def finish(response: Any, access: Access) -> Slices[None]:
        for state in response.transaction_states:
            yield from _only_seen(_R.TOPIC, "topics", "topic")(state, access)

    access.finish = finish
    kept = yield from each(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "transactional_ids")(request, access)
    for state in () if access.refused is None else access.refused.transaction_states:
        state.producer_id = state.producer_epoch = 0
    return kept


def _offsets(request: Any, access: Access) -> Slices[Any]:
    """Checks the topics as `KafkaApis.handleOffsetFetchRequest` and `handleDescribeShareGroupOffsetsRequest` do. If the client
    asks for all topics, topics that the client may not see are left out. If the client names such a topic, the topic is
    refused, unless the group has an error.
    """
    by_group = access.exchange.version >= 8 or not isinstance(request, OffsetFetchRequest)
    groups = request.groups if by_group else [request]
    allowed = yield from mapped(lambda each: access.may(_O.DESCRIBE, _R.GROUP, each.group_id), groups, access.pause)
    known = [group for group, seen in zip(groups, allowed, strict=True) if seen]
    if len(known) < len(groups):
        unknown = [group for group, seen in zip(groups, allowed, strict=True) if not seen]
        yield from access.refuse(_with(request, "groups", unknown) if by_group else request, CODES[_R.GROUP])
        if by_group or access.exchange.version >= 2:
            for described in access.refused.groups if by_group else [access.refused]:
                described.error_code, described.topics = CODES[_R.GROUP], []
        if not known:
            return None
    divided = []
    for group in known:
        yield from access.pause()
        divided.append((yield from _topics_to_see(group, access)))
    hidden: Any = [group for _, group in divided]
    hidden = yield from _unseen_offsets(_with(request, "groups", hidden) if by_group else hidden[0], access)

    def finish(response: Any, access: Access) -> Slices[None]:
        all_described = response.groups if by_group else [response]
        for described, group, more in zip(all_described, known, hidden.groups if by_group else [hidden], strict=True):
            yield from access.pause()
            if group.topics is None:
                described.topics = (yield from _topics_to_see(described, access))[0].topics
            elif not described.error_code:
                described.topics += more.topics
        if access.refused is not None:  # put handled and refused groups in the order of the request
            handled, refused = iter(all_described), iter(access.refused.groups)
            response.groups, access.refused = [next(handled if seen else refused) for seen in allowed], None

    access.finish = finish
    return _with(request, "groups", [group for group, _ in divided]) if by_group else divided[0][0]


def _unseen_offsets(request: Any, access: Access) -> Slices[Any]:
    """Returns the response for topics that the client may not see; the request has only such topics."""
    response: Any = yield from refuse_in_slices(request, CODES[_R.TOPIC], access.exchange, access.pause)
    yield from access.tell(response, MESSAGES[_R.TOPIC])
    if isinstance(response, DescribeShareGroupOffsetsResponse):
        for part in [part for group in response.groups for topic in group.topics for part in topic.partitions]:
            part.start_offset = -1
    return response


def _topics_to_see(group: Any, access: Access) -> Slices[tuple[Any, Any]]:
    """Makes two groups from a group of a request or a response: the first has the topics that the client may see, and the
    second has the other topics."""
    directory = access.exchange.directory
    may = cache(lambda name: name is None or access.may(_O.DESCRIBE, _R.TOPIC, name))
    kept: list[Any] = []
    hidden: list[Any] = []
    for topic in group.topics or ():
        yield from access.pause()
        (kept if may(topic_name(topic, directory)) else hidden).append(topic)
    return (group if group.topics is None else _with(group, "topics", kept)), _with(group, "topics", hidden)


def _init_producer_id(request: Any, access: Access) -> Slices[Any]:
    if request.transactional_id is not None:
        rules = [whole(_O.WRITE, _R.TRANSACTIONAL_ID, "transactional_id")]
        if request.enable2_pc:
            rules.append(whole(_O.TWO_PHASE_COMMIT, _R.TRANSACTIONAL_ID, "transactional_id"))
        return (yield from both(*rules)(request, access))
    exchange = access.exchange
    if access.may(_O.IDEMPOTENT_WRITE, _R.CLUSTER, asked=False):
        return request
    if exchange.engine.authorizer.may_some(exchange.connection, _O.WRITE, _R.TOPIC):
        return request
    return (yield from access.refuse(request, CODES[_R.CLUSTER]))


def _not_a_controller(request: Any, exchange: Exchange) -> Message:
    """The response of a broker with ZooKeeper names each partition."""
    from wirebroker.apis import controller_requests  # only releases with ZooKeeper need this module

    return controller_requests.refuse(request, CODES[_R.CLUSTER], exchange)


def _add_partitions_to_txn(request: Any, access: Access) -> Slices[Any]:
    if access.exchange.version >= 4:
        return (yield from whole(_O.CLUSTER_ACTION, _R.CLUSTER)(request, access))
    if not access.may(_O.WRITE, _R.TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return (yield from access.refuse(request, CODES[_R.TRANSACTIONAL_ID]))
    directory, cluster = access.exchange.directory, access.exchange.cluster

    def may(name: str) -> bool:
        return name not in INTERNAL_TOPICS and access.may(_O.WRITE, _R.TOPIC, name)

    denied = yield from _denied(request, access, may)
    if not denied:
        return request

    def code_of(topic: str, index: int | None) -> ErrorCode:
        if topic in denied:
            return CODES[_R.TOPIC]
        known = cluster.topics.get(topic)
        found = known is not None and index is not None and known.partition(index) is not None
        return ErrorCode.OPERATION_NOT_ATTEMPTED if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    for code in (CODES[_R.TOPIC], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED):
        wanted = lambda topic, index, code=code: code_of(topic, index) == code  # noqa: E731
        part = yield from part_in_slices(request, wanted, directory, access.pause)
        if any(getattr(part, name) for name in lists(type(part))):
            yield from access.refuse(part, code)
    return None


def _subscription(request: Any, access: Access) -> Slices[Any]:
    """A member must be allowed to describe all topics of its subscription.

    Kafka validates the topics of a topology before it checks DESCRIBE, so the handler refuses invalid names even for a client
    that may not describe any topic.
    """
    if isinstance(request, StreamsGroupHeartbeatRequest):
        names = topics_of(request.topology) if request.topology is not None else []
        if any(name in INTERNAL_TOPICS or topic_name_error(name) is not None for name in names):
            return request
    else:
        names = list(dict.fromkeys(request.subscribed_topic_names or ()))
    if (yield from access.may_all(_O.DESCRIBE, _R.TOPIC, names)):
        return request
    return access.refuse_all(_R.TOPIC)


def _describe_cluster(request: Any, access: Access) -> Slices[Any]:
    def finish(response: Any, access: Access) -> Slices[None]:
        if request.include_cluster_authorized_operations and not response.error_code:
            response.cluster_authorized_operations = access.cluster_operations()
        yield from ()

    access.finish = finish
    yield from ()
    return request


def _no_quotas(request: Any, exchange: Exchange) -> Message:
    return DescribeClientQuotasResponse(error_code=CODES[_R.CLUSTER], error_message=None, entries=None)


def _nameless_users(request: Any, exchange: Exchange) -> Message:
    code = CODES[_R.CLUSTER]
    nameless = DescribeUserScramCredentialsResult(user="", error_code=code, error_message=None, credential_infos=[])
    results = [nameless for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=results)


GROUP_READ = whole(_O.READ, _R.GROUP, "group_id")
CLUSTER_ACTION = whole(_O.CLUSTER_ACTION, _R.CLUSTER, message=MESSAGES[_R.CLUSTER])
CHANGES_VOTERS = whole(_O.ALTER, _R.CLUSTER, message=MESSAGES[_R.CLUSTER])
TRANSACTION_WRITE = whole(_O.WRITE, _R.TRANSACTIONAL_ID, "transactional_id")
RULES: dict[str, Rule] = {
    "Produce": _produce,
    "ListOffsets": unless(log_offsets.refuses_whole, topics(_O.DESCRIBE)),
    "Metadata": unless(metadata.refused_whole, _metadata),
    "OffsetCommit": both(GROUP_READ, topics(_O.READ)),
    "OffsetFetch": _offsets,
    "FindCoordinator": _find_coordinator,
    "JoinGroup": GROUP_READ,
    "Heartbeat": GROUP_READ,
    "LeaveGroup": GROUP_READ,
    "SyncGroup": GROUP_READ,
    "DescribeGroups": _described_groups("groups"),
    "ListGroups": suffices(_O.DESCRIBE, finished(_only_seen(_R.GROUP, "groups", "group_id", asked=False))),
    "CreateTopics": _create_topics,
    "DeleteTopics": _delete_topics,
    "DeleteRecords": topics(_O.DELETE),
    "InitProducerId": _init_producer_id,
    "OffsetForLeaderEpoch": suffices(_O.CLUSTER_ACTION, topics(_O.DESCRIBE)),
    "AddPartitionsToTxn": _add_partitions_to_txn,
    "AddOffsetsToTxn": both(TRANSACTION_WRITE, GROUP_READ),
    "EndTxn": TRANSACTION_WRITE,
    "WriteTxnMarkers": suffices(_O.ALTER, whole(_O.CLUSTER_ACTION, _R.CLUSTER)),
    "TxnOffsetCommit": both(TRANSACTION_WRITE, GROUP_READ, topics(_O.READ)),
    "DescribeAcls": unless(acls.has_zero, whole(_O.DESCRIBE, _R.CLUSTER)),
    "CreateAcls": unless(acls.has_zero, whole(_O.ALTER, _R.CLUSTER)),
    "DeleteAcls": unless(acls.has_zero, whole(_O.ALTER, _R.CLUSTER)),
    "DescribeConfigs": _configs(_O.DESCRIBE_CONFIGS),
    "AlterConfigs": _configs(_O.ALTER_CONFIGS),
    "IncrementalAlterConfigs": _configs(_O.ALTER_CONFIGS),
    "AlterReplicaLogDirs": whole(_O.ALTER, _R.CLUSTER),
    "DescribeLogDirs": whole(_O.DESCRIBE, _R.CLUSTER),
    "CreatePartitions": _create_partitions,
    "DeleteGroups": _delete_groups,
    "ElectLeaders": whole(_O.ALTER, _R.CLUSTER),
    "AlterPartitionReassignments": whole(_O.ALTER, _R.CLUSTER),
    "ListPartitionReassignments": whole(_O.DESCRIBE, _R.CLUSTER),
    "OffsetDelete": both(whole(_O.DELETE, _R.GROUP, "group_id"), topics(_O.READ)),
    "DescribeQuorum": whole(_O.DESCRIBE, _R.CLUSTER),
    "DescribeCluster": _describe_cluster,
    "DescribeProducers": topics(_O.READ, MESSAGES[_R.TOPIC]),
    "DescribeTransactions": _describe_transactions,
    "ListTransactions": finished(_only_seen(_R.TRANSACTIONAL_ID, "transaction_states", "transactional_id")),
    "ConsumerGroupHeartbeat": both(GROUP_READ, _subscription),
    "ConsumerGroupDescribe": _described_groups("group_ids"),
    "DescribeTopicPartitions": unless(describe_topic_partitions.has_wrong_cursor, _describe_topic_partitions),
    "ListConfigResources": whole(_O.DESCRIBE_CONFIGS, _R.CLUSTER),
    "ShareGroupHeartbeat": both(GROUP_READ, _subscription),
    "StreamsGroupHeartbeat": both(GROUP_READ, _subscription),
    "StreamsGroupDescribe": _described_groups("group_ids"),
    "StreamsGroupTopologyDescriptionUpdate": GROUP_READ,
    "ShareGroupDescribe": _described_groups("group_ids"),
    "ShareFetch": GROUP_READ,
    "ShareAcknowledge": GROUP_READ,
    "InitializeShareGroupState": CLUSTER_ACTION,
    "ReadShareGroupState": CLUSTER_ACTION,
    "WriteShareGroupState": CLUSTER_ACTION,
    "DeleteShareGroupState": CLUSTER_ACTION,
    "ReadShareGroupStateSummary": CLUSTER_ACTION,
    "DescribeShareGroupOffsets": _offsets,
    "AlterShareGroupOffsets": both(GROUP_READ, _share_offsets),
    "DeleteShareGroupOffsets": both(whole(_O.DELETE, _R.GROUP, "group_id"), _share_offsets),
    "DescribeUserScramCredentials": whole(_O.DESCRIBE, _R.CLUSTER, response=_nameless_users),
    "AlterUserScramCredentials": whole(_O.ALTER, _R.CLUSTER),
    "UpdateFeatures": whole(_O.ALTER, _R.CLUSTER),
    **dict.fromkeys(IN_ZOOKEEPER, whole(_O.CLUSTER_ACTION, _R.CLUSTER, response=_not_a_controller)),
    "UnregisterBroker": whole(_O.ALTER, _R.CLUSTER),
    "UnregisterController": whole(_O.ALTER, _R.CLUSTER),
    "AddRaftVoter": CHANGES_VOTERS,
    "RemoveRaftVoter": CHANGES_VOTERS,
    "DescribeClientQuotas": whole(_O.DESCRIBE_CONFIGS, _R.CLUSTER, response=_no_quotas),
    "AlterClientQuotas": whole(_O.ALTER_CONFIGS, _R.CLUSTER, message=MESSAGES[_R.CLUSTER]),
}
"""The rules by API."""
OPEN = {
    "ApiVersions": "a client may ask for the versions without a permission",
    "SaslHandshake": "a client has no principal before its login",
    "SaslAuthenticate": "a client has no principal before its login",
    "Fetch": "the handler checks each topic of the session, and checks followers",
    "CreateDelegationToken": "each client may create tokens for itself; the handler checks other owners",
    "RenewDelegationToken": "the handler knows the token's owner and renewers",
    "ExpireDelegationToken": "the handler knows the token's owner and renewers",
    "DescribeDelegationToken": "the handler asks about each token",
    "GetTelemetrySubscriptions": "clients may send metrics without a permission",
    "PushTelemetry": "clients may send metrics without a permission",
}
"""The APIs whose requests are handled without an earlier check of rights, each with the reason."""


def admit(request: Message, access: Access) -> Slices[Message | None]:
    """Returns the part of a request that the client is authorized for, or None if every part is forbidden.

    Raises LookupError for an API that has no rule and is not listed as open.
    """
    api = api_name(access.exchange.api_key)
    rule = RULES.get(api)
    if rule is None and api not in OPEN:
        raise LookupError(f"{api} has no rule in permissions.py, and is not listed there as open")
    left: Message | None = request if rule is None else (yield from rule(request, access))
    return left
