"""Scenario files.

A scenario has one or more parts, each played on a broker of its own. The top level of the file applies to all parts. If a part
has a table (`broker`, `producer`, `expect`), the table is added to the same table of the top level. If a part has a list
(`fault`, `steps`), the list replaces the same list of the top level. Each step calls a method of the workload: the step has the
method's name, and the options of the step are the parameters of the method.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from wirebroker.common.suggestions import nearest
from wirebroker.common.toml import read_toml, text_of
from wirebroker_tools.drivers import CLIENTS, ClientName, ProducerSettings
from wirebroker_tools.scenarios.scenario import BrokerSettings, Expect, Part, Scenario, ScenarioError, rules_of
from wirebroker_tools.scenarios.workload import step_forms, verb_of

T = TypeVar("T")
_SOURCE = re.compile(r"[\w.-]+/[\w.-]+(#\d+|: CHANGELOG\.md)|KAFKA-\d+|KIP-\d+|[A-F]\d+[a-z]?")


@dataclass(frozen=True, kw_only=True)
class _Common:
    """The tables and lists that both the top level of a file and a part may have."""

    broker: dict[str, Any] = field(default_factory=dict)
    producer: dict[str, Any] = field(default_factory=dict)
    fault: list[dict[str, Any]] | None = None
    steps: list[Any] | None = None
    expect: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Part(_Common):
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class _File(_Common):
    title: str
    broker_does: str
    good_client: str
    sources: list[str]
    behaviours: list[str] = field(default_factory=list)
    clients: list[ClientName] = field(default_factory=lambda: list(CLIENTS))
    others: str = ""
    part: list[Any] = field(default_factory=lambda: [{}])


@cache
def names() -> tuple[str, ...]:
    """Returns the names of the scenarios that wirebroker includes. The scenarios B1, B2 … come first."""
    found = [each.name.removesuffix(".toml") for each in files(__package__).joinpath("files").iterdir()]
    flows = sorted(filter(_is_flow, found), key=lambda name: int(name[1:]))
    return (*flows, *sorted(name for name in found if not _is_flow(name)))


def _is_flow(name: str) -> bool:
    return re.fullmatch(r"B\d+", name) is not None


def find(name: str) -> Scenario:
    """Returns the scenario of this name. If the name ends in `.toml`, returns the scenario in this file. Raises
    ScenarioError."""
    if name.endswith(".toml"):
        try:
            return read(Path(name).stem, text_of(Path(name), ScenarioError), name)
        except OSError as refused:
            raise ScenarioError(f"{name}: {refused.strerror}") from None
    known = {each.lower(): each for each in names()}
    if name.lower() not in known:
        raise ScenarioError(f"there is no scenario {name!r}{_nearest(name, names())}")
    found = f"{known[name.lower()]}.toml"
    return read(known[name.lower()], files(__package__).joinpath("files", found).read_text(encoding="utf-8"), found)


def read(name: str, text: str, where: str) -> Scenario:
    """Returns the scenario that a file's text describes. Raises ScenarioError."""
    file = _table(_File, read_toml(text, where, ScenarioError), where)
    for source in file.sources:
        if not _SOURCE.fullmatch(source):
            known = "owner/repository#number, owner/repository: CHANGELOG.md, KAFKA-n, KIP-n or a behaviour"
            raise ScenarioError(f"{where}: the source {source!r} is not {known}")
    parts = [_table(_Part, part, f"{where}, part {number}") for number, part in enumerate(file.part, 1)]
    if len(parts) > 1 and not all(part.name for part in parts):
        raise ScenarioError(f"{where}: each of several parts needs a name")
    return Scenario(
        name, file.title, file.broker_does, file.good_client, file.sources, file.behaviours, file.clients, file.others,
        [_part(file, part, f"{where}, part {part.name!r}" if part.name else where) for part in parts],
    )  # fmt: skip


def _part(file: _File, own: _Part, where: str) -> Part:
    steps = own.steps if own.steps is not None else file.steps
    if not steps:
        raise ScenarioError(f"{where}: there are no steps, so nothing would happen")
    for number, step in enumerate(steps, 1):
        _check_step(step, f"{where}, step {number}")
    part = Part(
        own.name,
        _table(BrokerSettings, file.broker | own.broker, f"{where}, broker"),
        _table(ProducerSettings, file.producer | own.producer, f"{where}, producer"),
        steps,
        _expect(file.expect | own.expect, f"{where}, expect"),
        (own.fault if own.fault is not None else file.fault) or [],
        where,
    )
    part.rules()  # raises ScenarioError for invalid faults
    return part


def _expect(said: dict[str, Any], where: str) -> Expect:
    """Returns the expectation in an `expect` table. An inner table such as `expect.aiokafka` applies only to that client."""
    common = {word: value for word, value in said.items() if word not in CLIENTS}
    own: dict[str, Expect] = {name: _table(Expect, said[name], f"{where}.{name}") for name in CLIENTS if name in said}
    return replace(_table(Expect, common, where), clients=own)


def _check_step(step: Any, where: str) -> None:
    verb = verb_of(step) if isinstance(step, dict) else None
    if verb is None:
        word = next(iter(step), "") if isinstance(step, dict) else str(step)
        raise ScenarioError(f"{where}: there is no step {word!r}{_nearest(word, step_forms())}")
    _table(step_forms()[verb], step, where)
    if verb == "faults":
        rules_of(step["faults"], where)


def _table(kind: type[T], said: Any, where: str) -> T:
    """Returns a table of the file as an instance of the dataclass `kind`. Raises ScenarioError."""
    if not isinstance(said, dict):
        raise ScenarioError(f"{where}: expected a table, got {said!r}")
    hints = get_type_hints(kind)
    for word in said:
        if word not in hints:
            raise ScenarioError(f"{where}: there is no {word!r} here{_nearest(word, hints)}")
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as wrong:
        raise ScenarioError(f"{where}: {_reason(str(wrong), hints)}") from None


def _reason(text: str, hints: Mapping[str, Any]) -> str:
    """Returns an error message of msgspec in other words: the place, the error, and the nearest valid word."""
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", text):
        return f"{missing[1]!r} is missing"
    reason, _, place = text.partition(" - at ")
    word = re.findall(r"\$\.(\w+)", place)[0]
    if unknown := re.fullmatch(r"Invalid enum value '(.*)'", reason):
        return f"{word}: there is no {unknown[1]!r}{_nearest(unknown[1], _choices(hints[word]))}"
    return f"{word}: {reason[:1].lower()}{reason[1:]}".replace("`", "")


def _choices(hint: Any) -> list[str]:
    """Returns the allowed words of each Literal that the type contains, at any depth."""
    return [word for each in get_args(hint) for word in ([each] if isinstance(each, str) else _choices(each))]


def _nearest(word: str, known: Iterable[str]) -> str:
    return nearest(word, known, "it may be") or "; `wirebroker scenario list` has them"
