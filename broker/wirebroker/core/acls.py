"""ACLs and the rules of StandardAuthorizerData (KIP-11, KIP-290).

A denying ACL takes precedence over all allowing ACLs. If a resource has no ACL, access to the resource is refused, unless
allow.everyone.if.no.acl.found is set. Super users may do everything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from kafkawire.disk.metadata import AclImage
from wirebroker.core.networks import holds
from wirebroker.core.releases import Release
from wirebroker.core.releases.changes import ByRelease

NO_OPERATIONS = ByRelease(0).then(
    "2.5", -(2**31), "Metadata and DescribeGroups return −2³¹ instead of 0 for authorized operations that were not requested"
)
NEWEST_RESOURCE = (
    ByRelease(4)
    .then("2.4", 8, "a broker's loggers have levels", "KIP-412")
    .then("3.7", 16, "client metrics have settings", "KIP-714")
    .then("4.0", 32, "groups have settings", "KIP-848")
)
"""For each release, the largest number that DescribeConfigs uses for a kind of resource with settings."""


class ResourceType(IntEnum):
    """The type of an ACL's resource, by its number on the wire."""

    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class PatternType(IntEnum):
    """The way in which an ACL names its resources. ANY and MATCH are only for filters."""

    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class Operation(IntEnum):
    """An operation on a resource."""

    (
        UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS,
        IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT,
    ) = range(16)  # fmt: skip


class Permission(IntEnum):
    """The effect of an ACL: deny or allow."""

    UNKNOWN, ANY, DENY, ALLOW = range(4)


WILDCARD = "*"
"""In a literal pattern, this name stands for all names. As a host, it stands for all hosts."""
EVERYBODY = "User:*"
CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of the type CLUSTER."""
GROUP_SETTINGS = 32
"""The number that DescribeConfigs uses for groups."""
_O = Operation
OPERATIONS = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip
"""The operations that responses list as allowed."""
WITHOUT_SETTINGS = (_O.READ, _O.DELETE, _O.DESCRIBE)
"""The operations on a group that responses list as allowed, in releases in which groups have no settings."""


def has_settings(resource: int, release: Release) -> bool:
    """Tells whether this kind of resource (a number in DescribeConfigs) has settings in the release."""
    return resource <= NEWEST_RESOURCE.of(release)


def operations_on(kind: ResourceType, release: Release) -> tuple[Operation, ...]:
    """Returns those operations on a resource that responses of this release list as allowed."""
    settled = kind != ResourceType.GROUP or has_settings(GROUP_SETTINGS, release)
    return OPERATIONS[kind] if settled else WITHOUT_SETTINGS


IMPLIED_BY = {
    Operation.DESCRIBE: (_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER),
    Operation.DESCRIBE_CONFIGS: (_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
}
"""If an ACL allows one of these operations, it also allows the operation in the key. For example, an ACL that allows READ also
allows DESCRIBE. A denying ACL denies only the operation that it names.
"""


class Acl(AclImage):
    __slots__ = ()

    def __str__(self) -> str:
        does = "allows" if self.permission == Permission.ALLOW else "denies"
        many = "*" if self.pattern_type == PatternType.PREFIXED else ""
        where = "" if self.host == WILDCARD else f" from {self.host}"
        kind = ResourceType(self.resource_type).name
        return f"an ACL {does} {self.principal} {Operation(self.operation).name} on {kind} {self.name}{many}{where}"

    def comes_from(self, host: str, networks: bool) -> bool:
        """Tells whether the ACL applies to clients on this host. With `networks` the host of an ACL may be a network."""
        return self.host in (WILDCARD, host) or (networks and holds(self.host, host))

    def covers(self, operation: Operation) -> bool:
        """Tells whether the ACL applies to this operation."""
        if self.operation == Operation.ALL:
            return True
        implied = IMPLIED_BY.get(operation, ()) if self.permission == Permission.ALLOW else ()
        return self.operation in (implied or (operation,))


KNOWN: dict[type[IntEnum], frozenset[int]] = {
    each: frozenset(each) for each in (ResourceType, PatternType, Operation, Permission)
}
"""For each enumeration: the numbers that have a meaning in Kafka."""


class Filter(NamedTuple):
    """A filter of ACLs. A field that is None matches every name, principal or host; ANY matches every type."""

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def has_zero(self) -> bool:
        """Tells whether the filter contains the number that Kafka reserves for unknown values."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    @property
    def unknown_part(self) -> str | None:
        """If a part of the filter has an unknown number, returns Kafka's name of this part, else None."""
        if self.resource_type not in KNOWN[ResourceType] or self.pattern_type not in KNOWN[PatternType]:
            return "patternFilter"
        known = self.operation in KNOWN[Operation] and self.permission in KNOWN[Permission]
        return None if known else "entryFilter"

    def matches(self, acl: Acl) -> bool:
        """Tells whether the filter matches this ACL. With the pattern type MATCH, the filter's name is the name of a resource,
        and the filter matches all ACLs that apply to this resource."""
        exact = (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )
        if not exact or self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        return acl.name == WILDCARD if acl.pattern_type == PatternType.LITERAL else self.name.startswith(acl.name)


class Ruling(NamedTuple):
    """The decision to allow or refuse an operation."""

    allowed: bool
    by: Acl | None = None
    """The ACL that decides, or None if no ACL decides."""
    known: bool = True
    """Tells whether the resource has any ACL."""


class About(NamedTuple):
    """The ACLs that apply to one resource and one principal, including the ACLs for everybody."""

    acls: list[Acl]
    known: bool
    """Tells whether the resource has any ACL, for this or any other principal."""


class Acls:
    """The ACLs of a cluster, and the search for the ACLs that apply."""

    def __init__(self, *, networks: bool = True) -> None:
        """`networks` tells whether the host of an ACL may be a network. Kafka allows networks since 4.4."""
        self.networks = networks
        self.ids: dict[Acl, bytes] = {}
        """All ACLs, with the ids of their records, in the order in which they were made."""
        self._made = 0
        self._named: dict[Place, dict[str, dict[Acl, int]]] = {}
        """The ACLs for each place and principal. Each ACL has a number; later ACLs have higher numbers."""
        self._of: dict[str, dict[Acl, None]] = {}
        """The ACLs of each principal."""
        self._prefixes: dict[int, Counter[int]] = defaultdict(Counter)
        """For each type of resource and each length: the number of different prefixes of this length in ACLs."""

    def __iter__(self) -> Iterator[Acl]:
        return iter(self.ids)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self.ids

    def add(self, acl: Acl, acl_id: bytes) -> None:
        """Add an ACL that does not exist yet."""
        self.ids[acl] = acl_id
        self._made += 1
        alike = self._named.get(_place(acl))
        if alike is None:
            alike = self._named[_place(acl)] = {}
            if acl.pattern_type == PatternType.PREFIXED:
                self._prefixes[acl.resource_type][len(acl.name)] += 1
        alike.setdefault(acl.principal, {})[acl] = self._made
        self._of.setdefault(acl.principal, {})[acl] = None

    def remove(self, acl: Acl) -> None:
        """Remove an ACL. Raises KeyError if the ACL does not exist."""
        del self.ids[acl]
        alike = self._named[_place(acl)]
        for by_principal in (alike, self._of):
            del by_principal[acl.principal][acl]
            if not by_principal[acl.principal]:
                del by_principal[acl.principal]
        if alike:
            return
        del self._named[_place(acl)]
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._prefixes[acl.resource_type]
            lengths[len(acl.name)] -= 1
            if not lengths[len(acl.name)]:
                del lengths[len(acl.name)]
            if not lengths:
                del self._prefixes[acl.resource_type]

    def about(self, resource_type: ResourceType, name: str, principal: str) -> About:
        """Returns the ACLs that apply to a resource and a principal. The search skips the ACLs of other principals."""
        found: list[Acl] = []
        known = False
        for place in self._places(resource_type, name):
            if alike := self._named.get(place):
                known = True
                found += alike.get(principal, ())
                if principal != EVERYBODY:
                    found += alike.get(EVERYBODY, ())
        return About(found, known)

    def _places(self, resource_type: int, name: str) -> Iterator[Place]:
        """Yields each `Place` whose ACLs apply to a resource."""
        yield resource_type, PatternType.LITERAL, name
        if name != WILDCARD:
            yield resource_type, PatternType.LITERAL, WILDCARD
        for length in self._prefixes.get(resource_type, ()):
            if length <= len(name):
                yield resource_type, PatternType.PREFIXED, name[:length]

    def meant_by(self, wanted: Filter) -> list[Acl]:
        """Returns the ACLs that match a filter, in the order in which they were created. If the filter has neither a name nor a
        principal, all ACLs are searched."""
        return [acl for acl in self.among(wanted) if wanted.matches(acl)]

    def among(self, wanted: Filter) -> Iterable[Acl]:
        """Returns all ACLs that a filter matches, and perhaps further ACLs, in the order in which they were created."""
        if wanted.name is None:
            return self.ids if wanted.principal is None else self._of.get(wanted.principal, ())
        types = ResourceType if wanted.resource_type == ResourceType.ANY else (wanted.resource_type,)
        found: dict[Acl, int] = {}
        for resource_type in types:
            places = {(resource_type, PatternType.PREFIXED, wanted.name), *self._places(resource_type, wanted.name)}
            for alike in (self._named.get(place, {}) for place in places):
                for held in alike.values() if wanted.principal is None else (alike.get(wanted.principal, {}),):
                    found |= held
        return sorted(found, key=found.__getitem__)

    def allows_some(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Tells whether there may be a resource of the type on which the operation is allowed (KIP-679).

        Considers only ACLs for this operation or for ALL, as Kafka's `Authorizer.authorizeByResourceType` does.
        """
        about = [
            acl
            for who in {principal, EVERYBODY}
            for acl in self._of.get(who, ())
            if acl.resource_type == resource_type
            and acl.comes_from(host, self.networks)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = {(acl.pattern_type, acl.name) for acl in about if acl.permission == Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(_stands(acl, denied) for acl in about if acl.permission == Permission.ALLOW)


def ruling(about: About, host: str, operation: Operation, *, networks: bool = True) -> Ruling:
    """Decides whether the ACLs about a resource allow this operation. If no ACL applies, the operation is not allowed."""
    allowing: Acl | None = None
    for acl in about.acls:
        if acl.comes_from(host, networks) and acl.covers(operation):
            if acl.permission == Permission.DENY:
                return Ruling(False, acl)
            allowing = acl
    return Ruling(allowing is not None, allowing, about.known)


Place = tuple[int, int, str]
"""A type of resource, a type of pattern, and a name."""


def _place(acl: Acl) -> Place:
    return acl.resource_type, acl.pattern_type, acl.name


def _stands(acl: Acl, denied: Collection[tuple[int, str]]) -> bool:
    """Tells whether an ACL that allows the operation has an effect. It has no effect if an ACL in `denied` has its name, or a
    prefix of its name."""
    literal = acl.pattern_type == PatternType.LITERAL
    if literal and acl.name == WILDCARD:
        return True
    if literal and (PatternType.LITERAL, acl.name) in denied:
        return False
    return not any((PatternType.PREFIXED, acl.name[:end]) in denied for end in range(1, len(acl.name) + 1))


def bits(operations: Iterable[Operation]) -> int:
    """Encodes operations as in responses: one bit for each operation."""
    return sum(1 << operation for operation in operations)
