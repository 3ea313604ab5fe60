"""The features of the cluster: the supported levels, and the allowed changes of levels (Kafka's FeatureControlManager)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

METADATA, KRAFT, TRANSACTION = "metadata.version", "kraft.version", "transaction.version"
GROUP, SHARE, STREAMS = "group.version", "share.version", "streams.version"
ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""FeatureUpdate.UpgradeType."""


class Feature(NamedTuple):
    """A feature: the supported levels, and the level of a new cluster."""

    oldest: int
    newest: int
    level: int


FEATURES: Mapping[str, Feature] = {
    METADATA: Feature(7, 30, 30), KRAFT: Feature(0, 1, 0), TRANSACTION: Feature(0, 2, 2), GROUP: Feature(0, 1, 1),
    ELIGIBLE_REPLICAS: Feature(0, 1, 1), SHARE: Feature(0, 1, 1), STREAMS: Feature(0, 1, 1),
}  # fmt: skip
REFUSED_WITHOUT: Mapping[str, Sequence[str]] = {
    GROUP: ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    SHARE: (
        "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge", "DescribeShareGroupOffsets",
        "AlterShareGroupOffsets", "DeleteShareGroupOffsets",
    ),
    STREAMS: ("StreamsGroupHeartbeat", "StreamsGroupDescribe"),
}  # fmt: skip
"""The APIs that return UNSUPPORTED_VERSION while a feature is at level 0 (KafkaApis)."""


class Update(NamedTuple):
    """A requested new level of a feature; `kind` is an UpgradeType."""

    feature: str
    level: int
    kind: int


def new_levels() -> dict[str, int]:
    """Returns the levels of a new cluster of Kafka 4.3.1."""
    return {name: feature.level for name, feature in FEATURES.items()}


def refusal(updates: Sequence[Update], levels: Mapping[str, int], node_id: int) -> str:
    """Returns the first reason, in Kafka's words, for which Kafka refuses these updates; empty if Kafka accepts them."""
    for update in {each.feature: each for each in updates}.values():
        if reason := _refusal(update, levels.get(update.feature, 0), node_id):
            return reason
    return ""


def _refusal(update: Update, level: int, node_id: int) -> str:
    name, wanted, kind = update
    feature = FEATURES.get(name)
    reason = ""
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        reason = "The controller does not support the given upgrade type."
    elif wanted < 0:
        reason = "A feature version cannot be less than 0."
    elif feature is None:
        reason = f"Local controller {node_id} does not support this feature." if wanted else f"Feature {name} not found."
    elif not feature.oldest <= wanted <= feature.newest:
        reason = f"Local controller {node_id} only supports versions {feature.oldest}-{feature.newest}"
    elif wanted < level and kind == UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
        )
    elif wanted > level and kind != UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif wanted < level and name == KRAFT:
        reason = "Can't downgrade the version of this feature."
    elif wanted < level and name == METADATA:
        why = "Refusing to perform the requested downgrade because it might delete metadata information."
        if kind == UNSAFE_DOWNGRADE:
            why = "Unsafe metadata downgrade is not supported in this version."
        return f"Unsupported metadata.version downgrade from {level} to {wanted}. {why}"
    return reason and f"Invalid update version {wanted} for feature {name}. {reason}"
