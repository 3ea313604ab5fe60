"""UpdateFeatures, versions 0–2.

From 4.0 on, Kafka makes all updates, or refuses all of them: the error is at the top of the response. If the request succeeds,
the response of versions 0 and 1 names each feature. Before 4.0, Kafka accepts or refuses each update separately, and the
response has an error code for each update. Version 0 has no types of upgrades: every update is an upgrade, even with
`allow_downgrade`, as in Kafka. If a feature is updated twice, the last update counts.
"""

from __future__ import annotations

from kafkawire.errors import ErrorCode
from kafkawire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from wirebroker.apis.exchange import Exchange, Steps
from wirebroker.core.features import KRAFT, UPDATES_TOGETHER, UPGRADE, Update, refusals
from wirebroker.core.releases.changes import since

UPGRADES_QUORUM = since("4.1", "UpdateFeatures changes kraft.version", "KAFKA-16538")


def handle(request: UpdateFeaturesRequest, exchange: Exchange) -> Steps:
    cluster = exchange.cluster
    if cluster.configs.release.has_zookeeper:
        return _unsupported(request)
    updates = [
        Update(each.feature, each.max_version_level, each.upgrade_type if exchange.version > 0 else UPGRADE)
        for each in request.feature_updates
    ]
    asked = {
        exchange.node_id: cluster.brokers[exchange.node_id]
    }  # the features of this broker count even if it was unregistered
    known = asked | cluster.registered_brokers  # a stopped broker counts, because it starts again with its features
    supported = {node_id: broker.release.features for node_id, broker in known.items()}
    controller = cluster.brokers.get(cluster.controller_id)  # in a rolling upgrade, the controller's release counts
    release = cluster.configs.release if controller is None else controller.release
    refused = yield from refusals(updates, supported, cluster.configs.features, cluster.controller_id, release)
    reason = next(filter(None, refused.values()), "")
    if reason and UPDATES_TOGETHER.of(release):
        message = f"The update failed for all features since the following feature had an error: {reason}"
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message, results=[])
    if not request.validate_only:
        stays = {name for name, why in refused.items() if why or name not in cluster.configs.features}
        if not UPGRADES_QUORUM.of(release):
            stays.add(KRAFT)
        exchange.engine.alter_features({each.feature: each.level for each in updates if each.feature not in stays})
    if not UPDATES_TOGETHER.of(release):
        apart = [_result(name, why) for name, why in refused.items()]
        return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message="", results=apart)
    results = [UpdatableFeatureResult(feature=each.feature, error_code=0, error_message="NONE") for each in updates]
    return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)


def _result(feature: str, reason: str) -> UpdatableFeatureResult:
    code = ErrorCode.INVALID_UPDATE_VERSION if reason else ErrorCode.NONE
    return UpdatableFeatureResult(feature=feature, error_code=code, error_message=reason or None)


def _unsupported(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Returns the response of a broker with ZooKeeper, which has no features. Each update gets its own refusal."""
    message = "Could not apply finalized feature update because the provided feature is not supported."
    names = dict.fromkeys(each.feature for each in request.feature_updates)
    results = [
        UpdatableFeatureResult(feature=name, error_code=ErrorCode.INVALID_REQUEST, error_message=message) for name in names
    ]
    return UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)
