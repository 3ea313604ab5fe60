"""Faults: the loaded rules, in the words of fault files."""

from __future__ import annotations

from typing import Annotated, Any

from wirebroker.control.controlled import Controlled
from wirebroker.control.endpoints.records import LONGEST_WAIT_S
from wirebroker.control.forms import Form, Natural, Positive, about
from wirebroker.control.problems import Problem
from wirebroker.faults.files import FaultFileError, dump, loads, read_rule, rule_schema
from wirebroker.faults.forms import FaultError
from wirebroker.faults.rules import NotFired, Rule


class RuleWords(dict[str, Any]):
    """A rule in the words of a [[fault]] in a fault file."""

    json_schema = staticmethod(rule_schema)


class Fault(Form):
    """A loaded rule."""

    id: Annotated[int, about("the rule's number; no other rule ever gets this number")]
    rule: Annotated[dict[str, Any], about("the rule in the words of a fault file")]
    description: Annotated[str, about("the rule on one line")]
    seen: Annotated[int, about("the number of requests, or batches of a Produce, that the rule matched")]
    fired: Annotated[int, about("the number of matches on which the rule fired")]


class Faults(Form):
    """Rules, in the order in which they are applied."""

    seed: Annotated[int, about("the seed of the rules' probabilities")]
    faults: Annotated[list[Fault], about("the rules")]


class Times(Form):
    """The number of times that a rule must have fired."""

    times: Annotated[Natural | None, about("the exact number of times; null: at least once")] = None


class Firings(Form):
    """The number of times that a rule fires while the request waits."""

    times: Annotated[Positive, about("wait until the rule has fired this many times since it was loaded")] = 1
    timeout: Annotated[float, about("wait at most this many seconds", ge=0, le=LONGEST_WAIT_S)] = 5.0


def listed(controlled: Controlled) -> Faults:
    """Returns the loaded rules, with the number of times that each has fired."""
    return _shown(controlled, controlled.machine.plan.rules)


def add(controlled: Controlled, body: RuleWords) -> Fault:
    """Load a rule. The rule applies from the next request on."""
    try:
        rule = controlled.machine.plan.add(read_rule(body))
    except FaultError as wrong:
        raise Problem(422, str(wrong), wrong.word) from None
    return _shown(controlled, [rule]).faults[0]


def clear(controlled: Controlled) -> None:
    """Unload all rules, and let the requests that they held back continue."""
    controlled.machine.plan.clear()
    controlled.changed()


def as_file(controlled: Controlled) -> str:
    """Returns the loaded rules as a fault file, which can repeat the run."""
    return dump(controlled.machine.plan.rules, controlled.machine.plan.seed)


def add_file(controlled: Controlled, text: str) -> Faults:
    """Load every rule of the fault file in the body, and use the file's seed from now on. If a rule is wrong, no rule is
    loaded."""
    try:
        rules = controlled.machine.plan.load(loads(text, "the file"))
    except FaultFileError as wrong:
        raise Problem(422, str(wrong)) from None
    return _shown(controlled, rules)


def assert_fired(controlled: Controlled) -> Faults:
    """Check that every loaded rule has fired. Otherwise, 409 names the first rule that has not fired."""
    for rule in controlled.machine.plan.rules:
        _assert_fired(rule, None)
    return listed(controlled)


def one(controlled: Controlled, fault: int) -> Fault:
    """Returns a rule, with the number of times that it has fired."""
    return _shown(controlled, [_rule(controlled, fault)]).faults[0]


def remove(controlled: Controlled, fault: int) -> None:
    """Unload a rule, and let the requests that it held back continue."""
    controlled.machine.plan.remove(_rule(controlled, fault))
    controlled.changed()


def assert_one_fired(controlled: Controlled, fault: int, query: Times) -> Fault:
    """Check that a rule has fired, or has fired exactly `times` times. Otherwise, 409 reports how often the rule matched and
    how often it fired."""
    _assert_fired(_rule(controlled, fault), query.times)
    return one(controlled, fault)


async def wait(controlled: Controlled, fault: int, query: Firings) -> Fault:
    """Wait until a rule has fired `times` times. After the timeout, 409 reports how often the rule matched and how often it
    fired."""
    rule = _rule(controlled, fault)

    def done() -> bool:
        return rule.fired >= query.times or rule not in controlled.machine.plan.rules

    try:
        await controlled.until(done, query.timeout)
    except TimeoutError:
        raise Problem(409, str(rule.not_fired(f"{query.times} times within {query.timeout:g} s"))) from None
    return one(controlled, fault)


def _assert_fired(rule: Rule, times: int | None) -> None:
    try:
        rule.assert_fired(times)
    except NotFired as silent:
        raise Problem(409, str(silent)) from None


def _rule(controlled: Controlled, number: int) -> Rule:
    rules = controlled.numbered(controlled.machine.plan.rules)
    if number not in rules:
        raise Problem(404, f"there is no fault {number}; loaded: {', '.join(map(str, rules)) or 'none'}", "fault")
    return rules[number]


def _shown(controlled: Controlled, rules: list[Rule]) -> Faults:
    numbers = controlled.numbered(controlled.machine.plan.rules)
    shown = [
        Fault(number, rule.described(), str(rule), rule.seen, rule.fired) for number, rule in numbers.items() if rule in rules
    ]
    return Faults(controlled.machine.plan.seed, shown)
