"""AlterConfigs, versions 0–2.

The older form of IncrementalAlterConfigs: the given settings replace all settings of the resource.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from wirebroker.apis.metadata_changes import CHANGES, MetadataChanges
from wirebroker.core.config_resources import REPEATED, Alteration, Change, Operation, Refusal, repeated
from wirebroker.core.slices import pauses
from wirebroker.exchange import Exchange, Steps


def handle(request: AlterConfigsRequest, exchange: Exchange) -> Steps:
    """Change the settings; the result of each resource."""
    twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses: list[AlterConfigsResourceResponse] = []
    changes, pause = MetadataChanges(responses, exchange), pauses(CHANGES)
    for resource in request.resources:
        if pause():
            changes.write_down()
            yield None
        if (resource.resource_type, resource.resource_name) in twice:
            refusal: Refusal | None = REPEATED
        else:
            refusal = _alteration(resource, exchange).alter(validate_only=request.validate_only)
        responses.append(_answer(resource, refusal or Refusal(ErrorCode.NONE, None)))
    changes.write_down()
    return AlterConfigsResponse(responses=responses)


def _alteration(resource: AlterConfigsResource, exchange: Exchange) -> Alteration:
    changes = [Change(config.name, Operation.SET, config.value) for config in resource.configs]
    kind, name = resource.resource_type, resource.resource_name
    return Alteration(exchange.cluster, exchange.node_id, kind, name, changes, replaces=True)


def _answer(resource: AlterConfigsResource, refusal: Refusal) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
