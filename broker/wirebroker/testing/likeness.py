"""Makes a broker imitate a learned cluster. Some of the learned state becomes options of the broker. `Likeness.apply` puts the
rest into the broker's new engine.

Options of the user take precedence over the file. `notes` names the parts of the file that are dropped because wirebroker does
not support them. A file that contradicts itself is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from os import PathLike

from kafkawire.registry import KEYS
from wirebroker.core.acls import Acl, Operation, PatternType, Permission, ResourceType
from wirebroker.core.config_resources import ResourceType as ConfigResource
from wirebroker.core.config_resources import check_stored
from wirebroker.core.features import ELIGIBLE_REPLICAS
from wirebroker.core.names import topic_name_error
from wirebroker.core.profile import PROFILES
from wirebroker.core.releases import DEFAULT, release
from wirebroker.core.setting_definitions import ConfigError, definitions_of
from wirebroker.deeds.quotas import set_quota
from wirebroker.engine.engine import Engine
from wirebroker.security.acl_specs import AUTHORIZER
from wirebroker.security.mechanisms import SERVED
from wirebroker.security.scram import BY_NAME, LEAST_ITERATIONS, MOST_ITERATIONS
from wirebroker.testing.learned_file import Acl as LearnedAcl
from wirebroker.testing.learned_file import FileError, Group, Settings, Topic, read

__tracebackhide__ = True  # pytest shows the caller's line

ENABLED_MECHANISMS = "sasl.enabled.mechanisms"
OPEN, SUPER_USERS = "allow.everyone.if.no.acl.found", "super.users"
TELEMETRY = "GetTelemetrySubscriptions"
TIERED = "remote.storage.enable"
NO_PASSWORD = frozenset({"*", "ANONYMOUS"})
SHOWN = 8


class Likeness:
    """The options of a broker that imitates a learned cluster. Raises FileError for a file that cannot be used.

    In addition to the file, the user may give a profile (`profile`) and settings (`given`).
    """

    def __init__(self, path: str | PathLike[str], profile: str | None, given: Mapping[str, str]) -> None:
        self.where = str(path)
        self._learned = read(self.where)
        self._given = given
        self._dropped: list[str] = []
        self.profile = profile or f"kafka-{self._learned.release or DEFAULT}"
        """The user's profile or, without one, the profile of the learned cluster's release."""
        self._assumed = profile is None and not self._learned.release
        if profile is None and self.profile not in PROFILES:
            raise FileError(f"{self.where}: there is no profile {self.profile}; give another profile in addition to the file")
        self._release = release(PROFILES[self.profile].release if self.profile in PROFILES else DEFAULT)
        self._definitions = definitions_of(self._release.settings)
        self._check_versions()
        self._dropped += [f"the feature {name}" for name in self._learned.features if name not in self._release.features]
        self._apart = {each.node_id: self._known(each.settings) for each in self._learned.brokers if each.settings}
        self.settings = self._static()
        self.acls = [self._acl(each) for each in self._learned.acls]
        if self.acls:
            self.settings.setdefault("authorizer.class.name", AUTHORIZER)
        self.quotas = self._learned.quotas
        self._altered: dict[int | None, Mapping[str, str]] = {None: self._known(self._learned.altered)}
        self._altered |= {each.node_id: self._known(each.altered) for each in self._learned.brokers if each.altered}
        self._topics = [self._with_known_settings(each) for each in self._learned.topics]
        self._groups = {each.name: self._known_of_group(each) for each in self._learned.groups}
        self._iterations = {each.name: self._mechanisms(each.name, each.mechanisms) for each in self._learned.users}
        self.telemetry = TELEMETRY in self._learned.api_versions

    def nodes(self, count: int | None) -> dict[int, str | None]:
        """Returns the racks of the brokers by broker id. With `count`, the result has exactly `count` brokers; learned brokers
        are left out, or new brokers added.
        """
        found = {each.node_id: each.rack for each in sorted(self._learned.brokers, key=lambda each: each.node_id)}
        if count is None:
            return found
        wanted = [*found, *range(max(found) + 1, max(found) + 1 + count - len(found))][:count]
        return {node_id: found.get(node_id) for node_id in wanted}

    def passwords(self, given: Mapping[str, str]) -> dict[str, str]:
        """Returns a password for every user that the file names. If the user has no password in `given`, the password is the
        user's name."""
        principals = {each.principal for each in self._learned.acls}
        principals |= {each.strip() for each in self.settings.get(SUPER_USERS, "").split(";")}
        named = {name for kind, _, name in (each.partition(":") for each in principals) if kind == "User" and name}
        return {name: given.get(name, name) for name in sorted((named | self._iterations.keys()) - NO_PASSWORD)}

    def iterations_of(self, user: str) -> dict[str, int] | None:
        """Returns the iterations of a user's SCRAM credentials by mechanism. Returns None if the file does not name the user,
        who then gets credentials for every mechanism.
        """
        return self._iterations.get(user, {} if user in self.passwords({}) else None)

    def notes(self, *, authorized: bool) -> list[str]:
        """Returns sentences about differences between the broker and the learned cluster. `authorized` tells whether the broker
        has an authorizer."""
        said = []
        if (unread := self._learned.unread) and (sections := sorted({each.section for each in unread})):
            said.append(f"{self.where}: these sections could not be read from the learned cluster: {', '.join(sections)}")
        if not authorized and any(each.section == "acls" for each in self._learned.unread):
            said.append(
                f"{self.where}: the ACLs could not be read, so this broker checks no ACLs, and clients may do everything"
            )
        if authorized and self._hides(OPEN):
            said.append(
                f"{self.where}: the learned cluster sets {OPEN}, and Kafka hides its value; this broker assumes `true`, "
                f"unless you give --config {OPEN}=false"
            )
        if authorized and self._hides(SUPER_USERS):
            said.append(
                f"{self.where}: the learned cluster has {SUPER_USERS}, and Kafka hides them; this broker has none until you "
                f"name them: --config {SUPER_USERS}=User:NAME"
            )
        if self._assumed:
            said.append(f"{self.where}: the file names no release, so this broker responds as {self.profile}")
        if dropped := sorted(set(self._dropped)):
            more = f" and {len(dropped) - SHOWN} more" if len(dropped) > SHOWN else ""
            said.append(f"{self.where}: wirebroker does not have {', '.join(dropped[:SHOWN])}{more}")
        return said

    # Reading the file

    def _static(self) -> Settings:
        """Returns the static settings. If the learned brokers have different values of a setting, the broker with the smallest
        id decides.
        """
        found = self._known(self._learned.settings)
        for node_id in sorted(self._apart, reverse=True):
            found |= self._apart[node_id]
        if ENABLED_MECHANISMS in found:
            enabled = [each.strip() for each in found[ENABLED_MECHANISMS].split(",")]
            self._dropped += [f"the mechanism {each}" for each in enabled if each not in SERVED]
            found[ENABLED_MECHANISMS] = ",".join(each for each in enabled if each in SERVED)
            if not found[ENABLED_MECHANISMS]:
                del found[ENABLED_MECHANISMS]
        if self._hides(OPEN):
            found[OPEN] = "true"  # a cluster that sets this setting uses it to allow clients without ACLs
        return found

    def _hides(self, name: str) -> bool:
        """Tells whether the value of a setting is unknown: the learned cluster has the setting, but hid its value, and the user
        has not given a value."""
        return name in self._learned.left_out and name not in self._given

    def _known(self, settings: Mapping[str, str]) -> Settings:
        """Returns the settings that wirebroker supports, except settings that the user has given. Raises FileError."""
        found: Settings = {}
        for name, value in settings.items():
            if name in self._given:
                continue
            setting = self._definitions.broker.get(name)
            if setting is None or setting.absent:
                self._dropped.append(name)
                continue
            try:
                setting.parse(value)
            except ConfigError as wrong:
                raise FileError(f"{self.where}: {wrong}") from None
            found[name] = value
        return found

    def _check_versions(self) -> None:
        """Note which of the learned cluster's APIs wirebroker does not have. Raises FileError if no client can work with the
        API versions in the file."""
        versions = self._learned.api_versions
        if versions and "ApiVersions" not in versions:
            raise FileError(f"{self.where}: api_versions has no ApiVersions, which clients request first")
        for name, (oldest, newest) in versions.items():
            if not 0 <= oldest <= newest:
                raise FileError(
                    f"{self.where}: {name} has the versions {oldest} to {newest}, expected the oldest version first"
                )
        self._dropped += [f"the API {name}" for name in versions if name not in KEYS]

    def _acl(self, acl: LearnedAcl) -> Acl:
        if ":" not in acl.principal:
            raise FileError(
                f"{self.where}: an ACL has the principal {acl.principal!r}, expected a principal such as User:alice"
            )
        try:
            return Acl(
                ResourceType[acl.resource], acl.name, PatternType[acl.pattern], acl.principal, acl.host,
                Operation[acl.operation], Permission[acl.permission],
            )  # fmt: skip
        except KeyError as unknown:
            raise FileError(f"{self.where}: an ACL of {acl.principal} has {unknown}, which Kafka does not have") from None

    def _mechanisms(self, user: str, mechanisms: Mapping[str, int]) -> dict[str, int]:
        for name, iterations in mechanisms.items():
            if name not in BY_NAME:
                raise FileError(f"{self.where}: the user {user} has the mechanism {name}; known: {', '.join(BY_NAME)}")
            if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
                raise FileError(
                    f"{self.where}: {name} of the user {user} has {iterations} iterations, "
                    f"expected {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
                )
        return dict(mechanisms)

    def _with_known_settings(self, topic: Topic) -> Topic:
        """Returns the topic without the settings that wirebroker does not support."""
        unknown = [name for name in topic.settings if name == TIERED or not self._definitions.has_topic_setting(name)]
        self._dropped += [f"{name} of topics" for name in unknown]
        settings = {name: value for name, value in topic.settings.items() if name not in unknown}
        return Topic(name=topic.name, replicas=topic.replicas, settings=settings)

    def _known_of_group(self, group: Group) -> Settings:
        """Returns those settings of the group that wirebroker supports."""
        known = self._definitions.group
        held = {name: value for name, value in group.settings.items() if name in known and not known[name].absent}
        self._dropped += [f"{name} of groups" for name in group.settings.keys() - held.keys()]
        return held

    # The engine

    def apply(self, engine: Engine, features: Mapping[str, int], now: int) -> None:
        """Puts into a new engine the part of the learned state for which there are no options. `features` are feature levels
        that the user has given.

        Raises FileError if the engine refuses a part of the file.
        """
        known = self._release.features
        levels = {name: level for name, (_, _, level) in self._learned.features.items() if name in known} | dict(features)
        for name, level in levels.items():
            if not 0 <= level <= known[name].newest:
                raise FileError(f"{self.where}: {name} is at level {level}, but the newest level here is {known[name].newest}")
        engine.begin_with(levels)
        engine.configs.restore(self._altered)
        engine.configs.apart = dict(self._apart)
        if levels.get(ELIGIBLE_REPLICAS):
            engine.configs.begin_eligible_replicas()
        for quota in self.quotas:
            try:
                set_quota(engine.cluster, quota.entity, quota.limits, now)
            except ValueError as refused:
                raise FileError(f"{self.where}: the quota of {quota.entity} is refused: {refused}") from None
        self._set_up_groups(engine)

    def offer(self, engine: Engine) -> None:
        """Makes the engine's brokers offer only the API versions that both the learned cluster and wirebroker support."""
        announced = {KEYS[name]: versions for name, versions in self._learned.api_versions.items() if name in KEYS}
        if not announced:
            return
        for broker in engine.cluster.brokers.values():
            offered = {}
            for key, (oldest, newest) in broker.versions.items():
                first, last = announced.get(key, (0, -1))
                if max(oldest, first) <= min(newest, last):
                    offered[key] = max(oldest, first), min(newest, last)
            broker.versions = offered

    def _set_up_groups(self, engine: Engine) -> None:
        for name, held in self._groups.items():
            if held:
                try:
                    check_stored(ConfigResource.GROUP, name, held, engine.configs)
                except ConfigError as wrong:
                    raise FileError(f"{self.where}: the settings of the group {name} are refused: {wrong}") from None
                engine.configs.groups[name] = dict(held)

    def create_topics(self, engine: Engine, but: Collection[str], now: int) -> None:
        """Creates the missing topics, except the topics in `but`. Raises FileError."""
        nodes = engine.cluster.brokers.keys()
        for topic in self._topics:
            if topic.name in but or topic.name in engine.cluster.topics:
                continue
            try:
                _create(engine, topic, nodes, now)
            except ValueError as refused:
                raise FileError(f"{self.where}: the topic {topic.name} is refused: {refused}") from None


def _create(engine: Engine, topic: Topic, nodes: Iterable[int], now: int) -> None:
    """Creates a topic with replicas on the same broker ids as in the learned cluster. If the new cluster lacks these ids, any
    brokers get the replicas. Raises ValueError and OSError.
    """
    if (error := topic_name_error(topic.name)) is not None:
        raise ValueError(error)
    known = set(nodes)
    placed = all(known.issuperset(replicas) for replicas in topic.replicas)
    engine.cluster.create_topic(
        topic.name, now, partitions=len(topic.replicas), replication_factor=min(len(topic.replicas[0]), len(known)),
        assignment=dict(enumerate(topic.replicas)) if placed else None, overrides=topic.settings,
    )  # fmt: skip
