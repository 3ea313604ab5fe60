"""AlterClientQuotas, versions 0–1.

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
    EntryData,
    ResponseEntityData,
    ResponseEntryData,
)
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.common.slices import mapped, pauses
from wirebroker.core.java_order import buckets_for, hash_order, hash_order_in_slices, java_hash
from wirebroker.core.quotas import STRICT_QUOTAS, Change, entity_error, entity_hash, entity_of, kept, value_error
from wirebroker.core.refusals import MOST_RECORDS
from wirebroker.core.releases import Release


def handle(request: AlterClientQuotasRequest, exchange: Exchange) -> Steps:
    """Change the quotas of the valid entities. Returns the result of each entity, in Kafka's order."""
    pause, release = pauses(), exchange.cluster.configs.release
    results: dict[QuotaEntity, str | None] = {}
    shown: dict[QuotaEntity, list[str]] = {}
    sound: list[tuple[QuotaEntity, EntryData]] = []
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


def _too_many(entry: EntryData) -> ResponseEntryData:
    message = "Request parameters do not satisfy the configured policy."
    entity = [ResponseEntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity]
    return ResponseEntryData(error_code=ErrorCode.POLICY_VIOLATION, error_message=message, entity=entity)


def _value_error(entry: EntryData, names: dict[str, str | None], release: Release) -> str | None:
    if not STRICT_QUOTAS.of(release):
        errors = (value_error(names, op.key, op.value, release) for op in entry.ops if not op.remove)
        return next(filter(None, errors), None)
    ops = {op.key: op for op in entry.ops}
    for key in hash_order(ops, java_hash, buckets_for(len(ops), len(ops))):
        if not ops[key].remove and (error := value_error(names, key, ops[key].value, release)):
            return error
    return None


def _changes(entity: QuotaEntity, entry: EntryData, exchange: Exchange) -> Iterator[Change]:
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
