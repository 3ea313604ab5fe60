"""Reads the defaults of all settings from a broker, for a test and for scripts/record oracle --defaults."""

from __future__ import annotations

from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult
from wirebroker.client.wire import WireClient

RESOURCES = {"broker": (4, "1"), "topic": (2, "t"), "group": (32, "g"), "client metrics": (16, "m")}
DEFAULT = 5
"""DescribeConfigs returns a setting's default as the synonym with this source."""


def default_of(entry: DescribeConfigsResourceResult) -> str | None:
    """Returns the default of a setting. None means that the default is null, or that the setting has no default."""
    return next((synonym.value for synonym in entry.synonyms if synonym.source == DEFAULT), None)


def defaults(client: WireClient) -> dict[str, dict[str, str | None]]:
    """Returns the default of each setting. The keys are the kind of resource and the setting's name. The topic `t` must
    exist.
    """
    asked = [DescribeConfigsResource(kind, name, None) for kind, name in RESOURCES.values()]
    response = client.request(DescribeConfigsRequest(resources=asked, include_synonyms=True, include_documentation=False), 4)
    return {
        named: {each.name: default_of(each) for each in told.configs}
        for named, told in zip(RESOURCES, response.results, strict=True)
    }
