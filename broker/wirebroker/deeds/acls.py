"""The ACLs of a cluster with an authorizer."""

from __future__ import annotations

from typing import Annotated

from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.acls import Acl
from wirebroker.deeds.declaring import UNWRITTEN, Deeds, about, deed
from wirebroker.deeds.errors import NoSuch, Unfit
from wirebroker.security.acl_specs import acl_of, text_of

__tracebackhide__ = True  # pytest shows the caller's line
EXAMPLES = ["allow User:alice READ TOPIC orders"]


class NotAnAcl(Unfit):
    """Raised for a text that is not an ACL."""

    status, field = 422, "acl"


class NoAuthorizer(Unfit):
    """Raised if the cluster has no authorizer. Such a cluster cannot have ACLs."""

    status, field = 409, "acl"


class AclDeeds(Deeds):
    """The deeds that change ACLs."""

    @deed("POST", "/acls", status=201, shows="acls", problems={409: "the broker has no authorizer", **UNWRITTEN})
    def add_acl(self, acl: Annotated[str, about("in the form of MockKafka(acls=…)", examples=EXAMPLES)]) -> None:
        """Add an ACL. If the ACL exists already, nothing changes. Raises ValueError if the text is not an ACL, or if the broker
        has no authorizer."""
        if not self._engine.authorizer.on:
            raise NoAuthorizer("this broker has no authorizer; start it with --acl, MockKafka(acls=…) or authorizer.class.name")
        self._engine.cluster.alter_acls([_read(acl)], ())
        self._write_down()

    @deed("DELETE", "/acls", shows="acls", problems={404: "there is no such ACL", **UNWRITTEN})
    def remove_acl(self, acl: Annotated[str | None, about("null: all ACLs", examples=EXAMPLES)] = None) -> None:
        """Remove an ACL, or all ACLs if no ACL is given. Raises ValueError if there is no such ACL."""
        known = self._engine.cluster.acls.ids
        gone = list(known) if acl is None else [_read(acl)]
        if acl is not None and gone[0] not in known:
            raise NoSuch("acl", f"there is no ACL {acl!r}{did_you_mean(acl, map(text_of, known))}")
        self._engine.cluster.alter_acls((), gone)
        self._write_down()


def _read(text: str) -> Acl:
    try:
        return acl_of(text)
    except ValueError as wrong:
        raise NotAnAcl(str(wrong)) from None
