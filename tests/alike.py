"""Compares two clusters as a client sees them. `answers` asks a cluster, and `differences` compares the responses of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from kafkawire.messages.describe_acls import DescribeAclsRequest
from kafkawire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkawire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kafkawire.registry import api_name
from wirebroker.client.brokers import Brokers
from wirebroker.client.settings import Access
from wirebroker.core.config_resources import ResourceType
from wirebroker_tools.learning.asking import Asked, pieces
from wirebroker_tools.learning.sections import OF_ITS_LISTENERS, OF_ITS_MACHINE

Answers = dict[str, dict[str, Any]]


class Difference(NamedTuple):
    """A fact about which the two clusters differ, and the API whose response has the fact."""

    api: str
    place: str
    one: Any
    other: Any


def answers(bootstrap: str, access: Access | None = None) -> Answers:
    """Returns the facts that a cluster tells about itself, by API and then by name. Addresses, generated ids and secrets are
    left out."""
    with closing(Brokers(access)) as brokers:
        asked = Asked(brokers, bootstrap, lambda *_: None)
        told: Answers = {"ApiVersions": _versions(asked), "Metadata": _metadata(asked), "DescribeConfigs": _configs(asked)}
        acls = asked.request(DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None, host_filter=None,
            operation=1, permission_type=1,
        ))  # fmt: skip
        told["DescribeAcls"] = {"error": acls.error_code} | {
            f"{each.principal} {each.host} {each.operation} {each.permission_type} on {of.resource_type} {of.resource_name} "
            f"{of.pattern_type}": True
            for of in acls.resources
            for each in of.acls
        }
        quotas = asked.request(DescribeClientQuotasRequest(components=[], strict=False))
        told["DescribeClientQuotas"] = {
            str(sorted((part.entity_type, part.entity_name) for part in each.entity)): {
                one.key: one.value for one in each.values
            }
            for each in quotas.entries or ()
        }
        users = asked.request(DescribeUserScramCredentialsRequest(users=None))
        told["DescribeUserScramCredentials"] = {
            each.user: sorted((info.mechanism, info.iterations) for info in each.credential_infos) for each in users.results
        }
        return told


def _versions(asked: Asked) -> dict[str, Any]:
    told = asked.versions
    found: dict[str, Any] = {api_name(each.api_key): (each.min_version, each.max_version) for each in told.api_keys}
    found |= {f"feature {each.name}": (each.min_version, each.max_version) for each in told.supported_features}
    return found | {f"level of {each.name}": each.max_version_level for each in told.finalized_features}


def _metadata(asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {f"rack of broker {each.node_id}": each.rack for each in asked.metadata.brokers}
    for topic in asked.metadata.topics:
        found[f"topic {topic.name}"] = topic.is_internal
        found |= {
            f"{topic.name}-{each.partition_index}": (each.leader_id, list(each.replica_nodes)) for each in topic.partitions
        }
    return found


def _configs(asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node_id in asked.addresses:
        found |= _of(asked, ResourceType.BROKER, [str(node_id)], node_id)
    found |= _of(asked, ResourceType.BROKER, [""], min(asked.addresses))
    for piece in pieces([topic.name or "" for topic in asked.metadata.topics]):
        found |= _of(asked, ResourceType.TOPIC, list(piece), min(asked.addresses))
    return found


def _of(asked: Asked, kind: ResourceType, names: list[str], node_id: int) -> dict[str, Any]:
    resources = [DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names]
    results = asked.request(DescribeConfigsRequest(resources=resources, include_synonyms=True), node_id).results
    return {
        f"{kind.name} {of.resource_name}: {each.name}": (
            each.value, each.config_source, each.read_only, each.is_sensitive, each.config_type,
            [(one.name, one.value, one.source) for one in each.synonyms],
        )
        for of in results
        for each in of.configs
        if not (each.is_sensitive or each.name in OF_ITS_MACHINE or each.name.startswith(OF_ITS_LISTENERS))
    }  # fmt: skip


def differences(one: Answers, other: Answers) -> Iterator[Difference]:
    """Yields each fact that differs between the two clusters."""
    for api, held in one.items():
        told: Mapping[str, Any] = other[api]
        for place in [*held, *(place for place in told if place not in held)]:
            if held.get(place) != told.get(place):
                yield Difference(api, place, held.get(place), told.get(place))
