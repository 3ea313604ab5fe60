"""Scenario files: what they may say, and what they mean.

A scenario is played in one or more parts, each on a broker of its own. What the file says at the top holds for all parts;
a part adds to its tables (`broker`, `producer`, `expect`) and replaces its lists (`fault`, `steps`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from wirebroker.clients import CLIENTS, ClientName, ProducerSettings
from wirebroker.faults.files import FaultFileError, parse
from wirebroker.faults.rules import Rule

TOPIC, RESULTS = "orders", "results"
"""What a workload writes to, and where a pipeline's results go."""
OutcomeName = Literal["recovers", "fails cleanly", "duplicates", "loses", "reorders", "hangs", "refuses"]
OUTCOMES: tuple[OutcomeName, ...] = get_args(OutcomeName)
OPTIONS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "produce": {"produce": int, "partitions": list, "wait": bool, "by": str, "threads": int, "bytes": int},
    "flush": {"flush": bool, "by": str},
    "send_again": {"send_again": (str, list), "partition": int, "by": str},
    "begin": {"begin": bool, "by": str},
    "commit": {"commit": bool, "by": str},
    "abort": {"abort": bool, "by": str},
    "transaction": {"transaction": int, "partitions": list, "again": int, "by": str},
    "crash": {"crash": bool, "by": str},
    "process": {"process": int, "offsets": str, "crash_after": int},
    "consume": {"consume": int, "isolation": str, "to_end": bool},
    "open_transaction": {"open_transaction": int},
    "empty_transaction": {"empty_transaction": bool},
    "restart": {"restart": str},
    "kill": {"kill": str},
    "freeze": {"freeze": bool},
    "move_leader": {"move_leader": bool},
    "advance": {"advance": dict},
    "delete_records": {"delete_records": bool},
    "faults": {"faults": list},
    "clear_faults": {"clear_faults": bool},
    "wait_for_fault": {"wait_for_fault": str},
    "wait_for_stored": {"wait_for_stored": int},
}
"""What a step may be, by the word that says what it does, with its options and their types."""
OFFSETS = ("after", "in transaction", "with output")
"""How a pipeline remembers how far it has come."""
KILLED = ("leader", "transaction coordinator")
"""Brokers that can be killed, by what they are."""
_SOURCE = re.compile(r"[\w.-]+/[\w.-]+(#\d+|: CHANGELOG\.md)|KAFKA-\d+|KIP-\d+|[A-F]\d+[a-z]?")
_TOP = {
    "title": str, "behaviours": list, "broker_does": str, "good_client": str, "sources": list, "clients": list,
    "others": str, "broker": dict, "producer": dict, "fault": list, "steps": list, "expect": dict, "part": list,
}  # fmt: skip
_PART = {"name": str, "broker": dict, "producer": dict, "fault": list, "steps": list, "expect": dict}
_NEEDED = ("title", "broker_does", "good_client", "sources")


class ScenarioError(ValueError):
    """A scenario that does not exist or cannot be played; the message says where and what to do."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How the broker is set up: the words of MockKafka, and states that it is to have reached before."""

    brokers: int = 1
    partitions: int = 1
    profile: str = "kafka-4.3"
    rules: dict[str, Any] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    producer_epoch: int = 0
    """Epoch that the first InitProducerId hands out, or that the transactional id has reached."""


@dataclass(frozen=True, slots=True)
class Expect:
    """How a run is to end, as far as it is said. Counts are of records."""

    outcome: list[OutcomeName] = field(default_factory=lambda: ["recovers"])
    stored: int | None = None
    doubled: int | None = None
    lost: int | None = None
    failed: int | None = None
    """How many the client reported as failed."""
    clients: dict[str, Expect] = field(default_factory=dict)
    """What is expected of single clients instead, by their names."""

    def of(self, client: str) -> Expect:
        """What is expected of this client."""
        return self.clients.get(client, self)


@dataclass(frozen=True, slots=True)
class Part:
    """One run of a scenario."""

    name: str
    broker: BrokerSettings
    producer: ProducerSettings
    steps: list[dict[str, Any]]
    expect: Expect
    faults: list[dict[str, Any]]
    where: str

    def rules(self) -> list[Rule]:
        """The faults as new rules that have not fired."""
        return rules_of(self.faults, self.where)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named misfortune."""

    name: str
    title: str
    broker_does: str
    good_client: str
    sources: list[str]
    behaviours: list[str]
    clients: list[ClientName]
    others: str
    """Why not every client can play it."""
    parts: list[Part]


def rules_of(faults: list[dict[str, Any]], where: str) -> list[Rule]:
    """Rules from tables in the words of a fault file. Raises ScenarioError."""
    try:
        return parse({"fault": faults}, where).rules
    except FaultFileError as wrong:
        raise ScenarioError(str(wrong)) from None


@cache
def names() -> tuple[str, ...]:
    """The names of the scenarios that come with wirebroker: the flows first."""
    found = [each.name.removesuffix(".toml") for each in files(__package__).joinpath("files").iterdir()]
    flows = sorted(filter(_is_flow, found), key=lambda name: int(name[1:]))
    return (*flows, *sorted(name for name in found if not _is_flow(name)))


def _is_flow(name: str) -> bool:
    return re.fullmatch(r"B\d+", name) is not None


def find(name: str) -> Scenario:
    """The scenario of this name, or in this file if it ends in `.toml`. Raises ScenarioError."""
    if name.endswith(".toml"):
        try:
            return read(Path(name).stem, Path(name).read_text(encoding="utf-8"), name)
        except OSError as refused:
            raise ScenarioError(f"{name}: {refused.strerror}") from None
        except UnicodeDecodeError as wrong:
            raise ScenarioError(f"{name}: this is not UTF-8: {wrong}") from None
    known = {each.lower(): each for each in names()}
    if name.lower() not in known:
        raise ScenarioError(f"there is no scenario {name!r}{_nearest(name, names())}")
    found = f"{known[name.lower()]}.toml"
    return read(known[name.lower()], files(__package__).joinpath("files", found).read_text(encoding="utf-8"), found)


def read(name: str, text: str, where: str) -> Scenario:
    """The scenario that a file's text describes. Raises ScenarioError."""
    try:
        said = tomllib.loads(text)
    except (ValueError, RecursionError) as damage:  # a number of thousands of digits is a plain ValueError
        raise ScenarioError(f"{where}: this is no TOML: {damage}") from None
    _check(said, _TOP, where)
    for word in _NEEDED:
        if word not in said:
            raise ScenarioError(f"{where}: {word!r} is missing")
    for source in said["sources"]:
        if not _SOURCE.fullmatch(str(source)):
            known = "owner/repository#number, owner/repository: CHANGELOG.md, KAFKA-n, KIP-n or a behaviour"
            raise ScenarioError(f"{where}: the source {source!r} is not {known}")
    clients = said.get("clients", list(CLIENTS))
    for client in clients:
        if client not in CLIENTS:
            raise ScenarioError(f"{where}: there is no client {client!r}{_nearest(client, CLIENTS)}")
    parts = said.get("part", [{}])
    for number, part in enumerate(parts):
        _check(part, _PART, f"{where}, part {number + 1}")
    return Scenario(
        name, said["title"], said["broker_does"], said["good_client"], said["sources"], said.get("behaviours", []),
        clients, said.get("others", ""), [_part(said, part, where, len(parts)) for part in parts],
    )  # fmt: skip


def _part(said: dict[str, Any], own: dict[str, Any], where: str, count: int) -> Part:
    name = own.get("name", "")
    if count > 1:
        if not name:
            raise ScenarioError(f"{where}: each of several parts needs a name")
        where = f"{where}, part {name!r}"
    steps = own.get("steps", said.get("steps"))
    if not steps:
        raise ScenarioError(f"{where}: there are no steps, so nothing would happen")
    for number, step in enumerate(steps):
        _step(step, f"{where}, step {number + 1}")
    part = Part(
        name,
        _table(BrokerSettings, said.get("broker", {}) | own.get("broker", {}), f"{where}, broker"),
        _table(ProducerSettings, said.get("producer", {}) | own.get("producer", {}), f"{where}, producer"),
        steps,
        _expect(said.get("expect", {}) | own.get("expect", {}), f"{where}, expect"),
        own.get("fault", said.get("fault", [])),
        where,
    )
    part.rules()
    return part


def _expect(said: dict[str, Any], where: str) -> Expect:
    own = {name: _table(Expect, table, f"{where}.{name}") for name, table in said.items() if name in CLIENTS}
    common = {word: value for word, value in said.items() if word not in CLIENTS}
    expect: Expect = _table(Expect, common | {"clients": own}, where)
    for each in (expect, *own.values()):
        for outcome in each.outcome:
            if outcome not in OUTCOMES:
                raise ScenarioError(f"{where}: there is no outcome {outcome!r}{_nearest(outcome, OUTCOMES)}")
    return expect


def verb_of(step: Mapping[str, Any]) -> str | None:
    """The word of a step that says what it does."""
    return next((word for word in step if word in OPTIONS), None)


def _step(step: Any, where: str) -> None:
    verb = verb_of(step) if isinstance(step, dict) else None
    if verb is None:
        word = next(iter(step), "") if isinstance(step, dict) else str(step)
        raise ScenarioError(f"{where}: no step does {word!r}{_nearest(word, OPTIONS)}")
    _check(step, OPTIONS[verb], where)
    if verb == "process" and step.get("offsets") not in OFFSETS:
        raise ScenarioError(f"{where}: offsets are kept {', '.join(map(repr, OFFSETS))}, not {step.get('offsets')!r}")
    if verb == "kill" and step["kill"] not in KILLED:
        raise ScenarioError(f"{where}: killed is {' or '.join(map(repr, KILLED))}, not {step['kill']!r}")
    if verb == "faults":
        rules_of(step["faults"], where)


def _check(said: Any, known: Mapping[str, type | tuple[type, ...]], where: str) -> None:
    if not isinstance(said, dict):
        raise ScenarioError(f"{where}: this is a table, not {said!r}")
    for word, value in said.items():
        if word not in known:
            raise ScenarioError(f"{where}: there is no {word!r} here{_nearest(word, known)}")
        kind = known[word]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise ScenarioError(f"{where}: {word} cannot be {value!r}")


def _table(kind: type[Any], said: Mapping[str, Any], where: str) -> Any:
    """A table as an instance of its class, whose fields are the words that it may have."""
    known = {each.name: each for each in fields(kind)}
    for word, value in said.items():
        if word not in known:
            raise ScenarioError(f"{where}: there is no {word!r} here{_nearest(word, known)}")
        allowed = str(known[word].type)
        if not re.search(rf"\b{type(value).__name__}\b", allowed):
            raise ScenarioError(f"{where}: {word} cannot be {value!r}")
    return kind(**said)


def _nearest(word: str, known: Iterable[str]) -> str:
    known = list(known)
    close = get_close_matches(word, known, 1, 0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; it may be {', '.join(known)}" if len(known) < 30 else "; `wirebroker scenario list` has them"
