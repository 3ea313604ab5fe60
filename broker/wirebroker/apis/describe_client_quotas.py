"""DescribeClientQuotas, versions 0–1.

Returns the quotas that match a filter. Each component of the filter asks for a name, for the default, or for any name of a
type. With `strict` an entity must have exactly the types that the filter names. A filter that contradicts itself gets
INVALID_REQUEST, and an unknown type gets UNSUPPORTED_VERSION (ClientQuotasImage).
"""

from __future__ import annotations

from kafkawire.disk.metadata import QuotaEntity
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from wirebroker.apis.exchange import Exchange
from wirebroker.core.java_order import SMALLEST, hash_order, java_hash
from wirebroker.core.quotas import IN_ZOOKEEPER, IP, STRICT_QUOTAS, entity_kinds
from wirebroker.core.refusals import Refusal
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since

EMPTY_QUOTA_MESSAGES = since("2.8", "if DescribeClientQuotas succeeds, its error message is empty instead of null")

EXACT, DEFAULT, SPECIFIED = range(3)
MATCH_TYPES = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}
Wanted = dict[str, tuple[int, str | None]]


def handle(request: DescribeClientQuotasRequest, exchange: Exchange) -> DescribeClientQuotasResponse:
    release = exchange.cluster.configs.release
    wanted = _wanted(request.components, release)
    if isinstance(wanted, Refusal):
        return DescribeClientQuotasResponse(error_code=wanted.code, error_message=wanted.message, entries=None)
    limits = exchange.cluster.quotas.limits
    matching = [each for each in limits if _matches(each, wanted, strict=request.strict)]
    entries = [_described(each, limits[each], release) for each in exchange.cluster.quotas.in_order(matching)]
    message = "" if EMPTY_QUOTA_MESSAGES.of(release) else None
    return DescribeClientQuotasResponse(error_code=ErrorCode.NONE, error_message=message, entries=entries)


def _wanted(components: list[ComponentData], release: Release) -> Wanted | Refusal:
    """Returns, for each type, the values that the filter matches. If the filter is invalid, returns the reason instead."""
    wanted: Wanted = {}
    if not STRICT_QUOTAS.of(release) and any(_is_unreadable(each) for each in components):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    for each in components:
        kind = each.entity_type
        if not kind:
            return _invalid("Invalid empty entity type.")
        if kind in wanted:
            return _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in entity_kinds(release):
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if not STRICT_QUOTAS.of(release):
            wanted[kind] = each.match_type, each.match if each.match_type == EXACT else None
            continue
        if each.match_type == EXACT and each.match is None:
            return _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if each.match_type in MATCH_TYPES and each.match is not None:
            return _invalid(f"Request specified {MATCH_TYPES[each.match_type]}, but also specified a match string.")
        if each.match_type not in (EXACT, *MATCH_TYPES):
            return _invalid(f"Unknown match type {each.match_type}")
        wanted[kind] = each.match_type, each.match
    if IP in wanted and len(wanted) > 1:
        return _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return wanted


def _is_unreadable(component: ComponentData) -> bool:
    """Tells whether this part of a filter is unreadable for a broker with ZooKeeper, which reads all parts before it checks
    them."""
    nameless = component.match_type == EXACT and component.match is None
    return nameless or component.match_type not in (EXACT, *MATCH_TYPES)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _matches(entity: QuotaEntity, wanted: Wanted, *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(wanted):
        return False
    return all(kind in names and (how == SPECIFIED or names[kind] == name) for kind, (how, name) in wanted.items())


def _described(entity: QuotaEntity, held: dict[str, float], release: Release) -> EntryData:
    names = dict(entity)
    keys = held if STRICT_QUOTAS.of(release) else [key for key in IN_ZOOKEEPER if key in held]
    kinds = hash_order(names, java_hash, SMALLEST) if STRICT_QUOTAS.of(release) else sorted(names, reverse=True)
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=names[kind]) for kind in kinds],
        values=[ValueData(key=key, value=held[key]) for key in keys],
    )
