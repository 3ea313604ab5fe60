"""The features of the cluster: the supported levels, and the allowed changes of levels (Kafka's FeatureControlManager)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

from kafkawire.printable import printable
from wirebroker.common.slices import pauses
from wirebroker.core.java_order import buckets_for, hash_order_in_slices, java_hash
from wirebroker.core.releases import Feature, Release
from wirebroker.core.releases.changes import ByRelease, since, until

UPDATES_TOGETHER = since("4.0", "UpdateFeatures makes all updates or none, and has one error", "KIP-1022")
OLDEST_METADATA = ByRelease(4).then(
    "4.0", 0, "for UpdateFeatures, the oldest level of metadata.version is the oldest level that brokers support", "KIP-896"
)
"""UpdateFeatures refuses every level of metadata.version below this level, even a level that the brokers support."""
UNKNOWN_FEATURES = (
    ByRelease("unsupported")
    .then("3.7", "accepted", "UpdateFeatures that sets an unknown feature to level 0 changes nothing")
    .then("4.0", "not found", "UpdateFeatures that sets an unknown feature to level 0 is refused")
)
"""The result of an UpdateFeatures that sets an unknown feature to level 0."""
UNFINISHED_FEATURE = (
    ByRelease[str | None](None)
    .then("4.1", "streams.version", "UpdateFeatures may set streams.version to 0", "KIP-1071")
    .then("4.2", None, "brokers support the feature streams.version", "KIP-1071")
)
"""A feature that the release does not support but whose level may be set to 0."""
TELLS_LEVELS = since("4.2", "the refusal to lower metadata.version names the present level")
ADVISES_UNSAFE = until("3.7", "the refusal to lower metadata.version no longer advises UNSAFE_DOWNGRADE")

METADATA, KRAFT, TRANSACTION = "metadata.version", "kraft.version", "transaction.version"
GROUP, SHARE, STREAMS = "group.version", "share.version", "streams.version"
ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""The types of an update (FeatureUpdate.UpgradeType)."""
SAME_METADATA = frozenset({2, 4, 9, 10, 12, 16, *range(18, 23), *range(24, 30), 31, 34})
"""The levels of metadata.version that have not changed the records of the metadata log (MetadataVersion.didMetadataChange)."""

SCRAM_SINCE, TOKENS_SINCE, CORDONS_SINCE = 11, 14, 30
"""From these levels of metadata.version on, a cluster has SCRAM credentials, delegation tokens and cordoned directories. A
cluster with KRaft that was upgraded from an earlier release can have a lower level."""
NAMES = (METADATA, KRAFT, TRANSACTION, GROUP, ELIGIBLE_REPLICAS, SHARE, STREAMS)
"""The features whose levels change what a broker does. For a release that lacks a feature, the level of the feature is 0."""
REFUSED_WITHOUT: Mapping[str, Sequence[str]] = {
    GROUP: ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    SHARE: (
        "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge", "DescribeShareGroupOffsets",
        "AlterShareGroupOffsets", "DeleteShareGroupOffsets",
    ),
    STREAMS: ("StreamsGroupHeartbeat", "StreamsGroupDescribe", "StreamsGroupTopologyDescriptionUpdate"),
}  # fmt: skip
"""The APIs that return UNSUPPORTED_VERSION while a feature is at level 0 (KafkaApis)."""


def is_too_old(release: Release, levels: Mapping[str, int], since: int) -> bool:
    """Tells whether the level of metadata.version in `levels` is below `since`. A release with ZooKeeper has no levels."""
    return not release.has_zookeeper and levels[METADATA] < since


class Update(NamedTuple):
    """A request to change the level of a feature; `kind` is an UpgradeType."""

    feature: str
    level: int
    kind: int


def new_levels(features: Mapping[str, Feature]) -> dict[str, int]:
    """Returns the levels of a new cluster that runs a release with these features."""
    return dict.fromkeys(NAMES, 0) | {name: feature.level for name, feature in features.items()}


def finalized_levels(features: Mapping[str, Feature], levels: Mapping[str, int]) -> dict[str, int]:
    """Returns the new levels of the features that rise in an upgrade to a release with these features, as with `kafka-features
    upgrade --release-version`."""
    return {name: feature.level for name, feature in features.items() if feature.level > levels.get(name, 0)}


def unsupported(features: Mapping[str, Feature], levels: Mapping[str, int]) -> str:
    """Returns a sentence about the first level that a broker with these features does not support, or "" if the broker supports
    all levels."""
    for name, level in levels.items():
        feature = features.get(name)
        if level and (feature is None or not feature.oldest <= level <= feature.newest):
            known = "does not have it" if feature is None else f"supports levels {feature.oldest} to {feature.newest}"
            return f"the cluster's {printable(name)} is at level {level}, and this release {known}"
    return ""


def refusals(
    updates: Sequence[Update],
    supported: Mapping[int, Mapping[str, Feature]],
    levels: Mapping[str, int],
    controller: int,
    release: Release,
) -> Generator[None, Any, dict[str, str]]:
    """For each feature in `updates`, returns Kafka's message if Kafka refuses the feature's last update, or "" if Kafka accepts
    this update. The features are in the order in which Kafka checks them. In releases in which Kafka makes all updates or none,
    the result ends with the first refusal. Yields after each slice.

    `supported` has the features of each registered broker, by the broker's id. The controller checks its own features first.
    """
    last = {each.feature: each for each in updates}
    together, pause = UPDATES_TOGETHER.of(release), pauses()
    names = (yield from hash_order_in_slices(last, java_hash, buckets_for(len(last)), pause)) if together else sorted(last)
    found: dict[str, str] = {}
    for name in names:
        yield from pause()
        found[name] = _refusal_by_anybody(last[name], supported, levels.get(name, 0), controller, release)
        if found[name] and together:
            break
    return found


def _refusal_by_anybody(
    update: Update, supported: Mapping[int, Mapping[str, Feature]], level: int, controller: int, release: Release
) -> str:
    for node_id in sorted(supported, key=lambda node_id: node_id != controller):
        who = f"Local controller {node_id}" if node_id == controller else f"Broker {node_id}"
        feature = supported[node_id].get(update.feature)
        if feature is None and UNKNOWN_FEATURES.of(release) == "unsupported" and not update.level:
            who = f"Broker {node_id}"
        if reason := _refusal(update, feature, level, who, release):
            return reason
    return ""


def _refusal(update: Update, feature: Feature | None, level: int, who: str, release: Release) -> str:
    name, wanted, kind = update
    reason = ""
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        reason = "The controller does not support the given upgrade type."
    elif wanted < 0:
        reason = "A feature version cannot be less than 0."
    elif feature is None:
        reason = f"{who} does not support this feature."
        if not wanted and UNKNOWN_FEATURES.of(release) != "unsupported":
            is_known = UNKNOWN_FEATURES.of(release) == "accepted" or name == UNFINISHED_FEATURE.of(release)
            reason = "" if is_known else f"Feature {name} not found."
    elif not feature.oldest <= wanted <= feature.newest:
        reason = f"{who} only supports versions {feature.oldest}-{feature.newest}"
    elif wanted < level and kind == UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
        )
    elif wanted > level and kind != UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif wanted < level and name == KRAFT:
        reason = "Can't downgrade the version of this feature."
    elif wanted < level and name == METADATA:
        return _lower_metadata_refusal(level, wanted, kind, release)
    return reason and f"Invalid update version {wanted} for feature {name}. {reason}"


def _lower_metadata_refusal(level: int, wanted: int, kind: int, release: Release) -> str:
    """Returns Kafka's message if metadata.version cannot go down to the wanted level. Returns "" if metadata.version can go
    down: no level in between has changed the records of the metadata."""
    if wanted >= OLDEST_METADATA.of(release) and SAME_METADATA.issuperset(range(wanted + 1, level + 1)):
        return ""
    why = "Refusing to perform the requested downgrade because it might delete metadata information."
    if ADVISES_UNSAFE.of(release):
        why += " Retry using UNSAFE_DOWNGRADE if you want to force the downgrade to proceed."
    if kind == UNSAFE_DOWNGRADE:
        why = "Unsafe metadata downgrade is not supported in this version."
    if wanted < OLDEST_METADATA.of(release):
        why = "Unable to set a metadata.version less than 3.3-IV0"
    if TELLS_LEVELS.of(release):
        return f"Unsupported metadata.version downgrade from {level} to {wanted}. {why}"
    return f"Invalid metadata.version {wanted}. {why}"
