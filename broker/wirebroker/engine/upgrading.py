"""A rolling upgrade: one broker after the other stops cleanly and starts with another release. All data stay.
A killed broker gets the other release and stays down.

During the upgrade, brokers of two releases serve clients. On each connection, a client sees the API versions and the supported
features of the broker to which it is connected. The cluster keeps the rules, the behaviour and the defaults of the earlier
release until the last broker runs the new release. If the upgrade finalizes the features, the feature levels increase after
that. Before the levels increase, the brokers can go back to the earlier release.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypedDict, Unpack

from wirebroker.common.changes import UpgradeRow
from wirebroker.core.cluster import Broker, Cluster
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.controller import Controller
from wirebroker.core.features import finalized_levels, unsupported
from wirebroker.core.profile import Rules, upgraded
from wirebroker.core.purgatory import Timers
from wirebroker.core.releases import release

logger = logging.getLogger("wirebroker")


class Engine(Protocol):
    """The part of an engine that an upgrade uses: its cluster, and the methods that stop and start brokers."""

    cluster: Cluster
    configs: BrokerConfigs
    controller: Controller
    timers: Timers
    rules: Rules
    upgrading: Upgrading | None

    def stop_broker(self, node_id: int, now: int) -> None:
        """Stop a broker."""

    def start_broker(self, node_id: int, now: int) -> None:
        """Start a broker that is down."""

    def restart(self, mode: str, now: int) -> None:
        """Stop all brokers and start them again."""

    def close_all_at(self, node_id: int, reason: str) -> None:
        """Close the connections to a broker."""

    def run_release(self, broker: Broker, rules: Rules) -> None:
        """Change the release of a broker to the release of `rules`."""

    def become(self, rules: Rules) -> None:
        """Change the cluster's rules to `rules`, because now all brokers have these rules."""

    def alter_features(self, levels: Mapping[str, int]) -> None:
        """Change the levels of features."""


class Manner(TypedDict, total=False):
    """The options of a rolling upgrade.

    The upgrade begins with the broker `first`. With `only`, only this broker is upgraded. Each broker is down for `pause_ms` on
    the broker's clock, and then `pause_ms` pass before the next broker stops. If `pause_ms` is 0, the upgrade is complete
    immediately. If the cluster has only one broker, this broker is restarted without a pause. With `finalize`, the feature
    levels increase to the levels of a new cluster as soon as all brokers run the new release. `told` is called with the id of
    each broker that was upgraded.
    """

    first: int | None
    only: bool
    pause_ms: int
    finalize: bool
    told: Callable[[int], None]


class Upgrading:
    """A rolling upgrade that is in progress."""

    def __init__(self, engine: Engine, rules: Rules, nodes: Sequence[int], manner: Manner) -> None:
        self.rules = rules
        self.engine = engine
        """The engine that is upgraded. A reset replaces the broker's engine, and so cuts the upgrade off."""
        self.failed: OSError | None = None
        """The error with which the disk has refused the new feature levels after the last broker was upgraded."""
        self.nodes = deque(nodes)
        """The brokers that are not upgraded yet. The first of these brokers may be down."""
        self._is_down = False
        self._starts = True
        """Tells whether the upgrade starts the broker that is down. A broker that the upgrade found down stays down."""
        self._manner = manner

    def proceed(self, now: int) -> None:
        """Stop or start the next broker. If there is no pause, continue until the upgrade is complete. Raises OSError if the
        new feature levels cannot be written."""
        engine, pause = self.engine, self._manner.get("pause_ms", 0)
        engine.upgrading = self
        while self.nodes:
            if self._is_down or len(engine.cluster.brokers) == 1:
                self._start(self.nodes.popleft(), now)
            else:
                self._stop(self.nodes[0], now)
            engine.controller.finish()
            if pause and self.nodes:
                engine.timers.at(now + pause, self.go_on)
                return
        engine.upgrading = None
        if self._manner.get("finalize", True) and _all_run(engine, self.rules):
            self._finalize(now)

    def restarted(self, now: int) -> None:
        """A restart of all brokers has removed all timers. Set a timer that continues the upgrade after the pause."""
        self.engine.timers.at(now + self._manner.get("pause_ms", 0), self.go_on)

    def go_on(self, now: int) -> None:
        """Like `proceed`, for a timer or a fault. A timer or a fault cannot report an error, so if the disk refuses the new
        feature levels, the log reports this, and `failed` keeps the error for callers that wait for the upgrade."""
        try:
            self.proceed(now)
        except OSError as refused:
            self.failed = refused
            logger.error("all brokers run %s, but the feature levels stay as they were: %s", self.rules.name, refused)

    def _stop(self, node_id: int, now: int) -> None:
        self._starts = self.engine.cluster.brokers[node_id].running
        if self._starts:
            self.engine.stop_broker(node_id, now)
        self._is_down = True

    def _start(self, node_id: int, now: int) -> None:
        engine, broker = self.engine, self.engine.cluster.brokers[node_id]
        before, self._is_down = broker.release.name, False
        engine.close_all_at(node_id, f"broker {node_id} is upgraded")
        engine.run_release(broker, self.rules)
        if _all_run(engine, self.rules):
            engine.become(self.rules)
        if len(engine.cluster.brokers) > 1:
            if self._starts:
                engine.start_broker(node_id, now)
        elif broker.running:
            engine.restart("clean", now)
        engine.cluster.report(UpgradeRow(node_id, before, broker.release.name))
        if broker.running and (told := self._manner.get("told")):
            told(node_id)

    def _finalize(self, now: int) -> None:
        configs, decisions = self.engine.configs, self.engine.cluster.decisions
        self.engine.alter_features(finalized_levels(configs.release.features, configs.features))
        if (failed := decisions.write_down(now)) is not None:
            raise failed


def upgrading(engine: Engine, to: str, **manner: Unpack[Manner]) -> Upgrading:
    """Returns an upgrade of all brokers that do not run the profile `to`, such as "kafka-4.4". `proceed` begins the upgrade.

    The release may be earlier than the current release if it supports the cluster's feature levels. Raises ValueError if the
    release does not support the cluster's feature levels, if another upgrade is in progress, or if the release or the broker
    `first` does not exist.
    """
    brokers, first, only = engine.cluster.brokers, manner.get("first"), manner.get("only", False)
    if engine.upgrading is not None:
        raise ValueError(f"an upgrade to {engine.upgrading.rules.name} is in progress; wait until it is complete")
    if first is not None and (not isinstance(first, int) or first not in brokers):
        raise ValueError(f"there is no broker {first!r}; there are {sorted(brokers)}")
    rules = upgraded(engine.rules, to)
    if why := unsupported(release(rules.release).features, engine.configs.features):
        raise ValueError(f"the brokers cannot start with {to}: {why}")
    nodes = [node for node in sorted(brokers) if brokers[node].rules != rules and (not only or node == first)]
    nodes.sort(key=lambda node: first is not None and node < first)
    return Upgrading(engine, rules, nodes, manner)


def _all_run(engine: Engine, rules: Rules) -> bool:
    return all(broker.rules == rules for broker in engine.cluster.brokers.values())
