"""IncrementalAlterConfigs, versions 0–1.

Changes single settings of topics, brokers (the empty name means all brokers), groups and client metrics. A change sets a value,
deletes a value, adds elements to a list, or removes elements from a list. If one change of a resource is refused, all changes
of this resource are refused. Only some settings of a broker can change while it runs.

AlterConfigs, versions 0–2.

The older form of IncrementalAlterConfigs: the given settings replace all settings of the resource.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.messages import incremental_alter_configs as incremental
from kafkawire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from wirebroker.apis.describe_configs import told_kind
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.apis.metadata_changes import MetadataChanges
from wirebroker.common.slices import Pause, mapped
from wirebroker.core.acls import has_settings
from wirebroker.core.config_resources import REPEATED, Alteration, Change, Operation, ResourceType, repeated
from wirebroker.core.refusals import DONE, MOST_RECORDS, TOO_LARGE, Refusal
from wirebroker.core.releases.changes import since, until
from wirebroker.requests.effects import Outcome

REPEATS_ALTERED_KINDS = since("2.6", "AlterConfigs repeats the number of an unknown resource type")
READS_NULL_SETTINGS = until("2.0", "the broker closes the connection after an AlterConfigs with a null value").then(
    "2.6", True, "an AlterConfigs with a null value gets a response"
)


def incremental_alter_configs(request: incremental.IncrementalAlterConfigsRequest, exchange: Exchange) -> Steps:
    made = incremental.IncrementalAlterConfigsResponse
    return _alter(request, exchange, made, incremental.AlterConfigsResourceResponse, replaces=False)


def alter_configs(request: AlterConfigsRequest, exchange: Exchange) -> Steps | Outcome:
    if not READS_NULL_SETTINGS.of(exchange.cluster.configs.release) and _has_null(request):
        return exchange.close("this release of Kafka closes the connection for a setting without a value")
    return _alter(request, exchange, AlterConfigsResponse, AlterConfigsResourceResponse, replaces=True)


def _alter(
    request: Any, exchange: Exchange, response: Callable[..., Message], result: Callable[..., Any], *, replaces: bool
) -> Steps:
    """Change the settings that a request names; `response` and `result` are the message classes of the API."""
    release = exchange.cluster.configs.release
    repeats = REPEATS_ALTERED_KINDS.of(release) or not replaces

    def failed(resource: Any, refusal: Refusal) -> Any:
        name, kind = resource.resource_name, resource.resource_type
        told = told_kind(kind, release, repeats=repeats)
        return result(error_code=refusal.code, error_message=refusal.message, resource_type=told, resource_name=name)

    if exchange.cluster.configs.release.has_zookeeper:
        if whole := _fails_whole(request, exchange, replaces=replaces):
            return response(responses=[failed(each, whole) for each in request.resources])
        if not replaces:  # if a resource is named twice, its last entry counts
            request.resources = list({(each.resource_type, each.resource_name): each for each in request.resources}.values())
    results: list[Any] = []
    changes = MetadataChanges(exchange, results)
    alterations: list[Alteration] = yield from mapped(
        lambda each: _alteration(each, exchange, replaces=replaces), request.resources, changes.pause
    )
    twice = repeated((each.kind, each.name) for each in alterations)
    sent = [each for each in alterations if (each.kind, each.name) not in twice]
    whole = yield from _refused_by_controller(sent, changes.pause, writes=not request.validate_only)
    for alteration in alterations:
        yield from changes.pause()
        kind, name = alteration.kind, alteration.name
        if (kind, name) in twice:
            refusal: Refusal | None = REPEATED
        else:
            refusal = alteration.alter(validate_only=request.validate_only, whole=whole)
        code, message = refusal or DONE
        told = told_kind(kind, release, repeats=repeats)
        results.append(result(error_code=code, error_message=message, resource_type=told, resource_name=name))
    changes.write_down()
    return response(responses=results)


def _alteration(resource: Any, exchange: Exchange, *, replaces: bool) -> Alteration:
    """Returns the changes to a resource. They are already made if the client's rights were checked (`EarlyRefusals`)."""
    if isinstance(resource, Alteration):
        return resource
    kind, name = resource.resource_type, resource.resource_name
    wanted = [Change(each.name, getattr(each, "config_operation", Operation.SET), each.value) for each in resource.configs]
    return Alteration(exchange.cluster, exchange.node_id, kind, name, wanted, replaces=replaces)


def _refused_by_controller(
    alterations: list[Alteration], pause: Pause, *, writes: bool
) -> Generator[None, Any, Refusal | None]:
    """Returns the error with which Kafka's controller refuses all these alterations, or None. The controller makes all valid
    changes of a request or none, so it refuses all if it fails at one, or would have to write too many records."""
    many, records = sum(each.most_records for each in alterations) > MOST_RECORDS, 0
    for alteration in alterations:
        yield from pause()
        if alteration.fails_controller or (writes and alteration.cannot_be_written):
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        records += alteration.records if many else 0
        if records > MOST_RECORDS:
            return TOO_LARGE
    return None


class EarlyRefusals:
    """Tells which resources of a request the receiving broker refuses before anybody looks at the client's rights."""

    def __init__(self, request: Any, exchange: Exchange) -> None:
        self._exchange = exchange
        self._replaces = isinstance(request, AlterConfigsRequest)
        self._checks = not exchange.cluster.configs.release.has_zookeeper
        self._twice = repeated((each.resource_type, each.resource_name) for each in request.resources)
        self._made: dict[int, Alteration] = {}
        """The changes to each resource, by the resource's identity. A resource can have a million changes, so they are made
        once for the rights and for the handler."""

    def refuses(self, resource: Any) -> bool:
        if not self._checks:
            return False
        if (resource.resource_type, resource.resource_name) in self._twice:
            return True
        made = self._made[id(resource)] = _alteration(resource, self._exchange, replaces=self._replaces)
        return made.is_refused_early

    def prepared(self, request: Any) -> Any:
        """Returns a copy of the request that has the changes of a resource in place of the resource, if they are made."""
        changed = copy(request)
        changed.resources = [self._made.get(id(each), each) for each in request.resources]
        return changed


def _has_null(request: Any) -> bool:
    return any(each.value is None for resource in request.resources for each in resource.configs)


def _fails_whole(request: Any, exchange: Exchange, *, replaces: bool) -> Refusal | None:
    """Returns the error with which a broker with ZooKeeper refuses the whole request, or None. The broker refuses null values,
    and kinds of resources that cannot be altered."""
    if replaces and _has_null(request):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    loggers = has_settings(ResourceType.BROKER_LOGGER, exchange.cluster.configs.release)
    for kind in (each.resource_type for each in request.resources):
        if loggers and kind == ResourceType.BROKER_LOGGER:
            if replaces:
                message = "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"
                return Refusal(ErrorCode.INVALID_REQUEST, message)
        elif kind not in (ResourceType.TOPIC, ResourceType.BROKER):
            return Refusal(ErrorCode.INVALID_REQUEST, "Unexpected resource type UNKNOWN")
    return None
