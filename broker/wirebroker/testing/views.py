"""The faults and the trace of a MockKafka or a ProxyKafka, for tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar, cast

from wirebroker.common.suggestions import nearest
from wirebroker.faults.plan import FaultPlan
from wirebroker.faults.rules import Rule
from wirebroker.tools import Finding, tools
from wirebroker.trace.filters import parsed
from wirebroker.trace.levels import Level
from wirebroker.trace.recorder import Recorder
from wirebroker.trace.rows import EVENTS, EventName, FaultRow, ProduceRow, Row

__tracebackhide__ = True  # pytest shows the caller's line
T = TypeVar("T")


class Machine(Protocol):
    """The attributes of an engine or a proxy that `Faults` and `TraceView` use."""

    @property
    def plan(self) -> FaultPlan:
        """The fault plan, which has the rules."""

    @property
    def trace(self) -> Recorder:
        """The trace of the engine or proxy."""

    def trace_at(self, level: str) -> None:
        """Set the level of the trace."""


class Running(Protocol):
    """A MockKafka or a ProxyKafka."""

    def _call(self, function: Callable[[Machine], T]) -> T:
        """Call `function` with the engine or proxy, in the thread of the event loop."""

    def _change(self, function: Callable[[Machine, int], T]) -> T:
        """Call `function` with the engine or proxy and the time, in the thread of the event loop, and perform the effects of
        the call.
        """

    def _peek(self) -> Machine | None:
        """Returns the current engine or proxy, or None if it is not running. Any thread may call this method."""

    def wait_until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Wait until `condition()` is true. Raises TimeoutError after `timeout` seconds."""

    @property
    def _fault_seed(self) -> int:
        """The seed for rules that act with a probability."""


class Faults:
    """The fault rules of a broker (`wirebroker.faults`). Each rule counts how often it has fired."""

    def __init__(self, kafka: Running) -> None:
        self._kafka = kafka

    def __repr__(self) -> str:
        machine = self._kafka._peek()
        rules = [f"{rule} fired {rule.fired} of {rule.seen}" for rule in machine.plan.rules] if machine is not None else []
        return f"Faults({', '.join(rules) or 'none'})"

    @property
    def seed(self) -> int:
        """The seed for rules that act with a probability. Pass it to `MockKafka(random_seed=…)` to repeat a run."""
        return self._kafka._fault_seed

    @property
    def rules(self) -> list[Rule]:
        """The loaded rules, in the order in which they are tried."""
        return self._awaitable(self._kafka._call(lambda host: list(host.plan.rules)))

    def add(self, rule: Rule) -> Rule:
        """Load a rule, which acts from the next request on. Returns the rule, so that a test can read the rule's count
        `fired`.
        """
        checked_rules([rule])
        return self._awaitable([self._kafka._change(lambda host, _: host.plan.add(rule))])[0]

    def remove(self, rule: Rule) -> None:
        """Unload a rule. Requests and responses that the rule holds back continue. Does nothing if the rule is not loaded."""
        self._kafka._change(lambda host, _: host.plan.remove(rule))

    def clear(self) -> None:
        """Unload all rules. Requests and responses that the rules hold back continue."""
        self._kafka._change(lambda host, _: host.plan.clear())

    def load(self, path: str | os.PathLike[str]) -> list[Rule]:
        """Load the rules of a fault file and return them. Raises FaultFileError with a message that names the invalid line."""
        from wirebroker.faults.files import load

        file = load(Path(path))
        return self._awaitable(self._kafka._change(lambda host, _: host.plan.load(file)))

    def _awaitable(self, rules: list[Rule]) -> list[Rule]:
        """Enable the method `wait_fired` of these rules, and return the rules."""
        for rule in rules:
            rule.wait_until = self._wait_until
        return rules

    def _wait_until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait for a condition. The condition is checked in the thread of the event loop, because the rules count there."""
        self._kafka.wait_until(lambda: self._kafka._call(lambda _: condition()), timeout)

    def as_toml(self) -> str:
        """Returns the loaded rules and the seed as the text of a fault file, with which you can repeat the run."""
        from wirebroker.faults.files import dump

        return dump(self.rules, self.seed)

    def __getitem__(self, name: str) -> Rule:
        """Returns the loaded rule with this name: `kafka.faults["lost"]` is the rule added as `faults.lose_ack(name="lost")`.
        Raises KeyError.
        """
        names = {rule.name: rule for rule in reversed(self.rules) if rule.name}
        if name not in names:
            raise NoSuchRule(name, nearest(name, names, "the rules with a name are"))
        return names[name]

    def assert_fired(self) -> None:
        """Raises NotFired if a loaded rule has never fired, because a test that passes without its fault proves nothing."""
        for rule in self.rules:
            rule.assert_fired()


class NoSuchRule(KeyError):
    """Raised if no loaded rule has this name."""

    def __str__(self) -> str:  # KeyError itself would put the message in quotes
        return "no loaded rule has the name {!r}{}".format(*self.args)


def checked_rules(given: Rule | Sequence[Rule]) -> list[Rule]:
    """Returns the given rule or rules as a list. Raises TypeError if something else is given."""
    rules: list[Rule] = list(given) if isinstance(given, list | tuple) else [given]  # type: ignore[list-item]
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"add a rule such as faults.lose_ack(topic='orders'), not {rule!r}")
    return rules


class TraceView:
    """The latest rows of the trace: verdicts and faults and, at a higher level, further events."""

    def __init__(self, kafka: Running) -> None:
        self._kafka = kafka

    def __repr__(self) -> str:
        machine = self._kafka._peek()
        return f"TraceView({'not running' if machine is None else f'level {machine.trace.level}, {machine.trace.added} rows'})"

    @property
    def level(self) -> Level:
        """The level of the trace, which decides which events are traced. You can set the level at any time."""
        return self._kafka._call(lambda host: cast(Level, host.trace.level))

    @level.setter
    def level(self, level: Level) -> None:
        self._kafka._call(lambda host: host.trace_at(level))

    def events(self, *names: EventName) -> list[Row]:
        """Returns every row of these events ("reply", "group" …), or of all events, oldest first. Raises ValueError for an
        unknown event."""
        for name in names:
            if name not in EVENTS:
                raise ValueError(f"there is no event {name!r}{nearest(name, EVENTS)}")
        return self._kafka._call(lambda host: host.trace.events(*names))

    def where(self, where: str) -> list[Row]:
        """Returns the rows that meet a filter such as `"api=Produce error!=NONE"`, oldest first. Raises FilterError if the
        text is not a filter.

        The grammar is in `wirebroker.trace.filters`.
        """
        wanted = parsed(where)
        return [row for row in self.events() if wanted.has(row)]

    def explain(self, now: int | None = None) -> Sequence[Finding]:
        """Returns the findings in the rows, as `wirebroker explain` prints them, the most important finding first.

        `now` is the current time in ms since the epoch, by default the time of the latest row. A long silence before `now` may
        be a finding.
        """
        return tools().findings(self.events(), now)

    def produce(self, topic: str | None = None, partition: int | None = None) -> list[ProduceRow]:
        """Returns every verdict that the trace still has, oldest first. With `topic` or `partition`, returns only the verdicts
        on batches of this topic or partition."""
        return self._kafka._call(lambda host: host.trace.produce(topic, partition))

    def faults(self) -> list[FaultRow]:
        """Returns every fault that fired, oldest first."""
        return self._kafka._call(lambda host: host.trace.faults())

    def picture(self, kind: str = "sequence", of: str = "", width: int = 1000, lines: int = 200) -> str:
        """Returns a picture of the rows as an SVG file. Raises ValueError for a kind that does not exist.

        The kinds are `sequence` (requests and responses), `log` (the batches and readers of a partition), `groups` (the owners
        of partitions) and `windows` (the windows of producers). `of` names the partition, the group or the producer.
        """
        kinds = tools().kinds_of_pictures
        if kind not in kinds:
            raise ValueError(f"there is no picture {kind!r}{nearest(kind, kinds)}")
        return tools().picture(kind, self.events(), of, width, lines)

    def last(self, count: int = 20) -> list[Row]:
        """Returns the latest rows of any kind, oldest first."""
        return self._kafka._call(lambda host: host.trace.last(count))
