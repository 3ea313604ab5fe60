"""The authorizer of a cluster decides from settings and ACLs what a client may do (org.apache.kafka.metadata.authorizer).

The authorizer is off unless `authorizer.class.name` names Kafka's StandardAuthorizer. The users in `super.users` may do
everything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from wirebroker.core.acls import Operation, ResourceType, Ruling, bits, operations_on, ruling
from wirebroker.requests.connection import Connection

if TYPE_CHECKING:
    from wirebroker.core.cluster import Cluster

ANYTHING = "hardcode"
"""Kafka uses this resource name to check whether an operation is allowed on all resources of a type."""

Note = Callable[[Connection, str, str, str, str], None]
"""The type of a function that is called when the authorizer refuses what a client requested. Its arguments are the connection,
the operation, the resource's type and name, and the reason.
"""


class Authorizer:
    """Decides what clients may do."""

    def __init__(self, cluster: Cluster, note: Note) -> None:
        self._cluster = cluster
        self._note = note
        self._read_at = -1
        self._on = False
        self._super_users: frozenset[str] = frozenset()
        self._open = False
        """Tells whether clients may do everything with a resource that has no ACLs."""

    @property
    def on(self) -> bool:
        """Tells whether the cluster has an authorizer. Without an authorizer every client may do everything."""
        configs = self._cluster.configs
        if self._read_at != configs.version:
            self._read_at = configs.version
            self._on = bool(configs.text("authorizer.class.name"))
            self._super_users = frozenset(each.strip() for each in configs.text("super.users").split(";") if each.strip())
            self._open = bool(configs.value("allow.everyone.if.no.acl.found"))
        return self._on

    def may(self, connection: Connection, operation: Operation, kind: ResourceType, name: str, *, asked: bool = True) -> bool:
        """Tells whether the client may do this operation on the resource. If `asked` is True, the client has requested this
        operation itself, so a refusal is reported.
        """
        if not self.on:
            return True
        principal = str(connection.session.principal)
        if principal in self._super_users:
            return True
        acls = self._cluster.acls
        ruled = ruling(acls.about(kind, name, principal), connection.client_host, operation, networks=acls.networks)
        if ruled.allowed or (self._open and not ruled.known):
            return True
        if asked:
            why = _reason(ruled, f"{principal} {operation.name} on {kind.name} {name}")
            self._note(connection, operation.name, kind.name, name, why)
        return False

    def sees_topic(self, connection: Connection) -> Callable[[str], bool] | None:
        """Returns None if the client may describe all topics; else a function that tells whether the client may describe a
        given topic. The caller may keep the function and call it later.
        """
        if not self.on or str(connection.session.principal) in self._super_users:
            return None
        return partial(self.may, connection, Operation.DESCRIBE, ResourceType.TOPIC, asked=False)

    def may_some(self, connection: Connection, operation: Operation, kind: ResourceType) -> bool:
        """Tells whether the client may do this operation on at least one resource of the type (KIP-679)."""
        return self.may(connection, operation, kind, ANYTHING, asked=False) or self._cluster.acls.allows_some(
            str(connection.session.principal), connection.client_host, operation, kind
        )

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:
        """Returns the operations that the client may do with a resource, encoded as in responses: one bit for each
        operation.
        """
        principal, host = str(connection.session.principal), connection.client_host
        acls = self._cluster.acls
        about = acls.about(kind, name, principal)
        known = operations_on(kind, self._cluster.configs.release)
        if not self.on or principal in self._super_users or (self._open and not about.known):
            return bits(known)
        return bits(each for each in known if ruling(about, host, each, networks=acls.networks).allowed)


def _reason(ruled: Ruling, wanted: str) -> str:
    """Returns why the authorizer refused an operation."""
    if ruled.by is not None:
        return str(ruled.by)
    return f"no ACL allows {wanted}" if ruled.known else "the resource has no ACL"
