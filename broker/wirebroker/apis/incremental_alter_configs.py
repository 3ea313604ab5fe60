"""IncrementalAlterConfigs, versions 0–1.

Sets, deletes, appends to and subtracts from single settings of topics, brokers (the empty name means all), groups and client
metrics. If one change of a resource is refused, all changes of this resource are refused. Only some settings of a broker can
change while it runs.
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
