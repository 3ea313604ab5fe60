"""StreamsGroupTopologyDescriptionUpdate, version 0: a member of a streams group describes the application's topology.

Kafka gives the description to a plugin. If group.streams.topology.description.plugin.class names a class, whatever its name,
this broker keeps the description with the group, as Kafka's InMemoryTopologyDescriptionPlugin does. If the setting is empty,
the response is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages import streams_group_describe as described
from kafkawire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
    TopologyDescriptionNode,
)
from wirebroker.apis.exchange import Exchange
from wirebroker.common.java_texts import trim
from wirebroker.core.groups.modern_heartbeats import unknown_member
from wirebroker.core.metadata_writes import check_texts
from wirebroker.core.refusals import Refusal

SOURCE, PROCESSOR, SINK = 1, 2, 3
NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def handle(request: StreamsGroupTopologyDescriptionUpdateRequest, exchange: Exchange) -> Message:
    refusal = _invalid(request, exchange) or _refused(request, exchange)
    if refusal is not None:
        return exchange.refused(*refusal)
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.NONE)


def _invalid(request: StreamsGroupTopologyDescriptionUpdateRequest, exchange: Exchange) -> Refusal | None:
    if not exchange.engine.groups.streams.keeps_descriptions:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, NO_PLUGIN)
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
        if not trim(value):
            return Refusal(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    code = exchange.engine.groups.coordinator_error(request.group_id, exchange.node_id)
    return Refusal(code) if code else None


def _refused(request: StreamsGroupTopologyDescriptionUpdateRequest, exchange: Exchange) -> Refusal | None:
    """Keep the description, or return the reason why it is refused."""
    group = exchange.engine.groups.streams.find(request.group_id)
    if isinstance(group, Refusal):
        return group
    if request.member_id not in group.members:
        return unknown_member(group, request.member_id)
    epoch = group.topology.epoch if group.topology is not None else -1
    if request.topology_epoch != epoch:
        message = f"Topology epoch {request.topology_epoch} does not match the group's current topology epoch {epoch}."
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    if wrong := _wrong(request.topology_description):
        return Refusal(ErrorCode.INVALID_REQUEST, wrong)
    kept = _kept(request.topology_description)
    check_texts(kept)
    group.describe(kept)
    return None


def _wrong(sent: TopologyDescription) -> str | None:
    nodes = [node for each in sent.subtopologies for node in each.nodes]
    nodes += [node for each in sent.global_stores for node in (each.source, each.processor)]
    unknown = [node.node_type for node in nodes if node.node_type not in (SOURCE, PROCESSOR, SINK)]
    if unknown:
        return f"Unknown topology node type: {unknown[0]}"
    if any((each.source.node_type, each.processor.node_type) != (SOURCE, PROCESSOR) for each in sent.global_stores):
        return "Global store must be composed of a source and a processor node."
    return None


def _kept(sent: TopologyDescription) -> described.TopologyDescription:
    """Returns the description in the form in which StreamsGroupDescribe returns it."""
    return described.TopologyDescription(
        subtopologies=[
            described.TopologyDescriptionSubtopology(subtopology_id=each.subtopology_id, nodes=_nodes(each.nodes))
            for each in sent.subtopologies
        ],
        global_stores=[
            described.TopologyDescriptionGlobalStore(source=source, processor=processor)
            for source, processor in (_nodes((each.source, each.processor)) for each in sent.global_stores)
        ],
    )


def _nodes(sent: Iterable[TopologyDescriptionNode]) -> list[described.TopologyDescriptionNode]:
    """Returns the nodes; fields that do not belong to a node's type are left empty, and repeated names are left out."""
    return [
        described.TopologyDescriptionNode(
            name=node.name, node_type=node.node_type, successors=[*dict.fromkeys(node.successors)],
            source_topics=[*dict.fromkeys(node.source_topics)] if node.node_type == SOURCE else [],
            stores=[*dict.fromkeys(node.stores)] if node.node_type == PROCESSOR else [],
            sink_topic=node.sink_topic if node.node_type == SINK else None,
        )
        for node in sent
    ]  # fmt: skip
