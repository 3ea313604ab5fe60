"""Reads and writes the file of a learned cluster, and defines its format.

The file contains no records and no secrets. `wirebroker learn` writes it, people may edit it, and `serve --like` reads it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kafkawire.errors import UnwritableText
from kafkawire.printable import printable
from wirebroker.common.complaints import Complaint
from wirebroker.common.toml import read_toml, text_of, toml_of
from wirebroker.core.metadata_writes import check_texts

FORMAT = 1
"""The version of the file format, which is in each file. Another version of wirebroker may use another file format."""
LARGEST_NODE = 2**31 - 1
DEFAULT = "<default>"
"""In a quota, the name of the default entity. Its limits apply to all entities without a limit of their own."""
HEAD = """\
# A cluster as `wirebroker learn` read it. `wirebroker serve --like FILE` serves such a cluster, empty.
# No records and no secrets are in this file.
"""
T = TypeVar("T")
Settings = dict[str, str]


class FileError(Complaint, ValueError):
    """Raised if a file is not the file of a learned cluster. The message names the file and the mistake."""


class _Form(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The base class of the tables in the file. A field that has its default value is not written."""


class Broker(_Form):
    """A broker. `settings` are the static settings of the broker that differ from the cluster's settings. `altered` are the
    dynamic settings of the broker."""

    node_id: int
    rack: str | None = None
    settings: Settings = {}
    altered: Settings = {}


class Topic(_Form):
    """A topic. For each partition, `replicas` has the ids of the brokers with replicas. The first broker is the preferred
    leader."""

    name: str
    replicas: list[list[int]]
    settings: Settings = {}


class Group(_Form):
    """A group. `type` is classic, consumer, share or streams. `protocol` is the protocol on which the members agreed, such as
    an assignor."""

    name: str
    type: str = "classic"
    protocol_type: str = ""
    protocol: str = ""
    settings: Settings = {}


class Quota(_Form):
    """The limits of a quota entity: a user, a client id, a user with a client id, or an IP address."""

    entity: dict[str, str]
    limits: dict[str, float]


class Acl(_Form):
    """An ACL. `permission`, `operation`, `resource` and `pattern` are names in Kafka's enumerations."""

    permission: str
    principal: str
    operation: str
    resource: str
    name: str
    pattern: str = "LITERAL"
    host: str = "*"


class User(_Form):
    """A user with SCRAM credentials. For each mechanism, `mechanisms` has the number of iterations."""

    name: str
    mechanisms: dict[str, int]


class Unread(_Form):
    """A section, or a part of a section, that could not be read. `error` is the reason, and `needs` is the permission that the
    user needs to read the section."""

    section: str
    error: str
    needs: str = ""


class Learned(_Form):
    """A learned cluster.

    `release` is a release of Kafka, such as "3.9". `exact` is false if no release announces exactly the cluster's API versions.
    Then `release` is the most similar release. For each feature, `features` has the oldest and the newest supported level, and
    the current level. `settings` are static settings, and `altered` are dynamic settings. `left_out` has the names of settings
    that are not in the file, because they are secrets, describe a machine, or reveal a name.
    """

    format: int
    release: str = ""
    exact: bool = True
    anonymous: bool = False
    left_out: list[str] = []
    settings: Settings = {}
    altered: Settings = {}
    features: dict[str, tuple[int, int, int]] = {}
    brokers: list[Broker] = msgspec.field(name="broker", default_factory=list)
    topics: list[Topic] = msgspec.field(name="topic", default_factory=list)
    groups: list[Group] = msgspec.field(name="group", default_factory=list)
    quotas: list[Quota] = msgspec.field(name="quota", default_factory=list)
    acls: list[Acl] = msgspec.field(name="acl", default_factory=list)
    users: list[User] = msgspec.field(name="user", default_factory=list)
    unread: list[Unread] = []
    api_versions: dict[str, tuple[int, int]] = {}


# Writing


def dump(learned: Learned) -> str:
    """Returns the text of a file with the learned cluster."""
    document: dict[str, Any] = msgspec.to_builtins(learned)
    plain = [f"{name} = {toml_of(value)}\n" for name, value in document.items() if not _is_table(value)]
    parts = [HEAD + "".join(plain)]
    for name, value in document.items():
        if isinstance(value, dict):
            parts.append(f"[{name}]\n" + "".join(f"{_key(key)} = {toml_of(each)}\n" for key, each in value.items()))
        elif _is_table(value):
            parts += [f"[[{name}]]\n" + "".join(_lines(table)) for table in value]
    return "\n".join(parts)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list | tuple) and bool(value) and isinstance(value[0], dict))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_of(name)


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict):
            inline = ", ".join(f"{_key(key)} = {toml_of(each)}" for key, each in value.items())
            yield f"{name} = {{ {inline} }}\n"
        elif value is not None:
            yield f"{name} = {toml_of(value)}\n"


# Reading


def read(path: str | Path) -> Learned:
    """Reads the file of a learned cluster. Raises FileError."""
    try:
        text = text_of(Path(path), FileError)
    except OSError as refused:
        raise FileError(f"{path}: {refused.strerror or refused}") from None
    return loads(text, str(path))


def loads(text: str, where: str) -> Learned:
    """Returns the learned cluster that the text of a file describes. `where` is the file's name in error messages. Raises
    FileError."""
    document = read_toml(text, where, FileError)
    try:
        check_texts(document)
    except UnwritableText as wrong:
        raise FileError(f"{where}: {wrong}") from None
    if document.get("format") != FORMAT:
        found = f"format is {document['format']!r}" if "format" in document else "format is missing"
        raise FileError(printable(f"{where}: {found}, expected {FORMAT}; `wirebroker learn` of this version writes such files"))
    try:
        learned = msgspec.convert(document, Learned)
    except msgspec.ValidationError as wrong:
        raise FileError(printable(f"{where}: {_reason(str(wrong), document)}")) from None
    if problem := contradiction(learned):
        raise FileError(printable(f"{where}: {problem}"))
    return learned


def _reason(text: str, document: dict[str, Any]) -> str:
    """Returns an error message of msgspec in plainer words, with the place of the error as in the TOML file. `document` is the
    content of the file, and is changed by this function."""
    reason, _, place = text.partition(" - at ")
    reason = reason.replace("Object missing required field", "there is no").replace("Object contains unknown field", "unknown:")
    place = re.sub(r"\[(\d+)\]", lambda match: f" {int(match[1]) + 1}", place.strip("`$").lstrip(".")).replace(".", ", ")
    if "[...]" in text:
        place = place.replace("[, , , ]", f", {_key_of(text, document)}")
    return f"{place + ': ' if place else ''}{reason.replace('`', '')}"


def _key_of(text: str, document: dict[str, Any]) -> str:
    """Returns the key for which msgspec writes "[...]" in an error. To find the key, this function reduces the table to one key
    after another, until msgspec reports the same error."""
    path = text.partition("`$.")[2].partition("[...]")[0]
    *outer, name = [int(each) if each.isdigit() else each for each in re.findall(r"\w+", path)]
    holder: Any = document
    for each in outer:
        holder = holder[each]
    for key, value in holder[name].items():
        holder[name] = {key: value}
        try:
            msgspec.convert(document, Learned)
        except msgspec.ValidationError as wrong:
            if str(wrong) == text:
                return str(key)
    return "?"


def contradiction(learned: Learned) -> str:
    """Returns a sentence about the first contradiction between parts of a cluster, or "" if there is none."""
    nodes = [each.node_id for each in learned.brokers]
    if not nodes or len(set(nodes)) < len(nodes) or min(nodes) < 0 or max(nodes) > LARGEST_NODE:
        return f"a cluster needs brokers with different ids from 0 to {LARGEST_NODE}; the file has {nodes or 'no brokers'}"
    for quota in learned.quotas:
        if not all(map(math.isfinite, quota.limits.values())):
            return f"the quota of {quota.entity} has a limit that is not a number"
    seen: set[str] = set()
    for topic in learned.topics:
        if topic.name in seen:
            return f"the topic {topic.name!r} occurs twice"
        seen.add(topic.name)
        if not topic.replicas:
            return f"the topic {topic.name!r} has no partitions"
        for index, replicas in enumerate(topic.replicas):
            if not replicas or len(set(replicas)) < len(replicas):
                return f"{topic.name}-{index} has the replicas {replicas}, expected one or more different brokers"
            if unknown := set(replicas) - set(nodes):
                return f"{topic.name}-{index} has a replica on broker {min(unknown)}, which does not exist"
    return ""
