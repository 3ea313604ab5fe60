"""Reads policies for topics from a TOML file: which findings count, how grave they are, and which of them fail the audit.

    fail_on = "certain"

    [topics."*-changelog"]
    compacted = true

    [topics.payments]
    fail_on = "likely"
    ignore = ["partition_duplicate"]
    severity = { application_duplicate = "certain" }

    [topics."scratch.*"]
    ignore = true

A topic has the first table whose name matches it; `*`, `?` and `[…]` match as in a shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from wirebroker.audit.findings import KINDS, SEVERITIES
from wirebroker.common.suggestions import nearest
from wirebroker.common.toml import toml_file

FAIL_ON = ("certain", "likely", "never")
"""The values of `fail_on`: the lowest severity that makes an audit fail, or never."""
IGNORED = "ignored"
"""A finding with this severity does not count."""


class BadPolicy(Exception):
    """Raised if a file is not a policy. The message names the file, the place and the reason."""


@dataclass(frozen=True, slots=True)
class Policy:
    fail_on: str
    skip: bool = False
    """whether the topic is not audited at all"""
    compacted: bool = False
    """whether compaction may explain missing offsets anywhere in the topic"""
    severities: Mapping[str, str] = field(default_factory=dict)
    """the severities by kind; IGNORED for a finding that does not count"""

    def fails(self, severity: str) -> bool:
        """Tells whether a finding of this severity fails the audit."""
        return self.fail_on != "never" and SEVERITIES.index(severity) <= SEVERITIES.index(self.fail_on)


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies by patterns of topic names, and the policy for all other topics."""

    default: Policy = Policy("likely")
    by_pattern: tuple[tuple[str, Policy], ...] = ()

    def of(self, topic: str) -> Policy:
        return next((policy for pattern, policy in self.by_pattern if fnmatchcase(topic, pattern)), self.default)

    def severities(self, topics: Iterable[str]) -> list[tuple[str, str, str]]:
        """Returns topic, kind and severity for each severity that a topic's policy names."""
        return [(topic, kind, severity) for topic in topics for kind, severity in self.of(topic).severities.items()]


def read_policies(path: str | None, fail_on: str | None) -> Policies:
    """Returns the policies of a file; without a file, every topic has the default. `fail_on` overrides the file's value.
    Raises BadPolicy, OSError."""
    given = {} if path is None else toml_file(path, BadPolicy)
    where = f"{path}: "
    _check_names(where, given, ("fail_on", "topics"))
    default = Policy(_one_of(f"{where}fail_on", given.get("fail_on", "likely"), FAIL_ON))
    tables = given.get("topics", {})
    if not isinstance(tables, dict):
        raise BadPolicy(f'{where}topics: expected tables such as [topics."orders"], not {tables!r}')
    found = tuple((pattern, _policy(f"{where}topics.{pattern}", table, default)) for pattern, table in tables.items())
    if fail_on is None:
        return Policies(default, found)
    return Policies(
        replace(default, fail_on=fail_on), tuple((each, replace(policy, fail_on=fail_on)) for each, policy in found)
    )


def _policy(where: str, table: Any, default: Policy) -> Policy:
    if not isinstance(table, dict):
        raise BadPolicy(f"{where}: expected a table, not {table!r}")
    _check_names(f"{where}: ", table, ("fail_on", "ignore", "severity", "compacted"))
    ignore, severity = table.get("ignore", []), table.get("severity", {})
    if not isinstance(ignore, bool | list):
        raise BadPolicy(f"{where}.ignore: expected true or a list of kinds, not {ignore!r}")
    if not isinstance(severity, dict):
        raise BadPolicy(f"{where}.severity: expected a table of kinds and severities, not {severity!r}")
    kinds = [] if isinstance(ignore, bool) else ignore
    for kind in (*kinds, *severity):
        _one_of(where, kind, tuple(KINDS))
    chosen = {kind: _one_of(f"{where}.severity.{kind}", each, SEVERITIES) for kind, each in severity.items()}
    compacted = table.get("compacted", False)
    if not isinstance(compacted, bool):
        raise BadPolicy(f"{where}.compacted: expected true or false, not {compacted!r}")
    fail_on = _one_of(f"{where}.fail_on", table.get("fail_on", default.fail_on), FAIL_ON)
    return Policy(fail_on, ignore is True, compacted, chosen | dict.fromkeys(kinds, IGNORED))


def _one_of(where: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value in allowed and isinstance(value, str):
        return value
    raise BadPolicy(f"{where}: {value!r} is not known{nearest(value, allowed, 'expected one of')}")


def _check_names(where: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    for name in table:
        if name not in allowed:
            raise BadPolicy(f"{where}there is no setting {name!r}{nearest(name, allowed)}")
