"""A rolling upgrade: one broker after the other stops cleanly and starts with another release, and all data stay.

In the meantime brokers of two releases serve clients. A connection has the API versions and the supported features of its
broker. The cluster keeps the rules, the behaviour and the defaults of the earlier release until the last broker runs the new
one. The levels of features rise afterwards, if they are finalized; until then the brokers can go back to the earlier release.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypedDict, Unpack

from wirebroker.core.changes import UpgradeChange
from wirebroker.core.cluster import Broker, Cluster
from wirebroker.core.configs import BrokerConfigs
from wirebroker.core.controller import Controller
from wirebroker.core.features import finalized_levels, unsupported
from wirebroker.core.profile import Rules, upgraded
from wirebroker.core.purgatory import Timers
from wirebroker.core.releases import release


class Engine(Protocol):
    """The cluster of an engine, and the calls that stop and start its brokers."""

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
        """Let a broker run the release of these rules."""

    def become(self, rules: Rules) -> None:
        """Follow these rules, which all brokers have."""

    def alter_features(self, levels: Mapping[str, int]) -> None:
        """Change the levels of features."""


class Manner(TypedDict, total=False):
    """How brokers are upgraded.

    The upgrade begins with the broker `first`, and with `only` it ends there. Each broker is down for `pause_ms` of
    the clock, and the same time passes before the next broker stops. With 0 the upgrade is complete at once. A single broker
    restarts. With `finalize`, the levels of features rise to those of a new cluster when all brokers run the release. `told` is
    called with each broker that runs the release.
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
        self._engine = engine
        self.nodes = deque(nodes)
        """The brokers that run the earlier release; the first of them may be down."""
        self._is_down = False
        self._manner = manner

    def proceed(self, now: int) -> None:
        """Take the next step, and all further steps if there is no pause."""
        engine, pause = self._engine, self._manner.get("pause_ms", 0)
        engine.upgrading = self
        while self.nodes:
            if self._is_down or len(engine.cluster.brokers) == 1:
                self._start(self.nodes.popleft(), now)
            else:
                self._stop(self.nodes[0], now)
            engine.controller.finish()
            if pause and self.nodes:
                engine.timers.at(now + pause, self.proceed)
                return
        engine.upgrading = None
        if self._manner.get("finalize", True) and _all_run(engine, self.rules):
            self._finalize(now)

    def restarted(self, now: int) -> None:
        """All brokers have restarted, and the timers are gone: go on after a pause."""
        self._engine.timers.at(now + self._manner.get("pause_ms", 0), self.proceed)

    def _stop(self, node_id: int, now: int) -> None:
        if self._engine.cluster.brokers[node_id].running:
            self._engine.stop_broker(node_id, now)
        self._is_down = True

    def _start(self, node_id: int, now: int) -> None:
        engine, broker = self._engine, self._engine.cluster.brokers[node_id]
        before, self._is_down = broker.release.name, False
        engine.close_all_at(node_id, f"broker {node_id} is upgraded")
        engine.run_release(broker, self.rules)
        if _all_run(engine, self.rules):
            engine.become(self.rules)
        if len(engine.cluster.brokers) == 1:
            engine.restart("clean", now)
        else:
            engine.start_broker(node_id, now)
        engine.cluster.report(UpgradeChange(node_id, before, broker.release.name))
        if told := self._manner.get("told"):
            told(node_id)

    def _finalize(self, now: int) -> None:
        configs, decisions = self._engine.configs, self._engine.cluster.decisions
        self._engine.alter_features(finalized_levels(configs.release.features, configs.features))
        if (failed := decisions.write_down(now)) is not None:
            raise failed


def upgrading(engine: Engine, to: str, **manner: Unpack[Manner]) -> Upgrading:
    """Returns an upgrade to the profile `to`, such as "kafka-4.4", of all brokers that do not run it; `proceed` begins it.

    The release may be an earlier one, if it supports the levels of the cluster's features. Raises ValueError if it does not, if
    another upgrade is in progress, or if there is no such release or no such broker.
    """
    brokers, first, only = engine.cluster.brokers, manner.get("first"), manner.get("only", False)
    if engine.upgrading is not None:
        raise ValueError(f"an upgrade to {engine.upgrading.rules.name} is in progress; wait until it is complete")
    if first is not None and first not in brokers:
        raise ValueError(f"there is no broker {first}; there are {sorted(brokers)}")
    rules = upgraded(engine.rules, to)
    if why := unsupported(release(rules.release).features, engine.configs.features):
        raise ValueError(f"the brokers cannot start with {to}: {why}")
    nodes = [node for node in sorted(brokers) if brokers[node].rules != rules and (not only or node == first)]
    nodes.sort(key=lambda node: first is not None and node < first)
    return Upgrading(engine, rules, nodes, manner)


def _all_run(engine: Engine, rules: Rules) -> bool:
    return all(broker.rules == rules for broker in engine.cluster.brokers.values())
