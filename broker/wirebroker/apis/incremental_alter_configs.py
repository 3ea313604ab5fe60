"""IncrementalAlterConfigs, versions 0–1.

Changes single settings of topics, brokers (the empty name means all brokers), groups and client metrics. A change sets a value,
deletes a value, adds elements to a list, or removes elements from a list. If one change of a resource is refused, all changes
of this resource are refused. Only some settings of a broker can change while it runs.
"""

from __future__ import annotations

from kafkawire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wirebroker.apis.alter_configs import alter_resources
from wirebroker.apis.exchange import Exchange, Steps


def handle(request: IncrementalAlterConfigsRequest, exchange: Exchange) -> Steps:
    return alter_resources(request, exchange, IncrementalAlterConfigsResponse, AlterConfigsResourceResponse, replaces=False)
