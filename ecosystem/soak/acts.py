"""The acts: failures of brokers, applications and connections, while the applications work."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from ecosystem.pipelines.applications import Process
from ecosystem.pipelines.auditing import say
from ecosystem.soak.broker import NODES, Brokers
from wirebroker import faults

QUIET = (10.0, 25.0)
"""Seconds between two acts."""


class Acts:
    """Chooses one act after another. `instances` are the processes of the applications."""

    def __init__(self, brokers: Brokers, instances: list[Process], seed: int) -> None:
        self.brokers, self.instances, self.random = brokers, instances, random.Random(seed)
        self.played: Counter[str] = Counter()
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._next = time.monotonic() + QUIET[1]

    def tend(self) -> None:
        """Do the acts that are due."""
        now = time.monotonic()
        due = [action for when, action in self._later if when <= now]
        self._later = [each for each in self._later if each[0] > now]
        for action in due:
            action()
        if now >= self._next:
            self._next = now + self.random.uniform(*QUIET)
            act = self.random.choice(
                (self.instance, self.instance, self.broker, self.connection, self.clock, self.restart, self.files)
            )
            self.played[act.__name__] += 1
            act()

    def end(self) -> None:
        """Do at once the acts that are planned for later, so that all brokers run."""
        for _, action in self._later:
            action()
        self._later.clear()

    def instance(self) -> None:
        """Kill a process of an application, so that its group rebalances."""
        each, away = self.random.choice(self.instances), self.random.choice((0.2, 3.0, 15.0))
        say(f"kills {each.log.stem}, which is away for {away} s")
        each.kill(away)

    def broker(self) -> None:
        """Kill a broker, and start it again later."""
        if self._later:
            return
        node, away = self.random.choice(NODES), self.random.choice((1.0, 5.0, 15.0))
        say(f"kills broker {node}, which is away for {away} s")
        self.brokers.kafka.kill_broker(node)
        self._later.append((time.monotonic() + away, lambda: self.brokers.kafka.start_broker(node)))

    def connection(self) -> None:
        """Close a connection, with or without losing a response."""
        api = self.random.choice(("Produce", "Fetch", "EndTxn", "AddOffsetsToTxn", "ConsumerGroupHeartbeat", "Heartbeat"))
        kind = self.random.choice((faults.disconnect, faults.lose_ack))
        say(f"{kind.__name__} at the next {api}")
        self.brokers.kafka.faults.add(kind(api=api, nth=1))

    def clock(self) -> None:
        """Move the clock forward."""
        seconds = self.random.choice((1, 5, 30))
        say(f"{seconds} s pass")
        self.brokers.kafka.clock.advance(seconds=seconds)

    def restart(self) -> None:
        """Restart all brokers."""
        mode = self.random.choice(("clean", "kill"))
        say(f"all brokers restart ({mode})")
        self.brokers.kafka.restart(mode)  # type: ignore[arg-type]

    def files(self) -> None:
        """End all brokers, and open their directories again."""
        self.end()
        say("all brokers end, and open their directories again")
        self.brokers.open_again()
