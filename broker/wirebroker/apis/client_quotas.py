"""DescribeClientQuotas, versions 0–1.

Returns the quotas that match a filter. Each component of the filter asks for a name, for the default, or for any name of a
type. With `strict` an entity must have exactly the types that the filter names. A filter that contradicts itself gets
INVALID_REQUEST, and an unknown type gets UNSUPPORTED_VERSION (ClientQuotasImage).

AlterClientQuotas, versions 0–1.

Sets and removes quotas of users, of client ids, of pairs of a user and a client id, and of addresses. Each entity gets its own
result. An entity named twice, a quota named twice for an entity, and an invalid quota value get INVALID_REQUEST. With
validate_only nothing changes (ClientQuotaControlManager).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.disk.metadata import QuotaEntity
from kafkawire.errors import ErrorCode
from kafkawire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)
from kafkawire.messages.alter_client_quotas import EntryData as Alteration
from kafkawire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import mapped, pauses
from wirebroker.core.java_order import SMALLEST, buckets_for, hash_order, hash_order_in_slices, java_hash
from wirebroker.core.quotas import (
    IN_ZOOKEEPER,
    IP,
    STRICT_QUOTAS,
    Change,
    entity_error,
    entity_hash,
    entity_kinds,
    entity_of,
    kept,
    value_error,
)
from wirebroker.core.refusals import MOST_RECORDS, Refusal
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import since

EMPTY_QUOTA_MESSAGES = since("2.8", "if DescribeClientQuotas succeeds, its error message is empty instead of null")

EXACT, DEFAULT, SPECIFIED = range(3)
MATCH_TYPES = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}
Wanted = dict[str, tuple[int, str | None]]


def describe_client_quotas(request: DescribeClientQuotasRequest, exchange: Exchange) -> DescribeClientQuotasResponse:
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


def alter_client_quotas(request: AlterClientQuotasRequest, exchange: Exchange) -> Steps:
    """Change the quotas of the valid entities. Returns the result of each entity, in Kafka's order."""
    pause, release = pauses(), exchange.cluster.configs.release
    results: dict[QuotaEntity, str | None] = {}
    shown: dict[QuotaEntity, list[str]] = {}
    sound: list[tuple[QuotaEntity, Alteration]] = []
    for entry in request.entries:
        yield from pause()
        names = {each.entity_type: each.entity_name for each in entry.entity}
        entity = entity_of(names)
        if entity not in shown:
            buckets = buckets_for(len(names), len(entry.entity))
            shown[entity] = yield from hash_order_in_slices(names, java_hash, buckets, pause)
        order = shown[entity]
        repeated = len({op.key for op in entry.ops}) < len(entry.ops)
        if STRICT_QUOTAS.of(release) and (repeated or entity in results):
            written = ", ".join(f"{kind}={'null' if names[kind] is None else names[kind]}" for kind in order)
            results[entity] = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{written}}})"
            continue
        results[entity] = entity_error(dict(entity), order, release) or _value_error(entry, names, release)
        if results[entity] is None:
            sound.append((entity, entry))
    changes = [change for entity, entry in sound for change in _changes(entity, entry, exchange)]
    if len(changes) > MOST_RECORDS and STRICT_QUOTAS.of(release):
        return AlterClientQuotasResponse(entries=(yield from mapped(_too_many, request.entries, pause)))
    if changes and not request.validate_only:
        exchange.cluster.alter_quotas(changes)
    in_order = hash_order(results, entity_hash, buckets_for(len(results)))
    entries = yield from mapped(lambda each: _result(shown[each], dict(each), results[each]), in_order, pause)
    return AlterClientQuotasResponse(entries=entries)


def _too_many(entry: Alteration) -> ResponseEntryData:
    message = "Request parameters do not satisfy the configured policy."
    entity = [ResponseEntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity]
    return ResponseEntryData(error_code=ErrorCode.POLICY_VIOLATION, error_message=message, entity=entity)


def _value_error(entry: Alteration, names: dict[str, str | None], release: Release) -> str | None:
    if not STRICT_QUOTAS.of(release):
        errors = (value_error(names, op.key, op.value, release) for op in entry.ops if not op.remove)
        return next(filter(None, errors), None)
    ops = {op.key: op for op in entry.ops}
    for key in hash_order(ops, java_hash, buckets_for(len(ops), len(ops))):
        if not ops[key].remove and (error := value_error(names, key, ops[key].value, release)):
            return error
    return None


def _changes(entity: QuotaEntity, entry: Alteration, exchange: Exchange) -> Iterator[Change]:
    held, release = exchange.cluster.quotas.limits.get(entity, {}), exchange.cluster.configs.release
    for op in entry.ops:
        new = None if op.remove else kept(op.key, op.value, release)
        if held.get(op.key) != new or not STRICT_QUOTAS.of(release):  # an earlier change in the request may alter `held`
            yield entity, op.key, new


def _result(order: list[str], names: dict[str, str | None], error: str | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=ErrorCode.NONE if error is None else ErrorCode.INVALID_REQUEST,
        error_message=error,
        entity=[ResponseEntityData(entity_type=kind, entity_name=names[kind]) for kind in order],
    )
