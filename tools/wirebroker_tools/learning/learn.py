"""Learns a whole cluster, section by section."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.messages.api_versions import ApiVersionsResponse
from kafkawire.registry import api_name
from wirebroker.client.brokers import Brokers
from wirebroker.testing.learned_file import FORMAT, Learned, contradiction
from wirebroker_tools.learning import sections
from wirebroker_tools.learning.asking import Asked, CannotLearn
from wirebroker_tools.learning.matching import release_of


def learn(brokers: Brokers, bootstrap: str, progress: Callable[[str, int, int], None] = lambda *_: None) -> Learned:
    """Returns the cluster to which the broker at `bootstrap` belongs, as far as the user is allowed to read it.

    Raises CannotLearn, and the errors of `brokers`: LoginFailed, OSError and ProtocolError.
    """
    asked = Asked(brokers, bootstrap, progress)
    announced = {api_name(each.api_key): (each.min_version, each.max_version) for each in asked.versions.api_keys}
    features = _features(asked.versions)
    release, exact = release_of(announced, features)
    settings, altered, nodes = sections.broker_settings(asked)
    sections.visible(asked)
    learned = Learned(
        format=FORMAT, release=release, exact=exact, api_versions=announced, features=features, settings=settings,
        altered=altered, brokers=nodes, topics=sections.topics(asked), groups=sections.groups(asked),
        quotas=sections.quotas(asked), acls=sections.acls(asked), users=sections.users(asked),
    )  # fmt: skip
    learned.left_out, learned.unread = sorted(asked.left_out), asked.unread
    if problem := contradiction(learned):
        raise CannotLearn(f"{bootstrap} contradicts itself: {problem}")
    return learned


def _features(told: ApiVersionsResponse) -> dict[str, tuple[int, int, int]]:
    levels = {each.name: each.max_version_level for each in told.finalized_features}
    return {each.name: (each.min_version, each.max_version, levels.get(each.name, 0)) for each in told.supported_features}
