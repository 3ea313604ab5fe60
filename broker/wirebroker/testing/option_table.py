"""The options of a broker. For each option, this module declares the name, type, default and meaning, and the flag of `serve`.

MockKafka and the pytest marker take these names as arguments, and each flag has an environment variable. `testing.options`
checks the values and starts brokers. This module imports nothing heavy, because the command line needs it to read its flags.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from wirebroker.core.profile import DEFAULT_PROFILE

if TYPE_CHECKING:
    from wirebroker.core.profile import ProfileName
    from wirebroker.testing.topic_specs import Topics
    from wirebroker.trace.levels import Level

Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One data directory or several."""


class Flag(NamedTuple):
    """The flag of `serve` that sets an option."""

    name: str
    help: str
    metavar: str | None = None
    whole: tuple[int | None, int] | None = None
    """The range of a whole number."""
    path: bool = False
    """Tells whether the value names a file or a folder, and so may not be empty."""
    repeatable: bool = False
    in_lines: bool = False
    """For a repeatable flag: tells whether line breaks instead of spaces separate the values in its environment variable."""
    parts: str = ""
    """If the option is a mapping: the form in which a text gives a key and a value, such as `RULE=VALUE`."""
    numbers: bool = False
    """If the option is a mapping: tells whether its values are whole numbers."""
    choices: Sequence[str] = ()
    read: Callable[[Any], Any] | None = None
    """Converts the flag's value to the option's value."""

    @property
    def dest(self) -> str:
        """The name of the flag's value in the parsed arguments."""
        return self.name.removeprefix("--").replace("-", "_")


def _set_by(name: str, help: str, **more: Any) -> Mapping[str, Flag]:
    return {"flag": Flag(name, help, **more)}


def _folders(text: str | None) -> Folders | None:
    return text.split(",") if text else None


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Options:
    """The options that MockKafka and `serve` have in common."""

    brokers: int | None = field(
        default=None,
        metadata=_set_by("--brokers", "brokers in this process (1)", metavar="N", whole=(None, 1000)),
    )
    """The number of brokers. None means 1, or the number of brokers in the file `like`."""
    topics: Topics | None = field(
        default=None,
        metadata=_set_by(
            "--topic", "create this topic with N partitions, N replicas and Kafka's topic settings",
            metavar="NAME[:N][:rf=N][:KEY=VALUE]", repeatable=True,
        ),
    )  # fmt: skip
    """The topics to create, each optionally with a partition count, a replication factor and settings
    (`wirebroker.testing.topic_specs`): `"orders"`, `["orders:3", "payments:3:rf=2:cleanup.policy=compact"]`, `{"orders": 3}`,
    `{"orders": {"partitions": 3, "replication_factor": 2, "configs": {"cleanup.policy": "compact"}}}`."""
    like: str | os.PathLike[str] | None = field(
        default=None,
        metadata=_set_by(
            "--like", "start an empty copy of the cluster in this file of `wirebroker learn`; the other flags take precedence "
            "over the file", metavar="FILE.toml", path=True,
        ),
    )  # fmt: skip
    """A file that `wirebroker learn` wrote: the cluster is an empty copy of the learned cluster. The other options take
    precedence over the file."""
    profile: ProfileName | None = field(
        default=None,
        metadata=_set_by(
            "--profile", f"the release of Kafka, or the rules of the validator ({DEFAULT_PROFILE})", metavar="NAME"
        ),
    )
    """The release of Kafka, or the rules of the validator. None means the profile of the release
    `wirebroker.core.releases.DEFAULT`, or of the release in the file `like`."""
    rules: Mapping[str, Any] | None = field(
        default=None,
        metadata=_set_by("--set", "change one rule of the profile", metavar="RULE=VALUE", repeatable=True, parts="RULE=VALUE"),
    )
    """Values for some of the validator's rules, in place of the profile's values."""
    configs: Mapping[str, Any] | None = field(
        default=None,
        metadata=_set_by(
            "--config", "a Kafka setting by Kafka's name", metavar="KEY=VALUE", repeatable=True, parts="NAME=VALUE"
        ),
    )
    """Kafka's settings under Kafka's names."""
    data: Folders | None = field(
        default=None,
        metadata=_set_by(
            "--data", "keep everything in this directory, or in several, in Kafka's own files (default: in memory)",
            metavar="DIR[,DIR…]", path=True, read=_folders,
        ),
    )  # fmt: skip
    """The directories that keep the logs in Kafka's own files. The broker serves the records that are already there."""
    sync: Literal["always", "interval", "never"] = field(
        default="never",
        metadata=_set_by(
            "--sync", "with --data, flush the files before each response, every log.flush.interval.ms, or when the system "
            "decides, as in Kafka (%(default)s)", choices=("always", "interval", "never"),
        ),
    )  # fmt: skip
    """When the logs are flushed to the disk."""
    clock: Literal["system", "frozen"] = field(
        default="system", metadata=_set_by("--clock", "(%(default)s)", choices=("system", "frozen"))
    )
    """With "frozen", time moves only when the test moves it."""
    record_checks: Literal["full", "header"] = field(
        default="full",
        metadata=_set_by(
            "--record-checks", "check every record as Kafka does, or the batch header only (%(default)s)",
            choices=("full", "header"),
        ),
    )  # fmt: skip
    """Tells whether the broker checks every record, as Kafka does, or only the header of each batch."""
    max_versions: Mapping[str, int] | None = field(
        default=None,
        metadata=_set_by(
            "--max-version", "offer this API up to version N", metavar="API=N", repeatable=True, parts="API=VERSION",
            numbers=True,
        ),
    )  # fmt: skip
    """For some APIs, the highest version that the brokers offer."""
    random_seed: int | None = None
    """With the same seed, each start has the same ids, and faults with a probability make the same choices. `serve` and `proxy`
    share the flag."""
    cold_start: bool = False
    """With True, coordinators and automatically created topics become available only after a short time, as in Kafka, so
    clients have to retry. `serve` starts cold without the option `warm`."""
    trace: Level = "verdicts"
    """The level of the trace: "off", "verdicts", "changes", "exchanges" or "all" (`wirebroker.trace.levels`). `serve` and
    `proxy` have the flag --trace-level in common."""
    users: Mapping[str, str] | None = field(
        default=None,
        repr=False,
        metadata=_set_by(
            "--user", "a user who may log in at listeners with SASL, by any mechanism; @env:VARIABLE as the password "
            "means the value of this variable, which `ps` does not show", metavar="NAME:PASSWORD", repeatable=True,
        ),
    )  # fmt: skip
    """The names and passwords of users, for listeners with SASL."""
    telemetry: bool = field(default=False, metadata=_set_by("--telemetry", "let clients push their own metrics (KIP-714)"))
    """Tells whether clients push their own metrics (KIP-714)."""
    acls: Sequence[str] = field(
        default=(),
        metadata=_set_by(
            "--acl", "what a user may or may not do, as 'allow User:alice READ TOPIC orders'; with this flag, users may do "
            "only what ACLs allow", metavar="ACL", repeatable=True, in_lines=True,
        ),
    )  # fmt: skip
    """ACLs written as strings, like "allow User:alice READ TOPIC orders" (`wirebroker.security.acl_specs`). With ACLs, the
    broker has an authorizer, and users may do only what the ACLs allow."""
    features: Mapping[str, int] | None = field(
        default=None,
        metadata=_set_by(
            "--feature", "the level of a feature of a new cluster, as transaction.version=1", metavar="NAME=LEVEL",
            repeatable=True, parts="NAME=LEVEL", numbers=True,
        ),
    )  # fmt: skip
    """The feature levels of a new cluster."""


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ServeOptions(Options):
    """The options that only `serve` has: tests call methods for the same purposes."""

    fault_seed: int = 0
    """Makes the random choices of faults repeatable."""
    warm: bool = field(
        default=False,
        metadata=_set_by("--warm", "the coordinators' topics exist at the start, so clients need no first retry"),
    )
    """Tells whether the coordinators' internal topics exist from the start."""
    quotas: Sequence[str] = field(
        default=(),
        metadata=_set_by(
            "--quota", "a quota, as user=alice,client-id=app,producer_byte_rate=1000; the name <default> stands for all "
            "clients without a quota of their own", metavar="WHOSE,LIMIT=N", repeatable=True,
        ),
    )  # fmt: skip
    """Quotas such as `user=alice,client-id=app,producer_byte_rate=1000`."""


def flags() -> dict[str, Flag]:
    """Returns the flags of `serve` that set an option, by the option's name."""
    return {each.name: each.metadata["flag"] for each in fields(ServeOptions) if "flag" in each.metadata}


def defaults() -> dict[str, Any]:
    """Returns the options' defaults by name."""
    return {each.name: each.default for each in fields(ServeOptions)}
