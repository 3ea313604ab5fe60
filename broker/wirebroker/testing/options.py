"""Checks the options of a broker, and starts a broker with them. `wirebroker serve`, MockKafka and the pytest marker share this
module; `option_table` declares the options.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from inspect import formatannotation
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from kafkawire.compiling import fits
from kafkawire.errors import UnwritableText
from kafkawire.printable import printable
from kafkawire.registry import KEYS, api_name
from wirebroker.apis import served_versions
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.acls import Acl
from wirebroker.core.features import METADATA
from wirebroker.core.metadata_writes import check_texts
from wirebroker.core.profile import DEFAULT_PROFILE, PROFILES, Rules, profile
from wirebroker.core.quotas import CLIENT_ID, IP, PRODUCE, USER
from wirebroker.core.releases import release
from wirebroker.core.releases.naming import unknown
from wirebroker.core.setting_definitions import ignored
from wirebroker.deeds.broker import EngineBroker
from wirebroker.deeds.quotas import set_quota
from wirebroker.deeds.topics import setting
from wirebroker.engine.engine import Engine, first_node
from wirebroker.net.clock import CLOCKS, Clock
from wirebroker.security.acl_specs import AUTHORIZER, acl_of
from wirebroker.security.mechanisms import BY_PASSWORD, GSSAPI, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, SERVED
from wirebroker.security.web_tokens import UnsecuredTokens
from wirebroker.testing.operations import create_missing
from wirebroker.testing.option_table import Options, ServeOptions, flags
from wirebroker.testing.topic_specs import TopicSpec, topic_specs
from wirebroker.trace.levels import LEVELS

if TYPE_CHECKING:
    from wirebroker.storage.store import FolderStore
    from wirebroker.testing.likeness import Likeness

__tracebackhide__ = True  # pytest shows the caller's line

CHOICES = {"trace": tuple(LEVELS)} | {name: flag.choices for name, flag in flags().items() if flag.choices}

AUTO_CREATION_MS = 35
"""Clients can use an automatically created topic after this many ms. A Kafka 4.3.1 takes 33 to 39 ms after the first Metadata
request.
"""
DELETION_MS = 40
"""With ZooKeeper, the name of a deleted topic is free after this many ms. A Kafka 2.8.2 needs 30 to 60 ms to delete a topic
with one partition.
"""
LOADING_MS = 200
"""A new coordinator serves requests after this many ms. A Kafka 4.3.1 takes 145 to 310 ms after the first FindCoordinator
request."""


class OptionError(ValueError):
    """Raised if a broker cannot start with the value of an option. The message begins with the option's name."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(printable(f"{option}: {problem}"))
        self.option = option
        self.problem = problem


def check_types(declared: type[Options], given: Mapping[str, Any]) -> None:
    """Raises OptionError if the value of an option does not have the declared type."""
    hints = _types_of(declared)  # type: ignore[arg-type]  # mypy takes the hash of an instance for that of the class
    for option in fields(declared):
        if option.name in given and not _has_type(given[option.name], hints[option.name]):
            value = repr(given[option.name]) if option.repr else f"of the type {type(given[option.name]).__name__}"
            raise OptionError(option.name, f"give a value of the type {formatannotation(hints[option.name])}, not {value}")


@cache
def _types_of(declared: type[Options]) -> dict[str, Any]:
    return get_type_hints(declared, localns=dict.fromkeys(("ProfileName", "Topics", "Level", "Rule"), Any))


def _has_type(value: Any, hint: Any) -> bool:
    """Tells whether a value has a type. Other checks cover choices and the values of mappings."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_has_type(value, each) for each in inner)
    if kind in (Any, Literal):
        return kind is Any or isinstance(value, type(inner[0]))
    if kind is Sequence and isinstance(value, str):
        return False
    return isinstance(value, kind) and (kind not in (Sequence, Mapping) or all(_has_type(each, inner[0]) for each in value))


@dataclass(frozen=True, kw_only=True)
class BrokerOptions(ServeOptions):
    """The checked options with which a cluster of brokers starts. Raises OptionError."""

    def __post_init__(self) -> None:
        check_types(ServeOptions, vars(self))
        if self.brokers is not None and (type(self.brokers) is not int or self.brokers < 1):
            raise OptionError("brokers", f"a cluster has at least 1 broker, not {self.brokers!r}")
        if self.profile is not None and not isinstance(self.profile, str):
            raise OptionError("profile", unknown(self.profile, PROFILES))
        try:
            _ = self._likeness
        except ValueError as wrong:
            raise OptionError("like", str(wrong)) from None
        for option, choices in CHOICES.items():
            if (value := getattr(self, option)) not in choices:
                raise OptionError(option, f"{value!r} is not one of {', '.join(choices)}")
        if self.sync != "never" and not self.folders:
            raise OptionError("sync", f"{self.sync!r} needs a data directory, but none is given")
        if self.folders and "," in self.settings.get("log.dirs", ""):
            raise OptionError("configs", "log.dirs is only for directories in memory; name directories on disk with `data`")
        if len(set(self.folders)) < len(self.folders):
            raise OptionError("data", f"{max(self.folders, key=self.folders.count)} is named twice")
        try:
            self.new_rules()
        except ValueError as wrong:
            raise OptionError("rules" if self.profile in (None, *PROFILES) else "profile", str(wrong)) from None
        self._check_max_versions()
        self._check_features()
        self._check_security()
        try:
            _ = self._acls
        except ValueError as wrong:
            raise OptionError("acls", str(wrong)) from None
        try:
            _ = self.topic_specs
        except ValueError as wrong:
            raise OptionError("topics", str(wrong)) from None
        self._check_texts()

    def _check_max_versions(self) -> None:
        served = served_versions(self.new_rules(), {})
        names = {api_name(key): versions for key, versions in served.items()}
        for name, version in (self.max_versions or {}).items():
            if name not in names:
                unknown = f"there is no API named {name!r}{did_you_mean(name, names)}"
                raise OptionError("max_versions", f"{name} is not served here" if name in KEYS else unknown)
            oldest, newest = names[name]
            if type(version) is not int or not oldest <= version <= newest:
                raise OptionError("max_versions", f"{name} has the versions {oldest} to {newest} here, not {version!r}")

    def _check_texts(self) -> None:
        """Refuse texts that a response of the broker cannot contain."""
        of_topics = [each.configs for each in self.topic_specs.values()]
        for option, texts in {"topics": of_topics, "configs": self.configs, "quotas": self.quotas, "acls": self.acls}.items():
            try:
                check_texts(texts)
            except UnwritableText as wrong:
                raise OptionError(option, str(wrong)) from None

    def _check_features(self) -> None:
        known = release(self.new_rules().release).features
        for name, level in (self.features or {}).items():
            if name not in known:
                raise OptionError("features", f"there is no feature named {name!r}{did_you_mean(name, known)}")
            feature = known[name]
            oldest = feature.newest if name == METADATA else feature.oldest
            if type(level) is not int or not oldest <= level <= feature.newest:
                raise OptionError("features", f"{name} has the levels {oldest} to {feature.newest} here, not {level!r}")

    def _check_security(self) -> None:
        for name, password in (self.users or {}).items():
            if not name or not isinstance(password, str) or not password or not (fits(name) and fits(password)):
                raise OptionError("users", f"the user {name[:64]!a} needs a name and a password, in Unicode characters")
        enabled = [value for name, value in self._given.items() if name.endswith("sasl.enabled.mechanisms")]
        for mechanism in ",".join(enabled or [PLAIN]).split(","):
            if mechanism.strip() not in SERVED:
                why = "Kerberos is not served here" if mechanism.strip() == GSSAPI else "this mechanism is not served here"
                raise OptionError(
                    "configs", f"sasl.enabled.mechanisms={mechanism.strip()}: {why}; there are {', '.join(SERVED)}"
                )
        for name, value in self.settings.items():
            if name.endswith("sasl.jaas.config"):
                try:
                    UnsecuredTokens.configured(value)
                except ValueError as wrong:
                    raise OptionError("configs", f"{name}: {wrong}") from None

    @cached_property
    def _likeness(self) -> Likeness | None:
        if self.like is None:
            return None
        from wirebroker.testing.likeness import Likeness

        return Likeness(self.like, self.profile, self._given)

    @property
    def _given(self) -> dict[str, str]:
        """The settings in `configs`, with values in Kafka's form."""
        return {name: setting(value) for name, value in (self.configs or {}).items()}

    @property
    def settings(self) -> dict[str, str]:
        """The settings in the file `like`, overridden by the settings in `configs`; the values are in Kafka's form. The
        settings include an authorizer if there are ACLs.
        """
        own = {} if self._likeness is None else self._likeness.settings
        return ({"authorizer.class.name": AUTHORIZER} if self.acls else {}) | own | self._given

    @property
    def logins(self) -> dict[str, str]:
        """The passwords of the users in `users` and in the file `like`, by user name."""
        given = dict(self.users or {})
        return given if self._likeness is None else given | self._likeness.passwords(given)

    def mechanism_of(self, user: str) -> str:
        """Returns the mechanism with which a user can log in: the first enabled mechanism of SCRAM-SHA-256, SCRAM-SHA-512 and
        PLAIN. Returns SCRAM-SHA-256 if all three are disabled.
        """
        scram = None if self._likeness is None else self._likeness.iterations_of(user)
        own = [each for each in (SCRAM_SHA_256, SCRAM_SHA_512) if scram is None or each in scram]
        enabled = [each.strip() for each in self.settings.get("sasl.enabled.mechanisms", GSSAPI).split(",")]
        if enabled == [GSSAPI]:  # in place of Kafka's default (GSSAPI), the broker enables the mechanisms with passwords
            enabled = list(BY_PASSWORD)
        return next((each for each in (*own, PLAIN) if each in enabled), SCRAM_SHA_256)

    @cached_property
    def _nodes(self) -> dict[int, str | None]:
        """The rack of each broker, by broker id. If the rack is None, the setting `broker.rack` decides."""
        if self._likeness is not None and not self._given.keys() & {"node.id", "broker.id"}:
            return self._likeness.nodes(self.brokers)
        first = first_node(self.settings)
        count = self.brokers or (len(self._likeness.nodes(None)) if self._likeness is not None else 1)
        return dict.fromkeys(range(first, first + count))

    @cached_property
    def folders(self) -> list[Path]:
        """The directories in `data`."""
        data = [] if self.data is None else [self.data] if isinstance(self.data, str | os.PathLike) else self.data
        return list(map(Path, data))

    @cached_property
    def _acls(self) -> list[Acl]:
        return [*(() if self._likeness is None else self._likeness.acls), *map(acl_of, self.acls)]

    @cached_property
    def topic_specs(self) -> dict[str, TopicSpec]:
        """The topics to create, by name."""
        return topic_specs(self.topics or ())

    @property
    def notes(self) -> list[str]:
        """Sentences about settings in `configs` that have no effect, and about unsupported parts of the file `like`."""
        given = self.configs or {}
        names = ignored(name for name in given if not str(given[name]).startswith("@SECLEVEL="))  # of ssl.cipher.suites
        authorized = bool(self.settings.get("authorizer.class.name"))
        said = [] if self._likeness is None else self._likeness.notes(authorized=authorized)
        if names:
            why = "docs/reference/settings.md says why"
            said.append(f"these settings of Kafka have no effect here: {', '.join(names)} ({why})")
        return said

    def new_rules(self) -> Rules:
        """Returns the rules of the profile, with the changes in `rules`. Raises ValueError if a rule does not exist."""
        like = None if self._likeness is None else self._likeness.profile
        return profile(self.profile or like or DEFAULT_PROFILE, **(self.rules or {}))

    def new_clock(self) -> Clock:
        """Returns a clock of the kind that `clock` names."""
        return CLOCKS[self.clock]()

    def new_engine(self, now: int) -> Engine:
        """Returns an engine with the cluster and its topics. If the directory `data` contains a cluster, the engine gets this
        cluster.

        Raises ValueError for a setting that Kafka would not accept, and DataError (an OSError) if the directory cannot be
        used.
        """
        source = random.Random(self.random_seed)
        random_bytes = os.urandom if self.random_seed is None else source.randbytes
        store = self._open_store(*self.folders, random_bytes=random_bytes) if self.folders else None
        if store is not None and (written := store.metadata.end_offset):  # the ids must differ from the ids of earlier starts
            source.seed(f"{self.random_seed} {written}")
        try:
            return self._new_engine(now, random_bytes, store)
        except BaseException:
            if store is not None:
                store.abandon()
            raise

    def _new_engine(self, now: int, random_bytes: Callable[[int], bytes], store: FolderStore | None) -> Engine:
        like = self._likeness
        engine = Engine(
            now, random_bytes, nodes=self._nodes, settings=self.settings, rules=self.new_rules(),
            full_checks=self.record_checks == "full", cold_start=self.cold_start,
            max_versions={KEYS[name]: version for name, version in (self.max_versions or {}).items()},
            seed=self.fault_seed, telemetry=self.telemetry or (like is not None and like.telemetry), store=store,
            kafkas_defaults=like is not None,
        )  # fmt: skip
        if self.cold_start and self.clock == "system":  # with a frozen clock the delays would not end
            engine.cluster.auto_creation_ms, engine.cluster.loading_ms = AUTO_CREATION_MS, LOADING_MS
            engine.cluster.deletion_ms = DELETION_MS
        engine.trace_at(self.trace)
        new = store is None or not store.has_features
        if like is not None:
            self._become_like(engine, like, now, new=new)
        for user, password in self.logins.items():
            engine.authenticator.add_user(user, password, None if like is None else like.iterations_of(user))
        for text in self.quotas:
            try:
                set_quota(engine.cluster, *_quota(text), now)
            except ValueError as refused:
                raise OptionError("quotas", f"{text}: {refused}") from None
        engine.cluster.alter_acls(self._acls, ())
        if like is None and new:
            engine.begin_with(self.features or {})
        self._create_topics(engine, now)
        if self.warm:
            EngineBroker(engine).warm()
        engine.at_soft_reset += [lambda _: engine.trace_at(self.trace), lambda then: self._create_topics(engine, then)]
        return engine

    def _become_like(self, engine: Engine, like: Likeness, now: int, *, new: bool) -> None:
        """Give the engine what the file `like` contains besides options. If `data` contains a cluster already, the cluster
        stays unchanged.
        """
        try:
            like.offer(engine)
            if new:
                like.apply(engine, self.features or {}, now)
        except ValueError as wrong:
            raise OptionError("like", str(wrong)) from None

    def _create_topics(self, engine: Engine, now: int) -> None:
        """Create the topics that do not exist."""
        engine.set_time(now)
        if self._likeness is not None:
            try:
                self._likeness.create_topics(engine, self.topic_specs, now)
            except ValueError as wrong:
                raise OptionError("like", str(wrong)) from None
        try:
            create_missing(engine, self.topic_specs)
        except ValueError as refused:
            raise OptionError("topics", str(refused)) from None

    def _open_store(self, data: Path, *more: Path, random_bytes: Callable[[int], bytes]) -> FolderStore:
        from wirebroker.storage.store import FolderStore

        return FolderStore(data, random_bytes, more=more, sync=self.sync, nodes=list(self._nodes))


def _quota(text: str) -> tuple[dict[str, str | None], dict[str, float]]:
    """Parses a quota. Returns the entity and the limits. Raises ValueError."""
    entity: dict[str, str | None] = {}
    limits: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key in (USER, CLIENT_ID, IP):
            entity[key] = value
        else:
            try:
                limits[key] = float(value)
            except ValueError:
                raise ValueError(f"{part!r} is not {USER}=, {CLIENT_ID}=, {IP}= or a limit such as {PRODUCE}=1000") from None
    return entity, limits
